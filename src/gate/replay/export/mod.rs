//! Writes the entries and payloads of a run and its descendants as a recording that replays without
//! the ledger.
//!
//! The export adds nothing to the ledger's content: it writes a step only if all its payloads are
//! stored and open the commitments of its entries. If something is missing, the export names it and
//! writes no file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::flaw::{Gap, ReplayObstacle, StepGap};
use super::line::ToolList;
use super::recording::VERSION;
use super::{Error, children};
use crate::domain::digest::Digest;
use crate::domain::id::{RunId, Seq, ToolName};
use crate::domain::json::{Json, Limits};
use crate::evidence;
use crate::evidence::artifacts::Artifacts;
use crate::evidence::disclosed::{DisclosureKeys, Redactions, disclose};
use crate::evidence::gather;
use crate::evidence::payloads::Payloads;
use crate::evidence::projection::decides;
use crate::ledger::retention::Records;
use crate::ledger::store::{ChainRow, LedgerReader};
use crate::ledger::vault::Vault;
use crate::ledger::verify::EntryLine;
use crate::record::debug_by;
use crate::record::run::RunOpened;
use crate::record::{Kind, Role};
use crate::tool::client;
use crate::verify::contents::templates_of;

mod family;
mod out;
mod parts;
mod step;

use family::{FamilyLines, calls, recorded};
use out::RecordingWriter;
use parts::EarlierMessages;
use step::{Bound, ShownTools, bound, step};

/// The most gaps that an error names.
const TOLD_MAX: usize = 8;

/// Which run to export, from where, to where.
pub struct RecordingOrder<'a> {
    /// The ledger.
    pub reader: &'a dyn LedgerReader,
    /// The tenant that owns the chains; `default` on one machine.
    pub tenant: &'a str,
    /// The run.
    pub run: &'a RunId,
    /// Policy bundles and manifests by digest.
    pub artifacts: &'a Artifacts,
    /// The parts of payloads to redact; the recording keeps only their commitments.
    pub redactions: &'a Redactions,
    /// Keys of payloads that are stored encrypted.
    pub vault: Option<&'a Vault>,
    /// The file to create; it must not exist.
    pub out: &'a Path,
    /// Name and version of the program.
    pub program: &'a str,
}

debug_by!(RecordingOrder<'_>: run, out);

/// A recording that was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExportedRecording {
    /// Its steps.
    pub steps: u64,
    /// Its bytes.
    pub bytes: u64,
    /// SHA-256 of the file.
    pub digest: Digest,
}

/// Writes the recording of one sealed run.
///
/// # Errors
/// The run does not exist, was not recorded, is not sealed, or part of it is not stored; or the
/// file exists or cannot be written. Then no file is left.
pub async fn export(order: &RecordingOrder<'_>) -> Result<ExportedRecording, Error> {
    let store = evidence::Error::from;
    let records = Records::read(order.reader, order.tenant).await.map_err(store)?;
    let mut chains = order.reader.chains().await.map_err(store)?;
    chains.retain(|row| row.tenant == order.tenant);
    let row = gather::chain_of(order.reader, &chains, order.run).await.map_err(store)?;
    let row = row.ok_or_else(|| evidence::Error::NoRun(order.run.to_string()))?;
    let family = FamilyLines::read(order.reader, row, order.run).await?;
    let source = Source { order, row, records: &records };
    let obstacle = |why| Error::Run { run: *order.run, why };
    if order.redactions.names("tools") {
        return Err(obstacle(ReplayObstacle::Shown));
    }
    let opened = recorded(&family).map_err(obstacle)?;
    let failed = |source| Error::File { file: order.out.display().to_string(), source };
    let mut out = RecordingWriter::create(order.out).map_err(failed)?;
    let written = source.write(opened, &family, &mut out).await;
    let done = match written {
        Ok(()) => out.end().map_err(failed),
        Err(RecordingRefusal::Io(e)) => Err(failed(e)),
        Err(RecordingRefusal::Run(why)) => Err(obstacle(why)),
        Err(RecordingRefusal::Ledger(e)) => Err(Error::Ledger(e)),
    };
    if done.is_err() {
        // A partial file is not a recording.
        drop(std::fs::remove_file(order.out));
    }
    done
}

/// Why the export writes nothing.
#[derive(Debug, thiserror::Error)]
enum RecordingRefusal {
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error(transparent)]
    Run(#[from] ReplayObstacle),
    #[error(transparent)]
    Ledger(#[from] evidence::Error),
}

/// The sources of everything in the recording.
struct Source<'a> {
    order: &'a RecordingOrder<'a>,
    row: &'a ChainRow,
    records: &'a Records,
}

