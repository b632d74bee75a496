-- When a payload came: what retention clocks count from. SQLite adds no column whose default is not a
-- constant, so the table is made anew; what is there already counts from now.
CREATE TABLE payload_new (
  chain_id   BLOB NOT NULL REFERENCES chain,
  commitment BLOB NOT NULL CHECK (length(commitment) = 32),
  salt       BLOB NOT NULL CHECK (length(salt) = 32),
  role       TEXT NOT NULL,
  media_type TEXT NOT NULL,
  body       BLOB NOT NULL,
  stored_at  INTEGER NOT NULL DEFAULT (CAST(unixepoch('subsec') * 1000 AS INTEGER)),
  PRIMARY KEY (chain_id, commitment)
) STRICT;
INSERT INTO payload_new (chain_id, commitment, salt, role, media_type, body)
  SELECT chain_id, commitment, salt, role, media_type, body FROM payload ORDER BY rowid;
DROP TABLE payload;
ALTER TABLE payload_new RENAME TO payload;
CREATE INDEX payload_age ON payload (role, stored_at);
CREATE TRIGGER payload_no_update BEFORE UPDATE ON payload BEGIN
  SELECT RAISE(ABORT, 'ledger.payload is write-once (UPDATE refused)');
END;
CREATE TRIGGER payload_no_replace BEFORE INSERT ON payload BEGIN
  SELECT RAISE(ABORT, 'ledger.payload is write-once (REPLACE refused)')
   WHERE EXISTS (SELECT 1 FROM payload WHERE chain_id = NEW.chain_id AND commitment = NEW.commitment);
END;
