"""A sub-agent asks back: the call is suspended, and a later call with receipt and answer continues its work, once."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any

import pytest

from sidecar.core.dispatching.outcomes import MESSAGE_OF
from sidecar.core.executing.records import QuestionAnswered
from sidecar.policy.protocols import Answerer, Asked, NarrationPart, QuestionKind, RunFinished, RunnerEvent, RunRequest
from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.dispatch.v1 import outcome_pb2, question_pb2
from subagents.errors.v1.error_reason_pb2 import ErrorReason
from subagents_errors import CallFailure
from tests.rpc.test_two_sidecars import two_sidecars
from tests.support.builders import a_card, a_catalogue, with_limits
from tests.support.fake_runner import ScriptedRunner, hangs
from tests.support.harness import Reply, SidecarForTests, running_sidecar_for_tests
from tests.support.records import event_named
from tests.support.requests import failure_of
from tests.support.requirement import requirement

ORDER = Asked(QuestionKind.NEEDS_APPROVAL, "Order two pairs?", '{"total": 18}', state=b"basket 7")
SIZE = Asked(QuestionKind.NEEDS_INPUT, "Which size?", answerer=Answerer.ORCHESTRATOR)


def asks(asked: Any) -> Any:
    """Ask back once; who is continued says what was answered."""

    async def script(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        given = request.continuation
        if given is None:
            yield RunFinished(asked=asked)
        else:
            said = given.answering.decision or given.answering.text
            yield NarrationPart(f"{given.question} {said}, {given.state.decode()}")
            yield RunFinished()

    return script


def waits_after(event: asyncio.Event) -> Any:
    """Say that it runs, and never end."""

    async def script(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
        event.set()
        async for each in hangs()(request, runner):
            yield each

    return script


def approved(receipt: str, **fields: Any) -> question_pb2.Answering:
    """Return the user's approval."""
    given = {"decision": question_pb2.DECISION_APPROVED, "answered_by": question_pb2.ANSWERER_USER}
    return question_pb2.Answering(receipt=receipt, **(given | fields))


def answering(answer: question_pb2.Answering, tool: str = "ask_shop", call_id: str = "call-1") -> pb.ToolCall:
    """Return a call that answers a question."""
    return pb.ToolCall(call_id=call_id, tool_name=tool, arguments_json='{"request": "yes"}', answering=answer)


async def asked_in_a_turn(sidecar: SidecarForTests, asked: Any = ORDER, **bind: Any) -> outcome_pb2.CallOutcome:
    """Play a turn whose one call is suspended; returns its outcome."""
    sidecar.runner.use("shop", asks(asked))
    bound = await sidecar.bind(**bind)
    reply = await sidecar.dispatch(bound, "ask_shop")
    await sidecar.end(bound, narration="One moment: order two pairs?")
    return reply.of("call-1")


async def answered(sidecar: SidecarForTests, answer: question_pb2.Answering, **bind: Any) -> Reply:
    """Answer in another turn."""
    return await sidecar.dispatch(await sidecar.bind(**bind), answering(answer))


def reason_of(reply: Reply, call_id: str = "call-1") -> str:
    """Return why a call did not succeed."""
    return ErrorReason.Name(reply.of(call_id).status.reason).removeprefix("ERROR_REASON_")


@requirement("PC2-AC-4a")
async def test_a_question_suspends_the_call_and_the_turn_ends_as_usual() -> None:
    """The parent takes the question: the child is completed, and the outcome is neither an answer nor a failure."""
    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("shop", asks(ORDER))
        bound = await sidecar.bind()
        reply = await sidecar.dispatch(bound, "ask_shop", "ask_rewards")
        ended = await sidecar.end(bound, narration="Order two pairs?")

    assert reply.outcomes == ["SUSPENDED", "SUCCEEDED"]
    question = reply.of("call-1").question
    assert (question.text, question.about_json) == ("Order two pairs?", '{"total": 18}')
    assert question.kind == question_pb2.QUESTION_KIND_NEEDS_APPROVAL
    assert question.answerer == question_pb2.ANSWERER_USER
    assert reason_of(reply) == "NEEDS_APPROVAL"
    assert reply.of("call-1").status.axis == 0
    assert ended.gate_passed
    assert [(each.sub_agent_id, each.final_status) for each in ended.children] == [
        ("shop", outcome_pb2.FINAL_STATUS_COMPLETED),
        ("rewards", outcome_pb2.FINAL_STATUS_COMPLETED),
    ]


