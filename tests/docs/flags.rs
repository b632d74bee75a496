//! Options have one meaning over all commands, and every help says enough.

use std::collections::{BTreeMap, BTreeSet};

use clap::{Arg, Command};

/// Options that mean the same everywhere: name of the value, and how each help begins.
const ONE_MEANING: [(&str, &str, &str); 15] = [
    ("ca", "FILE", "Trust "),
    ("cert", "FILE", ""),
    ("cert-key", "FILE", "Private key of the certificate"),
    ("chain", "ORIGIN", "Chain "),
    ("config", "FILE", "Configuration file"),
    ("dry-run", "", "Only print what would be"),
    ("every", "SECONDS", "Repeat after"),
    ("json", "", ""),
    ("key", "KEY", "Sign "),
    ("out", "PATH", "Write "),
    ("public-key", "FILE", "Public key "),
    ("reason", "TEXT", "Why; "),
    ("run", "ID", "Run "),
    ("since", "TIME", "Only "),
    ("trust", "FILE", "Trust roots: "),
];

/// Options whose value has another name in some command, and why.
const TWO_VALUES: [(&str, &str); 7] = [
    ("allow", "`init` has several servers and names one; `serve mcp wrap` has one"),
    ("below", "a place of an input, or a number of an entry: both are a lower end"),
    ("from", "what is read: the server of `tools descriptors`, the file of `init`"),
    ("input", "`init` has several inputs and names one"),
    ("keep", "the quickstart keeps its processes; `payload expire` keeps a role for a term"),
    ("statement", "one of two statements is chosen where a call can be approved or refused"),
    (
        "verify",
        "`policy backtest` names the file; `tools trust` has a ledger, which another option names",
    ),
];

/// Commands that print facts of another kind than one JSON object, or none.
const NO_JSON: [(&str, &str); 19] = [
    ("wicketgate serve mcp", "speaks MCP"),
    ("wicketgate serve mcp wrap", "speaks MCP"),
    ("wicketgate manifest init", "writes one file"),
    ("wicketgate policy build", "writes one file"),
    ("wicketgate policy init", "writes one directory"),
    ("wicketgate policy schema", "prints a document of its own"),
    ("wicketgate policy suggest", "prints a document of its own"),
    ("wicketgate policy unpack", "writes one directory"),
    ("wicketgate evidence guide", "prints a document of its own"),
    ("wicketgate control injector certs", "prints what it changes, for the log of its Job"),
    ("wicketgate config print", "prints a document of its own"),
    ("wicketgate config schema", "prints a document of its own"),
    ("wicketgate config doc", "prints a document of its own"),
    ("wicketgate run", "prints what the program prints"),
    ("wicketgate config openapi", "prints a document of its own"),
    ("wicketgate config completions", "prints a document of its own"),
    ("wicketgate config man", "prints a document of its own"),
    ("wicketgate help", "prints help"),
    ("wicketgate-verify guide", "prints a document of its own"),
];

/// Every command that is shown, with its whole name.
fn commands() -> Vec<(String, Command)> {
    let mut all = Vec::new();
    let mut open: Vec<(String, Command)> =
        wicketgate::cli::programs().map(|program| (program.get_name().to_owned(), program)).into();
    while let Some((name, command)) = open.pop() {
        for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
            open.push((format!("{name} {}", below.get_name()), below.clone()));
        }
        all.push((name, command));
    }
    all
}

fn options(command: &Command) -> impl Iterator<Item = (&str, &Arg)> {
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
    shown.filter_map(|arg| Some((arg.get_long()?, arg)))
}

/// The name of an option's value; empty for a flag.
fn value(arg: &Arg) -> String {
    let takes = arg.get_action().takes_values();
    let names = arg.get_value_names().unwrap_or_default().iter().map(ToString::to_string);
    if takes { names.collect::<Vec<_>>().join(" ") } else { String::new() }
}

#[test]
fn an_option_has_one_meaning() {
    let mut values: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut wrong = Vec::new();
    for (name, command) in commands() {
        for (long, arg) in options(&command) {
            values.entry(long.to_owned()).or_default().insert(value(arg));
            let Some((_, expected, begin)) = ONE_MEANING.iter().find(|(one, ..)| *one == long)
            else {
                continue;
            };
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            if value(arg) != *expected || !help.starts_with(begin) {
                wrong.push(format!("{name} --{long} <{}>: {help}", value(arg)));
            }
            if long == "config" && arg.get_short() != Some('c') {
                wrong.push(format!("{name}: --config without -c"));
            }
        }
    }
    for (long, names) in &values {
        if names.len() > 1 && !TWO_VALUES.iter().any(|(name, _)| name == long) {
            wrong.push(format!("--{long} takes {names:?}"));
        }
    }
    for (long, _) in TWO_VALUES {
        if values.get(long).is_none_or(|names| names.len() < 2) {
            wrong.push(format!("--{long} is no exception any more"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_help_of_every_command_has_no_private_words() {
    let private = r"(?i)\b(books|office|desk|door|staff|whoever|somebody|nobody|anybody|everybody|told|heard|words? counts?)\b";
    let private = regex::Regex::new(private).unwrap();
    let mut wrong = Vec::new();
    for (name, mut command) in commands() {
        let help = command.render_long_help().to_string();
        wrong.extend(
            help.lines()
                .filter(|line| private.is_match(line))
                .map(|line| format!("{name}: {line}")),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_help_of_more_than_three_options_has_examples_and_facts_have_json() {
    let mut wrong = Vec::new();
    for (name, command) in commands() {
        let own = options(&command).filter(|(long, _)| !["help", "version"].contains(long));
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        if own.count() > 3 && !help.contains("Examples:\n  ") {
            wrong.push(format!("{name}: no examples"));
        }
        let runs = !command.has_subcommands() || command.get_arguments().next().is_some();
        let has_json = options(&command).any(|(long, _)| long == "json");
        let excepted = NO_JSON.iter().any(|(one, _)| *one == name);
        if runs && has_json == excepted {
            wrong.push(format!("{name}: --json is {has_json}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
