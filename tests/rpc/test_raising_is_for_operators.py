"""Only an operator raises a ramp; a pipeline lowers it. The audit says as which role each step was asked for."""

from typing import Any

import grpc
import pytest

from sidecar.core.operators.role_tokens import Caller
from sidecar.core.roles import Role
from subagents.lifecycle.v1 import reading_pb2 as pb
from tests.support.enum_words import word
from tests.support.operators import OperatedSidecar, an_operated_sidecar
from tests.support.requirement import requirement

PIPELINE = {"role": "automation", "sub": "pipeline@ci"}
METHOD = "/subagents.lifecycle.v1.LifecycleService/SetRamp"


async def standing(bench: OperatedSidecar) -> tuple[int, int, bool]:
    """Return revision, ramp, and whether the definition is active."""
    status = await bench.status()
    return status.revision, status.definitions[0].ramp_basis_points, status.definitions[0].active


@requirement("PF1-D-64", "PF1-FR-2d")
@pytest.mark.parametrize(
    ("before", "to"), [(0, 500), (500, 2500), (500, 10_000)], ids=["first activation", "raise", "to everybody"]
)
@pytest.mark.parametrize("dry_run", [False, True])
async def test_a_pipeline_cannot_raise_a_ramp(before: int, to: int, dry_run: bool) -> None:
    """Refused by its role, before a gate or a policy is asked; nothing moves, and log and counter have it."""
    async with an_operated_sidecar() as bench:
        await bench.promoted(before)
        stood, asked = await standing(bench), len(bench.gates.asked)
        refused = await bench.refused("SetRamp", ramp_basis_points=to, header={"dry_run": dry_run}, **PIPELINE)
        await bench.rollout.refusals.write()
        rows = [row for row in await bench.audit() if word(row.rollout, "kind") == "refused"]
        after = await standing(bench)

    assert (refused.code, refused.reason) == (grpc.StatusCode.PERMISSION_DENIED, "ROLE_REQUIRED")
    assert refused.metadata["roles"] == "operator"
    assert "may lower a ramp, not raise it" in refused.message
    assert (after, len(bench.gates.asked)) == (stood, asked)
    caller = Caller("pipeline@ci", Role.AUTOMATION, "t-1", bench.signer.key_id)
    assert bench.reports.of("refused") == [(METHOD, "role", caller)]
    assert [(row.actor, word(row, "actor_role")) for row in rows] == [("pipeline@ci", "automation")] * (not dry_run)


async def test_a_refusal_by_role_is_not_kept_so_that_an_operator_may_take_the_very_step() -> None:
    """A new attempt by an operator passes its gate; the pipeline repeats its own request and is refused again."""
    async with an_operated_sidecar() as bench:
        await bench.promoted()
        header: dict[str, Any] = {"request_id": "step-1"}
        first = await bench.refused("SetRamp", ramp_basis_points=500, header=header, **PIPELINE)
        again = await bench.refused("SetRamp", ramp_basis_points=500, header=header, **PIPELINE)
        taken = await bench.step("SetRamp", ramp_basis_points=500)

    assert (first.reason, again.reason) == ("ROLE_REQUIRED", "ROLE_REQUIRED")
    assert (taken.changed, taken.ramp_basis_points) == (True, 500)


async def test_a_pipeline_lowers_a_ramp_reports_a_breach_and_pauses() -> None:
    """What takes something away is open to it: to less, to what it is already, to 0, and the cohort flag off."""
    async with an_operated_sidecar() as bench:
        await bench.promoted(2500)
        same = await bench.step("SetRamp", ramp_basis_points=2500, **PIPELINE)
        lower = await bench.step("SetRamp", ramp_basis_points=500, **PIPELINE)
        back = await bench.refused("SetRamp", ramp_basis_points=2500, **PIPELINE)
        paused = await bench.step("SwitchCohortFlagOff", **PIPELINE)
        down = await bench.step("RampDown", breach_id="floor-7", **PIPELINE)

    assert (same.changed, lower.changed, lower.ramp_basis_points) == (False, True, 500)
    assert back.reason == "ROLE_REQUIRED"
    assert (paused.changed, down.changed, down.ramp_basis_points) == (True, True, 0)


@requirement("PF1-FR-10b")
async def test_each_row_of_the_audit_says_as_which_role_it_was_asked_for() -> None:
    """An operator, a pipeline, a breaker, a refused viewer; the configuration and a flag that fell have no role."""
    async with an_operated_sidecar() as bench:
        await bench.promoted(2500)
        await bench.step("SetRamp", ramp_basis_points=500, **PIPELINE)
        await bench.refused("RollBack", role="viewer", sub="eve@example")
        await bench.rollout.refusals.write()
        await bench.step("Kill", role="breaker", sub="watchdog@example")
        rows = await bench.audit()

    roles = {(row.actor, word(row, "actor_role")) for row in rows}
    assert roles == {
        ("configuration", "unspecified"),
        ("ada@example", "operator"),
        ("pipeline@ci", "automation"),
        ("eve@example", "viewer"),
        ("watchdog@example", "breaker"),
    }
    (killed,) = [row for row in rows if row.transition.target_state == pb.LIFECYCLE_STATE_ROLLBACK]
    assert word(killed, "actor_role") == "breaker"
