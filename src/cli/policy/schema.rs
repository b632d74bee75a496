//! `wicketgate policy schema`.

use crate::cli::{Exit, say};
use crate::domain::canonical;
use crate::policy::lint::schema;
use crate::policy::testing::sample;

/// `policy schema`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Print a complete example document instead
    #[arg(long)]
    example: bool,
}

/// Prints it.
pub fn run(args: &Args) -> Exit {
    if args.example {
        say(canonical::text(&sample::document(&[])));
    } else {
        say(pretty());
    }
    Exit::Ok
}

/// The schema as a file of its own.
pub fn pretty() -> String {
    format!("{:#}", schema::schema())
}
