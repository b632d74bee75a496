//! Break-glass and clocks that are set: what has ended does not begin again, and what nobody reviewed is told.

use std::sync::Arc;
use std::time::Duration;

use wicketgate::approval::approvers::Purpose;
use wicketgate::approval::break_glass::{
    self, BreakGlassStatement, NAMESPACE, Open, SignedBreakGlass, Terms,
};
use wicketgate::approval::sign::{Key, sign_bytes};
use wicketgate::approval::{ApprovalRefusal, Approvers, Statement as _};
use wicketgate::clock::{Clock as _, SystemClock, SystemEntropy};
use wicketgate::control::{Order, Orders};
use wicketgate::crypto::keys::SecretKey;
use wicketgate::crypto::openssh;
use wicketgate::domain::code::Code;
use wicketgate::domain::decision::{LayerReason, Verdict};
use wicketgate::domain::id::ToolName;
use wicketgate::domain::json::Json;
use wicketgate::domain::time::Timestamp;
use wicketgate::enforce::{self, Breaker};
use wicketgate::policy::{Answer, PolicyEngine};
use wicketgate_support::memory;
use wicketgate_support::memory::orders::MemoryControl;

use crate::control::given;
use crate::inside;
use crate::road::{Before, Bench, Serving};

const MINUTE: i64 = 60;
const DAY: i64 = 24 * 60 * MINUTE;

/// Lets nothing run without an approver, unless glass was broken.
fn asks() -> Arc<dyn PolicyEngine> {
    inside::engine(|input| {
        if input["break_glass"]["open"] != false {
            return Ok(inside::allowed());
        }
        let reason = LayerReason {
            code: Code::PolicyDenied,
            detail: "somebody".into(),
            message: "somebody has to look".into(),
            rule: "test".into(),
        };
        let (verdict, reasons) = (Verdict::RequireApproval, vec![reason]);
        Ok(Answer { verdict, reasons, ..inside::allowed() })
    })
}

/// Harry and Iris, whose keys break glass.
#[derive(Clone, Debug)]
struct Holders {
    keys: Vec<SecretKey>,
    list: Approvers,
}

impl Holders {
    fn new() -> Holders {
        let dir = tempfile::tempdir().unwrap();
        let (mut keys, mut text) = (Vec::new(), String::new());
        for name in ["harry", "iris"] {
            let key = SecretKey::generate(&SystemEntropy);
            openssh::store(&key, &dir.path().join(name), name).unwrap();
            let line = std::fs::read_to_string(dir.path().join(format!("{name}.pub"))).unwrap();
            let public: Vec<&str> = line.split_whitespace().take(2).collect();
            text.push_str(&format!(
                "{name} namespaces=\"{NAMESPACE}\" {} roles=break_glass\n",
                public.join(" ")
            ));
            keys.push(key);
        }
        let list = Approvers::parse_for(Purpose::BreakGlass, text.as_bytes()).unwrap();
        Holders { keys, list }
    }

    /// Both sign that `t.one` needs no approver from this second of now to that.
    fn sign(&self, from: i64, to: i64) -> (BreakGlassStatement, SignedBreakGlass) {
        let at = |seconds: i64| {
            Timestamp::from_millis(SystemClock::new().now().millis() + seconds * 1000)
        };
        let statement = BreakGlassStatement {
            tenant: "default".into(),
            agent: "test-agent".into(),
            tools: vec![ToolName::parse("t.one").unwrap()],
            reason: "nobody answers".into(),
            not_before: at(from),
            expires: at(to),
            nonce: hex::encode(wicketgate::clock::random16(&SystemEntropy)),
        };
        let bytes = statement.bytes();
        let sign = |key: &SecretKey| sign_bytes(&Key::File(key.clone()), NAMESPACE, &bytes);
        let signatures = self.keys.iter().map(|key| sign(key).unwrap()).collect();
        let signed =
            SignedBreakGlass { statement: String::from_utf8(bytes.clone()).unwrap(), signatures };
        (statement, signed)
    }
}

impl Breaker for Holders {
    fn check(&self, signed: &SignedBreakGlass, now: Timestamp) -> Result<Open, ApprovalRefusal> {
        let terms = Terms { tenant: "default".into(), quorum: 2, minutes: 60 };
        break_glass::check(&terms, &self.list, signed, now)
    }
}

/// A gate, its list, and those who break glass.
struct Gate {
    serving: Serving,
    list: Arc<MemoryControl>,
    holders: Holders,
    bench: Arc<Bench>,
}

impl Gate {
    async fn new() -> Gate {
        Self::of(Arc::new(MemoryControl::default()), Holders::new(), 0).await
    }

    /// A gate of the same place that begins with its clock set like this: a new life on the same list.
    async fn again(self, clock: i64) -> Gate {
        let Gate { serving, list, holders, .. } = self;
        drop(serving);
        Self::of(list, holders, clock).await
    }

    async fn of(list: Arc<MemoryControl>, holders: Holders, clock: i64) -> Gate {
        let (bench, orders) = (Bench::new(), Arc::clone(&list));
        let breaker: Arc<dyn Breaker> = Arc::new(holders.clone());
        let before = Before { clock, breaker: Some(breaker), engine: asks() };
        let (store, settings) =
            (Arc::new(memory::MemoryStore::new()), enforce::Settings::default());
        let serving = Serving::start_with(store, &bench, settings, |_| orders as _, before).await;
        Gate { serving, list, holders, bench }
    }

    /// Both sign, somebody brings it, and this gate obeys.
    async fn breaks(&self, from: i64, to: i64) -> BreakGlassStatement {
        let (statement, signed) = self.holders.sign(from, to);
        self.obeys(Order::BreakGlass(signed)).await;
        statement
    }

