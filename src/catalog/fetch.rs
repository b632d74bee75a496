//! The checks of a `fetch` binding, and its rule: which URLs it may be asked for.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::{HeaderName, Method};

use super::Problems;
use super::address::{Cidr, is_public};
use super::binding::{self, Place};
use super::check::Surroundings;
use super::config;
use super::host::{self, Host, Origin};
use super::http::{OURS, SECRET, ca, credential, ranges};
use super::schema::Schema;
use super::web_url::{WebUrl, read_host};

/// Arguments of a `fetch` whose binding brings no schema.
pub(super) const SCHEMA: &str = r#"{"type":"object","required":["url"],"properties":{
"url":{"type":"string","minLength":1,"maxLength":8192,"description":"absolute URL; a redirect is not followed but named in the result, to be fetched with a call of its own"},
"method":{"type":"string","enum":["GET","HEAD"],"description":"GET if absent"},
"headers":{"type":"object","maxProperties":16,"additionalProperties":{"type":"string","maxLength":1024},"description":"request headers, as far as the tool allows them"}}}"#;

pub(super) const HOSTS_MAX: usize = 256;
/// Ports, or headers of one direction.
pub(super) const LIST_MAX: usize = 32;
/// Methods that change nothing by their definition (RFC 9110, section 9.2.1) and that pages are read with.
static METHODS: [Method; 2] = [Method::GET, Method::HEAD];
/// Request headers an agent may set where the binding does not say.
const SENT: [&str; 2] = ["accept", "accept-language"];
/// Response headers an agent is given where the binding does not say.
const RETURNED: [&str; 7] = [
    "cache-control",
    "content-language",
    "etag",
    "expires",
    "last-modified",
    "link",
    "retry-after",
];
/// Where machines of the clouds keep their credentials: no range of a `fetch` holds one of these.
const METADATA: [IpAddr; 8] = [
    v4(169, 254, 169, 254),
    v4(169, 254, 170, 2),
    v4(169, 254, 170, 23),
    v4(168, 63, 129, 16),
    v4(100, 100, 100, 200),
    v4(192, 0, 0, 192),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
];

const fn v4(a: u8, b: u8, c: u8, d: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(a, b, c, d))
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
    #[error("`{0}` is too wide: at least two labels stand after `*.`")]
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
            (Self::Below(base), Host::Name(name)) => {
                name.strip_suffix(base).is_some_and(|front| front.len() > 1 && front.ends_with('.'))
            }
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

impl binding::Fetch {
    /// Everything that keeps this tool from being asked for this URL, what is said of the host first. No
    /// name is resolved to say so.
    #[must_use]
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

