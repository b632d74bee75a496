//! The strongest sandbox in which a server shows the same tools as without one.
//!
//! A stranger's server is tried from the strongest level down. That it lists its tools in there does not say that
//! every call will do: what it reads, changes and connects to only then is not known. What it got is therefore said.

use std::io::IsTerminal as _;
use std::path::Path;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::draft::Draft;
use super::grants::Grants;
use super::probe::{Governed, ask_alone, check};
use crate::catalog::command::Level;
use crate::catalog::lock::LockedServer;
use crate::catalog::server::Transport;
use crate::cli::complain;

/// Characters of a reason that are told: of its beginning, and of its end, where a server says what it died of.
const WHY_FRONT: usize = 120;
const WHY_BACK: usize = 280;

/// Whether servers that are programs are tried in a sandbox.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Choice {
    /// In S2, then in S1: the first in which it shows the same tools is written.
    Auto,
    /// No: `level: none` is written.
    None,
}

/// What a server that is a program will run in.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Confined {
    /// The sandbox and what it is given in there; `None`: without one.
    pub inside: Option<(Level, Grants)>,
    /// Why not in a stronger one, each with what was tried.
    pub why: Vec<String>,
}

impl Confined {
    /// `stdio.sandbox` of the configuration.
    #[must_use]
    pub fn config(&self) -> Value {
        let Some((level, grants)) = &self.inside else { return json!({"level": "none"}) };
        let given = [("read", &grants.read), ("write", &grants.write)];
        let given = given.into_iter().filter(|(_, paths)| !paths.is_empty());
        let network = grants.network.then(|| ("network", json!("host")));
        let members = std::iter::once(("level", json!(level.as_str())))
            .chain(given.map(|(name, paths)| (name, json!(paths))))
            .chain(network);
        Value::Object(members.map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// The same in words.
    #[must_use]
    pub fn told(&self) -> String {
        let why = self.why.join("; ");
        let Some((level, grants)) = &self.inside else {
            return format!("runs without a sandbox: {why}");
        };
        let list = |paths: &[std::path::PathBuf]| {
            let all: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
            if all.is_empty() { "nothing".to_owned() } else { all.join(", ") }
        };
        let (read, write) = (list(&grants.read), list(&grants.write));
        let weaker = if why.is_empty() { why } else { format!(" ({why})") };
        let level = level.as_str();
        let reach = if grants.network { "whatever this host reaches" } else { "nothing" };
        format!("runs in {level}{weaker}: reads {read}; changes {write}; connects to {reach}")
    }
}

/// Where it is tried, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Trial<'a> {
    /// Whether it is.
    pub choice: Choice,
    /// Where the configuration and its credentials lie now.
    pub base: &'a Path,
    /// Where they will lie: no server may be given it.
    pub dir: &'a Path,
    /// What a server gets to start and answer.
    pub within: Duration,
}

/// Each of these in the strongest level that it works in.
pub async fn confine(governed: Vec<Governed>, trial: Trial<'_>) -> Vec<Governed> {
    join_all(governed.into_iter().map(|one| strongest(one, trial))).await
}

async fn strongest(mut one: Governed, trial: Trial<'_>) -> Governed {
    if one.draft.reach.0 != "stdio" {
        return one;
    }
    if trial.choice == Choice::None {
        one.draft.confined.why = vec!["`--sandbox none`".to_owned()];
        return one;
    }
    let grants = match grants(&one.draft, trial.base) {
        Ok(grants) => grants,
        Err(why) => {
            one.draft.confined.why = vec![why];
            return one;
        }
    };
    let mut why: Vec<(&str, String)> = Vec::new();
    for level in [Level::S2, Level::S1] {
        let name = level.as_str();
        if std::io::stderr().is_terminal() {
            complain(format!("{}: trying {name} …", one.draft.client_name));
        }
        one.draft.confined.inside = Some((level, grants.clone()));
        match shows_the_same(&one, trial).await {
            Ok(locked) => {
                one.locked = locked;
                one.draft.confined.why = reasons(&why);
                return one;
            }
            Err(reason) => why.push((name, shortened(&reason))),
        }
    }
    one.draft.confined = Confined { inside: None, why: reasons(&why) };
    one
}

/// What its command line, its arguments and its variables name.
fn grants(draft: &Draft, base: &Path) -> Result<Grants, String> {
    let server = check(draft, base, &[])?;
    let Transport::Stdio(stdio) = &server.transport else { return Err("is no program".to_owned()) };
    let written = draft.reach.1.get("env").and_then(Value::as_object);
    let values = written.into_iter().flatten().filter_map(|(_, value)| value.as_str());
    Grants::of(stdio, &values.collect::<Vec<_>>())
}

/// What it shows as it will be written, if that is what it shows without a sandbox.
async fn shows_the_same(one: &Governed, trial: Trial<'_>) -> Result<LockedServer, String> {
    let forbidden = [trial.base.to_owned(), trial.dir.to_owned()];
    let server = check(&one.draft, trial.base, &forbidden)?;
    let (locked, left_out) = ask_alone(&server, trial.within).await?;
    let same = locked.tools == one.locked.tools
        && locked.methods == one.locked.methods
        && left_out == one.left_out;
    if same { Ok(locked) } else { Err("shows other tools than without".to_owned()) }
}

/// One reason for both levels is said once.
fn reasons(why: &[(&str, String)]) -> Vec<String> {
    match why {
        [(one, reason), (other, same)] if reason == same => {
            vec![format!("{one} and {other}: {reason}")]
        }
        _ => why.iter().map(|(level, reason)| format!("{level}: {reason}")).collect(),
    }
}

fn shortened(why: &str) -> String {
    let over = why.chars().count().saturating_sub(WHY_FRONT.saturating_add(WHY_BACK));
    if over == 0 {
        return why.to_owned();
    }
    let front: String = why.chars().take(WHY_FRONT).collect();
    let back: String = why.chars().skip(WHY_FRONT.saturating_add(over)).collect();
    format!("{front} … {back}")
}
