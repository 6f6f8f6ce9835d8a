// What the tests ask of the installed client: `node behaviours.mjs CASE SOCKET SECRET_FILE`; prints a JSON object a line.

import { readFileSync } from "node:fs";
import { dirname } from "node:path";
import { createInterface } from "node:readline";

import { fromBinary } from "@bufbuild/protobuf";

import {
  Answerer,
  answered,
  approved,
  declined,
  DEFAULT_TIMEOUTS,
  EpisodeView,
  ErrorReason,
  Outcome,
  OnDisconnect,
  SidecarClient,
  SidecarError,
  toolMessages,
  TurnSource,
} from "subagents-client";
import * as dispatch from "subagents-client/proto/dispatch/v1/dispatch_pb.js";
import * as history from "subagents-client/proto/history/v1/history_pb.js";

import { checkRequest } from "./node_modules/subagents-client/dist/checking.js";

const [wanted, socket, bootSecretFile] = process.argv.slice(2);
const input = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const WHO = { principal: "user-1", episodeId: "episode-1", source: TurnSource.CHAT };
const show = (line) => console.log(JSON.stringify(line));
const connected = (options = {}) => new SidecarClient({ socket, bootSecretFile, ...options });
const call = (number, toolName, request = "what is new?") => ({
  callId: `call-${number}`,
  toolName,
  argumentsJson: JSON.stringify({ request }),
});
const outcomes = ({ result, synthesisedBecause }) => ({
  outcomes: result.outcomes.map((one) => [one.callId, Outcome[one.outcome], one.status ? ErrorReason[one.status.reason] : ""]),
  synthesised: synthesisedBecause !== undefined,
});
/** Waits until the test says that it has done its part. */
const cue = async (line) => {
  show(line);
  await input.next();
};

