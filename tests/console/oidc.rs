//! Logging in at an issuer: who comes in by it, and everything that must not.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Arc;

use serde_json::{Value, json};
use url::Url;
use wicketgate::domain::code::Code;
use wicketgate::operator::operators::{Member, OidcSubject, Operators, Role};
use wicketgate_support::ports::Port;
use wicketgate_support::program;
use wicketgate_support::tokens::{TokenSigner, signed_part, with_secret};

use crate::api::{ApiServer, Extras};
use crate::browser::{Browser, SAME, Seen};
use crate::issuer::{FakeIssuer, Fault, Mint, sound};
use crate::sessions::{Moved, assert_out};

const ORIGIN: &str = "http://localhost";
const START: &str = "/console/login/oidc";
const CALLBACK: &str = "/console/login/oidc/callback";
/// What browsers send when another site leads to a page.
const LED: &str = "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n";

/// An approver, as the issuer of this name knows her.
pub fn ines(issuer: &FakeIssuer) -> Member {
    Member {
        subject: "ines".to_owned(),
        roles: BTreeSet::from([Role::Approver]),
        token_file: None,
        certificate: None,
        oidc: Some(OidcSubject { issuer: Some(issuer.url.clone()), subject: "00u1".to_owned() }),
    }
}

/// A console in front of an issuer with a new key, and its clock.
async fn stage() -> (FakeIssuer, ApiServer, Arc<Moved>) {
    let issuer = FakeIssuer::start(TokenSigner::ed("one")).await;
    let (clock, members) = (Moved::new(), vec![ines(&issuer)]);
    let oidc = Some(issuer.settings(ORIGIN));
    let extras = Extras { members, oidc, ..Extras::default() };
    let api = ApiServer::with("default", Arc::<Moved>::clone(&clock), extras).await;
    (issuer, api, clock)
}

/// A login that began: the browser holds its secret, and is at this address of the issuer.
async fn begun<'a>(api: &'a ApiServer) -> (Browser<'a>, String) {
    let mut browser = Browser::new(api);
    let seen = browser.raw(&format!("GET {START}"), "Sec-Fetch-Site: same-origin\r\n", "").await;
    assert_eq!(seen.status, 303, "{}", seen.body);
    browser.cookie = seen.cookies()[0].split(';').next().unwrap().to_owned();
    (browser, seen.header("location").unwrap().to_owned())
}

/// The browser comes back with this address of ours.
async fn back(browser: &Browser<'_>, address: &Url) -> Seen {
    let query = address.query().unwrap_or_default();
    browser.raw(&format!("GET {CALLBACK}?{query}"), LED, "").await
}

/// A whole login, as far as it goes.
async fn log_in<'a>(api: &'a ApiServer, issuer: &FakeIssuer) -> (Browser<'a>, Seen) {
    let (mut browser, address) = begun(api).await;
    let seen = back(&browser, &issuer.visit(&address)).await;
    browser.cookie = session(&seen).unwrap_or_default();
    (browser, seen)
}

/// The cookie of the session that an answer opens.
fn session(seen: &Seen) -> Option<String> {
    let own = |cookie: &&&str| cookie.starts_with("wicketgate=");
    let all = seen.cookies();
    all.iter().find(own).map(|cookie| cookie.split(';').next().unwrap().to_owned())
}

#[track_caller]
fn assert_refused(seen: &Seen, status: u16, why: &str) {
    assert_eq!((seen.status, session(seen)), (status, None), "{why}: {}", seen.body);
    let cleared = seen.cookies().iter().any(|one| one.starts_with("wicketgate-login=;"));
    assert!(cleared, "{why}: {}", seen.head);
}

