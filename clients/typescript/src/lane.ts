// The session lane: bind, dispatch, resume, cancel, close and end over one long stream. See docs/session-lane.md.
//
// `Lane` has the methods of the plain service, so that either can be given to the same code. Open one once a
// `BindTurnResponse` says that it is offered; when it ends, open another one, and resume what was in flight.

import { fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";

import type { Sidecar } from "./client.js";
import { StatusSchema } from "./generated/google/rpc/status_pb.js";
import {
  type BindTurnRequestSchema,
  type BindTurnResponse,
  type CancelCallRequestSchema,
  type CancelCallResponse,
  type CloseChildRequestSchema,
  type CloseChildResponse,
  type Contract,
  type DispatchRequestSchema,
  type DispatchResponse,
  type EndTurnRequestSchema,
  type EndTurnResponse,
  type ResumeDispatchRequestSchema,
  type ResumeDispatchResponse,
  type SessionDrain,
  type SessionRequestSchema,
  type SessionResponse,
  type SessionResult,
  SessionResultSchema,
  type SessionServerHello,
  type SessionStatus,
} from "./generated/subagents/dispatch/v1/dispatch_pb.js";

const CONTRACT_VERSION = 1;
const FEATURE = "session";
const LANE_CREDIT = 4 * 1024 * 1024;
const OPERATION_CREDIT = 1024 * 1024;

/** How long one operation may take. */
export interface Deadline {
  readonly timeoutMs?: number;
}

type Message = MessageInitShape<typeof SessionRequestSchema>;
type Request = NonNullable<NonNullable<Message["operations"]>[number]["request"]>;

/** What a lane does not carry is asked for by the plain RPCs of `sidecar.dispatch`. */
export function offersLane(contract: Contract | undefined): contract is Contract {
  return contract !== undefined && contract.features.includes(FEATURE);
}

/** Results of one operation, as they come. */
class Operation implements AsyncIterable<SessionResult> {
  private readonly results: SessionResult[] = [];
  private failure: ConnectError | undefined;
  private over = false;
  private wake: () => void = () => undefined;

  constructor(
    private readonly consumed: (bytes: number, over: boolean) => void,
    private readonly left: () => void,
  ) {}

  take(result: SessionResult): void {
    if (result.response.case !== undefined && this.over) {
      this.consumed(toBinary(SessionResultSchema, result).length, true); // nothing reads it, but the lane has room again
    } else if (result.response.case !== undefined) {
      this.results.push(result);
    }
    if (result.status !== undefined) {
      this.end(result.status.code === 0 ? undefined : errorOf(result.status));
    }
    this.wake();
  }

  end(failure: ConnectError | undefined): void {
    if (!this.over) {
      this.over = true;
      this.failure = failure;
      this.wake();
    }
  }

  async *[Symbol.asyncIterator](): AsyncIterator<SessionResult> {
    try {
      for (;;) {
        const result = this.results.shift();
        if (result !== undefined) {
          this.consumed(toBinary(SessionResultSchema, result).length, this.over);
          yield result;
        } else if (this.failure !== undefined) {
          throw this.failure;
        } else if (this.over) {
          return;
        } else {
          await new Promise<void>((resolve) => (this.wake = resolve));
        }
      }
    } finally {
      for (const unread of this.results.splice(0)) {
        this.consumed(toBinary(SessionResultSchema, unread).length, true);
      }
      if (!this.over) {
        this.over = true;
        this.left(); // the caller broke out of its loop: the equal of cancelling an RPC
      }
    }
  }
}

/** One lane. Everything in flight fails with `Code.Unavailable` when it breaks; repeat it, or resume, on another one. */
export class Lane {
  /** Asks for another lane for new operations; undefined: not yet. */
  drain: SessionDrain | undefined;
  /** Settled when the lane has ended. */
  readonly ended: Promise<void>;

  private readonly operations = new Map<bigint, Operation>();
  private readonly queue: Message[] = [];
  private newest = 0n;
  private laneConsumed = 0;
  private readonly consumed = new Map<bigint, number>();
  private closing = false;
  private over = false;
  private wake: () => void = () => undefined;
  private beat: NodeJS.Timeout | undefined;
  private readonly abort = new AbortController();

  private constructor(sidecar: Sidecar, contract: Contract, previousLaneId: string, opened: Opened) {
    const timeoutMs = Number(contract.sessionDeadline?.seconds ?? 0n) * 1000;
    this.queue.push({
      hello: { contractVersion: CONTRACT_VERSION, creditBytes: BigInt(LANE_CREDIT), previousLaneId, heartbeats: true },
    });
    const messages = sidecar.dispatch.session(this.outgoing(), { timeoutMs, signal: this.abort.signal });
    this.ended = this.read(messages, opened);
  }

  /**
   * Opens a lane, and returns it with what the sidecar says of it.
   *
   * @param contract of a `BindTurnResponse`; see `offersLane`
   * @param previousLaneId of the lane before this one, for its stall report
   */
  static async open(sidecar: Sidecar, contract: Contract, previousLaneId = ""): Promise<[Lane, SessionServerHello]> {
    let opened: Opened = { resolve: () => undefined, reject: () => undefined };
    const hello = new Promise<SessionServerHello>((resolve, reject) => (opened = { resolve, reject }));
    const lane = new Lane(sidecar, contract, previousLaneId, opened);
    return [lane, await hello];
  }

  async bindTurn(request: MessageInitShape<typeof BindTurnRequestSchema>, options?: Deadline): Promise<BindTurnResponse> {
    return (await this.one({ case: "bindTurn", value: request }, options)) as BindTurnResponse;
  }

  async *dispatch(
    request: MessageInitShape<typeof DispatchRequestSchema>,
    options?: Deadline,
  ): AsyncIterable<DispatchResponse> {
    for await (const { response } of this.begin({ case: "dispatch", value: request }, options)) {
      yield response.value as DispatchResponse;
    }
  }

  async *resumeDispatch(
    request: MessageInitShape<typeof ResumeDispatchRequestSchema>,
    options?: Deadline,
  ): AsyncIterable<ResumeDispatchResponse> {
    for await (const { response } of this.begin({ case: "resumeDispatch", value: request }, options)) {
      yield response.value as ResumeDispatchResponse;
    }
  }

  async cancelCall(
    request: MessageInitShape<typeof CancelCallRequestSchema>,
    options?: Deadline,
  ): Promise<CancelCallResponse> {
    return (await this.one({ case: "cancelCall", value: request }, options)) as CancelCallResponse;
  }

  async closeChild(
    request: MessageInitShape<typeof CloseChildRequestSchema>,
    options?: Deadline,
  ): Promise<CloseChildResponse> {
    return (await this.one({ case: "closeChild", value: request }, options)) as CloseChildResponse;
  }

  async endTurn(request: MessageInitShape<typeof EndTurnRequestSchema>, options?: Deadline): Promise<EndTurnResponse> {
    return (await this.one({ case: "endTurn", value: request }, options)) as EndTurnResponse;
  }

  /** Takes no more operations, and ends once those in flight have. */
  async close(): Promise<void> {
    this.closing = true;
    this.wake();
    await this.ended;
  }

  private async one(request: Request, options?: Deadline): Promise<SessionResult["response"]["value"]> {
    for await (const { response } of this.begin(request, options)) {
      return response.value;
    }
    throw new ConnectError("the operation ended without an answer", Code.Internal);
  }

  private begin(request: Request, options?: Deadline): Operation {
    const id = ++this.newest;
    const operation = new Operation(
      (bytes, over) => this.grant(id, bytes, over),
      () => this.send({ abandons: [id] }),
    );
    if (this.over || this.closing) {
      operation.end(new ConnectError("the lane has ended", Code.Unavailable));
      return operation;
    }
    this.operations.set(id, operation);
    const deadline = options?.timeoutMs === undefined ? {} : { deadline: durationFromMs(options.timeoutMs) };
    const creditBytes = BigInt(OPERATION_CREDIT);
    this.send({ operations: [{ correlationId: id, creditBytes, request, ...deadline }] });
    return operation;
  }

  private grant(id: bigint, bytes: number, over: boolean): void {
    this.laneConsumed += bytes;
    if (this.laneConsumed >= LANE_CREDIT / 4) {
      this.send({ credits: [{ correlationId: 0n, bytes: BigInt(this.laneConsumed) }] });
      this.laneConsumed = 0;
    }
    if (over) {
      return; // the operation needs no credit any more, and an entry for it would stay for as long as the lane
    }
    const taken = (this.consumed.get(id) ?? 0) + bytes;
    this.consumed.set(id, taken);
    if (taken >= OPERATION_CREDIT / 2) {
      this.send({ credits: [{ correlationId: id, bytes: BigInt(taken) }] });
      this.consumed.set(id, 0);
    }
  }

  private send(message: Message): void {
    this.queue.push(message);
    this.wake();
  }

  /** Gives whatever is queued when the last message has left, as one. */
  private async *outgoing(): AsyncIterable<Message> {
    for (;;) {
      const queued = this.queue.splice(0);
      if (queued.length > 0) {
        yield {
          hello: queued[0]?.hello,
          heartbeat: queued.find((one) => one.heartbeat)?.heartbeat,
          operations: queued.flatMap((one) => one.operations ?? []),
          credits: queued.flatMap((one) => one.credits ?? []),
          abandons: queued.flatMap((one) => one.abandons ?? []),
        };
      } else if (this.over || (this.closing && this.operations.size === 0)) {
        return;
      } else {
        await new Promise<void>((resolve) => (this.wake = resolve));
      }
    }
  }

  private async read(messages: AsyncIterable<SessionResponse>, opened: Opened): Promise<void> {
    let failure = new ConnectError("the lane has ended", Code.Unavailable);
    try {
      for await (const message of messages) {
        this.take(message, opened);
      }
    } catch (error) {
      failure = ConnectError.from(error);
      opened.reject(failure);
    } finally {
      this.over = true;
      clearInterval(this.beat);
      this.operations.forEach((operation) => operation.end(new ConnectError(failure.rawMessage, Code.Unavailable)));
      this.operations.clear();
      this.wake();
      this.abort.abort();
    }
  }

  private take(message: SessionResponse, opened: Opened): void {
    if (message.hello !== undefined) {
      const seconds = Number(message.hello.heartbeatInterval?.seconds ?? 10n);
      this.beat = setInterval(() => this.send({ heartbeat: {} }), Math.max(1, seconds) * 500);
      this.beat.unref();
      opened.resolve(message.hello);
    }
    this.drain = message.drain ?? this.drain;
    for (const result of message.results) {
      this.operations.get(result.correlationId)?.take(result);
      if (result.status !== undefined) {
        this.operations.delete(result.correlationId);
        this.consumed.delete(result.correlationId);
      }
    }
    if (this.closing) {
      this.wake();
    }
  }
}

interface Opened {
  readonly resolve: (hello: SessionServerHello) => void;
  readonly reject: (error: ConnectError) => void;
}

/** Returns the error that the plain RPC would have thrown; `failureOf` reads its reason. */
function errorOf(status: SessionStatus): ConnectError {
  const error = new ConnectError(status.message, status.code as Code);
  error.details = fromBinary(StatusSchema, status.details).details.map((any) => ({
    type: any.typeUrl.slice(any.typeUrl.lastIndexOf("/") + 1),
    value: any.value,
  }));
  return error;
}
