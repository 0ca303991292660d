//! The tables of one model on one split: function level, alignment and localisation for each method, pairs, and the same
//! for parts of the split.

use super::merge::{Repeats, repeats};
use super::{Explanation, Facts, Score};
use crate::alignment::functions::{self, FunctionMetrics, Judged};
use crate::alignment::intervals::{self, Interval};
use crate::alignment::localisation::{self, AlignmentSummary, Flagged, Localisation};
use crate::alignment::pairs::{self, PairScores, PairTable};
use crate::alignment::{Alignment, Verdicts};
use crate::annotations::{Label, Role};
use crate::explain::Method;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Everything that is known about one model on one split.
#[derive(Clone, Copy, Debug)]
pub struct Evaluated<'a> {
    /// In the order of the dataset: `facts[i].index` is `i`.
    pub facts: &'a [Facts],
    /// `None` where the model failed.
    pub scores: &'a [Option<Score>],
    /// By the function's index.
    pub explanations: &'a [(Method, HashMap<usize, Explanation>)],
    pub threshold: f64,
    pub seed: u64,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub threshold: f64,
    pub counts: Counts,
    pub functions: FunctionMetrics,
    pub f1_interval: Option<Interval>,
    pub roc_auc_interval: Option<Interval>,
    pub majority: FunctionMetrics,
    pub methods: Vec<MethodReport>,
    pub pairs: Option<PairTable>,
    pub dropped_pairs: BTreeMap<DroppedPair, usize>,
    pub slices: Vec<Slice>,
    /// For plots: probability and truth of every function that has both.
    pub judged: Vec<Judged>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Counts {
    pub functions: usize,
    pub vulnerable: usize,
    pub benign: usize,
    /// Left out of everything.
    pub unsure: usize,
    pub with_lines: usize,
    pub unscored: usize,
    pub truncated: usize,
    /// Functions whose text an earlier one has.
    pub repeats: Repeats,
}

/// One method on one split.
#[derive(Clone, Debug, PartialEq)]
pub struct MethodReport {
    pub method: Method,
    pub alignment: Option<AlignmentSummary>,
    /// Vulnerable functions without DA, since the ground truth names no line.
    pub without_lines: usize,
    /// Functions that need an explanation and have none: the method failed.
    pub unexplained: usize,
    pub localisation: Localisation,
    pub completeness: Option<CompletenessMean>,
    pub faithfulness: Option<FaithfulnessMean>,
}

/// How far integrated gradients are from adding up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CompletenessMean {
    pub functions: usize,
    pub mean_gap: f64,
    pub largest_gap: f64,
    /// Share of the functions whose gap is within what adaptive integration aims at.
    pub reached: f64,
}

/// Means over the explained functions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FaithfulnessMean {
    pub functions: usize,
    pub comprehensiveness: f64,
    pub sufficiency: f64,
    pub random_comprehensiveness: f64,
    pub random_sufficiency: f64,
}

/// Why two halves of a fix are not counted as a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DroppedPair {
    NoFix,
    NoVulnerable,
    /// More than one function on a side.
    Ambiguous,
    /// The labels are not vulnerable before and benign after.
    Labels,
    NotScored,
}

impl DroppedPair {
    pub fn as_str(self) -> &'static str {
        match self {
            DroppedPair::NoFix => "the fix is not in the data",
            DroppedPair::NoVulnerable => "the vulnerable function is not in the data",
            DroppedPair::Ambiguous => "several functions on one side",
            DroppedPair::Labels => "not labelled vulnerable before and benign after",
            DroppedPair::NotScored => "the model failed on one side",
        }
    }
}

/// A part of a split.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    pub by: Dimension,
    pub name: String,
    pub functions: FunctionMetrics,
    pub pairs: Option<PairTable>,
    /// In the order of the methods.
    pub alignment: Vec<Option<AlignmentSummary>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dimension {
    Source,
    /// Vulnerable functions against fixes alone, and against functions that are no half of a pair.
    BenignSide,
    /// Lines of code.
    Length,
    /// Whether the model saw all of the function.
    Truncation,
    Cwe,
}

