//! The address of a binding: a literal scheme, host and port. No value of a caller can change them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why a text is not a host or an address of a binding.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// In brackets, and no IPv6 address.
    #[error("`{0}` is not an IPv6 address")]
    Ipv6(String),
    /// Empty or too long.
    #[error("a host name must have 1 to 253 characters")]
    Length,
    /// A label (first) of a host (second) with forbidden characters.
    #[error(
        "`{0}` in host `{1}` is not letters, digits and inner hyphens (international names are written in their \
         `xn--` form)"
    )]
    Label(String, String),
    /// A last label that some resolvers take for a number.
    #[error("host `{0}` ends like a number: some programs would read it as an address")]
    Number(String),
    /// A name that the URL standard reads otherwise.
    #[error("host `{0}` is not a valid domain name")]
    Domain(String),
    /// Characters that normalisation turns into others.
    #[error("host `{0}` has characters that programs replace by others")]
    Lookalike(String),
    /// A `%` in the host of a URL.
    #[error("a host must not be percent-encoded or have a zone")]
    Percent,
    /// Not a host alone.
    #[error("`{0}` is not `HOST` or `HOST:PORT`")]
    Form(String),
    /// A host inside, and no range that opens it.
    #[error("`{0}` is not on the public Internet; list its range under `private_addresses`")]
    Private(Host),
    /// A character that no URL has.
    #[error("a url must not contain `{}`", .0.escape_default())]
    Character(char),
    /// A query or a fragment.
    #[error("a url must end with its path; give the query under `query`")]
    Query,
    /// The scheme is missing or another one.
    #[error("a url must start with `https://` or `http://`")]
    Scheme,
    /// A user name.
    #[error("a url must not contain a user name or password; use `credentials`")]
    UserInfo,
    /// Braces or percent signs before the path.
    #[error("host and port must be literal: templates are allowed only in the path")]
    Template,
    /// Not a port in its one spelling.
    #[error("`{0}` is not a port (1 to 65535)")]
    Port(String),
}

/// A host as it will be resolved, sent and verified: lowercase.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Host {
    /// A DNS name of letters, digits and hyphens; IDNA names in their `xn--` form.
    Name(String),
    /// An address literal.
    Ip(IpAddr),
}

/// Names that lead inside, whatever they resolve to.
const INTERNAL: &[&str] = &[
    "localhost",
    "local",
    "internal",
    "intranet",
    "lan",
    "home.arpa",
    "corp",
    "home",
    "svc",
    "cluster.local",
    "onion",
    "localdomain",
];

impl Host {
    /// Reads the host part of a URL; IPv6 literals stand in brackets.
    ///
    /// # Errors
    /// What is wrong, for the operator.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if let Some(inner) = text.strip_prefix('[') {
            let v6 = inner.strip_suffix(']').and_then(|inner| inner.parse::<Ipv6Addr>().ok());
            let v6 = v6.ok_or_else(|| Error::Ipv6(text.to_owned()))?;
            return Ok(Self::Ip(v6.into()));
        }
        let name = text.to_ascii_lowercase();
        if let Ok(v4) = name.parse::<Ipv4Addr>() {
            return Ok(Self::Ip(v4.into()));
        }
        if name.is_empty() || name.len() > 253 {
            return Err(Error::Length);
        }
        if let Some(label) = name.split('.').find(|label| !is_label(label)) {
            return Err(Error::Label(label.to_owned(), text.to_owned()));
        }
        let last = name.rsplit('.').next().unwrap_or_default();
        let numeric = last.bytes().all(|b| b.is_ascii_digit());
        // Some resolvers read `127.1`, `2130706433` and `0x7f.1` as addresses.
        if numeric || last.starts_with("0x") {
            return Err(Error::Number(text.to_owned()));
        }
        // The URL standard's reader must see the very same name, IDNA included.
        if url::Host::parse(&name) != Ok(url::Host::Domain(name.clone())) {
            return Err(Error::Domain(text.to_owned()));
        }
        Ok(Self::Name(name))
    }

    /// Whether the name alone shows that it is an inside host: a single label, `*.internal`, ….
    #[must_use]
    pub fn is_internal_name(&self) -> bool {
        let Self::Name(name) = self else { return false };
        !name.contains('.')
            || name == "metadata.google.internal"
            || INTERNAL.iter().any(|suffix| {
                name.strip_suffix(suffix).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            })
    }
}

fn is_label(label: &str) -> bool {
    (1..=63).contains(&label.len())
        && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        && !label.starts_with('-')
        && !label.ends_with('-')
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Ip(IpAddr::V4(v4)) => write!(f, "{v4}"),
            Self::Ip(IpAddr::V6(v6)) => write!(f, "[{v6}]"),
        }
    }
}

/// Scheme, host and port of a binding, and the path template after them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Origin {
    /// Whether TLS is used (`https`).
    pub tls: bool,
    /// The host.
    pub host: Host,
    /// The TCP port.
    pub port: u16,
}

