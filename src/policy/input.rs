//! The input document: closed, typed, versioned; its canonical bytes are stored with the decision.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::approval::Approval;
use crate::approval::break_glass::Open;
use crate::domain::call::ToolCall;
use crate::domain::canonical;
use crate::domain::digest::Digest;
use crate::domain::effect::Effect;
use crate::domain::facts::{Finding, ToolFacts};
use crate::domain::id::RunId;
use crate::domain::json::Json;
use crate::domain::tier::Binding;
use crate::domain::time::Timestamp;
use crate::firewall::class_of;
use crate::flow::{TaintFacts, TaintInput};
use crate::record::TaggedDigest;
use crate::record::trust::{TrustCount, TrustWindow};

/// Version of the input document (`input.v`).
pub const VERSION: &str = "wicketgate/input/2";
/// The version before, which had no [`taint`](TaintInput).
pub const VERSION_1: &str = "wicketgate/input/1";

/// Whether this build decides about documents of this version.
#[must_use]
pub fn is_known(version: &str) -> bool {
    [VERSION, VERSION_1].contains(&version)
}

/// The caller (`input.agent`).
#[derive(Clone, PartialEq, Debug)]
pub struct AgentFacts {
    /// `metadata.name` of the manifest.
    pub id: String,
    /// `metadata.version`.
    pub version: String,
    /// `metadata.owner`.
    pub owner: String,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// SHA-256 of the manifest's exact bytes.
    pub manifest: Digest,
    /// How model and instructions are known.
    pub binding: Binding,
    /// The weakest binding with which a T3 tool may be called: the manifest's, or a stricter one of
    /// a run above.
    pub tier3: Binding,
    /// The runs above this one, from the root run to the parent (`input.agent.delegation`).
    pub delegation: Vec<Delegator>,
}

/// A run that delegated, and the agent it ran (`input.agent.delegation[]`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Delegator {
    /// `metadata.name` of its manifest.
    pub id: String,
    /// `metadata.version`.
    pub version: String,
    /// SHA-256 of the manifest's exact bytes.
    pub manifest: Digest,
    /// The run.
    pub run: RunId,
}

/// The run so far (`input.run`, `input.context`, `input.history`).
#[derive(Clone, PartialEq, Debug)]
pub struct RunFacts {
    /// The run.
    pub id: RunId,
    /// `enforce` or `simulate`.
    pub mode: String,
    /// Whether only commitments to its payloads are kept.
    pub incognito: bool,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// Calls asked for before this one.
    pub calls: u64,
    /// Calls of this run that failed or are unknown.
    pub errors: u64,
    /// Calls of this run that were denied.
    pub denied: u64,
    /// The cost of its calls so far, as far as bindings state it; millionths of a US dollar.
    pub cost: u64,
    /// What is left of the pools that cover this call.
    pub pools: Vec<PoolInput>,
    /// Labels given at `OpenRun`: claims.
    pub labels: BTreeMap<String, String>,
    /// Facts the sidecar vouches for: pod, namespace, environment.
    pub attested: BTreeMap<String, String>,
    /// What the run has read, and what of that is in the call.
    pub taint: TaintFacts,
    /// How the calls of the tool ended, if policies see that (`input.tool.trust`).
    pub trust: Option<ToolTrust>,
    /// In a replay, what the recording says of the search of the call.
    pub searched: Option<FirewallInput>,
}

/// What else a decision depends on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Circumstances<'a> {
    /// The time in the policy's input.
    pub now: Timestamp,
    /// The layers in observe mode.
    pub observe: &'a [&'static str],
    /// Who approved the call.
    pub approvals: &'a [Approval],
    /// The layers that count approvers for themselves.
    pub by_hand: &'a [&'static str],
    /// The break-glass order that replaces the approvers, if the policy is evaluated with one.
    pub break_glass: Option<&'a Open>,
}

