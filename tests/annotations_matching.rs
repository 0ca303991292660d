//! Records find their functions, and labelled lines their text, whatever happened to either.
#![allow(clippy::unwrap_used)]

use linelens::annotations::matching::{self, Match, Matched, Place};
use linelens::annotations::{DatasetRow, FunctionLines, Label, LabelledLine, LineLabel, Provenance, Record};
use std::time::{Duration, Instant};

const COPY: &str = "int copy(char *to, const char *from, int n) {\n\tint i = 0;\n\tif (n < 0)\n\t\treturn -1;\n\twhile (i <= n) {\n\t\tto[i] = from[i];\n\t\ti++;\n\t}\n\n\treturn i;\n}";

fn record(file: &str, name: &str, first: usize, code: &str, flaws: &[usize]) -> Record {
    let lines = FunctionLines::new(code);
    Record {
        file: Some(file.to_string()),
        function: Some(name.to_string()),
        range: Some((first, first + lines.count() - 1)),
        annotator: Some("ann".to_string()),
        ..lines.record(Label::Vulnerable, flaws.iter().copied())
    }
}

fn copy_record() -> Record {
    record("src/copy.c", "copy", 9, COPY, &[4, 5])
}

fn place<'a>(file: &'a str, name: &'a str, first_line: usize, text: &'a str) -> Place<'a> {
    Place { file: Some(file), name, first_line, text }
}

fn one<'r>(records: &'r [Record], place: Place<'_>) -> Matched<'r> {
    let found = matching::find(records, &[place]);
    assert_eq!(found.functions[0].len(), 1, "{found:?}");
    found.functions[0][0].clone()
}

fn lines(matched: &Matched<'_>) -> Vec<usize> {
    matched.lines.iter().map(|(line, _)| *line).collect()
}

fn unmatched(matched: &Matched<'_>) -> Vec<usize> {
    matched.unmatched.iter().map(|line| line.line).collect()
}

#[test]
fn the_same_text_is_found_wherever_it_is() {
    let records = [copy_record()];
    for place in [
        place("src/copy.c", "copy", 9, COPY),
        place("other/place.c", "copy", 0, COPY),
        Place { file: None, ..place("", "copy", 3, COPY) },
    ] {
        let matched = one(&records, place);
        assert_eq!((matched.how, lines(&matched)), (Match::Text, vec![4, 5]));
    }
}

#[test]
fn other_line_ends_and_indentation_are_the_same_text() {
    let records = [copy_record()];
    let crlf = COPY.replace('\n', "\r\n");
    let cr = COPY.replace('\n', "\r");
    let spaces = COPY.replace('\t', "    ");
    for text in [&crlf, &cr, &spaces] {
        let matched = one(&records, place("x.c", "copy", 0, text));
        assert_eq!(
            (matched.how, lines(&matched), unmatched(&matched)),
            (Match::TextWithoutWhitespace, vec![4, 5], vec![])
        );
    }
    let blank = COPY.replace("\twhile", "\n\n\twhile").replace("i++", "\n\n\t\ti++");
    assert_eq!(lines(&one(&records, place("x.c", "copy", 0, &blank))), [6, 7]);
}

#[test]
fn other_line_breaks_are_followed() {
    let records = [copy_record()];
    let joined = COPY.replace("{\n\t\tto[i] = from[i];\n\t\ti++;", "{ to[i] = from[i]; i++;");
    let matched = one(&records, place("x.c", "copy", 0, &joined));
    assert_eq!((lines(&matched), unmatched(&matched)), (vec![4], vec![]), "both are on one line now");
    let split = COPY
        .replace("to[i] = from[i];", "to[i] =\n\t\t\tfrom[i];")
        .replace("\twhile (i <= n) {", "\twhile (i <= n)\n\t{");
    assert_eq!(lines(&one(&records, place("x.c", "copy", 0, &split))), [4, 5, 6, 7]);
}

