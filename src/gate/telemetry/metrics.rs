//! The metrics and their names. Labels take values from small closed sets only.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

use parking_lot::RwLock;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use super::Stage;
use crate::domain::guarded::GuardFinding;
use crate::firewall::{self, Class, Confidence};
use crate::record::alert::{AlertKind, AlertSeverity};

/// The tool label of every tool that is not configured, so that an agent cannot create series.
pub const OTHER: &str = "other";

// 50 µs to about 26 s, doubling: a decision takes microseconds, a slow tool half a minute.
const FIRST_BUCKET: f64 = 0.000_05;
const BUCKETS: u16 = 20;

/// The labels of one series, by name.
pub(super) type Labels<const N: usize> = [(&'static str, Cow<'static, str>); N];
pub(super) type CounterFamily<const N: usize> = Family<Labels<N>, Counter>;
type Latencies = Family<Labels<1>, Histogram, fn() -> Histogram>;

/// Declares the metrics in the order in which they are shown: the member, its type, how it begins
/// unless it begins empty, its name and its help.
macro_rules! metrics {
    (@begin) => { Default::default() };
    (@begin $begin:expr) => { $begin };
    (@register $to:ident $name:literal, $help:literal, $metric:expr) => {
        $to.register($name, $help, $metric)
    };
    (@register $to:ident seconds $name:literal, $help:literal, $metric:expr) => {
        $to.register_with_unit($name, $help, Unit::Seconds, $metric)
    };
    ($($member:ident: $type:ty $(= $begin:expr)?, $($unit:ident)? $name:literal, $help:literal;)*) => {
        /// All metrics of the process. Updating one never blocks for long and never fails.
        #[derive(Debug)]
        pub struct Metrics {
            registry: Registry,
            tools: RwLock<BTreeSet<String>>,
            $($member: $type,)*
        }

        impl Metrics {
            fn at_zero(tools: BTreeSet<String>) -> Self {
                let mut registry = Registry::with_prefix("wicketgate");
                $(
                    let $member: $type = metrics!(@begin $($begin)?);
                    metrics!(@register registry $($unit)? $name, $help, $member.clone());
                )*
                Self { registry, tools: RwLock::new(tools), $($member,)* }
            }
        }
    };
}

