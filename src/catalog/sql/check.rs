//! The checks of a `sql` binding.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::{
    Allowed, Engine, Named, Postgres, SQL_BYTES_MAX, Sql, SqlTarget, StatementSource, config, read,
};
use crate::check::{Draft, Surroundings, bounded};
use crate::domain::json::{Json, Limits, json};
use crate::domain::plural::many;
use crate::host::{self, Origin};
use crate::outbound;
use crate::schema::{self, Schema};
use crate::secret::{self, Secret};
use crate::{Kind, Problems, Section, definition};

pub(super) const ROWS: u64 = 1_000;
pub(super) const ROWS_MAX: u64 = 100_000;
pub(super) const CONNECTIONS: u64 = 4;
pub(super) const CONNECTIONS_MAX: u64 = 64;
/// Directories that hold no tool's database.
const SYSTEM_DIRS: [&str; 3] = ["/proc", "/sys", "/dev"];

/// The arguments of the tool: one query's own parameters, the name of one of several, or a
/// statement.
///
/// # Errors
/// The schema of a parameter.
fn schema(sql: &config::SqlConfig) -> Result<Schema, schema::Error> {
    let object = |properties: &BTreeMap<&str, Json>, required: &[&str]| json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false});
    let params = |query: &config::Query| -> Result<Json, schema::Error> {
        let all = query.params.iter().map(|param| Ok((param.name.as_str(), param_schema(param)?)));
        let all = all.collect::<Result<_, schema::Error>>()?;
        let required = query.params.iter().filter(|param| !param.optional);
        Ok(object(&all, &required.map(|param| param.name.as_str()).collect::<Vec<_>>()))
    };
    let json = match sql.queries.len() {
        0 => {
            let query = json!({"type": "string", "maxLength": SQL_BYTES_MAX,
                "description": "one SELECT; values go in `params`, as $1, $2, …"});
            let values = json!({"type": "array", "maxItems": read::PARAMS_MAX, "items": plain()});
            object(&BTreeMap::from([("query", query), ("params", values)]), &["query"])
        }
        1 => params(sql.queries.values().next().ok_or(schema::Error::Object)?)?,
        _ => {
            let mut forms = Vec::new();
            for (name, query) in &sql.queries {
                let own =
                    BTreeMap::from([("query", json!({"const": name})), ("params", params(query)?)]);
                let needs = query.params.iter().any(|param| !param.optional);
                let required: &[&str] = if needs { &["query", "params"] } else { &["query"] };
                forms.push(object(&own, required));
            }
            let names = sql.queries.keys().collect::<Vec<_>>();
            let all = [("query", json!({"enum": names})), ("params", json!({"type": "object"}))];
            let Json::Object(mut root) = object(&BTreeMap::from(all), &["query"]) else {
                return Err(schema::Error::Object);
            };
            root.insert("oneOf".into(), forms.into());
            Json::Object(root)
        }
    };
    Schema::compile(&json)
}

/// Any value that a database takes as one parameter.
fn plain() -> Json {
    json!({"type": ["string", "number", "boolean", "null"]})
}

fn param_schema(param: &config::Param) -> Result<Json, schema::Error> {
    let Some(schema) = &param.schema else { return Ok(plain()) };
    let json = Json::parse(schema.to_string().as_bytes(), &Limits::ARGUMENTS);
    json.map_err(|error| schema::Error::Parameter(param.name.clone(), error))
}

impl Section for config::SqlConfig {
    fn takes_credentials(&self) -> bool {
        false
    }

    fn secret_files(&self) -> Vec<&Path> {
        self.url_file.iter().map(PathBuf::as_path).collect()
    }

    fn check(&self, draft: &Draft<'_>, problems: &mut Problems) -> Option<(Schema, Kind)> {
        draft.no_schema(problems);
        let schema = problems.take(&format!("{}.sql", draft.at), schema(self));
        let sql = database(self, draft, problems);
        Some((schema?, Kind::Sql(Box::new(sql?))))
    }
}

