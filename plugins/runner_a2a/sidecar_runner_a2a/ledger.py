"""`Ledger` translates the messages of an A2A agent in one task into events of the child."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from a2a.types.a2a_pb2 import (
    Artifact,
    Message,
    Part,
    StreamResponse,
    Task,
    TaskState,
    TaskStatus,
)
from google.protobuf.json_format import MessageToDict
from google.protobuf.struct_pb2 import Struct

from sidecar.core.json_schemas import canonical_text
from sidecar.policy.protocols import (
    Asked,
    ComponentMade,
    NarrationPart,
    QuestionKind,
    RunFinished,
    RunnerError,
    RunnerEvent,
    StatusReported,
    UsageReported,
)
from sidecar_runner_a2a.agent_card import EXTENSION
from sidecar_runner_a2a.failures import printable
from sidecar_runner_a2a.question import WaitingTask

WORKING: Final = "a2a_working"
"""Status event for an agent that reports no type of its own; its prose is not passed on. Source: PC2-FR-13a."""
ENDED: Final[Mapping[int, str]] = {
    TaskState.TASK_STATE_FAILED: "the agent failed",
    TaskState.TASK_STATE_REJECTED: "the agent rejected the task",
    TaskState.TASK_STATE_CANCELED: "the task was cancelled at the agent",
}
ASKS: Final[Mapping[int, QuestionKind]] = {
    TaskState.TASK_STATE_INPUT_REQUIRED: QuestionKind.NEEDS_INPUT,
    TaskState.TASK_STATE_AUTH_REQUIRED: QuestionKind.NEEDS_AUTHORISATION,
}
WORDLESS: Final[Mapping[QuestionKind, str]] = {
    QuestionKind.NEEDS_INPUT: "More input is needed.",
    QuestionKind.NEEDS_AUTHORISATION: "An authorisation is needed.",
}
LONGEST_QUESTION: Final = 4096
LEFT_OUT: Final = "a2a_file_left_out"
"""Status event for a file or a link in an answer: a child's answer is text and components."""


