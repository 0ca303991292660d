//! The text of a file as of a git revision. The only user of git, which is run as a program of its own.
//!
//! A repository is untrusted: its configuration may name programs (text converters, pagers, file-system monitors,
//! hooks, transports). Only plumbing commands that run none of them are used, with those settings overridden besides;
//! nothing is fetched. The revision comes from the user and is never taken for an option or a path.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// No call of git takes nearly as long; one that does hangs.
const PATIENCE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(5);
/// Source files are not longer.
const MOST_BYTES: usize = 16 << 20;
/// Enough of what git says for a message.
const MOST_WORDS: usize = 4096;

/// Why there is no text. `Display` is a sentence for the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RevisionError {
    #[error("git was not found in PATH: install it to compare with a revision")]
    NoGit,
    #[error("\"{0}\" is no revision: give a commit, a branch or a tag, such as HEAD or HEAD~1")]
    NotARevision(String),
    #[error("{file} lies in no git repository that can be read{}", because(.reason))]
    NoRepository { file: String, reason: String },
    #[error(
        "the .git of {file} leads to {repository}, which does not name this folder as its work tree, so it is not read"
    )]
    ForeignRepository { file: String, repository: String },
    #[error("there is no revision \"{revision}\" in the repository of {file}")]
    UnknownRevision { revision: String, file: String },
    #[error(
        "{file} is not in revision \"{revision}\": it is not tracked, or was not yet there under this name"
    )]
    NotInRevision { revision: String, file: String },
    #[error("{0} has no folder to look for a repository in: save it first")]
    NoFile(String),
    #[error("{file} has more than {MOST_BYTES} bytes in revision \"{revision}\"")]
    TooLong { revision: String, file: String },
    #[error("git did not end within {} seconds and was stopped", PATIENCE.as_secs())]
    TimedOut,
    #[error("git failed: {0}")]
    Failed(String),
}

fn because(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(": {reason}") }
}

/// Of a commit's name, in characters.
const SHOWN: usize = 12;

/// A file as of a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// The commit's full name.
    pub commit: String,
    pub bytes: Vec<u8>,
}

impl Revision {
    /// The commit's name, as short as people write it.
    pub fn short_commit(&self) -> &str {
        self.commit.get(..SHOWN).unwrap_or(&self.commit)
    }
}

/// What to call a version: what was asked for, and which commit that is.
pub fn label(asked: &str, commit: &str) -> String {
    if commit.starts_with(asked) { commit.to_string() } else { format!("{asked} ({commit})") }
}

/// Reads `file` as of `revision`. `untrusted` are folders from which no program is run: the open workspace.
pub fn read(file: &Path, revision: &str, untrusted: &[PathBuf]) -> Result<Revision, RevisionError> {
    let git = find_git(std::env::var_os("PATH").as_deref(), untrusted).ok_or(RevisionError::NoGit)?;
    read_with(&git, file, revision)
}

fn read_with(git: &Path, file: &Path, revision: &str) -> Result<Revision, RevisionError> {
    let shown = file.display().to_string();
    if !is_plausible(revision) {
        return Err(RevisionError::NotARevision(revision.to_string()));
    }
    let unsaved = || RevisionError::NoFile(shown.clone());
    // A link is where it points to; the folder need not hold the file any more.
    let file = match file.canonicalize() {
        Ok(file) => file,
        Err(_) => {
            let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
            let folder = folder.unwrap_or(Path::new(".")).canonicalize().map_err(|_| unsaved())?;
            folder.join(file.file_name().ok_or_else(unsaved)?)
        }
    };
    let (Some(folder), Some(name)) = (file.parent(), file.file_name()) else { return Err(unsaved()) };
    let run = |arguments: &[&OsStr]| run(git, folder, arguments);

    let inside = run(&["rev-parse".as_ref(), "--is-inside-work-tree".as_ref()])?;
    if !inside.status.success() || inside.output.trim_ascii() != b"true" {
        return Err(RevisionError::NoRepository { file: shown, reason: said(&inside.words) });
    }
    if let Some(repository) = foreign(folder, &run)? {
        return Err(RevisionError::ForeignRepository { file: shown, repository });
    }
    let commit = format!("{revision}^{{commit}}");
    let parsed = run(&[
        "rev-parse".as_ref(),
        "--verify".as_ref(),
        "--quiet".as_ref(),
        "--end-of-options".as_ref(),
        commit.as_ref(),
    ])?;
    let commit = String::from_utf8_lossy(&parsed.output).trim().to_string();
    let is_name = commit.len() >= 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !parsed.status.success() || !is_name {
        return Err(RevisionError::UnknownRevision { revision: revision.to_string(), file: shown });
    }
    let mut object = OsString::from(format!("{commit}:./"));
    object.push(name);
    let read = run(&["cat-file".as_ref(), "blob".as_ref(), &object])?;
    if read.is_cut {
        return Err(RevisionError::TooLong { revision: revision.to_string(), file: shown });
    }
    if !read.status.success() {
        return Err(RevisionError::NotInRevision { revision: revision.to_string(), file: shown });
    }
    Ok(Revision { commit, bytes: read.output })
}

