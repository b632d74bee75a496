//! One server of the user's as it will stand in `wicketgate.yaml`: its credentials taken out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::confine::Confined;
use super::expand::{self, ExpandError, ExpansionSources, expand, is_credential, looks_secret};
use super::shape::{Entry, Reach};
use crate::catalog::secret::Secret;
use crate::mcp::name::is_server;

/// Headers of the transport itself: the gate writes its own.
const TRANSPORT: [&str; 10] = [
    "accept",
    "accept-encoding",
    "connection",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "origin",
    "transfer-encoding",
    "user-agent",
];

/// One server, ready to be written.
#[derive(Clone)]
pub struct Draft {
    /// What the client calls it.
    pub client_name: String,
    /// What the gate calls it.
    pub name: String,
    /// `stdio` or `http` of its configuration, with paths relative to the configuration's directory.
    pub reach: (&'static str, Value),
    /// Files of credentials: path relative to the configuration's directory, and content.
    pub secrets: Vec<(String, Zeroizing<String>)>,
    /// Texts that are taken out of the client's file and may hold credentials.
    pub withheld: Vec<Zeroizing<String>>,
    /// What a person should know.
    pub notes: Vec<String>,
    /// What it runs in, if it is a program.
    pub confined: Confined,
}

/// Why an entry of a client has no form in the configuration of a gate.
#[derive(Debug, thiserror::Error)]
pub enum DraftError {
    /// A text with a form that cannot be expanded.
    #[error("{field}: {error}")]
    Expand {
        /// The field.
        field: String,
        /// What is wrong with the form.
        #[source]
        error: ExpandError,
    },
    /// Not a URL.
    #[error("url: {0}")]
    Url(#[from] url::ParseError),
    /// A URL that would be written down with its credential.
    #[error("url: remove the user and password, and send them in a header")]
    UrlCredential,
    /// A credential that the gate would not send.
    #[error("{0}: a credential must have 8 to 16,384 visible ASCII characters")]
    Credential(String),
}

impl DraftError {
    fn at(field: &str) -> impl Fn(ExpandError) -> Self + use<'_> {
        |error| Self::Expand { field: field.to_owned(), error }
    }
}

/// The origin of a credential.
enum CredentialOrigin {
    File(String),
    Env(String),
}

struct DraftWriter<'a> {
    name: &'a str,
    sources: &'a ExpansionSources<'a>,
    secrets: Vec<(String, Zeroizing<String>)>,
    withheld: Vec<Zeroizing<String>>,
    notes: Vec<String>,
}

impl Draft {
    /// The server of this entry under this name.
    ///
    /// # Errors
    /// Why it cannot be governed.
    pub fn of(
        entry: &Entry,
        name: &str,
        sources: &ExpansionSources<'_>,
    ) -> Result<Self, DraftError> {
        let mut writer = DraftWriter {
            name,
            sources,
            secrets: Vec::new(),
            withheld: Vec::new(),
            notes: Vec::new(),
        };
        if !entry.ignored.is_empty() {
            writer.notes.push(format!("has no effect here: {}", entry.ignored.join(", ")));
        }
        let reach = match &entry.reach {
            Reach::Stdio { command, args, env, cwd } => {
                ("stdio", writer.stdio(command, args, env, cwd.as_deref())?)
            }
            Reach::Http { url, headers } => ("http", writer.http(url, headers)?),
        };
        let DraftWriter { secrets, withheld, notes, .. } = writer;
        let (client_name, name) = (entry.name.clone(), name.to_owned());
        let confined = Confined::default();
        Ok(Self { client_name, name, reach, secrets, withheld, notes, confined })
    }

    /// Its configuration, as `wicketgate.yaml` has it; `said` is the configuration of its tools.
    pub fn config(&self, tools: &Value) -> Value {
        let (kind, reach) = &self.reach;
        let mut reach = reach.clone();
        if let (&"stdio", Value::Object(members)) = (kind, &mut reach) {
            self.confine(members);
        }
        json!({"name": self.name, *kind: reach, "tier": "T2", "tools": tools})
    }
}

impl Draft {
    /// Writes its sandbox; in one, its working directory is among its own paths.
    fn confine(&self, stdio: &mut serde_json::Map<String, Value>) {
        stdio.insert("sandbox".to_owned(), self.confined.config());
        let Some((_, grants)) = &self.confined.inside else { return };
        if !grants.args.is_empty() {
            stdio.insert("args".to_owned(), json!(grants.args));
        }
        let cwd = stdio.get("cwd").and_then(Value::as_str).map(Path::new);
        let given =
            |cwd: &Path| grants.read.iter().chain(&grants.write).any(|path| cwd.starts_with(path));
        if !cwd.is_some_and(given) {
            stdio.remove("cwd");
        }
    }
}

