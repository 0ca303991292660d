//! Which records belong to which functions of an open file, and where their lines are now.
//!
//! A record finds its function by the hash of its text, then by the hash without whitespace, then by file and name (of
//! several by the labelled lines that they hold, see [`assign`]), then by its labelled lines alone or by file and overlapping
//! range. Unless the text is exactly the record's, its lines are found again by their text and their neighbours; those that
//! are not found stay listed. Every record that names the file is shown at a function, lost, or set aside for a record that is
//! shown: none is dropped.

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
    /// The function of its name that holds most of its lines, where another one holds at least half as much.
    FileAndMostLines,
    /// A function of its name that holds lines of it, which another one may have had, too.
    FileAndOther,
    /// A function of its name that stands where its own stood, and nothing that it labels tells whether it is that.
    FileAndPlace,
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
    /// Those of `lines` that are not certain: their text is another one now, whitespace aside, or they may be other lines.
    pub changed: Vec<usize>,
    /// What could not be found again.
    pub unmatched: Vec<&'r LabelledLine>,
    /// Records of the same annotator that were set aside for this one.
    pub aside: Vec<&'r Record>,
    /// The record names another file, whose function may have become another one.
    pub is_of_another_file: bool,
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

    pub fn annotator(&self) -> Option<&'r str> {
        self.record.voice()
    }

    /// Why it is not certain that the record speaks of this function, in words.
    pub fn doubt(&self) -> Option<String> {
        let name = self.record.function.as_deref();
        let labelled = name.map(|name| format!("labelled as {name}, "));
        match self.how {
            Match::FileAndLines => Some(format!("approximate: {}found by its lines", labelled?)),
            Match::FileAndRange => Some(format!("approximate: {}found by its place and lines", labelled?)),
            Match::FileAndMostLines => Some(
                "approximate: a guess, as another function of its name holds many of the labelled lines, too"
                    .to_string(),
            ),
            Match::FileAndOther => Some(
                "approximate: a guess, as it may be another function of its name that had the labelled lines, too"
                    .to_string(),
            ),
            Match::FileAndPlace => Some(
                "approximate: a guess, as only its name and place say that this is the labelled function"
                    .to_string(),
            ),
            Match::Text | Match::TextWithoutWhitespace if self.is_of_another_file => {
                let file = self.record.file.as_deref().and_then(uri::to_path).unwrap_or_default();
                Some(format!("approximate: labelled in {file}, of whose function this is a copy"))
            }
            Match::Text | Match::TextWithoutWhitespace | Match::FileAndName => None,
        }
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
    /// Records that name this file and speak of a function of which another record of their annotator holds.
    pub set_aside: Vec<SetAside<'r>>,
}

/// A record of another text of a function: by their numbers in the slice, it and the one that holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SetAside<'r> {
    pub number: usize,
    pub record: &'r Record,
    pub holds: usize,
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
        known: Vec::new(),
        // C has one function of a name, whatever became of it.
        has_overloads: !file.is_some_and(|file| file.ends_with(".c")),
    };
    for (function, place) in functions.iter().enumerate() {
        finder.by_name.entry(last_name(place.name)).or_default().push(function);
    }
    finder.by_text(index);
    let unplaced = file.map(|file| finder.by_file(index, file)).unwrap_or_default();
    finder.shown(file, unplaced)
}

/// What found no function: the numbers of lost records, and of those set aside with the ones that hold.
#[derive(Default)]
struct Unplaced {
    lost: Vec<usize>,
    set_aside: Vec<(usize, usize)>,
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
    /// Functions of whose very text anybody says something.
    known: Vec<bool>,
    /// Whether the only function of a name may be another one than that of a record with this name.
    has_overloads: bool,
}

/// Who speaks: an annotator, and in which data set.
type Voice<'r> = (Option<&'r str>, Option<&'r str>);

fn voice(record: &Record) -> Voice<'_> {
    (record.annotator.as_deref(), record.dataset.as_ref().map(|dataset| dataset.name.as_str()))
}

