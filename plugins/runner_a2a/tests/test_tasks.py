"""What a plain agent does with a task, and what the child makes of it."""

import asyncio
from typing import Any

import pytest
from a2a.server.routes import create_agent_card_routes
from a2a.types.a2a_pb2 import (
    Artifact,
    Message,
    Part,
    StreamResponse,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from examples.http_serving import serving
from plugins.runner_a2a.tests.agents import Agent, Asked, as_json, card_of, runner_of
from plugins.runner_a2a.tests.running import failed, ran, text_of
from sidecar.core.identifiers import ChildId, TurnId
from sidecar.policy.protocols import (
    Answering,
    Continuation,
    Decision,
    NarrationPart,
    QuestionKind,
    RunFinished,
    RunnerError,
    RunnerEvent,
    StatusReported,
)
from sidecar_conformance.run_requests import PRINCIPAL
from sidecar_runner_a2a.ledger import Ledger

WORKING = TaskState.TASK_STATE_WORKING
COMPLETED = TaskState.TASK_STATE_COMPLETED


async def plain(asked: Asked) -> None:
    """Report in prose, answer with two artifacts, and end."""
    await asked.updates.start_work(asked.words(f"I am looking for {PRINCIPAL}"))
    await asked.say("Two offers", " in Zürich.")
    await asked.updates.complete()


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
@pytest.mark.parametrize("streaming", [True, False])
async def test_a_plain_agent_answers(binding: str, streaming: bool) -> None:
    """It knows nothing of sidecars: artifacts are the answer, and its prose on the way is not passed on."""
    async with Agent(plain).running(binding, streaming=streaming) as url:
        events = await ran(runner_of(url))

    assert text_of(events) == "Two offers in Zürich."
    assert events[-1] == RunFinished()
    statuses = [event for event in events if isinstance(event, StatusReported)]
    assert statuses == ([StatusReported("a2a_working")] if streaming else [])


async def test_it_is_asked_in_words() -> None:
    """As the LangChain runtime asks a model: context and arguments framed, then the request."""
    agent = Agent(plain)
    async with agent.running() as url:
        await ran(runner_of(url), arguments_json='{"request": "coffee", "limit": 3, "intent_count": 1}')

    assert agent.asked[0].text == (
        "<prior_context>\nThey looked at Käse.\nThen at bread.\n</prior_context>\n\n"
        '<user_message>\nAnd now "both"?\n</user_message>\n\n'
        '<arguments>\n{"limit":3}\n</arguments>\n\ncoffee'
    )


async def test_an_agent_without_artifacts_answers_in_its_last_status() -> None:
    """Many do."""

    async def work(asked: Asked) -> None:
        await asked.updates.complete(asked.words("Nothing to be had."))

    async with Agent(work).running() as url:
        assert text_of(await ran(runner_of(url))) == "Nothing to be had."


async def test_an_artifact_that_grows_is_passed_on_piece_by_piece() -> None:
    """Once each, although the task holds all of it at the end."""

    async def work(asked: Asked) -> None:
        for number, text in enumerate(("Two ", "offers", ".")):
            await asked.updates.add_artifact([Part(text=text)], artifact_id="answer", append=number > 0)
        await asked.updates.complete()

    async with Agent(work).running() as url:
        events = await ran(runner_of(url))

    assert [event.text for event in events if isinstance(event, NarrationPart)] == ["Two ", "offers", "."]


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ("failed", "the agent failed: no such shop"),
        ("reject", "the agent rejected the task: no such shop"),
        ("cancel", "the task was cancelled at the agent: no such shop"),
    ],
)
async def test_an_end_without_an_answer_has_a_reason_of_its_own(end: str, words: str) -> None:
    """The agent's words are in the detail; nothing is cancelled that has ended."""

    async def work(asked: Asked) -> None:
        await getattr(asked.updates, end)(asked.words("no such shop"))

    agent = Agent(work)
    async with agent.running() as url:
        failure = await failed(runner_of(url))

    assert failure.detail == words
    assert (failure.transient, failure.unreachable, failure.connection_lost) == (False, False, False)
    assert agent.cancelled == []


