//! Several methods on one function, side by side.

use super::Finding;
use crate::alignment::spearman;
use crate::explain::Method;
use crate::lines::LineScore;

/// What the methods say of one function.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// In the order of the findings compared.
    pub rows: Vec<MethodRow>,
    /// Methods that gave no finding, and why.
    pub failed: Vec<(Method, String)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct MethodRow {
    pub finding: Finding,
    /// Spearman's rank correlation of raw relevance with each row's, this one's own included; `None` where it is
    /// undefined, as for constant relevance.
    pub spearman: Vec<Option<f64>>,
}

/// Compares findings of one function that differ in the method.
pub fn compare(findings: Vec<Finding>, failed: Vec<(Method, String)>) -> Comparison {
    let correlations: Vec<Vec<Option<f64>>> =
        findings.iter().map(|a| findings.iter().map(|b| correlation(a, b)).collect()).collect();
    let rows = findings
        .into_iter()
        .zip(correlations)
        .map(|(finding, spearman)| MethodRow { finding, spearman })
        .collect();
    Comparison { rows, failed }
}

/// Over what both scored, which differs where a relevance is not a number.
pub(super) fn correlation(a: &Finding, b: &Finding) -> Option<f64> {
    let (a, b) = (a.scored(), b.scored());
    let both = a.iter().filter_map(|score| {
        let other = b.binary_search_by_key(&score.line, |other| other.line).ok()?;
        Some((score.raw, b.get(other)?.raw))
    });
    let (a, b): (Vec<f64>, Vec<f64>) = both.unzip();
    spearman(&a, &b)
}

impl Comparison {
    /// The table in words: a head and one row a method. Cells that say nothing are empty; columns that say nothing for
    /// any method are left out.
    pub fn table(&self) -> Vec<Vec<String>> {
        let findings: Vec<&Finding> = self.rows.iter().map(|row| &row.finding).collect();
        let mut table = summary(&findings);
        if let Some(head) = table.first_mut() {
            head.push("top lines".to_string());
            head.extend(self.rows.iter().map(|row| format!("ρ {}", row.finding.method)));
        }
        for (cells, row) in table.iter_mut().skip(1).zip(&self.rows) {
            cells.push(top_lines(&row.finding, 3));
            let correlations = row.spearman.iter();
            cells.extend(
                correlations.map(|value| value.map_or_else(|| "–".to_string(), |r| format!("{r:.2}"))),
            );
        }
        table
    }
}

/// The most relevant lines, the most relevant first, equally relevant ones joined by `=`. Where more share the last place
/// than fit, how many; where all lines do, `tie`: their order would mean nothing.
fn top_lines(finding: &Finding, count: usize) -> String {
    let mut ordered = finding.scored().to_vec();
    ordered.sort_by_key(|line| line.rank);
    // Of a statement the first line.
    let number = |scored: &LineScore| {
        let units = finding.statements.as_ref();
        let line = units.and_then(|units| units.lines.get(scored.line)?.first().copied());
        (line.unwrap_or(scored.line) + 1).to_string()
    };
    if ordered.len() > 1 && ordered.iter().all(|line| line.score == ordered[0].score) {
        return "tie".to_string();
    }
    let mut shown: Vec<String> = Vec::new();
    let mut left = count;
    for tied in ordered.chunk_by(|a, b| a.score == b.score) {
        if left == 0 {
            break;
        }
        shown.push(match tied.len() <= left {
            true => tied.iter().map(number).collect::<Vec<_>>().join("="),
            false => format!("({} tied)", tied.len()),
        });
        left = left.saturating_sub(tied.len());
    }
    shown.join(" ")
}

