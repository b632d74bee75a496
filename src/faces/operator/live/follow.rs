//! One follower of the feed: its place, its share of events a second, and what ends it.

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use futures_util::stream;
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use hyper::body::Bytes;
use schemars::{Schema, SchemaGenerator, json_schema};
use tokio::time::Instant;

use super::{LiveCursor, LiveEvent, LivePlace};
use crate::domain::code::Code;
use crate::operator::OperatorApi;
use crate::operator::api::lookups::{LiveLine, LiveMore};
use crate::operator::api::{OperatorRequest, Route as _, route};
use crate::operator::credential::ShownCredential;
use crate::operator::http::HttpReply;
use crate::serve::problem::Problem;

/// Between two rounds.
const TICK: Duration = Duration::from_millis(250);
/// Between two looks at what let a follower in: it may be in a database.
const STANDING_EVERY: Duration = Duration::from_secs(1);
/// Events of one follower in one second.
const EVENTS_PER_WINDOW: usize = 20;
const WINDOW: Duration = Duration::from_secs(1);
/// Between two signs of life of a stream without events.
pub(crate) const BEAT: Duration = Duration::from_secs(15);
/// A comment: carries nothing, and shows that the server is alive.
const COMMENT: &str = ":\n\n";

/// Whether what let a follower in still does. Without one, nothing does.
#[derive(Clone)]
pub struct Standing(Arc<StandingCheck>);

/// Whether something holds at this operator API.
type StandingCheck = dyn Fn(Arc<OperatorApi>) -> StandingAnswer + Send + Sync;
type StandingAnswer = Pin<Box<dyn Future<Output = bool> + Send>>;

impl fmt::Debug for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Standing")
    }
}

impl Standing {
    /// As long as this holds.
    pub(crate) fn of<F: Future<Output = bool> + Send + 'static>(
        holds: impl Fn(Arc<OperatorApi>) -> F + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(move |api| Box::pin(holds(api))))
    }

    /// As long as the credential is that of an operator who has the right.
    pub fn of_credential(shown: &ShownCredential) -> Self {
        let shown = shown.clone();
        Self::of(move |api| {
            let who = api.known(&shown);
            std::future::ready(who.is_some_and(|who| who.may(route::Live::ROW.right)))
        })
    }
}

/// What a follower gets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum LiveItem {
    /// An event.
    Event(Arc<LiveEvent>),
    /// Events were left out before this place: so many, if their number is known.
    More(LiveCursor, Option<u64>),
}

impl LiveItem {
    /// Where a client goes on that has this.
    pub(crate) fn place(&self) -> &LiveCursor {
        match self {
            Self::Event(event) => &event.place,
            Self::More(place, _) => place,
        }
    }

    /// As a server-sent event.
    pub(crate) fn sse(&self) -> String {
        let data = match self {
            Self::Event(event) => serde_json::to_string(&event.line),
            Self::More(_, more) => serde_json::to_string(&LiveMore { more: *more }),
        };
        // JSON on one line: what would break the line is escaped in it.
        format!("id: {}\ndata: {}\n\n", self.place(), data.unwrap_or_default())
    }
}

/// The events of one second, and what was left out of it.
#[derive(Debug)]
struct RateWindow {
    began: Instant,
    sent: usize,
    left_out: u64,
    /// The newest event that was left out.
    last: Option<LiveCursor>,
}

impl RateWindow {
    const fn new(began: Instant) -> Self {
        Self { began, sent: 0, left_out: 0, last: None }
    }

    /// Ends a window that is over: what was left out of it is said.
    fn roll(&mut self, now: Instant, ready: &mut Vec<LiveItem>) {
        if now.saturating_duration_since(self.began) < WINDOW {
            return;
        }
        if let Some(last) = self.last {
            ready.push(LiveItem::More(last, Some(self.left_out)));
        }
        *self = Self::new(now);
    }

