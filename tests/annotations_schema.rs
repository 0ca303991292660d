//! The published JSON Schema of the annotation file and the reader say the same.
#![allow(clippy::unwrap_used)]

use linelens::annotations::native::{self, Row};
use linelens::annotations::{DatasetRow, FunctionLines, Label, LineLabel, Pair, Provenance, Record, Role};
use serde_json::{Map, Value, json};

fn schema() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/linelens-annotations.schema.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

/// A record in which every field says something.
fn full() -> Record {
    let lines = FunctionLines::new("int f() {\n  a();\n  b();\n}");
    let mut record = lines.record(Label::Vulnerable, [1, 2]);
    record.lines[1].label = LineLabel::Unsure;
    Record {
        file: Some("src/a%20b.c".into()),
        function: Some("f".into()),
        range: Some((0, 3)),
        cwe: vec!["CWE-787".into()],
        cve: vec!["CVE-2020-1".into()],
        pair: Some(Pair { id: "p".into(), role: Role::Before }),
        dataset: Some(DatasetRow { name: "d".into(), row: "1".into() }),
        annotator: Some("ann".into()),
        time: Some("2026-01-31T12:00:00Z".into()),
        source: Some(Provenance::Manual),
        note: Some("n".into()),
        ..record
    }
}

#[test]
fn the_schema_has_the_fields_that_are_written() {
    let schema = schema();
    let written: Map<String, Value> = serde_json::from_str(&native::to_line(&full())).unwrap();
    let record = &schema["$defs"]["record"]["properties"];
    let described: Vec<&str> = keys(record).into_iter().filter(|key| *key != "label_from_lines").collect();
    assert_eq!(described, written.keys().collect::<Vec<_>>(), "names and their order");
    for (field, name) in
        [("pair", &record["pair"]["properties"]), ("dataset", &record["dataset"]["properties"])]
    {
        assert_eq!(keys(name), keys(&written[field]));
    }
    let mut line = keys(&schema["$defs"]["line"]["properties"]);
    let mut of_line = keys(&written["lines"][0]);
    line.sort_unstable();
    of_line.sort_unstable();
    assert_eq!(line, of_line);
    assert_eq!(schema["$defs"]["header"]["properties"]["schema"]["const"], native::SCHEMA);
    assert_eq!(schema["$defs"]["header"]["properties"]["version"]["const"], native::VERSION);
}

#[test]
fn every_name_of_the_schema_is_read_and_no_other() {
    let schema = schema();
    let properties = &schema["$defs"]["record"]["properties"];
    let base: Value = serde_json::from_str(&native::to_line(&full())).unwrap();
    let places: [(&[&str], &Value); 4] = [
        (&["label"], &properties["label"]["enum"]),
        (&["source"], &properties["source"]["enum"]),
        (&["pair", "role"], &properties["pair"]["properties"]["role"]["enum"]),
        (&["lines", "0", "label"], &schema["$defs"]["line"]["properties"]["label"]["enum"]),
    ];
    for (path, names) in places {
        let with = |name: &Value| {
            let mut row = base.clone();
            // A benign function has no flaw lines.
            if path == ["label"] {
                row["lines"] = json!([]);
            }
            *row.pointer_mut(&format!("/{}", path.join("/"))).unwrap() = name.clone();
            native::parse(&row.to_string())
        };
        for name in names.as_array().unwrap() {
            assert!(with(name).is_ok(), "{path:?} {name}");
        }
        assert_eq!(with(&json!(null)).is_ok(), names.as_array().unwrap().contains(&json!(null)), "{path:?}");
        assert!(with(&json!("another")).is_err());
    }
}

/// Whole rows are not run through the schema here; these are its rules that hold over several fields.
#[test]
fn a_benign_function_has_no_flaw_lines_in_the_schema_either() {
    let schema = schema();
    let record = &schema["$defs"]["record"];
    assert_eq!(record["if"], json!({"properties": {"label": {"const": "benign"}}}));
    assert_eq!(record["then"]["properties"]["lines"]["items"]["properties"]["label"]["const"], "unsure");
    assert_eq!(record["properties"]["lines"]["uniqueItems"], true);
    let mut row: Value = serde_json::from_str(&native::to_line(&full())).unwrap();
    row["label"] = json!("benign");
    row["lines"][0]["label"] = json!("unsure");
    assert!(native::parse(&row.to_string()).is_ok());
}