/// The repository, if it lies outside the work tree and does not name it: a `.git` file, link or `commondir` of an
/// untrusted folder may lead anywhere. Worktrees, submodules and separate git directories name theirs.
fn foreign(
    folder: &Path,
    run: &impl Fn(&[&OsStr]) -> Result<Ended, RevisionError>,
) -> Result<Option<String>, RevisionError> {
    let asked = ["rev-parse", "--show-toplevel", "--absolute-git-dir", "--git-common-dir"];
    let said = run(&asked.map(OsStr::new))?;
    let said = String::from_utf8_lossy(&said.output).into_owned();
    let real = |path: &str| folder.join(path).canonicalize().ok();
    let places: Vec<&str> = said.lines().collect();
    let [top, own, common] = places[..] else {
        return Ok(Some("a place that git does not tell".to_string()));
    };
    let unnamed = || Ok(Some(own.to_string()));
    let (Some(top), Some(own_folder), Some(common)) = (real(top), real(own), real(common)) else {
        return unnamed();
    };
    if !common.starts_with(&top) && !own_folder.starts_with(&common) {
        return unnamed();
    }
    if own_folder.starts_with(&top) {
        return Ok(None);
    }
    // A worktree's repository names the `.git` file; every other one the folder, in its configuration.
    let link = std::fs::File::open(own_folder.join("gitdir")).ok().and_then(|file| {
        let mut link = String::new();
        file.take(MOST_WORDS as u64).read_to_string(&mut link).ok().map(|_| link)
    });
    if link.and_then(|link| own_folder.join(link.trim_end()).canonicalize().ok())
        == top.join(".git").canonicalize().ok()
    {
        return Ok(None);
    }
    let config = own_folder.join("config");
    let named = run(&["config".as_ref(), "--file".as_ref(), config.as_ref(), "core.worktree".as_ref()])?;
    let named = String::from_utf8_lossy(&named.output).trim_end_matches('\n').to_string();
    let is_named = !named.is_empty() && own_folder.join(named).canonicalize().ok() == Some(top);
    if is_named { Ok(None) } else { unnamed() }
}

/// Neither empty, an option, nor a revision with a path in it.
fn is_plausible(revision: &str) -> bool {
    !revision.is_empty()
        && revision.len() <= 1024
        && !revision.starts_with('-')
        && !revision.contains(|c: char| c == ':' || c.is_control() || c.is_whitespace())
}

/// The first git in an absolute folder of `path` that is no part of an untrusted one.
fn find_git(path: Option<&OsStr>, untrusted: &[PathBuf]) -> Option<PathBuf> {
    let name = if cfg!(windows) { "git.exe" } else { "git" };
    let untrusted: Vec<PathBuf> =
        untrusted.iter().map(|folder| folder.canonicalize().unwrap_or_else(|_| folder.clone())).collect();
    std::env::split_paths(path?)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .filter(|git| git.is_file())
        .find(|git| {
            let real = git.canonicalize().unwrap_or_else(|_| git.clone());
            let is_in = |folder: &PathBuf| git.starts_with(folder) || real.starts_with(folder);
            !untrusted.iter().any(is_in)
        })
}

