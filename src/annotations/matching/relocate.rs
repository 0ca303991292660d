//! Where the labelled lines of a record are in the text of today: a diff of single lines with their context.
//!
//! The old text is not there to compare with, so a line is certain only if its text is the same, what stands beside it is
//! accounted for, and its number fits how many lines the function had and has. Any other one may be another line.

use super::{Match, Place, is_region, key, knows_a_function};
use crate::annotations::{FunctionLines, LabelledLine, LineLabel, Record};
use std::cell::{Cell, OnceCell};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Longer lines are not compared character by character.
const MOST_COMPARED: usize = 400;
/// What a place that a line may be at costs: it is kept until the record's lines are told apart.
const CANDIDATE_COST: usize = 100;
/// Steps, of some nanoseconds each, for the records of one file.
const MOST_STEPS: usize = 300_000_000;

/// Where the labelled lines of a record are.
#[derive(Debug)]
pub(super) struct Lines<'r> {
    /// 0-based lines of the function, in order.
    pub(super) found: Vec<(usize, LineLabel)>,
    /// Those of them whose text is another one now, or that may be other lines.
    pub(super) changed: Vec<usize>,
    pub(super) unmatched: Vec<&'r LabelledLine>,
}

/// What may still be spent on the records of one file. Whoever wrote them may mean no good: thousands of equal lines, each
/// of which could be any of thousands. What is not looked for any more is not found.
#[derive(Debug)]
pub(super) struct Budget(Cell<usize>);

impl Default for Budget {
    fn default() -> Budget {
        Budget(Cell::new(MOST_STEPS))
    }
}

impl Budget {
    /// Whether there was enough left.
    pub(super) fn spend(&self, steps: usize) -> bool {
        let left = self.0.get().checked_sub(steps);
        self.0.set(left.unwrap_or(0));
        left.is_some()
    }
}

/// The lines of the function that the record labels, and the labelled lines that were not found. `text` is made when it is
/// needed, once a function.
pub(super) fn lines<'r>(
    record: &'r Record,
    place: &Place<'_>,
    function: &FunctionLines<'_>,
    how: Match,
    (text, budget): (&OnceCell<Text>, &Budget),
) -> Lines<'r> {
    let mut found: BTreeMap<usize, LineLabel> = BTreeMap::new();
    let mut open: Vec<&LabelledLine> = Vec::new();
    let mut changed: Vec<usize> = Vec::new();
    for line in &record.lines {
        match known_place(record, line, place, function, how) {
            Known::At(at) => {
                found.insert(at, line.label);
            }
            Known::Perhaps(at) => {
                found.insert(at, line.label);
                changed.push(at);
            }
            Known::Nowhere | Known::ByText => open.push(line),
        }
    }
    let mut unmatched = Vec::new();
    if open.iter().any(|line| !line.text.is_empty()) {
        let sought: Vec<Sought<'_>> =
            open.iter().map(|line| Sought::new(record, line, place, function)).collect();
        let places = text.get_or_init(|| Text::new(function)).places(&sought, budget);
        for (line, lines) in open.iter().zip(places) {
            match lines {
                Some(Run { first, last, is_certain }) => {
                    for at in (first..=last).filter(|at| !function.is_blank(*at)) {
                        // What another labelled line knows as it is has not changed.
                        if found.insert(at, found.get(&at).copied().unwrap_or(line.label)).is_none() {
                            changed.extend((!is_certain).then_some(at));
                        } else if is_certain {
                            changed.retain(|other| *other != at);
                        }
                    }
                }
                None => unmatched.push(*line),
            }
        }
    } else {
        unmatched = open;
    }
    changed.sort_unstable();
    Lines { found: found.into_iter().collect(), changed, unmatched }
}

/// How much of what a record labels a function holds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Likeness {
    /// Of each line most where its text is the same between the same neighbours, little where it is only similar.
    pub(super) points: usize,
    /// How many of the lines are there as they were.
    pub(super) exact: usize,
    /// How many stand as they were beside a neighbour that they had.
    pub(super) beside: usize,
    /// How many stand as they were between the neighbours that they had.
    pub(super) between: usize,
}

