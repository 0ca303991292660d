//! What a client waits for, over standard input and output with the built-in detector: `cargo bench --bench stdio`.
//!
//! Wall time from the moment a message is written, or the process is started, until the answer is read. LINELENS names
//! another program to measure.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use linelens::detector::session::{ProviderChoice, Runtime, SessionOptions};
use linelens::detector::{Detector, locate};
use linelens::text::ByteSpan;
use linelens::tokens::{LongPolicy, Normalize};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const STARTS: usize = 21;
const FUNCTIONS: usize = 60;
const URI: &str = "file:///bench/unit.c";

fn main() {
    if let Err(error) = locate::library(None, &[]) {
        println!("skipped: {error}");
        return;
    }
    let (statements, tokens) = fullest();
    let text: String = (0..FUNCTIONS).map(|name| function(100 + name, statements)).collect();
    let mut replies = Vec::new();
    let mut firsts = Vec::new();
    let mut ends = Vec::new();
    for _ in 0..STARTS {
        let started = Instant::now();
        let mut server = Server::start();
        server.initialize();
        replies.push(started.elapsed());
        server.open(&text);
        server.explain(0, statements, "attention:first");
        firsts.push(started.elapsed());
        ends.push(server.end());
    }
    report("start to the reply to initialize", &mut replies);
    report("start to the first relevance", &mut firsts);
    report("exit to the end of the process", &mut ends);
    for method in ["attention:first", "attnlrp"] {
        let mut server = Server::start();
        server.initialize();
        server.open(&text);
        // The first use of a method derives its graph.
        server.explain(0, statements, method);
        let mut waits: Vec<Duration> =
            (1..FUNCTIONS).map(|number| server.explain(number, statements, method)).collect();
        report(&format!("cursor to relevance, {tokens} tokens, {method}"), &mut waits);
        server.end();
    }
}

/// How many statements fill one window of the model, and how many tokens that is.
fn fullest() -> (usize, usize) {
    let runtime = Runtime::load(&locate::library(None, &[]).unwrap()).unwrap();
    let options =
        SessionOptions { provider: ProviderChoice::Cpu, threads: Some(1), ..SessionOptions::default() };
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/default");
    let detector = Detector::open(&model, &runtime, &options).unwrap();
    let tokens = |statements: usize| {
        let text = function(100, statements);
        let span = ByteSpan::new(0, text.trim_end().len());
        let policy = LongPolicy::Window;
        let encoding =
            detector.tokenizer().encode(&text, span, Normalize::StripComments, 512, policy).unwrap();
        (encoding.windows.len() == 1).then(|| encoding.windows[0].ids.len())
    };
    let statements = (1..200).take_while(|statements| tokens(*statements).is_some()).last().unwrap();
    (statements, tokens(statements).unwrap())
}

/// A function of three lines more than statements.
fn function(name: usize, statements: usize) -> String {
    let mut text = format!("static int handle_{name}(char *to, const char *from, int limit) {{\n");
    for i in 0..statements {
        let _ = writeln!(text, "    if (o{} > limit) {{ to[o{}] = from[{}]; }}", i % 10, i % 10, i % 10);
    }
    text + "    return 0;\n}\n"
}

struct Server {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    id: i64,
    _settings: tempfile::TempDir,
}

impl Server {
    fn start() -> Server {
        let settings = tempfile::tempdir().unwrap();
        let program = std::env::var_os("LINELENS").unwrap_or_else(|| env!("CARGO_BIN_EXE_linelens").into());
        let mut process = Command::new(program)
            .arg("lsp")
            .env("XDG_CONFIG_HOME", settings.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        Server { process, input, output, id: 0, _settings: settings }
    }

    fn send(&mut self, message: &Value) {
        let body = message.to_string();
        write!(self.input, "Content-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        self.input.flush().unwrap();
    }

    fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// The answer; what else the server says is passed over.
    fn call(&mut self, method: &str, params: Value) -> Value {
        self.id += 1;
        self.send(&json!({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params}));
        loop {
            let message = self.read();
            if message["id"] == self.id && message.get("method").is_none() {
                assert!(message.get("error").is_none(), "{message}");
                return message["result"].clone();
            }
        }
    }

    fn read(&mut self) -> Value {
        let mut length = 0;
        loop {
            let mut line = String::new();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "the server has ended");
            match line.trim().split_once(": ") {
                Some((_, value)) => length = value.parse().unwrap(),
                None => break,
            }
        }
        let mut body = vec![0; length];
        self.output.read_exact(&mut body).unwrap();
        serde_json::from_slice(&body).unwrap()
    }

    fn initialize(&mut self) {
        let capabilities = json!({"experimental": {"linelens": {"relevance": true}}});
        let options = json!({"analyze": "cursor"});
        self.call("initialize", json!({"capabilities": capabilities, "initializationOptions": options}));
    }

    fn open(&mut self, text: &str) {
        self.notify("initialized", json!({}));
        let document = json!({"uri": URI, "languageId": "c", "version": 1, "text": text});
        self.notify("textDocument/didOpen", json!({"textDocument": document}));
    }

    fn explain(&mut self, number: usize, statements: usize, method: &str) -> Duration {
        let position = json!({"line": number * (statements + 3) + 1, "character": 4});
        let asked = Instant::now();
        let document = json!({"uri": URI});
        let finding = self.call(
            "linelens/explain",
            json!({"textDocument": document, "position": position, "method": method}),
        );
        let took = asked.elapsed();
        assert_eq!(finding["function"]["name"], format!("handle_{}", 100 + number));
        assert_eq!(finding["windows"], 1);
        took
    }

    fn end(mut self) -> Duration {
        self.call("shutdown", Value::Null);
        let said = Instant::now();
        self.notify("exit", Value::Null);
        assert!(self.process.wait().unwrap().success());
        said.elapsed()
    }
}

fn report(what: &str, times: &mut [Duration]) {
    times.sort();
    let milliseconds = |part: usize| times[(times.len() * part).div_ceil(100) - 1].as_secs_f64() * 1e3;
    let (median, most, count) = (milliseconds(50), milliseconds(95), times.len());
    println!("{what}: median {median:.1} ms, p95 {most:.1} ms ({count} times)");
}
