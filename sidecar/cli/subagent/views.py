"""`sidecar subagent list|show|explain|preview|history`: ask one sidecar, show what it says."""

import json
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, TextIO

from google.protobuf.timestamp_pb2 import Timestamp

from sidecar.cli.output.drawing import Screen, TextLine
from sidecar.cli.output.json_output import message_to_json
from sidecar.cli.subagent.client import CannotOperate, OperatorClient, OperatorExit, Where
from sidecar.cli.subagent.output.tables import (
    audit_line,
    explanation_lines,
    list_lines,
    preview_lines,
    slot_lines,
    standing,
)
from subagents.lifecycle.v1 import reading_pb2 as pb

MOST_FAILURES: Final = 5
"""In a row, before following the audit is given up."""
FIRST_PAUSE: Final = 0.25
INTERRUPTED: Final = "interrupted; what a sidecar was asked for is not taken back"


@dataclass(frozen=True, slots=True)
class OperatorCommands:
    """Where from, where to, and what of the world is used.

    Attributes:
        ask: shows a question and returns whether the answer was yes; None: nobody is there to be asked.
        environment: says `NO_COLOR`; None: that of the process.
        pause: waits some seconds.
        passed: seconds on a clock that never jumps.
        new_id: makes request ids.
        indent: of JSON, characters a level; None: each object is a line.
    """

    where: Where
    out: TextIO
    errors: TextIO
    as_json: bool = False
    ask: Callable[[str], bool] | None = None
    environment: Mapping[str, str] | None = None
    pause: Callable[[float], None] = time.sleep
    passed: Callable[[], float] = time.monotonic
    new_id: Callable[[], str] = field(default=lambda: f"cli-{uuid.uuid4()}")
    indent: int | None = 2

    @property
    def screen(self) -> Screen:
        """Where lines go."""
        return Screen(self.out, self.environment)

    def write_json(self, value: Any) -> None:
        """Print for programs."""
        self.screen.write(json.dumps(value, indent=self.indent, ensure_ascii=False))

    def refused(self, problem: CannotOperate, **more: Any) -> OperatorExit:
        """Say why something was not done, for programs as one object with `more` in it; return the exit code."""
        self.errors.write(f"{problem}\n")
        if self.as_json:
            self.write_json(more | {"exit_code": int(problem.code), "problem": problem.spoken})
        return problem.code


@dataclass(frozen=True, slots=True)
class ExplainWish:
    """Whose case, and when; None: now."""

    name: str
    user: str
    arm: str = ""
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class HistoryWish:
    """Which rows of the audit."""

    name: str = ""
    slot: str = ""
    after: int = 0
    follow: bool = False


def operated(
    operating: OperatorCommands,
    work: Callable[[OperatorClient], OperatorExit],
    interrupted: OperatorExit = OperatorExit.PARTIAL,
) -> int:
    """Do something with one sidecar; return the exit code: `interrupted` if somebody has had enough."""

    def asking() -> OperatorExit:
        with OperatorClient(operating.where.targets[0], operating.where.token) as client:
            return work(client)

    return guarded(operating, asking, interrupted)


def shown(
    operating: OperatorCommands, ask: Callable[[OperatorClient], Any], lines: Callable[[Any], Iterable[TextLine]]
) -> int:
    """Ask one sidecar, and print the answer as `lines` has it or for programs; return the exit code."""

    def work(client: OperatorClient) -> OperatorExit:
        answer = ask(client)
        if operating.as_json:
            operating.write_json(message_to_json(answer))
        else:
            operating.screen.show(lines(answer))
        return OperatorExit.DONE

    return operated(operating, work)


def guarded(
    operating: OperatorCommands, work: Callable[[], OperatorExit], interrupted: OperatorExit = OperatorExit.PARTIAL
) -> int:
    """Do something, and say why not if it cannot be done; return the exit code."""
    try:
        return work()
    except CannotOperate as problem:
        return operating.refused(problem)
    except KeyboardInterrupt:
        if interrupted is OperatorExit.DONE:
            return interrupted
        advice = "`sidecar subagent history` says what came of it"
        return operating.refused(CannotOperate(INTERRUPTED, interrupted, advice=advice, uncertain=True))


def show_list(operating: OperatorCommands) -> int:
    """List all definitions; return the exit code. As JSON it is what `validate-refs --rollout-export` reads."""

    def work(client: OperatorClient) -> OperatorExit:
        answer = client.ask("ListRollouts", pb.ListRolloutsRequest())
        if not operating.as_json:
            operating.screen.show(list_lines(answer, operating.screen.room))
            return OperatorExit.DONE
        rows = [
            {"slot": slot.slot, "revision": slot.revision, "standing": standing(each)} | message_to_json(each)
            for slot in answer.slots
            for each in slot.definitions
        ]
        backends = [message_to_json(each) for each in answer.backends]
        operating.write_json({"definitions": rows, "backends": backends, "rollout_version": answer.rollout_version})
        return OperatorExit.DONE

    return operated(operating, work)


def show_slot(operating: OperatorCommands, name: str) -> int:
    """Show one slot; return the exit code."""
    return shown(operating, lambda client: client.status(name), slot_lines)


def explain(operating: OperatorCommands, wish: ExplainWish) -> int:
    """Say why a user gets what; return the exit code."""
    request = pb.ExplainServingRequest(slot=wish.name, principal=wish.user, experiment_arm=wish.arm)
    if wish.at is not None:
        request.at.CopyFrom(stamp(wish.at))
    return shown(operating, lambda client: client.ask("ExplainServing", request, wish.name), explanation_lines)


def preview(operating: OperatorCommands, name: str, ramp: int, digest: str) -> int:
    """Say whom a ramp would reach; return the exit code."""
    request = pb.PreviewRampRequest(slot=name, ramp_basis_points=ramp, digest=digest)
    return shown(operating, lambda client: client.ask("PreviewRamp", request, name), preview_lines)


def show_history(operating: OperatorCommands, wish: HistoryWish) -> int:
    """Print the audit, and what is added if wished; return the exit code."""
    operating = replace(operating, indent=None)

    def work(client: OperatorClient) -> OperatorExit:
        after, failures = wish.after, 0
        while True:
            request = pb.WatchAuditRequest(
                after_sequence=after, slot=wish.slot, definition_id=wish.name, no_follow=not wish.follow
            )
            try:
                for rows in client.audit(request):
                    failures, after = 0, rows[-1].sequence if rows else after
                    _print_rows(operating, rows)
                if not wish.follow:
                    return OperatorExit.DONE
            except CannotOperate as problem:
                failures += 1
                if not (wish.follow and problem.uncertain) or failures >= MOST_FAILURES:
                    raise
            operating.pause(FIRST_PAUSE * 2**failures)

    return operated(operating, work, interrupted=OperatorExit.DONE)


def _print_rows(operating: OperatorCommands, rows: Any) -> None:
    for row in rows:
        if operating.as_json:
            operating.write_json(message_to_json(row))
        else:
            operating.screen.show([audit_line(row)])


def stamp(at: datetime) -> Timestamp:
    """Return a time as a message."""
    made = Timestamp()
    made.FromDatetime(at)
    return made
