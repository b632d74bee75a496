//! `console`: whether browsers are served at the operators' address, and by which origins.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::{Host, Url};

use super::operators::Operator;
use crate::catalog::form::FilePath;
use crate::crypto::private;
use crate::serve::console::{BUILT, ConsoleSettings, OidcSettings};

/// `console`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Console {
    /// Whether operators can use a browser at `/console` of `operator.listen`. Default: `true` if that is a loopback
    /// address or `origins` are set. Beyond loopback it needs `operator.tls` and one of `origins`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Origins of the console as browsers name them. Default: that of the request's own host, on loopback.
    #[schemars(length(max = 8), inner(length(max = 300)), example = ["https://hub.example.com:7301"])]
    pub origins: Vec<String>,
    /// The issuer of OpenID Connect where operators with `oidc` log in. It needs exactly one of `origins`; the issuer
    /// sends browsers back to `/console/login/oidc/callback` there. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    // WHY boxed: futures hold whole configurations, and have a limit.
    pub oidc: Option<Box<Oidc>>,
}

/// `console.oidc`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Oidc {
    /// The issuer, exactly as its tokens name it: an `https://` URL, or an `http://` one of this machine. Its document is
    /// at `/.well-known/openid-configuration` below it.
    #[schemars(length(min = 1, max = 512), example = "https://id.example.com/realms/acme")]
    pub issuer: String,
    /// The name under which the issuer knows this console.
    #[schemars(length(min = 1, max = 256))]
    pub client_id: String,
    /// The secret of this client.
    pub client_secret: ClientSecret,
    /// What the button of the login page calls the issuer: "Log in with NAME".
    #[serde(default = "issuer_name")]
    #[schemars(length(min = 1, max = 64))]
    pub name: String,
    /// Certificate authorities (PEM) to trust for https to the issuer, instead of the public ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<FilePath>")]
    pub ca: Option<PathBuf>,
}

/// `console.oidc.client_secret`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClientSecret {
    /// A file of mode 0600 that holds the secret. Each login reads it, so that it can be replaced at any time.
    #[schemars(with = "FilePath")]
    pub file: PathBuf,
}

fn issuer_name() -> String {
    "single sign-on".to_owned()
}

impl Console {
    /// What the operators' listener serves to browsers, if anything.
    pub fn settings(&self, operator: &Operator) -> Option<ConsoleSettings> {
        let usable = operator.listen.ip().is_loopback() || !self.origins.is_empty();
        let wanted = BUILT && self.enabled.unwrap_or(usable) && usable;
        let oidc = self.oidc.as_ref().zip(self.origins.first());
        let oidc = oidc.map(|(oidc, origin)| OidcSettings {
            issuer: oidc.issuer.clone(),
            client_id: oidc.client_id.clone(),
            client_secret: oidc.client_secret.file.clone(),
            name: oidc.name.clone(),
            ca: oidc.ca.clone(),
            origin: origin.clone(),
        });
        wanted.then(|| ConsoleSettings { origins: self.origins.clone(), oidc })
    }
}

/// Checks beyond the schema, each error with its place.
pub(super) fn check(value: &Value) -> Vec<(String, String)> {
    // What the schema refused is reported already.
    let section = value.get("console").and_then(|section| Console::deserialize(section).ok());
    let Some(section) = section else { return Vec::new() };
    let operator = value.get("operator").and_then(|one| Operator::deserialize(one).ok());
    let operator = operator.unwrap_or_default();
    let mut problems = Vec::new();
    let mut add = |at: &str, why: &str| problems.push((at.to_owned(), why.to_owned()));
    let wanted = section.enabled.unwrap_or(!section.origins.is_empty());
    if wanted && !BUILT {
        add("/console", "this program was built without the feature `console`");
    }
    if wanted && !operator.listen.ip().is_loopback() {
        if operator.tls.is_none() {
            add("/console", "beyond loopback the console needs `operator.tls`");
        }
        if section.origins.is_empty() {
            let why = "beyond loopback the console needs `origins`: the address in the browser, such as `https://hub.example.com:7301`";
            add("/console", why);
        }
    }
    for (at, why) in section.oidc.iter().flat_map(|oidc| of_oidc(oidc, section.origins.len())) {
        add(&format!("/console/oidc{at}"), &why);
    }
    for (i, origin) in section.origins.iter().enumerate() {
        if let Err(why) = is_origin(origin, operator.tls.is_some()) {
            add(&format!("/console/origins/{i}"), why);
        }
    }
    problems
}

/// What is wrong with `console.oidc` of a console with so many origins.
fn of_oidc(oidc: &Oidc, origins: usize) -> Vec<(&'static str, String)> {
    let mut problems = Vec::new();
    if origins != 1 {
        let why = "it needs exactly one of `console.origins`: the issuer sends browsers back there";
        problems.push(("", why.to_owned()));
    }
    if let Err(why) = is_issuer(&oidc.issuer) {
        problems.push(("/issuer", format!("`{}` {why}", oidc.issuer.escape_default())));
    }
    match private::line(&oidc.client_secret.file) {
        Err(why) => problems.push(("/client_secret/file", why.to_string())),
        Ok(secret) if secret.is_empty() => {
            problems.push(("/client_secret/file", "the file is empty".to_owned()));
        }
        Ok(_) => {}
    }
    let unread = |ca: &PathBuf| std::fs::read(ca).err().map(|e| format!("`{}`: {e}", ca.display()));
    problems.extend(oidc.ca.as_ref().and_then(unread).map(|why| ("/ca", why)));
    problems
}

