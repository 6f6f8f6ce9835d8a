"""Implements `sidecar subagent flag`: shows the two flags of a sub-agent, and switches one of them."""

from collections.abc import Sequence
from typing import Any, Final

from sidecar.cli.output.drawing import clean
from sidecar.cli.output.json_output import message_to_json
from sidecar.cli.subagent.client import OperatorClient, OperatorExit
from sidecar.cli.subagent.output.flag_tables import flag_table, kind_word
from sidecar.cli.subagent.output.parsing import percent
from sidecar.cli.subagent.step_target import StepOptions, StepTarget
from sidecar.cli.subagent.steps import Verb, take, take_without_read
from sidecar.cli.subagent.views import OperatorCommands, run_command
from subagents.lifecycle.v1 import flags_pb2 as pb
from subagents.lifecycle.v1 import reading_pb2

KILL: Final = "kill"


def show_flags(commands: OperatorCommands, name: str, which: str = "") -> int:
    """Show the flags of each definition of a slot. Returns the exit code.

    Args:
        commands: address and output.
        name: a slot, or the id of a definition in it.
        which: `kill` or `cohort`; empty: both.
    """

    def work(client: OperatorClient) -> OperatorExit:
        answer = client.ask("GetFlags", pb.GetFlagsRequest(slot=name), name)
        for each in answer.definitions:
            # Filtered here and not by the sidecar: the answer is small. `del` empties the field, so the list is made
            # before it.
            selected = [flag for flag in each.flags if which in {"", kind_word(flag.kind)}]
            del each.flags[:]
            each.flags.extend(selected)
        if commands.as_json:
            commands.write_json({"definitions": [message_to_json(each) for each in answer.definitions]})
        else:
            commands.screen.show(flag_table(answer.definitions))
        return OperatorExit.DONE

    return run_command(commands, work)


def switch_on(commands: OperatorCommands, options: StepOptions, which: str, version: int | None) -> int:
    """Switch a flag on again. `version`: the expected version of the flag; None: any. Returns the exit code."""
    return take(commands, options, lambda target: switching_on(target, which, version))


def switching_on(target: StepTarget, which: str = "cohort", version: int | None = None) -> list[Verb]:
    """Return the step that switches a flag on again; the cohort flag's ends a pause."""
    ramp = percent(target.definition.ramp_basis_points)
    plan = f"{which} flag -> on; the definition serves its ramp of {ramp} again; needs no gate"
    fields = {"flag": pb.FlagKind.Value(f"FLAG_KIND_{which.upper()}")} | _version_field(version)
    return [Verb("SwitchFlagOn", plan, fields, awaited=_flag_has(which, reading_pb2.FLAG_VALUE_ON))]


def pausing(version: int | None = None) -> list[Verb]:
    """Return the step that pauses a definition: its cohort flag goes off."""
    plan = "cohort flag -> off; the definition is paused until the flag is on again; needs no gate"
    awaited = _flag_has("cohort", reading_pb2.FLAG_VALUE_OFF)
    return [Verb("SwitchCohortFlagOff", plan, _version_field(version), awaited=awaited)]


def switch_off(commands: OperatorCommands, options: StepOptions, which: str, version: int | None) -> int:
    """Switch a flag off without reading the rollout first; this needs no gate. Returns the exit code."""
    # Like every stop: the role `breaker` may not read, and a read would delay it.
    verbs = killing_by_flag(options.name, version) if which == KILL else pausing(version)
    return take_without_read(commands, options, *verbs)


def killing_by_flag(name: str, version: int | None = None) -> list[Verb]:
    """Return the step that switches a kill flag off."""
    danger = (
        f"{clean(name)} and every other definition with this kill flag will be removed from every surface immediately "
        "and permanently: switching the flag off is a kill, and switching it on again does not restore them."
    )
    plan = "kill flag -> off, which kills the definition permanently; needs no gate"
    awaited = _flag_has(KILL, reading_pb2.FLAG_VALUE_OFF)
    return [Verb("SwitchKillFlagOff", plan, _version_field(version), danger, awaited=awaited)]


def _version_field(version: int | None) -> dict[str, Any]:
    return {} if version is None else {"expected_version": version}


def _flag_has(which: str, value: int) -> Any:
    """Return a predicate on a definition's flags: does the flag `which` have this value?

    With `--wait`, `Stepping` asks it until an operator has switched a flag that the sidecar cannot write.
    """
    # The kill flag is the first of the two.
    index = 0 if which == KILL else 1

    def has_value(flags: Sequence[Any]) -> bool:
        return len(flags) > index and flags[index].value == value

    return has_value
