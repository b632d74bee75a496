-- Shared pools on one machine: of each window how much is leased, and what each gate got last.
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
