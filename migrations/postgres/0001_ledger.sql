-- The ledger on PostgreSQL 15 and later. Runs as ledger_owner, in the transaction of `migrate`.
-- Privileges stop mistakes and a stolen writer password; the checkpoints stop the administrator.
--
-- Sections: logins, chains, entries, what belongs to entries, the fleet log, pruning, orders, shared pools, rights.
-- Every function that a login may call is SECURITY DEFINER and binds the tenant to session_user: row-level security
-- does not bind the owner. WG001 = fenced, WG002 = settings under which a commit would not be durable.

-- ---- Logins ----

CREATE TABLE ledger.writer_tenant (role name PRIMARY KEY, tenant text NOT NULL);
-- A NULL tenant sees every tenant.
CREATE TABLE ledger.reader_tenant (role name PRIMARY KEY, tenant text);

CREATE FUNCTION ledger.tenant() RETURNS text LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog AS $$ DECLARE t text; BEGIN
  SELECT w.tenant INTO t FROM ledger.writer_tenant w WHERE w.role = session_user;
  IF t IS NULL THEN
    RAISE EXCEPTION 'role % writes for no tenant', session_user USING ERRCODE = '42501';
  END IF;
  RETURN t; END $$;

CREATE FUNCTION ledger.reader_sees(p_tenant text) RETURNS boolean LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog AS $$
  SELECT EXISTS (SELECT 1 FROM ledger.reader_tenant r
                  WHERE r.role = session_user AND (r.tenant IS NULL OR r.tenant = p_tenant)) $$;

CREATE FUNCTION ledger.version() RETURNS int LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog AS $$ SELECT max(version) FROM ledger.schema_version $$;

-- While gates are replaced one after the other, those of the build before go on with the schema of the next: a schema
-- says which gates still write and read with it, the oldest by the schema they were built for.
CREATE FUNCTION ledger.serves() RETURNS int LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog AS $$
  SELECT coalesce(v.serves, v.version) FROM ledger.schema_version v ORDER BY v.version DESC LIMIT 1 $$;

CREATE FUNCTION ledger.durable() RETURNS void LANGUAGE plpgsql STABLE SET search_path = pg_catalog AS $$ BEGIN
  IF current_setting('synchronous_commit') NOT IN ('on', 'remote_apply')
     OR current_setting('fsync') <> 'on' OR current_setting('full_page_writes') <> 'on' THEN
    RAISE EXCEPTION 'settings are not durable (synchronous_commit %, fsync %, full_page_writes %)',
      current_setting('synchronous_commit'), current_setting('fsync'), current_setting('full_page_writes')
      USING ERRCODE = 'WG002';
  END IF; END $$;

-- Triggers are ENABLE ALWAYS, so that session_replication_role does not switch them off, and a TRUNCATE trigger is on
-- every partition, because statement triggers are not inherited.
CREATE FUNCTION ledger.reject() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$ BEGIN
  RAISE EXCEPTION 'ledger.% is append-only (% refused)', TG_TABLE_NAME, TG_OP USING ERRCODE = '42501'; END $$;

-- An entry to look a member up in. A text of PostgreSQL cannot have U+0000, and one of an entry may: it is a blank here.
-- IMMUTABLE, so that a generated column may use it: the encoding of a database never changes.
CREATE FUNCTION ledger.json(p_body bytea) RETURNS jsonb LANGUAGE plpgsql IMMUTABLE STRICT PARALLEL SAFE
SET search_path = pg_catalog AS $$ BEGIN
  RETURN replace(convert_from(p_body, 'UTF8'), '\u0000', '\u0020')::jsonb; END $$;

-- ---- Chains ----

-- A slot whose chain lost entries for good begins its next one, `<n + 1>`; the old one stays readable.
CREATE TABLE ledger.chain (
  chain_id   bytea PRIMARY KEY CHECK (octet_length(chain_id) = 16),
  tenant_id  text NOT NULL,
  pool       text NOT NULL,
  slot       bigint NOT NULL CHECK (slot >= 0),
  origin     text NOT NULL UNIQUE,
  created_at timestamptz NOT NULL DEFAULT now(),
  n          bigint NOT NULL DEFAULT 0 CHECK (n >= 0),
  retired    boolean NOT NULL DEFAULT false,
  CONSTRAINT chain_slot UNIQUE (tenant_id, pool, slot, n));

-- The only mutable row of a chain: the fence. fillfactor leaves room for HOT updates.
CREATE TABLE ledger.head (
  chain_id    bytea PRIMARY KEY REFERENCES ledger.chain,
  epoch       bigint NOT NULL CHECK (epoch >= 1),
  writer      text NOT NULL,
  secret_hash bytea NOT NULL CHECK (octet_length(secret_hash) = 32),
  replaced    bytea,
  lease_until timestamptz NOT NULL,
  term        interval NOT NULL,
  last_kind   text NOT NULL,
  size        bigint NOT NULL CHECK (size >= 0),
  head_hash   bytea NOT NULL CHECK (octet_length(head_hash) = 32),
  frontier    bytea NOT NULL,
  checkpoint  text NOT NULL) WITH (fillfactor = 50);

