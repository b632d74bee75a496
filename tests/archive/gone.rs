//! An export of what was pruned says where it went, and one of what is left goes on.

use wicketgate::domain::id::RunId;
use wicketgate::record::Entry;

use crate::forged::{ORIGIN, key, run_id};
use crate::ledgers::{ENROLMENT, FLEET, Ledger, trust, words};
use crate::prune::{made, pem, prune};
use crate::tiles::archive;
use wicketgate_support::ran::Ran;

const EVIDENCE: u8 = 30;

/// `evidence` with these arguments.
fn evidence(args: &[String]) -> Ran {
    Ran::gate(".", [&["evidence".to_owned()], args].concat())
}

fn export(ledger: &Ledger, what: &[&str], out: &str) -> Ran {
    let dir = ledger.dir();
    let (fleet, enrolment) =
        (pem(dir, "fleet.pem", &key(FLEET)), pem(dir, "enrol.pem", &key(ENROLMENT)));
    let (evidence_key, artifacts) = (pem(dir, "evidence.pem", &key(EVIDENCE)), dir.join("kept"));
    let (artifacts, out) = (artifacts.display().to_string(), dir.join(out).display().to_string());
    let fixed = ["export", "--key", &evidence_key, "--artifacts", &artifacts, "--out", &out];
    let keys = ["--fleet-key", &fleet, "--enrolment-key", &enrolment];
    let place = match ledger {
        Ledger::Sqlite(_) => ledger.named(),
        Ledger::Postgres(..) => {
            let url = dir.join("writer.url").display().to_string();
            vec!["--postgres-url-file".into(), url]
        }
    };
    evidence(&[words(&fixed), words(&keys), words(what), place].concat())
}

async fn exports_say_where_pruned_runs_went(ledger: Ledger) {
    if let Ledger::Postgres(db, dir) = &ledger {
        // The administrator of the test plays writer, reader and eraser.
        let sql = "INSERT INTO ledger.writer_tenant VALUES ('postgres', 'default');
                   INSERT INTO ledger.reader_tenant VALUES ('postgres', NULL)";
        ledger.owner("", sql).await;
        std::fs::write(dir.path().join("writer.url"), &db.admin_url).unwrap();
    }
    let state = made(&ledger).await;
    let run = |n: u8| run_id(n).to_string();
    let nobody = RunId::from_random([0xee; 16]).to_string();
    // Before anything was pruned there is nothing else to say of a run that is not there.
    let said = export(&ledger, &["--run", &nobody], "no");
    assert_eq!(said.code, 1, "{}{}", said.out, said.err);
    assert!(!said.err.contains("pruned"), "{}", said.err);
    let archived = archive(&ledger, &ledger.dir().join("archive"));
    assert_eq!(archived.code, 0, "{}", archived.err);
    let said = prune(&ledger, &["--below", "600"]);
    assert_eq!(said.code, 0, "{}{}", said.out, said.err);
    // A run that is gone, one that is cut, a span that begins before, everything.
    let root = state.root(512).hex();
    let record = format!("entries 0..512 of `{ORIGIN}` were pruned at 20");
    let archive = format!(
        "an archive was found to hold them: that whose first 512 entries have the root {root}"
    );
    let span = format!("{ORIGIN}:500..520");
    for (what, gone) in [
        (["--run", &run(1)], "it never was, or was pruned with others"),
        (["--run", &nobody], "it never was, or was pruned with others"),
        (["--run", &run(73)], "are not in this ledger any more"),
        (["--range", &span], "entries 500..512 of"),
        (["--population", "--payloads"], "are not in this ledger any more"),
    ] {
        let said = export(&ledger, &what, "no");
        assert_eq!(said.code, 1, "{what:?}: {}{}", said.out, said.err);
        for part in [gone, &record, " by `alice` (its entry ", &archive] {
            assert!(said.err.contains(part), "{what:?}: `{part}` is not in {}", said.err);
        }
    }
    assert!(!ledger.dir().join("no").exists());
    // What is left is exported as ever: a run, a span, and a time that began after what was pruned.
    let since = Entry::parse(&state.rows[600].body).unwrap().ts.to_string();
    let span = format!("{ORIGIN}:600..610");
    for (what, out, check) in [
        (["--run", &run(80)], "run", "VALID         S4 "),
        (["--range", &span], "span", "VALID         R1 "),
        (["--population", "--since"], "time", "VALID         R2 "),
    ] {
        let mut what = what.to_vec();
        what.extend((out == "time").then_some(since.as_str()));
        let said = export(&ledger, &what, out);
        assert_eq!(said.code, 0, "{what:?}: {}{}", said.out, said.err);
        let trusted = trust(ledger.dir(), "evidence-key evidence.pem.pub\n");
        std::fs::write(ledger.dir().join("evidence.pem.pub"), key(EVIDENCE).public().to_pem())
            .unwrap();
        let bundle = ledger.dir().join(out).display().to_string();
        let said = evidence(&words(&["verify", "--trust", &trusted, &bundle]));
        assert!(said.code != 1 && said.out.contains(check), "{what:?}: {}{}", said.out, said.err);
    }
}

#[tokio::test]
async fn an_export_of_what_was_pruned_from_sqlite_says_where_it_went() {
    exports_say_where_pruned_runs_went(Ledger::sqlite()).await;
}

#[tokio::test]
async fn an_export_of_what_was_pruned_from_postgres_says_where_it_went() {
    exports_say_where_pruned_runs_went(Ledger::postgres().await).await;
}
