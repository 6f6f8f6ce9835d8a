"""Reads thresholds and recorded results from `evaluation_manifest.yaml`.

Unknown keys at the top level are ignored, because evaluation suites add their own. Below known keys, an unknown key is
an error.
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
"""Basis points of one percent."""
ALL: Final = 100
"""All users, in percent."""


class ManifestProblem(ValueError):
    """The manifest cannot be used. The message names place and reason, and quotes no other part of the file."""


class Threshold(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The limits of a metric.

    Attributes:
        at_least: smallest allowed value; None: no lower limit.
        at_most: largest allowed value; None: no upper limit.
    """

    at_least: float | None = None
    at_most: float | None = None

    def __post_init__(self) -> None:
        """Reject a threshold without limits, or with an infinite limit. Raises `ValueError`."""
        ends = [end for end in (self.at_least, self.at_most) if end is not None]
        if not ends or not all(math.isfinite(end) for end in ends):
            raise ValueError("a threshold needs `at_least` or `at_most`, as finite numbers")

    def met_by(self, value: float) -> bool:
        """Return whether a value is within the limits; each limit itself is allowed."""
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)


class GateRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The requirements of one gate.

    Attributes:
        thresholds: metric to its limits.
        fresh_for: how long a result is valid, e.g. `36h` or `14d`; None: as configured for the next more general level.
    """

    thresholds: dict[str, Threshold] = {}
    fresh_for: str | None = None

    def __post_init__(self) -> None:
        """Reject an invalid duration. Raises `ValueError`."""
        if self.fresh_for is not None:
            duration(self.fresh_for)


class Result(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The result of one evaluation.

    Attributes:
        sub_agent: id of the definition.
        gate: the gate for which the definition was evaluated.
        digest: digest of the evaluated definition; a result is valid for this digest only.
        commit: commit in which this digest first appeared.
        from_percent: ramp before the evaluated step, in percent; 0 for `pre_merge`.
        to_percent: ramp after the evaluated step, in percent; 0 for `pre_merge`.
        recorded_at: when the evaluation ended, with an offset from UTC.
        offline: whether a built-in stand-in was evaluated instead of a model; valid only if the settings accept it.
        metrics: metric to its value.
        evidence: name to a reference, e.g. the URL of a report.
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
        """Reject ambiguous times, numbers and percentages. Raises `ValueError`."""
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
    """The part of the file that gates use.

    Attributes:
        version: version of this format; 1.
        gates: gate to its requirements for every sub-agent.
        fresh_for: how long a result is valid, unless a gate has its own value.
        sub_agents: sub-agent to gate to requirements. Their thresholds are added to those of the gate, and replace a
            threshold of an equal metric.
        results: the recorded results.
    """

    version: int
    gates: dict[str, GateRule]
    fresh_for: str = "30d"
    sub_agents: dict[str, dict[str, GateRule]] = {}
    results: tuple[Result, ...] = ()

    def __post_init__(self) -> None:
        """Reject other versions of the format, and an invalid duration. Raises `ValueError`."""
        if self.version != 1:
            raise ValueError("`version` must be 1")
        duration(self.fresh_for)

    def rule_of(self, sub_agent: str, gate: str) -> tuple[Mapping[str, Threshold], timedelta]:
        """Return the thresholds of a gate for a sub-agent, by metric, and how long a result is valid."""
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
    """Return the manifest in the content of a file.

    Raises:
        ManifestProblem: the content is too large, not YAML, uses aliases, has a duplicate key, or violates the format.
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
