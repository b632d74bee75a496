//! A new policy on one machine: proposed by one person, approved by another, put in force by the gate alone.

use std::path::PathBuf;

use serde_json::{Value, json};
use wicketgate::domain::json::Json;
use wicketgate::ledger::sqlite::SqliteReader;
use wicketgate::ledger::store::LedgerReader as _;
use wicketgate::ledger::verify::EntryLine;
use wicketgate::ledger::verify::amended::Amendments;
use wicketgate::record::chain::Basis;
use wicketgate::record::{Body, Kind};

use crate::checker::{check, kinds};
use crate::people::People;
use crate::sidecar::{self, Estate, Sidecar, key};
use crate::tool::Tool;

/// What the first bundle allows.
pub const FIRST: &str =
    "package wicketgate.agent\nimport rego.v1\nallow if input.tool.name == \"work.do\"\n";
/// What the second one does not.
pub const SECOND: &str = "package wicketgate.agent\nimport rego.v1\nallow if input.args.n == 2\n";

pub struct Setup {
    pub people: People,
    pub tool: Tool,
    pub estate: Estate,
    pub sidecar: Sidecar,
}

/// Writes and signs a bundle beside the one that is configured; its directory.
pub fn draft(estate: &Estate, version: &str, rules: &str, signer: &str) -> PathBuf {
    let dir = estate.path(&format!("draft-{version}-{signer}"));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(dir.join("agent")).unwrap();
    std::fs::write(dir.join("agent/main.rego"), rules).unwrap();
    let shown = dir.display().to_string();
    let named = ["--name", "test", "--version", version];
    let sign = ["policy", "sign", &shown, "--key", &key(signer)];
    sidecar::run(&estate.path("."), &[&sign[..], &named[..]].concat());
    dir
}

/// Somebody types `policy …` and gets JSON back.
pub fn types(people: &People, who: &str, url: &str, args: &[&str]) -> (Option<i32>, Value) {
    let words = [&["policy"], args, &["--json"]].concat();
    let (exit, said) = people.types(who, url, &words);
    let told = serde_json::from_str(&said).unwrap_or_else(|_| json!({"said": said}));
    (exit, told)
}

/// The digest a proposal got, and that every gate took it.
#[track_caller]
pub fn proposed(people: &People, who: &str, url: &str, dir: &std::path::Path) -> String {
    let dir = dir.display().to_string();
    let (exit, told) =
        types(people, who, url, &["propose", "--bundle", &dir, "--reason", "a test"]);
    assert_eq!(exit, Some(0), "{told}");
    told["gates"][0]["done"]["bundle"].as_str().unwrap().to_owned()
}

/// The code a row was refused with, by every gate.
#[track_caller]
pub fn refused((exit, told): (Option<i32>, Value)) -> String {
    assert_eq!(exit, Some(1), "{told}");
    let code = told["gates"][0]["done"]["code"].as_str();
    code.unwrap_or_else(|| panic!("{told}")).to_owned()
}

impl Setup {
    async fn new(rules: &str) -> Setup {
        let (people, tool) = (People::new(), Tool::start().await);
        let estate = Estate::sqlite(&tool);
        estate.bundle("1.0.0", rules, "policy");
        estate.configure(|config| people.configure_amendments(config, true));
        let sidecar = estate.serve().await;
        Setup { people, tool, estate, sidecar }
    }

    fn types(&self, who: &str, args: &[&str]) -> (Option<i32>, Value) {
        types(&self.people, who, &self.sidecar.operator_url(), args)
    }

    fn propose(&self, version: &str, rules: &str) -> String {
        let dir = draft(&self.estate, version, rules, "policy");
        proposed(&self.people, "paula", &self.sidecar.operator_url(), &dir)
    }

    fn says(&self, who: &str, word: &str, bundle: &str) -> (Option<i32>, Value) {
        let key = self.people.path(who).display().to_string();
        self.types(who, &[word, bundle, "--key", &key])
    }

