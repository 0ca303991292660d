//! What a split shares with the data that a model was trained on: commits, functions, and functions that are nearly
//! the same.
//!
//! Comments and whitespace are no part of a function here. Nearly the same: the sets of five consecutive tokens (shingles)
//! of two functions have a Jaccard index of at least 0.8. For functions of at most 128 shingles it is computed; for longer
//! ones it is MinHash's estimate (Broder, 1997) over 128 hash functions, whose standard error is at most 0.045, and 0.035
//! at the limit. Candidates are found by 25 bands of 5 hashes, which miss a pair at the limit with a probability below
//! 10⁻⁴.

use super::fingerprint::Code;
use super::{Facts, Fingerprint};
use std::collections::{HashMap, HashSet};

/// Jaccard index from which two functions are nearly the same.
pub const NEAR: f64 = 0.8;
const SHINGLE: usize = 5;
const HASHES: usize = 128;
const BANDS: usize = 25;
const ROWS: usize = 5;
/// Functions of so few shingles are compared by the shingles themselves: an estimate would find short functions alike by
/// accident.
const FEW: usize = 128;

/// A function's shingles, summed up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signature {
    smallest: Box<[u32; HASHES]>,
    /// All shingles, sorted, where they are few.
    few: Option<Box<[u32]>>,
}

impl Signature {
    pub fn of(text: &str) -> Signature {
        Signature::of_code(&Code::of(text))
    }

    fn of_code(code: &Code) -> Signature {
        let hashes: Vec<u64> = code.tokens().map(hash).collect();
        let mut smallest = Box::new([u32::MAX; HASHES]);
        let mut shingles = Vec::new();
        let mut add = |shingle: &[u64]| {
            let of_shingle = shingle.iter().fold(0, |sum: u64, token| mix(sum.rotate_left(5) ^ token));
            shingles.push((of_shingle >> 32) as u32);
            for (number, least) in smallest.iter_mut().enumerate() {
                let permuted = mix(of_shingle ^ mix(number as u64 + 1));
                *least = (*least).min((permuted >> 32) as u32);
            }
        };
        // A function of fewer tokens is one shingle; one without a token has none.
        if !hashes.is_empty() && hashes.len() < SHINGLE {
            add(&hashes);
        }
        hashes.windows(SHINGLE).for_each(&mut add);
        shingles.sort_unstable();
        shingles.dedup();
        Signature { smallest, few: (shingles.len() <= FEW).then(|| shingles.into_boxed_slice()) }
    }

    /// The Jaccard index of the shingles: computed where both have few, else estimated. Nothing is like what has none.
    pub fn similarity(&self, other: &Signature) -> f64 {
        if let (Some(a), Some(b)) = (&self.few, &other.few) {
            let common = a.iter().filter(|shingle| b.binary_search(shingle).is_ok()).count();
            let all = a.len() + b.len() - common;
            return if all == 0 { 0.0 } else { common as f64 / all as f64 };
        }
        let equal = self.smallest.iter().zip(other.smallest.iter()).filter(|(a, b)| a == b).count();
        equal as f64 / HASHES as f64
    }

    fn bands(&self) -> impl Iterator<Item = (usize, u64)> {
        let hashed = |rows: &[u32]| rows.iter().fold(0, |sum: u64, row| mix(sum ^ u64::from(*row)));
        self.smallest.chunks(ROWS).take(BANDS).map(hashed).enumerate()
    }
}

/// Functions that others are looked up in, as far as a comparison needs them: at most some 1,500 bytes each.
#[derive(Clone, Debug, Default)]
pub struct TrainingData {
    commits: HashSet<String>,
    exact: HashSet<[u8; 16]>,
    without_whitespace: HashSet<[u8; 16]>,
    of_code: HashSet<[u8; 16]>,
    signatures: Vec<Signature>,
    bands: HashMap<(usize, u64), Vec<u32>>,
}

