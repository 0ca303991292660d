//! `linelens eval`, `unpack` and `score --dry-run` end to end, with the built-in detector on small datasets of our own.
#![allow(clippy::unwrap_used, clippy::print_stdout)] // Helpers of tests are tests.

#[path = "support/command.rs"]
mod command;

use command::{err, linelens, out, report, run, workspace};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// `count` pairs of a function and its fix, and as many functions beside them; the numbers start at `from`.
fn dataset(from: usize, count: usize) -> String {
    let mut text = String::new();
    for n in from..from + count {
        let body: String = (0..n % 5).map(|i| format!("\tlog_value(in[{i}] + {n});\n")).collect();
        let vulnerable = format!(
            "int copy_{n}(char *out, const char *in, int len)\n{{\n{body}\tstrcpy(out, in);\n\treturn len;\n}}"
        );
        let fixed = vulnerable.replace("strcpy(out, in);", "strlcpy(out, in, len);");
        let other = format!("static int add_{n}(int a, int b)\n{{\n{body}\treturn a + b * {n};\n}}");
        let flaw = 3 + n % 5;
        for (row, code, target, lines, pair) in [
            ("v", &vulnerable, 1, vec![flaw], Some(n)),
            ("f", &fixed, 0, vec![], Some(n)),
            ("o", &other, 0, vec![], None),
        ] {
            let row = json!({
                "id": format!("{row}{n}"), "source": if n % 2 == 0 { "even" } else { "odd" }, "project": "p",
                "commit": format!("c{n}"), "cwe": ["CWE-120"], "func": code, "target": target, "flaw_lines": lines,
                "pair_id": pair.map(|n| format!("pair{n}")), "name": format!("copy_{n}"),
            });
            writeln!(text, "{row}").unwrap();
        }
    }
    text
}

const METHODS: &str = "attention:first,attnlrp,occlusion";

