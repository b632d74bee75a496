//! The file: one canonical JSON object a line, read without ever holding all of it.
//!
//! The first line says what was recorded, `file` lines carry the manifest and the policy bundles, `tools`
//! what the agent was shown, `step` lines the calls in the order in which they were decided, and the last
//! line the digest of everything before it. Each payload stands beside the salt that opens its commitment
//! and each step names its entries by their leaf hashes, so whoever has the ledger, or evidence from it, can
//! hold the recording against it. The file is not signed: by itself it proves that it is whole, not who
//! wrote it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use super::Error;
use super::line::Members;
use crate::approval::Approval;
use crate::domain::canonical;
use crate::domain::commitment::opens;
use crate::domain::digest::{Digest, Salt};
use crate::domain::id::RunId;
use crate::domain::json::{Json, Limits};
use crate::domain::outcome::{FailureClass, Outcome};
use crate::domain::seed::Seed;
use crate::domain::time::Timestamp;
use crate::evidence::payloads::{self, Payload};

/// Version of the form.
pub const VERSION: &str = "wicketgate/recording/1";

/// What the first line says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// The recorded run.
    pub run: RunId,
    /// `metadata.name` of its manifest.
    pub agent: String,
    /// SHA-256 of its manifest.
    pub manifest: Digest,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// Its seed, if it was deterministic.
    pub seed: Option<Seed>,
}

/// Where one step is in the file, and what it takes to find it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// The step, from 1.
    pub number: u64,
    /// The tool that was called.
    pub tool: String,
    /// Highest `run_seq` that the agent had been answered when it asked.
    pub after: u64,
    /// `run_seq` of its last entry.
    pub end: u64,
    /// Roles of its payloads of which something was left out: then it cannot be answered.
    pub redacted: Vec<String>,
    offset: u64,
    length: usize,
}

/// One recorded call.
#[derive(Clone, PartialEq, Debug)]
pub struct Step {
    /// From 1, in the order of decisions.
    pub number: u64,
    /// The tool.
    pub tool: String,
    /// Its arguments; nothing if something of them was left out.
    pub args: Json,
    /// The time the policy was told, or that of the entry if none was asked.
    pub at: Timestamp,
    /// The decision: `verdict`, `enforced`, `reasons`, `obligations`, `policy`.
    pub decision: Json,
    /// Roles of payloads of which something was left out.
    pub redacted: Vec<String>,
    /// What the policy was told; none if it was not asked.
    pub input: Option<Json>,
    /// Who approved it, if it was held and then ran.
    pub approved: Option<Approved>,
    /// How it ended.
    pub ended: Json,
    /// What the agent was given, if it completed.
    pub result: Option<String>,
}

/// How a held call came to run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Approved {
    /// Who approved it.
    pub by: Vec<Approval>,
    /// The nonce of the hold.
    pub nonce: String,
    /// The salt of its arguments.
    pub salt: Salt,
    /// The keyed digest of its effect.
    pub effect: Option<String>,
}

/// A recording that was read to its end once, and found whole.
#[derive(Debug)]
pub struct Recording {
    /// What it is of.
    pub header: Header,
    /// SHA-256 of the whole file.
    pub digest: Digest,
    /// Manifest and policies, by name.
    pub files: BTreeMap<String, Vec<u8>>,
    /// What the agent was shown.
    pub tools: Json,
    /// Every step, in order.
    pub places: Vec<Place>,
    file: File,
    name: String,
}

impl Recording {
    /// Reads and checks a file. Steps stay where they are, and are read when they are asked for.
    ///
    /// # Errors
    /// It cannot be read, or the first line that is wrong.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let name = path.display().to_string();
        let failed = |e: std::io::Error| Error::File { file: name.clone(), why: e.to_string() };
        let file = File::open(path).map_err(failed)?;
        let mut lines = BufReader::new(file.try_clone().map_err(failed)?);
        let mut reading = Reading::default();
        let mut number: u64 = 0;
        loop {
            let mut line = Vec::new();
            if lines.read_until(b'\n', &mut line).map_err(failed)? == 0 {
                break;
            }
            number = number.saturating_add(1);
            let wrong = |why: String| Error::Recording { file: name.clone(), line: number, why };
            reading.line(&line).map_err(wrong)?;
        }
        let wrong = |why: String| Error::Recording { file: name.clone(), line: number, why };
        let (header, tools) = reading.whole().map_err(wrong)?;
        let Reading { files, places, whole, .. } = reading;
        let digest = Digest::from_bytes(whole.finalize().into());
        Ok(Self { header, digest, files, tools, places, file, name })
    }

    /// Reads one step.
    ///
    /// # Errors
    /// The file was changed since it was opened, or cannot be read any more.
    pub fn step(&self, place: &Place) -> Result<Step, Error> {
        let mut line = vec![0_u8; place.length];
        let failed = |why: String| Error::File { file: self.name.clone(), why };
        self.file.read_exact_at(&mut line, place.offset).map_err(|e| failed(e.to_string()))?;
        let json = Json::parse(&line, &Limits::FILE).map_err(|e| failed(e.to_string()))?;
        Step::read(&json).map_err(|why| failed(format!("step {}: {why}", place.number)))
    }
}