/// What a run of git left.
struct Ended {
    status: ExitStatus,
    output: Vec<u8>,
    /// There was more output than is taken.
    is_cut: bool,
    /// Of its standard error.
    words: Vec<u8>,
}

fn run(git: &Path, folder: &Path, arguments: &[&OsStr]) -> Result<Ended, RevisionError> {
    let mut command = Command::new(git);
    command
        .args(["--no-pager", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null"])
        .args(["-c", "safe.bareRepository=explicit", "-c", "protocol.allow=never"])
        .arg("-C")
        .arg(folder)
        .args(arguments)
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_NO_LAZY_FETCH", "1")
        // A list of transports that holds none which exists; it overrides the repository's own.
        .env("GIT_ALLOW_PROTOCOL", "none")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("LC_ALL", "C")
        .env_remove("GIT_DIR")
        .env_remove("GIT_WORK_TREE")
        .env_remove("GIT_INDEX_FILE")
        .env_remove("GIT_TRACE")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let failed = |error: std::io::Error| RevisionError::Failed(error.to_string());
    let mut child = command.spawn().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => RevisionError::NoGit,
        _ => failed(error),
    })?;
    let output = collect(child.stdout.take(), MOST_BYTES);
    let words = collect(child.stderr.take(), MOST_WORDS);
    let status = wait(&mut child)?;
    // Git has ended, but what it started may still hold a pipe open.
    let timed_out = |_| RevisionError::TimedOut;
    let (output, is_cut) = output.recv_timeout(PATIENCE).map_err(timed_out)?;
    let (words, _) = words.recv_timeout(PATIENCE).map_err(timed_out)?;
    Ok(Ended { status, output, is_cut, words })
}

/// Reads a pipe to its end, so that git never waits for us; keeps `most` bytes of it and says whether there were more.
fn collect(pipe: Option<impl Read + Send + 'static>, most: usize) -> mpsc::Receiver<(Vec<u8>, bool)> {
    let (sender, collected) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let mut rest = 0;
        if let Some(mut pipe) = pipe {
            let _ = pipe.by_ref().take(most as u64).read_to_end(&mut bytes);
            rest = std::io::copy(&mut pipe, &mut std::io::sink()).unwrap_or(0);
        }
        let _ = sender.send((bytes, rest > 0));
    });
    collected
}

fn wait(child: &mut Child) -> Result<ExitStatus, RevisionError> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(POLL),
            Ok(None) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(RevisionError::TimedOut);
            }
            Err(error) => return Err(RevisionError::Failed(error.to_string())),
        }
    }
}