#[test]
fn required_fields_are_required_and_others_are_not() {
    let schema = schema();
    let base: Value = serde_json::from_str(&native::to_line(&full())).unwrap();
    let places = [
        ("", &schema["$defs"]["record"]),
        ("/pair", &schema["$defs"]["record"]["properties"]["pair"]),
        ("/dataset", &schema["$defs"]["record"]["properties"]["dataset"]),
        ("/lines/0", &schema["$defs"]["line"]),
    ];
    for (pointer, described) in places {
        for field in keys(&described["properties"]) {
            let mut row = base.clone();
            row.pointer_mut(pointer).unwrap().as_object_mut().unwrap().remove(field);
            let is_required = described["required"].as_array().unwrap().contains(&json!(field));
            assert_eq!(native::parse(&row.to_string()).is_err(), is_required, "{pointer} {field}");
        }
    }
}

/// The keywords of the schema that say more than a type, each with a value that it forbids.
#[test]
fn what_the_schema_forbids_is_refused() {
    let base: Value = serde_json::from_str(&native::to_line(&full())).unwrap();
    for (pointer, value) in [
        ("/file", json!("")),
        ("/file", json!("/a")),
        ("/file", json!("a/../b")),
        ("/file", json!("a?b")),
        ("/file", json!("file:a")),
        ("/file", json!(1)),
        ("/range", json!([1])),
        ("/range", json!([1, 4, 5])),
        ("/label", json!("benign")),
        ("/time", json!("2026-02-30T12:00:00Z")),
        ("/time", json!("2026-04-31T12:00:00Z")),
        ("/time", json!("2026-01-31T24:00:00Z")),
        ("/time", json!("2026-01-31T12:00:61Z")),
        ("/time", json!("2026-01-31T12:00:00+24:00")),
        // What the schema says in words alone.
        ("/range", json!([10, 3])),
        ("/lines/1/line", json!(2)),
        ("/lines/1/line", json!(9)),
        ("/time", json!("2026-02-29T12:00:00Z")),
        ("/range", json!([0, 4])),
        ("/range", json!(["1", 4])),
        ("/body_sha256", json!("00")),
        ("/body_sha256_ws", json!("Z".repeat(64))),
        ("/lines", json!({})),
        ("/lines/0/line", json!(0)),
        ("/lines/0/line", json!(1.5)),
        ("/lines/0/text", json!("a\nb")),
        ("/lines/0/before", json!("a\rb")),
        ("/cwe", json!("CWE-1")),
        ("/cve", json!([1])),
        ("/time", json!("2026-01-31")),
        ("/time", json!("2026-01-31T12:00:00")),
        ("/dataset/row", json!(1)),
        ("/note", json!(1)),
        ("/label_from_lines", json!("yes")),
    ] {
        let mut row = base.clone();
        row["label_from_lines"] = json!(true);
        *row.pointer_mut(pointer).unwrap() = value.clone();
        assert!(native::parse(&row.to_string()).is_err(), "{pointer} {value}");
    }
    assert!(matches!(native::parse(&base.to_string()), Ok(Row::Record(_))));
}

/// Whether a schema takes `null` for a field: by its type, its names, or what it refers to.
fn takes_null(schema: &Value, field: &Value) -> bool {
    let field = match field["$ref"].as_str() {
        Some(reference) => schema.pointer(reference.trim_start_matches('#')).unwrap(),
        None => field,
    };
    let has_null = |list: &Value, null: Value| list.as_array().is_some_and(|list| list.contains(&null));
    has_null(&field["type"], json!("null")) || has_null(&field["enum"], json!(null))
}

#[test]
fn null_is_read_where_the_schema_takes_it() {
    let schema = schema();
    let mut base: Value = serde_json::from_str(&native::to_line(&full())).unwrap();
    base["label_from_lines"] = json!(true);
    for (pointer, described) in
        [("", &schema["$defs"]["record"]["properties"]), ("/lines/0", &schema["$defs"]["line"]["properties"])]
    {
        for field in keys(described) {
            let mut row = base.clone();
            row.pointer_mut(pointer).unwrap()[field] = Value::Null;
            let is_read = native::parse(&row.to_string()).is_ok();
            assert_eq!(is_read, takes_null(&schema, &described[field]), "{pointer} {field}");
        }
    }
}

