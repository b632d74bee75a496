-- Shared pools: of each window how much is leased, and what each gate got last. A unit that is leased
-- is never leased again in its window, whatever becomes of the gate. Gates of one tenant share them.
CREATE TABLE ledger.pool_window (
  tenant_id text NOT NULL,
  pool      text NOT NULL,
  starts    bigint NOT NULL,
  leased    bigint NOT NULL CHECK (leased >= 0),
  PRIMARY KEY (tenant_id, pool, starts)
);

CREATE TABLE ledger.pool_gate (
  tenant_id text NOT NULL,
  pool      text NOT NULL,
  starts    bigint NOT NULL,
  holder    text NOT NULL,
  serial    bigint NOT NULL,
  granted   bigint NOT NULL CHECK (granted >= 0),
  PRIMARY KEY (tenant_id, pool, starts, holder),
  FOREIGN KEY (tenant_id, pool, starts) REFERENCES ledger.pool_window ON DELETE CASCADE
);

-- Calls at the same time: what each gate holds, and until when if it says nothing more.
CREATE TABLE ledger.pool_hold (
  tenant_id text NOT NULL,
  pool      text NOT NULL,
  holder    text NOT NULL,
  units     bigint NOT NULL CHECK (units > 0),
  until     timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, pool, holder)
);

-- Leases a quarter of an even share of what is left, at least what is needed, or nothing. The same
-- serial of the same gate gets the same answer again.
CREATE FUNCTION ledger.lease_pool(p_pool text, p_starts bigint, p_forget bigint, p_size bigint, p_need bigint,
  p_holder text, p_serial bigint)
RETURNS TABLE (granted bigint, spare bigint) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
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

CREATE FUNCTION ledger.return_pool(p_pool text, p_starts bigint, p_units bigint)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$ BEGIN
  PERFORM ledger.durable();
  UPDATE ledger.pool_window w SET leased = greatest(w.leased - greatest(p_units, 0), 0)
   WHERE w.tenant_id = ledger.tenant() AND w.pool = p_pool AND w.starts = p_starts; END $$;

-- Everything a gate holds of a pool of calls at the same time, in one number; fewer is always granted.
CREATE FUNCTION ledger.hold_pool(p_pool text, p_size bigint, p_holder text, p_want bigint, p_term_ms bigint)
RETURNS TABLE (granted bigint, spare bigint) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
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

REVOKE ALL ON ledger.pool_window, ledger.pool_gate, ledger.pool_hold FROM PUBLIC;
REVOKE ALL ON FUNCTION ledger.lease_pool, ledger.return_pool, ledger.hold_pool FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ledger.lease_pool, ledger.return_pool, ledger.hold_pool TO ledger_writer;
ALTER TABLE ledger.pool_window ENABLE ROW LEVEL SECURITY;
ALTER TABLE ledger.pool_gate ENABLE ROW LEVEL SECURITY;
ALTER TABLE ledger.pool_hold ENABLE ROW LEVEL SECURITY;
