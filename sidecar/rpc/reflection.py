"""Describes the services to tools such as `buf curl`, in v1 and v1alpha, whose messages have the same bytes."""

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, cast

from google.protobuf.message import Message
from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha.reflection import aio

from sidecar.rpc.methods import Call, Method, MethodShape

VERSIONS: Final = ("v1", "v1alpha")


class Reflection:
    """Describes the given services.

    Args:
        services: full names.
    """

    def __init__(self, services: Sequence[str]) -> None:
        self._servicer = aio.ReflectionServicer(services)

    def methods(self) -> Sequence[Method]:
        """Return the RPC of each version."""
        return [
            Method(
                f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
                MethodShape.MANY_TO_MANY,
                reflection_pb2.ServerReflectionRequest.FromString,
                self._info,
                reserved=True,
            )
            for version in VERSIONS
        ]

    async def _info(self, requests: AsyncIterator[Message], call: Call) -> None:
        # The servicer of v1alpha serves v1, too: the messages of both have the same bytes.
        answers: Any = self._servicer.ServerReflectionInfo(cast("Any", requests), cast("Any", call.context))
        async for answer in answers:
            await call.write(answer)
