//! The language server and ground truth: annotation files, alignment in every view, labelling.

#![allow(clippy::unwrap_used, clippy::expect_used)] // Helpers of tests are tests.

#[path = "support/lsp.rs"]
mod support;
#[path = "support/workspace.rs"]
mod workspace;

use serde_json::{Value, json};
use std::time::Duration;
use support::{Client, Knobs, UNIT, at, insert, plugin, text_of, with};
use workspace::{Workspace, command, copy_row, explained, is_aligned, titles, until};

// ------------------------------------------------------------------------------------------------------- alignment

#[test]
fn alignment_is_in_every_view() {
    let workspace = Workspace::new();
    workspace.annotate(&[copy_row("bob", "vulnerable", &[2])]);
    let (mut client, _) = workspace.opened(workspace.setup());
    let uri = workspace.uri("unit.c");

    let finding = explained(&mut client, &uri, 3);
    let alignment = &finding["alignment"];
    assert!(alignment["da"].as_f64().unwrap() > 0.0, "{alignment}");
    assert_eq!(alignment["lines"], json!([3]));
    assert_eq!(alignment["label"], "vulnerable");
    assert_eq!(alignment["policy"], "majority");
    assert_eq!(alignment["nullAllLines"], 0.25);
    assert_eq!(alignment["perAnnotator"], json!({"bob": alignment["da"]}));
    assert_eq!(alignment["topK"]["10"], true);
    let marked: Vec<&Value> =
        finding["lines"].as_array().unwrap().iter().filter(|line| line["groundTruth"] == true).collect();
    assert_eq!(marked.len(), 1);
    assert_eq!(marked[0]["line"], 3);
    // Nobody said anything about `add`.
    assert!(explained(&mut client, &uri, 8).get("alignment").is_none());

    let name = client.hover(&uri, 2, 5);
    let name = text_of(&name);
    assert!(name.contains("ground truth: vulnerable by bob, line 4, CWE-787"), "{name}");
    assert!(name.contains("| method | DA | null (all) | null (perm.) | IFA |"), "{name}");
    let line = client.hover(&uri, 3, 10);
    assert!(text_of(&line).contains("ground truth: a flaw by bob"), "{line}");
    assert!(!text_of(&client.hover(&uri, 4, 10)).contains("ground truth"));

    let range = json!({"start": {"line": 0, "character": 0}, "end": {"line": 20, "character": 0}});
    let hints = json!({"textDocument": {"uri": uri}, "range": range});
    let hints = client.call("textDocument/inlayHint", hints).unwrap();
    let marked: Vec<&Value> = hints
        .as_array()
        .unwrap()
        .iter()
        .filter(|hint| hint["label"].as_str().unwrap().starts_with("● "))
        .collect();
    assert_eq!(marked.len(), 1, "{hints}");
    assert_eq!(marked[0]["position"]["line"], 3);
    assert!(marked[0]["tooltip"].as_str().unwrap().ends_with("; ground truth"), "{hints}");

    let da = alignment["da"].as_f64().unwrap();
    let null = alignment["nullPermutation"].as_f64().unwrap();
    let titles = titles(&mut client, &uri);
    assert_eq!(
        titles,
        [
            format!("p 0.94 · attention:last · DA {da:.2} (null {null:.2})"),
            "explain with…".to_string(),
            "compare methods".to_string(),
            "p 0.12 · attention:last".to_string(),
            "explain with…".to_string(),
            "compare methods".to_string(),
        ]
    );
    client.finish();
}

