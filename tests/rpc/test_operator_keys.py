"""A key that is for some roles and subjects only, through the operators' listener; and the key in the audit."""

from typing import Any, Final

import grpc

from sidecar.core.operators.role_tokens import Caller
from sidecar.policy.lifecycle import PolicyAnswer, StepFacts
from subagents.lifecycle.v1 import lifecycle_pb2, reading_pb2
from tests.support.enum_words import word
from tests.support.operators import ADA, OperatedSidecar, an_operated_sidecar
from tests.support.requests import Failure, failure_of

WATCHDOG: Final = "watchdog@ci"


async def killed(bench: OperatedSidecar, **claims: Any) -> lifecycle_pb2.StepResult:
    """Kill `shop` with a token that the watchdog's key has signed."""
    said = {"role": "breaker", "sub": WATCHDOG} | claims
    metadata = bench.role(said.pop("role"), signer=bench.watchdog, **said)
    request = lifecycle_pb2.KillRequest(header=await bench.header(expected_revision=None))
    answer = await bench.lifecycle.Kill(request, timeout=10, metadata=metadata)
    return answer.result


async def refused(bench: OperatedSidecar, **claims: Any) -> Failure:
    """Try the same, in vain."""
    return await failure_of(killed(bench, **claims))


async def test_a_key_mints_the_roles_and_subjects_that_it_is_for() -> None:
    """The row names the key beside the actor."""
    async with an_operated_sidecar() as bench:
        await bench.promoted()
        answer = await killed(bench)
        rows = await bench.audit()

    assert answer.changed
    assert {(row.actor, row.actor_key) for row in rows[-2:]} == {(WATCHDOG, bench.watchdog.key_id)}
    assert (rows[1].actor, rows[1].actor_key) == (ADA, bench.signer.key_id)


async def test_a_key_mints_no_other_role_and_nobody_else() -> None:
    """Refused with what the key is for; logged and counted with the key, while the subject is not believed."""
    async with an_operated_sidecar() as bench:
        await bench.promoted()
        as_operator = await refused(bench, role="operator")
        as_ada = await refused(bench, sub=ADA)

    for refusal, tried in ((as_operator, f"operator as {WATCHDOG}"), (as_ada, f"breaker as {ADA}")):
        assert refusal.code is grpc.StatusCode.UNAUTHENTICATED
        assert (refusal.reason, refusal.metadata["cause"]) == ("ROLE_TOKEN_INVALID", "key")
        assert f"the key watchdog is for breaker as {WATCHDOG}, not for {tried}" in refusal.message
    key = Caller("", None, key=bench.watchdog.key_id)
    assert [told[1:] for told in bench.reports.of("refused")] == [("key", key)] * 2


async def test_a_key_that_was_used_for_what_it_is_not_for_is_on_the_audit() -> None:
    """Without an actor: whom the token names is what the key may not say."""
    async with an_operated_sidecar() as bench:
        await bench.promoted()
        await refused(bench, role="operator", sub=ADA)
        await bench.rollout.refusals.write()
        row = (await bench.audit())[-1]

    assert (word(row.rollout, "kind"), row.actor, row.actor_key) == ("refused", "", bench.watchdog.key_id)
    assert row.rollout.detail.startswith("ROLE_TOKEN_INVALID: ")


class TwoKeys:
    """Counts keys."""

    def check(self, facts: StepFacts) -> PolicyAnswer:
        """Deny with one key."""
        assert facts.actor_key == facts.approvals[-1].key
        return PolicyAnswer("" if len({each.key for each in facts.approvals}) > 1 else "another key has to ask")


async def test_policies_see_which_key_vouches_for_whom() -> None:
    """Two subjects of one key are seen as that; it stands on record with the request that was denied."""
    async with an_operated_sidecar() as bench:
        bench.policies.append(("two-keys", TwoKeys()))
        to_test: dict[str, Any] = {"target_state": reading_pb2.LIFECYCLE_STATE_TEST}
        first = await bench.refused("Transition", **to_test)
        invented = await bench.refused("Transition", sub="invented@nobody", **to_test)
        bench.signer, bench.other = bench.other, bench.signer
        moved = await bench.step("Transition", sub="bo@example", **to_test)

    assert (first.reason, invented.reason) == ("POLICY_DENIED", "POLICY_DENIED")
    assert moved.changed
