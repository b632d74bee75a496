//! The files of one governed configuration: written, signed and tried in a staging directory.

use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::error::Error;
use super::probe::Governed;
use super::text;
use crate::catalog::lock::{self, Lock};
use crate::cli::reader::ConfigError;
use crate::cli::{BundleError, FileError, create};
use crate::clock::{Clock as _, SystemClock, SystemEntropy, random32};
use crate::config::{self, Config};
use crate::crypto::keys::{self, SecretKey, keep_secret};
use crate::domain::time::Timestamp;
use crate::domain::token::Family;
use crate::identity;
use crate::identity::callers::{Callers, Trust};
use crate::identity::token::{RunTokens, mint};
use crate::policy::bundle::Bundle;
use crate::policy::rego::{DEADLINE, RegoEngine};

/// The rules that every new configuration starts with.
const STARTER: [(&str, &str); 5] = [
    ("policy/org/guard.rego", include_str!("../../../policies/starter/org/guard.rego")),
    ("policy/org/guard_test.rego", include_str!("../../../policies/starter/org/guard_test.rego")),
    ("policy/agent/review.rego", include_str!("../../../policies/starter/agent/review.rego")),
    (
        "policy/agent/review_test.rego",
        include_str!("../../../policies/starter/agent/review_test.rego"),
    ),
    ("policy/data/reviewed.json", include_str!("../../../policies/starter/data/reviewed.json")),
];

/// The facts a configuration is made from.
pub struct Plan {
    /// The agent's name.
    pub agent: String,
    /// A process with this uid on the socket is this agent.
    pub uid: u32,
    /// The origin of the servers, for comments.
    pub from: String,
    /// Now.
    pub now: Timestamp,
    /// How long the agent layer observes.
    pub observe: Duration,
    /// Where agents with the token connect, if anywhere but the socket.
    pub http: Option<SocketAddr>,
    /// What is logged.
    pub log: &'static str,
}

impl Plan {
    /// From when on the agent layer is enforced.
    pub fn until(&self) -> Timestamp {
        self.now.plus(self.observe)
    }
}

/// A directory under construction, beside the place it is for. Gone when dropped.
pub struct StagingDirectory {
    part: PathBuf,
    dir: PathBuf,
    done: bool,
}

impl StagingDirectory {
    /// Begins a directory for this place, which must be missing or empty.
    ///
    /// # Errors
    /// The place is not empty, or cannot be made.
    pub fn begin(dir: &Path) -> Result<Self, Error> {
        let failed = FileError::at(dir);
        if dir.exists() && std::fs::read_dir(dir).map_err(&failed)?.next().is_some() {
            return Err(Error::InUse(dir.to_owned()));
        }
        let dir = std::path::absolute(dir).map_err(&failed)?;
        let parent = dir.parent().unwrap_or(Path::new("/"));
        std::fs::create_dir_all(parent).map_err(&failed)?;
        let parent = parent.canonicalize().map_err(&failed)?;
        let name = dir.file_name().ok_or(Error::NoName)?.to_string_lossy().into_owned();
        let random = hex::encode(random32(&SystemEntropy));
        let random = random.get(..8).unwrap_or_default();
        let part = parent.join(format!(".{name}.part-{random}"));
        std::fs::DirBuilder::new().mode(0o700).create(&part).map_err(&failed)?;
        let staging = Self { part, dir: parent.join(name), done: false };
        Error::socket(&staging.dir.join("state/agent.sock"))?;
        Ok(staging)
    }

    /// Where it is now.
    pub fn part(&self) -> &Path {
        &self.part
    }

    /// Where it will be.
    pub fn place(&self) -> &Path {
        &self.dir
    }

    /// Writes a new file.
    ///
    /// # Errors
    /// The system's error.
    pub fn write(&self, name: &str, bytes: &[u8], mode: u32) -> Result<(), FileError> {
        let path = self.part.join(name);
        let failed = FileError::at(&path);
        if let Some(folder) = path.parent() {
            std::fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)
                .map_err(&failed)?;
        }
        if mode == 0o600 {
            return keep_secret(&path, bytes).map_err(failed);
        }
        create(&path, bytes, mode).map_err(failed)
    }

    /// Takes a file away again.
    pub fn forget(&self, name: &str) {
        // One that was never written is as good.
        let _ = std::fs::remove_file(self.part.join(name));
    }

    /// Moves the directory to its place, whole.
    ///
    /// # Errors
    /// The system's error; the place then holds nothing.
    pub fn finish(mut self) -> Result<PathBuf, FileError> {
        std::fs::rename(&self.part, &self.dir).map_err(FileError::at(&self.dir))?;
        self.done = true;
        Ok(self.dir.clone())
    }
}

impl Drop for StagingDirectory {
    fn drop(&mut self) {
        if !self.done {
            // Remove a half-finished directory; if that fails, its name still shows what it is.
            let _ = std::fs::remove_dir_all(&self.part);
        }
    }
}

/// The keys of one configuration, by the files they sign.
pub struct ConfigKeys {
    manifest: SecretKey,
    policy: SecretKey,
    lock: SecretKey,
}