/// The first line of what git said, without its prefix.
fn said(words: &[u8]) -> String {
    let words = String::from_utf8_lossy(words);
    let line = words.lines().next().unwrap_or_default();
    line.strip_prefix("fatal: ").unwrap_or(line).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A repository with `a.c` in two commits, tag `first` on the older.
    fn repository() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        git(path, &["init", "-q", "-b", "main"]);
        std::fs::create_dir(path.join("sub")).unwrap();
        std::fs::write(path.join("sub/a.c"), "int one;\r\n").unwrap();
        git(path, &["add", "."]);
        git(path, &["commit", "-q", "-m", "1"]);
        git(path, &["tag", "first"]);
        std::fs::write(path.join("sub/a.c"), b"int two; \xff").unwrap();
        git(path, &["commit", "-q", "-a", "-m", "2"]);
        std::fs::write(path.join("sub/a.c"), "int three;").unwrap();
        folder
    }

    fn git(folder: &Path, arguments: &[&str]) {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgSign=false"]);
        command.args(["-c", "core.autocrlf=false", "-c", "core.hooksPath=/dev/null", "-C"]);
        let status = command.arg(folder).args(arguments).status().unwrap();
        assert!(status.success(), "git {arguments:?}");
    }

    fn text(folder: &Path, file: &str, revision: &str) -> Result<Vec<u8>, RevisionError> {
        read(&folder.join(file), revision, &[]).map(|revision| revision.bytes)
    }

    #[test]
    fn a_file_as_of_revisions() {
        let folder = repository();
        let path = folder.path();
        assert_eq!(text(path, "sub/a.c", "HEAD").unwrap(), b"int two; \xff");
        assert_eq!(text(path, "sub/a.c", "HEAD~1").unwrap(), b"int one;\r\n");
        assert_eq!(text(path, "sub/a.c", "first").unwrap(), b"int one;\r\n");
        std::fs::remove_file(path.join("sub/a.c")).unwrap();
        assert_eq!(text(path, "sub/a.c", "main").unwrap(), b"int two; \xff");
        let found = read(&path.join("sub/a.c"), "main", &[]).unwrap();
        assert_eq!(found.commit.len(), 40);
    }

    #[test]
    fn what_is_not_there_is_said() {
        let folder = repository();
        let path = folder.path();
        std::fs::write(path.join("new.c"), "int x;").unwrap();
        assert!(matches!(text(path, "new.c", "HEAD"), Err(RevisionError::NotInRevision { .. })));
        assert!(matches!(text(path, "sub/a.c", "nothing"), Err(RevisionError::UnknownRevision { .. })));
        // A tree is no commit.
        assert!(matches!(text(path, "sub/a.c", "HEAD^{tree}"), Err(RevisionError::UnknownRevision { .. })));
        for revision in ["", "--help", "-p", "HEAD:sub/a.c", "a b", "a\nb", "a\0b"] {
            assert!(
                matches!(text(path, "sub/a.c", revision), Err(RevisionError::NotARevision(_))),
                "{revision:?}"
            );
        }
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join("a.c"), "int x;").unwrap();
        let error = text(outside.path(), "a.c", "HEAD").unwrap_err();
        assert!(matches!(error, RevisionError::NoRepository { .. }), "{error}");
        assert!(error.to_string().contains("not a git repository"), "{error}");
        assert!(matches!(text(outside.path(), "no/such/a.c", "HEAD"), Err(RevisionError::NoFile(_))));
        assert_eq!(
            read_with(Path::new("/no/such/git"), &path.join("sub/a.c"), "HEAD").unwrap_err(),
            RevisionError::NoGit
        );
    }

    #[cfg(unix)]
    #[test]
    fn a_repository_runs_nothing_of_its_own() {
        use std::os::unix::fs::PermissionsExt;
        let folder = repository();
        let path = folder.path();
        let mark = path.join("mark");
        let program = path.join("program.sh");
        std::fs::write(&program, format!("#!/bin/sh\ntouch '{}'\ncat \"$1\"\n", mark.display())).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::write(path.join(".gitattributes"), "*.c diff=evil filter=evil\n").unwrap();
        std::fs::create_dir_all(path.join(".git/hooks")).unwrap();
        let program = program.to_str().unwrap();
        for key in [
            "core.fsmonitor",
            "core.pager",
            "core.sshCommand",
            "diff.evil.textconv",
            "diff.evil.command",
            "diff.external",
            "filter.evil.smudge",
            "filter.evil.clean",
            "pager.cat-file",
            "alias.cat-file",
            "alias.rev-parse",
            "credential.helper",
            "gpg.program",
        ] {
            git(path, &["config", key, program]);
        }
        assert_eq!(text(path, "sub/a.c", "HEAD").unwrap(), b"int two; \xff");
        assert!(!mark.exists(), "a program of the repository was run");
    }

    #[cfg(unix)]
    #[test]
    fn no_git_of_the_workspace_or_of_a_relative_folder_is_run() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let inside = folder.path().join("bin");
        std::fs::create_dir(&inside).unwrap();
        let git = inside.join("git");
        std::fs::write(&git, "#!/bin/sh\nexit 0\n").unwrap();
        std::fs::set_permissions(&git, std::fs::Permissions::from_mode(0o755)).unwrap();
        let path = inside.clone().into_os_string();
        assert_eq!(find_git(Some(&path), &[]), Some(git));
        assert_eq!(find_git(Some(&path), &[folder.path().to_path_buf()]), None);
        let linked = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(inside.join("git"), linked.path().join("git")).unwrap();
        assert_eq!(find_git(Some(linked.path().as_os_str()), &[folder.path().to_path_buf()]), None);
        assert_eq!(find_git(Some(OsStr::new(".:bin")), &[]), None);
        assert_eq!(find_git(None, &[]), None);
    }

    #[test]
    fn a_repository_elsewhere_has_to_name_the_folder() {
        let folder = repository();
        let path = folder.path().canonicalize().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let elsewhere = elsewhere.path().canonicalize().unwrap();
        // A worktree.
        let tree = elsewhere.join("tree");
        git(&path, &["worktree", "add", "-q", tree.to_str().unwrap(), "first"]);
        assert_eq!(text(&tree, "sub/a.c", "HEAD").unwrap(), b"int one;\r\n");
        // A folder whose `.git` leads into a repository of which it is no part.
        let hostile = elsewhere.join("hostile");
        std::fs::create_dir_all(hostile.join("sub")).unwrap();
        std::fs::write(hostile.join("sub/a.c"), "int four;").unwrap();
        for target in [path.join(".git"), path.join(".git/worktrees/tree")] {
            std::fs::write(hostile.join(".git"), format!("gitdir: {}\n", target.display())).unwrap();
            let error = text(&hostile, "sub/a.c", "HEAD").unwrap_err();
            assert!(matches!(error, RevisionError::ForeignRepository { .. }), "{error}");
            assert!(error.to_string().contains("does not name this folder"), "{error}");
        }
        // The same by a folder of its own that takes its objects and references from there.
        std::fs::remove_file(hostile.join(".git")).unwrap();
        std::fs::create_dir(hostile.join(".git")).unwrap();
        std::fs::write(hostile.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        std::fs::write(hostile.join(".git/commondir"), path.join(".git").to_str().unwrap()).unwrap();
        let error = text(&hostile, "sub/a.c", "HEAD").unwrap_err();
        assert!(matches!(error, RevisionError::ForeignRepository { .. }), "{error}");
        // As a submodule's: outside, but it names the folder.
        let moved = elsewhere.join("moved");
        git(&path, &["worktree", "remove", "--force", tree.to_str().unwrap()]);
        std::fs::rename(path.join(".git"), &moved).unwrap();
        std::fs::write(path.join(".git"), format!("gitdir: {}\n", moved.display())).unwrap();
        git(&path, &["config", "core.worktree", path.to_str().unwrap()]);
        assert_eq!(text(&path, "sub/a.c", "first").unwrap(), b"int one;\r\n");
    }

    #[cfg(unix)]
    #[test]
    fn a_git_that_hangs_or_floods_is_stopped() {
        let folder = tempfile::tempdir().unwrap();
        let git = folder.path().join("git");
        // Another process writes it: a test that starts a program meanwhile would pass on that it is open for writing, and no
        // program can be run that is.
        let write = |script: &str| {
            let mut shell = Command::new("sh");
            shell
                .args(["-c", "printf '#!/bin/sh\\n%s\\n' \"$1\" > \"$0\" && chmod 755 \"$0\""])
                .arg(&git)
                .arg(script);
            assert!(shell.status().unwrap().success());
        };
        std::fs::write(folder.path().join("a.c"), "").unwrap();
        write(
            "case \"$*\" in *inside*) echo true;; *toplevel*) pwd; pwd; pwd;; *verify*) echo 0123456789012345678901234567890123456789;; \
               *) head -c 20000000 /dev/zero;; esac",
        );
        let error = read_with(&git, &folder.path().join("a.c"), "HEAD").unwrap_err();
        assert!(matches!(error, RevisionError::TooLong { .. }), "{error}");
        write("echo 'fatal: broken' >&2; exit 128");
        let error = read_with(&git, &folder.path().join("a.c"), "HEAD").unwrap_err();
        assert!(error.to_string().ends_with("that can be read: broken"), "{error}");
    }
}
