"""`sidecar history`: imports conversations of an earlier system, and exports one conversation."""

import asyncio
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict
from enum import IntEnum, unique
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final, TextIO

import msgspec
import typer

from sidecar.cli.parameters.plain_values import PlainTyper
from sidecar.core.errors import MemoryUnavailable
from sidecar.core.identifiers import DEFINITION_SIDE, EpisodeId, Principal, Slot
from sidecar.policy.problems import EX_CONFIG, PluginProblem
from sidecar.settings.problems import SettingsProblem

if TYPE_CHECKING:
    from sidecar.core.history.legacy_records import Finding
    from sidecar.core.history.records import EpisodeKey
    from sidecar.operations.history.backfill import BackfillReport
    from sidecar.operations.history.memory_boundary import BoundedMemory
    from sidecar.settings import Settings


def as_json(report: "BackfillReport") -> str:
    """Return the report as one JSON object with the fields of `BackfillReport`."""
    fields: dict[str, Any] = asdict(report)
    fields["findings"] = [msgspec.to_builtins(each) for each in report.findings]
    fields["troubles"] = dict(sorted(report.troubles.items()))
    return json.dumps(fields, indent=2) + "\n"


def as_lines(report: "BackfillReport") -> str:
    """Return the report as text: one line for each finding, then the counts."""
    lines = [_line(each) for each in report.findings]
    # The report lists only the first findings, but counts all of them.
    not_listed = report.troubles.total() - len(report.findings)
    if not_listed:
        lines.append(f"... and {not_listed} more")
    stored = "would be stored" if report.dry_run else "stored"
    lines.append(
        f"{report.lines} lines: {report.turns} turns {stored} ({report.tagged} with a sub-agent, "
        f"{report.components} components), {report.already} existed already, {report.left_out} omitted"
    )
    lines += [f"  {kind}: {count}" for kind, count in sorted(report.troubles.items())]
    return "\n".join(lines) + "\n"


def _line(finding: "Finding") -> str:
    place = f"line {finding.line}" + ("" if finding.offset is None else f", character {finding.offset}")
    turn = f" (turn {finding.turn_id})" if finding.turn_id else ""
    return f"{place}{turn}: {finding.trouble}: {finding.detail}"


LONGEST_LINE: Final = 16 * 1024 * 1024
"""The most bytes of a line that is imported; a longer one is reported."""
ALL_TURNS: Final = 1_000_000
"""A limit for reading an episode that no episode reaches, so that an export has all of its turns."""
Config = Annotated[Path | None, typer.Option("--config", "-c", help="The settings file of the sidecar.")]
SettingsOf = Callable[[Path | None], "Settings"]
OpenEpisodeMemory = Callable[["Settings"], AbstractAsyncContextManager["BoundedMemory"]]


@unique
class ExitCode(IntEnum):
    """Exit codes of the commands."""

    OK = 0
    FINDINGS = 1
    """Done, with findings; or the conversation is unknown."""
    UNAVAILABLE = 69
    """The episode memory is unavailable. Completed work is kept; run the command again."""
    CONFIGURATION = EX_CONFIG


def add_history_commands(app: typer.Typer, settings_of: SettingsOf, open_memory: OpenEpisodeMemory) -> None:
    """Add `history backfill` and `history export`.

    Args:
        app: the command line.
        settings_of: reads the settings, or ends the command.
        open_memory: opens the episode memory that the settings choose.
    """
    history = PlainTyper(no_args_is_help=True, help="Import and export conversations.")
    app.add_typer(history, name="history")

    @history.command()
    def backfill(
        file: Annotated[Path, typer.Argument(help="The export, JSON lines.", exists=True, dir_okay=False)],
        label: Annotated[
            list[str] | None, typer.Option(help="LABEL=SLOT: the slot of an intent label; may be repeated.")
        ] = None,
        dry_run: Annotated[bool, typer.Option("--dry-run", help="Report the changes; store nothing.")] = False,
        json_text: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
        config: Config = None,
    ) -> None:
        """Import conversations of an earlier system from a file. The command can be repeated safely.

        Exit codes: 0 done, 1 done with findings, 69 the memory is unavailable: repeat the command, 78 wrong settings.
        """
        labels = _labels(label or [])
        run = Backfill(labels, dry_run, json_text)
        raise typer.Exit(_guarded(lambda: asyncio.run(run(open_memory(settings_of(config)), file, sys.stdout))))

    @history.command()
    def export(
        episode: Annotated[str, typer.Argument(help="Id of the conversation.")],
        principal: Annotated[str, typer.Option(help="The user's principal.")],
        config: Config = None,
    ) -> None:
        """Write one conversation with all layers as JSON lines: its summary, then its turns."""
        from sidecar.core.history.records import EpisodeKey  # noqa: PLC0415  only this command needs it

        key = EpisodeKey(EpisodeId(episode), Principal(principal))
        raise typer.Exit(_guarded(lambda: asyncio.run(_export(open_memory(settings_of(config)), key, sys.stdout))))


