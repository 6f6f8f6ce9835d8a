"""Ada, who operates the demo's sidecar: real keys, a role token, the real command line, shown with what it says."""

import re
from collections.abc import Sequence
from typing import Final

from examples.demo.environment import DemoEnvironment
from examples.demo.screen import Screen
from examples.demo.sidecar_settings import ADA, DEPLOYMENT
from examples.demo.typed_commands import CommandOutput, answer_of, typed

REQUEST_ID: Final = re.compile(r"(cli-[0-9a-f]{4})[0-9a-f]{4}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""A whole one makes a line that nobody reads."""
QUOTED: Final = re.compile(r"[^\w@%+=:,./-]")


class Operator:
    """Types commands, and shows them.

    Args:
        stage: where the sidecar runs.
        screen: what is shown.
    """

    def __init__(self, stage: DemoEnvironment, screen: Screen) -> None:
        self._stage = stage
        self._screen = screen
        self._token = ""

    async def sign_in(self) -> None:
        """Mint a role token, as an operator does before a shift. Raises `CommandFailed`."""
        who = ["--role", "operator", "--subject", ADA, "--deployment", DEPLOYMENT]
        self._token = await answer_of(["token", "mint", "--key", str(self._stage.operator_key), *who])
        self._screen.command(f"export SIDECAR_TARGET={self._stage.operators}")
        key = self._stage.operator_key.name
        self._screen.command(f"export SIDECAR_ROLE_TOKEN=$(sidecar token mint --key {key} {' '.join(who)})")

    async def ask(self, *arguments: str) -> CommandOutput:
        """Run `sidecar subagent <arguments>` without showing it."""
        environment = {
            "SIDECAR_ROLE_TOKEN": self._token,
            "SIDECAR_TARGET": self._stage.operators,
            "COLUMNS": str(self._screen.output_width),  # tables leave out what says nothing
        }
        return await typed(["subagent", *arguments], environment)

    async def say(self, *arguments: str, only: str = "", table: bool = False) -> CommandOutput:
        """Run `sidecar subagent <arguments>` and show it.

        Args:
            arguments: of the command.
            only: show only the lines that have this.
            table: cut lines that are too long for the screen; else they are wrapped.
        """
        self._screen.command(f"sidecar subagent {' '.join(map(_quoted, arguments))}")
        said = await self.ask(*arguments)
        self.show(said, only=only, table=table)
        return said

    async def evaluate(self, command: Sequence[str]) -> CommandOutput:
        """Show and run `sidecar eval …`; what it says is for the caller to show."""
        self._screen.command(f"sidecar {' '.join(map(_quoted, command))}")
        return await typed(command)

    def show(self, said: CommandOutput, *, only: str = "", table: bool = False) -> None:
        """Show what a command said, request ids shortened, and its exit code if it is not 0."""
        lines = [REQUEST_ID.sub(r"\1…", line) for line in said.lines if only in line]
        if left := len(said.lines) - len(lines):
            lines.append(f"  … and {left} more line{'s' if left > 1 else ''}")
        self._screen.output(lines, "default" if said.code == 0 else "red", cut=table)
        if said.code:
            self._screen.output([f"exit code {said.code}"], "red")


def _quoted(argument: str) -> str:
    return f'"{argument}"' if QUOTED.search(argument) else argument
