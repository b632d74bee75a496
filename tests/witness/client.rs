//! The log's side: what it makes of an honest witness, one that is ahead, a fork, and one that lies.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::Duration;

use wicketgate::clock::{Clock, SystemClock};
use wicketgate::crypto::cosign::cosign;
use wicketgate::crypto::note::{Checkpoint, VerifierKey};
use wicketgate::domain::time::Timestamp;
use wicketgate::witness::client::{Cosignature, Error, Head, ProofError, WitnessClient};

use crate::forged::key;
use crate::process::{Log, NAME, Running, WitnessFiles};

/// A clock that stands still.
struct At(i64);

impl Clock for At {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0 * 1000)
    }
    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

async fn submit_to(
    url: &str,
    key: &VerifierKey,
    log: &Log,
    size: usize,
    old: u64,
    clock: &dyn Clock,
) -> Result<Cosignature, Error> {
    let witness = WitnessClient::new(url, key.clone(), None, 300).unwrap();
    let (note, vkey) = (log.note(size), log.vkey());
    let leaves = Leaves(log.leaves[..size].to_vec());
    let head = Head { note: &note, log: &vkey, old, proofs: &leaves };
    witness.submit(&head, clock).await
}

struct Leaves(Vec<wicketgate::domain::digest::Digest>);

#[async_trait::async_trait]
impl wicketgate::witness::client::Consistency for Leaves {
    async fn proof(&self, old: u64) -> Result<Vec<wicketgate::domain::digest::Digest>, ProofError> {
        self.0.as_slice().proof(old).await
    }
}

async fn submit(
    running: &Running,
    files: &WitnessFiles,
    log: &Log,
    size: usize,
    old: u64,
) -> Result<Cosignature, Error> {
    submit_to(&running.url(), &files.vkey, log, size, old, &SystemClock::new()).await
}

/// W-01.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conflict_is_followed_with_the_right_proof() {
    let log = Log::new("log.example/a", 20);
    let files = WitnessFiles::new(&[&log]);
    let running = files.open();
    let witness = WitnessClient::new(&running.url(), files.vkey.clone(), None, 300).unwrap();
    assert_eq!(witness.newest(&log.vkey()).await, Ok(None));
    for (size, hint) in [(3, 0), (7, 0), (7, 3), (11, 7), (12, 5), (20, 20)] {
        let cosigned = submit(&running, &files, &log, size, hint).await.unwrap();
        let note = format!("{}{}", log.note(size), cosigned.line);
        let keys = [log.vkey(), files.vkey.clone()];
        assert_eq!(Checkpoint::open_with(&note, &keys).unwrap().1.len(), 2);
        let (newest, _) = witness.newest(&log.vkey()).await.unwrap().unwrap();
        assert_eq!(newest, log.head(size));
    }
}

/// W-02.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_witness_that_is_ahead_of_us_is_a_rollback_and_fatal() {
    let log = Log::new("log.example/a", 9);
    let files = WitnessFiles::new(&[&log]);
    let running = files.open();
    submit(&running, &files, &log, 9, 0).await.unwrap();
    for hint in [0, 4, 9] {
        let error = submit(&running, &files, &log, 4, hint).await.unwrap_err();
        assert!(error.is_fatal(), "{error}");
        let Error::Ahead { size: 9, ours: 4, proof: Some(proof), .. } = &error else {
            panic!("{error:?}")
        };
        // The witness shows what our own key signed.
        assert_eq!(Checkpoint::open(proof, &log.key.public()).unwrap(), log.head(9));
        assert!(error.to_string().starts_with("rollback: witness"), "{error}");
    }
}

/// W-03.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_that_tells_two_stories_is_refused_and_knows_it() {
    let log = Log::new("log.example/a", 9);
    let files = WitnessFiles::new(&[&log]);
    let running = files.open();
    submit(&running, &files, &log, 5, 0).await.unwrap();
    for (fork, size, hint) in [
        (log.forked(2, "fork"), 9, 5),
        (log.forked(2, "fork"), 9, 0),
        (log.forked(4, "fork"), 5, 5),
        (log.forked(4, "fork"), 5, 0),
    ] {
        let error = submit(&running, &files, &fork, size, hint).await.unwrap_err();
        assert!(matches!(error, Error::Forked { size: 5, proof: Some(_), .. }), "{error:?}");
        assert!(error.is_fatal());
    }
    // What it saw first stays what it cosigns.
    submit(&running, &files, &log, 9, 5).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_witness_that_refuses_or_is_not_there_stops_nothing() {
    let log = Log::new("log.example/a", 2);
    let files = WitnessFiles::new(&[&Log::new("log.example/other", 1)]);
    let running = files.open();
    let error = submit(&running, &files, &log, 2, 0).await.unwrap_err();
    assert!(matches!(error, Error::Refused { status: 404, .. }), "{error:?}");
    assert!(!error.is_fatal());
    let url = running.url();
    drop(running);
    let gone = submit_to(&url, &files.vkey, &log, 2, 0, &SystemClock::new()).await.unwrap_err();
    assert!(matches!(gone, Error::Unreachable { .. }), "{gone:?}");
    for (url, key) in [
        ("ftp://witness.example", files.vkey.clone()),
        ("http://witness.example/?a=b", files.vkey.clone()),
        ("http://witness.example", log.vkey()),
    ] {
        assert!(
            matches!(WitnessClient::new(url, key, None, 300), Err(Error::Settings { .. })),
            "{url}"
        );
    }
}

