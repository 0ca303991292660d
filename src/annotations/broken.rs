//! What is wrong with a text that is to be JSON, in plain words.

/// What serde says, and what a person can do with.
const WORDS: &[(&str, &str)] = &[
    ("EOF while parsing a list", "it ends within a list: the closing `]` is missing"),
    ("EOF while parsing an object", "it ends within an object: the closing `}` is missing"),
    ("EOF while parsing a string", "it ends within a text: the closing quote is missing"),
    ("EOF while parsing a value", "it ends where a value should follow"),
    (
        "expected ident",
        "of the bare words only `true`, `false` and `null` may stand here; put a text in double quotes",
    ),
    (
        "expected value",
        "expected a value: a text in double quotes, a number, a list, an object, `true`, `false` or `null`",
    ),
    ("expected `:`", "expected a colon between a field's name and its value"),
    ("expected `,` or `]`", "expected a comma or the `]` that closes the list"),
    ("expected `,` or `}`", "expected a comma or the `}` that closes the object"),
    ("expected `\"`", "expected a text in double quotes"),
    ("expected a string key", "expected a field's name in double quotes"),
    ("key must be a string", "expected a field's name in double quotes"),
    ("trailing comma", "a comma stands before the end of a list or an object; take it away"),
    (
        "trailing characters",
        "something follows the end of the value; put it on a line of its own, or take it away",
    ),
    ("invalid number", "a number is not written as JSON writes it, such as 7, -7 or 0.5"),
    ("number out of range", "a number is too large"),
    (
        "invalid escape",
        "after a backslash in a text expected one of \" \\ / b f n r t u; write two for a backslash",
    ),
    ("control character", "a text holds a control character, such as a tab; write it as \\t or \\u0009"),
    ("lone leading surrogate", "half of a pair of \\u escapes stands alone"),
    ("unexpected end of hex escape", "half of a pair of \\u escapes stands alone"),
    ("invalid unicode code point", "it holds bytes that are not UTF-8"),
    ("recursion limit exceeded", "lists and objects lie in each other more than 127 deep"),
];

/// What is wrong with the syntax, and where. `error` comes from reading something that is no JSON.
pub(crate) fn syntax(error: &serde_json::Error) -> String {
    let said = error.to_string();
    let said = said.rsplit_once(" at line ").map_or(said.as_str(), |(what, _)| what);
    let words = WORDS.iter().find(|(theirs, _)| said.starts_with(theirs)).map_or(said, |(_, ours)| ours);
    format!("{words} ({})", place(error))
}

/// Where an error is: rows have one line.
pub(super) fn place(error: &serde_json::Error) -> String {
    match error.line() {
        0 | 1 => format!("at byte {}", error.column()),
        line => format!("in line {line}, at byte {}", error.column()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_json_is_told_in_plain_words() {
        let say = |text: &[u8]| syntax(&serde_json::from_slice::<serde_json::Value>(text).unwrap_err());
        for (text, words) in [
            ("{\"a\":nul}", "put a text in double quotes (at byte 9)"),
            ("{\"a\":no}", "put a text in double quotes (at byte 7)"),
            ("{\"a\":[1", "the closing `]` is missing (at byte 7)"),
            ("{\"a\":1", "the closing `}` is missing (at byte 6)"),
            ("{\"a\":\"b", "the closing quote is missing (at byte 7)"),
            ("{\"a\":", "it ends where a value should follow (at byte 5)"),
            ("{\"a\":x}", "expected a value: a text in double quotes, a number"),
            ("{\"a\" 1}", "expected a colon"),
            ("[1 2]", "the `]` that closes the list (at byte 4)"),
            ("{\"a\":1 \"b\"}", "the `}` that closes the object (at byte 8)"),
            ("{a:1}", "expected a field's name in double quotes (at byte 2)"),
            ("[1,]", "a comma stands before the end"),
            ("{} {}", "something follows the end of the value"),
            ("[01]", "as JSON writes it"),
            ("[1e999]", "a number is too large"),
            ("[\"\\q\"]", "write two for a backslash"),
            ("[\"\t\"]", "a control character"),
            ("[\"\\ud800\"]", "half of a pair"),
            ("{\n\"a\":\n}", "(in line 3, at byte 1)"),
        ] {
            let said = say(text.as_bytes());
            assert!(said.contains(words), "{text}: {said}");
            for word in ["EOF", "ident", "parsing", "surrogate", "trailing", "column"] {
                assert!(!said.contains(word), "{text}: {said}");
            }
        }
        assert!(say(b"[\"\xff\"]").contains("not UTF-8"));
        assert!(say("[".repeat(200).as_bytes()).contains("127 deep"));
    }
}
