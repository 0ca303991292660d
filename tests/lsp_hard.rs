//! What breaks language servers: huge documents and lines, odd bytes, files that vanish while they are open, clients
//! that answer nothing or read nothing, and being killed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)] // Helpers of tests are tests.

mod support {
    pub mod folder;
    pub mod lsp;
}

use serde_json::{Value, json};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use support::folder::Workspace;
use support::lsp::{Client, Knobs, Setup, UNIT, URI, at, insert, plugin, pulling, text_of, with};

const NOISE: [&str; 4] =
    ["textDocument/publishDiagnostics", "linelens/relevance", "window/logMessage", "window/showMessage"];

fn started(setup: Setup) -> (Client, Knobs) {
    let knobs = Knobs::default();
    let mut client = Client::start(setup, &knobs);
    for method in NOISE {
        client.ignore(method);
    }
    (client, knobs)
}

/// Analysis only where it is asked for.
fn lazy() -> Setup {
    let options = json!({"debounceMs": 20, "analyze": "cursor", "method": "attention:last"});
    Setup { options, ..Setup::default() }
}

/// Toggles a line as soon as the annotation file has been read; before that the server refuses, as the user does not see yet
/// what the file says.
fn toggled(client: &mut Client, uri: &str, line: u32) -> String {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match client.command("linelens.toggleGroundTruthLine", json!([at(uri, line, 4)])) {
            Ok(written) => return written["message"].as_str().unwrap().to_string(),
            Err(error) => assert!(Instant::now() < deadline, "{error}"),
        }
        client.listen(Duration::from_millis(20));
    }
}

fn explained(client: &mut Client, uri: &str, line: u32) -> Value {
    client.call("linelens/explain", at(uri, line, 4)).unwrap()
}

// --------------------------------------------------------------------------------------------------------- big texts

#[test]
fn a_document_of_fifty_megabytes_with_ten_thousand_functions() {
    const FUNCTIONS: usize = 10_000;
    const LINES: usize = 100;
    let filler = "    /* größer – forty-eight bytes of a comment */\n".repeat(LINES - 3);
    let text: String = (0..FUNCTIONS)
        .map(|number| format!("void f{number}(char *a, char *b) {{\n    strcpy(a, b);\n{filler}}}\n"))
        .collect();
    assert!(text.len() > 48_000_000, "{}", text.len());
    let (mut client, _) = started(lazy());
    client.patience = Duration::from_secs(120);
    let begun = Instant::now();
    client.open(URI, &text);
    let line = |number: usize| (number * LINES) as u32;
    // Said at once, or found already: never nothing.
    let hover = client.hover(URI, line(3), 6);
    let said = hover["contents"]["value"].as_str().unwrap();
    assert!(said.contains("still being read") || said.contains("f3"), "{said}");
    assert_eq!(explained(&mut client, URI, line(7000) + 1)["function"]["name"], "f7000");
    println!("opened and explained in {:.1?}", begun.elapsed());
    // Typing in the middle, with somebody looking on.
    let mut slowest = Duration::ZERO;
    for version in 2..12 {
        let begun = Instant::now();
        client.change(URI, version, insert(line(5000) + 1, 4, "é"));
        client.hover(URI, line(5000) + 1, 6);
        slowest = slowest.max(begun.elapsed());
    }
    println!("an edit and a hover take at most {slowest:.1?}");
    assert!(slowest < Duration::from_secs(10), "{slowest:?}");
    let found = explained(&mut client, URI, line(5000) + 1);
    assert_eq!(found["function"]["name"], "f5000");
    let text_of_line = found["lines"][1]["text"].as_str().unwrap();
    assert_eq!(text_of_line, format!("    {}strcpy(a, b);", "é".repeat(10)));
    assert_eq!(explained(&mut client, URI, line(9999) + 1)["function"]["name"], "f9999");
    client.notify("textDocument/didClose", json!({"textDocument": {"uri": URI}}));
    client.finish();
}

#[test]
fn ten_thousand_functions_are_analysed_and_an_edit_runs_one_of_them() {
    const FUNCTIONS: usize = 10_000;
    let text: String =
        (0..FUNCTIONS).map(|number| format!("int f{number}(int a) {{ return a + {number}; }}\n")).collect();
    let (mut client, knobs) = started(Setup::default());
    client.patience = Duration::from_secs(120);
    client.open(URI, &text);
    client.settle();
    assert_eq!(knobs.runs().len(), FUNCTIONS);
    client.change(URI, 2, insert(5000, 0, "/* moved */\n"));
    client.change(URI, 3, insert(9001, 26, "1 + "));
    client.settle();
    assert_eq!(knobs.runs()[FUNCTIONS..], ["f9000"]);
    let lenses = client.call("textDocument/codeLens", json!({"textDocument": {"uri": URI}})).unwrap();
    assert!(lenses.as_array().unwrap().len() >= FUNCTIONS);
    client.finish();
}

