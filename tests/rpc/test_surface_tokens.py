"""The surface token carries a turn to any replica with the same key and definitions, and to no other."""

import base64
from datetime import timedelta

import pytest

from sidecar.adapters.record_memory import MemoryStore
from sidecar.core.identifiers import TurnId
from subagents.dispatch.v1 import dispatch_pb2 as pb
from tests.support.builders import a_card, a_catalogue
from tests.support.harness import SidecarForTests, running_sidecar_for_tests
from tests.support.requests import failure_of

LATER = {"k2": b"n" * 32}


async def test_another_replica_runs_the_turn_as_it_was_bound() -> None:
    """Bound at the first, dispatched and ended at the second: same user, cap and tools; its store has the record."""
    shared = MemoryStore()
    async with (
        running_sidecar_for_tests(cap=2, store=shared) as first,
        running_sidecar_for_tests(cap=5, store=shared) as second,
    ):
        bound = await first.bind(principal="ada", location="Wien")

        reply = await second.dispatch(bound, "ask_shop", "ask_rewards", "ask_support")
        ended = await second.end(bound)

        assert reply.outcomes == ["SUCCEEDED", "SUCCEEDED", "DROPPED"]
        assert second.runner.request_of("shop").context.principal == "ada"
        assert "Wien" in second.runner.request_of("shop").prompt_suffix
        assert ended.routing_decision.cohort == bound.surface.cohort
        assert ended.routing_decision.candidates == bound.surface.candidates
        assert (await shared.routing_record(bound_turn(second))) is not None


def bound_turn(sidecar: SidecarForTests) -> TurnId:
    """Return the id of the one turn that is known there."""
    (turn,) = sidecar.operations.turns
    return turn.turn_id


async def test_a_replica_with_newer_definitions_honours_what_it_still_keeps() -> None:
    """It has loaded a new shop since: the turn still runs the one it was bound to."""
    new = a_card("shop", description="Knows everything now.")
    async with running_sidecar_for_tests() as first, running_sidecar_for_tests() as second:
        bound = await first.bind()
        second.definitions.load(a_catalogue(new, a_card("rewards"), a_card("support")))

        await second.dispatch(bound, "ask_shop")

        ran = second.runner.request_of("shop").card
        assert ran.definition.description == "Knows about shop."
        assert ran.digest == bound.surface.sub_agent_tools[0].digest


async def test_a_replica_that_never_held_the_definitions_asks_to_bind_again() -> None:
    """Its shop is another one: refused, and nothing runs."""
    async with (
        running_sidecar_for_tests() as first,
        running_sidecar_for_tests(cards=[a_card("shop", description="Another shop.")]) as second,
    ):
        bound = await first.bind()

        refused = await failure_of(second.dispatch(bound, "ask_shop"))

        assert (refused.reason, second.runner.started) == ("SURFACE_TOKEN_EXPIRED", [])


async def test_a_replica_with_another_key_does_not_know_the_token() -> None:
    """A deployment's tokens are worth nothing in another one."""
    async with running_sidecar_for_tests() as first, running_sidecar_for_tests(keys={"k1": b"x" * 32}) as other:
        bound = await first.bind()

        refused = await failure_of(other.dispatch(bound, "ask_shop"))

        assert (refused.reason, other.runner.started) == ("SURFACE_TOKEN_INVALID", [])


async def test_a_token_of_the_key_before_is_honoured_while_that_key_is_kept() -> None:
    """Keys are being rotated: signed with the old, verified by a replica that has both."""
    both = {"k1": b"k" * 32, **LATER}
    async with running_sidecar_for_tests() as first, running_sidecar_for_tests(keys=both) as second:
        reply = await second.dispatch(await first.bind(), "ask_shop")

        assert reply.outcomes == ["SUCCEEDED"]


async def test_a_token_past_its_time_is_refused_where_the_turn_is_not_open() -> None:
    """It ended before it arrived at the other replica."""
    async with (
        running_sidecar_for_tests(rules={"turn_lifetime": timedelta(0)}, background=False) as first,
        running_sidecar_for_tests() as second,
    ):
        refused = await failure_of(second.dispatch(await first.bind(), "ask_shop"))

        assert (refused.reason, second.runner.started) == ("SURFACE_TOKEN_EXPIRED", [])


@pytest.mark.parametrize("field", ["principal", "fan_out_cap", "expires_at"])
async def test_claims_that_were_changed_are_refused(field: str) -> None:
    """Another user, a higher cap, a longer life: the signature does not fit; at the same process and at another."""
    changes = {
        "principal": (b'"user-1"', b'"user-2"'),
        "fan_out_cap": (b'"fan_out_cap":3', b'"fan_out_cap":9'),
        "expires_at": (b'"expires_at":"2', b'"expires_at":"3'),
    }
    async with running_sidecar_for_tests() as first, running_sidecar_for_tests() as second:
        bound = await first.bind()
        version, key, body, mac = bound.surface_token.split(".")
        claims = base64.urlsafe_b64decode(body + "==")
        old, new = changes[field]
        assert old in claims
        altered = base64.urlsafe_b64encode(claims.replace(old, new)).rstrip(b"=").decode()
        forged = pb.BindTurnResponse(surface=bound.surface, surface_token=f"{version}.{key}.{altered}.{mac}")

        for sidecar in (first, second):
            refused = await failure_of(sidecar.dispatch(forged, "ask_shop"))
            assert (refused.reason, sidecar.runner.started) == ("SURFACE_TOKEN_INVALID", [])


async def test_a_grant_is_no_surface_token_and_a_surface_token_is_no_grant() -> None:
    """The one is signed, the other a key to a table; neither passes for the other."""
    async with running_sidecar_for_tests() as sidecar:
        bound = await sidecar.bind()
        await sidecar.dispatch(bound, "ask_shop")
        swapped = pb.BindTurnResponse(surface=bound.surface, surface_token=sidecar.runner.requests[0].grant)

        as_token = await failure_of(sidecar.dispatch(swapped, "ask_shop"))
        as_grant = await failure_of(sidecar.call_tool(bound.surface_token, "offers", "{}"))

        assert (as_token.reason, as_grant.reason) == ("SURFACE_TOKEN_INVALID", "GRANT_INVALID")
