//! What a follower gets: in order, once, and told about what it missed.

use super::*;
use crate::operator::api::lookups::LiveLine;

fn event(chain: u8, seq: Seq, at: i64) -> LiveEvent {
    let place =
        LiveCursor { at: Timestamp::from_millis(at), chain: ChainId::from_bytes([chain; 16]), seq };
    let line = LiveLine {
        ts: place.at.to_string(),
        kind: "call.denied".to_owned(),
        agent: None,
        tool: None,
        verdict: None,
        code: None,
        run: None,
        call: None,
        at: None,
    };
    LiveEvent { place, line }
}

fn publish(feed: &Feed, events: impl IntoIterator<Item = LiveEvent>) {
    let mut fresh = FreshEvents::default();
    fresh.extend(events);
    feed.publish(&mut fresh, 0);
}

fn seqs(events: &[Arc<LiveEvent>]) -> Vec<Seq> {
    events.iter().map(|event| event.place.seq).collect()
}

#[test]
fn a_cursor_reads_back_and_nothing_else_is_one() {
    let cursor = event(7, 12, 1_700_000_000_000).place;
    assert_eq!(LiveCursor::parse(&cursor.to_string()), Some(cursor));
    let text = cursor.to_string();
    for wrong in ["", "-", "1-2-3", &format!("{text}-1"), &format!("0{text}"), &text.to_uppercase()]
    {
        assert!(wrong == text || LiveCursor::parse(wrong).is_none(), "{wrong}");
    }
}

#[test]
fn a_follower_that_comes_back_gets_exactly_what_followed() {
    let feed = Feed::default();
    assert_eq!(feed.place(None), None, "the ledger was not read yet");
    publish(&feed, []);
    publish(&feed, (0..5).map(|seq| event(1, seq, 100)));
    let place = |seq| feed.place(Some(&event(1, seq, 100).place)).unwrap();
    for seq in 0..5 {
        let begin = place(seq);
        assert_eq!(seqs(&begin.backlog), (seq + 1..5).collect::<Vec<_>>());
        assert_eq!((begin.position, begin.gap), (5, false));
    }
    let begin = feed.place(None).unwrap();
    assert_eq!((begin.position, begin.backlog.len()), (5, 0));
}

#[test]
fn before_the_first_look_two_writers_may_disagree_about_order_so_nothing_is_missed() {
    let feed = Feed::default();
    // Another process showed A10 before B5 was visible to it.
    publish(&feed, [event(1, 10, 1000), event(2, 5, 900), event(1, 11, 1100)]);
    let begin = feed.place(Some(&event(1, 10, 1000).place)).unwrap();
    assert_eq!(seqs(&begin.backlog), [5, 11]);
    // One writer alone: exactly what followed.
    let begin = feed.place(Some(&event(1, 11, 1100).place)).unwrap();
    assert_eq!(seqs(&begin.backlog), [5]);
}

#[test]
fn a_place_that_is_no_longer_kept_is_a_gap_and_who_falls_behind_is_told_how_far() {
    let feed = Feed::default();
    publish(&feed, []);
    let most = u64::try_from(EVENTS_MAX).unwrap();
    publish(&feed, (0..most).map(|seq| event(1, seq, 100)));
    publish(&feed, (most..most + 3).map(|seq| event(1, seq, 100)));
    assert!(feed.place(Some(&event(1, 2, 100).place)).unwrap().gap);
    assert!(!feed.place(Some(&event(1, 3, 100).place)).unwrap().gap);
    let (lost, events) = feed.after(1);
    assert_eq!((lost, events.len(), events[0].place.seq), (2, EVENTS_MAX, 3));
    // One read brings more than is kept.
    publish(&feed, (0..2 * most).map(|seq| event(2, seq, 200)));
    let (lost, events) = feed.after(most + 3);
    assert_eq!((lost, events.len()), (most, EVENTS_MAX));
    assert_eq!(seqs(&events), (most..2 * most).collect::<Vec<_>>());
}

#[test]
fn one_operator_has_half_of_the_streams_and_a_stream_that_ends_frees_its_place() {
    let feed = Arc::new(Feed::default());
    let mut open: Vec<LivePlace> = (0..OWN_MAX).map(|_| feed.enter("vera").unwrap()).collect();
    assert!(feed.enter("vera").is_err());
    open.extend((OWN_MAX..STREAMS_MAX).map(|_| feed.enter("otto").unwrap()));
    let refused = feed.enter("anna").unwrap_err();
    assert_eq!((refused.code, refused.retry_after), (Code::LimitExceeded, Some(AGAIN)));
    drop(open.pop());
    let _anna = feed.enter("anna").unwrap();
    assert!(feed.enter("otto").is_err());
    drop(open);
    assert_eq!(feed.state.lock().streams.len(), 1, "only anna's");
}
