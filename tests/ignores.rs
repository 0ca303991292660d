//! `.linelens/ignore.jsonl`: reading row by row, and writing.
#![allow(clippy::unwrap_used, clippy::print_stdout)] // Helpers of tests are tests.

use linelens::annotations::ignores::{self, Author, IGNORE_FILE, Ignores, Row, Scope};
use linelens::annotations::matching::Place;
use std::path::Path;

const SHA: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
const TEXT: &str = "int f(int a) {\n    return a;\n}";
const SCOPE: Scope<'static> = Scope { model: "m", sha256: SHA, threshold: 0.5 };
const AUTHOR: Author<'static> = Author { annotator: Some("ann"), time: Some("2026-11-30T12:00:00Z") };

fn place(name: &'static str, text: &'static str) -> Place<'static> {
    Place { file: Some("src/a.c"), name, first_line: 3, text }
}

fn text(folder: &Path) -> String {
    std::fs::read_to_string(folder.join(IGNORE_FILE)).unwrap()
}

fn write(folder: &Path, text: &str) {
    std::fs::create_dir_all(folder.join(".linelens")).unwrap();
    std::fs::write(folder.join(IGNORE_FILE), text).unwrap();
}

#[test]
fn a_decision_is_written_found_replaced_and_taken_back() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    assert!(Ignores::load(root).of("f", TEXT, &SCOPE).is_none());
    ignores::set(root, &place("f", TEXT), &SCOPE, "  checked by hand ", AUTHOR).unwrap();
    let rows: Vec<String> = text(root).lines().map(str::to_string).collect();
    assert_eq!(rows[0], r#"{"schema":"linelens-ignore","version":1}"#);
    assert_eq!(rows.len(), 2);
    let Row::Ignore(row) = ignores::parse(&rows[1]).unwrap() else { panic!("{rows:?}") };
    assert_eq!(ignores::to_line(&row), rows[1]);
    assert_eq!(
        (row.file.as_deref(), row.reason.as_str(), row.threshold),
        (Some("src/a.c"), "checked by hand", Some(0.5))
    );
    let loaded = Ignores::load(root);
    assert_eq!(loaded.problems(), []);
    assert_eq!(loaded.of("f", TEXT, &SCOPE), Some(&*row));
    // Moved, indented anew, in a namespace: the same function.
    assert!(loaded.of("space::f", "int f(int a) { return a; }", &SCOPE).is_some());
    for (name, text, scope) in [
        ("g", TEXT, SCOPE),
        ("f", "int f(int a) { return a + 1; }", SCOPE),
        ("f", TEXT, Scope { threshold: 0.4, ..SCOPE }),
        ("f", TEXT, Scope { sha256: "0", ..SCOPE }),
    ] {
        assert!(loaded.of(name, text, &scope).is_none(), "{name} {text} {scope:?}");
    }
    ignores::set(root, &place("f", TEXT), &SCOPE, "another reason", AUTHOR).unwrap();
    assert_eq!(text(root).lines().count(), 2);
    assert!(!loaded.is_current());
    assert_eq!(Ignores::load(root).of("f", TEXT, &SCOPE).unwrap().reason, "another reason");
    // For another threshold it is another decision.
    let other = Scope { threshold: 0.3, ..SCOPE };
    ignores::set(root, &place("f", TEXT), &other, "at 0.3", AUTHOR).unwrap();
    assert_eq!(text(root).lines().count(), 3);
    assert!(ignores::unset(root, &place("f", TEXT), &SCOPE).unwrap().1);
    assert!(!ignores::unset(root, &place("f", TEXT), &SCOPE).unwrap().1);
    assert_eq!(Ignores::load(root).of("f", TEXT, &other).unwrap().reason, "at 0.3");
}