    /// Takes events, of which so many others were lost before.
    fn take(&mut self, lost: u64, events: Vec<Arc<LiveEvent>>, ready: &mut Vec<LiveItem>) {
        self.left_out = self.left_out.saturating_add(lost);
        for event in events {
            // Once one is left out, those that follow in this second are too: the order stays.
            if self.left_out == 0 && self.sent < EVENTS_PER_WINDOW {
                self.sent = self.sent.saturating_add(1);
                ready.push(LiveItem::Event(event));
            } else {
                self.left_out = self.left_out.saturating_add(1);
                self.last = Some(event.place);
            }
        }
    }
}

/// Follows the feed until what let it in does so no more.
pub(crate) struct LiveReader {
    api: Arc<OperatorApi>,
    standing: Standing,
    /// When it was looked at last.
    looked: Option<Instant>,
    /// The event after which it begins, until it has a place.
    after: Option<LiveCursor>,
    /// The number of the next event; `None` while the ledger was never read.
    position: Option<u64>,
    window: RateWindow,
    first: bool,
    _place: LivePlace,
}

crate::record::debug_by!(LiveReader: position);

impl LiveReader {
    /// What happened since the last round, which is a quarter of a second ago; `None` at the end.
    pub(crate) async fn round(&mut self) -> Option<Vec<LiveItem>> {
        if !std::mem::take(&mut self.first) {
            tokio::select! {
                biased;
                () = self.api.feed().closing.cancelled() => return None,
                () = tokio::time::sleep(TICK) => {}
            }
        }
        let now = Instant::now();
        let due = |at: Instant| now.saturating_duration_since(at) >= STANDING_EVERY;
        if self.looked.is_none_or(due) {
            if !(self.standing.0)(Arc::clone(&self.api)).await {
                return None;
            }
            self.looked = Some(now);
        }
        self.api.follow().await;
        Some(self.collect(Instant::now()))
    }

    fn collect(&mut self, now: Instant) -> Vec<LiveItem> {
        let mut ready = Vec::new();
        let Some(position) = self.position else {
            let Some(begin) = self.api.feed().place(self.after.as_ref()) else { return ready };
            self.position = Some(begin.position);
            ready.extend(self.after.filter(|_| begin.gap).map(|at| LiveItem::More(at, None)));
            ready.extend(begin.backlog.into_iter().map(LiveItem::Event));
            return ready;
        };
        self.window.roll(now, &mut ready);
        let (lost, events) = self.api.feed().after(position);
        let seen = u64::try_from(events.len()).unwrap_or(u64::MAX);
        self.position = Some(position.saturating_add(lost).saturating_add(seen));
        self.window.take(lost, events, &mut ready);
        ready
    }
}

/// The live feed as the answer to one request.
#[derive(Debug)]
pub struct LiveStream(pub(crate) LiveReader);

/// What a stream over HTTP has still to send.
struct ApiStream {
    reader: LiveReader,
    beat: Instant,
    begun: bool,
}

impl ApiStream {
    async fn piece(&mut self) -> Option<Bytes> {
        if !std::mem::replace(&mut self.begun, true) {
            return Some(Bytes::from_static(COMMENT.as_bytes()));
        }
        loop {
            let items = self.reader.round().await?;
            let text: String = items.iter().map(LiveItem::sse).collect();
            let quiet = text.is_empty() && self.beat.elapsed() < BEAT;
            if !quiet {
                self.beat = Instant::now();
                return Some(if text.is_empty() { COMMENT.into() } else { text.into() });
            }
        }
    }
}

impl HttpReply for LiveStream {
    fn answer(self, _api: &OperatorApi) -> Response {
        let outgoing = ApiStream { reader: self.0, beat: Instant::now(), begun: false };
        let pieces = stream::unfold(outgoing, |mut outgoing| async move {
            let piece = outgoing.piece().await?;
            Some((Ok::<_, Infallible>(piece), outgoing))
        });
        sse(Body::from_stream(pieces))
    }

    fn schema(schemas: &mut SchemaGenerator) -> Schema {
        let (line, more) =
            (schemas.subschema_for::<LiveLine>(), schemas.subschema_for::<LiveMore>());
        json_schema!({
            "description": "Server-sent events: the `data` of each is one of these, its `id` the `after` of a client that goes on there.",
            "oneOf": [line, more]
        })
    }
}

