"""A sub-agent goes from the configuration to everybody and back in one process that nobody restarts."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.gates.switches import Behaviour, Switch
from subagents.lifecycle.v1 import reading_pb2
from tests.support.requests import failure_of
from tests.support.requirement import requirement
from tests.support.sidecar_process import SidecarProcess, place
from tests.system.rollout.operating import SUBAGENT, GatedOperator, an_operator

pytestmark = pytest.mark.system

TEST, PROMOTE, ROLLBACK = (
    reading_pb2.LIFECYCLE_STATE_TEST,
    reading_pb2.LIFECYCLE_STATE_PROMOTE,
    reading_pb2.LIFECYCLE_STATE_ROLLBACK,
)
REPLACEMENT = "rewards2"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of its own, with definitions."""
    with place() as path:
        yield path


def processes(sidecar: SidecarProcess) -> tuple[int, str]:
    """Return the process that serves, and its children."""
    pid = sidecar.process.pid
    return pid, Path(f"/proc/{pid}/task/{pid}/children").read_text().strip()


def added(folder: Path) -> None:
    """Add a definition to the configuration that fills the slot with another model: what a major change has to be."""
    config = folder / "config" / "agent_config.yaml"
    before, _, rest = config.read_text().partition(f"  - id: {SUBAGENT}\n")
    entry = rest.partition("\n  - id: ")[0].partition("\nmodels:")[0].partition("\n\n")[0]
    named = entry.replace(f"subagent_{SUBAGENT}", f"subagent_{REPLACEMENT}")
    config.write_text(f"{before}  - id: {REPLACEMENT}\n    slot: {SUBAGENT}\n{named}\n\n  - id: {SUBAGENT}\n{rest}")


async def to_everybody(operator: GatedOperator, name: str) -> None:
    """Take a definition from `dev` to 100 %."""
    for target in (TEST, PROMOTE):
        await operator.step("Transition", name, target_state=target)
    for ramp in (100, 10_000):
        await operator.step("SetRamp", name, ramp_basis_points=ramp)


@requirement("PF1-FR-5b", "PF1-AC-5b", "PF1-D-1", "PF1-D-21")
async def test_a_promotion_and_a_rollback_from_everybody_need_no_restart_and_no_process(folder: Path) -> None:
    """An entry is added, ramped to 100 %, rolled back: all in the same process, which has no children."""
    async with an_operator(folder) as operator, operator.serving() as sidecar:
        first = processes(sidecar)
        await to_everybody(operator, SUBAGENT)
        one = await operator.digest_served("turn-1")
        added(folder)
        await sidecar.event("subagent.rollout.event", lambda event: event["subagent_id"] == REPLACEMENT)
        await to_everybody(operator, REPLACEMENT)
        two = await operator.digest_served("turn-2")
        rolled = await operator.step("RollBack", REPLACEMENT)
        three = await operator.digest_served("turn-3")
        states = {each.definition_id: each.state for each in (await operator.status()).definitions}
        last = processes(sidecar)

    assert (one == three, one == two, rolled.state) == (True, False, ROLLBACK)
    assert states == {SUBAGENT: PROMOTE, REPLACEMENT: ROLLBACK}
    assert first == last == (sidecar.process.pid, "")


async def test_an_orchestrator_has_no_rollout_that_a_kill_could_pretend_to_end(folder: Path) -> None:
    """It is on no surface: it is not listed, and a kill of it is refused instead of answered."""
    async with an_operator(folder) as operator, operator.serving():
        listed = [each.slot for each in (await operator.ask("ListRollouts", reading_pb2.ListRolloutsRequest())).slots]
        refused = await failure_of(operator.take("Kill", operator.unread("concierge")))

    assert listed == ["rewards", "shop", "support"]
    assert refused.reason == "UNKNOWN_DEFINITION"


@requirement("PC1-D-47")
async def test_a_configuration_that_is_broken_this_moment_holds_a_promotion(folder: Path) -> None:
    """The file is broken and the step is asked for at once: refused with the file, the line and what is wrong."""
    config = folder / "config" / "agent_config.yaml"
    async with an_operator(folder) as operator, operator.serving():
        await operator.step("Transition", target_state=TEST)
        whole = config.read_text()
        config.write_text(whole.replace("role: native", "role: magic", 1))
        refused = await failure_of(operator.step("Transition", target_state=PROMOTE))
        config.write_text(whole)
        promoted = await operator.step("Transition", target_state=PROMOTE)

    assert refused.reason == "TRANSITION_REFUSED"
    assert "agent_config.yaml:" in refused.message
    assert "role" in refused.message
    assert promoted.state == PROMOTE


@requirement("PF1-T-15")
@pytest.mark.parametrize(
    ("behaviour", "reason", "state"),
    [
        (Behaviour.PASS, "", PROMOTE),
        (Behaviour.FAIL, "GATE_FAILED", TEST),
        (Behaviour.INCONCLUSIVE, "GATE_HELD", TEST),
        (Behaviour.HANG, "GATE_HELD", TEST),
    ],
)
async def test_a_transition_asks_the_gate_service_and_its_verdict_decides(
    folder: Path, behaviour: Behaviour, reason: str, state: int
) -> None:
    """Over HTTP, once, for this definition and this step; whatever is no pass leaves the state as it is."""
    async with an_operator(folder) as operator, operator.serving():
        await operator.tested()
        operator.gates.switches.set(Switch(behaviour=behaviour, gate="pre_merge"))
        step = operator.step("Transition", target_state=PROMOTE)
        refused = "" if behaviour is Behaviour.PASS else (await failure_of(step)).reason
        moved = (await step).state if behaviour is Behaviour.PASS else (await operator.definition()).state
        asked = [(each.gate, each.definition_id) for _, each in operator.gates.questions]

    assert (refused, moved) == (reason, state)
    assert asked == [("pre_merge", SUBAGENT)]
