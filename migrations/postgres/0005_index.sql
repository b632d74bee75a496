-- The index of calls and runs of a hub: a projection of the entries, for searching. The ledger stays the truth. A hub
-- reads the ledger as a reader and fills this as an operator; gates of schema 12 know nothing of it.
-- What `migrate` made the schema `console` for. Texts are compared byte by byte, as in a SQLite file.

CREATE TABLE console.cursor (
  tenant text COLLATE "C" NOT NULL, chain bytea PRIMARY KEY, next bigint NOT NULL, leaf bytea NOT NULL, at bigint NOT NULL);
CREATE INDEX cursor_tenant ON console.cursor (tenant);
-- One row per call: its decisions and its end.
CREATE TABLE console.call (
  tenant text COLLATE "C" NOT NULL, chain bytea NOT NULL, seq bigint NOT NULL, at bigint NOT NULL,
  run text COLLATE "C" NOT NULL, call text COLLATE "C" NOT NULL, agent text COLLATE "C" NOT NULL,
  version text COLLATE "C" NOT NULL, tool text COLLATE "C" NOT NULL, tier text COLLATE "C" NOT NULL,
  verdict text COLLATE "C" NOT NULL, enforced bigint NOT NULL, state text COLLATE "C" NOT NULL,
  code text COLLATE "C" NOT NULL, detail text COLLATE "C" NOT NULL, rule text COLLATE "C" NOT NULL,
  outcome text COLLATE "C" NOT NULL, us bigint, masked bigint NOT NULL, approvals bigint NOT NULL,
  decided_by text COLLATE "C" NOT NULL, codes text COLLATE "C" NOT NULL, findings text COLLATE "C" NOT NULL,
  last bigint NOT NULL, PRIMARY KEY (chain, seq));
CREATE INDEX call_at ON console.call (tenant, at, chain, seq);
CREATE INDEX call_tool ON console.call (tenant, tool, at, chain, seq);
CREATE INDEX call_agent ON console.call (tenant, agent, at, chain, seq);
CREATE INDEX call_verdict ON console.call (tenant, verdict, at, chain, seq) WHERE verdict <> 'allow';
CREATE INDEX call_state ON console.call (tenant, state, at, chain, seq) WHERE state <> 'completed';
CREATE INDEX call_run ON console.call (tenant, run, at, chain, seq);
CREATE INDEX call_call ON console.call (tenant, call, run);
-- What a call is found by besides its columns: each code of its reasons, who decided it, what was found in it.
CREATE TABLE console.mark (
  tenant text COLLATE "C" NOT NULL, kind text COLLATE "C" NOT NULL, value text COLLATE "C" NOT NULL, at bigint NOT NULL,
  chain bytea NOT NULL, seq bigint NOT NULL, PRIMARY KEY (tenant, kind, value, at, chain, seq));
CREATE INDEX mark_call ON console.mark (chain, seq);
CREATE TABLE console.run (
  tenant text COLLATE "C" NOT NULL, run text COLLATE "C" NOT NULL, chain bytea NOT NULL, seq bigint NOT NULL,
  at bigint NOT NULL, agent text COLLATE "C" NOT NULL, version text COLLATE "C" NOT NULL,
  manifest text COLLATE "C" NOT NULL, parent text COLLATE "C" NOT NULL, sealed bigint, reason text COLLATE "C" NOT NULL,
  calls bigint NOT NULL, running bigint NOT NULL, held bigint NOT NULL, denied bigint NOT NULL,
  PRIMARY KEY (tenant, run, chain));
CREATE INDEX run_at ON console.run (tenant, at, chain, seq);
CREATE INDEX run_agent ON console.run (tenant, agent, at, chain, seq);
CREATE INDEX run_parent ON console.run (tenant, parent, at, chain, seq);
CREATE INDEX run_open ON console.run (tenant, at, chain, seq) WHERE sealed IS NULL;
-- The replica of a tenant's hub that fills the index while no request waits.
CREATE TABLE console.filler (
  tenant text COLLATE "C" PRIMARY KEY, holder text NOT NULL, until timestamptz NOT NULL);

-- Whether this replica fills for so long from now on: none does, it does already, or the one that did is silent.
CREATE FUNCTION console.turn(p_holder text, p_term_ms bigint) RETURNS boolean LANGUAGE plpgsql
SET search_path = pg_catalog AS $$ BEGIN
  INSERT INTO console.filler AS f VALUES (ledger.tenant(), p_holder, now() + p_term_ms * interval '1 millisecond')
  ON CONFLICT (tenant) DO UPDATE SET holder = EXCLUDED.holder, until = EXCLUDED.until
   WHERE f.holder = EXCLUDED.holder OR f.until < now();
  RETURN FOUND; END $$;

