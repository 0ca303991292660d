//! The language server in memory: what is scored when, and several models.

#![allow(clippy::unwrap_used, clippy::expect_used)] // Helpers of tests are tests.

#[path = "support/lsp.rs"]
mod support;

use linelens::config::Config;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;
use support::{Client, Knobs, Setup, UNIT, URI, at, insert, plain, plugin, with};

fn quiet(client: &mut Client) {
    for method in ["textDocument/publishDiagnostics", "linelens/relevance", "window/logMessage"] {
        client.ignore(method);
        client.take(method);
    }
}

/// Four functions, the last two flagged.
const FOUR: &str = "\
int a(int x) {
    return x;
}
int b(int x) {
    return x + 1;
}
int c(char *x) {
    strcpy(x, x);
}
int d(char *x) {
    strcpy(x, x + 1);
}
";

fn costly(analyze: &str) -> (Client, Knobs) {
    let knobs = Knobs::default();
    knobs.costly.store(true, Ordering::SeqCst);
    let options = json!({"debounceMs": 20, "analyze": analyze, "method": "attention:last"});
    let mut client = Client::start(Setup { options, ..Setup::default() }, &knobs);
    quiet(&mut client);
    (client, knobs)
}

fn show(client: &mut Client, first: u32, last: u32) {
    let position = |line| json!({"line": line, "character": 0});
    let range = json!({"start": position(first), "end": position(last)});
    client.call("textDocument/inlayHint", json!({"textDocument": {"uri": URI}, "range": range})).unwrap();
}

// ------------------------------------------------------------------------------------------------ what is scored when

#[test]
fn the_rest_of_a_file_gets_verdicts_and_only_what_is_shown_gets_relevance() {
    let (mut client, knobs) = costly("file");
    client.open(URI, FOUR);
    client.settle();
    assert_eq!(knobs.glances(), ["a", "b", "c", "d"], "verdicts first");
    assert_eq!(knobs.runs(), ["c", "d"], "then the relevance of what is flagged");
    // Relevance on demand.
    let finding = client.call("linelens/explain", at(URI, 4, 4)).unwrap();
    assert_eq!(finding["function"]["name"], "b");
    assert_eq!(finding["lines"].as_array().unwrap().len(), 3);
    assert_eq!(knobs.runs(), ["c", "d", "b"]);
    client.settle();
    assert_eq!(knobs.glances().len(), 4, "nothing is scored twice");
    client.finish();
}

#[test]
fn a_verdict_alone_is_shown_as_one() {
    let knobs = Knobs::default();
    knobs.costly.store(true, Ordering::SeqCst);
    knobs.delay(100);
    let mut client = Client::start(Setup::default(), &knobs);
    client.open(URI, UNIT);
    client.settle();
    // Before its relevance is known a flagged function has a diagnostic, which then names lines.
    let published = client.take("textDocument/publishDiagnostics");
    let messages: Vec<&str> =
        published.iter().map(|params| params["diagnostics"][0]["message"].as_str().unwrap()).collect();
    assert_eq!(messages.first().unwrap(), &"copy looks vulnerable: p 0.94 (threshold 0.5)");
    assert!(messages.last().unwrap().contains("points to lines"), "{messages:?}");
    for params in client.take("linelens/relevance") {
        let functions = params["functions"].as_array().unwrap();
        assert!(
            functions.iter().all(|function| !function["lines"].as_array().unwrap().is_empty()),
            "{params}"
        );
    }
    let lenses = client.call("textDocument/codeLens", json!({"textDocument": {"uri": URI}})).unwrap();
    assert_eq!(lenses[0]["command"]["title"], "p 0.94 · attention:last");
    assert_eq!(lenses[3]["command"]["title"], "p 0.12");
    // A hover asks for the relevance.
    assert_eq!(knobs.runs(), ["copy"]);
    assert!(support::text_of(&client.hover(URI, 8, 5)).contains("is being analysed"));
    client.settle();
    assert_eq!(knobs.runs(), ["copy", "add"]);
    assert!(support::text_of(&client.hover(URI, 8, 5)).contains("relevance"));
    client.finish();
}

