--
-- PostgreSQL database dump
--


-- Dumped from database version 15.18 (Debian 15.18-0+deb12u1)
-- Dumped by pg_dump version 15.18 (Debian 15.18-0+deb12u1)

SET statement_timeout = 0;
SET lock_timeout = 0;
SET idle_in_transaction_session_timeout = 0;
SET client_encoding = 'UTF8';
SET standard_conforming_strings = on;
SELECT pg_catalog.set_config('search_path', '', false);
SET check_function_bodies = false;
SET xmloption = content;
SET client_min_messages = warning;
SET row_security = off;

--
-- Name: ledger; Type: SCHEMA; Schema: -; Owner: ledger_owner
--

CREATE SCHEMA ledger;


ALTER SCHEMA ledger OWNER TO ledger_owner;

--
-- Name: abandoned(); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.abandoned() RETURNS TABLE(chain_id bytea, slot text, origin text, epoch bigint, size bigint)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog'
    AS $$
#variable_conflict use_column
DECLARE mine text := ledger.tenant(); BEGIN
  RETURN QUERY
    SELECT x.chain_id, c.pool || '/' || c.slot, c.origin, x.epoch, x.size
      FROM ledger.head x JOIN ledger.chain c ON c.chain_id = x.chain_id
     WHERE c.tenant_id = mine AND c.pool <> 'fleet' AND NOT c.retired AND x.size > 0
       AND x.lease_until <= clock_timestamp()
       AND (x.last_kind <> 'writer.stopped'
            OR EXISTS (SELECT 1 FROM ledger.open_run o WHERE o.chain_id = x.chain_id))
     ORDER BY c.origin COLLATE "C"; END $$;


ALTER FUNCTION ledger.abandoned() OWNER TO ledger_owner;

--
-- Name: append_batch(bytea, bigint, bytea, bigint, bytea, bytea[], uuid[], text[], text[], bytea[], bytea, text, bytea[], bytea[], text[], text[], bytea[], bigint); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.append_batch(p_chain bytea, p_epoch bigint, p_secret bytea, p_size bigint, p_head bytea, p_leaves bytea[], p_runs uuid[], p_calls text[], p_kinds text[], p_bodies bytea[], p_frontier bytea, p_checkpoint text, p_commitments bytea[], p_salts bytea[], p_roles text[], p_media text[], p_payloads bytea[], p_signed bigint) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog'
    AS $$
DECLARE n int := cardinality(p_leaves); v_secret bytea := sha256(p_secret); mine text := ledger.tenant();
BEGIN
  PERFORM ledger.durable();
  IF coalesce(n, 0) = 0 OR cardinality(p_runs) <> n OR cardinality(p_calls) <> n OR cardinality(p_kinds) <> n
     OR cardinality(p_bodies) <> n OR cardinality(p_salts) <> cardinality(p_commitments)
     OR cardinality(p_roles) <> cardinality(p_commitments) OR cardinality(p_media) <> cardinality(p_commitments)
     OR cardinality(p_payloads) <> cardinality(p_commitments) THEN
    RAISE EXCEPTION 'malformed batch' USING ERRCODE = '22023';
  END IF;
  UPDATE ledger.head h SET size = p_size + n, head_hash = p_leaves[n], frontier = p_frontier,
      checkpoint = p_checkpoint, last_kind = p_kinds[n], lease_until = clock_timestamp() + h.term
   WHERE h.chain_id = p_chain AND h.epoch = p_epoch AND h.secret_hash = v_secret
     AND h.size = p_size AND h.head_hash = p_head
     AND EXISTS (SELECT 1 FROM ledger.chain c WHERE c.chain_id = p_chain AND c.tenant_id = mine);
  IF NOT FOUND THEN
    -- The same bytes again. The update makes this commit wait for the standby as the first one did.
    UPDATE ledger.head h SET lease_until = clock_timestamp() + h.term
     WHERE h.chain_id = p_chain AND h.epoch = p_epoch AND h.secret_hash = v_secret
       AND h.size = p_size + n AND h.head_hash = p_leaves[n] AND h.frontier = p_frontier
       AND h.checkpoint = p_checkpoint
       AND EXISTS (SELECT 1 FROM ledger.chain c WHERE c.chain_id = p_chain AND c.tenant_id = mine);
    IF FOUND THEN RETURN false; END IF;
    RAISE EXCEPTION 'fenced: the head moved or the lease is lost' USING ERRCODE = 'WG001';
  END IF;
  INSERT INTO ledger.entry (chain_id, seq, leaf_hash, prev_hash, run_id, call_id, kind, body)
  SELECT p_chain, p_size + o - 1, l, lag(l, 1, p_head) OVER (ORDER BY o), r, c, k, b
    FROM unnest(p_leaves, p_runs, p_calls, p_kinds, p_bodies) WITH ORDINALITY t(l, r, c, k, b, o);
  IF cardinality(p_commitments) > 0 THEN
    INSERT INTO ledger.payload (chain_id, commitment, salt, role, media_type, body)
    SELECT p_chain, c, s, r, m, b
      FROM unnest(p_commitments, p_salts, p_roles, p_media, p_payloads) t(c, s, r, m, b)
    ON CONFLICT DO NOTHING;
  END IF;
  IF p_kinds && ARRAY['run.opened', 'run.sealed'] THEN
    INSERT INTO ledger.open_run SELECT p_chain, r FROM unnest(p_runs, p_kinds) t(r, k)
     WHERE k = 'run.opened' AND r IS NOT NULL ON CONFLICT DO NOTHING;
    DELETE FROM ledger.open_run o USING unnest(p_runs, p_kinds) t(r, k)
     WHERE o.chain_id = p_chain AND o.run_id = r AND k = 'run.sealed';
  END IF;
  -- A batch that a spool kept was signed in an earlier epoch than the one it is healed in.
  INSERT INTO ledger.checkpoint VALUES (p_chain, p_size + n, least(p_signed, p_epoch), p_checkpoint);
  RETURN true;
END $$;


ALTER FUNCTION ledger.append_batch(p_chain bytea, p_epoch bigint, p_secret bytea, p_size bigint, p_head bytea, p_leaves bytea[], p_runs uuid[], p_calls text[], p_kinds text[], p_bodies bytea[], p_frontier bytea, p_checkpoint text, p_commitments bytea[], p_salts bytea[], p_roles text[], p_media text[], p_payloads bytea[], p_signed bigint) OWNER TO ledger_owner;

--
-- Name: block_entries(); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.block_entries() RETURNS bigint
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog'
    AS $$ SELECT 262144::bigint $$;


ALTER FUNCTION ledger.block_entries() OWNER TO ledger_owner;

--
-- Name: block_of(bytea, bigint); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.block_of(p_chain bytea, p_seq bigint, OUT leaf text, OUT low bigint, OUT high bigint) RETURNS record
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog'
    AS $$
  SELECT b.leaf, b.ends[1]::bigint, b.ends[2]::bigint FROM (
    SELECT c.relname::text AS leaf,
           regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM \(''?(\d+)''?\) TO \(''?(\d+)''?\)') AS ends
      FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
     WHERE i.inhparent = format('ledger.entry_p%s', ledger.bucket(p_chain))::regclass) b
   WHERE p_seq >= b.ends[1]::bigint AND p_seq < b.ends[2]::bigint $$;


ALTER FUNCTION ledger.block_of(p_chain bytea, p_seq bigint, OUT leaf text, OUT low bigint, OUT high bigint) OWNER TO ledger_owner;

--
-- Name: blocks_ahead(); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.blocks_ahead() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog'
    AS $$
DECLARE s bigint; step bigint := ledger.block_entries(); last bigint := NEW.size + step / 8; BEGIN
  s := CASE WHEN TG_OP = 'INSERT' THEN 0 ELSE OLD.size END;
  WHILE s < last LOOP
    PERFORM ledger.make_block(NEW.chain_id, s);
    s := s + step;
  END LOOP;
  PERFORM ledger.make_block(NEW.chain_id, last);
  RETURN NULL; END $$;


ALTER FUNCTION ledger.blocks_ahead() OWNER TO ledger_owner;

--
-- Name: bucket(bytea); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.bucket(p_chain bytea) RETURNS integer
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog'
    AS $$ SELECT k FROM generate_series(0, 3) k WHERE satisfies_hash_partition('ledger.entry'::regclass, 4, k, p_chain) $$;


ALTER FUNCTION ledger.bucket(p_chain bytea) OWNER TO ledger_owner;

SET default_tablespace = '';

--
-- Name: entry; Type: TABLE; Schema: ledger; Owner: ledger_owner
--

CREATE TABLE ledger.entry (
    chain_id bytea NOT NULL,
    seq bigint NOT NULL,
    leaf_hash bytea NOT NULL,
    prev_hash bytea NOT NULL,
    run_id uuid,
    call_id text,
    kind text NOT NULL,
    body bytea NOT NULL,
    CONSTRAINT entry_body_check CHECK (((octet_length(body) >= 2) AND (octet_length(body) <= 65535))),
    CONSTRAINT entry_check CHECK ((leaf_hash = sha256(('\x00'::bytea || body)))),
    CONSTRAINT entry_leaf_hash_check CHECK ((octet_length(leaf_hash) = 32)),
    CONSTRAINT entry_prev_hash_check CHECK ((octet_length(prev_hash) = 32)),
    CONSTRAINT entry_seq_check CHECK ((seq >= 0))
)
PARTITION BY HASH (chain_id);


ALTER TABLE ledger.entry OWNER TO ledger_owner;

--
-- Name: call_entries(bytea, bigint, bytea, uuid, text); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.call_entries(p_chain bytea, p_epoch bigint, p_secret bytea, p_run uuid, p_call text) RETURNS SETOF ledger.entry
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog'
    AS $$ BEGIN
  PERFORM ledger.held(p_chain, p_epoch, p_secret, false);
  RETURN QUERY SELECT * FROM ledger.entry e WHERE e.chain_id = p_chain AND e.run_id = p_run
                AND e.call_id = p_call ORDER BY e.seq; END $$;


ALTER FUNCTION ledger.call_entries(p_chain bytea, p_epoch bigint, p_secret bytea, p_run uuid, p_call text) OWNER TO ledger_owner;

--
-- Name: checkpoint_guard(); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.checkpoint_guard() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog'
    AS $$ BEGIN
  IF TG_OP = 'DELETE'
     AND EXISTS (SELECT 1 FROM ledger.pruned p
                  WHERE p.chain_id = OLD.chain_id AND OLD.size > p.low AND OLD.size <= p.high)
     AND EXISTS (SELECT 1 FROM ledger.checkpoint c
                  WHERE c.chain_id = OLD.chain_id AND c.epoch = OLD.epoch AND c.size > OLD.size) THEN
    RETURN OLD;
  END IF;
  RAISE EXCEPTION 'ledger.% is append-only (% refused)', TG_TABLE_NAME, TG_OP USING ERRCODE = '42501'; END $$;


ALTER FUNCTION ledger.checkpoint_guard() OWNER TO ledger_owner;

--
-- Name: control_head_guard(); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.control_head_guard() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog'
    AS $$ BEGIN
  IF NEW.tenant_id <> OLD.tenant_id OR NEW.seq <> OLD.seq + 1 THEN
    RAISE EXCEPTION 'ledger.control_head counts by one' USING ERRCODE = '42501';
  END IF; RETURN NEW; END $$;


ALTER FUNCTION ledger.control_head_guard() OWNER TO ledger_owner;

--
-- Name: control_put(bigint, text, text, text, text, text, text, bigint); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.control_put(p_at bigint, p_kind text, p_body text, p_subject text, p_roles text, p_auth text, p_reason text, p_expires bigint) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog'
    AS $$
DECLARE mine text := ledger.tenant(); n bigint; BEGIN
  PERFORM ledger.durable();
  INSERT INTO ledger.control_head AS h VALUES (mine, 1)
  ON CONFLICT (tenant_id) DO UPDATE SET seq = h.seq + 1 RETURNING h.seq INTO n;
  INSERT INTO ledger.control_row VALUES
    (mine, n, p_at, p_kind, p_body, p_subject, p_roles, p_auth, p_reason, p_expires);
  RETURN n; END $$;


ALTER FUNCTION ledger.control_put(p_at bigint, p_kind text, p_body text, p_subject text, p_roles text, p_auth text, p_reason text, p_expires bigint) OWNER TO ledger_owner;