impl ConfigKeys {
    /// Makes them, in the directory under construction.
    ///
    /// # Errors
    /// One cannot be written.
    pub fn make(staging: &StagingDirectory) -> Result<Self, Error> {
        let make = |name: &str| -> Result<SecretKey, Error> {
            let key = SecretKey::generate(&SystemEntropy);
            let public = key.public().to_pem();
            staging.write(&format!("keys/{name}.pem.pub"), public.as_bytes(), 0o644)?;
            key.store(&staging.part.join(format!("keys/{name}.pem")))?;
            Ok(key)
        };
        make("evidence")?;
        make("fleet")?;
        Ok(Self { manifest: make("manifest")?, policy: make("policy")?, lock: make("lock")? })
    }

    /// Those of a directory that is there already.
    ///
    /// # Errors
    /// One cannot be read.
    pub fn load(dir: &Path) -> Result<Self, keys::Error> {
        let load = |name: &str| SecretKey::load(&dir.join(format!("keys/{name}.pem")));
        Ok(Self { manifest: load("manifest")?, policy: load("policy")?, lock: load("lock")? })
    }

    /// The one that signs manifests.
    pub const fn manifest(&self) -> &SecretKey {
        &self.manifest
    }

    /// The id a manifest names.
    pub fn lock_id(&self) -> String {
        self.lock.public().id()
    }
}

/// A file's name and contents.
pub type File = (&'static str, Vec<u8>);

/// The signed files that depend on the servers' tools.
///
/// # Errors
/// A file that cannot be signed.
pub fn signed(
    plan: &Plan,
    version: &str,
    governed: &[Governed],
    keys: &ConfigKeys,
) -> Result<Vec<File>, Error> {
    let text = Lock::of(governed.iter().map(|one| one.locked.clone())).text().into_bytes();
    let envelope = lock::sign(&text, "tools.lock", &[&keys.lock])?;
    let manifest = text::manifest(plan, version, governed, &keys.lock_id())?.into_bytes();
    let by = identity::sign(&manifest, "agent.yaml", &[&keys.manifest])?;
    Ok(vec![
        ("tools.lock", text),
        ("tools.lock.sig.json", envelope),
        ("agent.yaml", manifest),
        ("agent.yaml.sig.json", by),
        ("wicketgate.yaml", text::configuration(plan, governed)?.into_bytes()),
    ])
}

/// Signs the bundle in this directory.
///
/// # Errors
/// The directory holds no valid bundle.
pub fn sign_policy(policy: &Path, keys: &ConfigKeys, now: Timestamp) -> Result<Bundle, Error> {
    let bundle = Bundle::load(policy).map_err(BundleError::at(policy))?;
    RegoEngine::new(&bundle, DEADLINE)?;
    bundle.check_validity(now)?;
    let envelope = bundle.sign(&[&keys.policy]);
    let path = Bundle::signature_path(policy);
    std::fs::write(&path, envelope).map_err(FileError::at(&path))?;
    Ok(bundle)
}

/// Writes everything for these servers and loads it as the gate will.
///
/// # Errors
/// The first error, also two tools that a client could confuse.
pub fn furnish(
    staging: &StagingDirectory,
    plan: &Plan,
    governed: &[Governed],
) -> Result<(), Error> {
    let keys = ConfigKeys::make(staging)?;
    for (name, text) in STARTER {
        staging.write(name, text.as_bytes(), 0o644)?;
    }
    staging.write("policy/bundle.json", text::bundle(plan, "1.0.0").as_bytes(), 0o644)?;
    let bundle = sign_policy(&staging.part.join("policy"), &keys, plan.now)?;
    if plan.http.is_some() {
        let (token, _) = mint(Family::Agent, &SystemEntropy);
        staging.write("credentials/agent.token", token.as_bytes(), 0o600)?;
    }
    for (name, bytes) in signed(plan, "1.0.0", governed, &keys)? {
        // WHY: a command line may contain private values.
        let mode = if name == "wicketgate.yaml" { 0o600 } else { 0o644 };
        staging.write(name, &bytes, mode)?;
    }
    let trust = text::trust(&bundle.digest().prefixed());
    staging.write("auditor/trust.txt", trust.as_bytes(), 0o644)?;
    tried(&staging.part)
}

/// Loads the written files as the gate will.
///
/// # Errors
/// Everything that is wrong with them.
pub fn tried(dir: &Path) -> Result<(), Error> {
    let config =
        Config::load(&dir.join("wicketgate.yaml"), &|_| None).map_err(ConfigError::from)?;
    config.bindings(&config::environment).map_err(Error::Bindings)?;
    let mut trusted = Vec::new();
    for file in &config.trust.manifest_keys {
        trusted.extend(keys::PublicKey::load_all(file)?);
    }
    let socket = config.listen.socket.as_deref();
    let (threshold, kubernetes) =
        (config.trust.manifest_threshold, config.trust.kubernetes.as_deref());
    let trust = Trust { keys: &trusted, threshold, socket, kubernetes };
    let tokens = Arc::new(RunTokens::new([0; 32]));
    Callers::load(&config.agents, &trust, &tokens, SystemClock::new().now())
        .map(drop)
        .map_err(Error::Callers)
}
