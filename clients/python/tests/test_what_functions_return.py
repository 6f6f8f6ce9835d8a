"""What a function may return, and what is told of one that returns something else or raises: where, never what."""

import functools
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import FunctionType
from typing import Any

import grpc
import pytest

from clients.python.tests.support.sidecar_side import hosted, request
from subagents_client.errors import error_and_origin
from subagents_client.runner import Answer, Run, RunnerHost, TransientFailure
from subagents_client.runner.return_values import place_of
from subagents_errors import DependencyUnavailable, InternalError, SubagentsError

SECRET = "the user's own words"


async def failure_of(function: Callable[[Run], Awaitable[Any]], folder: Path) -> SubagentsError:
    """Host a function, run it, and return what the sidecar is told."""
    host = RunnerHost()
    host.sub_agent("shop")(function)
    async with hosted(host, folder) as here:
        with pytest.raises(grpc.aio.AioRpcError) as failed:
            await here.run(request())
    return error_and_origin(failed.value, "Run")[0]


async def forgets(run: Run) -> None:
    """Has no `return`."""


async def gives_a_dict(run: Run) -> dict[str, str]:
    """Returns what a web framework would take."""
    return {"narration": SECRET}


async def gives_a_dict_inside(run: Run) -> Answer:
    """Returns an answer that holds no text."""
    return Answer({"text": SECRET})  # type: ignore[arg-type]  # the mistake itself


async def gives_half_a_sign(run: Run) -> str:
    """Returns text that no protocol can carry."""
    return f"{SECRET} \ud83d"


RETURNS = {
    "None": (forgets, "returned None, not a str or an Answer; a `return` is missing"),
    "dict": (gives_a_dict, "returned a dict, not a str or an Answer"),
    "dict inside": (gives_a_dict_inside, "returned an Answer that holds a dict for a str"),
    "surrogate": (gives_half_a_sign, "returned text that is not valid Unicode"),
}


@pytest.mark.parametrize("kind", RETURNS)
async def test_a_function_that_returns_no_answer_fails_by_name_and_line(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A forgotten `return`, a dict, an answer without text: sidecar and log are told where to look, and no more."""
    function, told = RETURNS[kind]
    error = await failure_of(function, tmp_path)

    place = f"{function.__name__} (test_what_functions_return.py:{function.__code__.co_firstlineno})"
    assert type(error) is InternalError
    assert error.message == f"{place} {told}"
    [record] = caplog.records
    assert record.getMessage() == f"sub-agent shop failed in attempt attempt-1: {place} {told}"
    assert SECRET not in caplog.text


async def raises(run: Run) -> str:
    """Fails inside a library, called from here."""
    return str(int(SECRET))


async def raises_for_now(run: Run) -> str:
    """Fails in a way that may pass."""
    raise TransientFailure(SECRET)


@pytest.mark.parametrize(("function", "kind"), [(raises, InternalError), (raises_for_now, DependencyUnavailable)])
async def test_an_error_is_one_line_with_function_file_and_line(
    function: FunctionType,
    kind: type[SubagentsError],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """No traceback above the level of debugging; the sidecar is told the place, the log the text as well."""
    caplog.set_level(logging.INFO)
    error = await failure_of(function, tmp_path)

    line, name = function.__code__.co_firstlineno + 2, function.__name__
    assert type(error) is kind
    assert error.message.endswith(f" at test_what_functions_return.py:{line} in {name}")
    assert SECRET not in error.message
    [record] = caplog.records
    assert record.exc_info is None
    assert record.getMessage().startswith(f"sub-agent shop failed in attempt attempt-1: {error.message}: ")
    assert "\n" not in record.getMessage()


async def test_who_debugs_gets_the_traceback(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One more record, at that level only."""
    caplog.set_level(logging.DEBUG, "subagents_client.runner")
    await failure_of(raises, tmp_path)

    traces = [record for record in caplog.records if record.exc_info]
    assert [record.levelno for record in traces] == [logging.DEBUG]


async def test_a_function_that_has_narrated_everything_returns_an_empty_answer(tmp_path: Path) -> None:
    """`Answer()` or "": the host adds nothing; what is empty altogether is for the sidecar to judge."""
    host = RunnerHost()

    @host.sub_agent("shop")
    async def shop(run: Run) -> Answer:
        await run.narrate("All of it.")
        return Answer()

    async with hosted(host, tmp_path) as here:
        responses = await here.run(request())

    assert [one.WhichOneof("event") for one in responses] == ["narration", "finished"]


def test_wrapped_functions_and_objects_are_named_by_what_is_inside() -> None:
    """A partial, a decorated function, a method, an object with an async `__call__`."""

    class Agent:
        async def answer(self, run: Run) -> str:
            return ""

        async def __call__(self, run: Run) -> str:
            return ""

    @functools.wraps(raises)
    async def decorated(run: Run) -> str:
        return await raises(run)

    here = "(test_what_functions_return.py:"
    assert place_of(functools.partial(forgets)).startswith(f"forgets {here}")
    assert place_of(decorated) == place_of(raises)
    assert place_of(Agent().answer).startswith(f"answer {here}")
    assert place_of(Agent()).startswith(f"Agent {here}")
    assert place_of(len) == "len"
