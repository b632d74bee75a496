//! Archives as tiles: written a piece at a time, checked from the files alone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use wicketgate::domain::json::Json;

use crate::forged::{ORIGIN, TestLedger, key, run_id};
use crate::ledgers::{ENROLMENT, Ledger, Report as _, State, chain, run, state, trust, words};
use wicketgate_support::ran::Ran;

pub fn archive(ledger: &Ledger, out: &Path) -> Ran {
    let out = out.display().to_string();
    let args = ["archive", "--json", "--chain", ORIGIN, "--out", &out];
    run(&[words(&args), ledger.named()].concat())
}

pub fn check(dir: &Path, out: &Path, pins: &str) -> Ran {
    let (trust, out) = (trust(dir, pins), out.display().to_string());
    run(&words(&["verify", "--json", "--trust", &trust, "--tiles", &out]))
}

/// Every file of an archive, but its lock.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![dir.to_owned()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.file_name().unwrap() != ".lock" {
                found.insert(path.clone(), std::fs::read(&path).unwrap());
            }
        }
    }
    found
}

fn number(said: &Ran, name: &str) -> u64 {
    said.log(ORIGIN).get(name).and_then(Json::as_u64).unwrap()
}

/// The history of `state`, and what comes after it.
fn longer(runs: u8, more: u8) -> (State, State) {
    let mut ledger = TestLedger::new(1, key(ENROLMENT));
    (1..=runs).for_each(|run| ledger.whole_run(run_id(run)));
    let first = State::of(&ledger);
    (runs + 1..=runs + more).for_each(|run| ledger.whole_run(run_id(run)));
    let mut both = State::of(&ledger);
    // The first head was published as it was.
    both.checkpoints.retain(|(size, _)| *size > first.head.size);
    both.checkpoints.splice(0..0, first.checkpoints.clone());
    (first, both)
}

#[tokio::test]
async fn an_archive_grows_by_what_is_new_and_verifies_from_its_files_alone() {
    let (first, both) = longer(60, 60);
    let ledger = Ledger::sqlite();
    let held = ledger.append(&first, None).await;
    let out = ledger.dir().join("archive");
    let said = archive(&ledger, &out);
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(number(&said, "size"), first.size() as u64);
    let of_chain = out.join(chain().to_string());
    let before = files(&of_chain);
    let names: Vec<String> = before
        .keys()
        .map(|path| path.strip_prefix(&of_chain).unwrap().display().to_string())
        .collect();
    assert_eq!(
        names,
        [
            "checkpoint",
            "tile/0/000",
            "tile/0/001.p/169",
            "tile/1/000.p/1",
            "tile/entries/000",
            "tile/entries/001.p/169",
        ]
    );
    assert_eq!(check(ledger.dir(), &out, "").code, 0);
    // Nothing new, nothing written.
    assert_eq!(number(&archive(&ledger, &out), "files"), 0);
    ledger.append(&both, Some(held)).await;
    let said = archive(&ledger, &out);
    assert_eq!((said.code, number(&said, "before")), (0, first.size() as u64), "{}", said.err);
    let after = files(&of_chain);
    let full = of_chain.join("tile/entries/000");
    assert_eq!(after[&full], before[&full]);
    assert!(!after.contains_key(&of_chain.join("tile/0/001.p/169")), "superseded");
    let said = check(ledger.dir(), &out, "");
    assert_eq!((said.code, number(&said, "entries")), (0, both.size() as u64), "{}", said.out);
    assert_eq!(std::fs::read_to_string(of_chain.join("checkpoint")).unwrap(), both.head.checkpoint);
    let pin = |state: &State| {
        format!("head {ORIGIN} {} {}\n", state.size(), state.root(state.size()).hex())
    };
    assert_eq!(check(ledger.dir(), &out, &pin(&first)).code, 0);
    let other = format!("head {ORIGIN} 30 {}\n", "0".repeat(64));
    assert_eq!(check(ledger.dir(), &out, &other).damage(), Some(("fork".into(), 29)));
    let later = format!("head {ORIGIN} 3000 {}\n", "0".repeat(64));
    assert_eq!(check(ledger.dir(), &out, &later).damage().unwrap().0, "rollback");
}

