"""`python -m examples.ccs --port 0`: prints `{"address": ...}` as one line, then serves until SIGTERM or Ctrl-C.

With `--grpc`, the line has a member `grpc` too: the target at which `EnricherService` is served.
"""

import argparse
import asyncio
import json
import socket
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import uvicorn

from examples.ccs.faults import Fault
from examples.ccs.server import ReferenceCcs
from examples.ccs.signing import Signer
from examples.http_serving import address_of, config_of, listening


def main() -> None:
    """Serve until told to stop."""
    parser = argparse.ArgumentParser(prog="python -m examples.ccs", description="Reference data service with faults.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free port (default)")
    parser.add_argument("--faults", type=Path, help="JSON file with a list of switches to start with")
    parser.add_argument("--grpc", default="", help="serve over gRPC too, e.g. at 127.0.0.1:0 or unix:/tmp/ccs.sock")
    parser.add_argument("--sign", default="", metavar="ID=FILE", help="sign every answer with the key in that file")
    options = parser.parse_args()
    sock = listening(options.host, options.port)
    ccs = ReferenceCcs(signer=_signer(options.sign))
    for fault in _faults_in(options.faults):
        ccs.faults.set(fault)
    asyncio.run(_serve(ccs, sock, options.grpc))


async def _serve(ccs: ReferenceCcs, sock: socket.socket, grpc_target: str) -> None:
    told = {"address": address_of(sock)}
    async with AsyncExitStack() as stack:
        if grpc_target:
            from examples.ccs.grpc_front import serving_grpc  # noqa: PLC0415  gRPC takes time to load

            told["grpc"] = await stack.enter_async_context(serving_grpc(ccs, grpc_target))
        print(json.dumps(told), flush=True)
        await uvicorn.Server(config_of(ccs.app())).serve(sockets=[sock])


def _signer(said: str) -> Signer | None:
    key_id, _, file = said.partition("=")
    return Signer(key_id, Path(file).read_text("utf-8").strip().encode()) if said else None


def _faults_in(path: Path | None) -> list[Fault]:
    text: Any = b"[]" if path is None else path.read_bytes()
    return msgspec.json.decode(text, type=list[Fault])


if __name__ == "__main__":
    main()
