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