#[test]
fn lines_follow_their_text_after_edits() {
    let records = [copy_record()];
    let edited = COPY
        .replace("\tint i = 0;\n", "\tint i = 0;\n\tlog(n);\n\tlog(to);\n")
        .replace("return -1", "return -2");
    let matched = one(&records, place("src/copy.c", "copy", 30, &edited));
    assert_eq!((matched.how, lines(&matched), unmatched(&matched)), (Match::FileAndName, vec![6, 7], vec![]));

    let fixed = COPY.replace("i <= n", "i < n");
    let matched = one(&records, place("src/copy.c", "copy", 9, &fixed));
    assert_eq!(
        (lines(&matched), unmatched(&matched)),
        (vec![4, 5], vec![]),
        "an edited line between its neighbours"
    );

    let deleted = COPY.replace("\t\tto[i] = from[i];\n", "");
    let matched = one(&records, place("src/copy.c", "copy", 9, &deleted));
    assert_eq!((lines(&matched), unmatched(&matched)), (vec![4], vec![5]));

    let rewritten = "int copy(char *to, const char *from, int n) {\n\tmemcpy(to, from, n);\n}";
    let matched = one(&records, place("src/copy.c", "copy", 9, rewritten));
    assert_eq!((lines(&matched), unmatched(&matched)), (vec![], vec![4, 5]), "listed, not dropped");
}

#[test]
fn a_renamed_function_is_found_by_its_range() {
    let records = [copy_record()];
    let renamed = COPY.replace("int copy(", "int copy_string(");
    let matched = one(&records, place("src/copy.c", "copy_string", 12, &renamed));
    assert_eq!((matched.how, lines(&matched)), (Match::FileAndRange, vec![4, 5]));
    // Moved, too, it is known by its lines.
    let matched = one(&records, place("src/copy.c", "copy_string", 300, &renamed));
    assert_eq!((matched.how, lines(&matched)), (Match::FileAndLines, vec![4, 5]));
    // A neighbour that took the place of a deleted function has none of its lines.
    let other = "int other(void) {\n\treturn 1;\n}";
    let found = matching::find(&records, &[place("src/copy.c", "other", 9, other)]);
    assert!(found.functions[0].is_empty());
    assert_eq!(found.lost.len(), 1, "the record is not forgotten");
    // Elsewhere nothing connects them.
    let found = matching::find(&records, &[place("src/else.c", "copy_string", 9, &renamed)]);
    assert!(found.functions[0].is_empty() && found.lost.is_empty());
}

#[test]
fn scopes_of_names_may_be_written_or_not() {
    let records = [Record { function: Some("Buffer::copy".into()), ..copy_record() }];
    let edited = COPY.replace("-1", "-2");
    assert_eq!(one(&records, place("src/copy.c", "copy", 90, &edited)).how, Match::FileAndName);
    let found = matching::find(&records, &[place("src/copy.c", "Other::copy", 90, &edited)]);
    assert!(found.functions[0].is_empty());
}

#[test]
fn equal_functions_share_what_is_said() {
    let records = [copy_record()];
    let found = matching::find(
        &records,
        &[place("src/copy.c", "copy", 9, COPY), place("src/copy.c", "copy", 40, COPY)],
    );
    for function in &found.functions {
        assert_eq!((function.len(), lines(&function[0])), (1, vec![4, 5]));
    }
}

#[test]
fn of_two_editions_each_keeps_its_record() {
    let small = COPY.replace("i <= n", "i <= n && to[i]");
    let records =
        [record("src/copy.c", "copy", 9, COPY, &[4]), record("src/copy.c", "copy", 25, &small, &[6])];
    let flaws = |first: &str, second: &str| {
        let found = matching::find(
            &records,
            &[place("src/copy.c", "copy", 9, first), place("src/copy.c", "copy", 25, second)],
        );
        found.functions.iter().map(|all| all.iter().map(lines).collect::<Vec<_>>()).collect::<Vec<_>>()
    };
    assert_eq!(flaws(COPY, &small), [vec![vec![4]], vec![vec![6]]]);
    let edited = |text: &str| text.replace("return -1", "return -3");
    assert_eq!(flaws(&edited(COPY), &small), [vec![vec![4]], vec![vec![6]]]);
    assert_eq!(flaws(COPY, &edited(&small)), [vec![vec![4]], vec![vec![6]]]);
    assert_eq!(flaws(&edited(COPY), &edited(&small)), [vec![vec![4]], vec![vec![6]]]);
}

#[test]
fn a_record_that_found_its_text_speaks_of_no_other_function() {
    let records = [record("src/copy.c", "copy", 9, COPY, &[4])];
    let edited = COPY.replace("return -1", "return -3");
    let found = matching::find(
        &records,
        &[place("src/copy.c", "copy", 9, &edited), place("src/copy.c", "copy", 25, COPY)],
    );
    assert_eq!(
        found.functions.iter().map(|all| all.iter().map(lines).collect::<Vec<_>>()).collect::<Vec<_>>(),
        [vec![], vec![vec![4]]]
    );
    assert!(found.lost.is_empty());
}

