// The session lane: bind, dispatch, resume, cancel, close and end over one long stream. See docs/session-lane.md.
//
// `Lane` has the methods of the plain service, so that either can be given to the same code.

import { create, fromBinary, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import { type Client, Code, ConnectError } from "@connectrpc/connect";

import { NotSent } from "./errors.js";
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
  type DispatchService,
  type EndTurnRequestSchema,
  type EndTurnResponse,
  type ResumeDispatchRequestSchema,
  type ResumeDispatchResponse,
  type SessionDrain,
  SessionRequestSchema,
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
/** Requests are packed into messages of at most that many bytes; one that is larger goes alone. */
const MESSAGE_BYTES = 1024 * 1024;
/** More than a message has beside its requests: trace contexts, credits and abandons. */
const BYTES_BESIDE = 16 * 1024;
/** Most operations, credits and abandons in one message; the sidecar ends a lane at 4,096. */
const MOST_PARTS = 2048;
/** A sidecar that sends nothing for so many intervals of heartbeats is gone. */
const SILENT_INTERVALS = 3;

/** The service that opens lanes. */
export type LaneService = Pick<Client<typeof DispatchService>, "session">;

/** How long one request may take, and what ends it early. */
export interface CallLimits {
  readonly timeoutMs?: number;
  /** Aborting it is the equal of cancelling an RPC. */
  readonly signal?: AbortSignal;
  /** Sent with the request: `traceparent` and `tracestate`. */
  readonly headers?: Record<string, string>;
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
  private timer: NodeJS.Timeout | undefined;

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
      clearTimeout(this.timer);
      this.wake();
    }
  }

  /** Ends it here and tells the sidecar, now or after a time: a sidecar that hangs does not keep the deadline itself. */
  leave(failure: ConnectError, afterMs = 0): void {
    const leaving = (): void => {
      if (!this.over) {
        this.end(failure);
        this.left();
      }
    };
    if (afterMs > 0) {
      this.timer = setTimeout(leaving, afterMs);
    } else {
      leaving();
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
      this.leave(new ConnectError("the caller has left", Code.Canceled)); // it broke out of its loop
    }
  }
}

/** One lane. Everything in flight fails with `Code.Unavailable` when it breaks; repeat it, or resume, on another one. */
export class Lane {
  /** Asks for another lane for new requests; undefined: not yet. */
  drain: SessionDrain | undefined;
  /** Settled when the lane has ended. */
  readonly ended: Promise<void>;

  private greeting: SessionServerHello | undefined;
  private readonly operations = new Map<bigint, Operation>();
  private readonly queue: Message[] = [];
  private readonly unsent = new Set<bigint>();
  private newest = 0n;
  private laneConsumed = 0;
  private readonly consumed = new Map<bigint, number>();
  private closing = false;
  private over = false;
  private wake: () => void = () => undefined;
  private beat: NodeJS.Timeout | undefined;
  private heardAt = performance.now();
  private readonly abort = new AbortController();

  private constructor(service: LaneService, contract: Contract, previousLaneId: string, opened: Opened) {
    const timeoutMs = Number(contract.sessionDeadline?.seconds ?? 0n) * 1000;
    this.queue.push({
      hello: { contractVersion: CONTRACT_VERSION, creditBytes: BigInt(LANE_CREDIT), previousLaneId, heartbeats: true },
    });
    const messages = service.session(this.outgoing(), { timeoutMs, signal: this.abort.signal });
    this.ended = this.read(messages, opened);
  }

  /**
   * Opens a lane, and returns it once the sidecar has said hello.
   *
   * @param service of the client
   * @param contract of a `BindTurnResponse`; see `offersLane`
   * @param previousLaneId of the lane before this one, for its stall report
   * @param timeoutMs how long the hello may take
   */
  static async open(
    service: LaneService,
    contract: Contract,
    previousLaneId = "",
    timeoutMs = 5_000,
  ): Promise<Lane> {
    let opened: Opened = { resolve: () => undefined, reject: () => undefined };
    const greeted = new Promise<void>((resolve, reject) => (opened = { resolve, reject }));
    const lane = new Lane(service, contract, previousLaneId, opened);
    const timer = setTimeout(() => lane.giveUp(), timeoutMs);
    try {
      await greeted;
    } finally {
      clearTimeout(timer);
    }
    return lane;
  }

  /** What the sidecar said of the lane: its limits, and which run of the sidecar it is. */
  get hello(): SessionServerHello {
    if (this.greeting === undefined) {
      throw new Error("the lane is not open");
    }
    return this.greeting;
  }

  /** Whether it takes requests. */
  get usable(): boolean {
    return this.greeting !== undefined && !this.over && !this.closing;
  }

  /**
   * Whether a request may go over the lane now; if not, send it as a plain RPC.
   *
   * One operation too many would be refused; a message that is too large would end the lane.
   *
   * @param bytes size of the serialised request
   */
  takes(bytes: number): boolean {
    const { maxOperations, maxMessageBytes } = this.hello;
    const fits = BigInt(bytes + BYTES_BESIDE) <= maxMessageBytes;
    return this.usable && this.operations.size < maxOperations && fits;
  }

  /** Breaks the lane off. */
  giveUp(): void {
    this.abort.abort();
  }

  async bindTurn(request: MessageInitShape<typeof BindTurnRequestSchema>, options?: CallLimits): Promise<BindTurnResponse> {
    return (await this.one({ case: "bindTurn", value: request }, options)) as BindTurnResponse;
  }

  /** Begins at once, not with the first read: else `takes` would answer for a lane that is about to be full. */
  dispatch(
    request: MessageInitShape<typeof DispatchRequestSchema>,
    options?: CallLimits,
  ): AsyncIterable<DispatchResponse> {
    return responses<DispatchResponse>(this.begin({ case: "dispatch", value: request }, options));
  }

