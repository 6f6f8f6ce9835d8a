"""Types `sidecar subagent` commands at an operated sidecar, as it would be done elsewhere: over its socket.

async with an_operated_sidecar() as bench:
    code, out, errors = await Desk(bench).say(verbs.promote, wish("shop"))
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from io import StringIO
from itertools import count
from pathlib import Path
from typing import Any, Final

import typer
from typer.testing import CliRunner

from sidecar.adapters.definitions_directory.cleanup.inspect_checkout import look
from sidecar.adapters.definitions_directory.cleanup.patch_draft import patch_of
from sidecar.cli.subagent.client import SidecarAddress
from sidecar.cli.subagent.command import FromEnvironment, add_subagent
from sidecar.cli.subagent.step_target import StepOptions
from sidecar.cli.subagent.views import OperatorCommands
from sidecar.cli.validate.checkouts import Checkouts
from sidecar.settings import Settings
from tests.support.operators import OperatedSidecar

INSIDE: Final = "user-20"
"""In bucket 131 of the salt `shop`."""


OWN: Final = ("as_json", "ask", "environment", "targets", "token")


def wish(name: str = "shop", **fields: Any) -> StepOptions:
    """Return a step for a reason."""
    given: dict[str, Any] = {"name": name, "reason": "because a test says so", "yes": True} | fields
    return StepOptions(**given)


class Answers:
    """Somebody who is asked for confirmation."""

    def __init__(self, *, yes: bool) -> None:
        self.asked: list[str] = []
        self._yes = yes

    def __call__(self, question: str) -> bool:
        """Answer, always the same."""
        self.asked.append(question)
        return self._yes


class Desk:
    """Types commands at one bench; each `say` returns exit code, output and errors."""

    def __init__(self, bench: OperatedSidecar) -> None:
        self.target = f"unix:{bench.sidecar.folder / 'operators.sock'}"
        self.role = "operator"
        self.meanwhile: Callable[[], Awaitable[None]] | None = None
        self.passed = 0.0
        self._bench = bench
        self._numbers = count(1)
        self._loop = asyncio.get_running_loop()

    async def say(self, command: Callable[..., int], *arguments: Any, **given: Any) -> tuple[int, str, str]:
        """Run a command in a thread of its own; `targets`, `token`, `as_json`, `ask` and `environment` may be given."""
        out, errors = StringIO(), StringIO()
        operating = self.operating(out, errors, **{name: given.pop(name) for name in OWN if name in given})
        code = await asyncio.to_thread(command, operating, *arguments, **given)
        return code, out.getvalue(), errors.getvalue()

    def operating(self, out: StringIO, errors: StringIO, **own: Any) -> OperatorCommands:
        """Return what a command is run with; ids are counted, and waiting takes no time."""
        where = SidecarAddress(own.pop("targets", (self.target,)), own.pop("token", self._bench.token(self.role)))
        return OperatorCommands(
            where,
            out,
            errors,
            environment=own.pop("environment", {}),
            pause=self._pause,
            passed=lambda: self.passed,
            new_id=lambda: f"cli-{next(self._numbers)}",
            **own,
        )

    async def object(self, command: Callable[..., int], *arguments: Any, **given: Any) -> tuple[int, Any]:
        """Run a command with --json; return exit code and what it printed."""
        code, out, _ = await self.say(command, *arguments, as_json=True, **given)
        return code, json.loads(out)

    def _pause(self, seconds: float) -> None:
        """Let time pass, and whatever a test lets happen meanwhile."""
        self.passed += seconds
        asyncio.run_coroutine_threadsafe(self._happen(), self._loop).result(10)

    async def _happen(self) -> None:
        if self.meanwhile is not None:
            await self.meanwhile()


def _no_record(*_: object, preview: bool) -> None:
    raise AssertionError(f"there is no record to erase in, preview: {preview}")


def typed(
    *arguments: str, token: str = "", target: str = "", settings: Settings | None = None, group: str = "subagent"
) -> tuple[int, str]:
    """Run the command line in this process; return exit code and output. The environment has token and target."""
    app = typer.Typer()

    def settings_of(config: Path | None) -> Settings:
        typer.echo("the settings cannot be used", err=True)
        raise typer.Exit(78) if settings is None else AssertionError

    environment = FromEnvironment(token=lambda: token, target=lambda: target)
    add_subagent(app, settings_of, environment, lambda: Checkouts(patch_of, look), _no_record)
    result = CliRunner().invoke(app, [*group.split(), *arguments])
    return result.exit_code, result.output
