//! A run's entries and payloads, written as a recording that replays without the ledger.
//!
//! Nothing is added to what the books say: a step is written only if all its payloads are there and open
//! the commitments of its entries. What is missing is named, and then nothing is written.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use super::Error;
use super::recording::VERSION;
use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::id::{CallId, RunId};
use crate::domain::json::{Json, Limits};
use crate::evidence::artifacts::Artifacts;
use crate::evidence::disclosed::{Opening, Redactions, disclose};
use crate::evidence::gather;
use crate::evidence::payloads::{self, Payload, Payloads, Why};
use crate::evidence::projection::decides;
use crate::ledger::entry::Kind;
use crate::ledger::hold;
use crate::ledger::retention::Records;
use crate::ledger::store::{ChainRow, LedgerReader};
use crate::ledger::vault::Vault;
use crate::ledger::verify::Line;
use crate::policy::input::approval_json;

/// What is missing is told up to this many times.
const TOLD_MAX: usize = 8;

/// Which run to export, from where, to where.
pub struct Order<'a> {
    /// The ledger.
    pub reader: &'a dyn LedgerReader,
    /// Whose chains; `default` on one machine.
    pub tenant: &'a str,
    /// The run.
    pub run: &'a RunId,
    /// Policy bundles and manifests by digest.
    pub artifacts: &'a Artifacts,
    /// What of payloads is left out, and only committed to.
    pub redactions: &'a Redactions,
    /// Keys of payloads that are stored encrypted.
    pub vault: Option<&'a Vault>,
    /// The file to make; it may not exist.
    pub out: &'a Path,
    /// Name and version of the program.
    pub program: &'a str,
}

impl std::fmt::Debug for Order<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Order")
            .field("run", self.run)
            .field("out", &self.out)
            .finish_non_exhaustive()
    }
}

/// A recording that was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Exported {
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
/// The run is not there, was not recorded, is not over, or something of it is not kept; the file exists or
/// cannot be written. Then there is no file.
pub async fn export(order: &Order<'_>) -> Result<Exported, Error> {
    let ledger = |e: &dyn std::fmt::Display| Error::Ledger(e.to_string());
    let records = Records::read(order.reader, order.tenant).await.map_err(|e| ledger(&e))?;
    let mut chains = order.reader.chains().await.map_err(|e| ledger(&e))?;
    chains.retain(|row| row.tenant == order.tenant);
    let row = gather::chain_of(order.reader, &chains, order.run).await.map_err(|e| ledger(&e))?;
    let row = row.ok_or_else(|| ledger(&format!("no run `{}` in this ledger", order.run)))?;
    let strand = gather::run(order.reader, row, order.run, String::new()).await;
    let strand = strand.map_err(|e| ledger(&e))?;
    let of_run = |line: &&Line| line.entry.run.as_ref().is_some_and(|link| link.run == *order.run);
    let lines: Vec<&Line> = strand.lines.iter().filter(of_run).collect();
    let source = Source { order, row, records: &records };
    let unfit = |why: String| Error::Run { run: order.run.to_string(), why };
    if order.redactions.names("tools") {
        return Err(unfit("nothing can be left out of what its agent was shown".into()));
    }
    let opened = recorded(&lines).map_err(unfit)?;
    let failed = |e: std::io::Error| Error::File {
        file: order.out.display().to_string(),
        why: e.to_string(),
    };
    let mut out = Out::create(order.out).map_err(failed)?;
    let written = source.write(opened, &lines, &mut out).await;
    let done = match written {
        Ok(()) => out.end().map_err(failed),
        Err(Trouble::Io(e)) => Err(failed(e)),
        Err(Trouble::Missing(why)) => Err(unfit(why)),
        Err(Trouble::Ledger(why)) => Err(Error::Ledger(why)),
    };
    if done.is_err() {
        // What is half written is no recording.
        drop(std::fs::remove_file(order.out));
    }
    done
}

/// The opening of a run that can be exported.
fn recorded<'a>(lines: &[&'a Line]) -> Result<&'a Line, String> {
    let opened = lines.first().copied().filter(|line| line.is(Kind::RunOpened));
    let opened = opened.ok_or("its opening is not here")?;
    let data = &opened.entry.draft.data;
    let mode = data.get("replay").and_then(|replay| replay.get("mode")).and_then(Json::as_str);
    match mode {
        None => {
            return Err("it was not recorded: neither its manifest (`replay.mode`) nor its agent \
                        asked for that"
                .into());
        }
        Some("replay") => return Err("it is a replay itself".into()),
        Some("fork") => return Err("it goes on from another recording".into()),
        Some(_) => {}
    }
    if data.get("parent").is_some() {
        return Err("it is the child of another run".into());
    }
    if !lines.iter().any(|line| line.is(Kind::RunSealed)) {
        return Err("it is not sealed yet".into());
    }
    if !lines.iter().any(|line| decides(line)) {
        return Err("it has no calls".into());
    }
    Ok(opened)
}