    /// Whether this host may be asked at all.
    ///
    /// # Errors
    /// What keeps it out: it leads inside, or it is on no list.
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

pub(super) fn check(
    tool: &config::Tool,
    schema: Option<&Schema>,
    at: &str,
    around: &Surroundings<'_>,
    problems: &mut Problems,
) -> Option<binding::Fetch> {
    let Some(fetch) = &tool.fetch else {
        problems.add(format!("{at}.fetch"), "a tool of kind `fetch` needs it");
        return None;
    };
    if schema.is_some_and(|schema| !schema.requires("url")) {
        problems.add(format!("{at}.input_schema"), "a `fetch` requires the argument `url`");
    }
    let place = format!("{at}.fetch");
    let hosts = hosts(&fetch.hosts, &place, problems);
    let schemes = schemes(&fetch.schemes, &place, problems);
    if fetch.ports.len() > LIST_MAX || fetch.ports.contains(&0) {
        problems
            .add(format!("{place}.ports"), format!("is at most {LIST_MAX} ports of 1 to 65535"));
    }
    let methods = methods(&fetch.methods, &place, problems);
    let sent = names(fetch.headers_allowed.as_deref(), &SENT, &place, "headers_allowed", problems);
    let returned =
        names(fetch.headers_returned.as_deref(), &RETURNED, &place, "headers_returned", problems);
    let private_addresses = ranges(&fetch.private_addresses, &place, problems);
    inside(&hosts, &private_addresses, &place, problems);
    let origin =
        Origin { tls: schemes.contains(&"https"), host: Host::Name(String::new()), port: 443 };
    let ca = ca(fetch.ca_file.as_deref(), Some(&origin), &place, around, problems)?;
    let mut rule = binding::Fetch {
        hosts,
        schemes,
        ports: fetch.ports.clone(),
        methods,
        headers_allowed: sent,
        headers_returned: returned,
        private_addresses,
        ca,
        credentials: Vec::new(),
    };
    rule.credentials = credentials(&rule, &tool.credentials, at, around, problems);
    Some(rule)
}

fn hosts(list: &[String], at: &str, problems: &mut Problems) -> Vec<HostPattern> {
    if list.is_empty() || list.len() > HOSTS_MAX {
        problems.add(format!("{at}.hosts"), format!("lists 1 to {HOSTS_MAX} hosts"));
    }
    let numbered = list.iter().enumerate();
    numbered
        .filter_map(|(i, text)| {
            problems.take(&format!("{at}.hosts[{i}]"), HostPattern::parse(text))
        })
        .collect()
}

fn schemes(list: &[String], at: &str, problems: &mut Problems) -> Vec<&'static str> {
    if list.is_empty() {
        return vec!["https"];
    }
    let mut out = Vec::new();
    for (i, text) in list.iter().enumerate() {
        match text.as_str() {
            "https" => out.push("https"),
            "http" => out.push("http"),
            other => problems
                .add(format!("{at}.schemes[{i}]"), format!("`{other}` is none of `https`, `http`")),
        }
    }
    out
}

fn methods(list: &[String], at: &str, problems: &mut Problems) -> Vec<Method> {
    if list.is_empty() {
        return METHODS.to_vec();
    }
    let mut out = Vec::new();
    for (i, text) in list.iter().enumerate() {
        match METHODS.iter().find(|method| method.as_str() == text) {
            Some(method) => out.push(method.clone()),
            None => {
                let message = format!(
                    "`{text}` is none of `GET`, `HEAD`; what changes something is a tool of kind `http`"
                );
                problems.add(format!("{at}.methods[{i}]"), message);
            }
        }
    }
    out
}

