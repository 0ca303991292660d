//! How far annotators agree on lines: Cohen's κ of every two of them, and what they differ about.

use super::{LineLabel, Record};
use std::collections::BTreeMap;

/// The name under which records without an annotator stand.
pub const UNNAMED: &str = "(unnamed)";

/// Two annotators over the lines of all functions that both of them labelled.
#[derive(Clone, Debug, PartialEq)]
pub struct PairAgreement {
    pub first: String,
    pub second: String,
    pub functions: usize,
    /// All lines of these functions.
    pub lines: usize,
    /// Lines that both call a flaw.
    pub both: usize,
    pub only_first: usize,
    pub only_second: usize,
    /// Cohen's κ = (p_o − p_e) / (1 − p_e) over *flaw* against everything else (Cohen 1960, Eq. 1); `None` where chance
    /// alone makes them agree (p_e = 1), as when neither marked a line.
    pub kappa: Option<f64>,
}

/// A line that some call a flaw and others do not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disagreement {
    /// Relative URI of the file, where a record knows it.
    pub file: Option<String>,
    pub function: Option<String>,
    pub body_sha256: String,
    /// 0-based line of the function.
    pub line: usize,
    pub text: String,
    pub flaw: Vec<String>,
    pub unsure: Vec<String>,
    /// Labelled the function, but not this line.
    pub not_marked: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Agreement {
    pub annotators: Vec<String>,
    pub pairs: Vec<PairAgreement>,
    /// In the order of functions in the records, then of lines.
    pub disagreements: Vec<Disagreement>,
    /// Functions that several annotators labelled, but whose number of lines no record tells, so that they are not
    /// counted.
    pub without_line_count: usize,
    /// Records that have no hash of the function's text, so that nothing says which of others they belong to.
    pub without_hash: usize,
}

/// A function's text and what each annotator says of it.
struct Function<'a> {
    sha256: &'a str,
    records: BTreeMap<&'a str, &'a Record>,
}

/// Compares what annotators say of the same texts (equal hash, so that lines have equal numbers). Of several records of
/// one annotator for one text the last counts. Only labels with an opinion on lines are compared: a *vulnerable* without
/// any line says nothing of lines.
pub fn agreement(records: &[Record]) -> Agreement {
    let mut result = Agreement::default();
    let mut functions: Vec<Function<'_>> = Vec::new();
    let mut by_hash: BTreeMap<&str, usize> = BTreeMap::new();
    for record in records {
        let Some(sha256) = record.body_sha256.as_deref() else {
            result.without_hash += 1;
            continue;
        };
        let annotator = record.annotator.as_deref().unwrap_or(UNNAMED);
        if !result.annotators.iter().any(|name| name == annotator) {
            result.annotators.push(annotator.to_string());
        }
        if record.lines.is_empty() && record.label != super::Label::Benign {
            continue;
        }
        let index = *by_hash.entry(sha256).or_insert_with(|| {
            functions.push(Function { sha256, records: BTreeMap::new() });
            functions.len() - 1
        });
        functions[index].records.insert(annotator, record);
    }
    result.annotators.sort_unstable();
    functions.retain(|function| function.records.len() > 1);
    result.without_line_count = functions.iter().filter(|function| function.line_count().is_none()).count();
    result.pairs = pairs(&functions);
    result.disagreements = functions.iter().flat_map(Function::disagreements).collect();
    result
}