async def test_a_later_call_with_receipt_and_answer_continues_the_work_once() -> None:
    """The new child is another one, is told question, answer and state, and says in its log what it continues."""
    async with running_sidecar_for_tests() as sidecar:
        asking = await asked_in_a_turn(sidecar)
        first = await answered(sidecar, approved(asking.question.receipt))
        again = await answered(sidecar, approved(asking.question.receipt))

        assert first.outcomes == ["SUCCEEDED"]
        assert first.of("call-1").narration == "Order two pairs? approved, basket 7"
        assert first.of("call-1").child_id != asking.child_id
        continues = event_named(sidecar, first.of("call-1").child_id, "subagent_continues")
        assert continues.details() == {"child_id": asking.child_id, "turn_id": "turn-1"}
        suspended = event_named(sidecar, asking.child_id, "subagent_suspended")
        assert suspended.details()["question"] == "Order two pairs?"
        assert "basket 7" not in suspended.details_json
        stored = await sidecar.store.turn("turn-1")  # type: ignore[arg-type]  # a text will do
        assert stored is not None
        assert stored.children[0].answered_by is not None
        assert stored.children[0].answered_by.turn_id == "turn-3"

    assert again.outcomes == ["REFUSED"]
    assert reason_of(again) == "RECEIPT_USED"


async def test_a_dispatch_that_is_sent_again_finds_its_own_answer() -> None:
    """The receipt is used by this call already: the request is the same one, and not a second use."""
    async with running_sidecar_for_tests() as sidecar:
        asking = await asked_in_a_turn(sidecar)
        bound = await sidecar.bind()
        request = sidecar.dispatch_request(bound, answering(approved(asking.question.receipt)))
        first = await sidecar.send(request)
        again = await sidecar.send(request)

    assert [first.outcomes, again.outcomes] == [["SUCCEEDED"], ["SUCCEEDED"]]
    assert len(sidecar.runner.requests) == 2


async def test_an_earlier_dispatch_of_the_same_turn_may_be_answered() -> None:
    """The turn that asked is still open."""
    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("shop", asks(ORDER))
        bound = await sidecar.bind()
        asking = (await sidecar.dispatch(bound, "ask_shop")).of("call-1")
        reply = await sidecar.dispatch(bound, answering(approved(asking.question.receipt)))
        ended = await sidecar.end(bound, narration="Ordered.")

    assert reply.outcomes == ["SUCCEEDED"]
    assert [each.final_status for each in ended.children] == [outcome_pb2.FINAL_STATUS_COMPLETED] * 2


@pytest.mark.parametrize(
    ("bind", "reason"),
    [
        ({"principal": "user-2"}, "RECEIPT_OTHER_PRINCIPAL"),
        ({"episode_id": "episode-2"}, "RECEIPT_OTHER_EPISODE"),
    ],
)
async def test_a_receipt_is_for_one_user_and_one_conversation(bind: dict[str, str], reason: str) -> None:
    """Anything else is refused, runs nothing, and leaves the question open."""
    async with running_sidecar_for_tests() as sidecar:
        asking = await asked_in_a_turn(sidecar)
        refused = await answered(sidecar, approved(asking.question.receipt), **bind)
        accepted = await answered(sidecar, approved(asking.question.receipt))

    assert (refused.outcomes, reason_of(refused)) == (["REFUSED"], reason)
    assert refused.of("call-1").child_id == ""
    assert accepted.outcomes == ["SUCCEEDED"]


