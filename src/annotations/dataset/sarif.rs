//! SARIF 2.1.0 (OASIS): every location of a result is a record of the lines of its region. The one format that is no
//! sequence of rows: what it says of lines is held in memory, its text is not.

use super::rows::Input;
use super::{identifiers, sample};
use crate::annotations::native::{self, is_rfc3339};
use crate::annotations::problem::{RowError, RowProblem};
use crate::annotations::{Label, LabelledLine, LineLabel, Provenance, Record, Sample, uri};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::io::Read;

/// A longer log is not read: unlike rows, it is held as far as it speaks of lines.
const MOST_BYTES: u64 = 1 << 30;

/// A region of more lines than this marks no line in particular.
const MOST_LINES: u64 = 10_000;

#[derive(Deserialize)]
struct Log {
    version: String,
    #[serde(default)]
    runs: Vec<Run>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Run {
    /// Read field by field: what is wrong in it hides no result.
    #[serde(default)]
    tool: Value,
    #[serde(default)]
    results: Option<Vec<AnyResult>>,
    #[serde(default)]
    artifacts: Vec<Artifact>,
    #[serde(default)]
    original_uri_base_ids: BTreeMap<String, ArtifactLocation>,
}

/// A result, or what is wrong with it: one bad result does not hide the others. What is not needed of it is let go at once.
struct AnyResult(Result<SarifResult, String>);

impl<'de> Deserialize<'de> for AnyResult {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Ok(AnyResult(SarifResult::deserialize(value).map_err(|error| native::message(&error))))
    }
}

