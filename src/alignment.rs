//! How far the lines that drove a prediction are the lines that are really vulnerable.
//!
//! [`align`] compares one function; the modules below sum functions up to what is said of a dataset. All of it is
//! arithmetic on plain numbers: nothing here knows models, methods or files.

pub mod curves;
pub mod functions;
pub mod intervals;
pub mod localisation;
pub mod pairs;
mod permutation;
mod random;
mod rank;

pub use rank::spearman;

use crate::lines::LineScore;
use std::collections::HashSet;
use std::fmt;

/// The k of top-k hits.
pub const TOP_K: [usize; 4] = [1, 3, 5, 10];

/// What was found out about one function beside its line scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdicts {
    /// The detector flagged it.
    pub predicted_vulnerable: bool,
    /// The ground truth says that it is vulnerable.
    pub labelled_vulnerable: bool,
}

/// Why there is no Detection Alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Undefined {
    /// The ground truth does not call the function vulnerable.
    NotVulnerable,
    /// The ground truth calls the function vulnerable but names no line of it.
    NoLines,
}

impl fmt::Display for Undefined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Undefined::NotVulnerable => "the ground truth does not call the function vulnerable",
            Undefined::NoLines => "the ground truth names no line of the function",
        })
    }
}

/// Agreement of one function's line scores with its ground-truth lines.
///
/// `da`, `null_all_lines` and `null_permutation` are set exactly where there are ground-truth lines.
#[derive(Clone, Debug, PartialEq)]
pub struct Alignment {
    /// Detection Alignment, 0..=1; 0 for a vulnerable function that was predicted benign.
    pub da: Result<f64, Undefined>,
    /// What `da` would be if the function had been flagged; only where it was not.
    pub would_be: Option<f64>,
    /// DA of an explanation that scores every scored line 1: |G ∩ S| / |S ∪ G|.
    pub null_all_lines: Option<f64>,
    /// Mean DA over all permutations of the scores within the function. Like `null_all_lines` it is about the
    /// explanation: where the function was predicted benign, it stands beside `would_be`.
    pub null_permutation: Option<f64>,
    /// Σ min(μ, 1_G); 0 where the function was predicted benign.
    pub intersection: f64,
    /// Σ max(μ, 1_G); |G| where the function was predicted benign.
    pub union: f64,
    /// Clean lines ranked before the first true one; `None` where no true line was scored.
    pub ifa: Option<usize>,
    /// For each of [`TOP_K`]: is a true line among the first k?
    pub top_k: [bool; TOP_K.len()],
    /// Number of scored lines, |S|.
    pub scored: usize,
    /// Σ μ, and the part of it on true lines, whatever the verdict.
    pub relevance: f64,
    pub relevance_on_truth: f64,
    /// Number of ground-truth lines, |G|.
    pub truth: usize,
    /// Ground-truth lines that were not scored, so that the explanation could not name them; they stay in the union.
    pub outside_window: usize,
}

/// Detection Alignment of one function (Pintore et al., arXiv 2510.11202, Eq. 7) and what stands beside it.
///
/// `scored` are the scored lines S with scores μ in 0..=1, in line order; `truth` are the ground-truth lines G in the
/// same numbering, in any order. DA = Σ min(μ, 1_G) / Σ max(μ, 1_G) over S ∪ G, with μ = 0 outside S. Lines of G that
/// were not scored stay in the union.
pub fn align(scored: &[LineScore], truth: &[usize], verdicts: Verdicts) -> Alignment {
    let truth: HashSet<usize> = truth.iter().copied().collect();
    let units: Vec<Unit> =
        scored.iter().map(|line| Unit { score: line.score, is_true: truth.contains(&line.line) }).collect();
    let seen = units.iter().filter(|unit| unit.is_true).count();
    align_units(&units, truth.len() - seen, verdicts)
}

