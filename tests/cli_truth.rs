//! Ground truth and versions on the command line, with the built-in detector.
#![allow(clippy::unwrap_used, clippy::print_stdout)] // Helpers of tests are tests.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::path::Path;
use std::process::{Command, Output};

const SOURCE: &str =
    "#include <string.h>\n\nint copy(char *to, const char *from)\n{\n\tstrcpy(to, from);\n\treturn 0;\n}\n";

fn linelens(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linelens"));
    command.args(arguments).current_dir(folder).env("XDG_CONFIG_HOME", folder).env("NO_COLOR", "1");
    command.env_remove("FORCE_COLOR").env_remove("COLORTERM");
    command.output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", err(output));
    serde_json::from_str(out(output).lines().next().unwrap()).unwrap()
}

fn workspace(rows: &[Value]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.c"), SOURCE).unwrap();
    annotate(&folder.path().join(".linelens/annotations.jsonl"), rows);
    folder
}

fn annotate(file: &Path, rows: &[Value]) {
    let rows: Vec<String> = rows.iter().map(Value::to_string).collect();
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    let header = "{\"schema\":\"linelens-annotations\",\"version\":1}";
    std::fs::write(file, format!("{header}\n{}\n", rows.join("\n"))).unwrap();
}

fn row(annotator: &str) -> Value {
    json!({"file": "a.c", "function": "copy", "range": [3, 7], "label": "vulnerable", "annotator": annotator,
        "lines": [{"line": 3, "text": "\tstrcpy(to, from);", "label": "flaw"}], "cwe": ["CWE-787"]})
}

#[test]
fn ground_truth_stands_beside_relevance() {
    let folder = workspace(&[row("bob\u{1b}[0m")]);
    let text = out(&linelens(folder.path(), &["explain", "a.c:5", "--threshold", "0"]));
    assert!(text.contains("ground truth (marked *): vulnerable by bob\\u{1b}[0m, line 5, CWE-787"), "{text}");
    let marked: Vec<&str> = text.lines().filter(|line| line.contains(" * │")).collect();
    assert_eq!(marked.len(), 1, "{text}");
    assert!(marked[0].ends_with("strcpy(to, from);"), "{text}");
    assert!(
        text.lines().any(|line| line.starts_with("DA 0.") && line.contains("(null: all lines 0.200")),
        "{text}"
    );

    let finding =
        json(&linelens(folder.path(), &["explain", "a.c:5", "--threshold", "0", "--format", "json"]));
    let alignment = &finding["alignment"];
    assert_eq!(alignment["lines"], json!([5]));
    assert_eq!(alignment["nullAllLines"], 0.2);
    assert_eq!(finding["lines"][2]["groundTruth"], true);
    assert!(finding["lines"][1].get("groundTruth").is_none());
    let da = alignment["da"].as_f64().unwrap();
    assert!(da > 0.0 && da <= 1.0);

    let unflagged =
        json(&linelens(folder.path(), &["explain", "a.c:5", "--threshold", "1", "--format", "json"]));
    assert_eq!(unflagged["alignment"]["da"], 0.0);
    assert_eq!(unflagged["alignment"]["wouldBe"], da);

    let statements = ["explain", "a.c:5", "--threshold", "0", "--granularity", "statement"];
    let text = out(&linelens(folder.path(), &statements));
    // The signature, the braces, the call, the return.
    assert!(text.contains("(null: all statements 0.250"), "{text}");

    let all = out(&linelens(folder.path(), &["explain", "a.c:5", "--threshold", "0", "--method", "all"]));
    let head = all.lines().find(|line| line.starts_with("method")).unwrap();
    assert!(head.contains("DA") && head.contains("IFA"), "{all}");
}

