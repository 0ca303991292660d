//! The server under random work for a long time: editing, changing the method, asking and cancelling. Its memory stays
//! flat, no thread and no file is left over, and at rest it takes no processor time.
//!
//! A short run is part of `cargo test`. For two hours, with a line of figures every ten seconds:
//! `LINELENS_SOAK_SECONDS=7200 LINELENS_SOAK_SHARE=0.2 LINELENS_SOAK_LOG=soak.csv cargo test --release --test soak --
//! --nocapture`. `LINELENS_SOAK_SEED` chooses another order of events, `LINELENS_SOAK_SERVER` another binary.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)] // Helpers of tests are tests.

mod support {
    pub mod folder;
    pub mod lsp;
}

use linelens::text::{LineIndex, PositionEncoding};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::process::Command;
use std::time::{Duration, Instant};
use support::folder::Workspace;
use support::lsp::{Client, Setup, plugin, with};

const METHODS: [&str; 6] =
    ["attention:first", "attention:last", "attnlrp", "gradient-x-input", "ig", "occlusion"];
/// What is not counted yet when the memory of a long run is judged.
const WARM_UP: f64 = 600.0;
/// More texts than a server keeps results of: see the caches of `src/analysis.rs`.
const REMEMBERED: usize = 1200;
/// A long run rests after pieces of this length, in seconds, and memory is judged by what is held then: while it works it
/// is that of the runs at hand, which a busy machine makes long.
const PIECE: f64 = 600.0;
/// After so many pieces a long run reloads. That lets go of every session and every remembered result, so the caches are
/// filled again before memory is judged.
const PIECES_A_LIFE: usize = 4;

fn variable<T: std::str::FromStr>(name: &str, otherwise: T) -> T {
    std::env::var(name).map_or(otherwise, |value| value.parse().ok().expect(name))
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit.max(1)
    }

    fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

// ------------------------------------------------------------------------------------------------------ documents

struct Document {
    name: &'static str,
    uri: String,
    original: String,
    text: String,
    version: i32,
    is_open: bool,
}

/// A function that reads like one; the numbers make its text its own.
fn function(number: usize, lines: usize, word: &str) -> String {
    let mut text = format!(
        "static int {word}_{number}(char *to, const char *from, int n)\n{{\n    int sum = {number};\n"
    );
    for line in 0..lines {
        text.push_str(&match line % 5 {
            0 => format!("    if (n > {line}) {{\n        memcpy(to + {line}, from, n); /* größer – 長い 🦀 */\n    }}\n"),
            1 => format!("    for (int i = 0; i < n; i++)\n        to[i + {line}] = from[i];\n"),
            2 => format!("\tsum += from[n - {line}] * {number};\n"),
            3 => format!("    printf(\"%s ümlaut {line}\\n\", from);\n"),
            _ => "    strcpy(to, from);\n".to_string(),
        });
    }
    text.push_str("    return sum;\n}\n\n");
    text
}

fn file(functions: usize, lines: usize, word: &str) -> String {
    let head = "#include <stdio.h>\n#include <string.h>\n\n".to_string();
    head + &(0..functions).map(|number| function(number, lines + number % 7, word)).collect::<String>()
}

fn documents() -> Vec<(&'static str, String)> {
    vec![
        ("plain.c", file(6, 4, "copy")),
        ("windows.c", file(6, 5, "move").replace('\n', "\r\n")),
        ("old.c", file(4, 3, "join").replace('\n', "\r")),
        (
            "names.cpp",
            format!(
                "namespace größe {{\ntemplate <typename T> struct Box {{\n{}}};\n}}\n",
                file(5, 4, "配列")
            ),
        ),
        ("long.c", file(2, 120, "parse")),
        ("many.cpp", file(40, 6, "step")),
    ]
}

// ----------------------------------------------------------------------------------------------------- the process

