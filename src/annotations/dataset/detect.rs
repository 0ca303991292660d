//! Which format a file has, by its first rows.

use super::Format;
use serde_json::{Map, Value};

/// The format of a file that begins with `head`; else a sentence that says what was found.
pub(super) fn detect(head: &[u8]) -> Result<Format, String> {
    let Some(first) = head.iter().find(|byte| !byte.is_ascii_whitespace()) else {
        return Err("the file is empty".to_string());
    };
    match first {
        b'{' | b'[' => json(head),
        _ => table(head),
    }
}

fn json(head: &[u8]) -> Result<Format, String> {
    let mut keys = Vec::new();
    for row in head.split(|byte| *byte == b'\n') {
        let row = row.trim_ascii();
        let row = row.strip_prefix(b"[").unwrap_or(row).trim_ascii();
        let row = row.strip_suffix(b",").unwrap_or(row);
        let Ok(object) = serde_json::from_slice::<Map<String, Value>>(row) else { continue };
        if let Some(format) = by_keys(&|key| object.contains_key(key)) {
            return Ok(format);
        }
        if keys.is_empty() {
            keys = object.keys().cloned().collect();
        }
    }
    // One object over several lines, or a first row that is longer than what is looked at.
    let first = keys_of_first_object(head);
    if let Some(format) = by_keys(&|key| first.iter().any(|found| found == key)) {
        return Ok(format);
    }
    let keys = if keys.is_empty() { first } else { keys };
    Err(format!("no format has JSON with the keys {}", listed(&keys)))
}

fn by_keys(has: &dyn Fn(&str) -> bool) -> Option<Format> {
    let all = |keys: &[&str]| keys.iter().all(|key| has(key));
    let any = |keys: &[&str]| keys.iter().any(|key| has(key));
    if has("runs") || (has("$schema") && has("version")) {
        return Some(Format::Sarif);
    }
    if all(&["schema", "version"])
        || (has("label") && any(&["lines", "body_sha256", "body_sha256_ws", "file"]))
    {
        return Some(Format::Native);
    }
    if has("func_src_before") {
        return Some(Format::Sven);
    }
    if !has("target") {
        return None;
    }
    if any(&["flaw_lines", "pair_id", "anchor_lines", "rule"]) {
        return Some(Format::Functions);
    }
    if !has("func") {
        return None;
    }
    if has("cwe") && any(&["func_hash", "cve", "cve_desc", "big_vul_idx", "idx"]) {
        return Some(Format::PrimeVul);
    }
    if has("cwe") && any(&["size", "message", "hash"]) {
        return Some(Format::DiverseVul);
    }
    if has("commit_id") {
        return Some(Format::Devign);
    }
    Some(Format::Functions)
}

fn table(head: &[u8]) -> Result<Format, String> {
    let mut reader = csv::ReaderBuilder::new().flexible(true).has_headers(false).from_reader(head);
    let mut record = csv::ByteRecord::new();
    let header = match reader.read_byte_record(&mut record) {
        Ok(true) => record,
        _ => return Err("it is neither JSON nor CSV".to_string()),
    };
    let has = |name: &str| header.iter().any(|field| field.trim_ascii() == name.as_bytes());
    if has("processed_func") {
        return Ok(Format::LineVul);
    }
    if has("func_before") {
        return Ok(Format::BigVul);
    }
    let columns: Vec<String> =
        header.iter().map(|field| String::from_utf8_lossy(field.trim_ascii()).into_owned()).collect();
    Err(format!("no format has CSV with the columns {}", listed(&columns)))
}

fn listed(names: &[String]) -> String {
    const MOST: usize = 12;
    const MOST_CHARACTERS: usize = 40;
    let shorten = |name: &String| name.chars().take(MOST_CHARACTERS).collect::<String>();
    let mut shown: Vec<String> = names.iter().take(MOST).map(shorten).collect();
    if names.len() > MOST {
        shown.push("…".to_string());
    }
    shown.join(", ")
}

