//! The command line end to end, with the built-in detector.
#![allow(clippy::unwrap_used, clippy::print_stdout)] // Helpers of tests are tests.

mod support {
    pub mod model;
    pub mod tokenizer;
}

use serde_json::Value;
use sha2::Digest;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use support::model::{ModelOptions, write_model_dir};

const SOURCE: &str = "#include <string.h>\n\n/* a comment with é and 🦀 */\nint first(char *out, const char *in)\n{\n\tstrcpy(out, in);\n\n\treturn 0;\n}\n\nstatic int second(void) { return 1; }\n";

fn linelens(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linelens"));
    command.args(arguments).current_dir(folder).env("XDG_CONFIG_HOME", folder).env("NO_COLOR", "1");
    command.env_remove("FORCE_COLOR").env_remove("COLORTERM");
    command
}

fn run(folder: &Path, arguments: &[&str], input: &str) -> Output {
    let mut child = linelens(folder, arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn rows(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", err(output));
    out(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn workspace() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.c"), SOURCE).unwrap();
    folder
}

#[test]
fn explain_prints_the_finding_as_documented() {
    let folder = workspace();
    let rows = rows(&run(folder.path(), &["explain", "a.c:6", "--format", "json", "--threshold", "0"], ""));
    assert_eq!(rows.len(), 1);
    let finding = rows[0].as_object().unwrap();
    let keys: Vec<&str> = finding.keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "file",
            "function",
            "model",
            "executionProvider",
            "method",
            "profile",
            "probability",
            "threshold",
            "flagged",
            "truncated",
            "windows",
            "lines",
            "unseenLines"
        ]
    );
    assert_eq!(finding["file"], "a.c");
    assert_eq!(
        finding["function"],
        serde_json::json!({"name": "first", "kind": "function", "startLine": 4, "endLine": 9})
    );
    assert_eq!(finding["method"], "attention:first");
    assert_eq!(finding["profile"], "editor");
    assert_eq!(finding["executionProvider"], "cpu");
    assert_eq!(finding["flagged"], true);
    assert_eq!(finding["model"]["sha256"].as_str().unwrap().len(), 64);
    let lines = finding["lines"].as_array().unwrap();
    let numbers: Vec<u64> = lines.iter().map(|line| line["line"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [4, 5, 6, 8, 9], "line 7 is blank");
    assert_eq!(lines[2]["text"], "\tstrcpy(out, in);");
    let scores: Vec<f64> = lines.iter().map(|line| line["score"].as_f64().unwrap()).collect();
    assert_eq!(scores.iter().cloned().fold(0.0, f64::max), 1.0);
    assert_eq!(scores.iter().cloned().fold(1.0, f64::min), 0.0);
    let mut ranks: Vec<u64> = lines.iter().map(|line| line["rank"].as_u64().unwrap()).collect();
    ranks.sort_unstable();
    assert_eq!(ranks, [1, 2, 3, 4, 5]);
}

#[test]
fn explain_finds_functions_by_position_name_and_standard_input() {
    let folder = workspace();
    let names = |arguments: &[&str], input: &str| -> Vec<String> {
        let mut all = vec!["explain", "--format", "json"];
        all.extend(arguments);
        let rows = rows(&run(folder.path(), &all, input));
        rows.iter().map(|row| row["function"]["name"].as_str().unwrap().to_string()).collect()
    };
    assert_eq!(names(&["a.c"], ""), ["first", "second"]);
    assert_eq!(names(&["a.c:11"], ""), ["second"]);
    assert_eq!(names(&["a.c:11:30"], ""), ["second"]);
    assert_eq!(names(&["a.c", "--function", "second"], ""), ["second"]);
    assert_eq!(names(&["-", "--language", "c"], SOURCE), ["first", "second"]);
    assert_eq!(names(&["-"], "struct A { int f() { return 1; } };"), ["A::f"]);
}

#[test]
fn all_methods_are_one_table() {
    let folder = workspace();
    let rows = rows(&run(folder.path(), &["explain", "a.c:6", "--method", "all", "--format", "json"], ""));
    assert_eq!(rows.len(), 1, "one object a function");
    let methods = rows[0]["methods"].as_array().unwrap();
    let names: Vec<&str> = methods.iter().map(|method| method["method"].as_str().unwrap()).collect();
    assert_eq!(names.first(), Some(&"attention:first"));
    for name in ["attention:last", "ig", "attnlrp", "gradient-x-input", "occlusion"] {
        if name == "attnlrp" && !cfg!(feature = "attnlrp") {
            continue;
        }
        assert!(names.contains(&name), "{names:?}");
    }
    for method in methods {
        let correlations = method["spearman"].as_object().unwrap();
        assert_eq!(correlations.keys().collect::<Vec<_>>(), names);
        let own = correlations[method["method"].as_str().unwrap()].as_f64().unwrap();
        assert!((own - 1.0).abs() < 1e-12);
        assert_eq!(method["lines"].as_array().unwrap().len(), 5);
        assert_eq!(method["completenessGap"].is_number(), method["method"] == "ig");
        assert_eq!(method["completenessChange"].is_number(), method["method"] == "ig");
    }
    let text = out(&run(folder.path(), &["explain", "a.c:6", "--method", "all"], ""));
    let head = text.lines().find(|line| line.starts_with("method")).unwrap();
    assert!(head.contains("gap") && head.contains("ρ occlusion"), "{text}");
    assert!(!head.contains("DA"), "nobody said anything about the function: {text}");
}

#[test]
fn statements_are_a_granularity() {
    let folder = workspace();
    let arguments = ["explain", "a.c:6", "--granularity", "statement", "--format", "json"];
    let rows = rows(&run(folder.path(), &arguments, ""));
    assert_eq!(rows[0]["profile"], "editor+granularity=statement");
    let lines = rows[0]["lines"].as_array().unwrap();
    // The braces are one unit.
    assert_eq!(lines[1]["raw"], lines[4]["raw"]);
    assert_ne!(lines[1]["raw"], lines[2]["raw"]);
    let bad = run(folder.path(), &["explain", "a.c:6", "--granularity", "word"], "");
    assert!(err(&bad).contains("expected one of line, statement"), "{}", err(&bad));
}

#[test]
fn explain_shades_or_draws_bars() {
    let folder = workspace();
    let plain = out(&run(folder.path(), &["explain", "a.c:6"], ""));
    assert!(!plain.contains('\x1b'), "NO_COLOR is honoured: {plain}");
    assert!(plain.starts_with("a.c:4: first: "), "{plain}");
    assert!(plain.contains("1.00 █ │"), "{plain}");
    assert!(plain.contains("7        │\n"), "a blank line has no score: {plain}");
    let shaded = |color_term: &str| {
        let mut command = linelens(folder.path(), &["explain", "a.c:6", "--color", "always"]);
        command.env_remove("NO_COLOR").env("COLORTERM", color_term).env("TERM", "xterm-256color");
        out(&command.output().unwrap())
    };
    assert!(shaded("truecolor").contains("\x1b[38;2;"));
    assert!(shaded("").contains("\x1b[38;5;"));
}

#[test]
fn a_hostile_source_cannot_steer_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("b.c"),
        "int f(void)\n{\n\treturn 1; // \x1b]0;title\x07 \u{202e}\n}\n",
    )
    .unwrap();
    let output = run(folder.path(), &["explain", "b.c"], "");
    let text = out(&output);
    assert!(output.status.success(), "{}", err(&output));
    assert!(text.contains("\\u{1b}]0;title\\u{7} \\u{202e}"), "{text}");
    assert!(!text.contains('\x1b') && !text.contains('\u{202e}'), "{text}");
}

