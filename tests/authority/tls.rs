//! Operators over TLS: who is known by a certificate, and everybody else.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use wicketgate::ledger::postgres::PostgresReader;
use wicketgate::ledger::store::LedgerReader as _;
use wicketgate::record::{Entry, Kind};

use crate::ca::Ca;
use crate::people::People;
use crate::sidecar::Estate;
use crate::tool::Tool;
use wicketgate_support::hub::Hub;
use wicketgate_support::pg::{Pg, TestDb};
use wicketgate_support::ran::Ran;

const KILL: [&str; 6] = ["control", "kill", "agent", "nobody", "--reason", "loops"];

/// An authority, what it certified, and the thumbprints of those who are operators.
struct House {
    ca: Ca,
    operators: Value,
}

impl House {
    /// Otto operates and Vera looks, both by certificate; Ada approves, by token.
    fn new(people: &People) -> House {
        let ca = Ca::new();
        ca.server("hub");
        let member = |name: &str, role: &str| json!({"subject": name, "roles": [role], "certificate": ca.client(name)});
        let token = people.path("ada.token").display().to_string();
        let operators = json!([
            member("otto", "operator"),
            member("vera", "viewer"),
            {"subject": "ada", "roles": ["approver", "operator"], "token_file": token},
            {"subject": "late", "roles": ["operator"], "certificate": ca.ended("late")},
        ]);
        House { ca, operators }
    }

    fn configure(&self, config: &mut Value) {
        config["operator"]["tls"] = json!({"cert": self.ca.shown("hub.pem"),
            "key": self.ca.shown("hub.key"), "client_ca": self.ca.shown("ca.pem")});
        config["operators"] = self.operators.clone();
    }

    /// A command with this certificate, whoever certified it.
    fn types(&self, of: &Ca, who: &str, url: &str, args: &[&str]) -> (Option<i32>, String) {
        let (cert, key) = (of.shown(&format!("{who}.pem")), of.shown(&format!("{who}.key")));
        self.typed(url, &[args, &["--cert", &cert, "--cert-key", &key]].concat())
    }

    fn typed(&self, url: &str, args: &[&str]) -> (Option<i32>, String) {
        let ca = self.ca.shown("ca.pem");
        let ran = Ran::gate(".", [args, &["--url", url, "--ca", &ca]].concat());
        (Some(ran.code), ran.text())
    }

    /// What a client over this authority's TLS reads when it sends these bytes; `openssl` is that client.
    fn sends(&self, url: &str, args: &[&str], bytes: &str) -> String {
        let place = url.rsplit_once("//").unwrap().1;
        let mut child = Command::new("openssl")
            .args(["s_client", "-connect", place, "-CAfile", &self.ca.shown("ca.pem"), "-ign_eof"])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // One that was refused reads nothing any more.
        drop(child.stdin.take().unwrap().write_all(bytes.as_bytes()));
        let done = child.wait_with_output().unwrap();
        String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned()
    }