#[test]
fn a_line_of_a_megabyte() {
    const TIMES: usize = 80_000;
    let wide = "größer 🦀 ".repeat(TIMES);
    assert!(wide.len() > 1 << 20 && wide.chars().map(char::len_utf16).sum::<usize>() == 10 * TIMES);
    let text =
        format!("void f(char *a) {{\n    strcpy(a, \"{wide}\"); a++;\n}}\nint g(void) {{ return 1; }}\n");
    let (mut client, _) = started(Setup::default());
    client.open(URI, &text);
    client.settle();
    // Behind the string, counted in UTF-16 units.
    let behind = (4 + 11 + 10 * TIMES + 4) as u32;
    let begun = Instant::now();
    for version in 2..22 {
        client.change(URI, version, insert(1, behind, "b"));
        client.hover(URI, 1, behind);
    }
    let took = begun.elapsed() / 20;
    println!("an edit and a hover on a line of {} bytes: {took:.1?}", wide.len());
    assert!(took < Duration::from_secs(2), "{took:?}");
    let found = explained(&mut client, URI, 1);
    let line = found["lines"][1]["text"].as_str().unwrap();
    assert!(line.ends_with(&format!("🦀 \"); {}a++;", "b".repeat(20))), "{}", &line[line.len() - 60..]);
    let range = json!({"start": {"line": 0, "character": 0}, "end": {"line": 9, "character": 0}});
    let hints =
        client.call("textDocument/inlayHint", json!({"textDocument": {"uri": URI}, "range": range})).unwrap();
    let end = behind + 20 + 4;
    let on_the_line =
        |hint: &&Value| hint["position"]["line"] == 1 && hint["position"]["character"] == json!(end);
    assert!(hints.as_array().unwrap().iter().any(|hint| on_the_line(&hint)), "{hints}");
    assert_eq!(explained(&mut client, URI, 3)["function"]["name"], "g");
    client.settle_or_quiet();
    client.finish();
}

#[test]
fn nul_bytes_are_text_like_any_other() {
    let (mut client, _) = started(Setup::default());
    let text = "int a\0b;\0\n\0int copy(char *to) {\n    strcpy(to, \"\0\");\0\n}\n\0\0\n";
    client.open(URI, text);
    client.settle();
    let found = explained(&mut client, URI, 2);
    assert_eq!((&found["function"]["name"], &found["probability"]), (&json!("copy"), &json!(0.9375)));
    assert_eq!(found["lines"][1]["text"], "    strcpy(to, \"\0\");\0");
    client.change(URI, 2, insert(2, 16, "\0\0"));
    let found = explained(&mut client, URI, 2);
    assert_eq!(found["lines"][1]["text"], "    strcpy(to, \"\0\0\0\");\0");
    let hover = client.hover(URI, 2, 6);
    assert!(text_of(&hover).contains("line 3 is number"), "{hover}");
    client.settle_or_quiet();
    client.finish();
}

// ------------------------------------------------------------------------------------------------------------- files

fn of_folder(workspace: &Workspace) -> Setup {
    Setup {
        folders: vec![workspace.uri("")],
        options: json!({"debounceMs": 20, "analyze": "file", "method": "attention:last", "annotator": "ann"}),
        ..Setup::default()
    }
}