CREATE FUNCTION ledger.head_guard() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$ BEGIN
  IF NEW.chain_id <> OLD.chain_id OR NEW.epoch < OLD.epoch OR NEW.size < OLD.size
     OR (NEW.size = OLD.size AND NEW.head_hash <> OLD.head_hash) THEN
    RAISE EXCEPTION 'head may not move backwards' USING ERRCODE = '42501';
  END IF; RETURN NEW; END $$;

CREATE TRIGGER head_no_delete BEFORE DELETE ON ledger.head
  FOR EACH ROW EXECUTE FUNCTION ledger.reject();
CREATE TRIGGER head_monotonic BEFORE UPDATE ON ledger.head
  FOR EACH ROW EXECUTE FUNCTION ledger.head_guard();
CREATE TRIGGER no_truncate BEFORE TRUNCATE ON ledger.head
  FOR EACH STATEMENT EXECUTE FUNCTION ledger.reject();
ALTER TABLE ledger.head ENABLE ALWAYS TRIGGER head_no_delete, ENABLE ALWAYS TRIGGER head_monotonic,
  ENABLE ALWAYS TRIGGER no_truncate;

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

-- The fleet log is one slot (a second newcomer waits), a retired chain is never taken, and a writer comes back to the
-- chain it wrote last even if its secret is no longer known here.
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

-- What the hub's reaper may do: see which slots nobody writes any more, and take one of them to close what it left
-- open. Logins that give orders have this, writers do not: a stolen writer password must not end other sidecars' runs.

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

-- Takes one of them, if it still is as it was seen and its lease ran out this long ago. A writer that renewed its lease
-- or came back meanwhile keeps the slot; of two that take it one wins.
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

-- ---- Entries ----

-- Entries lie in blocks: the leaves of `entry` are ranges of `seq` below partitions by hash, so that a pruning drops a
-- table instead of deleting a quarter of a million rows.
CREATE TABLE ledger.entry (
  chain_id  bytea NOT NULL,
  seq       bigint NOT NULL CHECK (seq >= 0),
  leaf_hash bytea NOT NULL CHECK (octet_length(leaf_hash) = 32),
  prev_hash bytea NOT NULL CHECK (octet_length(prev_hash) = 32),
  run_id    uuid,
  call_id   text,
  kind      text NOT NULL,
  body      bytea NOT NULL CHECK (octet_length(body) BETWEEN 2 AND 65535),
  CHECK (leaf_hash = sha256('\x00'::bytea || body)),
  PRIMARY KEY (chain_id, seq)) PARTITION BY HASH (chain_id);
CREATE INDEX entry_run ON ledger.entry (chain_id, run_id, seq) WHERE run_id IS NOT NULL;
CREATE INDEX entry_call ON ledger.entry (chain_id, run_id, call_id) WHERE call_id IS NOT NULL;
CREATE INDEX entry_lone ON ledger.entry (chain_id, kind, seq) WHERE run_id IS NULL;

-- What a recorded pruning names may be deleted, except the kinds that stay.
CREATE FUNCTION ledger.entry_guard() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$ BEGIN
  IF TG_OP = 'DELETE'
     AND OLD.kind NOT IN ('chain.genesis', 'writer.started', 'policy.activated', 'manifest.bound', 'anchor.observed')
     AND EXISTS (SELECT 1 FROM ledger.pruned p
                  WHERE p.chain_id = OLD.chain_id AND OLD.seq >= p.low AND OLD.seq < p.high) THEN
    RETURN OLD;
  END IF;
  RAISE EXCEPTION 'ledger.% is append-only (% refused)', TG_TABLE_NAME, TG_OP USING ERRCODE = '42501'; END $$;

CREATE TRIGGER entry_no_rewrite BEFORE UPDATE OR DELETE ON ledger.entry
  FOR EACH ROW EXECUTE FUNCTION ledger.entry_guard();

CREATE FUNCTION ledger.block_entries() RETURNS bigint LANGUAGE sql IMMUTABLE SET search_path = pg_catalog AS
$$ SELECT 262144::bigint $$;

