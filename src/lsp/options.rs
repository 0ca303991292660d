//! Settings of each workspace folder, from all their sources.

use crate::config::{Config, Machine, Problem, Settings, Source, WORKSPACE_FILE, read_workspace_file};
use crate::explain::Method;
use serde_json::Value;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// All settings. The base holds for documents outside every folder.
#[derive(Debug)]
pub(crate) struct SettingsStore {
    base: Config,
    folders: Vec<Folder>,
    /// Chosen by command, for this session.
    method: Option<Method>,
    model: Option<PathBuf>,
    reported: HashSet<String>,
}

#[derive(Debug)]
struct Folder {
    root: PathBuf,
    config: Config,
    stamp: Option<SystemTime>,
}

/// A folder's file as it was read, outside any lock.
#[derive(Debug)]
pub(crate) struct WorkspaceFile {
    root: PathBuf,
    stamp: Option<SystemTime>,
    /// `Ok(None)`: there is none.
    text: Result<Option<String>, String>,
}

impl SettingsStore {
    pub(crate) fn new(base: Config) -> SettingsStore {
        SettingsStore { base, folders: Vec::new(), method: None, model: None, reported: HashSet::new() }
    }

    pub(crate) fn add_folder(&mut self, root: PathBuf) {
        if !self.folders.iter().any(|folder| folder.root == root) {
            self.folders.push(Folder { root, config: self.base.clone(), stamp: None });
        }
    }

    pub(crate) fn remove_folder(&mut self, root: &Path) {
        self.folders.retain(|folder| folder.root != root);
    }

    pub(crate) fn roots(&self) -> Vec<PathBuf> {
        self.folders.iter().map(|folder| folder.root.clone()).collect()
    }

    /// Settings that hold everywhere, such as `initializationOptions`.
    pub(crate) fn set_everywhere(&mut self, source: Source, value: &Value) -> Vec<Problem> {
        let problems = self.base.set_json(source, value);
        for folder in &mut self.folders {
            folder.config.set_json(source, value);
        }
        self.unreported(problems)
    }

    /// Settings that hold everywhere and those of single folders; where a folder has none, it has the others. A bad
    /// value of a folder leaves that folder's last good one.
    pub(crate) fn set_each(
        &mut self,
        source: Source,
        everywhere: &Value,
        folders: &[(PathBuf, Value)],
    ) -> Vec<Problem> {
        let mut problems = self.base.set_json(source, everywhere);
        for folder in &mut self.folders {
            let own = folders.iter().find(|(root, value)| *root == folder.root && !value.is_null());
            problems.extend(folder.config.set_json(source, own.map_or(everywhere, |(_, value)| value)));
        }
        self.unreported(problems)
    }

    pub(crate) fn user_file(&self) -> Option<PathBuf> {
        self.base.user_file().map(Path::to_path_buf)
    }

    /// Takes over the user's file.
    pub(crate) fn set_user_file(&mut self, text: &Result<Option<String>, String>) -> Vec<Problem> {
        let problems = self.base.set_user_file(text);
        for folder in &mut self.folders {
            folder.config.set_user_file(text);
        }
        self.unreported(problems)
    }

    /// Takes over a folder's file.
    pub(crate) fn set_file(&mut self, file: WorkspaceFile) -> Vec<Problem> {
        let path = file.root.join(WORKSPACE_FILE);
        let Some(folder) = self.folders.iter_mut().find(|folder| folder.root == file.root) else {
            return Vec::new();
        };
        folder.stamp = file.stamp;
        let problems = match file.text {
            Ok(text) => {
                folder.config.set_toml(Source::WorkspaceFile, &path, text.as_deref().unwrap_or_default())
            }
            Err(message) => {
                vec![Problem { source: Source::WorkspaceFile, key: String::new(), message }]
            }
        };
        self.unreported(problems)
    }

    /// Whether a folder's file has another time stamp than when it was read.
    pub(crate) fn is_outdated(&self, root: &Path, stamp: Option<SystemTime>) -> bool {
        self.folders.iter().any(|folder| folder.root == root && folder.stamp != stamp)
    }

    /// The problems that were not reported before.
    pub(crate) fn unreported(&mut self, problems: Vec<Problem>) -> Vec<Problem> {
        problems.into_iter().filter(|problem| self.reported.insert(problem.to_string())).collect()
    }

    /// With the model that was chosen by command.
    pub(crate) fn machine(&self) -> Machine {
        let mut machine = self.configured_machine();
        if self.model.is_some() {
            machine.model = self.model.clone();
        }
        machine
    }

    pub(crate) fn configured_machine(&self) -> Machine {
        self.base.machine()
    }

    /// The directory of the model that was chosen by command.
    pub(crate) fn model(&self) -> Option<&Path> {
        self.model.as_deref()
    }

    /// Only directories that [`Machine::models`] names may be given.
    pub(crate) fn set_model(&mut self, directory: Option<PathBuf>) {
        self.model = directory;
    }

    pub(crate) fn set_method(&mut self, method: Method) {
        self.method = Some(method);
    }

    fn folder_of(&self, document: &Path) -> Option<&Folder> {
        let holding = self.folders.iter().filter(|folder| document.starts_with(&folder.root));
        holding.max_by_key(|folder| folder.root.as_os_str().len())
    }

    /// The innermost folder that holds a document.
    pub(crate) fn root_of(&self, document: &Path) -> Option<PathBuf> {
        self.folder_of(document).map(|folder| folder.root.clone())
    }

    /// The settings of a document, by the innermost folder that holds it.
    pub(crate) fn settings(&self, document: Option<&Path>) -> Settings {
        let folder = document.and_then(|document| self.folder_of(document));
        let mut settings = folder.map_or(&self.base, |folder| &folder.config).settings();
        if let Some(method) = self.method {
            settings.options.method = method;
        }
        settings
    }
}

pub(crate) fn read_stamp(root: &Path) -> Option<SystemTime> {
    std::fs::metadata(root.join(WORKSPACE_FILE)).and_then(|metadata| metadata.modified()).ok()
}

pub(crate) fn read_file(root: PathBuf) -> WorkspaceFile {
    let stamp = read_stamp(&root);
    let text = read_workspace_file(&root);
    WorkspaceFile { root, stamp, text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_folder_without_settings_has_the_global_ones_and_keeps_its_last_good_value() {
        let root = PathBuf::from("/project");
        let mut store = SettingsStore::new(Config::default());
        store.add_folder(root.clone());
        let top = |store: &SettingsStore| store.settings(Some(Path::new("/project/a.c"))).top_lines;
        let set = |store: &mut SettingsStore, folder: Value| {
            let global = json!({"topLines": 7});
            store.set_each(Source::WorkspaceConfiguration, &global, &[(root.clone(), folder)]).len()
        };
        assert_eq!((set(&mut store, json!(null)), top(&store)), (0, 7));
        assert_eq!((set(&mut store, json!({"topLines": 3})), top(&store)), (0, 3));
        assert_eq!((set(&mut store, json!({"topLines": "many"})), top(&store)), (1, 3));
        assert_eq!((set(&mut store, json!(null)), top(&store)), (0, 7));
    }
}
