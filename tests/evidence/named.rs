//! What checks are called, what the first line of the report sums up, and what the control map claims (issue B7).

use std::collections::BTreeSet;

use wicketgate::domain::decision::Verdict;
use wicketgate::domain::json::{Json, Limits};
use wicketgate::evidence::bundle::*;
use wicketgate::evidence::guide::GUIDE as TEXT;
use wicketgate::evidence::verify::{Outcome, TITLES, verify_files};
use wicketgate::record::Kind;

use crate::bundle::*;
use crate::forged::{TestLedger, key, run_id};

fn ids() -> BTreeSet<&'static str> {
    TITLES.iter().map(|(id, _)| *id).collect()
}

fn page(files: &Files) -> String {
    String::from_utf8(files.get(PAGE).unwrap().to_vec()).unwrap()
}

fn rows(files: &Files) -> Vec<(String, String, Vec<String>)> {
    let controls = Json::parse(files.get(CONTROLS).unwrap(), &Limits::FILE).unwrap();
    let text = |row: &Json, name| row.get(name).and_then(Json::as_str).unwrap().to_owned();
    let checks = |row: &Json| {
        let list = row.get("checks").and_then(Json::as_array).unwrap().iter();
        list.map(|id| id.as_str().unwrap().to_owned()).collect()
    };
    let rows = controls.get("rows").and_then(Json::as_array).unwrap().iter();
    rows.map(|row| (text(row, "requirement"), text(row, "supports"), checks(row))).collect()
}

#[test]
fn every_check_is_a_heading_of_the_guide_and_none_is_called_as_a_level_or_a_tier() {
    assert_eq!(ids().len(), TITLES.len());
    let headings: BTreeSet<&str> = TEXT.lines().filter_map(|l| l.strip_prefix("### ")).collect();
    for (id, title) in TITLES {
        assert!(headings.contains(format!("{id}: {title}").as_str()), "{id}: {title}");
        assert!(!id.starts_with(['L', 'T']), "{id}");
    }
    // And no heading names a check that is not made.
    let named = headings.iter().filter_map(|h| h.split_once(": ")).map(|(id, _)| id);
    assert_eq!(named.collect::<BTreeSet<_>>(), ids());
    let files = export_of(&two_runs(), run_id(1), &[]);
    let report = verify_files(&files, &trust());
    assert!(report.checks.iter().all(|check| ids().contains(check.id)), "{}", report.to_text());
    for (requirement, _, checks) in rows(&files) {
        assert!(checks.iter().all(|id| ids().contains(id.as_str())), "{requirement}: {checks:?}");
    }
    for part in page(&files).split("<span class=\"small\">[").skip(1) {
        let named = part.split(']').next().unwrap();
        assert!(named.split(' ').all(|id| ids().contains(id)), "{named}");
    }
}

/// What becomes of one call, and where the first line counts it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Allowed,
    Refused,
    Released,
    RefusedAfterHold,
    Expired,
    Waiting,
}

const FATES: [Fate; 6] = [
    Fate::Allowed,
    Fate::Refused,
    Fate::Released,
    Fate::RefusedAfterHold,
    Fate::Expired,
    Fate::Waiting,
];

