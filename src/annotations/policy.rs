//! What holds for a function about which several people say something.

use super::{Label, LineLabel};
use std::fmt;
use std::str::FromStr;

/// Which lines are ground truth where annotators differ. Only those who marked lines, or called the function benign, have
/// an opinion on its lines; who marked a line as unsure abstains on that line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Policy {
    /// Lines that more than half of them call a flaw.
    #[default]
    Majority,
    /// Lines that any of them calls a flaw.
    Union,
    /// Lines that all of them call a flaw.
    Intersection,
    /// The lines of one annotator, by name.
    Annotator(String),
}

const ONE_ANNOTATOR: &str = "annotator:";

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Majority => f.write_str("majority"),
            Policy::Union => f.write_str("union"),
            Policy::Intersection => f.write_str("intersection"),
            Policy::Annotator(name) => write!(f, "{ONE_ANNOTATOR}{name}"),
        }
    }
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Policy, String> {
        match text {
            "majority" => Ok(Policy::Majority),
            "union" => Ok(Policy::Union),
            "intersection" => Ok(Policy::Intersection),
            _ => match text.strip_prefix(ONE_ANNOTATOR) {
                Some(name) if !name.is_empty() => Ok(Policy::Annotator(name.to_string())),
                _ => Err(format!("expected majority, union, intersection or annotator:NAME, found {text:?}")),
            },
        }
    }
}

/// What one annotator says of one function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opinion {
    /// `None` where the records do not say.
    pub annotator: Option<String>,
    pub label: Label,
    /// 0-based lines of the function with their labels, each line once.
    pub lines: Vec<(usize, LineLabel)>,
}

impl Opinion {
    /// The lines it calls a flaw, in order.
    pub fn flaws(&self) -> Vec<usize> {
        let mut lines: Vec<usize> = self.with_label(LineLabel::Flaw).collect();
        lines.sort_unstable();
        lines
    }

    fn with_label(&self, label: LineLabel) -> impl Iterator<Item = usize> {
        self.lines.iter().filter(move |(_, found)| *found == label).map(|(line, _)| *line)
    }

    fn is_on_lines(&self) -> bool {
        !self.lines.is_empty() || self.label == Label::Benign
    }

    fn says(&self, line: usize) -> Option<LineLabel> {
        self.lines.iter().find(|(found, _)| *found == line).map(|(_, label)| *label)
    }
}

impl Policy {
    /// The ground-truth lines G of a function (semantics of Detection Alignment, Eq. 7 of Pintore et al.), 0-based, in
    /// order. Empty where nobody has an opinion on lines: alignment is undefined then.
    pub fn lines(&self, opinions: &[Opinion]) -> Vec<usize> {
        let voters: Vec<&Opinion> = self.heard(opinions).filter(|opinion| opinion.is_on_lines()).collect();
        let mut lines: Vec<usize> =
            voters.iter().flat_map(|opinion| opinion.with_label(LineLabel::Flaw)).collect();
        lines.sort_unstable();
        lines.dedup();
        lines.retain(|line| {
            let said: Vec<Option<LineLabel>> = voters.iter().map(|opinion| opinion.says(*line)).collect();
            let flaws = said.iter().filter(|label| **label == Some(LineLabel::Flaw)).count();
            let abstained = said.iter().filter(|label| **label == Some(LineLabel::Unsure)).count();
            match self {
                Policy::Majority => flaws * 2 > voters.len() - abstained,
                Policy::Union | Policy::Annotator(_) => flaws > 0,
                Policy::Intersection => flaws == voters.len(),
            }
        });
        lines
    }

    /// The function's label. Who is unsure abstains; a tie is unsure, under `union` one voice for vulnerable is enough,
    /// under `intersection` one against it. `None` without opinions.
    pub fn label(&self, opinions: &[Opinion]) -> Option<Label> {
        let heard: Vec<&Opinion> = self.heard(opinions).collect();
        let count = |label| heard.iter().filter(|opinion| opinion.label == label).count();
        let (vulnerable, benign) = (count(Label::Vulnerable), count(Label::Benign));
        if heard.is_empty() {
            return None;
        }
        Some(match self {
            _ if vulnerable + benign == 0 => Label::Unsure,
            Policy::Union if vulnerable > 0 => Label::Vulnerable,
            Policy::Intersection if benign > 0 => Label::Benign,
            _ if vulnerable > benign => Label::Vulnerable,
            _ if vulnerable < benign => Label::Benign,
            _ => Label::Unsure,
        })
    }

