-- Schema 15: the sessions of the operator console, so that each replica of a hub knows those of the others. The schema
-- `console` is made by `migrate`. Gates of schema 12 go on with it.
--
-- Rows are digests: SHA-256 of what a browser shows, and of the credential that opened the session. Only logins that
-- give orders have the functions, and each sees the sessions of its own tenant. All times are this server's.

CREATE TABLE console.session (
  tenant_id  text NOT NULL,
  id         bytea NOT NULL CHECK (octet_length(id) = 32),
  kind       text NOT NULL CHECK (kind IN ('token', 'certificate', 'oidc')),
  credential bytea NOT NULL CHECK (octet_length(credential) = 32),
  began      timestamptz NOT NULL,
  seen       timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, id));
CREATE INDEX session_credential ON console.session (tenant_id, kind, credential, seen);

-- A login at an issuer that has begun and has not come back.
CREATE TABLE console.login (
  tenant_id text NOT NULL,
  id        bytea NOT NULL CHECK (octet_length(id) = 32),
  began     timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, id));
CREATE INDEX login_began ON console.login (tenant_id, began);

CREATE FUNCTION console.millis(p_ms bigint) RETURNS interval LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog AS $$ SELECT make_interval(secs => greatest(p_ms, 0) / 1000.0) $$;

-- Opens a session, and removes what is over. Of one credential the sessions used last stay.
CREATE FUNCTION console.session_begin(p_id bytea, p_kind text, p_credential bytea, p_idle_ms bigint,
  p_longest_ms bigint, p_most bigint)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE mine text := ledger.tenant(); v_now timestamptz := clock_timestamp(); BEGIN
  DELETE FROM console.session s WHERE s.tenant_id = mine
     AND (s.seen <= v_now - console.millis(p_idle_ms) OR s.began <= v_now - console.millis(p_longest_ms));
  DELETE FROM console.session s WHERE s.tenant_id = mine AND s.id IN (
    SELECT o.id FROM console.session o
     WHERE o.tenant_id = mine AND o.kind = p_kind AND o.credential = p_credential AND o.id <> p_id
     ORDER BY o.seen DESC, o.id OFFSET greatest(p_most - 1, 0));
  INSERT INTO console.session VALUES (mine, p_id, p_kind, p_credential, v_now, v_now) ON CONFLICT DO NOTHING; END $$;

-- The credential of an open session, which is used by this.
CREATE FUNCTION console.session_find(p_id bytea, p_idle_ms bigint, p_longest_ms bigint)
RETURNS TABLE (kind text, credential bytea) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE mine text := ledger.tenant(); v_now timestamptz := clock_timestamp(); BEGIN
  RETURN QUERY UPDATE console.session s SET seen = greatest(s.seen, v_now)
   WHERE s.tenant_id = mine AND s.id = p_id
     AND s.seen > v_now - console.millis(p_idle_ms) AND s.began > v_now - console.millis(p_longest_ms)
  RETURNING s.kind, s.credential; END $$;

-- The same, of a session that is not used by this: an open stream keeps none open.
CREATE FUNCTION console.session_peek(p_id bytea, p_idle_ms bigint, p_longest_ms bigint)
RETURNS TABLE (kind text, credential bytea) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE mine text := ledger.tenant(); v_now timestamptz := clock_timestamp(); BEGIN
  RETURN QUERY SELECT s.kind, s.credential FROM console.session s
   WHERE s.tenant_id = mine AND s.id = p_id
     AND s.seen > v_now - console.millis(p_idle_ms) AND s.began > v_now - console.millis(p_longest_ms); END $$;

CREATE FUNCTION console.session_end(p_id bytea) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog AS $$ DECLARE mine text := ledger.tenant(); BEGIN
  DELETE FROM console.session s WHERE s.tenant_id = mine AND s.id = p_id; END $$;

-- Notes a login, and removes what is over; of too many the oldest go.
CREATE FUNCTION console.login_begin(p_id bytea, p_within_ms bigint, p_most bigint)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE mine text := ledger.tenant(); v_now timestamptz := clock_timestamp(); BEGIN
  DELETE FROM console.login l WHERE l.tenant_id = mine AND l.began <= v_now - console.millis(p_within_ms);
  DELETE FROM console.login l WHERE l.tenant_id = mine AND l.id IN (
    SELECT o.id FROM console.login o WHERE o.tenant_id = mine AND o.id <> p_id
     ORDER BY o.began DESC, o.id OFFSET greatest(p_most - 1, 0));
  INSERT INTO console.login VALUES (mine, p_id, v_now) ON CONFLICT DO NOTHING; END $$;

-- Whether this login has begun and not come back; of two that ask one is told so.
CREATE FUNCTION console.login_take(p_id bytea, p_within_ms bigint)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE mine text := ledger.tenant(); v_began timestamptz; BEGIN
  DELETE FROM console.login l WHERE l.tenant_id = mine AND l.id = p_id RETURNING l.began INTO v_began;
  RETURN coalesce(v_began > clock_timestamp() - console.millis(p_within_ms), false); END $$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA console FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA console FROM PUBLIC;
GRANT USAGE ON SCHEMA console TO ledger_operator;
GRANT EXECUTE ON FUNCTION console.session_begin, console.session_find, console.session_peek, console.session_end,
  console.login_begin, console.login_take TO ledger_operator;
-- No login reads the tables.
ALTER TABLE console.session ENABLE ROW LEVEL SECURITY;
ALTER TABLE console.login ENABLE ROW LEVEL SECURITY;
