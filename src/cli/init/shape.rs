//! Other people's MCP configurations: which of the known shapes a file has, and the servers in it.
//!
//! `mcpServers` is what Claude Desktop, Claude Code and Cursor write, `servers` (alone, or below `mcp`)
//! what VS Code writes. What a file says besides its servers is none of our business.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde_json::value::RawValue;

use super::jsonc;
use crate::mcp::raw::Members;

/// Bytes of a configuration.
const BYTES_MAX: u64 = 4 << 20;

/// Whose shape it is: how its entries say things.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shape {
    /// `mcpServers` of Claude Desktop, Claude Code and others: `${VAR}`.
    McpServers,
    /// `mcpServers` in `.cursor`: `${env:VAR}`.
    Cursor,
    /// `servers`, `${env:VAR}` and `${input:id}`.
    VsCode,
}

/// One file with its servers.
#[derive(Debug)]
pub struct Source {
    /// The file, absolute.
    pub file: PathBuf,
    /// Its exact text.
    pub text: String,
    /// Its shape.
    pub shape: Shape,
    /// The names below which the servers stand: `mcpServers`, or `mcp` and `servers`.
    pub path: Vec<&'static str>,
    /// The servers in their order.
    pub entries: Vec<Entry>,
}

/// One server as somebody wrote it.
#[derive(Clone, Debug)]
pub struct Entry {
    /// What the client calls it.
    pub name: String,
    /// Where its value stands in the text.
    pub span: Range<usize>,
    /// How it is reached.
    pub reach: Reach,
    /// Its owner switched it off.
    pub disabled: bool,
    /// What of it means nothing to the gate, for the report.
    pub ignored: Vec<String>,
}

/// How a server is reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Reach {
    /// A program.
    Stdio {
        /// The program.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its variables.
        env: BTreeMap<String, String>,
        /// Where it runs.
        cwd: Option<String>,
    },
    /// A URL.
    Http {
        /// The URL.
        url: String,
        /// Its headers.
        headers: BTreeMap<String, String>,
    },
}

/// Members that mean something to the client alone.
const OF_THE_CLIENT: [&str; 13] = [
    "alwaysAllow",
    "autoApprove",
    "description",
    "dev",
    "disabledTools",
    "gallery",
    "icon",
    "metadata",
    "name",
    "timeout",
    "tools",
    "trust",
    "version",
];

impl Source {
    /// Reads a file.
    ///
    /// # Errors
    /// The file, the field and what is wrong with it; everything that is.
    pub fn load(file: &Path) -> Result<Self, Vec<String>> {
        let shown = file.display().to_string();
        let failed = |e: std::io::Error| vec![format!("{shown}: {e}")];
        if std::fs::metadata(file).map_err(failed)?.len() > BYTES_MAX {
            return Err(vec![format!("{shown}: more than {BYTES_MAX} bytes")]);
        }
        let text = std::fs::read_to_string(file).map_err(failed)?;
        let file = file.canonicalize().map_err(failed)?;
        Self::read(text, file, &shown)
    }

    fn read(text: String, file: PathBuf, shown: &str) -> Result<Self, Vec<String>> {
        let plain = jsonc::plain(text.trim_start_matches('\u{feff}'));
        let skipped = text.len().saturating_sub(plain.len());
        let reading = Reading { plain: &plain, shown };
        let root = Members::parse(&plain)
            .map_err(|e| vec![format!("{shown}:{}:{}: {e}", e.line(), e.column())])?;
        let (shape, path, servers) = reading.servers(&root).map_err(|e| vec![e])?;
        let label = path.join(".");
        let servers = reading.object(servers, &label).map_err(|e| vec![e])?;
        let mut wrong = Vec::new();
        let mut entries = Vec::new();
        for (name, value) in servers.iter() {
            match reading.entry(name, value, &label) {
                Ok(mut entry) => {
                    entry.span = entry.span.start.saturating_add(skipped)
                        ..entry.span.end.saturating_add(skipped);
                    entries.push(entry);
                }
                Err(more) => wrong.extend(more),
            }
        }
        if entries.is_empty() && wrong.is_empty() {
            wrong.push(format!("{shown}: {label}: there is no server"));
        }
        if !wrong.is_empty() {
            return Err(wrong);
        }
        let folder = file.parent().and_then(Path::file_name);
        let cursor = shape == Shape::McpServers && folder.is_some_and(|name| name == ".cursor");
        let shape = if cursor { Shape::Cursor } else { shape };
        Ok(Self { file, text, shape, path, entries })
    }
}