/// A head and a row for each finding: method, agreement with the ground truth, completeness gap.
pub fn summary(findings: &[&Finding]) -> Vec<Vec<String>> {
    let with_truth = findings.iter().any(|finding| finding.agreement.is_some());
    let with_gap = findings.iter().any(|finding| finding.completeness.is_some());
    let mut head = vec!["method".to_string()];
    if with_truth {
        head.extend(["DA", "null (all)", "null (perm.)", "IFA"].map(String::from));
    }
    if with_gap {
        head.push("gap".to_string());
    }
    let with_faithfulness = findings.iter().any(|finding| finding.faithfulness.is_some());
    if with_faithfulness {
        head.extend(["comprehensiveness", "sufficiency"].map(String::from));
    }
    let rows = findings.iter().map(|finding| {
        let mut cells = vec![finding.method.to_string()];
        if with_truth {
            cells.extend(alignment_cells(finding));
        }
        if with_gap {
            let gap = finding.completeness.map(|completeness| format!("{:.4}", completeness.gap));
            cells.push(gap.unwrap_or_default());
        }
        if with_faithfulness {
            cells.extend(faithfulness_cells(finding));
        }
        cells
    });
    std::iter::once(head).chain(rows).collect()
}

/// What the table's words mean, and what holds for all of its rows.
pub fn legend(findings: &[&Finding]) -> Vec<String> {
    let mut legend = Vec::new();
    if let Some(agreement) = findings.iter().find_map(|finding| finding.agreement.as_ref()) {
        legend.push(format!("ground truth: {}", agreement.truth.describe()));
        if let Some(reason) = agreement.undefined() {
            legend.push(format!("DA is undefined: {reason}"));
        }
        if findings.iter().any(|finding| finding.would_be().is_some()) {
            legend.push(
                "DA is 0 because the function was not flagged; in parentheses what it would be".to_string(),
            );
        }
        let counted = findings.first().map_or("lines", |finding| finding.counted());
        legend.push(format!(
            "null: DA of all {counted} at 1, and the mean over permutations; IFA: clean {counted} before the first true one"
        ));
    }
    if findings.iter().any(|finding| finding.completeness.is_some()) {
        legend.push("gap: how far relevance is from its known sum".to_string());
    }
    if findings.iter().any(|finding| finding.faithfulness.is_some()) {
        legend.push(
            "comprehensiveness: P minus P without the top fifth of the lines (higher is better); sufficiency: P minus P \
             with them only (lower is better); in parentheses that of random lines"
                .to_string(),
        );
    }
    if let [first, _, ..] = findings {
        legend.push(format!(
            "top lines: the three most relevant, the most relevant first, equally relevant ones joined by =; ρ: Spearman's \
             rank correlation of the raw relevance of the {}",
            match first.statements {
                Some(_) => "statements",
                None => "lines",
            }
        ));
    }
    legend
}

fn faithfulness_cells(finding: &Finding) -> [String; 2] {
    let Some(f) = &finding.faithfulness else { return Default::default() };
    let cell = |value: f64, random: f64| format!("{value:.3} ({random:.3})");
    [cell(f.comprehensiveness, f.random_comprehensiveness), cell(f.sufficiency, f.random_sufficiency)]
}

fn alignment_cells(finding: &Finding) -> [String; 4] {
    let Some(agreement) = &finding.agreement else { return Default::default() };
    let alignment = &agreement.alignment;
    let number = |value: Option<f64>| value.map(|value| format!("{value:.3}")).unwrap_or_default();
    let da = match (&alignment.da, alignment.would_be) {
        (Ok(da), Some(would_be)) => format!("{da:.3} ({would_be:.3})"),
        (Ok(da), None) => format!("{da:.3}"),
        (Err(_), _) => "undefined".to_string(),
    };
    [
        da,
        number(alignment.null_all_lines),
        number(alignment.null_permutation),
        alignment.ifa.map(|ifa| ifa.to_string()).unwrap_or_default(),
    ]
}

