-- Roots of completed subtrees, so that a proof reads little; heights 8, 16, 24 and 32. They are
-- derived: whoever uses them checks the outcome against a signed root, and they can be dropped and
-- filled again. Height 0 holds the leaf hashes of tiles from which entries were pruned.
CREATE TABLE ledger.subtree (
  chain_id bytea NOT NULL, height int NOT NULL, idx bigint NOT NULL CHECK (idx >= 0),
  hash     bytea NOT NULL CHECK (octet_length(hash) = 32),
  PRIMARY KEY (chain_id, height, idx));

CREATE FUNCTION ledger.put_subtrees(p_chain bytea, p_epoch bigint, p_secret bytea,
  p_heights int[], p_idx bigint[], p_hashes bytea[])
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$ BEGIN
  PERFORM ledger.held(p_chain, p_epoch, p_secret, false);
  INSERT INTO ledger.subtree SELECT p_chain, h, i, x FROM unnest(p_heights, p_idx, p_hashes) t(h, i, x)
  ON CONFLICT DO NOTHING; END $$;

-- What a ledger made before has no subtrees of is filled here, once.
CREATE FUNCTION ledger.perfect_root(p_nodes bytea[]) RETURNS bytea LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog AS $$
DECLARE nodes bytea[] := p_nodes; BEGIN
  WHILE cardinality(nodes) > 1 LOOP
    SELECT array_agg(sha256('\x01'::bytea || nodes[i] || nodes[i + 1]) ORDER BY i) INTO nodes
      FROM generate_series(1, cardinality(nodes), 2) i;
  END LOOP;
  RETURN nodes[1]; END $$;
INSERT INTO ledger.subtree
SELECT chain_id, 8, seq / 256, ledger.perfect_root(array_agg(leaf_hash ORDER BY seq))
  FROM ledger.entry GROUP BY chain_id, seq / 256 HAVING count(*) = 256;
DO $$ BEGIN
  FOR h IN 1..3 LOOP
    INSERT INTO ledger.subtree
    SELECT chain_id, 8 * (h + 1), idx / 256, ledger.perfect_root(array_agg(hash ORDER BY idx))
      FROM ledger.subtree WHERE height = 8 * h GROUP BY chain_id, idx / 256 HAVING count(*) = 256;
  END LOOP;
END $$;

-- What may be dropped: ranges that an entry of the fleet log names. Never changed, never deleted.
CREATE TABLE ledger.pruned (
  chain_id bytea NOT NULL, low bigint NOT NULL CHECK (low >= 0), high bigint NOT NULL CHECK (high > low),
  fleet_chain bytea NOT NULL, fleet_seq bigint NOT NULL,
  PRIMARY KEY (chain_id, low, high));
CREATE TRIGGER pruned_no_rewrite BEFORE UPDATE OR DELETE ON ledger.pruned
  FOR EACH ROW EXECUTE FUNCTION ledger.reject();
CREATE TRIGGER no_truncate BEFORE TRUNCATE ON ledger.pruned
  FOR EACH STATEMENT EXECUTE FUNCTION ledger.reject();
ALTER TABLE ledger.pruned ENABLE ALWAYS TRIGGER pruned_no_rewrite;
ALTER TABLE ledger.pruned ENABLE ALWAYS TRIGGER no_truncate;

CREATE FUNCTION ledger.entry_guard() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$ BEGIN
  IF TG_OP = 'DELETE'
     AND OLD.kind NOT IN ('chain.genesis', 'writer.started', 'policy.activated', 'manifest.bound', 'anchor.observed')
     AND EXISTS (SELECT 1 FROM ledger.pruned p
                  WHERE p.chain_id = OLD.chain_id AND OLD.seq >= p.low AND OLD.seq < p.high) THEN
    RETURN OLD;
  END IF;
  RAISE EXCEPTION 'ledger.% is append-only (% refused)', TG_TABLE_NAME, TG_OP USING ERRCODE = '42501'; END $$;
DROP TRIGGER entry_no_rewrite ON ledger.entry;
CREATE TRIGGER entry_no_rewrite BEFORE UPDATE OR DELETE ON ledger.entry
  FOR EACH ROW EXECUTE FUNCTION ledger.entry_guard();
DO $$ DECLARE t text; BEGIN
  FOREACH t IN ARRAY ARRAY['entry', 'entry_p0', 'entry_p1', 'entry_p2', 'entry_p3'] LOOP
    EXECUTE format('ALTER TABLE ledger.%I ENABLE ALWAYS TRIGGER entry_no_rewrite', t);
  END LOOP;
END $$;

-- Notes that the fleet log says so. The writer's password is not enough: only an eraser may prune.
CREATE FUNCTION ledger.record_pruning(p_chain bytea, p_low bigint, p_high bigint, p_fleet bytea, p_seq bigint)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$ BEGIN
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

-- Drops one portion of a recorded pruning; both ends are multiples of 256.
CREATE FUNCTION ledger.prune(p_chain bytea, p_from bigint, p_to bigint)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE n bigint; BEGIN
  IF NOT EXISTS (SELECT 1 FROM ledger.pruned p WHERE p.chain_id = p_chain AND p.low <= p_from AND p_to <= p.high) THEN
    RAISE EXCEPTION 'ledger.pruned: no such pruning' USING ERRCODE = '42501';
  END IF;
  INSERT INTO ledger.subtree SELECT e.chain_id, 0, e.seq, e.leaf_hash FROM ledger.entry e
   WHERE e.chain_id = p_chain AND e.seq >= p_from AND e.seq < p_to AND e.seq / 256 IN (
     SELECT k.seq / 256 FROM ledger.entry k WHERE k.chain_id = p_chain AND k.seq >= p_from AND k.seq < p_to
        AND k.kind IN ('chain.genesis', 'writer.started', 'policy.activated', 'manifest.bound', 'anchor.observed'))
  ON CONFLICT DO NOTHING;
  DELETE FROM ledger.payload p USING (
    SELECT decode(x ->> 'c', 'hex') AS c FROM ledger.entry e,
           jsonb_array_elements(coalesce(convert_from(e.body, 'UTF8')::jsonb -> 'commit', '[]')) x
     WHERE e.chain_id = p_chain AND e.seq >= p_from AND e.seq < p_to) gone
   WHERE p.chain_id = p_chain AND p.commitment = gone.c;
  DELETE FROM ledger.entry e WHERE e.chain_id = p_chain AND e.seq >= p_from AND e.seq < p_to
     AND e.kind NOT IN ('chain.genesis', 'writer.started', 'policy.activated', 'manifest.bound', 'anchor.observed');
  GET DIAGNOSTICS n = ROW_COUNT;
  RETURN n; END $$;

REVOKE ALL ON ledger.subtree, ledger.pruned FROM PUBLIC;
REVOKE ALL ON FUNCTION ledger.put_subtrees, ledger.perfect_root, ledger.entry_guard, ledger.record_pruning,
  ledger.prune FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ledger.put_subtrees TO ledger_writer;
GRANT EXECUTE ON FUNCTION ledger.record_pruning, ledger.prune TO ledger_eraser;
GRANT SELECT ON ledger.subtree, ledger.pruned TO ledger_reader;
ALTER TABLE ledger.subtree ENABLE ROW LEVEL SECURITY;
ALTER TABLE ledger.pruned ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON ledger.subtree FOR SELECT TO ledger_reader
  USING (chain_id IN (SELECT c.chain_id FROM ledger.chain c));
CREATE POLICY tenant ON ledger.pruned FOR SELECT TO ledger_reader
  USING (chain_id IN (SELECT c.chain_id FROM ledger.chain c));
