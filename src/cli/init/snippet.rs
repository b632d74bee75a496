//! The client's configuration with governed servers in it: as text, or written back.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::shape::{Shape, Source};
use crate::cli::create;
use crate::mcp::raw::quoted;

/// Where a governed server is found by the client.
#[derive(Clone, Debug)]
pub enum Way {
    /// A command: this program, and the configuration.
    Command {
        /// This program.
        exe: PathBuf,
        /// The configuration, absolute.
        config: PathBuf,
    },
    /// A URL: the address agents connect to.
    Http(std::net::SocketAddr),
}

/// The variable a client takes its token from.
pub const TOKEN_VARIABLE: &str = "WICKETGATE_AGENT_TOKEN";

/// One entry, its members on lines of their own after `pad`.
#[must_use]
pub fn entry(way: &Way, shape: Shape, server: &str, pad: &str) -> String {
    let mut members = Vec::new();
    match way {
        Way::Command { exe, config } => {
            if shape == Shape::VsCode {
                members.push(r#""type": "stdio""#.to_owned());
            }
            members.push(format!("\"command\": {}", quoted(&exe.display().to_string())));
            let args = ["mcp", "--config", &config.display().to_string(), "--server", server];
            let args: Vec<String> = args.iter().map(|arg| quoted(arg)).collect();
            members.push(format!("\"args\": [{}]", args.join(", ")));
        }
        Way::Http(address) => {
            let token = match shape {
                Shape::McpServers => format!("${{{TOKEN_VARIABLE}}}"),
                Shape::Cursor | Shape::VsCode => format!("${{env:{TOKEN_VARIABLE}}}"),
            };
            members.push(r#""type": "http""#.to_owned());
            members
                .push(format!("\"url\": {}", quoted(&format!("http://{address}/mcp/s/{server}"))));
            let token = quoted(&format!("Bearer {token}"));
            members.push(format!("\"headers\": {{\"Authorization\": {token}}}"));
        }
    }
    let lines = members.join(&format!(",\n{pad}  "));
    format!("{{\n{pad}  {lines}\n{pad}}}")
}

/// A whole file of this shape with these servers: what the client calls each, and its name at the gate.
#[must_use]
pub fn file(way: &Way, source: &Source, servers: &[(String, String)]) -> String {
    let depth = source.path.len();
    let pad = "  ".repeat(depth.saturating_add(1));
    let entries: Vec<String> = servers
        .iter()
        .map(|(own, name)| {
            format!("{pad}{}: {}", quoted(own), entry(way, source.shape, name, &pad))
        })
        .collect();
    let mut text = entries.join(",\n");
    for (level, name) in source.path.iter().enumerate().rev() {
        let pad = "  ".repeat(level.saturating_add(1));
        text = format!("{pad}\"{name}\": {{\n{text}\n{pad}}}");
    }
    format!("{{\n{text}\n}}")
}

/// The file's own text with the governed entries in the place of the old ones; nothing else moves.
#[must_use]
pub fn rewritten(way: &Way, source: &Source, servers: &[(String, String)]) -> String {
    let mut text = source.text.clone();
    let mut entries: Vec<_> = source.entries.iter().collect();
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.span.start));
    for old in entries {
        let Some((_, name)) = servers.iter().find(|(own, _)| *own == old.name) else { continue };
        let before = source.text.get(..old.span.start).unwrap_or_default();
        let line = before.rsplit('\n').next().unwrap_or_default();
        let pad: String = line.chars().take_while(|c| matches!(c, ' ' | '\t')).collect();
        let new = entry(way, source.shape, name, &pad);
        if text.get(old.span.clone()).is_some() {
            text.replace_range(old.span.clone(), &new);
        }
    }
    text
}

/// Where the file as it was is kept.
#[must_use]
pub fn backup(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".before-wicketgate");
    PathBuf::from(name)
}

/// What stands in the kept file in place of a credential.
const TAKEN: &str = "<taken out by wicketgate init>";

