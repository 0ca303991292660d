//! Which functions are the same text: exactly, whitespace aside, comments and whitespace aside.

use crate::annotations::function::without_whitespace;
use crate::tokens;
use sha2::{Digest, Sha256};

/// The text's identity in three strengths: the first 16 bytes of each SHA-256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    pub exact: [u8; 16],
    /// As in the annotation file.
    pub without_whitespace: [u8; 16],
    /// Of the code's tokens; `None` where there is nothing but comments, which says nothing of any code.
    pub of_code: Option<[u8; 16]>,
}

impl Fingerprint {
    pub fn of(text: &str) -> Fingerprint {
        Fingerprint::with_code(text, &Code::of(text))
    }

    pub(super) fn with_code(text: &str, code: &Code) -> Fingerprint {
        let mut hasher = Sha256::new();
        let mut tokens = 0;
        for token in code.tokens() {
            hasher.update(token);
            // No token holds one, so that `a b` is not `ab`.
            hasher.update([0]);
            tokens += 1;
        }
        Fingerprint {
            exact: shortened(&Sha256::digest(text)),
            without_whitespace: shortened(&Sha256::digest(without_whitespace(text))),
            of_code: (tokens > 0).then(|| shortened(&hasher.finalize())),
        }
    }

    /// Whether both are the same function, whatever its layout and its comments.
    pub fn is_copy_of(&self, other: &Fingerprint) -> bool {
        self.without_whitespace == other.without_whitespace
            || self.of_code.is_some() && self.of_code == other.of_code
    }

    /// `exact`, hex.
    pub fn to_hex(&self) -> String {
        self.exact.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

fn shortened(digest: &[u8]) -> [u8; 16] {
    let mut found = [0; 16];
    found.iter_mut().zip(digest).for_each(|(to, from)| *to = *from);
    found
}

/// A function's text without its comments.
#[derive(Clone, Debug)]
pub(super) struct Code(String);

impl Code {
    pub(super) fn of(text: &str) -> Code {
        let mut code = tokens::without_comments(text);
        // Where a line is continued is layout.
        for end in ["\\\r\n", "\\\n"] {
            if code.contains(end) {
                code = code.replace(end, " ");
            }
        }
        Code(code)
    }

    /// Runs of word characters, and single other characters; whitespace separates them.
    pub(super) fn tokens(&self) -> impl Iterator<Item = &str> {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let mut rest = self.0.as_str();
        std::iter::from_fn(move || {
            rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '\0');
            let first = rest.chars().next()?;
            let end = if is_word(first) {
                rest.find(|c: char| !is_word(c)).unwrap_or(rest.len())
            } else {
                first.len_utf8()
            };
            let (token, after) = rest.split_at(end);
            rest = after;
            Some(token)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_tell_text_from_layout() {
        let (a, b) = (
            Fingerprint::of("int f(void)\n{ return 1; }"),
            Fingerprint::of("int f(void) {\r\n\treturn 1;\n}\n"),
        );
        assert_ne!(a.exact, b.exact);
        assert_eq!(a.without_whitespace, b.without_whitespace);
        assert!(a.is_copy_of(&b));
        let other = Fingerprint::of("int f(void) { return 2; }");
        assert_ne!(a.without_whitespace, other.without_whitespace);
        assert!(!a.is_copy_of(&other));
    }

    #[test]
    fn fingerprints_tell_code_from_comments() {
        let plain = Fingerprint::of("int f(char *s) { return g(\"/* no comment */\", s); }");
        for same in [
            "/* what f does */ int f(char *s) { return g(\"/* no comment */\", s); } // end",
            "int f(char *s)\n{\n  // first\n  return g(\"/* no comment */\", /* why */ s);\n}\n",
            "int f(char \\\n*s) { return g(\"/* no comment */\",\\\r\n s); }",
            "int/**/f(char *s) { return g(\"/* no comment */\", s); }",
        ] {
            assert!(plain.is_copy_of(&Fingerprint::of(same)), "{same}");
        }
        for other in [
            "int f(char *s) { return g(\"\", s); }",
            "int f(char *s) { return g(\"/* no comment */\", t); }",
            "intf(char *s) /**/ { return g(\"/* no comment */\", s); }",
        ] {
            assert!(!plain.is_copy_of(&Fingerprint::of(other)), "{other}");
        }
        // Of what is no code only the comments can be compared.
        let (a, b) = (Fingerprint::of("/* a */"), Fingerprint::of("/* b */"));
        assert!(a.of_code.is_none() && !a.is_copy_of(&b) && a.is_copy_of(&Fingerprint::of("/*  a */")));
    }

    #[test]
    fn tokens_are_words_and_single_characters() {
        let code = Code::of("a_1 ->b(\"é\")/*c*/\n;//d");
        let found: Vec<&str> = code.tokens().collect();
        assert_eq!(found, ["a_1", "-", ">", "b", "(", "\"", "é", "\"", ")", ";"]);
    }
}
