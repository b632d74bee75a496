//! An issuer of OpenID Connect that does what it should, or anything else.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use parking_lot::Mutex;
use serde_json::{Value, json};
use url::Url;
use wicketgate::clock::{Clock as _, SystemClock, SystemEntropy, random32};
use wicketgate::domain::digest::Digest;
use wicketgate::serve::console::OidcSettings;
use wicketgate_support::tokens::TokenSigner;

pub const CLIENT: &str = "console";
/// With what a form has to write otherwise.
pub const SECRET: &str = "a secret: +/%";

/// What is wrong with an answer.
#[derive(Clone, Copy)]
pub enum Fault {
    /// Longer than any.
    Huge,
    /// Never complete.
    Slow,
    /// Leads to `/elsewhere`.
    Moved,
    Status(u16),
    /// No JSON.
    Words,
}

/// Makes the ID token of a login out of its sound header and claims.
pub type Mint = Box<dyn Fn(&TokenSigner, Value, Value) -> String + Send>;

pub struct IssuerState {
    pub document: Value,
    /// The keys; the first one signs.
    pub keys: Vec<TokenSigner>,
    pub subject: String,
    pub mint: Mint,
    pub faults: BTreeMap<&'static str, Fault>,
    /// Whether it names itself in its answers.
    pub iss: Option<String>,
    /// The paths it was asked for.
    pub asked: Vec<String>,
    codes: BTreeMap<String, BTreeMap<String, String>>,
}

pub struct FakeIssuer {
    pub url: String,
    pub state: Arc<Mutex<IssuerState>>,
    dir: tempfile::TempDir,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for FakeIssuer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub fn sound() -> Mint {
    Box::new(|signer, header, claims| signer.token(&header, &claims))
}

fn pairs(query: &str) -> BTreeMap<String, String> {
    url::form_urlencoded::parse(query.as_bytes()).into_owned().collect()
}

impl FakeIssuer {
    /// An issuer with this key.
    pub async fn start(key: TokenSigner) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/realm", listener.local_addr().unwrap());
        let document = json!({"issuer": url, "authorization_endpoint": format!("{url}/authorize?kind=x"),
            "token_endpoint": format!("{url}/token"), "jwks_uri": format!("{url}/keys"),
            "response_types_supported": ["code"]});
        let state = Arc::new(Mutex::new(IssuerState {
            document,
            keys: vec![key],
            subject: "00u1".to_owned(),
            mint: sound(),
            faults: BTreeMap::new(),
            iss: None,
            asked: Vec::new(),
            codes: BTreeMap::new(),
        }));
        let router = axum::Router::new().fallback(answer).with_state(Arc::clone(&state));
        let task = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        let dir = tempfile::tempdir().unwrap();
        wicketgate::crypto::keys::keep_secret(&dir.path().join("secret"), SECRET.as_bytes())
            .unwrap();
        Self { url, state, dir, task }
    }

    /// What a console at this origin knows of it.
    pub fn settings(&self, origin: &str) -> OidcSettings {
        OidcSettings {
            issuer: self.url.clone(),
            client_id: CLIENT.to_owned(),
            client_secret: self.dir.path().join("secret"),
            name: "Acme <ID>".to_owned(),
            ca: None,
            origin: origin.to_owned(),
        }
    }

    /// What a person does at this address: they log in, and are sent back there.
    pub fn visit(&self, address: &str) -> Url {
        let address = Url::parse(address).unwrap();
        self.state.lock().approve(address.query().unwrap())
    }
}

impl IssuerState {
    /// Where it sends a browser that came with this query.
    fn approve(&mut self, query: &str) -> Url {
        let asked = pairs(query);
        let mut back = Url::parse(&asked["redirect_uri"]).unwrap();
        let code = hex::encode(random32(&SystemEntropy));
        back.query_pairs_mut().append_pair("code", &code).append_pair("state", &asked["state"]);
        if let Some(iss) = &self.iss {
            back.query_pairs_mut().append_pair("iss", iss);
        }
        self.codes.insert(code, asked);
        back
    }

