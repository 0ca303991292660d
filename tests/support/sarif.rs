//! The rules of SARIF 2.1.0 (OASIS) that matter for a log of ours: for every object which properties it may and must have,
//! of which type and in which range, and what refers to what.

#![allow(dead_code, unreachable_pub)]

use serde_json::Value;
use std::collections::BTreeSet;

/// Properties of an object: name, whether it is required, and the rule of its value.
type Shape = &'static [(&'static str, bool, Rule)];

#[derive(Clone, Copy)]
enum Rule {
    Text,
    OneOf(&'static [&'static str]),
    Integer(i64),
    Number(f64, f64),
    Bool,
    Object(Shape),
    Array(&'static Rule),
    /// Any object: a property bag, or a map from names to strings.
    Bag,
    Map(&'static Rule),
    UriReference,
}

use Rule::*;

const MESSAGE: Shape = &[("text", true, Text)];
const ARTIFACT: Shape =
    &[("uri", false, UriReference), ("uriBaseId", false, Text), ("description", false, Object(MESSAGE))];
const SNIPPET: Shape = &[("text", true, Text)];
const REGION: Shape = &[
    ("startLine", false, Integer(1)),
    ("startColumn", false, Integer(1)),
    ("endLine", false, Integer(1)),
    ("endColumn", false, Integer(1)),
    ("snippet", false, Object(SNIPPET)),
];
const PHYSICAL: Shape = &[
    ("artifactLocation", false, Object(ARTIFACT)),
    ("region", false, Object(REGION)),
    ("contextRegion", false, Object(REGION)),
];
const LOGICAL: Shape = &[("name", false, Text), ("fullyQualifiedName", false, Text), ("kind", false, Text)];
const LOCATION: Shape = &[
    ("id", false, Integer(-1)),
    ("physicalLocation", false, Object(PHYSICAL)),
    ("logicalLocations", false, Array(&Object(LOGICAL))),
    ("message", false, Object(MESSAGE)),
];
const SUPPRESSION: Shape = &[
    ("kind", true, OneOf(&["inSource", "external"])),
    ("status", false, OneOf(&["accepted", "underReview", "rejected"])),
    ("justification", false, Text),
    ("properties", false, Bag),
];
const RESULT: Shape = &[
    ("ruleId", false, Text),
    ("ruleIndex", false, Integer(-1)),
    ("kind", false, OneOf(&["notApplicable", "pass", "fail", "review", "open", "informational"])),
    ("level", false, OneOf(&["none", "note", "warning", "error"])),
    ("message", true, Object(MESSAGE)),
    ("locations", false, Array(&Object(LOCATION))),
    ("relatedLocations", false, Array(&Object(LOCATION))),
    ("partialFingerprints", false, Map(&Text)),
    ("rank", false, Number(-1.0, 100.0)),
    ("suppressions", false, Array(&Object(SUPPRESSION))),
    ("properties", false, Bag),
];
const NOTIFICATION: Shape = &[
    ("message", true, Object(MESSAGE)),
    ("level", false, OneOf(&["none", "note", "warning", "error"])),
    ("locations", false, Array(&Object(LOCATION))),
];
const INVOCATION: Shape = &[
    ("executionSuccessful", true, Bool),
    ("toolExecutionNotifications", false, Array(&Object(NOTIFICATION))),
];
const CONFIGURATION: Shape = &[("level", false, OneOf(&["none", "note", "warning", "error"]))];
const DESCRIPTOR: Shape = &[
    ("id", true, Text),
    ("name", false, Text),
    ("shortDescription", false, Object(MESSAGE)),
    ("fullDescription", false, Object(MESSAGE)),
    ("help", false, Object(MESSAGE)),
    ("defaultConfiguration", false, Object(CONFIGURATION)),
    ("properties", false, Bag),
];
const DRIVER: Shape =
    &[("name", true, Text), ("version", false, Text), ("rules", false, Array(&Object(DESCRIPTOR)))];
const TOOL: Shape = &[("driver", true, Object(DRIVER))];
const RUN: Shape = &[
    ("tool", true, Object(TOOL)),
    ("invocations", false, Array(&Object(INVOCATION))),
    ("columnKind", false, OneOf(&["utf16CodeUnits", "unicodeCodePoints"])),
    ("originalUriBaseIds", false, Map(&Object(ARTIFACT))),
    ("results", false, Array(&Object(RESULT))),
    ("properties", false, Bag),
];
const LOG: Shape = &[
    ("$schema", false, UriReference),
    ("version", true, OneOf(&["2.1.0"])),
    ("runs", true, Array(&Object(RUN))),
];

/// Everything that is wrong with a log.
pub fn complaints(log: &Value) -> Vec<String> {
    let mut complaints = Vec::new();
    check(log, Object(LOG), "log", &mut complaints);
    for run in log["runs"].as_array().into_iter().flatten() {
        of_run(run, &mut complaints);
    }
    complaints
}

fn check(value: &Value, rule: Rule, at: &str, complaints: &mut Vec<String>) {
    let mut say = |what: &str| complaints.push(format!("{at}: {what}: {value}"));
    match rule {
        Text if !value.is_string() => say("no string"),
        Text | Bag if value.is_string() || value.is_object() => {}
        Bag => say("no object"),
        Text => {}
        OneOf(names) if !value.as_str().is_some_and(|text| names.contains(&text)) => {
            say("not one of the values")
        }
        OneOf(_) => {}
        Integer(least) if value.as_i64().is_none_or(|number| number < least) => say("no such integer"),
        Integer(_) => {}
        Number(least, most) if !value.as_f64().is_some_and(|number| (least..=most).contains(&number)) => {
            say("no such number");
        }
        Number(..) => {}
        Bool if !value.is_boolean() => say("no truth value"),
        Bool => {}
        UriReference => {
            let is_uri = value.as_str().is_some_and(|uri| {
                uri.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>\"{}|\\^`".contains(&byte))
            });
            if !is_uri {
                say("no URI reference");
            }
        }
        Array(item) => match value.as_array() {
            None => say("no array"),
            Some(values) => {
                let distinct: BTreeSet<String> = values.iter().map(Value::to_string).collect();
                if distinct.len() != values.len() {
                    complaints.push(format!("{at}: items are not unique"));
                }
                for (index, value) in values.iter().enumerate() {
                    check(value, *item, &format!("{at}[{index}]"), complaints);
                }
            }
        },
        Map(item) => match value.as_object() {
            None => say("no object"),
            Some(object) => {
                for (name, value) in object {
                    check(value, *item, &format!("{at}.{name}"), complaints);
                }
            }
        },
        Object(shape) => match value.as_object() {
            None => say("no object"),
            Some(object) => {
                for (name, value) in object {
                    match shape.iter().find(|(known, ..)| known == name) {
                        Some((_, _, rule)) => check(value, *rule, &format!("{at}.{name}"), complaints),
                        None => complaints.push(format!("{at}: unknown property {name}")),
                    }
                }
                for (name, required, _) in shape {
                    if *required && !object.contains_key(*name) {
                        complaints.push(format!("{at}: {name} is missing"));
                    }
                }
            }
        },
    }
}

