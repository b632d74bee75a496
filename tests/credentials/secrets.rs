//! Secrets that are not the gate's: by default they leave through no kind of tool, come back masked, and rest in no
//! byte that the gate keeps.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::kinds::{answering, around, carrying, holds, tells, whole};
use crate::world::{MARK, World};

/// A token of a code host, of no account.
fn token() -> String {
    ["ghp_", "b7Qk2Zr9Xw4Lm1Nc", "8Vd5Ht3Py6Js0Fg2Ra4e"].concat()
}

/// Secrets of several shapes, by name. WHY in parts: none of them stands in this file.
fn secrets() -> Vec<(String, String)> {
    let pem = [
        "-----BEGIN ",
        "PRIVATE KEY-----\n",
        &STANDARD.encode([7_u8; 48]),
        "\nMIIEvQIBADANBgkqhkiG9w0B",
    ];
    let pem = [&pem.concat(), "\n-----END ", "PRIVATE KEY-----"].concat();
    let url = ["postgres://app:", "9fKx2mQz7Lw4", "@db.internal:5432/orders"].concat();
    let id = ["AKIA", "Z7QX4LMN", "2RTV6WYB"].concat();
    [("token", token()), ("key", pem), ("url", url), ("id", id)]
        .map(|(name, text)| (name.to_owned(), text))
        .into()
}

