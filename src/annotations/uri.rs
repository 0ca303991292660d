//! Relative URI references of files (RFC 3986): `/` between names, everything unusual percent-encoded. They never lead
//! out of the folder they are relative to.

use std::ffi::OsStr;
use std::path::Path;

/// The URI of a relative path that is written with `/`; `None` if it is absolute, empty, or leads out of its folder.
pub fn from_path(path: &str) -> Option<String> {
    let path = path.strip_prefix("./").unwrap_or(path);
    is_inside(path).then(|| encode(path.as_bytes()))
}

/// The URI of a file, relative to a folder that holds it, whatever the names hold: one that is not Unicode is encoded by its
/// bytes, as a backslash is. What [`to_path`] refuses can still be told apart.
pub fn below(folder: &Path, file: &Path) -> Option<String> {
    from_names(file.strip_prefix(folder).ok()?.components().map(|name| name.as_os_str()))
}

fn from_names<'n>(names: impl Iterator<Item = &'n OsStr>) -> Option<String> {
    let names: Vec<String> = names
        .map(|name| name.as_encoded_bytes())
        .map(|name| (!matches!(name, b"" | b"." | b"..")).then(|| encode(name)))
        .collect::<Option<_>>()?;
    (!names.is_empty()).then(|| names.join("/"))
}

/// The path of a relative URI, with `/` between names; `None` if it is none, or leads out of its folder.
pub fn to_path(uri: &str) -> Option<String> {
    if uri.contains(['?', '#']) || uri.split('/').next().is_some_and(|first| first.contains(':')) {
        return None;
    }
    let path = decode(uri)?;
    let path = path.strip_prefix("./").unwrap_or(&path);
    is_inside(path).then(|| path.to_string())
}

fn is_inside(path: &str) -> bool {
    let drive = path.as_bytes().get(1) == Some(&b':') && path.as_bytes()[0].is_ascii_alphabetic();
    !drive
        && !path.contains(['\0', '\\'])
        && path.split('/').all(|name| !name.is_empty() && name != ".." && name != ".")
}

fn encode(path: &[u8]) -> String {
    let mut encoded = String::with_capacity(path.len());
    for byte in path.iter().copied() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' | b'+' | b'@' | b',' | b'=' => encoded.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => encoded.push(char::from(byte)),
            byte => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

fn decode(uri: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(uri.len());
    let mut rest = uri.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
        let (high, low) = (digit(rest.next())?, digit(rest.next())?);
        bytes.push(u8::try_from(high * 16 + low).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_and_uris_are_each_others_inverse() {
        for path in ["a.c", "src/a b.c", "src/ü%20/x#1.c", "a+b/c@d.cpp", "ab:c/d.c"] {
            let uri = from_path(path).unwrap();
            assert!(uri.is_ascii() && !uri.contains([' ', '#']), "{uri}");
            assert_eq!(to_path(&uri).as_deref(), Some(path));
        }
        assert_eq!(from_path("./a.c").as_deref(), Some("a.c"));
    }

    #[test]
    fn names_are_encoded_whatever_they_hold() {
        let names = |names: &[&str]| from_names(names.iter().map(OsStr::new));
        assert_eq!(names(&["src", "a b.c"]).as_deref(), Some("src/a%20b.c"));
        assert_eq!(names(&["a\\b", "c:d"]).as_deref(), Some("a%5Cb/c%3Ad"));
        for bad in [&[][..], &[""], &["a", ".."], &["."]] {
            assert_eq!(names(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn what_leads_out_is_none() {
        for path in ["", "/etc/passwd", "../a.c", "a/../../b", "a//b", "C:/a.c", "a\\b", "a\0b", "a/"] {
            assert_eq!(from_path(path), None, "{path}");
        }
        for uri in
            ["file:///etc/passwd", "/a", "%2e%2e/a", "a/%2E%2E/b", "a%2", "a%zz", "%ff.c", "a?b", "", "c:/a"]
        {
            assert_eq!(to_path(uri), None, "{uri}");
        }
    }
}
