"""Writes `docs/errors.md`, the reference of every reason of a failure, from the proto and the tree of exceptions.

`--check` only compares.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from google.protobuf.descriptor_pb2 import EnumDescriptorProto, FileDescriptorProto

from scripts.document_api import ENUMS, PARTS, described
from scripts.generate_protos import REPOSITORY
from scripts.generated_page import NotDocumented, write_or_check
from sidecar.rpc.errors import status_of
from subagents_errors import CallFailure, SubagentsError, error_of_reason

PAGE: Final = REPOSITORY / "docs/errors.md"
PREFIX: Final = "ERROR_REASON_"
OUTCOME: Final = "Outcome of one call: "
CALLS: Final = (
    "Axis 1: the sub-agent failed. Axis 2: it answered without data that it needed. The outcome of a call that was\n"
    "not started has no axis, whatever its reason."
)
FORM: Final = re.compile(
    r"(?P<meaning>.+?) Seen by: (?P<seen>[^.]+)\. "
    r"Repeat: (?P<repeat>[^.]+)\. What to do: (?P<todo>.+)\."
)
STATUS: Final = re.compile(r" Status: ([A-Z_]+)\.")
AXIS: Final = re.compile(r" Axis ([12])\.")
SYMPTOMS: Final = "troubleshooting.md"
SYMPTOM: Final = re.compile(
    r"^\| (?P<names>.*`[A-Z_]+`.*) \| \[(?P<title>[^]]+)\]\((?P<anchor>#[\w-]+)\) \|$", re.MULTILINE
)
"""A row of the table at its beginning that names reasons."""
HEAD: Final = f"""# Errors

Made from [`error_reason.proto`](../proto/subagents/errors/v1/error_reason.proto) by
`python -m scripts.document_errors`; do not edit. [Troubleshooting]({SYMPTOMS}) starts from symptoms.

A failed RPC carries a `google.rpc.ErrorInfo` with domain `sidecar.subagents` and one of these reasons. The outcome of
one call carries its reason in `CallStatus.reason`. The Python SDK raises the class of the reason for a failed RPC, and
never for the outcome of one call.

- **Seen by** names the readers that receive the reason: the consumer-agent, a runner host, an operator (command line,
  `sidecar turn`, logs), the model.
- **Repeat** says whether the same request can succeed later. The SDK repeats by itself only what is safe to repeat.
- A client that does not know a reason goes by the gRPC status or the axis.
"""


class Reason(NamedTuple):
    """One row. `kind` is the gRPC status of a failed RPC, else the axis of an outcome; `error` its class."""

    name: str
    number: int
    kind: str
    meaning: str
    seen: str
    repeat: str
    todo: str
    error: type[SubagentsError] | None

    @property
    def of_a_call(self) -> bool:
        """Whether it is the outcome of one call."""
        return self.error is None


def reasons(files: list[FileDescriptorProto]) -> Iterator[Reason]:
    """Yield every reason but `UNSPECIFIED`, in the order of the proto.

    Raises:
        NotDocumented: the comment of a value lacks a part, or its status is not that of its exception.
    """
    for file in files:
        comments = {tuple(each.path): each.leading_comments for each in file.source_code_info.location}
        for at, enum in enumerate(file.enum_type):
            if enum.name == "ErrorReason":
                yield from _of(enum, {place: comments[ENUMS, at, PARTS, place] for place in range(len(enum.value))})


def page(files: list[FileDescriptorProto]) -> str:
    """Return the text of the page."""
    every, told = list(reasons(files)), symptoms()
    lines = [HEAD, "## Failed RPCs", "", "| reason | number | status | meaning | seen by | repeat | what to do |"]
    lines += ["|---|---|---|---|---|---|---|", *(_row(each, told) for each in every if not each.of_a_call), ""]
    lines += [
        "## Outcomes of one call",
        "",
        CALLS,
    ]
    lines += ["`INTERNAL`, above, is also an outcome (axis 1).", ""]
    lines += ["| reason | number | axis | meaning | seen by | repeat | what to do |", "|---|---|---|---|---|---|---|"]
    return "\n".join([*lines, *(_row(each, told) for each in every if each.of_a_call)]) + "\n"


def _of(enum: EnumDescriptorProto, comments: Mapping[int, str]) -> Iterator[Reason]:
    for place, value in enumerate(enum.value):
        if not value.number:
            continue
        name = value.name.removeprefix(PREFIX)
        found = FORM.fullmatch(" ".join(comments[place].split()))
        if found is None:
            msg = f"{name}: the comment has to be `… Seen by: …. Repeat: …. What to do: ….`"
            raise NotDocumented(msg)
        error, meaning = error_of_reason(name), found["meaning"].removeprefix(OUTCOME)
        if error is None and name not in tuple(CallFailure):
            msg = f"{name}: neither an exception nor the outcome of one call"
            raise NotDocumented(msg)
        form = AXIS if error is None else STATUS
        kind = "".join(form.findall(meaning))
        if error is not None and kind != status_of(error("")).name:
            msg = f"{name}: the comment says status {kind or 'none'}, the exception {status_of(error('')).name}"
            raise NotDocumented(msg)
        yield Reason(
            name, value.number, kind, form.sub("", meaning), found["seen"], found["repeat"], found["todo"], error
        )


def symptoms() -> Mapping[str, str]:
    """Return links to the sections of the troubleshooting page, by the reason that leads there."""
    rows = SYMPTOM.finditer((PAGE.parent / SYMPTOMS).read_text("utf-8"))
    return {
        name: f" See [{row['title'][0].lower()}{row['title'][1:]}]({SYMPTOMS}{row['anchor']})."
        for row in rows
        for name in re.findall(r"`([A-Z_]+)`", row["names"])
    }


def _row(reason: Reason, links: Mapping[str, str]) -> str:
    kind = reason.kind and f"`{reason.kind}`" if reason.error else reason.kind
    todo = reason.todo[0].upper() + reason.todo[1:] if reason.todo[0] != "`" else reason.todo
    meaning = reason.meaning[0].upper() + reason.meaning[1:]
    cells = [f'<a id="{reason.name.lower()}"></a>`{reason.name}`', str(reason.number), kind, meaning]
    cells += [reason.seen, reason.repeat, f"{todo}.{links.get(reason.name, '')}"]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def main() -> int:
    """Write the page, or say that it is not current."""
    return write_or_check(PAGE, page(list(described())))


if __name__ == "__main__":
    sys.exit(main())
