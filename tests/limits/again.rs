//! The same call under another id: the first one within its tool's window, and a call of its own beyond it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use wicketgate::clock::{Clock, SystemClock};
use wicketgate::domain::code::Code;
use wicketgate::domain::time::Timestamp;
use wicketgate::enforce::{Answer, Bounds, CallRequest, Run, Thread};
use wicketgate_support::memory::MemoryStore;

use crate::in_process::Gate;
use crate::settings::{bind, entries};
use crate::sidecar::Estate;
use crate::tool::Tool;

/// The machine's clock, and how far a test has set it on.
#[derive(Debug)]
struct Ahead(SystemClock, Mutex<Duration>);

impl Clock for Ahead {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn monotonic(&self) -> Duration {
        self.0.monotonic().saturating_add(*self.1.lock())
    }
}

const WINDOW: Duration = Duration::from_secs(600);

async fn call(gate: &Gate, run: &Arc<Run>, id: &str, args: &str) -> Answer {
    let (tool, arguments, call_id) = ("t".to_owned(), args.into(), id.to_owned());
    let request = CallRequest { tool, arguments, call_id, ..CallRequest::default() };
    gate.road.execute(run, request).await
}

#[tokio::test]
async fn dedupe_lasts_for_its_window_and_a_denied_call_is_decided_again() {
    let (clock, count) = (Arc::new(Ahead(SystemClock::new(), Mutex::default())), Arc::default());
    let of = (Arc::new(MemoryStore::new()) as _, Bounds::default(), Some(WINDOW));
    let gate = Gate::by(Arc::clone(&clock) as _, of, &count).await;
    let ran = |count: &Arc<AtomicU64>| count.load(Ordering::SeqCst);
    let run = gate.run().await;
    let first = call(&gate, &run, "a", r#"{"n":1}"#).await.unwrap();
    let again = call(&gate, &run, "b", r#"{ "n" : 1 }"#).await.unwrap();
    assert_eq!((again.receipt(), ran(&count)), (first.receipt(), 1));
    // Other arguments, and another run.
    call(&gate, &run, "c", r#"{"n":2}"#).await.unwrap();
    let other = gate.run_of(&Thread::Named("other".into())).await;
    call(&gate, &other, "a", r#"{"n":1}"#).await.unwrap();
    assert_eq!(ran(&count), 3);

    // What was denied is decided again.
    let denied = |answer: Answer| {
        let fault = answer.unwrap_err();
        assert_eq!(fault.code, Code::PolicyError);
        fault.receipt.unwrap().seq
    };
    let one = denied(call(&gate, &run, "d", r#"{"deny":true}"#).await);
    let two = denied(call(&gate, &run, "e", r#"{"deny":true}"#).await);
    assert!(two > one);

    *clock.1.lock() = WINDOW;
    let later = call(&gate, &run, "f", r#"{"n":1}"#).await.unwrap();
    assert_ne!(later.receipt(), first.receipt());
    assert_eq!(ran(&count), 4);
    // An id that was the first call is that for good, and other bytes under it conflict.
    let again = call(&gate, &run, "b", r#"{"n":1}"#).await.unwrap();
    assert_eq!(again.receipt(), first.receipt());
    assert_eq!(gate.road.call(&run, "b").await.unwrap().receipt(), first.receipt());
    let fault = call(&gate, &run, "b", r#"{"n":2}"#).await.unwrap_err();
    assert_eq!((fault.code, ran(&count)), (Code::CallConflict, 4));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_under_another_id_runs_once_where_its_binding_says_so_and_never_otherwise() {
    for (window, most) in [(json!(600_000), 1), (json!(null), 2)] {
        let tool = Tool::start().await;
        let estate = Estate::sqlite(&tool);
        bind(&estate, "dedupe_ms", &window);
        let sidecar = estate.serve().await;
        let agent = sidecar.open().await;
        let (a, b) = tokio::join!(
            agent.call("work.do", "a", r#"{"n":1}"#),
            agent.call("work.do", "b", r#"{"n":1}"#),
        );
        drop((a.unwrap(), b.unwrap()));
        assert_eq!(tool.count(), most, "{window}");
        assert_eq!(entries(&estate, "call.authorized").len(), usize::try_from(most).unwrap());
        agent.call("work.do", "c", r#"{"n":2}"#).await.unwrap();
        sidecar.open().await.call("work.do", "d", r#"{"n":1}"#).await.unwrap();
        assert_eq!(tool.count(), most + 2, "{window}");
    }
}
