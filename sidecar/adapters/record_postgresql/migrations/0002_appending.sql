-- `record_append` is one statement a commit. Each kind of record has a function that takes all its rows at once, as JSON
-- with the names of the columns, in order. The rules are in sidecar/operations/record/ports.py; SR409 is a conflict,
-- with the id of the record as its detail. A unique key that is taken (the step of another child) is one, too.

create function record_conflict(p_id text, p_why text) returns void language plpgsql as $$
begin
  raise exception '%', p_why using errcode = 'SR409', detail = p_id;
end
$$;

create function record_owner(p_turn text, p_dispatch text) returns text language sql stable as $$
  select instance_id from dispatch_owners where turn_id = p_turn and dispatch_id = p_dispatch
  order by epoch desc limit 1
$$;

create function record_append_dispatches(p_instance text, p_given json) returns void language plpgsql as $$
declare
  v_given dispatches;
  v_there dispatches;
begin
  for v_given in select * from json_populate_recordset(null::dispatches, p_given) loop
    select * into v_there from dispatches where turn_id = v_given.turn_id and dispatch_id = v_given.dispatch_id;
    if found then
      v_given.position := v_there.position;
      if v_there is distinct from v_given then
        perform record_conflict(v_given.turn_id || '/' || v_given.dispatch_id, 'is on record with other contents');
      end if;
      continue;
    end if;
    if exists (select from turn_ends where turn_id = v_given.turn_id) then
      perform record_conflict(v_given.turn_id || '/' || v_given.dispatch_id, 'came after the end of its turn');
    end if;
    v_given.position := (select count(*) from dispatches where turn_id = v_given.turn_id);
    insert into dispatches select v_given.*;
    insert into dispatch_owners
      values (v_given.turn_id, v_given.dispatch_id, 0, p_instance, v_given.opened_at);
    update turns set
      episode_id = case when began_at <= v_given.opened_at then episode_id else v_given.episode_id end,
      principal = case when began_at <= v_given.opened_at then principal else v_given.principal end,
      began_at = least(began_at, v_given.opened_at),
      expires_at = least(expires_at, v_given.turn_expires_at)
      where turn_id = v_given.turn_id;
  end loop;
end
$$;

create function record_append_owners(p_instance text, p_given json) returns void language plpgsql as $$
declare
  v_given dispatch_owners;
  v_there dispatch_owners;
  v_newest integer;
  v_id text;
begin
  for v_given in select * from json_populate_recordset(null::dispatch_owners, p_given) loop
    v_given.instance_id := p_instance;
    v_id := v_given.turn_id || '/' || v_given.dispatch_id || '/owner/' || v_given.epoch;
    select * into v_there from dispatch_owners
      where turn_id = v_given.turn_id and dispatch_id = v_given.dispatch_id and epoch = v_given.epoch and epoch > 0;
    if found then
      if v_there is distinct from v_given then
        perform record_conflict(v_id, 'was taken by another sidecar, or at another time');
      end if;
      continue;
    end if;
    select max(epoch) into v_newest from dispatch_owners
      where turn_id = v_given.turn_id and dispatch_id = v_given.dispatch_id;
    if v_newest is null or v_given.epoch <> v_newest + 1 then
      perform record_conflict(v_id, 'is not the next owner of a dispatch that is on record');
    end if;
    insert into dispatch_owners select v_given.*;
  end loop;
end
$$;

create function record_append_children(p_instance text, p_given json) returns void language plpgsql as $$
declare
  v_new sub_agents[];
  v_wrong text;
begin
  select array_agg(given order by ordinal) filter (where kept.child_id is null),
      min(kept.child_id) filter (where (kept.turn_id, kept.episode_id, kept.dispatch_id, kept.call_id, kept.slot,
        kept.step_idx, kept.context_json, kept.opened_at, kept.parent_child_id) is distinct from (given.turn_id,
        given.episode_id, given.dispatch_id, given.call_id, given.slot, given.step_idx, given.context_json,
        given.opened_at, given.parent_child_id) and kept.child_id is not null)
    into v_new, v_wrong
    from json_array_elements(p_given) with ordinality as each (element, ordinal)
    cross join lateral json_populate_record(null::sub_agents, element) as given
    left join sub_agents kept on kept.child_id = given.child_id;
  if v_wrong is not null then
    perform record_conflict(v_wrong, 'is on record with other contents');
  end if;
  select child_id into v_wrong from unnest(v_new) new
    where (select owner.instance_id from dispatch_owners owner
        where owner.turn_id = new.turn_id and owner.dispatch_id = new.dispatch_id
        order by owner.epoch desc limit 1) is distinct from p_instance limit 1;
  if found then
    perform record_conflict(v_wrong, 'is of a dispatch that belongs to another sidecar, or is not on record');
  end if;
  select child_id into v_wrong from unnest(v_new) new
    where exists (select from turn_ends ended where ended.turn_id = new.turn_id) limit 1;
  if found then
    perform record_conflict(v_wrong, 'came after the end of its turn');
  end if;
  insert into sub_agents select new.child_id,
      (select count(*) from sub_agents kept where kept.turn_id = new.turn_id)
        + row_number() over (partition by new.turn_id order by new.ordinality),
      new.turn_id, new.episode_id, new.dispatch_id, new.call_id, new.slot, new.step_idx, new.context_json,
      new.opened_at, new.parent_child_id, new.opening_link
    from unnest(v_new) with ordinality new;
