//! Killed in any step of remembering, it never cosigns a fork of what it gave away.

use crate::process::{Log, Running, Tracer, WitnessFiles};

/// What a client holds: heads of the log it has a cosignature for, by the word of their fork.
struct Held {
    /// Size and word.
    cosigned: Vec<(usize, &'static str)>,
}

impl Held {
    /// Asks for a head of this story and keeps the cosignature, if there is one.
    fn ask(&mut self, witness: &Running, story: &Log, word: &'static str, old: usize, size: usize) {
        let body = story.body(old, size);
        if let Some(answer) = witness.try_ask("POST", "/add-checkpoint", body.as_bytes())
            && answer.status == 200
        {
            self.cosigned.push((size, word));
        }
    }
}

/// A witness that is killed while it remembers the head after these; then two stories of one log race for
/// its cosignature. Gives back whether it was killed.
fn killed_at(inject: &str, after: usize) -> bool {
    let honest = Log::new("log.example/a", 12);
    let fork = honest.forked(4, "fork");
    let files = WitnessFiles::new(&[&honest]);
    let mut held = Held { cosigned: Vec::new() };
    let heads = [(0, 4), (4, 8), (8, 10)];
    let witness = files.open();
    for (old, size) in &heads[..after] {
        held.ask(&witness, &honest, "honest", *old, *size);
    }
    assert_eq!(held.cosigned.len(), after);
    let tracer = Tracer::attach(&witness, inject);
    for (old, size) in &heads[after..] {
        held.ask(&witness, &honest, "honest", *old, *size);
    }
    let killed = witness.try_ask("GET", "/livez", b"").is_none();
    drop((tracer, witness));
    // Whatever it left, it starts again and goes on from at least what it gave away.
    let witness = files.open();
    for old in [0, 4, 8, 10] {
        held.ask(&witness, &fork, "fork", old, 11);
        held.ask(&witness, &fork, "fork", old, old);
    }
    let newest_honest = held.cosigned.iter().filter(|(_, word)| *word == "honest").max();
    let forked = held.cosigned.iter().any(|(_, word)| *word == "fork");
    // The stories part after 4: a fork may follow nothing that was given away beyond that.
    let beyond = newest_honest.is_some_and(|(size, _)| *size > 4);
    assert!(!(forked && beyond), "{inject}: {:?}", held.cosigned);
    // And it still is a witness: the story it is in goes on.
    let shown = witness.newest(&honest);
    let size: usize = match shown.status {
        200 => shown.body.lines().nth(1).unwrap().parse().unwrap(),
        _ => 0,
    };
    assert!(Some(size) >= newest_honest.map(|(size, _)| *size), "{inject}: {shown:?}");
    let story = if forked { &fork } else { &honest };
    witness.submit(&story.body(size, 12)).cosigned(&story.head(12), &files.vkey);
    killed
}

/// Kills it in the nth of these calls after each head: all that one head takes, and more.
fn sweep(names: &str, each: u32) {
    for after in 0..3 {
        for nth in 1..=each {
            let inject = format!("{names}:signal=KILL:when={nth}");
            assert!(killed_at(&inject, after), "{inject} after {after} heads was not reached");
        }
    }
}

#[test]
fn killed_in_any_sync_it_never_cosigns_a_fork() {
    // The file, then its directory.
    sweep("fsync", 2);
}

#[test]
fn killed_in_any_rename_it_never_cosigns_a_fork() {
    sweep("rename", 1);
}

#[test]
fn killed_in_any_write_it_never_cosigns_a_fork() {
    // To the file; to the one who asked; to wake another thread: which comes when is not told.
    sweep("write,writev,sendto", 1);
    for nth in 2..=4 {
        killed_at(&format!("write,writev,sendto:signal=KILL:when={nth}"), 0);
    }
}

#[test]
fn killed_in_any_opening_of_a_file_it_never_cosigns_a_fork() {
    // The part, then the directory.
    sweep("openat", 2);
}

/// A disk that fails: nothing is given away, and nothing more is cosigned until somebody looked.
#[test]
fn after_a_write_that_failed_nothing_is_cosigned_until_a_restart() {
    let log = Log::new("log.example/a", 12);
    for inject in ["fsync:error=EIO:when=1", "rename:error=EIO:when=1", "fsync:error=EIO:when=2"] {
        let files = WitnessFiles::new(&[&log]);
        let witness = files.open();
        witness.submit(&log.body(0, 4)).cosigned(&log.head(4), &files.vkey);
        let tracer = Tracer::attach(&witness, inject);
        assert_eq!(witness.submit(&log.body(4, 8)).status, 500, "{inject}");
        assert_eq!(witness.submit(&log.body(4, 8)).status, 500, "{inject}");
        assert_eq!(witness.submit(&log.body(4, 4)).status, 500, "{inject}");
        assert_eq!(witness.ask("GET", "/readyz", b"").status, 503, "{inject}");
        drop((tracer, witness));
        let witness = files.open();
        // The head that was written and never given away may be remembered, or not.
        let old = if witness.submit(&log.body(4, 9)).status == 200 { 9 } else { 8 };
        witness.submit(&log.body(old, 12)).cosigned(&log.head(12), &files.vkey);
    }
}
