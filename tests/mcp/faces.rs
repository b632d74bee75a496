//! What is said is the same on every face: who asks, what is not there, and why a call was denied.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Status};
use wicketgate::domain::code::Code;
use wicketgate::serve::pb;
use wicketgate::serve::pb::approvals_client::ApprovalsClient;
use wicketgate::serve::pb::gate_client::GateClient;

use crate::agent::{Refused, claims};
use crate::client::{Place, Reply, Wire, request};
use crate::gate::{Gate, TOKEN, initialize};
use crate::sidecar::Estate;
use crate::tool::Tool;

const OTTO: &str = "token-of-otto-who-is-an-operator-0123456789";

/// A gate with an operator, and a tool that reads files.
async fn gate() -> Gate {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    std::fs::create_dir(estate.path("work")).unwrap();
    for (name, token) in [("a.token", TOKEN), ("otto.token", OTTO)] {
        std::fs::write(estate.path(name), token).unwrap();
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(estate.path(name), mode).unwrap();
    }
    estate.configure(|config| {
        config["listen"]["tcp"] = json!("127.0.0.1:0");
        let callers = config["agents"][0]["callers"].as_array_mut().unwrap();
        callers.push(json!({"token_file": "a.token"}));
        config["operators"] =
            json!([{"subject": "otto", "roles": ["operator"], "token_file": "otto.token"}]);
        for tool in config["tools"].as_array_mut().unwrap() {
            if tool["name"] == "work.large" {
                *tool = json!({"name": "work.large", "description": "reads", "kind": "file.read",
                    "tier": "T0", "read_only": true, "file": {"root": "work", "name": "work"}});
            }
        }
    });
    Gate::again(tool, estate).await
}

/// `(code, detail, message)`.
type Words = (String, String, String);

fn of_status(status: &Status) -> (tonic::Code, Words) {
    let refused = Refused::of(status);
    (refused.grpc, (refused.code, refused.detail, refused.message))
}

fn of_problem(reply: &Reply) -> (u16, Words) {
    let body = reply.json();
    assert_eq!(body["status"], reply.status, "a body says the status it comes with: {reply:?}");
    let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
    (reply.status, (text("code"), text("cause"), text("detail")))
}

