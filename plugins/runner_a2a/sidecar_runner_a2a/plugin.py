"""Registers runner `a2a`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sidecar.policy.hookspecs import hookimpl
from sidecar.policy.specs import RunnerConfig, RunnerSpec
from sidecar_runner_a2a.settings import SCHEMA, settings_from

if TYPE_CHECKING:
    from sidecar_runner_a2a.runner import A2aRunner


def a2a_runner(config: RunnerConfig) -> "A2aRunner":
    """Return a runner for one agent; connects to nothing yet. Raises `ValueError`, `OSError`."""
    from sidecar_runner_a2a.runner import A2aRunner  # noqa: PLC0415  the SDK is imported only where it is used

    return A2aRunner(config.target or "", settings_from(config.settings), config.gateway_address)


@hookimpl
def sidecar_runners() -> Sequence[RunnerSpec]:
    """Offer `a2a`."""
    return [
        RunnerSpec(
            name="a2a",
            contract="runner/1",
            summary="has an A2A agent do the work, over JSON-RPC or REST",
            config_schema=SCHEMA,
            capabilities=frozenset({"remote", "cancels_agent", "usage"}),
            factory=a2a_runner,
        )
    ]
