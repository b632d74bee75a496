//! The directory of one quickstart, and every file in it. The files are those of
//! `examples/quickstart` and `policies/examples`, compiled in.

use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};

use super::approvers;
use super::error::Error;
use super::own::{CommandOutput, OwnProgram};
use crate::cli::error::Occupied;
use crate::cli::{BundleError, FileError, create};
use crate::clock::{SystemEntropy, random32};
use crate::crypto::keys::{PublicKey, SecretKey};
use crate::crypto::note::VerifierKey;
use crate::domain::digest::Digest;
use crate::domain::time::Timestamp;
use crate::identity;
use crate::policy::bundle::Bundle;

const CONFIG: &str = include_str!("../../../examples/quickstart/wicketgate.yaml");
const MANIFEST: &str = include_str!("../../../examples/quickstart/agent.yaml");
/// The agent's instructions. Their hash is in the manifest.
pub const INSTRUCTIONS: &str = include_str!("../../../examples/quickstart/instructions.txt");

/// Every other file: its path and its contents.
const FILES: [(&str, &str); 10] = [
    ("instructions.txt", INSTRUCTIONS),
    ("handbook/refunds.md", include_str!("../../../examples/quickstart/handbook/refunds.md")),
    ("policy/bundle.json", include_str!("../../../examples/quickstart/policy/bundle.json")),
    ("policy/agent/main.rego", include_str!("../../../examples/quickstart/policy/agent/main.rego")),
    (
        "policy/agent/personal_data.rego",
        include_str!("../../../policies/examples/personal-data/agent/main.rego"),
    ),
    (
        "policy/agent/amount.rego",
        include_str!("../../../policies/examples/amount-approval/agent/main.rego"),
    ),
    (
        "policy/team/hosts.rego",
        include_str!("../../../policies/examples/example-hosts/team/hosts.rego"),
    ),
    ("policy/data/hosts.json", include_str!("../../../examples/quickstart/policy/data/hosts.json")),
    (
        "policy/org/freeze.rego",
        include_str!("../../../policies/examples/no-friday-writes/org/freeze.rego"),
    ),
    (
        "policy/data/freeze.json",
        include_str!("../../../policies/examples/no-friday-writes/data/freeze.json"),
    ),
];

/// Values of the example files that this machine replaces.
const EXAMPLE_ADDRESS: &str = "127.0.0.1:7400";
const EXAMPLE_UID: &str = "uid: 1000";
const EXAMPLE_WITNESS: &str = "http://127.0.0.1:7302";
const EXAMPLE_WITNESS_KEY: &str = "witness.example/1+00000000+BA==";
/// Where the last tool of the example begins.
const EXAMPLE_COMMAND: &str = "  - name: text.count";
/// The invoices and their recipients.
const INVOICES: &str = "CREATE TABLE invoices (number TEXT PRIMARY KEY, customer TEXT, amount INTEGER, paid INTEGER);
INSERT INTO invoices VALUES ('R-7', 'C-1042', 250, 2), ('R-8', 'C-1042', 90, 1), ('R-9', 'C-2001', 10, 0);";
/// The name of the auditor's witness.
pub const WITNESS: &str = "auditor.example/witness";
/// The keys that the auditor has.
const KEYS: &str = "auditor/keys.txt";
const EXAMPLE_FROM: &str = "2026-11-01T00:00:00Z";
const EXAMPLE_UNTIL: &str = "2027-05-01T00:00:00Z";

const DAY: Duration = Duration::from_secs(86_400);

/// The directory.
pub struct DemoDirectory {
    own: OwnProgram,
    dir: PathBuf,
    token: String,
    command: bool,
}