/// The client's text counts, whatever becomes of the file.
#[test]
fn a_file_is_deleted_and_replaced_while_it_is_open() {
    let workspace = Workspace::new(&[("unit.c", UNIT), ("other.c", UNIT)]);
    let uri = workspace.uri("unit.c");
    let (mut client, _) = started(of_folder(&workspace));
    client.open(&uri, UNIT);
    client.settle();
    let path = workspace.path("unit.c");
    let document = json!({"textDocument": {"uri": uri}});
    let becomes: [(&str, &dyn Fn()); 6] = [
        ("nothing", &|| std::fs::remove_file(&path).unwrap()),
        ("a folder", &|| std::fs::create_dir(&path).unwrap()),
        ("bytes that are no text", &|| {
            std::fs::remove_dir(&path).unwrap();
            std::fs::write(&path, b"int \xff\xfe\x80(void) { strcpy(a, b); }\0").unwrap();
        }),
        ("UTF-16", &|| std::fs::write(&path, b"\xff\xfei\0n\0t\0").unwrap()),
        ("a link to nowhere", &|| {
            std::fs::remove_file(&path).unwrap();
            std::os::unix::fs::symlink("/nonexistent/file.c", &path).unwrap();
        }),
        ("a file again", &|| {
            std::fs::remove_file(&path).unwrap();
            std::fs::write(&path, UNIT).unwrap();
        }),
    ];
    for (round, (what, change)) in becomes.iter().enumerate() {
        change();
        let kind = if round == 0 { 3 } else { 2 };
        let changes = json!({"changes": [{"uri": uri, "type": kind}]});
        client.notify("workspace/didChangeWatchedFiles", changes);
        client.notify("textDocument/didSave", document.clone());
        client.change(&uri, round as i32 + 2, insert(3, 4, "to++; "));
        let found = explained(&mut client, &uri, 3);
        let expected = format!("    {}strcpy(to, from);", "to++; ".repeat(round + 1));
        assert_eq!(found["lines"][1]["text"], json!(expected), "{what}");
        let swept = client.command("linelens.analyzeFile", json!([document])).unwrap();
        assert_eq!((&swept["functions"], &swept["unreadable"]), (&json!(2), &json!([])), "{what}: {swept}");
        let swept = client.command("linelens.analyzeWorkspace", json!([])).unwrap();
        assert!(swept["files"].as_u64().unwrap() >= 1, "{what}: {swept}");
        let report = json!([{"format": "sarif", "textDocument": {"uri": uri}}]);
        let report = client.command("linelens.exportReport", report).unwrap();
        assert_eq!(report["flagged"], 1, "{what}");
        let titles = client.call("textDocument/codeLens", document.clone()).unwrap();
        assert!(!titles.as_array().unwrap().is_empty(), "{what}");
    }
    client.settle_or_quiet();
    client.finish();
}

#[test]
fn a_workspace_folder_vanishes_and_comes_back() {
    let workspace = Workspace::new(&[("w/unit.c", UNIT)]);
    let uri = workspace.uri("w/unit.c");
    let setup = Setup { folders: vec![workspace.uri("w")], ..of_folder(&workspace) };
    let (mut client, _) = started(setup);
    client.open(&uri, UNIT);
    client.settle();
    client.command("linelens.toggleGroundTruthLine", json!([at(&uri, 3, 4)])).unwrap();
    std::fs::rename(workspace.path("w"), workspace.path("gone")).unwrap();
    client.notify("textDocument/didSave", json!({"textDocument": {"uri": uri}}));
    assert_eq!(explained(&mut client, &uri, 3)["function"]["name"], "copy");
    for (command, argument) in [
        ("linelens.toggleGroundTruthLine", at(&uri, 3, 4)),
        ("linelens.exportReport", json!({"format": "html", "textDocument": {"uri": uri}})),
    ] {
        let error = client.command(command, json!([argument])).unwrap_err();
        assert_eq!(error["code"], -32803, "{command}: {error}");
        assert!(error["message"].as_str().unwrap().contains("cannot be reached"), "{command}: {error}");
    }
    assert!(!workspace.path("w").exists(), "the folder is not made anew");
    let swept = client.command("linelens.analyzeWorkspace", json!([])).unwrap();
    assert_eq!(swept["files"], 0, "{swept}");
    std::fs::rename(workspace.path("gone"), workspace.path("w")).unwrap();
    client.notify("textDocument/didSave", json!({"textDocument": {"uri": uri}}));
    let written = toggled(&mut client, &uri, 3);
    assert!(written.contains("no longer"), "what was marked is marked still: {written}");
    client.settle_or_quiet();
    client.finish();
}

#[test]
fn bytes_that_are_no_utf_8_are_analysed_with_their_lines() {
    let workspace = Workspace::new(&[]);
    let latin =
        b"// Gr\xf6\xdfe\n\xff\xfd;\nint copy(char *to) { /* \xe9 */\n    strcpy(to, \"\xfc\");\n}\n\0\x80";
    std::fs::write(workspace.path("latin.c"), latin).unwrap();
    let (mut client, _) = started(of_folder(&workspace));
    let swept = client.command("linelens.analyzeWorkspace", json!([])).unwrap();
    assert_eq!((&swept["files"], &swept["functions"]), (&json!(1), &json!(1)), "{swept}");
    let function = &swept["flagged"][0]["function"];
    assert_eq!((&function["startLine"], &function["endLine"]), (&json!(2), &json!(4)), "{swept}");
    client.finish();
}

