//! Configuration from all its sources, parsed once at the edge: raw keys → resolved [`Machine`] and [`Settings`].
//!
//! Sources, later ones win: defaults, user file (`$XDG_CONFIG_HOME/linelens/config.toml`), workspace file
//! (`linelens.toml`), `initializationOptions`, `workspace/configuration`, environment (`LINELENS_…`), flags.
//! A workspace is untrusted: the keys of [`Machine`] count only from the user file, the environment and flags; from
//! anywhere else they are reported and left out.

mod files;

pub use files::{WORKSPACE_FILE, read_settings_file, read_workspace_file, user_file};

use crate::analysis::{Granularity, Options, Profile};
use crate::annotations::policy::Policy;
use crate::annotations::store::NATIVE_FILE;
use crate::detector::session::{ProviderChoice, SessionOptions};
use crate::explain::{Method, Steps};
use crate::tokens::LongPolicy;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Settings of the machine: what is loaded and run. Never taken from a workspace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machine {
    /// The ONNX Runtime library.
    pub library: Option<PathBuf>,
    /// The model directory.
    pub model: Option<PathBuf>,
    /// Further model directories, which can be chosen by name.
    pub models: Vec<PathBuf>,
    pub session: SessionOptions,
    /// AttnLRP is not offered, whatever a workspace says.
    pub without_attnlrp: bool,
}

/// Which functions the server scores by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AnalyzeScope {
    /// The function under the cursor.
    Cursor,
    /// Functions in view, where the client says which these are.
    Visible,
    /// All functions of an open file.
    File,
}

/// How a flagged function is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    Error,
    Warning,
    Information,
    Hint,
}

/// Settings that a workspace may choose.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    pub options: Options,
    /// `None`: [`AnalyzeScope::File`] for a detector that needs under 50 ms a function, else [`AnalyzeScope::Cursor`].
    pub analyze: Option<AnalyzeScope>,
    pub debounce: Duration,
    pub severity: Severity,
    /// A diagnostic of severity hint on each of the top lines of a flagged function.
    pub line_hints: bool,
    /// How many top lines a diagnostic names.
    pub top_lines: usize,
    /// Whether inlay hints stand behind the most relevant lines.
    pub inlay_hints: bool,
    /// Annotation files of a workspace folder: paths relative to it, which may hold `*`, `**` and `?`.
    pub annotations: Vec<String>,
    /// Who labels; `None`: the user's name on this machine.
    pub annotator: Option<String>,
    /// What several annotators amount to.
    pub annotation_policy: Policy,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            options: Options::default(),
            analyze: None,
            debounce: Duration::from_millis(200),
            severity: Severity::Information,
            line_hints: false,
            top_lines: 5,
            inlay_hints: true,
            annotations: with_written(Vec::new()),
            annotator: None,
            annotation_policy: Policy::default(),
        }
    }
}

/// Where a value comes from; later variants win.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    UserFile,
    WorkspaceFile,
    InitializationOptions,
    WorkspaceConfiguration,
    Environment,
    Flags,
}

impl Source {
    /// Whether the source is the user's own, so that it may say what is loaded and run.
    fn is_trusted(self) -> bool {
        matches!(self, Source::UserFile | Source::Environment | Source::Flags)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Source::UserFile => "the user configuration",
            Source::WorkspaceFile => "the workspace's linelens.toml",
            Source::InitializationOptions => "initializationOptions",
            Source::WorkspaceConfiguration => "the editor's settings",
            Source::Environment => "the environment",
            Source::Flags => "the command line",
        })
    }
}

/// A key or value that was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub source: Source,
    /// Dotted path of the key; empty where the whole source is meant.
    pub key: String,
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.key.as_str() {
            "" => write!(f, "{}: {}", self.source, self.message),
            key => write!(f, "{}: `{key}`: {}", self.source, self.message),
        }
    }
}

