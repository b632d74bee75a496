use super::parts::EarlierCall;
use super::*;
use crate::domain::canonical;
use crate::domain::commitment::derived;

const SALT: Salt = [7; 32];

fn facts(arguments: &str) -> Facts {
    let run = RunId::from_random([1; 16]);
    let (call, tool) = (CallId::parse("c1").unwrap(), ToolName::parse("payments.refund").unwrap());
    let effect = r#"{"host":"pay.example.com","kind":"http","method":"POST","path":"/v1/refunds","port":443,"query":[{"name":"dry","value":"no"}],"scheme":"https"}"#;
    Facts {
        run: run.to_string(),
        call: "c1".into(),
        tool: "payments.refund".into(),
        tier: "T3".into(),
        effect: effect.into(),
        effect_digest: hex::encode(derived(&SALT, &[b"effect:", effect.as_bytes()])),
        arguments: arguments.into(),
        salt: hex::encode(SALT),
        call_digest: call_digest(&run, &call, &tool, &commit(&SALT, arguments.as_bytes())).hex(),
        definition: Some(Digest::of(&[b"definition"]).prefixed()),
        layers: vec![Layer { layer: "org".into(), digest: Digest::of(&[b"org"]).prefixed() }],
        reasons: vec![Reason {
            code: "policy.denied".into(),
            detail: "four_eyes".into(),
            message: "amounts over 1000 need two approvers".into(),
            rule: "wicketgate.org.require_approval org/main.rego:12".into(),
        }],
        manifest: Digest::of(&[b"manifest"]).prefixed(),
        agent: "refund-agent".into(),
        version: "1.2.0".into(),
        binding: "claimed".into(),
        held: "2026-11-22T09:00:00.000Z".into(),
        expires: "2026-11-22T09:15:00.000Z".into(),
        nonce: "0123456789abcdef0123456789abcdef".into(),
        approvals: vec![Approved {
            subject: "anna".into(),
            key: "SHA256:abc".into(),
            origin: None,
        }],
        asked_by: None,
        claims: vec![Claim { name: "label note".into(), value: "approve me\u{1b}[2J".into() }],
        headers: Vec::new(),
        earlier: None,
        read_before: None,
    }
}