--
-- Name: control_report(bytea, bigint, bytea, bigint, text, bigint, text); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.control_report(p_chain bytea, p_epoch bigint, p_secret bytea, p_seq bigint, p_origin text, p_at bigint, p_done text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog'
    AS $$
DECLARE mine text := ledger.tenant(); BEGIN
  PERFORM ledger.durable();
  PERFORM ledger.control_speaks(p_chain, p_epoch, p_secret, p_origin);
  INSERT INTO ledger.control_report VALUES (mine, p_seq, p_origin, p_at, p_done)
  ON CONFLICT (tenant_id, seq, origin) DO UPDATE SET at = EXCLUDED.at, done = EXCLUDED.done; END $$;


ALTER FUNCTION ledger.control_report(p_chain bytea, p_epoch bigint, p_secret bytea, p_seq bigint, p_origin text, p_at bigint, p_done text) OWNER TO ledger_owner;

SET default_table_access_method = heap;

--
-- Name: control_report; Type: TABLE; Schema: ledger; Owner: ledger_owner
--

CREATE TABLE ledger.control_report (
    tenant_id text NOT NULL,
    seq bigint NOT NULL,
    origin text NOT NULL,
    at bigint NOT NULL,
    done text NOT NULL
);


ALTER TABLE ledger.control_report OWNER TO ledger_owner;

--
-- Name: control_reports(bigint); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.control_reports(p_seq bigint) RETURNS SETOF ledger.control_report
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog'
    AS $$
DECLARE mine text := ledger.tenant(); BEGIN
  RETURN QUERY SELECT * FROM ledger.control_report r WHERE r.tenant_id = mine AND r.seq = p_seq
                ORDER BY r.origin COLLATE "C"; END $$;


ALTER FUNCTION ledger.control_reports(p_seq bigint) OWNER TO ledger_owner;

--
-- Name: control_row_guard(); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.control_row_guard() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog'
    AS $$ BEGIN
  IF NOT EXISTS (SELECT 1 FROM ledger.control_head h WHERE h.tenant_id = NEW.tenant_id AND h.seq = NEW.seq) THEN
    RAISE EXCEPTION 'ledger.control_row is append-only (INSERT out of order refused)' USING ERRCODE = '42501';
  END IF; RETURN NEW; END $$;


ALTER FUNCTION ledger.control_row_guard() OWNER TO ledger_owner;

--
-- Name: control_show(bytea, bigint, bytea, text, text, bigint, text); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.control_show(p_chain bytea, p_epoch bigint, p_secret bytea, p_origin text, p_writer text, p_seq bigint, p_state text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog'
    AS $$
DECLARE mine text := ledger.tenant(); v_now bigint := (extract(epoch FROM clock_timestamp()) * 1000)::bigint; BEGIN
  PERFORM ledger.control_speaks(p_chain, p_epoch, p_secret, p_origin);
  INSERT INTO ledger.control_presence VALUES (mine, p_origin, p_writer, v_now, p_seq, p_state)
  ON CONFLICT (tenant_id, origin) DO UPDATE
    SET writer = EXCLUDED.writer, at = EXCLUDED.at, seq = EXCLUDED.seq, state = EXCLUDED.state; END $$;


ALTER FUNCTION ledger.control_show(p_chain bytea, p_epoch bigint, p_secret bytea, p_origin text, p_writer text, p_seq bigint, p_state text) OWNER TO ledger_owner;

--
-- Name: control_presence; Type: TABLE; Schema: ledger; Owner: ledger_owner
--

CREATE TABLE ledger.control_presence (
    tenant_id text NOT NULL,
    origin text NOT NULL,
    writer text NOT NULL,
    at bigint NOT NULL,
    seq bigint NOT NULL,
    state text NOT NULL
)
WITH (fillfactor='50');


ALTER TABLE ledger.control_presence OWNER TO ledger_owner;

--
-- Name: control_shown(); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.control_shown() RETURNS SETOF ledger.control_presence
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog'
    AS $$
DECLARE mine text := ledger.tenant(); BEGIN
  RETURN QUERY SELECT * FROM ledger.control_presence p WHERE p.tenant_id = mine
                ORDER BY p.origin COLLATE "C"; END $$;


ALTER FUNCTION ledger.control_shown() OWNER TO ledger_owner;

--
-- Name: control_row; Type: TABLE; Schema: ledger; Owner: ledger_owner
--

CREATE TABLE ledger.control_row (
    tenant_id text NOT NULL,
    seq bigint NOT NULL,
    at bigint NOT NULL,
    kind text NOT NULL,
    body text NOT NULL,
    subject text NOT NULL,
    roles text NOT NULL,
    auth text NOT NULL,
    reason text NOT NULL,
    expires bigint,
    CONSTRAINT control_row_body_check CHECK ((octet_length(body) <= 16777216)),
    CONSTRAINT control_row_seq_check CHECK ((seq >= 1))
);


ALTER TABLE ledger.control_row OWNER TO ledger_owner;

--
-- Name: control_since(bigint, bigint); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.control_since(p_seq bigint, p_limit bigint) RETURNS SETOF ledger.control_row
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog'
    AS $$
DECLARE mine text := ledger.tenant(); BEGIN
  RETURN QUERY SELECT * FROM ledger.control_row r WHERE r.tenant_id = mine AND r.seq > p_seq
                ORDER BY r.seq LIMIT p_limit; END $$;


ALTER FUNCTION ledger.control_since(p_seq bigint, p_limit bigint) OWNER TO ledger_owner;

--
-- Name: control_speaks(bytea, bigint, bytea, text); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.control_speaks(p_chain bytea, p_epoch bigint, p_secret bytea, p_origin text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog'
    AS $$ BEGIN
  PERFORM ledger.held(p_chain, p_epoch, p_secret, false);
  IF NOT EXISTS (SELECT 1 FROM ledger.chain c WHERE c.chain_id = p_chain AND c.origin = p_origin) THEN
    RAISE EXCEPTION 'this lease is not that of %', p_origin USING ERRCODE = '42501';
  END IF; END $$;


ALTER FUNCTION ledger.control_speaks(p_chain bytea, p_epoch bigint, p_secret bytea, p_origin text) OWNER TO ledger_owner;

--
-- Name: drop_block(bytea, bigint); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.drop_block(p_chain bytea, p_seq bigint) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog'
    SET lock_timeout TO '500ms'
    AS $_$
DECLARE b record; k int := ledger.bucket(p_chain); n bigint; stay bigint; next text; which text; BEGIN
  SELECT * INTO b FROM ledger.block_of(p_chain, p_seq);
  IF b.leaf IS NULL THEN RETURN NULL; END IF;
  which := 'e.chain_id <> $1 OR ledger.kept(e.kind) OR NOT EXISTS (SELECT 1 FROM ledger.pruned p
             WHERE p.chain_id = e.chain_id AND e.seq >= p.low AND e.seq < p.high)';
  PERFORM ledger.keep_leaves(p_chain, b.low, b.high);
  EXECUTE format('LOCK TABLE ONLY ledger.entry_p%s IN ACCESS EXCLUSIVE MODE', k);
  EXECUTE format('LOCK TABLE ledger.%I IN ACCESS EXCLUSIVE MODE', b.leaf);
  EXECUTE format('SELECT count(*) FROM (SELECT 1 FROM ledger.%I e WHERE %s LIMIT 8193) x', b.leaf, which)
    INTO stay USING p_chain;
  EXECUTE format('SELECT count(*) FROM ledger.%I', b.leaf) INTO n;
  IF stay > 8192 OR n - stay <= stay THEN RETURN NULL; END IF;
  next := b.leaf || '_next';
  EXECUTE format('CREATE TABLE ledger.%I (LIKE ledger.entry_p%s INCLUDING CONSTRAINTS)', next, k);
  EXECUTE format('INSERT INTO ledger.%I SELECT * FROM ledger.%I e WHERE %s', next, b.leaf, which) USING p_chain;
  EXECUTE format('ALTER TABLE ledger.entry_p%s DETACH PARTITION ledger.%I', k, b.leaf);
  EXECUTE format('DROP TABLE ledger.%I', b.leaf);
  EXECUTE format('ALTER TABLE ledger.%I RENAME TO %I', next, b.leaf);
  EXECUTE format('ALTER TABLE ledger.entry_p%s ATTACH PARTITION ledger.%I FOR VALUES FROM (%s) TO (%s)',
                 k, b.leaf, b.low, b.high);
  PERFORM ledger.guard_block(b.leaf);
  RETURN n - stay;
EXCEPTION WHEN lock_not_available THEN RETURN NULL; END $_$;


ALTER FUNCTION ledger.drop_block(p_chain bytea, p_seq bigint) OWNER TO ledger_owner;

--
-- Name: durable(); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.durable() RETURNS void
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog'
    AS $$ BEGIN
  IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')
     OR current_setting('fsync') <> 'on' OR current_setting('full_page_writes') <> 'on' THEN
    RAISE EXCEPTION 'settings are not durable (synchronous_commit %, fsync %, full_page_writes %)',
      current_setting('synchronous_commit'), current_setting('fsync'), current_setting('full_page_writes')
      USING ERRCODE = 'WG002';
  END IF; END $$;


ALTER FUNCTION ledger.durable() OWNER TO ledger_owner;

--
-- Name: entry_guard(); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.entry_guard() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog'
    AS $$ BEGIN
  IF TG_OP = 'DELETE'
     AND OLD.kind NOT IN ('chain.genesis', 'writer.started', 'policy.activated', 'manifest.bound', 'anchor.observed')
     AND EXISTS (SELECT 1 FROM ledger.pruned p
                  WHERE p.chain_id = OLD.chain_id AND OLD.seq >= p.low AND OLD.seq < p.high) THEN
    RETURN OLD;
  END IF;
  RAISE EXCEPTION 'ledger.% is append-only (% refused)', TG_TABLE_NAME, TG_OP USING ERRCODE = '42501'; END $$;


ALTER FUNCTION ledger.entry_guard() OWNER TO ledger_owner;

--
-- Name: erase_payload(bytea, bytea); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.erase_payload(p_chain bytea, p_commitment bytea) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog'
    AS $$ BEGIN
  DELETE FROM ledger.payload p WHERE p.chain_id = p_chain AND p.commitment = p_commitment;
  RETURN FOUND; END $$;


ALTER FUNCTION ledger.erase_payload(p_chain bytea, p_commitment bytea) OWNER TO ledger_owner;

--
-- Name: fleet_leaves(bytea, bigint, bytea, bigint, bigint); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.fleet_leaves(p_chain bytea, p_epoch bigint, p_secret bytea, p_from bigint, p_limit bigint) RETURNS TABLE(leaf_hash bytea)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog'
    AS $$
DECLARE mine text := ledger.tenant(); BEGIN
  PERFORM ledger.held(p_chain, p_epoch, p_secret, false);
  RETURN QUERY SELECT e.leaf_hash FROM ledger.entry e
    WHERE e.chain_id = (SELECT c.chain_id FROM ledger.chain c
                         WHERE c.tenant_id = mine AND c.pool = 'fleet' AND NOT c.retired)
      AND e.seq >= p_from ORDER BY e.seq LIMIT p_limit; END $$;


ALTER FUNCTION ledger.fleet_leaves(p_chain bytea, p_epoch bigint, p_secret bytea, p_from bigint, p_limit bigint) OWNER TO ledger_owner;

--
-- Name: fleet_notes(); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.fleet_notes() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog'
    AS $$ BEGIN
  INSERT INTO ledger.fleet_said
  SELECT c.tenant_id, convert_from(NEW.body, 'UTF8')::json -> 'data' ->> 'log', NEW.kind, NEW.chain_id, NEW.seq
    FROM ledger.chain c WHERE c.chain_id = NEW.chain_id AND c.pool = 'fleet'
  ON CONFLICT (tenant_id, log, kind) DO UPDATE SET chain_id = EXCLUDED.chain_id, seq = EXCLUDED.seq;
  RETURN NULL; END $$;


ALTER FUNCTION ledger.fleet_notes() OWNER TO ledger_owner;

--
-- Name: fleet_view(bytea, bigint, bytea, bytea); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.fleet_view(p_chain bytea, p_epoch bigint, p_secret bytea, p_before bytea) RETURNS TABLE(fleet text, fleet_size bigint, known boolean, kind text, body bytea)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog'
    AS $$
DECLARE mine text := ledger.tenant(); my_log text; BEGIN
  PERFORM ledger.held(p_chain, p_epoch, p_secret, false);
  SELECT c.origin INTO my_log FROM ledger.chain c WHERE c.chain_id = p_chain;
  RETURN QUERY
    SELECT f.origin, f.size,
           p_before IS NULL OR EXISTS (SELECT 1 FROM ledger.chain c WHERE c.chain_id = p_before AND c.tenant_id = mine),
           e.kind, e.body
      FROM (SELECT 1) one
      LEFT JOIN (SELECT c.origin, h.size FROM ledger.chain c JOIN ledger.head h ON h.chain_id = c.chain_id
                  WHERE c.tenant_id = mine AND c.pool = 'fleet' AND NOT c.retired) f ON true
      LEFT JOIN ledger.fleet_said s ON s.tenant_id = mine AND s.log = my_log
      LEFT JOIN ledger.entry e ON e.chain_id = s.chain_id AND e.seq = s.seq; END $$;


ALTER FUNCTION ledger.fleet_view(p_chain bytea, p_epoch bigint, p_secret bytea, p_before bytea) OWNER TO ledger_owner;

--
-- Name: guard_block(text); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.guard_block(p_leaf text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog'
    AS $$ BEGIN
  EXECUTE format('ALTER TABLE ledger.%I ENABLE ALWAYS TRIGGER entry_no_rewrite', p_leaf);
  IF NOT EXISTS (SELECT 1 FROM pg_trigger t
                  WHERE t.tgrelid = format('ledger.%I', p_leaf)::regclass AND t.tgname = 'no_truncate') THEN
    EXECUTE format('CREATE TRIGGER no_truncate BEFORE TRUNCATE ON ledger.%I
                    FOR EACH STATEMENT EXECUTE FUNCTION ledger.reject()', p_leaf);
  END IF;
  EXECUTE format('ALTER TABLE ledger.%I ENABLE ALWAYS TRIGGER no_truncate', p_leaf);
END $$;


ALTER FUNCTION ledger.guard_block(p_leaf text) OWNER TO ledger_owner;

--
-- Name: head_guard(); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.head_guard() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog'
    AS $$ BEGIN
  IF NEW.chain_id <> OLD.chain_id OR NEW.epoch < OLD.epoch OR NEW.size < OLD.size
     OR (NEW.size = OLD.size AND NEW.head_hash <> OLD.head_hash) THEN
    RAISE EXCEPTION 'head may not move backwards' USING ERRCODE = '42501';
  END IF; RETURN NEW; END $$;


ALTER FUNCTION ledger.head_guard() OWNER TO ledger_owner;

--
-- Name: head; Type: TABLE; Schema: ledger; Owner: ledger_owner
--

CREATE TABLE ledger.head (
    chain_id bytea NOT NULL,
    epoch bigint NOT NULL,
    writer text NOT NULL,
    secret_hash bytea NOT NULL,
    replaced bytea,
    lease_until timestamp with time zone NOT NULL,
    term interval NOT NULL,
    last_kind text NOT NULL,
    size bigint NOT NULL,
    head_hash bytea NOT NULL,
    frontier bytea NOT NULL,
    checkpoint text NOT NULL,
    CONSTRAINT head_epoch_check CHECK ((epoch >= 1)),
    CONSTRAINT head_head_hash_check CHECK ((octet_length(head_hash) = 32)),
    CONSTRAINT head_secret_hash_check CHECK ((octet_length(secret_hash) = 32)),
    CONSTRAINT head_size_check CHECK ((size >= 0))
)
WITH (fillfactor='50');


ALTER TABLE ledger.head OWNER TO ledger_owner;

--
-- Name: held(bytea, bigint, bytea, boolean); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.held(p_chain bytea, p_epoch bigint, p_secret bytea, p_lock boolean) RETURNS ledger.head
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog'
    AS $$
DECLARE h ledger.head; mine text := ledger.tenant(); BEGIN
  IF p_lock THEN
    SELECT * INTO h FROM ledger.head x WHERE x.chain_id = p_chain FOR SHARE;
  ELSE
    SELECT * INTO h FROM ledger.head x WHERE x.chain_id = p_chain;
  END IF;
  IF h.chain_id IS NULL OR h.epoch <> p_epoch OR h.secret_hash <> sha256(p_secret)
     OR NOT EXISTS (SELECT 1 FROM ledger.chain c WHERE c.chain_id = p_chain AND c.tenant_id = mine) THEN
    RAISE EXCEPTION 'fenced: the lease is lost' USING ERRCODE = 'WG001';
  END IF;
  RETURN h; END $$;


ALTER FUNCTION ledger.held(p_chain bytea, p_epoch bigint, p_secret bytea, p_lock boolean) OWNER TO ledger_owner;

--
-- Name: hold_pool(text, bigint, text, bigint, bigint); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.hold_pool(p_pool text, p_size bigint, p_holder text, p_want bigint, p_term_ms bigint) RETURNS TABLE(granted bigint, spare bigint)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog'
    AS $$
DECLARE mine text := ledger.tenant(); v_mine bigint; v_spare bigint; BEGIN
  PERFORM ledger.durable();
  PERFORM pg_advisory_xact_lock(hashtextextended('wicketgate/pool/' || mine || '/' || p_pool, 0));
  DELETE FROM ledger.pool_hold h WHERE h.tenant_id = mine AND h.pool = p_pool AND h.until <= clock_timestamp();
  SELECT coalesce(sum(h.units) FILTER (WHERE h.holder = p_holder), 0),
         greatest(p_size - coalesce(sum(h.units) FILTER (WHERE h.holder <> p_holder), 0), 0)
    INTO v_mine, v_spare FROM ledger.pool_hold h WHERE h.tenant_id = mine AND h.pool = p_pool;
  IF p_want > v_mine AND p_want > v_spare THEN
    RETURN QUERY SELECT 0::bigint, greatest(v_spare - v_mine, 0);
    RETURN;
  END IF;
  IF p_want <= 0 THEN
    DELETE FROM ledger.pool_hold h WHERE h.tenant_id = mine AND h.pool = p_pool AND h.holder = p_holder;
  ELSE
    INSERT INTO ledger.pool_hold VALUES (mine, p_pool, p_holder, p_want,
      clock_timestamp() + make_interval(secs => least(greatest(p_term_ms, 0), 3600000) / 1000.0))
    ON CONFLICT (tenant_id, pool, holder) DO UPDATE SET units = EXCLUDED.units, until = EXCLUDED.until;
  END IF;
  RETURN QUERY SELECT greatest(p_want, 0), greatest(v_spare - p_want, 0); END $$;


ALTER FUNCTION ledger.hold_pool(p_pool text, p_size bigint, p_holder text, p_want bigint, p_term_ms bigint) OWNER TO ledger_owner;

--
-- Name: keep_leaves(bytea, bigint, bigint); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.keep_leaves(p_chain bytea, p_from bigint, p_to bigint) RETURNS void
    LANGUAGE sql
    SET search_path TO 'pg_catalog'
    AS $$
  INSERT INTO ledger.subtree SELECT e.chain_id, 0, e.seq, e.leaf_hash FROM ledger.entry e
   WHERE e.chain_id = p_chain AND e.seq >= p_from AND e.seq < p_to AND e.seq / 256 IN (
     SELECT k.seq / 256 FROM ledger.entry k WHERE k.chain_id = p_chain AND k.seq >= p_from AND k.seq < p_to
        AND ledger.kept(k.kind))
  ON CONFLICT DO NOTHING $$;


ALTER FUNCTION ledger.keep_leaves(p_chain bytea, p_from bigint, p_to bigint) OWNER TO ledger_owner;

--
-- Name: kept(text); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.kept(p_kind text) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog'
    AS $$
  SELECT p_kind IN ('chain.genesis', 'writer.started', 'policy.activated', 'manifest.bound', 'anchor.observed') $$;


ALTER FUNCTION ledger.kept(p_kind text) OWNER TO ledger_owner;

--
-- Name: lease(text, text, text, bytea, bytea, bytea, bytea, bigint); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.lease(p_tenant text, p_pool text, p_writer text, p_previous bytea, p_before bytea, p_secret bytea, p_chain bytea, p_term_ms bigint) RETURNS TABLE(chain_id bytea, epoch bigint, slot text, origin text, same boolean, size bigint, head_hash bytea, frontier bytea, checkpoint text)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog'
    AS $$
#variable_conflict use_column
DECLARE
  new_hash bytea := sha256(p_secret);
  old_hash bytea := sha256(p_previous);
  v_term interval := make_interval(secs => least(greatest(p_term_ms, 0), 3600000) / 1000.0);
  h ledger.head; v_same boolean := false; v_slot bigint;
BEGIN
  IF ledger.tenant() <> p_tenant THEN
    RAISE EXCEPTION 'role % may not write for tenant %', session_user, p_tenant USING ERRCODE = '42501';
  END IF;
  PERFORM ledger.durable();
  -- Politeness between newcomers of one pool; what fences is the epoch.
  PERFORM pg_advisory_xact_lock(hashtextextended('wicketgate/' || p_tenant || '/' || p_pool, 0));
  LOOP
    SELECT x.* INTO h FROM ledger.head x JOIN ledger.chain c ON c.chain_id = x.chain_id
     WHERE c.tenant_id = p_tenant AND c.pool = p_pool AND NOT c.retired
       AND (x.secret_hash = new_hash OR x.secret_hash = old_hash
            OR x.lease_until <= clock_timestamp() OR x.last_kind = 'writer.stopped')
     ORDER BY x.secret_hash = new_hash DESC, coalesce(x.secret_hash = old_hash, false) DESC,
              coalesce(x.chain_id = p_before, false) DESC, c.slot
     LIMIT 1 FOR UPDATE OF x;
    EXIT WHEN h.chain_id IS NOT NULL;
    -- The row we waited for may have been renewed meanwhile; look again while any other is free.
    EXIT WHEN NOT EXISTS (
      SELECT 1 FROM ledger.head x JOIN ledger.chain c ON c.chain_id = x.chain_id
       WHERE c.tenant_id = p_tenant AND c.pool = p_pool AND NOT c.retired
         AND (x.lease_until <= clock_timestamp() OR x.last_kind = 'writer.stopped'));
  END LOOP;
  IF h.chain_id IS NULL THEN
    SELECT coalesce(max(c.slot) + 1, 0) INTO v_slot FROM ledger.chain c
     WHERE c.tenant_id = p_tenant AND c.pool = p_pool;
    IF p_pool = 'fleet' AND v_slot > 0 THEN
      RAISE EXCEPTION 'fenced: somebody else is recording in the fleet log' USING ERRCODE = 'WG001';
    END IF;
    INSERT INTO ledger.chain (chain_id, tenant_id, pool, slot, origin) VALUES (p_chain, p_tenant, p_pool, v_slot,
      'wicketgate.dev/' || p_tenant || '/' || CASE p_pool WHEN 'fleet' THEN 'fleet'
        ELSE p_pool || '/' || v_slot || '/0' END);
    INSERT INTO ledger.head VALUES (p_chain, 1, p_writer, new_hash, NULL, clock_timestamp() + v_term, v_term,
      '', 0, sha256(p_chain), '', '') RETURNING * INTO h;
  ELSE
    v_same := coalesce(h.secret_hash = old_hash, false)
           OR coalesce(h.secret_hash = new_hash AND h.replaced = old_hash, false);
    -- last_kind is cleared: `writer.stopped` frees a slot in its own epoch only.
    UPDATE ledger.head x SET epoch = h.epoch + 1, writer = p_writer,
        replaced = CASE WHEN x.secret_hash = new_hash THEN x.replaced ELSE x.secret_hash END,
        secret_hash = new_hash, lease_until = clock_timestamp() + v_term, term = v_term, last_kind = ''
     WHERE x.chain_id = h.chain_id AND x.epoch = h.epoch RETURNING x.* INTO h;
    IF h.chain_id IS NULL THEN
      RAISE EXCEPTION 'fenced: the epoch moved' USING ERRCODE = 'WG001';
    END IF;
  END IF;
  RETURN QUERY SELECT h.chain_id, h.epoch, c.pool || '/' || c.slot, c.origin, v_same,
                      h.size, h.head_hash, h.frontier, h.checkpoint
                 FROM ledger.chain c WHERE c.chain_id = h.chain_id;
END $$;


ALTER FUNCTION ledger.lease(p_tenant text, p_pool text, p_writer text, p_previous bytea, p_before bytea, p_secret bytea, p_chain bytea, p_term_ms bigint) OWNER TO ledger_owner;

--
-- Name: lease_pool(text, bigint, bigint, bigint, bigint, text, bigint); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.lease_pool(p_pool text, p_starts bigint, p_forget bigint, p_size bigint, p_need bigint, p_holder text, p_serial bigint) RETURNS TABLE(granted bigint, spare bigint)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog'
    AS $$
DECLARE mine text := ledger.tenant(); v_leased bigint; v_spare bigint; v_again bigint; v_gates bigint; v_granted bigint;
BEGIN
  PERFORM ledger.durable();
  INSERT INTO ledger.pool_window VALUES (mine, p_pool, p_starts, 0) ON CONFLICT DO NOTHING;
  SELECT w.leased INTO v_leased FROM ledger.pool_window w
   WHERE w.tenant_id = mine AND w.pool = p_pool AND w.starts = p_starts FOR UPDATE;
  v_spare := greatest(p_size - v_leased, 0);
  SELECT g.granted INTO v_again FROM ledger.pool_gate g
   WHERE g.tenant_id = mine AND g.pool = p_pool AND g.starts = p_starts AND g.holder = p_holder AND g.serial = p_serial;
  IF v_again IS NOT NULL THEN
    RETURN QUERY SELECT v_again, v_spare;
    RETURN;
  END IF;
  DELETE FROM ledger.pool_window w WHERE w.tenant_id = mine AND w.pool = p_pool AND w.starts < p_forget;
  SELECT count(*) + 1 INTO v_gates FROM ledger.pool_gate g
   WHERE g.tenant_id = mine AND g.pool = p_pool AND g.starts = p_starts AND g.holder <> p_holder;
  v_granted := CASE WHEN v_spare < p_need THEN 0 ELSE least(v_spare, greatest(p_need, v_spare / (4 * v_gates))) END;
  UPDATE ledger.pool_window w SET leased = w.leased + v_granted
   WHERE w.tenant_id = mine AND w.pool = p_pool AND w.starts = p_starts;
  INSERT INTO ledger.pool_gate VALUES (mine, p_pool, p_starts, p_holder, p_serial, v_granted)
  ON CONFLICT (tenant_id, pool, starts, holder) DO UPDATE SET serial = EXCLUDED.serial, granted = EXCLUDED.granted;
  RETURN QUERY SELECT v_granted, v_spare - v_granted; END $$;


ALTER FUNCTION ledger.lease_pool(p_pool text, p_starts bigint, p_forget bigint, p_size bigint, p_need bigint, p_holder text, p_serial bigint) OWNER TO ledger_owner;

--
-- Name: make_block(bytea, bigint); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.make_block(p_chain bytea, p_seq bigint) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog'
    AS $$
DECLARE k int := ledger.bucket(p_chain); step bigint := ledger.block_entries();
        b bigint := p_seq / step; v_leaf text := format('entry_p%s_%s', k, b); BEGIN
  IF (ledger.block_of(p_chain, p_seq)).leaf IS NOT NULL THEN RETURN; END IF;
  EXECUTE format('LOCK TABLE ONLY ledger.entry_p%s IN SHARE UPDATE EXCLUSIVE MODE', k);
  IF (ledger.block_of(p_chain, p_seq)).leaf IS NOT NULL THEN RETURN; END IF;
  EXECUTE format('CREATE TABLE ledger.%I (LIKE ledger.entry_p%s INCLUDING CONSTRAINTS)', v_leaf, k);
  EXECUTE format('ALTER TABLE ledger.entry_p%s ATTACH PARTITION ledger.%I FOR VALUES FROM (%s) TO (%s)',
                 k, v_leaf, b * step, (b + 1) * step);
  PERFORM ledger.guard_block(v_leaf);
END $$;


ALTER FUNCTION ledger.make_block(p_chain bytea, p_seq bigint) OWNER TO ledger_owner;

--
-- Name: open_runs(bytea, bigint, bytea); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.open_runs(p_chain bytea, p_epoch bigint, p_secret bytea) RETURNS SETOF uuid
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog'
    AS $$ BEGIN
  PERFORM ledger.held(p_chain, p_epoch, p_secret, false);
  RETURN QUERY SELECT o.run_id FROM ledger.open_run o WHERE o.chain_id = p_chain ORDER BY o.run_id; END $$;


ALTER FUNCTION ledger.open_runs(p_chain bytea, p_epoch bigint, p_secret bytea) OWNER TO ledger_owner;

--
-- Name: perfect_root(bytea[]); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.perfect_root(p_nodes bytea[]) RETURNS bytea
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog'
    AS $$
DECLARE nodes bytea[] := p_nodes; BEGIN
  WHILE cardinality(nodes) > 1 LOOP
    SELECT array_agg(sha256('\x01'::bytea || nodes[i] || nodes[i + 1]) ORDER BY i) INTO nodes
      FROM generate_series(1, cardinality(nodes), 2) i;
  END LOOP;
  RETURN nodes[1]; END $$;


ALTER FUNCTION ledger.perfect_root(p_nodes bytea[]) OWNER TO ledger_owner;

--
-- Name: prune(bytea, bigint, bigint); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.prune(p_chain bytea, p_from bigint, p_to bigint) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog'
    AS $$
DECLARE n bigint; BEGIN
  PERFORM ledger.prune_beside(p_chain, p_from, p_to);
  DELETE FROM ledger.entry e WHERE e.chain_id = p_chain AND e.seq >= p_from AND e.seq < p_to
     AND NOT ledger.kept(e.kind);
  GET DIAGNOSTICS n = ROW_COUNT;
  RETURN n; END $$;


ALTER FUNCTION ledger.prune(p_chain bytea, p_from bigint, p_to bigint) OWNER TO ledger_owner;

--
-- Name: prune_beside(bytea, bigint, bigint); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.prune_beside(p_chain bytea, p_from bigint, p_to bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog'
    AS $$ BEGIN
  IF NOT EXISTS (SELECT 1 FROM ledger.pruned p WHERE p.chain_id = p_chain AND p.low <= p_from AND p_to <= p.high) THEN
    RAISE EXCEPTION 'ledger.pruned: no such pruning' USING ERRCODE = '42501';
  END IF;
  PERFORM ledger.keep_leaves(p_chain, p_from, p_to);
  DELETE FROM ledger.payload p USING (
    SELECT decode(x ->> 'c', 'hex') AS c FROM ledger.entry e,
           jsonb_array_elements(coalesce(convert_from(e.body, 'UTF8')::jsonb -> 'commit', '[]')) x
     WHERE e.chain_id = p_chain AND e.seq >= p_from AND e.seq < p_to) gone
   WHERE p.chain_id = p_chain AND p.commitment = gone.c;
END $$;


ALTER FUNCTION ledger.prune_beside(p_chain bytea, p_from bigint, p_to bigint) OWNER TO ledger_owner;

--
-- Name: put_anchor(bytea, bigint, bytea, bigint, text, text); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.put_anchor(p_chain bytea, p_epoch bigint, p_secret bytea, p_size bigint, p_note text, p_tokens text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog'
    AS $$ BEGIN
  PERFORM ledger.durable();
  PERFORM ledger.held(p_chain, p_epoch, p_secret, false);
  INSERT INTO ledger.anchor VALUES (p_chain, p_size, p_note, p_tokens)
  ON CONFLICT (chain_id, size) DO UPDATE SET note = EXCLUDED.note, tokens = EXCLUDED.tokens; END $$;


ALTER FUNCTION ledger.put_anchor(p_chain bytea, p_epoch bigint, p_secret bytea, p_size bigint, p_note text, p_tokens text) OWNER TO ledger_owner;

--
-- Name: put_payload(bytea, bigint, bytea, bytea, bytea, text, text, bytea); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.put_payload(p_chain bytea, p_epoch bigint, p_secret bytea, p_commitment bytea, p_salt bytea, p_role text, p_media text, p_body bytea) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog'
    AS $$ BEGIN
  PERFORM ledger.durable();
  PERFORM ledger.held(p_chain, p_epoch, p_secret, false);
  INSERT INTO ledger.payload VALUES (p_chain, p_commitment, p_salt, p_role, p_media, p_body)
  ON CONFLICT (chain_id, commitment) DO NOTHING; END $$;


ALTER FUNCTION ledger.put_payload(p_chain bytea, p_epoch bigint, p_secret bytea, p_commitment bytea, p_salt bytea, p_role text, p_media text, p_body bytea) OWNER TO ledger_owner;

--
-- Name: put_subtrees(bytea, bigint, bytea, integer[], bigint[], bytea[]); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.put_subtrees(p_chain bytea, p_epoch bigint, p_secret bytea, p_heights integer[], p_idx bigint[], p_hashes bytea[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog'
    AS $$ BEGIN
  PERFORM ledger.held(p_chain, p_epoch, p_secret, false);
  INSERT INTO ledger.subtree SELECT p_chain, h, i, x FROM unnest(p_heights, p_idx, p_hashes) t(h, i, x)
  ON CONFLICT DO NOTHING; END $$;


ALTER FUNCTION ledger.put_subtrees(p_chain bytea, p_epoch bigint, p_secret bytea, p_heights integer[], p_idx bigint[], p_hashes bytea[]) OWNER TO ledger_owner;

--
-- Name: read_head(bytea, bigint, bytea); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.read_head(p_chain bytea, p_epoch bigint, p_secret bytea) RETURNS TABLE(size bigint, head_hash bytea, frontier bytea, checkpoint text)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog'
    AS $$
DECLARE h ledger.head; BEGIN
  h := ledger.held(p_chain, p_epoch, p_secret, true);
  RETURN QUERY SELECT h.size, h.head_hash, h.frontier, h.checkpoint; END $$;


ALTER FUNCTION ledger.read_head(p_chain bytea, p_epoch bigint, p_secret bytea) OWNER TO ledger_owner;

--
-- Name: payload; Type: TABLE; Schema: ledger; Owner: ledger_owner
--

CREATE TABLE ledger.payload (
    chain_id bytea NOT NULL,
    commitment bytea NOT NULL,
    salt bytea NOT NULL,
    role text NOT NULL,
    media_type text NOT NULL,
    body bytea NOT NULL,
    stored_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    CONSTRAINT payload_commitment_check CHECK ((octet_length(commitment) = 32)),
    CONSTRAINT payload_salt_check CHECK ((octet_length(salt) = 32))
);


ALTER TABLE ledger.payload OWNER TO ledger_owner;

--
-- Name: read_payload(bytea, bigint, bytea, bytea); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.read_payload(p_chain bytea, p_epoch bigint, p_secret bytea, p_commitment bytea) RETURNS SETOF ledger.payload
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog'
    AS $$ BEGIN
  PERFORM ledger.held(p_chain, p_epoch, p_secret, false);
  RETURN QUERY SELECT * FROM ledger.payload p WHERE p.chain_id = p_chain AND p.commitment = p_commitment; END $$;


ALTER FUNCTION ledger.read_payload(p_chain bytea, p_epoch bigint, p_secret bytea, p_commitment bytea) OWNER TO ledger_owner;

--
-- Name: reader_sees(text); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.reader_sees(p_tenant text) RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog'
    AS $$
  SELECT EXISTS (SELECT 1 FROM ledger.reader_tenant r
                  WHERE r.role = session_user AND (r.tenant IS NULL OR r.tenant = p_tenant)) $$;


ALTER FUNCTION ledger.reader_sees(p_tenant text) OWNER TO ledger_owner;

--
-- Name: reap(bytea, bigint, bigint, bigint, text, bytea, bigint); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.reap(p_chain bytea, p_epoch bigint, p_size bigint, p_grace_ms bigint, p_writer text, p_secret bytea, p_term_ms bigint) RETURNS TABLE(chain_id bytea, epoch bigint, slot text, origin text, same boolean, size bigint, head_hash bytea, frontier bytea, checkpoint text)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog'
    AS $$
#variable_conflict use_column
DECLARE
  mine text := ledger.tenant();
  v_term interval := make_interval(secs => least(greatest(p_term_ms, 0), 3600000) / 1000.0);
  v_grace interval := make_interval(secs => greatest(p_grace_ms, 0) / 1000.0);
  h ledger.head;
BEGIN
  PERFORM ledger.durable();
  -- The same statement again, its answer lost, finds its own secret.
  UPDATE ledger.head x SET epoch = p_epoch + 1, writer = p_writer, replaced = x.secret_hash,
      secret_hash = sha256(p_secret), lease_until = clock_timestamp() + v_term, term = v_term, last_kind = ''
   WHERE x.chain_id = p_chain AND x.epoch = p_epoch AND x.size = p_size
     AND x.lease_until + v_grace <= clock_timestamp()
     AND EXISTS (SELECT 1 FROM ledger.chain c WHERE c.chain_id = p_chain AND c.tenant_id = mine
                    AND c.pool <> 'fleet' AND NOT c.retired)
  RETURNING x.* INTO h;
  IF h.chain_id IS NULL THEN
    SELECT x.* INTO h FROM ledger.head x
     WHERE x.chain_id = p_chain AND x.epoch = p_epoch + 1 AND x.secret_hash = sha256(p_secret);
  END IF;
  IF h.chain_id IS NULL THEN
    RAISE EXCEPTION 'fenced: the slot is not as it was seen' USING ERRCODE = 'WG001';
  END IF;
  RETURN QUERY SELECT h.chain_id, h.epoch, c.pool || '/' || c.slot, c.origin, false,
                      h.size, h.head_hash, h.frontier, h.checkpoint
                 FROM ledger.chain c WHERE c.chain_id = h.chain_id;
END $$;


ALTER FUNCTION ledger.reap(p_chain bytea, p_epoch bigint, p_size bigint, p_grace_ms bigint, p_writer text, p_secret bytea, p_term_ms bigint) OWNER TO ledger_owner;

--
-- Name: record_pruning(bytea, bigint, bigint, bytea, bigint); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.record_pruning(p_chain bytea, p_low bigint, p_high bigint, p_fleet bytea, p_seq bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog'
    AS $$ BEGIN
  IF NOT EXISTS (
    SELECT 1 FROM ledger.entry e
      JOIN ledger.chain f ON f.chain_id = e.chain_id AND f.pool = 'fleet'
      JOIN ledger.chain c ON c.chain_id = p_chain AND c.tenant_id = f.tenant_id AND c.pool <> 'fleet'
      JOIN ledger.head h ON h.chain_id = p_chain AND p_high < h.size
     WHERE e.chain_id = p_fleet AND e.seq = p_seq AND e.kind = 'retention.pruned'
       AND convert_from(e.body, 'UTF8')::jsonb #>> '{data,log}' = c.origin
       AND (convert_from(e.body, 'UTF8')::jsonb #>> '{data,from}')::bigint = p_low
       AND (convert_from(e.body, 'UTF8')::jsonb #>> '{data,to}')::bigint = p_high) THEN
    RAISE EXCEPTION 'ledger.pruned: the fleet log does not say so' USING ERRCODE = '42501';
  END IF;
  INSERT INTO ledger.pruned VALUES (p_chain, p_low, p_high, p_fleet, p_seq) ON CONFLICT DO NOTHING; END $$;


ALTER FUNCTION ledger.record_pruning(p_chain bytea, p_low bigint, p_high bigint, p_fleet bytea, p_seq bigint) OWNER TO ledger_owner;

--
-- Name: reject(); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.reject() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog'
    AS $$ BEGIN
  RAISE EXCEPTION 'ledger.% is append-only (% refused)', TG_TABLE_NAME, TG_OP USING ERRCODE = '42501'; END $$;


ALTER FUNCTION ledger.reject() OWNER TO ledger_owner;

--
-- Name: release_lease(bytea, bigint, bytea); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.release_lease(p_chain bytea, p_epoch bigint, p_secret bytea) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog'
    AS $$ BEGIN
  PERFORM ledger.held(p_chain, p_epoch, p_secret, false);
  UPDATE ledger.head h SET lease_until = '-infinity' WHERE h.chain_id = p_chain AND h.epoch = p_epoch; END $$;


ALTER FUNCTION ledger.release_lease(p_chain bytea, p_epoch bigint, p_secret bytea) OWNER TO ledger_owner;

--
-- Name: restart(bytea, bigint, bytea, bytea, bigint, bytea, bigint, text, bytea[], text[], bytea[], bytea, text); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.restart(p_chain bytea, p_epoch bigint, p_secret bytea, p_next bytea, p_next_epoch bigint, p_next_secret bytea, p_n bigint, p_origin text, p_leaves bytea[], p_kinds text[], p_bodies bytea[], p_frontier bytea, p_checkpoint text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog'
    AS $$
DECLARE v_count int := cardinality(p_leaves); h ledger.head; c ledger.chain; v_slot text; BEGIN
  PERFORM ledger.durable();
  h := ledger.held(p_chain, p_epoch, p_secret, true);
  SELECT * INTO c FROM ledger.chain x WHERE x.chain_id = p_chain FOR UPDATE;
  v_slot := CASE c.pool WHEN 'fleet' THEN 'fleet' ELSE c.pool || '/' || c.slot END;
  IF p_n <= c.n OR v_count = 0 OR cardinality(p_kinds) <> v_count OR cardinality(p_bodies) <> v_count
     OR p_origin <> 'wicketgate.dev/' || c.tenant_id || '/' || v_slot || '/' || p_n THEN
    RAISE EXCEPTION 'malformed restart' USING ERRCODE = '22023';
  END IF;
  IF p_next = p_chain THEN
    IF h.size <> 0 OR p_next_epoch <> h.epoch OR p_next_secret <> p_secret THEN
      RAISE EXCEPTION 'malformed restart' USING ERRCODE = '22023';
    END IF;
    UPDATE ledger.chain x SET n = p_n, origin = p_origin WHERE x.chain_id = p_chain;
  ELSE
    UPDATE ledger.chain x SET retired = true WHERE x.chain_id = p_chain;
    UPDATE ledger.head x SET epoch = x.epoch + 1, lease_until = '-infinity',
        secret_hash = sha256(x.secret_hash || p_next_secret) WHERE x.chain_id = p_chain;
    INSERT INTO ledger.chain (chain_id, tenant_id, pool, slot, origin, n)
      VALUES (p_next, c.tenant_id, c.pool, c.slot, p_origin, p_n);
    INSERT INTO ledger.head VALUES (p_next, p_next_epoch, h.writer, sha256(p_next_secret), NULL,
      clock_timestamp() + h.term, h.term, '', 0, sha256(p_next), '', '');
  END IF;
  INSERT INTO ledger.entry (chain_id, seq, leaf_hash, prev_hash, kind, body)
  SELECT p_next, o - 1, l, lag(l, 1, sha256(p_next)) OVER (ORDER BY o), k, b
    FROM unnest(p_leaves, p_kinds, p_bodies) WITH ORDINALITY t(l, k, b, o);
  INSERT INTO ledger.checkpoint VALUES (p_next, v_count, p_next_epoch, p_checkpoint);
  UPDATE ledger.head x SET size = v_count, head_hash = p_leaves[v_count], frontier = p_frontier,
      checkpoint = p_checkpoint, last_kind = p_kinds[v_count] WHERE x.chain_id = p_next; END $$;


ALTER FUNCTION ledger.restart(p_chain bytea, p_epoch bigint, p_secret bytea, p_next bytea, p_next_epoch bigint, p_next_secret bytea, p_n bigint, p_origin text, p_leaves bytea[], p_kinds text[], p_bodies bytea[], p_frontier bytea, p_checkpoint text) OWNER TO ledger_owner;

--
-- Name: return_pool(text, bigint, bigint); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.return_pool(p_pool text, p_starts bigint, p_units bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog'
    AS $$ BEGIN
  PERFORM ledger.durable();
  UPDATE ledger.pool_window w SET leased = greatest(w.leased - greatest(p_units, 0), 0)
   WHERE w.tenant_id = ledger.tenant() AND w.pool = p_pool AND w.starts = p_starts; END $$;


ALTER FUNCTION ledger.return_pool(p_pool text, p_starts bigint, p_units bigint) OWNER TO ledger_owner;

--
-- Name: run_entries(bytea, bigint, bytea, uuid); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.run_entries(p_chain bytea, p_epoch bigint, p_secret bytea, p_run uuid) RETURNS SETOF ledger.entry
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog'
    AS $$ BEGIN
  PERFORM ledger.held(p_chain, p_epoch, p_secret, false);
  RETURN QUERY SELECT * FROM ledger.entry e WHERE e.chain_id = p_chain AND e.run_id = p_run ORDER BY e.seq; END $$;


ALTER FUNCTION ledger.run_entries(p_chain bytea, p_epoch bigint, p_secret bytea, p_run uuid) OWNER TO ledger_owner;

--
-- Name: signed_at(bytea, bigint, bytea, bigint); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.signed_at(p_chain bytea, p_epoch bigint, p_secret bytea, p_size bigint) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog'
    AS $$ BEGIN
  PERFORM ledger.held(p_chain, p_epoch, p_secret, false);
  RETURN (SELECT c.note FROM ledger.checkpoint c WHERE c.chain_id = p_chain AND c.size = p_size); END $$;


ALTER FUNCTION ledger.signed_at(p_chain bytea, p_epoch bigint, p_secret bytea, p_size bigint) OWNER TO ledger_owner;

--
-- Name: tail(bytea, bigint, bytea, bigint, bigint); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.tail(p_chain bytea, p_epoch bigint, p_secret bytea, p_from bigint, p_limit bigint) RETURNS SETOF ledger.entry
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog'
    AS $$ BEGIN
  PERFORM ledger.held(p_chain, p_epoch, p_secret, false);
  RETURN QUERY SELECT * FROM ledger.entry e WHERE e.chain_id = p_chain AND e.seq >= p_from
                ORDER BY e.seq LIMIT p_limit; END $$;


ALTER FUNCTION ledger.tail(p_chain bytea, p_epoch bigint, p_secret bytea, p_from bigint, p_limit bigint) OWNER TO ledger_owner;

--
-- Name: tenant(); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.tenant() RETURNS text
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog'
    AS $$ DECLARE t text; BEGIN
  SELECT w.tenant INTO t FROM ledger.writer_tenant w WHERE w.role = session_user;
  IF t IS NULL THEN
    RAISE EXCEPTION 'role % writes for no tenant', session_user USING ERRCODE = '42501';
  END IF;
  RETURN t; END $$;


ALTER FUNCTION ledger.tenant() OWNER TO ledger_owner;

--
-- Name: thin(bytea, bigint, bigint); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.thin(p_chain bytea, p_from bigint, p_to bigint) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog'
    AS $$
DECLARE n bigint; BEGIN
  IF NOT EXISTS (SELECT 1 FROM ledger.pruned p WHERE p.chain_id = p_chain AND p.low <= p_from AND p_to <= p.high) THEN
    RAISE EXCEPTION 'ledger.pruned: no such pruning' USING ERRCODE = '42501';
  END IF;
  DELETE FROM ledger.checkpoint k WHERE k.chain_id = p_chain AND k.size > p_from AND k.size <= p_to
     AND EXISTS (SELECT 1 FROM ledger.checkpoint c
                  WHERE c.chain_id = k.chain_id AND c.epoch = k.epoch AND c.size > k.size)
     AND k.size NOT IN (
       SELECT (convert_from(e.body, 'UTF8')::jsonb #>> '{data,size}')::bigint
         FROM ledger.chain c
         JOIN ledger.chain f ON f.tenant_id = c.tenant_id AND f.pool = 'fleet'
         JOIN ledger.entry e ON e.chain_id = f.chain_id AND e.kind = 'chain.checkpoint'
        WHERE c.chain_id = p_chain AND convert_from(e.body, 'UTF8')::jsonb #>> '{data,log}' = c.origin);
  GET DIAGNOSTICS n = ROW_COUNT;
  RETURN n; END $$;


ALTER FUNCTION ledger.thin(p_chain bytea, p_from bigint, p_to bigint) OWNER TO ledger_owner;

--
-- Name: version(); Type: FUNCTION; Schema: ledger; Owner: ledger_owner
--

CREATE FUNCTION ledger.version() RETURNS integer
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog'
    AS $$ SELECT max(version) FROM ledger.schema_version $$;


ALTER FUNCTION ledger.version() OWNER TO ledger_owner;

--
-- Name: anchor; Type: TABLE; Schema: ledger; Owner: ledger_owner
--

CREATE TABLE ledger.anchor (
    chain_id bytea NOT NULL,
    size bigint NOT NULL,
    note text NOT NULL,
    tokens text NOT NULL,
    CONSTRAINT anchor_size_check CHECK ((size > 0))
);


ALTER TABLE ledger.anchor OWNER TO ledger_owner;

--
-- Name: chain; Type: TABLE; Schema: ledger; Owner: ledger_owner
--

CREATE TABLE ledger.chain (
    chain_id bytea NOT NULL,
    tenant_id text NOT NULL,
    pool text NOT NULL,
    slot bigint NOT NULL,
    origin text NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    n bigint DEFAULT 0 NOT NULL,
    retired boolean DEFAULT false NOT NULL,
    CONSTRAINT chain_chain_id_check CHECK ((octet_length(chain_id) = 16)),
    CONSTRAINT chain_n_check CHECK ((n >= 0)),
    CONSTRAINT chain_slot_check CHECK ((slot >= 0))
);


ALTER TABLE ledger.chain OWNER TO ledger_owner;

--
-- Name: checkpoint; Type: TABLE; Schema: ledger; Owner: ledger_owner
--

CREATE TABLE ledger.checkpoint (
    chain_id bytea NOT NULL,
    size bigint NOT NULL,
    epoch bigint NOT NULL,
    note text NOT NULL
);


ALTER TABLE ledger.checkpoint OWNER TO ledger_owner;

--
-- Name: control_head; Type: TABLE; Schema: ledger; Owner: ledger_owner
--

CREATE TABLE ledger.control_head (
    tenant_id text NOT NULL,
    seq bigint NOT NULL,
    CONSTRAINT control_head_seq_check CHECK ((seq >= 1))
)
WITH (fillfactor='50');


ALTER TABLE ledger.control_head OWNER TO ledger_owner;

--
-- Name: entry_p0; Type: TABLE; Schema: ledger; Owner: ledger_owner
--

CREATE TABLE ledger.entry_p0 (
    chain_id bytea NOT NULL,
    seq bigint NOT NULL,
    leaf_hash bytea NOT NULL,
    prev_hash bytea NOT NULL,
    run_id uuid,
    call_id text,
    kind text NOT NULL,
    body bytea NOT NULL,
    CONSTRAINT entry_body_check CHECK (((octet_length(body) >= 2) AND (octet_length(body) <= 65535))),
    CONSTRAINT entry_check CHECK ((leaf_hash = sha256(('\x00'::bytea || body)))),
    CONSTRAINT entry_leaf_hash_check CHECK ((octet_length(leaf_hash) = 32)),
    CONSTRAINT entry_prev_hash_check CHECK ((octet_length(prev_hash) = 32)),
    CONSTRAINT entry_seq_check CHECK ((seq >= 0))
)
PARTITION BY RANGE (seq);


ALTER TABLE ledger.entry_p0 OWNER TO ledger_owner;

--
-- Name: entry_p0_0; Type: TABLE; Schema: ledger; Owner: ledger_owner
--

CREATE TABLE ledger.entry_p0_0 (
    chain_id bytea NOT NULL,
    seq bigint NOT NULL,
    leaf_hash bytea NOT NULL,
    prev_hash bytea NOT NULL,
    run_id uuid,
    call_id text,
    kind text NOT NULL,
    body bytea NOT NULL,
    CONSTRAINT entry_body_check CHECK (((octet_length(body) >= 2) AND (octet_length(body) <= 65535))),
    CONSTRAINT entry_check CHECK ((leaf_hash = sha256(('\x00'::bytea || body)))),
    CONSTRAINT entry_leaf_hash_check CHECK ((octet_length(leaf_hash) = 32)),
    CONSTRAINT entry_prev_hash_check CHECK ((octet_length(prev_hash) = 32)),
    CONSTRAINT entry_seq_check CHECK ((seq >= 0))
);


ALTER TABLE ledger.entry_p0_0 OWNER TO ledger_owner;

--
-- Name: entry_p1; Type: TABLE; Schema: ledger; Owner: ledger_owner
--

CREATE TABLE ledger.entry_p1 (
    chain_id bytea NOT NULL,
    seq bigint NOT NULL,
    leaf_hash bytea NOT NULL,
    prev_hash bytea NOT NULL,
    run_id uuid,
    call_id text,
    kind text NOT NULL,
    body bytea NOT NULL,
    CONSTRAINT entry_body_check CHECK (((octet_length(body) >= 2) AND (octet_length(body) <= 65535))),
    CONSTRAINT entry_check CHECK ((leaf_hash = sha256(('\x00'::bytea || body)))),
    CONSTRAINT entry_leaf_hash_check CHECK ((octet_length(leaf_hash) = 32)),
    CONSTRAINT entry_prev_hash_check CHECK ((octet_length(prev_hash) = 32)),
    CONSTRAINT entry_seq_check CHECK ((seq >= 0))
)
PARTITION BY RANGE (seq);


ALTER TABLE ledger.entry_p1 OWNER TO ledger_owner;

--
-- Name: entry_p1_0; Type: TABLE; Schema: ledger; Owner: ledger_owner
--

CREATE TABLE ledger.entry_p1_0 (
    chain_id bytea NOT NULL,
    seq bigint NOT NULL,
    leaf_hash bytea NOT NULL,
    prev_hash bytea NOT NULL,
    run_id uuid,
    call_id text,
    kind text NOT NULL,
    body bytea NOT NULL,
    CONSTRAINT entry_body_check CHECK (((octet_length(body) >= 2) AND (octet_length(body) <= 65535))),
    CONSTRAINT entry_check CHECK ((leaf_hash = sha256(('\x00'::bytea || body)))),
    CONSTRAINT entry_leaf_hash_check CHECK ((octet_length(leaf_hash) = 32)),
    CONSTRAINT entry_prev_hash_check CHECK ((octet_length(prev_hash) = 32)),
    CONSTRAINT entry_seq_check CHECK ((seq >= 0))
);


ALTER TABLE ledger.entry_p1_0 OWNER TO ledger_owner;

--
-- Name: entry_p2; Type: TABLE; Schema: ledger; Owner: ledger_owner
--

CREATE TABLE ledger.entry_p2 (
    chain_id bytea NOT NULL,
    seq bigint NOT NULL,
    leaf_hash bytea NOT NULL,
    prev_hash bytea NOT NULL,
    run_id uuid,
    call_id text,
    kind text NOT NULL,
    body bytea NOT NULL,
    CONSTRAINT entry_body_check CHECK (((octet_length(body) >= 2) AND (octet_length(body) <= 65535))),
    CONSTRAINT entry_check CHECK ((leaf_hash = sha256(('\x00'::bytea || body)))),
    CONSTRAINT entry_leaf_hash_check CHECK ((octet_length(leaf_hash) = 32)),
    CONSTRAINT entry_prev_hash_check CHECK ((octet_length(prev_hash) = 32)),
    CONSTRAINT entry_seq_check CHECK ((seq >= 0))
)
PARTITION BY RANGE (seq);


ALTER TABLE ledger.entry_p2 OWNER TO ledger_owner;

--
-- Name: entry_p2_0; Type: TABLE; Schema: ledger; Owner: ledger_owner
--

CREATE TABLE ledger.entry_p2_0 (
    chain_id bytea NOT NULL,
    seq bigint NOT NULL,
    leaf_hash bytea NOT NULL,
    prev_hash bytea NOT NULL,
    run_id uuid,
    call_id text,
    kind text NOT NULL,
    body bytea NOT NULL,
    CONSTRAINT entry_body_check CHECK (((octet_length(body) >= 2) AND (octet_length(body) <= 65535))),
    CONSTRAINT entry_check CHECK ((leaf_hash = sha256(('\x00'::bytea || body)))),
    CONSTRAINT entry_leaf_hash_check CHECK ((octet_length(leaf_hash) = 32)),
    CONSTRAINT entry_prev_hash_check CHECK ((octet_length(prev_hash) = 32)),
    CONSTRAINT entry_seq_check CHECK ((seq >= 0))
);


ALTER TABLE ledger.entry_p2_0 OWNER TO ledger_owner;

--
-- Name: entry_p3; Type: TABLE; Schema: ledger; Owner: ledger_owner
--

CREATE TABLE ledger.entry_p3 (
    chain_id bytea NOT NULL,
    seq bigint NOT NULL,
    leaf_hash bytea NOT NULL,
    prev_hash bytea NOT NULL,
    run_id uuid,
    call_id text,
    kind text NOT NULL,
    body bytea NOT NULL,
    CONSTRAINT entry_body_check CHECK (((octet_length(body) >= 2) AND (octet_length(body) <= 65535))),
    CONSTRAINT entry_check CHECK ((leaf_hash = sha256(('\x00'::bytea || body)))),
    CONSTRAINT entry_leaf_hash_check CHECK ((octet_length(leaf_hash) = 32)),
    CONSTRAINT entry_prev_hash_check CHECK ((octet_length(prev_hash) = 32)),
    CONSTRAINT entry_seq_check CHECK ((seq >= 0))
)
PARTITION BY RANGE (seq);


ALTER TABLE ledger.entry_p3 OWNER TO ledger_owner;

--
-- Name: entry_p3_0; Type: TABLE; Schema: ledger; Owner: ledger_owner
--

CREATE TABLE ledger.entry_p3_0 (
    chain_id bytea NOT NULL,
    seq bigint NOT NULL,
    leaf_hash bytea NOT NULL,
    prev_hash bytea NOT NULL,
    run_id uuid,
    call_id text,
    kind text NOT NULL,
    body bytea NOT NULL,
    CONSTRAINT entry_body_check CHECK (((octet_length(body) >= 2) AND (octet_length(body) <= 65535))),
    CONSTRAINT entry_check CHECK ((leaf_hash = sha256(('\x00'::bytea || body)))),
    CONSTRAINT entry_leaf_hash_check CHECK ((octet_length(leaf_hash) = 32)),
    CONSTRAINT entry_prev_hash_check CHECK ((octet_length(prev_hash) = 32)),
    CONSTRAINT entry_seq_check CHECK ((seq >= 0))
);


ALTER TABLE ledger.entry_p3_0 OWNER TO ledger_owner;

--
-- Name: fleet_said; Type: TABLE; Schema: ledger; Owner: ledger_owner
--

CREATE TABLE ledger.fleet_said (
    tenant_id text NOT NULL,
    log text NOT NULL,
    kind text NOT NULL,
    chain_id bytea NOT NULL,
    seq bigint NOT NULL
);


ALTER TABLE ledger.fleet_said OWNER TO ledger_owner;

--
-- Name: open_run; Type: TABLE; Schema: ledger; Owner: ledger_owner
--

CREATE TABLE ledger.open_run (
    chain_id bytea NOT NULL,
    run_id uuid NOT NULL
);


ALTER TABLE ledger.open_run OWNER TO ledger_owner;

--
-- Name: pool_gate; Type: TABLE; Schema: ledger; Owner: ledger_owner
--

CREATE TABLE ledger.pool_gate (
    tenant_id text NOT NULL,
    pool text NOT NULL,
    starts bigint NOT NULL,
    holder text NOT NULL,
    serial bigint NOT NULL,
    granted bigint NOT NULL,
    CONSTRAINT pool_gate_granted_check CHECK ((granted >= 0))
);


ALTER TABLE ledger.pool_gate OWNER TO ledger_owner;

--
-- Name: pool_hold; Type: TABLE; Schema: ledger; Owner: ledger_owner
--

CREATE TABLE ledger.pool_hold (
    tenant_id text NOT NULL,
    pool text NOT NULL,
    holder text NOT NULL,
    units bigint NOT NULL,
    until timestamp with time zone NOT NULL,
    CONSTRAINT pool_hold_units_check CHECK ((units > 0))
);


ALTER TABLE ledger.pool_hold OWNER TO ledger_owner;

--
-- Name: pool_window; Type: TABLE; Schema: ledger; Owner: ledger_owner
--

CREATE TABLE ledger.pool_window (
    tenant_id text NOT NULL,
    pool text NOT NULL,
    starts bigint NOT NULL,
    leased bigint NOT NULL,
    CONSTRAINT pool_window_leased_check CHECK ((leased >= 0))
);


ALTER TABLE ledger.pool_window OWNER TO ledger_owner;

--
-- Name: pruned; Type: TABLE; Schema: ledger; Owner: ledger_owner
--

CREATE TABLE ledger.pruned (
    chain_id bytea NOT NULL,
    low bigint NOT NULL,
    high bigint NOT NULL,
    fleet_chain bytea NOT NULL,
    fleet_seq bigint NOT NULL,
    CONSTRAINT pruned_check CHECK ((high > low)),
    CONSTRAINT pruned_low_check CHECK ((low >= 0))
);


ALTER TABLE ledger.pruned OWNER TO ledger_owner;

--
-- Name: reader_tenant; Type: TABLE; Schema: ledger; Owner: ledger_owner
--

CREATE TABLE ledger.reader_tenant (
    role name NOT NULL,
    tenant text
);


ALTER TABLE ledger.reader_tenant OWNER TO ledger_owner;

--
-- Name: schema_version; Type: TABLE; Schema: ledger; Owner: ledger_owner
--

CREATE TABLE ledger.schema_version (
    version integer NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL
);


ALTER TABLE ledger.schema_version OWNER TO ledger_owner;

--
-- Name: subtree; Type: TABLE; Schema: ledger; Owner: ledger_owner
--

CREATE TABLE ledger.subtree (
    chain_id bytea NOT NULL,
    height integer NOT NULL,
    idx bigint NOT NULL,
    hash bytea NOT NULL,
    CONSTRAINT subtree_hash_check CHECK ((octet_length(hash) = 32)),
    CONSTRAINT subtree_idx_check CHECK ((idx >= 0))
);


ALTER TABLE ledger.subtree OWNER TO ledger_owner;

--
-- Name: writer_tenant; Type: TABLE; Schema: ledger; Owner: ledger_owner
--

CREATE TABLE ledger.writer_tenant (
    role name NOT NULL,
    tenant text NOT NULL
);


ALTER TABLE ledger.writer_tenant OWNER TO ledger_owner;

--
-- Name: entry_p0; Type: TABLE ATTACH; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ONLY ledger.entry ATTACH PARTITION ledger.entry_p0 FOR VALUES WITH (modulus 4, remainder 0);


--
-- Name: entry_p0_0; Type: TABLE ATTACH; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ONLY ledger.entry_p0 ATTACH PARTITION ledger.entry_p0_0 FOR VALUES FROM ('0') TO ('262144');


--
-- Name: entry_p1; Type: TABLE ATTACH; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ONLY ledger.entry ATTACH PARTITION ledger.entry_p1 FOR VALUES WITH (modulus 4, remainder 1);


--
-- Name: entry_p1_0; Type: TABLE ATTACH; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ONLY ledger.entry_p1 ATTACH PARTITION ledger.entry_p1_0 FOR VALUES FROM ('0') TO ('262144');


--
-- Name: entry_p2; Type: TABLE ATTACH; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ONLY ledger.entry ATTACH PARTITION ledger.entry_p2 FOR VALUES WITH (modulus 4, remainder 2);


--
-- Name: entry_p2_0; Type: TABLE ATTACH; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ONLY ledger.entry_p2 ATTACH PARTITION ledger.entry_p2_0 FOR VALUES FROM ('0') TO ('262144');


--
-- Name: entry_p3; Type: TABLE ATTACH; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ONLY ledger.entry ATTACH PARTITION ledger.entry_p3 FOR VALUES WITH (modulus 4, remainder 3);


--
-- Name: entry_p3_0; Type: TABLE ATTACH; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ONLY ledger.entry_p3 ATTACH PARTITION ledger.entry_p3_0 FOR VALUES FROM ('0') TO ('262144');


--
-- Data for Name: anchor; Type: TABLE DATA; Schema: ledger; Owner: ledger_owner
--



--
-- Data for Name: chain; Type: TABLE DATA; Schema: ledger; Owner: ledger_owner
--

INSERT INTO ledger.chain VALUES
	('\xee962ba90300d05b094469ed4743a3fa', 'default', 'local', 0, 'wicketgate.dev/default/local/0/0', '2026-11-23 09:42:27.538322+00', 0, false),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', 'default', 'local', 1, 'wicketgate.dev/default/local/1/0', '2026-11-23 09:42:28.142329+00', 0, false);


--
-- Data for Name: checkpoint; Type: TABLE DATA; Schema: ledger; Owner: ledger_owner
--

INSERT INTO ledger.checkpoint VALUES
	('\xee962ba90300d05b094469ed4743a3fa', 2, 1, 'wicketgate.dev/default/local/0/0
2
zNalIRwUYqKx4I7hjoMvEqg5NhUaz130jW8Vqt/DMmA=

— wicketgate.dev/default/local/0/0 0hIEi26kHvZz+cnFczFysElj51N+ktaXMoXDPYI0HVSWW0aJf83JHL1JTkZ2O2/KL6PNqgZEC7M7LdZiK1RxZsNMsws=
'),
	('\xee962ba90300d05b094469ed4743a3fa', 3, 1, 'wicketgate.dev/default/local/0/0
3
RoacCGzO0V9F1mZiTurlOuU6yOJiXFpT4SteRghAuTY=

— wicketgate.dev/default/local/0/0 0hIEi153J3wJfv6/KKb/xX1w5LoFLnvlCVMctFMH1yNMDlrm0H5ySq0oj8N6oXpf0AkgF785q5hTBzDrKbZlCpu2fgw=
'),
	('\xee962ba90300d05b094469ed4743a3fa', 4, 1, 'wicketgate.dev/default/local/0/0
4
rBV64yTowyqacv8zIOOzA3pudX5cOnU7kueiZ+JNUpA=

— wicketgate.dev/default/local/0/0 0hIEi3mKV+bxcw2ldIt6m9En1WHyxU1cMtXIAIpf5O6m80hE+IqsMlqHtiNbL9mZ5HCmPeyh8CBuQ6wMCOKlS5f59gc=
'),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', 2, 1, 'wicketgate.dev/default/local/1/0
2
lW9XEBa38YCaUlOGr51Nw0fNeq6So8OGWeIo7T1p1Lk=

— wicketgate.dev/default/local/1/0 yEuTFI8LPUpABhk2bXGyq6epyo+E7mrb6uf/sJTuEj7UjedG+bA9MEczaKs2LxDSsJj/fxvX771yTYeOPpusqtCVHwk=
'),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', 3, 1, 'wicketgate.dev/default/local/1/0
3
wzXtnpXPNvTBOeg3/qlwIwgkK9nXtfvnd+LjGC5DLqk=

— wicketgate.dev/default/local/1/0 yEuTFL9BshpVPbpwjX3JKrwsXVjbobIZ24gvHF0Kn7AobaSPTG3wGiy3ccU+9LgDVyNd3WEe60Dn3X0kPjIWALeIOwg=
'),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', 4, 1, 'wicketgate.dev/default/local/1/0
4
8YVuX69AwKFW0aOSpddpDLbYoDcLKq3XphUQX/Tfwes=

— wicketgate.dev/default/local/1/0 yEuTFIV5arG9y+TPxUMua5+/L7C8Q0gAw0CDZwp85WV7ovAnJzIyLMfIfc0EPSDpd1+h8pvuSNvYMI5Y6LGGo//14Q8=
'),
	('\xee962ba90300d05b094469ed4743a3fa', 5, 1, 'wicketgate.dev/default/local/0/0
5
IOdMpLaaztZ7xJoTEJoM+gl7L8EIZlvqjQAH38oZUg8=

— wicketgate.dev/default/local/0/0 0hIEiw/HO7tVxlmVU6TOOxK6ZUW/1/haJi72+hghmPfEtzCZaemhMqQU6AQwRuxt+f8aUGQS8SRm0lvmX6uyfuLIxQ8=
'),
	('\xee962ba90300d05b094469ed4743a3fa', 6, 1, 'wicketgate.dev/default/local/0/0
6
aNu4Ta21D4Ame3pWhcuqKo2+6L2xuTwsjgCrYNcAoOI=

— wicketgate.dev/default/local/0/0 0hIEi4vO7O276wP8ROUOSM9O9lyxohubaGjZNlR3QQvAaTLSIbnxAyMG0Nw+EcTezr7l44vaa1PtUz8Q4xFS+D3dpwU=
'),
	('\xee962ba90300d05b094469ed4743a3fa', 7, 1, 'wicketgate.dev/default/local/0/0
7
OTftAEakqRA4YXP52k3udwqesKBvBqHtHT/93+N8eCk=

— wicketgate.dev/default/local/0/0 0hIEi+FpX/zJReCK/UsjPfGDKV3meJnSTPJSTy9JylYcPNQtQBOEhMVnbJR9+mgdZqwNwMCJ4oQwxAZB74axHmeODgM=
'),
	('\xee962ba90300d05b094469ed4743a3fa', 8, 1, 'wicketgate.dev/default/local/0/0
8
xpaW2fDKK5Pj8aeaAlMPYieInzITHqNsT+coq8onUZQ=

— wicketgate.dev/default/local/0/0 0hIEiy6ea48Q534WtdOwsxwzi5I7uy/QJ6Al96DVe3jWPoHJ0eXdVmbnUux3dknYiDCabdgWoqJIkioowzM7YKa3lAg=
'),
	('\xee962ba90300d05b094469ed4743a3fa', 9, 1, 'wicketgate.dev/default/local/0/0
9
r+jCcP5565oOph0lelRVtRlh0563GonSW/bST8x3wLw=

— wicketgate.dev/default/local/0/0 0hIEizjoh479Q5BWXRdmqCqLv4rjg6+aemNB5xesp3QF3TKljnu2UqM7zB6Sa3oLQisAkInawIUtbImBdJE/hvNtfAk=
'),
	('\xee962ba90300d05b094469ed4743a3fa', 10, 1, 'wicketgate.dev/default/local/0/0
10
T5E9QSzVIECsF/YJ3ei+ZLW4EH/RVhkGoDbIPTt53l0=

— wicketgate.dev/default/local/0/0 0hIEi+meIGP7V+BAHE6XVA9baDwN6YCywz4YqWYS2IboK9kBT6WWmir1erxQ54zn/qkpbtlpu0aKsVDmVE/RnyHH+gs=
'),
	('\xee962ba90300d05b094469ed4743a3fa', 11, 1, 'wicketgate.dev/default/local/0/0
11
6AyshTM9yE5mZhiGDhh3k4Cw5k7ORKObFmaJgRX+JCo=

— wicketgate.dev/default/local/0/0 0hIEi75ia/gLwp0ca1Ya9LWYjiUNwEbmGxo7xyBWunJ2fwWy5S4CmwvSvgjD7yOxAmtvv6b/Tj4jNvq6wf0jPoeG3wM=
'),
	('\xee962ba90300d05b094469ed4743a3fa', 12, 1, 'wicketgate.dev/default/local/0/0
12
bi0YrOyutup4dE4bN4UfOOR8tvtrSEP9vJ1BFBeXXHk=

— wicketgate.dev/default/local/0/0 0hIEi10bHPJptUD34DPi1mscW73uOTQ6ggwZyA/6EYSv0ky9/swBw6R0JtIFE1QGTD1/FsOQH43EWP8MhARW9sXMtgo=
'),
	('\xee962ba90300d05b094469ed4743a3fa', 13, 1, 'wicketgate.dev/default/local/0/0
13
5ZWj7jspoG0BnOi6t0ze47mivb83R/IeZSkxkmOpRbs=

— wicketgate.dev/default/local/0/0 0hIEix2nVmfMzLNxDm1J9e7rjgpaTh+W25ViectI768zp1MZCVYkWxtVsaI4CxhK1EiFZLsrLP48u++G++IRkNUYqgA=
'),
	('\xee962ba90300d05b094469ed4743a3fa', 14, 1, 'wicketgate.dev/default/local/0/0
14
O/ATceR/VRSmIeMJcYJpbO67B074CMN3S0JlT4yusEo=

— wicketgate.dev/default/local/0/0 0hIEi8UsXZwdNfGKtyZQasNEKP6wV1b88yCqRV8BdriTS8qXxrbYnyxe7SYVh5HMwRHASPQU8WvJwffNVeFWbpuhGwc=
'),
	('\xee962ba90300d05b094469ed4743a3fa', 15, 1, 'wicketgate.dev/default/local/0/0
15
AibR4G2kVoKk5PfSLiYe6ji5jikdnvCrpdjEX6r1U/o=

— wicketgate.dev/default/local/0/0 0hIEi7KsPBEcb6QkptIigSB1Yi1JtPxDGum8+Ga3naBIRMhVkOKmDiWkCJjE0Mcn2vUt7WyFgVPiwyqkx81oFZFgXgw=
'),
	('\xee962ba90300d05b094469ed4743a3fa', 16, 1, 'wicketgate.dev/default/local/0/0
16
shf72p5vnKKExK7MGIJPNcArxzPhKv6HfAgstusWQPs=

— wicketgate.dev/default/local/0/0 0hIEi4ItWWV0Pqkpdfv0HBIL+biMfGbstlkrvlQ1rDT4BD/8gpm0qv2DWvuOy+bPdPXbqhjIaUagW6wZ/664N74aywY=
'),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', 5, 1, 'wicketgate.dev/default/local/1/0
5
zwfggBUejpqfrE/WRVbAMoS3NUs3+vt+iIUwCfGtj/8=

— wicketgate.dev/default/local/1/0 yEuTFLbhDWJWqiOmj0w5Sg2zEVuOrsY2xjKgiCJn0zcr1vk/bW1czbGto6/vTuX0LKX17/6KuoXehsTAhKlcmjhtyAs=
'),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', 6, 1, 'wicketgate.dev/default/local/1/0
6
luA6qLy0IlREdT12Hl2SmQg9NZVrZv8GPwwsDyiAMlo=

— wicketgate.dev/default/local/1/0 yEuTFC/r4jqd1rvVMTIn2I0/5oINw3WNMfxTXTW4BZtRhrP4l58CE32Y1Z9EPOGio1mV4XoCKJkGBhd55ggfON4WHgc=
'),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', 7, 1, 'wicketgate.dev/default/local/1/0
7
nZISU4vt2SiGdqP+a0DzNBDTXXMbYp2YKjo0GOJpd5A=

— wicketgate.dev/default/local/1/0 yEuTFG+wAYJbt27q4Dz5Wcz9vbgD4WvQGSxUpS/mAzx5nrL0GcJGEome8i0Ei8MvE4owESMpJwNARY5WSmtYmMftvgc=
'),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', 8, 1, 'wicketgate.dev/default/local/1/0
8
ijzcxtsVfr6tt90iLkQ5LABDtGa3UA3nX1Gz/7PYJYY=

— wicketgate.dev/default/local/1/0 yEuTFPTepqtIXADqZiPtqskE/yAUBG32lEqtwgNMgU05uNA90W3YXCS/VJ6B5XqptLZ9BK62r0OvDelFN5qqEDFTrwY=
'),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', 9, 1, 'wicketgate.dev/default/local/1/0
9
1XCo8D89ly4B7k+6tM5+zIhRuB7JuaZbi/U7wbYG0cM=

— wicketgate.dev/default/local/1/0 yEuTFCB54GeuBFMquE+5qh90ocZ4CfRLdsJHSwuHUOIwtXsgqJUmph0VMdvZ3T54Zya7yJ8FXic6/xmx8z0sIZ18eQI=
'),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', 10, 1, 'wicketgate.dev/default/local/1/0
10
SozhnMzi3HemgI9ixzTn/xZ6hDmmMryfiyt9wfCsVIE=

— wicketgate.dev/default/local/1/0 yEuTFCfBzXZrdIbKaHgaV7CdWW7U+NbNUC44JcF4ebvjyH7aq6y7co5vEH8xlrUUjiaOLFB3pgKYvXz61EiQd+Riygo=
'),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', 11, 1, 'wicketgate.dev/default/local/1/0
11
Ko4juNk5nlOi2XRxhXcu5FgstgL/HxwR5KSkjd+oW68=

— wicketgate.dev/default/local/1/0 yEuTFMeAeBFeD6hh6rtEbfYiZziXSjJoE+TgyHwnKTH/HJSrS2rc1MufbEDoB45hWO2oWJ1bVG7I+NtqMULClgwS9QI=
'),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', 12, 1, 'wicketgate.dev/default/local/1/0
12
IGK5oo92RlDJucohDx2N3vMwSsVrofW17avPOlEsRv4=

— wicketgate.dev/default/local/1/0 yEuTFJmJ909B1HxkKC0uEBXqYYxn+NTfYHdLtrqQ5W37ge3twokxOjaURBDJ/lYN9ZGmfT9D9cFJDC4ZxLSk7MoD+g8=
'),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', 13, 1, 'wicketgate.dev/default/local/1/0
13
45iwOiWwPJA+W6S2j503bQxETi9Z/lz5mrVewoY0NEA=

— wicketgate.dev/default/local/1/0 yEuTFJBOMcG392zY/sJmXXjDdy+m+k79YsRVZIg07N28o2ONVcqM0ksDyeA65hYIDCs8IgLP1RG64eR44dSJlApHdAc=
'),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', 14, 1, 'wicketgate.dev/default/local/1/0
14
I4h7p8gig9bnU/Gml8eEb+dyL3Vfk1ZtudM8osnu3T4=

— wicketgate.dev/default/local/1/0 yEuTFL/oqpNNU5zOnnEaJKZ3Tgfua3SZmcCOJYVOIys0/3pRx1dus7oWYLhun0btkSezdsAYrMhyptgXIkhCp1BH+AE=
'),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', 15, 1, 'wicketgate.dev/default/local/1/0
15
0CPJ0dbfSgwm2kYgiZOkBxw0hn/SZKA72+BHEBTGYPo=

— wicketgate.dev/default/local/1/0 yEuTFJmLJ2Y68LlvJtrbY9BM9L4Uq1UntZo8BHoIJp8LVS+Kw/OCIYWRMyEGazGMulY1qMImETIgeAGBr9TNZKjELA4=
'),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', 16, 1, 'wicketgate.dev/default/local/1/0
16
R6p3QZotpkLNyLi8qJ876p/OfTrkOwPvnonhOOtkoL0=

— wicketgate.dev/default/local/1/0 yEuTFCktDfdmyjInIOos/ZpfjKqC1MY+tNOGe6FWPUM8DPt9DGBXJ6yuUCsKd8OHP8y8gr9zJExhUGbgHfAIQwYvtg4=
'),
	('\xee962ba90300d05b094469ed4743a3fa', 17, 1, 'wicketgate.dev/default/local/0/0
17
eAaBvrxyiwaV6Y9iO0Gg/Tltg95l1LtrJwCYO0C9wlg=

— wicketgate.dev/default/local/0/0 0hIEi+nY+7U44uGSeN+k+KiWHVbhyYi538+7v3IGHGjTv0tVAsZiHbObU38wj3I6t8PmmwUXkQdjZcuDIgPqriErPwc=
');


--
-- Data for Name: control_head; Type: TABLE DATA; Schema: ledger; Owner: ledger_owner
--



--
-- Data for Name: control_presence; Type: TABLE DATA; Schema: ledger; Owner: ledger_owner
--

INSERT INTO ledger.control_presence VALUES
	('default', 'wicketgate.dev/default/local/1/0', 'vm/30744', 1795426959529, 0, '{"held":0,"in_flight":0,"notes":[],"open_runs":1,"ready":true,"reasons":[]}'),
	('default', 'wicketgate.dev/default/local/0/0', 'vm/30729', 1795426959863, 0, '{"ended":true}');


--
-- Data for Name: control_report; Type: TABLE DATA; Schema: ledger; Owner: ledger_owner
--



--
-- Data for Name: control_row; Type: TABLE DATA; Schema: ledger; Owner: ledger_owner
--



--
-- Data for Name: entry_p0_0; Type: TABLE DATA; Schema: ledger; Owner: ledger_owner
--

INSERT INTO ledger.entry_p0_0 VALUES
	('\xee962ba90300d05b094469ed4743a3fa', 0, '\x2bbe206a3741d7aacd51991e7ed3e3511e151809c2dd3e69dfb563c33a17c8e9', '\x8ac51e029071f6d2242af9fe1b65b4be1f1c1946e99877cde82de3b661f57831', NULL, NULL, 'chain.genesis', '\x7b22626f6f74223a223535316533383631222c22636861696e223a226565393632626139303330306430356230393434363965643437343361336661222c2264617461223a7b22656e726f6c6d656e745f6b6579223a224d55494c563577355234464e43465944734374694e6f6f356f716279356974724744383535476b486a6f343d222c226f726967696e223a227769636b6574676174652e6465762f64656661756c742f6c6f63616c2f302f30227d2c2265706f6368223a312c226b696e64223a22636861696e2e67656e65736973222c226d6f6e6f223a22313431373130222c2270726576223a2238616335316530323930373166366432323432616639666531623635623462653166316331393436653939383737636465383264653362363631663537383331222c22736571223a302c227473223a22323032362d31312d32335430393a34323a32372e3538345a222c2276223a227769636b6574676174652f656e7472792f31227d'),
	('\xee962ba90300d05b094469ed4743a3fa', 1, '\xb99029bc6d2a94609110fa2f3b2a79bc220d3825bfac484c7d77af99b4cf3c1f', '\x2bbe206a3741d7aacd51991e7ed3e3511e151809c2dd3e69dfb563c33a17c8e9', NULL, NULL, 'writer.started', '\x7b22626f6f74223a223535316533383631222c22636861696e223a226565393632626139303330306430356230393434363965643437343361336661222c2264617461223a7b226365727469666963617465223a7b22626f6479223a2265794a6c6347396a614349364d537769615731685a3256665a476c6e5a584e30496a6f69626d39755a534973496d746c65534936496a6879626c68464e324a7a656b6834636e4e45576e417a613231495a6b4e4d4e48564d526b39695a30644a4d4851335a45396d574770555745303949697769626d39305832466d64475679496a6f694d6a41794e7930774d6930794d5651774f546f304d6a6f794e7934314f444261496977696347396b496a6f69646d30694c434a7a62473930496a6f696247396a595777764d434a39222c226b65796964223a2239393761323131316633636531313936613234373931343437666664396638343663366534623634376238333332653566646439303839623062616635356633222c22736967223a224e684d6d4155673968737662534b562f7333614e78632f4238366b3761664d64507242317775374d6f65534b622f7866796433585243726c362f51332f55423478784961413376392f42384d506a674b4c69653643413d3d227d2c22696d616765223a226e6f6e65222c22706f64223a22766d222c22707265765f65706f6368223a302c22726561736f6e223a226e6577222c2273657474696e6773223a5b7b226b223a22656e67696e65222c2276223a22706f737467726573227d2c7b226b223a2273706f6f6c222c2276223a226f6e227d2c7b226b223a226163636570745f6661696c6f7665725f6c6f7373222c2276223a2266616c7365227d2c7b226b223a226865617274626561745f6d73222c2276223a223130303030227d2c7b226b223a226673796e63222c2276223a226f6e227d2c7b226b223a2266756c6c5f706167655f777269746573222c2276223a226f6e227d2c7b226b223a226c6f675f6d696e5f6572726f725f73746174656d656e74222c2276223a2270616e6963227d2c7b226b223a227365727665725f656e636f64696e67222c2276223a2255544638227d2c7b226b223a227365727665725f76657273696f6e5f6e756d222c2276223a22313530303138227d2c7b226b223a2273796e6368726f6e6f75735f636f6d6d6974222c2276223a226f6e227d2c7b226b223a2273796e6368726f6e6f75735f7374616e6462795f6e616d6573222c2276223a22227d2c7b226b223a227472616e73616374696f6e5f726561645f6f6e6c79222c2276223a226f6666227d5d2c2276657273696f6e223a22302e312e30222c2277617465726d61726b5f726f6f74223a22222c2277617465726d61726b5f73697a65223a302c227772697465725f6b6579223a2238726e58453762737a48787273445a70336b6d4866434c34754c464f62674749307437644f66586a54584d3d227d2c2265706f6368223a312c226b696e64223a227772697465722e73746172746564222c226d6f6e6f223a22313431373832222c2270726576223a2232626265323036613337343164376161636435313939316537656433653335313165313531383039633264643365363964666235363363333361313763386539222c22736571223a312c227473223a22323032362d31312d32335430393a34323a32372e3538345a222c2276223a227769636b6574676174652f656e7472792f31227d'),
	('\xee962ba90300d05b094469ed4743a3fa', 2, '\xbb63d469f9e00a0908ed93ce4d6cb19f6bb6f8909de5f0716ec72fa5109ca3a6', '\xb99029bc6d2a94609110fa2f3b2a79bc220d3825bfac484c7d77af99b4cf3c1f', NULL, NULL, 'manifest.bound', '\x7b22626f6f74223a223535316533383631222c22636861696e223a226565393632626139303330306430356230393434363965643437343361336661222c2264617461223a7b226167656e74223a22746573742d6167656e74222c2262696e64696e67223a22636c61696d6564222c22646967657374223a227368613235363a65666436636261663434383234623231386162343639663730613065346432623063353930356563303838363438376164663963393037636663626637363265222c2276657273696f6e223a22312e302e30227d2c2265706f6368223a312c226b696e64223a226d616e69666573742e626f756e64222c226d6f6e6f223a22313537373335222c2270726576223a2262393930323962633664326139343630393131306661326633623261373962633232306433383235626661633438346337643737616639396234636633633166222c22736571223a322c227473223a22323032362d31312d32335430393a34323a32372e3630305a222c2276223a227769636b6574676174652f656e7472792f31227d'),
	('\xee962ba90300d05b094469ed4743a3fa', 3, '\xb3cb56371352a5f38030c35fc9f7be7dc478dac0518727007af13ecdf531a450', '\xbb63d469f9e00a0908ed93ce4d6cb19f6bb6f8909de5f0716ec72fa5109ca3a6', NULL, NULL, 'policy.activated', '\x7b22626f6f74223a223535316533383631222c22636861696e223a226565393632626139303330306430356230393434363965643437343361336661222c2264617461223a7b226c6179657273223a5b7b22646967657374223a227368613235363a33363734656162326166373233363335656231353133363563386361646139396536393436303465663066666239316133373465316635643964633938386664222c226c61796572223a226c6962227d2c7b22646967657374223a227368613235363a62363439383139313938306266643736353362303133353564613037613731643834666136373164316436323336363130333236613737363833386563643833222c226c61796572223a226167656e74227d5d2c226e616d65223a2274657374222c2276657273696f6e223a22312e302e30227d2c2265706f6368223a312c226b696e64223a22706f6c6963792e616374697661746564222c226d6f6e6f223a22333334333332222c22706f6c696379223a227368613235363a65356134353632393861373831636266343165366165373634653934373537366665633433303634383564313763636665663732616630613831393839373635222c2270726576223a2262623633643436396639653030613039303865643933636534643663623139663662623666383930396465356630373136656337326661353130396361336136222c22736571223a332c227473223a22323032362d31312d32335430393a34323a32372e3737365a222c2276223a227769636b6574676174652f656e7472792f31227d'),
	('\xee962ba90300d05b094469ed4743a3fa', 4, '\xa237dd021ea09c340a5a038c4bc0d281cbfbb31cf0f80be1cfe7e06721ffcabc', '\xb3cb56371352a5f38030c35fc9f7be7dc478dac0518727007af13ecdf531a450', '726f54b8-bf70-4354-9063-7d4af7ccbb3e', NULL, 'run.opened', '\x7b22626f6f74223a223535316533383631222c22636861696e223a226565393632626139303330306430356230393434363965643437343361336661222c2264617461223a7b226167656e74223a22746573742d6167656e74222c2261757468223a7b226d6574686f64223a22756473222c22756964223a307d2c2262696e64696e67223a22636c61696d6564222c22696e737472756374696f6e73223a5b2261626162616261626162616261626162616261626162616261626162616261626162616261626162616261626162616261626162616261626162616261626162225d2c226c6162656c73223a5b5d2c226d616e6966657374223a227368613235363a65666436636261663434383234623231386162343639663730613065346432623063353930356563303838363438376164663963393037636663626637363265222c226d6f6465223a22656e666f726365222c226d6f64656c223a22746573742d6d6f64656c222c22746f6b656e5f68617368223a2237616261353835323461626262376435333864323931613263383735333637353232656263383339383865636561643837363661323562306537343535383166222c2276657273696f6e223a22312e302e30227d2c2265706f6368223a312c226b696e64223a2272756e2e6f70656e6564222c226d6f6e6f223a2231343834393739222c2270726576223a2262336362353633373133353261356633383033306333356663396637626537646334373864616330353138373237303037616631336563646635333161343530222c2272756e223a2237323666353462382d626637302d343335342d393036332d376434616637636362623365222c2272756e5f736571223a302c22736571223a342c227473223a22323032362d31312d32335430393a34323a32382e3933345a222c2276223a227769636b6574676174652f656e7472792f31227d'),
	('\xee962ba90300d05b094469ed4743a3fa', 5, '\x9c6a218fe55b6dc45c1c33020c9145cb192fdf97918169a2cd4b0de490e35235', '\xa237dd021ea09c340a5a038c4bc0d281cbfbb31cf0f80be1cfe7e06721ffcabc', '726f54b8-bf70-4354-9063-7d4af7ccbb3e', 'c0', 'call.authorized', '\x7b22626f6f74223a223535316533383631222c2263616c6c223a226330222c22636861696e223a226565393632626139303330306430356230393434363965643437343361336661222c22636f6d6d6974223a5b7b2263223a2265326235353063613139313235363937626462363864393130653464643461633662353233383038383265353366323364393161636539343032363231346332222c226c656e223a372c22726f6c65223a2261726773227d2c7b2263223a2262636537653537663634653831623262323737376337363939336331393534663633333735623734383136653633363835646337363236323730376166343239222c226c656e223a313033362c22726f6c65223a22706f6c6963795f696e707574227d5d2c2264617461223a7b226166746572223a302c2261757468223a7b226d6574686f64223a22756473222c22756964223a307d2c2262696e64696e67223a22636c61696d6564222c2263616c6c5f646967657374223a2230336537626162353566383164626638643266383236356437343562633961363831373231613039313765303731653839386665326635663266653837616164222c22646566696e6974696f6e223a227368613235363a65376436363963663831393738313266373866373064346436336132383463303464326538613937383930323864303336343335613536343466363138643663222c22656666656374223a2262383430396136386366306164303464636463646639306633323966303631663162316136646363333962633664636161616365303065343031666561336634222c22656e666f72636564223a747275652c22656e67696e65223a227265676f7275732f302e31342e312b73746f636b2e31222c226578656375746f72223a2273696465636172222c226c6179657273223a5b7b22646967657374223a227368613235363a33363734656162326166373233363335656231353133363563386361646139396536393436303465663066666239316133373465316635643964633938386664222c226c61796572223a226c6962227d2c7b22646967657374223a227368613235363a62363439383139313938306266643736353362303133353564613037613731643834666136373164316436323336363130333236613737363833386563643833222c226c61796572223a226167656e74227d5d2c226f626c69676174696f6e73223a5b5d2c22726561736f6e73223a5b5d2c2274696572223a225431227d2c2265706f6368223a312c226b696e64223a2263616c6c2e617574686f72697a6564222c226d6f6e6f223a2232323131343237222c22706f6c696379223a227368613235363a65356134353632393861373831636266343165366165373634653934373537366665633433303634383564313763636665663732616630613831393839373635222c2270726576223a2261323337646430323165613039633334306135613033386334626330643238316362666262333163663066383062653163666537653036373231666663616263222c2272756e223a2237323666353462382d626637302d343335342d393036332d376434616637636362623365222c2272756e5f70726576223a2261323337646430323165613039633334306135613033386334626330643238316362666262333163663066383062653163666537653036373231666663616263222c2272756e5f736571223a312c22736571223a352c22746f6f6c223a22776f726b2e646f222c227473223a22323032362d31312d32335430393a34323a32392e3635345a222c2276223a227769636b6574676174652f656e7472792f31222c2276657264696374223a22616c6c6f77227d'),
	('\xee962ba90300d05b094469ed4743a3fa', 6, '\x159f45d73d965e7a9209e9118cd63de6137be9540dcf648c1d317093c6b81848', '\x9c6a218fe55b6dc45c1c33020c9145cb192fdf97918169a2cd4b0de490e35235', '726f54b8-bf70-4354-9063-7d4af7ccbb3e', 'c0', 'call.completed', '\x7b22626f6f74223a223535316533383631222c2263616c6c223a226330222c22636861696e223a226565393632626139303330306430356230393434363965643437343361336661222c22636f6d6d6974223a5b7b2263223a2262323938323366626262326635313939383137646535383432313262626233646665613535383032653534666335393433396364653266326332343165643461222c226c656e223a36392c22726f6c65223a22726573756c74227d5d2c2264617461223a7b22617474656d707473223a312c22737461747573223a22323030222c227573223a383532317d2c2265706f6368223a312c226b696e64223a2263616c6c2e636f6d706c65746564222c226d6f6e6f223a2232323337343137222c2270726576223a2239633661323138666535356236646334356331633333303230633931343563623139326664663937393138313639613263643462306465343930653335323335222c2272756e223a2237323666353462382d626637302d343335342d393036332d376434616637636362623365222c2272756e5f70726576223a2239633661323138666535356236646334356331633333303230633931343563623139326664663937393138313639613263643462306465343930653335323335222c2272756e5f736571223a322c22736571223a362c22746f6f6c223a22776f726b2e646f222c227473223a22323032362d31312d32335430393a34323a32392e3638305a222c2276223a227769636b6574676174652f656e7472792f31227d'),
	('\xee962ba90300d05b094469ed4743a3fa', 7, '\xf7eada869e88c6892c420b22439ff57a26c132463b31994da2cb38c132e04f59', '\x159f45d73d965e7a9209e9118cd63de6137be9540dcf648c1d317093c6b81848', '726f54b8-bf70-4354-9063-7d4af7ccbb3e', 'c1', 'call.authorized', '\x7b22626f6f74223a223535316533383631222c2263616c6c223a226331222c22636861696e223a226565393632626139303330306430356230393434363965643437343361336661222c22636f6d6d6974223a5b7b2263223a2232383965666135333361396265623630653639313930366665313539396633633338646438313331616562393733396331373765376230376533363664663665222c226c656e223a372c22726f6c65223a2261726773227d2c7b2263223a2234643338623239323761643238303037663331613237373863616236646338313265666566616565356538373465343239356365633935393863333137346334222c226c656e223a313033362c22726f6c65223a22706f6c6963795f696e707574227d5d2c2264617461223a7b226166746572223a322c2261757468223a7b226d6574686f64223a22756473222c22756964223a307d2c2262696e64696e67223a22636c61696d6564222c2263616c6c5f646967657374223a2266396438613561383462373462636665303431333030653333316461653331306263353336303061326563653134366662393063623634366237616531646539222c22646566696e6974696f6e223a227368613235363a65376436363963663831393738313266373866373064346436336132383463303464326538613937383930323864303336343335613536343466363138643663222c22656666656374223a2235303663333230333064396264633263373565653938323333633231333930643636643834343230663662626238396631626333653730393231646639393336222c22656e666f72636564223a747275652c22656e67696e65223a227265676f7275732f302e31342e312b73746f636b2e31222c226578656375746f72223a2273696465636172222c226c6179657273223a5b7b22646967657374223a227368613235363a33363734656162326166373233363335656231353133363563386361646139396536393436303465663066666239316133373465316635643964633938386664222c226c61796572223a226c6962227d2c7b22646967657374223a227368613235363a62363439383139313938306266643736353362303133353564613037613731643834666136373164316436323336363130333236613737363833386563643833222c226c61796572223a226167656e74227d5d2c226f626c69676174696f6e73223a5b5d2c22726561736f6e73223a5b5d2c2274696572223a225431227d2c2265706f6368223a312c226b696e64223a2263616c6c2e617574686f72697a6564222c226d6f6e6f223a2233323833333436222c22706f6c696379223a227368613235363a65356134353632393861373831636266343165366165373634653934373537366665633433303634383564313763636665663732616630613831393839373635222c2270726576223a2231353966343564373364393635653761393230396539313138636436336465363133376265393534306463663634386331643331373039336336623831383438222c2272756e223a2237323666353462382d626637302d343335342d393036332d376434616637636362623365222c2272756e5f70726576223a2231353966343564373364393635653761393230396539313138636436336465363133376265393534306463663634386331643331373039336336623831383438222c2272756e5f736571223a332c22736571223a372c22746f6f6c223a22776f726b2e646f222c227473223a22323032362d31312d32335430393a34323a33302e3732355a222c2276223a227769636b6574676174652f656e7472792f31222c2276657264696374223a22616c6c6f77227d'),
	('\xee962ba90300d05b094469ed4743a3fa', 8, '\x8b2c916a4ec685a66584a3ad7cb14fbe909475cc26cb07d9690eedea24d20057', '\xf7eada869e88c6892c420b22439ff57a26c132463b31994da2cb38c132e04f59', '726f54b8-bf70-4354-9063-7d4af7ccbb3e', 'c1', 'call.completed', '\x7b22626f6f74223a223535316533383631222c2263616c6c223a226331222c22636861696e223a226565393632626139303330306430356230393434363965643437343361336661222c22636f6d6d6974223a5b7b2263223a2263626163633436313535363662303438653335393534636231396334366337323963323763663361316639373035636564343137366335636638343764616564222c226c656e223a36392c22726f6c65223a22726573756c74227d5d2c2264617461223a7b22617474656d707473223a312c22737461747573223a22323030222c227573223a31303535327d2c2265706f6368223a312c226b696e64223a2263616c6c2e636f6d706c65746564222c226d6f6e6f223a2233333131383435222c2270726576223a2266376561646138363965383863363839326334323062323234333966663537613236633133323436336233313939346461326362333863313332653034663539222c2272756e223a2237323666353462382d626637302d343335342d393036332d376434616637636362623365222c2272756e5f70726576223a2266376561646138363965383863363839326334323062323234333966663537613236633133323436336233313939346461326362333863313332653034663539222c2272756e5f736571223a342c22736571223a382c22746f6f6c223a22776f726b2e646f222c227473223a22323032362d31312d32335430393a34323a33302e3735345a222c2276223a227769636b6574676174652f656e7472792f31227d'),
	('\xee962ba90300d05b094469ed4743a3fa', 9, '\x2dbe56497f67db62093fffc6e322386ff3a6b149da1176463f77009c26b84802', '\x8b2c916a4ec685a66584a3ad7cb14fbe909475cc26cb07d9690eedea24d20057', '726f54b8-bf70-4354-9063-7d4af7ccbb3e', 'c2', 'call.authorized', '\x7b22626f6f74223a223535316533383631222c2263616c6c223a226332222c22636861696e223a226565393632626139303330306430356230393434363965643437343361336661222c22636f6d6d6974223a5b7b2263223a2262333831626364383065613635666562383866383031623937666330323737343663306337383430636535353264383438643135613562383563613062356235222c226c656e223a372c22726f6c65223a2261726773227d2c7b2263223a2238643439343765303231343565343038316264373264343336666266636530653639386266643766333761353238383734346662386133343736386564343364222c226c656e223a313033362c22726f6c65223a22706f6c6963795f696e707574227d5d2c2264617461223a7b226166746572223a342c2261757468223a7b226d6574686f64223a22756473222c22756964223a307d2c2262696e64696e67223a22636c61696d6564222c2263616c6c5f646967657374223a2261653331383533383139623363356134346430336335613338366362613161653437303634333738376265313331356337333633346564373331616536633433222c22646566696e6974696f6e223a227368613235363a65376436363963663831393738313266373866373064346436336132383463303464326538613937383930323864303336343335613536343466363138643663222c22656666656374223a2262343135656137613338353434636139373335626232623461353934396164353161383931366139643533343031663462326364623634363738353832366330222c22656e666f72636564223a747275652c22656e67696e65223a227265676f7275732f302e31342e312b73746f636b2e31222c226578656375746f72223a2273696465636172222c226c6179657273223a5b7b22646967657374223a227368613235363a33363734656162326166373233363335656231353133363563386361646139396536393436303465663066666239316133373465316635643964633938386664222c226c61796572223a226c6962227d2c7b22646967657374223a227368613235363a62363439383139313938306266643736353362303133353564613037613731643834666136373164316436323336363130333236613737363833386563643833222c226c61796572223a226167656e74227d5d2c226f626c69676174696f6e73223a5b5d2c22726561736f6e73223a5b5d2c2274696572223a225431227d2c2265706f6368223a312c226b696e64223a2263616c6c2e617574686f72697a6564222c226d6f6e6f223a2233393730313138222c22706f6c696379223a227368613235363a65356134353632393861373831636266343165366165373634653934373537366665633433303634383564313763636665663732616630613831393839373635222c2270726576223a2238623263393136613465633638356136363538346133616437636231346662653930393437356363323663623037643936393065656465613234643230303537222c2272756e223a2237323666353462382d626637302d343335342d393036332d376434616637636362623365222c2272756e5f70726576223a2238623263393136613465633638356136363538346133616437636231346662653930393437356363323663623037643936393065656465613234643230303537222c2272756e5f736571223a352c22736571223a392c22746f6f6c223a22776f726b2e646f222c227473223a22323032362d31312d32335430393a34323a33312e3431325a222c2276223a227769636b6574676174652f656e7472792f31222c2276657264696374223a22616c6c6f77227d'),
	('\xee962ba90300d05b094469ed4743a3fa', 10, '\x4a9f51bf7a47c2d0f2317d47fec97b9bc94794fcf3d2d0b84c9d9904da406111', '\x2dbe56497f67db62093fffc6e322386ff3a6b149da1176463f77009c26b84802', '726f54b8-bf70-4354-9063-7d4af7ccbb3e', 'c2', 'call.completed', '\x7b22626f6f74223a223535316533383631222c2263616c6c223a226332222c22636861696e223a226565393632626139303330306430356230393434363965643437343361336661222c22636f6d6d6974223a5b7b2263223a2237333735633764666163373038643132643832353465653461626463633837373365313131306532653934363335343261343936393561396234613166323230222c226c656e223a36392c22726f6c65223a22726573756c74227d5d2c2264617461223a7b22617474656d707473223a312c22737461747573223a22323030222c227573223a343730327d2c2265706f6368223a312c226b696e64223a2263616c6c2e636f6d706c65746564222c226d6f6e6f223a2233393835373831222c2270726576223a2232646265353634393766363764623632303933666666633665333232333836666633613662313439646131313736343633663737303039633236623834383032222c2272756e223a2237323666353462382d626637302d343335342d393036332d376434616637636362623365222c2272756e5f70726576223a2232646265353634393766363764623632303933666666633665333232333836666633613662313439646131313736343633663737303039633236623834383032222c2272756e5f736571223a362c22736571223a31302c22746f6f6c223a22776f726b2e646f222c227473223a22323032362d31312d32335430393a34323a33312e3432385a222c2276223a227769636b6574676174652f656e7472792f31227d'),
	('\xee962ba90300d05b094469ed4743a3fa', 11, '\xd5a64544cdce9dce4930f6ef915b72e95c71426b6cc0d60168878ca5ae72378a', '\x4a9f51bf7a47c2d0f2317d47fec97b9bc94794fcf3d2d0b84c9d9904da406111', '726f54b8-bf70-4354-9063-7d4af7ccbb3e', 'c-1ae6e104938e35338aafa7c80c583bf1', 'call.denied', '\x7b22626f6f74223a223535316533383631222c2263616c6c223a22632d3161653665313034393338653335333338616166613763383063353833626631222c22636861696e223a226565393632626139303330306430356230393434363965643437343361336661222c22636f6d6d6974223a5b7b2263223a2262623063343066643436336161386166653337343238656565343764353334333066616334336465393439306133356663326439373131366135663562376462222c226c656e223a322c22726f6c65223a2261726773227d2c7b2263223a2263313063383863613765393332346637613464623235343431363735366430303834343065333037323863616337613336373533353266616432323037613562222c226c656e223a313036362c22726f6c65223a22706f6c6963795f696e707574227d5d2c2264617461223a7b226166746572223a362c2261757468223a7b226d6574686f64223a22756473222c22756964223a307d2c2262696e64696e67223a22636c61696d6564222c2263616c6c5f646967657374223a2263343339303665326166366536633638663661323532656537666233643964323236373866633662653638623962646136383065663531626164636237363332222c22646566696e6974696f6e223a227368613235363a30366336633166623336623666323632313133373837636235306638343362633336653232346339656564383165396366326436336137396233393366393831222c22656666656374223a2264323633313134616539633036316565333566643863356535366439313365323437636261363632616534323932343731396361353864323533336335303866222c22656e666f72636564223a747275652c22656e67696e65223a227265676f7275732f302e31342e312b73746f636b2e31222c226578656375746f72223a2273696465636172222c226c6179657273223a5b7b22646967657374223a227368613235363a33363734656162326166373233363335656231353133363563386361646139396536393436303465663066666239316133373465316635643964633938386664222c226c61796572223a226c6962227d2c7b22646967657374223a227368613235363a62363439383139313938306266643736353362303133353564613037613731643834666136373164316436323336363130333236613737363833386563643833222c226c61796572223a226167656e74227d5d2c226f626c69676174696f6e73223a5b5d2c22726561736f6e73223a5b7b22636f6465223a22706f6c6963792e64656e696564222c2264657461696c223a226e6f5f616c6c6f77222c226d657373616765223a226e6f2072756c6520616c6c6f777320746869732063616c6c222c2272756c65223a227769636b6574676174652e6465636973696f6e227d5d2c2274696572223a225431227d2c2265706f6368223a312c226b696e64223a2263616c6c2e64656e696564222c226d6f6e6f223a2234383131393439222c22706f6c696379223a227368613235363a65356134353632393861373831636266343165366165373634653934373537366665633433303634383564313763636665663732616630613831393839373635222c2270726576223a2234613966353162663761343763326430663233313764343766656339376239626339343739346663663364326430623834633964393930346461343036313131222c2272756c65223a227769636b6574676174652e6465636973696f6e222c2272756e223a2237323666353462382d626637302d343335342d393036332d376434616637636362623365222c2272756e5f70726576223a2234613966353162663761343763326430663233313764343766656339376239626339343739346663663364326430623834633964393930346461343036313131222c2272756e5f736571223a372c22736571223a31312c22746f6f6c223a22776f726b2e6f74686572222c227473223a22323032362d31312d32335430393a34323a33322e3235345a222c2276223a227769636b6574676174652f656e7472792f31222c2276657264696374223a2264656e79227d'),
	('\xee962ba90300d05b094469ed4743a3fa', 12, '\xaea7baee3194e62e989706dc167a7907e39d8cd0b845a3fc382989b164363b5f', '\xd5a64544cdce9dce4930f6ef915b72e95c71426b6cc0d60168878ca5ae72378a', '726f54b8-bf70-4354-9063-7d4af7ccbb3e', NULL, 'run.sealed', '\x7b22626f6f74223a223535316533383631222c22636861696e223a226565393632626139303330306430356230393434363965643437343361336661222c2264617461223a7b2263616c6c73223a5b7b226b223a22636f6d706c65746564222c2276223a337d2c7b226b223a2264656e696564222c2276223a317d5d2c22656e7472696573223a392c22726561736f6e223a22726571756573746564227d2c2265706f6368223a312c226b696e64223a2272756e2e7365616c6564222c226d6f6e6f223a2235353535333435222c2270726576223a2264356136343534346364636539646365343933306636656639313562373265393563373134323662366363306436303136383837386361356165373233373861222c2272756e223a2237323666353462382d626637302d343335342d393036332d376434616637636362623365222c2272756e5f70726576223a2264356136343534346364636539646365343933306636656639313562373265393563373134323662366363306436303136383837386361356165373233373861222c2272756e5f736571223a382c22736571223a31322c227473223a22323032362d31312d32335430393a34323a33322e3939375a222c2276223a227769636b6574676174652f656e7472792f31227d'),
	('\xee962ba90300d05b094469ed4743a3fa', 13, '\x84dec558dfc2e5dfd9fa74281cfdc7d910a54a388ce92b1dd579d3429580e5ec', '\xaea7baee3194e62e989706dc167a7907e39d8cd0b845a3fc382989b164363b5f', 'b3b9939a-3614-4c51-a0f2-10d8d0e7270f', NULL, 'run.opened', '\x7b22626f6f74223a223535316533383631222c22636861696e223a226565393632626139303330306430356230393434363965643437343361336661222c2264617461223a7b226167656e74223a22746573742d6167656e74222c2261757468223a7b226d6574686f64223a22756473222c22756964223a307d2c2262696e64696e67223a22636c61696d6564222c22696e737472756374696f6e73223a5b2261626162616261626162616261626162616261626162616261626162616261626162616261626162616261626162616261626162616261626162616261626162225d2c226c6162656c73223a5b5d2c226d616e6966657374223a227368613235363a65666436636261663434383234623231386162343639663730613065346432623063353930356563303838363438376164663963393037636663626637363265222c226d6f6465223a22656e666f726365222c226d6f64656c223a22746573742d6d6f64656c222c22746f6b656e5f68617368223a2232366163363036663432393136633238396662373434383639636437306264336466363264613065646232623935623535333362303631653039653939343831222c2276657273696f6e223a22312e302e30227d2c2265706f6368223a312c226b696e64223a2272756e2e6f70656e6564222c226d6f6e6f223a2236333039313038222c2270726576223a2261656137626165653331393465363265393839373036646331363761373930376533396438636430623834356133666333383239383962313634333633623566222c2272756e223a2262336239393339612d333631342d346335312d613066322d313064386430653732373066222c2272756e5f736571223a302c22736571223a31332c227473223a22323032362d31312d32335430393a34323a33332e3735315a222c2276223a227769636b6574676174652f656e7472792f31227d'),
	('\xee962ba90300d05b094469ed4743a3fa', 14, '\xd104e2055e272aaa804250736e9403658872132998305b60310993fb39fc115f', '\x84dec558dfc2e5dfd9fa74281cfdc7d910a54a388ce92b1dd579d3429580e5ec', 'b3b9939a-3614-4c51-a0f2-10d8d0e7270f', 'kept', 'call.authorized', '\x7b22626f6f74223a223535316533383631222c2263616c6c223a226b657074222c22636861696e223a226565393632626139303330306430356230393434363965643437343361336661222c22636f6d6d6974223a5b7b2263223a2233383164663434343834393361626366653630653133643137626166653930356630313763386531613231623931383066643439316333623364373262313764222c226c656e223a322c22726f6c65223a2261726773227d2c7b2263223a2239633462633465353637663339663964326330373266666436383533633438353862623466623965336132353639333038383533323166643736663638616331222c226c656e223a313033332c22726f6c65223a22706f6c6963795f696e707574227d5d2c2264617461223a7b226166746572223a302c2261757468223a7b226d6574686f64223a22756473222c22756964223a307d2c2262696e64696e67223a22636c61696d6564222c2263616c6c5f646967657374223a2232353337303830303235313139333061313464626234333831623833306365633132373332393132396135363132373963343432666266613063633033373130222c22646566696e6974696f6e223a227368613235363a65376436363963663831393738313266373866373064346436336132383463303464326538613937383930323864303336343335613536343466363138643663222c22656666656374223a2234313461383533393365666363396439353339353730613736623266343437653264323666356562323463373439336436333866636466663264616361653331222c22656e666f72636564223a747275652c22656e67696e65223a227265676f7275732f302e31342e312b73746f636b2e31222c226578656375746f72223a2273696465636172222c226c6179657273223a5b7b22646967657374223a227368613235363a33363734656162326166373233363335656231353133363563386361646139396536393436303465663066666239316133373465316635643964633938386664222c226c61796572223a226c6962227d2c7b22646967657374223a227368613235363a62363439383139313938306266643736353362303133353564613037613731643834666136373164316436323336363130333236613737363833386563643833222c226c61796572223a226167656e74227d5d2c226f626c69676174696f6e73223a5b5d2c22726561736f6e73223a5b5d2c2274696572223a225431227d2c2265706f6368223a312c226b696e64223a2263616c6c2e617574686f72697a6564222c226d6f6e6f223a2237303936383331222c22706f6c696379223a227368613235363a65356134353632393861373831636266343165366165373634653934373537366665633433303634383564313763636665663732616630613831393839373635222c2270726576223a2238346465633535386466633265356466643966613734323831636664633764393130613534613338386365393262316464353739643334323935383065356563222c2272756e223a2262336239393339612d333631342d346335312d613066322d313064386430653732373066222c2272756e5f70726576223a2238346465633535386466633265356466643966613734323831636664633764393130613534613338386365393262316464353739643334323935383065356563222c2272756e5f736571223a312c22736571223a31342c22746f6f6c223a22776f726b2e646f222c227473223a22323032362d31312d32335430393a34323a33342e3533395a222c2276223a227769636b6574676174652f656e7472792f31222c2276657264696374223a22616c6c6f77227d'),
	('\xee962ba90300d05b094469ed4743a3fa', 15, '\xe2f11d32d8f8392446a7b312ef02e848ca166e9da1c1bce99a9b10baf90d3137', '\xd104e2055e272aaa804250736e9403658872132998305b60310993fb39fc115f', 'b3b9939a-3614-4c51-a0f2-10d8d0e7270f', 'kept', 'call.completed', '\x7b22626f6f74223a223535316533383631222c2263616c6c223a226b657074222c22636861696e223a226565393632626139303330306430356230393434363965643437343361336661222c22636f6d6d6974223a5b7b2263223a2262373661313563383632356434316564336133643737623838373839636466636633633837393232653231633035316164376565303161623361376637353535222c226c656e223a36392c22726f6c65223a22726573756c74227d5d2c2264617461223a7b22617474656d707473223a312c22737461747573223a22323030222c227573223a363239377d2c2265706f6368223a312c226b696e64223a2263616c6c2e636f6d706c65746564222c226d6f6e6f223a2237313131383738222c2270726576223a2264313034653230353565323732616161383034323530373336653934303336353838373231333239393833303562363033313039393366623339666331313566222c2272756e223a2262336239393339612d333631342d346335312d613066322d313064386430653732373066222c2272756e5f70726576223a2264313034653230353565323732616161383034323530373336653934303336353838373231333239393833303562363033313039393366623339666331313566222c2272756e5f736571223a322c22736571223a31352c22746f6f6c223a22776f726b2e646f222c227473223a22323032362d31312d32335430393a34323a33342e3535345a222c2276223a227769636b6574676174652f656e7472792f31227d'),
	('\xee962ba90300d05b094469ed4743a3fa', 16, '\x4209ff102e0e04d725eb0f96f2e08bd43f40336b684a1f22fd4ba58419243add', '\xe2f11d32d8f8392446a7b312ef02e848ca166e9da1c1bce99a9b10baf90d3137', NULL, NULL, 'writer.stopped', '\x7b22626f6f74223a223535316533383631222c22636861696e223a226565393632626139303330306430356230393434363965643437343361336661222c2264617461223a7b22726561736f6e223a2273746f70706564227d2c2265706f6368223a312c226b696e64223a227772697465722e73746f70706564222c226d6f6e6f223a223132343231373237222c2270726576223a2265326631316433326438663833393234343661376233313265663032653834386361313636653964613163316263653939613962313062616639306433313337222c22736571223a31362c227473223a22323032362d31312d32335430393a34323a33392e3836345a222c2276223a227769636b6574676174652f656e7472792f31227d');


--
-- Data for Name: entry_p1_0; Type: TABLE DATA; Schema: ledger; Owner: ledger_owner
--

INSERT INTO ledger.entry_p1_0 VALUES
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', 0, '\x15aaf7df71b2939c065f28cb56ab2db3ee350d20410f3a699180176a5ff12c6b', '\xf53fbb7fc24419407e69cc7cc2ec2c885050fba9912c3071712e26981a0aa272', NULL, NULL, 'chain.genesis', '\x7b22626f6f74223a223138663332633863222c22636861696e223a226338653636666338613036373931656338663662343235633238613763373665222c2264617461223a7b22656e726f6c6d656e745f6b6579223a226777445167634335796278657339695754776d666870345941537173516143614b706a2b346f6d6174524d3d222c226f726967696e223a227769636b6574676174652e6465762f64656661756c742f6c6f63616c2f312f30227d2c2265706f6368223a312c226b696e64223a22636861696e2e67656e65736973222c226d6f6e6f223a22313733373136222c2270726576223a2266353366626237666332343431393430376536396363376363326563326338383530353066626139393132633330373137313265323639383161306161323732222c22736571223a302c227473223a22323032362d31312d32335430393a34323a32382e3139395a222c2276223a227769636b6574676174652f656e7472792f31227d'),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', 1, '\xe905596ab1c8526e255fdc99007cd9f8a0b95a30dc9f2cfcf64bb04fd3513b0c', '\x15aaf7df71b2939c065f28cb56ab2db3ee350d20410f3a699180176a5ff12c6b', NULL, NULL, 'writer.started', '\x7b22626f6f74223a223138663332633863222c22636861696e223a226338653636666338613036373931656338663662343235633238613763373665222c2264617461223a7b226365727469666963617465223a7b22626f6479223a2265794a6c6347396a614349364d537769615731685a3256665a476c6e5a584e30496a6f69626d39755a534973496d746c65534936496d4e7054445a735a437436544646456133564c63575a36543064694e6c4a55636b5a6b4d47746a4e484250544870504b325a55555555345a44413949697769626d39305832466d64475679496a6f694d6a41794e7930774d6930794d5651774f546f304d6a6f794f4334784f544a61496977696347396b496a6f69646d30694c434a7a62473930496a6f696247396a595777764d534a39222c226b65796964223a2263333262363638303661383565646166343939663533343735333762343366343138633533343530303239316665373435613538326662353732636134633133222c22736967223a2276734644563137544b36794f366b6c384461436f68456d597874315a796c31636378336355566f36356e476a6c45566436504c485657676f39752b5454747a4d4a6e4963666c326c6243737551353358796b495241513d3d227d2c22696d616765223a226e6f6e65222c22706f64223a22766d222c22707265765f65706f6368223a302c22726561736f6e223a226e6577222c2273657474696e6773223a5b7b226b223a22656e67696e65222c2276223a22706f737467726573227d2c7b226b223a2273706f6f6c222c2276223a226f6e227d2c7b226b223a226163636570745f6661696c6f7665725f6c6f7373222c2276223a2266616c7365227d2c7b226b223a226865617274626561745f6d73222c2276223a223130303030227d2c7b226b223a226673796e63222c2276223a226f6e227d2c7b226b223a2266756c6c5f706167655f777269746573222c2276223a226f6e227d2c7b226b223a226c6f675f6d696e5f6572726f725f73746174656d656e74222c2276223a2270616e6963227d2c7b226b223a227365727665725f656e636f64696e67222c2276223a2255544638227d2c7b226b223a227365727665725f76657273696f6e5f6e756d222c2276223a22313530303138227d2c7b226b223a2273796e6368726f6e6f75735f636f6d6d6974222c2276223a226f6e227d2c7b226b223a2273796e6368726f6e6f75735f7374616e6462795f6e616d6573222c2276223a22227d2c7b226b223a227472616e73616374696f6e5f726561645f6f6e6c79222c2276223a226f6666227d5d2c2276657273696f6e223a22302e312e30222c2277617465726d61726b5f726f6f74223a22222c2277617465726d61726b5f73697a65223a302c227772697465725f6b6579223a2263694c366c642b7a4c51446b754b71667a4f4762365254724664306b6334704f4c7a4f2b665451453864303d227d2c2265706f6368223a312c226b696e64223a227772697465722e73746172746564222c226d6f6e6f223a22313733383031222c2270726576223a2231356161663764663731623239333963303635663238636235366162326462336565333530643230343130663361363939313830313736613566663132633662222c22736571223a312c227473223a22323032362d31312d32335430393a34323a32382e3139395a222c2276223a227769636b6574676174652f656e7472792f31227d'),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', 2, '\xab7efbcae20b09eb202d3b8ccff1b78a45e677a79e6e038c935626f07f836662', '\xe905596ab1c8526e255fdc99007cd9f8a0b95a30dc9f2cfcf64bb04fd3513b0c', NULL, NULL, 'manifest.bound', '\x7b22626f6f74223a223138663332633863222c22636861696e223a226338653636666338613036373931656338663662343235633238613763373665222c2264617461223a7b226167656e74223a22746573742d6167656e74222c2262696e64696e67223a22636c61696d6564222c22646967657374223a227368613235363a65666436636261663434383234623231386162343639663730613065346432623063353930356563303838363438376164663963393037636663626637363265222c2276657273696f6e223a22312e302e30227d2c2265706f6368223a312c226b696e64223a226d616e69666573742e626f756e64222c226d6f6e6f223a22313835303832222c2270726576223a2265393035353936616231633835323665323535666463393930303763643966386130623935613330646339663263666366363462623034666433353133623063222c22736571223a322c227473223a22323032362d31312d32335430393a34323a32382e3231305a222c2276223a227769636b6574676174652f656e7472792f31227d'),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', 3, '\xc5d84d9116a56c7775369bb1a7a148ba07ed9afbca502c9c76fe3bb90f4ab412', '\xab7efbcae20b09eb202d3b8ccff1b78a45e677a79e6e038c935626f07f836662', NULL, NULL, 'policy.activated', '\x7b22626f6f74223a223138663332633863222c22636861696e223a226338653636666338613036373931656338663662343235633238613763373665222c2264617461223a7b226c6179657273223a5b7b22646967657374223a227368613235363a33363734656162326166373233363335656231353133363563386361646139396536393436303465663066666239316133373465316635643964633938386664222c226c61796572223a226c6962227d2c7b22646967657374223a227368613235363a62363439383139313938306266643736353362303133353564613037613731643834666136373164316436323336363130333236613737363833386563643833222c226c61796572223a226167656e74227d5d2c226e616d65223a2274657374222c2276657273696f6e223a22312e302e30227d2c2265706f6368223a312c226b696e64223a22706f6c6963792e616374697661746564222c226d6f6e6f223a22333639383633222c22706f6c696379223a227368613235363a65356134353632393861373831636266343165366165373634653934373537366665633433303634383564313763636665663732616630613831393839373635222c2270726576223a2261623765666263616532306230396562323032643362386363666631623738613435653637376137396536653033386339333536323666303766383336363632222c22736571223a332c227473223a22323032362d31312d32335430393a34323a32382e3339355a222c2276223a227769636b6574676174652f656e7472792f31227d'),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', 4, '\x2f4a5f1901609f4bddd8b90e0799178b29a4f5b0be7aeb8ebf6f187d237fec2f', '\xc5d84d9116a56c7775369bb1a7a148ba07ed9afbca502c9c76fe3bb90f4ab412', '0fbc183c-19f9-46ef-868d-91b45fa7fb54', NULL, 'run.opened', '\x7b22626f6f74223a223138663332633863222c22636861696e223a226338653636666338613036373931656338663662343235633238613763373665222c2264617461223a7b226167656e74223a22746573742d6167656e74222c2261757468223a7b226d6574686f64223a22756473222c22756964223a307d2c2262696e64696e67223a22636c61696d6564222c22696e737472756374696f6e73223a5b2261626162616261626162616261626162616261626162616261626162616261626162616261626162616261626162616261626162616261626162616261626162225d2c226c6162656c73223a5b5d2c226d616e6966657374223a227368613235363a65666436636261663434383234623231386162343639663730613065346432623063353930356563303838363438376164663963393037636663626637363265222c226d6f6465223a22656e666f726365222c226d6f64656c223a22746573742d6d6f64656c222c22746f6b656e5f68617368223a2232373364353133343561306536326664666137653333323262626538633264643039656631653433336233363839326331363431363034376236386165386333222c2276657273696f6e223a22312e302e30227d2c2265706f6368223a312c226b696e64223a2272756e2e6f70656e6564222c226d6f6e6f223a2237323430333330222c2270726576223a2263356438346439313136613536633737373533363962623161376131343862613037656439616662636135303263396337366665336262393066346162343132222c2272756e223a2230666263313833632d313966392d343665662d383638642d393162343566613766623534222c2272756e5f736571223a302c22736571223a342c227473223a22323032362d31312d32335430393a34323a33352e3236355a222c2276223a227769636b6574676174652f656e7472792f31227d'),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', 5, '\x81395a34ec2e78fa3b0eb62cf954c4d4f6c6258294219aa0c34612048afe8b5c', '\x2f4a5f1901609f4bddd8b90e0799178b29a4f5b0be7aeb8ebf6f187d237fec2f', '0fbc183c-19f9-46ef-868d-91b45fa7fb54', 'c0', 'call.authorized', '\x7b22626f6f74223a223138663332633863222c2263616c6c223a226330222c22636861696e223a226338653636666338613036373931656338663662343235633238613763373665222c22636f6d6d6974223a5b7b2263223a2236373463316161656234663939633730313131613465316234303861353339613831316466393832336562663336666134643234653366303637323333626230222c226c656e223a372c22726f6c65223a2261726773227d2c7b2263223a2261333632346266623836343735613431363666613634653131636131393637303732643437393234626136323336333734646464303531343736616664383939222c226c656e223a313033362c22726f6c65223a22706f6c6963795f696e707574227d5d2c2264617461223a7b226166746572223a302c2261757468223a7b226d6574686f64223a22756473222c22756964223a307d2c2262696e64696e67223a22636c61696d6564222c2263616c6c5f646967657374223a2234323762363836363865303666643562353637366536323263666536633662613237323235303930376461626465366563666530326236623265663066313164222c22646566696e6974696f6e223a227368613235363a65376436363963663831393738313266373866373064346436336132383463303464326538613937383930323864303336343335613536343466363138643663222c22656666656374223a2232643836646137636364633338366266306530643832313134306635346136656361383133316237316139636365303361343234316166623562626137336366222c22656e666f72636564223a747275652c22656e67696e65223a227265676f7275732f302e31342e312b73746f636b2e31222c226578656375746f72223a2273696465636172222c226c6179657273223a5b7b22646967657374223a227368613235363a33363734656162326166373233363335656231353133363563386361646139396536393436303465663066666239316133373465316635643964633938386664222c226c61796572223a226c6962227d2c7b22646967657374223a227368613235363a62363439383139313938306266643736353362303133353564613037613731643834666136373164316436323336363130333236613737363833386563643833222c226c61796572223a226167656e74227d5d2c226f626c69676174696f6e73223a5b5d2c22726561736f6e73223a5b5d2c2274696572223a225431227d2c2265706f6368223a312c226b696e64223a2263616c6c2e617574686f72697a6564222c226d6f6e6f223a2237373835333938222c22706f6c696379223a227368613235363a65356134353632393861373831636266343165366165373634653934373537366665633433303634383564313763636665663732616630613831393839373635222c2270726576223a2232663461356631393031363039663462646464386239306530373939313738623239613466356230626537616562386562663666313837643233376665633266222c2272756e223a2230666263313833632d313966392d343665662d383638642d393162343566613766623534222c2272756e5f70726576223a2232663461356631393031363039663462646464386239306530373939313738623239613466356230626537616562386562663666313837643233376665633266222c2272756e5f736571223a312c22736571223a352c22746f6f6c223a22776f726b2e646f222c227473223a22323032362d31312d32335430393a34323a33352e3831305a222c2276223a227769636b6574676174652f656e7472792f31222c2276657264696374223a22616c6c6f77227d'),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', 6, '\x88e7e200ddc615e38e4d4f30c61ed7864ed1508565d3a0fdc7b67e5a1cb3ff50', '\x81395a34ec2e78fa3b0eb62cf954c4d4f6c6258294219aa0c34612048afe8b5c', '0fbc183c-19f9-46ef-868d-91b45fa7fb54', 'c0', 'call.completed', '\x7b22626f6f74223a223138663332633863222c2263616c6c223a226330222c22636861696e223a226338653636666338613036373931656338663662343235633238613763373665222c22636f6d6d6974223a5b7b2263223a2235656262663330313662363132643236323935313164663432613766376535303333383832633130656131653938383238313532363562396639376538306339222c226c656e223a36392c22726f6c65223a22726573756c74227d5d2c2264617461223a7b22617474656d707473223a312c22737461747573223a22323030222c227573223a383133377d2c2265706f6368223a312c226b696e64223a2263616c6c2e636f6d706c65746564222c226d6f6e6f223a2237383033363536222c2270726576223a2238313339356133346563326537386661336230656236326366393534633464346636633632353832393432313961613063333436313230343861666538623563222c2272756e223a2230666263313833632d313966392d343665662d383638642d393162343566613766623534222c2272756e5f70726576223a2238313339356133346563326537386661336230656236326366393534633464346636633632353832393432313961613063333436313230343861666538623563222c2272756e5f736571223a322c22736571223a362c22746f6f6c223a22776f726b2e646f222c227473223a22323032362d31312d32335430393a34323a33352e3832395a222c2276223a227769636b6574676174652f656e7472792f31227d'),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', 7, '\xa81af34beabc3df33b9ee3de7cf5a09f44a8d29fce6d15d186449fd4484369ee', '\x88e7e200ddc615e38e4d4f30c61ed7864ed1508565d3a0fdc7b67e5a1cb3ff50', '0fbc183c-19f9-46ef-868d-91b45fa7fb54', 'c1', 'call.authorized', '\x7b22626f6f74223a223138663332633863222c2263616c6c223a226331222c22636861696e223a226338653636666338613036373931656338663662343235633238613763373665222c22636f6d6d6974223a5b7b2263223a2265616131356461343166386331383539323130306233613132363735386132303030313632616262313264366331353961316332363634323764393837333634222c226c656e223a372c22726f6c65223a2261726773227d2c7b2263223a2237363239366136353235326661623330656163366464333731306130396135643839663930346535306530643762343766313834313137353765353364376161222c226c656e223a313033362c22726f6c65223a22706f6c6963795f696e707574227d5d2c2264617461223a7b226166746572223a322c2261757468223a7b226d6574686f64223a22756473222c22756964223a307d2c2262696e64696e67223a22636c61696d6564222c2263616c6c5f646967657374223a2230303036373437356431323338333737663366363731633732386631623165393237386533316231373438393430666263646361326262383534643835373130222c22646566696e6974696f6e223a227368613235363a65376436363963663831393738313266373866373064346436336132383463303464326538613937383930323864303336343335613536343466363138643663222c22656666656374223a2230636662363737363138653561323131343432313566363762383161633532356163333031373037363464366132333434316364623936366632613436376233222c22656e666f72636564223a747275652c22656e67696e65223a227265676f7275732f302e31342e312b73746f636b2e31222c226578656375746f72223a2273696465636172222c226c6179657273223a5b7b22646967657374223a227368613235363a33363734656162326166373233363335656231353133363563386361646139396536393436303465663066666239316133373465316635643964633938386664222c226c61796572223a226c6962227d2c7b22646967657374223a227368613235363a62363439383139313938306266643736353362303133353564613037613731643834666136373164316436323336363130333236613737363833386563643833222c226c61796572223a226167656e74227d5d2c226f626c69676174696f6e73223a5b5d2c22726561736f6e73223a5b5d2c2274696572223a225431227d2c2265706f6368223a312c226b696e64223a2263616c6c2e617574686f72697a6564222c226d6f6e6f223a2238343331383839222c22706f6c696379223a227368613235363a65356134353632393861373831636266343165366165373634653934373537366665633433303634383564313763636665663732616630613831393839373635222c2270726576223a2238386537653230306464633631356533386534643466333063363165643738363465643135303835363564336130666463376236376535613163623366663530222c2272756e223a2230666263313833632d313966392d343665662d383638642d393162343566613766623534222c2272756e5f70726576223a2238386537653230306464633631356533386534643466333063363165643738363465643135303835363564336130666463376236376535613163623366663530222c2272756e5f736571223a332c22736571223a372c22746f6f6c223a22776f726b2e646f222c227473223a22323032362d31312d32335430393a34323a33362e3435375a222c2276223a227769636b6574676174652f656e7472792f31222c2276657264696374223a22616c6c6f77227d'),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', 8, '\xd5328a450e671a0268eb9533ec65ae393655dc7e9a550c791555d9437c2e66cd', '\xa81af34beabc3df33b9ee3de7cf5a09f44a8d29fce6d15d186449fd4484369ee', '0fbc183c-19f9-46ef-868d-91b45fa7fb54', 'c1', 'call.completed', '\x7b22626f6f74223a223138663332633863222c2263616c6c223a226331222c22636861696e223a226338653636666338613036373931656338663662343235633238613763373665222c22636f6d6d6974223a5b7b2263223a2264613039643232303064333961383335333364333962386238643466616664653733346336326163623633313533393766613537386535333965326436386363222c226c656e223a36392c22726f6c65223a22726573756c74227d5d2c2264617461223a7b22617474656d707473223a312c22737461747573223a22323030222c227573223a343530397d2c2265706f6368223a312c226b696e64223a2263616c6c2e636f6d706c65746564222c226d6f6e6f223a2238343436383137222c2270726576223a2261383161663334626561626333646633336239656533646537636635613039663434613864323966636536643135643138363434396664343438343336396565222c2272756e223a2230666263313833632d313966392d343665662d383638642d393162343566613766623534222c2272756e5f70726576223a2261383161663334626561626333646633336239656533646537636635613039663434613864323966636536643135643138363434396664343438343336396565222c2272756e5f736571223a342c22736571223a382c22746f6f6c223a22776f726b2e646f222c227473223a22323032362d31312d32335430393a34323a33362e3437325a222c2276223a227769636b6574676174652f656e7472792f31227d'),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', 9, '\xb8dd71d80101cd6c62619af49af515df15342c1d0dabced5515de8ccd0b4bcac', '\xd5328a450e671a0268eb9533ec65ae393655dc7e9a550c791555d9437c2e66cd', '0fbc183c-19f9-46ef-868d-91b45fa7fb54', 'c2', 'call.authorized', '\x7b22626f6f74223a223138663332633863222c2263616c6c223a226332222c22636861696e223a226338653636666338613036373931656338663662343235633238613763373665222c22636f6d6d6974223a5b7b2263223a2262336638663461363737643037393037303431393664356430393034643634636533643431313734633833313239343439613231656462653163646362336633222c226c656e223a372c22726f6c65223a2261726773227d2c7b2263223a2261353331666635336566613832633533393438663964326537326433356130363364313637633939643039333637356331646466663961636365303864666266222c226c656e223a313033362c22726f6c65223a22706f6c6963795f696e707574227d5d2c2264617461223a7b226166746572223a342c2261757468223a7b226d6574686f64223a22756473222c22756964223a307d2c2262696e64696e67223a22636c61696d6564222c2263616c6c5f646967657374223a2234666364343235303661626233383138373331643564343837346432623734326664623764636563363936323134643532636136646135653061323162303965222c22646566696e6974696f6e223a227368613235363a65376436363963663831393738313266373866373064346436336132383463303464326538613937383930323864303336343335613536343466363138643663222c22656666656374223a2266306365383461353462663532353036316131343235633234316563343934316239303736366463643164333835356236623230363738616138393939313536222c22656e666f72636564223a747275652c22656e67696e65223a227265676f7275732f302e31342e312b73746f636b2e31222c226578656375746f72223a2273696465636172222c226c6179657273223a5b7b22646967657374223a227368613235363a33363734656162326166373233363335656231353133363563386361646139396536393436303465663066666239316133373465316635643964633938386664222c226c61796572223a226c6962227d2c7b22646967657374223a227368613235363a62363439383139313938306266643736353362303133353564613037613731643834666136373164316436323336363130333236613737363833386563643833222c226c61796572223a226167656e74227d5d2c226f626c69676174696f6e73223a5b5d2c22726561736f6e73223a5b5d2c2274696572223a225431227d2c2265706f6368223a312c226b696e64223a2263616c6c2e617574686f72697a6564222c226d6f6e6f223a2239303632323432222c22706f6c696379223a227368613235363a65356134353632393861373831636266343165366165373634653934373537366665633433303634383564313763636665663732616630613831393839373635222c2270726576223a2264353332386134353065363731613032363865623935333365633635616533393336353564633765396135353063373931353535643934333763326536366364222c2272756e223a2230666263313833632d313966392d343665662d383638642d393162343566613766623534222c2272756e5f70726576223a2264353332386134353065363731613032363865623935333365633635616533393336353564633765396135353063373931353535643934333763326536366364222c2272756e5f736571223a352c22736571223a392c22746f6f6c223a22776f726b2e646f222c227473223a22323032362d31312d32335430393a34323a33372e3038375a222c2276223a227769636b6574676174652f656e7472792f31222c2276657264696374223a22616c6c6f77227d'),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', 10, '\x1bb7270d7b1c14deb4c705616c1cb06eb50fd9731ccf515972cbb81d754d2e83', '\xb8dd71d80101cd6c62619af49af515df15342c1d0dabced5515de8ccd0b4bcac', '0fbc183c-19f9-46ef-868d-91b45fa7fb54', 'c2', 'call.completed', '\x7b22626f6f74223a223138663332633863222c2263616c6c223a226332222c22636861696e223a226338653636666338613036373931656338663662343235633238613763373665222c22636f6d6d6974223a5b7b2263223a2231313466323738326165383764646234363936646138366331373737616132323338373737643530613533653762653361626662393936343561656330303064222c226c656e223a36392c22726f6c65223a22726573756c74227d5d2c2264617461223a7b22617474656d707473223a312c22737461747573223a22323030222c227573223a343432387d2c2265706f6368223a312c226b696e64223a2263616c6c2e636f6d706c65746564222c226d6f6e6f223a2239303734373432222c2270726576223a2262386464373164383031303163643663363236313961663439616635313564663135333432633164306461626365643535313564653863636430623462636163222c2272756e223a2230666263313833632d313966392d343665662d383638642d393162343566613766623534222c2272756e5f70726576223a2262386464373164383031303163643663363236313961663439616635313564663135333432633164306461626365643535313564653863636430623462636163222c2272756e5f736571223a362c22736571223a31302c22746f6f6c223a22776f726b2e646f222c227473223a22323032362d31312d32335430393a34323a33372e3130305a222c2276223a227769636b6574676174652f656e7472792f31227d'),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', 11, '\xdd6fe160c33766d1a9c1097f96108624919d4bbd78b4ec0bf723e9bcddb06d11', '\x1bb7270d7b1c14deb4c705616c1cb06eb50fd9731ccf515972cbb81d754d2e83', '0fbc183c-19f9-46ef-868d-91b45fa7fb54', 'c-a1834fac5b4570ecf76a98b8fb7db132', 'call.denied', '\x7b22626f6f74223a223138663332633863222c2263616c6c223a22632d6131383334666163356234353730656366373661393862386662376462313332222c22636861696e223a226338653636666338613036373931656338663662343235633238613763373665222c22636f6d6d6974223a5b7b2263223a2233393138323439666133396134613238613661376132366466363130343839313266396439346435373230303065303331663931633035376161313862383838222c226c656e223a322c22726f6c65223a2261726773227d2c7b2263223a2263343530646135623635646631363937346263383336343237326539633865303563616631363764316565633333393866343132343366643232396534323333222c226c656e223a313036362c22726f6c65223a22706f6c6963795f696e707574227d5d2c2264617461223a7b226166746572223a362c2261757468223a7b226d6574686f64223a22756473222c22756964223a307d2c2262696e64696e67223a22636c61696d6564222c2263616c6c5f646967657374223a2230626233383932633538363663323531313131633763663235656235363565303234326663663534633466666235393931646462633634616662343839323530222c22646566696e6974696f6e223a227368613235363a30366336633166623336623666323632313133373837636235306638343362633336653232346339656564383165396366326436336137396233393366393831222c22656666656374223a2263623239383462333465333261633961303866343366616535373136363338626233666636353937643763623134616233656633626265366638373165663166222c22656e666f72636564223a747275652c22656e67696e65223a227265676f7275732f302e31342e312b73746f636b2e31222c226578656375746f72223a2273696465636172222c226c6179657273223a5b7b22646967657374223a227368613235363a33363734656162326166373233363335656231353133363563386361646139396536393436303465663066666239316133373465316635643964633938386664222c226c61796572223a226c6962227d2c7b22646967657374223a227368613235363a62363439383139313938306266643736353362303133353564613037613731643834666136373164316436323336363130333236613737363833386563643833222c226c61796572223a226167656e74227d5d2c226f626c69676174696f6e73223a5b5d2c22726561736f6e73223a5b7b22636f6465223a22706f6c6963792e64656e696564222c2264657461696c223a226e6f5f616c6c6f77222c226d657373616765223a226e6f2072756c6520616c6c6f777320746869732063616c6c222c2272756c65223a227769636b6574676174652e6465636973696f6e227d5d2c2274696572223a225431227d2c2265706f6368223a312c226b696e64223a2263616c6c2e64656e696564222c226d6f6e6f223a2239373338353432222c22706f6c696379223a227368613235363a65356134353632393861373831636266343165366165373634653934373537366665633433303634383564313763636665663732616630613831393839373635222c2270726576223a2231626237323730643762316331346465623463373035363136633163623036656235306664393733316363663531353937326362623831643735346432653833222c2272756c65223a227769636b6574676174652e6465636973696f6e222c2272756e223a2230666263313833632d313966392d343665662d383638642d393162343566613766623534222c2272756e5f70726576223a2231626237323730643762316331346465623463373035363136633163623036656235306664393733316363663531353937326362623831643735346432653833222c2272756e5f736571223a372c22736571223a31312c22746f6f6c223a22776f726b2e6f74686572222c227473223a22323032362d31312d32335430393a34323a33372e3736345a222c2276223a227769636b6574676174652f656e7472792f31222c2276657264696374223a2264656e79227d'),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', 12, '\x42567ddb4b7e703b391d70c9e1f1aa885bb7b67fe306730250915227183c270f', '\xdd6fe160c33766d1a9c1097f96108624919d4bbd78b4ec0bf723e9bcddb06d11', '0fbc183c-19f9-46ef-868d-91b45fa7fb54', NULL, 'run.sealed', '\x7b22626f6f74223a223138663332633863222c22636861696e223a226338653636666338613036373931656338663662343235633238613763373665222c2264617461223a7b2263616c6c73223a5b7b226b223a22636f6d706c65746564222c2276223a337d2c7b226b223a2264656e696564222c2276223a317d5d2c22656e7472696573223a392c22726561736f6e223a22726571756573746564227d2c2265706f6368223a312c226b696e64223a2272756e2e7365616c6564222c226d6f6e6f223a223130333632353735222c2270726576223a2264643666653136306333333736366431613963313039376639363130383632343931396434626264373862346563306266373233653962636464623036643131222c2272756e223a2230666263313833632d313966392d343665662d383638642d393162343566613766623534222c2272756e5f70726576223a2264643666653136306333333736366431613963313039376639363130383632343931396434626264373862346563306266373233653962636464623036643131222c2272756e5f736571223a382c22736571223a31322c227473223a22323032362d31312d32335430393a34323a33382e3338385a222c2276223a227769636b6574676174652f656e7472792f31227d'),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', 13, '\x2cd0a1aa69c41ff31bf379d12872e7a82fedfb57f1d341718f0d48d60d3c6b78', '\x42567ddb4b7e703b391d70c9e1f1aa885bb7b67fe306730250915227183c270f', '58122375-7aa2-4c0f-9075-42b5781af106', NULL, 'run.opened', '\x7b22626f6f74223a223138663332633863222c22636861696e223a226338653636666338613036373931656338663662343235633238613763373665222c2264617461223a7b226167656e74223a22746573742d6167656e74222c2261757468223a7b226d6574686f64223a22756473222c22756964223a307d2c2262696e64696e67223a22636c61696d6564222c22696e737472756374696f6e73223a5b2261626162616261626162616261626162616261626162616261626162616261626162616261626162616261626162616261626162616261626162616261626162225d2c226c6162656c73223a5b5d2c226d616e6966657374223a227368613235363a65666436636261663434383234623231386162343639663730613065346432623063353930356563303838363438376164663963393037636663626637363265222c226d6f6465223a22656e666f726365222c226d6f64656c223a22746573742d6d6f64656c222c22746f6b656e5f68617368223a2230356232306564653539393739643230643963626439633631643937323462373630653933643562383235306331363437333732623964353437653563343839222c2276657273696f6e223a22312e302e30227d2c2265706f6368223a312c226b696e64223a2272756e2e6f70656e6564222c226d6f6e6f223a223130393934373331222c2270726576223a2234323536376464623462376537303362333931643730633965316631616138383562623762363766653330363733303235303931353232373138336332373066222c2272756e223a2235383132323337352d376161322d346330662d393037352d343262353738316166313036222c2272756e5f736571223a302c22736571223a31332c227473223a22323032362d31312d32335430393a34323a33392e3032305a222c2276223a227769636b6574676174652f656e7472792f31227d'),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', 14, '\xccd5cbe92069d9437334c433ee4d7a44a45fbcbede090a0db0f04a0ead6e715b', '\x2cd0a1aa69c41ff31bf379d12872e7a82fedfb57f1d341718f0d48d60d3c6b78', '58122375-7aa2-4c0f-9075-42b5781af106', 'kept', 'call.authorized', '\x7b22626f6f74223a223138663332633863222c2263616c6c223a226b657074222c22636861696e223a226338653636666338613036373931656338663662343235633238613763373665222c22636f6d6d6974223a5b7b2263223a2238356266326234373339653339653234336261383366666234396634303631333034633638353339386631626363623634333663306436663061316235623934222c226c656e223a322c22726f6c65223a2261726773227d2c7b2263223a2233656464663166316263623437356535326438383632393530333962313037353836643962316561366231303335373663646630343066623961373665323935222c226c656e223a313033332c22726f6c65223a22706f6c6963795f696e707574227d5d2c2264617461223a7b226166746572223a302c2261757468223a7b226d6574686f64223a22756473222c22756964223a307d2c2262696e64696e67223a22636c61696d6564222c2263616c6c5f646967657374223a2236303932646434313065393065373662313764343232626334373962623561643363336530636131303563613361663039623164626339616263616339343562222c22646566696e6974696f6e223a227368613235363a65376436363963663831393738313266373866373064346436336132383463303464326538613937383930323864303336343335613536343466363138643663222c22656666656374223a2232336561373030613530303534386132373661623362646439383762306134313733613936386130353361633863353134623038623138353366353463666463222c22656e666f72636564223a747275652c22656e67696e65223a227265676f7275732f302e31342e312b73746f636b2e31222c226578656375746f72223a2273696465636172222c226c6179657273223a5b7b22646967657374223a227368613235363a33363734656162326166373233363335656231353133363563386361646139396536393436303465663066666239316133373465316635643964633938386664222c226c61796572223a226c6962227d2c7b22646967657374223a227368613235363a62363439383139313938306266643736353362303133353564613037613731643834666136373164316436323336363130333236613737363833386563643833222c226c61796572223a226167656e74227d5d2c226f626c69676174696f6e73223a5b5d2c22726561736f6e73223a5b5d2c2274696572223a225431227d2c2265706f6368223a312c226b696e64223a2263616c6c2e617574686f72697a6564222c226d6f6e6f223a223131363138393631222c22706f6c696379223a227368613235363a65356134353632393861373831636266343165366165373634653934373537366665633433303634383564313763636665663732616630613831393839373635222c2270726576223a2232636430613161613639633431666633316266333739643132383732653761383266656466623537663164333431373138663064343864363064336336623738222c2272756e223a2235383132323337352d376161322d346330662d393037352d343262353738316166313036222c2272756e5f70726576223a2232636430613161613639633431666633316266333739643132383732653761383266656466623537663164333431373138663064343864363064336336623738222c2272756e5f736571223a312c22736571223a31342c22746f6f6c223a22776f726b2e646f222c227473223a22323032362d31312d32335430393a34323a33392e3634345a222c2276223a227769636b6574676174652f656e7472792f31222c2276657264696374223a22616c6c6f77227d'),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', 15, '\x6df480eb2e109542156e9ceb0f1fcb7e76f4a1352d4e284a542b7e20d09a680c', '\xccd5cbe92069d9437334c433ee4d7a44a45fbcbede090a0db0f04a0ead6e715b', '58122375-7aa2-4c0f-9075-42b5781af106', 'kept', 'call.completed', '\x7b22626f6f74223a223138663332633863222c2263616c6c223a226b657074222c22636861696e223a226338653636666338613036373931656338663662343235633238613763373665222c22636f6d6d6974223a5b7b2263223a2230616438363537336338633965643161353736613434663331383461353364366130393932663562346462666134323530316631333362393834346264636238222c226c656e223a36392c22726f6c65223a22726573756c74227d5d2c2264617461223a7b22617474656d707473223a312c22737461747573223a22323030222c227573223a333035337d2c2265706f6368223a312c226b696e64223a2263616c6c2e636f6d706c65746564222c226d6f6e6f223a223131363337393632222c2270726576223a2263636435636265393230363964393433373333346334333365653464376134346134356662636265646530393061306462306630346130656164366537313562222c2272756e223a2235383132323337352d376161322d346330662d393037352d343262353738316166313036222c2272756e5f70726576223a2263636435636265393230363964393433373333346334333365653464376134346134356662636265646530393061306462306630346130656164366537313562222c2272756e5f736571223a322c22736571223a31352c22746f6f6c223a22776f726b2e646f222c227473223a22323032362d31312d32335430393a34323a33392e3636335a222c2276223a227769636b6574676174652f656e7472792f31227d');


--
-- Data for Name: entry_p2_0; Type: TABLE DATA; Schema: ledger; Owner: ledger_owner
--



--
-- Data for Name: entry_p3_0; Type: TABLE DATA; Schema: ledger; Owner: ledger_owner
--



--
-- Data for Name: fleet_said; Type: TABLE DATA; Schema: ledger; Owner: ledger_owner
--



--
-- Data for Name: head; Type: TABLE DATA; Schema: ledger; Owner: ledger_owner
--

INSERT INTO ledger.head VALUES
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', 1, 'vm/30744', '\x69d9022e11bab313aa19f546e3cc02ddbdb4dffcb259468ab5687a29ffeab10f', NULL, '2026-11-23 09:42:54.66571+00', '00:00:15', 'call.completed', 16, '\x6df480eb2e109542156e9ceb0f1fcb7e76f4a1352d4e284a542b7e20d09a680c', '\x47aa77419a2da642cdc8b8bca89f3bea9fce7d3ae43b03ef9e89e138eb64a0bd', 'wicketgate.dev/default/local/1/0
16
R6p3QZotpkLNyLi8qJ876p/OfTrkOwPvnonhOOtkoL0=

— wicketgate.dev/default/local/1/0 yEuTFCktDfdmyjInIOos/ZpfjKqC1MY+tNOGe6FWPUM8DPt9DGBXJ6yuUCsKd8OHP8y8gr9zJExhUGbgHfAIQwYvtg4=
'),
	('\xee962ba90300d05b094469ed4743a3fa', 1, 'vm/30729', '\x4279cb9054b61cdbaafc6109b0fb7f07be772e70bc326dfca5de0b65fe0f0d3c', NULL, '-infinity', '00:00:15', 'writer.stopped', 17, '\x4209ff102e0e04d725eb0f96f2e08bd43f40336b684a1f22fd4ba58419243add', '\xb217fbda9e6f9ca284c4aecc18824f35c02bc733e12afe877c082cb6eb1640fb4209ff102e0e04d725eb0f96f2e08bd43f40336b684a1f22fd4ba58419243add', 'wicketgate.dev/default/local/0/0
17
eAaBvrxyiwaV6Y9iO0Gg/Tltg95l1LtrJwCYO0C9wlg=

— wicketgate.dev/default/local/0/0 0hIEi+nY+7U44uGSeN+k+KiWHVbhyYi538+7v3IGHGjTv0tVAsZiHbObU38wj3I6t8PmmwUXkQdjZcuDIgPqriErPwc=
');


--
-- Data for Name: open_run; Type: TABLE DATA; Schema: ledger; Owner: ledger_owner
--

INSERT INTO ledger.open_run VALUES
	('\xee962ba90300d05b094469ed4743a3fa', 'b3b9939a-3614-4c51-a0f2-10d8d0e7270f'),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', '58122375-7aa2-4c0f-9075-42b5781af106');


--
-- Data for Name: payload; Type: TABLE DATA; Schema: ledger; Owner: ledger_owner
--

INSERT INTO ledger.payload VALUES
	('\xee962ba90300d05b094469ed4743a3fa', '\xe2b550ca19125697bdb68d910e4dd4ac6b52380882e53f23d91ace94026214c2', '\x3d67cd10c8e3fa0af989199993e7f99a551379234be0bc821edb31d28af1ea70', 'args', 'application/json', '\x7b226e223a307d', '2026-11-23 09:42:29.663967+00'),
	('\xee962ba90300d05b094469ed4743a3fa', '\xbce7e57f64e81b2b2777c76993c1954f63375b74816e63685dc76262707af429', '\x68f2115af8ed995149778d1cc6e2ffdc47519a7b2b4d67ee196b32f1e956715e', 'policy_input', 'application/json', '\x7b226167656e74223a7b2262696e64696e67223a22636c61696d6564222c2264656c65676174696f6e223a5b5d2c226964223a22746573742d6167656e74222c226c6162656c73223a7b7d2c226d616e6966657374223a227368613235363a65666436636261663434383234623231386162343639663730613065346432623063353930356563303838363438376164663963393037636663626637363265222c226f776e6572223a227465737473406578616d706c652e636f6d222c2276657273696f6e223a22312e302e30227d2c22617070726f76616c73223a5b5d2c2261726773223a7b226e223a307d2c22627265616b5f676c617373223a7b226279223a5b5d2c226e6f6e6365223a22222c226f70656e223a66616c73652c22756e74696c223a22227d2c2263616c6c223a7b226964223a226330227d2c22636f6e74657874223a7b226174746573746564223a7b7d2c22636c61696d6564223a7b7d7d2c22656666656374223a7b22626f64795f6279746573223a372c22686f7374223a223132372e302e302e31222c226b696e64223a2268747470222c226d6574686f64223a22504f5354222c2270617468223a222f646f222c22706f7274223a33383532372c227175657279223a5b5d2c22736368656d65223a2268747470227d2c2266696e64696e6773223a5b5d2c22686973746f7279223a7b2263616c6c73223a302c2264656e696564223a302c226572726f7273223a307d2c226f627365727665223a5b5d2c22706f6f6c73223a5b5d2c2271756f72756d223a7b2262795f68616e64223a5b5d7d2c2272756e223a7b2263616c6c73223a302c22636f7374223a302c226572726f7273223a302c226964223a2237323666353462382d626637302d343335342d393036332d376434616637636362623365222c226c6162656c73223a7b7d2c226d6f6465223a22656e666f726365222c226f70656e65645f6174223a22323032362d31312d32335430393a34323a32382e3932365a227d2c2274696d65223a7b22686f7572223a392c226d696e757465223a34322c2272666333333339223a22323032362d31312d32335430393a34323a32392e3635305a222c22747a223a22555443222c22756e6978223a313739353432363934392c227765656b646179223a226d6f6e646179227d2c22746f6f6c223a7b22646566696e6974696f6e223a227368613235363a65376436363963663831393738313266373866373064346436336132383463303464326538613937383930323864303336343335613536343466363138643663222c226b696e64223a2268747470222c226e616d65223a22776f726b2e646f222c22726561645f6f6e6c79223a66616c73652c2274696572223a225431227d2c2276223a227769636b6574676174652f696e7075742f31227d', '2026-11-23 09:42:29.664683+00'),
	('\xee962ba90300d05b094469ed4743a3fa', '\xb29823fbbb2f5199817de584212bbb3dfea55802e54fc59439cde2f2c241ed4a', '\x3d3d2f52a7516b51471ac2c7fd168a3e0e4d94deb407688a2a9891e649f29946', 'result', 'application/json', '\x7b22626f6479223a7b22646f6e65223a747275657d2c22636f6e74656e745f74797065223a226170706c69636174696f6e2f6a736f6e222c22737461747573223a3230307d', '2026-11-23 09:42:29.684371+00'),
	('\xee962ba90300d05b094469ed4743a3fa', '\x289efa533a9beb60e691906fe1599f3c38dd8131aeb9739c177e7b07e366df6e', '\xc174669528654e59d3d1eb56525da78d4240aae2cd7a07e53c5bf8cee69cdec6', 'args', 'application/json', '\x7b226e223a317d', '2026-11-23 09:42:30.735042+00'),
	('\xee962ba90300d05b094469ed4743a3fa', '\x4d38b2927ad28007f31a2778cab6dc812efefaee5e874e4295cec9598c3174c4', '\xabe56ce0e835e3a0f6e5c47c2b414f928e9a1e26f4bb258263d7746bd26ae600', 'policy_input', 'application/json', '\x7b226167656e74223a7b2262696e64696e67223a22636c61696d6564222c2264656c65676174696f6e223a5b5d2c226964223a22746573742d6167656e74222c226c6162656c73223a7b7d2c226d616e6966657374223a227368613235363a65666436636261663434383234623231386162343639663730613065346432623063353930356563303838363438376164663963393037636663626637363265222c226f776e6572223a227465737473406578616d706c652e636f6d222c2276657273696f6e223a22312e302e30227d2c22617070726f76616c73223a5b5d2c2261726773223a7b226e223a317d2c22627265616b5f676c617373223a7b226279223a5b5d2c226e6f6e6365223a22222c226f70656e223a66616c73652c22756e74696c223a22227d2c2263616c6c223a7b226964223a226331227d2c22636f6e74657874223a7b226174746573746564223a7b7d2c22636c61696d6564223a7b7d7d2c22656666656374223a7b22626f64795f6279746573223a372c22686f7374223a223132372e302e302e31222c226b696e64223a2268747470222c226d6574686f64223a22504f5354222c2270617468223a222f646f222c22706f7274223a33383532372c227175657279223a5b5d2c22736368656d65223a2268747470227d2c2266696e64696e6773223a5b5d2c22686973746f7279223a7b2263616c6c73223a312c2264656e696564223a302c226572726f7273223a307d2c226f627365727665223a5b5d2c22706f6f6c73223a5b5d2c2271756f72756d223a7b2262795f68616e64223a5b5d7d2c2272756e223a7b2263616c6c73223a312c22636f7374223a302c226572726f7273223a302c226964223a2237323666353462382d626637302d343335342d393036332d376434616637636362623365222c226c6162656c73223a7b7d2c226d6f6465223a22656e666f726365222c226f70656e65645f6174223a22323032362d31312d32335430393a34323a32382e3932365a227d2c2274696d65223a7b22686f7572223a392c226d696e757465223a34322c2272666333333339223a22323032362d31312d32335430393a34323a33302e3732335a222c22747a223a22555443222c22756e6978223a313739353432363935302c227765656b646179223a226d6f6e646179227d2c22746f6f6c223a7b22646566696e6974696f6e223a227368613235363a65376436363963663831393738313266373866373064346436336132383463303464326538613937383930323864303336343335613536343466363138643663222c226b696e64223a2268747470222c226e616d65223a22776f726b2e646f222c22726561645f6f6e6c79223a66616c73652c2274696572223a225431227d2c2276223a227769636b6574676174652f696e7075742f31227d', '2026-11-23 09:42:30.735107+00'),
	('\xee962ba90300d05b094469ed4743a3fa', '\xcbacc4615566b048e35954cb19c46c729c27cf3a1f9705ced4176c5cf847daed', '\x97bd56d6462af3e2c387124a222bc6f4ced809aad2f533cdf6e2a6e734d5360d', 'result', 'application/json', '\x7b22626f6479223a7b22646f6e65223a747275657d2c22636f6e74656e745f74797065223a226170706c69636174696f6e2f6a736f6e222c22737461747573223a3230307d', '2026-11-23 09:42:30.758017+00'),
	('\xee962ba90300d05b094469ed4743a3fa', '\xb381bcd80ea65feb88f801b97fc027746c0c7840ce552d848d15a5b85ca0b5b5', '\x6e20c347ebdfe18fd74081b96c0445d3714663fb5ce2ef1c6a792398e8925a5c', 'args', 'application/json', '\x7b226e223a327d', '2026-11-23 09:42:31.417009+00'),
	('\xee962ba90300d05b094469ed4743a3fa', '\x8d4947e02145e4081bd72d436fbfce0e698bfd7f37a5288744fb8a34768ed43d', '\x70253358b1cc1d71989c3b57aa91fa24c37dc68f01700bface6632128f5094a3', 'policy_input', 'application/json', '\x7b226167656e74223a7b2262696e64696e67223a22636c61696d6564222c2264656c65676174696f6e223a5b5d2c226964223a22746573742d6167656e74222c226c6162656c73223a7b7d2c226d616e6966657374223a227368613235363a65666436636261663434383234623231386162343639663730613065346432623063353930356563303838363438376164663963393037636663626637363265222c226f776e6572223a227465737473406578616d706c652e636f6d222c2276657273696f6e223a22312e302e30227d2c22617070726f76616c73223a5b5d2c2261726773223a7b226e223a327d2c22627265616b5f676c617373223a7b226279223a5b5d2c226e6f6e6365223a22222c226f70656e223a66616c73652c22756e74696c223a22227d2c2263616c6c223a7b226964223a226332227d2c22636f6e74657874223a7b226174746573746564223a7b7d2c22636c61696d6564223a7b7d7d2c22656666656374223a7b22626f64795f6279746573223a372c22686f7374223a223132372e302e302e31222c226b696e64223a2268747470222c226d6574686f64223a22504f5354222c2270617468223a222f646f222c22706f7274223a33383532372c227175657279223a5b5d2c22736368656d65223a2268747470227d2c2266696e64696e6773223a5b5d2c22686973746f7279223a7b2263616c6c73223a322c2264656e696564223a302c226572726f7273223a307d2c226f627365727665223a5b5d2c22706f6f6c73223a5b5d2c2271756f72756d223a7b2262795f68616e64223a5b5d7d2c2272756e223a7b2263616c6c73223a322c22636f7374223a302c226572726f7273223a302c226964223a2237323666353462382d626637302d343335342d393036332d376434616637636362623365222c226c6162656c73223a7b7d2c226d6f6465223a22656e666f726365222c226f70656e65645f6174223a22323032362d31312d32335430393a34323a32382e3932365a227d2c2274696d65223a7b22686f7572223a392c226d696e757465223a34322c2272666333333339223a22323032362d31312d32335430393a34323a33312e3430355a222c22747a223a22555443222c22756e6978223a313739353432363935312c227765656b646179223a226d6f6e646179227d2c22746f6f6c223a7b22646566696e6974696f6e223a227368613235363a65376436363963663831393738313266373866373064346436336132383463303464326538613937383930323864303336343335613536343466363138643663222c226b696e64223a2268747470222c226e616d65223a22776f726b2e646f222c22726561645f6f6e6c79223a66616c73652c2274696572223a225431227d2c2276223a227769636b6574676174652f696e7075742f31227d', '2026-11-23 09:42:31.417068+00'),
	('\xee962ba90300d05b094469ed4743a3fa', '\x7375c7dfac708d12d8254ee4abdcc8773e1110e2e9463542a49695a9b4a1f220', '\x4498e8067f7f114307360524cbb64250d04e40b03d5a0b1d04131feef87f9fd4', 'result', 'application/json', '\x7b22626f6479223a7b22646f6e65223a747275657d2c22636f6e74656e745f74797065223a226170706c69636174696f6e2f6a736f6e222c22737461747573223a3230307d', '2026-11-23 09:42:31.430873+00'),
	('\xee962ba90300d05b094469ed4743a3fa', '\xbb0c40fd463aa8afe37428eee47d53430fac43de9490a35fc2d97116a5f5b7db', '\x9d63c5e096bb32ad897f9678264c6009b29c8ed69bd31c8195e3ed6d2583d168', 'args', 'application/json', '\x7b7d', '2026-11-23 09:42:32.259251+00'),
	('\xee962ba90300d05b094469ed4743a3fa', '\xc10c88ca7e9324f7a4db254416756d008440e30728cac7a3675352fad2207a5b', '\x797867820924aaab11e1a9c4adda0d6655e245af5bd464aed5efcb0ff86e4f07', 'policy_input', 'application/json', '\x7b226167656e74223a7b2262696e64696e67223a22636c61696d6564222c2264656c65676174696f6e223a5b5d2c226964223a22746573742d6167656e74222c226c6162656c73223a7b7d2c226d616e6966657374223a227368613235363a65666436636261663434383234623231386162343639663730613065346432623063353930356563303838363438376164663963393037636663626637363265222c226f776e6572223a227465737473406578616d706c652e636f6d222c2276657273696f6e223a22312e302e30227d2c22617070726f76616c73223a5b5d2c2261726773223a7b7d2c22627265616b5f676c617373223a7b226279223a5b5d2c226e6f6e6365223a22222c226f70656e223a66616c73652c22756e74696c223a22227d2c2263616c6c223a7b226964223a22632d3161653665313034393338653335333338616166613763383063353833626631227d2c22636f6e74657874223a7b226174746573746564223a7b7d2c22636c61696d6564223a7b7d7d2c22656666656374223a7b22626f64795f6279746573223a322c22686f7374223a223132372e302e302e31222c226b696e64223a2268747470222c226d6574686f64223a22504f5354222c2270617468223a222f646f222c22706f7274223a33383532372c227175657279223a5b5d2c22736368656d65223a2268747470227d2c2266696e64696e6773223a5b5d2c22686973746f7279223a7b2263616c6c73223a332c2264656e696564223a302c226572726f7273223a307d2c226f627365727665223a5b5d2c22706f6f6c73223a5b5d2c2271756f72756d223a7b2262795f68616e64223a5b5d7d2c2272756e223a7b2263616c6c73223a332c22636f7374223a302c226572726f7273223a302c226964223a2237323666353462382d626637302d343335342d393036332d376434616637636362623365222c226c6162656c73223a7b7d2c226d6f6465223a22656e666f726365222c226f70656e65645f6174223a22323032362d31312d32335430393a34323a32382e3932365a227d2c2274696d65223a7b22686f7572223a392c226d696e757465223a34322c2272666333333339223a22323032362d31312d32335430393a34323a33322e3234315a222c22747a223a22555443222c22756e6978223a313739353432363935322c227765656b646179223a226d6f6e646179227d2c22746f6f6c223a7b22646566696e6974696f6e223a227368613235363a30366336633166623336623666323632313133373837636235306638343362633336653232346339656564383165396366326436336137396233393366393831222c226b696e64223a2268747470222c226e616d65223a22776f726b2e6f74686572222c22726561645f6f6e6c79223a66616c73652c2274696572223a225431227d2c2276223a227769636b6574676174652f696e7075742f31227d', '2026-11-23 09:42:32.259306+00'),
	('\xee962ba90300d05b094469ed4743a3fa', '\x381df4448493abcfe60e13d17bafe905f017c8e1a21b9180fd491c3b3d72b17d', '\xfda7aabf99a91472b354b51a0fe60bb4d6238b1b20ce33a002581e6117467367', 'args', 'application/json', '\x7b7d', '2026-11-23 09:42:34.541901+00'),
	('\xee962ba90300d05b094469ed4743a3fa', '\x9c4bc4e567f39f9d2c072ffd6853c4858bb4fb9e3a256930885321fd76f68ac1', '\x69c5c7c83c7b1ebad7e9cec7e50152916291d4f2f6b2a354693c13cd928c0aac', 'policy_input', 'application/json', '\x7b226167656e74223a7b2262696e64696e67223a22636c61696d6564222c2264656c65676174696f6e223a5b5d2c226964223a22746573742d6167656e74222c226c6162656c73223a7b7d2c226d616e6966657374223a227368613235363a65666436636261663434383234623231386162343639663730613065346432623063353930356563303838363438376164663963393037636663626637363265222c226f776e6572223a227465737473406578616d706c652e636f6d222c2276657273696f6e223a22312e302e30227d2c22617070726f76616c73223a5b5d2c2261726773223a7b7d2c22627265616b5f676c617373223a7b226279223a5b5d2c226e6f6e6365223a22222c226f70656e223a66616c73652c22756e74696c223a22227d2c2263616c6c223a7b226964223a226b657074227d2c22636f6e74657874223a7b226174746573746564223a7b7d2c22636c61696d6564223a7b7d7d2c22656666656374223a7b22626f64795f6279746573223a322c22686f7374223a223132372e302e302e31222c226b696e64223a2268747470222c226d6574686f64223a22504f5354222c2270617468223a222f646f222c22706f7274223a33383532372c227175657279223a5b5d2c22736368656d65223a2268747470227d2c2266696e64696e6773223a5b5d2c22686973746f7279223a7b2263616c6c73223a302c2264656e696564223a302c226572726f7273223a307d2c226f627365727665223a5b5d2c22706f6f6c73223a5b5d2c2271756f72756d223a7b2262795f68616e64223a5b5d7d2c2272756e223a7b2263616c6c73223a302c22636f7374223a302c226572726f7273223a302c226964223a2262336239393339612d333631342d346335312d613066322d313064386430653732373066222c226c6162656c73223a7b7d2c226d6f6465223a22656e666f726365222c226f70656e65645f6174223a22323032362d31312d32335430393a34323a33332e3735315a227d2c2274696d65223a7b22686f7572223a392c226d696e757465223a34322c2272666333333339223a22323032362d31312d32335430393a34323a33342e3532385a222c22747a223a22555443222c22756e6978223a313739353432363935342c227765656b646179223a226d6f6e646179227d2c22746f6f6c223a7b22646566696e6974696f6e223a227368613235363a65376436363963663831393738313266373866373064346436336132383463303464326538613937383930323864303336343335613536343466363138643663222c226b696e64223a2268747470222c226e616d65223a22776f726b2e646f222c22726561645f6f6e6c79223a66616c73652c2274696572223a225431227d2c2276223a227769636b6574676174652f696e7075742f31227d', '2026-11-23 09:42:34.541937+00'),
	('\xee962ba90300d05b094469ed4743a3fa', '\xb76a15c8625d41ed3a3d77b88789cdfcf3c87922e21c051ad7ee01ab3a7f7555', '\xbce79e9e3bf055996a0f358933b4bbcb42b29469cecb6d11f6fc65bf5a26e83e', 'result', 'application/json', '\x7b22626f6479223a7b22646f6e65223a747275657d2c22636f6e74656e745f74797065223a226170706c69636174696f6e2f6a736f6e222c22737461747573223a3230307d', '2026-11-23 09:42:34.55631+00'),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', '\x674c1aaeb4f99c70111a4e1b408a539a811df9823ebf36fa4d24e3f067233bb0', '\x86487f68c24d965f39ad08f2c7da9d9f3f832b4e71bf7dd023468a8fbd0576b4', 'args', 'application/json', '\x7b226e223a307d', '2026-11-23 09:42:35.81701+00'),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', '\xa3624bfb86475a4166fa64e11ca1967072d47924ba6236374ddd051476afd899', '\xb851ebf6e06be9a585bdae13e6158b7c4190df08010f65378824f44fe1128b91', 'policy_input', 'application/json', '\x7b226167656e74223a7b2262696e64696e67223a22636c61696d6564222c2264656c65676174696f6e223a5b5d2c226964223a22746573742d6167656e74222c226c6162656c73223a7b7d2c226d616e6966657374223a227368613235363a65666436636261663434383234623231386162343639663730613065346432623063353930356563303838363438376164663963393037636663626637363265222c226f776e6572223a227465737473406578616d706c652e636f6d222c2276657273696f6e223a22312e302e30227d2c22617070726f76616c73223a5b5d2c2261726773223a7b226e223a307d2c22627265616b5f676c617373223a7b226279223a5b5d2c226e6f6e6365223a22222c226f70656e223a66616c73652c22756e74696c223a22227d2c2263616c6c223a7b226964223a226330227d2c22636f6e74657874223a7b226174746573746564223a7b7d2c22636c61696d6564223a7b7d7d2c22656666656374223a7b22626f64795f6279746573223a372c22686f7374223a223132372e302e302e31222c226b696e64223a2268747470222c226d6574686f64223a22504f5354222c2270617468223a222f646f222c22706f7274223a33383532372c227175657279223a5b5d2c22736368656d65223a2268747470227d2c2266696e64696e6773223a5b5d2c22686973746f7279223a7b2263616c6c73223a302c2264656e696564223a302c226572726f7273223a307d2c226f627365727665223a5b5d2c22706f6f6c73223a5b5d2c2271756f72756d223a7b2262795f68616e64223a5b5d7d2c2272756e223a7b2263616c6c73223a302c22636f7374223a302c226572726f7273223a302c226964223a2230666263313833632d313966392d343665662d383638642d393162343566613766623534222c226c6162656c73223a7b7d2c226d6f6465223a22656e666f726365222c226f70656e65645f6174223a22323032362d31312d32335430393a34323a33352e3236355a227d2c2274696d65223a7b22686f7572223a392c226d696e757465223a34322c2272666333333339223a22323032362d31312d32335430393a34323a33352e3739375a222c22747a223a22555443222c22756e6978223a313739353432363935352c227765656b646179223a226d6f6e646179227d2c22746f6f6c223a7b22646566696e6974696f6e223a227368613235363a65376436363963663831393738313266373866373064346436336132383463303464326538613937383930323864303336343335613536343466363138643663222c226b696e64223a2268747470222c226e616d65223a22776f726b2e646f222c22726561645f6f6e6c79223a66616c73652c2274696572223a225431227d2c2276223a227769636b6574676174652f696e7075742f31227d', '2026-11-23 09:42:35.817268+00'),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', '\x5ebbf3016b612d2629511df42a7f7e5033882c10ea1e9882815265b9f97e80c9', '\x27ceaf9eef10258a9e9211fdb0217ab065bc9243a85e9f519123279543eb41bf', 'result', 'application/json', '\x7b22626f6479223a7b22646f6e65223a747275657d2c22636f6e74656e745f74797065223a226170706c69636174696f6e2f6a736f6e222c22737461747573223a3230307d', '2026-11-23 09:42:35.831097+00'),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', '\xeaa15da41f8c18592100b3a126758a2000162abb12d6c159a1c266427d987364', '\xf16d01e5b25d8527361e359b767b735a6c3c3a0a3c0e796a098342c32941f32e', 'args', 'application/json', '\x7b226e223a317d', '2026-11-23 09:42:36.460285+00'),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', '\x76296a65252fab30eac6dd3710a09a5d89f904e50e0d7b47f18411757e53d7aa', '\xd499d5002cc998f0e363367a8011060a755b55caafd3c2cd9ebe8d0d89612316', 'policy_input', 'application/json', '\x7b226167656e74223a7b2262696e64696e67223a22636c61696d6564222c2264656c65676174696f6e223a5b5d2c226964223a22746573742d6167656e74222c226c6162656c73223a7b7d2c226d616e6966657374223a227368613235363a65666436636261663434383234623231386162343639663730613065346432623063353930356563303838363438376164663963393037636663626637363265222c226f776e6572223a227465737473406578616d706c652e636f6d222c2276657273696f6e223a22312e302e30227d2c22617070726f76616c73223a5b5d2c2261726773223a7b226e223a317d2c22627265616b5f676c617373223a7b226279223a5b5d2c226e6f6e6365223a22222c226f70656e223a66616c73652c22756e74696c223a22227d2c2263616c6c223a7b226964223a226331227d2c22636f6e74657874223a7b226174746573746564223a7b7d2c22636c61696d6564223a7b7d7d2c22656666656374223a7b22626f64795f6279746573223a372c22686f7374223a223132372e302e302e31222c226b696e64223a2268747470222c226d6574686f64223a22504f5354222c2270617468223a222f646f222c22706f7274223a33383532372c227175657279223a5b5d2c22736368656d65223a2268747470227d2c2266696e64696e6773223a5b5d2c22686973746f7279223a7b2263616c6c73223a312c2264656e696564223a302c226572726f7273223a307d2c226f627365727665223a5b5d2c22706f6f6c73223a5b5d2c2271756f72756d223a7b2262795f68616e64223a5b5d7d2c2272756e223a7b2263616c6c73223a312c22636f7374223a302c226572726f7273223a302c226964223a2230666263313833632d313966392d343665662d383638642d393162343566613766623534222c226c6162656c73223a7b7d2c226d6f6465223a22656e666f726365222c226f70656e65645f6174223a22323032362d31312d32335430393a34323a33352e3236355a227d2c2274696d65223a7b22686f7572223a392c226d696e757465223a34322c2272666333333339223a22323032362d31312d32335430393a34323a33362e3435355a222c22747a223a22555443222c22756e6978223a313739353432363935362c227765656b646179223a226d6f6e646179227d2c22746f6f6c223a7b22646566696e6974696f6e223a227368613235363a65376436363963663831393738313266373866373064346436336132383463303464326538613937383930323864303336343335613536343466363138643663222c226b696e64223a2268747470222c226e616d65223a22776f726b2e646f222c22726561645f6f6e6c79223a66616c73652c2274696572223a225431227d2c2276223a227769636b6574676174652f696e7075742f31227d', '2026-11-23 09:42:36.460326+00'),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', '\xda09d2200d39a83533d39b8b8d4fafde734c62acb6315397fa578e539e2d68cc', '\x8cc8627f6e9157b8a47b66b6012fa578a726eae8d9489052541565967d8d5ba9', 'result', 'application/json', '\x7b22626f6479223a7b22646f6e65223a747275657d2c22636f6e74656e745f74797065223a226170706c69636174696f6e2f6a736f6e222c22737461747573223a3230307d', '2026-11-23 09:42:36.473999+00'),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', '\xb3f8f4a677d0790704196d5d0904d64ce3d41174c83129449a21edbe1cdcb3f3', '\xb5d26ba28c8fe1e234896cf8b227b142180fdfc55589271fdf0346ebbcf0f141', 'args', 'application/json', '\x7b226e223a327d', '2026-11-23 09:42:37.090088+00'),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', '\xa531ff53efa82c53948f9d2e72d35a063d167c99d093675c1ddff9acce08dfbf', '\x9ea272d03ea4957f2c96347d14812f034e9abe8e84e5ca6abdab8136d669d00f', 'policy_input', 'application/json', '\x7b226167656e74223a7b2262696e64696e67223a22636c61696d6564222c2264656c65676174696f6e223a5b5d2c226964223a22746573742d6167656e74222c226c6162656c73223a7b7d2c226d616e6966657374223a227368613235363a65666436636261663434383234623231386162343639663730613065346432623063353930356563303838363438376164663963393037636663626637363265222c226f776e6572223a227465737473406578616d706c652e636f6d222c2276657273696f6e223a22312e302e30227d2c22617070726f76616c73223a5b5d2c2261726773223a7b226e223a327d2c22627265616b5f676c617373223a7b226279223a5b5d2c226e6f6e6365223a22222c226f70656e223a66616c73652c22756e74696c223a22227d2c2263616c6c223a7b226964223a226332227d2c22636f6e74657874223a7b226174746573746564223a7b7d2c22636c61696d6564223a7b7d7d2c22656666656374223a7b22626f64795f6279746573223a372c22686f7374223a223132372e302e302e31222c226b696e64223a2268747470222c226d6574686f64223a22504f5354222c2270617468223a222f646f222c22706f7274223a33383532372c227175657279223a5b5d2c22736368656d65223a2268747470227d2c2266696e64696e6773223a5b5d2c22686973746f7279223a7b2263616c6c73223a322c2264656e696564223a302c226572726f7273223a307d2c226f627365727665223a5b5d2c22706f6f6c73223a5b5d2c2271756f72756d223a7b2262795f68616e64223a5b5d7d2c2272756e223a7b2263616c6c73223a322c22636f7374223a302c226572726f7273223a302c226964223a2230666263313833632d313966392d343665662d383638642d393162343566613766623534222c226c6162656c73223a7b7d2c226d6f6465223a22656e666f726365222c226f70656e65645f6174223a22323032362d31312d32335430393a34323a33352e3236355a227d2c2274696d65223a7b22686f7572223a392c226d696e757465223a34322c2272666333333339223a22323032362d31312d32335430393a34323a33372e3038305a222c22747a223a22555443222c22756e6978223a313739353432363935372c227765656b646179223a226d6f6e646179227d2c22746f6f6c223a7b22646566696e6974696f6e223a227368613235363a65376436363963663831393738313266373866373064346436336132383463303464326538613937383930323864303336343335613536343466363138643663222c226b696e64223a2268747470222c226e616d65223a22776f726b2e646f222c22726561645f6f6e6c79223a66616c73652c2274696572223a225431227d2c2276223a227769636b6574676174652f696e7075742f31227d', '2026-11-23 09:42:37.090126+00'),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', '\x114f2782ae87ddb4696da86c1777aa2238777d50a53e7be3abfb99645aec000d', '\x8605708cc110dcd65cde9804842c9ce8915237ec5926f001039a980957aeac3f', 'result', 'application/json', '\x7b22626f6479223a7b22646f6e65223a747275657d2c22636f6e74656e745f74797065223a226170706c69636174696f6e2f6a736f6e222c22737461747573223a3230307d', '2026-11-23 09:42:37.102007+00'),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', '\x3918249fa39a4a28a6a7a26df61048912f9d94d572000e031f91c057aa18b888', '\x6cd2fb2fc4cc05136bee4fa4cdfa6ffc689b3fc85cb84c95db961dead57c1131', 'args', 'application/json', '\x7b7d', '2026-11-23 09:42:37.768279+00'),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', '\xc450da5b65df16974bc8364272e9c8e05caf167d1eec3398f41243fd229e4233', '\x64baa19a07e31e5be8f5ec7807618719f292e75294f185aaa947ed38c21bbb14', 'policy_input', 'application/json', '\x7b226167656e74223a7b2262696e64696e67223a22636c61696d6564222c2264656c65676174696f6e223a5b5d2c226964223a22746573742d6167656e74222c226c6162656c73223a7b7d2c226d616e6966657374223a227368613235363a65666436636261663434383234623231386162343639663730613065346432623063353930356563303838363438376164663963393037636663626637363265222c226f776e6572223a227465737473406578616d706c652e636f6d222c2276657273696f6e223a22312e302e30227d2c22617070726f76616c73223a5b5d2c2261726773223a7b7d2c22627265616b5f676c617373223a7b226279223a5b5d2c226e6f6e6365223a22222c226f70656e223a66616c73652c22756e74696c223a22227d2c2263616c6c223a7b226964223a22632d6131383334666163356234353730656366373661393862386662376462313332227d2c22636f6e74657874223a7b226174746573746564223a7b7d2c22636c61696d6564223a7b7d7d2c22656666656374223a7b22626f64795f6279746573223a322c22686f7374223a223132372e302e302e31222c226b696e64223a2268747470222c226d6574686f64223a22504f5354222c2270617468223a222f646f222c22706f7274223a33383532372c227175657279223a5b5d2c22736368656d65223a2268747470227d2c2266696e64696e6773223a5b5d2c22686973746f7279223a7b2263616c6c73223a332c2264656e696564223a302c226572726f7273223a307d2c226f627365727665223a5b5d2c22706f6f6c73223a5b5d2c2271756f72756d223a7b2262795f68616e64223a5b5d7d2c2272756e223a7b2263616c6c73223a332c22636f7374223a302c226572726f7273223a302c226964223a2230666263313833632d313966392d343665662d383638642d393162343566613766623534222c226c6162656c73223a7b7d2c226d6f6465223a22656e666f726365222c226f70656e65645f6174223a22323032362d31312d32335430393a34323a33352e3236355a227d2c2274696d65223a7b22686f7572223a392c226d696e757465223a34322c2272666333333339223a22323032362d31312d32335430393a34323a33372e3736305a222c22747a223a22555443222c22756e6978223a313739353432363935372c227765656b646179223a226d6f6e646179227d2c22746f6f6c223a7b22646566696e6974696f6e223a227368613235363a30366336633166623336623666323632313133373837636235306638343362633336653232346339656564383165396366326436336137396233393366393831222c226b696e64223a2268747470222c226e616d65223a22776f726b2e6f74686572222c22726561645f6f6e6c79223a66616c73652c2274696572223a225431227d2c2276223a227769636b6574676174652f696e7075742f31227d', '2026-11-23 09:42:37.76832+00'),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', '\x85bf2b4739e39e243ba83ffb49f4061304c685398f1bccb6436c0d6f0a1b5b94', '\xac3c9756786cb654d8dfff3bc5fff389ec32b05bee9d1061478613ffad93cd46', 'args', 'application/json', '\x7b7d', '2026-11-23 09:42:39.649099+00'),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', '\x3eddf1f1bcb475e52d886295039b107586d9b1ea6b103576cdf040fb9a76e295', '\x6fec03bc1661a8e24112e17edb11fe10487307172a83f0e265e2db9cdb18128d', 'policy_input', 'application/json', '\x7b226167656e74223a7b2262696e64696e67223a22636c61696d6564222c2264656c65676174696f6e223a5b5d2c226964223a22746573742d6167656e74222c226c6162656c73223a7b7d2c226d616e6966657374223a227368613235363a65666436636261663434383234623231386162343639663730613065346432623063353930356563303838363438376164663963393037636663626637363265222c226f776e6572223a227465737473406578616d706c652e636f6d222c2276657273696f6e223a22312e302e30227d2c22617070726f76616c73223a5b5d2c2261726773223a7b7d2c22627265616b5f676c617373223a7b226279223a5b5d2c226e6f6e6365223a22222c226f70656e223a66616c73652c22756e74696c223a22227d2c2263616c6c223a7b226964223a226b657074227d2c22636f6e74657874223a7b226174746573746564223a7b7d2c22636c61696d6564223a7b7d7d2c22656666656374223a7b22626f64795f6279746573223a322c22686f7374223a223132372e302e302e31222c226b696e64223a2268747470222c226d6574686f64223a22504f5354222c2270617468223a222f646f222c22706f7274223a33383532372c227175657279223a5b5d2c22736368656d65223a2268747470227d2c2266696e64696e6773223a5b5d2c22686973746f7279223a7b2263616c6c73223a302c2264656e696564223a302c226572726f7273223a307d2c226f627365727665223a5b5d2c22706f6f6c73223a5b5d2c2271756f72756d223a7b2262795f68616e64223a5b5d7d2c2272756e223a7b2263616c6c73223a302c22636f7374223a302c226572726f7273223a302c226964223a2235383132323337352d376161322d346330662d393037352d343262353738316166313036222c226c6162656c73223a7b7d2c226d6f6465223a22656e666f726365222c226f70656e65645f6174223a22323032362d31312d32335430393a34323a33392e3032305a227d2c2274696d65223a7b22686f7572223a392c226d696e757465223a34322c2272666333333339223a22323032362d31312d32335430393a34323a33392e3634315a222c22747a223a22555443222c22756e6978223a313739353432363935392c227765656b646179223a226d6f6e646179227d2c22746f6f6c223a7b22646566696e6974696f6e223a227368613235363a65376436363963663831393738313266373866373064346436336132383463303464326538613937383930323864303336343335613536343466363138643663222c226b696e64223a2268747470222c226e616d65223a22776f726b2e646f222c22726561645f6f6e6c79223a66616c73652c2274696572223a225431227d2c2276223a227769636b6574676174652f696e7075742f31227d', '2026-11-23 09:42:39.649138+00'),
	('\xc8e66fc8a06791ec8f6b425c28a7c76e', '\x0ad86573c8c9ed1a576a44f3184a53d6a0992f5b4dbfa42501f133b9844bdcb8', '\x588a83527d2f5e67fe1b9781608a0e960a2056fafd716bef7957b5df55dfe447', 'result', 'application/json', '\x7b22626f6479223a7b22646f6e65223a747275657d2c22636f6e74656e745f74797065223a226170706c69636174696f6e2f6a736f6e222c22737461747573223a3230307d', '2026-11-23 09:42:39.666092+00');


--
-- Data for Name: pool_gate; Type: TABLE DATA; Schema: ledger; Owner: ledger_owner
--



--
-- Data for Name: pool_hold; Type: TABLE DATA; Schema: ledger; Owner: ledger_owner
--



--
-- Data for Name: pool_window; Type: TABLE DATA; Schema: ledger; Owner: ledger_owner
--



--
-- Data for Name: pruned; Type: TABLE DATA; Schema: ledger; Owner: ledger_owner
--



--
-- Data for Name: reader_tenant; Type: TABLE DATA; Schema: ledger; Owner: ledger_owner
--

INSERT INTO ledger.reader_tenant VALUES
	('wg_reader', NULL);


--
-- Data for Name: schema_version; Type: TABLE DATA; Schema: ledger; Owner: ledger_owner
--

INSERT INTO ledger.schema_version VALUES
	(1, '2026-11-23 09:42:26.593622+00'),
	(2, '2026-11-23 09:42:26.593622+00'),
	(3, '2026-11-23 09:42:26.593622+00'),
	(4, '2026-11-23 09:42:26.593622+00'),
	(5, '2026-11-23 09:42:26.593622+00'),
	(6, '2026-11-23 09:42:26.593622+00'),
	(7, '2026-11-23 09:42:26.593622+00'),
	(8, '2026-11-23 09:42:26.593622+00'),
	(9, '2026-11-23 09:42:26.593622+00'),
	(10, '2026-11-23 09:42:26.593622+00');


--
-- Data for Name: subtree; Type: TABLE DATA; Schema: ledger; Owner: ledger_owner
--



--
-- Data for Name: writer_tenant; Type: TABLE DATA; Schema: ledger; Owner: ledger_owner
--

INSERT INTO ledger.writer_tenant VALUES
	('wg_writer', 'default');


--
-- Name: anchor anchor_pkey; Type: CONSTRAINT; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ONLY ledger.anchor
    ADD CONSTRAINT anchor_pkey PRIMARY KEY (chain_id, size);


--
-- Name: chain chain_origin_key; Type: CONSTRAINT; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ONLY ledger.chain
    ADD CONSTRAINT chain_origin_key UNIQUE (origin);


--
-- Name: chain chain_pkey; Type: CONSTRAINT; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ONLY ledger.chain
    ADD CONSTRAINT chain_pkey PRIMARY KEY (chain_id);


--
-- Name: chain chain_slot; Type: CONSTRAINT; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ONLY ledger.chain
    ADD CONSTRAINT chain_slot UNIQUE (tenant_id, pool, slot, n);


--
-- Name: checkpoint checkpoint_pkey; Type: CONSTRAINT; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ONLY ledger.checkpoint
    ADD CONSTRAINT checkpoint_pkey PRIMARY KEY (chain_id, size);


--
-- Name: control_head control_head_pkey; Type: CONSTRAINT; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ONLY ledger.control_head
    ADD CONSTRAINT control_head_pkey PRIMARY KEY (tenant_id);


--
-- Name: control_presence control_presence_pkey; Type: CONSTRAINT; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ONLY ledger.control_presence
    ADD CONSTRAINT control_presence_pkey PRIMARY KEY (tenant_id, origin);


--
-- Name: control_report control_report_pkey; Type: CONSTRAINT; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ONLY ledger.control_report
    ADD CONSTRAINT control_report_pkey PRIMARY KEY (tenant_id, seq, origin);


--
-- Name: control_row control_row_pkey; Type: CONSTRAINT; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ONLY ledger.control_row
    ADD CONSTRAINT control_row_pkey PRIMARY KEY (tenant_id, seq);


--
-- Name: entry entry_pkey; Type: CONSTRAINT; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ONLY ledger.entry
    ADD CONSTRAINT entry_pkey PRIMARY KEY (chain_id, seq);


--
-- Name: entry_p0 entry_p0_pkey1; Type: CONSTRAINT; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ONLY ledger.entry_p0
    ADD CONSTRAINT entry_p0_pkey1 PRIMARY KEY (chain_id, seq);


--
-- Name: entry_p0_0 entry_p0_pkey; Type: CONSTRAINT; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ONLY ledger.entry_p0_0
    ADD CONSTRAINT entry_p0_pkey PRIMARY KEY (chain_id, seq);


--
-- Name: entry_p1 entry_p1_pkey1; Type: CONSTRAINT; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ONLY ledger.entry_p1
    ADD CONSTRAINT entry_p1_pkey1 PRIMARY KEY (chain_id, seq);


--
-- Name: entry_p1_0 entry_p1_pkey; Type: CONSTRAINT; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ONLY ledger.entry_p1_0
    ADD CONSTRAINT entry_p1_pkey PRIMARY KEY (chain_id, seq);


--
-- Name: entry_p2 entry_p2_pkey1; Type: CONSTRAINT; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ONLY ledger.entry_p2
    ADD CONSTRAINT entry_p2_pkey1 PRIMARY KEY (chain_id, seq);


--
-- Name: entry_p2_0 entry_p2_pkey; Type: CONSTRAINT; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ONLY ledger.entry_p2_0
    ADD CONSTRAINT entry_p2_pkey PRIMARY KEY (chain_id, seq);


--
-- Name: entry_p3 entry_p3_pkey1; Type: CONSTRAINT; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ONLY ledger.entry_p3
    ADD CONSTRAINT entry_p3_pkey1 PRIMARY KEY (chain_id, seq);


--
-- Name: entry_p3_0 entry_p3_pkey; Type: CONSTRAINT; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ONLY ledger.entry_p3_0
    ADD CONSTRAINT entry_p3_pkey PRIMARY KEY (chain_id, seq);


--
-- Name: fleet_said fleet_said_pkey; Type: CONSTRAINT; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ONLY ledger.fleet_said
    ADD CONSTRAINT fleet_said_pkey PRIMARY KEY (tenant_id, log, kind);


--
-- Name: head head_pkey; Type: CONSTRAINT; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ONLY ledger.head
    ADD CONSTRAINT head_pkey PRIMARY KEY (chain_id);


--
-- Name: open_run open_run_pkey; Type: CONSTRAINT; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ONLY ledger.open_run
    ADD CONSTRAINT open_run_pkey PRIMARY KEY (chain_id, run_id);


--
-- Name: payload payload_pkey; Type: CONSTRAINT; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ONLY ledger.payload
    ADD CONSTRAINT payload_pkey PRIMARY KEY (chain_id, commitment);


--
-- Name: pool_gate pool_gate_pkey; Type: CONSTRAINT; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ONLY ledger.pool_gate
    ADD CONSTRAINT pool_gate_pkey PRIMARY KEY (tenant_id, pool, starts, holder);


--
-- Name: pool_hold pool_hold_pkey; Type: CONSTRAINT; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ONLY ledger.pool_hold
    ADD CONSTRAINT pool_hold_pkey PRIMARY KEY (tenant_id, pool, holder);


--
-- Name: pool_window pool_window_pkey; Type: CONSTRAINT; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ONLY ledger.pool_window
    ADD CONSTRAINT pool_window_pkey PRIMARY KEY (tenant_id, pool, starts);


--
-- Name: pruned pruned_pkey; Type: CONSTRAINT; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ONLY ledger.pruned
    ADD CONSTRAINT pruned_pkey PRIMARY KEY (chain_id, low, high);


--
-- Name: reader_tenant reader_tenant_pkey; Type: CONSTRAINT; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ONLY ledger.reader_tenant
    ADD CONSTRAINT reader_tenant_pkey PRIMARY KEY (role);


--
-- Name: schema_version schema_version_pkey; Type: CONSTRAINT; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ONLY ledger.schema_version
    ADD CONSTRAINT schema_version_pkey PRIMARY KEY (version);


--
-- Name: subtree subtree_pkey; Type: CONSTRAINT; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ONLY ledger.subtree
    ADD CONSTRAINT subtree_pkey PRIMARY KEY (chain_id, height, idx);


--
-- Name: writer_tenant writer_tenant_pkey; Type: CONSTRAINT; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ONLY ledger.writer_tenant
    ADD CONSTRAINT writer_tenant_pkey PRIMARY KEY (role);


--
-- Name: entry_call; Type: INDEX; Schema: ledger; Owner: ledger_owner
--

CREATE INDEX entry_call ON ONLY ledger.entry USING btree (chain_id, run_id, call_id) WHERE (call_id IS NOT NULL);


--
-- Name: entry_lone; Type: INDEX; Schema: ledger; Owner: ledger_owner
--

CREATE INDEX entry_lone ON ONLY ledger.entry USING btree (chain_id, kind, seq) WHERE (run_id IS NULL);


--
-- Name: entry_p0_chain_id_kind_seq_idx1; Type: INDEX; Schema: ledger; Owner: ledger_owner
--

CREATE INDEX entry_p0_chain_id_kind_seq_idx1 ON ONLY ledger.entry_p0 USING btree (chain_id, kind, seq) WHERE (run_id IS NULL);


--
-- Name: entry_p0_chain_id_kind_seq_idx; Type: INDEX; Schema: ledger; Owner: ledger_owner
--

CREATE INDEX entry_p0_chain_id_kind_seq_idx ON ledger.entry_p0_0 USING btree (chain_id, kind, seq) WHERE (run_id IS NULL);


--
-- Name: entry_p0_chain_id_run_id_call_id_idx1; Type: INDEX; Schema: ledger; Owner: ledger_owner
--

CREATE INDEX entry_p0_chain_id_run_id_call_id_idx1 ON ONLY ledger.entry_p0 USING btree (chain_id, run_id, call_id) WHERE (call_id IS NOT NULL);


--
-- Name: entry_p0_chain_id_run_id_call_id_idx; Type: INDEX; Schema: ledger; Owner: ledger_owner
--

CREATE INDEX entry_p0_chain_id_run_id_call_id_idx ON ledger.entry_p0_0 USING btree (chain_id, run_id, call_id) WHERE (call_id IS NOT NULL);


--
-- Name: entry_run; Type: INDEX; Schema: ledger; Owner: ledger_owner
--

CREATE INDEX entry_run ON ONLY ledger.entry USING btree (chain_id, run_id, seq) WHERE (run_id IS NOT NULL);


--
-- Name: entry_p0_chain_id_run_id_seq_idx1; Type: INDEX; Schema: ledger; Owner: ledger_owner
--

CREATE INDEX entry_p0_chain_id_run_id_seq_idx1 ON ONLY ledger.entry_p0 USING btree (chain_id, run_id, seq) WHERE (run_id IS NOT NULL);


--
-- Name: entry_p0_chain_id_run_id_seq_idx; Type: INDEX; Schema: ledger; Owner: ledger_owner
--

CREATE INDEX entry_p0_chain_id_run_id_seq_idx ON ledger.entry_p0_0 USING btree (chain_id, run_id, seq) WHERE (run_id IS NOT NULL);


--
-- Name: entry_p1_chain_id_kind_seq_idx1; Type: INDEX; Schema: ledger; Owner: ledger_owner
--

CREATE INDEX entry_p1_chain_id_kind_seq_idx1 ON ONLY ledger.entry_p1 USING btree (chain_id, kind, seq) WHERE (run_id IS NULL);


--
-- Name: entry_p1_chain_id_kind_seq_idx; Type: INDEX; Schema: ledger; Owner: ledger_owner
--

CREATE INDEX entry_p1_chain_id_kind_seq_idx ON ledger.entry_p1_0 USING btree (chain_id, kind, seq) WHERE (run_id IS NULL);


--
-- Name: entry_p1_chain_id_run_id_call_id_idx1; Type: INDEX; Schema: ledger; Owner: ledger_owner
--

CREATE INDEX entry_p1_chain_id_run_id_call_id_idx1 ON ONLY ledger.entry_p1 USING btree (chain_id, run_id, call_id) WHERE (call_id IS NOT NULL);


--
-- Name: entry_p1_chain_id_run_id_call_id_idx; Type: INDEX; Schema: ledger; Owner: ledger_owner
--

CREATE INDEX entry_p1_chain_id_run_id_call_id_idx ON ledger.entry_p1_0 USING btree (chain_id, run_id, call_id) WHERE (call_id IS NOT NULL);


--
-- Name: entry_p1_chain_id_run_id_seq_idx1; Type: INDEX; Schema: ledger; Owner: ledger_owner
--

CREATE INDEX entry_p1_chain_id_run_id_seq_idx1 ON ONLY ledger.entry_p1 USING btree (chain_id, run_id, seq) WHERE (run_id IS NOT NULL);


--
-- Name: entry_p1_chain_id_run_id_seq_idx; Type: INDEX; Schema: ledger; Owner: ledger_owner
--

CREATE INDEX entry_p1_chain_id_run_id_seq_idx ON ledger.entry_p1_0 USING btree (chain_id, run_id, seq) WHERE (run_id IS NOT NULL);


--
-- Name: entry_p2_chain_id_kind_seq_idx1; Type: INDEX; Schema: ledger; Owner: ledger_owner
--

CREATE INDEX entry_p2_chain_id_kind_seq_idx1 ON ONLY ledger.entry_p2 USING btree (chain_id, kind, seq) WHERE (run_id IS NULL);


--
-- Name: entry_p2_chain_id_kind_seq_idx; Type: INDEX; Schema: ledger; Owner: ledger_owner
--

CREATE INDEX entry_p2_chain_id_kind_seq_idx ON ledger.entry_p2_0 USING btree (chain_id, kind, seq) WHERE (run_id IS NULL);


--
-- Name: entry_p2_chain_id_run_id_call_id_idx1; Type: INDEX; Schema: ledger; Owner: ledger_owner
--

CREATE INDEX entry_p2_chain_id_run_id_call_id_idx1 ON ONLY ledger.entry_p2 USING btree (chain_id, run_id, call_id) WHERE (call_id IS NOT NULL);


--
-- Name: entry_p2_chain_id_run_id_call_id_idx; Type: INDEX; Schema: ledger; Owner: ledger_owner
--

CREATE INDEX entry_p2_chain_id_run_id_call_id_idx ON ledger.entry_p2_0 USING btree (chain_id, run_id, call_id) WHERE (call_id IS NOT NULL);


--
-- Name: entry_p2_chain_id_run_id_seq_idx1; Type: INDEX; Schema: ledger; Owner: ledger_owner
--

CREATE INDEX entry_p2_chain_id_run_id_seq_idx1 ON ONLY ledger.entry_p2 USING btree (chain_id, run_id, seq) WHERE (run_id IS NOT NULL);


--
-- Name: entry_p2_chain_id_run_id_seq_idx; Type: INDEX; Schema: ledger; Owner: ledger_owner
--

CREATE INDEX entry_p2_chain_id_run_id_seq_idx ON ledger.entry_p2_0 USING btree (chain_id, run_id, seq) WHERE (run_id IS NOT NULL);


--
-- Name: entry_p3_chain_id_kind_seq_idx1; Type: INDEX; Schema: ledger; Owner: ledger_owner
--

CREATE INDEX entry_p3_chain_id_kind_seq_idx1 ON ONLY ledger.entry_p3 USING btree (chain_id, kind, seq) WHERE (run_id IS NULL);


--
-- Name: entry_p3_chain_id_kind_seq_idx; Type: INDEX; Schema: ledger; Owner: ledger_owner
--

CREATE INDEX entry_p3_chain_id_kind_seq_idx ON ledger.entry_p3_0 USING btree (chain_id, kind, seq) WHERE (run_id IS NULL);


--
-- Name: entry_p3_chain_id_run_id_call_id_idx1; Type: INDEX; Schema: ledger; Owner: ledger_owner
--

CREATE INDEX entry_p3_chain_id_run_id_call_id_idx1 ON ONLY ledger.entry_p3 USING btree (chain_id, run_id, call_id) WHERE (call_id IS NOT NULL);


--
-- Name: entry_p3_chain_id_run_id_call_id_idx; Type: INDEX; Schema: ledger; Owner: ledger_owner
--

CREATE INDEX entry_p3_chain_id_run_id_call_id_idx ON ledger.entry_p3_0 USING btree (chain_id, run_id, call_id) WHERE (call_id IS NOT NULL);


--
-- Name: entry_p3_chain_id_run_id_seq_idx1; Type: INDEX; Schema: ledger; Owner: ledger_owner
--

CREATE INDEX entry_p3_chain_id_run_id_seq_idx1 ON ONLY ledger.entry_p3 USING btree (chain_id, run_id, seq) WHERE (run_id IS NOT NULL);


--
-- Name: entry_p3_chain_id_run_id_seq_idx; Type: INDEX; Schema: ledger; Owner: ledger_owner
--

CREATE INDEX entry_p3_chain_id_run_id_seq_idx ON ledger.entry_p3_0 USING btree (chain_id, run_id, seq) WHERE (run_id IS NOT NULL);


--
-- Name: payload_age; Type: INDEX; Schema: ledger; Owner: ledger_owner
--

CREATE INDEX payload_age ON ledger.payload USING btree (role, stored_at);


--
-- Name: entry_p0_chain_id_kind_seq_idx; Type: INDEX ATTACH; Schema: ledger; Owner: ledger_owner
--

ALTER INDEX ledger.entry_p0_chain_id_kind_seq_idx1 ATTACH PARTITION ledger.entry_p0_chain_id_kind_seq_idx;


--
-- Name: entry_p0_chain_id_kind_seq_idx1; Type: INDEX ATTACH; Schema: ledger; Owner: ledger_owner
--

ALTER INDEX ledger.entry_lone ATTACH PARTITION ledger.entry_p0_chain_id_kind_seq_idx1;


--
-- Name: entry_p0_chain_id_run_id_call_id_idx; Type: INDEX ATTACH; Schema: ledger; Owner: ledger_owner
--

ALTER INDEX ledger.entry_p0_chain_id_run_id_call_id_idx1 ATTACH PARTITION ledger.entry_p0_chain_id_run_id_call_id_idx;


--
-- Name: entry_p0_chain_id_run_id_call_id_idx1; Type: INDEX ATTACH; Schema: ledger; Owner: ledger_owner
--

ALTER INDEX ledger.entry_call ATTACH PARTITION ledger.entry_p0_chain_id_run_id_call_id_idx1;


--
-- Name: entry_p0_chain_id_run_id_seq_idx; Type: INDEX ATTACH; Schema: ledger; Owner: ledger_owner
--

ALTER INDEX ledger.entry_p0_chain_id_run_id_seq_idx1 ATTACH PARTITION ledger.entry_p0_chain_id_run_id_seq_idx;


--
-- Name: entry_p0_chain_id_run_id_seq_idx1; Type: INDEX ATTACH; Schema: ledger; Owner: ledger_owner
--

ALTER INDEX ledger.entry_run ATTACH PARTITION ledger.entry_p0_chain_id_run_id_seq_idx1;


--
-- Name: entry_p0_pkey; Type: INDEX ATTACH; Schema: ledger; Owner: ledger_owner
--

ALTER INDEX ledger.entry_p0_pkey1 ATTACH PARTITION ledger.entry_p0_pkey;


--
-- Name: entry_p0_pkey1; Type: INDEX ATTACH; Schema: ledger; Owner: ledger_owner
--

ALTER INDEX ledger.entry_pkey ATTACH PARTITION ledger.entry_p0_pkey1;


--
-- Name: entry_p1_chain_id_kind_seq_idx; Type: INDEX ATTACH; Schema: ledger; Owner: ledger_owner
--

ALTER INDEX ledger.entry_p1_chain_id_kind_seq_idx1 ATTACH PARTITION ledger.entry_p1_chain_id_kind_seq_idx;


--
-- Name: entry_p1_chain_id_kind_seq_idx1; Type: INDEX ATTACH; Schema: ledger; Owner: ledger_owner
--

ALTER INDEX ledger.entry_lone ATTACH PARTITION ledger.entry_p1_chain_id_kind_seq_idx1;


--
-- Name: entry_p1_chain_id_run_id_call_id_idx; Type: INDEX ATTACH; Schema: ledger; Owner: ledger_owner
--

ALTER INDEX ledger.entry_p1_chain_id_run_id_call_id_idx1 ATTACH PARTITION ledger.entry_p1_chain_id_run_id_call_id_idx;


--
-- Name: entry_p1_chain_id_run_id_call_id_idx1; Type: INDEX ATTACH; Schema: ledger; Owner: ledger_owner
--

ALTER INDEX ledger.entry_call ATTACH PARTITION ledger.entry_p1_chain_id_run_id_call_id_idx1;


--
-- Name: entry_p1_chain_id_run_id_seq_idx; Type: INDEX ATTACH; Schema: ledger; Owner: ledger_owner
--

ALTER INDEX ledger.entry_p1_chain_id_run_id_seq_idx1 ATTACH PARTITION ledger.entry_p1_chain_id_run_id_seq_idx;


--
-- Name: entry_p1_chain_id_run_id_seq_idx1; Type: INDEX ATTACH; Schema: ledger; Owner: ledger_owner
--

ALTER INDEX ledger.entry_run ATTACH PARTITION ledger.entry_p1_chain_id_run_id_seq_idx1;


--
-- Name: entry_p1_pkey; Type: INDEX ATTACH; Schema: ledger; Owner: ledger_owner
--

ALTER INDEX ledger.entry_p1_pkey1 ATTACH PARTITION ledger.entry_p1_pkey;


--
-- Name: entry_p1_pkey1; Type: INDEX ATTACH; Schema: ledger; Owner: ledger_owner
--

ALTER INDEX ledger.entry_pkey ATTACH PARTITION ledger.entry_p1_pkey1;


--
-- Name: entry_p2_chain_id_kind_seq_idx; Type: INDEX ATTACH; Schema: ledger; Owner: ledger_owner
--

ALTER INDEX ledger.entry_p2_chain_id_kind_seq_idx1 ATTACH PARTITION ledger.entry_p2_chain_id_kind_seq_idx;


--
-- Name: entry_p2_chain_id_kind_seq_idx1; Type: INDEX ATTACH; Schema: ledger; Owner: ledger_owner
--

ALTER INDEX ledger.entry_lone ATTACH PARTITION ledger.entry_p2_chain_id_kind_seq_idx1;


--
-- Name: entry_p2_chain_id_run_id_call_id_idx; Type: INDEX ATTACH; Schema: ledger; Owner: ledger_owner
--

ALTER INDEX ledger.entry_p2_chain_id_run_id_call_id_idx1 ATTACH PARTITION ledger.entry_p2_chain_id_run_id_call_id_idx;


--
-- Name: entry_p2_chain_id_run_id_call_id_idx1; Type: INDEX ATTACH; Schema: ledger; Owner: ledger_owner
--

ALTER INDEX ledger.entry_call ATTACH PARTITION ledger.entry_p2_chain_id_run_id_call_id_idx1;


--
-- Name: entry_p2_chain_id_run_id_seq_idx; Type: INDEX ATTACH; Schema: ledger; Owner: ledger_owner
--

ALTER INDEX ledger.entry_p2_chain_id_run_id_seq_idx1 ATTACH PARTITION ledger.entry_p2_chain_id_run_id_seq_idx;


--
-- Name: entry_p2_chain_id_run_id_seq_idx1; Type: INDEX ATTACH; Schema: ledger; Owner: ledger_owner
--

ALTER INDEX ledger.entry_run ATTACH PARTITION ledger.entry_p2_chain_id_run_id_seq_idx1;


--
-- Name: entry_p2_pkey; Type: INDEX ATTACH; Schema: ledger; Owner: ledger_owner
--

ALTER INDEX ledger.entry_p2_pkey1 ATTACH PARTITION ledger.entry_p2_pkey;


--
-- Name: entry_p2_pkey1; Type: INDEX ATTACH; Schema: ledger; Owner: ledger_owner
--

ALTER INDEX ledger.entry_pkey ATTACH PARTITION ledger.entry_p2_pkey1;


--
-- Name: entry_p3_chain_id_kind_seq_idx; Type: INDEX ATTACH; Schema: ledger; Owner: ledger_owner
--

ALTER INDEX ledger.entry_p3_chain_id_kind_seq_idx1 ATTACH PARTITION ledger.entry_p3_chain_id_kind_seq_idx;


--
-- Name: entry_p3_chain_id_kind_seq_idx1; Type: INDEX ATTACH; Schema: ledger; Owner: ledger_owner
--

ALTER INDEX ledger.entry_lone ATTACH PARTITION ledger.entry_p3_chain_id_kind_seq_idx1;


--
-- Name: entry_p3_chain_id_run_id_call_id_idx; Type: INDEX ATTACH; Schema: ledger; Owner: ledger_owner
--

ALTER INDEX ledger.entry_p3_chain_id_run_id_call_id_idx1 ATTACH PARTITION ledger.entry_p3_chain_id_run_id_call_id_idx;


--
-- Name: entry_p3_chain_id_run_id_call_id_idx1; Type: INDEX ATTACH; Schema: ledger; Owner: ledger_owner
--

ALTER INDEX ledger.entry_call ATTACH PARTITION ledger.entry_p3_chain_id_run_id_call_id_idx1;


--
-- Name: entry_p3_chain_id_run_id_seq_idx; Type: INDEX ATTACH; Schema: ledger; Owner: ledger_owner
--

ALTER INDEX ledger.entry_p3_chain_id_run_id_seq_idx1 ATTACH PARTITION ledger.entry_p3_chain_id_run_id_seq_idx;


--
-- Name: entry_p3_chain_id_run_id_seq_idx1; Type: INDEX ATTACH; Schema: ledger; Owner: ledger_owner
--

ALTER INDEX ledger.entry_run ATTACH PARTITION ledger.entry_p3_chain_id_run_id_seq_idx1;


--
-- Name: entry_p3_pkey; Type: INDEX ATTACH; Schema: ledger; Owner: ledger_owner
--

ALTER INDEX ledger.entry_p3_pkey1 ATTACH PARTITION ledger.entry_p3_pkey;


--
-- Name: entry_p3_pkey1; Type: INDEX ATTACH; Schema: ledger; Owner: ledger_owner
--

ALTER INDEX ledger.entry_pkey ATTACH PARTITION ledger.entry_p3_pkey1;


--
-- Name: anchor anchor_no_delete; Type: TRIGGER; Schema: ledger; Owner: ledger_owner
--

CREATE TRIGGER anchor_no_delete BEFORE DELETE ON ledger.anchor FOR EACH ROW EXECUTE FUNCTION ledger.reject();

ALTER TABLE ledger.anchor ENABLE ALWAYS TRIGGER anchor_no_delete;


--
-- Name: head blocks_ahead; Type: TRIGGER; Schema: ledger; Owner: ledger_owner
--

CREATE TRIGGER blocks_ahead AFTER UPDATE ON ledger.head FOR EACH ROW WHEN (((old.epoch <> new.epoch) OR ((old.size / (ledger.block_entries() / 8)) <> (new.size / (ledger.block_entries() / 8))))) EXECUTE FUNCTION ledger.blocks_ahead();


--
-- Name: head blocks_at_first; Type: TRIGGER; Schema: ledger; Owner: ledger_owner
--

CREATE TRIGGER blocks_at_first AFTER INSERT ON ledger.head FOR EACH ROW EXECUTE FUNCTION ledger.blocks_ahead();


--
-- Name: checkpoint checkpoint_no_rewrite; Type: TRIGGER; Schema: ledger; Owner: ledger_owner
--

CREATE TRIGGER checkpoint_no_rewrite BEFORE DELETE OR UPDATE ON ledger.checkpoint FOR EACH ROW EXECUTE FUNCTION ledger.checkpoint_guard();

ALTER TABLE ledger.checkpoint ENABLE ALWAYS TRIGGER checkpoint_no_rewrite;


--
-- Name: control_head control_head_counts; Type: TRIGGER; Schema: ledger; Owner: ledger_owner
--

CREATE TRIGGER control_head_counts BEFORE UPDATE ON ledger.control_head FOR EACH ROW EXECUTE FUNCTION ledger.control_head_guard();

ALTER TABLE ledger.control_head ENABLE ALWAYS TRIGGER control_head_counts;


--
-- Name: control_head control_head_no_delete; Type: TRIGGER; Schema: ledger; Owner: ledger_owner
--

CREATE TRIGGER control_head_no_delete BEFORE DELETE ON ledger.control_head FOR EACH ROW EXECUTE FUNCTION ledger.reject();

ALTER TABLE ledger.control_head ENABLE ALWAYS TRIGGER control_head_no_delete;


--
-- Name: control_head control_head_no_truncate; Type: TRIGGER; Schema: ledger; Owner: ledger_owner
--

CREATE TRIGGER control_head_no_truncate BEFORE TRUNCATE ON ledger.control_head FOR EACH STATEMENT EXECUTE FUNCTION ledger.reject();

ALTER TABLE ledger.control_head ENABLE ALWAYS TRIGGER control_head_no_truncate;


--
-- Name: control_row control_row_next; Type: TRIGGER; Schema: ledger; Owner: ledger_owner
--

CREATE TRIGGER control_row_next BEFORE INSERT ON ledger.control_row FOR EACH ROW EXECUTE FUNCTION ledger.control_row_guard();

ALTER TABLE ledger.control_row ENABLE ALWAYS TRIGGER control_row_next;


--
-- Name: control_row control_row_no_rewrite; Type: TRIGGER; Schema: ledger; Owner: ledger_owner
--

CREATE TRIGGER control_row_no_rewrite BEFORE DELETE OR UPDATE ON ledger.control_row FOR EACH ROW EXECUTE FUNCTION ledger.reject();

ALTER TABLE ledger.control_row ENABLE ALWAYS TRIGGER control_row_no_rewrite;


--
-- Name: control_row control_row_no_truncate; Type: TRIGGER; Schema: ledger; Owner: ledger_owner
--

CREATE TRIGGER control_row_no_truncate BEFORE TRUNCATE ON ledger.control_row FOR EACH STATEMENT EXECUTE FUNCTION ledger.reject();

ALTER TABLE ledger.control_row ENABLE ALWAYS TRIGGER control_row_no_truncate;


--
-- Name: entry entry_no_rewrite; Type: TRIGGER; Schema: ledger; Owner: ledger_owner
--

CREATE TRIGGER entry_no_rewrite BEFORE DELETE OR UPDATE ON ledger.entry FOR EACH ROW EXECUTE FUNCTION ledger.entry_guard();

ALTER TABLE ledger.entry ENABLE ALWAYS TRIGGER entry_no_rewrite;


--
-- Name: entry fleet_notes; Type: TRIGGER; Schema: ledger; Owner: ledger_owner
--

CREATE TRIGGER fleet_notes AFTER INSERT ON ledger.entry FOR EACH ROW WHEN ((new.kind = ANY (ARRAY['chain.enrolled'::text, 'chain.checkpoint'::text, 'chain.retired'::text]))) EXECUTE FUNCTION ledger.fleet_notes();


--
-- Name: head head_monotonic; Type: TRIGGER; Schema: ledger; Owner: ledger_owner
--

CREATE TRIGGER head_monotonic BEFORE UPDATE ON ledger.head FOR EACH ROW EXECUTE FUNCTION ledger.head_guard();

ALTER TABLE ledger.head ENABLE ALWAYS TRIGGER head_monotonic;


--
-- Name: head head_no_delete; Type: TRIGGER; Schema: ledger; Owner: ledger_owner
--

CREATE TRIGGER head_no_delete BEFORE DELETE ON ledger.head FOR EACH ROW EXECUTE FUNCTION ledger.reject();

ALTER TABLE ledger.head ENABLE ALWAYS TRIGGER head_no_delete;


--
-- Name: anchor no_truncate; Type: TRIGGER; Schema: ledger; Owner: ledger_owner
--

CREATE TRIGGER no_truncate BEFORE TRUNCATE ON ledger.anchor FOR EACH STATEMENT EXECUTE FUNCTION ledger.reject();

ALTER TABLE ledger.anchor ENABLE ALWAYS TRIGGER no_truncate;


--
-- Name: checkpoint no_truncate; Type: TRIGGER; Schema: ledger; Owner: ledger_owner
--

CREATE TRIGGER no_truncate BEFORE TRUNCATE ON ledger.checkpoint FOR EACH STATEMENT EXECUTE FUNCTION ledger.reject();

ALTER TABLE ledger.checkpoint ENABLE ALWAYS TRIGGER no_truncate;


--
-- Name: entry no_truncate; Type: TRIGGER; Schema: ledger; Owner: ledger_owner
--

CREATE TRIGGER no_truncate BEFORE TRUNCATE ON ledger.entry FOR EACH STATEMENT EXECUTE FUNCTION ledger.reject();

ALTER TABLE ledger.entry ENABLE ALWAYS TRIGGER no_truncate;


--
-- Name: entry_p0 no_truncate; Type: TRIGGER; Schema: ledger; Owner: ledger_owner
--

CREATE TRIGGER no_truncate BEFORE TRUNCATE ON ledger.entry_p0 FOR EACH STATEMENT EXECUTE FUNCTION ledger.reject();

ALTER TABLE ledger.entry_p0 ENABLE ALWAYS TRIGGER no_truncate;


--
-- Name: entry_p0_0 no_truncate; Type: TRIGGER; Schema: ledger; Owner: ledger_owner
--

CREATE TRIGGER no_truncate BEFORE TRUNCATE ON ledger.entry_p0_0 FOR EACH STATEMENT EXECUTE FUNCTION ledger.reject();

ALTER TABLE ledger.entry_p0_0 ENABLE ALWAYS TRIGGER no_truncate;


--
-- Name: entry_p1 no_truncate; Type: TRIGGER; Schema: ledger; Owner: ledger_owner
--

CREATE TRIGGER no_truncate BEFORE TRUNCATE ON ledger.entry_p1 FOR EACH STATEMENT EXECUTE FUNCTION ledger.reject();

ALTER TABLE ledger.entry_p1 ENABLE ALWAYS TRIGGER no_truncate;


--
-- Name: entry_p1_0 no_truncate; Type: TRIGGER; Schema: ledger; Owner: ledger_owner
--

CREATE TRIGGER no_truncate BEFORE TRUNCATE ON ledger.entry_p1_0 FOR EACH STATEMENT EXECUTE FUNCTION ledger.reject();

ALTER TABLE ledger.entry_p1_0 ENABLE ALWAYS TRIGGER no_truncate;


--
-- Name: entry_p2 no_truncate; Type: TRIGGER; Schema: ledger; Owner: ledger_owner
--

CREATE TRIGGER no_truncate BEFORE TRUNCATE ON ledger.entry_p2 FOR EACH STATEMENT EXECUTE FUNCTION ledger.reject();

ALTER TABLE ledger.entry_p2 ENABLE ALWAYS TRIGGER no_truncate;


--
-- Name: entry_p2_0 no_truncate; Type: TRIGGER; Schema: ledger; Owner: ledger_owner
--

CREATE TRIGGER no_truncate BEFORE TRUNCATE ON ledger.entry_p2_0 FOR EACH STATEMENT EXECUTE FUNCTION ledger.reject();

ALTER TABLE ledger.entry_p2_0 ENABLE ALWAYS TRIGGER no_truncate;


--
-- Name: entry_p3 no_truncate; Type: TRIGGER; Schema: ledger; Owner: ledger_owner
--

CREATE TRIGGER no_truncate BEFORE TRUNCATE ON ledger.entry_p3 FOR EACH STATEMENT EXECUTE FUNCTION ledger.reject();

ALTER TABLE ledger.entry_p3 ENABLE ALWAYS TRIGGER no_truncate;


--
-- Name: entry_p3_0 no_truncate; Type: TRIGGER; Schema: ledger; Owner: ledger_owner
--

CREATE TRIGGER no_truncate BEFORE TRUNCATE ON ledger.entry_p3_0 FOR EACH STATEMENT EXECUTE FUNCTION ledger.reject();

ALTER TABLE ledger.entry_p3_0 ENABLE ALWAYS TRIGGER no_truncate;


--
-- Name: head no_truncate; Type: TRIGGER; Schema: ledger; Owner: ledger_owner
--

CREATE TRIGGER no_truncate BEFORE TRUNCATE ON ledger.head FOR EACH STATEMENT EXECUTE FUNCTION ledger.reject();

ALTER TABLE ledger.head ENABLE ALWAYS TRIGGER no_truncate;


--
-- Name: pruned no_truncate; Type: TRIGGER; Schema: ledger; Owner: ledger_owner
--

CREATE TRIGGER no_truncate BEFORE TRUNCATE ON ledger.pruned FOR EACH STATEMENT EXECUTE FUNCTION ledger.reject();

ALTER TABLE ledger.pruned ENABLE ALWAYS TRIGGER no_truncate;


--
-- Name: payload payload_no_rewrite; Type: TRIGGER; Schema: ledger; Owner: ledger_owner
--

CREATE TRIGGER payload_no_rewrite BEFORE UPDATE ON ledger.payload FOR EACH ROW EXECUTE FUNCTION ledger.reject();

ALTER TABLE ledger.payload ENABLE ALWAYS TRIGGER payload_no_rewrite;


--
-- Name: pruned pruned_no_rewrite; Type: TRIGGER; Schema: ledger; Owner: ledger_owner
--

CREATE TRIGGER pruned_no_rewrite BEFORE DELETE OR UPDATE ON ledger.pruned FOR EACH ROW EXECUTE FUNCTION ledger.reject();

ALTER TABLE ledger.pruned ENABLE ALWAYS TRIGGER pruned_no_rewrite;


--
-- Name: head head_chain_id_fkey; Type: FK CONSTRAINT; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ONLY ledger.head
    ADD CONSTRAINT head_chain_id_fkey FOREIGN KEY (chain_id) REFERENCES ledger.chain(chain_id);


--
-- Name: pool_gate pool_gate_tenant_id_pool_starts_fkey; Type: FK CONSTRAINT; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ONLY ledger.pool_gate
    ADD CONSTRAINT pool_gate_tenant_id_pool_starts_fkey FOREIGN KEY (tenant_id, pool, starts) REFERENCES ledger.pool_window(tenant_id, pool, starts) ON DELETE CASCADE;


--
-- Name: anchor; Type: ROW SECURITY; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ledger.anchor ENABLE ROW LEVEL SECURITY;

--
-- Name: chain; Type: ROW SECURITY; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ledger.chain ENABLE ROW LEVEL SECURITY;

--
-- Name: checkpoint; Type: ROW SECURITY; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ledger.checkpoint ENABLE ROW LEVEL SECURITY;

--
-- Name: control_presence; Type: ROW SECURITY; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ledger.control_presence ENABLE ROW LEVEL SECURITY;

--
-- Name: control_report; Type: ROW SECURITY; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ledger.control_report ENABLE ROW LEVEL SECURITY;

--
-- Name: control_row; Type: ROW SECURITY; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ledger.control_row ENABLE ROW LEVEL SECURITY;

--
-- Name: entry; Type: ROW SECURITY; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ledger.entry ENABLE ROW LEVEL SECURITY;

--
-- Name: fleet_said; Type: ROW SECURITY; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ledger.fleet_said ENABLE ROW LEVEL SECURITY;

--
-- Name: head; Type: ROW SECURITY; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ledger.head ENABLE ROW LEVEL SECURITY;

--
-- Name: payload; Type: ROW SECURITY; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ledger.payload ENABLE ROW LEVEL SECURITY;

--
-- Name: pool_gate; Type: ROW SECURITY; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ledger.pool_gate ENABLE ROW LEVEL SECURITY;

--
-- Name: pool_hold; Type: ROW SECURITY; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ledger.pool_hold ENABLE ROW LEVEL SECURITY;

--
-- Name: pool_window; Type: ROW SECURITY; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ledger.pool_window ENABLE ROW LEVEL SECURITY;

--
-- Name: pruned; Type: ROW SECURITY; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ledger.pruned ENABLE ROW LEVEL SECURITY;

--
-- Name: subtree; Type: ROW SECURITY; Schema: ledger; Owner: ledger_owner
--

ALTER TABLE ledger.subtree ENABLE ROW LEVEL SECURITY;

--
-- Name: anchor tenant; Type: POLICY; Schema: ledger; Owner: ledger_owner
--

CREATE POLICY tenant ON ledger.anchor FOR SELECT TO ledger_reader USING ((chain_id IN ( SELECT c.chain_id
   FROM ledger.chain c)));


--
-- Name: chain tenant; Type: POLICY; Schema: ledger; Owner: ledger_owner
--

CREATE POLICY tenant ON ledger.chain FOR SELECT TO ledger_reader USING (ledger.reader_sees(tenant_id));


--
-- Name: checkpoint tenant; Type: POLICY; Schema: ledger; Owner: ledger_owner
--

CREATE POLICY tenant ON ledger.checkpoint FOR SELECT TO ledger_reader USING ((chain_id IN ( SELECT c.chain_id
   FROM ledger.chain c)));


--
-- Name: control_presence tenant; Type: POLICY; Schema: ledger; Owner: ledger_owner
--

CREATE POLICY tenant ON ledger.control_presence FOR SELECT TO ledger_reader USING (ledger.reader_sees(tenant_id));


--
-- Name: control_report tenant; Type: POLICY; Schema: ledger; Owner: ledger_owner
--

CREATE POLICY tenant ON ledger.control_report FOR SELECT TO ledger_reader USING (ledger.reader_sees(tenant_id));


--
-- Name: control_row tenant; Type: POLICY; Schema: ledger; Owner: ledger_owner
--

CREATE POLICY tenant ON ledger.control_row FOR SELECT TO ledger_reader USING (ledger.reader_sees(tenant_id));


--
-- Name: entry tenant; Type: POLICY; Schema: ledger; Owner: ledger_owner
--

CREATE POLICY tenant ON ledger.entry FOR SELECT TO ledger_reader USING ((chain_id IN ( SELECT c.chain_id
   FROM ledger.chain c)));


--
-- Name: fleet_said tenant; Type: POLICY; Schema: ledger; Owner: ledger_owner
--

CREATE POLICY tenant ON ledger.fleet_said FOR SELECT TO ledger_reader USING (ledger.reader_sees(tenant_id));


--
-- Name: head tenant; Type: POLICY; Schema: ledger; Owner: ledger_owner
--

CREATE POLICY tenant ON ledger.head FOR SELECT TO ledger_reader USING ((chain_id IN ( SELECT c.chain_id
   FROM ledger.chain c)));


--
-- Name: payload tenant; Type: POLICY; Schema: ledger; Owner: ledger_owner
--

CREATE POLICY tenant ON ledger.payload FOR SELECT TO ledger_reader USING ((chain_id IN ( SELECT c.chain_id
   FROM ledger.chain c)));


--
-- Name: pruned tenant; Type: POLICY; Schema: ledger; Owner: ledger_owner
--

CREATE POLICY tenant ON ledger.pruned FOR SELECT TO ledger_reader USING ((chain_id IN ( SELECT c.chain_id
   FROM ledger.chain c)));


--
-- Name: subtree tenant; Type: POLICY; Schema: ledger; Owner: ledger_owner
--

CREATE POLICY tenant ON ledger.subtree FOR SELECT TO ledger_reader USING ((chain_id IN ( SELECT c.chain_id
   FROM ledger.chain c)));


--
-- Name: SCHEMA ledger; Type: ACL; Schema: -; Owner: ledger_owner
--

GRANT USAGE ON SCHEMA ledger TO ledger_writer;
GRANT USAGE ON SCHEMA ledger TO ledger_reader;
GRANT USAGE ON SCHEMA ledger TO ledger_eraser;
GRANT USAGE ON SCHEMA ledger TO ledger_operator;


--
-- Name: FUNCTION abandoned(); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.abandoned() FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.abandoned() TO ledger_operator;


--
-- Name: FUNCTION append_batch(p_chain bytea, p_epoch bigint, p_secret bytea, p_size bigint, p_head bytea, p_leaves bytea[], p_runs uuid[], p_calls text[], p_kinds text[], p_bodies bytea[], p_frontier bytea, p_checkpoint text, p_commitments bytea[], p_salts bytea[], p_roles text[], p_media text[], p_payloads bytea[], p_signed bigint); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.append_batch(p_chain bytea, p_epoch bigint, p_secret bytea, p_size bigint, p_head bytea, p_leaves bytea[], p_runs uuid[], p_calls text[], p_kinds text[], p_bodies bytea[], p_frontier bytea, p_checkpoint text, p_commitments bytea[], p_salts bytea[], p_roles text[], p_media text[], p_payloads bytea[], p_signed bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.append_batch(p_chain bytea, p_epoch bigint, p_secret bytea, p_size bigint, p_head bytea, p_leaves bytea[], p_runs uuid[], p_calls text[], p_kinds text[], p_bodies bytea[], p_frontier bytea, p_checkpoint text, p_commitments bytea[], p_salts bytea[], p_roles text[], p_media text[], p_payloads bytea[], p_signed bigint) TO ledger_writer;


--
-- Name: FUNCTION block_entries(); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.block_entries() FROM PUBLIC;


--
-- Name: FUNCTION block_of(p_chain bytea, p_seq bigint, OUT leaf text, OUT low bigint, OUT high bigint); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.block_of(p_chain bytea, p_seq bigint, OUT leaf text, OUT low bigint, OUT high bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.block_of(p_chain bytea, p_seq bigint, OUT leaf text, OUT low bigint, OUT high bigint) TO ledger_eraser;


--
-- Name: FUNCTION blocks_ahead(); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.blocks_ahead() FROM PUBLIC;


--
-- Name: FUNCTION bucket(p_chain bytea); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.bucket(p_chain bytea) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.bucket(p_chain bytea) TO ledger_eraser;


--
-- Name: TABLE entry; Type: ACL; Schema: ledger; Owner: ledger_owner
--

GRANT SELECT ON TABLE ledger.entry TO ledger_reader;


--
-- Name: FUNCTION call_entries(p_chain bytea, p_epoch bigint, p_secret bytea, p_run uuid, p_call text); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.call_entries(p_chain bytea, p_epoch bigint, p_secret bytea, p_run uuid, p_call text) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.call_entries(p_chain bytea, p_epoch bigint, p_secret bytea, p_run uuid, p_call text) TO ledger_writer;


--
-- Name: FUNCTION checkpoint_guard(); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.checkpoint_guard() FROM PUBLIC;


--
-- Name: FUNCTION control_head_guard(); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.control_head_guard() FROM PUBLIC;


--
-- Name: FUNCTION control_put(p_at bigint, p_kind text, p_body text, p_subject text, p_roles text, p_auth text, p_reason text, p_expires bigint); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.control_put(p_at bigint, p_kind text, p_body text, p_subject text, p_roles text, p_auth text, p_reason text, p_expires bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.control_put(p_at bigint, p_kind text, p_body text, p_subject text, p_roles text, p_auth text, p_reason text, p_expires bigint) TO ledger_operator;


--
-- Name: FUNCTION control_report(p_chain bytea, p_epoch bigint, p_secret bytea, p_seq bigint, p_origin text, p_at bigint, p_done text); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.control_report(p_chain bytea, p_epoch bigint, p_secret bytea, p_seq bigint, p_origin text, p_at bigint, p_done text) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.control_report(p_chain bytea, p_epoch bigint, p_secret bytea, p_seq bigint, p_origin text, p_at bigint, p_done text) TO ledger_writer;


--
-- Name: TABLE control_report; Type: ACL; Schema: ledger; Owner: ledger_owner
--

GRANT SELECT ON TABLE ledger.control_report TO ledger_reader;


--
-- Name: FUNCTION control_reports(p_seq bigint); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.control_reports(p_seq bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.control_reports(p_seq bigint) TO ledger_writer;
GRANT ALL ON FUNCTION ledger.control_reports(p_seq bigint) TO ledger_operator;


--
-- Name: FUNCTION control_row_guard(); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.control_row_guard() FROM PUBLIC;


--
-- Name: FUNCTION control_show(p_chain bytea, p_epoch bigint, p_secret bytea, p_origin text, p_writer text, p_seq bigint, p_state text); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.control_show(p_chain bytea, p_epoch bigint, p_secret bytea, p_origin text, p_writer text, p_seq bigint, p_state text) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.control_show(p_chain bytea, p_epoch bigint, p_secret bytea, p_origin text, p_writer text, p_seq bigint, p_state text) TO ledger_writer;


--
-- Name: TABLE control_presence; Type: ACL; Schema: ledger; Owner: ledger_owner
--

GRANT SELECT ON TABLE ledger.control_presence TO ledger_reader;


--
-- Name: FUNCTION control_shown(); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.control_shown() FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.control_shown() TO ledger_writer;
GRANT ALL ON FUNCTION ledger.control_shown() TO ledger_operator;


--
-- Name: TABLE control_row; Type: ACL; Schema: ledger; Owner: ledger_owner
--

GRANT SELECT ON TABLE ledger.control_row TO ledger_reader;


--
-- Name: FUNCTION control_since(p_seq bigint, p_limit bigint); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.control_since(p_seq bigint, p_limit bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.control_since(p_seq bigint, p_limit bigint) TO ledger_writer;
GRANT ALL ON FUNCTION ledger.control_since(p_seq bigint, p_limit bigint) TO ledger_operator;


--
-- Name: FUNCTION control_speaks(p_chain bytea, p_epoch bigint, p_secret bytea, p_origin text); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.control_speaks(p_chain bytea, p_epoch bigint, p_secret bytea, p_origin text) FROM PUBLIC;


--
-- Name: FUNCTION drop_block(p_chain bytea, p_seq bigint); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.drop_block(p_chain bytea, p_seq bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.drop_block(p_chain bytea, p_seq bigint) TO ledger_eraser;


--
-- Name: FUNCTION durable(); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.durable() FROM PUBLIC;


--
-- Name: FUNCTION entry_guard(); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.entry_guard() FROM PUBLIC;


--
-- Name: FUNCTION erase_payload(p_chain bytea, p_commitment bytea); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.erase_payload(p_chain bytea, p_commitment bytea) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.erase_payload(p_chain bytea, p_commitment bytea) TO ledger_eraser;


--
-- Name: FUNCTION fleet_leaves(p_chain bytea, p_epoch bigint, p_secret bytea, p_from bigint, p_limit bigint); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.fleet_leaves(p_chain bytea, p_epoch bigint, p_secret bytea, p_from bigint, p_limit bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.fleet_leaves(p_chain bytea, p_epoch bigint, p_secret bytea, p_from bigint, p_limit bigint) TO ledger_writer;


--
-- Name: FUNCTION fleet_notes(); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.fleet_notes() FROM PUBLIC;


--
-- Name: FUNCTION fleet_view(p_chain bytea, p_epoch bigint, p_secret bytea, p_before bytea); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.fleet_view(p_chain bytea, p_epoch bigint, p_secret bytea, p_before bytea) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.fleet_view(p_chain bytea, p_epoch bigint, p_secret bytea, p_before bytea) TO ledger_writer;


--
-- Name: FUNCTION guard_block(p_leaf text); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.guard_block(p_leaf text) FROM PUBLIC;


--
-- Name: FUNCTION head_guard(); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.head_guard() FROM PUBLIC;


--
-- Name: COLUMN head.chain_id; Type: ACL; Schema: ledger; Owner: ledger_owner
--

GRANT SELECT(chain_id) ON TABLE ledger.head TO ledger_reader;


--
-- Name: COLUMN head.epoch; Type: ACL; Schema: ledger; Owner: ledger_owner
--

GRANT SELECT(epoch) ON TABLE ledger.head TO ledger_reader;


--
-- Name: COLUMN head.writer; Type: ACL; Schema: ledger; Owner: ledger_owner
--

GRANT SELECT(writer) ON TABLE ledger.head TO ledger_reader;


--
-- Name: COLUMN head.lease_until; Type: ACL; Schema: ledger; Owner: ledger_owner
--

GRANT SELECT(lease_until) ON TABLE ledger.head TO ledger_reader;


--
-- Name: COLUMN head.size; Type: ACL; Schema: ledger; Owner: ledger_owner
--

GRANT SELECT(size) ON TABLE ledger.head TO ledger_reader;


--
-- Name: COLUMN head.head_hash; Type: ACL; Schema: ledger; Owner: ledger_owner
--

GRANT SELECT(head_hash) ON TABLE ledger.head TO ledger_reader;


--
-- Name: COLUMN head.frontier; Type: ACL; Schema: ledger; Owner: ledger_owner
--

GRANT SELECT(frontier) ON TABLE ledger.head TO ledger_reader;


--
-- Name: COLUMN head.checkpoint; Type: ACL; Schema: ledger; Owner: ledger_owner
--

GRANT SELECT(checkpoint) ON TABLE ledger.head TO ledger_reader;


--
-- Name: FUNCTION held(p_chain bytea, p_epoch bigint, p_secret bytea, p_lock boolean); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.held(p_chain bytea, p_epoch bigint, p_secret bytea, p_lock boolean) FROM PUBLIC;


--
-- Name: FUNCTION hold_pool(p_pool text, p_size bigint, p_holder text, p_want bigint, p_term_ms bigint); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.hold_pool(p_pool text, p_size bigint, p_holder text, p_want bigint, p_term_ms bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.hold_pool(p_pool text, p_size bigint, p_holder text, p_want bigint, p_term_ms bigint) TO ledger_writer;


--
-- Name: FUNCTION keep_leaves(p_chain bytea, p_from bigint, p_to bigint); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.keep_leaves(p_chain bytea, p_from bigint, p_to bigint) FROM PUBLIC;


--
-- Name: FUNCTION kept(p_kind text); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.kept(p_kind text) FROM PUBLIC;


--
-- Name: FUNCTION lease(p_tenant text, p_pool text, p_writer text, p_previous bytea, p_before bytea, p_secret bytea, p_chain bytea, p_term_ms bigint); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.lease(p_tenant text, p_pool text, p_writer text, p_previous bytea, p_before bytea, p_secret bytea, p_chain bytea, p_term_ms bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.lease(p_tenant text, p_pool text, p_writer text, p_previous bytea, p_before bytea, p_secret bytea, p_chain bytea, p_term_ms bigint) TO ledger_writer;


--
-- Name: FUNCTION lease_pool(p_pool text, p_starts bigint, p_forget bigint, p_size bigint, p_need bigint, p_holder text, p_serial bigint); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.lease_pool(p_pool text, p_starts bigint, p_forget bigint, p_size bigint, p_need bigint, p_holder text, p_serial bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.lease_pool(p_pool text, p_starts bigint, p_forget bigint, p_size bigint, p_need bigint, p_holder text, p_serial bigint) TO ledger_writer;


--
-- Name: FUNCTION make_block(p_chain bytea, p_seq bigint); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.make_block(p_chain bytea, p_seq bigint) FROM PUBLIC;


--
-- Name: FUNCTION open_runs(p_chain bytea, p_epoch bigint, p_secret bytea); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.open_runs(p_chain bytea, p_epoch bigint, p_secret bytea) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.open_runs(p_chain bytea, p_epoch bigint, p_secret bytea) TO ledger_writer;


--
-- Name: FUNCTION perfect_root(p_nodes bytea[]); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.perfect_root(p_nodes bytea[]) FROM PUBLIC;


--
-- Name: FUNCTION prune(p_chain bytea, p_from bigint, p_to bigint); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.prune(p_chain bytea, p_from bigint, p_to bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.prune(p_chain bytea, p_from bigint, p_to bigint) TO ledger_eraser;


--
-- Name: FUNCTION prune_beside(p_chain bytea, p_from bigint, p_to bigint); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.prune_beside(p_chain bytea, p_from bigint, p_to bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.prune_beside(p_chain bytea, p_from bigint, p_to bigint) TO ledger_eraser;


--
-- Name: FUNCTION put_anchor(p_chain bytea, p_epoch bigint, p_secret bytea, p_size bigint, p_note text, p_tokens text); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.put_anchor(p_chain bytea, p_epoch bigint, p_secret bytea, p_size bigint, p_note text, p_tokens text) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.put_anchor(p_chain bytea, p_epoch bigint, p_secret bytea, p_size bigint, p_note text, p_tokens text) TO ledger_writer;


--
-- Name: FUNCTION put_payload(p_chain bytea, p_epoch bigint, p_secret bytea, p_commitment bytea, p_salt bytea, p_role text, p_media text, p_body bytea); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.put_payload(p_chain bytea, p_epoch bigint, p_secret bytea, p_commitment bytea, p_salt bytea, p_role text, p_media text, p_body bytea) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.put_payload(p_chain bytea, p_epoch bigint, p_secret bytea, p_commitment bytea, p_salt bytea, p_role text, p_media text, p_body bytea) TO ledger_writer;


--
-- Name: FUNCTION put_subtrees(p_chain bytea, p_epoch bigint, p_secret bytea, p_heights integer[], p_idx bigint[], p_hashes bytea[]); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.put_subtrees(p_chain bytea, p_epoch bigint, p_secret bytea, p_heights integer[], p_idx bigint[], p_hashes bytea[]) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.put_subtrees(p_chain bytea, p_epoch bigint, p_secret bytea, p_heights integer[], p_idx bigint[], p_hashes bytea[]) TO ledger_writer;


--
-- Name: FUNCTION read_head(p_chain bytea, p_epoch bigint, p_secret bytea); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.read_head(p_chain bytea, p_epoch bigint, p_secret bytea) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.read_head(p_chain bytea, p_epoch bigint, p_secret bytea) TO ledger_writer;


--
-- Name: TABLE payload; Type: ACL; Schema: ledger; Owner: ledger_owner
--

GRANT SELECT ON TABLE ledger.payload TO ledger_reader;


--
-- Name: FUNCTION read_payload(p_chain bytea, p_epoch bigint, p_secret bytea, p_commitment bytea); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.read_payload(p_chain bytea, p_epoch bigint, p_secret bytea, p_commitment bytea) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.read_payload(p_chain bytea, p_epoch bigint, p_secret bytea, p_commitment bytea) TO ledger_writer;


--
-- Name: FUNCTION reader_sees(p_tenant text); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.reader_sees(p_tenant text) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.reader_sees(p_tenant text) TO ledger_reader;


--
-- Name: FUNCTION reap(p_chain bytea, p_epoch bigint, p_size bigint, p_grace_ms bigint, p_writer text, p_secret bytea, p_term_ms bigint); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.reap(p_chain bytea, p_epoch bigint, p_size bigint, p_grace_ms bigint, p_writer text, p_secret bytea, p_term_ms bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.reap(p_chain bytea, p_epoch bigint, p_size bigint, p_grace_ms bigint, p_writer text, p_secret bytea, p_term_ms bigint) TO ledger_operator;


--
-- Name: FUNCTION record_pruning(p_chain bytea, p_low bigint, p_high bigint, p_fleet bytea, p_seq bigint); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.record_pruning(p_chain bytea, p_low bigint, p_high bigint, p_fleet bytea, p_seq bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.record_pruning(p_chain bytea, p_low bigint, p_high bigint, p_fleet bytea, p_seq bigint) TO ledger_eraser;


--
-- Name: FUNCTION reject(); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.reject() FROM PUBLIC;


--
-- Name: FUNCTION release_lease(p_chain bytea, p_epoch bigint, p_secret bytea); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.release_lease(p_chain bytea, p_epoch bigint, p_secret bytea) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.release_lease(p_chain bytea, p_epoch bigint, p_secret bytea) TO ledger_writer;


--
-- Name: FUNCTION restart(p_chain bytea, p_epoch bigint, p_secret bytea, p_next bytea, p_next_epoch bigint, p_next_secret bytea, p_n bigint, p_origin text, p_leaves bytea[], p_kinds text[], p_bodies bytea[], p_frontier bytea, p_checkpoint text); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.restart(p_chain bytea, p_epoch bigint, p_secret bytea, p_next bytea, p_next_epoch bigint, p_next_secret bytea, p_n bigint, p_origin text, p_leaves bytea[], p_kinds text[], p_bodies bytea[], p_frontier bytea, p_checkpoint text) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.restart(p_chain bytea, p_epoch bigint, p_secret bytea, p_next bytea, p_next_epoch bigint, p_next_secret bytea, p_n bigint, p_origin text, p_leaves bytea[], p_kinds text[], p_bodies bytea[], p_frontier bytea, p_checkpoint text) TO ledger_writer;


--
-- Name: FUNCTION return_pool(p_pool text, p_starts bigint, p_units bigint); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.return_pool(p_pool text, p_starts bigint, p_units bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.return_pool(p_pool text, p_starts bigint, p_units bigint) TO ledger_writer;


--
-- Name: FUNCTION run_entries(p_chain bytea, p_epoch bigint, p_secret bytea, p_run uuid); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.run_entries(p_chain bytea, p_epoch bigint, p_secret bytea, p_run uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.run_entries(p_chain bytea, p_epoch bigint, p_secret bytea, p_run uuid) TO ledger_writer;


--
-- Name: FUNCTION signed_at(p_chain bytea, p_epoch bigint, p_secret bytea, p_size bigint); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.signed_at(p_chain bytea, p_epoch bigint, p_secret bytea, p_size bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.signed_at(p_chain bytea, p_epoch bigint, p_secret bytea, p_size bigint) TO ledger_writer;


--
-- Name: FUNCTION tail(p_chain bytea, p_epoch bigint, p_secret bytea, p_from bigint, p_limit bigint); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.tail(p_chain bytea, p_epoch bigint, p_secret bytea, p_from bigint, p_limit bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.tail(p_chain bytea, p_epoch bigint, p_secret bytea, p_from bigint, p_limit bigint) TO ledger_writer;


--
-- Name: FUNCTION tenant(); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.tenant() FROM PUBLIC;


--
-- Name: FUNCTION thin(p_chain bytea, p_from bigint, p_to bigint); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.thin(p_chain bytea, p_from bigint, p_to bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.thin(p_chain bytea, p_from bigint, p_to bigint) TO ledger_eraser;


--
-- Name: FUNCTION version(); Type: ACL; Schema: ledger; Owner: ledger_owner
--

REVOKE ALL ON FUNCTION ledger.version() FROM PUBLIC;
GRANT ALL ON FUNCTION ledger.version() TO ledger_writer;
GRANT ALL ON FUNCTION ledger.version() TO ledger_reader;
GRANT ALL ON FUNCTION ledger.version() TO ledger_eraser;
GRANT ALL ON FUNCTION ledger.version() TO ledger_operator;


--
-- Name: TABLE anchor; Type: ACL; Schema: ledger; Owner: ledger_owner
--

GRANT SELECT ON TABLE ledger.anchor TO ledger_reader;


--
-- Name: TABLE chain; Type: ACL; Schema: ledger; Owner: ledger_owner
--

GRANT SELECT ON TABLE ledger.chain TO ledger_reader;


--
-- Name: TABLE checkpoint; Type: ACL; Schema: ledger; Owner: ledger_owner
--

GRANT SELECT ON TABLE ledger.checkpoint TO ledger_reader;


--
-- Name: TABLE fleet_said; Type: ACL; Schema: ledger; Owner: ledger_owner
--

GRANT SELECT ON TABLE ledger.fleet_said TO ledger_reader;


--
-- Name: TABLE pruned; Type: ACL; Schema: ledger; Owner: ledger_owner
--

GRANT SELECT ON TABLE ledger.pruned TO ledger_reader;


--
-- Name: TABLE subtree; Type: ACL; Schema: ledger; Owner: ledger_owner
--

GRANT SELECT ON TABLE ledger.subtree TO ledger_reader;


--
-- PostgreSQL database dump complete
--