pub(super) fn likeness(
    record: &Record,
    place: &Place<'_>,
    function: &FunctionLines<'_>,
    (text, budget): (&OnceCell<Text>, &Budget),
) -> Likeness {
    let text = text.get_or_init(|| Text::new(function));
    let mut likeness = Likeness::default();
    for line in &record.lines {
        if line.text.is_empty() || !budget.spend(CANDIDATE_COST) {
            continue;
        }
        let is_there = matches!(known_place(record, line, place, function, Match::FileAndName), Known::At(_));
        let candidates = text.candidates(&Sought::new(record, line, place, function), budget);
        let best = candidates.iter().map(|candidate| candidate.points(line)).max().unwrap_or(0);
        let is_exact = best > 0 && candidates.iter().any(|candidate| !candidate.is_changed);
        likeness.points += best + usize::from(is_there);
        likeness.exact += usize::from(is_there || is_exact);
        let is_between = candidates.iter().any(|candidate| !candidate.is_changed && candidate.context == 2);
        likeness.between += usize::from(is_between);
        let is_beside = candidates.iter().any(|candidate| !candidate.is_changed && candidate.context > 0);
        likeness.beside += usize::from(is_there || is_beside);
    }
    likeness
}

/// A labelled line and what its record says of where it stood.
struct Sought<'r> {
    line: &'r LabelledLine,
    before: Neighbour,
    after: Neighbour,
    /// The line of the function that it was, where its neighbours or its record's text do not say more.
    number: Option<usize>,
    /// How many lines of the function stood below it, where the record says.
    below: Option<usize>,
}

/// The nearest line that is not blank.
enum Neighbour {
    Key(String),
    /// There was none: the function began or ended here.
    Edge,
    /// The record does not say.
    Unknown,
}

impl<'r> Sought<'r> {
    fn new(
        record: &Record,
        line: &'r LabelledLine,
        place: &Place<'_>,
        function: &FunctionLines<'_>,
    ) -> Sought<'r> {
        let is_of_function = knows_a_function(record) && !is_region(record);
        let neighbour = |text: &Option<String>, is_edge: bool| match text {
            Some(text) => Neighbour::Key(key(text)),
            None if is_of_function && is_edge => Neighbour::Edge,
            None => Neighbour::Unknown,
        };
        let range = record.range.filter(|_| is_of_function);
        let below = range.and_then(|(first, last)| (last - first).checked_sub(line.line));
        let before = neighbour(&line.before, line.line == 0);
        let after = neighbour(&line.after, below == Some(0));
        let says_all = record.body_sha256.is_some()
            && !matches!(before, Neighbour::Unknown)
            && !matches!(after, Neighbour::Unknown);
        let in_file = |(first, last): (usize, usize)| {
            let is_as_long = last - first + 1 == function.count();
            let is_of_a_text = record.body_sha256.is_some();
            let moved = (first + line.line).checked_sub(place.first_line);
            if is_as_long || is_of_a_text { Some(line.line) } else { moved }
        };
        let number = || range.map_or(Some(line.line), in_file);
        let number = if is_of_function && !says_all { number() } else { None };
        Sought { line, before, after, number, below }
    }

    /// How many of the neighbours are known.
    fn known(&self) -> usize {
        [&self.before, &self.after]
            .iter()
            .filter(|neighbour| !matches!(neighbour, Neighbour::Unknown))
            .count()
    }
}

impl Neighbour {
    fn len(&self) -> usize {
        match self {
            Neighbour::Key(key) => key.len(),
            Neighbour::Edge | Neighbour::Unknown => 0,
        }
    }
}

enum Known {
    At(usize),
    /// Nothing but a number says so, and the function has changed.
    Perhaps(usize),
    Nowhere,
    ByText,
}