/// The call, as it was prepared (`input.call`, `input.args`, `input.effect`, `input.findings`).
#[derive(Clone, Copy, Debug)]
pub struct CallInput<'a> {
    /// The call.
    pub call: &'a ToolCall,
    /// Canonical arguments in which messages that the run sent before are left out; the call's own
    /// if nothing is.
    pub shown: Option<&'a [u8]>,
    /// What it would touch.
    pub effect: &'a Effect,
    /// What the firewall saw.
    pub findings: &'a [Finding],
    /// How it searched.
    pub firewall: FirewallInput,
}

/// `input.firewall`: how the arguments of the call were searched.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FirewallInput {
    /// Whether the search came to its end. Where it did not, there may be more than the findings say.
    pub complete: bool,
    /// Whether the policy is shown masks in place of something that was found.
    pub masked: bool,
    /// Digest of the rules that were searched with.
    pub rules: TaggedDigest,
}

impl FirewallInput {
    /// A search with these rules that found this.
    #[must_use]
    pub fn of(rules: Digest, masked: bool, findings: &[Finding]) -> Self {
        let complete = !findings.iter().any(Finding::is_cut);
        Self { complete, masked, rules: TaggedDigest(rules) }
    }

    fn write(&self, out: &mut canonical::Members) {
        out.put("complete", &Json::from(self.complete));
        out.put("masked", &Json::from(self.masked));
        out.text("rules", &self.rules.to_string());
    }
}

/// One pool that covers the call, as a policy sees it (`input.pools[]`).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PoolInput {
    /// The pool.
    pub name: String,
    /// `requests`, `cost_micro_usd` or `concurrency`.
    pub unit: String,
    /// What is left of the window in thousandths, this call taken off: what this gate holds, and
    /// what no gate held when it last asked.
    pub left_permille: u64,
    /// Units of a window.
    pub size: u64,
}

/// A recorded document, with the members that an audit, a replay or a backtest needs. Earlier
/// versions had fewer.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Document {
    /// [`VERSION`].
    pub v: Option<String>,
    /// The caller.
    pub agent: Agent,
    /// The run so far.
    pub run: Counters,
    /// The run so far, a second time, with its denials.
    pub history: Counters,
    /// The tool.
    pub tool: Tool,
    /// What the call would touch.
    pub effect: Option<Json>,
    /// What the sidecar vouched for.
    pub context: AttestedFacts,
    /// The time of the call.
    pub time: Time,
    /// What the firewall saw.
    pub findings: Vec<Finding>,
    /// How it searched; earlier inputs did not tell.
    pub firewall: Option<FirewallInput>,
    /// Who had approved the call.
    pub approvals: Vec<Approval>,
    /// The break-glass order in force at the call.
    pub break_glass: Option<BreakGlassInput>,
    /// What was left of the pools.
    pub pools: Vec<PoolInput>,
    /// The layers that observed.
    pub observe: Vec<String>,
    /// What the run had read, and what of that was in the call; absent in version 1.
    pub taint: Option<TaintInput>,
}

/// `input.agent` of a recorded document.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Agent {
    /// `metadata.name` of its manifest.
    pub id: String,
    /// SHA-256 of the manifest.
    pub manifest: Option<TaggedDigest>,
}

/// `input.run` and `input.history` of a recorded document.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Counters {
    /// Calls asked for before.
    pub calls: u64,
    /// Calls that failed or are unknown.
    pub errors: u64,
    /// Calls that were denied.
    pub denied: u64,
    /// What its calls cost, in millionths of a US dollar.
    pub cost: u64,
}

/// `input.tool` of a recorded document.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: String,
    /// Its tier; a later version may have other ones than this one.
    pub tier: Option<String>,
    /// How its calls ended, if policies see that.
    pub trust: Option<ToolTrust>,
}

/// `input.tool.trust`: how the calls of the tool ended, as this chain had recorded them up to an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToolTrust {
    /// Calls that ended, within the window.
    pub calls: u64,
    /// Only calls that ended within so many days count.
    pub days: u64,
    /// Whether enough calls ended for a score.
    pub rated: bool,
    /// The score in thousandths; 0 if there is none.
    pub score: u64,
    /// The last entry that was counted.
    pub through: u64,
    /// Calls that ended well.
    pub well: u64,
    /// At most so many calls count, the newest.
    pub window: u64,
}