impl Dimension {
    pub fn as_str(self) -> &'static str {
        match self {
            Dimension::Source => "source",
            Dimension::BenignSide => "benign side",
            Dimension::Length => "lines of code",
            Dimension::Truncation => "seen by the model",
            Dimension::Cwe => "CWE",
        }
    }
}

/// Lower ends of the length bands, in lines.
const BANDS: [usize; 6] = [1, 11, 26, 51, 101, 201];
/// Resampling an area under a curve sorts: beyond this many functions there is no interval, which would be narrow.
const MOST_RESAMPLED: usize = 10_000;

/// Functions before and after each fix, by their indices, in the order of the pairs' ids.
type Sides = Vec<(Vec<usize>, Vec<usize>)>;

/// Makes the tables.
pub fn report(evaluated: Evaluated<'_>) -> Report {
    let everything: Vec<usize> = (0..evaluated.facts.len()).collect();
    let judged = evaluated.judged(&everything);
    let sides = evaluated.sides();
    let (pairs, dropped_pairs) = evaluated.pairs(&sides, None);
    let resampled = |value: fn(&[Judged]) -> Option<f64>| {
        let count = if judged.len() > MOST_RESAMPLED { 0 } else { judged.len() };
        intervals::bootstrap(count, evaluated.seed, |drawn| {
            value(&drawn.iter().map(|index| judged[*index]).collect::<Vec<_>>())
        })
    };
    Report {
        threshold: evaluated.threshold,
        counts: evaluated.counts(),
        functions: functions::metrics(&judged),
        f1_interval: resampled(functions::f1),
        roc_auc_interval: resampled(functions::roc_auc),
        majority: functions::majority(&judged),
        methods: evaluated
            .explanations
            .iter()
            .map(|(method, found)| evaluated.method(*method, found))
            .collect(),
        pairs: pairs::table(&pairs, evaluated.threshold),
        dropped_pairs,
        slices: evaluated.slices(&sides),
        judged,
    }
}

