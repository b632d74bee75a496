//! Files that are swapped under a running gate as Kubernetes does it: a directory of its own for each state, and
//! one link `..data` that is renamed into place.

use std::io::{Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::agent::Agent;
use crate::ca::Ca;
use crate::checker::{check, kinds};
use crate::clients::{REVIEWER, initialize, listen, openssl_client, place, shows};
use crate::sidecar::{Estate, Sidecar};
use crate::tool::Tool;

/// A mounted volume: names that lead through `..data` to the state in force.
struct Volume {
    at: PathBuf,
    states: std::cell::Cell<u32>,
}

impl Volume {
    fn new(at: PathBuf, names: &[&str]) -> Volume {
        std::fs::create_dir(&at).unwrap();
        for name in names {
            symlink(Path::new("..data").join(name), at.join(name)).unwrap();
        }
        Volume { at, states: std::cell::Cell::new(0) }
    }

    fn shown(&self, name: &str) -> String {
        self.at.join(name).display().to_string()
    }

    /// Puts these files in force, all at once; the state before is gone.
    fn swap(&self, files: &[(&str, &Path)]) {
        let number = self.states.get() + 1;
        self.states.set(number);
        let (name, aside) = (format!("..{number}"), self.at.join("..data_tmp"));
        std::fs::create_dir(self.at.join(&name)).unwrap();
        for (file, from) in files {
            let to = self.at.join(&name).join(file);
            std::fs::copy(from, &to).unwrap();
            std::fs::set_permissions(&to, std::fs::Permissions::from_mode(0o600)).unwrap();
        }
        symlink(&name, &aside).unwrap();
        std::fs::rename(&aside, self.at.join("..data")).unwrap();
        let _ = std::fs::remove_dir_all(self.at.join(format!("..{}", number - 1)));
    }
}

/// The files of a listener's TLS as a volume.
fn certificates(estate: &Estate, ca: &Ca, server: &str) -> Volume {
    let volume = Volume::new(estate.path("certs"), &["tls.crt", "tls.key", "ca.crt"]);
    put(&volume, ca, server, "ca.pem");
    let files = ["tls.crt", "tls.key", "ca.crt"].map(|name| volume.shown(name));
    listen(estate, files, &json!([{"spiffe": REVIEWER}]));
    volume
}

fn put(volume: &Volume, ca: &Ca, server: &str, authority: &str) {
    let [cert, key, authority] =
        [format!("{server}.pem"), format!("{server}.key"), authority.to_owned()]
            .map(|name| ca.path(&name));
    volume.swap(&[("tls.crt", &cert), ("tls.key", &key), ("ca.crt", &authority)]);
}

/// What a client of MCP with this certificate is shown and told.
fn asked(at: &str, of: &Ca, who: &str) -> String {
    let shown = shows(of, who);
    openssl_client(at, &shown.each_ref().map(String::as_str), &initialize(""))
}

/// Waits until readiness says this, ready or not.
async fn tells(sidecar: &Sidecar, ready: bool, words: &str) {
    crate::until(std::fmt::from_fn(|f| write!(f, "`{words}` in {}", sidecar.said())), || async {
        sidecar.readiness().await.is_some_and(|(is, text)| is == ready && text.contains(words))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_that_is_swapped_is_shown_from_then_on_and_open_connections_go_on() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    let ca = Ca::new();
    ca.svid("reviewer", &format!("URI:{REVIEWER}"));
    ca.server("monday");
    ca.server("tuesday");
    ca.ended_server("gone");
    let volume = certificates(&estate, &ca, "monday");
    let mut sidecar = estate.serve().await;
    let at = place(&sidecar);
    assert!(asked(&at, &ca, "reviewer").contains("CN = monday"), "the first");
    // A connection that has shaken hands and says nothing yet.
    let mut open = Command::new("openssl")
        .args(["s_client", "-connect", &at, "-ign_eof", "-quiet"])
        .args(shows(&ca, "reviewer"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = open.stdin.take().unwrap();
    let request = initialize("").replace("Connection: close\r\n", "");
    stdin.write_all(request.as_bytes()).unwrap();
    let mut first = vec![0; 15];
    open.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    assert_eq!(String::from_utf8_lossy(&first), "HTTP/1.1 200 OK");

    put(&volume, &ca, "tuesday", "ca.pem");
    crate::until("the second certificate", || async {
        asked(&at, &ca, "reviewer").contains("CN = tuesday")
    })
    .await;
    stdin.write_all(initialize("").as_bytes()).unwrap();
    let mut rest = String::new();
    open.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
    open.wait().unwrap();
    assert!(rest.contains("HTTP/1.1 200 OK"), "the open connection: {rest}");

    // A pair that does not belong together is refused, and the one before stays.
    let [cert, key, authority] = ["monday.pem", "tuesday.key", "ca.pem"].map(|name| ca.path(name));
    volume.swap(&[("tls.crt", &cert), ("tls.key", &key), ("ca.crt", &authority)]);
    tells(&sidecar, true, "listen.tls.key").await;
    assert!(sidecar.said().contains("the new files were refused"), "{}", sidecar.said());
    assert!(asked(&at, &ca, "reviewer").contains("CN = tuesday"), "still the second");
    let counted = sidecar.metrics().await;
    for line in [
        "certificates_read_total{passed=\"true\"} 1",
        "certificates_read_total{passed=\"false\"} 1",
    ] {
        assert!(counted.contains(line), "{line}: {counted}");
    }
    // One that has ended is taken over, and nobody is told that all is well.
    put(&volume, &ca, "gone", "ca.pem");
    tells(&sidecar, false, "listen.tls: the certificate expired at 2021-01-01").await;
    put(&volume, &ca, "monday", "ca.pem");
    sidecar.ready().await;
    assert!(asked(&at, &ca, "reviewer").contains("CN = monday"), "the first again");
    sidecar.stop().await;
    check(&estate.database, &tool, &estate.receipts);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_authorities_of_clients_are_swapped_and_those_of_the_old_ones_come_in_no_more() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    let (ca, next) = (Ca::new(), Ca::new());
    ca.server("gate");
    for of in [&ca, &next] {
        of.svid("reviewer", &format!("URI:{REVIEWER}"));
    }
    let volume = certificates(&estate, &ca, "gate");
    let mut sidecar = estate.serve().await;
    let at = place(&sidecar);
    assert!(asked(&at, &ca, "reviewer").contains("HTTP/1.1 200"), "before");
    assert!(!asked(&at, &next, "reviewer").contains("HTTP/1.1"), "a stranger before");
    let [cert, key] = ["gate.pem", "gate.key"].map(|name| ca.path(name));
    volume.swap(&[("tls.crt", &cert), ("tls.key", &key), ("ca.crt", &next.path("ca.pem"))]);
    crate::until("the next authority", || async {
        asked(&at, &next, "reviewer").contains("HTTP/1.1 200")
    })
    .await;
    assert!(!asked(&at, &ca, "reviewer").contains("HTTP/1.1"), "the old one after");
    sidecar.stop().await;
    check(&estate.database, &tool, &estate.receipts);
}

/// What the volume of a configuration holds.
const STATE: [&str; 4] = ["wicketgate.yaml", "bundle", "agent.yaml", "agent.yaml.sig.json"];

/// The configuration of an estate as a volume; its paths are those of the estate, wherever the file lies.
fn configuration(estate: &Estate) -> Volume {
    let volume = Volume::new(estate.path("config"), &STATE);
    estate.configure(|config| {
        let at = |name: &str| json!(estate.path(name).display().to_string());
        config["state"] = at("state");
        config["listen"]["socket"] = at("s/agent.sock");
        config["policy"]["bundle"] = json!(volume.shown("bundle"));
        config["agents"][0]["manifest"] = json!(volume.shown("agent.yaml"));
    });
    volume
}

/// Puts what the estate holds now in force, all at once.
fn whole(estate: &Estate, volume: &Volume, name: &str) {
    let to = volume.at.join(name);
    std::fs::create_dir(&to).unwrap();
    let mut copy = Command::new("cp");
    let copied = copy.arg("-r").args(STATE.map(|name| estate.path(name))).arg(&to).status();
    assert!(copied.unwrap().success());
    symlink(name, volume.at.join("..data_tmp")).unwrap();
    std::fs::rename(volume.at.join("..data_tmp"), volume.at.join("..data")).unwrap();
}

/// The state of this number: its tier is the tool's, the one granted, and the one rule's.
fn state(estate: &Estate, number: u32) {
    let tier = if number.is_multiple_of(2) { "T1" } else { "T2" };
    let version = format!("1.{number}.0");
    estate.configure(|config| {
        let tools = config["tools"].as_array_mut().unwrap();
        let work = tools.iter_mut().find(|tool| tool["name"] == "work.do").unwrap();
        work["tier"] = json!(tier);
    });
    let rules = format!(
        "package wicketgate.agent\nimport rego.v1\nallow if {{\n  input.tool.tier == \"{tier}\"\n  input.agent.version == \"{version}\"\n}}\n"
    );
    estate.bundle(&version, &rules, "policy");
    estate.manifest(&version, "manifest", |text| text.replace("\"T1\"", &format!("\"{tier}\"")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_is_judged_by_half_of_one_state_and_half_of_the_next() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    let volume = configuration(&estate);
    state(&estate, 0);
    whole(&estate, &volume, "..0");
    let mut sidecar = estate.start_with("config/wicketgate.yaml");
    sidecar.ready().await;
    let stop = CancellationToken::new();
    let (stopped, socket, receipts) = (stop.clone(), estate.socket(), estate.receipts.clone());
    // A run of its own for every call: it is bound to the manifest of the state it opens in.
    let calls = tokio::spawn(async move {
        let (mut allowed, mut denied) = (0, 0);
        while !stopped.is_cancelled() {
            let agent = Agent::open(&socket, &receipts).await;
            match agent.call("work.do", "a", r#"{"n":1}"#).await {
                Ok(_) => allowed += 1,
                // The run was opened in one state, the call came in the next one.
                Err(refused) if refused.code == "policy.denied" => denied += 1,
                Err(refused) => panic!("{refused:?}"),
            }
            agent.seal().await.unwrap();
        }
        (allowed, denied)
    });
    for number in 1..=8 {
        state(&estate, number);
        whole(&estate, &volume, &format!("..{number}"));
        std::fs::remove_dir_all(volume.at.join(format!("..{}", number - 1))).unwrap();
        sidecar.signal(Signal::HUP);
        let line = format!("config_read_total{{passed=\"true\"}} {number}");
        crate::until(&line, || async { sidecar.metrics().await.contains(&line) }).await;
        // Whoever begins now is judged by all of it.
        sidecar.open().await.call("work.do", "b", r#"{"n":1}"#).await.unwrap();
    }
    stop.cancel();
    let (allowed, denied) = crate::within("the calls", calls).await.unwrap();
    assert!(allowed > denied && denied <= 8, "{allowed} allowed, {denied} denied");
    assert!(!sidecar.said().contains("refused"), "{}", sidecar.said());
    sidecar.stop().await;
    let summary = check(&estate.database, &tool, &estate.receipts);
    for kind in ["policy.activated", "manifest.bound"] {
        assert_eq!(kinds(&summary, kind), 9, "{kind}: {summary}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_configuration_that_was_cut_off_anywhere_changes_nothing() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    let volume = configuration(&estate);
    state(&estate, 0);
    whole(&estate, &volume, "..0");
    let mut sidecar = estate.start_with("config/wicketgate.yaml");
    sidecar.ready().await;
    let agent = sidecar.open().await;
    let before = sidecar.metrics().await;
    assert!(!before.contains("config_read_total{passed=\"true\"}"), "{before}");
    state(&estate, 1);
    for (number, name) in STATE.iter().enumerate().filter(|(_, name)| **name != "bundle") {
        let kept = std::fs::read(estate.path(name)).unwrap();
        std::fs::write(estate.path(name), &kept[..kept.len() / 2]).unwrap();
        whole(&estate, &volume, &format!("..half{number}"));
        sidecar.signal(Signal::HUP);
        tells(&sidecar, true, name).await;
        agent.call("work.do", name, r#"{"n":1}"#).await.unwrap();
        std::fs::write(estate.path(name), kept).unwrap();
    }
    let rules = estate.path("bundle/agent/main.rego");
    let kept = std::fs::read(&rules).unwrap();
    std::fs::write(&rules, &kept[..kept.len() / 2]).unwrap();
    whole(&estate, &volume, "..bundle");
    tells(&sidecar, true, "policy.bundle").await;
    agent.call("work.do", "bundle", r#"{"n":1}"#).await.unwrap();
    std::fs::write(&rules, kept).unwrap();
    whole(&estate, &volume, "..1");
    crate::until("the whole of it", || async {
        sidecar.metrics().await.contains("config_read_total{passed=\"true\"} 1")
    })
    .await;
    let (ready, told) = sidecar.readiness().await.unwrap();
    assert!(ready && !told.contains("configuration:"), "{told}");
    // Its manifest is none that the rule of this state is for.
    let denied = agent.call("work.do", "after", r#"{"n":1}"#).await.unwrap_err();
    assert_eq!(denied.code, "policy.denied");
    sidecar.open().await.call("work.do", "a", r#"{"n":1}"#).await.unwrap();
    sidecar.stop().await;
    let summary = check(&estate.database, &tool, &estate.receipts);
    assert_eq!(kinds(&summary, "policy.activated"), 2, "{summary}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_configuration_and_a_bundle_that_are_swapped_are_in_force_without_a_restart() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    let volume = configuration(&estate);
    let swap = |name: &str| whole(&estate, &volume, name);
    swap("..1");
    let mut sidecar = estate.start_with("config/wicketgate.yaml");
    sidecar.ready().await;
    let agent = sidecar.open().await;
    agent.call("work.do", "a", r#"{"n":1}"#).await.unwrap();
    estate.configure(|config| {
        config["tools"].as_array_mut().unwrap().retain(|tool: &Value| tool["name"] != "work.fail");
    });
    estate.bundle(
        "2.0.0",
        "package wicketgate.agent\nimport rego.v1\nallow if input.tool.name == \"work.large\"\n",
        "policy",
    );
    swap("..2");
    crate::until("the tool to be gone", || async {
        !agent.tools().await.contains(&"work.fail".to_owned())
    })
    .await;
    // Tools and bundle are one state: where the one is in force, so is the other.
    let denied = agent.call("work.do", "c", r#"{"n":1}"#).await.unwrap_err();
    assert_eq!(denied.code, "policy.denied");
    sidecar.stop().await;
    check(&estate.database, &tool, &estate.receipts);
}