#[test]
fn annotation_files_can_be_named() {
    let folder = workspace(&[]);
    let file = folder.path().join("elsewhere/truth.jsonl");
    annotate(&file, &[row("bob"), row("eve")]);
    let named = ["explain", "a.c:5", "--format", "json", "--annotations", "elsewhere/truth.jsonl"];
    let finding = json(&linelens(folder.path(), &named));
    assert_eq!(finding["alignment"]["perAnnotator"].as_object().unwrap().len(), 2);
    let plain = json(&linelens(folder.path(), &["explain", "a.c:5", "--format", "json"]));
    assert!(plain.get("alignment").is_none());
    let missing = linelens(folder.path(), &["explain", "a.c:5", "--annotations", "no.jsonl"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(err(&missing).contains("no.jsonl"), "{}", err(&missing));
    annotate(&file, &[json!({"label": 7}), row("bob")]);
    let bad = linelens(folder.path(), &named);
    assert!(json(&bad)["alignment"].is_object());
    assert!(err(&bad).contains("warning") && err(&bad).contains("truth.jsonl"), "{}", err(&bad));
}

fn git(folder: &Path, arguments: &[&str]) {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgSign=false", "-C"]);
    assert!(command.arg(folder).args(arguments).status().unwrap().success(), "git {arguments:?}");
}

#[test]
fn a_function_beside_its_version_in_git() {
    let folder = workspace(&[]);
    let path = folder.path();
    git(path, &["init", "-q"]);
    git(path, &["add", "a.c"]);
    git(path, &["commit", "-q", "-m", "1"]);
    std::fs::write(path.join("a.c"), SOURCE.replace("\tstrcpy(to, from);", "\tstrlcpy(to, from, 8);\n"))
        .unwrap();
    let pair = json(&linelens(path, &["explain", "a.c", "--against", "HEAD", "--format", "json"]));
    assert_eq!(pair["before"]["source"].as_str().unwrap().len(), 12);
    assert_eq!(pair["after"]["source"], "file");
    assert_eq!(pair["after"]["file"], "a.c");
    assert_eq!(pair["outcome"], Value::Null);
    let lines = pair["lines"].as_array().unwrap();
    assert_eq!(lines[0]["before"], 3);
    assert_eq!(lines[0]["after"], 3);
    assert!(lines[0]["moved"].is_number());
    assert!(lines.iter().any(|line| line["after"].is_null()));
    let text = out(&linelens(path, &["explain", "a.c", "--against", "HEAD"]));
    assert!(text.contains("no pair outcome") && text.contains("│     strlcpy"), "{text}");
    let commit = pair["before"]["source"].as_str().unwrap();
    assert!(text.starts_with(&format!("before HEAD ({commit}):3: copy:")), "{text}");
    // A commit that is asked for by its own name is not called twice.
    let text = out(&linelens(path, &["explain", "a.c", "--against", commit]));
    assert!(text.starts_with(&format!("before {commit}:3: copy:")), "{text}");

    for (arguments, says) in [
        (vec!["explain", "a.c", "--against", "nothing"], "there is no revision \"nothing\""),
        (vec!["explain", "a.c", "--against", "--help"], "a value is required"),
        (vec!["explain", "a.c", "--against=-p"], "is no revision"),
        (vec!["explain", "a.c", "--against", "HEAD", "--method", "all"], "choose one method"),
    ] {
        let output = linelens(path, &arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(err(&output).contains(says), "{arguments:?}: {}", err(&output));
    }
    std::fs::write(path.join("a.c"), "int other(void) { return 1; }\n").unwrap();
    let gone = err(&linelens(path, &["explain", "a.c", "--against", "HEAD"]));
    assert!(gone.contains("there is no function other as of revision \"HEAD\""), "{gone}");
    std::fs::write(path.join("b.c"), SOURCE).unwrap();
    let untracked = err(&linelens(path, &["explain", "b.c", "--against", "HEAD"]));
    assert!(untracked.contains("b.c is not in revision \"HEAD\""), "{untracked}");
    let outside = workspace(&[]);
    let none = err(&linelens(outside.path(), &["explain", "a.c", "--against", "HEAD"]));
    assert!(none.contains("lies in no git repository"), "{none}");
}

#[test]
fn a_flaw_that_the_fix_changed_is_marked_as_such() {
    let body = SOURCE.trim_start_matches("#include <string.h>\n\n").trim_end();
    let hash: String = Sha256::digest(body).iter().map(|byte| format!("{byte:02x}")).collect();
    let mut row = row("bob");
    row["body_sha256"] = json!(hash);
    row["lines"][0]["before"] = json!("{");
    row["lines"][0]["after"] = json!("\treturn 0;");
    let folder = workspace(&[row]);
    let path = folder.path();
    git(path, &["init", "-q"]);
    git(path, &["add", "a.c"]);
    git(path, &["commit", "-q", "-m", "1"]);
    std::fs::write(path.join("a.c"), SOURCE.replace("strcpy(to, from)", "strcpy(to, from + 1)")).unwrap();
    let text = out(&linelens(path, &["explain", "a.c", "--against", "HEAD"]));
    assert!(
        text.contains("* ground truth; ~ ground truth that may have changed since it was labelled"),
        "{text}"
    );
    let line =
        |sign: &str| text.lines().find(|line| line.starts_with(sign) && line.contains("strcpy")).unwrap();
    assert!(line("- 5").contains('*') && !line("- 5").contains('~'), "{text}");
    assert!(line("+ ").contains('~') && !line("+ ").contains('*'), "{text}");
    let pair = json(&linelens(path, &["explain", "a.c", "--against", "HEAD", "--format", "json"]));
    assert_eq!(pair["after"]["lines"][2]["approximate"], true);
    assert_eq!(pair["after"]["lines"][2]["groundTruth"], true);
    assert!(pair["before"]["lines"][2].get("approximate").is_none());
}

#[test]
fn a_flaw_that_was_changed_is_marked_in_every_view() {
    let mut row = row("bob");
    row["lines"][0]["before"] = json!("{");
    row["lines"][0]["after"] = json!("\treturn 0;");
    let folder = workspace(&[row]);
    let path = folder.path();
    std::fs::write(path.join("a.c"), SOURCE.replace("strcpy(to, from)", "strcpy(to, from + 1)")).unwrap();
    let explain =
        |format: &str| out(&linelens(path, &["explain", "a.c", "--threshold", "0", "--format", format]));
    let text = explain("ansi");
    assert!(
        text.contains("ground truth (marked *, or ~ where the line may have changed since it was labelled)"),
        "{text}"
    );
    let marked: Vec<&str> = text.lines().filter(|line| line.contains(" ~ │")).collect();
    assert_eq!(marked.len(), 1, "{text}");
    assert!(marked[0].contains("strcpy") && !text.contains(" * │"), "{text}");
    let da = text.lines().find(|line| line.starts_with("DA ")).unwrap();
    assert!(da.contains("; 1 of 1 line may have changed since labelled)"), "{da}");
    let page = explain("html");
    assert!(page.contains("ground truth; the line may have changed since it was labelled\">~<"), "{page}");
    assert!(!page.contains(">●<"), "{page}");
    let finding: Value = serde_json::from_str(&explain("json")).unwrap();
    assert_eq!(
        (&finding["alignment"]["changed"], &finding["lines"][2]["approximate"]),
        (&json!(1), &json!(true))
    );
    // Broken differently it is the same text.
    std::fs::write(path.join("a.c"), SOURCE.replace("strcpy(to, from)", "strcpy(to,\n\t    from)")).unwrap();
    let finding: Value = serde_json::from_str(&explain("json")).unwrap();
    assert_eq!(
        (&finding["alignment"]["changed"], &finding["alignment"]["lines"]),
        (&json!(0), &json!([5, 6]))
    );
}

#[test]
fn an_overload_finds_itself_in_git() {
    let one = "int parse(int n)\n{\n\tcheck(n);\n\treturn table[n];\n}\n";
    let two = "int parse(char *s)\n{\n\tchar to[8];\n\tstrcpy(to, s);\n\treturn to[0];\n}\n";
    let folder = workspace(&[]);
    let path = folder.path();
    std::fs::write(path.join("o.cpp"), format!("{one}\n{two}")).unwrap();
    git(path, &["init", "-q"]);
    git(path, &["add", "o.cpp"]);
    git(path, &["commit", "-q", "-m", "1"]);
    let (new_one, new_two) = (one.replace("check(n)", "check(n + 1)"), two.replace("[8]", "[16]"));
    std::fs::write(path.join("o.cpp"), format!("{new_two}\n{new_one}")).unwrap();
    for (line, was) in [("o.cpp:1", 7), ("o.cpp:8", 1)] {
        let pair = json(&linelens(path, &["explain", line, "--against", "HEAD", "--format", "json"]));
        assert_eq!(pair["before"]["function"]["startLine"], was, "{line}");
        assert!(pair.get("guess").is_none());
    }
    // One that is new is said to be, unless it may be one that is not there any more as it was.
    let added = "int parse(long n)\n{\n\treturn 1;\n}\n";
    std::fs::write(path.join("o.cpp"), format!("{one}\n{two}\n{added}")).unwrap();
    let refused = linelens(path, &["explain", "o.cpp:14", "--against", "HEAD", "--format", "json"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(err(&refused).contains("this parse is new in this version"), "{}", err(&refused));
    std::fs::write(path.join("o.cpp"), format!("{one}\n{new_two}\n{added}")).unwrap();
    let pair = json(&linelens(path, &["explain", "o.cpp:14", "--against", "HEAD", "--format", "json"]));
    assert_eq!(pair["guess"], true);
    let text = out(&linelens(path, &["explain", "o.cpp:14", "--against", "HEAD"]));
    assert!(text.contains("a guess: several functions of this name"), "{text}");
}

#[cfg(unix)]
#[test]
fn no_git_of_the_repository_is_run() {
    use std::os::unix::fs::PermissionsExt;
    let folder = workspace(&[]);
    let path = folder.path().canonicalize().unwrap();
    git(&path, &["init", "-q"]);
    std::fs::create_dir_all(path.join("src")).unwrap();
    std::fs::write(path.join("src/a.c"), SOURCE).unwrap();
    git(&path, &["add", "."]);
    git(&path, &["commit", "-q", "-m", "1"]);
    std::fs::create_dir(path.join("bin")).unwrap();
    let (fake, mark) = (path.join("bin/git"), path.join("mark"));
    std::fs::write(&fake, format!("#!/bin/sh\ntouch '{}'\nexit 1\n", mark.display())).unwrap();
    std::fs::set_permissions(&fake, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_linelens"));
    command.args(["explain", "a.c", "--against", "HEAD", "--format", "json"]).current_dir(path.join("src"));
    command.env("XDG_CONFIG_HOME", &path);
    let old = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{old}", path.join("bin").display()));
    let output = command.output().unwrap();
    assert!(!mark.exists(), "a git of the repository was run");
    assert_eq!(json(&output)["before"]["source"].as_str().unwrap().len(), 12);
}

#[test]
fn a_function_beside_the_other_half_of_its_pair() {
    let mut before = row("bob");
    before["pair"] = json!({"id": "p1", "role": "before"});
    let after = json!({"file": "fixed.c", "function": "copy", "range": [3, 7], "label": "benign",
        "annotator": "bob", "pair": {"id": "p1", "role": "after"}});
    let folder = workspace(&[before, after]);
    let path = folder.path();
    std::fs::write(path.join("fixed.c"), SOURCE.replace("strcpy(to, from)", "strlcpy(to, from, 8)")).unwrap();
    let pair = json(&linelens(path, &["explain", "a.c", "--against-partner", "--format", "json"]));
    assert_eq!(pair["before"]["file"], "a.c");
    assert_eq!(pair["after"]["source"], "fixed.c");
    assert_eq!(pair["after"]["file"], "fixed.c", "in the form of the other");
    let outcome = pair["outcome"].as_str().unwrap();
    let (flagged, fixed) = (pair["before"]["flagged"] == true, pair["after"]["flagged"] == true);
    let expected = match (flagged, fixed) {
        (true, false) => "P-C",
        (true, true) => "P-V",
        (false, false) => "P-B",
        (false, true) => "P-R",
    };
    assert_eq!(outcome, expected);
    // From the other side it is the same pair.
    let other = json(&linelens(path, &["explain", "fixed.c", "--against-partner", "--format", "json"]));
    assert_eq!(other["outcome"], outcome);
    assert_eq!(other["before"]["source"], "a.c");
    let alone = workspace(&[row("bob")]);
    let none = err(&linelens(alone.path(), &["explain", "a.c", "--against-partner"]));
    assert!(none.contains("no pair"), "{none}");
}