/// [`align`] for each of several annotators.
pub fn align_each<'a>(
    scored: &[LineScore],
    annotators: impl IntoIterator<Item = (&'a str, &'a [usize])>,
    verdicts: Verdicts,
) -> Vec<(&'a str, Alignment)> {
    annotators.into_iter().map(|(name, truth)| (name, align(scored, truth, verdicts))).collect()
}

/// What is scored as one: a line, or a statement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unit {
    /// Rescaled relevance, 0..=1; what is no number counts as 0.
    pub score: f64,
    pub is_true: bool,
}

/// [`align`] over units of any kind, in the order of the text; `outside` true units were not scored.
pub fn align_units(units: &[Unit], outside: usize, verdicts: Verdicts) -> Alignment {
    align_scored(units, outside, outside > 0 || units.iter().any(|unit| unit.is_true), verdicts)
}

/// [`align_units`] of a function whose ground truth names lines, although perhaps no unit is one of them: then DA is 0,
/// as in the code that the authors of DA published, where lines that no unit matches do not exist.
pub fn align_matched_units(units: &[Unit], verdicts: Verdicts) -> Alignment {
    align_scored(units, 0, true, verdicts)
}

fn align_scored(units: &[Unit], outside: usize, has_lines: bool, verdicts: Verdicts) -> Alignment {
    let scores: Vec<f64> = units.iter().map(|unit| bounded(unit.score)).collect();
    let seen = units.iter().filter(|unit| unit.is_true).count();
    let truth = seen + outside;
    let (ifa, top_k) = first_true(units, &scores);
    let on = |wanted: bool| -> f64 {
        let wanted = units.iter().zip(&scores).filter(|(unit, _)| unit.is_true == wanted);
        // The sum of no floats is −0.
        wanted.map(|(_, score)| score).sum::<f64>() + 0.0
    };
    let (on_truth, on_clean) = (on(true), on(false));
    let undefined = |reason| Alignment {
        da: Err(reason),
        would_be: None,
        null_all_lines: None,
        null_permutation: None,
        intersection: 0.0,
        union: 0.0,
        ifa,
        top_k,
        scored: units.len(),
        relevance: on_truth + on_clean,
        relevance_on_truth: on_truth,
        truth,
        outside_window: outside,
    };
    if !verdicts.labelled_vulnerable {
        return undefined(Undefined::NotVulnerable);
    }
    if !has_lines {
        return undefined(Undefined::NoLines);
    }
    // On a true line min is μ and max is 1; on a clean one min is 0 and max is μ.
    let (intersection, union) = (on_truth, truth as f64 + on_clean);
    let explained = ratio(intersection, union);
    let all_lines = ratio(seen as f64, (units.len() + outside) as f64);
    let flagged = verdicts.predicted_vulnerable;
    Alignment {
        da: Ok(if flagged { explained } else { 0.0 }),
        would_be: (!flagged).then_some(explained),
        null_all_lines: Some(all_lines),
        null_permutation: Some(permutation::mean_alignment(&scores, seen, outside)),
        intersection: if flagged { intersection } else { 0.0 },
        union: if flagged { union } else { truth as f64 },
        ..undefined(Undefined::NoLines)
    }
}

/// Initial False Alarm and top-k hits (Fu & Tantithamthavorn, MSR 2022): ranked by score, ties in the order of the text.
fn first_true(units: &[Unit], scores: &[f64]) -> (Option<usize>, [bool; TOP_K.len()]) {
    let mut order: Vec<usize> = (0..units.len()).collect();
    order.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
    let ifa = order.iter().position(|unit| units[*unit].is_true);
    (ifa, TOP_K.map(|k| ifa.is_some_and(|before| before < k)))
}

/// 0 where there is nothing: no unit is true, and none has a score.
fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

fn bounded(score: f64) -> f64 {
    // Adding 0 makes −0 of a negative score's clamp 0: ties are ties.
    if score.is_nan() { 0.0 } else { score.clamp(0.0, 1.0) + 0.0 }
}
