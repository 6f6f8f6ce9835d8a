// Which lane requests go over: opened where the sidecar offers one, renewed when it drains or ends.

import type { Contract } from "./generated/subagents/dispatch/v1/dispatch_pb.js";
import { Lane, type LaneService, offersLane } from "./lane.js";

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 30_000;
const OPENING_MS = 5_000;

/** The lanes of one client; at most one takes new requests. */
export class Lanes {
  private contract: Contract | undefined;
  private lane: Lane | undefined;
  private opening: Promise<void> | undefined;
  private readonly draining = new Set<Lane>();
  private previousId = "";
  private pauseMs = 0;
  private notBefore = 0;
  private closed = false;

  constructor(
    private readonly service: LaneService,
    private readonly enabled: boolean,
  ) {}

  /** Takes note of what the sidecar offers, and opens a lane if there is none. */
  offered(contract: Contract | undefined): void {
    if (this.enabled && offersLane(contract)) {
      this.contract = contract;
      this.current();
    }
  }

  /** Returns the lane that takes requests; undefined: use the plain RPCs. */
  current(): Lane | undefined {
    const lane = this.lane;
    if (lane === undefined || !lane.usable || lane.drain !== undefined) {
      this.open();
    }
    return lane?.usable ? lane : undefined;
  }

  /** The same, but waits for a lane that is being opened. */
  async ready(): Promise<Lane | undefined> {
    const lane = this.current();
    if (lane === undefined) {
      await this.opening;
    }
    return lane ?? this.current();
  }

  close(): void {
    this.closed = true;
    this.lane?.giveUp();
    this.draining.forEach((lane) => lane.giveUp());
  }

  private open(): void {
    const contract = this.contract;
    if (contract !== undefined && this.opening === undefined && !this.closed && performance.now() >= this.notBefore) {
      this.opening = this.takeOver(contract).finally(() => (this.opening = undefined));
    }
  }

  private async takeOver(contract: Contract): Promise<void> {
    try {
      const lane = await Lane.open(this.service, contract, this.previousId, OPENING_MS);
      const before = this.lane;
      this.lane = lane;
      this.previousId = lane.hello.laneId;
      this.pauseMs = 0;
      if (this.closed) {
        lane.giveUp();
      }
      if (before !== undefined) {
        this.draining.add(before);
        void before.close().finally(() => this.draining.delete(before));
      }
    } catch {
      // Everything a lane does, the plain RPCs do as well: the failure shows there if it concerns them.
      this.pauseMs = Math.min(LONGEST_PAUSE_MS, Math.max(FIRST_PAUSE_MS, 2 * this.pauseMs));
      this.notBefore = performance.now() + this.pauseMs * (0.5 + Math.random() / 2);
    }
  }
}
