// Plays a scenario with the TypeScript client: `node run.mjs SCENARIO SOCKET SECRET_FILE CONTROL [--plain]`.
// See README.md for the steps and lines. Runs in a project that has installed `subagents-client`.

import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { connect } from "node:net";

import {
  approved,
  ErrorReason,
  FinalStatus,
  OnDisconnect,
  Outcome,
  QuestionKind,
  SidecarClient,
  toolMessage,
  TurnSource,
} from "subagents-client";

const [scenario, socket, bootSecretFile, control, ...options] = process.argv.slice(2);
const episodeId = `episode-${randomUUID()}`;
const questions = new Map(); // by the id of the call that asks

/** Asks for the connection to the sidecar to be cut, and waits until it is. */
async function cut() {
  await new Promise((resolve, reject) => connect(control).on("close", resolve).on("error", reject).resume());
}

function showOutcomes(result) {
  for (const one of result.outcomes) {
    if (one.question) {
      questions.set(one.callId, one.question);
      console.log("question", one.callId, QuestionKind[one.question.kind], one.question.text);
      continue;
    }
    console.log("outcome", one.callId, Outcome[one.outcome], one.status ? ErrorReason[one.status.reason] : "-", toolMessage(one));
  }
}

async function dispatch(turn, step) {
  const calls = step.calls.map(({ id, tool, request, approves }) => ({
    callId: id,
    toolName: tool,
    argumentsJson: JSON.stringify({ request }),
    answering: approves && approved(questions.get(approves)),
  }));
  const dispatchId = `${step.dispatch}-${randomUUID()}`;
  const stream = turn.dispatch(calls, { dispatchId, onDisconnect: OnDisconnect.CONTINUE });
  for await (const { kind } of stream) {
    if (kind.case !== "status") {
      continue;
    }
    console.log("status", kind.value.type, kind.value.subAgentIds.join(","));
    for (const action of step.when.filter(({ status }) => status === kind.value.type)) {
      if (action.do === "cut") {
        await cut();
        console.log("cut");
      } else if (action.do === "cancel") {
        console.log("cancelled", action.call, await turn.cancelCall(dispatchId, action.call));
      }
    }
  }
  showOutcomes((await stream.result()).result);
}

const sidecar = new SidecarClient({ socket, bootSecretFile, sessionLane: !options.includes("--plain") });
let turn;
for (const step of JSON.parse(readFileSync(scenario, "utf8")).steps) {
  if (step.do === "bind") {
    const { principal, locale } = step;
    turn = await sidecar.bindTurn({ principal, locale, episodeId, source: TurnSource.CHAT });
    console.log("bound", turn.surface.subAgentTools.map(({ name }) => name).join(","), "cap", turn.surface.fanOutCap);
  } else if (step.do === "dispatch") {
    await dispatch(turn, step);
  } else if (step.do === "end") {
    const ended = await turn.end({ narration: step.narration });
    ended.children.forEach((child) => console.log("ended", child.subAgentId, FinalStatus[child.finalStatus].toLowerCase()));
    console.log("gate", ended.gatePassed ? "passed" : "failed");
  } else {
    throw new Error(`no step ${step.do}`);
  }
}
sidecar.close();
