//! Records whose functions are gone: what is said of them, and a check of an annotation file against the sources it names.

use super::dataset::located::{self, SourceFile};
use super::matching::{self, Match, Matched, Place, SetAside};
use super::store::{FileProblem, Store};
use super::{FunctionLines, Label, LabelledLine, Record, uri};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;

/// What of an annotation file is shown nowhere, or is not certain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LostRecords {
    /// Records that belong to no function of the file that they name.
    pub records: Vec<FileProblem>,
    /// Records of other texts of functions of which a newer record holds.
    pub set_aside: Vec<FileProblem>,
    /// Records that are shown at a function which is only probably theirs.
    pub doubtful: Vec<FileProblem>,
    /// Records that are shown, but not with all of their lines, or not with the numbers that they say.
    pub lines: Vec<FileProblem>,
    /// Records whose file could not be read.
    pub missing: Vec<FileProblem>,
    /// Records that say neither a file nor a text: nothing leads to their function.
    pub nowhere: Vec<FileProblem>,
}

/// A sentence about a record that belongs to no function of its file.
pub fn sentence(record: &Record) -> String {
    let file = record.file.as_deref().and_then(uri::to_path).unwrap_or_default();
    format!(
        "unmatched: {}, belongs to none of the functions that {file} has now, or could belong to several; label it anew, or \
         delete this record",
        summary(record)
    )
}

/// A sentence about one whose text is there as it was, but is not that of a function.
fn of_lines(record: &Record) -> String {
    let file = record.file.as_deref().and_then(uri::to_path).unwrap_or_default();
    let (first, last) = record.range.unwrap_or_default();
    format!(
        "unmatched: {}, is of the text in lines {} to {} of {file}, which is there but is not that of one function, and no \
         line of it tells which of them is meant: it is evaluated, and shown at no function",
        summary(record),
        first + 1,
        last + 1
    )
}

/// A sentence about one that another one of its annotator takes the place of.
pub(super) fn aside(record: &Record, row: usize) -> String {
    format!(
        "set aside: {}, is of an older text of the function of which row {row} of the same annotator speaks, and that one \
         holds; delete this record if it is of a function that is gone",
        summary(record)
    )
}

/// Name, label, and how many lines.
fn summary(record: &Record) -> String {
    let label = match record.label {
        Label::Vulnerable => "vulnerable",
        Label::Benign => "benign",
        Label::Unsure => "unsure",
    };
    let name = record.function.as_deref().map(|name| format!("{name}, ")).unwrap_or_default();
    let lines = match record.lines.len() {
        0 => String::new(),
        1 => " with 1 labelled line".to_string(),
        several => format!(" with {several} labelled lines"),
    };
    format!("{name}{label}{lines}")
}

/// A sentence about one that names a file that is not there.
fn without_file(record: &Record, file: &str) -> String {
    let copies = match record.body_sha256.is_some() || record.body_sha256_ws.is_some() {
        true => "it is shown only where its very text stands",
        false => "it is shown nowhere",
    };
    format!(
        "unmatched: {}, is of {file}, which cannot be read: {copies}, and is not evaluated; if the file was moved, correct \
         `file`",
        summary(record)
    )
}

/// A sentence about labelled lines that are not what the record says.
fn at_odds(record: &Record, matched: &Matched<'_>, place: &Place<'_>, file: &str) -> Option<String> {
    let function = FunctionLines::new(place.text);
    let gone: Vec<String> = record
        .lines
        .iter()
        .filter(|line| matched.unmatched.iter().any(|other| std::ptr::eq(*other, *line)))
        .map(|line| (line.line + 1).to_string())
        .collect();
    let says_other = |line: &&LabelledLine| !line.text.is_empty() && function.line(line.line) != line.text;
    let elsewhere: Vec<String> = match matched.how {
        Match::Text => {
            record.lines.iter().filter(says_other).map(|line| (line.line + 1).to_string()).collect()
        }
        _ => Vec::new(),
    };
    let name = |numbers: &[String]| {
        format!("{} {}", if numbers.len() == 1 { "line" } else { "lines" }, numbers.join(", "))
    };
    let gone_said = (!gone.is_empty()).then(|| {
        let are = if gone.len() == 1 { "is" } else { "are" };
        format!("{} {are} not found again in {} of {file} and {are} no ground truth", name(&gone), place.name)
    });
    let elsewhere: Vec<String> = elsewhere.into_iter().filter(|number| !gone.contains(number)).collect();
    let elsewhere_said = (!elsewhere.is_empty()).then(|| {
        let (have, it) = if elsewhere.len() == 1 { ("has", "it") } else { ("have", "each") };
        format!(
            "{} of {} in {file} {have} another text than the record says; the line that has {it} counts",
            name(&elsewhere),
            place.name
        )
    });
    let said: Vec<String> = gone_said.into_iter().chain(elsewhere_said).collect();
    (!said.is_empty()).then(|| format!("{}; label the function anew", said.join("; ")))
}

/// The functions of a source file as records are looked up in them.
fn places<'a>(source: &'a SourceFile, relative: &'a str) -> Vec<Place<'a>> {
    let place = |function: &'a crate::syntax::Function| Place {
        file: Some(relative),
        name: &function.name,
        first_line: source.lines.line_at(function.span.start),
        text: function.span.of(&source.text).unwrap_or_default(),
    };
    source.functions.iter().map(place).collect()
}

/// The files that records name, each once.
fn files(store: &Store) -> BTreeSet<String> {
    store.records().iter().filter_map(|record| record.file.clone()).collect()
}

