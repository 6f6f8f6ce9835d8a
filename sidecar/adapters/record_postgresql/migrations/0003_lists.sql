-- The rows of lists. All of it is derived from facts, and made again if it is in doubt; nothing that decides reads it.

create table lists_taken ( -- one row: of all sequences; locked by each who keeps rows, so that one does so at a time
  only_row boolean primary key default true check (only_row),
  generation bigint not null default 0, -- how often everything was forgotten: what was read before does not count any more
  alterations bigint not null default 0 -- removals and erasures that are taken into account
);
insert into lists_taken default values;

-- Up to where the facts of each instance are in here, and which sidecar takes them: one at a time.
create table lists_watermarks (
  instance_id text collate "C" primary key,
  number bigint not null default 0,
  link bytea not null default '',
  projector text collate "C" not null default '',
  leased_until timestamptz not null default '-infinity'
) with (fillfactor = 50);

-- Instances that have been dead for an hour, and whose facts are all in here. Each start makes an instance, so these are left out
-- of what projectors lease, read and hand over: that stays as small as the fleet. One that appends again is in no row of this.
create view lists_settled as
  select mark.instance_id, mark.number from lists_watermarks mark
    join instance_heads head using (instance_id, number) join instances dead using (instance_id)
    where dead.lease_until < clock_timestamp() - interval '1 hour';

create table listed_turns (
  turn_id text collate "C" primary key,
  version integer not null, -- how many of its facts it was derived from
  day date not null,
  shown boolean not null, -- false: in no list; the columns below are empty then
  episode_id text collate "C" not null,
  principal text collate "C" not null,
  state text collate "C" not null,
  began_at timestamptz not null,
  ended_at timestamptz,
  slots jsonb not null,
  children integer not null,
  failed integer not null,
  outcomes jsonb not null,
  definitions jsonb not null,
  reasons jsonb not null,
  calls jsonb not null -- by slot
) with (fillfactor = 70);
create index listed_turns_by_time on listed_turns (began_at, turn_id) where shown;
create index listed_turns_by_state on listed_turns (state, began_at, turn_id) where shown;
create index listed_turns_by_principal on listed_turns (principal, began_at, turn_id) where shown;
create index listed_turns_by_episode on listed_turns (episode_id, began_at, turn_id) where shown;
create index listed_turns_of_user on listed_turns (episode_id, principal, began_at) where shown;
create index listed_turns_by_day on listed_turns (day);

create table listed_labels ( -- of a turn: slots that it called, outcomes and reasons of its calls, definitions that its children run
  label text collate "C" not null, -- such as slot:shop
  began_at timestamptz not null,
  turn_id text collate "C" not null,
  primary key (label, began_at, turn_id)
);
create index listed_labels_of_turn on listed_labels (turn_id);

create function lists_labels(p_turn listed_turns) returns setof text language sql immutable as $$
  select 'slot:' || value from jsonb_array_elements_text(p_turn.slots) value
  union all select 'outcome:' || value from jsonb_array_elements_text(p_turn.outcomes) value
  union all select 'definition:' || value from jsonb_array_elements_text(p_turn.definitions) value
  union all select 'reason:' || value from jsonb_array_elements_text(p_turn.reasons) value
$$;

create table listed_episodes ( -- of a user, with the beginning of its newest turn
  episode_id text collate "C" not null,
  principal text collate "C" not null,
  last_at timestamptz not null,
  primary key (episode_id, principal)
);
create index listed_episodes_by_time on listed_episodes (last_at, episode_id, principal);

create index facts_erased on facts (turn_id) where texts is null; -- empty until a user's texts are erased

-- Says whose facts a sidecar may take for a while: its own, those it took before, and those of the dead that nobody takes.
create function lists_lease(p_projector text, p_for interval) returns setof text language plpgsql as $$
begin
  insert into lists_watermarks (instance_id)
    select instance_id from instance_heads head
      where not exists (select from lists_watermarks mark where mark.instance_id = head.instance_id)
    on conflict do nothing;
  return query update lists_watermarks mark set projector = p_projector, leased_until = clock_timestamp() + p_for
    where mark.instance_id = p_projector or not exists (
        select from lists_settled settled where settled.instance_id = mark.instance_id)
      and (mark.projector = p_projector or mark.leased_until < clock_timestamp() and not exists (
        select from instances where instance_id = mark.instance_id and lease_until >= clock_timestamp()))
    returning mark.instance_id;
end
$$;

