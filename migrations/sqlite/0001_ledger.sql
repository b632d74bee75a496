-- The ledger on one machine. Hashes are checked in code (SQLite has no sha256); the triggers below stop mistakes and
-- stray tools, the checkpoints stop everybody else.
--
-- Sections: chains, entries, what belongs to entries, the fleet log, pruning, orders, shared pools.

-- ---- Chains ----

-- A slot whose chain lost entries for good begins its next one, `<n + 1>`; the old one stays readable.
CREATE TABLE chain (
  chain_id BLOB PRIMARY KEY CHECK (length(chain_id) = 16),
  tenant   TEXT NOT NULL,
  pool     TEXT NOT NULL,
  slot     INTEGER NOT NULL CHECK (slot >= 0),
  origin   TEXT NOT NULL UNIQUE,
  n        INTEGER NOT NULL DEFAULT 0 CHECK (n >= 0),
  retired  INTEGER NOT NULL DEFAULT 0 CHECK (retired IN (0, 1)),
  UNIQUE (tenant, pool, slot, n)
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

-- ---- Entries ----

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

-- What a recorded pruning names may be deleted, except the kinds that stay.
CREATE TRIGGER entry_no_delete BEFORE DELETE ON entry BEGIN
  SELECT RAISE(ABORT, 'ledger.entry is append-only (DELETE refused)')
   WHERE OLD.kind IN ('chain.genesis', 'writer.started', 'policy.activated', 'manifest.bound', 'anchor.observed')
      OR NOT EXISTS (SELECT 1 FROM pruned p
                      WHERE p.chain_id = OLD.chain_id AND OLD.seq >= p.low AND OLD.seq < p.high);
END;

-- ---- What belongs to entries ----

CREATE TABLE checkpoint (
  chain_id BLOB NOT NULL REFERENCES chain,
  size     INTEGER NOT NULL,
  epoch    INTEGER NOT NULL,
  note     TEXT NOT NULL,
  PRIMARY KEY (chain_id, size)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER checkpoint_next BEFORE INSERT ON checkpoint BEGIN
  SELECT RAISE(ABORT, 'ledger.checkpoint is append-only (INSERT out of order refused)')
   WHERE NEW.size <= (SELECT max(size) FROM checkpoint WHERE chain_id = NEW.chain_id);
END;
CREATE TRIGGER checkpoint_no_update BEFORE UPDATE ON checkpoint BEGIN
  SELECT RAISE(ABORT, 'ledger.checkpoint is append-only (UPDATE refused)');
END;

-- A pruning thins the checkpoints of what it drops: the last of each epoch stays, and every one that the fleet log has
-- recorded. Those of later entries stay all.
CREATE TRIGGER checkpoint_no_delete BEFORE DELETE ON checkpoint BEGIN
  SELECT RAISE(ABORT, 'ledger.checkpoint is append-only (DELETE refused)')
   WHERE NOT EXISTS (SELECT 1 FROM pruned p
                      WHERE p.chain_id = OLD.chain_id AND OLD.size > p.low AND OLD.size <= p.high)
      OR NOT EXISTS (SELECT 1 FROM checkpoint c
                      WHERE c.chain_id = OLD.chain_id AND c.epoch = OLD.epoch AND c.size > OLD.size);
END;

-- Erasing is deleting the row, and with it the salt. `stored_at` is what retention clocks count from.
CREATE TABLE payload (
  chain_id   BLOB NOT NULL REFERENCES chain,
  commitment BLOB NOT NULL CHECK (length(commitment) = 32),
  salt       BLOB NOT NULL CHECK (length(salt) = 32),
  role       TEXT NOT NULL,
  media_type TEXT NOT NULL,
  body       BLOB NOT NULL,
  stored_at  INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000 AS INTEGER)),
  PRIMARY KEY (chain_id, commitment)
) STRICT;

CREATE INDEX payload_age ON payload (role, stored_at);
CREATE TRIGGER payload_no_update BEFORE UPDATE ON payload BEGIN
  SELECT RAISE(ABORT, 'ledger.payload is write-once (UPDATE refused)');
END;
CREATE TRIGGER payload_no_replace BEFORE INSERT ON payload BEGIN
  SELECT RAISE(ABORT, 'ledger.payload is write-once (REPLACE refused)')
   WHERE EXISTS (SELECT 1 FROM payload WHERE chain_id = NEW.chain_id AND commitment = NEW.commitment);
END;

-- A projection that can be rebuilt from the entries.
CREATE TABLE open_run (
  chain_id BLOB NOT NULL REFERENCES chain,
  run_id   TEXT NOT NULL,
  PRIMARY KEY (chain_id, run_id)
) STRICT, WITHOUT ROWID;

-- Roots of completed subtrees, so that a proof reads little; heights 8, 16, 24 and 32. They are derived: the outcome is
-- checked against a signed root, and without them a proof reads the leaves. Height 0 holds the leaf hashes of tiles from
-- which entries were pruned.
CREATE TABLE subtree (
  chain_id BLOB NOT NULL REFERENCES chain,
  height   INTEGER NOT NULL,
  idx      INTEGER NOT NULL CHECK (idx >= 0),
  hash     BLOB NOT NULL CHECK (length(hash) = 32),
  PRIMARY KEY (chain_id, height, idx)
) STRICT, WITHOUT ROWID;

-- ---- The fleet log ----

