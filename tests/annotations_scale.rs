//! Millions of rows pass the importers in constant memory, and malformed rows of every kind are counted.
//!
//! `cargo test --release --test annotations_scale -- --ignored --nocapture` does it with 1,000,000 rows of each format and
//! prints rate and peak memory.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use linelens::annotations::dataset::{self, Format};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Instant;

/// More than this the process may not grow while it reads a file of any length.
const MOST_GROWTH_KIB: u64 = 32 << 10;

#[test]
fn rows_stream_in_constant_memory() {
    pass(2_000);
}

#[test]
#[ignore = "takes minutes"]
fn a_million_rows_stream_in_constant_memory() {
    pass(1_000_000);
}

type Kinds = BTreeMap<&'static str, usize>;

fn pass(rows: usize) {
    let folder = tempfile::tempdir().unwrap();
    for format in [
        Format::Functions,
        Format::PrimeVul,
        Format::Sven,
        Format::Devign,
        Format::DiverseVul,
        Format::Native,
        Format::LineVul,
        Format::BigVul,
    ] {
        let path = folder.path().join("rows");
        let expected = write(&path, format, rows);
        let size = std::fs::metadata(&path).unwrap().len();
        // Buffers, the allocator's arenas and the first rows are there before the measurement.
        dataset::import(&path, None).unwrap().take(1000).for_each(drop);
        let before = peak_kib();
        let start = Instant::now();
        let samples = dataset::import(&path, None).unwrap();
        assert_eq!(samples.format(), format);
        let mut bad = Kinds::new();
        let mut good = 0;
        for sample in samples {
            match sample {
                Ok(_) => good += 1,
                Err(error) => *bad.entry(error.reason.kind()).or_default() += 1,
            }
        }
        let seconds = start.elapsed().as_secs_f64();
        assert_eq!(bad, expected, "{format}");
        let faulty: usize = bad.values().sum();
        println!(
            "{format}: {rows} rows, {} MB, {good} functions, {faulty} bad rows of {} kinds, {:.0} rows/s, peak {:?} KiB",
            size / 1_000_000,
            bad.len(),
            rows as f64 / seconds,
            peak_kib()
        );
        if let (Some(before), Some(after)) = (before, peak_kib()) {
            assert!(after - before < MOST_GROWTH_KIB, "{format}: grew from {before} to {after} KiB");
        }
        std::fs::remove_file(&path).unwrap();
    }
}

/// The most memory that this process ever had, where the system says (Linux).
fn peak_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

fn function(number: usize) -> String {
    let body: String = (0..number % 40).map(|line| format!("  step_{line}(state, {number});\n")).collect();
    format!("int function_{number}(struct state *state)\n{{\n  char buffer[16];\n{body}  return 0;\n}}\n")
}

