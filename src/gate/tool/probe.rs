//! What an operator is told of a tool before any agent calls it: is everything there that it needs, and is
//! that as it should be.
//!
//! Each kind looks in its own room, with the very parts a call would use. Nothing of it is a call: no
//! argument and no credential is sent but what a database wants to see of its own client, nothing is
//! written, and what stands at the other end is asked for nothing. A new kind: one arm in [`probe`].

use std::sync::Arc;

use super::net::{Client, Reached, Refused, Resolve};
use super::sandbox::Levels;
use super::scrub::Scrub;
use super::{command, fetch, file, grpc, http, model, sql};
use crate::catalog::binding::{Binding, Kind};
use crate::catalog::host::Origin;

/// How one thing that a tool needs was found; what is worse is greater.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum State {
    /// It cannot be looked at without a call: a pattern of hosts.
    Skipped,
    /// It is there, and as it should be.
    Ready,
    /// A server shows it and no lock pins it, so no agent has it.
    New,
    /// It works as it was pinned, and is shown in other words or takes more than it did.
    Changed,
    /// Nobody answers, or nobody lets us in.
    Unreached,
    /// This machine cannot isolate it as it must be.
    Unavailable,
    /// It leads to an address that the binding does not open.
    Blocked,
    /// What answers cannot show that it is who it should be.
    Untrusted,
    /// It is there and must not be used as it is.
    Unfit,
    /// It is not what was pinned.
    Drifted,
    /// It is not there.
    Missing,
    /// The gate does not start with it.
    Refused,
}

impl State {
    /// The word for it, lowercase.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Skipped => "skipped",
            Self::Ready => "ready",
            Self::New => "new",
            Self::Changed => "changed",
            Self::Unreached => "unreached",
            Self::Unavailable => "unavailable",
            Self::Blocked => "blocked",
            Self::Untrusted => "untrusted",
            Self::Unfit => "unfit",
            Self::Drifted => "drifted",
            Self::Missing => "missing",
            Self::Refused => "refused",
        }
    }

    /// Whether nothing stands against it.
    #[must_use]
    pub const fn is_fine(self) -> bool {
        matches!(self, Self::Skipped | Self::Ready | Self::New | Self::Changed)
    }

    /// Whether it was not found out how it is: another time it may be fine.
    #[must_use]
    pub const fn is_unknown(self) -> bool {
        matches!(self, Self::Unreached | Self::Unavailable)
    }
}

/// One thing that was looked at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Point {
    /// What: `https://api.example.com:443`, `/usr/bin/sort`, `sandbox S2`.
    pub what: String,
    /// How it was found.
    pub state: State,
    /// The same in words, for the operator; never a secret.
    pub found: String,
    /// What to do about it; nothing if it is fine.
    pub todo: Option<String>,
}

impl Point {
    /// It is as it should be.
    #[must_use]
    pub fn ready(what: impl Into<String>, found: impl Into<String>) -> Self {
        Self { what: what.into(), state: State::Ready, found: found.into(), todo: None }
    }

    /// It is not, and this is what to do.
    #[must_use]
    pub fn wrong(
        what: impl Into<String>,
        state: State,
        found: impl Into<String>,
        todo: &str,
    ) -> Self {
        let todo = (!todo.is_empty()).then(|| todo.to_owned());
        Self { what: what.into(), state, found: found.into(), todo }
    }
}

/// The worst of them; a tool of which there is nothing to look at is ready.
#[must_use]
pub fn worst(points: &[Point]) -> State {
    points.iter().map(|point| point.state).max().unwrap_or(State::Ready)
}

/// What every look needs.
#[derive(Clone, Debug)]
pub struct Around {
    /// Who knows the addresses of names.
    pub resolve: Arc<dyn Resolve>,
    /// What isolation this machine gives, found out once.
    pub levels: Arc<Levels>,
}

