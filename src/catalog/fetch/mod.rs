//! The `fetch` kind: a URL of the agent's choice, and the rules for such URLs.

mod check;
pub mod config;

use super::address::{Cidr, is_public};
use super::binding::Credential;
use super::host::{self, Host, Origin};
use super::secret::Secret;
use super::web_url::{WebUrl, read_host};
use super::{Reach, definition};
use crate::domain::effect::ToolKind;
use crate::domain::json::{Json, json};

/// The URLs a tool may fetch, and the headers of its requests and answers.
#[derive(Debug)]
pub struct Fetch {
    /// Hosts, by name or below a domain.
    pub hosts: Vec<HostPattern>,
    /// `https`, `http`.
    pub schemes: Vec<&'static str>,
    /// TCP ports; empty: the scheme's own.
    pub ports: Vec<u16>,
    /// `GET`, `HEAD`.
    pub methods: Vec<http::Method>,
    /// Request headers the agent may set.
    pub headers_allowed: Vec<http::HeaderName>,
    /// Response headers that the agent receives.
    pub headers_returned: Vec<http::HeaderName>,
    /// Ranges outside the public Internet that the binding opens.
    pub private_addresses: Vec<Cidr>,
    /// PEM text of the only certificate authorities to trust; the public ones if absent.
    pub ca: Option<Vec<u8>>,
    /// Secrets, each with the one origin it is sent to.
    pub credentials: Vec<(Origin, Credential)>,
}

/// Why a text names no hosts.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PatternError {
    /// The host, or the domain after `*.`.
    #[error(transparent)]
    Host(#[from] host::Error),
    /// A `*` elsewhere.
    #[error("`{0}`: a `*` stands for whole labels, at the front: `*.a.example`")]
    Star(String),
    /// Every name below one label, or below an address.
    #[error("`{0}` is too broad: at least two labels must follow `*.`")]
    Wide(String),
}

/// Hosts that are allowed: one, or every one below a domain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HostPattern {
    /// This host alone.
    Exact(Host),
    /// Every name that ends with `.` and this one, at any depth; not the name itself.
    Below(String),
}

impl HostPattern {
    /// Reads `docs.example.com` or `*.example.com`.
    ///
    /// # Errors
    /// See [`PatternError`].
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let Some(base) = text.strip_prefix("*.") else {
            if text.contains('*') {
                return Err(PatternError::Star(text.to_owned()));
            }
            return Ok(Self::Exact(read_host(text)?));
        };
        match read_host(base)? {
            Host::Name(name) if name.contains('.') => Ok(Self::Below(name)),
            Host::Name(_) | Host::Ip(_) => Err(PatternError::Wide(text.to_owned())),
        }
    }

    /// Whether this host is one of them.
    #[must_use]
    pub fn matches(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Exact(exact), host) => exact == host,
            (Self::Below(base), Host::Name(name)) => name
                .strip_suffix(base)
                .is_some_and(|prefix| prefix.len() > 1 && prefix.ends_with('.')),
            (Self::Below(_), Host::Ip(_)) => false,
        }
    }
}

impl std::fmt::Display for HostPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Exact(host) => write!(f, "{host}"),
            Self::Below(base) => write!(f, "*.{base}"),
        }
    }
}

/// Why a URL or a header is not this tool's to send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Denied {
    /// The stable detail: `fetch.host`, `fetch.port`, ….
    pub detail: &'static str,
    /// For the agent.
    pub message: String,
}

impl Denied {
    fn new(detail: &'static str, message: impl Into<String>) -> Self {
        Self { detail, message: message.into() }
    }
}

impl Fetch {
    /// All addresses of the hosts that are listed by name.
    pub fn origins(&self) -> Vec<Origin> {
        let named = self.hosts.iter().filter_map(|pattern| match pattern {
            HostPattern::Exact(host) => Some(host),
            HostPattern::Below(_) => None,
        });
        let at = |host: &Host| {
            let mut all = Vec::new();
            for scheme in &self.schemes {
                let tls = *scheme == "https";
                let own = [if tls { 443 } else { 80 }];
                let ports = if self.ports.is_empty() { &own[..] } else { &self.ports };
                all.extend(ports.iter().map(|port| Origin {
                    tls,
                    host: host.clone(),
                    port: *port,
                }));
            }
            all
        };
        named.flat_map(at).collect()
    }

