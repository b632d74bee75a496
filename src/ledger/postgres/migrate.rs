//! Making roles and schema, as an administrator; `serve` only checks the version.

use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, Row};

use super::errors::{Failure, nothing_written};
use super::lane::connect_options;
use super::literal::text;
use crate::ledger::store::StoreError;

/// The schema this build reads and writes.
pub const SCHEMA_VERSION: u64 = 11;
/// The oldest schema whose gates go on with that one: a migration that takes nothing away from them leaves it as it
/// is, so that gates can be replaced one after the other. None before 11 asks for it.
const SERVES: u64 = 11;

const MIGRATIONS: [(u64, &str); 11] = [
    (1, include_str!("../../../migrations/postgres/0001_ledger.sql")),
    (2, include_str!("../../../migrations/postgres/0002_functions.sql")),
    (3, include_str!("../../../migrations/postgres/0003_fleet.sql")),
    (4, include_str!("../../../migrations/postgres/0004_subtree.sql")),
    (5, include_str!("../../../migrations/postgres/0005_retention.sql")),
    (6, include_str!("../../../migrations/postgres/0006_control.sql")),
    (7, include_str!("../../../migrations/postgres/0007_pools.sql")),
    (8, include_str!("../../../migrations/postgres/0008_thin.sql")),
    (9, include_str!("../../../migrations/postgres/0009_blocks.sql")),
    (10, include_str!("../../../migrations/postgres/0010_reaper.sql")),
    (11, include_str!("../../../migrations/postgres/0011_rolling.sql")),
];
const GROUPS: [&str; 5] =
    ["ledger_owner", "ledger_writer", "ledger_reader", "ledger_eraser", "ledger_operator"];
/// Roles belong to the whole server, so two databases migrating at once may collide on them.
const ATTEMPTS: u32 = 8;

/// A role that may log in, made or brought up to date by [`migrate`].
#[derive(Clone)]
pub enum Login {
    /// Writes the chains of one tenant.
    Writer {
        /// Role name.
        name: String,
        /// Password, if it is to be set.
        password: Option<String>,
        /// The only tenant it may write for.
        tenant: String,
    },
    /// Gives orders to the gates of one tenant, and writes a chain of its own about it.
    Operator {
        /// Role name.
        name: String,
        /// Password, if it is to be set.
        password: Option<String>,
        /// The only tenant it gives orders for.
        tenant: String,
    },
    /// Reads everything, and erases payloads.
    Eraser {
        /// Role name.
        name: String,
        /// Password, if it is to be set.
        password: Option<String>,
    },
    /// Reads.
    Reader {
        /// Role name.
        name: String,
        /// Password, if it is to be set.
        password: Option<String>,
        /// The only tenant it sees; `None` for all.
        tenant: Option<String>,
    },
}

impl std::fmt::Debug for Login {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Login({})", self.parts().0)
    }
}

impl Login {
    fn parts(&self) -> (&str, Option<&str>) {
        match self {
            Self::Writer { name, password, .. }
            | Self::Operator { name, password, .. }
            | Self::Reader { name, password, .. }
            | Self::Eraser { name, password } => (name, password.as_deref()),
        }
    }
}

impl Login {
    const fn groups(&self) -> &'static [&'static str] {
        match self {
            Self::Writer { .. } => &["ledger_writer"],
            Self::Operator { .. } => &["ledger_writer", "ledger_operator"],
            Self::Reader { .. } => &["ledger_reader"],
            Self::Eraser { .. } => &["ledger_reader", "ledger_eraser"],
        }
    }
}

/// What [`migrate`] did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Migrated {
    /// The schema before; 0 if there was none.
    pub from: u64,
    /// The schema now.
    pub to: u64,
    /// Whether the server will keep failing statements of the writer roles, and with them
    /// arguments and results, out of its own log. Only a superuser can set that.
    pub quiet: bool,
}

/// Makes or upgrades roles and schema in one transaction. Running it again changes nothing. A newer schema that still
/// serves the gates of this build is left as it is: so somebody can go back by one version.
///
/// # Errors
/// [`StoreError`] as the server has it; nothing was changed.
pub async fn migrate(admin_url: &str, logins: &[Login]) -> Result<Migrated, StoreError> {
    let options = connect_options(admin_url)?;
    let mut attempt = 1;
    loop {
        let answer = async {
            let mut conn = options.connect().await?;
            let done = all(&mut conn, logins).await?;
            conn.close().await?;
            Ok(done)
        };
        match answer.await {
            Ok(done) => return Ok(done),
            Err(error) if attempt < ATTEMPTS && collided(&error) => attempt += 1,
            Err(error) => {
                let (Failure::Final(error) | Failure::Again(error)) = nothing_written(&error);
                return Err(error);
            }
        }
    }
}

/// Another migration of the same server made or changed the same role in the same moment.
fn collided(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|e| e.code().map(|c| c.into_owned()));
    code.is_some_and(|code| ["23505", "42710", "40001", "40P01", "XX000"].contains(&code.as_str()))
}

async fn all(conn: &mut PgConnection, logins: &[Login]) -> Result<Migrated, sqlx::Error> {
    run(conn, "BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('wicketgate/migrate', 0))")
        .await?;
    run(conn, &groups()).await?;
    let (from, to) = schema(conn).await?;
    for login in logins {
        for group in login.groups() {
            run(conn, &role(login, group)).await?;
        }
    }
    run(conn, "SET LOCAL ROLE ledger_owner").await?;
    for login in logins {
        run(conn, &tenant(login)).await?;
    }
    run(conn, "RESET ROLE").await?;
    let mut quiet = true;
    for login in logins {
        quiet &= silence(conn, login).await?;
    }
    run(conn, "COMMIT").await?;
    Ok(Migrated { from, to, quiet })
}

