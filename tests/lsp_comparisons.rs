//! The language server compares: the methods on one function, a function with its fix.

#![allow(clippy::unwrap_used, clippy::expect_used)] // Helpers of tests are tests.

#[path = "support/lsp.rs"]
mod support;
#[path = "support/workspace.rs"]
mod workspace;

use serde_json::{Value, json};
use std::path::Path;
use support::{Client, Knobs, UNIT, at, plain, text_of};
use workspace::{Workspace, command, copy_row, until};

// ----------------------------------------------------------------------------------------------------- comparisons

#[test]
fn methods_are_compared_in_a_table_and_the_hover_remembers() {
    let workspace = Workspace::new();
    workspace.annotate(&[copy_row("bob", "vulnerable", &[2])]);
    let (mut client, knobs) = workspace.opened(workspace.setup());
    let uri = workspace.uri("unit.c");
    let comparison = command(&mut client, "linelens.compareMethods", at(&uri, 3, 4)).unwrap();
    let methods = comparison["methods"].as_array().unwrap();
    let names: Vec<&str> = methods.iter().map(|method| method["method"].as_str().unwrap()).collect();
    assert_eq!(names, ["attention:first", "attention:2", "attention:3", "attention:last"]);
    for method in methods {
        assert!(method["alignment"]["da"].is_number());
        assert_eq!(method["spearman"].as_object().unwrap().len(), 4);
        let own = method["spearman"][method["method"].as_str().unwrap()].as_f64().unwrap();
        assert!((own - 1.0).abs() < 1e-12);
        assert!(method["lines"].as_array().unwrap().iter().any(|line| line["groundTruth"] == true));
    }
    let text = comparison["content"]["text"].as_str().unwrap();
    assert!(text.contains("ρ attention:2") && text.contains("null (perm.)"), "{text}");
    assert!(comparison["content"]["uri"].as_str().unwrap().starts_with("linelens:/methods/unit.c/copy"));
    let hover = client.hover(&uri, 2, 5);
    for method in names {
        assert!(text_of(&hover).contains(&format!("| {method} | ")), "{hover}");
    }
    assert!(text_of(&hover).contains("ρ attention:2"), "how alike their ranks are: {hover}");
    assert_eq!(knobs.runs().len(), 2, "one run a function");
    assert_eq!(command(&mut client, "linelens.compareMethods", at(&uri, 0, 0)).unwrap(), Value::Null);
    client.finish();
}

#[test]
fn plain_clients_are_shown_the_table() {
    let workspace = Workspace::new();
    let mut setup = workspace.setup();
    setup.capabilities = plain();
    let knobs = Knobs::default();
    let mut client = Client::start(setup, &knobs);
    client.ignore("textDocument/publishDiagnostics");
    client.ignore("window/logMessage");
    let uri = workspace.uri("unit.c");
    client.open(&uri, UNIT);
    client.expect_ready(&uri);
    command(&mut client, "linelens.compareMethods", at(&uri, 3, 4)).unwrap();
    let shown = client.expect("window/showMessage");
    assert!(shown["message"].as_str().unwrap().contains("attention:first"), "{shown}");
    client.finish();
}

fn git(folder: &Path, arguments: &[&str]) {
    let mut command = std::process::Command::new("git");
    command.args(["-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgSign=false", "-C"]);
    assert!(command.arg(folder).args(arguments).status().unwrap().success(), "git {arguments:?}");
}

#[test]
fn versions_are_compared() {
    let workspace = Workspace::new();
    let folder = workspace.path("");
    git(&folder, &["init", "-q"]);
    git(&folder, &["add", "unit.c"]);
    git(&folder, &["commit", "-q", "-m", "1"]);
    let (mut client, _) = workspace.opened(workspace.setup());
    let uri = workspace.uri("unit.c");
    let fixed = UNIT.replace("    strcpy(to, from);", "    check(to);\n    copy_at_most(to, from, 8);");
    client.change(&uri, 2, json!([{"text": fixed}]));
    client.settle();
    let pair = command(&mut client, "linelens.comparePair", at(&uri, 3, 4)).unwrap();
    assert_eq!(pair["before"]["flagged"], true);
    assert_eq!(pair["after"]["flagged"], false);
    assert_eq!(pair["after"]["source"], "document");
    let commit = pair["before"]["source"].as_str().unwrap();
    assert_eq!(pair["revision"], json!({"name": "HEAD", "commit": commit, "byDefault": true}));
    let heading = format!("before HEAD ({commit}):3: copy");
    assert!(pair["content"]["text"].as_str().unwrap().starts_with(&heading), "{}", pair["content"]["text"]);
    let mut params = at(&uri, 3, 4);
    params["revision"] = json!("HEAD");
    let asked = command(&mut client, "linelens.comparePair", params).unwrap();
    assert_eq!(asked["revision"], json!({"name": "HEAD", "commit": commit, "byDefault": false}));
    assert_eq!(pair["outcome"], Value::Null, "nobody said which is vulnerable");
    let lines = pair["lines"].as_array().unwrap();
    let numbers: Vec<(Value, Value)> =
        lines.iter().map(|line| (line["before"].clone(), line["after"].clone())).collect();
    let none = Value::Null;
    assert_eq!(
        numbers,
        [
            (json!(2), json!(2)),
            (json!(3), none.clone()),
            (none.clone(), json!(3)),
            (none, json!(4)),
            (json!(4), json!(5)),
            (json!(5), json!(6)),
        ]
    );
    assert!(lines[0]["moved"].is_number());
    let text = pair["content"]["text"].as_str().unwrap();
    assert!(text.contains("-") && text.contains("strcpy(to, from);"), "{text}");

    // With labels on both sides there is an outcome.
    let mut label = at(&uri, 3, 4);
    label["label"] = json!("benign");
    command(&mut client, "linelens.setLabel", label).unwrap();
    let mut rows = workspace.rows();
    rows.push(vulnerable_by_hash());
    workspace.annotate(&rows);
    client.command("linelens.reload", json!([])).unwrap();
    let mut params = at(&uri, 3, 4);
    params["revision"] = json!("HEAD");
    let pair = command(&mut client, "linelens.comparePair", params.clone()).unwrap();
    assert_eq!(pair["outcome"], "P-C", "{}", pair["content"]["text"]);
    assert!(pair["before"]["alignment"]["da"].is_number());
    params["revision"] = json!("no-such-branch");
    let error = command(&mut client, "linelens.comparePair", params).unwrap_err();
    assert!(error["message"].as_str().unwrap().contains("no revision \"no-such-branch\""), "{error}");
    client.finish();
}

