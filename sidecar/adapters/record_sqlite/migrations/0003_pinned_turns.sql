-- How many open turns each process had bound to each definition: the one that has the file, and those that had it before.
-- `pinned` is JSON, counts by digest; `seen_at` is in microseconds since 1970.
CREATE TABLE rollout_replicas (
  instance_id TEXT PRIMARY KEY,
  version INTEGER NOT NULL,
  seen_at INTEGER NOT NULL,
  pinned TEXT NOT NULL
) STRICT, WITHOUT ROWID;
