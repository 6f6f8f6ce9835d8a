"""The sidecar's side of a runner host: asks it over its socket, as the sidecar would."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from subagents.runner.v1 import runner_pb2, runner_pb2_grpc
from subagents_client.runner import RunnerHost

CONTEXT = runner_pb2.InheritedContext(
    principal="user-1",
    user_id="user-1",
    episode_id="episode-1",
    turn_id="turn-1",
    locale="en-US",
    prior_context="asked about shoes",
    task_prompt="and socks?",
)


def request(sub_agent_id: str = "shop", **more: Any) -> runner_pb2.RunRequest:
    """Return a request for one attempt."""
    return runner_pb2.RunRequest(
        child_id="child-1",
        attempt_id="attempt-1",
        attempt=1,
        sub_agent_id=sub_agent_id,
        definition_id=sub_agent_id,
        digest="sha256:1",
        arguments_json='{"request": "socks"}',
        context=CONTEXT,
        prompt_suffix="today",
        grant="grant-1",
        **more,
    )


@dataclass(frozen=True)
class Hosted:
    """A host that is served, and a channel to it."""

    target: str
    channel: grpc.aio.Channel
    stub: runner_pb2_grpc.SubAgentRunnerServiceStub

    @classmethod
    def over(cls, target: str, channel: grpc.aio.Channel) -> "Hosted":
        """Return a host that is reached over a channel."""
        return cls(target, channel, runner_pb2_grpc.SubAgentRunnerServiceStub(channel))

    async def run(self, message: runner_pb2.RunRequest, timeout: float = 10) -> Sequence[runner_pb2.RunResponse]:
        """Run an attempt to its end and return what it reported."""
        call = self.stub.Run(message, timeout=timeout)
        try:
            return [response async for response in call]
        finally:
            call.cancel()


@asynccontextmanager
async def hosted(host: RunnerHost, folder: Path) -> AsyncIterator[Hosted]:
    """Serve a host on a Unix socket and connect to it."""
    async with host.serving(f"unix:{folder / 'host.sock'}") as target, grpc.aio.insecure_channel(target) as channel:
        yield Hosted.over(target, channel)


def said(responses: Sequence[runner_pb2.RunResponse]) -> list[str]:
    """Return the kind of each response, in order."""
    return [str(one.WhichOneof("event")) for one in responses]
