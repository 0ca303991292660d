//! A row of the annotation file with some fields changed and all others as they stand, to the byte.

use crate::annotations::{Record, native};
use serde::Deserialize;
use serde::de::{MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use std::fmt;

/// The fields of a record in the order in which they are written; others belong to other tools.
const FIELDS: &[&str] = &[
    "file",
    "function",
    "range",
    "body_sha256",
    "body_sha256_ws",
    "label",
    LABEL_FROM_LINES,
    "lines",
    "cwe",
    "cve",
    "pair",
    "dataset",
    "annotator",
    "time",
    "source",
    "note",
];
const LINE_FIELDS: &[&str] = &["line", "text", "before", "after", "label"];
/// Says that nobody set the label: it follows from the lines, and goes with them.
const LABEL_FROM_LINES: &str = "label_from_lines";

/// An object's fields in their order, each as it stands.
struct RawObject<'a>(Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for RawObject<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(Fields).map(RawObject)
    }
}

pub(super) fn has_label_from_lines(row: &str) -> bool {
    let fields: Result<RawObject<'_>, _> = serde_json::from_str(row);
    fields.is_ok_and(|fields| {
        fields.0.iter().any(|(name, value)| name == LABEL_FROM_LINES && value.get() == "true")
    })
}

/// The row of `record`, in place of `old` if there is one.
pub(super) fn row(record: &Record, label_from_lines: bool, old: Option<&str>) -> Result<String, String> {
    let not_json = |error: serde_json::Error| format!("is not what was read from it: {error}");
    let mut new: Value = serde_json::from_str(&native::to_line(record)).map_err(not_json)?;
    if label_from_lines {
        new[LABEL_FROM_LINES] = Value::Bool(true);
    }
    let old: RawObject<'_> = serde_json::from_str(old.unwrap_or("{}")).map_err(not_json)?;
    let old_lines = old.0.iter().find(|(name, _)| name == "lines").map(|(_, value)| value.get());
    let old_lines = old_lines.filter(|lines| *lines != "null");
    let lines = lines(new.get("lines"), old_lines.unwrap_or("[]")).map_err(not_json)?;
    Ok(merged(&old, FIELDS, &|name| match name {
        "lines" => lines.clone(),
        _ => new.get(name).map(Value::to_string),
    }))
}

/// The list of lines, with the fields of other tools in lines that have still the same text.
fn lines(new: Option<&Value>, old: &str) -> Result<Option<String>, serde_json::Error> {
    let Some(new) = new.and_then(Value::as_array) else { return Ok(None) };
    let mut old: Vec<RawObject<'_>> = serde_json::from_str(old)?;
    let mut texts = Vec::with_capacity(new.len());
    for line in new {
        let is_same = |name: &str, old: &RawObject<'_>| {
            let value = old.0.iter().find(|(found, _)| found == name).map(|(_, value)| value.get());
            value.and_then(|value| serde_json::from_str::<Value>(value).ok()).as_ref() == line.get(name)
        };
        let same = old
            .iter()
            .position(|old| is_same("text", old) && is_same("line", old))
            .or_else(|| old.iter().position(|old| is_same("text", old)));
        let known = same.map_or(RawObject(Vec::new()), |at| old.remove(at));
        texts.push(merged(&known, LINE_FIELDS, &|name| line.get(name).map(Value::to_string)));
    }
    Ok(Some(format!("[{}]", texts.join(","))))
}

/// The fields of `old`, where those of `ours` have the value that `new` says. What is equal stays as it is written.
fn merged(old: &RawObject<'_>, ours: &[&str], new: &dyn Fn(&str) -> Option<String>) -> String {
    let mut fields: Vec<(String, String)> = Vec::new();
    for (name, value) in &old.0 {
        let kept = match ours.contains(&name.as_str()) {
            false => Some(value.get().to_string()),
            true => {
                new(name).map(|new| if is_equal(value.get(), &new) { value.get().to_string() } else { new })
            }
        };
        fields.extend(kept.map(|value| (name.clone(), value)));
    }
    let rank = |name: &str| ours.iter().position(|field| *field == name);
    for name in ours {
        if fields.iter().any(|(found, _)| found == name) {
            continue;
        }
        let Some(value) = new(name) else { continue };
        // Before the first field that has its place behind it.
        let at = fields.iter().position(|(found, _)| rank(found) > rank(name)).unwrap_or(fields.len());
        fields.insert(at, (name.to_string(), value));
    }
    let written: Vec<String> =
        fields.iter().map(|(name, value)| format!("{}:{value}", Value::String(name.clone()))).collect();
    format!("{{{}}}", written.join(","))
}

fn is_equal(old: &str, new: &str) -> bool {
    let value = |text: &str| serde_json::from_str::<Value>(text).ok();
    value(old) == value(new)
}
