//! A database, an enrolment key, a hub that certifies with it, and sidecars that it certifies.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use wicketgate::clock::{Clock as _, SystemClock, SystemEntropy, random16, random32};
use wicketgate::domain::id::ChainId;
use wicketgate::ledger::enrolment::Request;
use wicketgate::ledger::postgres::{Login, Options, PostgresReader, PostgresStore, migrate};
use wicketgate::ledger::store::{LeaseRequest, Leased, LedgerReader as _, LedgerStore as _};
use wicketgate::ledger::writer_key::{Certificate, WriterKey};
use wicketgate::record::{Entry, Kind};

use crate::ca::Ca;
use crate::people::People;
use crate::sidecar::{Estate, run};
use crate::tool::Tool;
use wicketgate_support::hub::{Change, Hub};
use wicketgate_support::pg::{Pg, TestDb};
use wicketgate_support::ports::Port;
use wicketgate_support::ran::Ran;

/// Two pools, the enrolment key, and where the hub enrols.
pub struct EnrolledFleet {
    pub dir: TempDir,
    pub ca: Ca,
    pub db: TestDb,
    pub tool: Tool,
    pub people: People,
    port: Port,
    tls: bool,
}

impl EnrolledFleet {
    pub async fn new(tls: bool) -> EnrolledFleet {
        let ca = Ca::new();
        ca.server("hub");
        let dir = tempfile::tempdir().unwrap();
        run(dir.path(), &["keygen", "--out", "enrolment.pem"]);
        let (tool, people) = (Tool::start().await, People::new());
        let db = tokio::task::spawn_blocking(Pg::cluster).await.unwrap().database().await;
        let enrolled = EnrolledFleet { dir, ca, db, tool, people, port: Port::claim(), tls };
        for pool in ["local", "other", "stranger"] {
            enrolled.token(pool, pool);
        }
        enrolled
    }

