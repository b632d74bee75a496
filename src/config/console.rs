//! `console`: whether browsers are served at the operators' address, and by which origins.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::Url;

use super::operators::Operator;
use crate::serve::console::{BUILT, ConsoleSettings};

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
}

impl Console {
    /// What the operators' listener serves to browsers, if anything.
    pub fn settings(&self, operator: &Operator) -> Option<ConsoleSettings> {
        let usable = operator.listen.ip().is_loopback() || !self.origins.is_empty();
        let wanted = BUILT && self.enabled.unwrap_or(usable) && usable;
        wanted.then(|| ConsoleSettings { origins: self.origins.clone() })
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
    for (i, origin) in section.origins.iter().enumerate() {
        if let Err(why) = is_origin(origin, operator.tls.is_some()) {
            add(&format!("/console/origins/{i}"), why);
        }
    }
    problems
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