-- What others said of heads of the fleet log: the note with every cosignature that came, and the time
-- stamp tokens over its body, a JSON array of base64.
CREATE TABLE anchor (
  chain_id BLOB NOT NULL REFERENCES chain,
  size     INTEGER NOT NULL CHECK (size > 0),
  note     TEXT NOT NULL,
  tokens   TEXT NOT NULL,
  PRIMARY KEY (chain_id, size)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER anchor_no_delete BEFORE DELETE ON anchor BEGIN
  SELECT RAISE(ABORT, 'ledger.anchor is kept (DELETE refused)');
END;

-- ---- Pruning ----

-- What may be dropped: ranges that an entry of the fleet log names. Never changed, never deleted.
CREATE TABLE pruned (
  chain_id    BLOB NOT NULL REFERENCES chain,
  low         INTEGER NOT NULL CHECK (low >= 0),
  high        INTEGER NOT NULL CHECK (high > low),
  fleet_chain BLOB NOT NULL,
  fleet_seq   INTEGER NOT NULL,
  PRIMARY KEY (chain_id, low, high)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER pruned_recorded BEFORE INSERT ON pruned BEGIN
  SELECT RAISE(ABORT, 'ledger.pruned: the fleet log does not say so (INSERT refused)')
   WHERE NOT EXISTS (
     SELECT 1 FROM entry e
       JOIN chain f ON f.chain_id = e.chain_id AND f.pool = 'fleet'
       JOIN chain c ON c.chain_id = NEW.chain_id AND c.tenant = f.tenant AND c.pool <> 'fleet'
      WHERE e.chain_id = NEW.fleet_chain AND e.seq = NEW.fleet_seq AND e.kind = 'retention.pruned'
        AND json_extract(CAST(e.body AS TEXT), '$.data.log') = c.origin
        AND json_extract(CAST(e.body AS TEXT), '$.data.from') = NEW.low
        AND json_extract(CAST(e.body AS TEXT), '$.data.to') = NEW.high);
  SELECT RAISE(ABORT, 'ledger.pruned: the newest entries stay (INSERT refused)')
   WHERE NEW.high >= (SELECT size FROM head WHERE chain_id = NEW.chain_id);
  SELECT RAISE(ABORT, 'ledger.pruned is append-only (REPLACE refused)')
   WHERE EXISTS (SELECT 1 FROM pruned WHERE chain_id = NEW.chain_id AND low = NEW.low AND high = NEW.high);
END;
CREATE TRIGGER pruned_no_update BEFORE UPDATE ON pruned BEGIN
  SELECT RAISE(ABORT, 'ledger.pruned is append-only (UPDATE refused)');
END;
CREATE TRIGGER pruned_no_delete BEFORE DELETE ON pruned BEGIN
  SELECT RAISE(ABORT, 'ledger.pruned is append-only (DELETE refused)');
END;

-- ---- Orders ----

-- What operators tell the gates of this machine, and what the gates did about it. A row is never
-- changed and never deleted: the next order takes it back.
CREATE TABLE control_row (
  seq     INTEGER PRIMARY KEY CHECK (seq >= 1),
  at      INTEGER NOT NULL,
  kind    TEXT NOT NULL,
  body    TEXT NOT NULL,
  subject TEXT NOT NULL,
  roles   TEXT NOT NULL,
  auth    TEXT NOT NULL,
  reason  TEXT NOT NULL,
  expires INTEGER
) STRICT;
CREATE TABLE control_report (
  seq    INTEGER NOT NULL,
  origin TEXT NOT NULL,
  at     INTEGER NOT NULL,
  done   TEXT NOT NULL,
  PRIMARY KEY (seq, origin)
) STRICT, WITHOUT ROWID;
CREATE TABLE control_presence (
  origin TEXT PRIMARY KEY,
  writer TEXT NOT NULL,
  at     INTEGER NOT NULL,
  seq    INTEGER NOT NULL,
  state  TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TRIGGER control_row_next BEFORE INSERT ON control_row BEGIN
  SELECT RAISE(ABORT, 'control_row is numbered without gaps (INSERT out of order refused)')
   WHERE NEW.seq IS NOT (SELECT coalesce(max(seq) + 1, 1) FROM control_row);
END;
CREATE TRIGGER control_row_no_update BEFORE UPDATE ON control_row BEGIN
  SELECT RAISE(ABORT, 'control_row is append-only (UPDATE refused)');
END;
CREATE TRIGGER control_row_no_delete BEFORE DELETE ON control_row BEGIN
  SELECT RAISE(ABORT, 'control_row is append-only (DELETE refused)');
END;

-- ---- Shared pools ----

-- Of each window how much is leased, and what each gate got last.
CREATE TABLE pool_window (
  pool   TEXT NOT NULL,
  starts INTEGER NOT NULL,
  leased INTEGER NOT NULL CHECK (leased >= 0),
  PRIMARY KEY (pool, starts)
) STRICT, WITHOUT ROWID;

CREATE TABLE pool_gate (
  pool    TEXT NOT NULL,
  starts  INTEGER NOT NULL,
  holder  TEXT NOT NULL,
  serial  INTEGER NOT NULL,
  granted INTEGER NOT NULL CHECK (granted >= 0),
  PRIMARY KEY (pool, starts, holder),
  FOREIGN KEY (pool, starts) REFERENCES pool_window ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

-- Calls at the same time: what each gate holds, and until when if it says nothing more.
CREATE TABLE pool_hold (
  pool   TEXT NOT NULL,
  holder TEXT NOT NULL,
  units  INTEGER NOT NULL CHECK (units > 0),
  until  INTEGER NOT NULL,
  PRIMARY KEY (pool, holder)
) STRICT, WITHOUT ROWID;
