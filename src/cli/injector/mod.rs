//! `wicketgate control injector`: pods of Kubernetes get their gate.

use clap::Subcommand;

use super::{Exit, Failure};

mod api_server;
mod certs;
mod cluster;
pub(super) mod doctor;
mod serve;

/// Give pods of Kubernetes their gate when they are created.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    Serve(serve::InjectorServe),
    Certs(certs::InjectorCerts),
}

/// Runs the command.
pub(super) async fn run(args: &Args) -> Result<Exit, Failure> {
    match &args.command {
        Command::Serve(command) => serve::run(command).await,
        Command::Certs(command) => certs::run(command).await,
    }
}
