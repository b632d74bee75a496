//! The files of `examples/hub`, started as they stand there.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::agent::Receipts;
use crate::ca::Ca;
use crate::sidecar::{Estate, Sidecar, run};
use crate::tool::Tool;
use wicketgate_support::pg::Pg;
use wicketgate_support::ports::Port;

/// Starts the program in the directory of this gate and waits until it is ready.
async fn start(estate: &Estate, args: &[&str], env: &[(&str, String)]) -> Sidecar {
    let mut command = estate.command(args);
    command.envs(env.iter().map(|(name, value)| (*name, value.as_str())));
    let log = estate.path(&format!("{}.err", args[0]));
    Sidecar::start(command, log, estate.socket(), Receipts::default()).served().await
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
    let hub = start(&estate, &["hub", "--config", "hub.yaml"], &env).await;
    assert!(hub.said().contains("enrolment API listening"), "{}", hub.said());
    let env = [
        ("WICKETGATE__OPERATOR__LISTEN", "127.0.0.1:0".to_owned()),
        ("WICKETGATE__ENROLMENT__HUB", format!("https://localhost:{enrols}")),
    ];
    let _sidecar = start(&estate, &["serve", "--config", "sidecar.yaml"], &env).await;
    assert!(hub.said().contains("enrolled a writer"), "{}", hub.said());
    let (cert, key) = (ca.shown("ops.pem"), ca.shown("ops.key"));
    let url = format!("https://localhost:{door}");
    let ask = ["control", "fleet", "--url", &url, "--ca", "tls/hub-ca.pem"];
    let fleet = run(&dir, &[&ask[..], &["--cert", &cert, "--cert-key", &key]].concat());
    assert!(fleet.contains("local/0"), "{fleet}");
}