#[derive(Clone, Copy, Debug)]
struct Sample {
    /// Of the run.
    seconds: f64,
    rss_mb: f64,
    threads: usize,
    files: usize,
    /// Of the processor, in seconds.
    processor: f64,
    /// What had been done.
    events: usize,
}

fn sample(pid: u32, begun: Instant, events: usize) -> Sample {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("the server has ended");
    let number = |key: &str| -> f64 {
        let line = status.lines().find(|line| line.starts_with(key)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    };
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    let ticks = |field: usize| fields[field].parse::<f64>().unwrap();
    Sample {
        seconds: begun.elapsed().as_secs_f64(),
        rss_mb: number("VmRSS:") * 1024.0 / 1e6,
        threads: number("Threads:") as usize,
        files: std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count(),
        processor: (ticks(11) + ticks(12)) / 100.0,
        events,
    }
}

// --------------------------------------------------------------------------------------------------------- the run

struct Soak {
    client: Client,
    workspace: Workspace,
    random: Random,
    documents: Vec<Document>,
    begun: Instant,
    /// The requests under way, and the document and version that an explanation was asked for.
    asked: HashMap<i64, Option<(usize, i32)>>,
    done: BTreeMap<&'static str, usize>,
    /// Answers by what came of them.
    answers: BTreeMap<String, usize>,
    /// Explanations whose lines were compared with the client's text.
    compared: usize,
    samples: Vec<Sample>,
    log: Option<std::fs::File>,
    is_long: bool,
}

impl Soak {
    fn start(seed: u64, is_long: bool) -> Soak {
        let texts = documents();
        let files: Vec<(&str, &str)> = texts.iter().map(|(name, text)| (*name, text.as_str())).collect();
        let workspace = Workspace::new(&files);
        let server: String = variable("LINELENS_SOAK_SERVER", env!("CARGO_BIN_EXE_linelens").to_string());
        let mut command = Command::new(server);
        command.args(["lsp", "--stdio"]);
        command.env("XDG_CONFIG_HOME", workspace.path("")).env("LINELENS_ANNOTATOR", "ann");
        let mut client = Client::spawn(command);
        client.patience = Duration::from_secs(300);
        for method in [
            "window/logMessage",
            "window/showMessage",
            "linelens/relevance",
            "textDocument/publishDiagnostics",
        ] {
            client.ignore(method);
        }
        let capabilities = with(plugin(), "window.workDoneProgress", json!(true));
        let capabilities = with(capabilities, "workspace.codeLens", json!({"refreshSupport": true}));
        let capabilities = with(capabilities, "workspace.inlayHint", json!({"refreshSupport": true}));
        client.handshake(&Setup {
            capabilities,
            folders: vec![workspace.uri("")],
            options: json!({"debounceMs": 50, "analyze": "file", "method": "attention:last"}),
            ..Setup::default()
        });
        let documents = texts
            .into_iter()
            .map(|(name, text)| Document {
                name,
                uri: workspace.uri(name),
                original: text.clone(),
                text,
                version: 0,
                is_open: false,
            })
            .collect();
        let log = std::env::var_os("LINELENS_SOAK_LOG")
            .map(|path| std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap());
        Soak {
            client,
            workspace,
            random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            documents,
            begun: Instant::now(),
            asked: HashMap::new(),
            done: BTreeMap::new(),
            answers: BTreeMap::new(),
            compared: 0,
            samples: Vec::new(),
            log,
            is_long,
        }
    }

    fn note(&mut self, line: &str) {
        if let Some(log) = &mut self.log {
            writeln!(log, "{line}").unwrap();
        }
        println!("{line}");
    }

    fn now(&self) -> Sample {
        sample(self.client.pid(), self.begun, self.done.values().sum())
    }

    /// Takes a sample where ten seconds have passed since the last.
    fn watch(&mut self) {
        let due =
            self.samples.last().is_none_or(|last| self.begun.elapsed().as_secs_f64() >= last.seconds + 10.0);
        if due {
            let now = self.now();
            self.samples.push(now);
            let cancelled = self.answers.get("-32800").copied().unwrap_or_default();
            let Sample { seconds, rss_mb, threads, files, processor, events } = now;
            let compared = self.compared;
            self.note(&format!(
                "{seconds:.0},{rss_mb:.1},{threads},{files},{processor:.2},{events},{cancelled},{compared}"
            ));
        }
    }

    fn listen(&mut self, duration: Duration) {
        let until = Instant::now() + duration;
        while Instant::now() < until {
            self.client
                .listen(until.saturating_duration_since(Instant::now()).min(Duration::from_millis(500)));
            self.take_answers();
            self.watch();
        }
    }

    fn take_answers(&mut self) {
        for (id, answer) in self.client.take_answers() {
            let about = self.asked.remove(&id).expect("an answer to a request of this run");
            let kind = match answer.get("error") {
                Some(error) => {
                    let code = error["code"].as_i64().unwrap();
                    // Cancelled, the text has changed, there is nothing to do here, and parameters that do not fit.
                    assert!([-32800, -32801, -32803, -32602].contains(&code), "{answer}");
                    code.to_string()
                }
                None => "result".to_string(),
            };
            *self.answers.entry(kind).or_default() += 1;
            if let Some((document, version)) = about
                && answer["result"]["textDocument"]["version"] == json!(version)
                && self.documents[document].version == version
            {
                self.compare(document, &answer["result"]);
            }
        }
    }

    /// The server's text is the client's.
    fn compare(&mut self, document: usize, finding: &Value) {
        let document = &self.documents[document];
        let lines = LineIndex::new(&document.text);
        for line in finding["lines"].as_array().unwrap() {
            let number = line["line"].as_u64().unwrap() as usize;
            let ours = lines.line_span(number).of(&document.text).unwrap();
            let ours = ours.trim_end_matches(['\r', '\n']);
            assert_eq!(line["text"], json!(ours), "{} line {number}", document.name);
        }
        self.compared += 1;
    }

    fn request(&mut self, method: &str, params: Value) -> i64 {
        let id = self.client.request(method, params);
        self.asked.insert(id, None);
        id
    }

    fn command(&mut self, name: &str, argument: Value) -> i64 {
        self.request("workspace/executeCommand", json!({"command": name, "arguments": [argument]}))
    }

    // Events

    fn open(&mut self, which: usize) {
        let document = &mut self.documents[which];
        document.version += 1;
        document.is_open = true;
        let item = json!({"uri": document.uri, "languageId": if document.name.ends_with("cpp") { "cpp" } else { "c" },
            "version": document.version, "text": document.text});
        self.client.notify("textDocument/didOpen", json!({"textDocument": item}));
    }

    fn an_open_document(&mut self) -> usize {
        let open: Vec<usize> = (0..self.documents.len()).filter(|d| self.documents[*d].is_open).collect();
        *self.random.one(&open)
    }

    /// An offset that a position can name.
    fn offset(&mut self, text: &str) -> usize {
        let mut offset = self.random.below(text.len() + 1);
        while !text.is_char_boundary(offset)
            || text[..offset].ends_with('\r') && text[offset..].starts_with('\n')
        {
            offset -= 1;
        }
        offset
    }

    fn place(&mut self, which: usize) -> Value {
        let text = self.documents[which].text.clone();
        let offset = self.offset(&text);
        json!({"textDocument": {"uri": self.documents[which].uri}, "position": position(&text, offset)})
    }

    /// One change of a text: what the client sends.
    fn change(&mut self, which: usize) -> Value {
        let mut text = std::mem::take(&mut self.documents[which].text);
        let eol = if self.documents[which].original.contains("\r\n") {
            "\r\n"
        } else if self.documents[which].original.contains('\n') {
            "\n"
        } else {
            "\r"
        };
        let start = self.offset(&text);
        let (start, end, inserted) = match self.random.below(10) {
            0..4 => {
                let words = [
                    "x", "é", "漢字", "🦀", "\t", " ", "a\u{301}", "{", "}", "\"", "/*", "*/", "#if A", "\0",
                    "\u{feff}",
                ];
                (start, start, self.random.one(&words).to_string())
            }
            4 => (start, start, eol.to_string()),
            5 | 6 => (start, start, format!("{eol}    value[{}] = größe;{eol}", self.random.below(1000))),
            7 => {
                let other = self.offset(&text);
                let near =
                    if other > start { other.min(start + 30) } else { other.max(start.saturating_sub(30)) };
                let (mut a, mut b) = (start.min(near), start.max(near));
                while !text.is_char_boundary(a) || text[..a].ends_with('\r') && text[a..].starts_with('\n') {
                    a -= 1;
                }
                while !text.is_char_boundary(b) || text[..b].ends_with('\r') && text[b..].starts_with('\n') {
                    b -= 1;
                }
                (a, b.max(a), String::new())
            }
            8 => {
                let (number, lines) = (self.random.below(100_000), 1 + self.random.below(8));
                (start, start, function(number, lines, "neu").replace('\n', eol))
            }
            _ => {
                let lines = LineIndex::new(&text);
                let line = lines.line_span(lines.line_at(start));
                (line.start, line.end, format!("    total = total * {};{eol}", self.random.below(1000)))
            }
        };
        let range = json!({"start": position(&text, start), "end": position(&text, end)});
        text.replace_range(start..end, &inserted);
        self.documents[which].text = text;
        json!({"range": range, "text": inserted})
    }

    fn edit(&mut self, which: usize) {
        let (length, original) = (self.documents[which].text.len(), self.documents[which].original.len());
        // Braces that do not balance and texts that grow or shrink are put right now and then.
        let changes = if self.random.below(40) == 0 || length > 2 * original || 2 * length < original {
            let document = &mut self.documents[which];
            document.text.clone_from(&document.original);
            vec![json!({"text": document.text})]
        } else {
            let count = 1 + self.random.below(8) / 6;
            (0..count).map(|_| self.change(which)).collect()
        };
        let document = &mut self.documents[which];
        document.version += 1;
        self.client.change(&document.uri, document.version, json!(changes));
    }

    fn explain(&mut self, which: usize) -> i64 {
        let mut params = self.place(which);
        params["method"] = json!(self.random.one(&METHODS));
        let id = self.request("linelens/explain", params);
        self.asked.insert(id, Some((which, self.documents[which].version)));
        id
    }

    fn watched(&mut self) {
        let names = ["linelens.toml", ".linelens/annotations.jsonl", "plain.c"];
        let name = *self.random.one(&names);
        let text = match name {
            "linelens.toml" => format!(
                "threshold = 0.{}\ntopLines = {}\n",
                1 + self.random.below(9),
                1 + self.random.below(9)
            ),
            "plain.c" => self.documents[0].original.clone(),
            _ => "{\"schema\":\"linelens-annotations\",\"version\":1}\n".to_string(),
        };
        let kind = if self.random.below(4) == 0 {
            let _ = std::fs::remove_file(self.workspace.path(name));
            3
        } else {
            self.workspace.write(name, &text);
            2
        };
        let change = json!({"uri": self.workspace.uri(name), "type": kind});
        self.client.notify("workspace/didChangeWatchedFiles", json!({"changes": [change]}));
    }

    fn step(&mut self) {
        let which = self.an_open_document();
        let uri = self.documents[which].uri.clone();
        let document = json!({"textDocument": {"uri": uri}});
        let everything =
            json!({"start": {"line": 0, "character": 0}, "end": {"line": 10_000, "character": 0}});
        // A long run reloads where it fills the caches anew afterwards: see [`PIECES_A_LIFE`].
        let dice = self.random.below(if self.is_long { 999 } else { 1000 });
        let name = match dice {
            0..400 => {
                self.edit(which);
                "edit"
            }
            400..480 => {
                let place = self.place(which);
                self.request("textDocument/hover", place);
                "hover"
            }
            480..510 => {
                let place = self.place(which);
                self.request("textDocument/documentHighlight", place);
                "highlight"
            }
            510..560 => {
                let place = self.place(which);
                let range = json!({"start": place["position"], "end": place["position"]});
                let params = json!({"textDocument": place["textDocument"], "range": range, "context": {"diagnostics": []}});
                self.request("textDocument/codeAction", params);
                "action"
            }
            560..590 => {
                self.request("textDocument/codeLens", document);
                "lens"
            }
            590..620 => {
                self.request(
                    "textDocument/inlayHint",
                    json!({"textDocument": {"uri": uri}, "range": everything}),
                );
                "hint"
            }
            620..710 => {
                self.explain(which);
                "explain"
            }
            710..800 => {
                let id = self.explain(which);
                let pause = self.random.below(150) as u64;
                self.listen(Duration::from_millis(pause));
                self.client.cancel(id);
                "cancel"
            }
            800..850 => {
                let method = json!(self.random.one(&METHODS));
                self.command("linelens.setMethod", method);
                "method"
            }
            850..860 => {
                self.request(
                    "workspace/executeCommand",
                    json!({"command": "linelens.nextMethod", "arguments": []}),
                );
                "method"
            }
            860..868 => {
                let place = self.place(which);
                let id = self.command("linelens.compareMethods", place);
                if self.random.below(2) == 0 {
                    self.listen(Duration::from_millis(100));
                    self.client.cancel(id);
                }
                "compare"
            }
            868..880 => {
                let id = self.command("linelens.analyzeFile", document);
                if self.random.below(2) == 0 {
                    self.listen(Duration::from_millis(100));
                    self.client.cancel(id);
                }
                "analyse"
            }
            880..900 => {
                let place = self.place(which);
                let name = *self.random.one(&["linelens.nextRelevantLine", "linelens.previousRelevantLine"]);
                self.command(name, place);
                "line"
            }
            900..930 => {
                let which = self.random.below(self.documents.len());
                let open = self.documents.iter().filter(|document| document.is_open).count();
                if !self.documents[which].is_open {
                    self.open(which);
                } else if open > 2 {
                    self.client.notify(
                        "textDocument/didClose",
                        json!({"textDocument": {"uri": self.documents[which].uri}}),
                    );
                    let document = &mut self.documents[which];
                    document.is_open = false;
                    // As the editor does when what was changed is not saved.
                    document.text.clone_from(&document.original);
                }
                "open"
            }
            930..955 => {
                self.watched();
                "watched"
            }
            955..970 => {
                self.client.notify("textDocument/didSave", document);
                "save"
            }
            970..980 => {
                let place = self.place(which);
                match self.random.below(2) {
                    0 => self.command("linelens.toggleGroundTruthLine", place),
                    _ => {
                        let mut place = place;
                        place["label"] = json!(self.random.one(&["vulnerable", "benign", "unsure"]));
                        self.command("linelens.setLabel", place)
                    }
                };
                "label"
            }
            980..990 => {
                for token in self.client.under_way() {
                    self.client.notify("window/workDoneProgress/cancel", json!({"token": token}));
                }
                "stop"
            }
            990..996 => {
                let granularity = self.random.one(&["line", "statement"]);
                let settings =
                    json!({"linelens": {"granularity": granularity, "lineHints": self.random.below(2) == 0}});
                self.client.notify("workspace/didChangeConfiguration", json!({"settings": settings}));
                "settings"
            }
            996..999 => {
                self.command(
                    "linelens.exportReport",
                    json!({"format": "html", "textDocument": {"uri": uri}}),
                );
                "report"
            }
            _ => {
                self.request(
                    "workspace/executeCommand",
                    json!({"command": "linelens.reload", "arguments": []}),
                );
                "reload"
            }
        };
        *self.done.entry(name).or_default() += 1;
        let begun = Instant::now();
        while self.client.waiting() > 12 {
            self.listen(Duration::from_millis(50));
            if begun.elapsed() > Duration::from_secs(10) {
                let ids: Vec<i64> = self.asked.keys().copied().collect();
                ids.into_iter().for_each(|id| self.client.cancel(id));
            }
        }
    }

    /// Works for a while; the processor's time is held below `share` of one core.
    fn work(&mut self, seconds: f64, share: f64) {
        let first = self.now();
        while self.begun.elapsed().as_secs_f64() < first.seconds + seconds {
            self.step();
            let (least, more) = if self.is_long { (200, 300) } else { (10, 40) };
            let pause = Duration::from_millis((least + self.random.below(more)) as u64);
            self.listen(pause);
            loop {
                let now = self.now();
                if now.processor - first.processor <= share * (now.seconds - first.seconds) + 1.0 {
                    break;
                }
                self.listen(Duration::from_millis(200));
            }
        }
    }

    /// Gives an open document a text that holds `unseen`, and says where.
    fn change_to(&mut self, which: usize, unseen: &str) -> Value {
        let document = &mut self.documents[which];
        document.version += 1;
        document.text = document.original.replace("int sum = 1;", unseen);
        self.client.change(&document.uri, document.version, json!([{"text": document.text}]));
        position(&document.text, document.text.find(unseen).unwrap())
    }

    fn explain_at(&mut self, which: usize, at: &Value, method: &str) {
        let (uri, version) = (self.documents[which].uri.clone(), self.documents[which].version);
        let params = json!({"textDocument": {"uri": uri}, "position": at, "method": method});
        let id = self.request("linelens/explain", params);
        self.asked.insert(id, Some((which, version)));
    }

    /// Has as many texts explained as the server remembers, and more, so that what it remembers grows no more afterwards.
    fn fill(&mut self) {
        for number in 0..REMEMBERED {
            let which = number % self.documents.len();
            let at = self.change_to(which, &format!("int sum = {number}7;"));
            for method in ["attnlrp", "gradient-x-input"] {
                self.explain_at(which, &at, method);
            }
            while !self.asked.is_empty() {
                self.listen(Duration::from_millis(5));
            }
        }
    }

    /// Lets the server forget everything, and fills its caches again.
    fn reload(&mut self) {
        self.request("workspace/executeCommand", json!({"command": "linelens.reload", "arguments": []}));
        *self.done.entry("reload").or_default() += 1;
        let begun = Instant::now();
        self.fill();
        self.note(&format!("# reloaded and filled in {:.0} s", begun.elapsed().as_secs_f64()));
    }

    /// Uses every method once on a text that was not seen before, and waits until nothing is left to do: the state
    /// that a server can be compared with itself in. The sample, and the processor's seconds in the time after it.
    fn rest(&mut self, seconds: u64) -> (Sample, f64) {
        self.command("linelens.setMethod", json!("attention:last"));
        let unseen = format!("int sum = {};", self.begun.elapsed().as_nanos());
        let mut at = None;
        for which in 0..self.documents.len() {
            if !self.documents[which].is_open {
                self.open(which);
            }
            let there = self.change_to(which, &unseen);
            at.get_or_insert(there);
        }
        let at = at.unwrap();
        for method in METHODS {
            self.explain_at(0, &at, method);
        }
        let deadline = Instant::now() + self.client.patience;
        while !(self.asked.is_empty() && self.client.quiescent) {
            assert!(Instant::now() < deadline, "not at rest; waiting for {:?}", self.asked);
            self.listen(Duration::from_millis(200));
        }
        // Memory is given back after ten seconds, and threads for blocking calls end after ten.
        self.listen(Duration::from_secs(13));
        assert!(self.client.quiescent);
        let before = self.now();
        self.listen(Duration::from_secs(seconds));
        let after = self.now();
        self.note(&format!("# at rest: {after:?}"));
        (after, after.processor - before.processor)
    }
}

fn position(text: &str, offset: usize) -> Value {
    let position = LineIndex::new(text).position(text, offset, PositionEncoding::Utf16);
    json!({"line": position.line, "character": position.character})
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

#[test]
fn a_long_day() {
    let seconds: f64 = variable("LINELENS_SOAK_SECONDS", 10.0);
    let share: f64 = variable("LINELENS_SOAK_SHARE", 4.0);
    let seed: u64 = variable("LINELENS_SOAK_SEED", 1);
    let is_long = seconds >= 2.0 * WARM_UP;
    let mut soak = Soak::start(seed, is_long);
    soak.note(&format!("# seed {seed}, {seconds} seconds, at most {share} of a core"));
    soak.note("seconds,rss_mb,threads,files,processor_seconds,events,cancelled,compared");
    for which in 0..soak.documents.len() {
        soak.open(which);
    }
    let idle = if is_long { 60 } else { 3 };
    if is_long {
        soak.fill();
    }
    let (first, _) = soak.rest(idle);
    let from = soak.now();
    let mut rests = Vec::new();
    let end = soak.begun.elapsed().as_secs_f64() + seconds;
    let left = |soak: &Soak| end - soak.begun.elapsed().as_secs_f64();
    let mut pieces = 0;
    while left(&soak) > PIECE {
        if pieces > 0 && pieces % PIECES_A_LIFE == 0 {
            soak.reload();
        }
        soak.work(PIECE, share);
        rests.push(soak.rest(1).0);
        pieces += 1;
    }
    let remaining = left(&soak);
    soak.work(remaining, share);
    let worked = soak.now();
    let (last, processor) = soak.rest(idle);
    rests.push(last);
    let events =
        format!("# events {:?}, answers {:?}, texts compared {}", soak.done, soak.answers, soak.compared);
    soak.note(&events);
    let core = (worked.processor - from.processor) / (worked.seconds - from.seconds);
    soak.note(&format!("# {core:.3} of a core; at rest {processor:.2} s in {idle} s"));
    rests.retain(|rest| rest.seconds >= from.seconds + WARM_UP);
    let mut held: Vec<f64> = Vec::new();
    if is_long {
        let middle = median(rests.iter().map(|rest| rest.rss_mb).collect());
        held.extend(rests.iter().map(|rest| rest.rss_mb / middle));
        let at_work: Vec<f64> = soak
            .samples
            .iter()
            .filter(|s| s.seconds >= from.seconds + WARM_UP && s.seconds <= worked.seconds)
            .map(|s| s.rss_mb)
            .collect();
        let (least, most) = at_work.iter().fold((f64::MAX, 0.0_f64), |(a, b), mb| (a.min(*mb), b.max(*mb)));
        soak.note(&format!(
            "# memory after the warm-up: {middle:.1} MB at rest, the rests {held:.3?} of it; at work {:.1} MB in the median, {least:.1} to {most:.1}",
            median(at_work)
        ));
    }
    // What the server does after this it does for the last time.
    let Soak { client, compared, answers, .. } = soak;
    client.finish();
    assert!(compared > 0 && answers.contains_key("-32800"), "{compared}, {answers:?}");
    assert!(last.threads <= first.threads, "{first:?} {last:?}");
    assert!(last.files <= first.files, "{first:?} {last:?}");
    assert!(processor <= 0.001 * idle as f64 + 0.01, "{processor} s of the processor while idle");
    assert!(held.iter().all(|share| (share - 1.0).abs() <= 0.1), "{held:?}");
    // With less time than the caches take to fill, only a leak of something big shows.
    assert!(last.rss_mb <= first.rss_mb * 1.5, "{first:?} {last:?}");
}
