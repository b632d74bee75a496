-- Entries and payloads by narrow numbers, in the order of their insertion: a commit touches the last page of each table
-- and the head. What tools read (`entry`, `payload`, `checkpoint`) are views with the columns that the tables had.
--
-- Numbers: `chain.no` counts chains, those of the fleet log from 0 and those of gates from 1 << 18, so that the entries
-- of a gate stand last and are appended. `run.no` counts runs. An entry's id is `chain.no << 40 | seq`. Its `call` is
-- `run.no << 32`, and in the low 32 bits a digest of the call's id (`call_digest`, a function of the connection); 0 there
-- is an entry of the run without a call, and NULL is an entry outside of a run.

DROP INDEX entry_run;
DROP INDEX entry_call;
DROP INDEX entry_lone;
DROP INDEX payload_age;
DROP TRIGGER entry_next;
DROP TRIGGER entry_no_update;
DROP TRIGGER entry_no_delete;
DROP TRIGGER checkpoint_next;
DROP TRIGGER checkpoint_no_update;
DROP TRIGGER checkpoint_no_delete;
DROP TRIGGER payload_no_update;
DROP TRIGGER payload_no_replace;
DROP TRIGGER pruned_recorded;
ALTER TABLE entry RENAME TO wide_entry;
ALTER TABLE payload RENAME TO wide_payload;
ALTER TABLE checkpoint RENAME TO wide_checkpoint;

-- ---- Numbers ----

ALTER TABLE chain ADD COLUMN no INTEGER;
UPDATE chain SET no = (SELECT count(*) FROM chain o WHERE o.chain_id < chain.chain_id
                          AND (o.pool = 'fleet') = (chain.pool = 'fleet'))
                    + CASE pool WHEN 'fleet' THEN 0 ELSE 1 << 18 END;
CREATE UNIQUE INDEX chain_no ON chain (no);

-- `open`: it has `run.opened` and no `run.sealed`. A projection that can be rebuilt from the entries.
CREATE TABLE run (
  no     INTEGER PRIMARY KEY,
  run_id TEXT NOT NULL,
  chain  INTEGER NOT NULL,
  open   INTEGER NOT NULL DEFAULT 0 CHECK (open IN (0, 1)),
  UNIQUE (run_id, chain)
) STRICT;
CREATE INDEX run_open ON run (chain) WHERE open;

INSERT INTO run (run_id, chain, open)
SELECT e.run_id, c.no, EXISTS (SELECT 1 FROM open_run o WHERE o.chain_id = e.chain_id AND o.run_id = e.run_id)
  FROM wide_entry e JOIN chain c ON c.chain_id = e.chain_id
 WHERE e.run_id IS NOT NULL GROUP BY c.no, e.run_id ORDER BY c.no, min(e.seq);
DROP TABLE open_run;

-- ---- Entries ----

-- `note`: the checkpoint over this entry and all before it, if a batch ended here.
CREATE TABLE stored_entry (
  id      INTEGER PRIMARY KEY CHECK (id >= 0),
  call    INTEGER,
  call_id TEXT,
  kind    TEXT NOT NULL,
  leaf    BLOB NOT NULL CHECK (length(leaf) = 32),
  prev    BLOB NOT NULL CHECK (length(prev) = 32),
  note    TEXT,
  body    BLOB NOT NULL CHECK (length(body) BETWEEN 2 AND 65535)
) STRICT;

INSERT INTO stored_entry
SELECT c.no << 40 | e.seq, r.no << 32 | CASE WHEN e.call_id IS NULL THEN 0 ELSE call_digest(e.call_id) END,
       e.call_id, e.kind, e.leaf, e.prev, k.note, e.body
  FROM wide_entry e JOIN chain c ON c.chain_id = e.chain_id
  LEFT JOIN run r ON r.run_id = e.run_id AND r.chain = c.no
  LEFT JOIN wide_checkpoint k ON k.chain_id = e.chain_id AND k.size = e.seq + 1
 ORDER BY e.chain_id, e.seq;
CREATE INDEX entry_lone ON stored_entry (kind, id) WHERE call IS NULL;

