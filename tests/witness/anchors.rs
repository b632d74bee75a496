//! What a verifier makes of a fleet log, its witnesses and its stamps.

use crate::forged::Draft;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use wicketgate::crypto::cosign::cosign;
use wicketgate::crypto::keys::SecretKey;
use wicketgate::crypto::merkle::{Frontier, Prover};
use wicketgate::crypto::note::{Checkpoint, VerifierKey};
use wicketgate::crypto::{consistency::consistency_proof, merkle::root};
use wicketgate::domain::digest::Digest;
use wicketgate::domain::json::Json;
use wicketgate::domain::time::Timestamp;
use wicketgate::evidence::bundle::Files;
use wicketgate::evidence::trust::{PinnedHead, RevokedTrust, Trust, Use};
use wicketgate::evidence::verify::{Outcome, Report, verify_files};
use wicketgate::record::{Entry, Kind};

use crate::bundle::{self, ENROLMENT, EVIDENCE, export_of, resign, two_runs};
use crate::forged::{ORIGIN, TestLedger, key, run_id};
use crate::stamps::{Authority, USUAL};

const FLEET: &str = "wicketgate.dev/default/fleet";
const FLEET_KEY: u8 = 70;
/// Seconds: the ledger of the tests are written in the first of them.
const BASE: i64 = 1_795_000_000;

fn witness(n: u8) -> VerifierKey {
    VerifierKey::witness(&format!("witness.example/{n}"), key(n).public())
}

type Change = dyn Fn(&Case, &mut Files);

/// A bundle and the fleet log beside it.
struct Case {
    ledger: TestLedger,
    fleet: TestLedger,
    trust: Trust,
    /// Cosignatures on the fleet head: witness, key, seconds after the beginning.
    cosigned: Vec<(u8, u8, i64)>,
    /// Changes the bundle before it is signed.
    change: Box<Change>,
}

fn enrolled(chain: &TestLedger, log: &str, enrolment: &SecretKey) -> Draft {
    let key = STANDARD.encode(enrolment.public().to_bytes());
    let (chain, log) = (Json::from(chain.chain.to_string()), Json::from(log));
    let data =
        [("chain", chain), ("log", log), ("slot", "local/0".into()), ("enrolment_key", key.into())];
    Draft::of(Kind::ChainEnrolled, Json::object(data))
}

fn recorded(chain: &TestLedger, size: u64, root: Digest) -> Draft {
    let data = [
        ("chain", Json::from(chain.chain.to_string())),
        ("log", ORIGIN.into()),
        ("size", size.into()),
        ("root", root.hex().into()),
        ("epoch", 1_u64.into()),
    ];
    Draft::of(Kind::ChainCheckpoint, Json::object(data))
}

fn head_of(ledger: &TestLedger, size: usize) -> Checkpoint {
    let leaves: Vec<Digest> = ledger.rows[..size].iter().map(|row| row.leaf).collect();
    Checkpoint { origin: ledger.origin.clone(), size: size as u64, root: root(&leaves) }
}

impl Case {
    /// Two runs, enrolled, their head recorded, the fleet log cosigned by two witnesses.
    fn new() -> Self {
        Self::of(two_runs())
    }

    fn of(ledger: TestLedger) -> Self {
        let mut fleet = TestLedger::bare(FLEET, 9, key(ENROLMENT));
        fleet.add(enrolled(&ledger, ORIGIN, &key(ENROLMENT)));
        let head = head_of(&ledger, ledger.rows.len());
        fleet.add(recorded(&ledger, head.size, head.root));
        let trust = Trust {
            fleet: vec![VerifierKey::log(FLEET, key(FLEET_KEY).public())],
            witnesses: vec![witness(1), witness(2), witness(3)],
            quorum: Some(2),
            ..bundle::trust()
        };
        let cosigned = vec![(1, 1, 100), (2, 2, 60)];
        Self { ledger, fleet, trust, cosigned, change: Box::new(|_, _| {}) }
    }

