"""A hosted sub-agent asks back, and continues: from its function over host, sidecar and SDK to the next turn."""

import re
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from types import ModuleType

import pytest

from sidecar.adapters.runner_grpc.runner import GrpcRunner
from sidecar.policy.protocols import RunnerEvent, RunRequest
from subagents_client import Answerer, BoundTurn, Outcome, QuestionKind, SidecarClient, ToolCall, TurnRequest
from subagents_client.runner import AsksBack, NeedsApproval, NeedsAuthorisation, NeedsInput, Run, RunnerHost
from tests.support.fake_runner import ScriptedRunner
from tests.support.harness import SECRET, running_sidecar_for_tests

ROOT = Path(__file__).resolve().parents[2]
CALL = ToolCall("call-1", "ask_shop", '{"request": "two pairs of socks"}')


@asynccontextmanager
async def chain(host: RunnerHost, folder: Path) -> AsyncIterator[SidecarClient]:
    """Serve a host behind a sidecar, and connect to the sidecar."""
    async with AsyncExitStack() as stack:
        target = await stack.enter_async_context(host.serving(f"unix:{folder}/host.sock"))
        sidecar = await stack.enter_async_context(running_sidecar_for_tests())
        runner = GrpcRunner(target, sidecar.agents_target)
        stack.push_async_callback(runner.close)

        async def hosted(request: RunRequest, scripted: ScriptedRunner) -> AsyncGenerator[RunnerEvent, None]:
            async for event in runner.run(request):
                yield event

        sidecar.runner.use("shop", hosted)
        yield await stack.enter_async_context(SidecarClient.connect(sidecar.dispatch_target, boot_secret=SECRET))


async def turn_of(client: SidecarClient) -> BoundTurn:
    """Bind a turn of the conversation."""
    return await client.bind_turn(TurnRequest(principal="user-1", episode_id="episode-1"))


async def test_an_approval_is_asked_for_and_given_in_the_next_turn(tmp_path: Path) -> None:
    """The function is called anew with question, state and decision."""
    host = RunnerHost()

    @host.sub_agent("shop")
    async def shop(run: Run) -> str:
        if run.continuation is None:
            raise NeedsApproval("Order two pairs for 18 EUR?", about={"total": 18}, state=b"basket 7")
        given = run.continuation
        return f"{given.approved} {given.about} {given.state.decode()} {given.answered_by}: {given.answer}"

    async with chain(host, tmp_path) as client:
        async with await turn_of(client) as turn:
            result = await turn.dispatch_and_wait([CALL])
            await turn.end("Order two pairs for 18 EUR?")
        question = result.questions()["call-1"]
        async with await turn_of(client) as turn:
            answered = await turn.dispatch_and_wait([replace(CALL, answering=question.approved("Go ahead."))])
            await turn.end("Ordered.")

    (asking,) = result.outcomes
    assert (asking.outcome, asking.answered, question.kind) == (Outcome.SUSPENDED, False, QuestionKind.NEEDS_APPROVAL)
    assert (question.text, question.about_json) == ("Order two pairs for 18 EUR?", '{"total": 18}')
    assert "Order two pairs for 18 EUR?" in asking.tool_message()
    assert "do not decide" in asking.tool_message()
    assert question.receipt not in f"{asking.tool_message()}{asking!r}"
    assert answered.outcomes[0].narration == "True {'total': 18} basket 7 user: Go ahead."


@pytest.mark.parametrize(
    ("asked", "kind", "answerer"),
    [
        (NeedsInput("Which size?"), QuestionKind.NEEDS_INPUT, Answerer.USER),
        (
            NeedsInput("Which size?", answerer=Answerer.ORCHESTRATOR, expires_in=timedelta(minutes=5)),
            QuestionKind.NEEDS_INPUT,
            Answerer.ORCHESTRATOR,
        ),
        (NeedsAuthorisation("Which size?"), QuestionKind.NEEDS_AUTHORISATION, Answerer.USER),
    ],
)
async def test_each_kind_of_question_arrives_with_who_may_answer(
    asked: AsksBack, kind: QuestionKind, answerer: Answerer, tmp_path: Path
) -> None:
    """What was narrated before stays beside the question."""
    host = RunnerHost()

    @host.sub_agent("shop")
    async def shop(run: Run) -> str:
        await run.narrate("There are socks.")
        raise asked

    async with chain(host, tmp_path) as client, await turn_of(client) as turn:
        (outcome,) = (await turn.dispatch_and_wait([CALL])).outcomes

    assert outcome.question is not None
    assert (outcome.question.kind, outcome.question.answerer) == (kind, answerer)
    assert outcome.tool_message().startswith("There are socks.")


async def test_a_question_that_no_host_may_ask_fails_the_attempt(tmp_path: Path) -> None:
    """An empty one, for example."""
    host = RunnerHost()

    @host.sub_agent("shop")
    async def shop(run: Run) -> str:
        raise NeedsInput("")

    async with chain(host, tmp_path) as client, await turn_of(client) as turn:
        (outcome,) = (await turn.dispatch_and_wait([CALL])).outcomes

    assert (outcome.outcome, outcome.question) == (Outcome.FAILED, None)


async def test_the_samples_of_the_page_run(tmp_path: Path) -> None:
    """A question in one turn, its answer in the next."""
    page = (ROOT / "docs/asking-back.md").read_text(encoding="utf-8")
    hosting, asking = (ModuleType("hosting"), ModuleType("asking"))
    for made, code in zip((hosting, asking), re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL), strict=True):
        exec(code, made.__dict__)
    async with chain(hosting.host, tmp_path) as client:
        question = await asking.ask(await turn_of(client), CALL)
        answer = await asking.approve(await turn_of(client), CALL, question)

    assert (question.text, answer) == ("Order two pairs for 18 EUR?", "Ordered: basket 7.")
