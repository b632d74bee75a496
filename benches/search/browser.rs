//! The console in Chromium: what a person waits for, with an index of this size.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use wicketgate::clock::{Clock as _, SystemClock};
use wicketgate::domain::decision::Verdict;
use wicketgate::domain::id::{CallId, RunId, ToolName};
use wicketgate::domain::json::Json;
use wicketgate::domain::time::Timestamp;
use wicketgate::index::Index;
use wicketgate::ledger::drafts::DraftWithPayloads;
use wicketgate::record::sample::body;
use wicketgate::record::{Draft, Kind};
use wicketgate_support::bench::table::{Row, Table, Target};
use wicketgate_support::program;

use crate::api::{ApiServer, Extras, ask, run_id};
use crate::calls::Calls;

/// Calls that wait in the queue.
const HOLDS: usize = 200;
/// Calls of a second, while the feed is followed.
const CALLS_PER_SECOND: u32 = 500;
/// Between two groups of them.
const BEAT: Duration = Duration::from_millis(20);
/// The lists of the console.
const LISTS: [&str; 6] = ["/calls", "/runs", "/approvals", "/alerts", "/health", "/orders"];

/// The value below which so many hundredths of all are.
fn quantile(all: &[f64], hundredths: usize) -> f64 {
    let mut sorted = all.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1).expect("something was measured");
    sorted[(last * hundredths).div_ceil(100)]
}

