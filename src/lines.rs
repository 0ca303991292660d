//! From token relevance to line scores.

pub mod heat;
pub mod reference;

use crate::text::{ByteSpan, LineIndex};
use crate::tokens::Token;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// A scored line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LineScore {
    /// 0-based line of the document.
    pub line: usize,
    /// Sum of the relevance of the line's tokens (signed).
    pub raw: f64,
    /// `raw` rescaled to 0..=1 over the scored lines of the function; all equal → 0.
    pub score: f64,
    /// 1 = most relevant; ties in line order.
    pub rank: usize,
}

impl LineScore {
    /// Whether it is among the `count` most relevant lines. The least relevant ones of a function, whose score is 0, are
    /// not, however short it is.
    pub fn is_top(&self, count: usize) -> bool {
        self.rank <= count && self.score > 0.0
    }
}

/// The lines of one function: scored lines and unseen lines, both in line order and disjoint.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct LineScores {
    pub scored: Vec<LineScore>,
    /// 0-based lines with code that the model did not see: all of the line's non-whitespace tokens were cut off.
    pub unseen: Vec<usize>,
}

/// The tokens of one line, by their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineTokens {
    /// 0-based line of the document.
    pub line: usize,
    pub tokens: Vec<usize>,
}

/// Which tokens belong to which line, for the lines that hold code, in line order; by the same rule as [`aggregate`].
pub fn tokens_by_line(document: &str, lines: &LineIndex, tokens: &[Token]) -> Vec<LineTokens> {
    let mut found: BTreeMap<usize, (bool, Vec<usize>)> = BTreeMap::new();
    for (number, token) in tokens.iter().enumerate() {
        let code = first_non_whitespace(document, token.span);
        let (has_code, of_line) = found.entry(lines.line_at(code.unwrap_or(token.span.start))).or_default();
        *has_code |= code.is_some();
        of_line.push(number);
    }
    let with_code = found.into_iter().filter(|(_, (has_code, _))| *has_code);
    with_code.map(|(line, (_, tokens))| LineTokens { line, tokens }).collect()
}

/// Sums token relevance per line and rescales (Pintore et al., arXiv 2510.11202, Eq. 6).
///
/// A token belongs to the line on which its first non-whitespace byte lies, a whitespace-only token to the line on
/// which it starts. Whitespace-only tokens count for their line, but a line without any token that holds a
/// non-whitespace byte is not scored and its whitespace tokens count nowhere. `relevance[i]` belongs to `tokens[i]`;
/// `None` is a token that the model did not see. With `absolute`, Σ|r| instead of Σr.
///
/// A line is scored as soon as the model saw one of its non-whitespace tokens. A relevance that is NaN or infinite
/// says nothing about its token, so it is handled like `None`: counted as 0 it would pass for "no influence", and
/// as it is it would spoil the scale of every other line.
pub fn aggregate(
    document: &str,
    lines: &LineIndex,
    tokens: &[Token],
    relevance: &[Option<f64>],
    absolute: bool,
) -> LineScores {
    let mut sums: BTreeMap<usize, LineSum> = BTreeMap::new();
    let relevance = relevance.iter().copied().chain(std::iter::repeat(None));
    for (token, relevance) in tokens.iter().zip(relevance) {
        let code = first_non_whitespace(document, token.span);
        let sum = sums.entry(lines.line_at(code.unwrap_or(token.span.start))).or_default();
        sum.add(code.is_some(), relevance, absolute);
    }

    let mut scores = LineScores::default();
    for (line, sum) in sums {
        scores.push(line, &sum);
    }
    rescale(&mut scores.scored);
    rank(&mut scores.scored);
    scores
}

/// Relevance of groups of tokens that are not lines, for example statements.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct UnitScores {
    /// The 0-based lines of the document that hold code of each unit, in order.
    pub lines: Vec<Vec<usize>>,
    /// Scored and unseen units; a unit's number, its index in `lines`, stands in the place of a line.
    pub scores: LineScores,
}

impl UnitScores {
    /// The units that have one of these lines; a line without a unit gets a number of its own behind all units.
    pub fn units_of(&self, lines: &[usize]) -> Vec<usize> {
        let is_of = |unit: &Vec<usize>| unit.iter().any(|line| lines.contains(line));
        let mut units: Vec<usize> =
            (0..self.lines.len()).filter(|number| self.lines.get(*number).is_some_and(is_of)).collect();
        let without = lines.iter().filter(|line| !self.lines.iter().any(|unit| unit.contains(line)));
        units.extend((self.lines.len()..).zip(without).map(|(number, _)| number));
        units
    }

