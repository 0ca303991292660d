//! Where the ONNX Runtime library and the model directory are. Never inside the workspace that is open, unless the
//! user named the place in a flag, the environment or the user configuration.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

/// A place and how it was found, e.g. `ORT_DYLIB_PATH` or `beside the executable`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    pub path: PathBuf,
    pub how: String,
}

/// Nothing was found. `Display` lists every place that was looked at and says what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocateError {
    what: &'static str,
    looked: Vec<String>,
    advice: &'static str,
}

impl fmt::Display for LocateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} was not found. Looked at:", self.what)?;
        for place in &self.looked {
            writeln!(f, "  - {place}")?;
        }
        f.write_str(self.advice)
    }
}

impl std::error::Error for LocateError {}

const LIBRARY_ADVICE: &str = "Install it with `pip install onnxruntime` (1.24 or newer) and set ORT_DYLIB_PATH to its libonnxruntime.so, or set `library = \"/path/to/libonnxruntime.so\"` in the user configuration.";
const MODEL_ADVICE: &str = "Set LINELENS_MODEL to a model directory (model.onnx, tokenizer.json, config.json), or `model = \"/path/to/directory\"` in the user configuration, or pass --model.";

/// What of the process the search depends on.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    pub executable: Option<PathBuf>,
    /// `ORT_DYLIB_PATH`
    pub ort_dylib_path: Option<OsString>,
    /// `LINELENS_MODEL`
    pub linelens_model: Option<OsString>,
    /// `XDG_DATA_HOME`
    pub data_home: Option<OsString>,
    /// `HOME`
    pub home: Option<OsString>,
}

impl Surroundings {
    pub fn of_this_process() -> Surroundings {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        Surroundings {
            executable: std::env::current_exe().ok(),
            ort_dylib_path: variable("ORT_DYLIB_PATH"),
            linelens_model: variable("LINELENS_MODEL"),
            data_home: variable("XDG_DATA_HOME"),
            home: variable("HOME"),
        }
    }
}

/// The ONNX Runtime library: the explicit setting, else the environment, else what lies near the executable.
pub fn library(explicit: Option<&Path>, workspace: &[PathBuf]) -> Result<Located, LocateError> {
    library_in(&Surroundings::of_this_process(), explicit, workspace)
}

/// The model directory: the explicit setting, else the environment, else what lies near the executable.
pub fn model(explicit: Option<&Path>, workspace: &[PathBuf]) -> Result<Located, LocateError> {
    model_in(&Surroundings::of_this_process(), explicit, workspace)
}

/// [`library`] with the process's surroundings given.
pub fn library_in(
    surroundings: &Surroundings,
    explicit: Option<&Path>,
    workspace: &[PathBuf],
) -> Result<Located, LocateError> {
    let error = |looked| LocateError { what: "The ONNX Runtime library", looked, advice: LIBRARY_ADVICE };
    let named = [
        (explicit.map(Path::to_path_buf), "the setting `library`"),
        (surroundings.ort_dylib_path.clone().map(PathBuf::from), "ORT_DYLIB_PATH"),
    ];
    if let Some((Some(path), how)) = named.into_iter().find(|(path, _)| path.is_some()) {
        let path = absolute(&path);
        let file =
            if path.is_dir() { newest_library(&path) } else { Some(path.clone()).filter(|p| p.exists()) };
        return match file {
            Some(path) => Ok(Located { path, how: how.to_string() }),
            None => Err(error(vec![format!("{} ({how}): no library there", path.display())])),
        };
    }
    let mut search = Search::new(surroundings, workspace);
    let mut folders: Vec<(PathBuf, &str)> = Vec::new();
    for folder in &search.executable_folders {
        folders.push((folder.clone(), "beside the executable"));
        if let Some(prefix) = folder.parent() {
            folders.push((prefix.join("lib"), "the lib folder beside the executable's"));
            folders.extend(
                python_folders(prefix).into_iter().map(|f| (f, "the executable's Python environment")),
            );
        }
    }
    if let Some(root) = &search.source_tree {
        let environment = root.join(".linelens-env");
        folders
            .extend(python_folders(&environment).into_iter().map(|f| (f, "the source tree's environment")));
    }
    if let Some(data) = user_data(surroundings) {
        folders.push((data.join("lib"), "the user's data folder"));
        let python = python_folders(&data);
        folders.extend(python.into_iter().map(|f| (f, "the Python environment in the user's data folder")));
    }
    for (folder, how) in folders {
        let found = newest_library(&folder);
        if let Some(located) = search.consider(&folder, found, how) {
            return Ok(located);
        }
    }
    Err(error(search.looked))
}