/// In the record's own text, lines are where it says; in one that never knew a function, where the file has the line's text
/// at its number.
fn known_place(
    record: &Record,
    line: &LabelledLine,
    place: &Place<'_>,
    function: &FunctionLines<'_>,
    how: Match,
) -> Known {
    let is_of_function = knows_a_function(record) && !is_region(record);
    let in_file = record.range.and_then(|(start, _)| (start + line.line).checked_sub(place.first_line));
    if line.text.is_empty() {
        return without_text(record, line, function, how, if is_of_function { None } else { in_file });
    }
    if how == Match::Text && line.line < function.count() && function.line(line.line) == line.text {
        return Known::At(line.line);
    }
    if !is_of_function
        && record.body_sha256.is_none()
        && let Some(at) = in_file
        && at < function.count()
        && !function.is_blank(at)
        && key(function.line(at)) == key(&line.text)
        && stands_between(line, function, at)
    {
        return Known::At(at);
    }
    Known::ByText
}

/// A line without text is known by its number alone: in the file, or in a function that is as long as it was.
fn without_text(
    record: &Record,
    line: &LabelledLine,
    function: &FunctionLines<'_>,
    how: Match,
    in_file: Option<usize>,
) -> Known {
    let is_there = |at: &usize| *at < function.count();
    if let Some(at) = in_file.filter(|_| how != Match::Text) {
        return if is_there(&at) { Known::At(at) } else { Known::Nowhere };
    }
    let knows_a_text = record.body_sha256.is_some() || record.body_sha256_ws.is_some();
    let is_as_long = record.range.is_some_and(|(first, last)| last - first + 1 == function.count());
    match how {
        _ if !is_there(&line.line) => Known::Nowhere,
        Match::Text => Known::At(line.line),
        Match::TextWithoutWhitespace if is_as_long => Known::At(line.line),
        _ if knows_a_text => Known::Nowhere,
        _ if is_as_long => Known::At(line.line),
        _ => Known::Perhaps(line.line),
    }
}

/// Whether the neighbours that a labelled line had, as far as they are known, are beside a line: of several equal lines
/// another may have come to the number that the record says.
fn stands_between(line: &LabelledLine, function: &FunctionLines<'_>, at: usize) -> bool {
    let agrees = |beside: Option<usize>, wanted: &Option<String>| match (beside, wanted) {
        (Some(beside), Some(wanted)) => key(function.line(beside)) == key(wanted),
        _ => true,
    };
    let above = (0..at).rev().find(|above| !function.is_blank(*above));
    let below = (at + 1..function.count()).find(|below| !function.is_blank(*below));
    agrees(above, &line.before) && agrees(below, &line.after)
}

/// The function's lines that are not blank, by what they hold but blanks.
#[derive(Debug)]
pub(super) struct Text {
    keys: Vec<String>,
    /// The line of each key.
    lines: Vec<usize>,
    /// How many lines the function has, with blank ones.
    count: usize,
    by_key: HashMap<String, Vec<usize>>,
    /// All keys one after the other, and where each starts in it.
    body: String,
    starts: Vec<usize>,
}

/// Where a labelled line may be: a run of keys.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    first: usize,
    last: usize,
    /// How many of the two neighbours are the same.
    context: usize,
    /// Similar, but not the same text.
    is_changed: bool,
    /// The same text on the line of the number that the record says.
    is_at_number: bool,
    /// What is beside it is what was, or what came in between.
    is_accounted_for: bool,
    /// How many lines would have come on one side of it while as many went on the other.
    strain: usize,
    /// The number is all that the record says of its place, and it is this line's.
    is_by_number: bool,
}

impl Candidate {
    fn points(self, line: &LabelledLine) -> usize {
        let at_number = usize::from(self.is_at_number);
        match self.is_changed {
            true => self.context,
            false if self.context == 0 && !is_telling(&line.text) => at_number,
            false => 3 + self.context + at_number,
        }
    }

