//! The tools and servers the configuration describes, opened; and opened again when it changes.
//!
//! Read again on request, and when configuration file, lock, its envelope or a file of authorities or of a
//! database's address is another than before. Only `tools`, `servers` and `lock` are taken over; whatever else changed needs a restart and
//! is said to. What is wrong is refused as a whole: the old stays in force.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::Stage;
use super::checked::Checked;
use super::running::Running;
use crate::catalog::lock;
use crate::config::{self, Config};
use crate::crypto::files::Seen;
use crate::replay::props;
use crate::tool::mcp::Upstreams;
use crate::tool::toolbox::Toolbox;

/// Sections that are taken over while the gate runs.
const TAKEN: [&str; 3] = ["tools", "servers", "lock"];

/// Members of tools and servers that name a file which is read with them. Credentials follow theirs by
/// themselves.
const NAMED: [&str; 2] = ["url_file", "ca_file"];

/// Every bound tool, and the servers behind some of them.
pub(super) struct Tools {
    pub toolbox: Toolbox,
    pub upstreams: Upstreams,
}

/// Opens everything that is bound. Reaches no network and starts no server.
pub(super) fn open(config: &Config) -> Result<Tools, Vec<String>> {
    open_after(config, &Upstreams::default())
}

/// The tools of a recording: none of them reaches anything.
pub(super) fn recorded(stage: &Stage) -> Result<Tools, Vec<String>> {
    let toolbox = props::toolbox(stage.player.recording(), &stage.player);
    let toolbox = toolbox.map_err(|why| vec![format!("the recording: {why}")])?;
    Ok(Tools { toolbox, upstreams: Upstreams::default() })
}

/// The same; servers that did not change keep their connections.
fn open_after(config: &Config, before: &Upstreams) -> Result<Tools, Vec<String>> {
    let bound = config.bindings(&config::environment)?;
    bound.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    let upstreams = Upstreams::following(before, &bound.servers);
    let toolbox = Toolbox::build(bound.bindings, &upstreams)
        .map_err(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>())?;
    Ok(Tools { toolbox, upstreams })
}

/// Looks at what the tools reach, all at the same time, and says what must not be used.
pub(super) async fn look(tools: &Tools) -> Vec<String> {
    let looking = tools.toolbox.iter().map(|tool| async {
        let looked = tool.executor.look().await;
        looked.err().map(|why| format!("tool `{}`: {why}", tool.facts.name))
    });
    futures_util::future::join_all(looking).await.into_iter().flatten().collect()
}

/// The files that describe tools and servers, and those they name, as they are now.
pub(super) fn files(config: &Config) -> Seen {
    let lock = config.lock.iter().flat_map(|lock| [lock.clone(), lock::envelope_path(lock)]);
    let named = config.tools.iter().chain(&config.servers).flat_map(|one| named(one, &config.base));
    Seen::of(config.file.iter().cloned().chain(lock).chain(named))
}

/// The files that a tool or server names under these words.
fn named(value: &Value, base: &Path) -> Vec<PathBuf> {
    match value {
        Value::Object(members) => members
            .iter()
            .flat_map(|(name, member)| match member.as_str() {
                Some(path) if NAMED.contains(&name.as_str()) => vec![base.join(path)],
                Some(_) | None => named(member, base),
            })
            .collect(),
        Value::Array(items) => items.iter().flat_map(|item| named(item, base)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

/// Reads the files again and puts in force what they say now. Gives back what was read, to be compared
/// with what comes next; `None`: the books could not take it, so it is to be tried again.
pub(super) async fn reload(checked: &Checked, running: &Running) -> Option<Seen> {
    if checked.stage.is_some() {
        // No file describes what is replayed.
        return Some(files(&checked.config));
    }
    let before = running.upstreams.load_full();
    let config = checked.config.clone();
    let reading = tokio::task::spawn_blocking(move || read_again(&config, &before));
    let (files, read) = match reading.await {
        Ok(read) => read,
        Err(lost) => (files(&checked.config), Err(vec![lost.to_string()])),
    };
    let Tools { toolbox, upstreams } = match read {
        Ok(tools) => tools,
        Err(wrong) => {
            for why in &wrong {
                tracing::error!(%why, "tools and servers were refused; the old stay in force");
            }
            return Some(files);
        }
    };
    let road = running.road.get()?;
    match road.set_toolbox(toolbox).await {
        Ok(recorded) => tracing::info!(changed = recorded.is_some(), "tools and servers are read"),
        Err(why @ crate::ledger::Error::Unknown) => tracing::warn!(%why, "tools and servers"),
        Err(why) => {
            tracing::warn!(%why, "tools and servers are not in force yet");
            return None;
        }
    }
    upstreams.start_all();
    running.upstreams.store(Arc::new(upstreams));
    running.tell();
    Some(files)
}

/// The files as they were before they were read, and what they say. Blocks.
fn read_again(started: &Config, before: &Upstreams) -> (Seen, Result<Tools, Vec<String>>) {
    let seen = files(started);
    let Some(file) = &started.file else { return (seen, open_after(started, before)) };
    let next = match Config::load(file, &config::environment) {
        Ok(next) => next,
        Err(problems) => {
            return (seen, Err(problems.iter().map(ToString::to_string).collect()));
        }
    };
    let restart = differing(started, &next);
    if !restart.is_empty() {
        tracing::warn!(sections = %restart.join(", "), "changed, and needs a restart");
    }
    let Config { tools, servers, lock, .. } = next;
    let taken = Config { tools, servers, lock, ..started.clone() };
    // The lock may be another file now. Marked before it is read: what changes in between counts.
    let seen = seen.and(files(&taken));
    (seen, open_after(&taken, before))
}

/// Sections that are not as they were at the start, without those that are taken over.
fn differing(started: &Config, next: &Config) -> Vec<String> {
    let sections = |config: &Config| serde_json::to_value(config).unwrap_or_default();
    let (started, next) = (sections(started), sections(next));
    let names = next.as_object().into_iter().flat_map(|all| all.keys());
    let differs = |name: &&String| {
        !TAKEN.contains(&name.as_str()) && started.get(name.as_str()) != next.get(name.as_str())
    };
    names.filter(differs).cloned().collect()
}
