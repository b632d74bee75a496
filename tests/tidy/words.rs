//! Words that belong to one place, and words that belong nowhere.

use regex::Regex;

use crate::source::{Source, line_of};

/// A word, where it means what we think, the places it may stand in there, and why nowhere else.
struct Confined {
    word: &'static str,
    realm: &'static str,
    homes: &'static [&'static str],
    why: &'static str,
}

const CONFINED: [Confined; 13] = [
    Confined {
        word: r"\b(?:Permit|Settled|Refusal|Held|Recalled|Committed)::mint\b|\bPermit\s*\{",
        realm: "src/",
        homes: &["src/gate/ledger/"],
        why: "only the ledger makes tokens",
    },
    Confined {
        word: r"\bPrepared::(?:ready|refused)\s*\(",
        realm: "src/",
        homes: &["src/gate/tool/"],
        why: "only `tool::prepare` opens and resolves",
    },
    Confined {
        word: r"\bClearedOutcome::of\s*\(",
        realm: "src/",
        homes: &["src/gate/tool/guard/"],
        why: "only the guard clears what a tool answered",
    },
    Confined {
        word: r"\.with_masked_args\s*\(",
        realm: "src/",
        homes: &["src/gate/tool/guard/"],
        why: "only the guard changes the arguments of a call, before it is prepared",
    },
    Confined {
        // Elsewhere the compiler sees to it: the fields are private, but not to the folder's own files.
        word: r"\bJudged\s*\{",
        realm: "src/gate/judge/",
        homes: &["src/gate/judge/mod.rs"],
        why: "only `judge` pairs a call with a decision",
    },
    Confined {
        word: r"\bhyper_util::client\b|\bhyper_util::\{[^;]*\bclient\b|\bhyper::client\b|\breqwest\b|\bhyper_rustls\b|\bTcpStream::connect\b|\blookup_host\b|\bTcpSocket\b",
        realm: "src/",
        // The stdio bridge is the agent's side of the agent socket: it knows a path and no network.
        // The doctor runs as the agent, and tries what the agent must not be able to.
        homes: &["src/gate/tool/net", "src/cli/mcp/exchange.rs", "src/cli/doctor/net.rs"],
        why: "only the guarded connector reaches out",
    },
    Confined {
        word: r"\btokio::spawn\b|\btask::spawn\b",
        realm: "src/",
        homes: &[
            "src/app.rs",
            "src/app/",
            "src/faces/serve/",
            "src/gate/ledger/sequencer",
            "src/gate/enforce/",
        ],
        why: "a task nobody joins can be lost",
    },
    Confined { word: r"\bunsafe\b", realm: "src/", homes: &[], why: "nothing here needs it" },
    Confined {
        word: r"\banyhow\b",
        realm: "src/",
        homes: &["src/policy/"],
        why: "an error has a type; only the policy engine's builtins must return this one",
    },
    Confined {
        word: r"\benv::vars?(?:_os)?\b",
        realm: "src/",
        homes: &["src/config.rs", "src/config/", "src/main.rs"],
        why: "the environment is read once",
    },
    Confined {
        word: r"\bRight::\w",
        realm: "src/faces/serve/",
        homes: &[],
        why: "a right stands in the table of routes, for the API and for pages",
    },
    Confined {
        word: r"\bPreEscaped\b",
        realm: "src/faces/",
        homes: &[],
        why: "a page escapes everything",
    },
    Confined {
        word: r"#!?\[allow\(clippy::disallowed",
        realm: "src/",
        homes: &[],
        why: "an exception is an `expect` with a reason",
    },
];

/// Words outside their home, in the product's code.
pub fn confined(tree: &[Source]) -> Vec<String> {
    let mut wrong = Vec::new();
    for rule in &CONFINED {
        let word = Regex::new(rule.word).unwrap();
        for source in tree.iter().filter(|s| s.is_product() && s.path.starts_with(rule.realm)) {
            if rule.homes.iter().any(|home| source.path.starts_with(home)) {
                continue;
            }
            let code = source.code();
            for seen in word.find_iter(&code).filter(|seen| !names_a_type(&code, seen)) {
                let (line, text) = (line_of(&code, seen.start()), seen.as_str());
                wrong.push(format!("{}:{line}: `{text}`: {}", source.path, rule.why));
            }
        }
    }
    wrong
}

