// What a sub-agent asks back, and the answer that a call of a later turn brings.

import type { MessageInitShape } from "@bufbuild/protobuf";

import {
  Answerer,
  type AnsweringSchema,
  Decision,
  type Question,
  QuestionKind,
} from "./generated/subagents/dispatch/v1/question_pb.js";

const ASKS_BACK = "The assistant has not answered yet and asks back:";

/** The answer to a question; a `Call` to the same tool brings it. */
export type QuestionAnswer = MessageInitShape<typeof AnsweringSchema>;

/** Returns an answer in words. Words that a model wrote are by `Answerer.ORCHESTRATOR`. */
export function answered(question: Question, text: string, by: Answerer = Answerer.USER): QuestionAnswer {
  return { receipt: question.receipt, text, answeredBy: by };
}

/** Returns that the user has approved, or has given the authorisation at the service. */
export function approved(question: Question, text = ""): QuestionAnswer {
  return { receipt: question.receipt, text, decision: Decision.APPROVED, answeredBy: Answerer.USER };
}

/** Returns that the user has declined; the sub-agent continues and is told so. */
export function declined(question: Question, text = ""): QuestionAnswer {
  return { receipt: question.receipt, text, decision: Decision.DECLINED, answeredBy: Answerer.USER };
}

/** Returns what the model is told: the question, and what it can do about it. It never sees the receipt. */
export function questionMessage(question: Question, toolName: string): string {
  return `${ASKS_BACK} ${question.text}\n\n${whatToDo(question, toolName)}`;
}

function whatToDo(question: Question, toolName: string): string {
  if (question.kind === QuestionKind.NEEDS_INPUT) {
    const byModel = question.answerer === Answerer.ORCHESTRATOR;
    const who = byModel ? "Answer it if you know the answer, else ask the user" : "Ask the user";
    return `${who}. To answer, call ${toolName} again with the answer as the request.`;
  }
  const what = question.kind === QuestionKind.NEEDS_AUTHORISATION ? "authorise it" : "approve or decline";
  return `Only the user can ${what}, in the application. Tell the user what is asked; do not decide it.`;
}
