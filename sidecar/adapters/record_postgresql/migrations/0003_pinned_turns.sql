-- How many open turns each replica had bound to each definition: JSON, counts by digest. A replica of an earlier release,
-- beside which this is applied, says nothing of it.
alter table rollout_replicas add column pinned text collate "C" not null default '{}';
