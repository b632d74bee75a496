//! The directory of a bundle: file names and sizes. It holds plain files only.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::zip;
use crate::domain::digest::Digest;
use crate::domain::id::Seq;
use crate::entries::Damage;

/// The in-toto Statement v1.
pub const MANIFEST: &str = "manifest.json";
/// Its DSSE envelope.
pub const ENVELOPE: &str = "manifest.dsse.json";
/// The run with its transcript.
pub const AGENT_RUN: &str = "agent_run.json";
/// Every decision in order.
pub const DECISION: &str = "decision.json";
/// Every call with inputs and outputs.
pub const TOOL_TRACE: &str = "tool_trace.json";
/// The folder of the chain in a bundle of one run or range; a population has [`chain_folder`]s.
pub const FOLDER: &str = "ledger";
/// The folder of the fleet log.
pub const FLEET: &str = "fleet";
/// In a chain's folder: exact entry bytes, one a line.
pub const LINES: &str = "entries.jsonl";
/// In a chain's folder: the signed checkpoint.
pub const NOTE: &str = "checkpoint.txt";
/// In a chain's folder: inclusion proofs.
pub const PATHS: &str = "inclusion.json";
/// In a chain's folder: consistency proofs from older heads.
pub const OLDER: &str = "consistency.json";
/// In a chain's folder: proof that the span has no other entries.
pub const RANGE_PROOF: &str = "range.json";
/// Suffix of a stand-alone proof (c2sp.org/tlog-proof).
pub const ALONE: &str = ".tlog-proof";
/// Exact entry bytes, one a line.
pub const ENTRIES: &str = "ledger/entries.jsonl";
/// The signed checkpoint.
pub const CHECKPOINT: &str = "ledger/checkpoint.txt";
/// An inclusion proof for every entry.
pub const INCLUSION: &str = "ledger/inclusion.json";
/// Proofs that older heads are beginnings of this one; absent if not requested.
pub const CONSISTENCY: &str = "ledger/consistency.json";
/// The policy bundle the run's last decision used.
pub const POLICY: &str = "policy/bundle.tar";
/// The agent's manifest.
pub const AGENT: &str = "agent/agent.yaml";
/// The manifest's signature.
pub const AGENT_SIG: &str = "agent/agent.yaml.sig.json";
/// How the three files for people name the entries that they are about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PlaceForm {
    /// Each place of an entry has its time: what earlier programs exported, `/1`.
    Timed,
    /// A place has no time: `times` of the file has those of all entries that it names, `/2`.
    Untimed,
}

impl PlaceForm {
    pub(crate) const fn version(self) -> u8 {
        match self {
            Self::Timed => 1,
            Self::Untimed => 2,
        }
    }

    /// The form of the files of a bundle, by the end of its `agent_run.json`: `v` is the last member of a canonical file.
    #[must_use]
    pub fn of(agent_run: Option<&[u8]>) -> Self {
        match agent_run.is_some_and(|bytes| bytes.ends_with(br#"/1"}"#)) {
            true => Self::Timed,
            false => Self::Untimed,
        }
    }
}

/// The names of a further manifest and its signature, if a bundle has several.
pub fn agent_files(digest: &Digest) -> (String, String) {
    let hex = digest.hex();
    (format!("agent/{hex}.yaml"), format!("agent/{hex}.yaml.sig.json"))
}

/// Folder of the templates of instructions that the manifests name.
pub const TEMPLATES: &str = "agent/templates/";

/// The name of a template, whose bytes have this digest.
pub fn template_file(digest: &Digest) -> String {
    format!("{TEMPLATES}{}.txt", digest.hex())
}

/// The name of the rules that an operator added to the firewall's, where all together have this digest: the
/// SHA-256 of the file.
pub fn firewall_file(digest: &Digest) -> String {
    format!("firewall/{}.json", digest.hex())
}

/// The list of approvers at the time of the last approval; stock OpenSSH reads it.
pub const APPROVERS: &str = "approvals/allowed_signers";
/// Its signature.
pub const APPROVERS_SIG: &str = "approvals/allowed_signers.sig.json";
/// The names of an earlier list and its signature, if a bundle has several.
pub fn approvers_files(digest: &Digest) -> (String, String) {
    let hex = digest.hex();
    (
        format!("approvals/{hex}.allowed_signers"),
        format!("approvals/{hex}.allowed_signers.sig.json"),
    )
}

/// The names of the statement of the approval or refusal at this place, and of its signature.
pub fn statement_files(folder: &str, seq: Seq) -> (String, String) {
    let prefix = folder.strip_prefix("chains/").map(|k| format!("{k}/")).unwrap_or_default();
    (format!("approvals/{prefix}{seq}.json"), format!("approvals/{prefix}{seq}.sig"))
}

/// The names of the break-glass statement for the call at this place, and of its signatures.
pub fn break_glass_files(folder: &str, seq: Seq, signatures: usize) -> (String, Vec<String>) {
    let prefix = folder.strip_prefix("chains/").map(|k| format!("{k}/")).unwrap_or_default();
    let stem = format!("approvals/{prefix}{seq}.break-glass");
    let numbered = (1..=signatures).map(|n| format!("{stem}.{n}.sig")).collect();
    (format!("{stem}.json"), numbered)
}

/// What opens each commitment.
pub const PAYLOADS: &str = "payloads/index.json";
/// For people.
pub const PAGE: &str = "report.html";
/// How to check a bundle with third-party tools.
pub const GUIDE: &str = "VERIFY.md";
/// Proof that the span has no other entries; absent in a bundle of one run.
pub const RANGE: &str = "ledger/range.json";
/// The query of a population and its result, chain by chain.
pub const POPULATION: &str = "population.json";
/// The relevant entries of the fleet log, one a line.
pub const FLEET_ENTRIES: &str = "fleet/entries.jsonl";
/// The fleet log's checkpoint with every cosignature it has.
pub const FLEET_CHECKPOINT: &str = "fleet/checkpoint.txt";
/// An inclusion proof for every entry of [`FLEET_ENTRIES`].
pub const FLEET_INCLUSION: &str = "fleet/inclusion.json";
/// Proof that the fleet log has no other enrolled chains.
pub const FLEET_RANGE: &str = "fleet/range.json";
/// Which material supports which requirement of which framework.
pub const CONTROLS: &str = "controls.json";
/// The schema of entries.
pub const SCHEMA: &str = "schema/entry-1.json";

/// The folder of a chain in a bundle of a population; chains are numbered by origin.
pub fn chain_folder(number: u64) -> String {
    format!("chains/{number}")
}

/// The stand-alone proof of this entry, in the folder of its chain.
pub fn alone_file(folder: &str, seq: Seq) -> String {
    format!("{folder}/{seq}{ALONE}")
}

/// The most files of a bundle.
pub const FILES_MAX: usize = 65_535;
/// The most bytes of one file.
pub const FILE_BYTES_MAX: u64 = 256 << 20;
/// The most bytes of a whole bundle.
pub const BYTES_MAX: u64 = 1 << 30;

/// The files of a bundle by their relative name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Files(pub BTreeMap<String, Vec<u8>>);

impl Files {
    /// The bytes of one file.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.0.get(name).map(Vec::as_slice)
    }