-- Keeps rows with the watermarks that they lead to. Says whether it did: not if everything was forgotten since they were read,
-- if texts may have been erased since, or if another sidecar takes these facts now.
create function lists_keep(
  p_projector text, p_generation bigint, p_alterations bigint,
  p_instances text[], p_numbers bigint[], p_links bytea[], p_forgotten date[], p_gone text[],
  p_turns text[], p_versions integer[], p_days date[], p_shown boolean[], p_episodes text[], p_principals text[],
  p_states text[], p_began timestamptz[], p_ended timestamptz[], p_slots jsonb[], p_children integer[], p_failed integer[],
  p_outcomes jsonb[], p_definitions jsonb[], p_reasons jsonb[], p_calls jsonb[]
) returns boolean language plpgsql as $$
declare
  v_taken lists_taken;
  v_episodes text[];
  v_principals text[];
begin
  select * into strict v_taken from lists_taken for update;
  if v_taken.generation <> p_generation or v_taken.alterations > p_alterations or exists (
    select from unnest(p_instances, p_numbers) given (instance_id, number)
      left join lists_watermarks mark on mark.instance_id = given.instance_id
      where mark.projector is distinct from p_projector or mark.number > given.number
  ) then
    return false;
  end if;
  select coalesce(array_agg(episode_id), '{}'), coalesce(array_agg(principal), '{}') into v_episodes, v_principals
    from listed_turns where shown and (turn_id = any (p_turns) or turn_id = any (p_gone) or day = any (p_forgotten));
  delete from listed_labels using listed_turns turn
    where listed_labels.turn_id = turn.turn_id and (turn.turn_id = any (p_gone) or turn.day = any (p_forgotten));
  delete from listed_turns where turn_id = any (p_gone) or day = any (p_forgotten);
  insert into listed_turns as kept
    select * from unnest(p_turns, p_versions, p_days, p_shown, p_episodes, p_principals, p_states, p_began, p_ended, p_slots,
      p_children, p_failed, p_outcomes, p_definitions, p_reasons, p_calls)
    on conflict (turn_id) do update set version = excluded.version, shown = excluded.shown,
      episode_id = excluded.episode_id, principal = excluded.principal, state = excluded.state,
      began_at = excluded.began_at, ended_at = excluded.ended_at, slots = excluded.slots, children = excluded.children,
      failed = excluded.failed, outcomes = excluded.outcomes, definitions = excluded.definitions,
      reasons = excluded.reasons, calls = excluded.calls
    where kept.version <= excluded.version;
  delete from listed_labels using listed_turns turn
    where listed_labels.turn_id = any (p_turns) and turn.turn_id = listed_labels.turn_id
      and (turn.began_at <> listed_labels.began_at or listed_labels.label not in (select lists_labels(turn)));
  insert into listed_labels
    select lists_labels(turn), began_at, turn_id from listed_turns turn where turn_id = any (p_turns) and shown
    on conflict do nothing;
  delete from listed_episodes using unnest(v_episodes, v_principals) was (episode_id, principal)
    where listed_episodes.episode_id = was.episode_id and listed_episodes.principal = was.principal;
  insert into listed_episodes
    select used.*, newest.began_at from (
      select * from unnest(v_episodes, v_principals) union
      select * from unnest(p_episodes, p_principals)
    ) used (episode_id, principal) cross join lateral (
      select began_at from listed_turns turn
        where shown and turn.episode_id = used.episode_id and turn.principal = used.principal
        order by began_at desc limit 1
    ) newest
    on conflict (episode_id, principal) do update set last_at = excluded.last_at;
  update lists_watermarks mark set number = given.number, link = given.link
    from unnest(p_instances, p_numbers, p_links) given (instance_id, number, link)
    where mark.instance_id = given.instance_id and mark.number <> given.number;
  update lists_taken set alterations = p_alterations;
  return true;
end
$$;

create function lists_clear() returns void language sql as $$
  select from lists_taken for update;
  delete from listed_turns;
  delete from listed_labels;
  delete from listed_episodes;
  update lists_watermarks set number = 0, link = '';
  update lists_taken set generation = generation + 1, alterations = 0;
$$;

-- Forgets instances that have been dead for an hour and have nothing on record: they never appended, or retention has removed
-- all of it. The number is compared again after a wait, so that one that appends at this moment is kept.
create function journal_forget_instances() returns void language sql security definer
  set search_path from current
as $$
  with empty as materialized (
    select head.instance_id, head.number from instance_heads head join instances dead using (instance_id)
      where dead.lease_until < clock_timestamp() - interval '1 hour'
        and not exists (select from roots where roots.instance_id = head.instance_id)
  )
  delete from instance_heads head using empty where head.instance_id = empty.instance_id and head.number = empty.number;
  delete from instances dead where lease_until < clock_timestamp() - interval '1 hour'
    and not exists (select from instance_heads head where head.instance_id = dead.instance_id);
  delete from lists_watermarks mark
    where not exists (select from instance_heads head where head.instance_id = mark.instance_id);
$$;
revoke execute on function journal_forget_instances() from public;
