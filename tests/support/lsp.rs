//! A strict language client and a model of its own for the server's tests: every message of the server must be
//! claimed, every request is answered exactly once, every progress ends.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used)]

#[path = "engine.rs"]
mod engine;
pub use engine::*;

use linelens::config::Config;
use linelens::lsp::StartEngine;
use serde_json::{Value, json};
use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{BufRead, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

pub const PATIENCE: Duration = Duration::from_secs(30);

// --------------------------------------------------------------------------------------------------------- client

/// Ways to reach a server.
enum Connection {
    Memory { runtime: tokio::runtime::Runtime, clean: mpsc::Receiver<bool> },
    Process(std::process::Child),
}

pub struct Client {
    connection: Connection,
    to_server: Option<Box<dyn Write + Send>>,
    from_server: mpsc::Receiver<Value>,
    next_id: i64,
    open_requests: HashSet<i64>,
    answers: HashMap<i64, Value>,
    /// Notifications not claimed yet.
    inbox: VecDeque<Value>,
    /// Messages that need no claim.
    ignored: HashSet<&'static str>,
    /// Requests of the server, by method.
    pub requests: Vec<Value>,
    pub configuration: Value,
    /// What is chosen where the server asks.
    pub choice: Option<Value>,
    /// Declared capabilities.
    capabilities: Value,
    progress: HashMap<String, Vec<Value>>,
    pub quiescent: bool,
    pub statuses: Vec<Value>,
    /// How many statuses had come when the server last settled.
    settled: usize,
    /// How long the server may take for anything.
    pub patience: Duration,
    /// Whether requests of the server stay without an answer.
    pub is_mute: bool,
    /// Whether nothing is read of what the server sends; for servers in their own process.
    pub is_deaf: Arc<AtomicBool>,
    finished: bool,
}

/// A test's set-up.
pub struct Setup {
    pub capabilities: Value,
    pub options: Value,
    pub folders: Vec<String>,
    pub configuration: Value,
    pub process_id: Option<u32>,
    pub config: Config,
    pub problems: Vec<linelens::config::Problem>,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            capabilities: plugin(),
            options: json!({"debounceMs": 20, "analyze": "file", "method": "attention:last"}),
            folders: Vec::new(),
            configuration: Value::Null,
            process_id: None,
            config: Config::default(),
            problems: Vec::new(),
        }
    }
}

/// The capabilities of an editor with our plugin, diagnostics pushed.
pub fn plugin() -> Value {
    json!({
        "textDocument": {
            "publishDiagnostics": {"relatedInformation": true, "codeDescriptionSupport": true},
            "hover": {"contentFormat": ["markdown", "plaintext"]},
        },
        "workspace": {},
        "experimental": {"linelens": {"relevance": true}},
    })
}

pub fn with(mut capabilities: Value, pointer: &str, value: Value) -> Value {
    let mut at = &mut capabilities;
    for key in pointer.split('.') {
        at = &mut at[key];
    }
    *at = value;
    capabilities
}

