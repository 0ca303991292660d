//! What the protocol and the command line say in the same JSON.

use crate::alignment::TOP_K;
use crate::analysis::agreement::Agreement;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Ground truth and how far the lines agree with it.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AlignmentShape {
    /// `null`: undefined, and `reason` says why.
    pub da: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What `da` would be if the function had been flagged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub would_be: Option<f64>,
    pub null_all_lines: Option<f64>,
    pub null_permutation: Option<f64>,
    pub intersection: f64,
    pub union: f64,
    pub ifa: Option<usize>,
    /// From `"1"`, `"3"`, `"5"` and `"10"` to whether one of so many lines is true.
    pub top_k: Map<String, Value>,
    pub unmatched: usize,
    /// How many of `lines` may have changed since they were labelled.
    #[serde(default)]
    pub changed: usize,
    /// Why it is not certain that the ground truth is this function's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found_by: Option<String>,
    /// How many records of older texts of the function were set aside for newer ones.
    #[serde(default)]
    pub set_aside: usize,
    pub outside_window: usize,
    pub policy: String,
    /// `vulnerable`, `benign` or `unsure`.
    pub label: String,
    /// The ground-truth lines of the document by the policy, scored or not.
    pub lines: Vec<usize>,
    /// From each annotator to the DA with that one alone.
    pub per_annotator: Map<String, Value>,
}

impl AlignmentShape {
    /// `first_line`: the number of a document's first line, 0 in the protocol, 1 on the command line.
    pub fn new(agreement: &Agreement, first_line: usize) -> AlignmentShape {
        let Agreement { truth, alignment, per_annotator } = agreement;
        let annotators = truth.annotators.iter().zip(per_annotator);
        AlignmentShape {
            da: alignment.da.as_ref().ok().copied(),
            reason: agreement.undefined(),
            would_be: alignment.would_be,
            null_all_lines: alignment.null_all_lines,
            null_permutation: alignment.null_permutation,
            intersection: alignment.intersection,
            union: alignment.union,
            ifa: alignment.ifa,
            top_k: TOP_K.iter().zip(alignment.top_k).map(|(k, hit)| (k.to_string(), hit.into())).collect(),
            unmatched: truth.unmatched,
            changed: truth.approximate.len(),
            found_by: truth.found_by.clone(),
            set_aside: truth.set_aside,
            outside_window: alignment.outside_window,
            policy: truth.policy.clone(),
            label: truth.label_name().to_string(),
            lines: truth.lines.iter().map(|line| line + first_line).collect(),
            per_annotator: annotators.map(|(annotator, da)| (annotator.name.clone(), (*da).into())).collect(),
        }
    }
}
