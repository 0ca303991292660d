//! Text that comes from files, made safe to show: names of functions and models are chosen by strangers.

/// Control, bidirectional and invisible formatting characters become their escapes.
pub(crate) fn plain(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if is_deceptive(c) {
            safe.extend(c.escape_unicode());
        } else {
            safe.push(c);
        }
    }
    safe
}

/// As [`plain`], and nothing is left that Markdown reads as more than a character: no links, code or HTML.
pub(crate) fn markdown(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if is_deceptive(c) {
            safe.extend(c.escape_unicode().flat_map(|c| match c {
                '\\' | '{' | '}' => ['\\', c].into_iter().take(2),
                _ => [c, c].into_iter().take(1),
            }));
        } else {
            if c.is_ascii_punctuation() {
                safe.push('\\');
            }
            safe.push(c);
        }
    }
    safe
}

fn is_deceptive(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_stays_active() {
        assert_eq!(markdown("a_b<T>"), r"a\_b\<T\>");
        assert_eq!(markdown("[x](command:rm)"), r"\[x\]\(command\:rm\)");
        assert_eq!(plain("a\u{202e}b\nc"), r"a\u{202e}b\u{a}c");
        assert_eq!(markdown("\u{202e}"), r"\\u\{202e\}");
        assert_eq!(plain("naïve → ok"), "naïve → ok");
    }
}
