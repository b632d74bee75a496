//! The files of `examples/hub`, started as they stand there.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::ca::Ca;
use crate::sidecar::{Estate, run};
use crate::tool::Tool;
use wicketgate_support::pg::Pg;
use wicketgate_support::ports::Port;

struct Process(Child, PathBuf);

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Process {
    /// Starts the program in this directory and waits until it is ready.
    async fn start(dir: &Path, args: &[&str], env: &[(&str, String)]) -> Process {
        let log = dir.join(format!("{}.err", args[0]));
        let child = Command::new(env!("CARGO_BIN_EXE_wicketgate"))
            .args(args)
            .envs(env.iter().map(|(name, value)| (*name, value.as_str())))
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let mut process = Process(child, log);
        crate::waiting::serving(&mut process.0, &process.1).await;
        process
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.1).unwrap()
    }
}

fn private(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_of_a_hub_and_its_sidecar_starts_and_answers_its_operator() {
    let db = tokio::task::spawn_blocking(Pg::cluster).await.unwrap().database().await;
    let tool = Tool::start().await;
    // An agent, its manifest and a policy, signed.
    let estate = Estate::postgres(&tool, &db.writer_url, &db.admin_url, "local");
    let dir = estate.path(".");
    let here = |name: &str| estate.path(name);
    for folder in ["tls", "keys", "tokens", "urls"] {
        std::fs::create_dir(here(folder)).unwrap();
    }
    let ca = Ca::new();
    ca.server("hub");
    let thumbprint = ca.client("ops");
    for (from, to) in [
        ("hub.pem", "tls/hub.pem"),
        ("hub.key", "tls/hub.key"),
        ("ca.pem", "tls/operators-ca.pem"),
        ("ca.pem", "tls/hub-ca.pem"),
    ] {
        std::fs::copy(ca.path(from), here(to)).unwrap();
    }
    for (name, url) in
        [("operator", &db.operator_url), ("reader", &db.reader_url), ("writer", &db.writer_url)]
    {
        private(&here(&format!("urls/{name}.url")), url);
    }
    for name in ["anna", "local"] {
        private(&here(&format!("tokens/{name}.token")), &format!("{name:-<43}"));
    }
    run(&dir, &["keygen", "--out", "keys/enrolment.pem"]);
    for name in ["manifest", "policy"] {
        let key = crate::sidecar::key(&format!("{name}.pub"));
        std::fs::copy(key, here(&format!("keys/{name}.pem.pub"))).unwrap();
    }
    std::fs::rename(here("bundle"), here("policy")).unwrap();
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/hub");
    let example = |name: &str| std::fs::read_to_string(examples.join(name)).unwrap();
    let nobody = format!("sha256:{}", "0".repeat(64));
    let hub = example("hub.yaml");
    assert!(hub.contains(&nobody));
    std::fs::write(here("hub.yaml"), hub.replace(&nobody, &thumbprint)).unwrap();
    std::fs::write(here("sidecar.yaml"), example("sidecar.yaml")).unwrap();

    let ports = (Port::claim(), Port::claim());
    let (door, enrols) = (ports.0.number(), ports.1.number());
    let at = |port: u16| format!("127.0.0.1:{port}");
    let env = [
        ("WICKETGATE__OPERATOR__LISTEN", at(door)),
        ("WICKETGATE__HUB__ENROLMENT__LISTEN", at(enrols)),
    ];
    let hub = Process::start(&dir, &["hub", "--config", "hub.yaml"], &env).await;
    assert!(hub.said().contains("sidecars are enrolled here"), "{}", hub.said());
    let env = [
        ("WICKETGATE__OPERATOR__LISTEN", "127.0.0.1:0".to_owned()),
        ("WICKETGATE__ENROLMENT__HUB", format!("https://localhost:{enrols}")),
    ];
    let _sidecar = Process::start(&dir, &["serve", "--config", "sidecar.yaml"], &env).await;
    assert!(hub.said().contains("a writer was enrolled"), "{}", hub.said());
    let (cert, key) = (ca.shown("ops.pem"), ca.shown("ops.key"));
    let url = format!("https://localhost:{door}");
    let ask = ["control", "fleet", "--url", &url, "--ca", "tls/hub-ca.pem"];
    let fleet = run(&dir, &[&ask[..], &["--cert", &cert, "--cert-key", &key]].concat());
    assert!(fleet.contains("local/0"), "{fleet}");
}
