"""Reads scenarios in YAML. A message about a mistake has line, field, and the allowed values."""

import json
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

import yaml

from subagents_loadgen.plan import ARGUMENTS, Arrivals, Load, Mix, Plan, Scenario, Target
from subagents_loadgen.quantities import duration, positive, rate, share, size
from subagents_loadgen.thresholds import Threshold, latency_in, threshold
from subagents_loadgen.wire.targets import is_local

MOST_BYTES: Final = 1024 * 1024
TOP: Final = (
    *("name", "targets", "turns", "stages", "thresholds", "warm_up", "deadline", "grace", "orchestrator"),
    *("principals", "seed", "channels"),
)
TARGET: Final = ("target", "boot_secret_file", "weight")
TURN: Final = (
    *("name", "weight", "rpc", "calls", "tools", "arguments", "size", "cancel", "resume", "reconnect"),
    "slow_reader",
)
STAGE: Final = ("name", "duration", "rate", "ramp_to", "arrivals", "in_flight", "requests")
Value = TypeVar("Value")
Choices = TypeVar("Choices", bound=StrEnum)


class UnusableScenario(ValueError):
    """A scenario cannot be used; the message has file, line, field, problem, and what is allowed."""


def read_plan(path: Path, *, allow_remote: bool = False) -> Plan:
    """Return the plan that a file describes.

    Raises:
        UnusableScenario: the file cannot be read, or its content is wrong.
    """
    try:
        text = path.read_text(encoding="utf-8")
        if len(text) > MOST_BYTES:
            raise UnusableScenario(f"{path}: larger than {MOST_BYTES} characters")
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except (OSError, UnicodeDecodeError) as error:
        raise UnusableScenario(f"{path}: cannot be read ({type(error).__name__}): name a YAML file in UTF-8") from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise UnusableScenario(f"{path}:{mark.line + 1 if mark else 1}: not YAML: {error.problem}") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise UnusableScenario(f"{path}:1: not YAML ({type(error).__name__})") from None
    if root is None:
        raise UnusableScenario(f"{path}:1: the file is empty; allowed fields: {', '.join(TOP)}")
    return _plan(Field(path, "", root), allow_remote=allow_remote)


class Field:
    """A value of the file, and its position.

    Args:
        path: path of the file.
        name: name of the value, e.g. `turns[0].cancel`; empty: the whole file.
        node: the value.
        line: line of its key; 0: the line in which the value begins.
    """

    def __init__(self, path: Path, name: str, node: yaml.Node, line: int = 0) -> None:
        self.path, self.name, self.node = path, name, node
        self.line = line or node.start_mark.line + 1

    def refuse(self, problem: str) -> NoReturn:
        """Raise with file, line, field and problem."""
        raise UnusableScenario(f"{self.path}:{self.line}: {f'{self.name}: ' if self.name else ''}{problem}")

    def fields(self, allowed: Sequence[str] | None, required: Sequence[str] = ()) -> "dict[str, Field]":
        """Return the entries of a mapping; `allowed` None: any names."""
        if not isinstance(self.node, yaml.MappingNode):
            self.refuse(f"expected fields ({', '.join(allowed)})" if allowed else "expected `name: value` lines")
        found: dict[str, Field] = {}
        for key, value in self.node.value:
            name = str(key.value)
            field = Field(self.path, f"{self.name}.{name}".lstrip("."), value, key.start_mark.line + 1)
            if name in found:
                field.refuse(f"is given twice, first in line {found[name].line}; keep one")
            if allowed is not None and name not in allowed:
                near = get_close_matches(name, allowed, 1)
                hint = f" (did you mean {near[0]!r}?)" if near else ""
                field.refuse(f"there is no such field{hint}; allowed: {', '.join(allowed)}")
            found[name] = field
        for name in required:
            if name not in found:
                self.refuse(f"the field {name!r} is missing")
        return found

    def items(self) -> "list[Field]":
        """Return the entries of a list of at least one."""
        if not isinstance(self.node, yaml.SequenceNode) or not self.node.value:
            self.refuse("expected a list with at least one entry (lines that begin with `- `)")
        return [Field(self.path, f"{self.name}[{place}]", node) for place, node in enumerate(self.node.value)]

    def text(self) -> str:
        """Return a single value as it is written."""
        if not isinstance(self.node, yaml.ScalarNode):
            self.refuse("expected a single value")
        return str(self.node.value)

    def read(self, reader: Callable[[str], Value]) -> Value:
        """Return a single value, read by a function that raises `ValueError` with what is allowed."""
        text = self.text()
        try:
            return reader(text)
        except ValueError as error:
            self.refuse(str(error))

    def one_of(self, choices: type[Choices]) -> Choices:
        """Return one of an enum's values."""
        text = self.text()
        if text not in [one.value for one in choices]:
            self.refuse(f"{text!r} is not allowed; allowed: {', '.join(one.value for one in choices)}")
        return choices(text)

    def weighted(self, reader: Callable[[str], Value]) -> Sequence[tuple[Value, float]]:
        """Return a single value, or values with their weights (`{1: 70, 3: 30}`)."""
        if not isinstance(self.node, yaml.MappingNode):
            return ((self.read(reader), 1.0),)
        found = []
        for name, weight in self.fields(None).items():
            try:
                found.append((reader(name), weight.read(_weight)))
            except ValueError as error:
                if isinstance(error, UnusableScenario):
                    raise
                weight.refuse(str(error))
        if not any(weight for _, weight in found):
            self.refuse("no value has a weight above 0")
        return tuple(found)

    def python(self) -> Any:
        """Return the value as YAML's types."""
        try:
            return yaml.safe_load(yaml.serialize(self.node))
        except (yaml.YAMLError, ValueError) as error:
            self.refuse(f"not readable ({type(error).__name__})")