impl TrainingData {
    pub fn add(&mut self, text: &str, commit: Option<&str>) {
        let code = Code::of(text);
        let fingerprint = Fingerprint::with_code(text, &code);
        self.commits.extend(commit.map(normalized_commit).filter(|commit| !commit.is_empty()));
        self.exact.insert(fingerprint.exact);
        self.without_whitespace.insert(fingerprint.without_whitespace);
        // The same code twice is found the same way; no code is like nothing.
        if fingerprint.of_code.is_none_or(|of_code| !self.of_code.insert(of_code)) {
            return;
        }
        let signature = Signature::of_code(&code);
        let Ok(number) = u32::try_from(self.signatures.len()) else { return };
        for band in signature.bands() {
            self.bands.entry(band).or_default().push(number);
        }
        self.signatures.push(signature);
    }

    /// How a function is known from the training data.
    pub fn look_up(&self, facts: &Facts, signature: &Signature) -> Leak {
        let commit = facts.commit.as_deref().map(normalized_commit);
        Leak {
            commit: commit.is_some_and(|commit| self.commits.contains(&commit)),
            exact: self.exact.contains(&facts.fingerprint.exact),
            without_whitespace: self.without_whitespace.contains(&facts.fingerprint.without_whitespace),
            code: facts.fingerprint.of_code.is_some_and(|of_code| self.of_code.contains(&of_code)),
            nearest: self.nearest(signature),
        }
    }

    /// The largest similarity from [`NEAR`] on.
    fn nearest(&self, signature: &Signature) -> Option<f64> {
        let mut seen = HashSet::new();
        let candidates = signature.bands().filter_map(|band| self.bands.get(&band)).flatten();
        candidates
            .filter(|number| seen.insert(**number))
            .map(|number| self.signatures[*number as usize].similarity(signature))
            .filter(|similarity| *similarity >= NEAR)
            .max_by(f64::total_cmp)
    }
}

/// How one function is known from the training data.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Leak {
    pub commit: bool,
    pub exact: bool,
    pub without_whitespace: bool,
    /// The same, comments and whitespace aside.
    pub code: bool,
    /// Similarity to the most similar function.
    pub nearest: Option<f64>,
}

impl Leak {
    pub fn any(&self) -> bool {
        self.commit || self.is_copy() || self.nearest.is_some()
    }

    /// The same function, whatever its layout and its comments.
    pub fn is_copy(&self) -> bool {
        self.exact || self.without_whitespace || self.code
    }
}

/// How many functions of a split are known.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct LeakageReport {
    pub functions: usize,
    pub by_commit: usize,
    pub exact: usize,
    pub without_whitespace: usize,
    /// The same, comments and whitespace aside.
    pub code: usize,
    /// Nearly the same, the same included.
    pub near: usize,
    pub any: usize,
    /// The first functions that are known, by their index.
    pub examples: Vec<(usize, Leak)>,
}

/// How many examples a report names.
const EXAMPLES: usize = 20;

impl LeakageReport {
    pub fn count(&mut self, index: usize, leak: Leak) {
        self.functions += 1;
        self.by_commit += usize::from(leak.commit);
        self.exact += usize::from(leak.exact);
        self.without_whitespace += usize::from(leak.without_whitespace);
        self.code += usize::from(leak.code);
        self.near += usize::from(leak.nearest.is_some());
        self.any += usize::from(leak.any());
        if leak.any() && self.examples.len() < EXAMPLES {
            self.examples.push((index, leak));
        }
    }
}

fn normalized_commit(commit: &str) -> String {
    commit.trim().to_ascii_lowercase()
}

/// FNV-1a, the same on every machine.
fn hash(text: &str) -> u64 {
    let step = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    mix(text.bytes().fold(0xcbf2_9ce4_8422_2325, step))
}