#[tokio::test]
async fn a_person_of_the_issuer_has_the_roles_of_the_configuration_whatever_the_claims_say() {
    let (issuer, api, clock) = stage().await;
    let page = Browser::new(&api).get("/console/login").await;
    assert!(page.attributes("href").contains(&START.to_owned()), "{}", page.body);
    assert!(page.body.contains("Log in with Acme &lt;ID&gt;"), "{}", page.body);
    for key in [TokenSigner::rsa("rsa"), TokenSigner::ec("ec"), TokenSigner::ed("ed")] {
        let alg = key.header()["alg"].clone();
        issuer.state.lock().keys.insert(0, key);
        let (browser, address) = begun(&api).await;
        let address = Url::parse(&address).unwrap();
        let sent = |name: &str| {
            let mut values = address.query_pairs().filter(|(one, _)| one == name);
            let value = values.next().map(|(_, value)| value.into_owned());
            assert!(values.next().is_none(), "{name} twice");
            value.unwrap_or_default()
        };
        assert!(address.as_str().starts_with(&format!("{}/authorize?", issuer.url)));
        for (name, value) in [
            ("kind", "x"),
            ("response_type", "code"),
            ("client_id", "console"),
            ("redirect_uri", "http://localhost/console/login/oidc/callback"),
            ("scope", "openid"),
            ("code_challenge_method", "S256"),
        ] {
            assert_eq!(sent(name), value, "{address}");
        }
        let secret = browser.cookie.split_once('=').unwrap().1.to_owned();
        assert!(!address.as_str().contains(&secret), "the secret stays in the browser");
        let seen = back(&browser, &issuer.visit(address.as_str())).await;
        assert_eq!(seen.status, 200, "{alg}: {}", seen.body);
        assert_eq!(seen.header("refresh"), Some("0; url=/console"));
        let mut browser = browser;
        browser.cookie = session(&seen).unwrap();
        let page = browser.get("/console/logout").await;
        let who = format!("oidc {}#00u1", issuer.url);
        for part in ["ines", "approver", who.as_str()] {
            assert!(page.body.contains(part), "{part}: {}", page.body);
        }
        assert_eq!(browser.get("/console").await.status, 200);
        assert_eq!(browser.get("/console/orders/new").await.status, 403, "a claim is no role");
        assert_eq!(browser.get("/v1/runs").await.status, 401, "good for the console only");
        let form = page.token("/console/logout");
        assert_out(&browser.send("/console/logout", &[("form", &form)]).await);
        assert_out(&browser.get("/console").await);
        clock.minutes(1);
    }
    let forbidden = |code: &&Code| **code == Code::OperatorForbidden;
    assert_eq!(api.refused.lock().iter().filter(forbidden).count(), 3);
}

#[tokio::test]
async fn the_cookie_of_a_login_is_short_lived_and_the_one_of_its_session_strict() {
    let (issuer, api, _) = stage().await;
    let seen = Browser::new(&api).get(START).await;
    let (pair, rules) = seen.header("set-cookie").unwrap().split_once("; ").unwrap();
    assert!(pair.starts_with("wicketgate-login=") && pair.len() == 17 + 64, "{pair}");
    assert_eq!(rules, "Path=/; HttpOnly; SameSite=Lax; Max-Age=600");
    let (_, seen) = log_in(&api, &issuer).await;
    let cookies = seen.cookies();
    assert_eq!(cookies.len(), 2, "{cookies:?}");
    let rules: Vec<&str> = cookies.iter().map(|one| one.split_once("; ").unwrap().1).collect();
    assert_eq!(
        rules,
        ["Path=/; HttpOnly; SameSite=Strict", "Path=/; HttpOnly; SameSite=Strict; Max-Age=0"]
    );
}

