//! The `wicketgate-verify` program: checks a bundle offline, and does nothing else.

use std::process::ExitCode;

use clap::Parser;
use wicketgate_verify::command::{End, Program};

fn main() -> ExitCode {
    let end = match Program::try_parse() {
        Ok(program) => program.run(),
        Err(error) => {
            // Ignore a terminal that is gone.
            let _ = error.print();
            if error.use_stderr() { End::Usage } else { End::Valid }
        }
    };
    ExitCode::from(end.code())
}
