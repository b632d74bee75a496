-- The books on one machine. Hashes are checked in code (SQLite has no sha256); the triggers below
-- stop mistakes and stray tools, the checkpoints stop everybody else.
CREATE TABLE chain (
  chain_id BLOB PRIMARY KEY CHECK (length(chain_id) = 16),
  tenant   TEXT NOT NULL,
  pool     TEXT NOT NULL,
  slot     INTEGER NOT NULL CHECK (slot >= 0),
  origin   TEXT NOT NULL UNIQUE,
  UNIQUE (tenant, pool, slot)
) STRICT, WITHOUT ROWID;

-- The only mutable row of a chain: the fence.
CREATE TABLE head (
  chain_id    BLOB PRIMARY KEY REFERENCES chain,
  epoch       INTEGER NOT NULL CHECK (epoch >= 1),
  writer      TEXT NOT NULL,
  secret_hash BLOB NOT NULL CHECK (length(secret_hash) = 32),
  replaced    BLOB,
  size        INTEGER NOT NULL CHECK (size >= 0),
  hash        BLOB NOT NULL CHECK (length(hash) = 32),
  frontier    BLOB NOT NULL,
  checkpoint  TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE entry (
  chain_id BLOB NOT NULL REFERENCES chain,
  seq      INTEGER NOT NULL CHECK (seq >= 0),
  leaf     BLOB NOT NULL CHECK (length(leaf) = 32),
  prev     BLOB NOT NULL CHECK (length(prev) = 32),
  run_id   TEXT,
  call_id  TEXT,
  kind     TEXT NOT NULL,
  body     BLOB NOT NULL CHECK (length(body) BETWEEN 2 AND 65535),
  PRIMARY KEY (chain_id, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX entry_run ON entry (chain_id, run_id, seq) WHERE run_id IS NOT NULL;
CREATE INDEX entry_call ON entry (chain_id, run_id, call_id, seq) WHERE call_id IS NOT NULL;
CREATE INDEX entry_lone ON entry (chain_id, kind, seq) WHERE run_id IS NULL;

CREATE TABLE checkpoint (
  chain_id BLOB NOT NULL REFERENCES chain,
  size     INTEGER NOT NULL,
  epoch    INTEGER NOT NULL,
  note     TEXT NOT NULL,
  PRIMARY KEY (chain_id, size)
) STRICT, WITHOUT ROWID;

-- Erasing is deleting the row, and with it the salt.
CREATE TABLE payload (
  chain_id   BLOB NOT NULL REFERENCES chain,
  commitment BLOB NOT NULL CHECK (length(commitment) = 32),
  salt       BLOB NOT NULL CHECK (length(salt) = 32),
  role       TEXT NOT NULL,
  media_type TEXT NOT NULL,
  body       BLOB NOT NULL,
  PRIMARY KEY (chain_id, commitment)
) STRICT;

-- A projection that can be rebuilt from the entries.
CREATE TABLE open_run (
  chain_id BLOB NOT NULL REFERENCES chain,
  run_id   TEXT NOT NULL,
  PRIMARY KEY (chain_id, run_id)
) STRICT, WITHOUT ROWID;

-- INSERT OR REPLACE deletes without firing DELETE triggers unless recursive_triggers is on, which
-- another tool need not have set: this guard refuses it in every case.
CREATE TRIGGER entry_next BEFORE INSERT ON entry BEGIN
  SELECT RAISE(ABORT, 'ledger.entry is append-only (INSERT out of order refused)')
   WHERE NEW.seq IS NOT (SELECT coalesce(max(seq) + 1, 0) FROM entry WHERE chain_id = NEW.chain_id);
  SELECT RAISE(ABORT, 'ledger.entry is linked (prev refused)')
   WHERE NEW.seq > 0
     AND NEW.prev IS NOT (SELECT leaf FROM entry WHERE chain_id = NEW.chain_id AND seq = NEW.seq - 1);
END;
CREATE TRIGGER entry_no_update BEFORE UPDATE ON entry BEGIN
  SELECT RAISE(ABORT, 'ledger.entry is append-only (UPDATE refused)');
END;
CREATE TRIGGER entry_no_delete BEFORE DELETE ON entry BEGIN
  SELECT RAISE(ABORT, 'ledger.entry is append-only (DELETE refused)');
END;
CREATE TRIGGER checkpoint_next BEFORE INSERT ON checkpoint BEGIN
  SELECT RAISE(ABORT, 'ledger.checkpoint is append-only (INSERT out of order refused)')
   WHERE NEW.size <= (SELECT max(size) FROM checkpoint WHERE chain_id = NEW.chain_id);
END;
CREATE TRIGGER checkpoint_no_update BEFORE UPDATE ON checkpoint BEGIN
  SELECT RAISE(ABORT, 'ledger.checkpoint is append-only (UPDATE refused)');
END;
CREATE TRIGGER checkpoint_no_delete BEFORE DELETE ON checkpoint BEGIN
  SELECT RAISE(ABORT, 'ledger.checkpoint is append-only (DELETE refused)');
END;
CREATE TRIGGER payload_no_update BEFORE UPDATE ON payload BEGIN
  SELECT RAISE(ABORT, 'ledger.payload is write-once (UPDATE refused)');
END;
CREATE TRIGGER payload_no_replace BEFORE INSERT ON payload BEGIN
  SELECT RAISE(ABORT, 'ledger.payload is write-once (REPLACE refused)')
   WHERE EXISTS (SELECT 1 FROM payload WHERE chain_id = NEW.chain_id AND commitment = NEW.commitment);
END;
CREATE TRIGGER head_monotonic BEFORE UPDATE ON head BEGIN
  SELECT RAISE(ABORT, 'head may not move backwards')
   WHERE NEW.chain_id IS NOT OLD.chain_id OR NEW.epoch < OLD.epoch OR NEW.size < OLD.size
      OR (NEW.size = OLD.size AND NEW.hash IS NOT OLD.hash);
END;
CREATE TRIGGER head_no_replace BEFORE INSERT ON head BEGIN
  SELECT RAISE(ABORT, 'head may not be replaced')
   WHERE EXISTS (SELECT 1 FROM head WHERE chain_id = NEW.chain_id);
END;
CREATE TRIGGER head_no_delete BEFORE DELETE ON head BEGIN
  SELECT RAISE(ABORT, 'head may not be deleted');
END;
