"""The error for a plugin that cannot be used, and `guarded`, which calls plugin code and turns exceptions into it."""

from collections.abc import Callable, Iterable
from typing import Any, Final

EX_CONFIG: Final = 78
"""Exit code of a process that cannot start with its settings (`EX_CONFIG` of sysexits.h)."""

LONGEST_CAUSE: Final = 300
"""Maximum number of characters of a plugin's own error text in a message."""


class PluginProblem(Exception):
    """A plugin or its settings are wrong, or the settings name a plugin that is not loaded.

    The sidecar does not start then: `sidecar serve` prints the text and exits with `EX_CONFIG`.

    Args:
        what: the problem.
        where: the entry point, distribution or setting that is wrong.
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
    """The user pressed Ctrl-C in a command that would otherwise continue after the exception of a plugin.

    The command's signal handler raises it. It has a class of its own, because a plugin could raise `KeyboardInterrupt`.
    """


def guarded(work: Callable[[], Any], *, doing: str, where: str, remedy: str) -> Any:
    """Call `work`, which runs code of a plugin, and return its result.

    Args:
        work: the call.
        doing: what the call does, as the subject of the message, e.g. "importing the plugin".
        where: as in `PluginProblem`.
        remedy: as in `PluginProblem`.

    Raises:
        PluginProblem: the plugin raised any exception, including `KeyboardInterrupt` and `SystemExit`.
        Interrupted: the user pressed Ctrl-C during the call.
    """
    try:
        return work()
    # The only exception that surely comes from the user and not from the plugin.
    except Interrupted:
        raise
    # `BaseException`, because a plugin's `SystemExit` would end the sidecar without an explanation.
    except BaseException as error:
        raise PluginProblem(f"{doing} failed with {cause_of(error)}", where=where, remedy=remedy) from error


def nearest(name: str, choices: Iterable[str]) -> str | None:
    """Return the choice that is most similar to `name`, probably a misspelling; None if none is similar."""
    import difflib  # noqa: PLC0415  only a wrong name needs it

    close = difflib.get_close_matches(name, sorted(choices), n=1, cutoff=0.6)
    return close[0] if close else None


def choices_for(name: str, choices: Iterable[str]) -> str:
    """Return the text "choose one of: ..." and, if a choice is similar to `name`, "did you mean ...?"."""
    known = sorted(choices)
    meant = nearest(name, known)
    listed = ", ".join(known) if known else "none"
    return f"choose one of: {listed}" + (f" (did you mean `{meant}`?)" if meant else "")


def cause_of(error: BaseException) -> str:
    """Return the type of an error and the first `LONGEST_CAUSE` characters of its text, on one line."""
    # One line, because the message is one line of a log or list.
    text = " ".join(str(error).split())[:LONGEST_CAUSE]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
