//! Paths from callers: refused by their text before anything is opened.
//!
//! This is defence in depth and gives clear messages; the kernel decides what is really opened
//! beneath a root. Protected names are denied whether they exist or not.

use unicode_normalization::UnicodeNormalization as _;

use crate::catalog::binding::Root;
use crate::catalog::file_name::{self, fold};
use crate::catalog::hidden::is_hidden;

/// Bytes of one name.
const NAME_BYTES_MAX: usize = 255;
/// Names in one path.
const NAMES_MAX: usize = 64;
/// Bytes of a path.
const PATH_BYTES_MAX: usize = 4096;

/// Device names on some systems, with or without an extension.
const RESERVED: &[&str] = &[
    "con", "prn", "aux", "nul", "com0", "com1", "com2", "com3", "com4", "com5", "com6", "com7",
    "com8", "com9", "lpt0", "lpt1", "lpt2", "lpt3", "lpt4", "lpt5", "lpt6", "lpt7", "lpt8", "lpt9",
    "conin$", "conout$",
];

/// Why the text of a path is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PathRefusal {
    /// Out of bounds or ambiguous, with the reason.
    Path(&'static str),
    /// Leads out of where it starts, or looks as if it did, with the reason.
    Traversal(&'static str),
    /// A protected name.
    Protected,
}

/// The purpose of an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Use {
    /// Reading or listing.
    Look,
    /// Making, replacing or deleting.
    Change,
}

/// The protected names beneath one root, and the exceptions.
#[derive(Debug, Default)]
pub(super) struct ExcludedNames {
    protect: Vec<String>,
    /// Exact paths that are allowed whatever their names.
    allow: Vec<String>,
    /// Folded names that are allowed although they begin with a dot or configure tools; names of
    /// secrets stay refused.
    allow_names: Vec<String>,
    /// Paths of the gate's own files, folded name by name.
    own: Vec<Vec<String>>,
}

impl ExcludedNames {
    /// `own`: the gate's own files, as paths below the root.
    pub fn new(root: &Root, own: &[&str]) -> Self {
        let folded = |names: &[String]| names.iter().map(|name| fold(name)).collect();
        Self {
            protect: folded(&root.protect),
            allow: root.allow.clone(),
            allow_names: folded(&root.allow_names),
            own: own.iter().map(|path| path.split('/').map(fold).collect()).collect(),
        }
    }

    /// Checks that this is a plain relative path below the root without a protected name.
    pub fn check(&self, path: &str, purpose: Use) -> Result<(), PathRefusal> {
        written(path)?;
        if self.protects(path, purpose) { Err(PathRefusal::Protected) } else { Ok(()) }
    }

    /// Whether a name in this path is protected, in any spelling that some file system treats as
    /// equal.
    pub fn protects(&self, path: &str, purpose: Use) -> bool {
        let names: Vec<String> = path.split('/').map(fold).collect();
        if self.own.iter().any(|own| names.starts_with(own)) {
            return true;
        }
        if self.allow.iter().any(|allowed| allowed == path) {
            return false;
        }
        names.iter().any(|name| self.name(name, purpose))
            || names.windows(2).any(|pair| matches!(pair, [a, b] if file_name::are_a_secret(a, b)))
    }

    fn name(&self, name: &str, purpose: Use) -> bool {
        if file_name::is_secret(name) || self.protect.iter().any(|own| own == name) {
            return true;
        }
        let steers = name.starts_with('.') || (purpose == Use::Change && file_name::steers(name));
        steers && !self.allow_names.iter().any(|given| given == name)
    }
}

