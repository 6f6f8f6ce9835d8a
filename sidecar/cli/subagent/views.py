"""Implements `sidecar subagent list|show|explain|preview|history`, which query one sidecar and print the answer.

Also what all operator commands share: `OperatorCommands`, `run_command` and `with_errors`.
"""

import json
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, TextIO

from google.protobuf.timestamp_pb2 import Timestamp

from sidecar.cli.output.drawing import Part, Screen, TextLine
from sidecar.cli.output.json_output import message_to_json
from sidecar.cli.subagent.client import CannotOperate, OperatorClient, OperatorExit, SidecarAddress
from sidecar.cli.subagent.output.states import standing
from sidecar.cli.subagent.output.tables import (
    audit_line,
    explanation_lines,
    list_lines,
    preview_lines,
    slot_lines,
)
from subagents.lifecycle.v1 import reading_pb2 as pb

MOST_FAILURES: Final = 5
"""Consecutive failures after which following the audit ends."""
FIRST_PAUSE: Final = 0.25
"""Seconds before the audit is followed again, doubled once for each failure in a row."""
EVERY: Final = 2.0
"""Seconds between two screens of --watch."""
AWAY: Final = "STORE_UNAVAILABLE"  # a reason of `google.rpc.ErrorInfo`
REPLICA_VIEW: Final = (
    "the store is unavailable: the output is what this replica serves, as of its last read; only kills are possible"
)
INTERRUPTED: Final = "interrupted; a request that was already sent is not undone"


@dataclass(frozen=True, slots=True)
class OperatorCommands:
    """Address, output and side effects of the operator commands.

    Attributes:
        ask: asks a question and returns whether the answer was yes; None: the input is no terminal.
        environment: variables such as `NO_COLOR`; None: those of the process.
        pause: sleeps for a number of seconds.
        passed: a monotonic clock, in seconds.
        new_id: creates request ids.
        indent: characters for each level of JSON; None: one object on a line.
    """

    where: SidecarAddress
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
        """The screen that prints lines to `out`."""
        return Screen(self.out, self.environment)

    def write_json(self, value: Any) -> None:
        """Print a value as JSON."""
        self.screen.write(json.dumps(value, indent=self.indent, ensure_ascii=False))

    def refused(self, problem: CannotOperate, **more: Any) -> OperatorExit:
        """Print why the command failed; as JSON, one object that includes `more`. Returns the exit code."""
        self.errors.write(f"{problem}\n")
        if self.as_json:
            self.write_json(more | {"exit_code": int(problem.code), "problem": problem.as_object})
        return problem.code


@dataclass(frozen=True, slots=True)
class ExplainOptions:
    """The user whose serving is explained. `name`: a slot or an id in it; `arm`: in an experiment; `at` None: now."""

    name: str
    user: str
    arm: str = ""
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class HistoryOptions:
    """Filter of the audit rows.

    Attributes:
        name: only of this definition; empty: of all.
        slot: only of this slot; empty: of all.
        after: only rows with a higher sequence number.
        follow: continue with new rows.
    """

    name: str = ""
    slot: str = ""
    after: int = 0
    follow: bool = False


def run_command(
    commands: OperatorCommands,
    work: Callable[[OperatorClient], OperatorExit],
    interrupted: OperatorExit = OperatorExit.PARTIAL,
) -> int:
    """Run `work` with a connection to the first target. Returns the exit code; after Ctrl-C, `interrupted`."""

    def connect_and_work() -> OperatorExit:
        with OperatorClient(commands.where, commands.where.targets[0]) as client:
            return work(client)

    return with_errors(commands, connect_and_work, interrupted)


def print_answer(
    commands: OperatorCommands, ask: Callable[[OperatorClient], Any], lines: Callable[[Any], Iterable[TextLine]]
) -> int:
    """Query one sidecar and print the answer, as `lines` formats it or as JSON. Returns the exit code."""

    def work(client: OperatorClient) -> OperatorExit:
        answer = ask(client)
        if commands.as_json:
            commands.write_json(message_to_json(answer))
        else:
            commands.screen.show(lines(answer))
        return OperatorExit.DONE

    return run_command(commands, work)


def with_errors(
    commands: OperatorCommands, work: Callable[[], OperatorExit], interrupted: OperatorExit = OperatorExit.PARTIAL
) -> int:
    """Run `work` and print its error if it fails. Returns the exit code."""
    try:
        return work()
    except CannotOperate as problem:
        return commands.refused(problem)
    except KeyboardInterrupt:
        # Ctrl-C is the regular end of a command that runs until then, e.g. with --watch.
        if interrupted is OperatorExit.DONE:
            return interrupted
        advice = "`sidecar subagent history` shows whether the step was taken"
        return commands.refused(CannotOperate(INTERRUPTED, interrupted, advice=advice, uncertain=True))