#[test]
fn a_line_that_changed_since_it_was_labelled_is_marked_so() {
    let workspace = Workspace::new();
    let mut row = copy_row("bob", "vulnerable", &[2]);
    let now = row["lines"][0]["text"].as_str().unwrap().to_string();
    row["lines"][0]["text"] = json!(now.replace(';', " + 1;"));
    row["lines"][0]["before"] = json!(UNIT.lines().nth(2).unwrap());
    row["lines"][0]["after"] = json!(UNIT.lines().nth(4).unwrap());
    workspace.annotate(&[row]);
    let (mut client, _) = workspace.opened(workspace.setup());
    let uri = workspace.uri("unit.c");
    let finding = explained(&mut client, &uri, 3);
    assert_eq!((&finding["alignment"]["changed"], &finding["alignment"]["lines"]), (&json!(1), &json!([3])));
    let marked = |line: &&Value| line["approximate"] == true;
    assert_eq!(finding["lines"].as_array().unwrap().iter().filter(marked).count(), 1);
    let hover = client.hover(&uri, 3, 10);
    let line = text_of(&hover);
    assert!(
        line.contains("ground truth: a flaw by bob")
            && line.contains("may have changed since it was labelled"),
        "{line}"
    );
    let hover = client.hover(&uri, 2, 5);
    let name = text_of(&hover);
    assert!(name.contains("1 of 1 line may have changed since labelled"), "{name}");
    let range = json!({"start": {"line": 0, "character": 0}, "end": {"line": 20, "character": 0}});
    let hints = json!({"textDocument": {"uri": uri}, "range": range});
    let hints = client.call("textDocument/inlayHint", hints).unwrap().to_string();
    assert!(hints.contains("\"~ ") && !hints.contains('●'), "{hints}");
    assert!(titles(&mut client, &uri)[0].ends_with("; 1 of 1 line may have changed since labelled)"));
    client.finish();
}

#[test]
fn a_record_without_a_function_is_a_hint_where_that_stood() {
    let workspace = Workspace::new();
    let gone = json!({"file": "unit.c", "function": "gone", "range": [8, 10], "label": "vulnerable", "annotator": "bob",
        "lines": [{"line": 2, "text": "\tgets(line);", "label": "flaw"}]});
    workspace.annotate(&[copy_row("bob", "vulnerable", &[2]), gone]);
    let mut setup = workspace.setup();
    setup.capabilities = support::plain();
    let knobs = Knobs::default();
    let mut client = Client::start(setup, &knobs);
    client.ignore("window/logMessage");
    let uri = workspace.uri("unit.c");
    client.open(&uri, UNIT);
    let deadline = std::time::Instant::now() + support::PATIENCE;
    loop {
        let published = client.expect("textDocument/publishDiagnostics");
        let all = published["diagnostics"].as_array().unwrap().clone();
        let lost: Vec<&Value> = all.iter().filter(|d| d["code"] == "unmatched-annotation").collect();
        if let [hint] = lost.as_slice() {
            assert_eq!((&hint["severity"], &hint["range"]["start"]["line"]), (&json!(4), &json!(7)));
            let said = hint["message"].as_str().unwrap();
            assert!(said.starts_with("annotations.jsonl, row 3: unmatched: gone, vulnerable"), "{said}");
            break;
        }
        assert!(std::time::Instant::now() < deadline, "no hint: {published}");
    }
    client.ignore("textDocument/publishDiagnostics");
    client.take("textDocument/publishDiagnostics");
    client.finish();
}

