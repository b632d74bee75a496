//! `wicketgate version`.

use super::{Exit, say};

/// Print the version of this program.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Prints it.
pub fn run(args: &Args) -> Exit {
    let version = env!("CARGO_PKG_VERSION");
    say(match args.json {
        true => serde_json::json!({"name": "wicketgate", "version": version}).to_string(),
        false => format!("wicketgate {version}"),
    });
    Exit::Ok
}