struct Reading<'a> {
    plain: &'a [u8],
    shown: &'a str,
}

type Found<'a> = (Shape, Vec<&'static str>, &'a RawValue);

impl<'a> Reading<'a> {
    /// Where a value of the text stands in it.
    fn at(&self, value: &RawValue) -> usize {
        value.get().as_ptr().addr().saturating_sub(self.plain.as_ptr().addr())
    }

    fn error(&self, value: &RawValue, field: &str, why: &str) -> String {
        let (line, column) = jsonc::place(self.plain, self.at(value));
        format!("{}:{line}:{column}: {field}: {why}", self.shown)
    }

    fn servers(&self, root: &Members<'a>) -> Result<Found<'a>, String> {
        let below = root.get("mcp").and_then(|mcp| Members::parse(mcp.get().as_bytes()).ok());
        let below = below.and_then(|mcp| mcp.get("servers"));
        let known = [
            (Shape::McpServers, vec!["mcpServers"], root.get("mcpServers")),
            (Shape::VsCode, vec!["servers"], root.get("servers")),
            (Shape::VsCode, vec!["mcp", "servers"], below),
        ];
        let mut found = known.into_iter().filter_map(|(s, path, value)| Some((s, path, value?)));
        match (found.next(), found.next()) {
            (Some(one), None) => Ok(one),
            (None, _) => Err(format!(
                "{}: neither `mcpServers` (Claude, Cursor) nor `servers` (VS Code) is in it",
                self.shown
            )),
            (Some((_, one, _)), Some((_, other, value))) => {
                let why = format!("`{}` is there too: which one counts?", one.join("."));
                Err(self.error(value, &other.join("."), &why))
            }
        }
    }

    fn object(&self, value: &'a RawValue, field: &str) -> Result<Members<'a>, String> {
        Members::parse(value.get().as_bytes())
            .map_err(|e| self.error(value, field, &format!("expected an object: {e}")))
    }

    fn entry(&self, name: &str, value: &'a RawValue, label: &str) -> Result<Entry, Vec<String>> {
        let label = format!("{label}.{name}");
        let members = self.object(value, &label).map_err(|e| vec![e])?;
        let mut wrong = Vec::new();
        let mut ignored = Vec::new();
        for (member, value) in members.iter() {
            let field = format!("{label}.{member}");
            match member {
                "type" | "command" | "args" | "env" | "cwd" | "url" | "headers" | "disabled"
                | "enabled" => {}
                "envFile" => {
                    let why = "is not read: write its variables into `env`";
                    wrong.push(self.error(value, &field, why));
                }
                known if OF_THE_CLIENT.contains(&known) => ignored.push(known.to_owned()),
                _ => wrong.push(self.error(value, &field, "unknown field")),
            }
        }
        let mut take = |result: Result<(), String>| wrong.extend(result.err());
        let mut disabled = false;
        for (member, means) in [("disabled", true), ("enabled", false)] {
            let read = self.read::<bool>(&members, member, &label, "expected true or false");
            take(read.map(|said| disabled |= said == Some(means)));
        }
        let reach = self.reach(&members, value, &label);
        match reach {
            Ok(reach) if wrong.is_empty() => {
                let at = self.at(value);
                let span = at..at.saturating_add(value.get().len());
                Ok(Entry { name: name.to_owned(), span, reach, disabled, ignored })
            }
            Ok(_) => Err(wrong),
            Err(more) => {
                wrong.extend(more);
                Err(wrong)
            }
        }
    }

    fn reach(
        &self,
        members: &Members<'a>,
        whole: &RawValue,
        label: &str,
    ) -> Result<Reach, Vec<String>> {
        let mut wrong = Vec::new();
        let text = |name: &str, wrong: &mut Vec<String>| {
            self.read::<String>(members, name, label, "expected text").unwrap_or_else(|e| {
                wrong.push(e);
                None
            })
        };
        let (kind, command) = (text("type", &mut wrong), text("command", &mut wrong));
        let (url, cwd) = (text("url", &mut wrong), text("cwd", &mut wrong));
        let args = self.read::<Vec<String>>(members, "args", label, "expected a list of texts");
        let env = self.texts(members, "env", label);
        let headers = self.texts(members, "headers", label);
        let mut or_note = |error: Option<String>| wrong.extend(error);
        let (args, env, headers) = match (args, env, headers) {
            (Ok(args), Ok(env), Ok(headers)) => (args, env, headers),
            (args, env, headers) => {
                [args.err(), env.err(), headers.err()].into_iter().for_each(&mut or_note);
                return Err(wrong);
            }
        };
        let remote = match kind.as_deref() {
            None => url.is_some(),
            Some("stdio" | "local") => false,
            Some("http" | "sse" | "streamable-http" | "streamableHttp" | "remote") => true,
            Some(other) => {
                let why = format!("`{other}` is no transport: stdio, http, streamable-http or sse");
                wrong.push(self.error(whole, &format!("{label}.type"), &why));
                return Err(wrong);
            }
        };
        let reach = match (remote, command, url) {
            (false, Some(command), None) if !command.trim().is_empty() => {
                if headers.is_some() {
                    wrong.push(self.error(whole, label, "`headers` go with `url`"));
                }
                let (args, env) = (args.unwrap_or_default(), env.unwrap_or_default());
                Some(Reach::Stdio { command, args, env, cwd })
            }
            (true, None, Some(url)) => {
                if args.is_some() || env.is_some() || cwd.is_some() {
                    let why = "`args`, `env` and `cwd` go with `command`";
                    wrong.push(self.error(whole, label, why));
                }
                Some(Reach::Http { url, headers: headers.unwrap_or_default() })
            }
            (_, Some(_), Some(_)) => {
                wrong.push(self.error(whole, label, "`command` and `url`: which one counts?"));
                None
            }
            (false, ..) => {
                wrong.push(self.error(whole, label, "missing field `command`"));
                None
            }
            (true, ..) => {
                wrong.push(self.error(whole, label, "missing field `url`"));
                None
            }
        };
        reach.filter(|_| wrong.is_empty()).ok_or(wrong)
    }

    fn read<T: serde::de::DeserializeOwned>(
        &self,
        members: &Members<'a>,
        name: &str,
        label: &str,
        expected: &str,
    ) -> Result<Option<T>, String> {
        let Some(value) = members.get(name) else { return Ok(None) };
        serde_json::from_str(value.get())
            .map(Some)
            .map_err(|_| self.error(value, &format!("{label}.{name}"), expected))
    }

    /// An object of texts; numbers and truth values count as what they look like, as clients have it.
    fn texts(
        &self,
        members: &Members<'a>,
        name: &str,
        label: &str,
    ) -> Result<Option<BTreeMap<String, String>>, String> {
        let Some(value) = members.get(name) else { return Ok(None) };
        let field = format!("{label}.{name}");
        let mut texts = BTreeMap::new();
        for (key, value) in self.object(value, &field)?.iter() {
            let text = match value.get().as_bytes().first() {
                Some(b'"') => serde_json::from_str(value.get()).ok(),
                Some(b'0'..=b'9' | b'-' | b't' | b'f') => Some(value.get().to_owned()),
                _ => None,
            };
            let text =
                text.ok_or_else(|| self.error(value, &format!("{field}.{key}"), "expected text"))?;
            texts.insert(key.to_owned(), text);
        }
        Ok(Some(texts))
    }
}

#[cfg(test)]
#[expect(clippy::string_slice, reason = "tests may stop at the first surprise")]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Source, Vec<String>> {
        Source::read(text.to_owned(), PathBuf::from("/x/mcp.json"), "mcp.json")
    }

