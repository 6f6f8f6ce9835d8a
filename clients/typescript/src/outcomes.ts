// Outcomes as answers to tool calls, and outcomes for calls that the sidecar never answered.

import { create } from "@bufbuild/protobuf";

import type { SidecarError } from "./errors.js";
import { type DispatchResult, DispatchResultSchema, type ToolCall } from "./generated/subagents/dispatch/v1/dispatch_pb.js";
import { type CallOutcome, CallOutcomeSchema, CapBehaviour, Outcome } from "./generated/subagents/dispatch/v1/outcome_pb.js";
import type { Surface } from "./generated/subagents/dispatch/v1/surface_pb.js";
import { ErrorReason, FailureAxis } from "./generated/subagents/errors/v1/error_reason_pb.js";
import { type QuestionAnswer, questionMessage } from "./questions.js";

const SENTENCES: Partial<Record<Outcome, string>> = {
  [Outcome.FAILED]: "This part of the request could not be answered right now.",
  [Outcome.DROPPED]: "This part of the request was not carried out: too much was asked at once.",
  [Outcome.REFUSED]: "This part of the request was not carried out: it was not asked in a valid way.",
  [Outcome.NOT_STARTED]: "This part of the request was not carried out: there was no time left for it.",
};
const UNANSWERED = "This part of the request could not be answered right now.";
const DATA_WAS_UNAVAILABLE = "Note: some of the data needed for this answer was unavailable.";
const INCOMPLETE = "Note: this answer may be incomplete.";
const NOTHING_TO_SAY = "The request was carried out; there is nothing more to say about it.";

/** How a dispatch ended: the sidecar's result, or one that this client made. */
export interface Dispatched {
  readonly dispatchId: string;
  /** Exactly one outcome for each call, in emission order. */
  readonly result: DispatchResult;
  /** Why the sidecar's own outcomes could not be had; undefined if `result` is the sidecar's. */
  readonly synthesisedBecause?: SidecarError;
}

/** Whether there is something to compose an answer from. */
export function isAnswered(outcome: CallOutcome): boolean {
  return outcome.outcome === Outcome.SUCCEEDED || outcome.outcome === Outcome.DEGRADED;
}

/**
 * Returns what to answer the model's tool call with; never empty.
 *
 * Narration of a failed call is evidence for people, not an answer, and is left out.
 */
export function toolMessage(outcome: CallOutcome): string {
  if (outcome.question) {
    return [outcome.narration, questionMessage(outcome.question, outcome.toolName)].filter(Boolean).join("\n\n");
  }
  if (!isAnswered(outcome)) {
    return outcome.status?.message || (SENTENCES[outcome.outcome] ?? UNANSWERED);
  }
  const degraded = outcome.outcome === Outcome.DEGRADED ? INCOMPLETE : "";
  const caveat = outcome.dataUnavailable ? DATA_WAS_UNAVAILABLE : degraded;
  return [outcome.narration, caveat].filter(Boolean).join("\n\n") || NOTHING_TO_SAY;
}

/** Returns the answer to every call: what a message history needs to be complete. */
export function toolMessages(dispatched: Dispatched): { readonly callId: string; readonly text: string }[] {
  return dispatched.result.outcomes.map((one) => ({ callId: one.callId, text: toolMessage(one) }));
}

/** A call without the parts that only the wire has. `answering` continues the work of a sub-agent that asked back. */
export type Call = Pick<ToolCall, "callId" | "toolName" | "argumentsJson"> & {
  readonly answering?: QuestionAnswer | undefined;
};

/**
 * Returns outcomes for calls whose outcomes cannot be had, so that no tool call of the model is left unanswered.
 *
 * @param surface gives the cap: the calls within it have failed, those beyond it were dropped
 * @param firstIndex place of the first call over all dispatches of the turn
 */
export function synthesised(
  dispatchId: string,
  calls: readonly Call[],
  surface: Surface,
  because: SidecarError,
  firstIndex = 0,
): Dispatched {
  const cap = surface.fanOutCap;
  const outcomes = calls.map((call, place) =>
    create(CallOutcomeSchema, {
      callId: call.callId,
      toolName: call.toolName,
      subAgentId: surface.subAgentTools.find((tool) => tool.name === call.toolName)?.subAgentId ?? "",
      emissionIndex: firstIndex + place,
      ...(place < cap ? failed() : dropped()),
    }),
  );
  const emitted = new Set(outcomes.map((one) => one.subAgentId).filter(Boolean)).size;
  const within = calls.length < cap ? CapBehaviour.WITHIN : CapBehaviour.AT;
  const result = create(DispatchResultSchema, {
    outcomes,
    intents: { emitted },
    cap: calls.length > cap ? CapBehaviour.OVER : within,
  });
  return { dispatchId, result, synthesisedBecause: because };
}

function failed() {
  const message = SENTENCES[Outcome.FAILED] ?? UNANSWERED;
  const status = { reason: ErrorReason.SIDECAR_UNREACHABLE, axis: FailureAxis.EXECUTION, message };
  return { outcome: Outcome.FAILED, status };
}

function dropped() {
  const message = SENTENCES[Outcome.DROPPED] ?? UNANSWERED;
  return { outcome: Outcome.DROPPED, status: { reason: ErrorReason.OVER_CAP, message } };
}
