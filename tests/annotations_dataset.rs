//! Reading data sets: what each format says, and that nothing wrong gets through or is passed over in silence.
#![allow(clippy::unwrap_used)]

use linelens::annotations::dataset::{self, DatasetError, Format};
use linelens::annotations::matching::Place;
use linelens::annotations::store::Store;
use linelens::annotations::{Label, LineLabel, Role, RowError, Sample};
use serde_json::{Value, json};
use std::io::Write;
use std::path::PathBuf;

const BEFORE: &str = "int f(char *s) {\n  char b[4];\n  strcpy(b, s);\n  // say it\n  return b[0];\n}";
const AFTER: &str = "int f(char *s) {\n  char b[4];\n  strlcpy(b, s, 4);\n  // said\n  return b[0];\n}";

struct File {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

fn file(name: &str, bytes: &[u8]) -> File {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    File { _folder: folder, path }
}

fn read(name: &str, bytes: &[u8], format: Format) -> Vec<Result<Sample, RowError>> {
    let file = file(name, bytes);
    let samples = dataset::open(&file.path, None).unwrap();
    assert_eq!(samples.format(), format);
    samples.collect()
}

fn jsonl(rows: &[Value]) -> Vec<u8> {
    rows.iter().flat_map(|row| format!("{row}\n").into_bytes()).collect()
}

fn csv(rows: &[&[&str]]) -> Vec<u8> {
    let mut writer = csv::WriterBuilder::new().flexible(true).from_writer(Vec::new());
    for row in rows {
        writer.write_record(*row).unwrap();
    }
    writer.into_inner().unwrap()
}

fn lines(sample: &Sample) -> Vec<usize> {
    sample.record.flaw_lines().collect()
}

/// (row, kind of problem) of the rows that were refused, and how many samples there were.
fn faults(results: &[Result<Sample, RowError>]) -> (Vec<(usize, &'static str)>, usize) {
    let faults = results.iter().filter_map(|r| r.as_ref().err().map(|e| (e.row, e.reason.kind()))).collect();
    (faults, results.iter().filter(|r| r.is_ok()).count())
}

fn good(results: Vec<Result<Sample, RowError>>) -> Vec<Sample> {
    results.into_iter().map(|result| result.unwrap()).collect()
}

fn assert_is_pair(before: &Sample, after: &Sample) {
    assert_eq!((before.record.label, after.record.label), (Label::Vulnerable, Label::Benign));
    let (a, b) = (before.record.pair.as_ref().unwrap(), after.record.pair.as_ref().unwrap());
    assert_eq!((a.role, b.role), (Role::Before, Role::After));
    assert_eq!(a.id, b.id);
    assert!(lines(after).is_empty());
}

#[test]
fn functions() {
    let rows = jsonl(&[
        json!({"id": "a:v", "source": "s", "project": "p/q", "commit": "c1", "cve": "CVE-2020-1", "cwe": "CWE-787",
               "func": BEFORE, "target": 1, "flaw_lines": [3, 3], "pair_id": "a", "name": "f", "path": "src/f.c"}),
        json!({"id": "a:f", "source": "s", "commit": null, "cve": null, "func": AFTER, "target": 0,
               "flaw_lines": [], "pair_id": "a"}),
        json!({"id": 7, "func": "f", "target": 1, "flaw_lines": [2]}),
        json!({"func": "f", "target": 1, "flaw_lines": [0]}),
        json!({"func": "f", "target": 0, "flaw_lines": [1]}),
        json!({"func": "f", "target": 2}),
        json!({"func": "f", "target": "1"}),
        json!({"target": 1, "flaw_lines": []}),
        json!({"func": " \n", "target": 1}),
        json!({"func": 3, "target": 1}),
        json!({"func": "f"}),
        json!({"func": "f", "target": 1, "flaw_lines": [1.5]}),
        json!([1]),
    ]);
    let results = read("d.jsonl", &rows, Format::Functions);
    let (faults, count) = faults(&results);
    assert_eq!(count, 2);
    assert_eq!(
        faults,
        [
            (3, "line outside the function"),
            (4, "not a line number"),
            (5, "flaw lines in a benign function"),
            (6, "label not 0 or 1"),
            (7, "label not 0 or 1"),
            (8, "field missing"),
            (9, "field empty"),
            (10, "field of a wrong type"),
            (11, "field missing"),
            (12, "field of a wrong type"),
            (13, "not an object"),
        ]
    );
    let samples: Vec<Sample> = results.into_iter().flatten().collect();
    assert_is_pair(&samples[0], &samples[1]);
    let first = &samples[0];
    assert_eq!(lines(first), [2]);
    assert_eq!(first.record.lines[0].text, "  strcpy(b, s);");
    assert_eq!(first.record.lines[0].before.as_deref(), Some("  char b[4];"));
    assert_eq!(first.id.as_deref(), Some("a:v"));
    assert_eq!(first.collection.as_deref(), Some("s"));
    assert_eq!((first.project.as_deref(), first.commit.as_deref()), (Some("p/q"), Some("c1")));
    assert_eq!(
        (first.record.file.as_deref(), first.record.function.as_deref()),
        (Some("src/f.c"), Some("f"))
    );
    assert_eq!(
        (&first.record.cwe[..], &first.record.cve[..]),
        (&["CWE-787".into()][..], &["CVE-2020-1".into()][..])
    );
    assert_eq!(first.record.dataset.as_ref().unwrap().row, "1");
}

#[test]
fn bad_bytes_and_broken_json_are_rows_like_others() {
    let mut bytes = jsonl(&[json!({"func": "f", "target": 1})]);
    bytes.extend(
        b"{\"func\": \"\xff\", \"target\": 1}\n{\"func\": \"f\", \"target\": NaN}\n{\"func\": \"f\n\n",
    );
    bytes.extend(jsonl(&[json!({"func": "g", "target": 0})]));
    let results = read("d.jsonl", &bytes, Format::Functions);
    assert_eq!(faults(&results), (vec![(2, "not UTF-8"), (3, "not JSON"), (4, "not JSON")], 2));
    assert_eq!(results.last().unwrap().as_ref().unwrap().row, 6, "blank lines count as rows of the file");
}

#[test]
fn sven() {
    let change = |number: usize, start: usize, line: &str| json!({"line_no": number, "char_start": start, "char_end": start + line.chars().count(), "line": line});
    let row = |before: &str, after: &str, deleted: Value| {
        json!({"func_name": "f", "func_src_before": before, "func_src_after": after,
               "line_changes": {"deleted": deleted, "added": []}, "char_changes": {},
               "commit_link": "github.com/o/n/commit/abc", "file_name": "src/f.c", "vul_type": "cwe-787"})
    };
    let odd = "int f() {\u{2028}  // ü\n  a();\r\n\n  b();\n}";
    let rows = jsonl(&[
        row(BEFORE, AFTER, json!([change(3, 30, "  strcpy(b, s);\n")])),
        row(odd, AFTER, json!([change(3, 17, "  a();\r\n"), change(4, 25, "\n")])),
        row(BEFORE, AFTER, json!([change(4, 30, "  strcpy(b, s);\n")])),
        row(BEFORE, AFTER, json!([change(3, 30, "  strcpy(b, t);\n")])),
        row(BEFORE, AFTER, json!([change(30, 3000, "x\n")])),
        row(BEFORE, BEFORE, json!([])),
        json!({"func_src_before": "a", "func_src_after": "b"}),
    ]);
    let results = read("sven.jsonl", &rows, Format::Sven);
    let (faults, count) = faults(&results);
    assert_eq!(count, 4);
    assert_eq!(
        faults,
        [
            (3, "line text differs"),
            (4, "line text differs"),
            (5, "line outside the function"),
            (6, "function and fix are the same"),
            (7, "field missing"),
        ]
    );
    let samples: Vec<Sample> = results.into_iter().flatten().collect();
    assert_is_pair(&samples[0], &samples[1]);
    assert_eq!(lines(&samples[0]), [2]);
    assert_eq!(lines(&samples[2]), [1], "U+2028 ends no line of an editor, and blank lines are left out");
    assert_eq!(samples[0].record.cwe, ["CWE-787"]);
    assert_eq!((samples[0].project.as_deref(), samples[0].commit.as_deref()), (Some("o/n"), Some("abc")));
    assert_eq!(samples[1].code, AFTER);
}

fn primevul_row(idx: usize, commit: &str, target: u8, func: &str) -> Value {
    json!({"idx": idx, "project": "p", "commit_id": commit, "target": target, "func": func,
           "func_hash": 337_621_517_217_543_085_u64, "file_name": "None", "cwe": ["CWE-703"], "cve": "CVE-2021-1",
           "cve_desc": "d"})
}

#[test]
fn primevul_pairs_follow_each_other() {
    let mut rows = vec![];
    for commit in ["a", "b", "c", "d", "e", "f"] {
        rows.push(primevul_row(rows.len(), commit, 1, BEFORE));
        rows.push(primevul_row(rows.len(), commit, 0, AFTER));
    }
    let samples = good(read("p.jsonl", &jsonl(&rows), Format::PrimeVul));
    assert_eq!(samples.len(), 12);
    for pair in samples.chunks(2) {
        assert_is_pair(&pair[0], &pair[1]);
        assert_eq!(lines(&pair[0]), [2], "the changed comment is no flaw");
        assert_eq!(pair[0].record.file, None);
        assert_eq!(pair[0].record.cve, ["CVE-2021-1"]);
    }
    assert_ne!(samples[0].record.pair, samples[2].record.pair);

    // The fixes first, as well.
    let turned: Vec<Value> = rows.chunks(2).flat_map(|pair| [pair[1].clone(), pair[0].clone()]).collect();
    let samples = good(read("p.jsonl", &jsonl(&turned), Format::PrimeVul));
    assert_is_pair(&samples[0], &samples[1]);

    // Lost halves do not shift the pairs after them.
    let mut damaged = rows.clone();
    damaged[3] = json!("lost");
    damaged[4] = json!({"func": null, "target": 1, "commit_id": "c"});
    damaged.remove(6);
    damaged[8] = primevul_row(9, "e", 0, BEFORE);
    let results = read("p.jsonl", &jsonl(&damaged), Format::PrimeVul);
    let (faults, count) = faults(&results);
    assert_eq!(count, 4, "{faults:?}");
    assert_eq!(
        faults,
        [
            (3, "half a pair"),
            (4, "not an object"),
            (5, "field missing"),
            (6, "half a pair"),
            (7, "half a pair"),
            (8, "function and fix are the same"),
            (9, "function and fix are the same"),
        ]
    );
}

#[test]
fn one_fault_in_a_primevul_file_costs_no_other_pair() {
    let pairs = |count: usize| -> Vec<Value> {
        let row = |at: usize| {
            let (name, text) = (format!("f{}(", at / 2), if at.is_multiple_of(2) { BEFORE } else { AFTER });
            primevul_row(
                at,
                &format!("c{}", at / 2),
                u8::from(at.is_multiple_of(2)),
                &text.replace("f(", &name),
            )
        };
        (0..count * 2).map(row).collect()
    };
    let read_pairs = |rows: &[Value], what: &str| {
        let results = read("p.jsonl", &jsonl(rows), Format::PrimeVul);
        let (faults, count) = faults(&results);
        let samples: Vec<Sample> = results.into_iter().flatten().collect();
        assert_eq!(count % 2, 0, "{what}");
        for pair in samples.chunks(2) {
            assert_is_pair(&pair[0], &pair[1]);
            assert_eq!(lines(&pair[0]), [2], "{what}");
        }
        (count / 2, faults)
    };
    let half = |rows: &[usize]| rows.iter().map(|row| (*row, "half a pair")).collect::<Vec<_>>();
    for count in [3, 20] {
        for at in 0..count {
            let (first, second) = (2 * at + 1, 2 * at + 2);
            let mut rows = pairs(count);
            rows[2 * at + 1]["commit_id"] = json!("other");
            assert_eq!(read_pairs(&rows, "commit"), (count - 1, half(&[first, second])), "{at} of {count}");
            let mut rows = pairs(count);
            rows.remove(2 * at + 1);
            assert_eq!(read_pairs(&rows, "deleted"), (count - 1, half(&[first])), "{at} of {count}");
            let mut rows = pairs(count);
            rows.remove(2 * at);
            assert_eq!(read_pairs(&rows, "deleted"), (count - 1, half(&[first])), "{at} of {count}");
            let mut rows = pairs(count);
            rows.insert(2 * at + 1, primevul_row(99, "other", 1, BEFORE));
            let bad = half(&[first, first + 1, first + 2]);
            assert_eq!(read_pairs(&rows, "inserted"), (count - 1, bad), "{at} of {count}");
            let mut rows = pairs(count);
            rows.insert(2 * at, primevul_row(99, "other", 1, BEFORE));
            assert_eq!(read_pairs(&rows, "inserted"), (count, half(&[first])), "{at} of {count}");
        }
    }
    // So it is in an array.
    let mut rows = pairs(5);
    rows[3]["commit_id"] = json!("other");
    let array = Value::Array(rows).to_string();
    let (bad, count) = faults(&read("p.json", array.as_bytes(), Format::PrimeVul));
    assert_eq!((bad, count), (half(&[3, 4]), 8));
    // A commit that fixed several functions: the pairs behind the lost row stay what they are.
    let mut rows = pairs(8);
    rows.iter_mut().for_each(|row| row["commit_id"] = json!("one"));
    rows.remove(4);
    assert_eq!(read_pairs(&rows, "one commit"), (7, half(&[5])));
    // Some neighbours of one commit make no pairs of the others.
    let mut rows: Vec<Value> = (0..50)
        .map(|at| primevul_row(at, &format!("d{}", at / 2), 0, &BEFORE.replace("f(", &format!("u{at}("))))
        .collect();
    rows.extend(pairs(20));
    rows.rotate_left(25);
    let samples = good(read("p.jsonl", &jsonl(&rows), Format::PrimeVul));
    assert!(samples.iter().all(|sample| sample.record.pair.is_none()));
    let few = [pairs(1), rows[..2].to_vec()].concat();
    let samples = good(read("p.jsonl", &jsonl(&few), Format::PrimeVul));
    assert!(samples.iter().all(|sample| sample.record.pair.is_none()));
}

#[test]
fn primevul_without_pairs_has_labels_only() {
    let rows: Vec<Value> = (0..20)
        .map(|idx| primevul_row(idx, "same", u8::from(idx % 5 == 0), &format!("f{idx}() {{}}")))
        .collect();
    let samples = good(read("p.jsonl", &jsonl(&rows), Format::PrimeVul));
    assert_eq!(samples.len(), 20);
    assert!(samples.iter().all(|sample| sample.record.pair.is_none() && sample.record.lines.is_empty()));
    assert_eq!(samples[0].record.label, Label::Vulnerable);
}

#[test]
fn devign_and_diversevul_have_labels_only() {
    let row = json!({"project": "qemu", "commit_id": "c", "target": 1, "func": BEFORE, "idx": 5});
    for bytes in [jsonl(std::slice::from_ref(&row)), format!("[\n{row},\n{row}\n]").into_bytes()] {
        let samples = good(read("d.json", &bytes, Format::Devign));
        assert_eq!(samples[0].record.label, Label::Vulnerable);
        assert_eq!((samples[0].id.as_deref(), lines(&samples[0]).len()), (Some("5"), 0));
    }
    let row = json!({"func": BEFORE, "target": 0, "cwe": ["CWE-1", "CWE-2"], "project": "p", "commit_id": "c",
                     "hash": 1.5e38, "size": 9, "message": "m"});
    let samples = good(read("d.json", &jsonl(&[row]), Format::DiverseVul));
    assert_eq!(samples[0].record.cwe, ["CWE-1", "CWE-2"]);
    assert_eq!(samples[0].record.label, Label::Benign);
}

const LINEVUL: &[&str] = &[
    "",
    "CVE ID",
    "CWE ID",
    "commit_id",
    "project",
    "processed_func",
    "target",
    "vul_func_with_fix",
    "flaw_line",
    "flaw_line_index",
];

#[test]
fn a_label_is_a_number() {
    let row = |target: Value| json!({"project": "qemu", "commit_id": "c", "target": target, "func": BEFORE});
    let rows = jsonl(&[row(json!(1)), row(json!(true)), row(json!(false))]);
    let bad = "label not 0 or 1";
    assert_eq!(faults(&read("devign.jsonl", &rows, Format::Devign)), (vec![(2, bad), (3, bad)], 1));
}

#[test]
fn linevul() {
    let with_fix = "int f(char *s) {\n  char b[4];\n//flaw_line_below:\n  strcpy(b, s);\n//fix_flaw_line_below:\n//  strlcpy(b, s, 4);\n  // say it\n  return b[0];\n}\n";
    let row = |func: &'static str, target: &'static str, text: &'static str, index: &'static str| {
        ["0", "CVE-1", "CWE-20", "c", "p", func, target, with_fix, text, index]
    };
    let rows: Vec<[&str; 10]> = vec![
        row(BEFORE, "1", "  strcpy(b, s);", "2"),
        row(BEFORE, "1.0", "char b[4];/~/strcpy(b, s);", "1,2"),
        row("other() {\n}", "1", "", ""),
        row(BEFORE, "0", "", ""),
        row(BEFORE, "1", "strcpy(b, s);", ""),
        row(BEFORE, "1", "strcpy(b, s);", "1"),
        row(BEFORE, "1", "strcpy(b, s);", "6"),
        row(BEFORE, "1", "strcpy(b, s);", "-1"),
        row(BEFORE, "1", "strcpy(b, s);", "1,2"),
        row("a\na\n", "1", "a", ""),
        row(BEFORE, "0", "strcpy(b, s);", "2"),
        row(BEFORE, "2", "", ""),
        row(BEFORE, "", "", ""),
        row("", "1", "", ""),
    ];
    let mut all: Vec<&[&str]> = vec![LINEVUL];
    all.extend(rows.iter().map(|row| &row[..]));
    all.push(&["only", "three", "fields"]);
    let results = read("l.csv", &csv(&all), Format::LineVul);
    let (faults, count) = faults(&results);
    assert_eq!(
        faults,
        [
            (6, "line text differs"),
            (7, "line outside the function"),
            (8, "not a line number"),
            (9, "line numbers and texts differ in number"),
            (10, "line ambiguous"),
            (11, "flaw lines in a benign function"),
            (12, "label not 0 or 1"),
            (13, "field empty"),
            (14, "field empty"),
            (15, "wrong number of fields"),
        ]
    );
    assert_eq!(count, 8, "three rows with their fix, one whose fix is of another text, one benign");
    let samples: Vec<Sample> = results.into_iter().flatten().collect();
    assert_is_pair(&samples[0], &samples[1]);
    assert_eq!(samples[1].code, AFTER.replace("said", "say it") + "\n");
    assert_eq!(lines(&samples[0]), [2]);
    assert_eq!(lines(&samples[2]), [1, 2]);
    assert_eq!((samples[4].row, samples[4].record.pair.clone()), (3, None));
    assert_eq!(lines(&samples[6]), [2], "found by its text alone, where it occurs once");
    assert_eq!(samples[0].record.cve, ["CVE-1"]);
}

#[test]
fn bigvul() {
    let header: &[&str] =
        &["", "CVE ID", "CWE ID", "commit_id", "func_after", "func_before", "project", "vul"];
    let long = format!("int g() {{\n{}}}", "  x(\"a, \"\"b\"\"\");\n".repeat(9_000));
    let rows = csv(&[
        header,
        &["7", "CVE-1", "CWE-20", "c", AFTER, BEFORE, "p", "1"],
        &["8", "", "", "c", &long, &long, "p", "0"],
        &["9", "", "", "c", BEFORE, BEFORE, "p", "1"],
    ]);
    let results = read("b.csv", &rows, Format::BigVul);
    assert_eq!(faults(&results), (vec![(3, "function and fix are the same")], 3));
    let samples: Vec<Sample> = results.into_iter().flatten().collect();
    assert_is_pair(&samples[0], &samples[1]);
    assert_eq!(lines(&samples[0]), [2]);
    assert_eq!(samples[0].id.as_deref(), Some("7"));
    assert_eq!(samples[2].code, long, "fields of 100 kB with line ends and quotes");
}

#[test]
fn a_quote_that_is_never_closed_does_not_fill_the_memory() {
    let mut bytes = csv(&[LINEVUL]);
    bytes.extend(b"0,\"never closed");
    bytes.resize(dataset::MOST_ROW_BYTES + (4 << 20), b'x');
    let results = read("l.csv", &bytes, Format::LineVul);
    assert_eq!(faults(&results), (vec![(1, "quote not closed")], 0));
}

#[test]
fn compressed_files_are_read_by_their_content() {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(&jsonl(&[json!({"func": BEFORE, "target": 1, "flaw_lines": [3]})])).unwrap();
    let samples = good(read("no-gz-in-its-name", &packed.finish().unwrap(), Format::Functions));
    assert_eq!(lines(&samples[0]), [2]);
}

#[test]
fn sarif_marks_lines_of_files() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("src")).unwrap();
    std::fs::write(folder.path().join("src/a b.c"), format!("// top\n{BEFORE}\nint g;\n")).unwrap();
    let region = |line: Value| json!([{"physicalLocation": {"artifactLocation": {"uri": "src/a%20b.c", "uriBaseId": "ROOT"}, "region": line}}]);
    let result =
        |locations: Value| json!({"ruleId": "cpp/cwe-787", "message": {"text": "m"}, "locations": locations});
    let log = json!({"$schema": "x", "version": "2.1.0", "runs": [{
    "tool": {"driver": {"name": "t"}},
    "originalUriBaseIds": {"ROOT": {"uri": "file:///somewhere/"}},
    "artifacts": [{"location": {"uri": "src/a%20b.c"}}],
    "results": [
        result(region(json!({"startLine": 4, "snippet": {"text": "  strcpy(b, s);"}}))),
        result(json!([{"physicalLocation": {"artifactLocation": {"index": 0}, "region": {"startLine": 3, "endLine": 5, "endColumn": 1}}}])),
        result(region(json!({"startLine": 4, "snippet": {"text": "  other();"}}))),
        result(region(json!({"startLine": 8}))),
        result(region(json!({"startLine": 0}))),
        result(json!([])),
        result(json!([{"physicalLocation": {"artifactLocation": {"uri": "../a.c"}, "region": {"startLine": 1}}}])),
        result(json!([{"physicalLocation": {"artifactLocation": {"uri": "gone.c"}, "region": {"startLine": 1}}}])),
        json!({"kind": "pass", "message": {"text": ""}, "locations": region(json!({"startLine": 4}))}),
        result(json!([{"physicalLocation": {"artifactLocation": {"uri": "src/a%20b.c"}}}])),
        7,
    ]}]});
    let path = folder.path().join("log.sarif");
    std::fs::write(&path, serde_json::to_string_pretty(&log).unwrap()).unwrap();
    let samples = dataset::open(&path, None).unwrap();
    assert_eq!(samples.format(), Format::Sarif);
    let results: Vec<_> = samples.collect();
    let (faults, count) = faults(&results);
    assert_eq!(count, 1, "both results lie in one function");
    assert_eq!(
        faults,
        [
            (3, "line text differs"),
            (4, "no text"),
            (5, "no location"),
            (6, "no location"),
            (7, "no location"),
            (8, "no text"),
            (9, "no finding"),
            (10, "no location"),
            (11, "not a record"),
        ]
    );
    let samples: Vec<Sample> = results.into_iter().flatten().collect();
    assert_eq!(samples[0].code, BEFORE);
    assert_eq!(lines(&samples[0]), [1, 2]);
    assert_eq!(samples[0].record.function.as_deref(), Some("f"));
    assert_eq!(samples[0].record.range, Some((1, 6)));
    assert_eq!(samples[0].record.cwe, ["CWE-787"]);

