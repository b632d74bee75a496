//! Who erases, and who ends a hold, signs it: what nobody signed, or somebody else, or for something else, does nothing,
//! and what is written into the log all the same is no evidence.

use crate::json_entry::{body, data};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use wicketgate::approval::order::{
    Loosening, NAMESPACE, OrderKind, OrderStatement, Previous, check,
};
use wicketgate::approval::sign::{Key, sign_bytes};
use wicketgate::approval::{Approvers, SignedApproval, Statement as _};
use wicketgate::clock::{SystemClock, SystemEntropy};
use wicketgate::control::{self, Action, Order, OrderOrigin, Orders as _, Target};
use wicketgate::crypto::keys::SecretKey;
use wicketgate::crypto::ssh::SshKey;
use wicketgate::domain::digest::Digest;
use wicketgate::domain::id::RunId;
use wicketgate::domain::json::Json;
use wicketgate::domain::time::Timestamp;
use wicketgate::ledger::fleet::{FleetParts, OpenFleetLog};
use wicketgate::ledger::retention::{self, Clocks, Grounds, Warrant};
use wicketgate::ledger::spool::NoJournal;
use wicketgate::ledger::sqlite::SqliteStore;
use wicketgate::record::Draft;

use crate::keeper::{Keeper, olga, otto, outcome};
use wicketgate_support::ran::Ran;

/// What an operator would sign to erase this run.
fn statement(run: &str, previous: Previous) -> OrderStatement {
    OrderStatement {
        tenant: "default".into(),
        order: OrderKind::Erase,
        target: "run".into(),
        name: run.to_owned(),
        finding: None,
        role: None,
        payloads: BTreeSet::new(),
        request: None,
        reason: "Art. 17".into(),
        at: now(),
        expires: None,
        previous,
    }
}

fn now() -> Timestamp {
    Timestamp::from_millis(jiff::Timestamp::now().as_millisecond())
}

fn signed(statement: &OrderStatement, namespace: &str) -> SignedApproval {
    let key = Key::open(olga().as_ref(), &|_| None, &|_| None).unwrap();
    by(&key, statement, namespace)
}

fn by(key: &Key, statement: &OrderStatement, namespace: &str) -> SignedApproval {
    let signature = sign_bytes(key, namespace, &statement.bytes()).unwrap();
    SignedApproval { statement: String::from_utf8(statement.bytes()).unwrap(), signature }
}

/// The order in two files, as somebody brings it who signed it elsewhere.
fn brought(keeper: &Keeper, signed: &SignedApproval) -> [&'static str; 4] {
    std::fs::write(keeper.path("order"), &signed.statement).unwrap();
    std::fs::write(keeper.path("order.sig"), &signed.signature).unwrap();
    ["--order", "order", "--signature", "order.sig"]
}

/// What the newest entry of the fleet log is: as a statement that the program itself writes has it.
fn newest(keeper: &Keeper, run: &str) -> Previous {
    let ended = keeper.record(&["payload", "erase", "--run", run, "--basis", "b", "--statement"]);
    assert_eq!(ended.code, 0, "{ended:?}");
    OrderStatement::parse(ended.out.as_bytes()).unwrap().previous
}

fn given() -> OrderOrigin {
    OrderOrigin {
        subject: "otto".into(),
        roles: vec!["operator".into()],
        auth: "token".into(),
        reason: "she left".into(),
        expires: None,
    }
}

async fn recorded(keeper: &Keeper) -> i64 {
    keeper.sql("SELECT count(*) FROM entry WHERE kind IN ('payload.erased', 'hold.lifted')").await
}

/// Holds the whole log.
#[track_caller]
fn hold(keeper: &Keeper, log: &str) {
    let ended = keeper.record(&["payload", "hold", "--reason", "r", "--by", "l", "--log", log]);
    assert_eq!(ended.code, 0, "{ended:?}");
}

/// Brings an order to erase.
fn erases(keeper: &Keeper, signed: &SignedApproval) -> Ran {
    keeper.record(&[&["payload", "erase", "--yes"], &brought(keeper, signed)[..]].concat())
}

/// Brings an order to end a hold, which somebody else than olga signs.
fn releases(keeper: &Keeper, statement: &OrderStatement) -> Ran {
    let key = Key::open(otto().as_ref(), &|_| None, &|_| None).unwrap();
    let order = brought(keeper, &by(&key, statement, NAMESPACE));
    keeper.record(&[&["payload", "release"], &order[..]].concat())
}