    fn fleet_head(&self) -> Checkpoint {
        head_of(&self.fleet, self.fleet.rows.len())
    }

    /// A fleet head with these cosignatures.
    fn note(&self, head: &Checkpoint, cosigned: &[(u8, u8, i64)]) -> String {
        let sign = |(name, n, after): &(u8, u8, i64)| {
            let time = u64::try_from(BASE + after).unwrap();
            format!("{}\n", cosign(&format!("witness.example/{name}"), &key(*n), time, head))
        };
        let lines: String = cosigned.iter().map(sign).collect();
        format!("{}{lines}", head.sign(&key(FLEET_KEY)))
    }

    fn files(&self) -> Files {
        let mut files = export_of(&self.ledger, run_id(1), &[]);
        let head = self.fleet_head();
        files.put("fleet/checkpoint.txt", self.note(&head, &self.cosigned));
        let mut jsonl = Vec::new();
        for row in &self.fleet.rows {
            jsonl.extend_from_slice(&row.body);
            jsonl.push(b'\n');
        }
        files.put("fleet/entries.jsonl", jsonl);
        let leaves: Vec<Digest> = self.fleet.rows.iter().map(|row| row.leaf).collect();
        let prover = Prover::new(leaves);
        let proofs: Vec<Json> = (0..self.fleet.rows.len())
            .map(|seq| {
                let path = hexes(&prover.inclusion_proof(seq).unwrap());
                Json::object([("seq", Json::from(seq as u64)), ("path", path)])
            })
            .collect();
        let inclusion =
            Json::object([("v", Json::from("wicketgate/inclusion/1")), ("proofs", proofs.into())]);
        files.put("fleet/inclusion.json", text(&inclusion));
        (self.change)(self, &mut files);
        resign(&mut files, &key(EVIDENCE));
        files
    }

    /// The report, without the two checks that hold what the exporter wrote about a bundle of its own.
    fn report(&self) -> Report {
        let mut report = verify_files(&self.files(), &self.trust);
        report.checks.retain(|check| !["B4", "V1"].contains(&check.id));
        report
    }
}

fn hexes(path: &[Digest]) -> Json {
    path.iter().map(|hash| Json::from(hash.hex())).collect::<Vec<_>>().into()
}

fn text(json: &Json) -> String {
    wicketgate::domain::canonical::text(json)
}

fn consistency(ledger: &TestLedger, old: usize, new: usize) -> String {
    let leaves: Vec<Digest> = ledger.rows[..new].iter().map(|row| row.leaf).collect();
    let path = hexes(&consistency_proof(&leaves, old).unwrap());
    let proof = Json::object([("old", Json::from(old as u64)), ("path", path)]);
    text(&Json::object([
        ("v", Json::from("wicketgate/consistency/1")),
        ("proofs", vec![proof].into()),
    ]))
}

fn valid(report: &Report, id: &str, detail: &str) {
    match report.outcome(id) {
        Some(Outcome::Valid(said)) if said.contains(detail) => {}
        _ => panic!("{id} is not VALID with `{detail}`:\n{}", report.to_text()),
    }
}

fn invalid(report: &Report, id: &str, why: &str) {
    match report.outcome(id) {
        Some(Outcome::Invalid(said)) if said.contains(why) => {}
        _ => panic!("{id} is not INVALID for `{why}`:\n{}", report.to_text()),
    }
    assert_eq!((report.exit_code(), report.level()), (1, None));
}

fn unverifiable(report: &Report, id: &str, missing: &str) {
    match report.outcome(id) {
        Some(Outcome::Unverifiable(said)) if said.contains(missing) => {}
        _ => panic!("{id} is not UNVERIFIABLE for `{missing}`:\n{}", report.to_text()),
    }
    assert_eq!(report.exit_code(), 2, "{}", report.to_text());
    assert!(report.level() < Some(3), "{}", report.to_text());
}