metrics! {
    calls: CounterFamily<3>, "calls", "Calls that were decided and recorded";
    unenforced: CounterFamily<2>,
        "unenforced", "Calls that ran in observe mode although the policy did not allow them";
    denials: CounterFamily<1>,
        "denials", "Calls denied after evaluation, by the code of the first reason";
    outcomes: CounterFamily<2>, "outcomes", "Permitted calls, by outcome";
    call_duration: Latencies = Latencies::new_with_constructor(latency),
        seconds "call_duration", "Seconds that one call spent in each stage";
    decision_duration: Histogram = latency(),
        seconds "decision_duration", "Seconds that one policy evaluation took";
    decision_errors: Counter, "decision_errors", "Policy evaluations that failed to produce a decision";
    commits: Counter, "ledger_commits", "Batches of entries committed to durable storage";
    commit_duration: Histogram = latency(),
        seconds "ledger_commit_duration", "Seconds until a batch was committed to durable storage";
    batch_entries: Histogram = Histogram::new((0..11).map(|power| f64::from(1_u32 << power))),
        "ledger_batch_entries", "Number of entries in one batch";
    queue_depth: Gauge, "ledger_queue_depth", "Entries waiting for the ledger's writer";
    ledger_errors: CounterFamily<1>, "ledger_errors", "Batches that failed to commit, by kind of failure";
    rejected: CounterFamily<1>, "rejected", "Requests refused before admission, by code";
    suspended: Counter,
        "suspended_runs", "Runs suspended after too many denials, or after a credential appeared in arguments";
    alarms: CounterFamily<1>,
        "alarms", "Calls that the gate refused because of their content, by alarm; agents see an ordinary denial";
    findings: CounterFamily<3>,
        "findings", "Findings of the firewall in calls and answers, by kind, direction and what the gate did";
    alerts: CounterFamily<2>, "alerts", "Alerts that were recorded, by kind and severity";
    unscanned: CounterFamily<1>,
        "unscanned", "Calls and answers that the firewall did not search to their end, by direction";
    firewall_duration: Histogram = latency(),
        seconds "firewall", "Seconds until the firewall had searched the arguments of a call";
    break_glass_open: Gauge, "break_glass_open", "Break-glass orders in force at this gate";
    break_glass_calls: Counter,
        "break_glass_calls", "Calls that needed no approver because of break-glass";
    break_glass_alerts: Counter,
        "break_glass_alerts", "Requests to open break-glass that had enough signatures";
    orders_refused: Counter,
        "control_orders_refused", "Refused orders to reinstate a target: no valid operator signature";
    pool_unanswered: Counter,
        "pool_unanswered", "Calls refused because the store of a shared pool did not answer";
    reaped: CounterFamily<1>, "slots_reaped", "Abandoned slots that the hub tried to close, by outcome";
    self_tests: CounterFamily<1>,
        "self_tests", "Self-test calls, which the gate makes itself and must deny, by whether they passed";
    certificates_read: CounterFamily<1>,
        "certificates_read", "Reloads of listener certificates after their files changed; a failed reload keeps the old certificate";
    config_read: CounterFamily<1>,
        "config_read", "Reloads after the configuration or a file that it names changed; a failed reload keeps the old state in force";
    upstream_drift: CounterFamily<1>,
        "upstream_drift", "Tools found to differ from their signed lock, by grade";
    upstream_restarts: CounterFamily<1>,
        "upstream_restarts", "Reconnections to MCP servers";
    upstream_dropped: CounterFamily<1>,
        "upstream_dropped", "Messages from MCP servers that belong to no call, by kind";
    model_tokens: CounterFamily<2>,
        "model_tokens", "Tokens of model calls by direction, as the ledger records them: estimated if the provider does not report them";
    model_first_byte: Histogram = latency(),
        seconds "model_first_byte", "Seconds until the first byte of a model's response";
    model_streams: Gauge, "model_streams", "Responses of models that are being streamed";
    proposals_denied: CounterFamily<1>,
        "proposals_denied", "Tool calls that a model proposed and the policy denied";
    proposals_bypassed: CounterFamily<1>,
        "proposals_bypassed", "Tool calls that a model proposed and that never came to the gate, although the agent has a result";
    open_runs: Gauge, "open_runs", "Runs that are open";
    in_flight: Gauge, "in_flight", "Calls in progress";
    held_calls: Gauge, "held_calls", "Calls that wait for an approval";
    ready: Gauge, "ready", "1 if the gate is ready, else 0";
}

pub(super) fn count<const N: usize>(of: &CounterFamily<N>, labels: &Labels<N>) {
    of.get_or_create(labels).inc();
}

pub(super) fn passed(passed: bool) -> Labels<1> {
    [("passed", if passed { "true" } else { "false" }.into())]
}

impl Metrics {
    /// All metrics at zero. Only the configured names in `tools` become labels; `version` and
    /// `revision` describe the build.
    pub fn new(
        tools: impl IntoIterator<Item = String>,
        version: &'static str,
        revision: &'static str,
    ) -> Self {
        let mut metrics = Self::at_zero(tools.into_iter().collect());
        let build = Info::new(vec![("version", version), ("revision", revision)]);
        metrics.registry.register("build", "Version and revision of this build", build);
        metrics
    }

    /// A decision became durable: `allow`, `deny`, `require_approval`. Not enforced if the call
    /// runs all the same.
    pub fn call(&self, tool: &str, verdict: &'static str, enforced: bool) {
        let [tool, verdict] = [("tool", self.known(tool)), ("verdict", verdict.into())];
        if !enforced {
            count(&self.unenforced, &[tool.clone(), verdict.clone()]);
        }
        let enforced = if enforced { "true" } else { "false" };
        count(&self.calls, &[tool, verdict, ("enforced", enforced.into())]);
    }

