"""The guards of the protos: style, compatibility with the last release, committed code equals generated code.

    python -m scripts.check_protos            check
    python -m scripts.check_protos --release  write the image of the present protos (part of releasing)

`proto/released.binpb` is the descriptor image of the last release. A change that a released client could not read
fails against it.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from google.protobuf.descriptor_pb2 import FileDescriptorSet

from scripts.generate_protos import (
    COMMITTED,
    PROTO_ROOT,
    TYPESCRIPT_RULES,
    described,
    generate,
    generated_files,
    typescript_rules,
)
from scripts.proto_rules import tightened

RELEASED: Final = PROTO_ROOT / "released.binpb"


def buf(*arguments: str, root: Path = PROTO_ROOT) -> subprocess.CompletedProcess[str]:
    """Run buf on the protos below `root`, without network. What it finds is in `stdout`."""
    program = shutil.which("buf", path=str(Path(sys.executable).parent)) or "buf"
    return subprocess.run([program, *arguments], cwd=root, capture_output=True, text=True, check=False)


def problems_of_style(root: Path = PROTO_ROOT) -> str:
    """Return what `buf lint` finds; empty if nothing."""
    found = buf("lint", root=root)
    return found.stdout + found.stderr if found.returncode else ""


def problems_with_release(root: Path = PROTO_ROOT, released: Path = RELEASED) -> str:
    """Return which changes a client of the last release could not read; empty if none."""
    found = buf("breaking", "--against", str(released), root=root)
    return found.stdout + found.stderr if found.returncode else ""


def problems_with_rules(now: FileDescriptorSet, released: Path = RELEASED) -> str:
    """Return which fields refuse what they allowed in the last release; empty if none."""
    before = FileDescriptorSet.FromString(released.read_bytes())
    return "\n".join(tightened(before, now))


def write_release(root: Path = PROTO_ROOT, released: Path = RELEASED) -> str:
    """Write the image of the present protos, which may only add to the last. Return what prevents it, else empty."""
    found = problems_with_release(root, released)
    if not found and root == PROTO_ROOT:  # elsewhere are the small protos of a test, without rules
        found = problems_with_rules(described(), released)
    if not found:
        built = buf("build", "--exclude-source-info", "-o", str(released), root=root)
        found = built.stderr if built.returncode else ""
    return found


def outdated_files(committed: Path = COMMITTED, typescript: Path = TYPESCRIPT_RULES) -> list[Path]:
    """Return which generated files differ from what the protos give now, or are missing, or are left over."""
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder))
        fresh = generated_files(Path(folder))
    present = generated_files(committed)
    outdated = sorted(path for path in fresh.keys() | present.keys() if fresh.get(path) != present.get(path))
    table = typescript.read_text("utf-8") if typescript.exists() else ""
    return outdated if table == typescript_rules() else [*outdated, Path(typescript.name)]


def main() -> int:
    """Check, and say what to do about each finding."""
    parser = argparse.ArgumentParser(description="Check the protos.")
    parser.add_argument("--release", action="store_true", help="write proto/released.binpb anew")
    if parser.parse_args().release:
        found = write_release()
        print(f"the image stays as it is:\n{found}" if found else f"wrote {RELEASED}")
        return int(bool(found))
    findings = {
        "style (buf lint)": problems_of_style(),
        "a released client could not read this (buf breaking)": problems_with_release(),
        "a released client would be refused (tighter rules)": problems_with_rules(described()),
        "generated code is not current; run `make proto`": "\n".join(map(str, outdated_files())),
    }
    for what, found in findings.items():
        if found:
            print(f"{what}:\n{found}")
    return int(any(findings.values()))


if __name__ == "__main__":
    sys.exit(main())