    let imported = good(dataset::import(&path, None).unwrap().take(1).collect());
    assert_eq!((imported[0].code.as_str(), imported[0].record.range), ("", Some((3, 3))));
}

#[test]
fn native_records_are_looked_up_in_their_files() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join(".linelens")).unwrap();
    std::fs::write(folder.path().join("a.c"), format!("{BEFORE}\n{}\n", AFTER.replace("f(", "g("))).unwrap();
    std::fs::write(folder.path().parent().unwrap().join("outside.c"), BEFORE).unwrap_or_default();
    let hash = linelens::annotations::FunctionLines::new(BEFORE).sha256();
    let rows = [
        json!({"schema": "linelens-annotations", "version": 1}),
        json!({"file": "a.c", "body_sha256": hash, "label": "vulnerable",
               "lines": [{"line": 3, "text": "  strcpy(b, s);", "label": "flaw"}]}),
        json!({"file": "a.c", "range": [7, 8], "label": "benign"}),
        json!({"file": "a.c", "body_sha256": hash.replace(['0', '1'], "2"), "label": "benign"}),
        json!({"file": "b.c", "body_sha256": hash, "label": "benign"}),
        json!({"label": "benign", "lines": []}),
        json!({"file": "../outside.c", "body_sha256": hash, "label": "benign"}),
    ];
    let path = folder.path().join(".linelens/annotations.jsonl");
    std::fs::write(&path, jsonl(&rows)).unwrap();
    let results: Vec<_> = dataset::open(&path, None).unwrap().collect();
    let (faults, count) = faults(&results);
    assert_eq!(count, 2);
    assert_eq!(faults, [(4, "text gone"), (5, "no text"), (6, "no text"), (7, "not a record")]);
    let samples: Vec<Sample> = results.into_iter().flatten().collect();
    assert_eq!((samples[0].code.as_str(), lines(&samples[0])), (BEFORE, vec![2]));
    assert!(samples[1].code.starts_with("int g("));
}

