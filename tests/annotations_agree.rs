//! What a record says is the same to `explain`, `eval`, `annotations check` and `annotations export`, or they say why not.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use linelens::annotations::FunctionLines;
use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output};

const CODE: &str = "int f(char *s)\n{\n    char b[4];\n    strcpy(b, s);\n    puts(b);\n    return b[0];\n}";

fn run(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linelens"));
    command.args(arguments).current_dir(folder).env("XDG_CONFIG_HOME", folder).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn alignment(folder: &Path, file: &str) -> Value {
    let output = run(folder, &["explain", file, "--format", "json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_str::<Value>(&text(&output.stdout)).unwrap()["alignment"].take()
}

/// A workspace with `a.c`, in which `CODE` begins on line 3, and these records.
fn workspace(records: &[Value]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join(".linelens")).unwrap();
    std::fs::write(folder.path().join("a.c"), format!("\n\n{CODE}\n")).unwrap();
    let header = json!({"schema": "linelens-annotations", "version": 1});
    let rows: Vec<String> = std::iter::once(&header).chain(records).map(Value::to_string).collect();
    std::fs::write(folder.path().join(".linelens/annotations.jsonl"), rows.join("\n") + "\n").unwrap();
    folder
}

fn record(lines: &[(usize, &str)]) -> Value {
    let lines: Vec<Value> =
        lines.iter().map(|(line, text)| json!({"line": line, "text": text, "label": "flaw"})).collect();
    json!({"file": "a.c", "function": "f", "range": [1, 7], "body_sha256": FunctionLines::new(CODE).sha256(),
        "label": "vulnerable", "lines": lines})
}

const NATIVE: &str = ".linelens/annotations.jsonl";

fn report(folder: &Path) -> Value {
    let output = run(folder, &["eval", NATIVE, "--out", "out", "--methods", "attention:first"]);
    assert!(output.status.code() == Some(0), "{}", text(&output.stderr));
    serde_json::from_slice(&std::fs::read(folder.join("out/report.json")).unwrap()).unwrap()
}

/// The value of the first key of this name.
fn named<'a>(value: &'a Value, key: &str) -> Option<&'a Value> {
    match value {
        Value::Object(fields) => {
            fields.get(key).or_else(|| fields.values().find_map(|value| named(value, key)))
        }
        Value::Array(items) => items.iter().find_map(|value| named(value, key)),
        _ => None,
    }
}

#[test]
fn where_number_and_text_of_a_line_disagree_the_text_counts_everywhere() {
    // strcpy is on line 4 of the function, and line 6 of the file.
    let folder = workspace(&[record(&[(3, "    strcpy(b, s);"), (5, "    nowhere();")])]);
    let path = folder.path();
    let explained = alignment(path, "a.c");
    assert_eq!((&explained["lines"], &explained["unmatched"]), (&json!([6]), &json!(1)));
    let report = report(path);
    assert_eq!(
        (named(&report, "linesMoved"), named(&report, "linesMissing")),
        (Some(&json!(1)), Some(&json!(1)))
    );
    let markdown = std::fs::read_to_string(path.join("out/report.md")).unwrap();
    let da = format!("{:.4}", explained["da"].as_f64().unwrap());
    assert!(explained["da"].as_f64().unwrap() > 0.0 && markdown.contains(&da), "{da} is not in\n{markdown}");
    let said = text(&run(path, &["annotations", "check", NATIVE]).stderr);
    assert!(said.contains("row 2: line 5 is not found again in f of a.c"), "{said}");
    assert!(said.contains("line 3 of f in a.c has another text than the record says"), "{said}");
}

#[test]
fn a_copy_in_another_file_is_called_one() {
    let folder = workspace(&[record(&[(4, "    strcpy(b, s);")])]);
    let path = folder.path();
    std::fs::write(path.join("b.c"), format!("{CODE}\n")).unwrap();
    assert_eq!(alignment(path, "a.c")["foundBy"], Value::Null);
    let copy = alignment(path, "b.c");
    assert_eq!(copy["lines"], json!([4]));
    assert_eq!(copy["foundBy"], "approximate: labelled in a.c, of whose function this is a copy");
}

