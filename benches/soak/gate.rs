//! The gate that is soaked: its folder, its process, the bundles that are put in force, and what its files take.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use sqlx::{Connection as _, PgConnection};
use wicketgate::ledger::postgres::PostgresReader;
use wicketgate::ledger::sqlite::SqliteReader;
use wicketgate::ledger::store::LedgerReader;
use wicketgate_support::bench::folder::{Folder, Running, Sidecar, Store};
use wicketgate_support::bench::policies::{self, FIFTEEN};
use wicketgate_support::pg::TestDb;
use wicketgate_support::program;

use crate::tool::Tool;

/// One sidecar.
pub struct Gate {
    folder: Folder,
    sidecar: Sidecar,
    running: Option<Running>,
    database: Option<TestDb>,
    pub tool: Tool,
    /// Bundles that were put in force after the first.
    pub reloads: u32,
    /// How often it was killed.
    pub kills: u32,
    /// From each start to ready.
    pub starts: Vec<Duration>,
    /// Resident memory at the end of each life, MiB.
    pub lives: Vec<f64>,
}

/// Bytes on disk.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sizes {
    /// The ledger's file, or its database.
    pub ledger: u64,
    /// The log of its writes.
    pub wal: u64,
    /// Of a writer on Postgres; 0 on SQLite.
    pub spool: u64,
    /// The rest of the state directory.
    pub rest: u64,
}

