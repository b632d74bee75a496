//! The witness as anybody sees it, over HTTP written by hand.

use std::io::Write as _;
use std::net::TcpStream;

use wicketgate::crypto::note::Checkpoint;

use crate::forged::key;
use crate::process::{Log, NAME, WitnessFiles, exists, now};
use wicketgate_support::ran::Ran;

#[test]
fn it_cosigns_a_first_head_and_one_that_extends_it_and_shows_the_newest() {
    let log = Log::new("log.example/a", 9);
    let files = WitnessFiles::new(&[&log]);
    let witness = files.open();
    assert_eq!(witness.newest(&log).status, 404);
    for (old, size) in [(0, 3), (3, 4), (4, 9)] {
        let time = witness.submit(&log.body(old, size)).cosigned(&log.head(size), &files.vkey);
        assert!(time.abs_diff(now()) < 60);
        let newest = witness.newest(&log);
        assert_eq!(newest.status, 200);
        let keys = [log.vkey(), files.vkey.clone()];
        let (head, held) = Checkpoint::open_with(&newest.body, &keys).unwrap();
        assert_eq!((head, held.len()), (log.head(size), 2));
    }
    assert_eq!(witness.ask("GET", "/readyz", b"").status, 200);
    assert_eq!(witness.ask("GET", "/livez", b"").status, 200);
}

#[test]
fn a_witness_may_start_with_the_head_of_an_empty_log() {
    let log = Log::new("log.example/a", 2);
    let files = WitnessFiles::new(&[&log]);
    let witness = files.open();
    let mut wrong = log.head(0);
    wrong.root = log.head(1).root;
    let refused = witness.submit(&format!("old 0\n\n{}", wrong.sign(&log.key)));
    assert_eq!(refused.status, 409, "an empty tree has one root");
    witness.submit(&log.body(0, 0)).cosigned(&log.head(0), &files.vkey);
    witness.submit(&log.body(0, 0)).cosigned(&log.head(0), &files.vkey);
    witness.submit(&log.body(0, 2)).cosigned(&log.head(2), &files.vkey);
    assert_eq!(witness.submit(&log.body(0, 0)).status, 409);
}

#[test]
fn the_same_head_again_is_cosigned_again() {
    let log = Log::new("log.example/a", 5);
    let files = WitnessFiles::new(&[&log]);
    let witness = files.open();
    let first = witness.submit(&log.body(0, 5)).cosigned(&log.head(5), &files.vkey);
    let again = witness.submit(&log.body(5, 5)).cosigned(&log.head(5), &files.vkey);
    assert!(again >= first);
    let padded = log.body(5, 5).replacen("old 5\n", &format!("old 5\n{}=\n", "A".repeat(43)), 1);
    assert_eq!(witness.submit(&padded).status, 422, "there is nothing to prove");
}

