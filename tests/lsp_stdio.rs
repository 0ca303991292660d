//! The server as its own process: how it ends, and what it does with the machine it finds.

#![allow(clippy::unwrap_used, clippy::expect_used)] // Helpers of tests are tests.

#[path = "support/lsp.rs"]
mod support;

use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};
use support::{Client, Setup, at};

const URI: &str = "file:///project/unit.c";
const UNIT: &str = "\
#include <string.h>

int copy(char *to, const char *from) {
    strcpy(to, from);
    return 0;
}
";

/// A server that finds no model, whatever this machine has.
fn server() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linelens"));
    command.args(["lsp", "--stdio"]);
    command
        .env("LINELENS_MODEL", "/nonexistent/model")
        .env_remove("XDG_CONFIG_HOME")
        .env("HOME", "/nonexistent");
    command
}

fn started(command: Command) -> Client {
    let mut client = Client::spawn(command);
    client.ignore("window/showMessage");
    client.ignore("window/logMessage");
    client.handshake(&Setup::default());
    client
}

#[test]
fn a_broken_set_up_is_reported_and_survived() {
    let mut client = Client::spawn(server());
    client.handshake(&Setup::default());
    let shown = client.expect("window/showMessage")["message"].as_str().unwrap().to_string();
    assert!(shown.contains("there is no model to ask"), "{shown}");
    client.expect("window/logMessage");
    client
        .wait(|c| c.statuses.iter().any(|status| status["health"] == "error").then_some(()), "a status")
        .unwrap();
    client.open(URI, UNIT);
    assert!(client.hover(URI, 2, 5)["contents"]["value"].as_str().unwrap().contains("no model"));
    assert_eq!(client.call("linelens/explain", at(URI, 3, 4)).unwrap_err()["code"], -32803);
    client.finish();
}

/// The whole way with the built-in detector.
#[test]
fn the_built_in_detector_serves_the_commands() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    std::fs::write(root.join("unit.c"), UNIT).unwrap();
    std::fs::write(root.join("other.c"), UNIT.replace("copy", "move")).unwrap();
    let uri = |name: &str| format!("file://{}", root.join(name).display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_linelens"));
    command.args(["lsp", "--stdio"]).env("XDG_CONFIG_HOME", &root).env("LINELENS_ANNOTATOR", "ann");
    let mut client = Client::spawn(command);
    for method in ["window/logMessage", "linelens/relevance", "textDocument/publishDiagnostics"] {
        client.ignore(method);
    }
    // With this threshold every function is flagged, and integrated gradients are what relevance costs most by.
    let options = json!({"debounceMs": 20, "threshold": 0, "method": "ig", "analyze": "file"});
    client.handshake(&Setup {
        folders: vec![uri("").trim_end_matches('/').to_string()],
        options,
        ..Setup::default()
    });
    client.open(&uri("unit.c"), UNIT);
    client.settle();
    let range = json!({"start": {"line": 0, "character": 0}, "end": {"line": 9, "character": 0}});
    let hints = json!({"textDocument": {"uri": uri("unit.c")}, "range": range});
    let hints = client.call("textDocument/inlayHint", hints).unwrap();
    assert_eq!(hints.as_array().unwrap().len(), 3, "{hints}");
    let there = client.command("linelens.nextRelevantLine", json!([at(&uri("unit.c"), 0, 0)])).unwrap();
    assert_eq!(there["range"]["start"]["line"], 3);
    let found = client.command("linelens.analyzeWorkspace", json!([])).unwrap();
    assert_eq!((&found["files"], &found["functions"]), (&json!(2), &json!(2)));
    assert_eq!(found["flagged"].as_array().unwrap().len(), 2);
    let mut ignore = at(&uri("unit.c"), 3, 4);
    ignore["reason"] = json!("by hand");
    client.command("linelens.ignore", json!([ignore])).unwrap();
    let done = client.command("linelens.exportReport", json!([{"format": "sarif"}])).unwrap();
    assert_eq!((&done["flagged"], &done["ignored"]), (&json!(2), &json!(1)));
    let done = client.command("linelens.exportReport", json!([{"format": "html"}])).unwrap();
    assert_eq!(done["file"], uri(".linelens/report.html"));
    let error = client.command("linelens.compareModels", json!([at(&uri("unit.c"), 3, 4)])).unwrap_err();
    assert!(error["message"].as_str().unwrap().contains("no other model"), "{error}");
    client.take("window/showMessage");
    client.finish();
}

#[test]
fn the_exit_code_tells_whether_there_was_a_shutdown() {
    started(server()).finish();
    let mut client = started(server());
    client.notify("exit", Value::Null);
    assert_eq!(client.wait_for_end(), 1);
    client.abandon();
    let mut client = started(server());
    client.close_input();
    assert_eq!(client.wait_for_end(), 1);
    client.abandon();
}

/// eglot kills a server that is not gone after a tenth of a second.
#[test]
fn the_server_ends_at_once_whatever_it_is_doing() {
    let folder = tempfile::tempdir().unwrap();
    let many: String = (0..300).map(|n| UNIT.replace("copy", &format!("copy{n}"))).collect();
    // While the model is loaded, in the middle of a run that takes minutes, and idle.
    for (text, wait) in [(many.as_str(), 0), (many.as_str(), 1500), (UNIT, 1500)] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_linelens"));
        command.args(["lsp"]).env("XDG_CONFIG_HOME", folder.path());
        let mut client = Client::spawn(command);
        for method in ["window/logMessage", "linelens/relevance", "textDocument/publishDiagnostics"] {
            client.ignore(method);
        }
        let options = json!({"debounceMs": 0, "threshold": 0, "method": "occlusion", "analyze": "file"});
        client.handshake(&Setup { options, ..Setup::default() });
        client.open(URI, text);
        client.listen(Duration::from_millis(wait));
        client.call("shutdown", json!({})).unwrap();
        client.notify("exit", Value::Null);
        let begun = Instant::now();
        assert_eq!(client.wait_for_end(), 0);
        let took = begun.elapsed();
        // On an idle machine some milliseconds; the rest is room for a busy one.
        assert!(took < Duration::from_secs(2), "{took:?} after {wait} ms");
        client.abandon();
    }
}