    /// Whether it is the labelled line, if no other one is as good.
    fn is_settled(&self) -> bool {
        !self.is_changed && self.is_accounted_for && self.strain == 0
    }

    /// What speaks for it: its text and its neighbours, and against it, that it does not fit its number.
    fn rank(&self) -> (usize, usize) {
        let likeness = match (self.is_changed, self.context) {
            (false, 2) => 6,
            (false, _) if self.is_settled() => 5,
            (true, 2) => 4,
            (false, 1) => 3,
            _ => 2,
        };
        (likeness - if self.strain > 0 { 2 } else { 0 }, self.context)
    }

    /// Whether it may as well be the line for which another one was chosen.
    fn rivals(&self, chosen: &Candidate) -> bool {
        let is_other = self.first != chosen.first;
        let is_as_close = self.context > chosen.context
            || (self.context == chosen.context
                && (self.strain == 0 || chosen.context < 2)
                && !chosen.is_by_number);
        is_other && is_as_close && (!self.is_changed || self.strain == 0)
    }
}

/// Where a labelled line is now.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Run {
    first: usize,
    last: usize,
    is_certain: bool,
}

impl Text {
    pub(super) fn new(function: &FunctionLines<'_>) -> Text {
        let mut text = Text {
            keys: Vec::new(),
            lines: Vec::new(),
            count: function.count(),
            by_key: HashMap::new(),
            body: String::new(),
            starts: Vec::new(),
        };
        for line in (0..function.count()).filter(|line| !function.is_blank(*line)) {
            let key = key(function.line(line));
            text.by_key.entry(key.clone()).or_default().push(text.keys.len());
            text.starts.push(text.body.len());
            text.body.push_str(&key);
            text.keys.push(key);
            text.lines.push(line);
        }
        text
    }

    /// What its lines hold, each once.
    pub(super) fn distinct(&self) -> impl Iterator<Item = &str> {
        self.by_key.keys().map(String::as_str)
    }

    /// Whether each line stands here as it was, between the neighbours that it had, and some of them say something.
    pub(super) fn holds(
        &self,
        record: &Record,
        (place, function): (&Place<'_>, &FunctionLines<'_>),
        budget: &Budget,
    ) -> bool {
        let lines = &record.lines;
        let holds = |line: &LabelledLine| {
            let sought = Sought::new(record, line, place, function);
            self.same(&key(&line.text), &sought, budget).iter().any(|found| found.context == 2)
        };
        lines.iter().any(|line| is_telling(&line.text)) && lines.iter().all(holds)
    }

