//! Alerts: listed from the ledger, and told to the receiver of notices.

use serde_json::json;

use super::OperatorApi;
use super::api::alerts::{AlertLine, Alerts};
use super::api::requests::AlertSearch;
use super::api::{OperatorRequest, route};
use super::approval_queue::{Chain, OpenRuns, RaisedAlert};
use super::search::SearchError;
use super::webhook::{Notice, WebhookMessage};
use crate::domain::digest::Digest;
use crate::domain::id::ChainId;
use crate::domain::time::Timestamp;
use crate::index::query;
use crate::ledger::store::{ChainRow, EntryRange, EntryRow, LedgerReader, StoreError};
use crate::record::alert::{AlertKind, AlertRaised, AlertSeverity};
use crate::record::{Entry, Kind};
use crate::serve::problem::Problem;

/// Alerts of one chain that a list is made from: the newest.
const READ_MAX: u32 = 1000;
/// Lines of a list, unless the client says how many; and at most.
const LINES: u64 = 100;
const LINES_MAX: u64 = 200;
/// After a start, the receiver of notices gets the alerts of this time again, under the same ids.
const AGAIN_MS: i64 = 3_600_000;

/// The newest alerts of a chain, ascending.
pub(super) async fn newest(
    reader: &dyn LedgerReader,
    row: &ChainRow,
    most: u32,
) -> Result<Vec<RaisedAlert>, StoreError> {
    let kinds = [Kind::AlertRaised.as_str()];
    let rows = reader.select(&row.chain, EntryRange::Lone(&kinds, row.head.size, most)).await?;
    Ok(rows.iter().filter_map(raised).collect())
}

/// The alert of an entry, if it is one that this build can read.
pub(super) fn raised(row: &EntryRow) -> Option<RaisedAlert> {
    let entry = Entry::parse(&row.body).ok()?;
    let alert = entry.draft.get::<AlertRaised>()?.clone();
    Some(RaisedAlert { at: entry.ts, chain: entry.chain, seq: entry.seq, alert })
}

impl RaisedAlert {
    /// Whether operators are told of it without having asked.
    pub(super) fn is_told(&self) -> bool {
        self.alert.severity > AlertSeverity::Low
    }
}

/// Which alerts are wanted.
struct AlertFilter<'a> {
    search: &'a AlertSearch,
    since: Option<Timestamp>,
}

impl<'a> AlertFilter<'a> {
    fn of(search: &'a AlertSearch, now: Timestamp) -> Result<Self, SearchError> {
        let since = search.since.as_ref().map(|text| query::time(text, now));
        let since = since.map(|at| at.ok_or(SearchError::Time("since"))).transpose()?;
        let known = |text: &Option<String>, all: &[&str]| {
            text.as_deref().is_none_or(|text| all.contains(&text))
        };
        if !known(&search.severity, AlertSeverity::TEXTS) {
            return Err(SearchError::Value("severity", AlertSeverity::TEXTS));
        }
        if !known(&search.alert, AlertKind::TEXTS) {
            return Err(SearchError::Value("alert", AlertKind::TEXTS));
        }
        Ok(Self { search, since })
    }

    fn fits(&self, one: &RaisedAlert) -> bool {
        let AlertSearch { run, agent, tool, alert, severity, since: _, limit: _ } = self.search;
        let is = |wanted: &Option<String>, text: &str| wanted.as_deref().is_none_or(|w| w == text);
        let named = |wanted: &Option<String>, text: Option<String>| {
            wanted.as_ref().is_none_or(|wanted| text.as_ref() == Some(wanted))
        };
        let raised = &one.alert;
        is(alert, raised.alert.as_str())
            && is(severity, raised.severity.as_str())
            && is(agent, &raised.agent)
            && named(run, raised.run.map(|run| run.to_string()))
            && named(tool, raised.tool.as_ref().map(ToString::to_string))
            && self.since.is_none_or(|since| one.at >= since)
    }
}

