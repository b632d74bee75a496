//! What operators tell the gates: one numbered list of orders, and what each gate did about them.
//!
//! An operator's order is one row. Rows are numbered without gaps in the order in which they become
//! visible, so that a gate which has read up to a number has missed nothing below it. Every gate reads
//! the list (250 ms at most between two looks), obeys, and reports. On one machine the list is in the
//! SQLite ledger's file, else in Postgres beside the ledger.

use async_trait::async_trait;

use crate::approval::break_glass::SignedBreakGlass;
use crate::approval::{SignedApproval as Word, is_nonce};
use crate::domain::digest::Digest;
use crate::domain::id::{CallId, RunId, ToolName};
use crate::domain::json::Json;
use crate::domain::time::Timestamp;
use crate::ledger::store::StoreError;
use crate::record::{self, control::TargetKind};

pub mod amendments;
pub mod answer;
pub mod memory;
pub mod postgres;
pub mod sqlite;
mod stopped;
mod wire;

pub use stopped::stopped_keys;

/// What an order is about.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Target {
    /// Everything of the tenant.
    All,
    /// Every run of an agent, by `metadata.name`, and of the agents it delegates to.
    Agent(String),
    /// One run, and the runs it delegated to.
    Run(RunId),
    /// One tool, whoever calls it.
    Tool(ToolName),
    /// One version of a manifest.
    Manifest(Digest),
    /// A key by its id: of a manifest, a policy or an approver.
    Key(String),
}

impl Target {
    /// `all`, `agent`, `run`, `tool`, `manifest` or `key`.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Agent(_) => "agent",
            Self::Run(_) => "run",
            Self::Tool(_) => "tool",
            Self::Manifest(_) => "manifest",
            Self::Key(_) => "key",
        }
    }

    /// Its kind as entries have it.
    #[must_use]
    pub const fn recorded(&self) -> TargetKind {
        match self {
            Self::All => TargetKind::All,
            Self::Agent(_) => TargetKind::Agent,
            Self::Run(_) => TargetKind::Run,
            Self::Tool(_) => TargetKind::Tool,
            Self::Manifest(_) => TargetKind::Manifest,
            Self::Key(_) => TargetKind::Key,
        }
    }

    /// Its name; empty for everything.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::All => String::new(),
            Self::Agent(name) | Self::Key(name) => name.clone(),
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
            _ => None,
        }
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

/// What an operator wants done with a target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// No new calls until it is reinstated; what is at its tool may end.
    Suspend,
    /// No calls any more; what is in flight is stopped. Only `Reinstate` undoes it.
    Revoke,
    /// Takes back `Suspend` and `Revoke`. As an order it is one only when it is signed: [`Order::Loosen`].
    Reinstate,
    /// What is in flight is stopped and the runs are sealed; new runs may be opened.
    Kill,
}

impl Action {
    /// `suspend`, `revoke`, `reinstate` or `kill`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Suspend => "suspend",
            Self::Revoke => "revoke",
            Self::Reinstate => "reinstate",
            Self::Kill => "kill",
        }
    }

    /// Reads the word.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let all = [Self::Suspend, Self::Revoke, Self::Reinstate, Self::Kill];
        all.into_iter().find(|action| action.as_str() == text)
    }
}

/// One order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Order {
    /// Do this with that.
    Switch {
        /// What.
        action: Action,
        /// With what.
        target: Target,
    },
    /// A stop is taken back: signed by an operator ([`crate::approval::order`]), to be checked by every gate.
    Loosen(Word),
    /// An approver's word about a held call: bytes to be checked by whoever runs the call.
    Word {
        /// The run.
        run: RunId,
        /// The call.
        call: CallId,
        /// The statement as it was signed.
        statement: String,
        /// The SSHSIG, armored.
        signature: String,
    },
    /// A held call is to be asked again with other arguments; the held one ends.
    Modify {
        /// The run.
        run: RunId,
        /// The call.
        call: CallId,
        /// The new arguments, UTF-8 JSON.
        arguments: String,
        /// The proposal as it was signed.
        statement: String,
        /// The SSHSIG, armored.
        signature: String,
    },
    /// For a short time calls need no approver: a signed statement, to be checked by every gate.
    BreakGlass(SignedBreakGlass),
    /// Ends what the statement with this nonce opened.
    CloseGlass {
        /// The nonce of the statement: 32 hex digits.
        nonce: String,
    },
    /// Somebody looked at what was done under the statement with this nonce.
    ReviewGlass {
        /// The nonce of the statement: 32 hex digits.
        nonce: String,
    },
    /// A policy bundle that somebody wants in force.
    Propose {
        /// Its digest.
        bundle: Digest,
        /// What it is to replace.
        base: Digest,
        /// Its version, for people: the gates read it out of the files.
        version: String,
        /// 16 random bytes in hex: what publishers sign is good for this proposal only.
        nonce: String,
        /// Its files: [`crate::policy::carried::Carried`] as JSON text.
        files: String,
    },
    /// A publisher's word about a proposed bundle: bytes to be checked by every gate.
    Publish {
        /// The bundle.
        bundle: Digest,
        /// The statement as it was signed.
        statement: String,
        /// The SSHSIG, armored.
        signature: String,
    },
    /// An approved bundle is to be put in force.
    Activate {
        /// The bundle.
        bundle: Digest,
    },
}