// ----------------------------------------------------------------------------------------------------------- clients

#[test]
fn a_client_that_never_answers_is_served() {
    let mut capabilities = with(pulling(), "workspace.configuration", json!(true));
    for (pointer, value) in [
        ("window.workDoneProgress", json!(true)),
        ("workspace.codeLens", json!({"refreshSupport": true})),
        ("workspace.inlayHint", json!({"refreshSupport": true})),
        (
            "workspace.didChangeWatchedFiles",
            json!({"dynamicRegistration": true, "relativePatternSupport": true}),
        ),
    ] {
        capabilities = with(capabilities, pointer, value);
    }
    let knobs = Knobs::default();
    let mut client =
        Client::connect(&Setup { capabilities: capabilities.clone(), ..Setup::default() }, knobs.start());
    client.is_mute = true;
    for method in NOISE {
        client.ignore(method);
    }
    client.handshake(&Setup { capabilities, ..Setup::default() });
    client.open(URI, UNIT);
    client.settle();
    knobs.delay(5);
    let begun = Instant::now();
    for round in 0..40 {
        // Another verdict each time, so that everything has to be renewed.
        let text = if round % 2 == 0 { "strcpy" } else { "memcpy" };
        client.change(URI, round + 2, json!([{"text": UNIT.replace("strcpy", text)}]));
        let found = explained(&mut client, URI, 3);
        assert_eq!(found["lines"][1]["text"], json!(format!("    {text}(to, from);")));
        client.call("textDocument/diagnostic", json!({"textDocument": {"uri": URI}})).unwrap();
        client.listen(Duration::from_millis(60));
    }
    client.command("linelens.setMethod", json!(["attention:first"])).unwrap();
    assert_eq!(client.command("linelens.explainWith", json!([at(URI, 3, 4)])).unwrap(), Value::Null);
    client.listen(Duration::from_millis(300));
    // However often there was something to renew, one request waits for its answer, or one in ten seconds.
    let most = 1 + begun.elapsed().as_secs() as usize / 10;
    for method in
        ["workspace/diagnostic/refresh", "workspace/codeLens/refresh", "workspace/inlayHint/refresh"]
    {
        let count = client.requests.iter().filter(|request| request["method"] == method).count();
        assert!(count <= most, "{count} times {method} in {:?}", begun.elapsed());
    }
    assert!(client.requests.iter().any(|request| request["method"] == "workspace/codeLens/refresh"));
    assert_eq!(client.hover(URI, 2, 5)["contents"]["kind"], "markdown");
    client.finish();
}

#[test]
fn what_is_to_be_renewed_while_the_client_answers_is_asked_for_again() {
    let capabilities = with(plugin(), "workspace.codeLens", json!({"refreshSupport": true}));
    let (mut client, _) = started(Setup { capabilities, ..Setup::default() });
    let renewed = |client: &Client| {
        client.requests.iter().filter(|request| request["method"] == "workspace/codeLens/refresh").count()
    };
    client.open(URI, UNIT);
    client.settle();
    client.listen(Duration::from_millis(200));
    for round in 0..4 {
        let before = renewed(&client);
        let text = if round % 2 == 0 { "memcpy" } else { "strcpy" };
        client.change(URI, round + 2, json!([{"text": UNIT.replace("strcpy", text)}]));
        client.settle();
        client.listen(Duration::from_millis(200));
        assert!(renewed(&client) > before, "round {round}");
    }
    client.finish();
}

/// A server with the built-in detector, in its own process.
fn process(workspace: &Workspace) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linelens"));
    command.args(["lsp", "--stdio"]);
    command.env("XDG_CONFIG_HOME", workspace.path("")).env("LINELENS_ANNOTATOR", "ann");
    command
}

fn spawned(workspace: &Workspace, process_id: Option<u32>) -> Client {
    let mut client = Client::spawn(process(workspace));
    for method in NOISE {
        client.ignore(method);
    }
    client.handshake(&Setup { process_id, ..of_folder(workspace) });
    client
}

#[cfg(target_os = "linux")]
fn megabytes(process: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1024.0
}

