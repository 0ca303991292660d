//! Records of one annotator for one function: of several the last stands, which nobody would notice otherwise.

use super::Record;
use super::matching::is_region;
use sha2::{Digest, Sha256};
use std::collections::HashMap;

/// Of more records than this, later ones are compared with the first ones only.
const MOST: usize = 500_000;

/// What was said so far.
#[derive(Debug, Default)]
pub struct Said {
    rows: HashMap<[u8; 16], usize>,
}

impl Said {
    /// The row in which the same annotator said something of the same function before. The same function: the same text in
    /// the same file; where a record has no hash, the same name and range. Records that name no annotator are of one, or of
    /// their data set. Regions of a log are parts of one opinion.
    pub fn before(&mut self, record: &Record, row: usize) -> Option<usize> {
        if is_region(record) {
            return None;
        }
        let annotator = record.voice();
        let function = match &record.body_sha256 {
            Some(hash) => hash.clone(),
            None => format!("{:?} {:?}", record.function.as_ref()?, record.range),
        };
        let identity = format!("{annotator:?} {:?} {function}", record.file);
        let mut key = [0; 16];
        key.copy_from_slice(&Sha256::digest(identity)[..16]);
        let known = self.rows.get(&key).copied();
        if known.is_some() || self.rows.len() < MOST {
            self.rows.insert(key, row);
        }
        known
    }
}

/// A sentence about it.
pub fn sentence(record: &Record, earlier: usize) -> String {
    let who = match record.voice() {
        Some("") => "\"\"",
        Some(name) => name,
        None => "a record that names no annotator",
    };
    let row = match record.voice() {
        Some(_) => format!("row {earlier}"),
        None => format!("row {earlier}, which names none either"),
    };
    format!("{who} labelled this function before, in {row}; the later row stands: delete one of them")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::annotations::{FunctionLines, Label};

    #[test]
    fn only_the_same_annotator_on_the_same_function_repeats() {
        let record = |annotator: Option<&str>, file: &str, code: &str| Record {
            annotator: annotator.map(str::to_string),
            file: Some(file.to_string()),
            ..FunctionLines::new(code).record(Label::Benign, [])
        };
        let mut said = Said::default();
        let mut before = |record: Record, row| said.before(&record, row);
        assert_eq!(before(record(Some("ann"), "a.c", "f"), 1), None);
        assert_eq!(before(record(Some("bob"), "a.c", "f"), 2), None);
        assert_eq!(before(record(Some("ann"), "b.c", "f"), 3), None);
        assert_eq!(before(record(Some("ann"), "a.c", "g"), 4), None);
        assert_eq!(before(record(Some("ann"), "a.c", "f"), 5), Some(1));
        assert_eq!(before(record(Some("ann"), "a.c", "f"), 6), Some(5));
        assert_eq!(
            (before(record(None, "a.c", "f"), 7), before(record(None, "a.c", "f"), 8)),
            (None, Some(7))
        );
        let named = |range| Record {
            annotator: Some("ann".to_string()),
            function: Some("f".to_string()),
            range: Some(range),
            ..Record::new(Label::Benign)
        };
        assert_eq!((before(named((1, 2)), 9), before(named((3, 4)), 10)), (None, None));
        assert_eq!(before(named((1, 2)), 11), Some(9));
    }
}
