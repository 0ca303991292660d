//! The language server in memory: analysing whole files and workspaces on request.

#![allow(clippy::unwrap_used, clippy::expect_used)] // Helpers of tests are tests.

#[path = "support/folder.rs"]
mod folder;
#[path = "support/lsp.rs"]
mod support;

use folder::Workspace;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use support::{Client, Knobs, PATIENCE, Setup, UNIT, URI, at, plain, plugin, pulling, with};

fn quiet(client: &mut Client) {
    for method in ["linelens/relevance", "window/logMessage"] {
        client.ignore(method);
        client.take(method);
    }
}

fn setup() -> Setup {
    Setup {
        options: json!({"debounceMs": 20, "analyze": "cursor", "method": "attention:last"}),
        ..Setup::default()
    }
}

impl Workspace {
    fn setup(&self) -> Setup {
        Setup { folders: vec![self.uri("")], ..setup() }
    }
}

/// What was published for a document last.
fn published(client: &mut Client, uri: &str) -> Option<usize> {
    let all = client.take("textDocument/publishDiagnostics");
    let of = all.iter().rfind(|params| params["uri"] == uri)?;
    Some(of["diagnostics"].as_array().unwrap().len())
}

fn until_published(client: &mut Client, uri: &str, count: usize) {
    let begun = Instant::now();
    while published(client, uri) != Some(count) {
        assert!(begun.elapsed() < PATIENCE, "{count} diagnostics are not published for {uri}");
        client.listen(Duration::from_millis(10));
    }
}

const FLAGGED: &str = "int bad(char *x) {\n    strcpy(x, x);\n}\n";
const CLEAN: &str = "int good(int x) {\n    return x;\n}\n";

// -------------------------------------------------------------------------------------------------------------- files

#[test]
fn a_file_is_analysed_whatever_the_settings_leave_out() {
    let knobs = Knobs::default();
    let mut client = Client::start(setup(), &knobs);
    quiet(&mut client);
    client.open(URI, UNIT);
    client.settle();
    assert_eq!(knobs.runs().len(), 0);
    let found = client.command("linelens.analyzeFile", json!([{"textDocument": {"uri": URI}}])).unwrap();
    assert_eq!((&found["files"], &found["functions"]), (&json!(1), &json!(2)));
    let flagged = found["flagged"].as_array().unwrap();
    assert_eq!(flagged.len(), 1);
    assert_eq!(flagged[0]["uri"], URI);
    assert_eq!(
        flagged[0]["function"],
        json!({"name": "copy", "kind": "function", "startLine": 2, "endLine": 5})
    );
    assert_eq!(flagged[0]["probability"], 0.9375);
    assert_eq!(knobs.runs(), ["copy", "add"]);
    until_published(&mut client, URI, 1);
    // A second time everything is known.
    client.command("linelens.analyzeFile", json!([{"textDocument": {"uri": URI}}])).unwrap();
    assert_eq!(knobs.runs().len(), 2);
    let error = client
        .command("linelens.analyzeFile", json!([{"textDocument": {"uri": "file:///no.c"}}]))
        .unwrap_err();
    assert_eq!(error["code"], -32602);
    client.finish();
}

#[test]
fn what_is_more_urgent_comes_in_between() {
    let knobs = Knobs::default();
    let mut client = Client::start(setup(), &knobs);
    quiet(&mut client);
    client.ignore("textDocument/publishDiagnostics");
    let many: String = (0..40).map(|n| format!("int f{n}(int x) {{\n    return x + {n};\n}}\n")).collect();
    client.open("file:///project/many.c", &many);
    client.open(URI, UNIT);
    client.settle();
    knobs.delay(20);
    let sweep = client.request(
        "workspace/executeCommand",
        json!({"command": "linelens.analyzeFile", "arguments": [{"textDocument": {"uri": "file:///project/many.c"}}]}),
    );
    client.listen(Duration::from_millis(60));
    let finding = client.call("linelens/explain", at(URI, 8, 4)).unwrap();
    assert_eq!(finding["function"]["name"], "add");
    let place = knobs.runs().iter().position(|name| name == "add").unwrap();
    assert!(place < 20, "the sweep held it up: {place}");
    let found = client.answer(sweep).unwrap();
    assert_eq!(found["functions"], 40);
    client.finish();
}

