//! The operator API over gRPC: the twin of what it says over HTTP, to a client that is not ours.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use tonic_types::StatusExt as _;
use wicketgate::control::Order;
use wicketgate::operator::api::ROUTES;
use wicketgate::operator::operators::Right;
use wicketgate::record::Kind;
use wicketgate::serve::pb;
use wicketgate::serve::pb::approvals_client::ApprovalsClient;

use crate::api::{ARMOR, ApiServer, GATE, ask, run_id, token};

async fn channel(api: &ApiServer) -> Channel {
    Endpoint::from_shared(format!("http://{}", api.address)).unwrap().connect().await.unwrap()
}

fn with<T>(who: Option<&str>, message: T) -> Request<T> {
    let mut request = Request::new(message);
    if let Some(who) = who {
        let shown = format!("Bearer {}", token(who)).parse().unwrap();
        request.metadata_mut().insert("authorization", shown);
    }
    request
}

/// An empty message to any method.
async fn call(channel: &Channel, method: &str, who: Option<&str>) -> Result<(), Status> {
    let mut client = tonic::client::Grpc::new(channel.clone());
    client.ready().await.unwrap();
    let path: PathAndQuery = format!("/{method}").parse().unwrap();
    let codec = tonic_prost::ProstCodec::<(), ()>::default();
    // A stream has no end: whether it begins is the answer, of a method without a stream too.
    client.server_streaming(with(who, ()), path, codec).await.map(drop)
}

#[track_caller]
fn code(status: &Status) -> String {
    status.get_details_error_info().unwrap_or_else(|| panic!("{status:?}")).reason
}

