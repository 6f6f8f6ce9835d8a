// One dispatch, from the first frame to the last, over as many connections as it takes.
//
// `Dispatch` goes out over a standing connection, and again only after the sidecar itself said that it started nothing.
// Once the connection broke without an answer, sub-agents may be running, and a sub-agent may have side effects: from then
// on only `ResumeDispatch` is used. If the sidecar does not know the dispatch then (it was restarted), or cannot be
// reached, the outcomes are synthesised. A lane says which run of the sidecar answers: if it is the same run, a dispatch
// that it does not know never arrived, and is sent again.

import type { MessageInitShape } from "@bufbuild/protobuf";
import { Code } from "@connectrpc/connect";

import { errorFrom, NotSent, SidecarError } from "./errors.js";
import {
  type DispatchEvent,
  type DispatchFrame,
  DispatchRequestSchema,
  type DispatchResult,
  type DispatchSnapshot,
  ResumeDispatchRequestSchema,
} from "./generated/subagents/dispatch/v1/dispatch_pb.js";
import type { CallOutcome } from "./generated/subagents/dispatch/v1/outcome_pb.js";
import type { Surface } from "./generated/subagents/dispatch/v1/surface_pb.js";
import { type Call, type Dispatched, synthesised } from "./outcomes.js";
import { backoffBefore, Deadline, sleep } from "./retrying.js";
import type { Wire } from "./wire.js";

/** What a stream is to bring the outcomes of. */
export interface Assignment {
  readonly dispatchId: string;
  readonly surfaceToken: string;
  readonly surface: Surface;
  /** In emission order; empty: not known, then nothing can be synthesised. */
  readonly calls: readonly Call[];
  readonly firstIndex: number;
  /** Newest event that the caller has seen. */
  readonly afterSequence: bigint;
  /** What starts it; undefined: it was started before. */
  readonly request: MessageInitShape<typeof DispatchRequestSchema> | undefined;
}

/** How far a dispatch has come, as seen from here. */
type Stage =
  | "unsent" // nothing was sent, or the sidecar said that it started nothing
  | "sent" // the request is out; no answer yet
  | "uncertain" // the connection broke without an answer: it may be running
  | "resuming" // the caller asked to resume; no answer yet
  | "accepted"; // a frame has come: it is running, or settled

interface Frames {
  readonly iterator: AsyncIterator<{ readonly frame?: DispatchFrame | undefined }>;
  readonly abort: AbortController;
  readonly instanceId: string;
}

/**
 * A running dispatch: an async iterable of its events, and its result.
 *
 * Nothing happens in the background: frames are read while you iterate or wait. Leaving the loop early closes the stream.
 */
export class DispatchStream implements AsyncIterable<DispatchEvent> {
  /** Where the calls stood when the stream began; undefined before the first event or result. */
  snapshot: DispatchSnapshot | undefined;
  private stage: Stage;
  private newest: bigint;
  private readonly pending: DispatchEvent[] = [];
  /** Outcomes by call id, from events: the result of a stream does not repeat the answers that its events carried. */
  private readonly told = new Map<string, CallOutcome>();
  private readonly deadline: Deadline;
  private lost: Deadline | undefined;
  private failures = 0;
  private frames: Frames | undefined;
  private sentTo = "";
  private outcome: Dispatched | undefined;
  private failure: SidecarError | undefined;

  constructor(
    private readonly wire: Wire,
    private readonly assignment: Assignment,
    timeoutMs: number,
    private readonly settled: (result: Dispatched) => void,
  ) {
    this.stage = assignment.request === undefined ? "resuming" : "unsent";
    this.newest = assignment.afterSequence;
    this.deadline = new Deadline(timeoutMs - Math.min(wire.timeouts.settleMarginMs, timeoutMs / 10));
  }

  /** For `BoundTurn.resume` and `BoundTurn.cancelCall`. */
  get dispatchId(): string {
    return this.assignment.dispatchId;
  }

  /** Newest event that was read; 0 if there was none. */
  get sequence(): bigint {
    return this.newest;
  }

  /**
   * Waits for the end and returns one outcome for each call, in emission order. Comes before the dispatch's deadline.
   *
   * @throws SidecarError the dispatch was refused, and the caller can correct it
   */
  async result(): Promise<Dispatched> {
    for (;;) {
      if (this.outcome !== undefined) {
        return this.outcome;
      }
      await this.advance();
      this.pending.length = 0;
    }
  }

  async *[Symbol.asyncIterator](): AsyncIterator<DispatchEvent> {
    try {
      for (;;) {
        const event = this.pending.shift();
        if (event !== undefined) {
          yield event;
        } else if (this.outcome !== undefined) {
          return;
        } else {
          await this.advance();
        }
      }
    } finally {
      if (this.outcome === undefined) {
        this.close();
      }
    }
  }

  /** Leaves the dispatch; what becomes of running calls is what its `onDisconnect` says. Safe to repeat. */
  close(): void {
    if (this.outcome === undefined) {
      this.failure ??= new SidecarError("the stream was closed; listen again with BoundTurn.resume", Code.Canceled);
    }
    this.letGo();
  }