#[test]
fn a_chain_in_a_fleet_log_that_a_quorum_cosigned_is_witnessed() {
    let report = Case::new().report();
    valid(&report, "F1", "entries of `wicketgate.dev/default/fleet`");
    valid(&report, "W1", "2 of 3 witnesses, quorum 2");
    // The quorum had seen it when its second witness had.
    let by = Timestamp::from_millis((BASE + 100) * 1000);
    valid(&report, "C1", &format!("entries by {by}"));
    assert_eq!((report.exit_code(), report.level()), (0, Some(3)), "{}", report.to_text());
    assert!(!report.not_proven.iter().any(|item| item.starts_with("the time:")));
}

#[test]
fn what_the_trust_file_does_not_ask_for_is_not_proven_and_no_failure() {
    let mut case = Case::new();
    case.trust = bundle::trust();
    let report = case.report();
    assert_eq!((report.exit_code(), report.level()), (0, Some(1)), "{}", report.to_text());
    assert!(report.outcome("F1").is_none() && report.outcome("W1").is_none());
    assert!(report.not_proven.iter().any(|item| item.contains("names no fleet key")));
    // Witnesses without the log they are to have seen are a trust file that cannot be followed.
    case.trust.witnesses = vec![witness(1)];
    unverifiable(&case.report(), "W1", "names no fleet key");
}

#[test]
fn missing_proofs_that_the_auditor_requires_are_unverifiable() {
    let mut case = Case::new();
    case.change = Box::new(|_, files| files.0.retain(|name, _| !name.starts_with("fleet/")));
    let report = case.report();
    unverifiable(&report, "F1", "no fleet log");
    unverifiable(&report, "W1", "does not hold");
    // C-05.
    let mut case = Case::new();
    case.cosigned.clear();
    unverifiable(&case.report(), "W1", "0 of 3 witnesses, quorum 2");
    case.cosigned = vec![(1, 1, 60)];
    unverifiable(&case.report(), "W1", "1 of 3 witnesses");
    case.trust.quorum = Some(1);
    assert_eq!(case.report().level(), Some(3));
    case.trust.quorum = None;
    case.cosigned = vec![(1, 1, 60), (2, 2, 60)];
    unverifiable(&case.report(), "W1", "2 of 3 witnesses, quorum 3");
}

/// W-04.
#[test]
fn one_key_under_two_names_is_one_witness() {
    let mut case = Case::new();
    let twin = VerifierKey::witness("witness.example/2", key(1).public());
    case.trust.witnesses = vec![witness(1), twin];
    case.cosigned = vec![(1, 1, 60), (2, 1, 61)];
    unverifiable(&case.report(), "W1", "1 of 1 witnesses, quorum 2");
    case.trust.quorum = None;
    valid(&case.report(), "W1", "1 of 1 witnesses, quorum 1");
}

/// W-05.
#[test]
fn a_cosignature_from_before_what_it_vouches_for_or_from_the_future_does_not_count() {
    let mut case = Case::new();
    case.cosigned = vec![(1, 1, 60), (2, 2, -301)];
    unverifiable(&case.report(), "W1", "1 of 3 witnesses, quorum 2; 1 not counted");
    case.cosigned = vec![(1, 1, 60), (2, 2, -299)];
    assert_eq!(case.report().level(), Some(3));
    case.trust.now = Some(Timestamp::from_millis((BASE + 1000) * 1000));
    case.cosigned = vec![(1, 1, 60), (2, 2, 1301)];
    unverifiable(&case.report(), "W1", "1 not counted");
    case.cosigned = vec![(1, 1, 60), (2, 2, 1299)];
    assert_eq!(case.report().level(), Some(3));
    case.trust.skew_ms = Some(10_000);
    unverifiable(&case.report(), "W1", "1 not counted");
}