#[test]
fn what_is_visible_comes_before_the_rest_and_the_cursor_before_both() {
    let (mut client, knobs) = costly("file");
    client.open(URI, "");
    client.settle();
    show(&mut client, 3, 5);
    client.change(URI, 2, json!([{"text": FOUR}]));
    // The cursor is where the edit ended, after the last function.
    client.settle();
    assert_eq!(knobs.glances(), ["b", "a", "c", "d"]);
    client.finish();

    let (mut client, knobs) = costly("file");
    client.open(URI, "");
    client.settle();
    show(&mut client, 3, 5);
    client.change(URI, 2, json!([{"text": FOUR}]));
    client.hover(URI, 10, 4);
    client.settle();
    assert_eq!(knobs.runs().first().unwrap(), "d");
    assert_eq!(knobs.glances(), ["b", "a", "c"]);
    client.finish();
}

#[test]
fn the_setting_says_what_is_scored() {
    let (mut client, knobs) = costly("cursor");
    client.open(URI, FOUR);
    client.settle();
    show(&mut client, 0, 20);
    client.listen(Duration::from_millis(200));
    assert_eq!((knobs.glances().len(), knobs.runs().len()), (0, 0));
    client.hover(URI, 1, 5);
    client.settle();
    assert_eq!(knobs.runs(), ["a"]);
    client.finish();

    let (mut client, knobs) = costly("visible");
    client.open(URI, FOUR);
    client.settle();
    assert_eq!((knobs.glances().len(), knobs.runs().len()), (0, 0), "nobody said what is visible");
    show(&mut client, 3, 7);
    client.settle();
    assert_eq!(
        (knobs.glances(), knobs.runs()),
        (vec!["b".to_string(), "c".to_string()], vec!["c".to_string()])
    );
    show(&mut client, 0, 1);
    client.settle();
    assert_eq!(knobs.glances(), ["b", "c", "a"]);
    client.finish();
}

#[test]
fn the_document_that_was_edited_last_comes_first() {
    let (mut client, knobs) = costly("file");
    let (other, third) = ("file:///project/other.c", "file:///project/third.c");
    client.open(URI, "int a() {}\n");
    client.open(other, "int o() {}\n");
    client.open(third, "int z() {}\n");
    client.settle();
    // Both texts have come to rest when the engine is free to choose.
    knobs.delay(300);
    let id = client.request("linelens/explain", at(third, 0, 4));
    while !knobs.runs().contains(&"z".to_string()) {
        client.listen(Duration::from_millis(5));
    }
    knobs.delay(0);
    client.change(other, 2, insert(0, 0, "int p() {}\nint q() {}\n"));
    client.change(URI, 2, insert(0, 0, "int b() {}\nint e() {}\n"));
    client.settle();
    let glances = knobs.glances();
    let of = |name: &str| glances.iter().position(|glance| glance == name).unwrap();
    assert!(of("b") < of("p"), "{glances:?}");
    assert!(client.answer(id).is_ok());
    client.finish();
}

// ------------------------------------------------------------------------------------------------------------- models

/// Model directories, as far as their names are concerned.
fn models(names: &[&str]) -> (tempfile::TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().unwrap();
    let directory = |name: &&str| {
        let directory = folder.path().canonicalize().unwrap().join(name);
        std::fs::create_dir(&directory).unwrap();
        for file in ["model.onnx", "tokenizer.json"] {
            std::fs::write(directory.join(file), "").unwrap();
        }
        directory
    };
    let directories = names.iter().map(directory).collect();
    (folder, directories)
}

fn configured(directories: &[PathBuf]) -> Config {
    let (config, problems) =
        Config::load_from(&json!({"model": directories[0], "models": directories}), |_| None);
    assert_eq!(problems, []);
    config
}

fn setup(directories: &[PathBuf]) -> Setup {
    Setup { config: configured(directories), ..Setup::default() }
}

