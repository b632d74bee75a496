//! Sidecars that are enrolled by the projected token of their pod's service account.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

use crate::api_server::{AUDIENCE, ApiServer, Projected, Reply, response, uid};
use crate::ca::Ca;
use crate::checker::check_running;
use crate::enrolled::{EnrolledFleet, key, request};
use crate::sidecar::Estate;
use wicketgate_support::dropped::Dropped;
use wicketgate_support::hub::Hub;
use wicketgate_support::program;

const ACCOUNT: &str = "agents/gate";
const OTHER: &str = "agents/other";

/// A fleet in a cluster: an API server, and the hub's own volume.
struct Cluster {
    enrolled: EnrolledFleet,
    api: ApiServer,
    own: Projected,
    volumes: AtomicU32,
}

impl Cluster {
    async fn new(tls: bool) -> Cluster {
        let enrolled = EnrolledFleet::new(tls).await;
        let api = ApiServer::start(&enrolled.ca, 0);
        let token = api.token_for("agents/hub", "hub-0", "https://kubernetes.default.svc");
        api.lets_ask(&token);
        let own = Projected::new(&enrolled.path("hub"), &token);
        Cluster { enrolled, api, own, volumes: AtomicU32::new(0) }
    }

    /// `hub.enrolment.kubernetes`.
    fn section(&self) -> Value {
        json!({"api": self.api.url(), "ca_file": self.enrolled.ca.shown("ca.pem"),
            "token_file": self.own.token(), "audience": AUDIENCE, "pools": [ACCOUNT, OTHER]})
    }

    async fn hub(&self, estate: &Estate, name: &str) -> Hub {
        let section = self.section();
        let change = |registry: &mut Value| {
            registry.as_object_mut().unwrap().remove("tokens");
            registry["kubernetes"] = section.clone();
        };
        self.enrolled.hub_with(estate, name, &change).await
    }

    /// A sidecar that takes slots of this account, and the volume with the token it shows.
    fn sidecar(&self, slots: &str, token: &str) -> (Estate, Projected) {
        let number = self.volumes.fetch_add(1, Ordering::SeqCst);
        let volume = Projected::new(&self.enrolled.path(&format!("volume-{number}")), token);
        let estate = self.enrolled.sidecar("local");
        estate.configure(|config| {
            config["ledger"]["postgres"]["slots"] = json!(slots);
            config["enrolment"]["token_file"] = json!(volume.token());
        });
        (estate, volume)
    }

    /// What the books say of each who was enrolled.
    async fn booked(&self, name: &str) -> Vec<Value> {
        self.enrolled.enrolled().await.iter().map(|data| data[name].clone()).collect()
    }
}

/// Status, code and cause of an answer.
fn said((status, body): (u16, Value)) -> (u16, String, String) {
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    (status, text("code"), text("cause"))
}

