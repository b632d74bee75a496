//! `fleet.timestamp`, from the configuration to the auditor: a stock authority, and all kinds of liars.

use std::process::Command;

use serde_json::json;
use wicketgate::crypto::tsp;
use wicketgate::domain::digest::Digest;

use crate::auditor::{auditor, export, trusts, verify};
use crate::authority::{Authority, Made, NONCE, USUAL};
use crate::fleet::{FLEET, anchor, calls_through, run, sqlite};
use crate::sidecar::Estate;
use crate::tool::Tool;
use crate::tsa::{Reply, TsaServer};

/// A gate that made one run and stopped, and the run.
async fn after_a_run(tool: &Tool) -> (Estate, String) {
    let estate = sqlite(tool);
    let mut gate = estate.serve().await;
    let agent = gate.open().await;
    agent.call("work.do", "a", "{}").await.unwrap();
    agent.seal().await.unwrap();
    gate.stop().await;
    auditor(&estate, &[&estate]);
    (estate, agent.run)
}

/// Has heads stamped there, by whoever leads to the certificate of this authority.
fn stamped_by(estate: &Estate, url: &str, authority: &Authority) {
    let ca = authority.path().join("ca.pem");
    estate.configure(|config| config["fleet"]["timestamp"] = json!({"url": url, "ca": ca}));
}

