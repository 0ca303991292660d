//! The command line: arguments → one domain call → text. Exit codes: 0 done, 1 what was asked about is so (`check
//! --fail-on flagged`, `doctor` on an unhealthy set-up, rows of `score`, `eval`, `unpack` or annotation files that are bad or
//! failed), 2 error.

mod against;
mod annotations;
mod arguments;
mod check;
mod checked;
mod colour;
mod doctor;
mod eval;
mod explain;
mod functions;
mod graph;
mod ignored;
mod json;
mod output;
mod render;
mod score;
mod set_up;
mod source;
mod truth;
mod unpack;

use arguments::{Arguments, Command};
use clap::Parser;
use output::{Failure, Output};
use std::ffi::OsString;
use std::process::ExitCode;

/// Runs the program named by `arguments` (the first is the program itself).
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are no errors; clap prints each to the right stream.
            let code = if error.use_stderr() { 2 } else { 0 };
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    let mut output = Output::new(arguments.global.color);
    let result = dispatch(&arguments, &mut output).and_then(|code| match arguments.command {
        // The server has written what it could. A client that reads nothing must not keep it from ending.
        Command::Lsp(_) => Ok(code),
        _ => output.flush().map(|()| code),
    });
    match result {
        Ok(code) => ExitCode::from(code),
        // The reader has seen enough, as in `linelens explain … | head`.
        Err(Failure::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(failure) => {
            output.error(&failure.to_string());
            ExitCode::from(2)
        }
    }
}

fn dispatch(arguments: &Arguments, output: &mut Output) -> Result<u8, Failure> {
    let global = &arguments.global;
    if global.model.len() > 1 && !matches!(arguments.command, Command::Eval(_) | Command::Lsp(_)) {
        return Err(Failure::new(
            "several models were given with --model; only `linelens eval` and `linelens lsp` take several",
        ));
    }
    match &arguments.command {
        Command::Explain(command) => explain::run(global, command, output),
        Command::Functions(command) => functions::run(command, output),
        Command::Check(command) => check::run(global, command, output),
        Command::Graph(command) => graph::run(global, command, output),
        Command::Eval(command) => eval::run(global, command, output),
        Command::Unpack(command) => unpack::run(command, output),
        Command::Score(command) => score::run(global, command, output),
        Command::Annotations(command) => annotations::run(command, output),
        Command::Doctor(command) => doctor::run(global, command, output),
        Command::Lsp(_) => {
            let (config, problems) = set_up::server_config(global)?;
            Ok(crate::lsp::run(config, problems))
        }
    }
}