/// A key of the schema: the same name in TOML, in JSON and (as `LINELENS_SNAKE_CASE`) in the environment.
#[derive(Clone, Copy)]
pub struct Key {
    pub name: &'static str,
    /// Whether a workspace may set it.
    pub workspace: bool,
    pub help: &'static str,
    parse: fn(&Value, &mut Layer) -> Result<(), String>,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("name", &self.name).field("workspace", &self.workspace).finish()
    }
}

impl Key {
    /// `executionProvider` → `LINELENS_EXECUTION_PROVIDER`.
    pub fn environment_variable(&self) -> String {
        let mut name = String::from("LINELENS_");
        for c in self.name.chars() {
            if c.is_ascii_uppercase() {
                name.push('_');
            }
            name.push(c.to_ascii_uppercase());
        }
        name
    }
}

macro_rules! keys {
    ($($name:literal, $workspace:expr, $help:literal, |$value:ident, $layer:ident| $parse:expr;)*) => {
        &[$(Key { name: $name, workspace: $workspace, help: $help, parse: |$value, $layer| { $parse; Ok(()) } }),*]
    };
}

/// The schema. `docs/configuration.md` describes every key; a test ties the two.
pub const KEYS: &[Key] = keys![
    "library", false, "path of the ONNX Runtime library", |v, layer| layer.library = Some(path(v)?);
    "model", false, "path of the model directory", |v, layer| layer.model = Some(path(v)?);
    "models", false, "paths of further model directories", |v, layer| layer.models = Some(paths(v)?);
    "executionProvider", false, "auto, cpu or cuda", |v, layer| layer.provider = Some(choice(v, PROVIDERS)?);
    "threads", false, "intra-op threads, 1 to 256", |v, layer| layer.threads = Some(integer(v, 1, 256)? as usize);
    "deviceId", false, "CUDA device, from 0", |v, layer| layer.device_id = Some(integer(v, 0, 1023)? as i32);
    "memoryLimitMib", false, "CUDA memory limit in MiB", |v, layer| {
        layer.memory_limit = Some(integer(v, 1, 1 << 24)? as usize * (1 << 20))
    };
    "attnlrp", false, "whether the method AttnLRP may be used", |v, layer| layer.attnlrp = Some(boolean(v)?);
    "method", true, "explanation method", |v, layer| {
        layer.method = Some(string(v)?.parse::<Method>().map_err(|e| e.to_string())?)
    };
    "profile", true, "editor, paper or reference", |v, layer| layer.profile = Some(string(v)?.parse::<Profile>()?);
    "threshold", true, "flag a function when its probability exceeds this", |v, layer| {
        layer.threshold = Some(probability(v)?)
    };
    "long", true, "long functions: window or truncate", |v, layer| layer.long = Some(choice(v, LONG)?);
    "steps", true, "integrated gradients: auto or a number of steps", |v, layer| layer.steps = Some(steps(v)?);
    "absolute", true, "sum |relevance| instead of signed relevance", |v, layer| layer.absolute = Some(boolean(v)?);
    "granularity", true, "sum relevance over: line or statement", |v, layer| {
        layer.granularity = Some(choice(v, GRANULARITY)?)
    };
    "analyze", true, "what is scored unasked: cursor, visible or file", |v, layer| {
        layer.analyze = Some(choice(v, ANALYZE)?)
    };
    "debounceMs", true, "pause after an edit before work starts, 0 to 10000 ms", |v, layer| {
        layer.debounce = Some(Duration::from_millis(integer(v, 0, 10_000)? as u64))
    };
    "severity", true, "error, warning, information or hint", |v, layer| layer.severity = Some(choice(v, SEVERITY)?);
    "lineHints", true, "a hint on each top line of a flagged function", |v, layer| {
        layer.line_hints = Some(boolean(v)?)
    };
    "topLines", true, "how many top lines are shown of a function, 0 to 50", |v, layer| {
        layer.top_lines = Some(integer(v, 0, 50)? as usize)
    };
    "inlayHints", true, "a hint behind each relevant line", |v, layer| layer.inlay_hints = Some(boolean(v)?);
    "annotations", true, "annotation files, relative to the workspace folder; globs", |v, layer| {
        layer.annotations = Some(strings(v)?)
    };
    "annotator", true, "who labels in the editor", |v, layer| layer.annotator = Some(name(v)?);
    "annotationPolicy", true, "majority, union, intersection or annotator:NAME", |v, layer| {
        layer.annotation_policy = Some(string(v)?.parse::<Policy>()?)
    };
];

