-- What a writer may do. Every function is SECURITY DEFINER, binds the tenant to session_user (RLS
-- would not bind the owner) and checks the lease's secret. WG001 = fenced, WG002 = settings under
-- which a commit would not be durable.

CREATE FUNCTION ledger.tenant() RETURNS text LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog AS $$ DECLARE t text; BEGIN
  SELECT w.tenant INTO t FROM ledger.writer_tenant w WHERE w.role = session_user;
  IF t IS NULL THEN
    RAISE EXCEPTION 'role % writes for no tenant', session_user USING ERRCODE = '42501';
  END IF;
  RETURN t; END $$;

CREATE FUNCTION ledger.durable() RETURNS void LANGUAGE plpgsql STABLE SET search_path = pg_catalog AS $$ BEGIN
  IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')
     OR current_setting('fsync') <> 'on' OR current_setting('full_page_writes') <> 'on' THEN
    RAISE EXCEPTION 'settings are not durable (synchronous_commit %, fsync %, full_page_writes %)',
      current_setting('synchronous_commit'), current_setting('fsync'), current_setting('full_page_writes')
      USING ERRCODE = 'WG002';
  END IF; END $$;

-- Locks the head for its holder. A plain read would overtake an append whose answer was lost.
CREATE FUNCTION ledger.held(p_chain bytea, p_epoch bigint, p_secret bytea, p_lock boolean)
RETURNS ledger.head LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
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

CREATE FUNCTION ledger.lease(p_tenant text, p_pool text, p_writer text, p_previous bytea, p_secret bytea,
  p_chain bytea, p_term_ms bigint)
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
     WHERE c.tenant_id = p_tenant AND c.pool = p_pool
       AND (x.secret_hash = new_hash OR x.secret_hash = old_hash
            OR x.lease_until <= clock_timestamp() OR x.last_kind = 'writer.stopped')
     ORDER BY x.secret_hash = new_hash DESC, coalesce(x.secret_hash = old_hash, false) DESC, c.slot
     LIMIT 1 FOR UPDATE OF x;
    EXIT WHEN h.chain_id IS NOT NULL;
    -- The row we waited for may have been renewed meanwhile; look again while any other is free.
    EXIT WHEN NOT EXISTS (
      SELECT 1 FROM ledger.head x JOIN ledger.chain c ON c.chain_id = x.chain_id
       WHERE c.tenant_id = p_tenant AND c.pool = p_pool
         AND (x.lease_until <= clock_timestamp() OR x.last_kind = 'writer.stopped'));
  END LOOP;
  IF h.chain_id IS NULL THEN
    SELECT coalesce(max(c.slot) + 1, 0) INTO v_slot FROM ledger.chain c
     WHERE c.tenant_id = p_tenant AND c.pool = p_pool;
    INSERT INTO ledger.chain (chain_id, tenant_id, pool, slot, origin) VALUES (p_chain, p_tenant, p_pool, v_slot,
      'wicketgate.dev/' || p_tenant || '/' || p_pool || '/' || v_slot || '/0');
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

CREATE FUNCTION ledger.append_batch(p_chain bytea, p_epoch bigint, p_secret bytea, p_size bigint, p_head bytea,
  p_leaves bytea[], p_runs uuid[], p_calls text[], p_kinds text[], p_bodies bytea[],
  p_frontier bytea, p_checkpoint text,
  p_commitments bytea[], p_salts bytea[], p_roles text[], p_media text[], p_payloads bytea[], p_signed bigint)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
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

CREATE FUNCTION ledger.put_payload(p_chain bytea, p_epoch bigint, p_secret bytea, p_commitment bytea, p_salt bytea,
  p_role text, p_media text, p_body bytea)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$ BEGIN
  PERFORM ledger.durable();
  PERFORM ledger.held(p_chain, p_epoch, p_secret, false);
  INSERT INTO ledger.payload VALUES (p_chain, p_commitment, p_salt, p_role, p_media, p_body)
  ON CONFLICT (chain_id, commitment) DO NOTHING; END $$;

CREATE FUNCTION ledger.release_lease(p_chain bytea, p_epoch bigint, p_secret bytea)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$ BEGIN
  PERFORM ledger.held(p_chain, p_epoch, p_secret, false);
  UPDATE ledger.head h SET lease_until = '-infinity' WHERE h.chain_id = p_chain AND h.epoch = p_epoch; END $$;