impl DemoDirectory {
    /// Makes the directory, for this user alone. `command`: the play has its command.
    pub fn make(own: OwnProgram, wanted: Option<&Path>, command: bool) -> Result<Self, Error> {
        let random = hex::encode(random32(&SystemEntropy));
        let name = random.get(..8).unwrap_or_default();
        let dir = match wanted {
            Some(dir) => dir.to_owned(),
            None => std::env::temp_dir().join(format!("wicketgate-quickstart-{name}")),
        };
        match std::fs::read_dir(&dir).map(|mut entries| entries.next().is_some()) {
            Ok(true) => return Err(Occupied::Directory(dir).into()),
            Ok(false) => {}
            Err(_) => {
                std::fs::DirBuilder::new()
                    .recursive(wanted.is_some())
                    .mode(0o700)
                    .create(&dir)
                    .map_err(FileError::at(&dir))?;
            }
        }
        let dir = dir.canonicalize().map_err(FileError::at(&dir))?;
        Ok(Self { own, dir, token: hex::encode(random32(&SystemEntropy)), command })
    }

    /// Makes the key of the fleet log, and tells the auditor's witness its public half.
    pub fn introduce(&self) -> Result<(), Error> {
        let key = |name: &str| -> Result<PublicKey, Error> {
            let key = SecretKey::generate(&SystemEntropy);
            self.write(&format!("{name}.pub"), &key.public().to_pem(), 0o644)?;
            key.store(&self.path(name))?;
            Ok(key.public())
        };
        let (fleet, witness) = (key("keys/fleet.pem")?, key("auditor/witness.pem")?);
        let log = VerifierKey::log(&crate::ledger::fleet::origin("default"), fleet).to_string();
        self.write("auditor/logs.txt", &format!("{log}\n"), 0o644)?;
        let witness = VerifierKey::witness(WITNESS, witness).to_string();
        self.write(KEYS, &format!("fleet-key {log}\nwitness-key {witness}\n"), 0o644)
    }

    /// The verifier key of the witness.
    fn witness_key(&self) -> Result<String, Error> {
        let path = self.path(KEYS);
        let text = std::fs::read_to_string(&path).map_err(FileError::at(&path))?;
        let key = text.lines().find_map(|line| line.strip_prefix("witness-key "));
        key.map(str::to_owned).ok_or(Error::NoWitnessKey)
    }

    /// Writes and signs everything. Returns the ids of the keys, by the files they sign.
    pub fn furnish(&self, tools: &str, witness: &str, now: Timestamp) -> Result<Value, Error> {
        for (name, text) in FILES {
            self.write(name, text, 0o644)?;
        }
        let mut ids = serde_json::Map::new();
        let mut key = |name: &str| -> Result<SecretKey, Error> {
            let key = SecretKey::generate(&SystemEntropy);
            ids.insert(name.to_owned(), json!(key.public().id()));
            self.write(&format!("keys/{name}.pem.pub"), &key.public().to_pem(), 0o644)?;
            key.store(&self.path(&format!("keys/{name}.pem")))?;
            Ok(key)
        };
        let (manifest, policy) = (key("manifest")?, key("policy")?);
        key("evidence")?;
        approvers::furnish(self, &key("approvers")?)?;
        self.write("keys/crm.token", &self.token, 0o600)?;

        let day = |at: Timestamp| {
            format!("{}T00:00:00Z", at.to_string().split('T').next().unwrap_or_default())
        };
        let half_a_year = DAY.saturating_mul(180);
        let agent = fill(MANIFEST, EXAMPLE_FROM, &day(now))?;
        let agent = fill(&agent, EXAMPLE_UNTIL, &day(now.plus(half_a_year)))?;
        self.write("agent.yaml", &agent, 0o644)?;
        let signed = identity::sign(agent.as_bytes(), "agent.yaml", &[&manifest]);
        self.write_bytes("agent.yaml.sig.json", &signed?, 0o644)?;

        let uid = rustix::process::getuid().as_raw();
        let config = fill(CONFIG, EXAMPLE_ADDRESS, tools)?;
        let config = fill(&config, EXAMPLE_UID, &format!("uid: {uid}"))?;
        let config = fill(&config, EXAMPLE_WITNESS, witness)?;
        let mut config = fill(&config, EXAMPLE_WITNESS_KEY, &self.witness_key()?)?;
        if !self.command {
            let at = config.find(EXAMPLE_COMMAND);
            let at = at.ok_or_else(|| Error::Example(EXAMPLE_COMMAND.to_owned()))?;
            config.truncate(at);
        }
        self.invoices()?;
        self.write("wicketgate.yaml", &config, 0o644)?;

        let policy_dir = self.path("policy");
        let bundle = Bundle::load(&policy_dir).map_err(BundleError::at(&policy_dir))?;
        self.write_bytes("policy/bundle.sig.json", &bundle.sign(&[&policy]), 0o644)?;
        self.trust(&bundle)?;
        Ok(Value::Object(ids))
    }