-- The ids of a call's entries. Written a thousand at a time, in order, and so off the road: entries from `head.indexed`
-- on are not in it yet.
CREATE TABLE entry_call (
  call INTEGER NOT NULL,
  id   INTEGER NOT NULL,
  PRIMARY KEY (call, id)
) STRICT, WITHOUT ROWID;
INSERT INTO entry_call SELECT call, id FROM stored_entry WHERE call IS NOT NULL ORDER BY call, id;
ALTER TABLE head ADD COLUMN indexed INTEGER NOT NULL DEFAULT 0;
UPDATE head SET indexed = size;

-- INSERT OR REPLACE deletes without firing DELETE triggers unless recursive_triggers is on, which
-- another tool need not have set: this guard refuses it in every case.
CREATE TRIGGER entry_next BEFORE INSERT ON stored_entry BEGIN
  SELECT RAISE(ABORT, 'ledger.entry is append-only (INSERT out of order refused)')
   WHERE NEW.id IS NOT (SELECT coalesce(max(id) + 1, NEW.id >> 40 << 40) FROM stored_entry
                         WHERE id >= NEW.id >> 40 << 40 AND id < ((NEW.id >> 40) + 1) << 40);
  SELECT RAISE(ABORT, 'ledger.entry is linked (prev refused)')
   WHERE NEW.id & 1099511627775 > 0
     AND NEW.prev IS NOT (SELECT leaf FROM stored_entry WHERE id = NEW.id - 1);
END;

-- Only the note of an entry that a recorded pruning names may go.
CREATE TRIGGER entry_no_update BEFORE UPDATE ON stored_entry BEGIN
  SELECT RAISE(ABORT, 'ledger.entry is append-only (UPDATE refused)')
   WHERE NEW.note IS NOT NULL OR NEW.id IS NOT OLD.id OR NEW.call IS NOT OLD.call OR NEW.call_id IS NOT OLD.call_id
      OR NEW.kind IS NOT OLD.kind OR NEW.leaf IS NOT OLD.leaf OR NEW.prev IS NOT OLD.prev OR NEW.body IS NOT OLD.body
      OR NOT EXISTS (SELECT 1 FROM pruned p JOIN chain c ON c.chain_id = p.chain_id
                      WHERE c.no = OLD.id >> 40 AND OLD.id & 1099511627775 >= p.low AND OLD.id & 1099511627775 < p.high);
END;

-- What a recorded pruning names may be deleted, except the kinds that stay.
CREATE TRIGGER entry_no_delete BEFORE DELETE ON stored_entry BEGIN
  SELECT RAISE(ABORT, 'ledger.entry is append-only (DELETE refused)')
   WHERE OLD.kind IN ('chain.genesis', 'writer.started', 'policy.activated', 'manifest.bound', 'anchor.observed')
      OR NOT EXISTS (SELECT 1 FROM pruned p JOIN chain c ON c.chain_id = p.chain_id
                      WHERE c.no = OLD.id >> 40 AND OLD.id & 1099511627775 >= p.low AND OLD.id & 1099511627775 < p.high);
END;

CREATE VIEW entry AS
SELECT c.chain_id, e.id & 1099511627775 AS seq, e.leaf, e.prev, r.run_id, e.call_id, e.kind, e.body
  FROM stored_entry e JOIN chain c ON c.no = e.id >> 40 LEFT JOIN run r ON r.no = e.call >> 32;
CREATE TRIGGER entry_view_insert INSTEAD OF INSERT ON entry BEGIN
  SELECT RAISE(ABORT, 'ledger.entry is append-only (INSERT refused)'); END;
CREATE TRIGGER entry_view_update INSTEAD OF UPDATE ON entry BEGIN
  SELECT RAISE(ABORT, 'ledger.entry is append-only (UPDATE refused)'); END;
CREATE TRIGGER entry_view_delete INSTEAD OF DELETE ON entry BEGIN
  SELECT RAISE(ABORT, 'ledger.entry is append-only (DELETE refused)'); END;

-- ---- Checkpoints ----

