//! The `wicketgate-verify` program: checks a bundle offline, and can do nothing else.

use std::process::ExitCode;

use clap::Parser;
use wicketgate::evidence::command::{self, End, Options};

/// Check a bundle offline, against trust roots that are not from the bundle.
///
/// The same checks, output and exit codes as `wicketgate evidence verify`, in a program that links
/// no database and no network code.
#[derive(Parser, Debug)]
#[command(
    name = "wicketgate-verify",
    version,
    after_help = "Exit codes: 0 valid, 1 invalid, 2 unverifiable or below the level, 64 usage."
)]
struct Cli {
    #[command(flatten)]
    options: Options,
}

fn main() -> ExitCode {
    let end = match Cli::try_parse() {
        Ok(cli) => command::run(&cli.options),
        Err(error) => {
            // Nobody is left to tell if the terminal is gone.
            let _ = error.print();
            if error.use_stderr() { End::Usage } else { End::Valid }
        }
    };
    ExitCode::from(end.code())
}
