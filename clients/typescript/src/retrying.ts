// What may be sent again, and when. Only requests that the contract calls safe to repeat come here.

import { errorFrom, type SidecarError } from "./errors.js";

/** How long the client takes for things, in milliseconds. */
export interface Timeouts {
  /** For `bindTurn`. */
  readonly bindMs: number;
  /** For a whole dispatch, until its outcomes are there. */
  readonly dispatchMs: number;
  /** For every other request. */
  readonly unaryMs: number;
  /** A dispatch is given up after so long without any connection to the sidecar. */
  readonly unreachableAfterMs: number;
  /** A dispatch is settled so long before its own deadline. */
  readonly settleMarginMs: number;
  /** How often one request is sent at most if the sidecar itself refuses it. While it is away, only the timeout counts. */
  readonly mostAttempts: number;
  /** Before the second attempt, at most; doubles with each further one. */
  readonly firstBackoffMs: number;
  /** Between two attempts, unless the sidecar asks for longer. */
  readonly longestBackoffMs: number;
}

export const DEFAULT_TIMEOUTS: Timeouts = {
  bindMs: 5_000,
  dispatchMs: 100_000,
  unaryMs: 5_000,
  unreachableAfterMs: 5_000,
  settleMarginMs: 50,
  mostAttempts: 4,
  firstBackoffMs: 50,
  longestBackoffMs: 500,
};

/** A moment by which something must be over. */
export class Deadline {
  private readonly at: number;

  constructor(milliseconds: number) {
    this.at = performance.now() + milliseconds;
  }

  /** Whole milliseconds until then, as gRPC's timeouts take no fractions; 0 if it has passed. */
  get left(): number {
    return Math.max(0, Math.floor(this.at - performance.now()));
  }
}

/** Returns the milliseconds to wait before an attempt, the second or a later one. */
export function backoffBefore(attempt: number, error: SidecarError, timeouts: Timeouts): number {
  const bound = Math.min(timeouts.firstBackoffMs * 2 ** Math.min(attempt - 2, 16), timeouts.longestBackoffMs);
  return (error.retryAfterMs ?? 0) + Math.random() * bound;
}

export async function sleep(milliseconds: number): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, milliseconds));
}

/**
 * Sends a request that is safe to repeat until it is answered, or time or attempts are used up.
 *
 * A sidecar that restarts drains and is then away for seconds: only the timeout bounds these attempts.
 *
 * @param send sends it once, with the milliseconds that are left
 * @throws SidecarError the last failure
 */
export async function retried<T>(
  send: (leftMs: number) => Promise<T>,
  where: string,
  timeoutMs: number,
  timeouts: Timeouts,
): Promise<T> {
  const deadline = new Deadline(timeoutMs);
  let refusals = 0;
  for (let attempt = 2; ; attempt++) {
    try {
      return await send(Math.max(1, deadline.left));
    } catch (thrown) {
      const error = errorFrom(thrown, where);
      refusals += error.answered && error.reason !== "DRAINING" ? 1 : 0;
      const pause = backoffBefore(attempt, error, timeouts);
      if (!error.retryable || refusals >= timeouts.mostAttempts || pause >= deadline.left) {
        throw error;
      }
      await sleep(pause);
    }
  }
}
