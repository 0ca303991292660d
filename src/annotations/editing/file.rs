//! A file of rows in the workspace as bytes: found inside the workspace, cut into rows, replaced as a whole.

use super::EditError;
use crate::annotations::atomic::AtomicFile;
use crate::annotations::dataset::MOST_ROW_BYTES;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often a change is tried again when another program wrote in between.
const ATTEMPTS: usize = 5;
/// The file is read and written as a whole.
const MOST_BYTES: u64 = 256 << 20;

/// Changes a file of the workspace from what it holds now. `change` gives the new bytes, and what the caller wants to know;
/// it is asked again where another program wrote in between.
pub(in crate::annotations) fn edit<T>(
    workspace: &Path,
    name: &str,
    change: impl Fn(&[u8], &Path) -> Result<(Vec<u8>, T), EditError>,
) -> Result<(PathBuf, T), EditError> {
    let path =
        locate(workspace, name).map_err(|reason| EditError::File { path: workspace.join(name), reason })?;
    let unusable = |reason: String| EditError::File { path: path.clone(), reason };
    let _lock = lock(&path).map_err(|Busy| EditError::Busy { path: path.clone() })?;
    // Another program may write between reading and replacing; then its text is the one to change.
    for _ in 0..ATTEMPTS {
        let old = read(&path).map_err(unusable)?;
        let (new, value) = change(&old, &path)?;
        if replace(&path, &old, &new).map_err(unusable)? {
            return Ok((path, value));
        }
    }
    Err(EditError::Conflict { path, what: "it keeps changing".to_string() })
}

/// The path of a file of the workspace with links resolved, its folder created. It lies inside the workspace, or there is
/// a reason.
pub(in crate::annotations) fn locate(workspace: &Path, name: &str) -> Result<PathBuf, String> {
    let unreadable = |error: std::io::Error| format!("cannot be reached: {error}");
    let root = workspace.canonicalize().map_err(unreadable)?;
    let path = root.join(name);
    let folder = path.parent().unwrap_or(&root);
    match fs::create_dir(folder) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(unreadable(error)),
        _ => {}
    }
    let folder = folder.canonicalize().map_err(unreadable)?;
    let outside = || "lies outside the workspace folder, where nothing is written".to_string();
    if !folder.starts_with(&root) {
        return Err(outside());
    }
    let name = path.file_name().unwrap_or_default();
    let path = folder.join(name);
    match fs::symlink_metadata(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(path),
        Err(error) => Err(unreadable(error)),
        Ok(_) => {
            let target = path.canonicalize().map_err(|error| dead_link(&path, &error))?;
            match target {
                target if !target.starts_with(&root) => Err(outside()),
                target if !target.is_file() => Err("is not a regular file".to_string()),
                target => Ok(target),
            }
        }
    }
}

/// Why a link leads nowhere.
pub(in crate::annotations) fn dead_link(path: &Path, error: &std::io::Error) -> String {
    match fs::read_link(path) {
        Ok(target) if error.kind() == ErrorKind::NotFound => {
            format!(
                "is a symbolic link to {}, which is not there; make that file, or remove the link",
                target.display()
            )
        }
        _ => format!("cannot be reached: {error}"),
    }
}

/// Keeps other linelens processes from writing at the same time; released on drop. `None` where the system cannot lock a
/// folder at all, an error where another program holds the lock for too long.
fn lock(path: &Path) -> Result<Option<File>, Busy> {
    const TRIES: usize = 50;
    let Some(folder) = path.parent().and_then(|folder| File::open(folder).ok()) else { return Ok(None) };
    for _ in 0..TRIES {
        match folder.try_lock() {
            Ok(()) => return Ok(Some(folder)),
            Err(fs::TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(20)),
            Err(fs::TryLockError::Error(_)) => return Ok(None),
        }
    }
    Err(Busy)
}

/// Another program holds the lock.
#[derive(Debug)]
struct Busy;

/// Empty where there is no file yet.
pub(in crate::annotations) fn read(path: &Path) -> Result<Vec<u8>, String> {
    match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Ok(metadata) if metadata.len() > MOST_BYTES => {
            return Err(format!("has {} bytes, more than can be edited", metadata.len()));
        }
        _ => {}
    }
    let bytes = fs::read(path).map_err(|error| format!("cannot be read: {error}"))?;
    if bytes.starts_with(&[0x1f, 0x8b]) {
        return Err("is gzip-compressed, which is read but not edited; unpack it first".to_string());
    }
    Ok(bytes)
}

