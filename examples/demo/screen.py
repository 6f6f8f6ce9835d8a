"""What a person sees: a chat with the sub-agents' progress in place. Plain lines where the output is no terminal."""

import asyncio
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Final

from rich.console import Console
from rich.live import Live
from rich.rule import Rule
from rich.text import Text

from examples.consumer_agent.model import Reply
from examples.demo.call_board import ENDS, LABEL, CallBoard
from examples.demo.processes import Running
from examples.demo.timeline import OUTCOME_MARK, OUTCOME_STYLE, SLOT_STYLE, milliseconds
from subagents_client import (
    CallOutcome,
    CallState,
    CallStateChanged,
    DispatchEvent,
    DispatchResult,
    Gap,
    Snapshot,
    StatusRenderer,
    StatusUpdate,
    Surface,
)

WIDEST: Final = 104
REMARK: Final = 150
"""Most characters of `prior_context` that are shown."""
NOTHING: Final = "(nothing)"
KEYSTROKE: Final = 0.018
"""Seconds per typed character."""


class Screen:
    """Shows the demo. An audience of the consumer-agent, and told of every start.

    Args:
        console: where to.
        pace: factor on every pause; 0: none.
        locale: of the words for progress.

    Attributes:
        status_lines: progress reports of this turn for which there were words.
        progress: set as soon as there was such a report in this turn.
    """

    def __init__(self, console: Console, pace: float, locale: str) -> None:
        self.status_lines = 0
        self.progress = asyncio.Event()
        self._console = console
        self._pace = pace
        self._locale = locale
        self._words = StatusRenderer()
        self._board = CallBoard()
        self._live: Live | None = None

    # -- telling ----------------------------------------------------------------------------------------------------

    def line(self, text: str | Text = "", style: str = "") -> None:
        """Show one line as it is."""
        self._console.print(text if isinstance(text, Text) else Text(text, style=style), soft_wrap=True)

    def row(self, text: Text) -> None:
        """Show one line of a table: cut off where a terminal is too narrow for it."""
        plain = not self._console.is_terminal
        self._console.print(text, soft_wrap=plain, no_wrap=True, overflow="ignore" if plain else "ellipsis")

    def paragraph(self, text: str, style: str = "") -> None:
        """Show a text of several lines."""
        for part in textwrap.wrap(text, self.width):
            self.line(part, style)

    def rule(self, title: str) -> None:
        """Begin a part."""
        self.line()
        rule = Rule(Text(title, style="bold"), align="left", style="dim")
        self._console.print(rule, width=self.width)

    @property
    def width(self) -> int:
        """Characters in a line."""
        return min(self._console.width, WIDEST)

    @property
    def output_width(self) -> int:
        """Characters in a line of what a command printed."""
        return self.width - LABEL - 2

    async def pause(self, seconds: float) -> None:
        """Give people time to read."""
        await asyncio.sleep(seconds * self._pace)

    async def say(self, who: str, text: str, style: str, *, typed: bool = False) -> None:
        """Show a message with hanging indent, character by character if it is typed."""
        lines = textwrap.wrap(text, self.width - LABEL - 1) or [""]
        for place, part in enumerate(lines):
            self._console.print(Text(f"{who if place == 0 else '':>{LABEL - 2}}  ", style=f"bold {style}"), end="")
            if typed and self._console.is_terminal and self._pace:
                for character in part:
                    self._console.print(Text(character), end="", soft_wrap=True)
                    await self.pause(KEYSTROKE)
                self._console.print()
            else:
                self._console.print(Text(part), soft_wrap=True)

    def prompt(self) -> None:
        """Ask for a line."""
        self._console.print()
        self._console.print(Text(f"{'you':>{LABEL - 2}}  ", style="bold blue"), end="")

    def read(self, line: str | None) -> None:
        """Show a typed line if the terminal has not shown it. `None`: the input has ended."""
        if line is None or not sys.stdin.isatty():
            self._console.print(Text(line or ""), soft_wrap=True)

    def command(self, text: str) -> None:
        """Show what an operator types."""
        for place, part in enumerate(textwrap.wrap(text, self.width - LABEL - 4, break_on_hyphens=False)):
            self._console.print(Text.assemble(" " * LABEL, ("    " if place else "$ ", "dim"), (part, "bold")))

    def output(self, lines: Sequence[str], style: str = "default", *, cut: bool = False) -> None:
        """Show what a command printed: too long lines are wrapped with a hanging indent, or cut."""
        width = self.output_width
        for line in lines:
            indent = " " * (len(line) - len(line.lstrip()))
            whole = (
                [line if len(line) <= width else f"{line[: width - 1]}…"]
                if cut
                else textwrap.wrap(line, width, subsequent_indent=f"{indent}    ", break_on_hyphens=False)
            )
            for part in whole or [""]:
                self._console.print(Text.assemble(" " * LABEL, ("│ ", "dim"), (part, style)), soft_wrap=True)

    def people(self, slot: str, served: Mapping[str, str]) -> None:
        """Show which users' turns have what in a slot; empty: nothing."""
        head = f"{' ' * LABEL}ask_{slot} now: "
        wide = max(len(one or NOTHING) for one in served.values()) + 2
        for place, definition_id in enumerate(sorted(set(served.values()), reverse=True)):
            names = " ".join(name for name, by in served.items() if by == definition_id)
            style = "cyan" if definition_id else "dim"
            first = Text.assemble((head if place == 0 else " " * len(head), "dim"))
            first.append(f"{definition_id or NOTHING:<{wide}}", f"bold {style}")
            for part in textwrap.wrap(names, max(self.width - len(first), LABEL)):
                self._console.print(first.append(part, style), soft_wrap=True)
                first = Text(" " * (len(head) + wide))

    def aside(self, text: str, style: str = "dim") -> None:
        """Show what happens behind the scenes."""
        for part in textwrap.wrap(text, self.width - LABEL - 1):
            self._console.print(Text(" " * LABEL + part, style=style), soft_wrap=True)

    # -- progress of the start --------------------------------------------------------------------------------------

    def started(self, what: str, address: str, running: Running, seconds: float) -> None:
        """A process is ready."""
        self.row(
            Text.assemble(
                ("  ✓ ", "green"),
                f"{what:<24}",
                (f"pid {running.pid:<8}", "dim"),
                (f"{seconds:5.1f} s   ", "dim"),
                address,
            )
        )

    # -- the audience of a turn -------------------------------------------------------------------------------------

    async def bound(self, surface: Surface) -> None:
        """The turn is bound."""
        self.status_lines = 0
        self.progress.clear()
        names = " ".join(tool.name for tool in surface.sub_agent_tools)
        digest = surface.binding_digest.removeprefix("sha256:")[:8]
        self.aside(f"bound: {names} · cap {surface.fan_out_cap} · surface {digest}")

    async def calling(self, reply: Reply, surface: Surface) -> None:
        """The model has emitted calls."""
        await self.say("assistant", reply.text, "green")
        if reply.prior_context:
            self.briefed(reply.prior_context)
        slots = {tool.name: tool.sub_agent_id for tool in surface.sub_agent_tools}
        self._board = CallBoard()
        for call in reply.calls:
            arguments = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
            self.aside(f"→ {call.name}({arguments})", "default")
            self._board.add(call.call_id, slots.get(call.name, call.name))
        if self._console.is_terminal:
            self._live = Live(self._board, console=self._console, refresh_per_second=12, transient=True)
            self._live.start()

    async def began(self, snapshot: Snapshot) -> None:
        """The sidecar has taken the calls."""
        for call in snapshot.calls:
            if call.state is CallState.SETTLED:
                self._board.not_run(call.call_id)

    async def happened(self, event: DispatchEvent) -> None:
        """Something happened in the running dispatch."""
        match event:
            case StatusUpdate():
                words = self._words.render(event, self._locale)
                if words is None:
                    return
                self._progress(words, event.sub_agent_ids, event.call_id)
            case CallStateChanged():
                self._board.state(event)
            case Gap():
                self.aside("(some progress was missed)")

    def reported(self, words: str, sub_agent_ids: Sequence[str]) -> None:
        """Sub-agents are on their way."""
        self._progress(words, sub_agent_ids, "")

    def briefed(self, prior_context: str) -> None:
        """Newly asked sub-agents were told this."""
        self.aside(f"prior_context: {textwrap.shorten(prior_context, REMARK, placeholder=' …')}")

    def _progress(self, words: str, slots: Sequence[str], call_id: str) -> None:
        self.status_lines += 1
        self.progress.set()
        self._board.status(words, slots, call_id)
        if self._live is None:
            self._console.print(Text(f"{' ' * LABEL}{', '.join(slots):<8} … {words}"))

    async def settled(self, result: DispatchResult) -> None:
        """Every call has its outcome."""
        if self._live is not None:
            self._live.stop()
            self._live = None
        for outcome in result.outcomes:
            self._console.print(_ended(outcome))

    async def answered(self, reply: Reply) -> None:
        """The model has composed the answer."""
        await self.pause(0.4)
        await self.say("assistant", reply.text, "green", typed=True)

    def stop(self) -> None:
        """Leave the terminal as it was, wherever the demo stopped."""
        if self._live is not None:
            self._live.stop()
            self._live = None


def _ended(outcome: CallOutcome) -> Text:
    style = OUTCOME_STYLE.get(outcome.outcome, "white")
    took = f" after {milliseconds(outcome.duration)}" if outcome.duration is not None else ""
    cards = (
        f", {len(outcome.components)} card{'s' if len(outcome.components) > 1 else ''}"
        if outcome.answered and outcome.components
        else ""
    )
    return Text.assemble(
        " " * LABEL,
        (f"{outcome.sub_agent_id:<8} ", SLOT_STYLE.get(outcome.sub_agent_id, "white")),
        (f"{OUTCOME_MARK.get(outcome.outcome, '·')} {ENDS.get(outcome.outcome, outcome.outcome)}", style),
        (f"{took}{cards}", "dim"),
    )


def console() -> Console:
    """Return the terminal, or a plain stream of lines; what it cannot spell is replaced."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace", line_buffering=True)
    made = Console(highlight=False)
    return made if made.is_terminal else Console(highlight=False, width=WIDEST, color_system=None)
