//! Records for other tools: SARIF 2.1.0 (OASIS), one result for each run of labelled lines.

use super::{Label, LineLabel, Record};
use serde_json::{Value, json};
use std::io::{self, Write};

/// The rule of results whose record names no CWE.
const RULE: &str = "linelens/ground-truth";

/// Why a record has no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NotExported {
    /// It labels no line: SARIF speaks of places.
    NoLines,
    /// It does not say in which file, or where there.
    NoPlace,
    /// Its file is there, and has no function that is its own.
    Gone,
}

impl NotExported {
    pub fn as_str(self) -> &'static str {
        match self {
            NotExported::NoLines => "without labelled lines",
            NotExported::NoPlace => "without a file and a range in it",
            NotExported::Gone => "of functions that their files have no more, or have another record for",
        }
    }
}

/// Writes a log result by result.
#[derive(Debug)]
pub struct SarifWriter<W> {
    out: W,
    is_first: bool,
}

impl<W: Write> SarifWriter<W> {
    pub fn new(mut out: W) -> io::Result<SarifWriter<W>> {
        let driver = json!({
            "name": "linelens",
            "version": env!("CARGO_PKG_VERSION"),
        });
        let schema = "https://json.schemastore.org/sarif-2.1.0.json";
        write!(
            out,
            "{{\"$schema\":\"{schema}\",\"version\":\"2.1.0\",\"runs\":[{{\"tool\":{{\"driver\":{driver}}},\
             \"columnKind\":\"unicodeCodePoints\",\"results\":["
        )?;
        Ok(SarifWriter { out, is_first: true })
    }

    /// The results of one record; `Err` inside if there are none.
    pub fn add(&mut self, record: &Record) -> io::Result<Result<usize, NotExported>> {
        let results = match results(record) {
            Ok(results) => results,
            Err(reason) => return Ok(Err(reason)),
        };
        for result in &results {
            let separator = if self.is_first { "\n" } else { ",\n" };
            self.is_first = false;
            write!(self.out, "{separator}{result}")?;
        }
        Ok(Ok(results.len()))
    }

    pub fn get_mut(&mut self) -> &mut W {
        &mut self.out
    }

    /// Ends the log and gives back what it was written to.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.write_all(b"\n]}]}\n")?;
        Ok(self.out)
    }
}

fn results(record: &Record) -> Result<Vec<Value>, NotExported> {
    if record.lines.is_empty() {
        return Err(NotExported::NoLines);
    }
    let (Some(file), Some((first, _))) = (&record.file, record.range) else {
        return Err(NotExported::NoPlace);
    };
    let mut lines: Vec<_> = record.lines.iter().collect();
    lines.sort_by_key(|line| line.line);
    let runs = lines.chunk_by(|a, b| b.line == a.line + 1 && a.label == b.label);
    Ok(runs
        .map(|run| {
            let start = first + run[0].line + 1;
            let has_text = run.iter().all(|line| !line.text.is_empty());
            let text = run.iter().map(|line| line.text.as_str()).collect::<Vec<_>>().join("\n");
            let mut region = json!({"startLine": start, "endLine": start + run.len() - 1});
            if has_text {
                region["snippet"] = json!({"text": text});
            }
            let mut location =
                json!({"physicalLocation": {"artifactLocation": {"uri": file}, "region": region}});
            if let Some(function) = &record.function {
                location["logicalLocations"] = json!([{"fullyQualifiedName": function, "kind": "function"}]);
            }
            let is_flaw = run[0].label == LineLabel::Flaw && record.label != Label::Unsure;
            let said = if is_flaw { "marked as vulnerable" } else { "marked as unsure" };
            let mut result = json!({
                "ruleId": record.cwe.first().map_or(RULE, String::as_str),
                // SARIF §3.27.10: the level of what is no failure is `none`.
                "kind": if is_flaw { "fail" } else { "review" },
                "level": if is_flaw { "warning" } else { "none" },
                "message": {"text": record.note.as_deref().unwrap_or(said)},
                "locations": [location],
            });
            if let Some(hash) = &record.body_sha256 {
                result["partialFingerprints"] =
                    json!({"linelensBody/v1": format!("{hash}:{}", run[0].line + 1)});
            }
            let known: serde_json::Map<String, Value> = [
                ("annotator", record.annotator.as_ref().map(|name| json!(name))),
                ("cve", (!record.cve.is_empty()).then(|| json!(record.cve))),
                ("cwe", (record.cwe.len() > 1).then(|| json!(record.cwe))),
                ("time", record.time.as_ref().map(|time| json!(time))),
            ]
            .into_iter()
            .filter_map(|(key, value)| Some((key.to_string(), value?)))
            .collect();
            if !known.is_empty() {
                result["properties"] = Value::Object(known);
            }
            result
        })
        .collect())
}
