//! One line of a run's results: how it is written, and what it must be to count when it is read again.

use super::store::Part;
use crate::alignment::Unit;
use crate::analysis::{Granularity, Options, Profile};
use crate::evaluation::{Explanation, Facts, Score};
use crate::explain::{Completeness, Faithfulness, Method};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// One line of the results. `model` and `split` are numbers of the manifest's lists, `function` counts the split's
/// functions from 0.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Row {
    model: usize,
    split: usize,
    function: usize,
    /// The beginning of the SHA-256 over the function's text, hex.
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<ScoreRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<ExplanationRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ScoreRow {
    #[serde(deserialize_with = "exact")]
    probability: f64,
    tokens: usize,
    truncated: bool,
}

/// `scores[i]` belongs to the i-th scored line; `truth` numbers those that are ground truth.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ExplanationRow {
    #[serde(deserialize_with = "exact_list")]
    scores: Vec<f64>,
    truth: Vec<usize>,
    outside: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    completeness: Option<CompletenessRow>,
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "exact_list")]
    faithfulness: Vec<f64>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CompletenessRow {
    #[serde(deserialize_with = "exact")]
    gap: f64,
    #[serde(deserialize_with = "exact")]
    change: f64,
    reached: bool,
    evaluations: usize,
}

/// The number that was written: serde_json reads numbers a last bit off now and then, and a run that goes on must give what
/// one gives that was not interrupted.
fn exact<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    parse_exactly(&Box::<RawValue>::deserialize(deserializer)?)
}

fn exact_list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
    Vec::<Box<RawValue>>::deserialize(deserializer)?.iter().map(|raw| parse_exactly(raw)).collect()
}

fn parse_exactly<E: serde::de::Error>(raw: &RawValue) -> Result<f64, E> {
    raw.get().parse().map_err(|_| E::custom(format!("expected a number, found {}", raw.get())))
}

/// What a row says.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Said {
    Score(Result<Score, String>),
    Explanation(Method, Result<Explanation, String>),
}

/// Which function of which split a row is about, and by which model.
pub(super) type Place = (Part, usize);

/// Why a row does not count: a kind of problem.
type Bad = &'static str;

/// What is known of a run before its results are read.
#[derive(Debug)]
pub(super) struct Known<'a> {
    models: usize,
    /// The functions of each split.
    splits: Vec<&'a [Facts]>,
    units: Units,
    faithfulness: bool,
}

/// What is scored in the place of lines.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Units {
    Lines,
    Statements,
    /// Units of the profile `reference`, which are matched by their text.
    Matched,
}

impl<'a> Known<'a> {
    pub(super) fn new(models: usize, splits: Vec<&'a [Facts]>, options: &Options) -> Known<'a> {
        let units = match (options.granularity, options.profile) {
            (Granularity::Statement, _) => Units::Statements,
            (Granularity::Line, Profile::Reference) => Units::Matched,
            (Granularity::Line, Profile::Editor | Profile::Paper) => Units::Lines,
        };
        Known { models, splits, units, faithfulness: options.faithfulness }
    }

    /// The name by which a row knows a function's text.
    pub(super) fn text(&self, (part, function): Place) -> String {
        let facts = self.splits.get(part.1).and_then(|split| split.get(function));
        facts.map(|facts| facts.fingerprint.to_hex()).unwrap_or_default()
    }

    /// What a line of the file says, or why it says nothing.
    pub(super) fn read(&self, line: &[u8]) -> Result<(Place, Said), Bad> {
        let row: Row = serde_json::from_slice(line).map_err(|_| "not a result of this version")?;
        if row.model >= self.models {
            return Err("of an unknown model");
        }
        let split = self.splits.get(row.split).ok_or("of an unknown split")?;
        let facts = split.get(row.function).ok_or("of an unknown function")?;
        if row.text != facts.fingerprint.to_hex() {
            return Err("of another text than the function has now");
        }
        let said = match (row.method, row.score, row.explanation, row.error) {
            (None, Some(score), None, None) => Said::Score(Ok(score.checked(facts)?)),
            (None, None, None, Some(error)) => Said::Score(Err(error)),
            (Some(method), None, explanation, error) => {
                let method: Method = method.parse().map_err(|_| "of an unknown method")?;
                let explained = match (explanation, error) {
                    (Some(explanation), None) => Ok(explanation.checked(facts, self)?),
                    (None, Some(error)) => Err(error),
                    _ => return Err("neither a score, an explanation nor an error"),
                };
                Said::Explanation(method, explained)
            }
            _ => return Err("neither a score, an explanation nor an error"),
        };
        Ok((((row.model, row.split), row.function), said))
    }
}

impl Row {
    pub(super) fn new((part, function): Place, text: String, said: &Said) -> Row {
        let (method, score, explanation, error) = match said {
            Said::Score(Ok(score)) => (None, Some(ScoreRow::new(score)), None, None),
            Said::Score(Err(error)) => (None, None, None, Some(error.clone())),
            Said::Explanation(method, Ok(explanation)) => {
                (Some(method.to_string()), None, Some(ExplanationRow::new(explanation)), None)
            }
            Said::Explanation(method, Err(error)) => {
                (Some(method.to_string()), None, None, Some(error.clone()))
            }
        };
        Row { model: part.0, split: part.1, function, text, method, score, explanation, error }
    }
}

impl ScoreRow {
    fn new(score: &Score) -> ScoreRow {
        ScoreRow { probability: score.probability, tokens: score.tokens, truncated: score.truncated }
    }