#[test]
fn a_model_is_chosen_by_its_name() {
    let (_folder, directories) = models(&["mild", "harsh", "third"]);
    std::fs::write(directories[2].join("detector.toml"), "name = \"the third\"\n").unwrap();
    let knobs = Knobs::default();
    let mut client = Client::start(setup(&directories), &knobs);
    quiet(&mut client);
    client.open(URI, UNIT);
    client.settle();
    let status = client.statuses.last().unwrap().clone();
    assert_eq!(status["model"], "mild");
    assert_eq!(status["models"], json!(["mild", "harsh", "the third"]));

    assert_eq!(client.command("linelens.setModel", json!(["harsh"])).unwrap(), "harsh");
    client.settle();
    assert_eq!(client.statuses.last().unwrap()["model"], "harsh");
    assert_eq!(client.statuses.last().unwrap()["models"], json!(["mild", "harsh", "the third"]));
    let finding = client.call("linelens/explain", at(URI, 8, 4)).unwrap();
    assert_eq!((&finding["model"]["name"], &finding["flagged"]), (&json!("harsh"), &json!(true)));
    // It stays when settings are read again, and the first can be chosen again.
    client.command("linelens.reload", json!([])).unwrap();
    client.settle();
    assert_eq!(client.statuses.last().unwrap()["model"], "harsh");
    assert_eq!(client.command("linelens.setModel", json!(["mild"])).unwrap(), "mild");
    client.settle();
    let finding = client.call("linelens/explain", at(URI, 8, 4)).unwrap();
    assert_eq!(finding["model"]["name"], "mild");
    client.finish();
}

#[test]
fn a_model_that_cannot_be_loaded_leaves_the_one_in_use() {
    let (_folder, directories) = models(&["mild", "harsh"]);
    let knobs = Knobs::default();
    knobs.broken.lock().unwrap().push(directories[1].clone());
    let mut client = Client::start(setup(&directories), &knobs);
    quiet(&mut client);
    client.ignore("window/showMessage");
    client.open(URI, UNIT);
    client.settle();
    let error = client.command("linelens.setModel", json!(["harsh"])).unwrap_err();
    assert_eq!(error["code"], -32803, "{error}");
    let message = error["message"].as_str().unwrap();
    assert!(message.contains("harsh") && message.contains("is no model"), "{message}");
    client.settle();
    assert_eq!(client.statuses.last().unwrap()["model"], "mild");
    assert_eq!(client.call("linelens/explain", at(URI, 3, 4)).unwrap()["model"]["name"], "mild");
    client.finish();
}

/// A model is named, never given as a path, and no workspace says which there are.
#[test]
fn neither_a_workspace_nor_a_command_names_a_directory() {
    let (_folder, directories) = models(&["mild", "harsh"]);
    let workspace = tempfile::tempdir().unwrap();
    let root = workspace.path().canonicalize().unwrap();
    let evil = root.join("evil");
    std::fs::create_dir(&evil).unwrap();
    for file in ["model.onnx", "tokenizer.json"] {
        std::fs::write(evil.join(file), "").unwrap();
    }
    let text = format!("models = [{:?}]\n", evil.display().to_string());
    std::fs::write(root.join("linelens.toml"), text).unwrap();
    let knobs = Knobs::default();
    let setup = Setup {
        config: configured(&directories[..1]),
        options: json!({"debounceMs": 20, "models": [evil]}),
        configuration: json!({"models": [evil]}),
        capabilities: with(plugin(), "workspace.configuration", json!(true)),
        folders: vec![format!("file://{}", root.display())],
        ..Setup::default()
    };
    let mut client = Client::start(setup, &knobs);
    quiet(&mut client);
    let mut refused = 0;
    while refused < 3 {
        let message = client.expect("window/showMessage");
        assert!(message["message"].as_str().unwrap().contains("`models`: ignored"), "{message}");
        refused += 1;
    }
    client.command("linelens.reload", json!([])).unwrap();
    for name in ["evil", evil.to_str().unwrap(), directories[1].to_str().unwrap(), "../harsh", ""] {
        let error = client.command("linelens.setModel", json!([name])).unwrap_err();
        assert_eq!(error["code"], -32602, "{error}");
        assert!(error["message"].as_str().unwrap().contains("there are mild;"), "{error}");
    }
    let loaded = knobs.models.lock().unwrap().clone();
    assert!(loaded.iter().all(|model| *model == Some(directories[0].clone())), "{loaded:?}");
    client.take("window/showMessage");
    client.abandon();
}

#[test]
fn a_directory_that_is_no_model_is_reported_and_left_out() {
    let (_folder, mut directories) = models(&["mild"]);
    directories.push("/nowhere/at/all".into());
    let knobs = Knobs::default();
    let mut client = Client::start(setup(&directories), &knobs);
    quiet(&mut client);
    let message = client.expect("window/showMessage");
    assert!(message["message"].as_str().unwrap().contains("/nowhere/at/all"), "{message}");
    client.open(URI, UNIT);
    client.settle();
    assert_eq!(client.statuses.last().unwrap()["models"], json!(["mild"]));
    client.finish();
}