impl DraftWriter<'_> {
    fn stdio(
        &mut self,
        command: &str,
        args: &[String],
        env: &BTreeMap<String, String>,
        cwd: Option<&str>,
    ) -> Result<Value, DraftError> {
        let folder = self.sources.folder;
        let command = self.plain("command", command)?;
        // A command with a slash is relative to the client's directory.
        let command = if command.contains('/') {
            folder.join(&command).display().to_string()
        } else {
            command
        };
        let mut literal = Vec::new();
        for (i, arg) in args.iter().enumerate() {
            let text = self.plain(&format!("args[{i}]"), arg)?;
            if looks_secret(&text) {
                let note = format!(
                    "args[{i}] looks like a credential; it is now in wicketgate.yaml as it was in \
                     your file: pass it by a variable if the server can"
                );
                self.notes.push(note);
                self.withheld.push(Zeroizing::new(text.clone()));
            }
            literal.push(text);
        }
        let mut variables = BTreeMap::new();
        let mut credentials = Vec::new();
        for (variable, text) in env {
            let field = format!("env.{variable}");
            let value = expand(text, self.sources).map_err(DraftError::at(&field))?;
            if value.asked || is_credential(variable, &value.text) || self.is_reference(&value) {
                match self.credential(variable, &value, &value.text) {
                    Some(CredentialOrigin::File(file)) => {
                        credentials.push(json!({"env": variable, "file": file}));
                    }
                    Some(CredentialOrigin::Env(from)) => {
                        credentials.push(json!({"env": variable, "from_env": from}));
                    }
                    None => _ = variables.insert(variable.clone(), value.text.to_string()),
                }
            } else {
                variables.insert(variable.clone(), value.text.to_string());
            }
        }
        let cwd = match cwd {
            Some(cwd) => folder.join(self.plain("cwd", cwd)?),
            None => folder.to_owned(),
        };
        let mut value = json!({"command": command, "cwd": cwd});
        let mut insert = |name: &str, part: Value, empty: bool| {
            if let (Value::Object(members), false) = (&mut value, empty) {
                members.insert(name.to_owned(), part);
            }
        };
        insert("args", json!(literal), literal.is_empty());
        insert("env", json!(variables), variables.is_empty());
        insert("credentials", json!(credentials), credentials.is_empty());
        Ok(value)
    }

    fn http(&mut self, url: &str, headers: &BTreeMap<String, String>) -> Result<Value, DraftError> {
        let url = expand(url, self.sources).map_err(DraftError::at("url"))?.text;
        let mut url = url::Url::parse(&url)?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(DraftError::UrlCredential);
        }
        url.set_fragment(None);
        let mut credentials = self.query(&mut url);
        let mut literal = BTreeMap::new();
        for (header, text) in headers {
            let field = format!("headers.{header}");
            let value = expand(text, self.sources).map_err(DraftError::at(&field))?;
            let lower = header.to_ascii_lowercase();
            if TRANSPORT.contains(&lower.as_str()) || lower.starts_with("mcp-") {
                self.notes.push(format!("the gate writes the header `{header}` itself"));
                continue;
            }
            if !(value.asked || is_credential(header, &value.text) || self.is_reference(&value)) {
                literal.insert(lower, value.text.to_string());
                continue;
            }
            let (prefix, secret) = scheme(&value.text);
            let prefix = if value.before.is_empty() { prefix } else { value.before.as_str() };
            let source = self.credential(header, &value, secret);
            let source = source.ok_or_else(|| DraftError::Credential(field.clone()))?;
            let mut credential = json!({"header": lower});
            if let Value::Object(members) = &mut credential {
                if !prefix.is_empty() {
                    members.insert("prefix".to_owned(), json!(prefix));
                }
                let (name, from) = match source {
                    CredentialOrigin::File(file) => ("file", file),
                    CredentialOrigin::Env(variable) => ("env", variable),
                };
                members.insert(name.to_owned(), json!(from));
            }
            credentials.push(credential);
        }
        let private = private_addresses(&url);
        let mut value = json!({"url": url.as_str()});
        if let Value::Object(members) = &mut value {
            for (name, part) in [
                ("headers", json!(literal)),
                ("credentials", json!(credentials)),
                ("private_addresses", json!(private)),
            ] {
                let empty = part.as_object().is_some_and(serde_json::Map::is_empty)
                    || part.as_array().is_some_and(Vec::is_empty);
                if !empty {
                    members.insert(name.to_owned(), part);
                }
            }
        }
        Ok(value)
    }

    /// Takes credentials out of the query of a URL.
    fn query(&mut self, url: &mut url::Url) -> Vec<Value> {
        let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
        let secret = |(name, value): &(String, String)| {
            is_credential(name, value) && Secret::parse(value).is_ok()
        };
        if !pairs.iter().any(secret) {
            return Vec::new();
        }
        let (secrets, rest): (Vec<_>, Vec<_>) = pairs.into_iter().partition(secret);
        url.set_query(None);
        if !rest.is_empty() {
            url.query_pairs_mut().extend_pairs(rest);
        }
        let mut credentials = Vec::new();
        for (name, value) in secrets {
            let file = self.keep(&name, &value);
            credentials.push(json!({"query": name, "file": file}));
        }
        credentials
    }

    /// A text that may hold no credential.
    fn plain(&mut self, field: &str, text: &str) -> Result<String, DraftError> {
        let value = expand(text, self.sources).map_err(DraftError::at(field))?;
        if value.asked || self.is_reference(&value) {
            self.withheld.push(Zeroizing::new(value.text.to_string()));
            self.notes.push(format!(
                "{field} holds a credential; it is now in wicketgate.yaml: pass it by a variable if \
                 the server can"
            ));
        }
        Ok(value.text.to_string())
    }

    /// Whether it comes from a variable with a credential.
    fn is_reference(&self, value: &expand::Expanded) -> bool {
        value.variable.as_ref().is_some_and(|name| is_credential(name, &value.text))
    }

    /// Where the gate reads this credential; `None` if it cannot be one.
    fn credential(
        &mut self,
        name: &str,
        value: &expand::Expanded,
        secret: &str,
    ) -> Option<CredentialOrigin> {
        match &value.variable {
            Some(variable) => {
                let held = (self.sources.env)(variable).unwrap_or_default();
                Secret::parse(&held).ok().map(|_| CredentialOrigin::Env(variable.clone()))
            }
            None => {
                Secret::parse(secret).ok().map(|_| CredentialOrigin::File(self.keep(name, secret)))
            }
        }
    }

    fn keep(&mut self, name: &str, secret: &str) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' };
        let name: String = name.chars().map(plain).take(64).collect();
        let mut file = format!("credentials/{}.{name}", self.name);
        while self.secrets.iter().any(|(other, _)| *other == file) {
            file.push('-');
        }
        self.secrets.push((file.clone(), Zeroizing::new(secret.to_owned())));
        self.withheld.push(Zeroizing::new(secret.to_owned()));
        file
    }
}