#[test]
fn mistakes_are_explained_and_end_with_2() {
    let folder = workspace();
    std::fs::write(folder.path().join("empty.c"), "int x;\n").unwrap();
    for (arguments, message) in [
        (&["explain", "missing.c"][..], "missing.c cannot be read"),
        (&["explain", "a.c:99"], "a.c has 11 lines, so there is no line 99"),
        (&["explain", "a.c:0"], "a.c: lines count from 1, so there is no line 0"),
        (&["explain", "a.c:6:0"], "a.c: columns count from 1, so there is no column 0"),
        (&["explain", "a.c:6:999"], "a.c: line 6 has 17 columns, so there is no column 999"),
        (&["explain", "a.c:1"], "no C or C++ function definition holds this position"),
        (
            &["explain", "a.c", "--function", "third"],
            "a.c has no function third; its functions are first, second",
        ),
        (&["explain", "a.c:6", "--function", "first"], "a position and --function were given"),
        (&["explain", "empty.c"], "the file has no C or C++ function definition"),
        (&["explain", "a.c:6", "--method", "attention:0"], "`method`: unknown method \"attention:0\""),
        (&["explain", "a.c:6", "--method", "attention:99"], "there is no attention:99"),
        (&["explain", "a.c:6", "--threshold", "2"], "`threshold`: expected a number from 0 to 1, found 2"),
        (&["explain", "a.c:6", "--threads", "many"], "`threads`: expected a whole number"),
        (&["explain", "a.c:6", "--profile", "x"], "unknown profile \"x\""),
        (&["explain", "a.c:6", "--model", "nowhere"], "nowhere"),
        (&["explain", "a.c:6", "--library", "nowhere.so"], "nowhere.so"),
        (&["explain", "a.c:6", "--execution-provider", "cuda"], "CUDA was asked for, but does not work"),
        (&["check", "missing"], "missing cannot be read"),
        (&["check", "a.c:6"], "a whole file is expected, without a line"),
        (&["frobnicate"], "unrecognized subcommand"),
    ] {
        // With a GPU, CUDA may work.
        if arguments.contains(&"cuda") && Path::new("/dev/nvidia0").exists() {
            println!("skipped: this machine has a GPU, so asking for CUDA may succeed");
            continue;
        }
        let output = run(folder.path(), arguments, "");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", err(&output));
        assert!(err(&output).contains(message), "{arguments:?}: {}", err(&output));
        assert_eq!(out(&output), "", "{arguments:?}");
    }
}

