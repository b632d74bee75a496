-- What the hub's reaper may do: see which slots nobody writes any more, and take one of them to close
-- what it left open. Logins that give orders have this, writers do not: a stolen writer password must
-- not end other sidecars' runs.

-- Slots of the tenant whose lease ran out, or whose writer ended in order and left runs open.
CREATE FUNCTION ledger.abandoned()
RETURNS TABLE (chain_id bytea, slot text, origin text, epoch bigint, size bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog AS $$
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

-- Takes one of them, if it still is as it was seen and its lease ran out this long ago. A writer that
-- renewed its lease or came back meanwhile keeps the slot; of two that take it one wins.
CREATE FUNCTION ledger.reap(p_chain bytea, p_epoch bigint, p_size bigint, p_grace_ms bigint, p_writer text,
  p_secret bytea, p_term_ms bigint)
RETURNS TABLE (chain_id bytea, epoch bigint, slot text, origin text, same boolean,
               size bigint, head_hash bytea, frontier bytea, checkpoint text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
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

REVOKE ALL ON FUNCTION ledger.abandoned, ledger.reap FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ledger.abandoned, ledger.reap TO ledger_operator;
