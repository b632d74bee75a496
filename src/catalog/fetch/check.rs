//! The checks of a `fetch` binding.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use http::{HeaderName, Method};

use super::{Fetch, HostPattern, config};
use crate::address::{Cidr, is_public};
use crate::binding::{self, CredentialTarget};
use crate::check::{Draft, Surroundings};
use crate::config::CredentialConfig;
use crate::host::{Host, Origin};
use crate::outbound::{OURS, SECRET, ca, credential, ranges};
use crate::schema::Schema;
use crate::web_url::WebUrl;
use crate::{Kind, Problems, Section};

/// Arguments of a `fetch` without a schema in its binding.
const SCHEMA: &str = r#"{"type":"object","required":["url"],"properties":{
"url":{"type":"string","minLength":1,"maxLength":8192,"description":"absolute URL; a redirect is not followed but named in the result, to be fetched with a call of its own"},
"method":{"type":"string","enum":["GET","HEAD"],"description":"GET if absent"},
"headers":{"type":"object","maxProperties":16,"additionalProperties":{"type":"string","maxLength":1024},"description":"request headers, as far as the tool allows them"}}}"#;

pub(super) const HOSTS_MAX: usize = 256;
/// Ports, or headers of one direction.
pub(super) const LIST_MAX: usize = 32;
/// Methods that are safe by definition (RFC 9110, section 9.2.1) and usual for reading pages.
pub(super) static METHODS: [Method; 2] = [Method::GET, Method::HEAD];
/// Request headers an agent may set unless the binding lists others.
const SENT: [&str; 2] = ["accept", "accept-language"];
/// Response headers an agent gets unless the binding lists others.
const RETURNED: [&str; 7] = [
    "cache-control",
    "content-language",
    "etag",
    "expires",
    "last-modified",
    "link",
    "retry-after",
];
/// Metadata addresses with credentials of cloud machines: no range of a `fetch` may contain one of
/// these.
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

impl Section for config::FetchConfig {
    fn check(&self, draft: &Draft<'_>, problems: &mut Problems) -> Option<(Schema, Kind)> {
        let schema = draft.schema(Some(SCHEMA.as_bytes()), problems);
        let rule = rule(self, draft, schema.as_ref(), problems);
        Some((schema?, Kind::Fetch(Box::new(rule?))))
    }
}

fn rule(
    fetch: &config::FetchConfig,
    draft: &Draft<'_>,
    schema: Option<&Schema>,
    problems: &mut Problems,
) -> Option<Fetch> {
    let Draft { tool, at, surroundings, .. } = *draft;
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
    let ca = ca(fetch.ca_file.as_deref(), Some(&origin), &place, surroundings, problems)?;
    let mut rule = Fetch {
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
    rule.credentials = credentials(&rule, &tool.credentials, at, surroundings, problems);
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
            other => problems.add(
                format!("{at}.schemes[{i}]"),
                format!("`{other}` is not one of `https`, `http`"),
            ),
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
                    "`{text}` is not one of `GET`, `HEAD`; what changes something is a tool of kind `http`"
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
    rule: &Fetch,
    list: &[CredentialConfig],
    at: &str,
    surroundings: &Surroundings<'_>,
    problems: &mut Problems,
) -> Vec<(Origin, binding::Credential)> {
    let mut out = Vec::new();
    for (i, entry) in list.iter().enumerate() {
        let at = format!("{at}.credentials[{i}]");
        let origin = pinned(rule, entry.origin.as_deref(), &at, problems);
        let credential = credential(entry, &at, surroundings, problems);
        if let Some(CredentialTarget::Query(_)) =
            credential.as_ref().map(|credential| &credential.place)
        {
            problems.add(format!("{at}.query"), "a `fetch` sends its credentials in headers");
        }
        if let Some(CredentialTarget::Header(name)) =
            credential.as_ref().map(|credential| &credential.place)
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
fn pinned(rule: &Fetch, origin: Option<&str>, at: &str, problems: &mut Problems) -> Option<Origin> {
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
