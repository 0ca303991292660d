//! One function in two versions: does the detector see the difference?

use super::Finding;
use super::agreement::Agreement;
use crate::alignment::pairs::PairOutcome;
use crate::annotations::matching::{self, Matched, Place};
use crate::annotations::{Label, Record};
use crate::escape;
use crate::lines::LineScore;
use crate::text::LineIndex;
use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};
use std::time::{Duration, Instant};

/// A line diff of hostile texts may take long; then more is shown as replaced than was.
const LONGEST_DIFF: Duration = Duration::from_secs(1);

const GUESS: &str =
    "a guess: several functions of this name may be the other version; the one that is most like it is shown";

/// A function before and after a change.
#[derive(Clone, Debug, PartialEq)]
pub struct PairView {
    pub before: Finding,
    pub after: Finding,
    /// Several functions of this name would do as the other version: this is the most alike one.
    pub is_guess: bool,
    /// Known where one side is labelled vulnerable and the other benign.
    pub outcome: Option<PairOutcome>,
    /// All lines of both versions in reading order: what was deleted before what was inserted.
    pub lines: Vec<LinePair>,
}

/// A line that is in both versions, or in one of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinePair {
    pub before: Option<SideLine>,
    pub after: Option<SideLine>,
}

/// A line of one version.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SideLine {
    /// 0-based line of that version's document.
    pub line: usize,
    /// `None`: without code, or not seen by the model.
    pub score: Option<LineScore>,
    pub is_true: bool,
    /// It is, but may have changed since it was labelled.
    pub is_approximate: bool,
}

impl LinePair {
    /// How rescaled relevance moved from before to after, for a line that is scored in both.
    pub fn moved(&self) -> Option<f64> {
        Some(self.after?.score?.score - self.before?.score?.score)
    }
}

/// A document's text with its lines.
#[derive(Clone, Copy, Debug)]
pub struct Version<'a> {
    pub text: &'a str,
    pub lines: &'a LineIndex,
}

impl PairView {
    /// The view in words: both verdicts, the outcome, and every line with its relevance before and after. A line that
    /// is ground truth carries `*`, one that may have changed since it was labelled `~`. Sources and names are escaped.
    pub fn text(&self, before: (&str, Version<'_>), after: (&str, Version<'_>)) -> Vec<String> {
        let mut text = vec![
            format!("before {}", verdict(before.0, &self.before)),
            format!("after  {}", verdict(after.0, &self.after)),
            match self.outcome {
                Some(outcome) => format!("outcome {}: {}", outcome.as_str(), meaning(outcome)),
                None => "no pair outcome: the ground truth does not tell which of the two is vulnerable"
                    .to_string(),
            },
            format!("{} · profile {}", self.after.method, self.after.profile),
        ];
        if self.is_guess {
            text.push(GUESS.to_string());
        }
        let any = |is: fn(&SideLine) -> bool| {
            self.lines.iter().flat_map(|pair| [pair.before, pair.after]).flatten().any(|line| is(&line))
        };
        if any(|line| line.is_approximate) {
            text.push(
                "* ground truth; ~ ground truth that may have changed since it was labelled".to_string(),
            );
        } else if any(|line| line.is_true) {
            text.push("* ground truth".to_string());
        }
        text.push(String::new());
        let digits = (self.before.end_line.max(self.after.end_line) + 1).to_string().len();
        for pair in &self.lines {
            let (sign, line, version) = match (pair.before, pair.after) {
                (_, Some(line)) => (if pair.before.is_some() { ' ' } else { '+' }, line.line, after.1),
                (Some(line), None) => ('-', line.line, before.1),
                (None, None) => continue,
            };
            let source = version.lines.line_span(line).of(version.text).unwrap_or_default();
            let source = escape::terminal(source).replace('\t', "    ");
            let moved = pair.moved().map(|moved| format!("{moved:+.2}")).unwrap_or_default();
            let row = format!(
                "{sign} {} {} {moved:>5} │ {source}",
                side_text(pair.before, digits),
                side_text(pair.after, digits)
            );
            text.push(row.trim_end().to_string());
        }
        text
    }
}

fn meaning(outcome: PairOutcome) -> &'static str {
    match outcome {
        PairOutcome::Correct => "both right: the detector sees the difference",
        PairOutcome::BothVulnerable => "both flagged: the fix made no difference",
        PairOutcome::BothBenign => "neither flagged: the flaw was not seen",
        PairOutcome::Reversed => "reversed: the fix is flagged, the flaw is not",
    }
}