impl Order {
    /// `switch`, `loosen`, `word`, `modify`, `break_glass`, `break_glass_close`, `break_glass_review`, `propose`, `publish` or
    /// `activate`: the column `kind`.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Switch { .. } => "switch",
            Self::Loosen(_) => "loosen",
            Self::Word { .. } => "word",
            Self::Modify { .. } => "modify",
            Self::BreakGlass(_) => "break_glass",
            Self::CloseGlass { .. } => "break_glass_close",
            Self::ReviewGlass { .. } => "break_glass_review",
            Self::Propose { .. } => "propose",
            Self::Publish { .. } => "publish",
            Self::Activate { .. } => "activate",
        }
    }

    /// The bundle an amendment is about.
    #[must_use]
    pub const fn amends(&self) -> Option<&Digest> {
        match self {
            Self::Switch { .. }
            | Self::Loosen(_)
            | Self::Word { .. }
            | Self::Modify { .. }
            | Self::BreakGlass(_)
            | Self::CloseGlass { .. }
            | Self::ReviewGlass { .. } => None,
            Self::Propose { bundle, .. }
            | Self::Publish { bundle, .. }
            | Self::Activate { bundle } => Some(bundle),
        }
    }

    /// The column `body`: one JSON object.
    #[must_use]
    pub fn to_json(&self) -> Json {
        match self {
            Self::Switch { action, target } => Json::object([
                ("action", Json::from(action.as_str())),
                ("target", Json::from(target.kind())),
                ("name", Json::from(target.name())),
            ]),
            Self::Loosen(Word { statement, signature }) => Json::object([
                ("statement", Json::from(statement.as_str())),
                ("signature", Json::from(signature.as_str())),
            ]),
            Self::Word { run, call, statement, signature } => Json::object([
                ("run", Json::from(run.to_string())),
                ("call", Json::from(call.as_str())),
                ("statement", Json::from(statement.as_str())),
                ("signature", Json::from(signature.as_str())),
            ]),
            Self::Modify { run, call, arguments, statement, signature } => Json::object([
                ("run", Json::from(run.to_string())),
                ("call", Json::from(call.as_str())),
                ("arguments", Json::from(arguments.as_str())),
                ("statement", Json::from(statement.as_str())),
                ("signature", Json::from(signature.as_str())),
            ]),
            Self::BreakGlass(signed) => signed.to_json(),
            Self::CloseGlass { nonce } | Self::ReviewGlass { nonce } => {
                Json::object([("nonce", Json::from(nonce.as_str()))])
            }
            Self::Propose { bundle, base, version, nonce, files } => Json::object([
                ("bundle", Json::from(bundle.prefixed())),
                ("base", Json::from(base.prefixed())),
                ("version", Json::from(version.as_str())),
                ("nonce", Json::from(nonce.as_str())),
                ("files", Json::from(files.as_str())),
            ]),
            Self::Publish { bundle, statement, signature } => Json::object([
                ("bundle", Json::from(bundle.prefixed())),
                ("statement", Json::from(statement.as_str())),
                ("signature", Json::from(signature.as_str())),
            ]),
            Self::Activate { bundle } => Json::object([("bundle", Json::from(bundle.prefixed()))]),
        }
    }

    /// Reads kind and body. `None` for an order that this build does not know: a gate that meets one
    /// must not act as if it had obeyed.
    #[must_use]
    pub fn parse(kind: &str, body: &Json) -> Option<Self> {
        let text = |name: &str| body.get(name).and_then(Json::as_str);
        let about = || Some((RunId::parse(text("run")?)?, CallId::parse(text("call")?)?));
        match kind {
            "switch" => Some(Self::Switch {
                action: Action::parse(text("action")?)?,
                target: Target::parse(text("target")?, text("name")?)?,
            }),
            "loosen" => {
                let (statement, signature) = (text("statement")?, text("signature")?);
                let (statement, signature) = (statement.to_owned(), signature.to_owned());
                Some(Self::Loosen(Word { statement, signature }))
            }
            "word" => {
                let (run, call) = about()?;
                let (statement, signature) = (text("statement")?, text("signature")?);
                let (statement, signature) = (statement.to_owned(), signature.to_owned());
                Some(Self::Word { run, call, statement, signature })
            }
            "modify" => {
                let (run, call) = about()?;
                let (statement, signature) = (text("statement")?, text("signature")?);
                let (statement, signature) = (statement.to_owned(), signature.to_owned());
                let arguments = text("arguments")?.to_owned();
                Some(Self::Modify { run, call, arguments, statement, signature })
            }
            "break_glass" => body.read().ok().map(Self::BreakGlass),
            "break_glass_close" => Some(Self::CloseGlass { nonce: text("nonce")?.to_owned() }),
            "break_glass_review" => Some(Self::ReviewGlass { nonce: text("nonce")?.to_owned() }),
            _ => Self::parse_amendment(kind, body),
        }
    }
}