#[test]
fn no_label_is_offered_to_be_taken_back_on_an_overload_that_has_none() {
    let one = "int parse(int n)\n{\n\treturn n;\n}\n";
    let two = "int parse(char *s)\n{\n\tputs(s);\n\treturn 1;\n}";
    let hash: String = {
        use sha2::Digest;
        sha2::Sha256::digest(two).iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let workspace = Workspace::new();
    let row = json!({"file": "o.cpp", "function": "parse", "range": [6, 10], "body_sha256": hash, "label": "vulnerable",
        "annotator": "ann", "lines": [{"line": 3, "text": "\tputs(s);", "label": "flaw"}]});
    workspace.annotate(&[row]);
    let text = format!("{}{one}\n{two}\n", "// a line above\n".repeat(40));
    std::fs::write(workspace.path("o.cpp"), &text).unwrap();
    let (mut client, _) = workspace.opened_as_is(workspace.setup());
    let uri = workspace.uri("o.cpp");
    client.open(&uri, &text);
    client.settle();
    until(&mut client, "alignment", |client| explained(client, &uri, 47).get("alignment").is_some());
    assert!(explained(&mut client, &uri, 42).get("alignment").is_none());
    let mut label = at(&uri, 42, 4);
    label["label"] = json!("vulnerable");
    command(&mut client, "linelens.setLabel", label).unwrap();
    let rows = workspace.rows();
    assert_eq!(rows.len(), 2);
    assert_eq!((&rows[1]["label"], &rows[1]["range"]), (&json!("vulnerable"), &json!([41, 44])));
    client.finish();
}

#[test]
fn the_lens_asks_for_a_method() {
    let workspace = Workspace::new();
    let (mut client, _) = workspace.opened(workspace.setup());
    let uri = workspace.uri("unit.c");
    let lenses = client.call("textDocument/codeLens", json!({"textDocument": {"uri": uri}})).unwrap();
    let lens = &lenses[1]["command"];
    assert_eq!(lens["title"], "explain with…");
    client.choice = Some(json!("attention:first"));
    client.command(lens["command"].as_str().unwrap(), lens["arguments"].clone()).unwrap();
    until(&mut client, "other method", |client| {
        titles(client, &uri).first().is_some_and(|title| title.starts_with("p 0.94 · attention:first"))
    });
    let asked =
        client.requests.iter().find(|request| request["method"] == "window/showMessageRequest").unwrap();
    let offered: Vec<&str> =
        asked["params"]["actions"].as_array().unwrap().iter().map(|a| a["title"].as_str().unwrap()).collect();
    assert_eq!(offered, ["attention:first", "attention:last"]);
    // Who chooses nothing changes nothing.
    client.choice = None;
    client.command("linelens.explainWith", json!([at(&uri, 3, 4)])).unwrap();
    client.settle();
    assert!(titles(&mut client, &uri)[0].contains("attention:first"));
    client.finish();
}

#[test]
fn statements_are_shown_and_aligned_in_the_place_of_lines() {
    let source = "int copy(char *to, const char *from)\n{\n\tstrcpy(to,\n\t       from);\n\treturn 1;\n}\n";
    let workspace = Workspace::new();
    std::fs::write(workspace.path("unit.c"), source).unwrap();
    let row = json!({"file": "unit.c", "function": "copy", "range": [1, 6], "label": "vulnerable", "annotator": "bob",
        "lines": [{"line": 4, "text": "\t       from);", "label": "flaw"}]});
    workspace.annotate(&[row]);
    let found = |granularity: &str| -> Value {
        let mut setup = workspace.setup();
        setup.options["granularity"] = json!(granularity);
        let mut client = Client::start(setup, &Knobs::default());
        for ignored in ["textDocument/publishDiagnostics", "linelens/relevance", "window/logMessage"] {
            client.ignore(ignored);
        }
        let uri = workspace.uri("unit.c");
        client.open(&uri, source);
        client.settle();
        until(&mut client, "alignment", |client| explained(client, &uri, 2).get("alignment").is_some());
        let finding = explained(&mut client, &uri, 2);
        client.finish();
        finding
    };
    let score = |finding: &Value, line: u64| {
        let lines = finding["lines"].as_array().unwrap();
        lines.iter().find(|found| found["line"] == line).unwrap()["score"].as_f64().unwrap()
    };
    let (lines, statements) = (found("line"), found("statement"));
    assert_eq!(lines["profile"], "editor");
    assert_eq!(statements["profile"], "editor+granularity=statement");
    // The call is one statement on two lines, and the labelled line makes it true; the braces are one statement, too.
    assert_ne!(score(&lines, 2), score(&lines, 3));
    assert_eq!(score(&statements, 2), score(&statements, 3));
    assert!((lines["alignment"]["nullAllLines"].as_f64().unwrap() - 1.0 / 6.0).abs() < 1e-12, "{lines}");
    assert!((statements["alignment"]["nullAllLines"].as_f64().unwrap() - 0.25).abs() < 1e-12, "{statements}");
}

#[test]
fn undefined_and_unflagged_are_told_apart() {
    let workspace = Workspace::new();
    let add = json!({"file": "unit.c", "function": "add", "range": [8, 10], "label": "vulnerable",
        "lines": [{"line": 2, "text": "    return a + b;", "label": "flaw"}], "annotator": "bob"});
    workspace.annotate(&[copy_row("bob", "vulnerable", &[]), add]);
    let (mut client, _) = workspace.opened(workspace.setup());
    let uri = workspace.uri("unit.c");
    let undefined = explained(&mut client, &uri, 3);
    assert_eq!(undefined["alignment"]["da"], Value::Null);
    assert!(undefined["alignment"]["reason"].as_str().unwrap().contains("names no line"));
    let unflagged = explained(&mut client, &uri, 8);
    assert_eq!(unflagged["alignment"]["da"], 0.0);
    assert!(unflagged["alignment"]["wouldBe"].as_f64().is_some());
    let titles = titles(&mut client, &uri);
    assert!(titles[0].ends_with("DA undefined"), "{titles:?}");
    assert!(titles[3].contains("DA 0.00 (would be "), "{titles:?}");
    client.finish();
}

#[test]
fn several_annotators_and_a_policy() {
    let workspace = Workspace::new();
    workspace.annotate(&[
        copy_row("ann", "vulnerable", &[2, 3]),
        copy_row("bob", "vulnerable", &[2]),
        copy_row("cid", "vulnerable", &[1, 2]),
    ]);
    let uri = workspace.uri("unit.c");
    for (policy, lines) in [
        ("majority", json!([3])),
        ("union", json!([2, 3, 4])),
        ("intersection", json!([3])),
        ("annotator:ann", json!([3, 4])),
    ] {
        let mut setup = workspace.setup();
        setup.options["annotationPolicy"] = json!(policy);
        let (mut client, _) = workspace.opened(setup);
        let finding = explained(&mut client, &uri, 3);
        assert_eq!(finding["alignment"]["lines"], lines, "{policy}");
        assert_eq!(finding["alignment"]["policy"], policy);
        assert_eq!(finding["alignment"]["perAnnotator"].as_object().unwrap().len(), 3);
        client.finish();
    }
}

#[test]
fn hovers_name_who_says_nothing() {
    let workspace = Workspace::new();
    workspace.annotate(&[copy_row("ann", "vulnerable", &[2]), copy_row("bob", "vulnerable", &[2])]);
    let uri = workspace.uri("unit.c");
    for (key, value, says) in [
        ("annotationPolicy", "annotator:zed", "ground truth: zed has labelled nothing here (annotator:zed)"),
        ("annotationPolicy", "annotator:zed", "DA is undefined: zed has labelled nothing here"),
        ("annotationPolicy", "annotator:bob", "ground truth: vulnerable by bob, line 4"),
    ] {
        let mut setup = workspace.setup();
        setup.options[key] = json!(value);
        let (mut client, _) = workspace.opened(setup);
        let hover = client.hover(&uri, 2, 5);
        assert!(text_of(&hover).contains(says), "{hover}");
        client.finish();
    }
}

#[test]
fn ground_truth_follows_the_text() {
    let workspace = Workspace::new();
    workspace.annotate(&[copy_row("bob", "vulnerable", &[2])]);
    let (mut client, knobs) = workspace.opened(workspace.setup());
    let uri = workspace.uri("unit.c");
    client.change(&uri, 2, insert(3, 0, "    check(to);\n"));
    client.settle();
    assert_eq!(explained(&mut client, &uri, 3)["alignment"]["lines"], json!([4]));
    client.change(&uri, 3, insert(0, 0, "\n\n"));
    client.settle();
    assert_eq!(explained(&mut client, &uri, 5)["alignment"]["lines"], json!([6]));
    assert!(knobs.runs().len() >= 3);
    client.finish();
}

// ----------------------------------------------------------------------------------------------------------- files

#[test]
fn annotation_files_are_watched_and_cost_no_run() {
    let workspace = Workspace::new();
    let mut setup = workspace.setup();
    setup.capabilities =
        with(plugin(), "workspace.didChangeWatchedFiles", json!({"dynamicRegistration": true}));
    let (mut client, knobs) = workspace.opened(setup);
    let uri = workspace.uri("unit.c");
    let registered =
        &client.requests.iter().find(|r| r["method"] == "client/registerCapability").unwrap()["params"];
    let watchers = registered["registrations"][0]["registerOptions"]["watchers"].to_string();
    assert!(watchers.contains("**/*.jsonl") && watchers.contains("linelens.toml"), "{watchers}");
    assert!(explained(&mut client, &uri, 3).get("alignment").is_none());
    let runs = knobs.runs().len();
    workspace.annotate(&[copy_row("bob", "vulnerable", &[2])]);
    let changed = format!("file://{}", workspace.annotations().display());
    client.take("linelens/relevance");
    client.notify("workspace/didChangeWatchedFiles", json!({"changes": [{"uri": changed, "type": 1}]}));
    until(&mut client, "alignment", |client| is_aligned(client, &uri));
    assert_eq!(knobs.runs().len(), runs, "the model did not run again");
    client.finish();
}

#[test]
fn ground_truth_of_a_function_that_is_not_shaded_is_sent_too() {
    let workspace = Workspace::new();
    let add = json!({"file": "unit.c", "function": "add", "range": [8, 10], "label": "vulnerable", "annotator": "bob",
        "lines": [{"line": 2, "text": "    return a + b;", "before": "int add(int a, int b) {", "after": "}", "label": "flaw"}]});
    workspace.annotate(&[copy_row("bob", "vulnerable", &[2]), add]);
    let mut client = Client::start(workspace.setup(), &Knobs::default());
    client.ignore("textDocument/publishDiagnostics");
    client.ignore("window/logMessage");
    let uri = workspace.uri("unit.c");
    client.open(&uri, UNIT);
    let told = |client: &mut Client, functions: usize, version: i32| loop {
        let told = client.expect("linelens/relevance");
        let count = told["functions"].as_array().unwrap().len();
        // Annotation files are read beside the analysis.
        let is_whole = functions == 2 || !told["groundTruth"].is_null();
        if is_whole && count == functions && told["textDocument"]["version"] == version {
            break told["groundTruth"].clone();
        }
    };
    // `copy` is flagged, `add` is not.
    assert_eq!(told(&mut client, 1, 1), json!([{"line": 8}]));
    // When the cursor comes, it is shaded.
    explained(&mut client, &uri, 8);
    assert_eq!(told(&mut client, 2, 1), Value::Null);
    // A line that is another one now is only approximate.
    let edited = UNIT.replace("    return a + b;", "    return a + b + 0;");
    client.change(&uri, 2, json!([{"text": edited}]));
    explained(&mut client, &uri, 3);
    assert_eq!(told(&mut client, 1, 2), json!([{"line": 8, "approximate": true}]));
    client.finish();
}

#[test]
fn without_watchers_a_save_looks_again() {
    let workspace = Workspace::new();
    let (mut client, _) = workspace.opened(workspace.setup());
    let uri = workspace.uri("unit.c");
    workspace.annotate(&[copy_row("bob", "vulnerable", &[2])]);
    client.notify("textDocument/didSave", json!({"textDocument": {"uri": uri}}));
    until(&mut client, "alignment", |client| is_aligned(client, &uri));
    client.finish();
}

#[test]
fn a_second_record_of_an_annotator_is_a_warning_at_its_row() {
    let workspace = Workspace::new();
    let row = |annotator| copy_row(annotator, "vulnerable", &[2]);
    workspace.annotate(&[row("bob"), row("ann"), row("bob")]);
    let knobs = Knobs::default();
    let mut client = Client::start(workspace.setup(), &knobs);
    client.ignore("linelens/relevance");
    client.ignore("window/logMessage");
    client.open(&workspace.uri("unit.c"), UNIT);
    client.settle();
    let file = format!("file://{}", workspace.annotations().display());
    let mut diagnostics = Vec::new();
    until(&mut client, "warning", |client| {
        let published = client.take("textDocument/publishDiagnostics");
        for message in published.iter().filter(|message| message["uri"] == json!(file)) {
            diagnostics = message["diagnostics"].as_array().unwrap().clone();
        }
        !diagnostics.is_empty()
    });
    assert_eq!(diagnostics.len(), 1, "{diagnostics:?}");
    let said = diagnostics[0]["message"].as_str().unwrap();
    let row = 1 + diagnostics[0]["range"]["start"]["line"].as_u64().unwrap();
    assert!(
        said.starts_with(&format!("row {row}: bob labelled this function before, in row {}", row - 2)),
        "{said}"
    );
    client.finish();
}

#[test]
fn bad_rows_are_diagnostics_of_the_annotation_file() {
    let workspace = Workspace::new();
    workspace.annotate(&[json!({"label": "maybe"}), copy_row("bob", "vulnerable", &[2])]);
    let knobs = Knobs::default();
    let mut client = Client::start(workspace.setup(), &knobs);
    client.ignore("linelens/relevance");
    client.ignore("window/logMessage");
    client.open(&workspace.uri("unit.c"), UNIT);
    client.settle();
    let file = format!("file://{}", workspace.annotations().display());
    let of_file = |client: &mut Client| -> Vec<Value> {
        let published = client.take("textDocument/publishDiagnostics");
        published.into_iter().filter(|p| p["uri"] == json!(file)).collect()
    };
    let mut diagnostics = Vec::new();
    until(&mut client, "warning", |client| {
        diagnostics =
            of_file(client).last().map_or(Vec::new(), |p| p["diagnostics"].as_array().unwrap().clone());
        !diagnostics.is_empty()
    });
    assert_eq!(diagnostics.len(), 1);
    assert_eq!(diagnostics[0]["severity"], 2);
    assert_eq!(diagnostics[0]["code"], "bad-annotation");
    assert_eq!(diagnostics[0]["range"]["start"]["line"], 1, "the header is line 0");
    // The other row counts.
    until(&mut client, "alignment", |client| is_aligned(client, &workspace.uri("unit.c")));
    assert_eq!(explained(&mut client, &workspace.uri("unit.c"), 3)["alignment"]["lines"], json!([3]));
    // Mended, the warning goes.
    workspace.annotate(&[copy_row("bob", "vulnerable", &[2])]);
    client.notify("workspace/didChangeWatchedFiles", json!({"changes": [{"uri": file, "type": 2}]}));
    until(&mut client, "end of the warnings", |client| {
        of_file(client).last().is_some_and(|published| published["diagnostics"] == json!([]))
    });
    client.ignore("textDocument/publishDiagnostics");
    client.take("textDocument/publishDiagnostics");
    client.finish();
}

#[test]
fn each_workspace_folder_has_its_own_ground_truth() {
    let (one, two) = (Workspace::new(), Workspace::new());
    one.annotate(&[copy_row("bob", "vulnerable", &[2])]);
    let mut setup = one.setup();
    setup.folders = vec![one.uri(""), two.uri("")];
    let (mut client, _) = one.opened(setup);
    client.open(&two.uri("unit.c"), UNIT);
    client.settle();
    assert!(explained(&mut client, &one.uri("unit.c"), 3).get("alignment").is_some());
    assert!(explained(&mut client, &two.uri("unit.c"), 3).get("alignment").is_none());
    // What is said of the second goes to the second's file.
    command(&mut client, "linelens.toggleGroundTruthLine", at(&two.uri("unit.c"), 4, 0)).unwrap();
    assert_eq!(two.rows().len(), 1);
    assert_eq!(one.rows().len(), 1);
    assert_eq!(explained(&mut client, &two.uri("unit.c"), 3)["alignment"]["lines"], json!([4]));
    client.finish();
}

#[cfg(unix)]
#[test]
fn annotations_outside_the_folder_are_neither_read_nor_written() {
    let (inside, outside) = (Workspace::new(), Workspace::new());
    outside.annotate(&[copy_row("bob", "vulnerable", &[2])]);
    std::os::unix::fs::symlink(outside.path(".linelens"), inside.path(".linelens")).unwrap();
    let before = std::fs::read_to_string(outside.annotations()).unwrap();
    let mut setup = inside.setup();
    setup.options["annotations"] = json!([".linelens/annotations.jsonl", "../*/.linelens/*.jsonl"]);
    let knobs = Knobs::default();
    let mut client = Client::start(setup, &knobs);
    client.ignore("textDocument/publishDiagnostics");
    client.ignore("linelens/relevance");
    let uri = inside.uri("unit.c");
    client.open(&uri, UNIT);
    client.settle();
    assert!(explained(&mut client, &uri, 3).get("alignment").is_none());
    let error = command(&mut client, "linelens.toggleGroundTruthLine", at(&uri, 3, 0)).unwrap_err();
    assert_eq!(error["code"], -32803, "{error}");
    assert_eq!(std::fs::read_to_string(outside.annotations()).unwrap(), before);
    client.listen(Duration::from_millis(200));
    let told = client.take("window/showMessage");
    assert!(
        told.iter().any(|told| told["message"].as_str().unwrap().contains("outside the workspace folder"))
    );
    client.take("window/logMessage");
    client.finish();
}

#[cfg(unix)]
#[test]
fn what_lies_outside_the_folder_gets_no_label_in_it() {
    let (inside, outside) = (Workspace::new(), Workspace::new());
    std::os::unix::fs::symlink(outside.path(""), inside.path("linked")).unwrap();
    let knobs = Knobs::default();
    let mut client = Client::start(inside.setup(), &knobs);
    client.ignore("textDocument/publishDiagnostics");
    client.ignore("linelens/relevance");
    let name = outside.folder.path().file_name().unwrap().to_str().unwrap().to_string();
    let dots = format!("{}../{name}/unit.c", inside.uri(""));
    for (uri, says) in [(dots, "lies in no workspace folder"), (inside.uri("linked/unit.c"), "a link leads")]
    {
        client.open(&uri, UNIT);
        client.settle();
        let error = command(&mut client, "linelens.toggleGroundTruthLine", at(&uri, 3, 0)).unwrap_err();
        assert!(error["message"].as_str().unwrap().contains(says), "{error}");
    }
    assert!(!inside.annotations().exists() && !outside.annotations().exists());
    client.listen(Duration::from_millis(100));
    client.take("window/showMessage");
    client.take("window/logMessage");
    client.finish();
}

#[test]
fn lenses_are_renewed_when_what_they_say_changes() {
    let workspace = Workspace::new();
    let mut setup = workspace.setup();
    setup.capabilities = with(plugin(), "workspace.codeLens", json!({"refreshSupport": true}));
    let (mut client, _) = workspace.opened(setup);
    let uri = workspace.uri("unit.c");
    let asked = |client: &Client| {
        client.requests.iter().filter(|request| request["method"] == "workspace/codeLens/refresh").count()
    };
    until(&mut client, "refresh after the analysis", |client| asked(client) >= 1);
    client.listen(Duration::from_millis(100));
    let before = asked(&client);
    command(&mut client, "linelens.toggleGroundTruthLine", at(&uri, 3, 0)).unwrap();
    until(&mut client, "refresh", |client| asked(client) > before);
    assert!(titles(&mut client, &uri)[0].contains(" · DA 0."));
    client.finish();
}

// ------------------------------------------------------------------------------------------------------- labelling

#[test]
fn a_line_is_marked_and_unmarked_by_the_same_action() {
    let workspace = Workspace::new();
    let (mut client, knobs) = workspace.opened(workspace.setup());
    let uri = workspace.uri("unit.c");
    let runs = knobs.runs().len();
    let done = command(&mut client, "linelens.toggleGroundTruthLine", at(&uri, 3, 6)).unwrap();
    assert!(done["file"].as_str().unwrap().ends_with("/.linelens/annotations.jsonl"), "{done}");
    let rows = workspace.rows();
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0]["function"], "copy");
    assert_eq!(rows[0]["annotator"], "ann");
    assert_eq!(rows[0]["label"], "vulnerable");
    assert_eq!(rows[0]["lines"][0]["line"], 2);
    assert_eq!(rows[0]["lines"][0]["text"], "    strcpy(to, from);");
    let finding = explained(&mut client, &uri, 3);
    assert_eq!(finding["alignment"]["lines"], json!([3]));

    command(&mut client, "linelens.toggleGroundTruthLine", at(&uri, 3, 6)).unwrap();
    let finding = explained(&mut client, &uri, 3);
    assert_eq!(finding.pointer("/alignment/lines").cloned().unwrap_or(json!([])), json!([]));
    assert_eq!(knobs.runs().len(), runs, "labelling runs no model");
    client.finish();
}