fn database(sql: &config::SqlConfig, draft: &Draft<'_>, problems: &mut Problems) -> Option<Sql> {
    let Draft { tool, surroundings, .. } = *draft;
    let timeout_ms = draft.timeout_ms();
    let at = &format!("{}.sql", draft.at);
    let engine = Engine::parse(&sql.engine)
        .ok_or_else(|| format!("`{}` is not one of `postgres`, `sqlite`", sql.engine));
    let engine = problems.take(&format!("{at}.engine"), engine)?;
    let target = match engine {
        Engine::Postgres => {
            postgres(sql, at, surroundings, problems).map(Box::new).map(SqlTarget::Postgres)
        }
        Engine::Sqlite => sqlite(sql, at, surroundings, problems).map(SqlTarget::Sqlite),
    };
    let statements = statement_source(sql, engine, tool.read_only, at, problems);
    let own = timeout_ms.saturating_mul(3).div_euclid(4).max(1);
    let timeout = bounded(sql.statement_timeout_ms, own, timeout_ms);
    let timeout = problems.take(&format!("{at}.statement_timeout_ms"), timeout);
    let rows = problems.take(&format!("{at}.rows_max"), bounded(sql.rows_max, ROWS, ROWS_MAX));
    let most = bounded(sql.connections_max, CONNECTIONS, CONNECTIONS_MAX);
    let most = problems.take(&format!("{at}.connections_max"), most);
    Some(Sql {
        target: target?,
        statements: statements?,
        read_only: tool.read_only,
        statement_timeout: Duration::from_millis(timeout?),
        rows_max: rows?,
        connections_max: usize::try_from(most?).ok()?,
    })
}

fn postgres(
    sql: &config::SqlConfig,
    at: &str,
    surroundings: &Surroundings<'_>,
    problems: &mut Problems,
) -> Option<Postgres> {
    if sql.path.is_some() {
        problems.add(format!("{at}.path"), "means nothing for `postgres`");
    }
    let ranges = outbound::ranges(&sql.private_addresses, at, problems);
    let at_url = format!("{at}.url_file");
    let Some(file) = &sql.url_file else {
        problems.add(at_url, "`postgres` needs it: the address is a secret, so it is in a file");
        return None;
    };
    let text = problems.take(&at_url, surroundings.read_secret(file))?;
    let url = problems.take(&at_url, Url::parse(text.trim()))?;
    let before = problems.0.len();
    outbound::reachable(&url.origin, &ranges, true, at, problems);
    // The address is in a file, so the error is about the field with `_file`.
    problems.0.iter_mut().skip(before).for_each(|problem| problem.path.push_str("_file"));
    let ca = outbound::ca(sql.ca_file.as_deref(), Some(&url.origin), at, surroundings, problems)?;
    let search_path = sql.search_path.clone().unwrap_or_else(|| vec!["public".into()]);
    if search_path.is_empty() || search_path.iter().any(|name| !is_name(name)) {
        problems.add(format!("{at}.search_path"), "is a list of schemas: [A-Za-z_][A-Za-z0-9_]*");
    }
    let Url { origin, database, user, password } = url;
    Some(Postgres { origin, database, user, password, ca, private_addresses: ranges, search_path })
}

