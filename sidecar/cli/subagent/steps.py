"""Takes the steps of one rollout, for all commands that change one.

It reads the revision, prints the plan, asks for a confirmation, sends the requests, and prints the results.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from sidecar.cli.output.drawing import Part, clean
from sidecar.cli.output.json_output import message_to_json
from sidecar.cli.subagent.client import STEPPING, STOPPING, CannotOperate, OperatorClient, OperatorExit
from sidecar.cli.subagent.output.results import is_lasting, result_lines
from sidecar.cli.subagent.output.tables import short
from sidecar.cli.subagent.step_target import StepOptions, StepTarget, find_target, refuse_short
from sidecar.cli.subagent.views import OperatorCommands, run_command
from sidecar.cli.subagent.waiting import UNRECORDED, effect_lines, wait_for_replicas
from subagents.lifecycle.v1 import lifecycle_pb2, reading_pb2

TAKEN_WITHOUT_READ: Final = ("RampDown", "Kill", "SwitchCohortFlagOff", "SwitchKillFlagOff")
"""Steps that are sent without reading the rollout first: the role `breaker` may not read, and a read delays a stop."""
UNGATED: Final = (*TAKEN_WITHOUT_READ, "RollBack", "SwitchFlagOn")
"""Steps that need no gate, so the short timeout applies."""
BETWEEN: Final = 2.0
"""Seconds between two reads of a flag that an operator must switch in its backend."""


def flags_are_on(flags: Sequence[reading_pb2.FlagStatus]) -> bool:
    """Return whether a definition has flags and all are on, as the first ramp needs."""
    return bool(flags) and all(flag.value == reading_pb2.FLAG_VALUE_ON for flag in flags)


@dataclass(frozen=True, slots=True)
class Verb:
    """One step of a command.

    Attributes:
        method: the RPC, e.g. `SetRamp`.
        fields: the fields of its request besides the header.
        plan: the description that is printed before the step.
        danger: the question that the operator must confirm; empty: no confirmation.
        suffix: appended to the request id if one command takes several steps.
        awaited: returns whether the definition's flags have the values that the step needs.
    """

    method: str
    plan: str
    fields: dict[str, Any] = field(default_factory=dict)
    danger: str = ""
    suffix: str = ""
    awaited: Callable[[Sequence[reading_pb2.FlagStatus]], bool] = flags_are_on


def take(
    commands: OperatorCommands,
    options: StepOptions,
    verbs_of: Callable[[StepTarget], Sequence[Verb]],
    choose: Callable[[StepTarget], StepTarget] = lambda target: target,
) -> int:
    """Read the rollout, take the steps that `verbs_of` derives from it, print the results. Returns the exit code.

    Args:
        commands: how to reach the sidecar, and where to print.
        options: of the step.
        verbs_of: returns the steps for the definition that was found.
        choose: without --digest, returns which definition with the id is meant.
    """

    def work(client: OperatorClient) -> OperatorExit:
        target = find_target(client, options)
        # A digest names exactly one definition, so there is nothing to choose.
        target = target if options.digest else choose(target)
        needs_digest = bool(options.digest) or target.chosen
        # The whole digest: between read and step, another definition may get the same id.
        step_options = replace(options, digest=target.definition.digest) if needs_digest else options
        # The revision on which the plan below is based: if another operator changes the slot before the request
        # arrives, the sidecar refuses it.
        revision = target.slot.revision if options.revision is None else options.revision
        return Stepping(client, commands, step_options, target, revision).run(verbs_of(target))

    return run_command(commands, work)


def take_without_read(commands: OperatorCommands, options: StepOptions, verb: Verb) -> int:
    """Take a step without reading the rollout first. Returns the exit code."""

    def work(client: OperatorClient) -> OperatorExit:
        refuse_short(options.digest)
        return Stepping(client, commands, options, None, options.revision).run([verb])

    return run_command(commands, work)


class Stepping:
    """Takes one or more steps under one request id and prints one report.

    Args:
        client: the connection to the sidecar.
        commands: the output, the clock, and the confirmation.
        options: of the steps; with a digest if the operator or the command chose a definition.
        target: the definition as read; None: nothing was read.
        revision: the expected revision of the slot for the first step; None: the sidecar does not compare it.
    """

    def __init__(
        self,
        client: OperatorClient,
        commands: OperatorCommands,
        options: StepOptions,
        target: StepTarget | None,
        revision: int | None,
    ) -> None:
        self._client = client
        self._commands = commands
        self._options = options
        self._revision = revision
        # One id for the whole command: the operator repeats it with this id after a lost answer.
        self._request_id = options.request_id or commands.new_id()
        self._results: list[Any] = []
        # Printed in advice. Empty unless the command chose the definition: the operator's own digest is in the command.
        self._digest = short(options.digest) if target is not None and target.chosen else ""

    def run(self, verbs: Sequence[Verb]) -> OperatorExit:
        """Take the steps in order and return the exit code of the command.

        A dry run takes only the first one, because the next one depends on its effect.
        """
        name = clean(self._options.name) + (f"@{self._digest}" if self._digest else "")
        for verb in verbs:
            self._say(f"{name}: {verb.plan}", "bold")
        # After the plan is printed, so that the operator knows what the confirmation is about.
        confirm(self._commands, self._options, "\n".join(verb.danger for verb in verbs if verb.danger))
        try:
            for verb in verbs[:1] if self._options.dry_run else verbs:
                if not self._take(verb):
                    return self._end(OperatorExit.PARTIAL)
        except CannotOperate as problem:
            # With the steps that were taken before the refusal, because they are not undone.
            return self._commands.refused(problem, **self._report)
        if self._options.dry_run and len(verbs) > 1:
            self._say("  a dry run of the next step is possible once this one is taken", "dim")
        return self._wait_until_effective()

    def _take(self, verb: Verb) -> bool:
        """Take one step. Returns False if the step still needs a flag that an operator has to switch."""
        request_id = self._request_id + verb.suffix
        # A repetition under the same id must be equal in all arguments, or the sidecar refuses it.
        repeated_options = "" if self._revision is None else f" --revision {self._revision}"
        repeated_options += f" --digest {self._digest}" if self._digest else ""
        if not self._results:
            repeat = f"if the answer is lost, repeat with: --request-id {self._request_id}{repeated_options}"
            self._say(f"  request id {request_id}; {repeat}", "dim")
        result = self._request(verb, request_id, repeated_options)
        # Counted from here: the request itself has its own time limit.
        until, tries = self._commands.passed() + self._options.patience.total_seconds(), 1
        while _waits_for_edits(result):
            self._tell_edits(result, first=tries == 1)
            if not self._options.wait or not self._wait_for_flags(verb, until):
                self._results.append(result)
                self._say(
                    "  NOT taken; next: make the edit, then run the command again without --request-id, or use --wait",
                    "yellow",
                )
                return False
            tries += 1
            # A new id for each try: under the same one, the sidecar would repeat its stored answer, "needs the edit".
            result = self._request(verb, f"{request_id}.{tries}", repeated_options)
        self._results.append(result)
        # The next step expects the slot as this one left it.
        self._revision = None if verb.method in TAKEN_WITHOUT_READ else result.revision
        for line in result_lines(result, verb.method, dry_run=self._options.dry_run):
            self._say(*line)
        return True

    def _request(self, verb: Verb, request_id: str, repeated_options: str) -> Any:
        header = lifecycle_pb2.StepHeader(
            definition_id=self._options.name,
            slot=self._options.slot,
            digest=self._options.digest,
            expected_revision=self._revision,
            reason=self._options.reason,
            request_id=request_id,
            dry_run=self._options.dry_run,
        )
        request = getattr(lifecycle_pb2, f"{verb.method}Request")(header=header, **verb.fields)
        try:
            seconds = STOPPING if verb.method in UNGATED else STEPPING
            return self._client.ask(verb.method, request, self._options.name, seconds).result
        except CannotOperate as problem:
            # Refused for certain: there is nothing to repeat.
            if not problem.uncertain:
                raise
            # Without the suffix: the operator gives the id of the command, to which each step appends its own suffix.
            repeat = (
                f"the same command with --request-id {request_id.removesuffix(verb.suffix)}{repeated_options} takes "
                "the step at most once and prints its result"
            )
            message = f"{problem.message}; it is unknown whether the step was taken"
            advice = "; ".join(filter(None, (repeat, problem.advice)))
            raise CannotOperate(message, problem.code, problem.reason, advice=advice, uncertain=True) from None

    def _wait_for_flags(self, verb: Verb, until: float) -> bool:
        """Wait until the sidecar sees the flag values that the step needs. Returns False at the time limit."""
        while self._commands.passed() < until:
            self._commands.pause(BETWEEN)
            if verb.awaited(find_target(self._client, self._options).definition.flags):
                return True
        return False

    def _wait_until_effective(self) -> OperatorExit:
        """With --wait, wait until every replica shows the steps. Returns the exit code of the command."""
        lasting = all(map(is_lasting, self._results))
        if self._digest and not self._options.dry_run:
            name = clean(self._options.name)
            self._say(f"  its next steps need --digest {self._digest}: without it, {name} is the active one", "yellow")
        if not self._options.wait or self._options.dry_run:
            return self._end(OperatorExit.DONE if lasting else OperatorExit.PARTIAL)
        # A version contains all earlier ones, so the newest is enough.
        version = max(each.rollout_version for each in self._results)
        waited = UNRECORDED
        if lasting:
            waited = wait_for_replicas(self._client, self._commands, version, self._options.patience)
        for line, style in effect_lines(waited):
            self._say(f"  {line}", style)
        code = OperatorExit.PARTIAL if waited.laggards else OperatorExit.DONE
        return self._end(code, laggards=list(waited.laggards))

    def _end(self, code: OperatorExit, **more: Any) -> OperatorExit:
        if self._commands.as_json:
            self._commands.write_json(self._report | {"exit_code": int(code)} | more)
        return code

    @property
    def _report(self) -> dict[str, Any]:
        return {"request_id": self._request_id, "steps": [message_to_json(each) for each in self._results]}

    def _tell_edits(self, result: Any, *, first: bool) -> None:
        for edit in result.edits if first else ():
            self._say(f"  a flag must be switched in its backend first: {clean(edit)}", "yellow")

    def _say(self, text: str, style: str = "") -> None:
        if not self._commands.as_json:
            self._commands.screen.show([[Part(text, style)]])


def confirm(commands: OperatorCommands, options: StepOptions, danger: str) -> None:
    """Ask the operator to confirm a dangerous step. Raises `CannotOperate` without a confirmation."""
    if not danger or options.yes or options.dry_run:
        return
    # Not a silent yes: in a script, a missing --yes must stop the step.
    if commands.ask is None:
        raise CannotOperate(
            f"nothing was sent: {danger}",
            OperatorExit.NOT_ASKED,
            advice="the input is not a terminal, so the step cannot be confirmed; give --yes",
        )
    if not commands.ask(f"{danger} Continue?"):
        raise CannotOperate("nothing was done", OperatorExit.NOT_ASKED)


def _waits_for_edits(result: Any) -> bool:
    # `reached` is set by a stop, which takes effect before the flag is switched, and so waits for no edit.
    return bool(result.edits) and not result.changed and not result.reached
