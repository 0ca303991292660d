//! What `linelens eval`, `unpack`, `score` and `annotations` say of the files that they are given.
#![allow(clippy::unwrap_used, clippy::print_stdout)] // Helpers of tests are tests.

mod support {
    pub mod command;
}

use serde_json::{Value, json};
use std::io::Write as _;
use std::path::Path;
use std::process::{Output, Stdio};
use support::command::{err, linelens, out, run, workspace};

/// A vulnerable function, its fix, and another one.
fn dataset(name: &str) -> String {
    let code = format!("int {name}(char *to, const char *from)\n{{\n\tstrcpy(to, from);\n\treturn 1;\n}}");
    let fixed = code.replace("strcpy(to, from)", "strlcpy(to, from, 8)");
    let other = format!("static int add_{name}(int a, int b)\n{{\n\treturn a + b;\n}}");
    let rows = [
        json!({"func": code, "target": 1, "flaw_lines": [3], "pair_id": name}),
        json!({"func": fixed, "target": 0, "flaw_lines": [], "pair_id": name}),
        json!({"func": other, "target": 0, "flaw_lines": []}),
    ];
    jsonl(&rows)
}

fn jsonl(rows: &[Value]) -> String {
    rows.iter().map(|row| format!("{row}\n")).collect()
}

/// A workspace with one source and its ground truth.
fn labelled(name: &str, source: &str, rows: &[Value]) -> tempfile::TempDir {
    let folder = workspace(&[(name, source)]);
    std::fs::create_dir(folder.path().join(".linelens")).unwrap();
    std::fs::write(folder.path().join(".linelens/annotations.jsonl"), jsonl(rows)).unwrap();
    folder
}

/// What `annotations check` says of a file without a bad row.
fn checked(folder: &Path, file: &str) -> String {
    let checked = run(folder, &["annotations", "check", file]);
    assert!(checked.status.success(), "no bad row: {}", err(&checked));
    err(&checked)
}

const NO_METHODS: [&str; 3] = ["eval", "--methods", "none"];

fn eval(folder: &Path, arguments: &[&str]) -> Output {
    run(folder, &[&NO_METHODS[..], arguments].concat())
}

fn read(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).unwrap()
}

fn sha256(text: &str) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn reports_name_the_training_files_and_count_all_bad_rows() {
    let (bad_train, bad_valid) =
        (format!("{}[1]\n", dataset("copy")), format!("{}{{\n7\n", dataset("valid")));
    let files = [("test.jsonl", dataset("copy")), ("train.jsonl", bad_train), ("valid.jsonl", bad_valid)];
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let folder = workspace(&files);
    let path = folder.path();
    let with_train = eval(path, &["test.jsonl", "--train", "train.jsonl", "--out", "run"]);
    assert_eq!(with_train.status.code(), Some(1), "a bad row of the training data: {}", err(&with_train));
    let hash = sha256(files[1].1);
    for report in ["run/report.md", "run/report.html", "run/report.json", "run/manifest.json"] {
        let text = read(path, report);
        assert!(text.contains("train.jsonl") && text.contains(&hash), "{report}: {text}");
    }
    assert!(
        read(path, "run/report.md")
            .contains("train.jsonl: 1 row was malformed and skipped: 1 not an object.")
    );
    let report: Value = serde_json::from_str(&read(path, "run/report.json")).unwrap();
    let training = &report["training"][0];
    assert_eq!((&training["functions"], &training["malformed"]["rows"]), (&json!(3), &json!(1)));
    assert_eq!(report["manifest"]["training"][0]["malformedRows"], 1);

    // Other training data change no result: the run goes on, and the manifest says which they were last.
    let again = eval(path, &["test.jsonl", "--out", "run"]);
    assert!(again.status.success(), "{}", err(&again));
    let manifest: Value = serde_json::from_str(&read(path, "run/manifest.json")).unwrap();
    assert_eq!(manifest["training"], json!([]));

    let tuned = eval(path, &["test.jsonl", "--threshold-from", "valid.jsonl", "--out", "tuned"]);
    assert_eq!(tuned.status.code(), Some(1), "{}", err(&tuned));
    let report: Value = serde_json::from_str(&read(path, "tuned/report.json")).unwrap();
    assert_eq!(report["thresholdSplit"]["malformed"]["rows"], 2);
    assert_eq!(report["thresholdSplit"]["functions"], 3);
    let said = "valid.jsonl: 2 rows were malformed and skipped: 1 not JSON, 1 not an object.";
    assert!(read(path, "tuned/report.md").contains(said) && read(path, "tuned/report.html").contains(said));
}

