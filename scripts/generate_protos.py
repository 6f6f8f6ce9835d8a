"""Generate the Python code of every proto under `proto/subagents`.

    python -m scripts.generate_protos            into proto/python, where it is committed
    python -m scripts.generate_protos --into DIR somewhere else, to compare

The proto root is the Python root: `subagents/dispatch/v1/dispatch.proto` becomes `subagents.dispatch.v1.dispatch_pb2`,
and what the compiler writes is imported untouched. Stubs come from the compiler (messages) and from mypy-protobuf
(services, asyncio only, because the compiler writes none).
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parent.parent
PROTO_ROOT: Final = REPOSITORY / "proto"
COMMITTED: Final = PROTO_ROOT / "python"
PACKAGE: Final = "subagents"
GENERATED_SUFFIXES: Final = (".py", ".pyi", ".typed")
PACKAGE_DOCSTRING: Final = '"""Generated from the protos of the same path; do not edit."""\n'


def protos() -> Sequence[Path]:
    """Return every proto, relative to the proto root, in a fixed order."""
    return sorted(path.relative_to(PROTO_ROOT) for path in (PROTO_ROOT / PACKAGE).rglob("*.proto"))


def generate(into: Path) -> None:
    """Write the package `subagents` below `into`, replacing what stood there.

    Raises:
        RuntimeError: the compiler refused; its words are on stderr.
    """
    shutil.rmtree(into / PACKAGE, ignore_errors=True)
    into.mkdir(parents=True, exist_ok=True)
    if protos():
        _compile(into)
    _make_package(into / PACKAGE)


def generated_files(below: Path) -> dict[Path, bytes]:
    """Return the content of every generated file, by its path relative to `below`."""
    files = (path for path in (below / PACKAGE).rglob("*") if path.suffix in GENERATED_SUFFIXES)
    return {path.relative_to(below): path.read_bytes() for path in files}


def _compile(into: Path) -> None:
    outputs = [f"--{kind}_out={into}" for kind in ("python", "pyi", "grpc_python")]
    command = [
        sys.executable,
        "-m",
        "grpc_tools.protoc",
        f"--proto_path={PROTO_ROOT}",
        *outputs,
        f"--mypy_grpc_out=only_async,quiet:{into}",
        *map(str, protos()),
    ]
    beside_python = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    if subprocess.run(command, env={**os.environ, "PATH": beside_python}, cwd=PROTO_ROOT, check=False).returncode:
        msg = "the protobuf compiler refused"
        raise RuntimeError(msg)
    for path in (into / PACKAGE).rglob("*_pb2_grpc.py"):
        if not _has_service(path):
            path.unlink()
            path.with_suffix(".pyi").unlink(missing_ok=True)


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
    print(f"{len(protos())} protos -> {len(generated_files(into))} files in {into / PACKAGE}")


if __name__ == "__main__":
    main()
