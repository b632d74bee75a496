//! Many calls on one connection to a real child process, without the road: each call gets its own
//! response.

use std::path::{Path, PathBuf};

use futures_util::future::join_all;

use super::*;
use crate::catalog::server::{Isolation, Mcp, Stdio, Target, Transport};
use crate::domain::call::{CallOrigin, CallerAuth, ToolCall};
use crate::domain::digest::Digest;
use crate::domain::id::{CallId, RunId};
use crate::domain::outcome::{AnswerContent, Unmasked};

const AT_ONCE: usize = 64;
const EACH: usize = 1_563;

/// A child process that answers every call with the call's own text.
fn echo() -> Arc<Server> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/support/mcp_server.py");
    let stdio = Stdio {
        program: "python3".into(),
        args: vec![script.to_string_lossy().into_owned(), "stdio".into()],
        env: std::env::vars().collect(),
        secrets: Vec::new(),
        cwd: PathBuf::from("/"),
        isolation: Isolation::None { stated: true },
        path: None,
    };
    Arc::new(Server {
        name: "echo".into(),
        transport: Transport::Stdio(stdio),
        tier: None,
        timeout: Duration::from_secs(60),
        result_bytes_max: 1 << 20,
        tools: BTreeMap::new(),
        binding: Digest::of(&[b"echo"]),
        files: OnceLock::new(),
    })
}

fn call(text: &str) -> ToolCall {
    let asking = CallOrigin {
        run: RunId::from_random([7; 16]),
        id: CallId::parse("c1").unwrap(),
        after: 0,
        agent: "agent".into(),
        auth: CallerAuth::default(),
        traceparent: None,
    };
    ToolCall::parse(asking, "echo.act", format!(r#"{{"text":"{text}"}}"#).as_bytes()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_calls_sixty_four_at_once_each_get_their_own_answer() {
    let server = echo();
    let upstreams = Upstreams::new(&[Arc::clone(&server)]);
    let mcp = Mcp {
        server,
        target: Target::Tool("act".into()),
        mirrored: Vec::new(),
        pinned: br#"{"name":"act"}"#.as_slice().into(),
        signers: Vec::new().into(),
    };
    let upstream = upstreams.get("echo").unwrap();
    let tool = Arc::new(McpTool::new(Arc::clone(upstream), mcp, false, 1 << 20).unwrap());
    let link = upstream.supervisor.ready().await.unwrap();
    let callers = (0..AT_ONCE).map(|caller| {
        let (tool, link) = (Arc::clone(&tool), Arc::clone(&link));
        tokio::spawn(async move {
            for turn in 0..EACH {
                let text = format!("{caller}-{turn}");
                let outcome = tool.sent(&link, &call(&text)).await;
                let expected = format!(r#"{{"content": [{{"type": "text", "text": "{text}"}}]}}"#);
                let status = "ok".to_owned();
                let result = AnswerContent::Text(expected.into_bytes());
                assert_eq!(outcome, Unmasked::Completed { result, status });
            }
        })
    });
    for caller in join_all(callers).await {
        caller.unwrap();
    }
    upstreams.close().await;
}
