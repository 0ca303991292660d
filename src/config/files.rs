//! Where settings files are, and reading them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// `$XDG_CONFIG_HOME/linelens/config.toml`, else under `~/.config`; on Windows under `%APPDATA%`.
pub fn user_file(environment: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name| environment(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let folder = set("XDG_CONFIG_HOME")
        .filter(|path| path.is_absolute())
        .or_else(|| set("HOME").map(|home| home.join(".config")))
        .or_else(|| set("APPDATA"))?;
    Some(folder.join("linelens").join("config.toml"))
}

/// The name of a workspace's settings file.
pub const WORKSPACE_FILE: &str = "linelens.toml";

/// Settings are a page of text; what is bigger is something else.
const MOST_BYTES: u64 = 1 << 20;

/// The text of a settings file; `None` where there is none. The file may be untrusted: nothing but a regular file of a
/// sane size is opened, so that a named pipe or a device in its place does no harm.
pub fn read_settings_file(path: &Path) -> Result<Option<String>, String> {
    let unreadable = |error: std::io::Error| format!("{} cannot be read: {error}", path.display());
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(error)),
        Ok(metadata) if !metadata.is_file() => Err(format!("{} is not a regular file", path.display())),
        Ok(metadata) if metadata.len() > MOST_BYTES => {
            Err(format!("{} has {} bytes, expected at most {MOST_BYTES}", path.display(), metadata.len()))
        }
        Ok(_) => std::fs::read_to_string(path).map(Some).map_err(unreadable),
    }
}

/// [`read_settings_file`] of a file in an untrusted folder: a link that leads out of the folder is refused, since messages
/// would tell of a file that the folder has no business with.
pub fn read_workspace_file(folder: &Path) -> Result<Option<String>, String> {
    let path = folder.join(WORKSPACE_FILE);
    if let (Ok(real), Ok(folder)) = (path.canonicalize(), folder.canonicalize())
        && !real.starts_with(&folder)
    {
        return Err(format!("{} leads out of its folder and is not read", path.display()));
    }
    read_settings_file(&path)
}