/// Ends the gate; nothing that it keeps, said or exports holds one of these.
async fn kept_nowhere(world: World, secrets: &[(String, String)]) -> crate::estate::Estate {
    let said = world.call("http", &json!({"text": MARK})).await.unwrap();
    assert!(said.contains(MARK), "{said}");
    world.agent.seal().await.unwrap();
    let World { estate, gate, agent, .. } = world;
    let log = gate.said();
    gate.finish();
    let export = ["evidence", "export", "--config", "wicketgate.yaml", "--run", &agent.run];
    estate.run(&[&export[..], &["--out", "bundle-of-run", "--key", "evidence"]].concat());
    let kept = [
        ("the log", log.into_bytes()),
        ("the state", whole(&estate, "state")),
        ("the bundle", whole(&estate, "bundle-of-run")),
    ];
    for (name, secret) in secrets {
        // A part of it would do.
        let part: String = secret.chars().skip(secret.len() / 3).take(24).collect();
        for part in [secret.as_str(), part.as_str(), json!(secret).to_string().trim_matches('"')] {
            for (place, bytes) in &kept {
                assert!(!holds(bytes, part), "{place} holds it: {name}: {}", around(bytes, part));
            }
        }
    }
    for (place, bytes) in &kept[1..] {
        assert!(holds(bytes, MARK), "{place} does not hold what was said");
    }
    estate
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_goes_into_no_tool_and_the_refusal_says_what_to_do() {
    let world = World::knowing(Vec::new()).await;
    let before = world.reached();
    let mut carried = secrets();
    carried.push(("token in base64".to_owned(), STANDARD.encode(format!("key: {}!", token()))));
    for (n, (name, secret)) in carried.iter().enumerate() {
        let text = format!("use {secret} for it");
        for (tool, args) in carrying(&world, n, &text) {
            let refused = world.call(tool, &args).await.expect_err(tool);
            let (code, detail) = (refused.code.as_str(), refused.detail.as_str());
            assert_eq!(
                (code, detail),
                ("effect.refused", "dlp.secret"),
                "{tool}, {name}: {refused:?}"
            );
            let way = format!("firewall.tools.{tool}.");
            assert!(refused.message.contains(&way), "{tool}, {name}: {refused:?}");
            assert!(!refused.message.contains(secret.as_str()), "{tool}, {name}: {refused:?}");
        }
    }
    let named = json!({"path": "ws/named", "text": "x", (token()): 1});
    let refused = world.call("server.write", &named).await.unwrap_err();
    assert_eq!(refused.detail, "dlp.secret", "the name of a member: {refused:?}");
    assert!(!refused.message.contains(&token()), "{refused:?}");
    // A tool that there is not is refused as ever, and its arguments are not kept either.
    let refused = world.call("nothing", &json!({"text": token()})).await.unwrap_err();
    assert_eq!((refused.code.as_str(), refused.detail.as_str()), ("tool.not_granted", ""));
    assert_eq!(world.reached(), before, "nothing was told of it");
    let estate = kept_nowhere(world, &carried).await;
    let denied = estate.entries("call.denied");
    assert!(!denied.is_empty());
    for data in &denied {
        assert_eq!(data["args_withheld"], "secret", "{data}");
        assert_eq!(data["findings"][0]["class"], "secret", "{data}");
        assert!(data["firewall"].as_str().unwrap().starts_with("sha256:"), "{data}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_that_a_template_puts_together_leaves_in_no_body() {
    let world = World::knowing(Vec::new()).await;
    let before = world.reached();
    let secret = token();
    for at in [secret.len() / 3, secret.len() / 2, secret.len() - 1] {
        let (a, z) = secret.split_at(at);
        let refused = world.call("filled", &json!({"a": a, "m": "between them", "z": z})).await;
        let refused = refused.expect_err("the body holds the secret");
        assert_eq!(refused.detail, "dlp.secret", "cut at {at}: {refused:?}");
        assert!(!refused.message.contains(a), "{refused:?}");
    }
    assert_eq!(world.reached(), before, "nothing was sent");
    let fine = world.call("filled", &json!({"a": "good", "m": "-", "z": " morning"})).await;
    assert!(fine.is_ok(), "what the binding says itself is no secret of the agent: {fine:?}");
    kept_nowhere(world, &[("cut".to_owned(), secret)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_comes_out_of_no_tool_and_rests_nowhere() {
    let forms: Vec<_> =
        secrets().into_iter().map(|(name, text)| (name, format!("it is {text} indeed"))).collect();
    let world = World::knowing(forms).await;
    for (n, (name, secret)) in secrets().iter().enumerate() {
        for (tool, args) in answering(&world, n) {
            let text = world.call(tool, &args).await;
            let text = text.unwrap_or_else(|why| panic!("{tool}, {name}: {why:?}"));
            let answer: Value = serde_json::from_str(&text).unwrap();
            assert!(!tells(&answer, secret), "{tool}, {name}: {answer}");
            assert!(tells(&answer, "[REDACTED:"), "{tool}, {name}: {answer}");
        }
    }
    let estate = kept_nowhere(world, &secrets()).await;
    let completed = estate.entries("call.completed");
    let masked = completed.iter().filter(|data| data["observed"]["findings"] != Value::Null);
    let masked: Vec<_> = masked.collect();
    assert!(masked.len() >= secrets().len() * 6, "{}", masked.len());
    for data in masked {
        assert_eq!(data["observed"]["findings"][0]["action"], "redact", "{data}");
        assert!(data["observed"]["redaction"]["masked"].as_u64().unwrap() > 0, "{data}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_may_be_told_secrets_is_told_them_and_no_policy_and_no_ledger_is() {
    let rules = format!(
        "deny contains {{\"code\": \"seen\", \"message\": \"it was shown\"}} if contains(json.marshal(input), concat(\"\", [{:?}, {:?}]))\n\
         deny contains {{\"code\": \"no\", \"message\": \"not here\"}} if input.args.path == \"denied\"\n",
        // WHY in parts: the policy is kept, and its text is no secret's place.
        &token()[..20],
        &token()[20..],
    );
    let warn = json!({"arguments": {"secret": "warn"}});
    let firewall = json!({"tools": {"file.write": warn, "argv": warn}});
    let world = World::configured(Vec::new(), &rules, firewall).await;
    let text = format!("token = {}", token());
    let fixture = json!({"path": "fixture", "content": text});
    world.call("file.write", &fixture).await.unwrap();
    assert_eq!(std::fs::read_to_string(world.estate.path("work/fixture")).unwrap(), text);
    // What a program prints of it is masked all the same.
    let said = world.call("argv", &json!({"a": token()})).await.unwrap();
    assert!(said.contains("[REDACTED:") && !said.contains(&token()), "{said}");
    // A denial of the policy keeps as little as an allowed call does.
    let refused =
        world.call("file.write", &json!({"path": "denied", "content": text})).await.unwrap_err();
    assert_eq!(refused.detail, "no", "{refused:?}");
    // Other tools are not.
    let refused = world.call("http", &json!({"text": token()})).await.unwrap_err();
    assert_eq!(refused.detail, "dlp.secret", "{refused:?}");
    let estate = kept_nowhere(world, &[("token".to_owned(), token())]).await;
    let authorized = estate.entries("call.authorized");
    let told = authorized.iter().filter(|data| data["args_withheld"] == "secret");
    assert_eq!(told.count(), 2, "{authorized:?}");
    assert_eq!(authorized[0]["findings"][0]["action"], "warn", "{}", authorized[0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arguments_are_masked_before_they_are_judged_where_the_configuration_says_so() {
    let firewall = json!({"arguments": {"secret": "redact"}});
    let world = World::configured(Vec::new(), "", firewall).await;
    let args = json!({"text": format!("use {} now", token())});
    let said = world.agent.call("http", "same", &args.to_string()).await.unwrap();
    assert!(said.contains("use [REDACTED:"), "{said}");
    let told = world.told();
    assert!(told[0].contains("use [REDACTED:") && !told[0].contains(&token()), "{told:?}");
    // The same request again is the same call.
    let again = world.agent.call("http", "same", &args.to_string()).await.unwrap();
    assert_eq!(again, said);
    assert_eq!(world.told().len(), 1);
    // A member cannot have another name.
    let named = json!({"path": "ws/named", "text": "x", (token()): 1});
    let refused = world.call("server.write", &named).await.unwrap_err();
    assert_eq!(refused.detail, "dlp.secret", "{refused:?}");
    let estate = kept_nowhere(world, &[("token".to_owned(), token())]).await;
    let authorized = estate.entries("call.authorized");
    assert_eq!(authorized[0]["args_withheld"], Value::Null);
    assert_eq!(authorized[0]["findings"][0]["action"], "redact", "{}", authorized[0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_that_only_looks_like_a_secret_passes_as_it_is() {
    let texts = [
        "550e8400-e29b-41d4-a716-446655440000 req_01HZX7K3PQ 1763481123456 v2.14.0-rc.1",
        "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "postgres://db.internal:5432/orders and sk-some-slug-of-a-page and hf_hub_download",
        "let token = std::env::var(\"TOKEN\"); password: ${PASSWORD}",
        "git@host:group/project.git 2a0e4cd1d2f3b4a5968778695a4b3c2d1e0f9a8b",
    ];
    let forms: Vec<_> = texts.map(|text| (text.to_owned(), text.to_owned())).into();
    let world = World::knowing(forms.clone()).await;
    for (n, (_, text)) in forms.iter().enumerate() {
        for (tool, args) in carrying(&world, n, text).into_iter().chain(answering(&world, n)) {
            let said = world.call(tool, &args).await;
            let said = said.unwrap_or_else(|why| panic!("{tool}, {text}: {why:?}"));
            assert!(!said.contains("[REDACTED:"), "{tool}, {text}: {said}");
        }
    }
    world.agent.seal().await.unwrap();
}
