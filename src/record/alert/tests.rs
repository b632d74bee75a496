//! What raises an alert, when it comes again, and that a restart changes neither.

use std::time::Duration;

use super::*;
use crate::domain::code::Code;
use crate::domain::decision::Verdict;
use crate::domain::digest::Digest;
use crate::domain::id::ChainId;
use crate::domain::json::Json;
use crate::sample::body;
use crate::{Boot, Draft, Entry, Kind, RunLink};

fn run() -> RunId {
    RunId::from_random([7; 16])
}

fn reason(code: Code, detail: &str) -> Json {
    let text = |text: &str| Json::from(text);
    let of = [
        ("code", text(code.as_str())),
        ("detail", text(detail)),
        ("message", text("")),
        ("rule", text("")),
    ];
    Json::object(of.map(|(name, value)| (name.to_owned(), value)))
}

fn finding(class: &str, action: &str, confidence: &str) -> Json {
    let of = [
        ("action", action),
        ("class", class),
        ("confidence", confidence),
        ("kind", "k"),
        ("path", ""),
    ];
    Json::object(of.map(|(name, value)| (name.to_owned(), Json::from(value))))
}

fn denied(tool: &str, detail: &str) -> Draft {
    let reasons: Json = vec![reason(Code::EffectRefused, detail)].into();
    Draft {
        run: Some(run()),
        call: CallId::parse("c"),
        tool: ToolName::parse(tool),
        verdict: Some(Verdict::Deny),
        ..Draft::of(body(Kind::CallDenied, [("reasons", reasons)]))
    }
}

fn opened(mode: &str) -> Draft {
    let more = [("agent", Json::from("a")), ("mode", Json::from(mode))];
    Draft { run: Some(run()), ..Draft::of(body(Kind::RunOpened, more)) }
}

/// A chain in memory: the entries, and what the newest of them asks for.
struct AlertChain {
    entries: Vec<Entry>,
    watch: AlertWatch,
    rules: AlertRules,
}

impl AlertChain {
    fn new() -> Self {
        let mut book = Self {
            entries: Vec::new(),
            watch: AlertWatch::default(),
            rules: AlertRules::default(),
        };
        assert_eq!(book.add(0, opened("enforce")), []);
        book
    }

    /// Adds an entry at this second, and then the alerts that it asks for.
    fn add(&mut self, second: i64, draft: Draft) -> Vec<AlertRaised> {
        self.put(second, draft);
        let due = self.watch.due(&self.rules);
        due.iter().for_each(|alert| self.put(second, Draft::of(alert.clone())));
        due
    }

    fn put(&mut self, second: i64, draft: Draft) {
        let seq = u64::try_from(self.entries.len()).unwrap();
        let entry = Entry {
            chain: ChainId::from_bytes([1; 16]),
            epoch: 1,
            seq,
            prev: Digest::of(&[b"before"]),
            ts: Timestamp::from_millis(second * 1000),
            boot: Boot::from_random([0; 4]),
            mono: 1,
            run: draft.run.map(|run| RunLink { run, seq, prev: None }),
            draft,
        };
        self.watch.accept(&entry);
        self.entries.push(entry);
    }

    /// The gate starts again, and reads the entries.
    fn restart(&mut self) {
        self.watch = AlertWatch::default();
        self.entries.iter().for_each(|entry| self.watch.accept(entry));
    }
}

fn said(alerts: &[AlertRaised]) -> Vec<(&'static str, u64)> {
    alerts.iter().map(|alert| (alert.alert.as_str(), alert.count.get())).collect()
}

#[test]
fn the_alert_about_labels_alone_comes_once_in_a_run_and_one_about_a_copy_has_its_own_time() {
    let of = |tool: &str, detail: &str| {
        let reasons: Json = vec![reason(Code::CallHeld, detail)].into();
        let held = body(Kind::CallHeld, [("reasons", reasons)]);
        let (call, tool) = (CallId::parse("c"), ToolName::parse(tool));
        Draft { run: Some(run()), call, tool, ..Draft::of(held) }
    };
    let mut book = AlertChain::new();
    let first = book.add(1, of("t.one", "flow.label"));
    assert_eq!(said(&first), [("flow_label", 1)]);
    assert_eq!((first[0].severity, &first[0].tool), (AlertSeverity::Low, &None));
    assert_eq!(book.add(2, of("t.two", "flow.label")), []);
    book.restart();
    assert_eq!(book.add(3 * 3600, of("t.one", "flow.label")), []);
    assert_eq!(said(&book.add(3 * 3600 + 1, of("t.one", "flow.trifecta"))), [("trifecta", 1)]);
}

#[test]
fn an_alert_has_the_mark_of_what_was_found() {
    let mark = "00112233445566778899aabbccddeeff";
    let mut found = finding("secret", "block", "high");
    if let Json::Object(members) = &mut found {
        members.insert("mark".to_owned(), Json::from(mark));
    }
    let denied = body(Kind::CallDenied, [("findings", vec![found].into())]);
    let draft = Draft {
        run: Some(run()),
        call: CallId::parse("c"),
        tool: ToolName::parse("t.one"),
        ..Draft::of(denied)
    };
    let raised = AlertChain::new().add(1, draft);
    assert_eq!(raised[0].alert, AlertKind::SecretEgress);
    assert_eq!(raised[0].mark.as_deref(), Some(mark));
}

#[test]
fn details_are_sorted_and_each_stands_once() {
    let details: Vec<&str> = DETAILS.iter().map(|(detail, _)| *detail).collect();
    let mut sorted = details.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(details, sorted);
}