    /// What is shown on the lines: the relevance of the unit on them, of several the most relevant one's.
    pub fn on_lines(&self) -> LineScores {
        let mut shown: BTreeMap<usize, LineScore> = BTreeMap::new();
        for score in &self.scores.scored {
            for line in self.lines.get(score.line).into_iter().flatten() {
                let of_line = shown.entry(*line).or_insert(LineScore { line: *line, ..*score });
                if score.raw > of_line.raw {
                    *of_line = LineScore { line: *line, ..*score };
                }
            }
        }
        let unseen = self.scores.unseen.iter().filter_map(|unit| self.lines.get(*unit)).flatten();
        let unseen: BTreeSet<usize> = unseen.copied().filter(|line| !shown.contains_key(line)).collect();
        let mut scored: Vec<LineScore> = shown.into_values().collect();
        rank(&mut scored);
        LineScores { scored, unseen: unseen.into_iter().collect() }
    }
}

/// Sums token relevance per unit and rescales over the units ("groups of tokens corresponding to source code
/// entities", Pintore et al., arXiv 2510.11202, Section III).
///
/// `units[i]` is the unit of the first byte of `tokens[i]` that is no whitespace, or of its start where there is none.
/// As in [`aggregate`], whitespace on a line without code counts nowhere. Units are numbered anew, in the order of
/// their first token with code.
pub fn aggregate_units(
    document: &str,
    lines: &LineIndex,
    tokens: &[Token],
    units: &[usize],
    relevance: &[Option<f64>],
    absolute: bool,
) -> UnitScores {
    let line_of = |token: &Token| {
        let code = first_non_whitespace(document, token.span);
        (code.is_some(), lines.line_at(code.unwrap_or(token.span.start)))
    };
    let with_code: BTreeSet<usize> =
        tokens.iter().map(line_of).filter(|(has_code, _)| *has_code).map(|(_, line)| line).collect();
    let mut sums: BTreeMap<usize, (usize, LineSum, BTreeSet<usize>)> = BTreeMap::new();
    let relevance = relevance.iter().copied().chain(std::iter::repeat(None));
    for (number, ((token, unit), relevance)) in tokens.iter().zip(units).zip(relevance).enumerate() {
        let (has_code, line) = line_of(token);
        if !with_code.contains(&line) {
            continue;
        }
        let (first, sum, of_unit) =
            sums.entry(*unit).or_insert_with(|| (usize::MAX, LineSum::default(), BTreeSet::new()));
        if has_code {
            *first = number.min(*first);
            of_unit.insert(line);
        }
        sum.add(has_code, relevance, absolute);
    }
    let mut sums: Vec<_> = sums.into_values().filter(|(_, sum, _)| sum.has_code).collect();
    sums.sort_by_key(|(first, ..)| *first);

    let mut found = UnitScores::default();
    for (unit, (_, sum, of_unit)) in sums.into_iter().enumerate() {
        found.lines.push(of_unit.into_iter().collect());
        found.scores.push(unit, &sum);
    }
    rescale(&mut found.scores.scored);
    rank(&mut found.scores.scored);
    found
}

impl LineScores {
    fn push(&mut self, line: usize, sum: &LineSum) {
        if sum.has_seen_code {
            // Finite terms may still add up to infinity.
            let raw = sum.raw.clamp(f64::MIN, f64::MAX);
            self.scored.push(LineScore { line, raw, score: 0.0, rank: 0 });
        } else if sum.has_code {
            self.unseen.push(line);
        }
    }
}

#[derive(Default)]
struct LineSum {
    raw: f64,
    /// Some token, seen or not, holds a non-whitespace byte.
    has_code: bool,
    has_seen_code: bool,
}

impl LineSum {
    fn add(&mut self, has_code: bool, relevance: Option<f64>, absolute: bool) {
        self.has_code |= has_code;
        if let Some(value) = relevance.filter(|value| value.is_finite()) {
            self.has_seen_code |= has_code;
            self.raw += if absolute { value.abs() } else { value };
        }
    }
}