/// C-06 and C-07.
#[test]
fn a_forged_cosignature_and_one_of_an_older_head_are_refused() {
    let mut case = Case::new();
    case.cosigned = vec![(1, 1, 60), (2, 2, 60), (3, 4, 60)];
    // By a stranger's key under a name that is known: another key, so it is ignored.
    assert_eq!(case.report().level(), Some(3));
    case.change = Box::new(|_, files| {
        bundle::replace(
            files,
            "fleet/checkpoint.txt",
            "\u{2014} witness.example/2 ",
            "\u{2014} witness.example/3 ",
        );
    });
    assert_eq!(case.report().outcome("W1").unwrap().word(), "UNVERIFIABLE");
    let mut case = Case::new();
    case.change = Box::new(|case, files| {
        let head = case.fleet_head();
        let older = head_of(&case.fleet, case.fleet.rows.len() - 1);
        let pasted = case.note(&older, &[(2, 2, 60)]);
        let pasted = pasted.lines().last().unwrap();
        files.put("fleet/checkpoint.txt", format!("{}{pasted}\n", case.note(&head, &[(1, 1, 60)])));
    });
    invalid(&case.report(), "W1", "does not verify");
    let mut case = Case::new();
    case.cosigned = vec![(1, 1, 60), (1, 1, 61), (2, 2, 60)];
    invalid(&case.report(), "W1", "two signatures by one key");
}

#[test]
fn a_fleet_log_of_another_key_name_or_entry_is_refused() {
    let mut case = Case::new();
    case.trust.fleet = vec![VerifierKey::log(FLEET, key(71).public())];
    invalid(&case.report(), "F1", "no signature by key");
    case.trust.fleet =
        vec![VerifierKey::log("wicketgate.dev/other/fleet", key(FLEET_KEY).public())];
    invalid(&case.report(), "F1", "no signature by key");
    let mut case = Case::new();
    case.change = Box::new(|_, files| {
        bundle::replace(
            files,
            "fleet/entries.jsonl",
            "\"slot\":\"local/0\"",
            "\"slot\":\"local/1\"",
        );
    });
    invalid(&case.report(), "F1", "");
    let mut case = Case::new();
    case.change = Box::new(|_, files| {
        files.0.remove("fleet/inclusion.json");
    });
    invalid(&case.report(), "F1", "is not proven to be in it");
}

#[test]
fn a_chain_that_is_not_enrolled_or_enrolled_as_another_is_not_vouched_for() {
    let anew = |add: &dyn Fn(&TestLedger, &mut TestLedger)| {
        let mut case = Case::new();
        let head = head_of(&case.ledger, case.ledger.rows.len());
        case.fleet = TestLedger::bare(FLEET, 9, key(ENROLMENT));
        add(&case.ledger, &mut case.fleet);
        case.fleet.add(recorded(&case.ledger, head.size, head.root));
        case.report()
    };
    unverifiable(&anew(&|_, _| {}), "F1", "is not enrolled in the fleet log");
    let other_key = anew(&|ledger, fleet| fleet.add(enrolled(ledger, ORIGIN, &key(99))));
    invalid(&other_key, "F1", "enrolled with another enrolment key");
    let other_log =
        anew(&|ledger, fleet| fleet.add(enrolled(ledger, "elsewhere", &key(ENROLMENT))));
    invalid(&other_log, "F1", "two chains are enrolled");
    // A hidden second chain under the same name.
    let hidden = anew(&|ledger, fleet| {
        fleet.add(enrolled(ledger, ORIGIN, &key(ENROLMENT)));
        let twin = TestLedger::new(2, key(ENROLMENT));
        fleet.add(enrolled(&twin, ORIGIN, &key(ENROLMENT)));
    });
    invalid(&hidden, "F1", "two chains are enrolled");
}