    #[test]
    fn every_known_shape_is_read() {
        let claude = read(
            r#"{"globalShortcut": "", "mcpServers": {
                "filesystem": {"command": "npx", "args": ["-y", "pkg", "/tmp"], "env": {"N": 1}},
                "remote": {"type": "http", "url": "https://x/mcp", "headers": {"A": "b"}},
                "old": {"type": "sse", "url": "https://x/sse"},
                "bare": {"url": "https://x/mcp", "disabled": true}}}"#,
        );
        let claude = claude.unwrap();
        assert_eq!(claude.shape, Shape::McpServers);
        let names: Vec<_> = claude.entries.iter().map(|e| e.name.as_str()).collect();
        assert_eq!(names, ["filesystem", "remote", "old", "bare"]);
        let first = &claude.entries[0];
        assert!(claude.text[first.span.clone()].starts_with(r#"{"command": "npx""#));
        assert!(claude.text[first.span.clone()].ends_with(r#"{"N": 1}}"#));
        let Reach::Stdio { env, .. } = &first.reach else { panic!() };
        assert_eq!(env["N"], "1");
        assert!(claude.entries[3].disabled);

        let code = read(
            "\u{feff}{\n // servers\n \"inputs\": [{\"id\": \"t\", \"type\": \"promptString\"}],\n \
             \"servers\": {\"g\": {\"type\": \"stdio\", \"command\": \"x\", \"gallery\": true,}, },\n}",
        );
        let code = code.unwrap();
        assert_eq!((code.shape, code.path.clone()), (Shape::VsCode, vec!["servers"]));
        assert_eq!(code.entries[0].ignored, ["gallery"]);
        assert!(code.text[code.entries[0].span.clone()].starts_with("{\"type\": \"stdio\""));
        let settings = read(r#"{"mcp": {"servers": {"g": {"command": "x"}}}}"#).unwrap();
        assert_eq!(settings.path, ["mcp", "servers"]);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        for (text, said) in [
            ("{\"a\": 1}", "mcp.json: neither `mcpServers`"),
            ("nonsense", "mcp.json:1:2: "),
            ("{\"mcpServers\": {}}", "mcp.json: mcpServers: there is no server"),
            ("{\"mcpServers\": []}", "mcp.json:1:16: mcpServers: expected an object"),
            ("{\"mcpServers\": {}, \"servers\": {}}", "`mcpServers` is there too"),
            (
                "{\"mcpServers\": {\"a\": {}}}",
                "mcp.json:1:22: mcpServers.a: missing field `command`",
            ),
            (
                "{\"mcpServers\": {\"a\": {\n\"command\": 5}}}",
                "mcp.json:2:12: mcpServers.a.command: expected text",
            ),
            (
                "{\"mcpServers\": {\"a\": {\"command\": \"x\", \"url\": \"y\"}}}",
                "which one counts?",
            ),
            (
                "{\"mcpServers\": {\"a\": {\"command\": \"x\", \"typo\": 1}}}",
                "mcpServers.a.typo: unknown field",
            ),
            (
                "{\"mcpServers\": {\"a\": {\"type\": \"ws\", \"url\": \"y\"}}}",
                "`ws` is no transport",
            ),
            ("{\"mcpServers\": {\"a\": {\"type\": \"http\"}}}", "missing field `url`"),
            (
                "{\"mcpServers\": {\"a\": {\"command\": \"x\", \"args\": \"y\"}}}",
                "mcpServers.a.args: expected a list",
            ),
            (
                "{\"mcpServers\": {\"a\": {\"command\": \"x\", \"env\": {\"K\": {}}}}}",
                "mcpServers.a.env.K: expected text",
            ),
            (
                "{\"mcpServers\": {\"a\": {\"command\": \"x\", \"envFile\": \"y\"}}}",
                "mcpServers.a.envFile: is not read",
            ),
            (
                "{\"mcpServers\": {\"a\": {\"command\": \"x\"}, \"a\": {\"command\": \"y\"}}}",
                "a name is there twice",
            ),
        ] {
            let wrong = read(text).unwrap_err().join("\n");
            assert!(wrong.contains(said), "{text}: {wrong}");
        }
    }
}