impl Evaluated<'_> {
    fn flagged(&self, index: usize) -> Option<bool> {
        self.scores[index].map(|score| score.probability > self.threshold)
    }

    fn counts(&self) -> Counts {
        let count = |of: &dyn Fn(&Facts) -> bool| self.facts.iter().filter(|facts| of(facts)).count();
        Counts {
            functions: self.facts.len(),
            vulnerable: count(&|facts| facts.is_vulnerable()),
            benign: count(&|facts| facts.label == Label::Benign),
            unsure: count(&|facts| facts.label == Label::Unsure),
            with_lines: count(&|facts| facts.is_vulnerable() && !facts.truth.is_empty()),
            unscored: self.scores.iter().filter(|score| score.is_none()).count(),
            truncated: self.scores.iter().flatten().filter(|score| score.truncated).count(),
            repeats: repeats(self.facts),
        }
    }

    fn judged(&self, part: &[usize]) -> Vec<Judged> {
        let judge = |index: &usize| {
            let facts = &self.facts[*index];
            let score = self.scores[*index].filter(|_| facts.label != Label::Unsure)?;
            let flagged = score.probability > self.threshold;
            Some(Judged { probability: score.probability, flagged, vulnerable: facts.is_vulnerable() })
        };
        part.iter().filter_map(judge).collect()
    }

    /// Of the vulnerable functions of a part whose verdict and explanation are known; without lines it is undefined.
    fn alignments(&self, part: &[usize], explanations: &HashMap<usize, Explanation>) -> Vec<Alignment> {
        let vulnerable = part.iter().filter(|index| self.facts[**index].is_vulnerable());
        let align = |index: &usize| {
            let predicted_vulnerable = self.flagged(*index)?;
            let explanation = explanations.get(index)?;
            Some(explanation.alignment(Verdicts { predicted_vulnerable, labelled_vulnerable: true }))
        };
        vulnerable.filter_map(align).collect()
    }

    fn method(&self, method: Method, explanations: &HashMap<usize, Explanation>) -> MethodReport {
        let everything: Vec<usize> = (0..self.facts.len()).collect();
        let alignments = self.alignments(&everything, explanations);
        let needed = |index: &usize| {
            self.flagged(*index).is_some_and(|flagged| self.facts[*index].needs_explanation(flagged))
        };
        let flagged = |index: &usize| needed(index) && self.flagged(*index) == Some(true);
        // In the order of the dataset, so that sums do not depend on the order of the work.
        let explained: Vec<&Explanation> =
            everything.iter().filter(|i| needed(i)).filter_map(|index| explanations.get(index)).collect();
        let found: Vec<Flagged> = everything
            .iter()
            .filter(|index| flagged(index))
            .filter_map(|index| explanations.get(index))
            .map(|explanation| Flagged {
                units: explanation.units.clone(),
                outside: explanation.outside.unwrap_or(0),
            })
            .collect();
        let vulnerable_without = |facts: &&Facts| facts.is_vulnerable() && facts.truth.is_empty();
        MethodReport {
            method,
            alignment: localisation::summarize(&alignments, self.seed),
            without_lines: self.facts.iter().filter(vulnerable_without).count(),
            unexplained: everything.iter().filter(|i| needed(i)).count() - explained.len(),
            localisation: localisation::localisation(&found),
            completeness: completeness(&explained),
            faithfulness: faithfulness(&explained),
        }
    }

    /// The functions before and after each fix.
    fn sides(&self) -> Sides {
        let mut sides: BTreeMap<&str, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
        for facts in self.facts {
            let Some(pair) = &facts.pair else { continue };
            let (before, after) = sides.entry(&pair.id).or_default();
            match pair.role {
                Role::Before => before.push(facts.index),
                Role::After => after.push(facts.index),
            }
        }
        sides.into_values().collect()
    }

    /// The pairs, of a part if there is one, and why others are none.
    fn pairs(
        &self,
        sides: &Sides,
        part: Option<&BTreeSet<usize>>,
    ) -> (Vec<PairScores>, BTreeMap<DroppedPair, usize>) {
        let (mut pairs, mut dropped) = (Vec::new(), BTreeMap::new());
        for (before, after) in sides {
            // A pair belongs to the part of its vulnerable function.
            if part.is_some_and(|part| !before.iter().any(|index| part.contains(index))) {
                continue;
            }
            match self.pair(before, after) {
                Ok(pair) => pairs.push(pair),
                Err(reason) => *dropped.entry(reason).or_default() += 1,
            }
        }
        (pairs, dropped)
    }

    fn pair(&self, before: &[usize], after: &[usize]) -> Result<PairScores, DroppedPair> {
        let (before, after) = match (before, after) {
            ([before], [after]) => (*before, *after),
            (_, []) => return Err(DroppedPair::NoFix),
            ([], _) => return Err(DroppedPair::NoVulnerable),
            _ => return Err(DroppedPair::Ambiguous),
        };
        let (vulnerable, fixed) = (&self.facts[before], &self.facts[after]);
        if (vulnerable.label, fixed.label) != (Label::Vulnerable, Label::Benign) {
            return Err(DroppedPair::Labels);
        }
        let (Some(of_vulnerable), Some(of_fix)) = (self.scores[before], self.scores[after]) else {
            return Err(DroppedPair::NotScored);
        };
        Ok(PairScores {
            vulnerable: of_vulnerable.probability,
            fixed: of_fix.probability,
            vulnerable_length: vulnerable.bytes,
            fixed_length: fixed.bytes,
        })
    }

    fn slices(&self, sides: &Sides) -> Vec<Slice> {
        let mut parts: BTreeMap<(Dimension, usize, String), BTreeSet<usize>> = BTreeMap::new();
        for facts in self.facts {
            for (by, order, name) in self.parts_of(facts) {
                parts.entry((by, order, name)).or_default().insert(facts.index);
            }
        }
        // One source is no breakdown.
        let several = |by: Dimension| parts.keys().filter(|(other, ..)| *other == by).count() > 1;
        let several = [Dimension::Source, Dimension::BenignSide].map(|by| (by, several(by)));
        parts
            .into_iter()
            .filter(|((by, ..), _)| several.iter().all(|(of, several)| of != by || *several))
            .map(|((by, _, name), part)| self.slice(by, name, &part, sides))
            .collect()
    }

    /// Which parts a function belongs to: dimension, place among the parts of that dimension, name.
    fn parts_of(&self, facts: &Facts) -> Vec<(Dimension, usize, String)> {
        let mut parts = Vec::new();
        if let Some(source) = &facts.collection {
            parts.push((Dimension::Source, 0, source.clone()));
        }
        let paired = facts.pair.is_some();
        if facts.is_vulnerable() || paired {
            parts.push((Dimension::BenignSide, 0, "fixes".to_string()));
        }
        if facts.is_vulnerable() || !paired {
            parts.push((Dimension::BenignSide, 1, "unpaired functions".to_string()));
        }
        let band = BANDS.iter().rposition(|from| facts.lines >= *from).unwrap_or(0);
        let name = match BANDS.get(band + 1) {
            Some(next) => format!("{}–{}", BANDS[band], next - 1),
            None => format!("{} and more", BANDS[band]),
        };
        parts.push((Dimension::Length, band, name));
        if let Some(score) = self.scores[facts.index] {
            let (order, name) = if score.truncated { (1, "truncated") } else { (0, "whole") };
            parts.push((Dimension::Truncation, order, name.to_string()));
        }
        parts.extend(facts.cwe.iter().map(|cwe| (Dimension::Cwe, 0, cwe.clone())));
        parts
    }

    fn slice(&self, by: Dimension, name: String, part: &BTreeSet<usize>, sides: &Sides) -> Slice {
        let indices: Vec<usize> = part.iter().copied().collect();
        // Vulnerable functions beside unpaired ones leave their fixes behind.
        let is_whole = |after: &[usize]| after.iter().any(|index| part.contains(index));
        let kept = |(_, after): &&(Vec<usize>, Vec<usize>)| by != Dimension::BenignSide || is_whole(after);
        let sides: Sides = sides.iter().filter(kept).cloned().collect();
        let align = |(_, found): &(Method, HashMap<usize, Explanation>)| {
            localisation::summarize(&self.alignments(&indices, found), self.seed)
        };
        Slice {
            by,
            name,
            functions: functions::metrics(&self.judged(&indices)),
            pairs: pairs::table(&self.pairs(&sides, Some(part)).0, self.threshold),
            alignment: self.explanations.iter().map(align).collect(),
        }
    }
}