/// A server that gives each connection the next of these answers, and ends.
fn liar(answers: Vec<String>) -> (String, std::thread::JoinHandle<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let serving = std::thread::spawn(move || {
        let mut served = 0;
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            let mut byte = [0];
            // A request ends with its checkpoint's signature line, or with its head if it has no body.
            while stream.read(&mut byte).unwrap() == 1 {
                request.push(byte[0]);
                let text = String::from_utf8_lossy(&request);
                let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
                let length = head
                    .to_lowercase()
                    .split_once("content-length: ")
                    .map_or(0, |(_, n)| n.split("\r\n").next().unwrap().parse::<usize>().unwrap());
                if body.len() >= length {
                    break;
                }
            }
            let _ = stream.write_all(answer.as_bytes());
            served += 1;
        }
        served
    });
    (url, serving)
}

fn answer(status: &str, kind: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_cosignature_of_this_head_and_moment_is_not_believed() {
    let log = Log::new("log.example/a", 4);
    let vkey = VerifierKey::witness(NAME, key(1).public());
    let line = |name: &str, n: u8, time: u64, size: usize| {
        format!("{}\n", cosign(name, &key(n), time, &log.head(size)))
    };
    let good = line(NAME, 1, 1000, 4);
    let ask = async |body: String| {
        let (url, serving) = liar(vec![answer("200 OK", "text/plain", &body)]);
        let told = submit_to(&url, &vkey, &log, 4, 0, &At(1000)).await;
        assert_eq!(serving.join().unwrap(), 1);
        told
    };
    let believed = ask(good.clone()).await.unwrap();
    assert_eq!((believed.time, believed.line.as_str()), (1000, good.as_str()));
    // Lines of others are ignored.
    let beside = format!("{}{good}", line("other.example", 2, 1000, 4));
    assert_eq!(ask(beside).await.unwrap().line, good);
    for (body, why) in [
        (line(NAME, 1, 1000, 3), "does not verify"),
        (line(NAME, 1, 1301, 4), "more than 300 s apart"),
        (line(NAME, 1, 699, 4), "more than 300 s apart"),
        (line(NAME, 1, u64::MAX, 4), "does not verify"),
        (line("other.example", 1, 1000, 4), "no signature"),
        (format!("{good}{good}"), "two signatures"),
        (good.trim_end().to_owned(), "no final newline"),
        (String::new(), "no final newline"),
        (format!("{good}\n"), "signature line"),
        ("ok\n".to_owned(), "signature line"),
    ] {
        let error = ask(body.clone()).await.unwrap_err();
        let Error::NotCosigned { why: said, .. } = &error else { panic!("{error:?}: {body}") };
        assert!(said.contains(why), "{said}: {body}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_witness_that_contradicts_itself_is_refused_and_no_reason_to_stop_writing() {
    let log = Log::new("log.example/a", 4);
    let vkey = VerifierKey::witness(NAME, key(1).public());
    let conflict = |size: &str| answer("409 Conflict", "text/x.tlog.size", size);
    let rounds = [
        // The size it names is the one we said.
        vec![conflict("2\n"), conflict("2\n")],
        vec![answer("409 Conflict", "text/plain", "2\n")],
        vec![conflict("02\n")],
        vec![conflict("2")],
        vec![answer("302 Found", "text/plain", "")],
        vec![answer("500 Oops", "text/plain", "\u{1b}[2Jno")],
        vec![answer("422 No", "text/plain", "no")],
        // Round and round.
        vec![conflict("1\n"), conflict("2\n"), conflict("3\n"), conflict("1\n")],
    ];
    for answers in rounds {
        let count = answers.len();
        let (url, serving) = liar(answers);
        let error = submit_to(&url, &vkey, &log, 4, 0, &At(1000)).await.unwrap_err();
        assert!(!error.is_fatal(), "{error:?}");
        assert!(!error.to_string().contains('\u{1b}'));
        assert_eq!(serving.join().unwrap(), count, "{error:?}");
    }
    // It says it knows more, and shows nothing: still fatal, and said to be its word only.
    let (url, serving) = liar(vec![conflict("9\n"), answer("404 Not Found", "text/plain", "")]);
    let error = submit_to(&url, &vkey, &log, 4, 0, &At(1000)).await.unwrap_err();
    assert!(matches!(error, Error::Ahead { size: 9, proof: None, .. }), "{error:?}");
    assert_eq!(serving.join().unwrap(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_without_end_is_cut_off() {
    let log = Log::new("log.example/a", 4);
    let vkey = VerifierKey::witness(NAME, key(1).public());
    let (url, serving) = liar(vec![answer("200 OK", "text/plain", &"a".repeat(100_000))]);
    let error = submit_to(&url, &vkey, &log, 4, 0, &At(1000)).await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    serving.join().unwrap();
}
