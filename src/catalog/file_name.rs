//! Names of files that hold secrets, and of files that steer tools and agents. All are folded as
//! paths are.
//!
//! Neither list contains names that begin with a dot: a tool refuses those unless its binding names
//! them. The lists contain the other names, and those that a binding can allow by exact path only.

use unicode_normalization::UnicodeNormalization as _;

/// Names that a binding can allow by exact path only: stores of secrets, and files that git, shells
/// and agents obey.
const SECRETS: &str = include_str!("file_name/secrets.txt");
/// Prefixes of such names: environments, short names of `.git` elsewhere, left-overs of a write
/// here, clients of OAuth.
const SECRET_PREFIXES: &[&str] = &[".env", "git~", ".wicketgate", "client_secret"];
/// Names that end so: private keys and stores of them, states of infrastructure.
const SECRET_SUFFIXES: &str = include_str!("file_name/secret_endings.txt");
/// A directory and a name in it.
const SECRET_PAIRS: &[(&str, &str)] = &[
    (".github", "workflows"),
    (".github", "actions"),
    (".config", "gcloud"),
    (".config", "gh"),
    (".config", "git"),
    ("library", "keychains"),
    ("library", "cookies"),
    ("appdata", "roaming"),
    ("appdata", "local"),
];

/// Names that may be read and are not written: what a build machine, a package manager, a test
/// runner, an interpreter or an agent reads and obeys of its own accord.
const STEERING: &str = include_str!("file_name/steering.txt");
/// Names that end so.
const STEERING_SUFFIXES: &str = include_str!("file_name/steering_endings.txt");

/// The names in a list: one a line, without the comments between them.
fn listed(list: &str) -> impl Iterator<Item = &str> {
    list.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// One form for every spelling of a name: compatible characters, case and its special cases (`ß`).
pub fn fold(name: &str) -> String {
    let upper = name.nfkc().collect::<String>().to_uppercase();
    upper.to_lowercase().nfkc().collect()
}

/// Whether a tool serves this folded name only by an exact path.
#[must_use]
pub fn is_secret(name: &str) -> bool {
    listed(SECRETS).any(|secret| secret == name)
        || SECRET_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || listed(SECRET_SUFFIXES).any(|suffix| name.ends_with(suffix))
}

/// Whether the file `name` in a directory `dir`, both folded, holds a secret.
#[must_use]
pub fn are_a_secret(dir: &str, name: &str) -> bool {
    SECRET_PAIRS.contains(&(dir, name))
}

/// Whether this folded name is one that tools or agents obey.
#[must_use]
pub fn steers(name: &str) -> bool {
    listed(STEERING).any(|steering| steering == name)
        || listed(STEERING_SUFFIXES).any(|suffix| name.ends_with(suffix))
}
