//! What routes answer with about policies: the bundles in force, one bundle, what observe mode let run, backtests.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Reply;
use super::replies::Amendment;

replies! {
    /// One layer of a bundle.
    BundleLayer {
        /// `lib`, `org`, `team`, `agent` or `data`.
        layer: String,
        /// The digest of its files, `sha256:…`.
        digest: String,
    }

    /// The bundle that a log activated last.
    BundleInForce {
        /// The log.
        origin: String,
        /// Whether the writer of the log ended in order.
        stopped: bool,
        /// The digest of the bundle, `sha256:…`.
        bundle: String,
        /// Its name.
        name: String,
        /// Its version.
        version: String,
        /// When it came into force.
        activated: String,
        /// The number of the entry that records it.
        entry: u64,
        /// Why it came into force, such as `amendment`.
        basis: Option<String>,
        /// Number of publishers' approvals, if it is an amendment.
        approvals: Option<u64>,
        /// Its layers.
        layers: Vec<BundleLayer>,
    }

    /// The bundles in force.
    PolicyInForce {
        /// One for each log that activated one; the logs whose writer runs first.
        bundles: Vec<BundleInForce>,
        /// Whether there are more logs than are listed.
        more: bool,
    }

    /// One file of a bundle.
    BundleFile {
        /// Its name.
        name: String,
        /// Its size in bytes.
        bytes: u64,
        /// Its text; `null` if it is large or no text.
        text: Option<String>,
    }

    /// A layer in observe mode.
    ObservingLayer {
        /// The layer.
        layer: String,
        /// When its observation ends.
        until: String,
    }

    /// One difference between two bundles.
    BundleChange {
        /// `rule`, `package`, `builtin`, `bundle.json`, `data` or `test file`.
        what: String,
        /// Its name or its place.
        name: String,
        /// `added`, `removed` or `changed`.
        edit: String,
        /// What it was: the place of a rule, or a value.
        old: Option<String>,
        /// What it is.
        new: Option<String>,
        /// The first line of a rule.
        text: Option<String>,
    }

    /// One bundle.
    BundleDetail {
        /// Its digest, `sha256:…`.
        bundle: String,
        /// Its name.
        name: String,
        /// Its version.
        version: String,
        /// It does not come into force before this time.
        not_before: Option<String>,
        /// From this time on it decides nothing.
        not_after: Option<String>,
        /// The agents it is for; empty: any.
        manifests: Vec<String>,
        /// The layers that observe now.
        observing: Vec<ObservingLayer>,
        /// Its layers.
        layers: Vec<BundleLayer>,
        /// Ids of the keys that its signature names; not verified here. `null`: the signature is not kept here.
        signers: Option<Vec<String>>,
        /// The logs that have it in force.
        in_force: Vec<String>,
        /// The proposal of it, if there is one.
        proposal: Option<Amendment>,
        /// Its files.
        files: Vec<BundleFile>,
        /// The bundle in force that it was compared with.
        against: Option<String>,
        /// The differences.
        changes: Vec<BundleChange>,
        /// Why it was compared with none.
        uncompared: Option<String>,
    }

    /// A call that observe mode let run.
    ObservedCall {
        /// The run.
        run: String,
        /// The id of the call in the run.
        call: String,
    }

    /// What one rule has against the calls of one tool.
    ObservedRule {
        /// The rule.
        rule: String,
        /// The tool.
        tool: String,
        /// `deny` or `require_approval`.
        verdict: String,
        /// What the rule says.
        message: String,
        /// Number of calls.
        count: u64,
        /// When the first of them was decided.
        first: String,
        /// When the last of them was decided.
        last: String,
        /// Some of the calls.
        examples: Vec<ObservedCall>,
    }

    /// What enforcement would have refused.
    ObservedDenials {
        /// Only decisions since this time were counted.
        since: String,
        /// Number of decisions.
        decided: u64,
        /// Number of calls that ran although the policy denied them.
        denied: u64,
        /// Number of calls that ran although the policy held them.
        held: u64,
        /// The rules, most frequent first.
        rules: Vec<ObservedRule>,
        /// Number of entries that cannot be read.
        unread: u64,
        /// Whether there are older entries since that time that were not read.
        more: bool,
    }

    /// One backtest.
    BacktestJob {
        /// Its id.
        id: String,
        /// The bundle that is tested.
        bundle: String,
        /// Who began it.
        subject: String,
        /// When it began.
        began: String,
        /// When it ended.
        ended: Option<String>,
        /// `running`, `done` or `failed`.
        state: String,
        /// Why it failed.
        error: Option<String>,
        /// What was found, as `wicketgate policy backtest --json` prints it.
        result: Value,
        /// The signed statement of it: a DSSE envelope that `wicketgate policy backtest --verify` reads.
        statement: Value,
    } with {
        fn is_complete(&self) -> bool {
            self.state != "running"
        }
    }

    /// Backtests of this process.
    BacktestJobs {
        /// The backtests, newest first, without their results.
        backtests: Vec<BacktestJob>,
    }
}