#[test]
fn two_models_are_compared_on_a_function() {
    let (_folder, directories) = models(&["mild", "harsh"]);
    let knobs = Knobs::default();
    let mut client = Client::start(setup(&directories), &knobs);
    quiet(&mut client);
    client.open(URI, UNIT);
    client.settle();
    let found = client.command("linelens.compareModels", json!([at(URI, 8, 4)])).unwrap();
    assert_eq!(found["textDocument"], json!({"uri": URI, "version": 1}));
    let [mild, harsh] = found["models"].as_array().unwrap().as_slice() else { panic!("{found}") };
    assert_eq!((&mild["model"]["name"], &mild["flagged"]), (&json!("mild"), &json!(false)));
    assert_eq!((&harsh["model"]["name"], &harsh["flagged"]), (&json!("harsh"), &json!(true)));
    assert_eq!(mild["lines"], harsh["lines"]);
    assert_eq!(found["spearman"], 1.0);
    let text = found["content"]["text"].as_str().unwrap();
    assert!(text.contains("A  mild: not flagged") && text.contains("B  harsh: flagged"), "{text}");
    assert_eq!(found["content"]["uri"], "linelens:/models/unit.c/add.txt");
    // It stays loaded, and the model in use is not changed.
    client.command("linelens.compareModels", json!([at(URI, 3, 4)])).unwrap();
    assert_eq!(knobs.starts.load(Ordering::SeqCst), 2);
    assert_eq!(client.call("linelens/explain", at(URI, 3, 4)).unwrap()["model"]["name"], "mild");
    // By name, and what there is not.
    let mut params = at(URI, 3, 4);
    params["model"] = json!("gpt");
    let error = client.command("linelens.compareModels", json!([params])).unwrap_err();
    assert_eq!(error["code"], -32602, "{error}");
    params["model"] = json!("harsh");
    assert!(client.command("linelens.compareModels", json!([params])).is_ok());
    assert_eq!(client.command("linelens.compareModels", json!([at(URI, 0, 0)])).unwrap(), Value::Null);
    client.finish();
}

#[test]
fn a_function_is_explained_by_another_model_than_the_one_in_use() {
    let (_folder, directories) = models(&["mild", "harsh", "bad"]);
    let knobs = Knobs::default();
    knobs.broken.lock().unwrap().push(directories[2].clone());
    let mut client = Client::start(setup(&directories), &knobs);
    quiet(&mut client);
    client.open(URI, UNIT);
    client.settle();
    let mut params = at(URI, 8, 4);
    params["model"] = json!("harsh");
    for _ in 0..2 {
        let finding = client.call("linelens/explain", params.clone()).unwrap();
        assert_eq!((&finding["model"]["name"], &finding["flagged"]), (&json!("harsh"), &json!(true)));
    }
    assert_eq!(knobs.starts.load(Ordering::SeqCst), 2, "it stays loaded");
    // What the editor shows is what the model in use says.
    let finding = client.call("linelens/explain", at(URI, 8, 4)).unwrap();
    assert_eq!((&finding["model"]["name"], &finding["flagged"]), (&json!("mild"), &json!(false)));
    client.settle();
    assert_eq!(client.statuses.last().unwrap()["model"], "mild");
    params["model"] = json!("bad");
    let error = client.call("linelens/explain", params).unwrap_err();
    assert_eq!(error["code"], -32803, "{error}");
    assert!(error["message"].as_str().unwrap().contains("\"bad\" cannot be loaded"), "{error}");
    client.finish();
}

