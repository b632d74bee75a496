-- A slot whose chain lost entries for good begins its next one, `<n + 1>`; the old one stays readable.
-- Foreign keys are off while this runs (see `migrate`): the rows that refer to a chain stay as they are.
CREATE TABLE chain_next (
  chain_id BLOB PRIMARY KEY CHECK (length(chain_id) = 16),
  tenant   TEXT NOT NULL,
  pool     TEXT NOT NULL,
  slot     INTEGER NOT NULL CHECK (slot >= 0),
  origin   TEXT NOT NULL UNIQUE,
  n        INTEGER NOT NULL DEFAULT 0 CHECK (n >= 0),
  retired  INTEGER NOT NULL DEFAULT 0 CHECK (retired IN (0, 1)),
  UNIQUE (tenant, pool, slot, n)
) STRICT, WITHOUT ROWID;
INSERT INTO chain_next (chain_id, tenant, pool, slot, origin)
  SELECT chain_id, tenant, pool, slot, origin FROM chain;
DROP TABLE chain;
ALTER TABLE chain_next RENAME TO chain;

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
