//! Orders to erase and to end a hold: written, signed, and checked against the list of their
//! signers.

use super::Signing;
use crate::app::approvers::{for_orders, in_force};
use crate::approval::order::{self, Loosening, OrderKind, OrderStatement, Previous};
use crate::approval::{Approvers, SignedApproval};
use crate::cli::Failure;
use crate::cli::api::Api;
use crate::cli::sign::{self, SignError};
use crate::clock::{Clock as _, SystemClock};
use crate::config::{self, Config};
use crate::control::{self, stopped_keys};
use crate::crypto::keys::PublicKey;
use crate::domain::digest::Digest;
use crate::domain::time::Timestamp;
use crate::evidence::erasure::newest;
use crate::ledger::store::LedgerReader;
use crate::operator::api::route;

/// An order without its tenant, its time and the entry it follows.
pub struct OrderDraft {
    pub order: OrderKind,
    pub target: &'static str,
    pub name: String,
    pub role: Option<String>,
    pub payloads: Vec<Digest>,
    pub request: Option<String>,
    pub reason: String,
}

impl OrderDraft {
    /// The statement of it.
    pub fn statement(self, tenant: String, previous: Previous) -> OrderStatement {
        OrderStatement {
            tenant,
            order: self.order,
            target: self.target.to_owned(),
            name: self.name,
            finding: None,
            role: self.role,
            payloads: self.payloads.into_iter().collect(),
            request: self.request,
            reason: self.reason,
            at: SystemClock::new().now(),
            expires: None,
            previous,
        }
    }

    /// The statement of it, after the newest entry of the fleet log that is read here.
    pub async fn beside(
        self,
        reader: &dyn LedgerReader,
        tenant: &str,
    ) -> Result<OrderStatement, Failure> {
        let previous = newest(reader, tenant).await.map_err(Failure::unverifiable)?;
        Ok(self.statement(tenant.to_owned(), previous))
    }

    /// The statement of it, after the newest entry of the fleet log that the operator API names.
    pub async fn over_api(self, api: &Api) -> Result<OrderStatement, Failure> {
        let (tenant, previous) = api.newest::<route::NewestErasure>().await?;
        Ok(self.statement(tenant, previous))
    }
}

/// The given statement, or this one.
pub async fn given_or(
    given: Option<OrderStatement>,
    made: impl Future<Output = Result<OrderStatement, Failure>>,
) -> Result<OrderStatement, Failure> {
    match given {
        Some(statement) => Ok(statement),
        None => made.await,
    }
}

/// The requester's name in entries: without the operator API, the signer.
pub fn signed_by(order: &Loosening) -> String {
    format!("operator:{}", order.by().subject)
}

/// What is wrong with an order that is signed here.
#[derive(Debug, thiserror::Error)]
enum Error {
    /// The default key cannot sign.
    #[error("{0}: name your own key with `--operator-key`")]
    OwnKey(#[source] SignError),
    /// The possible signers are not configured.
    #[error(
        "an operator must have signed it: name the configuration, or the list of approvers and who signs it \
         (`--signers FILE --approver-key FILE`)"
    )]
    NoList,
}

impl Signing {
    /// The statement that was signed elsewhere, if one is named.
    pub fn given_statement(&self) -> Result<Option<OrderStatement>, Failure> {
        let path = self.order.as_deref();
        path.map(sign::statement).transpose().map_err(Failure::usage)
    }

    /// Signs the statement, or takes a foreign signature of it.
    pub fn sign(&self, statement: &OrderStatement) -> Result<SignedApproval, Failure> {
        let with = (self.operator_key.as_deref(), self.signature.as_deref());
        sign::signed(with, statement).map_err(|error| {
            if self.operator_key.is_some() || self.signature.is_some() {
                return Failure::invalid(error);
            }
            Failure::invalid(Error::OwnKey(error))
        })
    }

    /// Signs it, and checks it against the list of order signers.
    pub async fn give(
        &self,
        (tenant, statement, kind): (&str, &OrderStatement, OrderKind),
        config: Option<&Config>,
        sqlite: Option<&std::path::Path>,
    ) -> Result<Box<Loosening>, Failure> {
        let now = SystemClock::new().now();
        let list = self.list(config, now)?;
        let whose = (tenant, &list);
        let stopped = match orders(config, sqlite).await.map_err(Failure::unverifiable)? {
            Some(orders) => {
                stopped_keys(&*orders, whose, now).await.map_err(Failure::unverifiable)?
            }
            None => std::collections::BTreeSet::new(),
        };
        let signed = self.sign(statement)?;
        let order_for = (tenant, &[kind][..]);
        let order = order::check(&list.without(stopped), order_for, &signed, now);
        order.map(Box::new).map_err(Failure::invalid)
    }

    /// The list of order signers.
    fn list(&self, config: Option<&Config>, now: Timestamp) -> Result<Approvers, Failure> {
        if let Some(config) = config {
            return for_orders(config, now).map_err(Failure::usage);
        }
        let (Some(file), Some(key)) = (&self.signers, &self.approver_key) else {
            return Err(Failure::usage(Error::NoList));
        };
        let keys = PublicKey::load_all(key).map_err(Failure::usage)?;
        in_force(file, (&keys, 1), now).map(|(list, _)| list).map_err(Failure::usage)
    }
}

type Orders = Box<dyn control::Orders>;

/// The list of orders beside this ledger, if its location is known.
async fn orders(
    config: Option<&Config>,
    sqlite: Option<&std::path::Path>,
) -> Result<Option<Orders>, crate::ledger::store::StoreError> {
    let sqlite = match config.map(|config| &config.ledger) {
        Some(config::Ledger::Sqlite(ledger)) => Some(ledger.path.as_path()),
        Some(config::Ledger::Postgres(ledger)) => {
            let (url, options) =
                (ledger.connect.expose(), crate::ledger::postgres::Options::default());
            return Ok(Some(Box::new(
                control::postgres::PostgresControl::connect(url, options).await?,
            )));
        }
        None => sqlite,
    };
    match sqlite {
        Some(path) => Ok(Some(Box::new(control::sqlite::SqliteControl::open(path).await?))),
        None => Ok(None),
    }
}