-- Nothing of a block may be changed around the triggers, and none of it may be truncated.
CREATE FUNCTION ledger.guard_block(p_leaf text) RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog AS $$ BEGIN
  EXECUTE format('ALTER TABLE ledger.%I ENABLE ALWAYS TRIGGER entry_no_rewrite', p_leaf);
  IF NOT EXISTS (SELECT 1 FROM pg_trigger t
                  WHERE t.tgrelid = format('ledger.%I', p_leaf)::regclass AND t.tgname = 'no_truncate') THEN
    EXECUTE format('CREATE TRIGGER no_truncate BEFORE TRUNCATE ON ledger.%I
                    FOR EACH STATEMENT EXECUTE FUNCTION ledger.reject()', p_leaf);
  END IF;
  EXECUTE format('ALTER TABLE ledger.%I ENABLE ALWAYS TRIGGER no_truncate', p_leaf);
END $$;

DO $$ DECLARE k int; BEGIN
  PERFORM ledger.guard_block('entry');
  FOR k IN 0..3 LOOP
    EXECUTE format('CREATE TABLE ledger.entry_p%1$s PARTITION OF ledger.entry
                    FOR VALUES WITH (MODULUS 4, REMAINDER %1$s) PARTITION BY RANGE (seq)', k);
    PERFORM ledger.guard_block(format('entry_p%s', k));
    EXECUTE format('CREATE TABLE ledger.entry_p%1$s_0 PARTITION OF ledger.entry_p%1$s
                    FOR VALUES FROM (0) TO (%2$s)', k, ledger.block_entries());
    PERFORM ledger.guard_block(format('entry_p%s_0', k));
  END LOOP;
END $$;

-- The partition by hash that a chain is in.
CREATE FUNCTION ledger.bucket(p_chain bytea) RETURNS int LANGUAGE sql STABLE SET search_path = pg_catalog AS
$$ SELECT k FROM generate_series(0, 3) k WHERE satisfies_hash_partition('ledger.entry'::regclass, 4, k, p_chain) $$;

-- The leaf that holds an entry of a chain, and the range of it; nothing if there is none yet.
CREATE FUNCTION ledger.block_of(p_chain bytea, p_seq bigint, OUT leaf text, OUT low bigint, OUT high bigint)
LANGUAGE sql STABLE SET search_path = pg_catalog AS $$
  SELECT b.leaf, b.ends[1]::bigint, b.ends[2]::bigint FROM (
    SELECT c.relname::text AS leaf,
           regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM \(''?(\d+)''?\) TO \(''?(\d+)''?\)') AS ends
      FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
     WHERE i.inhparent = format('ledger.entry_p%s', ledger.bucket(p_chain))::regclass) b
   WHERE p_seq >= b.ends[1]::bigint AND p_seq < b.ends[2]::bigint $$;

-- Makes the block that an entry of a chain will be in, if it is not there. ATTACH takes no lock that an append waits
-- for; the lock below is for two chains of one partition that come to its end together.
CREATE FUNCTION ledger.make_block(p_chain bytea, p_seq bigint) RETURNS void LANGUAGE plpgsql
SET search_path = pg_catalog AS $$
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

-- The next block is there long before it is needed: an eighth of a block ahead.
CREATE FUNCTION ledger.blocks_ahead() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE s bigint; step bigint := ledger.block_entries(); last bigint := NEW.size + step / 8; BEGIN
  s := CASE WHEN TG_OP = 'INSERT' THEN 0 ELSE OLD.size END;
  WHILE s < last LOOP
    PERFORM ledger.make_block(NEW.chain_id, s);
    s := s + step;
  END LOOP;
  PERFORM ledger.make_block(NEW.chain_id, last);
  RETURN NULL; END $$;

CREATE TRIGGER blocks_at_first AFTER INSERT ON ledger.head FOR EACH ROW EXECUTE FUNCTION ledger.blocks_ahead();
CREATE TRIGGER blocks_ahead AFTER UPDATE ON ledger.head FOR EACH ROW
  WHEN (OLD.epoch <> NEW.epoch OR OLD.size / (ledger.block_entries() / 8) <> NEW.size / (ledger.block_entries() / 8))
  EXECUTE FUNCTION ledger.blocks_ahead();

-- ---- What belongs to entries ----

CREATE TABLE ledger.checkpoint (
  chain_id bytea NOT NULL, size bigint NOT NULL, epoch bigint NOT NULL, note text NOT NULL,
  PRIMARY KEY (chain_id, size));

-- A pruning thins the checkpoints of what it drops: the last of each epoch stays, and every one that the fleet log has
-- recorded. Those of later entries stay all.
CREATE FUNCTION ledger.checkpoint_guard() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$ BEGIN
  IF TG_OP = 'DELETE'
     AND EXISTS (SELECT 1 FROM ledger.pruned p
                  WHERE p.chain_id = OLD.chain_id AND OLD.size > p.low AND OLD.size <= p.high)
     AND EXISTS (SELECT 1 FROM ledger.checkpoint c
                  WHERE c.chain_id = OLD.chain_id AND c.epoch = OLD.epoch AND c.size > OLD.size) THEN
    RETURN OLD;
  END IF;
  RAISE EXCEPTION 'ledger.% is append-only (% refused)', TG_TABLE_NAME, TG_OP USING ERRCODE = '42501'; END $$;

CREATE TRIGGER checkpoint_no_rewrite BEFORE UPDATE OR DELETE ON ledger.checkpoint
  FOR EACH ROW EXECUTE FUNCTION ledger.checkpoint_guard();
CREATE TRIGGER no_truncate BEFORE TRUNCATE ON ledger.checkpoint
  FOR EACH STATEMENT EXECUTE FUNCTION ledger.reject();
ALTER TABLE ledger.checkpoint ENABLE ALWAYS TRIGGER checkpoint_no_rewrite, ENABLE ALWAYS TRIGGER no_truncate;

-- Erasing is deleting the row, and with it the salt. `stored_at` is what retention clocks count from.
-- The database does not check the commitment: commit/2 goes by the members of a JSON object, and a sealed payload opens
-- to those with the key only. Who reads a payload checks it, and so does every verifier.
CREATE TABLE ledger.payload (
  chain_id   bytea NOT NULL,
  commitment bytea NOT NULL CHECK (octet_length(commitment) = 32),
  salt       bytea NOT NULL CHECK (octet_length(salt) = 32),
  role       text NOT NULL,
  media_type text NOT NULL,
  body       bytea NOT NULL,
  stored_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (chain_id, commitment));
CREATE INDEX payload_age ON ledger.payload (role, stored_at);
CREATE TRIGGER payload_no_rewrite BEFORE UPDATE ON ledger.payload
  FOR EACH ROW EXECUTE FUNCTION ledger.reject();
ALTER TABLE ledger.payload ENABLE ALWAYS TRIGGER payload_no_rewrite;

-- A projection that can be rebuilt from the entries.
CREATE TABLE ledger.open_run (chain_id bytea NOT NULL, run_id uuid NOT NULL, PRIMARY KEY (chain_id, run_id));

-- Roots of completed subtrees, so that a proof reads little; heights 8, 16, 24 and 32. They are derived: the outcome is
-- checked against a signed root, and without them a proof reads the leaves. Height 0 holds the leaf hashes of tiles from
-- which entries were pruned.
CREATE TABLE ledger.subtree (
  chain_id bytea NOT NULL, height int NOT NULL, idx bigint NOT NULL CHECK (idx >= 0),
  hash     bytea NOT NULL CHECK (octet_length(hash) = 32),
  PRIMARY KEY (chain_id, height, idx));

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

CREATE FUNCTION ledger.put_subtrees(p_chain bytea, p_epoch bigint, p_secret bytea,
  p_heights int[], p_idx bigint[], p_hashes bytea[])
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$ BEGIN
  PERFORM ledger.held(p_chain, p_epoch, p_secret, false);
  INSERT INTO ledger.subtree SELECT p_chain, h, i, x FROM unnest(p_heights, p_idx, p_hashes) t(h, i, x)
  ON CONFLICT DO NOTHING; END $$;

CREATE FUNCTION ledger.put_payload(p_chain bytea, p_epoch bigint, p_secret bytea, p_commitment bytea, p_salt bytea,
  p_role text, p_media text, p_body bytea)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$ BEGIN
  PERFORM ledger.durable();
  PERFORM ledger.held(p_chain, p_epoch, p_secret, false);
  INSERT INTO ledger.payload VALUES (p_chain, p_commitment, p_salt, p_role, p_media, p_body)
  ON CONFLICT (chain_id, commitment) DO NOTHING; END $$;

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

CREATE FUNCTION ledger.signed_at(p_chain bytea, p_epoch bigint, p_secret bytea, p_size bigint)
RETURNS text LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$ BEGIN
  PERFORM ledger.held(p_chain, p_epoch, p_secret, false);
  RETURN (SELECT c.note FROM ledger.checkpoint c WHERE c.chain_id = p_chain AND c.size = p_size); END $$;

CREATE FUNCTION ledger.erase_payload(p_chain bytea, p_commitment bytea)
RETURNS boolean LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$ BEGIN
  DELETE FROM ledger.payload p WHERE p.chain_id = p_chain AND p.commitment = p_commitment;
  RETURN FOUND; END $$;

-- ---- The fleet log ----

-- What others said of its heads: the note with every cosignature that came, and the time stamp tokens over its body, a
-- JSON array of base64.
CREATE TABLE ledger.anchor (
  chain_id bytea NOT NULL, size bigint NOT NULL CHECK (size > 0), note text NOT NULL, tokens text NOT NULL,
  PRIMARY KEY (chain_id, size));
CREATE TRIGGER anchor_no_delete BEFORE DELETE ON ledger.anchor
  FOR EACH ROW EXECUTE FUNCTION ledger.reject();
CREATE TRIGGER no_truncate BEFORE TRUNCATE ON ledger.anchor
  FOR EACH STATEMENT EXECUTE FUNCTION ledger.reject();
ALTER TABLE ledger.anchor ENABLE ALWAYS TRIGGER anchor_no_delete, ENABLE ALWAYS TRIGGER no_truncate;

-- A projection that can be rebuilt from the entries: the newest entry of each kind that fleet logs of the tenant hold
-- about a log. Without it a starting writer would read the whole fleet log.
CREATE TABLE ledger.fleet_said (
  tenant_id text NOT NULL, log text NOT NULL, kind text NOT NULL, chain_id bytea NOT NULL, seq bigint NOT NULL,
  PRIMARY KEY (tenant_id, log, kind));

CREATE FUNCTION ledger.fleet_notes() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog AS $$ BEGIN
  INSERT INTO ledger.fleet_said
  SELECT c.tenant_id, ledger.json(NEW.body) -> 'data' ->> 'log', NEW.kind, NEW.chain_id, NEW.seq
    FROM ledger.chain c WHERE c.chain_id = NEW.chain_id AND c.pool = 'fleet'
  ON CONFLICT (tenant_id, log, kind) DO UPDATE SET chain_id = EXCLUDED.chain_id, seq = EXCLUDED.seq;
  RETURN NULL; END $$;

CREATE TRIGGER fleet_notes AFTER INSERT ON ledger.entry FOR EACH ROW
  WHEN (NEW.kind IN ('chain.enrolled', 'chain.checkpoint', 'chain.retired'))
  EXECUTE FUNCTION ledger.fleet_notes();

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

CREATE FUNCTION ledger.put_anchor(p_chain bytea, p_epoch bigint, p_secret bytea, p_size bigint, p_note text, p_tokens text)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$ BEGIN
  PERFORM ledger.durable();
  PERFORM ledger.held(p_chain, p_epoch, p_secret, false);
  INSERT INTO ledger.anchor VALUES (p_chain, p_size, p_note, p_tokens)
  ON CONFLICT (chain_id, size) DO UPDATE SET note = EXCLUDED.note, tokens = EXCLUDED.tokens; END $$;

-- Retires the chain of a lease and begins another under its slot, with its first entries, or not at all. An empty chain
-- has nothing to retire: it takes the new name.
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

-- ---- Pruning ----

-- What may be dropped: ranges that an entry of the fleet log names. Never changed, never deleted.
CREATE TABLE ledger.pruned (
  chain_id bytea NOT NULL, low bigint NOT NULL CHECK (low >= 0), high bigint NOT NULL CHECK (high > low),
  fleet_chain bytea NOT NULL, fleet_seq bigint NOT NULL,
  PRIMARY KEY (chain_id, low, high));
CREATE TRIGGER pruned_no_rewrite BEFORE UPDATE OR DELETE ON ledger.pruned
  FOR EACH ROW EXECUTE FUNCTION ledger.reject();
CREATE TRIGGER no_truncate BEFORE TRUNCATE ON ledger.pruned
  FOR EACH STATEMENT EXECUTE FUNCTION ledger.reject();
ALTER TABLE ledger.pruned ENABLE ALWAYS TRIGGER pruned_no_rewrite, ENABLE ALWAYS TRIGGER no_truncate;

-- Notes that the fleet log says so. The writer's password is not enough: only an eraser may prune.
CREATE FUNCTION ledger.record_pruning(p_chain bytea, p_low bigint, p_high bigint, p_fleet bytea, p_seq bigint)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$ BEGIN
  IF NOT EXISTS (
    SELECT 1 FROM ledger.entry e
      JOIN ledger.chain f ON f.chain_id = e.chain_id AND f.pool = 'fleet'
      JOIN ledger.chain c ON c.chain_id = p_chain AND c.tenant_id = f.tenant_id AND c.pool <> 'fleet'
      JOIN ledger.head h ON h.chain_id = p_chain AND p_high < h.size
     WHERE e.chain_id = p_fleet AND e.seq = p_seq AND e.kind = 'retention.pruned'
       AND ledger.json(e.body) #>> '{data,log}' = c.origin
       AND (ledger.json(e.body) #>> '{data,from}')::bigint = p_low
       AND (ledger.json(e.body) #>> '{data,to}')::bigint = p_high) THEN
    RAISE EXCEPTION 'ledger.pruned: the fleet log does not say so' USING ERRCODE = '42501';
  END IF;
  INSERT INTO ledger.pruned VALUES (p_chain, p_low, p_high, p_fleet, p_seq) ON CONFLICT DO NOTHING; END $$;

-- Kinds that stay: without them nobody could check what comes later.
CREATE FUNCTION ledger.kept(p_kind text) RETURNS boolean LANGUAGE sql IMMUTABLE SET search_path = pg_catalog AS $$
  SELECT p_kind IN ('chain.genesis', 'writer.started', 'policy.activated', 'manifest.bound', 'anchor.observed') $$;

-- Leaf hashes of tiles that keep some of their entries.
CREATE FUNCTION ledger.keep_leaves(p_chain bytea, p_from bigint, p_to bigint)
RETURNS void LANGUAGE sql SET search_path = pg_catalog AS $$
  INSERT INTO ledger.subtree SELECT e.chain_id, 0, e.seq, e.leaf_hash FROM ledger.entry e
   WHERE e.chain_id = p_chain AND e.seq >= p_from AND e.seq < p_to AND e.seq / 256 IN (
     SELECT k.seq / 256 FROM ledger.entry k WHERE k.chain_id = p_chain AND k.seq >= p_from AND k.seq < p_to
        AND ledger.kept(k.kind))
  ON CONFLICT DO NOTHING $$;

-- What a pruning does beside dropping entries.
CREATE FUNCTION ledger.prune_beside(p_chain bytea, p_from bigint, p_to bigint)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$ BEGIN
  IF NOT EXISTS (SELECT 1 FROM ledger.pruned p WHERE p.chain_id = p_chain AND p.low <= p_from AND p_to <= p.high) THEN
    RAISE EXCEPTION 'ledger.pruned: no such pruning' USING ERRCODE = '42501';
  END IF;
  PERFORM ledger.keep_leaves(p_chain, p_from, p_to);
  DELETE FROM ledger.payload p USING (
    SELECT decode(x ->> 'c', 'hex') AS c FROM ledger.entry e,
           jsonb_array_elements(coalesce(ledger.json(e.body) -> 'commit', '[]')) x
     WHERE e.chain_id = p_chain AND e.seq >= p_from AND e.seq < p_to) gone
   WHERE p.chain_id = p_chain AND p.commitment = gone.c;
END $$;

-- Drops one portion of a recorded pruning; both ends are multiples of 256.
CREATE FUNCTION ledger.prune(p_chain bytea, p_from bigint, p_to bigint)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE n bigint; BEGIN
  PERFORM ledger.prune_beside(p_chain, p_from, p_to);
  DELETE FROM ledger.entry e WHERE e.chain_id = p_chain AND e.seq >= p_from AND e.seq < p_to
     AND NOT ledger.kept(e.kind);
  GET DIAGNOSTICS n = ROW_COUNT;
  RETURN n; END $$;

-- Drops the block of this entry, and puts back the few rows of it that stay. How many went; NULL if that is not worth it
-- (much of it belongs to other chains or is too young) or if another session reads there just now: then rows are deleted
-- one by one. Appends wait for as long as it takes to copy those few.
CREATE FUNCTION ledger.drop_block(p_chain bytea, p_seq bigint)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog SET lock_timeout = '500ms' AS $$
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
EXCEPTION WHEN lock_not_available THEN RETURN NULL; END $$;

-- Thins the checkpoints of one portion of a recorded pruning.
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
       SELECT (ledger.json(e.body) #>> '{data,size}')::bigint
         FROM ledger.chain c
         JOIN ledger.chain f ON f.tenant_id = c.tenant_id AND f.pool = 'fleet'
         JOIN ledger.entry e ON e.chain_id = f.chain_id AND e.kind = 'chain.checkpoint'
        WHERE c.chain_id = p_chain AND ledger.json(e.body) #>> '{data,log}' = c.origin);
  GET DIAGNOSTICS n = ROW_COUNT;
  RETURN n; END $$;

-- ---- Orders ----

-- What operators tell the gates of a tenant, and what the gates did about it. A row is never changed and never deleted:
-- the next order takes it back. Times are milliseconds since 1970.

-- Where the numbers come from. The update of this row is held until the commit, so that numbers have no gaps and become
-- visible in their order: a reader that has read up to one has missed none below it.

CREATE TABLE ledger.control_head (
  tenant_id text PRIMARY KEY, seq bigint NOT NULL CHECK (seq >= 1)) WITH (fillfactor = 50);

CREATE TABLE ledger.control_row (
  tenant_id text NOT NULL,
  seq       bigint NOT NULL CHECK (seq >= 1),
  at        bigint NOT NULL,
  kind      text NOT NULL,
  body      text NOT NULL CHECK (octet_length(body) <= 16777216),
  subject   text NOT NULL,
  roles     text NOT NULL,
  auth      text NOT NULL,
  reason    text NOT NULL,
  expires   bigint,
  PRIMARY KEY (tenant_id, seq));

CREATE TABLE ledger.control_report (
  tenant_id text NOT NULL, seq bigint NOT NULL, origin text NOT NULL, at bigint NOT NULL, done text NOT NULL,
  PRIMARY KEY (tenant_id, seq, origin));

CREATE TABLE ledger.control_presence (
  tenant_id text NOT NULL, origin text NOT NULL, writer text NOT NULL, at bigint NOT NULL, seq bigint NOT NULL,
  state text NOT NULL, PRIMARY KEY (tenant_id, origin)) WITH (fillfactor = 50);

CREATE FUNCTION ledger.control_head_guard() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$ BEGIN
  IF NEW.tenant_id <> OLD.tenant_id OR NEW.seq <> OLD.seq + 1 THEN
    RAISE EXCEPTION 'ledger.control_head counts by one' USING ERRCODE = '42501';
  END IF; RETURN NEW; END $$;

CREATE FUNCTION ledger.control_row_guard() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$ BEGIN
  IF NOT EXISTS (SELECT 1 FROM ledger.control_head h WHERE h.tenant_id = NEW.tenant_id AND h.seq = NEW.seq) THEN
    RAISE EXCEPTION 'ledger.control_row is append-only (INSERT out of order refused)' USING ERRCODE = '42501';
  END IF; RETURN NEW; END $$;

CREATE TRIGGER control_head_counts BEFORE UPDATE ON ledger.control_head
  FOR EACH ROW EXECUTE FUNCTION ledger.control_head_guard();
CREATE TRIGGER control_head_no_delete BEFORE DELETE ON ledger.control_head
  FOR EACH ROW EXECUTE FUNCTION ledger.reject();
CREATE TRIGGER control_row_next BEFORE INSERT ON ledger.control_row
  FOR EACH ROW EXECUTE FUNCTION ledger.control_row_guard();
CREATE TRIGGER control_row_no_rewrite BEFORE UPDATE OR DELETE ON ledger.control_row
  FOR EACH ROW EXECUTE FUNCTION ledger.reject();
CREATE TRIGGER control_row_no_truncate BEFORE TRUNCATE ON ledger.control_row
  FOR EACH STATEMENT EXECUTE FUNCTION ledger.reject();
CREATE TRIGGER control_head_no_truncate BEFORE TRUNCATE ON ledger.control_head
  FOR EACH STATEMENT EXECUTE FUNCTION ledger.reject();

ALTER TABLE ledger.control_head ENABLE ALWAYS TRIGGER control_head_counts,
  ENABLE ALWAYS TRIGGER control_head_no_delete, ENABLE ALWAYS TRIGGER control_head_no_truncate;
ALTER TABLE ledger.control_row ENABLE ALWAYS TRIGGER control_row_next,
  ENABLE ALWAYS TRIGGER control_row_no_rewrite, ENABLE ALWAYS TRIGGER control_row_no_truncate;

CREATE FUNCTION ledger.control_put(p_at bigint, p_kind text, p_body text, p_subject text, p_roles text,
  p_auth text, p_reason text, p_expires bigint)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE mine text := ledger.tenant(); n bigint; BEGIN
  PERFORM ledger.durable();
  INSERT INTO ledger.control_head AS h VALUES (mine, 1)
  ON CONFLICT (tenant_id) DO UPDATE SET seq = h.seq + 1 RETURNING h.seq INTO n;
  INSERT INTO ledger.control_row VALUES
    (mine, n, p_at, p_kind, p_body, p_subject, p_roles, p_auth, p_reason, p_expires);
  RETURN n; END $$;

CREATE FUNCTION ledger.control_since(p_seq bigint, p_limit bigint)
RETURNS SETOF ledger.control_row LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE mine text := ledger.tenant(); BEGIN
  RETURN QUERY SELECT * FROM ledger.control_row r WHERE r.tenant_id = mine AND r.seq > p_seq
                ORDER BY r.seq LIMIT p_limit; END $$;

-- A gate speaks for the log whose lease it holds, and for no other.
CREATE FUNCTION ledger.control_speaks(p_chain bytea, p_epoch bigint, p_secret bytea, p_origin text)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$ BEGIN
  PERFORM ledger.held(p_chain, p_epoch, p_secret, false);
  IF NOT EXISTS (SELECT 1 FROM ledger.chain c WHERE c.chain_id = p_chain AND c.origin = p_origin) THEN
    RAISE EXCEPTION 'this lease is not that of %', p_origin USING ERRCODE = '42501';
  END IF; END $$;

CREATE FUNCTION ledger.control_report(p_chain bytea, p_epoch bigint, p_secret bytea, p_seq bigint,
  p_origin text, p_at bigint, p_done text)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE mine text := ledger.tenant(); BEGIN
  PERFORM ledger.durable();
  PERFORM ledger.control_speaks(p_chain, p_epoch, p_secret, p_origin);
  INSERT INTO ledger.control_report VALUES (mine, p_seq, p_origin, p_at, p_done)
  ON CONFLICT (tenant_id, seq, origin) DO UPDATE SET at = EXCLUDED.at, done = EXCLUDED.done; END $$;

CREATE FUNCTION ledger.control_show(p_chain bytea, p_epoch bigint, p_secret bytea, p_origin text,
  p_writer text, p_seq bigint, p_state text)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE mine text := ledger.tenant(); v_now bigint := (extract(epoch FROM clock_timestamp()) * 1000)::bigint; BEGIN
  PERFORM ledger.control_speaks(p_chain, p_epoch, p_secret, p_origin);
  INSERT INTO ledger.control_presence VALUES (mine, p_origin, p_writer, v_now, p_seq, p_state)
  ON CONFLICT (tenant_id, origin) DO UPDATE
    SET writer = EXCLUDED.writer, at = EXCLUDED.at, seq = EXCLUDED.seq, state = EXCLUDED.state; END $$;

CREATE FUNCTION ledger.control_reports(p_seq bigint)
RETURNS SETOF ledger.control_report LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE mine text := ledger.tenant(); BEGIN
  RETURN QUERY SELECT * FROM ledger.control_report r WHERE r.tenant_id = mine AND r.seq = p_seq
                ORDER BY r.origin COLLATE "C"; END $$;

CREATE FUNCTION ledger.control_shown()
RETURNS SETOF ledger.control_presence LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE mine text := ledger.tenant(); BEGIN
  RETURN QUERY SELECT * FROM ledger.control_presence p WHERE p.tenant_id = mine
                ORDER BY p.origin COLLATE "C"; END $$;

-- ---- Shared pools ----

-- Of each window how much is leased, and what each gate got last. A unit that is leased is never leased again in its
-- window, whatever becomes of the gate. Gates of one tenant share them.

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

-- ---- Rights ----

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA ledger FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA ledger FROM PUBLIC;

GRANT USAGE ON SCHEMA ledger TO ledger_writer, ledger_reader, ledger_eraser, ledger_operator;
GRANT EXECUTE ON FUNCTION ledger.version, ledger.serves
  TO ledger_writer, ledger_reader, ledger_eraser, ledger_operator;
GRANT EXECUTE ON FUNCTION ledger.lease, ledger.append_batch, ledger.put_subtrees, ledger.put_payload,
  ledger.release_lease, ledger.read_head, ledger.tail, ledger.open_runs, ledger.run_entries, ledger.call_entries,
  ledger.read_payload, ledger.signed_at, ledger.fleet_view, ledger.fleet_leaves, ledger.put_anchor, ledger.restart,
  ledger.lease_pool, ledger.return_pool, ledger.hold_pool, ledger.control_report, ledger.control_show TO ledger_writer;
GRANT EXECUTE ON FUNCTION ledger.control_since, ledger.control_reports, ledger.control_shown
  TO ledger_writer, ledger_operator;
GRANT EXECUTE ON FUNCTION ledger.control_put, ledger.abandoned, ledger.reap TO ledger_operator;
GRANT EXECUTE ON FUNCTION ledger.reader_sees TO ledger_reader;
GRANT EXECUTE ON FUNCTION ledger.erase_payload, ledger.record_pruning, ledger.prune, ledger.prune_beside, ledger.thin,
  ledger.bucket, ledger.block_of, ledger.drop_block TO ledger_eraser;

GRANT SELECT ON ledger.chain, ledger.entry, ledger.checkpoint, ledger.payload, ledger.subtree, ledger.pruned,
  ledger.anchor, ledger.fleet_said, ledger.control_row, ledger.control_report, ledger.control_presence TO ledger_reader;
-- Not the secret's hash.
GRANT SELECT (chain_id, epoch, writer, lease_until, size, head_hash, frontier, checkpoint)
  ON ledger.head TO ledger_reader;

-- Readers see their tenant. The owner, and so the functions above, are not bound by this. Nobody is granted anything on
-- a partition: row-level security is evaluated on the relation that is named.
DO $$ DECLARE t text; BEGIN
  FOREACH t IN ARRAY ARRAY['chain', 'fleet_said', 'control_row', 'control_report', 'control_presence'] LOOP
    EXECUTE format('ALTER TABLE ledger.%I ENABLE ROW LEVEL SECURITY', t);
    EXECUTE format('CREATE POLICY tenant ON ledger.%I FOR SELECT TO ledger_reader
                    USING (ledger.reader_sees(tenant_id))', t);
  END LOOP;
  FOREACH t IN ARRAY ARRAY['head', 'entry', 'checkpoint', 'payload', 'subtree', 'pruned', 'anchor'] LOOP
    EXECUTE format('ALTER TABLE ledger.%I ENABLE ROW LEVEL SECURITY', t);
    EXECUTE format('CREATE POLICY tenant ON ledger.%I FOR SELECT TO ledger_reader
                    USING (chain_id IN (SELECT c.chain_id FROM ledger.chain c))', t);
  END LOOP;
END $$;
-- Nobody reads the pools.
ALTER TABLE ledger.pool_window ENABLE ROW LEVEL SECURITY;
ALTER TABLE ledger.pool_gate ENABLE ROW LEVEL SECURITY;
ALTER TABLE ledger.pool_hold ENABLE ROW LEVEL SECURITY;