    /// A call was judged and denied; this is the code of its first reason.
    pub fn denied(&self, code: &'static str) {
        count(&self.denials, &[("code", code.into())]);
    }

    /// A permitted call ended: `completed`, `failed`, `unknown`, `cancelled`.
    pub fn outcome(&self, tool: &str, outcome: &'static str) {
        count(&self.outcomes, &[("tool", self.known(tool)), ("outcome", outcome.into())]);
    }

    /// The hub visited a slot without a live writer: `closed`, `lost`, `later`, `distrusted`,
    /// `other_key`, `held`.
    pub fn reaped(&self, kind: &'static str) {
        count(&self.reaped, &[("kind", kind.into())]);
    }

    /// A call passed a stage in this time.
    pub fn stage(&self, stage: Stage, took: Duration) {
        let labels = [("stage", stage.as_str().into())];
        self.call_duration.get_or_create(&labels).observe(took.as_secs_f64());
    }

    /// The policy was evaluated in this time; `failed` if it gave no decision.
    pub fn decision(&self, took: Duration, failed: bool) {
        self.decision_duration.observe(took.as_secs_f64());
        if failed {
            self.decision_errors.inc();
        }
    }

    /// A batch of entries became durable.
    pub fn commit(&self, took: Duration, entries: u32) {
        self.commits.inc();
        self.commit_duration.observe(took.as_secs_f64());
        self.batch_entries.observe(f64::from(entries));
    }

    /// A batch did not become durable: `conflict`, `unavailable`, `unknown`, `fenced`.
    pub fn ledger_error(&self, kind: &'static str) {
        count(&self.ledger_errors, &[("kind", kind.into())]);
    }

    /// The number of entries that wait for the writer.
    pub fn queue_depth(&self, entries: i64) {
        self.queue_depth.set(entries);
    }

    /// A request was refused before admission, with this code.
    pub fn rejected(&self, code: &'static str) {
        count(&self.rejected, &[("code", code.into())]);
    }

    /// The gate refused a call for its content: `credential`.
    pub fn alarm(&self, kind: &'static str) {
        count(&self.alarms, &[("kind", kind.into())]);
    }

    /// The firewall searched the arguments of a call in this time.
    pub fn searched(&self, took: Duration) {
        self.firewall_duration.observe(took.as_secs_f64());
    }

    /// The firewall found these in what passed in this direction.
    pub fn found(&self, direction: &'static str, all: &[GuardFinding]) {
        for one in all {
            let labels = [
                ("kind", if firewall::is_own(one.kind) { "own" } else { one.kind }.into()),
                ("direction", direction.into()),
                ("action", one.action.as_str().into()),
            ];
            count(&self.findings, &labels);
            if one.class == Class::Unscanned.as_str() && one.confidence == Confidence::High.as_str()
            {
                count(&self.unscanned, &[("direction", direction.into())]);
            }
        }
    }

    /// An alert was recorded.
    pub fn alert(&self, alert: AlertKind, severity: AlertSeverity) {
        let labels = [("alert", alert.as_str().into()), ("severity", severity.as_str().into())];
        count(&self.alerts, &labels);
    }

    /// A run was suspended.
    pub fn suspended(&self) {
        self.suspended.inc();
    }

    /// The number of break-glass orders in force.
    pub fn break_glass(&self, open: usize) {
        self.break_glass_open.set(gauged(open));
    }

    /// A call needed no approver because of break-glass.
    pub fn broke_glass(&self) {
        self.break_glass_calls.inc();
    }

    /// An operator requested a break-glass order with enough signatures.
    pub fn break_glass_alert(&self) {
        self.break_glass_alerts.inc();
    }

    /// An order to take back a stop was invalid.
    pub fn order_refused(&self) {
        self.orders_refused.inc();
    }