fn meet(ledger: &mut TestLedger, call: &str, fate: Fate) {
    let run = run_id(1);
    let held = |b: &mut TestLedger| b.decide(run, call, Kind::CallHeld, Verdict::RequireApproval);
    match fate {
        Fate::Allowed => {
            ledger.allow(run, call);
            ledger.complete(run, call);
        }
        Fate::Refused => ledger.decide(run, call, Kind::CallDenied, Verdict::Deny),
        Fate::Released => {
            held(ledger);
            ledger.allow(run, call);
            ledger.complete(run, call);
        }
        Fate::RefusedAfterHold => {
            held(ledger);
            ledger.decide(run, call, Kind::CallDenied, Verdict::Deny);
        }
        Fate::Expired => {
            held(ledger);
            ledger.end(run, call, Kind::CallExpired, r#"{"reason":"nobody answered"}"#);
        }
        Fate::Waiting => held(ledger),
    }
}

#[test]
fn the_sums_of_the_first_line_add_up_whatever_became_of_the_calls() {
    // Every selection of fates, some of them twice.
    for chosen in 1_u32..(1 << FATES.len()) {
        let mut ledger = TestLedger::new(1, key(ENROLMENT));
        ledger.open(run_id(1));
        let fates: Vec<Fate> = FATES
            .into_iter()
            .enumerate()
            .filter(|(at, _)| chosen & (1 << at) != 0)
            .flat_map(|(at, fate)| vec![fate; 1 + (at + chosen as usize) % 2])
            .collect();
        for (n, fate) in fates.iter().enumerate() {
            meet(&mut ledger, &format!("c{n}"), *fate);
        }
        let page = page(&export_of(&ledger, run_id(1), &[]));
        let lead = page.split("asked for ").nth(1).unwrap().split(". The run").next().unwrap();
        let numbers: Vec<usize> = lead
            .split(|c: char| !c.is_ascii_digit())
            .filter_map(|word| word.parse().ok())
            .collect();
        let count = |wanted: &[Fate]| fates.iter().filter(|fate| wanted.contains(fate)).count();
        let expected = [
            fates.len(),
            count(&[Fate::Allowed, Fate::Released]),
            count(&[Fate::Refused, Fate::RefusedAfterHold]),
            count(&[Fate::Expired, Fate::Waiting]),
        ];
        assert_eq!(numbers, expected, "{fates:?}: {lead}");
        assert_eq!(numbers[0], numbers[1..].iter().sum::<usize>(), "{lead}");
    }
}

#[test]
fn the_control_map_claims_what_the_bundle_shows_and_no_more() {
    let with = |change: &dyn Fn(&mut TestLedger), seal: bool| {
        let mut ledger = TestLedger::new(1, key(ENROLMENT));
        ledger.open(run_id(1));
        change(&mut ledger);
        if seal {
            ledger.seal(run_id(1));
        }
        export_of(&ledger, run_id(1), &[])
    };
    let allowed = |b: &mut TestLedger| {
        b.allow(run_id(1), "c1");
        b.complete(run_id(1), "c1");
    };
    let refused = |b: &mut TestLedger| meet(b, "c1", Fate::Refused);
    let held = |b: &mut TestLedger| meet(b, "c1", Fate::Expired);
    let says =
        |files: &Files, word: &str| rows(files).iter().any(|(_, claim, _)| claim.contains(word));
    // A claim about something is there only where that something is.
    let cases: [(&str, &dyn Fn(&mut TestLedger), bool); 7] = [
        ("calls were refused", &allowed, false),
        ("calls were refused", &refused, true),
        ("had to wait for a person", &allowed, false),
        ("had to wait for a person", &held, true),
        ("erasures", &allowed, false),
        ("names of others", &allowed, false),
        ("runs name the run that began them", &allowed, false),
    ];
    for (word, change, there) in cases {
        assert_eq!(says(&with(change, true), word), there, "{word}");
    }
    assert!(says(&with(&allowed, true), "no entry of it is left out"));
    assert!(!says(&with(&allowed, false), "no entry of it is left out"), "the run is open");
    // Each claim is backed by checks that hold for this very bundle.
    let files = export_of(&two_runs(), run_id(1), &[]);
    let report = verify_files(&files, &trust());
    for (requirement, claim, checks) in rows(&files) {
        for id in checks {
            let held = matches!(report.outcome(&id), Some(Outcome::Valid(_)));
            assert!(held, "{requirement}, {claim}: {id}");
        }
        // Nothing that no bundle shows: who would have signed, what happens of itself, what an agent wanted.
        for word in [
            "signed policy",
            "by itself",
            "whatever the agent",
            "had any effect",
            "outside have seen",
        ] {
            assert!(!claim.contains(word), "{claim}");
        }
    }
}