    fn heard<'a>(&'a self, opinions: &'a [Opinion]) -> impl Iterator<Item = &'a Opinion> {
        opinions.iter().filter(move |opinion| match self {
            Policy::Annotator(name) => opinion.annotator.as_ref() == Some(name),
            _ => true,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opinion(name: &str, label: Label, flaws: &[usize], unsure: &[usize]) -> Opinion {
        let lines = flaws.iter().map(|line| (*line, LineLabel::Flaw));
        Opinion {
            annotator: Some(name.to_string()),
            label,
            lines: lines.chain(unsure.iter().map(|line| (*line, LineLabel::Unsure))).collect(),
        }
    }

    #[test]
    fn lines_by_every_policy() {
        let three = [
            opinion("a", Label::Vulnerable, &[5, 1, 2], &[]),
            opinion("b", Label::Vulnerable, &[2], &[7]),
            opinion("c", Label::Vulnerable, &[2, 5, 7], &[]),
        ];
        assert_eq!(Policy::Majority.lines(&three), [2, 5]);
        assert_eq!(Policy::Union.lines(&three), [1, 2, 5, 7]);
        assert_eq!(Policy::Intersection.lines(&three), [2]);
        assert_eq!(Policy::Annotator("a".into()).lines(&three), [1, 2, 5]);
        assert!(Policy::Annotator("nobody".into()).lines(&three).is_empty());
    }

    #[test]
    fn half_is_no_majority_and_the_unsure_abstain() {
        let two =
            [opinion("a", Label::Vulnerable, &[1, 3], &[]), opinion("b", Label::Vulnerable, &[2], &[3])];
        assert_eq!(Policy::Majority.lines(&two), [3]);
        assert!(Policy::Intersection.lines(&two).is_empty());
    }

    #[test]
    fn a_label_without_lines_says_nothing_of_lines_unless_it_is_benign() {
        let flaw = opinion("a", Label::Vulnerable, &[1], &[]);
        let silent = opinion("b", Label::Vulnerable, &[], &[]);
        let benign = opinion("c", Label::Benign, &[], &[]);
        assert_eq!(Policy::Majority.lines(&[flaw.clone(), silent.clone()]), [1]);
        assert!(Policy::Majority.lines(&[flaw.clone(), benign.clone()]).is_empty());
        assert_eq!(Policy::Union.lines(&[flaw.clone(), benign.clone()]), [1]);
        assert!(Policy::Intersection.lines(&[flaw, benign]).is_empty());
        assert!(Policy::Majority.lines(&[silent]).is_empty());
    }

    #[test]
    fn labels_by_every_policy() {
        let [yes, no, unsure] =
            [Label::Vulnerable, Label::Benign, Label::Unsure].map(|label| opinion("a", label, &[], &[]));
        let tie = [yes.clone(), no.clone(), unsure.clone()];
        assert_eq!(Policy::Majority.label(&tie), Some(Label::Unsure));
        assert_eq!(Policy::Union.label(&tie), Some(Label::Vulnerable));
        assert_eq!(Policy::Intersection.label(&tie), Some(Label::Benign));
        assert_eq!(Policy::Majority.label(&[yes.clone(), yes.clone(), no]), Some(Label::Vulnerable));
        assert_eq!(Policy::Intersection.label(&[yes, unsure.clone()]), Some(Label::Vulnerable));
        assert_eq!(Policy::Union.label(&[unsure]), Some(Label::Unsure));
        assert_eq!(Policy::Majority.label(&[]), None);
    }

    #[test]
    fn names_are_read_as_they_are_written() {
        for policy in [Policy::Majority, Policy::Union, Policy::Intersection, Policy::Annotator("a:b".into())]
        {
            assert_eq!(policy.to_string().parse::<Policy>(), Ok(policy));
        }
        assert!("annotator:".parse::<Policy>().unwrap_err().contains("annotator:NAME"));
        assert!("most".parse::<Policy>().is_err());
    }
}
