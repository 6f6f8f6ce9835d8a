"""What is kept of a conversation, through the SDK."""

from dataclasses import replace
from pathlib import Path

import pytest

from clients.python.tests.support.fake_sidecar_host import scene
from clients.python.tests.support.gateway_host import FakeGateway, gateway
from subagents.dispatch.v1 import dispatch_pb2
from subagents.history.v1 import history_pb2, record_pb2
from subagents.tools.v1 import tools_pb2
from subagents_client import CompactionDue, ContextMessage, EpisodeView, Score, ScoreSource
from subagents_client.runner.gateway import Gateways
from subagents_client.translate_history import episode
from subagents_errors import GrantSpent, InvalidRequest, SummaryOutdated

TOOL_MESSAGE = history_pb2.ToolMessage(turn_id="t-2", tool_input_json="INPUT", component_data_json="DATA")
ANSWER = history_pb2.ReadEpisodeResponse(
    summary=history_pb2.EpisodeSummary(revision=3, text="They met.", up_to_turn_id="t-1"),
    turns=[
        history_pb2.EpisodeTurn(turn_id="t-1", user_message="Hi", narration="Hello!"),
        history_pb2.EpisodeTurn(
            turn_id="t-2",
            user_message="Offers?",
            narration="Two.",
            answers=[history_pb2.SubAgentAnswer(sub_agent_id="shop", asked="offers", narration="ANSWERED")],
            references=[history_pb2.ComponentReference(sub_agent_id="shop", component_ids=["o-1"])],
            tool_messages=[TOOL_MESSAGE],
        ),
        history_pb2.EpisodeTurn(turn_id="t-3", narration="Goodbye."),
    ],
    turns_left_out=4,
    size=history_pb2.EpisodeSize(turn_count=2, token_count=99),
)


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        (dispatch_pb2.COMPACTION_DUE_DUE, CompactionDue.DUE),
        (dispatch_pb2.COMPACTION_DUE_NOT_DUE, CompactionDue.NOT_DUE),
        (dispatch_pb2.COMPACTION_DUE_UNKNOWN, CompactionDue.UNKNOWN),
        (0, CompactionDue.UNKNOWN),
        (17, CompactionDue.UNKNOWN),
    ],
)
async def test_the_surface_says_whether_compaction_is_due(sent: int, expected: CompactionDue) -> None:
    """Three states; an older sidecar says nothing, a newer one something else: unknown."""
    async with scene() as here:
        here.sidecar.compaction_due = sent
        assert (await here.turn()).surface.compaction_due is expected


async def test_an_episode_is_read_for_its_user_with_the_boot_secret() -> None:
    """Every field arrives; the request names view and number."""
    async with scene() as here:
        here.sidecar.history.episode = ANSWER
        read = await here.client.read_episode("episode-1", "user-1", view=EpisodeView.FULL, max_turns=5)
        sent = here.sidecar.history.received[-1]

    assert (sent.episode_id, sent.principal, sent.max_turns) == ("episode-1", "user-1", 5)
    assert sent.view == history_pb2.EPISODE_VIEW_FULL
    assert here.sidecar.history.secrets == ["secret-1"]
    assert (read.revision, read.turns_left_out, read.size.token_count) == (3, 4, 99)
    assert read.turns[1].answers[0].narration == "ANSWERED"
    assert read.turns[1].references[0].component_ids == ["o-1"]
    assert read.turns[1].tool_messages[0].component_data_json == "DATA"


def test_a_model_is_given_summary_user_messages_and_narration() -> None:
    """What the summary covers is left out, tool messages and sub-agents' answers too; nobody said nothing."""
    assert episode(ANSWER).context_messages() == [
        ContextMessage("system", "They met."),
        ContextMessage("user", "Offers?"),
        ContextMessage("assistant", "Two."),
        ContextMessage("assistant", "Goodbye."),
    ]