    /// A call was refused because the store of a pool did not answer.
    pub fn pool_unanswered(&self) {
        self.pool_unanswered.inc();
    }

    /// A canary ended; `passed` if it was denied and the denial was recorded.
    pub fn self_tested(&self, passed: bool) {
        count(&self.self_tests, &self::passed(passed));
    }

    /// The files of a listener's certificate changed; `passed` if they could be used.
    pub fn certificate_read(&self, passed: bool) {
        count(&self.certificates_read, &self::passed(passed));
    }

    /// The configuration or a file it names changed; `passed` if the new state was put in force.
    pub fn config_read(&self, passed: bool) {
        count(&self.config_read, &self::passed(passed));
    }

    /// A pinned tool differs from what was signed: `text`, `compatible`, `breaking`.
    pub fn upstream_drift(&self, grade: &'static str) {
        count(&self.upstream_drift, &[("grade", grade.into())]);
    }

    /// The gate reconnects to a configured server.
    pub fn upstream_restart(&self, server: &str) {
        count(&self.upstream_restarts, &[("server", server.to_owned().into())]);
    }

    /// A server's message was dropped: `unknown_id`, `repeated_id`, `malformed`, `request`,
    /// `notification`.
    pub fn upstream_dropped(&self, kind: &'static str) {
        count(&self.upstream_dropped, &[("kind", kind.into())]);
    }

    /// The number of open runs.
    pub fn open_runs(&self, runs: usize) {
        self.open_runs.set(gauged(runs));
    }

    /// The number of held calls.
    pub fn held_calls(&self, calls: usize) {
        self.held_calls.set(gauged(calls));
    }

    /// A model call used this many input and output tokens.
    pub fn model_tokens(&self, tool: &str, input: u64, output: u64) {
        let tool = ("tool", self.known(tool));
        for (direction, tokens) in [("input", input), ("output", output)] {
            let labels = [tool.clone(), ("direction", direction.into())];
            self.model_tokens.get_or_create(&labels).inc_by(tokens);
        }
    }

    /// The first byte of a model's response came after this time.
    pub fn first_byte(&self, took: Duration) {
        self.model_first_byte.observe(took.as_secs_f64());
    }

    /// Counts one more streamed response until the returned value is dropped.
    pub fn streams(&self) -> InFlight {
        InFlight::counted(&self.model_streams)
    }

    /// A model proposed a call of this tool, and the policy denied it.
    pub fn proposal_denied(&self, tool: &str) {
        count(&self.proposals_denied, &[("tool", self.known(tool))]);
    }

    /// An agent sent the result of a tool of the gate to a model, and did not call that tool here.
    pub fn proposal_bypassed(&self, tool: &str) {
        count(&self.proposals_bypassed, &[("tool", self.known(tool))]);
    }

    /// Counts one more call on the road until the returned value is dropped.
    pub fn in_flight(&self) -> InFlight {
        InFlight::counted(&self.in_flight)
    }

    /// Adds names that may become labels, after the configuration was read again.
    pub fn know(&self, tools: impl IntoIterator<Item = String>) {
        self.tools.write().extend(tools);
    }

    /// Whether the gate can govern calls.
    pub fn ready(&self, ready: bool) {
        self.ready.set(i64::from(ready));
    }

    /// All metrics, as OpenMetrics text.
    ///
    /// # Errors
    /// A value cannot be formatted.
    pub fn text(&self) -> Result<String, std::fmt::Error> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry)?;
        Ok(text)
    }

    fn known(&self, tool: &str) -> Cow<'static, str> {
        let tools = self.tools.read();
        tools.get(tool).map_or(Cow::Borrowed(OTHER), |tool| Cow::Owned(tool.clone()))
    }
}

/// A call on the road, or a streamed response.
#[derive(Debug)]
#[must_use = "it is counted until this is dropped"]
pub struct InFlight(Gauge);

