"""The protos: their style, what released clients can read, and that the committed code is what they generate."""

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from scripts.check_protos import (
    RELEASED,
    buf,
    outdated_files,
    problems_of_style,
    problems_with_release,
    problems_with_rules,
    write_release,
)
from scripts.generate_protos import COMMITTED, PROTO_ROOT, TYPESCRIPT_RULES, described, protos

LIMITED: Final = "principal = 3 [(buf.validate.field).string.max_len = 256]"
"""A field of a bind with its rule, which does not go with another type."""


def a_proto(root: Path, message: str) -> Path:
    """Write a proto tree of one file, with our rules, and return its root."""
    (root / "subagents/x/v1").mkdir(parents=True)
    shutil.copy(PROTO_ROOT / "buf.yaml", root)
    text = f'syntax = "proto3";\n\n// About x.\npackage subagents.x.v1;\n\n{message}\n'
    (root / "subagents/x/v1/x.proto").write_text(text, encoding="utf-8")
    return root


def spoil(path: Path, old: str, new: str) -> None:
    """Replace the first `old` of a file; it must be there."""
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")


def test_the_protos_keep_to_the_style() -> None:
    """Buf STANDARD, and a comment on everything."""
    assert protos()
    assert problems_of_style() == ""


def test_released_clients_can_read_the_protos() -> None:
    """Generated code, wire and JSON, against the image of the last release."""
    assert problems_with_release() == ""


def test_the_committed_code_is_what_the_protos_generate() -> None:
    """Messages, services and stubs; nothing missing, nothing left over."""
    assert outdated_files() == []


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        ("message X {}", "should have a non-empty comment"),
        ("// A thing.\nmessage bad_name {}", "should be PascalCase"),
        ("// A thing.\nenum State {\n  // Never sent.\n  NONE = 0;\n}", "should be prefixed"),
    ],
)
def test_a_breach_of_style_is_caught(message: str, complaint: str, tmp_path: Path) -> None:
    """No comment, a badly named message, an enum value without its prefix."""
    assert complaint in problems_of_style(a_proto(tmp_path, message))


def test_a_change_that_released_clients_cannot_read_is_caught(tmp_path: Path) -> None:
    """A field that changes its type."""
    root = a_proto(tmp_path, "// A thing.\nmessage X {\n  // Its name.\n  string a = 1;\n}")
    image = tmp_path / "released.binpb"
    assert buf("build", "-o", str(image), root=root).returncode == 0
    assert (problems_of_style(root), problems_with_release(root, image)) == ("", "")
    spoil(root / "subagents/x/v1/x.proto", "string a", "int32 a")
    assert "changed type" in problems_with_release(root, image)


DISPATCH: Final = "dispatch/v1/dispatch.proto"
BREAKS: Final = (
    (
        (
            DISPATCH,
            "  rpc CancelCall(CancelCallRequest) returns (CancelCallResponse);",
            "",
            'present RPC "CancelCall" ',
        ),
        (DISPATCH, "rpc BindTurn(", "rpc Bind(", 'present RPC "BindTurn" '),
        (
            "admin/v1/admin.proto",
            "service AdminService",
            "service SidecarService",
            'service "AdminService" was deleted',
        ),
        ("tools/v1/tools.proto", "package subagents.tools.v1", "package subagents.tools.v2", "File package changed"),
        (DISPATCH, "  string episode_id = 2 ", "  // ", 'field "2" with name "episode_id"'),
        (DISPATCH, "string principal = 3 ", "string user = 3 ", 'changed name from "principal" to "user"'),
        (DISPATCH, "  TURN_SOURCE_NOTIFICATION = 3;", "", 'enum value "3" on enum "TurnSource" was deleted'),
        (DISPATCH, "returns (stream DispatchResponse)", "returns (DispatchResponse)", "to server unary"),
    ),
    ((DISPATCH, f"string {LIMITED}", "bytes principal = 3", 'changed type from "string" to "bytes"'),),
    ((DISPATCH, "string principal = 3 ", "string principal = 30 ", 'field "3" with name "principal"'),),
)
"""File, text, other text, complaint; together what goes together, as each run of buf takes half a second of a core."""


@pytest.mark.parametrize("breaks", BREAKS, ids=lambda breaks: f"{len(breaks)}, {breaks[0][2]}")
def test_each_break_of_the_real_contract_is_caught(breaks: Sequence[tuple[str, ...]], tmp_path: Path) -> None:
    """Ten changes after which a client of the last release would not build, or not be understood: each is named."""
    shutil.copytree(PROTO_ROOT, tmp_path / "proto", ignore=shutil.ignore_patterns("python"))
    for file, old, new, _ in breaks:
        spoil(tmp_path / "proto/subagents" / file, old, new)
    assert buf("build", "-o", str(tmp_path / "changed.binpb"), root=tmp_path / "proto").returncode == 0
    found = problems_with_release(tmp_path / "proto", RELEASED)
    assert [complaint for *_, complaint in breaks if found.count(complaint) != 1] == [], found