impl Order {
    fn parse_amendment(kind: &str, body: &Json) -> Option<Self> {
        let text = |name: &str| body.get(name).and_then(Json::as_str);
        let bundle = Digest::parse(text("bundle")?)?;
        match kind {
            "propose" => Some(Self::Propose {
                bundle,
                base: Digest::parse(text("base")?)?,
                version: text("version")?.to_owned(),
                nonce: text("nonce").filter(|nonce| is_nonce(nonce))?.to_owned(),
                files: text("files")?.to_owned(),
            }),
            "publish" => {
                let (statement, signature) = (text("statement")?, text("signature")?);
                let (statement, signature) = (statement.to_owned(), signature.to_owned());
                Some(Self::Publish { bundle, statement, signature })
            }
            "activate" => Some(Self::Activate { bundle }),
            _ => None,
        }
    }
}

/// Who gave an order, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OrderOrigin {
    /// The operator.
    pub subject: String,
    /// What the operator may do, sorted.
    pub roles: Vec<String>,
    /// How the operator proved who it is: `token`, `mtls`, `oidc`, `ssh`, `file`.
    pub auth: String,
    /// For people; may be empty.
    pub reason: String,
    /// When the order ends by itself, if it does.
    pub expires: Option<Timestamp>,
}

/// One row of the list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    /// Its number; the first is 1.
    pub seq: u64,
    /// When it was put there.
    pub at: Timestamp,
    /// By whom.
    pub given: OrderOrigin,
    /// The order; `None` if this build cannot read it.
    pub order: Option<Order>,
    /// SHA-256 of everything the row says, its number included: what a signed order speaks after.
    pub digest: Digest,
}

/// What one gate did about one row.
#[derive(Clone, PartialEq, Debug)]
pub struct OrderReport {
    /// The row.
    pub seq: u64,
    /// The gate: origin of its chain.
    pub origin: String,
    /// When it had done so.
    pub at: Timestamp,
    /// What it did: `data` of its entry `control.applied`, or of an approval what became of the call.
    pub done: Json,
}

/// One gate as it last showed itself.
#[derive(Clone, PartialEq, Debug)]
pub struct Presence {
    /// Origin of its chain.
    pub origin: String,
    /// Host and process, for people.
    pub writer: String,
    /// When, by the list's own clock where it has one.
    pub at: Timestamp,
    /// The last row it has obeyed.
    pub seq: u64,
    /// Open runs, calls on the road, held calls, readiness: for people and for the fleet view.
    pub state: Json,
}

/// The port to the list.
///
/// What is said to be durable is durable when a method returns `Ok`; `Unknown` may or may not be.
/// Nothing here is tried again by the store itself.
#[async_trait]
pub trait Orders: Send + Sync + std::fmt::Debug {
    /// Puts an order on the list, durably, and returns its number.
    ///
    /// # Errors
    /// The store's.
    async fn put(
        &self,
        at: Timestamp,
        given: &OrderOrigin,
        order: &Order,
    ) -> Result<u64, StoreError>;

    /// At most `most` rows above `seq`, ascending. A row that is returned has no unseen row below it,
    /// now or later.
    ///
    /// # Errors
    /// The store's.
    async fn since(&self, seq: u64, most: usize) -> Result<Vec<Row>, StoreError>;

    /// The newest row; `None` while there is none. Rows have no gaps, so it is found by halving.
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

    /// Notes what a gate did. A second report of the same gate about the same row replaces the first.
    ///
    /// # Errors
    /// The store's.
    async fn report(&self, report: &OrderReport) -> Result<(), StoreError>;

    /// Every report about a row, by origin.
    ///
    /// # Errors
    /// The store's.
    async fn reports(&self, seq: u64) -> Result<Vec<OrderReport>, StoreError>;

    /// Shows that a gate is there.
    ///
    /// # Errors
    /// The store's.
    async fn show(&self, presence: &Presence) -> Result<(), StoreError>;

    /// Every gate that ever showed itself, by origin.
    ///
    /// # Errors
    /// The store's.
    async fn shown(&self) -> Result<Vec<Presence>, StoreError>;

    /// Ends once a row was put through this value, also if that was before it was asked: who follows the
    /// list in the same process need not wait for its next look. Never ends where rows come from elsewhere.
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
        orders.push(Order::Word { run, call: call.clone(), statement, signature });
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
        orders.push(Order::CloseGlass { nonce: "0".repeat(32) });
        orders.push(Order::ReviewGlass { nonce: "0".repeat(32) });
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