#[test]
fn it_answers_every_refusal_as_the_protocol_says() {
    let log = Log::new("log.example/a", 9);
    let files = WitnessFiles::new(&[&log]);
    let witness = files.open();
    witness.submit(&log.body(0, 4)).cosigned(&log.head(4), &files.vkey);

    let mut unknown = log.clone();
    unknown.origin = "log.example/b".into();
    assert_eq!(witness.submit(&unknown.body(4, 9)).status, 404);

    let mut forger = log.clone();
    forger.key = key(61);
    assert_eq!(witness.submit(&forger.body(4, 9)).status, 403);
    let (body, other) = (log.body(4, 9), log.note(8));
    let pasted = other.lines().last().unwrap();
    let own = body.lines().last().unwrap().to_owned();
    assert_eq!(witness.submit(&body.replace(&own, pasted)).status, 403, "of another head");
    assert_eq!(witness.submit(&format!("{body}{pasted}\n")).status, 403, "a good and a bad one");

    for (old, size) in [(3, 9), (0, 9), (5, 9)] {
        let conflict = witness.submit(&log.body(old, size));
        assert_eq!((conflict.status, conflict.body.as_str()), (409, "4\n"));
        assert!(conflict.head.contains("content-type: text/x.tlog.size"), "{conflict:?}");
    }
    let same_size = witness.submit(&log.forked(2, "fork").body(4, 4));
    assert_eq!((same_size.status, same_size.body.as_str()), (409, "4\n"));
    assert_eq!(witness.submit(&log.forked(2, "fork").body(4, 9)).status, 422, "a fork");
    let cut: String = log
        .body(4, 9)
        .splitn(3, '\n')
        .enumerate()
        .filter(|(n, _)| *n != 1)
        .map(|(_, line)| format!("{line}\n"))
        .collect();
    assert_eq!(witness.submit(cut.trim_end_matches('\n').to_owned().as_str()).status, 400);
    let shorter = log.body(4, 9).replacen('\n', "\nX\n", 1);
    assert_eq!(witness.submit(&shorter).status, 400);

    let note = log.note(9);
    for body in [
        String::new(),
        "old 4\n\n".into(),
        format!("old 9\n\n{}", log.note(4)).replace("old 9", "old 09"),
        format!("old 5\n\n{}", log.note(4)),
        format!("old 4\n\n{}", note.replace("\n9\n", "\n09\n")),
        format!("old 4\n\n{}", note.replacen("=\n", "=\nextension\n", 1)),
        format!("old 4\n\n{}", note.trim_end()),
        format!("old 4\r\n\r\n{note}"),
    ] {
        assert_eq!(witness.submit(&body).status, 400, "{body:?}");
    }
    assert_eq!(witness.ask("POST", "/add-checkpoint", &[0xff; 10]).status, 400);
    assert_eq!(witness.ask("POST", "/add-checkpoint", &vec![b'a'; 70_000]).status, 413);
    assert_eq!(witness.ask("GET", "/add-checkpoint", b"").status, 405);
    assert_eq!(witness.ask("GET", "/0/checkpoint", b"").status, 404);
    assert_eq!(witness.ask("GET", "/", b"").status, 404);

    // Nothing of all this changed what it remembers.
    witness.submit(&log.body(4, 9)).cosigned(&log.head(9), &files.vkey);
}

#[test]
fn signatures_of_keys_it_does_not_know_are_ignored_and_not_kept() {
    let log = Log::new("log.example/a", 2);
    let files = WitnessFiles::new(&[&log]);
    let witness = files.open();
    let mut other = log.clone();
    other.key = key(62);
    let strange = other.note(2).lines().last().unwrap().to_owned();
    let body = format!("{}{strange}\n", log.body(0, 2));
    witness.submit(&body).cosigned(&log.head(2), &files.vkey);
    assert!(!witness.newest(&log).body.contains(&strange));
}

#[test]
fn it_remembers_over_a_restart_and_ends_in_order() {
    let (a, b) = (Log::new("log.example/a", 9), Log::new("log.example/b", 9));
    let files = WitnessFiles::new(&[&a, &b]);
    let mut witness = files.open();
    witness.submit(&a.body(0, 4)).cosigned(&a.head(4), &files.vkey);
    assert_eq!(witness.signal("-TERM").code(), Some(0));
    let mut witness = files.open();
    assert_eq!(witness.submit(&a.forked(0, "fork").body(0, 9)).status, 409);
    assert_eq!(witness.submit(&a.forked(3, "fork").body(4, 9)).status, 422);
    witness.submit(&a.body(4, 9)).cosigned(&a.head(9), &files.vkey);
    witness.submit(&b.body(0, 9)).cosigned(&b.head(9), &files.vkey);
    assert_eq!(witness.signal("-INT").code(), Some(0));
}

#[test]
fn one_state_has_one_witness_at_a_time() {
    let log = Log::new("log.example/a", 1);
    let files = WitnessFiles::new(&[&log]);
    let first = files.open();
    let (status, said) = files.refuses();
    assert_eq!(status.code(), Some(75), "{said}");
    assert!(said.contains("another witness uses this state directory"), "{said}");
    drop(first);
    files.open();
}