/// `Bearer `, `Basic ` and the like before a credential, and the credential.
fn scheme(text: &str) -> (&str, &str) {
    match text.split_once(' ') {
        Some((scheme, rest)) if scheme.len() <= 16 && !rest.contains(' ') => {
            text.split_at_checked(scheme.len().saturating_add(1)).unwrap_or(("", text))
        }
        _ => ("", text),
    }
}

/// The ranges that have to be opened for a server on this machine or at a private address.
fn private_addresses(url: &url::Url) -> Vec<String> {
    let opened = |ip: std::net::IpAddr| {
        let bits = if ip.is_ipv4() { 32 } else { 128 };
        if crate::catalog::address::is_public(ip) {
            Vec::new()
        } else {
            vec![format!("{ip}/{bits}")]
        }
    };
    match url.host() {
        Some(url::Host::Ipv4(ip)) => opened(ip.into()),
        Some(url::Host::Ipv6(ip)) => opened(ip.into()),
        Some(url::Host::Domain(name)) if name == "localhost" || name.ends_with(".localhost") => {
            vec!["127.0.0.0/8".to_owned(), "::1/128".to_owned()]
        }
        Some(url::Host::Domain(_)) | None => Vec::new(),
    }
}

/// A valid name at the gate for each of these, in their order; all distinct.
pub fn names<'a>(given: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let mut names = Vec::new();
    for name in given {
        let plain = |c: char| {
            let c = c.to_ascii_lowercase();
            if c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' { c } else { '-' }
        };
        let mut made: String = name.chars().map(plain).collect();
        made = made.trim_matches('-').chars().take(32).collect();
        if !is_server(&made) {
            made = "server".to_owned();
        }
        let mut own = made.clone();
        let mut count = 1_usize;
        while !taken.insert(own.clone()) {
            count = count.saturating_add(1);
            let end = format!("-{count}");
            let free = 32_usize.saturating_sub(end.len());
            own = made.chars().take(free).chain(end.chars()).collect();
        }
        names.push(own);
    }
    names
}

