-- Reads that need one state of several tables are one statement each; retention is two functions.

create function record_alive(p_owner text, p_asking text) returns boolean language sql stable as $$
  select p_owner = p_asking or exists (
    select from instances where instance_id = p_owner and lease_until >= clock_timestamp())
$$;

-- The calls that have an outcome, each with the revision that stands.
create function record_outcomes(p_turn text, p_dispatch text) returns setof text language sql stable as $$
  select distinct on (call_id) outcome_json from call_outcomes
  where turn_id = p_turn and dispatch_id = p_dispatch order by call_id, revision desc
$$;

create function record_events(p_child text) returns json language sql stable as $$
  select coalesce(json_agg(event order by sequence), '[]') from sub_agent_events event where child_id = p_child
$$;

create function record_child(p_child sub_agents) returns json language sql stable as $$
  select json_build_object('opened', row_to_json(p_child), 'events', record_events(p_child.child_id))
$$;

-- All of a turn; null if nothing of it is there.
create function record_turn(p_turn text, p_asking text) returns json language sql stable as $$
  select json_build_object(
      'dispatches', (
        select coalesce(json_agg(json_build_object(
            'opened', row_to_json(dispatch), 'owner', owned.instance_id, 'epoch', owned.epoch,
            'owner_alive', record_alive(owned.instance_id, p_asking),
            'outcomes', array(select record_outcomes(dispatch.turn_id, dispatch.dispatch_id))
          ) order by dispatch.position), '[]')
        from dispatches dispatch
        cross join lateral (
          select instance_id, epoch from dispatch_owners owner
          where owner.turn_id = dispatch.turn_id and owner.dispatch_id = dispatch.dispatch_id
          order by epoch desc limit 1
        ) owned
        where dispatch.turn_id = p_turn),
      'children', (
        select coalesce(json_agg(record_child(child) order by child.position), '[]')
        from sub_agents child where child.turn_id = p_turn),
      'ended', (select row_to_json(ended) from turn_ends ended where ended.turn_id = p_turn),
      'routing', (select record_json from routing_records where turn_id = p_turn))
    where exists (select from turns where turn_id = p_turn)
$$;

-- One line of a list of turns; `slots` in order of their first step.
create function record_turn_row(p_turn turns) returns json language sql stable as $$
  select json_build_object(
      'turn_id', p_turn.turn_id, 'episode_id', p_turn.episode_id, 'principal', p_turn.principal,
      'state', case when p_turn.ended_at is null then 'open'
        when p_turn.close_reason = 'parent_lost' then 'lost' else 'ended' end,
      'began_at', p_turn.began_at, 'ended_at', p_turn.ended_at,
      'slots', array(
        select slot from sub_agents called where called.turn_id = p_turn.turn_id
        group by slot order by min(step_idx)),
      'children', count(child_id),
      'failed', count(*) filter (where exists (
        select from sub_agent_events event where event.child_id = child.child_id
          and event.name = 'agent.subagent_closed'
          and position('"final_status":"failed"' in event.details_json) > 0)))
  from (select 1) one left join sub_agents child on child.turn_id = p_turn.turn_id
$$;

-- Keeps markers, and removes what they cover; returns how many children are gone. The same marker again changes nothing.
create function record_purge(p_markers json) returns bigint language plpgsql security definer
  set search_path from current
as $$
declare
  v_marker retention_markers;
  v_there retention_markers;
  v_covered text[] := '{}';
  v_turns text[];
  v_gone bigint;
begin
  perform from instance_heads
    where instance_id in (select instance_id from json_populate_recordset(null::retention_markers, p_markers))
    order by instance_id for update;
  for v_marker in select * from json_populate_recordset(null::retention_markers, p_markers) loop
    select * into v_there from retention_markers
      where instance_id = v_marker.instance_id and number = v_marker.number;
    if found and v_there is not distinct from v_marker then
      continue;
    end if;
    if found or not exists (
      select from closed_children link where link.instance_id = v_marker.instance_id
        and link.number = v_marker.number and link.root = v_marker.root
    ) then
      perform record_conflict(v_marker.instance_id, 'the marker does not fit the running root');
    end if;
    insert into retention_markers select v_marker.*;
    v_covered := v_covered || array(
      select child_id from closed_children link
        where link.instance_id = v_marker.instance_id and link.number <= v_marker.number);
  end loop;
  select array_agg(distinct turn_id) into v_turns from sub_agents where child_id = any (v_covered);
  perform from turns where turn_id = any (v_turns) order by turn_id for update;
  perform set_config('sidecar.purging', 'on', true);
  delete from attempts where turn_id = any (v_turns) and child_id = any (v_covered);
  delete from sub_agent_events where child_id = any (v_covered);
  delete from sub_agents where child_id = any (v_covered);
  get diagnostics v_gone = row_count;
  perform record_forget(array(
    select turn_id from unnest(v_turns) turn_id
      where not exists (select from sub_agents child where child.turn_id = turn_id.turn_id)));
  delete from closed_children link using json_populate_recordset(null::retention_markers, p_markers) marker
    where link.instance_id = marker.instance_id and link.number <= marker.number;
  perform set_config('sidecar.purging', '', true);
  return v_gone;
end
$$;

-- Removes turns of which no child is left.
create function record_forget(p_turns text[]) returns void language plpgsql as $$
begin
  delete from attempts where turn_id = any (p_turns);
  delete from call_outcomes where turn_id = any (p_turns);
  delete from dispatch_owners where turn_id = any (p_turns);
  delete from dispatches where turn_id = any (p_turns);
  delete from turn_ends where turn_id = any (p_turns);
  delete from routing_records where turn_id = any (p_turns);
  delete from turns where turn_id = any (p_turns);
end
$$;

-- Removes what runners sent in attempts of turns that ended before; returns how many attempts.
create function record_purge_frames(p_before timestamptz) returns bigint language plpgsql security definer
  set search_path from current
as $$
declare
  v_gone bigint;
begin
  perform set_config('sidecar.purging', 'on', true);
  delete from attempts using turn_ends ended
    where ended.turn_id = attempts.turn_id and ended.ended_at < p_before;
  get diagnostics v_gone = row_count;
  perform set_config('sidecar.purging', '', true);
  return v_gone;
end
$$;

revoke execute on function record_purge(json), record_purge_frames(timestamptz), record_forget(text[]) from public;