#[test]
fn a_text_that_is_no_function_is_looked_up_by_its_hash_and_range() {
    let folder = tempfile::tempdir().unwrap();
    let hash = |text: &str| linelens::annotations::FunctionLines::new(text).sha256();
    // Data sets hold texts with more around the function, with a line end, or with nothing that is found by its shape.
    let around = format!("/* of a.c */\n{BEFORE} /* end */");
    let ended = format!("{around}\n");
    let rows: Vec<Value> = [&around, &ended, "}}} none\nof C"]
        .into_iter()
        .enumerate()
        .map(|(number, text)| {
            let name = format!("{number}.c");
            std::fs::write(folder.path().join(&name), text).unwrap();
            json!({"file": name, "range": [1, text.lines().count()], "body_sha256": hash(text), "label": "benign"})
        })
        .collect();
    let path = folder.path().join("n.jsonl");
    std::fs::write(&path, jsonl(&rows)).unwrap();
    let samples: Vec<Sample> = dataset::open(&path, None).unwrap().map(Result::unwrap).collect();
    assert_eq!(
        samples.iter().map(|sample| sample.code.as_str()).collect::<Vec<_>>(),
        [around.as_str(), ended.as_str(), "}}} none\nof C"]
    );
    // Another text in those lines is not guessed to be meant.
    std::fs::write(folder.path().join("2.c"), "}}} none\nof D").unwrap();
    let results: Vec<_> = dataset::open(&path, None).unwrap().collect();
    assert_eq!(faults(&results), (vec![(3, "text gone")], 2));
}