#[test]
fn reports_of_others_are_not_overwritten() {
    let folder = workspace(&[("test.jsonl", &dataset("copy"))]);
    let path = folder.path();
    std::fs::create_dir(path.join("mine")).unwrap();
    std::fs::write(path.join("mine/report.md"), "my own\n").unwrap();
    let refused = eval(path, &["test.jsonl", "--out", "mine"]);
    assert_eq!(refused.status.code(), Some(2));
    let said = err(&refused);
    assert!(said.contains("report.md is there already") && said.contains("nothing is overwritten"), "{said}");
    assert_eq!(read(path, "mine/report.md"), "my own\n");
    let there: Vec<_> = std::fs::read_dir(path.join("mine")).unwrap().collect();
    assert_eq!(there.len(), 1, "nothing else was written");
    // Its own it may.
    assert!(eval(path, &["test.jsonl", "--out", "ours"]).status.success());
    assert!(eval(path, &["test.jsonl", "--out", "ours"]).status.success());
}

#[test]
fn what_the_limit_cut_off_is_not_said_to_be_missing() {
    let folder = workspace(&[("test.jsonl", &dataset("copy"))]);
    let cut = eval(folder.path(), &["test.jsonl", "--limit", "1", "--format", "json"]);
    let report: Value = serde_json::from_str(&out(&cut)).unwrap();
    assert_eq!(report["evaluations"][0]["droppedPairs"], json!({"the fix is not among the first 1": 1}));
    let one = dataset("copy").lines().next().unwrap().to_string() + "\n";
    std::fs::write(folder.path().join("half.jsonl"), one).unwrap();
    let half = eval(folder.path(), &["half.jsonl", "--format", "json"]);
    let report: Value = serde_json::from_str(&out(&half)).unwrap();
    assert_eq!(report["evaluations"][0]["droppedPairs"], json!({"the fix is not in the data": 1}));
    assert!(out(&eval(folder.path(), &["half.jsonl"])).contains("1 function: 1 vulnerable"));
}

#[test]
fn an_unpacked_row_of_two_functions_has_its_truth_where_the_lines_are() {
    // Equal texts would have the ground truth of all rows.
    let row = |lines: &[usize], target: usize, name: &str| {
        let returned = lines.len();
        let f = format!("int f(int a)\n{{\n\tuse(a);\n\treturn {returned};\n}}");
        let g = format!("int g(char *to)\n{{\n\tgets(to);\n\treturn {returned};\n}}");
        json!({"func": format!("{f}\n{g}\n"), "target": target, "flaw_lines": lines, "name": name})
            .to_string()
    };
    let rows = [row(&[8], 1, "f"), row(&[3, 8], 1, ""), row(&[], 0, "")].join("\n");
    let folder = workspace(&[("test.jsonl", &rows)]);
    let path = folder.path();
    let unpacked = run(path, &["unpack", "test.jsonl", "there"]);
    assert!(unpacked.status.success(), "{}", err(&unpacked));
    assert!(out(&unpacked).starts_with("3 functions in "), "{}", out(&unpacked));
    let records: Vec<Value> = read(path, "there/.linelens/annotations.jsonl")
        .lines()
        .skip(1)
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let names: Vec<&str> = records.iter().map(|record| record["function"].as_str().unwrap()).collect();
    assert_eq!(names, ["g", "f", "g", "f", "g"]);
    let mut files: Vec<_> =
        std::fs::read_dir(path.join("there/000")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let truth = |file: &Path, name: &str| {
        let file = file.to_str().unwrap();
        let explained = run(path, &["explain", file, "--function", name, "--format", "json"]);
        assert!(explained.status.success(), "{}", err(&explained));
        assert!(!err(&explained).contains("unmatched"), "{}", err(&explained));
        let finding: Value = serde_json::from_str(&out(&explained)).unwrap();
        (finding["alignment"]["label"].clone(), finding["alignment"]["lines"].clone())
    };
    assert_eq!(truth(&files[0], "f"), (Value::Null, Value::Null));
    assert_eq!(truth(&files[0], "g"), (json!("vulnerable"), json!([8])));
    assert_eq!(truth(&files[1], "f"), (json!("vulnerable"), json!([3])));
    assert_eq!(truth(&files[1], "g"), (json!("vulnerable"), json!([8])));
    assert_eq!(truth(&files[2], "f"), (json!("benign"), json!([])));
    assert_eq!(truth(&files[2], "g"), (json!("benign"), json!([])));
}

#[test]
fn agreement_counts_what_data_sets_say() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let code = "int f(char *a)\n{\n\tgets(a);\n\treturn 1;\n}\n";
    let mut files = Vec::new();
    for (annotator, lines) in [("ann", vec![3]), ("bob", vec![3, 4])] {
        let row = json!({"func": code, "target": 1, "flaw_lines": lines}).to_string();
        std::fs::write(path.join("d.jsonl"), row).unwrap();
        let out_file = format!("{annotator}.jsonl");
        let imported =
            run(path, &["annotations", "import", "d.jsonl", "--annotator", annotator, "--out", &out_file]);
        assert!(imported.status.success(), "{}", err(&imported));
        files.push(out_file);
    }
    let compared = run(path, &["annotations", "agreement", &files[0], &files[1]]);
    assert!(compared.status.success(), "{}", err(&compared));
    // 5 lines, both mark 1, one marks another: p_o = 4/5, p_e = (1·2 + 4·3)/25 = 0.56, κ = 0.24/0.44.
    assert!(
        out(&compared)
            .contains("ann and bob: kappa 0.545; 1 function, 5 lines: 1 marked by both, 0 and 1 by one"),
        "{}",
        out(&compared)
    );
    assert!(!err(&compared).contains("do not count"), "{}", err(&compared));
    // Read directly, a data set is an annotator, too.
    let direct = run(path, &["annotations", "agreement", "d.jsonl", &files[0], "--format", "json"]);
    let direct: Value = serde_json::from_str(&out(&direct)).unwrap();
    assert_eq!(direct["functionsWithoutLineCount"], 0);
    assert_eq!(direct["pairs"][0]["lines"], 5);
}

