//! Names of servers and of their tools: qualified here, mangled by clients.

use std::collections::BTreeMap;

use crate::domain::id::ToolName;

/// Characters of a name that every model provider takes.
const MANGLED_CHARS_MAX: usize = 64;

/// Whether this names an MCP server: `[a-z0-9_-]{1,32}`, no dot, so that the first dot of a qualified name ends it.
#[must_use]
pub fn is_server(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-';
    (1..=32).contains(&name.len()) && name.bytes().all(plain)
}

/// `<server>.<tool>`, if that is a tool name.
#[must_use]
pub fn qualified(server: &str, tool: &str) -> Option<ToolName> {
    ToolName::parse(&format!("{server}.{tool}"))
}

/// The name that a client may derive from this one: it replaces other characters than
/// `[A-Za-z0-9_-]` by `_`, and cuts long names.
#[must_use]
pub fn mangled(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    name.chars().map(|c| if plain(c) { c } else { '_' }).take(MANGLED_CHARS_MAX).collect()
}

/// Pairs of names that a client could take for one another.
#[must_use]
pub fn collisions<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<(String, String)> {
    let mut seen: BTreeMap<String, &str> = BTreeMap::new();
    let mut found = Vec::new();
    for name in names {
        // WHY: some clients compare without case.
        match seen.get(&mangled(name).to_ascii_lowercase()) {
            Some(other) => found.push(((*other).to_owned(), name.to_owned())),
            None => _ = seen.insert(mangled(name).to_ascii_lowercase(), name),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_a_client_could_mistake_are_found_with_both_names() {
        let found = collisions(["a.b_c", "x.y", "a_b.c", "X.Y"]);
        let expected = [("a.b_c", "a_b.c"), ("x.y", "X.Y")];
        assert_eq!(found, expected.map(|(a, b)| (a.to_owned(), b.to_owned())));
        let long = |end: &str| format!("s.{}{end}", "x".repeat(62));
        assert_eq!(collisions([long("a").as_str(), long("b").as_str()]).len(), 1);
        assert!(collisions(["s.a", "s.b", "t.a"]).is_empty());
    }

    #[test]
    fn a_server_name_holds_no_dot() {
        assert!(is_server("github") && is_server("my-server_2"));
        assert!(!is_server("") && !is_server("a.b") && !is_server("A") && !is_server("a/b"));
        assert_eq!(qualified("git", "log").unwrap().as_str(), "git.log");
        assert!(
            qualified("git", "a b").is_none()
                && qualified("git", "").is_some_and(|n| n.as_str() == "git.")
        );
    }
}
