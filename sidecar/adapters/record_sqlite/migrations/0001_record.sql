-- The record. Rows are appended and never changed or removed; what may change is marked as a projection of other rows.
-- Times in INTEGER columns are microseconds since 1970, for order and comparison; the text beside them is what counts.

CREATE TABLE instances (
  instance TEXT PRIMARY KEY,
  began_at INTEGER NOT NULL,
  closed_number INTEGER NOT NULL DEFAULT 0, -- projection: where its running root stands
  closed_root TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE turns ( -- projection of dispatches and turn_ends, for lists
  turn_id TEXT PRIMARY KEY,
  episode_id TEXT NOT NULL,
  principal TEXT NOT NULL,
  state TEXT NOT NULL,
  began_at INTEGER NOT NULL,
  expires_at INTEGER,
  ended_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX turns_by_time ON turns (began_at, turn_id);
CREATE INDEX turns_by_episode ON turns (episode_id, began_at, turn_id);
CREATE INDEX turns_not_ended ON turns (expires_at, began_at) WHERE ended_at IS NULL;
CREATE INDEX turns_by_end ON turns (ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE episodes ( -- projection of turns
  episode_id TEXT NOT NULL,
  principal TEXT NOT NULL,
  last_at INTEGER NOT NULL,
  PRIMARY KEY (episode_id, principal)
) STRICT, WITHOUT ROWID;
CREATE INDEX episodes_by_time ON episodes (last_at);

CREATE TABLE dispatches (
  number INTEGER PRIMARY KEY,
  turn_id TEXT NOT NULL,
  dispatch_id TEXT NOT NULL,
  opened_at INTEGER NOT NULL,
  unsettled INTEGER NOT NULL, -- projection: calls without an outcome
  body TEXT NOT NULL,
  UNIQUE (turn_id, dispatch_id)
) STRICT;
CREATE INDEX dispatches_unsettled ON dispatches (opened_at) WHERE unsettled <> 0;

CREATE TABLE dispatch_owners (
  turn_id TEXT NOT NULL,
  dispatch_id TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  instance TEXT NOT NULL,
  taken_at TEXT NOT NULL,
  PRIMARY KEY (turn_id, dispatch_id, epoch),
  FOREIGN KEY (turn_id, dispatch_id) REFERENCES dispatches (turn_id, dispatch_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE sub_agents (
  number INTEGER PRIMARY KEY,
  child_id TEXT NOT NULL UNIQUE,
  turn_id TEXT NOT NULL,
  episode_id TEXT NOT NULL,
  dispatch_id TEXT NOT NULL,
  call_id TEXT NOT NULL,
  slot TEXT NOT NULL,
  step_idx INTEGER NOT NULL,
  context_json TEXT NOT NULL,
  opened_at TEXT NOT NULL,
  parent_child_id TEXT,
  state TEXT NOT NULL DEFAULT 'created', -- projection of the events, like all that follow
  final_status TEXT,
  sequence INTEGER NOT NULL DEFAULT 0,
  last_link TEXT NOT NULL,
  last_at INTEGER,
  UNIQUE (turn_id, step_idx),
  FOREIGN KEY (turn_id, dispatch_id) REFERENCES dispatches (turn_id, dispatch_id)
) STRICT;
CREATE INDEX sub_agents_by_slot ON sub_agents (slot, turn_id);

CREATE TABLE sub_agent_events (
  number INTEGER PRIMARY KEY,
  event_id TEXT NOT NULL UNIQUE,
  child_id TEXT NOT NULL REFERENCES sub_agents (child_id),
  run_id TEXT NOT NULL,
  sequence INTEGER NOT NULL,
  name TEXT NOT NULL,
  time TEXT NOT NULL,
  actor TEXT NOT NULL,
  summary TEXT NOT NULL,
  details_json TEXT NOT NULL,
  previous_link TEXT NOT NULL,
  link TEXT NOT NULL,
  UNIQUE (child_id, sequence)
) STRICT;

CREATE TABLE call_outcomes (
  turn_id TEXT NOT NULL,
  dispatch_id TEXT NOT NULL,
  call_id TEXT NOT NULL,
  revision INTEGER NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (turn_id, dispatch_id, call_id, revision),
  FOREIGN KEY (turn_id, dispatch_id) REFERENCES dispatches (turn_id, dispatch_id)
) STRICT;

CREATE TABLE attempts (
  attempt_id TEXT PRIMARY KEY,
  child_id TEXT NOT NULL,
  turn_id TEXT NOT NULL,
  dispatch_id TEXT NOT NULL,
  number INTEGER NOT NULL,
  frames_json TEXT NOT NULL,
  FOREIGN KEY (turn_id, dispatch_id) REFERENCES dispatches (turn_id, dispatch_id)
) STRICT;
CREATE INDEX attempts_by_turn ON attempts (turn_id, child_id, number);

CREATE TABLE turn_ends (
  turn_id TEXT PRIMARY KEY,
  ended_at INTEGER NOT NULL,
  body TEXT NOT NULL
) STRICT;

CREATE TABLE routing_records (
  turn_id TEXT PRIMARY KEY,
  episode_id TEXT NOT NULL,
  ended_at INTEGER NOT NULL,
  called INTEGER NOT NULL, -- 1 if it called anybody
  body TEXT NOT NULL
) STRICT;
CREATE INDEX routing_records_that_called ON routing_records (episode_id, ended_at, turn_id) WHERE called = 1;

CREATE TABLE closed_children (
  instance TEXT NOT NULL REFERENCES instances (instance),
  number INTEGER NOT NULL,
  child_id TEXT NOT NULL,
  last_link TEXT NOT NULL,
  root TEXT NOT NULL,
  PRIMARY KEY (instance, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE retention_markers (
  instance TEXT NOT NULL REFERENCES instances (instance),
  number INTEGER NOT NULL,
  root TEXT NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (instance, number)
) STRICT, WITHOUT ROWID;

-- Rows of the record may go while retention has a row in here, which it takes out in the same transaction.
CREATE TABLE purging (why TEXT NOT NULL) STRICT;

CREATE TRIGGER sub_agents_stay BEFORE UPDATE OF
  number, child_id, turn_id, episode_id, dispatch_id, call_id, slot, step_idx, context_json, opened_at, parent_child_id
  ON sub_agents BEGIN SELECT RAISE(ABORT, 'a child and its contract never change'); END;
CREATE TRIGGER sub_agents_are_kept BEFORE DELETE ON sub_agents WHEN NOT EXISTS (SELECT 1 FROM purging)
  BEGIN SELECT RAISE(ABORT, 'only retention removes children'); END;

CREATE TRIGGER sub_agent_events_stay BEFORE UPDATE ON sub_agent_events
  BEGIN SELECT RAISE(ABORT, 'the log of a child is append-only'); END;
CREATE TRIGGER sub_agent_events_are_kept BEFORE DELETE ON sub_agent_events WHEN NOT EXISTS (SELECT 1 FROM purging)
  BEGIN SELECT RAISE(ABORT, 'only retention removes events'); END;

CREATE TRIGGER dispatches_stay BEFORE UPDATE OF number, turn_id, dispatch_id, opened_at, body ON dispatches
  BEGIN SELECT RAISE(ABORT, 'a dispatch never changes'); END;
CREATE TRIGGER dispatches_are_kept BEFORE DELETE ON dispatches WHEN NOT EXISTS (SELECT 1 FROM purging)
  BEGIN SELECT RAISE(ABORT, 'only retention removes dispatches'); END;

CREATE TRIGGER dispatch_owners_stay BEFORE UPDATE ON dispatch_owners
  BEGIN SELECT RAISE(ABORT, 'an owner never changes'); END;
CREATE TRIGGER dispatch_owners_are_kept BEFORE DELETE ON dispatch_owners WHEN NOT EXISTS (SELECT 1 FROM purging)
  BEGIN SELECT RAISE(ABORT, 'only retention removes owners'); END;

CREATE TRIGGER call_outcomes_stay BEFORE UPDATE ON call_outcomes
  BEGIN SELECT RAISE(ABORT, 'an outcome never changes'); END;
CREATE TRIGGER call_outcomes_are_kept BEFORE DELETE ON call_outcomes WHEN NOT EXISTS (SELECT 1 FROM purging)
  BEGIN SELECT RAISE(ABORT, 'only retention removes outcomes'); END;

CREATE TRIGGER attempts_stay BEFORE UPDATE ON attempts
  BEGIN SELECT RAISE(ABORT, 'an attempt never changes'); END;
CREATE TRIGGER attempts_are_kept BEFORE DELETE ON attempts WHEN NOT EXISTS (SELECT 1 FROM purging)
  BEGIN SELECT RAISE(ABORT, 'only retention removes attempts'); END;

CREATE TRIGGER turn_ends_stay BEFORE UPDATE ON turn_ends
  BEGIN SELECT RAISE(ABORT, 'the end of a turn never changes'); END;
CREATE TRIGGER turn_ends_are_kept BEFORE DELETE ON turn_ends WHEN NOT EXISTS (SELECT 1 FROM purging)
  BEGIN SELECT RAISE(ABORT, 'only retention removes ends'); END;

CREATE TRIGGER routing_records_stay BEFORE UPDATE ON routing_records
  BEGIN SELECT RAISE(ABORT, 'a routing decision never changes'); END;
CREATE TRIGGER routing_records_are_kept BEFORE DELETE ON routing_records WHEN NOT EXISTS (SELECT 1 FROM purging)
  BEGIN SELECT RAISE(ABORT, 'only retention removes routing decisions'); END;

CREATE TRIGGER closed_children_stay BEFORE UPDATE ON closed_children
  BEGIN SELECT RAISE(ABORT, 'a link of the running root never changes'); END;
CREATE TRIGGER closed_children_are_kept BEFORE DELETE ON closed_children WHEN NOT EXISTS (SELECT 1 FROM purging)
  BEGIN SELECT RAISE(ABORT, 'only retention removes links of the running root'); END;

CREATE TRIGGER retention_markers_stay BEFORE UPDATE ON retention_markers
  BEGIN SELECT RAISE(ABORT, 'a retention marker never changes'); END;
CREATE TRIGGER retention_markers_are_kept BEFORE DELETE ON retention_markers
  BEGIN SELECT RAISE(ABORT, 'a retention marker is kept for ever'); END;