#[test]
fn repeated_lines_are_told_apart_by_their_neighbours() {
    let code = "void f(void) {\n  a();\n  free(p);\n  b();\n  free(p);\n  c();\n  free(p);\n}";
    let records = [record("f.c", "f", 0, code, &[4])];
    let edited = code.replace("void f(void) {\n", "void f(void) {\n  first();\n  second();\n");
    assert_eq!(lines(&one(&records, place("f.c", "f", 0, &edited))), [6]);
    // Nothing but the text is left of where it was: it could be any of them.
    let torn = "void f(void) {\n  x();\n  free(p);\n  y();\n  free(p);\n  z();\n}";
    let matched = one(&records, place("f.c", "f", 0, torn));
    assert_eq!((lines(&matched), unmatched(&matched)), (vec![], vec![4]));
}

/// The number of a record without a hash is that of the file, where another of the equal lines may stand by now.
#[test]
fn a_moved_function_without_a_hash_keeps_its_repeated_lines() {
    let code = "int f0(char *p)\n{\n    free(p);\n    free(p);\n    log(p);\n    return 0;\n}";
    for flaws in [&[3][..], &[2, 3], &[2]] {
        let labelled =
            Record { body_sha256: None, body_sha256_ws: None, ..record("a.c", "f0", 0, code, flaws) };
        for moved in [0, 1, 2] {
            let records = [labelled.clone()];
            let found = one(&records, place("a.c", "f0", moved, code));
            assert_eq!(lines(&found), flaws, "{moved} lines further down");
        }
    }
}

#[test]
fn equal_blocks_are_told_apart_by_how_far_others_moved() {
    let block = "  lock(m);\n  n++;\n  unlock(m);\n";
    let code = format!("void f(void) {{\n{block}{block}  last(n);\n}}");
    let records = [record("f.c", "f", 0, &code, &[2, 5, 7])];
    let edited = code.replace("{\n", "{\n  one();\n  two();\n  three();\n");
    assert_eq!(lines(&one(&records, place("f.c", "f", 0, &edited))), [5, 8, 10]);
    let records = [record("f.c", "f", 0, &code, &[5, 7])];
    assert_eq!(lines(&one(&records, place("f.c", "f", 0, &edited))), [8, 10]);
}

#[test]
fn lines_without_text_are_known_by_their_number_in_the_file() {
    let mut sarif = record("src/copy.c", "copy", 13, "x\ny", &[0, 1]);
    sarif.function = None;
    sarif.body_sha256 = None;
    sarif.body_sha256_ws = None;
    for line in &mut sarif.lines {
        line.text = String::new();
    }
    let records = [sarif];
    let matched = one(&records, place("src/copy.c", "copy", 9, COPY));
    assert_eq!((matched.how, lines(&matched)), (Match::FileAndRange, vec![4, 5]));
    let found = matching::find(&records, &[place("src/copy.c", "copy", 15, COPY)]);
    assert!(found.functions[0].is_empty());
}

#[test]
fn one_record_an_annotator_and_the_surest_counts() {
    let edited = COPY.replace("return -1", "return -3");
    let records = [
        record("src/copy.c", "copy", 9, &edited, &[4]),
        record("src/copy.c", "copy", 9, COPY, &[5]),
        Record { annotator: Some("ben".into()), ..record("src/copy.c", "copy", 9, COPY, &[6]) },
        record("src/copy.c", "copy", 9, &edited, &[1, 6]),
    ];
    let found = matching::find(&records, &[place("src/copy.c", "copy", 9, &edited)]);
    let said: Vec<_> = found.functions[0].iter().map(|m| (m.annotator().unwrap(), m.how, lines(m))).collect();
    assert_eq!(said, [("ann", Match::Text, vec![1, 6]), ("ben", Match::FileAndName, vec![6])]);
    let opinion = found.functions[0][1].opinion();
    assert_eq!((opinion.annotator.as_deref(), opinion.lines), (Some("ben"), vec![(6, LineLabel::Flaw)]));
}

#[test]
fn a_record_that_contradicts_its_own_hash_is_looked_for_by_text() {
    let mut wrong = copy_record();
    wrong.lines[0].line = 1;
    assert_eq!(lines(&one(&[wrong], place("src/copy.c", "copy", 9, COPY))), [4, 5]);
}

#[test]
fn odd_texts_find_nothing_and_break_nothing() {
    let records = [copy_record()];
    for text in ["", "\n", "\r\r\n", "}", "ü\u{2028}"] {
        let found = matching::find(&records, &[place("src/copy.c", "copy", usize::MAX - 20, text)]);
        assert_eq!(unmatched(&found.functions[0][0]), [4, 5], "{text:?}");
    }
    assert_eq!(matching::find(&records, &[]).functions.len(), 0);
}

