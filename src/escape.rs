//! Making text that comes from files harmless for the place where it is shown. Names, messages and source lines are
//! untrusted: they may hold control characters, bidirectional overrides or markup.

/// For a terminal: control and bidirectional characters become visible escapes (`\u{202e}`); tabs stay.
pub fn terminal(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if c != '\t' && is_deceptive(c) {
            escaped.extend(c.escape_unicode());
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// For Markdown: as [`terminal`], and every character that could begin markup, a link or HTML is backslash-escaped.
/// Newlines and tabs become spaces, so that the text stays in its paragraph.
pub fn markdown(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' | '\t' => escaped.push(' '),
            // An ampersand begins an entity, a colon an autolink.
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            ':' => escaped.push_str("&#58;"),
            c if is_deceptive(c) => {
                escaped.extend(c.escape_unicode().filter(|c| !matches!(c, '\\' | '{' | '}')))
            }
            c if c.is_ascii_punctuation() => escaped.extend(['\\', c]),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Control characters, and those that reorder or hide what stands around them.
fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{061c}' | '\u{feff}'
            | '\u{00ad}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_shows_what_would_steer_it() {
        assert_eq!(terminal("a\tb\x1b[31m\u{202e}é🦀"), "a\tb\\u{1b}[31m\\u{202e}é🦀");
        assert_eq!(terminal("line\nend\r"), "line\\u{a}end\\u{d}");
    }

    #[test]
    fn markdown_keeps_no_markup_link_or_html() {
        assert_eq!(markdown("operator<<"), "operator&lt;&lt;");
        assert_eq!(markdown("[x](command:y)"), "\\[x\\]\\(command&#58;y\\)");
        assert_eq!(markdown("a\n# b `c` *d* _e_"), "a \\# b \\`c\\` \\*d\\* \\_e\\_");
        assert_eq!(markdown("https://evil"), "https&#58;\\/\\/evil");
        assert_eq!(markdown("x\u{202e}y"), "xu202ey");
    }
}
