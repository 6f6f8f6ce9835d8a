"""`--json`: one spelling of every value, and one object for whatever could not be done."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict, ParseDict

from sidecar.cli.output.json_output import enum_word, message_from_json, message_to_json
from sidecar.cli.subagent import activity, cleanup, decommission, verbs
from sidecar.cli.subagent import views as reading
from sidecar.cli.subagent.kill import kill
from sidecar.cli.subagent.output.gate_words import gates_words
from sidecar.cli.subagent.output.tables import audit_line, slot_lines
from sidecar.core.rollout.checkout_inspection import MODULES
from sidecar.core.rollout.decommission_facts import Choice
from subagents.lifecycle.v1 import reading_pb2 as pb
from tests.support.decommission_bench import CHECKOUTS, a_bench
from tests.support.operator_desk import INSIDE, Desk, typed, wish
from tests.support.operators import an_operated_sidecar

Command = tuple[Callable[..., int], tuple[Any, ...]]

ASKING: dict[str, Command] = {
    "list": (reading.show_list, ()),
    "show": (reading.show_slot, ("nobody",)),
    "explain": (reading.explain, (reading.ExplainWish("nobody", INSIDE),)),
    "preview": (reading.preview, ("nobody", 500, "")),
    "history": (reading.show_history, (reading.HistoryWish(),)),
    "when": (activity.show_active_periods, (activity.ActivePeriodsOptions("nobody", INSIDE),)),
    "ramp": (verbs.ramp, (wish("nobody"), 500)),
    "kill": (kill, (wish("nobody"),)),
    "decommission status": (decommission.show_one, ("nobody",)),
    "decommission overdue": (cleanup.overdue, (cleanup.CheckoutLocation(CHECKOUTS, None, MODULES),)),
}


def words(value: Any) -> Iterator[str]:
    """Yield every text in what was printed."""
    if isinstance(value, str):
        yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from words(each)


async def test_every_value_is_spelt_as_operators_write_it() -> None:
    """States, verdicts, triggers, flags, modes: wherever they are printed."""
    async with an_operated_sidecar() as bench:
        desk = Desk(bench)
        await bench.promoted(ramp=500)
        _, listed = await desk.object(reading.show_list)
        _, shown = await desk.object(reading.show_slot, "shop")
        _, explained = await desk.object(reading.explain, reading.ExplainWish("shop", INSIDE))
        await desk.say(kill, wish())
        _, history, _ = await desk.say(reading.show_history, reading.HistoryWish(), as_json=True)
    rows = [json.loads(line) for line in history.splitlines()]

    moved = [row["transition"] for row in rows if "transition" in row]
    assert (moved[-1]["source_state"], moved[-1]["target_state"], moved[-1]["trigger"]) == (
        "promote", "rollback", "kill_switch",
    )  # fmt: skip
    assert [each["verdict"] for each in explained["verdicts"]] == ["chosen"]
    assert (shown["mode"], listed["definitions"][0]["flag_pair"]) == ("experiment", "switched_on")
    shouted = {each for each in words([listed, shown, explained, rows]) if each.isupper() and "_" in each}
    assert shouted == set()


def test_what_was_spelt_for_programs_is_read_again() -> None:
    """And so is what protobuf itself writes, as older records have it."""
    record = pb.Decommission(next_step=pb.CLEANUP_STEP_BLOCKS)
    record.steps.add(step=pb.CLEANUP_STEP_MODULES, code=pb.CODE_STATUS_DEPRECATED)
    status = pb.DecommissionStatus(definition_id="shop", decommission=record)
    older = MessageToDict(status, preserving_proto_field_name=True)

    assert message_to_json(status)["decommission"]["steps"][0]["code"] == "deprecated"
    for said in (message_to_json(status), older):
        assert ParseDict(message_from_json(said, pb.DecommissionStatus()), pb.DecommissionStatus()) == status


@pytest.mark.parametrize("command", ASKING)
async def test_whatever_cannot_be_asked_is_the_same_object_of_every_command(command: str) -> None:
    """No token: the exit code, and what, why and what next; in words on standard error as ever."""
    ask, arguments = ASKING[command]
    async with an_operated_sidecar() as bench:
        code, out, errors = await Desk(bench).say(ask, *arguments, as_json=True, token="")

    said = json.loads(out)
    assert (code, said["exit_code"], set(said["problem"])) == (2, 2, {"message", "reason", "next", "uncertain"})
    assert said["problem"]["message"].startswith("there is no role token")
    assert errors.startswith("there is no role token")


@pytest.mark.parametrize("command", ["show", "explain", "preview", "when", "ramp", "kill", "decommission status"])
async def test_a_refusal_of_the_sidecar_has_its_reason(command: str) -> None:
    """Nobody of that name."""
    ask, arguments = ASKING[command]
    async with an_operated_sidecar() as bench:
        code, said = await Desk(bench).object(ask, *arguments)

    assert (code, said["problem"]["reason"]) == (1, "UNKNOWN_DEFINITION")
    assert "sidecar subagent" in said["problem"]["next"]


def test_a_failure_is_an_object_at_the_command_line_too() -> None:
    """Nobody answers there; the words come with it."""
    code, output = typed("list", "--json", "--target", "unix:/nowhere.sock", token="x")

    said, _ = json.JSONDecoder().raw_decode(output[output.index("{") :])
    assert (code, said["exit_code"]) == (2, 2)
    assert said["problem"]["message"].startswith("no sidecar answers at unix:/nowhere.sock")
    assert output.count("no sidecar answers at unix:/nowhere.sock") == 2


async def test_a_history_that_breaks_off_ends_with_a_line_of_its_own() -> None:
    """Each object is a line, the last one, too."""
    async with an_operated_sidecar() as bench:
        desk = Desk(bench)
        code, out, _ = await desk.say(reading.show_history, reading.HistoryWish(), as_json=True, token="x")

    assert (code, json.loads(out)["problem"]["reason"], out.count("\n")) == (2, "ROLE_TOKEN_INVALID", 1)


async def test_the_list_says_who_is_decommissioned_and_whose_decommission_runs(tmp_path: Path) -> None:
    """In the table without a ramp; for programs beside the state, which stays what it is."""
    async with a_bench(tmp_path) as bench:
        _, running, _ = await bench.say(reading.show_list)
        _, told = await bench.desk.object(reading.show_list)
        await bench.patched(through=4)
        for _ in range(4):
            await bench.step()
        for matter in ("evals", "tools"):
            await bench.say(decommission.decide, wish(), matter, Choice.REMOVE)
        await bench.patched()
        await bench.step()
        _, ended, _ = await bench.say(reading.show_list)
        _, over = await bench.desk.object(reading.show_list)

    row = {"running": next(each for each in running.splitlines() if each.startswith("shop "))}
    row["ended"] = next(each for each in ended.splitlines() if each.startswith("shop "))
    assert row["running"].split()[:5] == ["shop", "shop", "decommissioning", "-", "-"]
    assert row["ended"].split()[:5] == ["shop", "shop", "decommissioned", "-", "-"]
    assert [(each["standing"], each["state"]) for each in (told["definitions"][-1], over["definitions"][-1])] == [
        ("decommissioning", "rollback"),
        ("decommissioned", "rollback"),
    ]


def test_a_value_of_a_newer_sidecar_is_shown_as_its_number() -> None:
    """In JSON, in tables and in lines; nothing fails."""
    newer: Any = pb.DefinitionStatus(definition_id="shop", digest="d")
    newer.state, newer.flag_pair = 99, 98
    newer.last_gate_answers.add(gate="pre_ramp").verdict = 97
    row: Any = pb.AuditRow(sequence=1)
    row.actor_role, row.rollout.kind = 96, 95

    shown = message_to_json(newer)
    lines = slot_lines(pb.SlotStatus(definitions=[newer]))
    assert (shown["state"], shown["flag_pair"], shown["last_gate_answers"][0]["verdict"]) == (99, 98, 97)
    assert "unknown (99)" in "".join(part.text for line in lines for part in line)
    assert "pre_ramp: unknown (97)" in gates_words(newer)
    assert "unknown (95)" in "".join(part.text for part in audit_line(row))
    assert enum_word(pb.LifecycleState, 99) == "unknown (99)"
