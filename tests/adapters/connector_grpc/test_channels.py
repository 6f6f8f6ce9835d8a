"""Which connections of the connector `grpc` are replaced."""

import asyncio
from typing import Any, cast

import grpc

from sidecar.adapters.connector_grpc.channels import Channels
from sidecar.adapters.connector_grpc.settings import GrpcConnectorSettings


class SlowToClose:
    """A channel that says when its end begins, and does not come to it."""

    def __init__(self) -> None:
        self.closing = asyncio.Event()

    async def close(self) -> None:
        """Wait for ever."""
        self.closing.set()
        await asyncio.Event().wait()


class WithSlowChannels(Channels):
    """Opens such channels."""

    def __init__(self) -> None:
        super().__init__(GrpcConnectorSettings(max_connections=1))
        self.opened: dict[str, SlowToClose] = {}

    def _open_channel(self, target: str) -> grpc.aio.Channel:
        self.opened[target] = SlowToClose()
        return cast("grpc.aio.Channel", self.opened[target])


async def lent(channels: Channels, target: str) -> Any:
    """Take a channel and give it back."""
    async with channels.channel_to(target) as channel:
        return channel


async def test_a_connection_whose_first_call_was_cancelled_can_be_replaced() -> None:
    """Cancelled while the connection before it was closing: it must not seem in use ever after."""
    channels = WithSlowChannels()
    await lent(channels, "a")
    second = asyncio.ensure_future(lent(channels, "b"))
    await channels.opened["a"].closing.wait()
    second.cancel()
    await asyncio.wait((second,))

    third = asyncio.ensure_future(lent(channels, "c"))
    replacing = asyncio.ensure_future(channels.opened["b"].closing.wait())
    await asyncio.wait((third, replacing), return_when=asyncio.FIRST_COMPLETED)

    assert second.cancelled()
    assert replacing.done()
    third.cancel()