/// [`model`] with the process's surroundings given.
pub fn model_in(
    surroundings: &Surroundings,
    explicit: Option<&Path>,
    workspace: &[PathBuf],
) -> Result<Located, LocateError> {
    let error = |looked| LocateError { what: "The model directory", looked, advice: MODEL_ADVICE };
    let named = [
        (explicit.map(Path::to_path_buf), "the setting `model`"),
        (surroundings.linelens_model.clone().map(PathBuf::from), "LINELENS_MODEL"),
    ];
    if let Some((Some(path), how)) = named.into_iter().find(|(path, _)| path.is_some()) {
        let path = absolute(&path);
        return match (path.is_dir(), path.exists()) {
            (true, _) => Ok(Located { path, how: how.to_string() }),
            (_, true) => {
                Err(error(vec![format!("{} ({how}): a file, expected a directory", path.display())]))
            }
            _ => Err(error(vec![format!("{} ({how}): no such directory", path.display())])),
        };
    }
    let mut search = Search::new(surroundings, workspace);
    let mut folders: Vec<(PathBuf, &str)> = Vec::new();
    for folder in &search.executable_folders {
        folders.push((folder.join("models/default"), "beside the executable"));
        if let Some(prefix) = folder.parent() {
            folders.push((
                prefix.join("share/linelens/models/default"),
                "the share folder beside the executable's",
            ));
        }
    }
    if let Some(root) = &search.source_tree {
        folders.push((root.join("models/default"), "the source tree"));
    }
    if let Some(data) = user_data(surroundings) {
        folders.push((data.join("models/default"), "the user's data folder"));
    }
    for (folder, how) in folders {
        let found = Some(folder.clone()).filter(|f| f.is_dir());
        if let Some(located) = search.consider(&folder, found, how) {
            return Ok(located);
        }
    }
    Err(error(search.looked))
}

struct Search {
    /// The folder of the executable, also where symbolic links lead.
    executable_folders: Vec<PathBuf>,
    source_tree: Option<PathBuf>,
    /// Open folders in which nothing may be discovered, as given and resolved.
    forbidden: Vec<PathBuf>,
    looked: Vec<String>,
}

impl Search {
    fn new(surroundings: &Surroundings, workspace: &[PathBuf]) -> Search {
        let mut executables: Vec<PathBuf> = surroundings.executable.iter().cloned().collect();
        if let Some(resolved) = surroundings.executable.as_ref().and_then(|e| e.canonicalize().ok())
            && !executables.contains(&resolved)
        {
            executables.push(resolved);
        }
        let resolved_executable = executables.last().cloned();
        let mut forbidden = Vec::new();
        for folder in workspace {
            let resolved = folder.canonicalize().unwrap_or_else(|_| folder.clone());
            // Who runs a linelens that lies in the folder trusts the folder already.
            if resolved_executable.as_ref().is_some_and(|e| e.starts_with(&resolved)) {
                continue;
            }
            forbidden.extend([folder.clone(), resolved]);
        }
        Search {
            source_tree: executables.iter().find_map(|e| source_tree(e)),
            executable_folders: executables
                .iter()
                .filter_map(|e| e.parent().map(Path::to_path_buf))
                .collect(),
            forbidden,
            looked: Vec::new(),
        }
    }

