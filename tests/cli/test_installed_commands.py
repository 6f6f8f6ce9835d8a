"""Commands that other distributions bring to `sidecar`: found by name, imported only when called, never in the way."""

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from sidecar.cli.installed_commands import GROUP, add_installed_commands

MODULE = """
import sys

def main(arguments):
    print("given", arguments)
    return 3
"""


def command_line(*points: EntryPoint) -> typer.Typer:
    """Return a command line with one command of its own, `serve`, and installed ones."""
    app = typer.Typer()

    @app.command()
    def serve() -> None:
        typer.echo("the sidecar's own")

    add_installed_commands(app, points)
    return app


@pytest.fixture
def brought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EntryPoint:
    """A module that brings the command `measure`."""
    (tmp_path / "brought_command.py").write_text(MODULE, "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "brought_command", raising=False)
    return EntryPoint("measure", "brought_command:main", GROUP)


def test_an_installed_command_is_given_its_words_and_returns_the_exit_code(brought: EntryPoint) -> None:
    """Options are its own to understand, `--help` too."""
    result = CliRunner().invoke(command_line(brought), ["measure", "run", "--help", "--model", "x"])

    assert result.output == "given ['run', '--help', '--model', 'x']\n"
    assert result.exit_code == 3


def test_an_installed_command_is_not_imported_until_it_is_called(brought: EntryPoint) -> None:
    """Neither for help nor for another command."""
    app = command_line(brought)

    assert "measure" in CliRunner().invoke(app, ["--help"]).output
    assert CliRunner().invoke(app, ["serve"]).output == "the sidecar's own\n"
    assert "brought_command" not in sys.modules


def test_an_installed_command_cannot_replace_one_of_the_sidecars_own(brought: EntryPoint) -> None:
    """A distribution that claims `serve` gets nothing."""
    claimed = EntryPoint("serve", brought.value, GROUP)

    assert CliRunner().invoke(command_line(claimed, brought), ["serve"]).output == "the sidecar's own\n"


def test_a_command_that_cannot_be_imported_says_so_and_leaves_the_others_alone(brought: EntryPoint) -> None:
    """Exit code 78, as for wrong settings, and one line instead of a traceback."""
    broken = EntryPoint("broken", "no_such_module:main", GROUP)
    app = command_line(broken, brought)

    failed = CliRunner().invoke(app, ["broken"])

    assert failed.exit_code == 78
    assert "`sidecar broken` cannot be used: no_such_module:main: ModuleNotFoundError" in failed.output
    assert CliRunner().invoke(app, ["measure"]).exit_code == 3