/// `(raw − min) / (max − min)`; all equal → 0.
fn rescale(scored: &mut [LineScore]) {
    let min = scored.iter().map(|line| line.raw).fold(f64::INFINITY, f64::min);
    let max = scored.iter().map(|line| line.raw).fold(f64::NEG_INFINITY, f64::max);
    if min >= max {
        return;
    }
    for line in scored {
        let ratio = (line.raw - min) / (max - min);
        // Only the difference of two huge values of opposite sign overflows; halves do not.
        let ratio = if (max - min).is_finite() {
            ratio
        } else {
            (line.raw / 2.0 - min / 2.0) / (max / 2.0 - min / 2.0)
        };
        line.score = ratio.clamp(0.0, 1.0);
    }
}

/// 1 for the largest raw value; the sort is stable, so ties keep the line order.
fn rank(scored: &mut [LineScore]) {
    let mut order: Vec<usize> = (0..scored.len()).collect();
    order.sort_by(|a, b| scored[*b].raw.partial_cmp(&scored[*a].raw).unwrap_or(Ordering::Equal));
    for (position, index) in order.into_iter().enumerate() {
        scored[index].rank = position + 1;
    }
}

/// Where a token counts: its first byte that is no whitespace, or its start where there is none.
pub fn anchor(document: &str, token: &Token) -> usize {
    first_non_whitespace(document, token.span).unwrap_or(token.span.start)
}