-- Those that outlive their entry. A pruning thins the checkpoints of what it drops: the last of each epoch stays, and
-- every one that the fleet log has recorded. Those of later entries stay all.
CREATE TABLE kept_checkpoint (
  chain INTEGER NOT NULL,
  size  INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  note  TEXT NOT NULL,
  PRIMARY KEY (chain, size)
) STRICT, WITHOUT ROWID;

INSERT INTO kept_checkpoint
SELECT c.no, k.size, k.epoch, k.note FROM wide_checkpoint k JOIN chain c ON c.chain_id = k.chain_id
 WHERE NOT EXISTS (SELECT 1 FROM stored_entry e WHERE e.id = (c.no << 40 | k.size - 1));

CREATE TRIGGER checkpoint_next BEFORE INSERT ON kept_checkpoint BEGIN
  SELECT RAISE(ABORT, 'ledger.checkpoint is append-only (INSERT out of order refused)')
   WHERE EXISTS (SELECT 1 FROM kept_checkpoint k WHERE k.chain = NEW.chain AND k.size = NEW.size)
      OR NEW.note IS NOT (SELECT note FROM stored_entry WHERE id = (NEW.chain << 40 | NEW.size - 1));
END;
CREATE TRIGGER checkpoint_no_update BEFORE UPDATE ON kept_checkpoint BEGIN
  SELECT RAISE(ABORT, 'ledger.checkpoint is append-only (UPDATE refused)');
END;
CREATE TRIGGER checkpoint_no_delete BEFORE DELETE ON kept_checkpoint BEGIN
  SELECT RAISE(ABORT, 'ledger.checkpoint is append-only (DELETE refused)');
END;

CREATE VIEW checkpoint AS
SELECT c.chain_id, (e.id & 1099511627775) + 1 AS size,
       json_extract(CAST(e.body AS TEXT), '$.epoch') AS epoch, e.note
  FROM stored_entry e JOIN chain c ON c.no = e.id >> 40 WHERE e.note IS NOT NULL
 UNION ALL
SELECT c.chain_id, k.size, k.epoch, k.note FROM kept_checkpoint k JOIN chain c ON c.no = k.chain;
CREATE TRIGGER checkpoint_view_insert INSTEAD OF INSERT ON checkpoint BEGIN
  SELECT RAISE(ABORT, 'ledger.checkpoint is append-only (INSERT refused)'); END;
CREATE TRIGGER checkpoint_view_update INSTEAD OF UPDATE ON checkpoint BEGIN
  SELECT RAISE(ABORT, 'ledger.checkpoint is append-only (UPDATE refused)'); END;
CREATE TRIGGER checkpoint_view_delete INSTEAD OF DELETE ON checkpoint BEGIN
  SELECT RAISE(ABORT, 'ledger.checkpoint is append-only (DELETE refused)'); END;

-- ---- Payloads ----

-- The payloads of an entry have the ids `entry.id << 4 | k`. Erasing is deleting the row, and with it the salt.
-- `stored_at` is what retention clocks count from.
CREATE TABLE stored_payload (
  id         INTEGER PRIMARY KEY CHECK (id >= 0),
  commitment BLOB NOT NULL CHECK (length(commitment) = 32),
  salt       BLOB NOT NULL CHECK (length(salt) = 32),
  role       TEXT NOT NULL,
  media_type TEXT NOT NULL,
  stored_at  INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000 AS INTEGER)),
  body       BLOB NOT NULL
) STRICT;

-- Payloads by their commitment: those that are stored before their entry, because they are too large for its transaction,
-- those of the schema before this one, and those of an entry with more than 16.
CREATE TABLE large_payload (
  id         INTEGER PRIMARY KEY,
  chain      INTEGER NOT NULL,
  commitment BLOB NOT NULL CHECK (length(commitment) = 32),
  salt       BLOB NOT NULL CHECK (length(salt) = 32),
  role       TEXT NOT NULL,
  media_type TEXT NOT NULL,
  stored_at  INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000 AS INTEGER)),
  body       BLOB NOT NULL,
  UNIQUE (chain, commitment)
) STRICT;

