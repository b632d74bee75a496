//! The operators' channel to the gates: one numbered list of orders, and each gate's reports.
//!
//! An order is one row. Rows are numbered without gaps in the order in which they become visible,
//! so a gate that has read up to a number has missed nothing below it. Every gate reads the list at
//! least every 250 ms, obeys and reports. The list is in the SQLite ledger's file on a single
//! machine, otherwise in Postgres beside the ledger.

use async_trait::async_trait;
use serde::{Deserialize, Deserializer, Serialize};

use crate::approval::break_glass::SignedBreakGlass;
use crate::approval::{SignedApproval as Word, is_nonce};
use crate::domain::digest::Digest;
use crate::domain::effect::ToolKind;
use crate::domain::id::{CallId, RunId, ToolName};
use crate::domain::json::Json;
use crate::domain::tier::Face;
use crate::domain::time::Timestamp;
use crate::ledger::store::StoreError;
use crate::record::{self, control::TargetKind};

pub mod amendments;
pub mod answer;
mod break_glass;
pub mod postgres;
pub mod sqlite;
mod stopped;
mod wire;

pub use break_glass::BreakGlassOrder;
pub use stopped::stopped_keys;

/// The target of an order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(try_from = "TargetForm", into = "TargetForm")]
pub enum Target {
    /// Everything of the tenant.
    All,
    /// Every run of an agent, by `metadata.name`, and of the agents it delegates to.
    Agent(String),
    /// One run, and the runs it delegated to.
    Run(RunId),
    /// One tool, for all callers.
    Tool(ToolName),
    /// One version of a manifest.
    Manifest(Digest),
    /// A key by its id: of a manifest, a policy or an approver.
    Key(String),
    /// The face that agents call at.
    Face(Face),
    /// Every tool of a kind.
    Kind(ToolKind),
    /// Everything of an MCP server, by its name in the configuration.
    Server(String),
    /// An upstream of models, by its name in the configuration. Others are asked in its place.
    Upstream(String),
}

impl Target {
    /// What is wrong with what [`Self::parse`] does not read.
    pub const EXPECTED: &'static str = "`target` must be all, agent, run, tool, manifest, key, face, kind, server or \
                                        upstream, and `name` must fit it";

    /// Whether it is a part of the gate that is switched off and on. What runs there goes on, so it is
    /// only suspended.
    #[must_use]
    pub const fn is_part(&self) -> bool {
        match self {
            Self::Face(_) | Self::Kind(_) | Self::Server(_) | Self::Upstream(_) => true,
            Self::All
            | Self::Agent(_)
            | Self::Run(_)
            | Self::Tool(_)
            | Self::Manifest(_)
            | Self::Key(_) => false,
        }
    }

    /// `all`, `agent`, `run`, …
    pub const fn kind(&self) -> &'static str {
        self.recorded().as_str()
    }

    /// The kind as entries record it.
    #[must_use]
    pub const fn recorded(&self) -> TargetKind {
        match self {
            Self::All => TargetKind::All,
            Self::Agent(_) => TargetKind::Agent,
            Self::Run(_) => TargetKind::Run,
            Self::Tool(_) => TargetKind::Tool,
            Self::Manifest(_) => TargetKind::Manifest,
            Self::Key(_) => TargetKind::Key,
            Self::Face(_) => TargetKind::Face,
            Self::Kind(_) => TargetKind::Kind,
            Self::Server(_) => TargetKind::Server,
            Self::Upstream(_) => TargetKind::Upstream,
        }
    }

    /// The name of the target; empty for `All`.
    pub fn name(&self) -> String {
        match self {
            Self::All => String::new(),
            Self::Agent(name) | Self::Key(name) | Self::Server(name) | Self::Upstream(name) => {
                name.clone()
            }
            Self::Face(face) => face.to_string(),
            Self::Kind(kind) => kind.to_string(),
            Self::Run(run) => run.to_string(),
            Self::Tool(tool) => tool.to_string(),
            Self::Manifest(digest) => digest.prefixed(),
        }
    }

    /// Reads kind and name.
    #[must_use]
    pub fn parse(kind: &str, name: &str) -> Option<Self> {
        let named = || (!name.is_empty() && name.len() <= 256).then(|| name.to_owned());
        match kind {
            "all" => name.is_empty().then_some(Self::All),
            "agent" => named().map(Self::Agent),
            "run" => RunId::parse(name).map(Self::Run),
            "tool" => ToolName::parse(name).map(Self::Tool),
            "manifest" => name.strip_prefix("sha256:").and_then(Digest::parse).map(Self::Manifest),
            "key" => named().map(Self::Key),
            "face" => Face::parse(name).map(Self::Face),
            "kind" => ToolKind::parse(name).map(Self::Kind),
            "server" => named().map(Self::Server),
            "upstream" => named().map(Self::Upstream),
            _ => None,
        }
    }
}