/// Whether tokens can name an issuer so, and secrets may be sent to it.
fn is_issuer(text: &str) -> Result<(), &'static str> {
    let url = Url::parse(text).ok().filter(|_| text.bytes().all(|b| b.is_ascii_graphic()));
    let url = url.filter(|url| url.username().is_empty() && url.password().is_none());
    let Some((url, host)) = url.as_ref().and_then(|url| Some((url, url.host()?))) else {
        return Err("is no URL of an issuer");
    };
    if text.contains(['#', '?']) {
        return Err("has a query or a fragment, which no issuer has");
    }
    let near = match host {
        Host::Domain(name) => name == "localhost",
        Host::Ipv4(ip) => ip.is_loopback(),
        Host::Ipv6(ip) => ip.is_loopback(),
    };
    match (url.scheme(), near) {
        ("https", _) | ("http", true) => Ok(()),
        _ => Err("is not on this machine, so it must begin with `https://`"),
    }
}

/// Whether a browser names a page of this listener so.
fn is_origin(text: &str, tls: bool) -> Result<(), &'static str> {
    let url = Url::parse(text).ok().filter(|url| url.origin().ascii_serialization() == text);
    let Some(url) = url else {
        return Err(
            "expected an origin as browsers name it: scheme, host in lower case and port, such as `https://hub.example.com:7301`; leave out the port 443 of https",
        );
    };
    match (url.scheme(), tls) {
        ("https", true) | ("http", false) => Ok(()),
        (_, true) => Err("`operator.tls` is set: the origin begins with `https://`"),
        (_, false) => Err("`operator.tls` is not set: the origin begins with `http://`"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problems(value: &Value) -> String {
        let all = check(value).into_iter().map(|(at, why)| format!("{at}: {why}\n"));
        all.collect()
    }

    fn settings(value: &Value) -> Option<Vec<String>> {
        let read = |name: &str| value.get(name).cloned().unwrap_or_else(|| json!({}));
        let console = Console::deserialize(read("console")).unwrap();
        let operator = Operator::deserialize(read("operator")).unwrap();
        console.settings(&operator).map(|settings| settings.origins)
    }

    #[test]
    fn it_is_on_on_loopback_and_beyond_it_only_with_an_origin() {
        assert_eq!(settings(&json!({})), Some(Vec::new()));
        assert_eq!(settings(&json!({"console": {"enabled": false}})), None);
        let public = json!({"listen": "0.0.0.0:7301"});
        assert_eq!(settings(&json!({"operator": public})), None);
        assert_eq!(problems(&json!({"operator": public})), "");
        let origin = "https://hub.example.com:7301";
        let with = json!({"operator": public, "console": {"origins": [origin]}});
        assert_eq!(settings(&with), Some(vec![origin.to_owned()]));
        assert!(problems(&with).contains("needs `operator.tls`"), "{}", problems(&with));
        let asked = problems(&json!({"operator": public, "console": {"enabled": true}}));
        assert!(
            asked.contains("needs `operator.tls`") && asked.contains("needs `origins`"),
            "{asked}"
        );
        assert_eq!(settings(&json!({"operator": public, "console": {"enabled": true}})), None);
    }

    #[test]
    fn an_issuer_is_one_https_url_and_needs_one_origin_to_come_back_to() {
        for text in [
            "https://id.example.com",
            "https://id.example.com/realms/acme/",
            "http://127.0.0.1:5556/dex",
            "http://localhost:8080/realms/acme",
            "http://[::1]:5556",
        ] {
            assert_eq!(is_issuer(text), Ok(()), "{text}");
        }
        for text in [
            "http://id.example.com",
            "http://127.0.0.1.example.com",
            "https://id.example.com?x=1",
            "https://id.example.com#anna",
            "https://anna@id.example.com",
            "https://id.example.com/ä",
            "id.example.com",
            "file:///etc",
            "",
        ] {
            assert!(is_issuer(text).is_err(), "{text}");
        }
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("secret");
        let with = |origins: &[&str]| {
            let oidc = json!({"issuer": "http://localhost:1", "client_id": "console",
                "client_secret": {"file": file}});
            problems(&json!({"console": {"origins": origins, "oidc": oidc}}))
        };
        crate::crypto::keys::keep_secret(&file, b"s").unwrap();
        assert_eq!(with(&["http://localhost:7301"]), "");
        assert!(with(&[]).contains("exactly one of `console.origins`"));
        assert!(with(&["http://localhost:7301", "http://127.0.0.1:7301"]).contains("exactly one"));
        std::fs::write(&file, "").unwrap();
        assert!(with(&["http://localhost:7301"]).contains("is empty"));
        std::fs::remove_file(&file).unwrap();
        assert!(with(&["http://localhost:7301"]).contains("/client_secret/file"));
    }

    #[test]
    fn an_origin_is_what_a_browser_sends() {
        for (text, tls) in [
            ("https://hub.example.com:7301", true),
            ("https://hub.example.com", true),
            ("https://[::1]:7301", true),
            ("http://localhost:7301", false),
        ] {
            assert_eq!(is_origin(text, tls), Ok(()), "{text}");
        }
        for text in [
            "https://hub.example.com/",
            "https://hub.example.com:443",
            "https://Hub.example.com",
            "https://a@hub.example.com",
            "hub.example.com",
            "null",
            "",
            "http://hub.example.com",
            "file:///x",
        ] {
            assert!(is_origin(text, true).is_err(), "{text}");
        }
        assert!(is_origin("https://localhost:7301", false).is_err());
    }
}
