//! Of several functions of one name each record finds its own, or none: nothing is guessed.
#![allow(clippy::unwrap_used)]

use linelens::annotations::matching::{self, Found, Match, Place};
use linelens::annotations::{FunctionLines, Label, Record};

const OF_INT: &str = "int parse(int n) {\n    if (n > 9)\n        n = table[n];\n    return n;\n}";
const OF_TEXT: &str =
    "int parse(char *s) {\n    char to[8];\n    strcpy(to, s);\n    puts(to);\n    return to[0];\n}";

fn record(first: usize, code: &str, flaws: &[usize]) -> Record {
    let lines = FunctionLines::new(code);
    let name = code.split('(').next().unwrap().split(' ').next_back().unwrap();
    Record {
        file: Some("b.cpp".to_string()),
        function: Some(name.to_string()),
        range: Some((first, first + lines.count() - 1)),
        annotator: Some("me".to_string()),
        ..lines.record(Label::Vulnerable, flaws.iter().copied())
    }
}

/// The functions one below the other, an empty line between them, the first on line `first`.
fn places<'a>(first: usize, codes: &[&'a str]) -> Vec<Place<'a>> {
    let mut at = first;
    let mut places = Vec::new();
    for code in codes {
        let name = code.split('(').next().unwrap().split(' ').next_back().unwrap();
        places.push(Place { file: Some("b.cpp"), name, first_line: at, text: code });
        at += FunctionLines::new(code).count() + 1;
    }
    places
}

/// Per function: the record's number, and the lines that are found.
fn found(records: &[Record], places: &[Place<'_>]) -> Vec<Vec<(usize, Vec<usize>)>> {
    let number = |record: &Record| records.iter().position(|other| std::ptr::eq(other, record)).unwrap();
    let Found { functions, .. } = matching::find(records, places);
    functions
        .iter()
        .map(|all| {
            let of = |matched: &matching::Matched<'_>| {
                (number(matched.record), matched.lines.iter().map(|(line, _)| *line).collect())
            };
            all.iter().map(of).collect()
        })
        .collect()
}

