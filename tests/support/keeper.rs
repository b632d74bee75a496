//! A gate, its keys, and the commands on its ledger and its payloads.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use serde_json::Value;
use sqlx::{Connection as _, Row as _};
use wicketgate_faces::serve::pb;
use wicketgate_faces::serve::pb::gate_client::GateClient;

use crate::agent::{Agent, Refused, channel, claims};
use crate::pg::TestDb;
use crate::ran::Ran;
use crate::sidecar::{Estate, Sidecar, run};
use crate::tool::Tool;

/// What must never be found where it was erased, hidden or sealed.
pub const IBAN: &str = "DE02120300000000202051";

/// One gate with everything around it.
pub struct Keeper {
    pub estate: Estate,
    pub tool: Tool,
}

impl Keeper {
    pub async fn sqlite() -> Keeper {
        let tool = Tool::echoing().await;
        Self::with_keys(Estate::sqlite(&tool), tool)
    }

    pub async fn postgres(db: &TestDb) -> Keeper {
        let tool = Tool::echoing().await;
        let estate = Estate::postgres(&tool, &db.writer_url, &db.admin_url, "local");
        std::fs::write(estate.path("reader.url"), &db.reader_url).unwrap();
        Self::with_keys(estate, tool)
    }

    fn with_keys(estate: Estate, tool: Tool) -> Keeper {
        for name in ["fleet.pem", "evidence.pem"] {
            run(&estate.path(""), &["keygen", "--out", name]);
        }
        Keeper { estate, tool }
    }

    /// Encrypts payloads from the next start on.
    pub fn encrypt(&self, first: &str, others: &[&str]) {
        for name in others.iter().chain([&first]) {
            if !self.path(name).exists() {
                run(&self.path(""), &["payload", "keygen", "--out", name]);
            }
        }
        let (first, others) = (first.to_owned(), others.iter().map(|n| (*n).to_owned()));
        let others: Vec<String> = others.collect();
        self.estate.configure(|config| {
            config["encryption"] = serde_json::json!({"key_file": first, "old_key_files": others});
        });
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.estate.path(name)
    }

    /// Runs one command.
    pub fn ask(&self, args: &[&str]) -> Ran {
        self.estate.try_run(args)
    }

    /// Runs one command that records in the fleet log.
    pub fn record(&self, args: &[&str]) -> Ran {
        let keys = ["--config", "wicketgate.yaml", "--fleet-key", "fleet.pem"];
        self.ask(&[args, &keys].concat())
    }

    #[track_caller]
    pub fn erase(&self, what: &[&str]) -> String {
        let ended = self.try_erase(olga(), what);
        assert_eq!(ended.code, 0, "{ended:?}");
        ended.out
    }

    /// The operator with this key erases, or is refused.
    pub fn try_erase(&self, key: &str, what: &[&str]) -> Ran {
        let why = ["payload", "erase", "--yes", "--basis", "GDPR 17", "--operator-key", key];
        self.record(&[&why, what].concat())
    }

