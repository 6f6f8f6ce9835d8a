-- Conversations, each layer in a table of its own, beside the record or in a database of their own. A turn's rows are
-- written once and never changed; an episode's row holds its summary and what is known of its size, and is locked by
-- whoever adds to the episode, so that `turn_no` rises in the order in which turns are kept.

create table history_episodes (
  episode_no bigint generated always as identity primary key,
  principal text collate "C" not null,
  episode_id text collate "C" not null,
  kept bigint not null default 0,
  turns bigint not null default 0,
  tokens bigint not null default 0,
  last_at timestamptz not null,
  summary_revision integer not null default 0,
  summary_text text collate "C" not null default '',
  summary_up_to text collate "C" not null default '',
  summary_at timestamptz,
  unique (principal, episode_id)
);
create index history_episodes_by_age on history_episodes (last_at);

create table history_turns (
  turn_no bigint generated always as identity primary key,
  episode_no bigint not null references history_episodes on delete cascade,
  turn_id text collate "C" not null,
  ended_at timestamptz not null,
  user_message text collate "C" not null,
  narration text collate "C" not null,
  tokens bigint not null,
  unique (episode_no, turn_id)
);
create index history_turns_of_episode on history_turns (episode_no, turn_no);

create table history_answers (
  turn_no bigint not null references history_turns on delete cascade,
  place integer not null,
  episode_no bigint not null,
  sub_agent_id text collate "C" not null,
  call_id text collate "C" not null,
  asked text collate "C" not null,
  narration text collate "C" not null,
  primary key (turn_no, place)
);
create index history_answers_of_one on history_answers (episode_no, sub_agent_id, turn_no, place);

create table history_tool_messages (
  turn_no bigint not null references history_turns on delete cascade,
  place integer not null,
  turn_id text collate "C" not null,
  sub_agent_id text collate "C" not null,
  call_id text collate "C" not null,
  position integer not null,
  name text collate "C" not null,
  tool_input text collate "C" not null,
  component_data text collate "C" not null,
  primary key (turn_no, place)
);
create index history_tool_messages_by_turn on history_tool_messages (turn_id);
