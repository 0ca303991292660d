//! The one place where results are written: files that are there whole or not at all, files that grow, new files. None of
//! them is written through a symbolic link: whoever can put a link there would choose what is overwritten.

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
        refuse_link(target)?;
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
        if let Ok(metadata) = fs::symlink_metadata(target) {
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
    pub fn commit(self) -> io::Result<()> {
        self.commit_open().map(drop)
    }

    /// [`AtomicFile::commit`], and the file goes on being written to: at its end.
    pub fn commit_open(mut self) -> io::Result<File> {
        self.flush_to_disk()?;
        // Again: it may have become one meanwhile.
        refuse_link(&self.target)?;
        fs::rename(&self.temporary, &self.target)?;
        // The new name is on the disk only with its folder; not every system can flush one.
        if let Ok(folder) = File::open(folder_of(&self.target)) {
            let _ = folder.sync_all();
        }
        self.temporary.clear();
        self.writer.get_ref().try_clone()
    }

    /// The file itself, to lock it before it has its name.
    pub fn file(&self) -> &File {
        self.writer.get_ref()
    }
}

/// A new file; one that is there already, or a link, is an error of the kind `AlreadyExists` that says which.
pub fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).open(path).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => io::Error::new(error.kind(), what_is_there(path)),
        _ => error,
    })
}

/// Why something is not made where something is.
pub fn what_is_there(path: &Path) -> String {
    match refuse_link(path) {
        Err(error) => error.to_string(),
        Ok(()) => {
            "it is there already, and nothing is overwritten; remove it, or choose another place".to_string()
        }
    }
}

/// A file that is read and grows, made if need be.
pub fn open_to_append(path: &Path) -> io::Result<File> {
    refuse_link(path)?;
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // Also where it becomes a link in this moment, or is a pipe that nobody writes to.
        options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    }
    let file = options.open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::new(ErrorKind::InvalidInput, NO_FILE)),
    }
}

const NO_FILE: &str = "it is there and is no regular file; remove it, or choose another place";

/// What is there must be a regular file, or nothing.
pub fn refuse_link(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.is_symlink() => {
            let leads = fs::read_link(path).map(|to| format!(" to {}", to.display())).unwrap_or_default();
            let reason = format!(
                "it is a symbolic link{leads}, and nothing is written through links; remove it, or choose another place"
            );
            Err(io::Error::new(ErrorKind::InvalidInput, reason))
        }
        Ok(metadata) if !metadata.is_file() => Err(io::Error::new(ErrorKind::InvalidInput, NO_FILE)),
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
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
    #[cfg(unix)]
    #[test]
    fn nothing_is_written_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let (mine, link) = (folder.path().join("mine"), folder.path().join("link"));
        fs::write(&mine, "mine").unwrap();
        for target in [mine.clone(), folder.path().join("nothing"), folder.path().to_path_buf()] {
            std::os::unix::fs::symlink(&target, &link).unwrap();
            for refused in [AtomicFile::create(&link).err(), open_to_append(&link).err()] {
                let said = refused.unwrap().to_string();
                assert!(said.contains("symbolic link to") && said.contains("choose another place"), "{said}");
            }
            assert_eq!(create_new(&link).unwrap_err().kind(), ErrorKind::AlreadyExists);
            fs::remove_file(&link).unwrap();
        }
        // A link that comes while the file is being written.
        let mut file = AtomicFile::create(&link).unwrap();
        file.write_all(b"new").unwrap();
        std::os::unix::fs::symlink(&mine, &link).unwrap();
        assert!(file.commit().is_err());
        assert_eq!(fs::read(&mine).unwrap(), b"mine");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
        assert!(open_to_append(folder.path()).is_err(), "a folder is no file");
    }
}
