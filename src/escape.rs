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

/// [`terminal`] for a text of several lines of ours, with pieces from files in it: line ends stay. Applying it to what
/// was escaped already changes nothing.
pub fn terminal_lines(text: &str) -> String {
    text.split('\n').map(terminal).collect::<Vec<_>>().join("\n")
}

/// For serialized JSON that may be shown on a terminal: the same value, with every such character as `\uXXXX`.
pub fn json(serialized: &str) -> String {
    let mut escaped = String::with_capacity(serialized.len());
    for c in serialized.chars() {
        // Outside of strings JSON has none of these but line ends, which are ASCII.
        if !c.is_ascii() && is_deceptive(c) {
            let mut units = [0; 2];
            escaped.extend(c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        } else {
            escaped.push(c);
        }
    }
    escaped
}

/// For Markdown: as [`terminal`], and what could begin markup, a link or HTML is backslash-escaped or an entity. Newlines
/// and tabs become spaces, so that the text stays in its paragraph. Harmless punctuation stays as it is, since some
/// clients show the escapes.
pub fn markdown(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut before = ' ';
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        let after = rest.clone().next().unwrap_or(' ');
        match c {
            '\n' | '\r' | '\t' => escaped.push(' '),
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            // Bare addresses become links.
            ':' if rest.as_str().starts_with("//") => escaped.push_str("&#58;"),
            // So do these without a scheme. GitHub looks for addresses of mail after it resolved entities, so a word
            // joiner, which is not seen, stands between the parts.
            '@' => escaped.push_str("&#64;&#8288;"),
            '.' if ends_with_www(&escaped) => escaped.push_str("&#46;"),
            // Within a word an underscore is no emphasis.
            '_' if before.is_alphanumeric() && after.is_alphanumeric() => escaped.push('_'),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '!' | '$' => escaped.extend(['\\', c]),
            // Lists, headings and rules, which only a line's start makes.
            '#' | '+' | '-' | '=' if escaped.trim().is_empty() => escaped.extend(['\\', c]),
            '.' | ')' if escaped.trim().bytes().all(|b| b.is_ascii_digit()) => escaped.extend(['\\', c]),
            c if is_deceptive(c) => {
                for c in c.escape_unicode() {
                    if c == '\\' {
                        escaped.push('\\');
                    }
                    escaped.push(c);
                }
            }
            c => escaped.push(c),
        }
        before = c;
    }
    escaped
}

fn ends_with_www(text: &str) -> bool {
    let end = text.as_bytes().iter().rev().take(3);
    end.clone().count() == 3 && end.into_iter().all(|byte| byte.eq_ignore_ascii_case(&b'w'))
}

/// For HTML, in text and in quoted attributes: as [`terminal`], and markup as entities. Newlines and tabs become spaces.
pub fn html(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\r' | '\t' => escaped.push(' '),
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c if is_deceptive(c) => escaped.extend(c.escape_unicode()),
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
    fn json_keeps_its_value() {
        let value = serde_json::json!({"a": "x\u{9b}31m\u{202e}\u{e0001}é🦀\n"});
        let escaped = json(&value.to_string());
        assert!(escaped.chars().all(|c| !is_deceptive(c)), "{escaped}");
        assert!(escaped.contains("\\u009b31m\\u202e\\udb40\\udc01é🦀\\n"), "{escaped}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), value);
    }

    #[test]
    fn lines_of_ours_stay_and_escaping_twice_changes_nothing() {
        let once = terminal_lines("a\n\tb\x1b[0m\n");
        assert_eq!(once, "a\n\tb\\u{1b}[0m\n");
        assert_eq!(terminal_lines(&once), once);
    }

    #[test]
    fn html_keeps_no_markup() {
        assert_eq!(
            html("<a href='x' on=\"y\">&\n\u{202e}\x1b</a>é"),
            "&lt;a href=&#39;x&#39; on=&quot;y&quot;&gt;&amp; \\u{202e}\\u{1b}&lt;/a&gt;é"
        );
    }

    #[test]
    fn markdown_keeps_no_markup_link_or_html() {
        assert_eq!(markdown("operator<<"), "operator&lt;&lt;");
        assert_eq!(markdown("[x](command:y)"), "\\[x\\](command:y)");
        assert_eq!(markdown("a\n# b `c` *d* _e_"), "a # b \\`c\\` \\*d\\* \\_e\\_");
        assert_eq!(markdown("https://evil"), "https&#58;//evil");
        assert_eq!(markdown("www.evil.com (WWW.evil.com)"), "www&#46;evil.com (WWW&#46;evil.com)");
        assert_eq!(markdown("me@evil.com xmpp:a@b.c"), "me&#64;&#8288;evil.com xmpp:a&#64;&#8288;b.c");
        assert_eq!(markdown("mailto:a.b-c_d+e@evil.com"), "mailto:a.b-c_d+e&#64;&#8288;evil.com");
        assert_eq!(markdown("x\u{202e}y"), "x\\\\u{202e}y");
        assert_eq!(markdown("# h"), "\\# h");
        assert_eq!(markdown(" - l"), " \\- l");
        assert_eq!(markdown("1. l"), "1\\. l");
    }

    #[test]
    fn markdown_leaves_ordinary_text_alone() {
        for text in
            ["read_record", "linelens-default", "CUDA does not work, so: 1.5 (a = b) + c.", "Foo::bar"]
        {
            assert_eq!(markdown(text), text);
        }
    }
}
