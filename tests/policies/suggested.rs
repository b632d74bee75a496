//! What suggested rules make of the calls they were learned from: those, and hardly anything else.

use serde_json::{Value, json};
use wicketgate::domain::decision::Verdict;
use wicketgate::domain::json::{Json, Limits};
use wicketgate::policy::PolicyEngine as _;
use wicketgate::policy::rego::RegoEngine;
use wicketgate::policy::suggest::{RequiredCall, rego};

use super::{DEADLINE, load};

fn document(args: &Value, effect: &Value) -> Value {
    json!({
        "agent": {"binding": "observed"}, "tool": {"name": "it", "tier": "T1"}, "observe": [],
        "approvals": [], "quorum": {"by_hand": []}, "args": args, "effect": effect,
    })
}

/// Rules learned from these calls of one tool: arguments and effect.
struct Learned(RegoEngine, String);

impl Learned {
    fn of(calls: &[(Value, Value)]) -> Self {
        let seen = calls.iter().enumerate().map(|(n, (args, effect))| RequiredCall {
            call: format!("c{n}"),
            input: Json::parse(document(args, effect).to_string().as_bytes(), &Limits::FILE)
                .unwrap(),
        });
        let text = rego("a test", &seen.collect::<Vec<_>>(), &[]);
        let bundle =
            load(&[("agent/suggested.rego", &text)]).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
        let learned = Self(RegoEngine::new(&bundle, DEADLINE).unwrap(), text);
        for (args, effect) in calls {
            learned.allows(args, effect);
        }
        learned
    }

    fn verdict(&self, args: &Value, effect: &Value) -> Verdict {
        self.0.decide(document(args, effect).to_string().as_bytes()).unwrap().verdict
    }

    fn allows(&self, args: &Value, effect: &Value) {
        assert_eq!(self.verdict(args, effect), Verdict::Allow, "{args} {effect}\n{}", self.1);
    }

    fn denies(&self, args: &Value, effect: &Value) {
        assert_eq!(self.verdict(args, effect), Verdict::Deny, "{args} {effect}\n{}", self.1);
    }
}

fn none() -> Value {
    json!({"kind": "none"})
}

const LONG: &str = "workspace/projects/customer-portal/services/billing/src/handlers/invoice.rs";

#[test]
fn one_path_or_address_is_that_one_however_long_it_is_and_whatever_blanks_it_has() {
    let address = format!("https://api.example.com/{LONG}");
    for (name, value) in
        [("path", LONG), ("at", LONG), ("path", "My Docs/a.txt"), ("url", &address)]
    {
        let learned = Learned::of(&[(json!({name: value}), none())]);
        for other in ["etc/passwd", "My Docs/b.txt", "https://evil.example/x", ""] {
            learned.denies(&json!({name: other}), &none());
        }
    }
    let file = |path: &str| json!({"kind": "file", "access": "read", "root": "r", "path": path});
    let learned = Learned::of(&[(json!({"path": LONG}), file(LONG))]);
    learned.denies(&json!({"path": LONG}), &file("etc/passwd"));
    let two = [LONG, "workspace/other file.txt"];
    let learned = Learned::of(&two.map(|path| (json!({"path": path}), file(path))));
    learned.allows(&json!({"path": "workspace/more.txt"}), &file("workspace/more.txt"));
    learned.denies(&json!({"path": "more.txt"}), &file("workspace/more.txt"));
    learned.denies(&json!({"path": "workspace/more.txt"}), &file("more.txt"));
}

#[test]
fn many_paths_and_addresses_are_never_any_text() {
    let many = |make: &dyn Fn(usize) -> String| -> Learned {
        let calls: Vec<_> = (0..40).map(|n| (json!({"path": make(n)}), none())).collect();
        Learned::of(&calls)
    };
    let apart = many(&|n| format!("/top{}/f{n}", n % 20));
    apart.allows(&json!({"path": "/top3/other"}), &none());
    apart.denies(&json!({"path": "/etc/passwd"}), &none());
    apart.denies(&json!({"path": "/top3/../etc/passwd"}), &none());
    let alone = many(&|n| format!("name{n}"));
    alone.denies(&json!({"path": "name40"}), &none());
    let calls: Vec<_> =
        (0..20).map(|n| (json!({"to": format!("ftp://host{n}.example/x")}), none())).collect();
    Learned::of(&calls).denies(&json!({"to": "ftp://evil.example/x"}), &none());
}

#[test]
fn dots_within_a_name_open_no_way_up() {
    let calls = ["src/v1..v2.diff", "src/a.rs"].map(|path| (json!({"path": path}), none()));
    let learned = Learned::of(&calls);
    learned.allows(&json!({"path": "src/v2..v3.diff"}), &none());
    for up in ["src/../../etc/passwd", "src/..", "src/a/..\\..\\x"] {
        learned.denies(&json!({"path": up}), &none());
    }
    let calls = ["src/../a.rs", "src/b.rs"].map(|path| (json!({"path": path}), none()));
    Learned::of(&calls).denies(&json!({"path": "src/../../etc/passwd"}), &none());
}

