//! A finding as text for a terminal: the source with its lines shaded.

use super::colour::Palette;
use super::source::Document;
use crate::analysis::comparison::Comparison;
use crate::analysis::{Finding, comparison};
use crate::detector::DetectorInfo;
use crate::escape;
use crate::lines::{LineScore, heat};
use std::fmt::Write;
use unicode_width::UnicodeWidthStr;

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
        notes.push(format!("{completeness} after {} evaluations{converged}", completeness.evaluations));
    }
    if let Some(f) = finding.faithfulness {
        notes.push(format!(
            "comprehensiveness {:.3} (random lines {:.3}): P minus P without the top fifth of the lines; sufficiency {:.3} \
             (random lines {:.3}): P minus P with them only",
            f.comprehensiveness, f.random_comprehensiveness, f.sufficiency, f.random_sufficiency
        ));
    }
    notes.extend(ground_truth(finding));
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

/// What people say of the function, and how far the lines agree.
fn ground_truth(finding: &Finding) -> Vec<String> {
    let Some(agreement) = &finding.agreement else { return Vec::new() };
    let alignment = &agreement.alignment;
    let marks = match agreement.truth.approximate.is_empty() {
        true => "marked *",
        false => "marked *, or ~ where the line may have changed since it was labelled",
    };
    let mut notes =
        vec![format!("ground truth ({marks}): {}", escape::terminal(&agreement.truth.describe()))];
    notes.extend(agreement.truth.notes.iter().map(|note| format!("note: {}", escape::terminal(note))));
    let number = |value: Option<f64>| value.map_or_else(|| "–".to_string(), |value| format!("{value:.3}"));
    match &alignment.da {
        Err(_) => notes.extend(
            agreement.undefined().map(|reason| format!("DA is undefined: {}", escape::terminal(&reason))),
        ),
        Ok(da) => {
            let would_be = alignment
                .would_be
                .map(|da| format!(", since the function was not flagged; it would be {da:.3}"))
                .unwrap_or_default();
            let changed = agreement.truth.changed().map(|changed| format!("; {changed}")).unwrap_or_default();
            notes.push(format!(
                "DA {da:.3}{would_be} (null: all {} {}, permuted {}{changed}); IFA {}",
                finding.counted(),
                number(alignment.null_all_lines),
                number(alignment.null_permutation),
                alignment.ifa.map_or_else(|| "–".to_string(), |ifa| ifa.to_string())
            ));
        }
    }
    if agreement.per_annotator.len() > 1 {
        let each = agreement.truth.annotators.iter().zip(&agreement.per_annotator);
        let each: Vec<String> = each
            .map(|(annotator, da)| format!("{} {}", escape::terminal(&annotator.name), number(*da)))
            .collect();
        notes.push(format!("DA by annotator: {}", each.join(", ")));
    }
    if alignment.outside_window > 0 {
        notes.push(format!(
            "{} of the ground-truth {} could not be scored",
            alignment.outside_window,
            finding.counted()
        ));
    }
    notes
}

/// All methods side by side.
pub(super) fn comparison(document: &Document, found: &Comparison, palette: Palette) -> String {
    let Some(first) = found.rows.first() else { return String::new() };
    let findings: Vec<&Finding> = found.rows.iter().map(|row| &row.finding).collect();
    let mut text = String::new();
    let _ = writeln!(text, "{}", palette.bold(&verdict(document, &first.finding)));
    let _ = writeln!(text, "{}", palette.dim(&format!("profile {}", first.finding.profile)));
    for line in comparison::aligned(&found.table()) {
        let _ = writeln!(text, "{line}");
    }
    for line in comparison::legend(&findings) {
        let _ = writeln!(text, "{}", palette.dim(&escape::terminal(&line)));
    }
    text
}

/// Every line of the function: number, score, bar, mark of ground truth, text.
fn source(document: &Document, finding: &Finding, palette: Palette) -> String {
    let texts: Vec<String> =
        (finding.start_line..=finding.end_line).map(|line| shown_line(document, line)).collect();
    let width = texts.iter().map(|text| text.width()).max().unwrap_or(0).min(SHADED_COLUMNS);
    let digits = (finding.end_line + 1).to_string().len();
    let mut out = String::new();
    for (line, text) in (finding.start_line..).zip(&texts) {
        let number = palette.dim(&format!("{:>digits$}", line + 1));
        let mark = match &finding.agreement {
            None => "",
            Some(_) if finding.is_approximate(line) => "~ ",
            Some(_) if finding.is_true(line) => "* ",
            Some(_) => "  ",
        };
        let row = match score_of(finding, line) {
            Some(score) => {
                let step = heat::step(score.score);
                let padding = width.saturating_sub(text.width());
                let shaded = palette.heat(step, &format!("{text}{:padding$}", ""));
                // Rescaling hides that a line spoke against the verdict.
                let sign = if score.raw < 0.0 { '-' } else { ' ' };
                format!("{number} {:>4.2}{sign}{} {mark}│ {shaded}", score.score, heat::bar(score.score))
            }
            None if finding.unseen_lines.contains(&line) => {
                format!("{number}      ? {mark}│ {}", palette.dim(text))
            }
            None => format!("{number}        {mark}│ {text}"),
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
