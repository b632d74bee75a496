//! `${…}` in MCP clients' configurations, and values that look like credentials.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::catalog::secret::SECRET_BYTES_MIN;

/// One piece of a text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ExpansionPart {
    /// Literal text.
    Literal(String),
    /// A variable of the environment, and its default.
    Variable(String, Option<String>),
    /// An input that VS Code asks a person for.
    Input(String),
}

/// The sources for `${…}`.
pub struct ExpansionSources<'a> {
    /// Looks up a variable.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// A person's inputs, by id: each the content of a file.
    pub inputs: &'a BTreeMap<String, Zeroizing<String>>,
    /// The directory the file is about.
    pub folder: &'a Path,
}

/// Why a text is not expanded.
#[derive(Debug, thiserror::Error)]
pub enum ExpandError {
    /// A form has no end.
    #[error("`${{` has no closing `}}`")]
    Open,
    /// A form that no known client has.
    #[error("`${{{0}}}` is not a known kind of variable")]
    Form(String),
    /// A variable of the environment.
    #[error("the variable `{0}` is not set")]
    Unset(String),
    /// A value that VS Code would ask for.
    #[error(
        "VS Code asks the user for `${{input:{0}}}`: write the value into a file that only you can read and add \
         `--input {0}=FILE`"
    )]
    Input(String),
}

/// The pieces of a text.
///
/// # Errors
/// An unknown form.
pub fn parts(text: &str, folder: &Path) -> Result<Vec<ExpansionPart>, ExpandError> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((inside, remaining)) = after.split_once('}') else {
            return Err(ExpandError::Open);
        };
        if !before.is_empty() {
            parts.push(ExpansionPart::Literal(before.to_owned()));
        }
        parts.push(part(inside, folder)?);
        rest = remaining;
    }
    if !rest.is_empty() || parts.is_empty() {
        parts.push(ExpansionPart::Literal(rest.to_owned()));
    }
    Ok(parts)
}

fn part(inside: &str, folder: &Path) -> Result<ExpansionPart, ExpandError> {
    let literal = |text: String| Ok(ExpansionPart::Literal(text));
    match inside {
        "workspaceFolder" | "workspaceRoot" | "CLAUDE_PROJECT_DIR" => {
            return literal(folder.display().to_string());
        }
        "workspaceFolderBasename" => {
            let name = folder.file_name().unwrap_or_default();
            return literal(name.to_string_lossy().into_owned());
        }
        "userHome" => return Ok(ExpansionPart::Variable("HOME".to_owned(), None)),
        "pathSeparator" | "/" => return literal("/".to_owned()),
        // How this program itself writes a `$` that begins no form.
        "dollar" => return literal("$".to_owned()),
        _ => {}
    }
    if let Some(id) = inside.strip_prefix("input:") {
        return Ok(ExpansionPart::Input(id.to_owned()));
    }
    let name = inside.strip_prefix("env:").unwrap_or(inside);
    let (name, default) = match name.split_once(":-") {
        Some((name, default)) => (name, Some(default.to_owned())),
        None => (name, None),
    };
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    if name.is_empty() || !name.bytes().all(plain) {
        return Err(ExpandError::Form(inside.to_owned()));
    }
    Ok(ExpansionPart::Variable(name.to_owned(), default))
}

/// What a value is once it is expanded.
pub struct Expanded {
    /// The whole text.
    pub text: Zeroizing<String>,
    /// The variable at its end, if that has no default.
    pub variable: Option<String>,
    /// The text before that variable.
    pub before: String,
    /// Whether a person's input is part of it.
    pub asked: bool,
}

/// Expands a text.
///
/// # Errors
/// An unknown form, a variable that is not set, a value that the user did not give.
pub fn expand(text: &str, sources: &ExpansionSources<'_>) -> Result<Expanded, ExpandError> {
    let parts = parts(text, sources.folder)?;
    let mut whole = Zeroizing::new(String::new());
    let mut from_input = false;
    for part in &parts {
        match part {
            ExpansionPart::Literal(text) => whole.push_str(text),
            ExpansionPart::Variable(name, default) => match ((sources.env)(name), default) {
                (Some(value), _) => whole.push_str(&value),
                (None, Some(default)) => whole.push_str(default),
                (None, None) => return Err(ExpandError::Unset(name.clone())),
            },
            ExpansionPart::Input(id) => {
                from_input = true;
                let value = sources.inputs.get(id);
                whole.push_str(value.ok_or_else(|| ExpandError::Input(id.clone()))?);
            }
        }
    }
    let (variable, before) = match parts.as_slice() {
        [ExpansionPart::Variable(name, None)] => (Some(name.clone()), String::new()),
        [ExpansionPart::Literal(before), ExpansionPart::Variable(name, None)] => {
            (Some(name.clone()), before.clone())
        }
        _ => (None, String::new()),
    };
    Ok(Expanded { text: whole, variable, before, asked: from_input })
}

