"""The yardstick: `grpc.aio` and nothing else, answering with messages made beforehand.

python -m scripts.benchmark.bare_server --socket PATH --answers FOLDER [--cpu N] [--delay SECONDS]
"""

import argparse
import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc

from scripts.benchmark.serving import serve
from subagents.dispatch.v1 import dispatch_pb2 as pb

SERVICE: Final = "bench.Bare"
STREAM: Final = f"/{SERVICE}/Stream"
ECHO: Final = f"/{SERVICE}/Echo"
BIND: Final = f"/{SERVICE}/Bind"
DISPATCH_FILE: Final = "dispatch.bin"
BOUND_FILE: Final = "bound.bin"


@dataclass(frozen=True, slots=True)
class Answers:
    """What is answered.

    Attributes:
        dispatch: one message for each thing that a real dispatch told: snapshot, events, result.
        bound: what a real bind answered.
    """

    dispatch: tuple[pb.DispatchResponse, ...]
    bound: pb.BindTurnResponse


def unfolded(whole: pb.DispatchFrame) -> tuple[pb.DispatchResponse, ...]:
    """Return a message for the snapshot, for each event and for the result of one dispatch."""
    parts = [
        pb.DispatchFrame(snapshot=whole.snapshot),
        *(pb.DispatchFrame(events=[event]) for event in whole.events),
        pb.DispatchFrame(result=whole.result),
    ]
    return tuple(pb.DispatchResponse(frame=part) for part in parts)


def read_answers(folder: Path) -> Answers:
    """Return what `write_answers` wrote."""
    whole = pb.DispatchFrame.FromString((folder / DISPATCH_FILE).read_bytes())
    return Answers(unfolded(whole), pb.BindTurnResponse.FromString((folder / BOUND_FILE).read_bytes()))


def write_answers(folder: Path, dispatch: pb.DispatchFrame, bound: pb.BindTurnResponse) -> None:
    """Keep what the sidecar really answered, for the bare servers.

    Args:
        folder: exists.
        dispatch: all frames of one dispatch as one.
        bound: the answer of one bind.
    """
    (folder / DISPATCH_FILE).write_bytes(dispatch.SerializeToString())
    (folder / BOUND_FILE).write_bytes(bound.SerializeToString())


@asynccontextmanager
async def bare_server(socket: Path, answers: Answers, delay: float) -> AsyncIterator[None]:
    """Listen. `delay` in seconds before each answer is how a test plants a difference between two of these."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, _handlers(answers, delay)),))
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    try:
        yield
    finally:
        await server.stop(None)


def _handlers(answers: Answers, delay: float) -> dict[str, Any]:
    async def stream(_: pb.DispatchRequest, __: object) -> AsyncIterator[pb.DispatchResponse]:
        if delay:
            await asyncio.sleep(delay)
        for message in answers.dispatch:
            yield message

    async def echo(request: pb.DispatchRequest, _: object) -> pb.DispatchRequest:
        return request

    async def bind(_: pb.BindTurnRequest, __: object) -> pb.BindTurnResponse:
        return answers.bound

    take, give = pb.DispatchRequest.FromString, pb.DispatchResponse.SerializeToString
    return {
        "Stream": grpc.unary_stream_rpc_method_handler(stream, take, give),
        "Echo": grpc.unary_unary_rpc_method_handler(echo, take, pb.DispatchRequest.SerializeToString),
        "Bind": grpc.unary_unary_rpc_method_handler(
            bind, pb.BindTurnRequest.FromString, pb.BindTurnResponse.SerializeToString
        ),
    }


def main() -> None:
    """Read the command line and serve."""
    parser = argparse.ArgumentParser(description="A grpc.aio server and nothing else.")
    parser.add_argument("--socket", type=Path, required=True)
    parser.add_argument("--answers", type=Path, required=True)
    parser.add_argument("--cpu", type=int)
    parser.add_argument("--delay", type=float, default=0.0)
    given = parser.parse_args()
    serve(bare_server(given.socket, read_answers(given.answers), given.delay), given.cpu)


if __name__ == "__main__":
    main()
