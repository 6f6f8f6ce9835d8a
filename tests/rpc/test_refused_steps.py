"""Steps that are refused before the rules look at them are on the audit, if the caller was who they said."""

from typing import Any, Final

import pytest

from sidecar.policy.lifecycle import PolicyAnswer
from subagents.lifecycle.v1 import lifecycle_pb2, reading_pb2
from tests.rpc.raw_calls import raw_failure
from tests.support.enum_words import word
from tests.support.operators import OperatedSidecar, an_operated_sidecar
from tests.support.operators_outside import BEGAN
from tests.support.requests import failure_of

LIFECYCLE: Final = "/subagents.lifecycle.v1.LifecycleService/"


async def refused_rows(bench: OperatedSidecar) -> list[reading_pb2.AuditRow]:
    """Return the rows of refused steps, once what was noted is written."""
    await bench.rollout.refusals.write()
    return [row for row in await bench.audit() if word(row.rollout, "kind") == "refused"]


async def test_a_step_that_the_role_does_not_allow_is_on_the_audit() -> None:
    """A promotion by a viewer and a kill by automation: who, with which key, what, of which definition, and why."""
    async with an_operated_sidecar() as bench:
        promote: dict[str, Any] = {"target_state": reading_pb2.LIFECYCLE_STATE_PROMOTE}
        await bench.refused("Transition", role="viewer", sub="eve@example", **promote)
        await bench.refused("Kill", role="automation", sub="pipeline@ci", header={"reason": "red\nlights"})
        viewer, automation = await refused_rows(bench)

    assert (viewer.actor, viewer.actor_key) == ("eve@example", bench.signer.key_id)
    assert (viewer.rollout.definition_id, viewer.reason) == ("shop", "because a test says so")
    assert viewer.rollout.detail == (
        "ROLE_REQUIRED: the role viewer may not call Transition; it takes: operator; asked for: Transition"
    )
    assert (automation.actor, automation.reason) == ("pipeline@ci", "red lights")
    assert "may not call Kill" in automation.rollout.detail


async def test_who_has_no_genuine_token_names_no_definition_or_tries_it_dry_leaves_nothing() -> None:
    """Nor does reading."""
    async with an_operated_sidecar() as bench:
        stale: Any = {"nbf": int(BEGAN.timestamp()) - 7200, "exp": int(BEGAN.timestamp()) - 7000}
        header = lifecycle_pb2.KillRequest(header=await bench.header()).SerializeToString()
        for metadata, body in (
            ((), header),
            (bench.role(**stale), header),
            (bench.role("viewer", aud="elsewhere"), header),
            (bench.role("viewer"), b"\xff"),
            (bench.role("viewer"), b""),
        ):
            await raw_failure(bench.channel, f"{LIFECYCLE}Kill", body, metadata)
        await bench.refused("Kill", "nobody-knows-it", role="viewer")
        await bench.refused("Kill", role="viewer", header={"dry_run": True})
        await raw_failure(bench.channel, f"{LIFECYCLE}GetRollout", b"", bench.role("breaker"))

        assert await refused_rows(bench) == []
        assert len(bench.reports.of("refused")) == 8


@pytest.mark.parametrize("role", ["viewer", "automation"])
async def test_a_refused_step_is_nobodys_approval(role: str) -> None:
    """It stands for nothing: the operator's own request is the only one that policies see."""
    async with an_operated_sidecar() as bench:
        asked = []

        class Sees:
            def check(self, facts: Any) -> Any:
                asked.append([each.subject for each in facts.approvals])
                return PolicyAnswer()

        bench.policies.append(("sees", Sees()))
        to_test: dict[str, Any] = {"target_state": reading_pb2.LIFECYCLE_STATE_TEST}
        await bench.refused("Transition", role=role, sub="eve@example", **to_test)
        assert len(await refused_rows(bench)) == 1
        await bench.step("Transition", **to_test)

    assert asked == [["ada@example"]]


async def test_an_old_revision_and_a_used_request_id_are_on_the_audit_and_can_be_asked_again() -> None:
    """Neither answer is kept: the same request with the present revision is a step."""
    async with an_operated_sidecar() as bench:
        to_test: dict[str, Any] = {"target_state": reading_pb2.LIFECYCLE_STATE_TEST}
        old = await bench.refused("Transition", header={"expected_revision": 99, "request_id": "once"}, **to_test)
        moved = await bench.step("Transition", header={"request_id": "once"}, **to_test)
        used = await failure_of(
            bench.step("ConfigureRollout", header={"request_id": "once"}, mode=reading_pb2.ROLLOUT_MODE_FULL)
        )
        first, second = await refused_rows(bench)

    assert (old.reason, used.reason, moved.changed) == ("REVISION_CONFLICT", "REQUEST_ID_REUSED", True)
    assert first.rollout.detail.startswith("REVISION_CONFLICT: the rollout of shop has revision")
    assert (
        second.rollout.detail
        == "REQUEST_ID_REUSED: request_id was used for another request; asked for: ConfigureRollout"
    )


async def test_with_the_store_away_the_refusal_is_answered_all_the_same() -> None:
    """The row is lost, and that is counted."""
    async with an_operated_sidecar() as bench:
        bench.store.away = True
        refusal = await failure_of(bench.step("Kill", role="viewer", header={"expected_revision": 1}))
        await bench.rollout.refusals.write()

        assert refusal.reason == "ROLE_REQUIRED"
        assert ("refusal_not_on_record", "Kill of shop") in bench.sidecar.recorder.of("anomaly")