#[cfg(unix)]
#[test]
fn a_link_that_leads_out_of_the_folder_is_not_followed() {
    let outside = file("secret.c", BEFORE.as_bytes());
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(&outside.path, folder.path().join("a.c")).unwrap();
    let path = folder.path().join("n.jsonl");
    std::fs::write(&path, jsonl(&[json!({"file": "a.c", "range": [1, 2], "label": "benign"})])).unwrap();
    let results: Vec<_> = dataset::open(&path, None).unwrap().collect();
    assert_eq!(faults(&results), (vec![(1, "no text")], 0));
    assert!(results[0].as_ref().unwrap_err().to_string().contains("leads out of the folder"));
}

#[test]
fn what_is_no_data_set_is_refused_with_a_reason() {
    let empty = file("e.jsonl", b"\n");
    assert!(
        dataset::open(&empty.path, None)
            .unwrap_err()
            .to_string()
            .contains("the file is empty; name its format")
    );
    let other = file("o.csv", b"a,b\n1,2\n");
    assert!(
        dataset::open(&other.path, None)
            .unwrap_err()
            .to_string()
            .contains("no format has CSV with the columns a, b")
    );
    let error = dataset::open(&other.path, Some(Format::BigVul)).unwrap_err();
    assert!(matches!(&error, DatasetError::NotOfFormat { reason, .. } if reason.contains("`func_before`")));
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(dataset::open(folder.path(), None), Err(DatasetError::NotAFile { .. })));
    assert!(matches!(dataset::open(&folder.path().join("none"), None), Err(DatasetError::Unreadable { .. })));
}

