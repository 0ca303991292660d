//! Faithfulness, so that a low alignment can be told from a bad explanation (DeYoung et al., ACL 2020, on lines).

use super::occlusion::{mask_token, masked};
use super::{ExplainError, Method, Subject, positions, rows_per_run};
use crate::detector::{Cancellation, Detector};

/// Share of the scored lines that counts as the top.
const TOP: f64 = 0.2;
/// Random sets of lines that the top lines are compared with.
const RANDOM_SETS: usize = 10;

/// How much of the verdict the most relevant lines carry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Faithfulness {
    /// F(x) − F(x without the top lines); higher is better.
    pub comprehensiveness: f64,
    /// F(x) − F(x with the top lines only); lower is better.
    pub sufficiency: f64,
    /// The same for random lines of equal number, the mean of ten sets.
    pub random_comprehensiveness: f64,
    pub random_sufficiency: f64,
}

/// `order` are the groups (lines) of the subject, the most relevant first. F is the largest of the windows.
pub fn faithfulness(
    method: Method,
    detector: &mut Detector,
    subject: Subject<'_>,
    order: &[usize],
    cancel: &Cancellation,
) -> Result<Option<Faithfulness>, ExplainError> {
    if order.is_empty() {
        return Ok(None);
    }
    let mask = mask_token(detector, method)?;
    let count = ((order.len() as f64 * TOP).ceil() as usize).max(1);
    let mut sets: Vec<Vec<usize>> = vec![order[..count].to_vec()];
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    // In an order that no method has a part in: all methods are compared with the same sets.
    let mut lines = order.to_vec();
    lines.sort_unstable();
    sets.extend((0..RANDOM_SETS).map(|_| random.choose(&lines, count)));
    let original = subject.detections.iter().map(|d| d.probability).max_by(f64::total_cmp).unwrap_or(0.0);

    let mut without = vec![0.0f64; sets.len()];
    let mut only = vec![0.0f64; sets.len()];
    for window in &subject.encoding.windows {
        let code: Vec<usize> = (window.first_code..window.first_code + window.code.len()).collect();
        let mut rows = Vec::new();
        for set in &sets {
            let tokens: Vec<usize> =
                set.iter().flat_map(|group| subject.groups[*group].iter().copied()).collect();
            let chosen = positions(window, &tokens);
            let others: Vec<usize> = code.iter().copied().filter(|place| !chosen.contains(place)).collect();
            rows.push(masked(&window.ids, &chosen, mask));
            rows.push(masked(&window.ids, &others, mask));
        }
        let mut probabilities = Vec::new();
        for run in rows.chunks(rows_per_run(window.ids.len())) {
            probabilities.extend(detector.probabilities(run, cancel).map_err(ExplainError::detect(method))?);
        }
        for (set, pair) in probabilities.chunks(2).enumerate() {
            without[set] = without[set].max(pair[0]);
            only[set] = only[set].max(pair[1]);
        }
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    Ok(Some(Faithfulness {
        comprehensiveness: original - without[0],
        sufficiency: original - only[0],
        random_comprehensiveness: original - mean(&without[1..]),
        random_sufficiency: original - mean(&only[1..]),
    }))
}

/// SplitMix64: the same sets in every run, on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }

    /// `count` of the items, by a partial shuffle.
    fn choose(&mut self, items: &[usize], count: usize) -> Vec<usize> {
        let mut items = items.to_vec();
        for place in 0..count.min(items.len()) {
            let other = place + self.below(items.len() - place);
            items.swap(place, other);
        }
        items.truncate(count);
        items
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_sets_are_sets_and_repeat() {
        let items: Vec<usize> = (0..9).collect();
        let draw = || (0..20).scan(Random(1), |random, _| Some(random.choose(&items, 4))).collect::<Vec<_>>();
        assert_eq!(draw(), draw());
        for mut set in draw() {
            set.sort_unstable();
            set.dedup();
            assert_eq!(set.len(), 4);
        }
    }
}