    fn checked(self, facts: &Facts) -> Result<Score, Bad> {
        let ScoreRow { probability, tokens, truncated } = self;
        // NaN lies in no range.
        if !(0.0..=1.0).contains(&probability) {
            return Err("with a probability outside 0..1");
        }
        // A token is at least a byte; a normaliser may make some of a character.
        if tokens > 16 + 8 * facts.bytes {
            return Err("with more tokens than the function can have");
        }
        Ok(Score { probability, tokens, truncated })
    }
}

impl ExplanationRow {
    fn new(explanation: &Explanation) -> ExplanationRow {
        let truth = explanation.units.iter().enumerate().filter(|(_, unit)| unit.is_true);
        ExplanationRow {
            scores: explanation.units.iter().map(|unit| unit.score).collect(),
            truth: truth.map(|(number, _)| number).collect(),
            outside: explanation.outside,
            completeness: explanation.completeness.map(|c| CompletenessRow {
                gap: c.gap,
                change: c.change,
                reached: c.reached,
                evaluations: c.evaluations,
            }),
            faithfulness: explanation.faithfulness.map_or_else(Vec::new, |f| {
                vec![f.comprehensiveness, f.sufficiency, f.random_comprehensiveness, f.random_sufficiency]
            }),
        }
    }

    /// Only what can be an explanation of this function.
    fn checked(self, facts: &Facts, known: &Known<'_>) -> Result<Explanation, Bad> {
        let (scored, is_true) = (self.scores.len(), self.truth.len());
        if self.scores.iter().any(|score| !(0.0..=1.0).contains(score)) {
            return Err("with a line score outside 0..1");
        }
        let most = if known.units == Units::Lines { facts.lines } else { facts.bytes };
        if scored > most {
            return Err("with more scored lines than the function has");
        }
        let is_ordered = self.truth.is_sorted_by(|a, b| a < b);
        if !is_ordered || self.truth.last().is_some_and(|last| *last >= scored) {
            return Err("with ground truth that is no scored line");
        }
        let labelled = facts.truth.len();
        let fits = match (known.units, self.outside) {
            // Each ground-truth line is a scored one or lies outside.
            (Units::Lines, Some(outside)) => is_true.checked_add(outside) == Some(labelled),
            // A line may belong to several statements, and a statement to several lines.
            (Units::Statements, Some(outside)) => {
                outside <= facts.bytes && (labelled > 0 || is_true + outside == 0)
            }
            (Units::Matched, None) => labelled > 0 || is_true == 0,
            _ => false,
        };
        if !fits {
            return Err("with other ground truth than the function has");
        }
        let gap_fits = self
            .completeness
            .as_ref()
            .is_none_or(|found| found.gap.is_finite() && found.gap >= 0.0 && found.change.abs() <= 1.0);
        if !gap_fits {
            return Err("with a completeness gap that is none");
        }
        let count = self.faithfulness.len();
        let in_range = self.faithfulness.iter().all(|value| (-1.0..=1.0).contains(value));
        if !in_range || !(count == 0 || count == 4 && known.faithfulness) {
            return Err("with faithfulness figures that are none");
        }
        Ok(self.into_explanation())
    }

