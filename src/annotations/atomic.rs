//! Files that are there whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A new file beside the one whose name it takes when it is complete; gone if it never is.
#[derive(Debug)]
pub struct AtomicFile {
    writer: BufWriter<File>,
    temporary: PathBuf,
    target: PathBuf,
}

impl AtomicFile {
    /// Keeps the permissions of a file that `target` names already.
    pub fn create(target: &Path) -> io::Result<AtomicFile> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let folder = folder_of(target);
        let (file, temporary) = loop {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let path = folder.join(format!(".linelens.{}.{number}.tmp", std::process::id()));
            // A file or link that is there already is not ours.
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => break (file, path),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        };
        let atomic = AtomicFile { writer: BufWriter::new(file), temporary, target: target.to_path_buf() };
        if let Ok(metadata) = fs::metadata(target) {
            atomic.writer.get_ref().set_permissions(metadata.permissions())?;
        }
        Ok(atomic)
    }

    /// Puts what was written on the disk, still under its temporary name.
    pub fn flush_to_disk(&mut self) -> io::Result<()> {
        self.writer.flush()?;
        self.writer.get_ref().sync_all()
    }

    /// Puts what was written on the disk and gives it its name.
    pub fn commit(mut self) -> io::Result<()> {
        self.flush_to_disk()?;
        fs::rename(&self.temporary, &self.target)?;
        // The new name is on the disk only with its folder; not every system can flush one.
        if let Ok(folder) = File::open(folder_of(&self.target)) {
            let _ = folder.sync_all();
        }
        self.temporary.clear();
        Ok(())
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if !self.temporary.as_os_str().is_empty() {
            let _ = fs::remove_file(&self.temporary);
        }
    }
}

/// Writes a file of the workspace as a whole, in the place of what it held. Its folder may be new; nothing is written outside
/// the workspace, links resolved.
pub fn write_inside(workspace: &Path, name: &str, bytes: &[u8]) -> Result<PathBuf, String> {
    let path = super::editing::file::locate(workspace, name)
        .map_err(|reason| format!("{}: {reason}", workspace.join(name).display()))?;
    let unwritable = |error: io::Error| format!("{}: cannot be written: {error}", path.display());
    let mut file = AtomicFile::create(&path).map_err(unwritable)?;
    file.write_all(bytes).map_err(unwritable)?;
    file.commit().map_err(unwritable)?;
    Ok(path)
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_there_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let mut dropped = AtomicFile::create(&path).unwrap();
        dropped.write_all(b"half").unwrap();
        drop(dropped);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let mut whole = AtomicFile::create(&path).unwrap();
        whole.write_all(b"whole").unwrap();
        assert!(!path.exists());
        whole.commit().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
