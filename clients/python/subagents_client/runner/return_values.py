"""Names a sub-agent's function by file and line, and checks what it returned. Quotes nothing that it said."""

import functools
import inspect
import traceback
from collections.abc import Callable
from pathlib import Path
from types import CodeType
from typing import Any

from subagents_client.runner.answers import Answer


class InvalidReturnValue(TypeError):
    """A function returned something that is no answer. The message names the function, and quotes no user data."""


def place_of(function: Callable[..., Any]) -> str:
    """Return name and place of a function, e.g. `shop (agents.py:12)`."""
    code = _code_of(function)
    inner = function.func if isinstance(function, functools.partial) else function
    name = getattr(inner, "__name__", type(inner).__name__)
    return name if code is None else f"{name} ({Path(code.co_filename).name}:{code.co_firstlineno})"


def place_of_error(error: BaseException, function: Callable[..., Any]) -> str:
    """Return class and place of an error, e.g. `KeyError at agents.py:14 in shop`; never its message.

    The place is the innermost frame in the function's own file, or the innermost of all if none is in this file.
    """
    code, frames = _code_of(function), traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if code is not None and frame.filename == code.co_filename]
    if not frames:
        return type(error).__name__
    frame = (own or frames)[-1]
    return f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno} in {frame.name}"


def answer_of(given: object, function: Callable[..., Any]) -> Answer:
    """Return the answer that a function returned; a `str` becomes the narration of an `Answer`.

    Raises:
        InvalidReturnValue: the value is neither a `str` nor an `Answer` with valid contents.
    """
    answer = Answer(given) if isinstance(given, str) else given
    if not isinstance(answer, Answer):
        missing = "; a `return` is missing" if answer is None else ""
        raise InvalidReturnValue(f"{place_of(function)} returned {_kind(answer)}, not a str or an Answer{missing}")
    for value, kind in ((answer.narration, str), (answer.data_unavailable, bool)):
        if not isinstance(value, kind):
            raise InvalidReturnValue(
                f"{place_of(function)} returned an Answer that holds {_kind(value)} for a {kind.__name__}"
            )
    try:
        answer.narration.encode()
    except UnicodeEncodeError:
        raise InvalidReturnValue(f"{place_of(function)} returned text that is not valid Unicode") from None
    return answer


def _kind(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _code_of(function: Callable[..., Any]) -> CodeType | None:
    while isinstance(function, functools.partial):
        function = function.func
    inner: Any = inspect.unwrap(function)
    call = inner if hasattr(inner, "__code__") else type(inner).__call__
    return getattr(call, "__code__", None)
