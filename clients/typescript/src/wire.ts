// One connection to one sidecar: credentials, deadlines, and the choice between the lane and the plain RPCs.

import { create, type DescMessage, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { type Client, createClient, type Interceptor } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";

import { checkRequest } from "./checking.js";
import { type Options, reached } from "./connecting.js";
import { DispatchService } from "./generated/subagents/dispatch/v1/dispatch_pb.js";
import { HistoryService } from "./generated/subagents/history/v1/history_pb.js";
import { Lane } from "./lane.js";
import { Lanes } from "./lanes.js";
import { Deadline, DEFAULT_TIMEOUTS, sleep, type Timeouts } from "./retrying.js";

/** When the request was sent, in Unix milliseconds: the sidecar refuses binds that have waited too long. */
const SENT_AT_HEADER = "x-subagents-sent-at";

const MOST_MESSAGE_BYTES = 4 * 1024 * 1024;
const RECONNECT_MS = 100;

/** What a turn needs: the plain RPCs have it, and so has a lane. */
export type TurnService = Pick<
  Lane,
  "bindTurn" | "dispatch" | "resumeDispatch" | "cancelCall" | "closeChild" | "endTurn"
>;

export class Wire {
  readonly timeouts: Timeouts;
  readonly lanes: Lanes;
  readonly history: Client<typeof HistoryService>;
  private readonly place: string;
  private readonly plain: Client<typeof DispatchService>;
  private readonly sessions: Http2SessionManager;
  readonly traceHeaders: () => Record<string, string>;

  constructor(options: Options) {
    const { place, baseUrl, connect, headers } = reached(options);
    this.place = place;
    this.timeouts = { ...DEFAULT_TIMEOUTS, ...options.timeouts };
    this.traceHeaders = options.traceHeaders ?? (() => ({}));
    const withHeaders: Interceptor = (next) => (request) => {
      const sent = { [SENT_AT_HEADER]: String(process.hrtime.bigint() / 1_000_000n) };
      const all = { ...headers, ...sent, ...this.traceHeaders() };
      Object.entries(all).forEach(([name, value]) => request.header.set(name, value));
      return next(request);
    };
    this.sessions = new Http2SessionManager(
      baseUrl,
      { pingIntervalMs: 10_000, pingTimeoutMs: 3_000 }, // without pings a hung sidecar is noticed at the deadline only
      { createConnection: connect },
    );
    const transport = createGrpcTransport({
      baseUrl,
      sessionManager: this.sessions,
      interceptors: [withHeaders],
      readMaxBytes: MOST_MESSAGE_BYTES,
    });
    this.plain = createClient(DispatchService, transport);
    this.history = createClient(HistoryService, transport);
    this.lanes = new Lanes(this.plain, options.sessionLane ?? true);
  }

  /**
   * Returns what carries a request, and which run of the sidecar answers; the plain RPCs do not say which.
   *
   * @throws SidecarError the request breaks a rule of the protos
   */
  via<Desc extends DescMessage>(schema: Desc, request: MessageInitShape<Desc>): [TurnService, string] {
    const message = create(schema, request);
    checkRequest(schema, message);
    const lane = this.lanes.current();
    if (lane !== undefined && lane.takes(toBinary(schema, message).length)) {
      return [lane, lane.hello.instanceId];
    }
    return [this.plain, ""];
  }

  /** Waits for the connection for at most so long, and says whether it stands. */
  async connected(limitMs: number): Promise<boolean> {
    const deadline = new Deadline(limitMs);
    for (;;) {
      const state = await within(this.sessions.connect(), deadline.left);
      if (state === "open" || state === "idle") {
        return true;
      }
      if (deadline.left <= RECONNECT_MS) {
        return false;
      }
      await sleep(RECONNECT_MS);
    }
  }

  where(method: string): string {
    return `${method} at ${this.place}`;
  }

  close(): void {
    this.lanes.close();
    this.sessions.abort();
  }
}

/** Awaits a promise for at most so long; undefined: it takes longer. */
async function within<T>(promise: Promise<T>, milliseconds: number): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => (timer = setTimeout(() => resolve(undefined), milliseconds)));
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
