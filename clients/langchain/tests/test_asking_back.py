"""A sub-agent asks back under LangChain: the model is told, or a person answers an interrupt of the graph."""

from langchain_core.messages import ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from clients.langchain.tests.support.agents import agent, asked
from clients.langchain.tests.support.scripted_model import calling, composes, says
from clients.langchain.tests.support.talking import routed, talking
from clients.langchain.tests.test_going_on import ended_meanwhile, kept_turn
from subagents_client import Outcome
from subagents_langchain import OrchestratorRules, outcome_in
from tests.rpc.test_asking_back import ORDER, asks
from tests.support.requirement import requirement

INTERRUPTING = OrchestratorRules(interrupt_on_questions=True)


async def test_the_model_is_told_the_question_and_never_sees_the_receipt() -> None:
    """The answer passes it on to the user; nothing is noted as missing, and the application has the question."""
    async with talking(calling("ask_shop"), says("Shall I order two pairs?")) as talk:
        talk.sidecar.runner.use("shop", asks(ORDER))
        answer = await talk.say("Two pairs of socks, please.")

    (message,) = [one for one in answer.messages if isinstance(one, ToolMessage)]
    outcome = outcome_in(message)
    assert outcome is not None
    assert outcome.question is not None
    assert "Order two pairs?" in str(message.content)
    assert outcome.question.receipt not in str(message.content)
    assert (message.status, talk.noted, routed(answer)) == ("success", [], [("shop", "suspended")])


@requirement("PC2-D-3")
async def test_a_question_interrupts_the_graph_and_the_persons_decision_continues_the_work() -> None:
    """The tool inside the sub-agent is approved: the same tool call of the model gets the answer."""
    async with talking(calling("ask_shop", "ask_rewards"), composes) as talk:
        talk.sidecar.runner.use("shop", asks(ORDER))
        orchestrator = agent(talk, checkpointer=InMemorySaver(), rules=INTERRUPTING)
        waiting = await asked(orchestrator)
        (interrupt,) = waiting.interrupts
        answer = await asked(orchestrator, Command(resume={"decision": "approved"}))

    assert interrupt.value["question"] == "Order two pairs?"
    assert interrupt.value["about"] == {"total": 18}
    assert "receipt" not in interrupt.value
    told = [str(one.content) for one in answer.messages if isinstance(one, ToolMessage)]
    assert told == ["Order two pairs? approved, basket 7", "hello from rewards"]
    assert [one.outcome for result in answer.results for one in result.outcomes].count(Outcome.SUSPENDED) == 1
    assert answer.end is not None
    assert {child.final_status for child in answer.end.children} == {"completed"}


async def test_a_question_is_answered_although_its_turn_was_over_meanwhile() -> None:
    """The person took longer than the sidecar keeps a turn: the next turn continues the work, and is found again."""
    async with talking(calling("ask_shop"), composes) as talk:
        talk.sidecar.runner.use("shop", asks(ORDER))
        orchestrator = agent(talk, checkpointer=InMemorySaver(), rules=INTERRUPTING)
        await asked(orchestrator)
        await ended_meanwhile(talk, (await kept_turn(orchestrator))["turn_id"])
        answer = await asked(orchestrator, Command(resume={"decision": "declined"}))

        assert talk.sidecar.runner.started == ["shop", "shop"]
    told = [str(one.content) for one in answer.messages if isinstance(one, ToolMessage)]
    assert told == ["Order two pairs? declined, basket 7"]


async def test_a_graph_that_is_resumed_with_no_answer_leaves_the_question_open() -> None:
    """The call has failed for the model; nothing was sent to the sub-agent."""
    async with talking(calling("ask_shop"), composes) as talk:
        talk.sidecar.runner.use("shop", asks(ORDER))
        orchestrator = agent(talk, checkpointer=InMemorySaver(), rules=INTERRUPTING)
        await asked(orchestrator)
        answer = await asked(orchestrator, Command(resume={"decision": "perhaps"}))

        assert talk.sidecar.runner.started == ["shop"]
    told = [one.status for one in answer.messages if isinstance(one, ToolMessage)]
    assert told == ["error"]