impl Source<'_> {
    async fn write(
        &self,
        opened: &EntryLine,
        family: &FamilyLines,
        out: &mut RecordingWriter,
    ) -> Result<(), RecordingRefusal> {
        let lines = family.lines();
        let calls = calls(&lines);
        out.line(header(self, opened))?;
        self.manifests(opened, family, out)?;
        self.policies(&lines, out)?;
        let (mut payloads, mut missing) = (Payloads::default(), Vec::new());
        self.open(&[opened], &mut payloads).await?;
        let shown = match bound(&payloads, opened, Role::Tools) {
            Ok(shown) => tools(&shown, out)?,
            Err(why) => {
                missing.push(Gap::Shown(why));
                ShownTools::default()
            }
        };
        for (run, opened) in family.children() {
            out.line(child(run, opened, &calls)?)?;
        }
        let mut number: u64 = 0;
        let models = models(&lines);
        let mut said = EarlierMessages::default();
        let mut ends = BTreeMap::new();
        for call in calls {
            number = number.saturating_add(1);
            let mut payloads = Payloads::default();
            self.open(&call, &mut payloads).await?;
            let run = call.first().and_then(|line| line.entry.run.as_ref()).map(|link| link.run);
            let child = run.filter(|run| run != self.order.run);
            let tool = call.first().and_then(|line| line.entry.draft.tool.as_ref());
            said.add(&call, &payloads, tool.is_some_and(|tool| models.contains(tool)));
            let members = asked_for((run, &call), &mut ends)
                .and_then(|()| step((number, child.as_ref()), &call, (&payloads, &said), &shown));
            match members {
                Ok(members) if missing.is_empty() => out.line(members)?,
                Ok(_) => {}
                Err(gap) => missing.push(Gap::Step { step: number, gap }),
            }
        }
        out.steps = number;
        if missing.is_empty() {
            return Ok(());
        }
        let more = missing.len().saturating_sub(TOLD_MAX);
        missing.truncate(TOLD_MAX);
        Err(ReplayObstacle::Missing { gaps: missing, more }.into())
    }

    /// Looks up every payload of these lines.
    async fn open(
        &self,
        lines: &[&EntryLine],
        payloads: &mut Payloads,
    ) -> Result<(), RecordingRefusal> {
        let RecordingOrder { vault, redactions, .. } = *self.order;
        let opening = DisclosureKeys { vault, redactions, records: self.records };
        let lines = lines.iter().copied();
        let opened = disclose(self.order.reader, self.row, lines, (&opening, true), payloads);
        opened.await.map_err(|e| RecordingRefusal::Ledger(e.into()))
    }

    /// The manifests of the run and its descendants.
    fn manifests(
        &self,
        opened: &EntryLine,
        family: &FamilyLines,
        out: &mut RecordingWriter,
    ) -> Result<(), RecordingRefusal> {
        let yaml = self.manifest(&manifest_of(opened)?)?;
        put(out, children::MANIFEST.into(), &yaml)?;
        let mut templates: BTreeSet<Digest> = templates_of(&yaml).into_iter().collect();
        let below = family.children().map(|(_, opened)| manifest_of(opened));
        for digest in below.collect::<Result<BTreeSet<Digest>, RecordingRefusal>>()? {
            let yaml = self.manifest(&digest)?;
            put(out, children::file(&digest), &yaml)?;
            templates.extend(templates_of(&yaml));
        }
        for template in templates {
            let text = self.order.artifacts.template(&template)?;
            let text = text.ok_or_else(|| not_kept("template", &template))?;
            put(out, children::template_file(&template), &text)?;
        }
        Ok(())
    }

    fn manifest(&self, digest: &Digest) -> Result<Vec<u8>, RecordingRefusal> {
        let found = self.order.artifacts.manifest(digest)?;
        found.map(|(yaml, _)| yaml).ok_or_else(|| not_kept("manifest", digest))
    }

    /// Every bundle that decided.
    fn policies(
        &self,
        lines: &[&EntryLine],
        out: &mut RecordingWriter,
    ) -> Result<(), RecordingRefusal> {
        let none = Digest::of(&[]);
        let decided = lines.iter().filter(|line| decides(line));
        let policies: BTreeSet<Digest> =
            decided.filter_map(|line| line.entry.draft.policy).filter(|p| *p != none).collect();
        for policy in policies {
            let tar = self.order.artifacts.policy(&policy)?;
            let tar = tar.ok_or_else(|| not_kept("policy bundle", &policy))?;
            put(out, format!("policy/{}.tar", policy.hex()), &tar)?;
        }
        Ok(())
    }
}

/// The tools of calls whose arguments are stored in parts.
fn models<'a>(lines: &[&'a EntryLine]) -> BTreeSet<&'a ToolName> {
    let in_parts =
        |line: &&&EntryLine| line.decision().is_some_and(|made| made.args_bytes.is_some());
    lines.iter().filter(in_parts).filter_map(|line| line.entry.draft.tool.as_ref()).collect()
}

fn manifest_of(opened: &EntryLine) -> Result<Digest, RecordingRefusal> {
    let digest = opened.get::<RunOpened>().map(|opened| opened.manifest.0);
    digest.ok_or(RecordingRefusal::Run(ReplayObstacle::NoManifest))
}