/// Parts of names of variables and headers that hold credentials.
const WITHIN: [&str; 9] = [
    "TOKEN",
    "KEY",
    "SECRET",
    "PASSWORD",
    "AUTHORIZATION",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "COOKIE",
];
/// Whole parts of such names.
const WORDS: [&str; 4] = ["PAT", "PASS", "AUTH", "DSN"];
/// How values of services begin that give out credentials.
const BEGINNINGS: [&str; 13] = [
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "sk-",
    "sk_",
    "xoxb-",
    "xoxp-",
    "xapp-",
    "AKIA",
    "eyJ",
    "ntn_",
];

/// Whether a value under this name is a credential, by its name or by its own looks.
#[must_use]
pub fn is_credential(name: &str, value: &str) -> bool {
    let name = name.to_ascii_uppercase();
    let named = WITHIN.iter().any(|part| name.contains(part))
        || name.split(['_', '-']).any(|marker| WORDS.contains(&marker));
    (named && !is_plain(value)) || looks_secret(value)
}

/// What a name like `KEY_FILE` or `MAX_TOKENS` holds: a number, a truth value, a file that is there.
fn is_plain(value: &str) -> bool {
    (value.parse::<f64>().is_ok() && value.len() < SECRET_BYTES_MIN)
        || matches!(value, "true" | "false")
        || (value.starts_with('/') && PathBuf::from(value).exists())
}

/// Whether this looks like a credential whatever it is called.
#[must_use]
pub fn looks_secret(value: &str) -> bool {
    let begins = BEGINNINGS.iter().any(|begin| value.starts_with(begin)) && value.len() >= 16;
    let in_url = url::Url::parse(value).is_ok_and(|url| url.password().is_some());
    begins || in_url
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> Result<(String, Option<String>, String), ExpandError> {
        let inputs = BTreeMap::from([("tok".to_owned(), Zeroizing::new("asked".to_owned()))]);
        let env = |name: &str| (name == "SET").then(|| "value".to_owned());
        let sources =
            ExpansionSources { env: &env, inputs: &inputs, folder: Path::new("/home/a/project") };
        expand(text, &sources).map(|e| (e.text.to_string(), e.variable, e.before))
    }

    #[test]
    fn the_forms_of_every_client_are_expanded() {
        for (text, whole) in [
            ("plain", "plain"),
            ("", ""),
            ("${SET}", "value"),
            ("${env:SET}/x", "value/x"),
            ("a ${NOT:-b} c", "a b c"),
            ("${workspaceFolder}/x", "/home/a/project/x"),
            ("${workspaceFolderBasename}${/}", "project/"),
            ("Bearer ${input:tok}", "Bearer asked"),
            ("$NOT {x}", "$NOT {x}"),
        ] {
            assert_eq!(expanded(text).unwrap().0, whole, "{text}");
        }
        let (_, variable, before) = expanded("Bearer ${env:SET}").unwrap();
        assert_eq!((variable.as_deref(), before.as_str()), (Some("SET"), "Bearer "));
        assert_eq!(expanded("${SET}${SET}").unwrap().1, None);
        for (text, why) in [
            ("${NOT}", "`NOT` is not set"),
            ("${input:other}", "--input other=FILE"),
            ("${command:x.y}", "`${command:x.y}` is not a known kind"),
            ("${open", "no closing"),
        ] {
            assert!(expanded(text).unwrap_err().to_string().contains(why), "{text}");
        }
    }

    #[test]
    fn credentials_are_recognised_by_their_names_and_by_their_values() {
        for (name, value) in [
            ("GITHUB_PERSONAL_ACCESS_TOKEN", "abcdefgh"),
            ("API_KEY", "abcdefgh"),
            ("x-api-key", "abcdefgh"),
            ("Authorization", "Bearer abcdefgh"),
            ("GITHUB_PAT", "abcdefgh"),
            ("DATABASE_URL", "postgres://u:p@h/db"),
            ("WHATEVER", "ghp_0123456789abcdef"),
        ] {
            assert!(is_credential(name, value), "{name}");
        }
        for (name, value) in [
            ("HOME", "/home/a"),
            ("MAX_TOKENS", "40000"),
            ("SECRET_MODE", "true"),
            ("GOOGLE_APPLICATION_CREDENTIALS", "/"),
            ("DATABASE_URL", "postgres://h/db"),
            ("PATH", "/usr/bin"),
        ] {
            assert!(!is_credential(name, value), "{name}");
        }
    }
}