#[test]
fn a_detail_asks_for_its_alert_only_where_the_gate_itself_refuses() {
    let of = |code: Code, detail: &str| {
        let reasons: Json = vec![reason(code, detail)].into();
        let all = signals(&Draft::of(body(Kind::CallHeld, [("reasons", reasons)])));
        all.into_iter().find_map(|signal| match signal {
            AlertSignal::Alert(alert, _) => Some((alert, alert.severity())),
            AlertSignal::Denial | AlertSignal::Unscanned => None,
        })
    };
    for (detail, alert) in DETAILS {
        let found = of(Code::EffectRefused, detail).map(|(alert, _)| alert);
        assert_eq!(found, *alert, "{detail}");
        let by_policy = of(Code::PolicyDenied, detail).map(|(alert, _)| alert);
        let flows = detail.starts_with("flow.");
        assert_eq!(by_policy, alert.filter(|_| flows), "{detail}");
    }
    assert_eq!(of(Code::EffectRefused, "of.another.version"), None);
    assert_eq!(
        of(Code::EffectRefused, "flow.label").map(|(_, grade)| grade),
        Some(AlertSeverity::Low)
    );
}

#[test]
fn findings_ask_for_an_alert_by_class_direction_and_what_was_done() {
    let of = |name: &'static str, kind: Kind, one: Json| {
        let list: Json = vec![one].into();
        let more = match name {
            "findings" => (name, list),
            _ => ("observed", Json::object([("findings".to_owned(), list)])),
        };
        signals(&Draft::of(body(kind, [more])))
    };
    let sent = |one| of("findings", Kind::CallAuthorized, one);
    let answered = |one| of("observed", Kind::CallCompleted, one);
    let alert = |alert: AlertKind| vec![AlertSignal::Alert(alert, None)];
    let none = Vec::<AlertSignal>::new();
    assert_eq!(sent(finding("secret", "redact", "high")), alert(AlertKind::SecretEgress));
    assert_eq!(sent(finding("secret", "warn", "high")), none, "an operator opened the way");
    assert_eq!(sent(finding("secret", "redact", "low")), none);
    assert_eq!(answered(finding("secret", "redact", "high")), none, "it came in");
    assert_eq!(answered(finding("injection", "warn", "high")), alert(AlertKind::PromptInjection));
    assert_eq!(sent(finding("injection", "warn", "high")), alert(AlertKind::PromptInjection));
    assert_eq!(answered(finding("unscanned", "warn", "high")), [AlertSignal::Unscanned]);
    for class in ["personal", "unicode"] {
        assert_eq!(answered(finding(class, "warn", "high")), none);
    }
}

#[test]
fn an_alert_comes_once_and_again_after_the_quiet_time_with_the_count_in_between() {
    let mut book = AlertChain::new();
    let walk = || denied("file.read", "file.traversal");
    assert_eq!(said(&book.add(1, walk())), [("path_traversal", 1)]);
    assert_eq!(said(&book.add(2, walk())), []);
    // Another tool is another alert.
    assert_eq!(said(&book.add(3, denied("file.list", "file.symlink"))), [("path_traversal", 1)]);
    book.restart();
    assert_eq!(said(&book.add(4, walk())), [("repeated_denial", 3)]);
    assert_eq!(said(&book.add(600, walk())), []);
    let again = book.add(601, walk());
    assert_eq!(said(&again), [("path_traversal", 4)]);
    let alert = &again[0];
    assert_eq!(alert.since, Timestamp::from_millis(2000));
    assert!(alert.first < alert.last && alert.run == Some(run()), "{alert:?}");
}

#[test]
fn a_burst_is_so_many_denials_in_such_a_time() {
    let mut book = AlertChain::new();
    let tools = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    // One each 16 seconds: never five in a minute.
    for (n, tool) in (0_i64..).zip(tools) {
        assert_eq!(book.add(n * 16, denied(tool, "file.not_found")), []);
    }
    for (n, tool) in tools.iter().take(4).enumerate() {
        let second = 1000 + i64::try_from(n).unwrap();
        assert_eq!(book.add(second, denied(tool, "file.not_found")), []);
        book.restart();
    }
    assert_eq!(said(&book.add(1059, denied("k", "file.not_found"))), [("burst_denial", 5)]);
}

#[test]
fn a_run_that_only_simulates_is_not_watched() {
    let mut book = AlertChain::new();
    book.watch = AlertWatch::default();
    book.add(0, opened("simulate"));
    for second in 0..20 {
        assert_eq!(book.add(second, denied("file.read", "file.traversal")), []);
    }
}

/// A start at any place reads the same state from the entries as the gate had.
#[test]
fn alerts_are_the_same_however_often_the_gate_starts_again() {
    let details = ["file.traversal", "file.not_found", "sql.attach", "dlp.secret", "fetch.host"];
    let mut seed: u64 = 2026;
    let mut next = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((seed >> 33) % below).unwrap()
    };
    let (mut steady, mut restarting) = (AlertChain::new(), AlertChain::new());
    for book in [&mut steady, &mut restarting] {
        book.rules.quiet = Duration::from_secs(90);
    }
    let (mut second, mut alerts) = (0, 0);
    for _ in 0..400 {
        second += i64::try_from(next(40)).unwrap();
        let draft = denied(["x", "y"][next(2)], details[next(5)]);
        if next(3) == 0 {
            restarting.restart();
        }
        let due = steady.add(second, draft.clone());
        assert_eq!(restarting.add(second, draft), due);
        alerts += due.len();
    }
    assert!(alerts > 50, "{alerts}");
}