#[test]
fn reload_reads_the_users_file_again() {
    let (_folder, directories) = models(&["mild", "harsh"]);
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("linelens")).unwrap();
    let file = home.path().join("linelens/config.toml");
    let write = |text: &str| std::fs::write(&file, text).unwrap();
    write(&format!("model = {:?}\n", directories[0]));
    let (config, problems) =
        Config::load_from(&json!({}), |name| (name == "XDG_CONFIG_HOME").then(|| home.path().into()));
    assert_eq!(problems, []);
    let knobs = Knobs::default();
    let setup = Setup { config, folders: vec!["file:///project".to_string()], ..Setup::default() };
    let mut client = Client::start(setup, &knobs);
    quiet(&mut client);
    client.open(URI, UNIT);
    client.settle();
    assert_eq!(client.statuses.last().unwrap()["model"], "mild");
    write(&format!("model = {:?}\nthreshold = 0.01\n", directories[1]));
    assert_eq!(client.command("linelens.reload", json!([])).unwrap()["model"], "harsh");
    assert_eq!(client.call("linelens/explain", at(URI, 3, 4)).unwrap()["threshold"], 0.01);
    // What is wrong is said, and the last good settings stay.
    write("model = = 1\n");
    assert_eq!(client.command("linelens.reload", json!([])).unwrap()["model"], "harsh");
    let message = client.expect("window/showMessage");
    assert!(message["message"].as_str().unwrap().contains("config.toml, line 1: not TOML"), "{message}");
    std::fs::remove_file(&file).unwrap();
    client.command("linelens.reload", json!([])).unwrap();
    assert_eq!(client.call("linelens/explain", at(URI, 3, 4)).unwrap()["threshold"], 0.5);
    client.finish();
}

#[test]
fn comparing_models_says_why_it_cannot() {
    let (_folder, directories) = models(&["mild", "harsh", "third"]);
    let knobs = Knobs::default();
    knobs.broken.lock().unwrap().push(directories[2].clone());
    let setup = Setup { capabilities: plain(), ..setup(&directories) };
    let mut client = Client::start(setup, &knobs);
    quiet(&mut client);
    client.open(URI, UNIT);
    client.expect_ready(URI);
    // Plain clients are shown everything.
    let error = client.command("linelens.compareModels", json!([at(URI, 3, 4)])).unwrap_err();
    assert!(error["message"].as_str().unwrap().contains("harsh, third"), "{error}");
    assert!(client.expect("window/showMessage")["message"].as_str().unwrap().contains("harsh, third"));
    let mut params = at(URI, 3, 4);
    params["model"] = json!("third");
    let error = client.command("linelens.compareModels", json!([params])).unwrap_err();
    assert_eq!(error["code"], -32803, "{error}");
    assert!(client.expect("window/showMessage")["message"].as_str().unwrap().contains("is no model"));
    params["model"] = json!("harsh");
    client.command("linelens.compareModels", json!([params])).unwrap();
    assert!(client.expect("window/showMessage")["message"].as_str().unwrap().contains("B  harsh"));
    let range = json!({"start": {"line": 3, "character": 4}, "end": {"line": 3, "character": 4}});
    let actions = json!({"textDocument": {"uri": URI}, "range": range, "context": {"diagnostics": []}});
    let actions = client.call("textDocument/codeAction", actions).unwrap();
    let titles: Vec<&str> =
        actions.as_array().unwrap().iter().map(|action| action["title"].as_str().unwrap()).collect();
    for title in ["linelens: compare with the model harsh", "linelens: compare with the model third"] {
        assert!(titles.contains(&title), "{titles:?}");
    }
    assert!(!titles.iter().any(|title| title.contains("mild")), "{titles:?}");
    client.listen(Duration::from_millis(10));
    client.finish();
}

// ------------------------------------------------------------------------------------------------------- model files

/// The state of health after the next start of a model.
fn health_after(client: &mut Client, knobs: &Knobs, starts: usize) -> Value {
    let begun = std::time::Instant::now();
    loop {
        // What is said when a start begins has come in by then.
        let is_started = knobs.starts.load(Ordering::SeqCst) >= starts;
        client.listen(Duration::from_millis(30));
        let status = client.statuses.last().cloned().unwrap_or_default();
        if is_started && status["quiescent"] == true {
            return status;
        }
        assert!(begun.elapsed() < support::PATIENCE, "the model is not loaded again: {status}");
    }
}