/// `-> Permit {` opens a function, it makes no permit.
fn names_a_type(code: &str, seen: &regex::Match<'_>) -> bool {
    let before = code[..seen.start()].trim_end();
    seen.as_str().ends_with('{') && (before.ends_with("->") || before.ends_with(" for"))
}

/// What was left behind: reminders, debugging, tests that are switched off.
pub fn leftovers(tree: &[Source]) -> Vec<String> {
    let reminder =
        Regex::new(&format!(r"\b(?:{}|{}|{}|{})\b", "TO\x44O", "FIX\x4dE", "X\x58X", "HA\x43K"));
    let reminder = reminder.unwrap();
    let code_only = Regex::new(r"\bdbg!|#\[ignore\b|#\[should_panic\]").unwrap();
    let mut wrong = Vec::new();
    for source in tree.iter().filter(|s| !s.path.ends_with(".lock")) {
        for seen in reminder.find_iter(&source.text) {
            let line = line_of(&source.text, seen.start());
            wrong.push(format!("{}:{line}: `{}`", source.path, seen.as_str()));
        }
        if source.is_rust() {
            let code = source.all_code();
            for seen in code_only.find_iter(&code) {
                let line = line_of(&code, seen.start());
                wrong.push(format!("{}:{line}: `{}`", source.path, seen.as_str()));
            }
        }
    }
    wrong
}

/// Tests that may sleep, and what they wait for that cannot be waited for otherwise.
const SLEEPERS: &[(&str, &str)] = &[
    (
        "tests/operator/crowd.rs",
        "a stranger's five seconds have to pass: the other process tells nobody that it kept a connection",
    ),
    (
        "tests/support/waiting.rs",
        "another process tells nobody when it is ready: it is asked again",
    ),
    (
        "tests/support/bench/folder.rs",
        "a bench measures when another process is ready: it is asked every millisecond",
    ),
    (
        "tests/simulation/approvals.rs",
        "virtual time: under the paused clock a sleep is the schedule of the world",
    ),
    (
        "tests/simulation/client.rs",
        "virtual time: under the paused clock a sleep is the schedule of the world",
    ),
    (
        "tests/simulation/faults.rs",
        "virtual time: under the paused clock a sleep is the schedule of the world",
    ),
    (
        "tests/simulation/life.rs",
        "virtual time: under the paused clock a sleep is the schedule of the world",
    ),
    (
        "tests/simulation/main.rs",
        "virtual time: under the paused clock a sleep is the schedule of the world",
    ),
    (
        "tests/simulation/script.rs",
        "virtual time: under the paused clock a sleep is the schedule of the world",
    ),
    (
        "tests/simulation/secrets.rs",
        "virtual time: under the paused clock a sleep is the schedule of the world",
    ),
    (
        "tests/simulation/streams.rs",
        "virtual time: under the paused clock a sleep is the schedule of the world",
    ),
    (
        "tests/simulation/threads.rs",
        "virtual time: under the paused clock a sleep is the schedule of the world",
    ),
    (
        "tests/simulation/tools.rs",
        "virtual time: under the paused clock a sleep is the schedule of the world",
    ),
    (
        "tests/simulation/world.rs",
        "virtual time: under the paused clock a sleep is the schedule of the world",
    ),
    (
        "tests/support/memory/mod.rs",
        "virtual time: an injected delay of the store, under the paused clock",
    ),
];

/// Tests that sleep: they are slow when they pass and flaky when they do not.
pub fn sleeps(tree: &[Source]) -> Vec<String> {
    let sleep = Regex::new(r"\bsleep(?:_until)?\s*\(").unwrap();
    let mut wrong = Vec::new();
    let tests = tree.iter().filter(|s| s.path.starts_with("tests/"));
    for source in tests.filter(|s| !SLEEPERS.iter().any(|(path, _)| *path == s.path)) {
        let code = if source.is_rust() {
            source.all_code()
        } else if source.path.ends_with(".py") {
            source.text.clone()
        } else {
            continue;
        };
        for seen in sleep.find_iter(&code) {
            let line = line_of(&code, seen.start());
            wrong.push(format!("{}:{line}: wait for what the test needs instead", source.path));
        }
    }
    let stale = SLEEPERS.iter().filter(|(path, _)| !tree.iter().any(|s| s.path == *path));
    wrong.extend(stale.map(|(path, _)| format!("{path} may sleep and does not exist")));
    wrong
}

