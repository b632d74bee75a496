//! Sidecars without an enrolment key: a hub certifies their writers.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use wicketgate::clock::{Clock as _, SystemClock, SystemEntropy, random16, random32};
use wicketgate::crypto::keys::PublicKey;
use wicketgate::domain::id::ChainId;
use wicketgate::domain::json::{Json, Limits};
use wicketgate::ledger::enrolment::Request;
use wicketgate::ledger::entry::{Entry, Kind};
use wicketgate::ledger::postgres::{Login, Options, Postgres, PostgresReader, migrate};
use wicketgate::ledger::store::{LeaseRequest, Leased, LedgerReader as _, LedgerStore as _};
use wicketgate::ledger::writer_key::{Certificate, WriterKey};

use crate::ca::Ca;
use crate::checker::check_running;
use crate::hub::Hub;
use crate::people::People;
use crate::sidecar::{Estate, run};
use crate::support::pg::{Pg, TestDb};
use crate::tool::Tool;

/// Two pools, the enrolment key, and where the hub enrols.
struct Town {
    dir: TempDir,
    ca: Ca,
    db: TestDb,
    tool: Tool,
    people: People,
    port: u16,
    tls: bool,
}

impl Town {
    async fn new(tls: bool) -> Town {
        let ca = Ca::new();
        ca.server("hub");
        let dir = tempfile::tempdir().unwrap();
        run(dir.path(), &["keygen", "--out", "enrolment.pem"]);
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let (tool, people) = (Tool::start().await, People::new());
        let db = tokio::task::spawn_blocking(Pg::cluster).await.unwrap().database().await;
        let town = Town { dir, ca, db, tool, people, port, tls };
        for pool in ["local", "other", "stranger"] {
            town.token(pool, pool);
        }
        town
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn shown(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Writes the token file of this name.
    fn token(&self, name: &str, token: &str) {
        let file = self.path(&format!("{name}.token"));
        std::fs::write(&file, format!("{token:-<43}")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// A sidecar with this token that is certified by the hub.
    fn sidecar(&self, token: &str) -> Estate {
        let (db, scheme) = (&self.db, if self.tls { "https" } else { "http" });
        let estate = Estate::postgres(&self.tool, &db.writer_url, &db.admin_url, "local");
        estate.configure(|config| {
            config["enrolment"] = json!({"hub": format!("{scheme}://127.0.0.1:{}", self.port),
                "token_file": self.shown(&format!("{token}.token")),
                "public_key": self.shown("enrolment.pem.pub")});
            if self.tls {
                config["enrolment"]["ca_file"] = json!(self.ca.shown("ca.pem"));
            }
        });
        estate
    }

    async fn hub(&self, estate: &Estate, name: &str) -> Hub {
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
                let mut registry = json!({"listen": format!("127.0.0.1:{}", self.port), "days": 1,
                "tokens": [pool("local"), pool("other")]});
                if self.tls {
                    registry["tls"] =
                        json!({"cert": self.ca.shown("hub.pem"), "key": self.ca.shown("hub.key")});
                }
                config["hub"]["enrolment"] = registry;
            }),
        )
        .await
    }

    /// Writes a configuration for exports: it has the keys, and a login that reads.
    async fn exporter(&self, estate: &Estate) {
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
    async fn enrolled(&self) -> Vec<Value> {
        let reader = PostgresReader::connect(&self.db.reader_url).await.unwrap();
        let mut found = Vec::new();
        for chain in reader.chains().await.unwrap() {
            let rows =
                reader.entries_of(&chain.chain, &[Kind::WriterEnrolled.as_str()]).await.unwrap();
            found.extend(
                rows.iter().map(|row| Entry::parse(&row.body).unwrap().draft.data.to_serde()),
            );
        }
        found
    }

    async fn slots(&self) -> Vec<String> {
        let reader = PostgresReader::connect(&self.db.reader_url).await.unwrap();
        let chains = reader.chains().await.unwrap().into_iter().map(|chain| chain.slot);
        chains.filter(|slot| !slot.starts_with("hub/")).collect()
    }

    /// A slot of this pool, taken as a sidecar would.
    async fn lease(&self, pool: &str) -> Leased {
        let store = Postgres::connect(&self.db.writer_url, Options::default()).await.unwrap();
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
    async fn asks(&self, token: &str, (request, proof): &(String, String)) -> (u16, Value) {
        let token = std::fs::read_to_string(self.path(&format!("{token}.token"))).unwrap();
        let body = json!({"request": request, "proof": proof}).to_string();
        let head = format!(
            "POST /v1/enrol HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n\
             Authorization: Bearer {token}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        self.sends(&head).await
    }

    async fn sends(&self, bytes: &str) -> (u16, Value) {
        let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        stream.write_all(bytes.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head[9..12].parse().unwrap(), serde_json::from_str(body).unwrap_or(Value::Null))
    }
}

fn key() -> WriterKey {
    WriterKey::generate(&SystemEntropy, "origin", SystemClock::new().now())
}

/// What a sidecar that holds this slot asks for.
fn request(leased: &Leased, key: &WriterKey) -> Request {
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sidecars_are_enrolled_by_the_hub_without_an_enrolment_key_and_their_evidence_verifies_under_it()
 {
    let town = Town::new(true).await;
    let estates = [town.sidecar("local"), town.sidecar("local")];
    let hub = town.hub(&estates[0], "hub").await;
    let mut runs = Vec::new();
    let mut gates = Vec::new();
    for estate in &estates {
        let gate = estate.serve().await;
        let agent = gate.open().await;
        agent.call("work.do", "a", "{}").await.unwrap();
        agent.seal().await.unwrap();
        runs.push(agent.run.clone());
        gates.push(gate);
        assert!(!estate.path("state/enrolment.key").exists());
    }
    let enrolled = town.enrolled().await;
    let of = |name: &str| enrolled.iter().map(|data| data[name].clone()).collect::<Vec<_>>();
    assert_eq!(of("slot"), [json!("local/0"), json!("local/1")], "{enrolled:?}");
    assert_eq!(of("pool"), [json!("local"), json!("local")]);
    let tomorrow = SystemClock::new().now().plus(std::time::Duration::from_secs(24 * 3600));
    for until in of("not_after") {
        let until = wicketgate::domain::time::Timestamp::parse(until.as_str().unwrap()).unwrap();
        assert!(until <= tomorrow, "capped at a day: {until}");
    }
    // Without the hub what is up goes on.
    drop(hub);
    let agent = gates[0].open().await;
    agent.call("work.do", "b", "{}").await.unwrap();
    agent.seal().await.unwrap();
    runs.push(agent.run.clone());

    // The auditor pins the enrolment key, which only the hub has.
    let dir = estates[0].path(".");
    for name in ["evidence.pem", "fleet.pem"] {
        run(&dir, &["keygen", "--out", name]);
    }
    town.exporter(&estates[0]).await;
    let trusts = |file: &str, enrolment: &str| {
        let text = format!("evidence-key evidence.pem.pub\nenrolment-key {enrolment}\n");
        std::fs::write(estates[0].path(file), text).unwrap();
    };
    trusts("trust.txt", &town.shown("enrolment.pem.pub"));
    trusts("other.txt", "fleet.pem.pub");
    for (i, id) in runs.iter().enumerate() {
        let out = format!("proof{i}");
        let order = ["evidence", "export", "--config", "exporter.yaml", "--run", id, "--out", &out];
        let keys = ["--key", "evidence.pem", "--artifacts", "state/artifacts"];
        run(&dir, &[&order[..], &keys].concat());
        let verify = |trust: &str| {
            let done = Command::new(env!("CARGO_BIN_EXE_wicketgate"))
                .args(["evidence", "verify", "--json", "--trust", trust, &out])
                .current_dir(&dir)
                .output()
                .unwrap();
            let said: Value = serde_json::from_slice(&done.stdout).unwrap();
            let checks = said["checks"].as_array().unwrap();
            let enrolled = checks.iter().find(|check| check["id"] == "S1").unwrap();
            (done.status.code(), enrolled["outcome"].as_str().unwrap().to_owned(), said)
        };
        let (exit, enrolled, said) = verify("trust.txt");
        assert_eq!((exit, enrolled.as_str()), (Some(0), "VALID"), "{said}");
        let (exit, enrolled, said) = verify("other.txt");
        assert_eq!((exit, enrolled.as_str()), (Some(1), "INVALID"), "{said}");
    }
    std::fs::write(estates[0].path("reader.url"), &town.db.reader_url).unwrap();
    run(&dir, &["ledger", "verify", "--postgres-url-file", "reader.url", "--trust", "trust.txt"]);
    for gate in &mut gates {
        gate.stop().await;
    }
    for estate in &estates {
        check_running(&estate.books, &town.tool, &estate.receipts);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sidecar_that_starts_before_its_hub_says_so_takes_no_slot_and_serves_once_the_hub_is_there()
 {
    let town = Town::new(true).await;
    let estate = town.sidecar("local");
    let mut gate = estate.start();
    gate.not_ready("enrolment: hub unreachable").await;
    assert_eq!(town.slots().await, Vec::<String>::new());
    let hub = town.hub(&estate, "hub").await;
    gate.ready().await;
    gate.open().await.call("work.do", "a", "{}").await.unwrap();
    // Each epoch is certified anew; the same hub, another hub, it makes no difference.
    gate.stop().await;
    drop(hub);
    let mut gate = estate.start();
    gate.not_ready("enrolment: hub unreachable").await;
    let _hub = town.hub(&estate, "again").await;
    gate.ready().await;
    let epochs: Vec<Value> =
        town.enrolled().await.iter().map(|data| data["epoch"].clone()).collect();
    assert_eq!(epochs, [json!(1), json!(2)]);
    gate.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sidecar_with_a_token_that_is_not_its_pools_or_was_taken_back_is_not_enrolled() {
    let town = Town::new(true).await;
    let estate = town.sidecar("local");
    let _hub = town.hub(&estate, "hub").await;
    for (token, reason) in [("other", "enrolment.pool"), ("stranger", "identity.missing")] {
        let other = town.sidecar(token);
        other.start().not_ready(reason).await;
    }
    // The hub reads the file for each request: what was taken back counts no more, and a new one does.
    let own = town.path("own.token");
    std::fs::copy(town.path("local.token"), &own).unwrap();
    estate.configure(|config| config["enrolment"]["token_file"] = json!(own.display().to_string()));
    town.token("local", "another");
    let mut gate = estate.start();
    gate.not_ready("identity.missing").await;
    assert_eq!(town.enrolled().await, Vec::<Value>::new());
    std::fs::copy(town.path("local.token"), &own).unwrap();
    gate.ready().await;
    assert_eq!(town.enrolled().await.len(), 1);
    gate.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_is_answered_once_for_its_own_slot_epoch_and_key_and_is_the_same_when_it_comes_again()
 {
    let town = Town::new(false).await;
    let estate = town.sidecar("local");
    let hub = town.hub(&estate, "hub").await;
    let (leased, mine, other) = (town.lease("local").await, key(), key());
    let asked = request(&leased, &mine);
    let signed = asked.prove(&mine).unwrap();
    let refused = |(status, body): (u16, Value)| {
        (status, body["cause"].as_str().unwrap_or_default().to_owned())
    };
    let forged = (signed.0.clone(), asked.prove(&other).unwrap().1);
    assert_eq!(refused(town.asks("local", &forged).await), (400, "enrolment.proof".into()));
    let own = |change: &dyn Fn(&mut Request)| {
        let mut asked = request(&leased, &mine);
        change(&mut asked);
        asked.prove(&mine).unwrap()
    };
    let theirs = own(&|asked| asked.certificate.slot = "other/0".into());
    assert_eq!(refused(town.asks("local", &theirs).await), (403, "enrolment.pool".into()));
    assert_eq!(refused(town.asks("other", &signed).await), (403, "enrolment.pool".into()));
    let hubs = own(&|asked| asked.certificate.slot = "hub/0".into());
    assert_eq!(refused(town.asks("local", &hubs).await), (403, "enrolment.pool".into()));
    let tenant = own(&|asked| asked.tenant = "other".into());
    assert_eq!(refused(town.asks("local", &tenant).await), (403, "enrolment.pool".into()));
    let next = own(&|asked| asked.certificate.epoch += 1);
    assert_eq!(refused(town.asks("local", &next).await), (403, "enrolment.epoch".into()));
    let none = own(&|asked| asked.certificate.slot = "local/7".into());
    assert_eq!(refused(town.asks("local", &none).await), (403, "enrolment.epoch".into()));
    let other_log = own(&|asked| asked.log = asked.log.replace("/0/0", "/0/1"));
    assert_eq!(refused(town.asks("local", &other_log).await), (403, "enrolment.epoch".into()));
    let past = own(&|asked| {
        asked.certificate.not_after = wicketgate::domain::time::Timestamp::from_millis(0);
    });
    assert_eq!(refused(town.asks("local", &past).await), (400, "enrolment.request".into()));
    assert_eq!(town.asks("stranger", &signed).await.0, 401);
    assert_eq!(town.enrolled().await, Vec::<Value>::new(), "nothing of this was certified");

    let (status, first) = town.asks("local", &signed).await;
    assert_eq!(status, 200, "{first}");
    let public = PublicKey::load_all(&town.path("enrolment.pem.pub")).unwrap()[0];
    let json = Json::parse(first["certificate"].to_string().as_bytes(), &Limits::ENTRY).unwrap();
    let certificate = Certificate::open(&json, &public).unwrap();
    assert_eq!((certificate.slot.as_str(), certificate.key), (leased.slot.as_str(), mine.public()));
    assert_eq!(town.asks("local", &signed).await, (200, first.clone()), "replayed");
    let taken = request(&leased, &other).prove(&other).unwrap();
    assert_eq!(refused(town.asks("local", &taken).await), (403, "enrolment.taken".into()));
    assert_eq!(town.enrolled().await.len(), 1, "one certificate, one entry");
    // Another hub knows it from the books.
    drop(hub);
    let _hub = town.hub(&estate, "again").await;
    assert_eq!(town.asks("local", &signed).await, (200, first));
    assert_eq!(refused(town.asks("local", &taken).await), (403, "enrolment.taken".into()));
    assert_eq!(town.enrolled().await.len(), 1);
    // Operators are answered elsewhere.
    for path in ["/v1/control", "/v1/fleet", "/metrics"] {
        let ask = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        assert_eq!(town.sends(&ask).await.0, 404, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_wrong_with_enrolment_in_a_configuration_is_said_with_its_place() {
    let town = Town::new(false).await;
    let refused = |change: &dyn Fn(&mut Value), words: &[&str]| {
        let estate = town.sidecar("local");
        estate.configure(change);
        let done = Command::new(env!("CARGO_BIN_EXE_wicketgate"))
            .args(["config", "check", "wicketgate.yaml"])
            .current_dir(estate.path("."))
            .output()
            .unwrap();
        let said = String::from_utf8([done.stdout, done.stderr].concat()).unwrap();
        assert_eq!(done.status.success(), words.is_empty(), "{said}");
        assert!(words.iter().all(|word| said.contains(word)), "{words:?}: {said}");
    };
    refused(&|_| (), &[]);
    refused(
        &|config| config["fleet"] = json!({"enrolment_key": town.shown("enrolment.pem")}),
        &["enrolment:", "`fleet.enrolment_key`"],
    );
    refused(&|config| config["ledger"] = json!({"sqlite": {}}), &["enrolment:", "Postgres"]);
    refused(
        &|config| config["enrolment"]["hub"] = json!("http://hub.example:7303"),
        &["enrolment.hub", "in the clear"],
    );
    refused(
        &|config| config["enrolment"]["public_key"] = json!(town.shown("none.pub")),
        &["enrolment.public_key", "none.pub"],
    );
    let tokens = town.dir.path().display().to_string();
    let reads = json!({"name": "fs.read", "description": "reads", "kind": "file.read", "tier": "T0",
    "read_only": true, "file": {"root": tokens, "name": "tokens"},
    });
    refused(&|config| config["tools"] = json!([reads]), &["which no tool may read"]);
    let registry = |change: &dyn Fn(&mut Value)| {
        let token = |pool: &str, file: &str| json!({"pool": pool, "token_file": town.shown(file)});
        let mut registry =
            json!({"listen": "127.0.0.1:0", "tokens": [token("local", "local.token")]});
        change(&mut registry);
        registry
    };
    let hub = |change: &dyn Fn(&mut Value), words: &[&str]| {
        refused(&|config| config["hub"] = json!({"enrolment": registry(change)}), words);
    };
    hub(&|_| (), &[]);
    hub(
        &|registry| registry["listen"] = json!("0.0.0.0:7303"),
        &["hub.enrolment.listen", "`hub.enrolment.tls`"],
    );
    hub(&|registry| registry["days"] = json!(91), &["hub.enrolment.days", "from 1 to 90"]);
    hub(
        &|registry| registry["tokens"][0]["pool"] = json!("hub"),
        &["hub.enrolment.tokens[0].pool", "themselves"],
    );
    hub(
        &|registry| {
            let mut second = registry["tokens"][0].clone();
            second["pool"] = json!("other");
            registry["tokens"].as_array_mut().unwrap().push(second);
        },
        &["hub.enrolment.tokens[1].token_file", "another pool's"],
    );
}
