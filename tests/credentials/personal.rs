//! Personal data that a policy has masked, in every encoding and out of every kind of tool: it is masked, or nothing
//! of the answer is released, and the books say which.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::encodings;
use crate::kinds::{answering, tells};
use crate::world::World;

const MASK: &str = "obligations contains {\"type\": \"redact\", \"kinds\": [\"card\", \"email\", \"iban\", \"us_ssn\"]}\n";
const MASK_WHAT_CAN_BE: &str = "obligations contains {\"type\": \"redact\", \"kinds\": [\"card\", \"email\", \"iban\", \"us_ssn\"], \"opaque\": \"allow\"}\n";

/// One of each kind, and some as people write them.
const PERSONAL: [(&str, &str); 7] = [
    ("email", "anna.berg@example.com"),
    ("email", "jo@mail.example.org"),
    ("card", "4111111111111111"),
    ("card", "5500-0000-0000-0004"),
    ("iban", "DE89370400440532013000"),
    ("iban", "GB29 NWBK 6016 1331 9268 19"),
    ("us_ssn", "219-09-9999"),
];

/// Every spelling of each of them, and its name.
fn spellings() -> Vec<(String, String)> {
    // What stands before it is no letter: that would make it a part of something else. Base64 has three places for
    // it, base32 five.
    let each = PERSONAL.iter().flat_map(|(kind, plain)| {
        ["", ":", ": ", " = ", "no. "].iter().flat_map(move |before| {
            let forms = encodings::forms(&format!("{before}{plain}")).into_iter();
            let forms = forms.filter(move |(name, _)| match name.split_once(" behind ") {
                Some((how, behind)) => behind == "0" && (how.contains("32") || before.len() < 3),
                None => before.is_empty(),
            });
            forms.map(move |(name, form)| (format!("{kind}, {name} behind `{before}`"), form))
        })
    });
    let more = [
        ("email, in UTF-16", "j\0o\0@\0m\0a\0i\0l\0.\0e\0x\0.\0o\0r\0g\0"),
        ("email, at an ideograph", "\u{90f5}jo@mail.example.org\u{4ef6}"),
        ("email, of another script", "jo@ex\u{e4}mple.org"),
        ("card, at an ideograph", "\u{5361}4111111111111111\u{53f7}"),
        ("card, after an underscore", "card_4111111111111111"),
        ("card, with dots", "4111.1111.1111.1111"),
        ("card, with wide dashes", "4111\u{2013}1111\u{2013}1111\u{2013}1111"),
        ("card, with no-break spaces", "4111\u{a0}1111\u{a0}1111\u{a0}1111"),
        (
            "card, in Arabic digits",
            "\u{664}\u{661}\u{661}\u{661}\u{661}\u{661}\u{661}\u{661}\u{661}\u{661}\u{661}\u{661}\u{661}\u{661}\u{661}\u{661}",
        ),
    ];
    each.chain(more.map(|(name, form)| (name.to_owned(), form.to_owned()))).collect()
}

/// What nobody needs to mask.
fn harmless() -> Vec<(String, String)> {
    let lines = (1..40).map(|n| {
        format!("2026-11-{n:02}T22:25:24.123456Z INFO {n} 10.0.0.{n} GET /api/v1/items/{n} 200")
    });
    let table =
        (0..30).map(|n| format!("{:>6} {:<12} {:>9}", 10_000 + n * 7, "Berlin Mitte", 2000 + n));
    let code = "@app.route('/a')\ndef f(x):\n    return x @ y.T\n\nimport lodash.merge@npm, git@host:repo\n";
    [
        ("prose", "The quick brown fox jumps over the lazy dog, and nobody minds. See page 12 of the report (2026).".repeat(20)),
        ("a log", lines.collect::<Vec<_>>().join("\n")),
        ("a table", table.collect::<Vec<_>>().join("\n")),
        ("code", code.repeat(5)),
        ("digests", format!("sha256:{} sha512-{}==", "0123456789abcdef".repeat(4), "Abc123Xy".repeat(10))),
        ("ids", "550e8400-e29b-41d4-a716-446655440000 req_01HZX7K3PQ 1763481123456 v2.14.0-rc.1".to_owned()),
        ("json", json!({"id": 7, "at": 1_763_481_123_456_u64, "x": 0.25, "tags": ["a", "b"]}).to_string()),
        ("base64 of text", "eyJoZWxsbyI6IndvcmxkIiwiYSI6WzEsMiwzXSwibmV4dCI6InBhZ2UtMiJ9".to_owned()),
        ("a path", "/usr/share/doc/python3-cryptography/examples/key-derivation/README-of-the-examples.md".to_owned()),
        ("another script", "\u{5f20}\u{4e09}\u{7684}\u{8ba2}\u{5355}\u{5df2}\u{53d1}\u{8d27} \u{2014} caf\u{e9}".to_owned()),
    ]
    .map(|(name, text)| (name.to_owned(), text))
    .into()
}

