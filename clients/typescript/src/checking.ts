// Checks a request against the rules of the protos before it is sent.
//
// The sidecar enforces the same rules: a request that breaks one fails here as it would fail there, without the way.

import type { DescField, DescMessage, MessageShape } from "@bufbuild/protobuf";
import type { Duration } from "@bufbuild/protobuf/wkt";
import { Code } from "@connectrpc/connect";

import { SidecarError } from "./errors.js";
import { type Rule, RULES } from "./rules_table.js";

const ID = "must be 1 to 128 printable ASCII characters without spaces";
/** What the patterns of the rules mean; another one is shown as it is. */
const PATTERNS: Readonly<Record<string, string>> = {
  "^[!-~]{1,128}$": ID,
  "^[!-~]{0,128}$": `${ID}, or empty`,
  "^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,7}$": "must be a BCP 47 tag such as en-US; leave it out if it is unknown",
  "^([0-9]{4}-[0-9]{2}-[0-9]{2})?$": "must be a day as YYYY-MM-DD, or empty",
};
const compiled = new Map<string, RegExp>();

type Fields = Record<string, unknown>;

/** @throws SidecarError with every field that breaks a rule, unless there is none */
export function checkRequest<Desc extends DescMessage>(schema: Desc, request: MessageShape<Desc>): void {
  const problems = [...problemsOf(schema, request as Fields, "")];
  const first = problems[0];
  if (first !== undefined) {
    const others = problems.length > 1 ? ` (and ${problems.length - 1} more)` : "";
    const message = `${schema.name} was not sent: ${first.join(" ")}${others}; correct the request, \`fields\` says what is wrong where`;
    throw new SidecarError(message, Code.InvalidArgument, "INVALID_REQUEST", {}, Object.fromEntries(problems));
  }
}

function* problemsOf(schema: DescMessage, message: Fields, within: string): Generator<[string, string]> {
  for (const rule of RULES[schema.typeName] ?? []) {
    const field = schema.fields.find(({ name }) => name === rule.field);
    const value = field && valueOf(field, message);
    if (field !== undefined && value !== undefined) {
      yield* problemsOfField(rule, field, value, `${within}${field.name}`);
    }
  }
}

function* problemsOfField(rule: Rule, field: DescField, value: unknown, name: string): Generator<[string, string]> {
  if (rule.kind === "message" && field.message !== undefined) {
    yield* problemsOf(field.message, value as Fields, `${name}.`);
  } else if (rule.kind !== "list") {
    const problem = problemOf(rule, value);
    yield* problem === "" ? [] : [[name, problem] satisfies [string, string]];
  } else {
    const values = value as readonly unknown[];
    const outside = problemOf({ ...rule, kind: "number" }, values.length);
    if (outside !== "") {
      yield [name, outside];
      return;
    }
    const each: Rule | undefined = rule.each ?? (field.message && { kind: "message" });
    for (const [place, one] of values.entries()) {
      yield* each === undefined ? [] : problemsOfField(each, field, one, `${name}[${place}]`);
    }
  }
}

/** Returns the value of a field; undefined: it tracks presence, and is not there. */
function valueOf(field: DescField, message: Fields): unknown {
  if (field.oneof === undefined) {
    return message[field.localName];
  }
  const chosen = message[field.oneof.localName] as { case?: string; value?: unknown };
  return chosen.case === field.localName ? chosen.value : undefined;
}

function problemOf(rule: Rule, value: unknown): string {
  if (rule.kind === "text") {
    return problemOfText(rule, value as string | Uint8Array);
  }
  if (rule.kind === "enum") {
    const allowed = rule.allowed ?? [];
    return allowed.includes(value as number) ? "" : `must be one of the numbers ${allowed.join(", ")}`;
  }
  const most = rule.most ?? Infinity;
  if (rule.kind === "duration") {
    const { seconds, nanos } = value as Duration;
    const length = Number(seconds) + nanos / 1e9;
    return length > 0 && length <= most ? "" : `must be more than 0 and at most ${most / 3600} hours`;
  }
  const least = rule.least ?? 0;
  const number = value as number | bigint;
  return number >= least && number <= most ? "" : `must be from ${least} to ${most}, was ${number}`;
}

function problemOfText(rule: Rule, value: string | Uint8Array): string {
  const { pattern, least = 0, most = Infinity, most_bytes: mostBytes = Infinity } = rule;
  if (pattern !== undefined && typeof value === "string" && !expression(pattern).test(value)) {
    return PATTERNS[pattern] ?? `must match ${pattern}`;
  }
  if (value.length < least) {
    return least === 1 ? "is empty" : `must have at least ${least} characters`;
  }
  if (value.length > most && [...value].length > most) {
    return `is over ${most} characters`; // of Unicode; `length` counts some of them twice
  }
  const bytes = typeof value === "string" ? Buffer.byteLength(value) : value.length;
  return bytes > mostBytes ? `is over ${mostBytes / 1024} KiB` : "";
}

function expression(pattern: string): RegExp {
  const known = compiled.get(pattern) ?? new RegExp(pattern, "u");
  compiled.set(pattern, known);
  return known;
}