/// Looks at everything one binding needs. Takes as long as what it reaches: the caller has a deadline.
/// What stands behind an MCP server is compared where the server is asked, and is nothing here.
pub async fn probe(binding: Binding, around: &Around) -> Vec<Point> {
    let scrub = Scrub::new(&binding.kind.secrets());
    let resolve = &around.resolve;
    let points = match binding.kind {
        Kind::Http(http) => http::probe(&http, resolve).await,
        Kind::Fetch(fetch) => fetch::probe(&fetch, resolve).await,
        Kind::Grpc(grpc) => grpc::probe(&grpc, resolve).await,
        Kind::FileRead(root) => file::probe(&root, false),
        Kind::FileList(listing) => file::probe(&listing.root, false),
        Kind::FileWrite(writing) => file::probe(&writing.root, true),
        Kind::Model(model) => model::probe(&model, resolve).await,
        Kind::Command(command) => {
            let levels = Arc::clone(&around.levels);
            // Hashing programs and trying to break out of a sandbox block.
            let looking = tokio::task::spawn_blocking(move || command::probe(&command, &levels));
            looking.await.unwrap_or_else(|lost| vec![broken(&lost.to_string())])
        }
        Kind::Sql(sql) => sql::probe(*sql, Arc::clone(resolve)).await,
        Kind::Mcp(_) => Vec::new(),
    };
    let clean = |point: Point| Point { found: scrub.text(&point.found), ..point };
    points.into_iter().map(clean).collect()
}

fn broken(why: &str) -> Point {
    Point::wrong("look", State::Unreached, format!("the look itself failed: {why}"), "")
}

/// Connects to an origin with the client a call would use, and sends nothing.
pub(super) async fn connect(
    origin: &Origin,
    client: Result<Client, impl std::fmt::Display>,
    name: Option<&str>,
) -> Point {
    let place = format!("{}://{}:{}", origin.scheme(), origin.host, origin.port);
    let what = name.map_or_else(|| place.clone(), |name| format!("{name} {place}"));
    match client {
        Ok(client) => connection(what, client.reach(origin).await),
        Err(why) => Point::wrong(what, State::Refused, why.to_string(), "correct `ca_file`"),
    }
}

/// What a connection, or the lack of one, means.
pub(super) fn connection(what: String, came: Result<Reached, Refused>) -> Point {
    let refused = match came {
        Ok(Reached { peer, tls: Some(version) }) => {
            let found = format!("connected to {peer}, {version}, its certificate is valid");
            return Point::ready(what, found);
        }
        Ok(Reached { peer, tls: None }) => {
            return Point::ready(what, format!("connected to {peer}, without TLS"));
        }
        Err(refused) => refused,
    };
    let (state, todo) = match &refused {
        Refused::Name => (State::Unreached, "correct the name, or look at this machine's resolver"),
        Refused::Unreachable => {
            (State::Unreached, "start it, or let this machine through to its port")
        }
        Refused::Answers => (State::Blocked, "use a name with fewer addresses"),
        Refused::Address(_) => {
            (State::Blocked, "if it is meant, open its range in `private_addresses`")
        }
        Refused::Elsewhere => {
            (State::Blocked, "find out what redirects this machine's connections")
        }
        Refused::Certificate => {
            (State::Untrusted, "correct the name, or name its authority in `ca_file`")
        }
        Refused::Tls => (State::Untrusted, "let it speak TLS 1.2 or 1.3 on this port"),
    };
    let mut found = refused.to_string();
    if let Refused::Address(ip) = &refused {
        found = format!("{found}: {ip}");
    }
    Point::wrong(what, state, found, todo)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_of_what_was_found_is_how_the_tool_stands() {
        let point = |state| Point::wrong("x", state, "y", "z");
        assert_eq!(worst(&[]), State::Ready);
        assert_eq!(worst(&[point(State::Skipped)]), State::Skipped);
        assert_eq!(worst(&[point(State::Ready), point(State::Skipped)]), State::Ready);
        let both = [point(State::Unreached), point(State::Blocked), point(State::Ready)];
        assert_eq!(worst(&both), State::Blocked);
        assert!(!State::Blocked.is_unknown() && !State::Blocked.is_fine());
    }

    #[test]
    fn an_address_that_is_refused_is_named_with_what_to_do() {
        let refused = Refused::Address([10, 0, 0, 1].into());
        let point = connection("http://a.test:80".into(), Err(refused));
        assert_eq!(point.state, State::Blocked);
        assert!(point.found.ends_with(": 10.0.0.1"), "{point:?}");
        assert!(point.todo.is_some_and(|todo| todo.contains("`private_addresses`")));
    }
}
