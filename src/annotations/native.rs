//! linelens's own annotation file: `linelens-annotations` version 1, JSON Lines, one function a record.
//!
//! A first line `{"schema":"linelens-annotations","version":1}` names the format; the other lines are records, whose
//! fields `docs/linelens-annotations.schema.json` describes. Lines and ranges are 1-based in the file, 0-based here.

use super::dataset::strict;
use super::problem::RowProblem;
use super::{DatasetRow, Label, LabelledLine, LineLabel, Pair, Provenance, Record, Role, broken, uri};
use fields::Fields;
use serde::Serialize;
use serde_json::Value;

mod fields;

pub const SCHEMA: &str = "linelens-annotations";
pub const VERSION: u64 = 1;
/// No line has a higher number.
pub const MOST_LINES: usize = 10_000_000;

/// What a line of the file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Row {
    /// The header of a file of this version.
    Header,
    Record(Box<Record>),
}

/// The first line of a file, without its line end.
pub fn header() -> String {
    // reason: a string and a number have a JSON form.
    serde_json::to_string(&Header { schema: SCHEMA.to_string(), version: VERSION.into() }).unwrap_or_default()
}

/// Reads one line of the file.
pub fn parse(line: &str) -> Result<Row, RowProblem> {
    let line = line.trim();
    let Value::Object(row) = strict::parse(line)? else { return Err(RowProblem::NotAnObject) };
    if let (Some(schema), Some(version)) = (row.get("schema"), row.get("version")) {
        if schema.as_str() == Some(SCHEMA) && version.as_u64() == Some(VERSION) {
            return Ok(Row::Header);
        }
        let schema = schema.as_str().map_or_else(|| schema.to_string(), str::to_string);
        return Err(RowProblem::Version(format!("{version} of {schema}")));
    }
    record(&Fields::new(&row)).map(|record| Row::Record(Box::new(record))).map_err(RowProblem::NotARecord)
}

/// One line of the file, without its line end. Keys have one order, and what is not known is left out, so that changes
/// are small.
pub fn to_line(record: &Record) -> String {
    // reason: the row's fields are strings, numbers and lists of these, which have a JSON form.
    serde_json::to_string(&RecordRow::from_record(record)).unwrap_or_default()
}

/// The sentence of an error in the words of JSON, not of this program, and without the line number, which is always 1.
pub(super) fn message(error: &serde_json::Error) -> String {
    if error.classify() != serde_json::error::Category::Data {
        return broken::syntax(error);
    }
    let mut text = error.to_string();
    if let Some((what, _)) = text.rsplit_once(" at line ") {
        text = format!("{what} {}", broken::place(error));
    }
    for (ours, plain) in [
        ("expected usize", "expected a whole number from 0"),
        ("expected u64", "expected a whole number from 0"),
        ("expected an array of length 2", "expected a list of two whole numbers"),
        ("expected a sequence", "expected a list"),
        ("invalid type: sequence", "a list"),
        ("invalid type: map", "an object"),
        ("invalid type: ", ""),
        ("invalid value: ", ""),
        ("invalid length ", "a list of "),
        ("unknown variant ", "unknown name "),
        ("missing field ", "there is no field "),
    ] {
        text = text.replace(ours, plain);
    }
    // serde names the Rust type that a value was to become.
    for (ours, plain) in [("expected struct ", "expected an object"), ("expected enum ", "expected a string")]
    {
        if let Some((before, after)) = text.split_once(ours) {
            let rest = after.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_');
            text = format!("{before}{plain}{rest}");
        }
    }
    text
}

#[derive(Serialize)]
struct Header {
    schema: String,
    version: Value,
}

#[derive(Serialize)]
struct RecordRow {
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    range: Option<[usize; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_sha256: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_sha256_ws: Option<String>,
    label: &'static str,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lines: Vec<LineRow>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cwe: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cve: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pair: Option<PairRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dataset: Option<DatasetRowRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotator: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

#[derive(Serialize)]
struct LineRow {
    line: usize,
    #[serde(skip_serializing_if = "String::is_empty")]
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<String>,
    label: &'static str,
}

#[derive(Serialize)]
struct PairRow {
    id: String,
    role: &'static str,
}

#[derive(Serialize)]
struct DatasetRowRow {
    name: String,
    row: String,
}

/// What the format calls each value.
type Names<T> = &'static [(&'static str, T)];

