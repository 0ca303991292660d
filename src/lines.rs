//! From token relevance to line scores.

use crate::text::LineIndex;
use crate::tokens::Token;

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

/// The lines of one function: scored lines and unseen lines, both in line order and disjoint.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct LineScores {
    pub scored: Vec<LineScore>,
    /// 0-based lines with code that the model did not see: all of the line's non-whitespace tokens were cut off.
    pub unseen: Vec<usize>,
}

/// Sums token relevance per line and rescales (Pintore et al., arXiv 2510.11202, Eq. 6).
///
/// A token belongs to the line on which its first non-whitespace byte lies, a whitespace-only token to the line on
/// which it starts. Whitespace-only tokens count for their line, but a line without any token that holds a
/// non-whitespace byte is not scored and its whitespace tokens count nowhere. `relevance[i]` belongs to `tokens[i]`;
/// `None` is a token that the model did not see. With `absolute`, Σ|r| instead of Σr.
pub fn aggregate(
    _document: &str,
    _lines: &LineIndex,
    _tokens: &[Token],
    _relevance: &[Option<f64>],
    _absolute: bool,
) -> LineScores {
    todo!()
}
