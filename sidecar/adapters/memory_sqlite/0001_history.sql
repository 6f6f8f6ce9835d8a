-- Conversations, each layer in a table of its own. A turn's rows are written once and never changed; an episode's row
-- holds its summary and what is known of its size. Times are
-- microseconds since 1970.

CREATE TABLE history_episodes (
    episode_no INTEGER PRIMARY KEY,
    principal TEXT NOT NULL,
    episode_id TEXT NOT NULL,
    kept INTEGER NOT NULL DEFAULT 0,    -- turns in all
    turns INTEGER NOT NULL DEFAULT 0,   -- after the summary
    tokens INTEGER NOT NULL DEFAULT 0,  -- of the summary and the turns after it, estimated
    last_at INTEGER NOT NULL,
    summary_revision INTEGER NOT NULL DEFAULT 0,
    summary_text TEXT NOT NULL DEFAULT '',
    summary_up_to TEXT NOT NULL DEFAULT '',
    summary_at INTEGER,
    UNIQUE (principal, episode_id)
) STRICT;

CREATE INDEX history_episodes_by_age ON history_episodes (last_at);

CREATE TABLE history_turns (
    turn_no INTEGER PRIMARY KEY,        -- rises with each turn kept
    episode_no INTEGER NOT NULL REFERENCES history_episodes ON DELETE CASCADE,
    turn_id TEXT NOT NULL,
    ended_at INTEGER NOT NULL,
    user_message TEXT NOT NULL,
    narration TEXT NOT NULL,
    tokens INTEGER NOT NULL,
    UNIQUE (episode_no, turn_id)
) STRICT;

CREATE TABLE history_answers (
    turn_no INTEGER NOT NULL REFERENCES history_turns ON DELETE CASCADE,
    place INTEGER NOT NULL,
    episode_no INTEGER NOT NULL,
    sub_agent_id TEXT NOT NULL,
    call_id TEXT NOT NULL,
    asked TEXT NOT NULL,
    narration TEXT NOT NULL,
    PRIMARY KEY (turn_no, place)
) STRICT, WITHOUT ROWID;

CREATE INDEX history_answers_of_one ON history_answers (episode_no, sub_agent_id, turn_no, place);

CREATE TABLE history_tool_messages (
    turn_no INTEGER NOT NULL REFERENCES history_turns ON DELETE CASCADE,
    place INTEGER NOT NULL,
    turn_id TEXT NOT NULL,
    sub_agent_id TEXT NOT NULL,         -- empty: nobody's
    call_id TEXT NOT NULL,
    position INTEGER NOT NULL,
    name TEXT NOT NULL,
    tool_input TEXT NOT NULL,
    component_data TEXT NOT NULL,
    PRIMARY KEY (turn_no, place)
) STRICT, WITHOUT ROWID;

CREATE INDEX history_tool_messages_by_turn ON history_tool_messages (turn_id);
