"""How the flags of sub-agents look on a screen, and what a switch did to one."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from sidecar.cli.output.drawing import Part, TextLine, clean, columns, length, moment
from sidecar.cli.output.json_output import enum_word
from sidecar.cli.output.turn_timeline import utc
from sidecar.cli.subagent.output.tables import short, state_word
from subagents.lifecycle.v1 import flags_pb2 as pb
from subagents.lifecycle.v1 import reading_pb2

HEADER: Final = ("definition", "state", "flag", "name", "value", "version", "switched", "shared with")
VALUE_STYLE: Final = {"on": "green", "off": "red", "unreachable": "red"}


def flag_table(definitions: Sequence[Any]) -> Iterator[TextLine]:
    """Yield the table of flags, and how fresh it is."""
    rows = [_row(each, flag) for each in definitions for flag in each.flags]
    if not rows:
        yield [Part("no definition of it names a flag: nothing is gated by one, and none can be switched")]
        return
    yield from columns(HEADER, rows)
    yield []
    told = {(each.backend.name, each.writable): each.backend for each in definitions if each.flags}
    for (name, writable), backend in told.items():
        age = f"{length(backend.age.ToTimedelta())} old" if backend.HasField("age") else "never reached"
        stale = "" if backend.fresh else "; unreachable: what they gate is not served"
        who = "switched here" if writable else "not switched here: edit them there"
        yield [Part(f"flags of {clean(name)}: {age}{stale}; {who}", "dim" if backend.fresh else "red")]


def _row(each: Any, flag: Any) -> list[Part]:
    value = value_word(flag.value)
    switched = f"{moment(utc(flag.changed_at))} by {clean(flag.changed_by)}" if flag.HasField("changed_at") else "-"
    shared = ", ".join(f"{clean(one.definition_id)}@{short(one.digest)}" for one in flag.shared_with)
    return [
        Part(f"{clean(each.definition_id)}@{short(each.digest)}", "bold"),
        Part(state_word(each.state) + (", active" if each.active else "")),
        Part(kind_word(flag.kind)),
        Part(clean(flag.name)),
        Part(value, VALUE_STYLE.get(value, "")),
        Part(str(flag.version) if flag.version else "-"),
        Part(switched),
        Part(shared or "-", "yellow" if shared else ""),
    ]


def switch_lines(flag: Any) -> Iterator[tuple[str, str]]:
    """Yield what a switch did, and whom it affects, with a style for each line."""
    before, after = value_word(flag.before), value_word(flag.after)
    version = f" (version {flag.version})" if flag.version else ""
    moved = f"{before} -> {after}" if before != after else f"is {after}"
    yield f"  {kind_word(flag.kind)} flag {clean(flag.name)} of {clean(flag.backend)}: {moved}{version}", ""
    for each in flag.affected:
        name = f"{clean(each.slot)}: {clean(each.definition_id)} {short(each.digest)} ({state_word(each.state)})"
        yield f"  behind it, {name}: {clean(each.explanation)}", ""


def kind_word(kind: int) -> str:
    """Return which flag it is, for people."""
    return enum_word(pb.FlagKind, kind)


def value_word(value: int) -> str:
    """Return what a flag is, for people."""
    return enum_word(reading_pb2.FlagValue, value)