/// The file's own text without these texts, in whatever way they are written in it.
#[must_use]
pub fn without(text: &str, withheld: &[&str]) -> String {
    let mut kept = String::new();
    let mut rest = text;
    // One literal after the other, for escapes and percent signs may stand for any character of a credential.
    while let Some(at) = rest.find('"') {
        let (before, from) = rest.split_at(at);
        kept.push_str(before);
        let literal = from.get(..literal_end(from)).unwrap_or(from);
        let read: Option<String> = serde_json::from_str(literal).ok();
        let holds = read.is_some_and(|read| {
            let plain = |text: &str| withheld.iter().any(|secret| text.contains(secret));
            // A plus may be itself, or a space.
            let itself = read.replace('+', "%2B");
            plain(&read) || plain(&decoded(&read)) || plain(&decoded(&itself))
        });
        if holds {
            kept.push_str(&quoted(TAKEN));
        } else {
            kept.push_str(literal);
        }
        rest = from.get(literal.len()..).unwrap_or_default();
    }
    kept.push_str(rest);
    // And in comments.
    withheld.iter().fold(kept, |text, secret| text.replace(secret, TAKEN))
}

/// Bytes of the literal that this begins with, both quotation marks included.
fn literal_end(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at.saturating_add(1),
            '\n' => return at,
            _ => {}
        }
    }
    text.len()
}

/// What percent signs and plus signs of a query stand for.
fn decoded(text: &str) -> String {
    let form = text.replace('&', "%26").replace('=', "%3D");
    url::form_urlencoded::parse(form.as_bytes())
        .map(|(name, value)| format!("{name}{value}"))
        .collect()
}

/// Keeps the file as it is but for these texts, then replaces it in one step.
///
/// # Errors
/// What the system said, or that there is a backup already; the file is as it was.
pub fn replace(source: &Source, text: &str, withheld: &[&str]) -> Result<PathBuf, String> {
    let failed = |path: &Path, e: std::io::Error| format!("`{}`: {e}", path.display());
    let kept = backup(&source.file);
    let mode = std::fs::metadata(&source.file).map_err(|e| failed(&source.file, e))?;
    let mode = mode.permissions().mode() & 0o777;
    let before = without(&source.text, withheld);
    create(&kept, before.as_bytes(), mode & 0o700).map_err(|e| failed(&kept, e))?;
    let mut part = source.file.as_os_str().to_owned();
    part.push(".wicketgate-part");
    let part = PathBuf::from(part);
    create(&part, text.as_bytes(), mode)
        .and_then(|()| std::fs::rename(&part, &source.file))
        .map_err(|e| {
            // The old file is still in its place.
            let _ = std::fs::remove_file(&part);
            failed(&source.file, e)
        })?;
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_credential_is_not_kept_however_it_is_written() {
        let secret = "s3cret/+\u{e9}=&x";
        for literal in [
            r#""s3cret/+\u{e9}=&x""#.replace("\\u{e9}", "\u{e9}"),
            "\"Bearer s3cret\\/+\\u00e9=&x\"".to_owned(),
            "\"\\u0073\\u0033cret/+\u{e9}=&x\"".to_owned(),
            "\"https://h/?k=s3cret%2F%2B%C3%A9%3D%26x&a=b\"".to_owned(),
            "\"https://h/?k=%73%33cret%2f%2b%c3%a9%3d%26x\"".to_owned(),
        ] {
            let text = format!("{{\n // s3cret/+\u{e9}=&x\n \"a\": {literal}, \"b\": \"kept\"}}");
            let got = without(&text, &[secret]);
            assert_eq!(
                got,
                format!("{{\n // {TAKEN}\n \"a\": \"{TAKEN}\", \"b\": \"kept\"}}"),
                "{literal}"
            );
        }
    }

    proptest! {
        #[test]
        fn what_holds_no_credential_stays_as_it_is(text in "[a-z{}:,\"\\\\/\n ]{0,60}") {
            prop_assert_eq!(without(&text, &["0123456789"]), text);
        }

        #[test]
        fn no_escaping_of_a_credential_is_kept(secret in "[a-zA-Z0-9+/=_.-]{8,20}", how in prop::collection::vec(0_u8..3, 20)) {
            let written: String = secret.chars().zip(how).map(|(c, how)| match how {
                0 => c.to_string(),
                1 => format!("\\u{:04x}", u32::from(c)),
                _ => format!("%{:02x}", u32::from(c)),
            }).collect();
            let kept = without(&format!("{{\"k\": \"{written}\"}}"), &[secret.as_str()]);
            prop_assert_eq!(kept, format!("{{\"k\": \"{TAKEN}\"}}"));
        }
    }
}