/// Checks that this is a plain relative path, whatever its names.
fn written(path: &str) -> Result<(), PathRefusal> {
    if path.is_empty() || path.len() > PATH_BYTES_MAX {
        return Err(PathRefusal::Path("has 1 to 4096 bytes"));
    }
    if path.starts_with('/') {
        return Err(PathRefusal::Path("is relative to the root"));
    }
    if path.chars().any(is_hidden) {
        return Err(PathRefusal::Path("has no control, bidirectional or invisible characters"));
    }
    if path.contains('\\') {
        return Err(PathRefusal::Path("has no backslash"));
    }
    if !path.nfc().eq(path.chars()) {
        return Err(PathRefusal::Path("is in unicode normal form c"));
    }
    // Some readers treat look-alikes such as `‥` and `／` as dots and slashes.
    let folded: String = path.nfkc().collect();
    names(path)?;
    if folded != path {
        names(&folded)?;
        if folded.matches('/').count() != path.matches('/').count() || folded.contains('\\') {
            return Err(PathRefusal::Traversal("has no look-alikes of separators"));
        }
    }
    Ok(())
}

fn names(path: &str) -> Result<(), PathRefusal> {
    if path.split('/').count() > NAMES_MAX {
        return Err(PathRefusal::Path("has at most 64 names"));
    }
    path.split('/').try_for_each(|name| plain(&name.to_lowercase()))
}