/// Ways to mint a token that must not count.
fn wrong_tokens(public: &Value) -> Vec<(&'static str, Mint)> {
    let claims = |change: fn(&mut Value)| -> Mint {
        Box::new(move |signer, header, mut claims| {
            change(&mut claims);
            signer.token(&header, &claims)
        })
    };
    let header = |change: fn(&mut Value)| -> Mint {
        Box::new(move |signer, mut header, claims| {
            change(&mut header);
            signer.token(&header, &claims)
        })
    };
    let key = public["x"].as_str().unwrap().to_owned();
    let whole = public.to_string();
    let hs256 = |secret: String| -> Mint {
        Box::new(move |_, mut header, claims| {
            header["alg"] = json!("HS256");
            with_secret(secret.as_bytes(), &header, &claims)
        })
    };
    vec![
        ("another issuer", claims(|c| c["iss"] = json!("https://evil.example"))),
        ("another client", claims(|c| c["aud"] = json!("other"))),
        ("one client of several", claims(|c| c["aud"] = json!(["console", "other"]))),
        ("another party", claims(|c| c["azp"] = json!("other"))),
        ("expired", claims(|c| c["exp"] = json!(c["iat"].as_i64().unwrap() - 120))),
        ("old", claims(|c| c["iat"] = json!(c["iat"].as_i64().unwrap() - 3600))),
        ("of the future", claims(|c| c["iat"] = json!(c["iat"].as_i64().unwrap() + 3600))),
        ("no nonce", claims(|c| drop(c.as_object_mut().unwrap().remove("nonce")))),
        ("another nonce", claims(|c| c["nonce"] = json!("0".repeat(64)))),
        ("no subject", claims(|c| drop(c.as_object_mut().unwrap().remove("sub")))),
        ("the subject of no operator", claims(|c| c["sub"] = json!("00u2"))),
        ("a name in place of the subject", claims(|c| c["sub"] = json!("ines"))),
        ("alg none", header(|h| h["alg"] = json!("none"))),
        ("an unknown key", header(|h| h["kid"] = json!("two"))),
        ("no key", header(|h| drop(h.as_object_mut().unwrap().remove("kid")))),
        ("critical headers", header(|h| h["crit"] = json!(["b64"]))),
        (
            "alg none without a signature",
            Box::new(|_, mut header, claims| {
                header["alg"] = json!("none");
                format!("{}.", signed_part(&header, &claims))
            }),
        ),
        ("HS256 with the public key", hs256(key)),
        ("HS256 with all of the public key", hs256(whole)),
        ("another key", {
            let other = TokenSigner::ed("one");
            Box::new(move |_, header, claims| other.token(&header, &claims))
        }),
        ("no token", Box::new(|_, _, _| String::new())),
    ]
}

#[tokio::test]
async fn a_token_that_is_not_for_this_login_opens_no_session_and_is_counted() {
    let (issuer, api, clock) = stage().await;
    let public = issuer.state.lock().keys[0].published();
    for (n, (why, mint)) in wrong_tokens(&public).into_iter().enumerate() {
        issuer.state.lock().mint = mint;
        let (_, seen) = log_in(&api, &issuer).await;
        assert_refused(&seen, 401, why);
        assert_eq!(api.refused.lock().len(), n + 1, "{why}: counted once");
        clock.minutes(1);
    }
    assert!(api.refused.lock().iter().all(|code| *code == Code::IdentityMissing));
    issuer.state.lock().mint = sound();
    assert_eq!(log_in(&api, &issuer).await.1.status, 200, "the issuer is as before");
}

#[tokio::test]
async fn an_answer_counts_once_in_time_and_in_the_browser_where_the_login_began() {
    let (issuer, api, clock) = stage().await;
    let (browser, address) = begun(&api).await;
    let answer = issuer.visit(&address);
    let with = |name: &str, value: Option<&str>| {
        let kept = answer.query_pairs().filter(|(one, _)| one != name);
        let kept: Vec<(String, String)> = kept.map(|(n, v)| (n.into(), v.into())).collect();
        let mut changed = answer.clone();
        changed.query_pairs_mut().clear().extend_pairs(kept);
        if let Some(value) = value {
            changed.query_pairs_mut().append_pair(name, value);
        }
        changed
    };
    let (stranger, _) = begun(&api).await;
    assert_refused(&back(&stranger, &answer).await, 401, "in another browser");
    assert_refused(&back(&Browser::new(&api), &answer).await, 401, "in a browser without a login");
    assert_refused(&back(&browser, &with("state", None)).await, 401, "no state");
    assert_refused(&back(&browser, &with("state", Some(&"0".repeat(64)))).await, 401, "a state");
    let mut twice = answer.clone();
    twice.query_pairs_mut().append_pair("code", "x");
    assert_refused(&back(&browser, &twice).await, 401, "two codes");
    let asked = issuer.state.lock().asked.clone();
    assert_eq!(asked, ["/.well-known/openid-configuration"], "no code was shown to the issuer");
    assert_eq!(back(&browser, &answer).await.status, 200);
    assert_refused(&back(&browser, &answer).await, 401, "again");
    clock.minutes(1);
    // A code that was used, in a login that is sound otherwise.
    let (browser, address) = begun(&api).await;
    let code = answer.query_pairs().find(|(name, _)| name == "code").unwrap().1.into_owned();
    let mut next = issuer.visit(&address);
    let state = next.query_pairs().find(|(name, _)| name == "state").unwrap().1.into_owned();
    next.query_pairs_mut().clear().append_pair("code", &code).append_pair("state", &state);
    assert_refused(&back(&browser, &next).await, 401, "a used code");
    // A code of another login: its challenge is not of this browser.
    let ((browser, address), (_, foreign)) = (begun(&api).await, begun(&api).await);
    let (own, foreign) = (issuer.visit(&address), issuer.visit(&foreign));
    let part = |of: &Url, name: &str| {
        of.query_pairs().find(|(one, _)| one == name).unwrap().1.into_owned()
    };
    let mut mixed = own.clone();
    mixed.query_pairs_mut().clear().append_pair("code", &part(&foreign, "code"));
    mixed.query_pairs_mut().append_pair("state", &part(&own, "state"));
    assert_refused(&back(&browser, &mixed).await, 401, "a stolen code");
    let (browser, address) = begun(&api).await;
    clock.minutes(10);
    assert_refused(&back(&browser, &issuer.visit(&address)).await, 401, "too late");
}