class Ledger:
    """Follows one task, and rejects messages about another task or context.

    Args:
        context_id: the A2A context of the request.
        waiting: the task that waits for the answer to its question; None: the agent creates a new task.

    Attributes:
        task_id: id of the task; empty until the agent has named it.
        heard: whether the agent has sent anything.
        closed: whether the task has ended or waits by itself, so that it need not be cancelled.
        finished: whether the answer or question is complete.
    """

    def __init__(self, context_id: str, waiting: WaitingTask | None = None) -> None:
        self._context_id = context_id
        self.task_id = waiting.task_id if waiting else ""
        self._answered = waiting.asked if waiting else None
        self.heard = self.closed = self.finished = False
        self._parts: dict[str, list[bytes]] = {}
        self._said = False

    def take_id(self, response: StreamResponse) -> None:
        """Learn the task's id from a response, and nothing else."""
        said = getattr(response, response.WhichOneof("payload") or "message")
        self.task_id = self.task_id or (said.id if isinstance(said, Task) else said.task_id)

    def events_of(self, response: StreamResponse) -> Iterator[RunnerEvent]:
        """Yield what one response of the agent means.

        Raises:
            RunnerError: the agent failed, or speaks of another task.
        """
        self.heard = True
        match response.WhichOneof("payload"):
            case "message":
                self._belongs("", response.message.context_id)
                yield from self._spoken(response.message.parts)
                self.closed = self.finished = True
                yield RunFinished(_flag(response.message.metadata, "data_unavailable"))
            case "task":
                yield from self._of_task(response.task)
            case "status_update":
                update = response.status_update
                self._belongs(update.task_id, update.context_id)
                yield from self._of_status(update.status, update.metadata)
            case "artifact_update":
                update_of = response.artifact_update
                self._belongs(update_of.task_id, update_of.context_id)
                yield from self._grown(update_of.artifact, append=update_of.append)
            case _:
                pass  # a kind of message from a later version of A2A

    def _of_task(self, task: Task) -> Iterator[RunnerEvent]:
        self._belongs(task.id, task.context_id)
        for artifact in task.artifacts:
            yield from self._whole(artifact)
        yield from self._of_status(task.status, task.metadata)

    def _belongs(self, task_id: str, context_id: str) -> None:
        """Reject a message about another task or context, which may belong to another user."""
        self.task_id = self.task_id or task_id
        if task_id not in {"", self.task_id}:
            raise RunnerError("the agent spoke of another task than the one it was given")
        if context_id not in {"", self._context_id}:
            raise RunnerError("the agent answered in another context than the one it was asked in")

    def _of_status(self, status: TaskStatus, metadata: Struct) -> Iterator[RunnerEvent]:
        said = _ours(metadata)
        yield from _usage_in(said)
        state = status.state
        if state == TaskState.TASK_STATE_COMPLETED:
            self.closed = True
            if not self._said:  # an agent without artifacts puts its answer here
                yield from self._spoken(status.message.parts)
            self.finished = True
            yield RunFinished(said.get("data_unavailable") is True)
        elif state in ENDED:
            self.closed = True
            raise RunnerError(_with_words(ENDED[state], status.message))
        elif state in ASKS:
            if _when(status) != self._answered:  # agents show a task as it was before they go on with it
                self.closed = self.finished = True  # the task waits at the agent for the answer
                yield RunFinished(asked=self._asked(ASKS[state], status))
        elif isinstance(kind := said.get("status"), str):
            attributes = said.get("attributes")
            given = attributes if isinstance(attributes, Mapping) else {}
            yield StatusReported(kind, {str(name): str(value) for name, value in given.items()})
        elif state == TaskState.TASK_STATE_WORKING and not said:
            yield StatusReported(WORKING)

    def _asked(self, kind: QuestionKind, status: TaskStatus) -> Asked:
        """Return the agent's question. The first data part is its subject; its state has the ids for the answer."""
        message = status.message
        words = " ".join(part.text for part in message.parts if part.HasField("text")).strip()
        about = next((canonical_text(MessageToDict(part.data)) for part in message.parts if part.HasField("data")), "")
        kept = {"task_id": self.task_id, "context_id": self._context_id, "asked": _when(status)}
        state = canonical_text(kept).encode()
        return Asked(kind, words[:LONGEST_QUESTION] or WORDLESS[kind], about, state=state)

    def _grown(self, artifact: Artifact, *, append: bool) -> Iterator[RunnerEvent]:
        if append:
            known = self._parts.setdefault(artifact.artifact_id, [])
            known += [part.SerializeToString(deterministic=True) for part in artifact.parts]
            yield from self._spoken(artifact.parts)
        else:
            yield from self._whole(artifact)

    def _whole(self, artifact: Artifact) -> Iterator[RunnerEvent]:
        """Yield events for the new parts of an artifact. Events of earlier parts cannot be withdrawn."""
        parts = [part.SerializeToString(deterministic=True) for part in artifact.parts]
        known = self._parts.get(artifact.artifact_id, [])
        if parts[: len(known)] != known and _text_of(known) != _text_of(parts):
            raise RunnerError("the agent replaced an artifact that had been passed on")
        if len(parts) > len(known):
            self._parts[artifact.artifact_id] = parts
            yield from self._spoken(artifact.parts[len(known) :])

    def _spoken(self, parts: Sequence[Part]) -> Iterator[RunnerEvent]:
        for part in parts:
            self._said = True
            match part.WhichOneof("content"):
                case "text":
                    yield NarrationPart(part.text)
                case "data":
                    yield _data_of(part)
                case _:
                    yield StatusReported(LEFT_OUT, {"media_type": printable(part.media_type)})


def _when(status: TaskStatus) -> str:
    """Return a text that distinguishes the question of a task from its next question."""
    return status.message.message_id or status.timestamp.ToJsonString()


def _data_of(part: Part) -> RunnerEvent:
    """Return a data part as a component, or as text if it names none."""
    text = canonical_text(MessageToDict(part.data))
    said = _ours(part.metadata)
    name = said.get("component")
    if not isinstance(name, str):
        return NarrationPart(text)
    return ComponentMade(name, canonical_text(said.get("tool_input")), text)


def _text_of(parts: Sequence[bytes]) -> str:
    """Return the joined texts of parts. A server may store the streamed pieces of an artifact as one part."""
    return "".join(Part.FromString(each).text for each in parts)


def _usage_in(said: Mapping[str, Any]) -> Iterator[UsageReported]:
    match said.get("usage"):
        case {"input_tokens": int() | float() as given, "output_tokens": int() | float() as made, **more}:
            cached = more.get("cached_input_tokens")
            yield UsageReported(int(given), int(made), int(cached) if isinstance(cached, int | float) else None)
        case _:
            pass


def _flag(metadata: Struct, name: str) -> bool:
    return _ours(metadata).get(name) is True


def _ours(metadata: Struct) -> Mapping[str, Any]:
    said = MessageToDict(metadata).get(EXTENSION)
    return said if isinstance(said, Mapping) else {}


def _with_words(what: str, message: Message) -> str:
    words = " ".join(part.text for part in message.parts if part.HasField("text"))
    return f"{what}: {printable(words)}" if words else what
