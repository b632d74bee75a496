//! Values of the command line that clap has no parser for.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::approval::ApproverVerdict;
use crate::catalog::host;
use crate::crypto::note::is_name;
use crate::domain::digest::Digest;
use crate::domain::id::{CallId, ToolName};
use crate::domain::time::Timestamp;
use crate::mcp::name::is_server;

/// A value that does not fit its option; clap names the option and the value.
#[derive(Debug, thiserror::Error)]
pub enum ArgumentError {
    /// Not the name of an agent.
    #[error("the name of an agent must match [a-z0-9-]{{1,63}}")]
    Agent,
    /// Not the name of a server.
    #[error("the name of a server must match [a-z0-9_-]{{1,32}}")]
    Server,
    /// Not the name of a run.
    #[error("the name of a run must match [A-Za-z0-9_.-]{{1,64}}")]
    RunName,
    /// Not the name of a tool.
    #[error("expected the name of a tool")]
    Tool,
    /// Not the name of a witness.
    #[error("a name must not be empty or contain a space or `+`")]
    Witness,
    /// Not the id of a call.
    #[error("expected the id of a call")]
    Call,
    /// Not a digest with its prefix.
    #[error("expected `sha256:` and 64 hex digits")]
    Digest,
    /// Not a digest without a prefix.
    #[error("expected a commitment: 64 lowercase hex digits")]
    Commitment,
    /// Neither of the two.
    #[error("expected `approve` or `refuse`")]
    Word,
    /// Not a verdict.
    #[error("expected a verdict: allow, deny or require_approval")]
    Verdict,
    /// Not a number of days.
    #[error("`{0}` is not a number of days from 1d to 36500d, such as `400d`")]
    Days(String),
    /// Not a day.
    #[error("`{0}` is not a date such as 2026-01-31")]
    Day(String),
    /// Not a day, and not a moment.
    #[error(
        "expected a UTC time such as `2026-11-21`, `2026-11-21T20:05:03Z` or with a fraction of a second"
    )]
    Time,
    /// Neither a moment nor a duration.
    #[error("expected a UTC time (`2026-11-20T00:00:00Z`) or a duration (`90m`, `24h`, `7d`)")]
    Since,
    /// Not a duration.
    #[error("expected a term such as `30d` or `12h`")]
    Term,
    /// Not a role with its duration.
    #[error("expected ROLE=TERM, such as `args=30d`")]
    Keep,
    /// Not a range of a log.
    #[error(
        "expected a range `LOG:A..B`, for example `wicketgate.dev/default/local-5f0c2a9be1d37486/0/0:10..20`"
    )]
    Range,
    /// Not a tool with a pointer into its arguments.
    #[error("expected a tool and a JSON pointer, such as `mail.send:/id`")]
    Pointer,
    /// Not a role of the database with its tenant.
    #[error("expected ROLE=TENANT, a login and its tenant")]
    Login,
    /// Not an input with its file.
    #[error("expected ID=FILE")]
    Input,
    /// Not a value with its name.
    #[error("expected NAME=VALUE")]
    TemplateValue,
    /// Not an address with a port.
    #[error("expected an address like 127.0.0.1:7300")]
    Address,
    /// An address of another host, or without a port.
    #[error("expected a loopback address with a port")]
    Loopback,
    /// Not an address to try to reach.
    #[error("`{0}` is not ADDRESS:PORT")]
    TargetAddress(String),
    /// Not a kind of address to try to reach.
    #[error("expected tcp:ADDRESS:PORT, udp:ADDRESS:PORT or unix:/FILE")]
    Target,
    /// Not something that a server can be allowed.
    #[error(
        "`{0}` is not `network`, `host=HOST[:PORT]`, `read=PATH`, `write=PATH` (absolute), `s1` or `unsandboxed`"
    )]
    Allow(String),
    /// Not a server with something that it can be allowed.
    #[error("expected NAME:WHAT, as in `files:network`")]
    AllowFor,
    /// Not a host that a server can be allowed.
    #[error(transparent)]
    Host(#[from] host::Error),
}

/// The name of an agent.
pub fn agent(text: &str) -> Result<String, ArgumentError> {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let fits = (1..=63).contains(&text.len()) && text.bytes().all(plain);
    fits.then(|| text.to_owned()).ok_or(ArgumentError::Agent)
}

/// The name of a server.
pub fn server(text: &str) -> Result<String, ArgumentError> {
    is_server(text).then(|| text.to_owned()).ok_or(ArgumentError::Server)
}

/// The name of a run.
pub fn run_name(text: &str) -> Result<String, ArgumentError> {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"_.-".contains(&b);
    let fits = (1..=64).contains(&text.len()) && text.bytes().all(plain);
    fits.then(|| text.to_owned()).ok_or(ArgumentError::RunName)
}

