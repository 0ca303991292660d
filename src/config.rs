//! Configuration from all its sources, parsed once at the edge: raw keys → resolved [`Machine`] and [`Settings`].
//!
//! Sources, later ones win: defaults, user file (`$XDG_CONFIG_HOME/linelens/config.toml`), workspace file
//! (`linelens.toml`), `initializationOptions`, `workspace/configuration`, environment, flags. A workspace is untrusted:
//! keys of [`Machine`] count only from the user file, the environment and flags; elsewhere they are reported.

use crate::analysis::Options;
use crate::detector::session::SessionOptions;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Settings of the machine: what is loaded and run. Never taken from a workspace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machine {
    /// The ONNX Runtime library.
    pub library: Option<PathBuf>,
    /// The model directory.
    pub model: Option<PathBuf>,
    pub session: SessionOptions,
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
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    UserFile,
    WorkspaceFile,
    InitializationOptions,
    WorkspaceConfiguration,
    Environment,
    Flags,
}

/// A key or value that was not taken, as a sentence for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub source: Source,
    /// Dotted path of the key.
    pub key: String,
    pub message: String,
}

/// All layers of configuration.
#[derive(Clone, Debug)]
pub struct Config {}

impl Config {
    /// User file and environment of this process, then `flags` (the same keys as the files, as JSON).
    pub fn load(_flags: &serde_json::Value) -> (Config, Vec<Problem>) {
        todo!()
    }
    /// Replaces one layer. Bad keys and values are reported and leave that key's last good value of this layer.
    pub fn set_json(&mut self, _source: Source, _value: &serde_json::Value) -> Vec<Problem> {
        todo!()
    }
    /// Replaces one layer from TOML text; a syntax error is reported and leaves the layer as it was.
    pub fn set_toml(&mut self, _source: Source, _path: &Path, _text: &str) -> Vec<Problem> {
        todo!()
    }
    pub fn machine(&self) -> Machine {
        todo!()
    }
    pub fn settings(&self) -> Settings {
        todo!()
    }
}