def run_watching(
    commands: OperatorCommands, work: Callable[[OperatorCommands, OperatorClient], OperatorExit], *, watch: bool
) -> int:
    """Run `work`, with `watch` every two seconds until interrupted. A watch continues if the sidecar is unreachable."""
    if watch:
        # One JSON object a line, so that a program can read them as they come.
        commands = replace(commands, indent=None)

    def work_repeatedly(client: OperatorClient) -> OperatorExit:
        while True:
            try:
                code = work(commands, client)
            except CannotOperate as problem:
                # Only the loss of the connection is temporary; a refusal, e.g. of the token, would be the same at each
                # repetition.
                if not (watch and problem.uncertain):
                    raise
                code = commands.refused(problem)
            if not watch:
                return code
            commands.pause(EVERY)

    return run_command(commands, work_repeatedly, interrupted=OperatorExit.DONE if watch else OperatorExit.PARTIAL)


def show_list(commands: OperatorCommands, *, watch: bool = False) -> int:
    """List all definitions. `validate-refs --rollout-export` reads the JSON form. Returns the exit code."""

    def work(commands: OperatorCommands, client: OperatorClient) -> OperatorExit:
        answer = client.rollouts()
        # A script must see that the output may be outdated.
        code = OperatorExit.PARTIAL if answer.replica_view else OperatorExit.DONE
        if not commands.as_json:
            commands.screen.show([*_outage_lines(answer), *list_lines(answer, commands.screen.room)])
            return code
        rows = [
            {"slot": slot.slot, "revision": slot.revision, "standing": standing(each)} | message_to_json(each)
            for slot in answer.slots
            for each in slot.definitions
        ]
        backends = [message_to_json(each) for each in answer.backends]
        version = {"rollout_version": answer.rollout_version, "replica_view": answer.replica_view}
        commands.write_json({"definitions": rows, "backends": backends} | version)
        return code

    return run_watching(commands, work, watch=watch)


def show_slot(commands: OperatorCommands, name: str) -> int:
    """Show one slot; while the store is unavailable, as this replica serves it. Returns the exit code."""

    def work(client: OperatorClient) -> OperatorExit:
        try:
            status, answer = client.status(name), pb.ListRolloutsResponse()
        except CannotOperate as problem:
            # Only if the store does not answer; any other refusal is an answer.
            if problem.reason != AWAY:
                raise
            answer = client.rollouts()
            named = [
                slot for slot in answer.slots if name in {slot.slot, *(each.definition_id for each in slot.definitions)}
            ]
            # A replica knows only the slots that it serves, so this does not prove that the name is unknown: the first
            # error stands.
            if not named:
                raise
            status = named[0]
        if commands.as_json:
            commands.write_json(message_to_json(status) | {"replica_view": answer.replica_view})
        else:
            commands.screen.show([*_outage_lines(answer), *slot_lines(status)])
        return OperatorExit.PARTIAL if answer.replica_view else OperatorExit.DONE

    return run_command(commands, work)


def _outage_lines(answer: pb.ListRolloutsResponse) -> list[TextLine]:
    return [[Part(REPLICA_VIEW, "yellow")]] if answer.replica_view else []


def explain(commands: OperatorCommands, options: ExplainOptions) -> int:
    """Explain why a user gets, or does not get, a sub-agent. Returns the exit code."""
    request = pb.ExplainServingRequest(slot=options.name, principal=options.user, experiment_arm=options.arm)
    if options.at is not None:
        request.at.CopyFrom(stamp(options.at))
    return print_answer(commands, lambda client: client.ask("ExplainServing", request, options.name), explanation_lines)


def preview(commands: OperatorCommands, name: str, ramp: int, digest: str) -> int:
    """Show how many users a ramp, in basis points, would add and remove. Returns the exit code."""
    from sidecar.cli.subagent.step_target import refuse_short  # noqa: PLC0415  no other of these commands needs it

    request = pb.PreviewRampRequest(slot=name, ramp_basis_points=ramp, digest=digest)

    def ask(client: OperatorClient) -> Any:
        refuse_short(digest)
        return client.ask("PreviewRamp", request, name)

    return print_answer(commands, ask, preview_lines)


def show_history(commands: OperatorCommands, options: HistoryOptions) -> int:
    """Print the audit and, with `follow`, each new row. Returns the exit code."""
    # The rows are a stream: one object on a line can be read before the end.
    commands = replace(commands, indent=None)

    def work(client: OperatorClient) -> OperatorExit:
        after, failures = options.after, 0
        while True:
            request = pb.WatchAuditRequest(
                after_sequence=after, slot=options.slot, definition_id=options.name, no_follow=not options.follow
            )
            try:
                for rows in client.audit(request):
                    # Before the rows are printed: after a break, the stream resumes behind them.
                    failures, after = 0, rows[-1].sequence if rows else after
                    _print_rows(commands, rows)
                # A stream that ends without an error has no more rows; only --follow asks again.
                if not options.follow:
                    return OperatorExit.DONE
            except CannotOperate as problem:
                failures += 1
                if not (options.follow and problem.uncertain) or failures >= MOST_FAILURES:
                    raise
            commands.pause(FIRST_PAUSE * 2**failures)

    return run_command(commands, work, interrupted=OperatorExit.DONE)


def _print_rows(commands: OperatorCommands, rows: Any) -> None:
    for row in rows:
        if commands.as_json:
            commands.write_json(message_to_json(row))
        else:
            commands.screen.show([audit_line(row)])


def stamp(at: datetime) -> Timestamp:
    """Return a time as a protobuf timestamp."""
    message = Timestamp()
    message.FromDatetime(at)
    return message
