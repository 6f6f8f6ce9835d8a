"""`sidecar subagent flag`: shows the two flags of a sub-agent, and switches one of them by hand."""

from collections.abc import Sequence
from typing import Any, Final

from sidecar.cli.output.drawing import clean
from sidecar.cli.output.json_output import message_to_json
from sidecar.cli.subagent.client import OperatorClient, OperatorExit
from sidecar.cli.subagent.output.flag_tables import flag_table, kind_word
from sidecar.cli.subagent.output.parsing import percent
from sidecar.cli.subagent.steps import StepTarget, StepWish, Verb, take, take_unread
from sidecar.cli.subagent.views import OperatorCommands, operated
from subagents.lifecycle.v1 import flags_pb2 as pb
from subagents.lifecycle.v1 import reading_pb2

KILL: Final = "kill"


def show_flags(operating: OperatorCommands, name: str, which: str = "") -> int:
    """Show both flags of each definition of a slot, or only one of them; return the exit code."""

    def work(client: OperatorClient) -> OperatorExit:
        answer = client.ask("GetFlags", pb.GetFlagsRequest(slot=name), name)
        for each in answer.definitions:
            kept = [flag for flag in each.flags if which in {"", kind_word(flag.kind)}]
            del each.flags[:]
            each.flags.extend(kept)
        if operating.as_json:
            operating.write_json({"definitions": [message_to_json(each) for each in answer.definitions]})
        else:
            operating.screen.show(flag_table(answer.definitions))
        return OperatorExit.DONE

    return operated(operating, work)


def switch_on(operating: OperatorCommands, wish: StepWish, which: str, version: int | None) -> int:
    """Switch a flag on again; return the exit code."""

    def verbs(found: StepTarget) -> list[Verb]:
        ramp = percent(found.definition.ramp_basis_points)
        plan = f"{which} flag -> on; it serves as far as its ramp of {ramp} goes; asks nobody"
        fields = {"flag": pb.FlagKind.Value(f"FLAG_KIND_{which.upper()}")} | _expected(version)
        return [Verb("SwitchFlagOn", plan, fields, awaited=_awaited(which, reading_pb2.FLAG_VALUE_ON))]

    return take(operating, wish, verbs)


def switch_off(operating: OperatorCommands, wish: StepWish, which: str, version: int | None) -> int:
    """Switch a flag off, which reads nothing first and asks nobody; return the exit code."""
    name, awaited = clean(wish.name), _awaited(which, reading_pb2.FLAG_VALUE_OFF)
    if which == KILL:
        danger = (
            f"{name}, and whoever else is behind its kill flag, goes off every surface at once, for everybody and for"
            " good: the fall of that flag is a kill, and switching it on again brings nobody back."
        )
        plan = "kill flag -> off, which kills it for good; asks nobody"
        return take_unread(operating, wish, Verb("SwitchKillFlagOff", plan, _expected(version), danger, "", awaited))
    plan = "cohort flag -> off; it serves nobody until that is on again, state and ramp stay; asks nobody"
    return take_unread(operating, wish, Verb("SwitchCohortFlagOff", plan, _expected(version), awaited=awaited))


def _expected(version: int | None) -> dict[str, Any]:
    return {} if version is None else {"expected_version": version}


def _awaited(which: str, wanted: int) -> Any:
    """Return what says whether somebody has switched the flag where the sidecar does not: kill flags come first."""
    place = 0 if which == KILL else 1

    def switched(flags: Sequence[Any]) -> bool:
        return len(flags) > place and flags[place].value == wanted

    return switched
