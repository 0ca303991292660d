//! After edits of files whose lines and functions repeat, a labelled line is where it went, or is said to be uncertain.
#![allow(clippy::unwrap_used)]

use linelens::annotations::matching::{self, Found, Match, Matched, Place};
use linelens::annotations::{FunctionLines, Label, Record};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// Lines of a function, its first one with the name; each with a number of its own.
#[derive(Clone, Debug)]
struct Function {
    name: &'static str,
    lines: Vec<(usize, String)>,
}

impl Function {
    fn code(&self) -> String {
        self.lines.iter().map(|(_, line)| line.as_str()).collect::<Vec<_>>().join("\n")
    }
}

#[derive(Clone, Debug)]
struct File {
    path: &'static str,
    /// Lines above the first function.
    above: usize,
    functions: Vec<Function>,
    next: usize,
    /// How many lines came and went so far.
    cost: usize,
}

const BODY: [&str; 7] = [
    "    if (!p)",
    "        return -1;",
    "    free(p);",
    "    p = next(p);",
    "    d[n] = 0;",
    "    copy(d, p, n);",
    "    n++;",
];
const PARAMETERS: [&str; 4] = ["int n", "long n", "char *n", "struct s *n"];

impl File {
    fn new(path: &'static str, functions: &[(usize, Vec<usize>)]) -> File {
        let mut file = File { path, above: 1, functions: Vec::new(), next: 0, cost: 0 };
        for (at, (parameter, body)) in functions.iter().enumerate() {
            let function = file.function(at, *parameter, body);
            file.functions.push(function);
        }
        file
    }

    fn line(&mut self, text: &str) -> (usize, String) {
        self.next += 1;
        (self.next, text.to_string())
    }

    /// In C++ all functions have one name, in C each its own.
    fn function(&mut self, at: usize, parameter: usize, body: &[usize]) -> Function {
        let name = if self.path == "a.cpp" { "put" } else { ["f0", "f1", "f2", "f3", "f4", "f5"][at % 6] };
        let head = format!("int {name}({})", PARAMETERS[parameter % PARAMETERS.len()]);
        let mut lines = vec![self.line(&head), self.line("{")];
        lines.extend(body.iter().map(|line| (0, BODY[line % BODY.len()].to_string())));
        lines.push((0, "}".to_string()));
        for line in lines.iter_mut().skip(2) {
            self.next += 1;
            line.0 = self.next;
        }
        Function { name, lines }
    }

    /// One change, as a person makes it.
    fn change(&mut self, (what, function, at, new): (usize, usize, usize, usize)) {
        let count = self.functions.len();
        if count == 0 {
            return;
        }
        let number = function % count;
        let last = self.functions[number].lines.len() - 1;
        let at = 2 + at % (last - 1).max(1);
        match what {
            0 | 1 => {
                let line = self.line(BODY[new % BODY.len()]);
                self.functions[number].lines.insert(at.min(last), line);
                self.cost += 1;
            }
            2 if at < last => {
                let some = (at + 1 + new % 3).min(last);
                self.cost += self.functions[number].lines.drain(at..some).count();
            }
            3 | 4 if at < last => {
                let line = &mut self.functions[number].lines[at].1;
                *line = if what == 3 {
                    line.replace(')', " + 1)").replace("n", "m")
                } else {
                    "    other = 7;".into()
                };
                self.cost += 2;
            }
            5 => {
                let gone = self.functions.remove(number);
                self.cost += gone.lines.len() + 1;
            }
            6 => {
                let added = self.function(count, new, &[at, new, function, at + 1]);
                self.cost += added.lines.len() + 1;
                self.functions.insert(number, added);
            }
            7 => {
                let other = new % count;
                self.cost += 2 * (self.functions[number].lines.len() + self.functions[other].lines.len() + 2);
                self.functions.swap(number, other);
            }
            8 => {
                self.above += 1 + new;
                self.cost += 1 + new;
            }
            _ if at < last => {
                // Some lines again, behind themselves.
                let some = (at + 1 + new % 3).min(last);
                let again: Vec<String> =
                    self.functions[number].lines[at..some].iter().map(|(_, line)| line.clone()).collect();
                self.cost += again.len();
                for (offset, text) in again.iter().enumerate() {
                    let line = self.line(text);
                    self.functions[number].lines.insert(some + offset, line);
                }
            }
            _ => {}
        }
    }

    /// All lines, with their numbers.
    fn lines(&self) -> Vec<(usize, String)> {
        let mut lines = vec![(0, "//".to_string()); self.above];
        for function in &self.functions {
            lines.extend(function.lines.iter().cloned());
            lines.push((0, String::new()));
        }
        lines
    }

    fn starts(&self) -> Vec<usize> {
        let mut at = self.above;
        let next = |function: &Function| {
            let start = at;
            at += function.lines.len() + 1;
            start
        };
        self.functions.iter().map(next).collect()
    }