/// Trusts this authority.
fn trusting(estate: &Estate, authority: &Authority) {
    let ca = authority.path().join("ca.pem");
    trusts(estate, &[estate], &format!("tsa-ca {}\n", ca.display()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_that_an_authority_stamped_makes_a_bundle_of_level_4_that_stock_openssl_accepts() {
    let tool = Tool::start().await;
    let (estate, run_id) = after_a_run(&tool).await;
    let authority = std::sync::Arc::new(Authority::new(USUAL));
    let at_work = std::sync::Arc::clone(&authority);
    let tsa = TsaServer::open(move |question| Reply::token(at_work.answer(question)));
    stamped_by(&estate, &tsa.url(), &authority);
    let done = anchor(&estate).await.ends(0).json();
    assert_eq!((&done["enough"], &done["failed"]), (&json!(true), &json!([])), "{done}");
    assert!(done["stamped"].is_string(), "{done}");
    // A round with nothing new asks nobody.
    anchor(&estate).await.ends(0).says("\"shown\":false");
    assert_eq!(tsa.asked(), 1);
    export(&estate, &["--run", &run_id], "evidence").await.ends(0);
    trusting(&estate, &authority);
    let said = verify(&estate, &["--level", "4"], "evidence").await.ends(0);
    let said = said.says("VALID, level L4").says("VALID         W2 ");
    said.says("1 stamp by CN=test tsa");
    // The same with stock OpenSSL: the three lines of the head, the token, the authority's certificate.
    let head = std::fs::read_to_string(estate.path("evidence/anchors/0.txt")).unwrap();
    let body: String = head.split_inclusive('\n').take(3).collect();
    assert!(body.starts_with(&format!("{FLEET}\n")), "{body}");
    let openssl = |body: &str| {
        std::fs::write(authority.path().join("body"), body).unwrap();
        let token = estate.path("evidence/anchors/0.tsr");
        let check = Command::new("openssl")
            .args(["ts", "-verify", "-data", "body", "-CAfile", "ca.pem", "-in"])
            .arg(token)
            .current_dir(authority.path())
            .output()
            .unwrap();
        check.status.success()
    };
    assert!(openssl(&body), "stock openssl refuses the token");
    assert!(!openssl(&body.replace("/fleet", "/other")), "openssl says yes to anything");
    // An auditor who asks for no stamp is told that there is one; one who trusts somebody else refuses.
    trusts(&estate, &[&estate], "");
    verify(&estate, &["--level", "4"], "evidence").await.ends(2).says("the stamps in it");
    let stranger = Authority::new(USUAL);
    trusting(&estate, &stranger);
    verify(&estate, &[], "evidence").await.ends(1).says("INVALID       W2 ");
    // A gate that runs on writes down what it saw, and says in its own log which token that was.
    let mut gate = estate.serve().await;
    calls_through(&gate, &["b"]).await;
    gate.stop().await;
    let slot = estate.origin().await;
    let anew = anchor(&estate).await.ends(0).json();
    assert_eq!((&anew["recorded"][0]["log"], tsa.asked()), (&json!(slot), 2), "{anew}");
}

/// The question's imprint.
fn imprint(question: &[u8]) -> Digest {
    let at = question.windows(2).position(|two| two == [0x04, 0x20]).unwrap() + 2;
    Digest::from_bytes(question[at..at + 32].try_into().unwrap())
}

type Answer = Box<dyn Fn(&[u8]) -> Option<Reply> + Send>;

fn token(make: impl Fn(&[u8]) -> Vec<u8> + Send + 'static) -> Answer {
    Box::new(move |question| Reply::token(make(question)))
}

fn plain(status: &'static str, kind: &'static str, body: &'static [u8]) -> Answer {
    Box::new(move |_| Some(Reply { status, kind, body: body.to_vec() }))
}

/// Everything an authority can do wrong: the answer, whose certificate was trusted, what is said of it.
fn lies() -> Vec<(Answer, Authority, &'static str)> {
    let usual = || Authority::new(USUAL);
    let made = |valid| Authority::new(Made { valid, ..USUAL });
    let reply = "application/timestamp-reply";
    let mut lies: Vec<(Answer, Authority, &'static str)> = Vec::new();
    // It keeps a clock and a key, and stamps what it wants.
    let signer = usual();
    let ca = usual_copy(&signer);
    let other = move |_: &[u8]| signer.answer(&tsp::request(&Digest::of(&[b"x"]), &NONCE).unwrap());
    lies.push((token(other), ca, "the imprint is of something else"));
    let signer = usual();
    let ca = usual_copy(&signer);
    let again = move |q: &[u8]| signer.answer(&tsp::request(&imprint(q), &NONCE).unwrap());
    lies.push((token(again), ca, "the nonce is not the one that was sent"));
    let expired = made(("20200101000000Z", "20210101000000Z"));
    let ca = usual_copy(&expired);
    lies.push((token(move |q| expired.answer(q)), ca, "Expired"));
    let early = made(("20480101000000Z", "20490101000000Z"));
    let ca = usual_copy(&early);
    lies.push((token(move |q| early.answer(q)), ca, "NotValidYet"));
    let foreign = usual();
    lies.push((token(move |q| foreign.answer(q)), usual(), "the authority's certificate"));
    // Of a digest that a stock authority does not know it makes no token, and says so.
    let signer = usual();
    let ca = usual_copy(&signer);
    let refused = move |question: &[u8]| {
        let mut unknown = question.to_vec();
        let sha256 = [0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 1];
        let oid = unknown.windows(9).position(|nine| nine == sha256).unwrap();
        unknown[oid + 8] = 7;
        signer.answer(&unknown)
    };
    lies.push((token(refused), ca, "refused with status 2"));
    lies.push((plain("200 OK", reply, b"no token at all"), usual(), "the response cannot be read"));
    lies.push((plain("200 OK", reply, b""), usual(), "the response cannot be read"));
    lies.push((
        plain("200 OK", "text/html", b"<p>sign in"),
        usual(),
        "answered 200 with `text/html`",
    ));
    lies.push((plain("503 Busy", "text/plain", b""), usual(), "answered 503 with `text/plain`"));
    lies.push((plain("302 Found", reply, b""), usual(), "answered 302"));
    lies.push((Box::new(|_| None), usual(), "cannot be reached: no answer in time"));
    lies
}

/// The same authority once more, for whoever only reads its certificate.
fn usual_copy(of: &Authority) -> Authority {
    let dir = tempfile::tempdir().unwrap();
    std::fs::copy(of.path().join("ca.pem"), dir.path().join("ca.pem")).unwrap();
    Authority { dir }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_authority_that_lies_is_refused_and_the_round_says_why_and_anchors_nothing() {
    let tool = Tool::start().await;
    let (estate, run_id) = after_a_run(&tool).await;
    estate.configure(|config| config["fleet"]["anchor_file"] = json!("anchor"));
    for (answer, ca, why) in lies() {
        let tsa = TsaServer::open(answer);
        stamped_by(&estate, &tsa.url(), &ca);
        let round = anchor(&estate).await.ends(2).says(why);
        assert!(round.err.lines().any(|l| l.contains("warning: ") && l.contains(why)), "{round:?}");
        assert!(
            round.err.contains("the head is not anchored") && round.err.contains("not stamped")
        );
        let done = round.json();
        assert_eq!((&done["enough"], done["stamped"].as_str()), (&json!(false), None), "{done}");
        assert_eq!(tsa.asked(), 1, "{why}");
        assert!(
            !estate.path("anchor").exists(),
            "a head that is not anchored was published: {why}"
        );
    }
    // Somebody who is not there at all.
    let gone = TsaServer::open(|_| None).url();
    let honest = std::sync::Arc::new(Authority::new(USUAL));
    stamped_by(&estate, &gone, &honest);
    anchor(&estate).await.ends(2).says("the time stamping authority cannot be reached");
    // Nothing of that is in a bundle, and who asks for a stamp is told that there is none.
    export(&estate, &["--run", &run_id], "unstamped").await.ends(0);
    assert!(!estate.path("unstamped/anchors").exists(), "heads of which nobody says anything");
    trusting(&estate, &honest);
    verify(&estate, &[], "unstamped").await.ends(2).says("UNVERIFIABLE  W2 ");
    // The next round asks again, and an honest authority makes up for all of it.
    let at_work = std::sync::Arc::clone(&honest);
    let tsa = TsaServer::open(move |question| Reply::token(at_work.answer(question)));
    stamped_by(&estate, &tsa.url(), &honest);
    anchor(&estate).await.ends(0).says("\"enough\":true");
    export(&estate, &["--run", &run_id], "stamped").await.ends(0);
    verify(&estate, &["--level", "4"], "stamped").await.ends(0);
    let verified = run(&estate, &["ledger", "verify", "--config", "wicketgate.yaml"]).await;
    assert_ne!(verified.code, 1, "{verified:?}");
}