#[test]
fn a_statement_of_another_kind_or_on_another_table_was_not_learned() {
    let sql = |statement: &str, relations: &[&str], functions: &[&str]| {
        json!({
            "kind": "sql", "engine": "postgres", "host": "db", "port": 5432, "database": "shop",
            "statement": statement, "relations": relations, "functions": functions, "params": 0,
            "sql_sha256": "00",
        })
    };
    let text = |text: &str| json!({"sql": text});
    let seen = text("SELECT id FROM orders");
    let learned = Learned::of(&[
        (seen.clone(), sql("select", &["public.orders"], &[])),
        (seen.clone(), sql("select", &["public.orders", "public.items"], &["count"])),
    ]);
    learned.allows(&text("SELECT 1 FROM items"), &sql("select", &["public.items"], &["count"]));
    learned.denies(&text("DELETE FROM orders"), &sql("delete", &["public.orders"], &[]));
    learned.denies(&text("SELECT 1 FROM accounts"), &sql("select", &["public.accounts"], &[]));
    learned.denies(&seen, &sql("select", &["public.orders"], &["pg_sleep"]));
    let mut elsewhere = sql("select", &["public.orders"], &[]);
    elsewhere["database"] = "hr".into();
    learned.denies(&seen, &elsewhere);
}

#[test]
fn a_suggested_policy_constrains_every_kind_of_effect() {
    let args = json!({});
    let file = json!({"kind": "file", "access": "write", "root": "r", "path": "a/b", "operation": "create"});
    let read = json!({"kind": "file", "access": "read", "root": "r", "path": "a/b"});
    let program = json!({"kind": "command", "program": "/bin/ls", "digest": "sha256:0", "argv": [], "sandbox": "S1", "workspace": "none"});
    let model = json!({"kind": "model", "model": "m", "upstreams": [], "messages": 1, "output_tokens_max": 90, "functions": ["f"], "body_bytes": 1});
    let grpc = json!({"kind": "grpc", "scheme": "https", "host": "h", "port": 1, "service": "s.S", "method": "Get", "request_bytes": 1});
    let http = json!({"kind": "http", "method": "GET", "scheme": "https", "host": "h", "port": 1, "path": "/a", "query": [{"name": "q", "value": "x"}], "body_bytes": 0});
    for (effect, name, other) in [
        (&file, "operation", json!("delete")),
        (&file, "path", json!("a/c")),
        (&program, "program", json!("/bin/rm")),
        (&program, "sandbox", json!("S2")),
        (&model, "model", json!("n")),
        (&model, "output_tokens_max", json!(101)),
        (&model, "functions", json!(["f", "g"])),
        (&grpc, "method", json!("Delete")),
        (&grpc, "service", json!("t.T")),
        (&http, "path", json!("/b")),
        (&http, "query", json!([{"name": "admin", "value": "x"}])),
    ] {
        let learned = Learned::of(&[(args.clone(), effect.clone())]);
        let mut changed = effect.clone();
        changed[name] = other;
        learned.denies(&args, &changed);
    }
    // A fact that only some of the calls have is asked where it is there.
    let learned = Learned::of(&[(args.clone(), file.clone()), (args.clone(), read)]);
    let mut deletes = file;
    deletes["operation"] = "delete".into();
    learned.denies(&args, &deletes);
}

#[test]
fn a_suggested_policy_constrains_list_items_and_notes_what_it_leaves_free() {
    let to = |list: Value| json!({"to": list});
    let learned = Learned::of(&[
        (to(json!([{"addr": "a@x"}, {"addr": "b@x", "cc": true}])), none()),
        (to(json!([])), none()),
    ]);
    learned.denies(&to(json!([{"addr": "evil@x"}])), &none());
    learned.denies(&to(json!([{"addr": "a@x", "bcc": "evil@x"}])), &none());
    learned.denies(&to(json!(["a@x"])), &none());
    let nested = Learned::of(&[(to(json!([["a", "b"], ["c"]])), none())]);
    nested.denies(&to(json!([["d"]])), &none());
    let mixed = Learned::of(&[(to(json!([1, "a"])), none())]);
    assert!(mixed.1.contains("# to: items are not constrained"), "{}", mixed.1);
    let deep = Learned::of(&[(to(json!([[[[[1]]]]])), none())]);
    assert!(deep.1.contains("# to: items are not constrained"), "{}", deep.1);
    let object = Learned::of(&[(json!({"a": {"b": {"c": {"d": {"e": 1}}}}}), none())]);
    assert!(object.1.contains("# d: members are not constrained"), "{}", object.1);
}