/// The server waits for its client; nothing is lost and nothing piles up.
#[cfg(target_os = "linux")]
#[test]
fn a_client_that_stops_reading_loses_nothing() {
    let workspace = Workspace::new(&[]);
    let uri = workspace.uri("unit.c");
    let mut client = spawned(&workspace, None);
    let unit = UNIT.repeat(40);
    client.open(&uri, &unit);
    client.settle();
    explained(&mut client, &uri, 3);
    let before = megabytes(client.pid());
    let pid = client.pid();
    client.is_deaf.store(true, Ordering::SeqCst);
    // When the pipes are full, writing waits as well; so it is somebody else who reads again.
    let is_deaf = Arc::clone(&client.is_deaf);
    let resting = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(4));
        let resting = megabytes(pid);
        is_deaf.store(false, Ordering::SeqCst);
        resting
    });
    let begun = Instant::now();
    let mut asked = Vec::new();
    let mut version = 1;
    while begun.elapsed() < Duration::from_secs(3) {
        version += 1;
        client.change(&uri, version, insert(3, 4, "x"));
        asked.push((client.request("textDocument/hover", at(&uri, 3, 4)), false));
        asked.push((client.request("textDocument/codeLens", json!({"textDocument": {"uri": uri}})), true));
        if version > 2000 {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    let stuck = resting.join().unwrap();
    println!("{} requests, {before:.0} MiB before, {stuck:.0} MiB while nobody reads", asked.len());
    assert!(stuck < before + 100.0, "{before} MiB before, {stuck} MiB while nobody reads");
    for (id, is_lens) in asked {
        let answer = client.answer(id).unwrap();
        assert!(!is_lens || answer.is_array(), "{answer}");
    }
    let found = explained(&mut client, &uri, 3);
    assert_eq!(found["textDocument"]["version"], version);
    let expected = format!("    {}strcpy(to, from);", "x".repeat(version as usize - 1));
    assert_eq!(found["lines"][1]["text"], json!(expected));
    client.finish();
}

#[test]
fn a_server_that_nobody_reads_from_ends_with_its_client() {
    let workspace = Workspace::new(&[]);
    let uri = workspace.uri("unit.c");
    let mut editor = Command::new("sleep").arg("600").spawn().unwrap();
    let mut client = spawned(&workspace, Some(editor.id()));
    client.open(&uri, &UNIT.repeat(40));
    client.settle();
    client.is_deaf.store(true, Ordering::SeqCst);
    // More answers than pipes hold, fewer questions than they do.
    for _ in 0..300 {
        client.request("textDocument/codeLens", json!({"textDocument": {"uri": uri}}));
    }
    std::thread::sleep(Duration::from_millis(1500));
    editor.kill().unwrap();
    editor.wait().unwrap();
    let begun = Instant::now();
    assert_eq!(client.wait_for_end(), 1);
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    client.is_deaf.store(false, Ordering::SeqCst);
    client.abandon();
}

// ------------------------------------------------------------------------------------------------------------ killed

/// `kill -9` while ground truth is being written: every time the file is whole, and the next server goes on with it.
#[test]
fn a_server_that_is_killed_leaves_whole_files_and_no_lock() {
    let workspace = Workspace::new(&[("unit.c", UNIT)]);
    let uri = workspace.uri("unit.c");
    let file = workspace.path(".linelens/annotations.jsonl");
    let mut marked_at_last = None;
    for round in 0..8 {
        let mut client = spawned(&workspace, None);
        client.open(&uri, UNIT);
        // The one before is gone: nothing keeps this one from writing, and it reads what was written.
        let written = toggled(&mut client, &uri, 4);
        let is_marked = !written.contains("no longer");
        if let Some(before) = marked_at_last {
            assert_ne!(before, is_marked, "round {round}: {written}");
        }
        for _ in 0..60 {
            client.request(
                "workspace/executeCommand",
                json!({"command": "linelens.toggleGroundTruthLine", "arguments": [at(&uri, 3, 4)]}),
            );
        }
        std::thread::sleep(Duration::from_millis(3 + 17 * round));
        Command::new("kill").args(["-9", &client.pid().to_string()]).status().unwrap();
        client.wait_for_end();
        client.abandon();
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.ends_with('\n'), "{text:?}");
        let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
        assert_eq!(rows[0]["schema"], "linelens-annotations");
        let marks = |line: u64| {
            let lines = rows[1..].iter().flat_map(|row| row["lines"].as_array().unwrap());
            lines.filter(|mark| mark["line"] == line).count()
        };
        // The function starts on line 2, counted from 0.
        assert_eq!(marks(3), usize::from(is_marked), "round {round}: {text}");
        assert!(marks(2) <= 1, "{text}");
        marked_at_last = Some(is_marked);
    }
}