#[test]
fn a_sweep_shows_progress_and_is_cancelled_in_the_middle_of_a_run() {
    let capabilities = with(plugin(), "window.workDoneProgress", json!(true));
    for by_request in [false, true] {
        let knobs = Knobs::default();
        let mut client = Client::start(Setup { capabilities: capabilities.clone(), ..setup() }, &knobs);
        quiet(&mut client);
        client.open(URI, UNIT);
        client.settle();
        knobs.delay(20_000);
        client.own_token("sweep");
        let arguments = json!([{"textDocument": {"uri": URI}, "workDoneToken": "sweep"}]);
        let id = client.request(
            "workspace/executeCommand",
            json!({"command": "linelens.analyzeFile", "arguments": arguments}),
        );
        let begun = Instant::now();
        let shown = |client: &Client| {
            client
                .progress()
                .into_iter()
                .find(|(token, _)| token == "\"sweep\"")
                .map_or(0, |(_, values)| values.len())
        };
        while shown(&client) == 0 {
            assert!(begun.elapsed() < PATIENCE, "no progress");
            client.listen(Duration::from_millis(10));
        }
        let (_, values) = client.progress().into_iter().find(|(token, _)| token == "\"sweep\"").unwrap();
        assert_eq!(values[0]["title"], "linelens: analysing unit.c");
        assert_eq!(values[0]["cancellable"], true);
        let asked = Instant::now();
        match by_request {
            true => client.cancel(id),
            false => client.notify("window/workDoneProgress/cancel", json!({"token": "sweep"})),
        }
        assert_eq!(client.answer(id).unwrap_err()["code"], -32800);
        assert!(asked.elapsed() < Duration::from_secs(1), "the answer took {:?}", asked.elapsed());
        while knobs.cancelled.load(std::sync::atomic::Ordering::SeqCst) == 0 {
            assert!(asked.elapsed() < Duration::from_secs(5), "the run goes on");
            client.listen(Duration::from_millis(10));
        }
        knobs.delay(0);
        client.listen(Duration::from_millis(200));
        // What was not asked for any more is not done; checked on leaving: the progress ended.
        assert_eq!(knobs.runs(), ["copy"]);
        client.finish();
    }
}

/// The button may be pressed before the progress is shown, or the sweep begun at all.
#[test]
fn a_progress_is_cancelled_before_it_begins() {
    let knobs = Knobs::default();
    let mut client = Client::start(setup(), &knobs);
    quiet(&mut client);
    client.ignore("textDocument/publishDiagnostics");
    client.open(URI, UNIT);
    client.settle();
    let runs = knobs.runs().len();
    knobs.delay(3_000);
    let file = json!([{"textDocument": {"uri": URI}, "workDoneToken": "early"}]);
    let explained = with(at(URI, 8, 4), "workDoneToken", json!("early"));
    for (method, params) in [
        ("workspace/executeCommand", json!({"command": "linelens.analyzeFile", "arguments": file})),
        ("linelens/explain", explained),
    ] {
        client.own_token("early");
        let id = client.request(method, params);
        client.notify("window/workDoneProgress/cancel", json!({"token": "early"}));
        assert_eq!(client.answer(id).unwrap_err()["code"], -32800, "{method}");
        client.listen(Duration::from_millis(500));
    }
    assert!(knobs.runs().len() <= runs + 2, "what was begun was left: {:?}", knobs.runs());
    // The token is free for other work.
    knobs.delay(0);
    let found = client.command("linelens.analyzeFile", file).unwrap();
    assert!(found["functions"].as_u64().unwrap() > 0);
    client.finish();
}