impl Gate {
    /// Makes its folder: keys, manifest, first bundle, configuration, what a verifier trusts.
    pub fn new(store: &Store, database: Option<&TestDb>, tool: Tool) -> Self {
        let folder = Folder::new();
        let sidecar = folder.configure("soak", store, "policy-0", tool.at);
        let database = database.cloned();
        let gate = Self {
            folder,
            sidecar,
            running: None,
            database,
            tool,
            reloads: 0,
            kills: 0,
            starts: Vec::new(),
            lives: Vec::new(),
        };
        for key in ["evidence.pem", "fleet.pem"] {
            gate.run(&["keygen", "--out", key]);
        }
        gate.write_bundle();
        let text = std::fs::read_to_string(gate.config()).unwrap();
        // A slot is of one pool for good, whatever the bundle is called.
        let text = text.replace("slots: policy-0", "slots: local");
        // Only what is wrong is worth the room of hours.
        let text = format!("telemetry: {{log: warn}}\n{text}");
        std::fs::write(gate.config(), &text).unwrap();
        // The programs beside the gate read by their own login and sign with their own keys.
        let mut beside =
            format!("evidence: {{key: evidence.pem}}\nfleet: {{key: fleet.pem}}\n{text}");
        if let Some(database) = &gate.database {
            let file = gate.dir().join("reader.url");
            std::fs::write(&file, &database.reader_url).unwrap();
            std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).unwrap();
            beside.push_str("hub: {reader_url_file: reader.url}\n");
        }
        std::fs::write(gate.dir().join("beside.yaml"), beside).unwrap();
        gate.trust("evidence-key evidence.pem.pub\nmanifest-key m.pem.pub\n");
        gate.trust("enrolment-key soak/enrolment.key.pub\n");
        gate
    }

    pub fn name(&self) -> &'static str {
        self.sidecar.store.name()
    }

    pub fn dir(&self) -> &Path {
        self.folder.dir()
    }

    pub fn socket(&self) -> &Path {
        &self.sidecar.socket
    }

    fn config(&self) -> PathBuf {
        self.dir().join("soak.yaml")
    }

    fn state(&self) -> PathBuf {
        self.dir().join("soak")
    }

    fn run(&self, args: &[&str]) -> String {
        let done = program::command(self.dir(), args).output().unwrap();
        let [out, err] = [&done.stdout, &done.stderr].map(|text| String::from_utf8_lossy(text));
        assert!(done.status.success(), "{args:?}: {out}{err}");
        out.into_owned()
    }

    fn trust(&self, lines: &str) {
        let mut options = std::fs::File::options();
        let file = self.dir().join("trust.txt");
        let mut file = options.append(true).create(true).open(file).unwrap();
        file.write_all(lines.as_bytes()).unwrap();
    }

    /// Writes and signs the next bundle in a directory of its own; its name.
    fn write_bundle(&self) -> String {
        let (number, name) = (self.reloads, format!("policy-{}", self.reloads));
        let dir = self.dir().join(&name);
        policies::write(&dir, FIFTEEN);
        let version = format!(r#"{{"name":"bench","version":"1.0.{number}"}}"#);
        std::fs::write(dir.join("bundle.json"), version).unwrap();
        let mut rules =
            std::fs::File::options().append(true).open(dir.join("org/main.rego")).unwrap();
        let more = format!(
            "\ndeny contains {{\"code\": \"calls\", \"message\": \"bundle {number}\"}} if {{\n\tinput.run.calls > {}\n}}\n",
            1_000_000 + number
        );
        rules.write_all(more.as_bytes()).unwrap();
        self.run(&["policy", "sign", &name, "--key", "p.pem"]);
        let said = self.run(&["policy", "check", &name]);
        let digest = said.split_whitespace().find_map(|part| {
            let at = part.find("sha256:")?;
            part.get(at..at + "sha256:".len() + 64)
        });
        self.trust(&format!("policy {}\n", digest.expect("a digest")));
        name
    }

    fn process(&self) -> &Running {
        self.running.as_ref().expect("the gate runs")
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.process().pid()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Starts it and waits until it is ready.
    pub fn start(&mut self) {
        let running = tokio::task::block_in_place(|| self.sidecar.start());
        self.starts.push(running.ready_after);
        self.running = Some(running);
    }

    /// Puts another bundle in force by another configuration.
    pub fn reload(&mut self) {
        tokio::task::block_in_place(|| {
            let old = format!("bundle: policy-{}}}", self.reloads);
            self.reloads += 1;
            let new = format!("bundle: {}}}", self.write_bundle());
            let text = std::fs::read_to_string(self.config()).unwrap();
            assert!(text.contains(&old), "{text}");
            let next = self.config().with_extension("next");
            std::fs::write(&next, text.replace(&old, &new)).unwrap();
            std::fs::rename(next, self.config()).unwrap();
            self.signal(Signal::HUP);
        });
    }

    /// `kill -9`, and a start.
    pub fn kill(&mut self) {
        self.kills += 1;
        self.lives.push(self.memory());
        tokio::task::block_in_place(|| drop(self.running.take()));
        self.start();
    }

    /// SIGTERM, and a start.
    pub fn restart(&mut self) {
        self.stop();
        self.start();
    }

    /// Ends it in order.
    pub fn stop(&mut self) {
        self.lives.push(self.memory());
        let running = self.running.take();
        tokio::task::block_in_place(|| running.map(Running::stop));
    }

    /// Resident memory, MiB.
    ///
    /// Panics if the gate ended by itself.
    pub fn memory(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process().pid()));
        assert!(
            status.is_ok_and(|text| text.contains("VmRSS")),
            "the gate ended by itself: {}",
            self.log()
        );
        self.process().memory("VmRSS")
    }

    /// The end of what it logged since it was started.
    pub fn log(&self) -> String {
        let text = std::fs::read_to_string(self.config().with_extension("log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    pub async fn sizes(&self) -> Sizes {
        let state = self.state();
        let size = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
        let mut sizes = match &self.database {
            None => Sizes {
                ledger: size(&state.join("ledger.sqlite")),
                wal: size(&state.join("ledger.sqlite-wal")),
                ..Sizes::default()
            },
            Some(database) => {
                let mut admin = PgConnection::connect(&database.admin_url).await.unwrap();
                let sql = "SELECT pg_database_size(current_database()), (SELECT sum(size) FROM pg_ls_waldir())::bigint";
                let (ledger, wal): (i64, i64) =
                    sqlx::query_as(sql).fetch_one(&mut admin).await.unwrap();
                let [ledger, wal] = [ledger, wal].map(i64::unsigned_abs);
                Sizes { ledger, wal, spool: below(&state.join("spool")), rest: 0 }
            }
        };
        let own = if self.database.is_none() { sizes.ledger + sizes.wal } else { sizes.spool };
        sizes.rest = below(&state).saturating_sub(own);
        sizes
    }

    /// Reads its ledger, as an auditor may.
    pub async fn reader(&self) -> Box<dyn LedgerReader> {
        match &self.database {
            None => {
                Box::new(SqliteReader::open(&self.state().join("ledger.sqlite")).await.unwrap())
            }
            Some(database) => {
                Box::new(PostgresReader::connect(&database.reader_url).await.unwrap())
            }
        }
    }

    /// The directory of the spool, if the store has one.
    pub fn spool(&self) -> Option<PathBuf> {
        self.database.as_ref().map(|_| self.state().join("spool"))
    }
}

/// Bytes of all files of a directory; one that goes meanwhile counts as none.
fn below(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    let size = |path: PathBuf| match std::fs::symlink_metadata(&path) {
        Ok(meta) if meta.is_dir() => below(&path),
        Ok(meta) => meta.len(),
        Err(_) => 0,
    };
    entries.flatten().map(|entry| size(entry.path())).sum()
}