#[test]
fn rows_under_a_header_of_another_version_are_refused() {
    let record = json!({"label": "benign"});
    let rows = jsonl(&[
        json!({"schema": "linelens-annotations", "version": 2}),
        record.clone(),
        json!({"verdict": 1}),
        json!({"schema": "linelens-annotations", "version": 1}),
        record.clone(),
        json!({"schema": "other", "version": 1}),
        record,
    ]);
    let file = file("a.jsonl", &rows);
    let results: Vec<_> = dataset::import(&file.path, Some(Format::Native)).unwrap().collect();
    let (faults, count) = faults(&results);
    assert_eq!((faults, count), ([1, 2, 3, 6, 7].map(|row| (row, "unknown version")).to_vec(), 1));
    assert_eq!(results[3].as_ref().unwrap().row, 5);
}

#[test]
fn a_field_that_is_given_twice_is_not_guessed() {
    let rows = concat!(
        "{\"func\":\"f\",\"target\":1,\"target\":0}\n",
        "{\"func\":\"f\",\"target\":1,\"extra\":[{\"a\":1,\"a\":1}]}\n",
        "{\"func\":\"f\",\"target\":1}\n",
    );
    let results = read("a.jsonl", rows.as_bytes(), Format::Functions);
    let twice = "field given twice";
    assert_eq!(faults(&results), (vec![(1, twice), (2, twice)], 1));
    assert!(
        results[0].as_ref().unwrap_err().to_string().starts_with("row 1: gives the field `target` twice")
    );
}

