//! What a text may be for: prose for a reader, or something that is run, resolved or parsed. A
//! length can describe only prose; for everything else the suggested rule allows only the recorded
//! values.

use std::collections::BTreeSet;

use std::sync::LazyLock;

use regex::Regex;

/// Parts of names of tools that run their texts, whatever the arguments' names.
const TOOLS: [&str; 31] = [
    "awk",
    "bash",
    "browser",
    "cli",
    "cmd",
    "command",
    "console",
    "curl",
    "database",
    "db",
    "eval",
    "exec",
    "execute",
    "fetch",
    "interpreter",
    "javascript",
    "js",
    "mysql",
    "navigate",
    "postgres",
    "powershell",
    "psql",
    "python",
    "repl",
    "script",
    "sh",
    "shell",
    "sql",
    "sqlite",
    "ssh",
    "terminal",
];
/// Parts of names of arguments whose texts are run, resolved or parsed.
const ARGUMENTS: [&str; 51] = [
    "args",
    "arguments",
    "argv",
    "awk",
    "bash",
    "binary",
    "callback",
    "cmd",
    "cmds",
    "code",
    "command",
    "commands",
    "domain",
    "domains",
    "endpoint",
    "eval",
    "exec",
    "executable",
    "execute",
    "expr",
    "expression",
    "flags",
    "graphql",
    "host",
    "hostname",
    "hosts",
    "href",
    "javascript",
    "jq",
    "js",
    "link",
    "links",
    "lua",
    "mutation",
    "origin",
    "powershell",
    "program",
    "proxy",
    "python",
    "redirect",
    "regex",
    "script",
    "scripts",
    "sed",
    "sh",
    "shell",
    "sql",
    "statement",
    "uri",
    "url",
    "webhook",
];
/// First words of statements, and of lines that a shell would run.
const VERBS: [&str; 96] = [
    "alter",
    "ansible",
    "apt",
    "attach",
    "awk",
    "aws",
    "az",
    "bash",
    "begin",
    "brew",
    "call",
    "cargo",
    "cat",
    "cd",
    "chmod",
    "chown",
    "cmd",
    "commit",
    "copy",
    "cp",
    "create",
    "curl",
    "dash",
    "dd",
    "del",
    "delete",
    "detach",
    "df",
    "dir",
    "docker",
    "drop",
    "du",
    "echo",
    "env",
    "eval",
    "exec",
    "execute",
    "explain",
    "export",
    "find",
    "gcloud",
    "gh",
    "git",
    "go",
    "grant",
    "grep",
    "helm",
    "import",
    "insert",
    "java",
    "kill",
    "kubectl",
    "ls",
    "make",
    "merge",
    "mkdir",
    "mount",
    "mv",
    "mysql",
    "nc",
    "node",
    "npm",
    "npx",
    "perl",
    "php",
    "pip",
    "powershell",
    "pragma",
    "printf",
    "ps",
    "psql",
    "python",
    "python3",
    "replace",
    "revoke",
    "rg",
    "rm",
    "rmdir",
    "rsync",
    "ruby",
    "scp",
    "sed",
    "select",
    "sh",
    "source",
    "sqlite3",
    "ssh",
    "su",
    "sudo",
    "systemctl",
    "tar",
    "terraform",
    "truncate",
    "update",
    "wget",
    "with",
];

/// Plain words and punctuation: no character that a shell, a URL, SQL or a program needs, and no
/// option.
pub(super) const PROSE: &str = concat!(
    r#"^[ \t\r\n]*(?:(?:-|[^- <>|;&$`\\/{}\[\]=*#~^@_+%\x00-\x1f\x7f][^ <>|;&$`\\/{}\[\]=*#~^@_+%\x00-\x1f\x7f]*)"#,
    r#"(?:[ \t\r\n]+(?:-|[^- <>|;&$`\\/{}\[\]=*#~^@_+%\x00-\x1f\x7f][^ <>|;&$`\\/{}\[\]=*#~^@_+%\x00-\x1f\x7f]*))*[ \t\r\n]*)?$"#
);

/// Words a sentence has at least: one of the texts has to be one.
const SENTENCE: usize = 4;

static PROSE_ONLY: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(PROSE).ok());

/// Whether a tool of this name runs its arguments.
pub(super) fn is_runner(tool: &str) -> bool {
    words(tool).any(|word| TOOLS.contains(&word.as_str()))
}

/// Whether an argument of this name is run, resolved or parsed.
pub(super) fn is_run(argument: &str) -> bool {
    words(argument).any(|word| ARGUMENTS.contains(&word.as_str()) || word.ends_with("url"))
}

/// Whether a text begins as a statement or a command does.
pub(super) fn begins_as_one(text: &str) -> bool {
    let first = text.split_whitespace().next().unwrap_or_default().to_lowercase();
    let first = first.trim_matches(|c: char| !c.is_alphanumeric());
    VERBS.contains(&first)
}

/// Whether these texts are prose for people: plain words, none of which is a command's, and one
/// text a sentence.
pub(super) fn are_prose(texts: &BTreeSet<&str>) -> bool {
    let Some(prose) = &*PROSE_ONLY else { return false };
    let sentence = |text: &str| text.split_whitespace().count() >= SENTENCE;
    texts.iter().all(|text| prose.is_match(text) && !begins_as_one(text))
        && texts.iter().any(|text| sentence(text))
}

/// The words of an identifier: `runSQLQuery`, `run_sql`, `run-sql` have `run`.
fn words(name: &str) -> impl Iterator<Item = String> {
    let mut words = vec![String::new()];
    let mut lower = false;
    for c in name.chars() {
        let breaks = !c.is_alphanumeric() || (c.is_uppercase() && lower);
        if breaks {
            words.push(String::new());
        }
        if c.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
        lower = c.is_lowercase() || c.is_numeric();
    }
    words.into_iter().filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_lists_are_sorted() {
        assert!(TOOLS.is_sorted() && ARGUMENTS.is_sorted() && VERBS.is_sorted());
    }

    #[test]
    fn tool_and_argument_names_are_classified_by_their_words() {
        for runner in ["run_sql", "shell", "Bash", "db.query", "pythonRepl", "exec-command"] {
            assert!(is_runner(runner), "{runner}");
        }
        for other in ["notes.add", "mail.send", "tickets_create", "shellfish", "sqlish"] {
            assert!(!is_runner(other), "{other}");
        }
        for run in ["url", "baseUrl", "image_url", "imageurl", "cmd", "shellCommand", "sql"] {
            assert!(is_run(run), "{run}");
        }
        for other in ["why", "text", "message", "codename"] {
            assert!(!is_run(other), "{other}");
        }
    }

    #[test]
    fn prose_is_words_and_nothing_else() {
        let is = |text: &str| are_prose(&BTreeSet::from([text]));
        for prose in [
            "a word or two about it",
            "Please pay Ms. Berg back: she paid twice (really!)",
            "Сегодня мы платили дважды, увы",
            "first line\nand a second one",
        ] {
            assert!(is(prose), "{prose}");
        }
        for other in [
            "",
            "one",
            "rm -rf the whole thing",
            "please do rm -rf now",
            "SELECT a FROM b WHERE c",
            "drop table a cascade",
            "look at https://evil.example/x now",
            "a; b && c d e f",
            "$(id) is a nice thing",
            "a | b c d e",
            "cat notes about the thing",
            "x = y and z and more",
            "what about ../../etc/passwd here",
            "git push the thing now",
        ] {
            assert!(!is(other), "{other}");
        }
    }
}
