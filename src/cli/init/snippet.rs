//! The client's configuration with governed servers in it: as text, or written back.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use jsonc_parser::cst::{CstInputValue, CstRootNode, TrailingCommaMode};
use jsonc_parser::tokens::Token;
use jsonc_parser::{Scanner, ScannerOptions};

use super::error::Error;
use super::shape::{ClientFile, JSONC, Shape, split_mark};
use crate::cli::{FileError, create};
use crate::crypto::files::beside;
use crate::mcp::raw::quoted;

/// How the client reaches a governed server.
#[derive(Clone, Debug)]
pub enum ServerLocation {
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

/// One entry, its members in the usual order.
fn entry(way: &ServerLocation, shape: Shape, server: &str) -> CstInputValue {
    let member = |name: &str, value: CstInputValue| (name.to_owned(), value);
    CstInputValue::Object(match way {
        ServerLocation::Command { exe, config } => {
            let config = config.display().to_string();
            let args = ["serve", "mcp", "--config", &config, "--server", server];
            let args = args.map(CstInputValue::from).to_vec();
            let kind = (shape == Shape::VsCode).then(|| member("type", "stdio".into()));
            let command = member("command", exe.display().to_string().into());
            kind.into_iter().chain([command, member("args", CstInputValue::Array(args))]).collect()
        }
        ServerLocation::Http(address) => {
            let token = match shape {
                Shape::McpServers => format!("Bearer ${{{TOKEN_VARIABLE}}}"),
                Shape::Cursor | Shape::VsCode => format!("Bearer ${{env:{TOKEN_VARIABLE}}}"),
            };
            let headers = vec![member("Authorization", token.into())];
            vec![
                member("type", "http".into()),
                member("url", format!("http://{address}/mcp/s/{server}").into()),
                member("headers", CstInputValue::Object(headers)),
            ]
        }
    })
}

/// A whole file of this shape with these servers: what the client calls each, and its name at the gate.
pub fn file(way: &ServerLocation, source: &ClientFile, servers: &[(String, String)]) -> String {
    let entry = |(own, name): &(String, String)| (own.clone(), entry(way, source.shape, name));
    let entries = CstInputValue::Object(servers.iter().map(entry).collect());
    let whole = source
        .path
        .iter()
        .rev()
        .fold(entries, |below, name| CstInputValue::Object(vec![((*name).to_owned(), below)]));
    // INVARIANT: an empty text is one without a value.
    let Ok(root) = CstRootNode::parse("", &JSONC) else { return String::new() };
    root.set_value(whole);
    root.to_string().trim_end().to_owned()
}

/// The file's own text with governed entries instead of the old ones, and otherwise unchanged.
///
/// # Errors
/// The text is not the one that was parsed.
pub fn rewritten(
    way: &ServerLocation,
    source: &ClientFile,
    servers: &[(String, String)],
) -> Result<String, Error> {
    let (mark, body) = split_mark(&source.text);
    let root = CstRootNode::parse(body, &JSONC).map_err(|e| Error::Reread(Box::new(e)))?;
    let missing = || Error::Moved(source.path.join("."));
    let mut object = root.object_value().ok_or_else(missing)?;
    for name in &source.path {
        object = object.object_value(name).ok_or_else(missing)?;
    }
    for (own, name) in servers {
        let member = object.get(own).ok_or_else(missing)?;
        member.set_value(entry(way, source.shape, name));
        // What is new is JSON that every reader takes.
        if let Some(new) = member.object_value() {
            new.set_trailing_commas(TrailingCommaMode::Never);
        }
    }
    Ok(format!("{mark}{root}"))
}

/// Where the file as it was is kept.
pub fn backup(file: &Path) -> PathBuf {
    beside(file, ".before-wicketgate")
}

/// The replacement of a credential in the backup.
const TAKEN: &str = "<taken out by wicketgate init>";

/// The file's own text without these texts, in any spelling.
pub fn without(text: &str, withheld: &[&str]) -> String {
    let (mark, body) = split_mark(text);
    let mut scanner = Scanner::new(body, &ScannerOptions::default());
    let (mut kept, mut done) = (mark.to_owned(), 0);
    // WHY: literal by literal, since escapes and percent signs may stand for any character of a
    // credential.
    while let Ok(Some(token)) = scanner.scan() {
        let Token::String(read) = token else { continue };
        let plain = |text: &str| withheld.iter().any(|secret| text.contains(secret));
        // A plus may be itself, or a space.
        let itself = read.replace('+', "%2B");
        if plain(&read) || plain(&decoded(&read)) || plain(&decoded(&itself)) {
            kept.push_str(body.get(done..scanner.token_start()).unwrap_or_default());
            kept.push_str(&quoted(TAKEN));
            done = scanner.token_end();
        }
    }
    kept.push_str(body.get(done..).unwrap_or_default());
    // And in comments.
    withheld.iter().fold(kept, |text, secret| text.replace(secret, TAKEN))
}

/// The text behind the percent and plus signs of a query.
fn decoded(text: &str) -> String {
    let form = text.replace('&', "%26").replace('=', "%3D");
    url::form_urlencoded::parse(form.as_bytes())
        .map(|(name, value)| format!("{name}{value}"))
        .collect()
}

/// Keeps a backup of the file without these texts, then replaces the file in one step.
///
/// # Errors
/// The system's error, or a backup exists already; the file is then unchanged.
pub fn replace(source: &ClientFile, text: &str, withheld: &[&str]) -> Result<PathBuf, FileError> {
    let kept = backup(&source.file);
    let mode = std::fs::metadata(&source.file).map_err(FileError::at(&source.file))?;
    let mode = mode.permissions().mode() & 0o777;
    let before = without(&source.text, withheld);
    create(&kept, before.as_bytes(), mode & 0o700).map_err(FileError::at(&kept))?;
    let part = beside(&source.file, ".wicketgate-part");
    create(&part, text.as_bytes(), mode)
        .and_then(|()| std::fs::rename(&part, &source.file))
        .map_err(|e| {
            // The old file is still in its place.
            let _ = std::fs::remove_file(&part);
            FileError::at(&source.file)(e)
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
            let edited = without(&text, &[secret]);
            assert_eq!(
                edited,
                format!("{{\n // {TAKEN}\n \"a\": \"{TAKEN}\", \"b\": \"kept\"}}"),
                "{literal}"
            );
        }
    }

    #[test]
    fn only_the_governed_entries_of_a_file_change() {
        let text = "\u{feff}{\n  // mine\n  \"inputs\": [1, 2, ],\n  \"servers\": {\n    \"a b\": {\"command\": \"x\"}, // first\n    \"c\": {\"command\": \"y\"},\n  },\n}\n";
        let source = ClientFile {
            file: PathBuf::from("mcp.json"),
            text: text.to_owned(),
            shape: Shape::VsCode,
            path: vec!["servers"],
            entries: Vec::new(),
        };
        let way =
            ServerLocation::Command { exe: "/bin/w \"q\"".into(), config: "/g/w.yaml".into() };
        let servers = [("a b".to_owned(), "a-b".to_owned())];
        let new = "{\n      \"type\": \"stdio\",\n      \"command\": \"/bin/w \\\"q\\\"\",\n      \
                   \"args\": [\"serve\", \"mcp\", \"--config\", \"/g/w.yaml\", \"--server\", \"a-b\"]\n    }";
        let expected = text.replace("{\"command\": \"x\"}", new);
        assert_eq!(rewritten(&way, &source, &servers).unwrap(), expected);
        let alone = file(&way, &source, &servers);
        let alone: serde_json::Value = serde_json::from_str(&alone).unwrap();
        assert_eq!(alone["servers"]["a b"]["args"][5], "a-b");
        assert!(rewritten(&way, &source, &[("d".to_owned(), "d".to_owned())]).is_err());
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