#[test]
fn what_others_wrote_meanwhile_is_kept() {
    let workspace = Workspace::new();
    let (mut client, _) = workspace.opened(workspace.setup());
    let uri = workspace.uri("unit.c");
    workspace.annotate(&[copy_row("bob", "vulnerable", &[2])]);
    command(&mut client, "linelens.toggleGroundTruthLine", at(&uri, 4, 0)).unwrap();
    let rows = workspace.rows();
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert_eq!(rows[0], copy_row("bob", "vulnerable", &[2]));
    assert_eq!(rows[1]["annotator"], "ann");
    client.finish();
}

#[test]
fn who_was_faster_is_not_overwritten_and_the_user_is_told() {
    let workspace = Workspace::new();
    let (mut client, _) = workspace.opened(workspace.setup());
    let uri = workspace.uri("unit.c");
    // The same annotator marked the line elsewhere, and the server does not know it yet.
    workspace.annotate(&[copy_row("ann", "vulnerable", &[2])]);
    let before = std::fs::read_to_string(workspace.annotations()).unwrap();
    let error = command(&mut client, "linelens.toggleGroundTruthLine", at(&uri, 3, 0)).unwrap_err();
    assert!(error["message"].as_str().unwrap().contains("changed by another program"), "{error}");
    let shown = client.expect("window/showMessage");
    assert_eq!(shown["type"], 1);
    assert!(shown["message"].as_str().unwrap().contains("nothing was written"), "{shown}");
    assert_eq!(std::fs::read_to_string(workspace.annotations()).unwrap(), before);
    // Now it does.
    assert_eq!(explained(&mut client, &uri, 3)["alignment"]["lines"], json!([3]));
    command(&mut client, "linelens.toggleGroundTruthLine", at(&uri, 3, 0)).unwrap();
    assert_eq!(workspace.rows()[0].get("lines").cloned().unwrap_or(json!([])), json!([]));
    client.finish();
}

