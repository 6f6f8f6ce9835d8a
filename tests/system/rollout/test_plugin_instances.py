"""Two verticals of one sidecar use one gate client, lifecycle policy and audit sink with different settings."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from examples.gates.server import ReferenceGates
from examples.gates.switches import Behaviour, Switch
from examples.http_serving import serving
from subagents.lifecycle.v1 import reading_pb2
from tests.support.operated_process import OperatedProcess, operated_process
from tests.support.requests import failure_of
from tests.support.sidecar_process import place

pytestmark = [pytest.mark.system, pytest.mark.seconds(90)]

PROMOTE = reading_pb2.LIFECYCLE_STATE_PROMOTE
SECONDS: Final = 20.0
MORE: Final = """
[plugins]
enabled = ["sidecar-gates-http", "sidecar-lifecycle-examples"]

[policy.verticals.rewards]
gates = "rewards-gates"
lifecycle = ["platform", "small-steps"]

[policy.verticals.support]
gates = "support-gates"
lifecycle = ["platform", "large-steps"]

[gates.rewards-gates]
plugin = "http"
url = "{rewards}"

[gates.support-gates]
plugin = "http"
url = "{support}"
attempts = 1

[lifecycle.small-steps]
plugin = "largest-step"
points = 1

[lifecycle.large-steps]
plugin = "largest-step"
points = 100

[audit]
sinks = ["first-copy", "second-copy"]

[audit_sinks.first-copy]
plugin = "jsonl"
path = "{folder}/first.jsonl"

[audit_sinks.second-copy]
plugin = "jsonl"
path = "{folder}/second.jsonl"
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder in which `support` names its flag, as `rewards` does."""
    with place() as path:
        config = path / "config" / "agent_config.yaml"
        text = config.read_text(encoding="utf-8")
        named = text.replace(
            "  - id: support\n", "  - id: support\n    enabled_via_flag: ai_assistant_subagent_support\n"
        )
        config.write_text(named, encoding="utf-8")
        yield path


async def _promoted(operator: OperatedProcess, name: str) -> None:
    await operator.tested(name)
    await operator.step("Transition", name, target_state=PROMOTE)


def _copies(folder: Path) -> list[str]:
    """What each of the two sinks has written."""
    return [(folder / f"{name}.jsonl").read_text() for name in ("first", "second")]


async def test_each_vertical_has_its_own_gates_and_policies_and_both_sinks_get_every_event(folder: Path) -> None:
    """The gate service of `support` fails its gate, then passes it; one policy allows 1 point a step, the other 100."""
    rewards, support = ReferenceGates(), ReferenceGates()
    support.switches.set(Switch(behaviour=Behaviour.FAIL, gate="pre_merge"))
    async with (
        serving(rewards.app(), rewards.switches.clear, log_level="critical") as of_rewards,
        serving(support.app(), support.switches.clear, log_level="critical") as of_support,
    ):
        more = MORE.format(rewards=of_rewards, support=of_support, folder=folder)
        async with operated_process(folder, more) as operator:
            await _promoted(operator, "rewards")
            await operator.tested("support")
            header = await operator.header("support")
            held = await failure_of(operator.take("Transition", header, target_state=PROMOTE))
            support.switches.clear()
            await operator.step("Transition", "support", target_state=PROMOTE)
            header = await operator.header("rewards")
            denied = await failure_of(operator.take("SetRamp", header, ramp_basis_points=1000))
            raised = await operator.step("SetRamp", "support", ramp_basis_points=1000)
            async with asyncio.timeout(SECONDS):
                # A sink that is slower than the process's end would get the last events only after the next start.
                while not all('"activated"' in text for text in _copies(folder)):
                    await operator.header("support")
        copies = _copies(folder)

    assert held.reason == "GATE_FAILED"
    assert "small-steps" in f"{denied.message} {denied.metadata}"
    assert raised.ramp_basis_points == 1000
    assert copies[0] == copies[1] != ""
