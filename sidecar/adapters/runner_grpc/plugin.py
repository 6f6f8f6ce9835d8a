"""Registers runner `grpc`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sidecar.adapters.runner_grpc.settings import GrpcRunnerSettings
from sidecar.policy.specs import RunnerConfig, RunnerSpec
from sidecar.settings.schema import json_schema

if TYPE_CHECKING:
    from sidecar.adapters.runner_grpc.runner import GrpcRunner


def grpc_runner(config: RunnerConfig) -> "GrpcRunner":
    """Return a runner for one host."""
    from sidecar.adapters.runner_grpc.runner import GrpcRunner  # noqa: PLC0415  its messages, if it is used

    settings = GrpcRunnerSettings(**config.settings)
    return GrpcRunner(config.target or settings.target or "", config.gateway_address, settings)


def sidecar_runners() -> Sequence[RunnerSpec]:
    """Offer `grpc`."""
    return [
        RunnerSpec(
            name="grpc",
            contract="runner/1",
            summary="runs sub-agents on any host that serves SubAgentRunnerService",
            config_schema=json_schema(GrpcRunnerSettings),
            capabilities=frozenset({"remote", "cancels_agent", "usage"}),
            factory=grpc_runner,
        )
    ]