    /// What is stored, by role.
    #[track_caller]
    pub fn listed(&self, more: &[&str]) -> Vec<Value> {
        let all = ["payload", "list", "--config", "wicketgate.yaml", "--json"];
        let ended = self.ask(&[&all, more].concat());
        assert_eq!(ended.code, 0, "{ended:?}");
        ended.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Exports a run into `name`.
    #[track_caller]
    pub fn export(&self, run: &str, name: &str, more: &[&str]) -> PathBuf {
        self.export_from(&["--config", "wicketgate.yaml"], run, name, more)
    }

    #[track_caller]
    pub fn export_from(&self, from: &[&str], run: &str, name: &str, more: &[&str]) -> PathBuf {
        let order = ["evidence", "export", "--run", run, "--out", name, "--key", "evidence.pem"];
        let rest = ["--artifacts", "state/artifacts", "--fleet-key", "fleet.pem"];
        let enrolment = ["--enrolment-key", "state/enrolment.key"];
        let ended = self.ask(&[&order[..], &rest, &enrolment, from, more].concat());
        assert_eq!(ended.code, 0, "{ended:?}");
        self.path(name)
    }

    /// Writes what is trusted: the evidence key and the enrolment key.
    pub fn trust(&self) {
        let list = PathBuf::from(crate::sidecar::key("list.pub"));
        let keys = [
            ("evidence-key", self.path("evidence.pem.pub")),
            ("enrolment-key", self.path("state/enrolment.key.pub")),
            ("approvers", list),
        ];
        let lines = keys.iter().map(|(word, file)| format!("{word} {}\n", file.display()));
        let lines: Vec<String> = lines.collect();
        std::fs::write(self.path("trust.txt"), lines.concat()).unwrap();
    }

    /// What verifying a bundle says, and its checks by id.
    pub fn verify(&self, bundle: &Path) -> Value {
        self.trust();
        let ended = self.ask(&[
            "evidence",
            "verify",
            "--json",
            "--trust",
            "trust.txt",
            bundle.to_str().unwrap(),
        ]);
        serde_json::from_str(&ended.out).unwrap_or_else(|e| panic!("{e}: {ended:?}"))
    }

    /// A sidecar with one sealed run of so many calls that carry what is secret.
    pub async fn served(&self, calls: usize) -> (Sidecar, Agent) {
        let sidecar = self.estate.serve().await;
        let agent = sidecar.open().await;
        for n in 0..calls {
            agent.call("work.do", &format!("c{n}"), &args(n)).await.unwrap();
        }
        (sidecar, agent)
    }

    /// Has the manifest say `spec.incognito`, from the next start on.
    pub fn grant_incognito(&self, word: &str) {
        grant_incognito(&self.estate, word);
    }

    /// Opens a run of which nothing is to be stored.
    pub async fn open_incognito(&self) -> Agent {
        self.try_open_incognito(true).await.unwrap()
    }

    /// Opens a run that asks for that, or does not.
    pub async fn try_open_incognito(&self, incognito: bool) -> Result<Agent, Refused> {
        let mut gate = GateClient::new(channel(&self.estate.socket()));
        let request = pb::OpenRunRequest { incognito, ..claims() };
        let opened = gate.open_run(request).await.map_err(|status| Refused::of(&status))?;
        let (opened, receipts) = (opened.into_inner(), self.estate.receipts.clone());
        Ok(Agent { gate, token: opened.run_token, run: opened.run_id, receipts })
    }

    /// The bytes of the database file and of everything beside it.
    pub fn raw(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for entry in std::fs::read_dir(self.path("state")).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().unwrap().to_string_lossy().starts_with("ledger.sqlite") {
                bytes.extend(std::fs::read(path).unwrap());
            }
        }
        bytes
    }

    /// A reader of the SQLite file as it is now, until the connection is closed.
    pub async fn reading(&self) -> sqlx::SqliteConnection {
        let url = format!("sqlite://{}", self.path("state/ledger.sqlite").display());
        let mut conn = sqlx::SqliteConnection::connect(&url).await.unwrap();
        for text in ["BEGIN", "SELECT count(*) FROM payload"] {
            sqlx::raw_sql(text).fetch_all(&mut conn).await.unwrap();
        }
        conn
    }

    /// One statement in the SQLite file.
    pub async fn sql(&self, text: &str) -> i64 {
        let url = format!("sqlite://{}", self.path("state/ledger.sqlite").display());
        let mut conn = sqlx::SqliteConnection::connect(&url).await.unwrap();
        let rows = sqlx::raw_sql(sqlx::AssertSqlSafe(text.to_owned()));
        let rows = rows.fetch_all(&mut conn).await.unwrap();
        conn.close().await.unwrap();
        rows.first().map_or(0, |row| row.get::<i64, _>(0))
    }
}

/// Has the manifest of this estate say `spec.incognito`, from the next start on.
pub fn grant_incognito(estate: &Estate, word: &str) {
    estate.manifest("1.0.0", "manifest", |text| {
        let mut manifest: Value = serde_json::from_str(&text).unwrap();
        manifest["spec"]["incognito"] = word.into();
        serde_json::to_string_pretty(&manifest).unwrap()
    });
}

/// Arguments of the n-th call.
pub fn args(n: usize) -> String {
    format!(r#"{{"amount":{n},"iban":"{IBAN}","note":"note-{n:04}-end","pin":"{:04}"}}"#, 7000 + n)
}

/// The key of the operator of the test run.
pub fn olga() -> &'static str {
    static OLGA: LazyLock<String> = LazyLock::new(|| crate::sidecar::key("olga"));
    &OLGA
}

/// The key of another operator: the one that ends a hold does not erase what it kept.
pub fn otto() -> &'static str {
    static OTTO: LazyLock<String> = LazyLock::new(|| crate::sidecar::key("otto"));
    &OTTO
}

/// Whether these bytes are in those.
pub fn holds(all: &[u8], part: &str) -> bool {
    let part = part.as_bytes();
    all.windows(part.len()).any(|window| window == part)
}

/// How a check of a report came out.
pub fn outcome<'a>(report: &'a Value, id: &str) -> (&'a str, &'a str) {
    let checks = report["checks"].as_array().unwrap();
    let check = checks.iter().find(|check| check["id"] == id);
    let check = check.unwrap_or_else(|| panic!("no {id} in {report}"));
    (check["outcome"].as_str().unwrap_or_default(), check["detail"].as_str().unwrap_or_default())
}

/// All bytes of a bundle.
pub fn whole(dir: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            bytes.extend(whole(&path));
        } else {
            bytes.extend(std::fs::read(path).unwrap());
        }
    }
    bytes
}
