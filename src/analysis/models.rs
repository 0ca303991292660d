//! Two detectors on one function, side by side.

use super::Finding;
use super::comparison::correlation;
use super::pair::Version;
use crate::escape;

/// A detector's finding, under its name.
#[derive(Clone, Copy, Debug)]
pub struct ModelSide<'a> {
    pub name: &'a str,
    pub finding: &'a Finding,
}

/// Spearman's rank correlation of the raw relevance of what both scored; `None` where it is undefined.
pub fn spearman(a: &Finding, b: &Finding) -> Option<f64> {
    correlation(a, b)
}

/// Both verdicts, and each line with its relevance by either detector; `*` marks ground truth. Names are escaped.
pub fn text(a: ModelSide<'_>, b: ModelSide<'_>, version: Version<'_>) -> Vec<String> {
    let mut text = vec![verdict('A', a), verdict('B', b)];
    let correlation =
        spearman(a.finding, b.finding).map_or_else(|| "undefined".to_string(), |r| format!("{r:.2}"));
    text.push(format!("ρ {correlation}: Spearman's rank correlation of the raw relevance"));
    text.push(String::new());
    let digits = (a.finding.end_line + 1).to_string().len();
    text.push(format!("{:digits$} {:>4} {:>4}", "", "A", "B"));
    for line in a.finding.start_line..=a.finding.end_line {
        let score = |finding: &Finding| {
            let score = finding.lines.iter().find(|score| score.line == line);
            score.map(|score| format!("{:.2}", score.score)).unwrap_or_default()
        };
        let mark = if a.finding.is_true(line) { '*' } else { ' ' };
        let source = version.lines.line_span(line).of(version.text).unwrap_or_default();
        let source = escape::terminal(source).replace('\t', "    ");
        let (a, b) = (score(a.finding), score(b.finding));
        let row = format!("{:>digits$} {a:>4} {b:>4} {mark}│ {source}", line + 1);
        text.push(row.trim_end().to_string());
    }
    text
}

fn verdict(letter: char, side: ModelSide<'_>) -> String {
    let ModelSide { name, finding } = side;
    let (sign, verdict) = if finding.flagged { (">", "flagged") } else { ("≤", "not flagged") };
    let alignment = finding.shown_alignment().map(|alignment| format!(" · {alignment}")).unwrap_or_default();
    format!(
        "{letter}  {}: {verdict}: P(vulnerable) {} {sign} {} · {} · profile {}{alignment}",
        escape::terminal(name),
        finding.shown_probability(),
        finding.threshold,
        finding.method,
        finding.profile,
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::agreement::tests::{finding, truth};
    use crate::text::LineIndex;

    #[test]
    fn every_line_has_both_scores() {
        let a = finding(&[1.0, 2.0, 3.0], true).with_truth(Some(truth(&[1])));
        let b = finding(&[3.0, 2.0, 1.0], false);
        let document = "int f()\n\t{\n}";
        let lines = LineIndex::new(document);
        let version = Version { text: document, lines: &lines };
        let text =
            text(ModelSide { name: "x\u{202e}", finding: &a }, ModelSide { name: "y", finding: &b }, version);
        assert!(text[0].starts_with("A  x\\u{202e}: flagged: P(vulnerable) "), "{text:?}");
        assert!(text[1].starts_with("B  y: not flagged: P(vulnerable) "), "{text:?}");
        assert!(text[2].starts_with("ρ -1.00: "), "{text:?}");
        assert_eq!(
            text[4..],
            ["     A    B", "1 0.00 1.00  │ int f()", "2 0.50 0.50 *│     {", "3 1.00 0.00  │ }"]
        );
    }
}
