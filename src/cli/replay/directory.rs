//! The directory of one replay: the recorded manifest and policy, signed by keys that live as long as it,
//! and the configuration of a gate with a ledger of its own.

use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use crate::cli::reader::ConfigError;
use crate::cli::{BundleError, FileError, create};
use crate::clock::{SystemEntropy, random32};
use crate::config::Config;
use crate::crypto::keys::SecretKey;
use crate::domain::digest::Digest;
use crate::domain::token::Family;
use crate::identity;
use crate::identity::token::mint;
use crate::policy::PolicyEngine;
use crate::policy::bundle::Bundle;
use crate::policy::fault;
use crate::policy::rego::RegoEngine;
use crate::replay::children;
use crate::replay::recording::Recording;

/// One evaluation here: the gate's own deadline is shorter and was on another machine.
const DEADLINE: Duration = Duration::from_secs(10);

/// The directory. Gone when it is dropped.
pub(super) struct ReplayDirectory {
    dir: PathBuf,
    /// What the agent shows on loopback.
    pub token: String,
    /// The agents of child runs, with credentials of their own.
    below: Vec<ChildAgent>,
}

/// An agent of recorded child runs.
struct ChildAgent {
    name: String,
    manifest: Digest,
    token: String,
}

impl ChildAgent {
    fn file(&self, kind: &str) -> String {
        format!("{}.{kind}", self.manifest.hex().get(..16).unwrap_or_default())
    }

    /// What its variables end with: its name in letters, digits and `_`.
    fn suffix(&self) -> String {
        let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        self.name.chars().map(letter).collect()
    }
}

/// The bundles of a recording, or the one that decides instead.
pub(super) struct Policies {
    /// By digest.
    pub engines: BTreeMap<Digest, Arc<dyn PolicyEngine>>,
    /// What decides everything, if not the recorded ones.
    pub now: Option<Arc<dyn PolicyEngine>>,
    /// What the gate puts in force.
    in_force: Bundle,
}

impl Policies {
    /// Reads the recorded bundles, and the one in `dir`.
    pub fn of(recording: &Recording, dir: Option<&Path>) -> Result<Self, Error> {
        let mut engines = BTreeMap::new();
        let mut last = None;
        for (name, tar) in recording.files.iter().filter(|(name, _)| name.starts_with("policy/")) {
            let recorded = |error| Error::Recorded { name: name.clone(), error };
            let bundle = Bundle::from_tar(tar).map_err(recorded)?;
            engines.insert(bundle.digest(), engine(&bundle).map_err(recorded)?);
            last = Some(bundle);
        }
        let (now, in_force) = match dir {
            None => (None, last),
            Some(dir) => {
                let bundle = Bundle::load(dir).map_err(BundleError::at(dir))?;
                (Some(engine(&bundle)?), Some(bundle))
            }
        };
        let in_force = in_force.ok_or(Error::NoPolicy)?;
        Ok(Self { engines, now, in_force })
    }
}

fn engine(bundle: &Bundle) -> Result<Arc<dyn PolicyEngine>, fault::Error> {
    Ok(Arc::new(RegoEngine::new(bundle, DEADLINE)?))
}