#[test]
fn a_failed_start_says_why_in_short_and_names_the_doctor() {
    let folder = workspace();
    let output = run(folder.path(), &["explain", "a.c:6", "--model", "nowhere"], "");
    let doctor = run(folder.path(), &["doctor", "--model", "nowhere"], "");
    assert_eq!(doctor.status.code(), Some(1));
    let report = out(&doctor);
    assert!(report.contains("nowhere"), "{report}");
    let model_line = report.lines().find(|line| line.starts_with("model")).unwrap();
    let cause = model_line.split_once("ERROR: ").unwrap().1;
    let said = err(&output);
    assert!(said.contains(cause) && !said.contains("provider cpu"), "{said}\n---\n{report}");
    assert_eq!(said.matches(cause).count(), 1, "{said}");
    assert_eq!(said.lines().last(), Some("`linelens doctor` shows the whole set-up"));
}

#[test]
fn a_tokenizer_with_far_fewer_tokens_than_embeddings_is_warned_of() {
    let folder = workspace();
    let model = folder.path().join("model");
    write_model_dir(&model, &ModelOptions { vocab: 1301, ..Default::default() });
    let arguments = |command: &'static str| [command, "a.c:6", "--model", "model"];
    let said = err(&run(folder.path(), &arguments("explain"), ""));
    assert!(said.contains("the tokenizer has 276 token ids, and the model embeddings for 1301"), "{said}");
    let doctor = run(folder.path(), &["doctor", "--model", "model"], "");
    assert!(out(&doctor).contains("they may not belong together"), "{}", out(&doctor));
    // A table that is padded is nothing to speak of.
    write_model_dir(&model, &ModelOptions { vocab: 1300, ..Default::default() });
    let said = err(&run(folder.path(), &arguments("explain"), ""));
    assert!(!said.contains("tokenizer"), "{said}");
}

#[test]
fn doctor_is_content_with_a_working_set_up() {
    let folder = workspace();
    let output = run(folder.path(), &["doctor"], "");
    assert!(output.status.success(), "{}", out(&output));
    let json = run(folder.path(), &["doctor", "--format", "json"], "");
    let report: Value = serde_json::from_str(&out(&json)).unwrap();
    assert_eq!(report["healthy"], true);
    assert_eq!(report["executionProviders"][0]["works"], true);
}

