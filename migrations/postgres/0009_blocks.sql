-- Entries lie in blocks: the leaves of `entry` are ranges of `seq` below the partitions by hash, so that
-- a pruning drops a table instead of deleting a quarter of a million rows. What was there before is the
-- first block of its partition, however long.
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

DO $$ DECLARE k int; upto bigint; step bigint := ledger.block_entries(); BEGIN
  FOR k IN 0..3 LOOP
    EXECUTE format('SELECT coalesce(max(seq), 0) / %s + 1 FROM ledger.entry_p%s', step, k) INTO upto;
    EXECUTE format('ALTER TABLE ledger.entry DETACH PARTITION ledger.entry_p%s', k);
    EXECUTE format('ALTER TABLE ledger.entry_p%1$s RENAME TO entry_p%1$s_0', k);
    EXECUTE format('CREATE TABLE ledger.entry_p%1$s PARTITION OF ledger.entry
                    FOR VALUES WITH (MODULUS 4, REMAINDER %1$s) PARTITION BY RANGE (seq)', k);
    EXECUTE format('CREATE TRIGGER no_truncate BEFORE TRUNCATE ON ledger.entry_p%s
                    FOR EACH STATEMENT EXECUTE FUNCTION ledger.reject()', k);
    EXECUTE format('ALTER TABLE ledger.entry_p%1$s ENABLE ALWAYS TRIGGER no_truncate,
                    ENABLE ALWAYS TRIGGER entry_no_rewrite', k);
    EXECUTE format('ALTER TABLE ledger.entry_p%1$s ATTACH PARTITION ledger.entry_p%1$s_0
                    FOR VALUES FROM (0) TO (%2$s)', k, upto * step);
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

-- Makes the block that an entry of a chain will be in, if it is not there. ATTACH takes no lock that an
-- append waits for; the lock below is for two chains of one partition that come to its end together.
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
           jsonb_array_elements(coalesce(convert_from(e.body, 'UTF8')::jsonb -> 'commit', '[]')) x
     WHERE e.chain_id = p_chain AND e.seq >= p_from AND e.seq < p_to) gone
   WHERE p.chain_id = p_chain AND p.commitment = gone.c;
END $$;

CREATE OR REPLACE FUNCTION ledger.prune(p_chain bytea, p_from bigint, p_to bigint)
RETURNS bigint LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
DECLARE n bigint; BEGIN
  PERFORM ledger.prune_beside(p_chain, p_from, p_to);
  DELETE FROM ledger.entry e WHERE e.chain_id = p_chain AND e.seq >= p_from AND e.seq < p_to
     AND NOT ledger.kept(e.kind);
  GET DIAGNOSTICS n = ROW_COUNT;
  RETURN n; END $$;

-- Drops the block of this entry, and puts back the few rows of it that stay. How many went; NULL if that
-- is not worth it (much of it belongs to other chains or is too young) or if somebody reads there just now:
-- then rows are deleted one by one. Appends wait for as long as it takes to copy those few.
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

REVOKE ALL ON FUNCTION ledger.block_entries, ledger.guard_block, ledger.bucket, ledger.block_of, ledger.make_block,
  ledger.blocks_ahead, ledger.keep_leaves, ledger.prune_beside, ledger.kept, ledger.drop_block FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ledger.block_of, ledger.bucket, ledger.prune_beside, ledger.drop_block TO ledger_eraser;