#[derive(Deserialize)]
struct Artifact {
    location: Option<ArtifactLocation>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ArtifactLocation {
    uri: Option<String>,
    index: Option<i64>,
    uri_base_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SarifResult {
    kind: Option<String>,
    baseline_state: Option<String>,
    #[serde(default)]
    suppressions: Option<Vec<Suppression>>,
    rule_id: Option<String>,
    rule_index: Option<i64>,
    #[serde(default)]
    rule: Option<RuleReference>,
    message: Option<Message>,
    #[serde(default)]
    locations: Vec<Location>,
    #[serde(default)]
    taxa: Vec<Taxon>,
    #[serde(default)]
    properties: Option<Properties>,
}

/// What `annotations export` says in a result's property bag; others may say something else by these names.
#[derive(Default, Deserialize)]
struct Properties {
    annotator: Option<Value>,
    cve: Option<Value>,
    cwe: Option<Value>,
    time: Option<Value>,
}

impl Properties {
    fn text(value: &Option<Value>) -> Option<&str> {
        value.as_ref().and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    fn texts(value: &Option<Value>) -> impl Iterator<Item = &str> {
        value.iter().filter_map(Value::as_array).flatten().filter_map(Value::as_str)
    }
}

#[derive(Deserialize)]
struct Suppression {
    status: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RuleReference {
    id: Option<String>,
    index: Option<i64>,
    #[serde(default)]
    tool_component: Option<ComponentReference>,
}

#[derive(Deserialize)]
struct ComponentReference {
    name: Option<String>,
    index: Option<i64>,
}

#[derive(Deserialize)]
struct Taxon {
    id: Option<String>,
}

#[derive(Deserialize)]
struct Message {
    text: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Location {
    physical_location: Option<PhysicalLocation>,
    #[serde(default)]
    logical_locations: Vec<LogicalLocation>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LogicalLocation {
    name: Option<String>,
    fully_qualified_name: Option<String>,
    kind: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PhysicalLocation {
    #[serde(default)]
    artifact_location: ArtifactLocation,
    region: Option<Region>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Region {
    start_line: Option<u64>,
    end_line: Option<u64>,
    start_column: Option<u64>,
    end_column: Option<u64>,
    snippet: Option<Message>,
}

pub(super) fn read(
    input: Input,
    name: &str,
) -> Result<impl Iterator<Item = Result<Sample, RowError>> + Send + use<>, String> {
    let mut input = input.take(MOST_BYTES);
    let log: Log = serde_json::from_reader(&mut input).map_err(|error| match input.limit() {
        0 => format!("it has more than {MOST_BYTES} bytes"),
        _ => native::message(&error),
    })?;
    if !log.version.starts_with("2.") {
        return Err(format!("it has version {:?}, expected 2.1.0", log.version));
    }
    let mut rows = Vec::new();
    let mut row = 0;
    for (number, run) in log.runs.into_iter().enumerate() {
        // Each run speaks for a tool of its own.
        let name = if number == 0 { name.to_string() } else { format!("{name}#{}", number + 1) };
        let files = Files { artifacts: run.artifacts, bases: run.original_uri_base_ids };
        let rules = Rules::new(&run.tool);
        for result in run.results.unwrap_or_default() {
            row += 1;
            match records(result, &files, &rules) {
                Ok(records) => {
                    rows.extend(records.into_iter().map(|(record, columns)| {
                        Ok(Sample { columns, ..sample(row, &name, String::new(), record) })
                    }));
                }
                Err(reason) => rows.push(Err(RowError { row, reason })),
            }
        }
    }
    Ok(rows.into_iter())
}

/// First and last column of a region, from 1; none where its line is not the region's any more.
type Columns = (Option<u64>, Option<u64>);

fn records(result: AnyResult, files: &Files, rules: &Rules) -> Result<Vec<(Record, Columns)>, RowProblem> {
    let result = result.0.map_err(RowProblem::NotARecord)?;
    // SARIF §3.27.9: without a kind it is `fail`.
    let kind = result.kind.as_deref().unwrap_or("fail");
    if !["fail", "review", "open"].contains(&kind) {
        return Err(RowProblem::NoFinding(format!("its kind is {kind:?}")));
    }
    if result.baseline_state.as_deref() == Some("absent") {
        return Err(RowProblem::NoFinding("its baselineState is \"absent\"".to_string()));
    }
    // SARIF §3.35: without a status it is accepted.
    let is_accepted = |status: &Option<String>| status.as_deref().is_none_or(|status| status == "accepted");
    if result.suppressions.iter().flatten().any(|suppression| is_accepted(&suppression.status)) {
        return Err(RowProblem::NoFinding("it is suppressed".to_string()));
    }
    if result.locations.is_empty() {
        return Err(RowProblem::NoLocation("it has no location".to_string()));
    }
    let reference = result.rule.unwrap_or_default();
    let rule = result.rule_id.as_deref().or(reference.id.as_deref());
    let of_rule = rules.cwe(rule, result.rule_index, &reference);
    let taxa = result.taxa.iter().filter_map(|taxon| taxon.id.as_deref());
    let properties = result.properties.unwrap_or_default();
    let cwe = identifiers(
        rule.into_iter()
            .chain(taxa)
            .chain(Properties::texts(&properties.cwe))
            .flat_map(cwe_numbers)
            .collect::<Vec<_>>()
            .iter()
            .chain(of_rule)
            .map(String::as_str),
    );
    let cve = identifiers(Properties::texts(&properties.cve));
    let annotator = Properties::text(&properties.annotator);
    let time = Properties::text(&properties.time).filter(|time| is_rfc3339(time));
    let note = result.message.and_then(|message| message.text).filter(|text| !text.is_empty());
    let line_label = if kind == "fail" { LineLabel::Flaw } else { LineLabel::Unsure };
    let label = if kind == "fail" { Label::Vulnerable } else { Label::Unsure };
    result
        .locations
        .into_iter()
        .map(|location| {
            let function = location
                .logical_locations
                .iter()
                .find(|logical| matches!(logical.kind.as_deref(), None | Some("function" | "member")))
                .and_then(|logical| logical.fully_qualified_name.clone().or(logical.name.clone()));
            let (file, range, lines, columns) = place(location, files, line_label)?;
            let record = Record {
                file: Some(file),
                function,
                range: Some(range),
                lines,
                cwe: cwe.clone(),
                cve: cve.clone(),
                annotator: annotator.map(str::to_string),
                time: time.map(str::to_string),
                source: Some(Provenance::Imported),
                note: note.clone(),
                ..Record::new(label)
            };
            Ok((record, columns))
        })
        .collect()
}

type Place = (String, (usize, usize), Vec<LabelledLine>, Columns);

fn place(location: Location, files: &Files, label: LineLabel) -> Result<Place, RowProblem> {
    let no_location = |reason: &str| RowProblem::NoLocation(reason.to_string());
    let physical = location.physical_location.ok_or_else(|| no_location("it has no physical location"))?;
    let file = files.uri(&physical.artifact_location).map_err(RowProblem::NoLocation)?;
    let region = physical.region.ok_or_else(|| no_location("it has no region"))?;
    let start = region.start_line.ok_or_else(|| no_location("its region has no start line"))?;
    let mut end = region.end_line.unwrap_or(start);
    let mut columns = (region.start_column, region.end_column);
    if region.end_column == Some(1) && end > start {
        end -= 1; // It ends before the first character of that line.
        columns.1 = None;
    }
    let zero = [region.start_column, region.end_column].contains(&Some(0));
    if zero
        || start == end && region.end_column.zip(region.start_column).is_some_and(|(end, start)| end < start)
    {
        return Err(no_location("its region's columns count from 1, and it does not end before it starts"));
    }
    if start == 0 || end < start || end - start >= MOST_LINES {
        return Err(RowProblem::NoLocation(format!("its region has lines {start} to {end}")));
    }
    let first = usize::try_from(start - 1).map_err(|_| no_location("its region is too far down"))?;
    let count = usize::try_from(end - start + 1).map_err(|_| no_location("its region is too long"))?;
    // A snippet is the region's text: whole lines only where no column says otherwise.
    let snippet = region.snippet.filter(|_| region.start_column.is_none()).and_then(|snippet| snippet.text);
    let texts: Vec<&str> = snippet.as_deref().map(|text| text.lines().collect()).unwrap_or_default();
    let lines = (0..count)
        .map(|line| LabelledLine {
            line,
            text: if texts.len() == count { texts[line].to_string() } else { String::new() },
            before: None,
            after: None,
            label,
        })
        .collect();
    Ok((file, (first, first + count - 1), lines, columns))
}

/// The CWEs of the rules of a run's tool: in their tags, as in `external/cwe/cwe-120`, and their names.
struct Rules {
    /// The driver, then the extensions.
    components: Vec<Component>,
}

struct Component {
    name: String,
    rules: Vec<Vec<String>>,
    by_id: HashMap<String, usize>,
}

impl Rules {
    fn new(tool: &Value) -> Rules {
        let extensions = tool.get("extensions").and_then(Value::as_array).into_iter().flatten();
        let components = std::iter::once(tool.get("driver").unwrap_or(&Value::Null)).chain(extensions);
        Rules { components: components.map(Component::new).collect() }
    }

    /// Of the rule that a result names, by its place or else by its id; the parts of an id after a `/` may be left out in
    /// the rule's (SARIF §3.27.5).
    fn cwe(&self, id: Option<&str>, index: Option<i64>, reference: &RuleReference) -> &[String] {
        let component = match &reference.tool_component {
            None => self.components.first(),
            Some(ComponentReference { index: Some(index), .. }) => {
                usize::try_from(*index).ok().and_then(|index| self.components.get(index + 1))
            }
            Some(ComponentReference { name, .. }) => {
                self.components.iter().find(|component| Some(&component.name) == name.as_ref())
            }
        };
        let of_index = || {
            let index = usize::try_from(index.or(reference.index)?).ok()?;
            component?.rules.get(index)
        };
        let of_id = || {
            let mut id = id?;
            loop {
                let of = |component: &'_ Component| component.by_id.get(id).copied();
                let mut all = component.into_iter().chain(&self.components);
                if let Some(found) = all.find_map(|component| component.rules.get(of(component)?)) {
                    return Some(found);
                }
                id = id.rsplit_once('/')?.0;
            }
        };
        of_index().or_else(of_id).map_or(&[], Vec::as_slice)
    }
}

impl Component {
    fn new(component: &Value) -> Component {
        let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_string);
        let mut by_id = HashMap::new();
        let mut rules = Vec::new();
        for rule in component.get("rules").and_then(Value::as_array).into_iter().flatten() {
            let id = text(rule, "id").unwrap_or_default();
            let tags = rule.pointer("/properties/tags").and_then(Value::as_array).into_iter().flatten();
            let mut cwe: Vec<String> = tags.filter_map(Value::as_str).flat_map(cwe_numbers).collect();
            cwe.extend(cwe_numbers(&id));
            by_id.entry(id).or_insert(rules.len());
            rules.push(cwe);
        }
        Component { name: text(component, "name").unwrap_or_default(), rules, by_id }
    }
}

struct Files {
    artifacts: Vec<Artifact>,
    bases: BTreeMap<String, ArtifactLocation>,
}

impl Files {
    /// The URI relative to the folder that the log speaks of.
    fn uri(&self, location: &ArtifactLocation) -> Result<String, String> {
        let of_index = || {
            let index = usize::try_from(location.index?).ok()?;
            self.artifacts.get(index)?.location.as_ref()
        };
        let location = match &location.uri {
            Some(_) => location,
            None => of_index().ok_or("it names no file")?,
        };
        let uri = location.uri.as_deref().unwrap_or_default();
        // A base that is itself relative is a folder below the one the log speaks of; an absolute one is that folder.
        let base = location
            .uri_base_id
            .as_ref()
            .and_then(|id| self.bases.get(id))
            .and_then(|base| base.uri.as_deref());
        let joined = match base {
            Some(base) if !base.contains(':') && !base.starts_with('/') => {
                format!("{}/{uri}", base.trim_end_matches('/'))
            }
            _ => uri.to_string(),
        };
        let path = uri::to_path(&joined)
            .ok_or_else(|| format!("{joined:?} is no relative URI inside the folder"))?;
        uri::from_path(&path).ok_or_else(|| format!("{joined:?} is no relative URI inside the folder"))
    }
}

/// `CWE-79` in a rule's name, as in `CWE-79`, `cwe_079` or `external/cwe/cwe-079`.
fn cwe_numbers(text: &str) -> Vec<String> {
    let lower = text.to_ascii_lowercase();
    lower
        .match_indices("cwe")
        .filter_map(|(at, _)| {
            let rest = lower[at + 3..].trim_start_matches(['-', '_', ' ']);
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            digits.parse::<u32>().ok().map(|number| format!("CWE-{number}"))
        })
        .collect()
}