/// Why nothing is written.
enum Trouble {
    Io(std::io::Error),
    Missing(String),
    Ledger(String),
}

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

/// The file, and what it has to say of itself at its end.
struct Out {
    file: BufWriter<File>,
    hashed: Sha256,
    steps: u64,
    bytes: u64,
}

impl Out {
    fn create(path: &Path) -> std::io::Result<Self> {
        use std::os::unix::fs::OpenOptionsExt as _;
        let options = File::options().write(true).create_new(true).mode(0o600).open(path)?;
        Ok(Self { file: BufWriter::new(options), hashed: Sha256::new(), steps: 0, bytes: 0 })
    }

    fn line(&mut self, members: Vec<(&'static str, Json)>) -> std::io::Result<()> {
        let mut line = canonical::bytes(&Json::object(members));
        line.push(b'\n');
        self.hashed.update(&line);
        self.bytes = self.bytes.saturating_add(u64::try_from(line.len()).unwrap_or(u64::MAX));
        self.file.write_all(&line)
    }

    fn end(mut self) -> std::io::Result<Exported> {
        let found = Digest::from_bytes(self.hashed.clone().finalize().into());
        self.line(vec![
            ("t", Json::from("end")),
            ("steps", Json::from(self.steps)),
            ("sha256", Json::from(found.prefixed())),
        ])?;
        self.file.flush()?;
        self.file.get_ref().sync_all()?;
        let digest = Digest::from_bytes(self.hashed.finalize().into());
        Ok(Exported { steps: self.steps, bytes: self.bytes, digest })
    }
}

/// Where everything comes from.
struct Source<'a> {
    order: &'a Order<'a>,
    row: &'a ChainRow,
    records: &'a Records,
}

impl Source<'_> {
    async fn write(&self, opened: &Line, lines: &[&Line], out: &mut Out) -> Result<(), Trouble> {
        out.line(header(self, opened))?;
        self.files(opened, lines, out)?;
        let (mut payloads, mut missing) = (Payloads::default(), Vec::new());
        self.open(&[opened], &mut payloads).await?;
        let definitions = match bound(&payloads, opened, "tools") {
            Ok((bind, body)) => tools(&bind, &body.unwrap_or_default(), out)?,
            Err(why) => {
                missing.push(format!("what its agent was shown {why}"));
                BTreeMap::new()
            }
        };
        let mut number: u64 = 0;
        for call in calls(lines) {
            number = number.saturating_add(1);
            let mut payloads = Payloads::default();
            self.open(&call, &mut payloads).await?;
            match step(number, &call, &payloads, &definitions) {
                Ok(members) if missing.is_empty() => out.line(members)?,
                Ok(_) => {}
                Err(why) => missing.push(format!("step {number}: {why}")),
            }
        }
        out.steps = number;
        if missing.is_empty() {
            return Ok(());
        }
        let more = missing.len().saturating_sub(TOLD_MAX);
        missing.truncate(TOLD_MAX);
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        Err(Trouble::Missing(format!("{}{more}", missing.join("; "))))
    }

    /// Looks up every payload of these lines.
    async fn open(&self, lines: &[&Line], payloads: &mut Payloads) -> Result<(), Trouble> {
        let Order { vault, redactions, .. } = *self.order;
        let opening = Opening { vault, redactions, records: self.records };
        let lines = lines.iter().copied();
        disclose(self.order.reader, self.row, lines, (&opening, true), payloads)
            .await
            .map_err(|e| Trouble::Ledger(e.to_string()))
    }

    /// The manifest and every bundle that decided.
    fn files(&self, opened: &Line, lines: &[&Line], out: &mut Out) -> Result<(), Trouble> {
        let ledger = |e: crate::evidence::Error| Trouble::Ledger(e.to_string());
        let digest = opened.text("manifest").and_then(Digest::parse);
        let digest = digest.ok_or_else(|| Trouble::Missing("it names no manifest".into()))?;
        let manifest = self.order.artifacts.manifest(&digest).map_err(ledger)?;
        let manifest = manifest.ok_or_else(|| not_kept("manifest", &digest))?;
        put(out, "agent.yaml".into(), &manifest.yaml)?;
        let none = Digest::of(&[]);
        let decided = lines.iter().filter(|line| decides(line));
        let policies: BTreeSet<Digest> =
            decided.filter_map(|line| line.entry.draft.policy).filter(|p| *p != none).collect();
        for policy in policies {
            let tar = self.order.artifacts.policy(&policy).map_err(ledger)?;
            let tar = tar.ok_or_else(|| not_kept("policy bundle", &policy))?;
            put(out, format!("policy/{}.tar", policy.hex()), &tar)?;
        }
        Ok(())
    }
}

