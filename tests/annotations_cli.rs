//! `linelens annotations` as a program: output, messages, exit codes, files.
#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output};

const CODE: &str = "int f(char *s) {\n  char b[4];\n  strcpy(b, s);\n  return b[0];\n}";

fn run(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_linelens"))
        .arg("annotations")
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap()
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn messages(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn rows(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let good = json!({"id": 1, "func": CODE, "target": 1, "flaw_lines": [3], "cwe": "CWE-787", "path": "src/f.c", "name": "f"});
    let text = format!("{good}\nnot json\n{{\"func\":\"x\",\"target\":7}}\n{good}\n");
    std::fs::write(folder.path().join("set.jsonl"), text).unwrap();
    folder
}

#[test]
fn import_writes_the_good_rows_and_says_which_are_bad() {
    let folder = folder();
    let output = run(folder.path(), &["import", "set.jsonl", "--annotator", "them"]);
    assert_eq!(code(&output), Some(1));
    let found = rows(&out(&output));
    assert_eq!(found[0], json!({"schema": "linelens-annotations", "version": 1}));
    assert_eq!(found.len(), 3);
    assert_eq!(found[1]["lines"][0]["line"], 3);
    assert_eq!(found[1]["annotator"], "them");
    assert_eq!(found[1]["dataset"], json!({"name": "set.jsonl", "row": "1"}));
    let said = messages(&output);
    assert!(said.contains("set.jsonl, row 2: is not JSON"), "{said}");
    assert!(said.contains("set.jsonl, row 3: `target` is 7, expected 0 or 1"), "{said}");
    assert!(said.contains("2 bad rows: 1 label not 0 or 1, 1 not JSON"), "{said}");
}

#[test]
fn files_are_written_whole_and_not_replaced_unasked() {
    let folder = folder();
    let output = run(folder.path(), &["import", "set.jsonl", "--out", "truth.jsonl"]);
    assert_eq!((code(&output), out(&output).as_str()), (Some(1), ""));
    let written = std::fs::read_to_string(folder.path().join("truth.jsonl")).unwrap();
    assert_eq!(rows(&written).len(), 3);
    let again = run(folder.path(), &["import", "set.jsonl", "--out", "truth.jsonl"]);
    assert_eq!(code(&again), Some(2));
    assert!(messages(&again).contains("truth.jsonl exists already; `--force` replaces it"));
    let missing = run(folder.path(), &["import", "none.jsonl", "--out", "truth.jsonl", "--force"]);
    assert_eq!(code(&missing), Some(2));
    assert_eq!(
        std::fs::read_to_string(folder.path().join("truth.jsonl")).unwrap(),
        written,
        "left as it was"
    );
    // What was imported is imported as it is.
    let output = run(folder.path(), &["import", "truth.jsonl", "--out", "truth.jsonl", "--force"]);
    assert_eq!(code(&output), Some(0));
    assert_eq!(std::fs::read_to_string(folder.path().join("truth.jsonl")).unwrap(), written);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "no temporary file is left");
}

#[test]
fn sarif_goes_out_and_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("src")).unwrap();
    std::fs::write(folder.path().join("src/f.c"), format!("\n\n{CODE}\n")).unwrap();
    let line = |number: usize, text: &str| json!({"line": number, "text": text, "label": "flaw"});
    let records = [
        json!({"file": "src/f.c", "function": "f", "range": [3, 7], "label": "vulnerable", "cwe": ["CWE-787"],
               "lines": [line(2, "  char b[4];"), line(3, "  strcpy(b, s);"), line(4, "  return b[0];")], "note": "<n>"}),
        json!({"file": "src/g.c", "range": [3, 7], "label": "benign"}),
        json!({"label": "vulnerable", "lines": [line(2, "x")]}),
    ];
    let text: String = records.iter().map(|record| format!("{record}\n")).collect();
    std::fs::write(folder.path().join("truth.jsonl"), text).unwrap();
    let output = run(folder.path(), &["export", "truth.jsonl", "--out", "log.sarif"]);
    assert_eq!(code(&output), Some(0), "{}", messages(&output));
    assert!(messages(&output).contains("1 record without labelled lines is not in the log"));
    assert!(messages(&output).contains("1 record without a file and a range"));
    let log: Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("log.sarif")).unwrap()).unwrap();
    let results = log["runs"][0]["results"].as_array().unwrap();
    assert_eq!(results.len(), 1);
    let region = &results[0]["locations"][0]["physicalLocation"]["region"];
    assert_eq!((&region["startLine"], &region["endLine"]), (&json!(4), &json!(6)));
    assert_eq!(results[0]["ruleId"], "CWE-787");

    let output = run(folder.path(), &["import", "log.sarif", "--root", "."]);
    assert_eq!(code(&output), Some(0), "{}", messages(&output));
    let found = rows(&out(&output));
    assert_eq!(
        (&found[1]["range"], &found[1]["function"], &found[1]["cwe"]),
        (&json!([3, 7]), &json!("f"), &json!(["CWE-787"]))
    );
    let lines: Vec<_> =
        found[1]["lines"].as_array().unwrap().iter().map(|line| line["line"].clone()).collect();
    assert_eq!(lines, [2, 3, 4]);
    let output = run(folder.path(), &["export", "truth.jsonl", "--to", "native"]);
    assert_eq!(rows(&out(&output)).len(), 4);
}

