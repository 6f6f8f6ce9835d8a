-- Rollouts, their audit, kept definitions and embedded flags. Bodies are JSON text, and count; the columns beside them
-- are for order and comparison.

-- One row, locked by each transaction that writes a rollout, a flag or a definition: they come one after the other, and
-- audit rows are numbered in the order in which they become visible.
create table rollout_version (
  only_row integer primary key check (only_row = 1),
  version bigint not null,
  last_number bigint not null,
  last_link text collate "C" not null -- of the audit row with that number
) with (fillfactor = 50);
insert into rollout_version values (1, 0, 0, '');

create table rollouts (
  slot text collate "C" primary key,
  revision bigint not null,
  body text collate "C" not null
);

create table rollout_audit (
  number bigint primary key,
  slot text collate "C" not null,
  definition_id text collate "C" not null,
  kind text collate "C" not null check (kind in ('transition', 'event')),
  at timestamptz not null,
  write_id text collate "C" not null,
  body text collate "C" not null,
  link text collate "C" not null -- hash of this row and of the link before
);
comment on column rollout_audit.write_id is 'of the transaction: a write whose answer was lost is found by it';
create index rollout_audit_by_slot on rollout_audit (slot, number);
create index rollout_audit_by_definition on rollout_audit (definition_id, number);
create index rollout_audit_by_write on rollout_audit (write_id);
create index rollout_audit_by_time on rollout_audit (at);

-- A transition is kept once, also after retention has removed its audit row.
create table rollout_transitions (
  digest text collate "C" not null,
  target_state text collate "C" not null,
  number bigint not null unique,
  effective_at timestamptz,
  noted_by text collate "C",
  primary key (digest, target_state)
);

create table rollout_unexported (
  number bigint primary key
);

create table rollout_answers (
  request_id text collate "C" primary key,
  at timestamptz not null,
  body text collate "C" not null
);
create index rollout_answers_by_time on rollout_answers (at);

create table kept_definitions (
  digest text collate "C" primary key,
  body text collate "C" not null
);

create table rollout_flags (
  name text collate "C" primary key,
  revision bigint not null,
  body text collate "C" not null
);

-- `seen_at` is the replica's clock, `heard_at` the database's: whether it is alive is decided by one clock. `pinned` is how
-- many open turns it had bound to each definition: JSON, counts by digest.
create table rollout_replicas (
  instance_id text collate "C" primary key,
  version bigint not null,
  seen_at timestamptz not null,
  heard_at timestamptz not null,
  pinned text collate "C" not null default '{}'
) with (fillfactor = 50);

create table rollout_audit_markers (
  number bigint primary key,
  body text collate "C" not null
);

-- As in the record: nothing is changed; nothing is removed but by retention, which says so for its transaction.
do $$
declare
  v_table text;
begin
  foreach v_table in array array['rollout_audit', 'rollout_answers', 'kept_definitions', 'rollout_audit_markers']
  loop
    execute format('create trigger stays before update or delete or truncate on %I'
      ' for each statement execute function record_stays()', v_table);
  end loop;
end
$$;

create function rollout_transition_stays() returns trigger language plpgsql as $$
begin
  if tg_op = 'UPDATE' then
    if old.effective_at is null
      and (old.digest, old.target_state, old.number) = (new.digest, new.target_state, new.number) then
      return new;
    end if;
  end if;
  raise exception '% is append-only: % is refused', tg_table_name, tg_op using errcode = 'SR403';
end
$$;
create trigger changes_once before update or delete on rollout_transitions
  for each row execute function rollout_transition_stays();
create trigger stays before truncate on rollout_transitions
  for each statement execute function record_stays();

-- Retention: the sidecar has compared marker and rows in this transaction, under the lock of `rollout_version`. Here it
-- is made sure that nothing goes that is young or was not handed on; the function's owner may remove, its caller need not.
create function rollout_purge(p_number bigint, p_before timestamptz, p_body text) returns void
language plpgsql security definer set search_path from current as $$
begin
  if exists (select from rollout_audit where number <= p_number and at >= p_before)
    or exists (select from rollout_unexported where number <= p_number) then
    raise exception 'audit rows that are young or not handed on are kept' using errcode = 'SR403';
  end if;
  insert into rollout_audit_markers values (p_number, p_body);
  perform set_config('sidecar.purging', 'on', true);
  delete from rollout_audit where number <= p_number;
  delete from rollout_answers where at < p_before;
  perform set_config('sidecar.purging', '', true);
end
$$;
revoke all on function rollout_purge(bigint, timestamptz, text) from public;
