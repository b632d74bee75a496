//! The operator's probe: whether the server is reachable and authentic, what the role may do, and
//! whether a statement could leave its read-only transaction.

use std::sync::Arc;

use tokio_util::either::Either;

use super::wire::{Stream, socket};
use super::{Limits, NoStream, PostgresBackend, ResultSpace, Secure, Session, SqlFailure};
use crate::catalog::sql::Statement;
use crate::ledger::fuse::Fuse;
use crate::tool::net::Reached;
use crate::tool::probe::{Point, ProbeState, connection};
use crate::tool::sql::PreparedSql;

/// The first attempt of a statement that wants to write. It is rolled back in any case.
const BREAK_OUT: &str = "SELECT pg_catalog.set_config('transaction_read_only', 'off', true)";
/// The error code for changing a transaction too late.
const TOO_LATE: &str = "(25001)";

impl PostgresBackend {
    /// Connects, opens a session, and tries to write where that is forbidden.
    pub async fn probe(&self) -> Vec<Point> {
        let origin = &self.target.origin;
        let place = format!("{}:{}", origin.host, origin.port);
        let stream = match self.stream().await {
            Ok(stream) => stream,
            Err(none) => return vec![unconnected(place, none)],
        };
        let mut points = vec![connected(place, &stream)];
        let who = format!("role {} at {}", self.target.user, self.target.database);
        match self.begin(stream).await {
            Ok(mut session) => {
                points.push(Point::ready(who, self.rights()));
                if self.limits.free {
                    points.push(calls(&mut session).await);
                }
                if self.limits.read_only {
                    points.push(stays_read_only(session, self.limits).await);
                }
            }
            Err(SqlFailure::Unfit(why)) => {
                let todo = "give it a role of its own that may do less: examples/sql";
                points.push(Point::wrong(who, ProbeState::Unfit, why.to_string(), todo));
            }
            Err(failure @ (SqlFailure::Failed { .. } | SqlFailure::Unknown { .. })) => {
                let todo = "correct the role, its password or the database in `url_file`";
                points.push(Point::wrong(who, ProbeState::Unreached, failure.into_message(), todo));
            }
        }
        points
    }

    const fn rights(&self) -> &'static str {
        if self.limits.read_only {
            "is let in, has no rights beyond its own, and may write to no table"
        } else {
            "is let in, and has no rights beyond its own; it may write"
        }
    }
}

fn connected(place: String, stream: &Stream) -> Point {
    let peer = socket(stream).peer_addr();
    let tls = match stream {
        Either::Left(_) => None,
        Either::Right(tls) => Some(Secure::version(tls)),
    };
    let reached = peer.map(|peer| Reached { peer, tls });
    connection(place, reached.map_err(|_lost| crate::tool::net::ConnectError::Silent))
}

fn unconnected(place: String, none: NoStream) -> Point {
    match none {
        NoStream::Refused(refused) | NoStream::Untrusted(refused) => {
            connection(place, Err(refused))
        }
        NoStream::Plain(error) => {
            let todo = "switch TLS on at the server (`ssl = on`)";
            Point::wrong(place, ProbeState::Untrusted, error.to_string(), todo)
        }
    }
}

/// The functions that the role may call although agents do not need them.
async fn calls(session: &mut Session) -> Point {
    let what = "functions of the role";
    match session.dangerous().await {
        Ok(None) => Point::ready(what, "none that runs a text as SQL, locks, waits or reaches out"),
        Ok(Some(names)) => {
            let todo = "run examples/sql/revoke.sql in this database as a superuser";
            Point::wrong(what, ProbeState::Unfit, format!("it may call {names}"), todo)
        }
        Err(failure) => {
            let found = format!("could not be asked for: {}", failure.into_message());
            Point::wrong(what, ProbeState::Unreached, found, "")
        }
    }
}

/// Tries to turn a read-only transaction into one that writes.
async fn stays_read_only(mut session: Session, limits: Limits) -> Point {
    let what = "read-only transactions";
    let statement = Statement {
        text: BREAK_OUT.to_owned(),
        kind: "select",
        writes: false,
        relations: Vec::new(),
        functions: Vec::new(),
        parts: Vec::new(),
        params: 0,
        fields: Vec::new(),
    };
    let ready = PreparedSql { statement: Arc::new(statement), values: Vec::new() };
    // The gate's own statement, which needs no check of its plan.
    let limits = Limits { free: false, ..limits };
    let tried = session.ask(&ready, ResultSpace::new(1, 4096, &[]), (limits, &Fuse::never())).await;
    session.close().await;
    match tried {
        Ok((Err(SqlFailure::Failed { message, .. }), _)) if message.contains(TOO_LATE) => {
            Point::ready(what, "a statement tried to leave one and could not")
        }
        Ok((Ok(_), _)) => {
            let found = "a statement made its own transaction writable";
            Point::wrong(
                what,
                ProbeState::Unfit,
                found,
                "do not use this server for what only reads",
            )
        }
        Ok((Err(failure), _)) | Err(failure) => {
            let found = format!("could not be tried: {}", failure.into_message());
            Point::wrong(what, ProbeState::Unreached, found, "")
        }
    }
}