#[test]
fn agreement_is_printed_and_is_json() {
    let folder = tempfile::tempdir().unwrap();
    let hash = "0".repeat(64);
    let record = |who: &str, lines: &[usize]| {
        let lines: Vec<Value> = lines
            .iter()
            .map(|line| json!({"line": line, "text": format!("l{line}"), "label": "flaw"}))
            .collect();
        json!({"file": "a.c", "function": "f\u{202e}", "range": [1, 10], "body_sha256": hash, "label": "vulnerable", "lines": lines, "annotator": who})
    };
    let text = format!("{}\n{}\n", record("ann", &[1, 2]), record("ben", &[2, 3]));
    std::fs::write(folder.path().join("t.jsonl"), text).unwrap();
    let output = run(folder.path(), &["agreement", "t.jsonl"]);
    assert_eq!(code(&output), Some(0));
    // p_o = 0.8, p_e = 0.04 + 0.64 = 0.68, so κ = 0.12 / 0.32.
    assert!(
        out(&output).contains(
            "ann and ben: kappa 0.375; 1 function, 10 lines: 1 marked by both, 1 and 1 by one of them"
        ),
        "{}",
        out(&output)
    );
    assert!(
        out(&output).contains("a.c: f\\u{202e}, line 1 of the function: l1 (flaw: ann; not marked: ben)"),
        "{}",
        out(&output)
    );
    let output = run(folder.path(), &["agreement", "t.jsonl", "--format", "json"]);
    let found: Value = serde_json::from_str(&out(&output)).unwrap();
    assert!((found["pairs"][0]["kappa"].as_f64().unwrap() - 0.375).abs() < 1e-12);
    assert_eq!(found["disagreements"][1]["line"], 3);
}

#[test]
fn check_counts_and_names_every_bad_row_when_asked() {
    let folder = folder();
    let output = run(folder.path(), &["check", "set.jsonl"]);
    assert_eq!(code(&output), Some(1));
    assert!(out(&output).contains(
        "set.jsonl: functions, 2 functions: 2 vulnerable, 0 benign, 0 unsure; 2 with 2 labelled lines; 2 bad rows"
    ));
    std::fs::write(folder.path().join("bad.jsonl"), "x\n".repeat(9)).unwrap();
    let some = run(folder.path(), &["check", "--from", "native", "bad.jsonl"]);
    assert_eq!(messages(&some).matches(", row ").count(), 5);
    assert!(messages(&some).contains("9 bad rows: 9 not JSON"));
    let all = run(folder.path(), &["check", "--all", "--from", "native", "bad.jsonl"]);
    assert_eq!(messages(&all).matches(", row ").count(), 9);
    let unknown = run(folder.path(), &["check", "--from", "xml", "bad.jsonl"]);
    assert_eq!(code(&unknown), Some(2));
    assert!(messages(&unknown).contains("\"xml\" is no format; there are native, functions"));
    let none = run(folder.path(), &["check", "bad.jsonl"]);
    assert_eq!(code(&none), Some(2));
}

#[test]
fn a_file_that_is_not_there_leaves_the_output_empty() {
    let folder = folder();
    for command in [&["import", "none.jsonl"][..], &["export", "none.jsonl", "--to", "native"]] {
        let output = run(folder.path(), command);
        assert_eq!((code(&output), out(&output).as_str()), (Some(2), ""), "{command:?}");
        assert!(messages(&output).contains("none.jsonl"), "{}", messages(&output));
    }
}