/// The keys of the first object of a JSON text that may be cut off.
fn keys_of_first_object(head: &[u8]) -> Vec<String> {
    let mut keys = Vec::new();
    let mut depth = 0_usize;
    let mut rest = head.iter().copied().enumerate();
    let mut string: Option<String> = None;
    while let Some((at, byte)) = rest.next() {
        match byte {
            b'{' => depth += 1,
            // The array around the rows does not count.
            b'[' if depth > 0 => depth += 1,
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    break;
                }
            }
            b'"' => {
                let mut escaped = false;
                let end = rest.by_ref().find(|(_, byte)| {
                    let closes = *byte == b'"' && !escaped;
                    escaped = *byte == b'\\' && !escaped;
                    closes
                });
                let Some((end, _)) = end else { break };
                string = std::str::from_utf8(&head[at + 1..end]).ok().map(str::to_string);
            }
            b':' if depth == 1 => keys.extend(string.take()),
            _ => {}
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_recognised_by_their_content() {
        for (head, format) in [
            (r#"{"schema":"linelens-annotations","version":1}"#, Format::Native),
            (r#"{"file":"a.c","label":"benign"}"#, Format::Native),
            (
                r#"{"id":"a","func":"f","target":1,"flaw_lines":[1],"cwe":"CWE-1","cve":null}"#,
                Format::Functions,
            ),
            (r#"{"func":"f","target":1}"#, Format::Functions),
            (
                r#"{"func":"f","target":1,"cwe":["CWE-1"],"project":"p","commit_id":"c","hash":1,"size":3,"message":"m"}"#,
                Format::DiverseVul,
            ),
            (
                r#"{"idx":1,"project":"p","commit_id":"c","target":1,"func":"f","func_hash":1,"cwe":[],"cve":"None"}"#,
                Format::PrimeVul,
            ),
            (r#"{"project":"p","commit_id":"c","target":1,"func":"f","idx":1}"#, Format::Devign),
            (
                "[\n {\n  \"project\": \"p\", \"commit_id\": \"c\", \"target\": 1,\n \"func\": \"f\"}]",
                Format::Devign,
            ),
            (r#"[{"project":"p","commit_id":"c","target":1,"func":"f"},"#, Format::Devign),
            (r#"{"func_name":"f","func_src_before":"a","func_src_after":"b"}"#, Format::Sven),
            ("{\n  \"version\": \"2.1.0\",\n  \"runs\": [\n", Format::Sarif),
            ("broken\": 1}\n", Format::Sarif),
            ("index,func_before,func_after,vul\n", Format::BigVul),
            (",processed_func,target,flaw_line,func_before\n", Format::LineVul),
        ] {
            if head.starts_with("broken") {
                assert!(detect(head.as_bytes()).is_err());
                continue;
            }
            assert_eq!(detect(head.as_bytes()), Ok(format), "{head}");
        }
    }

    #[test]
    fn a_bad_first_row_does_not_hide_the_format() {
        let head = "{broken\n{\"project\":\"p\",\"commit_id\":\"c\",\"target\":1,\"func\":\"f\"}\n";
        assert_eq!(detect(head.as_bytes()), Ok(Format::Devign));
        let cut = r#"{"project":"p","commit_id":"c","target":1,"func":"int f() { \"}{:"#;
        assert_eq!(detect(cut.as_bytes()), Ok(Format::Devign), "a row that is longer than what is looked at");
    }

    #[test]
    fn what_is_not_recognised_is_said() {
        assert_eq!(detect(b" \n").unwrap_err(), "the file is empty");
        assert_eq!(
            detect(b"{\"a\":1,\"b\":{\"c\":2}}").unwrap_err(),
            "no format has JSON with the keys a, b"
        );
        assert_eq!(detect(b"x,y\n1,2\n").unwrap_err(), "no format has CSV with the columns x, y");
    }
}