#[test]
fn rows_that_are_bad_are_named_and_stay_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let good = format!(r#"{{"function":"f","body_sha256":"{SHA}","reason":"r","tool":1}}"#);
    let bad = [
        ("[1]", "is not a JSON object"),
        ("{", "is not JSON"),
        (r#"{"function":"f","reason":"r"}"#, "which text is meant"),
        (&format!(r#"{{"function":"f","body_sha256":"{SHA}","reason":" "}}"#), "`reason` is empty"),
        (&format!(r#"{{"body_sha256":"{SHA}","reason":"r"}}"#), "there is no field `function`"),
        (r#"{"function":"f","body_sha256":"AB","reason":"r"}"#, "hexadecimal"),
        (
            &format!(r#"{{"function":"f","body_sha256":"{SHA}","reason":"r","file":"../a.c"}}"#),
            "stays inside",
        ),
        (&format!(r#"{{"function":"f","body_sha256":"{SHA}","reason":"r","threshold":2}}"#), "from 0 to 1"),
        (
            &format!(r#"{{"function":"f","body_sha256":"{SHA}","reason":"r","time":"now"}}"#),
            "expected a time",
        ),
    ];
    let mut rows =
        vec![r#"{"schema":"linelens-ignore","version":1}"#.to_string(), good.clone(), String::new()];
    rows.extend(bad.iter().map(|(row, _)| (*row).to_string()));
    write(folder.path(), &format!("{}\r\n", rows.join("\r\n")));
    let loaded = Ignores::load(folder.path());
    let found: Vec<(Option<usize>, bool)> = loaded
        .problems()
        .iter()
        .zip(&bad)
        .map(|(problem, (_, says))| (problem.row, problem.reason.contains(says)))
        .collect();
    let expected: Vec<(Option<usize>, bool)> = (4..4 + bad.len()).map(|row| (Some(row), true)).collect();
    assert_eq!(found, expected, "{:#?}", loaded.problems());
    // Everything else stays to the byte, line ends included.
    let before = text(folder.path());
    ignores::set(folder.path(), &place("f", TEXT), &SCOPE, "r", AUTHOR).unwrap();
    let after = text(folder.path());
    assert!(after.starts_with(&before) && after.ends_with("}\r\n"), "{after}");
    assert!(ignores::unset(folder.path(), &place("f", TEXT), &SCOPE).unwrap().1);
    assert_eq!(text(folder.path()), before);
}

#[test]
fn what_must_not_be_written_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let set = |reason: &str| ignores::set(folder.path(), &place("f", TEXT), &SCOPE, reason, AUTHOR);
    assert!(set(" ").unwrap_err().to_string().contains("say which"));
    assert!(set(&"x".repeat(ignores::LONGEST_REASON + 1)).unwrap_err().to_string().contains("longer than"));
    assert!(!folder.path().join(IGNORE_FILE).exists());
    for (text, says) in [
        ("{\"schema\":\"linelens-ignore\",\"version\":2}\n", "another version"),
        ("{\"mine\":1}\n", "left as it is"),
    ] {
        write(folder.path(), text);
        assert!(set("r").unwrap_err().to_string().contains(says));
        assert_eq!(std::fs::read_to_string(folder.path().join(IGNORE_FILE)).unwrap(), text);
    }
    assert_eq!(Ignores::load(folder.path()).problems().len(), 1);
}

#[cfg(unix)]
#[test]
fn nothing_outside_the_workspace_is_read_or_written() {
    let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    ignores::set(outside.path(), &place("f", TEXT), &SCOPE, "r", AUTHOR).unwrap();
    let before = text(outside.path());
    std::os::unix::fs::symlink(outside.path().join(".linelens"), folder.path().join(".linelens")).unwrap();
    let loaded = Ignores::load(folder.path());
    assert!(loaded.of("f", TEXT, &SCOPE).is_none());
    assert!(loaded.problems()[0].reason.contains("outside"), "{:?}", loaded.problems());
    let error = ignores::set(folder.path(), &place("g", TEXT), &SCOPE, "r", AUTHOR).unwrap_err();
    assert!(error.to_string().contains("outside"), "{error}");
    assert_eq!(text(outside.path()), before);
    // A file that is no file.
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join(IGNORE_FILE)).unwrap();
    assert_eq!(Ignores::load(folder.path()).problems().len(), 1);
}