    /// Per labelled line: where it is today.
    fn places(&self, sought: &[Sought<'_>], budget: &Budget) -> Vec<Option<Run>> {
        let candidates: Vec<Vec<Candidate>> =
            sought.iter().map(|line| self.candidates(line, budget)).collect();
        let labelled: Vec<&LabelledLine> = sought.iter().map(|sought| sought.line).collect();
        let mut chosen: Vec<Option<Candidate>> = labelled
            .iter()
            .zip(&candidates)
            .map(|(line, all)| only_one(all, is_telling(&line.text)))
            .collect();
        drop_second_claims(&labelled, &mut chosen);
        let mut is_certain: Vec<bool> = chosen
            .iter()
            .zip(&candidates)
            .map(|(chosen, all)| {
                chosen.is_some_and(|chosen| {
                    chosen.is_settled() && !all.iter().any(|other| other.rivals(&chosen))
                })
            })
            .collect();
        // What was found says how far lines moved; it tells the others apart, but not for certain.
        let mut moved: Vec<(usize, isize)> = labelled
            .iter()
            .zip(&chosen)
            .filter_map(|(line, candidate)| Some((line.line, self.shift(line, (*candidate)?))))
            .collect();
        moved.sort_by_key(|(at, _)| *at);
        let mut taken: HashSet<usize> = chosen.iter().flatten().map(|candidate| candidate.first).collect();
        let mut order: Vec<usize> = (0..labelled.len()).filter(|line| chosen[*line].is_none()).collect();
        order.sort_by_key(|line| labelled[*line].line);
        for index in order {
            let line = labelled[index];
            let expected = nearest(&moved, line.line);
            chosen[index] = candidates[index]
                .iter()
                .copied()
                .filter(|candidate| candidate.context > 0 && !taken.contains(&candidate.first))
                .max_by_key(|candidate| {
                    let off = self.shift(line, *candidate).abs_diff(expected);
                    (candidate.rank(), std::cmp::Reverse(off), std::cmp::Reverse(candidate.first))
                });
            is_certain[index] = false;
            taken.extend(chosen[index].map(|candidate| candidate.first));
        }
        chosen
            .into_iter()
            .zip(is_certain)
            .map(|(candidate, is_certain)| {
                candidate.map(|candidate| Run {
                    first: self.lines[candidate.first],
                    last: self.lines[candidate.last],
                    is_certain,
                })
            })
            .collect()
    }

    fn shift(&self, line: &LabelledLine, candidate: Candidate) -> isize {
        self.lines[candidate.first].cast_signed() - line.line.cast_signed()
    }

    /// The lines that it may be. One of its text that stands elsewhere is none where its neighbours met when it went.
    fn candidates(&self, sought: &Sought<'_>, budget: &Budget) -> Vec<Candidate> {
        let wanted = key(&sought.line.text);
        if wanted.is_empty() {
            return Vec::new();
        }
        let mut found = self.same(&wanted, sought, budget);
        if found.is_empty() {
            found = self.broken_differently(&wanted, sought, budget);
        }
        if found.iter().any(|candidate| candidate.is_settled() && candidate.context == 2) {
            return found;
        }
        let is_close = |candidate: &Candidate| {
            candidate.context == 2
                || candidate.is_at_number
                || (candidate.context == 1 && candidate.strain == 0)
        };
        if !found.iter().all(is_close) && self.has_closed(sought, budget) {
            found.retain(is_close);
        }
        found.extend(self.edited(&wanted, sought, budget));
        found
    }

    /// The lines of this very text, blanks aside.
    fn same(&self, wanted: &str, sought: &Sought<'_>, budget: &Budget) -> Vec<Candidate> {
        let same = self.by_key.get(wanted).map(Vec::as_slice).unwrap_or_default();
        if !budget.spend(same.len().saturating_mul(CANDIDATE_COST)) {
            return Vec::new();
        }
        let candidate = |at: usize| {
            let is_at_number = sought.number == Some(self.lines[at]);
            self.candidate((at, at), sought, self.context(at, sought), (false, is_at_number))
        };
        same.iter().copied().map(candidate).collect()
    }

    fn candidate(
        &self,
        (first, last): (usize, usize),
        sought: &Sought<'_>,
        context: usize,
        (is_changed, is_at_number): (bool, bool),
    ) -> Candidate {
        let (above, below) = self.moves(first, last, sought);
        let strain = match below {
            Some(below) if (above < 0) != (below < 0) => above.unsigned_abs().min(below.unsigned_abs()),
            Some(_) => 0,
            // Who wrote no range wrote a number that may be of any text.
            None => 0,
        };
        // Where nothing moved, what is beside it was edited.
        let is_in_place = above == 0 && below == Some(0) && context > 0;
        let is_accounted_for = context == 2
            || is_in_place
            || (self.is_above(first, sought, above, is_at_number)
                && self.is_below(last, sought, below, is_at_number));
        let is_by_number = is_at_number && sought.below.is_none();
        Candidate { first, last, context, is_changed, is_at_number, is_accounted_for, strain, is_by_number }
    }

    /// How many more lines are above than were, and below, where that is known.
    fn moves(&self, first: usize, last: usize, sought: &Sought<'_>) -> (isize, Option<isize>) {
        let above = self.lines[first].cast_signed() - sought.line.line.cast_signed();
        let below = self.count - 1 - self.lines[last];
        (above, sought.below.map(|old| below.cast_signed() - old.cast_signed()))
    }

    /// Whether the line before is the one that was, lines that came in between aside.
    fn is_above(&self, at: usize, sought: &Sought<'_>, came: isize, is_at_number: bool) -> bool {
        match &sought.before {
            Neighbour::Unknown => is_at_number,
            Neighbour::Edge => at == 0,
            Neighbour::Key(key) => {
                let all = self.by_key.get(key).map(Vec::as_slice).unwrap_or_default();
                let above = all.partition_point(|other| *other < at).checked_sub(1);
                above.is_some_and(|above| (at - 1 - all[above]).cast_signed() <= came.max(0))
            }
        }
    }

    fn is_below(&self, at: usize, sought: &Sought<'_>, came: Option<isize>, is_at_number: bool) -> bool {
        match &sought.after {
            Neighbour::Unknown => is_at_number,
            Neighbour::Edge => at + 1 == self.keys.len(),
            Neighbour::Key(key) => {
                let all = self.by_key.get(key).map(Vec::as_slice).unwrap_or_default();
                let below = all.get(all.partition_point(|other| *other <= at));
                below.is_some_and(|below| (below - at - 1).cast_signed() <= came.unwrap_or(0).max(0))
            }
        }
    }

    /// Whether what stood above the line and what stood below it stand side by side now.
    fn has_closed(&self, sought: &Sought<'_>, budget: &Budget) -> bool {
        let after = match &sought.after {
            Neighbour::Key(key) => Some(key),
            Neighbour::Edge => None,
            Neighbour::Unknown => return false,
        };
        match &sought.before {
            Neighbour::Unknown => false,
            Neighbour::Edge => self.keys.first() == after,
            Neighbour::Key(key) => {
                let above = self.by_key.get(key).map(Vec::as_slice).unwrap_or_default();
                budget.spend(above.len()) && above.iter().any(|above| self.keys.get(above + 1) == after)
            }
        }
    }

    /// How many of the neighbours that the record knows are beside a line.
    fn context(&self, at: usize, sought: &Sought<'_>) -> usize {
        let is = |beside: Option<&String>, neighbour: &Neighbour| match (neighbour, beside) {
            (Neighbour::Key(key), Some(beside)) => key == beside,
            (Neighbour::Edge, None) => true,
            _ => false,
        };
        let above = at.checked_sub(1).and_then(|above| self.keys.get(above));
        usize::from(is(above, &sought.before)) + usize::from(is(self.keys.get(at + 1), &sought.after))
    }

    /// The same text between the same neighbours, but with other line breaks.
    fn broken_differently(&self, wanted: &str, sought: &Sought<'_>, budget: &Budget) -> Vec<Candidate> {
        if sought.known() == 0 || !budget.spend(self.body.len()) {
            return Vec::new();
        }
        let length = sought.before.len() + sought.after.len();
        let key_at = |offset: usize| self.starts.partition_point(|start| *start <= offset) - 1;
        let is_between = |head: &str, tail: &str| {
            let is_below = match &sought.before {
                Neighbour::Key(before) => head.ends_with(before.as_str()),
                Neighbour::Edge => head.is_empty(),
                Neighbour::Unknown => true,
            };
            is_below
                && match &sought.after {
                    Neighbour::Key(after) => tail.starts_with(after.as_str()),
                    Neighbour::Edge => tail.is_empty(),
                    Neighbour::Unknown => true,
                }
        };
        self.body
            .match_indices(wanted)
            .take_while(|_| budget.spend(CANDIDATE_COST + length))
            .filter(|(start, _)| is_between(&self.body[..*start], &self.body[start + wanted.len()..]))
            .map(|(start, _)| {
                let run = (key_at(start), key_at(start + wanted.len() - 1));
                self.candidate(run, sought, sought.known(), (false, false))
            })
            .collect()
    }

    /// A line whose text changed: similar, and between the same neighbours, or very similar and beside one of them.
    fn edited(&self, wanted: &str, sought: &Sought<'_>, budget: &Budget) -> Vec<Candidate> {
        const BETWEEN_BOTH: f32 = 0.5;
        const BESIDE_ONE: f32 = 0.8;
        let of = |neighbour: &Neighbour| match neighbour {
            Neighbour::Key(key) => self.by_key.get(key).map(Vec::as_slice).unwrap_or_default(),
            Neighbour::Edge | Neighbour::Unknown => &[],
        };
        let (before, after) = (of(&sought.before), of(&sought.after));
        let last = self.keys.len().checked_sub(1);
        let is_first = matches!(sought.before, Neighbour::Edge);
        let is_last = matches!(sought.after, Neighbour::Edge);
        if !budget.spend((before.len() + after.len()).saturating_mul(CANDIDATE_COST)) {
            return Vec::new();
        }
        let below = before.iter().map(|above| above + 1).chain(is_first.then_some(0));
        let above = after.iter().filter_map(|below| below.checked_sub(1)).chain(last.filter(|_| is_last));
        let beside: BTreeSet<usize> = below.chain(above).filter(|at| *at < self.keys.len()).collect();
        beside
            .into_iter()
            .filter(|at| self.keys[*at] != wanted)
            .filter_map(|at| {
                let context = self.context(at, sought);
                let least = if context == 2 { BETWEEN_BOTH } else { BESIDE_ONE };
                let both = wanted.len() + self.keys[at].len();
                let short = wanted.len() <= MOST_COMPARED && self.keys[at].len() <= MOST_COMPARED;
                // A diff takes at worst the square of the length.
                let is_similar = short
                    && budget.spend(both * both / 4)
                    && similar::TextDiff::from_chars(wanted, self.keys[at].as_str()).ratio() >= least;
                is_similar.then(|| self.candidate((at, at), sought, context, (true, false)))
            })
            .collect()
    }
}

/// How far the nearest of the lines moved that are known to have; they are in order.
pub(super) fn nearest(moved: &[(usize, isize)], line: usize) -> isize {
    let after = moved.partition_point(|(at, _)| *at < line);
    let beside =
        [after.checked_sub(1), Some(after)].into_iter().flatten().filter_map(|index| moved.get(index));
    beside.min_by_key(|(at, _)| at.abs_diff(line)).map_or(0, |(_, shift)| *shift)
}

/// Of several labelled lines with one text, one can be a line of today: the one with the most context.
fn drop_second_claims(labelled: &[&LabelledLine], chosen: &mut [Option<Candidate>]) {
    let mut best: HashMap<(String, usize), usize> = HashMap::new();
    for index in 0..labelled.len() {
        let Some(candidate) = chosen[index] else { continue };
        let claim = best.entry((key(&labelled[index].text), candidate.first)).or_insert(index);
        if *claim == index {
            continue;
        }
        let other = chosen[*claim].map_or(0, |other| other.context);
        let loser = if candidate.context > other { std::mem::replace(claim, index) } else { index };
        chosen[loser] = None;
    }
}

/// The candidate that stands out: the only one, or the only best one, or of those the one whose number is the record's. A
/// line that says next to nothing, such as a brace, needs a neighbour or its number.
fn only_one(candidates: &[Candidate], is_telling: bool) -> Option<Candidate> {
    let most = candidates.iter().map(Candidate::rank).max()?;
    let best = || candidates.iter().copied().filter(|candidate| candidate.rank() == most);
    if let Some(numbered) = best().find(|candidate| candidate.is_at_number) {
        return Some(numbered);
    }
    let is_alone = is_telling && candidates.len() == 1;
    best().next().filter(|only| best().nth(1).is_none() && (only.context > 0 || is_alone))
}

fn is_telling(text: &str) -> bool {
    const LEAST: usize = 3;
    text.chars().filter(|c| c.is_alphanumeric()).count() >= LEAST
}