#[test]
fn a_state_file_that_is_damaged_of_another_log_or_of_another_witness_is_refused() {
    let (a, b) = (Log::new("log.example/a", 3), Log::new("log.example/b", 3));
    let files = WitnessFiles::new(&[&a, &b]);
    let witness = files.open();
    witness.submit(&a.body(0, 3)).cosigned(&a.head(3), &files.vkey);
    drop(witness);
    let good = std::fs::read(files.state(&a)).unwrap();
    let refused = |bytes: &[u8]| {
        std::fs::write(files.state(&a), bytes).unwrap();
        let (status, said) = files.refuses();
        assert_eq!(status.code(), Some(78), "{said}");
        assert!(said.contains("is damaged"), "{said}");
    };
    refused(b"");
    refused(&good[..good.len() / 2]);
    let mut other = good.clone();
    other[20] ^= 1;
    refused(&other);
    // A head that is older, put back under another name.
    std::fs::write(files.state(&a), &good).unwrap();
    std::fs::rename(files.state(&a), files.state(&b)).unwrap();
    assert_eq!(files.refuses().0.code(), Some(78));
    std::fs::rename(files.state(&b), files.state(&a)).unwrap();
    // What another witness cosigned is not ours to go on from.
    let stranger = WitnessFiles::new(&[&a]);
    std::fs::create_dir(stranger.path("state")).unwrap();
    std::fs::copy(files.state(&a), stranger.state(&a)).unwrap();
    assert_eq!(stranger.refuses().0.code(), Some(78));
    files.open();
}

#[test]
fn a_list_of_logs_that_is_wrong_is_refused_with_its_line() {
    let log = Log::new("log.example/a", 1);
    let files = WitnessFiles::new(&[&log]);
    for (text, why) in [
        ("# none\n".to_owned(), "no key of a log"),
        (format!("{}\n{}\n", log.vkey(), log.vkey()), "line 2: the key is there twice"),
        ("log.example/a+00000000+AAAA\n".to_owned(), "line 1"),
        (format!("{}\n", files.vkey), "line 1: the key is not the key of a log"),
    ] {
        std::fs::write(files.path("logs.txt"), text).unwrap();
        let (status, said) = files.refuses();
        assert_eq!(status.code(), Some(78), "{said}");
        assert!(said.contains(why), "{said}");
    }
    assert!(!exists(&files.path("state")));
}

#[test]
fn of_many_forks_at_the_same_time_one_is_cosigned() {
    let log = Log::new("log.example/a", 8);
    let files = WitnessFiles::new(&[&log]);
    let witness = files.open();
    witness.submit(&log.body(0, 4)).cosigned(&log.head(4), &files.vkey);
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let submit = |n: usize| {
            let (log, witness) = (log.forked(4, &format!("fork {n}")), &witness);
            scope.spawn(move || witness.submit(&log.body(4, 8)).status)
        };
        let all: Vec<_> = (0..16).map(submit).collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 409).count(), 15, "{statuses:?}");
}

#[test]
fn clients_that_stop_half_way_do_not_keep_others_waiting() {
    let log = Log::new("log.example/a", 1);
    let files = WitnessFiles::new(&[&log]);
    let witness = files.open();
    let mut silent = Vec::new();
    for n in 0..40 {
        let mut stream = TcpStream::connect(&witness.addr).unwrap();
        let begun = "POST /add-checkpoint HTTP/1.1\r\nhost: x\r\ncontent-length: 900\r\n\r\nold";
        stream.write_all(&begun.as_bytes()[..n + 20]).unwrap();
        silent.push(stream);
    }
    witness.submit(&log.body(0, 1)).cosigned(&log.head(1), &files.vkey);
}

#[test]
fn a_key_is_never_replaced_and_others_may_not_read_it() {
    let files = WitnessFiles::new(&[&Log::new("log.example/a", 1)]);
    let keygen = ["witness", "keygen", "--name", NAME, "--out", "witness.pem"];
    Ran::gate(&files.dir, keygen).ends(1);
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(files.path("witness.pem"), permissions).unwrap();
    let (status, said) = files.refuses();
    assert_eq!(status.code(), Some(78));
    assert!(said.contains("only its owner may read it"), "{said}");
}
