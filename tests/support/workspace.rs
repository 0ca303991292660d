//! A workspace folder with ground truth, for tests of the language server.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use crate::support::{Client, Knobs, PATIENCE, Setup, UNIT, at};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::{Duration, Instant};

pub const HEADER: &str = "{\"schema\":\"linelens-annotations\",\"version\":1}";

/// A workspace folder with a document in it.
pub struct Workspace {
    pub folder: tempfile::TempDir,
}

impl Workspace {
    pub fn new() -> Workspace {
        let workspace = Workspace { folder: tempfile::tempdir().unwrap() };
        std::fs::write(workspace.path("unit.c"), UNIT).unwrap();
        workspace
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    pub fn uri(&self, name: &str) -> String {
        format!("file://{}", self.path(name).display())
    }

    pub fn annotate(&self, rows: &[Value]) {
        let rows: Vec<String> = rows.iter().map(Value::to_string).collect();
        std::fs::create_dir_all(self.path(".linelens")).unwrap();
        std::fs::write(self.annotations(), format!("{HEADER}\n{}\n", rows.join("\n"))).unwrap();
    }

    pub fn annotations(&self) -> PathBuf {
        self.path(".linelens/annotations.jsonl")
    }

    pub fn rows(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.annotations()).unwrap();
        text.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    pub fn setup(&self) -> Setup {
        Setup {
            folders: vec![self.uri("")],
            options: json!({"debounceMs": 20, "analyze": "file", "method": "attention:last", "annotator": "ann"}),
            ..Setup::default()
        }
    }

    /// The server without a document.
    #[allow(dead_code)] // Not every test file needs it.
    pub fn opened_as_is(&self, setup: Setup) -> (Client, Knobs) {
        let knobs = Knobs::default();
        let mut client = Client::start(setup, &knobs);
        client.ignore("textDocument/publishDiagnostics");
        client.ignore("linelens/relevance");
        client.ignore("window/logMessage");
        (client, knobs)
    }

    /// The document open and analysed.
    pub fn opened(&self, setup: Setup) -> (Client, Knobs) {
        let knobs = Knobs::default();
        let mut client = Client::start(setup, &knobs);
        client.ignore("textDocument/publishDiagnostics");
        client.ignore("linelens/relevance");
        client.ignore("window/logMessage");
        client.open(&self.uri("unit.c"), UNIT);
        client.settle();
        // Annotation files are read beside the analysis.
        if self.annotations().exists() {
            until(&mut client, "alignment", |client| is_aligned(client, &self.uri("unit.c")));
        }
        (client, knobs)
    }
}

/// Asks again until it is so.
pub fn until(client: &mut Client, what: &str, mut is_so: impl FnMut(&mut Client) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so(client) {
        assert!(Instant::now() < deadline, "no {what}");
        client.listen(Duration::from_millis(20));
    }
}

/// Whether there is ground truth for `copy`.
pub fn is_aligned(client: &mut Client, uri: &str) -> bool {
    explained(client, uri, 3).get("alignment").is_some()
}

/// What an annotator says of `copy`: these 1-based lines of it are flaws.
pub fn copy_row(annotator: &str, label: &str, lines: &[usize]) -> Value {
    let text: Vec<&str> = UNIT.lines().skip(2).take(4).collect();
    let lines: Vec<Value> =
        lines.iter().map(|line| json!({"line": line, "text": text[line - 1], "label": "flaw"})).collect();
    json!({"file": "unit.c", "function": "copy", "range": [3, 6], "label": label, "lines": lines,
        "cwe": ["CWE-787"], "annotator": annotator, "source": "manual"})
}

pub fn explained(client: &mut Client, uri: &str, line: u32) -> Value {
    client.call("linelens/explain", at(uri, line, 4)).unwrap()
}

pub fn command(client: &mut Client, name: &str, argument: Value) -> Result<Value, Value> {
    client.command(name, json!([argument]))
}

pub fn titles(client: &mut Client, uri: &str) -> Vec<String> {
    let lenses = client.call("textDocument/codeLens", json!({"textDocument": {"uri": uri}})).unwrap();
    lenses
        .as_array()
        .unwrap()
        .iter()
        .map(|lens| lens["command"]["title"].as_str().unwrap().to_string())
        .collect()
}
