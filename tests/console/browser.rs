//! What a browser does, without its scripts: it keeps a cookie, follows links and sends forms.

use crate::api::{ApiServer, token};

/// An answer.
pub struct Seen {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Seen {
    /// The value of a header that stands once.
    #[track_caller]
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.head.lines().filter_map(|line| {
            let (one, value) = line.split_once(": ")?;
            one.eq_ignore_ascii_case(name).then_some(value)
        });
        let first = found.next();
        assert!(found.next().is_none(), "{name} twice: {}", self.head);
        first
    }

    /// The cookies that it sets, each with its rules.
    pub fn cookies(&self) -> Vec<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(name, _)| *name == "set-cookie").map(|(_, value)| value).collect()
    }

    /// The origin that a browser sends with a form of this page (Fetch, "append a request `Origin` header"): none is
    /// named under a policy that hides it.
    #[track_caller]
    pub fn origin_of_forms(&self) -> &'static str {
        match self.header("referrer-policy") {
            Some("no-referrer") => "null",
            Some("same-origin") => "http://localhost",
            other => panic!("decide what browsers send under {other:?}"),
        }
    }

    /// The token of the form that is sent to this path.
    #[track_caller]
    pub fn token(&self, action: &str) -> String {
        let (_, form) = self.body.split_once(&format!(r#"action="{action}""#)).unwrap();
        let (_, rest) = form.split_once(r#"name="form" value=""#).unwrap();
        rest.split('"').next().unwrap().to_owned()
    }

    /// Every value of an attribute.
    pub fn attributes(&self, name: &str) -> Vec<String> {
        let begins = format!(r#" {name}=""#);
        let parts = self.body.split(&begins).skip(1);
        parts.map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
    }
}

/// One browser, logged in or not.
pub struct Browser<'a> {
    pub api: &'a ApiServer,
    pub cookie: String,
}

pub const SAME: &str = "Origin: http://localhost\r\nSec-Fetch-Site: same-origin\r\n";
pub const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";

/// A form as it is sent.
pub fn encoded(fields: &[(&str, &str)]) -> String {
    url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish()
}

impl<'a> Browser<'a> {
    pub const fn new(api: &'a ApiServer) -> Self {
        Self { api, cookie: String::new() }
    }

    /// The browser of this person, logged in.
    pub async fn of(api: &'a ApiServer, who: &str) -> Self {
        let mut browser = Self::new(api);
        let seen = browser.log_in(&token(who)).await;
        assert_eq!(
            (seen.status, seen.header("location")),
            (303, Some("/console")),
            "{}",
            seen.body
        );
        browser
    }

    /// Sends the form of the login, and keeps the cookie of the answer.
    pub async fn log_in(&mut self, token: &str) -> Seen {
        let seen = self.send("/console/login", &[("token", token)]).await;
        if let Some(cookie) = seen.header("set-cookie") {
            self.cookie = cookie.split(';').next().unwrap().to_owned();
        }
        seen
    }

    /// One request with these headers, and the cookie.
    pub async fn raw(&self, line: &str, headers: &str, body: &str) -> Seen {
        let cookie = match self.cookie.as_str() {
            "" => String::new(),
            cookie => format!("Cookie: {cookie}\r\n"),
        };
        let (status, head, body) = self.api.raw(line, &format!("{cookie}{headers}"), body).await;
        Seen { status, head, body }
    }

    pub async fn get(&self, path: &str) -> Seen {
        self.raw(&format!("GET {path}"), "", "").await
    }

    /// Sends a form.
    pub async fn send(&self, path: &str, fields: &[(&str, &str)]) -> Seen {
        self.raw(&format!("POST {path}"), &format!("{SAME}{FORM}"), &encoded(fields)).await
    }
}
