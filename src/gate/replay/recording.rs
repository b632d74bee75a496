//! The file of a recording: one canonical JSON object a line, read without holding all of it.
//!
//! The first line names the recorded run. `file` lines carry the manifests and the policy bundles,
//! `tools` what the agent was shown, `child` lines the descendants, `step` lines the calls of all
//! runs in the order of their decisions, and the last line the digest of everything before it. Each
//! payload stands beside the salt that opens its commitment, and each step names its entries by
//! their leaf hashes, so an owner of the ledger, or of evidence from it, can compare the recording
//! with it. The file is not signed: by itself it proves that it is complete, not who wrote it.

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
use super::flaw::Flaw;
pub use super::line::Header;
use super::line::{ChildLine, EndLine, FileLine, LineKind, ToolsLine, opened};
use super::messages::StepMessages;
use super::step::RecordedCall;
use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::json::{Json, Limits};
use crate::identity;

/// The version that this build writes.
pub const VERSION: &str = "wicketgate/recording/2";
/// The previous version, without child runs and calls under break-glass. Still readable.
pub(super) const BEFORE: &str = "wicketgate/recording/1";

/// Length of the longest readable line with its newline, plus one.
const LINE_BYTES_MAX: u64 = Limits::FILE.bytes_max as u64 + 1;

/// The position of one step in the file, and the facts that matching needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StepLocation {
    /// The step, from 1.
    pub number: u64,
    /// Its run: 0 is the header's run, then the children in their order.
    pub run: usize,
    /// The tool that was called.
    pub tool: String,
    /// Highest `run_seq` that had been answered when the call was made.
    pub after: u64,
    /// `run_seq` of its last entry.
    pub end: u64,
    /// Roles of its redacted payloads; a step that has one cannot be answered.
    pub redacted: Vec<String>,
    offset: u64,
    length: usize,
    line: Digest,
}

/// A recording that was read to its end once and found complete.
#[derive(Debug)]
pub struct Recording {
    /// The first line: the recorded run.
    pub header: Header,
    /// SHA-256 of the whole file.
    pub digest: Digest,
    /// Manifest and policies, by name.
    pub files: BTreeMap<String, Vec<u8>>,
    /// What the agent was shown.
    pub tools: Json,
    /// The child runs, in the order of their openings.
    pub children: Vec<Child>,
    /// Every step, in order.
    pub places: Vec<StepLocation>,
    file: File,
    name: String,
}

impl Recording {
    /// Reads and checks a file. Steps stay on disk and are read on demand.
    ///
    /// # Errors
    /// The file cannot be read, or the first invalid line.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let name = path.display().to_string();
        let failed = |source| Error::File { file: name.clone(), source };
        let file = File::open(path).map_err(failed)?;
        let mut lines = BufReader::new(file.try_clone().map_err(failed)?);
        let mut reading = RecordingReader::default();
        let mut number: u64 = 0;
        loop {
            let mut line = Vec::new();
            if lines.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line).map_err(failed)?
                == 0
            {
                break;
            }
            number = number.saturating_add(1);
            let wrong = |flaw| Error::Recording { file: name.clone(), line: number, flaw };
            reading.line(&line).map_err(wrong)?;
        }
        let wrong = |flaw| Error::Recording { file: name.clone(), line: number, flaw };
        let (header, tools) = reading.whole().map_err(wrong)?;
        let RecordingReader { files, children, places, whole, .. } = reading;
        let digest = Digest::from_bytes(whole.finalize().into());
        Ok(Self { header, digest, files, tools, children, places, file, name })
    }

    /// The templates of instructions that its manifests name, by the names of their files.
    pub fn templates(&self) -> impl Iterator<Item = (String, &[u8])> {
        self.files.iter().filter_map(|(name, text)| {
            // WHY not by the name that stands there: a file is written under it.
            let named = children::template_file(&Digest::of(&[text]));
            (*name == named).then_some((named, text.as_slice()))
        })
    }

    /// JSON pointers, by tool, to arguments that matching ignores, from the manifests.
    ///
    /// # Errors
    /// A manifest in the recording cannot be read.
    pub fn volatile(&self) -> Result<BTreeMap<String, Vec<String>>, Error> {
        let mut volatile: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, manifest) in self.files.iter().filter(|(name, _)| name.ends_with(".yaml")) {
            let unread = |source| Error::Manifest { file: self.name.clone(), source };
            let manifest = identity::read(manifest, name).map_err(unread)?;
            for (tool, pointers) in manifest.replay.volatile {
                volatile.entry(tool).or_default().extend(pointers);
            }
        }
        Ok(volatile)
    }

    /// Reads one step.
    ///
    /// # Errors
    /// The file has changed since it was opened, or is unreadable.
    pub fn step(&self, place: &StepLocation) -> Result<RecordedCall, Error> {
        let mut line = vec![0_u8; place.length];
        let (file, step) = (|| self.name.clone(), place.number);
        let failed = |source| Error::File { file: file(), source };
        self.file.read_exact_at(&mut line, place.offset).map_err(failed)?;
        if Digest::of(&[&line]) != place.line {
            return Err(Error::Changed { file: file(), step });
        }
        let read = || Ok(Json::parse(&line, &Limits::FILE)?.read()?);
        read().map_err(|flaw: Flaw| Error::Step { file: file(), step, flaw })
    }
}