    fn standing(&self, bundle: &str) -> String {
        let (exit, told) = self.types("vera", &["amendments", "show", bundle]);
        assert_eq!(exit, Some(0), "{told}");
        told["standing"].as_str().unwrap().to_owned()
    }

    async fn runs(&self, args: &str) -> bool {
        self.sidecar.open().await.call("work.do", "", args).await.is_ok()
    }

    async fn again(&mut self) {
        self.sidecar.stop().await;
        self.sidecar = self.estate.serve().await;
    }

    fn run(&self, args: &[&str]) -> String {
        sidecar::run(&self.estate.path("."), args)
    }

    /// Writes what an auditor trusts.
    fn trust(&self) {
        let line =
            |word: &str, name: &str| format!("{word} {}\n", self.estate.path(name).display());
        let mut text = line("enrolment-key", "state/enrolment.key.pub");
        if self.estate.path("evidence.pem.pub").exists() {
            text += &line("evidence-key", "evidence.pem.pub");
        }
        std::fs::write(self.estate.path("trust.txt"), text).unwrap();
    }

    /// Exports a run; what verifying it says about its policies, and the page for people.
    fn evidence(&self, run: &str) -> (Value, String) {
        for name in ["evidence.pem", "fleet.pem"] {
            self.run(&["keygen", "--out", name]);
        }
        let order =
            ["evidence", "export", "--run", run, "--out", "evidence", "--key", "evidence.pem"];
        let from = ["--config", "wicketgate.yaml", "--artifacts", "state/artifacts"];
        let fleet = ["--fleet-key", "fleet.pem", "--enrolment-key", "state/enrolment.key"];
        self.run(&[&order[..], &from, &fleet].concat());
        self.trust();
        let told = self.run(&["evidence", "verify", "--json", "--trust", "trust.txt", "evidence"]);
        let report: Value = serde_json::from_str(&told).unwrap();
        let checks = report["checks"].as_array().unwrap();
        let policies = checks.iter().find(|check| check["id"] == "P3").unwrap().clone();
        (policies, std::fs::read_to_string(self.estate.path("evidence/report.html")).unwrap())
    }

    /// The entries of the chain, as a verifier reads them.
    async fn lines(&self) -> Vec<EntryLine> {
        let reader = SqliteReader::open(&self.estate.path("state/ledger.sqlite")).await.unwrap();
        let chain = reader.chains().await.unwrap().remove(0);
        let rows = reader.entries(&chain.chain, 0, 1000).await.unwrap();
        rows.iter().map(|row| EntryLine::read(&row.body).unwrap()).collect()
    }