#[test]
fn a_workspace_file_counts_but_cannot_say_what_runs() {
    let folder = workspace();
    std::fs::write(
        folder.path().join("linelens.toml"),
        "threshold = 0.0\nmodel = \"/tmp\"\nlibrary = \"/tmp/x.so\"\n",
    )
    .unwrap();
    let output = run(folder.path(), &["explain", "a.c:6", "--format", "json"], "");
    assert_eq!(rows(&output)[0]["threshold"], 0.0);
    let warnings = err(&output);
    assert!(warnings.contains("`model`: ignored") && warnings.contains("`library`: ignored"), "{warnings}");
}

#[cfg(unix)]
#[test]
fn a_workspace_file_that_leads_out_of_its_folder_is_not_read() {
    let (folder, outside) = (workspace(), tempfile::tempdir().unwrap());
    let secret = outside.path().join("secret.toml");
    std::fs::write(&secret, "threshold = 0.0\nuser:x:0\n").unwrap();
    std::os::unix::fs::symlink(&secret, folder.path().join("linelens.toml")).unwrap();
    let output = run(folder.path(), &["explain", "a.c:6", "--format", "json"], "");
    assert_ne!(rows(&output)[0]["threshold"], 0.0);
    let warnings = err(&output);
    assert!(warnings.contains("leads out of its folder and is not read"), "{warnings}");
    assert!(!warnings.contains("line 2"), "{warnings}");
    // Within the folder a link is fine.
    std::fs::remove_file(folder.path().join("linelens.toml")).unwrap();
    std::fs::write(folder.path().join("other.toml"), "threshold = 0.0\n").unwrap();
    std::os::unix::fs::symlink("other.toml", folder.path().join("linelens.toml")).unwrap();
    let output = run(folder.path(), &["explain", "a.c:6", "--format", "json"], "");
    assert_eq!(rows(&output)[0]["threshold"], 0.0);
}

#[test]
fn functions_lists_what_the_finder_sees() {
    let folder = workspace();
    std::fs::create_dir(folder.path().join("sub")).unwrap();
    std::fs::write(folder.path().join("sub/b.cpp"), "struct B { B() {} };\n").unwrap();
    std::fs::write(folder.path().join("sub/ignored.c"), "int i(void) { return 0; }\n").unwrap();
    std::fs::write(folder.path().join(".gitignore"), "ignored.c\n").unwrap();
    let rows = rows(&run(folder.path(), &["functions", "."], ""));
    let names: Vec<&str> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["first", "second", "B::B"]);
    assert_eq!(rows[0]["startLine"], 4);
    assert_eq!(rows[0]["endLine"], 9);
    assert_eq!(rows[2]["kind"], "constructor");
    assert_eq!(rows[0]["parseErrors"], false);
}

#[test]
fn check_reports_and_sets_the_exit_code() {
    let folder = workspace();
    let all = run(folder.path(), &["check", ".", "--threshold", "0"], "");
    assert_eq!(all.status.code(), Some(0), "{}", err(&all));
    let text = out(&all);
    assert!(text.contains("a.c:4: first: flagged"), "{text}");
    assert!(text.ends_with("2 of 2 functions flagged in 1 file\n"), "{text}");
    let code = |threshold: &str| {
        run(folder.path(), &["check", ".", "--fail-on", "flagged", "--threshold", threshold], "")
            .status
            .code()
    };
    assert_eq!((code("0"), code("1")), (Some(1), Some(0)));
    let json =
        rows(&run(folder.path(), &["check", ".", "--format", "json", "--threshold", "1", "--all"], ""));
    assert_eq!(json.len(), 2);
    assert_eq!(json[0]["flagged"], false);
}