fn row(what: String, ours: String, (figure, most, unit): (f64, f64, &'static str)) -> Row {
    let target = Some(Target::Figure(figure, most, unit));
    Row { what, ours, floor: String::new(), ratio: None, target }
}

/// What Chromium measured of some pages of a console.
struct Visited(Value);

impl Visited {
    /// Opens each page so many times, logged in as somebody who looks.
    async fn of(api: &ApiServer, paths: &[String], turns: usize) -> Self {
        let home = std::env::var("WICKETGATE_TEST_CONSOLE")
            .map_or_else(|_| program::top().join("target/tests/console"), PathBuf::from);
        let mut browse = Command::new(home.join("python/bin/python"));
        browse.arg("-B").arg(program::top().join("benches/search/browser.py"));
        browse.arg(format!("http://{}/console", api.address)).arg(api.path("vera.token"));
        browse.arg(json!(paths).to_string()).arg(turns.to_string());
        let done = tokio::task::spawn_blocking(move || browse.output()).await.unwrap();
        let done = done.expect("`tests/run` installs what drives the browser: run it once");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        Self(serde_json::from_slice(&done.stdout).unwrap())
    }

    /// This figure of each visit, of all pages.
    fn figures(&self, name: &str) -> Vec<f64> {
        let visits = self.0.as_array().unwrap().iter();
        visits.map(|visit| visit[name].as_f64().unwrap()).collect()
    }

    /// A quantile of a figure in milliseconds, in words and as a number.
    fn at(&self, name: &str, hundredths: usize) -> (String, f64) {
        let all = self.figures(name);
        let (half, far) = (quantile(&all, 50), quantile(&all, hundredths));
        (format!("p50 {half:.0} ms, p{hundredths} {far:.0} ms"), far)
    }
}

/// The rows of the console.
pub async fn measure(
    table: &mut Table,
    (ledger, index): (Arc<Calls>, Index),
    queries: &[(&'static str, String)],
    quick: bool,
) {
    let turns = if quick { 3 } else { 20 };
    let extras = Extras { read: Some((ledger, index)), ..Extras::default() };
    let api = ApiServer::with("default", Arc::new(SystemClock::new()), extras).await;
    let encoded =
        |query: &str| url::form_urlencoded::byte_serialize(query.as_bytes()).collect::<String>();
    let searches: Vec<String> =
        queries.iter().map(|(_, query)| format!("/calls?q={}", encoded(query))).collect();
    let found = Visited::of(&api, &searches, turns).await;
    let (words, far) = found.at("load", 99);
    let what = format!(
        "console in Chromium: {} searches, {turns} times each, until loaded",
        queries.len()
    );
    table.add(row(what, words, (far, 200.0, "ms")));
    let lists = Visited::of(&api, &LISTS.map(str::to_owned), turns).await;
    let (words, far) = lists.at("first_byte", 95);
    let what = format!("console in Chromium: {} lists, first byte", LISTS.len());
    table.add(row(what, words, (far, 50.0, "ms")));
    let (words, far) = lists.at("paint", 95);
    table.add(row("console in Chromium: the same, first paint".into(), words, (far, 300.0, "ms")));
    let weight = quantile(&[found.figures("bytes"), lists.figures("bytes")].concat(), 100) / 1024.0;
    let what = "console: the heaviest of these pages, with all that it loads".to_owned();
    table.add(row(what, format!("{weight:.1} KiB"), (weight, 60.0, "KiB")));
    drop(api);
    held(table, turns).await;
    followed(table, quick).await;
}

/// The queue of approvals, full.
async fn held(table: &mut Table, turns: usize) {
    let api = ApiServer::open().await;
    let run = run_id(1);
    api.open_run(run).await;
    for n in 0..HOLDS {
        api.hold(ask(run, &format!("c{n}"), &format!(r#"{{"amount":{n}}}"#))).await;
    }
    let seen = Visited::of(&api, &["/approvals".to_owned()], turns).await;
    let (words, far) = seen.at("load", 95);
    let what = format!("console in Chromium: {HOLDS} held calls, until loaded");
    table.add(row(what, words, (far, 100.0, "ms")));
}

/// How late a follower of the feed learns of a call.
async fn followed(table: &mut Table, quick: bool) {
    let api = ApiServer::open().await;
    let run = run_id(1);
    api.open_run(run).await;
    let mut events = api.live("vera", None).await;
    let beats = if quick { 100 } else { 1_000 };
    let each = CALLS_PER_SECOND * u32::try_from(BEAT.as_millis()).unwrap() / 1000;
    let call = async |id: String| {
        for draft in drafts(run, &id) {
            api.ledger.record(DraftWithPayloads::bare(draft)).await.unwrap();
        }
    };
    let making = async {
        let mut beat = tokio::time::interval(BEAT);
        for n in 0..beats {
            beat.tick().await;
            join_all((0..each).map(|one| call(format!("c{n}-{one}")))).await;
        }
    };
    let mut late = Vec::new();
    let following = async {
        while let Some(event) = events.event().await {
            // What a follower is not told of carries no time.
            let Some(at) = event.data["ts"].as_str().and_then(Timestamp::parse) else { continue };
            late.push((SystemClock::new().now().millis() - at.millis()) as f64);
        }
    };
    tokio::select! {
        () = making => {}
        () = following => panic!("the feed ended"),
    }
    let (half, far) = (quantile(&late, 50), quantile(&late, 95));
    let what = format!("live feed at {CALLS_PER_SECOND} calls/s: from an entry to its follower");
    let words = format!("p50 {half:.0} ms, p95 {far:.0} ms of {} events", late.len());
    table.add(row(what, words, (far, 1000.0, "ms")));
}

/// A call that runs.
fn drafts(run: RunId, call: &str) -> [Draft; 2] {
    let draft = |verdict, body| Draft {
        run: Some(run),
        call: CallId::parse(call),
        tool: ToolName::parse("work.do"),
        verdict,
        ..Draft::of(body)
    };
    let authorized = [("tier", Json::from("T1")), ("enforced", true.into())];
    let completed = [("status", Json::from("200")), ("us", Json::from(1000_u64))];
    [
        draft(Some(Verdict::Allow), body(Kind::CallAuthorized, authorized)),
        draft(None, body(Kind::CallCompleted, completed)),
    ]
}
