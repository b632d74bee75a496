//! MCP clients' configurations: the known shapes of a file, and the servers in it.
//!
//! `mcpServers` is what Claude Desktop, Claude Code and Cursor write, `servers` (alone, or below
//! `mcp`) what VS Code writes. Everything else in a file is ignored.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use jsonc_parser::ast::{Object, Value};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};

use super::problem::{InitFault, InitProblem};

/// Bytes of a configuration.
pub const BYTES_MAX: u64 = 4 << 20;

/// JSON with comments and trailing commas, and no other extension.
pub const JSONC: ParseOptions = ParseOptions {
    allow_comments: true,
    allow_trailing_commas: true,
    allow_loose_object_property_names: false,
    allow_missing_commas: false,
    allow_single_quoted_strings: false,
    allow_hexadecimal_numbers: false,
    allow_unary_plus_numbers: false,
    allow_bare_decimal_point_numbers: false,
    allow_non_finite_numbers: false,
    allow_extended_string_escapes: false,
};

/// The byte order mark that some editors write, and the text after it.
pub fn split_mark(text: &str) -> (&str, &str) {
    let after = text.strip_prefix('\u{feff}').unwrap_or(text);
    text.split_at(text.len().saturating_sub(after.len()))
}

/// The client whose shape it is, which decides how to read its entries.
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
pub struct ClientFile {
    /// The file, absolute.
    pub file: PathBuf,
    /// Its exact text.
    pub text: String,
    /// Its shape.
    pub shape: Shape,
    /// The path to the servers: `mcpServers`, or `mcp` and `servers`.
    pub path: Vec<&'static str>,
    /// The servers in their order.
    pub entries: Vec<Entry>,
}

/// One server as the user wrote it.
#[derive(Clone, Debug)]
pub struct Entry {
    /// What the client calls it.
    pub name: String,
    /// How it is reached.
    pub reach: Reach,
    /// Its owner switched it off.
    pub disabled: bool,
    /// Members that the gate ignores, for the report.
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

impl ClientFile {
    /// Reads a file.
    ///
    /// # Errors
    /// Every error, with the file and the field.
    pub fn load(file: &Path) -> Result<Self, Vec<InitProblem>> {
        let shown = file.display().to_string();
        let whole = |fault: InitFault| vec![InitProblem::whole(&shown, "", fault)];
        let failed = |e: std::io::Error| whole(e.into());
        if std::fs::metadata(file).map_err(failed)?.len() > BYTES_MAX {
            return Err(whole(InitFault::Long));
        }
        let text = std::fs::read_to_string(file).map_err(failed)?;
        let file = file.canonicalize().map_err(failed)?;
        Self::read(text, file, &shown)
    }

    fn read(text: String, file: PathBuf, shown: &str) -> Result<Self, Vec<InitProblem>> {
        let (_, body) = split_mark(&text);
        let reading = Reading { text: body, shown };
        let parsed = parse_to_ast(body, &CollectOptions::default(), &JSONC).map_err(|e| {
            let fault = InitFault::Syntax(e.kind().to_string());
            let place = Some((e.line_display(), e.column_display()));
            vec![InitProblem { place, ..InitProblem::whole(shown, "", fault) }]
        })?;
        let alone = |problem| vec![problem];
        let root =
            parsed.value.ok_or_else(|| alone(InitProblem::whole(shown, "", InitFault::Empty)))?;
        let root = reading.object(&root, "").map_err(alone)?;
        let (shape, path, servers) = reading.servers(root).map_err(alone)?;
        let label = path.join(".");
        let servers = reading.object(servers, &label).map_err(alone)?;
        let mut problems = Vec::new();
        let mut entries = Vec::new();
        for server in &servers.properties {
            match reading.entry(server.name.as_str(), &server.value, &label) {
                Ok(entry) => entries.push(entry),
                Err(more) => problems.extend(more),
            }
        }
        if entries.is_empty() && problems.is_empty() {
            problems.push(InitProblem::whole(shown, &label, InitFault::NoServer));
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let folder = file.parent().and_then(Path::file_name);
        let cursor = shape == Shape::McpServers && folder.is_some_and(|name| name == ".cursor");
        let shape = if cursor { Shape::Cursor } else { shape };
        Ok(Self { file, text, shape, path, entries })
    }
}

/// Line and column of a byte, from 1.
fn place(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.rsplit('\n').next().unwrap_or_default();
    (before.matches('\n').count().saturating_add(1), line.len().saturating_add(1))
}

struct Reading<'a> {
    text: &'a str,
    shown: &'a str,
}

type ShapeMatch<'v> = (Shape, Vec<&'static str>, &'v Value<'v>);