#[test]
fn a_chain_whose_recorded_heads_are_not_its_own_is_a_fork() {
    let with = |heads: &[(usize, Option<Digest>)], proof: bool| {
        let mut case = Case::new();
        case.fleet = TestLedger::bare(FLEET, 9, key(ENROLMENT));
        case.fleet.add(enrolled(&case.ledger, ORIGIN, &key(ENROLMENT)));
        for (size, root) in heads {
            let root = root.unwrap_or(head_of(&case.ledger, *size).root);
            case.fleet.add(recorded(&case.ledger, *size as u64, root));
        }
        if proof {
            let old = heads[0].0;
            case.change = Box::new(move |case, files| {
                let proof = consistency(&case.ledger, old, case.ledger.rows.len());
                files.put("ledger/consistency.json", proof);
            });
        }
        case.report()
    };
    let size = two_runs().rows.len();
    let forged = Some(Digest::of(&[b"forged"]));
    assert_eq!(with(&[(size - 1, None)], true).level(), Some(3));
    invalid(&with(&[(size, forged)], false), "F1", "that is not this log's");
    invalid(&with(&[(size - 1, forged)], true), "F1", "that is not this log's");
    invalid(&with(&[(size - 1, None), (size - 1, forged)], true), "F1", "cut or rewritten");
    invalid(&with(&[(size, None), (size - 1, None)], false), "F1", "cut or rewritten");
    // Heads that nothing ties to the bundle, or that end before its entries, vouch for nothing.
    unverifiable(&with(&[(size - 1, None)], false), "F1", "no head of");
    unverifiable(&with(&[(6, None)], true), "F1", "no head of");
}

#[test]
fn two_stories_of_the_fleet_log_are_refused() {
    let anchored = |size: usize, forged: bool, proof: Option<(usize, usize)>| {
        let mut case = Case::new();
        case.change = Box::new(move |case, files| {
            let mut head = head_of(&case.fleet, size);
            if forged {
                head.root = Digest::of(&[b"forged"]);
            }
            files.put("anchors/0.txt", case.note(&head, &[(1, 1, 50), (2, 2, 51)]));
            if let Some((old, new)) = proof {
                let proof = consistency(&case.fleet, old, new);
                files.put("anchors/0.consistency.json", proof);
            }
        });
        case.report()
    };
    let size = Case::new().fleet.rows.len();
    let older = anchored(size - 1, false, Some((size - 1, size)));
    assert_eq!(older.level(), Some(3), "{}", older.to_text());
    // The older head does not have the chain's head yet, so its time says nothing of it.
    valid(&older, "C1", &format!("by {}", Timestamp::from_millis((BASE + 100) * 1000)));
    let same = anchored(size, false, None);
    valid(&same, "C1", &format!("by {}", Timestamp::from_millis((BASE + 51) * 1000)));
    invalid(&anchored(size, true, None), "F1", "contradict each other: `anchors/0.txt`");
    invalid(&anchored(size - 1, true, Some((size - 1, size))), "F1", "contradict each other");
    // A proof of another size ties nothing: the head counts for nothing, early as its times are.
    let untied = anchored(size - 1, false, Some((size - 2, size)));
    valid(&untied, "C1", &format!("by {}", Timestamp::from_millis((BASE + 100) * 1000)));
    let damaged = anchored(size - 1, false, Some((size - 1, size - 1)));
    invalid(&damaged, "F1", "contradict each other");
}

/// A fleet log that went on after two witnesses saw its first `seen` entries; nobody has seen its head.
fn went_on(
    seen: usize,
    cosigned: &[(u8, u8, i64)],
    fill: &dyn Fn(&TestLedger, &mut TestLedger),
) -> Report {
    let mut case = Case::new();
    case.fleet = TestLedger::bare(FLEET, 9, key(ENROLMENT));
    fill(&case.ledger, &mut case.fleet);
    case.cosigned.clear();
    let cosigned = cosigned.to_vec();
    case.change = Box::new(move |case, files| {
        let head = head_of(&case.fleet, seen);
        files.put("anchors/0.txt", case.note(&head, &cosigned));
        let proof = consistency(&case.fleet, seen, case.fleet.rows.len());
        files.put("anchors/0.consistency.json", proof);
        // Of a chain whose recorded head is smaller than the bundle's.
        let size = case.ledger.rows.len();
        files.put("ledger/consistency.json", consistency(&case.ledger, 6, size));
    });
    case.report()
}