#[test]
fn functions_that_fail_are_named_and_the_rest_goes_on() {
    let knobs = Knobs::default();
    let mut client = Client::start(setup(), &knobs);
    quiet(&mut client);
    client.ignore("textDocument/publishDiagnostics");
    client.open(URI, &format!("int f() {{\n    FAIL();\n}}\nint p() {{\n    PANIC();\n}}\n{CLEAN}"));
    client.settle();
    let found = client.command("linelens.analyzeFile", json!([{"textDocument": {"uri": URI}}])).unwrap();
    assert_eq!((&found["functions"], &found["flagged"]), (&json!(3), &json!([])));
    let failed: Vec<&str> = found["failed"]
        .as_array()
        .unwrap()
        .iter()
        .map(|failed| failed["function"].as_str().unwrap())
        .collect();
    assert_eq!(failed, ["f", "p"]);
    client.finish();
}

#[test]
fn without_a_model_a_sweep_says_so() {
    let knobs = Knobs::default();
    knobs.failures.store(1, std::sync::atomic::Ordering::SeqCst);
    let mut client = Client::start(setup(), &knobs);
    quiet(&mut client);
    client.ignore("window/showMessage");
    client.take("window/showMessage");
    client.open(URI, UNIT);
    let error = client.command("linelens.analyzeFile", json!([{"textDocument": {"uri": URI}}])).unwrap_err();
    assert_eq!(error["code"], -32803, "{error}");
    assert!(error["message"].as_str().unwrap().contains("no model here"), "{error}");
    client.finish();
}

// ---------------------------------------------------------------------------------------------------------- workspaces

#[test]
fn a_workspace_is_analysed_file_by_file() {
    let workspace = Workspace::new(&[
        ("src/a.c", FLAGGED),
        ("src/b.cpp", CLEAN),
        ("build/out.c", FLAGGED),
        (".gitignore", "build/\n"),
        ("notes.txt", FLAGGED),
        ("open.c", CLEAN),
    ]);
    std::fs::write(workspace.path("wide.c"), b"\xff\xfei\0n\0t\0").unwrap();
    let outside = Workspace::new(&[("secret.c", FLAGGED)]);
    #[cfg(unix)]
    std::os::unix::fs::symlink(outside.path(""), workspace.path("link")).unwrap();
    let knobs = Knobs::default();
    let mut client = Client::start(workspace.setup(), &knobs);
    quiet(&mut client);
    // Of an open document its text counts, not the file's.
    client.open(&workspace.uri("open.c"), FLAGGED);
    client.settle();
    let found = client.command("linelens.analyzeWorkspace", json!([])).unwrap();
    assert_eq!((&found["files"], &found["functions"]), (&json!(3), &json!(3)), "{found}");
    let flagged: Vec<&Value> =
        found["flagged"].as_array().unwrap().iter().map(|flagged| &flagged["uri"]).collect();
    assert_eq!(flagged, [&json!(workspace.uri("open.c")), &json!(workspace.uri("src/a.c"))]);
    let unreadable = found["unreadable"].as_array().unwrap();
    assert!(
        unreadable.len() == 1 && unreadable[0].as_str().unwrap().contains("wide.c: is UTF-16"),
        "{found}"
    );
    client.listen(Duration::from_millis(300));
    let all = client.take("textDocument/publishDiagnostics");
    let of = |uri: String| {
        all.iter().rfind(|params| params["uri"] == uri.as_str()).map(|p| p["diagnostics"].clone())
    };
    let diagnostics = of(workspace.uri("src/a.c")).unwrap();
    assert_eq!(diagnostics[0]["range"]["start"], json!({"line": 0, "character": 4}));
    assert!(diagnostics[0]["message"].as_str().unwrap().starts_with("bad looks vulnerable"), "{diagnostics}");
    assert_eq!(of(workspace.uri("open.c")).unwrap().as_array().unwrap().len(), 1);
    assert_eq!(of(workspace.uri("src/b.cpp")), None, "nothing was shown, so nothing is taken back");
    // One folder, and what is none.
    let one = client.command("linelens.analyzeWorkspace", json!([{"folder": workspace.uri("")}])).unwrap();
    assert_eq!(one["files"], 3);
    for folder in [outside.uri(""), "file:///".to_string(), workspace.uri("src")] {
        let error = client.command("linelens.analyzeWorkspace", json!([{"folder": folder}])).unwrap_err();
        assert_eq!(error["code"], -32602, "{error}");
    }
    client.take("textDocument/publishDiagnostics");
    client.finish();
}