/// A target as orders carry it.
#[derive(Serialize, Deserialize)]
struct TargetForm {
    target: TargetKind,
    name: String,
}

impl From<Target> for TargetForm {
    fn from(target: Target) -> Self {
        Self { target: target.recorded(), name: target.name() }
    }
}

impl TryFrom<TargetForm> for Target {
    type Error = &'static str;

    fn try_from(form: TargetForm) -> Result<Self, Self::Error> {
        Self::parse(form.target.as_str(), &form.name).ok_or("no target")
    }
}

impl From<Action> for record::control::Action {
    fn from(action: Action) -> Self {
        match action {
            Action::Suspend => Self::Suspend,
            Action::Revoke => Self::Revoke,
            Action::Reinstate => Self::Reinstate,
            Action::Kill => Self::Kill,
        }
    }
}

/// The action that an order applies to its target.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Takes no new calls until reinstated; running calls may end.
    Suspend,
    /// Takes no calls at all and stops those in flight. Only `Reinstate` undoes it.
    Revoke,
    /// Takes back `Suspend` and `Revoke`. Valid as an order only when signed: [`Order::Loosen`].
    Reinstate,
    /// Stops calls in flight and seals the runs; new runs may be opened.
    Kill,
}

impl Action {
    /// `suspend`, `revoke`, `reinstate` or `kill`.
    pub fn as_str(self) -> &'static str {
        record::control::Action::from(self).as_str()
    }

    /// Reads an action.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let all = [Self::Suspend, Self::Revoke, Self::Reinstate, Self::Kill];
        all.into_iter().find(|action| action.as_str() == text)
    }
}

/// One order.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", content = "body", rename_all = "snake_case")]
pub enum Order {
    /// Applies an action to a target.
    Switch {
        /// The action.
        action: Action,
        /// The target.
        #[serde(flatten)]
        target: Target,
    },
    /// Takes back a stop, or lets one value pass the firewall: signed by an operator
    /// ([`crate::approval::order`]); every gate checks it.
    Loosen(Word),
    /// An approver's signed statement about a held call; the gate that holds the call checks it.
    #[serde(rename = "approval")]
    ApproverStatement {
        /// The run.
        run: RunId,
        /// The call.
        call: CallId,
        /// The signed statement.
        statement: String,
        /// The armored SSHSIG.
        signature: String,
    },
    /// Replaces the arguments of a held call; the held call ends.
    Modify {
        /// The run.
        run: RunId,
        /// The call.
        call: CallId,
        /// The new arguments, UTF-8 JSON.
        arguments: String,
        /// The signed proposal.
        statement: String,
        /// The armored SSHSIG.
        signature: String,
    },
    /// Lifts the need for approvers for a short time: a signed statement; every gate checks it.
    BreakGlass(SignedBreakGlass),
    /// Ends what the statement with this nonce opened.
    #[serde(rename = "break_glass_close")]
    CloseBreakGlass {
        /// The nonce of the statement: 32 hex digits.
        nonce: String,
    },
    /// An operator reviewed the calls made under the statement with this nonce.
    #[serde(rename = "break_glass_review")]
    ReviewBreakGlass {
        /// The nonce of the statement: 32 hex digits.
        nonce: String,
    },
    /// Takes the labels of a run away: what it has read does not count any more.
    #[serde(rename = "taint_clear")]
    ClearTaint {
        /// The run.
        run: RunId,
    },
    /// Ends an exception of the firewall: the value is found again.
    #[serde(rename = "exception_end")]
    EndException {
        /// The number of the order that let it pass.
        order: u64,
    },
    /// Proposes a policy bundle.
    Propose {
        /// The digest of the bundle.
        #[serde(serialize_with = "Digest::serialize_prefixed")]
        bundle: Digest,
        /// The digest of the bundle that it replaces.
        #[serde(serialize_with = "Digest::serialize_prefixed")]
        base: Digest,
        /// The version, for human readers; the gates read it from the files.
        version: String,
        /// 16 random bytes in hex: publishers' signatures are valid for this proposal only.
        #[serde(deserialize_with = "nonce")]
        nonce: String,
        /// The files of the bundle: a `Carried` as JSON text.
        files: String,
    },
    /// A publisher's signed approval of a proposed bundle; every gate checks it.
    Publish {
        /// The bundle.
        #[serde(serialize_with = "Digest::serialize_prefixed")]
        bundle: Digest,
        /// The signed statement.
        statement: String,
        /// The armored SSHSIG.
        signature: String,
    },
    /// Puts an approved bundle in force.
    Activate {
        /// The bundle.
        #[serde(serialize_with = "Digest::serialize_prefixed")]
        bundle: Digest,
    },
}

