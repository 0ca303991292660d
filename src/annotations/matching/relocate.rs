//! Where the labelled lines of a record are in the text of today: a diff of single lines with their context.

use super::{Match, Place, key};
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
    /// Those of them whose text is another one now.
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
    for line in &record.lines {
        match known_place(record, line, place, function, how) {
            Known::At(at) => {
                found.insert(at, line.label);
            }
            Known::Nowhere | Known::ByText => open.push(line),
        }
    }
    let (mut changed, mut unmatched) = (Vec::new(), Vec::new());
    if open.iter().any(|line| !line.text.is_empty()) {
        let places = text.get_or_init(|| Text::new(function)).places(&open, budget);
        for (line, lines) in open.iter().zip(places) {
            match lines {
                Some(Run { first, last, is_changed }) => {
                    for at in (first..=last).filter(|at| !function.is_blank(*at)) {
                        // What another labelled line knows as it is has not changed.
                        if found.insert(at, found.get(&at).copied().unwrap_or(line.label)).is_none() {
                            changed.extend(is_changed.then_some(at));
                        } else if !is_changed {
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

/// How much of what the record labels the function holds: of each line most where its text is the same between the same
/// neighbours, little where it is only similar.
pub(super) fn points(
    record: &Record,
    place: &Place<'_>,
    function: &FunctionLines<'_>,
    (text, budget): (&OnceCell<Text>, &Budget),
) -> usize {
    let text = text.get_or_init(|| Text::new(function));
    let of_line = |line: &LabelledLine| {
        if line.text.is_empty() || !budget.spend(CANDIDATE_COST) {
            return 0;
        }
        let is_there = matches!(known_place(record, line, place, function, Match::FileAndName), Known::At(_));
        let best = text.candidates(line, budget).iter().map(|candidate| candidate.points(line)).max();
        best.unwrap_or(0) + usize::from(is_there)
    };
    record.lines.iter().map(of_line).sum()
}

enum Known {
    At(usize),
    Nowhere,
    ByText,
}

/// In the record's own text, lines are where it says; in a record that never knew a text, where the file has the line's
/// text at its number. A line without text is known by its number in the file alone.
fn known_place(
    record: &Record,
    line: &LabelledLine,
    place: &Place<'_>,
    function: &FunctionLines<'_>,
    how: Match,
) -> Known {
    let in_function = match (how, record.range) {
        (Match::Text, _) => Some(line.line),
        (_, Some((start, _))) => (start + line.line).checked_sub(place.first_line),
        _ => None,
    };
    if line.text.is_empty() {
        return match in_function {
            Some(at) if at < function.count() => Known::At(at),
            _ => Known::Nowhere,
        };
    }
    if how == Match::Text && line.line < function.count() && function.line(line.line) == line.text {
        return Known::At(line.line);
    }
    if record.body_sha256.is_none()
        && let Some(at) = in_function
        && at < function.count()
        && !function.is_blank(at)
        && key(function.line(at)) == key(&line.text)
    {
        return Known::At(at);
    }
    Known::ByText
}

/// The function's lines that are not blank, by what they hold but blanks.
#[derive(Debug)]
pub(super) struct Text {
    keys: Vec<String>,
    /// The line of each key.
    lines: Vec<usize>,
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
}

impl Candidate {
    fn points(self, line: &LabelledLine) -> usize {
        match self.is_changed {
            true => self.context,
            false if self.context == 0 && !is_telling(&line.text) => 0,
            false => 3 + self.context,
        }
    }
}

/// Where a labelled line is now.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Run {
    first: usize,
    last: usize,
    is_changed: bool,
}

impl Text {
    pub(super) fn new(function: &FunctionLines<'_>) -> Text {
        let mut text = Text {
            keys: Vec::new(),
            lines: Vec::new(),
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
    pub(super) fn holds(&self, lines: &[LabelledLine], budget: &Budget) -> bool {
        let holds = |line: &LabelledLine| {
            self.by_key.contains_key(&key(&line.text))
                && self.candidates(line, budget).iter().any(|candidate| candidate.context == 2)
        };
        lines.iter().any(|line| is_telling(&line.text)) && lines.iter().all(holds)
    }

    /// Per labelled line: where it is today.
    fn places(&self, labelled: &[&LabelledLine], budget: &Budget) -> Vec<Option<Run>> {
        let candidates: Vec<Vec<Candidate>> =
            labelled.iter().map(|line| self.candidates(line, budget)).collect();
        let mut chosen: Vec<Option<Candidate>> = labelled
            .iter()
            .zip(&candidates)
            .map(|(line, all)| only_one(all, is_telling(&line.text)))
            .collect();
        drop_second_claims(labelled, &mut chosen);
        // What is certain says how far lines moved; it tells the others apart.
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
                    (candidate.context, std::cmp::Reverse(off), std::cmp::Reverse(candidate.first))
                });
            taken.extend(chosen[index].map(|candidate| candidate.first));
        }
        chosen
            .into_iter()
            .map(|candidate| {
                candidate.map(|candidate| Run {
                    first: self.lines[candidate.first],
                    last: self.lines[candidate.last],
                    is_changed: candidate.is_changed,
                })
            })
            .collect()
    }

    fn shift(&self, line: &LabelledLine, candidate: Candidate) -> isize {
        self.lines[candidate.first].cast_signed() - line.line.cast_signed()
    }

    fn candidates(&self, line: &LabelledLine, budget: &Budget) -> Vec<Candidate> {
        let wanted = key(&line.text);
        let before = line.before.as_deref().map(key);
        let after = line.after.as_deref().map(key);
        if wanted.is_empty() {
            return Vec::new();
        }
        if let Some(same) = self.by_key.get(&wanted) {
            if !budget.spend(same.len().saturating_mul(CANDIDATE_COST)) {
                return Vec::new();
            }
            let candidate = |at: usize| Candidate {
                first: at,
                last: at,
                context: usize::from(self.is_before(at, &before)) + usize::from(self.is_after(at, &after)),
                is_changed: false,
            };
            return same.iter().copied().map(candidate).collect();
        }
        let broken = self.broken_differently(&wanted, &before, &after, budget);
        if !broken.is_empty() {
            return broken;
        }
        self.edited(&wanted, &before, &after, budget)
    }

    fn is_before(&self, at: usize, before: &Option<String>) -> bool {
        match (before, at.checked_sub(1)) {
            (None, None) => true,
            (Some(before), Some(above)) => self.keys[above] == *before,
            _ => false,
        }
    }

    fn is_after(&self, at: usize, after: &Option<String>) -> bool {
        match (after, self.keys.get(at + 1)) {
            (None, None) => true,
            (Some(after), Some(below)) => below == after,
            _ => false,
        }
    }

    /// The same text between the same neighbours, but with other line breaks.
    fn broken_differently(
        &self,
        wanted: &str,
        before: &Option<String>,
        after: &Option<String>,
        budget: &Budget,
    ) -> Vec<Candidate> {
        if !budget.spend(self.body.len()) {
            return Vec::new();
        }
        let context = before.as_ref().map_or(0, String::len) + after.as_ref().map_or(0, String::len);
        let key_at = |offset: usize| self.starts.partition_point(|start| *start <= offset) - 1;
        self.body
            .match_indices(wanted)
            .take_while(|_| budget.spend(CANDIDATE_COST + context))
            .filter(|(start, _)| {
                let (head, tail) = (&self.body[..*start], &self.body[start + wanted.len()..]);
                before.as_ref().map_or(head.is_empty(), |before| head.ends_with(before.as_str()))
                    && after.as_ref().map_or(tail.is_empty(), |after| tail.starts_with(after.as_str()))
            })
            .map(|(start, _)| Candidate {
                first: key_at(start),
                last: key_at(start + wanted.len() - 1),
                context: 2,
                is_changed: false,
            })
            .collect()
    }

    /// A line whose text changed: similar, and between the same neighbours, or very similar and beside one of them.
    fn edited(
        &self,
        wanted: &str,
        before: &Option<String>,
        after: &Option<String>,
        budget: &Budget,
    ) -> Vec<Candidate> {
        const BETWEEN_BOTH: f32 = 0.5;
        const BESIDE_ONE: f32 = 0.8;
        let of =
            |key: &Option<String>| key.as_ref().and_then(|key| self.by_key.get(key)).into_iter().flatten();
        let last = self.keys.len().checked_sub(1);
        let below = of(before).map(|above| above + 1).chain(before.is_none().then_some(0));
        let above =
            of(after).filter_map(|below| below.checked_sub(1)).chain(last.filter(|_| after.is_none()));
        if !budget.spend((of(before).count() + of(after).count()).saturating_mul(CANDIDATE_COST)) {
            return Vec::new();
        }
        let beside: BTreeSet<usize> = below.chain(above).filter(|at| *at < self.keys.len()).collect();
        beside
            .into_iter()
            .filter_map(|at| {
                let context = usize::from(self.is_before(at, before)) + usize::from(self.is_after(at, after));
                let least = if context == 2 { BETWEEN_BOTH } else { BESIDE_ONE };
                let both = wanted.len() + self.keys[at].len();
                let short = wanted.len() <= MOST_COMPARED && self.keys[at].len() <= MOST_COMPARED;
                // A diff takes at worst the square of the length.
                let is_similar = short
                    && budget.spend(both * both / 4)
                    && similar::TextDiff::from_chars(wanted, self.keys[at].as_str()).ratio() >= least;
                is_similar.then_some(Candidate { first: at, last: at, context, is_changed: true })
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

/// The candidate that stands out: the only one, or the only one with the most context. A line that says next to nothing,
/// such as a brace, needs a neighbour.
fn only_one(candidates: &[Candidate], is_telling: bool) -> Option<Candidate> {
    let most = candidates.iter().map(|candidate| candidate.context).max()?;
    let mut best = candidates.iter().filter(|candidate| candidate.context == most);
    let (first, second) = (best.next().copied(), best.next());
    let is_alone = is_telling && candidates.len() == 1;
    first.filter(|_| second.is_none() && (most > 0 || is_alone))
}

fn is_telling(text: &str) -> bool {
    const LEAST: usize = 3;
    text.chars().filter(|c| c.is_alphanumeric()).count() >= LEAST
}