@pytest.mark.parametrize(
    ("end", "kind"),
    [("requires_input", QuestionKind.NEEDS_INPUT), ("requires_auth", QuestionKind.NEEDS_AUTHORISATION)],
)
async def test_a_task_that_waits_for_the_user_is_a_question_and_the_answer_continues_it(
    end: str, kind: QuestionKind
) -> None:
    """The answer goes to the same task and context, without what the task knows already; nothing is cancelled."""

    async def work(asked: Asked) -> None:
        if len(agent.asked) == 1:
            await getattr(asked.updates, end)(asked.words("Which size of shoe?"))
        else:
            await asked.say(f"Ordered: {asked.text}")
            await asked.updates.complete()

    agent = Agent(work)
    async with agent.running() as url:
        runner = runner_of(url)
        (*_, last) = await ran(runner, last=False)
        assert isinstance(last, RunFinished)
        question = last.asked
        assert question is not None
        answer = Answering("receipt", "42", None if kind is QuestionKind.NEEDS_INPUT else Decision.APPROVED)
        continuation = Continuation(
            TurnId("t"), ChildId("c"), kind, question.text, question.about_json, answer, question.state
        )
        events = await ran(runner, continuation=continuation)

    assert (question.kind, question.text) == (kind, "Which size of shoe?")
    said = "42" if kind is QuestionKind.NEEDS_INPUT else "The user has approved it.\n\n42"
    assert text_of(events) == f"Ordered: {said}"
    assert len({each.updates.task_id for each in agent.asked}) == 1
    assert len({each.context_id for each in agent.asked}) == 1
    assert agent.cancelled == []


async def test_a_question_of_another_kind_of_sub_agent_is_not_continued_by_an_a2a_agent() -> None:
    """Its state names no task."""
    answer = Answering("receipt", "42")
    foreign = Continuation(TurnId("t"), ChildId("c"), QuestionKind.NEEDS_INPUT, "?", "", answer, b"basket 7")
    async with Agent(plain).running() as url:
        failure = await failed(runner_of(url), continuation=foreign)

    assert failure.detail == "the question was not asked by an A2A agent, which cannot continue its work"


async def test_a_file_is_left_out_and_that_is_told() -> None:
    """A child's answer is text and components."""

    async def work(asked: Asked) -> None:
        await asked.updates.add_artifact([Part(url="https://example.com/x.pdf", media_type="application/pdf")])
        await asked.say("See the file.")
        await asked.updates.complete()

    async with Agent(work).running() as url:
        events = await ran(runner_of(url))

    assert StatusReported("a2a_file_left_out", {"media_type": "application/pdf"}) in events
    assert text_of(events) == "See the file."


async def test_an_answer_over_the_limit_fails_the_attempt() -> None:
    """And no more than that is read."""

    async def work(asked: Asked) -> None:
        await asked.say("x" * 100_000)
        await asked.updates.complete()

    async with Agent(work).running() as url:
        failure = await failed(runner_of(url, max_answer_bytes=65536))

    assert failure.detail == "the agent sent too much: more than 65536 bytes"
    assert not failure.transient