/// Why a text is not an address of a Postgres database. The error never shows the text.
#[derive(Debug, thiserror::Error)]
enum UrlError {
    #[error("expected `postgres://user:password@host:port/database`")]
    Form,
    #[error("`sslmode` must be `verify-full` (the default) or `disable`")]
    SslMode,
    #[error("`{0}` is not supported; the only parameter is `sslmode`")]
    Unknown(String),
    #[error(transparent)]
    Host(#[from] host::Error),
    #[error(transparent)]
    Password(#[from] secret::Error),
}

struct Url {
    origin: Origin,
    database: String,
    user: String,
    password: Option<Secret>,
}

impl Url {
    /// Reads `postgres://user:password@host:port/database`. No error shows its contents.
    fn parse(text: &str) -> Result<Self, UrlError> {
        let url = url::Url::parse(text).map_err(|_| UrlError::Form)?;
        if !matches!(url.scheme(), "postgres" | "postgresql") || url.fragment().is_some() {
            return Err(UrlError::Form);
        }
        let mut tls = true;
        for (name, value) in url.query_pairs() {
            match (name.as_ref(), value.as_ref()) {
                ("sslmode", "disable") => tls = false,
                ("sslmode", "verify-full") => tls = true,
                ("sslmode", _) => return Err(UrlError::SslMode),
                _ => return Err(UrlError::Unknown(name.into_owned())),
            }
        }
        let decoded = |text: &str| percent(text).ok_or(UrlError::Form);
        let scheme = if tls { "https" } else { "http" };
        let port = url.port().unwrap_or(5432);
        let host = url.host_str().ok_or(UrlError::Form)?;
        let (origin, _) = Origin::parse(&format!("{scheme}://{host}:{port}/"))?;
        let database = decoded(url.path().trim_start_matches('/'))?;
        let user = decoded(url.username())?;
        let plain = |text: &str| {
            (1..=63).contains(&text.len()) && !text.contains('/') && text.bytes().all(|b| b > 0x1f)
        };
        if !plain(&database) || !plain(&user) {
            return Err(UrlError::Form);
        }
        let password = url.password().map(decoded).transpose()?;
        let password = password.map(|text| Secret::parse(&text)).transpose()?;
        Ok(Self { origin, database, user, password })
    }
}

/// Percent-encoded text, decoded.
fn percent(text: &str) -> Option<String> {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let pair = [bytes.next()?, bytes.next()?];
            out.push(u8::from_str_radix(std::str::from_utf8(&pair).ok()?, 16).ok()?);
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).ok()
}

fn sqlite(
    sql: &config::SqlConfig,
    at: &str,
    surroundings: &Surroundings<'_>,
    problems: &mut Problems,
) -> Option<PathBuf> {
    let foreign = [
        ("url_file", sql.url_file.is_some()),
        ("ca_file", sql.ca_file.is_some()),
        ("private_addresses", !sql.private_addresses.is_empty()),
        ("search_path", sql.search_path.is_some()),
    ];
    problems.foreign(at, foreign, "means nothing for `sqlite`");
    let at = format!("{at}.path");
    let Some(file) = &sql.path else {
        problems.add(at, "`sqlite` needs it");
        return None;
    };
    let joined = surroundings.base_dir.join(file);
    let failed = |error: std::io::Error| format!("cannot open `{}`: {error}", joined.display());
    let path = problems.take(&at, joined.canonicalize().map_err(failed))?;
    let facts = problems.take(&at, path.metadata().map_err(failed))?;
    if !facts.is_file() || facts.nlink() != 1 {
        let message = format!("`{}` is not a regular file of one name", path.display());
        problems.add(at, message);
        return None;
    }
    let own = surroundings.forbidden.iter().chain(surroundings.own).map(PathBuf::as_path);
    for dir in own.chain(SYSTEM_DIRS.iter().map(Path::new)) {
        let dir = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
        if path.starts_with(&dir) {
            let message = format!(
                "`{}` is below `{}`, which no tool may read",
                path.display(),
                dir.display()
            );
            problems.add(at, message);
            return None;
        }
    }
    Some(path)
}

fn statement_source(
    sql: &config::SqlConfig,
    engine: Engine,
    read_only: bool,
    at: &str,
    problems: &mut Problems,
) -> Option<StatementSource> {
    match (sql.queries.is_empty(), sql.tables.is_empty()) {
        (true, true) | (false, false) => {
            let message = "give one of `queries` (what you wrote) and `tables` (what an agent's own \
                           SELECT may read)";
            problems.add(at, message);
            None
        }
        (false, true) => {
            if !sql.functions.is_empty() {
                problems.add(format!("{at}.functions"), "means nothing beside `queries`");
            }
            queries(sql, engine, read_only, at, problems).map(StatementSource::Named)
        }
        (true, false) => {
            if !read_only {
                let message =
                    "an agent's own statements only read: say `read_only: true` of the tool";
                problems.add(format!("{at}.tables"), message);
            }
            Some(StatementSource::Free(allowed(sql, engine, at, problems)))
        }
    }
}

fn is_name(text: &str) -> bool {
    let mut bytes = text.bytes();
    let first = bytes.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    first && text.len() <= 63 && bytes.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn allowed(sql: &config::SqlConfig, engine: Engine, at: &str, problems: &mut Problems) -> Allowed {
    let mut allowed = Allowed::default();
    for (i, table) in sql.tables.iter().enumerate() {
        let pair = match (engine, table.split_once('.')) {
            (Engine::Postgres, Some((schema, name))) => Some((schema.to_owned(), name.to_owned())),
            (Engine::Sqlite, None) => Some(("main".to_owned(), table.to_ascii_lowercase())),
            (Engine::Postgres, None) | (Engine::Sqlite, Some(_)) => None,
        };
        let pair = pair.filter(|(schema, name)| is_name(schema) && (name == "*" || is_name(name)));
        let at = format!("{at}.tables[{i}]");
        match (pair, engine) {
            (Some((schema, name)), _) if name == "*" && (schema.starts_with("pg_")) => {
                problems.add(at, "the tables of the database itself are listed one by one");
            }
            (Some(pair), _) => _ = allowed.tables.insert(pair),
            (None, Engine::Postgres) => problems.add(at, "is `schema.table` or `schema.*`"),
            (None, Engine::Sqlite) => problems.add(at, "is the name of a table or `*`"),
        }
    }
    for (i, function) in sql.functions.iter().enumerate() {
        let names: Vec<&str> = function.split('.').collect();
        let right = match (engine, names.as_slice()) {
            (Engine::Postgres, [schema, name]) => is_name(schema) && is_name(name),
            (Engine::Sqlite, [name]) => is_name(name),
            _ => false,
        };
        if right {
            allowed.functions.insert(function.to_ascii_lowercase());
        } else {
            let message = "is `schema.function`; for SQLite the name alone";
            problems.add(format!("{at}.functions[{i}]"), message);
        }
    }
    allowed
}

fn queries(
    sql: &config::SqlConfig,
    engine: Engine,
    read_only: bool,
    at: &str,
    problems: &mut Problems,
) -> Option<BTreeMap<String, Named>> {
    let home = match (engine, sql.search_path.as_deref()) {
        (Engine::Postgres, Some([first, ..])) => first.as_str(),
        (Engine::Postgres, Some([]) | None) => "public",
        (Engine::Sqlite, _) => "main",
    };
    let mut all = BTreeMap::new();
    for (name, query) in &sql.queries {
        let at = format!("{at}.queries.{name}");
        if !is_name(name) {
            problems.add(at.as_str(), "the name of a query is [A-Za-z_][A-Za-z0-9_]{0,62}");
        }
        let mut names = BTreeSet::new();
        for (i, param) in query.params.iter().enumerate() {
            if !is_name(&param.name) || !names.insert(&param.name) {
                let message = "a parameter has a name of its own: [A-Za-z_][A-Za-z0-9_]{0,62}";
                problems.add(format!("{at}.params[{i}].name"), message);
            }
        }
        let statement = read::named(engine, home, &query.text).map_err(|refused| refused.message);
        let Some(statement) = problems.take(&format!("{at}.text"), statement) else { continue };
        if statement.params != query.params.len() {
            let (given, used) = (query.params.len(), statement.params);
            let message = format!("lists {}, the text uses {used}", many(given, "parameter"));
            problems.add(format!("{at}.params"), message);
        }
        if statement.writes && read_only {
            problems.add(format!("{at}.text"), "writes, and the tool is `read_only`");
        }
        let params = query.params.iter().map(|param| param.name.clone()).collect();
        all.insert(name.clone(), Named { statement: Arc::new(statement), params });
    }
    (!all.is_empty()).then_some(all)
}

/// The binding's own part of the definition, without secrets.
pub(super) fn facts(sql: &Sql) -> Json {
    let target = match &sql.target {
        SqlTarget::Postgres(pg) => json!({
            "engine": Engine::Postgres,
            "server": format!("{}:{}", pg.origin.host, pg.origin.port),
            "tls": pg.origin.tls,
            "database": pg.database,
            "user": pg.user,
            "ca": definition::authorities(pg.ca.as_deref()),
            "private_addresses": definition::ranges(&pg.private_addresses),
            "search_path": pg.search_path,
        }),
        SqlTarget::Sqlite(path) => {
            json!({"engine": Engine::Sqlite, "path": path.to_string_lossy()})
        }
    };
    let statements = match &sql.statements {
        StatementSource::Named(queries) => Json::object(queries.iter().map(|(name, query)| {
            (name.clone(), json!({"text": query.statement.text, "params": query.params}))
        })),
        StatementSource::Free(allowed) => {
            let tables = allowed.tables.iter().map(|(schema, table)| format!("{schema}.{table}"));
            json!({"tables": tables.collect::<Vec<_>>(), "functions": allowed.functions})
        }
    };
    json!({
        "target": target,
        "asks": statements,
        "statement_timeout_ms": u64::try_from(sql.statement_timeout.as_millis()).unwrap_or(u64::MAX),
        "rows_max": sql.rows_max,
        "connections_max": sql.connections_max,
        "isolation": "none",
    })
}
