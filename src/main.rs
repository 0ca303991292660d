//! The `linelens` binary: arguments → library; exit codes. Nothing else.

use std::process::ExitCode;

fn main() -> ExitCode {
    linelens::cli::run(std::env::args_os())
}
