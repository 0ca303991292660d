//! A workspace folder on the disk, for tests of the language server; each test says how its server is set up.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::path::PathBuf;

pub struct Workspace {
    pub folder: tempfile::TempDir,
}

impl Workspace {
    pub fn new(files: &[(&str, &str)]) -> Workspace {
        let workspace = Workspace { folder: tempfile::tempdir().unwrap() };
        for (name, text) in files {
            workspace.write(name, text);
        }
        workspace
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::create_dir_all(self.path(name).parent().unwrap()).unwrap();
        std::fs::write(self.path(name), text).unwrap();
    }

    pub fn uri(&self, name: &str) -> String {
        format!("file://{}", self.path(name).display()).trim_end_matches('/').to_string()
    }
}
