"""Who may call what on the operators' listener: every method with every role, and every way to bring a wrong token."""

import base64
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

import grpc
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from grpc_health.v1 import health_pb2, health_pb2_grpc

from sidecar.adapters.checkpoints import Ed25519Signer
from sidecar.core.operators.role_tokens import Caller
from sidecar.core.roles import Role
from sidecar.rpc.authorisation import BOOT_SECRET_KEY
from sidecar.rpc.handler_guard import ServingRules
from sidecar.rpc.operators import ROLE_TOKEN_KEY, ROLES_OF
from subagents.lifecycle.v1 import reading_pb2
from tests.rpc.raw_calls import raw, raw_failure
from tests.support.harness import SECRET
from tests.support.operators import OperatedSidecar, an_operated_sidecar
from tests.support.operators_outside import BEGAN
from tests.support.requests import failure_from

LIFECYCLE: Final = "/subagents.lifecycle.v1.LifecycleService/"

MAY_CALL: Final = {
    "Transition": "operator",
    "SetRamp": "operator automation",
    "ConfigureRollout": "operator",
    "RampDown": "operator automation breaker",
    "AcknowledgeBreach": "operator",
    "OverrideGate": "operator",
    "RollBack": "operator",
    "Activate": "operator",
    "Kill": "operator breaker",
    "RetireFlags": "operator",
    "SwitchFlagOn": "operator",
    "SwitchCohortFlagOff": "operator automation breaker",
    "SwitchKillFlagOff": "operator breaker",
    "BeginDecommission": "operator",
    "TakeDecommissionStep": "operator",
    "DecideDecommission": "operator",
    "UndoDecommission": "operator",
    "GetRollout": "viewer operator automation",
    "GetFlags": "viewer operator automation",
    "ListRollouts": "viewer operator automation",
    "ExplainServing": "viewer operator automation",
    "PreviewRamp": "viewer operator automation",
    "WatchAudit": "viewer operator automation",
    "ListReplicas": "viewer operator automation",
    "ListDecommissions": "viewer operator automation",
    "ListPlugins": "viewer operator",
    "Drain": "operator",
    "GetStatus": "viewer operator",
    "VerifyLog": "viewer operator",
    "EraseUser": "operator",
}
"""Written out once more by hand: a change of the table has to be meant."""

NO_FOLLOW: Final = reading_pb2.WatchAuditRequest(no_follow=True).SerializeToString()
NOON: Final = int(BEGAN.timestamp())


def path_of(method: str) -> str:
    """Return the full name of a method."""
    return next(name for name in ROLES_OF if name.endswith(f"/{method}"))


async def reason_with(bench: OperatedSidecar, method: str, metadata: Any) -> str:
    """Call a method with an empty request; return the reason it fails with, empty if it does not."""
    body = NO_FOLLOW if method == "WatchAudit" else b""
    try:
        async for _ in raw(bench.channel, path_of(method), body, metadata):
            pass
    except grpc.aio.AioRpcError as error:
        return failure_from(error).reason
    return ""


async def test_each_role_may_call_what_the_table_says_and_nothing_else() -> None:
    """All 19 methods with all 4 roles; whoever is let in gets as far as the contents of the request."""
    async with an_operated_sidecar() as bench:
        found: dict[str, str] = {}
        for method in MAY_CALL:
            reasons = {role: await reason_with(bench, method, bench.role(role)) for role in Role}
            found[method] = " ".join(role for role in Role if reasons[role] != "ROLE_REQUIRED")
            assert "ROLE_TOKEN_INVALID" not in reasons.values()

    assert {method: sorted(roles.split()) for method, roles in found.items()} == {
        method: sorted(roles.split()) for method, roles in MAY_CALL.items()
    }


