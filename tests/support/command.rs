//! Running the program in a folder of its own.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

pub fn linelens(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_linelens"));
    command.args(arguments).current_dir(folder).env("XDG_CONFIG_HOME", folder).env("NO_COLOR", "1");
    command
}

pub fn run(folder: &Path, arguments: &[&str]) -> Output {
    linelens(folder, arguments).output().unwrap()
}

pub fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

pub fn workspace(files: &[(&str, impl AsRef<[u8]>)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

/// The report of a run.
pub fn report(folder: &Path, run: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(folder.join(run).join("report.json")).unwrap()).unwrap()
}