const LABELS: Names<Label> =
    &[("vulnerable", Label::Vulnerable), ("benign", Label::Benign), ("unsure", Label::Unsure)];
const LINE_LABELS: Names<LineLabel> = &[("flaw", LineLabel::Flaw), ("unsure", LineLabel::Unsure)];
const ROLES: Names<Role> = &[("before", Role::Before), ("after", Role::After)];
const SOURCES: Names<Provenance> =
    &[("manual", Provenance::Manual), ("diff", Provenance::Diff), ("imported", Provenance::Imported)];

/// Every value has a name.
fn name_of<T: PartialEq>(names: Names<T>, value: T) -> &'static str {
    names.iter().find(|(_, of)| *of == value).map_or("", |(name, _)| name)
}

fn record(fields: &Fields<'_>) -> Result<Record, String> {
    let label = fields.needed("label", fields.one_of("label", LABELS)?)?;
    fields.truth("label_from_lines")?;
    let range = fields.two("range")?.map(range).transpose()?;
    let file = fields.text("file")?;
    if let Some(file) = &file
        && uri::to_path(file).is_none()
    {
        return Err(format!("`file` is {file:?}, expected a relative URI that stays inside the folder"));
    }
    let hash = |name: &str| match fields.text(name)? {
        Some(hash) if !is_sha256(&hash) => Err(format!("`{name}` is not 64 lower-case hexadecimal digits")),
        hash => Ok(hash),
    };
    let time = fields.text("time")?;
    if let Some(time) = &time
        && !is_rfc3339(time)
    {
        return Err(format!("`time` is {time:?}, expected a time such as 2026-01-31T12:00:00Z"));
    }
    let pair = fields.object("pair")?.map(|pair| {
        let id = pair.needed("id", pair.text("id")?)?;
        Ok::<_, String>(Pair { id, role: pair.needed("role", pair.one_of("role", ROLES)?)? })
    });
    let dataset = fields.object("dataset")?.map(|dataset| {
        let name = dataset.needed("name", dataset.text("name")?)?;
        Ok::<_, String>(DatasetRow { name, row: dataset.needed("row", dataset.text("row")?)? })
    });
    let record = Record {
        file,
        function: fields.text("function")?,
        range,
        body_sha256: hash("body_sha256")?,
        body_sha256_ws: hash("body_sha256_ws")?,
        label,
        lines: lines(&fields.objects("lines")?, range)?,
        cwe: fields.texts("cwe")?,
        cve: fields.texts("cve")?,
        pair: pair.transpose()?,
        dataset: dataset.transpose()?,
        annotator: fields.text("annotator")?,
        time,
        source: fields.one_of("source", SOURCES)?,
        note: fields.text("note")?,
    };
    if record.label == Label::Benign && record.flaw_lines().next().is_some() {
        return Err("it has flaw lines, but is labelled benign".to_string());
    }
    Ok(record)
}

impl RecordRow {
    fn from_record(record: &Record) -> RecordRow {
        RecordRow {
            file: record.file.clone(),
            function: record.function.clone(),
            range: record.range.map(|(first, last)| [first + 1, last + 1]),
            body_sha256: record.body_sha256.clone(),
            body_sha256_ws: record.body_sha256_ws.clone(),
            label: name_of(LABELS, record.label),
            lines: record.lines.iter().map(LineRow::from_line).collect(),
            cwe: record.cwe.clone(),
            cve: record.cve.clone(),
            pair: record
                .pair
                .as_ref()
                .map(|pair| PairRow { id: pair.id.clone(), role: name_of(ROLES, pair.role) }),
            dataset: record
                .dataset
                .as_ref()
                .map(|dataset| DatasetRowRow { name: dataset.name.clone(), row: dataset.row.clone() }),
            annotator: record.annotator.clone(),
            time: record.time.clone(),
            source: record.source.map(|source| name_of(SOURCES, source)),
            note: record.note.clone(),
        }
    }
}

