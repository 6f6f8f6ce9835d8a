"""`change-freeze`: denies steps that affect more users inside a window of local time."""

from collections.abc import Mapping
from datetime import datetime, time
from typing import Any, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from sidecar.policy.lifecycle import PolicyAnswer, StepFacts
from sidecar_lifecycle_examples.settings import ALLOWED, STEPS, concerns, schema_of, steps_of

DAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
TIME: Final[Mapping[str, Any]] = {"type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$|^24:00$"}
FROZEN: Final = ("promote", "set_ramp", "configure", "retire_flags", "decommission")
"""Steps that are frozen by default. `activate` is not, because activating a killed definition can end an incident."""

SCHEMA: Final = schema_of(
    {
        "timezone": {"type": "string", "description": "IANA name, e.g. `Europe/Berlin`."},
        "steps": {**STEPS, "description": "What is frozen; a ramp only where it rises."},
        "weekly": {
            "type": "array",
            "description": "Windows of each week; `to` is outside, 24:00 is the day's end.",
            "items": {
                "type": "object",
                "properties": {
                    "days": {"type": "array", "items": {"enum": list(DAYS)}, "minItems": 1},
                    "from": TIME,
                    "to": TIME,
                    "why": {"type": "string"},
                },
                "required": ["days", "from", "to"],
                "additionalProperties": False,
            },
        },
        "dates": {
            "type": "array",
            "description": "Windows between two local times, e.g. 2026-11-26T00:00; `to` is outside.",
            "items": {
                "type": "object",
                "properties": {"from": {"type": "string"}, "to": {"type": "string"}, "why": {"type": "string"}},
                "required": ["from", "to"],
                "additionalProperties": False,
            },
        },
    }
)


class ChangeFreeze:
    """The policy `change-freeze`.

    Raises:
        ValueError: the timezone is unknown, a window ends before it begins, or a date is malformed or has an offset.
    """

    def __init__(self, settings: Mapping[str, Any]) -> None:
        name = settings.get("timezone", "UTC")
        try:
            self._zone = ZoneInfo(name)
        except (ZoneInfoNotFoundError, OSError, ValueError):
            raise ValueError(f"there is no timezone {name!r}") from None
        self._name = name
        self._steps = steps_of(settings.get("steps", list(FROZEN)))
        self._weekly = [_weekly(window) for window in settings.get("weekly", [])]
        self._dates = [_dates(window) for window in settings.get("dates", [])]

    def check(self, facts: StepFacts) -> PolicyAnswer:
        """Deny a frozen step inside a window. In the hour that occurs twice in autumn, a window covers both times."""
        if not concerns(facts, self._steps):
            return ALLOWED
        local = facts.now.astimezone(self._zone).replace(tzinfo=None)
        minute = local.hour * 60 + local.minute
        for days, begins, ends, why in self._weekly:
            if local.weekday() in days and begins <= minute < ends:
                return self._frozen(local, why)
        for since, until, why in self._dates:
            if since <= local < until:
                return self._frozen(local, why)
        return ALLOWED

    def _frozen(self, local: datetime, why: str) -> PolicyAnswer:
        reason = f" ({why})" if why else ""
        return PolicyAnswer(f"no changes now{reason}: it is {local:%a %d %b %H:%M} in {self._name}")


def _weekly(window: Mapping[str, Any]) -> tuple[frozenset[int], int, int, str]:
    begins, ends = _minute(window["from"]), _minute(window["to"])
    if ends <= begins:
        raise ValueError("a weekly window ends before it begins; write two for one over midnight")
    return frozenset(DAYS.index(day) for day in window["days"]), begins, ends, window.get("why", "")


def _minute(text: str) -> int:
    if text == "24:00":
        return 24 * 60
    at = time.fromisoformat(text)
    return at.hour * 60 + at.minute


def _dates(window: Mapping[str, Any]) -> tuple[datetime, datetime, str]:
    since, until = datetime.fromisoformat(window["from"]), datetime.fromisoformat(window["to"])
    if since.tzinfo is not None or until.tzinfo is not None:
        raise ValueError("the times of a window are local; the timezone says where")
    if until <= since:
        raise ValueError("a window ends before it begins")
    return since, until, window.get("why", "")
