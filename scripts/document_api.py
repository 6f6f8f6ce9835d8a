"""Writes `docs/api.md`, the reference of services, messages and errors, from the protos. `--check` only compares."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

from scripts.generate_protos import REPOSITORY
from scripts.generate_protos import described as whole_image
from scripts.generated_page import write_or_check

PAGE: Final = REPOSITORY / "docs/api.md"
HEAD: Final = """# API reference

Made from the protos by `python -m scripts.document_api`; do not edit. Every RPC, message, field and error of the
sidecar. [Driving by hand](driving-by-hand.md) shows the RPCs of a turn and of a rollout with requests and answers;
[releasing](releasing.md) says what may change.

Conventions: ids are strings; times are `google.protobuf.Timestamp` in UTC and end in `_at`; lengths of time are
`google.protobuf.Duration`; fields that end in `_json` hold UTF-8 JSON text; shares of users are basis points (10000 is
all). The value 0 of an enum is `..._UNSPECIFIED`. A client shows an enum value that it does not know as such and never
fails on it.
"""
MESSAGES: Final = 4
ENUMS: Final = 5
SERVICES: Final = 6
PARTS: Final = 2
"""Numbers of fields in the descriptor, of which the paths of comments are made; a part is a field, value or method."""


def described() -> Sequence[FileDescriptorProto]:
    """Return the files of the protos with their comments. Raises `RuntimeError`."""
    return [file for file in whole_image().file if file.package.startswith("subagents.")]


def page(files: Sequence[FileDescriptorProto]) -> str:
    """Return the text of the page."""
    packages = sorted({file.package for file in files})
    lines = [HEAD, "## Packages", "", *(f"- [{name}](#{_anchor(name)})" for name in packages), ""]
    for name in packages:
        lines += _package(name, [file for file in files if file.package == name])
    return "\n".join(lines).rstrip() + "\n"


def _package(name: str, files: Sequence[FileDescriptorProto]) -> Iterator[str]:
    yield from (f"## {name}", "")
    for file in files:
        comments = _comments(file)
        for at, service in enumerate(file.service):
            yield from (f"### {service.name}", "", *_prose(comments.get((SERVICES, at), "")), "")
            for place, method in enumerate(service.method):
                yield from (f"#### {service.name}.{method.name}", "", _signature(method), "")
                yield from (*_prose(comments.get((SERVICES, at, PARTS, place), "")), "")
    for file in files:
        comments = _comments(file)
        for at, message in enumerate(file.message_type):
            yield from _message(message, comments, at, name)
        for at, enum in enumerate(file.enum_type):
            yield from _enum(enum, comments, at)


def _message(message: Any, comments: Mapping[tuple[int, ...], str], at: int, package: str) -> Iterator[str]:
    yield from (f"### {message.name}", "", *_prose(comments.get((MESSAGES, at), "")), "")
    if message.field:
        yield from ("| field | type | number | meaning |", "|---|---|---|---|")
        for place, field in enumerate(message.field):
            meaning = _cell(comments.get((MESSAGES, at, PARTS, place), ""))
            yield f"| `{field.name}` | {_type(field, message, package)} | {field.number} | {meaning} |"
        yield ""


def _enum(enum: Any, comments: Mapping[tuple[int, ...], str], at: int) -> Iterator[str]:
    yield from (f"### {enum.name}", "", *_prose(comments.get((ENUMS, at), "")), "")
    yield from ("| value | number | meaning |", "|---|---|---|")
    for place, value in enumerate(enum.value):
        yield f"| `{value.name}` | {value.number} | {_cell(comments.get((ENUMS, at, PARTS, place), ''))} |"
    yield ""


def _signature(method: Any) -> str:
    sent, got = (each.rpartition(".")[2] for each in (method.input_type, method.output_type))
    asked = f"{'stream of ' if method.client_streaming else ''}[{sent}](#{_anchor(sent)})"
    return f"{asked} → {'stream of ' if method.server_streaming else ''}[{got}](#{_anchor(got)})"


def _type(field: Any, message: Any, package: str) -> str:
    entries = {each.name: each for each in message.nested_type if each.options.map_entry}
    short = field.type_name.rpartition(".")[2]
    if short in entries:
        key, value = entries[short].field
        return f"map of {_type(key, message, package)} to {_type(value, message, package)}"
    if field.type_name.startswith(".google."):
        name = f"`{field.type_name[1:]}`"
    elif field.type_name:
        name = f"[{short}](#{_anchor(short)})"
    else:
        name = FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    if field.label == FieldDescriptorProto.LABEL_REPEATED:
        return f"list of {name}"
    if field.proto3_optional:
        return f"{name}, optional"
    if field.HasField("oneof_index"):
        return f"{name}, one of `{message.oneof_decl[field.oneof_index].name}`"
    return name


def _comments(file: FileDescriptorProto) -> Mapping[tuple[int, ...], str]:
    return {tuple(each.path): each.leading_comments for each in file.source_code_info.location if each.leading_comments}


def _prose(comment: str) -> list[str]:
    return [line.removeprefix(" ") for line in comment.rstrip("\n").split("\n")]


def _cell(comment: str) -> str:
    return " ".join(comment.split()).replace("|", "\\|")


def _anchor(name: str) -> str:
    return name.lower().replace(".", "")


def main() -> int:
    """Write the page, or say that it is not current."""
    return write_or_check(PAGE, page(described()))


if __name__ == "__main__":
    sys.exit(main())