#[test]
fn the_tables_are_complete_and_the_same_for_any_number_of_jobs() {
    let folder = workspace(&[("test.jsonl", dataset(0, 6))]);
    let eval = |jobs: &str, out: &str| {
        let arguments = [
            "eval",
            "test.jsonl",
            "--methods",
            METHODS,
            "--threshold",
            "0.4",
            "--jobs",
            jobs,
            "--out",
            out,
            "--faithfulness",
        ];
        let output = run(folder.path(), &arguments);
        assert!(output.status.success(), "{}", err(&output));
        output
    };
    let printed = out(&eval("1", "one"));
    eval("2", "two");
    let read = |run: &str, file: &str| std::fs::read_to_string(folder.path().join(run).join(file)).unwrap();
    for file in ["report.json", "report.md", "report.html", "manifest.json"] {
        assert_eq!(read("one", file), read("two", file), "{file}");
    }
    let found = report(folder.path(), "one");
    let evaluation = &found["evaluations"][0];
    assert_eq!(evaluation["counts"]["functions"], 18);
    assert_eq!(evaluation["counts"]["withLines"], 6);
    assert_eq!(evaluation["threshold"], json!({"value": 0.4, "from": "given"}));
    assert_eq!(evaluation["profile"], "paper");
    assert_eq!(evaluation["pairs"]["pairs"], 6);
    let methods = evaluation["methods"].as_array().unwrap();
    assert_eq!(methods.len(), 3);
    for method in methods {
        let alignment = &method["alignment"];
        assert_eq!(alignment["functions"], 6);
        let (mean, would_be) =
            (alignment["da"]["mean"].as_f64().unwrap(), alignment["wouldBe"]["mean"].as_f64().unwrap());
        assert!((0.0..=1.0).contains(&mean) && mean <= would_be + 1e-12);
        assert!(method["faithfulness"]["comprehensiveness"].is_number(), "{method}");
    }
    // Precision and recall by counting the results by hand.
    let results: Vec<Value> =
        read("one", "results.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let scores = results.iter().filter(|row| row["score"].is_object());
    let flagged: Vec<u64> = scores
        .clone()
        .filter(|row| row["score"]["probability"].as_f64().unwrap() > 0.4)
        .map(|row| row["function"].as_u64().unwrap())
        .collect();
    assert_eq!(scores.count(), 18);
    let hits = flagged.iter().filter(|function| *function % 3 == 0).count();
    assert_eq!(evaluation["functions"]["truePositives"], hits);
    assert_eq!(evaluation["functions"]["falsePositives"], flagged.len() - hits);
    // Vulnerable functions with lines and flagged ones are explained, and no others.
    let mut explained: Vec<u64> = results
        .iter()
        .filter(|row| row["method"] == "attnlrp")
        .map(|row| row["function"].as_u64().unwrap())
        .collect();
    explained.sort_unstable();
    let expected: Vec<u64> =
        (0..18).filter(|function| function % 3 == 0 || flagged.contains(function)).collect();
    assert_eq!(explained, expected);

    let dimensions: Vec<&str> =
        evaluation["slices"].as_array().unwrap().iter().map(|slice| slice["by"].as_str().unwrap()).collect();
    for by in ["source", "benign side", "lines of code", "seen by the model", "CWE"] {
        assert!(dimensions.contains(&by), "{by} of {dimensions:?}");
    }
    for heading in [
        "# linelens eval",
        "## test.jsonl",
        "### Alignment",
        "### Localisation",
        "### Pairs",
        "majority class",
    ] {
        assert!(printed.contains(heading), "{heading} in {printed}");
    }
    let html = read("one", "report.html");
    assert!(html.contains("<svg") && html.contains("prefers-color-scheme: dark"));
    assert!(
        !html.contains("http://")
            || html.matches("http://").count() == html.matches("http://www.w3.org/2000/svg").count()
    );
    assert!(!html.contains("https://") && !html.contains("<script"), "it needs nothing from elsewhere");
}

#[test]
fn statements_are_aligned_in_the_place_of_lines() {
    let folder = workspace(&[("test.jsonl", dataset(0, 1))]);
    let units = |granularity: &str| -> (usize, usize) {
        let out = format!("by-{granularity}");
        let arguments = [
            "eval",
            "test.jsonl",
            "--methods",
            "attention:first",
            "--granularity",
            granularity,
            "--out",
            &out,
        ];
        let output = run(folder.path(), &arguments);
        assert!(output.status.success(), "{}", err(&output));
        let profile = report(folder.path(), &out)["evaluations"][0]["profile"].as_str().unwrap().to_string();
        assert_eq!(profile, if granularity == "line" { "paper" } else { "paper+granularity=statement" });
        let results = std::fs::read_to_string(folder.path().join(&out).join("results.jsonl")).unwrap();
        let rows = results.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let row = rows.into_iter().find(|row| row["function"] == 0 && row["method"].is_string()).unwrap();
        let explanation = &row["explanation"];
        (explanation["scores"].as_array().unwrap().len(), explanation["truth"].as_array().unwrap().len())
    };
    // Signature, `{`, call, return, `}`: the two braces are one statement, and one statement is the flaw.
    assert_eq!(units("line"), (5, 1));
    assert_eq!(units("statement"), (4, 1));
}

#[test]
fn an_interrupted_run_goes_on_and_ends_like_one_that_was_not() {
    let folder = workspace(&[("test.jsonl", dataset(0, 40))]);
    let arguments = |out| ["eval", "test.jsonl", "--methods", "occlusion", "--jobs", "1", "--out", out];
    let whole = run(folder.path(), &arguments("whole"));
    assert!(whole.status.success(), "{}", err(&whole));

    let results = folder.path().join("torn").join("results.jsonl");
    let lines = || std::fs::read_to_string(&results).map_or(0, |text| text.lines().count());
    let mut child = linelens(folder.path(), &arguments("torn"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let started = Instant::now();
    // In the middle of scoring or explaining: 120 scores and at least 40 explanations are to come.
    while lines() < 30 && started.elapsed() < Duration::from_secs(120) {
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    // The machine died in the middle of a line.
    std::fs::OpenOptions::new()
        .append(true)
        .open(&results)
        .unwrap()
        .write_all(b"{\"model\":0,\"spl")
        .unwrap();
    let before = lines() - 1;
    assert!(before >= 30);

    let resumed = run(folder.path(), &arguments("torn"));
    assert!(resumed.status.success(), "{}", err(&resumed));
    assert_eq!(report(folder.path(), "torn"), report(folder.path(), "whole"));
    let rows = |out: &str| -> Vec<String> {
        let text = std::fs::read_to_string(folder.path().join(out).join("results.jsonl")).unwrap();
        let mut rows: Vec<String> = text.lines().map(str::to_string).collect();
        rows.sort();
        rows
    };
    assert_eq!(rows("torn"), rows("whole"), "no result was lost, none was computed twice");
    let again = run(folder.path(), &arguments("whole"));
    assert!(
        err(&again).contains("0 functions scored") && err(&again).contains("0 explanations"),
        "{}",
        err(&again)
    );
}

#[test]
fn results_of_different_settings_are_not_pooled() {
    let folder = workspace(&[("test.jsonl", dataset(0, 2)), ("other.jsonl", dataset(50, 2))]);
    let eval = |arguments: &[&str]| {
        let mut all = vec!["eval", "--methods", "none", "--out", "run"];
        all.extend(arguments);
        run(folder.path(), &all)
    };
    assert!(eval(&["test.jsonl"]).status.success());
    for (arguments, differs) in [
        (
            &["test.jsonl", "--profile", "editor"][..],
            "models[0].profile is \"paper\" there and \"editor\" here",
        ),
        (&["other.jsonl"], "… there and \""),
        (&["test.jsonl", "--limit", "3"], "splits"),
        (&["test.jsonl", "--threshold", "0.7"], "threshold"),
    ] {
        let refused = eval(arguments);
        assert_eq!(refused.status.code(), Some(2));
        assert!(
            err(&refused).contains("of another run") && err(&refused).contains(differs),
            "{}",
            err(&refused)
        );
    }
    let into_file = run(folder.path(), &["eval", "test.jsonl", "--methods", "none", "--out", "other.jsonl"]);
    assert_eq!(into_file.status.code(), Some(2));
    assert!(err(&into_file).contains("other.jsonl is a file, not a folder"), "{}", err(&into_file));
    // A method can be added.
    let added = run(folder.path(), &["eval", "test.jsonl", "--methods", "attention:last", "--out", "run"]);
    assert!(added.status.success() && err(&added).contains("0 functions scored"), "{}", err(&added));
}

#[test]
fn results_that_cannot_be_are_computed_again() {
    let folder = workspace(&[("test.jsonl", dataset(0, 4))]);
    let eval = |out: &str| {
        let output = run(folder.path(), &["eval", "test.jsonl", "--methods", "attnlrp", "--out", out]);
        assert!(output.status.success(), "{}", err(&output));
        output
    };
    eval("whole");
    eval("run");
    let results = folder.path().join("run/results.jsonl");
    let text = std::fs::read_to_string(&results).unwrap();
    let mut rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(rows[..6].iter().all(|row| row["score"].is_object()));
    rows[0]["score"]["probability"] = json!(7.5);
    rows[1]["function"] = json!(123_456_789_012_u64);
    rows[2]["text"] = json!("00000000000000000000000000000000");
    rows[3]["model"] = json!(9);
    let explained = rows.iter().position(|row| row["method"] == "attnlrp").unwrap();
    rows[explained]["explanation"]["outside"] = json!(u64::MAX);
    let second =
        1 + explained + rows[explained + 1..].iter().position(|row| row["method"] == "attnlrp").unwrap();
    rows[second]["explanation"]["truth"] = json!([0, 1, 2, 3]);
    // The same again, and two that differ.
    let twice = rows[4].clone();
    let mut other = rows[5].clone();
    other["score"]["probability"] = json!(0.123);
    rows.extend([twice, other]);
    let mut text: String = rows.iter().map(|row| format!("{row}\n")).collect();
    text.push_str("garbage\n{\"model\":0,\"spl");
    std::fs::write(&results, text).unwrap();

    let said = err(&eval("run"));
    assert!(said.contains("results.jsonl: 9 rows do not count and are computed again"), "{said}");
    for kind in [
        "1 with a probability outside 0..1",
        "1 of an unknown function",
        "1 of another text than the function has now",
        "1 of an unknown model",
        "2 with other ground truth than the function has",
        "1 given twice",
        "1 that contradict each other",
        "1 not a result of this version",
    ] {
        assert!(said.contains(kind), "{kind} in {said}");
    }
    assert!(said.contains("5 functions scored") && said.contains("2 explanations"), "{said}");
    assert_eq!(report(folder.path(), "run"), report(folder.path(), "whole"));
    let again = err(&eval("run"));
    assert!(!again.contains("do not count") && again.contains("0 functions scored"), "{again}");
}

#[test]
fn a_dataset_that_changes_meanwhile_ends_the_run() {
    let folder = workspace(&[("test.jsonl", dataset(0, 40)), ("other.jsonl", dataset(7, 40))]);
    let results = folder.path().join("run/results.jsonl");
    let lines = || std::fs::read_to_string(&results).map_or(0, |text| text.lines().count());
    let child = linelens(
        folder.path(),
        &["eval", "test.jsonl", "--methods", "occlusion", "--jobs", "1", "--out", "run"],
    )
    .stdout(Stdio::null())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    let started = Instant::now();
    while lines() < 30 && started.elapsed() < Duration::from_secs(120) {
        std::thread::sleep(Duration::from_millis(2));
    }
    std::fs::rename(folder.path().join("other.jsonl"), folder.path().join("test.jsonl")).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("test.jsonl was changed since this run began"), "{}", err(&output));
    assert!(!folder.path().join("run/report.json").exists());
}

#[cfg(unix)]
#[test]
fn nothing_is_written_through_a_link() {
    use std::os::unix::fs::symlink;
    let folder = workspace(&[("test.jsonl", dataset(0, 1)), ("mine", "mine".to_string())]);
    let mine = folder.path().join("mine");
    for name in ["results.jsonl", "manifest.json", "report.json", "report.md", "report.html"] {
        let out = folder.path().join("run");
        std::fs::create_dir(&out).unwrap();
        symlink(&mine, out.join(name)).unwrap();
        let refused = run(folder.path(), &["eval", "test.jsonl", "--methods", "none", "--out", "run"]);
        assert_eq!(refused.status.code(), Some(2), "{name}");
        let said = err(&refused);
        assert!(
            said.contains(name) && (name == "manifest.json" || said.contains("is a symbolic link to")),
            "{said}"
        );
        assert_eq!(std::fs::read_to_string(&mine).unwrap(), "mine", "{name}");
        std::fs::remove_dir_all(&out).unwrap();
    }
    let there = folder.path().join("there");
    std::fs::create_dir_all(there.join(".linelens")).unwrap();
    symlink(&mine, there.join(".linelens/annotations.jsonl")).unwrap();
    let refused = run(folder.path(), &["unpack", "test.jsonl", "there"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(err(&refused).contains("it is a symbolic link to"), "{}", err(&refused));
    assert_eq!(std::fs::read_to_string(&mine).unwrap(), "mine");
}

#[test]
fn a_layer_that_there_is_not_is_left_out() {
    let folder = workspace(&[("a.jsonl", dataset(0, 1))]);
    let run = |methods| run(folder.path(), &["eval", "a.jsonl", "--methods", methods]);
    let output = run("attention:99,attention:first");
    assert!(output.status.success() && err(&output).contains("attention:99 is left out: the model has"));
    assert_eq!(run("attention:99").status.code(), Some(2));
}

#[test]
fn a_threshold_is_tuned_elsewhere() {
    let shared = format!("{}{}", dataset(100, 3), dataset(1, 1).replace("\\n", "\\n "));
    let folder = workspace(&[
        ("test.jsonl", dataset(0, 3)),
        ("copy.jsonl", dataset(0, 3)),
        ("shared.jsonl", shared),
        ("valid.jsonl", dataset(100, 3)),
    ]);
    let eval = |valid: &str| {
        run(
            folder.path(),
            &["eval", "test.jsonl", "--methods", "none", "--format", "json", "--threshold-from", valid],
        )
    };
    let same = eval("copy.jsonl");
    assert_eq!(same.status.code(), Some(2));
    assert!(err(&same).contains("both files are the same"), "{}", err(&same));
    let shared = eval("shared.jsonl");
    assert_eq!(shared.status.code(), Some(2));
    assert!(
        err(&shared).contains("3 functions are in both, comments and whitespace aside"),
        "{}",
        err(&shared)
    );
    // Comments make no other function, however short it is.
    let commented = dataset(0, 3)
        .replace("{\\n", "{\\n\\t/* the same, said at some length */\\n")
        .replace(";", "; // so");
    std::fs::write(folder.path().join("commented.jsonl"), commented).unwrap();
    let commented = eval("commented.jsonl");
    assert_eq!(commented.status.code(), Some(2));
    assert!(err(&commented).contains("9 functions are in both"), "{}", err(&commented));
    // Nearly the same is said, not refused.
    let renamed = dataset(0, 1).replace("copy_", "copied_");
    let (apart, first) = (dataset(103, 2), renamed.lines().next().unwrap());
    std::fs::write(folder.path().join("renamed.jsonl"), format!("{apart}{first}\n")).unwrap();
    std::fs::write(folder.path().join("apart.jsonl"), apart).unwrap();
    for (valid, is_near) in [("renamed.jsonl", true), ("apart.jsonl", false)] {
        let output = eval(valid);
        assert!(output.status.success(), "{}", err(&output));
        let said = err(&output).contains("nearly the same as one that the threshold is tuned on");
        assert_eq!(said, is_near, "{}", err(&output));
        let found: Value = serde_json::from_str(&out(&output)).unwrap();
        assert_eq!(found["splits"][0]["nearThreshold"].as_u64().unwrap() > 0, is_near);
    }
    let tuned = eval("valid.jsonl");
    assert!(tuned.status.success(), "{}", err(&tuned));
    let found: Value = serde_json::from_str(&out(&tuned)).unwrap();
    let threshold = &found["evaluations"][0]["threshold"];
    assert_eq!(
        (threshold["from"].as_str(), threshold["split"].as_str()),
        (Some("tuned"), Some("valid.jsonl"))
    );
    assert!(threshold["f1There"].as_f64().unwrap() > 0.0);
    assert_eq!(
        found["evaluations"].as_array().unwrap().len(),
        1,
        "the split of the threshold is not evaluated"
    );
    let both =
        run(folder.path(), &["eval", "test.jsonl", "--threshold-from", "valid.jsonl", "--threshold", "0.5"]);
    assert_eq!(both.status.code(), Some(2));
}

#[test]
fn malformed_rows_are_counted_by_kind_and_leakage_is_reported() {
    let bad = "not json\n[1]\n{\"func\": 3, \"target\": 1}\n{\"func\": \"int f;\", \"target\": 7}\n";
    // Whitespace differs, and of one function the comments.
    let train = dataset(0, 1).replace("\\t", "  ").replacen("strcpy(out", "/* now */ strcpy(out", 1);
    let folder = workspace(&[("test.jsonl", format!("{}{bad}", dataset(0, 2))), ("train.jsonl", train)]);
    let output = run(
        folder.path(),
        &["eval", "test.jsonl", "--methods", "none", "--format", "json", "--train", "train.jsonl"],
    );
    assert_eq!(output.status.code(), Some(1), "{}", err(&output));
    let found: Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(found["splits"][0]["malformed"]["rows"], 4);
    let kinds = found["splits"][0]["malformed"]["kinds"].as_object().unwrap();
    assert_eq!(kinds.values().map(|count| count.as_u64().unwrap()).sum::<u64>(), 4);
    assert!(kinds.len() >= 3, "{kinds:?}");
    assert!(err(&output).contains("4 rows were skipped"), "{}", err(&output));
    let leakage = &found["splits"][0]["leakage"];
    assert_eq!((leakage["functions"].as_u64(), leakage["withoutWhitespace"].as_u64()), (Some(6), Some(2)));
    assert_eq!((leakage["withoutComments"].as_u64(), leakage["near"].as_u64()), (Some(3), Some(3)));
    assert_eq!((leakage["byCommit"].as_u64(), leakage["exact"].as_u64()), (Some(3), Some(0)));
    assert_eq!(found["evaluations"][0]["counts"]["functions"], 6);
    let empty = run(folder.path(), &["eval", "none.jsonl"]);
    assert_eq!(empty.status.code(), Some(2));
}

#[test]
fn tables_say_what_is_undefined_and_what_was_counted() {
    // Pairs alone: no benign function beside them.
    let pairs: String =
        dataset(0, 3).lines().filter(|line| !line.contains("\"o")).map(|line| format!("{line}\n")).collect();
    let folder = workspace(&[("test.jsonl", pairs)]);
    let eval = |methods: &str, granularity: &str, format: &str| {
        let arguments =
            ["eval", "test.jsonl", "--methods", methods, "--granularity", granularity, "--format", format];
        let output = run(folder.path(), &arguments);
        assert!(output.status.success(), "{}", err(&output));
        out(&output)
    };
    let found: Value = serde_json::from_str(&eval("none", "line", "json")).unwrap();
    let evaluation = &found["evaluations"][0];
    assert!(evaluation["functions"]["f1"].is_number() && evaluation["functions"]["undefined"].is_null());
    let slices = evaluation["slices"].as_array().unwrap();
    let unpaired = slices.iter().find(|slice| slice["name"] == "unpaired functions").unwrap();
    assert_eq!(unpaired["functions"]["undefined"], "no benign function");
    for figure in ["f1", "precision", "rocAuc", "prAuc"] {
        assert!(unpaired["functions"][figure].is_null(), "{figure}: {unpaired}");
    }
    assert!(unpaired["functions"]["recall"].is_number());

    let printed = eval("none", "line", "markdown");
    let row = printed.lines().find(|line| line.contains("| unpaired functions |")).unwrap();
    assert_eq!(row.matches("undefined (no benign function)").count(), 2, "{row}");
    assert!(!printed.contains("### Alignment") && !printed.contains("### Localisation"), "{printed}");
    let headings = printed.lines().zip(printed.lines().skip(2)).filter(|(line, _)| line.starts_with('#'));
    for (heading, next) in headings {
        assert!(!next.starts_with('#'), "nothing stands under {heading}");
    }
    assert!(
        printed.contains("SHA-256 of the file") && printed.contains("SHA-256 of the folder"),
        "{printed}"
    );
    let manifest = &found["manifest"];
    assert_eq!(manifest["splits"][0]["fileSha256"].as_str().unwrap().len(), 64);
    assert_eq!(manifest["splits"][0]["functionsSha256"].as_str().unwrap().len(), 64);
    assert_eq!(manifest["models"][0]["folderSha256"].as_str().unwrap().len(), 64);
    let policy = manifest["splits"][0]["annotationPolicy"].as_str().unwrap();
    assert!(policy.contains("each row is a function of its own"), "{policy}");

    let statements = eval("attention:first", "statement", "markdown");
    assert!(
        statements.contains("every statement at 1") && statements.contains("all statements"),
        "{statements}"
    );
    assert!(!statements.contains("every line at 1") && !statements.contains("all lines"), "{statements}");
    assert!(eval("attention:first", "line", "markdown").contains("every line at 1"));
}

#[test]
fn several_models_are_compared_and_other_commands_take_one() {
    let folder = workspace(&[("test.jsonl", dataset(0, 2))]);
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/default");
    let other = folder.path().join("other");
    std::fs::create_dir(&other).unwrap();
    for entry in std::fs::read_dir(&model).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), other.join(entry.file_name())).unwrap();
    }
    let (model, other) = (model.to_str().unwrap(), other.to_str().unwrap());
    let eval = [
        "eval",
        "test.jsonl",
        "--methods",
        "attention:first",
        "--format",
        "json",
        "--model",
        model,
        "--model",
        other,
    ];
    let twice = run(folder.path(), &eval);
    assert!(err(&twice).contains("was given twice"), "{}", err(&twice));
    let toml = Path::new(other).join("detector.toml");
    let text = std::fs::read_to_string(&toml).unwrap_or_default();
    let text: String =
        text.lines().filter(|line| !line.starts_with("threshold")).map(|line| format!("{line}\n")).collect();
    std::fs::write(&toml, format!("threshold = 0.123\n{text}")).unwrap();
    let output = run(folder.path(), &eval);
    assert!(output.status.success(), "{}", err(&output));
    let found: Value = serde_json::from_str(&out(&output)).unwrap();
    let names: Vec<&str> =
        found["evaluations"].as_array().unwrap().iter().map(|e| e["model"].as_str().unwrap()).collect();
    assert_eq!(names.len(), 2);
    assert_ne!(names[0], names[1], "equal names are told apart by their hashes");
    assert_eq!(found["evaluations"][1]["threshold"]["value"], 0.123);
    let one = run(folder.path(), &["functions", "test.jsonl", "--model", model, "--model", other]);
    assert_eq!(one.status.code(), Some(2));
    assert!(err(&one).contains("only `linelens eval` and `linelens lsp` take several"), "{}", err(&one));
}

#[test]
fn unpack_writes_what_an_editor_reads_and_overwrites_nothing() {
    let evil = json!({"id": "../../evil", "func": "int evil(void) { return 1; }", "target": 0, "name": "../../../evil"});
    let folder = workspace(&[("test.jsonl", format!("{}{evil}\n", dataset(0, 2)))]);
    let unpack = || run(folder.path(), &["unpack", "test.jsonl", "there"]);
    let first = unpack();
    assert!(first.status.success(), "{}", err(&first));
    let there = folder.path().join("there");
    let mut names: Vec<String> = std::fs::read_dir(there.join("000"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names.len(), 7);
    assert_eq!((names[0].as_str(), names[6].as_str()), ("000000-copy_0.c", "000006-_________evil.c"));
    let outside: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(outside.len(), 2, "nothing but the dataset and the folder: {outside:?}");

    let annotations = there.join(".linelens/annotations.jsonl");
    let text = std::fs::read_to_string(&annotations).unwrap();
    let records: Vec<Value> = text.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records.len(), 7);
    assert_eq!(records[0]["file"], "000/000000-copy_0.c");
    assert_eq!(records[0]["lines"][0]["line"], 3);
    assert_eq!(records[0]["lines"][0]["text"], "\tstrcpy(out, in);");
    let code = std::fs::read_to_string(there.join("000/000000-copy_0.c")).unwrap();
    assert_eq!(code.lines().nth(2), Some("\tstrcpy(out, in);"));

    assert!(unpack().status.success(), "the same again changes nothing");
    assert_eq!(std::fs::read_to_string(&annotations).unwrap(), text);
    std::fs::write(there.join("000/000001-copy_0.c"), "mine").unwrap();
    let refused = unpack();
    assert_eq!(refused.status.code(), Some(2));
    assert!(err(&refused).contains("nothing is overwritten"), "{}", err(&refused));
    assert_eq!(std::fs::read_to_string(there.join("000/000001-copy_0.c")).unwrap(), "mine");
    let left: Vec<_> = std::fs::read_dir(there.join(".linelens")).unwrap().collect();
    assert_eq!(left.len(), 1, "no temporary file is left: {left:?}");
}

#[cfg(unix)]
#[test]
fn unpack_follows_no_symbolic_link() {
    let folder = workspace(&[("test.jsonl", dataset(0, 1))]);
    let (there, elsewhere) = (folder.path().join("there"), folder.path().join("elsewhere"));
    std::fs::create_dir(&there).unwrap();
    std::fs::create_dir(&elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, there.join("000")).unwrap();
    let output = run(folder.path(), &["unpack", "test.jsonl", "there"]);
    assert_eq!(output.status.code(), Some(2), "{}", out(&output));
    assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
}

/// Peak memory of a million rows is that of a few. Linux counts it for us.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "a million rows take a minute; `cargo test --test eval -- --ignored` runs it"]
fn a_million_rows_stream_in_constant_memory() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = linelens(folder.path(), &["score", "--dry-run"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", child.id());
    let peak = || -> u64 {
        let text = std::fs::read_to_string(&status).unwrap();
        let line = text.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    let mut input = std::io::BufWriter::new(child.stdin.take().unwrap());
    let body = "\tout[i] = in[i] ^ key[i % 7];\n".repeat(20);
    let (mut early, mut late) = (0, 0);
    for row in 0..1_000_000 {
        match row % 10_000 {
            17 => writeln!(input, "{{\"id\": {row}, \"func\"").unwrap(),
            _ => writeln!(input, "{}", json!({"id": row, "func": format!("int f{row}(void)\n{{\n{body}}}")}))
                .unwrap(),
        }
        if row == 10_000 {
            input.flush().unwrap();
            early = peak();
        }
        if row == 990_000 {
            input.flush().unwrap();
            late = peak();
        }
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    println!("peak memory after 10,000 rows {early} kB, after 990,000 rows {late} kB");
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("100 rows have no score: 100 not JSON"), "{}", err(&output));
    assert!(late < early + 4096, "{early} kB after 10,000 rows, {late} kB after 990,000");
}