fn not_kept(what: &str, digest: &Digest) -> Trouble {
    Trouble::Missing(format!("its {what} `{}` was not kept", digest.prefixed()))
}

fn put(out: &mut Out, name: String, bytes: &[u8]) -> std::io::Result<()> {
    out.line(vec![
        ("t", Json::from("file")),
        ("name", Json::from(name)),
        ("sha256", Json::from(Digest::of(&[bytes]).prefixed())),
        ("base64", Json::from(STANDARD.encode(bytes))),
    ])
}

fn header(source: &Source<'_>, opened: &Line) -> Vec<(&'static str, Json)> {
    let data = &opened.entry.draft.data;
    let replay = data.get("replay").unwrap_or(&Json::Null);
    let mut members = vec![
        ("t", Json::from("recording")),
        ("v", Json::from(VERSION)),
        ("run", Json::from(source.order.run.to_string())),
        ("opened_at", replay.get("clock").cloned().unwrap_or(Json::Null)),
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

/// The lines of each call, in the order in which the calls were first decided.
fn calls<'a>(lines: &[&'a Line]) -> Vec<Vec<&'a Line>> {
    let mut order: Vec<Vec<&Line>> = Vec::new();
    let mut known: BTreeMap<&CallId, usize> = BTreeMap::new();
    for line in lines {
        let Some(call) = &line.entry.draft.call else { continue };
        let at = *known.entry(call).or_insert_with(|| {
            order.push(Vec::new());
            order.len().saturating_sub(1)
        });
        if let Some(call) = order.get_mut(at) {
            call.push(line);
        }
    }
    order
}

/// Writes what the agent was shown; the definition of each tool.
fn tools(bind: &Json, body: &[u8], out: &mut Out) -> Result<BTreeMap<String, String>, Trouble> {
    let broken = || Trouble::Missing("what its agent was shown cannot be read".into());
    let tools = Json::parse(body, &Limits::FILE).map_err(|_| broken())?;
    let text = |tool: &Json, name: &str| tool.get(name).and_then(Json::as_str).map(str::to_owned);
    let list = tools.get("tools").and_then(Json::as_array).unwrap_or_default();
    let definitions =
        list.iter().filter_map(|tool| Some((text(tool, "name")?, text(tool, "definition")?)));
    let definitions = definitions.collect();
    let bound = |name: &str| bind.get(name).cloned().unwrap_or(Json::Null);
    out.line(vec![
        ("t", Json::from("tools")),
        ("c", bound("c")),
        ("salt", bound("salt")),
        ("tools", tools),
    ])?;
    Ok(definitions)
}

/// What binds a payload to its line, and the payload, unless something of it is left out.
type Bound = (Json, Option<Vec<u8>>);

/// One payload of a line with what binds it to the line; or why it cannot be had.
fn bound(payloads: &Payloads, line: &Line, role: &str) -> Result<Bound, String> {
    let said = line.entry.draft.committed(role);
    let said = said.ok_or_else(|| "was never recorded".to_owned())?;
    match payloads.0.get(&said.c) {
        Some(Payload::Opened { salt, body, .. }) => {
            let bind = Json::object([
                ("role", Json::from(role)),
                ("c", Json::from(said.c.hex())),
                ("salt", Json::from(hex::encode(salt))),
            ]);
            Ok((bind, Some(body.clone())))
        }
        Some(Payload::Redacted { parts, .. }) => {
            let bind = Json::object([
                ("role", Json::from(role)),
                ("c", Json::from(said.c.hex())),
                ("parts", payloads::redacted(role, parts)),
            ]);
            Ok((bind, None))
        }
        Some(Payload::Erased { log, seq }) => Err(format!("was erased (entry {seq} of `{log}`)")),
        Some(Payload::Withheld(Why::Encrypted)) => {
            Err("is encrypted, and the key is not here".into())
        }
        Some(Payload::Withheld(Why::Damaged)) => Err("was changed where it is stored".into()),
        Some(Payload::Withheld(_)) | None => Err(format!(
            "was not stored ({} bytes), or not in such a way that a part of it can be left out",
            said.len
        )),
    }
}