/// The lines read so far.
#[derive(Default)]
struct RecordingReader {
    header: Option<Header>,
    files: BTreeMap<String, Vec<u8>>,
    tools: Option<Json>,
    children: Vec<Child>,
    places: Vec<StepLocation>,
    said: StepMessages,
    ended: bool,
    offset: u64,
    hashed: Sha256,
    whole: Sha256,
}

impl RecordingReader {
    fn line(&mut self, line: &[u8]) -> Result<(), Flaw> {
        let text = line.strip_suffix(b"\n").ok_or(Flaw::Cut)?;
        let json = canonical::read(text, &Limits::FILE)?.ok_or(Flaw::Canonical)?;
        let LineKind { t: kind, v: version } = json.read()?;
        if self.ended {
            return Err(Flaw::Behind);
        }
        if self.header.is_none() && kind != "recording" {
            return Err(Flaw::NoRecording);
        }
        match kind.as_str() {
            "recording" if self.header.is_none() => {
                let version = version.unwrap_or_default();
                if ![VERSION, BEFORE].contains(&version.as_str()) {
                    return Err(Flaw::Version(version));
                }
                self.header = Some(json.read()?);
            }
            "file" => self.file(json.read()?)?,
            "tools" if self.tools.is_none() => {
                let shown: ToolsLine = json.read()?;
                opened("tools", (&shown.c, &shown.salt), &canonical::bytes(&shown.tools))?;
                self.tools = Some(shown.tools);
            }
            "child" if self.places.is_empty() => self.child(json.read()?)?,
            "step" => self.step(json.read()?, text)?,
            "end" => self.end(&json.read()?)?,
            _ => return Err(Flaw::Kind(kind)),
        }
        if !self.ended {
            self.hashed.update(line);
        }
        self.whole.update(line);
        self.offset = self.offset.saturating_add(u64::try_from(line.len()).unwrap_or(u64::MAX));
        Ok(())
    }

    fn file(&mut self, line: FileLine) -> Result<(), Flaw> {
        let FileLine { name, sha256, base64 } = line;
        let bytes = match STANDARD.decode(base64) {
            Ok(bytes) => bytes,
            Err(why) => return Err(Flaw::Base64 { file: name, why }),
        };
        if Digest::of(&[&bytes]) != sha256 {
            return Err(Flaw::File(name));
        }
        if self.files.contains_key(&name) {
            return Err(Flaw::FileTwice(name));
        }
        self.files.insert(name, bytes);
        Ok(())
    }

    fn child(&mut self, line: ChildLine) -> Result<(), Flaw> {
        let header = self.header.as_ref().ok_or(Flaw::NoRecording)?;
        if header.version == BEFORE {
            return Err(Flaw::Children);
        }
        let child = Child::of(line, header.run, &self.children)?;
        self.children.push(child);
        Ok(())
    }

    /// The place of a step's run, and its manifest.
    fn run_of(&self, step: &RecordedCall) -> Result<(usize, Digest), Flaw> {
        let header = self.header.as_ref().ok_or(Flaw::NoRecording)?;
        let Some(run) = step.run else { return Ok((0, header.manifest)) };
        let found = children::place_of(&self.children, &run);
        let (place, child) = found.ok_or(Flaw::NoRun(step.number))?;
        Ok((place, child.manifest))
    }

    fn step(&mut self, step: RecordedCall, text: &[u8]) -> Result<(), Flaw> {
        let number = u64::try_from(self.places.len()).unwrap_or(u64::MAX).saturating_add(1);
        if step.number != number {
            return Err(Flaw::Number { found: step.number, expected: number });
        }
        step.is_bound()?;
        self.said.follow(&step)?;
        let (run, manifest) = self.run_of(&step)?;
        let seen = step.input.as_ref().and_then(|input| input.document.agent.manifest);
        if seen.is_some_and(|seen| seen.0 != manifest) {
            return Err(Flaw::Manifest(number));
        }
        self.places.push(StepLocation {
            number,
            run,
            tool: step.tool,
            redacted: step.redacted,
            after: step.after,
            end: step.end,
            offset: self.offset,
            length: text.len(),
            line: Digest::of(&[text]),
        });
        Ok(())
    }

    fn end(&mut self, line: &EndLine) -> Result<(), Flaw> {
        let steps = u64::try_from(self.places.len()).unwrap_or(u64::MAX);
        if line.steps != steps {
            return Err(Flaw::Steps(steps));
        }
        let found = Digest::from_bytes(self.hashed.clone().finalize().into());
        if line.sha256 != found {
            return Err(Flaw::Changed);
        }
        self.ended = true;
        Ok(())
    }

    /// Header and tools of a complete recording.
    fn whole(&mut self) -> Result<(Header, Json), Flaw> {
        if !self.ended {
            return Err(Flaw::Unended);
        }
        let header = self.header.take().ok_or(Flaw::Empty)?;
        let manifest = self.files.get(children::MANIFEST).ok_or(Flaw::NoManifest)?;
        if Digest::of(&[manifest]) != header.manifest {
            return Err(Flaw::OtherManifest);
        }
        for child in &self.children {
            let manifest = self.files.get(&child.file());
            if manifest.is_none_or(|manifest| Digest::of(&[manifest]) != child.manifest) {
                return Err(Flaw::ChildManifest(child.run));
            }
        }
        let tools = self.tools.take().ok_or(Flaw::NoTools)?;
        Ok((header, tools))
    }
}
