// One turn from end to end, one JSON object a line on standard output:
//
//     node dist/example.js <dispatch socket> <boot secret file> [tool ...]
//
// Binds a turn, dispatches the given tools (default: all that are bound), shows frames and outcomes, makes a mistake on
// purpose and shows its reason, ends the turn.

import { randomUUID } from "node:crypto";

import { Code, ConnectError } from "@connectrpc/connect";

import { failureOf, openSidecar, type Sidecar } from "./client.js";
import {
  type BindTurnResponse,
  type DispatchFrame,
  type DispatchResult,
  TurnSource,
} from "./generated/subagents/dispatch/v1/dispatch_pb.js";
import { Outcome } from "./generated/subagents/dispatch/v1/outcome_pb.js";
import { ErrorReason } from "./generated/subagents/errors/v1/error_reason_pb.js";

const DEADLINE = { timeoutMs: 20_000 };

function show(line: Record<string, unknown>): void {
  console.log(JSON.stringify(line));
}

async function bind(sidecar: Sidecar): Promise<BindTurnResponse> {
  const id = randomUUID();
  const turn = { turnId: `turn-${id}`, episodeId: `episode-${id}`, principal: "user-1", source: TurnSource.CHAT };
  const bound = await sidecar.dispatch.bindTurn({ ...turn, locale: "en-US" }, DEADLINE);
  show({ bound: bound.surface?.subAgentTools.map((tool) => tool.name), cap: bound.surface?.fanOutCap });
  return bound;
}

function showFrame(frame: DispatchFrame): void {
  const parts = [frame.snapshot && "snapshot", frame.events.length > 0 && "events", frame.result && "result"];
  show({ frame: parts.filter(Boolean), events: frame.events.map((event) => event.kind.case) });
}

async function dispatch(sidecar: Sidecar, bound: BindTurnResponse, tools: string[]): Promise<DispatchResult> {
  const request = {
    surfaceToken: bound.surfaceToken,
    bindingDigest: bound.surface?.bindingDigest ?? "",
    dispatchId: `dispatch-${randomUUID()}`,
    calls: tools.map((toolName, place) => ({
      callId: `call-${place + 1}`, // what your model emitted
      toolName,
      argumentsJson: JSON.stringify({ request: "What is new?" }),
    })),
  };
  let result: DispatchResult | undefined;
  for await (const { frame } of sidecar.dispatch.dispatch(request, DEADLINE)) {
    if (frame !== undefined) {
      showFrame(frame);
      result = frame.result ?? result;
    }
  }
  if (result === undefined) {
    throw new Error("the stream ended without a result");
  }
  return result;
}

function showOutcomes(result: DispatchResult): void {
  for (const one of result.outcomes) {
    const reason = one.status && ErrorReason[one.status.reason];
    show({ call: one.callId, outcome: Outcome[one.outcome], reason, narration: one.narration });
  }
}

async function makeMistake(sidecar: Sidecar): Promise<void> {
  try {
    await sidecar.dispatch.bindTurn({ turnId: "turn 2" }, DEADLINE);
  } catch (error) {
    show({ failed: Code[ConnectError.from(error).code], ...failureOf(error) });
  }
}

async function main(socket: string, secretFile: string, wanted: string[]): Promise<void> {
  const sidecar = openSidecar(socket, secretFile);
  try {
    const bound = await bind(sidecar);
    const tools = wanted.length > 0 ? wanted : bound.surface?.subAgentTools.map((tool) => tool.name) ?? [];
    showOutcomes(await dispatch(sidecar, bound, tools));
    await makeMistake(sidecar);
    const end = { surfaceToken: bound.surfaceToken, narration: "Here is what I found." };
    const { children } = await sidecar.dispatch.endTurn(end, DEADLINE);
    show({ ended: children.map((child) => `${child.subAgentId} ${child.finalStatus}`) });
  } finally {
    sidecar.close();
  }
}

const [socket, secretFile, ...tools] = process.argv.slice(2);
if (socket === undefined || secretFile === undefined) {
  console.error("usage: node dist/example.js <dispatch socket> <boot secret file> [tool ...]");
  process.exit(2);
}
await main(socket, secretFile, tools);
