//! Codes: status on each wire, whether to try again, and what to do.

use std::fmt::Write as _;

use wicketgate::domain::code::{Code, Rule};

use super::begin;

const ABOUT: &str = "
Every refusal has one code. `detail` is a finer code (`json.duplicate_key`, `sql.relation`, `fetch.private_address`), `reasons` lists
the rules that decided, and `receipt` tells where the ledger entry is.

- **gRPC**: the status below with `google.rpc.ErrorInfo` {domain `wicketgate.dev`, reason: the code, metadata: `retry`, `detail`, `reasons`, `receipt`}.
- **HTTP** (operator API, `/mcp`): `application/problem+json` (RFC 9457) with the status below.
- **MCP**: a denied call is a tool error with code, reasons and receipt in `_meta`; other refusals are JSON-RPC errors with the same members in `data`.

Callers of every interface get the code that the ledger entry of a denial has. Every interface answers a wrong credential in the same way: `detail` says
whether it is missing, malformed, unknown or ambiguous.

`retry`: **no** repeating the call gives the same answer · **after** wait as long as the answer says · **same_id** repeat the call with the same id
(it runs at most once) · **new_id** make a new call with a new id · **poll** repeat the call with the same id until it is decided.

";

pub fn page() -> String {
    let mut page = begin("Errors", "`src/record/domain/code.rs`");
    page.push_str(ABOUT);
    page.push_str("| code | gRPC | HTTP | JSON-RPC | retry | what happened | what to do next |\n");
    page.push_str("|---|---|---|---|---|---|---|\n");
    for code in Code::ALL {
        let Rule { wire, retry, title, next, .. } = code.rule();
        let (grpc, retry) = (upper_snake(&format!("{:?}", wire.grpc)), retry.as_str());
        let (http, rpc) = (wire.http, wire.rpc);
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

#[test]
fn the_table_has_every_code_with_its_statuses_and_retry() {
    let page = page();
    assert_eq!(page.lines().filter(|line| line.starts_with("| `")).count(), Code::ALL.len());
    let row = "| `call.held` | FAILED_PRECONDITION | 202 | -32010 | poll | ";
    assert!(page.contains(row));
    for code in Code::ALL {
        assert!(code.rule().next.len() > 10, "{code}");
    }
}
