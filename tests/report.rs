//! Reports: SARIF and HTML by the command line, with the built-in detector; ignored functions; exit codes; several sessions.
#![allow(clippy::unwrap_used, clippy::print_stdout)] // Helpers of tests are tests.

#[path = "support/sarif.rs"]
mod sarif;

use serde_json::{Value, json};
use std::path::Path;
use std::process::{Command, Output};

const SOURCE: &str = "#include <string.h>\n\n/* é 🦀 */ int first(char *out, const char *in)\n{\n\tstrcpy(out, in);\n\n\treturn 0;\n}\n\nstatic int second(void) { return 1; }\n";

fn run(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linelens"));
    command.args(arguments).current_dir(folder).env("XDG_CONFIG_HOME", folder).env("NO_COLOR", "1");
    command.env_remove("FORCE_COLOR").env_remove("COLORTERM").output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn workspace(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join(".git")).unwrap();
    for (name, text) in files {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    folder
}

fn log(output: &Output) -> Value {
    assert!(output.status.success(), "{}", err(output));
    let log = serde_json::from_str(&out(output)).unwrap();
    let complaints = sarif::complaints(&log);
    assert!(complaints.is_empty(), "{complaints:#?}");
    log
}

fn sarif_of(folder: &Path, paths: &[&str]) -> Value {
    let mut arguments = vec!["check", "--threshold", "0", "--format", "sarif"];
    arguments.extend(paths);
    log(&run(folder, &arguments))
}

fn fingerprints(log: &Value) -> Vec<String> {
    let results = log["runs"][0]["results"].as_array().unwrap();
    results
        .iter()
        .map(|result| result["partialFingerprints"]["linelensFunction/v1"].as_str().unwrap().into())
        .collect()
}

// -------------------------------------------------------------------------------------------------------------- SARIF

#[cfg(target_os = "linux")]
#[test]
fn every_file_has_a_uri_of_its_own() {
    use std::os::unix::ffi::OsStrExt;
    let folder = workspace(&[("a\\b.c", SOURCE)]);
    let name = std::ffi::OsStr::from_bytes(b"c\xff.c");
    std::fs::write(folder.path().join(name), SOURCE).unwrap();
    let log = sarif_of(folder.path(), &["."]);
    let results = log["runs"][0]["results"].as_array().unwrap().iter();
    let uris: std::collections::BTreeSet<&str> = results
        .map(|result| result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].as_str().unwrap())
        .collect();
    assert_eq!(uris.into_iter().collect::<Vec<_>>(), ["a%5Cb.c", "c%FF.c"]);
    let mut fingerprints = fingerprints(&log);
    fingerprints.sort();
    fingerprints.dedup();
    assert_eq!(fingerprints.len(), 4);
}

#[test]
fn a_log_says_where_and_why() {
    let folder = workspace(&[("src/a b.c", SOURCE)]);
    let log = sarif_of(folder.path(), &["."]);
    let run = &log["runs"][0];
    assert_eq!(run["tool"]["driver"]["name"], "linelens");
    assert_eq!(run["invocations"], json!([{"executionSuccessful": true}]));
    assert_eq!(run["properties"]["model"]["sha256"].as_str().unwrap().len(), 64);
    let results = run["results"].as_array().unwrap();
    assert_eq!(results.len(), 2);
    let first = &results[0];
    assert_eq!((&first["kind"], &first["level"]), (&json!("fail"), &json!("note")));
    let place = &first["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"], json!({"uri": "src/a%20b.c", "uriBaseId": "SRCROOT"}));
    // Columns are code points: the comment before the name has a letter and a crab.
    assert_eq!(place["region"], json!({"startLine": 3, "startColumn": 15, "endLine": 3, "endColumn": 20}));
    assert_eq!(place["contextRegion"], json!({"startLine": 3, "endLine": 8}));
    assert_eq!(
        first["locations"][0]["logicalLocations"],
        json!([{"fullyQualifiedName": "first", "kind": "function"}])
    );
    let probability = first["properties"]["probability"].as_f64().unwrap();
    assert_eq!(first["rank"].as_f64().unwrap(), probability * 100.0);
    let message = first["message"]["text"].as_str().unwrap();
    assert!(
        message.starts_with("first looks vulnerable: P(vulnerable) ") && message.contains(" points to line"),
        "{message}"
    );
    let related = first["relatedLocations"].as_array().unwrap();
    assert_eq!(related[0]["id"], 1, "the most relevant line first");
    let ours = related.iter().find(|line| line["physicalLocation"]["region"]["startLine"] == 5).unwrap();
    assert_eq!(ours["physicalLocation"]["region"]["startColumn"], 2, "without the tab");
    assert_eq!(ours["physicalLocation"]["region"]["snippet"]["text"], "strcpy(out, in);");
    assert_eq!(first["suppressions"], json!([]), "all results of a run have the property, or none");
    // Nothing flagged is a log, too.
    let none = run_log(folder.path(), &["check", "--threshold", "1", "--format", "sarif", "."]);
    assert_eq!(none["runs"][0]["results"], json!([]));
    let all = run_log(folder.path(), &["check", "--threshold", "1", "--all", "--format", "sarif", "."]);
    let all = all["runs"][0]["results"].as_array().unwrap();
    assert!(
        all.len() == 2 && all.iter().all(|result| result["kind"] == "pass" && result["level"] == "none"),
        "{all:?}"
    );
}