#[tokio::test]
async fn whatever_is_changed_in_an_archive_is_named() {
    let good = state(40);
    let ledger = Ledger::sqlite();
    ledger.append(&good, None).await;
    let out = ledger.dir().join("archive");
    assert_eq!(archive(&ledger, &out).code, 0);
    let all = files(&out);
    assert_eq!(all.len(), 6, "{:?}", all.keys());
    for (path, bytes) in &all {
        let name = path.display();
        let mut flipped = bytes.clone();
        let at = flipped.len() / 2;
        flipped[at] ^= 1;
        std::fs::write(path, &flipped).unwrap();
        let said = check(ledger.dir(), &out, "");
        assert_ne!(said.code, 0, "a bit of {name}: {}", said.out);
        std::fs::write(path, &bytes[..bytes.len() - 1]).unwrap();
        assert_ne!(check(ledger.dir(), &out, "").code, 0, "the end of {name}");
        std::fs::remove_file(path).unwrap();
        assert_ne!(check(ledger.dir(), &out, "").code, 0, "without {name}");
        std::fs::write(path, bytes).unwrap();
    }
    assert_eq!(check(ledger.dir(), &out, "").code, 0);
    let of_chain = out.join(chain().to_string());
    for (name, kind, seq) in
        [("tile/entries/000", "deletion", 0), ("tile/entries/001.p/30", "truncation", 256)]
    {
        std::fs::remove_file(of_chain.join(name)).unwrap();
        assert_eq!(check(ledger.dir(), &out, "").damage(), Some((kind.into(), seq)));
        std::fs::write(of_chain.join(name), &all[&of_chain.join(name)]).unwrap();
    }
    // An entry edited in its bundle is named.
    let name = of_chain.join("tile/entries/000");
    let text = String::from_utf8_lossy(&all[&name]).into_owned();
    let at = text.find("\"us\":1200").unwrap();
    let mut edited = all[&name].clone();
    let at = edited.windows(9).position(|w| w == b"\"us\":1200").unwrap_or(at);
    edited[at + 8] = b'1';
    std::fs::write(&name, edited).unwrap();
    assert_eq!(check(ledger.dir(), &out, "").damage(), Some(("edit".into(), 7)));
}

#[tokio::test]
async fn a_full_tile_is_never_written_over_and_a_damaged_ledger_is_not_archived() {
    let (first, both) = longer(60, 60);
    let ledger = Ledger::sqlite();
    let held = ledger.append(&first, None).await;
    let out = ledger.dir().join("archive");
    assert_eq!(archive(&ledger, &out).code, 0);
    ledger.append(&both, Some(held)).await;
    // Somebody put another tile where the next full one belongs.
    let tile = out.join(chain().to_string()).join("tile/0/001");
    std::fs::write(&tile, vec![7; 8192]).unwrap();
    let said = archive(&ledger, &out);
    assert_eq!(said.code, 1);
    assert!(said.err.contains("`tile/0/001` is there with other bytes"), "{}", said.err);
    assert_eq!(std::fs::read(&tile).unwrap(), vec![7; 8192]);
    std::fs::remove_file(&tile).unwrap();
    ledger.unguard().await;
    let mut bad = both.clone();
    bad.edit(600, "\"ts\":\"2026", "\"ts\":\"2025");
    ledger.put(&bad).await;
    let said = archive(&ledger, &out);
    assert_eq!(said.code, 1, "{}", said.err);
    ledger.put(&both).await;
    assert_eq!(archive(&ledger, &out).code, 0);
    // An archive that is ahead of the ledger shows that the ledger was set back.
    ledger.put(&first).await;
    let said = archive(&ledger, &out);
    assert!(said.err.contains("the archive holds 845 entries, the ledger 425"), "{}", said.err);
    assert_eq!(said.code, 1);
}

#[tokio::test]
async fn a_ledger_says_what_it_takes() {
    let good = state(40);
    let ledger = Ledger::sqlite();
    ledger.append(&good, None).await;
    let said = run(&[words(&["size", "--json"]), ledger.named()].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    let table = Json::parse(said.out.as_bytes(), &wicketgate::domain::json::Limits::FILE).unwrap();
    let number = |name| table.get(name).and_then(Json::as_u64).unwrap();
    assert_eq!((number("entries"), number("calls")), (good.size() as u64, 80));
    let rows = table.get("table").and_then(Json::as_array).unwrap();
    let of = |what: &str, name: &str| {
        let row = rows.iter().find(|r| r.get("what").and_then(Json::as_str) == Some(what)).unwrap();
        row.get(name).and_then(Json::as_u64).unwrap()
    };
    let bodies: u64 = good.rows.iter().map(|row| row.body.len() as u64).sum();
    assert!(of("entries", "bytes") > bodies && of("entries", "bytes") < bodies * 2);
    assert_eq!(of("entries", "rows"), good.size() as u64);
    assert_eq!(of("payloads", "rows"), good.payloads.len() as u64);
    assert_eq!(of("checkpoints", "rows"), good.checkpoints.len() as u64);
    let plain = run(&[words(&["size"]), ledger.named()].concat());
    assert!(plain.out.contains("per entry"), "{}", plain.out);
}
