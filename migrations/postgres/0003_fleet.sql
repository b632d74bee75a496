-- The fleet log: one slot, chains that continue others, and what others said of its heads.

-- A slot whose chain lost entries for good begins its next one, `<n + 1>`; the old one stays readable.
ALTER TABLE ledger.chain ADD COLUMN n bigint NOT NULL DEFAULT 0 CHECK (n >= 0),
                         ADD COLUMN retired boolean NOT NULL DEFAULT false;
ALTER TABLE ledger.chain DROP CONSTRAINT chain_tenant_id_pool_slot_key;
ALTER TABLE ledger.chain ADD CONSTRAINT chain_slot UNIQUE (tenant_id, pool, slot, n);

-- The note with every cosignature that came, and the time stamp tokens over its body, a JSON array of
-- base64.
CREATE TABLE ledger.anchor (
  chain_id bytea NOT NULL, size bigint NOT NULL CHECK (size > 0), note text NOT NULL, tokens text NOT NULL,
  PRIMARY KEY (chain_id, size));
CREATE TRIGGER anchor_no_delete BEFORE DELETE ON ledger.anchor
  FOR EACH ROW EXECUTE FUNCTION ledger.reject();
ALTER TABLE ledger.anchor ENABLE ALWAYS TRIGGER anchor_no_delete;
CREATE TRIGGER no_truncate BEFORE TRUNCATE ON ledger.anchor
  FOR EACH STATEMENT EXECUTE FUNCTION ledger.reject();
ALTER TABLE ledger.anchor ENABLE ALWAYS TRIGGER no_truncate;

-- A projection that can be rebuilt from the entries: the newest entry of each kind that fleet logs of
-- the tenant hold about a log. Without it a starting writer would read the whole fleet log.
CREATE TABLE ledger.fleet_said (
  tenant_id text NOT NULL, log text NOT NULL, kind text NOT NULL, chain_id bytea NOT NULL, seq bigint NOT NULL,
  PRIMARY KEY (tenant_id, log, kind));
CREATE FUNCTION ledger.fleet_notes() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog AS $$ BEGIN
  INSERT INTO ledger.fleet_said
  SELECT c.tenant_id, convert_from(NEW.body, 'UTF8')::json -> 'data' ->> 'log', NEW.kind, NEW.chain_id, NEW.seq
    FROM ledger.chain c WHERE c.chain_id = NEW.chain_id AND c.pool = 'fleet'
  ON CONFLICT (tenant_id, log, kind) DO UPDATE SET chain_id = EXCLUDED.chain_id, seq = EXCLUDED.seq;
  RETURN NULL; END $$;
CREATE TRIGGER fleet_notes AFTER INSERT ON ledger.entry FOR EACH ROW
  WHEN (NEW.kind IN ('chain.enrolled', 'chain.checkpoint', 'chain.retired'))
  EXECUTE FUNCTION ledger.fleet_notes();

DROP FUNCTION ledger.lease(text, text, text, bytea, bytea, bytea, bigint);
-- As before, and: the fleet log is one slot (a second newcomer waits), a retired chain is never taken,
-- and a writer comes back to the chain it wrote last even if its secret is no longer known here.
CREATE FUNCTION ledger.lease(p_tenant text, p_pool text, p_writer text, p_previous bytea, p_before bytea,
  p_secret bytea, p_chain bytea, p_term_ms bigint)
RETURNS TABLE (chain_id bytea, epoch bigint, slot text, origin text, same boolean,
               size bigint, head_hash bytea, frontier bytea, checkpoint text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
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

-- What fleet logs of the tenant say about the log of a lease, and whether a chain is known at all.
CREATE FUNCTION ledger.fleet_view(p_chain bytea, p_epoch bigint, p_secret bytea, p_before bytea)
RETURNS TABLE (fleet text, fleet_size bigint, known boolean, kind text, body bytea)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
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

CREATE FUNCTION ledger.fleet_leaves(p_chain bytea, p_epoch bigint, p_secret bytea, p_from bigint, p_limit bigint)
RETURNS TABLE (leaf_hash bytea) LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE mine text := ledger.tenant(); BEGIN
  PERFORM ledger.held(p_chain, p_epoch, p_secret, false);
  RETURN QUERY SELECT e.leaf_hash FROM ledger.entry e
    WHERE e.chain_id = (SELECT c.chain_id FROM ledger.chain c
                         WHERE c.tenant_id = mine AND c.pool = 'fleet' AND NOT c.retired)
      AND e.seq >= p_from ORDER BY e.seq LIMIT p_limit; END $$;

CREATE FUNCTION ledger.signed_at(p_chain bytea, p_epoch bigint, p_secret bytea, p_size bigint)
RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$ BEGIN
  PERFORM ledger.held(p_chain, p_epoch, p_secret, false);
  RETURN (SELECT c.note FROM ledger.checkpoint c WHERE c.chain_id = p_chain AND c.size = p_size); END $$;

CREATE FUNCTION ledger.put_anchor(p_chain bytea, p_epoch bigint, p_secret bytea, p_size bigint, p_note text, p_tokens text)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$ BEGIN
  PERFORM ledger.durable();
  PERFORM ledger.held(p_chain, p_epoch, p_secret, false);
  INSERT INTO ledger.anchor VALUES (p_chain, p_size, p_note, p_tokens)
  ON CONFLICT (chain_id, size) DO UPDATE SET note = EXCLUDED.note, tokens = EXCLUDED.tokens; END $$;

-- Retires the chain of a lease and begins another under its slot, with its first entries, or not at
-- all. An empty chain has nothing to retire: it takes the new name.
CREATE FUNCTION ledger.restart(p_chain bytea, p_epoch bigint, p_secret bytea, p_next bytea, p_next_epoch bigint,
  p_next_secret bytea, p_n bigint, p_origin text, p_leaves bytea[], p_kinds text[], p_bodies bytea[],
  p_frontier bytea, p_checkpoint text)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
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

REVOKE ALL ON ledger.anchor, ledger.fleet_said FROM PUBLIC;
REVOKE ALL ON FUNCTION ledger.lease, ledger.fleet_notes, ledger.fleet_view, ledger.fleet_leaves, ledger.signed_at,
  ledger.put_anchor, ledger.restart FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ledger.lease, ledger.fleet_view, ledger.fleet_leaves, ledger.signed_at,
  ledger.put_anchor, ledger.restart TO ledger_writer;
GRANT SELECT ON ledger.anchor, ledger.fleet_said TO ledger_reader;
ALTER TABLE ledger.anchor ENABLE ROW LEVEL SECURITY;
ALTER TABLE ledger.fleet_said ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON ledger.anchor FOR SELECT TO ledger_reader
  USING (chain_id IN (SELECT c.chain_id FROM ledger.chain c));
CREATE POLICY tenant ON ledger.fleet_said FOR SELECT TO ledger_reader USING (ledger.reader_sees(tenant_id));