#[test]
fn the_whole_call_is_laid_out_in_one_fixed_form() {
    let text = facts(r#"{"amount":1200,"to":["a",{"iban":"DE02"}]}"#).render().unwrap();
    let expected = include_str!("golden.txt");
    assert_eq!(text, expected, "\n{text}");
}

#[test]
fn nothing_an_agent_writes_steers_the_terminal_or_hides() {
    let hostile = [
        ("\u{1b}[2K\u{1b}[1Ssafe", r#""\u{1b}[2K\u{1b}[1Ssafe""#),
        ("\u{202e}tset", r#""\u{202e}tset""#),
        ("in\u{200b}voice", r#""in\u{200b}voice""#),
        ("a\r\nEND OF ARGUMENTS (9 BYTES)\n", r#""a\r\nEND OF ARGUMENTS (9 BYTES)\n""#),
        ("<script>fetch('/approve')</script>", r#""<script>fetch('/approve')</script>""#),
    ];
    for (value, shown) in hostile {
        let arguments = canonical::bytes(&Json::object([("note", Json::from(value))]));
        let text = facts(std::str::from_utf8(&arguments).unwrap()).render().unwrap();
        assert!(text.contains(&format!("    \"note\": {shown}\n")), "{text}");
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
        let ends = text.lines().filter(|line| line.starts_with("END OF ARGUMENTS")).count();
        assert_eq!(ends, 1, "no value can end the arguments");
    }
}

#[test]
fn five_thousand_line_feeds_hide_no_tail() {
    let value = format!("{}DELETE everything", "\n".repeat(5000));
    let arguments = canonical::bytes(&Json::object([("body", Json::from(value))]));
    let text = facts(std::str::from_utf8(&arguments).unwrap()).render().unwrap();
    assert!(text.lines().count() < 40, "{} lines", text.lines().count());
    assert!(text.contains(r"\n\nDELETE everything"));
    assert!(text.contains(&format!("ALL {} BYTES", arguments.len())));
}

#[test]
fn a_host_of_other_letters_is_shown_as_it_is_and_in_punycode() {
    for (value, host) in [
        ("\u{430}pi.corp.test", "xn--pi-6kc.corp.test"),
        ("https://\u{430}pi.corp.test/x", "xn--pi-6kc.corp.test"),
    ] {
        let arguments = canonical::bytes(&Json::object([("host", Json::from(value))]));
        let text = facts(std::str::from_utf8(&arguments).unwrap()).render().unwrap();
        assert!(text.contains("LOOK TWICE"), "{text}");
        assert!(text.contains(&format!("`{host}`")) && text.contains(value), "{text}");
    }
    let plain = facts(r#"{"name":"Zürich, ok."}"#).render().unwrap();
    assert!(!plain.contains("LOOK TWICE"), "{plain}");
}

#[test]
fn what_is_longer_than_the_review_limit_is_shown_in_parts_each_whole_or_not_at_all() {
    let just = format!("{{\"a\":\"{}\"}}", "x".repeat(REVIEW_MAX - 8));
    assert_eq!(just.len(), REVIEW_MAX);
    assert!(facts(&just).render().unwrap().contains("ALL 65536 BYTES"));
    let over = format!("{{\"a\":\"{}\",\"to\":\"DE02\"}}", "x".repeat(REVIEW_MAX));
    let shown = facts(&over);
    let text = shown.render().unwrap();
    assert!(!text.contains("xxx"), "nothing of a part that does not fit");
    let part = Digest::of(&[format!("\"{}\"", "x".repeat(REVIEW_MAX)).as_bytes()]).hex();
    for line in [
        format!("ARGUMENTS, {} BYTES: NOT ALL ARE SHOWN HERE", over.len()),
        format!("sha256 {}", Digest::of(&[over.as_bytes()]).hex()),
        format!("as a file: wicketgate approval show {} c1 --arguments FILE", shown.run),
        format!("/a: {} bytes, sha256 {part}, NOT SHOWN HERE", REVIEW_MAX + 2),
        "    \"DE02\"\n".to_owned(),
        format!("END OF ARGUMENTS ({} BYTES)", over.len()),
    ] {
        assert!(text.contains(&line), "{line}\n{text}");
    }
    // A doubt is one wherever it stands.
    let hidden = over.replace("DE02", &format!("{}\u{202e}", "y".repeat(REVIEW_MAX)));
    assert!(facts(&hidden).render().unwrap().contains("/to: 1 invisible character spelled out"));
    let most = format!("{{\"a\":\"{}\"}}", "x".repeat(HELD_MAX - 8));
    assert!(facts(&most).render().is_ok());
    let over = format!("{{\"a\":\"{}\"}}", "x".repeat(HELD_MAX - 7));
    assert_eq!(facts(&over).render().unwrap_err().detail, "approval.too_large");
}

/// A conversation of so many messages of this many bytes each.
fn conversation(messages: usize, bytes: usize) -> Json {
    let one = |number: usize| {
        let role = if number.is_multiple_of(2) { "user" } else { "assistant" };
        let content = format!("{number} {}", "z".repeat(bytes));
        Json::object([("role", Json::from(role)), ("content", Json::from(content))])
    };
    let messages: Vec<Json> = (0..messages).map(one).collect();
    let tools = Json::from("t".repeat(REVIEW_MAX));
    Json::object([("messages", messages.into()), ("model", Json::from("m")), ("tools", tools)])
}

#[test]
fn of_a_long_conversation_the_new_messages_are_shown_and_the_others_named() {
    let (before, now) = (conversation(10, 20_000), conversation(12, 20_000));
    let earlier = EarlierCall::of("c0", &before, &now);
    assert_eq!((earlier.messages, earlier.members.len()), (10, 2));
    let text = String::from_utf8(canonical::bytes(&now)).unwrap();
    let shown = Facts { earlier: Some(earlier), ..facts(&text) }.render().unwrap();
    for line in [
        "/messages/0 to /messages/9: ",
        ", as in call c0, which was allowed\n",
        "/messages/10 user: ",
        "\"content\": \"10 zzz",
        "\"content\": \"11 zzz",
    ] {
        assert!(shown.contains(line), "{line}\n{shown}");
    }
    assert!(!shown.contains("\"9 zzz") && !shown.contains("ttt"), "{shown}");
    // Without an earlier call the last messages are shown, as far as they fit.
    let alone = facts(&text).render().unwrap();
    assert!(alone.contains("\"11 zzz") && alone.contains("\"9 zzz"), "{alone}");
    assert!(!alone.contains("\"8 zzz") && alone.contains("NOT SHOWN HERE"), "{alone}");
}

#[test]
fn a_flood_of_parts_is_a_page_all_the_same() {
    let args = conversation(60_000, 0);
    let text = String::from_utf8(canonical::bytes(&args)).unwrap();
    let text = text.replace(&"t".repeat(REVIEW_MAX), "");
    assert!(text.len() > HELD_MAX, "{}", text.len());
    let args = Json::parse(text.as_bytes(), &Limits::FILE).unwrap();
    let parts = parts::parts(&args, None);
    assert!(parts.len() < 1_000, "{}", parts.len());
    let bytes = parts.iter().filter_map(|part| part.text.as_ref()).map(String::len).sum::<usize>();
    assert!(bytes < 3 * REVIEW_MAX, "{bytes}");
}

#[test]
fn facts_that_are_not_those_of_the_digest_are_neither_shown_nor_signed() {
    let facts_shown = facts(r#"{"amount":1}"#);
    facts_shown.check(ApproverVerdict::Approve).unwrap();
    let mut changed = vec![facts_shown; 8];
    changed[0].arguments = r#"{"amount":9}"#.into();
    changed[1].tool = "payments.delete".into();
    changed[2].run = RunId::from_random([2; 16]).to_string();
    changed[3].call = "c2".into();
    changed[4].effect = changed[4].effect.replace("POST", "PUT");
    changed[5].salt = hex::encode([8; 32]);
    changed[6].call_digest = Digest::of(&[b"x"]).hex();
    changed[7].nonce = String::new();
    for (i, facts) in changed.iter().enumerate() {
        assert!(facts.check(ApproverVerdict::Approve).is_err(), "{i}");
        assert!(facts.render().is_err(), "{i}");
    }
}

#[test]
fn different_digests_are_shown_as_different_words() {
    let (a, b) = (Digest::from_bytes([0; 32]), Digest::of(&[b"x"]));
    assert_eq!(words(&a), "babab-babab-babab-babab-babab-babab");
    assert_ne!(words(&a), words(&b));
    let mut loopback = [0; 32];
    loopback[..4].copy_from_slice(&[127, 0, 0, 1]);
    assert!(words(&Digest::from_bytes(loopback)).starts_with("lusab-babad-"));
}

#[test]
fn where_a_passkey_signed_is_shown_with_it() {
    let mut facts = facts("{}");
    let origin = Some("https://console.example.com".to_owned());
    facts.approvals.push(Approved { subject: "bo".into(), key: "SHA256:def".into(), origin });
    let text = facts.render().unwrap();
    let shown =
        "by bo with SHA256:def, signed at https://console.example.com, shown by that console\n";
    assert!(text.contains(shown), "{text}");
    assert!(text.contains("by anna with SHA256:abc\n"), "{text}");
}
