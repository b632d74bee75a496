//! The file: one canonical JSON object a line, read without ever holding all of it.
//!
//! The first line says what was recorded, `file` lines carry the manifests and the policy bundles, `tools`
//! what the agent was shown, `child` lines the runs below it, `step` lines the calls of all of them in the
//! order in which they were decided, and the last line the digest of everything before it. Each payload stands beside the salt that opens its commitment
//! and each step names its entries by their leaf hashes, so whoever has the ledger, or evidence from it, can
//! hold the recording against it. The file is not signed: by itself it proves that it is whole, not who
//! wrote it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use super::Error;
use super::children::{self, Child};
use super::line::Members;
use super::step::{Step, opened};
use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::id::RunId;
use crate::domain::json::{Json, Limits};
use crate::domain::seed::Seed;
use crate::domain::time::Timestamp;
use crate::identity;

/// Version of the form that is written.
pub const VERSION: &str = "wicketgate/recording/2";
/// The one before: without runs below, and without calls under break-glass. It is read like the other.
const BEFORE: &str = "wicketgate/recording/1";

/// Bytes of a line with its end: one more than is read of any.
const LINE_BYTES_MAX: u64 = Limits::FILE.bytes_max as u64 + 1;

/// What the first line says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// Version of its form.
    pub version: String,
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
    /// The run it is of: 0 that of the header, then the children in their order.
    pub run: usize,
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
    line: Digest,
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
    /// The runs below, in the order in which they were opened.
    pub children: Vec<Child>,
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
            if lines.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line).map_err(failed)?
                == 0
            {
                break;
            }
            number = number.saturating_add(1);
            let wrong = |why: String| Error::Recording { file: name.clone(), line: number, why };
            reading.line(&line).map_err(wrong)?;
        }
        let wrong = |why: String| Error::Recording { file: name.clone(), line: number, why };
        let (header, tools) = reading.whole().map_err(wrong)?;
        let Reading { files, children, places, whole, .. } = reading;
        let digest = Digest::from_bytes(whole.finalize().into());
        Ok(Self { header, digest, files, tools, children, places, file, name })
    }

    /// The JSON pointers, by tool, of arguments that do not count: those of its manifests.
    ///
    /// # Errors
    /// A manifest that it carries cannot be read.
    pub fn volatile(&self) -> Result<BTreeMap<String, Vec<String>>, Error> {
        let mut volatile: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, manifest) in self.files.iter().filter(|(name, _)| name.ends_with(".yaml")) {
            let unread = |why: String| Error::File { file: self.name.clone(), why };
            let manifest = identity::read(manifest, name).map_err(|e| unread(e.to_string()))?;
            for (tool, pointers) in manifest.replay.volatile {
                volatile.entry(tool).or_default().extend(pointers);
            }
        }
        Ok(volatile)
    }

    /// Reads one step.
    ///
    /// # Errors
    /// The file was changed since it was opened, or cannot be read any more.
    pub fn step(&self, place: &Place) -> Result<Step, Error> {
        let mut line = vec![0_u8; place.length];
        let failed = |why: String| Error::File { file: self.name.clone(), why };
        self.file.read_exact_at(&mut line, place.offset).map_err(|e| failed(e.to_string()))?;
        if Digest::of(&[&line]) != place.line {
            return Err(failed(format!("step {} was changed since it was opened", place.number)));
        }
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
    children: Vec<Child>,
    places: Vec<Place>,
    ended: bool,
    offset: u64,
    hashed: Sha256,
    whole: Sha256,
}

impl Reading {
    fn line(&mut self, line: &[u8]) -> Result<(), String> {
        let text = line
            .strip_suffix(b"\n")
            .ok_or("it ends in the middle of a line, or the line is too long")?;
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
            "child" if self.places.is_empty() => self.child(members)?,
            "step" => self.step(&json, text)?,
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

    fn child(&mut self, members: Members<'_>) -> Result<(), String> {
        let header = self.header.as_ref().ok_or("it is no recording")?;
        if header.version == BEFORE {
            return Err(format!("`{BEFORE}` has no children"));
        }
        let child = Child::read(members, header.run, &self.children)?;
        self.children.push(child);
        Ok(())
    }

    /// The place of a step's run, and its manifest.
    fn run_of(&self, step: &Step) -> Result<(usize, Digest), String> {
        let header = self.header.as_ref().ok_or("it is no recording")?;
        let Some(run) = step.run else { return Ok((0, header.manifest)) };
        let found = children::place_of(&self.children, &run);
        let (place, child) = found.ok_or_else(|| format!("step {} is of no run", step.number))?;
        Ok((place, child.manifest))
    }

    fn step(&mut self, json: &Json, text: &[u8]) -> Result<(), String> {
        let (members, step) = (Members(json), Step::read(json)?);
        let number = u64::try_from(self.places.len()).unwrap_or(u64::MAX).saturating_add(1);
        if step.number != number {
            return Err(format!("step {} stands where step {number} should", step.number));
        }
        step.is_bound(members)?;
        let (run, manifest) = self.run_of(&step)?;
        let told = step.input.as_ref().and_then(|input| input.get("agent")?.get("manifest"));
        if told.is_some_and(|told| told.as_str() != Some(&manifest.prefixed())) {
            return Err(format!("step {number} is of another manifest"));
        }
        self.places.push(Place {
            number,
            run,
            tool: step.tool,
            redacted: step.redacted,
            after: members.number("after")?,
            end: members.number("end")?,
            offset: self.offset,
            length: text.len(),
            line: Digest::of(&[text]),
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
        for child in &self.children {
            let manifest = self.files.get(&child.file());
            if manifest.is_none_or(|manifest| Digest::of(&[manifest]) != child.manifest) {
                return Err(format!("it carries no manifest of its child run {}", child.run));
            }
        }
        let tools = self.tools.take().ok_or("it carries no tools")?;
        Ok((header, tools))
    }
}

fn header(members: Members<'_>) -> Result<Header, String> {
    let version = members.text("v")?;
    if ![VERSION, BEFORE].contains(&version) {
        return Err(format!("it is `{version}`, this build reads `{VERSION}` and `{BEFORE}`"));
    }
    let seed = members.maybe("seed").map(|text| Seed::parse(text).ok_or("`seed` is malformed"));
    Ok(Header {
        version: version.to_owned(),
        run: RunId::parse(members.text("run")?).ok_or("`run` is malformed")?,
        agent: members.text("agent")?.to_owned(),
        manifest: members.digest("manifest")?,
        opened_at: members.time("opened_at")?,
        seed: seed.transpose()?,
    })
}