#[test]
fn score_answers_every_row_in_order() {
    let folder = workspace();
    let input = "{\"id\": 7, \"func\": \"int f(void) { return 1; }\", \"other\": [1]}\n\nnot json\n{\"id\": \"x\"}\n\
                 {\"id\": \"empty\", \"func\": \"\"}\n{\"id\": \"last\", \"func\": \"int g;\"}\n";
    let output = run(folder.path(), &["score"], input);
    assert_eq!(output.status.code(), Some(1));
    let rows: Vec<Value> = out(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 6);
    assert_eq!(rows[0]["id"], 7);
    assert!((0.0..=1.0).contains(&rows[0]["probability"].as_f64().unwrap()));
    assert_eq!((&rows[1]["id"], &rows[1]["row"]), (&Value::Null, &Value::from(2)));
    assert_eq!((&rows[2]["id"], &rows[2]["row"]), (&Value::Null, &Value::from(3)));
    assert_eq!((&rows[3]["id"], &rows[3]["row"]), (&Value::from("x"), &Value::from(4)));
    assert!(rows[3]["error"].as_str().unwrap().contains("func"));
    assert_eq!((&rows[4]["id"], &rows[4]["row"]), (&Value::from("empty"), &Value::from(5)));
    assert!(rows[4]["error"].as_str().unwrap().contains("`func` is empty"));
    assert_eq!(rows[5]["id"], "last");
    assert!(rows[5]["probability"].is_number());
    assert!(err(&output).contains("4 rows have no score"), "{}", err(&output));

    let with_lines =
        run(folder.path(), &["score", "--method", "attention:last"], "{\"func\": \"int f()\\n{\\n}\"}\n");
    let row: Value = serde_json::from_str(&out(&with_lines)).unwrap();
    assert_eq!(row["method"], "attention:last");
    assert_eq!(row["lines"].as_array().unwrap().len(), 3);
}

#[test]
fn the_paper_profile_truncates_and_marks_what_was_not_seen() {
    let folder = tempfile::tempdir().unwrap();
    let body: String = (0..400).map(|i| format!("\tif (a > {i}) b[{i}] = a + {i};\n")).collect();
    std::fs::write(folder.path().join("long.c"), format!("void f(int a, int *b)\n{{\n{body}}}\n")).unwrap();
    let explain = |profile: &str| {
        rows(&run(folder.path(), &["explain", "long.c", "--format", "json", "--profile", profile], ""))[0]
            .clone()
    };
    let (editor, paper) = (explain("editor"), explain("paper"));
    assert!(editor["windows"].as_u64().unwrap() > 1);
    assert_eq!((&editor["truncated"], &paper["truncated"]), (&Value::from(false), &Value::from(true)));
    assert_eq!(paper["windows"], 1);
    assert_eq!(editor["lines"].as_array().unwrap().len(), 403);
    assert_eq!(editor["unseenLines"].as_array().unwrap().len(), 0);
    let (seen, unseen) = (paper["lines"].as_array().unwrap().len(), paper["unseenLines"].as_array().unwrap());
    assert_eq!(seen + unseen.len(), 403);
    assert_eq!(unseen.last().unwrap(), 403);
    let overridden = rows(&run(
        folder.path(),
        &["explain", "long.c", "--format", "json", "--profile", "paper", "--long", "window", "--absolute"],
        "",
    ));
    assert_eq!(overridden[0]["profile"], "paper+long=window+absolute");
}

#[cfg(unix)]
#[test]
fn a_reader_that_leaves_is_no_error() {
    let folder = workspace();
    let mut child = linelens(folder.path(), &["explain", "a.c"]).stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(child.wait().unwrap().success());
}