/// The directory that a client's file is about: the project for files in `.vscode`, `.cursor`, ….
pub fn folder(file: &Path) -> PathBuf {
    let dir = file.parent().unwrap_or(Path::new("/"));
    let hidden = dir.file_name().and_then(|n| n.to_str()).is_some_and(|n| n.starts_with('.'));
    let project = hidden.then(|| dir.parent()).flatten();
    project.unwrap_or(dir).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft_of(reach: Reach) -> Result<Draft, DraftError> {
        let inputs =
            BTreeMap::from([("pat".to_owned(), Zeroizing::new("asked-secret".to_owned()))]);
        let env = |name: &str| match name {
            "MY_TOKEN" => Some("token-of-mine".to_owned()),
            "REGION" => Some("eu-central-1".to_owned()),
            _ => None,
        };
        let sources = ExpansionSources { env: &env, inputs: &inputs, folder: Path::new("/p") };
        let entry = Entry { name: "X".to_owned(), reach, disabled: false, ignored: Vec::new() };
        Draft::of(&entry, "x", &sources)
    }

    fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn credentials_of_a_program_leave_the_configuration() {
        let env = texts(&[
            ("API_KEY", "literal-secret"),
            ("GH", "${env:MY_TOKEN}"),
            ("MODE", "fast"),
            ("PAT", "${input:pat}"),
            ("REGION", "${REGION}"),
            ("SHORT_KEY", "abc"),
        ]);
        let args = vec!["-y".to_owned(), "${workspaceFolder}".to_owned()];
        let draft =
            draft_of(Reach::Stdio { command: "./run".into(), args, env, cwd: None }).unwrap();
        let expected = json!({"command": "/p/./run", "cwd": "/p", "args": ["-y", "/p"],
            "env": {"MODE": "fast", "REGION": "eu-central-1", "SHORT_KEY": "abc"},
            "credentials": [{"env": "API_KEY", "file": "credentials/x.API_KEY"},
                {"env": "GH", "from_env": "MY_TOKEN"}, {"env": "PAT", "file": "credentials/x.PAT"}]});
        assert_eq!(draft.reach, ("stdio", expected));
        let kept: Vec<_> = draft.secrets.iter().map(|(f, s)| (f.as_str(), s.as_str())).collect();
        let expected =
            [("credentials/x.API_KEY", "literal-secret"), ("credentials/x.PAT", "asked-secret")];
        assert_eq!(kept, expected);
    }

    #[test]
    fn credentials_of_a_url_leave_the_configuration() {
        let headers = texts(&[
            ("Authorization", "Bearer abcdefghij"),
            ("Content-Type", "application/json"),
            ("X-Api-Key", "${MY_TOKEN}"),
            ("X-Team", "blue"),
        ]);
        let url = "http://127.0.0.1:9/mcp?apiKey=0123456789&a=b".to_owned();
        let draft = draft_of(Reach::Http { url, headers }).unwrap();
        let expected = json!({"url": "http://127.0.0.1:9/mcp?a=b", "headers": {"x-team": "blue"},
            "private_addresses": ["127.0.0.1/32"],
            "credentials": [{"query": "apiKey", "file": "credentials/x.apiKey"},
                {"header": "authorization", "prefix": "Bearer ", "file": "credentials/x.Authorization"},
                {"header": "x-api-key", "env": "MY_TOKEN"}]});
        assert_eq!(draft.reach, ("http", expected));
        assert_eq!(draft.secrets[1].1.as_str(), "abcdefghij");
        assert!(draft.notes[0].contains("Content-Type"), "{:?}", draft.notes);
        let refused =
            draft_of(Reach::Http { url: "https://u:p@h/".into(), headers: BTreeMap::new() });
        assert!(refused.is_err_and(|e| matches!(e, DraftError::UrlCredential)));
    }

    #[test]
    fn names_are_made_fit_and_stay_different() {
        let made = names(["GitHub MCP", "github-mcp", "@scope/x", "数", "a.b", &"y".repeat(40)]);
        let long = "y".repeat(32);
        assert_eq!(made, ["github-mcp", "github-mcp-2", "scope-x", "server", "a-b", long.as_str()]);
    }

    #[test]
    fn a_file_in_a_hidden_folder_is_about_the_folder_above() {
        assert_eq!(folder(Path::new("/p/.vscode/mcp.json")), Path::new("/p"));
        assert_eq!(folder(Path::new("/p/.mcp.json")), Path::new("/p"));
    }
}