async def test_receipts_that_are_forged_expired_or_of_another_sub_agent_are_refused() -> None:
    """Each has a reason of its own; a surface token is no receipt."""
    async with running_sidecar_for_tests() as sidecar:
        asking = await asked_in_a_turn(sidecar)
        at_once = Asked(QuestionKind.NEEDS_APPROVAL, "?", expires_in=timedelta(microseconds=1))
        short = await asked_in_a_turn(sidecar, at_once)
        bound = await sidecar.bind()
        forged = asking.question.receipt[:-2] + ("AA" if not asking.question.receipt.endswith("AA") else "BB")
        reply = await sidecar.dispatch(
            bound,
            answering(approved(forged), call_id="forged"),
            answering(approved(bound.surface_token), call_id="token"),
            answering(approved(short.question.receipt), call_id="expired"),
        )
        other = await sidecar.dispatch(bound, answering(approved(asking.question.receipt), tool="ask_rewards"))

    assert [reason_of(reply, each) for each in ("forged", "token", "expired")] == [
        "RECEIPT_UNKNOWN",
        "RECEIPT_UNKNOWN",
        "RECEIPT_EXPIRED",
    ]
    assert reason_of(other) == "RECEIPT_OTHER_SUB_AGENT"


async def test_only_the_user_may_approve_and_a_question_for_the_model_may_be_answered_by_it() -> None:
    """An approval by the model is refused, so is an answer without a decision; the question stays open."""
    async with running_sidecar_for_tests() as sidecar:
        asking = await asked_in_a_turn(sidecar)
        receipt = asking.question.receipt
        by_model = await answered(sidecar, approved(receipt, answered_by=question_pb2.ANSWERER_ORCHESTRATOR))
        undecided = await answered(sidecar, approved(receipt, decision=question_pb2.DECISION_UNSPECIFIED))
        nobody = await failure_of(answered(sidecar, approved(receipt, answered_by=question_pb2.ANSWERER_UNSPECIFIED)))
        declined = await answered(sidecar, approved(receipt, decision=question_pb2.DECISION_DECLINED))
        size = (await asked_in_a_turn(sidecar, SIZE)).question.receipt
        sized = await answered(
            sidecar, approved(size, decision=0, text="42", answered_by=question_pb2.ANSWERER_ORCHESTRATOR)
        )

    assert reason_of(by_model) == "RECEIPT_OTHER_ANSWERER"
    assert reason_of(undecided) == "ARGUMENTS_INVALID"
    assert nobody.fields["calls[0].answering.answered_by"].startswith("must be one of")
    assert declined.of("call-1").narration == "Order two pairs? declined, basket 7"
    assert sized.of("call-1").narration == "Which size? 42, "


async def test_another_version_of_the_definition_does_not_continue_the_work() -> None:
    """After a rollback, kill or revision the state is of another version, and the receipt is refused."""
    async with running_sidecar_for_tests() as sidecar:
        asking = await asked_in_a_turn(sidecar)
        other = a_card("shop", description="Another version.")
        sidecar.definitions.load(a_catalogue(other, a_card("rewards"), a_card("support")))
        refused = await answered(sidecar, approved(asking.question.receipt))

    assert reason_of(refused) == "RECEIPT_DEFINITION_CHANGED"


@pytest.mark.parametrize(
    "unfit",
    [
        Asked(QuestionKind.NEEDS_INPUT, " "),
        Asked(QuestionKind.NEEDS_INPUT, "?" * 5000),
        Asked(QuestionKind.NEEDS_INPUT, "?", about_json="{"),
        Asked(QuestionKind.NEEDS_INPUT, "?", state=b"x" * 70_000),
        Asked(QuestionKind.NEEDS_INPUT, "?\ud800"),
        Asked(QuestionKind.NEEDS_INPUT, "?", expires_in=timedelta(0)),
        Asked(QuestionKind.NEEDS_APPROVAL, "?", answerer=Answerer.ORCHESTRATOR),
        Asked("what", "?"),  # type: ignore[arg-type]  # what a runner in this process may report
        Asked(QuestionKind.NEEDS_INPUT, 7),  # type: ignore[arg-type]  # what a runner in this process may report
        Asked(QuestionKind.NEEDS_INPUT, "?", state="no bytes"),  # type: ignore[arg-type]  # what a runner in this process may report
        object(),
    ],
)
async def test_a_question_out_of_bounds_fails_the_attempt(unfit: Any) -> None:
    """Nothing of it is passed on."""
    async with running_sidecar_for_tests() as sidecar:
        outcome = await asked_in_a_turn(sidecar, unfit)

    assert outcome.outcome == outcome_pb2.OUTCOME_FAILED
    assert not outcome.HasField("question")


