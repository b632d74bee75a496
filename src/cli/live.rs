//! The live feed of an operator API, for commands that follow a run.

use std::time::Duration;

use futures_util::FutureExt as _;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use serde_json::Value;

use super::api::Api;
use crate::catalog::llm::sse::{Event, Reader};
use crate::domain::id::RunId;
use crate::operator::api::requests::LiveFrom;
use crate::operator::api::route;

/// Bytes of one event.
const EVENT_MAX: usize = 64 * 1024;
/// How long the first bytes may take.
const BEGINS_WITHIN: Duration = Duration::from_secs(10);
/// A server that sends nothing for so long is gone: it sends a comment each 15 seconds.
const SILENT: Duration = Duration::from_secs(40);
/// Changes within this are looked up at once.
const TOGETHER: Duration = Duration::from_millis(100);

/// An open feed.
pub(super) struct LiveFeed {
    body: Incoming,
    reader: Reader,
}

/// Whether an event may be about this run.
fn concerns(event: &Event, run: &str) -> bool {
    match serde_json::from_str::<Value>(&event.data) {
        Ok(data) => {
            data.get("run").and_then(Value::as_str) == Some(run) || data.get("more").is_some()
        }
        Err(_) => true,
    }
}

impl LiveFeed {
    /// Follows from now on; `None` if this server has no feed, or none for one more.
    pub(super) async fn open(api: &Api) -> Option<Self> {
        let opened =
            api.open::<route::Live>(&(), &LiveFrom::default(), BEGINS_WITHIN).await.ok()?;
        let body = opened.status().is_success().then(|| opened.into_body())?;
        Some(Self { body, reader: Reader::new(EVENT_MAX) })
    }

    /// Waits until something may have happened in this run; `None` once the feed has ended.
    pub(super) async fn changed(&mut self, run: &RunId) -> Option<()> {
        let run = run.to_string();
        loop {
            let frame = tokio::time::timeout(SILENT, self.body.frame()).await.ok()??;
            if self.take(frame.ok()?, &run)? {
                break;
            }
        }
        tokio::time::sleep(TOGETHER).await;
        while let Some(frame) = self.body.frame().now_or_never() {
            self.take(frame?.ok()?, &run)?;
        }
        Some(())
    }

    /// Reads a piece: whether it may be about the run.
    fn take(&mut self, frame: hyper::body::Frame<hyper::body::Bytes>, run: &str) -> Option<bool> {
        let Ok(bytes) = frame.into_data() else { return Some(false) };
        let events = self.reader.push(&bytes).ok()?;
        Some(events.iter().any(|event| concerns(event, run)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_events_of_the_run_and_those_that_hide_some_wake_the_command() {
        let event = |data: &str| Event { name: None, id: None, data: data.to_owned() };
        for (data, wakes) in [
            (r#"{"run":"r","kind":"call.held"}"#, true),
            (r#"{"run":"s","kind":"call.held"}"#, false),
            (r#"{"run":null,"kind":"health.changed"}"#, false),
            (r#"{"more":3}"#, true),
            (r#"{"more":null}"#, true),
            ("not json", true),
        ] {
            assert_eq!(concerns(&event(data), "r"), wakes, "{data}");
        }
    }
}
