//! Of several functions of one name each record finds its own, or none: nothing is guessed.
#![allow(clippy::unwrap_used)]

use linelens::annotations::matching::{self, Found, Match, Place};
use linelens::annotations::{FunctionLines, Label, Record};
use proptest::prelude::*;
use std::collections::HashMap;

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
    // The only function of its name may be another one; in C there is no other one.
    let moved = places(40, &[&of_text]);
    assert_eq!((found(&records, &moved), lost(&records, &moved)), (vec![vec![]], vec![0]));
    assert_eq!(found(&records, &places(6, &[&of_text])), [vec![(0, vec![])]]);
    let in_c = [Record { file: Some("b.c".to_string()), ..records[0].clone() }];
    let moved = [Place { file: Some("b.c"), ..moved[0] }];
    assert_eq!(found(&in_c, &moved), [vec![(0, vec![])]]);
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

/// Per function: how its records were found.
fn ways(records: &[Record], places: &[Place<'_>]) -> Vec<Vec<Match>> {
    let functions = matching::find(records, places).functions;
    functions.iter().map(|all| all.iter().map(|matched| matched.how).collect()).collect()
}

/// Records that were set aside, and those that hold.
fn set_aside(records: &[Record], places: &[Place<'_>]) -> Vec<(usize, usize)> {
    matching::find(records, places).set_aside.into_iter().map(|aside| (aside.number, aside.holds)).collect()
}

#[test]
fn a_newer_record_of_another_overload_hides_none() {
    // The second overload stands where the first stood, and was labelled there; the first one was edited, or is gone.
    let edited = OF_INT.replace("table[n]", "0").replace("n > 9", "n != 0");
    let benign = Record { label: Label::Benign, ..record(0, OF_INT, &[]) };
    for old in [benign, record(0, OF_INT, &[2])] {
        for by in ["me", "ann"] {
            for newer in
                [Record { label: Label::Benign, ..record(0, OF_TEXT, &[]) }, record(0, OF_TEXT, &[2])]
            {
                let old = Record { annotator: Some(by.to_string()), ..old.clone() };
                let lines = if newer.lines.is_empty() { vec![] } else { vec![2] };
                let records = [old, newer];
                let now = places(0, &[OF_TEXT, &edited]);
                let at_first = found(&records, &now)[0].clone();
                assert_eq!(at_first, [(1, lines.clone())], "{by}: its text is known");
                let shown = found(&records, &now)[1].iter().any(|(number, _)| *number == 0);
                assert!(shown || lost(&records, &now) == [0], "{by}");
                assert!(set_aside(&records, &now).is_empty(), "{by}");
                // Of one that is gone the record is reported: as unmatched, or as older than the one that holds.
                let left = places(0, &[OF_TEXT]);
                assert_eq!(found(&records, &left), [vec![(1, lines)]]);
                match by {
                    "me" => assert_eq!(set_aside(&records, &left), [(0, 1)]),
                    _ => assert_eq!(lost(&records, &left), [0]),
                }
            }
        }
    }
    // What is not newer does not take the place of anything.
    let at = |time: &str, record: Record| Record { time: Some(time.to_string()), ..record };
    let records = [
        at("2026-02-01T00:00:00Z", record(0, OF_INT, &[2])),
        at("2026-01-01T00:00:00Z", record(0, OF_TEXT, &[2])),
    ];
    assert_eq!(lost(&records, &places(0, &[OF_TEXT])), [0]);
}

#[test]
fn a_gone_overload_hands_nothing_to_one_without_a_record() {
    let benign = Record { label: Label::Benign, ..record(7, OF_TEXT, &[]) };
    for gone in [record(7, OF_TEXT, &[2]), benign.clone(), record(0, OF_TEXT, &[2])] {
        let records = [gone];
        for inserted in [0, 1, 7, 40] {
            let left = places(inserted, &[OF_INT]);
            assert_eq!(
                (found(&records, &left), lost(&records, &left)),
                (vec![vec![]], vec![0]),
                "{inserted}"
            );
            let left = places(inserted, &[OF_INT, "int parse(long n) {\n    return n;\n}"]);
            assert_eq!((found(&records, &left), lost(&records, &left)), (vec![vec![], vec![]], vec![0]));
        }
    }
    // By hand, of a name alone, it is of the only function that has it.
    let by_hand = [Record { body_sha256: None, body_sha256_ws: None, range: None, ..benign }];
    assert_eq!(ways(&by_hand, &places(40, &[OF_INT])), [vec![Match::FileAndName]]);
}

#[test]
fn what_only_the_place_says_is_a_guess() {
    let label = |first, code| Record { lines: Vec::new(), ..record(first, code, &[]) };
    let (of_int, of_text) = (OF_INT.replace('9', "8"), OF_INT.replace("int n", "long n"));
    let records = [label(0, OF_INT), label(6, &of_text.replace('9', "7"))];
    let now = places(0, &[&of_text, &of_int]);
    assert_eq!(ways(&records, &now), [vec![Match::FileAndPlace], vec![Match::FileAndPlace]]);
    let matched = matching::find(&records, &now);
    assert!(matched.functions[0][0].doubt().unwrap().contains("a guess"));
    // So does a line that both have.
    let both = [record(0, OF_INT, &[2])];
    let of_text = of_text.replace('9', "8");
    let ways = ways(&both, &places(0, &[&of_text, &of_int]));
    assert_eq!(ways, [vec![Match::FileAndPlace], vec![]]);
}

#[test]
fn a_specialisation_does_not_hide_the_record_of_its_template() {
    let template = "template <typename T>\nint f(T a) {\n    return a;\n}";
    let special = "template <>\nint f<std::string>(std::string a) {\n    return a.size();\n}";
    let named = |name: &str, record: Record| Record { function: Some(name.to_string()), ..record };
    let records = [named("f", record(0, template, &[2])), named("f<std::string>", record(0, special, &[2]))];
    let left = [Place { file: Some("b.cpp"), name: "f<std::string>", first_line: 0, text: special }];
    assert_eq!((found(&records, &left), lost(&records, &left)), (vec![vec![(1, vec![2])]], vec![0]));
    // Scopes in the arguments of a template are not the function's.
    let edited = special.replace("size()", "size() + 1");
    let scoped = [named("N::f<std::string>", records[1].clone())];
    let place = [Place { file: Some("b.cpp"), name: "f<std::string>", first_line: 90, text: &edited }];
    // Its line is only similar and it stands elsewhere, so it may be another one of the name.
    assert_eq!(ways(&scoped, &place), [vec![Match::FileAndOther]]);
}

#[test]
fn of_two_records_of_one_function_the_other_is_named() {
    let (first, second) = (record(0, OF_TEXT, &[2]), record(0, &OF_TEXT.replace("puts", "fputs"), &[2]));
    let edited = OF_TEXT.replace("to[8]", "to[16]");
    let records = [first, second];
    let now = places(0, &[&edited]);
    assert_eq!(found(&records, &now), [vec![(1, vec![2])]]);
    assert_eq!(set_aside(&records, &now), [(0, 1)]);
    assert_eq!(matching::find(&records, &now).functions[0][0].aside, [&records[0]]);
}

/// A function of a small file: its name, its parameter, and lines of its body.
type Small = (usize, usize, Vec<usize>);

const NAMES: [&str; 4] = ["parse", "read", "N::parse", "f<N::T>"];
const LINES: [&str; 6] = ["a = b;", "strcpy(to, from);", "n++;", "return n;", "lock(m);", "check(n, to);"];

fn code((name, parameter, lines): &Small) -> (String, String) {
    let body: String = lines.iter().map(|line| format!("    {}\n", LINES[*line])).collect();
    (NAMES[*name].to_string(), format!("int {}(int a{parameter}) {{\n{body}}}", NAMES[*name]))
}

fn small() -> impl Strategy<Value = Small> {
    (0..NAMES.len(), 0..3_usize, prop::collection::vec(0..LINES.len(), 1..5))
}

/// Deletes, swaps, renames, edits, adds.
fn changed(mut file: Vec<Small>, changes: &[(usize, usize, usize, Small)]) -> Vec<Small> {
    for (what, one, other, new) in changes {
        if file.is_empty() {
            break;
        }
        let (one, other) = (one % file.len(), other % file.len());
        match what {
            0 => drop(file.remove(one)),
            1 => file.swap(one, other),
            2 => file[one].0 = new.0,
            3 => file[one].2.clone_from(&new.2),
            4 => file[one].2.push(new.2[0]),
            _ => file.insert(one, new.clone()),
        }
    }
    file
}

fn of_file<T>(name: &str, first: usize, file: &[Small], then: impl FnOnce(&[Place<'_>]) -> T) -> T {
    let codes: Vec<(String, String)> = file.iter().map(code).collect();
    let mut at = first;
    let mut places = Vec::new();
    for (function, text) in &codes {
        places.push(Place { file: Some(name), name: function, first_line: at, text });
        at += FunctionLines::new(text).count() + 1;
    }
    then(&places)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// Every record is shown at a function, unmatched, or set aside for one that is shown, and only one of these.
    #[test]
    fn no_record_is_dropped(
        name in prop::sample::select(&["b.cpp", "b.c"][..]),
        file in prop::collection::vec(small(), 1..5),
        labels in prop::collection::vec((0..3_usize, 0..2_usize, 0..9_usize, 0..9_usize, any::<bool>()), 1..9),
        steps in prop::collection::vec(
            (0..9_usize, prop::collection::vec((0..6_usize, 0..9_usize, 0..9_usize, small()), 0..4)), 1..4
        ),
    ) {
        let mut file = file;
        let mut records: Vec<Record> = Vec::new();
        let mut now = 0;
        for (step, (first, changes)) in steps.iter().enumerate() {
            // Some functions of each version are labelled.
            for (of_step, annotator, function, line, has_hash) in &labels {
                if *of_step != step || file.is_empty() {
                    continue;
                }
                of_file(name, now, &file, |places| {
                    let place = places[function % places.len()];
                    let lines = FunctionLines::new(place.text);
                    let flaws: Vec<usize> = if line % 3 == 0 { vec![] } else { vec![1 + line % (lines.count() - 2)] };
                    let label = if flaws.is_empty() { Label::Benign } else { Label::Vulnerable };
                    let mut record = lines.record(label, flaws);
                    if !has_hash {
                        (record.body_sha256, record.body_sha256_ws) = (None, None);
                    }
                    records.push(Record {
                        file: Some(name.to_string()),
                        function: Some(place.name.to_string()),
                        range: Some((place.first_line, place.first_line + lines.count() - 1)),
                        annotator: Some(["ann", "bob"][*annotator].to_string()),
                        ..record
                    });
                });
            }
            file = changed(file, changes);
            now = *first;
        }
        of_file(name, now, &file, |places| {
            let found = matching::find_in(&matching::Index::new(&records), &records, Some(name), places);
            let number = |record: &Record| records.iter().position(|other| std::ptr::eq(other, record)).unwrap();
            let mut shown: HashMap<usize, Vec<usize>> = HashMap::new();
            for (function, all) in found.functions.iter().enumerate() {
                let mut annotators: Vec<_> = all.iter().map(|matched| matched.annotator()).collect();
                annotators.sort_unstable();
                annotators.dedup();
                prop_assert_eq!(annotators.len(), all.len(), "one record an annotator");
                for matched in all {
                    for record in matched.records() {
                        shown.entry(number(record)).or_default().push(function);
                    }
                    let is_known = all.iter().any(|other| other.how <= Match::TextWithoutWhitespace);
                    let labels_nothing = matched.record.lines.is_empty();
                    if name == "b.cpp" && matched.how == Match::FileAndPlace && labels_nothing {
                        prop_assert!(!is_known, "a guess at a function of a known text");
                    }
                }
            }
            for (record, functions) in &shown {
                let texts: Vec<String> =
                    functions.iter().map(|function| FunctionLines::new(places[*function].text).sha256_ws()).collect();
                prop_assert!(texts.windows(2).all(|two| two[0] == two[1]), "record {} of two functions", record);
            }
            for record in 0..records.len() {
                let lost = found.lost.iter().filter(|(lost, _)| *lost == record).count();
                let aside = found.set_aside.iter().filter(|aside| aside.number == record).count();
                let is_shown = usize::from(shown.contains_key(&record));
                prop_assert_eq!(is_shown + lost + aside, 1, "record {} of {:#?} in {:#?}", record, records, places);
            }
            for aside in &found.set_aside {
                prop_assert!(shown.contains_key(&aside.holds), "what holds is shown");
                prop_assert_eq!(&records[aside.holds].annotator, &aside.record.annotator);
            }
            Ok(())
        })?;
    }
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

#[test]
fn of_texts_that_differ_in_blanks_each_file_has_what_was_said_of_it() {
    // Both files hold the same text now; the second was labelled when it was indented by spaces.
    let spaces = OF_TEXT.replace("    ", "  ");
    let named = |file: &str, record: Record| Record { file: Some(file.to_string()), ..record };
    let here = named("a%20b.cpp", record(0, OF_TEXT, &[2]));
    let there = named("b.cpp", record(0, &spaces, &[3]));
    let in_file = |file| vec![Place { file: Some(file), ..places(0, &[OF_TEXT]).remove(0) }];
    for (records, first, second) in [([here.clone(), there.clone()], 0, 1), ([there, here], 1, 0)] {
        assert_eq!(found(&records, &in_file("a b.cpp")), [vec![(first, vec![2])]]);
        assert_eq!(found(&records, &in_file("b.cpp")), [vec![(second, vec![3])]]);
        assert!(set_aside(&records, &in_file("b.cpp")).is_empty(), "none is an older text");
        // Where no record names the file, the text itself says most.
        assert_eq!(found(&records, &in_file("third.cpp")), [vec![(first, vec![2])]]);
    }
    // A function and a fix that differs from it in one space.
    let pair = |file: &str, code: &str, flaws: &[usize]| {
        let (dataset, label) =
            ("bigvul.csv".to_string(), if flaws.is_empty() { Label::Benign } else { Label::Vulnerable });
        let dataset = Some(linelens::annotations::DatasetRow { name: dataset, row: "1".to_string() });
        named(file, Record { annotator: None, label, dataset, ..record(0, code, flaws) })
    };
    let records = [pair("1_before.c", OF_TEXT, &[2]), pair("1_after.c", &format!("{OF_TEXT} "), &[])];
    assert_eq!(found(&records, &in_file("1_before.c")), [vec![(0, vec![2])]]);
    assert_eq!(found(&records, &in_file("1_after.c")), [vec![(1, vec![])]]);
}

const ADD: &str = "int f(int a)\n{\n\tint x = a;\n\tx++;\n\treturn x;\n}";
const ADD_TEXT: &str = "int f(char *a)\n{\n\tint x = *a;\n\tx++;\n\treturn x;\n}";

#[test]
fn lines_that_are_there_win_over_lines_that_are_only_similar() {
    let by = |name: &str, record: Record| Record { annotator: Some(name.to_string()), ..record };
    for annotator in ["me", "ann"] {
        let (own, gone) = (record(0, ADD, &[3]), by(annotator, record(7, ADD_TEXT, &[2, 3])));
        let records = [own, gone];
        let turned = [records[1].clone(), records[0].clone()];
        for (old, new) in [("return x", "return x + 1"), ("int a)", "int a, int b)"), ("f(", "f(")] {
            let left = ADD.replace(old, new);
            // Its neighbours are not the other overload's, or it stands elsewhere.
            let now = places(0, &[&left]);
            assert_eq!(found(&records, &now), [vec![(0, vec![3])]], "{annotator} {new}");
            assert_eq!(found(&turned, &now), [vec![(1, vec![3])]], "{annotator} {new}");
            if old == "return x" {
                assert_eq!(
                    (lost(&records, &now), lost(&turned, &now)),
                    (vec![1], vec![0]),
                    "{annotator} {new}"
                );
            }
            let matched = matching::find(&records, &now);
            assert_eq!(matched.functions[0][0].changed, Vec::<usize>::new());
        }
    }
    // Of several overloads, as well: many similar lines are less than one that is there.
    let (own, gone) = (record(7, ADD, &[3]), record(0, &ADD_TEXT.replace("return x", "return -x"), &[2, 4]));
    let long = "int f(long a, int n)\n{\n\twhile (n--)\n\t\tput(a);\n\treturn n;\n}";
    let left = ADD.replace("int x = a", "int x = +a");
    let now = places(0, &[&left, long]);
    for records in [[own.clone(), gone.clone()], [gone, own]] {
        let shown = found(&records, &now);
        let of_f: Vec<usize> = shown[0].iter().map(|(number, _)| *number).collect();
        assert_eq!(of_f.len(), 1);
        assert_eq!(records[of_f[0]].lines[0].text, "\tx++;");
    }
    // A record of the function whose labelled line was edited is still its own.
    let records = [record(0, ADD, &[2])];
    let fixed = ADD.replace("int x = a;", "int x = a + 0;");
    assert_eq!(found(&records, &places(0, &[&fixed])), [vec![(0, vec![2])]]);
}

#[test]
fn the_function_with_most_of_the_lines_is_a_guess_beside_one_with_many() {
    let edited = |code: &str| code.replace("return x", "return x + 1");
    let (of_int, of_text, added) = (edited(ADD), edited(ADD_TEXT), ADD.replace("int a)", "long a)"));
    let records = [record(0, ADD, &[3]), record(7, ADD_TEXT, &[2, 3])];
    let now = places(0, &[&added, &of_int, &of_text]);
    // The added one holds the first record's line between both its neighbours, its own between one of them. The second
    // record's place is filled by another function, and an edit in place is likelier than an overload that came.
    assert_eq!(found(&records, &now), [vec![(0, vec![3])], vec![(1, vec![2])], vec![]]);
    assert_eq!(ways(&records, &now), [vec![Match::FileAndMostLines], vec![Match::FileAndPlace], vec![]]);
    let matched = matching::find(&records, &now);
    assert!(matched.functions[0][0].doubt().unwrap().contains("a guess"));
    // Without the added one there is no doubt.
    let now = places(0, &[&of_int, &of_text]);
    assert_eq!(found(&records, &now), [vec![(0, vec![3])], vec![(1, vec![2, 3])]]);
    assert_eq!(ways(&records, &now), [vec![Match::FileAndName], vec![Match::FileAndName]]);
}