/// The name of a tool.
pub fn tool(text: &str) -> Result<ToolName, ArgumentError> {
    ToolName::parse(text).ok_or(ArgumentError::Tool)
}

/// The name of a witness.
pub fn witness(text: &str) -> Result<String, ArgumentError> {
    is_name(text).then(|| text.to_owned()).ok_or(ArgumentError::Witness)
}

/// The id of a call.
pub fn call_id(text: &str) -> Result<CallId, ArgumentError> {
    CallId::parse(text).ok_or(ArgumentError::Call)
}

/// A digest, as `sha256:` and hex digits.
pub fn digest(text: &str) -> Result<Digest, ArgumentError> {
    Digest::parse(text).ok_or(ArgumentError::Digest)
}

/// The commitment to a payload.
pub fn commitment(text: &str) -> Result<Digest, ArgumentError> {
    Digest::parse(text).ok_or(ArgumentError::Commitment)
}

/// `approve` or `refuse`.
pub fn verdict(text: &str) -> Result<ApproverVerdict, ArgumentError> {
    ApproverVerdict::parse(text).ok_or(ArgumentError::Word)
}

/// A number of days, as `400d`.
pub fn days(text: &str) -> Result<Duration, ArgumentError> {
    let number = text.strip_suffix('d').and_then(|days| days.parse::<u32>().ok());
    let number = number.filter(|days| (1..=36_500).contains(days));
    let seconds = number.map(|days| u64::from(days) * 86_400);
    seconds.map(Duration::from_secs).ok_or_else(|| ArgumentError::Days(text.to_owned()))
}

/// The begin of a day in UTC.
pub fn day(text: &str) -> Result<Timestamp, ArgumentError> {
    let begin = Timestamp::parse(&format!("{text}T00:00:00.000Z"));
    begin.ok_or_else(|| ArgumentError::Day(text.to_owned()))
}

/// A moment, to the second or the millisecond, or the begin of a day in UTC.
pub fn time(text: &str) -> Result<Timestamp, ArgumentError> {
    let second = text.strip_suffix('Z').map(|second| format!("{second}.000Z"));
    let parsed = Timestamp::parse(text).or_else(|| day(text).ok());
    let parsed = parsed.or_else(|| second.and_then(|text| Timestamp::parse(&text)));
    parsed.ok_or(ArgumentError::Time)
}

/// A duration, as `30d` or `12h`.
pub fn term(text: &str) -> Result<Duration, ArgumentError> {
    crate::config::duration(text).ok_or(ArgumentError::Term)
}

/// A role of payloads, and how long they are kept: `args=30d`.
pub fn keep(text: &str) -> Result<(String, Duration), ArgumentError> {
    let (role, after) = text.split_once('=').ok_or(ArgumentError::Keep)?;
    Ok((role.to_owned(), term(after)?))
}

/// A tool, and a pointer into its arguments: `mail.send:/id`.
pub fn pointer(text: &str) -> Result<(String, String), ArgumentError> {
    let split = text.split_once(':');
    let split = split.filter(|(tool, pointer)| !tool.is_empty() && pointer.starts_with('/'));
    let (tool, pointer) = split.ok_or(ArgumentError::Pointer)?;
    Ok((tool.to_owned(), pointer.to_owned()))
}

/// A role of the database, and the tenant it is for: `ROLE=TENANT`.
pub fn login(text: &str) -> Result<(String, String), ArgumentError> {
    let (name, tenant) = text.split_once('=').ok_or(ArgumentError::Login)?;
    Ok((name.to_owned(), tenant.to_owned()))
}

/// An input that VS Code asks for, and the file with its value: `ID=FILE`.
pub fn input(text: &str) -> Result<(String, PathBuf), ArgumentError> {
    let (id, file) = text.split_once('=').ok_or(ArgumentError::Input)?;
    Ok((id.to_owned(), PathBuf::from(file)))
}

/// A value of a template: `NAME=VALUE`.
pub fn template_value(text: &str) -> Result<(String, String), ArgumentError> {
    let (name, value) = text.split_once('=').ok_or(ArgumentError::TemplateValue)?;
    Ok((name.to_owned(), value.to_owned()))
}

/// A loopback address with a port.
pub fn loopback(text: &str) -> Result<SocketAddr, ArgumentError> {
    let address: SocketAddr = text.parse().map_err(|_| ArgumentError::Address)?;
    let fits = address.ip().is_loopback() && address.port() > 0;
    fits.then_some(address).ok_or(ArgumentError::Loopback)
}
