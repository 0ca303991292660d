//! The language server in memory: what stands beside lines (inlay hints, highlights), and going from one relevant line to
//! the next.

#![allow(clippy::unwrap_used, clippy::expect_used)] // Helpers of tests are tests.

#[path = "support/lsp.rs"]
mod support;

use serde_json::{Value, json};
use std::time::{Duration, Instant};
use support::{Client, Knobs, PATIENCE, Setup, UNIT, URI, at, insert, opened, plain, plugin, start, with};

fn hints(client: &mut Client, first: u32, last: u32) -> Value {
    let position = |line| json!({"line": line, "character": 0});
    let range = json!({"start": position(first), "end": position(last)});
    client.call("textDocument/inlayHint", json!({"textDocument": {"uri": URI}, "range": range})).unwrap()
}

/// Line and label of each.
fn labels(hints: &Value) -> Vec<(u64, String)> {
    let hints = hints.as_array().unwrap();
    let label = |hint: &Value| hint["label"].as_str().unwrap().to_string();
    hints.iter().map(|hint| (hint["position"]["line"].as_u64().unwrap(), label(hint))).collect()
}

/// Other messages are others' tests.
fn quiet(client: &mut Client) {
    for method in ["textDocument/publishDiagnostics", "linelens/relevance", "window/logMessage"] {
        client.ignore(method);
        client.take(method);
    }
}

fn refreshes(client: &Client) -> usize {
    client.requests.iter().filter(|request| request["method"] == "workspace/inlayHint/refresh").count()
}

/// Setting up a client that has no status to wait for.
fn plain_client(capabilities: Value) -> (Client, Knobs) {
    let knobs = Knobs::default();
    let mut client = Client::start(Setup { capabilities, ..Setup::default() }, &knobs);
    quiet(&mut client);
    client.open(URI, UNIT);
    let begun = Instant::now();
    while client
        .call("textDocument/codeLens", json!({"textDocument": {"uri": URI}}))
        .unwrap()
        .as_array()
        .is_none_or(|lenses| lenses.len() < 4)
    {
        assert!(begun.elapsed() < PATIENCE, "not everything is analysed");
        client.listen(Duration::from_millis(10));
    }
    (client, knobs)
}

// ------------------------------------------------------------------------------------------------------ inlay hints

#[test]
fn hints_stand_behind_the_top_lines_of_what_is_flagged_or_under_the_cursor() {
    let (mut client, _) = opened(Setup::default());
    quiet(&mut client);
    let finding = client.call("linelens/explain", at(URI, 3, 4)).unwrap();
    let found = hints(&mut client, 0, 20);
    let bars = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
    let mut expected: Vec<(u64, String)> = finding["lines"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| {
            let score = line["score"].as_f64().unwrap();
            let step = (score * 8.0).ceil() as usize;
            (line["line"].as_u64().unwrap(), format!("{} {score:.2}", bars[step]))
        })
        .collect();
    // Four lines are fewer than five, and the least relevant one is no hint; `add` is not flagged.
    assert_eq!(expected.pop().map(|(line, _)| line), Some(5));
    assert_eq!(expected.len(), 3);
    assert_eq!(labels(&found), expected);
    let first = &found[1];
    assert_eq!(first["position"], json!({"line": 3, "character": 21}), "the end of the line");
    assert_eq!(first["paddingLeft"], true);
    assert!(first["tooltip"].as_str().unwrap().starts_with("rank "), "{first}");
    // Only what is asked for.
    assert_eq!(labels(&hints(&mut client, 4, 5)), expected[2..]);
    // The function under the cursor has hints, too.
    client.call("linelens/explain", at(URI, 8, 4)).unwrap();
    assert_eq!(labels(&hints(&mut client, 0, 20)).len(), 5);
    // A document that is not open has none.
    let other = json!({"textDocument": {"uri": "file:///no.c"},
        "range": {"start": {"line": 0, "character": 0}, "end": {"line": 9, "character": 0}}});
    assert_eq!(client.call("textDocument/inlayHint", other).unwrap(), Value::Null);
    client.finish();
}

#[test]
fn settings_shape_the_hints() {
    for (options, count) in [
        (json!({"debounceMs": 20, "analyze": "file", "topLines": 2}), 2),
        (json!({"debounceMs": 20, "analyze": "file", "inlayHints": false}), 0),
        (json!({"debounceMs": 20, "analyze": "file", "topLines": 0}), 0),
    ] {
        let (mut client, _) = opened(Setup { options, ..Setup::default() });
        quiet(&mut client);
        assert_eq!(labels(&hints(&mut client, 0, 20)).len(), count);
        client.finish();
    }
}