/// The alerts of these chains that match, the newest first.
///
/// # Errors
/// The search is wrong, or the ledger cannot be read.
pub async fn list(
    reader: &dyn LedgerReader,
    (tenant, now): (Option<&str>, Timestamp),
    search: &AlertSearch,
) -> Result<Alerts, SearchError> {
    let filter = AlertFilter::of(search, now)?;
    let mut found: Vec<(RaisedAlert, String)> = Vec::new();
    for row in reader.chains().await? {
        if tenant.is_some_and(|tenant| row.tenant != tenant) {
            continue;
        }
        let (kinds, mut before, mut fits) = ([Kind::AlertRaised.as_str()], row.head.size, 0_u64);
        while fits <= LINES_MAX {
            let rows =
                reader.select(&row.chain, EntryRange::Lone(&kinds, before, READ_MAX)).await?;
            let Some(oldest) = rows.iter().map(|row| row.seq).min() else { break };
            before = oldest;
            for one in rows.iter().filter_map(raised).filter(|one| filter.fits(one)) {
                fits = fits.saturating_add(1);
                found.push((one, row.origin.clone()));
            }
        }
    }
    found.sort_by_key(|(one, _)| std::cmp::Reverse((one.at, one.chain, one.seq)));
    let most = search.limit.unwrap_or(LINES).clamp(1, LINES_MAX);
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let more = found.len() > most;
    Ok(Alerts { alerts: found.iter().take(most).map(line).collect(), more })
}

fn line((one, origin): &(RaisedAlert, String)) -> AlertLine {
    let AlertRaised { agent, alert, call, count, first, last, mark, run, severity, since, tool } =
        &one.alert;
    AlertLine {
        chain: one.chain.to_string(),
        seq: one.seq,
        origin: origin.clone(),
        at: one.at.to_string(),
        alert: alert.to_string(),
        severity: severity.to_string(),
        title: alert.title().to_owned(),
        agent: agent.to_string(),
        run: run.map(|run| run.to_string()),
        call: call.as_ref().map(ToString::to_string),
        tool: tool.as_ref().map(ToString::to_string),
        count: count.get(),
        since: since.to_string(),
        first: first.get(),
        last: last.get(),
        mark: mark.as_ref().map(ToString::to_string),
    }
}

impl OperatorApi {
    /// The alerts that match, the newest first.
    ///
    /// # Errors
    /// The search is wrong, or the ledger cannot be read.
    pub(super) async fn alerts(
        &self,
        request: OperatorRequest<route::Alerts>,
    ) -> Result<Alerts, Problem> {
        let whose = (Some(self.tenant.as_str()), self.clock.now());
        let found = list(&*self.reader, whose, &request.request).await;
        found.map_err(|error| self.unsearched(error))
    }
}

/// A notice for every alert of the last hour that is worth a look. `link`: the page of held calls.
pub(super) fn notices(open_runs: &OpenRuns, link: Option<&str>, now: Timestamp) -> Vec<Notice> {
    let from = Timestamp::from_millis(now.millis().saturating_sub(AGAIN_MS));
    let all = open_runs.chains().flat_map(Chain::alerts);
    all.filter(|one| one.at >= from && one.is_told()).map(|one| notice(one, link)).collect()
}

/// The page of alerts, where the page of held calls is one of the console.
fn page(link: &str) -> Option<String> {
    link.trim_end_matches('/').strip_suffix("/approvals").map(|root| format!("{root}/alerts"))
}

/// The id of an alert's notice: where its entry is.
fn digest(chain: &ChainId, seq: u64) -> Digest {
    Digest::of(&[b"alert", chain.as_bytes(), &seq.to_be_bytes()])
}

fn notice(one: &RaisedAlert, link: Option<&str>) -> Notice {
    let AlertRaised { agent, alert, call, count, run, severity, since, tool, .. } = &one.alert;
    let link = link.and_then(page);
    let text = |value: Option<String>| value.unwrap_or_default();
    let facts = vec![
        ("Alert", alert.to_string()),
        ("Severity", severity.to_string()),
        ("Agent", agent.to_string()),
        ("Tool", text(tool.as_ref().map(ToString::to_string))),
        ("Run", text(run.map(|run| run.to_string()))),
        ("Call", text(call.as_ref().map(ToString::to_string))),
        ("Count", count.to_string()),
    ];
    let data = json!({
        "alert": alert,
        "severity": severity,
        "agent": agent,
        "run": run,
        "call": call,
        "tool": tool,
        "count": count,
        "since": since,
        "chain": one.chain,
        "entry": one.seq,
        "link": link,
    });
    let message = WebhookMessage {
        kind: Kind::AlertRaised.as_str(),
        at: one.at.to_string(),
        data,
        title: alert.title(),
        facts,
        link,
    };
    Notice { digest: digest(&one.chain, one.seq), message }
}
