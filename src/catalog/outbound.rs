//! Checks that everything reached over a network shares: addresses, headers, authorities and credentials.

use std::collections::BTreeMap;
use std::path::Path;

use http::{HeaderName, HeaderValue};

use super::Problems;
use super::address::{Cidr, is_public};
use super::binding::{self, CredentialTarget};
use super::check::Surroundings;
use super::config;
use super::host::{self, Host, Origin};
use super::secret::Secret;

/// Headers the gate writes itself or that change how a message is framed.
pub(super) const OURS: &[&str] = &[
    "host",
    "content-length",
    "content-type",
    "content-encoding",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "upgrade",
    "te",
    "trailer",
    "expect",
    "accept-encoding",
    "idempotency-key",
    "x-wicketgate-call",
    "traceparent",
    "tracestate",
    "forwarded",
    "x-forwarded-for",
    "via",
];
/// Headers whose value is a secret.
pub(super) const SECRET: &[&str] =
    &["authorization", "cookie", "proxy-authorization", "x-api-key", "api-key"];
/// Bytes of a CA file.
const CA_BYTES_MAX: u64 = 1 << 20;

pub(super) fn ranges(list: &[String], at: &str, problems: &mut Problems) -> Vec<Cidr> {
    let numbered = list.iter().enumerate();
    numbered
        .filter_map(|(i, r)| problems.take(&format!("{at}.private_addresses[{i}]"), Cidr::parse(r)))
        .collect()
}

/// Whether the host is public, or could lie in one of these ranges.
pub(super) fn allowed(origin: &Origin, ranges: &[Cidr]) -> Result<(), host::Error> {
    let inside = match &origin.host {
        Host::Ip(ip) => !is_public(*ip) && !ranges.iter().any(|range| range.contains(*ip)),
        Host::Name(_) => origin.host.is_internal_name() && ranges.is_empty(),
    };
    if inside {
        return Err(host::Error::Private(origin.host.clone()));
    }
    Ok(())
}

/// Whether the binding could ever connect: an error at load is better than at the first call.
pub(super) fn reachable(
    origin: &Origin,
    ranges: &[Cidr],
    credentials: bool,
    at: &str,
    problems: &mut Problems,
) {
    let inside = problems.take(&format!("{at}.url"), allowed(origin, ranges)).is_none();
    // In the clear, the connector then connects to these ranges only.
    if let Host::Ip(ip) = &origin.host
        && !inside
        && !origin.tls
        && !ranges.is_empty()
        && !ranges.iter().any(|range| range.contains(*ip))
    {
        let message = format!("`{ip}` is in none of `private_addresses`; use `https`");
        problems.add(format!("{at}.url"), message);
    }
    if credentials && !origin.tls && ranges.is_empty() {
        let message = "credentials travel in clear only to `private_addresses`; use `https`";
        problems.add(format!("{at}.url"), message);
    }
}

pub(super) fn headers(
    headers: &BTreeMap<String, String>,
    at: &str,
    problems: &mut Problems,
) -> Vec<(HeaderName, HeaderValue)> {
    literal(headers, &format!("{at}.headers"), problems)
}

/// Literal headers, wherever they are listed.
pub(super) fn literal(
    headers: &BTreeMap<String, String>,
    at: &str,
    problems: &mut Problems,
) -> Vec<(HeaderName, HeaderValue)> {
    let mut out = Vec::new();
    for (name, value) in headers {
        let at = format!("{at}.{name}");
        if SECRET.contains(&name.to_ascii_lowercase().as_str()) {
            problems.add(at.as_str(), "a secret is given under `credentials`, never inline");
            continue;
        }
        let name = header_name(name, &at, problems);
        let value = problems.take(&at, HeaderValue::from_str(value));
        if let (Some(name), Some(value)) = (name, value) {
            out.push((name, value));
        }
    }
    out
}