fn lost(records: &[Record], places: &[Place<'_>]) -> Vec<usize> {
    matching::find(records, places).lost.into_iter().map(|(number, _)| number).collect()
}

#[test]
fn lines_inserted_above_move_no_record_to_another_overload() {
    let of_int = "Buf(int n) {\n        data = new char[n];\n        size = n;\n    }";
    let of_text = "Buf(const char *s) {\n        data = new char[16];\n        strcpy(data, s);\n        size = 16;\n    }";
    let mut by_hand = Record {
        function: Some("Buf::Buf".to_string()),
        body_sha256: None,
        body_sha256_ws: None,
        ..record(7, of_text, &[2])
    };
    by_hand.range = Some((7, 12));
    by_hand.lines[0].line = 3;
    for inserted in 0..40 {
        let mut places = places(2 + inserted, &[of_int, of_text]);
        for place in &mut places {
            place.name = "Buf::Buf";
        }
        let records = [by_hand.clone()];
        assert_eq!(found(&records, &places), [vec![], vec![(0, vec![2])]], "{inserted} lines inserted");
    }
}

#[test]
fn a_record_with_its_text_leaves_the_other_overload_alone() {
    let records = [record(7, OF_TEXT, &[2])];
    for inserted in 0..40 {
        let places = places(inserted, &[OF_INT, OF_TEXT]);
        assert_eq!(found(&records, &places), [vec![], vec![(0, vec![2])]], "{inserted} lines inserted");
        assert!(lost(&records, &places).is_empty());
    }
}

#[test]
fn edited_overloads_keep_their_records_wherever_they_are() {
    let records = [record(0, OF_INT, &[2]), record(6, OF_TEXT, &[2])];
    let of_int = OF_INT.replace("n > 9", "n > 8");
    let of_text = OF_TEXT.replace("to[8]", "to[16]");
    let own = |records: &[Record], first, codes: &[&str]| found(records, &places(first, codes));
    for inserted in 0..40 {
        assert_eq!(
            own(&records, inserted, &[&of_int, &of_text]),
            [vec![(0, vec![2])], vec![(1, vec![2])]],
            "{inserted} lines inserted"
        );
        assert_eq!(
            own(&records, inserted, &[&of_text, &of_int]),
            [vec![(1, vec![2])], vec![(0, vec![2])]],
            "swapped, {inserted} lines inserted"
        );
    }
    // So they do by hand, without hashes, and whoever labelled which.
    let of_two = [
        Record { body_sha256: None, body_sha256_ws: None, ..records[0].clone() },
        Record { annotator: Some("ann".to_string()), ..records[1].clone() },
    ];
    assert_eq!(own(&of_two, 9, &[&of_text, &of_int]), [vec![(1, vec![2])], vec![(0, vec![2])]]);
}

#[test]
fn a_line_that_both_overloads_have_goes_to_who_has_no_other_record() {
    // The labelled line of the second record stands in both, between the same neighbours.
    let one = "int f(int a) {\n    first(a);\n    lock(m);\n    n++;\n    unlock(m);\n}";
    let two = "int f(char *a) {\n    second(a);\n    lock(m);\n    n++;\n    unlock(m);\n}";
    let records = [record(0, one, &[1]), record(7, two, &[3])];
    let (new_one, new_two) = (one.replace("unlock(m)", "unlock(&m)"), two.replace("unlock(m)", "unlock(&m)"));
    assert_eq!(found(&records, &places(30, &[&new_one, &new_two])), [vec![(0, vec![1])], vec![(1, vec![3])]]);
    // Alone it could be of either, unless one stands where it was.
    let alone = [records[1].clone()];
    let moved = places(30, &[&new_one, &new_two]);
    assert_eq!((found(&alone, &moved), lost(&alone, &moved)), (vec![vec![], vec![]], vec![0]));
    assert_eq!(found(&alone, &places(0, &[&new_one, &new_two])), [vec![], vec![(0, vec![3])]]);
    // What is known to have moved tells where it is to stand.
    let other = "void other(void) {\n    x();\n}";
    let known = [records[1].clone(), record(14, other, &[1])];
    let all = places(30, &[&new_one, &new_two, other]);
    assert_eq!(found(&known, &all), [vec![], vec![(0, vec![3])], vec![(1, vec![1])]]);
}

#[test]
fn labels_without_lines_stay_where_they_were_or_are_lost() {
    let label = |first, code| Record { lines: Vec::new(), ..record(first, code, &[]) };
    let (of_int, of_text) = (OF_INT.replace('9', "8"), OF_TEXT.replace('8', "9"));
    let records = [label(6, OF_TEXT)];
    assert_eq!(found(&records, &places(0, &[&of_int, &of_text])), [vec![], vec![(0, vec![])]]);
    let moved = places(7, &[&of_int, &of_text]);
    assert_eq!((found(&records, &moved), lost(&records, &moved)), (vec![vec![], vec![]], vec![0]));
    // The other one is known by its text, so this one is what is left.
    let both = [label(0, OF_INT), label(6, OF_TEXT)];
    assert_eq!(found(&both, &places(40, &[OF_INT, &of_text])), [vec![(0, vec![])], vec![(1, vec![])]]);
    // The only function of its name is it, wherever it stands.
    assert_eq!(found(&records, &places(40, &[&of_text])), [vec![(0, vec![])]]);
}

#[test]
fn what_a_gone_overload_had_is_lost_and_not_handed_on() {
    let records = [record(0, OF_INT, &[2]), record(6, OF_TEXT, &[2])];
    let of_int = OF_INT.replace("n > 9", "n > 8");
    for inserted in [0, 5, 6, 40] {
        let left = places(inserted, &[&of_int]);
        assert_eq!((found(&records, &left), lost(&records, &left)), (vec![vec![(0, vec![2])]], vec![1]));
        let left = places(inserted, &[OF_INT]);
        assert_eq!((found(&records, &left), lost(&records, &left)), (vec![vec![(0, vec![2])]], vec![1]));
        // Another annotator's record of the one that is gone is not of the one that is left.
        let two = [records[0].clone(), Record { annotator: Some("ann".to_string()), ..records[1].clone() }];
        let left = places(inserted, &[&of_int]);
        assert_eq!((found(&two, &left), lost(&two, &left)), (vec![vec![(0, vec![2])]], vec![1]));
    }
}

#[test]
fn what_was_said_of_an_older_text_is_not_lost() {
    // Labelled, moved and fixed, labelled again: the old record speaks of the old text.
    let fixed = OF_TEXT.replace("strcpy(to, s)", "strlcpy(to, s, 8)");
    let benign = Record { label: Label::Benign, lines: Vec::new(), ..record(46, &fixed, &[]) };
    let records = [record(6, OF_TEXT, &[2]), benign];
    let now = places(46, &[&fixed]);
    assert_eq!((found(&records, &now), lost(&records, &now)), (vec![vec![(1, vec![])]], vec![]));
    let now = places(40, &[OF_INT, &fixed]);
    assert_eq!((found(&records, &now), lost(&records, &now)), (vec![vec![], vec![(1, vec![])]], vec![]));
}

#[test]
fn a_renamed_function_is_found_by_its_lines_if_they_are_in_no_other() {
    let records = [record(6, OF_TEXT, &[2, 3])];
    let renamed = OF_TEXT.replace("parse", "read_number").replace("(char", "(const char");
    let now = places(60, &[OF_INT, &renamed]);
    let matched = matching::find(&records, &now);
    assert_eq!(matched.functions[1][0].how, Match::FileAndLines);
    assert_eq!(found(&records, &now), [vec![], vec![(0, vec![2, 3])]]);
    // Here `parse` is the other one, which has nothing of it; there is no function of its name elsewhere.
    let records = [Record { function: Some("gone".to_string()), ..records[0].clone() }];
    assert_eq!(found(&records, &now), [vec![], vec![(0, vec![2, 3])]]);
    let twice = renamed.replace("read_number", "read_other");
    let now = places(60, &[OF_INT, &renamed, &twice]);
    assert_eq!((found(&records, &now), lost(&records, &now)), (vec![vec![], vec![], vec![]], vec![0]));
    // One line of two is not all.
    let half = renamed.replace("    puts(to);\n", "    puts(s);\n");
    let now = places(60, &[OF_INT, &half]);
    assert_eq!((found(&records, &now), lost(&records, &now)), (vec![vec![], vec![]], vec![0]));
}

#[test]
fn thousands_of_records_and_overloads_cost_no_minutes() {
    let start = std::time::Instant::now();
    let codes: Vec<String> =
        (0..2000).map(|n| format!("int f(int a{n}) {{\n    x({n});\n    y();\n}}")).collect();
    let texts: Vec<&str> = codes.iter().map(String::as_str).collect();
    let places = places(100, &texts);
    let records: Vec<Record> = (0..2000)
        .map(|n| {
            let old = codes[n].replace("y();", "z();");
            Record { annotator: Some(format!("a{}", n % 7)), ..record(n * 5, &old, &[1, 2]) }
        })
        .collect();
    let found = matching::find(&records, &places);
    assert!(start.elapsed() < std::time::Duration::from_secs(60), "{:?}", start.elapsed());
    assert_eq!(found.functions.len(), 2000);
}

#[test]
fn of_equal_texts_in_two_files_each_has_what_was_said_of_it() {
    let here = record(1, OF_TEXT, &[3]);
    let there = Record {
        file: Some("other.cpp".to_string()),
        label: Label::Benign,
        lines: Vec::new(),
        ..here.clone()
    };
    let records = [here, there];
    let in_file = |file| vec![Place { file: Some(file), ..places(1, &[OF_TEXT]).remove(0) }];
    assert_eq!(found(&records, &in_file("b.cpp")), [vec![(0, vec![3])]]);
    assert_eq!(found(&records, &in_file("other.cpp")), [vec![(1, vec![])]]);
    // A third file has a copy of which nobody spoke: the last word counts.
    assert_eq!(found(&records, &in_file("third.cpp")), [vec![(1, vec![])]]);
}
