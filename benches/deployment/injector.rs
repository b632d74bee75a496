//! The admission of pods by `wicketgate injector serve`: asked over TLS on kept connections, as an API server asks.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::CONTENT_TYPE;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use wicketgate::witness::Remote;
use wicketgate::yaml;
use wicketgate_support::bench::load::{self, Seen};
use wicketgate_support::bench::memory_of;
use wicketgate_support::bench::table::{Row, Table, Target};
use wicketgate_support::ca::Ca;
use wicketgate_support::process::Process;
use wicketgate_support::program;

use crate::{Plan, row};

/// Pods per second that a cluster creates (egress.md, B5).
const PODS: u32 = 100;
/// API servers that ask as fast as they are answered.
const CALLERS: usize = 4;
/// Bytes of an answer at most.
const ANSWER_MAX: usize = 1 << 20;
const IMAGE: &str = "registry.example/wicketgate@sha256:0000000000000000000000000000000000000000000000000000000000000001";

pub async fn admissions(dir: &Path, ca: &Ca, plan: Plan, table: &mut Table) {
    let folder = dir.join("profiles");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("strict.yaml"), profile().to_string()).unwrap();
    let mut command = Command::new(program::gate());
    command.args(["injector", "serve", "--listen", "127.0.0.1:0", "--profiles"]).arg(folder);
    command.args(["--tls-cert", &ca.shown("gate.pem"), "--tls-key", &ca.shown("gate.key")]);
    let injector = Process::start(command);
    let at = |line: &str| line.strip_prefix("listening on ").map(str::to_owned);
    let url = injector.read("its address", at);
    let authority = std::fs::read(ca.path("ca.pem")).unwrap();
    let server = || Remote::new(&url, Some(&authority)).unwrap();

    let seen = paced(Arc::new(server()), plan).await;
    let target = Some(Target::Figure(seen.p99.as_secs_f64() * 1e3, 20.0, "ms"));
    let what = format!("admission of a pod, {PODS} pods/s, p99");
    table.add(Row { target, ..row(&what, seen.words("pods")) });

    let callers = (0..CALLERS).map(|_| server()).collect();
    let fast = load::drive(callers, plan.warm, plan.each, |server, _| async move {
        admit(&server).await;
        server
    });
    let fast = fast.await;
    let ratio = Some(fast.per_second / f64::from(PODS));
    let what = format!("admissions of pods, {CALLERS} API servers");
    let floor = format!("{PODS} pods/s");
    table.add(Row {
        ratio,
        floor,
        target: Some(Target::AtLeast(1.0)),
        ..row(&what, fast.words("pods"))
    });

    let [most, own] = ["VmHWM", "RssAnon"].map(|name| memory_of(injector.id(), name));
    let memory = format!("{most:.1} MiB RSS, of which {own:.1} MiB are no pages of the program");
    let target = Some(Target::Figure(most, 20.0, "MiB"));
    table.add(Row { target, ..row("memory of the injector at most", memory) });
    assert!(injector.stop().success());
}

/// A pod each hundredth of a second, whether or not the ones before were answered; the time from when each was due.
async fn paced(server: Arc<Remote>, plan: Plan) -> Seen {
    let mut due = tokio::time::interval(Duration::from_secs(1) / PODS);
    let (began, mut asked) = (Instant::now(), JoinSet::new());
    while began.elapsed() < plan.warm + plan.each {
        let at = due.tick().await;
        let server = Arc::clone(&server);
        let warm = began.elapsed() < plan.warm;
        asked.spawn(async move {
            admit(&server).await;
            (!warm).then(|| at.elapsed())
        });
    }
    let all: Vec<Duration> = asked.join_all().await.into_iter().flatten().collect();
    Seen::of(all, plan.each)
}

/// One pod, which gets its gate.
async fn admit(server: &Remote) {
    let request = http::Request::builder().method(http::Method::POST);
    let request = request.header(CONTENT_TYPE, "application/json");
    let answer = server
        .send(request, "/mutate?timeout=5s", review().to_string().into_bytes(), ANSWER_MAX)
        .await;
    let answer: Value = serde_json::from_slice(&answer.unwrap().body).unwrap();
    let response = &answer["response"];
    assert!(response["allowed"] == true && response["patch"].is_string(), "{answer}");
}

/// The profile of the pod that kustomize makes.
fn profile() -> Value {
    let file = program::top().join("deploy/kustomize/components/sidecar/pod.yaml");
    let text = std::fs::read_to_string(file).unwrap();
    let workload: Value = yaml::from_str(&text, "pod.yaml").unwrap();
    let template = &workload["spec"]["template"];
    let mut pod = template["spec"].clone();
    let mut agent = pod.as_object_mut().unwrap().remove("containers").unwrap()[0].take();
    agent.as_object_mut().unwrap().remove("name");
    pod["initContainers"][0]["image"] = json!(IMAGE);
    for volume in pod["volumes"].as_array_mut().unwrap() {
        if volume["name"] == "config" {
            volume["configMap"] = json!({});
        }
    }
    json!({"profile": "strict", "labels": template["metadata"]["labels"], "pod": pod, "agent": agent,
        "config": {"volume": "config"}})
}

/// The review of an agent's pod as its owner wrote it.
fn review() -> Value {
    let kind = json!({"group": "", "version": "v1", "kind": "Pod"});
    let resource = json!({"group": "", "version": "v1", "resource": "pods"});
    let limits = json!({"cpu": "1", "memory": "1Gi"});
    let pod = json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"generateName": "reviewer-", "labels": {"app": "reviewer", "wicketgate.dev/gate": "strict"},
            "annotations": {"wicketgate.dev/config": "reviewer-gate"}},
        "spec": {"containers": [{"name": "agent", "image": "agent@sha256:0000000000000000000000000000000000000000000000000000000000000002",
            "resources": {"requests": limits, "limits": limits}}]}});
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "7d8bcbc8-0000-4000-8000-000000000000", "kind": kind, "resource": resource, "requestKind": kind,
        "requestResource": resource, "namespace": "agents", "operation": "CREATE",
        "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller"},
        "object": pod, "oldObject": null, "dryRun": false,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}}})
}