struct Pipe(tokio::sync::mpsc::UnboundedSender<Vec<u8>>);

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.send(bytes.to_vec()).map_err(|_| std::io::ErrorKind::BrokenPipe)?;
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Client {
    /// A server in this process, before the handshake.
    pub fn connect(setup: &Setup, start: StartEngine) -> Client {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (input, output) = tokio::io::split(theirs);
        let (mut from_server, mut to_server) = tokio::io::split(ours);
        let (done, clean) = mpsc::channel();
        let config = setup.config.clone();
        let problems = setup.problems.clone();
        runtime.spawn(async move {
            let _ = done.send(linelens::lsp::serve(input, output, config, problems, start).await);
        });
        let (bytes, mut outgoing) = tokio::sync::mpsc::unbounded_channel::<Vec<u8>>();
        runtime.spawn(async move {
            while let Some(bytes) = outgoing.recv().await {
                if to_server.write_all(&bytes).await.is_err() {
                    break;
                }
            }
            let _ = to_server.shutdown().await;
        });
        let (messages, incoming) = mpsc::channel();
        runtime.spawn(async move {
            let mut buffer = Vec::new();
            let mut chunk = [0; 4096];
            while let Ok(count @ 1..) = from_server.read(&mut chunk).await {
                buffer.extend_from_slice(&chunk[..count]);
                while let Some(message) = take_frame(&mut buffer) {
                    let _ = messages.send(message);
                }
            }
        });
        Client::new(Connection::Memory { runtime, clean }, Box::new(Pipe(bytes)), incoming)
    }

    /// A server in its own process.
    pub fn spawn(mut command: std::process::Command) -> Client {
        let mut child =
            command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.take().unwrap();
        let stdout = child.stdout.take().unwrap();
        let (messages, incoming) = mpsc::channel();
        let is_deaf = Arc::new(AtomicBool::new(false));
        let stops = Arc::clone(&is_deaf);
        std::thread::spawn(move || {
            let mut stdout = std::io::BufReader::new(stdout);
            while let Some(message) = read_frame(&mut stdout) {
                let _ = messages.send(message);
                while stops.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
        });
        let mut client = Client::new(Connection::Process(child), Box::new(stdin), incoming);
        client.is_deaf = is_deaf;
        client
    }

    fn new(
        connection: Connection,
        to_server: Box<dyn Write + Send>,
        from_server: mpsc::Receiver<Value>,
    ) -> Client {
        Client {
            connection,
            to_server: Some(to_server),
            from_server,
            next_id: 1,
            open_requests: HashSet::new(),
            answers: HashMap::new(),
            inbox: VecDeque::new(),
            ignored: HashSet::new(),
            requests: Vec::new(),
            configuration: Value::Null,
            choice: None,
            capabilities: Value::Null,
            progress: HashMap::new(),
            quiescent: false,
            statuses: Vec::new(),
            settled: 0,
            patience: PATIENCE,
            is_mute: false,
            is_deaf: Arc::default(),
            finished: false,
        }
    }

    /// A server in this process after the handshake, its model loaded.
    pub fn start(setup: Setup, knobs: &Knobs) -> Client {
        let mut client = Client::connect(&setup, knobs.start());
        client.handshake(&setup);
        if client.has("experimental.linelens.relevance") && knobs.failures.load(Ordering::SeqCst) == 0 {
            client.settle();
        }
        client
    }

    pub fn handshake(&mut self, setup: &Setup) -> Value {
        self.capabilities = setup.capabilities.clone();
        self.configuration = setup.configuration.clone();
        let folders: Vec<Value> =
            setup.folders.iter().map(|folder| json!({"uri": folder, "name": folder})).collect();
        let result = self
            .call(
                "initialize",
                json!({
                    "processId": setup.process_id,
                    "rootUri": null,
                    "capabilities": setup.capabilities,
                    "initializationOptions": setup.options,
                    "workspaceFolders": folders,
                }),
            )
            .unwrap();
        self.notify("initialized", json!({}));
        result
    }

    fn has(&self, pointer: &str) -> bool {
        self.capabilities.pointer(&format!("/{}", pointer.replace('.', "/"))) == Some(&json!(true))
    }

    pub fn ignore(&mut self, method: &'static str) {
        self.ignored.insert(method);
    }

    pub fn send_raw(&mut self, bytes: &[u8]) {
        let to_server = self.to_server.as_mut().expect("the connection is open");
        to_server.write_all(bytes).and_then(|()| to_server.flush()).unwrap();
    }

    pub fn send(&mut self, message: &Value) {
        let body = message.to_string();
        self.send_raw(format!("Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes());
    }

    pub fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    pub fn request(&mut self, method: &str, params: Value) -> i64 {
        let id = self.next_id;
        self.next_id += 1;
        self.open_requests.insert(id);
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// The answer to a request: its result or its error.
    pub fn answer(&mut self, id: i64) -> Result<Value, Value> {
        self.wait(|client| client.answers.remove(&id), &format!("an answer to request {id}"))
            .map(|answer| match answer.get("error") {
                Some(error) => Err(error.clone()),
                None => Ok(answer["result"].clone()),
            })
            .unwrap()
    }

    pub fn call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let id = self.request(method, params);
        self.answer(id)
    }

    pub fn command(&mut self, command: &str, arguments: Value) -> Result<Value, Value> {
        self.call("workspace/executeCommand", json!({"command": command, "arguments": arguments}))
    }

    pub fn cancel(&mut self, id: i64) {
        self.notify("$/cancelRequest", json!({"id": id}));
    }

    /// The next notification of this method.
    pub fn expect(&mut self, method: &str) -> Value {
        let take = |client: &mut Client| {
            let position = client.inbox.iter().position(|message| message["method"] == method)?;
            client.inbox.remove(position).map(|message| message["params"].clone())
        };
        self.wait(take, method).unwrap()
    }

    /// Reads what the server sends for a while.
    pub fn listen(&mut self, duration: Duration) {
        let deadline = Instant::now() + duration;
        while self.receive(deadline) {}
    }

    /// The notifications of this method that have come in.
    pub fn take(&mut self, method: &str) -> Vec<Value> {
        let (taken, rest) = self.inbox.drain(..).partition(|message| message["method"] == method);
        self.inbox = rest;
        let taken: VecDeque<Value> = taken;
        taken.into_iter().map(|message| message["params"].clone()).collect()
    }

    /// Waits until the server says that it has nothing left to do, and that it had something to do since the last
    /// time. For clients with status.
    pub fn settle(&mut self) {
        // Handlers run in order, so that what was sent before this is known to the server when it answers.
        self.command("linelens.barrier", json!([])).unwrap_err();
        let settled = self.settled;
        loop {
            self.wait(
                |client| {
                    let new = client.statuses.get(settled..).unwrap_or_default();
                    (new.iter().any(|status| status["quiescent"] == json!(false)) && client.quiescent)
                        .then_some(())
                },
                "quiescence",
            )
            .unwrap();
            let seen = self.statuses.len();
            self.listen(Duration::from_millis(60));
            if self.statuses.len() == seen {
                break;
            }
        }
        self.settled = self.statuses.len();
    }

    /// Waits until nothing is left to do, also where there was nothing.
    pub fn settle_or_quiet(&mut self) {
        self.listen(Duration::from_millis(150));
        self.wait(|client| client.quiescent.then_some(()), "quiescence").unwrap();
    }

    pub fn wait<T>(&mut self, mut ready: impl FnMut(&mut Client) -> Option<T>, what: &str) -> Result<T, ()> {
        let deadline = Instant::now() + self.patience;
        loop {
            if let Some(value) = ready(self) {
                return Ok(value);
            }
            if !self.receive(deadline) {
                panic!("the server did not send {what}; unclaimed: {:#?}", self.inbox);
            }
        }
    }

    /// Handles one message; `false` when the time is over or the server has gone.
    pub fn receive(&mut self, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        let Ok(message) = self.from_server.recv_timeout(left) else { return false };
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
        match (message.get("id"), message.get("method").and_then(Value::as_str)) {
            (Some(id), None) => match id.as_i64() {
                Some(number) => {
                    assert!(self.open_requests.remove(&number), "answered twice or unasked: {message}");
                    self.answers.insert(number, message);
                }
                // The answer to something unreadable.
                None => self.inbox.push_back(json!({"method": "error", "params": message["error"]})),
            },
            (Some(_), Some(_)) => self.serve(message),
            (None, Some("$/progress")) => self.note_progress(&message["params"]),
            (None, Some("linelens/status")) => {
                assert!(self.has("experimental.linelens.relevance"), "status nobody asked for");
                self.quiescent = message["params"]["quiescent"] == json!(true);
                self.statuses.push(message["params"].clone());
            }
            (None, Some(method)) if self.ignored.contains(method) => {}
            (None, Some(_)) => self.inbox.push_back(message),
            (None, None) => panic!("neither request nor answer: {message}"),
        }
        true
    }

    /// Answers a request of the server, which may only ask for what the client declared.
    fn serve(&mut self, message: Value) {
        let method = message["method"].as_str().unwrap();
        let result = match method {
            "workspace/configuration" => {
                assert!(self.has("workspace.configuration"));
                let items = message["params"]["items"].as_array().unwrap();
                Value::Array(items.iter().map(|_| self.configuration.clone()).collect())
            }
            "window/workDoneProgress/create" => {
                assert!(self.has("window.workDoneProgress"));
                self.progress.insert(message["params"]["token"].to_string(), Vec::new());
                Value::Null
            }
            "client/registerCapability" | "client/unregisterCapability" => Value::Null,
            "workspace/codeLens/refresh" => {
                assert!(self.has("workspace.codeLens.refreshSupport"));
                Value::Null
            }
            "window/showMessageRequest" => {
                let actions = message["params"]["actions"].as_array().unwrap();
                let is_chosen = |action: &&Value| Some(&action["title"]) == self.choice.as_ref();
                actions.iter().find(is_chosen).cloned().unwrap_or(Value::Null)
            }
            "workspace/inlayHint/refresh" => {
                assert!(self.has("workspace.inlayHint.refreshSupport"));
                Value::Null
            }
            "window/showDocument" => {
                assert!(self.has("window.showDocument.support"));
                json!({"success": true})
            }
            "workspace/diagnostic/refresh" => {
                assert!(self.has("workspace.diagnostics.refreshSupport"));
                Value::Null
            }
            other => panic!("an unexpected request: {other}"),
        };
        let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
        self.requests.push(message);
        if !self.is_mute {
            self.send(&answer);
        }
    }

    /// Declares a token of the client's own.
    pub fn own_token(&mut self, token: &str) {
        self.progress.insert(json!(token).to_string(), Vec::new());
    }

    fn note_progress(&mut self, params: &Value) {
        let token = params["token"].to_string();
        let seen = self.progress.get_mut(&token).expect("progress without a token");
        let kind = params["value"]["kind"].as_str().unwrap();
        let last = seen.last().map(|value| value["kind"].as_str().unwrap().to_string());
        match (last.as_deref(), kind) {
            (None, "begin") | (Some("begin" | "report"), "report" | "end") => {}
            order => panic!("progress out of order: {order:?}"),
        }
        seen.push(params["value"].clone());
    }

    pub fn progress(&self) -> Vec<(String, Vec<Value>)> {
        self.progress.iter().map(|(token, values)| (token.clone(), values.clone())).collect()
    }

    /// The tokens of what has begun and not ended. Those that ended are forgotten, so that another message under one
    /// of them is an error.
    pub fn under_way(&mut self) -> Vec<Value> {
        self.progress.retain(|_, values| values.last().is_none_or(|last| last["kind"] != "end"));
        let begun = self.progress.iter().filter(|(_, values)| !values.is_empty());
        begun.map(|(token, _)| serde_json::from_str(token).unwrap()).collect()
    }

    /// The server's process.
    pub fn pid(&self) -> u32 {
        match &self.connection {
            Connection::Process(child) => child.id(),
            Connection::Memory { .. } => panic!("the server is no process"),
        }
    }

    /// How many requests wait for their answers.
    pub fn waiting(&self) -> usize {
        self.open_requests.len()
    }

    /// The answers that have come in and that nobody took.
    pub fn take_answers(&mut self) -> Vec<(i64, Value)> {
        self.answers.drain().collect()
    }

    /// Waits until the functions of a document are analysed; for clients without status.
    pub fn expect_ready(&mut self, uri: &str) {
        let deadline = Instant::now() + PATIENCE;
        let lenses = json!({"textDocument": {"uri": uri}});
        while self.call("textDocument/codeLens", lenses.clone()).unwrap() == json!([]) {
            assert!(Instant::now() < deadline, "nothing was analysed");
            self.listen(Duration::from_millis(10));
        }
    }

    // Documents

    pub fn open(&mut self, uri: &str, text: &str) {
        self.notify(
            "textDocument/didOpen",
            json!({"textDocument": {"uri": uri, "languageId": "c", "version": 1, "text": text}}),
        );
    }

    pub fn change(&mut self, uri: &str, version: i32, changes: Value) {
        self.notify(
            "textDocument/didChange",
            json!({"textDocument": {"uri": uri, "version": version}, "contentChanges": changes}),
        );
    }

    pub fn hover(&mut self, uri: &str, line: u32, character: u32) -> Value {
        self.call("textDocument/hover", at(uri, line, character)).unwrap()
    }

    // The end

    /// Shuts down in order and checks that nothing is left over.
    pub fn finish(mut self) {
        assert_eq!(self.call("shutdown", Value::Null).unwrap(), Value::Null);
        self.notify("exit", Value::Null);
        assert_eq!(self.wait_for_end(), 0);
        self.check_leftovers();
    }

    fn check_leftovers(&mut self) {
        while self.receive(Instant::now()) {}
        assert!(self.inbox.is_empty(), "unclaimed: {:#?}", self.inbox);
        assert!(self.answers.is_empty(), "unclaimed answers: {:#?}", self.answers);
        assert!(self.open_requests.is_empty(), "never answered: {:?}", self.open_requests);
        for (token, values) in &self.progress {
            if let Some(last) = values.last() {
                assert_eq!(last["kind"], "end", "progress {token} did not end");
            }
        }
        self.finished = true;
    }

    pub fn close_input(&mut self) {
        self.to_server = None;
    }

    /// The exit code.
    pub fn wait_for_end(&mut self) -> i32 {
        let deadline = Instant::now() + PATIENCE;
        match &mut self.connection {
            Connection::Memory { clean, .. } => i32::from(!clean.recv_timeout(PATIENCE).expect("an end")),
            Connection::Process(child) => loop {
                if let Some(status) = child.try_wait().unwrap() {
                    return status.code().unwrap_or(-1);
                }
                assert!(Instant::now() < deadline, "the server did not end");
                std::thread::sleep(Duration::from_millis(5));
            },
        }
    }

    /// Ends without checks.
    pub fn abandon(mut self) {
        self.finished = true;
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        if let Connection::Process(child) = &mut self.connection {
            let _ = child.kill();
            let _ = child.wait();
        }
        if !std::thread::panicking() {
            assert!(self.finished, "a test must finish or abandon its client");
        }
    }
}

pub const URI: &str = "file:///project/unit.c";
pub const UNIT: &str = "\
#include <string.h>

int copy(char *to, const char *from) {
    strcpy(to, from);
    return 0;
}

int add(int a, int b) {
    return a + b;
}
";

pub fn start() -> (Client, Knobs) {
    let knobs = Knobs::default();
    (Client::start(Setup::default(), &knobs), knobs)
}

/// Without our plugin.
pub fn plain() -> Value {
    with(plugin(), "experimental", Value::Null)
}

pub fn pulling() -> Value {
    let capabilities = with(plugin(), "textDocument.diagnostic", json!({"relatedInformation": true}));
    with(capabilities, "workspace.diagnostics", json!({"refreshSupport": true}))
}

pub fn opened(setup: Setup) -> (Client, Knobs) {
    let knobs = Knobs::default();
    let mut client = Client::start(setup, &knobs);
    client.open(URI, UNIT);
    client.settle();
    (client, knobs)
}

pub fn insert(line: u32, character: u32, text: &str) -> Value {
    let position = json!({"line": line, "character": character});
    json!([{"range": {"start": position, "end": position}, "text": text}])
}

pub fn text_of(hover: &Value) -> &str {
    hover["contents"]["value"].as_str().unwrap_or_else(|| panic!("no text: {hover}"))
}

pub fn at(uri: &str, line: u32, character: u32) -> Value {
    json!({"textDocument": {"uri": uri}, "position": {"line": line, "character": character}})
}

fn take_frame(buffer: &mut Vec<u8>) -> Option<Value> {
    let header_end = buffer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let header = std::str::from_utf8(&buffer[..header_end]).unwrap();
    let length: usize = header.strip_prefix("Content-Length: ").unwrap().parse().unwrap();
    let end = header_end + 4 + length;
    (buffer.len() >= end).then(|| {
        let message = serde_json::from_slice(&buffer[header_end + 4..end]).unwrap();
        buffer.drain(..end);
        message
    })
}

fn read_frame(input: &mut impl BufRead) -> Option<Value> {
    let mut header = String::new();
    input.read_line(&mut header).ok().filter(|count| *count > 0)?;
    let length: usize = header.trim().strip_prefix("Content-Length: ").expect(&header).parse().unwrap();
    let mut empty = String::new();
    input.read_line(&mut empty).unwrap();
    let mut body = vec![0; length];
    input.read_exact(&mut body).ok()?;
    Some(serde_json::from_slice(&body).unwrap())
}