#[test]
fn the_empty_text_behind_the_last_line_end_is_no_line() {
    let code = "int f(void)\n{\n\treturn 1;\n}\n";
    let row = json!({"func": code, "target": 1, "flaw_lines": [5]}).to_string();
    let folder = workspace(&[("d.jsonl", &row)]);
    let checked = run(folder.path(), &["annotations", "check", "d.jsonl"]);
    assert_eq!(checked.status.code(), Some(1));
    assert!(err(&checked).contains("line 5 lies outside the function, which has 4"), "{}", err(&checked));
}

#[test]
fn regions_of_sarif_beyond_a_file_or_across_functions_are_said_to_be_so() {
    let source = "int f(void)\n{\n\treturn 1;\n}\n\nint g(void)\n{\n\treturn 2;\n}\n";
    let result = |first: usize, last: usize| {
        json!({"ruleId": "r", "message": {"text": "m"}, "locations": [{"physicalLocation": {
            "artifactLocation": {"uri": "a.c"}, "region": {"startLine": first, "endLine": last}}}]})
    };
    let log = json!({"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "t"}},
        "results": [result(900, 900), result(3, 8), result(3, 3)]}]});
    let folder = workspace(&[("a.c", source), ("log.sarif", &log.to_string())]);
    for command in [&["annotations", "import", "log.sarif"][..], &["annotations", "check", "log.sarif"]] {
        let output = run(folder.path(), command);
        assert_eq!(output.status.code(), Some(1), "{}", err(&output));
        assert!(
            err(&output).contains("line 900 lies beyond the end of a.c, which has 9"),
            "{}",
            err(&output)
        );
        for place in ["\"range\":[900", "\"line\":900"] {
            assert!(!out(&output).contains(place), "{}", out(&output));
        }
    }
    let eval = eval(folder.path(), &["log.sarif"]);
    assert!(err(&eval).contains("a.c has no function that holds all of the lines 3 to 8"), "{}", err(&eval));
}

