"""What a made-up sub-agent does, as data."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum, unique


@unique
class End(StrEnum):
    """How an attempt ends if nothing stops it."""

    FINISH = "finish"
    FINISH_WITHOUT_DATA = "finish_without_data"
    INLINE_JSON = "inline_json"
    TRANSIENT = "transient"
    UNREACHABLE = "unreachable"
    FATAL = "fatal"
    VALUE_ERROR = "value_error"
    SYSTEM_EXIT = "system_exit"
    RECURSION = "recursion"
    CANCELS_ITSELF = "cancels_itself"
    NO_END = "no_end"
    NO_EVENT = "no_event"
    HANG = "hang"
    IGNORE_CANCEL = "ignore_cancel"


@unique
class Do(StrEnum):
    """One thing that a sub-agent does."""

    WAIT = "wait"
    STATUS = "status"
    NARRATE = "narrate"
    COMPONENT = "component"
    LYING_COMPONENT = "lying_component"
    OVERSIZE = "oversize"
    FLOOD = "flood"
    USAGE = "usage"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class Step:
    """One thing; `amount` is seconds or a number, `text` a type or a reply."""

    do: Do
    amount: float = 0.0
    text: str = ""


@dataclass(frozen=True, slots=True)
class AttemptScript:
    """One attempt; `asks`: it finishes with a question, which can be answered for `asks_for`."""

    steps: tuple[Step, ...]
    end: End
    asks: bool = False
    asks_for: timedelta | None = None


@dataclass(frozen=True, slots=True)
class CallScript:
    """All attempts of one call; the last is repeated."""

    attempts: tuple[AttemptScript, ...]

    def attempt(self, number: int) -> AttemptScript:
        """Return what attempt `number` (from 1) does."""
        return self.attempts[min(number, len(self.attempts)) - 1]