impl InFlight {
    fn counted(gauge: &Gauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

fn gauged(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn latency() -> Histogram {
    use prometheus_client::metrics::histogram::exponential_buckets;
    Histogram::new(exponential_buckets(FIRST_BUCKET, 2.0, BUCKETS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_that_are_not_configured_share_one_series() {
        let metrics = Metrics::new(["known".to_owned()], "1", "abc");
        for tool in ["known", "a", "b", "c"] {
            metrics.call(tool, "deny", true);
        }
        let text = metrics.text().unwrap();
        let series = |tool| format!(r#"_total{{tool="{tool}",verdict="deny",enforced="true"}}"#);
        assert!(text.contains(&format!("wicketgate_calls{} 1", series("known"))));
        assert!(text.contains(&format!("wicketgate_calls{} 3", series("other"))));
        assert_eq!(text.matches("wicketgate_calls_total{").count(), 2);
        assert!(!text.contains("wicketgate_unenforced_total{"));
    }

    #[test]
    fn every_family_has_its_documented_name() {
        let metrics = Metrics::new([], "1.2.3", "abc");
        for stage in Stage::ALL.iter().copied() {
            metrics.stage(stage, Duration::from_millis(1));
        }
        metrics.commit(Duration::from_millis(2), 3);
        metrics.outcome("x", "completed");
        metrics.call("x", "deny", false);
        metrics.ledger_error("unknown");
        metrics.rejected("overloaded");
        metrics.upstream_drift("text");
        metrics.upstream_restart("git");
        metrics.upstream_dropped("request");
        metrics.decision(Duration::from_micros(90), true);
        metrics.model_tokens("x", 7, 3);
        metrics.first_byte(Duration::from_millis(4));
        metrics.proposal_denied("x");
        metrics.proposal_bypassed("x");
        let (in_flight, stream) = (metrics.in_flight(), metrics.streams());
        let text = metrics.text().unwrap();
        for line in [
            r#"wicketgate_call_duration_seconds_count{stage="judge"} 1"#,
            r#"wicketgate_outcomes_total{tool="other",outcome="completed"} 1"#,
            r#"wicketgate_calls_total{tool="other",verdict="deny",enforced="false"} 1"#,
            r#"wicketgate_unenforced_total{tool="other",verdict="deny"} 1"#,
            "wicketgate_decision_duration_seconds_count 1",
            "wicketgate_decision_errors_total 1",
            "wicketgate_ledger_commits_total 1",
            "wicketgate_ledger_commit_duration_seconds_sum 0.002",
            "wicketgate_ledger_batch_entries_sum 3.0",
            "wicketgate_ledger_queue_depth 0",
            r#"wicketgate_ledger_errors_total{kind="unknown"} 1"#,
            r#"wicketgate_rejected_total{code="overloaded"} 1"#,
            r#"wicketgate_upstream_drift_total{grade="text"} 1"#,
            r#"wicketgate_upstream_restarts_total{server="git"} 1"#,
            r#"wicketgate_upstream_dropped_total{kind="request"} 1"#,
            r#"wicketgate_model_tokens_total{tool="other",direction="input"} 7"#,
            r#"wicketgate_model_tokens_total{tool="other",direction="output"} 3"#,
            "wicketgate_model_first_byte_seconds_count 1",
            "wicketgate_model_streams 1",
            r#"wicketgate_proposals_denied_total{tool="other"} 1"#,
            r#"wicketgate_proposals_bypassed_total{tool="other"} 1"#,
            "wicketgate_open_runs 0",
            "wicketgate_in_flight 1",
            "wicketgate_held_calls 0",
            "wicketgate_ready 0",
            r#"wicketgate_build_info{version="1.2.3",revision="abc"} 1"#,
        ] {
            assert!(text.contains(line), "`{line}` is not in\n{text}");
        }
        drop((in_flight, stream));
        let text = metrics.text().unwrap();
        assert!(
            text.contains("wicketgate_in_flight 0") && text.contains("wicketgate_model_streams 0")
        );
    }
}