impl Reading<'_> {
    fn error(&self, at: &impl Ranged, field: &str, fault: InitFault) -> InitProblem {
        let place = Some(place(self.text, at.start()));
        InitProblem { place, ..InitProblem::whole(self.shown, field, fault) }
    }

    fn servers<'v>(&self, root: &'v Object<'v>) -> Result<ShapeMatch<'v>, InitProblem> {
        let value = |object: &'v Object<'v>, name| object.get(name).map(|found| &found.value);
        let below = value(root, "mcp").and_then(Value::as_object);
        let known = [
            (Shape::McpServers, vec!["mcpServers"], value(root, "mcpServers")),
            (Shape::VsCode, vec!["servers"], value(root, "servers")),
            (Shape::VsCode, vec!["mcp", "servers"], below.and_then(|mcp| value(mcp, "servers"))),
        ];
        let mut found = known.into_iter().filter_map(|(s, path, value)| Some((s, path, value?)));
        match (found.next(), found.next()) {
            (Some(one), None) => Ok(one),
            (None, _) => Err(InitProblem::whole(self.shown, "", InitFault::NoServers)),
            (Some((_, one, _)), Some((_, other, value))) => {
                Err(self.error(value, &other.join("."), InitFault::TwoShapes(one.join("."))))
            }
        }
    }

    /// An object with distinct names.
    fn object<'v>(&self, value: &'v Value<'v>, field: &str) -> Result<&'v Object<'v>, InitProblem> {
        let mistyped = || self.error(value, field, InitFault::Type("an object"));
        let object = value.as_object().ok_or_else(mistyped)?;
        let mut seen = BTreeSet::new();
        match object.properties.iter().find(|member| !seen.insert(member.name.as_str())) {
            Some(twice) => Err(self.error(twice, field, InitFault::Twice)),
            None => Ok(object),
        }
    }

    fn entry(&self, name: &str, value: &Value<'_>, label: &str) -> Result<Entry, Vec<InitProblem>> {
        let label = format!("{label}.{name}");
        let object = self.object(value, &label).map_err(|e| vec![e])?;
        let mut problems = Vec::new();
        let mut ignored = Vec::new();
        for member in &object.properties {
            let name = member.name.as_str();
            let field = format!("{label}.{name}");
            match name {
                "type" | "command" | "args" | "env" | "cwd" | "url" | "headers" | "disabled"
                | "enabled" => {}
                "envFile" => {
                    problems.push(self.error(&member.value, &field, InitFault::EnvFile));
                }
                known if OF_THE_CLIENT.contains(&known) => ignored.push(known.to_owned()),
                _ => problems.push(self.error(&member.value, &field, InitFault::Unknown)),
            }
        }
        let mut disabled = false;
        for (member, means) in [("disabled", true), ("enabled", false)] {
            let read = self.read(object, member, &label, "true or false", |value| {
                value.as_boolean_lit().map(|lit| lit.value)
            });
            problems.extend(read.map(|set| disabled |= set == Some(means)).err());
        }
        match self.reach(object, &label) {
            Ok(reach) if problems.is_empty() => {
                Ok(Entry { name: name.to_owned(), reach, disabled, ignored })
            }
            Ok(_) => Err(problems),
            Err(more) => {
                problems.extend(more);
                Err(problems)
            }
        }
    }

    fn reach(&self, object: &Object<'_>, label: &str) -> Result<Reach, Vec<InitProblem>> {
        let mut problems = Vec::new();
        let text = |name: &str, problems: &mut Vec<InitProblem>| {
            let read = self.read(object, name, label, "text", own);
            read.unwrap_or_else(|e| {
                problems.push(e);
                None
            })
        };
        let (kind, command) = (text("type", &mut problems), text("command", &mut problems));
        let (url, cwd) = (text("url", &mut problems), text("cwd", &mut problems));
        let args = self.read(object, "args", label, "a list of texts", |value| {
            value.as_array()?.elements.iter().map(own).collect::<Option<Vec<_>>>()
        });
        let (env, headers) =
            (self.texts(object, "env", label), self.texts(object, "headers", label));
        let (args, env, headers) = match (args, env, headers) {
            (Ok(args), Ok(env), Ok(headers)) => (args, env, headers),
            (args, env, headers) => {
                problems.extend([args.err(), env.err(), headers.err()].into_iter().flatten());
                return Err(problems);
            }
        };
        let remote = match kind.as_deref() {
            None => url.is_some(),
            Some("stdio" | "local") => false,
            Some("http" | "sse" | "streamable-http" | "streamableHttp" | "remote") => true,
            Some(other) => {
                let fault = InitFault::Transport(other.to_owned());
                problems.push(self.error(object, &format!("{label}.type"), fault));
                return Err(problems);
            }
        };
        let reach = match (remote, command, url) {
            (false, Some(command), None) if !command.trim().is_empty() => {
                if headers.is_some() {
                    problems.push(self.error(object, label, InitFault::Headers));
                }
                let (args, env) = (args.unwrap_or_default(), env.unwrap_or_default());
                Some(Reach::Stdio { command, args, env, cwd })
            }
            (true, None, Some(url)) => {
                if args.is_some() || env.is_some() || cwd.is_some() {
                    problems.push(self.error(object, label, InitFault::Arguments));
                }
                Some(Reach::Http { url, headers: headers.unwrap_or_default() })
            }
            (_, Some(_), Some(_)) => {
                problems.push(self.error(object, label, InitFault::Both));
                None
            }
            (false, ..) => {
                problems.push(self.error(object, label, InitFault::Missing("command")));
                None
            }
            (true, ..) => {
                problems.push(self.error(object, label, InitFault::Missing("url")));
                None
            }
        };
        reach.filter(|_| problems.is_empty()).ok_or(problems)
    }

    fn read<T>(
        &self,
        object: &Object<'_>,
        name: &str,
        label: &str,
        expected: &'static str,
        take: impl Fn(&Value<'_>) -> Option<T>,
    ) -> Result<Option<T>, InitProblem> {
        let Some(member) = object.get(name) else { return Ok(None) };
        let mistyped =
            || self.error(&member.value, &format!("{label}.{name}"), InitFault::Type(expected));
        take(&member.value).map(Some).ok_or_else(mistyped)
    }

    /// An object of texts; numbers and truth values count as their text, as in clients.
    fn texts(
        &self,
        object: &Object<'_>,
        name: &str,
        label: &str,
    ) -> Result<Option<BTreeMap<String, String>>, InitProblem> {
        let Some(member) = object.get(name) else { return Ok(None) };
        let field = format!("{label}.{name}");
        let mut texts = BTreeMap::new();
        for member in &self.object(&member.value, &field)?.properties {
            let text = match &member.value {
                Value::StringLit(lit) => lit.value.to_string(),
                Value::NumberLit(lit) => lit.value.to_owned(),
                Value::BooleanLit(lit) => lit.value.to_string(),
                Value::Object(_) | Value::Array(_) | Value::NullKeyword(_) => {
                    let field = format!("{field}.{}", member.name.as_str());
                    return Err(self.error(&member.value, &field, InitFault::Type("text")));
                }
            };
            texts.insert(member.name.as_str().to_owned(), text);
        }
        Ok(Some(texts))
    }
}