#[test]
fn sarif_results_have_the_cwe_of_their_rule_and_may_be_none() {
    let result = |line: usize, more: Value| {
        let mut result = json!({"locations":
            [{"physicalLocation": {"artifactLocation": {"uri": "f.c"}, "region": {"startLine": line}}}]});
        result.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        result
    };
    let tags = |tags: Value| json!({"tags": tags});
    let log = json!({"version": "2.1.0", "runs": [{
    "tool": {
        "driver": {"name": "t", "rules": [
            {"id": "overflow", "properties": tags(json!(["security", "external/cwe/cwe-120", "external/cwe/cwe-787"]))},
            {"id": "free", "properties": tags(json!(["external/cwe/cwe-416", 7]))},
            {"id": 7, "properties": "none"},
        ]},
        "extensions": [{"name": "pack", "rules": [
            {"id": "leak", "properties": tags(json!(["external/cwe/cwe-401"]))},
        ]}],
    },
    "results": [
        result(1, json!({"ruleId": "overflow"})),
        result(2, json!({"ruleIndex": 1, "ruleId": "free"})),
        result(3, json!({"ruleId": "free/twice"})),
        result(4, json!({"rule": {"index": 0, "toolComponent": {"index": 0}}})),
        result(5, json!({"ruleId": "leak", "rule": {"toolComponent": {"name": "pack"}}})),
        result(6, json!({"ruleId": "leak"})),
        result(7, json!({"ruleId": "unknown", "ruleIndex": 99})),
        result(8, json!({"ruleId": "free", "ruleIndex": -1, "baselineState": "unchanged"})),
        result(9, json!({"suppressions": [{"kind": "external", "status": "rejected"}, {"kind": "inSource", "status": "underReview"}]})),
        result(10, json!({"suppressions": []})),
        result(11, json!({"baselineState": "absent"})),
        result(12, json!({"suppressions": [{"kind": "inSource"}]})),
        result(13, json!({"suppressions": [{"kind": "external", "status": "rejected"}, {"kind": "external", "status": "accepted"}]})),
    ]}]});
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.sarif");
    std::fs::write(&path, log.to_string()).unwrap();
    let results: Vec<_> = dataset::import(&path, None).unwrap().collect();
    let none = "no finding";
    assert_eq!(faults(&results), (vec![(11, none), (12, none), (13, none)], 10));
    let said: Vec<String> =
        results.iter().filter_map(|result| Some(result.as_ref().err()?.to_string())).collect();
    assert_eq!(said[0], "row 11: is no finding: its baselineState is \"absent\"");
    assert_eq!(said[1], "row 12: is no finding: it is suppressed");
    let cwe: Vec<Vec<String>> = good(results.into_iter().filter(Result::is_ok).collect())
        .into_iter()
        .map(|sample| sample.record.cwe)
        .collect();
    let expected: [&[&str]; 10] = [
        &["CWE-120", "CWE-787"],
        &["CWE-416"],
        &["CWE-416"],
        &["CWE-401"],
        &["CWE-401"],
        &["CWE-401"],
        &[],
        &["CWE-416"],
        &[],
        &[],
    ];
    assert_eq!(cwe, expected);
}

