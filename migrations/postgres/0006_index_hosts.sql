-- The hosts that a call reaches, in the index of a hub. Rows without them would stay so: the index is emptied, and the hub
-- fills it again. A hub of the build before puts no rows from here on, because it knows no hosts; it still searches.
TRUNCATE console.cursor, console.call, console.mark, console.run;
ALTER TABLE console.call ADD COLUMN hosts text COLLATE "C" NOT NULL;

CREATE OR REPLACE FUNCTION console.put(p_chain bytea, p_next bigint, p_leaf bytea, p_to bigint, p_to_leaf bytea, p_to_at bigint,
  p_calls text, p_runs text, p_marks text) RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog AS $$
DECLARE v_tenant text := ledger.tenant(); v_next bigint; v_leaf bytea; BEGIN
  PERFORM pg_advisory_xact_lock(hashtextextended('wicketgate/index/' || v_tenant, 0));
  SELECT c.next, c.leaf INTO v_next, v_leaf FROM console.cursor c WHERE c.chain = p_chain;
  IF coalesce(v_next, 0) <> p_next OR v_leaf IS DISTINCT FROM p_leaf THEN RETURN false; END IF;
  INSERT INTO console.call (tenant, chain, seq, at, run, call, agent, version, tool, tier, verdict, enforced, state, code,
    detail, rule, outcome, us, masked, approvals, decided_by, codes, findings, hosts, last)
  SELECT v_tenant, r.chain, r.seq, r.at, r.run, r.call, r.agent, r.version, r.tool, r.tier, r.verdict, r.enforced, r.state,
         r.code, r.detail, r.rule, r.outcome, r.us, r.masked, r.approvals, r.decided_by, r.codes, r.findings, r.hosts, r.last
    FROM json_populate_recordset(NULL::console.call, p_calls::json) r
  ON CONFLICT (chain, seq) DO UPDATE SET
    verdict = EXCLUDED.verdict, enforced = EXCLUDED.enforced, state = EXCLUDED.state, code = EXCLUDED.code,
    detail = EXCLUDED.detail, rule = EXCLUDED.rule, outcome = EXCLUDED.outcome, us = EXCLUDED.us,
    masked = EXCLUDED.masked, approvals = EXCLUDED.approvals, decided_by = EXCLUDED.decided_by,
    codes = EXCLUDED.codes, findings = EXCLUDED.findings, hosts = EXCLUDED.hosts, last = EXCLUDED.last;
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
