"""Requests to see turns that cannot be used, and callers who may not see any."""

import base64
from typing import Any

import pytest
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from grpc import StatusCode

from sidecar.rpc.authorisation import BOOT_SECRET_KEY, CALLERS_OF
from subagents.history.v1 import history_pb2 as pb
from tests.rpc.raw_calls import BAD_UTF8, DEEP, TRUNCATED, raw_failure
from tests.support.harness import running_sidecar_for_tests
from tests.support.seen_turns import HISTORY, listed

METHODS = tuple(name.removeprefix(HISTORY) for name in CALLERS_OF if name.startswith(HISTORY))
UNKNOWN: Any = 999
"""A number that no enum of ours has."""


def a_token(text: str) -> str:
    """Return text as a page token is written."""
    return base64.urlsafe_b64encode(text.encode()).decode()


def watch(*after: tuple[str, int]) -> pb.WatchEventsRequest:
    """Return a request to watch after these positions."""
    seen = [pb.SeenUpTo(child_id=child_id, sequence=sequence) for child_id, sequence in after]
    return pb.WatchEventsRequest(turn_id="t", after=seen)


BAD: list[tuple[str, Message, str]] = [
    ("ListTurns", pb.ListTurnsRequest(page_size=-1), "page_size"),
    ("ListTurns", pb.ListTurnsRequest(page_token="x"), "page_token"),
    ("ListTurns", pb.ListTurnsRequest(page_token="ä"), "page_token"),
    ("ListTurns", pb.ListTurnsRequest(page_token=a_token("null")), "page_token"),
    ("ListTurns", pb.ListTurnsRequest(page_token=a_token('["2026-11-21T00:00:00", "t"]')), "page_token"),
    ("ListTurns", pb.ListTurnsRequest(page_token=a_token('["2026-11-21T00:00:00Z", "a b"]')), "page_token"),
    ("ListTurns", pb.ListTurnsRequest(page_token="A" * 1024), "page_token"),
    ("ListTurns", pb.ListTurnsRequest(episode_id="a b"), "episode_id"),
    ("ListTurns", pb.ListTurnsRequest(sub_agent_id="s" * 61), "sub_agent_id"),
    ("ListTurns", pb.ListTurnsRequest(sub_agent_id="s\n"), "sub_agent_id"),
    ("ListTurns", pb.ListTurnsRequest(state=UNKNOWN), "state"),
    ("ListTurns", pb.ListTurnsRequest(principal="a\nb"), "principal"),
    ("ListTurns", pb.ListTurnsRequest(outcome=UNKNOWN), "outcome"),
    ("ListTurns", pb.ListTurnsRequest(definition_id="Not An Id"), "definition_id"),
    ("ListTurns", pb.ListTurnsRequest(since=Timestamp(seconds=2**60)), "since"),
    ("ListTurns", pb.ListTurnsRequest(until=Timestamp(seconds=-(2**60))), "until"),
    ("GetTurn", pb.GetTurnRequest(), "turn_id"),
    ("GetTurn", pb.GetTurnRequest(turn_id="t", child_ids=["c"] * 65), "child_ids"),
    ("GetTurn", pb.GetTurnRequest(turn_id="t", child_ids=["c", ""]), "child_ids[1]"),
    ("WatchEvents", pb.WatchEventsRequest(turn_id="x" * 129), "turn_id"),
    ("WatchEvents", watch(("", 1)), "after[0].child_id"),
    ("WatchEvents", watch(("c", -1)), "after[0].sequence"),
    ("WatchEvents", watch(("c", 2**53 + 1)), "after[0].sequence"),
    ("WatchEvents", watch(("c", 1), ("c", 2)), "after[1].child_id"),
    ("WatchEvents", watch(*((f"c-{number}", 1) for number in range(1001))), "after"),
    ("ListEpisodes", pb.ListEpisodesRequest(page_size=-1), "page_size"),
    ("ListEpisodes", pb.ListEpisodesRequest(page_token="x"), "page_token"),
]


async def test_each_field_that_cannot_be_used_is_named() -> None:
    """One wrong field at a time: exactly that one is named, with a sentence."""
    async with running_sidecar_for_tests() as sidecar:
        for method, request, field in BAD:
            body = request.SerializeToString()
            failure = await raw_failure(sidecar.channel, HISTORY + method, body, sidecar.metadata)
            case = f"{method} {field} {str(request)[:200]}"
            assert (failure.code, failure.reason) == (StatusCode.INVALID_ARGUMENT, "INVALID_REQUEST"), case
            assert list(failure.fields) == [field], case
            assert failure.fields[field], case


def test_every_method_of_the_service_is_tried() -> None:
    """The list is read off the table of who may call what, so a new method is tried without being named here."""
    assert {"ListTurns", "GetTurn", "WatchEvents", "ListEpisodes"} <= set(METHODS)
    assert {method for method, _, _ in BAD} <= set(METHODS)


@pytest.mark.parametrize("body", [TRUNCATED, BAD_UTF8, DEEP], ids=["truncated", "bad UTF-8", "deep"])
async def test_bytes_that_are_no_message_are_refused_with_a_fixed_text(body: bytes) -> None:
    """Every method of the service; the first field of a list's request is a number, which bad text is no value of."""
    methods = [name for name in METHODS if body != BAD_UTF8 or not name.startswith("List")]
    async with running_sidecar_for_tests() as sidecar:
        for name in methods:
            failure = await raw_failure(sidecar.channel, HISTORY + name, body, sidecar.metadata)
            assert (failure.code, failure.reason) == (StatusCode.INVALID_ARGUMENT, "MALFORMED_MESSAGE"), name


async def test_nobody_sees_a_turn_without_the_boot_secret_or_from_the_side_of_the_sub_agents() -> None:
    """No secret, a wrong one, and a runner host that knows it: refused before anything is parsed."""
    async with running_sidecar_for_tests() as sidecar:
        for name in METHODS:
            for metadata in ((), ((BOOT_SECRET_KEY, "wrong"),)):
                failure = await raw_failure(sidecar.channel, HISTORY + name, TRUNCATED, metadata)
                assert (failure.code, failure.reason) == (StatusCode.UNAUTHENTICATED, "BOOT_SECRET_WRONG"), name
            failure = await raw_failure(sidecar.tools_channel, HISTORY + name, TRUNCATED, sidecar.metadata)
            assert (failure.code, failure.reason) == (StatusCode.PERMISSION_DENIED, "WRONG_LISTENER"), name


async def test_the_largest_page_is_served() -> None:
    """The end of the range that the proto states."""
    async with running_sidecar_for_tests() as sidecar:
        assert list((await listed(sidecar, page_size=200)).turns) == []