/// Header names an operator lists, or the usual ones.
fn names(
    list: Option<&[String]>,
    usual: &[&'static str],
    at: &str,
    field: &str,
    problems: &mut Problems,
) -> Vec<HeaderName> {
    let Some(list) = list else {
        return usual.iter().map(|name| HeaderName::from_static(name)).collect();
    };
    if list.len() > LIST_MAX {
        problems.add(format!("{at}.{field}"), format!("lists at most {LIST_MAX} headers"));
    }
    let mut out = Vec::new();
    for (i, text) in list.iter().enumerate() {
        let at = format!("{at}.{field}[{i}]");
        let lower = text.to_ascii_lowercase();
        let secret = SECRET.contains(&lower.as_str()) || lower.starts_with("set-cookie");
        if secret || OURS.contains(&lower.as_str()) || lower.starts_with("proxy-") {
            problems.add(at, format!("`{text}` is the gate's own, or a secret: it is no agent's"));
        } else if let Some(name) = problems.take(&at, HeaderName::from_bytes(lower.as_bytes())) {
            out.push(name);
        }
    }
    out
}

/// What lies inside opens to hosts that are named one by one, and metadata services never.
fn inside(hosts: &[HostPattern], ranges: &[Cidr], at: &str, problems: &mut Problems) {
    for (i, range) in ranges.iter().enumerate() {
        if let Some(service) = METADATA.iter().find(|address| range.contains(**address)) {
            let message = format!("`{range}` holds the metadata service `{service}`");
            problems.add(format!("{at}.private_addresses[{i}]"), message);
        }
    }
    for (i, pattern) in hosts.iter().enumerate() {
        let message = match pattern {
            HostPattern::Below(_) if !ranges.is_empty() => {
                "a wildcard and `private_addresses` do not go together: name every host inside"
            }
            HostPattern::Exact(host @ Host::Name(_))
                if host.is_internal_name() && ranges.is_empty() =>
            {
                "leads inside; list its range under `private_addresses`"
            }
            HostPattern::Exact(Host::Ip(ip))
                if !is_public(*ip) && !ranges.iter().any(|range| range.contains(*ip)) =>
            {
                "is not on the public Internet; list its range under `private_addresses`"
            }
            HostPattern::Exact(_) | HostPattern::Below(_) => continue,
        };
        problems.add(format!("{at}.hosts[{i}]"), message);
    }
}

fn credentials(
    rule: &binding::Fetch,
    list: &[config::Credential],
    at: &str,
    around: &Surroundings<'_>,
    problems: &mut Problems,
) -> Vec<(Origin, binding::Credential)> {
    let mut out = Vec::new();
    for (i, entry) in list.iter().enumerate() {
        let at = format!("{at}.credentials[{i}]");
        let origin = pinned(rule, entry.origin.as_deref(), &at, problems);
        let credential = credential(entry, &at, around, problems);
        if let Some(Place::Query(_)) = credential.as_ref().map(|credential| &credential.place) {
            problems.add(format!("{at}.query"), "a `fetch` sends its credentials in headers");
        }
        if let Some(Place::Header(name)) = credential.as_ref().map(|credential| &credential.place)
            && rule.headers_allowed.contains(name)
        {
            let message = format!("`{name}` may be set by the agent (`headers_allowed`)");
            problems.add(format!("{at}.header"), message);
        }
        out.extend(origin.zip(credential));
    }
    out
}

/// The one origin a credential is sent to.
fn pinned(
    rule: &binding::Fetch,
    origin: Option<&str>,
    at: &str,
    problems: &mut Problems,
) -> Option<Origin> {
    let at = format!("{at}.origin");
    let Some(text) = origin else {
        problems.add(at, "a `fetch` sends a credential to one origin: `https://host[:port]`");
        return None;
    };
    let (origin, path) = problems.take(&at, Origin::parse(text))?;
    if path != "/" {
        problems.add(at.as_str(), "is scheme, host and port, without a path");
    }
    if !origin.tls && rule.private_addresses.is_empty() {
        let message = "credentials travel in clear only to `private_addresses`; use `https`";
        problems.add(at.as_str(), message);
    }
    let url = WebUrl { origin: origin.clone(), path, query: None, pairs: Vec::new() };
    if let Some(denied) = rule.denials(&url).first() {
        problems.add(at, format!("is no origin of this tool: {}", denied.message));
    }
    Some(origin)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, host: &str) -> bool {
        HostPattern::parse(pattern).unwrap().matches(&read_host(host).unwrap())
    }

    #[test]
    fn a_wildcard_ends_at_a_label_and_does_not_take_the_domain_itself() {
        assert!(matches("*.cdn.test", "a.cdn.test"));
        assert!(matches("*.cdn.test", "A.B.CDN.test."));
        for other in ["cdn.test", "evilcdn.test", "a.cdn.test.evil.test", "1.2.3.4"] {
            assert!(!matches("*.cdn.test", other), "{other}");
        }
        assert!(matches("allowed.test", "ALLOWED.test."));
        assert!(!matches("allowed.test", "a.allowed.test"));
        assert!(matches("bücher.example", "xn--bcher-kva.example"));
        for wide in
            ["*", "*.test", "*.com", "a.*.test", "*cdn.test", "*.1.2.3.4", "**.a.test", "*."]
        {
            assert!(HostPattern::parse(wide).is_err(), "{wide}");
        }
    }

    fn load(yaml: &str) -> Result<Vec<super::super::Binding>, Vec<String>> {
        let config: config::Config = serde_saphyr::from_str(yaml).unwrap();
        let env = |name: &str| name.ends_with("TOKEN").then(|| "tok-12345678".to_owned());
        let around = Surroundings {
            base_dir: std::path::Path::new("/"),
            env: &env,
            forbidden: &[],
            own: &[],
        };
        config.check(&around).map_err(|all| all.iter().map(ToString::to_string).collect())
    }

    fn tool(fetch: &str, more: &str) -> String {
        format!("- name: web\n  description: d\n  kind: fetch\n  fetch: {{{fetch}}}\n{more}")
    }

    #[test]
    fn the_example_loads_and_what_it_leaves_out_has_its_defaults() {
        let all = load(include_str!("../../examples/fetch/tools.yaml")).unwrap();
        let binding::Kind::Fetch(first) = &all[0].kind else { panic!("a fetch") };
        assert_eq!((first.schemes.as_slice(), first.ports.len()), (["https"].as_slice(), 0));
        assert_eq!(first.methods, METHODS);
        let denied = |url: &str| {
            let denials = first.denials(&WebUrl::parse(url).unwrap());
            denials.iter().map(|denied| denied.detail).collect::<Vec<_>>()
        };
        assert_eq!(denied("https://docs.example.com/x"), [""; 0]);
        assert_eq!(denied("https://a.b.cdn.example.com/x"), [""; 0]);
        assert_eq!(
            denied("http://example.com:8080/"),
            ["fetch.host", "fetch.scheme", "fetch.port"]
        );
        assert_eq!(denied("https://10.0.0.1/"), ["fetch.private_address"]);
    }

    #[test]
    fn a_binding_that_opens_more_than_it_says_is_refused_with_its_line() {
        for (fetch, more, wanted) in [
            ("hosts: []", "", "tools[0].fetch.hosts: lists 1 to 256 hosts"),
            ("hosts: ['*.com']", "", "tools[0].fetch.hosts[0]: `*.com` is too wide"),
            ("hosts: [a.internal]", "", "tools[0].fetch.hosts[0]: leads inside"),
            ("hosts: [10.0.0.1]", "", "tools[0].fetch.hosts[0]: is not on the public Internet"),
            (
                "hosts: ['*.a.test'], private_addresses: [10.0.0.0/8]",
                "",
                "tools[0].fetch.hosts[0]: a wildcard and `private_addresses`",
            ),
            (
                "hosts: [a.test], private_addresses: [169.254.0.0/16]",
                "",
                "tools[0].fetch.private_addresses[0]: `169.254.0.0/16` holds the metadata service",
            ),
            ("hosts: [a.test], schemes: [ftp]", "", "tools[0].fetch.schemes[0]: `ftp` is none of"),
            (
                "hosts: [a.test], methods: [POST]",
                "",
                "tools[0].fetch.methods[0]: `POST` is none of",
            ),
            ("hosts: [a.test], ports: [0]", "", "tools[0].fetch.ports: "),
            (
                "hosts: [a.test], headers_allowed: [Authorization]",
                "",
                "tools[0].fetch.headers_allowed[0]: `Authorization` is the gate's own",
            ),
            (
                "hosts: [a.test]",
                "  credentials: [{header: x-token, env: TOKEN}]\n",
                "tools[0].credentials[0].origin: a `fetch` sends a credential to one origin",
            ),
            (
                "hosts: [a.test]",
                "  credentials: [{header: x-token, env: TOKEN, origin: 'https://b.test'}]\n",
                "tools[0].credentials[0].origin: is no origin of this tool",
            ),
            (
                "hosts: [a.test], schemes: [http]",
                "  credentials: [{header: x-token, env: TOKEN, origin: 'http://a.test'}]\n",
                "tools[0].credentials[0].origin: credentials travel in clear only",
            ),
            (
                "hosts: [a.test], headers_allowed: [x-token]",
                "  credentials: [{header: x-token, env: TOKEN, origin: 'https://a.test'}]\n",
                "tools[0].credentials[0].header: `x-token` may be set by the agent",
            ),
            (
                "hosts: [a.test]",
                "  http: {method: GET, url: 'https://a.test/'}\n",
                "tools[0].http: ",
            ),
        ] {
            let said = load(&tool(fetch, more)).unwrap_err();
            assert!(said.iter().any(|line| line.starts_with(wanted)), "{fetch}: {said:?}");
        }
        assert!(
            load(&tool("hosts: [wiki.internal], private_addresses: [10.1.0.0/16]", "")).is_ok()
        );
    }
}
