"""The quick way for plain values gives what Typer gives, or leaves the value to Typer."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from sidecar.cli.parameters.plain_values import TYPERS_OWN, PlainTyper, plain_value


class Colour(StrEnum):
    """A choice."""

    RED = "red"
    GREEN = "green"


TAKEN: list[dict[str, Any]] = []


def paint(
    folder: Annotated[Path, typer.Argument(exists=True)],
    others: Annotated[list[Path] | None, typer.Argument()] = None,
    colour: Annotated[Colour, typer.Option(case_sensitive=False)] = Colour.RED,
    edge: Colour = Colour.GREEN,
    layers: Annotated[int, typer.Option(min=1, max=9)] = 2,
    wait: Annotated[float, typer.Option(min=0.1)] = 1.0,
) -> None:
    """Paint."""
    TAKEN.append(dict(locals()))


def frame(
    tag: Annotated[list[str] | None, typer.Option()] = None,
    title: str = "",
    report: Annotated[Path | None, typer.Option(dir_okay=False)] = None,
    dry: Annotated[bool, typer.Option("--dry")] = False,
    word: Annotated[str, typer.Option(parser=str.upper)] = "x",
) -> None:
    """Frame."""
    TAKEN.append(dict(locals()))


TYPED = {
    "only what is required": "paint tests",
    "every option": "paint tests docs README.md --edge red --layers 3 --wait 2.5",
    "another case": "paint tests --colour GREEN",
    "a sign": "paint tests --layers +3",
    "nothing": "paint",
    "a folder that is missing": "paint nowhere",
    "a choice that is none": "paint tests --edge blue",
    "a choice in another case": "paint tests --edge RED",
    "too many": "paint tests --layers 10",
    "too few": "paint tests --layers 0",
    "no number": "paint tests --layers many",
    "other digits": "paint tests --layers \u0663",
    "an option that is none": "paint tests --size 3",
    "defaults": "frame",
    "texts": "frame --tag a --tag b --title t --report R.txt --dry",
    "a parser": "frame --word abc",
    "a report that is there": "frame --report README.md",
    "a folder as the report": "frame --report docs",
    "no such command": "fame",
    "help": "paint --help",
    "help of all": "--help",
}


def run(app: typer.Typer, typed: str) -> tuple[int, str, list[dict[str, Any]]]:
    """Return the exit code, what was said, and what the command was called with."""
    TAKEN.clear()
    app.command()(paint)
    app.command()(frame)
    said = CliRunner().invoke(app, typed.split())
    return said.exit_code, said.output, list(TAKEN)


@pytest.mark.parametrize("typed", TYPED.values(), ids=TYPED)
def test_a_command_gets_and_says_what_it_does_with_typer_alone(typed: str) -> None:
    """Values, their types, refusals and help are the same."""
    quick, usual = run(PlainTyper(add_completion=False), typed), run(typer.Typer(add_completion=False), typed)
    assert quick == usual
    assert [{name: type(value) for name, value in taken.items()} for taken in quick[2]] == [
        {name: type(value) for name, value in taken.items()} for taken in usual[2]
    ]


PLAIN = {
    "wait": "1.5",
    "edge": "red",
    "layers": "3",
    "title": "t",
    "report": "R.txt",
    "tag": ("a", "b"),
    "others": ("docs", "x"),
}
LEFT = {
    "folder": "tests",
    "edge": "RED",
    "layers": "+3",
    "layers of": "10",
    "report": "docs",
    "word": "x",
    "wait": "-1",
}


@pytest.mark.parametrize(("name", "value"), [*PLAIN.items(), *LEFT.items()])
def test_only_plain_values_are_taken_as_they_are(name: str, value: Any) -> None:
    """Else this test would compare Typer with itself."""
    app = PlainTyper(add_completion=False)
    app.command()(paint)
    app.command()(frame)
    commands: Any = get_command(app)
    parameters = {one.name: one for command in commands.commands.values() for one in command.params}
    taken = plain_value(parameters[name.split(maxsplit=1)[0]], value)
    assert (taken is TYPERS_OWN) == ((name, value) in LEFT.items())
