//! What one path shows: the whole gate or one server's tools, in a run with or without a name.

use crate::mcp::name;
use crate::serve::guard::is_run_name;

/// Where the face begins.
pub(super) const ROOT: &str = "/mcp";

/// One path of the face: `/mcp`, `/mcp/r/<run>`, `/mcp/s/<server>`, `/mcp/r/<run>/s/<server>`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(super) struct PathView {
    /// The name of the run, if the path contains one.
    pub run: Option<String>,
    /// The only server whose tools this path shows, under their own names.
    pub server: Option<String>,
}

impl PathView {
    /// Whether a path belongs to this face, known or not.
    pub(super) fn claims(path: &str) -> bool {
        path.strip_prefix(ROOT).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// The view of this path, if there is one. Nothing is decoded or resolved.
    pub(super) fn of(path: &str) -> Option<Self> {
        let rest = path.strip_prefix(ROOT)?;
        let parts: Vec<&str> = rest.split('/').collect();
        let (run, server) = match parts.as_slice() {
            [""] | ["", ""] => (None, None),
            ["", "r", run] => (Some(*run), None),
            ["", "s", server] => (None, Some(*server)),
            ["", "r", run, "s", server] => (Some(*run), Some(*server)),
            _ => return None,
        };
        let fits = run.is_none_or(is_run_name) && server.is_none_or(name::is_server);
        fits.then(|| Self { run: run.map(str::to_owned), server: server.map(str::to_owned) })
    }

    /// The governed name of a tool with this name here.
    pub(super) fn inward(&self, name: &str) -> String {
        match &self.server {
            Some(server) => format!("{server}.{name}"),
            None => name.to_owned(),
        }
    }

    /// The name of a governed tool here; `None` if this view does not show it.
    pub(super) fn outward<'a>(&self, name: &'a str) -> Option<&'a str> {
        match &self.server {
            Some(server) => name.strip_prefix(server.as_str())?.strip_prefix('.'),
            None => Some(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_four_shapes_of_path_are_views() {
        let view = |run: Option<&str>, server: Option<&str>| PathView {
            run: run.map(str::to_owned),
            server: server.map(str::to_owned),
        };
        for (path, expected) in [
            ("/mcp", view(None, None)),
            ("/mcp/", view(None, None)),
            ("/mcp/r/night-1", view(Some("night-1"), None)),
            ("/mcp/s/git", view(None, Some("git"))),
            ("/mcp/r/a.b/s/git", view(Some("a.b"), Some("git"))),
        ] {
            assert_eq!(PathView::of(path), Some(expected), "{path}");
        }
        for path in [
            "/mcpx",
            "/mcp//",
            "/mcp/r",
            "/mcp/r/",
            "/mcp/r/..",
            "/mcp/r/.",
            "/mcp/../admin",
            "/mcp/s/GIT",
            "/mcp/s/a.b",
            "/mcp/s/git/r/x",
            "/mcp/r/%2e%2e",
            "/mcp/r/a/s/git/",
            "/",
        ] {
            assert_eq!(PathView::of(path), None, "{path}");
        }
        assert!(PathView::claims("/mcp/../admin") && !PathView::claims("/mcpx"));
    }

    #[test]
    fn a_server_view_takes_the_servers_name_off_and_puts_it_back() {
        let git = PathView::of("/mcp/s/git").unwrap();
        assert_eq!(git.inward("log"), "git.log");
        assert_eq!(git.outward("git.log"), Some("log"));
        assert_eq!(git.outward("github.log"), None);
        assert_eq!(PathView::default().outward("git.log"), Some("git.log"));
    }
}
