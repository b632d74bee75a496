//! Creates roles and schema, as an administrator; `serve` only checks the version.

use tokio_postgres::Error;

use super::address::Address;
use super::errors::{Failure, nothing_written};
use super::link::PostgresLink;
use super::values::Values;
use super::version::{SCHEMA_VERSION, asked, never, serves};
use crate::ledger::schema::POSTGRES;
use crate::ledger::store::StoreError;

const GROUPS: [&str; 5] =
    ["ledger_owner", "ledger_writer", "ledger_reader", "ledger_eraser", "ledger_operator"];
/// Roles belong to the whole server, so two databases migrating at once may collide on them.
const ATTEMPTS: u32 = 8;

/// A login role that [`migrate`] creates or updates.
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
    /// Gives orders to the gates of one tenant, and records them in its own chain.
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
    /// The previous schema; 0 for a new database.
    pub from: u64,
    /// The schema now.
    pub to: u64,
    /// Whether the server will keep failing statements of the writer roles, with their arguments
    /// and results, out of its own log. Only a superuser can set that.
    pub quiet: bool,
}

/// Why a migration changed nothing.
enum MigrationRefusal {
    Server(Error),
    Failure(Failure),
}

impl From<Error> for MigrationRefusal {
    fn from(error: Error) -> Self {
        Self::Server(error)
    }
}

/// Creates or upgrades roles and schema in one transaction. Running it again changes nothing. A
/// newer schema that still serves the gates of this build stays, so a rollback by one version is
/// possible.
///
/// # Errors
/// [`StoreError`] from the server, or because this build cannot upgrade the schema; nothing was
/// changed.
pub async fn migrate(admin_url: &str, logins: &[Login]) -> Result<Migrated, StoreError> {
    let address = Address::parse(admin_url)?;
    let mut attempt = 1;
    loop {
        let done = async {
            let mut link = PostgresLink::open(&address).await.map_err(MigrationRefusal::Failure)?;
            all(&mut link, logins).await
        };
        match done.await {
            Ok(done) => return Ok(done),
            Err(MigrationRefusal::Server(error)) if attempt < ATTEMPTS && collided(&error) => {
                attempt += 1;
            }
            Err(MigrationRefusal::Server(error)) => {
                return Err(nothing_written(&error).into_inner());
            }
            Err(MigrationRefusal::Failure(failure)) => return Err(failure.into_inner()),
        }
    }
}

/// Another migration on the same server changed the same role at the same moment.
fn collided(error: &Error) -> bool {
    let codes = ["23505", "42710", "40001", "40P01", "XX000"];
    error.code().is_some_and(|code| codes.contains(&code.code()))
}

async fn all(link: &mut PostgresLink, logins: &[Login]) -> Result<Migrated, MigrationRefusal> {
    link.script("BEGIN; SELECT pg_advisory_xact_lock(hashtextextended('wicketgate/migrate', 0))")
        .await?;
    link.script(&groups()).await?;
    link.script("SET LOCAL ROLE ledger_owner").await?;
    let (from, to) = schema(link).await?;
    link.script("RESET ROLE").await?;
    for login in logins {
        role(link, login).await?;
    }
    link.script("SET LOCAL ROLE ledger_owner").await?;
    for login in logins {
        tenant(link, login).await?;
    }
    link.script("RESET ROLE").await?;
    let mut quiet = true;
    for login in logins {
        quiet &= silence(link, login).await?;
    }
    link.script("COMMIT").await?;
    Ok(Migrated { from, to, quiet })
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
         CREATE SCHEMA IF NOT EXISTS ledger AUTHORIZATION ledger_owner;
         CREATE SCHEMA IF NOT EXISTS console AUTHORIZATION ledger_owner",
        GROUPS.map(make).concat()
    )
}

