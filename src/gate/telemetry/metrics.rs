//! The metrics and their names. Labels take values from small closed sets only.

use std::collections::BTreeSet;
use std::time::Duration;

use parking_lot::RwLock;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use super::Stage;

/// The tool label of every tool that is not configured, so that an agent cannot create series.
pub const OTHER: &str = "other";

// 50 µs to about 26 s, doubling: a decision takes microseconds, a slow tool half a minute.
const FIRST_BUCKET: f64 = 0.000_05;
const BUCKETS: u16 = 20;

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct ToolVerdict {
    tool: String,
    verdict: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct DecisionLabels {
    tool: String,
    verdict: &'static str,
    enforced: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct ToolOutcome {
    tool: String,
    outcome: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct StageLabel {
    stage: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct KindLabels {
    kind: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct CodeLabel {
    code: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct Passed {
    passed: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct Grade {
    grade: &'static str,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, EncodeLabelSet)]
struct ServerLabel {
    server: String,
}

type Latencies = Family<StageLabel, Histogram, fn() -> Histogram>;

/// All metrics of the process. Updating one never blocks for long and never fails.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    tools: RwLock<BTreeSet<String>>,
    calls: Family<DecisionLabels, Counter>,
    unenforced: Family<ToolVerdict, Counter>,
    denials: Family<CodeLabel, Counter>,
    outcomes: Family<ToolOutcome, Counter>,
    call_duration: Latencies,
    decision_duration: Histogram,
    decision_errors: Counter,
    commits: Counter,
    commit_duration: Histogram,
    batch_entries: Histogram,
    queue_depth: Gauge,
    ledger_errors: Family<KindLabels, Counter>,
    rejected: Family<CodeLabel, Counter>,
    suspended: Counter,
    alarms: Family<KindLabels, Counter>,
    break_glass_open: Gauge,
    break_glass_calls: Counter,
    break_glass_alerts: Counter,
    orders_refused: Counter,
    pool_unanswered: Counter,
    reaped: Family<KindLabels, Counter>,
    self_tests: Family<Passed, Counter>,
    certificates_read: Family<Passed, Counter>,
    config_read: Family<Passed, Counter>,
    upstream_drift: Family<Grade, Counter>,
    upstream_restarts: Family<ServerLabel, Counter>,
    upstream_dropped: Family<KindLabels, Counter>,
    open_runs: Gauge,
    in_flight: Gauge,
    held_calls: Gauge,
    ready: Gauge,
}

impl Metrics {
    /// All metrics at zero. Only the configured names in `tools` become labels; `version` and
    /// `revision` describe the build.
    #[must_use]
    pub fn new(
        tools: impl IntoIterator<Item = String>,
        version: &'static str,
        revision: &'static str,
    ) -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix("wicketgate"),
            tools: RwLock::new(tools.into_iter().collect()),
            calls: Family::default(),
            unenforced: Family::default(),
            denials: Family::default(),
            outcomes: Family::default(),
            call_duration: Latencies::new_with_constructor(latency),
            decision_duration: latency(),
            decision_errors: Counter::default(),
            commits: Counter::default(),
            commit_duration: latency(),
            batch_entries: Histogram::new((0..11).map(|power| f64::from(1_u32 << power))),
            queue_depth: Gauge::default(),
            ledger_errors: Family::default(),
            rejected: Family::default(),
            suspended: Counter::default(),
            alarms: Family::default(),
            break_glass_open: Gauge::default(),
            break_glass_calls: Counter::default(),
            break_glass_alerts: Counter::default(),
            orders_refused: Counter::default(),
            pool_unanswered: Counter::default(),
            reaped: Family::default(),
            self_tests: Family::default(),
            certificates_read: Family::default(),
            config_read: Family::default(),
            upstream_drift: Family::default(),
            upstream_restarts: Family::default(),
            upstream_dropped: Family::default(),
            open_runs: Gauge::default(),
            in_flight: Gauge::default(),
            held_calls: Gauge::default(),
            ready: Gauge::default(),
        };
        metrics.register(version, revision);
        metrics
    }

    fn register(&mut self, version: &'static str, revision: &'static str) {
        let r = &mut self.registry;
        r.register("calls", "Calls that were decided and recorded", self.calls.clone());
        let help = "Calls that ran although the policy speaks against them: observe mode";
        r.register("unenforced", help, self.unenforced.clone());
        let help = "Calls that were judged and denied, by the code of the first reason";
        r.register("denials", help, self.denials.clone());
        r.register("outcomes", "Permitted calls by how they ended", self.outcomes.clone());
        let help = "Time of one call by stage of the road";
        r.register_with_unit("call_duration", help, Unit::Seconds, self.call_duration.clone());
        let help = "Time of one policy evaluation";
        let duration = self.decision_duration.clone();
        r.register_with_unit("decision_duration", help, Unit::Seconds, duration);
        let help = "Policy evaluations that gave no decision";
        r.register("decision_errors", help, self.decision_errors.clone());
        r.register("ledger_commits", "Durable batches of entries", self.commits.clone());
        let help = "Time until a batch was durable";
        let duration = self.commit_duration.clone();
        r.register_with_unit("ledger_commit_duration", help, Unit::Seconds, duration);
        r.register("ledger_batch_entries", "Entries of one batch", self.batch_entries.clone());
        let help = "Entries waiting for the ledger's writer";
        r.register("ledger_queue_depth", help, self.queue_depth.clone());
        r.register("ledger_errors", "Failed batches by kind", self.ledger_errors.clone());
        let help = "Requests refused before admission, by code";
        r.register("rejected", help, self.rejected.clone());
        let help = "Runs suspended for their denials, or for a credential in arguments";
        r.register("suspended_runs", help, self.suspended.clone());
        let help = "Calls refused for what the gate itself found in them, which agents do not see";
        r.register("alarms", help, self.alarms.clone());
        let help = "Break-glass orders that are in force here";
        r.register("break_glass_open", help, self.break_glass_open.clone());
        let help = "Calls that needed no approver because of break-glass";
        r.register("break_glass_calls", help, self.break_glass_calls.clone());
        let help = "Break-glass orders that were asked for with enough signatures";
        r.register("break_glass_alerts", help, self.break_glass_alerts.clone());
        let help = "Orders to take back a stop that no operator had signed";
        r.register("control_orders_refused", help, self.orders_refused.clone());
        let help = "Calls refused because the store of a shared pool did not answer";
        r.register("pool_unanswered", help, self.pool_unanswered.clone());
        let help = "Abandoned slots that the hub visited, by outcome";
        r.register("slots_reaped", help, self.reaped.clone());
        let help = "Canaries: calls of the gate itself that have to be denied";
        r.register("self_tests", help, self.self_tests.clone());
        let help =
            "Certificates of listeners whose files changed; those that failed left the old one";
        r.register("certificates_read", help, self.certificates_read.clone());
        let help = "Times the configuration or what it names changed and was read; those that failed left the old state in force";
        r.register("config_read", help, self.config_read.clone());
        let help = "Pinned tools of servers found to be otherwise than signed, by grade";
        r.register("upstream_drift", help, self.upstream_drift.clone());
        let help = "Connections to servers that were made again";
        r.register("upstream_restarts", help, self.upstream_restarts.clone());
        let help = "Messages of servers that belong to no call, by kind";
        r.register("upstream_dropped", help, self.upstream_dropped.clone());
        r.register("open_runs", "Runs that are not sealed", self.open_runs.clone());
        r.register("in_flight", "Calls on the road", self.in_flight.clone());
        r.register("held_calls", "Calls waiting for an approval", self.held_calls.clone());
        r.register("ready", "1 if calls can be governed, else 0", self.ready.clone());
        let build = Info::new(vec![("version", version), ("revision", revision)]);
        r.register("build", "What was built", build);
    }

    /// A decision became durable: `allow`, `deny`, `require_approval`. Not enforced if the call
    /// runs all the same.
    pub fn call(&self, tool: &str, verdict: &'static str, enforced: bool) {
        let tool = self.known(tool);
        if !enforced {
            self.unenforced.get_or_create(&ToolVerdict { tool: tool.clone(), verdict }).inc();
        }
        let enforced = if enforced { "true" } else { "false" };
        self.calls.get_or_create(&DecisionLabels { tool, verdict, enforced }).inc();
    }

    /// A call was judged and denied; this is the code of its first reason.
    pub fn denied(&self, code: &'static str) {
        self.denials.get_or_create(&CodeLabel { code }).inc();
    }

    /// A permitted call ended: `completed`, `failed`, `unknown`, `cancelled`.
    pub fn outcome(&self, tool: &str, outcome: &'static str) {
        let tool = self.known(tool);
        self.outcomes.get_or_create(&ToolOutcome { tool, outcome }).inc();
    }

    /// The hub visited a slot without a live writer: `closed`, `lost`, `later`, `distrusted`,
    /// `other_key`, `held`.
    pub fn reaped(&self, kind: &'static str) {
        self.reaped.get_or_create(&KindLabels { kind }).inc();
    }

    /// A call passed a stage in this time.
    pub fn stage(&self, stage: Stage, took: Duration) {
        let label = StageLabel { stage: stage.as_str() };
        self.call_duration.get_or_create(&label).observe(took.as_secs_f64());
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
        self.ledger_errors.get_or_create(&KindLabels { kind }).inc();
    }

    /// The number of entries that wait for the writer.
    pub fn queue_depth(&self, entries: i64) {
        self.queue_depth.set(entries);
    }

    /// A request was refused before admission, with this code.
    pub fn rejected(&self, code: &'static str) {
        self.rejected.get_or_create(&CodeLabel { code }).inc();
    }

    /// The gate refused a call for its content: `credential`.
    pub fn alarm(&self, kind: &'static str) {
        self.alarms.get_or_create(&KindLabels { kind }).inc();
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
        let passed = if passed { "true" } else { "false" };
        self.self_tests.get_or_create(&Passed { passed }).inc();
    }

    /// The files of a listener's certificate changed; `passed` if they could be used.
    pub fn certificate_read(&self, passed: bool) {
        let passed = if passed { "true" } else { "false" };
        self.certificates_read.get_or_create(&Passed { passed }).inc();
    }

    /// The configuration or a file it names changed; `passed` if the new state was put in force.
    pub fn config_read(&self, passed: bool) {
        let passed = if passed { "true" } else { "false" };
        self.config_read.get_or_create(&Passed { passed }).inc();
    }

    /// A pinned tool differs from what was signed: `text`, `compatible`, `breaking`.
    pub fn upstream_drift(&self, grade: &'static str) {
        self.upstream_drift.get_or_create(&Grade { grade }).inc();
    }

    /// The gate reconnects to a configured server.
    pub fn upstream_restart(&self, server: &str) {
        let server = server.to_owned();
        self.upstream_restarts.get_or_create(&ServerLabel { server }).inc();
    }

    /// A server's message was dropped: `unknown_id`, `repeated_id`, `malformed`, `request`,
    /// `notification`.
    pub fn upstream_dropped(&self, kind: &'static str) {
        self.upstream_dropped.get_or_create(&KindLabels { kind }).inc();
    }

    /// The number of open runs.
    pub fn open_runs(&self, runs: usize) {
        self.open_runs.set(gauged(runs));
    }

    /// The number of held calls.
    pub fn held_calls(&self, calls: usize) {
        self.held_calls.set(gauged(calls));
    }

    /// Counts one more call on the road until the returned value is dropped.
    pub fn in_flight(&self) -> InFlight {
        self.in_flight.inc();
        InFlight(self.in_flight.clone())
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

    fn known(&self, tool: &str) -> String {
        let tools = self.tools.read();
        tools.get(tool).map_or(OTHER, String::as_str).to_owned()
    }
}

/// A call on the road.
#[derive(Debug)]
#[must_use = "the call is counted until this is dropped"]
pub struct InFlight(Gauge);

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
        for stage in Stage::ALL {
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
        let flying = metrics.in_flight();
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
            "wicketgate_open_runs 0",
            "wicketgate_in_flight 1",
            "wicketgate_held_calls 0",
            "wicketgate_ready 0",
            r#"wicketgate_build_info{version="1.2.3",revision="abc"} 1"#,
        ] {
            assert!(text.contains(line), "`{line}` is not in\n{text}");
        }
        drop(flying);
        assert!(metrics.text().unwrap().contains("wicketgate_in_flight 0"));
    }
}