    async fn obeys(&self, order: Order) {
        let now = SystemClock::new().now();
        let seq = self.list.put(now, &given(), &order).await.unwrap();
        crate::until("the gate to obey", || async {
            !self.list.reports(seq).await.unwrap().is_empty()
        })
        .await;
        for report in self.list.reports(seq).await.unwrap() {
            assert_eq!(report.done.get("error"), None::<&Json>, "{report:?}");
        }
    }

    /// Whether a call needs no approver now, judged by what reaches the tool.
    async fn is_open(&self) -> bool {
        let (run, before) = (self.serving.open().await.unwrap(), self.bench.count());
        match self.serving.call(&run, "t.one").await {
            Ok(()) => {
                // What waited before the order runs too.
                assert!(self.bench.count() > before);
                true
            }
            Err((code, _)) => {
                assert_eq!((code.as_str(), self.bench.count()), ("call.held", before));
                false
            }
        }
    }

    fn notes(&self) -> String {
        self.serving.road.control().notes().join("\n")
    }
}

const LATE: &str = "was not reviewed within 24 hours";

#[tokio::test]
async fn a_clock_that_is_set_back_before_the_order_ends_it_for_good() {
    let gate = Gate::new().await;
    assert!(!gate.is_open().await);
    gate.breaks(-5 * MINUTE, 10 * MINUTE).await;
    assert!(gate.is_open().await);
    // Or it would reach the tool while the next call is looked at.
    crate::until("what waited to run too", || async { gate.bench.count() == 2 }).await;
    gate.serving.clock.set(-2 * MINUTE);
    assert!(!gate.is_open().await, "the order is not given yet");
    gate.serving.clock.set(0);
    assert!(!gate.is_open().await, "what ended does not begin again");
}

#[tokio::test]
async fn a_clock_that_is_set_over_the_end_ends_it_and_setting_it_back_opens_nothing() {
    let gate = Gate::new().await;
    gate.breaks(-MINUTE, 10 * MINUTE).await;
    assert!(gate.is_open().await);
    gate.serving.clock.set(10 * MINUTE + 1);
    assert!(!gate.is_open().await);
    gate.serving.clock.set(0);
    assert!(!gate.is_open().await);
    // A new order, on a clock that is right again, opens.
    gate.breaks(-MINUTE, 10 * MINUTE).await;
    assert!(gate.is_open().await);
}

#[tokio::test]
async fn a_clock_that_is_set_back_within_the_window_makes_it_no_longer() {
    let gate = Gate::new().await;
    gate.breaks(-5 * MINUTE, 10 * MINUTE).await;
    gate.serving.clock.set(-30);
    assert!(gate.is_open().await, "half a minute is what two clocks may differ by");
    gate.serving.clock.forward(Duration::from_secs(10 * 60));
    assert!(!gate.is_open().await, "ten minutes have passed, whatever the clock shows");
}

#[tokio::test]
async fn a_clock_that_is_behind_or_ahead_when_the_order_comes_opens_nothing() {
    for (clock, from, to) in [(-10 * MINUTE, -MINUTE, 10 * MINUTE), (MINUTE, -10 * MINUTE, 30)] {
        let gate = Gate::of(Arc::default(), Holders::new(), clock).await;
        let (_, signed) = gate.holders.sign(from, to);
        let now = SystemClock::new().now();
        let seq = gate.list.put(now, &given(), &Order::BreakGlass(signed)).await.unwrap();
        crate::until("the gate to answer", || async {
            !gate.list.reports(seq).await.unwrap().is_empty()
        })
        .await;
        let done = gate.list.reports(seq).await.unwrap().remove(0).done;
        assert!(done.get("error").is_some(), "{done:?}");
        gate.serving.clock.set(0);
        assert!(!gate.is_open().await, "and it does not open later by itself");
        assert!(!gate.notes().contains(LATE));
    }
}

#[tokio::test]
async fn what_ended_before_a_restart_stays_ended_on_a_clock_that_was_set_back_meanwhile() {
    let gate = Gate::new().await;
    let statement = gate.breaks(-MINUTE, 10 * MINUTE).await;
    assert!(gate.is_open().await);
    let gate = gate.again(0).await;
    assert!(gate.is_open().await, "a restart alone ends nothing");
    gate.serving.clock.set(11 * MINUTE);
    assert!(!gate.is_open().await);
    crate::until("the gate to show itself after the end", || async {
        gate.list.shown().await.unwrap().iter().any(|shown| shown.at > statement.expires)
    })
    .await;
    let gate = gate.again(0).await;
    assert!(!gate.is_open().await, "the list has seen its end");
}

#[tokio::test]
async fn an_unreviewed_break_glass_order_is_reported_after_a_day_even_after_a_restart() {
    let gate = Gate::new().await;
    let statement = gate.breaks(-MINUTE, 10 * MINUTE).await;
    gate.serving.clock.set(DAY);
    assert!(!gate.notes().contains(LATE), "a day has not passed since its end: {}", gate.notes());
    gate.serving.clock.set(DAY + 11 * MINUTE);
    assert!(gate.notes().contains(LATE), "{}", gate.notes());
    let gate = gate.again(DAY + 11 * MINUTE).await;
    assert!(gate.notes().contains(LATE), "{}", gate.notes());
    assert!(!gate.is_open().await);
    gate.obeys(Order::ReviewBreakGlass { nonce: statement.nonce }).await;
    assert!(!gate.notes().contains(LATE), "{}", gate.notes());
    let gate = gate.again(DAY + 11 * MINUTE).await;
    assert!(!gate.notes().contains(LATE), "{}", gate.notes());
}
