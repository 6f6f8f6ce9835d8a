// The way in: connect to the sidecar, bind turns, read conversations.

import { randomUUID } from "node:crypto";

import { create, type DescMessage, type MessageInitShape } from "@bufbuild/protobuf";

import { checkRequest } from "./checking.js";
import type { Options } from "./connecting.js";
import { errorFrom } from "./errors.js";
import { BindTurnRequestSchema } from "./generated/subagents/dispatch/v1/dispatch_pb.js";
import {
  ExportReplayRequestSchema,
  GetTurnRequestSchema,
  type GetTurnResponse,
  ListEpisodesRequestSchema,
  type ListEpisodesResponse,
  ListTurnsRequestSchema,
  type ListTurnsResponse,
  ReadEpisodeRequestSchema,
  type ReadEpisodeResponse,
  RecordScoreRequestSchema,
  type RecordScoreResponse,
  WatchEventsRequestSchema,
  type WatchEventsResponse,
  WriteSummaryRequestSchema,
  type WriteSummaryResponse,
} from "./generated/subagents/history/v1/history_pb.js";
import { retried } from "./retrying.js";
import { BoundTurn } from "./turn.js";
import { Wire } from "./wire.js";

/** A client of one sidecar: open it once, use it for many turns at a time, and close it. */
export class SidecarClient {
  /** What is on record of conversations and turns. Reads change nothing; all requests are safe to repeat. */
  readonly history: History;
  private readonly wire: Wire;

  /** Returns a client; the connection is made when it is first needed. */
  constructor(options: Options) {
    this.wire = new Wire(options);
    this.history = new History(this.wire);
  }

  /**
   * Decides what one turn may call, and freezes it. Call it before the model is called.
   *
   * Safe to repeat with the same `turnId` and contents; outlasts a restart of the sidecar within its timeout.
   *
   * @param request `turnId` may be left out: a new one is made
   * @throws SidecarError the request is wrong, or the sidecar could not do it now: go on without sub-agents
   */
  async bindTurn(
    request: MessageInitShape<typeof BindTurnRequestSchema>,
    timeoutMs = this.wire.timeouts.bindMs,
  ): Promise<BoundTurn> {
    const whole = { ...request, turnId: request.turnId || randomUUID() };
    const bound = await retried(
      (left) => {
        const [service] = this.wire.via(BindTurnRequestSchema, whole);
        return service.bindTurn(whole, { timeoutMs: left, headers: this.wire.traceHeaders() });
      },
      this.wire.where("BindTurn"),
      timeoutMs,
      this.wire.timeouts,
    );
    this.wire.lanes.offered(bound.contract);
    return new BoundTurn(this.wire, whole.turnId, bound);
  }

  /** Binds a turn, does some work, and ends the turn whatever happens in between; `BoundTurn.end` may come before. */
  async withTurn<T>(
    request: MessageInitShape<typeof BindTurnRequestSchema>,
    work: (turn: BoundTurn) => Promise<T>,
  ): Promise<T> {
    const turn = await this.bindTurn(request);
    try {
      return await work(turn);
    } finally {
      await turn.abandon();
    }
  }

  /** Closes the connection; requests in flight fail at once. Without it the process does not end for a while. */
  close(): void {
    this.wire.close();
  }
}

/** Conversations, and the record of turns. */
export class History {
  constructor(private readonly wire: Wire) {}

  /** Reads what is kept of a conversation; it is empty if nothing is kept. */
  async readEpisode(request: MessageInitShape<typeof ReadEpisodeRequestSchema>): Promise<ReadEpisodeResponse> {
    return this.ask("ReadEpisode", ReadEpisodeRequestSchema, request, (limits) =>
      this.wire.history.readEpisode(request, limits),
    );
  }

  /** Replaces the rolling summary of a conversation, while a bind says that compaction is due. */
  async writeSummary(request: MessageInitShape<typeof WriteSummaryRequestSchema>): Promise<WriteSummaryResponse> {
    return this.ask("WriteSummary", WriteSummaryRequestSchema, request, (limits) =>
      this.wire.history.writeSummary(request, limits),
    );
  }

  /** Returns a page of turns, newest first. */
  async listTurns(request: MessageInitShape<typeof ListTurnsRequestSchema> = {}): Promise<ListTurnsResponse> {
    return this.ask("ListTurns", ListTurnsRequestSchema, request, (limits) =>
      this.wire.history.listTurns(request, limits),
    );
  }

  /** Returns all that is on record of a turn, or of some of its children. */
  async getTurn(request: MessageInitShape<typeof GetTurnRequestSchema>): Promise<GetTurnResponse> {
    return this.ask("GetTurn", GetTurnRequestSchema, request, (limits) => this.wire.history.getTurn(request, limits));
  }

  /** Returns the conversations on record, those used last first. */
  async listEpisodes(request: MessageInitShape<typeof ListEpisodesRequestSchema> = {}): Promise<ListEpisodesResponse> {
    return this.ask("ListEpisodes", ListEpisodesRequestSchema, request, (limits) =>
      this.wire.history.listEpisodes(request, limits),
    );
  }

  /** Records what a user or a rule says of one call, also long after its turn has ended. Safe to repeat. */
  async recordScore(request: MessageInitShape<typeof RecordScoreRequestSchema>): Promise<RecordScoreResponse> {
    return this.ask("RecordScore", RecordScoreRequestSchema, request, (limits) =>
      this.wire.history.recordScore(request, limits),
    );
  }

  /** Returns everything that a replay of a turn needs, as JSON text for `sidecar replay --from`. */
  async exportReplay(request: MessageInitShape<typeof ExportReplayRequestSchema>): Promise<string> {
    return this.ask("ExportReplay", ExportReplayRequestSchema, request, async (limits) => {
      const pieces: string[] = [];
      for await (const piece of this.wire.history.exportReplay(request, limits)) {
        pieces.push(piece.documentJson);
      }
      return pieces.join("");
    });
  }

  /** Watches a turn until it ends, or until `signal` is aborted. A stream that breaks throws; ask again. */
  async *watchEvents(
    request: MessageInitShape<typeof WatchEventsRequestSchema>,
    signal?: AbortSignal,
  ): AsyncIterable<WatchEventsResponse> {
    try {
      checkRequest(WatchEventsRequestSchema, create(WatchEventsRequestSchema, request));
      yield* this.wire.history.watchEvents(request, signal === undefined ? {} : { signal });
    } catch (thrown) {
      throw errorFrom(thrown, this.wire.where("WatchEvents"));
    }
  }

  private async ask<Desc extends DescMessage, T>(
    method: string,
    schema: Desc,
    request: MessageInitShape<Desc>,
    send: (limits: { timeoutMs: number }) => Promise<T>,
  ): Promise<T> {
    checkRequest(schema, create(schema, request));
    const { timeouts } = this.wire;
    return retried((timeoutMs) => send({ timeoutMs }), this.wire.where(method), timeouts.unaryMs, timeouts);
  }
}
