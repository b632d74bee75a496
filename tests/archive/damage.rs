//! Every kind of damage that the owner of the database can do, named by `ledger verify`.

use crate::json_entry::body;
use wicketgate::domain::digest::Digest;
use wicketgate::domain::json::Json;
use wicketgate::record::{Draft, Entry, Kind};

use crate::forged::{ORIGIN, TestLedger, key, run_id};
use crate::ledgers::{
    ENROLMENT, Ledger, Report as _, State, chain, run, state, trust, verify, words,
};

const RUNS: u8 = 22;

/// What was done, what it is to be called, and the first entry it was done to.
type Case = (&'static str, fn(&mut State), &'static str, fn(&State) -> usize);

/// The entry most of it is done to: `call.completed` of a run in the middle.
fn at(state: &State) -> usize {
    state.find("call.completed", 70)
}

/// The last size before an entry that was committed: where its commit began.
fn commit_of(entry: usize) -> usize {
    entry / 7 * 7
}

fn moved_back(state: &mut State) {
    let size = state.size() - 20;
    let note = state.note(size);
    state.head_at(size);
    state.head.checkpoint = note;
    state.rows.truncate(size);
}

const CASES: [Case; 21] = [
    (
        "an entry is edited",
        |s| {
            let leaf = s.rows[at(s)].leaf;
            let at = at(s);
            s.edit(at, "1200", "1201");
            s.rows[at].leaf = leaf;
        },
        "edit",
        at,
    ),
    (
        "an entry is edited and its hash repaired",
        |s| {
            let at = at(s);
            s.edit(at, "1200", "1201");
        },
        "edit",
        at,
    ),
    (
        "the last entry is edited and its hash repaired",
        |s| {
            let at = s.size() - 1;
            s.edit(at, "\"open_runs\":0", "\"open_runs\":1");
        },
        "edit",
        |s| s.size() - 1,
    ),
    (
        "an entry is edited and everything linked anew",
        |s| {
            let at = at(s);
            s.edit(at, "1200", "1201");
            s.relink(at + 1, |_| ());
        },
        "edit",
        |s| commit_of(at(s)),
    ),
    (
        "the same, with hash and frontier of the head repaired",
        |s| {
            let at = at(s);
            s.edit(at, "1200", "1201");
            s.relink(at + 1, |_| ());
            let note = s.head.checkpoint.clone();
            s.head_at(s.size());
            s.head.checkpoint = note;
        },
        "edit",
        |s| commit_of(at(s)),
    ),
    (
        "an entry becomes unreadable",
        |s| {
            let at = at(s);
            s.rows[at].body = b"{}".to_vec();
        },
        "edit",
        at,
    ),
    (
        "entries are deleted",
        |s| {
            let at = at(s);
            s.rows.drain(at..at + 3);
        },
        "deletion",
        at,
    ),
    (
        "entries are deleted and the later ones moved up",
        |s| {
            let at = at(s);
            s.rows.drain(at..at + 3);
            s.renumber();
        },
        "deletion",
        at,
    ),
    (
        "two entries change places",
        |s| {
            let at = at(s);
            s.rows.swap(at, at + 5);
            s.renumber();
        },
        "reorder",
        at,
    ),
    (
        "an entry is inserted",
        |s| {
            let at = at(s);
            let mut forged = Entry::parse(&s.rows[at].body).unwrap();
            forged.run = None;
            let open = Json::object([("open_runs", Json::from(0_u64))]);
            forged.draft = Draft::of(body(Kind::Heartbeat, &open));
            let mut row = s.rows[at].clone();
            row.body = forged.bytes();
            row.leaf = Entry::leaf(&row.body);
            row.kind = "heartbeat".into();
            row.run = None;
            row.call = None;
            s.rows.insert(at, row);
            s.renumber();
            s.head.size += 1;
        },
        "insertion",
        at,
    ),
    (
        "the last entries are deleted",
        |s| {
            let size = s.size() - 20;
            s.rows.truncate(size);
        },
        "truncation",
        |s| s.size() - 20,
    ),
    ("the last entries are deleted and the head moved back", moved_back, "truncation", |s| {
        s.size() - 20
    }),
    (
        "the ledger is as it was before",
        |s| {
            moved_back(s);
            let size = s.size() as u64;
            s.checkpoints.retain(|(at, _)| *at <= size);
        },
        "rollback",
        |s| s.size() - 20,
    ),
    (
        "a shadow column is edited",
        |s| {
            let at = at(s);
            s.rows[at].kind = "call.failed".into();
        },
        "shadow-column",
        at,
    ),
    (
        "the stored hash is edited",
        |s| {
            let at = at(s);
            s.rows[at].leaf = Digest::of(&[b"x"]);
        },
        "shadow-column",
        at,
    ),
    (
        "the stored link is edited",
        |s| {
            let at = at(s);
            s.rows[at].prev = Digest::of(&[b"x"]);
        },
        "shadow-column",
        at,
    ),
    ("the head's frontier is edited", |s| s.head.frontier[3] ^= 1, "shadow-column", State::size),
    (
        "the head's signature is edited",
        |s| {
            let end = s.head.checkpoint.len() - 8;
            s.head.checkpoint.replace_range(end..end + 1, "A");
        },
        "signature",
        State::size,
    ),
    ("the rows of the chain are gone", |s| s.rows.clear(), "missing-partition", |_| 0),
    ("the chain is gone", |s| s.listed = false, "missing-partition", |_| 0),
    ("another history is signed with the writer's key", forked, "fork", |_| 0),
];

