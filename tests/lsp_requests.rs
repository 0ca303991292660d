//! The language server in memory: requests, hovers, progress, commands, configuration, and how it ends.

#![allow(clippy::unwrap_used, clippy::expect_used)] // Helpers of tests are tests.

#[path = "support/lsp.rs"]
mod support;

use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use support::{
    Client, Knobs, Setup, UNIT, URI, at, insert, opened, plain, plugin, pulling, start, text_of, with,
};

// -------------------------------------------------------------------------------------------------------- explain

#[test]
fn explain_answers_with_the_finding() {
    let (mut client, _) = opened(Setup::default());
    client.take("textDocument/publishDiagnostics");
    client.take("linelens/relevance");
    let finding = client.call("linelens/explain", at(URI, 8, 4)).unwrap();
    assert_eq!(finding["textDocument"], json!({"uri": URI, "version": 1}));
    assert_eq!(finding["function"], json!({"name": "add", "kind": "function", "startLine": 7, "endLine": 9}));
    assert_eq!(finding["method"], "attention:last");
    assert_eq!(finding["model"]["name"], "fake_[model]");
    assert_eq!(finding["flagged"], false);
    let lines = finding["lines"].as_array().unwrap();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[1]["text"], "    return a + b;");
    assert_eq!(lines[1]["line"], 8);
    // The function under the cursor is shaded beside the flagged one.
    assert_eq!(client.expect("linelens/relevance")["functions"].as_array().unwrap().len(), 2);
    // Another method for this answer only; the command is the same request.
    let mut params = at(URI, 8, 4);
    params["method"] = json!("attention:2");
    let other = client.command("linelens.explain", json!([params])).unwrap();
    assert_eq!(other["method"], "attention:2");
    assert_ne!(other["lines"], finding["lines"]);
    // No function: null, and the log says why.
    assert_eq!(client.call("linelens/explain", at(URI, 0, 0)).unwrap(), Value::Null);
    assert!(
        client.expect("window/logMessage")["message"].as_str().unwrap().contains("unit.c:1: no C or C++")
    );
    // The cursor has left `add`.
    assert_eq!(client.expect("linelens/relevance")["functions"].as_array().unwrap().len(), 1);
    client.finish();
}

#[test]
fn bad_parameters_are_explained() {
    let (mut client, _) = opened(Setup::default());
    client.take("textDocument/publishDiagnostics");
    client.take("linelens/relevance");
    for (key, value, says) in [
        ("method", json!("telepathy"), "unknown method"),
        ("profile", json!("best"), "unknown profile"),
        ("model", json!("gpt"), "there is no model \"gpt\": there are fake_[model];"),
        ("position", json!("here"), "invalid type"),
        ("textDocument", json!({"uri": "file:///no.c"}), "is not open"),
    ] {
        let mut params = at(URI, 3, 0);
        params[key] = value;
        let error = client.call("linelens/explain", params).unwrap_err();
        assert_eq!(error["code"], -32602, "{error}");
        assert!(error["message"].as_str().unwrap().contains(says), "{error}");
    }
    for (command, arguments) in [
        ("linelens.setMethod", json!([])),
        ("linelens.setMethod", json!([7])),
        ("linelens.setMethod", json!(["attention:99"])),
        ("linelens.fly", json!([])),
    ] {
        assert_eq!(client.command(command, arguments).unwrap_err()["code"], -32602);
    }
    assert_eq!(client.call("textDocument/fly", json!({})).unwrap_err()["code"], -32601);
    assert_eq!(client.call("textDocument/hover", json!({})).unwrap_err()["code"], -32602);
    client.notify("$/unknown", json!({}));
    client.notify("unknown/notification", json!({}));
    client.finish();
}

#[test]
fn a_cancelled_request_stops_the_model_at_once() {
    let (mut client, knobs) = start();
    client.open(URI, "");
    client.settle();
    knobs.delay(20_000);
    client.change(URI, 2, json!([{"text": UNIT}]));
    let id = client.request("linelens/explain", at(URI, 3, 4));
    client.listen(Duration::from_millis(200));
    assert_eq!(knobs.runs(), ["copy"]);
    let begun = Instant::now();
    client.cancel(id);
    let error = client.answer(id).unwrap_err();
    let took = begun.elapsed();
    assert_eq!(error["code"], -32800);
    assert!(took < Duration::from_millis(100), "the answer took {took:?}");
    while knobs.cancelled.load(Ordering::SeqCst) == 0 {
        assert!(begun.elapsed() < Duration::from_secs(1), "the run goes on");
    }
    client.finish();
}