fn verdict(source: &str, finding: &Finding) -> String {
    let (sign, verdict) = if finding.flagged { (">", "flagged") } else { ("≤", "not flagged") };
    let alignment = finding.shown_alignment().map(|alignment| format!(" · {alignment}")).unwrap_or_default();
    format!(
        "{}:{}: {}: {verdict}: P(vulnerable) {} {sign} {}{alignment}",
        escape::terminal(source),
        finding.start_line + 1,
        escape::terminal(&finding.function.name),
        finding.shown_probability(),
        finding.threshold,
    )
}

/// Number, relevance and mark of a line, always equally wide.
fn side_text(side: Option<SideLine>, digits: usize) -> String {
    let Some(side) = side else { return " ".repeat(digits + 6) };
    let score = side.score.map(|score| format!("{:.2}", score.score)).unwrap_or_default();
    let mark = match (side.is_true, side.is_approximate) {
        (true, true) => '~',
        (true, false) => '*',
        (false, _) => ' ',
    };
    format!("{:>digits$} {score:>4}{mark}", side.line + 1)
}

/// The record of the other half of the pair that a function is one of.
pub fn partner<'r>(matched: &[Matched<'_>], records: &'r [Record]) -> Option<&'r Record> {
    matched.iter().find_map(|matched| {
        let own = matched.record.pair.as_ref()?;
        let is_other = |record: &&Record| {
            record.pair.as_ref().is_some_and(|pair| pair.id == own.id && pair.role != own.role)
        };
        records.iter().find(is_other)
    })
}

/// Which of the functions of a file a record speaks of.
pub fn function_of(record: &Record, places: &[Place<'_>]) -> Option<usize> {
    let found = matching::find(std::slice::from_ref(record), places);
    found.functions.iter().position(|matched| !matched.is_empty())
}

/// Compares two findings, one of each version.
pub fn view(before: Finding, before_text: Version<'_>, after: Finding, after_text: Version<'_>) -> PairView {
    let lines = lines(&before, before_text, &after, after_text);
    let outcome = outcome(&before, &after);
    PairView { before, after, is_guess: false, outcome, lines }
}

/// The pair protocol's outcome (Ding et al., ICSE 2025), where the truth of both sides is known. Whichever side is the
/// vulnerable one: a change may also bring a flaw in.
fn outcome(before: &Finding, after: &Finding) -> Option<PairOutcome> {
    let label =
        |finding: &Finding| finding.agreement.as_ref().map(|agreement: &Agreement| agreement.truth.label);
    match (label(before)?, label(after)?) {
        (Label::Vulnerable, Label::Benign) => Some(PairOutcome::of(before.flagged, after.flagged)),
        (Label::Benign, Label::Vulnerable) => Some(PairOutcome::of(after.flagged, before.flagged)),
        _ => None,
    }
}

fn lines(
    before: &Finding,
    before_text: Version<'_>,
    after: &Finding,
    after_text: Version<'_>,
) -> Vec<LinePair> {
    let texts = |finding: &Finding, version: Version<'_>| -> Vec<String> {
        let text = |line| version.lines.line_span(line).of(version.text).unwrap_or_default();
        // A line that was only indented anew or lost a space at its end is the same line.
        (finding.start_line..=finding.end_line).map(|line| text(line).trim().to_string()).collect()
    };
    let (old, new) = (texts(before, before_text), texts(after, after_text));
    let deadline = Instant::now() + LONGEST_DIFF;
    let operations = capture_diff_slices_deadline(Algorithm::Patience, &old, &new, Some(deadline));
    let old_line = |index: usize| side(before, before.start_line + index);
    let new_line = |index: usize| side(after, after.start_line + index);
    let mut pairs = Vec::with_capacity(old.len().max(new.len()));
    for operation in operations {
        let (old_range, new_range) = (operation.old_range(), operation.new_range());
        match operation {
            DiffOp::Equal { .. } => pairs.extend(
                old_range
                    .zip(new_range)
                    .map(|(a, b)| LinePair { before: Some(old_line(a)), after: Some(new_line(b)) }),
            ),
            _ => {
                pairs.extend(old_range.map(|a| LinePair { before: Some(old_line(a)), after: None }));
                pairs.extend(new_range.map(|b| LinePair { before: None, after: Some(new_line(b)) }));
            }
        }
    }
    pairs
}

