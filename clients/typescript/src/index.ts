// What applications import. The messages themselves: `subagents-client/proto/<package>/v1/<file>_pb.js`.

export { History, SidecarClient } from "./client.js";
export { type Options, type TlsFiles } from "./connecting.js";
export { DispatchStream } from "./dispatch_stream.js";
export { ERROR_DOMAIN, SidecarError } from "./errors.js";
export {
  type ChildSummary,
  type DispatchEvent,
  type DispatchResult,
  OnDisconnect,
  type ToolCall,
  TurnSource,
  Verdict,
} from "./generated/subagents/dispatch/v1/dispatch_pb.js";
export * from "./generated/subagents/dispatch/v1/outcome_pb.js";
export * from "./generated/subagents/dispatch/v1/question_pb.js";
export { type Surface } from "./generated/subagents/dispatch/v1/surface_pb.js";
export { ErrorReason, FailureAxis } from "./generated/subagents/errors/v1/error_reason_pb.js";
export { EpisodeView } from "./generated/subagents/history/v1/history_pb.js";
export { type CallLimits, Lane, offersLane } from "./lane.js";
export { type Call, type Dispatched, isAnswered, synthesised, toolMessage, toolMessages } from "./outcomes.js";
export { answered, approved, declined, type QuestionAnswer } from "./questions.js";
export { DEFAULT_TIMEOUTS, type Timeouts } from "./retrying.js";
export { BoundTurn, type DispatchContext, type TurnEnd } from "./turn.js";
