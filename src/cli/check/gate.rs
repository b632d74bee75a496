//! The running gate, and the way that its agent could take around it.

use super::list::CheckSection;
use crate::app::listen::OPERATORS;
use crate::cli::doctor::{self, DoctorError};
use crate::cli::health;
use crate::config::Config;
use crate::record::chain::Attempt;

/// Whether the gate of this configuration runs here and is ready.
pub(super) async fn running(config: &Config) -> CheckSection {
    let mut section = CheckSection::new("gate");
    let socket = config.state.join(OPERATORS);
    match health::on_socket(&socket, "/readyz").await {
        Err(why) => {
            let hint = "start it with `wicketgate serve`, or check without a gate: `wicketgate check --pre`";
            section.unknown(why.summary(), hint);
        }
        Ok((ready, lines)) => {
            section.passed(format!("it answers on `{}`", socket.display()));
            let mut lines = lines.into_iter();
            let state = lines.next().unwrap_or_default();
            match ready {
                true => section.passed("it is ready"),
                false => section.failed(format!("it is {state}"), None),
            }
            for line in lines {
                match ready {
                    true => section.warned(line),
                    false => section.failed(line, None),
                }
            }
            console(config, &mut section);
        }
    }
    section
}

/// Where people find the console.
fn console(config: &Config, section: &mut CheckSection) {
    let listen = config.operator.listen;
    let is_on = config.console.settings(&config.operator).is_some();
    match (is_on, config.console.origins.first()) {
        (false, _) => section.skipped("the console is off (`console.enabled`)"),
        (true, Some(origin)) => section.passed(format!("the console is at {origin}/console")),
        // Only the process knows which port the system gave it.
        (true, None) if listen.port() == 0 => {
            section.passed("the console is on, at a free port that the gate's log names");
        }
        (true, None) => section.passed(format!("the console is at http://{listen}/console")),
    }
}

/// What this process, started like the agent, can reach around the gate.
pub(super) async fn isolation(way: &doctor::GateAccess) -> Result<CheckSection, DoctorError> {
    let mut section = CheckSection::new("isolation");
    let report = doctor::attempts(way, &[]).await?;
    for probe in &report.probes {
        let text = format!("{} {}: {}", probe.probe, probe.target, probe.detail);
        match probe.outcome {
            Attempt::Blocked => section.passed(text),
            Attempt::Open => {
                section.failed(text, "close it: docs/security/isolation.md".to_owned());
            }
            Attempt::Unknown => {
                section.unknown(text, "run this as the agent, beside a running gate");
            }
        }
    }
    match &report.receipt {
        None => section.skipped("no gate received the report: name one with --socket or --gate"),
        Some(Ok(receipt)) => {
            section.passed(format!("the gate recorded the attempts as entry {}", receipt.seq));
            receipt.reasons.iter().for_each(|why| section.failed(why.clone(), None));
        }
        Some(Err(why)) => section.unknown(why.to_string(), "look at the gate's log"),
    }
    Ok(section)
}