fn side(finding: &Finding, line: usize) -> SideLine {
    let score = finding.lines.binary_search_by_key(&line, |score| score.line).ok();
    SideLine {
        line,
        score: score.and_then(|index| finding.lines.get(index)).copied(),
        is_true: finding.is_true(line),
        is_approximate: finding.is_approximate(line),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::agreement::tests::{finding, truth};

    fn compared(old: &str, new: &str, old_flagged: bool, new_flagged: bool) -> PairView {
        let (old_lines, new_lines) = (LineIndex::new(old), LineIndex::new(new));
        let raw = |lines: &LineIndex| (0..lines.line_count()).map(|line| line as f64).collect::<Vec<_>>();
        view(
            finding(&raw(&old_lines), old_flagged),
            Version { text: old, lines: &old_lines },
            finding(&raw(&new_lines), new_flagged),
            Version { text: new, lines: &new_lines },
        )
    }

    fn numbers(view: &PairView) -> Vec<(Option<usize>, Option<usize>)> {
        view.lines.iter().map(|pair| (pair.before.map(|s| s.line), pair.after.map(|s| s.line))).collect()
    }

    #[test]
    fn lines_are_mapped_by_their_text_without_its_margins() {
        let view = compared("f {\n  a;\n  b;\n}", "f {\n  b; \r\n\n  c;\n}", true, true);
        assert_eq!(
            numbers(&view),
            [
                (Some(0), Some(0)),
                (Some(1), None),
                (Some(2), Some(1)),
                (None, Some(2)),
                (None, Some(3)),
                (Some(3), Some(4))
            ]
        );
        // b: 2 of 3 before, 1 of 4 after.
        assert_eq!(view.lines[2].moved(), Some(0.25 - 2.0 / 3.0));
        assert_eq!(view.lines[1].moved(), None);
        assert_eq!(view.outcome, None);
    }

    #[test]
    fn outcomes_need_both_labels() {
        let label = |finding: Finding, label| {
            finding.with_truth(Some(crate::analysis::agreement::GroundTruth { label, ..truth(&[]) }))
        };
        for (before, after, flags, expected) in [
            (Label::Vulnerable, Label::Benign, (true, false), Some("P-C")),
            (Label::Vulnerable, Label::Benign, (true, true), Some("P-V")),
            (Label::Vulnerable, Label::Benign, (false, false), Some("P-B")),
            (Label::Vulnerable, Label::Benign, (false, true), Some("P-R")),
            (Label::Benign, Label::Vulnerable, (false, true), Some("P-C")),
            (Label::Vulnerable, Label::Unsure, (true, false), None),
            (Label::Vulnerable, Label::Vulnerable, (true, false), None),
        ] {
            let found =
                outcome(&label(finding(&[1.0], flags.0), before), &label(finding(&[1.0], flags.1), after));
            assert_eq!(found.map(PairOutcome::as_str), expected, "{before:?} {after:?} {flags:?}");
        }
        assert_eq!(outcome(&finding(&[1.0], true), &label(finding(&[1.0], false), Label::Benign)), None);
    }

    #[test]
    fn the_text_shows_both_sides_and_steers_no_terminal() {
        let (old, new) = ("f {\n\ta;\n}", "f {\n\tb;\x1b[0m\n}");
        let (old_lines, new_lines) = (LineIndex::new(old), LineIndex::new(new));
        let view = compared(old, new, true, false);
        let text = view.text(
            ("a\x1b", Version { text: old, lines: &old_lines }),
            ("b", Version { text: new, lines: &new_lines }),
        );
        assert_eq!(
            text,
            [
                "before a\\u{1b}:1: f: flagged: P(vulnerable) 0.75 > 0.5",
                "after  b:1: f: not flagged: P(vulnerable) 0.25 ≤ 0.5",
                "no pair outcome: the ground truth does not tell which of the two is vulnerable",
                "attention:first · profile editor",
                "",
                "  1 0.00  1 0.00  +0.00 │ f {",
                "- 2 0.50                │     a;",
                "+         2 0.50        │     b;\\u{1b}[0m",
                "  3 1.00  3 1.00  +0.00 │ }",
            ]
        );
    }
}
