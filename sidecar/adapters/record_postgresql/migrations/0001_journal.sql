-- The journal: see docs/journal.md. Ids are compared byte for byte, whatever the database's collation. The rules of what may
-- be appended are not here: sidecar/core/journal/rules.py has decided, and what is here keeps it, or says that the turn has
-- moved on. Every statement names turns, so that tables can be distributed by `turn_id`.

-- Who appends. Times are the database's own.
create table instances (
  instance_id text collate "C" primary key,
  started_at timestamptz not null,
  lease_until timestamptz not null
) with (fillfactor = 50);

-- The number of the newest fact of each instance. The row is locked first by each append of the instance: one that hangs and
-- its repetition never run side by side, and a renewal of the lease waits for neither.
create table instance_heads (
  instance_id text collate "C" primary key,
  number bigint not null default 0
) with (fillfactor = 50);

-- One row a turn, derived from its facts: what appends compare, and what is looked for while turns run.
create table turn_heads (
  turn_id text collate "C" primary key,
  day date not null, -- of its first fact, in UTC
  version integer not null, -- how many facts it has
  began_at timestamptz not null,
  episode_id text collate "C" not null,
  expires_at timestamptz not null,
  ended_at timestamptz,
  called boolean not null, -- it has ended, and called a sub-agent
  unsettled jsonb -- dispatches with calls that have no outcome, each with its owner, in order; in no index: it changes often
) with (fillfactor = 70);
create index turn_heads_open on turn_heads (expires_at) where ended_at is null;
create index turn_heads_that_called on turn_heads (episode_id, ended_at desc, turn_id desc) where called;
create index turn_heads_by_day on turn_heads (day, ended_at);

create table facts (
  day date not null, -- of the turn: a turn is whole in one partition
  turn_id text collate "C" not null,
  version integer not null, -- its place in the turn, from 1
  instance_id text collate "C" not null,
  number bigint not null, -- its place among the facts of the instance, without gaps
  at timestamptz not null,
  body bytea not null,
  texts bytea, -- null once they were erased, like the salt; the digest is there from then on
  salt bytea,
  texts_digest bytea,
  link bytea not null,
  erased_under text collate "C", -- id of the marker under which the texts were erased
  primary key (turn_id, version, day)
) partition by list (day);
create index facts_of_instance on facts (instance_id, number);

create table attempt_frames ( -- what runners sent, for replay
  day date not null,
  turn_id text collate "C" not null,
  attempt_id text collate "C" not null,
  step integer not null,
  number integer not null,
  frames bytea not null,
  primary key (turn_id, attempt_id, day)
) partition by list (day);

-- Derived from facts: where the running root of an instance and a day stands. The number of its newest fact says which days
-- have anything to read for lists.
create table roots (
  instance_id text collate "C" not null,
  day date not null,
  number bigint not null,
  newest bigint not null,
  root bytea not null,
  primary key (instance_id, day)
) with (fillfactor = 50);

create table markers ( -- of what was removed, signed
  instance_id text collate "C" not null,
  day date not null,
  body text collate "C" not null,
  primary key (instance_id, day)
);

create table erasures ( -- markers of erased texts, signed; they name nobody
  marker_id text collate "C" primary key,
  body text collate "C" not null
);

-- Nothing is changed; nothing is removed but by functions of retention, which say so for their transaction.
create function record_stays() returns trigger language plpgsql as $$
begin
  if current_setting('sidecar.purging', true) = (case tg_op when 'UPDATE' then 'texts' else 'on' end) then
    return null;
  end if;
  raise exception '% is append-only: % is refused', tg_table_name, tg_op using errcode = 'SR403';
end
$$;
create trigger stays before update or delete or truncate on facts for each statement execute function record_stays();
create trigger stays before update or delete or truncate on attempt_frames
  for each statement execute function record_stays();
create trigger stays before update or delete or truncate on markers for each statement execute function record_stays();
create trigger stays before update or delete or truncate on erasures for each statement execute function record_stays();

create function journal_partition_name(p_table text, p_day date) returns text language sql immutable as $$
  select p_table || to_char(p_day, '_YYYYMMDD')
$$;

-- Makes the partitions of a day, if they are not there. A partition that is attached takes no lock that appends wait for;
-- one that is created as such would, and so would any if there were a default partition.
create function journal_partition(p_day date) returns void language plpgsql security definer
  set search_path from current
as $$
declare
  v_table text;
  v_name text;