/// A name without its scopes. Those within the arguments of a template are not the function's.
fn last_name(name: &str) -> &str {
    let (mut depth, mut start) = (0_usize, 0);
    let bytes = name.as_bytes();
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'<' => depth += 1,
            b'>' => depth = depth.saturating_sub(1),
            b':' if depth == 0 && bytes.get(at + 1) == Some(&b':') => start = at + 2,
            _ => {}
        }
    }
    name.get(start..).unwrap_or_default()
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
        self.known = self.found.iter().map(|found| !found.is_empty()).collect();
    }

    /// Gives back the records that name the file and found nothing.
    fn by_file(&mut self, index: &Index, file: &str) -> Unplaced {
        let Unplaced { mut lost, mut set_aside } = Unplaced::default();
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
                assign::Outcome::Found(function, how) => self.found[function].push((number, how)),
                assign::Outcome::Lost => lost.push(number),
                assign::Outcome::SetAside(holds) => set_aside.push((number, holds)),
            }
        }
        Unplaced { lost, set_aside }
    }

    /// Every record that names the file, where it is shown, or why it is not.
    fn shown(&self, file: Option<&str>, unplaced: Unplaced) -> Found<'r> {
        let Unplaced { mut lost, mut set_aside } = unplaced;
        let mut functions = Vec::with_capacity(self.places.len());
        let mut dropped: Vec<(usize, usize)> = Vec::new();
        let mut without_name: Vec<usize> = Vec::new();
        let mut is_shown: HashSet<usize> = HashSet::new();
        for function in 0..self.places.len() {
            let (matched, of_function) = self.matched(function);
            functions.push(matched);
            let not_here: HashSet<usize> = of_function.iter().map(|(number, _)| *number).collect();
            let numbers = self.found[function].iter().map(|(number, _)| *number);
            is_shown.extend(numbers.filter(|number| !not_here.contains(number)));
            dropped.extend(of_function);
            // A function of another name, of which there is a record, is not that of one that was found by its lines or place.
            let by_lines = |how: &Match| matches!(how, Match::FileAndLines | Match::FileAndRange);
            let found = self.found[function].iter();
            let numbers = found.filter(|(number, how)| by_lines(how) && not_here.contains(number));
            without_name.extend(numbers.map(|(number, _)| *number));
        }
        dropped.retain(|(number, _)| !without_name.contains(number));
        lost.extend(without_name.iter().copied().filter(|number| !is_shown.contains(number)));
        // The one that holds may have been set aside itself.
        let holding: HashMap<usize, usize> = dropped.iter().chain(&set_aside).copied().collect();
        let last = |mut number: usize| {
            for _ in 0..=holding.len() {
                match holding.get(&number) {
                    Some(holds) if !is_shown.contains(&number) => number = *holds,
                    _ => break,
                }
            }
            number
        };
        // A record of another file whose text is here, too, is shown there.
        let names_this = |number: &usize| file.is_some() && names_file(&self.records[*number], file);
        dropped.retain(|(number, _)| !is_shown.contains(number) && names_this(number));
        set_aside.extend(dropped);
        set_aside.sort_unstable();
        set_aside.dedup_by_key(|(number, _)| *number);
        let (set_aside, without): (Vec<_>, Vec<_>) = set_aside
            .iter()
            .map(|(number, holds)| (*number, last(*holds)))
            .partition(|(_, holds)| is_shown.contains(holds));
        lost.extend(without.into_iter().map(|(number, _)| number));
        lost.sort_unstable();
        lost.dedup();
        let set_aside: Vec<SetAside<'r>> = set_aside
            .into_iter()
            .map(|(number, holds)| SetAside { number, record: &self.records[number], holds })
            .collect();
        let mut of_record: HashMap<*const Record, Vec<&'r Record>> = HashMap::new();
        for aside in &set_aside {
            of_record.entry(&raw const self.records[aside.holds]).or_default().push(aside.record);
        }
        for matched in functions.iter_mut().flatten() {
            let of_all = matched.records().filter_map(|record| of_record.get(&(record as *const Record)));
            let aside: Vec<&Record> = of_all.flatten().copied().collect();
            matched.aside = aside;
        }
        Found {
            functions,
            lost: lost.into_iter().map(|number| (number, &self.records[number])).collect(),
            set_aside,
        }
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
        let holds = |function: &usize| {
            let is_in = (&self.places[*function], &self.lines[*function]);
            text(*function).is_some_and(|text| text.holds(record, is_in, &self.budget))
        };
        holding.iter().copied().filter(holds).collect()
    }

    fn has_name(&self, function: usize, record: &Record) -> bool {
        let name = self.places[function].name;
        let Some(wanted) = record.function.as_deref() else { return false };
        let one_is_plain = last_name(name) == name || last_name(wanted) == wanted;
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

    /// One record an annotator: one that knows the text, but for whitespace; of those one that names this very file, of those
    /// the surest, of those the last; the regions of a log together are one. Beside them: the records that are not shown, and those that are in their place.
    fn matched(&self, function: usize) -> (Vec<Matched<'r>>, Vec<(usize, usize)>) {
        let file = self.places[function].file;
        let distance = |matched: &Matched<'_>| {
            let knows_the_text = matched.how <= Match::TextWithoutWhitespace;
            (!knows_the_text, file.is_none() || !names_file(matched.record, file), matched.how)
        };
        let mut matched: Vec<Matched<'r>> = Vec::new();
        // Per entry of `matched`: the records that are shown in it, and those that are not.
        let mut numbers: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
        let mut of_annotator: HashMap<Option<&str>, usize> = HashMap::new();
        let mut found = self.found[function].clone();
        found.sort_by_key(|(number, how)| (*number, *how));
        for (number, how) in found {
            let record = &self.records[number];
            let relocate::Lines { found: lines, changed, unmatched } = self.relocated(record, function, how);
            let is_of_another_file = file.is_some()
                && record.dataset.is_none()
                && record.file.is_some()
                && !names_file(record, file);
            let (also, aside) = (Vec::new(), Vec::new());
            let new = Matched { record, also, how, lines, changed, unmatched, aside, is_of_another_file };
            let at = *of_annotator.entry(new.annotator()).or_insert(matched.len());
            let Some(old) = matched.get_mut(at) else {
                matched.push(new);
                numbers.push((vec![number], Vec::new()));
                continue;
            };
            let (shown, dropped) = &mut numbers[at];
            if are_regions_of_one_log(old.record, record) {
                old.join(new);
                shown.push(number);
            } else if distance(old) >= distance(&new) {
                *old = new;
                dropped.append(shown);
                shown.push(number);
            } else {
                dropped.push(number);
            }
        }
        let in_place = numbers.into_iter().flat_map(|(shown, dropped)| {
            let holds = shown.last().copied();
            dropped.into_iter().filter_map(move |number| Some((number, holds?)))
        });
        (matched, in_place.collect())
    }
}