#[test]
fn an_edit_of_the_function_modifies_the_content_and_one_elsewhere_moves_the_answer() {
    let (mut client, knobs) = start();
    client.ignore("textDocument/publishDiagnostics");
    client.ignore("linelens/relevance");
    knobs.delay(300);
    client.open(URI, UNIT);
    let id = client.request("linelens/explain", at(URI, 3, 4));
    client.listen(Duration::from_millis(100));
    client.change(URI, 2, insert(3, 4, "to++; "));
    let error = client.answer(id).unwrap_err();
    assert_eq!(error["code"], -32801, "{error}");

    let id = client.request("linelens/explain", at(URI, 3, 4));
    client.listen(Duration::from_millis(100));
    client.change(URI, 3, insert(0, 0, "\n\n"));
    let finding = client.answer(id).unwrap();
    assert_eq!(finding["textDocument"]["version"], 3);
    assert_eq!(finding["function"]["startLine"], 4);
    assert_eq!(finding["lines"][0]["line"], 4);
    client.finish();
}

#[test]
fn an_engine_without_work_rests_once() {
    let (mut client, knobs) = start();
    client.ignore("textDocument/publishDiagnostics");
    client.ignore("linelens/relevance");
    knobs.delay(60);
    let functions: String = (0..8).map(|i| format!("int f{i}(void) {{\n  return {i};\n}}\n")).collect();
    client.open(URI, &functions);
    client.settle();
    assert_eq!(knobs.runs().len(), 8);
    assert_eq!(knobs.rests.load(Ordering::SeqCst), 0, "not while there is work");
    client.listen(Duration::from_millis(1200));
    assert_eq!(knobs.rests.load(Ordering::SeqCst), 1, "and not again without work between");
    let id = client.request("linelens/explain", at(URI, 3, 3));
    client.answer(id).unwrap();
    client.listen(Duration::from_millis(1200));
    assert_eq!(knobs.rests.load(Ordering::SeqCst), 2);
    client.finish();
}

#[test]
fn requests_come_before_background_work_and_the_newest_first() {
    let (mut client, knobs) = start();
    client.ignore("textDocument/publishDiagnostics");
    client.ignore("linelens/relevance");
    knobs.delay(150);
    let functions: String = (0..6).map(|i| format!("int f{i}(void) {{\n  return {i};\n}}\n")).collect();
    client.open(URI, &functions);
    client.listen(Duration::from_millis(100));
    assert_eq!(knobs.runs(), ["f0"]);
    let ids = [15, 9].map(|line| client.request("linelens/explain", at(URI, line, 3)));
    for id in ids {
        client.answer(id).unwrap();
    }
    client.settle();
    let runs = knobs.runs();
    assert_eq!(runs[0], "f0");
    let mut first: Vec<_> = runs[1..3].to_vec();
    first.sort();
    assert_eq!(first, ["f3", "f5"], "{runs:?}");
    assert_eq!(knobs.cancelled.load(Ordering::SeqCst), 1);
    let mut all = runs;
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 6, "the rest follows");
    client.finish();
}

#[test]
fn a_panic_is_one_failed_request() {
    let (mut client, _) = start();
    client.ignore("window/logMessage");
    client.open(URI, "int bad(void) { PANIC; }\nint worse(void) { FAIL; }\nint good(void) { return 1; }\n");
    client.settle();
    let error = client.call("linelens/explain", at(URI, 0, 0)).unwrap_err();
    assert_eq!(error["code"], -32603);
    let error = client.call("linelens/explain", at(URI, 1, 0)).unwrap_err();
    assert_eq!(
        (error["code"].clone(), error["message"].clone()),
        (json!(-32803), json!("the model could not be run: told to"))
    );
    assert!(text_of(&client.hover(URI, 1, 5)).contains("could not be analysed"));
    assert_eq!(client.call("linelens/explain", at(URI, 2, 0)).unwrap()["flagged"], false);
    client.listen(Duration::from_millis(100));
    client.ignore("linelens/relevance");
    client.take("linelens/relevance");
    client.finish();
}