async def test_without_a_token_no_method_can_be_called_and_health_can() -> None:
    """A probe learns whether the process serves, and nothing else."""
    async with an_operated_sidecar() as bench:
        reasons = [await reason_with(bench, method, ()) for method in MAY_CALL]
        stub: Any = health_pb2_grpc.HealthStub(bench.channel)  # its stubs know no method of an `aio` channel
        health = await stub.Check(health_pb2.HealthCheckRequest(), timeout=10)

    assert reasons == ["ROLE_TOKEN_INVALID"] * len(MAY_CALL)
    assert health.status == health_pb2.HealthCheckResponse.SERVING


async def test_the_dispatch_listener_serves_no_operator_method_and_this_one_no_dispatch() -> None:
    """Neither a boot secret nor a role token opens the other door."""
    async with an_operated_sidecar() as bench:
        both = (*bench.role(), (BOOT_SECRET_KEY, SECRET))
        there = await raw_failure(bench.sidecar.channel, f"{LIFECYCLE}Kill", metadata=both)
        here = await raw_failure(bench.channel, "/subagents.dispatch.v1.DispatchService/BindTurn", metadata=both)

    assert (there.reason, here.reason) == ("WRONG_LISTENER", "WRONG_LISTENER")


def altered(token: str, **other: Any) -> str:
    """Return a token with other claims and the old signature."""
    version, body, signature = token.split(".")
    claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4))) | other
    again = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"{version}.{again}.{signature}"


def a_jwt(bench: OperatedSidecar, algorithm: str) -> str:
    """Return a JSON web token that claims the same, by an algorithm of the attacker's choice."""
    head = base64.urlsafe_b64encode(json.dumps({"alg": algorithm}).encode()).decode().rstrip("=")
    return f"{head}.{bench.token().split('.')[1]}."


FORGED: Final[dict[str, tuple[Callable[[OperatedSidecar], str], str]]] = {
    "expired": (lambda bench: bench.token(nbf=NOON - 900, exp=NOON), "expired"),
    "future": (lambda bench: bench.token(nbf=NOON + 31, exp=NOON + 60), "not_yet_valid"),
    "other audience": (lambda bench: bench.token(aud="production"), "audience"),
    "other key": (lambda bench: bench.token(signer=Ed25519Signer(Ed25519PrivateKey.generate())), "signature"),
    "other key under the id of ours": (
        lambda bench: bench.token(signer=Ed25519Signer(Ed25519PrivateKey.generate()), kid=bench.signer.key_id),
        "signature",
    ),
    "role altered": (lambda bench: altered(bench.token("viewer"), role="operator"), "signature"),
    "life altered": (lambda bench: altered(bench.token(), exp=NOON + 3600), "signature"),
    "unknown claim": (lambda bench: altered(bench.token(), admin=True), "malformed"),
    "unknown role": (lambda bench: altered(bench.token(), role="root"), "malformed"),
    "signature in capitals": (lambda bench: upper_signature(bench.token()), "malformed"),
    "no signature": (lambda bench: bench.token().rpartition(".")[0] + ".", "malformed"),
    "alg none": (lambda bench: a_jwt(bench, "none"), "malformed"),
    "alg HS256": (lambda bench: a_jwt(bench, "HS256") + "ab" * 64, "malformed"),
    "another version": (lambda bench: "rt2" + bench.token()[3:], "malformed"),
    "absurd time": (lambda bench: altered(bench.token(), exp=10**30), "malformed"),
    "far too long": (lambda bench: bench.token() + "a" * 4000, "malformed"),
    "empty": (lambda bench: "", "malformed"),
}


def upper_signature(token: str) -> str:
    """Return the second spelling of a token."""
    head, _, signature = token.rpartition(".")
    return f"{head}.{signature.upper()}"


async def test_a_token_that_is_not_whole_ours_and_of_now_opens_nothing() -> None:
    """Expired, from the future, for another deployment, by another key, altered, of another algorithm, or garbage."""
    async with an_operated_sidecar() as bench:
        found = {}
        for name, (forge, _) in FORGED.items():
            failure = await raw_failure(
                bench.channel, f"{LIFECYCLE}ListRollouts", metadata=[(ROLE_TOKEN_KEY, forge(bench))]
            )
            assert (failure.code, failure.reason) == (grpc.StatusCode.UNAUTHENTICATED, "ROLE_TOKEN_INVALID"), name
            found[name] = failure.metadata["cause"]

    assert found == {name: cause for name, (_, cause) in FORGED.items()}