/// A response of server-sent events.
pub(crate) fn sse(body: Body) -> Response {
    let mut response = Response::new(body);
    let kind = HeaderValue::from_static("text/event-stream");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

/// The event that a client names as its last one.
pub(crate) fn last_event(headers: &HeaderMap) -> Option<String> {
    let named = headers.get("last-event-id")?;
    // What is no text is no cursor either, and is refused as one.
    Some(String::from_utf8_lossy(named.as_bytes()).into_owned()).filter(|text| !text.is_empty())
}

impl OperatorApi {
    /// Follows what runs and calls do.
    ///
    /// # Errors
    /// The cursor is none, or too many streams are open.
    pub(in crate::operator) async fn live(
        self: &Arc<Self>,
        request: OperatorRequest<route::Live>,
    ) -> Result<LiveStream, Problem> {
        let after = request.request.after.as_deref().map(|text| {
            let message = "`after` must be the `id` of an event";
            let malformed = || self.refused(Code::RequestMalformed, "live.cursor", message);
            LiveCursor::parse(text).ok_or_else(malformed)
        });
        let after = after.transpose()?;
        let place = self.feed().enter(&request.who.subject).map_err(|full| self.refuse(full))?;
        // WHY here: a follower that begins now has not missed what happens from now on.
        drop(self.look().await);
        let standing =
            request.request.standing.unwrap_or_else(|| Standing::of(|_| std::future::ready(false)));
        let mut reader = LiveReader {
            api: Arc::clone(self),
            standing,
            looked: None,
            after,
            position: None,
            window: RateWindow::new(Instant::now()),
            first: true,
            _place: place,
        };
        if reader.after.is_none() {
            reader.position = self.feed().place(None).map(|begin| begin.position);
        }
        Ok(LiveStream(reader))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::id::ChainId;
    use crate::domain::time::Timestamp;

    fn events(count: u64) -> Vec<Arc<LiveEvent>> {
        let line = LiveLine {
            ts: String::new(),
            kind: "call.denied".to_owned(),
            agent: Some("a\nid: 1\ndata: {}".to_owned()),
            tool: None,
            verdict: None,
            code: None,
            run: None,
            call: None,
            at: None,
        };
        let (at, chain) = (Timestamp::from_millis(1), ChainId::from_bytes([1; 16]));
        let place = |seq| LiveCursor { at, chain, seq };
        (0..count)
            .map(|seq| Arc::new(LiveEvent { place: place(seq), line: line.clone() }))
            .collect()
    }

    fn shown(ready: &[LiveItem]) -> (usize, Vec<Option<u64>>) {
        let mores = ready.iter().filter_map(|item| match item {
            LiveItem::Event(_) => None,
            LiveItem::More(_, more) => Some(*more),
        });
        let mores: Vec<_> = mores.collect();
        (ready.len() - mores.len(), mores)
    }

    #[tokio::test(start_paused = true)]
    async fn twenty_events_a_second_and_then_how_many_more() {
        let mut window = RateWindow::new(Instant::now());
        let mut ready = Vec::new();
        window.take(0, events(15), &mut ready);
        window.take(0, events(15), &mut ready);
        assert_eq!(shown(&ready), (20, vec![]));
        window.take(7, events(1), &mut ready);
        window.roll(Instant::now(), &mut ready);
        assert_eq!(shown(&ready), (20, vec![]), "the second is not over");
        tokio::time::advance(WINDOW).await;
        window.roll(Instant::now(), &mut ready);
        assert_eq!(shown(&ready), (20, vec![Some(18)]));
        window.take(0, events(1), &mut ready);
        assert_eq!(shown(&ready), (21, vec![Some(18)]));
        tokio::time::advance(WINDOW).await;
        window.roll(Instant::now(), &mut ready);
        assert_eq!(shown(&ready), (21, vec![Some(18)]), "nothing was left out");
    }

    #[test]
    fn no_text_of_an_agent_ends_the_line_of_its_event() {
        let item = LiveItem::Event(Arc::clone(&events(1)[0]));
        let text = item.sse();
        assert_eq!(text.lines().count(), 3, "id, data and the end: {text}");
        let more = LiveItem::More(*item.place(), None).sse();
        assert!(more.ends_with("data: {\"more\":null}\n\n"), "{more}");
    }
}
