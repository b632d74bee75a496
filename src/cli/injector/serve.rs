//! `wicketgate injector serve`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use super::super::{Exit, Failure, listening, serve};
use crate::clock::SystemClock;
use crate::injector::ProfileDirectory;
use crate::injector::server::{self, InjectorServer};
use crate::serve::tls::{Clients, Files, Tls};
use crate::telemetry::injector::InjectorMetrics;
use crate::telemetry::setup;

/// Answer the admission reviews of the API server, until a signal.
///
/// Each pod that asks for a gate by the label `wicketgate.dev/gate: <profile>` gets the gate of that profile as its first init
/// container, or is refused with every reason. The annotation `wicketgate.dev/config` names the ConfigMap of the gate;
/// `wicketgate.dev/agents` names the containers of the agent, all containers without it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
        wicketgate control injector serve --profiles profiles --tls-cert tls.crt --tls-key tls.key\n  \
        wicketgate control injector serve --profiles profiles --listen 0.0.0.0:7303 --tls-cert tls.crt --tls-key tls.key\n\n\
        `POST /mutate` gives a pod its gate, `POST /validate` refuses a pod that lacks a part of it; `/livez`, `/readyz` and\n\
        `/metrics` are beside them. Profiles and certificate are read again when they change; unusable ones are refused, and\n\
        the old ones stay in use. `/readyz` fails 24 hours before the certificate ends. The injector needs no permission in\n\
        the cluster. SIGTERM ends it with 0. Exits with 78 when a profile or the certificate is wrong.")]
pub(super) struct InjectorServe {
    /// Directory of profiles: one `<profile>.yaml` each
    #[arg(long, value_name = "DIR")]
    profiles: PathBuf,
    /// Address to listen on, with TLS
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7303")]
    listen: SocketAddr,
    /// Certificate chain of the listener (PEM), its own certificate first
    #[arg(long, value_name = "FILE")]
    tls_cert: PathBuf,
    /// Private key of the certificate (PEM), a file of mode 0600 or 0440
    #[arg(long, value_name = "FILE")]
    tls_key: PathBuf,
    /// Log JSON lines
    #[arg(long)]
    json: bool,
    /// End when this process, which has to be the parent, ends
    #[arg(long, value_name = "PID", hide = true)]
    parent: Option<u32>,
}

/// Runs it.
pub(super) async fn run(command: &InjectorServe) -> Result<Exit, Failure> {
    command.parent.map_or(Ok(()), serve::end_with).map_err(Failure::invalid)?;
    let logging = setup::init("info", command.json, None);
    let _logging = logging.map_err(Failure::config)?;
    let profiles = ProfileDirectory::open(command.profiles.clone()).map_err(Failure::config)?;
    let (cert, key) = (command.tls_cert.clone(), command.tls_key.clone());
    let tls = Tls::load(Files { cert, key, clients: Clients::Unasked }).map_err(Failure::config)?;
    let (clock, metrics) = (Arc::new(SystemClock::new()), InjectorMetrics::new());
    let injector = InjectorServer { profiles, tls, clock, metrics };
    let serving = |listener, shutdown| server::serve(injector, listener, shutdown);
    listening::until_signal("https", command.listen, serving).await?;
    Ok(Exit::Ok)
}
