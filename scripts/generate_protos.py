"""Generate the Python code of every proto under `proto/subagents`.

    python -m scripts.generate_protos            into proto/python, where it is committed
    python -m scripts.generate_protos --into DIR somewhere else, to compare

The proto root is the Python root: `subagents/dispatch/v1/dispatch.proto` becomes `subagents.dispatch.v1.dispatch_pb2`,
and what the compiler writes is imported untouched. Stubs come from the compiler (messages) and from mypy-protobuf
(services, asyncio only, because the compiler writes none).

The messages do not carry the `buf.validate` options: these become tables, see `scripts.proto_rules`.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from google.protobuf.descriptor_pb2 import FileDescriptorSet

from scripts.proto_rules import python_table, rules_of, typescript_table, without_options

REPOSITORY: Final = Path(__file__).resolve().parent.parent
PROTO_ROOT: Final = REPOSITORY / "proto"
COMMITTED: Final = PROTO_ROOT / "python"
PACKAGE: Final = "subagents"
RULES: Final = Path(PACKAGE) / "rules.py"
TYPESCRIPT_RULES: Final = REPOSITORY / "clients/typescript/src/rules_table.ts"
GENERATED_SUFFIXES: Final = (".py", ".pyi", ".typed")
PACKAGE_DOCSTRING: Final = '"""Generated from the protos of the same path; do not edit."""\n'


def protos() -> Sequence[Path]:
    """Return every proto, relative to the proto root, in a fixed order."""
    return sorted(path.relative_to(PROTO_ROOT) for path in (PROTO_ROOT / PACKAGE).rglob("*.proto"))


def described(root: Path = PROTO_ROOT) -> FileDescriptorSet:
    """Return the protos with their comments, and what they import.

    Raises:
        RuntimeError: the compiler refused; its words are on stderr.
    """
    with tempfile.TemporaryDirectory() as folder:
        image = Path(folder) / "image.binpb"
        _protoc(f"--proto_path={root}", "--include_source_info", "--include_imports", f"--descriptor_set_out={image}")
        return FileDescriptorSet.FromString(image.read_bytes())


def generate(into: Path) -> None:
    """Write the package `subagents` below `into`, replacing what stood there.

    Raises:
        RuntimeError: the compiler refused; its words are on stderr.
    """
    shutil.rmtree(into / PACKAGE, ignore_errors=True)
    into.mkdir(parents=True, exist_ok=True)
    image = described()
    _compile(image, into)
    _make_package(into / PACKAGE)
    (into / RULES).write_text(python_table(rules_of(image)), encoding="utf-8")


def typescript_rules() -> str:
    """Return the text of `TYPESCRIPT_RULES`."""
    return typescript_table(rules_of(described()))


def generated_files(below: Path) -> dict[Path, bytes]:
    """Return the content of every generated file, by its path relative to `below`."""
    files = (path for path in (below / PACKAGE).rglob("*") if path.suffix in GENERATED_SUFFIXES)
    return {path.relative_to(below): path.read_bytes() for path in files}


def _compile(image: FileDescriptorSet, into: Path) -> None:
    outputs = [f"--{kind}_out={into}" for kind in ("python", "pyi", "grpc_python")]
    with tempfile.TemporaryDirectory() as folder:
        bare = Path(folder) / "bare.binpb"
        bare.write_bytes(without_options(image).SerializeToString())
        _protoc(f"--descriptor_set_in={bare}", *outputs, f"--mypy_grpc_out=only_async,quiet:{into}")
    for path in (into / PACKAGE).rglob("*_pb2_grpc.py"):
        if not _has_service(path):
            path.unlink()
            path.with_suffix(".pyi").unlink(missing_ok=True)


def _protoc(*arguments: str) -> None:
    command = [sys.executable, "-m", "grpc_tools.protoc", *arguments, *map(str, protos())]
    beside_python = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    if subprocess.run(command, env={**os.environ, "PATH": beside_python}, cwd=PROTO_ROOT, check=False).returncode:
        msg = "the protobuf compiler refused"
        raise RuntimeError(msg)


def _has_service(module: Path) -> bool:
    return "_to_server(" in module.read_text(encoding="utf-8")


def _make_package(package: Path) -> None:
    package.mkdir(exist_ok=True)
    (package / "py.typed").touch()
    for folder in (package, *(path for path in package.rglob("*") if path.is_dir())):
        (folder / "__init__.py").write_text(PACKAGE_DOCSTRING, encoding="utf-8")


def main() -> None:
    """Read the command line and generate."""
    parser = argparse.ArgumentParser(description="Generate the Python code of the protos.")
    parser.add_argument("--into", type=Path, default=COMMITTED, help="folder that gets the package `subagents`")
    into = parser.parse_args().into.resolve()
    generate(into)
    if into == COMMITTED:
        TYPESCRIPT_RULES.write_text(typescript_rules(), encoding="utf-8")
    print(f"{len(protos())} protos -> {len(generated_files(into))} files in {into / PACKAGE}")


if __name__ == "__main__":
    main()