fn own(value: &Value<'_>) -> Option<String> {
    value.as_string_lit().map(|lit| lit.value.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ClientFile, Vec<InitProblem>> {
        ClientFile::read(text.to_owned(), PathBuf::from("/x/mcp.json"), "mcp.json")
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
        let settings = read(r#"{"mcp": {"servers": {"g": {"command": "x"}}}}"#).unwrap();
        assert_eq!(settings.path, ["mcp", "servers"]);
    }

    #[test]
    fn errors_in_mcp_json_name_the_file_and_the_position() {
        for (text, expected) in [
            ("{\"a\": 1}", "mcp.json: the file has neither `mcpServers`"),
            ("nonsense", "mcp.json:1:1: "),
            ("{\"mcpServers\": {}}", "mcp.json: mcpServers: the file has no servers"),
            ("{\"mcpServers\": []}", "mcp.json:1:16: mcpServers: expected an object"),
            ("{\"mcpServers\": {}, \"servers\": {}}", "`mcpServers` is set too"),
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
                "are both set: keep one of them",
            ),
            (
                "{\"mcpServers\": {\"a\": {\"command\": \"x\", \"typo\": 1}}}",
                "mcpServers.a.typo: unknown field",
            ),
            (
                "{\"mcpServers\": {\"a\": {\"type\": \"ws\", \"url\": \"y\"}}}",
                "`ws` is not a transport",
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
                "mcpServers.a.envFile: is not supported",
            ),
            (
                "{\"mcpServers\": {\"a\": {\"command\": \"x\"}, \"a\": {\"command\": \"y\"}}}",
                "mcp.json:1:40: mcpServers: this name occurs twice",
            ),
            ("", "mcp.json: the file is empty"),
            ("{\"mcpServers\": {\"a\": {'command': 1}}}", "mcp.json:1:23: "),
            ("{\"mcpServers\": {\"a\": {} \"b\": {}}}", "mcp.json:1:24: "),
        ] {
            let message: Vec<_> = read(text).unwrap_err().iter().map(ToString::to_string).collect();
            let message = message.join("\n");
            assert!(message.contains(expected), "{text}: {message}");
        }
    }
}