#[cfg(unix)]
#[test]
fn the_server_ends_with_the_process_of_its_client() {
    let mut editor = Command::new("sleep").arg("600").spawn().unwrap();
    let setup = Setup { process_id: Some(editor.id()), ..Setup::default() };
    let mut client = Client::spawn(server());
    client.ignore("window/showMessage");
    client.ignore("window/logMessage");
    client.handshake(&setup);
    client.listen(Duration::from_millis(700));
    editor.kill().unwrap();
    editor.wait().unwrap();
    let begun = Instant::now();
    assert_eq!(client.wait_for_end(), 1);
    assert!(begun.elapsed() < Duration::from_secs(10));
    client.abandon();
}

#[cfg(unix)]
#[test]
fn the_server_ends_with_its_parent_while_stdin_stays_open() {
    let server = server();
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec 3<&0; \"$0\" lsp <&3 & sleep 1", env!("CARGO_BIN_EXE_linelens")]);
    for (name, value) in server.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    let mut client = started(shell);
    let begun = Instant::now();
    // The shell ends after a second; the server's output ends with the server.
    while client.receive(begun + Duration::from_secs(20)) {}
    assert!(begun.elapsed() < Duration::from_secs(20), "the server lives on");
    client.abandon();
}

// -------------------------------------------------------------------------------------------------- protocol page

const PAGE: &str = include_str!("../docs/protocol.md");

/// The JSON block that follows a heading.
fn block(heading: &str) -> Value {
    let (_, rest) = PAGE.split_once(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("no {heading}"));
    let (_, rest) = rest.split_once("```json\n").unwrap();
    let (json, _) = rest.split_once("\n```").unwrap();
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{heading}: {error}"))
}

/// Paths of all fields.
fn fields(value: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut rest = vec![(String::new(), value)];
    while let Some((path, value)) = rest.pop() {
        match value {
            Value::Object(object) => {
                for (name, value) in object {
                    let path = format!("{path}.{name}");
                    found.insert(path.clone());
                    rest.push((path, value));
                }
            }
            Value::Array(values) => rest.extend(values.iter().map(|value| (path.clone(), value))),
            _ => {}
        }
    }
    found
}

/// The page's example reads as the type, and the type writes no more and no less.
fn same_shape<T: serde::de::DeserializeOwned + serde::Serialize>(heading: &str) {
    let example = block(heading);
    let value: T = serde_json::from_value(example.clone()).unwrap_or_else(|e| panic!("{heading}: {e}"));
    assert_eq!(fields(&serde_json::to_value(value).unwrap()), fields(&example), "{heading}");
}

#[test]
fn the_protocol_page_and_the_types_agree() {
    use linelens::lsp::ext;
    same_shape::<ext::ExplainParams>("### Parameters of `linelens/explain`");
    same_shape::<ext::DocumentFinding>("### The finding");
    same_shape::<ext::RelevanceParams>("## `linelens/relevance`");
    same_shape::<ext::FunctionsParams>("### Parameters of `linelens/functions`");
    same_shape::<ext::FunctionsMessage>("### The verdicts");
    same_shape::<ext::StatusParams>("## `linelens/status`");
    same_shape::<ext::ServerExtension>("### What the server answers");
    same_shape::<ext::ComparisonMessage>("### Comparing methods");
    same_shape::<ext::AnalysisMessage>("### Analysing files and folders");
    same_shape::<ext::ExportMessage>("### Reports");
    same_shape::<ext::ModelsMessage>("### Comparing models");
    same_shape::<ext::PairMessage>("### Comparing versions");
    same_shape::<ext::RelevantLineMessage>("### Going to a relevant line");
    same_shape::<ext::LabelledMessage>("### What was written");
    // Every optional field is in the examples, or the comparison would miss it.
    let mentioned: BTreeSet<&str> = PAGE
        .split('`')
        .filter(|word| {
            word.starts_with("linelens.")
                && word[9..].bytes().all(|b| b.is_ascii_alphabetic())
                && *word != "linelens.toml"
        })
        .collect();
    assert_eq!(mentioned, ext::COMMANDS.into_iter().collect());
    for name in [ext::EXPLAIN, ext::FUNCTIONS, ext::RELEVANCE, ext::STATUS] {
        assert!(PAGE.contains(&format!("`{name}`")), "{name}");
    }
    let example = fields(&block("### Parameters of `linelens/explain`"));
    for optional in [".method", ".profile", ".model", ".workDoneToken"] {
        assert!(example.contains(optional), "{optional}");
    }
    let example = fields(&block("### The finding"));
    for optional in [".completenessGap", ".lines.groundTruth", ".alignment.reason", ".alignment.wouldBe"] {
        assert!(example.contains(optional), "{optional}");
    }
    let example = fields(&block("## `linelens/status`"));
    for optional in [".message", ".model", ".executionProvider", ".method", ".methods", ".layers", ".models"]
    {
        assert!(example.contains(optional), "{optional}");
    }
}
