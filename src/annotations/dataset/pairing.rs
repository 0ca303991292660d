//! PrimeVul's paired files: which rows are a function and its fix. Rows that are not surely so are bad rows, each with the
//! reason, since the flaw lines of a wrong pair would be wrong.

use super::json::{object, optional, paired, target};
use super::rows::JsonRows;
use crate::annotations::problem::{RowError, RowProblem};
use crate::annotations::{FunctionLines, Label, Sample};
use similar::TextDiff;
use std::collections::VecDeque;

/// Rows of one commit that are held to be told apart.
const MOST_HELD: usize = 256;
/// Longer texts are not compared with others than their neighbour.
const MOST_COMPARED: usize = 20_000;
/// The share of equal lines from which two texts may be versions of one function, and of one that was renamed.
const ALIKE: f32 = 0.5;
const NEARLY_THE_SAME: f32 = 0.8;

type Ready = VecDeque<Result<Sample, RowError>>;

/// Rows that follow each other and have one commit.
#[derive(Debug, Default)]
pub(super) struct Pairing {
    run: Vec<Sample>,
    /// Whether a row before the first of them, or behind the last, was bad.
    is_cut_before: bool,
    is_cut_after: bool,
}

impl Pairing {
    /// `None` where the first rows of a file are no pairs.
    pub(super) fn of_file(head: &[u8]) -> Option<Pairing> {
        is_paired(head).then(Pairing::default)
    }

    pub(super) fn take(&mut self, sample: Sample, name: &str, ready: &mut Ready) {
        let continues = self.run.last().is_some_and(|last| {
            last.row + 1 == sample.row && last.commit.is_some() && last.commit == sample.commit
        });
        if !continues {
            self.flush(name, ready);
        } else if self.run.len() >= MOST_HELD {
            // All but the last function's rows.
            let rest = self.run.split_off(chains(&self.run).last().copied().unwrap_or(0));
            self.flush(name, ready);
            self.run = rest;
        }
        self.run.push(sample);
    }

    /// A row that could not be read.
    pub(super) fn cut(&mut self, name: &str, ready: &mut Ready) {
        self.is_cut_after = true;
        self.flush(name, ready);
        self.is_cut_before = true;
    }

    pub(super) fn flush(&mut self, name: &str, ready: &mut Ready) {
        let is_cut = [self.is_cut_before, self.is_cut_after];
        (self.is_cut_before, self.is_cut_after) = (false, false);
        let run = std::mem::take(&mut self.run);
        let starts = chains(&run);
        let is_of_two = run.len() == 2 && is_cut == [false; 2];
        if starts.len() == 2 && is_of_two && are_turned(&run[0], &run[1]) {
            // Nothing else of the commit is there.
            let is_renamed = likeness(&run[0], &run[1]) >= NEARLY_THE_SAME;
            return emit(run, &if is_renamed { vec![0] } else { vec![] }, name, ready);
        }
        let count = run.len();
        let ends = starts.iter().skip(1).copied().chain([count]);
        let mut pairs = Vec::new();
        for (start, end) in starts.iter().copied().zip(ends) {
            let may_lack_both = is_cut[0] && start == 0 && is_cut[1] && end == count;
            let chain = &run[start..end];
            let of_chain = if chain.len().is_multiple_of(2) && !may_lack_both {
                in_order(chain)
            } else {
                by_likeness(chain)
            };
            pairs.extend(of_chain.into_iter().map(|at| start + at));
        }
        emit(run, &pairs, name, ready);
    }
}

fn are_turned(a: &Sample, b: &Sample) -> bool {
    a.record.label != b.record.label
}

/// Where in rows of one commit those of another function begin: a row of another name, or of the label of the row before.
fn chains(run: &[Sample]) -> Vec<usize> {
    let names: Vec<String> = run.iter().map(|sample| name_of(&sample.code)).collect();
    let begins = |at: &usize| *at == 0 || !are_turned(&run[at - 1], &run[*at]) || names[at - 1] != names[*at];
    (0..run.len()).filter(begins).collect()
}

/// The first row of each pair, where none is missing.
fn in_order(chain: &[Sample]) -> Vec<usize> {
    (0..chain.len()).step_by(2).collect()
}

