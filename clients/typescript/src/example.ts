// One turn from end to end, one JSON object a line on standard output:
//
//     node dist/example.js <dispatch socket> <boot secret file> [--lane] [tool ...]
//
// Binds a turn, dispatches the given tools (default: all that are bound), shows frames and outcomes, makes a mistake on
// purpose and shows its reason, ends the turn. With --lane, everything after the bind travels over a session lane.

import { randomUUID } from "node:crypto";

import { Code, ConnectError } from "@connectrpc/connect";

import { failureOf, openSidecar, type Sidecar } from "./client.js";
import { Lane, offersLane } from "./lane.js";
import {
  type BindTurnResponse,
  type DispatchFrame,
  type DispatchResult,
  TurnSource,
} from "./generated/subagents/dispatch/v1/dispatch_pb.js";
import { FinalStatus, Outcome } from "./generated/subagents/dispatch/v1/outcome_pb.js";
import { ErrorReason } from "./generated/subagents/errors/v1/error_reason_pb.js";

/** What a turn needs: the plain RPCs have it, and so has a lane. */
type Service = Pick<Lane, "bindTurn" | "dispatch" | "endTurn">;

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

async function dispatch(service: Service, bound: BindTurnResponse, tools: string[]): Promise<DispatchResult> {
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
  for await (const { frame } of service.dispatch(request, DEADLINE)) {
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

async function makeMistake(service: Service): Promise<void> {
  try {
    await service.bindTurn({ turnId: "turn 2" }, DEADLINE);
  } catch (error) {
    show({ failed: Code[ConnectError.from(error).code], ...failureOf(error) });
  }
}

async function laneOf(sidecar: Sidecar, bound: BindTurnResponse): Promise<Lane> {
  if (!offersLane(bound.contract)) {
    throw new Error("the sidecar offers no session lane");
  }
  const [lane, hello] = await Lane.open(sidecar, bound.contract);
  show({ lane: hello.contract?.features });
  return lane;
}

async function main(socket: string, secretFile: string, overLane: boolean, wanted: string[]): Promise<void> {
  const sidecar = openSidecar(socket, secretFile);
  try {
    const bound = await bind(sidecar);
    const lane = overLane ? await laneOf(sidecar, bound) : undefined;
    const service: Service = lane ?? sidecar.dispatch;
    const tools = wanted.length > 0 ? wanted : bound.surface?.subAgentTools.map((tool) => tool.name) ?? [];
    showOutcomes(await dispatch(service, bound, tools));
    await makeMistake(service);
    const end = { surfaceToken: bound.surfaceToken, narration: "Here is what I found." };
    const { children } = await service.endTurn(end, DEADLINE);
    await lane?.close();
    show({ ended: children.map((child) => `${child.subAgentId} ${FinalStatus[child.finalStatus]}`) });
  } finally {
    sidecar.close();
  }
}

const given = process.argv.slice(2);
const [socket, secretFile, ...tools] = given.filter((one) => one !== "--lane");
if (socket === undefined || secretFile === undefined) {
  console.error("usage: node dist/example.js <dispatch socket> <boot secret file> [--lane] [tool ...]");
  process.exit(2);
}
await main(socket, secretFile, given.includes("--lane"), tools);
