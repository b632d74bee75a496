-- Roots of completed subtrees, so that a proof reads little; heights 8, 16, 24 and 32. They are
-- derived: whoever uses them checks the outcome against a signed root, and they can be dropped and
-- filled again. Height 0 holds the leaf hashes of tiles from which entries were pruned.
CREATE TABLE subtree (
  chain_id BLOB NOT NULL REFERENCES chain,
  height   INTEGER NOT NULL,
  idx      INTEGER NOT NULL CHECK (idx >= 0),
  hash     BLOB NOT NULL CHECK (length(hash) = 32),
  PRIMARY KEY (chain_id, height, idx)
) STRICT, WITHOUT ROWID;

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

DROP TRIGGER entry_no_delete;
CREATE TRIGGER entry_no_delete BEFORE DELETE ON entry BEGIN
  SELECT RAISE(ABORT, 'ledger.entry is append-only (DELETE refused)')
   WHERE OLD.kind IN ('chain.genesis', 'writer.started', 'policy.activated', 'manifest.bound', 'anchor.observed')
      OR NOT EXISTS (SELECT 1 FROM pruned p
                      WHERE p.chain_id = OLD.chain_id AND OLD.seq >= p.low AND OLD.seq < p.high);
END;
