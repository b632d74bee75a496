//! The rights that a tool's role must not have, as queried from the server.

/// The role has more rights than a tool needs, so the database is not used.
#[derive(Debug, thiserror::Error)]
#[error("the role `{user}` has too many rights: it {}", rights.join(", "))]
pub struct RoleError {
    pub(super) user: String,
    /// Each as the rest of a sentence: `is a superuser`.
    pub(super) rights: Vec<String>,
}

/// The rights that a role must not have, and those that a read-only role must not have either; an
/// empty text means none.
pub(super) const ROLE: &str = "SELECT pg_catalog.concat_ws(', ', \
    CASE WHEN r.rolsuper THEN 'is a superuser' END, \
    CASE WHEN r.rolcreaterole THEN 'may create roles' END, \
    CASE WHEN r.rolcreatedb THEN 'may create databases' END, \
    CASE WHEN r.rolreplication THEN 'may replicate' END, \
    CASE WHEN r.rolbypassrls THEN 'bypasses row security' END, \
    (SELECT 'is a member of ' || pg_catalog.string_agg(m.rolname, ', ' ORDER BY m.rolname) \
       FROM pg_catalog.pg_roles m \
      WHERE m.rolname ~ '^pg_' AND pg_catalog.pg_has_role(m.oid, 'MEMBER')))";
pub(super) const READER: &str = ", pg_catalog.concat_ws(', ', \
    (SELECT 'may write to ' || n.nspname || '.' || c.relname FROM pg_catalog.pg_class c \
       JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace \
      WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND n.nspname !~ '^pg_' \
        AND n.nspname <> 'information_schema' \
        AND (pg_catalog.has_table_privilege(c.oid, 'INSERT, UPDATE, DELETE, TRUNCATE') \
          OR pg_catalog.has_any_column_privilege(c.oid, 'INSERT, UPDATE')) \
      ORDER BY 1 LIMIT 1), \
    (SELECT 'may create in schema ' || n.nspname FROM pg_catalog.pg_namespace n \
      WHERE n.nspname !~ '^pg_' AND pg_catalog.has_schema_privilege(n.oid, 'CREATE') \
      ORDER BY 1 LIMIT 1), \
    CASE WHEN pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE') \
      THEN 'may create schemas' END)";
/// The functions that run a text as SQL, keep large objects or locks, reach other sessions, or
/// wait, as far as the role may call them. `examples/sql/revoke.sql` revokes them.
pub(super) const CALLS: &str = "SELECT pg_catalog.string_agg(DISTINCT p.proname, ', ' ORDER BY p.proname) \
     FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace \
    WHERE (n.nspname = 'pg_catalog' AND p.proname ~ '^(ts_stat|ts_rewrite|\
           (query|cursor|table|schema|database)_to_xml.*|lo_.*|loread|lowrite|pg_(try_)?advisory.*|pg_sleep.*|\
           pg_notify|pg_(cancel|terminate)_backend|pg_logical_emit_message|pg_export_snapshot|\
           pg_log_backend_memory_contexts)$' \
        OR p.proname ~ '^(dblink.*|pg_read_(binary_)?file|pg_ls_.*|pg_stat_file|pg_file_.*|pg_execute_.*)$') \
      AND pg_catalog.has_function_privilege(p.oid, 'EXECUTE')";
pub(super) const OF_US: &str = " FROM pg_catalog.pg_roles r WHERE r.rolname = current_user";
