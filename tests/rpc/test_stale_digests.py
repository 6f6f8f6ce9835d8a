"""A request that names a content which a definition has no longer is out of date, and says so; it changes nothing."""

from typing import Any, Final

import pytest

from sidecar.cli.subagent import verbs
from sidecar.cli.subagent.kill import kill
from subagents.lifecycle.v1 import flags_pb2
from subagents.lifecycle.v1 import reading_pb2 as pb
from tests.support.operator_desk import Desk, wish
from tests.support.operators import an_operated_sidecar, gated
from tests.support.requirement import requirement

BEFORE, NOW = gated("shop"), gated("shop", description="Knows about shop, in other words.")
STEPS: Final[list[tuple[str, dict[str, Any]]]] = [
    ("SetRamp", {"ramp_basis_points": 900}),
    ("Transition", {"target_state": pb.LIFECYCLE_STATE_TEST}),
    ("RollBack", {}),
    ("Activate", {}),
    ("SwitchFlagOn", {"flag": flags_pb2.FLAG_KIND_COHORT}),
    ("SwitchCohortFlagOff", {}),
]


@pytest.mark.parametrize(("method", "fields"), STEPS)
async def test_a_step_about_a_content_that_was_revised_meanwhile_is_a_conflict(
    method: str, fields: dict[str, Any]
) -> None:
    """The definition is there: the refusal names its present content and revision, and nothing has changed."""
    async with an_operated_sidecar(BEFORE) as bench:
        await bench.promoted(500)
        await bench.configured(NOW)
        revision = await bench.revision()
        stale = await bench.refused(method, header={"digest": BEFORE.digest}, **fields)
        unknown = await bench.refused(method, "nobody", header={"digest": BEFORE.digest}, **fields)
        after = await bench.status()

    assert (stale.reason, unknown.reason) == ("REVISION_CONFLICT", "UNKNOWN_DEFINITION")
    assert stale.metadata["digest"] == NOW.digest
    assert (stale.metadata["slot"], stale.metadata["revision"]) == ("shop", str(revision))
    assert (after.revision, after.definitions[0].ramp_basis_points) == (revision, 500)


@requirement("PF1-FR-9c")
async def test_a_kill_is_of_the_definition_and_only_a_content_that_nobody_knows_is_a_conflict() -> None:
    """The content before the revision means its revision, as ever; what no sidecar has loaded is out of date."""
    async with an_operated_sidecar(BEFORE) as bench:
        await bench.promoted(500)
        await bench.configured(NOW)
        stale = await bench.refused("Kill", header={"digest": "sha256:of-another-sidecar", "expected_revision": None})
        killed = await bench.step("Kill", header={"digest": BEFORE.digest, "expected_revision": None})

    assert stale.reason == "REVISION_CONFLICT"
    assert (killed.digest, killed.state) == (NOW.digest, pb.LIFECYCLE_STATE_ROLLBACK)


async def test_the_commands_say_the_same_and_what_to_do() -> None:
    """`--digest` of the content before: by what the command reads itself, and for a kill by what the sidecar says."""
    async with an_operated_sidecar(BEFORE) as bench:
        await bench.promoted(500)
        await bench.configured(NOW)
        desk = Desk(bench)
        ramp = await desk.say(verbs.ramp, wish(digest=BEFORE.digest), 900)
        code, killed = await desk.object(kill, wish(digest="sha256:gone"))

    assert (ramp[0], code) == (1, 1)
    assert NOW.digest in " ".join(ramp[2].split())
    assert "(REVISION_CONFLICT)\nnext: nothing changed" in ramp[2]
    assert killed["problem"]["reason"] == "REVISION_CONFLICT"