const cases = {
  /** Three sub-agents ask back; the calls of the next turn answer them. */
  async questions() {
    const sidecar = connected();
    const tools = ["ask_shop", "ask_rewards", "ask_support"];
    const asked = await sidecar.withTurn(WHO, (turn) => turn.dispatchAndWait(tools.map((tool, place) => call(place, tool))));
    show(toolMessages(asked).map(({ text }) => text));
    const [order, size, login] = asked.result.outcomes.map(({ question }) => question);
    const answers = [declined(order), answered(size, "42", Answerer.ORCHESTRATOR), approved(login, "done")];
    const continued = await sidecar.withTurn(WHO, (turn) =>
      turn.dispatchAndWait(tools.map((tool, place) => ({ ...call(place, tool), answering: answers[place] }))),
    );
    show(toolMessages(continued).map(({ text }) => text));
    sidecar.close();
  },

  /** Over TLS: with its certificate, with one that the sidecar does not list, by a wrong name, of a stranger. */
  async secured() {
    const [address, folder] = [socket, bootSecretFile];
    const files = (name, more = {}) => ({
      caFile: `${folder}/${name}/ca.pem`,
      certificateFile: `${folder}/${name}/tls.crt`,
      keyFile: `${folder}/${name}/tls.key`,
      ...more,
    });
    const tried = async (tls) => {
      const sidecar = new SidecarClient({ address, tls, timeouts: { bindMs: 3_000 } });
      const failure = await sidecar.bindTurn(WHO).catch((error) => error);
      sidecar.close();
      return failure instanceof SidecarError ? failure.reason || "no connection" : "bound";
    };
    const sidecar = new SidecarClient({ address, tls: files("client") });
    const dispatched = await sidecar.withTurn(WHO, (turn) => turn.dispatchAndWait([call(1, "ask_shop")]));
    show({ ...outcomes(dispatched), texts: toolMessages(dispatched).map(({ text }) => text) });
    sidecar.close();
    show({
      unlisted: await tried(files("unlisted")),
      misnamed: await tried(files("client", { serverName: "another.example" })),
      strange: await tried(files("stranger")),
      renewed: await (async () => {
        const again = new SidecarClient({ address, tls: files("renewed") });
        await cue({ ready: true });
        const turn = await again.bindTurn(WHO);
        await turn.end();
        again.close();
        return "bound";
      })(),
    });
    const mistakes = [{ address }, { tls: files("client") }, { address, tls: files("client"), bootSecret: "x" }, { address, tls: files("nowhere") }];
    show(
      mistakes.map((options) => {
        try {
          return new SidecarClient(options) && "accepted";
        } catch (error) {
          return error.message;
        }
      }),
    );
  },

  /** Requests that break a rule, and requests at a limit: the fields that are refused; then two, without any sidecar. */
  async rules() {
    for (const [name, raw] of JSON.parse(readFileSync(`${dirname(bootSecretFile)}/rules.json`, "utf8"))) {
      const schema = dispatch[`${name}Schema`] ?? history[`${name}Schema`];
      try {
        checkRequest(schema, fromBinary(schema, Buffer.from(raw, "base64")));
        show([]);
      } catch (error) {
        show(Object.keys(error.fields));
      }
    }
    const sidecar = connected();
    const binding = await sidecar.bindTurn({ ...WHO, turnId: "turn 2" }).catch((error) => error);
    const reading = await sidecar.history.getTurn({ turnId: "" }).catch((error) => error);
    for (const { code, fields, message, reason } of [binding, reading]) {
      show({ code, fields: Object.keys(fields), message, reason });
    }
    sidecar.close();
  },

  /** A request that keeps to the rules and is wrong: the reason, and what is wrong in which field. */
  async mistake() {
    const sidecar = connected();
    const failure = await sidecar.bindTurn({ ...WHO, date: "2026-02-30" }).catch((error) => error);
    const { reason, fields, code, answered } = failure;
    show({ isError: failure instanceof SidecarError, reason, fields: Object.keys(fields), code, answered, message: failure.message });
    show({ schema: dispatch.BindTurnRequestSchema.typeName });
    sidecar.close();
  },

  /** A bind that begins while there is no sidecar. */
  async restart() {
    const sidecar = connected({ timeouts: { bindMs: 30_000 } });
    const binding = sidecar.bindTurn(WHO);
    await cue({ binding: true });
    const turn = await binding;
    show({ bound: turn.surface.subAgentTools.length });
    await turn.end();
    sidecar.close();
  },

  /** A bind that nothing answers, and no connection at all. */
  async away() {
    const sidecar = connected({ timeouts: { bindMs: 300 } });
    const failure = await sidecar.bindTurn(WHO).catch((error) => error);
    show({ answered: failure.answered, reason: failure.reason, where: failure.message.includes(`BindTurn at ${socket}`) });
    sidecar.close();
  },

  /** The sidecar is gone in the middle of a dispatch: outcomes are synthesised, in order, with the cap. */
  async lost() {
    const sidecar = connected({ timeouts: { unreachableAfterMs: 300, unaryMs: 300 } });
    const turn = await sidecar.bindTurn(WHO);
    const calls = [call(1, "ask_shop"), call(2, "ask_rewards"), call(3, "ask_support")];
    const stream = turn.dispatch(calls, { onDisconnect: OnDisconnect.CONTINUE });
    for await (const { kind } of stream) {
      if (kind.case === "status") {
        await cue({ running: true });
      }
    }
    const dispatched = await stream.result();
    show({ ...outcomes(dispatched), messages: toolMessages(dispatched) });
    await turn.abandon(); // throws nothing
    sidecar.close();
  },

  /** More dispatches at a time than the lane takes, and one that is larger than its messages. */
  async limits() {
    const sidecar = connected();
    const turn = await sidecar.bindTurn(WHO);
    await turn.cancelCall("none", "call-1").catch(() => undefined); // gives the lane the time to open
    for (let ready = 0; ready < 200 && sidecar.wire.lanes.current() === undefined; ready++) {
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
    const three = await Promise.all(
      ["ask_shop", "ask_rewards", "ask_support"].map((name, place) => turn.dispatchAndWait([call(place + 1, name)])),
    );
    show({ parallel: three.map((one) => outcomes(one).outcomes[0]) });
    show({ large: outcomes(await turn.dispatchAndWait([call(4, "ask_shop", "x".repeat(30_000))])).outcomes });
    show({ small: outcomes(await turn.dispatchAndWait([call(5, "ask_shop")])).outcomes });
    await turn.end();
    sidecar.close();
  },

  /** Listens again from another client, as after a restart of the application. */
  async resume() {
    const first = connected();
    const turn = await first.bindTurn(WHO);
    const stream = turn.dispatch([call(1, "ask_shop")], { dispatchId: "dispatch-1", onDisconnect: OnDisconnect.CONTINUE });
    for await (const { kind } of stream) {
      if (kind.case === "status") {
        break; // leaves the dispatch, which runs on
      }
    }
    const left = await stream.result().catch((error) => error.message);
    await cue({ left });
    show(outcomes(await turn.resume("dispatch-1", [], stream.sequence).result()));
    await turn.end();
    first.close();
  },

  /** Ends a turn whatever happens, and reads what is kept of it. */
  async history() {
    const sidecar = connected();
    const turnId = await sidecar.withTurn(WHO, async (turn) => {
      await turn.dispatchAndWait([call(1, "ask_shop")], { taskPrompt: "socks, please" });
      await turn.end({ narration: "Two pairs fit." });
      return turn.turnId;
    });
    const failure = await sidecar.withTurn(WHO, async () => Promise.reject(new Error("a defect"))).catch((error) => error);
    show({ raised: failure.message });
    const { turns } = await sidecar.history.readEpisode({ ...WHO, view: EpisodeView.NARRATION });
    show({ narrations: turns.map((turn) => turn.narration) });
    show({ listed: (await sidecar.history.listTurns()).turns.length });
    const exported = JSON.parse(await sidecar.history.exportReplay({ turnId }));
    show({ exported: Object.keys(exported).length > 0 });
    show({ defaults: DEFAULT_TIMEOUTS.bindMs });
    sidecar.close();
  },
};

await cases[wanted]();
process.stdin.unref?.();
process.exit(0);
