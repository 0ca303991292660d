//! A dataset's functions summed up: Detection Alignment with its nulls, and how soon a reader meets the true lines.

use super::curves::{self, Scored};
use super::intervals::{self, Interval};
use super::{Alignment, TOP_K, Undefined, Unit};

/// A figure as the mean over functions and as pooled sums.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Mean over the functions, as the paper's text has it (arXiv 2510.11202).
    pub mean: f64,
    /// Σ intersections / Σ unions, as its authors' code has it.
    pub pooled: f64,
}

/// Detection Alignment over the vulnerable functions with ground-truth lines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AlignmentSummary {
    /// How many these are.
    pub functions: usize,
    /// How many of them were flagged; the others have DA 0.
    pub flagged: usize,
    /// Ground-truth lines that were not scored, and in how many functions.
    pub lines_outside: usize,
    pub functions_outside: usize,
    pub da: Figures,
    pub mean_interval: Option<Interval>,
    pub pooled_interval: Option<Interval>,
    /// The verdicts as they are, every scored line of a flagged function at 1.
    pub null_all_lines: Figures,
    /// The verdicts as they are, the scores of a flagged function permuted: the mean over all permutations; pooled,
    /// the ratio of the expected sums.
    pub null_permutation: Figures,
    /// The same three as if every function had been flagged: the explanation without the verdict.
    pub would_be: Figures,
    pub would_be_null_all_lines: Figures,
    pub would_be_null_permutation: Figures,
}

/// What one function adds to a sum of intersections, a sum of unions and a sum of DA.
#[derive(Clone, Copy, Debug)]
struct Part {
    intersection: f64,
    union: f64,
    da: f64,
}

/// Sums up; functions whose DA is undefined are left out. `None` where none is left.
pub fn summarize(alignments: &[Alignment], seed: u64) -> Option<AlignmentSummary> {
    let defined: Vec<&Alignment> = alignments.iter().filter(|alignment| alignment.da.is_ok()).collect();
    if defined.is_empty() {
        return None;
    }
    let measured: Vec<Part> = defined.iter().map(|alignment| alignment.measured()).collect();
    let resampled = |value: fn(&[Part]) -> f64| {
        let mut drawn_parts = Vec::with_capacity(measured.len());
        intervals::bootstrap(measured.len(), seed, |drawn| {
            drawn_parts.clear();
            drawn_parts.extend(drawn.iter().map(|index| measured[*index]));
            Some(value(&drawn_parts))
        })
    };
    let all = |part: fn(&Alignment) -> Part| {
        figures(&defined.iter().map(|alignment| part(alignment)).collect::<Vec<_>>())
    };
    Some(AlignmentSummary {
        functions: defined.len(),
        flagged: defined.iter().filter(|alignment| alignment.is_flagged()).count(),
        lines_outside: defined.iter().map(|alignment| alignment.outside_window).sum(),
        functions_outside: defined.iter().filter(|alignment| alignment.outside_window > 0).count(),
        da: figures(&measured),
        mean_interval: resampled(mean),
        pooled_interval: resampled(pooled),
        null_all_lines: all(|alignment| alignment.given_verdict(alignment.all_lines())),
        null_permutation: all(|alignment| alignment.given_verdict(alignment.permuted())),
        would_be: all(Alignment::explained),
        would_be_null_all_lines: all(Alignment::all_lines),
        would_be_null_permutation: all(Alignment::permuted),
    })
}

/// How many functions have no DA, by reason.
pub fn undefined(alignments: &[Alignment]) -> [(Undefined, usize); 2] {
    [Undefined::NotVulnerable, Undefined::NoLines]
        .map(|reason| (reason, alignments.iter().filter(|alignment| alignment.da == Err(reason)).count()))
}

fn figures(parts: &[Part]) -> Figures {
    Figures { mean: mean(parts), pooled: pooled(parts) }
}

fn mean(parts: &[Part]) -> f64 {
    parts.iter().map(|part| part.da).sum::<f64>() / parts.len() as f64
}

/// No union is 0: it holds at least one ground-truth line.
fn pooled(parts: &[Part]) -> f64 {
    let intersection: f64 = parts.iter().map(|part| part.intersection).sum();
    intersection / parts.iter().map(|part| part.union).sum::<f64>()
}

impl Alignment {
    fn is_flagged(&self) -> bool {
        self.would_be.is_none()
    }

    fn measured(&self) -> Part {
        Part { intersection: self.intersection, union: self.union, da: self.da.unwrap_or(0.0) }
    }

    fn explained(&self) -> Part {
        let intersection = self.relevance_on_truth;
        let union = self.truth as f64 + self.relevance - intersection;
        Part { intersection, union, da: intersection / union }
    }

    fn all_lines(&self) -> Part {
        let (seen, lines) =
            ((self.truth - self.outside_window) as f64, (self.scored + self.outside_window) as f64);
        Part { intersection: seen, union: lines, da: self.null_all_lines.unwrap_or(0.0) }
    }

    fn permuted(&self) -> Part {
        let seen = (self.truth - self.outside_window) as f64;
        let intersection = if self.scored == 0 { 0.0 } else { self.relevance * seen / self.scored as f64 };
        let union = self.truth as f64 + self.relevance - intersection;
        Part { intersection, union, da: self.null_permutation.unwrap_or(0.0) }
    }