async def test_a_stream_that_breaks_is_a_lost_connection() -> None:
    """After something was heard: another attempt may succeed, and the breaker counts it."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        if head.startswith("GET"):
            card = {
                "name": "x",
                "description": "x",
                "version": "1",
                "capabilities": {"streaming": True},
                "defaultInputModes": [],
                "defaultOutputModes": [],
                "skills": [],
                "supportedInterfaces": [{"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
            }
            body = as_json(card).encode()
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body))
        else:
            event = as_json({"jsonrpc": "2.0", "id": "1", "result": {"task": {"id": "t", "status": {"state": 2}}}})
            chunk = f"data: {event}\n\n".encode()
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            writer.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
        await writer.drain()
        writer.close()

    listener = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    failure = await failed(runner_of(url))
    listener.close()

    assert (failure.transient, failure.unreachable, failure.connection_lost) == (True, False, True)
    assert failure.fault is not None
    assert failure.fault.target == url


async def test_an_agent_that_answers_before_it_is_done_is_asked_for_its_task() -> None:
    """One that does not stream may give the task back at once; it is asked until the task has ended."""
    asked: list[str] = []

    async def rpc(request: Request) -> Response:
        sent = await request.json()
        asked.append(sent["method"])
        state = "TASK_STATE_COMPLETED" if len(asked) == 3 else "TASK_STATE_WORKING"
        artifacts = [{"artifactId": "a", "parts": [{"text": "Done."}]}] if len(asked) == 3 else []
        task = {"id": "t", "status": {"state": state}, "artifacts": artifacts}
        result = {"task": task} if sent["method"] == "SendMessage" else task
        return JSONResponse({"jsonrpc": "2.0", "id": sent["id"], "result": result})

    app = Starlette()
    async with serving(app, lambda: None, "critical") as url:
        card = card_of(f"{url}/a2a", "JSONRPC", streaming=False)
        app.router.routes += [*create_agent_card_routes(card), Route("/a2a", rpc, methods=["POST"])]
        events = await ran(runner_of(url, poll_seconds=0.01))

    assert asked == ["SendMessage", "GetTask", "GetTask"]
    assert events == [
        StatusReported("a2a_working"),
        StatusReported("a2a_working"),
        NarrationPart("Done."),
        RunFinished(),
    ]


# --- The ledger, for what no agent made with the SDK does -----------------------------------------------------------


def told(*responses: StreamResponse) -> list[RunnerEvent]:
    """Return what a ledger of context `c` makes of responses."""
    ledger = Ledger("c")
    return [event for response in responses for event in ledger.events_of(response)]


def status(state: Any, task_id: str = "t", context_id: str = "c") -> StreamResponse:
    """Return a status update."""
    update = TaskStatusUpdateEvent(task_id=task_id, context_id=context_id, status=TaskStatus(state=state))
    return StreamResponse(status_update=update)


def artifact(text: str, *, append: bool = False) -> StreamResponse:
    """Return an update of artifact `a`."""
    made = Artifact(artifact_id="a", parts=[Part(text=text)])
    return StreamResponse(
        artifact_update=TaskArtifactUpdateEvent(task_id="t", context_id="c", artifact=made, append=append)
    )


@pytest.mark.parametrize(
    "lie",
    [
        (status(WORKING), status(COMPLETED, task_id="of another user")),
        (status(WORKING, context_id="of another user"),),
        (StreamResponse(task=Task(id="t", context_id="of another user")),),
        (StreamResponse(message=Message(context_id="of another user", parts=[Part(text="secret")])),),
    ],
    ids=["task", "context", "context of a task", "context of a message"],
)
def test_an_answer_to_another_question_is_refused(lie: tuple[StreamResponse, ...]) -> None:
    """It might be another user's."""
    with pytest.raises(RunnerError, match="another"):
        told(*lie)


def test_an_artifact_that_was_passed_on_cannot_be_replaced() -> None:
    """What a user may have read cannot be taken back; the same text again is no replacement."""
    assert told(artifact("one"), artifact("one")) == [NarrationPart("one")]
    with pytest.raises(RunnerError, match="replaced an artifact"):
        told(artifact("one"), artifact("two"))


def test_a_task_that_holds_what_was_streamed_adds_nothing() -> None:
    """Servers send the whole task again, some with the pieces of an artifact joined."""
    joined = Artifact(artifact_id="a", parts=[Part(text="one, two")])
    whole = StreamResponse(task=Task(id="t", context_id="c", artifacts=[joined], status=TaskStatus(state=COMPLETED)))

    assert told(artifact("one, "), artifact("two", append=True), whole)[2:] == [RunFinished()]


def test_a_single_message_is_a_whole_answer() -> None:
    """An agent may answer without a task."""
    message = Message(context_id="c", parts=[Part(text="Hello.")])

    assert told(StreamResponse(message=message)) == [NarrationPart("Hello."), RunFinished()]