    /// A request by the Python client over gRPC.
    fn python(&self, who: &str, url: &str, (method, body): (&str, &Value)) -> Value {
        let program =
            std::env::var("WICKETGATE_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
        let top = Path::new(env!("CARGO_MANIFEST_DIR"));
        let place = url.rsplit_once("//").unwrap().1;
        let done = Command::new(program)
            .arg("-B")
            .arg(top.join("tests/interop/operator_client.py"))
            .args([place, "Control", method, &body.to_string(), "--ca", &self.ca.shown("ca.pem")])
            .args(["--cert", &self.ca.shown(&format!("{who}.pem"))])
            .args(["--cert-key", &self.ca.shown(&format!("{who}.key"))])
            .output()
            .unwrap();
        let err = String::from_utf8_lossy(&done.stderr);
        assert!(matches!(done.status.code(), Some(0 | 3)), "{err}");
        serde_json::from_slice(&done.stdout).unwrap()
    }
}

async fn cluster() -> TestDb {
    tokio::task::spawn_blocking(Pg::cluster).await.unwrap().database().await
}

async fn hub(estate: &Estate, db: &TestDb, house: &House, name: &str) -> Hub {
    let urls = (db.operator_url.as_str(), db.reader_url.as_str());
    Hub::start_with(estate, urls, (name, |config: &mut Value| house.configure(config)), |_| ())
        .await
}

/// Every order on the books of hubs.
async fn orders(db: &TestDb) -> Vec<Value> {
    let reader = PostgresReader::connect(&db.reader_url).await.unwrap();
    let mut found = Vec::new();
    for chain in reader.chains().await.unwrap() {
        let rows = reader.entries_of(&chain.chain, &[Kind::ControlSet.as_str()]).await.unwrap();
        let entries = rows.iter().map(|row| Entry::parse(&row.body).unwrap());
        let data = entries.map(|entry| serde_json::to_value(&entry.draft.body).unwrap());
        found.extend(data);
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_lets_its_operator_in_over_http_grpc_and_the_command_line_with_that_ones_rights()
 {
    let (people, tool, db) = (People::new(), Tool::start().await, cluster().await);
    let house = House::new(&people);
    let estate = Estate::postgres(&tool, &db.writer_url, &db.admin_url, "local");
    let hub = hub(&estate, &db, &house, "hub").await;
    let url = hub.url();
    assert!(url.starts_with("https://"), "{url}");
    let (exit, said) = house.types(&house.ca, "otto", &url, &KILL);
    assert!(exit == Some(1) && said.contains("recorded as entry"), "{said}");
    let (exit, said) = house.types(&house.ca, "vera", &url, &["control", "list"]);
    assert!(exit == Some(0) && said.contains("otto  kill agent nobody"), "{said}");
    let (exit, said) = house.types(&house.ca, "vera", &url, &KILL);
    assert!(exit == Some(1) && said.contains("operator.forbidden"), "{said}");
    let (exit, said) = house.types(
        &house.ca,
        "vera",
        &url,
        &["approval", "refuse", "0f0f0f0f-0f0f-4f0f-8f0f-0f0f0f0f0f0f", "c", "--yes"],
    );
    assert!(exit != Some(0) && said.contains("operator.forbidden"), "{said}");
    // A token is as good as before, and is not sent in the clear any more.
    let token = people.path("ada.token").display().to_string();
    let (exit, said) = house.typed(&url, &[&KILL[..], &["--token-file", &token]].concat());
    assert!(exit == Some(1) && said.contains("recorded as entry"), "{said}");

    let order = json!({"action": "kill", "target": "agent", "name": "nobody", "reason": "loops"});
    let sent = house.python("otto", &url, ("Set", &order));
    assert_eq!(sent["ok"]["seq"], "3", "{sent}");
    let refused = house.python("vera", &url, ("Set", &order));
    assert_eq!(refused["error"]["reason"], "operator.forbidden", "{refused}");
    let listed = house.python("vera", &url, ("List", &json!({})));
    assert_eq!(listed["ok"]["orders"].as_array().map(Vec::len), Some(3), "{listed}");

    let by =
        |order: &Value| ["subject", "auth"].map(|name| order[name].as_str().unwrap().to_owned());
    let thumbprint = house.operators[0]["certificate"].as_str().unwrap();
    let otto = ["otto".to_owned(), format!("certificate {thumbprint}")];
    let ada = ["ada".to_owned(), "token".to_owned()];
    assert_eq!(orders(&db).await.iter().map(by).collect::<Vec<_>>(), [otto.clone(), ada, otto]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_without_a_known_certificate_cannot_give_orders() {
    let (people, tool, db) = (People::new(), Tool::start().await, cluster().await);
    let house = House::new(&people);
    let estate = Estate::postgres(&tool, &db.writer_url, &db.admin_url, "local");
    let hub = hub(&estate, &db, &house, "hub").await;
    let url = hub.url();
    let stranger = Ca::new();
    stranger.client("otto");
    house.ca.client("unknown");
    // A handshake that fails is no answer at all; what is answered is refused.
    for (of, who, expected) in [
        (&stranger, "otto", 2),
        (&house.ca, "late", 2),
        (&house.ca, "hub", 2),
        (&house.ca, "unknown", 1),
    ] {
        let (exit, said) = house.types(of, who, &url, &KILL);
        assert_eq!(exit, Some(expected), "{who}: {said}");
        assert_eq!(said.contains("identity.missing"), expected == 1, "{who}: {said}");
    }
    let body = r#"{"action":"kill","target":"all","reason":"x"}"#;
    let post = |headers: &str| {
        format!(
            "POST /v1/control HTTP/1.1\r\nHost: hub.example\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{headers}\r\n{body}",
            body.len()
        )
    };
    let token = std::fs::read_to_string(people.path("ada.token")).unwrap();
    let bearer = format!("Authorization: Bearer {token}\r\n");
    let certificate = ["-cert", &house.ca.shown("otto.pem"), "-key", &house.ca.shown("otto.key")]
        .map(str::to_owned);
    let certificate = certificate.each_ref().map(String::as_str);
    let said = house.sends(&url, &[], &post(""));
    assert!(said.contains("HTTP/1.1 401"), "nothing is shown: {said}");
    let said = house.sends(&url, &certificate, &post(&bearer));
    assert!(said.contains("HTTP/1.1 401"), "two at once are nobody: {said}");
    let said = house.sends(&url, &["-tls1_1", "-cipher", "DEFAULT:@SECLEVEL=0"], &post(&bearer));
    assert!(!said.contains("HTTP/1.1"), "TLS 1.1: {said}");
    let plain = url.replace("https", "http");
    let (exit, said) = house.typed(
        &plain,
        &[&KILL[..], &["--token-file", &people.path("ada.token").display().to_string()]].concat(),
    );
    assert_eq!(exit, Some(2), "in the clear: {said}");
    assert_eq!(orders(&db).await, Vec::<Value>::new());
    // The same bytes by somebody who is known: what was refused was refused for who asked.
    let said = house.sends(&url, &certificate, &post(""));
    assert!(said.contains("HTTP/1.1 202"), "{said}");
    assert_eq!(orders(&db).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_console_of_a_hub_lets_an_operator_in_by_certificate_and_only_beside_it() {
    let (people, tool, db) = (People::new(), Tool::start().await, cluster().await);
    let house = House::new(&people);
    let estate = Estate::postgres(&tool, &db.writer_url, &db.admin_url, "local");
    let hub = hub(&estate, &db, &house, "hub").await;
    let url = hub.url();
    let host = url.rsplit_once("//").unwrap().1;
    let ask = |who: &str, line: &str, headers: &str, body: &str| {
        let length = body.len();
        let request = format!(
            "{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
        );
        let (cert, key) =
            (house.ca.shown(&format!("{who}.pem")), house.ca.shown(&format!("{who}.key")));
        let certificate = ["-cert", &cert, "-key", &key];
        house.sends(&url, if who.is_empty() { &[] } else { &certificate }, &request)
    };
    let form = format!("Origin: {url}\r\nContent-Type: application/x-www-form-urlencoded\r\n");
    let page = ask("otto", "GET /console/login", "", "");
    assert!(
        page.contains("Log in with the certificate") && !page.contains("Operator token"),
        "{page}"
    );
    assert!(page.contains("strict-transport-security: max-age=31536000"), "{page}");
    let said = ask("otto", "POST /console/login", &form, "");
    assert!(said.contains("HTTP/1.1 303"), "{said}");
    let cookie = said.split("set-cookie: ").nth(1).unwrap().split("\r\n").next().unwrap();
    let (pair, rest) = cookie.split_once("; ").unwrap();
    assert!(pair.starts_with("__Host-wicketgate="), "{cookie}");
    assert_eq!(rest, "Path=/; HttpOnly; SameSite=Strict; Secure");
    let cookie = format!("Cookie: {pair}\r\n");
    let page = ask("otto", "GET /console", &cookie, "");
    assert!(page.contains("HTTP/1.1 200") && page.contains(">otto</a>"), "{page}");
    for other in ["", "vera"] {
        let page = ask(other, "GET /console", &cookie, "");
        assert!(page.contains("location: /console/login"), "`{other}`: {page}");
    }
    // Whoever shows a certificate and a token is nobody, as everywhere; by the token alone, Ada is in.
    let token = std::fs::read_to_string(people.path("ada.token")).unwrap();
    let token = format!("token={}", token.trim());
    assert!(ask("otto", "POST /console/login", &form, &token).contains("HTTP/1.1 401"));
    assert!(ask("", "POST /console/login", &form, &token).contains("HTTP/1.1 303"));
    let plain = form.replace("https:", "http:");
    assert!(ask("", "POST /console/login", &plain, &token).contains("HTTP/1.1 403"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_replicas_of_a_hub_share_the_sessions_of_their_console() {
    let (people, tool, db) = (People::new(), Tool::start().await, cluster().await);
    let house = House::new(&people);
    let estate = Estate::postgres(&tool, &db.writer_url, &db.admin_url, "local");
    let ask = |url: &str, line: &str, headers: &str, body: &str| {
        let (length, host) = (body.len(), url.rsplit_once("//").unwrap().1);
        let request = format!(
            "{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
        );
        house.sends(url, &[], &request)
    };
    let form =
        |url: &str| format!("Origin: {url}\r\nContent-Type: application/x-www-form-urlencoded\r\n");
    let one = hub(&estate, &db, &house, "one").await;
    let token = std::fs::read_to_string(people.path("ada.token")).unwrap();
    let token = format!("token={}", token.trim());
    let said = ask(&one.url(), "POST /console/login", &form(&one.url()), &token);
    let cookie = said.split("set-cookie: ").nth(1).unwrap().split(';').next().unwrap().to_owned();
    let cookie = format!("Cookie: {cookie}\r\n");
    drop(one);
    // The first one is gone; another two know its session.
    let (two, three) =
        (hub(&estate, &db, &house, "two").await, hub(&estate, &db, &house, "three").await);
    for replica in [&two, &three] {
        let page = ask(&replica.url(), "GET /console", &cookie, "");
        assert!(page.contains("HTTP/1.1 200") && page.contains(">ada</a>"), "{page}");
    }
    let page = ask(&two.url(), "GET /console/logout", &cookie, "");
    let field = page.split(r#"name="form" value=""#).nth(1).unwrap().split('"').next().unwrap();
    let headers = format!("{cookie}{}", form(&three.url()));
    let out = ask(&three.url(), "POST /console/logout", &headers, &format!("form={field}"));
    assert!(out.contains("HTTP/1.1 303"), "{out}");
    let page = ask(&two.url(), "GET /console", &cookie, "");
    assert!(page.contains("location: /console/login"), "{page}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_that_was_taken_out_of_the_configuration_opens_nothing_any_more() {
    let (people, tool, db) = (People::new(), Tool::start().await, cluster().await);
    let mut house = House::new(&people);
    let estate = Estate::postgres(&tool, &db.writer_url, &db.admin_url, "local");
    let before = hub(&estate, &db, &house, "before").await;
    assert_eq!(house.types(&house.ca, "vera", &before.url(), &["control", "list"]).0, Some(0));
    drop(before);
    house.operators.as_array_mut().unwrap().retain(|member| member["subject"] != "vera");
    let after = hub(&estate, &db, &house, "after").await;
    let (exit, said) = house.types(&house.ca, "vera", &after.url(), &["control", "list"]);
    assert!(exit == Some(1) && said.contains("identity.missing"), "{said}");
    assert_eq!(house.types(&house.ca, "otto", &after.url(), &["control", "list"]).0, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sidecars_own_listener_speaks_both_http_versions_over_tls_and_answers_probes_without_a_certificate()
 {
    let (people, tool) = (People::new(), Tool::start().await);
    let house = House::new(&people);
    let estate = Estate::sqlite(&tool);
    estate.configure(|config| house.configure(config));
    let mut sidecar = estate.start();
    crate::until("the gate to be ready", || async {
        sidecar.said().lines().any(|line| line.contains("readiness") && line.contains("ready=true"))
    })
    .await;
    let url = sidecar.operator_url().replace("http:", "https:");
    let get = |path: &str, host: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        house.sends(&url, &["-alpn", "http/1.1"], &request)
    };
    for path in ["/livez", "/readyz", "/metrics"] {
        let said = get(path, "hub.example");
        assert!(
            said.contains("HTTP/1.1 200") && said.contains("ALPN protocol: http/1.1"),
            "{said}"
        );
    }
    assert!(get("/readyz", "evil.example").contains("HTTP/1.1 403"));
    assert!(house.sends(&url, &["-alpn", "h2"], "").contains("ALPN protocol: h2"));
    let agent = sidecar.open().await;
    let kill = ["control", "kill", "agent", "test-agent", "--reason", "loops"];
    let (exit, said) = house.types(&house.ca, "otto", &url, &kill);
    assert!(exit == Some(0) && said.contains("1 run ended"), "{said}");
    assert_eq!(agent.call("work.do", "a", "{}").await.unwrap_err().code, "run.sealed");
    sidecar.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listener_beyond_loopback_needs_tls_and_config_errors_name_the_key() {
    let (people, tool) = (People::new(), Tool::start().await);
    let house = House::new(&people);
    house.ca.client("other");
    let estate = Estate::sqlite(&tool);
    let checked = |change: &dyn Fn(&mut Value)| {
        estate.configure(|config| {
            config["operator"] = json!({"listen": "0.0.0.0:0"});
            house.configure(config);
            change(config);
        });
        let ran = estate.try_run(&["config", "check", "wicketgate.yaml"]);
        (ran.code == 0, ran.text())
    };
    let refused = |change: &dyn Fn(&mut Value), words: &[&str]| {
        let (good, said) = checked(change);
        assert!(!good && words.iter().all(|word| said.contains(word)), "{words:?}: {said}");
    };
    let (good, said) = checked(&|_| ());
    assert!(good, "{said}");
    refused(
        &|config| {
            config["operator"] = json!({"listen": "0.0.0.0:0"});
            config["operators"] = json!([]);
        },
        &["operator.listen", "not a loopback address", "`operator.tls`"],
    );
    refused(
        &|config| drop(config["operator"]["tls"].as_object_mut().unwrap().remove("client_ca")),
        &["operators[0].certificate", "`operator.tls.client_ca`"],
    );
    let with = |name: &str, file: &str| {
        let (name, file) = (name.to_owned(), house.ca.shown(file));
        move |config: &mut Value| config["operator"]["tls"][&name] = json!(file)
    };
    refused(&with("key", "other.key"), &["operator.tls.key", "not the key of the certificate"]);
    refused(&with("cert", "none.pem"), &["operator.tls.cert", "No such file"]);
    refused(&with("cert", "hub.key"), &["operator.tls.cert", "no certificate in it"]);
    refused(&with("client_ca", "ca.cnf"), &["operator.tls.client_ca", "no certificate in it"]);
    let open = house.ca.path("open.key");
    std::fs::copy(house.ca.path("hub.key"), &open).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o640);
    std::fs::set_permissions(&open, mode).unwrap();
    refused(&with("key", "open.key"), &["operator.tls.key", "mode 640", "chmod 600"]);
    refused(
        &|config| {
            config["operators"][0]["token_file"] =
                json!(people.path("otto.token").display().to_string());
        },
        &["operators[0]", "exactly one of `token_file`, `certificate` and `oidc`"],
    );
    refused(
        &|config| {
            config["operators"][1]["certificate"] = config["operators"][0]["certificate"].clone();
        },
        &["operators[1].certificate", "another operator has"],
    );
    refused(
        &|config| config["operators"][1]["certificate"] = json!("CN=vera"),
        &["operators[1].certificate", "64 hex digits"],
    );
}
