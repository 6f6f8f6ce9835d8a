// Where the sidecar is, and what proves who calls: the boot secret on its socket, or a certificate over TLS.

import { readFileSync } from "node:fs";
import { connect as connectSocket } from "node:net";
import type { Duplex } from "node:stream";
import { connect as connectSecurely } from "node:tls";

import type { Timeouts } from "./retrying.js";

const BOOT_SECRET_HEADER = "x-subagents-boot-secret";

/** PEM files of a client. They are read for each new connection; those that cannot be read leave the former ones in use. */
export interface TlsFiles {
  /** Authorities whose certificates the sidecar may have. */
  readonly caFile: string;
  /** Own certificate, followed by those between it and the authority. */
  readonly certificateFile: string;
  /** The key of it, not encrypted. */
  readonly keyFile: string;
  /** Name that the sidecar's certificate must have; default: the host of the address. */
  readonly serverName?: string;
}

/** How to connect: to a socket with the boot secret, or to an address with certificates. */
export interface Options {
  /** Path of `server.dispatch_socket`. */
  readonly socket?: string;
  /** `host:port` of `tls.listeners.dispatch`; needs `tls`. */
  readonly address?: string;
  /** Certificates for `address`. They take the place of the boot secret. */
  readonly tls?: TlsFiles;
  /** Path of `server.boot_secret_file`; instead of `bootSecret`. */
  readonly bootSecretFile?: string;
  /** What the sidecar wrote there at its start. */
  readonly bootSecret?: string;
  /** Other timeouts than `DEFAULT_TIMEOUTS`. */
  readonly timeouts?: Partial<Timeouts>;
  /** Carry turns over one long stream where the sidecar offers it; nothing else differs. Default: true. */
  readonly sessionLane?: boolean;
  /** `traceparent` and `tracestate` of the current request. */
  readonly traceHeaders?: () => Record<string, string>;
}

/** How connections are made, and what each request has to say. */
export interface Reached {
  /** For messages of errors. */
  readonly place: string;
  readonly baseUrl: string;
  readonly connect: () => Duplex;
  readonly headers: Record<string, string>;
}

/**
 * Returns how the sidecar is reached.
 *
 * @throws TypeError the options do not fit each other
 * @throws Error a file cannot be read
 */
export function reached(options: Options): Reached {
  const { socket, address, tls } = options;
  if (address !== undefined) {
    if (socket !== undefined || options.bootSecret !== undefined || options.bootSecretFile !== undefined) {
      throw new TypeError("give either address and tls, or socket and a boot secret: a certificate takes its place");
    }
    if (tls === undefined) {
      throw new TypeError("address needs tls: the sidecar serves nothing over TCP without certificates");
    }
    const connect = secured(address, tls);
    return { place: address, baseUrl: `https://${address}`, connect, headers: {} };
  }
  if (socket === undefined || tls !== undefined) {
    throw new TypeError("give socket, or address and tls: a Unix socket carries no TLS");
  }
  return {
    place: socket,
    baseUrl: "http://sidecar", // only a name: the connection is the socket
    connect: () => connectSocket(socket),
    headers: { [BOOT_SECRET_HEADER]: secretOf(options) },
  };
}

/** Returns what makes connections with the certificates as the files have them then. */
function secured(address: string, tls: TlsFiles): () => Duplex {
  const { hostname, port } = new URL(`https://${address}`);
  const host = hostname.replace(/^\[|\]$/g, "");
  if (port === "" && !address.endsWith(":443")) {
    throw new TypeError(`${address} has no port: give host:port`);
  }
  const read = () => ({
    ca: readFileSync(tls.caFile),
    cert: readFileSync(tls.certificateFile),
    key: readFileSync(tls.keyFile),
  });
  let files = read();
  return () => {
    try {
      files = read();
    } catch {
      // they are being replaced, or gone: the sidecar decides whether the former ones still count
    }
    const name = tls.serverName ?? host;
    const servername = /^[0-9.]+$|:/.test(name) ? "" : name; // an address is not announced, only compared
    return connectSecurely({
      ...files,
      host,
      port: Number(port || 443),
      servername,
      ALPNProtocols: ["h2"],
      minVersion: "TLSv1.2",
    });
  };
}

function secretOf(options: Options): string {
  if (options.bootSecretFile === undefined) {
    return options.bootSecret ?? "";
  }
  if (options.bootSecret !== undefined) {
    throw new TypeError("give bootSecret or bootSecretFile, not both");
  }
  return readFileSync(options.bootSecretFile, "utf8").trim();
}
