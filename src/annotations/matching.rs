//! Which records belong to which functions of an open file, and where their lines are now.
//!
//! A record finds its function by the hash of its text, then by the hash without whitespace, then by file and name (of
//! several by the labelled lines that they hold, see [`assign`]), then by its labelled lines alone or by file and overlapping
//! range. Unless the text is exactly the record's, its lines are found again by their text and their neighbours; those that
//! are not found stay listed, and so do records that find nothing.

use super::function::without_whitespace;
use super::policy::Opinion;
use super::{FunctionLines, Label, LabelledLine, LineLabel, Provenance, Record, uri};
use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};

mod assign;
mod relocate;

/// A function of an open file.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Path of the file relative to the workspace, with `/` between names.
    pub file: Option<&'a str>,
    pub name: &'a str,
    /// 0-based line of the file on which the text starts.
    pub first_line: usize,
    pub text: &'a str,
}

impl Place<'_> {
    fn range(&self, lines: &FunctionLines<'_>) -> (usize, usize) {
        (self.first_line, self.first_line + lines.count() - 1)
    }
}

/// How a record found its function; the earlier, the surer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Match {
    /// The text is the record's.
    Text,
    /// The text is the record's but for whitespace.
    TextWithoutWhitespace,
    FileAndName,
    /// No function has its name any more, and one alone holds all labelled lines between their neighbours.
    FileAndLines,
    FileAndRange,
}

/// A record and the function that it speaks of.
#[derive(Clone, Debug, PartialEq)]
pub struct Matched<'r> {
    pub record: &'r Record,
    /// Further regions that the same log marks in the function; `lines` and `unmatched` are those of all.
    pub also: Vec<&'r Record>,
    pub how: Match,
    /// 0-based lines of the function as it is now, in order, each once.
    pub lines: Vec<(usize, LineLabel)>,
    /// Those of `lines` whose text is another one now, whitespace aside.
    pub changed: Vec<usize>,
    /// What could not be found again.
    pub unmatched: Vec<&'r LabelledLine>,
}

impl<'r> Matched<'r> {
    /// `record` and `also`.
    pub fn records(&self) -> impl Iterator<Item = &'r Record> {
        std::iter::once(self.record).chain(self.also.iter().copied())
    }

    /// Adds another region that the same log marks in the function: what is a flaw to one of them is one.
    fn join(&mut self, other: Matched<'r>) {
        // A line that one of them knows as it is now has not changed.
        let knows = |matched: &Matched<'r>, line: usize| {
            matched.lines.binary_search_by_key(&line, |(line, _)| *line).is_ok()
                && !matched.changed.contains(&line)
        };
        let mut changed: Vec<usize> =
            self.changed.iter().copied().filter(|line| !knows(&other, *line)).collect();
        changed.extend(other.changed.iter().copied().filter(|line| !knows(self, *line)));
        changed.sort_unstable();
        changed.dedup();
        self.changed = changed;
        for (line, label) in other.lines {
            match self.lines.binary_search_by_key(&line, |(line, _)| *line) {
                Ok(at) if label == LineLabel::Flaw => self.lines[at].1 = label,
                Ok(_) => {}
                Err(at) => self.lines.insert(at, (line, label)),
            }
        }
        self.unmatched.extend(other.unmatched);
        self.how = self.how.min(other.how);
        let is_surer = other.record.label == Label::Vulnerable && self.record.label != Label::Vulnerable;
        let also = if is_surer { std::mem::replace(&mut self.record, other.record) } else { other.record };
        self.also.push(also);
    }

    /// Whose opinion it is: the annotator's, else the data set's.
    pub fn annotator(&self) -> Option<&'r str> {
        let dataset = self.record.dataset.as_ref().map(|dataset| dataset.name.as_str());
        self.record.annotator.as_deref().or(dataset)
    }

    pub fn opinion(&self) -> Opinion {
        Opinion {
            annotator: self.annotator().map(str::to_string),
            label: self.record.label,
            lines: self.lines.clone(),
        }
    }
}