fn pairs(functions: &[Function<'_>]) -> Vec<PairAgreement> {
    let mut pairs: BTreeMap<(&str, &str), PairAgreement> = BTreeMap::new();
    for function in functions {
        let Some(count) = function.line_count() else { continue };
        let annotators: Vec<(&str, &Record)> =
            function.records.iter().map(|(name, record)| (*name, *record)).collect();
        for (index, (first, first_record)) in annotators.iter().enumerate() {
            for (second, second_record) in &annotators[index + 1..] {
                let pair = pairs.entry((first, second)).or_insert_with(|| PairAgreement {
                    first: first.to_string(),
                    second: second.to_string(),
                    functions: 0,
                    lines: 0,
                    both: 0,
                    only_first: 0,
                    only_second: 0,
                    kappa: None,
                });
                let both = first_record.flaw_lines().filter(|line| has_flaw(second_record, *line)).count();
                pair.functions += 1;
                pair.lines += count;
                pair.both += both;
                pair.only_first += first_record.flaw_lines().count() - both;
                pair.only_second += second_record.flaw_lines().count() - both;
            }
        }
    }
    pairs
        .into_values()
        .map(|pair| PairAgreement {
            kappa: kappa(pair.lines, pair.both, pair.only_first, pair.only_second),
            ..pair
        })
        .collect()
}

fn has_flaw(record: &Record, line: usize) -> bool {
    record.flaw_lines().any(|found| found == line)
}

/// Cohen's κ of two raters with two categories, from the 2 × 2 table; `None` where it is 0/0.
fn kappa(lines: usize, both: usize, only_first: usize, only_second: usize) -> Option<f64> {
    let [total, both, only_first, only_second] =
        [lines, both, only_first, only_second].map(|count| count as f64);
    let neither = total - both - only_first - only_second;
    let observed = (both + neither) / total;
    let (first, second) = ((both + only_first) / total, (both + only_second) / total);
    let expected = first * second + (1.0 - first) * (1.0 - second);
    (total > 0.0 && expected < 1.0).then(|| (observed - expected) / (1.0 - expected))
}

impl Function<'_> {
    /// Where a record has the function's range in its file; none of the labelled lines may lie beyond it.
    fn line_count(&self) -> Option<usize> {
        let (first, last) = self.records.values().find_map(|record| record.range)?;
        let count = last - first + 1;
        let lines = self.records.values().flat_map(|record| &record.lines);
        lines.into_iter().all(|line| line.line < count).then_some(count)
    }

    fn disagreements(&self) -> Vec<Disagreement> {
        let mut lines: Vec<(usize, &str)> = self
            .records
            .values()
            .flat_map(|record| &record.lines)
            .map(|line| (line.line, line.text.as_str()))
            .collect();
        lines.sort_by_key(|(line, _)| *line);
        lines.dedup_by_key(|(line, _)| *line);
        let known = |get: fn(&Record) -> &Option<String>| {
            self.records.values().find_map(|record| get(record).clone())
        };
        lines
            .into_iter()
            .map(|(line, text)| {
                let who = |label: Option<LineLabel>| {
                    let said =
                        |record: &Record| record.lines.iter().find(|l| l.line == line).map(|l| l.label);
                    let names = self.records.iter().filter(|(_, record)| said(record) == label);
                    names.map(|(name, _)| name.to_string()).collect::<Vec<_>>()
                };
                Disagreement {
                    file: known(|record| &record.file),
                    function: known(|record| &record.function),
                    body_sha256: self.sha256.to_string(),
                    line,
                    text: text.to_string(),
                    flaw: who(Some(LineLabel::Flaw)),
                    unsure: who(Some(LineLabel::Unsure)),
                    not_marked: who(None),
                }
            })
            .filter(|line| line.flaw.len() < self.records.len() && !line.flaw.is_empty())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::annotations::{FunctionLines, Label};

    fn record(annotator: &str, code: &str, flaws: &[usize]) -> Record {
        let lines = FunctionLines::new(code);
        Record {
            annotator: Some(annotator.to_string()),
            range: Some((10, 10 + lines.count() - 1)),
            ..lines.record(Label::Vulnerable, flaws.iter().copied())
        }
    }

    fn text(lines: usize) -> String {
        (0..lines).map(|line| format!("line {line}\n")).collect::<String>().trim_end().to_string()
    }

    #[test]
    fn kappa_is_cohens() {
        // 50 cases: both yes 20, only first 5, only second 10, both no 15; κ = 0.4 (the textbook example).
        assert!((kappa(50, 20, 5, 10).unwrap() - 0.4).abs() < 1e-12);
        assert_eq!(kappa(10, 3, 0, 0), Some(1.0));
        assert!((kappa(4, 0, 2, 2).unwrap() + 1.0).abs() < 1e-12, "always the opposite");
        assert_eq!(kappa(10, 0, 0, 0), None, "neither marked anything");
        assert_eq!(kappa(10, 10, 0, 0), None, "both marked everything");
        assert_eq!(kappa(0, 0, 0, 0), None);
    }

    #[test]
    fn the_same_texts_are_compared_and_differences_listed() {
        let (a, b) = (text(30), text(20));
        let records = [
            record("ann", &a, &[1, 2]),
            record("ben", &a, &[2, 3]),
            record("ann", &b, &[0]),
            record("ben", &b, &[0]),
            record("ben", &text(5), &[1]),
        ];
        let found = agreement(&records);
        assert_eq!(found.annotators, ["ann", "ben"]);
        let pair = &found.pairs[0];
        assert_eq!((pair.functions, pair.lines), (2, 50));
        assert_eq!((pair.both, pair.only_first, pair.only_second), (2, 1, 1));
        // p_o = 48/50, p_e = (3·3 + 47·47)/2500 = 0.8872.
        assert!((pair.kappa.unwrap() - (0.96 - 0.8872) / (1.0 - 0.8872)).abs() < 1e-12);
        let lines: Vec<_> =
            found.disagreements.iter().map(|d| (d.line, d.text.as_str(), &d.flaw[..])).collect();
        assert_eq!(lines, [(1, "line 1", &["ann".to_string()][..]), (3, "line 3", &["ben".to_string()][..])]);
        assert_eq!(found.disagreements[0].not_marked, ["ben"]);
    }

    #[test]
    fn what_cannot_be_compared_is_counted() {
        let code = text(4);
        let without = |annotator: &str| Record { range: None, ..record(annotator, &code, &[1]) };
        let label_only = Record { lines: Vec::new(), ..record("c", &code, &[]) };
        let no_hash = Record { body_sha256: None, ..record("a", &code, &[1]) };
        let found = agreement(&[without("a"), without("b"), label_only, no_hash]);
        assert_eq!((found.pairs.len(), found.without_line_count, found.without_hash), (0, 1, 1));
        assert_eq!(found.annotators, ["a", "b", "c"]);
        let later = [record("a", &code, &[0]), record("a", &code, &[1]), record("b", &code, &[1])];
        assert!(agreement(&later).disagreements.is_empty(), "the last record of an annotator counts");
    }
}
