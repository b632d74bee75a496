//! `wicketgate control injector certs`.

use clap::Subcommand;

use super::{Exit, Failure};

mod certs;

/// Give pods of Kubernetes their gate when they are created.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Certs(certs::InjectorCerts),
}

/// Runs the command.
pub(super) async fn run(args: &Args) -> Result<Exit, Failure> {
    match &args.command {
        Command::Certs(command) => certs::run(command).await,
    }
}