/// What the records say of the functions of one file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found<'r> {
    /// One entry a function, in their order; in it one record an annotator.
    pub functions: Vec<Vec<Matched<'r>>>,
    /// Records that name this file, but belong to none of its functions, by their number in the slice.
    pub lost: Vec<(usize, &'r Record)>,
}

/// Records by what they are found by. Belongs to the slice that it was made from.
#[derive(Clone, Debug, Default)]
pub struct Index {
    text: HashMap<String, Vec<usize>>,
    text_ws: HashMap<String, Vec<usize>>,
    file: HashMap<String, Vec<usize>>,
}

impl Index {
    pub fn new(records: &[Record]) -> Index {
        let mut index = Index::default();
        for (number, record) in records.iter().enumerate() {
            let mut add = |map: fn(&mut Index) -> &mut HashMap<String, Vec<usize>>, key: Option<String>| {
                if let Some(key) = key {
                    map(&mut index).entry(key).or_default().push(number);
                }
            };
            add(|index| &mut index.text, record.body_sha256.clone());
            add(|index| &mut index.text_ws, record.body_sha256_ws.clone());
            add(|index| &mut index.file, record.file.as_deref().and_then(uri::to_path));
        }
        index
    }
}

/// [`find_with`] for few records.
pub fn find<'r>(records: &'r [Record], functions: &[Place<'_>]) -> Found<'r> {
    find_with(&Index::new(records), records, functions)
}

/// What `records` say of the functions of one file. Several functions with the same text share what is said of it.
pub fn find_with<'r>(index: &Index, records: &'r [Record], functions: &[Place<'_>]) -> Found<'r> {
    find_in(index, records, functions.iter().find_map(|place| place.file), functions)
}

/// [`find_with`] for a file that may have no function.
pub fn find_in<'r>(
    index: &Index,
    records: &'r [Record],
    file: Option<&str>,
    functions: &[Place<'_>],
) -> Found<'r> {
    let mut finder = Finder {
        records,
        lines: functions.iter().map(|place| FunctionLines::new(place.text)).collect(),
        places: functions,
        texts: functions.iter().map(|_| OnceCell::new()).collect(),
        budget: relocate::Budget::default(),
        by_name: HashMap::new(),
        found: vec![Vec::new(); functions.len()],
        homes: HashMap::new(),
        by_line: OnceCell::new(),
        shifts: OnceCell::new(),
        taken: HashMap::new(),
    };
    for (function, place) in functions.iter().enumerate() {
        finder.by_name.entry(last_name(place.name)).or_default().push(function);
    }
    finder.by_text(index);
    let lost = file.map(|file| finder.by_file(index, file)).unwrap_or_default();
    let functions = (0..functions.len()).map(|function| finder.matched(function)).collect();
    Found { functions, lost: lost.into_iter().map(|number| (number, &records[number])).collect() }
}

struct Finder<'r, 'a> {
    records: &'r [Record],
    lines: Vec<FunctionLines<'a>>,
    places: &'a [Place<'a>],
    texts: Vec<OnceCell<relocate::Text>>,
    budget: relocate::Budget,
    /// Functions by the last part of their name.
    by_name: HashMap<&'a str, Vec<usize>>,
    /// Per function: records and how they found it.
    found: Vec<Vec<(usize, Match)>>,
    /// Per record: the functions that it found by their text.
    homes: HashMap<usize, Vec<usize>>,
    /// Per text of a line without blanks: the functions that have such a line.
    by_line: OnceCell<HashMap<String, Vec<usize>>>,
    /// Where records that found their text stood, and how far it has moved since; in order.
    shifts: OnceCell<Vec<(usize, isize)>>,
    /// Functions of whose very text somebody (annotator and data set) says something, and the last record that does.
    taken: HashMap<(usize, Voice<'r>), usize>,
}

/// Who speaks: an annotator, and in which data set.
type Voice<'r> = (Option<&'r str>, Option<&'r str>);

fn voice(record: &Record) -> Voice<'_> {
    (record.annotator.as_deref(), record.dataset.as_ref().map(|dataset| dataset.name.as_str()))
}

/// A name without its scopes.
fn last_name(name: &str) -> &str {
    name.rsplit("::").next().unwrap_or_default()
}

