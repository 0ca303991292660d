//! `linelens eval` on ground truth without code: native annotation files and SARIF, whose functions are looked up in files.
#![allow(clippy::unwrap_used, clippy::print_stdout)] // Helpers of tests are tests.

#[path = "support/command.rs"]
mod command;

use command::{err, out, report, run, workspace};
use serde_json::{Value, json};

/// The record of a function before its fix is no bad row.
#[test]
fn a_function_that_was_changed_since_it_was_labelled_is_left_out() {
    let folder = annotated();
    let file = folder.path().join(".linelens/annotations.jsonl");
    let known = std::fs::read_to_string(&file).unwrap();
    let old = |text: &str| {
        let row = json!({"file": "a.c", "function": "copy", "range": [1, 6], "body_sha256": sha256(text),
                         "label": "vulnerable", "annotator": "ann", "lines": []});
        format!("{row}\n")
    };
    let evaluate = |rows: String| {
        std::fs::write(&file, format!("{known}{rows}")).unwrap();
        let methods = ["--methods", "none", "--format", "json"];
        run(folder.path(), &[["eval", ".linelens/annotations.jsonl"].as_slice(), &methods].concat())
    };
    let output = evaluate(old("int copy(void) {}"));
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(err(&output).contains("1 record labels a text that its file holds no more"), "{}", err(&output));
    let found: Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(
        (&found["splits"][0]["textGone"], &found["splits"][0]["malformed"]["rows"]),
        (&json!(1), &json!(0))
    );
    assert_eq!(found["evaluations"][0]["counts"]["functions"], 2);
    // A file that is not there is another matter.
    let elsewhere = old("int two(void) {}").replace("a.c", "b.c");
    let output = evaluate(old("int copy(void) {}") + &old("int copy(int a) {}") + &elsewhere);
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    assert!(err(&output).contains("2 records label texts that their files hold no more"), "{}", err(&output));
    assert!(err(&output).contains("1 row was skipped: 1 no text"), "{}", err(&output));
}

fn sha256(text: &str) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Records of three annotators on the functions of a file, for eval and for the editor.
fn annotated() -> tempfile::TempDir {
    let source = "int copy(char *to, const char *from)\n{\n\tto[0] = 0;\n\tstrcpy(to, from);\n\treturn 1;\n}\n\nint one(void)\n{\n\treturn 1;\n}\n";
    let folder = workspace(&[("a.c", source.to_string())]);
    let hash = sha256;
    let bodies: Vec<&str> = source.trim_end().split("\n\n").collect();
    let line = |line: usize| json!({"line": line, "text": bodies[0].lines().nth(line - 1).unwrap(), "label": "flaw"});
    let record = |name: &str, lines: &[usize]| {
        json!({"file": "a.c", "function": "copy", "range": [1, 6], "body_sha256": hash(bodies[0]), "label": "vulnerable",
               "annotator": name, "lines": lines.iter().map(|n| line(*n)).collect::<Vec<_>>()})
    };
    let benign = json!({"file": "a.c", "function": "one", "range": [8, 11], "body_sha256": hash(bodies[1]),
                        "label": "benign", "annotator": "ann"});
    let rows = [record("ann", &[3, 4]), record("bob", &[4]), record("cid", &[4, 5]), benign];
    let rows: String = rows.iter().map(|row| format!("{row}\n")).collect();
    std::fs::create_dir(folder.path().join(".linelens")).unwrap();
    std::fs::write(folder.path().join(".linelens/annotations.jsonl"), rows).unwrap();
    folder
}

#[test]
fn the_annotation_policy_says_which_lines_are_true() {
    let folder = annotated();
    for (number, (policy, lines)) in
        [("majority", &[4][..]), ("union", &[3, 4, 5]), ("intersection", &[4]), ("annotator:cid", &[4, 5])]
            .into_iter()
            .enumerate()
    {
        let out_folder = format!("run{number}");
        let arguments = [
            "eval",
            ".linelens/annotations.jsonl",
            "--methods",
            "attention:first",
            "--threshold",
            "0",
            "--annotation-policy",
            policy,
            "--out",
            &out_folder,
        ];
        let output = run(folder.path(), &arguments);
        assert!(output.status.success(), "{policy}: {}", err(&output));
        let found = report(folder.path(), &out_folder);
        assert_eq!(found["manifest"]["splits"][0]["annotationPolicy"], policy);
        let results = std::fs::read_to_string(folder.path().join(&out_folder).join("results.jsonl")).unwrap();
        let rows = results.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let row = rows.into_iter().find(|row| row["function"] == 0 && row["method"].is_string()).unwrap();
        // Every line of the function holds code and is scored.
        let expected: Vec<usize> = lines.iter().map(|line| line - 1).collect();
        assert_eq!(row["explanation"]["truth"], json!(expected), "{policy}");
        let found_da = &found["evaluations"][0]["methods"][0]["alignment"]["da"]["mean"];

        let arguments = [
            "explain",
            "a.c:2",
            "--method",
            "attention:first",
            "--profile",
            "paper",
            "--threshold",
            "0",
            "--annotation-policy",
            policy,
            "--format",
            "json",
        ];
        let output = run(folder.path(), &arguments);
        assert!(output.status.success(), "{policy}: {}", err(&output));
        let finding: Value = serde_json::from_str(out(&output).lines().next().unwrap()).unwrap();
        assert_eq!(finding["alignment"]["policy"], policy);
        assert_eq!(finding["alignment"]["lines"], json!(lines), "{policy}");
        let (here, there) = (finding["alignment"]["da"].as_f64().unwrap(), found_da.as_f64().unwrap());
        assert!((here - there).abs() < 1e-6, "{policy}: {here} {there}");
    }
    let unknown = run(folder.path(), &["explain", "a.c:2", "--annotation-policy", "loudest"]);
    assert_eq!(unknown.status.code(), Some(2));
}

#[test]
fn ground_truth_in_sarif_is_the_same_ground_truth() {
    let folder = annotated();
    let annotations = |arguments: &[&str]| {
        let mut all = vec!["annotations"];
        all.extend(arguments);
        let output = run(folder.path(), &all);
        assert!(output.status.success(), "{}", err(&output));
    };
    annotations(&["export", ".linelens/annotations.jsonl", "--out", "log.sarif"]);
    annotations(&["import", "log.sarif", "--root", ".", "--out", "back.jsonl"]);
    let explain = |file: &str| -> Value {
        let arguments = ["explain", "a.c:2", "--threshold", "0", "--annotations", file, "--format", "json"];
        let output = run(folder.path(), &arguments);
        assert!(output.status.success(), "{}", err(&output));
        serde_json::from_str::<Value>(out(&output).lines().next().unwrap()).unwrap()["alignment"].clone()
    };
    let first = explain(".linelens/annotations.jsonl");
    assert!(
        first["da"].as_f64().unwrap() > 0.0 && first["perAnnotator"].as_object().unwrap().len() == 3,
        "{first}"
    );
    assert_eq!(explain("back.jsonl"), first);
    assert_eq!(explain("log.sarif"), first);
}