async fn run(conn: &mut PgConnection, sql: &str) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(AssertSqlSafe(sql)).execute(conn).await.map(drop)
}

fn groups() -> String {
    let make = |name| {
        format!(
            "IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = '{name}') THEN
               CREATE ROLE {name} NOLOGIN; END IF;\n"
        )
    };
    // The administrator need not be a superuser, but must be able to act as the owner.
    format!(
        "DO $$ BEGIN {}
           IF NOT pg_has_role(current_user, 'ledger_owner', 'MEMBER') THEN
             EXECUTE format('GRANT ledger_owner TO %I', current_user); END IF;
         END $$;
         CREATE SCHEMA IF NOT EXISTS ledger AUTHORIZATION ledger_owner",
        GROUPS.map(make).concat()
    )
}

/// Brings the schema up to date; what it was before, and is now.
async fn schema(conn: &mut PgConnection) -> Result<(u64, u64), sqlx::Error> {
    run(
        conn,
        "SET LOCAL ROLE ledger_owner;
         CREATE TABLE IF NOT EXISTS ledger.schema_version (
           version int PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())",
    )
    .await?;
    let sql = "SELECT coalesce(max(version), 0)::bigint AS n FROM ledger.schema_version";
    let from = number(conn, sql).await?;
    if from > SCHEMA_VERSION {
        let serves = number(conn, "SELECT ledger.serves()::bigint AS n").await?;
        run(conn, "RESET ROLE").await?;
        return match newer(from, serves) {
            None => Ok((from, from)),
            Some(why) => Err(sqlx::Error::Configuration(why.into())),
        };
    }
    for (version, text) in MIGRATIONS.iter().filter(|(version, _)| *version > from) {
        run(conn, text).await?;
        let note = format!("INSERT INTO ledger.schema_version (version) VALUES ({version})");
        run(conn, &note).await?;
    }
    if from < SCHEMA_VERSION {
        let note = format!(
            "UPDATE ledger.schema_version SET serves = {SERVES} WHERE version = {SCHEMA_VERSION}"
        );
        run(conn, &note).await?;
    }
    run(conn, "RESET ROLE").await?;
    Ok((from, SCHEMA_VERSION))
}

/// What a schema newer than this build's has against it, by the oldest one whose gates it serves.
pub(super) fn newer(found: u64, serves: u64) -> Option<String> {
    (serves > SCHEMA_VERSION).then(|| {
        format!(
            "the database has schema {found}, which serves gates of schema {serves} and newer: it is newer than \
             this build ({SCHEMA_VERSION})"
        )
    })
}

async fn number(conn: &mut PgConnection, sql: &'static str) -> Result<u64, sqlx::Error> {
    let row = sqlx::raw_sql(sql).fetch_one(conn).await?;
    Ok(u64::try_from(row.try_get::<i64, _>("n")?).unwrap_or(0))
}

fn role(login: &Login, group: &str) -> String {
    let (name, password) = login.parts();
    let (plain, quoted) = (text(name), identifier(name));
    let password = password.map_or_else(String::new, |password| {
        format!("EXECUTE format('ALTER ROLE %I PASSWORD %L', {plain}, {});", text(password))
    });
    format!(
        "DO $wicketgate$ BEGIN
           IF NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = {plain}) THEN
             CREATE ROLE {quoted} LOGIN; END IF;
           IF NOT pg_has_role({plain}, '{group}', 'MEMBER') THEN GRANT {group} TO {quoted}; END IF;
           {password}
         END $wicketgate$"
    )
}

fn tenant(login: &Login) -> String {
    let (table, name, tenant) = match login {
        Login::Writer { name, tenant, .. } | Login::Operator { name, tenant, .. } => {
            ("writer_tenant", name, Some(tenant))
        }
        Login::Reader { name, tenant, .. } => ("reader_tenant", name, tenant.as_ref()),
        Login::Eraser { name, .. } => ("reader_tenant", name, None),
    };
    let tenant = tenant.map_or_else(|| "NULL".to_owned(), |t| text(t));
    format!(
        "INSERT INTO ledger.{table} VALUES ({}, {tenant})
         ON CONFLICT (role) DO UPDATE SET tenant = EXCLUDED.tenant",
        text(name)
    )
}

/// Keeps the statements of a writer out of the server's log; `false` if that is not ours to say.
async fn silence(conn: &mut PgConnection, login: &Login) -> Result<bool, sqlx::Error> {
    let (Login::Writer { name, .. } | Login::Operator { name, .. }) = login else {
        return Ok(true);
    };
    let superuser = "SELECT rolsuper FROM pg_roles WHERE rolname = current_user";
    let row = sqlx::raw_sql(superuser).fetch_one(&mut *conn).await?;
    if !row.try_get::<bool, _>("rolsuper")? {
        return Ok(false);
    }
    let role = identifier(name);
    let settings = [
        "log_min_error_statement = panic",
        "log_error_verbosity = terse",
        "log_statement = none",
        "log_min_duration_statement = -1",
    ];
    let sql = settings.map(|setting| format!("ALTER ROLE {role} SET {setting};")).concat();
    // Not again if it is so already: two databases would collide on the role for nothing.
    let done = format!(
        "SELECT EXISTS (SELECT 1 FROM pg_db_role_setting s JOIN pg_roles r ON r.oid = s.setrole
          WHERE r.rolname = {} AND 'log_min_duration_statement=-1' = ANY (s.setconfig)) AS done",
        text(name)
    );
    let row = sqlx::raw_sql(AssertSqlSafe(done)).fetch_one(&mut *conn).await?;
    if !row.try_get::<bool, _>("done")? {
        run(conn, &sql).await?;
    }
    Ok(true)
}

fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