begin
  foreach v_table in array array['facts', 'attempt_frames'] loop
    v_name := journal_partition_name(v_table, p_day);
    continue when to_regclass(v_name) is not null;
    execute format('lock table %I in share update exclusive mode', v_table); -- one after the other
    continue when to_regclass(v_name) is not null;
    execute format('create table %I (like %I including all)', v_name, v_table);
    execute format('create trigger stays before update or delete or truncate on %I'
      ' for each statement execute function record_stays()', v_name);
    execute format('alter table %I attach partition %I for values in (%L)', v_table, v_name, p_day);
  end loop;
end
$$;

-- `rooted` in sidecar/core/journal/chain.py, over the links of some facts, in their order.
create function journal_rooted_step(p_root bytea, p_before bytea, p_link bytea) returns bytea
  language sql immutable parallel safe
as $$
  select sha256('\x726f6f741f'::bytea || coalesce(p_root, p_before) || p_link)
$$;
create aggregate journal_rooted(p_before bytea, p_link bytea) (sfunc = journal_rooted_step, stype = bytea);

-- Keeps what was decided about turns, each of which is given once, in order of id, so that two sidecars do not wait for each
-- other. Says of each turn whether it was kept: one that was not has more facts than it was decided on, or fewer.
--
-- A head is compared and set by one statement: after a wait, the comparison is made again on the row as it is then. What a
-- statement reads of another row after it has waited for a lock would still be as it was before.
create function journal_append(
  p_instance text,
  p_turns text[], p_days date[], p_before integer[], p_after integer[], p_began timestamptz[], p_episodes text[],
  p_expires timestamptz[], p_ended timestamptz[], p_called boolean[], p_unsettled jsonb[],
  p_fact_turns integer[], p_versions integer[], p_at timestamptz[], p_bodies bytea[], p_texts bytea[], p_salts bytea[],
  p_digests bytea[], p_links bytea[],
  p_frame_turns integer[], p_attempts text[], p_steps integer[], p_numbers integer[], p_frames bytea[]
) returns boolean[] language plpgsql
  set enable_seqscan = off set plan_cache_mode = force_generic_plan set jit = off -- for large tables, whatever was there first
as $$
declare
  v_number bigint;
  v_kept boolean[] := array_fill(false, array[cardinality(p_turns)]);
begin
  select number into strict v_number from instance_heads where instance_id = p_instance for update;
  for v_at in 1 .. cardinality(p_turns) loop
    if p_before[v_at] = 0 then
      insert into turn_heads (turn_id, day, version, began_at, episode_id, expires_at, ended_at, called, unsettled)
        values (p_turns[v_at], p_days[v_at], p_after[v_at], p_began[v_at], p_episodes[v_at], p_expires[v_at], p_ended[v_at],
          p_called[v_at], p_unsettled[v_at])
        on conflict do nothing;
    else
      update turn_heads set version = p_after[v_at], unsettled = p_unsettled[v_at],
          expires_at = coalesce(p_expires[v_at], expires_at), ended_at = coalesce(p_ended[v_at], ended_at),
          called = coalesce(p_called[v_at], called)
        where turn_id = p_turns[v_at] and version = p_before[v_at];
    end if;
    v_kept[v_at] := found;
  end loop;
  with numbered as materialized (
    select v_number + row_number() over (order by place) as number, p_days[turn] as day, p_turns[turn] as turn_id, fact.*
      from unnest(p_fact_turns, p_versions, p_at, p_bodies, p_texts, p_salts, p_digests, p_links)
        with ordinality as fact (turn, version, at, body, texts, salt, texts_digest, link, place)
      where v_kept[turn]
  ), written as (
    insert into facts (day, turn_id, version, instance_id, number, at, body, texts, salt, texts_digest, link)
    select day, turn_id, version, p_instance, number, at, body, texts, salt, texts_digest, link from numbered
  ), framed as (
    insert into attempt_frames (day, turn_id, attempt_id, step, number, frames)
    select p_days[turn], p_turns[turn], attempt_id, step, number, frames
      from unnest(p_frame_turns, p_attempts, p_steps, p_numbers, p_frames) as attempt (turn, attempt_id, step, number, frames)
      where v_kept[turn]
    on conflict do nothing
  ), rooted as (
    insert into roots as root (instance_id, day, number, newest, root)
    select p_instance, day, count(*), max(number), journal_rooted('', link order by number) from numbered group by day
    on conflict (instance_id, day) do update set number = root.number + excluded.number, newest = excluded.newest,
      root = (select journal_rooted(root.root, link order by number) from numbered where day = excluded.day)
  )
  update instance_heads set number = v_number + (select count(*) from numbered)
    where instance_id = p_instance and exists (select from numbered);
  return v_kept;
end
$$;

