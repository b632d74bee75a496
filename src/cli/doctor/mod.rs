//! `wicketgate config doctor`: run as the agent, it tries to get past the gate.

use std::process::{self, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

use super::injector::doctor::{self as injector, InjectorDoctor};
use super::{Exit, block_on, fail, note, say, wait};
use crate::enforce::posture::Probe;
use crate::record::chain::Attempt;

mod gate;
mod local;
mod net;
mod targets;

use gate::{ChallengedGate, ReportReceipt};
pub(super) use gate::{Error as DoctorError, GateAccess};
use local::NamespaceError;
use targets::Target;

/// Run as the agent: try to bypass the gate, and report the result to the gate. Or check the injector of a cluster.
#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true, after_help = concat!(
    "Examples:\n  wicketgate config doctor --socket /run/wicketgate/agent.sock\n",
    "  wicketgate config doctor --gate https://wicketgate.agents.svc:7302 --ca ca.crt --cert tls.crt --cert-key tls.key\n\n",
    "Run it like the agent: with its uid, in its network and mount namespaces, without privileges. Each attempt takes\n",
    "at most 1 s, is one handshake or packet, and carries no data (DNS: a query for the root name servers).\n",
    "No answer means blocked; a refused connection reached the host and means open. For the servers behind the gate\n",
    "(tools, databases, models, ledger and hub, as the gate names them) no answer means blocked only if the gate itself\n",
    "reaches the server; otherwise the result is unknown.\n\n",
    "Tried: TCP to 93.184.216.34, 1.1.1.1, 10.0.0.1, 10.96.0.1, 172.16.0.1, 192.168.0.1, 2606:4700:4700::1111 and\n",
    "fd00::1, port 443; metadata at 169.254.169.254 (also as ::ffff:169.254.169.254), 169.254.170.2, 100.100.100.200,\n",
    "168.63.129.16 and fd00:ec2::254, port 80; DNS at the configured resolvers, 8.8.8.8, 1.1.1.1 and\n",
    "2001:4860:4860::8888; ICMP echo to 1.1.1.1; raw and packet sockets; sockets of Docker, containerd, CRI-O and\n",
    "Podman; the operator API; listening on the gate's addresses; /proc of the gate; changes to its files;\n",
    "service account tokens; capabilities, set-uid programs, new namespaces; kernel keys of other users.\n\n",
    "Exit codes: 0 everything is blocked, 1 something is open, 2 something is unknown.",
))]
pub struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    way: GateAccess,
    /// Also test this target: `tcp:ADDRESS:PORT`, `udp:ADDRESS:PORT` or `unix:FILE`; repeat it for more
    #[arg(long = "target", value_name = "TARGET")]
    targets: Vec<Target>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Repeat after this many seconds, until a signal
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    every: Option<u64>,
    /// Only try to make a user namespace: ends with 0 if that works
    #[arg(long, hide = true)]
    try_namespace: bool,
}

/// What else is looked at.
#[derive(clap::Subcommand, Debug)]
enum Command {
    Injector(InjectorDoctor),
}

/// Runs it.
pub fn run(args: &Args) -> Exit {
    if let Some(Command::Injector(args)) = &args.command {
        return wait(injector::run(args));
    }
    if args.try_namespace {
        return if local::makes_namespaces() { Exit::Ok } else { Exit::Invalid };
    }
    block_on(async {
        match args.every {
            None => once(args).await.exit,
            Some(seconds) => again_and_again(args, Duration::from_secs(seconds)).await,
        }
    })
    .unwrap_or_else(|exit| exit)
}

/// The first pause after an attempt that the gate did not hear of; each one after it is twice as long.
const PAUSE: Duration = Duration::from_secs(1);

/// Runs all attempts after each of these times, until a signal; sooner while the gate does not
/// record them, because it denies its agent's calls until then.
async fn again_and_again(args: &Args, every: Duration) -> Exit {
    // WHY: the kernel sends the first process of a container only signals that it handles.
    let (mut terminate, mut interrupt) =
        match (signal(SignalKind::terminate()), signal(SignalKind::interrupt())) {
            (Ok(terminate), Ok(interrupt)) => (terminate, interrupt),
            (Err(why), _) | (_, Err(why)) => {
                return fail(Exit::Unverifiable, why);
            }
        };
    let mut pause = PAUSE;
    loop {
        tokio::select! {
            biased;
            _ = terminate.recv() => return Exit::Ok,
            _ = interrupt.recv() => return Exit::Ok,
            () = async {
                let wait = if once(args).await.heard {
                    pause = PAUSE;
                    every
                } else {
                    let soon = pause.min(every);
                    pause = pause.saturating_mul(2);
                    note(format!("next attempt in {} s", soon.as_secs()));
                    soon
                };
                tokio::time::sleep(wait).await;
            } => {}
        }
    }
}

