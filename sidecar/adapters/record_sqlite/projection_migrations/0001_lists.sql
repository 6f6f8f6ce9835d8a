-- The rows of lists. All of it is derived from the record, and made again if it is lost. A change of what is derived, or of
-- the format of facts, is a changed step: files that were made by another one are thrown away.
-- Times are microseconds since 1970, days are dates in UTC.

CREATE TABLE watermarks ( -- up to where the journal is in here
  sequence TEXT PRIMARY KEY,
  number INTEGER NOT NULL,
  link BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE taken ( -- one row, of all sequences
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  alterations INTEGER NOT NULL -- which removals and erasures are taken into account
) STRICT;
INSERT INTO taken VALUES (1, 0);

CREATE TABLE turns (
  turn_id TEXT PRIMARY KEY,
  version INTEGER NOT NULL, -- how many of its facts it was derived from
  day TEXT NOT NULL,
  shown INTEGER NOT NULL, -- 0 of a turn that no list shows; the columns below are empty then
  episode_id TEXT NOT NULL,
  principal TEXT NOT NULL,
  state TEXT NOT NULL,
  began_at INTEGER NOT NULL,
  ended_at INTEGER,
  slots TEXT NOT NULL, -- JSON
  children INTEGER NOT NULL,
  failed INTEGER NOT NULL,
  outcomes TEXT NOT NULL, -- JSON, as the next three
  definitions TEXT NOT NULL,
  reasons TEXT NOT NULL,
  calls TEXT NOT NULL -- by slot
) STRICT;
CREATE INDEX turns_by_time ON turns (began_at, turn_id) WHERE shown = 1;
CREATE INDEX turns_by_state ON turns (state, began_at, turn_id) WHERE shown = 1;
CREATE INDEX turns_by_principal ON turns (principal, began_at, turn_id) WHERE shown = 1;
CREATE INDEX turns_by_episode ON turns (episode_id, began_at, turn_id) WHERE shown = 1;
CREATE INDEX turns_by_day ON turns (day);

CREATE TABLE labels ( -- of a turn: slots that it called, outcomes and reasons of its calls, definitions that its children run
  label TEXT NOT NULL, -- such as slot:shop
  began_at INTEGER NOT NULL,
  turn_id TEXT NOT NULL,
  PRIMARY KEY (label, began_at, turn_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE episodes ( -- of a user, with the beginning of its newest turn
  episode_id TEXT NOT NULL,
  principal TEXT NOT NULL,
  last_at INTEGER NOT NULL,
  PRIMARY KEY (episode_id, principal)
) STRICT, WITHOUT ROWID;
CREATE INDEX episodes_by_time ON episodes (last_at, episode_id, principal);