-- Keeps markers, and removes the days that they name; returns how many turns are gone. What appends to these days waits;
-- what appends to others waits for the last moment only, in which the partitions go, and for 200 ms at most.
create function journal_remove(p_markers json) returns bigint language plpgsql security definer
  set search_path from current set lock_timeout = '200ms'
as $$
declare
  v_days date[] := array(select distinct (each ->> 'partition')::date from json_array_elements(p_markers) each);
  v_partitions text[] := array(
    select journal_partition_name(parent, day) from unnest(v_days) day, unnest(array['facts', 'attempt_frames']) parent
      where to_regclass(journal_partition_name(parent, day)) is not null order by 1);
  v_name text;
  v_gone bigint;
begin
  foreach v_name in array v_partitions loop
    execute format('lock table %I in access exclusive mode', v_name);
  end loop;
  if exists (
    with given as (
      select each ->> 'instance' as instance_id, (each ->> 'partition')::date as day, (each ->> 'number')::bigint as number,
        decode(each ->> 'root', 'hex') as root from json_array_elements(p_markers) each
    ), there as (select instance_id, day, number, root from roots where day = any (v_days))
    (table given except table there) union all (table there except table given)
  ) then
    raise exception 'the markers do not fit the running roots' using errcode = 'SR409';
  end if;
  insert into markers
    select each ->> 'instance', (each ->> 'partition')::date, each::text from json_array_elements(p_markers) each;
  delete from roots where day = any (v_days);
  delete from turn_heads where day = any (v_days);
  get diagnostics v_gone = row_count;
  foreach v_name in array v_partitions loop
    execute format('drop table %I', v_name);
  end loop;
  return v_gone;
end
$$;

-- Each turn of a day had ended before.
create function journal_is_over(p_day date, p_before timestamptz) returns boolean language sql stable as $$
  select not exists (select from turn_heads where day = p_day and ended_at is null)
    and not exists (select from turn_heads where day = p_day and ended_at >= p_before)
$$;

-- Removes what runners sent in turns that ended before; returns how many attempts. Whole days go at once.
create function journal_remove_frames(p_before timestamptz) returns bigint language plpgsql security definer
  set search_path from current
as $$
declare
  v_day record;
  v_some bigint;
  v_gone bigint := 0;
begin
  perform set_config('sidecar.purging', 'on', true);
  for v_day in
    select day, journal_partition_name('attempt_frames', day) as partition, journal_is_over(day, p_before) as whole
      from (select distinct day from roots) known order by day
  loop
    if v_day.whole then
      execute format('select count(*) from %I', v_day.partition) into v_some;
      if v_some > 0 then
        execute format('truncate %I', v_day.partition);
      end if;
    else
      delete from attempt_frames frames using turn_heads head
        where frames.day = v_day.day and head.turn_id = frames.turn_id and head.ended_at < p_before;
      get diagnostics v_some = row_count;
    end if;
    v_gone := v_gone + v_some;
  end loop;
  perform set_config('sidecar.purging', '', true);
  return v_gone;
end
$$;

-- Keeps the marker of an erasure, and takes the texts of facts, whose digests are given, and the frames of their turns;
-- returns of how many facts. Every other column of a fact stays. `facts` holds turn, version, link and digest of each.
create function journal_erase(p_erasure json) returns bigint language plpgsql security definer
  set search_path from current
as $$
declare
  v_marker json := p_erasure -> 'marker';
  v_day date := (v_marker ->> 'partition')::date;
  v_changed bigint;
begin
  perform set_config('sidecar.purging', 'texts', true);
  update facts fact
    set texts = null, salt = null, texts_digest = decode(given ->> 3, 'hex'), erased_under = v_marker ->> 'marker_id'
    from json_array_elements(p_erasure -> 'facts') given
    where fact.day = v_day and fact.turn_id = given ->> 0 and fact.version = (given ->> 1)::integer
      and fact.link = decode(given ->> 2, 'hex') and fact.texts is not null;
  get diagnostics v_changed = row_count;
  if v_changed <> json_array_length(p_erasure -> 'facts') then
    raise exception 'a fact that is to be erased is not there, or has no texts' using errcode = 'SR409';
  end if;
  perform set_config('sidecar.purging', 'on', true);
  delete from attempt_frames
    where day = v_day and turn_id in (select given ->> 0 from json_array_elements(p_erasure -> 'facts') given);
  perform set_config('sidecar.purging', '', true);
  insert into erasures values (v_marker ->> 'marker_id', v_marker::text);
  return v_changed;
end
$$;

revoke execute on function journal_partition(date), journal_remove(json), journal_remove_frames(timestamptz),
  journal_erase(json) from public;
