// Why a request failed, and whether the sidecar itself said so.

import { Code, ConnectError } from "@connectrpc/connect";

import { BadRequestSchema, ErrorInfoSchema, RetryInfoSchema } from "./generated/google/rpc/error_details_pb.js";

/** Domain of every `ErrorInfo` that the sidecar itself sends; others are a proxy's. */
export const ERROR_DOMAIN = "sidecar.subagents";

/** What a caller can do, by code. */
const ADVICE: Partial<Record<Code, string>> = {
  [Code.Unavailable]: "check that the sidecar runs and that the address is its socket, then try again",
  [Code.DeadlineExceeded]: "try again with a longer timeout; see Timeouts",
  [Code.ResourceExhausted]: "send less at a time, and try again after retryAfterMs if it is set",
  [Code.Unauthenticated]: "check that the boot secret is the one that the sidecar wrote at its last start",
  [Code.InvalidArgument]: "correct the request; `fields` says what is wrong where",
  [Code.NotFound]: "check the id; the sidecar may have been restarted since, then bind again",
  [Code.Aborted]: "read the present state, then decide again",
};
const NO_ADVICE = "do not repeat the request as it is; the sidecar's log has the details";
/** Failures of the transport: connect-node reports a broken connection as any of these. */
const BROKEN = [Code.Aborted, Code.Canceled, Code.DataLoss, Code.Internal, Code.Unavailable, Code.Unknown];

/** A request failed. The message says what, where and what to do. */
export class SidecarError extends Error {
  override readonly name = "SidecarError";

  constructor(
    message: string,
    /** The code of gRPC; `Code.Unavailable` for a broken connection. */
    readonly code: Code,
    /** A name of `ErrorReason` without its prefix, e.g. `INVALID_REQUEST`; empty if the sidecar did not answer. */
    readonly reason = "",
    /** What `ErrorInfo.metadata` says, e.g. a limit. */
    readonly metadata: Readonly<Record<string, string>> = {},
    /** What is wrong, by path of the field. */
    readonly fields: Readonly<Record<string, string>> = {},
    /** When to come back, in milliseconds; undefined: the sidecar did not say. */
    readonly retryAfterMs?: number,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }

  /** Whether the sidecar itself answered; if not, nothing is known of what became of the request. */
  get answered(): boolean {
    return this.reason !== "";
  }

  /** Whether a request that is safe to repeat may be repeated. */
  get retryable(): boolean {
    const later = this.code === Code.ResourceExhausted && this.retryAfterMs !== undefined;
    return this.code === Code.Unavailable || this.reason === "RECORD_CONFLICT" || later;
  }

  /** Whether the request, not the moment, is at fault. */
  get callerCanCorrect(): boolean {
    const moment = [Code.Unavailable, Code.DeadlineExceeded, Code.Internal, Code.Unknown, Code.DataLoss];
    return !moment.includes(this.code) && this.retryAfterMs === undefined;
  }
}

/** A lane broke before the request left: the sidecar has begun nothing. */
export class NotSent extends ConnectError {
  constructor(message: string) {
    super(message, Code.Unavailable);
  }
}

/**
 * Returns what a thrown value stands for.
 *
 * @param thrown by Connect or by a lane
 * @param where method and address, for the message
 */
export function errorFrom(thrown: unknown, where: string): SidecarError {
  if (thrown instanceof SidecarError) {
    return thrown;
  }
  const error = ConnectError.from(thrown);
  const info = error.findDetails(ErrorInfoSchema).find((one) => one.domain === ERROR_DOMAIN);
  if (info === undefined) {
    const code = BROKEN.includes(error.code) ? Code.Unavailable : error.code;
    const message = `no answer to ${where} (${Code[code]}): ${ADVICE[code] ?? NO_ADVICE}`;
    return new SidecarError(message, code, "", {}, {}, undefined, { cause: thrown });
  }
  const violations = error.findDetails(BadRequestSchema).flatMap((one) => one.fieldViolations);
  const delay = error.findDetails(RetryInfoSchema)[0]?.retryDelay;
  return new SidecarError(
    `${where} failed (${info.reason}): ${error.rawMessage}; ${ADVICE[error.code] ?? NO_ADVICE}`,
    error.code,
    info.reason,
    info.metadata,
    Object.fromEntries(violations.map((one) => [one.field, one.description])),
    delay === undefined ? undefined : Number(delay.seconds) * 1000 + delay.nanos / 1e6,
    { cause: thrown },
  );
}