    fn port(&self) -> u16 {
        self.port.number()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn shown(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Writes the token file of this name.
    pub fn token(&self, name: &str, token: &str) {
        let file = self.path(&format!("{name}.token"));
        std::fs::write(&file, format!("{token:-<43}")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// A sidecar with this token that is certified by the hub.
    pub fn sidecar(&self, token: &str) -> Estate {
        let (db, scheme) = (&self.db, if self.tls { "https" } else { "http" });
        let estate = Estate::postgres(&self.tool, &db.writer_url, &db.admin_url, "local");
        estate.configure(|config| {
            config["enrolment"] = json!({"hub": format!("{scheme}://127.0.0.1:{}", self.port()),
                "token_file": self.shown(&format!("{token}.token")),
                "public_key": self.shown("enrolment.pem.pub")});
            if self.tls {
                config["enrolment"]["ca_file"] = json!(self.ca.shown("ca.pem"));
            }
        });
        estate
    }

    pub async fn hub(&self, estate: &Estate, name: &str) -> Hub {
        self.hub_with(estate, name, &|_| ()).await
    }

    /// As [`Self::hub`], its `hub.enrolment` changed.
    pub async fn hub_with(&self, estate: &Estate, name: &str, change: Change<'_>) -> Hub {
        let urls = (self.db.operator_url.as_str(), self.db.reader_url.as_str());
        let pool =
            |name: &str| json!({"pool": name, "token_file": self.shown(&format!("{name}.token"))});
        Hub::configured(
            estate,
            &self.people,
            urls,
            (name, &|config: &mut Value| {
                config.as_object_mut().unwrap().remove("enrolment");
                config["fleet"] = json!({"enrolment_key": self.shown("enrolment.pem")});
                let mut registry = json!({"listen": format!("127.0.0.1:{}", self.port()), "days": 1,
                "tokens": [pool("local"), pool("other")]});
                if self.tls {
                    registry["tls"] =
                        json!({"cert": self.ca.shown("hub.pem"), "key": self.ca.shown("hub.key")});
                }
                change(&mut registry);
                config["hub"]["enrolment"] = registry;
            }),
        )
        .await
    }

    /// Writes a configuration for exports: it has the keys, and a login that reads.
    pub async fn exporter(&self, estate: &Estate) {
        let (name, tenant) = ("wg_exporter".to_owned(), "default".to_owned());
        let logins = [
            Login::Writer { name: name.clone(), password: None, tenant: tenant.clone() },
            Login::Reader { name, password: None, tenant: Some(tenant) },
        ];
        migrate(&self.db.admin_url, &logins).await.unwrap();
        let text = std::fs::read_to_string(estate.path("wicketgate.yaml")).unwrap();
        let mut config: Value = serde_json::from_str(&text).unwrap();
        config.as_object_mut().unwrap().remove("enrolment");
        let url = self.db.writer_url.replace("wg_writer@", "wg_exporter@");
        config["ledger"]["postgres"]["url"] = json!(url);
        config["fleet"] = json!({"key": "fleet.pem", "enrolment_key": self.shown("enrolment.pem")});
        std::fs::write(estate.path("exporter.yaml"), config.to_string()).unwrap();
    }

    /// Who was enrolled, by what hubs recorded.
    pub async fn enrolled(&self) -> Vec<Value> {
        let reader = PostgresReader::connect(&self.db.reader_url).await.unwrap();
        let mut found = Vec::new();
        for chain in reader.chains().await.unwrap() {
            let rows =
                reader.entries_of(&chain.chain, &[Kind::WriterEnrolled.as_str()]).await.unwrap();
            let entries = rows.iter().map(|row| Entry::parse(&row.body).unwrap());
            found.extend(entries.map(|entry| serde_json::to_value(&entry.draft.body).unwrap()));
        }
        found
    }

    pub async fn slots(&self) -> Vec<String> {
        let reader = PostgresReader::connect(&self.db.reader_url).await.unwrap();
        let chains = reader.chains().await.unwrap().into_iter().map(|chain| chain.slot);
        chains.filter(|slot| !slot.starts_with("hub/")).collect()
    }

    /// A slot of this pool, taken as a sidecar would.
    pub async fn lease(&self, pool: &str) -> Leased {
        let store = PostgresStore::connect(&self.db.writer_url, Options::default()).await.unwrap();
        let request = LeaseRequest {
            tenant: "default".into(),
            pool: pool.into(),
            writer: "test".into(),
            previous: None,
            secret: random32(&SystemEntropy),
            chain: ChainId::from_bytes(random16(&SystemEntropy)),
            term: std::time::Duration::from_secs(60),
        };
        store.lease(&request).await.unwrap()
    }

    /// Asks the hub in the clear with the token of this name; status and body.
    pub async fn asks(&self, token: &str, signed: &(String, String)) -> (u16, Value) {
        let token = std::fs::read_to_string(self.path(&format!("{token}.token"))).unwrap();
        self.shows(&token, signed).await
    }

    /// Asks the hub in the clear with this token; status and body.
    pub async fn shows(&self, token: &str, (request, proof): &(String, String)) -> (u16, Value) {
        let body = json!({"request": request, "proof": proof}).to_string();
        let head = format!(
            "POST /v1/enrol HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Authorization: Bearer {token}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.sends(&head).await
    }

    pub async fn sends(&self, bytes: &str) -> (u16, Value) {
        let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", self.port())).await.unwrap();
        stream.write_all(bytes.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head[9..12].parse().unwrap(), serde_json::from_str(body).unwrap_or(Value::Null))
    }

    /// `config check` of a sidecar whose configuration is changed so: it says these words, or finds nothing wrong
    /// if there are none.
    pub fn checks(&self, change: Change<'_>, words: &[&str]) {
        let estate = self.sidecar("local");
        estate.configure(change);
        let ran = estate.try_run(&["config", "check", "wicketgate.yaml"]);
        let said = ran.text();
        assert_eq!(ran.code == 0, words.is_empty(), "{said}");
        assert!(words.iter().all(|word| said.contains(word)), "{words:?}: {said}");
    }

    /// The evidence of these runs verifies with the enrolment key pinned, and not with another one.
    pub async fn proves(&self, estate: &Estate, runs: &[String]) {
        let dir = estate.path(".");
        for name in ["evidence.pem", "fleet.pem"] {
            run(&dir, &["keygen", "--out", name]);
        }
        self.exporter(estate).await;
        let trusts = |file: &str, enrolment: &str| {
            let text = format!("evidence-key evidence.pem.pub\nenrolment-key {enrolment}\n");
            std::fs::write(estate.path(file), text).unwrap();
        };
        trusts("trust.txt", &self.shown("enrolment.pem.pub"));
        trusts("other.txt", "fleet.pem.pub");
        for (i, id) in runs.iter().enumerate() {
            let out = format!("proof{i}");
            let order =
                ["evidence", "export", "--config", "exporter.yaml", "--run", id, "--out", &out];
            let keys = ["--key", "evidence.pem", "--artifacts", "state/artifacts"];
            run(&dir, &[&order[..], &keys].concat());
            let verify = |trust: &str| {
                let ran = Ran::gate(&dir, ["evidence", "verify", "--json", "--trust", trust, &out]);
                let said = ran.json();
                let checks = said["checks"].as_array().unwrap();
                let enrolled = checks.iter().find(|check| check["id"] == "S1").unwrap();
                (ran.code, enrolled["outcome"].as_str().unwrap().to_owned(), said)
            };
            let (exit, enrolled, said) = verify("trust.txt");
            assert_eq!((exit, enrolled.as_str()), (0, "VALID"), "{said}");
            let (exit, enrolled, said) = verify("other.txt");
            assert_eq!((exit, enrolled.as_str()), (1, "INVALID"), "{said}");
        }
        std::fs::write(estate.path("reader.url"), &self.db.reader_url).unwrap();
        run(
            &dir,
            &["ledger", "verify", "--postgres-url-file", "reader.url", "--trust", "trust.txt"],
        );
    }
}

/// A key for one epoch.
pub fn key() -> WriterKey {
    WriterKey::generate(&SystemEntropy, "origin", SystemClock::new().now())
}

/// What a sidecar that holds this slot asks for.
pub fn request(leased: &Leased, key: &WriterKey) -> Request {
    let certificate = Certificate {
        slot: leased.slot.clone(),
        epoch: leased.key.epoch,
        key: key.public(),
        pod: "pod".into(),
        image_digest: "none".into(),
        not_after: key.not_after(),
    };
    Request { tenant: "default".into(), log: leased.origin.clone(), certificate }
}