#[test]
fn hints_follow_edits_and_are_renewed_when_they_change() {
    let capabilities = with(plugin(), "workspace.inlayHint", json!({"refreshSupport": true}));
    let (mut client, _) = opened(Setup { capabilities, ..Setup::default() });
    quiet(&mut client);
    assert_eq!(refreshes(&client), 1);
    let before = labels(&hints(&mut client, 0, 20));
    client.change(URI, 2, insert(0, 0, "\n\n"));
    let moved: Vec<(u64, String)> = before.iter().map(|(line, label)| (line + 2, label.clone())).collect();
    assert_eq!(labels(&hints(&mut client, 0, 20)), moved, "without a run of the model");
    client.settle();
    let settled = refreshes(&client);
    assert!(settled > 1);
    // What changes nothing of them asks for nothing.
    client.change(URI, 3, insert(13, 0, "int z;"));
    client.settle();
    assert_eq!(refreshes(&client), settled);
    client.finish();
}

#[test]
fn hints_of_a_plain_client_follow_where_it_points() {
    let capabilities = with(plain(), "workspace.inlayHint", json!({"refreshSupport": true}));
    let (mut client, _) = plain_client(capabilities);
    assert_eq!(labels(&hints(&mut client, 6, 20)), []);
    // Changes that follow each other closely need one refresh.
    client.listen(Duration::from_millis(300));
    let before = refreshes(&client);
    client.hover(URI, 8, 5);
    assert_eq!(labels(&hints(&mut client, 6, 20)).len(), 2);
    let begun = Instant::now();
    while refreshes(&client) == before {
        assert!(begun.elapsed() < PATIENCE, "no refresh");
        client.listen(Duration::from_millis(10));
    }
    client.finish();
}

// -------------------------------------------------------------------------------------------------------- highlights

#[test]
fn highlights_are_the_top_lines_of_the_function_for_clients_that_do_not_shade() {
    let knobs = Knobs::default();
    let setup = Setup {
        capabilities: plain(),
        options: json!({"debounceMs": 20, "analyze": "cursor", "topLines": 2}),
        ..Setup::default()
    };
    let mut client = Client::connect(&setup, knobs.start());
    let answer = client.handshake(&setup);
    assert_eq!(answer["capabilities"]["documentHighlightProvider"], true);
    quiet(&mut client);
    client.open(URI, UNIT);
    // The position serves as the cursor: what is not known is analysed.
    let begun = Instant::now();
    let highlights = loop {
        let highlights = client.call("textDocument/documentHighlight", at(URI, 8, 5)).unwrap();
        if !highlights.is_null() {
            break highlights;
        }
        assert!(begun.elapsed() < PATIENCE, "nothing is analysed");
        client.listen(Duration::from_millis(10));
    };
    assert_eq!(knobs.runs(), ["add"]);
    let finding = client.call("linelens/explain", at(URI, 8, 5)).unwrap();
    let lines = finding["lines"].as_array().unwrap();
    let expected: Vec<&Value> =
        lines.iter().filter(|line| line["rank"].as_u64().unwrap() <= 2).map(|line| &line["line"]).collect();
    let found: Vec<&Value> =
        highlights.as_array().unwrap().iter().map(|highlight| &highlight["range"]["start"]["line"]).collect();
    assert_eq!(found, expected);
    assert!(highlights.as_array().unwrap().iter().all(|highlight| highlight["kind"] == 1));
    // Outside of functions there is nothing.
    assert_eq!(client.call("textDocument/documentHighlight", at(URI, 0, 0)).unwrap(), Value::Null);
    client.finish();

    let setup = Setup::default();
    let mut client = Client::connect(&setup, knobs.start());
    let answer = client.handshake(&setup);
    assert_eq!(answer["capabilities"].get("documentHighlightProvider"), None);
    client.settle();
    client.finish();
}

// -------------------------------------------------------------------------------------------------------- navigation

#[test]
fn relevant_lines_are_visited_in_the_order_of_the_text() {
    let knobs = Knobs::default();
    let setup =
        Setup { options: json!({"debounceMs": 20, "analyze": "file", "topLines": 2}), ..Setup::default() };
    let mut client = Client::start(setup, &knobs);
    quiet(&mut client);
    client.open(URI, UNIT);
    client.settle();
    let finding = client.call("linelens/explain", at(URI, 3, 4)).unwrap();
    let lines: Vec<u64> = finding["lines"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|line| line["rank"].as_u64().unwrap() <= 2)
        .map(|line| line["line"].as_u64().unwrap())
        .collect();
    let go = |client: &mut Client, command: &str, line: u64| {
        client.command(command, json!([at(URI, line as u32, 0)])).unwrap()
    };
    // From above the function, through it, and round again.
    let mut here = 0;
    for expected in [lines[0], lines[1], lines[0]] {
        let there = go(&mut client, "linelens.nextRelevantLine", here);
        assert_eq!(there["range"]["start"]["line"], expected, "after {here}");
        assert_eq!(there["function"]["name"], "copy");
        assert_eq!(there["line"]["line"], expected);
        assert_eq!(there["textDocument"], json!({"uri": URI, "version": 1}));
        here = expected;
    }
    for expected in [lines[1], lines[0]] {
        let there = go(&mut client, "linelens.previousRelevantLine", here);
        assert_eq!(there["range"]["start"]["line"], expected, "before {here}");
        here = expected;
    }
    // In a function that is not flagged its own lines count, too.
    let there = go(&mut client, "linelens.nextRelevantLine", 7);
    assert_eq!(there["function"]["name"], "add");
    let error = client.command("linelens.nextRelevantLine", json!([at("file:///no.c", 0, 0)])).unwrap_err();
    assert_eq!(error["code"], -32602);
    client.finish();
}