#[test]
fn what_others_saw_before_the_fleet_log_went_on_stays_witnessed_and_the_rest_is_not_proven() {
    let first = TestLedger::bare(FLEET, 9, key(ENROLMENT)).rows.len();
    let whole = |ledger: &TestLedger, fleet: &mut TestLedger| {
        let head = head_of(ledger, ledger.rows.len());
        fleet.add(enrolled(ledger, ORIGIN, &key(ENROLMENT)));
        fleet.add(recorded(ledger, head.size, head.root));
        fleet.beat();
        fleet.beat();
    };
    let two = [(1, 1, 100), (2, 2, 60)];
    let report = went_on(first + 2, &two, &whole);
    let said = format!("2 of 3 witnesses, quorum 2; on the head of {} entries", first + 2);
    valid(&report, "W1", &said);
    assert_eq!((report.exit_code(), report.level()), (0, Some(3)), "{}", report.to_text());
    let (from, to) = (first + 2, first + 3);
    let unseen = format!(
        "that a third party has seen entries {from} to {to} of the fleet log ({from} `heartbeat`, {to} `heartbeat`)"
    );
    assert!(report.not_proven.iter().any(|item| item.starts_with(&unseen)), "{}", report.to_text());
    // A head without the chain's head, with too few cosignatures, or with none.
    unverifiable(&went_on(first + 1, &two, &whole), "W1", "0 of 3 witnesses");
    unverifiable(&went_on(first + 2, &two[..1], &whole), "W1", "0 of 3 witnesses");
    unverifiable(&went_on(first + 2, &[], &whole), "W1", "0 of 3 witnesses");
    // A chain that was enrolled only after that, and one of which they saw less than the bundle has.
    let late = |ledger: &TestLedger, fleet: &mut TestLedger| {
        let head = head_of(ledger, ledger.rows.len());
        fleet.add(recorded(ledger, head.size, head.root));
        fleet.beat();
        fleet.add(enrolled(ledger, ORIGIN, &key(ENROLMENT)));
    };
    unverifiable(&went_on(first + 2, &two, &late), "W1", "0 of 3 witnesses");
    let part = |ledger: &TestLedger, fleet: &mut TestLedger| {
        fleet.add(enrolled(ledger, ORIGIN, &key(ENROLMENT)));
        for size in [6, ledger.rows.len()] {
            let head = head_of(ledger, size);
            fleet.add(recorded(ledger, head.size, head.root));
        }
    };
    unverifiable(&went_on(first + 2, &two, &part), "W1", "0 of 3 witnesses");
    assert_eq!(went_on(first + 3, &two, &part).level(), Some(3));
}

#[test]
fn a_pinned_head_of_the_fleet_log_is_held_to() {
    let mut case = Case::new();
    let pin =
        |head: Checkpoint| PinnedHead { origin: head.origin, size: head.size, root: head.root };
    let size = case.fleet.rows.len();
    case.trust.heads = vec![pin(case.fleet_head())];
    assert_eq!(case.report().level(), Some(3));
    let mut longer = case.fleet_head();
    longer.size += 1;
    case.trust.heads = vec![pin(longer)];
    invalid(&case.report(), "F1", "it was cut");
    let mut other = case.fleet_head();
    other.root = Digest::of(&[b"other"]);
    case.trust.heads = vec![pin(other)];
    invalid(&case.report(), "F1", "does not extend the pinned head");
    // Entries that are all here from the first on prove every older head by themselves.
    case.trust.heads = vec![pin(head_of(&case.fleet, size - 1))];
    assert_eq!(case.report().level(), Some(3));
    let mut other = head_of(&case.fleet, size - 1);
    other.root = Digest::of(&[b"other"]);
    case.trust.heads = vec![pin(other)];
    invalid(&case.report(), "F1", "does not extend the pinned head");
    // With one of them missing it takes a proof.
    case.fleet.beat();
    case.fleet.beat();
    let (noted, size) = (case.fleet.rows.len() - 1, case.fleet.rows.len());
    case.trust.heads = vec![pin(head_of(&case.fleet, noted))];
    let without = move |files: &mut Files| {
        let text = String::from_utf8(files.get("fleet/entries.jsonl").unwrap().to_vec()).unwrap();
        let left = text.lines().enumerate().filter(|(at, _)| *at != noted - 1);
        let left: String = left.map(|(_, line)| format!("{line}\n")).collect();
        files.put("fleet/entries.jsonl", left);
    };
    case.change = Box::new(move |_, files| without(files));
    unverifiable(&case.report(), "F1", "no consistency proof");
    case.change = Box::new(move |case, files| {
        without(files);
        files.put("fleet/consistency.json", consistency(&case.fleet, noted, size));
    });
    assert_eq!(case.report().level(), Some(3));
}