fn completeness(explained: &[&Explanation]) -> Option<CompletenessMean> {
    let found: Vec<_> = explained.iter().filter_map(|explanation| explanation.completeness).collect();
    let gaps = found.iter().map(|completeness| completeness.gap);
    (!found.is_empty()).then(|| CompletenessMean {
        functions: found.len(),
        mean_gap: gaps.clone().sum::<f64>() / found.len() as f64,
        largest_gap: gaps.fold(0.0, f64::max),
        reached: found.iter().filter(|completeness| completeness.reached).count() as f64 / found.len() as f64,
    })
}

fn faithfulness(explained: &[&Explanation]) -> Option<FaithfulnessMean> {
    let found: Vec<_> = explained.iter().filter_map(|explanation| explanation.faithfulness).collect();
    let mean = |value: fn(&crate::explain::Faithfulness) -> f64| {
        found.iter().map(value).sum::<f64>() / found.len() as f64
    };
    (!found.is_empty()).then(|| FaithfulnessMean {
        functions: found.len(),
        comprehensiveness: mean(|f| f.comprehensiveness),
        sufficiency: mean(|f| f.sufficiency),
        random_comprehensiveness: mean(|f| f.random_comprehensiveness),
        random_sufficiency: mean(|f| f.random_sufficiency),
    })
}