// ---------------------------------------------------------------------------------------------------------- hover

#[test]
fn hovers_say_what_is_known() {
    let (mut client, _) = opened(Setup::default());
    client.ignore("linelens/relevance");
    client.take("linelens/relevance");
    client.take("textDocument/publishDiagnostics");
    let name = client.hover(URI, 2, 5);
    let text = text_of(&name);
    for part in [
        "copy flagged, p 0.94 (threshold 0.5)",
        "model fake\\_\\[model\\] on cpu",
        "method attention:last, profile editor",
        "most relevant lines:",
        "methods: attention:first, attention:2, attention:3, attention:last",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert_eq!(name["range"]["end"], json!({"line": 2, "character": 8}));
    let line = client.hover(URI, 3, 10);
    assert!(text_of(&line).contains("line 4 is number "), "{line}");
    assert!(text_of(&line).contains(" of 4, relevance "), "{line}");
    assert_eq!(client.hover(URI, 1, 0), Value::Null);
    client.finish();
}

#[test]
fn a_hover_never_waits_and_schedules_what_it_asks_about() {
    let knobs = Knobs::default();
    let options = json!({"debounceMs": 10_000, "analyze": "cursor"});
    let setup = Setup { capabilities: plain(), options, ..Setup::default() };
    let mut client = Client::start(setup, &knobs);
    client.open(URI, UNIT);
    let text = client.hover(URI, 8, 6);
    let text = text_of(&text);
    assert!(text.contains("add is being analysed") || text.contains("is being loaded"), "{text}");
    while !text_of(&client.hover(URI, 8, 6)).contains("line 9 is number") {
        client.listen(Duration::from_millis(5));
    }
    assert_eq!(knobs.runs(), ["add"]);
    client.finish();
}

// ------------------------------------------------------------------------------------------------------- progress

#[test]
fn long_work_shows_progress_that_ends() {
    let knobs = Knobs::default();
    let capabilities = with(plugin(), "window.workDoneProgress", json!(true));
    let mut client = Client::start(Setup { capabilities, ..Setup::default() }, &knobs);
    client.ignore("textDocument/publishDiagnostics");
    client.ignore("linelens/relevance");
    assert!(client.progress().is_empty(), "quick work shows none");
    knobs.delay(500);
    client.open(URI, UNIT);
    client.settle();
    client.listen(Duration::from_millis(300));
    let progress = client.progress();
    assert_eq!(progress.len(), 1);
    let values = &progress[0].1;
    assert_eq!(values[0]["title"], "linelens: analysing");
    assert_eq!(values[0]["cancellable"], true);
    let percentages: Vec<u64> = values.iter().filter_map(|value| value["percentage"].as_u64()).collect();
    assert!(percentages.len() > 3 && percentages.is_sorted(), "{percentages:?}");
    assert_eq!(values.last().unwrap()["kind"], "end");

    // A request under the client's own token.
    client.change(URI, 2, insert(3, 4, "to++; "));
    client.own_token("mine");
    let mut params = at(URI, 3, 4);
    params["workDoneToken"] = json!("mine");
    client.call("linelens/explain", params).unwrap();
    client.settle();
    client.listen(Duration::from_millis(300));
    let mine = client.progress().into_iter().find(|(token, _)| token == "\"mine\"").unwrap().1;
    assert_eq!(mine.last().unwrap()["kind"], "end");
    client.finish();
}

#[test]
fn cancelling_the_progress_stops_the_background() {
    let knobs = Knobs::default();
    let capabilities = with(plugin(), "window.workDoneProgress", json!(true));
    let mut client = Client::start(Setup { capabilities, ..Setup::default() }, &knobs);
    knobs.delay(20_000);
    client.open(URI, UNIT);
    client
        .wait(
            |client| client.progress().iter().any(|(_, values)| !values.is_empty()).then_some(()),
            "progress",
        )
        .unwrap();
    let token: Value = serde_json::from_str(&client.progress()[0].0).unwrap();
    client.notify("window/workDoneProgress/cancel", json!({"token": token}));
    client.settle();
    client.listen(Duration::from_millis(200));
    assert_eq!(client.progress()[0].1.last().unwrap()["kind"], "end");
    assert_eq!(knobs.runs(), ["copy"], "the rest is not begun");
    client.finish();
}

#[test]
fn cancelling_the_progress_stops_the_function_under_the_cursor_too() {
    let knobs = Knobs::default();
    let capabilities = with(plugin(), "window.workDoneProgress", json!(true));
    let mut client = Client::start(Setup { capabilities, ..Setup::default() }, &knobs);
    client.ignore("textDocument/publishDiagnostics");
    client.ignore("linelens/relevance");
    knobs.delay(20_000);
    client.open(URI, UNIT);
    client.change(URI, 2, insert(3, 4, "to++; "));
    client
        .wait(
            |client| client.progress().iter().any(|(_, values)| !values.is_empty()).then_some(()),
            "progress",
        )
        .unwrap();
    let runs = knobs.runs().len();
    let token: Value = serde_json::from_str(&client.progress()[0].0).unwrap();
    client.notify("window/workDoneProgress/cancel", json!({"token": token}));
    client.settle();
    client.listen(Duration::from_millis(200));
    assert_eq!(knobs.runs().len(), runs, "nothing is begun: {:?}", knobs.runs());
    // Who asks wants an answer, and the rest.
    knobs.delay(0);
    client.call("linelens/explain", at(URI, 3, 4)).unwrap();
    client.settle();
    assert!(knobs.runs().contains(&"add".to_string()), "{:?}", knobs.runs());
    client.finish();
}

#[test]
fn a_shutdown_leaves_no_request_unanswered() {
    let (mut client, knobs) = start();
    knobs.delay(20_000);
    client.open(URI, UNIT);
    let explain = client.request("linelens/explain", at(URI, 3, 4));
    client.listen(Duration::from_millis(200));
    let reload = json!({"command": "linelens.reload", "arguments": []});
    let reload = client.request("workspace/executeCommand", reload);
    let waiting = client.request("linelens/explain", at(URI, 8, 4));
    client.listen(Duration::from_millis(100));
    client.call("shutdown", Value::Null).unwrap();
    for request in [explain, reload, waiting] {
        assert_eq!(client.answer(request).unwrap_err()["code"], -32800);
    }
    client.notify("exit", Value::Null);
    assert_eq!(client.wait_for_end(), 0);
    client.abandon();
}

// ------------------------------------------------------------------------------------------- methods, model, files

#[test]
fn methods_are_chosen_by_command() {
    let (mut client, knobs) = opened(Setup::default());
    client.ignore("textDocument/publishDiagnostics");
    client.take("textDocument/publishDiagnostics");
    client.expect("linelens/relevance");
    assert_eq!(client.command("linelens.nextMethod", json!([])).unwrap(), "attention:first");
    let relevance = client.expect("linelens/relevance");
    assert_eq!(relevance["functions"][0]["method"], "attention:first");
    assert_eq!(client.command("linelens.nextMethod", json!([])).unwrap(), "attention:2");
    assert_eq!(client.expect("linelens/relevance")["functions"][0]["method"], "attention:2");
    assert_eq!(client.command("linelens.setMethod", json!(["attention:4"])).unwrap(), "attention:4");
    assert_eq!(client.expect("linelens/relevance")["functions"][0]["method"], "attention:4");
    // attention:4 is attention:last of four layers.
    assert_eq!(client.command("linelens.nextMethod", json!([])).unwrap(), "attention:first");
    assert_eq!(client.expect("linelens/relevance")["functions"][0]["method"], "attention:first");
    assert_eq!(knobs.runs().len(), 2, "the model ran once a function");
    client.finish();
}

#[test]
fn a_setting_that_the_model_cannot_serve_is_a_warning() {
    let options = json!({"debounceMs": 20, "analyze": "file", "method": "attention:7"});
    let knobs = Knobs::default();
    let mut client = Client::start(Setup { options, ..Setup::default() }, &knobs);
    let status = client.statuses.last().unwrap();
    assert_eq!(status["health"], "warning");
    assert!(
        status["message"].as_str().unwrap().contains("attention:7 does not work for this model; its methods")
    );
    client.command("linelens.setMethod", json!(["attention:3"])).unwrap();
    client.wait(|client| (client.statuses.last()?["health"] == "ok").then_some(()), "good health").unwrap();
    client.finish();
}

#[test]
fn without_a_model_the_server_lives_and_reload_tries_again() {
    let knobs = Knobs::default();
    knobs.failures.store(2, Ordering::SeqCst);
    let mut client = Client::start(Setup::default(), &knobs);
    let shown = client.expect("window/showMessage");
    assert_eq!(shown["type"], 1);
    assert!(shown["message"].as_str().unwrap().contains("there is no model here"));
    client.expect("window/logMessage");
    client.listen(Duration::from_millis(50));
    assert_eq!(client.statuses.last().unwrap()["health"], "error");
    client.open(URI, UNIT);
    assert!(text_of(&client.hover(URI, 2, 5)).contains("there is no model to ask"));
    let error = client.call("linelens/explain", at(URI, 3, 4)).unwrap_err();
    assert_eq!(error["code"], -32803);
    assert!(error["message"].as_str().unwrap().contains("Set LINELENS_MODEL"));
    // The same failure again is not shown again.
    assert_eq!(client.command("linelens.reload", json!([])).unwrap()["health"], "error");
    let status = client.command("linelens.reload", json!([])).unwrap();
    assert_eq!(status["health"], "ok");
    assert_eq!(status["methods"], json!(["attention:first", "attention:2", "attention:3", "attention:last"]));
    assert_eq!(client.expect("textDocument/publishDiagnostics")["diagnostics"].as_array().unwrap().len(), 1);
    client.expect("linelens/relevance");
    client.finish();
}

#[test]
fn a_failed_reload_takes_back_what_is_shown() {
    let (mut client, knobs) = opened(Setup::default());
    assert_eq!(client.expect("textDocument/publishDiagnostics")["diagnostics"].as_array().unwrap().len(), 1);
    client.expect("linelens/relevance");
    client.ignore("window/showMessage");
    client.ignore("window/logMessage");
    knobs.failures.store(1, Ordering::SeqCst);
    assert_eq!(client.command("linelens.reload", json!([])).unwrap()["health"], "error");
    assert_eq!(client.expect("textDocument/publishDiagnostics")["diagnostics"], json!([]));
    assert_eq!(client.expect("linelens/relevance")["functions"], json!([]));
    client.change(URI, 2, insert(3, 4, "to++; "));
    client.listen(Duration::from_millis(100));
    client.finish();
}

#[test]
fn a_failed_reload_makes_a_client_pull_again() {
    let (mut client, knobs) = opened(Setup { capabilities: pulling(), ..Setup::default() });
    for ignored in ["linelens/relevance", "window/showMessage", "window/logMessage"] {
        client.ignore(ignored);
        client.take(ignored);
    }
    let params = json!({"textDocument": {"uri": URI}});
    let pulled = client.call("textDocument/diagnostic", params.clone()).unwrap();
    assert_eq!(pulled["items"].as_array().unwrap().len(), 1);
    client.requests.clear();
    knobs.failures.store(1, Ordering::SeqCst);
    client.command("linelens.reload", json!([])).unwrap();
    client
        .wait(
            |c| c.requests.iter().any(|r| r["method"] == "workspace/diagnostic/refresh").then_some(()),
            "refresh",
        )
        .unwrap();
    assert_eq!(client.call("textDocument/diagnostic", params).unwrap()["items"], json!([]));
    client.finish();
}

#[test]
fn a_document_that_is_opened_again_keeps_nothing_of_the_old_one() {
    let (mut client, _) = opened(Setup::default());
    client.expect("textDocument/publishDiagnostics");
    client.expect("linelens/relevance");
    client.open(URI, "int x;\n");
    assert_eq!(client.expect("textDocument/publishDiagnostics")["diagnostics"], json!([]));
    assert_eq!(client.expect("linelens/relevance")["functions"], json!([]));
    client.finish();
}

#[test]
fn the_first_request_goes_by_the_settings_of_its_folder() {
    for _ in 0..30 {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("linelens.toml"), "method = \"ig\"\n").unwrap();
        let root = format!("file://{}", folder.path().display());
        let uri = format!("{root}/unit.c");
        let mut client = Client::start(
            Setup { folders: vec![root], options: json!({"debounceMs": 20}), ..Setup::default() },
            &Knobs::default(),
        );
        for method in ["textDocument/publishDiagnostics", "linelens/relevance", "window/logMessage"] {
            client.ignore(method);
        }
        client.open(&uri, UNIT);
        assert_eq!(client.call("linelens/explain", at(&uri, 8, 4)).unwrap()["method"], "ig");
        client.finish();
    }
}