/// The result of all attempts together.
struct AttemptReport {
    exit: Exit,
    /// Whether the named gate recorded this report.
    heard: bool,
}

/// All attempts, and the gate's answer to the report about them, if a gate was named.
pub(super) struct AgentAttempts {
    pub probes: Vec<Probe>,
    pub receipt: Option<Result<ReportReceipt, gate::Error>>,
}

/// Tries everything once.
async fn once(args: &Args) -> AttemptReport {
    let AgentAttempts { probes, receipt } = match attempts(&args.way, &args.targets).await {
        Ok(attempts) => attempts,
        Err(why) => {
            return AttemptReport { exit: fail(Exit::Unverifiable, why), heard: false };
        }
    };
    if args.json {
        say(shown(&probes, receipt.as_ref()).to_string());
    } else {
        print(&probes, receipt.as_ref());
    }
    AttemptReport { exit: exit(&probes, receipt.as_ref()), heard: !matches!(receipt, Some(Err(_))) }
}

/// Tries everything once, and reports it to the gate that was named.
pub(super) async fn attempts(
    way: &GateAccess,
    targets: &[Target],
) -> Result<AgentAttempts, gate::Error> {
    let mut gate = way.ask().await?;
    let surroundings = gate.as_ref().map(ChallengedGate::surroundings);
    let mut probes = local::all(surroundings.as_ref(), namespaces());
    probes.extend(net::all(surroundings.as_ref(), targets).await);
    probes.sort_by(|a, b| (&a.probe, &a.target).cmp(&(&b.probe, &b.target)));
    let receipt = match &mut gate {
        None => None,
        Some(gate) => Some(gate.report(&probes).await),
    };
    Ok(AgentAttempts { probes, receipt })
}

fn exit(probes: &[Probe], receipt: Option<&Result<ReportReceipt, gate::Error>>) -> Exit {
    let any = |outcome| probes.iter().any(|probe| probe.outcome == outcome);
    match receipt {
        _ if any(Attempt::Open) => Exit::Invalid,
        Some(Err(_)) => Exit::Unverifiable,
        Some(Ok(_)) | None if any(Attempt::Unknown) => Exit::Unverifiable,
        // The gate sees what the agent cannot: the owner of its uid.
        Some(Ok(ReportReceipt { reasons, .. })) if !reasons.is_empty() => Exit::Invalid,
        Some(Ok(_)) | None => Exit::Ok,
    }
}

fn print(probes: &[Probe], receipt: Option<&Result<ReportReceipt, gate::Error>>) {
    for Probe { probe, target, outcome, detail } in probes {
        say(format!("{:<8} {probe:<24} {target}: {detail}", outcome.as_str()));
    }
    let count = |outcome| probes.iter().filter(|probe| probe.outcome == outcome).count();
    let [blocked, open, unknown] = [Attempt::Blocked, Attempt::Open, Attempt::Unknown].map(count);
    say(format!("{blocked} blocked, {open} open, {unknown} unknown"));
    match receipt {
        None => say("no gate received the report: name one with --socket or --gate"),
        Some(Ok(ReportReceipt { reasons, seq })) => {
            let passed = if reasons.is_empty() { "passed" } else { "failed" };
            say(format!("the gate recorded it as entry {seq}: {passed}"));
            reasons.iter().for_each(|why| say(format!("  {why}")));
        }
        Some(Err(error)) => _ = fail(Exit::Unverifiable, error),
    }
}

fn shown(probes: &[Probe], receipt: Option<&Result<ReportReceipt, gate::Error>>) -> Value {
    let probes: Vec<Value> = probes
        .iter()
        .map(|Probe { probe, target, outcome, detail }| {
            json!({"probe": probe, "target": target, "outcome": outcome.as_str(), "detail": detail})
        })
        .collect();
    let receipt = receipt.map(|receipt| match receipt {
        Ok(ReportReceipt { reasons, seq }) => {
            json!({"passed": reasons.is_empty(), "reasons": reasons, "seq": seq})
        }
        Err(error) => json!({"error": error.to_string()}),
    });
    json!({"probes": probes, "receipt": receipt})
}

/// Whether a user namespace can be made: a process with threads, like this one, never may.
fn namespaces() -> Result<bool, NamespaceError> {
    let mut child = process::Command::new("/proc/self/exe");
    child.args(["config", "doctor", "--try-namespace"]).stdin(Stdio::null()).stdout(Stdio::null());
    let ended = child.stderr(Stdio::null()).status()?;
    match ended.code() {
        Some(0) => Ok(true),
        Some(1) => Ok(false),
        Some(_) | None => Err(NamespaceError::Ended(ended)),
    }
}
