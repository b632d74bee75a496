//! Killed in any step of remembering, it never cosigns a fork of what it gave away.

use crate::office::{Log, Office, Running};

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

/// A witness under a tracer that kills it at the nth of these calls; then two stories of one log race for
/// its cosignature. Gives back whether it was killed.
fn killed_at(inject: &str) -> bool {
    let honest = Log::new("log.example/a", 12);
    let fork = honest.forked(4, "fork");
    let office = Office::new(&[&honest]);
    let mut held = Held { cosigned: Vec::new() };
    let name = inject.split(':').next().unwrap();
    let (trace, inject) = (format!("trace={name}"), format!("inject={inject}"));
    let tracer =
        ["strace", "-f", "-qqq", "-o", "/dev/null", "-e", trace.as_str(), "-e", inject.as_str()];
    let mut killed = true;
    if let Some(witness) = office.try_open(&tracer) {
        held.ask(&witness, &honest, "honest", 0, 4);
        held.ask(&witness, &honest, "honest", 4, 8);
        held.ask(&witness, &honest, "honest", 8, 10);
        killed = witness.try_ask("GET", "/livez", b"").is_none();
    }
    // Whatever it left, it starts again and goes on from at least what it gave away.
    let witness = office.open();
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
    witness.submit(&story.body(size, 12)).cosigned(&story.head(12), &office.vkey);
    killed
}

fn sweep(names: &str, points: u32) {
    let killed =
        (1..=points).filter(|n| killed_at(&format!("{names}:signal=KILL:when={n}"))).count();
    assert!(killed >= 3, "{names}: only {killed} points were reached");
}

#[test]
fn killed_in_any_sync_it_never_cosigns_a_fork() {
    sweep("fsync", 7);
}

#[test]
fn killed_in_any_rename_it_never_cosigns_a_fork() {
    sweep("rename", 4);
}

#[test]
fn killed_in_any_write_it_never_cosigns_a_fork() {
    sweep("write,writev,sendto", 10);
}

#[test]
fn killed_in_any_opening_of_a_file_it_never_cosigns_a_fork() {
    let killed =
        (20..90).step_by(7).filter(|n| killed_at(&format!("openat:signal=KILL:when={n}"))).count();
    assert!(killed >= 1, "no opening was reached");
}

/// A disk that fails: nothing is given away, and nothing more is cosigned until somebody looked.
#[test]
fn after_a_write_that_failed_nothing_is_cosigned_until_a_restart() {
    let log = Log::new("log.example/a", 12);
    for inject in ["fsync:error=EIO:when=3", "rename:error=EIO:when=2", "fsync:error=EIO:when=4"] {
        let office = Office::new(&[&log]);
        let name = inject.split(':').next().unwrap();
        let (trace, inject) = (format!("trace={name}"), format!("inject={inject}"));
        let tracer = [
            "strace",
            "-f",
            "-qqq",
            "-o",
            "/dev/null",
            "-e",
            trace.as_str(),
            "-e",
            inject.as_str(),
        ];
        let witness = office.try_open(&tracer).unwrap();
        witness.submit(&log.body(0, 4)).cosigned(&log.head(4), &office.vkey);
        assert_eq!(witness.submit(&log.body(4, 8)).status, 500, "{inject}");
        assert_eq!(witness.submit(&log.body(4, 8)).status, 500, "{inject}");
        assert_eq!(witness.submit(&log.body(4, 4)).status, 500, "{inject}");
        assert_eq!(witness.ask("GET", "/readyz", b"").status, 503, "{inject}");
        drop(witness);
        let witness = office.open();
        // The head that was written and never given away may be remembered, or not.
        let old = if witness.submit(&log.body(4, 9)).status == 200 { 9 } else { 8 };
        witness.submit(&log.body(old, 12)).cosigned(&log.head(12), &office.vkey);
    }
}