/// Texts that are run, resolved or parsed, under any name, and another one of the same kind and no longer.
/// A tool's arguments, and what was seen in them.
type Texts = (&'static str, &'static [&'static str], &'static [&'static str]);
const RUN: [Texts; 12] = [
    ("sql", &["SELECT id FROM orders WHERE id = 1"], &["DELETE FROM orders", "SELECT 1"]),
    ("text", &["select id from orders", "select id from items"], &["drop table orders"]),
    ("q", &["WITH a AS (SELECT 1) SELECT * FROM a"], &["SELECT pg_sleep(1)"]),
    ("command", &["git status", "git log --oneline"], &["rm -rf .", "git push", "id"]),
    ("input", &["ls -la src", "cat notes.txt"], &["rm notes.txt", "id", "ls"]),
    ("line", &["grep -r secret . | head -n 5"], &["cat /etc/passwd", "id; id"]),
    ("script", &["print the sum of these numbers"], &["remove all the files in there"]),
    ("program", &["/usr/bin/ls", "/usr/bin/cat"], &["/usr/bin/rm", "rm"]),
    ("url", &["https://a.example/x"], &["https://evil.example/x", "http://a.example/x"]),
    ("target", &["https://a.example/x y", "see b.example/z"], &["https://evil.example/"]),
    ("hostname", &["a.example"], &["evil.example", "b.example"]),
    ("pythonCode", &["x = 1\nprint(x)"], &["import os", "print(1)"]),
];

#[test]
fn what_is_run_resolved_or_parsed_is_never_known_by_its_length() {
    for (name, seen, others) in RUN {
        let calls: Vec<_> = seen.iter().map(|text| (json!({name: text}), none())).collect();
        // Many of them are no more a sort of text than a few.
        let numbered = (0..30).map(|n| (json!({name: format!("{} {n}", seen[0])}), none()));
        let many: Vec<_> = calls.iter().cloned().chain(numbered).collect();
        for calls in [calls, many] {
            let learned = Learned::of(&calls);
            for other in others.iter().copied().chain(["", "x", "$(id)", "` id`", "a && b"]) {
                learned.denies(&json!({name: other}), &none());
            }
            assert!(!learned.1.contains("count(input.args."), "{}", learned.1);
        }
    }
}

#[test]
fn tools_that_run_what_they_are_given_have_no_prose() {
    let text = "please tell me what is in there";
    let of = |tool: &str, effect: Value| {
        let mut document = document(&json!({"anything": text}), &effect);
        document["tool"]["name"] = tool.into();
        let input = Json::parse(document.to_string().as_bytes(), &Limits::FILE).unwrap();
        rego("a test", &[RequiredCall { call: "c".into(), input }], &[])
    };
    assert!(of("mail.send", none()).contains("count(input.args.anything)"));
    for tool in ["shell.run", "db_query", "runSQL", "python-exec", "terminal"] {
        let rules = of(tool, none());
        assert!(rules.contains(&format!("input.args.anything == \"{text}\"")), "{rules}");
    }
    for kind in ["command", "fetch", "sql"] {
        let rules = of("mail.send", json!({"kind": kind}));
        assert!(!rules.contains("count(input.args.anything)"), "{rules}");
    }
}

#[test]
fn amounts_are_allowed_between_the_least_and_the_greatest_that_was_seen() {
    let calls = [12, 250, 99].map(|amount| (json!({"amount": amount}), none()));
    let learned = Learned::of(&calls);
    for amount in [json!(12), json!(100.5), json!(250)] {
        learned.allows(&json!({"amount": amount}), &none());
    }
    for amount in [json!(11), json!(251), json!(500), json!(-12), json!(0), json!("99")] {
        learned.denies(&json!({"amount": amount}), &none());
    }
    let one = Learned::of(&[(json!({"amount": 41}), none())]);
    one.denies(&json!({"amount": 42}), &none());
    one.denies(&json!({"amount": 40}), &none());
    let fine = Learned::of(&[(json!({"x": 0.1}), none()), (json!({"x": -2.5}), none())]);
    fine.allows(&json!({"x": -2}), &none());
    fine.denies(&json!({"x": 0.11}), &none());
}

#[test]
fn prose_stays_prose_and_as_long() {
    let seen = ["a word or two about it", "more"].map(|why| (json!({"why": why}), none()));
    let learned = Learned::of(&seen);
    learned.allows(&json!({"why": "another word, or three!"}), &none());
    for why in
        ["w".repeat(51), "a; rm -rf /".into(), "see https://evil.example".into(), "a | b".into()]
    {
        learned.denies(&json!({"why": why}), &none());
    }
}
