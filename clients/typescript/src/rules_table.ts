// The rules of requests, made by `make proto` from the `buf.validate` options of the protos; do not edit.

/** What the value of one field must be; see `subagents.rules` in Python. */
export interface Rule {
  readonly field?: string;
  readonly kind: "text" | "number" | "enum" | "duration" | "list" | "message";
  readonly may_be_absent?: boolean;
  readonly least?: number;
  readonly most?: number;
  readonly most_bytes?: number;
  readonly pattern?: string;
  readonly allowed?: readonly number[];
  readonly each?: Rule;
  readonly message?: string;
}

export const RULES: Readonly<Record<string, readonly Rule[]>> = {
  "subagents.dispatch.v1.Answering": [
    {"field": "receipt", "kind": "text", "least": 1, "most": 65536},
    {"field": "text", "kind": "text", "most": 16384},
    {"field": "decision", "kind": "enum", "allowed": [0, 1, 2]},
    {"field": "answered_by", "kind": "enum", "allowed": [1, 2]},
  ],
  "subagents.dispatch.v1.BindTurnRequest": [
    {"field": "turn_id", "kind": "text", "pattern": "^[!-~]{1,128}$"},
    {"field": "episode_id", "kind": "text", "pattern": "^[!-~]{1,128}$"},
    {"field": "principal", "kind": "text", "most": 256},
    {"field": "source", "kind": "enum", "allowed": [1, 2, 3]},
    {"field": "orchestrator_id", "kind": "text", "most": 60},
    {"field": "locale", "may_be_absent": true, "kind": "text", "pattern": "^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,7}$"},
    {"field": "location", "may_be_absent": true, "kind": "text", "least": 1, "most": 256},
    {"field": "experiment_arm", "kind": "text", "most": 128},
    {"field": "date", "kind": "text", "pattern": "^([0-9]{4}-[0-9]{2}-[0-9]{2})?$"},
    {"field": "required_features", "most": 32, "each": {"kind": "text", "least": 1, "most": 60}, "kind": "list"},
    {"field": "user_token", "kind": "text", "most": 8192},
  ],
  "subagents.dispatch.v1.CancelCallRequest": [
    {"field": "surface_token", "kind": "text", "least": 1, "most": 65536},
    {"field": "dispatch_id", "kind": "text", "pattern": "^[!-~]{1,128}$"},
    {"field": "call_id", "kind": "text", "pattern": "^[!-~]{1,128}$"},
  ],
  "subagents.dispatch.v1.CloseChildRequest": [
    {"field": "surface_token", "kind": "text", "least": 1, "most": 65536},
    {"field": "child_id", "kind": "text", "pattern": "^[!-~]{1,128}$"},
    {"field": "verdict", "kind": "enum", "allowed": [0, 1, 2]},
    {"field": "reason", "kind": "text", "most_bytes": 1024},
  ],
  "subagents.dispatch.v1.DispatchRequest": [
    {"field": "surface_token", "kind": "text", "least": 1, "most": 65536},
    {"field": "binding_digest", "kind": "text", "least": 1, "most": 256},
    {"field": "dispatch_id", "kind": "text", "pattern": "^[!-~]{1,128}$"},
    {"field": "calls", "least": 1, "most": 64, "message": "subagents.dispatch.v1.ToolCall", "kind": "list"},
    {"field": "declared_intent_count", "kind": "number", "least": 0, "most": 1000},
    {"field": "prior_context", "kind": "text", "most_bytes": 16384},
    {"field": "task_prompt", "kind": "text", "most_bytes": 65536},
    {"field": "on_disconnect", "kind": "enum", "allowed": [0, 1, 2, 3]},
    {"field": "continue_for", "kind": "duration", "most": 86400, "message": "google.protobuf.Duration"},
    {"field": "join", "message": "subagents.dispatch.v1.JoinPolicy", "kind": "message"},
  ],
  "subagents.dispatch.v1.DispatchUnaryRequest": [
    {"field": "dispatch", "message": "subagents.dispatch.v1.DispatchRequest", "kind": "message"},
  ],
  "subagents.dispatch.v1.EndTurnRequest": [
    {"field": "surface_token", "kind": "text", "least": 1, "most": 65536},
    {"field": "integrations", "most": 1024, "message": "subagents.dispatch.v1.Integration", "kind": "list"},
    {"field": "narration", "kind": "text", "most_bytes": 262144},
    {"field": "declared_intent_count", "kind": "number", "least": 0, "most": 1000},
    {"field": "user_message", "kind": "text", "most_bytes": 65536},
  ],
  "subagents.dispatch.v1.Integration": [
    {"field": "child_id", "kind": "text", "pattern": "^[!-~]{1,128}$"},
    {"field": "verdict", "kind": "enum", "allowed": [0, 1, 2]},
    {"field": "reason", "kind": "text", "most_bytes": 1024},
  ],
  "subagents.dispatch.v1.JoinPolicy": [
    {"field": "min_success", "kind": "number", "least": 0, "most": 64},
    {"field": "max_parallel", "kind": "number", "least": 0, "most": 64},
    {"field": "timeout", "kind": "duration", "most": 86400, "message": "google.protobuf.Duration"},
  ],
  "subagents.dispatch.v1.ResumeDispatchRequest": [
    {"field": "surface_token", "kind": "text", "least": 1, "most": 65536},
    {"field": "dispatch_id", "kind": "text", "pattern": "^[!-~]{1,128}$"},
    {"field": "after_sequence", "kind": "number", "least": 0},
  ],
  "subagents.dispatch.v1.SessionClientHello": [
    {"field": "contract_version", "kind": "number", "least": 1},
    {"field": "credit_bytes", "kind": "number", "least": 0},
    {"field": "required_features", "most": 32, "each": {"kind": "text", "least": 1, "most": 60}, "kind": "list"},
  ],
  "subagents.dispatch.v1.SessionCredit": [
    {"field": "bytes", "kind": "number", "least": 1},
  ],
  "subagents.dispatch.v1.SessionOperation": [
    {"field": "correlation_id", "kind": "number", "least": 1},
    {"field": "credit_bytes", "kind": "number", "least": 0},
    {"field": "bind_turn", "message": "subagents.dispatch.v1.BindTurnRequest", "kind": "message"},
    {"field": "dispatch", "message": "subagents.dispatch.v1.DispatchRequest", "kind": "message"},
    {"field": "resume_dispatch", "message": "subagents.dispatch.v1.ResumeDispatchRequest", "kind": "message"},
    {"field": "cancel_call", "message": "subagents.dispatch.v1.CancelCallRequest", "kind": "message"},
    {"field": "close_child", "message": "subagents.dispatch.v1.CloseChildRequest", "kind": "message"},
    {"field": "end_turn", "message": "subagents.dispatch.v1.EndTurnRequest", "kind": "message"},
  ],
  "subagents.dispatch.v1.SessionRequest": [
    {"field": "hello", "message": "subagents.dispatch.v1.SessionClientHello", "kind": "message"},
    {"field": "operations", "message": "subagents.dispatch.v1.SessionOperation", "kind": "list"},
    {"field": "credits", "message": "subagents.dispatch.v1.SessionCredit", "kind": "list"},
  ],
  "subagents.dispatch.v1.ToolCall": [
    {"field": "call_id", "kind": "text", "pattern": "^[!-~]{1,128}$"},
    {"field": "tool_name", "kind": "text", "least": 1, "most": 256},
    {"field": "answering", "message": "subagents.dispatch.v1.Answering", "kind": "message"},
  ],
  "subagents.history.v1.ExportReplayRequest": [
    {"field": "turn_id", "kind": "text", "pattern": "^[!-~]{1,128}$"},
  ],
  "subagents.history.v1.GetTurnRequest": [
    {"field": "turn_id", "kind": "text", "pattern": "^[!-~]{1,128}$"},
    {"field": "child_ids", "most": 64, "each": {"kind": "text", "pattern": "^[!-~]{1,128}$"}, "kind": "list"},
  ],
  "subagents.history.v1.ListEpisodesRequest": [
    {"field": "page_size", "kind": "number", "least": 0},
  ],
  "subagents.history.v1.ListTurnsRequest": [
    {"field": "page_size", "kind": "number", "least": 0},
    {"field": "episode_id", "kind": "text", "pattern": "^[!-~]{0,128}$"},
    {"field": "sub_agent_id", "kind": "text", "most": 60},
    {"field": "state", "kind": "enum", "allowed": [0, 1, 2, 3]},
    {"field": "principal", "kind": "text", "most": 256},
    {"field": "outcome", "kind": "enum", "allowed": [0, 1, 2, 3, 4, 5, 6, 7]},
    {"field": "definition_id", "kind": "text", "pattern": "^([a-z0-9][a-z0-9_-]{0,59})?$"},
    {"field": "reason", "kind": "enum", "allowed": [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 61, 62, 63, 70, 71, 72, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111, 113, 114, 115, 116, 117, 118, 119, 120, 121, 122, 123, 130, 131, 141, 142, 143, 144, 145, 146, 147, 148, 149, 150, 151, 152, 153, 154]},
  ],
  "subagents.history.v1.ReadEpisodeRequest": [
    {"field": "episode_id", "kind": "text", "pattern": "^[!-~]{1,128}$"},
    {"field": "principal", "kind": "text", "least": 1, "most": 256},
    {"field": "view", "kind": "enum", "allowed": [0, 1, 2]},
    {"field": "max_turns", "kind": "number", "least": 0, "most": 1000},
  ],
  "subagents.history.v1.RecordScoreRequest": [
    {"field": "score_id", "kind": "text", "pattern": "^[!-~]{1,128}$"},
    {"field": "turn_id", "kind": "text", "pattern": "^[!-~]{1,128}$"},
    {"field": "dispatch_id", "kind": "text", "pattern": "^[!-~]{1,128}$"},
    {"field": "call_id", "kind": "text", "pattern": "^[!-~]{1,128}$"},
    {"field": "name", "kind": "text", "pattern": "^[a-z0-9][a-z0-9_-]{0,59}$"},
    {"field": "value", "kind": "number", "least": 0.0, "most": 1.0},
    {"field": "label", "kind": "text", "pattern": "^([a-z0-9][a-z0-9_-]{0,59})?$"},
    {"field": "source", "kind": "enum", "allowed": [1, 2, 3]},
    {"field": "explanation", "kind": "text", "most_bytes": 4096},
    {"field": "principal", "kind": "text", "most": 256},
  ],
  "subagents.history.v1.SeenUpTo": [
    {"field": "child_id", "kind": "text", "pattern": "^[!-~]{1,128}$"},
    {"field": "sequence", "kind": "number", "least": 0, "most": 9007199254740992},
  ],
  "subagents.history.v1.WatchEventsRequest": [
    {"field": "turn_id", "kind": "text", "pattern": "^[!-~]{1,128}$"},
    {"field": "after", "most": 1000, "message": "subagents.history.v1.SeenUpTo", "kind": "list"},
  ],
  "subagents.history.v1.WriteSummaryRequest": [
    {"field": "episode_id", "kind": "text", "pattern": "^[!-~]{1,128}$"},
    {"field": "principal", "kind": "text", "least": 1, "most": 256},
    {"field": "text", "kind": "text", "least": 1, "most_bytes": 65536},
    {"field": "up_to_turn_id", "kind": "text", "pattern": "^[!-~]{1,128}$"},
    {"field": "expected_revision", "kind": "number", "least": 0, "most": 9007199254740992},
  ],
};
