//! Archives in an object store with object lock: an S3 server that nobody here wrote, on the loopback,
//! behind a gate that computes every signature with another library.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use wicketgate::domain::json::{Json, Limits};

use crate::forged::{ORIGIN, TestLedger, key, run_id};
use crate::ledgers::{ENROLMENT, Ledger, Report as _, State, chain, state, trust, words};
use wicketgate_support::program;
use wicketgate_support::ran::Ran;

/// The object store, and its own view of what is in it.
struct Store {
    child: Child,
    say: Option<ChildStdin>,
    hear: BufReader<ChildStdout>,
    url: String,
}

impl Store {
    /// `None` where the Python packages for it are not installed; tests/run installs them.
    fn start() -> Option<Self> {
        let Some(python) = std::env::var_os("WICKETGATE_TEST_EVIDENCE") else {
            eprintln!("not asked: WICKETGATE_TEST_EVIDENCE is not set; tests/run sets it");
            return None;
        };
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/archive/store.py");
        let mut child = Command::new(python)
            .arg(script)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let say = child.stdin.take();
        let hear = BufReader::new(child.stdout.take().unwrap());
        let mut store = Self { child, say, hear, url: String::new() };
        store.url = store.line().get("url").and_then(Json::as_str).unwrap().to_owned();
        store.asked(r#""do":"bucket","bucket":"logs","lock":true"#);
        Some(store)
    }

    fn line(&mut self) -> Json {
        let mut line = String::new();
        self.hear.read_line(&mut line).unwrap();
        Json::parse(line.trim().as_bytes(), &Limits::FILE).unwrap_or_else(|e| panic!("{e}: {line}"))
    }

    /// Has something done, and gives back what it said.
    fn asked(&mut self, order: &str) -> Json {
        writeln!(self.say.as_mut().unwrap(), "{{{order}}}").unwrap();
        let line = self.line();
        assert_eq!(line.get("error"), None, "{order}");
        line.get("is").unwrap().clone()
    }

    fn of(&mut self, what: &str, key: &str) -> Json {
        self.asked(&format!(r#""do":"{what}","bucket":"logs","key":"{key}""#))
    }

    fn keys(&mut self) -> Vec<String> {
        let keys = self.asked(r#""do":"keys","bucket":"logs""#);
        keys.as_array().unwrap().iter().map(|k| k.as_str().unwrap().to_owned()).collect()
    }

    /// The program, with the store and its credentials in its environment.
    fn run(&self, args: &[String], change: &[(&str, &str)]) -> Ran {
        let mut command = program::command(".", [&["ledger".to_owned()], args].concat());
        command
            .env("AWS_ENDPOINT_URL_S3", &self.url)
            .env("AWS_REGION", "eu-test-1")
            .env("AWS_ACCESS_KEY_ID", "AKIATEST")
            .env("AWS_SECRET_ACCESS_KEY", "a secret of the tests")
            .envs(change.iter().copied());
        Ran::of(&mut command)
    }

    fn archive(&self, ledger: &Ledger, more: &[&str]) -> Ran {
        let args = ["archive", "--json", "--chain", ORIGIN, "--to", "s3://logs/of/us"];
        self.run(&[words(&args), words(more), ledger.named()].concat(), &[])
    }

    fn check(&self, dir: &Path, at: &str) -> Ran {
        let trust = trust(dir, "");
        self.run(&words(&["verify", "--json", "--trust", &trust, "--tiles", at]), &[])
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        drop(self.say.take());
        drop(self.child.wait());
    }
}

fn object(name: &str) -> String {
    format!("of/us/{}/{name}", chain())
}

fn number(said: &Ran, name: &str) -> u64 {
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
    said.log(ORIGIN).get(name).and_then(Json::as_u64).unwrap()
}

#[tokio::test]
async fn an_archive_in_a_bucket_grows_is_locked_and_verifies_from_its_objects_alone() {
    let Some(mut store) = Store::start() else { return };
    let mut ledger = TestLedger::new(1, key(ENROLMENT));
    (1..=60).for_each(|run| ledger.whole_run(run_id(run)));
    let first = State::of(&ledger);
    (61..=120).for_each(|run| ledger.whole_run(run_id(run)));
    let mut both = State::of(&ledger);
    both.checkpoints.retain(|(size, _)| *size > first.head.size);
    both.checkpoints.splice(0..0, first.checkpoints.clone());

    let ledger = Ledger::sqlite();
    let held = ledger.append(&first, None).await;
    let said = store.archive(&ledger, &["--retain", "400d"]);
    assert_eq!(number(&said, "size"), first.size() as u64);
    let names = [
        "checkpoint",
        "tile/0/000",
        "tile/0/001.p/169",
        "tile/1/000.p/1",
        "tile/entries/000",
        "tile/entries/001.p/169",
    ];
    assert_eq!(store.keys(), names.map(object));
    let kept = store.of("retention", &object("tile/entries/000"));
    assert_eq!(kept.get("mode").and_then(Json::as_str), Some("COMPLIANCE"));
    let until = kept.get("until").and_then(Json::as_str).unwrap().to_owned();
    let days =
        wicketgate::domain::time::Timestamp::parse(&format!("{}T00:00:00.000Z", &until[..10]));
    let now = wicketgate::clock::Clock::now(&wicketgate::clock::SystemClock::new());
    let left = (days.unwrap().millis() - now.millis()) / 86_400_000;
    assert!((398..=400).contains(&left), "{until}");

    let at = format!("s3://logs/of/us/{}", chain());
    for place in ["s3://logs/of/us", "s3://logs/of/us/", &at] {
        let said = store.check(ledger.dir(), place);
        assert_eq!(number(&said, "entries"), first.size() as u64, "{place}");
    }
    // Nothing new, nothing written: not even a second version.
    assert_eq!(number(&store.archive(&ledger, &["--retain", "400d"]), "files"), 0);
    assert_eq!(store.of("versions", &object("checkpoint")).as_u64(), Some(1));

    ledger.append(&both, Some(held)).await;
    let said = store.archive(&ledger, &["--retain", "1d", "--retain-mode", "governance"]);
    assert_eq!(number(&said, "before"), first.size() as u64);
    assert_eq!(store.of("versions", &object("checkpoint")).as_u64(), Some(2));
    assert_eq!(store.of("versions", &object("tile/entries/000")).as_u64(), Some(1));
    let kept = store.of("retention", &object("tile/entries/001"));
    assert_eq!(kept.get("mode").and_then(Json::as_str), Some("GOVERNANCE"));
    assert!(!store.keys().contains(&object("tile/0/001.p/169")), "superseded");
    let said = store.check(ledger.dir(), "s3://logs/of/us");
    assert_eq!(number(&said, "entries"), both.size() as u64);
}

#[tokio::test]
async fn a_changed_or_missing_object_is_found_and_a_full_tile_is_never_written_over() {
    let Some(mut store) = Store::start() else { return };
    let ledger = Ledger::sqlite();
    ledger.append(&state(60), None).await;
    // Somebody else put bytes where a tile belongs, and the store shows them only when asked again.
    let tile = object("tile/0/000");
    store.asked(&format!(r#""do":"put","bucket":"logs","key":"{tile}","hex":"0707""#));
    for hidden in [false, true] {
        if hidden {
            store.of("hide", &tile);
        }
        let said = store.archive(&ledger, &[]);
        assert_eq!(said.code, 1, "{}", said.err);
        assert!(said.err.contains("`tile/0/000` is there with other bytes"), "{}", said.err);
        assert_eq!(store.of("get", &tile).as_str(), Some("0707"));
    }
    let ledger = Ledger::sqlite();
    ledger.append(&state(60), None).await;
    let said = store.run(
        &[words(&["archive", "--chain", ORIGIN, "--to", "s3://logs"]), ledger.named()].concat(),
        &[],
    );
    assert_eq!(said.code, 0, "{}", said.err);
    let at = "s3://logs";
    assert_eq!(store.check(ledger.dir(), at).code, 0);
    let of_chain = format!("{}/tile/", chain());
    let tiles: Vec<String> =
        store.keys().into_iter().filter(|name| name.starts_with(&of_chain)).collect();
    assert_eq!(tiles.len(), 5, "{tiles:?}");
    for name in tiles {
        let hex = store.of("get", &name).as_str().unwrap().to_owned();
        let end = hex.len() - 1;
        let other = if hex.ends_with('0') { "1" } else { "0" };
        let changed = format!("{}{other}", &hex[..end]);
        store.asked(&format!(r#""do":"put","bucket":"logs","key":"{name}","hex":"{changed}""#));
        let said = store.check(ledger.dir(), at);
        assert_eq!(said.code, 1, "{name}: {}", said.out);
        assert_eq!(said.damage().unwrap().0, "edit", "{name}");
        store.asked(&format!(r#""do":"put","bucket":"logs","key":"{name}","hex":"{hex}""#));
    }
    let name = format!("{}/tile/entries/000", chain());
    store.of("hide", &name);
    assert_eq!(store.check(ledger.dir(), at).damage().unwrap().0, "deletion");
    assert_eq!(store.check(ledger.dir(), at).code, 0);
}

#[tokio::test]
async fn the_refusal_of_an_object_store_is_reported_with_its_own_error_code() {
    let Some(store) = Store::start() else { return };
    let ledger = Ledger::sqlite();
    ledger.append(&state(2), None).await;
    let args =
        |to: &str| [words(&["archive", "--chain", ORIGIN, "--to", to]), ledger.named()].concat();
    let refused = |to: &str, change: &[(&str, &str)], code: i32, why: &str| {
        let said = store.run(&args(to), change);
        assert!(said.err.contains(why), "{why}: {}", said.err);
        assert_eq!(said.code, code, "{}", said.err);
        assert!(!said.err.contains("Signature=") && !said.err.contains("a secret"), "{}", said.err);
    };
    refused("s3://other", &[], 2, "404, NoSuchBucket");
    refused("s3://logs", &[("AWS_ACCESS_KEY_ID", "AKIAOTHER")], 2, "403, InvalidAccessKeyId");
    refused("s3://logs", &[("AWS_SECRET_ACCESS_KEY", "wrong")], 2, "403, SignatureDoesNotMatch");
    refused("s3://logs", &[("AWS_ACCESS_KEY_ID", "")], 64, "`AWS_ACCESS_KEY_ID` is not set");
    refused("s3://logs", &[("AWS_REGION", "")], 64, "name the region");
    refused("s3://logs", &[("AWS_ENDPOINT_URL_S3", "ftp://x")], 64, "a url must start with");
    refused("s3://Logs", &[], 64, "a bucket's name has");
    let nobody = wicketgate_support::ports::Port::claim();
    let url = format!("http://127.0.0.1:{}", nobody.number());
    refused("s3://logs", &[("AWS_ENDPOINT_URL_S3", &url)], 2, "the object store cannot be reached");
    let said = store.run(&words(&["verify", "--tiles", "s3://other"]), &[]);
    assert!(said.err.contains("NoSuchBucket"), "{}", said.err);
    assert_eq!(said.code, 2);
    let empty = store.run(&words(&["verify", "--tiles", "s3://logs/nothing"]), &[]);
    assert_eq!((empty.code, empty.err.contains("no chain to verify")), (2, true), "{}", empty.err);
    for (more, why) in [(["--retain", "400"], "as `400d`"), (["--retain", "0d"], "as `400d`")] {
        let said = store.archive(&ledger, &more);
        assert_eq!((said.code, said.err.contains(why)), (64, true), "{}", said.err);
    }
    let said =
        store.run(&[words(&["archive", "--out", "s3://logs"]), ledger.named()].concat(), &[]);
    assert_eq!((said.code, said.err.contains("`--to`")), (64, true), "{}", said.err);
}

#[tokio::test]
async fn a_store_that_dies_midway_stops_the_work_and_another_try_ends_it() {
    let Some(mut store) = Store::start() else { return };
    let ledger = Ledger::sqlite();
    ledger.append(&state(60), None).await;
    store.asked(r#""do":"die","after":3"#);
    let said = store.archive(&ledger, &[]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("the object store cannot be reached"), "{}", said.err);
    assert!(said.err.contains("s3://logs/of/us/"), "{}", said.err);

    let mut store = Store::start().unwrap();
    // An earlier try was stopped before the checkpoint: its tiles are there and are right.
    assert_eq!(store.archive(&ledger, &[]).code, 0);
    let name = object("tile/entries/000");
    let before = store.of("get", &name);
    store.of("hide", &object("checkpoint"));
    let said = store.archive(&ledger, &[]);
    assert_eq!(number(&said, "files"), 0);
    assert_eq!(store.of("get", &name), before);
    assert_eq!(store.check(ledger.dir(), "s3://logs/of/us").code, 0);
}
