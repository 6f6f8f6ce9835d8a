"""The filters of the console's templates. They write the sidecars' answers in the same words as the command line."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from google.protobuf.timestamp_pb2 import Timestamp

from sidecar.cli.output.drawing import clean, length, timestamp, utc
from sidecar.cli.output.json_output import enum_word
from sidecar.cli.subagent.output.decommission_tables import short_words
from sidecar.cli.subagent.output.gate_words import gate_words
from sidecar.cli.subagent.output.parsing import percent
from sidecar.cli.subagent.output.states import definition_effect, state_in_contract
from sidecar.cli.subagent.output.tables import audit_line, curve_word, flags_word, mode_word, short
from subagents.dispatch.v1 import outcome_pb2, surface_pb2
from subagents.history.v1 import record_pb2

NOTHING: Final = "-"
MANY: Final = 10.0
"""Calls per second from which a rate is shown without decimals."""


def rate(per_second: float | None) -> str:
    """Return a rate in calls per second as text; None: it is not known yet."""
    if per_second is None:
        return NOTHING
    return f"{per_second:.0f}" if per_second >= MANY else f"{per_second:.2f}".rstrip("0").rstrip(".") or "0"


def seconds(value: float | None) -> str:
    """Return a duration in seconds as text, e.g. `1.5 s`; None: there is none."""
    return NOTHING if value is None else length(timedelta(seconds=value))


def moment(at: Timestamp | datetime) -> str:
    """Return a time to the second, UTC."""
    return timestamp(at if isinstance(at, datetime) else utc(at))


def line(row: Any) -> str:
    """Return one row of the audit as the command line prints it."""
    return "".join(part.text for part in audit_line(row))


def outcome(number: int) -> str:
    """Return an outcome as a word."""
    return enum_word(outcome_pb2.Outcome, number).replace("_", " ")


def turn_state(number: int) -> str:
    """Return the state of a turn as a word."""
    return enum_word(record_pb2.TurnState, number)


def verdict(number: int) -> str:
    """Return why a definition is or is not offered, as a word."""
    return enum_word(surface_pb2.CandidateVerdict, number).replace("_", " ")


FILTERS: Final[Mapping[str, Callable[..., Any]]] = {
    "clean": clean,
    "cleanup": lambda each: "".join(part.text for part in short_words(each)),
    "curve": curve_word,
    "effect": definition_effect,
    "flags": flags_word,
    "gate": gate_words,
    "lasting": lambda duration: length(duration.ToTimedelta()),
    "contract": state_in_contract,
    "line": line,
    "mode": mode_word,
    "moment": moment,
    "outcome": outcome,
    "percent": percent,
    "rate": rate,
    "seconds": seconds,
    "short": short,
    "turn_state": turn_state,
    "verdict": verdict,
}
