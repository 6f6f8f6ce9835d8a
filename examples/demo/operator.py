"""Ada, the operator of the demo: runs the real command line with a real role token and shows its output."""

import re
from collections.abc import Sequence
from typing import Final

from examples.demo.environment import DemoEnvironment
from examples.demo.screen import Screen
from examples.demo.sidecar_settings import ADA, DEPLOYMENT
from examples.demo.typed_commands import CommandOutput, answer_of, typed

REQUEST_ID: Final = re.compile(r"(cli-[0-9a-f]{4})[0-9a-f]{4}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""Shortened on the screen: a full request id makes the line too long to read."""
QUOTED: Final = re.compile(r"[^\w@%+=:,./-]")


class Operator:
    """Runs commands and shows them with their output.

    Args:
        stage: the running processes.
        screen: shows commands and output.
    """

    def __init__(self, stage: DemoEnvironment, screen: Screen) -> None:
        self._stage = stage
        self._screen = screen
        self._token = ""

    async def sign_in(self) -> None:
        """Mint a role token. Raises `CommandFailed`."""
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
            "COLUMNS": str(self._screen.output_width),  # tables omit empty columns to fit
        }
        return await typed(["subagent", *arguments], environment)

    async def say(self, *arguments: str, only: str = "", table: bool = False) -> CommandOutput:
        """Run `sidecar subagent <arguments>` and show it.

        Args:
            arguments: of the command.
            only: show only the lines that contain this text.
            table: cut lines that are too long for the screen instead of wrapping them.
        """
        self._screen.command(f"sidecar subagent {' '.join(map(_quoted, arguments))}")
        output = await self.ask(*arguments)
        self.show(output, only=only, table=table)
        return output

    async def evaluate(self, command: Sequence[str]) -> CommandOutput:
        """Show and run `sidecar eval …`. The caller shows the output."""
        self._screen.command(f"sidecar {' '.join(map(_quoted, command))}")
        return await typed(command)

    def show(self, output: CommandOutput, *, only: str = "", table: bool = False) -> None:
        """Show the output of a command with shortened request ids, and its exit code if it is not 0."""
        lines = [REQUEST_ID.sub(r"\1…", line) for line in output.lines if only in line]
        if omitted := len(output.lines) - len(lines):
            lines.append(f"  … and {omitted} more line{'s' if omitted > 1 else ''}")
        self._screen.output(lines, "default" if output.code == 0 else "red", cut=table)
        if output.code:
            self._screen.output([f"exit code {output.code}"], "red")


def _quoted(argument: str) -> str:
    return f'"{argument}"' if QUOTED.search(argument) else argument