#[test]
fn one_annotator_labels_a_function_and_its_fix() {
    let workspace = Workspace::new();
    let folder = workspace.path("");
    let (mut client, _) = workspace.opened(workspace.setup());
    let uri = workspace.uri("unit.c");
    command(&mut client, "linelens.toggleGroundTruthLine", at(&uri, 3, 6)).unwrap();
    command(&mut client, "linelens.toggleGroundTruthLine", at(&uri, 4, 4)).unwrap();
    git(&folder, &["init", "-q"]);
    git(&folder, &["add", "unit.c"]);
    git(&folder, &["commit", "-q", "-m", "1"]);
    let old = workspace.rows();
    let fixed = UNIT.replace("    strcpy(to, from);", "    copy_at_most(to, from, 8);");
    client.change(&uri, 2, json!([{"text": fixed}]));
    client.settle();
    let mut label = at(&uri, 3, 4);
    label["label"] = json!("benign");
    command(&mut client, "linelens.setLabel", label).unwrap();
    let rows = workspace.rows();
    assert_eq!((rows.len(), &rows[..1]), (2, &old[..]), "{rows:?}");
    assert_eq!(rows[1]["label"], "benign");
    let mut params = at(&uri, 3, 4);
    params["revision"] = json!("HEAD");
    let pair = command(&mut client, "linelens.comparePair", params).unwrap();
    assert_eq!(pair["outcome"], "P-C", "{}", pair["content"]["text"]);
    assert_eq!(pair["before"]["alignment"]["label"], "vulnerable");
    assert_eq!(pair["before"]["alignment"]["lines"], json!([3, 4]));
    assert_eq!(pair["after"]["alignment"]["label"], "benign");
    client.finish();
}

#[test]
fn the_other_half_of_a_pair_comes_before_git() {
    let workspace = Workspace::new();
    let mut before = copy_row("bob", "vulnerable", &[2]);
    before["pair"] = json!({"id": "7", "role": "before"});
    let after = json!({"file": "fixed.c", "function": "copy", "range": [3, 6], "label": "benign",
        "annotator": "bob", "pair": {"id": "7", "role": "after"}});
    workspace.annotate(&[before, after.clone()]);
    std::fs::write(workspace.path("fixed.c"), UNIT.replace("strcpy(to, from)", "copy_at_most(to, from, 8)"))
        .unwrap();
    let (mut client, _) = workspace.opened(workspace.setup());
    let uri = workspace.uri("unit.c");
    let pair = command(&mut client, "linelens.comparePair", at(&uri, 3, 4)).unwrap();
    assert_eq!(pair["before"]["source"], "document");
    assert_eq!(pair["after"]["source"], "fixed.c");
    assert_eq!(pair["revision"], Value::Null);
    assert_eq!(pair["outcome"], "P-C", "{}", pair["content"]["text"]);
    assert_eq!(pair["after"]["alignment"]["label"], "benign");
    // A record that leads out of the folder is not followed.
    let mut outside = after;
    outside["file"] = json!("../fixed.c");
    let mut before = copy_row("bob", "vulnerable", &[2]);
    before["pair"] = json!({"id": "7", "role": "before"});
    workspace.annotate(&[before, outside]);
    client.notify("textDocument/didSave", json!({"textDocument": {"uri": uri}}));
    until(&mut client, "refusal", |client| {
        command(client, "linelens.comparePair", at(&uri, 3, 4)).is_err_and(|error| error["code"] == -32803)
    });
    client.finish();
}

/// The first version of `copy`, known by its text.
fn vulnerable_by_hash() -> Value {
    use sha2::{Digest, Sha256};
    let text: Vec<&str> = UNIT.lines().skip(2).take(4).collect();
    let digest = Sha256::digest(text.join("\n").as_bytes());
    let hash: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    json!({"function": "copy", "body_sha256": hash, "label": "vulnerable", "annotator": "ann",
        "lines": [{"line": 2, "text": "    strcpy(to, from);", "label": "flaw"}]})
}