#[test]
fn check_names_the_records_whose_functions_are_gone() {
    let source = "int f(int a)\n{\n\treturn a;\n}\n";
    let rows = [
        json!({"file": "a.c", "function": "gone", "range": [9, 12], "label": "vulnerable", "annotator": "me",
            "lines": [{"line": 2, "text": "\tgets(a);", "before": "{", "after": "}", "label": "flaw"}]}),
        json!({"file": "a.c", "function": "f", "range": [1, 4], "label": "benign", "annotator": "me"}),
        json!({"file": "b.c", "function": "f", "range": [1, 4], "label": "benign", "annotator": "me"}),
    ];
    let folder = labelled("a.c", source, &rows);
    let path = folder.path();
    let said = checked(path, ".linelens/annotations.jsonl");
    assert!(
        said.contains(
            "row 1: unmatched: gone, vulnerable with 1 labelled line, belongs to none of the functions that a.c has now"
        ),
        "{said}"
    );
    assert!(said.contains("row 3: unmatched: f, benign, is of b.c, which cannot be read"), "{said}");
    assert!(!said.contains("row 2"), "{said}");
    let explained = run(path, &["explain", "a.c", "--format", "json"]);
    assert!(err(&explained).contains("row 1: unmatched: gone"), "{}", err(&explained));
    let finding: Value = serde_json::from_str(&out(&explained)).unwrap();
    assert_eq!(
        (&finding["unmatchedRecords"][0]["function"], &finding["unmatchedRecords"][0]["row"]),
        (&json!("gone"), &json!(1))
    );
    assert_eq!(finding["unmatchedRecords"].as_array().unwrap().len(), 1);
}