fn of_rpc(reply: &Reply) -> (u16, Words) {
    let error = &reply.json()["error"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (code, detail) = (text(&error["data"]["code"]), text(&error["data"]["detail"]));
    (reply.status, (code, detail, text(&error["message"])))
}

fn with<T>(message: T, shown: &[String]) -> Request<T> {
    let mut request = Request::new(message);
    for value in shown {
        request.metadata_mut().append("authorization", value.parse().unwrap());
    }
    request
}

async fn channel(at: &str) -> Channel {
    Endpoint::new(format!("http://{at}")).unwrap().connect().await.unwrap()
}

/// What every face answers to these values of `authorization`.
async fn answers(gate: &Gate, shown: &[String]) -> Vec<(&'static str, Words)> {
    let door = gate.sidecar.operator_url();
    let door = door.strip_prefix("http://").unwrap();
    let mut lines = vec![("Host", gate.host.as_str()), ("Content-Type", "application/json")];
    lines.extend(shown.iter().map(|value| ("Authorization", value.as_str())));
    let hello = initialize("2025-11-25").to_string().into_bytes();
    let mut told = Vec::new();

    let reply = gate.raw(&request("POST", "/mcp", &lines, &hello)).await.unwrap();
    assert_eq!(reply.header("www-authenticate"), Some("Bearer"), "{reply:?}");
    let (status, words) = of_rpc(&reply);
    assert_eq!(status, 401, "{shown:?}: {reply:?}");
    told.push(("MCP", words));

    for (face, verb, path) in [
        ("a run over HTTP", "POST", "/gate/v1/runs"),
        ("a call over HTTP", "POST", "/gate/v1/calls"),
    ] {
        let reply = gate.raw(&request(verb, path, &lines, b"{}")).await.unwrap();
        assert_eq!(reply.header("www-authenticate"), Some("Bearer"), "{reply:?}");
        let (status, words) = of_problem(&reply);
        assert_eq!(status, 401, "{shown:?}: {reply:?}");
        told.push((face, words));
    }

    let mut wire = Wire::open(&Place::Tcp(door.to_owned())).await;
    lines[0] = ("Host", "localhost");
    wire.send(&request("GET", "/v1/approvals", &lines, b"")).await;
    let reply = wire.reply().await.unwrap();
    assert_eq!(reply.header("www-authenticate"), Some("Bearer"), "{reply:?}");
    let (status, words) = of_problem(&reply);
    assert_eq!(status, 401, "{shown:?}: {reply:?}");
    told.push(("operators over HTTP", words));

    let mut agents = GateClient::new(channel(&gate.host).await);
    let opened = agents.open_run(with(claims(), shown)).await.unwrap_err();
    let listed = agents.list_tools(with(pb::ListToolsRequest::default(), shown)).await.unwrap_err();
    let mut operators = ApprovalsClient::new(channel(door).await);
    let held = with(pb::ListApprovalsRequest::default(), shown);
    let held = operators.list(held).await.unwrap_err();
    for (face, status) in
        [("a run over gRPC", opened), ("a call over gRPC", listed), ("operators over gRPC", held)]
    {
        let (code, words) = of_status(&status);
        assert_eq!(code, tonic::Code::Unauthenticated, "{face} {shown:?}: {status:?}");
        told.push((face, words));
    }
    told
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_credentials_sound_the_same_on_every_face() {
    let gate = gate().await;
    let bearer = "Bearer nobody-knows-this-credential-0123456789".to_owned();
    // Ten strangers a minute are answered at the operators' door, and each form is two of them.
    for (shown, detail) in [
        (vec![], "credential.missing"),
        (vec!["Basic eDp5".to_owned()], "credential.malformed"),
        (vec!["Bearer".to_owned()], "credential.malformed"),
        (vec![bearer.clone(), bearer.clone()], "credential.malformed"),
        (vec![bearer], "credential.unknown"),
    ] {
        let told = answers(&gate, &shown).await;
        let (_, first) = &told[0];
        assert_eq!((first.0.as_str(), first.1.as_str()), ("identity.missing", detail), "{shown:?}");
        for (face, words) in &told {
            assert_eq!(words, first, "{face}: {shown:?}");
        }
    }
    gate.checked().await;
}

/// What an honest agent claims, as JSON.
fn claimed() -> Value {
    json!({"model": "test-model", "instructions_sha256": ["ab".repeat(32)]})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denial_has_the_same_code_on_every_face() {
    let gate = gate().await;
    let agent = gate.sidecar.open().await;
    let opened = gate.post("/gate/v1/runs", &[], claimed().to_string().as_bytes()).await.json();
    let bearer = format!("Bearer {}", opened["run_token"].as_str().unwrap());
    for (tool, args, code, detail, grpc) in [
        (
            "work.do",
            json!({"n": "one"}),
            "arguments.invalid",
            "schema.type",
            tonic::Code::InvalidArgument,
        ),
        (
            "work.large",
            json!({}),
            "arguments.invalid",
            "schema.required",
            tonic::Code::InvalidArgument,
        ),
        (
            "work.large",
            json!({"path": "gone"}),
            "effect.refused",
            "file.not_found",
            tonic::Code::PermissionDenied,
        ),
        (
            "work.large",
            json!({"path": "../x"}),
            "effect.refused",
            "file.traversal",
            tonic::Code::PermissionDenied,
        ),
        ("policy.undefined", json!({}), "policy.denied", "no_allow", tonic::Code::PermissionDenied),
        ("work.unbound", json!({}), "tool.not_granted", "", tonic::Code::PermissionDenied),
    ] {
        let refused = agent.call(tool, "", &args.to_string()).await.unwrap_err();
        assert_eq!(
            (refused.grpc, refused.code.as_str()),
            (grpc, code),
            "{tool} {args}: {refused:?}"
        );
        let said = refused.detail.as_str();
        assert!(detail.is_empty() || said == detail, "{tool} {args}: {refused:?}");
        let body = json!({"tool": tool, "arguments": args}).to_string();
        let lines = [("Authorization", bearer.as_str()), ("Accept", "application/json")];
        let problem = of_problem(&gate.post("/gate/v1/calls", &lines, body.as_bytes()).await);
        let status = Code::parse(code).unwrap().rule().wire.http;
        assert_eq!(
            problem,
            (status, (code.into(), said.into(), refused.message.clone())),
            "{body}"
        );
        let result = gate.call(tool, args.clone()).await.result();
        assert_eq!(result["isError"], true, "{result}");
        assert_eq!(result["_meta"]["wicketgate.dev/code"], code, "{tool} {args}: {result}");
        let finer = result["_meta"]["wicketgate.dev/detail"].as_str().unwrap_or_default();
        assert_eq!(finer, said, "{tool} {args}: {result}");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(
            text.contains(&format!("code {code}")) && text.contains(&refused.message),
            "{text}"
        );
        assert_eq!(text.starts_with("denied by policy"), code == "policy.denied", "{text}");
    }
    gate.checked().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_path_that_is_not_served_is_not_found_in_status_body_and_code() {
    let gate = gate().await;
    let door = gate.sidecar.operator_url();
    let door = Place::Tcp(door.strip_prefix("http://").unwrap().to_owned());
    let bearer = format!("Bearer {OTTO}");
    for path in
        ["/", "/gate/v2/tools", "/v1/nothing", "/v1/approvals/x", "/wicketgate.v1.Gate/OpenRun"]
    {
        let reply = gate.raw(&request("GET", path, &gate.lines(&[]), b"")).await.unwrap();
        if path.starts_with("/v1/") {
            // There agents speak the dialects of models.
            let code = reply.json()["error"]["code"].clone();
            assert_eq!((reply.status, code), (404, json!("route.unknown")), "{path}");
        } else {
            assert_eq!(of_problem(&reply).0, 404, "{path}");
            assert_eq!(of_problem(&reply).1.0, "route.unknown", "{path}");
        }
        let mut wire = Wire::open(&door).await;
        let lines = [("Host", "localhost"), ("Authorization", bearer.as_str())];
        wire.send(&request("GET", path, &lines, b"")).await;
        let reply = wire.reply().await.unwrap();
        assert_eq!(of_problem(&reply).0, 404, "{path}");
        assert_eq!(of_problem(&reply).1.0, "route.unknown", "{path}");
    }
    let reply = gate.raw(&request("POST", "/mcp/x", &gate.lines(&[]), b"{}")).await.unwrap();
    assert_eq!((of_rpc(&reply).0, of_rpc(&reply).1.0.as_str()), (404, "route.unknown"));
}