    /// The answer to a code.
    fn exchange(&mut self, authorization: &str, form: &str) -> (u16, Value) {
        let form = pairs(form);
        let half = |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect();
        let (id, secret): (String, String) = (half(CLIENT), half(SECRET));
        let basic = format!("Basic {}", STANDARD.encode(format!("{id}:{secret}")));
        let is = |name: &str, value: &str| form.get(name).is_some_and(|one| one == value);
        // It takes the secret in one place, and not in the other one.
        let methods = &self.document["token_endpoint_auth_methods_supported"];
        let known = match *methods == json!(["client_secret_post"]) {
            true => {
                authorization.is_empty() && is("client_id", CLIENT) && is("client_secret", SECRET)
            }
            false => authorization == basic && !form.contains_key("client_secret"),
        };
        if !known {
            return (401, json!({"error": "invalid_client"}));
        }
        let Some(asked) = self.codes.remove(&form["code"]) else {
            return (400, json!({"error": "invalid_grant"}));
        };
        let verifier = Digest::of(&[form["code_verifier"].as_bytes()]);
        let proved = URL_SAFE_NO_PAD.encode(verifier.as_bytes()) == asked["code_challenge"];
        if !proved || form["redirect_uri"] != asked["redirect_uri"] {
            return (400, json!({"error": "invalid_grant"}));
        }
        let now = SystemClock::new().now().seconds();
        let claims = json!({"iss": self.document["issuer"], "sub": self.subject, "aud": CLIENT,
            "iat": now, "exp": now + 300, "nonce": asked["nonce"], "groups": ["operator", "admin"],
            "roles": ["operator"], "email": "otto@example.com", "preferred_username": "otto"});
        let token = (self.mint)(&self.keys[0], self.keys[0].header(), claims);
        (200, json!({"access_token": "x", "token_type": "Bearer", "id_token": token}))
    }
}

async fn answer(State(state): State<Arc<Mutex<IssuerState>>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = to_bytes(body, 1 << 20).await.unwrap();
    let mut state = state.lock();
    let path = parts.uri.path().trim_start_matches("/realm").to_owned();
    state.asked.push(path.clone());
    let whole = |status: u16, body: String| {
        let kind = ("content-type", "application/json");
        Response::builder().status(status).header(kind.0, kind.1).body(Body::from(body)).unwrap()
    };
    match state.faults.get(path.as_str()) {
        None => {}
        Some(Fault::Huge) => return whole(200, format!(r#"{{"x":"{}"}}"#, "x".repeat(1 << 20))),
        Some(Fault::Slow) => {
            let begun = tokio_stream::StreamExt::chain(
                tokio_stream::iter([Ok::<_, std::io::Error>("{")]),
                tokio_stream::pending(),
            );
            return Response::new(Body::from_stream(begun));
        }
        Some(Fault::Moved) => {
            let to = ("location", "/realm/elsewhere");
            return Response::builder().status(307).header(to.0, to.1).body(Body::empty()).unwrap();
        }
        Some(Fault::Status(status)) => return whole(*status, "{}".to_owned()),
        Some(Fault::Words) => return whole(200, "<html>".to_owned()),
    }
    match path.as_str() {
        "/.well-known/openid-configuration" => whole(200, state.document.to_string()),
        "/keys" => {
            let keys: Vec<Value> = state.keys.iter().map(TokenSigner::published).collect();
            whole(200, json!({"keys": keys}).to_string())
        }
        "/authorize" => {
            let back = state.approve(parts.uri.query().unwrap());
            let link =
                format!("<!DOCTYPE html><title>ID</title><a href=\"{back}\">Yes, it is me</a>");
            Response::builder().header("content-type", "text/html").body(link.into()).unwrap()
        }
        "/token" => {
            let header = parts.headers.get("authorization");
            let header = header.map_or("", |value| value.to_str().unwrap());
            let (status, answer) = state.exchange(header, std::str::from_utf8(&body).unwrap());
            whole(status, answer.to_string())
        }
        _ => whole(404, "{}".to_owned()),
    }
}
