//! The annotation files of a workspace: which are read, what is reported, and that nothing outside is touched.
#![allow(clippy::unwrap_used)]

use linelens::annotations::Label;
use linelens::annotations::store::{NATIVE_FILE, Store};
use std::path::Path;

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

fn load(folder: &Path, patterns: &[&str]) -> Store {
    Store::load(folder, &patterns.iter().map(|pattern| pattern.to_string()).collect::<Vec<_>>())
}

fn row(note: &str) -> String {
    format!("{{\"label\":\"benign\",\"file\":\"a.c\",\"note\":\"{note}\"}}\n")
}

fn notes(store: &Store) -> Vec<&str> {
    store.records().iter().map(|record| record.note.as_deref().unwrap_or_default()).collect()
}

#[test]
fn bad_rows_are_problems_with_their_row_and_the_others_count() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!("{}oops\n\n{{\"label\":\"maybe\"}}\n{}", row("one"), row("two"));
    write(folder.path(), NATIVE_FILE, &text);
    let store = load(folder.path(), &[NATIVE_FILE]);
    assert_eq!(notes(&store), ["one", "two"]);
    let rows: Vec<_> = store.problems().iter().map(|problem| problem.row).collect();
    assert_eq!(rows, [Some(2), Some(4)]);
    assert!(store.problems()[1].to_string().contains("annotations.jsonl, row 4: is not a record"));
    assert!(store.is_current());
    write(folder.path(), NATIVE_FILE, &row("longer than before, so that the size differs"));
    assert!(!store.is_current());
}

#[test]
fn the_file_need_not_exist_and_is_watched() {
    let folder = tempfile::tempdir().unwrap();
    let store = load(folder.path(), &[NATIVE_FILE]);
    assert_eq!((store.records().len(), store.problems().len(), store.files().count()), (0, 0, 1));
    write(folder.path(), NATIVE_FILE, "");
    assert!(!store.is_current());
    assert!(load(folder.path(), &[NATIVE_FILE]).problems().is_empty(), "an empty file is fine");
}

#[test]
fn paths_and_globs_in_any_format() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "truth/b.jsonl", &row("b"));
    write(folder.path(), "truth/a.jsonl", &row("a"));
    write(folder.path(), "truth/deep/c.jsonl", &row("c"));
    write(
        folder.path(),
        "sets/devign.json",
        "[{\"func\":\"int f;\",\"target\":1,\"commit_id\":\"c\",\"project\":\"p\"}]",
    );
    let store = load(folder.path(), &["truth/*.jsonl", "sets/devign.json", "truth/a.jsonl"]);
    assert_eq!(notes(&store), ["a", "b", ""], "sorted, and each file once");
    assert_eq!(store.records()[2].label, Label::Vulnerable);
    assert_eq!(notes(&load(folder.path(), &["./truth/**/*.jsonl"])), ["a", "b", "c"]);
    assert_eq!(notes(&load(folder.path(), &["none/*.jsonl"])), [""; 0]);
    let store = load(folder.path(), &["none.jsonl", "truth", "[", "sets"]);
    assert_eq!(store.problems().len(), 4, "{:?}", store.problems());
}

#[test]
fn nothing_outside_the_workspace_is_read() {
    let outer = tempfile::tempdir().unwrap();
    write(outer.path(), "secret.jsonl", &row("secret"));
    write(outer.path(), "workspace/in.jsonl", &row("in"));
    let workspace = outer.path().join("workspace");
    let absolute = outer.path().join("secret.jsonl").display().to_string();
    let mut patterns = vec![
        "../secret.jsonl",
        "../*.jsonl",
        "a/../../secret.jsonl",
        absolute.as_str(),
        "/etc/passwd",
        "/etc/*",
    ];
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(outer.path(), workspace.join("out")).unwrap();
        std::os::unix::fs::symlink("../secret.jsonl", workspace.join("link.jsonl")).unwrap();
        std::os::unix::fs::symlink(&workspace, workspace.join("round")).unwrap();
        patterns.extend(["out/secret.jsonl", "link.jsonl", "out/*.jsonl"]);
    }
    for pattern in patterns {
        let store = load(&workspace, &[pattern]);
        assert!(store.records().is_empty(), "{pattern}");
        assert_eq!(store.problems().len(), 1, "{pattern}");
    }
    let store = load(&workspace, &["**/*.jsonl"]);
    assert_eq!(notes(&store), ["in"], "links are not followed by globs: {:?}", store.problems());
}

#[cfg(unix)]
#[test]
fn a_linelens_folder_that_leads_out_and_pipes_are_not_read() {
    let outer = tempfile::tempdir().unwrap();
    write(outer.path(), "other/annotations.jsonl", &row("other"));
    let workspace = outer.path().join("workspace");
    std::fs::create_dir(&workspace).unwrap();
    std::os::unix::fs::symlink(outer.path().join("other"), workspace.join(".linelens")).unwrap();
    let store = load(&workspace, &[NATIVE_FILE]);
    assert!(store.records().is_empty() && store.problems().len() == 1);
    std::fs::remove_file(outer.path().join("other/annotations.jsonl")).unwrap();
    let store = load(&workspace, &[NATIVE_FILE]);
    assert_eq!((store.problems().len(), store.files().count()), (1, 0));

    let pipe = workspace.join("pipe.jsonl");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    if made.is_ok_and(|status| status.success()) {
        let store = load(&workspace, &["pipe.jsonl", "*.jsonl"]);
        assert_eq!(store.problems().len(), 1, "{:?}", store.problems());
    }
}

#[test]
fn many_bad_rows_are_counted_not_kept() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), NATIVE_FILE, &"x\n".repeat(5000));
    let store = load(folder.path(), &[NATIVE_FILE]);
    assert_eq!(store.problems().len(), 201);
    assert!(store.problems()[200].to_string().ends_with("4800 further rows are bad"));
}