/// Puts `new` in the place of `old`; `false` if the file does not hold `old` any more.
fn replace(path: &Path, old: &[u8], new: &[u8]) -> Result<bool, String> {
    if old == new {
        return Ok(true);
    }
    let unwritable = |error: std::io::Error| format!("cannot be written: {error}");
    let mut file = AtomicFile::create(path).map_err(unwritable)?;
    file.write_all(new).and_then(|()| file.flush_to_disk()).map_err(unwritable)?;
    if read(path)? != old {
        return Ok(false);
    }
    file.commit().map_err(unwritable)?;
    Ok(true)
}

/// The file's bytes by rows; a row's end belongs to it.
pub(in crate::annotations) struct Rows<'a> {
    bytes: &'a [u8],
    rows: Vec<&'a [u8]>,
}

impl<'a> Rows<'a> {
    pub(in crate::annotations) fn new(bytes: &'a [u8]) -> Rows<'a> {
        Rows { bytes, rows: bytes.split_inclusive(|byte| *byte == b'\n').collect() }
    }

    /// The rows that are UTF-8 and not too long to be read back, with their index.
    pub(in crate::annotations) fn texts(&self) -> impl Iterator<Item = (usize, &'a str)> {
        let rows = self.rows.iter().enumerate().filter(|(_, row)| row.len() <= MOST_ROW_BYTES);
        rows.filter_map(|(index, row)| Some((index, without_mark(std::str::from_utf8(row).ok()?).trim())))
    }

    /// Every row with its index, or what is wrong with it as bytes.
    pub(in crate::annotations) fn all(&self) -> impl Iterator<Item = (usize, Result<&'a str, String>)> {
        self.rows.iter().enumerate().map(|(index, row)| {
            let text = match std::str::from_utf8(row) {
                _ if row.len() > MOST_ROW_BYTES => Err(format!("is longer than {MOST_ROW_BYTES} bytes")),
                Ok(text) => Ok(without_mark(text).trim()),
                Err(_) => Err("is not UTF-8".to_string()),
            };
            (index, text)
        })
    }

    pub(in crate::annotations) fn text(&self, row: usize) -> &'a str {
        self.rows
            .get(row)
            .and_then(|row| std::str::from_utf8(row).ok())
            .map_or("", |row| without_mark(row).trim())
    }

    pub(in crate::annotations) fn without(&self, rows: &[usize]) -> Vec<u8> {
        let kept = self.rows.iter().enumerate().filter(|(index, _)| !rows.contains(index));
        kept.flat_map(|(_, row)| row.to_vec()).collect()
    }

    pub(in crate::annotations) fn with(&self, row: usize, text: &str) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.bytes.len() + text.len());
        for (index, old) in self.rows.iter().enumerate() {
            if index == row {
                let end =
                    old.len() - old.iter().rev().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
                if old.starts_with(b"\xef\xbb\xbf") {
                    bytes.extend_from_slice(&old[..3]);
                }
                bytes.extend_from_slice(text.as_bytes());
                bytes.extend_from_slice(&old[end..]);
            } else {
                bytes.extend_from_slice(old);
            }
        }
        bytes
    }

    /// One more row at the end, with the line end that the others have; in a new file the header above it.
    pub(in crate::annotations) fn with_new(&self, header: &str, text: &str) -> Vec<u8> {
        let end: &[u8] =
            if self.rows.first().is_some_and(|row| row.ends_with(b"\r\n")) { b"\r\n" } else { b"\n" };
        let mut bytes = self.bytes.to_vec();
        if self.bytes.trim_ascii().is_empty() {
            bytes.extend_from_slice(header.as_bytes());
            bytes.extend_from_slice(end);
        } else if !self.bytes.ends_with(b"\n") {
            bytes.extend_from_slice(end);
        }
        bytes.extend_from_slice(text.as_bytes());
        bytes.extend_from_slice(end);
        bytes
    }
}

fn without_mark(row: &str) -> &str {
    row.strip_prefix('\u{feff}').unwrap_or(row)
}
