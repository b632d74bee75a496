//! The live feed: the newest events as a page, and the stream that goes on from there.

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use futures_util::stream;
use maud::{Markup, html};
use serde::Serialize;
use tokio::time::Instant;

use super::{Failure, shown, time};
use crate::operator::api::lookups::LiveLine;
use crate::operator::api::requests::LiveFrom;
use crate::operator::api::route;
use crate::operator::live::{BEAT, LiveEvent, LiveItem, LiveReader, LiveStream, sse};
use crate::operator::visible;
use crate::serve::console::site::Console;
use crate::serve::console::visit::{Answer, Visit};

/// The path of the stream.
pub(in super::super) const EVENTS: &str = "/console/live/events";
/// Events on the page.
const LINES: usize = 50;

/// What the head of every page shows, and the stream tells.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
struct Counters {
    ready: bool,
    /// Requests that wait for an approval.
    waiting: usize,
    /// Alerts of the last 24 hours.
    alerts: usize,
}

impl Counters {
    fn of(console: &Console) -> Self {
        let (ready, waiting) = (console.view.now().ready, console.api.feed().waiting());
        let alerts = console.api.feed().alerts(console.api.clock().now());
        Self { ready, waiting, alerts }
    }
}

/// The counters in the head of a page; the state of readiness stands before them.
pub(super) fn counters(console: &Console) -> Markup {
    let Counters { waiting, alerts, .. } = Counters::of(console);
    html! {
        p .state { a href="/console/approvals" { span data-live="waiting" { (waiting) } " waiting" } }
        p .state { a href="/console/alerts" { span data-live="alerts" { (alerts) } " alerts" } }
        p .spoken role="status" data-live="spoken" {}
    }
}

/// The page: it shows the newest events also without a script.
pub(in super::super) async fn page(visit: &mut Visit) -> Result<Answer, Failure> {
    // What was recorded until now is read by the same way as what follows.
    visit.console.api.follow().await;
    let events = visit.console.api.feed().latest(LINES);
    Ok(Answer::Page("Live".to_owned(), feed(&events)))
}

/// The newest events.
pub(super) fn feed(events: &[Arc<LiveEvent>]) -> Markup {
    let after = events.first().map(|event| event.place.to_string());
    html! {
        p .hint {
            "What runs and calls do, as it is recorded. With a script the page goes on by itself, with at most 20 events a \
             second; without one, load it again."
        }
        p .empty data-live="none" hidden[!events.is_empty()] { "Nothing has happened since this process began to read." }
        div .wide { table {
            caption { "Newest first" }
            thead { tr {
                th scope="col" { "When" } th scope="col" { "What" } th scope="col" { "Agent" }
                th scope="col" { "Tool" } th scope="col" { "Verdict" } th scope="col" { "Why" }
                th scope="col" { "Run" }
            } }
            tbody data-live="feed" data-after=[after] aria-live="off" {
                @for event in events { tr data-row { (row(&event.line)) } }
            }
        } }
    }
}

fn row(line: &LiveLine) -> Markup {
    let text = |of: &Option<String>| shown(of.as_deref().unwrap_or("–"));
    html! {
        td { (time(&line.ts)) }
        th scope="row" {
            @match &line.at {
                Some(at) => a href={ "/console/calls/" (shown(at)) } { (shown(&line.kind)) },
                None => (shown(&line.kind)),
            }
        }
        td { (text(&line.agent)) } td { (text(&line.tool)) } td { (text(&line.verdict)) } td { (text(&line.code)) }
        td { @match &line.run {
            Some(run) => a href={ "/console/runs/" (shown(run)) } { (shown(run.get(..8).unwrap_or(run))) "…" },
            None => "–",
        } }
    }
}

/// An event as a browser gets it: what cannot be seen is spelled out, as on every page.
fn told(item: &LiveItem) -> String {
    let LiveItem::Event(event) = item else { return item.sse() };
    let text = |of: &Option<String>| of.as_deref().map(visible);
    let LiveLine { ts, kind, agent, tool, verdict, code, run, call, at } = &event.line;
    let line = LiveLine {
        ts: visible(ts),
        kind: visible(kind),
        agent: text(agent),
        tool: text(tool),
        verdict: text(verdict),
        code: text(code),
        run: text(run),
        call: text(call),
        at: text(at),
    };
    LiveItem::Event(Arc::new(LiveEvent { place: event.place, line })).sse()
}

/// What a stream has still to send.
struct ConsoleStream {
    console: Arc<Console>,
    reader: LiveReader,
    counters: Option<Counters>,
    beat: Instant,
}

impl ConsoleStream {
    async fn piece(&mut self) -> Option<String> {
        loop {
            let mut text: String = self.reader.round().await?.iter().map(told).collect();
            let now = Counters::of(&self.console);
            if self.counters.as_ref() != Some(&now) {
                let data = serde_json::to_string(&now).unwrap_or_default();
                text.push_str(&format!("event: head\ndata: {data}\n\n"));
                self.counters = Some(now);
            }
            if text.is_empty() && self.beat.elapsed() >= BEAT {
                text.push_str(":\n\n");
            }
            if !text.is_empty() {
                self.beat = Instant::now();
                return Some(text);
            }
        }
    }
}

/// The stream of one page: events and counters, until its session ends.
pub(in super::super) async fn events(visit: &mut Visit) -> Result<Answer, Failure> {
    let from =
        LiveFrom { after: visit.last_event(), standing: Some(visit.standing::<route::Live>()) };
    let LiveStream(reader) = visit.ask::<route::Live>((), from).await?;
    let console = Arc::clone(&visit.console);
    let telling = ConsoleStream { console, reader, counters: None, beat: Instant::now() };
    let pieces = stream::unfold(telling, |mut telling| async move {
        let piece = telling.piece().await?;
        Some((Ok::<_, Infallible>(piece), telling))
    });
    Ok(Answer::Events(sse(Body::from_stream(pieces))))
}