#[test]
fn a_workspace_may_choose_a_method_but_no_model() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("linelens.toml");
    std::fs::write(&file, "method = \"attention:2\"\nmodel = \"/tmp/evil\"\nlibrary = \"evil.so\"\n")
        .unwrap();
    let root = format!("file://{}", folder.path().display());
    let uri = format!("{root}/unit.c");
    let setup = Setup {
        folders: vec![root],
        options: json!({"debounceMs": 20, "analyze": "file"}),
        configuration: json!({"severity": "error", "topLines": "many"}),
        capabilities: with(plugin(), "workspace.configuration", json!(true)),
        ..Setup::default()
    };
    let knobs = Knobs::default();
    let mut client = Client::start(setup, &knobs);
    let mut shown: Vec<String> =
        (0..3).map(|_| client.expect("window/showMessage")["message"].to_string()).collect();
    shown.sort();
    assert!(shown[0].contains("`topLines`"), "{shown:?}");
    assert!(shown[1].contains("`library`: ignored") && shown[2].contains("`model`: ignored"), "{shown:?}");
    client.ignore("window/logMessage");
    client.take("window/logMessage");
    client.open(&uri, UNIT);
    let published = client.expect("textDocument/publishDiagnostics");
    let diagnostic = &published["diagnostics"][0];
    assert_eq!(diagnostic["severity"], 1);
    assert!(diagnostic["message"].as_str().unwrap().contains("attention:2"));
    client.settle();
    client.take("linelens/relevance");

    // Without a watcher, saving looks again. A broken file leaves the last good settings, and says so once.
    std::fs::write(&file, "method = \"attention:").unwrap();
    let save = json!({"textDocument": {"uri": uri}});
    client.notify("textDocument/didSave", save.clone());
    assert!(client.expect("window/showMessage")["message"].as_str().unwrap().contains("not TOML"));
    client.notify("textDocument/didSave", save);
    std::fs::write(&file, "method = \"attention:3\"").unwrap();
    let changes = json!({"changes": [{"uri": format!("file://{}", file.display()), "type": 2}]});
    client.notify("workspace/didChangeWatchedFiles", changes);
    let published = client.expect("textDocument/publishDiagnostics");
    assert!(published["diagnostics"][0]["message"].as_str().unwrap().contains("attention:3"), "{published}");
    client.expect("linelens/relevance");
    client.finish();
}