fn run_log(folder: &Path, arguments: &[&str]) -> Value {
    log(&run(folder, arguments))
}

#[test]
fn fingerprints_do_not_change_with_unrelated_edits() {
    let twice = "#if A\nint same(int a) { return a; }\n#else\nint same(int a) { return a; }\n#endif\n";
    let folder = workspace(&[("a.c", SOURCE), ("b.c", twice)]);
    let before = fingerprints(&sarif_of(folder.path(), &["a.c"]));
    let equal = fingerprints(&sarif_of(folder.path(), &["b.c"]));
    assert_eq!(equal.len(), 2);
    assert_ne!(equal[0], equal[1]);
    // Lines move, another function comes in between, the indentation changes, line ends change.
    let moved = SOURCE.replace("\n\n/*", "\n\n\nint zero(void) { return 0; }\n/*").replace('\t', "    ");
    std::fs::write(folder.path().join("a.c"), moved.replace('\n', "\r\n")).unwrap();
    let after = fingerprints(&sarif_of(folder.path(), &["a.c"]));
    assert_eq!(after.len(), 3);
    assert_eq!(after[1..], before[..]);
    // From another folder's view the file has another name, and an edited function is another finding.
    std::fs::write(folder.path().join("a.c"), SOURCE.replace("return 1", "return 2")).unwrap();
    let edited = fingerprints(&sarif_of(folder.path(), &["a.c"]));
    assert_eq!(edited[0], before[0]);
    assert_ne!(edited[1], before[1]);
}

#[test]
fn uris_are_relative_wherever_the_files_are_named_from() {
    let folder = workspace(&[("x/src/a.c", SOURCE), ("x/other/b.c", SOURCE), ("x/here/keep.txt", "")]);
    let uris = |log: &Value| -> Vec<String> {
        let results = log["runs"][0]["results"].as_array().unwrap();
        let uri = |result: &Value| {
            result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
                .as_str()
                .unwrap()
                .to_string()
        };
        let mut uris: Vec<String> = results.iter().map(uri).collect();
        uris.dedup();
        uris
    };
    assert_eq!(uris(&sarif_of(folder.path(), &["x"])), ["x/other/b.c", "x/src/a.c"]);
    let absolute = folder.path().canonicalize().unwrap().join("x/src");
    assert_eq!(uris(&sarif_of(folder.path(), &[absolute.to_str().unwrap()])), ["x/src/a.c"]);
    // Outside of the current folder: from the innermost folder that holds both.
    assert_eq!(
        uris(&sarif_of(&folder.path().join("x/here"), &["../src", "../other"])),
        ["src/a.c", "other/b.c"]
    );
}

#[test]
fn what_cannot_be_analysed_is_in_the_log_and_the_exit_code() {
    let folder = workspace(&[("a.c", SOURCE)]);
    std::fs::write(folder.path().join("wide.c"), b"\xff\xfei\0n\0").unwrap();
    let output = run(folder.path(), &["check", "--threshold", "0", "--format", "sarif", "."]);
    assert_eq!(output.status.code(), Some(2));
    let log: Value = serde_json::from_str(&out(&output)).unwrap();
    assert_eq!(sarif::complaints(&log), [] as [String; 0]);
    let invocation = &log["runs"][0]["invocations"][0];
    assert_eq!(invocation["executionSuccessful"], false);
    let said = &invocation["toolExecutionNotifications"][0];
    assert!(said["message"]["text"].as_str().unwrap().contains("UTF-16"), "{said}");
    assert_eq!(said["locations"][0]["physicalLocation"]["artifactLocation"]["uri"], "wide.c");
    assert_eq!(log["runs"][0]["results"].as_array().unwrap().len(), 2);
}