#[test]
fn the_later_of_two_records_without_annotator_stands() {
    let folder = workspace(&[record(&[(4, "    strcpy(b, s);")]), record(&[(5, "    puts(b);")])]);
    let path = folder.path();
    let explained = alignment(path, "a.c");
    assert_eq!(explained["lines"], json!([7]));
    report(path);
    let markdown = std::fs::read_to_string(path.join("out/report.md")).unwrap();
    let da = format!("{:.4}", explained["da"].as_f64().unwrap());
    assert!(explained["da"].as_f64().unwrap() > 0.0 && markdown.contains(&da), "{da} is not in\n{markdown}");
    let said = text(&run(path, &["annotations", "check", NATIVE]).stderr);
    assert!(said.contains("row 3") && said.contains("row 2"), "{said}");
}

#[test]
fn sarif_has_the_lines_of_today() {
    let folder = workspace(&[record(&[(4, "    strcpy(b, s);")])]);
    let output = run(folder.path(), &["annotations", "export", NATIVE]);
    let log: Value = serde_json::from_slice(&output.stdout).unwrap();
    let region = &log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"];
    assert_eq!((&region["startLine"], &region["endLine"]), (&json!(6), &json!(6)));
}

#[test]
fn a_record_of_neither_file_nor_text_is_named() {
    let folder = workspace(&[
        json!({"function": "f", "label": "vulnerable", "lines": [{"line": 4, "label": "flaw"}]}),
    ]);
    let said = text(&run(folder.path(), &["annotations", "check", NATIVE]).stderr);
    assert!(said.contains("row 2"), "{said}");
}

#[test]
fn rows_of_primevul_are_a_pair_only_where_it_is_sure() {
    let code = |name: &str, check: &str| {
        format!(
            "int {name}(char *d, const char *s, int n)\n{{\n{check}    memcpy(d, s, n);\n    {name}_done(d);\n    return n;\n}}"
        )
    };
    let row = |name: &str, target: u8, idx: usize, commit: &str| {
        let check = if target == 1 { "    if (n > 9)\n" } else { "    if (n > 8)\n" };
        json!({"idx": idx, "func": code(name, check), "target": target, "commit_id": commit, "cwe": ["CWE-787"],
            "cve": "CVE-2020-1", "func_hash": idx.to_string(), "project": "p"})
    };
    // One pair in the usual order, one that is turned, and two of one commit.
    let all = [
        row("one", 1, 1, "a"),
        row("one", 0, 2, "a"),
        row("two", 0, 3, "b"),
        row("two", 1, 4, "b"),
        row("three", 1, 5, "c"),
        row("three", 0, 6, "c"),
        row("four", 0, 7, "c"),
        row("four", 1, 8, "c"),
    ];
    for gone in 0..=all.len() {
        let rows: Vec<&Value> =
            all.iter().enumerate().filter(|(at, _)| *at != gone).map(|(_, row)| row).collect();
        let folder = tempfile::tempdir().unwrap();
        let lines: Vec<String> = rows.iter().map(|row| row.to_string()).collect();
        std::fs::write(folder.path().join("paired.jsonl"), lines.join("\n") + "\n").unwrap();
        let output = run(folder.path(), &["annotations", "import", "paired.jsonl", "--from", "primevul"]);
        let records: Vec<Value> =
            text(&output.stdout).lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
        let pairs = if gone == all.len() { 4 } else { 3 };
        assert_eq!(records.len(), 2 * pairs, "without {gone}: {}", text(&output.stderr));
        // The check is on line 3 of each; nothing else is a flaw.
        for record in &records {
            let lines: Vec<&Value> =
                record["lines"].as_array().into_iter().flatten().map(|line| &line["line"]).collect();
            let flaws: &[Value] = if record["label"] == "vulnerable" { &[json!(3)] } else { &[] };
            assert_eq!(lines, flaws.iter().collect::<Vec<_>>(), "without {gone}: {record}");
        }
        assert_eq!(text(&output.stderr).contains("1 bad row"), gone < all.len(), "{}", text(&output.stderr));
    }
}