const PROVIDERS: &[(&str, ProviderChoice)] =
    &[("auto", ProviderChoice::Auto), ("cpu", ProviderChoice::Cpu), ("cuda", ProviderChoice::Cuda)];
const LONG: &[(&str, LongPolicy)] = &[("window", LongPolicy::Window), ("truncate", LongPolicy::Truncate)];
const GRANULARITY: &[(&str, Granularity)] =
    &[("line", Granularity::Line), ("statement", Granularity::Statement)];
const ANALYZE: &[(&str, AnalyzeScope)] =
    &[("cursor", AnalyzeScope::Cursor), ("visible", AnalyzeScope::Visible), ("file", AnalyzeScope::File)];
const SEVERITY: &[(&str, Severity)] = &[
    ("error", Severity::Error),
    ("warning", Severity::Warning),
    ("information", Severity::Information),
    ("hint", Severity::Hint),
];

/// The keys that one source set.
#[derive(Clone, Debug, Default, PartialEq)]
struct Layer {
    library: Option<PathBuf>,
    model: Option<PathBuf>,
    models: Option<Vec<PathBuf>>,
    provider: Option<ProviderChoice>,
    threads: Option<usize>,
    device_id: Option<i32>,
    memory_limit: Option<usize>,
    attnlrp: Option<bool>,
    method: Option<Method>,
    profile: Option<Profile>,
    threshold: Option<f64>,
    long: Option<LongPolicy>,
    absolute: Option<bool>,
    granularity: Option<Granularity>,
    steps: Option<Steps>,
    analyze: Option<AnalyzeScope>,
    debounce: Option<Duration>,
    severity: Option<Severity>,
    line_hints: Option<bool>,
    top_lines: Option<usize>,
    inlay_hints: Option<bool>,
    annotations: Option<Vec<String>>,
    annotator: Option<String>,
    annotation_policy: Option<Policy>,
}

/// The raw values that one source set, each already known to be good.
type Accepted = Map<String, Value>;

/// All layers of configuration.
#[derive(Clone, Debug, Default)]
pub struct Config {
    accepted: BTreeMap<Source, Accepted>,
    /// The user file, which need not be there. Relative paths in it start at its folder.
    user_file: Option<PathBuf>,
}

impl Config {
    /// User file and environment of this process, then `flags` (the same keys as the files, as JSON).
    pub fn load(flags: &Value) -> (Config, Vec<Problem>) {
        Self::load_from(flags, |name| std::env::var_os(name))
    }

    /// [`Config::load`] with the environment as a function, so that tests need no process-wide state.
    pub fn load_from(
        flags: &Value,
        environment: impl Fn(&str) -> Option<OsString>,
    ) -> (Config, Vec<Problem>) {
        let mut config = Config::default();
        let mut problems = Vec::new();
        if let Some(path) = user_file(&environment) {
            let text = read_settings_file(&path);
            config.user_file = Some(path);
            problems.extend(config.set_user_file(&text));
        }
        let mut variables = Map::new();
        for key in KEYS {
            let Some(value) = environment(&key.environment_variable()).filter(|v| !v.is_empty()) else {
                continue;
            };
            match value.into_string() {
                Ok(text) => {
                    variables.insert(key.name.to_string(), typed(&text));
                }
                Err(_) => problems.push(Problem {
                    source: Source::Environment,
                    key: key.environment_variable(),
                    message: "the value is not UTF-8".to_string(),
                }),
            }
        }
        problems.extend(config.set_json(Source::Environment, &Value::Object(variables)));
        problems.extend(config.set_json(Source::Flags, flags));
        (config, problems)
    }