#[test]
fn labels_and_notes() {
    let workspace = Workspace::new();
    let (mut client, _) = workspace.opened(workspace.setup());
    let uri = workspace.uri("unit.c");
    let mut place = at(&uri, 8, 4);
    place["label"] = json!("benign");
    command(&mut client, "linelens.setLabel", place.clone()).unwrap();
    assert_eq!(workspace.rows()[0]["label"], "benign");
    let finding = explained(&mut client, &uri, 8);
    assert_eq!(finding["alignment"]["label"], "benign");
    assert_eq!(finding["alignment"]["da"], Value::Null);
    let said = |client: &mut Client, name: &str, place: &Value| {
        command(client, name, place.clone()).unwrap()["message"].as_str().unwrap().to_string()
    };
    let mut other = at(&uri, 3, 4);
    said(&mut client, "linelens.toggleGroundTruthLine", &other);
    other["label"] = json!("vulnerable");
    assert_eq!(said(&mut client, "linelens.setLabel", &other), "copy is labelled vulnerable");
    assert_eq!(
        said(&mut client, "linelens.setLabel", &other),
        "copy has no label of its own any more; by its lines it is vulnerable"
    );
    place["note"] = json!("adds two [numbers](command:x)");
    command(&mut client, "linelens.addNote", place.clone()).unwrap();
    assert_eq!(workspace.rows()[0]["note"], "adds two [numbers](command:x)");
    let hover = client.hover(&uri, 7, 5);
    assert!(text_of(&hover).contains("note: adds two \\[numbers\\]"), "{hover}");
    place["label"] = json!("harmless");
    assert_eq!(command(&mut client, "linelens.setLabel", place).unwrap_err()["code"], -32602);
    assert_eq!(command(&mut client, "linelens.addNote", at(&uri, 8, 4)).unwrap_err()["code"], -32602);
    // No function there.
    assert_eq!(command(&mut client, "linelens.toggleGroundTruthLine", at(&uri, 0, 0)).unwrap(), Value::Null);
    client.finish();
}

