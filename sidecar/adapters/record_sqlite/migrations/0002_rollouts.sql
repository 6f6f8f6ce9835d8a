-- Rollouts, their audit, kept definitions and embedded flags. Bodies are JSON text, and count; the columns beside them
-- are for order and comparison. Times in INTEGER columns are microseconds since 1970.

CREATE TABLE rollout_version ( -- one row, changed by each transaction that changes a rollout, a flag or a definition
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  version INTEGER NOT NULL,
  last_number INTEGER NOT NULL, -- of the audit rows, removed ones included
  last_link TEXT NOT NULL -- of the audit row with that number
) STRICT;
INSERT INTO rollout_version VALUES (1, 0, 0, '');

CREATE TABLE rollouts (
  slot TEXT PRIMARY KEY,
  revision INTEGER NOT NULL,
  body TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE rollout_audit (
  number INTEGER PRIMARY KEY,
  slot TEXT NOT NULL,
  definition_id TEXT NOT NULL,
  kind TEXT NOT NULL CHECK (kind IN ('transition', 'event')),
  at INTEGER NOT NULL,
  write_id TEXT NOT NULL, -- of the transaction: a write whose answer was lost is found by it
  body TEXT NOT NULL,
  link TEXT NOT NULL -- hash of this row and of the link before
) STRICT;
CREATE INDEX rollout_audit_by_slot ON rollout_audit (slot, number);
CREATE INDEX rollout_audit_by_definition ON rollout_audit (definition_id, number);
CREATE INDEX rollout_audit_by_write ON rollout_audit (write_id);
CREATE INDEX rollout_audit_by_time ON rollout_audit (at, number);

CREATE TABLE rollout_transitions ( -- a transition is kept once, also after retention has removed its audit row
  digest TEXT NOT NULL,
  target_state TEXT NOT NULL,
  number INTEGER NOT NULL UNIQUE,
  effective_at INTEGER,
  noted_by TEXT, -- which call noted it first
  PRIMARY KEY (digest, target_state)
) STRICT, WITHOUT ROWID;

CREATE TABLE rollout_unexported ( -- audit rows that some sink has not got yet
  number INTEGER PRIMARY KEY
) STRICT;

CREATE TABLE rollout_answers (
  request_id TEXT PRIMARY KEY,
  at INTEGER NOT NULL,
  body TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX rollout_answers_by_time ON rollout_answers (at);

CREATE TABLE kept_definitions (
  digest TEXT PRIMARY KEY,
  body TEXT NOT NULL
) STRICT;

CREATE TABLE rollout_flags (
  name TEXT PRIMARY KEY,
  revision INTEGER NOT NULL,
  body TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE rollout_audit_markers (
  number INTEGER PRIMARY KEY,
  body TEXT NOT NULL
) STRICT;

-- How many open turns each process had bound to each definition: the one that has the file, and those that had it before.
-- `pinned` is JSON, counts by digest; `seen_at` is in microseconds since 1970.
CREATE TABLE rollout_replicas (
  instance_id TEXT PRIMARY KEY,
  version INTEGER NOT NULL,
  seen_at INTEGER NOT NULL,
  pinned TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TRIGGER rollout_audit_stay BEFORE UPDATE ON rollout_audit
  BEGIN SELECT RAISE(ABORT, 'the audit of rollouts is append-only'); END;
CREATE TRIGGER rollout_audit_are_kept BEFORE DELETE ON rollout_audit WHEN NOT EXISTS (SELECT 1 FROM purging)
  BEGIN SELECT RAISE(ABORT, 'only retention removes audit rows'); END;

CREATE TRIGGER rollout_transitions_stay BEFORE UPDATE ON rollout_transitions WHEN OLD.effective_at IS NOT NULL
  OR (OLD.digest, OLD.target_state, OLD.number) <> (NEW.digest, NEW.target_state, NEW.number)
  BEGIN SELECT RAISE(ABORT, 'a transition takes effect once, and never changes'); END;
CREATE TRIGGER rollout_transitions_are_kept BEFORE DELETE ON rollout_transitions
  BEGIN SELECT RAISE(ABORT, 'a transition is kept for ever'); END;

CREATE TRIGGER rollout_answers_stay BEFORE UPDATE ON rollout_answers
  BEGIN SELECT RAISE(ABORT, 'an answer never changes'); END;
CREATE TRIGGER rollout_answers_are_kept BEFORE DELETE ON rollout_answers WHEN NOT EXISTS (SELECT 1 FROM purging)
  BEGIN SELECT RAISE(ABORT, 'only retention removes answers'); END;

CREATE TRIGGER kept_definitions_stay BEFORE UPDATE ON kept_definitions
  BEGIN SELECT RAISE(ABORT, 'a kept definition never changes'); END;
CREATE TRIGGER kept_definitions_are_kept BEFORE DELETE ON kept_definitions
  BEGIN SELECT RAISE(ABORT, 'a kept definition is kept'); END;

CREATE TRIGGER rollout_audit_markers_stay BEFORE UPDATE ON rollout_audit_markers
  BEGIN SELECT RAISE(ABORT, 'a retention marker never changes'); END;
CREATE TRIGGER rollout_audit_markers_are_kept BEFORE DELETE ON rollout_audit_markers
  BEGIN SELECT RAISE(ABORT, 'a retention marker is kept for ever'); END;
