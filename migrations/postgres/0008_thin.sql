-- A pruning thins the checkpoints of what it drops: the last of each epoch stays, and every one that the
-- fleet log has recorded. Those of later entries stay all.
CREATE FUNCTION ledger.checkpoint_guard() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$ BEGIN
  IF TG_OP = 'DELETE'
     AND EXISTS (SELECT 1 FROM ledger.pruned p
                  WHERE p.chain_id = OLD.chain_id AND OLD.size > p.low AND OLD.size <= p.high)
     AND EXISTS (SELECT 1 FROM ledger.checkpoint c
                  WHERE c.chain_id = OLD.chain_id AND c.epoch = OLD.epoch AND c.size > OLD.size) THEN
    RETURN OLD;
  END IF;
  RAISE EXCEPTION 'ledger.% is append-only (% refused)', TG_TABLE_NAME, TG_OP USING ERRCODE = '42501'; END $$;
DROP TRIGGER checkpoint_no_rewrite ON ledger.checkpoint;
CREATE TRIGGER checkpoint_no_rewrite BEFORE UPDATE OR DELETE ON ledger.checkpoint
  FOR EACH ROW EXECUTE FUNCTION ledger.checkpoint_guard();
ALTER TABLE ledger.checkpoint ENABLE ALWAYS TRIGGER checkpoint_no_rewrite;

-- Thins one portion of a recorded pruning.
CREATE FUNCTION ledger.thin(p_chain bytea, p_from bigint, p_to bigint)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
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
REVOKE ALL ON FUNCTION ledger.checkpoint_guard, ledger.thin FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ledger.thin TO ledger_eraser;