#[test]
fn code_actions_offer_what_can_be_done() {
    let workspace = Workspace::new();
    workspace.annotate(&[copy_row("ann", "vulnerable", &[2])]);
    let mut setup = workspace.setup();
    setup.capabilities = with(
        plugin(),
        "textDocument.codeAction",
        json!({"codeActionLiteralSupport": {"codeActionKind": {"valueSet": [""]}}}),
    );
    let (mut client, _) = workspace.opened(setup);
    let uri = workspace.uri("unit.c");
    let request = |client: &mut Client, line: u32, end: u32, only: Value| {
        let range = json!({"start": {"line": line, "character": 4}, "end": {"line": line, "character": end}});
        let mut context = json!({"diagnostics": []});
        if !only.is_null() {
            context["only"] = only;
        }
        let params = json!({"textDocument": {"uri": uri}, "range": range, "context": context});
        client.call("textDocument/codeAction", params).unwrap()
    };
    let titles = |actions: &Value| -> Vec<String> {
        let actions = actions.as_array().unwrap().iter();
        actions.map(|action| action["title"].as_str().unwrap().to_string()).collect()
    };
    let actions = request(&mut client, 3, 4, Value::Null);
    let found = titles(&actions);
    for title in [
        "linelens: unmark line 4 as ground truth",
        "linelens: label the function vulnerable, or take that label back",
        "linelens: label the function benign",
        "linelens: compare methods",
        "linelens: explain with attention:first",
        "linelens: add a note…",
    ] {
        assert!(found.iter().any(|found| found == title), "{title} is not in {found:?}");
    }
    assert!(actions.as_array().unwrap().iter().all(|action| action["kind"] == "linelens"));
    // The action's command does it.
    let unmark = &actions[0]["command"];
    client.command(unmark["command"].as_str().unwrap(), unmark["arguments"].clone()).unwrap();
    let found = titles(&request(&mut client, 3, 4, Value::Null));
    assert!(found.contains(&"linelens: mark line 4 as ground truth".to_string()), "{found:?}");
    let found = titles(&request(&mut client, 3, 20, Value::Null));
    assert!(found.contains(&"linelens: add the selected text as a note".to_string()), "{found:?}");
    assert_eq!(request(&mut client, 3, 4, json!(["quickfix"])), Value::Null);
    assert!(request(&mut client, 3, 4, json!(["linelens"])).is_array());
    assert_eq!(request(&mut client, 0, 4, Value::Null), Value::Null, "no function there");
    client.finish();
}
