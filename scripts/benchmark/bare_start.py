"""As little as a gRPC server can be: one generic handler on a Unix socket; says `ready` once it listens.

python -m scripts.benchmark.bare_start SOCKET
"""

import sys
from typing import Any

import grpc
import uvloop

from scripts.benchmark.serving import READY


async def _echo(request: bytes, _: object) -> bytes:
    return request


async def _serve(socket: str) -> None:
    server = grpc.aio.server()
    methods: dict[str, Any] = {"Echo": grpc.unary_unary_rpc_method_handler(_echo)}
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("bench.Start", methods)])
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    sys.stderr.write(f"{READY}\n")
    await server.wait_for_termination()


if __name__ == "__main__":
    uvloop.run(_serve(sys.argv[1]))