/// Whether a digest in hexadecimal digits or in words (`operator::view::words`) may contain this text by chance.
fn may_be_chance(text: &str) -> bool {
    let is_hex = text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    let is_vowel = |b: u8| b"aiou".contains(&b);
    let is_spoken = text.bytes().all(|b| is_vowel(b) || b"bdfghjklmnprstvz".contains(&b));
    let turns = text.as_bytes().windows(2).all(|pair| is_vowel(pair[0]) != is_vowel(pair[1]));
    is_hex && text.len() <= 7 || is_spoken && turns && text.len() <= 5
}

/// Texts whose absence a test asserts, and that a random digest may contain: such a test fails once in a while.
pub fn by_chance(tree: &[Source]) -> Vec<String> {
    let absent = Regex::new(r#"(?:^|\W)!\s*[\w.&*()\[\]?]+?\.contains\("([^"\\]+)"\)"#).unwrap();
    let mut wrong = Vec::new();
    for source in tree.iter().filter(|s| s.path.starts_with("tests/") && s.is_rust()) {
        for seen in absent.captures_iter(&source.text).filter(|seen| may_be_chance(&seen[1])) {
            let (line, text) = (line_of(&source.text, seen.get(0).unwrap().start()), &seen[1]);
            wrong.push(format!(
                "{}:{line}: a digest may contain `{text}` by chance; look for a longer text",
                source.path
            ));
        }
    }
    wrong
}

/// Names of one machine or of one place to fetch from: they mean nothing in another clone.
pub fn machine_names(tree: &[Source]) -> Vec<String> {
    // Put together here, so that this file does not break its own rule.
    let hosts = ["pypi", "registry.npmjs", "files.pythonhosted", "deb.debian"];
    let hosts = hosts.map(|host| format!(r"{}\.org\b", host.replace('.', r"\.")));
    let folders = ["work", "root"].map(|name| format!(r#"(?:^|[\s"'`=(:])/{name}/"#));
    let all = Regex::new(&format!("(?m){}|{}", hosts.join("|"), folders.join("|"))).unwrap();
    let mut wrong = Vec::new();
    for source in tree.iter().filter(|s| s.path != "Cargo.lock") {
        for seen in all.find_iter(&source.text) {
            let line = line_of(&source.text, seen.start());
            wrong.push(format!("{}:{line}: `{}`", source.path, seen.as_str().trim()));
        }
    }
    wrong
}

#[test]
fn a_confined_construct_outside_its_files_is_found() {
    let broken = [
        ("src/gate/enforce/mod.rs", "let p = Permit { prepared };"),
        ("src/gate/enforce/mod.rs", "Permit::mint(judged, receipt)"),
        ("src/gate/tool/mod.rs", "Settled::mint(finished, receipt)"),
        ("src/gate/tool/mod.rs", "Refusal::mint(judged, receipt)"),
        ("src/gate/enforce/mod.rs", "Held::mint(judged, expires, receipt)"),
        ("src/gate/enforce/mod.rs", "Recalled::mint(call, state, receipt)"),
        ("src/gate/enforce/mod.rs", "Prepared::ready(call, tool)"),
        ("src/gate/enforce/mod.rs", "Prepared::refused(call, None, refusals)"),
        ("src/gate/tool/mod.rs", "ClearedOutcome::of(ended, false)"),
        ("src/gate/enforce/mod.rs", "call.with_masked_args(args)"),
        ("src/gate/judge/resumed.rs", "Judged { prepared, decision }"),
        ("src/gate/tool/http.rs", "use hyper_util::client::legacy::Client;"),
        ("src/gate/tool/http.rs", "use hyper_util::{client::legacy, rt};"),
        ("src/gate/enforce/mod.rs", "tokio::net::TcpStream::connect(addr)"),
        ("src/faces/serve/mod.rs", "tokio::net::lookup_host(name)"),
        ("src/gate/tool/http.rs", "tokio::spawn(work)"),
        ("src/record/domain/id.rs", "unsafe { x }"),
        ("src/faces/serve/mod.rs", "fn f() -> anyhow::Result<()> {}"),
        ("src/cli/mod.rs", "std::env::var_os(NAME)"),
        ("src/faces/serve/console/site.rs", "Visit::enter(console, request, Right::Look)"),
        ("src/faces/serve/console/pages/home.rs", "html! { (maud::PreEscaped(text)) }"),
    ];
    for (path, text) in broken {
        assert_eq!(confined(&[Source::of(path, text)]).len(), 1, "{path}: {text}");
    }
    let fine = [
        ("src/gate/ledger/permit.rs", "Self::Permit(Permit::mint(judged, receipt))"),
        ("src/gate/tool/mod.rs", "fn f() -> Permit {"),
        ("src/gate/tool/mod.rs", "Prepared::ready(call)"),
        ("src/gate/ledger/item.rs", "enum Item { Judged { at: u64 } }"),
        ("src/gate/tool/http_tests.rs", "TcpStream::connect(addr)"),
        ("src/gate/tool/net/connect.rs", "TcpStream::connect(addr)"),
        ("src/gate/tool/net.rs", "TcpStream::connect(addr)"),
        ("src/gate/ledger/sequencer.rs", "tokio::spawn(work)"),
        ("src/config.rs", "std::env::var(NAME)"),
        (
            "src/gate/judge/prepared.rs",
            "#[cfg(test)]\nmod tests {\n    Prepared::refused(call)\n}\n",
        ),
        ("src/record/domain/id.rs", "// nothing unsafe here\n"),
        ("tests/support/mod.rs", "tokio::spawn(work)"),
    ];
    for (path, text) in fine {
        assert_eq!(confined(&[Source::of(path, text)]), Vec::<String>::new(), "{path}: {text}");
    }
}

#[test]
fn a_leftover_is_found() {
    for text in ["// TO\x44O: later", "// FIX\x4dE", "d\x62g!(x);", "#[ig\x6eore]\nfn f() {}"] {
        assert_eq!(leftovers(&[Source::of("src/a.rs", text)]).len(), 1, "{text}");
    }
    assert_eq!(leftovers(&[Source::of("README.md", "TO\x44O")]).len(), 1);
    assert_eq!(leftovers(&[Source::of("src/a.rs", "\"a XXXXXX template\"")]), Vec::<String>::new());
}

#[test]
fn a_sleeping_test_is_found() {
    // Those that may sleep have to be there.
    let sleeps = |tree: &[Source]| {
        let known = SLEEPERS.iter().map(|(path, _)| Source::of(path, ""));
        let all: Vec<Source> =
            known.chain(tree.iter().map(|s| Source::of(&s.path, &s.text))).collect();
        sleeps(&all)
    };
    assert_eq!(sleeps(&[Source::of("tests/a.rs", "std::thread::sleep(d);")]).len(), 1);
    assert_eq!(sleeps(&[Source::of("tests/a/b.py", "time.sleep(1)")]).len(), 1);
    let fine = [Source::of("tests/a.rs", "// sleep(x)\n"), Source::of("src/a.rs", "sleep(d)")];
    assert_eq!(sleeps(&fine), Vec::<String>::new());
    assert!(SLEEPERS.iter().all(|(_, reason)| reason.len() > 20), "a sleeper says why");
}

#[test]
fn an_absent_text_that_a_digest_may_contain_is_found() {
    for text in ["1200", "beef", "iban", "dabai"] {
        let test = format!("assert!(!body.to_string().con\x74ains(\"{text}\"));");
        let found = by_chance(&[Source::of("tests/a.rs", &test)]).len();
        assert_eq!(found, usize::from(text != "dabai"), "{text}");
    }
    let fine = [
        Source::of(
            "tests/a.rs",
            "!body.con\x74ains(\"120012001200\") && !body.con\x74ains(\"DE02\")",
        ),
        Source::of("tests/a.rs", "body.con\x74ains(\"1200\")"),
        Source::of("src/a.rs", "!body.con\x74ains(\"1200\")"),
    ];
    assert_eq!(by_chance(&fine), Vec::<String>::new());
}

#[test]
fn a_machine_name_is_found() {
    let (work, host) = ("see /w\x6frk/main/x", "https://pyp\x69.org/simple");
    for text in [work, host, "\"/ro\x6ft/.cargo\""] {
        assert_eq!(machine_names(&[Source::of("README.md", text)]).len(), 1, "{text}");
    }
    let fine = Source::of("README.md", "target/work/x, src/root/y, ./home/agent");
    assert_eq!(machine_names(&[fine]), Vec::<String>::new());
}