/// SplitMix64's finalizer.
fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::annotations::Label;

    fn facts(text: &str, commit: Option<&str>) -> Facts {
        Facts {
            index: 0,
            row: 1,
            id: None,
            label: Label::Benign,
            truth: Vec::new(),
            cwe: Vec::new(),
            collection: None,
            project: None,
            commit: commit.map(str::to_string),
            pair: None,
            bytes: text.len(),
            lines: 1,
            fingerprint: Fingerprint::of(text),
        }
    }

    /// A function of `count` statements, each different.
    fn function(count: usize, changed: Option<usize>) -> String {
        let statement = |number: usize| match changed {
            Some(changed) if changed == number => format!("  moved(to, {number}u);\n"),
            _ => format!("  total{number} += weight[{number}] * rate{number};\n"),
        };
        format!("int sum(void)\n{{\n{}}}\n", (0..count).map(statement).collect::<String>())
    }

    #[test]
    fn the_estimate_is_near_the_jaccard_index() {
        let shingles = |text: &str| -> HashSet<Vec<String>> {
            let tokens: Vec<String> = Code::of(text).tokens().map(str::to_string).collect();
            tokens.windows(SHINGLE).map(<[String]>::to_vec).collect()
        };
        for (a, b) in [
            (function(30, None), function(30, Some(3))),
            (function(30, None), function(20, None)),
            (function(8, None), function(8, Some(2))),
            (function(30, None), "void other(void) { return; }".to_string()),
        ] {
            let (x, y) = (shingles(&a), shingles(&b));
            let jaccard = x.intersection(&y).count() as f64 / x.union(&y).count() as f64;
            let estimate = Signature::of(&a).similarity(&Signature::of(&b));
            let is_computed = x.len() <= FEW && y.len() <= FEW;
            let most = if is_computed { 1e-12 } else { 0.13 };
            assert!((estimate - jaccard).abs() < most, "at most three standard errors: {estimate} {jaccard}");
        }
    }

    #[test]
    fn each_kind_of_leak_is_found_and_told_apart() {
        let mut train = TrainingData::default();
        train.add(&function(40, None), Some("ABCdef "));
        train.add("int a;", None);
        train.add("int get_a(struct s *p) { return p->a; }", None);
        train.add("/* nothing */", None);
        let look_up = |text: &str, commit| train.look_up(&facts(text, commit), &Signature::of(text));
        let none =
            Leak { commit: false, exact: false, without_whitespace: false, code: false, nearest: None };
        assert_eq!(look_up("void other(char *x) { return free(x); }", Some("123")), none);
        assert_eq!(
            look_up("void other(char *x) { return free(x); }", Some("abcdef")),
            Leak { commit: true, ..none }
        );
        assert_eq!(
            look_up(&function(40, None), None),
            Leak { exact: true, without_whitespace: true, code: true, nearest: Some(1.0), ..none }
        );
        let indented = function(40, None).replace("  ", "\t\t");
        let known = Leak { without_whitespace: true, code: true, nearest: Some(1.0), ..none };
        assert_eq!(look_up(&indented, None), known);
        let commented = function(40, None).replace(";\n", "; /* one more thing to add up */\n");
        assert_eq!(look_up(&commented, None), Leak { without_whitespace: false, ..known });
        let near = look_up(&function(40, Some(7)), None);
        assert!(
            !near.without_whitespace && near.nearest.is_some_and(|found| (NEAR..1.0).contains(&found)),
            "{near:?}"
        );
        assert_eq!(look_up(&function(20, None), None).nearest, None, "half of it is not nearly the same");

        // Short functions: copies count, whatever their length, and nothing is alike by accident.
        assert!(look_up("/* b */ int a; // c", None).code);
        assert_eq!(look_up("int b;", None), none);
        assert_eq!(look_up("int get_b(struct s *p) { return p->b; }", None), none);
        assert_eq!(look_up("// something else", None), none);

        let mut report = LeakageReport::default();
        report.count(4, none);
        report.count(5, near);
        assert_eq!((report.functions, report.near, report.any, report.exact), (2, 1, 1, 0));
        assert_eq!(report.examples, [(5, near)]);
    }
}