/// The labelled lines of a record in the text that it has the hash of, and how many of them stand on a line of another number
/// than it says. What is not there is left out.
pub(super) fn lines_of_text(record: &Record, text: &str) -> (Vec<LabelledLine>, usize) {
    let function = FunctionLines::new(text);
    let place = Place { file: None, name: "", first_line: 0, text };
    let (cell, budget) = (OnceCell::new(), relocate::Budget::default());
    let found = relocate::lines(record, &place, &function, Match::Text, (&cell, &budget)).found;
    let is_said = |at: usize| record.lines.iter().any(|line| line.line == at);
    let moved = found.iter().filter(|(at, _)| !is_said(*at)).count();
    let line =
        |(at, label): &(usize, super::LineLabel)| match record.lines.iter().find(|line| line.line == *at) {
            Some(line) if line.text == function.line(*at) => line.clone(),
            _ => function.labelled(*at, *label),
        };
    (found.iter().map(line).collect(), moved)
}

/// Whether a record's file is this one.
fn names_file(record: &Record, file: Option<&str>) -> bool {
    record.file.as_deref().and_then(uri::to_path).as_deref() == file
}

/// Whether the record was made of a function, not of lines of a file.
fn knows_a_function(record: &Record) -> bool {
    record.function.is_some() || record.body_sha256.is_some()
}

/// Whether a record's range is that of lines in a function, as in SARIF.
pub(super) fn is_region(record: &Record) -> bool {
    record.body_sha256.is_none() && record.source == Some(Provenance::Imported)
}

/// Whether both are regions that one SARIF log marks, not what somebody says of a whole function.
fn are_regions_of_one_log(a: &Record, b: &Record) -> bool {
    let log = |record: &Record| {
        record.dataset.as_ref().filter(|_| is_region(record)).map(|dataset| dataset.name.clone())
    };
    log(a).is_some() && log(a) == log(b)
}

/// A line's text as it is compared: blanks do not count.
fn key(text: &str) -> String {
    without_whitespace(text)
}