async def test_two_tokens_are_none() -> None:
    """A proxy that appends one cannot choose who calls."""
    async with an_operated_sidecar() as bench:
        failure = await raw_failure(
            bench.channel, f"{LIFECYCLE}ListRollouts", metadata=(*bench.role("viewer"), *bench.role())
        )

    assert (failure.reason, failure.metadata["cause"]) == ("ROLE_TOKEN_INVALID", "repeated")


async def test_a_token_counts_from_30_seconds_before_its_beginning_until_its_end_as_often_as_wanted() -> None:
    """Clocks differ a little; a token is no nonce, which is what request ids are for."""
    async with an_operated_sidecar() as bench:
        metadata = bench.role(nbf=NOON + 30, exp=NOON + 60)
        early = [await reason_with(bench, "ListRollouts", metadata) for _ in range(2)]
        bench.clock.time = bench.clock.time.fromtimestamp(NOON + 59, bench.clock.time.tzinfo)
        late = await reason_with(bench, "ListRollouts", metadata)
        bench.clock.time = bench.clock.time.fromtimestamp(NOON + 60, bench.clock.time.tzinfo)
        over = await reason_with(bench, "ListRollouts", metadata)

    assert (early, late, over) == (["", ""], "", "ROLE_TOKEN_INVALID")


async def test_each_refusal_is_reported_with_who_tried_what() -> None:
    """A genuine token names its subject; of a forged one nothing is believed."""
    async with an_operated_sidecar() as bench:
        await reason_with(bench, "Kill", bench.role("viewer", sub="eve@example", jti="t-9"))
        await reason_with(bench, "Kill", [(ROLE_TOKEN_KEY, altered(bench.token(), sub="boss@example"))])
        await reason_with(bench, "ListRollouts", bench.role("viewer"))

    eve = Caller("eve@example", Role.VIEWER, "t-9", bench.signer.key_id)
    assert bench.reports.of("refused") == [(f"{LIFECYCLE}Kill", "role", eve), (f"{LIFECYCLE}Kill", "signature", None)]


async def test_the_actor_in_the_audit_is_the_subject_of_the_token() -> None:
    """There is no field to claim another."""
    async with an_operated_sidecar() as bench:
        await bench.step("Transition", target_state=reading_pb2.LIFECYCLE_STATE_TEST, sub="grace@example")
        rows = await bench.audit()

    assert rows[-1].actor == "grace@example"


async def test_operators_are_served_with_a_deadline_that_dispatch_would_not_begin_with() -> None:
    """The least time that admission asks for holds for turns, and never keeps an operator out."""
    serving = {"serving": a_serving_that_wants_minutes()}
    async with an_operated_sidecar(**serving) as bench:
        turn = await raw_failure(
            bench.sidecar.channel,
            "/subagents.dispatch.v1.DispatchService/BindTurn",
            metadata=bench.sidecar.metadata,
        )
        listed = await reason_with(bench, "ListRollouts", bench.role())

    assert (turn.reason, listed) == ("ADMISSION_REFUSED", "")


def a_serving_that_wants_minutes() -> Any:
    """Return rules under which ten seconds are too little time for a call."""
    return ServingRules(min_remaining_time=timedelta(minutes=2))


@pytest.mark.parametrize("lifetime", [0, -1, 3601])
async def test_a_token_of_another_life_than_up_to_an_hour_is_not_minted(lifetime: int) -> None:
    """None at all, less than none, more than an hour."""
    async with an_operated_sidecar() as bench:
        with pytest.raises(ValueError, match="at most 1 hour"):
            bench.token(exp=NOON + lifetime)