/// Upgrades the schema; returns the previous version and the current one.
async fn schema(link: &mut PostgresLink) -> Result<(u64, u64), MigrationRefusal> {
    link.script(
        "CREATE TABLE IF NOT EXISTS ledger.schema_version (
           version int PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now(), serves int)",
    )
    .await?;
    let sql = "SELECT max(version)::bigint AS number FROM ledger.schema_version";
    let from = asked(link, sql).await?;
    let serves = serves(link, from).await?;
    if let Some(why) = never(from, serves) {
        return Err(MigrationRefusal::Failure(Failure::Final(StoreError::Unavailable(why))));
    }
    for step in POSTGRES.after(from) {
        link.script(step.text).await?;
        let note = "INSERT INTO ledger.schema_version (version, serves) VALUES ($1, $2)";
        link.rows(note, &Values::new().number(step.version).number(step.serves)).await?;
    }
    Ok((from, from.max(SCHEMA_VERSION)))
}

/// Runs the statements that a query produces; the server itself quotes names and passwords in them.
async fn written(link: &mut PostgresLink, sql: &str, values: &Values<'_>) -> Result<(), Error> {
    for row in link.rows(sql, values).await? {
        link.rows(row.try_get(0)?, &Values::new()).await?;
    }
    Ok(())
}

/// Creates or updates the role of a login.
async fn role(link: &mut PostgresLink, login: &Login) -> Result<(), Error> {
    let (name, password) = login.parts();
    let make = "SELECT format('CREATE ROLE %I LOGIN', $1)
                 WHERE NOT EXISTS (SELECT 1 FROM pg_roles WHERE rolname = $1)";
    written(link, make, &Values::new().text(name)).await?;
    for group in login.groups() {
        let grant = "SELECT format('GRANT %I TO %I', $2, $1)
                      WHERE NOT pg_has_role($1::name, $2::name, 'MEMBER')";
        written(link, grant, &Values::new().text(name).text(group)).await?;
    }
    if let Some(password) = password {
        let set = "SELECT format('ALTER ROLE %I PASSWORD %L', $1, $2)";
        written(link, set, &Values::new().text(name).text(password)).await?;
    }
    Ok(())
}

/// Stores the tenant of a login.
async fn tenant(link: &mut PostgresLink, login: &Login) -> Result<(), Error> {
    let (table, name, tenant) = match login {
        Login::Writer { name, tenant, .. } | Login::Operator { name, tenant, .. } => {
            ("writer_tenant", name, Some(tenant))
        }
        Login::Reader { name, tenant, .. } => ("reader_tenant", name, tenant.as_ref()),
        Login::Eraser { name, .. } => ("reader_tenant", name, None),
    };
    let sql = format!(
        "INSERT INTO ledger.{table} VALUES ($1::name, $2)
         ON CONFLICT (role) DO UPDATE SET tenant = EXCLUDED.tenant"
    );
    let values = Values::new().text(name).maybe_text(tenant.map(String::as_str));
    link.rows(&sql, &values).await.map(drop)
}

/// Keeps the statements of a writer out of the server's log; `false` if only a superuser may do
/// that.
async fn silence(link: &mut PostgresLink, login: &Login) -> Result<bool, Error> {
    let (Login::Writer { name, .. } | Login::Operator { name, .. }) = login else {
        return Ok(true);
    };
    let superuser = "SELECT 1 FROM pg_roles WHERE rolname = current_user AND rolsuper";
    if link.rows(superuser, &Values::new()).await?.is_empty() {
        return Ok(false);
    }
    // Only if it is not set already: two databases would collide on the role without need.
    let settings = "SELECT format('ALTER ROLE %I SET %s', $1, setting)
           FROM unnest(ARRAY['log_min_error_statement = panic', 'log_error_verbosity = terse',
                             'log_statement = none', 'log_min_duration_statement = -1']) setting
          WHERE NOT EXISTS (
            SELECT 1 FROM pg_db_role_setting s JOIN pg_roles r ON r.oid = s.setrole
             WHERE r.rolname = $1 AND 'log_min_duration_statement=-1' = ANY (s.setconfig))";
    written(link, settings, &Values::new().text(name)).await?;
    Ok(true)
}