#[test]
fn a_line_that_stands_where_a_mere_region_says_is_found() {
    // `i++;` says too little to be found by its text.
    let line = LabelledLine {
        line: 0,
        text: "\t\ti++;".to_string(),
        before: None,
        after: None,
        label: LineLabel::Flaw,
    };
    let region = |at: usize| Record {
        file: Some("src/copy.c".to_string()),
        range: Some((at, at)),
        lines: vec![line.clone()],
        ..Record::new(Label::Vulnerable)
    };
    let there = [region(15)];
    assert_eq!(lines(&one(&there, place("src/copy.c", "copy", 9, COPY))), [6]);
    let elsewhere = [region(14)];
    let matched = one(&elsewhere, place("src/copy.c", "copy", 9, COPY));
    assert_eq!((lines(&matched), unmatched(&matched)), (vec![], vec![0]));
}

const BLOCK: &str = "int d(int *p)\n{\n\tif (p) {\n\t\tuse(p);\n\t}\n\tlog(1);\n}";

/// The record without what it says of the lines around its own.
fn alone(mut record: Record) -> Record {
    for line in &mut record.lines {
        (line.before, line.after) = (None, None);
    }
    record
}

#[test]
fn a_neighbour_that_is_not_said_says_nothing() {
    let records = [alone(record("d.c", "d", 0, BLOCK, &[4]))];
    let by_hand =
        |record: &Record| Record { body_sha256: None, body_sha256_ws: None, range: None, ..record.clone() };
    for code in [BLOCK.to_string(), BLOCK.replace("log(1)", "log(2)"), BLOCK.replace("int *p", "int *q")] {
        for moved in [0, 30] {
            assert_eq!(lines(&one(&records, place("d.c", "d", moved, &code))), [4], "{code}");
            assert_eq!(lines(&one(&[by_hand(&records[0])], place("d.c", "d", moved, &code))), [4], "{code}");
        }
    }
    // With no line of its text on its number it may be either.
    let longer = BLOCK.replace("\tif", "\tint i;\n\tif");
    let matched = one(&records, place("d.c", "d", 0, &longer));
    assert_eq!((lines(&matched), unmatched(&matched)), (vec![], vec![4]));
    // The last line of a record that says where its function ended has none behind it.
    let last = [record("d.c", "d", 0, BLOCK, &[6])];
    assert_eq!(lines(&one(&last, place("d.c", "d", 0, &longer.replace("log(1)", "log(2)")))), [7]);
    // Of a line that changed nothing is known but the line before it: not that it was the last.
    let mut changed = record("d.c", "d", 0, BLOCK, &[3]);
    changed.lines[0].after = None;
    let edited = BLOCK.replace("use(p)", "abuse(p)");
    assert_eq!(lines(&one(&[changed], place("d.c", "d", 0, &edited))), [3]);
}

#[test]
fn a_line_by_hand_is_where_its_number_and_text_say() {
    let by_hand = |line: usize, text: &str| Record {
        file: Some("src/copy.c".to_string()),
        function: Some("copy".to_string()),
        lines: vec![LabelledLine {
            line,
            text: text.to_string(),
            before: None,
            after: None,
            label: LineLabel::Flaw,
        }],
        ..Record::new(Label::Vulnerable)
    };
    let twice = COPY.replace("\t\treturn -1;", "\t\treturn i;");
    for (line, text, code) in [
        (6, "\t\ti++;", COPY),
        (7, "\t}", COPY),
        (10, "}", COPY),
        (3, "\treturn i;", twice.as_str()),
        (9, "\treturn i;", twice.as_str()),
    ] {
        for file in ["src/copy.c", "src/copy.cpp"] {
            let records = [Record { file: Some(file.to_string()), ..by_hand(line, text) }];
            let matched = one(&records, place(file, "copy", 9, code));
            assert_eq!((lines(&matched), unmatched(&matched)), (vec![line], vec![]), "{file} {text:?}");
            assert!(matched.changed.is_empty());
        }
    }
    // A line that is there once is found whatever its number; one that says little, and is not on its number, is not.
    assert_eq!(lines(&one(&[by_hand(8, "\tif (n < 0)")], place("src/copy.c", "copy", 9, COPY))), [2]);
    assert_eq!(unmatched(&one(&[by_hand(5, "\t\ti++;")], place("src/copy.c", "copy", 9, COPY))), [5]);
    // Neighbours say more than a number.
    let mut beside = by_hand(3, "\treturn i;");
    beside.lines[0].before = Some("\t}".to_string());
    assert_eq!(lines(&one(&[beside], place("src/copy.c", "copy", 9, &twice))), [9]);
}