impl ToolTrust {
    /// These calls, counted up to this entry.
    pub fn of(count: TrustCount, window: TrustWindow, through: u64) -> Self {
        let (score, TrustCount { calls, well }) = (count.score(), count);
        let (rated, score) = (score.is_some(), score.unwrap_or_default());
        Self { calls, days: window.days, rated, score, through, well, window: window.calls }
    }

    /// Which calls count.
    pub const fn window(&self) -> TrustWindow {
        TrustWindow { calls: self.window, days: self.days }
    }

    fn write(&self, out: &mut canonical::Members) {
        out.put("calls", &Json::from(self.calls));
        out.put("days", &Json::from(self.days));
        out.put("rated", &Json::from(self.rated));
        out.put("score", &Json::from(self.score));
        out.put("through", &Json::from(self.through));
        out.put("well", &Json::from(self.well));
        out.put("window", &Json::from(self.window));
    }
}

/// `input.context` of a recorded document.
#[derive(Clone, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default)]
pub struct AttestedFacts {
    /// Facts the sidecar vouches for.
    pub attested: BTreeMap<String, String>,
}

/// `input.time` of a recorded document.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Time {
    /// The instant.
    pub rfc3339: Option<Timestamp>,
}

/// `input.break_glass`: the break-glass order in force for this decision, if any.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BreakGlassInput {
    /// Whether there is one.
    pub open: bool,
    /// The nonce of its statement; empty without one.
    pub nonce: String,
    /// When it ends; empty without one.
    pub until: String,
    /// Who signed it.
    pub by: Vec<String>,
}

impl From<Option<&Broken>> for BreakGlassInput {
    fn from(order: Option<&Broken>) -> Self {
        Self {
            open: order.is_some(),
            nonce: order.map_or_else(String::new, |order| order.nonce.clone()),
            until: order.map_or_else(String::new, |order| order.until.to_string()),
            by: order.map_or_else(Vec::new, |order| order.by.clone()),
        }
    }
}

/// The canonical bytes of the document about one call.
pub fn document(
    agent: &AgentFacts,
    run: &RunFacts,
    tool: &ToolFacts,
    call: &CallInput<'_>,
    circumstances: &Circumstances<'_>,
) -> Vec<u8> {
    let args = call.shown.unwrap_or_else(|| call.call.canonical());
    let mut document = canonical::Members::with_capacity(args.len().saturating_add(1536));
    document.object("agent", |out| agent.write(out));
    document.put(
        "approvals",
        &circumstances.approvals.iter().map(approval_json).collect::<Vec<_>>().into(),
    );
    document.written("args", args);
    document.put("break_glass", &break_glass_json(circumstances.break_glass.map(broken).as_ref()));
    document.object("call", |out| out.text("id", call.call.id().as_str()));
    document.object("context", |out| {
        out.texts("attested", &run.attested);
        out.texts("claimed", &run.labels);
    });
    document.put("effect", &call.effect.to_json());
    document.list("findings", call.findings, |out, finding| {
        if let Some(class) = class_of(&finding.kind) {
            out.text("class", class.as_str());
        }
        if let Some(confidence) = finding.confidence {
            out.text("confidence", confidence.as_str());
        }
        if let Some(how) = finding.how {
            out.text("how", how.as_str());
        }
        out.text("kind", &finding.kind);
        if let Some(mark) = finding.mark {
            out.text("mark", &mark.to_string());
        }
        out.text("path", &finding.path);
        out.text("since", finding.since.as_str());
    });
    document.object("firewall", |out| run.searched.unwrap_or(call.firewall).write(out));
    document.object("history", |out| {
        out.put("calls", &Json::from(run.calls));
        out.put("denied", &Json::from(run.denied));
        out.put("errors", &Json::from(run.errors));
    });
    document.put("observe", &Json::of(&circumstances.observe));
    document.list("pools", &run.pools, |out, pool| {
        out.put("left_permille", &Json::from(pool.left_permille));
        out.text("name", &pool.name);
        out.put("size", &Json::from(pool.size));
        out.text("unit", &pool.unit);
    });
    document.put("quorum", &quorum_json(circumstances.by_hand));
    document.object("run", |out| run.write(out));
    document.object("taint", |out| run.taint.input(tool.roles.egress).write(out));
    document.put("time", &time_json(circumstances.now));
    document.object("tool", |out| {
        out.text("definition", &tool.definition.prefixed());
        out.text("kind", &tool.kind);
        out.text("name", tool.name.as_str());
        out.put("read_only", &Json::from(tool.read_only));
        out.text("tier", tool.tier.as_str());
        if let Some(trust) = &run.trust {
            out.object("trust", |out| trust.write(out));
        }
    });
    document.text("v", VERSION);
    document.finish()
}