def test_a_rule_may_be_loosened_and_never_tightened(tmp_path: Path) -> None:
    """Each tightened rule is named: a client that is out would be refused. No rule, or a wider one, is no problem."""
    shutil.copytree(PROTO_ROOT, tmp_path / "proto", ignore=shutil.ignore_patterns("python"))
    proto = tmp_path / "proto/subagents/dispatch/v1/dispatch.proto"
    spoil(proto, "string experiment_arm = 8 [(buf.validate.field).string.max_len = 128]", "string experiment_arm = 8")
    spoil(proto, LIMITED, LIMITED.replace("256", "257"))
    assert problems_with_rules(described(tmp_path / "proto")) == ""

    spoil(proto, LIMITED.replace("256", "257"), LIMITED.replace("256", "255"))
    spoil(proto, "arguments_json = 3;", "arguments_json = 3 [(buf.validate.field).string.max_bytes = 65536];")
    spoil(proto, "string.max_bytes = 16384", "string.max_bytes = 16383")
    spoil(proto, "enum.defined_only = true", "enum = {defined_only: true, not_in: [0]}")
    spoil(proto, "min_items: 1, max_items: 64", "min_items: 2, max_items: 64")
    named = problems_with_rules(described(tmp_path / "proto")).split()
    assert sorted(each.removeprefix("subagents.dispatch.v1.") for each in named) == [
        "BindTurnRequest.principal",
        "DispatchRequest.calls",
        "DispatchRequest.on_disconnect",
        "DispatchRequest.prior_context",
        "ToolCall.arguments_json",
    ]
    assert problems_with_rules(described()) == ""


def test_a_release_adds_to_the_image_and_never_breaks_it(tmp_path: Path) -> None:
    """A new field is written; after a break the image stays as it is, so that writing it silences no finding."""
    root = a_proto(tmp_path, "// A thing.\nmessage X {\n  // Its name.\n  string a = 1;\n}")
    proto, image = root / "subagents/x/v1/x.proto", tmp_path / "released.binpb"
    assert buf("build", "-o", str(image), root=root).returncode == 0
    spoil(proto, "string a = 1;", "string a = 1;\n  // Its size.\n  int32 b = 2;")
    assert write_release(root, image) == ""
    written = image.read_bytes()
    spoil(proto, "int32 b = 2;", "string b = 2;")
    assert "changed type" in write_release(root, image)
    assert image.read_bytes() == written


def test_the_image_of_the_last_release_is_whole() -> None:
    """An image that lacks a service or field guards neither."""
    image = FileDescriptorSet.FromString(RELEASED.read_bytes())
    ours = {str(path) for path in protos()}
    released = {file.name for file in image.file}
    assert ours <= released


def elements(files: Iterable[FileDescriptorProto]) -> set[str]:
    """Return what files of ours declare, with types and numbers; without their rules, which may be loosened."""
    found = set()
    for file in files:
        if file.package.startswith("subagents."):
            for service in file.service:
                found |= {f"{file.package} rpc {service.name}.{each.name}" for each in service.method}
            for message in file.message_type:
                found |= {f"{file.package} {message.name}.{one.name} {one.type} {one.number}" for one in message.field}
            for enum in file.enum_type:
                found |= {f"{file.package} {enum.name}.{value.name} {value.number}" for value in enum.value}
    return found


def test_until_the_first_release_the_image_is_that_of_the_present_protos() -> None:
    """Else what was added last could be broken before it is out. Run `python -m scripts.check_protos --release`."""
    image = elements(FileDescriptorSet.FromString(RELEASED.read_bytes()).file)
    present = elements(described().file)
    assert len(present) > 900
    assert image <= present
    if "\n## 0.1.0" not in (PROTO_ROOT.parent / "CHANGELOG.md").read_text("utf-8"):
        assert present - image == set()


def test_an_image_that_is_missing_is_a_problem(tmp_path: Path) -> None:
    """The check must not pass because there is nothing to compare with."""
    assert RELEASED.is_file()
    assert problems_with_release(released=tmp_path / "none.binpb")


def test_an_outdated_file_is_caught(tmp_path: Path) -> None:
    """One file edited, one missing, one left over; another limit in TypeScript's rules."""
    shutil.copytree(COMMITTED / "subagents", tmp_path / "subagents", ignore=shutil.ignore_patterns("__pycache__"))
    v1 = Path("subagents/dispatch/v1")
    spoil(tmp_path / v1 / "dispatch_pb2.py", "DESCRIPTOR", "DESCRIPTION")
    (tmp_path / v1 / "dispatch_pb2.pyi").unlink()
    (tmp_path / v1 / "old_pb2.py").touch()
    table = tmp_path / TYPESCRIPT_RULES.name
    table.write_text(TYPESCRIPT_RULES.read_text("utf-8").replace("256", "255", 1), "utf-8")
    python = [v1 / "dispatch_pb2.py", v1 / "dispatch_pb2.pyi", v1 / "old_pb2.py"]
    assert outdated_files(tmp_path, table) == [*python, Path(table.name)]
