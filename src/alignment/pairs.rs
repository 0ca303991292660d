//! A vulnerable function and its fix: does the detector see the difference? (Ding et al., ICSE 2025.)

use super::intervals::{self, Interval};

/// Pairs whose lengths differ by at most this share of the longer one are alike in length.
pub const ALIKE: f64 = 0.05;

/// Both sides of a fix.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairScores {
    /// P(vulnerable) of the vulnerable function, and of its fix.
    pub vulnerable: f64,
    pub fixed: f64,
    /// Lengths, in any unit.
    pub vulnerable_length: usize,
    pub fixed_length: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PairOutcome {
    /// Both right: the vulnerable function flagged, its fix not.
    Correct,
    /// Both flagged.
    BothVulnerable,
    /// Neither flagged.
    BothBenign,
    /// The fix flagged, the vulnerable function not.
    Reversed,
}

impl PairOutcome {
    pub fn of(vulnerable_flagged: bool, fix_flagged: bool) -> PairOutcome {
        match (vulnerable_flagged, fix_flagged) {
            (true, false) => PairOutcome::Correct,
            (true, true) => PairOutcome::BothVulnerable,
            (false, false) => PairOutcome::BothBenign,
            (false, true) => PairOutcome::Reversed,
        }
    }

    /// As the paper writes it: `P-C`, `P-V`, `P-B`, `P-R`.
    pub fn as_str(self) -> &'static str {
        match self {
            PairOutcome::Correct => "P-C",
            PairOutcome::BothVulnerable => "P-V",
            PairOutcome::BothBenign => "P-B",
            PairOutcome::Reversed => "P-R",
        }
    }
}

/// Shares of the pairs with each outcome, as measured or as a detector would have them that flags at the same rate
/// without looking.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shares {
    pub correct: f64,
    pub both_vulnerable: f64,
    pub both_benign: f64,
    pub reversed: f64,
}

impl Shares {
    /// The share of pairs whose sides got one answer.
    pub fn same_answer(&self) -> f64 {
        self.both_vulnerable + self.both_benign
    }
}

/// The pair protocol's figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairTable {
    pub pairs: usize,
    pub correct: usize,
    pub both_vulnerable: usize,
    pub both_benign: usize,
    pub reversed: usize,
    pub measured: Shares,
    /// Independent answers at the measured flag rate f: f(1 − f), f², (1 − f)², f(1 − f).
    pub independent: Shares,
    /// Flag rates of the vulnerable functions and of the fixes.
    pub p: f64,
    pub q: f64,
    /// P-C − P-R, which is p − q, and its 95% interval (Tango's).
    pub difference: f64,
    pub difference_interval: Interval,
    /// The exact two-sided binomial test of P-C against P-R.
    pub p_value: f64,
    pub ranked: RankShare,
    /// The same for the pairs whose lengths differ by at most 5% of the longer one.
    pub ranked_alike: RankShare,
}

/// Share of the pairs whose vulnerable side has the higher probability, ties half.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankShare {
    pub pairs: usize,
    pub share: Option<f64>,
    pub ties: usize,
}

/// The table of a set of pairs; `None` where there is no pair.
pub fn table(pairs: &[PairScores], threshold: f64) -> Option<PairTable> {
    let n = pairs.len();
    let count = |outcome| {
        let of = |p: &&PairScores| PairOutcome::of(p.vulnerable > threshold, p.fixed > threshold) == outcome;
        pairs.iter().filter(of).count()
    };
    let [correct, both_vulnerable, both_benign, reversed] =
        [PairOutcome::Correct, PairOutcome::BothVulnerable, PairOutcome::BothBenign, PairOutcome::Reversed]
            .map(count);
    let difference_interval = intervals::paired_difference(correct, reversed, n)?;
    let share = |part: usize| part as f64 / n as f64;
    let (p, q) = (share(correct + both_vulnerable), share(reversed + both_vulnerable));
    let f = (p + q) / 2.0;
    Some(PairTable {
        pairs: n,
        correct,
        both_vulnerable,
        both_benign,
        reversed,
        measured: Shares {
            correct: share(correct),
            both_vulnerable: share(both_vulnerable),
            both_benign: share(both_benign),
            reversed: share(reversed),
        },
        independent: Shares {
            correct: f * (1.0 - f),
            both_vulnerable: f * f,
            both_benign: (1.0 - f) * (1.0 - f),
            reversed: f * (1.0 - f),
        },
        p,
        q,
        difference: (correct as f64 - reversed as f64) / n as f64,
        difference_interval,
        p_value: intervals::binomial_test(correct, reversed),
        ranked: rank_share(pairs.iter()),
        ranked_alike: rank_share(pairs.iter().filter(|pair| pair.is_alike())),
    })
}