/// What the schema cannot say.
fn of_run(run: &Value, complaints: &mut Vec<String>) {
    let rules = run["tool"]["driver"]["rules"].as_array().cloned().unwrap_or_default();
    let mut fingerprints = BTreeSet::new();
    for result in run["results"].as_array().into_iter().flatten() {
        let rule = result["ruleIndex"].as_u64().and_then(|index| rules.get(index as usize));
        if rule.is_none_or(|rule| rule["id"] != result["ruleId"]) {
            complaints.push(format!("no rule {} of this name", result["ruleIndex"]));
        }
        // §3.27.10
        if (result["kind"] == "fail") == (result["level"] == "none") {
            complaints.push(format!("kind {} has level {}", result["kind"], result["level"]));
        }
        if !fingerprints.insert(result["partialFingerprints"].to_string()) {
            complaints.push(format!("two results have the fingerprints {}", result["partialFingerprints"]));
        }
        let text = result["message"]["text"].as_str().unwrap_or_default();
        // §3.11.5 and §3.11.6: braces are doubled, brackets escaped.
        let plain = text
            .replace("{{", "")
            .replace("}}", "")
            .replace("\\\\", "")
            .replace("\\[", "")
            .replace("\\]", "");
        if plain.contains(['{', '}', '[', ']', '\\']) {
            complaints.push(format!("the message has a placeholder or link: {text}"));
        }
        for location in
            result["locations"].as_array().into_iter().chain(result["relatedLocations"].as_array()).flatten()
        {
            let artifact = &location["physicalLocation"]["artifactLocation"];
            let base = artifact["uriBaseId"].as_str().unwrap_or_default();
            if run["originalUriBaseIds"].get(base).is_none() {
                complaints.push(format!("the base {base:?} is not defined"));
            }
            // §3.4.4: relative to a base, so that the log holds elsewhere, too.
            let uri = artifact["uri"].as_str().unwrap_or_default();
            if uri.is_empty()
                || uri.starts_with('/')
                || uri.contains(':')
                || uri.split('/').any(|part| part == "..")
            {
                complaints.push(format!("{uri:?} is not relative"));
            }
            let region = &location["physicalLocation"]["region"];
            let place = |line: &str, column: &str| (region[line].as_u64(), region[column].as_u64());
            if place("startLine", "startColumn") > place("endLine", "endColumn") {
                complaints.push(format!("a region ends before it starts: {region}"));
            }
        }
    }
}