    /// Replaces one layer. A bad value is reported, and the key keeps the layer's last good value.
    pub fn set_json(&mut self, source: Source, value: &Value) -> Vec<Problem> {
        let problem = |key: &str, message: String| Problem { source, key: key.to_string(), message };
        let object = match value {
            Value::Null => {
                self.accepted.remove(&source);
                return Vec::new();
            }
            // With the section's name around it, too.
            Value::Object(object) => match object.get("linelens") {
                Some(Value::Object(section)) if object.len() == 1 => section,
                _ => object,
            },
            other => {
                return vec![problem("", format!("expected an object with settings, found {}", kind(other)))];
            }
        };
        let last = self.accepted.get(&source).cloned().unwrap_or_default();
        let mut accepted = Map::new();
        let mut problems = Vec::new();
        for (name, value) in object {
            if value.is_null() {
                continue;
            }
            let Some(key) = KEYS.iter().find(|key| key.name == name) else {
                problems.push(problem(name, unknown_key(name, source)));
                continue;
            };
            if !key.workspace && !source.is_trusted() {
                problems.push(problem(
                    name,
                    "ignored: it says what is loaded and run, so it is taken only from the command line, the \
                     environment or the user configuration"
                        .to_string(),
                ));
                continue;
            }
            match (key.parse)(value, &mut Layer::default()) {
                Ok(()) => {
                    accepted.insert(name.clone(), value.clone());
                }
                Err(message) => {
                    problems.push(problem(name, message));
                    if let Some(good) = last.get(name) {
                        accepted.insert(name.clone(), good.clone());
                    }
                }
            }
        }
        self.accepted.insert(source, accepted);
        problems
    }

    /// Replaces one layer from TOML text; a syntax error is reported and leaves the layer as it was.
    pub fn set_toml(&mut self, source: Source, path: &Path, text: &str) -> Vec<Problem> {
        match toml::from_str::<Value>(text) {
            Ok(value) => self.set_json(source, &value),
            Err(error) => {
                let line = error
                    .span()
                    .map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
                let message = format!("{}, line {line}: not TOML: {}", path.display(), error.message());
                vec![Problem { source, key: String::new(), message }]
            }
        }
    }

    /// The user file, where the environment says of one.
    pub fn user_file(&self) -> Option<&Path> {
        self.user_file.as_deref()
    }

    /// Takes over the user file as [`read_settings_file`] found it.
    pub fn set_user_file(&mut self, text: &Result<Option<String>, String>) -> Vec<Problem> {
        match text {
            Ok(text) => {
                let path = self.user_file.clone().unwrap_or_default();
                self.set_toml(Source::UserFile, &path, text.as_deref().unwrap_or_default())
            }
            Err(message) => {
                vec![Problem { source: Source::UserFile, key: String::new(), message: message.clone() }]
            }
        }
    }

    pub fn machine(&self) -> Machine {
        let layer = self.resolve();
        Machine {
            library: layer.library,
            model: layer.model,
            models: layer.models.unwrap_or_default(),
            session: SessionOptions {
                provider: layer.provider.unwrap_or_default(),
                threads: layer.threads,
                device_id: layer.device_id.unwrap_or_default(),
                memory_limit: layer.memory_limit,
                few_runs: false,
            },
            without_attnlrp: layer.attnlrp == Some(false),
        }
    }

    pub fn settings(&self) -> Settings {
        let layer = self.resolve();
        let default = Settings::default();
        Settings {
            options: Options {
                method: layer.method.unwrap_or_default(),
                profile: layer.profile.unwrap_or_default(),
                threshold: layer.threshold,
                long: layer.long,
                absolute: layer.absolute.unwrap_or_default(),
                granularity: layer.granularity.unwrap_or_default(),
                steps: layer.steps,
                faithfulness: false,
            },
            analyze: layer.analyze,
            debounce: layer.debounce.unwrap_or(default.debounce),
            severity: layer.severity.unwrap_or(default.severity),
            line_hints: layer.line_hints.unwrap_or(default.line_hints),
            top_lines: layer.top_lines.unwrap_or(default.top_lines),
            inlay_hints: layer.inlay_hints.unwrap_or(default.inlay_hints),
            annotations: with_written(layer.annotations.unwrap_or_default()),
            annotator: layer.annotator,
            annotation_policy: layer.annotation_policy.unwrap_or_default(),
        }
    }

