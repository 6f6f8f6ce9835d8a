// One bound turn: dispatch what the model calls, then end it.

import { randomUUID } from "node:crypto";

import { create, type DescMessage, type MessageInitShape } from "@bufbuild/protobuf";

import { type Assignment, DispatchStream } from "./dispatch_stream.js";
import {
  type BindTurnResponse,
  CancelCallRequestSchema,
  type ChildSummary,
  CloseChildRequestSchema,
  DispatchRequestSchema,
  EndTurnRequestSchema,
  type EndTurnResponse,
  Verdict,
} from "./generated/subagents/dispatch/v1/dispatch_pb.js";
import { type Surface, SurfaceSchema } from "./generated/subagents/dispatch/v1/surface_pb.js";
import { type Call, type Dispatched } from "./outcomes.js";
import { retried } from "./retrying.js";
import type { CallLimits } from "./lane.js";
import type { TurnService, Wire } from "./wire.js";

/** What the sub-agents of one dispatch inherit, and what happens if this client goes away; all of it may be left out. */
export type DispatchContext = Omit<
  MessageInitShape<typeof DispatchRequestSchema>,
  "surfaceToken" | "bindingDigest" | "calls" | "$typeName" | "$unknown"
>;

/** How the turn ended, as the application sees it. */
export type TurnEnd = Omit<MessageInitShape<typeof EndTurnRequestSchema>, "surfaceToken" | "$typeName" | "$unknown">;

const ABANDON_MS = 1_000;

/** A turn whose surface is frozen. Made by `SidecarClient.bindTurn`. */
export class BoundTurn {
  /** What may be called in this turn, and how to prompt. */
  readonly surface: Surface;
  private readonly started = new Map<string, Assignment>();
  private readonly results: Dispatched[] = [];
  private emitted = 0;
  private ending: TurnEnd | undefined;
  private ended = false;

  constructor(
    private readonly wire: Wire,
    /** The turn's id. */
    readonly turnId: string,
    /** What the sidecar answered. */
    readonly bound: BindTurnResponse,
  ) {
    this.surface = bound.surface ?? create(SurfaceSchema);
  }

  /**
   * Runs the sub-agent calls of one model response.
   *
   * @param calls in the order the model emitted them; 1 to 64
   * @param context with a `dispatchId` that was used before and the same calls: attaches to that dispatch
   * @throws RangeError no calls
   */
  dispatch(
    calls: readonly Call[],
    context: DispatchContext = {},
    timeoutMs = this.wire.timeouts.dispatchMs,
  ): DispatchStream {
    if (calls.length === 0) {
      throw new RangeError("a dispatch needs at least one call; end the turn if the model made none");
    }
    const dispatchId = context.dispatchId || randomUUID();
    const known = this.started.get(dispatchId);
    const assignment: Assignment = {
      dispatchId,
      surfaceToken: this.bound.surfaceToken,
      surface: this.surface,
      calls,
      firstIndex: known?.firstIndex ?? this.emitted,
      afterSequence: 0n,
      request: {
        ...context,
        surfaceToken: this.bound.surfaceToken,
        bindingDigest: this.surface.bindingDigest,
        dispatchId,
        calls: [...calls],
      },
    };
    if (known === undefined) {
      this.started.set(dispatchId, assignment);
      this.emitted += calls.length;
    }
    return this.stream(assignment, timeoutMs);
  }

  /** Runs the calls and returns one outcome for each; as `dispatch`, for callers that want no events. */
  async dispatchAndWait(calls: readonly Call[], context: DispatchContext = {}, timeoutMs?: number): Promise<Dispatched> {
    return this.dispatch(calls, context, timeoutMs).result();
  }

  /**
   * Listens to a dispatch again, running or settled, e.g. after the process that started it went away.
   *
   * @param calls what it runs; not needed if this object started it. Without them nothing can be synthesised
   * @param afterSequence newest event already seen
   */
  resume(dispatchId: string, calls: readonly Call[] = [], afterSequence = 0n, timeoutMs?: number): DispatchStream {
    const known = this.started.get(dispatchId);
    const assignment: Assignment = {
      dispatchId,
      surfaceToken: this.bound.surfaceToken,
      surface: this.surface,
      calls: calls.length > 0 ? calls : (known?.calls ?? []),
      firstIndex: known?.firstIndex ?? 0,
      afterSequence,
      request: undefined,
    };
    return this.stream(assignment, timeoutMs ?? this.wire.timeouts.dispatchMs);
  }

  /** Cancels one call; its siblings go on. Returns false if it had settled before. Safe to repeat. */
  async cancelCall(dispatchId: string, callId: string): Promise<boolean> {
    const request = { surfaceToken: this.bound.surfaceToken, dispatchId, callId };
    const ask = (service: TurnService, limits: CallLimits) => service.cancelCall(request, limits);
    return (await this.ask("CancelCall", CancelCallRequestSchema, request, ask)).cancelled;
  }

  /** Gives the verdict on one child and closes it before the turn ends. Safe to repeat with the same verdict. */
  async closeChild(childId: string, verdict: Verdict, reason = ""): Promise<ChildSummary | undefined> {
    const request = { surfaceToken: this.bound.surfaceToken, childId, verdict, reason };
    const ask = (service: TurnService, limits: CallLimits) => service.closeChild(request, limits);
    return (await this.ask("CloseChild", CloseChildRequestSchema, request, ask)).child;
  }

  /** Ends the turn; do so for turns without a dispatch too. Safe to repeat with the same contents. */
  async end(how: TurnEnd = {}): Promise<EndTurnResponse> {
    this.ending = how;
    return this.sendEnd(how, this.wire.timeouts.unaryMs);
  }

  /** Ends the turn if `end` has not. Throws nothing: a sidecar that is away ends the turn by itself. */
  async abandon(): Promise<void> {
    if (this.ended) {
      return;
    }
    const children = this.results.flatMap((one) => one.result.outcomes.map((outcome) => outcome.childId)).filter(Boolean);
    const reason = "the turn was abandoned";
    const integrations = children.map((childId) => ({ childId, verdict: Verdict.REJECTED, reason }));
    await this.sendEnd(this.ending ?? { integrations }, ABANDON_MS).catch(() => undefined);
  }

  private async sendEnd(how: TurnEnd, timeoutMs: number): Promise<EndTurnResponse> {
    const request = { ...how, surfaceToken: this.bound.surfaceToken };
    const ask = (service: TurnService, limits: CallLimits) => service.endTurn(request, limits);
    const answer = await this.ask("EndTurn", EndTurnRequestSchema, request, ask, timeoutMs);
    this.ended = true;
    return answer;
  }

  private stream(assignment: Assignment, timeoutMs: number): DispatchStream {
    return new DispatchStream(this.wire, assignment, timeoutMs, (result) => this.results.push(result));
  }

  private async ask<Desc extends DescMessage, T>(
    method: string,
    schema: Desc,
    request: MessageInitShape<Desc>,
    send: (service: TurnService, limits: CallLimits) => Promise<T>,
    timeoutMs = this.wire.timeouts.unaryMs,
  ): Promise<T> {
    const once = (left: number) => {
      const [service] = this.wire.via(schema, request);
      return send(service, { timeoutMs: left, headers: this.wire.traceHeaders() });
    };
    return retried(once, this.wire.where(method), timeoutMs, this.wire.timeouts);
  }
}