  private async advance(): Promise<void> {
    if (this.failure !== undefined) {
      throw this.failure;
    }
    let opened: Frames | undefined;
    try {
      opened = this.frames ?? (await this.open());
      if (opened === undefined) {
        return;
      }
      const next = await opened.iterator.next();
      if (next.done !== true && next.value.frame !== undefined) {
        this.take(next.value.frame);
        return;
      }
      throw new SidecarError("the stream ended before its result", Code.Unavailable);
    } catch (thrown) {
      this.letGo();
      if (this.failure === undefined) {
        const error = errorFrom(thrown, this.wire.where("Dispatch"));
        await this.broken(error, error.answered || thrown instanceof NotSent, opened?.instanceId ?? "");
      } else {
        throw this.failure;
      }
    }
  }

  private async open(): Promise<Frames | undefined> {
    const limit = this.lost ?? new Deadline(this.wire.timeouts.unreachableAfterMs);
    if (!(await this.wire.connected(Math.min(limit.left, this.deadline.left)))) {
      const message = `no answer to ${this.wire.where("Dispatch")}: check that the sidecar runs`;
      this.giveUp(new SidecarError(message, Code.Unavailable));
      return undefined;
    }
    if (this.stage === "uncertain" && this.sentTo !== "") {
      await this.wire.lanes.ready(); // only a lane says whether it is the same run of the sidecar
    }
    if (this.deadline.left <= 0) {
      this.giveUp(new SidecarError("the dispatch's deadline has passed: give it a longer timeout", Code.DeadlineExceeded));
      return undefined;
    }
    const abort = new AbortController();
    const limits = { timeoutMs: this.deadline.left, signal: abort.signal, headers: this.wire.traceHeaders() };
    const { surfaceToken, dispatchId, request } = this.assignment;
    if (this.stage === "unsent" && request !== undefined) {
      const [service, instanceId] = this.wire.via(DispatchRequestSchema, request);
      this.stage = "sent";
      this.sentTo = instanceId;
      this.frames = { iterator: service.dispatch(request, limits)[Symbol.asyncIterator](), abort, instanceId };
    } else {
      const resume = { surfaceToken, dispatchId, afterSequence: this.newest };
      const [service, instanceId] = this.wire.via(ResumeDispatchRequestSchema, resume);
      this.frames = { iterator: service.resumeDispatch(resume, limits)[Symbol.asyncIterator](), abort, instanceId };
    }
    return this.frames;
  }

  private take(frame: DispatchFrame): void {
    const news = this.stage !== "accepted";
    const before = this.newest;
    this.stage = "accepted";
    this.lost = undefined;
    this.snapshot ??= frame.snapshot;
    for (const event of frame.events) {
      const last = event.kind.case === "gap" ? event.kind.value.toSequence : event.sequence;
      if (last > this.newest) {
        this.newest = last;
        this.pending.push(event);
        if (event.kind.case === "stateChanged" && event.kind.value.outcome !== undefined) {
          this.told.set(event.callId, event.kind.value.outcome);
        }
      }
    }
    if (news || this.newest > before) {
      this.failures = 0; // a stream that breaks again and again without news is asked ever more slowly
    }
    if (frame.result !== undefined) {
      this.settle({ dispatchId: this.dispatchId, result: this.complete(frame.result) });
      this.letGo();
    }
  }

  /** Prepares for another connection, or ends here. */
  private async broken(error: SidecarError, answered: boolean, instanceId: string): Promise<void> {
    const neverArrived = this.stage === "uncertain" && error.reason === "UNKNOWN_DISPATCH";
    if (neverArrived && instanceId !== "" && instanceId === this.sentTo) {
      this.stage = "unsent"; // the same run of the sidecar would know of it
      return;
    }
    if (this.stage === "sent") {
      this.stage = answered ? "unsent" : "uncertain";
    }
    this.failures++;
    this.lost ??= new Deadline(this.wire.timeouts.unreachableAfterMs);
    const pause = backoffBefore(this.failures + 1, error, this.wire.timeouts);
    const refusedOften = answered && this.failures >= this.wire.timeouts.mostAttempts;
    if (!error.retryable || refusedOften || pause >= Math.min(this.lost.left, this.deadline.left)) {
      this.giveUp(error);
    } else {
      await sleep(pause);
    }
  }

  private giveUp(error: SidecarError): void {
    const { calls, dispatchId, surface, firstIndex } = this.assignment;
    const mayRun = this.stage === "uncertain" || this.stage === "accepted";
    if (calls.length === 0 || (!mayRun && error.callerCanCorrect)) {
      this.failure = error;
      throw error;
    }
    const made = synthesised(dispatchId, calls, surface, error, firstIndex);
    this.settle({ ...made, result: this.complete(made.result) });
  }

  /** Returns a result with the outcomes that events told: they are whole, and a lost sidecar takes none of them back. */
  private complete(result: DispatchResult): DispatchResult {
    return { ...result, outcomes: result.outcomes.map((one) => this.told.get(one.callId) ?? one) };
  }

  private settle(outcome: Dispatched): void {
    this.outcome = outcome;
    this.settled(outcome);
  }

  private letGo(): void {
    const frames = this.frames;
    this.frames = undefined;
    frames?.abort.abort();
    // Connect clears the timer of the deadline, which keeps the process alive, only when a read has failed or ended.
    frames?.iterator.next().catch(() => undefined);
  }
}

