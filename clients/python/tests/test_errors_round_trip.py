"""Every exception of the shared tree crosses a real socket and comes out as itself."""

from datetime import timedelta

import grpc
import pytest

from clients.python.tests.support.fake_sidecar_host import scene
from subagents.errors.v1 import error_reason_pb2
from subagents_client import TurnRequest
from subagents_client.errors import CLASS_OF, DOMAIN, STATUS_OF, error_and_origin, status_of, trailer_of
from subagents_client.retrying import is_retryable
from subagents_errors import (
    DeadlineExceeded,
    DependencyUnavailable,
    Draining,
    FieldProblem,
    InternalError,
    InvalidRequest,
    NotFound,
    Overloaded,
    StoreUnavailable,
    SubagentsError,
    all_errors,
)

REQUEST = TurnRequest(principal="user-1", episode_id="episode-1")


@pytest.mark.parametrize("cls", list(all_errors()), ids=lambda cls: cls.__name__)
async def test_an_error_is_raised_again_as_the_same_class(cls: type[SubagentsError]) -> None:
    """With its message, its facts, the fields at fault; `retry_after` longer than the deadline, so nothing repeats."""
    problem = FieldProblem("principal", "must not be empty")
    error = cls("what, where, what to do", metadata={"limit": "4"}, fields=[problem], retry_after=timedelta(hours=1))
    async with scene() as here:
        here.sidecar.refusals["BindTurn"].append(error)
        with pytest.raises(SubagentsError) as caught:
            await here.client.bind_turn(REQUEST)

    assert type(caught.value) is cls
    assert str(caught.value) == "what, where, what to do"
    assert caught.value.metadata == {"limit": "4"}
    assert caught.value.fields == (problem,)
    assert caught.value.retry_after == timedelta(hours=1)


def failure(code: grpc.StatusCode, trailer: tuple[tuple[str, bytes], ...] = ()) -> grpc.aio.AioRpcError:
    """Return what gRPC raises for a status."""
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), grpc.aio.Metadata(*trailer), "CANARY=abc")


@pytest.mark.parametrize("code", list(grpc.StatusCode), ids=lambda code: code.name)
def test_a_status_without_details_gives_the_base_class_and_no_foreign_text(code: grpc.StatusCode) -> None:
    """What the transport says may hold anything, so it is not repeated."""
    error, answered = error_and_origin(failure(code), "BindTurn")

    assert type(error) is CLASS_OF.get(code, InternalError)
    assert "CANARY" not in str(error)
    assert not answered


def test_a_reason_that_this_version_does_not_know_gives_the_class_of_its_status() -> None:
    """A newer sidecar: the reason is kept in the metadata."""
    trailer = tuple(trailer_of(NotFound("gone", metadata={"id": "7"}), reason="UNKNOWN_PLANET"))

    error, answered = error_and_origin(failure(grpc.StatusCode.NOT_FOUND, trailer), "BindTurn")

    assert type(error) is NotFound
    assert error.metadata == {"id": "7", "reason": "UNKNOWN_PLANET"}
    assert answered


@pytest.mark.parametrize("details", [b"\xff\xff not a status", b""])
def test_details_that_cannot_be_read_are_as_good_as_none(details: bytes) -> None:
    """Garbage in the trailer, as a broken proxy may leave there."""
    error, answered = error_and_origin(
        failure(grpc.StatusCode.UNAVAILABLE, (("grpc-status-details-bin", details),)), "BindTurn"
    )

    assert type(error) is DependencyUnavailable
    assert not answered


def test_every_class_has_the_status_of_its_base_and_a_published_reason() -> None:
    """The table covers the tree, and the reasons are those of the contract."""
    published = {name.removeprefix("ERROR_REASON_") for name in dict(error_reason_pb2.ErrorReason.items())}

    assert {status_of(cls) for cls in all_errors()} == set(STATUS_OF.values())
    assert {cls.reason for cls in all_errors()} <= published
    assert DOMAIN == "sidecar.subagents"


@pytest.mark.parametrize("error", [Draining("later"), Overloaded("later", retry_after=timedelta(seconds=1))])
async def test_a_bind_that_failed_for_now_is_sent_again_after_a_pause(error: SubagentsError) -> None:
    """The pause is what the sidecar advised, and some more at random."""
    async with scene() as here:
        here.sidecar.refusals["BindTurn"].append(error)
        turn = await here.client.bind_turn(REQUEST)

    assert turn.surface.fan_out_cap == 3
    assert here.sidecar.methods() == ["BindTurn", "BindTurn"]
    asked = error.retry_after or timedelta(0)
    assert len(here.pauses.asked) == 1
    assert 0 <= here.pauses.asked[0] - asked.total_seconds() <= 0.05


@pytest.mark.parametrize(
    "error", [InvalidRequest("wrong"), Overloaded("too large"), DeadlineExceeded("late"), InternalError("defect")]
)
async def test_a_bind_that_failed_for_good_is_sent_once(error: SubagentsError) -> None:
    """Repeating it would not help, or might do harm."""
    async with scene() as here:
        here.sidecar.refusals["BindTurn"].extend([error, error])
        with pytest.raises(type(error)):
            await here.client.bind_turn(REQUEST)

    assert here.sidecar.methods() == ["BindTurn"]


async def test_a_bind_that_the_sidecar_keeps_refusing_is_given_up_after_a_few_attempts() -> None:
    """A sidecar that is up, and whose store is not."""
    async with scene() as here:
        here.sidecar.refusals["BindTurn"].extend(StoreUnavailable("later") for _ in range(20))
        with pytest.raises(StoreUnavailable):
            await here.client.bind_turn(REQUEST)

    assert here.sidecar.methods() == ["BindTurn"] * 4


def test_a_call_that_a_stopping_sidecar_left_behind_may_be_repeated() -> None:
    """GRPC answers CANCELLED, without details: nothing was answered, and another sidecar may be asked."""
    error, answered = error_and_origin(failure(grpc.StatusCode.CANCELLED), "BindTurn")

    assert isinstance(error, DependencyUnavailable)
    assert is_retryable(error)
    assert not answered


async def test_a_sidecar_that_is_gone_is_a_dependency_that_is_away() -> None:
    """No connection at all: the turn goes on without sub-agents."""
    async with scene() as here:
        await here.die()
        with pytest.raises(DependencyUnavailable):
            await here.client.bind_turn(REQUEST, timeout=timedelta(milliseconds=300))