/// The offset of the span's first byte that is part of no whitespace character. The span may start or end inside a
/// character; parts of a whitespace character are whitespace.
fn first_non_whitespace(document: &str, span: ByteSpan) -> Option<usize> {
    let end = span.end.min(document.len());
    let mut at = span.start;
    while at < end {
        let character_start = document.floor_char_boundary(at);
        let character = document[character_start..].chars().next()?;
        if !character.is_whitespace() {
            return Some(at);
        }
        at = character_start + character.len_utf8();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Consecutive tokens whose texts join to the document.
    fn document(pieces: &[&str]) -> (String, Vec<Token>) {
        let mut text = String::new();
        let mut tokens = Vec::new();
        for piece in pieces {
            let start = text.len();
            text.push_str(piece);
            tokens.push(Token { id: 7, span: ByteSpan::new(start, text.len()) });
        }
        (text, tokens)
    }

    fn scores(pieces: &[(&str, Option<f64>)], absolute: bool) -> LineScores {
        let (text, tokens) = document(&pieces.iter().map(|(piece, _)| *piece).collect::<Vec<_>>());
        let relevance: Vec<_> = pieces.iter().map(|(_, relevance)| *relevance).collect();
        aggregate(&text, &LineIndex::new(&text), &tokens, &relevance, absolute)
    }

    /// (line, raw, score, rank)
    fn rows(scores: &LineScores) -> Vec<(usize, f64, f64, usize)> {
        scores.scored.iter().map(|line| (line.line, line.raw, line.score, line.rank)).collect()
    }

    #[test]
    fn sums_rescales_and_ranks() {
        let scores = scores(
            &[
                ("int", Some(0.5)),
                (" f", Some(0.25)),
                ("\n", Some(0.25)),
                ("x", Some(-1.0)),
                ("\n", Some(0.0)),
                ("}", Some(0.0)),
            ],
            false,
        );
        assert_eq!(rows(&scores), [(0, 1.0, 1.0, 1), (1, -1.0, 0.0, 3), (2, 0.0, 0.5, 2)]);
        assert!(scores.unseen.is_empty());
    }

    #[test]
    fn a_token_across_a_line_end_belongs_to_its_first_non_whitespace_byte() {
        let scores = scores(
            &[("{", Some(1.0)), ("\n\tfoo", Some(3.0)), (";\n}", Some(2.0)), (" \n ", Some(10.0))],
            false,
        );
        // The closing brace went with the semicolon's line, so line 2 has no code of its own.
        assert_eq!(rows(&scores), [(0, 1.0, 0.0, 2), (1, 5.0, 1.0, 1)]);
    }

    #[test]
    fn a_blank_line_is_not_scored_and_its_whitespace_counts_nowhere() {
        let scores = scores(
            &[("a", Some(1.0)), ("\n", Some(1.0)), ("\t", Some(50.0)), ("\n", Some(50.0)), ("b", Some(4.0))],
            false,
        );
        assert_eq!(rows(&scores), [(0, 2.0, 0.0, 2), (2, 4.0, 1.0, 1)]);
        assert!(scores.unseen.is_empty());
    }

    #[test]
    fn crlf_and_tabs_and_other_scripts() {
        let scores = scores(
            &[
                ("é", Some(1.0)),
                ("\r\n", Some(1.0)),
                ("\t\t", Some(1.0)),
                ("漢字", Some(2.0)),
                ("\r", Some(0.0)),
                ("😀", Some(5.0)),
            ],
            false,
        );
        assert_eq!(rows(&scores), [(0, 2.0, 0.0, 3), (1, 3.0, 1.0 / 3.0, 2), (2, 5.0, 1.0, 1)]);
    }

    #[test]
    fn tokens_that_split_a_character_overlap() {
        let text = "\u{3000}漢\nx";
        let span = |start, end| Token { id: 1, span: ByteSpan::new(start, end) };
        // Whole-character spans twice, then the parts of the ideographic space and of the character.
        let tokens = [span(3, 6), span(3, 6), span(1, 3), span(2, 4), span(4, 5), span(7, 8)];
        let relevance = [1.0, 2.0, 4.0, 8.0, 16.0, 0.0].map(Some);
        let scores = aggregate(text, &LineIndex::new(text), &tokens, &relevance, false);
        assert_eq!(rows(&scores), [(0, 31.0, 1.0, 1), (1, 0.0, 0.0, 2)]);
    }

    #[test]
    fn a_zero_width_token_is_whitespace_only() {
        let text = "a\n\nb";
        let at = |start, end| Token { id: 1, span: ByteSpan::new(start, end) };
        let tokens = [at(0, 1), at(0, 0), at(2, 2), at(3, 4), at(4, 4), at(90, 95)];
        let relevance = [1.0, 2.0, 99.0, 7.0, 3.0, 1.0].map(Some);
        let scores = aggregate(text, &LineIndex::new(text), &tokens, &relevance, false);
        assert_eq!(rows(&scores), [(0, 3.0, 0.0, 2), (2, 11.0, 1.0, 1)]);
    }

    #[test]
    fn equal_lines_score_zero() {
        let scores = scores(&[("a\n", Some(2.0)), ("b\n", Some(2.0)), ("c", Some(2.0))], false);
        assert_eq!(rows(&scores), [(0, 2.0, 0.0, 1), (1, 2.0, 0.0, 2), (2, 2.0, 0.0, 3)]);
        assert_eq!(rows(&super::tests::scores(&[("a", Some(-3.0))], false)), [(0, -3.0, 0.0, 1)]);
        assert_eq!(
            rows(&super::tests::scores(&[("a\n", Some(-0.0)), ("b", Some(0.0))], false))[1].3,
            2,
            "a tie"
        );
    }

    #[test]
    fn absolute_sums_magnitudes() {
        let pieces = [("a", Some(-2.0)), (" b", Some(1.0)), ("\n", Some(0.0)), ("c", Some(-1.0))];
        assert_eq!(rows(&scores(&pieces, false)), [(0, -1.0, 0.0, 1), (1, -1.0, 0.0, 2)]);
        assert_eq!(rows(&scores(&pieces, true)), [(0, 3.0, 1.0, 1), (1, 1.0, 0.0, 2)]);
    }

    #[test]
    fn unseen_lines_are_named_and_never_scored() {
        let scores = scores(
            &[
                ("a", Some(1.0)),
                (" b", None),
                ("\n", Some(1.0)),
                ("c", None),
                (" ", Some(5.0)),
                ("\n", None),
                ("\n", None),
                ("d", None),
            ],
            false,
        );
        assert_eq!(rows(&scores), [(0, 2.0, 0.0, 1)]);
        assert_eq!(scores.unseen, [1, 3]);
    }

    #[test]
    fn a_missing_relevance_is_an_unseen_token() {
        let (text, tokens) = document(&["a\n", "b"]);
        let scores = aggregate(&text, &LineIndex::new(&text), &tokens, &[Some(1.0)], false);
        assert_eq!((scores.scored.len(), scores.unseen), (1, vec![1]));
        assert_eq!(aggregate("", &LineIndex::new(""), &[], &[], false), LineScores::default());
    }

    #[test]
    fn non_finite_relevance_is_no_relevance() {
        let scores = scores(
            &[
                ("a", Some(f64::NAN)),
                ("b\n", Some(1.0)),
                ("c\n", Some(f64::INFINITY)),
                ("d\n", Some(f64::NEG_INFINITY)),
                ("e", Some(3.0)),
            ],
            false,
        );
        assert_eq!(rows(&scores), [(0, 1.0, 0.0, 2), (3, 3.0, 1.0, 1)]);
        assert_eq!(scores.unseen, [1, 2]);
    }

    #[test]
    fn huge_values_do_not_overflow() {
        let scores = scores(
            &[("a", Some(f64::MAX)), ("b\n", Some(f64::MAX)), ("c\n", Some(f64::MIN)), ("d", Some(0.0))],
            false,
        );
        assert_eq!(rows(&scores), [(0, f64::MAX, 1.0, 1), (1, f64::MIN, 0.0, 3), (2, 0.0, 0.5, 2)]);
    }

    fn pieces() -> impl Strategy<Value = Vec<(&'static str, Option<f64>)>> {
        let piece = prop_oneof![
            Just("a"),
            Just(" b"),
            Just("\n"),
            Just("\r\n"),
            Just("\n\tc"),
            Just("\t"),
            Just("é"),
            Just("\n\n"),
            Just("")
        ];
        let value = prop_oneof![
            4 => (-8i32..8).prop_map(|value| Some(f64::from(value) / 4.0)),
            1 => any::<f64>().prop_map(Some),
            1 => Just(None),
        ];
        proptest::collection::vec((piece, value), 0..40)
    }

    proptest! {
        #[test]
        fn invariants(pieces in pieces(), absolute: bool) {
            let scores = scores(&pieces, absolute);
            let (text, tokens) = document(&pieces.iter().map(|(piece, _)| *piece).collect::<Vec<_>>());
            let lines = LineIndex::new(&text);

            prop_assert!(scores.scored.iter().all(|line| line.raw.is_finite() && (0.0..=1.0).contains(&line.score)));
            let mut ranks: Vec<_> = scores.scored.iter().map(|line| line.rank).collect();
            ranks.sort_unstable();
            prop_assert_eq!(ranks, (1..=scores.scored.len()).collect::<Vec<_>>());

            // Scored and unseen lines are in order, disjoint, and together the lines with code.
            let scored: Vec<_> = scores.scored.iter().map(|line| line.line).collect();
            prop_assert!(scored.is_sorted() && scores.unseen.is_sorted());
            let mut all = [scored, scores.unseen.clone()].concat();
            all.sort_unstable();
            let with_code: Vec<_> = (0..lines.line_count())
                .filter(|line| !lines.line_span(*line).of(&text).unwrap().trim().is_empty())
                .collect();
            prop_assert_eq!(all, with_code);
            prop_assert_eq!(tokens.len(), pieces.len());

            // A larger raw value has a smaller rank and no smaller score.
            for a in &scores.scored {
                for b in &scores.scored {
                    if a.raw > b.raw {
                        prop_assert!(a.rank < b.rank && a.score >= b.score);
                    }
                }
            }
        }

        /// Scaling all tokens by a positive factor leaves scores and ranks alone (a power of two: without rounding).
        /// Adding a constant to all tokens does not: lines have different numbers of tokens.
        #[test]
        fn scores_do_not_depend_on_the_unit(values in proptest::collection::vec((0usize..3, -100i32..100), 1..30), exponent in -20i32..20) {
            let names = ["a", "\n", "\n b"];
            let scaled_by = |factor: f64| {
                let pieces: Vec<_> =
                    values.iter().map(|(name, value)| (names[*name], Some(f64::from(*value) * factor))).collect();
                let scores = scores(&pieces, false);
                scores.scored.iter().map(|line| (line.line, line.score, line.rank)).collect::<Vec<_>>()
            };
            prop_assert_eq!(scaled_by(1.0), scaled_by(2f64.powi(exponent)));
        }

        /// With one token a line, a shift of all tokens is a shift of all lines, and cancels.
        #[test]
        fn a_shift_of_all_lines_cancels(values in proptest::collection::vec(-100i32..100, 1..30), shift in -100i32..100) {
            let shifted_by = |shift: i32| {
                let pieces: Vec<_> = values.iter().map(|value| ("x\n", Some(f64::from(value + shift)))).collect();
                let scores = scores(&pieces, false);
                scores.scored.iter().map(|line| (line.line, line.score, line.rank)).collect::<Vec<_>>()
            };
            prop_assert_eq!(shifted_by(0), shifted_by(shift));
        }
    }
}