#[tokio::test]
async fn an_answer_of_another_issuer_is_refused_before_its_code_is_shown() {
    let (issuer, api, clock) = stage().await;
    let own = issuer.url.clone();
    issuer.state.lock().iss = Some("https://evil.example".to_owned());
    assert_refused(&log_in(&api, &issuer).await.1, 401, "not announced");
    issuer.state.lock().document["authorization_response_iss_parameter_supported"] = json!(true);
    clock.minutes(6);
    for (iss, why) in [
        (Some("https://evil.example".to_owned()), "announced"),
        (Some(format!("{own}/")), "nearly"),
        (None, "missing"),
    ] {
        issuer.state.lock().iss = iss;
        assert_refused(&log_in(&api, &issuer).await.1, 401, why);
    }
    assert!(!issuer.state.lock().asked.contains(&"/token".to_owned()));
    issuer.state.lock().iss = Some(own);
    assert_eq!(log_in(&api, &issuer).await.1.status, 200);
}

/// One of the faults never ends: it takes the five seconds that the console waits for an issuer.
#[tokio::test]
async fn an_issuer_that_does_not_work_opens_no_session_and_is_followed_nowhere() {
    let (issuer, api, clock) = stage().await;
    const DOCUMENT: &str = "/.well-known/openid-configuration";
    for (path, fault) in [
        (DOCUMENT, Fault::Slow),
        (DOCUMENT, Fault::Huge),
        (DOCUMENT, Fault::Moved),
        (DOCUMENT, Fault::Status(500)),
        (DOCUMENT, Fault::Words),
    ] {
        issuer.state.lock().faults = [(path, fault)].into();
        let seen = Browser::new(&api).get(START).await;
        assert_eq!((seen.status, seen.cookies().len()), (503, 0), "{}", seen.body);
    }
    let url = issuer.url.clone();
    issuer.state.lock().faults.clear();
    for (name, value) in [
        ("issuer", json!(format!("{url}/"))),
        ("issuer", json!("https://evil.example")),
        ("token_endpoint", json!("http://evil.example/token")),
        ("jwks_uri", json!("file:///etc/passwd")),
        ("authorization_endpoint", json!("javascript:alert(1)")),
    ] {
        let sound = issuer.state.lock().document.clone();
        issuer.state.lock().document[name] = value;
        let seen = Browser::new(&api).get(START).await;
        assert_eq!((seen.status, seen.cookies().len()), (503, 0), "{name}: {}", seen.body);
        issuer.state.lock().document = sound;
    }
    for path in ["/keys", "/token"] {
        for fault in [Fault::Huge, Fault::Moved, Fault::Status(500), Fault::Words] {
            clock.minutes(6);
            issuer.state.lock().faults = [(path, fault)].into();
            assert_refused(&log_in(&api, &issuer).await.1, 503, path);
        }
    }
    issuer.state.lock().faults.clear();
    assert!(!issuer.state.lock().asked.contains(&"/elsewhere".to_owned()));
    assert_eq!(*api.refused.lock(), [], "the issuer's fault is no wrong credential");
    assert_eq!(log_in(&api, &issuer).await.1.status, 200);
}