INSERT INTO large_payload (chain, commitment, salt, role, media_type, stored_at, body)
SELECT c.no, p.commitment, p.salt, p.role, p.media_type, p.stored_at, p.body
  FROM wide_payload p JOIN chain c ON c.chain_id = p.chain_id ORDER BY p.rowid;

CREATE TRIGGER payload_no_update BEFORE UPDATE ON stored_payload BEGIN
  SELECT RAISE(ABORT, 'ledger.payload is write-once (UPDATE refused)');
END;
CREATE TRIGGER payload_no_replace BEFORE INSERT ON stored_payload BEGIN
  SELECT RAISE(ABORT, 'ledger.payload is write-once (REPLACE refused)')
   WHERE EXISTS (SELECT 1 FROM stored_payload WHERE id = NEW.id);
END;
CREATE TRIGGER large_payload_no_update BEFORE UPDATE ON large_payload BEGIN
  SELECT RAISE(ABORT, 'ledger.payload is write-once (UPDATE refused)');
END;
CREATE TRIGGER large_payload_no_replace BEFORE INSERT ON large_payload BEGIN
  SELECT RAISE(ABORT, 'ledger.payload is write-once (REPLACE refused)')
   WHERE EXISTS (SELECT 1 FROM large_payload WHERE chain = NEW.chain AND commitment = NEW.commitment);
END;

-- `place`: the row in its table; negative in `large_payload`.
CREATE VIEW payload AS
SELECT c.chain_id, p.commitment, p.salt, p.role, p.media_type, p.body, p.stored_at, p.id AS place
  FROM stored_payload p JOIN chain c ON c.no = p.id >> 44
 UNION ALL
SELECT c.chain_id, p.commitment, p.salt, p.role, p.media_type, p.body, p.stored_at, -p.id AS place
  FROM large_payload p JOIN chain c ON c.no = p.chain;
CREATE TRIGGER payload_view_insert INSTEAD OF INSERT ON payload BEGIN
  SELECT RAISE(ABORT, 'ledger.payload is write-once (INSERT refused)'); END;
CREATE TRIGGER payload_view_update INSTEAD OF UPDATE ON payload BEGIN
  SELECT RAISE(ABORT, 'ledger.payload is write-once (UPDATE refused)'); END;
CREATE TRIGGER payload_view_delete INSTEAD OF DELETE ON payload BEGIN
  DELETE FROM stored_payload WHERE id = OLD.place;
  DELETE FROM large_payload WHERE id = -OLD.place;
END;

DROP TABLE wide_checkpoint;
DROP TABLE wide_payload;
DROP TABLE wide_entry;

-- ---- Pruning ----

CREATE TRIGGER pruned_recorded BEFORE INSERT ON pruned BEGIN
  SELECT RAISE(ABORT, 'ledger.pruned: the fleet log does not say so (INSERT refused)')
   WHERE NOT EXISTS (
     SELECT 1 FROM chain f JOIN stored_entry e ON e.id = (f.no << 40 | NEW.fleet_seq) AND e.kind = 'retention.pruned'
       JOIN chain c ON c.chain_id = NEW.chain_id AND c.tenant = f.tenant AND c.pool <> 'fleet'
      WHERE f.chain_id = NEW.fleet_chain AND f.pool = 'fleet'
        AND json_extract(CAST(e.body AS TEXT), '$.data.log') = c.origin
        AND json_extract(CAST(e.body AS TEXT), '$.data.from') = NEW.low
        AND json_extract(CAST(e.body AS TEXT), '$.data.to') = NEW.high);
  SELECT RAISE(ABORT, 'ledger.pruned: the newest entries stay (INSERT refused)')
   WHERE NEW.high >= (SELECT size FROM head WHERE chain_id = NEW.chain_id);
  SELECT RAISE(ABORT, 'ledger.pruned is append-only (REPLACE refused)')
   WHERE EXISTS (SELECT 1 FROM pruned WHERE chain_id = NEW.chain_id AND low = NEW.low AND high = NEW.high);
END;