/// The members of one step.
fn step(
    number: u64,
    lines: &[&Line],
    payloads: &Payloads,
    definitions: &BTreeMap<String, String>,
) -> Result<Vec<(&'static str, Json)>, String> {
    let decisions: Vec<&Line> = lines.iter().copied().filter(|line| decides(line)).collect();
    let (Some(first), Some(main), Some(last)) = (decisions.first(), decisions.last(), lines.last())
    else {
        return Err("it was never decided".into());
    };
    let draft = &main.entry.draft;
    let tool = draft.tool.as_ref().map(ToString::to_string).unwrap_or_default();
    if draft.data.get("break_glass").is_some() {
        return Err(format!("`{tool}` ran under break-glass, which no recording can grant again"));
    }
    let definition = main.text("definition");
    if definition.is_some_and(|d| definitions.get(&tool).is_some_and(|shown| shown != d)) {
        return Err(format!("`{tool}` was changed while the run was open"));
    }
    let (mut binds, mut left_out) = (Vec::new(), Vec::new());
    let mut take = |line: &Line, role: &'static str| -> Result<Option<Vec<u8>>, String> {
        let taken = bound(payloads, line, role);
        let (bind, body) = taken.map_err(|why| format!("`{role}` of `{tool}` {why}"))?;
        binds.push(bind);
        left_out.extend(body.is_none().then(|| Json::from(role)));
        Ok(body)
    };
    let json = |body: Vec<u8>| Json::parse(&body, &Limits::FILE).map_err(|e| e.to_string());
    let args = take(main, "args")?.map(json).transpose()?;
    let asked = draft.committed("policy_input").is_some();
    let input = if asked { take(main, "policy_input")? } else { None };
    let input = input.map(json).transpose()?;
    let result = if last.is(Kind::CallCompleted) { take(last, "result")? } else { None };
    let result = result.map(String::from_utf8).transpose().map_err(|e| e.to_string())?;
    if main.is(Kind::CallAuthorized) && decides(last) {
        return Err(format!("`{tool}` is not over"));
    }
    let at = input.as_ref().and_then(|input| input.get("time")?.get("rfc3339")?.as_str());
    let at = at.map_or_else(|| main.entry.ts.to_string(), str::to_owned);
    let run_seq = last.entry.run.as_ref().map_or(0, |link| link.seq);
    let mut members = vec![
        ("t", Json::from("step")),
        ("n", Json::from(number)),
        ("call", Json::from(draft.call.as_ref().map(ToString::to_string).unwrap_or_default())),
        ("tool", Json::from(tool.as_str())),
        ("at", Json::from(at)),
        ("after", first.entry.draft.data.get("after").cloned().unwrap_or(Json::Int(0))),
        ("end", Json::from(run_seq)),
        ("decision", decision(main)),
        ("ended", ended(first, last)),
        ("entries", lines.iter().map(|line| place(line)).collect::<Vec<_>>().into()),
    ];
    // What is left out is never answered, so nobody has to know who approved it.
    let whole = left_out.is_empty();
    let held = whole && first.is(Kind::CallHeld) && main.is(Kind::CallAuthorized);
    members.extend((!whole).then(|| ("redacted", Json::from(left_out))));
    members.extend(args.map(|args| ("args", args)));
    members.extend(held.then(|| ("approved", approved(first, lines, binds.first()))));
    members.extend(input.map(|input| ("input", input)));
    members.extend(result.map(|result| ("result", Json::from(result))));
    members.push(("payloads", binds.into()));
    Ok(members)
}

fn place(line: &Line) -> Json {
    Json::object([
        ("kind", Json::from(line.kind())),
        ("seq", Json::from(line.entry.seq)),
        ("leaf", Json::from(line.leaf.hex())),
    ])
}

fn decision(line: &Line) -> Json {
    let draft = &line.entry.draft;
    let mut members = Vec::new();
    members.extend(draft.verdict.map(|verdict| ("verdict", Json::from(verdict.as_str()))));
    members.extend(draft.policy.map(|policy| ("policy", Json::from(policy.prefixed()))));
    for name in ["enforced", "reasons", "obligations"] {
        members.extend(draft.data.get(name).map(|value| (name, value.clone())));
    }
    Json::object(members)
}

/// How the call ended, in the words of its last entry.
fn ended(first: &Line, last: &Line) -> Json {
    let mut members = vec![("kind", Json::from(last.kind()))];
    for name in ["status", "class", "started", "message", "cause", "reason"] {
        members.extend(last.entry.draft.data.get(name).map(|value| (name, value.clone())));
    }
    let lapsed =
        first.is(Kind::CallHeld) && (last.is(Kind::CallDenied) || last.is(Kind::CallExpired));
    members.extend(lapsed.then(|| ("lapsed", Json::from(true))));
    Json::object(members)
}

/// Who approved a held call.
fn approved(held: &Line, lines: &[&Line], args: Option<&Json>) -> Json {
    let by = lines.iter().filter_map(|line| hold::said(&line.entry, Kind::ApprovalGranted));
    let mut members = vec![
        ("by", by.map(|approval| approval_json(&approval)).collect::<Vec<_>>().into()),
        ("nonce", Json::from(held.text("nonce").unwrap_or_default())),
        ("salt", args.and_then(|bind| bind.get("salt")).cloned().unwrap_or(Json::Null)),
    ];
    members.extend(held.text("effect").map(|effect| ("effect", Json::from(effect))));
    Json::object(members)
}
