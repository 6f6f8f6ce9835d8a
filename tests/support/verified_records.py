"""A record in files that `sidecar verify-log` looks at, as somebody would type it."""

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from sidecar.cli.record.source import RecordSource
from sidecar.cli.record.verify_command import VerifyLog, add_verify_log
from sidecar.cli.record.verify_log import verify_log
from sidecar.composition.record.verification import record_source, verifying
from sidecar.settings import read_settings
from tests.support.alterations import first_part, second_part
from tests.support.signed_files import DSN, LINES, PUBLIC, RECORD, signing, written


@pytest.fixture(scope="session")
def signed_original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the record of four turns by two sidecars, and its second place; for copying."""
    folder = tmp_path_factory.mktemp("original")

    async def write_both() -> None:
        for instance, part in (("first", first_part), ("second", second_part)):
            async with written(folder, [], instance) as record:
                await part(record, signing(record.journal, folder))

    asyncio.run(write_both())
    return folder


@pytest.fixture
def signed_folder(signed_original: Path, tmp_path: Path) -> Path:
    """Return a copy."""
    return shutil.copytree(signed_original, tmp_path / "copy")


def run(*arguments: str) -> tuple[int, str, str]:
    """Run the command as somebody would type it; return exit code, output and errors."""
    app = typer.Typer()
    app.callback()(lambda: None)

    def verify(source: RecordSource, as_json: bool) -> int:
        import sys  # noqa: PLC0415 - the runner replaces the streams while the command runs

        return verify_log(source, verifying(), sys.stdout, sys.stderr, as_json=as_json)

    add_verify_log(app, VerifyLog(lambda file: record_source(read_settings(file, {})), verify))
    done = CliRunner().invoke(app, ["verify-log", *arguments], catch_exceptions=False)
    return done.exit_code, done.stdout, done.stderr


def over(folder: Path, *more: str) -> list[str]:
    """Return the arguments for a folder."""
    record = ("--postgresql-dsn-file", DSN) if (folder / DSN).exists() else ("--sqlite", RECORD)
    return [
        *(record[0], str(folder / record[1])),
        *("--checkpoints", str(folder / LINES)),
        *("--public-key", str(folder / PUBLIC), *more),
    ]


def findings(folder: Path) -> tuple[int, list[dict[str, Any]]]:
    """Return the exit code and the findings of a folder."""
    code, out, err = run(*over(folder, "--json"))
    assert err == ""
    return code, json.loads(out)["findings"]


def is_named(folder: Path, tamper: Callable[[Path], None], kinds: set[str], text: str) -> None:
    """Alter a record, and fail unless exactly these kinds of findings are reported, one of them with this text."""
    tamper(folder)

    code, found = findings(folder)

    assert {one["kind"] for one in found} == kinds, [one["text"] for one in found]
    assert code == bool(kinds)
    assert any(text in one["text"] for one in found) or not kinds, [one["text"] for one in found]