#[test]
fn graph_writes_a_model_and_says_what_is_in_it() {
    let folder = workspace();
    let write =
        |method: &str| run(folder.path(), &["graph", "--method", method, "--out", "derived.onnx"], "");
    let written = write("ig");
    assert_eq!(written.status.code(), Some(0), "{}", err(&written));
    assert!(out(&written).contains("linelens.relevance: output [1, tokens]"), "{}", out(&written));
    let size = std::fs::metadata(folder.path().join("derived.onnx")).unwrap().len();
    assert!(size > 10_000_000, "the weights are in the file: {size}");
    let again = write("ig");
    assert_eq!(again.status.code(), Some(2));
    assert!(err(&again).contains("derived.onnx cannot be written"), "{}", err(&again));
    assert!(err(&write("occlusion")).contains("occlusion needs no graph of its own"));
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/models/default");
    let named = ["graph", model, "--method", "ig", "--out", "named.onnx"];
    let written = run(folder.path(), &named, "");
    assert_eq!(written.status.code(), Some(0), "{}", err(&written));
    let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    assert!(read("named.onnx") == read("derived.onnx"));
    let twice = run(folder.path(), &[&named[..], &["--model", model]].concat(), "");
    assert!(twice.status.code() == Some(2) && err(&twice).contains("cannot be used with"), "{}", err(&twice));
    let missing = ["graph", "nowhere", "--method", "ig", "--out", "missing.onnx"];
    assert!(err(&run(folder.path(), &missing, "")).contains("nowhere"));
    let elsewhere = ["graph", "--method", "ig", "--external", "--out", "external.onnx"];
    let refused = run(folder.path(), &elsewhere, "");
    assert_eq!(refused.status.code(), Some(2));
    assert!(err(&refused).contains("expected a file in "), "{}", err(&refused));
    assert!(!folder.path().join("external.onnx").exists());
    // Beside a model that is not called model.onnx the file makes nothing ambiguous.
    let beside = folder.path().join("beside");
    write_model_dir(&beside, &ModelOptions::default());
    std::fs::rename(beside.join("model.onnx"), beside.join("tiny.onnx")).unwrap();
    let derive = ["graph", "beside", "--method", "ig", "--external", "--out", "beside/derived.onnx"];
    assert_eq!(run(folder.path(), &derive, "").status.code(), Some(0));
    let doctor = run(folder.path(), &["doctor", "--model", "beside"], "");
    assert_eq!(doctor.status.code(), Some(0), "{}", out(&doctor));
    std::fs::copy(beside.join("tiny.onnx"), beside.join("other.onnx")).unwrap();
    let doctor = run(folder.path(), &["doctor", "--model", "beside"], "");
    assert!(out(&doctor).contains("found other.onnx, tiny.onnx;"), "{}", out(&doctor));
    // What it was made from is in its metadata.
    let graph = linelens::graph::Graph::read(read("derived.onnx").into()).unwrap();
    assert_eq!(graph.described("linelens.method"), Some("ig"));
    assert_eq!(graph.described("linelens.version"), Some(env!("CARGO_PKG_VERSION")));
    assert_eq!(graph.described("linelens.source"), Some("model.onnx"));
    let source = std::fs::read(Path::new(model).join("model.onnx")).unwrap();
    let sha256: String = sha2::Sha256::digest(&source).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(graph.described("linelens.source.sha256"), Some(&*sha256));
    let off = "attnlrp = false\n";
    let config = folder.path().join("config/linelens");
    std::fs::create_dir_all(&config).unwrap();
    std::fs::write(config.join("config.toml"), off).unwrap();
    let mut switched_off = linelens(folder.path(), &["graph", "--method", "attnlrp", "--out", "lrp.onnx"]);
    let switched_off = switched_off.env("XDG_CONFIG_HOME", folder.path().join("config")).output().unwrap();
    assert_eq!(switched_off.status.code(), Some(2));
    assert!(err(&switched_off).contains("attnlrp is not available"), "{}", err(&switched_off));
}

#[test]
fn a_hostile_workspace_file_cannot_steer_the_terminal() {
    let folder = workspace();
    std::fs::write(
        folder.path().join("linelens.toml"),
        "\"\\u001b]0;x\\u0007\\u202e\" = 1\nmethod = \"\\u001b[31mred\"\n",
    )
    .unwrap();
    let output = run(folder.path(), &["explain", "a.c:6"], "");
    assert!(output.status.success());
    let warnings = err(&output);
    assert!(
        warnings.contains("\\u{1b}]0;x\\u{7}\\u{202e}") && warnings.contains("\\u{1b}[31mred"),
        "{warnings}"
    );
    assert!(!warnings.contains('\x1b') && !warnings.contains('\u{202e}'), "{warnings}");
}

