"""Formats the two flags of each definition, and the result of switching one, for `sidecar subagent flag`.

`Any` in the signatures is a message of `flags.proto`.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from sidecar.cli.output.drawing import Part, TextLine, clean, columns, length, timestamp, utc
from sidecar.cli.output.json_output import enum_word
from sidecar.cli.subagent.output.states import effect
from sidecar.cli.subagent.output.tables import short
from subagents.lifecycle.v1 import flags_pb2 as pb
from subagents.lifecycle.v1 import reading_pb2

HEADER: Final = ("definition", "state", "flag", "name", "value", "version", "switched", "shared with")
VALUE_STYLE: Final = {"on": "green", "off": "red", "unreachable": "red"}
"""The style of a flag's value; other values have none."""


def flag_table(definitions: Sequence[Any]) -> Iterator[TextLine]:
    """Yield the table of flags, and a line for each backend: the age of its values, and whether flags can be switched.

    Args:
        definitions: `DefinitionFlags` messages of one slot.
    """
    rows = [_row(each, flag) for each in definitions for flag in each.flags]
    if not rows:
        yield [Part("no definition of this slot names a flag: no flag gates it, and none can be switched")]
        return
    yield from columns(HEADER, rows)
    yield []
    # By name, because definitions of a slot mostly share a backend; it is to appear once.
    backends = {(each.backend.name, each.writable): each.backend for each in definitions if each.flags}
    for (name, writable), backend in backends.items():
        age = f"values are {length(backend.age.ToTimedelta())} old" if backend.HasField("age") else "never reached"
        stale = "" if backend.fresh else "; unreachable: definitions with flags in this backend are not served"
        where = "this sidecar can switch its flags" if writable else "read-only here: edit its flags in the backend"
        yield [Part(f"flag backend {clean(name)}: {age}{stale}; {where}", "dim" if backend.fresh else "red")]


def _row(each: Any, flag: Any) -> list[Part]:
    """Return the row of one `flag` of the definition `each`."""
    value = value_word(flag.value)
    switched = f"{timestamp(utc(flag.changed_at))} by {clean(flag.changed_by)}" if flag.HasField("changed_at") else "-"
    # With the digest: definitions of one id may share a flag.
    shared = ", ".join(f"{clean(one.definition_id)}@{short(one.digest)}" for one in flag.shared_with)
    return [
        Part(f"{clean(each.definition_id)}@{short(each.digest)}", "bold"),
        Part(effect(each.state, active=each.active)),
        Part(kind_word(flag.kind)),
        Part(clean(flag.name)),
        Part(value, VALUE_STYLE.get(value, "")),
        Part(str(flag.version) if flag.version else "-"),
        Part(switched),
        Part(shared or "-", "yellow" if shared else ""),
    ]


def switch_lines(flag: Any) -> Iterator[tuple[str, str]]:
    """Yield the result of a switch and the definitions that it affects, with a style for each line.

    Args:
        flag: the `FlagSwitch` in the result of the step.
    """
    before, after = value_word(flag.before), value_word(flag.after)
    version = f" (version {flag.version})" if flag.version else ""
    # The same value before and after: e.g. an operator had switched the flag in its backend already.
    moved = f"{before} -> {after}" if before != after else f"is {after}"
    yield f"  {kind_word(flag.kind)} flag {clean(flag.name)} of {clean(flag.backend)}: {moved}{version}", ""
    for each in flag.affected:
        name = f"{clean(each.slot)}: {clean(each.definition_id)} {short(each.digest)} ({effect(each.state)})"
        yield f"  gates {name}: {clean(each.explanation)}", ""


def kind_word(kind: int) -> str:
    """Return `kill` or `cohort`."""
    return enum_word(pb.FlagKind, kind)


def value_word(value: int) -> str:
    """Return the value of a flag, e.g. `on`."""
    return enum_word(reading_pb2.FlagValue, value)