    fn record(&self, function: usize, flaws: &[usize], has_hash: bool) -> Record {
        let code = self.functions[function].code();
        let lines = FunctionLines::new(&code);
        let start = self.starts()[function];
        let mut record = lines.record(Label::Vulnerable, flaws.iter().copied());
        if !has_hash {
            (record.body_sha256, record.body_sha256_ws) = (None, None);
        }
        Record {
            file: Some(self.path.to_string()),
            function: Some(self.functions[function].name.to_string()),
            range: Some((start, start + lines.count() - 1)),
            ..record
        }
    }

    fn with_places<T>(&self, then: impl FnOnce(&[Place<'_>]) -> T) -> T {
        let codes: Vec<String> = self.functions.iter().map(Function::code).collect();
        let places: Vec<Place<'_>> = self
            .functions
            .iter()
            .zip(&codes)
            .zip(self.starts())
            .map(|((function, text), first_line)| Place {
                file: Some(self.path),
                name: function.name,
                first_line,
                text,
            })
            .collect();
        then(&places)
    }
}

/// How many lines come and go between two texts.
fn distance(old: &[(usize, String)], new: &[(usize, String)]) -> usize {
    let mut row = vec![0; new.len() + 1];
    for (_, old) in old {
        let mut above_left = 0;
        for (at, (_, new)) in new.iter().enumerate() {
            let above = row[at + 1];
            row[at + 1] = if old == new { above_left + 1 } else { above.max(row[at]) };
            above_left = above;
        }
    }
    old.len() + new.len() - 2 * row[new.len()]
}

/// Whether a line went to a line, as far as its record and the texts can tell: by its number, because the lines beside it are
/// those that were, or because no more lines of the function would have come and gone than did. Nobody knows the functions
/// that stood around it.
fn went_there(old: &File, from: usize, new: &File, to: usize) -> bool {
    let (before, after) = (old.lines(), new.lines());
    let around = |lines: &[(usize, String)], at: usize| {
        let texts = at.saturating_sub(1)..(at + 2).min(lines.len());
        lines[texts].iter().map(|(_, line)| line.clone()).collect::<Vec<_>>()
    };
    let function = |file: &File, at: usize| {
        let start = file.starts().into_iter().filter(|start| *start <= at).max().unwrap();
        let count =
            file.functions[file.starts().iter().position(|other| *other == start).unwrap()].lines.len();
        (start, start + count)
    };
    let ((start, end), (new_start, new_end)) = (function(old, from), function(new, to));
    before[from].0 == after[to].0
        || around(&before, from) == around(&after, to)
        || (before[from].1 == after[to].1
            && distance(&before[start..from], &after[new_start..to])
                + distance(&before[from + 1..end], &after[to + 1..new_end])
                <= new.cost)
}

/// Lines of the file that are shown as certain, of one record, and those that are not.
fn shown(found: &Found<'_>, record: &Record, new: &File) -> (Vec<usize>, Vec<usize>) {
    let (mut certain, mut uncertain) = (Vec::new(), Vec::new());
    for (matched, start) in found.functions.iter().zip(new.starts()) {
        // Functions of one text share what is said of it.
        let is_other_text = |matched: &&Matched<'_>| matched.how > Match::TextWithoutWhitespace;
        for matched in
            matched.iter().filter(|matched| std::ptr::eq(matched.record, record)).filter(is_other_text)
        {
            for (line, _) in &matched.lines {
                let is_certain = matched.doubt().is_none() && !matched.changed.contains(line);
                if is_certain { &mut certain } else { &mut uncertain }.push(start + line);
            }
        }
    }
    (certain, uncertain)
}

type Change = (usize, usize, usize, usize);

fn check(
    old: &File,
    labels: &[(usize, usize, usize, bool)],
    changes: &[Change],
) -> Result<(), TestCaseError> {
    let mut new = old.clone();
    changes.iter().for_each(|change| new.change(*change));
    let mut records = Vec::new();
    let mut truth = Vec::new();
    for (function, one, two, has_hash) in labels {
        let function = function % old.functions.len();
        if truth.iter().any(|(other, _)| *other == function) {
            continue;
        }
        let body = old.functions[function].lines.len() - 3;
        let mut flaws = vec![2 + one % body, 2 + two % body];
        flaws.sort_unstable();
        flaws.dedup();
        records.push(old.record(function, &flaws, *has_hash));
        truth.push((function, flaws));
    }
    new.with_places(|places| {
        let found = matching::find_in(&matching::Index::new(&records), &records, Some(old.path), places);
        for (record, (function, flaws)) in records.iter().zip(&truth) {
            let start = old.starts()[*function];
            let (certain, _) = shown(&found, record, &new);
            for line in certain {
                let is_right = flaws.iter().any(|flaw| went_there(old, start + flaw, &new, line));
                prop_assert!(
                    is_right,
                    "line {line} {:?} of {record:#?}\nold {:#?}\nnew {:#?}",
                    new.lines()[line],
                    old.lines().iter().enumerate().collect::<Vec<_>>(),
                    new.lines().iter().enumerate().collect::<Vec<_>>()
                );
            }
        }
        Ok(())
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6000, max_shrink_iters: 20_000, failure_persistence: None, rng_seed: RngSeed::Fixed(7), ..ProptestConfig::default() })]

    #[test]
    fn a_line_that_is_shown_as_certain_is_where_it_went(
        path in prop::sample::select(&["a.c", "a.cpp"][..]),
        functions in prop::collection::vec((0..4_usize, prop::collection::vec(0..BODY.len(), 2..8)), 1..4),
        labels in prop::collection::vec((0..4_usize, 0..8_usize, 0..8_usize, any::<bool>()), 1..4),
        changes in prop::collection::vec((0..10_usize, 0..4_usize, 0..9_usize, 0..7_usize), 1..3),
    ) {
        check(&File::new(path, &functions), &labels, &changes)?;
    }
}

const COPY: &str = "int copy(char *d, const char *s, int n)\n{\n    if (n < 0)\n        return -1;\n    memcpy(d, s, n);\n    d[n] = 0;\n    log(n);\n    s = next(s);\n    if (s)\n        memcpy(d, s, n);\n    return n;\n}";

/// Lines that are found, those of them that are uncertain, and how many are not found.
fn after(old: &str, flaws: &[usize], new: &str, has_hash: bool) -> (Vec<usize>, Vec<usize>, usize) {
    let lines = FunctionLines::new(old);
    let mut record = Record {
        file: Some("a.c".to_string()),
        function: Some("copy".to_string()),
        range: Some((4, 3 + lines.count())),
        ..lines.record(Label::Vulnerable, flaws.iter().copied())
    };
    if !has_hash {
        (record.body_sha256, record.body_sha256_ws) = (None, None);
    }
    let records = [record];
    let found =
        matching::find(&records, &[Place { file: Some("a.c"), name: "copy", first_line: 4, text: new }]);
    let matched = &found.functions[0][0];
    let lines = matched.lines.iter().map(|(line, _)| *line).collect();
    (lines, matched.changed.clone(), matched.unmatched.len())
}

#[test]
fn an_edited_line_does_not_jump_to_an_equal_one() {
    for (from, to) in [("\n", "\n"), ("\n", "\r\n"), ("    ", "\t")] {
        for has_hash in [true, false] {
            let new = |edited: &str| edited.replace(from, to);
            let edited = COPY.replacen("memcpy(d, s, n);", "memcpy(d, s, n - 1);", 1);
            assert_eq!(after(COPY, &[4], &new(&edited), has_hash), (vec![4], vec![4], 0));
            assert_eq!(
                after(COPY, &[4, 9], &new(&edited), has_hash),
                (vec![4, 9], vec![4], 0),
                "both labelled"
            );
            assert_eq!(after(COPY, &[9], &new(&edited), has_hash), (vec![9], vec![], 0), "the other one");
            let longer = edited.replacen("{\n", "{\n    init(d);\n", 1);
            assert_eq!(after(COPY, &[4], &new(&longer), has_hash), (vec![5], vec![5], 0));
            let deleted = COPY.replacen("    memcpy(d, s, n);\n", "", 1);
            assert_eq!(after(COPY, &[4], &new(&deleted), has_hash), (vec![], vec![], 1));
            assert_eq!(after(COPY, &[4, 9], &new(&deleted), has_hash), (vec![8], vec![], 1));
        }
    }
}

#[test]
fn what_came_or_changed_beside_a_line_leaves_it_certain() {
    let one = COPY.replace("        memcpy(d, s, n);", "        use(s);");
    for (old, new) in [
        ("    d[n] = 0;", "    d[n] = 1;"),
        ("    d[n] = 0;", "    check(d);\n    d[n] = 0;"),
        ("        return -1;", "        return -1;\n    check(n);"),
        ("{\n", "{\n    int i;\n    int k;\n"),
        ("    log(n);\n", ""),
    ] {
        let (lines, changed, unmatched) = after(&one, &[4], &one.replace(old, new), true);
        assert_eq!((lines.len(), changed, unmatched), (1, vec![], 0), "{new:?}");
    }
    // A line that stands elsewhere now may be another one.
    let moved = one
        .replace("    memcpy(d, s, n);\n", "")
        .replace("    return n", "    memcpy(d, s, n);\n    return n");
    assert_eq!(after(&one, &[4], &moved, true), (vec![], vec![], 1));
}
