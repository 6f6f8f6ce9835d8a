"""Scores of calls: recorded once, bound to the call by the record alone, by the side that speaks for the source."""

from typing import Any

import grpc
import pytest

from subagents.admin.v1 import admin_pb2
from subagents.history.v1 import history_pb2 as pb
from subagents.history.v1 import record_pb2
from subagents.history.v1.history_pb2_grpc import HistoryServiceStub
from tests.rpc.test_two_sidecars import two_sidecars
from tests.support.fake_runner import hangs
from tests.support.harness import SidecarForTests, running_sidecar_for_tests
from tests.support.operators import OperatedSidecar, an_operated_sidecar
from tests.support.requests import Failure, failure_of
from tests.support.seen_turns import seen, stub

USER, JUDGE, RULE = record_pb2.SCORE_SOURCE_USER, record_pb2.SCORE_SOURCE_JUDGE, record_pb2.SCORE_SOURCE_RULE


def a_score(**fields: Any) -> pb.RecordScoreRequest:
    """Return the feedback of the user of turn-1 on its first call."""
    given: dict[str, Any] = {
        "score_id": "score-1",
        "turn_id": "turn-1",
        "dispatch_id": "dispatch-1",
        "call_id": "call-1",
        "name": "helpfulness",
        "value": 1.0,
        "label": "thumbs_up",
        "source": USER,
        "explanation": "just what I asked for",
        "principal": "user-20",
    }
    return pb.RecordScoreRequest(**(given | fields))


async def a_turn(sidecar: SidecarForTests, *tools: str, end: bool = True, **bind: Any) -> None:
    """Play turn-1 of user-20 with one dispatch."""
    bound = await sidecar.bind(**({"turn_id": "turn-1", "principal": "user-20"} | bind))
    await sidecar.dispatch(bound, *tools, dispatch_id="dispatch-1")
    if end:
        await sidecar.end(bound, narration="Here you are.")


async def recorded(sidecar: SidecarForTests, **fields: Any) -> pb.RecordScoreResponse:
    """Record a score as the consumer-agent."""
    return await stub(sidecar).RecordScore(a_score(**fields), timeout=10, metadata=sidecar.metadata)


async def refused(sidecar: SidecarForTests, **fields: Any) -> Failure:
    """Record a score that cannot be."""
    return await failure_of(recorded(sidecar, **fields))


async def test_a_score_after_the_end_of_the_turn_is_on_record_with_what_it_scores() -> None:
    """Definition, digest and arm come from the record; the turn shows the score; the recorder counts it once."""
    async with running_sidecar_for_tests() as sidecar:
        await a_turn(sidecar, "ask_shop", "ask_rewards")
        answer = await recorded(sidecar, call_id="call-2")
        turn = await seen(sidecar, "turn-1")

    digest = sidecar.definitions.current_card("rewards").digest
    assert (answer.sub_agent_id, answer.definition_id, answer.arm) == ("rewards", "rewards", "active")
    assert (answer.definition_digest, answer.recorded_before) == (digest, False)
    (score,) = turn.scores
    assert (score.dispatch_id, score.call_id, score.name, score.value) == ("dispatch-1", "call-2", "helpfulness", 1.0)
    assert (score.label, score.source, score.explanation) == ("thumbs_up", USER, "just what I asked for")
    assert (score.recorded_by, score.HasField("recorded_at")) == ("", True)
    (told,) = sidecar.recorder.of("score_recorded")
    assert (told[0].score_id, told[1].slot) == ("score-1", "rewards")


async def test_a_repeated_score_is_recorded_once_and_another_one_needs_another_id() -> None:
    """While the turn is open, and by whichever sidecar; the end of the turn is not disturbed."""
    async with two_sidecars() as pair:
        one, other = pair.first, pair.second
        bound = await one.bind(turn_id="turn-1", principal="user-20")
        await one.dispatch(bound, "ask_shop", dispatch_id="dispatch-1")
        first, again = await recorded(one), await recorded(other)
        reused = await refused(other, value=0.0)
        second = await recorded(other, score_id="score-2", value=0.0)
        ended = await one.end(bound, narration="Here you are.")
        turn = await seen(one, "turn-1")

    assert [first.recorded_before, again.recorded_before, second.recorded_before] == [False, True, False]
    assert (reused.code, reused.reason) == (grpc.StatusCode.ALREADY_EXISTS, "SCORE_ID_REUSED")
    assert ended.gate_passed
    assert [(each.score_id, each.value) for each in turn.scores] == [("score-1", 1.0), ("score-2", 0.0)]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"turn_id": "turn-9"}, "UNKNOWN_TURN"),
        ({"dispatch_id": "dispatch-9"}, "UNKNOWN_DISPATCH"),
        ({"call_id": "call-9"}, "UNKNOWN_CALL"),
        ({"principal": "user-21"}, "UNKNOWN_TURN"),
        ({"principal": ""}, "INVALID_REQUEST"),
        ({"source": JUDGE}, "INVALID_REQUEST"),
        ({"value": 1.01}, "INVALID_REQUEST"),
        ({"value": float("nan")}, "INVALID_REQUEST"),
        ({"explanation": "x" * 4097}, "INVALID_REQUEST"),
        ({"name": "Helpful, isn't it"}, "INVALID_REQUEST"),
    ],
)
async def test_what_cannot_be_recorded(fields: dict[str, Any], reason: str) -> None:
    """No such call, another user's call, a source that another side speaks for, or a value out of range."""
    async with running_sidecar_for_tests() as sidecar:
        await a_turn(sidecar, "ask_shop")
        assert (await refused(sidecar, **fields)).reason == reason
        assert list((await seen(sidecar, "turn-1")).scores) == []