#[test]
fn an_empty_function_is_called_empty() {
    let rows = "{\"func\":\" \",\"target\":1}\n{\"target\":1}\n";
    let results = read("a.jsonl", rows.as_bytes(), Format::Functions);
    let said: Vec<String> = results.iter().map(|result| result.as_ref().unwrap_err().to_string()).collect();
    assert_eq!(said, ["row 1: `func` is empty", "row 2: `func` is missing"]);
    assert_eq!(faults(&results).0, [(1, "field empty"), (2, "field missing")]);
}

#[test]
fn results_in_one_function_are_one_sample_of_each_annotator_and_run() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("f.c"), BEFORE).unwrap();
    let result = |line: usize, kind: &str, rule: &str, properties: Value| {
        json!({"kind": kind, "ruleId": rule, "properties": properties, "locations":
            [{"physicalLocation": {"artifactLocation": {"uri": "f.c"}, "region": {"startLine": line}}}]})
    };
    let log = json!({"version": "2.1.0", "runs": [
        {"results": [
            result(2, "review", "CWE-1", json!({})),
            result(3, "fail", "CWE-2", json!({})),
            result(2, "fail", "CWE-2", json!({})),
            result(5, "open", "x", json!({})),
            result(3, "review", "x", json!({})),
            result(5, "fail", "x", json!({"annotator": "ann", "cve": ["CVE-2020-1"], "time": "2026-01-31T12:00:00Z"})),
        ]},
        {"results": [result(5, "fail", "x", json!({}))]},
    ]});
    let path = folder.path().join("m.sarif");
    std::fs::write(&path, log.to_string()).unwrap();
    let samples = good(dataset::open(&path, None).unwrap().collect());
    let [all, ann, second] = samples.as_slice() else { panic!("{samples:?}") };
    assert_eq!((lines(all), all.record.lines.len(), all.record.label), (vec![1, 2], 3, Label::Vulnerable));
    assert_eq!(all.record.cwe, ["CWE-1", "CWE-2"]);
    assert_eq!((ann.record.annotator.as_deref(), lines(ann)), (Some("ann"), vec![4]));
    assert_eq!(ann.record.cve, ["CVE-2020-1"]);
    assert_eq!(ann.record.time.as_deref(), Some("2026-01-31T12:00:00Z"));
    assert_eq!((lines(second), second.row), (vec![4], 7));

    let store = Store::of_files(std::slice::from_ref(&path)).remove(0);
    let place = Place { file: Some("f.c"), name: "f", first_line: 0, text: BEFORE };
    let found = store.find(&[place]);
    let marked: Vec<_> = found.functions[0].iter().map(|m| (m.annotator(), m.lines.clone())).collect();
    let (flaw, unsure) = (LineLabel::Flaw, LineLabel::Unsure);
    assert_eq!(
        marked,
        [
            (Some("m.sarif"), vec![(1, flaw), (2, flaw), (4, unsure)]),
            (Some("ann"), vec![(4, flaw)]),
            (Some("m.sarif#2"), vec![(4, flaw)])
        ]
    );
    assert_eq!(found.functions[0][0].record.label, Label::Vulnerable);
}