fn redaction(data: &Value) -> &Value {
    &data["observed"]["redaction"]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn personal_data_comes_out_of_no_tool_in_any_encoding() {
    let world = World::under(spellings(), MASK).await;
    assert!(world.forms.len() >= 100, "{} spellings", world.forms.len());
    let (mut masked, mut withheld) = (0_u64, 0_u64);
    for (n, (name, form)) in world.forms.iter().enumerate() {
        for (tool, args) in answering(&world, n) {
            // Starting a program takes its time: those two are told one in five.
            if n % 5 != 0 && matches!(tool, "prints" | "server.run") {
                continue;
            }
            match world.call(tool, &args).await {
                Ok(text) => {
                    let answer: Value = serde_json::from_str(&text).unwrap();
                    assert!(!tells(&answer, form), "{tool}, {name}: {answer}");
                    assert!(tells(&answer, "[REDACTED:"), "{tool}, {name}: {answer}");
                    masked += 1;
                }
                Err(refused) => {
                    assert_eq!(refused.detail, "firewall.opaque", "{tool}, {name}: {refused:?}");
                    assert!(!refused.message.contains(form.as_str()), "{tool}, {name}");
                    withheld += 1;
                }
            }
        }
    }
    world.agent.seal().await.unwrap();
    let World { estate, gate, .. } = world;
    gate.finish();
    let completed = estate.entries("call.completed");
    assert_eq!(completed.len() as u64, masked);
    for data in &completed {
        assert!(redaction(data)["masked"].as_u64().unwrap() > 0, "{data}");
        assert_eq!(redaction(data)["unscanned"], Value::Null, "{data}");
    }
    let failed = estate.entries("call.failed");
    assert_eq!(failed.len() as u64, withheld);
    for data in &failed {
        assert_eq!(data["class"], "firewall.opaque");
        assert!(redaction(data)["unscanned"].is_string(), "{data}");
    }
    assert!(masked > withheld * 20, "{masked} are masked, {withheld} withheld");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_personal_data_comes_out_as_it_is_although_it_is_looked_through() {
    let world = World::under(harmless(), MASK).await;
    for (n, (name, form)) in world.forms.iter().enumerate() {
        for (tool, args) in answering(&world, n) {
            let text = world.call(tool, &args).await;
            let text = text.unwrap_or_else(|why| panic!("{tool}, {name}: {why:?}"));
            let answer: Value = serde_json::from_str(&text).unwrap();
            assert!(tells(&answer, form.trim_end()), "{tool}, {name}: {answer}");
        }
    }
    world.agent.seal().await.unwrap();
}

/// Calls whose answers nobody can look through, by what the books call it.
fn opaque(world: &World) -> Vec<(&'static str, &'static str, Value)> {
    let latin1 = "M\u{fc}ller anna.berg@example.com";
    let path = |name: &str| world.estate.path(&format!("work/{name}"));
    let bytes: Vec<u8> = latin1.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect();
    std::fs::write(path("latin1"), &bytes).unwrap();
    std::fs::write(path("utf8"), "\u{e4} anna.berg@example.com and 4111111111111111").unwrap();
    std::fs::write(path("utf16"), [&[0xff, 0xfe][..], b"a\0@\0b\0.\0c\0o\0"].concat()).unwrap();
    let sql = |query: &str| json!({"query": query});
    let http = |kind: &str| json!({"text": latin1, "as": kind});
    let blob = "import base64, zlib, hashlib\nprint(base64.b64encode(b''.join(hashlib.sha256(bytes([n])).digest() for n in range(8))).decode())";
    let hexed =
        "import hashlib\nprint(''.join(hashlib.sha256(bytes([n])).hexdigest() for n in range(8)))";
    vec![
        ("binary", "file.read", json!({"path": "latin1"})),
        ("binary", "file.read", json!({"path": "utf16"})),
        ("binary", "file.read", json!({"path": "utf8", "offset": 1})),
        ("binary", "file.read", json!({"path": "utf8", "length": 1})),
        ("span", "file.read", json!({"path": "utf8", "offset": 0, "length": 9})),
        ("span", "file.read", json!({"path": "utf8", "offset": 9})),
        ("span", "file.read", json!({"path": "utf8", "offset": 34, "length": 8})),
        ("span", "file.read", json!({"path": "utf8", "offset": 2, "length": 1})),
        ("binary", "sql", sql("SELECT CAST('anna.berg@example.com' AS BLOB)")),
        ("binary", "sql", sql("SELECT n, CAST(text AS BLOB) FROM forms")),
        ("binary", "http", http("text/plain")),
        ("binary", "http", http("text/plain; charset=shift_jis")),
        ("binary", "http", http("text/plain; charset=utf-7")),
        ("binary", "http", http("application/octet-stream")),
        ("binary", "http", http("image/png")),
        ("encoded", "server.run", json!({"text": blob})),
        ("encoded", "server.run", json!({"text": hexed})),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unsearchable_data_is_not_released_and_the_ledger_records_why() {
    let forms = vec![("plain".to_owned(), "anna.berg@example.com".to_owned())];
    let world = World::under(forms, MASK).await;
    let calls = opaque(&world);
    for (why, tool, args) in &calls {
        let refused = world.call(tool, args).await.expect_err(why);
        assert_eq!(refused.code, "tool.failed", "{tool} {args}: {refused:?}");
        assert_eq!(refused.detail, "firewall.opaque", "{tool} {args}: {refused:?}");
        for part in ["anna", "example", "YW5uYS", "4111"] {
            assert!(!refused.message.contains(part), "{tool} {args}: {refused:?}");
        }
    }
    // The whole of a file is no part of it, however it is asked for.
    let size = std::fs::metadata(world.estate.path("work/utf8")).unwrap().len();
    for args in [json!({"path": "utf8"}), json!({"path": "utf8", "offset": 0, "length": size + 9})]
    {
        let text = world.call("file.read", &args).await.unwrap();
        assert!(text.contains("[REDACTED:email] and [REDACTED:card]"), "{text}");
    }
    let latin1 = json!({"text": "M\u{fc}ller anna.berg@example.com", "as": "text/plain; charset=iso-8859-1"});
    let text = world.call("http", &latin1).await.unwrap();
    assert!(text.contains("M\u{fc}ller [REDACTED:email]"), "{text}");
    world.agent.seal().await.unwrap();
    let World { estate, gate, .. } = world;
    gate.finish();
    let failed = estate.entries("call.failed");
    let said: Vec<_> = failed.iter().map(|data| redaction(data)["unscanned"].as_str()).collect();
    assert_eq!(said, calls.iter().map(|(why, ..)| Some(*why)).collect::<Vec<_>>());
    assert!(
        failed.iter().all(|data| data["class"] == "firewall.opaque" && data["started"] == true)
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_may_release_unsearchable_data_and_the_ledger_records_it_as_unscanned() {
    let forms = vec![("plain".to_owned(), "anna.berg@example.com".to_owned())];
    let world = World::under(forms, MASK_WHAT_CAN_BE).await;
    let calls = opaque(&world);
    for (_, tool, args) in &calls {
        let text =
            world.call(tool, args).await.unwrap_or_else(|why| panic!("{tool} {args}: {why:?}"));
        // What can be seen in it is masked all the same.
        assert!(!text.contains("anna.berg@example.com"), "{tool} {args}: {text}");
    }
    world.agent.seal().await.unwrap();
    let World { estate, gate, .. } = world;
    gate.finish();
    let authorized = estate.entries("call.authorized");
    assert!(authorized.iter().all(|data| data["obligations"][0]["opaque"] == "allow"));
    let completed = estate.entries("call.completed");
    let said: Vec<_> = completed.iter().map(|data| redaction(data)["unscanned"].as_str()).collect();
    assert_eq!(said, calls.iter().map(|(why, ..)| Some(*why)).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_error_messages_of_failed_tools_are_masked() {
    let world = World::under(Vec::new(), MASK).await;
    for (kind, plain) in PERSONAL {
        let fails = [
            ("grpc", json!({"act": "status", "message": format!("NOT_FOUND:no {plain} here")})),
            ("server.run", json!({"text": format!("raise OSError('no ' + {plain:?})")})),
        ];
        for (tool, args) in fails {
            let said = match world.call(tool, &args).await {
                Ok(text) => text,
                Err(refused) => format!("{} {}", refused.detail, refused.message),
            };
            assert!(!said.contains(plain), "{tool}: {said}");
            assert!(said.contains(&format!("[REDACTED:{kind}]")), "{tool}: {said}");
        }
    }
    world.agent.seal().await.unwrap();
    let World { estate, gate, .. } = world;
    gate.finish();
    let failed = estate.entries("call.failed");
    let plain: BTreeSet<&str> = PERSONAL.iter().map(|(_, plain)| *plain).collect();
    assert!(failed.len() >= plain.len());
    for data in &failed {
        let message = data["message"].as_str().unwrap();
        assert!(!plain.iter().any(|plain| message.contains(plain)), "{data}");
        assert!(redaction(data)["masked"].as_u64().unwrap() > 0, "{data}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_policy_sees_personal_data_in_encoded_arguments_and_sees_unreadable_parts() {
    let rules = "deny contains {\"code\": finding.kind, \"message\": finding.path} if some finding in input.findings\n";
    let world = World::under(Vec::new(), rules).await;
    for (name, form) in spellings() {
        let refused = world.call("http", &json!({"text": form})).await.expect_err(&name);
        // Digits of one kind may look like another one, too.
        let kinds = wicketgate::firewall::class_of(&refused.detail).is_some();
        assert!(refused.code == "policy.denied" && kinds, "{name}: {refused:?}");
    }
    let noise: Vec<u8> =
        (0..200_u32).map(|n| u8::try_from(n.wrapping_mul(2_654_435_761) >> 24).unwrap()).collect();
    let blob = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, &noise);
    for text in [blob.clone(), format!("data:image/png;base64,{blob}"), hex::encode(&noise)] {
        let refused = world.call("http", &json!({"text": text})).await.unwrap_err();
        assert_eq!(refused.detail, "unscanned", "{text}: {refused:?}");
    }
    for (name, form) in harmless() {
        let said = world.call("http", &json!({"text": form})).await;
        assert!(said.is_ok(), "{name}: {said:?}");
    }
}