end
$$;

create function record_append_events(p_instance text, p_given json) returns void language plpgsql as $$
declare
  v_new sub_agent_events[];
  v_wrong text;
begin
  select array_agg(row(given.event_id, given.child_id, given.run_id, given.sequence, given.name, given.time,
        given.actor, given.summary, given.details_json, given.previous_link, given.link)::sub_agent_events
        order by given.ordinality) filter (where kept.event_id is null),
      min(kept.event_id) filter (where kept.event_id is not null and kept is distinct from row(given.event_id,
        given.child_id, given.run_id, given.sequence, given.name, given.time, given.actor, given.summary,
        given.details_json, given.previous_link, given.link)::sub_agent_events)
    into v_new, v_wrong
    from json_populate_recordset(null::sub_agent_events, p_given) with ordinality given
    left join sub_agent_events kept on kept.event_id = given.event_id;
  if v_wrong is not null then
    perform record_conflict(v_wrong, 'is on record with other contents');
  end if;
  if v_new is null then
    return;
  end if;
  select new.event_id into v_wrong
    from (
      select event.*, row_number() over later as place, lag(link) over later as link_before,
          lag(name) over later as name_before
        from unnest(v_new) with ordinality event
        window later as (partition by child_id order by ordinality)
    ) new
    left join sub_agents child on child.child_id = new.child_id and child.turn_id = new.run_id
    left join lateral (
      select sequence, link, name from sub_agent_events kept where kept.child_id = new.child_id
      order by sequence desc limit 1
    ) head on true
    where child.child_id is null
      or (select owner.instance_id from dispatch_owners owner
        where owner.turn_id = child.turn_id and owner.dispatch_id = child.dispatch_id
        order by owner.epoch desc limit 1) is distinct from p_instance
      or new.sequence is distinct from coalesce(head.sequence, 0) + new.place
      or new.previous_link is distinct from coalesce(new.link_before, head.link, child.opening_link)
      or coalesce(new.name_before, head.name, '') = 'agent.subagent_closed'
    limit 1;
  if found then
    perform record_conflict(v_wrong, 'does not follow the last event of its child, or is not of its owner');
  end if;
  insert into sub_agent_events select * from unnest(v_new);
  perform record_close(p_instance, v_new);
end
$$;

-- The running root, as `closed_root` in sidecar/core/executing/chain.py.
create function record_close(p_instance text, p_new sub_agent_events[]) returns void language plpgsql as $$
declare
  v_event record;
  v_number bigint;
  v_root text;
begin
  for v_event in select child_id, link from unnest(p_new) with ordinality
    where name = 'agent.subagent_closed' order by ordinality
  loop
    if v_root is null then
      select closed_number, closed_root into v_number, v_root from instance_heads where instance_id = p_instance;
    end if;
    v_number := v_number + 1;
    v_root := encode(sha256(convert_to(concat_ws(chr(31), 'root', v_root, v_event.child_id, v_event.link), 'UTF8')),
      'hex');
    insert into closed_children values (p_instance, v_number, v_event.child_id, v_event.link, v_root);
  end loop;
  if v_root is not null then
    update instance_heads set closed_number = v_number, closed_root = v_root where instance_id = p_instance;
  end if;
end
$$;

create function record_append_attempts(p_instance text, p_given json) returns void language plpgsql as $$
declare
  v_new attempts[];
  v_wrong text;
begin
  select array_agg(given) filter (where kept.attempt_id is null),
      min(given.attempt_id) filter (where case when kept.attempt_id is null
        then (select owner.instance_id from dispatch_owners owner
        where owner.turn_id = given.turn_id and owner.dispatch_id = given.dispatch_id
        order by owner.epoch desc limit 1) is distinct from p_instance
        else kept is distinct from given end)
    into v_new, v_wrong
    from json_populate_recordset(null::attempts, p_given) given
    left join attempts kept on kept.attempt_id = given.attempt_id;
  if v_wrong is not null then
    perform record_conflict(v_wrong || '/frames', 'is on record with other contents, or not of its owner');
  end if;
  insert into attempts select * from unnest(v_new);
