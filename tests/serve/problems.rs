use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use tonic_types::StatusExt as _;
use wicketgate::domain::code::{Code, Retry, RpcStatus, Rule};
use wicketgate::domain::decision::LayerReason;
use wicketgate::domain::digest::Digest;
use wicketgate::domain::id::{CallId, ChainId};
use wicketgate::domain::time::Timestamp;
use wicketgate::ledger::permit::Receipt;
use wicketgate::serve::problem::Problem;

use crate::fault;

const GOLDEN: &str = include_str!("../golden/problems.txt");

fn full() -> Problem {
    let mut fault = fault(Code::CallHeld, "the call waits for an approval of `team-leads`");
    fault.detail = "approval.required".into();
    fault.call = CallId::parse("call-7");
    fault.reasons = vec![LayerReason {
        code: Code::CallHeld,
        detail: "amount".into(),
        message: "over 1,000".into(),
        rule: "wicketgate.org.require_approval".into(),
    }];
    fault.expires = Some(Timestamp::from_millis(1_790_000_000_123));
    fault.retry_after = Some(Duration::from_millis(1500));
    fault.receipt = Some(Receipt {
        binding: Some(wicketgate::domain::tier::Binding::Claimed),
        origin: Arc::from("gate.example/log"),
        chain: ChainId::from_bytes([0xab; 16]),
        seq: 41,
        leaf: Digest::from_bytes([0xcd; 32]),
        run_seq: 3,
    });
    fault.into()
}

fn render() -> String {
    let mut text = String::new();
    for code in Code::ALL {
        let Rule { wire, retry, title, .. } = code.rule();
        let problem = Problem::from(fault(*code, "m"));
        let status = problem.status();
        let info = status.get_details_error_info().unwrap();
        assert_eq!(status.code(), tonic::Code::from(wire.grpc as i32));
        assert_eq!((info.reason.as_str(), info.domain.as_str()), (code.as_str(), "wicketgate.dev"));
        assert_eq!(info.metadata["retry"], retry.as_str());
        assert_eq!(problem.response().status().as_u16(), wire.http);
        assert_eq!(problem.rpc_error()["code"], wire.rpc);
        let body: serde_json::Value = serde_json::from_str(problem.response().body()).unwrap();
        assert_eq!((&body["status"], &body["code"]), (&wire.http.into(), &code.as_str().into()));
        assert_eq!(problem.tool_meta()["wicketgate.dev/code"], code.as_str());
        assert_eq!(body["title"], title);
        let text = problem.tool_text();
        assert!(text.starts_with(&format!("{title}: m (code {code})")), "{text}");
    }
    let problem = full();
    let response = problem.response();
    writeln!(text, "# one problem with everything, as problem+json").unwrap();
    for (name, value) in response.headers() {
        writeln!(text, "{name}: {}", value.to_str().unwrap()).unwrap();
    }
    writeln!(text, "{}", response.body()).unwrap();
    writeln!(text, "\n# as JSON-RPC\n{}", problem.rpc_error()).unwrap();
    let status = problem.status();
    let info = status.get_details_error_info().unwrap();
    let facts: std::collections::BTreeMap<_, _> = info.metadata.into_iter().collect();
    writeln!(text, "\n# as gRPC: {:?}: {}", status.code(), status.message()).unwrap();
    let stamped = status.metadata().get("wicketgate-receipt").unwrap().to_str().unwrap();
    writeln!(text, "wicketgate-receipt: {stamped}").unwrap();
    writeln!(text, "retry in {:?}", status.get_details_retry_info().unwrap().retry_delay).unwrap();
    for (key, value) in facts {
        writeln!(text, "{key}: {value}").unwrap();
    }
    text
}

#[test]
fn every_code_is_rendered_as_the_contract_says() {
    let rendered = render();
    if rendered != GOLDEN {
        let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/problems.txt");
        std::fs::write(path, &rendered).unwrap();
        panic!("tests/golden/problems.txt differs; what is rendered now is in {path}\n{rendered}");
    }
}

#[test]
fn reasons_that_would_not_fit_into_trailers_are_counted_not_sent() {
    let mut problem = full();
    let mut reason = problem.reasons.remove(0);
    reason.message = "x".repeat(1000);
    problem.reasons = vec![reason; 50];
    problem.message = "é".repeat(5000);
    let status = problem.status();
    let info = status.get_details_error_info().unwrap();
    let sent: serde_json::Value = serde_json::from_str(&info.metadata["reasons"]).unwrap();
    let omitted: usize = info.metadata["reasons_omitted"].parse().unwrap();
    assert_eq!(sent.as_array().unwrap().len() + omitted, 50);
    assert!(status.details().len() < 6000 && status.message().len() <= 1024);
}

#[test]
fn a_held_call_is_accepted_and_an_unknown_one_is_never_retried() {
    assert_eq!(Code::CallHeld.rule().wire.http, 202);
    for code in Code::ALL {
        let safe = code.rule().retry == Retry::SameId;
        let unavailable = code.rule().wire.grpc == RpcStatus::Unavailable;
        assert_eq!(safe, unavailable, "`{code}`: clients retry UNAVAILABLE by themselves");
    }
}