#[test]
fn a_dry_run_counts_malformed_rows_of_each_kind() {
    let folder = tempfile::tempdir().unwrap();
    let input = "{\"id\": 1, \"func\": \"int f;\"}\n{\"id\": 2,\n\n[3]\n{\"id\": 5, \"func\": 7}\n{\"id\": 6}\n{\"id\": \"é\", \"func\": \"é\"}\n{\"id\": 8, \"func\": \" \\n\"}\n";
    let mut child = linelens(folder.path(), &["score", "--dry-run"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let rows: Vec<Value> = out(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 8, "a line for every row");
    assert_eq!(rows[0], json!({"id": 1, "bytes": 6}));
    assert_eq!(
        (rows[2]["row"].as_u64(), rows[2]["error"].as_str()),
        (Some(3), Some("is blank: expected a JSON object"))
    );
    assert_eq!((rows[4]["id"].as_u64(), rows[4]["row"].as_u64()), (Some(5), Some(5)));
    assert_eq!(rows[3]["id"], Value::Null, "the element of an array is no id");
    let error = |row: usize| rows[row]["error"].as_str().unwrap().to_string();
    assert_eq!(error(4), "`func` is 7, expected the text of a function in double quotes");
    assert_eq!(error(5), "there is no field `func`: expected the text of a function");
    assert!(error(1).starts_with("not JSON: ") && !error(1).contains("EOF"), "{}", error(1));
    assert_eq!(rows[6], json!({"id": "é", "bytes": 2}));
    let said = err(&output);
    assert!(
        said.contains("6 rows have no score: 1 blank, 1 not JSON, 1 not an object, 1 with an empty `func`, 2 without a string `func`"),
        "{said}"
    );
    assert_eq!((rows[7]["id"].as_u64(), rows[7]["row"].as_u64()), (Some(8), Some(8)));
    assert!(rows[7]["error"].as_str().unwrap().contains("`func` is empty"), "{}", rows[7]);
}

#[test]
fn check_names_renamed_functions_and_records_that_were_set_aside() {
    let body = "{\n    char to[8];\n    strcpy(to, s);\n    puts(to);\n    return to[0];\n}\n";
    let source = format!("int renamed(char *s) {body}\nint kept(int a) {{\n    return a + 1;\n}}\n");
    let rows = [
        json!({"file": "a.cpp", "function": "parse", "range": [40, 45], "label": "vulnerable", "annotator": "me",
            "body_sha256": sha256("gone"),
            "lines": [{"line": 3, "text": "    strcpy(to, s);", "before": "    char to[8];", "after": "    puts(to);", "label": "flaw"}]}),
        json!({"file": "a.cpp", "function": "kept", "range": [8, 10], "label": "vulnerable", "annotator": "me",
            "body_sha256": sha256("older")}),
        json!({"file": "a.cpp", "function": "kept", "range": [8, 10], "label": "benign", "annotator": "me",
            "body_sha256": sha256("int kept(int a) {\n    return a + 1;\n}")}),
    ];
    let folder = labelled("a.cpp", &source, &rows);
    let path = folder.path();
    let said = checked(path, ".linelens/annotations.jsonl");
    assert!(
        said.contains(
            "row 1: taken for renamed of a.cpp: approximate: labelled as parse, found by its lines"
        ),
        "{said}"
    );
    assert!(said.contains("row 2: set aside: kept, vulnerable, is of an older text"), "{said}");
    assert!(said.contains("of which row 3 of the same annotator speaks"), "{said}");
    assert!(!said.contains("unmatched"), "{said}");
    let explained = |name: &str, format: &str| {
        let explained = run(path, &["explain", "a.cpp", "--function", name, "--format", format]);
        assert!(explained.status.success(), "{}", err(&explained));
        out(&explained)
    };
    let finding: Value = serde_json::from_str(&explained("renamed", "json")).unwrap();
    let found_by = finding["alignment"]["foundBy"].as_str().unwrap();
    assert_eq!(found_by, "approximate: labelled as parse, found by its lines");
    assert!(explained("renamed", "html").contains("approximate: labelled as parse, found by its lines"));
    let finding: Value = serde_json::from_str(&explained("kept", "json")).unwrap();
    assert_eq!(
        (&finding["alignment"]["foundBy"], &finding["alignment"]["setAside"]),
        (&Value::Null, &json!(1))
    );
    assert!(explained("kept", "ansi").contains("1 record of an older text set aside"));
    assert!(explained("kept", "html").contains("~ ground truth that may have changed"));
}

#[test]
fn check_says_what_is_the_case_with_unpacked_rows() {
    let two = "int f(int a)\n{\n\treturn a;\n}\nint g(int a)\n{\n\treturn a;\n}\n";
    let macros = "#define N 4\nint h(int a)\n{\n\treturn a + N;\n}\n";
    let rows = [
        json!({"func": two, "target": 1, "flaw_lines": []}),
        json!({"func": macros, "target": 1, "flaw_lines": [1]}),
    ];
    let folder = workspace(&[("d.jsonl", &jsonl(&rows))]);
    let path = folder.path();
    assert!(run(path, &["unpack", "d.jsonl", "there"]).status.success());
    let said = checked(path, "there/.linelens/annotations.jsonl");
    assert!(
        said.contains("row 2: unmatched: vulnerable, is of the text in lines 1 to 8 of 000/000000-"),
        "{said}"
    );
    assert!(!said.contains("any more"), "{said}");
}

#[test]
fn a_refused_folder_is_left_as_it_was() {
    let folder = workspace(&[("test.jsonl", &dataset("copy"))]);
    let path = folder.path();
    for (name, manifest) in [("words", "my own notes\n"), ("empty", "{}\n"), ("list", "[1]")] {
        std::fs::create_dir(path.join(name)).unwrap();
        std::fs::write(path.join(name).join("manifest.json"), manifest).unwrap();
        let refused = eval(path, &["test.jsonl", "--out", name]);
        assert_eq!(refused.status.code(), Some(2), "{}", err(&refused));
        assert!(err(&refused).contains("choose another folder with --out"), "{}", err(&refused));
        assert_eq!(
            std::fs::read_dir(path.join(name)).unwrap().count(),
            1,
            "{name}: nothing else was written"
        );
        assert_eq!(read(path, &format!("{name}/manifest.json")), manifest);
    }
}

#[test]
fn a_training_file_that_is_named_twice_counts_once() {
    let (test, train) = (dataset("copy"), dataset("train"));
    let folder = workspace(&[("test.jsonl", &test), ("train.jsonl", &train), ("again.jsonl", &train)]);
    let train = ["test.jsonl", "--train", "train.jsonl", "--train", "train.jsonl", "--train", "again.jsonl"];
    let output = eval(folder.path(), &[&train[..], &["--format", "json"]].concat());
    assert!(output.status.success(), "{}", err(&output));
    let report: Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(report["training"].as_array().unwrap().len(), 1);
    assert!(err(&output).contains("again.jsonl: is the same as "), "{}", err(&output));
}

#[test]
fn agreement_of_records_without_a_name_says_how_to_name_them() {
    let row = json!({"func": "int f(void)\n{\n\treturn 1;\n}\n", "target": 1, "flaw_lines": [3]}).to_string();
    let folder = workspace(&[("a.jsonl", &row), ("b.jsonl", &row)]);
    let compared = run(folder.path(), &["annotations", "agreement", "a.jsonl", "b.jsonl"]);
    assert!(err(&compared).contains("`linelens annotations import --annotator NAME`"), "{}", err(&compared));
}

#[test]
fn columns_of_sarif_beyond_a_line_are_said_to_be_so() {
    let result = |start: u64, end: u64| {
        json!({"ruleId": "r", "message": {"text": "m"}, "locations": [{"physicalLocation": {
            "artifactLocation": {"uri": "a.c"}, "region": {"startLine": 3, "startColumn": start, "endColumn": end}}}]})
    };
    // Line 3 is a tab and nine characters.
    let log = json!({"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "t"}},
        "results": [result(2, 11), result(2, 12), result(500, 501), result(5, 2), result(0, 2)]}]});
    let folder = workspace(&[("a.c", "int f(void)\n{\n\treturn 1;\n}\n"), ("log.sarif", &log.to_string())]);
    let checked = run(folder.path(), &["annotations", "check", "log.sarif"]);
    let said = err(&checked);
    assert_eq!(checked.status.code(), Some(1), "{said}");
    assert!(said.contains("row 2: column 12 lies beyond the end of line 3 of a.c, which has 10"), "{said}");
    assert!(said.contains("row 3: column 500 lies beyond"), "{said}");
    for row in ["row 4", "row 5"] {
        assert!(said.contains(&format!("{row}: names no line of a file: its region's columns")), "{said}");
    }
    assert!(!said.contains("row 1:"), "{said}");
}

