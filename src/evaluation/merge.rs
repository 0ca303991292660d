//! Functions that occur more than once: records of several annotators become one function, repeated texts are counted.

use super::{Facts, Fingerprint};
use crate::annotations::policy::{Opinion, Policy};
use crate::annotations::{FunctionLines, Label, LineLabel, Pair, Record, Sample};
use std::collections::HashMap;

/// Records about the same function as one each, in the order of their first records; what holds for it is what `policy`
/// makes of all of them. Of several records of one annotator the last stands, as in the editor; those that name none are of one.
///
/// The same function is the same text in the same file (and project, where one is named): the same text elsewhere may be
/// used otherwise, and who labelled it there has not spoken of this one.
pub fn merge(samples: Vec<Sample>, policy: &Policy) -> Vec<Sample> {
    type Identity = (Option<String>, Option<String>, [u8; 16]);
    let mut places: HashMap<Identity, usize> = HashMap::new();
    let mut functions: Vec<Vec<Sample>> = Vec::new();
    for sample in samples {
        let text = Fingerprint::of(&sample.code).exact;
        let identity = (sample.project.clone(), sample.record.file.clone(), text);
        let place = *places.entry(identity).or_insert(functions.len());
        match functions.get_mut(place) {
            Some(records) => records.push(sample),
            None => functions.push(vec![sample]),
        }
    }
    functions.into_iter().filter_map(|records| one(records, policy)).collect()
}

fn one(records: Vec<Sample>, policy: &Policy) -> Option<Sample> {
    let mut opinions: Vec<Opinion> = Vec::new();
    let mut cwe: Vec<String> = Vec::new();
    let mut pair: Option<Pair> = None;
    let mut of_log: Vec<Option<&str>> = Vec::new();
    for Sample { record, is_region, .. } in &records {
        let new = opinion(record);
        let log = record.dataset.as_ref().filter(|_| *is_region).map(|dataset| dataset.name.as_str());
        match opinions.iter().position(|other| other.annotator == new.annotator) {
            Some(at) if log.is_some() && of_log[at] == log => join(&mut opinions[at], new),
            Some(at) => (opinions[at], of_log[at]) = (new, log),
            None => {
                opinions.push(new);
                of_log.push(log);
            }
        }
        cwe.extend(record.cwe.iter().filter(|name| !cwe.contains(name)).cloned().collect::<Vec<_>>());
        pair = pair.or_else(|| record.pair.clone());
    }
    let mut sample = records.into_iter().next()?;
    // Whom the policy does not hear has said nothing of the function.
    sample.record.label = policy.label(&opinions).unwrap_or(Label::Unsure);
    let lines = FunctionLines::new(&sample.code);
    let flaws = match sample.record.label {
        Label::Vulnerable => policy.lines(&opinions),
        Label::Benign | Label::Unsure => Vec::new(),
    };
    let flaws = flaws.into_iter().filter(|line| *line < lines.count());
    sample.record.lines = flaws.map(|line| lines.labelled(line, LineLabel::Flaw)).collect();
    sample.record.cwe = cwe;
    sample.record.pair = pair;
    Some(sample)
}

fn opinion(record: &Record) -> Opinion {
    let mut lines: Vec<(usize, LineLabel)> =
        record.lines.iter().map(|line| (line.line, line.label)).collect();
    lines.sort_by_key(|(line, _)| *line);
    lines.dedup_by_key(|(line, _)| *line);
    Opinion { annotator: record.voice().map(str::to_string), label: record.label, lines }
}

/// Another region that the same log marks in the function: what is a flaw to one of them is one.
fn join(opinion: &mut Opinion, other: Opinion) {
    for (line, label) in other.lines {
        match opinion.lines.binary_search_by_key(&line, |(line, _)| *line) {
            Ok(at) if label == LineLabel::Flaw => opinion.lines[at].1 = label,
            Ok(_) => {}
            Err(at) => opinion.lines.insert(at, (line, label)),
        }
    }
    if other.label == Label::Vulnerable {
        opinion.label = other.label;
    }
}

/// Rows whose text an earlier row has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Repeats {
    pub rows: usize,
    /// Those of them whose label or lines are not those of the first row with the text.
    pub differing: usize,
}