class Backfill:
    """One run of `history backfill`."""

    def __init__(self, labels: dict[str, Slot], dry_run: bool, json_text: bool) -> None:
        self._labels = labels
        self._dry_run = dry_run
        self._show = as_json if json_text else as_lines

    async def __call__(
        self, opening: AbstractAsyncContextManager["BoundedMemory"], file: Path, out: TextIO
    ) -> ExitCode:
        """Import the file, print the report also after a failure, and return the exit code."""
        from sidecar.operations.history.backfill import BackfillHistory  # noqa: PLC0415  only this command needs it

        async with opening as memory:
            run = BackfillHistory(memory, self._labels, dry_run=self._dry_run)
            try:
                # As bytes: one line that is not UTF-8 must be a finding and not the end of the import.
                with file.open("rb") as handle:
                    await run(_lines(handle))
            except MemoryUnavailable as problem:
                out.write(self._show(run.report))
                typer.echo(f"stopped: {problem.message}; run it again to continue from there", err=True)
                return ExitCode.UNAVAILABLE
        out.write(self._show(run.report))
        return ExitCode.FINDINGS if run.report.troubles else ExitCode.OK


async def _export(opening: AbstractAsyncContextManager["BoundedMemory"], key: "EpisodeKey", out: TextIO) -> ExitCode:
    async with opening as memory:
        try:
            contents = await memory.read(key, ALL_TURNS)
        except MemoryUnavailable as problem:
            typer.echo(problem.message, err=True)
            return ExitCode.UNAVAILABLE
    # First, because it replaces turns that are older than those that follow.
    if contents.summary is not None:
        out.write(msgspec.json.encode({"summary": contents.summary}).decode() + "\n")
    out.writelines(msgspec.json.encode({"turn": turn}).decode() + "\n" for turn in contents.turns)
    # `kept` is the number of turns that the episode has. An episode without turns and summary is unknown.
    return ExitCode.OK if contents.kept or contents.summary else ExitCode.FINDINGS


def _lines(handle: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a file.

    Yields only the beginning of a line that is too long; this is no valid JSON, so it is reported as unreadable.
    """
    while line := handle.readline(LONGEST_LINE):
        rest = line
        while len(rest) == LONGEST_LINE and not rest.endswith(b"\n"):
            # Read and dropped in pieces: a line of any length must not be in memory as a whole.
            rest = handle.readline(LONGEST_LINE)
        yield line


def _labels(options: Sequence[str]) -> dict[str, Slot]:
    labels: dict[str, Slot] = {}
    for each in options:
        # The last `=`: a label may contain one, a slot cannot.
        label, equals, slot = each.rpartition("=")
        if not equals or not label or not DEFINITION_SIDE.match(slot):
            typer.echo(f"--label {each!r}: write LABEL=SLOT; a slot has up to 60 characters a-z0-9_-", err=True)
            raise typer.Exit(ExitCode.CONFIGURATION)
        labels[label] = Slot(slot)
    return labels


def _guarded(run: Callable[[], ExitCode]) -> ExitCode:
    """Return the exit code of a command; if settings or a plugin cannot be used, print why."""
    try:
        return run()
    except SettingsProblem as problem:
        typer.echo("the settings cannot be used:\n" + "\n".join(f"  {line}" for line in problem.problems), err=True)
    except PluginProblem as problem:
        typer.echo(str(problem), err=True)
    return ExitCode.CONFIGURATION