const fn not_kept(what: &'static str, digest: &Digest) -> RecordingRefusal {
    RecordingRefusal::Run(ReplayObstacle::NotKept { what, digest: *digest })
}

fn put(out: &mut RecordingWriter, name: String, bytes: &[u8]) -> std::io::Result<()> {
    out.line(vec![
        ("t", Json::from("file")),
        ("name", Json::from(name)),
        ("sha256", Json::from(Digest::of(&[bytes]).prefixed())),
        ("base64", Json::from(STANDARD.encode(bytes))),
    ])
}

fn header(source: &Source<'_>, opened: &EntryLine) -> Vec<(&'static str, Json)> {
    let data = Json::of(&opened.entry.draft.body);
    let replay = opened.get::<RunOpened>().and_then(|opened| opened.replay.as_ref());
    let mut members = vec![
        ("t", Json::from("recording")),
        ("v", Json::from(VERSION)),
        ("run", Json::from(source.order.run.to_string())),
        ("opened_at", Json::of(&replay.map(|replay| replay.clock))),
        ("log", Json::from(source.row.origin.as_str())),
        ("chain", Json::from(source.row.chain.to_string())),
        ("program", Json::from(source.order.program)),
        ("opening", Json::from(opened.leaf.hex())),
    ];
    for name in ["agent", "version", "manifest", "mode", "binding", "seed"] {
        members.extend(data.get(name).map(|value| (name, value.clone())));
    }
    members
}

/// A child run. `calls`: those of all runs, in the order of their decisions.
fn child(
    run: &RunId,
    opened: &EntryLine,
    calls: &[Vec<&EntryLine>],
) -> Result<Vec<(&'static str, Json)>, RecordingRefusal> {
    if opened.get::<RunOpened>().is_some_and(|opened| opened.incognito.is_some()) {
        return Err(ReplayObstacle::Incognito(*run).into());
    }
    let data = Json::of(&opened.entry.draft.body);
    let earlier = |call: &&Vec<&EntryLine>| {
        call.first().is_some_and(|line| line.entry.seq < opened.entry.seq)
    };
    let earlier = u64::try_from(calls.iter().filter(earlier).count()).unwrap_or(u64::MAX);
    let mut members = vec![
        ("t", Json::from("child")),
        ("run", Json::from(run.to_string())),
        ("before", Json::from(earlier.saturating_add(1))),
        ("opening", Json::from(opened.leaf.hex())),
    ];
    let claims = ["parent", "agent", "version", "manifest", "mode", "binding", "delegate", "seed"];
    for name in claims.into_iter().chain(children::CLAIMS) {
        members.extend(data.get(name).map(|value| (name, value.clone())));
    }
    Ok(members)
}

/// Notes where a call ends, and checks a tool call of an answer: it ends before the answer does.
fn asked_for<'a>(
    (run, lines): (Option<RunId>, &[&'a EntryLine]),
    ends: &mut BTreeMap<(Option<RunId>, &'a str), Seq>,
) -> Result<(), StepGap> {
    let (Some(first), Some(last)) = (lines.first(), lines.last()) else { return Ok(()) };
    let (Some(id), Some(tool)) = (&first.entry.draft.call, &first.entry.draft.tool) else {
        return Ok(());
    };
    ends.insert((run, id.as_str()), last.entry.seq);
    if !tool.as_str().starts_with(client::PREFIX) || first.entry.draft.verdict.is_none() {
        return Ok(());
    }
    let model_call = client::proposal(id.as_str()).map(|(model_call, _)| (run, model_call));
    match model_call.and_then(|model_call| ends.get(&model_call)) {
        Some(end) if last.entry.seq < *end => Ok(()),
        Some(_) => Err(StepGap::Outlived(tool.to_string())),
        // Only a tool call of an answer is ever allowed; an agent that calls such a tool is denied.
        None if lines.iter().any(|line| line.is(Kind::CallAuthorized)) => {
            Err(StepGap::Unassigned(tool.to_string()))
        }
        None => Ok(()),
    }
}

/// Writes what the agent was shown.
fn tools(shown: &Bound, out: &mut RecordingWriter) -> Result<ShownTools, RecordingRefusal> {
    let broken = || RecordingRefusal::Run(ReplayObstacle::Tools);
    let (body, salt) = shown.body.as_deref().zip(shown.salt).ok_or_else(broken)?;
    let tools = Json::parse(body, &Limits::FILE).map_err(|_| broken())?;
    let list: ToolList = tools.read().map_err(|_| broken())?;
    out.line(vec![
        ("t", Json::from("tools")),
        ("c", Json::from(shown.c.hex())),
        ("salt", Json::from(hex::encode(salt))),
        ("tools", tools),
    ])?;
    let models = list.models();
    Ok(ShownTools { definitions: list.definitions(), models })
}