#[test]
fn an_annotator_who_says_two_things_of_a_function_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let record = |who: &str, label: &str| json!({"file": "a.c", "function": "f", "body_sha256": "0".repeat(64), "label": label, "annotator": who});
    let rows = [record("ann", "benign"), record("ben", "benign"), record("ann", "vulnerable")];
    let rows: String = rows.iter().map(|row| format!("{row}\n")).collect();
    std::fs::write(folder.path().join("t.jsonl"), rows).unwrap();
    let output = run(folder.path(), &["check", "t.jsonl"]);
    assert_eq!(code(&output), Some(0));
    let said = messages(&output);
    assert!(
        said.contains("t.jsonl, row 3: ann labelled this function before, in row 1; the later row stands"),
        "{said}"
    );
    assert!(!said.contains("ben labelled"), "{said}");
}

#[test]
fn pairs_of_files_with_one_name_are_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let pair = |body: &str| {
        let row = |target: u8, code: String| json!({"func": code, "target": target, "pair_id": "p1", "flaw_lines": []});
        let (old, new) =
            (format!("int f(void) {{ return {body}; }}"), format!("int f(void) {{ return {body} + 1; }}"));
        format!("{}\n{}\n", row(1, old), row(0, new))
    };
    for (name, body) in [("a", "x"), ("b", "y")] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
        std::fs::write(folder.path().join(name).join("set.jsonl"), pair(body)).unwrap();
    }
    let output = run(folder.path(), &["import", "a/set.jsonl", "b/set.jsonl"]);
    assert_eq!(code(&output), Some(0), "{}", messages(&output));
    let ids: Vec<Value> = rows(&out(&output))[1..].iter().map(|row| row["pair"]["id"].clone()).collect();
    assert_eq!(ids.len(), 4);
    assert!(ids[0] == ids[1] && ids[2] == ids[3] && ids[0] != ids[2], "{ids:?}");
    // Imported again, they are what they were.
    std::fs::write(folder.path().join("t.jsonl"), out(&output)).unwrap();
    assert_eq!(out(&run(folder.path(), &["import", "t.jsonl"])), out(&output));
}

#[test]
fn functions_of_sarif_results_are_looked_up_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("f.c"), format!("\n\n{CODE}\n")).unwrap();
    let result = |file: &str| {
        json!({"ruleId": "CWE-787", "message": {"text": "m"}, "locations": [{"physicalLocation": {
            "artifactLocation": {"uri": file}, "region": {"startLine": 5}}}]})
    };
    let log = json!({"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "t"}}, "results": [result("f.c"), result("gone.c")]}]});
    std::fs::write(folder.path().join("log.sarif"), log.to_string()).unwrap();
    let output = run(folder.path(), &["import", "log.sarif"]);
    assert_eq!(code(&output), Some(0), "{}", messages(&output));
    let found = rows(&out(&output));
    assert_eq!(found.len(), 3);
    assert_eq!((&found[1]["function"], &found[1]["range"]), (&json!("f"), &json!([3, 7])));
    assert_eq!(
        (&found[1]["lines"][0]["line"], &found[1]["lines"][0]["text"]),
        (&json!(3), &json!("  strcpy(b, s);"))
    );
    assert_eq!(found[1]["body_sha256"].as_str().unwrap().len(), 64);
    assert_eq!((&found[2]["file"], &found[2]["range"]), (&json!("gone.c"), &json!([5, 5])));
    assert!(messages(&output).contains("1 result's function was not found"), "{}", messages(&output));
    let output = run(folder.path(), &["check", "log.sarif"]);
    assert!(messages(&output).contains("1 result's function was not found"), "{}", messages(&output));
    // With a folder that was named, what is not there is wrong.
    let output = run(folder.path(), &["import", "log.sarif", "--root", "."]);
    assert_eq!(code(&output), Some(1));
}

#[cfg(unix)]
#[test]
fn nothing_is_written_through_a_link() {
    let folder = folder();
    let mine = folder.path().join("mine");
    std::fs::write(&mine, "mine").unwrap();
    std::os::unix::fs::symlink(&mine, folder.path().join("link.jsonl")).unwrap();
    for command in ["import", "export"] {
        let output = run(folder.path(), &[command, "set.jsonl", "--out", "link.jsonl", "--force"]);
        assert_eq!(code(&output), Some(2), "{command}");
        let said = messages(&output);
        assert!(said.contains("link.jsonl cannot be written: it is a symbolic link to"), "{said}");
        assert_eq!(std::fs::read_to_string(&mine).unwrap(), "mine");
    }
}