/// Looks up the records of an annotation file in the sources that they name.
pub fn look_up(path: &Path) -> LostRecords {
    let mut found = LostRecords::default();
    let root = located::root_of(path);
    for store in Store::of_files(&[path.to_path_buf()]) {
        for record in store.records() {
            let says_nothing =
                record.file.is_none() && record.body_sha256.is_none() && record.body_sha256_ws.is_none();
            if says_nothing {
                let reason = format!(
                    "unmatched: {}, names neither a file nor the hash of a text, so nothing says which function it is of: \
                     it is shown nowhere and not evaluated; add `file`",
                    summary(record)
                );
                found.nowhere.extend(store.said_of(record, reason));
            }
        }
        // Copies of functions in other files are doubtful only where the function's own file has not its text any more.
        let mut copies = Vec::new();
        let mut at_home: HashSet<*const Record> = HashSet::new();
        for file in files(&store) {
            let Some(relative) = uri::to_path(&file) else { continue };
            let Ok(source) = SourceFile::read(&root, &file) else {
                let of_file = store.records().iter().filter(|record| record.file.as_ref() == Some(&file));
                let said =
                    of_file.filter_map(|record| store.said_of(record, without_file(record, &relative)));
                found.missing.extend(said);
                continue;
            };
            let places = places(&source, &relative);
            let matching::Found { functions, lost, set_aside } = store.find_in(Some(&relative), &places);
            found.records.extend(lost.into_iter().map(|(number, record)| {
                let problem = store.lost(number, record);
                match source.has_lines_of(record) {
                    true => FileProblem { reason: of_lines(record), ..problem },
                    false => problem,
                }
            }));
            // Two records of one text are named as such.
            let is_other = |aside: &SetAside<'_>| {
                let holds = store.records().get(aside.holds).and_then(|record| record.body_sha256.as_ref());
                holds.is_none() || holds != aside.record.body_sha256.as_ref()
            };
            found.set_aside.extend(set_aside.iter().filter(|aside| is_other(aside)).map(|a| store.aside(a)));
            for (matched, place) in functions.iter().zip(&places) {
                for matched in matched {
                    for record in matched.records() {
                        let said = at_odds(record, matched, place, &relative);
                        found.lines.extend(said.and_then(|reason| store.said_of(record, reason)));
                    }
                    if matched.how <= Match::TextWithoutWhitespace && !matched.is_of_another_file {
                        at_home.insert(matched.record);
                    }
                    let Some(doubt) = matched.doubt() else { continue };
                    let reason = format!("taken for {} of {relative}: {doubt}", place.name);
                    let said = store.said_of(matched.record, reason);
                    match matched.is_of_another_file {
                        true => copies.extend(said.map(|said| (std::ptr::from_ref(matched.record), said))),
                        false => found.doubtful.extend(said),
                    }
                }
            }
        }
        let doubtful = copies.into_iter().filter(|(record, _)| !at_home.contains(record));
        found.doubtful.extend(doubtful.map(|(_, said)| said));
    }
    let LostRecords { records, set_aside, doubtful, lines, missing, nowhere } = &mut found;
    for problems in [records, set_aside, doubtful, lines, missing, nowhere] {
        problems.sort_by_key(|problem| problem.row);
        problems.dedup();
    }
    found
}

/// What records of an annotation file say of the files as they are today, by their rows: `None` where a file is there and
/// has no function of the record. Rows of files that cannot be read are left out.
pub fn today(path: &Path) -> HashMap<usize, Option<Record>> {
    let mut found: HashMap<usize, Option<Record>> = HashMap::new();
    let root = located::root_of(path);
    for store in Store::of_files(&[path.to_path_buf()]) {
        let row = |record: &Record| store.said_of(record, String::new()).and_then(|said| said.row);
        let mut of_file: HashMap<&str, Vec<&Record>> = HashMap::new();
        for record in store.records() {
            of_file.entry(record.file.as_deref().unwrap_or_default()).or_default().push(record);
        }
        for file in files(&store) {
            let Some(relative) = uri::to_path(&file) else { continue };
            let Ok(source) = SourceFile::read(&root, &file) else { continue };
            let places = places(&source, &relative);
            let functions = store.find_in(Some(&relative), &places).functions;
            for record in of_file.get(file.as_str()).into_iter().flatten() {
                found.extend(row(record).map(|row| (row, None)));
            }
            for (matched, place) in functions.iter().zip(&places) {
                for matched in matched.iter().filter(|matched| !matched.is_of_another_file) {
                    let Some(row) = row(matched.record).filter(|row| found.contains_key(row)) else {
                        continue;
                    };
                    let is_nearer = |known: &Record| {
                        let start = |record: &Record| record.range.map_or(0, |(first, _)| first);
                        let was = start(matched.record);
                        place.first_line.abs_diff(was) < start(known).abs_diff(was)
                    };
                    // Of functions with equal texts, the one that is nearest to where it was.
                    if found.get(&row).and_then(Option::as_ref).is_none_or(is_nearer) {
                        found.insert(row, Some(of_today(matched, place)));
                    }
                    // Further regions of a log are in it.
                    for record in &matched.also {
                        let other = store.said_of(record, String::new()).and_then(|said| said.row);
                        found.extend(other.map(|row| (row, None)));
                    }
                }
            }
        }
    }
    found
}

fn of_today(matched: &Matched<'_>, place: &Place<'_>) -> Record {
    let function = FunctionLines::new(place.text);
    Record {
        function: Some(place.name.to_string()),
        range: Some((place.first_line, place.first_line + function.count() - 1)),
        body_sha256: Some(function.sha256()),
        body_sha256_ws: Some(function.sha256_ws()),
        lines: matched.lines.iter().map(|(line, label)| function.labelled(*line, *label)).collect(),
        ..matched.record.clone()
    }
}
