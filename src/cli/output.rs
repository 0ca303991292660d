//! Where a command writes: results to standard output, everything else to standard error.

use super::arguments::Color;
use super::colour::Palette;
use crate::escape;
use std::fmt;
use std::io::{self, BufWriter, IsTerminal, Stdout, Write};

/// Why a command ended early.
#[derive(Debug)]
pub(super) enum Failure {
    /// A sentence for the user.
    Message(String),
    /// Standard output could not be written.
    Output(io::Error),
}

impl Failure {
    pub(super) fn new(message: impl Into<String>) -> Failure {
        Failure::Message(message.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Message(message) => f.write_str(message),
            Failure::Output(error) => write!(f, "the output cannot be written: {error}"),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Output(error)
    }
}

/// Buffered standard output, and standard error for messages.
#[derive(Debug)]
pub(super) struct Output {
    /// Not locked: the server writes to standard output from threads of its own.
    out: BufWriter<Stdout>,
    palette: Palette,
}

impl Output {
    pub(super) fn new(color: Color) -> Output {
        let out = BufWriter::new(io::stdout());
        Output { out, palette: Palette::detect(color, |name| std::env::var(name).ok()) }
    }

    pub(super) fn palette(&self) -> Palette {
        self.palette
    }

    /// A piece of the results, with its line ends.
    pub(super) fn text(&mut self, text: &str) -> Result<(), Failure> {
        Ok(self.out.write_all(text.as_bytes())?)
    }

    /// One line of results.
    pub(super) fn line(&mut self, text: &str) -> Result<(), Failure> {
        Ok(writeln!(self.out, "{text}")?)
    }

    pub(super) fn json(&mut self, value: &impl serde::Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(value).map_err(|error| Failure::new(format!("no JSON: {error}")))?;
        self.line(&escape::json(&text))
    }

    pub(super) fn flush(&mut self) -> Result<(), Failure> {
        Ok(self.out.flush()?)
    }

    /// A message that does not end the command, made harmless: pieces of it may stem from files. What was written so far comes first where both go to one terminal.
    pub(super) fn warn(&mut self, text: &str) {
        let _ = self.out.flush();
        let _ = writeln!(io::stderr(), "linelens: warning: {}", escape::terminal_lines(text));
    }

    /// What a person wants to know beside the results.
    pub(super) fn note(&mut self, text: &str) {
        let _ = self.out.flush();
        let _ = writeln!(io::stderr(), "linelens: {}", escape::terminal_lines(text));
    }

    pub(super) fn error(&mut self, text: &str) {
        let _ = self.out.flush();
        let _ = writeln!(io::stderr(), "linelens: error: {}", escape::terminal_lines(text));
    }

    /// Progress, which only a person wants to see.
    pub(super) fn progress(&mut self, text: &str) {
        let stderr = io::stderr();
        if stderr.is_terminal() {
            let _ = write!(stderr.lock(), "\r\x1b[K{text}");
        }
    }
}
