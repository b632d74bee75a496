//! One connection, and the messages it sends together.

use std::pin::pin;

use futures_util::future::join3;
use tokio_postgres::{Client, Error, Row};

use super::address::{Address, PostgresConnection};
use super::errors::Failure;
use super::values::Values;

/// A connection. Once it has ended, every answer is an error.
pub(super) struct PostgresLink {
    client: Client,
    wire: Option<PostgresConnection>,
    /// Why it ended.
    ended: Option<Error>,
}

/// The answers to the three parts of a transaction.
pub(super) struct Answers {
    /// To what opened it.
    pub(super) opened: Result<(), Error>,
    /// To its statement.
    pub(super) rows: Result<Vec<Row>, Error>,
    /// To `COMMIT`.
    pub(super) committed: Result<(), Error>,
}

impl PostgresLink {
    pub(super) async fn open(address: &Address) -> Result<Self, Failure> {
        let (client, wire) = address.connect().await?;
        Ok(Self { client, wire: Some(wire), ended: None })
    }

    /// Runs a statement in its own transaction, in one round trip. Nothing is prepared and no
    /// session state is changed, so the next transaction may use another server connection.
    pub(super) async fn transaction(
        &mut self,
        opening: &str,
        sql: &str,
        values: &Values<'_>,
    ) -> Answers {
        let (client, values) = (&self.client, values.typed());
        // WHY: the first poll happens in this order, so all parts are sent in this order before any
        // answer is awaited.
        let sent = join3(
            client.batch_execute(opening),
            client.query_typed(sql, &values),
            client.batch_execute("COMMIT"),
        );
        let (opened, rows, committed) = drive(&mut self.wire, &mut self.ended, sent).await;
        Answers {
            opened: opened.map_err(|e| self.cause(e)),
            rows: rows.map_err(|e| self.cause(e)),
            committed: committed.map_err(|e| self.cause(e)),
        }
    }

    /// One statement.
    pub(super) async fn rows(&mut self, sql: &str, values: &Values<'_>) -> Result<Vec<Row>, Error> {
        let values = values.typed();
        let sent = self.client.query_typed(sql, &values);
        let rows = drive(&mut self.wire, &mut self.ended, sent).await;
        rows.map_err(|e| self.cause(e))
    }

    /// Statements without values.
    pub(super) async fn script(&mut self, sql: &str) -> Result<(), Error> {
        let sent = self.client.batch_execute(sql);
        let done = drive(&mut self.wire, &mut self.ended, sent).await;
        done.map_err(|e| self.cause(e))
    }

    /// The reason why a connection has ended, once.
    fn cause(&mut self, error: Error) -> Error {
        if error.is_closed() { self.ended.take().unwrap_or(error) } else { error }
    }
}

/// Polls the connection until this is answered.
async fn drive<T>(
    wire: &mut Option<PostgresConnection>,
    ended: &mut Option<Error>,
    sent: impl Future<Output = T>,
) -> T {
    let mut sent = pin!(sent);
    if let Some(open) = wire.as_mut() {
        tokio::select! {
            biased;
            answers = &mut sent => return answers,
            end = open => *ended = end.err(),
        }
    }
    // Pending answers never arrive: dropping the connection makes them errors.
    *wire = None;
    sent.await
}
