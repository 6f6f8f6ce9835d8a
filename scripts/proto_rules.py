"""The rules of the protos: takes the `buf.validate` options out of what is generated, and writes them as tables.

A rule is an option of a field in a `.proto` file (https://protovalidate.com). Code that carried these options would
need the package `buf` and protovalidate's 200 KB descriptor in every language. The clients therefore get tables with
the same rules: `subagents/rules.py` for Python, `rules_table.ts` for TypeScript. A rule of a kind that the tables
cannot say is refused here, so that no rule is silently left out.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorSet

OPTIONS: Final = "buf/validate/validate.proto"
CLIENT_REQUESTS: Final = ("subagents.dispatch.v1.", "subagents.history.v1.")
"""Packages of which the TypeScript client sends requests."""
MESSAGE: Final = FieldDescriptorProto.TYPE_MESSAGE
NOT_BELOW: Final = {"gt": 1, "gte": 0}
NUMBERS: Final = ("int32", "int64", "double")
ANY_NUMBER: Final = 1000
"""An enum without a rule allows more numbers than one with a rule ever names."""

Rule = dict[str, Any]
"""Fields of `Rule` in the Python table that differ from their defaults."""


def without_options(image: FileDescriptorSet) -> FileDescriptorSet:
    """Return the files without the options and the import that they need."""
    bare = FileDescriptorSet()
    for file in image.file:
        if file.name == OPTIONS:
            continue
        kept = bare.file.add()
        kept.CopyFrom(file)
        if OPTIONS in kept.dependency:
            kept.dependency.remove(OPTIONS)
        for message in kept.message_type:
            for field in (*message.field, *(inner for entry in message.nested_type for inner in entry.field)):
                field.ClearField("json_name")  # the compiler has filled in the usual one
                field.options.DiscardUnknownFields()
                if not field.options.ListFields():
                    field.ClearField("options")
    return bare


def rules_of(image: FileDescriptorSet) -> Mapping[str, Sequence[Rule]]:
    """Return the rules of each message that has some, itself or in a message that it holds, by full name.

    Raises:
        ValueError: a rule is of a kind that the tables cannot say.
    """
    if not any(file.name == OPTIONS for file in image.file):
        return {}
    pool = descriptor_pool.DescriptorPool()
    for file in image.file:
        pool.AddSerializedFile(file.SerializeToString())
    options = message_factory.GetMessageClass(pool.FindMessageTypeByName("google.protobuf.FieldOptions"))
    extension = pool.FindExtensionByName("buf.validate.field")
    enums = {
        f".{file.package}.{enum.name}": sorted(value.number for value in enum.value)
        for file in image.file
        for enum in file.enum_type
    }
    messages = {
        f".{file.package}.{message.name}": message
        for file in image.file
        if file.package.startswith("subagents.")
        for message in file.message_type
    }
    found: dict[str, list[Rule]] = {}
    for name, message in messages.items():
        found[name] = []
        for field in message.field:
            made: Any = options.FromString(field.options.SerializeToString())
            said = made.Extensions[extension]
            rule = _rule(f"{name[1:]}.{field.name}", field, said, enums)
            found[name].append(rule)
    while ruled := {name for name, rules in found.items() if any(_says_something(rule, found) for rule in rules)}:
        if ruled == found.keys():
            break
        found = {name: rules for name, rules in found.items() if name in ruled}
    return {
        name[1:]: [_named(rule) for rule in rules if _says_something(rule, found)]
        for name, rules in sorted(found.items())
    }


def tightened(before: FileDescriptorSet, now: FileDescriptorSet) -> list[str]:
    """Return the fields whose rules refuse now what they allowed before; a client that is out would be refused."""
    known = {
        f"{file.package}.{message.name}.{field.name}"
        for file in before.file
        for message in file.message_type
        for field in message.field
    }
    old, new = (_by_path(rules_of(image)) for image in (before, now))
    return [path for path, rule in new.items() if path in known and not _allows_all(rule, old.get(path, {}))]


def _by_path(rules: Mapping[str, Sequence[Rule]]) -> Mapping[str, Rule]:
    return {f"{name}.{rule['field']}": rule for name, each in rules.items() for rule in each}


def _allows_all(new: Rule, old: Rule) -> bool:
    """Return whether a rule allows all that another one did; without a rule everything was allowed."""
    wide = float("inf")
    return (
        new.get("least", -wide) <= old.get("least", -wide)
        and all(new.get(limit, wide) >= old.get(limit, wide) for limit in ("most", "most_bytes"))
        and new.get("pattern", "") in {"", old.get("pattern", "")}
        and ("allowed" not in new or set(new["allowed"]) >= set(old.get("allowed", range(ANY_NUMBER))))
        and ("each" not in new or _allows_all(new["each"], old.get("each", {})))
    )


def python_table(rules: Mapping[str, Sequence[Rule]]) -> str:
    """Return the module `subagents.rules`."""
    lines = [PYTHON_HEAD]
    for name, each in rules.items():
        lines.append(f'    "{name}": (')
        lines += [f"        {_as_python(rule)}," for rule in each]
        lines.append("    ),")
    return "\n".join([*lines, "}", ""])


def typescript_table(rules: Mapping[str, Sequence[Rule]]) -> str:
    """Return the module `rules_table.ts`."""
    kept = {name: each for name, each in rules.items() if name.startswith(CLIENT_REQUESTS)}
    lines = [TYPESCRIPT_HEAD]
    for name, each in kept.items():
        lines.append(f'  "{name}": [')
        lines += [f"    {json.dumps(rule)}," for rule in each]
        lines.append("  ],")
    return "\n".join([*lines, "};", ""])


def _rule(where: str, field: FieldDescriptorProto, said: Any, enums: Mapping[str, Sequence[int]]) -> Rule:
    rule: Rule = {"field": field.name}
    if field.proto3_optional or (field.HasField("oneof_index") and field.type != MESSAGE):
        rule["may_be_absent"] = True
    rule |= _constraints(where, said, enums.get(field.type_name, ()))
    if field.type == MESSAGE:
        rule["message"] = field.type_name
    if field.label == FieldDescriptorProto.LABEL_REPEATED:
        rule["kind"] = "list"
    elif field.type == MESSAGE and "kind" not in rule:
        rule["kind"] = "message"
    return rule


def _constraints(where: str, said: Any, numbers: Sequence[int]) -> Rule:
    kinds = list(said.ListFields())
    if not kinds:
        return {}
    ((kind, value),) = kinds
    if kind.message_type is None:
        raise ValueError(f"{where}: no table can say {kind.name}")
    parts = {part.name: content for part, content in value.ListFields()}
    rule = dict(_translated(kind.name, parts, numbers, where))
    if unknown := parts.keys():
        raise ValueError(f"{where}: no table can say {kind.name}.{', '.join(unknown)}")
    return rule


def _translated(kind: str, parts: dict[str, Any], numbers: Sequence[int], where: str) -> Iterator[tuple[str, Any]]:
    """Yield what a rule says, and take it out of `parts`."""
    if kind in NUMBERS:
        yield "kind", "number"
        yield from (("least", parts.pop(part) + more) for part, more in NOT_BELOW.items() if part in parts)
        yield from (("most", parts.pop(part)) for part in ("lte",) if part in parts)
    elif kind == "string":
        yield "kind", "text"
        names = {"min_len": "least", "max_len": "most", "max_bytes": "most_bytes", "pattern": "pattern"}
        yield from ((ours, parts.pop(theirs)) for theirs, ours in names.items() if theirs in parts)
    elif kind == "bytes":
        yield "kind", "text"
        yield from (("most_bytes", parts.pop(part)) for part in ("max_len",) if part in parts)
    elif kind == "enum" and parts.pop("defined_only", False):
        yield "kind", "enum"
        refused = list(parts.pop("not_in", ()))
        yield "allowed", [number for number in numbers if number not in refused]
    elif kind == "duration" and not parts.pop("gt").ListFields():
        yield "kind", "duration"
        yield "most", parts.pop("lte").seconds
    elif kind == "repeated":
        names = {"min_items": "least", "max_items": "most"}
        yield from ((ours, parts.pop(theirs)) for theirs, ours in names.items() if theirs in parts)
        if "items" in parts:
            yield "each", _constraints(where, parts.pop("items"), numbers)
    else:
        raise ValueError(f"{where}: no table can say {kind}")


def _says_something(rule: Rule, found: Mapping[str, Any]) -> bool:
    return rule.get("message") in found or bool(rule.keys() - {"field", "may_be_absent", "kind", "message"})


def _named(rule: Rule) -> Rule:
    return {**rule, "message": rule["message"][1:]} if "message" in rule else rule


def _as_python(rule: Rule) -> str:
    parts = [f"{key}={_as_python(value) if key == 'each' else repr(value)}" for key, value in rule.items()]
    return f"Rule({', '.join(parts)})"


PYTHON_HEAD: Final = '''\
"""The rules of requests, made by `make proto` from the `buf.validate` options of the protos; do not edit.