#[test]
fn going_to_a_line_analyses_the_function_under_the_cursor() {
    let knobs = Knobs::default();
    let setup = Setup { options: json!({"debounceMs": 5000, "analyze": "cursor"}), ..Setup::default() };
    let mut client = Client::start(setup, &knobs);
    quiet(&mut client);
    client.open(URI, UNIT);
    let there = client.command("linelens.nextRelevantLine", json!([at(URI, 7, 0)])).unwrap();
    assert_eq!(there["range"]["start"]["line"], 8);
    assert_eq!(knobs.runs(), ["add"]);
    client.finish();
}

#[test]
fn a_plain_client_is_taken_to_the_line_or_told_that_there_is_none() {
    let capabilities = with(plain(), "window.showDocument", json!({"support": true}));
    let (mut client, _) = plain_client(capabilities);
    let there = client.command("linelens.nextRelevantLine", json!([at(URI, 0, 0)])).unwrap();
    let begun = Instant::now();
    let shown = loop {
        let shown = client.requests.iter().find(|request| request["method"] == "window/showDocument");
        if let Some(shown) = shown {
            break shown["params"].clone();
        }
        assert!(begun.elapsed() < PATIENCE, "nothing is shown");
        client.listen(Duration::from_millis(10));
    };
    assert_eq!(shown["uri"], URI);
    assert_eq!(shown["selection"], there["range"]);
    assert_eq!(shown["takeFocus"], true);
    client.change(URI, 2, json!([{"text": "int x;\n"}]));
    assert_eq!(client.command("linelens.nextRelevantLine", json!([at(URI, 0, 0)])).unwrap(), Value::Null);
    let said = client.expect("window/showMessage");
    assert!(said["message"].as_str().unwrap().contains("no line of this file is relevant"), "{said}");
    client.finish();
}

#[test]
fn lines_of_an_empty_file_are_none() {
    let (mut client, _) = start();
    quiet(&mut client);
    client.open(URI, "");
    client.settle();
    assert_eq!(client.command("linelens.previousRelevantLine", json!([at(URI, 0, 0)])).unwrap(), Value::Null);
    assert_eq!(hints(&mut client, 0, 5), json!([]));
    client.finish();
}

// ---------------------------------------------------------------------------------------------------------- verdicts

#[test]
fn all_known_verdicts_are_told_flagged_or_not() {
    let setup = Setup {
        options: json!({"debounceMs": 20, "analyze": "file"}),
        capabilities: plugin(),
        ..Setup::default()
    };
    let (mut client, knobs) = opened(setup);
    quiet(&mut client);
    let functions = |client: &mut Client| {
        client.call("linelens/functions", json!({"textDocument": {"uri": URI}})).unwrap()
    };
    let told = functions(&mut client);
    assert_eq!(told["textDocument"], json!({"uri": URI, "version": 1}));
    let brief: Vec<_> = told["functions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|known| (known["function"]["name"].as_str().unwrap(), known["flagged"].as_bool().unwrap()))
        .collect();
    assert_eq!(brief, [("copy", true), ("add", false)]);
    assert_eq!(told["functions"][1]["function"]["startLine"], 7);
    assert!(
        told["functions"][1]["probability"].as_f64().unwrap()
            <= told["functions"][1]["threshold"].as_f64().unwrap()
    );
    // Asking computes nothing.
    let runs = knobs.runs();
    assert_eq!(functions(&mut client)["functions"].as_array().unwrap().len(), 2);
    assert_eq!(knobs.runs(), runs);
    // An edit moves what is known along, and what it changes is not known for a while.
    client.change(URI, 2, insert(0, 0, "\n"));
    let told = functions(&mut client);
    assert_eq!(told["textDocument"]["version"], 2);
    assert_eq!(told["functions"][0]["function"]["startLine"], 3);
    let error =
        client.call("linelens/functions", json!({"textDocument": {"uri": "file:///no.c"}})).unwrap_err();
    assert_eq!(error["code"], -32602);
    client.finish();
}