fn header_name(name: &str, at: &str, problems: &mut Problems) -> Option<HeaderName> {
    let lower = name.to_ascii_lowercase();
    if OURS.contains(&lower.as_str()) || lower.starts_with("proxy-") {
        problems.add(at, format!("`{name}` is written by the gate itself"));
        return None;
    }
    problems.take(at, HeaderName::from_bytes(lower.as_bytes()))
}

pub(super) fn ca(
    file: Option<&Path>,
    origin: Option<&Origin>,
    at: &str,
    surroundings: &Surroundings<'_>,
    problems: &mut Problems,
) -> Option<Option<Vec<u8>>> {
    let Some(file) = file else { return Some(None) };
    let at = format!("{at}.ca_file");
    if origin.is_some_and(|origin| !origin.tls) {
        problems.add(at.as_str(), "means nothing without `https`");
    }
    let pem = problems.take(&at, surroundings.read(file, CA_BYTES_MAX))?;
    if !pem.windows(27).any(|w| w == b"-----BEGIN CERTIFICATE-----") {
        problems.add(at, "holds no certificate");
        return None;
    }
    Some(Some(pem))
}

pub(super) fn credentials(
    list: &[config::CredentialConfig],
    at: &str,
    surroundings: &Surroundings<'_>,
    problems: &mut Problems,
) -> Vec<binding::Credential> {
    let mut out = Vec::new();
    for (i, entry) in list.iter().enumerate() {
        let at = format!("{at}.credentials[{i}]");
        if entry.origin.is_some() {
            problems.add(format!("{at}.origin"), "means something for kind `fetch` only");
        }
        out.extend(credential(entry, &at, surroundings, problems));
    }
    out
}

pub(super) fn credential(
    credential: &config::CredentialConfig,
    at: &str,
    surroundings: &Surroundings<'_>,
    problems: &mut Problems,
) -> Option<binding::Credential> {
    if credential.value.is_some() {
        problems.add(format!("{at}.value"), "a secret is given by `file` or `env`, never inline");
    }
    let place = match (&credential.header, &credential.query) {
        (Some(name), None) => {
            header_name(name, &format!("{at}.header"), problems).map(CredentialTarget::Header)
        }
        (None, Some(name)) => Some(CredentialTarget::Query(name.clone())),
        (None, None) | (Some(_), Some(_)) => {
            problems.add(at, "give one of `header` and `query`");
            None
        }
    };
    let prefix = credential.prefix.clone().unwrap_or_default();
    if !prefix.bytes().all(|b| (0x20..0x7f).contains(&b)) {
        problems.add(format!("{at}.prefix"), "is visible ASCII");
    }
    if !prefix.is_empty() && credential.query.is_some() {
        problems.add(format!("{at}.prefix"), "is for a secret in a header only");
    }
    let source = (credential.file.as_deref(), credential.env.as_deref());
    let (secret, reference) = secret(source, "env", at, surroundings, problems)?;
    Some(binding::Credential { place: place?, prefix, secret, reference })
}

/// A secret from a file or from the environment (`variable` is that field's name), and its reference.
pub(super) fn secret(
    source: (Option<&Path>, Option<&str>),
    variable: &str,
    at: &str,
    surroundings: &Surroundings<'_>,
    problems: &mut Problems,
) -> Option<(Secret, String)> {
    let (reference, secret) = match source {
        (Some(file), None) => {
            let secret = Secret::of_file(&surroundings.base_dir.join(file));
            (format!("file:{}", file.display()), problems.take(&format!("{at}.file"), secret))
        }
        (None, Some(name)) => {
            let text = (surroundings.env)(name).map(zeroize::Zeroizing::new);
            let text = text.ok_or_else(|| format!("`{name}` is not set"));
            let secret = text.and_then(|text| Secret::parse(&text).map_err(|e| e.to_string()));
            (format!("env:{name}"), problems.take(&format!("{at}.{variable}"), secret))
        }
        (None, None) | (Some(_), Some(_)) => {
            problems.add(at, format!("give one of `file` and `{variable}`"));
            return None;
        }
    };
    Some((secret?, reference))
}
