//! The operator console: pages for browsers at `/console` of the operators' listener.
//!
//! The server writes the pages, and everything works without a script. A page asks the routes of the operator API
//! (`crate::operator::api::ask`), with the rights of those routes: it has no data and no right of its own. Its sessions
//! are good here only; `/v1` takes no cookie.

#[cfg(feature = "console")]
mod assets;
#[cfg(feature = "console")]
mod cookie;
#[cfg(feature = "console")]
mod csv;
#[cfg(feature = "console")]
mod form;
#[cfg(feature = "console")]
mod guard;
#[cfg(feature = "console")]
mod oidc;
#[cfg(feature = "console")]
mod pages;
#[cfg(feature = "console")]
mod session;
#[cfg(feature = "console")]
mod site;
#[cfg(feature = "console")]
mod visit;

use std::path::PathBuf;

#[cfg(feature = "console")]
pub use site::{ConsolePage, PAGES};
#[cfg(feature = "console")]
pub(super) use site::{router, surface};

/// The page that everything begins with, and the beginning of all its paths.
pub const ROOT: &str = "/console";

/// Whether this program was built with the console.
pub const BUILT: bool = cfg!(feature = "console");

/// How browsers reach the console.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ConsoleSettings {
    /// The origins of its pages, as browsers name them: `https://hub.example.com:7301`. Without one, that of the
    /// request's own host, which the listener has checked to be a name of this machine.
    pub origins: Vec<String>,
    /// The issuer where operators can log in, if there is one.
    pub oidc: Option<OidcSettings>,
}

/// An issuer of OpenID Connect where operators log in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OidcSettings {
    /// The issuer, as its tokens name it.
    pub issuer: String,
    /// The name under which the issuer knows this console.
    pub client_id: String,
    /// The file of its secret, read for each login.
    pub client_secret: PathBuf,
    /// What people call the issuer.
    pub name: String,
    /// The only authorities (PEM) its certificate may be from, instead of the public ones; read for each exchange.
    pub ca: Option<PathBuf>,
    /// The one origin of the console, where the issuer sends browsers back.
    pub origin: String,
}

impl ConsoleSettings {
    /// The hosts of its origins: names of this machine, also where its certificate has only a wildcard for them.
    pub(super) fn hosts(&self) -> impl Iterator<Item = String> {
        let parsed = self.origins.iter().filter_map(|origin| url::Url::parse(origin).ok());
        parsed.filter_map(|origin| {
            Some(origin.host_str()?.trim_start_matches('[').trim_end_matches(']').to_owned())
        })
    }
}

/// Whether the console answers at this path.
pub(super) fn is_path(path: &str) -> bool {
    path.strip_prefix(ROOT).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// This program was built without it.
#[cfg(not(feature = "console"))]
pub(super) fn router(
    _settings: &ConsoleSettings,
    _answers: (&std::sync::Arc<crate::operator::OperatorApi>, &super::probes::OperatorView),
    _tls: bool,
) -> Option<axum::Router> {
    None
}

/// This program was built without it.
#[cfg(not(feature = "console"))]
pub(super) fn surface() -> impl Iterator<Item = (String, super::Access)> {
    std::iter::empty()
}