end
$$;

create function record_append_outcomes(p_instance text, p_given json) returns void language plpgsql as $$
declare
  v_new call_outcomes[];
  v_wrong text;
begin
  select array_agg(given) filter (where kept.turn_id is null),
      min(concat_ws('/', given.turn_id, given.dispatch_id, given.call_id, given.revision)) filter (where case
        when kept.turn_id is null then (select owner.instance_id from dispatch_owners owner
        where owner.turn_id = given.turn_id and owner.dispatch_id = given.dispatch_id
        order by owner.epoch desc limit 1) is distinct from p_instance
        else kept is distinct from given end)
    into v_new, v_wrong
    from json_populate_recordset(null::call_outcomes, p_given) given
    left join call_outcomes kept on kept.turn_id = given.turn_id and kept.dispatch_id = given.dispatch_id
      and kept.call_id = given.call_id and kept.revision = given.revision;
  if v_wrong is not null then
    perform record_conflict(v_wrong, 'is on record with other contents, or not of its owner');
  end if;
  insert into call_outcomes select * from unnest(v_new);
end
$$;

create function record_append_ends(p_given json) returns void language plpgsql as $$
declare
  v_given turn_ends;
  v_there turn_ends;
begin
  for v_given in select * from json_populate_recordset(null::turn_ends, p_given) loop
    select * into v_there from turn_ends where turn_id = v_given.turn_id;
    if found then
      if v_there is distinct from v_given then
        perform record_conflict(v_given.turn_id || '/end', 'is on record with other contents');
      end if;
      continue;
    end if;
    if exists (
      select from sub_agents child where child.turn_id = v_given.turn_id and not exists (
        select from sub_agent_events event
          where event.child_id = child.child_id and event.name = 'agent.subagent_closed')
    ) then
      perform record_conflict(v_given.turn_id || '/end', 'came while a child of the turn is not closed');
    end if;
    insert into turn_ends select v_given.*;
    update turns set
      episode_id = coalesce(episode_id, v_given.episode_id), principal = coalesce(principal, v_given.principal),
      began_at = coalesce(began_at, v_given.ended_at), ended_at = v_given.ended_at, close_reason = v_given.close_reason
      where turn_id = v_given.turn_id;
  end loop;
end
$$;

create function record_append_routing(p_given json) returns void language plpgsql as $$
declare
  v_wrong text;
begin
  select given.turn_id into v_wrong from json_populate_recordset(null::routing_records, p_given) given
    join routing_records kept on kept.turn_id = given.turn_id where kept is distinct from given limit 1;
  if found then
    perform record_conflict(v_wrong || '/routing', 'is on record with other contents');
  end if;
  insert into routing_records select * from json_populate_recordset(null::routing_records, p_given)
    on conflict do nothing;
end
$$;

-- Appends a group: of each kind in turn all rows that may be taken at once; a kind may come more than once.
-- Plans for small inputs and large tables, made once: statistics of an empty table would give a scan of all of it.
create function record_append(p_instance text, p_turns text[], p_kinds text[], p_rows text[]) returns void
  language plpgsql
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
  set plan_cache_mode = force_generic_plan set jit = off
as $$
declare
  v_at integer;
begin
  update instance_heads set version = version + 1 where instance_id = p_instance;
  if not found then
    insert into instance_heads (instance_id, version) values (p_instance, 1);
  end if;
  insert into turns (turn_id) select turn_id from unnest(p_turns) turn_id order by turn_id collate "C"
    on conflict do nothing;
  perform from turns where turn_id = any (p_turns) order by turn_id for update;
  for v_at in 1 .. cardinality(p_kinds) loop
    case p_kinds[v_at]
      when 'events' then perform record_append_events(p_instance, p_rows[v_at]::json);
      when 'attempts' then perform record_append_attempts(p_instance, p_rows[v_at]::json);
      when 'outcomes' then perform record_append_outcomes(p_instance, p_rows[v_at]::json);
      when 'dispatches' then perform record_append_dispatches(p_instance, p_rows[v_at]::json);
      when 'children' then perform record_append_children(p_instance, p_rows[v_at]::json);
      when 'ends' then perform record_append_ends(p_rows[v_at]::json);
      when 'routing' then perform record_append_routing(p_rows[v_at]::json);
      when 'owners' then perform record_append_owners(p_instance, p_rows[v_at]::json);
    end case;
  end loop;
end
$$;
