//! Lines as in the code that Pintore et al. (arXiv 2510.11202) published: units between newline and tab tokens, known by
//! their text. Kept as it is, quirks and all, so that its numbers can be reproduced; `docs/metrics.md` lists the quirks.

use super::{LineScore, first_non_whitespace, rank};
use crate::text::LineIndex;
use crate::tokens::Token;
use std::collections::{BTreeMap, HashSet};

/// What the published code takes for a line.
#[derive(Clone, Debug, PartialEq)]
pub struct Unit {
    /// 0-based line of the document on which the unit starts.
    pub line: usize,
    /// Its tokens without their spaces.
    pub text: String,
    /// Sum of the relevance of its tokens and of the separator behind it.
    pub raw: f64,
    /// `(raw − min) / (max − min + 1e-8)` over the units of the function.
    pub score: f64,
}

/// The published code's guard against a division by zero.
const EPSILON: f64 = 1e-8;

/// The units of a function. `texts[i]` are the bytes of `tokens[i]` as the tokenizer knows them, `relevance[i]` belongs to
/// it; `None` is a token that the model did not see, which the published code does not have either.
///
/// Every space is removed from a token and every tab becomes a newline. A token that then holds nothing but newlines
/// ends the unit and gives it its own relevance; where the unit is empty, that relevance is lost.
pub fn units(
    document: &str,
    lines: &LineIndex,
    tokens: &[Token],
    texts: &[Vec<u8>],
    relevance: &[Option<f64>],
    absolute: bool,
) -> Vec<Unit> {
    let mut units = Vec::new();
    let mut open = Open::default();
    for ((token, text), relevance) in tokens.iter().zip(texts).zip(relevance) {
        let Some(value) = relevance.filter(|value| value.is_finite()) else { continue };
        open.raw += if absolute { value.abs() } else { value };
        let kept: Vec<u8> = text.iter().filter(|byte| **byte != b' ').map(newline_for_tab).collect();
        if kept.iter().all(|byte| *byte == b'\n') {
            units.extend(std::mem::take(&mut open).close());
            continue;
        }
        open.line.get_or_insert_with(|| {
            lines.line_at(first_non_whitespace(document, token.span).unwrap_or(token.span.start))
        });
        open.text.extend(kept);
    }
    units.extend(open.close());
    rescale(&mut units);
    units
}

fn newline_for_tab(byte: &u8) -> u8 {
    if *byte == b'\t' { b'\n' } else { *byte }
}

/// A unit that is not ended yet.
#[derive(Default)]
struct Open {
    line: Option<usize>,
    text: Vec<u8>,
    raw: f64,
}

impl Open {
    /// Nothing where there is no text.
    fn close(self) -> Option<Unit> {
        let text = String::from_utf8_lossy(&self.text).into_owned();
        Some(Unit { line: self.line?, text, raw: self.raw, score: 0.0 })
    }
}

fn rescale(units: &mut [Unit]) {
    let min = units.iter().map(|unit| unit.raw).fold(f64::INFINITY, f64::min);
    let max = units.iter().map(|unit| unit.raw).fold(f64::NEG_INFINITY, f64::max);
    units.iter_mut().for_each(|unit| unit.score = (unit.raw - min) / (max - min + EPSILON));
}

/// Scores by physical line, in line order: that of the best unit which starts there.
pub fn by_line(units: &[Unit]) -> Vec<LineScore> {
    let mut best: BTreeMap<usize, LineScore> = BTreeMap::new();
    for unit in units {
        let found = LineScore { line: unit.line, raw: unit.raw, score: unit.score, rank: 0 };
        let line = best.entry(unit.line).or_insert(found);
        if unit.raw > line.raw {
            *line = found;
        }
    }
    let mut scored: Vec<LineScore> = best.into_values().collect();
    rank(&mut scored);
    scored
}

/// Which units count as ground truth: those whose text is that of one of the ground-truth lines, stripped and without
/// spaces. So equal lines count together, a line that was cut into several units or that ends in CRLF never counts, and
/// one that the model did not see does not exist.
pub fn truth<'a>(units: &[Unit], ground_truth: impl IntoIterator<Item = &'a str>) -> Vec<bool> {
    let lines: HashSet<String> = ground_truth.into_iter().map(|line| line.trim().replace(' ', "")).collect();
    units.iter().map(|unit| lines.contains(&unit.text)).collect()
}