#[test]
fn eval_says_that_the_function_of_a_record_without_a_hash_is_gone() {
    let row = json!({"file": "a.c", "function": "gone", "range": [1, 4], "label": "vulnerable", "annotator": "me",
        "lines": [{"line": 3, "text": "\tgets(a);", "label": "flaw"}]});
    let folder = workspace(&[("a.c", "int f(int a)\n{\n\treturn a;\n}\n"), ("t.jsonl", &row.to_string())]);
    let said = err(&eval(folder.path(), &["t.jsonl"]));
    assert!(said.contains("1 function gone"), "{said}");
    let rows = linelens::annotations::dataset::open(&folder.path().join("t.jsonl"), None).unwrap();
    let reasons: Vec<String> = rows.map(|row| row.unwrap_err().reason.to_string()).collect();
    assert_eq!(reasons, ["its function gone is not in line 1 of a.c any more, where f stands now"]);
}

#[cfg(unix)]
#[test]
fn nothing_is_unpacked_or_written_into_a_link() {
    let folder = workspace(&[("test.jsonl", &dataset("copy"))]);
    let path = folder.path();
    let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, path.join(name)).unwrap();
    link("nowhere", "there");
    let refused = run(path, &["unpack", "test.jsonl", "there"]);
    assert_eq!(refused.status.code(), Some(2));
    let said = err(&refused);
    assert!(said.contains("there is to be a folder, but it is a symbolic link to nowhere"), "{said}");
    std::fs::create_dir(path.join("ours")).unwrap();
    std::fs::create_dir(path.join("elsewhere")).unwrap();
    link("../elsewhere", "ours/.linelens");
    let said = err(&run(path, &["unpack", "test.jsonl", "ours"]));
    assert!(
        said.contains(".linelens is to be a folder, but it is a symbolic link to ../elsewhere"),
        "{said}"
    );
    link("nowhere.onnx", "graph.onnx");
    let graph = ["graph", "--method", "attnlrp", "--out", "graph.onnx"];
    let said = err(&run(path, &graph));
    assert!(said.contains("graph.onnx cannot be written: it is a symbolic link to nowhere.onnx"), "{said}");
    assert!(!path.join("nowhere.onnx").exists());
}

#[cfg(unix)]
#[test]
fn a_link_that_leads_nowhere_is_said_to() {
    let folder = workspace(&[("a.c", "int f(int a)\n{\n\treturn a;\n}\n")]);
    let path = folder.path();
    std::fs::create_dir(path.join(".linelens")).unwrap();
    std::os::unix::fs::symlink("missing.jsonl", path.join(".linelens/annotations.jsonl")).unwrap();
    let explained = run(path, &["explain", "a.c"]);
    let said = err(&explained);
    assert!(said.contains("is a symbolic link to missing.jsonl, which is not there"), "{said}");
    assert!(!said.contains("outside"), "{said}");
}
