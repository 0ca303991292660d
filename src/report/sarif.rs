//! SARIF 2.1.0 (OASIS): one result a function. Lines and columns count from 1, columns in code points.

use super::{FileReport, Reported};
use crate::analysis::Finding;
use crate::analysis::pair::Version;
use crate::annotations::FunctionLines;
use crate::annotations::ignores::Ignore;
use crate::detector::DetectorInfo;
use crate::escape;
use crate::lines::LineScore;
use crate::text::{ByteSpan, PositionEncoding};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::io::{self, Write};

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";
const RULE: &str = "linelens/vulnerable-function";
/// Relative URIs start at the folder of this name.
const BASE: &str = "SRCROOT";

/// How much a result matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Error,
    Warning,
    Note,
}

impl Level {
    fn as_str(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warning => "warning",
            Level::Note => "note",
        }
    }
}

/// Writes a log file by file. Everything is harmless on a terminal.
#[derive(Debug)]
pub struct Log<W> {
    out: W,
    is_first: bool,
    model: String,
    level: Level,
    top_lines: usize,
    failures: Vec<Value>,
}

impl<W: Write> Log<W> {
    pub fn new(mut out: W, model: &DetectorInfo, level: Level, top_lines: usize) -> io::Result<Log<W>> {
        let driver = json!({
            "name": "linelens",
            "version": env!("CARGO_PKG_VERSION"),
            "rules": [{
                "id": RULE,
                "name": "VulnerableFunction",
                "shortDescription": {"text": "A detector takes the function for vulnerable."},
                "fullDescription": {"text": "A learned detector gives the function a probability of being vulnerable \
                    above its threshold. The related locations are the lines that drove the prediction."},
                "help": {"text": "Read the related locations first. The detector may be wrong; to pass a function over, \
                    ignore it with a reason."},
                "defaultConfiguration": {"level": level.as_str()},
                "properties": {"tags": ["security"]},
            }],
        });
        let bases = json!({BASE: {"description": {"text": "the folder that the files are relative to"}}});
        let properties = json!({
            "model": {"name": model.name, "sha256": &*model.sha256},
            "executionProvider": model.execution_provider,
        });
        let head = format!(
            "{{\"$schema\":\"{SCHEMA}\",\"version\":\"2.1.0\",\"runs\":[{{\"tool\":{{\"driver\":{driver}}},\
             \"columnKind\":\"unicodeCodePoints\",\"originalUriBaseIds\":{bases},\"properties\":{properties},\
             \"results\":["
        );
        out.write_all(escape::json(&head).as_bytes())?;
        let model = model.name.clone();
        Ok(Log { out, is_first: true, model, level, top_lines, failures: Vec::new() })
    }

    /// One result for each finding.
    pub fn add(&mut self, file: &FileReport<'_>) -> io::Result<()> {
        let mut seen: HashMap<String, usize> = HashMap::new();
        for reported in file.findings {
            let identity = identity(file, reported.finding);
            let nth = seen.entry(identity.clone()).or_default();
            let result = self.result(file, reported, &fingerprint(&identity, *nth));
            *nth += 1;
            let separator = if self.is_first { "\n" } else { ",\n" };
            self.is_first = false;
            write!(self.out, "{separator}{}", escape::json(&result.to_string()))?;
        }
        Ok(())
    }

    /// A file or function that could not be analysed.
    pub fn add_failure(&mut self, uri: Option<&str>, message: &str) {
        let mut failure = json!({"level": "error", "message": {"text": plain(message)}});
        if let Some(uri) = uri {
            failure["locations"] = json!([{"physicalLocation": {"artifactLocation": artifact(uri)}}]);
        }
        self.failures.push(failure);
    }

    /// Ends the log and gives back what it was written to.
    pub fn finish(mut self) -> io::Result<W> {
        let mut invocation = json!({"executionSuccessful": self.failures.is_empty()});
        if !self.failures.is_empty() {
            invocation["toolExecutionNotifications"] = Value::Array(self.failures);
        }
        let tail = format!("\n],\"invocations\":[{invocation}]}}]}}\n");
        self.out.write_all(escape::json(&tail).as_bytes())?;
        Ok(self.out)
    }

