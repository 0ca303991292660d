//! What people say of a function beside what was found out about it.

use super::Finding;
use crate::alignment::{self, Alignment, Unit, Verdicts};
use crate::annotations::Label;
use crate::annotations::matching::Matched;
use crate::annotations::policy::{Opinion, Policy};
use crate::lines::{LineScore, reference};
use crate::text::LineIndex;
use std::collections::BTreeMap;

/// Ground truth of one function. Lines are 0-based lines of the document.
#[derive(Clone, Debug, PartialEq)]
pub struct GroundTruth {
    /// What the policy makes of the annotators' labels.
    pub label: Label,
    /// The lines that are ground truth by the policy, in order.
    pub lines: Vec<usize>,
    /// Those of them whose text no record has as it is now: lines that may have changed since they were labelled.
    pub approximate: Vec<usize>,
    /// The texts of the lines that anybody labelled.
    pub texts: BTreeMap<usize, String>,
    /// The policy's name.
    pub policy: String,
    /// The annotator who alone counts by the policy but says nothing of this function.
    pub silent: Option<String>,
    /// Labelled lines that were not found again in the function's text.
    pub unmatched: usize,
    /// Why it is not certain that a record speaks of this function, in words.
    pub found_by: Option<String>,
    /// How many records of other texts of the function hold no more, as their annotators said something newer.
    pub set_aside: usize,
    pub annotators: Vec<Annotator>,
    pub cwe: Vec<String>,
    pub cve: Vec<String>,
    pub notes: Vec<String>,
}

/// The label's name in files and messages.
pub fn label_name(label: Label) -> &'static str {
    match label {
        Label::Vulnerable => "vulnerable",
        Label::Benign => "benign",
        Label::Unsure => "unsure",
    }
}

/// What one annotator says. Lines are 0-based lines of the document.
#[derive(Clone, Debug, PartialEq)]
pub struct Annotator {
    pub name: String,
    pub label: Label,
    pub lines: Vec<usize>,
    pub note: Option<String>,
}

/// The name of an annotator of whom the records say none.
const NAMELESS: &str = "unnamed";

impl GroundTruth {
    /// What the records that were found for a function amount to; `None` without any. The function's text starts on the
    /// document's line `start_line`.
    pub fn of_matches(
        matched: &[Matched<'_>],
        policy: &Policy,
        start_line: usize,
        function: &str,
    ) -> Option<GroundTruth> {
        let opinions: Vec<Opinion> = matched.iter().map(Matched::opinion).collect();
        let mut truth = GroundTruth::new(&opinions, policy, start_line, function)?;
        for (annotator, matched) in truth.annotators.iter_mut().zip(matched) {
            annotator.note.clone_from(&matched.record.note);
        }
        truth.unmatched += matched.iter().map(|matched| matched.unmatched.len()).sum::<usize>();
        for record in matched.iter().flat_map(Matched::records) {
            truth.cwe.extend(record.cwe.iter().cloned());
            truth.cve.extend(record.cve.iter().cloned());
            truth.notes.extend(record.note.iter().cloned());
        }
        let knows = |matched: &Matched<'_>, line: usize| {
            matched.lines.binary_search_by_key(&line, |(other, _)| *other).is_ok()
                && !matched.changed.contains(&line)
        };
        let is_changed = |line: &usize| {
            line.checked_sub(start_line)
                .is_some_and(|line| !matched.iter().any(|matched| knows(matched, line)))
        };
        truth.approximate = truth.lines.iter().copied().filter(is_changed).collect();
        truth.found_by = matched.iter().find_map(Matched::doubt);
        truth.set_aside = matched.iter().map(|matched| matched.aside.len()).sum();
        for names in [&mut truth.cwe, &mut truth.cve, &mut truth.notes] {
            names.sort();
            names.dedup();
        }
        Some(truth)
    }

