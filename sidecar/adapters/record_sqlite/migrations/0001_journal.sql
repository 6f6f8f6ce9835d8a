-- The journal. Facts are appended and never changed or removed; what may change is marked as derived from them.
-- Times are microseconds since 1970, days are dates in UTC. Small numbers stand for turns and instances, so that an index
-- grows at its end instead of everywhere.

CREATE TABLE instances ( -- each start of a sidecar on this file
  number INTEGER PRIMARY KEY,
  instance TEXT NOT NULL UNIQUE,
  began_at INTEGER NOT NULL,
  reached INTEGER NOT NULL DEFAULT 0 -- the highest number of a fact that retention has removed by its time
) STRICT;

CREATE TABLE turns ( -- derived from facts, all of it
  number INTEGER PRIMARY KEY,
  turn_id TEXT NOT NULL UNIQUE,
  day TEXT NOT NULL, -- of its first fact
  episode_id TEXT NOT NULL,
  expires_at INTEGER NOT NULL,
  ended_at INTEGER,
  called INTEGER NOT NULL -- 1 if it has ended, and called a sub-agent
) STRICT;
CREATE INDEX turns_open ON turns (expires_at, number) WHERE ended_at IS NULL;
CREATE INDEX turns_by_day ON turns (day); -- retention and verifying go by days
CREATE INDEX turns_that_called ON turns (episode_id, ended_at, turn_id) WHERE called = 1;

CREATE TABLE facts (
  number INTEGER PRIMARY KEY, -- its place in the journal, without gaps
  turn INTEGER NOT NULL REFERENCES turns (number),
  version INTEGER NOT NULL, -- its place in the turn, from 1
  instance INTEGER NOT NULL,
  at INTEGER NOT NULL,
  body BLOB NOT NULL,
  texts BLOB, -- NULL once they were erased, like the salt; the digest is there from then on
  salt BLOB,
  texts_digest BLOB,
  link BLOB NOT NULL,
  erased_under TEXT -- id of the marker under which the texts were erased
) STRICT;
CREATE UNIQUE INDEX facts_of_turn ON facts (turn, version);
CREATE INDEX facts_erased ON facts (turn) WHERE texts IS NULL; -- empty until a user's texts are erased

CREATE TABLE attempt_frames ( -- what runners sent, for replay
  place INTEGER PRIMARY KEY, -- 65,536 for each fact, so that no index is needed: those that came with it
  turn INTEGER NOT NULL,
  attempt_id TEXT NOT NULL,
  step INTEGER NOT NULL,
  number INTEGER NOT NULL,
  frames BLOB NOT NULL
) STRICT;

CREATE TABLE roots ( -- derived from facts: where the running root of an instance and a day stands
  instance INTEGER NOT NULL,
  day TEXT NOT NULL,
  number INTEGER NOT NULL,
  root BLOB NOT NULL,
  PRIMARY KEY (instance, day)
) STRICT, WITHOUT ROWID;

CREATE TABLE markers ( -- of what was removed, signed
  instance TEXT NOT NULL,
  day TEXT NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (instance, day)
) STRICT, WITHOUT ROWID;

CREATE TABLE erasures ( -- markers of erased texts, signed; they name nobody
  marker_id TEXT PRIMARY KEY,
  body TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Rows of the journal may go while there is a row in here, which is taken out in the same transaction.
CREATE TABLE purging (why TEXT NOT NULL) STRICT;

CREATE TRIGGER facts_stay BEFORE UPDATE ON facts
  WHEN NOT EXISTS (SELECT 1 FROM purging WHERE why = 'erasure')
    OR (OLD.number, OLD.turn, OLD.version, OLD.instance, OLD.at, OLD.body, OLD.link)
      <> (NEW.number, NEW.turn, NEW.version, NEW.instance, NEW.at, NEW.body, NEW.link)
  BEGIN SELECT RAISE(ABORT, 'a fact never changes; erasure alone takes its texts'); END;
CREATE TRIGGER facts_are_kept BEFORE DELETE ON facts WHEN NOT EXISTS (SELECT 1 FROM purging)
  BEGIN SELECT RAISE(ABORT, 'only retention removes facts'); END;

CREATE TRIGGER attempt_frames_stay BEFORE UPDATE ON attempt_frames
  BEGIN SELECT RAISE(ABORT, 'the frames of an attempt never change'); END;
CREATE TRIGGER attempt_frames_are_kept BEFORE DELETE ON attempt_frames WHEN NOT EXISTS (SELECT 1 FROM purging)
  BEGIN SELECT RAISE(ABORT, 'only retention and erasure remove frames'); END;

CREATE TRIGGER turns_stay BEFORE UPDATE OF number, turn_id, day, episode_id ON turns
  BEGIN SELECT RAISE(ABORT, 'a turn stays what it is'); END;
CREATE TRIGGER turns_are_kept BEFORE DELETE ON turns WHEN NOT EXISTS (SELECT 1 FROM purging)
  BEGIN SELECT RAISE(ABORT, 'only retention removes turns'); END;

CREATE TRIGGER markers_stay BEFORE UPDATE ON markers
  BEGIN SELECT RAISE(ABORT, 'a retention marker never changes'); END;
CREATE TRIGGER markers_are_kept BEFORE DELETE ON markers
  BEGIN SELECT RAISE(ABORT, 'a retention marker is kept for ever'); END;

CREATE TRIGGER erasures_stay BEFORE UPDATE ON erasures
  BEGIN SELECT RAISE(ABORT, 'the marker of an erasure never changes'); END;
CREATE TRIGGER erasures_are_kept BEFORE DELETE ON erasures
  BEGIN SELECT RAISE(ABORT, 'the marker of an erasure is kept for ever'); END;