#[test]
fn a_model_whose_files_change_is_loaded_again_and_a_broken_one_is_named() {
    let (_folder, directories) = models(&["mild"]);
    let capabilities = with(
        plugin(),
        "workspace.didChangeWatchedFiles",
        json!({"dynamicRegistration": true, "relativePatternSupport": true}),
    );
    let knobs = Knobs::default();
    let mut client = Client::start(Setup { capabilities, ..setup(&directories) }, &knobs);
    quiet(&mut client);
    client.open(URI, UNIT);
    client.settle();
    let watcher = |client: &Client| {
        let of = |request: &&Value| request.to_string().contains("linelens:model");
        client.requests.iter().filter(of).count()
    };
    assert_eq!(watcher(&client), 1);
    let registered =
        client.requests.iter().find(|request| request.to_string().contains("linelens:model")).unwrap();
    let pattern =
        registered.pointer("/params/registrations/0/registerOptions/watchers/0/globPattern").unwrap();
    assert_eq!(pattern["baseUri"], format!("file://{}", directories[0].display()));

    let changed = |client: &mut Client, file: &str, text: &str| {
        std::fs::write(directories[0].join(file), text).unwrap();
        let uri = format!("file://{}", directories[0].join(file).display());
        client.notify("workspace/didChangeWatchedFiles", json!({"changes": [{"uri": uri, "type": 2}]}));
    };
    // An event without a change is none.
    let uri = format!("file://{}", directories[0].join("model.onnx").display());
    client.notify("workspace/didChangeWatchedFiles", json!({"changes": [{"uri": uri, "type": 2}]}));
    client.listen(Duration::from_millis(500));
    assert_eq!(knobs.starts.load(Ordering::SeqCst), 1);
    changed(&mut client, "model.onnx", "other weights");
    assert_eq!(health_after(&mut client, &knobs, 2)["health"], "ok");
    // Broken: said once, and the state stays until it is repaired.
    knobs.broken.lock().unwrap().push(directories[0].clone());
    changed(&mut client, "model.onnx", "half");
    let status = health_after(&mut client, &knobs, 3);
    assert_eq!(status["health"], "error");
    assert!(status["message"].as_str().unwrap().contains("model.onnx: is no model"), "{status}");
    let shown = client.expect("window/showMessage");
    assert!(shown["message"].as_str().unwrap().contains("model.onnx: is no model"), "{shown}");
    knobs.broken.lock().unwrap().clear();
    changed(&mut client, "model.onnx", "whole again");
    assert_eq!(health_after(&mut client, &knobs, 4)["health"], "ok");
    assert_eq!(client.call("linelens/explain", at(URI, 3, 4)).unwrap()["model"]["name"], "mild");
    assert_eq!(watcher(&client), 1, "the directory is the same");
    client.finish();
}

#[test]
fn without_watchers_a_save_looks_at_the_model_and_another_model_is_another_directory() {
    let (_folder, directories) = models(&["mild", "harsh"]);
    let knobs = Knobs::default();
    let mut client = Client::start(setup(&directories), &knobs);
    quiet(&mut client);
    client.open(URI, UNIT);
    client.settle();
    assert!(!client.requests.iter().any(|request| request.to_string().contains("linelens:model")));
    let save = json!({"textDocument": {"uri": URI}});
    std::fs::write(directories[1].join("model.onnx"), "not in use").unwrap();
    client.notify("textDocument/didSave", save.clone());
    client.listen(Duration::from_millis(600));
    assert_eq!(knobs.starts.load(Ordering::SeqCst), 1);
    client.command("linelens.setModel", json!(["harsh"])).unwrap();
    std::fs::write(directories[1].join("detector.toml"), "threshold = 0.5\n").unwrap();
    client.notify("textDocument/didSave", save);
    health_after(&mut client, &knobs, 3);
    assert_eq!(knobs.models.lock().unwrap().last().unwrap().as_ref(), Some(&directories[1]));
    client.finish();
}

/// A virtual environment or model in any open folder is not discovered, whoever asks for a model.
#[test]
fn every_start_is_told_the_folders_that_are_not_trusted() {
    let (_folder, directories) = models(&["mild", "harsh"]);
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let roots: Vec<PathBuf> = [&one, &two].map(|folder| folder.path().canonicalize().unwrap()).to_vec();
    let uri = |root: &PathBuf| format!("file://{}", root.display());
    let knobs = Knobs::default();
    let mut client = Client::start(Setup { folders: vec![uri(&roots[0])], ..setup(&directories) }, &knobs);
    quiet(&mut client);
    let told = || std::mem::take(&mut *knobs.folders.lock().unwrap());
    assert_eq!(told(), roots[..1]);
    let added = json!({"event": {"added": [{"uri": uri(&roots[1]), "name": "two"}], "removed": []}});
    client.notify("workspace/didChangeWorkspaceFolders", added);
    client.open(URI, UNIT);
    client.settle();
    client.command("linelens.compareModels", json!([at(URI, 3, 4)])).unwrap();
    assert_eq!(told(), roots, "the second model");
    client.command("linelens.setModel", json!(["harsh"])).unwrap();
    assert_eq!(told(), roots, "another model");
    client.command("linelens.reload", json!([])).unwrap();
    assert_eq!(told(), roots, "the same again");
    client.finish();
}