    /// What these opinions amount to for a function with this text that starts on the document's line `start_line`;
    /// `None` without any.
    pub fn new(
        opinions: &[Opinion],
        policy: &Policy,
        start_line: usize,
        function: &str,
    ) -> Option<GroundTruth> {
        let of_function = LineIndex::new(function);
        let labelled = opinions.iter().flat_map(|opinion| opinion.lines.iter().map(|(line, _)| *line));
        let text = |line: usize| of_function.line_span(line).of(function).unwrap_or_default().to_string();
        let texts = labelled.map(|line| (line + start_line, text(line))).collect();
        let in_document =
            |lines: Vec<usize>| lines.into_iter().map(|line| line + start_line).collect::<Vec<_>>();
        let annotators: Vec<Annotator> = opinions
            .iter()
            .map(|opinion| Annotator {
                name: opinion.annotator.clone().unwrap_or_else(|| NAMELESS.to_string()),
                label: opinion.label,
                lines: in_document(opinion.flaws()),
                note: None,
            })
            .collect();
        (!annotators.is_empty()).then(|| GroundTruth {
            // Where the one who counts says nothing.
            label: policy.label(opinions).unwrap_or(Label::Unsure),
            lines: in_document(policy.lines(opinions)),
            approximate: Vec::new(),
            texts,
            policy: policy.to_string(),
            silent: match policy {
                Policy::Annotator(name)
                    if !opinions.iter().any(|opinion| opinion.annotator.as_ref() == Some(name)) =>
                {
                    Some(name.clone())
                }
                _ => None,
            },
            unmatched: 0,
            found_by: None,
            set_aside: 0,
            annotators,
            cwe: Vec::new(),
            cve: Vec::new(),
            notes: Vec::new(),
        })
    }

    /// In words: label, annotators, lines (from 1), what could not be found.
    pub fn describe(&self) -> String {
        let label = self.label_name();
        if let Some(reason) = self.reason() {
            return format!("{reason} ({})", self.policy);
        }
        let heard = |name: &str| self.policy.strip_prefix("annotator:").is_none_or(|only| only == name);
        let names = self.annotators.iter().map(|annotator| annotator.name.as_str());
        let names: Vec<&str> = names.filter(|name| heard(name)).collect();
        let by = match names.len() {
            0 => String::new(),
            1 => format!(" by {}", names.join(", ")),
            _ => format!(" by {} ({})", names.join(", "), self.policy),
        };
        let mut words = format!("{label}{by}");
        if !self.lines.is_empty() {
            let lines: Vec<String> = self.lines.iter().map(|line| (line + 1).to_string()).collect();
            let noun = if lines.len() == 1 { "line" } else { "lines" };
            words.push_str(&format!(", {noun} {}", lines.join(", ")));
        }
        for id in self.cwe.iter().chain(&self.cve) {
            words.push_str(&format!(", {id}"));
        }
        if self.unmatched > 0 {
            words.push_str(&format!(", {} not found again in the text", self.unmatched));
        }
        for more in self.changed().iter().chain(&self.found_by).chain(&self.older()) {
            words.push_str(&format!("; {more}"));
        }
        words
    }

    fn older(&self) -> Option<String> {
        let noun = if self.set_aside == 1 { "record" } else { "records" };
        (self.set_aside > 0).then(|| format!("{} {noun} of an older text set aside", self.set_aside))
    }

    /// How many of its lines are not what was labelled any more. They stay ground truth, as nobody said otherwise.
    pub fn changed(&self) -> Option<String> {
        let (changed, all) = (self.approximate.len(), self.lines.len());
        let noun = if all == 1 { "line" } else { "lines" };
        (changed > 0).then(|| format!("{changed} of {all} {noun} may have changed since labelled"))
    }

    /// Why there is no ground truth although there are records.
    pub fn reason(&self) -> Option<String> {
        self.silent.as_ref().map(|name| format!("{name} has labelled nothing here"))
    }

    /// `vulnerable`, `benign` or `unsure`.
    pub fn label_name(&self) -> &'static str {
        label_name(self.label)
    }
}

/// Ground truth and how far a finding agrees with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Agreement {
    pub truth: GroundTruth,
    pub alignment: Alignment,
    /// Detection Alignment with each annotator alone, in the order of `truth.annotators`; `None` where it is undefined.
    pub per_annotator: Vec<Option<f64>>,
}

impl Agreement {
    /// Why Detection Alignment is undefined.
    pub fn undefined(&self) -> Option<String> {
        let reason = self.alignment.da.as_ref().err()?;
        Some(self.truth.reason().unwrap_or_else(|| reason.to_string()))
    }
}

impl Finding {
    /// The finding beside this ground truth, or without any. Costs no run of the model.
    pub fn with_truth(mut self, truth: Option<GroundTruth>) -> Finding {
        self.agreement = truth.map(|truth| {
            let per_annotator = truth
                .annotators
                .iter()
                .map(|annotator| self.align(&annotator.lines, &truth.texts, annotator.label).da.ok())
                .collect();
            let alignment = self.align(&truth.lines, &truth.texts, truth.label);
            Agreement { alignment, per_annotator, truth }
        });
        self
    }