    /// Adds a file.
    pub fn put(&mut self, name: impl Into<String>, bytes: impl Into<Vec<u8>>) {
        self.0.insert(name.into(), bytes.into());
    }

    /// Reads a bundle: a directory, or a `.zip` file.
    ///
    /// # Errors
    /// `B2`, and the offending file.
    pub fn load(path: &Path) -> Result<Self, Damage> {
        if path.is_dir() {
            return Self::read(path);
        }
        let bytes = read_file(path, BYTES_MAX)
            .map_err(|why| Damage::new("B2", format!("`{}`: {why}", path.display())))?;
        zip::read(&bytes)
    }

    /// Reads a directory: plain files with plain names only, within the limits.
    ///
    /// # Errors
    /// `B2`, and the offending file.
    pub fn read(dir: &Path) -> Result<Self, Damage> {
        let mut files = Self::default();
        let mut left = BYTES_MAX;
        read_into(dir, "", &mut files, &mut left)?;
        Ok(files)
    }
}

/// Whether a bundle may have this name: relative, plain characters, no `.` or `..` part.
#[must_use]
pub fn plain(name: &str) -> bool {
    let part = |part: &str| {
        !matches!(part, "" | "." | "..")
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
    };
    name.len() <= 255 && name.split('/').count() <= 4 && name.split('/').all(part)
}

fn read_into(dir: &Path, prefix: &str, files: &mut Files, left: &mut u64) -> Result<(), Damage> {
    let damage =
        |name: &str, why: &dyn std::fmt::Display| Damage::new("B2", format!("`{name}`: {why}"));
    let unreadable = |e: std::io::Error| Damage::new("B2", format!("`{}`: {e}", dir.display()));
    for entry in std::fs::read_dir(dir).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let part = entry.file_name().to_string_lossy().into_owned();
        let name = format!("{prefix}{part}");
        if !plain(&name) {
            return Err(damage(&name, &"not a plain file name"));
        }
        let kind = entry.file_type().map_err(unreadable)?;
        if kind.is_dir() {
            read_into(&entry.path(), &format!("{name}/"), files, left)?;
            continue;
        }
        if !kind.is_file() {
            return Err(damage(&name, &"not a plain file"));
        }
        if files.0.len() >= FILES_MAX {
            return Err(damage(&name, &"too many files"));
        }
        let bytes = read_file(&entry.path(), FILE_BYTES_MAX.min(*left))
            .map_err(|why| damage(&name, &why))?;
        *left = left.saturating_sub(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        files.0.insert(name, bytes);
    }
    Ok(())
}

/// Why a file of a bundle is not read.
#[derive(Debug, thiserror::Error)]
enum Unread {
    #[error(transparent)]
    Io(#[from] std::io::Error),
    #[error("too large")]
    Size,
}

/// Reads a file without following a link in its place, and never more than the limit.
fn read_file(path: &Path, bytes_max: u64) -> Result<Vec<u8>, Unread> {
    let file = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?;
    let mut bytes = Vec::new();
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > bytes_max {
        return Err(Unread::Size);
    }
    Ok(bytes)
}