/// What was read so far.
#[derive(Default)]
struct Reading {
    header: Option<Header>,
    files: BTreeMap<String, Vec<u8>>,
    tools: Option<Json>,
    places: Vec<Place>,
    ended: bool,
    offset: u64,
    hashed: Sha256,
    whole: Sha256,
}

impl Reading {
    fn line(&mut self, line: &[u8]) -> Result<(), String> {
        let text = line.strip_suffix(b"\n").ok_or("it ends in the middle of a line")?;
        let json = canonical::read(text, &Limits::FILE).map_err(|e| e.to_string())?;
        let json = json.ok_or("it is not in canonical form")?;
        let members = Members(&json);
        let kind = members.text("t")?;
        if self.ended {
            return Err("something stands behind the last line".into());
        }
        if self.header.is_none() && kind != "recording" {
            return Err("it is no recording".into());
        }
        match kind {
            "recording" if self.header.is_none() => self.header = Some(header(members)?),
            "file" => self.file(members)?,
            "tools" if self.tools.is_none() => {
                let tools = members.value("tools")?;
                opened(members, &canonical::bytes(tools))?;
                self.tools = Some(tools.clone());
            }
            "step" => self.step(&json, text.len())?,
            "end" => self.end(members)?,
            _ => return Err(format!("a line of the unknown kind `{kind}`, or one too many")),
        }
        if !self.ended {
            self.hashed.update(line);
        }
        self.whole.update(line);
        self.offset = self.offset.saturating_add(u64::try_from(line.len()).unwrap_or(u64::MAX));
        Ok(())
    }

    fn file(&mut self, members: Members<'_>) -> Result<(), String> {
        let name = members.text("name")?;
        let bytes = STANDARD.decode(members.text("base64")?).map_err(|e| e.to_string())?;
        if Digest::of(&[&bytes]) != members.digest("sha256")? {
            return Err(format!("`{name}` is not the file that was recorded"));
        }
        if self.files.insert(name.to_owned(), bytes).is_some() {
            return Err(format!("`{name}` is there twice"));
        }
        Ok(())
    }

    fn step(&mut self, json: &Json, length: usize) -> Result<(), String> {
        let (members, step) = (Members(json), Step::read(json)?);
        let number = u64::try_from(self.places.len()).unwrap_or(u64::MAX).saturating_add(1);
        if step.number != number {
            return Err(format!("step {} stands where step {number} should", step.number));
        }
        step.is_bound(members)?;
        let manifest = self.header.as_ref().map(|header| header.manifest.prefixed());
        let told = step.input.as_ref().and_then(|input| input.get("agent")?.get("manifest"));
        if told.is_some_and(|told| told.as_str() != manifest.as_deref()) {
            return Err(format!("step {number} is of another manifest"));
        }
        self.places.push(Place {
            number,
            tool: step.tool,
            redacted: step.redacted,
            after: members.number("after")?,
            end: members.number("end")?,
            offset: self.offset,
            length,
        });
        Ok(())
    }

    fn end(&mut self, members: Members<'_>) -> Result<(), String> {
        let steps = u64::try_from(self.places.len()).unwrap_or(u64::MAX);
        if members.number("steps")? != steps {
            return Err(format!("{steps} steps are there, and it says another number"));
        }
        let found = Digest::from_bytes(self.hashed.clone().finalize().into());
        if members.digest("sha256")? != found {
            return Err("it was changed: its digest is not that of its lines".into());
        }
        self.ended = true;
        Ok(())
    }

    /// Header and tools of a recording that is complete.
    fn whole(&mut self) -> Result<(Header, Json), String> {
        if !self.ended {
            return Err("it is cut off: the last line is missing".into());
        }
        let header = self.header.take().ok_or("it is empty")?;
        let manifest = self.files.get("agent.yaml").ok_or("it carries no manifest")?;
        if Digest::of(&[manifest]) != header.manifest {
            return Err("the manifest it carries is another than it was recorded under".into());
        }
        let tools = self.tools.take().ok_or("it carries no tools")?;
        Ok((header, tools))
    }
}

fn header(members: Members<'_>) -> Result<Header, String> {
    let version = members.text("v")?;
    if version != VERSION {
        return Err(format!("it is `{version}`, this build reads `{VERSION}`"));
    }
    let seed = members.maybe("seed").map(|text| Seed::parse(text).ok_or("`seed` is malformed"));
    Ok(Header {
        run: RunId::parse(members.text("run")?).ok_or("`run` is malformed")?,
        agent: members.text("agent")?.to_owned(),
        manifest: members.digest("manifest")?,
        opened_at: members.time("opened_at")?,
        seed: seed.transpose()?,
    })
}