#[test]
fn malformed_messages_are_answered_and_survived() {
    let (mut client, _) = opened(Setup::default());
    client.ignore("linelens/relevance");
    client.take("linelens/relevance");
    client.take("textDocument/publishDiagnostics");
    client.send_raw(b"Content-Length: 9\r\n\r\n{\"jsonrpc");
    assert_eq!(client.expect("error")["code"], -32700);
    client.send_raw(b"Content-Length: 2\r\n\r\n[]");
    assert_eq!(client.expect("error")["code"], -32600);
    client.send_raw(b"Content-Type: nonsense\r\n\r\n");
    assert_eq!(client.expect("error")["code"], -32700);
    assert!(text_of(&client.hover(URI, 2, 5)).contains("copy"));
    client.finish();
}

#[test]
fn the_end_without_shutdown_is_an_error() {
    let (mut client, knobs) = start();
    client.notify("exit", Value::Null);
    assert_eq!(client.wait_for_end(), 1);
    client.abandon();
    // Input that ends does not wait for the model.
    let mut client = Client::start(Setup::default(), &knobs);
    knobs.delay(20_000);
    client.open(URI, UNIT);
    let id = client.request("linelens/explain", at(URI, 3, 4));
    client.listen(Duration::from_millis(200));
    client.close_input();
    assert_eq!(client.wait_for_end(), 1);
    assert_eq!(client.answer(id).unwrap_err()["code"], -32800);
    client.abandon();
}