/// Annotation files come with the folder, from anyone.
fn within_seconds<T>(seconds: u64, what: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let found = what();
    assert!(start.elapsed() < Duration::from_secs(seconds), "took {:?}", start.elapsed());
    found
}

fn repeated(line: &str, count: usize) -> String {
    format!("int f(int a) {{\n{}}}", format!("{line}\n").repeat(count))
}

#[test]
fn thousands_of_equal_lines_cost_no_minutes() {
    let code = repeated("\ta = a + 1;", 20_000);
    let labelled = |text: &str, before: Option<&str>, at: usize| LabelledLine {
        line: at,
        text: text.to_string(),
        before: before.map(str::to_string),
        after: before.map(str::to_string),
        label: LineLabel::Flaw,
    };
    let equal = "\ta = a + 1;";
    let of_lines = |lines: Vec<LabelledLine>| Record {
        file: Some("a.c".to_string()),
        function: Some("f".to_string()),
        // Of another text, whose numbers say nothing where the neighbours are known.
        body_sha256: Some("0".repeat(64)),
        lines,
        ..Record::new(Label::Vulnerable)
    };
    let numbers = (5..10_005).collect::<Vec<usize>>();
    // Equal to all lines, between the same neighbours as all, and similar to all between the same neighbours as all.
    for lines in [
        numbers.iter().map(|at| labelled(equal, None, *at + 30_000)).collect::<Vec<_>>(),
        numbers.iter().map(|at| labelled(equal, Some(equal), *at)).collect(),
        numbers.iter().map(|at| labelled(&format!("\ta = a + {at} ^ 11;"), Some(equal), *at)).collect(),
        // Neither a line nor beside one, but in the text thousands of times.
        numbers.iter().map(|at| labelled("+", Some("a"), *at)).collect(),
    ] {
        let records = [of_lines(lines)];
        let matched = within_seconds(30, || one(&records, place("a.c", "f", 0, &code)));
        assert!(matched.lines.len() <= numbers.len());
        assert!(!matched.unmatched.is_empty());
    }
    // What is there a few hundred times is still told apart: each line by its place.
    let code = repeated(equal, 300);
    let lines = (5..205).map(|at| labelled(equal, Some(equal), at)).collect();
    let records = [of_lines(lines)];
    let matched = one(&records, place("a.c", "f", 0, &code));
    assert_eq!(matched.lines.iter().map(|(line, _)| *line).collect::<Vec<_>>(), (5..205).collect::<Vec<_>>());
    assert_eq!(unmatched(&matched), Vec::<usize>::new());
}

#[test]
fn thousands_of_records_of_one_function_cost_no_minutes() {
    let by =
        |record: &Record, number: usize| Record { annotator: Some(format!("a{number}")), ..record.clone() };
    let exact = copy_record();
    let named = Record { body_sha256: None, body_sha256_ws: None, ..copy_record() };
    let spaced = Record { body_sha256: None, ..copy_record() };
    let count = 60_000;
    let records: Vec<Record> =
        (0..count).flat_map(|number| [&exact, &named, &spaced].map(|record| by(record, number))).collect();
    let found = within_seconds(30, || matching::find(&records, &[place("src/copy.c", "copy", 9, COPY)]));
    assert_eq!(found.functions[0].len(), count);
    assert!(found.functions[0].iter().all(|matched| matched.how == Match::Text));
    // Regions of one log are joined.
    let region = |at: usize| Record {
        file: Some("src/copy.c".to_string()),
        range: Some((at, at)),
        source: Some(Provenance::Imported),
        dataset: Some(DatasetRow { name: "log".to_string(), row: at.to_string() }),
        lines: vec![LabelledLine {
            line: 0,
            text: String::new(),
            before: None,
            after: None,
            label: LineLabel::Flaw,
        }],
        ..Record::new(Label::Vulnerable)
    };
    let code = repeated("\ta = a + 1;", 20_000);
    let regions: Vec<Record> = (1..20_001).rev().chain(1..20_001).map(region).collect();
    let matched = within_seconds(30, || one(&regions, place("src/copy.c", "f", 0, &code)));
    assert_eq!(lines(&matched), (1..20_001).collect::<Vec<_>>());
}