#[test]
fn exit_codes_tell_what_was_found() {
    let folder = workspace(&[("a.c", SOURCE)]);
    let code = |arguments: &[&str]| run(folder.path(), arguments).status.code();
    for format in ["text", "json", "sarif"] {
        assert_eq!(code(&["check", "--threshold", "0", "--format", format, "a.c"]), Some(0));
        assert_eq!(
            code(&["check", "--threshold", "0", "--fail-on", "flagged", "--format", format, "a.c"]),
            Some(1)
        );
        assert_eq!(
            code(&["check", "--threshold", "1", "--fail-on", "flagged", "--format", format, "a.c"]),
            Some(0)
        );
        assert_eq!(code(&["check", "--format", format, "none.c"]), Some(2));
    }
}

#[test]
fn names_are_no_links_placeholders_or_control_characters() {
    let source = "struct V { int at[3]; int operator[](int i) { return at[i]; } };\n";
    let folder = workspace(&[("a.cpp", source)]);
    let log = sarif_of(folder.path(), &["a.cpp"]);
    let result = &log["runs"][0]["results"][0];
    assert!(result["message"]["text"].as_str().unwrap().contains("operator\\[\\] looks"), "{result}");
    let name = result["locations"][0]["logicalLocations"][0]["fullyQualifiedName"].as_str().unwrap();
    assert!(name.ends_with("operator[]"), "{name}");
    // The checker itself can say no.
    let mut bad = log.clone();
    bad["runs"][0]["results"][0]["message"]["text"] = json!("{0} [x](1)");
    bad["runs"][0]["results"][0]["colour"] = json!("red");
    bad["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] =
        json!("/etc/a b");
    bad["runs"][0]["results"][0]["level"] = json!("none");
    assert_eq!(sarif::complaints(&bad).len(), 5, "{:#?}", sarif::complaints(&bad));
}

// ------------------------------------------------------------------------------------------------------------- ignored

/// What was decided about a function of `a.c`.
fn ignore(folder: &Path, log: &Value, function: &str, text: &str, scope: Value) {
    use linelens::annotations::FunctionLines;
    let text = FunctionLines::new(text);
    let mut row = json!({"file": "a.c", "function": function, "body_sha256": text.sha256(),
        "body_sha256_ws": text.sha256_ws(), "reason": "checked\u{202e}", "annotator": "ann", "time": "2026-11-30T12:00:00Z"});
    if scope == json!("this") {
        row["model"] = log["runs"][0]["properties"]["model"].clone();
        row["threshold"] = json!(0.0);
    } else if let Some(scope) = scope.as_object() {
        row.as_object_mut().unwrap().extend(scope.clone());
    }
    let rows = format!("{{\"schema\":\"linelens-ignore\",\"version\":1}}\nnot json\n{row}\n");
    std::fs::create_dir_all(folder.join(".linelens")).unwrap();
    std::fs::write(folder.join(".linelens/ignore.jsonl"), rows).unwrap();
}

#[test]
fn ignored_functions_are_suppressed_with_their_reason() {
    let second = "static int second(void) { return 1; }";
    let folder = workspace(&[("a.c", SOURCE)]);
    let before = sarif_of(folder.path(), &["a.c"]);
    for scope in [json!("this"), json!({}), json!({"threshold": 0.0})] {
        ignore(folder.path(), &before, "second", second, scope);
        let after = sarif_of(folder.path(), &["a.c"]);
        let results = after["runs"][0]["results"].as_array().unwrap();
        assert_eq!(results[0]["suppressions"], json!([]));
        assert_eq!(
            results[1]["suppressions"],
            json!([{"kind": "external", "status": "accepted", "justification": "checked\\u{202e}",
                "properties": {"annotator": "ann", "time": "2026-11-30T12:00:00Z"}}])
        );
        assert_eq!(fingerprints(&after), fingerprints(&before));
    }
    let text = run(folder.path(), &["check", "--threshold", "0", "a.c"]);
    assert!(!out(&text).contains("second"), "{}", out(&text));
    assert!(out(&text).contains("1 of 2 functions flagged in 1 file, 1 ignored"), "{}", out(&text));
    assert!(err(&text).contains("ignore.jsonl, row 2: is not JSON"), "{}", err(&text));
    let all = run(folder.path(), &["check", "--threshold", "0", "--all", "a.c"]);
    assert!(out(&all).contains("; ignored: checked\\u{202e}"), "{}", out(&all));
    let rows = run(folder.path(), &["check", "--threshold", "0", "--all", "--format", "json", "a.c"]);
    let rows: Vec<Value> = out(&rows).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((rows[0].get("ignored"), rows[1]["ignored"].as_str()), (None, Some("checked\u{202e}")));
}

#[test]
fn a_decision_holds_for_its_text_name_model_and_threshold_only() {
    let second = "static int second(void) { return 1; }";
    let folder = workspace(&[("a.c", SOURCE)]);
    let before = sarif_of(folder.path(), &["a.c"]);
    let flagged = |threshold: &str| {
        let arguments =
            ["check", "--threshold", threshold, "--fail-on", "flagged", "--format", "json", "a.c"];
        out(&run(folder.path(), &arguments)).lines().count()
    };
    ignore(folder.path(), &before, "second", second, json!("this"));
    assert_eq!((flagged("0"), flagged("0.000001")), (1, 2), "another threshold");
    let other = json!({"model": {"name": "other", "sha256": "0".repeat(64)}});
    for (name, text, scope) in [
        ("second", second, other),
        ("first", second, json!({})),
        ("second", "static int second(void) { return 2; }", json!({})),
    ] {
        ignore(folder.path(), &before, name, text, scope);
        assert_eq!(flagged("0"), 2, "{name} {text}");
    }
    // White space is no other text, and both functions may be passed over: then nothing fails.
    ignore(folder.path(), &before, "second", "static int\nsecond(void)\n{ return 1; }", json!({}));
    assert_eq!(flagged("0"), 1);
}

#[cfg(unix)]
#[test]
fn decisions_from_outside_the_workspace_do_not_count() {
    let second = "static int second(void) { return 1; }";
    let (folder, outside) = (workspace(&[("a.c", SOURCE)]), workspace(&[]));
    let before = sarif_of(folder.path(), &["a.c"]);
    ignore(outside.path(), &before, "second", second, json!({}));
    std::os::unix::fs::symlink(outside.path().join(".linelens"), folder.path().join(".linelens")).unwrap();
    let text = run(folder.path(), &["check", "--threshold", "0", "a.c"]);
    assert!(out(&text).contains("2 of 2 functions flagged in 1 file\n"), "{}", out(&text));
    assert!(err(&text).contains("lies outside the workspace folder"), "{}", err(&text));
}

// ------------------------------------------------------------------------------------------------------------ sessions

#[test]
fn the_order_does_not_depend_on_the_sessions() {
    let long: String = (0..30).map(|n| format!("int f{n}(int a) {{ return a + {n}; }}\n")).collect();
    let mut files = vec![("a.c".to_string(), long)];
    for n in 0..12 {
        files.push((format!("d/{n}.c"), format!("int g{n}(int a) {{ return a; }}\n")));
    }
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let folder = workspace(&files);
    let of = |jobs: &str| {
        let output = run(
            folder.path(),
            &["check", "--all", "--threads", "1", "--jobs", jobs, "--format", "json", "."],
        );
        assert!(output.status.success(), "{}", err(&output));
        assert_eq!(err(&output), "", "a progress bar is for a terminal");
        out(&output)
    };
    let one = of("1");
    assert_eq!(one.lines().count(), 42);
    assert_eq!(of("4"), one);
}

// ---------------------------------------------------------------------------------------------------------------- HTML

#[test]
fn a_page_shows_the_shaded_source_and_needs_nothing_else() {
    let source =
        "int f(char *s)\n{\n\tputs(\"<script>alert('x')</script> & \u{202e}\");\n\treturn s[0];\n}\n";
    let folder = workspace(&[("<b>.c", source)]);
    let output = run(folder.path(), &["explain", "<b>.c", "--format", "html", "--threshold", "0"]);
    assert!(output.status.success(), "{}", err(&output));
    let page = out(&output);
    assert!(page.starts_with("<!DOCTYPE html>") && page.trim_end().ends_with("</html>"), "{page}");
    assert!(page.contains("<title>linelens: &lt;b&gt;.c</title>"), "{page}");
    assert!(
        page.contains(
            "    puts(&quot;&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt; &amp; \\u{202e}&quot;);"
        ),
        "{page}"
    );
    for forbidden in
        ["<script", "<link", "<img", "http:", "https:", "src=", "@import", "url(", "\u{202e}", "<b>"]
    {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    assert!(page.contains("default-src 'none'"));
    assert!(page.contains("prefers-color-scheme: dark") && page.contains("color-scheme: light dark"));
    assert!(page.contains("class=\"h8\""), "some line scores 1");
    let opened = page.matches("<tr").count();
    assert_eq!((opened, page.matches("</tr>").count()), (5, 5));
    // Every step has colours in both schemes.
    assert_eq!(page.matches(".h8 {").count(), 2);
    let all = run(folder.path(), &["explain", "<b>.c", "--format", "html", "--method", "all"]);
    assert!(all.status.success(), "{}", err(&all));
    assert!(out(&all).matches("<h3>").count() > 1);
    let two = run(folder.path(), &["explain", "<b>.c", "--format", "html", "--against", "HEAD"]);
    assert_eq!(two.status.code(), Some(2));
    assert!(err(&two).contains("an HTML page shows one version"), "{}", err(&two));
}