#[cfg(unix)]
#[test]
fn a_workspace_file_that_is_no_file_is_reported() {
    let folder = workspace();
    let pipe = folder.path().join("linelens.toml");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let output = run(folder.path(), &["explain", "a.c:6"], "");
    assert!(output.status.success());
    assert!(err(&output).contains("linelens.toml is not a regular file"), "{}", err(&output));
}

#[cfg(unix)]
#[test]
fn a_source_that_is_a_pipe_is_refused_and_not_waited_for() {
    let folder = workspace();
    let pipe = folder.path().join("pipe.c");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for command in ["functions", "explain", "check"] {
        let output = run(folder.path(), &[command, "pipe.c"], "");
        assert_eq!(output.status.code(), Some(2), "{command}");
        let message = "pipe.c is not a regular file; `-` reads standard input";
        assert!(err(&output).contains(message), "{command}: {}", err(&output));
    }
    // A folder of sources leaves it out.
    std::fs::remove_file(folder.path().join("a.c")).unwrap();
    assert_eq!(run(folder.path(), &["check", "."], "").status.code(), Some(0));
}

#[test]
fn json_on_a_terminal_is_harmless_and_the_same_value() {
    let folder = tempfile::tempdir().unwrap();
    let name = "f\u{202e}\u{9b}.c";
    std::fs::write(folder.path().join(name), "int f(void) { return 1; }\n").unwrap();
    let output = run(folder.path(), &["functions", name], "");
    assert!(out(&output).contains("f\\u202e\\u009b.c"), "{}", out(&output));
    assert_eq!(rows(&output)[0]["file"], name);
}

#[test]
fn other_encodings_are_refused_or_reported_and_a_mark_is_no_code() {
    let folder = tempfile::tempdir().unwrap();
    let source = "int f(void)\n{\n\treturn 1;\n}\n";
    std::fs::write(folder.path().join("plain.c"), source).unwrap();
    std::fs::write(folder.path().join("mark.c"), format!("\u{feff}{source}")).unwrap();
    let wide: Vec<u8> =
        [0xfeff].into_iter().chain(source.encode_utf16()).flat_map(u16::to_le_bytes).collect();
    std::fs::write(folder.path().join("wide.c"), wide).unwrap();
    std::fs::write(folder.path().join("latin.c"), b"int f(void)\n{\n\treturn '\xe9';\n}\n").unwrap();
    let probability = |file: &str| {
        rows(&run(folder.path(), &["explain", file, "--format", "json"], ""))[0]["probability"].clone()
    };
    assert_eq!(probability("plain.c"), probability("mark.c"));
    let refused = run(folder.path(), &["explain", "wide.c"], "");
    assert_eq!(refused.status.code(), Some(2));
    assert!(err(&refused).contains("wide.c is UTF-16, expected UTF-8"), "{}", err(&refused));
    let latin = run(folder.path(), &["explain", "latin.c"], "");
    assert!(err(&latin).contains("latin.c, line 3: not UTF-8"), "{}", err(&latin));
}

#[test]
fn score_keeps_ids_and_takes_objects_only() {
    let folder = workspace();
    let input = "{\"id\": 123456789012345678901234567890, \"func\": \"int f(void) { return 1; }\"}\n[1, \"int f(){}\"]\n";
    let output = run(folder.path(), &["score"], input);
    assert_eq!(output.status.code(), Some(1));
    let lines: Vec<String> = out(&output).lines().map(str::to_string).collect();
    assert!(lines[0].starts_with("{\"id\":123456789012345678901234567890,"), "{}", lines[0]);
    assert!(lines[1].contains("expected a JSON object"), "{}", lines[1]);
}

#[test]
fn forced_colour_is_colour_at_every_level() {
    let folder = workspace();
    for level in ["1", "2", "3"] {
        let mut command = linelens(folder.path(), &["explain", "a.c:6"]);
        command.env_remove("NO_COLOR").env("FORCE_COLOR", level).env("TERM", "xterm");
        assert!(out(&command.output().unwrap()).contains("\x1b["), "FORCE_COLOR={level}");
    }
}