impl PairScores {
    fn is_alike(&self) -> bool {
        let (a, b) = (self.vulnerable_length, self.fixed_length);
        a.abs_diff(b) as f64 <= ALIKE * a.max(b) as f64
    }
}

fn rank_share<'a>(pairs: impl Iterator<Item = &'a PairScores>) -> RankShare {
    let (mut count, mut above, mut ties) = (0, 0, 0);
    for pair in pairs {
        count += 1;
        above += usize::from(pair.vulnerable > pair.fixed);
        ties += usize::from(pair.vulnerable == pair.fixed);
    }
    let share = (count > 0).then(|| (above as f64 + ties as f64 / 2.0) / count as f64);
    RankShare { pairs: count, share, ties }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pair(vulnerable: f64, fixed: f64) -> PairScores {
        PairScores { vulnerable, fixed, vulnerable_length: 100, fixed_length: 100 }
    }

    #[test]
    fn a_table_by_hand() {
        let mut pairs = vec![pair(0.9, 0.1), pair(0.8, 0.2), pair(0.9, 0.8), pair(0.1, 0.1), pair(0.1, 0.9)];
        pairs[0].fixed_length = 106; // 6 / 106 > 5%
        pairs[1].fixed_length = 105; // 5 / 105 ≤ 5%
        let found = table(&pairs, 0.5).unwrap();
        assert_eq!((found.correct, found.both_vulnerable, found.both_benign, found.reversed), (2, 1, 1, 1));
        assert!((found.p - 0.6).abs() < 1e-12 && (found.q - 0.4).abs() < 1e-12);
        assert!((found.difference - 0.2).abs() < 1e-12);
        assert!((found.independent.correct - 0.25).abs() < 1e-12);
        assert!((found.independent.same_answer() - 0.5).abs() < 1e-12);
        assert!((found.measured.same_answer() - 0.4).abs() < 1e-12);
        assert_eq!(found.p_value, 1.0);
        assert_eq!(found.ranked, RankShare { pairs: 5, share: Some(3.5 / 5.0), ties: 1 });
        assert_eq!(found.ranked_alike, RankShare { pairs: 4, share: Some(2.5 / 4.0), ties: 1 });
        assert_eq!(table(&[], 0.5), None);
    }

    #[test]
    fn a_threshold_is_exceeded_not_met() {
        assert_eq!(table(&[pair(0.5, 0.5)], 0.5).unwrap().both_benign, 1);
        assert_eq!(PairOutcome::of(false, true).as_str(), "P-R");
    }

    proptest! {
        #[test]
        fn identities(pairs in proptest::collection::vec((0u8..5, 0u8..5), 1..40)) {
            let pairs: Vec<_> =
                pairs.into_iter().map(|(a, b)| pair(f64::from(a) / 4.0, f64::from(b) / 4.0)).collect();
            let found = table(&pairs, 0.4).unwrap();
            prop_assert!((found.difference - (found.p - found.q)).abs() < 1e-12);
            for shares in [found.measured, found.independent] {
                let sum = shares.correct + shares.both_vulnerable + shares.both_benign + shares.reversed;
                prop_assert!((sum - 1.0).abs() < 1e-12);
            }
            let interval = found.difference_interval;
            prop_assert!(interval.low <= found.difference + 1e-9 && found.difference <= interval.high + 1e-9);
        }
    }
}