fn plain(name: &str) -> Result<(), PathRefusal> {
    if name == ".." {
        return Err(PathRefusal::Traversal("has no empty, `.` or `..` names"));
    }
    if matches!(name, "" | ".") {
        return Err(PathRefusal::Path("has no empty, `.` or `..` names"));
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(PathRefusal::Path("has names of at most 255 bytes"));
    }
    if name.ends_with(['.', ' ']) || name.starts_with(' ') {
        return Err(PathRefusal::Path(
            "has no names that begin or end with a space or end with a dot",
        ));
    }
    if name.starts_with('~') {
        return Err(PathRefusal::Path("has no names that begin with `~`"));
    }
    let stem = name.split(['.', ':']).next().unwrap_or_default().trim_end();
    if RESERVED.contains(&stem) || name.contains(':') {
        return Err(PathRefusal::Path("has no device names or `:`"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(path: &str) -> Result<(), PathRefusal> {
        ExcludedNames::default().check(path, Use::Look)
    }

    #[test]
    fn paths_that_leave_hide_or_mislead_are_refused() {
        for path in [
            "",
            "/etc/passwd",
            "..",
            "../x",
            "a/../b",
            "a//b",
            "a/",
            "./a",
            "‥/x",
            "．．/x",
            "a／b",
            "ok.txt\u{200b}",
            "a\u{202e}txt.exe",
            "a\0b",
            "a\nb",
            "a\\b",
            "a＼b",
            "CON",
            "con.txt",
            "a/NUL",
            "Lpt1.log",
            "x.",
            "x ",
            " x",
            "~/x",
            "~root",
            "file.txt:stream",
            "C:x",
            "e\u{301}.txt",
            "/proc/self/environ",
            "a\u{feff}",
            "x\u{e0041}",
            "COM1 .txt",
        ] {
            assert!(
                matches!(check(path), Err(PathRefusal::Path(_) | PathRefusal::Traversal(_))),
                "{path:?}: {:?}",
                check(path)
            );
        }
        for path in ["..", "../x", "a/../b", "‥/x", "．．/x", "a／b"] {
            assert!(matches!(check(path), Err(PathRefusal::Traversal(_))), "{path:?}");
        }
        assert!(check(&"a/".repeat(64)).is_err() && check(&"x".repeat(256)).is_err());
    }

    #[test]
    fn protected_names_are_refused_in_any_case_and_anywhere() {
        for path in [
            ".env",
            ".env.local",
            ".ENV",
            "a/.envrc",
            ".git/config",
            "sub/.git/hooks/x",
            ".SSH/id",
            ".ssh",
            "id_rsa",
            "home/ID_ED25519",
            ".claude/settings.json",
            "CLAUDE.md",
            "x/agents.md",
            ".github/workflows/ci.yml",
            ".cursor/mcp.json",
            ".mcp.json",
            ".npmrc",
            "．ｅｎｖ",
            ".ｇit/x",
            ".aws/credentials",
            ".kube/config",
            ".ßh/id",
            ".gıt/config",
            "GIT~1/config",
            "server.PEM",
            "tls/site.key",
            ".wicketgate-0123.tmp",
        ] {
            assert_eq!(check(path), Err(PathRefusal::Protected), "{path:?}");
        }
    }

    #[test]
    fn what_begins_with_a_dot_is_given_only_where_the_root_names_it() {
        let named = guard(&[], &[], &[".github", ".GitIgnore", "Makefile"]);
        for name in [".gitlab-ci.yml", ".github/x", ".husky/pre-commit", ".ZSHENV", "a/.x/y", "․x"]
        {
            for purpose in [Use::Look, Use::Change] {
                let refused = ExcludedNames::default().check(name, purpose);
                assert_eq!(refused, Err(PathRefusal::Protected), "{name}");
            }
        }
        for purpose in [Use::Look, Use::Change] {
            for name in [".github/x", "a/.GITHUB/b", ".gitignore", "makefile"] {
                assert_eq!(named.check(name, purpose), Ok(()), "{name}");
            }
            for name in [".github/workflows/ci.yml", ".git/config", ".githubx", ".github/.x"] {
                assert_eq!(named.check(name, purpose), Err(PathRefusal::Protected), "{name}");
            }
        }
    }

    #[test]
    fn what_steers_tools_or_agents_is_read_and_not_written_unless_the_root_names_it() {
        let named = guard(&[], &[], &["package.json"]);
        for name in ["sub/Jenkinsfile", "MAKEFILE", "package.json", "x.code-workspace", "setup.py"]
        {
            assert_eq!(ExcludedNames::default().check(name, Use::Look), Ok(()), "{name}");
            let written = ExcludedNames::default().check(name, Use::Change);
            assert_eq!(written, Err(PathRefusal::Protected), "{name}");
            assert_eq!(named.check(name, Use::Change).is_ok(), name == "package.json", "{name}");
        }
    }

    fn guard(protect: &[&str], allow: &[&str], allow_names: &[&str]) -> ExcludedNames {
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let (protect, allow) = (list(protect), list(allow));
        let root = Root { protect, allow, allow_names: list(allow_names), ..Root::default() };
        ExcludedNames::new(&root, &[])
    }

    #[test]
    fn a_root_protects_more_and_excepts_exact_paths_only() {
        let own = ["conf/wicketgate.yaml", ".env.own"];
        let list = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let (protect, allow) = (list(&["Secrets"]), list(&[".env.example", ".env.own"]));
        let guard = ExcludedNames::new(&Root { protect, allow, ..Root::default() }, &own);
        let look = |path: &str| guard.check(path, Use::Look);
        for path in [
            "secrets/a",
            "a/SECRETS",
            ".env",
            "a/.env.example",
            ".ENV.example",
            ".env.own",
            "conf/wicketgate.yaml",
            "CONF/Wicketgate.yaml/x",
        ] {
            assert_eq!(look(path), Err(PathRefusal::Protected), "{path}");
        }
        for fine in [".env.example", "secret", "conf/other.yaml", "wicketgate.yaml"] {
            assert_eq!(look(fine), Ok(()), "{fine}");
        }
    }

    #[test]
    fn ordinary_paths_are_fine() {
        for fine in [
            "ok.txt",
            "src/main.rs",
            "a b/c.txt",
            "été/naïve.md",
            "日本語.txt",
            "git/config",
            "a.b/c.d",
            "env",
            "a-b_c+d@e.txt",
            "x.tar.gz",
            "id_rsa.pub.md",
            "console.log",
            "keys.md",
            "pem/readme",
            "gitlab.md",
            "straße.txt",
        ] {
            assert_eq!(check(fine), Ok(()), "{fine}");
        }
    }

    proptest! {
        #[test]
        fn no_accepted_path_has_a_dot_dot_or_leading_slash_in_any_form(path in "[./a‥．／\u{200b}~]{0,12}") {
            if check(&path).is_ok() {
                for form in [path.clone(), path.nfkc().collect::<String>(), path.nfkd().collect()] {
                    prop_assert!(!form.starts_with('/'));
                    prop_assert!(form.split('/').all(|n| !matches!(n, "" | "." | "..")), "{:?}", path);
                }
            }
        }
    }
}