    /// Agreement of what was scored (lines, statements, or the units of the profile `reference`, which are told by their
    /// text) with these lines of the document.
    pub fn align(&self, truth: &[usize], texts: &BTreeMap<usize, String>, label: Label) -> Alignment {
        let verdicts =
            Verdicts { predicted_vulnerable: self.flagged, labelled_vulnerable: label == Label::Vulnerable };
        if let Some(statements) = &self.statements {
            let truth = statements.units_of(truth);
            return alignment::align(&statements.scores.scored, &truth, verdicts);
        }
        if self.units.is_empty() {
            return alignment::align(&self.lines, truth, verdicts);
        }
        let texts = truth.iter().filter_map(|line| texts.get(line)).map(String::as_str);
        let is_true = reference::truth(&self.units, texts);
        let units = self.units.iter().zip(is_true);
        let units: Vec<Unit> = units.map(|(unit, is_true)| Unit { score: unit.score, is_true }).collect();
        match truth {
            [] => alignment::align_units(&units, 0, verdicts),
            _ => alignment::align_matched_units(&units, verdicts),
        }
    }

    /// What was scored: lines, or statements by their number.
    pub(super) fn scored(&self) -> &[LineScore] {
        self.statements.as_ref().map_or(&self.lines, |statements| &statements.scores.scored)
    }