    /// Takes what was discovered in `folder`, unless it lies in an open workspace folder.
    fn consider(&mut self, folder: &Path, found: Option<PathBuf>, how: &str) -> Option<Located> {
        let Some(path) = found else {
            self.looked.push(format!("{} ({how}): nothing there", folder.display()));
            return None;
        };
        let resolved = path.canonicalize().unwrap_or_else(|_| path.clone());
        if let Some(open) = self.forbidden.iter().find(|f| path.starts_with(f) || resolved.starts_with(f)) {
            self.looked.push(format!(
                "{} ({how}): skipped, since it lies in the open workspace folder {}, which is not trusted",
                path.display(),
                open.display()
            ));
            return None;
        }
        Some(Located { path, how: how.to_string() })
    }
}

/// linelens's folder among the user's data.
fn user_data(surroundings: &Surroundings) -> Option<PathBuf> {
    // The specification says to ignore a relative path: it would depend on the folder linelens is started in.
    let named = surroundings.data_home.clone().map(PathBuf::from).filter(|path| path.is_absolute());
    let data =
        named.or_else(|| surroundings.home.clone().map(|home| PathBuf::from(home).join(".local/share")))?;
    Some(data.join("linelens"))
}

/// ROOT of an executable ROOT/target/…, where ROOT holds a Cargo.toml.
fn source_tree(executable: &Path) -> Option<PathBuf> {
    executable
        .ancestors()
        .filter(|folder| folder.file_name() == Some(OsStr::new("target")))
        .filter_map(Path::parent)
        .find(|root| root.join("Cargo.toml").is_file())
        .map(Path::to_path_buf)
}

/// Where a Python environment with this prefix keeps ONNX Runtime.
fn python_folders(prefix: &Path) -> Vec<PathBuf> {
    const INSIDE: &str = "onnxruntime/capi";
    let mut folders = vec![prefix.join("Lib/site-packages").join(INSIDE)];
    for lib in ["lib", "lib64"] {
        let entries = std::fs::read_dir(prefix.join(lib)).into_iter().flatten().flatten();
        let mut pythons: Vec<PathBuf> = entries
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("python"))
            // Debian's own Python has the latter.
            .flat_map(|entry| ["site-packages", "dist-packages"].map(|packages| entry.path().join(packages)))
            .map(|packages| packages.join(INSIDE))
            .collect();
        pythons.sort();
        folders.extend(pythons);
    }
    let there: Vec<PathBuf> = folders.iter().filter(|f| f.is_dir()).cloned().collect();
    // So that an error names a place even where there is no Python environment at all.
    if there.is_empty() { vec![prefix.join("lib/python*/site-packages").join(INSIDE)] } else { there }
}

/// The library in a folder: the one of the package `onnxruntime-gpu`, which shares its folder with `onnxruntime`, else
/// the newest where there are several versions.
fn newest_library(folder: &Path) -> Option<PathBuf> {
    let with_cuda = gpu_version(folder).map(|version| format!("libonnxruntime.so.{version}"));
    let numbers = |path: &PathBuf| -> Vec<u64> {
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        name.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect()
    };
    std::fs::read_dir(folder)
        .ok()?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
            name == "libonnxruntime.so"
                || name.starts_with("libonnxruntime.so.")
                || name == "onnxruntime.dll"
                || (name.starts_with("libonnxruntime.") && name.ends_with(".dylib"))
        })
        .max_by_key(|path| {
            let is_with_cuda = path.file_name().and_then(OsStr::to_str) == with_cuda.as_deref();
            (is_with_cuda, numbers(path), path.clone())
        })
}

/// The version of the package `onnxruntime-gpu` that a folder …/site-packages/onnxruntime/capi is of.
fn gpu_version(capi: &Path) -> Option<String> {
    let packages = capi.parent()?.parent()?;
    let names = std::fs::read_dir(packages).ok()?.flatten().map(|entry| entry.file_name());
    let versions = names.filter_map(|name| {
        Some(name.to_str()?.strip_prefix("onnxruntime_gpu-")?.strip_suffix(".dist-info")?.to_string())
    });
    versions.max()
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}
