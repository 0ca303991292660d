//! From the numbers of a model's output to P(vulnerable).

use super::directory::{Label, OutputKind};

/// How the values of one output row give the probability.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Verdict {
    pub(super) labels: usize,
    pub(super) kind: OutputKind,
    /// The probabilities of these add up to P(vulnerable), or with `complement` to 1 − P(vulnerable).
    pub(super) indices: Vec<usize>,
    pub(super) complement: bool,
    /// For display.
    pub(super) description: String,
}

const POSITIVE: [&str; 18] = [
    "vulnerable",
    "vulnerability",
    "vul",
    "vuln",
    "unsafe",
    "insecure",
    "bad",
    "buggy",
    "defective",
    "defect",
    "positive",
    "flawed",
    "faulty",
    "malicious",
    "true",
    "yes",
    "1",
    "target",
];
const BENIGN: [&str; 20] = [
    "benign",
    "non-vulnerable",
    "nonvulnerable",
    "not-vulnerable",
    "notvulnerable",
    "invulnerable",
    "non-vul",
    "nonvul",
    "safe",
    "secure",
    "clean",
    "good",
    "negative",
    "normal",
    "none",
    "neutral",
    "fixed",
    "false",
    "no",
    "0",
];

fn means(name: &str, words: &[&str]) -> bool {
    let name = name.trim().to_lowercase().replace(['_', ' '], "-");
    words.contains(&name.as_str())
}

impl Verdict {
    /// `labels` is the number of values in a row, `names` what `config.json` calls them. The error says what to do.
    pub(super) fn new(
        labels: usize,
        kind: OutputKind,
        names: Option<&[String]>,
        positive: Option<&Label>,
    ) -> Result<Verdict, String> {
        if labels == 0 {
            return Err("expected at least one label, found none".to_string());
        }
        // A single value may be all that is shown of two labels: the probability of the second.
        if let (1, Some([first, second])) = (labels, names) {
            let index = usize::from(!means(first, &POSITIVE) || means(second, &POSITIVE));
            let name = [first, second][index];
            return match positive {
                Some(Label::Name(wanted)) if wanted != name => Err(format!(
                    "positive_label is \"{wanted}\", expected \"{name}\": the model's single value is its probability"
                )),
                Some(Label::Index(wanted)) if *wanted > 1 => {
                    Err(format!("positive_label is {wanted}, expected {index}"))
                }
                _ => Ok(Verdict {
                    labels,
                    kind,
                    indices: vec![0],
                    complement: false,
                    description: format!("{name} (index {index})"),
                }),
            };
        }
        let fits = names.filter(|names| names.len() == labels);
        let listed = || match fits {
            Some(names) => names.join(", "),
            None => format!("{labels} without names"),
        };
        let verdict = |indices: Vec<usize>, complement: bool, description: String| {
            Ok(Verdict { labels, kind, indices, complement, description })
        };
        let label = |index: usize| match fits {
            Some(names) => format!("{} (index {index})", names[index]),
            None => format!("index {index}"),
        };
        match positive {
            Some(Label::Index(index)) if *index < labels => {
                return verdict(vec![*index], false, label(*index));
            }
            // One value is the positive label's, whatever index it would have among two.
            Some(Label::Index(1)) if labels == 1 => return verdict(vec![0], false, label(0)),
            Some(Label::Index(index)) => {
                return Err(format!(
                    "positive_label is {index}, expected an index below {labels}: the labels are {}",
                    listed()
                ));
            }
            Some(Label::Name(name)) => {
                return match fits.and_then(|names| names.iter().position(|n| n == name)) {
                    Some(index) => verdict(vec![index], false, label(index)),
                    None => Err(format!(
                        "positive_label is \"{name}\", expected one of the labels of config.json: {}",
                        listed()
                    )),
                };
            }
            None => {}
        }
        if labels == 1 {
            return verdict(vec![0], false, label(0));
        }
        let all = |words: &[&str]| -> Vec<usize> {
            fits.map_or_else(Vec::new, |names| (0..labels).filter(|&i| means(&names[i], words)).collect())
        };
        let (bad, good) = (all(&POSITIVE), all(&BENIGN));
        if labels == 2 {
            let index = match (bad.as_slice(), good.as_slice()) {
                (&[index], _) => index,
                (_, &[index]) => 1 - index,
                _ => 1,
            };
            return verdict(vec![index], false, label(index));
        }
        if good.is_empty() {
            return Err(format!(
                "of {labels} labels ({}) none is known to be benign; expected a label named benign, safe, clean or the like: set positive_label in detector.toml",
                listed()
            ));
        }
        let description =
            format!("all but {}", good.iter().map(|&i| label(i)).collect::<Vec<_>>().join(", "));
        verdict(good, true, description)
    }

    /// P(vulnerable) of one row. The error says what is wrong with the row.
    pub(super) fn probability(&self, row: &[f32]) -> Result<f64, String> {
        if row.len() != self.labels {
            return Err(format!("expected {} values, found {}", self.labels, row.len()));
        }
        if let Some(value) = row.iter().find(|value| !value.is_finite()) {
            return Err(format!("expected finite numbers, found {value}"));
        }
        let row: Vec<f64> = row.iter().map(|&value| f64::from(value)).collect();
        let probabilities = match self.kind {
            OutputKind::Probabilities => {
                if let Some(value) = row.iter().find(|value| !(-1e-3..=1.0 + 1e-3).contains(*value)) {
                    return Err(format!(
                        "expected probabilities from 0 to 1, found {value}; set output = \"logits\" in detector.toml"
                    ));
                }
                row
            }
            OutputKind::Logits if row.len() == 1 => vec![1.0 / (1.0 + (-row[0]).exp())],
            OutputKind::Logits => {
                let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let powers: Vec<f64> = row.iter().map(|value| (value - largest).exp()).collect();
                let sum: f64 = powers.iter().sum();
                powers.into_iter().map(|power| power / sum).collect()
            }
        };
        let sum: f64 = self.indices.iter().map(|&index| probabilities[index]).sum();
        Ok((if self.complement { 1.0 - sum } else { sum }).clamp(0.0, 1.0))
    }
}
