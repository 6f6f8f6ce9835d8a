"""The error for a plugin that cannot be used, with a message for the operator, and the boundary around plugin code."""

from collections.abc import Callable, Iterable
from typing import Any, Final

EX_CONFIG: Final = 78
"""Exit code of a process that cannot start with the settings it was given (sysexits.h)."""

LONGEST_CAUSE: Final = 300
"""Characters of a plugin's own error text that are shown."""


class PluginProblem(Exception):
    """A plugin, its settings or the choice of it is wrong; the sidecar does not start with it.

    For the operator's terminal: `sidecar serve` prints it and exits with `EX_CONFIG`.

    Args:
        what: the problem.
        where: entry point, distribution, or setting.
        remedy: the next action of the operator.
    """

    def __init__(self, what: str, *, where: str, remedy: str) -> None:
        super().__init__(f"{what}\n  where: {where}\n  what to do: {remedy}")
        self.what = what
        self.where = where
        self.remedy = remedy


class Incompatible(PluginProblem):
    """A plugin was written for a major version of a contract that this sidecar does not speak."""


class Interrupted(KeyboardInterrupt):
    """The user pressed Ctrl-C in a command that continues after a broken plugin.

    The command's signal handler raises it. It has a class of its own, because a plugin could raise `KeyboardInterrupt`.
    """


def guarded(work: Callable[[], Any], *, doing: str, where: str, remedy: str) -> Any:
    """Call into a plugin and return what it returns.

    Raises:
        PluginProblem: the plugin raised anything at all, `KeyboardInterrupt` included.
        Interrupted: the user pressed Ctrl-C meanwhile.
    """
    try:
        return work()
    except Interrupted:
        raise
    except BaseException as error:  # the border: a plugin's SystemExit must not end the sidecar unexplained
        raise PluginProblem(f"{doing} failed with {cause_of(error)}", where=where, remedy=remedy) from error


def nearest(name: str, choices: Iterable[str]) -> str | None:
    """Return the choice that `name` was most likely meant to be, or None if none is close."""
    import difflib  # noqa: PLC0415  only a wrong name needs it

    close = difflib.get_close_matches(name, sorted(choices), n=1, cutoff=0.6)
    return close[0] if close else None


def choices_for(name: str, choices: Iterable[str]) -> str:
    """Return a sentence that lists the choices and, if one is close to `name`, asks whether that was meant."""
    known = sorted(choices)
    meant = nearest(name, known)
    listed = ", ".join(known) if known else "none"
    return f"choose one of: {listed}" + (f" (did you mean `{meant}`?)" if meant else "")


def cause_of(error: BaseException) -> str:
    """Return an error's type and the beginning of its text, on one line."""
    text = " ".join(str(error).split())[:LONGEST_CAUSE]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