#[test]
fn what_is_shown_of_a_closed_file_is_taken_back_when_it_is_not_true_any_more() {
    let workspace = Workspace::new(&[("a.c", FLAGGED), ("b.c", FLAGGED), ("c.c", FLAGGED), ("d.c", FLAGGED)]);
    let capabilities =
        with(pulling(), "workspace.didChangeWatchedFiles", json!({"dynamicRegistration": true}));
    let knobs = Knobs::default();
    let mut client = Client::start(Setup { capabilities, ..workspace.setup() }, &knobs);
    quiet(&mut client);
    client.command("linelens.analyzeWorkspace", json!([])).unwrap();
    client.listen(Duration::from_millis(300));
    let shown = client.take("textDocument/publishDiagnostics");
    assert_eq!(shown.len(), 4, "closed files are pushed even to clients that pull");
    let registered =
        client.requests.iter().find(|request| request["method"] == "client/registerCapability").unwrap();
    assert!(registered.to_string().contains("cpp"), "{registered}");
    // Changed on the disk.
    workspace.write("a.c", CLEAN);
    let changes = json!({"changes": [{"uri": workspace.uri("a.c"), "type": 2}]});
    client.notify("workspace/didChangeWatchedFiles", changes);
    until_published(&mut client, &workspace.uri("a.c"), 0);
    // Opened.
    client.open(&workspace.uri("b.c"), FLAGGED);
    until_published(&mut client, &workspace.uri("b.c"), 0);
    client.settle();
    // Analysed again without anything found.
    workspace.write("c.c", "int fine(int x) {\n    return x + 2;\n}\n");
    client.command("linelens.analyzeWorkspace", json!([])).unwrap();
    until_published(&mut client, &workspace.uri("c.c"), 0);
    // Out of the workspace.
    let removed = json!({"event": {"added": [], "removed": [{"uri": workspace.uri(""), "name": "w"}]}});
    client.notify("workspace/didChangeWorkspaceFolders", removed);
    until_published(&mut client, &workspace.uri("d.c"), 0);
    client.finish();
}

#[test]
fn another_model_takes_back_what_the_last_one_found() {
    let workspace = Workspace::new(&[("a.c", FLAGGED)]);
    let knobs = Knobs::default();
    let mut client = Client::start(workspace.setup(), &knobs);
    quiet(&mut client);
    client.command("linelens.analyzeWorkspace", json!([])).unwrap();
    until_published(&mut client, &workspace.uri("a.c"), 1);
    client.command("linelens.reload", json!([])).unwrap();
    until_published(&mut client, &workspace.uri("a.c"), 0);
    client.finish();
}

#[test]
fn plain_clients_are_told_the_sum() {
    let workspace = Workspace::new(&[("a.c", FLAGGED), ("b.c", CLEAN)]);
    let knobs = Knobs::default();
    let mut client = Client::start(Setup { capabilities: plain(), ..workspace.setup() }, &knobs);
    quiet(&mut client);
    client.ignore("textDocument/publishDiagnostics");
    client.command("linelens.analyzeWorkspace", json!([{}])).unwrap();
    let said = client.expect("window/showMessage");
    assert_eq!(said["message"], "linelens:\n1 of 2 functions flagged in 2 files");
    client.finish();

    let knobs = Knobs::default();
    let mut client = Client::start(setup(), &knobs);
    quiet(&mut client);
    assert_eq!(client.command("linelens.analyzeWorkspace", json!([])).unwrap_err()["code"], -32602);
    client.finish();
}