impl AgentFacts {
    fn write(&self, out: &mut canonical::Members) {
        out.text("binding", self.binding.as_str());
        out.list("delegation", &self.delegation, |out, above| {
            out.text("id", &above.id);
            out.text("manifest", &above.manifest.prefixed());
            out.text("run", &above.run.to_string());
            out.text("version", &above.version);
        });
        out.text("id", &self.id);
        out.texts("labels", &self.labels);
        out.text("manifest", &self.manifest.prefixed());
        out.text("owner", &self.owner);
        out.text("tier3", self.tier3.as_str());
        out.text("version", &self.version);
    }
}

impl RunFacts {
    fn write(&self, out: &mut canonical::Members) {
        out.put("calls", &Json::from(self.calls));
        out.put("cost", &Json::from(self.cost));
        out.put("errors", &Json::from(self.errors));
        out.text("id", &self.id.to_string());
        out.put("incognito", &Json::from(self.incognito));
        out.texts("labels", &self.labels);
        out.text("mode", &self.mode);
        out.text("opened_at", &self.opened_at.to_string());
    }
}

/// The layers that count approvers for themselves, as the policy sees them.
pub fn quorum_json(by_hand: &[&str]) -> Json {
    Json::object([("by_hand", Json::of(&by_hand))])
}

/// A break-glass order in a policy's input and in an entry: its nonce, its end, and who signed it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Broken {
    /// The nonce of its statement.
    pub nonce: String,
    /// When it ends.
    pub until: Timestamp,
    /// The distinct subjects who signed it, sorted.
    pub by: Vec<String>,
}

/// The facts of this order for a policy and an entry.
pub fn broken(open: &Open) -> Broken {
    Broken {
        nonce: open.statement.nonce.clone(),
        until: open.statement.expires,
        by: open.subjects().into_iter().map(str::to_owned).collect(),
    }
}

/// The break-glass order in force for this decision, if any (`input.break_glass`).
pub fn break_glass_json(open: Option<&Broken>) -> Json {
    Json::of(&BreakGlassInput::from(open))
}

/// One approval, as the policy sees it.
pub fn approval_json(approval: &Approval) -> Json {
    let mut members = vec![
        ("approver", Json::from(approval.subject.as_str())),
        ("roles", Json::of(&approval.roles)),
        ("key", Json::from(approval.key.as_str())),
    ];
    members.extend(approval.key_kind.map(|kind| ("key_kind", Json::from(kind.as_str()))));
    Json::object(members)
}

