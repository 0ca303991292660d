//! Marking lines, labels and notes: what is written, what stays, what is refused.
#![allow(clippy::unwrap_used)]

use linelens::annotations::editing::{EditError, Edited, Site, rfc3339, set_label, set_note, toggle_line};
use linelens::annotations::matching::Place;
use linelens::annotations::native;
use linelens::annotations::store::{NATIVE_FILE, Store};
use linelens::annotations::{FunctionLines, Label, LineLabel};
use std::path::Path;

const CODE: &str = "void f(char *p) {\n  free(p);\n\n  use(p);\n  free(p);\n}";
const TIME: &str = "2026-01-31T12:00:00Z";

struct Workspace(tempfile::TempDir);

impl Workspace {
    fn new() -> Workspace {
        Workspace(tempfile::tempdir().unwrap())
    }

    fn with(text: &str) -> Workspace {
        let workspace = Workspace::new();
        std::fs::create_dir(workspace.0.path().join(".linelens")).unwrap();
        std::fs::write(workspace.0.path().join(NATIVE_FILE), text).unwrap();
        workspace
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn text(&self) -> String {
        std::fs::read_to_string(self.path().join(NATIVE_FILE)).unwrap()
    }

    fn on<T>(&self, code: &str, edit: impl Fn(&Site<'_>) -> T) -> T {
        self.by("ann", code, edit)
    }

    fn by<T>(&self, annotator: &str, code: &str, edit: impl Fn(&Site<'_>) -> T) -> T {
        let functions = [Place { file: Some("src/a b.c"), name: "f", first_line: 9, text: code }];
        edit(&Site {
            workspace: self.path(),
            functions: &functions,
            function: 0,
            annotator: Some(annotator),
            time: Some(TIME),
        })
    }

    fn store(&self) -> Store {
        Store::load(self.path(), &[NATIVE_FILE.to_string()])
    }

    fn left_overs(&self) -> usize {
        std::fs::read_dir(self.path().join(".linelens")).unwrap().count() - 1
    }
}

fn flaws(edited: &Edited) -> Vec<usize> {
    edited.record.iter().flat_map(|record| record.flaw_lines()).collect()
}

#[test]
fn a_first_mark_creates_file_and_record_and_the_same_action_undoes_it() {
    let workspace = Workspace::new();
    let edited = workspace.on(CODE, |site| toggle_line(site, 4, false)).unwrap();
    assert_eq!(flaws(&edited), [4]);
    let hash = FunctionLines::new(CODE).sha256();
    let hash_ws = FunctionLines::new(CODE).sha256_ws();
    let expected = format!(
        concat!(
            "{}\n{{\"file\":\"src/a%20b.c\",\"function\":\"f\",\"range\":[10,15],\"body_sha256\":\"{}\",\"body_sha256_ws\":\"{}\",",
            "\"label\":\"vulnerable\",\"label_from_lines\":true,",
            "\"lines\":[{{\"line\":5,\"text\":\"  free(p);\",\"before\":\"  use(p);\",\"after\":\"}}\",\"label\":\"flaw\"}}],",
            "\"annotator\":\"ann\",\"time\":\"{}\",\"source\":\"manual\"}}\n"
        ),
        native::header(),
        hash,
        hash_ws,
        TIME
    );
    assert_eq!(workspace.text(), expected);
    let store = workspace.store();
    assert_eq!((store.records().len(), store.problems().len()), (1, 0));

    let second = workspace.on(CODE, |site| toggle_line(site, 1, false)).unwrap();
    assert_eq!(flaws(&second), [1, 4]);
    workspace.on(CODE, |site| toggle_line(site, 1, true)).unwrap();
    assert_eq!(workspace.text(), expected, "undone to the byte");
    let undone = workspace.on(CODE, |site| toggle_line(site, 4, true)).unwrap();
    assert_eq!(undone.record, None);
    assert_eq!(workspace.text(), format!("{}\n", native::header()));
    assert_eq!(workspace.left_overs(), 0);
}

#[test]
fn labels_are_set_and_taken_away() {
    let workspace = Workspace::new();
    let set = workspace.on(CODE, |site| set_label(site, None, Label::Benign)).unwrap();
    assert_eq!(set.record.unwrap().label, Label::Benign);
    let refused = workspace.on(CODE, |site| toggle_line(site, 1, false)).unwrap_err();
    assert!(refused.to_string().contains("labelled benign"), "{refused}");
    workspace.on(CODE, |site| set_label(site, Some(Label::Benign), Label::Vulnerable)).unwrap();
    workspace.on(CODE, |site| toggle_line(site, 1, false)).unwrap();
    workspace.on(CODE, |site| toggle_line(site, 1, true)).unwrap();
    let store = workspace.store();
    assert_eq!(
        store.records()[0].label,
        Label::Vulnerable,
        "a label that was set stays when the last mark goes"
    );
    let gone =
        workspace.on(CODE, |site| set_label(site, Some(Label::Vulnerable), Label::Vulnerable)).unwrap();
    assert_eq!(gone.record, None);

    workspace.on(CODE, |site| toggle_line(site, 1, false)).unwrap();
    let refused =
        workspace.on(CODE, |site| set_label(site, Some(Label::Vulnerable), Label::Benign)).unwrap_err();
    assert!(refused.to_string().contains("take these marks away"), "{refused}");
}

#[test]
fn notes_are_set_and_taken_away() {
    let workspace = Workspace::new();
    let note = "\"quotes\", <b>, \u{202e} and\nlines";
    let set = workspace.on(CODE, |site| set_note(site, None, Some(note))).unwrap();
    assert_eq!(
        (set.record.as_ref().unwrap().note.as_deref(), set.record.as_ref().unwrap().label),
        (Some(note), Label::Unsure)
    );
    for shown in [None, Some(Label::Unsure)] {
        let set = workspace.on(CODE, |site| set_label(site, shown, Label::Benign)).unwrap();
        assert_eq!(set.record.unwrap().label, Label::Benign);
        let undone = workspace.on(CODE, |site| set_label(site, Some(Label::Benign), Label::Benign)).unwrap();
        assert_eq!(undone.record.unwrap().note.as_deref(), Some(note), "the note stays");
    }
    workspace.on(CODE, |site| toggle_line(site, 1, false)).unwrap();
    assert_eq!(workspace.store().records()[0].label, Label::Vulnerable);
    let kept = workspace.on(CODE, |site| set_note(site, Some(note), None)).unwrap();
    assert_eq!(flaws(&kept), [1]);
    let gone = workspace.on(CODE, |site| toggle_line(site, 1, true)).unwrap();
    assert_eq!(gone.record, None);
}

#[test]
fn what_other_tools_wrote_stays_to_the_byte() {
    let hash = FunctionLines::new(CODE).sha256();
    let foreign = format!(
        concat!(
            "\u{feff}{{\"schema\": \"linelens-annotations\", \"version\": 1, \"tool\": 1.50}}\r\n",
            "not json at all \r\n\r\n",
            "{{ \"label\" : \"benign\", \"annotator\": \"ben\",  \"body_sha256\": \"{hash}\", \"x\": [1.0e2, {{}}] }}\r\n",
            "{{\"x\":1e2,\"body_sha256\":\"{hash}\",\"label\": \"vulnerable\",\"lines\":[{{\"confidence\":0.50,\"line\":2,\"text\":\"  free(p);\",\"label\":\"flaw\"}}],\"annotator\":\"ann\",\"y\":{{\"a\": 12345678901234567890123}}}}\r\n",
            "{{\"future\":true}}"
        ),
        hash = hash
    );
    let workspace = Workspace::with(&foreign);
    workspace.on(CODE, |site| toggle_line(site, 4, false)).unwrap();
    let text = workspace.text();
    let (old, new): (Vec<&str>, Vec<&str>) = (foreign.split('\n').collect(), text.split('\n').collect());
    assert_eq!(new.len(), old.len());
    for row in [0, 1, 2, 3, 5] {
        assert_eq!(new[row], old[row]);
    }
    let row = new[4];
    for part in [
        "\"x\":1e2,",
        "{\"confidence\":0.50,\"line\":2,",
        "\"y\":{\"a\": 12345678901234567890123}",
        "\"line\":5,",
    ] {
        assert!(row.contains(part), "{part} in {row}");
    }
    assert!(row.ends_with("}\r"));
    // Somebody new gets a row of their own, after a last row that had no end.
    workspace.by("cleo", CODE, |site| toggle_line(site, 3, false)).unwrap();
    let added = workspace.text();
    assert!(
        added.starts_with(&text)
            && added[text.len()..].starts_with("\r\n{\"file\"")
            && added.ends_with("}\r\n")
    );
    workspace.by("cleo", CODE, |site| toggle_line(site, 3, true)).unwrap();
    assert_eq!(workspace.text(), format!("{text}\r\n"));
}

#[test]
fn what_somebody_else_changed_is_a_conflict() {
    let workspace = Workspace::new();
    workspace.on(CODE, |site| toggle_line(site, 4, false)).unwrap();
    let before = workspace.text();
    let is_conflict = |result: Result<Edited, EditError>| matches!(result, Err(EditError::Conflict { .. }));
    assert!(is_conflict(workspace.on(CODE, |site| toggle_line(site, 4, false))), "marked there already");
    assert!(is_conflict(workspace.on(CODE, |site| toggle_line(site, 3, true))), "not marked there");
    assert!(is_conflict(workspace.on(CODE, |site| set_label(site, None, Label::Vulnerable))));
    assert!(is_conflict(workspace.on(CODE, |site| set_note(site, Some("mine"), None))));
    assert_eq!(workspace.text(), before);
    // Another annotator's marks are their own.
    workspace.by("ben", CODE, |site| toggle_line(site, 4, false)).unwrap();
    assert_eq!(workspace.store().records().len(), 2);
}

#[test]
fn a_record_without_a_text_follows_its_edited_function() {
    let lines = [(2, "  free(p);"), (4, "  use(p);"), (5, "  free(p);")]
        .map(|(line, text)| format!("{{\"line\":{line},\"text\":\"{text}\",\"label\":\"flaw\"}}"));
    let workspace = Workspace::with(&format!(
        "{{\"file\":\"src/a%20b.c\",\"function\":\"f\",\"label\":\"vulnerable\",\"lines\":[{}],\"annotator\":\"ann\"}}\n",
        lines.join(",")
    ));
    let shorter = CODE.replace("{\n", "{\n  log();\n").replace("  use(p);\n  free(p);\n", "  x();\n  y();\n");
    let kept = workspace.on(&shorter, |site| toggle_line(site, 1, false)).unwrap().record.unwrap();
    assert!(kept.body_sha256.is_none(), "the record is not one of this text");
    let texts: Vec<&str> = kept.lines.iter().map(|line| line.text.as_str()).collect();
    assert_eq!(texts.len(), 4, "{texts:?}");
    assert!(texts.contains(&"  use(p);"));
    let store = workspace.store();
    assert!(store.problems().is_empty(), "{:?}", store.problems());
    assert_eq!(store.records().len(), 1);
}

/// 0-based flaw lines and the label of `ann` for a text.
fn truth(workspace: &Workspace, code: &str) -> Option<(Vec<usize>, Label)> {
    let store = workspace.store();
    assert!(store.problems().is_empty(), "{:?}", store.problems());
    let functions = [Place { file: Some("src/a b.c"), name: "f", first_line: 9, text: code }];
    let found = store.find(&functions);
    let matched = found.functions[0].first()?;
    let flaws = matched.lines.iter().filter(|(_, label)| *label == LineLabel::Flaw);
    Some((flaws.map(|(line, _)| *line).collect(), matched.record.label))
}

#[test]
fn the_fix_of_a_labelled_function_gets_a_record_of_its_own() {
    let row = format!(
        concat!(
            "{{\"file\":\"src/a%20b.c\",\"function\":\"f\",\"range\":[10,15],\"body_sha256\":\"{}\",\"label\":\"vulnerable\",",
            "\"lines\":[{{\"line\":2,\"text\":\"  free(p);\",\"label\":\"flaw\"}},{{\"line\":4,\"text\":\"  use(p);\",\"label\":\"flaw\"}}],",
            "\"cwe\":[\"CWE-416\"],\"pair\":{{\"id\":\"7\",\"role\":\"before\"}},\"annotator\":\"ann\",\"x\":1.50}}\n"
        ),
        FunctionLines::new(CODE).sha256()
    );
    let fixed = "void f(char *p) {\n\n  use(p);\n  done();\n}";
    let old = || Workspace::with(&format!("{}\n{row}", native::header()));

    let workspace = old();
    assert_eq!(
        truth(&workspace, fixed),
        Some((vec![2], Label::Vulnerable)),
        "carried over before anybody looks"
    );
    let set = workspace.on(fixed, |site| set_label(site, Some(Label::Vulnerable), Label::Benign)).unwrap();
    let record = set.record.unwrap();
    assert_eq!((record.label, record.lines.len(), record.cwe.len()), (Label::Benign, 0, 0));
    assert_eq!((&record.pair, record.body_sha256), (&None, Some(FunctionLines::new(fixed).sha256())));
    assert_eq!(workspace.text().lines().nth(1), Some(row.trim_end()), "the old row to the byte");
    assert_eq!(truth(&workspace, CODE), Some((vec![1, 3], Label::Vulnerable)));
    assert_eq!(truth(&workspace, fixed), Some((vec![], Label::Benign)));
    // From now on that record is the one that changes.
    workspace.on(fixed, |site| set_note(site, None, Some("fixed"))).unwrap();
    workspace.on(fixed, |site| set_label(site, Some(Label::Benign), Label::Unsure)).unwrap();
    assert_eq!(workspace.store().records().len(), 2);
    assert_eq!(truth(&workspace, fixed), Some((vec![], Label::Unsure)));
    assert_eq!(truth(&workspace, CODE), Some((vec![1, 3], Label::Vulnerable)));

    // A mark that was carried over is taken away, and stays away.
    let workspace = old();
    let more = workspace.on(fixed, |site| toggle_line(site, 3, false)).unwrap();
    assert_eq!(flaws(&more), [2, 3]);
    assert_eq!(more.record.unwrap().cwe, ["CWE-416"]);
    workspace.on(fixed, |site| toggle_line(site, 3, true)).unwrap();
    workspace.on(fixed, |site| toggle_line(site, 2, true)).unwrap();
    assert_eq!(truth(&workspace, fixed), Some((vec![], Label::Vulnerable)), "that label was set");
    workspace.on(fixed, |site| set_label(site, Some(Label::Vulnerable), Label::Vulnerable)).unwrap();
    assert_eq!(truth(&workspace, fixed), Some((vec![], Label::Unsure)), "the old text's does not come back");
    workspace.on(fixed, |site| toggle_line(site, 2, false)).unwrap();
    workspace.on(fixed, |site| toggle_line(site, 2, true)).unwrap();
    assert_eq!(truth(&workspace, fixed), Some((vec![], Label::Unsure)));
    assert_eq!(truth(&workspace, CODE), Some((vec![1, 3], Label::Vulnerable)));
    assert!(workspace.text().starts_with(&format!("{}\n{row}", native::header())));

    // Whitespace makes no other text.
    let workspace = old();
    let first = workspace.on(CODE, |site| toggle_line(site, 4, false)).unwrap();
    assert_eq!(flaws(&first), [1, 3, 4]);
    let spaced = CODE.replace("  ", "\t");
    let same = workspace.on(&spaced, |site| toggle_line(site, 4, true)).unwrap();
    assert_eq!(flaws(&same), [1, 3]);
    assert_eq!(workspace.store().records().len(), 1);
}

#[test]
fn the_last_mark_of_an_edited_function_is_taken_away() {
    let workspace = Workspace::new();
    workspace.on(CODE, |site| toggle_line(site, 3, false)).unwrap();
    let edited = CODE.replace("{\n", "{\n  log();\n");
    let kept = workspace.on(&edited, |site| toggle_line(site, 4, true)).unwrap();
    assert_eq!(kept.record.unwrap().label, Label::Unsure);
    assert_eq!(truth(&workspace, &edited), Some((vec![], Label::Unsure)));
    assert_eq!(truth(&workspace, CODE), Some((vec![3], Label::Vulnerable)));
}

#[test]
fn a_copy_in_another_file_is_marked_for_itself() {
    let spaces = CODE.replace("  ", "    ");
    for copy in [CODE, spaces.as_str()] {
        let workspace = Workspace::new();
        workspace.on(CODE, |site| toggle_line(site, 4, false)).unwrap();
        let original = workspace.text();
        let in_copy = |line: usize, is_marked: bool| {
            let functions = [Place { file: Some("src/copy.c"), name: "f", first_line: 3, text: copy }];
            let site = Site {
                workspace: workspace.path(),
                functions: &functions,
                function: 0,
                annotator: Some("ann"),
                time: Some(TIME),
            };
            toggle_line(&site, line, is_marked).unwrap()
        };
        // The copy shows the mark; taking it away there leaves the record of the other file as it is.
        let edited = in_copy(4, true);
        let record = edited.record.as_ref().unwrap();
        assert_eq!((flaws(&edited), record.label), (vec![], Label::Unsure));
        assert_eq!((record.file.as_deref(), record.range), (Some("src/copy.c"), Some((3, 8))));
        assert!(workspace.text().starts_with(&original), "to the byte");
        let shown = |file: &str, code: &str| {
            let store = workspace.store();
            let functions = [Place { file: Some(file), name: "f", first_line: 0, text: code }];
            let found = store.find(&functions);
            let all = &found.functions[0];
            assert_eq!(all.len(), 1, "{file}");
            all[0].lines.iter().map(|(line, _)| *line).collect::<Vec<_>>()
        };
        assert_eq!((shown("src/a b.c", CODE), shown("src/copy.c", copy)), (vec![4], vec![]));
        // What is marked in one is not in the other, and the same action undoes.
        in_copy(1, false);
        assert_eq!((shown("src/a b.c", CODE), shown("src/copy.c", copy)), (vec![4], vec![1]));
        in_copy(1, true);
        assert_eq!((shown("src/a b.c", CODE), shown("src/copy.c", copy)), (vec![4], vec![]));
        // Nor does unmarking the original touch the copy's.
        let edited = workspace.on(CODE, |site| toggle_line(site, 4, true)).unwrap();
        assert!(edited.record.is_none_or(|record| record.lines.is_empty()));
        assert_eq!(shown("src/copy.c", copy), Vec::<usize>::new());
    }
}

#[test]
fn blank_lines_and_lines_beyond_the_function_are_refused() {
    let workspace = Workspace::new();
    for line in [2, 6, usize::MAX] {
        assert!(matches!(
            workspace.on(CODE, |site| toggle_line(site, line, false)),
            Err(EditError::Refused(_))
        ));
    }
    assert!(!workspace.path().join(".linelens").exists(), "nothing was written");
}

#[test]
fn a_file_of_a_later_version_is_not_touched() {
    let text = "{\"schema\":\"linelens-annotations\",\"version\":2}\n";
    let workspace = Workspace::with(text);
    let error = workspace.on(CODE, |site| toggle_line(site, 1, false)).unwrap_err();
    assert!(error.to_string().contains("another version"), "{error}");
    assert_eq!(workspace.text(), text);
}

#[cfg(unix)]
mod links {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_folder_or_file_that_leads_out_is_refused() {
        let outside = tempfile::tempdir().unwrap();
        let workspace = Workspace::new();
        symlink(outside.path(), workspace.path().join(".linelens")).unwrap();
        let error = workspace.on(CODE, |site| toggle_line(site, 1, false)).unwrap_err();
        assert!(error.to_string().contains("outside the workspace folder"), "{error}");
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);

        let workspace = Workspace::with("");
        std::fs::remove_file(workspace.path().join(NATIVE_FILE)).unwrap();
        for target in [outside.path().join("there.jsonl"), outside.path().join("not-there.jsonl")] {
            if target.ends_with("there.jsonl") {
                std::fs::write(&target, "mine").unwrap();
            }
            let link = workspace.path().join(NATIVE_FILE);
            let _ = std::fs::remove_file(&link);
            symlink(&target, &link).unwrap();
            assert!(workspace.on(CODE, |site| toggle_line(site, 1, false)).is_err());
        }
        assert_eq!(std::fs::read_to_string(outside.path().join("there.jsonl")).unwrap(), "mine");
        assert!(!outside.path().join("not-there.jsonl").exists());
    }

    #[test]
    fn links_inside_the_workspace_and_permissions_are_kept() {
        let workspace = Workspace::with("");
        let real = workspace.path().join("truth.jsonl");
        std::fs::write(&real, "").unwrap();
        std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o640)).unwrap();
        let link = workspace.path().join(NATIVE_FILE);
        std::fs::remove_file(&link).unwrap();
        symlink("../truth.jsonl", &link).unwrap();
        workspace.on(CODE, |site| toggle_line(site, 1, false)).unwrap();
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(std::fs::read_to_string(&real).unwrap().contains("free(p)"));
        assert_eq!(std::fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
    }
}

#[test]
fn writers_at_the_same_time_lose_nothing() {
    let workspace = Workspace::new();
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let workspace = &workspace;
            scope.spawn(move || {
                for line in [1, 3, 4] {
                    let mut tries = 0;
                    while let Err(error) =
                        workspace.by(&format!("w{writer}"), CODE, |site| toggle_line(site, line, false))
                    {
                        assert!(matches!(error, EditError::Conflict { .. }), "{error}");
                        tries += 1;
                        assert!(tries < 100);
                    }
                }
            });
        }
    });
    let store = workspace.store();
    assert!(store.problems().is_empty());
    assert_eq!(store.records().len(), 8);
    assert!(store.records().iter().all(|record| record.flaw_lines().count() == 3));
    assert_eq!(workspace.left_overs(), 0);
}