async def test_another_users_call_is_not_scored() -> None:
    """A front end that mixes up two users learns nothing of the other one's turn."""
    async with running_sidecar_for_tests() as sidecar:
        await a_turn(sidecar, "ask_shop")
        assert (await refused(sidecar, principal="user-21")).reason == "UNKNOWN_TURN"


async def test_a_call_that_runs_or_that_no_sub_agent_ran_has_no_score() -> None:
    """The refusal names its cause; a running call can be scored once it has its outcome."""
    async with running_sidecar_for_tests() as sidecar:
        sidecar.runner.use("shop", hangs())
        bound = await sidecar.bind(turn_id="turn-1", principal="user-20")
        request = sidecar.dispatch_request(bound, "ask_shop", "ask_nobody", dispatch_id="dispatch-1")
        stream = sidecar.stub.Dispatch(request, metadata=sidecar.metadata)
        await sidecar.runner.until_started("shop")
        running = await refused(sidecar)
        await sidecar.end(bound, narration="Never mind.")
        unserved = await refused(sidecar, call_id="call-2")
        stopped = await recorded(sidecar)
        stream.cancel()

    assert (running.reason, running.metadata["cause"]) == ("SCORE_REFUSED", "running")
    assert (unserved.reason, unserved.metadata["cause"]) == ("SCORE_REFUSED", "not_served")
    assert stopped.sub_agent_id == "shop"


async def _of_operators(bench: OperatedSidecar, role: str, **fields: Any) -> pb.RecordScoreResponse:
    request = a_score(**({"source": JUDGE, "principal": ""} | fields))
    metadata = bench.role(role, sub="judge@ci")
    return await HistoryServiceStub(bench.channel).RecordScore(request, timeout=10, metadata=metadata)


async def test_judges_are_heard_at_the_operators_listener_and_users_at_the_agents() -> None:
    """Neither side can speak for the other; the record names the judge's token."""
    async with an_operated_sidecar() as bench:
        await bench.promoted(ramp=9999)
        await a_turn(bench.sidecar, "ask_shop")
        judged = await _of_operators(bench, "automation", value=0.25)
        not_the_user = await failure_of(_of_operators(bench, "operator", source=USER, principal="user-20"))
        ruled = await _of_operators(bench, "operator", source=RULE, score_id="score-2")
        turn = await seen(bench.sidecar, "turn-1")

    assert (judged.definition_id, judged.arm) == ("shop", "active")
    assert not_the_user.reason == "INVALID_REQUEST"
    assert ruled.recorded_before is False
    assert [(each.source, each.recorded_by) for each in turn.scores] == [(JUDGE, "judge@ci"), (RULE, "judge@ci")]


async def test_the_explanation_is_erased_with_the_users_content_and_the_record_still_verifies() -> None:
    """Value and label stay, as all decisions do; a further score of the erased turn is refused."""
    async with an_operated_sidecar() as bench:
        await bench.promoted(ramp=9999)
        await a_turn(bench.sidecar, "ask_shop")
        await recorded(bench.sidecar)
        asked = admin_pb2.EraseUserRequest(principal="user-20", reason="they asked for it")
        told = [each async for each in bench.admin.EraseUser(asked, timeout=10, metadata=bench.role())]
        (score,) = (await seen(bench.sidecar, "turn-1")).scores
        later = await refused(bench.sidecar, score_id="score-2")
        again = await recorded(bench.sidecar)
        verified = [each async for each in bench.admin.VerifyLog(admin_pb2.VerifyLogRequest(), metadata=bench.role())]

    assert told[-1].done
    assert (score.value, score.label, score.explanation) == (1.0, "thumbs_up", "")
    assert (later.reason, later.metadata["cause"]) == ("SCORE_REFUSED", "erased")
    assert again.recorded_before
    assert verified[-1].done
    assert [finding for each in verified for finding in each.findings] == []