#[test]
fn neighbouring_pairs_of_one_commit_are_pairs_in_either_order() {
    let row = |number: usize, target: usize| {
        let call = if target == 1 { "strcpy(b, s)" } else { "strlcpy(b, s, 8)" };
        let code = format!("int f{number}(char *s) {{\n  char b[8];\n  {call};\n  return b[0];\n}}\n");
        serde_json::json!({"idx": number * 2 + target, "project": "p", "commit_id": "abc", "func": code,
            "target": target, "cwe": ["CWE-787"], "cve": "CVE-2020-1"})
        .to_string()
    };
    let folder = tempfile::tempdir().unwrap();
    for order in [[1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 0, 1], [0, 1, 1, 0]] {
        let rows: Vec<String> = order.iter().enumerate().map(|(at, target)| row(at / 2, *target)).collect();
        let path = folder.path().join("paired.jsonl");
        std::fs::write(&path, rows.join("\n")).unwrap();
        let samples: Vec<_> =
            linelens::annotations::dataset::import(&path, None).unwrap().map(Result::unwrap).collect();
        let mut lines = 0;
        for sample in &samples {
            let is_before = sample.record.label == Label::Vulnerable;
            let flaws: Vec<usize> = sample.record.flaw_lines().collect();
            assert_eq!(flaws, if is_before { vec![2] } else { vec![] }, "{order:?}");
            assert!(sample.record.pair.is_some(), "{order:?}");
            lines += flaws.len();
        }
        assert_eq!((samples.len(), lines), (4, 2), "{order:?}");
    }
}