/// Orders to erase that are none, and how each is refused. `lift` orders something else.
fn wrong(good: &OrderStatement, lift: &OrderStatement) -> Vec<(SignedApproval, &'static str)> {
    let own = |statement: &OrderStatement| signed(statement, NAMESPACE);
    let stranger = Key::File(SecretKey::generate(&SystemEntropy));
    let later = |hours: i64| {
        let at = Timestamp::from_millis(now().millis() + hours * 60 * 60 * 1000);
        own(&OrderStatement { at, ..good.clone() })
    };
    let after =
        |seq, digest| own(&OrderStatement { previous: Previous { seq, digest }, ..good.clone() });
    let (seq, digest) = (good.previous.seq, good.previous.digest);
    let other = "names as the newest is not in the fleet log";
    vec![
        (signed(good, "wicketgate-approval"), "order.namespace"),
        (by(&stranger, good, NAMESPACE), "order.signer"),
        (SignedApproval { signature: own(lift).signature, ..own(good) }, "order.signature"),
        (own(&OrderStatement { tenant: "other".into(), ..good.clone() }), "order.tenant"),
        (later(-25), "order.old"),
        (later(1), "order.future"),
        (own(lift), "not a run id"),
        (
            own(&OrderStatement { name: good.name.clone(), target: "run".into(), ..lift.clone() }),
            "order.kind",
        ),
        (own(&OrderStatement { order: OrderKind::Reinstate, ..good.clone() }), "order.kind"),
        (after(seq, Digest::of(&[b"another"])), other),
        (after(seq + 90, digest), other),
        (after(seq - 1, digest), other),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_erased_by_an_order_that_no_operator_signed_for_just_that() {
    let keeper = Keeper::sqlite().await;
    let (_sidecar, agent) = keeper.served(1).await;
    let (run, log) = (["--run", agent.run.as_str()], keeper.estate.origin().await);
    hold(&keeper, &log);
    let good = statement(&agent.run, newest(&keeper, &agent.run));
    let lift = OrderStatement {
        order: OrderKind::Release,
        target: "log".into(),
        name: log.clone(),
        ..good.clone()
    };
    let lifted = releases(&keeper, &lift);
    assert_eq!(lifted.code, 0, "{lifted:?}");
    for (signed, why) in wrong(&good, &lift) {
        let ended = erases(&keeper, &signed);
        assert!(ended.code != 0 && ended.err.contains(why), "{why}: {ended:?}");
        assert_eq!((keeper.listed(&run).len(), recorded(&keeper).await), (3, 1), "{why}");
    }
    // What was signed is what is erased: nothing is said beside it.
    let order = brought(&keeper, &signed(&good, NAMESPACE));
    let beside = keeper.record(&[&["payload", "erase", "--yes"], &run[..], &order].concat());
    assert_eq!(beside.code, 64, "{beside:?}");
    let ended = erases(&keeper, &signed(&good, NAMESPACE));
    assert!(ended.code == 0 && ended.out.contains("3 payloads erased"), "{ended:?}");
    assert_eq!(keeper.listed(&run).len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_is_good_once_and_ends_no_hold_that_was_placed_after_it() {
    let keeper = Keeper::sqlite().await;
    let (_sidecar, agent) = keeper.served(1).await;
    let log = keeper.estate.origin().await;
    hold(&keeper, &log);
    let erase = statement(&agent.run, newest(&keeper, &agent.run));
    let (target, name) = ("log".to_owned(), log.clone());
    let lift = OrderStatement { order: OrderKind::Release, target, name, ..erase.clone() };
    let other = OrderStatement { reason: "another".into(), ..lift.clone() };
    assert_eq!(releases(&keeper, &lift).code, 0);
    hold(&keeper, &log);
    for (statement, why) in [(&lift, "used before"), (&other, "placed after")] {
        let ended = releases(&keeper, statement);
        assert!(ended.code == 1 && ended.err.contains(why), "{ended:?}");
    }
    let lift = ["payload", "release", "--reason", "r", "--operator-key", otto(), "--log", &log];
    assert_eq!(keeper.record(&lift).code, 0);
    // Of an order to erase only what is stored is gone: what comes later is not meant by it.
    assert_eq!(erases(&keeper, &signed(&erase, NAMESPACE)).code, 0);
    agent.call("work.do", "later", "{}").await.unwrap();
    let ended = erases(&keeper, &signed(&erase, NAMESPACE));
    assert!(ended.code == 1 && ended.err.contains("used before"), "{ended:?}");
    assert_eq!(keeper.listed(&[]).len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_list_and_a_key_that_lapsed_or_was_stopped_erase_nothing() {
    let keeper = Keeper::sqlite().await;
    let (_sidecar, _agent) = keeper.served(2).await;
    let all = keeper.listed(&[]);
    let erase = |n: usize| {
        let c = all[n]["commitment"].as_str().unwrap();
        keeper.try_erase(olga(), &["--commitment", c])
    };
    let list = std::fs::read_to_string(crate::sidecar::key("signers")).unwrap();
    let sign = |edition: &str, list: &str| {
        std::fs::write(keeper.path("signers"), format!("# wicketgate: {edition}\n{list}")).unwrap();
        let key = crate::sidecar::key("list");
        let sign = ["approval", "sign-approvers", "signers", "--key", &key];
        crate::sidecar::run(&keeper.path(""), &sign);
    };
    keeper.estate.configure(|config| config["approvals"]["signers"] = "signers".into());
    for (version, code) in [(2, 0), (1, 1), (3, 0)] {
        sign(&format!("version={version}"), &list);
        let ended = erase(version);
        assert_eq!(ended.code, code, "{version}: {ended:?}");
        assert!(code == 0 || ended.err.contains("version 2 was already in force"), "{ended:?}");
    }
    let until = "wicketgate-order\",valid-before=\"20260101Z\"";
    sign("version=4", &list.replace("wicketgate-order\"", until));
    let ended = erase(1);
    assert!(ended.code == 1 && ended.err.contains("order.lapsed"), "{ended:?}");
    // A list that has ended, with a configuration and without.
    sign("version=5 expires=20260101Z", &list);
    let key = crate::sidecar::key("list.pub");
    let what = ["payload", "erase", "--yes", "--basis", "b", "--operator-key", olga()];
    let from = ["--sqlite", "state/ledger.sqlite", "--signers", "signers", "--approver-key", &key];
    let one = ["--commitment", all[1]["commitment"].as_str().unwrap()];
    for ended in [erase(1), keeper.ask(&[&what[..], &from, &one].concat())] {
        assert!(ended.code == 64 && ended.err.contains("the list expired"), "{ended:?}");
    }
    sign("version=6", &list);
    let line = std::fs::read_to_string(format!("{}.pub", olga())).unwrap();
    let key = SshKey::parse(line.trim()).unwrap().fingerprint();
    let order = Order::Switch { action: Action::Revoke, target: Target::Key(key) };
    let orders =
        control::sqlite::SqliteControl::open(&keeper.path("state/ledger.sqlite")).await.unwrap();
    orders.put(now(), &given(), &order).await.unwrap();
    let ended = erase(1);
    assert!(ended.code == 1 && ended.err.contains("order.revoked"), "{ended:?}");
    assert_eq!(keeper.listed(&[]).len(), 4);
}

/// Writes an entry into the fleet log as anybody can who has its keys.
async fn write(keeper: &Keeper, ledger: &Path, draft: Draft) {
    let key = |name: &str| Arc::new(SecretKey::load(&keeper.path(name)).unwrap());
    let fleet = OpenFleetLog::open(FleetParts {
        store: Arc::new(SqliteStore::open_fleet(ledger).await.unwrap()),
        clock: Arc::new(SystemClock::new()),
        entropy: Arc::new(SystemEntropy),
        enrolment: key("state/enrolment.key"),
        key: key("fleet.pem"),
        previous: None,
        anchor_file: None,
        sights: Vec::new(),
        journal: Box::new(NoJournal),
        tenant: "default".to_owned(),
    })
    .await
    .unwrap();
    fleet.record(draft).await.unwrap();
    fleet.close().await.unwrap();
}

fn with(draft: &Draft, path: &[&str], value: Option<Json>) -> Draft {
    fn set(json: &Json, path: &[&str], value: Option<Json>) -> Json {
        let Json::Object(mut members) = json.clone() else { panic!("{json:?}") };
        match (path, value) {
            ([name], Some(value)) => drop(members.insert((*name).into(), value)),
            ([name], None) => drop(members.remove(*name)),
            ([name, rest @ ..], value) => {
                let inner = set(&members[*name], rest, value);
                members.insert((*name).into(), inner);
            }
            ([], _) => panic!("no path"),
        }
        Json::Object(members)
    }
    Draft::of(body(draft.kind(), &set(&data(draft), path, value)))
}

/// A run that is sealed, and what it stored.
struct Sealed {
    run: RunId,
    log: String,
    all: Vec<Digest>,
    args: Digest,
}

/// Entries that whoever has the keys of the fleet log can write, and what a verifier says of each.
fn entries(sealed: &Sealed) -> Vec<(Draft, &'static str, &'static str)> {
    let list = Approvers::parse(&std::fs::read(crate::sidecar::key("signers")).unwrap()).unwrap();
    let order = |statement: &OrderStatement| -> Box<Loosening> {
        let signed = signed(statement, NAMESPACE);
        Box::new(check(&list, ("default", &[statement.order]), &signed, now()).unwrap())
    };
    let draft = |warrant: Warrant| {
        let grounds = Grounds { by: "operator:olga".into(), backups_expire_by: now(), warrant };
        retention::erased(&sealed.log, &sealed.all, &grounds).unwrap()
    };
    let good = statement(&sealed.run.to_string(), Previous::NONE);
    let erased = draft(Warrant::Order(order(&good)));
    let of = |said: OrderStatement| draft(Warrant::Order(order(&said)));
    let lift = OrderStatement { order: OrderKind::Release, ..good.clone() };
    let on = (sealed.log.as_str(), Some(&sealed.run));
    let lifted = retention::lifted(on, "operator:olga", &order(&lift));
    let text = |text: &str| Some(Json::from(text));
    let orders = [&erased, &lifted].map(|draft| data(draft).get("order").cloned());
    let aged = draft(Warrant::Clock(Clocks::default()));
    let none = ["args", "result", "policy_input"].map(|role| (role.to_owned(), Duration::ZERO));
    let young = draft(Warrant::Clock(Clocks(none.into())));
    let nobody = "00000000-0000-4000-8000-000000000000".to_owned();
    let (target, payloads) = ("payloads".to_owned(), [sealed.args].into());
    let some = OrderStatement { target, name: String::new(), payloads, ..good.clone() };
    let stranger = text(&Digest::of(&[b"x"]).prefixed());
    let (bad, other) = ("INVALID", "not among the payloads");
    vec![
        (erased.clone(), "VALID", "1 erasure by an operator's own order"),
        (lifted.clone(), "VALID", "1 hold ended by an operator's own order"),
        (young, "VALID", "1 erasure by age, the shortest term is 0 s"),
        (aged.clone(), bad, "before its retention time was over"),
        (with(&aged, &["terms"], None), bad, "it names no term"),
        (with(&aged, &["basis"], text("Art. 17")), bad, "it is not signed"),
        (with(&erased, &["order"], None), bad, "it is not signed"),
        (with(&erased, &["basis"], text("another")), bad, "the reason differs"),
        (with(&erased, &["request"], text("T-1")), bad, "the request differs"),
        (with(&erased, &["order", "subject"], text("grace")), bad, "not those of the signature"),
        (with(&erased, &["order", "key"], text("SHA256:x")), bad, "not those of the signature"),
        (with(&erased, &["order", "version"], Some(Json::from(7_u64))), bad, "version of the list"),
        (with(&erased, &["order", "signature"], text("x")), bad, "order.signature"),
        (
            with(&erased, &["order", "signers"], stranger),
            "UNVERIFIABLE",
            "does not include the list",
        ),
        (of(OrderStatement { name: nobody, ..good.clone() }), bad, other),
        (of(OrderStatement { role: Some("args".into()), ..good }), bad, other),
        (of(some), bad, other),
        (with(&erased, &["order"], orders[1].clone()), bad, "order.kind"),
        (with(&lifted, &["reason"], text("another")), bad, "the reason differs"),
        (with(&lifted, &["run"], None), bad, "different hold from the one"),
        (with(&lifted, &["order"], orders[0].clone()), bad, "order.kind"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn an_early_erasure_or_a_release_without_a_valid_order_is_invalid_evidence() {
    let keeper = Keeper::sqlite().await;
    let (mut sidecar, agent) = keeper.served(1).await;
    agent.seal().await.unwrap();
    let log = keeper.estate.origin().await;
    sidecar.stop().await;
    // The list is kept where exports find it, as it is by whoever goes by it.
    keeper.erase(&["--run", &agent.run, "--role", "none"]);
    let payloads = keeper.listed(&["--run", &agent.run]);
    let place =
        |one: &serde_json::Value| Digest::parse(one["commitment"].as_str().unwrap()).unwrap();
    let args = payloads.iter().find(|one| one["role"] == "args").map(place).unwrap();
    let run = RunId::parse(&agent.run).unwrap();
    let sealed = Sealed { run, log, all: payloads.iter().map(place).collect(), args };
    for (number, (draft, expected, part)) in entries(&sealed).into_iter().enumerate() {
        let copy = tempfile::tempdir().unwrap();
        let ledger = copy.path().join("ledger.sqlite");
        std::fs::copy(keeper.path("state/ledger.sqlite"), &ledger).unwrap();
        let data = data(&draft);
        write(&keeper, &ledger, draft).await;
        let from = ["--sqlite", ledger.to_str().unwrap()];
        let bundle = keeper.export_from(&from, &agent.run, &format!("bundle-{number}"), &[]);
        let report = keeper.verify(&bundle);
        let (found, why) = outcome(&report, "P4");
        assert!(found == expected && why.contains(part), "{part}: {found} {why}\n{data:?}");
    }
}
