"""The verbs of `sidecar subagent` that change one rollout: read, say what will be asked, ask, say what came of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from sidecar.cli.output.drawing import Part, clean
from sidecar.cli.output.json_output import message_to_json
from sidecar.cli.subagent.advice import advice_for
from sidecar.cli.subagent.client import STEPPING, STOPPING, CannotOperate, OperatorClient, OperatorExit
from sidecar.cli.subagent.output.results import is_lasting, result_lines
from sidecar.cli.subagent.views import OperatorCommands, operated
from sidecar.cli.subagent.waiting import UNRECORDED, effect_lines, wait_for_replicas
from subagents.lifecycle.v1 import lifecycle_pb2, reading_pb2

UNREAD: Final = ("RampDown", "Kill", "SwitchCohortFlagOff", "SwitchKillFlagOff")
"""These are asked without reading first: a breaker may not read, and nothing is to hold them up."""
UNGATED: Final = (*UNREAD, "RollBack", "SwitchFlagOn")
"""Steps that wait for no gate."""
BETWEEN: Final = 2.0
"""Seconds between two looks at a flag that a person has to switch."""


@dataclass(frozen=True, slots=True)
class StepWish:
    """What every step is asked with.

    Attributes:
        request_id: empty: a new one.
        revision: None: as read now.
        wait: until every replica shows it, at most for `patience`.
    """

    name: str
    reason: str
    request_id: str = ""
    slot: str = ""
    digest: str = ""
    revision: int | None = None
    dry_run: bool = False
    yes: bool = False
    wait: bool = False
    patience: timedelta = timedelta(minutes=5)


def all_on(flags: Sequence[reading_pb2.FlagStatus]) -> bool:
    """Say whether there are flags, and all are on: what a first ramp needs."""
    return bool(flags) and all(flag.value == reading_pb2.FLAG_VALUE_ON for flag in flags)


@dataclass(frozen=True, slots=True)
class Verb:
    """One step.

    Attributes:
        plan: what it does, in words.
        danger: what is asked before it is taken; empty: nothing.
        suffix: of the request id, where one command takes several steps.
        awaited: says of the flags of the definition whether somebody has switched them as the step needs it.
    """

    method: str
    plan: str
    fields: dict[str, Any] = field(default_factory=dict)
    danger: str = ""
    suffix: str = ""
    awaited: Callable[[Sequence[reading_pb2.FlagStatus]], bool] = all_on


@dataclass(frozen=True, slots=True)
class StepTarget:
    """The slot and the definition that a step is about, as read before it."""

    slot: reading_pb2.SlotStatus
    definition: reading_pb2.DefinitionStatus


def take(operating: OperatorCommands, wish: StepWish, verbs_of: Callable[[StepTarget], Sequence[Verb]]) -> int:
    """Read the rollout, take the steps that follow from it, say what came of them; return the exit code."""

    def work(client: OperatorClient) -> OperatorExit:
        found = found_by(client, wish)
        revision = found.slot.revision if wish.revision is None else wish.revision
        return Stepping(client, operating, wish, found, revision).through(verbs_of(found))

    return operated(operating, work)


def take_unread(operating: OperatorCommands, wish: StepWish, verb: Verb) -> int:
    """Take a step that nothing may hold up; return the exit code."""
    return operated(operating, lambda client: Stepping(client, operating, wish, None, wish.revision).through([verb]))


def found_by(client: OperatorClient, wish: StepWish) -> StepTarget:
    """Return the definition that the sidecar would take: of several with the id the active one, else the newest."""
    for slot in client.ask("ListRollouts", reading_pb2.ListRolloutsRequest()).slots:
        if wish.slot not in {"", slot.slot}:
            continue
        named = [each for each in slot.definitions if each.definition_id == wish.name]
        fitting = [each for each in named if wish.digest in {"", each.digest}]
        if fitting:
            return StepTarget(slot, ([each for each in fitting if each.active] or fitting)[-1])
        if named:
            raise CannotOperate(
                f"{slot.slot} has no content {clean(wish.digest)} of {wish.name} (any more); its content is"
                f" {named[-1].digest}, at revision {slot.revision} (REVISION_CONFLICT)",
                OperatorExit.REFUSED,
                "REVISION_CONFLICT",
                advice=advice_for("REVISION_CONFLICT", {}, wish.name),
            )
    raise CannotOperate(
        f"no rollout has a definition {wish.name} like that (UNKNOWN_DEFINITION)",
        OperatorExit.REFUSED,
        "UNKNOWN_DEFINITION",
        advice="`sidecar subagent list` shows which there are",
    )


class Stepping:
    """Takes one or more steps with one request id, and reports once."""

    def __init__(
        self,
        client: OperatorClient,
        operating: OperatorCommands,
        wish: StepWish,
        found: StepTarget | None,
        revision: int | None,
    ) -> None:
        self._client = client
        self._operating = operating
        self._wish = wish
        self._found = found
        self._revision = revision
        self._request_id = wish.request_id or operating.new_id()
        self._results: list[Any] = []

    def through(self, verbs: Sequence[Verb]) -> OperatorExit:
        """Take the steps in order; return what the command ends with."""
        for verb in verbs:
            self._say(f"{clean(self._wish.name)}: {verb.plan}", "bold")
        confirm(self._operating, self._wish, "\n".join(verb.danger for verb in verbs if verb.danger))
        try:
            for verb in verbs[:1] if self._wish.dry_run else verbs:
                if not self._taken(verb):
                    return self._end(OperatorExit.PARTIAL)
        except CannotOperate as problem:
            return self._operating.refused(problem, **self._reported)
        if self._wish.dry_run and len(verbs) > 1:
            self._say("  the next step can be tried once this one is taken", "dim")
        return self._waited()

    def _taken(self, verb: Verb) -> bool:
        """Take one step; returns whether it is taken, and not waiting for somebody to switch a flag."""
        request_id = self._request_id + verb.suffix
        again = "" if self._revision is None else f" --revision {self._revision}"
        self._say(f"  request id {request_id}, repeated with: --request-id {self._request_id}{again}", "dim")
        result = self._asked(verb, request_id, again)
        until, tries = self._operating.passed() + self._wish.patience.total_seconds(), 1
        while _waits_for_edits(result):
            self._tell_edits(result, first=tries == 1)
            if not self._wish.wait or not self._switched(verb, until):
                self._results.append(result)
                self._say(
                    "  NOT taken; next: make the edit, then run this again as a new step, or use --wait", "yellow"
                )
                return False
            tries += 1
            result = self._asked(verb, f"{request_id}.{tries}", again)
        self._results.append(result)
        self._revision = None if verb.method in UNREAD else result.revision
        for line in result_lines(result, verb.method, dry_run=self._wish.dry_run):
            self._say(*line)
        return True

    def _asked(self, verb: Verb, request_id: str, again: str) -> Any:
        header = lifecycle_pb2.StepHeader(
            definition_id=self._wish.name,
            slot=self._wish.slot,
            digest=self._wish.digest,
            expected_revision=self._revision,
            reason=self._wish.reason,
            request_id=request_id,
            dry_run=self._wish.dry_run,
        )
        request = getattr(lifecycle_pb2, f"{verb.method}Request")(header=header, **verb.fields)
        try:
            seconds = STOPPING if verb.method in UNGATED else STEPPING
            return self._client.ask(verb.method, request, self._wish.name, seconds).result
        except CannotOperate as problem:
            if not problem.uncertain:
                raise
            repeat = (
                f"the same command with --request-id {request_id.removesuffix(verb.suffix)}{again} takes it once at "
                "most, and says what came of it"
            )
            said = f"{problem.said}; whether it was taken is not known"
            advice = "; ".join(filter(None, (repeat, problem.advice)))
            raise CannotOperate(said, problem.code, problem.reason, advice=advice, uncertain=True) from None

    def _switched(self, verb: Verb, until: float) -> bool:
        """Wait until the sidecar sees the flags of the definition as needed; False if that takes too long."""
        while self._operating.passed() < until:
            self._operating.pause(BETWEEN)
            if verb.awaited(found_by(self._client, self._wish).definition.flags):
                return True
        return False

    def _waited(self) -> OperatorExit:
        lasting = all(map(is_lasting, self._results))
        if not self._wish.wait or self._wish.dry_run:
            return self._end(OperatorExit.DONE if lasting else OperatorExit.PARTIAL)
        version = max(each.rollout_version for each in self._results)
        waited = UNRECORDED
        if lasting:
            waited = wait_for_replicas(self._client, self._operating, version, self._wish.patience)
        for line, style in effect_lines(waited):
            self._say(f"  {line}", style)
        code = OperatorExit.PARTIAL if waited.laggards else OperatorExit.DONE
        return self._end(code, laggards=list(waited.laggards))

    def _end(self, code: OperatorExit, **more: Any) -> OperatorExit:
        if self._operating.as_json:
            self._operating.write_json(self._reported | {"exit_code": int(code)} | more)
        return code

    @property
    def _reported(self) -> dict[str, Any]:
        return {"request_id": self._request_id, "steps": [message_to_json(each) for each in self._results]}

    def _tell_edits(self, result: Any, *, first: bool) -> None:
        for edit in result.edits if first else ():
            self._say(f"  somebody has to switch a flag first: {clean(edit)}", "yellow")

    def _say(self, text: str, style: str = "") -> None:
        if not self._operating.as_json:
            self._operating.screen.show([[Part(text, style)]])


def confirm(operating: OperatorCommands, wish: StepWish, danger: str) -> None:
    """Have a dangerous step confirmed. Raises `CannotOperate` if it is not."""
    if not danger or wish.yes or wish.dry_run:
        return
    if operating.ask is None:
        raise CannotOperate(
            f"nothing was asked for: {danger}",
            OperatorExit.NOT_ASKED,
            advice="nobody is here to confirm it; give --yes",
        )
    if not operating.ask(f"{danger} Go on?"):
        raise CannotOperate("nothing was done", OperatorExit.NOT_ASKED)


def _waits_for_edits(result: Any) -> bool:
    return bool(result.edits) and not result.changed and not result.reached