/// UTC, so that a recorded input means the same everywhere.
pub fn time_json(now: Timestamp) -> Json {
    let zoned = now.to_jiff().to_zoned(jiff::tz::TimeZone::UTC);
    let weekday = match zoned.weekday() {
        jiff::civil::Weekday::Monday => "monday",
        jiff::civil::Weekday::Tuesday => "tuesday",
        jiff::civil::Weekday::Wednesday => "wednesday",
        jiff::civil::Weekday::Thursday => "thursday",
        jiff::civil::Weekday::Friday => "friday",
        jiff::civil::Weekday::Saturday => "saturday",
        jiff::civil::Weekday::Sunday => "sunday",
    };
    Json::object([
        ("rfc3339", Json::from(now.to_string())),
        ("unix", Json::Int(now.seconds())),
        ("weekday", Json::from(weekday)),
        ("hour", Json::Int(zoned.hour().into())),
        ("minute", Json::Int(zoned.minute().into())),
        ("tz", Json::from("UTC")),
    ])
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::domain::call::{CallOrigin, CallerAuth};
    use crate::domain::facts::{FindingAge, FindingMark, How};
    use crate::domain::id::{CallId, ToolName};
    use crate::domain::json::{Limits, json};
    use crate::domain::taint::{Label, LabelOrigin};
    use crate::domain::tier::Tier;
    use crate::lint::schema;
    use crate::record::approval::KeyKind;

    fn texts<const N: usize>(texts: [(&str, &str); N]) -> BTreeMap<String, String> {
        texts.map(|(name, text)| (name.to_owned(), text.to_owned())).into()
    }

    fn agent(run: RunId) -> AgentFacts {
        let above = Delegator {
            id: "lead".into(),
            version: "2.0.0".into(),
            manifest: Digest::of(&[b"lead"]),
            run,
        };
        AgentFacts {
            id: "agent".into(),
            version: "1.0.0".into(),
            owner: "o\"wner@example.com".into(),
            labels: texts([("é\u{e000}", "x"), ("\u{10000}", "y"), ("team", "pay")]),
            manifest: Digest::of(&[b"agent"]),
            binding: Binding::Observed,
            tier3: Binding::Claimed,
            delegation: vec![above],
        }
    }

    fn facts(id: RunId) -> RunFacts {
        let pool =
            PoolInput { name: "p".into(), unit: "requests".into(), left_permille: 7, size: 9 };
        RunFacts {
            id,
            mode: "enforce".into(),
            incognito: true,
            opened_at: Timestamp::from_millis(1_795_003_200_000),
            calls: 3,
            errors: 2,
            denied: 1,
            cost: 5,
            pools: vec![pool],
            labels: texts([("a", "b")]),
            attested: texts([("pod", "p-1")]),
            taint: taint(id),
            trust: Some(ToolTrust::of(
                TrustCount { calls: 20, well: 20 },
                TrustWindow::default(),
                41,
            )),
            searched: None,
        }
    }

    fn taint(run: RunId) -> TaintFacts {
        let origin = LabelOrigin { run, call: CallId::parse("c-0").unwrap() };
        let both = [Label::Private, Label::Untrusted];
        let labels = both.map(|label| (label, origin.clone())).into();
        TaintFacts { labels, unknown: true, ..TaintFacts::default() }
    }

    fn tool() -> ToolFacts {
        ToolFacts {
            name: ToolName::parse("web.get").unwrap(),
            kind: "http".into(),
            tier: Tier::T2,
            read_only: true,
            idempotent: false,
            definition: Digest::of(&[b"tool"]),
            timeout: Duration::ZERO,
            result_bytes_max: 0,
            cost_micro_usd: None,
            dedupe: None,
            roles: crate::domain::taint::ToolRoles::default(),
        }
    }

    fn expected(run: RunId) -> Json {
        let digest = |of: &str| Digest::of(&[of.as_bytes()]).prefixed();
        json!({
            "v": "wicketgate/input/2",
            "agent": {
                "id": "agent", "version": "1.0.0", "owner": "o\"wner@example.com",
                "labels": {"é\u{e000}": "x", "\u{10000}": "y", "team": "pay"},
                "manifest": digest("agent"), "binding": "observed", "tier3": "claimed",
                "delegation": [{"id": "lead", "version": "2.0.0", "manifest": digest("lead"), "run": run.to_string()}]
            },
            "run": {
                "id": run.to_string(), "mode": "enforce", "incognito": true, "calls": 3, "errors": 2, "cost": 5,
                "opened_at": Timestamp::from_millis(1_795_003_200_000).to_string(), "labels": {"a": "b"}
            },
            "tool": {"name": "web.get", "kind": "http", "tier": "T2", "read_only": true, "definition": digest("tool"),
                "trust": {"calls": 20, "days": 30, "rated": true, "score": 838, "through": 41, "well": 20, "window": 200}},
            "call": {"id": "c-1"},
            "args": {"b": [1, 1.5], "a": "x"},
            "effect": {"kind": "none"},
            "context": {"attested": {"pod": "p-1"}, "claimed": {"a": "b"}},
            "time": {
                "rfc3339": "2026-11-18T12:00:00.000Z", "unix": 1_795_003_200, "weekday": "wednesday", "hour": 12,
                "minute": 0, "tz": "UTC"
            },
            "findings": [
                {
                    "class": "personal", "confidence": "high", "how": "plain", "kind": "email",
                    "mark": "07070707070707070707070707070707", "path": "/a", "since": "new"
                },
                {"class": "personal", "kind": "card", "path": "/b", "since": "earlier"},
                {
                    "class": "unscanned", "confidence": "high", "how": "decoded", "kind": "unscanned",
                    "path": "/c", "since": "new"
                }
            ],
            "firewall": {"complete": false, "masked": true, "rules": digest("rules")},
            "approvals": [{"approver": "ann", "roles": ["lead"], "key": "SHA256:x", "key_kind": "passkey"}],
            "quorum": {"by_hand": ["team"]},
            "break_glass": {"open": false, "nonce": "", "until": "", "by": []},
            "pools": [{"name": "p", "unit": "requests", "left_permille": 7, "size": 9}],
            "observe": ["org", "team"],
            "taint": {
                "egress": "outside", "floor": {"label_only": "alert", "trifecta": "approve"},
                "influence": {"private": 1, "unknown": true, "untrusted": 1}, "labels": ["private", "untrusted"],
                "since": {"private": "c-0", "untrusted": "c-0"}, "trifecta": true, "trifecta_influenced": true
            },
            "history": {"calls": 3, "errors": 2, "denied": 1}
        })
    }

    #[test]
    fn the_document_is_canonical_and_has_every_member_that_the_schema_names() {
        let id = RunId::parse("0192a000-0000-7000-8000-000000000001").unwrap();
        let origin = CallOrigin {
            run: id,
            id: CallId::parse("c-1").unwrap(),
            after: 0,
            agent: "agent".into(),
            auth: CallerAuth::default(),
            traceparent: None,
        };
        let call = ToolCall::parse(origin, "web.get", br#"{"b":[1,1.50], "a":"x"}"#).unwrap();
        let marked = Finding { mark: Some(FindingMark([7; 16])), ..Finding::new("email", "/a") };
        let since = FindingAge::Earlier;
        let (confidence, how) = (None, None);
        let earlier = Finding { since, confidence, how, ..Finding::new("card", "/b") };
        let cut = Finding { how: Some(How::Decoded), ..Finding::new("unscanned", "/c") };
        let findings = [marked, earlier, cut];
        let firewall = FirewallInput::of(Digest::of(&[b"rules"]), true, &findings);
        let (shown, effect) = (None, &Effect::None);
        let input = CallInput { call: &call, shown, effect, findings: &findings, firewall };
        let by = Approval {
            subject: "ann".into(),
            roles: vec!["lead".into()],
            key: "SHA256:x".into(),
            key_kind: Some(KeyKind::Passkey),
            origin: Some("https://console.example.com".into()),
        };
        let circumstances = Circumstances {
            now: Timestamp::from_millis(1_795_003_200_000),
            observe: &["org", "team"],
            approvals: &[by],
            by_hand: &["team"],
            break_glass: None,
        };
        let made = document(&agent(id), &facts(id), &tool(), &input, &circumstances);
        let read = canonical::read(&made, &Limits::FILE).unwrap().expect("in canonical form");
        assert_eq!(read, expected(id));
        assert_eq!(schema::violations(&read), Vec::<String>::new());
    }
}