-- Puts rows into the index and moves the cursor of their chain from where it was when they were made, all or nothing;
-- false if it is elsewhere. Replicas of a hub that write at once wait for each other.
CREATE FUNCTION console.put(p_chain bytea, p_next bigint, p_leaf bytea, p_to bigint, p_to_leaf bytea, p_to_at bigint,
  p_calls text, p_runs text, p_marks text) RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE v_tenant text := ledger.tenant(); v_next bigint; v_leaf bytea; BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('wicketgate/index/' || v_tenant, 0));
  SELECT c.next, c.leaf INTO v_next, v_leaf FROM console.cursor c WHERE c.chain = p_chain;
  IF coalesce(v_next, 0) <> p_next OR v_leaf IS DISTINCT FROM p_leaf THEN RETURN false; END IF;
  INSERT INTO console.call
  SELECT v_tenant, r.chain, r.seq, r.at, r.run, r.call, r.agent, r.version, r.tool, r.tier, r.verdict, r.enforced, r.state,
         r.code, r.detail, r.rule, r.outcome, r.us, r.masked, r.approvals, r.decided_by, r.codes, r.findings, r.last
    FROM json_populate_recordset(NULL::console.call, p_calls::json) r
  ON CONFLICT (chain, seq) DO UPDATE SET
    verdict = EXCLUDED.verdict, enforced = EXCLUDED.enforced, state = EXCLUDED.state, code = EXCLUDED.code,
    detail = EXCLUDED.detail, rule = EXCLUDED.rule, outcome = EXCLUDED.outcome, us = EXCLUDED.us,
    masked = EXCLUDED.masked, approvals = EXCLUDED.approvals, decided_by = EXCLUDED.decided_by,
    codes = EXCLUDED.codes, findings = EXCLUDED.findings, last = EXCLUDED.last;
  INSERT INTO console.mark
  SELECT v_tenant, r.kind, r.value, r.at, r.chain, r.seq FROM json_populate_recordset(NULL::console.mark, p_marks::json) r
  ON CONFLICT DO NOTHING;
  INSERT INTO console.run
  SELECT v_tenant, r.run, r.chain, r.seq, r.at, r.agent, r.version, r.manifest, r.parent, r.sealed, r.reason, r.calls,
         r.running, r.held, r.denied
    FROM json_populate_recordset(NULL::console.run, p_runs::json) r
  ON CONFLICT (tenant, run, chain) DO UPDATE SET
    seq = EXCLUDED.seq, at = EXCLUDED.at, agent = EXCLUDED.agent, version = EXCLUDED.version,
    manifest = EXCLUDED.manifest, parent = EXCLUDED.parent, sealed = EXCLUDED.sealed, reason = EXCLUDED.reason,
    calls = EXCLUDED.calls, running = EXCLUDED.running, held = EXCLUDED.held, denied = EXCLUDED.denied;
  INSERT INTO console.cursor VALUES (v_tenant, p_chain, p_to, p_to_leaf, p_to_at)
  ON CONFLICT (chain) DO UPDATE SET next = EXCLUDED.next, leaf = EXCLUDED.leaf, at = EXCLUDED.at;
  RETURN true; END $$;

-- Takes everything of these chains out of the index.
CREATE FUNCTION console.forget(p_chains bytea[]) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog AS $$ BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('wicketgate/index/' || ledger.tenant(), 0));
  DELETE FROM console.cursor WHERE chain = ANY (p_chains);
  DELETE FROM console.call WHERE chain = ANY (p_chains);
  DELETE FROM console.mark WHERE chain = ANY (p_chains);
  DELETE FROM console.run WHERE chain = ANY (p_chains); END $$;

REVOKE ALL ON FUNCTION console.turn, console.put, console.forget FROM PUBLIC;
GRANT USAGE ON SCHEMA console TO ledger_operator;
GRANT EXECUTE ON FUNCTION console.turn, console.put, console.forget TO ledger_operator;
GRANT EXECUTE ON FUNCTION ledger.tenant TO ledger_operator;
-- A hub sees and writes its own tenant's rows alone.
DO $$ DECLARE t text; BEGIN
  FOREACH t IN ARRAY ARRAY['cursor', 'call', 'mark', 'run', 'filler'] LOOP
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON console.%I TO ledger_operator', t);
    EXECUTE format('ALTER TABLE console.%I ENABLE ROW LEVEL SECURITY', t);
    EXECUTE format('CREATE POLICY tenant ON console.%I TO ledger_operator
                    USING (tenant = (SELECT ledger.tenant()))', t);
  END LOOP;
END $$;