    /// One layer over the other, in the order of [`Source`].
    fn resolve(&self) -> Layer {
        let mut layer = Layer::default();
        for (source, accepted) in &self.accepted {
            for key in KEYS {
                let Some(value) = accepted.get(key.name) else { continue };
                // Accepted values parsed once already, so this cannot fail.
                let _ = (key.parse)(value, &mut layer);
                if *source == Source::UserFile && !key.workspace {
                    self.anchor(&mut layer);
                }
            }
        }
        layer
    }

    /// Relative paths of the user file start at its folder.
    fn anchor(&self, layer: &mut Layer) {
        let Some(folder) = self.user_file.as_deref().and_then(Path::parent) else { return };
        let single = [&mut layer.library, &mut layer.model].into_iter().flatten();
        for path in single.chain(layer.models.iter_mut().flatten()) {
            *path = folder.join(&*path);
        }
    }
}

/// The file that the editor writes is always read.
fn with_written(mut annotations: Vec<String>) -> Vec<String> {
    if !annotations.iter().any(|name| name == NATIVE_FILE) {
        annotations.insert(0, NATIVE_FILE.to_string());
    }
    annotations
}

/// An environment variable has no types: what reads as a number or a truth value is one.
fn typed(text: &str) -> Value {
    match serde_json::from_str(text) {
        Ok(value @ (Value::Number(_) | Value::Bool(_))) => value,
        _ => Value::String(text.to_string()),
    }
}

/// Names the keys that the source may set.
fn unknown_key(name: &str, source: Source) -> String {
    let close = KEYS
        .iter()
        .map(|key| key.name)
        .find(|known| known.eq_ignore_ascii_case(&name.replace(['-', '_'], "")));
    match close {
        Some(known) => format!("unknown key; did you mean `{known}`?"),
        None => {
            let may_set = KEYS.iter().filter(|key| key.workspace || source.is_trusted());
            let names: Vec<_> = may_set.map(|key| key.name).collect();
            let which = if source.is_trusted() { "" } else { " that count here" };
            format!("unknown key; the keys{which} are {}", names.join(", "))
        }
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn string(value: &Value) -> Result<&str, String> {
    value.as_str().ok_or_else(|| format!("expected a string, found {}", kind(value)))
}

/// A list, or one.
fn strings(value: &Value) -> Result<Vec<String>, String> {
    match value {
        Value::Array(values) => values.iter().map(|value| string(value).map(str::to_string)).collect(),
        value => Ok(vec![string(value)?.to_string()]),
    }
}

/// A name that is not empty and fits on a line.
fn name(value: &Value) -> Result<String, String> {
    match string(value)?.trim() {
        "" => Err("expected a name, found an empty string".to_string()),
        name if name.chars().any(char::is_control) => {
            Err("expected a name, found control characters".to_string())
        }
        name => Ok(name.to_string()),
    }
}

fn path(value: &Value) -> Result<PathBuf, String> {
    match value {
        // A folder may be named like a number; see `typed`.
        Value::Number(number) => Ok(PathBuf::from(number.to_string())),
        value => match string(value)? {
            "" => Err("expected a path, found an empty string".to_string()),
            text => Ok(PathBuf::from(text)),
        },
    }
}

/// A list, or paths separated as in `PATH`.
fn paths(value: &Value) -> Result<Vec<PathBuf>, String> {
    match value {
        Value::Array(values) => values.iter().map(path).collect(),
        Value::String(text) if !text.is_empty() => Ok(std::env::split_paths(text).collect()),
        value => Ok(vec![path(value)?]),
    }
}

fn boolean(value: &Value) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| format!("expected true or false, found {}", kind(value)))
}