/// The first row of each two that are more alike than either is like the row on its other side: a row is missing, and it
/// may be any.
fn by_likeness(chain: &[Sample]) -> Vec<usize> {
    let alike: Vec<f32> = chain.windows(2).map(|two| likeness(&two[0], &two[1])).collect();
    let is_most = |at: &usize| {
        let beside = [at.checked_sub(1), Some(at + 1)];
        let others = beside.into_iter().flatten().filter_map(|other| alike.get(other));
        alike[*at] >= ALIKE && others.into_iter().all(|other| *other < alike[*at])
    };
    (0..alike.len()).filter(is_most).collect()
}

/// The share of lines that two texts have in common.
fn likeness(a: &Sample, b: &Sample) -> f32 {
    if a.code.len() + b.code.len() > MOST_COMPARED {
        return 0.0;
    }
    let lines = |sample: &Sample| -> Vec<String> {
        FunctionLines::new(&sample.code).iter().map(|line| line.trim().to_string()).collect()
    };
    let (a, b) = (lines(a), lines(b));
    let a: Vec<&str> = a.iter().map(String::as_str).collect();
    let b: Vec<&str> = b.iter().map(String::as_str).collect();
    TextDiff::from_slices(&a, &b).ratio()
}

/// What stands before the first bracket; of a macro, what is in it, too.
fn name_of(code: &str) -> String {
    let head = code.split('{').next().unwrap_or_default();
    let Some((before, within)) = head.split_once('(') else { return head.split_whitespace().collect() };
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':' | '~');
    let before = before.trim_end();
    let name = &before[before
        .rfind(|c| !is_part(c))
        .map_or(0, |at| at + before[at..].chars().next().map_or(1, char::len_utf8))..];
    let is_macro = name.starts_with("__") || !name.chars().any(char::is_lowercase);
    if !is_macro {
        return name.to_string();
    }
    format!("{name}({})", within.split(')').next().unwrap_or_default().split_whitespace().collect::<String>())
}

/// Gives rows on in their order: pairs, of which `pairs` has the first rows, and the others with the reason why they are none.
fn emit(run: Vec<Sample>, pairs: &[usize], name: &str, ready: &mut Ready) {
    let alone = if run.len() == 1 { RowProblem::NoPartner } else { RowProblem::UnsurePartner };
    let mut rows = run.into_iter().enumerate();
    while let Some((at, sample)) = rows.next() {
        let other = if pairs.contains(&at) { rows.next() } else { None };
        let Some((_, other)) = other else {
            ready.push_back(Err(RowError { row: sample.row, reason: alone.clone() }));
            continue;
        };
        let (first, second) = (sample.row, other.row);
        let (vulnerable, fixed) =
            if sample.record.label == Label::Vulnerable { (sample, other) } else { (other, sample) };
        match paired(vulnerable, fixed, format!("{name}:{first}")) {
            Ok(samples) => ready.extend(samples.map(Ok)),
            Err(reason) => {
                let errors = [first, second].map(|row| Err(RowError { row, reason: reason.clone() }));
                ready.extend(errors);
            }
        }
    }
}

/// Whether the first rows are pairs. Faults here and there do not make pairs of a file single rows, nor a few neighbours of
/// one commit single rows pairs.
fn is_paired(head: &[u8]) -> bool {
    const LOOKED_AT: usize = 1000;
    let Ok(rows) = JsonRows::new(head) else { return false };
    let rows: Vec<(usize, bool, String)> = rows
        .take(LOOKED_AT)
        .filter_map(|(number, bytes)| {
            let row = object(&bytes.ok()?).ok()?;
            Some((number, target(&row, "target").ok()?, optional(&row, "commit_id").ok()??.to_string()))
        })
        .collect();
    let (mut found, mut alone, mut at) = (0_usize, [0_usize; 2], 0);
    while let Some((number, target, commit)) = rows.get(at) {
        let is_pair = rows.get(at + 1).is_some_and(|(next, other, commit_of_other)| {
            number + 1 == *next && target != other && commit == commit_of_other
        });
        if is_pair {
            found += 1;
            at += 2;
        } else {
            alone[usize::from(*target)] += 1;
            at += 1;
        }
    }
    let most = found * 3 >= rows.len();
    let half = found * 4 >= rows.len() && alone[0].abs_diff(alone[1]) <= 1;
    found > 0 && (most || half)
}