impl<'r> Finder<'r, '_> {
    fn by_text(&mut self, index: &Index) {
        for (function, lines) in self.lines.iter().enumerate() {
            for number in index.text.get(&lines.sha256()).into_iter().flatten() {
                self.found[function].push((*number, Match::Text));
                self.homes.entry(*number).or_default().push(function);
                self.taken.insert((function, voice(&self.records[*number])), *number);
            }
        }
        let exact: HashSet<usize> = self.homes.keys().copied().collect();
        for (function, lines) in self.lines.iter().enumerate() {
            for number in index.text_ws.get(&lines.sha256_ws()).into_iter().flatten() {
                if !exact.contains(number) {
                    self.found[function].push((*number, Match::TextWithoutWhitespace));
                    self.homes.entry(*number).or_default().push(function);
                    self.taken.insert((function, voice(&self.records[*number])), *number);
                }
            }
        }
    }

    /// Gives back the records that name the file and found nothing.
    fn by_file(&mut self, index: &Index, file: &str) -> Vec<usize> {
        let mut lost = Vec::new();
        let mut seekers = Vec::new();
        for number in index.file.get(file).into_iter().flatten().copied() {
            // A record that found its text speaks of no other one.
            if self.homes.contains_key(&number) {
                continue;
            }
            let record = &self.records[number];
            let wanted = record.function.as_deref().map(last_name);
            let alike = wanted.and_then(|name| self.by_name.get(name));
            if !self.budget.spend(alike.map_or(self.places.len(), Vec::len)) {
                lost.push(number);
                continue;
            }
            let mut named: Vec<usize> = alike
                .into_iter()
                .flatten()
                .copied()
                .filter(|function| self.has_name(*function, record))
                .collect();
            let is_exact = |function: &usize| record.function.as_deref() == Some(self.places[*function].name);
            if named.iter().any(is_exact) {
                named.retain(is_exact);
            }
            if !named.is_empty() {
                seekers.push((number, named));
                continue;
            }
            match self.without_name(number) {
                Some((function, how)) => self.found[function].push((number, how)),
                None => lost.push(number),
            }
        }
        for (number, outcome) in self.assigned(seekers) {
            match outcome {
                assign::Outcome::Function(function) => {
                    self.found[function].push((number, Match::FileAndName))
                }
                assign::Outcome::Elsewhere(function) => {
                    self.found[function].push((number, Match::FileAndLines))
                }
                assign::Outcome::Lost => lost.push(number),
                assign::Outcome::Older => {}
            }
        }
        lost.sort_unstable();
        lost
    }

    /// The function of a record whose name no function has.
    fn without_name(&self, number: usize) -> Option<(usize, Match)> {
        let record = &self.records[number];
        let is_free = |function: &usize| !self.is_taken(*function, record);
        if knows_a_function(record) {
            let mut whole = self.holding_all(record).into_iter().filter(is_free);
            if let (Some(function), None) = (whole.next(), whole.next()) {
                let is_there = self.overlap(function, record) > 0;
                return Some((function, if is_there { Match::FileAndRange } else { Match::FileAndLines }));
            }
        }
        let overlapping: Vec<usize> = (0..self.places.len())
            .filter(|function| self.overlap(*function, record) > 0 && is_free(function))
            .collect();
        let function = self.overlapping(&overlapping, record)?;
        self.is_plausible(function, record).then_some((function, Match::FileAndRange))
    }

    /// The functions that hold every labelled line as it was, between the neighbours that it had.
    fn holding_all(&self, record: &'r Record) -> Vec<usize> {
        let Some(first) = record.lines.first() else { return Vec::new() };
        let by_line = self.by_line.get_or_init(|| {
            let mut by_line: HashMap<String, Vec<usize>> = HashMap::new();
            for (function, lines) in self.lines.iter().enumerate() {
                for key in self.texts[function].get_or_init(|| relocate::Text::new(lines)).distinct() {
                    by_line.entry(key.to_string()).or_default().push(function);
                }
            }
            by_line
        });
        let holding = by_line.get(&key(&first.text)).map(Vec::as_slice).unwrap_or_default();
        if !self.budget.spend(holding.len().saturating_mul(record.lines.len())) {
            return Vec::new();
        }
        let text = |function: usize| self.texts[function].get();
        let holds =
            |function: &usize| text(*function).is_some_and(|text| text.holds(&record.lines, &self.budget));
        holding.iter().copied().filter(holds).collect()
    }

    fn has_name(&self, function: usize, record: &Record) -> bool {
        let name = self.places[function].name;
        let Some(wanted) = record.function.as_deref() else { return false };
        let one_is_plain = !name.contains("::") || !wanted.contains("::");
        // A data set may leave out the namespaces around a class.
        let is_tail = name.strip_suffix(wanted).is_some_and(|scopes| scopes.ends_with("::"));
        name == wanted || is_tail || (one_is_plain && last_name(name) == last_name(wanted))
    }

    /// Whether the same annotator says something of the very text of the function.
    fn is_taken(&self, function: usize, record: &Record) -> bool {
        self.taken.contains_key(&(function, voice(record)))
    }

    fn overlap(&self, function: usize, record: &Record) -> usize {
        let (first, last) = self.places[function].range(&self.lines[function]);
        let Some((start, end)) = record.range else { return 0 };
        (last.min(end) + 1).saturating_sub(first.max(start))
    }

    fn overlapping(&self, functions: &[usize], record: &Record) -> Option<usize> {
        let all = functions.iter().copied().filter(|function| self.overlap(*function, record) > 0);
        all.max_by_key(|function| (self.overlap(*function, record), std::cmp::Reverse(*function)))
    }

    /// By range alone a record of a function that is gone would go to its neighbour: a line of it must be there, unless it
    /// never knew a function.
    fn is_plausible(&self, function: usize, record: &'r Record) -> bool {
        !knows_a_function(record) || !self.relocated(record, function, Match::FileAndRange).found.is_empty()
    }

    fn relocated(&self, record: &'r Record, function: usize, how: Match) -> relocate::Lines<'r> {
        let tools = (&self.texts[function], &self.budget);
        relocate::lines(record, &self.places[function], &self.lines[function], how, tools)
    }

    /// One record an annotator: the surest, of those one that names this very file, of those the last; the regions of a
    /// log together are one.
    fn matched(&self, function: usize) -> Vec<Matched<'r>> {
        let file = self.places[function].file;
        let distance =
            |matched: &Matched<'_>| (matched.how, file.is_none() || matched.record.file.as_deref() != file);
        let mut matched: Vec<Matched<'r>> = Vec::new();
        let mut of_annotator: HashMap<Option<&str>, usize> = HashMap::new();
        let mut found = self.found[function].clone();
        found.sort_by_key(|(number, how)| (*number, *how));
        for (number, how) in found {
            let record = &self.records[number];
            let relocate::Lines { found: lines, changed, unmatched } = self.relocated(record, function, how);
            let new = Matched { record, also: Vec::new(), how, lines, changed, unmatched };
            let at = *of_annotator.entry(new.annotator()).or_insert(matched.len());
            match matched.get_mut(at) {
                Some(old) if are_regions_of_one_log(old.record, record) => old.join(new),
                Some(old) if distance(old) >= distance(&new) => *old = new,
                Some(_) => {}
                None => matched.push(new),
            }
        }
        matched
    }
}

/// Whether the record was made of a function, not of lines of a file.
fn knows_a_function(record: &Record) -> bool {
    record.function.is_some() || record.body_sha256.is_some()
}

/// Whether both are regions that one SARIF log marks, not what somebody says of a whole function.
fn are_regions_of_one_log(a: &Record, b: &Record) -> bool {
    let log = |record: &Record| {
        let is_region = record.body_sha256.is_none() && record.source == Some(Provenance::Imported);
        record.dataset.as_ref().filter(|_| is_region).map(|dataset| dataset.name.clone())
    };
    log(a).is_some() && log(a) == log(b)
}

/// A line's text as it is compared: blanks do not count.
fn key(text: &str) -> String {
    without_whitespace(text)
}