impl Origin {
    /// Reads `scheme://host[:port]/path` and gives back the path template, `/` if there is none.
    ///
    /// # Errors
    /// What is wrong, for the operator.
    pub fn parse(url: &str) -> Result<(Self, String), Error> {
        if let Some(c) = url.chars().find(|c| c.is_control() || c.is_whitespace() || *c == '\\') {
            return Err(Error::Character(c));
        }
        if url.contains(['?', '#']) {
            return Err(Error::Query);
        }
        let (tls, rest) = if let Some(rest) = url.strip_prefix("https://") {
            (true, rest)
        } else if let Some(rest) = url.strip_prefix("http://") {
            (false, rest)
        } else {
            return Err(Error::Scheme);
        };
        let (authority, path) =
            rest.find('/').and_then(|at| rest.split_at_checked(at)).unwrap_or((rest, "/"));
        if authority.contains('@') {
            return Err(Error::UserInfo);
        }
        if authority.contains(['{', '}', '%']) {
            return Err(Error::Template);
        }
        let (host, port) = split_port(authority);
        let host = Host::parse(host)?;
        let port = match port {
            None => {
                if tls {
                    443
                } else {
                    80
                }
            }
            Some(text) => match text.parse::<u16>() {
                Ok(port) if port > 0 && !text.starts_with(['0', '+']) => port,
                Ok(_) | Err(_) => return Err(Error::Port(text.to_owned())),
            },
        };
        Ok((Self { tls, host, port }, path.to_owned()))
    }

    /// `http` or `https`.
    pub const fn scheme(&self) -> &'static str {
        if self.tls { "https" } else { "http" }
    }

    /// `host`, with `:port` unless it is the scheme's own.
    pub fn authority(&self) -> String {
        let default = if self.tls { 443 } else { 80 };
        if self.port == default {
            self.host.to_string()
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

pub(super) fn split_port(authority: &str) -> (&str, Option<&str>) {
    if authority.starts_with('[') {
        return match authority.split_once("]:") {
            // INVARIANT: the bracket is put back by taking everything up to it.
            Some((host, port)) => {
                (authority.get(..host.len().saturating_add(1)).unwrap_or(host), Some(port))
            }
            None => (authority, None),
        };
    }
    authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_two_readers_could_see_differently_are_refused() {
        let urls = [
            "http://2130706433/",
            "http://0x7f.1/",
            "http://0177.0.0.1/",
            "http://127.1/",
            "http://0x7f.0x0.0x0.0x1/",
            "http://017700000001/",
            "http://0/",
            "http:///127.0.0.1/",
            "http:127.0.0.1",
            "http:\\\\127.0.0.1\\",
            "http://①②⑦.⓪.⓪.①/",
            "http://127。0。0。1/",
            "http://%31%32%37.0.0.1/",
            "http://ｅxample.com/",
            "http://user:pass@allowed.test/",
            "http://allowed.test%2f@evil.test/",
            "http://allowed.test\\@127.0.0.1/",
            "http://1.1.1.1 &@2.2.2.2# @3.3.3.3/",
            "http://allowed.test:0/",
            "http://a.test:65536/",
            "http://a.test:080/",
            "http://a.test:+80/",
            "gopher://a.test/",
            "file:///etc/passwd",
            "dict://127.0.0.1:11211/stats",
            "unix:///var/run/docker.sock",
            "HTTP://a.test/",
            "http://a..test/",
            "http://a.test./",
            "http://-a.test/",
            "http://a_b.test/",
            "http://{host}/",
            "http://a.test:{port}/",
            "http://[::1/",
            "http://[::1%25lo]/",
            "http://[::1]x/",
            "http://a.test/\r\nx",
            "http://a\tb.test/",
            "https://a.test/?q=1",
            "https://a.test/#f",
            "http://xn--zz--.test/",
            "http://",
        ];
        for url in urls {
            assert!(Origin::parse(url).is_err(), "{url}");
        }
    }

    #[test]
    fn a_plain_url_is_read_once_and_written_back_the_same() {
        let (origin, path) = Origin::parse("https://API.test:8443/v1/orders/{id}").unwrap();
        assert_eq!((origin.scheme(), origin.port), ("https", 8443));
        assert_eq!(origin.authority(), "api.test:8443");
        assert_eq!(path, "/v1/orders/{id}");
        let (origin, path) = Origin::parse("http://[::1]:8080").unwrap();
        assert_eq!((origin.authority().as_str(), path.as_str()), ("[::1]:8080", "/"));
        let (origin, _) = Origin::parse("https://xn--bcher-kva.example/").unwrap();
        assert_eq!(origin.authority(), "xn--bcher-kva.example");
    }

    #[test]
    fn names_that_lead_inside_are_known() {
        for name in [
            "localhost",
            "a.localhost",
            "printer.local",
            "foo.internal",
            "a.svc.cluster.local",
            "a.svc",
            "metadata",
            "metadata.google.internal",
            "instance-data",
            "x.home.arpa",
            "x.corp",
            "x.lan",
            "x.onion",
        ] {
            assert!(Host::parse(name).unwrap().is_internal_name(), "{name}");
        }
        for name in ["api.test", "notlocal.example", "internal.example.com", "1.1.1.1"] {
            assert!(!Host::parse(name).unwrap().is_internal_name(), "{name}");
        }
    }
}