#[test]
fn times_are_written_so_that_they_can_be_read() {
    let time = rfc3339(std::time::SystemTime::now());
    assert!(native::parse(&format!("{{\"label\":\"unsure\",\"time\":\"{time}\"}}")).is_ok());
}

#[test]
fn a_lock_that_is_held_is_an_error_and_nothing_is_written() {
    let workspace = Workspace::with("");
    let folder = std::fs::File::open(workspace.path().join(".linelens")).unwrap();
    folder.lock().unwrap();
    let error = workspace.on(CODE, |site| toggle_line(site, 4, false)).unwrap_err();
    assert!(matches!(error, EditError::Busy { .. }), "{error}");
    assert!(error.to_string().ends_with("is being written by another program; try again"), "{error}");
    assert_eq!(workspace.text(), "");
    folder.unlock().unwrap();
    assert_eq!(flaws(&workspace.on(CODE, |site| toggle_line(site, 4, false)).unwrap()), [4]);
}

#[test]
fn what_is_no_annotation_file_is_left_as_it_is() {
    for (text, part) in [
        (&b"\x1f\x8b\x08\x00rest"[..], "is gzip-compressed"),
        (b"int main(void) {\n  return 0;\n}\n", "holds no row that is a record or header"),
    ] {
        let workspace = Workspace::with("");
        let path = workspace.path().join(NATIVE_FILE);
        std::fs::write(&path, text).unwrap();
        let error = workspace.on(CODE, |site| toggle_line(site, 4, false)).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), text);
    }
}

#[test]
fn what_would_not_be_read_back_is_not_written() {
    let workspace = Workspace::with(&"{\"label\":\"benign\"}\n".repeat(500_000));
    let error = workspace.on(CODE, |site| toggle_line(site, 4, false)).unwrap_err();
    assert!(error.to_string().contains("more than 500000 records"), "{error}");
    assert_eq!(workspace.text().lines().count(), 500_000);
    let workspace = Workspace::new();
    let note = "n".repeat(64 << 20);
    let error = workspace.on(CODE, |site| set_note(site, None, Some(&note))).unwrap_err();
    assert!(error.to_string().contains("a row of more than 67108864 bytes"), "{error}");
    assert!(!workspace.path().join(NATIVE_FILE).exists());
}