    fn into_explanation(self) -> Explanation {
        let mut units: Vec<Unit> =
            self.scores.iter().map(|score| Unit { score: *score, is_true: false }).collect();
        for number in self.truth {
            if let Some(unit) = units.get_mut(number) {
                unit.is_true = true;
            }
        }
        Explanation {
            units,
            outside: self.outside,
            completeness: self.completeness.map(|CompletenessRow { gap, change, reached, evaluations }| {
                Completeness { gap, change, reached, evaluations }
            }),
            faithfulness: match self.faithfulness.as_slice() {
                [comprehensiveness, sufficiency, random_comprehensiveness, random_sufficiency] => {
                    Some(Faithfulness {
                        comprehensiveness: *comprehensiveness,
                        sufficiency: *sufficiency,
                        random_comprehensiveness: *random_comprehensiveness,
                        random_sufficiency: *random_sufficiency,
                    })
                }
                _ => None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::annotations::Label;
    use crate::evaluation::Fingerprint;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn numbers_survive_the_file(values in proptest::collection::vec(-1e3f64..1e3, 1..20), tiny in any::<f64>()) {
            prop_assume!(tiny.is_finite());
            let scores: Vec<f64> = values.into_iter().chain([tiny, 0.1, 1.0 / 3.0]).collect();
            let row = ExplanationRow {
                scores: scores.clone(), truth: vec![0], outside: Some(2),
                completeness: Some(CompletenessRow { gap: tiny, change: -tiny, reached: true, evaluations: 4 }),
                faithfulness: scores[..scores.len().min(4)].to_vec(),
            };
            let read: ExplanationRow = serde_json::from_str(&serde_json::to_string(&row).unwrap()).unwrap();
            prop_assert_eq!(&read.scores, &scores);
            prop_assert_eq!(&read.faithfulness, &row.faithfulness);
            let explanation = read.into_explanation();
            prop_assert_eq!(explanation.completeness.unwrap().gap, tiny);
            prop_assert_eq!(explanation.completeness.unwrap().change, -tiny);
            prop_assert!(explanation.units[0].is_true);
        }
    }

    fn facts(truth: &[usize]) -> Facts {
        let text = "int f(void)\n{\n\treturn 1;\n}\n";
        Facts {
            index: 0,
            row: 1,
            id: None,
            label: Label::Vulnerable,
            truth: truth.to_vec(),
            cwe: Vec::new(),
            collection: None,
            project: None,
            commit: None,
            pair: None,
            bytes: text.len(),
            lines: 5,
            fingerprint: Fingerprint::of(text),
        }
    }

    #[test]
    fn only_what_can_be_a_result_counts() {
        let of_split = [facts(&[2])];
        let text = of_split[0].fingerprint.to_hex();
        let read = |options: &Options, rest: &str| {
            let known = Known::new(1, vec![&of_split], options);
            let line = format!("{{\"model\":0,\"split\":0,\"function\":0,\"text\":\"{text}\",{rest}}}");
            known.read(line.as_bytes()).map(|(place, _)| place)
        };
        let lines = Options::default();
        let statements = Options { granularity: Granularity::Statement, ..lines };
        let reference = Options { profile: Profile::Reference, ..lines };
        let score = |probability: &str, tokens: &str| {
            format!("\"score\":{{\"probability\":{probability},\"tokens\":{tokens},\"truncated\":false}}")
        };
        let explanation = |scores: &str, truth: &str, outside: &str| {
            format!(
                "\"method\":\"occlusion\",\"explanation\":{{\"scores\":{scores},\"truth\":{truth},\"outside\":{outside}}}"
            )
        };
        for good in [
            score("0.5", "9"),
            score("1", "0"),
            "\"error\":\"why\"".to_string(),
            explanation("[0,1,0.5]", "[1]", "0"),
            explanation("[0,1]", "[]", "1"),
            "\"method\":\"occlusion\",\"error\":\"why\"".to_string(),
        ] {
            assert_eq!(read(&lines, &good), Ok(((0, 0), 0)), "{good}");
        }
        for (bad, why) in [
            (score("1.5", "9"), "with a probability outside 0..1"),
            (score("-1e-9", "9"), "with a probability outside 0..1"),
            (score("1e999", "9"), "with a probability outside 0..1"),
            (score("null", "9"), "not a result of this version"),
            (score("0.5", "18446744073709551615"), "with more tokens than the function can have"),
            (score("0.5", "-1"), "not a result of this version"),
            (explanation("[0,1.5]", "[1]", "0"), "with a line score outside 0..1"),
            (explanation("[0,1]", "[2]", "0"), "with ground truth that is no scored line"),
            (explanation("[0,1]", "[1,1]", "0"), "with ground truth that is no scored line"),
            (explanation("[0,1]", "[0,1]", "0"), "with other ground truth than the function has"),
            (
                explanation("[0,1]", "[]", "18446744073709551615"),
                "with other ground truth than the function has",
            ),
            (
                explanation("[0,1]", "[0]", "18446744073709551615"),
                "with other ground truth than the function has",
            ),
            (explanation("[0,1]", "[0]", "null"), "with other ground truth than the function has"),
            (explanation("[0,0,0,0,0,0]", "[0]", "0"), "with more scored lines than the function has"),
            (explanation("[0,1]", "[0]", "0").replace("occlusion", "magic"), "of an unknown method"),
            (
                explanation("[0,1]", "[0]", "0,\"faithfulness\":[0,0,0,0]"),
                "with faithfulness figures that are none",
            ),
            (
                explanation(
                    "[0,1]",
                    "[0]",
                    "0,\"completeness\":{\"gap\":-1,\"change\":1,\"reached\":true,\"evaluations\":1}",
                ),
                "with a completeness gap that is none",
            ),
            ("\"method\":\"occlusion\"".to_string(), "neither a score, an explanation nor an error"),
        ] {
            assert_eq!(read(&lines, &bad), Err(why), "{bad}");
        }
        assert!(read(&statements, &explanation("[0,1]", "[0,1]", "0")).is_ok());
        assert!(read(&statements, &explanation("[0,1]", "[0]", "18446744073709551615")).is_err());
        assert!(read(&reference, &explanation("[0,1]", "[0]", "null")).is_ok());
        assert!(read(&reference, &explanation("[0,1]", "[0]", "0")).is_err());
        let faithful = Options { faithfulness: true, ..lines };
        let figures = |values: &str| explanation("[0,1]", "[0]", &format!("0,\"faithfulness\":{values}"));
        assert!(read(&faithful, &figures("[0,-0.5,0.25,1]")).is_ok());
        assert!(
            read(&faithful, &figures("[0,-0.5,0.25]")).is_err()
                && read(&faithful, &figures("[0,2,0,0]")).is_err()
        );

        let known = Known::new(1, vec![&of_split], &lines);
        let place = |model: usize, split: usize, function: usize, text: &str| {
            let line = format!(
                "{{\"model\":{model},\"split\":{split},\"function\":{function},\"text\":\"{text}\",{}}}",
                score("0.5", "9")
            );
            known.read(line.as_bytes()).err()
        };
        assert_eq!(place(0, 0, 0, &text), None);
        assert_eq!(place(1, 0, 0, &text), Some("of an unknown model"));
        assert_eq!(place(0, 1, 0, &text), Some("of an unknown split"));
        assert_eq!(place(0, 0, 1, &text), Some("of an unknown function"));
        assert_eq!(
            place(0, 0, 0, &Fingerprint::of("int g;").to_hex()),
            Some("of another text than the function has now")
        );
        assert!(known.read(b"[]").is_err() && known.read(b"\xff").is_err() && known.read(b"{").is_err());
    }
}