CREATE FUNCTION ledger.read_head(p_chain bytea, p_epoch bigint, p_secret bytea)
RETURNS TABLE (size bigint, head_hash bytea, frontier bytea, checkpoint text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE h ledger.head; BEGIN
  h := ledger.held(p_chain, p_epoch, p_secret, true);
  RETURN QUERY SELECT h.size, h.head_hash, h.frontier, h.checkpoint; END $$;

CREATE FUNCTION ledger.tail(p_chain bytea, p_epoch bigint, p_secret bytea, p_from bigint, p_limit bigint)
RETURNS SETOF ledger.entry LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$ BEGIN
  PERFORM ledger.held(p_chain, p_epoch, p_secret, false);
  RETURN QUERY SELECT * FROM ledger.entry e WHERE e.chain_id = p_chain AND e.seq >= p_from
                ORDER BY e.seq LIMIT p_limit; END $$;

CREATE FUNCTION ledger.open_runs(p_chain bytea, p_epoch bigint, p_secret bytea)
RETURNS SETOF uuid LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$ BEGIN
  PERFORM ledger.held(p_chain, p_epoch, p_secret, false);
  RETURN QUERY SELECT o.run_id FROM ledger.open_run o WHERE o.chain_id = p_chain ORDER BY o.run_id; END $$;

CREATE FUNCTION ledger.run_entries(p_chain bytea, p_epoch bigint, p_secret bytea, p_run uuid)
RETURNS SETOF ledger.entry LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$ BEGIN
  PERFORM ledger.held(p_chain, p_epoch, p_secret, false);
  RETURN QUERY SELECT * FROM ledger.entry e WHERE e.chain_id = p_chain AND e.run_id = p_run ORDER BY e.seq; END $$;

CREATE FUNCTION ledger.call_entries(p_chain bytea, p_epoch bigint, p_secret bytea, p_run uuid, p_call text)
RETURNS SETOF ledger.entry LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$ BEGIN
  PERFORM ledger.held(p_chain, p_epoch, p_secret, false);
  RETURN QUERY SELECT * FROM ledger.entry e WHERE e.chain_id = p_chain AND e.run_id = p_run
                AND e.call_id = p_call ORDER BY e.seq; END $$;

CREATE FUNCTION ledger.read_payload(p_chain bytea, p_epoch bigint, p_secret bytea, p_commitment bytea)
RETURNS SETOF ledger.payload LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$ BEGIN
  PERFORM ledger.held(p_chain, p_epoch, p_secret, false);
  RETURN QUERY SELECT * FROM ledger.payload p WHERE p.chain_id = p_chain AND p.commitment = p_commitment; END $$;

CREATE FUNCTION ledger.erase_payload(p_chain bytea, p_commitment bytea)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$ BEGIN
  DELETE FROM ledger.payload p WHERE p.chain_id = p_chain AND p.commitment = p_commitment;
  RETURN FOUND; END $$;

CREATE FUNCTION ledger.reader_sees(p_tenant text) RETURNS boolean LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog AS $$
  SELECT EXISTS (SELECT 1 FROM ledger.reader_tenant r
                  WHERE r.role = session_user AND (r.tenant IS NULL OR r.tenant = p_tenant)) $$;

CREATE FUNCTION ledger.version() RETURNS int LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog AS $$ SELECT max(version) FROM ledger.schema_version $$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA ledger FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA ledger FROM PUBLIC;
GRANT USAGE ON SCHEMA ledger TO ledger_writer, ledger_reader, ledger_eraser;
GRANT EXECUTE ON FUNCTION ledger.version TO ledger_writer, ledger_reader, ledger_eraser;
GRANT EXECUTE ON FUNCTION ledger.lease, ledger.append_batch, ledger.put_payload, ledger.release_lease,
  ledger.read_head, ledger.tail, ledger.open_runs, ledger.run_entries, ledger.call_entries,
  ledger.read_payload TO ledger_writer;
GRANT EXECUTE ON FUNCTION ledger.reader_sees TO ledger_reader;
GRANT EXECUTE ON FUNCTION ledger.erase_payload TO ledger_eraser;
GRANT SELECT ON ledger.chain, ledger.entry, ledger.checkpoint, ledger.payload TO ledger_reader;
-- Not the secret's hash.
GRANT SELECT (chain_id, epoch, writer, lease_until, size, head_hash, frontier, checkpoint)
  ON ledger.head TO ledger_reader;

-- Readers see their tenant. The owner, and so the functions above, are not bound by this. Nobody is
-- granted anything on a partition: RLS is evaluated on the relation that is named.
ALTER TABLE ledger.chain ENABLE ROW LEVEL SECURITY;
ALTER TABLE ledger.head ENABLE ROW LEVEL SECURITY;
ALTER TABLE ledger.entry ENABLE ROW LEVEL SECURITY;
ALTER TABLE ledger.checkpoint ENABLE ROW LEVEL SECURITY;
ALTER TABLE ledger.payload ENABLE ROW LEVEL SECURITY;
CREATE POLICY tenant ON ledger.chain FOR SELECT TO ledger_reader USING (ledger.reader_sees(tenant_id));
CREATE POLICY tenant ON ledger.head FOR SELECT TO ledger_reader
  USING (chain_id IN (SELECT c.chain_id FROM ledger.chain c));
CREATE POLICY tenant ON ledger.entry FOR SELECT TO ledger_reader
  USING (chain_id IN (SELECT c.chain_id FROM ledger.chain c));
CREATE POLICY tenant ON ledger.checkpoint FOR SELECT TO ledger_reader
  USING (chain_id IN (SELECT c.chain_id FROM ledger.chain c));
CREATE POLICY tenant ON ledger.payload FOR SELECT TO ledger_reader
  USING (chain_id IN (SELECT c.chain_id FROM ledger.chain c));
