//! No bytes make a reader panic, and nothing that other tools wrote is lost.
#![allow(clippy::unwrap_used)]

use linelens::annotations::dataset::{self, Format};
use linelens::annotations::editing::{Site, toggle_line};
use linelens::annotations::matching::{self, Match, Place};
use linelens::annotations::store::NATIVE_FILE;
use linelens::annotations::{FunctionLines, Label, Record, native, uri};
use proptest::prelude::*;

/// Rows of all formats, to be cut up and mixed.
const PIECES: &[&str] = &[
    "{\"func\":\"int f() {\\n a;\\r\\n b;\\n}\",\"target\":1,\"flaw_lines\":[2],\"pair_id\":\"p\"}",
    "{\"func\":\"x\\n\",\"target\":0,\"commit_id\":\"c\",\"cwe\":[\"CWE-1\"],\"cve\":\"None\",\"idx\":3}",
    "{\"func_src_before\":\"a\\nb\\n\",\"func_src_after\":\"b\\n\",\"line_changes\":{\"deleted\":[{\"line_no\":1,\"char_start\":0,\"line\":\"a\\n\"}]}}",
    "{\"schema\":\"linelens-annotations\",\"version\":1}",
    "{\"label\":\"vulnerable\",\"file\":\"a.c\",\"range\":[1,3],\"lines\":[{\"line\":2,\"text\":\"b\",\"label\":\"flaw\"}]}",
    "{\"version\":\"2.1.0\",\"runs\":[{\"results\":[{\"message\":{},\"locations\":[{\"physicalLocation\":{\"artifactLocation\":{\"uri\":\"a.c\"},\"region\":{\"startLine\":1,\"endLine\":2}}}]}]}]}",
    ",CVE ID,processed_func,target,flaw_line,flaw_line_index,vul_func_with_fix",
    "index,func_before,func_after,vul",
    "0,CVE-1,\"a;\nb;\n\",1,a;/~/b;,\"0,1\",\"//flaw_line_below:\na;\n\"",
    "1,\"a\nb\",\"a\",1",
    "[",
    "]",
    "{",
    "}",
    ",",
    "\"",
    "\\",
    "\n",
    "\r\n",
    "\u{feff}",
    "null",
    "1e999",
    "-1",
    "\\ud800",
    "é",
];

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        6 => prop::sample::select(PIECES).prop_map(|piece| piece.as_bytes().to_vec()),
        2 => (prop::sample::select(PIECES), any::<prop::sample::Index>()).prop_map(|(piece, cut)| {
            piece.as_bytes()[..cut.index(piece.len())].to_vec()
        }),
        2 => Just(b"\n".to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..12),
    ];
    prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

fn text() -> impl Strategy<Value = String> {
    let line =
        prop::sample::select(&["a();", "  b();", "}", "", "\t", "if (x) {", "a(); b();", "é\u{2028}"][..]);
    let end = prop::sample::select(&["\n", "\r\n", "\r"][..]);
    prop::collection::vec((line, end), 0..12)
        .prop_map(|lines| lines.into_iter().flat_map(|(line, end)| [line, end]).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn data_sets_of_any_bytes(bytes in bytes(), compressed in any::<bool>()) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data");
        if compressed {
            use std::io::Write;
            let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            packed.write_all(&bytes).unwrap();
            let mut packed = packed.finish().unwrap();
            // Sometimes cut off.
            packed.truncate(packed.len() - bytes.len() % 4);
            std::fs::write(&path, packed).unwrap();
        } else {
            std::fs::write(&path, &bytes).unwrap();
        }
        let formats = Format::ALL.iter().copied().map(Some).chain([None]);
        for format in formats {
            let Ok(samples) = dataset::open(&path, format) else { continue };
            for sample in samples.take(1000) {
                let Ok(sample) = sample else { continue };
                let lines = FunctionLines::new(&sample.code);
                prop_assert!(!sample.code.is_empty());
                for line in sample.record.flaw_lines() {
                    prop_assert!(line < lines.count() && !lines.is_blank(line));
                }
                prop_assert!(sample.record.label != Label::Benign || sample.record.flaw_lines().next().is_none());
                // Whatever was imported can be written and read again.
                let row = native::to_line(&sample.record);
                prop_assert_eq!(native::parse(&row), Ok(native::Row::Record(Box::new(sample.record))));
            }
        }
    }

    #[test]
    fn records_of_any_text(text in "\\PC{0,60}") {
        let _ = native::parse(&text);
        if let Some(path) = uri::to_path(&text) {
            prop_assert!(!path.split('/').any(|name| name == ".."));
        }
        if let Some(uri) = uri::from_path(&text) {
            prop_assert_eq!(uri::to_path(&uri), Some(text.strip_prefix("./").unwrap_or(&text).to_string()));
        }
    }

    #[test]
    fn lines_are_found_inside_the_function(old in text(), new in text(), flaws in prop::collection::vec(0_usize..12, 0..4)) {
        let function = FunctionLines::new(&old);
        let flaws = flaws.into_iter().filter(|line| *line < function.count());
        let record = Record {
            file: Some("a.c".into()),
            function: Some("f".into()),
            range: Some((3, 3 + function.count() - 1)),
            ..function.record(Label::Vulnerable, flaws)
        };
        let records = [record];
        let place = |text| [Place { file: Some("a.c"), name: "f", first_line: 3, text }];
        let same = matching::find(&records, &place(&old));
        let labelled: Vec<usize> = records[0].flaw_lines().collect();
        let found: Vec<usize> = same.functions[0][0].lines.iter().map(|(line, _)| *line).collect();
        prop_assert_eq!((same.functions[0][0].how, found), (Match::Text, labelled.clone()));

        let places = place(&new);
        let other = matching::find(&records, &places);
        let lines = FunctionLines::new(&new);
        for matched in &other.functions[0] {
            prop_assert!(matched.lines.iter().all(|(line, _)| *line < lines.count() && !lines.is_blank(*line)));
            prop_assert!(matched.lines.windows(2).all(|pair| pair[0].0 < pair[1].0));
            prop_assert!(matched.unmatched.len() <= labelled.len());
        }
    }

    #[test]
    fn edits_keep_every_other_row(rows in prop::collection::vec(bytes(), 0..4), line in 0_usize..3) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(NATIVE_FILE);
        std::fs::create_dir(path.parent().unwrap()).unwrap();
        let old = rows.join(&b'\n');
        std::fs::write(&path, &old).unwrap();
        let functions = [Place { file: Some("z.c"), name: "z", first_line: 0, text: "z() {\n  x;\n}" }];
        let site = Site { workspace: folder.path(), functions: &functions, function: 0, annotator: Some("me"), time: None };
        if toggle_line(&site, line, false).is_ok() {
            let new = std::fs::read(&path).unwrap();
            prop_assert!(new.starts_with(&old));
            toggle_line(&site, line, true).unwrap();
            let undone = std::fs::read(&path).unwrap();
            prop_assert!(undone.starts_with(&old));
            prop_assert!(undone.len() <= old.len() + native::header().len() + 4);
        } else {
            prop_assert_eq!(std::fs::read(&path).unwrap(), old);
        }
    }
}