/// Aligns the columns of a table with spaces; the first column to the left, the others to the right. Widths are in
/// characters, of which none is wide in what [`Comparison::table`] gives.
pub fn aligned(table: &[Vec<String>]) -> Vec<String> {
    let columns = table.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        table.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| match column {
            0 => format!("{cell:<width$}"),
            _ => format!("{cell:>width$}"),
        });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_string()
    };
    table.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::agreement::tests::{finding, truth};
    use crate::explain::Layer;

    #[test]
    fn equal_orders_correlate_and_opposite_ones_do_not() {
        let a = finding(&[1.0, 2.0, 3.0], true);
        let b = Finding { method: Method::Occlusion, ..finding(&[10.0, 20.0, 90.0], true) };
        let c = Finding { method: Method::Attention(Layer::Last), ..finding(&[3.0, 2.0, 1.0], true) };
        let constant = Finding { method: Method::IntegratedGradients, ..finding(&[1.0, 1.0, 1.0], true) };
        let compared = compare(vec![a, b, c, constant], Vec::new());
        assert_eq!(compared.rows[0].spearman, [Some(1.0), Some(1.0), Some(-1.0), None]);
        assert_eq!(compared.rows[3].spearman, [None; 4]);
        let table = compared.table();
        assert_eq!(table[0][..2], ["method", "top lines"]);
        assert_eq!(table[1][..2], ["attention:first", "3 2 1"]);
        assert_eq!(table[3].last().unwrap(), "–");
        assert!(table.iter().all(|row| row.len() == table[0].len()));
    }

    #[test]
    fn equally_relevant_lines_are_said_to_be() {
        let top = |raw: &[f64]| top_lines(&finding(raw, true), 3);
        assert_eq!(top(&[1.0, 4.0, 3.0, 2.0]), "2 3 4");
        assert_eq!(top(&[4.0, 4.0, 3.0, 2.0]), "1=2 3");
        assert_eq!(top(&[4.0, 3.0, 3.0, 3.0]), "1 (3 tied)");
        assert_eq!(top(&[4.0, 4.0, 4.0, 4.0, 3.0]), "(4 tied)");
        assert_eq!(
            (top(&[1.0, 1.0]), top(&[1.0]), top(&[])),
            ("tie".to_string(), "1".to_string(), String::new())
        );
    }

    #[test]
    fn columns_say_something() {
        let with = finding(&[0.0, 1.0], true).with_truth(Some(truth(&[1])));
        let unflagged = finding(&[0.0, 1.0], false).with_truth(Some(truth(&[1])));
        assert_eq!(summary(&[&with])[0], ["method", "DA", "null (all)", "null (perm.)", "IFA"]);
        assert_eq!(summary(&[&with])[1], ["attention:first", "1.000", "0.500", "0.500", "0"]);
        assert_eq!(summary(&[&unflagged])[1][1], "0.000 (1.000)");
        let plain = finding(&[0.0, 1.0], true);
        assert_eq!(summary(&[&plain]), [["method"], ["attention:first"]]);
        assert!(legend(&[&plain]).is_empty());
        let statement = legend(&[&with, &with]);
        assert!(statement.iter().any(|line| line.contains("DA of all lines at 1")), "{statement:?}");
        let ranks =
            "top lines: the three most relevant, the most relevant first, equally relevant ones joined by =";
        assert!(statement.iter().any(|line| line.starts_with(ranks)), "{statement:?}");
        assert!(legend(&[&unflagged]).iter().any(|line| line.contains("not flagged")));
    }

    #[test]
    fn faithfulness_has_columns_where_it_was_asked_for() {
        let faithfulness = crate::explain::Faithfulness {
            comprehensiveness: 0.25,
            sufficiency: -0.125,
            random_comprehensiveness: 0.0625,
            random_sufficiency: 0.5,
        };
        let found = Finding { faithfulness: Some(faithfulness), ..finding(&[0.0, 1.0], true) };
        let table = summary(&[&found]);
        assert_eq!(table[0], ["method", "comprehensiveness", "sufficiency"]);
        assert_eq!(table[1], ["attention:first", "0.250 (0.062)", "-0.125 (0.500)"]);
        assert!(legend(&[&found]).iter().any(|line| line.contains("P minus P with them only (lower")));
    }

    #[test]
    fn columns_are_aligned() {
        let table = [["a", "ρ"], ["bcd", "10"]].map(|row| row.map(String::from).to_vec());
        assert_eq!(aligned(&table), ["a     ρ", "bcd  10"]);
        assert!(aligned(&[]).is_empty());
    }
}