fn integer(value: &Value, low: i64, high: i64) -> Result<i64, String> {
    match value.as_i64() {
        Some(number) if (low..=high).contains(&number) => Ok(number),
        Some(number) => Err(format!("expected a whole number from {low} to {high}, found {number}")),
        None => Err(format!("expected a whole number from {low} to {high}, found {}", shown(value))),
    }
}

fn steps(value: &Value) -> Result<Steps, String> {
    match value {
        Value::Number(number) => number.to_string().parse(),
        value => string(value)?.parse(),
    }
}

fn probability(value: &Value) -> Result<f64, String> {
    match value.as_f64() {
        Some(number) if (0.0..=1.0).contains(&number) => Ok(number),
        _ => Err(format!("expected a number from 0 to 1, found {}", shown(value))),
    }
}

fn choice<T: Copy>(value: &Value, choices: &[(&str, T)]) -> Result<T, String> {
    let text = string(value)?;
    let names = || choices.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let found = choices.iter().find(|(name, _)| *name == text);
    found.map(|(_, choice)| *choice).ok_or_else(|| format!("expected one of {}, found \"{text}\"", names()))
}

fn shown(value: &Value) -> String {
    match value {
        Value::Number(number) => number.to_string(),
        other => kind(other).to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::Layer as EncoderLayer;
    use serde_json::json;

    fn empty() -> Config {
        Config::load_from(&Value::Null, |_| None).0
    }

    #[test]
    fn later_sources_win() {
        let mut config = empty();
        for (source, threshold) in [
            (Source::Flags, 0.6),
            (Source::Environment, 0.5),
            (Source::WorkspaceConfiguration, 0.4),
            (Source::InitializationOptions, 0.3),
            (Source::WorkspaceFile, 0.2),
            (Source::UserFile, 0.1),
        ] {
            assert_eq!(config.set_json(source, &json!({"threshold": threshold})), []);
            assert_eq!(config.settings().options.threshold, Some(0.6));
        }
        config.set_json(Source::Flags, &Value::Null);
        assert_eq!(config.settings().options.threshold, Some(0.5));
    }

    #[test]
    fn a_workspace_cannot_say_what_is_loaded_and_run() {
        let keys = json!({"library": "/tmp/x.so", "model": "/tmp/m", "models": ["/tmp/n"], "executionProvider": "cuda", "threads": 200,
            "deviceId": 3, "memoryLimitMib": 1, "attnlrp": false});
        for source in [Source::WorkspaceFile, Source::InitializationOptions, Source::WorkspaceConfiguration] {
            let mut config = empty();
            let problems = config.set_json(source, &keys);
            assert_eq!(problems.len(), 8, "{problems:?}");
            assert!(problems.iter().all(|p| p.message.starts_with("ignored")));
            assert_eq!(config.machine(), Machine::default());
        }
        for source in [Source::UserFile, Source::Environment, Source::Flags] {
            let mut config = empty();
            assert_eq!(config.set_json(source, &keys), []);
            assert_eq!(config.machine().library, Some("/tmp/x.so".into()));
            assert_eq!(config.machine().models, [PathBuf::from("/tmp/n")]);
            assert_eq!(config.machine().session.memory_limit, Some(1 << 20));
            assert!(config.machine().without_attnlrp);
        }
    }

    #[test]
    fn every_machine_key_is_closed_to_workspaces() {
        let closed: Vec<_> = KEYS.iter().filter(|k| !k.workspace).map(|k| k.name).collect();
        assert_eq!(
            closed,
            [
                "library",
                "model",
                "models",
                "executionProvider",
                "threads",
                "deviceId",
                "memoryLimitMib",
                "attnlrp"
            ]
        );
    }

    #[test]
    fn bad_values_are_reported_and_the_last_good_one_stays() {
        let mut config = empty();
        config.set_json(Source::WorkspaceFile, &json!({"threshold": 0.3, "method": "attention:2"}));
        let problems =
            config.set_json(Source::WorkspaceFile, &json!({"threshold": 7, "method": "attention:0"}));
        assert_eq!(problems.len(), 2);
        assert_eq!(
            problems[0].to_string(),
            "the workspace's linelens.toml: `threshold`: expected a number from 0 to 1, found 7"
        );
        assert_eq!(config.settings().options.threshold, Some(0.3));
        assert_eq!(config.settings().options.method, Method::Attention(EncoderLayer::Number(2)));
        config.set_json(Source::WorkspaceFile, &json!({}));
        assert_eq!(config.settings().options.threshold, None, "a key that is gone is unset");
    }

    #[test]
    fn wrong_keys_are_reported_with_their_path() {
        let mut config = empty();
        let problems =
            config.set_json(Source::WorkspaceConfiguration, &json!({"line_hints": true, "colour": 1}));
        assert_eq!(problems[0].message, "unknown key; did you mean `lineHints`?");
        assert_eq!(problems[1].key, "colour");
        assert!(
            problems[1].message.contains("that count here are method, profile, threshold"),
            "{}",
            problems[1]
        );
        assert!(!problems[1].message.contains("library"), "{}: it would be ignored", problems[1]);
        let problems = config.set_json(Source::UserFile, &json!({"colour": 1}));
        assert!(problems[0].message.contains("library"), "{}", problems[0]);
        let problems = config.set_json(Source::InitializationOptions, &json!([1]));
        assert_eq!(problems[0].message, "expected an object with settings, found an array");
    }

    #[test]
    fn a_section_with_the_name_is_the_same() {
        let mut config = empty();
        assert_eq!(
            config.set_toml(Source::WorkspaceFile, Path::new("l.toml"), "[linelens]\nmethod = \"ig\"\n"),
            []
        );
        assert_eq!(config.settings().options.method, Method::IntegratedGradients);
    }

    #[test]
    fn toml_syntax_errors_name_file_and_line_and_keep_the_layer() {
        let mut config = empty();
        config.set_toml(Source::WorkspaceFile, Path::new("linelens.toml"), "threshold = 0.25\n");
        let problems = config.set_toml(
            Source::WorkspaceFile,
            Path::new("linelens.toml"),
            "threshold = 0.5\nlong = = 1\n",
        );
        assert!(
            problems[0].message.starts_with("linelens.toml, line 2: not TOML"),
            "{}",
            problems[0].message
        );
        assert_eq!(config.settings().options.threshold, Some(0.25));
    }

    #[test]
    fn environment_and_user_file() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("linelens")).unwrap();
        std::fs::write(
            folder.path().join("linelens/config.toml"),
            "model = \"models/mine\"\nmodels = [\"models/other\", \"/m\"]\nlibrary = \"/opt/libonnxruntime.so\"\nlineHints = true\ntopLines = -1\n",
        )
        .unwrap();
        let (config, problems) = Config::load_from(&json!({"absolute": true}), |name| match name {
            "XDG_CONFIG_HOME" => Some(folder.path().into()),
            "LINELENS_THREADS" => Some("3".into()),
            "LINELENS_EXECUTION_PROVIDER" => Some("cpu".into()),
            "LINELENS_THRESHOLD" => Some("high".into()),
            _ => None,
        });
        let keys: Vec<_> = problems.iter().map(|p| p.key.as_str()).collect();
        assert_eq!(keys, ["topLines", "threshold"]);
        assert_eq!(config.machine().model, Some(folder.path().join("linelens/models/mine")));
        let other = folder.path().join("linelens/models/other");
        assert_eq!(config.machine().models, [other, "/m".into()]);
        assert_eq!(config.machine().library, Some("/opt/libonnxruntime.so".into()));
        assert_eq!(config.machine().session.threads, Some(3));
        assert_eq!(config.machine().session.provider, ProviderChoice::Cpu);
        assert!(config.settings().options.absolute);
        assert!(config.settings().line_hints);
    }
}