#[test]
fn revoked_keys_count_up_to_their_last_good_entry() {
    let mut case = Case::new();
    let size = case.fleet.rows.len() as u64;
    let revoked = |purpose, n: u8, good: u64| RevokedTrust {
        purpose,
        key: key(n).public().id(),
        good: Some((FLEET.into(), good)),
    };
    case.trust.revoked = vec![revoked(Use::Fleet, FLEET_KEY, size)];
    assert_eq!(case.report().level(), Some(3));
    case.trust.revoked = vec![revoked(Use::Fleet, FLEET_KEY, size - 1)];
    invalid(&case.report(), "F1", "was revoked before");
    case.trust.revoked = vec![revoked(Use::Witness, 2, size)];
    assert_eq!(case.report().level(), Some(3));
    case.trust.revoked = vec![revoked(Use::Witness, 2, size - 1)];
    unverifiable(&case.report(), "W1", "1 of 3 witnesses");
    // The fleet log says so itself.
    let mut case = Case::new();
    let raw = STANDARD.encode(key(FLEET_KEY).public().to_bytes());
    let data = [("use", "fleet"), ("key", raw.as_str()), ("reason", "stolen"), ("log", FLEET)];
    let mut data: Vec<(&str, Json)> = data.into_iter().map(|(k, v)| (k, Json::from(v))).collect();
    data.push(("good_size", 3_u64.into()));
    case.fleet.add(Draft::of(Kind::KeyRevoked, Json::object(data)));
    invalid(&case.report(), "F1", "itself says that its key was revoked");
}

/// An entry in the chain that says a fleet head was seen: whatever follows was written after it.
fn observed(head: &Checkpoint, source: &str, token: Digest) -> Draft {
    let data = [
        ("source", Json::from(source)),
        ("name", "witness.example/1".into()),
        ("log", head.origin.as_str().into()),
        ("size", head.size.into()),
        ("root", head.root.hex().into()),
        ("time", "2026-11-18T00:00:00.000Z".into()),
        ("token", token.hex().into()),
    ];
    Draft::of(Kind::AnchorObserved, Json::object(data))
}

/// A chain that saw a fleet head, cosigned so many seconds after the beginning, before its first run.
fn bracketed(seen: i64) -> Case {
    let bare = Case::new();
    let early = head_of(&bare.fleet, 2);
    let note = bare.note(&early, &[(1, 1, seen), (2, 2, seen - 5)]);
    let mut chain = TestLedger::new(1, key(ENROLMENT));
    chain.add(observed(&early, "witness", Digest::of(&[note.as_bytes()])));
    chain.whole_run(run_id(1));
    let mut case = Case::of(chain);
    case.change = Box::new(move |case, files| {
        files.put("anchors/0.txt", note.clone());
        let size = case.fleet.rows.len();
        files.put("anchors/0.consistency.json", consistency(&case.fleet, 2, size));
    });
    case
}

