"""`CHAT=1`: a person types instead of the script, and may break things."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from examples.consumer_agent.agent import Conversation, TurnStory
from examples.demo.environment import SLOTS, DemoEnvironment, clear_faults, metric, set_fault
from examples.demo.processes import StartFailed
from examples.demo.screen import Screen
from examples.demo.script_runner import MISMATCHES, WRONG_PRINCIPAL
from examples.demo.timeline import turn_lines
from examples.demo.typed_lines import TypedLines
from subagents_client import SubagentsError

PRINCIPAL: Final = "principal"
COMMANDS: Final = (
    ("/timeline", "what the sidecar recorded of the last turn, and its routing decision"),
    ("/faults", "what can be broken"),
    ("/faults rewards", "the sub-agent raises from now on (or shop, support); again: no more"),
    ("/faults principal", "the data service answers with another user's points from now on; again: no more"),
    ("/quit", "stop everything, as Ctrl-D and Ctrl-C do"),
)


class Chat:
    """A conversation with the person at the keyboard.

    Args:
        stage: where everything runs.
        screen: what is shown.
        conversation: answers.
        lines: what is typed.
        canary: text in the data of another user, which must not appear anywhere.
    """

    def __init__(
        self, stage: DemoEnvironment, screen: Screen, conversation: Conversation, lines: TypedLines, canary: str
    ) -> None:
        self._stage = stage
        self._screen = screen
        self._conversation = conversation
        self._lines = lines
        self._canary = canary
        self._turns = 0
        self._last: TurnStory | None = None
        self._wrong_principal = False

    async def hold(self) -> None:
        """Answer until the input ends or is `/quit`.

        Raises:
            StartFailed: a process of the stage has ended by itself.
        """
        self._screen.rule("your turn")
        self._screen.aside("Ask about offers, your points or your orders; several at once, too.")
        self._help()
        commands: Mapping[str, Callable[[str], Awaitable[None]]] = {
            "/timeline": self._timeline,
            "/faults": self._faults,
        }
        while True:
            self._screen.prompt()
            line = await self._lines.next()
            self._screen.read(line)
            if line is None or line.strip() == "/quit":
                return
            command, _, rest = line.strip().partition(" ")
            if command in commands:
                await commands[command](rest.strip())
            elif command.startswith("/"):
                self._help()
            elif command:
                await self._answer(line.strip())

    def _help(self) -> None:
        for command, meaning in COMMANDS:
            self._screen.aside(f"{command:<18} {meaning}")

    async def _answer(self, said: str) -> None:
        try:
            self._last = await self._conversation.turn(said)
            self._turns += 1
        except SubagentsError as error:
            self._screen.aside(f"the turn failed: {type(error).__name__}: {error.message}", "red")
        except Exception as error:  # noqa: BLE001  whatever a model's provider raises; its text may quote the prompt
            self._screen.aside(f"the model failed: {type(error).__name__}", "red")
        finally:
            self._screen.stop()
        if (ended := self._stage.processes.ended()) is not None:
            raise StartFailed(ended, f"ended by itself, with exit code {ended.process.returncode}")
        if self._wrong_principal:
            self._screen.aside(await metric(self._stage, MISMATCHES), "yellow")

    async def _timeline(self, _rest: str) -> None:
        if self._last is None:
            self._screen.aside("There was no turn yet.")
            return
        for line in turn_lines(self._turns, self._last.said, self._last.end.routing_decision):
            self._screen.row(line)

    async def _faults(self, which: str) -> None:
        if which in SLOTS:
            file = self._stage.broken_file(which)
            if file.exists():
                file.unlink()
            else:
                file.touch()
        elif which == PRINCIPAL:
            await self._toggle_wrong_principal()
        elif which:
            self._screen.aside(f"There is no {which!r} to break.", "red")
        for name, broken in self._broken():
            self._screen.aside(f"{name:<10} {'broken' if broken else 'works'}", "red" if broken else "dim")

    async def _toggle_wrong_principal(self) -> None:
        self._wrong_principal = not self._wrong_principal
        if self._wrong_principal:
            fault = {"kind": WRONG_PRINCIPAL, "enricher_id": "points_balance", "canary": self._canary}
            await set_fault(self._stage, fault)
        else:
            await clear_faults(self._stage)

    def _broken(self) -> Sequence[tuple[str, bool]]:
        slots = [(slot, self._stage.broken_file(slot).exists()) for slot in SLOTS]
        return [*slots, (PRINCIPAL, self._wrong_principal)]