impl LineRow {
    fn from_line(line: &LabelledLine) -> LineRow {
        LineRow {
            line: line.line + 1,
            text: line.text.clone(),
            before: line.before.clone(),
            after: line.after.clone(),
            label: name_of(LINE_LABELS, line.label),
        }
    }
}

fn range([first, last]: [usize; 2]) -> Result<(usize, usize), String> {
    if first == 0 || last < first || last > MOST_LINES {
        return Err(format!(
            "`range` is [{first}, {last}], expected the first and the last line, from 1 to {MOST_LINES}"
        ));
    }
    Ok((first - 1, last - 1))
}

fn lines(rows: &[Fields<'_>], range: Option<(usize, usize)>) -> Result<Vec<LabelledLine>, String> {
    let mut lines = Vec::with_capacity(rows.len());
    for row in rows {
        let number = row.needed("line", row.whole("line")?)?;
        // A line without text is known by its number.
        let text = row.text("text")?.unwrap_or_default();
        let (before, after) = (row.text("before")?, row.text("after")?);
        let label = row.needed("label", row.one_of("label", LINE_LABELS)?)?;
        let Some(line) = number.checked_sub(1) else {
            return Err("a line is number 0, but lines count from 1".to_string());
        };
        if number > MOST_LINES {
            return Err(format!("a line is number {number}, but none is above {MOST_LINES}"));
        }
        if let Some((first, last)) = range
            && line > last - first
        {
            return Err(format!("line {number} lies outside the function, which has {}", last - first + 1));
        }
        if [Some(&text), before.as_ref(), after.as_ref()]
            .into_iter()
            .flatten()
            .any(|text| text.contains(['\n', '\r']))
        {
            return Err(format!("the text of line {number} is more than one line"));
        }
        lines.push(LabelledLine { line, text, before, after, label });
    }
    let mut numbers: Vec<usize> = lines.iter().map(|line| line.line).collect();
    numbers.sort_unstable();
    match numbers.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("line {} is labelled twice", pair[0] + 1)),
        None => Ok(lines),
    }
}