impl Order {
    /// `switch`, `loosen`, `approval`, `modify`, `break_glass`, `break_glass_close`, `break_glass_review`, `taint_clear`,
    /// `exception_end`, `propose`, `publish` or `activate`: the column `kind`.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Switch { .. } => "switch",
            Self::Loosen(_) => "loosen",
            Self::ApproverStatement { .. } => "approval",
            Self::Modify { .. } => "modify",
            Self::BreakGlass(_) => "break_glass",
            Self::CloseBreakGlass { .. } => "break_glass_close",
            Self::ReviewBreakGlass { .. } => "break_glass_review",
            Self::ClearTaint { .. } => "taint_clear",
            Self::EndException { .. } => "exception_end",
            Self::Propose { .. } => "propose",
            Self::Publish { .. } => "publish",
            Self::Activate { .. } => "activate",
        }
    }

    /// The bundle that an amendment is about.
    #[must_use]
    pub const fn amends(&self) -> Option<&Digest> {
        match self {
            Self::Switch { .. }
            | Self::Loosen(_)
            | Self::ApproverStatement { .. }
            | Self::Modify { .. }
            | Self::BreakGlass(_)
            | Self::CloseBreakGlass { .. }
            | Self::ReviewBreakGlass { .. }
            | Self::ClearTaint { .. }
            | Self::EndException { .. } => None,
            Self::Propose { bundle, .. }
            | Self::Publish { bundle, .. }
            | Self::Activate { bundle } => Some(bundle),
        }
    }

    /// The column `body`: one JSON object.
    pub fn to_json(&self) -> Json {
        Json::of(self).get("body").cloned().unwrap_or(Json::Null)
    }

    /// Reads kind and body. `None` for an order that this build does not know: a gate must not act
    /// as if it had obeyed one.
    #[must_use]
    pub fn parse(kind: &str, body: &Json) -> Option<Self> {
        let Json::Object(_) = body else { return None };
        Json::object([("kind", Json::from(kind)), ("body", body.clone())]).read().ok()
    }
}

fn nonce<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let text = String::deserialize(from)?;
    if is_nonce(&text) { Ok(text) } else { Err(serde::de::Error::custom("no nonce")) }
}

/// The operator who gave an order, and the reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OrderOrigin {
    /// The operator's name.
    pub subject: String,
    /// The operator's roles, sorted.
    pub roles: Vec<String>,
    /// The operator's proof of identity: `token`, `mtls`, `oidc`, `ssh`, `file`.
    pub auth: String,
    /// The reason, for human readers; may be empty.
    pub reason: String,
    /// When the order ends by itself, if it does.
    pub expires: Option<Timestamp>,
}

/// One row of the list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// The number of the row; the first is 1.
    pub seq: u64,
    /// When the row was listed.
    pub at: Timestamp,
    /// The operator and the reason.
    pub given: OrderOrigin,
    /// The order; `None` if this build cannot read it.
    pub order: Option<Order>,
    /// SHA-256 of all of the row, including its number. A signed order names its predecessor by it.
    pub digest: Digest,
}

impl Row {
    /// The row that a list returns once it holds the order under this number.
    ///
    /// # Errors
    /// As for a row of a database.
    pub fn of(
        seq: u64,
        at: Timestamp,
        given: &OrderOrigin,
        order: &Order,
    ) -> Result<Self, StoreError> {
        wire::Columns { seq, ..wire::Columns::of(at, given, order) }.read()
    }
}

/// The report of one gate about one row.
#[derive(Clone, PartialEq, Debug)]
pub struct OrderReport {
    /// The number of the row.
    pub seq: u64,
    /// The gate, by the origin of its chain.
    pub origin: String,
    /// When the gate had carried out the order.
    pub at: Timestamp,
    /// The effect: `data` of the entry `control.applied`, or the state of the call for an approval.
    pub done: Json,
}

/// The last presence of one gate.
#[derive(Clone, PartialEq, Debug)]
pub struct Presence {
    /// The origin of the gate's chain.
    pub origin: String,
    /// Host and process, for human readers.
    pub writer: String,
    /// When it was published, by the list's clock if it has one.
    pub at: Timestamp,
    /// The last row it has obeyed.
    pub seq: u64,
    /// Open runs, calls on the road, held calls and readiness, for operators and the fleet view.
    pub state: Json,
}