/// A schema's keywords of any type hold of `null`, too: `pattern` and those like it say nothing of what is no string.
fn holds_of_null(schema: &Value, rule: &Value) -> bool {
    rule.as_object().unwrap().iter().all(|(keyword, said)| match keyword.as_str() {
        "type" => {
            *said == json!("null") || said.as_array().is_some_and(|names| names.contains(&json!("null")))
        }
        "enum" => said.as_array().unwrap().contains(&Value::Null),
        "const" => said.is_null(),
        "not" => !holds_of_null(schema, said),
        "anyOf" => said.as_array().unwrap().iter().any(|rule| holds_of_null(schema, rule)),
        "allOf" => said.as_array().unwrap().iter().all(|rule| holds_of_null(schema, rule)),
        "oneOf" => said.as_array().unwrap().iter().filter(|rule| holds_of_null(schema, rule)).count() == 1,
        "$ref" => {
            let target = schema.pointer(said.as_str().unwrap().trim_start_matches('#')).unwrap();
            holds_of_null(schema, target)
        }
        "if" => panic!("write the rule for `if` at a field here first"),
        _ => true,
    })
}

#[test]
fn every_keyword_of_a_field_takes_null_where_its_type_does() {
    let schema = schema();
    let forbidding = json!({"type": ["string", "null"], "not": {"anyOf": [{"pattern": "^/"}]}});
    assert!(!holds_of_null(&schema, &forbidding), "a pattern says nothing of null, so `not` forbids it");
    for of in ["record", "line"] {
        let described = &schema["$defs"][of]["properties"];
        for field in keys(described) {
            let is_taken = holds_of_null(&schema, &described[field]);
            assert_eq!(is_taken, takes_null(&schema, &described[field]), "{of} {field}");
        }
    }
    assert!(holds_of_null(&schema, &schema["$defs"]["record"]["properties"]["file"]));
}

/// By Python, whose regular expressions are those of the schema.
#[test]
fn the_schema_takes_the_files_that_linelens_takes() {
    let parts = [
        "a", ".", "..", "/", "%2f", "%2F", "%2e", "%2E", "%zz", "%a", "%", "%00", "%5c", "\\", "?", "#", ":",
        "%3a", "b.c", "%20", "ü", "%41", "\0", "%30", "-", "src",
    ];
    let mut names = vec![String::new()];
    for first in parts {
        for second in parts {
            names.push(format!("{first}{second}"));
            for third in parts {
                names.push(format!("{first}{second}{third}"));
                names.push(format!("{first}{second}/{third}"));
            }
        }
    }
    names.extend(parts.map(str::to_string));
    // Bytes that are no UTF-8 are what a schema cannot say.
    let is_high = |three: &[u8]| {
        three[0] == b'%' && matches!(three[1], b'8' | b'9' | b'a'..=b'f') && three[2].is_ascii_hexdigit()
    };
    names.retain(|name| !name.as_bytes().windows(3).any(is_high));
    let program = "import json, re, sys\npatterns, names = json.load(sys.stdin)\n\
        print(json.dumps([any(re.search(p, n) for p in patterns) for n in names]))";
    let schema = schema();
    let file = &schema["$defs"]["record"]["properties"]["file"];
    let forbidden = file["not"]["anyOf"].as_array().unwrap();
    let patterns: Vec<&Value> = forbidden.iter().map(|rule| &rule["pattern"]).collect();
    let mut python = std::process::Command::new("python3")
        .args(["-c", program])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let input = json!([patterns, names]).to_string();
    std::io::Write::write_all(&mut python.stdin.take().unwrap(), input.as_bytes()).unwrap();
    let output = python.wait_with_output().unwrap();
    let refused: Vec<bool> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(refused.len(), names.len());
    let is_refused = |name: &str| linelens::annotations::uri::to_path(name).is_none();
    for (name, by_schema) in names.iter().zip(refused) {
        assert_eq!(by_schema || name.is_empty(), is_refused(name), "{name:?}");
    }
}