/// Why the directory of a replay cannot be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// A file of the directory cannot be written.
    #[error(transparent)]
    File(#[from] FileError),
    /// A bundle of the recording is damaged.
    #[error("`{name}` of the recording: {error}")]
    Recorded {
        /// Its name there.
        name: String,
        /// What is wrong with it.
        #[source]
        error: fault::Error,
    },
    /// The bundle that decides instead does not load.
    #[error(transparent)]
    Bundle(#[from] BundleError),
    /// The bundle that decides instead cannot be evaluated.
    #[error(transparent)]
    Engine(#[from] fault::Error),
    /// A step of the recording cannot be read.
    #[error(transparent)]
    Recording(#[from] crate::replay::Error),
    /// Nothing decides.
    #[error("the recording has no policy")]
    NoPolicy,
    /// Nothing grants.
    #[error("the recording has no manifest")]
    NoManifest,
    /// An agent below has no grants.
    #[error("the recording has no manifest for one of its child runs")]
    NoChildManifest,
    /// The manifest is not signed.
    #[error(transparent)]
    Manifest(#[from] identity::Error),
    /// A gate would not start with the directory.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

impl ReplayDirectory {
    /// Makes the directory, for this user alone.
    pub fn make(recording: &Recording) -> Result<Self, FileError> {
        let random = hex::encode(random32(&SystemEntropy));
        let name = random.get(..8).unwrap_or_default();
        let (token, _) = mint(Family::Agent, &SystemEntropy);
        let dir = std::env::temp_dir().join(format!("wg-replay-{name}"));
        std::fs::DirBuilder::new().mode(0o700).create(&dir).map_err(FileError::at(&dir))?;
        let mut below: Vec<ChildAgent> = Vec::new();
        for child in &recording.children {
            if below.iter().all(|known| known.manifest != child.manifest) {
                let (name, manifest) = (child.agent.clone(), child.manifest);
                let (token, _) = mint(Family::Agent, &SystemEntropy);
                below.push(ChildAgent { name, manifest, token });
            }
        }
        Ok(Self { dir, token, below })
    }

    /// The environment for the agents of child runs: the address and the credential of each.
    pub fn variables(&self) -> Vec<(String, String)> {
        let of = |below: &ChildAgent| {
            let socket = self.dir.join(below.file("sock")).display().to_string();
            let suffix = below.suffix();
            [
                (format!("WICKETGATE_SOCKET_{suffix}"), socket),
                (format!("WICKETGATE_TOKEN_{suffix}"), below.token.clone()),
            ]
        };
        self.below.iter().flat_map(of).collect()
    }

    /// Where the agent connects on this machine alone.
    pub fn socket(&self) -> PathBuf {
        self.dir.join("agent.sock")
    }

    /// Writes everything, and reads it as a gate would.
    pub fn furnish(
        &self,
        recording: &Recording,
        policies: &Policies,
        tcp: Option<&str>,
    ) -> Result<Config, Error> {
        let manifest = recording.files.get("agent.yaml").ok_or(Error::NoManifest)?;
        // WHY: the ledger of the original run records whose signature its manifest had. The replay
        // signs the very same bytes with a key that lasts as long as the session.
        let (key, other) =
            (SecretKey::generate(&SystemEntropy), SecretKey::generate(&SystemEntropy));
        self.sign("agent.yaml", manifest, &key)?;
        let uid = rustix::process::getuid().as_raw();
        let callers = json!([{"uid": uid}, {"token_file": "token"}]);
        let mut agent = json!({"manifest": "agent.yaml", "callers": callers});
        if let (Some(managed), Some(members)) = (recording.managed()?, agent.as_object_mut()) {
            members.insert("model".into(), json!({"managed": managed}));
        }
        let mut agents = vec![agent];
        for below in &self.below {
            let manifest = recording.files.get(&children::file(&below.manifest));
            let manifest = manifest.ok_or(Error::NoChildManifest)?;
            let [yaml, socket, token] = ["yaml", "sock", "token"].map(|kind| below.file(kind));
            self.sign(&yaml, manifest, &key)?;
            self.write(&token, below.token.as_bytes())?;
            let callers = json!([{"socket": socket, "uid": uid}, {"token_file": token}]);
            agents.push(json!({"manifest": yaml, "callers": callers}));
        }
        for (name, text) in recording.templates() {
            self.write(&name, text)?;
        }
        for (name, bytes) in policies.in_force.as_written() {
            self.write(&format!("policy/{name}"), bytes)?;
        }
        let policy = self.dir.join("policy");
        let bundle = Bundle::load(&policy).map_err(BundleError::at(&policy))?;
        self.write("policy/bundle.sig.json", &bundle.sign(&[&other]))?;
        self.write("key.pub", key.public().to_pem().as_bytes())?;
        // A separate key: no key signs both manifest and bundle.
        self.write("other.pub", other.public().to_pem().as_bytes())?;
        self.write("token", self.token.as_bytes())?;
        let mut listen = json!({"socket": "agent.sock"});
        if let (Some(tcp), Some(listen)) = (tcp, listen.as_object_mut()) {
            listen.insert("tcp".into(), tcp.into());
        }
        let config = json!({
            "state": "state",
            "listen": listen,
            "operator": {"listen": "127.0.0.1:0"},
            "ledger": {"sqlite": {}},
            "trust": {"manifest_keys": ["key.pub"], "policy_keys": ["other.pub"]},
            "policy": {"bundle": "policy", "lint": "warn"},
            "self_test": {"at_start": false},
            "telemetry": {"log": "warn"},
            "agents": agents,
        });
        let read = Config::read(config.to_string().as_bytes(), "replay", &self.dir, &|_| None);
        Ok(read.map_err(ConfigError::from)?)
    }

    /// Writes a manifest beside a signature of this key.
    fn sign(&self, name: &str, manifest: &[u8], key: &SecretKey) -> Result<(), Error> {
        let signed = identity::sign(manifest, name, &[key])?;
        self.write(name, manifest)?;
        Ok(self.write(&format!("{name}.sig.json"), &signed)?)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), FileError> {
        let path = self.dir.join(name);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(FileError::at(folder))?;
        }
        create(&path, bytes, 0o600).map_err(FileError::at(&path))
    }
}

impl Drop for ReplayDirectory {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.dir));
    }
}