    /// Every reason why this tool may not fetch this URL, those about the host first. It resolves
    /// no name.
    pub fn denials(&self, url: &WebUrl) -> Vec<Denied> {
        let Origin { tls, host, port } = &url.origin;
        let mut denials: Vec<Denied> = self.admits_host(host).err().into_iter().collect();
        let scheme = url.origin.scheme();
        if !self.schemes.contains(&scheme) {
            denials
                .push(Denied::new("fetch.scheme", format!("this tool fetches no `{scheme}` urls")));
        }
        let own = if *tls { 443 } else { 80 };
        let allowed = if self.ports.is_empty() { *port == own } else { self.ports.contains(port) };
        if !allowed {
            denials.push(Denied::new(
                "fetch.port",
                format!("this tool fetches nothing from port {port}"),
            ));
        }
        denials
    }

    /// The entry of the list of hosts that this host is on: the exact one, if there is one.
    pub fn pattern_of(&self, host: &Host) -> Option<&HostPattern> {
        let mut listed: Vec<_> = self.hosts.iter().filter(|one| one.matches(host)).collect();
        listed.sort_by_key(|one| matches!(one, HostPattern::Below(_)));
        listed.first().copied()
    }

    /// Whether the tool may connect to this host at all.
    ///
    /// # Errors
    /// Why not: the host is inside the network, or on no list.
    pub fn admits_host(&self, host: &Host) -> Result<(), Denied> {
        let listed = self.hosts.iter().any(|pattern| pattern.matches(host));
        let open = listed && !self.private_addresses.is_empty();
        match host {
            Host::Ip(ip) if !is_public(*ip) => {
                if listed && self.private_addresses.iter().any(|range| range.contains(*ip)) {
                    return Ok(());
                }
                let message = format!("`{host}` is not on the public Internet");
                return Err(Denied::new("fetch.private_address", message));
            }
            Host::Name(name) if name == "localhost" || name.ends_with(".localhost") => {
                let message = format!("`{host}` is this machine");
                return Err(Denied::new("fetch.private_address", message));
            }
            Host::Name(_) if host.is_internal_name() && !open => {
                let message = format!("`{host}` is a name that leads inside");
                return Err(Denied::new("fetch.internal_name", message));
            }
            Host::Ip(_) | Host::Name(_) => {}
        }
        if listed {
            return Ok(());
        }
        Err(Denied::new("fetch.host", format!("this tool fetches nothing from `{host}`")))
    }
}

impl Reach for Fetch {
    fn kind(&self) -> ToolKind {
        ToolKind::Fetch
    }

    fn definition(&self) -> Json {
        fn texts<T: ToString>(list: &[T]) -> Json {
            list.iter().map(|one| Json::from(one.to_string())).collect()
        }
        let credentials = self.credentials.iter().map(|(origin, one)| {
            let to = format!("{}://{}", origin.scheme(), origin.authority());
            json!({"origin": to, "credential": definition::credential(one)})
        });
        json!({
            "hosts": texts(&self.hosts),
            "schemes": self.schemes,
            "ports": self.ports,
            "methods": texts(&self.methods),
            "headers_allowed": texts(&self.headers_allowed),
            "headers_returned": texts(&self.headers_returned),
            "private_addresses": texts(&self.private_addresses),
            "ca": definition::authorities(self.ca.as_deref()),
            "credentials": credentials.collect::<Json>(),
            "isolation": "none",
        })
    }

    fn origins(&self) -> Vec<Origin> {
        Self::origins(self)
    }

    fn secrets(&self) -> Vec<Secret> {
        self.credentials.iter().map(|(_, one)| one.secret.clone()).collect()
    }
}

#[cfg(test)]
mod tests;
