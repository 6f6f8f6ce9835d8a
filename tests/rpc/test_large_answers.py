"""How large an answer of a data service may be, and how much of its judging the event loop does in one piece."""

import pytest
from msgspec.structs import replace

from sidecar.core.envelopes.limits import EnvelopeLimits
from sidecar.core.envelopes.release import check_envelope
from sidecar.core.envelopes.typing_registry import build_typing_registry
from sidecar.core.envelopes.verdicts import Expectation, Released
from sidecar.core.identifiers import Principal
from sidecar.operations.turn.child.call_tool import SMALL_BODY
from sidecar.policy.protocols import EnricherAnswer, EnricherCall
from tests.support.call_counting import CallCounter
from tests.support.data_tools import a_card_with_tools, a_tool, an_envelope
from tests.support.fake_runner import calls_tool
from tests.support.harness import running_sidecar_for_tests
from tests.support.records import event_named

KIB = 1024
LIMITS = EnvelopeLimits(default_bytes=8 * KIB, max_bytes=32 * KIB)


def of_size(call: EnricherCall, size: int) -> EnricherAnswer:
    """Return the right answer to a call, of so many bytes."""
    bare = len(an_envelope(call, payload={"text": ""}).body)
    return an_envelope(call, payload={"text": "x" * (size - bare)})


@pytest.mark.parametrize(
    ("allowed", "size", "result"),
    [
        (None, 8 * KIB, "released"),
        (None, 8 * KIB + 1, "too_large"),
        (16 * KIB, 16 * KIB, "released"),
        (16 * KIB, 16 * KIB + 1, "too_large"),
        (4 * KIB, 4 * KIB + 1, "too_large"),
        (64 * KIB, 32 * KIB, "released"),
        (64 * KIB, 32 * KIB + 1, "too_large"),
    ],
)
async def test_an_answer_may_be_as_large_as_its_tool_says(allowed: int | None, size: int, result: str) -> None:
    """Without a word of the tool the platform's default holds, and the platform's maximum in each case."""
    card = a_card_with_tools("shop", "offers")
    card = replace(card, tools=(a_tool("offers", max_response_bytes=allowed),))
    async with running_sidecar_for_tests(cards=[card], rules={"envelopes": LIMITS}) as sidecar:
        sidecar.connector.reply = lambda call: of_size(call, size)
        sidecar.runner.use("shop", calls_tool("offers"))

        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop")

        assert [each[2] for each in sidecar.recorder.of("data_call")] == [result]
        if result == "too_large":
            withheld = event_named(sidecar, reply.of("call-1").child_id, "data_withheld").details()
            assert "max_response_bytes" in withheld["remedy"]


def test_what_the_loop_judges_in_one_piece_is_small() -> None:
    """The worst answer of that size, all of it objects, each of which is a call; larger ones are judged in a thread."""
    begin, end = (
        b'{"domain_type":"Anything","enricher_id":"offers","version":"1.0.0","principal":"u","status":"ok",',
        b"}",
    )
    objects = (SMALL_BODY - len(begin) - len(b'"payload":{"a":[]}') - len(end)) // len(b"{},")
    body = begin + b'"payload":{"a":[' + b",".join([b"{}"] * objects) + b"]}" + end
    assert SMALL_BODY - 8 < len(body) <= SMALL_BODY
    registry, _ = build_typing_registry([a_tool("offers")])
    schema = registry.schema_of("Anything", "offers")
    expected = Expectation(
        principal=Principal("u"), domain_type="Anything", enricher_id="offers", version="1.0.0", schema=schema
    )

    counter = CallCounter()
    with counter.counting():
        judged = check_envelope(body, expected)

    assert isinstance(judged, Released)
    assert objects <= counter.counted.total() <= objects + 100