// ----------------------------------------------------------------------------------------------------------- folders

#[test]
fn each_workspace_folder_has_its_own_settings() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let roots: Vec<PathBuf> = [&one, &two].map(|folder| folder.path().canonicalize().unwrap()).to_vec();
    let uri = |root: &PathBuf, name: &str| format!("file://{}", root.join(name).display());
    std::fs::write(roots[0].join("linelens.toml"), "threshold = 0.99\n").unwrap();
    std::fs::write(roots[1].join("linelens.toml"), "severity = \"error\"\nmethod = \"attention:2\"\n")
        .unwrap();
    let knobs = Knobs::default();
    let setup = Setup {
        folders: roots.iter().map(|root| format!("file://{}", root.display())).collect(),
        options: json!({"debounceMs": 20, "analyze": "file"}),
        ..Setup::default()
    };
    let mut client = Client::start(setup, &knobs);
    client.ignore("linelens/relevance");
    client.ignore("window/logMessage");
    let documents = [uri(&roots[0], "a.c"), uri(&roots[1], "a.c"), URI.to_string()];
    // What was published last: severity and method of each document's diagnostic.
    let shown = |client: &mut Client, expected: &[(usize, Option<u64>, bool); 3]| {
        let begun = std::time::Instant::now();
        let mut now: Vec<Option<Value>> = vec![None; 3];
        loop {
            for params in client.take("textDocument/publishDiagnostics") {
                let place = documents.iter().position(|uri| params["uri"] == uri.as_str()).unwrap();
                now[place] = Some(params["diagnostics"].clone());
            }
            let facts = now.iter().map(|diagnostics| {
                let all = diagnostics.as_ref().and_then(Value::as_array).cloned().unwrap_or_default();
                let first = all.first().cloned().unwrap_or_default();
                let message = first["message"].as_str().unwrap_or_default().to_string();
                (all.len(), first["severity"].as_u64(), message.contains("attention:2"))
            });
            if facts.collect::<Vec<_>>() == expected {
                return;
            }
            assert!(begun.elapsed() < support::PATIENCE, "{now:?}");
            client.listen(Duration::from_millis(10));
        }
    };
    for document in &documents {
        client.open(document, UNIT);
    }
    shown(&mut client, &[(0, None, false), (1, Some(1), true), (1, Some(3), false)]);
    // One folder's file changes: only its documents do.
    std::fs::write(roots[0].join("linelens.toml"), "severity = \"warning\"\n").unwrap();
    let changes = json!({"changes": [{"uri": uri(&roots[0], "linelens.toml"), "type": 2}]});
    client.notify("workspace/didChangeWatchedFiles", changes);
    let begun = std::time::Instant::now();
    loop {
        client.listen(Duration::from_millis(10));
        let published = client.take("textDocument/publishDiagnostics");
        assert!(published.iter().all(|params| params["uri"] == documents[0].as_str()), "{published:?}");
        if published.iter().any(|params| params["diagnostics"][0]["severity"] == 2) {
            break;
        }
        assert!(begun.elapsed() < support::PATIENCE, "the folder's file is not read");
    }
    // A folder that leaves takes its settings along.
    let removed = json!({"event": {"added": [], "removed": [{"uri": format!("file://{}", roots[1].display()), "name": "two"}]}});
    client.notify("workspace/didChangeWorkspaceFolders", removed);
    let begun = std::time::Instant::now();
    loop {
        client.listen(Duration::from_millis(10));
        let published = client.take("textDocument/publishDiagnostics");
        if published
            .iter()
            .any(|params| params["uri"] == documents[1].as_str() && params["diagnostics"][0]["severity"] == 3)
        {
            break;
        }
        assert!(begun.elapsed() < support::PATIENCE, "the folder's settings stay");
    }
    client.take("textDocument/publishDiagnostics");
    client.finish();
}
