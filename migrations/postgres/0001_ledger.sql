-- The books on PostgreSQL 15 and later. Runs as ledger_owner, in the transaction of `migrate`.
-- Privileges stop mistakes and a stolen writer password; the checkpoints stop the administrator.

CREATE TABLE ledger.writer_tenant (role name PRIMARY KEY, tenant text NOT NULL);
-- A NULL tenant sees every tenant.
CREATE TABLE ledger.reader_tenant (role name PRIMARY KEY, tenant text);

CREATE TABLE ledger.chain (
  chain_id   bytea PRIMARY KEY CHECK (octet_length(chain_id) = 16),
  tenant_id  text NOT NULL,
  pool       text NOT NULL,
  slot       bigint NOT NULL CHECK (slot >= 0),
  origin     text NOT NULL UNIQUE,
  created_at timestamptz NOT NULL DEFAULT now(),
  UNIQUE (tenant_id, pool, slot));

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
CREATE TABLE ledger.entry_p0 PARTITION OF ledger.entry FOR VALUES WITH (MODULUS 4, REMAINDER 0);
CREATE TABLE ledger.entry_p1 PARTITION OF ledger.entry FOR VALUES WITH (MODULUS 4, REMAINDER 1);
CREATE TABLE ledger.entry_p2 PARTITION OF ledger.entry FOR VALUES WITH (MODULUS 4, REMAINDER 2);
CREATE TABLE ledger.entry_p3 PARTITION OF ledger.entry FOR VALUES WITH (MODULUS 4, REMAINDER 3);
CREATE INDEX entry_run ON ledger.entry (chain_id, run_id, seq) WHERE run_id IS NOT NULL;
CREATE INDEX entry_call ON ledger.entry (chain_id, run_id, call_id) WHERE call_id IS NOT NULL;
CREATE INDEX entry_lone ON ledger.entry (chain_id, kind, seq) WHERE run_id IS NULL;

CREATE TABLE ledger.checkpoint (
  chain_id bytea NOT NULL, size bigint NOT NULL, epoch bigint NOT NULL, note text NOT NULL,
  PRIMARY KEY (chain_id, size));

-- Erasing is deleting the row, and with it the salt.
CREATE TABLE ledger.payload (
  chain_id   bytea NOT NULL,
  commitment bytea NOT NULL CHECK (octet_length(commitment) = 32),
  salt       bytea NOT NULL CHECK (octet_length(salt) = 32),
  role       text NOT NULL,
  media_type text NOT NULL,
  body       bytea NOT NULL,
  CHECK (commitment = sha256('\x7769636b6574676174652f636f6d6d69742f3100'::bytea || salt
                             || int8send(octet_length(body)::bigint) || body)),
  PRIMARY KEY (chain_id, commitment));

-- A projection that can be rebuilt from the entries.
CREATE TABLE ledger.open_run (chain_id bytea NOT NULL, run_id uuid NOT NULL, PRIMARY KEY (chain_id, run_id));

-- Triggers: ENABLE ALWAYS, so that session_replication_role does not switch them off, and on every
-- partition, because statement triggers are not inherited.
CREATE FUNCTION ledger.reject() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$ BEGIN
  RAISE EXCEPTION 'ledger.% is append-only (% refused)', TG_TABLE_NAME, TG_OP USING ERRCODE = '42501'; END $$;
CREATE FUNCTION ledger.head_guard() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$ BEGIN
  IF NEW.chain_id <> OLD.chain_id OR NEW.epoch < OLD.epoch OR NEW.size < OLD.size
     OR (NEW.size = OLD.size AND NEW.head_hash <> OLD.head_hash) THEN
    RAISE EXCEPTION 'head may not move backwards' USING ERRCODE = '42501';
  END IF; RETURN NEW; END $$;

CREATE TRIGGER entry_no_rewrite BEFORE UPDATE OR DELETE ON ledger.entry
  FOR EACH ROW EXECUTE FUNCTION ledger.reject();
CREATE TRIGGER checkpoint_no_rewrite BEFORE UPDATE OR DELETE ON ledger.checkpoint
  FOR EACH ROW EXECUTE FUNCTION ledger.reject();
CREATE TRIGGER payload_no_rewrite BEFORE UPDATE ON ledger.payload
  FOR EACH ROW EXECUTE FUNCTION ledger.reject();
CREATE TRIGGER head_no_delete BEFORE DELETE ON ledger.head
  FOR EACH ROW EXECUTE FUNCTION ledger.reject();
CREATE TRIGGER head_monotonic BEFORE UPDATE ON ledger.head
  FOR EACH ROW EXECUTE FUNCTION ledger.head_guard();
ALTER TABLE ledger.checkpoint ENABLE ALWAYS TRIGGER checkpoint_no_rewrite;
ALTER TABLE ledger.payload ENABLE ALWAYS TRIGGER payload_no_rewrite;
ALTER TABLE ledger.head ENABLE ALWAYS TRIGGER head_no_delete;
ALTER TABLE ledger.head ENABLE ALWAYS TRIGGER head_monotonic;
DO $$ DECLARE t text; BEGIN
  FOREACH t IN ARRAY ARRAY['entry', 'entry_p0', 'entry_p1', 'entry_p2', 'entry_p3'] LOOP
    EXECUTE format('ALTER TABLE ledger.%I ENABLE ALWAYS TRIGGER entry_no_rewrite', t);
  END LOOP;
  FOREACH t IN ARRAY ARRAY['entry', 'entry_p0', 'entry_p1', 'entry_p2', 'entry_p3', 'checkpoint', 'head'] LOOP
    EXECUTE format('CREATE TRIGGER no_truncate BEFORE TRUNCATE ON ledger.%I
                    FOR EACH STATEMENT EXECUTE FUNCTION ledger.reject()', t);
    EXECUTE format('ALTER TABLE ledger.%I ENABLE ALWAYS TRIGGER no_truncate', t);
  END LOOP;
END $$;
