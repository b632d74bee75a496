//! Codes: status on each wire, whether to try again, and what to do.

use std::fmt::Write as _;

use wicketgate::domain::code::Code;
use wicketgate::serve::problem::rule;

use super::begin;

const ABOUT: &str = "
Every refusal carries one code. `detail` is finer (`json.duplicate_key`, `sql.relation`, `fetch.private_address`), `reasons` lists
the rules that decided, `receipt` says where the entry is.

- **gRPC**: the status below with `google.rpc.ErrorInfo` {domain `wicketgate.dev`, reason: the code, metadata: `retry`, `detail`, `reasons`, `receipt`}.
- **HTTP** (operator API, `/mcp`): `application/problem+json` (RFC 9457) with the status below.
- **MCP**: a denied call is a tool error with code, reasons and receipt in `_meta`; other refusals are JSON-RPC errors with the same in `data`.

A recorded denial has the code that was recorded, on every face. A missing, a malformed, an unknown and an ambiguous credential get the same answer.

`retry`: **no** the same call gets the same answer · **after** wait as long as the answer says · **same_id** ask again with the same call id,
it runs at most once · **new_id** ask again as a new call · **poll** ask for the same id until it is decided.

";

pub fn page() -> String {
    let mut page = begin("Errors", "`src/record/domain/code.rs` and `src/faces/serve/problem`");
    page.push_str(ABOUT);
    page.push_str("| code | gRPC | HTTP | JSON-RPC | retry | what happened | what to do next |\n");
    page.push_str("|---|---|---|---|---|---|---|\n");
    for code in Code::ALL {
        let rule = rule(*code);
        let (grpc, retry) = (upper_snake(&format!("{:?}", rule.grpc)), rule.retry.as_str());
        let (http, rpc, title, next) = (rule.http, rule.rpc, rule.title, next(*code));
        writeln!(page, "| `{code}` | {grpc} | {http} | {rpc} | {retry} | {title} | {next} |")
            .unwrap();
    }
    page
}

/// `InvalidArgument` as gRPC's own documents write it.
fn upper_snake(name: &str) -> String {
    let mut out = String::new();
    for (i, c) in name.chars().enumerate() {
        if i > 0 && c.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(c.to_ascii_uppercase());
    }
    out
}

/// What the caller, or the person who runs the gate, does about it. A new code does not compile without.
fn next(code: Code) -> &'static str {
    match code {
        Code::RequestMalformed => "correct the request: `detail` names the place",
        Code::IdentityMissing => {
            "show the agent's token or certificate, or use its socket with its uid"
        }
        Code::ManifestMismatch => {
            "claim the model and instructions of the signed manifest, or sign a new one"
        }
        Code::BindingInsufficient => {
            "use a face the manifest's `spec.binding` accepts, claim the model at `OpenRun`, or sign other terms"
        }
        Code::ToolNotGranted => {
            "list the tools; grant the tool in the manifest if the agent needs it"
        }
        Code::ArgumentsInvalid => "correct the arguments to the tool's schema",
        Code::EffectRefused => "choose another target; `detail` names the limit of the binding",
        Code::PolicyDenied => "read `reasons`: change the call, or go on without it",
        Code::PolicyError => {
            "policy author: explain the entry with `wicketgate policy eval --entry`"
        }
        Code::CallHeld => "wait for an approver, and ask for the same id",
        Code::LimitExceeded => "wait; raise the limit in the manifest or the pool if it is too low",
        Code::Overloaded => "ask again later; raise `limits.in_flight_max` if it stays",
        Code::Shutdown => "ask again: the gate restarts",
        Code::LedgerUnavailable => "operator: see `wicketgate control health`; nothing ran",
        Code::LedgerUnknown => {
            "ask again: the answer is the call's, or the proof that it never started"
        }
        Code::ToolFailed => "read `detail`; the call ran and failed",
        Code::CallUnknown => "look at the tool's own records before asking for the same again",
        Code::CallConflict => "choose a new call id",
        Code::CallNotFound => "check the id: the run has no such call",
        Code::CallResultUnavailable => {
            "use the receipt: the call ran, and its result was erased or not kept"
        }
        Code::RunUnknown => "open a run first",
        Code::RunSealed => "open a new run",
        Code::CallExpired => "ask again as a new call",
        Code::CallCancelled => "ask again as a new call, if it is still wanted",
        Code::OperatorForbidden => "use a login with the role that the message names",
        Code::ApprovalUnviewable => "refuse the call; `detail` says what cannot be shown",
        Code::NotReady => "operator: `/readyz` lists the reasons",
        Code::RouteUnknown => "check the method or the path",
    }
}

#[test]
fn the_table_has_every_code_with_its_statuses_and_retry() {
    let page = page();
    assert_eq!(page.lines().filter(|line| line.starts_with("| `")).count(), Code::ALL.len());
    let row = "| `call.held` | FAILED_PRECONDITION | 202 | -32010 | poll | the call waits for an approval |";
    assert!(page.contains(row));
    for code in Code::ALL {
        assert!(next(*code).len() > 10, "{code}");
    }
}