  resumeDispatch(
    request: MessageInitShape<typeof ResumeDispatchRequestSchema>,
    options?: CallLimits,
  ): AsyncIterable<ResumeDispatchResponse> {
    return responses<ResumeDispatchResponse>(this.begin({ case: "resumeDispatch", value: request }, options));
  }

  async cancelCall(
    request: MessageInitShape<typeof CancelCallRequestSchema>,
    options?: CallLimits,
  ): Promise<CancelCallResponse> {
    return (await this.one({ case: "cancelCall", value: request }, options)) as CancelCallResponse;
  }

  async closeChild(
    request: MessageInitShape<typeof CloseChildRequestSchema>,
    options?: CallLimits,
  ): Promise<CloseChildResponse> {
    return (await this.one({ case: "closeChild", value: request }, options)) as CloseChildResponse;
  }

  async endTurn(request: MessageInitShape<typeof EndTurnRequestSchema>, options?: CallLimits): Promise<EndTurnResponse> {
    return (await this.one({ case: "endTurn", value: request }, options)) as EndTurnResponse;
  }

  /** Takes no more operations, and ends once those in flight have. */
  async close(): Promise<void> {
    this.closing = true;
    this.wake();
    await this.ended;
  }

  private async one(request: Request, options?: CallLimits): Promise<SessionResult["response"]["value"]> {
    for await (const { response } of this.begin(request, options)) {
      return response.value;
    }
    throw new ConnectError("the operation ended without an answer", Code.Internal);
  }

  private begin(request: Request, options?: CallLimits): Operation {
    const id = ++this.newest;
    const operation = new Operation(
      (bytes, over) => this.grant(id, bytes, over),
      () => this.abandon(id),
    );
    if (!this.usable) {
      operation.end(new NotSent("the lane has ended"));
      return operation;
    }
    this.operations.set(id, operation);
    this.unsent.add(id);
    const { timeoutMs, signal, headers } = options ?? {};
    const deadline = timeoutMs === undefined ? {} : { deadline: durationFromMs(Math.max(1, Math.floor(timeoutMs))) };
    if (timeoutMs !== undefined) {
      operation.leave(new ConnectError("the deadline has passed", Code.DeadlineExceeded), Math.max(1, timeoutMs));
    }
    signal?.addEventListener("abort", () => operation.leave(new ConnectError("left", Code.Canceled)), { once: true });
    const trace = { traceparent: headers?.["traceparent"] ?? "", tracestate: headers?.["tracestate"] ?? "" };
    const creditBytes = BigInt(OPERATION_CREDIT);
    this.send({ operations: [{ correlationId: id, creditBytes, request, ...deadline, ...trace }] });
    return operation;
  }

  /** Tells the sidecar that nothing waits for an operation, unless the sidecar never heard of it. */
  private abandon(id: bigint): void {
    if (this.unsent.delete(id)) {
      const at = this.queue.findIndex((one) => one.operations?.[0]?.correlationId === id);
      this.queue.splice(at, 1);
      this.operations.delete(id);
    } else {
      this.send({ abandons: [id] });
    }
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

  /** Gives what is queued when the last message has left, as one message within the limits of the hello. */
  private async *outgoing(): AsyncIterable<Message> {
    for (;;) {
      const queued = this.taken();
      if (queued.length > 0) {
        const operations = queued.flatMap((one) => one.operations ?? []);
        operations.forEach((one) => this.unsent.delete(one.correlationId ?? 0n));
        yield {
          hello: queued[0]?.hello,
          heartbeat: queued.find((one) => one.heartbeat)?.heartbeat,
          operations,
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

  private taken(): Message[] {
    const most = Math.min(MESSAGE_BYTES, Number(this.greeting?.maxMessageBytes ?? MESSAGE_BYTES)) - BYTES_BESIDE;
    let bytes = 0;
    let count = 0;
    for (const one of this.queue) {
      bytes += one.operations ? toBinary(SessionRequestSchema, create(SessionRequestSchema, one)).length : 0;
      if (count > 0 && (bytes > most || count >= MOST_PARTS)) {
        break;
      }
      count++;
    }
    return this.queue.splice(0, count);
  }

  private async read(messages: AsyncIterable<SessionResponse>, opened: Opened): Promise<void> {
    let failure = new ConnectError("the lane has ended", Code.Unavailable);
    try {
      for await (const message of messages) {
        this.take(message, opened);
      }
    } catch (error) {
      failure = ConnectError.from(error);
    } finally {
      this.over = true;
      clearInterval(this.beat);
      opened.reject(failure);
      for (const [id, operation] of this.operations) {
        const message = `the lane broke: ${failure.rawMessage}`;
        operation.end(this.unsent.has(id) ? new NotSent(message) : new ConnectError(message, Code.Unavailable));
      }
      this.operations.clear();
      this.wake();
      this.abort.abort();
    }
  }

  private take(message: SessionResponse, opened: Opened): void {
    this.heardAt = performance.now();
    if (message.hello !== undefined) {
      this.greeting = message.hello;
      const intervalMs = 1000 * Math.max(1, Number(message.hello.heartbeatInterval?.seconds ?? 10n));
      this.beat = setInterval(() => {
        if (performance.now() - this.heardAt > SILENT_INTERVALS * intervalMs) {
          this.giveUp();
        }
        this.send({ heartbeat: {} });
      }, intervalMs / 2);
      this.beat.unref();
      opened.resolve();
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

async function* responses<T>(operation: Operation): AsyncIterable<T> {
  for await (const { response } of operation) {
    yield response.value as T;
  }
}

interface Opened {
  readonly resolve: () => void;
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
