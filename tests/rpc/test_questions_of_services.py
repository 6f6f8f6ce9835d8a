"""A data service that asks the user: the question passes the check of an envelope, whichever connector brings it."""

from collections.abc import Callable
from datetime import timedelta

from msgspec.structs import replace

from sidecar.core.dispatching.questions import Answerer, Asked, QuestionKind
from sidecar.policy.protocols import EnricherAsks, EnricherCall
from tests.support.data_tools import a_card_with_tools, a_tool
from tests.support.fake_runner import calls_tool
from tests.support.harness import Reply, running_sidecar_for_tests
from tests.support.requirement import requirement

CANARY = "Shall the order of user-eve go to 7 Elm Street?"


def asks(principal: str | None, nonce: Callable[[EnricherCall], str | None]) -> Callable[[EnricherCall], EnricherAsks]:
    """Return a data service that asks a question about user-eve, and says that it is for `principal`."""
    asked = Asked(
        kind=QuestionKind.NEEDS_APPROVAL,
        text=CANARY,
        about_json="",
        answerer=Answerer.USER,
        expires_in=timedelta(hours=1),
        state=b"",
    )
    return lambda call: EnricherAsks(asked, principal, nonce(call))


async def a_turn(reply: Callable[[EnricherCall], EnricherAsks]) -> tuple[Reply, list[str], int]:
    """Let user-1's shop call the tool; return the outcome, why data was withheld, and how many alerts there were."""
    card = replace(a_card_with_tools("shop", "offers"), tools=(a_tool("offers", echoes_nonce=True),))
    async with running_sidecar_for_tests(cards=[card]) as sidecar:
        sidecar.connector.reply = reply
        sidecar.runner.use("shop", calls_tool("offers"))
        reply_of_turn = await sidecar.dispatch(await sidecar.bind(), "ask_shop")
        reasons = [str(each[2]) for each in sidecar.recorder.of("data_call")]
        return reply_of_turn, reasons, len(sidecar.recorder.of("security_incident"))


async def test_a_question_for_the_user_of_the_call_is_passed_on() -> None:
    """The call is suspended with it; the tests below can fail."""
    reply, reasons, incidents = await a_turn(asks("user-1", lambda call: call.nonce))
    assert reply.outcomes == ["SUSPENDED"]
    assert reply.of("call-1").question.text == CANARY
    assert (reasons, incidents) == (["asks_back"], 0)


@requirement("PC2-FR-12a")
async def test_a_question_for_another_user_reaches_nobody() -> None:
    """The service says that it asks user-eve: an incident, and no word of the question leaves the gateway."""
    reply, reasons, incidents = await a_turn(asks("user-eve", lambda call: call.nonce))
    assert reply.outcomes == ["DEGRADED"]
    assert CANARY not in str(reply)
    assert (reasons, incidents) == (["principal_mismatch"], 1)


async def test_a_question_that_does_not_say_for_whom_it_is_reaches_nobody() -> None:
    """As an envelope without a principal."""
    reply, reasons, incidents = await a_turn(asks(None, lambda call: call.nonce))
    assert reply.outcomes == ["DEGRADED"]
    assert (reasons, incidents) == (["principal_absent"], 1)


async def test_a_question_of_another_call_reaches_nobody() -> None:
    """Its nonce is not that of this call: it may be the question of another user that came to the wrong call."""
    reply, reasons, _ = await a_turn(asks("user-1", lambda _: "nonce-of-another-call"))
    assert reply.outcomes == ["DEGRADED"]
    assert reasons == ["nonce_mismatch"]
