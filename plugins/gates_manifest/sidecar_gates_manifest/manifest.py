"""Reads thresholds and recorded results from `evaluation_manifest.yaml`.

Keys at the top that are not ours (an evaluation suite's own) are left alone; inside ours an unknown key is refused.
"""

import math
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

import msgspec
import yaml

from sidecar_gates_manifest.strict_yaml import StrictLoader

MOST_BYTES: Final = 1024 * 1024
DURATION: Final = re.compile(r"([1-9][0-9]{0,4})([hd])\Z")
BASIS_POINTS: Final = 100
"""Of a percent."""
ALL: Final = 100
"""Percent."""


class ManifestProblem(ValueError):
    """The manifest cannot be used; the message says where and why, and shows no more of it."""


class Threshold(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a metric has to reach, and must not exceed; both ends count as reached."""

    at_least: float | None = None
    at_most: float | None = None

    def __post_init__(self) -> None:
        """Refuse what compares with nothing."""
        ends = [end for end in (self.at_least, self.at_most) if end is not None]
        if not ends or not all(math.isfinite(end) for end in ends):
            raise ValueError("a threshold needs `at_least` or `at_most`, as finite numbers")

    def met_by(self, value: float) -> bool:
        """Say whether a value is within."""
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)


class GateRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one gate asks for: thresholds by metric, and how long a result counts (`36h`, `14d`)."""

    thresholds: dict[str, Threshold] = {}
    fresh_for: str | None = None

    def __post_init__(self) -> None:
        """Refuse a duration that is none."""
        if self.fresh_for is not None:
            duration(self.fresh_for)


class Result(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One evaluation that was carried out.

    Attributes:
        sub_agent: id of the definition.
        digest: of the content that was evaluated; what counts.
        commit: where that content first appeared.
        from_percent, to_percent: the step it was evaluated for; both 0 for `pre_merge`.
        recorded_at: with its offset from UTC.
        offline: a built-in stand-in was evaluated and not a model; counts only where the settings accept it.
    """

    sub_agent: str
    gate: str
    digest: str
    commit: str
    from_percent: float = 0.0
    to_percent: float = 0.0
    recorded_at: datetime
    offline: bool = False
    metrics: dict[str, float]
    evidence: dict[str, str] = {}

    def __post_init__(self) -> None:
        """Refuse what could be read in two ways."""
        if self.recorded_at.utcoffset() is None:
            raise ValueError("`recorded_at` needs its offset from UTC")
        if not all(math.isfinite(value) for value in self.metrics.values()):
            raise ValueError("metrics are finite numbers")
        for percent in (self.from_percent, self.to_percent):
            if not 0 <= percent <= ALL or not math.isclose(percent * BASIS_POINTS, round(percent * BASIS_POINTS)):
                raise ValueError("a percentage is 0 to 100, with at most two decimal places")

    @property
    def step(self) -> tuple[int, int]:
        """The step in basis points."""
        return round(self.from_percent * BASIS_POINTS), round(self.to_percent * BASIS_POINTS)


class Manifest(msgspec.Struct, frozen=True):
    """The gates' part of the file.

    Attributes:
        version: of this format.
        fresh_for: how long a result counts where no gate says otherwise.
        gates: by gate, for every sub-agent.
        sub_agents: by sub-agent and gate: thresholds that are added to the gate's, or replace one of the same metric.
    """

    version: int
    gates: dict[str, GateRule]
    fresh_for: str = "30d"
    sub_agents: dict[str, dict[str, GateRule]] = {}
    results: tuple[Result, ...] = ()

    def __post_init__(self) -> None:
        """Refuse another version of the format."""
        if self.version != 1:
            raise ValueError("`version` must be 1")
        duration(self.fresh_for)

    def rule_of(self, sub_agent: str, gate: str) -> tuple[Mapping[str, Threshold], timedelta]:
        """Return the thresholds of a sub-agent's gate, and how long a result of it counts."""
        general = self.gates.get(gate, GateRule())
        own = self.sub_agents.get(sub_agent, {}).get(gate, GateRule())
        return {**general.thresholds, **own.thresholds}, duration(own.fresh_for or general.fresh_for or self.fresh_for)


def duration(text: str) -> timedelta:
    """Return `36h` or `14d` as a duration. Raises `ValueError`."""
    found = DURATION.match(text)
    if found is None:
        raise ValueError("a duration is whole hours or days, e.g. `36h` or `14d`")
    return timedelta(**{{"h": "hours", "d": "days"}[found[2]]: int(found[1])})


def manifest_in(content: bytes) -> Manifest:
    """Return what a file holds.

    Raises:
        ManifestProblem: it is too large, not YAML, uses aliases, names a key twice, or does not fit the format.
    """
    if len(content) > MOST_BYTES:
        raise ManifestProblem(f"the manifest is larger than {MOST_BYTES} bytes")
    try:
        found = yaml.load(content, Loader=StrictLoader)  # noqa: S506  a safe loader that takes less than the usual one
        return msgspec.convert(found, type=Manifest)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f" at line {mark.line + 1}" if mark else ""
        raise ManifestProblem(f"the manifest cannot be read{where}: {error.problem}") from None
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, OverflowError):
        raise ManifestProblem("the manifest is not YAML") from None
    except ValueError as error:
        raise ManifestProblem(f"the manifest does not fit its format: {error}") from None