/// One request of the Python client as one of the people.
async fn python(
    api: &ApiServer,
    who: &str,
    (service, method): (&str, &str),
    body: &Value,
) -> Value {
    let program = std::env::var("WICKETGATE_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let top = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(program);
    command.arg("-B").arg(top.join("tests/interop/operator_client.py"));
    command.args([&api.address.to_string(), service, method, &body.to_string(), "--token-file"]);
    command.arg(api.path(&format!("{who}.token")));
    let done = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let err = String::from_utf8_lossy(&done.stderr);
    assert!(matches!(done.status.code(), Some(0 | 3)), "{err}");
    serde_json::from_slice(&done.stdout).unwrap()
}

fn decoded(value: &Value) -> Vec<u8> {
    STANDARD.decode(value.as_str().unwrap()).unwrap()
}

#[test]
fn every_route_but_those_of_http_alone_has_a_method() {
    // Amendments, policies and backtests, break-glass, evidence and audits, what is erased, runs and receipts one by
    // one, counts, health and limits are asked for over HTTP alone.
    let http = [
        "amendments",
        "audit",
        "backtests",
        "break-glass",
        "day",
        "erasures",
        "exports",
        "health",
        "holds",
        "limits",
        "observed",
        "policy",
        "receipts",
        "runs/",
        "similar",
    ];
    for row in ROUTES {
        let alone = http.iter().any(|part| row.path.starts_with(&format!("/v1/{part}")));
        // Of what is asked about one run, this is an order.
        let alone = alone && !row.path.ends_with("/taint/clear");
        assert_eq!(row.twins.is_empty(), alone, "{}", row.name());
    }
    let methods: Vec<&str> = ROUTES.iter().flat_map(|row| row.twins).copied().collect();
    assert_eq!(methods.iter().collect::<BTreeSet<_>>().len(), methods.len(), "{methods:?}");
}

#[tokio::test]
async fn a_grpc_method_requires_the_role_of_its_http_route_and_a_credential() {
    let api = ApiServer::open().await;
    let channel = channel(&api).await;
    let methods = ROUTES.iter().flat_map(|row| row.methods().map(move |name| (name, row.right)));
    for (method, right) in methods {
        for (who, rights) in [
            ("vera", &[Right::Look][..]),
            ("otto", &[Right::Look, Right::Switch]),
            ("anna", &[Right::Look, Right::Read, Right::Decide]),
            ("aude", &[Right::Look, Right::Read]),
            ("paul", &[]),
        ] {
            let answer = call(&channel, &method, Some(who)).await;
            let refused = answer.as_ref().err().map(code);
            let forbidden = refused.as_deref() == Some("operator.forbidden");
            assert_eq!(!forbidden, rights.contains(&right), "{who} {method}: {answer:?}");
            assert!(refused.as_deref() != Some("identity.missing"), "{who} {method}");
        }
        let stranger = call(&channel, &method, None).await.unwrap_err();
        assert!(
            ["identity.missing", "limit.exceeded"].contains(&code(&stranger).as_str()),
            "{method}"
        );
    }
    assert_eq!(api.orders.since(0, 10).await.unwrap(), []);
}

#[tokio::test]
async fn a_python_client_lists_shows_approves_and_is_refused_with_the_same_codes() {
    let api = ApiServer::open().await;
    let run = run_id(1);
    api.open_run(run).await;
    api.hold(ask(run, "c1", r#"{"amount":1200}"#)).await;
    let _gate =
        api.gate(GATE, r#"{"counted":true,"call":"authorized","detail":"","message":""}"#).await;

    let listed = python(&api, "vera", ("Approvals", "List"), &json!({})).await;
    let (_, http) = api.get("vera", "/v1/approvals").await;
    let line = &listed["ok"]["held"][0];
    for name in ["run", "call", "calls", "tool", "tier", "agent", "expires", "reasons", "digest"] {
        assert_eq!(line[name], http["held"][0][name], "{name}: {listed}");
    }
    let named = json!({"run": run.to_string(), "call": "c1"});
    let shown = python(&api, "anna", ("Approvals", "Show"), &named).await;
    let (_, http) = api.get("anna", &format!("/v1/approvals/{run}/c1")).await;
    let facts: Value = serde_json::from_slice(&decoded(&shown["ok"]["facts"])).unwrap();
    assert_eq!((&facts, &shown["ok"]["view"]), (&http["facts"], &http["view"]));
    assert_eq!(decoded(&shown["ok"]["statement"]), http["statement"].as_str().unwrap().as_bytes());

    let mut word = named.clone();
    word["statement"] = shown["ok"]["statement"].clone();
    word["signature"] = json!(ARMOR);
    // A statement that approves is no refusal, and none at all is none of either.
    let crossed = python(&api, "anna", ("Approvals", "Refuse"), &word).await;
    assert_eq!(crossed["error"]["metadata"]["detail"], "approval.statement", "{crossed}");
    let forbidden = python(&api, "otto", ("Approvals", "Approve"), &word).await;
    let said =
        ["status", "domain", "reason"].map(|name| forbidden["error"][name].as_str().unwrap());
    assert_eq!(said, ["PERMISSION_DENIED", "wicketgate.dev", "operator.forbidden"]);
    let counted = python(&api, "anna", ("Approvals", "Approve"), &word).await;
    assert_eq!(counted["ok"]["complete"], true, "{counted}");
    let rows = api.orders.since(0, 10).await.unwrap();
    let Some(Order::ApproverStatement { statement, .. }) = &rows[0].order else {
        panic!("{rows:?}")
    };
    assert_eq!(statement.as_bytes(), decoded(&shown["ok"]["statement"]));
    assert_eq!((rows.len(), rows[0].given.subject.as_str()), (1, "anna"));
}

#[tokio::test]
async fn a_python_client_stops_an_agent_and_reads_what_became_of_it() {
    let api = ApiServer::open().await;
    let _gate = api.gate(GATE, r#"{"runs_sealed":2,"stopped_count":1,"left":0}"#).await;
    let order =
        json!({"action": "kill", "target": "agent", "name": "refund-agent", "reason": "it loops"});
    let sent = python(&api, "otto", ("Control", "Set"), &order).await;
    let told = &sent["ok"];
    assert_eq!(
        (&told["complete"], &told["runs_sealed"], &told["stopped"]),
        (&json!(true), &json!("2"), &json!("1")),
        "{sent}"
    );
    assert_eq!(api.entries(Kind::ControlSet).await.len(), 1);
    let (_, http) = api.get("vera", "/v1/control").await;
    let listed = python(&api, "vera", ("Control", "List"), &json!({})).await;
    let first: Value = serde_json::from_slice(&decoded(&listed["ok"]["orders"][0])).unwrap();
    assert_eq!(first, http["orders"][0]);
    let again = python(&api, "vera", ("Control", "Get"), &json!({"seq": "1"})).await;
    assert_eq!(again["ok"]["runs_sealed"], "2", "{again}");
    let fleet = python(&api, "vera", ("Control", "Fleet"), &json!({})).await;
    assert!(String::from_utf8(decoded(&fleet["ok"]["gates"][0])).unwrap().contains(GATE));
    let none = python(&api, "otto", ("Control", "Set"), &json!({"action": "kill"})).await;
    assert_eq!(
        (&none["error"]["status"], &none["error"]["reason"]),
        (&json!("INVALID_ARGUMENT"), &json!("request.malformed"))
    );
    let unknown = python(&api, "vera", ("Control", "Get"), &json!({"seq": "9"})).await;
    assert_eq!(unknown["error"]["reason"], "call.not_found", "{unknown}");
}

#[tokio::test]
async fn unreadable_grpc_requests_are_answered_as_malformed() {
    let api = ApiServer::open().await;
    let channel = channel(&api).await;
    let mut client = ApprovalsClient::new(channel.clone());
    let large = pb::ModifyCallRequest { arguments: vec![b' '; 300 * 1024], ..Default::default() };
    let refused = client.modify(with(Some("anna"), large)).await.unwrap_err();
    assert_eq!(code(&refused), "request.malformed", "{refused:?}");
    assert!(refused.message().contains("256 KiB"), "{refused:?}");
    let binary = pb::SignedWord { statement: vec![0xff], ..Default::default() };
    let refused = client.approve(with(Some("anna"), binary)).await.unwrap_err();
    assert_eq!(code(&refused), "request.malformed", "{refused:?}");
    let elsewhere = call(&channel, "wicketgate.v1.Gate/OpenRun", Some("anna")).await.unwrap_err();
    assert_eq!(elsewhere.code(), tonic::Code::Unimplemented, "agents come in elsewhere");
    let (status, _, body) = api.raw("POST /wicketgate.v1.Control/Set", "", "").await;
    assert_eq!(status, 404, "over HTTP/1.1: {body}");
    let evil = Endpoint::from_shared(format!("http://{}", api.address)).unwrap();
    let evil = evil.origin("http://evil.example".parse().unwrap()).connect().await.unwrap();
    let refused = call(&evil, "wicketgate.v1.Control/Fleet", Some("anna")).await.unwrap_err();
    assert!(refused.message().contains("not a name of this machine"), "{refused:?}");
}

#[tokio::test]
async fn health_and_reflection_list_the_operator_services_and_not_the_agent_services() {
    use tonic_health::pb::HealthCheckRequest;
    use tonic_health::pb::health_client::HealthClient;
    use tonic_reflection::pb::v1::ServerReflectionRequest;
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
    use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

    let api = ApiServer::open().await;
    let channel = channel(&api).await;
    let mut health = HealthClient::new(channel.clone());
    for service in [
        "",
        "wicketgate.v1.Approvals",
        "wicketgate.v1.Control",
        "wicketgate.v1.Firewall",
        "wicketgate.v1.Live",
    ] {
        let asked = HealthCheckRequest { service: service.into() };
        let told = health.check(asked).await.unwrap().into_inner();
        assert_eq!(
            told.status(),
            tonic_health::pb::health_check_response::ServingStatus::NotServing,
            "{service}"
        );
    }
    let ask = ServerReflectionRequest {
        host: String::new(),
        message_request: Some(MessageRequest::ListServices(String::new())),
    };
    let mut reflection = ServerReflectionClient::new(channel);
    let answers = reflection.server_reflection_info(tokio_stream::once(ask)).await.unwrap();
    let answer = answers.into_inner().message().await.unwrap().unwrap();
    let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else {
        panic!()
    };
    let names: BTreeSet<String> = list.service.into_iter().map(|service| service.name).collect();
    let expected = [
        "grpc.health.v1.Health",
        "grpc.reflection.v1.ServerReflection",
        "wicketgate.v1.Approvals",
        "wicketgate.v1.Calls",
        "wicketgate.v1.Control",
        "wicketgate.v1.Firewall",
        "wicketgate.v1.Live",
    ];
    assert_eq!(names, expected.map(str::to_owned).into());
}