The generated messages do not carry the options. `subagents_client` checks requests against this table before it sends
them; the sidecar enforces the same rules.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple


class Rule(NamedTuple):
    """What the value of one field must be.

    Attributes:
        field: its name; empty for the elements of a list.
        kind: `text` (text or bytes), `number`, `enum`, `duration`, `list` or `message`.
        may_be_absent: it tracks presence, and need not be there.
        least: characters, elements, or the number itself; None: no bound.
        most: the same; of a duration: seconds, and it must be more than 0.
        most_bytes: of UTF-8, or of bytes.
        pattern: regular expression of the whole text; empty: any.
        allowed: numbers of an enum.
        each: the rule of each element of a list.
        message: full name of the message that it holds, or that its elements are.
    """

    field: str = ""
    kind: str = ""
    may_be_absent: bool = False
    least: int | None = None
    most: int | None = None
    most_bytes: int | None = None
    pattern: str = ""
    allowed: Sequence[int] = ()
    each: "Rule | None" = None
    message: str = ""


RULES: Final[Mapping[str, Sequence[Rule]]] = {'''
TYPESCRIPT_HEAD: Final = """\
// The rules of requests, made by `make proto` from the `buf.validate` options of the protos; do not edit.

/** What the value of one field must be; see `subagents.rules` in Python. */
export interface Rule {
  readonly field?: string;
  readonly kind: "text" | "number" | "enum" | "duration" | "list" | "message";
  readonly may_be_absent?: boolean;
  readonly least?: number;
  readonly most?: number;
  readonly most_bytes?: number;
  readonly pattern?: string;
  readonly allowed?: readonly number[];
  readonly each?: Rule;
  readonly message?: string;
}

export const RULES: Readonly<Record<string, readonly Rule[]>> = {"""