    /// Ends it; the books are whole, say the checker and the program itself.
    async fn close(mut self) -> Value {
        self.sidecar.stop().await;
        self.trust();
        self.run(&["ledger", "verify", "--config", "wicketgate.yaml", "--trust", "trust.txt"]);
        check(&self.estate.database, &self.tool, &self.estate.receipts)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bundle_that_one_proposed_and_another_approved_replaces_the_old_one_and_stays() {
    let mut setup = Setup::new(FIRST).await;
    let bundle = setup.propose("1.1.0", SECOND);
    assert!(setup.runs(r#"{"n":1}"#).await, "a proposal changes nothing");
    assert_eq!(refused(setup.types("grace", &["activate", &bundle])), "amendment.unapproved");
    let (exit, told) = setup.says("grace", "approve", &bundle);
    assert_eq!((exit, &told["gates"][0]["done"]["subject"]), (Some(0), &json!("grace")), "{told}");
    assert_eq!(setup.standing(&bundle), "approved");
    assert!(setup.runs(r#"{"n":1}"#).await, "an approval changes nothing");
    // What is approved is remembered over a restart.
    setup.again().await;
    let (exit, told) = setup.types("grace", &["activate", &bundle]);
    assert_eq!(exit, Some(0), "{told}");
    assert_eq!(setup.standing(&bundle), "activated");
    assert!(!setup.runs(r#"{"n":1}"#).await);
    assert!(setup.runs(r#"{"n":2}"#).await);
    // The directory still holds the first bundle; it is not what is in force.
    setup.again().await;
    assert!(!setup.runs(r#"{"n":1}"#).await);
    let (_, readiness) = setup.sidecar.readiness().await.unwrap();
    assert!(readiness.contains("which no amendment put in force"), "{readiness}");
    // The next one is on top of it.
    let next = setup.propose("1.2.0", FIRST);
    assert_eq!(setup.says("hugo", "approve", &next).0, Some(0));
    assert_eq!(setup.types("grace", &["activate", &next]).0, Some(0));
    let agent = setup.sidecar.open().await;
    agent.call("work.do", "c", r#"{"n":1}"#).await.unwrap();
    agent.seal().await.unwrap();
    let (policies, page) = setup.evidence(&agent.run);
    assert_eq!(policies["outcome"], "VALID", "{policies}");
    assert!(policies.to_string().contains("amended 1 time,"), "{policies}");
    assert!(page.contains("Recorded amendments of the policy") && page.contains("hugo"), "{page}");
    let summary = setup.close().await;
    let seen = ["proposed", "approved", "refused"]
        .map(|word| kinds(&summary, &format!("amendment.{word}")));
    assert_eq!(seen, [2, 2, 1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_person_alone_cannot_change_the_policy_and_other_signatures_do_not_count() {
    let setup = Setup::new(FIRST).await;
    let bundle = setup.propose("1.1.0", SECOND);
    // Paula has both roles and a key on the list; the bundle is her own.
    assert_eq!(refused(setup.says("paula", "approve", &bundle)), "amendment.self");
    // A key that is not on the list, a token that is.
    let stranger = setup.people.path("mallory").display().to_string();
    let forged = setup.types("grace", &["approve", &bundle, "--key", &stranger]);
    assert_eq!(refused(forged), "approval.signer");
    for (who, args) in [
        ("vera", &["approve", &bundle, "--key", &stranger][..]),
        ("vera", &["activate", &bundle]),
        ("otto", &["activate", &bundle]),
        ("grace", &["propose", "--bundle", "bundle"]),
        ("vera", &["propose", "--bundle", "bundle"]),
    ] {
        let words = [&["policy"], args].concat();
        let (exit, said) = setup.people.types(who, &setup.sidecar.operator_url(), &words);
        let allowed = said.contains("operator.forbidden") || said.contains("does not load");
        assert!(exit == Some(1) && allowed, "{who} {args:?}: {said}");
    }
    // Signed for calls, not for amendments.
    let words = ["amendments", "show", &bundle, "--statement", "approve"];
    let words = [&["policy"], &words[..]].concat();
    let (_, statement) = setup.people.types("grace", &setup.sidecar.operator_url(), &words);
    let sign = |namespace: &str, text: &str, name: &str| {
        let file = setup.people.path(name);
        std::fs::write(&file, text).unwrap();
        let done = std::process::Command::new("ssh-keygen")
            .args(["-q", "-Y", "sign", "-n", namespace, "-f"])
            .arg(setup.people.path("grace"))
            .arg(&file)
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        setup.people.path(&format!("{name}.sig")).display().to_string()
    };
    let send =
        |signature: &str| setup.types("grace", &["approve", &bundle, "--signature", signature]);
    let foreign = sign("wicketgate-approval", &statement, "foreign");
    assert_eq!(refused(send(&foreign)), "approval.namespace");
    let other = statement.replace("\"author\":\"paula\"", "\"author\":\"vera\"");
    assert_ne!(other, statement);
    let edited = sign("wicketgate-amendment", &other, "edited");
    assert_eq!(refused(send(&edited)), "approval.signature");
    assert_eq!(refused(setup.types("grace", &["activate", &bundle])), "amendment.unapproved");
    // What stock tools sign in the right namespace counts, once.
    let good = sign("wicketgate-amendment", &statement, "good");
    assert_eq!(send(&good).0, Some(0));
    assert_eq!(refused(send(&good)), "amendment.again");
    // One who refuses is enough.
    assert_eq!(setup.says("hugo", "refuse", &bundle).0, Some(0));
    assert_eq!(refused(setup.types("grace", &["activate", &bundle])), "amendment.refused");
    assert_eq!(setup.standing(&bundle), "refused");
    assert!(setup.runs(r#"{"n":1}"#).await);
    setup.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_on_top_of_another_bundle_is_void_and_an_older_version_is_refused() {
    let mut setup = Setup::new(FIRST).await;
    let (left, right) = (setup.propose("1.1.0", SECOND), setup.propose("1.2.0", FIRST));
    for bundle in [&left, &right] {
        assert_eq!(setup.says("grace", "approve", bundle).0, Some(0));
    }
    assert_eq!(setup.types("grace", &["activate", &right]).0, Some(0));
    assert_eq!(refused(setup.types("grace", &["activate", &left])), "amendment.stale");
    setup.again().await;
    assert_eq!(refused(setup.types("grace", &["activate", &left])), "amendment.stale");
    // Proposed again on top of what is in force now, it is older.
    let dir = draft(&setup.estate, "1.1.0", SECOND, "policy").display().to_string();
    let again = setup.types("paula", &["propose", "--bundle", &dir]);
    assert_eq!(refused(again), "amendment.bundle");
    assert!(setup.runs(r#"{"n":1}"#).await);
    setup.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_directory_alone_puts_nothing_in_force() {
    let mut setup = Setup::new(FIRST).await;
    setup.estate.bundle("1.1.0", SECOND, "policy");
    setup.sidecar.signal(rustix::process::Signal::HUP);
    crate::until("the note", || async {
        let (ready, text) = setup.sidecar.readiness().await.unwrap();
        ready && text.contains("which no amendment put in force")
    })
    .await;
    assert!(setup.runs(r#"{"n":1}"#).await);
    setup.again().await;
    assert!(setup.runs(r#"{"n":1}"#).await, "the first bundle is kept");
    let summary = setup.close().await;
    assert_eq!(kinds(&summary, "policy.activated"), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bundle_that_fails_when_it_is_put_in_force_leaves_the_old_one_deciding() {
    let mut setup = Setup::new(FIRST).await;
    // Nobody trusted signed this one.
    let dir = draft(&setup.estate, "1.1.0", SECOND, "stranger").display().to_string();
    let unsigned = setup.types("paula", &["propose", "--bundle", &dir]);
    assert_eq!(refused(unsigned), "amendment.bundle");
    let bundle = setup.propose("1.1.0", SECOND);
    assert_eq!(setup.says("grace", "approve", &bundle).0, Some(0));
    // Between approval and activation, the manifest comes to pin the rules that are in force.
    let shown = sidecar::run(&setup.estate.path("."), &["policy", "check", "bundle", "--json"]);
    let shown: Value = serde_json::from_str(&shown).unwrap();
    let layers = shown["layers"].as_array().unwrap();
    let agent = layers.iter().find(|layer| layer["layer"] == "agent").unwrap();
    setup.estate.manifest("1.0.1", "manifest", |text| {
        let mut manifest: Value = serde_json::from_str(&text).unwrap();
        manifest["spec"]["policy"] = json!({"agent": agent["digest"]});
        manifest.to_string()
    });
    setup.again().await;
    let (exit, told) = setup.types("grace", &["activate", &bundle]);
    assert!(told.to_string().contains("policy.pin"), "{told}");
    assert_eq!(refused((exit, told)), "amendment.findings");
    assert!(setup.runs(r#"{"n":1}"#).await);
    let summary = setup.close().await;
    assert_eq!(kinds(&summary, "amendment.refused"), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn required_amendments_without_approvers_are_a_configuration_error() {
    let tool = Tool::start().await;
    let estate = Estate::sqlite(&tool);
    estate.configure(|config| {
        config["policy"]["amendments"] = json!("required");
        config["approvals"] = json!({});
    });
    let mut sidecar = estate.start();
    sidecar.ends(78).await;
    let said = sidecar.said();
    assert!(said.contains("policy.amendments") && said.contains("approvals.signers"), "{said}");
}

/// What a verifier has against these entries, if anything.
fn against(lines: &[EntryLine]) -> String {
    let mut amendments = Amendments::default();
    let wrong = lines.iter().find_map(|line| amendments.accept(line).err());
    wrong.map_or_else(String::new, |damage| damage.to_string())
}

/// The same entries, one of this kind with another text in a member.
fn with(lines: &[EntryLine], kind: Kind, name: &str, text: &str) -> Vec<EntryLine> {
    let mut lines = lines.to_vec();
    let line = lines.iter_mut().find(|line| line.is(kind)).unwrap();
    let Json::Object(mut members) = Json::of(&line.entry.draft.body) else { panic!("no object") };
    assert!(members.insert(name.into(), Json::from(text)).is_some(), "{name}");
    line.entry.draft.body = Body::from_json(kind, &Json::Object(members)).unwrap();
    lines
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_verifier_finds_an_amendment_that_lacks_what_it_needs() {
    let setup = Setup::new(FIRST).await;
    let bundle = setup.propose("1.1.0", SECOND);
    assert_eq!(setup.says("grace", "approve", &bundle).0, Some(0));
    assert_eq!(setup.types("grace", &["activate", &bundle]).0, Some(0));
    let lines = setup.lines().await;
    assert_eq!(against(&lines), "");
    let without = |kind: Kind| {
        let rest: Vec<EntryLine> = lines.iter().filter(|line| !line.is(kind)).cloned().collect();
        against(&rest)
    };
    let unapproved = without(Kind::AmendmentApproved);
    assert!(unapproved.contains("with 0 of 1 approvals"), "{unapproved}");
    let unproposed = without(Kind::AmendmentProposed);
    assert!(unproposed.contains("approves what was not proposed"), "{unproposed}");
    let other = format!("sha256:{}", "0".repeat(64));
    for (kind, name, text, why) in [
        (Kind::AmendmentProposed, "subject", "vera", "signature"),
        (Kind::AmendmentProposed, "subject", "Grace", "approves what"),
        (Kind::AmendmentProposed, "base", &other, "signature"),
        (Kind::AmendmentApproved, "nonce", "00000000000000000000000000000000", "another proposal"),
        (Kind::AmendmentApproved, "key", "SHA256:x", "another key"),
        (Kind::AmendmentApproved, "signature", "x", "signature"),
    ] {
        let found = against(&with(&lines, kind, name, text));
        assert!(found.contains(why), "{name}: {found}");
    }
    // The first activation again, as if the directory had been read at a later start.
    let mut back = lines.clone();
    let mut first = lines.iter().find(|line| line.is(Kind::PolicyActivated)).unwrap().clone();
    back.push(first.clone());
    assert!(against(&back).contains("not the first bundle"), "{}", against(&back));
    let Body::PolicyActivated(activated) = &mut first.entry.draft.body else { panic!("another") };
    activated.basis = Some(Basis::Restart);
    let mut back = lines.clone();
    back.push(first);
    assert!(against(&back).contains("another bundle was in force before"), "{}", against(&back));
    // What was not read is not held against anybody, and is told.
    let mut later = Amendments::default();
    later.cut();
    let activated = lines.iter().rfind(|line| line.is(Kind::PolicyActivated)).unwrap();
    later.accept(activated).unwrap();
    assert_eq!(later.unrecorded(), activated.entry.draft.policy.as_ref());
    setup.close().await;
}
