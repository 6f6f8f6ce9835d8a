-- The record. Ids are compared byte for byte, whatever the database's collation.

-- Who appends. Times are the database's own.
create table instances (
  instance_id text collate "C" primary key,
  started_at timestamptz not null,
  lease_until timestamptz not null
) with (fillfactor = 50);

-- One row an instance, locked by each of its commits: a commit that hangs and its repetition never run side by side.
-- `version` counts commits; `closed_number` and `closed_root` say where the running root stands.
create table instance_heads (
  instance_id text collate "C" primary key,
  version bigint not null default 0,
  closed_number bigint not null default 0,
  closed_root text collate "C" not null default repeat('0', 64)
) with (fillfactor = 50);

-- One row a turn, made from the records below: what lists are sorted by, and what writers lock, in order of `turn_id`.
create table turns (
  turn_id text collate "C" primary key,
  episode_id text collate "C",
  principal text collate "C",
  began_at timestamptz,
  expires_at timestamptz,
  ended_at timestamptz,
  close_reason text collate "C"
) with (fillfactor = 70);
create index turns_by_time on turns (began_at desc, turn_id desc);
create index turns_by_episode on turns (episode_id, began_at desc, turn_id desc);
create index turns_open on turns (expires_at) where ended_at is null;

-- Append-only from here on.

create table dispatches (
  turn_id text collate "C" not null,
  dispatch_id text collate "C" not null,
  position integer not null,
  episode_id text collate "C" not null,
  principal text collate "C" not null,
  claims_json text collate "C" not null,
  request_json text collate "C" not null,
  fingerprint text collate "C" not null,
  first_step integer not null,
  places integer not null,
  calls integer not null,
  intents jsonb not null,
  cap text collate "C" not null,
  opened_at timestamptz not null,
  settle_by timestamptz not null,
  turn_expires_at timestamptz not null,
  primary key (turn_id, dispatch_id)
);

create table dispatch_owners (
  turn_id text collate "C" not null,
  dispatch_id text collate "C" not null,
  epoch integer not null,
  instance_id text collate "C" not null,
  taken_at timestamptz not null,
  primary key (turn_id, dispatch_id, epoch)
);

create table sub_agents (
  child_id text collate "C" primary key,
  position integer not null,
  turn_id text collate "C" not null,
  episode_id text collate "C" not null,
  dispatch_id text collate "C" not null,
  call_id text collate "C" not null,
  slot text collate "C" not null,
  step_idx integer not null,
  context_json text collate "C" not null,
  opened_at timestamptz not null,
  parent_child_id text collate "C",
  opening_link text collate "C" not null,
  unique (turn_id, step_idx)
);

create table sub_agent_events (
  event_id text collate "C" primary key,
  child_id text collate "C" not null,
  run_id text collate "C" not null,
  sequence integer not null,
  name text collate "C" not null,
  time timestamptz not null,
  actor text collate "C" not null,
  summary text collate "C" not null,
  details_json text collate "C" not null,
  previous_link text collate "C" not null,
  link text collate "C" not null,
  unique (child_id, sequence)
);

create table attempts (
  attempt_id text collate "C" primary key,
  child_id text collate "C" not null,
  turn_id text collate "C" not null,
  dispatch_id text collate "C" not null,
  number integer not null,
  frames_json text collate "C" not null
);
create index attempts_by_turn on attempts (turn_id);

create table call_outcomes (
  turn_id text collate "C" not null,
  dispatch_id text collate "C" not null,
  call_id text collate "C" not null,
  revision integer not null,
  outcome_json text collate "C" not null,
  settled_at timestamptz not null,
  primary key (turn_id, dispatch_id, call_id, revision)
);

create table turn_ends (
  turn_id text collate "C" primary key,
  episode_id text collate "C" not null,
  principal text collate "C" not null,
  fingerprint text collate "C" not null,
  narration text collate "C" not null,
  close_reason text collate "C" not null,
  ended_at timestamptz not null,
  user_message text collate "C" not null
);

create table routing_records (
  turn_id text collate "C" primary key,
  episode_id text collate "C" not null,
  ended_at timestamptz not null,
  called text[] not null,
  record_json text collate "C" not null
);
create index routing_by_episode on routing_records (episode_id, ended_at desc, turn_id desc);

create table closed_children (
  instance_id text collate "C" not null,
  number bigint not null,
  child_id text collate "C" not null,
  last_link text collate "C" not null,
  root text collate "C" not null,
  primary key (instance_id, number)
);

create table retention_markers (
  instance_id text collate "C" not null,
  number bigint not null,
  root text collate "C" not null,
  closed_before timestamptz not null,
  made_at timestamptz not null,
  key_id text collate "C" not null,
  signature text collate "C" not null,
  primary key (instance_id, number)
);

-- Nothing is changed; nothing is removed but by the two functions of retention, which say so for their transaction.
create function record_stays() returns trigger language plpgsql as $$
begin
  if tg_op = 'DELETE' and current_setting('sidecar.purging', true) = 'on' then
    return null;
  end if;
  raise exception '% is append-only: % is refused', tg_table_name, tg_op using errcode = 'SR403';
end
$$;

do $$
declare
  v_table text;
begin
  foreach v_table in array array['dispatches', 'dispatch_owners', 'sub_agents', 'sub_agent_events', 'attempts',
    'call_outcomes', 'turn_ends', 'routing_records', 'closed_children', 'retention_markers']
  loop
    execute format('create trigger stays before update or delete or truncate on %I'
      ' for each statement execute function record_stays()', v_table);
  end loop;
end
$$;