pub(super) fn is_sha256(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// `2026-01-31T12:00:00Z`, with an optional fraction of a second and an offset instead of `Z`.
pub(super) fn is_rfc3339(text: &str) -> bool {
    let shape: String = text.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    let Some(rest) = shape.strip_prefix("0000-00-00T00:00:00").or(shape.strip_prefix("0000-00-00t00:00:00"))
    else {
        return false;
    };
    let zone = match rest.strip_prefix('.') {
        None => rest,
        Some(fraction) => {
            let zone = fraction.trim_start_matches('0');
            if zone.len() == fraction.len() {
                return false;
            }
            zone
        }
    };
    let within = |range: std::ops::Range<usize>, most: u32| {
        text.get(range).and_then(|digits| digits.parse::<u32>().ok()).is_some_and(|value| value <= most)
    };
    let number =
        |range: std::ops::Range<usize>| text.get(range).and_then(|digits| digits.parse::<u32>().ok());
    let (Some(year), Some(month), Some(day)) = (number(0..4), number(5..7), number(8..10)) else {
        return false;
    };
    let days = match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    let is_zone = match zone {
        "Z" | "z" => true,
        "+00:00" | "-00:00" => {
            let end = text.len();
            within(end - 5..end - 3, 23) && within(end - 2..end, 59)
        }
        _ => false,
    };
    is_zone && (1..=days).contains(&day) && within(11..13, 23) && within(14..16, 59) && within(17..19, 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: &str = concat!(
        r#"{"file":"src/a%20b.c","function":"f","range":[10,12],"#,
        r#""body_sha256":"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad","#,
        r#""body_sha256_ws":"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad","label":"vulnerable","#,
        r#""lines":[{"line":2,"text":"  strcpy(a, b);","before":"f() {","after":"}","label":"flaw"},"#,
        r#"{"line":3,"text":"}","label":"unsure"}],"cwe":["CWE-787"],"cve":["CVE-2020-0001"],"#,
        r#""pair":{"id":"p1","role":"before"},"dataset":{"name":"d.jsonl","row":"7"},"annotator":"ann","#,
        r#""time":"2026-01-31T12:00:00.5+01:00","source":"manual","note":"n"}"#
    );

    #[test]
    fn times_are_points_in_time() {
        for good in [
            "2026-01-31T12:00:00Z",
            "2024-02-29t23:59:60z",
            "2000-02-29T00:00:00.25-23:59",
            "2026-04-30T00:00:00+05:30",
        ] {
            assert!(is_rfc3339(good), "{good}");
        }
        for bad in [
            "2026-01-31T12:00:00+99:99",
            "2026-01-31T12:00:00+24:00",
            "2026-01-31T12:00:00-01:60",
            "2026-02-31T12:00:00Z",
            "2026-02-29T12:00:00Z",
            "1900-02-29T12:00:00Z",
            "2026-04-31T12:00:00Z",
            "2026-00-10T12:00:00Z",
            "2026-13-10T12:00:00Z",
            "2026-01-00T12:00:00Z",
            "2026-01-32T12:00:00Z",
            "2026-01-31T24:00:00Z",
            "2026-01-31T12:00:00.Z",
            "2026-01-31T12:00:00",
        ] {
            assert!(!is_rfc3339(bad), "{bad}");
        }
    }

    fn record(line: &str) -> Record {
        match parse(line).unwrap() {
            Row::Record(record) => *record,
            Row::Header => panic!("a header"),
        }
    }

    fn reason(line: &str) -> String {
        parse(line).unwrap_err().to_string()
    }

    #[test]
    fn reasons_name_no_types_of_this_program() {
        for (row, says) in [
            (r#"{"label":"benign","dataset":7}"#, "`dataset` is 7, expected an object"),
            (r#"{"label":"benign","dataset":"x"}"#, "`dataset` is \"x\", expected an object"),
            (r#"{"label":"benign","dataset":{"name":"x"}}"#, "there is no field `dataset.row`"),
            (
                r#"{"label":"benign","lines":[{"line":-1,"text":"","label":"flaw"}]}"#,
                "`lines[0].line` is -1, expected a whole number from 0",
            ),
            (
                r#"{"label":"benign","lines":[{"line":"1","text":"","label":"flaw"}]}"#,
                "`lines[0].line` is \"1\", expected a whole number from 0",
            ),
            (r#"{"label":"benign","lines":[7]}"#, "`lines[0]` is 7, expected an object"),
            (
                r#"{"label":"benign","range":[1]}"#,
                "`range` is a list of 1, expected a list of two whole numbers",
            ),
            (
                r#"{"label":"benign","range":[1,2,3]}"#,
                "`range` is a list of 3, expected a list of two whole numbers",
            ),
            (r#"{"label":"benign","range":[1,"2"]}"#, "`range[1]` is \"2\", expected a whole number"),
            (r#"{"label":"benign","cwe":"CWE-1"}"#, "`cwe` is \"CWE-1\", expected a list"),
            (r#"{"label":"benign","cwe":["CWE-1",2]}"#, "`cwe[1]` is 2, expected a text"),
            (r#"{"label":{}}"#, "`label` is an object, expected one of \"vulnerable\""),
            (r#"{"label":null}"#, "there is no field `label`"),
            (r#"{"label":"benign","note":[]}"#, "`note` is a list of 0, expected a text"),
            (
                r#"{"label":"benign","label_from_lines":"yes"}"#,
                "`label_from_lines` is \"yes\", expected true or false",
            ),
            (r#"{"label":"benign","label":"benign"}"#, "gives the field `label` twice"),
            (r#"{"label":benign}"#, "is not JSON: expected a value: a text in double quotes"),
            (r#"{"label":"benign","lines":["#, "it ends within a list"),
            (r#"{"lines":[]}"#, "there is no field `label`"),
        ] {
            let said = reason(row);
            assert!(said.contains(says), "{row}: {said}");
            for word in ["struct", "usize", "Row", "enum", "variant", "sequence", "map", "EOF", "ident"] {
                assert!(!said.contains(word), "{row}: {said}");
            }
        }
    }

    #[test]
    fn a_record_is_written_as_it_was_read() {
        let read = record(FULL);
        assert_eq!(read.range, Some((9, 11)));
        assert_eq!(read.flaw_lines().collect::<Vec<_>>(), [1]);
        assert_eq!(to_line(&read), FULL);
        assert_eq!(to_line(&record(r#"{"label":"unsure"}"#)), r#"{"label":"unsure"}"#);
    }

    #[test]
    fn null_is_no_field() {
        let nulls = r#"{"label":"unsure","file":null,"range":null,"lines":null,"cwe":null,"pair":null,"note":null,"label_from_lines":null}"#;
        assert_eq!(to_line(&record(nulls)), r#"{"label":"unsure"}"#);
        assert_eq!(record(r#"{"label":"unsure","range":[1.0,2]}"#).range, Some((0, 1)));
    }

    #[test]
    fn a_header_names_the_version() {
        assert_eq!(header(), r#"{"schema":"linelens-annotations","version":1}"#);
        assert_eq!(parse(&header()), Ok(Row::Header));
        assert!(matches!(
            parse(r#"{"schema":"linelens-annotations","version":2}"#),
            Err(RowProblem::Version(_))
        ));
        assert!(matches!(parse(r#"{"schema":"other","version":1}"#), Err(RowProblem::Version(_))));
        assert!(matches!(parse(r#"{"schema":1,"version":1,"label":"benign"}"#), Err(RowProblem::Version(_))));
    }

    #[test]
    fn unknown_fields_are_left_to_their_tools() {
        assert_eq!(record(r#"{"label":"benign","confidence":0.3,"tool":{"x":1}}"#).label, Label::Benign);
    }

    #[test]
    fn bad_rows_are_refused_with_a_reason() {
        assert!(reason("{\"label\":").starts_with("is not JSON: it ends where a value should follow"));
        assert_eq!(reason("[1]"), "is not a JSON object");
        assert!(reason("x").starts_with("is not JSON"));
        assert!(reason("{}").contains("there is no field `label`"));
        assert!(reason(r#"{"label":"bad"}"#).contains("`label` is \"bad\", expected one of \"vulnerable\""));
        for (line, part) in [
            (r#"{"label":"benign","range":[0,1]}"#, "`range` is [0, 1]"),
            (r#"{"label":"benign","range":[3,2]}"#, "`range` is [3, 2]"),
            (r#"{"label":"benign","range":[-1,2]}"#, "`range[0]` is -1, expected a whole number from 0"),
            (r#"{"label":"benign","range":[1,10000001]}"#, "from 1 to 10000000"),
            (
                r#"{"label":"vulnerable","lines":[{"line":2000000000000,"text":"a","label":"flaw"}]}"#,
                "number 2000000000000",
            ),
            (r#"{"label":"benign","file":"../a.c"}"#, "stays inside the folder"),
            (r#"{"label":"benign","file":"/a.c"}"#, "stays inside the folder"),
            (r#"{"label":"benign","body_sha256":"AB"}"#, "64 lower-case"),
            (r#"{"label":"benign","time":"yesterday"}"#, "`time` is \"yesterday\""),
            (r#"{"label":"benign","time":"2026-13-31T12:00:00Z"}"#, "`time`"),
            (r#"{"label":"vulnerable","lines":[{"line":0,"text":"a","label":"flaw"}]}"#, "number 0"),
            (
                r#"{"label":"vulnerable","range":[5,6],"lines":[{"line":3,"text":"a","label":"flaw"}]}"#,
                "outside",
            ),
            (
                r#"{"label":"vulnerable","lines":[{"line":1,"text":"a\nb","label":"flaw"}]}"#,
                "more than one line",
            ),
            (r#"{"label":"benign","lines":[{"line":1,"text":"a","label":"flaw"}]}"#, "labelled benign"),
            (
                r#"{"label":"unsure","lines":[{"line":1,"text":"a","label":"flaw"},{"line":1,"text":"a","label":"flaw"}]}"#,
                "labelled twice",
            ),
        ] {
            assert!(reason(line).contains(part), "{line}: {}", reason(line));
        }
    }
}