    /// What Detection Alignment counts: `lines`, `statements`, or the `units` of the profile `reference`.
    pub fn counted(&self) -> &'static str {
        match &self.statements {
            Some(_) => "statements",
            None if !self.units.is_empty() => "units",
            None => "lines",
        }
    }

    /// What Detection Alignment would be if the function had been flagged; only where it is 0 because it was not.
    pub fn would_be(&self) -> Option<f64> {
        self.agreement.as_ref()?.alignment.would_be
    }

    /// Detection Alignment beside its null, in a few words.
    pub fn shown_alignment(&self) -> Option<String> {
        let Agreement { truth, alignment, .. } = self.agreement.as_ref()?;
        let Ok(da) = &alignment.da else { return Some("DA undefined".to_string()) };
        let beside = match (alignment.would_be, alignment.null_permutation) {
            (Some(would_be), _) => Some(format!("would be {would_be:.2}")),
            (None, Some(null)) => Some(format!("null {null:.2}")),
            (None, None) => None,
        };
        let beside: Vec<String> = beside.into_iter().chain(truth.changed()).collect();
        let beside = if beside.is_empty() { String::new() } else { format!(" ({})", beside.join("; ")) };
        Some(format!("DA {da:.2}{beside}"))
    }

    /// Whether the ground truth names a line of the document that was changed since it was labelled.
    pub fn is_approximate(&self, line: usize) -> bool {
        self.agreement.as_ref().is_some_and(|agreement| agreement.truth.approximate.contains(&line))
    }

    /// Whether the ground truth names a line of the document.
    pub fn is_true(&self, line: usize) -> bool {
        self.agreement.as_ref().is_some_and(|agreement| agreement.truth.lines.contains(&line))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::explain::Method;
    use crate::lines::{LineScores, UnitScores};
    use crate::syntax::{Function, FunctionKind};
    use crate::text::ByteSpan;

    /// A finding with these raw relevances on the lines from 0.
    pub(in crate::analysis) fn finding(raw: &[f64], flagged: bool) -> Finding {
        let (low, high) = raw.iter().fold((f64::MAX, f64::MIN), |(low, high), r| (low.min(*r), high.max(*r)));
        let scored = raw.iter().enumerate();
        let lines: Vec<LineScore> = scored
            .map(|(line, r)| LineScore {
                line,
                raw: *r,
                score: if high > low { (r - low) / (high - low) } else { 0.0 },
                rank: 1 + raw.iter().enumerate().filter(|(n, x)| *x > r || *x == r && *n < line).count(),
            })
            .collect();
        let span = ByteSpan::new(0, 1);
        Finding {
            function: Function {
                name: "f".to_string(),
                kind: FunctionKind::Function,
                span,
                name_span: span,
                parse_errors: false,
            },
            start_line: 0,
            end_line: raw.len().saturating_sub(1),
            method: Method::default(),
            profile: "editor".to_string(),
            probability: if flagged { 0.75 } else { 0.25 },
            threshold: 0.5,
            flagged,
            truncated: false,
            windows: 1,
            lines,
            unseen_lines: Vec::new(),
            statements: None,
            units: Vec::new(),
            completeness: None,
            faithfulness: None,
            agreement: None,
        }
    }

    pub(in crate::analysis) fn truth(lines: &[usize]) -> GroundTruth {
        GroundTruth {
            label: Label::Vulnerable,
            lines: lines.to_vec(),
            approximate: Vec::new(),
            texts: BTreeMap::new(),
            policy: "majority".to_string(),
            silent: None,
            unmatched: 0,
            found_by: None,
            set_aside: 0,
            annotators: vec![Annotator {
                name: "bob".to_string(),
                label: Label::Vulnerable,
                lines: lines.to_vec(),
                note: None,
            }],
            cwe: Vec::new(),
            cve: Vec::new(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn agreement_by_hand() {
        // Scores 0, 0.5, 1; the last line is true: intersection 1, union 1 + 0.5.
        let found = finding(&[0.0, 1.0, 2.0], true).with_truth(Some(truth(&[2])));
        let agreement = found.agreement.as_ref().unwrap();
        assert_eq!(agreement.alignment.da, Ok(1.0 / 1.5));
        assert_eq!(agreement.per_annotator, [Some(1.0 / 1.5)]);
        assert_eq!(found.shown_alignment().unwrap(), "DA 0.67 (null 0.31)");
        assert!(found.is_true(2) && !found.is_true(1));
        assert_eq!(agreement.truth.describe(), "vulnerable by bob, line 3");

        let unflagged = finding(&[0.0, 1.0, 2.0], false).with_truth(Some(truth(&[2])));
        assert_eq!(unflagged.shown_alignment().unwrap(), "DA 0.00 (would be 0.67)");
        assert_eq!(unflagged.would_be(), Some(1.0 / 1.5));
        let without = unflagged.with_truth(Some(truth(&[])));
        assert_eq!(without.shown_alignment().unwrap(), "DA undefined");
        assert_eq!(without.with_truth(None).shown_alignment(), None);
    }

    #[test]
    fn a_line_that_changed_since_it_was_labelled_is_said_beside_the_number() {
        let changed = GroundTruth { approximate: vec![2], ..truth(&[1, 2]) };
        assert_eq!(
            changed.describe(),
            "vulnerable by bob, lines 2, 3; 1 of 2 lines may have changed since labelled"
        );
        let found = finding(&[0.0, 1.0, 2.0], true).with_truth(Some(changed));
        // G = {2, 3}: intersection 0.5 + 1, union 1 + 1.
        assert_eq!(found.agreement.as_ref().unwrap().alignment.da, Ok(0.75));
        let shown = found.shown_alignment().unwrap();
        assert!(
            shown.starts_with("DA 0.75 (null ")
                && shown.ends_with("; 1 of 2 lines may have changed since labelled)"),
            "{shown}"
        );
        let unflagged = GroundTruth { approximate: vec![2], ..truth(&[2]) };
        let found = finding(&[0.0, 1.0, 2.0], false).with_truth(Some(unflagged));
        assert_eq!(
            found.shown_alignment().unwrap(),
            "DA 0.00 (would be 0.67; 1 of 1 line may have changed since labelled)"
        );
    }

    #[test]
    fn who_says_nothing_is_named_and_nobody_else() {
        let opinion = |name: &str| Opinion {
            annotator: Some(name.to_string()),
            label: Label::Vulnerable,
            lines: vec![(0, crate::annotations::LineLabel::Flaw)],
        };
        let policy = Policy::Annotator("zed".to_string());
        let silent = GroundTruth::new(&[opinion("ann"), opinion("bob")], &policy, 0, "f").unwrap();
        assert_eq!(silent.describe(), "zed has labelled nothing here (annotator:zed)");
        let found = finding(&[0.0, 1.0], true).with_truth(Some(silent));
        let agreement = found.agreement.as_ref().unwrap();
        assert_eq!(agreement.undefined().unwrap(), "zed has labelled nothing here");
        let heard = GroundTruth::new(&[opinion("ann"), opinion("zed")], &policy, 0, "f").unwrap();
        assert_eq!(heard.describe(), "vulnerable by zed, line 1");
    }

    #[test]
    fn statements_are_counted_in_the_place_of_lines() {
        let score = |line, score| LineScore { line, raw: score, score, rank: 1 };
        let statements = UnitScores {
            lines: vec![vec![0, 1], vec![1, 2]],
            scores: LineScores { scored: vec![score(0, 1.0), score(1, 0.0)], unseen: Vec::new() },
        };
        let found = Finding { statements: Some(statements), ..finding(&[0.0, 1.0, 2.0], true) };
        // Line 2 makes the second statement true, line 1 both.
        assert_eq!(found.align(&[2], &BTreeMap::new(), Label::Vulnerable).da, Ok(0.0));
        assert_eq!(found.align(&[1], &BTreeMap::new(), Label::Vulnerable).da, Ok(0.5));
        assert_eq!(found.align(&[0], &BTreeMap::new(), Label::Vulnerable).da, Ok(1.0));
        assert_eq!(found.scored().len(), 2);
        assert_eq!((found.counted(), finding(&[0.0], true).counted()), ("statements", "lines"));
    }
}