pub fn repeats(facts: &[Facts]) -> Repeats {
    let mut first: HashMap<[u8; 16], &Facts> = HashMap::new();
    let mut found = Repeats::default();
    for row in facts {
        let known = *first.entry(row.fingerprint.exact).or_insert(row);
        if known.index != row.index {
            found.rows += 1;
            found.differing += usize::from((known.label, &known.truth) != (row.label, &row.truth));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(code: &str, annotator: Option<&str>, label: Label, flaws: &[usize]) -> Sample {
        let mut record = FunctionLines::new(code).record(label, flaws.iter().copied());
        record.annotator = annotator.map(str::to_string);
        Sample {
            row: 1,
            id: None,
            code: code.to_string(),
            record,
            collection: None,
            project: None,
            commit: None,
            columns: (None, None),
            at_odds: crate::annotations::AtOdds::default(),
            is_region: false,
        }
    }

    #[test]
    fn records_of_one_function_are_merged_by_the_policy() {
        let (code, other) = ("int f(int a)\n{\n\treturn 1 / a;\n}", "int g(void) { return 0; }");
        let (vulnerable, benign) = (Label::Vulnerable, Label::Benign);
        let records = || {
            vec![
                said(code, Some("ann"), vulnerable, &[1, 2]),
                said(other, Some("ann"), benign, &[]),
                said(code, Some("bob"), vulnerable, &[2]),
                said(code, Some("cid"), benign, &[]),
            ]
        };
        let found = |policy: Policy| -> Vec<(Label, Vec<usize>)> {
            let merged = merge(records(), &policy).into_iter();
            merged.map(|sample| (sample.record.label, sample.record.flaw_lines().collect())).collect()
        };
        assert_eq!(found(Policy::Majority), [(vulnerable, vec![2]), (benign, vec![])]);
        assert_eq!(found(Policy::Union), [(vulnerable, vec![1, 2]), (benign, vec![])]);
        assert_eq!(found(Policy::Intersection), [(benign, vec![]), (benign, vec![])]);
        let of_cid = found(Policy::Annotator("cid".to_string()));
        assert_eq!(of_cid, [(benign, vec![]), (Label::Unsure, vec![])]);
        // The last word of an annotator stands.
        let mut again = records();
        again.push(said(code, Some("bob"), benign, &[]));
        assert_eq!(merge(again, &Policy::Majority)[0].record.label, benign);
    }

    #[test]
    fn records_that_name_no_annotator_are_of_one() {
        let code = "int f(int a)\n{\n\treturn 1 / a;\n}";
        let (vulnerable, benign) = (Label::Vulnerable, Label::Benign);
        let said = |label, flaws: &[usize]| said(code, None, label, flaws);
        let one = merge(vec![said(vulnerable, &[1]), said(vulnerable, &[2])], &Policy::Majority).remove(0);
        assert_eq!(one.record.flaw_lines().collect::<Vec<_>>(), [2], "the later one stands");
        let one = merge(vec![said(vulnerable, &[1]), said(benign, &[])], &Policy::Majority).remove(0);
        assert_eq!(one.record.label, benign);
        // Regions of one log are one opinion; so is what a data set says.
        let of = |mut sample: Sample, log: &str, is_region| {
            let dataset = crate::annotations::DatasetRow { name: log.to_string(), row: "1".to_string() };
            (sample.record.dataset, sample.is_region) = (Some(dataset), is_region);
            sample
        };
        for (second, is_region, lines) in
            [("a", true, vec![1, 2]), ("a", false, vec![2]), ("b", true, vec![])]
        {
            let samples = vec![
                of(said(vulnerable, &[1]), "a", is_region),
                of(said(vulnerable, &[2]), second, is_region),
            ];
            let one = merge(samples, &Policy::Majority).remove(0);
            assert_eq!(one.record.flaw_lines().collect::<Vec<_>>(), lines, "{second} {is_region}");
        }
    }

    #[test]
    fn equal_texts_in_other_files_or_projects_are_other_functions() {
        let code = "int f(void) { return 0; }";
        let of = |file: &str, project: Option<&str>, annotator, label| {
            let mut sample = said(code, Some(annotator), label, &[]);
            sample.record.file = Some(file.to_string());
            sample.project = project.map(str::to_string);
            sample
        };
        let (vulnerable, benign) = (Label::Vulnerable, Label::Benign);
        let merged = merge(
            vec![
                of("a.c", None, "ann", vulnerable),
                of("b.c", None, "bob", benign),
                of("a.c", None, "bob", vulnerable),
                of("a.c", Some("p"), "ann", benign),
            ],
            &Policy::Majority,
        );
        let found: Vec<_> =
            merged.iter().map(|s| (s.record.file.as_deref().unwrap(), s.record.label)).collect();
        assert_eq!(found, [("a.c", vulnerable), ("b.c", benign), ("a.c", benign)]);
    }

    #[test]
    fn repeated_texts_are_counted() {
        let samples = [
            said("int f;", None, Label::Benign, &[]),
            said("int f;", None, Label::Benign, &[]),
            said("int f;", None, Label::Vulnerable, &[0]),
            said("int g;", None, Label::Benign, &[]),
        ];
        let facts: Vec<Facts> = samples.iter().enumerate().map(|(index, s)| Facts::of(index, s)).collect();
        assert_eq!(repeats(&facts), Repeats { rows: 2, differing: 1 });
    }
}