/// The holder of the writer's key tells the second half of the story again.
fn forked(state: &mut State) {
    let at = at(state);
    state.edit(at, "1200", "1201");
    state.relink(at + 1, |_| ());
    state.sign();
}

/// The fleet log as it is when the chain was enrolled and its head noted.
fn noted(state: &State) -> Vec<Draft> {
    let text = |value: &str| Json::from(value);
    let public = base64::Engine::encode(
        &base64::engine::general_purpose::STANDARD,
        key(ENROLMENT).public().to_bytes(),
    );
    let enrolled = Json::object([
        ("log", text(ORIGIN)),
        ("chain", Json::from(chain().to_string())),
        ("slot", text("local/0")),
        ("enrolment_key", text(&public)),
    ]);
    let checkpoint = Json::object([
        ("log", text(ORIGIN)),
        ("chain", Json::from(chain().to_string())),
        ("size", Json::from(state.size() as u64)),
        ("root", Json::from(state.root(state.size()).hex())),
        ("epoch", Json::from(1_u64)),
    ]);
    let enrolled = Draft::of(body(Kind::ChainEnrolled, &enrolled));
    vec![enrolled, Draft::of(body(Kind::ChainCheckpoint, &checkpoint))]
}

async fn every_kind_is_named(ledger: Ledger) {
    let good = state(RUNS);
    ledger.append(&good, None).await;
    ledger.record(noted(&good)).await;
    let said = verify(&ledger, "");
    assert_eq!((said.code, said.damage()), (0, None), "{}{}", said.out, said.err);
    ledger.unguard().await;
    let mut wrong = Vec::new();
    for (what, change, kind, first) in CASES {
        let mut bad = good.clone();
        change(&mut bad);
        ledger.put(&bad).await;
        let said = verify(&ledger, "");
        let found = (said.code, said.damage());
        let expected = (1, Some((kind.to_owned(), first(&good) as u64)));
        if found != expected {
            wrong.push(format!("{what}: {found:?}, not {expected:?}: {}", said.out));
        }
        if !bad.listed {
            break;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn every_kind_is_named_in_sqlite() {
    every_kind_is_named(Ledger::sqlite()).await;
}

#[tokio::test]
async fn every_kind_is_named_in_postgres() {
    every_kind_is_named(Ledger::postgres().await).await;
}

#[tokio::test]
async fn a_fork_and_a_rollback_show_against_a_pinned_head_without_a_fleet_log() {
    let good = state(RUNS);
    let ledger = Ledger::sqlite();
    ledger.append(&good, None).await;
    let pin = format!("head {ORIGIN} {} {}\n", good.size(), good.root(good.size()).hex());
    assert_eq!(verify(&ledger, &pin).code, 0);
    ledger.unguard().await;
    let mut forged = good.clone();
    forked(&mut forged);
    ledger.put(&forged).await;
    // Whoever pinned nothing cannot see it: that is the limit, and it is documented.
    let unpinned = verify(&ledger, "");
    assert_eq!((unpinned.code, unpinned.damage()), (0, None));
    assert_eq!(verify(&ledger, &pin).damage(), Some(("fork".into(), 0)));
    let mut older = good.clone();
    moved_back(&mut older);
    let size = older.size() as u64;
    older.checkpoints.retain(|(at, _)| *at <= size);
    ledger.put(&older).await;
    assert_eq!(verify(&ledger, "").code, 0);
    assert_eq!(verify(&ledger, &pin).damage(), Some(("rollback".into(), size)));
}

#[tokio::test]
async fn two_signed_checkpoints_of_different_histories_are_a_fork() {
    let good = state(RUNS);
    let ledger = Ledger::sqlite();
    ledger.append(&good, None).await;
    ledger.unguard().await;
    let mut forged = good.clone();
    forked(&mut forged);
    // One checkpoint of the first history was forgotten.
    let old = forged.checkpoints.iter().position(|(size, _)| *size == 105).unwrap();
    forged.checkpoints[old] = good.checkpoints[old].clone();
    ledger.put(&forged).await;
    assert_eq!(verify(&ledger, "").damage(), Some(("fork".into(), 98)));
}

#[tokio::test]
async fn what_the_writer_itself_signed_against_the_rules_is_no_edit() {
    let mut ledger = TestLedger::new(1, key(ENROLMENT));
    (1..=RUNS).for_each(|run| ledger.whole_run(run_id(run)));
    ledger.allow(run_id(9), "late");
    (0..9).for_each(|_| ledger.beat());
    let bad = State::of(&ledger);
    let ledger = Ledger::sqlite();
    ledger.append(&bad, None).await;
    let late = bad.size() as u64 - 10;
    assert_eq!(verify(&ledger, "").damage(), Some(("rule".into(), late)));
}

#[tokio::test]
async fn a_partition_that_was_detached_is_a_missing_partition() {
    let good = state(RUNS);
    let ledger = Ledger::postgres().await;
    ledger.append(&good, None).await;
    let detach = format!(
        "DO $$ DECLARE t regclass; BEGIN
           SELECT tableoid::regclass INTO t FROM ledger.entry
            WHERE chain_id = '\\x{}'::bytea LIMIT 1;
           EXECUTE format('ALTER TABLE %s DETACH PARTITION %s',
                          (SELECT inhparent::regclass FROM pg_inherits WHERE inhrelid = t), t);
         END $$",
        hex::encode(chain().as_bytes())
    );
    ledger.owner("", &detach).await;
    assert_eq!(verify(&ledger, "").damage(), Some(("missing-partition".into(), 0)));
}

#[tokio::test]
async fn one_chain_one_tenant_or_all_are_verified_and_text_says_the_same() {
    let good = state(3);
    let ledger = Ledger::sqlite();
    ledger.append(&good, None).await;
    ledger.record(noted(&good)).await;
    let trust = trust(ledger.dir(), "");
    let with = |more: &[&str]| {
        let said =
            run(&[words(&["verify", "--trust", &trust]), words(more), ledger.named()].concat());
        (said.code, said.out.lines().filter(|line| line.starts_with("VALID")).count())
    };
    assert_eq!(with(&[]), (0, 2));
    assert_eq!(with(&["--chain", ORIGIN]), (0, 1));
    assert_eq!(with(&["--tenant", "default"]), (0, 2));
    assert_eq!(with(&["--tenant", "other"]), (2, 0));
    assert_eq!(with(&["--chain", "nobody"]), (64, 0));
    ledger.unguard().await;
    let mut bad = good.clone();
    bad.rows.drain(20..22);
    ledger.put(&bad).await;
    let said = run(&[words(&["verify", "--trust", &trust]), ledger.named()].concat());
    assert_eq!(said.code, 1);
    assert!(
        said.out.contains("  deletion at seq 20: S2: entries 20 to 21 are gone"),
        "{}",
        said.out
    );
}
