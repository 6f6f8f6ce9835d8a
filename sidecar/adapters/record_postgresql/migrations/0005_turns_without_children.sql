-- Removes the oldest turns that ended before and have no child; returns how many. No running root speaks of them.
create function record_purge_childless(p_before timestamptz) returns bigint language plpgsql security definer
  set search_path from current
as $$
declare
  v_turns text[];
begin
  v_turns := array(
    select turn_id from turns
      where ended_at < p_before and not exists (select from sub_agents child where child.turn_id = turns.turn_id)
      order by ended_at limit 500 for update);
  perform set_config('sidecar.purging', 'on', true);
  perform record_forget(v_turns);
  perform set_config('sidecar.purging', '', true);
  return cardinality(v_turns);
end
$$;

create index turns_ended on turns (ended_at) where ended_at is not null;

revoke execute on function record_purge_childless(timestamptz) from public;