/// Whether these bytes are what was committed to.
fn opened(members: Members<'_>, body: &[u8]) -> Result<(), String> {
    let role = members.maybe("role").unwrap_or("tools");
    let opened = opens(&members.digest("c")?, &members.salt("salt")?, body);
    opened.map(drop).ok_or_else(|| format!("`{role}` is not what was recorded"))
}

/// Whether what is there and what stands for the rest is what was committed to.
fn left_out(members: Members<'_>, role: &str) -> Result<(), String> {
    let wrong = || format!("`{role}` is not what was recorded");
    let read = members.0.get("parts").and_then(payloads::read_redacted);
    let Some(Payload::Redacted { role: of, parts }) = read else { return Err(wrong()) };
    let opened = parts.open(&members.digest("c")?).ok().filter(|_| of == role);
    opened.map(drop).ok_or_else(wrong)
}

impl Step {
    /// Reads the object of one line.
    ///
    /// # Errors
    /// What is missing.
    pub fn read(json: &Json) -> Result<Self, String> {
        let members = Members(json);
        let left_out = json.get("redacted").and_then(Json::as_array).unwrap_or_default();
        let redacted: Vec<String> =
            left_out.iter().filter_map(Json::as_str).map(str::to_owned).collect();
        let args = match redacted.iter().any(|role| role == "args") {
            true => Json::Null,
            false => members.value("args")?.clone(),
        };
        let approved = json.get("approved").map(|approved| Approved::read(Members(approved)));
        Ok(Self {
            number: members.number("n")?,
            tool: members.text("tool")?.to_owned(),
            args,
            at: members.time("at")?,
            decision: members.value("decision")?.clone(),
            redacted,
            input: json.get("input").cloned(),
            approved: approved.transpose()?,
            ended: members.value("ended")?.clone(),
            result: members.maybe("result").map(str::to_owned),
        })
    }

    /// Whether every payload is the one its entry commits to.
    fn is_bound(&self, members: Members<'_>) -> Result<(), String> {
        let mut bodies = BTreeMap::from([("args", canonical::bytes(&self.args))]);
        let mut redacted: BTreeSet<&str> = self.redacted.iter().map(String::as_str).collect();
        if redacted.contains("args") {
            bodies.remove("args");
        }
        bodies.extend(self.input.as_ref().map(|input| ("policy_input", canonical::bytes(input))));
        bodies.extend(self.result.as_ref().map(|result| ("result", result.clone().into_bytes())));
        for payload in members.list("payloads")? {
            let payload = Members(payload);
            let role = payload.text("role")?;
            if redacted.remove(role) {
                left_out(payload, role)?;
                continue;
            }
            let body = bodies.remove(role).ok_or_else(|| format!("no `{role}` is there"))?;
            opened(payload, &body)?;
        }
        match bodies.into_keys().chain(redacted).next() {
            Some(role) => Err(format!("`{role}` is bound to no entry")),
            None => Ok(()),
        }
    }

    /// What the decision says under this name.
    #[must_use]
    pub fn decided(&self, name: &str) -> Option<&Json> {
        self.decision.get(name)
    }

    /// How it ended, if it ran: as the agent was told.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        let ended = Members(&self.ended);
        let text = |name: &str| ended.maybe(name).unwrap_or_default().to_owned();
        match ended.maybe("kind")? {
            "call.completed" => Some(Outcome::Completed {
                result: self.result.clone()?.into_bytes(),
                status: text("status"),
            }),
            "call.failed" => Some(Outcome::Failed {
                class: FailureClass::parse(&text("class"))?,
                started: self.ended.get("started").and_then(Json::as_bool).unwrap_or(true),
                message: text("message"),
            }),
            "call.unknown" => Some(Outcome::Unknown { cause: text("cause") }),
            "call.cancelled" => Some(Outcome::Cancelled { reason: text("reason") }),
            _ => None,
        }
    }

    /// Whether it was held and never ran: an approver refused it, or nobody came.
    #[must_use]
    pub fn lapsed(&self) -> bool {
        self.ended.get("lapsed").and_then(Json::as_bool).unwrap_or(false)
    }
}

impl Approved {
    fn read(members: Members<'_>) -> Result<Self, String> {
        let by = members.list("by")?.iter().map(|one| {
            let one = Members(one);
            let roles = one.list("roles")?.iter().filter_map(Json::as_str);
            Ok(Approval {
                subject: one.text("approver")?.to_owned(),
                roles: roles.map(str::to_owned).collect(),
                key: one.text("key")?.to_owned(),
            })
        });
        Ok(Self {
            by: by.collect::<Result<_, String>>()?,
            nonce: members.text("nonce")?.to_owned(),
            salt: members.salt("salt")?,
            effect: members.maybe("effect").map(str::to_owned),
        })
    }
}
