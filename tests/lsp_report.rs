//! The language server in memory: functions ignored with a reason, and reports about files and folders.

#![allow(clippy::unwrap_used, clippy::expect_used)] // Helpers of tests are tests.

#[path = "support/folder.rs"]
mod folder;
#[path = "support/sarif.rs"]
mod sarif;
#[path = "support/lsp.rs"]
mod support;

use folder::Workspace;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use support::{Client, Knobs, PATIENCE, Setup, UNIT, at, plain, text_of, with};

impl Workspace {
    fn setup(&self) -> Setup {
        Setup {
            folders: vec![self.uri("")],
            options: json!({"debounceMs": 20, "analyze": "file", "method": "attention:last", "annotator": "ann"}),
            ..Setup::default()
        }
    }

    fn opened(&self, setup: Setup) -> (Client, Knobs) {
        let knobs = Knobs::default();
        let mut client = Client::start(setup, &knobs);
        client.ignore("window/logMessage");
        client.open(&self.uri("unit.c"), UNIT);
        client.settle();
        (client, knobs)
    }

    fn rows(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path(".linelens/ignore.jsonl")).unwrap();
        text.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// What is shown of a document in the end: how many diagnostics, and how many shaded functions.
fn until_shown(client: &mut Client, uri: &str, diagnostics: usize, shaded: usize) {
    let begun = Instant::now();
    let (mut marked, mut relevant) = (None, None);
    while (marked, relevant) != (Some(diagnostics), Some(shaded)) {
        assert!(begun.elapsed() < PATIENCE, "shown: {marked:?} and {relevant:?}");
        client.listen(Duration::from_millis(10));
        let of = |params: &Value, uri_at: &str, list: &str| {
            (params.pointer(uri_at) == Some(&json!(uri))).then(|| params[list].as_array().unwrap().len())
        };
        for params in client.take("textDocument/publishDiagnostics") {
            marked = of(&params, "/uri", "diagnostics").or(marked);
        }
        for params in client.take("linelens/relevance") {
            relevant = of(&params, "/textDocument/uri", "functions").or(relevant);
        }
    }
}

/// Whatever is shaded: the function under the cursor is in any case.
fn until_marked(client: &mut Client, uri: &str, count: usize) {
    let begun = Instant::now();
    let mut marked = None;
    while marked != Some(count) {
        assert!(begun.elapsed() < PATIENCE, "shown: {marked:?}");
        client.listen(Duration::from_millis(10));
        let all = client.take("textDocument/publishDiagnostics");
        let last = all.iter().rfind(|params| params["uri"] == uri);
        marked = last.map(|params| params["diagnostics"].as_array().unwrap().len()).or(marked);
    }
}

fn quiet(client: &mut Client) {
    for method in ["textDocument/publishDiagnostics", "linelens/relevance"] {
        client.ignore(method);
        client.take(method);
    }
}

fn ignore(client: &mut Client, uri: &str, line: u32, reason: Value) -> Result<Value, Value> {
    let mut params = at(uri, line, 4);
    params["reason"] = reason;
    client.command("linelens.ignore", json!([params]))
}

fn actions(client: &mut Client, uri: &str, line: u32) -> Vec<Value> {
    let place = json!({"line": line, "character": 4});
    let params = json!({"textDocument": {"uri": uri}, "range": {"start": place, "end": place}, "context": {"diagnostics": []}});
    client.call("textDocument/codeAction", params).unwrap().as_array().unwrap().clone()
}

fn titles(actions: &[Value]) -> Vec<String> {
    let ours = actions.iter().map(|action| action["title"].as_str().unwrap().to_string());
    ours.filter(|title| title.contains("ignore")).collect()
}

// ------------------------------------------------------------------------------------------------------------ ignoring

#[test]
fn an_ignored_function_is_shown_no_more_until_it_is_edited_or_taken_back() {
    let workspace = Workspace::new(&[("unit.c", UNIT)]);
    let (mut client, _) = workspace.opened(workspace.setup());
    let uri = workspace.uri("unit.c");
    until_shown(&mut client, &uri, 1, 1);
    let offered = actions(&mut client, &uri, 3);
    assert_eq!(
        titles(&offered),
        [
            "linelens: ignore this function: false positive",
            "linelens: ignore this function: accepted risk",
            "linelens: ignore this function…"
        ]
    );
    assert_eq!(titles(&actions(&mut client, &uri, 8)), [] as [&str; 0], "`add` is not flagged");
    // Asking for the actions is where the cursor is, for no client of ours.
    let action =
        offered.iter().find(|action| action["title"].as_str().unwrap().ends_with("false positive")).unwrap();
    let command = if action["command"].is_object() { &action["command"] } else { action };
    let done = client
        .call(
            "workspace/executeCommand",
            json!({"command": command["command"], "arguments": command["arguments"]}),
        )
        .unwrap();
    assert_eq!(done["message"], "copy is ignored for fake_[model] above 0.5: false positive");
    assert_eq!(done["file"], workspace.uri(".linelens/ignore.jsonl"));
    until_shown(&mut client, &uri, 0, 0);
    let rows = workspace.rows();
    assert_eq!(rows.len(), 1);
    assert_eq!(
        (&rows[0]["file"], &rows[0]["function"], &rows[0]["annotator"], &rows[0]["threshold"]),
        (&json!("unit.c"), &json!("copy"), &json!("ann"), &json!(0.5))
    );
    assert_eq!(rows[0]["model"], json!({"name": "fake_[model]", "sha256": "0".repeat(64)}));
    let lenses = client.call("textDocument/codeLens", json!({"textDocument": {"uri": uri}})).unwrap();
    assert_eq!(lenses[0]["command"]["title"], "p 0.94 · attention:last · ignored");
    assert!(text_of(&client.hover(&uri, 2, 5)).contains("ignored by ann: false positive"));
    assert_eq!(titles(&actions(&mut client, &uri, 3)), ["linelens: no longer ignore this function"]);
    // Elsewhere an edit changes nothing; in the function it is another text.
    client.change(&uri, 2, support::insert(0, 0, "\n"));
    client.settle();
    assert!(client.take("textDocument/publishDiagnostics").iter().all(|p| p["diagnostics"] == json!([])));
    client.change(&uri, 3, support::insert(4, 4, "to++; "));
    until_marked(&mut client, &uri, 1);
    client.change(&uri, 4, json!([{"text": UNIT}]));
    until_marked(&mut client, &uri, 0);
    let done = ignore(&mut client, &uri, 3, json!("")).unwrap();
    assert_eq!(done["message"], "copy is no longer ignored");
    until_marked(&mut client, &uri, 1);
    assert_eq!(workspace.rows().len(), 0);
    assert_eq!(ignore(&mut client, &uri, 3, json!(" ")).unwrap()["message"], "copy was not ignored");
    let done = ignore(&mut client, &uri, 3, json!("a\nb\u{202e}c")).unwrap();
    assert_eq!(done["message"], "copy is ignored for fake_[model] above 0.5: a\\u{a}b\\u{202e}c");
    ignore(&mut client, &uri, 3, json!("")).unwrap();
    until_marked(&mut client, &uri, 1);
    quiet(&mut client);
    client.finish();
}

#[test]
fn a_finding_says_why_its_function_is_ignored() {
    let workspace = Workspace::new(&[("unit.c", UNIT)]);
    let (mut client, _) = workspace.opened(workspace.setup());
    let uri = workspace.uri("unit.c");
    until_shown(&mut client, &uri, 1, 1);
    assert!(client.call("linelens/explain", at(&uri, 3, 4)).unwrap().get("ignored").is_none());
    // The cursor is in it, so that its relevance is still sent.
    for (reason, expected) in [("by hand", Some("by hand")), ("", None)] {
        ignore(&mut client, &uri, 3, json!(reason)).unwrap();
        let begun = Instant::now();
        let mut last = json!({});
        while last["functions"][0]["ignored"].as_str() != expected || last == json!({}) {
            assert!(begun.elapsed() < PATIENCE, "{last}");
            client.listen(Duration::from_millis(10));
            last = client.take("linelens/relevance").pop().unwrap_or(last);
        }
        assert_eq!(last["functions"][0]["function"]["name"], "copy");
        let finding = client.call("linelens/explain", at(&uri, 3, 4)).unwrap();
        assert_eq!(finding["ignored"].as_str(), expected);
    }
    quiet(&mut client);
    client.finish();
}

#[test]
fn a_decision_is_for_a_threshold_and_from_a_file_that_others_write() {
    let workspace = Workspace::new(&[("unit.c", UNIT)]);
    let (mut client, _) = workspace.opened(workspace.setup());
    let uri = workspace.uri("unit.c");
    ignore(&mut client, &uri, 3, json!("by hand")).unwrap();
    until_shown(&mut client, &uri, 0, 0);
    let settings =
        json!({"settings": {"linelens": {"threshold": 0.25, "debounceMs": 20, "analyze": "file"}}});
    client.notify("workspace/didChangeConfiguration", settings);
    until_shown(&mut client, &uri, 1, 1);
    // Without a scope in the row it holds for every threshold; a bad row is a warning at its place.
    let mut row = workspace.rows().remove(0);
    row.as_object_mut().unwrap().remove("threshold");
    workspace.write(
        ".linelens/ignore.jsonl",
        &format!("{{\"schema\":\"linelens-ignore\",\"version\":1}}\nbad\n{row}\n"),
    );
    client.notify("textDocument/didSave", json!({"textDocument": {"uri": uri}}));
    let begun = Instant::now();
    let (mut bad, mut shown) = (None, None);
    while bad.is_none() || shown != Some(0) {
        assert!(begun.elapsed() < PATIENCE, "{bad:?} {shown:?}");
        client.listen(Duration::from_millis(10));
        for params in client.take("textDocument/publishDiagnostics") {
            match params["uri"].as_str().unwrap().ends_with("ignore.jsonl") {
                true => bad = params["diagnostics"].as_array().unwrap().first().cloned(),
                false => shown = Some(params["diagnostics"].as_array().unwrap().len()),
            }
        }
    }
    assert_eq!(bad.unwrap()["range"]["start"]["line"], 1);
    quiet(&mut client);
    client.finish();
}

#[test]
fn ignoring_needs_a_reason_a_function_and_a_folder() {
    let workspace = Workspace::new(&[("unit.c", UNIT)]);
    let knobs = Knobs::default();
    let mut client = Client::start(Setup { capabilities: plain(), ..workspace.setup() }, &knobs);
    client.ignore("window/logMessage");
    client.ignore("textDocument/publishDiagnostics");
    let uri = workspace.uri("unit.c");
    client.open(&uri, UNIT);
    client.open("file:///elsewhere/a.c", UNIT);
    client.expect_ready(&uri);
    let error = client.command("linelens.ignore", json!([at(&uri, 3, 4)])).unwrap_err();
    assert_eq!(error["code"], -32602, "{error}");
    let error = ignore(&mut client, "file:///elsewhere/a.c", 3, json!("r")).unwrap_err();
    assert_eq!(error["code"], -32803, "{error}");
    assert!(client.expect("window/showMessage")["message"].as_str().unwrap().contains("no workspace folder"));
    assert_eq!(ignore(&mut client, &uri, 0, json!("r")).unwrap(), Value::Null);
    client.expect("window/showMessage");
    assert!(!workspace.path(".linelens/ignore.jsonl").exists());
    // A plain client is told, and not offered what it cannot ask.
    let mut offered = titles(&actions(&mut client, &uri, 3));
    offered.retain(|title| title.ends_with('…'));
    assert_eq!(offered, [] as [&str; 0]);
    ignore(&mut client, &uri, 3, json!("r")).unwrap();
    assert!(client.expect("window/showMessage")["message"].as_str().unwrap().contains("copy is ignored"));
    client.finish();
}

/// What a file says is text, whatever it looks like.
#[test]
fn a_reason_is_no_markup_and_steers_nothing() {
    let workspace = Workspace::new(&[("unit.c", UNIT)]);
    let (mut client, _) = workspace.opened(workspace.setup());
    let uri = workspace.uri("unit.c");
    let hostile = "[x](command:y) <b>*z*</b> \u{202e}\u{1b}[31m https://evil";
    let done = ignore(&mut client, &uri, 3, json!(hostile)).unwrap();
    assert!(done["message"].as_str().unwrap().starts_with("copy is ignored"), "{done}");
    until_shown(&mut client, &uri, 0, 0);
    let hover = client.hover(&uri, 2, 5);
    let text = text_of(&hover);
    let line = text.lines().find(|line| line.contains("ignored by")).unwrap();
    for forbidden in ["[x](", "<b>", "*z*", "\u{202e}", "\u{1b}", "https://"] {
        assert!(!line.replace("\\[", "").replace("\\*", "").contains(forbidden), "{forbidden}: {line}");
    }
    assert!(line.contains("command:y") && line.contains("&lt;b&gt;"), "{line}");
    quiet(&mut client);
    client.finish();
}

// ------------------------------------------------------------------------------------------------------------- reports

const FLAGGED: &str = "int bad(char *x) {\n    strcpy(x, x); // <i>\n}\n";

#[test]
fn a_folder_is_reported_as_sarif() {
    let workspace =
        Workspace::new(&[("unit.c", UNIT), ("src/b.c", FLAGGED), ("src/clean.c", "int c() { return 1; }\n")]);
    let (mut client, _) = workspace.opened(workspace.setup());
    quiet(&mut client);
    ignore(&mut client, &workspace.uri("unit.c"), 3, json!("by hand")).unwrap();
    let done = client.command("linelens.exportReport", json!([{"format": "sarif"}])).unwrap();
    assert_eq!(done, json!({"file": workspace.uri(".linelens/report.sarif"), "flagged": 2, "ignored": 1}));
    let log: Value =
        serde_json::from_str(&std::fs::read_to_string(workspace.path(".linelens/report.sarif")).unwrap())
            .unwrap();
    assert_eq!(sarif::complaints(&log), [] as [String; 0]);
    let results = log["runs"][0]["results"].as_array().unwrap();
    let uris: Vec<&Value> = results
        .iter()
        .map(|result| &result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"])
        .collect();
    assert_eq!(uris, ["src/b.c", "unit.c"]);
    assert_eq!(results[1]["suppressions"][0]["justification"], "by hand");
    assert_eq!(results[0]["suppressions"], json!([]));
    // Another place, and again: it is replaced.
    for _ in 0..2 {
        let done = client
            .command("linelens.exportReport", json!([{"format": "sarif", "file": "out/all.sarif"}]))
            .unwrap();
        assert_eq!(done["file"], workspace.uri("out/all.sarif"));
    }
    client.finish();
}

#[test]
fn a_document_is_reported_as_a_page() {
    let workspace = Workspace::new(&[("unit.c", "int old;\n")]);
    let (mut client, _) = workspace.opened(workspace.setup());
    quiet(&mut client);
    // What the editor shows counts, not what is on the disk.
    client.change(&workspace.uri("unit.c"), 2, json!([{"text": FLAGGED}]));
    client.settle();
    let params = json!({"format": "html", "textDocument": {"uri": workspace.uri("unit.c")}});
    let done = client.command("linelens.exportReport", json!([params])).unwrap();
    assert_eq!(done, json!({"file": workspace.uri(".linelens/report.html"), "flagged": 1, "ignored": 0}));
    let page = std::fs::read_to_string(workspace.path(".linelens/report.html")).unwrap();
    assert!(page.contains("<h2>unit.c</h2>") && page.contains("strcpy(x, x); // &lt;i&gt;"), "{page}");
    assert!(!page.contains("<i>") && !page.contains("<script"));
    client.finish();
}

/// A report takes the place of nothing but a report, inside the folder.
#[test]
fn a_report_is_written_inside_the_folder_only() {
    let workspace = Workspace::new(&[("unit.c", UNIT)]);
    let outside = Workspace::new(&[("keep.sarif", "kept")]);
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(outside.path(""), workspace.path("link")).unwrap();
        std::os::unix::fs::symlink(outside.path("keep.sarif"), workspace.path("linked.sarif")).unwrap();
    }
    let (mut client, _) = workspace.opened(workspace.setup());
    quiet(&mut client);
    client.ignore("window/showMessage");
    let absolute = outside.path("keep.sarif").display().to_string();
    for file in ["unit.c", "../x.sarif", "/tmp/x.sarif", &absolute, "a/../../x.sarif", "report.html", ""] {
        let error =
            client.command("linelens.exportReport", json!([{"format": "sarif", "file": file}])).unwrap_err();
        assert_eq!(error["code"], -32602, "{file}: {error}");
    }
    if cfg!(unix) {
        for file in ["link/x.sarif", "link/keep.sarif", "linked.sarif"] {
            let error = client
                .command("linelens.exportReport", json!([{"format": "sarif", "file": file}]))
                .unwrap_err();
            assert_eq!(error["code"], -32803, "{file}: {error}");
            assert!(error["message"].as_str().unwrap().contains("outside"), "{error}");
        }
    }
    for params in [
        json!({"format": "pdf"}),
        json!({"format": "html", "folder": outside.uri("")}),
        json!({"format": "html", "textDocument": {"uri": "file:///no.c"}}),
    ] {
        let error = client.command("linelens.exportReport", json!([params])).unwrap_err();
        assert_eq!(error["code"], -32602, "{error}");
    }
    assert_eq!(std::fs::read_to_string(outside.path("keep.sarif")).unwrap(), "kept");
    assert_eq!(std::fs::read_dir(outside.path("")).unwrap().count(), 1);
    assert_eq!(std::fs::read_to_string(workspace.path("unit.c")).unwrap(), UNIT);
    client.take("window/showMessage");
    client.finish();
}

#[test]
fn several_folders_have_a_report_each() {
    let (one, two) = (Workspace::new(&[("unit.c", UNIT)]), Workspace::new(&[("b.c", FLAGGED)]));
    let setup = Setup { folders: vec![one.uri(""), two.uri("")], ..one.setup() };
    let capabilities = with(setup.capabilities.clone(), "window.workDoneProgress", json!(true));
    let (mut client, _) = one.opened(Setup { capabilities, ..setup });
    quiet(&mut client);
    let error = client.command("linelens.exportReport", json!([{"format": "html"}])).unwrap_err();
    assert!(error["message"].as_str().unwrap().contains("name one as `folder`"), "{error}");
    let params = json!({"format": "html", "folder": two.uri("")});
    let done = client.command("linelens.exportReport", json!([params])).unwrap();
    assert_eq!(done["file"], two.uri(".linelens/report.html"));
    assert!(!one.path(".linelens").exists());
    client.finish();
}