    /// The database of one of the tools.
    fn invoices(&self) -> rusqlite::Result<()> {
        rusqlite::Connection::open(self.path("invoices.db"))?.execute_batch(INVOICES)
    }

    /// The auditor's own directory: the trust that they received before the run.
    fn trust(&self, bundle: &Bundle) -> Result<(), Error> {
        let keys = self.path(KEYS);
        let keys = std::fs::read_to_string(&keys).map_err(FileError::at(&keys))?;
        let text = format!(
            "# Whom this auditor trusts. None of it comes from the bundle that is checked.\n\
             evidence-key ../keys/evidence.pem.pub\n\
             manifest-key ../keys/manifest.pem.pub\n\
             enrolment-key ../state/enrolment.key.pub\n\
             approvers {}\n\
             policy {}\n{keys}",
            self.digest(approvers::LIST)?.prefixed(),
            bundle.digest().prefixed(),
        );
        self.write("auditor/trust.txt", &text, 0o644)
    }

    fn digest(&self, name: &str) -> Result<Digest, Error> {
        let path = self.path(name);
        let bytes = std::fs::read(&path).map_err(FileError::at(&path))?;
        Ok(Digest::of(&[&bytes]))
    }

    /// Adds one line to the auditor's trust file.
    pub fn note(&self, line: &str) -> Result<(), Error> {
        let path = self.path("auditor/trust.txt");
        let opened = std::fs::OpenOptions::new().append(true).open(&path);
        let written = opened.and_then(|mut file| writeln!(file, "{line}"));
        Ok(written.map_err(FileError::at(&path))?)
    }

    pub fn write(&self, name: &str, text: &str, mode: u32) -> Result<(), Error> {
        self.write_bytes(name, text.as_bytes(), mode)
    }

    pub fn write_bytes(&self, name: &str, bytes: &[u8], mode: u32) -> Result<(), Error> {
        let path = self.path(name);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(FileError::at(folder))?;
        }
        Ok(create(&path, bytes, mode).map_err(FileError::at(&path))?)
    }

    /// A file or directory in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// This program.
    pub const fn own(&self) -> &OwnProgram {
        &self.own
    }

    /// Runs a command of this program in the directory, to its end.
    pub async fn run(&self, args: &[&str]) -> Result<CommandOutput, Error> {
        self.own.run(&self.dir, args).await
    }

    /// The directory itself.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The directory, for a person.
    pub fn shown(&self) -> String {
        self.dir.display().to_string()
    }

    /// Where the agent connects.
    pub fn socket(&self) -> PathBuf {
        self.path("state/agent.sock")
    }

    /// Whether the play has its command.
    pub const fn has_command(&self) -> bool {
        self.command
    }

    /// The credential of one of the tools.
    pub fn tool_token(&self) -> &str {
        &self.token
    }
}

/// Replaces a value of the example. Fails if the example lacks it: the demo would then run with a
/// foreign value.
fn fill(text: &str, example: &str, real: &str) -> Result<String, Error> {
    if text.contains(example) {
        Ok(text.replace(example, real))
    } else {
        Err(Error::Example(example.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_of_the_example_lists_the_instructions_of_the_example() {
        let manifest = identity::read(MANIFEST.as_bytes(), "agent.yaml").unwrap();
        let listed: Vec<_> = manifest.instructions.iter().map(|i| i.sha256).collect();
        assert_eq!(listed, [Digest::of(&[INSTRUCTIONS.as_bytes()])]);
    }

    #[test]
    fn a_directory_with_something_in_it_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let make = || DemoDirectory::make(OwnProgram::new().unwrap(), Some(dir.path()), true);
        assert!(make().is_ok());
        std::fs::write(dir.path().join("x"), "").unwrap();
        assert!(make().is_err_and(|e| matches!(e, Error::Occupied(_))));
        assert!(fill("a", "b", "c").is_err());
    }
}