    fn result(&self, file: &FileReport<'_>, reported: &Reported<'_>, fingerprint: &str) -> Value {
        let finding = reported.finding;
        let mut location = json!({
            "physicalLocation": {
                "artifactLocation": artifact(file.uri),
                "region": region(file.version, finding.function.name_span),
                "contextRegion": {"startLine": finding.start_line + 1, "endLine": finding.end_line + 1},
            },
        });
        if !finding.function.name.is_empty() {
            location["logicalLocations"] =
                json!([{"fullyQualifiedName": finding.function.name, "kind": "function"}]);
        }
        let mut result = json!({
            "ruleId": RULE,
            "ruleIndex": 0,
            "kind": if finding.flagged { "fail" } else { "pass" },
            // SARIF §3.27.10: the level of what is no failure is `none`.
            "level": if finding.flagged { self.level.as_str() } else { "none" },
            "message": {"text": plain(&self.message(finding))},
            "locations": [location],
            "partialFingerprints": {"linelensFunction/v1": fingerprint},
        });
        let related: Vec<Value> =
            finding.top_lines(self.top_lines).iter().map(|line| related(file, line)).collect();
        if !related.is_empty() {
            result["relatedLocations"] = Value::Array(related);
        }
        if finding.flagged {
            // SARIF §3.27.25: from 0 to 100, the most important first.
            result["rank"] = json!((finding.probability * 100.0).clamp(0.0, 100.0));
        }
        // SARIF §3.27.23: every result of a run says so, or none; an empty array says that nobody passed it over.
        result["suppressions"] = reported.ignored.map(suppression).into_iter().collect();
        result["properties"] = json!({
            "probability": finding.probability,
            "threshold": finding.threshold,
            "method": finding.method.to_string(),
            "profile": finding.profile,
            "truncated": finding.truncated,
        });
        result
    }

    fn message(&self, finding: &Finding) -> String {
        let (sign, verdict) = match finding.flagged {
            true => (">", "looks vulnerable"),
            false => ("≤", "was not flagged"),
        };
        let mut message = format!(
            "{} {verdict}: P(vulnerable) {} {sign} {} by {}",
            finding.function.name,
            finding.shown_probability(),
            finding.threshold,
            self.model
        );
        let top: Vec<String> =
            finding.top_lines(self.top_lines).iter().map(|line| (line.line + 1).to_string()).collect();
        if !top.is_empty() {
            let noun = if top.len() == 1 { "line" } else { "lines" };
            message.push_str(&format!("; {} points to {noun} {}", finding.method, top.join(", ")));
        }
        message
    }
}

impl Log<Vec<u8>> {
    /// What was written since the last time, so that a log of any length needs little memory.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }
}

fn artifact(uri: &str) -> Value {
    json!({"uri": uri, "uriBaseId": BASE})
}

fn related(file: &FileReport<'_>, line: &LineScore) -> Value {
    let Version { text, lines } = file.version;
    let span = lines.line_span(line.line);
    let source = span.of(text).unwrap_or_default();
    let start = span.start + (source.len() - source.trim_start().len());
    let end = span.start + source.trim_end().len();
    let mut region = region(file.version, ByteSpan::new(start, end.max(start)));
    region["snippet"] = json!({"text": source.trim()});
    json!({
        "id": line.rank,
        "physicalLocation": {"artifactLocation": artifact(file.uri), "region": region},
        "message": {"text": format!("rank {}, relevance {:.2}", line.rank, line.score)},
    })
}

fn region(version: Version<'_>, span: ByteSpan) -> Value {
    let position = |offset| version.lines.position(version.text, offset, PositionEncoding::Utf32);
    let (start, end) = (position(span.start), position(span.end));
    json!({
        "startLine": start.line + 1,
        "startColumn": start.character + 1,
        "endLine": end.line + 1,
        "endColumn": end.character + 1,
    })
}

/// SARIF §3.35: decided outside of the source.
fn suppression(ignore: &Ignore) -> Value {
    let mut suppression =
        json!({"kind": "external", "status": "accepted", "justification": escape::terminal(&ignore.reason)});
    let known = [("annotator", &ignore.annotator), ("time", &ignore.time)];
    let known: serde_json::Map<String, Value> = known
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_string(), json!(value.as_ref()?))))
        .collect();
    if !known.is_empty() {
        suppression["properties"] = Value::Object(known);
    }
    suppression
}

/// File, name and text of a function: neither its line nor white space, nor what stands around it.
fn identity(file: &FileReport<'_>, finding: &Finding) -> String {
    let text = finding.function.span.of(file.version.text).unwrap_or_default();
    format!("{}\0{}\0{}", file.uri, finding.function.name, FunctionLines::new(text).sha256_ws())
}

/// Equal functions of one file are told apart by their order.
fn fingerprint(identity: &str, nth: usize) -> String {
    let digest = Sha256::digest(format!("{identity}\0{nth}").as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Plain message text: control and bidirectional characters visible, and nothing that SARIF takes for a placeholder
/// (§3.11.5) or a link (§3.11.6).
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in escape::terminal(text).chars() {
        match c {
            '{' | '}' => plain.extend([c, c]),
            '[' | ']' | '\\' => plain.extend(['\\', c]),
            c => plain.push(c),
        }
    }
    plain
}
