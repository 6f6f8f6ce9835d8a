// A client of the dispatch sidecar: the generated service over HTTP/2 on a Unix socket, with the boot secret, and the
// reason of a failed call.

import { readFileSync } from "node:fs";
import { connect as connectSocket } from "node:net";

import { type Client, ConnectError, createClient, type Interceptor } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";

import { BadRequestSchema, ErrorInfoSchema } from "./generated/google/rpc/error_details_pb.js";
import { DispatchService } from "./generated/subagents/dispatch/v1/dispatch_pb.js";

/** Domain of every `ErrorInfo` that the sidecar itself sends; others are a proxy's. */
export const ERROR_DOMAIN = "sidecar.subagents";

const BOOT_SECRET_HEADER = "x-subagents-boot-secret";
const MOST_MESSAGE_BYTES = 4 * 1024 * 1024;

/** The typed client and its connection. */
export interface Sidecar {
  readonly dispatch: Client<typeof DispatchService>;
  /** Closes the connection; without it the process does not end by itself for a while. */
  close(): void;
}

/** Why a call failed. */
export interface Failure {
  /** A name of `ErrorReason` without its prefix, e.g. `INVALID_REQUEST`. */
  readonly reason: string;
  /** What `ErrorInfo.metadata` says, e.g. a limit. */
  readonly metadata: Record<string, string>;
  /** What is wrong, by path of the field. */
  readonly fields: Record<string, string>;
}

/**
 * Opens a client on the sidecar's dispatch socket; connects when it is first used.
 *
 * @param socket path of `server.dispatch_socket`
 * @param bootSecretFile path of `server.boot_secret_file`
 */
export function openSidecar(socket: string, bootSecretFile: string): Sidecar {
  const secret = readFileSync(bootSecretFile, "utf8").trim();
  const withSecret: Interceptor = (next) => (request) => {
    request.header.set(BOOT_SECRET_HEADER, secret);
    return next(request);
  };
  const baseUrl = "http://sidecar"; // only a name: the connection is the socket
  const sessionManager = new Http2SessionManager(baseUrl, {}, { createConnection: () => connectSocket(socket) });
  const transport = createGrpcTransport({
    baseUrl,
    sessionManager,
    interceptors: [withSecret],
    readMaxBytes: MOST_MESSAGE_BYTES,
  });
  return { dispatch: createClient(DispatchService, transport), close: () => sessionManager.abort() };
}

/** Returns why a call failed, or undefined when the sidecar itself has not said so (the transport broke, say). */
export function failureOf(error: unknown): Failure | undefined {
  if (!(error instanceof ConnectError)) {
    return undefined;
  }
  const info = error.findDetails(ErrorInfoSchema).find((one) => one.domain === ERROR_DOMAIN);
  if (info === undefined) {
    return undefined;
  }
  const violations = error.findDetails(BadRequestSchema).flatMap((one) => one.fieldViolations);
  return {
    reason: info.reason,
    metadata: info.metadata,
    fields: Object.fromEntries(violations.map((one) => [one.field, one.description])),
  };
}