/// Writes so many rows, every tenth of them bad in one of the ways of the format; gives back how many of each kind.
fn write(path: &Path, format: Format, rows: usize) -> Kinds {
    let mut out = BufWriter::new(std::fs::File::create(path).unwrap());
    let mut kinds = Kinds::new();
    if let Format::LineVul | Format::BigVul = format {
        let mut out = csv::WriterBuilder::new().flexible(true).from_writer(out);
        let is_linevul = format == Format::LineVul;
        let header: &[&str] = match is_linevul {
            true => &["index", "processed_func", "target", "flaw_line", "flaw_line_index"],
            false => &["index", "func_before", "func_after", "vul"],
        };
        out.write_record(header).unwrap();
        for number in 0..rows {
            let index = number.to_string();
            let code = function(number);
            let target = if number % 3 == 0 { "1" } else { "0" };
            let text = if number % 3 == 0 { "char buffer[16];" } else { "" };
            let at = if number % 3 == 0 { "2" } else { "" };
            let fixed = code.replace("16", "32");
            let mut row: Vec<&[u8]> = match is_linevul {
                true => [&index, &code, target, text, at].map(str::as_bytes).to_vec(),
                false => [&index, &code, if target == "1" { &fixed } else { &code }, target]
                    .map(str::as_bytes)
                    .to_vec(),
            };
            if number % 10 == 9 {
                let label = if is_linevul { 2 } else { 3 };
                let kind = match (is_linevul, number / 10 % if is_linevul { 10 } else { 5 }) {
                    (_, 0) => {
                        row.pop();
                        "wrong number of fields"
                    }
                    (_, 1) => {
                        row[1] = b"\xff\xfe";
                        "not UTF-8"
                    }
                    (_, 2) => {
                        row[label] = b"2";
                        "label not 0 or 1"
                    }
                    (_, 3) => {
                        row[1] = b"";
                        "field empty"
                    }
                    (false, _) => {
                        row[label] = b"1";
                        row[2] = row[1];
                        "function and fix are the same"
                    }
                    (true, case) => {
                        row[label] = b"1";
                        row[3] = b"char buffer[16];";
                        row[4] = b"2";
                        match case {
                            4 => {
                                row[4] = b"999";
                                "line outside the function"
                            }
                            5 => {
                                row[4] = b"1";
                                "line text differs"
                            }
                            6 => {
                                row[4] = b"two";
                                "not a line number"
                            }
                            7 => {
                                row[4] = b"1,2";
                                "line numbers and texts differ in number"
                            }
                            8 => {
                                row[3] = b"nowhere";
                                row[4] = b"";
                                "line ambiguous"
                            }
                            _ => {
                                row[label] = b"0";
                                "flaw lines in a benign function"
                            }
                        }
                    }
                };
                *kinds.entry(kind).or_default() += 1;
            }
            out.write_record(row).unwrap();
        }
        out.flush().unwrap();
        return kinds;
    }
    for number in 0..rows {
        // PrimeVul's rows are pairs, so a whole pair is bad, in one of two ways.
        let (number_of_pair, half) = (number / 2, number % 2);
        let is_paired = format == Format::PrimeVul;
        let code = function(if is_paired { number_of_pair } else { number });
        let is_vulnerable = if is_paired { half == 0 } else { number % 3 == 0 };
        let mut row = match format {
            Format::Functions => json!({"id": number, "func": code, "target": u8::from(is_vulnerable),
                                        "flaw_lines": if is_vulnerable { vec![3] } else { vec![] }}),
            Format::PrimeVul => {
                json!({"idx": number, "commit_id": format!("c{number_of_pair}"), "cwe": ["CWE-1"], "cve": "None",
                                       "func": if half == 0 { code.clone() } else { code.replace("[16]", "[32]") },
                                       "target": u8::from(is_vulnerable)})
            }
            Format::Sven => {
                let line = "  char buffer[16];\n";
                json!({"func_name": "f", "func_src_before": code, "func_src_after": code.replace("16", "32"), "vul_type": "cwe-1",
                       "line_changes": {"deleted": [{"line_no": 3, "char_start": code.find(line).unwrap(), "line": line}]}})
            }
            Format::Devign => {
                json!({"project": "p", "commit_id": "c", "target": u8::from(is_vulnerable), "func": code, "idx": number})
            }
            Format::DiverseVul => {
                json!({"func": code, "target": u8::from(is_vulnerable), "cwe": [], "project": "p",
                                         "commit_id": "c", "hash": number, "size": 5, "message": "m"})
            }
            _ => json!({"file": "a.c", "range": [1, 9], "label": "vulnerable", "annotator": "a",
                        "lines": [{"line": 3, "text": "  char buffer[16];", "label": "flaw"}]}),
        };
        let is_bad = number % 10 == 9;
        let case = number / 10 % 5;
        if format == Format::PrimeVul && number % 20 >= 18 {
            // Both halves of the tenth pair.
            match (number / 20 % 3, half) {
                (0, 0) => {
                    row["func"] = json!(null);
                    *kinds.entry("field missing").or_default() += 1;
                    *kinds.entry("half a pair").or_default() += 1;
                }
                (1, 1) => {
                    row["func"] = json!(code);
                    *kinds.entry("function and fix are the same").or_default() += 2;
                }
                (2, 1) => {
                    row["commit_id"] = json!("other");
                    *kinds.entry("half a pair").or_default() += 2;
                }
                _ => {}
            }
        } else if is_bad && format != Format::PrimeVul {
            let mut text = row.to_string().into_bytes();
            let kind = match case {
                0 => {
                    text.truncate(text.len() / 2);
                    "not JSON"
                }
                1 => {
                    text = b"[1]".to_vec();
                    "not an object"
                }
                2 => {
                    let at = text.iter().position(|byte| *byte == b'a').unwrap();
                    text[at] = 0xff;
                    "not UTF-8"
                }
                3 if format == Format::Native => {
                    row["range"] = json!([9, 1]);
                    text = row.to_string().into_bytes();
                    "not a record"
                }
                3 => {
                    row[if format == Format::Sven { "line_changes" } else { "target" }] = json!(null);
                    text = row.to_string().into_bytes();
                    "field missing"
                }
                _ => match format {
                    Format::Functions => {
                        row["flaw_lines"] = json!([4000]);
                        text = row.to_string().into_bytes();
                        "line outside the function"
                    }
                    Format::Sven => {
                        row["line_changes"]["deleted"][0]["line_no"] = json!(2);
                        text = row.to_string().into_bytes();
                        "line text differs"
                    }
                    Format::Native => {
                        row["label"] = json!("perhaps");
                        text = row.to_string().into_bytes();
                        "not a record"
                    }
                    _ => {
                        row["target"] = json!(3);
                        text = row.to_string().into_bytes();
                        "label not 0 or 1"
                    }
                },
            };
            let kind = match (format, case) {
                // `line_changes` is there, but holds nothing.
                (Format::Sven, 3) => "field missing",
                _ => kind,
            };
            *kinds.entry(kind).or_default() += 1;
            out.write_all(&text).unwrap();
            out.write_all(b"\n").unwrap();
            continue;
        }
        writeln!(out, "{row}").unwrap();
    }
    out.flush().unwrap();
    kinds
}
