//! `wicketgate config init`: a new configuration from a template.

use std::collections::BTreeMap;
use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::json;

use super::init::error::Error as InitError;
use super::init::furnish::{ConfigKeys, StagingDirectory, sign_policy, tried};
use super::{Exit, FileError, argument, fail_all, note, say};
use crate::clock::{Clock as _, SystemClock};
use crate::domain::near;
use crate::domain::time::Timestamp;
use crate::identity;

/// How long a new manifest is valid.
const VALID_FOR: Duration = Duration::from_secs(365 * 86_400);

/// Write a new configuration from a template: keys, a signed manifest and a signed policy with tests.
///
/// On a terminal it asks for what the command line leaves open; elsewhere it takes the defaults. For the servers of
/// an MCP client use `wicketgate init --from`.
#[derive(clap::Args, Debug)]
#[command(after_help = templates_help())]
pub(super) struct Args {
    /// Template: one of those below
    template: Option<String>,
    /// Directory to write; it must be missing or empty
    #[arg(long, value_name = "DIR", default_value = "wicketgate")]
    dir: PathBuf,
    /// The agent's name: [a-z0-9-]{1,63}
    #[arg(long, value_name = "NAME", default_value = "agent", value_parser = argument::agent)]
    name: String,
    /// Value of the template, such as `folder=notes`; repeat it for more
    #[arg(long, value_name = "NAME=VALUE", value_parser = argument::template_value)]
    set: Vec<(String, String)>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// A file of a template: its name, and its text with `{{value}}` where values go.
type TemplateFile = (&'static str, &'static str);

/// A configuration with values left open.
#[derive(Debug)]
struct ConfigTemplate {
    name: &'static str,
    about: &'static str,
    values: &'static [TemplateValue],
    files: &'static [TemplateFile],
}

/// What is left open.
#[derive(Debug)]
struct TemplateValue {
    name: &'static str,
    about: &'static str,
    /// What it is if nobody says otherwise; `None`: it has to be said.
    default: Option<&'static str>,
    /// Whether it is a path, which then starts from the working directory.
    is_path: bool,
}

macro_rules! files {
    ($template:literal) => {
        &[
            files!($template, "wicketgate.yaml"),
            files!($template, "agent.yaml"),
            files!($template, "policy/bundle.json"),
            files!($template, "policy/agent/main.rego"),
            files!($template, "policy/tests/main.yaml"),
        ]
    };
    ($template:literal, $name:literal) => {
        ($name, include_str!(concat!("../../examples/templates/", $template, "/", $name)))
    };
}

static TEMPLATES: [ConfigTemplate; 3] = [
    ConfigTemplate {
        name: "files",
        about: "reads a folder, writes new files, replaces files with a person's approval",
        values: &[TemplateValue {
            name: "folder",
            about: "folder that the agent works in",
            default: None,
            is_path: true,
        }],
        files: files!("files"),
    },
    ConfigTemplate {
        name: "http",
        about: "gets and makes records of one HTTP API",
        values: &[
            TemplateValue {
                name: "read_url",
                about: "URL of one record, `{id}` for its id: https://api.example.com/items/{id}",
                default: None,
                is_path: false,
            },
            TemplateValue {
                name: "write_url",
                about: "URL that makes a record: https://api.example.com/items",
                default: None,
                is_path: false,
            },
        ],
        files: files!("http"),
    },
    ConfigTemplate {
        name: "sql",
        about: "asks one table of a SQLite file, and changes nothing",
        values: &[
            TemplateValue { name: "database", about: "SQLite file", default: None, is_path: true },
            TemplateValue {
                name: "table",
                about: "table that the agent may read",
                default: None,
                is_path: false,
            },
        ],
        files: files!("sql"),
    },
];

/// Why no configuration is written.
#[derive(Debug, thiserror::Error)]
enum TemplateError {
    /// No such template.
    #[error("there is no template `{name}`{near}; there are {}", names())]
    Unknown { name: String, near: String },
    /// No template is named, and nothing to ask on.
    #[error("name a template: {}", names())]
    None,
    /// No such value.
    #[error("template `{template}` has no value `{name}`; it has {known}")]
    UnknownValue { template: &'static str, name: String, known: String },
    /// A value without a default.
    #[error("template `{template}` needs `--set {name}=…`: {about}")]
    Missing { template: &'static str, name: &'static str, about: &'static str },
    /// Standard input ended.
    #[error("the terminal gave no answer: {0}")]
    Terminal(std::io::Error),
    /// A path that no configuration can name.
    #[error("`{}`: the path has bytes that are no UTF-8", .0.display())]
    Text(PathBuf),
    /// The values make no configuration.
    #[error("{}", .0.join("\n"))]
    Refused(Vec<String>),
    /// It cannot be written.
    #[error(transparent)]
    Written(#[from] InitError),
}

fn names() -> String {
    TEMPLATES.iter().map(|one| format!("`{}`", one.name)).collect::<Vec<_>>().join(", ")
}

fn templates_help() -> String {
    let mut help = String::from("Templates:\n");
    for template in &TEMPLATES {
        help.push_str(&format!("  {:<7}{}\n", template.name, template.about));
        for value in template.values {
            let default = value.default.map_or_else(String::new, |d| format!(" [default: {d}]"));
            help.push_str(&format!("         {:<11}{}{default}\n", value.name, value.about));
        }
    }
    help.push_str(
        "\nExamples:\n  wicketgate config init files --set folder=notes\n  \
         wicketgate config init sql --dir gate --set database=shop.db --set table=orders\n\n\
         Either everything is written or nothing is. Exits with 0, or with 1 if nothing was written.",
    );
    help
}

/// Runs it.
pub(super) fn run(args: &Args) -> Exit {
    match written(args) {
        Ok((template, dir)) => {
            report(args, template, &dir);
            Exit::Ok
        }
        Err(TemplateError::Written(error)) => fail_all(Exit::Invalid, &error.lines()),
        Err(TemplateError::Refused(mut lines)) => {
            lines.push("error: nothing was written: give other values with --set".to_owned());
            fail_all(Exit::Invalid, &lines)
        }
        Err(error) => fail_all(Exit::Invalid, &[format!("error: {error}")]),
    }
}

fn written(args: &Args) -> Result<(&'static ConfigTemplate, PathBuf), TemplateError> {
    let asks = !args.json && std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    let template = chosen(args, asks)?;
    let now = SystemClock::new().now();
    let values = values(template, args, asks)?;
    let staging = StagingDirectory::begin(&args.dir)?;
    let furnished = furnish(&staging, template, &filling(args, now, values), now);
    // The directory under construction is gone when a person reads this.
    let placed = |text: String| {
        text.replace(&staging.part().display().to_string(), &staging.place().display().to_string())
    };
    furnished
        .map_err(|error| TemplateError::Refused(error.lines().into_iter().map(placed).collect()))?;
    Ok((template, staging.finish().map_err(InitError::from)?))
}

fn chosen(args: &Args, asks: bool) -> Result<&'static ConfigTemplate, TemplateError> {
    let name = match &args.template {
        Some(name) => name.clone(),
        None if asks => {
            for one in &TEMPLATES {
                note(format!("{:<7}{}", one.name, one.about));
            }
            answer("template", Some("files"))?
        }
        None => return Err(TemplateError::None),
    };
    let found = TEMPLATES.iter().find(|one| one.name == name);
    found.ok_or_else(|| {
        let names = near::names(&name, TEMPLATES.iter().map(|one| one.name.to_owned()));
        let near = names.first().map_or_else(String::new, |n| format!(", did you mean `{n}`?"));
        TemplateError::Unknown { name, near }
    })
}

/// The values of the template: from the command line, from the terminal, or its own.
fn values(
    template: &'static ConfigTemplate,
    args: &Args,
    asks: bool,
) -> Result<BTreeMap<&'static str, String>, TemplateError> {
    let known = |name: &str| template.values.iter().any(|value| value.name == name);
    if let Some((name, _)) = args.set.iter().find(|(name, _)| !known(name)) {
        let known: Vec<_> = template.values.iter().map(|v| format!("`{}`", v.name)).collect();
        let (name, known) = (name.clone(), known.join(", "));
        return Err(TemplateError::UnknownValue { template: template.name, name, known });
    }
    let mut all = BTreeMap::new();
    for value in template.values {
        let given = args.set.iter().rev().find(|(name, _)| name == value.name);
        let text = match given {
            Some((_, text)) => text.clone(),
            None if asks => answer(&format!("{}: {}", value.name, value.about), value.default)?,
            None => value.default.map(str::to_owned).ok_or(TemplateError::Missing {
                template: template.name,
                name: value.name,
                about: value.about,
            })?,
        };
        let text = if value.is_path { absolute(&text)? } else { text };
        all.insert(value.name, text);
    }
    Ok(all)
}

fn absolute(path: &str) -> Result<String, TemplateError> {
    let whole = std::path::absolute(path).map_err(FileError::at(Path::new(path)));
    let whole = whole.map_err(InitError::from)?;
    whole.to_str().map(str::to_owned).ok_or_else(|| TemplateError::Text(whole.clone()))
}

/// Asks on the terminal. An empty answer is the default.
fn answer(question: &str, default: Option<&str>) -> Result<String, TemplateError> {
    let shown = default.map_or_else(String::new, |default| format!(" [{default}]"));
    loop {
        let mut terminal = std::io::stderr().lock();
        write!(terminal, "{question}{shown}: ").map_err(TemplateError::Terminal)?;
        terminal.flush().map_err(TemplateError::Terminal)?;
        let mut line = String::new();
        let read = std::io::stdin().lock().read_line(&mut line).map_err(TemplateError::Terminal)?;
        if read == 0 {
            return Err(TemplateError::Terminal(std::io::ErrorKind::UnexpectedEof.into()));
        }
        match (line.trim(), default) {
            ("", Some(default)) => return Ok(default.to_owned()),
            ("", None) => {}
            (text, _) => return Ok(text.to_owned()),
        }
    }
}

/// What stands for each `{{name}}`, as YAML.
fn filling(
    args: &Args,
    now: Timestamp,
    values: BTreeMap<&'static str, String>,
) -> BTreeMap<&'static str, String> {
    // A text of JSON is one of YAML, whatever is in it.
    let quoted = |text: String| serde_json::Value::String(text).to_string();
    let day = |at: Timestamp| {
        format!("{}T00:00:00Z", at.to_string().split('T').next().unwrap_or_default())
    };
    let mut all: BTreeMap<_, _> = values.into_iter().map(|(name, v)| (name, quoted(v))).collect();
    all.insert("agent", quoted(args.name.clone()));
    all.insert("owner", quoted("owner@example.com".to_owned()));
    all.insert("uid", rustix::process::getuid().as_raw().to_string());
    all.insert("from", day(now));
    all.insert("until", day(now.plus(VALID_FOR)));
    all
}

fn furnish(
    staging: &StagingDirectory,
    template: &ConfigTemplate,
    filling: &BTreeMap<&'static str, String>,
    now: Timestamp,
) -> Result<(), InitError> {
    let keys = ConfigKeys::make(staging)?;
    for (name, text) in template.files {
        let text = filled(text, filling);
        staging.write(name, text.as_bytes(), 0o644)?;
        if *name == "agent.yaml" {
            let envelope = identity::sign(text.as_bytes(), name, &[keys.manifest()])?;
            staging.write("agent.yaml.sig.json", &envelope, 0o644)?;
        }
    }
    sign_policy(&staging.part().join("policy"), &keys, now)?;
    tried(staging.part())
}

/// The text with its values.
fn filled(text: &str, filling: &BTreeMap<&'static str, String>) -> String {
    filling.iter().fold(text.to_owned(), |text, (name, value)| {
        text.replace(&format!("{{{{{name}}}}}"), value)
    })
}

fn report(args: &Args, template: &ConfigTemplate, dir: &Path) {
    let config = dir.join("wicketgate.yaml");
    if args.json {
        let told = json!({"template": template.name, "dir": dir, "config": config});
        say(told.to_string());
        return;
    }
    say(format!("{}/", dir.display()));
    say("  wicketgate.yaml  callers and tools");
    say("  agent.yaml       what the agent may use, signed");
    say("  policy/          rules and their tests, signed");
    say(
        "  keys/            keep them from the agent, and the manifest and policy keys from the gate",
    );
    say(format!("\nnext: wicketgate check --pre --config {}", config.display()));
    say(format!("      wicketgate run --config {} -- PROGRAM", config.display()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_of_a_template_is_used_and_none_is_left_open() {
        for template in &TEMPLATES {
            let mut all = BTreeMap::from(
                ["agent", "owner", "uid", "from", "until"].map(|n| (n, "x".to_owned())),
            );
            all.extend(template.values.iter().map(|value| (value.name, "x".to_owned())));
            for value in template.values {
                let marker = format!("{{{{{}}}}}", value.name);
                assert!(template.files.iter().any(|(_, text)| text.contains(&marker)), "{marker}");
            }
            for (name, text) in template.files {
                assert!(!filled(text, &all).contains("{{"), "{}: {name}", template.name);
            }
        }
    }
}