/// Port to the list of orders.
///
/// An effect is durable when a method returns `Ok`; after `Unknown` it may or may not be. The store
/// itself does not retry.
#[async_trait]
pub trait Orders: Send + Sync + std::fmt::Debug {
    /// Adds an order to the list durably, and returns its number.
    ///
    /// # Errors
    /// The store's.
    async fn put(
        &self,
        at: Timestamp,
        given: &OrderOrigin,
        order: &Order,
    ) -> Result<u64, StoreError>;

    /// At most `most` rows above `seq`, ascending. No row below a returned one can appear later.
    ///
    /// # Errors
    /// The store's.
    async fn since(&self, seq: u64, most: usize) -> Result<Vec<Row>, StoreError>;

    /// The newest row; `None` if there is none. Rows have no gaps, so it is found by bisection.
    ///
    /// # Errors
    /// The store's.
    async fn last(&self) -> Result<Option<Row>, StoreError> {
        let (mut found, mut step) = (None::<Row>, 1_u64 << 40);
        while step > 0 {
            let below = found.as_ref().map_or(0, |row| row.seq);
            let above = below.saturating_add(step).saturating_sub(1);
            match self.since(above, 1).await?.pop() {
                Some(row) => found = Some(row),
                None => step >>= 1,
            }
        }
        Ok(found)
    }

    /// Stores a gate's report. A second report of the gate about the same row replaces the first.
    ///
    /// # Errors
    /// The store's.
    async fn report(&self, report: &OrderReport) -> Result<(), StoreError>;

    /// Every report about a row, by origin.
    ///
    /// # Errors
    /// The store's.
    async fn reports(&self, seq: u64) -> Result<Vec<OrderReport>, StoreError>;

    /// Publishes a gate's presence.
    ///
    /// # Errors
    /// The store's.
    async fn show(&self, presence: &Presence) -> Result<(), StoreError>;

    /// The last presence of every gate that was ever present, by origin.
    ///
    /// # Errors
    /// The store's.
    async fn shown(&self) -> Result<Vec<Presence>, StoreError>;

    /// Completes once a row has been added through this value, even if that was before the call, so
    /// that a follower in the same process need not poll. Never completes if rows are added
    /// elsewhere.
    async fn put_here(&self) {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_reads_back_as_it_was_written_and_an_unknown_one_is_none() {
        let (run, call) = (RunId::from_random([7; 16]), CallId::parse("c1").unwrap());
        let targets = [
            Target::All,
            Target::Agent("reviewer".into()),
            Target::Run(run),
            Target::Face(Face::Mcp),
            Target::Kind(ToolKind::Sql),
            Target::Server("github".into()),
            Target::Upstream("openai".into()),
            Target::Tool(ToolName::parse("repo.read_file").unwrap()),
            Target::Manifest(Digest::of(&[b"m"])),
            Target::Key("k".into()),
        ];
        let actions = [Action::Suspend, Action::Revoke, Action::Reinstate, Action::Kill];
        let mut orders: Vec<Order> = Vec::new();
        for target in &targets {
            let target = || target.clone();
            orders.extend(actions.map(|action| Order::Switch { action, target: target() }));
        }
        let (statement, signature) = ("{}".to_owned(), "-----".to_owned());
        orders.push(Order::ApproverStatement { run, call: call.clone(), statement, signature });
        orders.push(Order::Loosen(Word { statement: "{}".into(), signature: "-".into() }));
        orders.push(Order::Modify {
            run,
            call,
            arguments: "{\"a\":1}".into(),
            statement: "{}".into(),
            signature: "-".into(),
        });
        let (statement, signatures) = ("{}".to_owned(), vec!["a".to_owned(), "b".to_owned()]);
        orders.push(Order::BreakGlass(SignedBreakGlass { statement, signatures }));
        orders.push(Order::CloseBreakGlass { nonce: "0".repeat(32) });
        orders.push(Order::ReviewBreakGlass { nonce: "0".repeat(32) });
        orders.push(Order::ClearTaint { run });
        orders.push(Order::EndException { order: 7 });
        let (bundle, base) = (Digest::of(&[b"new"]), Digest::of(&[b"old"]));
        let (version, nonce, files) = ("1.2.3".to_owned(), "0".repeat(32), "{}".to_owned());
        orders.push(Order::Propose { bundle, base, version, nonce, files });
        let (statement, signature) = ("{}".to_owned(), "-----".to_owned());
        orders.push(Order::Publish { bundle, statement, signature });
        orders.push(Order::Activate { bundle });
        for order in orders {
            assert_eq!(Order::parse(order.kind(), &order.to_json()), Some(order));
        }
        assert_eq!(Order::parse("sing", &Json::object([("name", Json::from("x"))])), None);
        assert_eq!(Target::parse("all", "x"), None);
        assert_eq!(Target::parse("agent", ""), None);
    }
}