def test_an_episode_without_summary_begins_at_its_first_turn() -> None:
    """Revision 0, and all turns."""
    bare = episode(history_pb2.ReadEpisodeResponse(turns=ANSWER.turns[:1]))

    assert (bare.revision, bare.summary) == (0, None)
    assert [message.text for message in bare.context_messages()] == ["Hi", "Hello!"]


async def test_a_summary_is_written_over_the_one_that_was_read() -> None:
    """With its revision; if somebody else was quicker, that is an exception of its own."""
    async with scene() as here:
        size = await here.client.write_summary(
            "episode-1", "user-1", "They met.", up_to_turn_id="t-1", expected_revision=2
        )
        sent = here.sidecar.history.received[-1]
        here.sidecar.history.refusals.append(SummaryOutdated("read again"))
        with pytest.raises(SummaryOutdated):
            await here.client.write_summary("episode-1", "user-1", "x", up_to_turn_id="t-1", expected_revision=2)

    assert (sent.text, sent.up_to_turn_id, sent.expected_revision) == ("They met.", "t-1", 2)
    assert size.turn_count == 1


async def test_a_score_is_recorded_as_the_caller_gave_it() -> None:
    """Every field; what was scored comes back, and a value out of range is refused before anything is sent."""
    score = Score(
        score_id="s-1",
        turn_id="t-1",
        dispatch_id="d-1",
        call_id="c-1",
        name="helpfulness",
        value=0.5,
        source=ScoreSource.USER,
        label="meh",
        explanation="so so",
        principal="user-1",
    )
    async with scene() as here:
        scored = await here.client.history.record_score(score)
        sent = here.sidecar.history.received[-1]
        with pytest.raises(InvalidRequest):
            await here.client.history.record_score(replace(score, value=1.5))
        assert here.sidecar.history.received[-1] is sent

    assert (sent.score_id, sent.turn_id, sent.dispatch_id, sent.call_id) == ("s-1", "t-1", "d-1", "c-1")
    assert (sent.name, sent.value, sent.label, sent.explanation) == ("helpfulness", 0.5, "meh", "so so")
    assert (sent.source, sent.principal) == (record_pb2.SCORE_SOURCE_USER, "user-1")
    assert (scored.sub_agent_id, scored.arm, scored.recorded_before) == ("shop", "active", False)


async def test_the_end_of_a_turn_carries_what_the_user_said() -> None:
    """For history only."""
    async with scene() as here:
        turn = await here.turn()
        await turn.end("Two.", user_message="Offers?")

    assert here.sidecar.received[-1][1].user_message == "Offers?"


async def test_own_turns_come_through_the_gateway_with_the_grant(tmp_path: Path) -> None:
    """As values, oldest first; a grant that is spent is an exception of its own."""
    component = tools_pb2.OwnComponent(name="render_offers", position=1, component_ids=["o-1"])
    turns = [
        tools_pb2.OwnTurn(turn_id="t-1", asked="offers?", narration="Two.", components=[component]),
        tools_pb2.OwnTurn(turn_id="t-2", asked="more?", narration="None."),
    ]
    fake = FakeGateway(own_turns=tools_pb2.ReadOwnTurnsResponse(turns=turns))
    gateways = Gateways(allow_remote=False)
    async with gateway(fake, tmp_path) as target:
        own = await gateways.own_turns(target, "grant-1", 7, 5.0)
        fake.refusal = GrantSpent("over")
        with pytest.raises(GrantSpent):
            await gateways.own_turns(target, "grant-1", 0, 5.0)
        await gateways.close()

    assert [(each.turn_id, each.asked, each.answered) for each in own] == [
        ("t-1", "offers?", "Two."),
        ("t-2", "more?", "None."),
    ]
    assert own[0].components[0].component_ids == ["o-1"]
    assert (fake.grants[0], fake.own_requests[0].max_turns) == ("grant-1", 7)