def _plan(root: Field, *, allow_remote: bool) -> Plan:
    top = root.fields(TOP, required=("targets", "stages"))
    common = {
        "orchestrator_id": top["orchestrator"].text() if "orchestrator" in top else "",
        "principals": _get(top, "principals", positive, 100),
        "deadline": _get(top, "deadline", duration, 30.0),
    }
    turns = top["turns"].items() if "turns" in top else []
    mixes = [_mix(one, place, common) for place, one in enumerate(turns)] or [Mix(**common)]
    if not any(one.weight for one in mixes):
        top["turns"].refuse("no turn has a weight above 0")
    thresholds = _thresholds(top["thresholds"], [one.name for one in mixes]) if "thresholds" in top else ()
    warm_up, grace = _get(top, "warm_up", duration, 0.0), _get(top, "grace", duration, 10.0)
    return Plan(
        name=top["name"].text() if "name" in top else root.path.stem,
        targets=[_target(one, allow_remote=allow_remote) for one in top["targets"].items()],
        mixes=mixes,
        stages=[_stage(one, 0.0 if place else warm_up, grace) for place, one in enumerate(top["stages"].items())],
        thresholds=thresholds,
        seed=_get(top, "seed", positive, 1),
        channels=_get(top, "channels", positive, 1),
    )


def _target(field: Field, *, allow_remote: bool) -> Target:
    given = field.fields(TARGET, required=("target",))
    address = given["target"].text()
    if not allow_remote and not is_local(address):
        given["target"].refuse(
            f"{address!r} is beyond this machine; allowed: Unix sockets and loopback; others with --allow-remote"
        )
    secret = given.get("boot_secret_file")
    return Target(address, Path(secret.text()) if secret else None, _get(given, "weight", _weight, 1.0))


def _mix(field: Field, place: int, common: Mapping[str, Any]) -> Mix:
    given = field.fields(TURN)
    scenario = given["rpc"].one_of(Scenario) if "rpc" in given else Scenario.TURN
    for name in ("cancel", "resume", "reconnect", "slow_reader"):
        if name in given and scenario is not Scenario.TURN:
            given[name].refuse(f"needs a stream, which `rpc: {scenario}` does not have; allowed with `rpc: turn`")
    arguments: Any = given["arguments"].python() if "arguments" in given else json.loads(ARGUMENTS)
    if not isinstance(arguments, dict):
        given["arguments"].refuse("expected fields, as the tools take JSON objects")
    return Mix(
        scenario=scenario,
        name=given["name"].text() if "name" in given else f"turn-{place + 1}",
        weight=_get(given, "weight", _weight, 1.0),
        fan_out=given["calls"].weighted(positive) if "calls" in given else ((1, 1.0),),
        resume=_get(given, "resume", share, 0.0),
        cancel=_get(given, "cancel", share, 0.0),
        reconnect=_get(given, "reconnect", share, 0.0),
        slow_reader=_get(given, "slow_reader", duration, 0.0),
        sizes=given["size"].weighted(size) if "size" in given else ((0, 1.0),),
        tools=tuple(one.text() for one in given["tools"].items()) if "tools" in given else (),
        arguments_json=json.dumps(arguments, ensure_ascii=False, default=str),
        **common,
    )


def _stage(field: Field, warm_up: float, grace: float) -> Load:
    given = field.fields(STAGE, required=("duration",))
    if "rate" not in given and "in_flight" not in given:
        field.refuse(
            "give `rate` (operations a second, whatever the sidecar does) or `in_flight` (that many at a time)"
        )
    for name in ("ramp_to", "arrivals"):
        if name in given and "rate" not in given:
            given[name].refuse("belongs to `rate`; a closed loop has `in_flight` alone")
    return Load(
        rate=_get(given, "rate", rate, None),
        ramp_to=_get(given, "ramp_to", rate, None),
        in_flight=_get(given, "in_flight", positive, 1000),
        seconds=given["duration"].read(duration),
        requests=_get(given, "requests", positive, None),
        warm_up=warm_up,
        grace=grace,
        arrivals=given["arrivals"].one_of(Arrivals) if "arrivals" in given else Arrivals.EVEN,
        name=given["name"].text() if "name" in given else field.name,
    )


def _thresholds(field: Field, turns: Sequence[str]) -> Sequence[Threshold]:
    found = []
    for metric, bound in field.fields(None).items():
        made = bound.read(partial(threshold, metric))
        if metric.startswith("turn.") and latency_in(metric)[0].removeprefix("turn.") not in turns:
            bound.refuse(f"there is no such turn; allowed: {', '.join(turns)}")
        found.append(made)
    return tuple(found)


def _get(given: Mapping[str, Field], name: str, reader: Callable[[str], Any], default: Any) -> Any:
    return given[name].read(reader) if name in given else default


def _weight(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise ValueError(f"{text!r} is no weight; write a number of at least 0")
    return value
