//! What the user reads: one line per step for a person, or one JSON object per step for a program.

use std::io::IsTerminal as _;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::say;
use super::directory::DemoDirectory;
use crate::config;

/// The width of the first column.
const MARGIN: usize = 11;

/// How a step is marked on a terminal.
#[derive(Clone, Copy)]
enum StepStyle {
    Plain,
    Green,
    Red,
    Yellow,
}

impl StepStyle {
    fn of(label: &str) -> Self {
        match label {
            "allowed" | "verified" => Self::Green,
            "denied" | "tampered" => Self::Red,
            "held" => Self::Yellow,
            _ => Self::Plain,
        }
    }

    const fn code(self) -> &'static str {
        match self {
            Self::Plain => "1",
            Self::Green => "1;32",
            Self::Red => "1;31",
            Self::Yellow => "1;33",
        }
    }
}

/// Prints the steps of the quickstart.
pub struct StepPrinter {
    json: bool,
    coloured: bool,
}

impl StepPrinter {
    /// A story for a program or for a person.
    pub fn new(json: bool) -> Self {
        let wanted = config::environment("NO_COLOR").is_none_or(|value| value.is_empty());
        let is_dumb = config::environment("TERM").is_some_and(|term| term == "dumb");
        Self { json, coloured: wanted && !is_dumb && !json && std::io::stdout().is_terminal() }
    }

    /// The first lines.
    pub fn begin(&self) {
        if !self.json {
            say(
                "An agent, six tools of four kinds, and the gate between them. Nothing leaves this machine.\n",
            );
        }
    }

    /// One step that went as expected.
    pub fn step(&mut self, step: &str, label: &str, line: &str, facts: &Value) {
        if self.json {
            let mut object = serde_json::Map::new();
            object.insert("step".into(), json!(step));
            object.insert("ok".into(), json!(true));
            object.extend(facts.as_object().cloned().unwrap_or_default());
            say(Value::Object(object).to_string());
            return;
        }
        let padded = format!("{label:<MARGIN$}");
        if self.coloured {
            let color = StepStyle::of(label).code();
            say(format!("\u{1b}[{color}m{padded}\u{1b}[0m{line}"));
        } else {
            say(format!("{padded}{line}"));
        }
    }

    /// More about the step before.
    pub fn more(&self, text: &str) {
        if self.json {
            return;
        }
        for line in text.lines() {
            say(format!("{:<MARGIN$}{line}", ""));
        }
    }

    /// A command that the user can type as well.
    pub fn command(&self, args: &[&str]) {
        self.more(&format!("$ wicketgate {}", args.join(" ")));
    }

    /// Leaves a line empty.
    pub fn gap(&self) {
        if !self.json {
            say("");
        }
    }

    /// The step that failed.
    pub fn failed(&self, why: &str) {
        if self.json {
            say(json!({"step": "failed", "ok": false, "why": why}).to_string());
        }
    }

    /// Ends the story with a summary.
    pub fn end(&mut self, demo: &DemoDirectory, took: Duration) {
        let millis = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        if self.json {
            self.step("end", "", "", &json!({"dir": demo.shown(), "ms": millis}));
            return;
        }
        say("\nWhat happened");
        say(
            "  The agent could only ask. For each call the gate checked what would be touched, evaluated
  \
            the policy, recorded the decision, and only then ran the tool, with a credential the agent never
  \
            saw; the answer was recorded before the agent read it. Calls that the policy denied never ran.
  \
            The call that needs two people was held until both had signed for exactly that call, each with an
  \
            SSH key of their own; then it was judged again, and ran once. evidence/approvals/ proves it.",
        );
        say("\nWhat is left");
        for (path, what) in [
            ("wicketgate.yaml", "the configuration; agent.yaml and policy/ are signed"),
            ("state/ledger.sqlite", "the ledger, and beside it the gate's own keys"),
            (
                "evidence/report.html",
                "what an auditor opens first; evidence/VERIFY.md explains how to verify without wicketgate",
            ),
            ("auditor/trust.txt", "the keys the auditor trusts, and the head noted before the run"),
            ("evidence-tampered/", "the copy with one byte changed"),
        ] {
            say(format!("  {:<21} {what}", path));
        }
        say(format!("  all below {}", demo.shown()));
        let seconds = took.as_secs_f64();
        say(format!(
            "\nEvery step had the expected result, in {seconds:.1} s. No process was left running."
        ));
    }
}
