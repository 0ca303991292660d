//! C and C++ files: which ones lie in a folder, and their bytes as text.

use std::path::{Path, PathBuf};

/// What a folder is searched for.
const EXTENSIONS: &[&str] =
    &["c", "h", "cc", "cpp", "cxx", "c++", "hh", "hpp", "hxx", "h++", "inl", "ipp", "tpp", "cu", "cuh"];

/// The files of a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// In an order that depends on their names alone.
    pub paths: Vec<PathBuf>,
    /// What could not be searched, in a sentence each.
    pub problems: Vec<String>,
}

/// The C and C++ files below a folder. What `.gitignore` and `.ignore` leave out is left out, hidden files are, too, and
/// links are not followed, so that nothing outside the folder is found.
pub fn below(folder: &Path) -> Found {
    let mut found = Found::default();
    let walk = ignore::WalkBuilder::new(folder).sort_by_file_path(Ord::cmp).require_git(false).build();
    for entry in walk {
        match entry {
            Ok(entry) if entry.file_type().is_some_and(|kind| kind.is_file()) && is_source(entry.path()) => {
                found.paths.push(entry.into_path());
            }
            Ok(_) => {}
            Err(error) => found.problems.push(error.to_string()),
        }
    }
    found
}

/// Whether a file is C or C++ by its name.
pub fn is_source(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str()).map(str::to_ascii_lowercase);
    extension.is_some_and(|extension| EXTENSIONS.contains(&extension.as_str()))
}

/// The same as a pattern for files of any folder.
pub fn glob() -> String {
    format!("**/*.{{{}}}", EXTENSIONS.join(","))
}

/// A file's bytes as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    pub text: String,
    /// The 1-based line of the first bytes that are no UTF-8 and became U+FFFD.
    pub bad_line: Option<usize>,
}

/// Reads bytes as UTF-8; a byte order mark is no part of the code. The error says what they are instead.
pub fn decode(bytes: Vec<u8>) -> Result<Decoded, String> {
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err("is UTF-16, expected UTF-8: convert it first".to_string());
    }
    let mut bad_line = None;
    let text = String::from_utf8(bytes).unwrap_or_else(|error| {
        let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        bad_line = Some(good.iter().filter(|byte| **byte == b'\n').count() + 1);
        String::from_utf8_lossy(error.as_bytes()).into_owned()
    });
    let text = match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_string(),
        None => text,
    };
    Ok(Decoded { text, bad_line })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_by_extension() {
        for name in ["a.c", "b.H", "d/e.cpp", "x.C"] {
            assert!(is_source(Path::new(name)), "{name}");
        }
        for name in ["a.rs", "c", ".c", "a.c.orig"] {
            assert!(!is_source(Path::new(name)), "{name}");
        }
    }

    #[test]
    fn ignored_hidden_and_linked_files_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["b.c", "a/z.cpp", "a/b.h", "build/x.c", ".hidden/y.c", "notes.txt"] {
            std::fs::create_dir_all(path(name).parent().unwrap()).unwrap();
            std::fs::write(path(name), "").unwrap();
        }
        std::fs::write(path(".gitignore"), "build/\n").unwrap();
        std::fs::write(outside.path().join("secret.c"), "").unwrap();
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(outside.path(), path("link")).unwrap();
            std::os::unix::fs::symlink(outside.path().join("secret.c"), path("linked.c")).unwrap();
        }
        let found = below(folder.path());
        assert_eq!(
            found,
            Found { paths: ["a/b.h", "a/z.cpp", "b.c"].map(path).to_vec(), problems: Vec::new() }
        );
        assert_eq!(below(&path("none")).problems.len(), 1);
    }

    #[test]
    fn bytes_become_text() {
        let decoded = |bytes: &[u8]| decode(bytes.to_vec());
        assert_eq!(
            decoded(b"\xef\xbb\xbfint a;").unwrap(),
            Decoded { text: "int a;".into(), bad_line: None }
        );
        let bad = decoded(b"int a;\n// \xe9\n").unwrap();
        assert_eq!(bad, Decoded { text: "int a;\n// \u{fffd}\n".into(), bad_line: Some(2) });
        assert!(decoded(b"\xff\xfei\0").unwrap_err().contains("UTF-16"));
    }
}