fn is(status: u16, code: &str, cause: &str) -> (u16, String, String) {
    (status, code.to_owned(), cause.to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_take_slots_of_their_service_account_and_their_evidence_verifies_under_the_enrolment_key()
 {
    let cluster = Cluster::new(true).await;
    let (enrolled, api) = (&cluster.enrolled, &cluster.api);
    let tokens = ["gate-0", "gate-1", "gate-2"].map(|pod| api.token(ACCOUNT, pod));
    let pods = [&tokens[0], &tokens[1]].map(|token| cluster.sidecar(ACCOUNT, token));
    let hub = cluster.hub(&pods[0].0, "hub").await;
    let (mut runs, mut gates) = (Vec::new(), Vec::new());
    for (estate, _) in &pods {
        let gate = estate.serve().await;
        let agent = gate.open().await;
        agent.call("work.do", "a", "{}").await.unwrap();
        agent.seal().await.unwrap();
        runs.push(agent.run.clone());
        gates.push(gate);
    }
    assert_eq!(cluster.booked("slot").await, [json!("agents/gate/0"), json!("agents/gate/1")]);
    assert_eq!(cluster.booked("pool").await, [json!(ACCOUNT), json!(ACCOUNT)]);
    assert_eq!(cluster.booked("auth").await, [json!("kubernetes"), json!("kubernetes")]);
    let named = |pod: &str| json!(format!("{pod}/{}", uid(pod)));
    assert_eq!(cluster.booked("pod").await, [named("gate-0"), named("gate-1")]);
    // Each was asked about once, by the hub's own token, for the hub's audience.
    let asked = api.asked();
    let about: Vec<&Value> = asked.iter().map(|(_, _, body)| &body["spec"]).collect();
    let spec = |token: &str| json!({"token": token, "audiences": [AUDIENCE]});
    assert_eq!(about, [&spec(&tokens[0]), &spec(&tokens[1])]);

    // A pod that takes the place of the first takes the slot that is free, in its next epoch.
    gates[0].stop().await;
    pods[0].1.put(&tokens[2]);
    api.expire(&tokens[0]);
    gates[0] = pods[0].0.serve().await;
    assert_eq!(cluster.booked("slot").await.last(), Some(&json!("agents/gate/0")));
    assert_eq!(cluster.booked("epoch").await.last(), Some(&json!(2)));
    assert_eq!(cluster.booked("pod").await.last(), Some(&named("gate-2")));

    enrolled.proves(&pods[0].0, &runs).await;
    let heard: Vec<String> =
        gates.iter().map(crate::sidecar::Sidecar::said).chain([hub.said()]).collect();
    for gate in &mut gates {
        gate.stop().await;
    }
    for (estate, _) in &pods {
        check_running(&estate.database, &enrolled.tool, &estate.receipts);
    }
    let own = std::fs::read_to_string(cluster.own.token()).unwrap();
    for token in tokens.iter().chain([&own]) {
        assert!(heard.iter().all(|log| !log.contains(token.as_str())), "a token in a log");
    }
}

/// Kubelet gives a projected token to the pod's own uid, and lets the group of `fsGroup` read it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hub_with_the_uid_of_its_pod_starts_with_the_token_that_kubelet_wrote_for_its_group() {
    const POD: u32 = 65_532;
    const GROUP: u32 = 2_000;
    let cluster = Cluster::new(true).await;
    let enrolled = &cluster.enrolled;
    let (estate, _volume) = cluster.sidecar(ACCOUNT, &cluster.api.token(ACCOUNT, "gate-0"));
    drop(cluster.hub(&estate, "hub").await);
    // Everything else is the pod's, and so is the program: where it was built nobody else may look.
    let program = estate.path("program");
    std::fs::copy(program::gate(), &program).unwrap();
    let own = |owner: String, dir: PathBuf| {
        let owned = Command::new("chown").args(["-R", &owner]).arg(dir).status();
        assert!(owned.unwrap().success());
    };
    for dir in [
        estate.path("."),
        enrolled.path("."),
        enrolled.people.path("."),
        enrolled.ca.shown(".").into(),
    ] {
        own(format!("{POD}:{POD}"), dir);
    }
    // Volumes are kubelet's, which is root.
    own(format!("0:{GROUP}"), enrolled.path("hub"));
    own("0:0".to_owned(), enrolled.path("volume-0"));
    let token = std::fs::canonicalize(cluster.own.token()).unwrap();
    for (number, (owner, mode)) in [(POD, 0o640), (0, 0o640), (POD, 0o600)].into_iter().enumerate()
    {
        std::os::unix::fs::chown(&token, Some(owner), Some(GROUP)).unwrap();
        std::fs::set_permissions(&token, std::fs::Permissions::from_mode(mode)).unwrap();
        let mut pod = Command::new("setpriv");
        pod.arg(format!("--reuid={POD}")).arg(format!("--regid={POD}"));
        pod.arg(format!("--groups={POD},{GROUP}")).arg("--no-new-privs").arg(&program);
        let _hub = Hub::run(&estate, "hub", pod).await;
        let mut gate = estate.serve().await;
        assert_eq!(enrolled.enrolled().await.len(), number + 1, "{owner} {mode:o}");
        gate.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pod_of_another_service_account_is_not_enrolled_into_the_slots_of_this_one() {
    let cluster = Cluster::new(true).await;
    let api = &cluster.api;
    let (estate, volume) = cluster.sidecar(ACCOUNT, &api.token(OTHER, "other-0"));
    let hub = cluster.hub(&estate, "hub").await;
    let mut gate = estate.start();
    gate.not_ready("enrolment.pool").await;
    volume.put(&api.token("elsewhere/gate", "gate-0"));
    gate.not_ready("enrolment.account").await;
    volume.put(&api.token_for(ACCOUNT, "gate-0", "another-service"));
    gate.not_ready("identity.missing").await;
    let expired = api.token(ACCOUNT, "gate-0");
    api.expire(&expired);
    volume.put(&expired);
    crate::until("the hub to say that it expired", || async {
        hub.said().contains("service account token has expired")
    })
    .await;
    assert_eq!(cluster.enrolled.enrolled().await, Vec::<Value>::new());
    // Kubelet replaces the token, and the next attempt shows the new one.
    volume.put(&api.token(ACCOUNT, "gate-0"));
    gate.ready().await;
    assert_eq!(cluster.booked("slot").await, [json!("agents/gate/0")]);
    gate.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_server_that_comes_back_and_a_token_of_the_hub_that_is_replaced_count_at_the_next_attempt()
 {
    let cluster = Cluster::new(true).await;
    let api = &cluster.api;
    let (estate, _volume) = cluster.sidecar(ACCOUNT, &api.token(ACCOUNT, "gate-0"));
    api.answers(|_| Reply::Cut);
    let hub = cluster.hub(&estate, "hub").await;
    let mut gate = estate.start();
    gate.not_ready("enrolment.review").await;
    // It is back, and the hub's own token has ended meanwhile.
    let fresh = api.token_for("agents/hub", "hub-0", "https://kubernetes.default.svc");
    api.lets_ask(&fresh);
    api.is_good_again();
    crate::until("the hub to be refused", || async { hub.said().contains("it answers 401") }).await;
    assert_eq!(cluster.enrolled.enrolled().await, Vec::<Value>::new());
    cluster.own.put(&fresh);
    gate.ready().await;
    gate.open().await.call("work.do", "a", "{}").await.unwrap();
    gate.stop().await;
}

/// A NetworkPolicy of the hub that lists the Service of the API server, and not its endpoints, drops what is sent to it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hub_that_cannot_reach_the_api_server_names_its_address_and_the_policy_that_may_drop_it()
{
    let dropped = Dropped::start();
    let cluster = Cluster::new(true).await;
    let (estate, _volume) = cluster.sidecar(ACCOUNT, &cluster.api.token(ACCOUNT, "gate-0"));
    let mut section = cluster.section();
    section["api"] = json!(format!("https://{}", dropped.address));
    let change = |registry: &mut Value| {
        registry.as_object_mut().unwrap().remove("tokens");
        registry["kubernetes"] = section.clone();
    };
    let hub = cluster.enrolled.hub_with(&estate, "hub", &change).await;
    let mut gate = estate.start();
    gate.not_ready("enrolment.review").await;
    let said = hub.said();
    let named = format!("{} sends nothing back", dropped.address);
    let line = said.lines().find(|line| line.contains(&named)).unwrap_or_else(|| panic!("{said}"));
    assert!(line.contains("a NetworkPolicy drops the connection"), "{line}");
    // The address stays with the operators of the hub.
    assert!(!gate.said().contains(&dropped.address.to_string()), "{}", gate.said());
    gate.kill();
}

/// Replaces the configuration of a running hub by a changed one.
fn reconfigure(estate: &Estate, change: impl FnOnce(&mut Value)) {
    let mut config = estate.read_json("hub.yaml");
    change(&mut config);
    estate.write_json("hub.next", &config);
    std::fs::rename(estate.path("hub.next"), estate.path("hub.yaml")).unwrap();
}

/// Waits until a hub has said this so often.
async fn says(hub: &Hub, times: usize, words: &str) {
    crate::until(
        std::fmt::from_fn(|f| write!(f, "{times} `{words}` in {}", hub.said())),
        || async { hub.said().matches(words).count() >= times },
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hub_takes_over_who_may_enrol_while_it_runs_and_an_account_with_a_star_is_many() {
    let cluster = Cluster::new(false).await;
    let (enrolled, api) = (&cluster.enrolled, &cluster.api);
    let pools = |pools: Value| {
        move |config: &mut Value| config["hub"]["enrolment"]["kubernetes"]["pools"] = pools
    };
    let (estate, _volume) = cluster.sidecar(ACCOUNT, &api.token(ACCOUNT, "gate-0"));
    let mut section = cluster.section();
    section["pools"] = json!(["elsewhere/*"]);
    let change = |registry: &mut Value| registry["kubernetes"] = section.clone();
    let hub = enrolled.hub_with(&estate, "hub", &change).await;
    let mut gate = estate.start();
    gate.not_ready("enrolment.account").await;

    // A change of the file is enough, and one entry is every account of its namespace.
    reconfigure(&estate, pools(json!(["elsewhere/*", "agents/*"])));
    says(&hub, 1, "reloaded the configuration").await;
    gate.ready().await;
    let (next, _next_volume) = cluster.sidecar(OTHER, &api.token(OTHER, "other-0"));
    let mut second = next.serve().await;
    assert_eq!(cluster.booked("slot").await, [json!("agents/gate/0"), json!("agents/other/0")]);

    // A change of anything else is refused with the one beside it, and the hub says so.
    reconfigure(&estate, |config| {
        config["hub"]["enrolment"]["days"] = json!(2);
        pools(json!(["agents/none"]))(config);
    });
    hub.signal(rustix::process::Signal::HUP);
    says(&hub, 1, "needs a restart: hub.enrolment.days").await;
    let (ready, told) = hub.readiness().await.unwrap();
    assert!(ready && told.contains("needs a restart: hub.enrolment.days"), "{told}");
    reconfigure(&estate, |config| config["hub"]["enrolment"]["days"] = json!("many"));
    says(&hub, 1, "hub.enrolment.days: ").await;
    let (third, _third_volume) = cluster.sidecar("agents/third", &api.token("agents/third", "3"));
    third.serve().await.stop().await;

    // Who is taken away enrols no more, and a certificate that was issued stays. A shared token is new.
    let shown = enrolled.shown("stranger.token");
    reconfigure(&estate, |config| {
        config["hub"]["enrolment"]["days"] = json!(1);
        pools(json!(["agents/*-none"]))(config);
        config["hub"]["enrolment"]["tokens"] = json!([{"pool": "stranger", "token_file": shown}]);
    });
    says(&hub, 2, "reloaded the configuration").await;
    assert!(!hub.readiness().await.unwrap().1.contains("needs a restart"), "{}", hub.said());
    gate.open().await.call("work.do", "a", "{}").await.unwrap();
    let (late, _late_volume) = cluster.sidecar("agents/late", &api.token("agents/late", "late-0"));
    late.start().not_ready("enrolment.account").await;
    let (leased, mine) = (enrolled.lease("stranger").await, key());
    let signed = request(&leased, &mine).prove(&mine).unwrap();
    assert_eq!(enrolled.asks("stranger", &signed).await.0, 200);
    gate.stop().await;
    second.stop().await;
}

type Change = fn(Value) -> Reply;

/// A change of one field of a good answer.
macro_rules! but {
    ($pointer:literal, $value:tt) => {
        |mut answer: Value| {
            if let Some(field) = answer.pointer_mut($pointer) {
                *field = json!($value);
            }
            Reply::Says(201, answer)
        }
    };
}

type Refused = (u16, &'static str, &'static str);
const NOBODY: Refused = (401, "identity.missing", "credential.unknown");
const UNSURE: Refused = (503, "not_ready", "enrolment.review");
const UNBOUND: Refused = (403, "operator.forbidden", "enrolment.pod");

/// Everything that is not a plain yes, and what it is told as.
const MANNERS: [(Change, Refused); 20] = [
    (|answer| Reply::Says(403, answer), UNSURE),
    (|answer| Reply::Says(500, answer), UNSURE),
    (|answer| Reply::Says(202, answer), UNSURE),
    (
        |_| {
            let to = "HTTP/1.1 307 Elsewhere\r\nlocation: /elsewhere\r\ncontent-length: 0\r\n\r\n";
            Reply::Bytes(to.as_bytes().to_vec())
        },
        UNSURE,
    ),
    (|_| Reply::Bytes(response(201, "{\"kind\":")), UNSURE),
    (|_| Reply::Bytes(response(201, "")), UNSURE),
    (|_| Reply::Bytes(b"HTTP/1.1 201 Created\r\ncontent-length: 9\r\n\r\n{}".to_vec()), UNSURE),
    (
        |answer| {
            let twice = answer.to_string().replacen('{', r#"{"kind":"TokenReview","#, 1);
            Reply::Bytes(response(201, &twice))
        },
        UNSURE,
    ),
    (
        |mut answer| {
            answer["status"]["user"]["groups"] = json!(vec!["g".repeat(1000); 70]);
            Reply::Says(201, answer)
        },
        UNSURE,
    ),
    (but!("/kind", "Status"), UNSURE),
    (but!("/apiVersion", "authentication.k8s.io/v1beta1"), UNSURE),
    (
        |mut answer| {
            answer["status"]["error"] = json!("cannot tell");
            Reply::Says(201, answer)
        },
        UNSURE,
    ),
    (but!("/status/user", 1), NOBODY),
    (but!("/status/authenticated", false), NOBODY),
    (but!("/status/audiences", ["another-service"]), NOBODY),
    (but!("/status/audiences", []), NOBODY),
    (but!("/status/user/username", "system:node:node-1"), NOBODY),
    (but!("/status/user/extra", {}), UNBOUND),
    (but!("/status/user/extra/authentication.kubernetes.io~1pod-uid", []), UNBOUND),
    (|_| Reply::Cut, UNSURE),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_hub_enrols_no_pod_without_a_plain_confirmation_by_the_api_server() {
    let cluster = Cluster::new(false).await;
    let (enrolled, api) = (&cluster.enrolled, &cluster.api);
    let (estate, _volume) = cluster.sidecar(ACCOUNT, &api.token(ACCOUNT, "gate-0"));
    let hub = cluster.hub(&estate, "hub").await;
    let (leased, mine) = (enrolled.lease(ACCOUNT).await, key());
    let signed = request(&leased, &mine).prove(&mine).unwrap();
    let token = api.token(ACCOUNT, "gate-0");
    for (i, (manner, (status, code, cause))) in MANNERS.into_iter().enumerate() {
        api.answers(manner);
        let shown = said(enrolled.shows(&token, &signed).await);
        assert_eq!(shown, is(status, code, cause), "manner {i}");
    }
    let elsewhere = api.asked().into_iter().filter(|(line, ..)| line.contains("elsewhere"));
    assert_eq!(elsewhere.count(), 0, "a redirect was followed");

    // An error that repeats the token is told without it.
    api.answers(|mut answer| {
        let error = format!("[{}] is odd", answer["spec"]["token"].as_str().unwrap_or_default());
        answer["status"] = json!({"error": error});
        Reply::Says(201, answer)
    });
    assert_eq!(said(enrolled.shows(&token, &signed).await).0, NOBODY.0);
    assert!(hub.said().contains("[(the token)] is odd"), "{}", hub.said());

    // What is no projected token is nobody's, and the API server does not hear of it.
    api.is_good_again();
    let before = api.asked().len();
    let long = format!("a.b.{}", "c".repeat(9000));
    for other in ["no-projected-token-at-all-but-a-long-one", "a.b", long.as_str()] {
        let (status, code, _) = said(enrolled.shows(other, &signed).await);
        assert!(matches!(
            (status, code.as_str()),
            (401, "identity.missing") | (429, "limit.exceeded")
        ));
    }
    assert_eq!(api.asked().len(), before);
    assert_eq!(enrolled.enrolled().await, Vec::<Value>::new(), "nothing of this was certified");

    // The same request with a plain yes is certified, for the pod of the review, whatever it says itself.
    let (status, first) = enrolled.shows(&token, &signed).await;
    assert_eq!(status, 200, "{first}");
    assert_eq!(cluster.booked("pod").await, [json!(format!("gate-0/{}", uid("gate-0")))]);
    assert_eq!(enrolled.shows(&token, &signed).await, (200, first), "asked again");
    // Nothing of that yes was kept: the pod is gone, and so is its token.
    api.expire(&token);
    assert_ne!(enrolled.shows(&token, &signed).await.0, 200);
    let another = api.token(ACCOUNT, "gate-1");
    let taken = is(403, "operator.forbidden", "enrolment.taken");
    assert_eq!(said(enrolled.shows(&another, &signed).await), taken, "another pod with that key");
    assert!(!hub.said().contains(&token) && !hub.said().contains(&another), "a token in the log");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_server_of_another_authority_is_shown_no_token() {
    let cluster = Cluster::new(false).await;
    let (enrolled, api) = (&cluster.enrolled, &cluster.api);
    let strangers = Ca::new();
    let stranger = ApiServer::start(&strangers, 0);
    let (estate, _volume) = cluster.sidecar(ACCOUNT, &api.token(ACCOUNT, "gate-0"));
    let mut section = cluster.section();
    section["api"] = json!(stranger.url());
    let change = |registry: &mut Value| registry["kubernetes"] = section.clone();
    let hub = enrolled.hub_with(&estate, "hub", &change).await;
    let (leased, mine) = (enrolled.lease("local").await, key());
    let signed = request(&leased, &mine).prove(&mine).unwrap();
    let shown = enrolled.shows(&api.token(ACCOUNT, "gate-0"), &signed).await;
    assert_eq!(said(shown), is(503, "not_ready", "enrolment.review"));
    assert!(hub.said().contains("certificate"), "{}", hub.said());
    assert!(stranger.asked().is_empty());
    // Shared tokens beside it need no API server.
    assert_eq!(enrolled.asks("local", &signed).await.0, 200);
    assert_eq!(cluster.booked("auth").await, [json!("token")]);
    assert_eq!(cluster.booked("pod").await, [json!("pod")]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_server_that_hangs_is_given_up_and_no_more_than_sixteen_wait_for_it() {
    const AT_ONCE: u32 = 16;
    let cluster = Cluster::new(false).await;
    let (enrolled, api) = (&cluster.enrolled, &cluster.api);
    let (estate, _volume) = cluster.sidecar(ACCOUNT, &api.token(ACCOUNT, "gate-0"));
    let _hub = cluster.hub(&estate, "hub").await;
    let (leased, mine) = (enrolled.lease(ACCOUNT).await, key());
    let signed = request(&leased, &mine).prove(&mine).unwrap();
    let token = api.token(ACCOUNT, "gate-0");
    api.answers(|_| Reply::Nothing);
    let waiting =
        futures_util::future::join_all((0..AT_ONCE).map(|_| enrolled.shows(&token, &signed)));
    let more = async {
        crate::until("all to wait", || async { api.waiting() == AT_ONCE }).await;
        let one_more = said(enrolled.shows(&token, &signed).await);
        assert_eq!(one_more, is(503, "overloaded", "enrolment.review"));
    };
    let (answers, ()) = tokio::join!(waiting, more);
    for answer in answers {
        assert_eq!(said(answer), is(503, "not_ready", "enrolment.review"));
    }
    api.is_good_again();
    assert_eq!(enrolled.shows(&token, &signed).await.0, 200, "their turns came back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn errors_in_the_kubernetes_section_name_the_key() {
    let cluster = Cluster::new(false).await;
    let enrolled = &cluster.enrolled;
    let refused = |change: &dyn Fn(&mut Value), words: &[&str]| {
        let in_full = |config: &mut Value| {
            let mut registry = json!({"listen": "127.0.0.1:0", "kubernetes": cluster.section()});
            change(&mut registry);
            config["hub"] = json!({"enrolment": registry});
        };
        enrolled.checks(&in_full, words);
    };
    refused(&|_| (), &[]);
    // The example shows these fields and no others.
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/hub/hub.yaml");
    let example = std::fs::read_to_string(example).unwrap();
    let shown = example.lines().filter_map(|line| line.strip_prefix("    #   ")?.split_once(": "));
    let shown: BTreeSet<&str> = shown.map(|(name, _)| name).collect();
    let section = cluster.section();
    assert_eq!(shown, section.as_object().unwrap().keys().map(String::as_str).collect());
    let field = |name: &'static str, value: Value| {
        move |registry: &mut Value| registry["kubernetes"][name] = value.clone()
    };
    refused(&field("api", json!("http://127.0.0.1:1")), &["hub.enrolment.kubernetes.api", "https"]);
    refused(
        &field("ca_file", json!(enrolled.shown("none.pem"))),
        &["hub.enrolment.kubernetes.ca_file", "none.pem"],
    );
    refused(
        &field("ca_file", json!(enrolled.shown("local.token"))),
        &["hub.enrolment.kubernetes.ca_file"],
    );
    refused(
        &field("token_file", json!(enrolled.shown("none"))),
        &["hub.enrolment.kubernetes.token_file", "none"],
    );
    for audience in [cluster.api.url(), "https://kubernetes.default.svc.cluster.local".to_owned()] {
        refused(
            &field("audience", json!(audience)),
            &["hub.enrolment.kubernetes.audience", "own audience"],
        );
    }
    refused(
        &field("pools", json!(["local"])),
        &["hub.enrolment.kubernetes.pools[0]", "<namespace>/<service account>"],
    );
    refused(
        &field("pools", json!([ACCOUNT, ACCOUNT])),
        &["hub.enrolment.kubernetes.pools[1]", "twice"],
    );
    let token = json!({"pool": ACCOUNT, "token_file": enrolled.shown("local.token")});
    refused(
        &|registry| registry["tokens"] = json!([token]),
        &["hub.enrolment.kubernetes.pools[0]", "twice"],
    );
    refused(
        &|registry| drop(registry.as_object_mut().unwrap().remove("kubernetes")),
        &["hub.enrolment", "`tokens` and `kubernetes` are missing"],
    );
}