async def test_a_sub_agent_that_was_delegated_to_cannot_ask_back() -> None:
    """Nothing could continue its work: its delegation fails with a reason of its own, and the parent goes on."""
    cards = [with_limits(a_card("shop"), max_delegation_depth=1), a_card("rewards")]
    async with running_sidecar_for_tests(cards=cards) as sidecar:

        async def delegates(request: RunRequest, runner: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
            below = await runner.delegate(request.grant, "ask_rewards")
            yield NarrationPart(below.message)
            yield RunFinished()

        sidecar.runner.use("shop", delegates)
        sidecar.runner.use("rewards", asks(ORDER))
        reply = await sidecar.dispatch(await sidecar.bind(), "ask_shop")

    assert reply.of("call-1").narration == MESSAGE_OF[CallFailure.QUESTION_REFUSED]


async def test_any_replica_continues_the_work_also_after_the_one_that_asked_is_gone() -> None:
    """The question, its state and the receipt are on record; both have the same keys."""
    async with two_sidecars() as pair:
        asking = await asked_in_a_turn(pair.first)
        pair.kill_first()
        pair.second.runner.use("shop", asks(ORDER))
        reply = await answered(pair.second, approved(asking.question.receipt), turn_id="turn-b")

    assert reply.of("call-1").narration == "Order two pairs? approved, basket 7"


async def test_two_sidecars_that_are_answered_at_the_same_time_continue_the_work_once() -> None:
    """One of the two calls runs, the other one is refused."""
    async with two_sidecars() as pair:
        asking = await asked_in_a_turn(pair.first)
        pair.second.runner.use("shop", asks(ORDER))
        answer = approved(asking.question.receipt)
        replies = await asyncio.gather(
            answered(pair.first, answer, turn_id="turn-a"), answered(pair.second, answer, turn_id="turn-b")
        )

        assert sorted(each.outcomes[0] for each in replies) == ["REFUSED", "SUCCEEDED"]
        assert len(pair.kept(QuestionAnswered)) == 1


async def test_a_sidecar_that_takes_the_continuation_over_gives_the_sub_agent_the_same() -> None:
    """Question, answer and state are read again from the record."""
    shop = with_limits(a_card("shop"), max_retries=1)
    async with two_sidecars(shop, a_card("rewards"), a_card("support")) as pair:
        asking = await asked_in_a_turn(pair.first)
        continues = asyncio.Event()
        pair.first.runner.use("shop", waits_after(continues))
        pair.second.runner.use("shop", asks(ORDER))
        bound = await pair.first.bind(turn_id="turn-b")
        call = answering(approved(asking.question.receipt))
        running = asyncio.create_task(failure_of(pair.first.dispatch(bound, call, dispatch_id="d-1")))
        await continues.wait()
        pair.kill_first()
        reply = await pair.second.resume(bound, "d-1")
        running.cancel()

    assert reply.of("call-1").narration == "Order two pairs? approved, basket 7"


async def test_a_receipt_of_a_key_that_is_not_kept_any_more_is_unknown() -> None:
    """As a surface token of such a key."""
    async with running_sidecar_for_tests() as sidecar:
        asking = await asked_in_a_turn(sidecar)
        async with running_sidecar_for_tests(store=sidecar.store, keys={"k1": b"n" * 32}) as rotated:
            reply = await answered(rotated, approved(asking.question.receipt), turn_id="turn-r")

    assert reason_of(reply) == "RECEIPT_UNKNOWN"
