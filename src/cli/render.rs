//! A finding as text for a terminal: the source with its lines shaded.

use super::colour::{self, Palette};
use super::source::Document;
use crate::analysis::Finding;
use crate::detector::DetectorInfo;
use crate::escape;
use crate::lines::LineScore;
use std::fmt::Write;
use unicode_width::UnicodeWidthStr;

/// Bars for the steps of the heat scale, so that relevance can be read without colour.
const BARS: [&str; colour::STEPS + 1] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
const TAB: &str = "    ";
/// Shading reaches to the longest line of the function, but not further than this many columns.
const SHADED_COLUMNS: usize = 100;

/// The whole report on one finding.
pub(super) fn finding(
    document: &Document,
    finding: &Finding,
    model: &DetectorInfo,
    palette: Palette,
) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "{}", palette.bold(&verdict(document, finding)));
    let _ = writeln!(text, "{}", palette.dim(&settings(finding, model)));
    for note in notes(finding, model) {
        let _ = writeln!(text, "{note}");
    }
    text.push_str(&source(document, finding, palette));
    text
}

/// One line: where, what and how probable.
pub(super) fn verdict(document: &Document, finding: &Finding) -> String {
    let (sign, verdict) = if finding.flagged { (">", "flagged") } else { ("≤", "not flagged") };
    format!(
        "{}:{}: {}: {verdict}: P(vulnerable) {} {sign} {}",
        document.shown(),
        finding.start_line + 1,
        escape::terminal(&finding.function.name),
        finding.shown_probability(),
        finding.threshold,
    )
}

fn settings(finding: &Finding, model: &DetectorInfo) -> String {
    format!(
        "{} · profile {} · model {} · on {}",
        finding.method,
        finding.profile,
        escape::terminal(&model.name),
        model.execution_provider,
    )
}

fn notes(finding: &Finding, model: &DetectorInfo) -> Vec<String> {
    let mut notes = Vec::new();
    if finding.windows > 1 {
        notes.push(format!("long function: read in {} overlapping windows", finding.windows));
    }
    if finding.truncated {
        notes.push(format!(
            "long function: the model saw only what fits into {} tokens; lines marked `?` were not seen",
            model.max_tokens
        ));
    }
    if let Some(completeness) = finding.completeness {
        let converged = if completeness.reached { "" } else { ": not converged, so read it with care" };
        notes.push(format!(
            "completeness gap {:.4} after {} evaluations{converged}",
            completeness.gap, completeness.evaluations
        ));
    }
    if let Some(f) = finding.faithfulness {
        notes.push(format!(
            "without the top fifth of the lines P changes by {:+.3} (random lines {:+.3}), with it alone by {:+.3} (random {:+.3})",
            -f.comprehensiveness, -f.random_comprehensiveness, -f.sufficiency, -f.random_sufficiency
        ));
    }
    if finding.lines.iter().any(|line| line.raw < 0.0) {
        notes.push(
            "lines marked - spoke against the verdict; scores are rescaled from the lowest to the highest"
                .to_string(),
        );
    }
    if finding.function.parse_errors {
        notes.push("the parser had to recover inside this function; its extent may be wrong".to_string());
    }
    notes
}

/// Every line of the function: number, score, bar, text.
fn source(document: &Document, finding: &Finding, palette: Palette) -> String {
    let texts: Vec<String> =
        (finding.start_line..=finding.end_line).map(|line| shown_line(document, line)).collect();
    let width = texts.iter().map(|text| text.width()).max().unwrap_or(0).min(SHADED_COLUMNS);
    let digits = (finding.end_line + 1).to_string().len();
    let mut out = String::new();
    for (line, text) in (finding.start_line..).zip(&texts) {
        let number = palette.dim(&format!("{:>digits$}", line + 1));
        let row = match score_of(finding, line) {
            Some(score) => {
                let step = colour::step(score.score);
                let padding = width.saturating_sub(text.width());
                let shaded = palette.heat(step, &format!("{text}{:padding$}", ""));
                // Rescaling hides that a line spoke against the verdict.
                let sign = if score.raw < 0.0 { '-' } else { ' ' };
                format!("{number} {:>4.2}{sign}{} │ {shaded}", score.score, BARS[step])
            }
            None if finding.unseen_lines.contains(&line) => {
                format!("{number}      ? │ {}", palette.dim(text))
            }
            None => format!("{number}        │ {text}"),
        };
        let _ = writeln!(out, "{}", row.trim_end());
    }
    out
}

fn score_of(finding: &Finding, line: usize) -> Option<&LineScore> {
    let index = finding.lines.binary_search_by_key(&line, |score| score.line).ok()?;
    finding.lines.get(index)
}

fn shown_line(document: &Document, line: usize) -> String {
    let text = document.lines.line_span(line).of(&document.text).unwrap_or_default();
    escape::terminal(text).replace('\t', TAB)
}