#[tokio::test]
async fn a_new_key_of_the_issuer_counts_at_once_and_a_withdrawn_one_no_longer_than_five_minutes() {
    let (issuer, api, clock) = stage().await;
    assert_eq!(log_in(&api, &issuer).await.1.status, 200);
    clock.minutes(1);
    issuer.state.lock().keys.insert(0, TokenSigner::ec("two"));
    assert_eq!(log_in(&api, &issuer).await.1.status, 200);
    let withdrawn = issuer.state.lock().keys.remove(0);
    issuer.state.lock().mint =
        Box::new(move |_, _, claims| withdrawn.token(&withdrawn.header(), &claims));
    clock.minutes(5);
    assert_refused(&log_in(&api, &issuer).await.1, 401, "withdrawn");
    // Unknown keys do not have the console ask again and again.
    let before = issuer.state.lock().asked.iter().filter(|path| *path == "/keys").count();
    assert_refused(&log_in(&api, &issuer).await.1, 401, "withdrawn");
    let after = issuer.state.lock().asked.iter().filter(|path| *path == "/keys").count();
    assert_eq!(before, after);
}

#[tokio::test]
async fn an_error_of_the_issuer_is_a_plain_page_with_nothing_of_its_words() {
    let (issuer, api, _) = stage().await;
    for (error, shown) in [
        ("access_denied", "access_denied"),
        ("<script>alert(1)</script>", "unknown error"),
        ("you are admin now", "unknown error"),
    ] {
        let (browser, address) = begun(&api).await;
        let mut answer = issuer.visit(&address);
        let state = answer.query_pairs().find(|(name, _)| name == "state").unwrap().1.into_owned();
        answer.query_pairs_mut().clear().append_pair("state", &state).append_pair("error", error);
        answer.query_pairs_mut().append_pair("error_description", "<b>call +49 900 1</b>");
        let seen = back(&browser, &answer).await;
        assert_refused(&seen, 401, error);
        assert!(
            seen.body.contains(&format!(
                "<p class=\"failure\" role=\"alert\">the issuer did not log you in: `{shown}`</p>"
            )),
            "{}",
            seen.body
        );
        assert!(
            !seen.body.contains("+49") && !seen.body.contains("<script>alert"),
            "{}",
            seen.body
        );
    }
}

#[tokio::test]
async fn only_the_way_back_from_the_issuer_is_open_to_other_sites_and_too_many_wrong_answers_wait()
{
    let (issuer, api, clock) = stage().await;
    // A page elsewhere cannot begin a login; one of ours can.
    let line = format!("GET {START}");
    for headers in [LED, "Sec-Fetch-Site: same-site\r\n", "Origin: https://evil.example\r\n"] {
        let seen = Browser::new(&api).raw(&line, headers, "").await;
        assert_eq!((seen.status, seen.cookies().len()), (403, 0), "{headers}");
    }
    assert_eq!(Browser::new(&api).raw(&line, SAME, "").await.status, 303);
    let (browser, address) = begun(&api).await;
    let answer = issuer.visit(&address);
    let query = answer.query().unwrap();
    for (line, headers) in [
        (format!("POST {CALLBACK}?{query}"), LED),
        (format!("GET {CALLBACK}?{query}"), "Origin: https://evil.example\r\n"),
        (format!("GET {CALLBACK}/x?{query}"), LED),
        (format!("GET /console/login?{query}"), LED),
    ] {
        let seen = browser.raw(&line, headers, "").await;
        assert_eq!((seen.status, seen.cookies().len()), (403, 0), "{line}");
    }
    assert_eq!(back(&browser, &answer).await.status, 200);
    for _ in 0..10 {
        assert_eq!(back(&browser, &answer).await.status, 401);
    }
    let seen = back(&browser, &answer).await;
    assert_refused(&seen, 429, "guessing");
    assert!(seen.header("retry-after").is_some(), "{}", seen.head);
    assert_eq!(log_in(&api, &issuer).await.1.status, 200, "a sound login never waits");
    clock.minutes(1);
    assert_eq!(back(&browser, &answer).await.status, 401);
}