    fn given_verdict(&self, part: Part) -> Part {
        if self.is_flagged() { part } else { Part { intersection: 0.0, union: self.truth as f64, da: 0.0 } }
    }
}

/// A flagged function whose true lines are known: a vulnerable one with ground-truth lines, or a benign one, which has
/// none.
#[derive(Clone, Debug, PartialEq)]
pub struct Flagged {
    pub units: Vec<Unit>,
    /// True lines that were not scored.
    pub outside: usize,
}

/// Localisation over the flagged functions (Fu & Tantithamthavorn, MSR 2022); what is undefined is `None`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Localisation {
    pub flagged: usize,
    /// Those with ground-truth lines: IFA and top-k are about these.
    pub with_truth: usize,
    /// Of these, the ones in which no true line was scored: they have no IFA and no hit.
    pub without_scored_truth: usize,
    pub ifa_mean: Option<f64>,
    pub ifa_median: Option<f64>,
    /// For each of [`TOP_K`]: share of `with_truth` with a true line among the first k.
    pub top_k: [Option<f64>; TOP_K.len()],
    /// Share of the scored lines read, best first, until 20% of the true lines are met; `None` where that many were
    /// not scored.
    pub effort_at_20_recall: Option<f64>,
    /// Share of the true lines within the best 1% of the scored lines.
    pub recall_at_1_loc: Option<f64>,
    /// ROC-AUC of the scored lines.
    pub line_roc_auc: Option<f64>,
}

/// Sums up. Lines of all functions are ranked together by score; among lines of equal score the true ones are taken to be
/// spread evenly, since their order means nothing (every function has a line of score 1).
pub fn localisation(functions: &[Flagged]) -> Localisation {
    let with_truth: Vec<Alignment> = functions
        .iter()
        .filter(|function| function.outside > 0 || function.units.iter().any(|unit| unit.is_true))
        .map(|function| {
            let verdicts = super::Verdicts { predicted_vulnerable: true, labelled_vulnerable: true };
            super::align_units(&function.units, function.outside, verdicts)
        })
        .collect();
    let mut ifa: Vec<usize> = with_truth.iter().filter_map(|alignment| alignment.ifa).collect();
    ifa.sort_unstable();
    let share = |count: usize| (!with_truth.is_empty()).then(|| count as f64 / with_truth.len() as f64);
    let lines: Vec<Scored> = functions
        .iter()
        .flat_map(|function| &function.units)
        .map(|unit| Scored { score: super::bounded(unit.score), positive: unit.is_true })
        .collect();
    let outside: usize = functions.iter().map(|function| function.outside).sum();
    let curve = Curve::new(&lines, outside);
    let place = |k: usize| share(with_truth.iter().filter(|alignment| alignment.top_k[k]).count());
    Localisation {
        flagged: functions.len(),
        with_truth: with_truth.len(),
        without_scored_truth: with_truth.len() - ifa.len(),
        ifa_mean: (!ifa.is_empty()).then(|| ifa.iter().sum::<usize>() as f64 / ifa.len() as f64),
        ifa_median: median(&ifa),
        top_k: [place(0), place(1), place(2), place(3)],
        effort_at_20_recall: curve.effort(0.2),
        recall_at_1_loc: curve.recall(0.01),
        line_roc_auc: curves::roc_auc(&lines),
    }
}

fn median(sorted: &[usize]) -> Option<f64> {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        length if length % 2 == 1 => Some(sorted[middle] as f64),
        _ => Some((sorted[middle - 1] + sorted[middle]) as f64 / 2.0),
    }
}

/// Lines read against true lines met.
struct Curve {
    /// True and clean lines of each distinct score, best first.
    groups: Vec<(f64, f64)>,
    lines: f64,
    /// All true lines, scored or not.
    truth: f64,
}

impl Curve {
    fn new(lines: &[Scored], outside: usize) -> Curve {
        let groups = curves::groups(lines).unwrap_or_default();
        let truth = lines.iter().filter(|line| line.positive).count() + outside;
        Curve { groups, lines: lines.len() as f64, truth: truth as f64 }
    }

    /// Share of the lines read until `recall` of the true lines are met.
    fn effort(&self, recall: f64) -> Option<f64> {
        if self.truth == 0.0 {
            return None;
        }
        let mut missing = recall * self.truth;
        let mut read = 0.0;
        for (true_lines, clean_lines) in &self.groups {
            let size = true_lines + clean_lines;
            if *true_lines >= missing {
                return Some((read + size * missing / true_lines) / self.lines);
            }
            missing -= true_lines;
            read += size;
        }
        None
    }

    /// Share of the true lines met once `effort` of the lines are read.
    fn recall(&self, effort: f64) -> Option<f64> {
        if self.truth == 0.0 {
            return None;
        }
        let mut left = effort * self.lines;
        let mut met = 0.0;
        for (true_lines, clean_lines) in &self.groups {
            let size = true_lines + clean_lines;
            met += true_lines * (left / size).min(1.0);
            left -= size;
            if left <= 0.0 {
                break;
            }
        }
        Some(met / self.truth)
    }
}