#[test]
fn entries_lie_between_what_they_saw_and_who_saw_them() {
    let report = bracketed(2).report();
    assert_eq!(report.level(), Some(3), "{}", report.to_text());
    let after = Timestamp::from_millis((BASE + 2) * 1000);
    valid(&report, "C1", &format!("lie after {after}, within 98 s at most"));
    // Back-dated: what they name as seen was made later than they say they were written.
    invalid(&bracketed(303).report(), "C1", "before 2026");
    assert_eq!(bracketed(299).report().failed(), Vec::<&str>::new());
    // A token that is not there, or of another head, is no lower bound.
    let mut case = bracketed(303);
    case.change = Box::new(|_, _| {});
    assert_eq!(case.report().failed(), Vec::<&str>::new());
}

#[test]
fn a_chain_dated_after_those_who_saw_it_is_refused() {
    let mut case = Case::new();
    let hour = 3_600_000;
    let head = head_of(&case.ledger, case.ledger.rows.len());
    // A fleet log whose entries are an hour older than the chain claims to be.
    case.fleet = TestLedger::bare(FLEET, 9, key(ENROLMENT));
    case.fleet.add(enrolled(&case.ledger, ORIGIN, &key(ENROLMENT)));
    case.fleet.add(recorded(&case.ledger, head.size, head.root));
    older_by(&mut case.fleet, hour);
    case.cosigned = vec![(1, 1, -3000), (2, 2, -3000)];
    invalid(&case.report(), "C1", "after 2026");
    case.cosigned = vec![(1, 1, -250), (2, 2, -250)];
    assert_eq!(case.report().level(), Some(3));
}

/// Writes the entries again, so many milliseconds earlier.
fn older_by(ledger: &mut TestLedger, millis: i64) {
    let mut prev = None;
    ledger.frontier = Frontier::default();
    for row in &mut ledger.rows {
        let mut entry = Entry::parse(&row.body).unwrap();
        entry.ts = Timestamp::from_millis(entry.ts.millis() - millis);
        entry.prev = prev.unwrap_or(entry.prev);
        row.body = entry.bytes();
        row.leaf = Entry::leaf(&row.body);
        prev = Some(row.leaf);
        ledger.frontier.push(row.leaf);
    }
}

/// The case with a stamp over its fleet head.
fn stamped(authority: &Authority, over: &dyn Fn(&Case) -> Vec<u8>) -> Case {
    let mut case = Case::new();
    case.trust.tsa = authority.trusted();
    let token = authority.stamp(&over(&case));
    case.change = Box::new(move |case, files| {
        files.put("anchors/0.tsr", token.clone());
        files.put("anchors/0.txt", case.note(&case.fleet_head(), &[]));
    });
    case
}

#[test]
fn a_stamp_over_the_fleet_head_is_level_4_and_anything_else_is_not() {
    let authority = Authority::new(USUAL);
    let body = |case: &Case| case.fleet_head().body().into_bytes();
    let report = stamped(&authority, &body).report();
    valid(&report, "W2", "1 stamp by CN=test tsa");
    assert_eq!((report.exit_code(), report.level()), (0, Some(4)), "{}", report.to_text());
    // Over the note with its signatures, it is over something else.
    let note = |case: &Case| case.note(&case.fleet_head(), &[]).into_bytes();
    invalid(&stamped(&authority, &note).report(), "W2", "the imprint is of something else");
    let mut case = stamped(&authority, &body);
    case.trust.tsa = Authority::new(USUAL).trusted();
    invalid(&case.report(), "W2", "the authority's certificate");
    let mut case = Case::new();
    case.trust.tsa = authority.trusted();
    let report = case.report();
    match report.outcome("W2") {
        Some(Outcome::Unverifiable(_)) => {}
        _ => panic!("{}", report.to_text()),
    }
    assert_eq!((report.exit_code(), report.level()), (2, Some(3)));
    // A stamp that is alone, and one from before the entries it is over.
    let mut case = stamped(&authority, &body);
    let token = authority.stamp(&body(&case));
    case.change = Box::new(move |_, files| files.put("anchors/0.tsr", token.clone()));
    invalid(&case.report(), "W2", "has no `anchors/0.txt` beside it");
}