#[tokio::test]
async fn a_session_of_a_person_ends_with_their_entry_with_time_and_with_disuse() {
    let (issuer, api, clock) = stage().await;
    let (idle, _) = log_in(&api, &issuer).await;
    clock.minutes(14);
    assert_eq!(idle.get("/console").await.status, 200);
    clock.minutes(15);
    assert_out(&idle.get("/console").await);
    let (used, _) = log_in(&api, &issuer).await;
    for _ in 0..47 {
        clock.minutes(10);
        assert_eq!(used.get("/console").await.status, 200);
    }
    clock.minutes(10);
    assert_out(&used.get("/console").await);
    let (browser, _) = log_in(&api, &issuer).await;
    assert_eq!(browser.get("/console").await.status, 200);
    let another = Member {
        oidc: Some(OidcSubject { subject: "00u2".to_owned(), ..ines(&issuer).oidc.unwrap() }),
        ..ines(&issuer)
    };
    api.handler.set_operators(Operators::load(&[another]).unwrap());
    assert_out(&browser.get("/console").await);
    assert_refused(&log_in(&api, &issuer).await.1, 401, "removed");
}

#[tokio::test]
async fn a_login_gives_a_new_id_and_ends_the_session_that_the_browser_had() {
    let (issuer, api, _) = stage().await;
    let (first, _) = log_in(&api, &issuer).await;
    let (mut browser, address) = begun(&api).await;
    let chosen = "ab".repeat(32);
    browser.cookie = format!("{}; wicketgate={chosen}", browser.cookie);
    let seen = back(&browser, &issuer.visit(&address)).await;
    assert!(!session(&seen).unwrap().contains(&chosen));
    let (mut browser, address) = begun(&api).await;
    browser.cookie = format!("{}; {}", browser.cookie, first.cookie);
    assert!(session(&back(&browser, &issuer.visit(&address)).await).is_some());
    assert_out(&first.get("/console").await);
    // Browsers send the cookie of a session where a login begins, and hold it back on the way back.
    let (second, _) = log_in(&api, &issuer).await;
    assert_eq!(second.raw(&format!("GET {START}"), SAME, "").await.status, 303);
    assert_out(&second.get("/console").await);
}

#[tokio::test]
async fn without_an_issuer_there_is_no_way_there() {
    let api = ApiServer::open().await;
    for path in [START, CALLBACK] {
        assert_eq!(Browser::new(&api).get(path).await.status, 404, "{path}");
    }
    assert!(!Browser::new(&api).get("/console/login").await.body.contains(START));
}

#[tokio::test]
async fn the_secret_goes_into_the_body_only_where_the_issuer_takes_it_there_alone() {
    let (issuer, api, clock) = stage().await;
    for methods in [
        json!(["client_secret_post"]),
        json!(["client_secret_basic"]),
        json!(["client_secret_post", "client_secret_basic"]),
        json!([]),
    ] {
        issuer.state.lock().document["token_endpoint_auth_methods_supported"] = methods;
        clock.minutes(6);
        assert_eq!(log_in(&api, &issuer).await.1.status, 200);
    }
}

/// A browser of the machine goes to the issuer, which is another site, and comes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_with_chromium_logs_in_at_the_issuer_without_and_with_scripts() {
    let home = std::env::var("WICKETGATE_TEST_CONSOLE").expect("tests/run sets it");
    let issuer = FakeIssuer::start(TokenSigner::rsa("one")).await;
    let port = Port::claim();
    let origin = format!("http://localhost:{}", port.number());
    let (members, oidc) = (vec![ines(&issuer)], Some(issuer.settings(&origin)));
    let extras = Extras { port: port.number(), members, oidc, ..Extras::default() };
    let clock = Arc::new(wicketgate::clock::SystemClock::new());
    let _api = ApiServer::with("default", clock, extras).await;
    let mut command = Command::new(format!("{home}/python/bin/python"));
    command.arg("-B").arg(program::top().join("tests/console/chromium_oidc.py"));
    command.arg(format!("{origin}/console"));
    let done = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let seen: Value = serde_json::from_slice(&done.stdout).unwrap();
    let visit = ["Log in", "ID", "What waits", "Your session", "Log in"];
    assert_eq!(seen, json!({"with scripts": visit, "without scripts": visit, "faults": []}));
}
