"""The second act: an operator brings a sub-agent to users step by step and takes it back, and kills another one."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from examples.consumer_agent.agent import TurnStory
from examples.demo.definitions import REPLACEMENT, SHORTER
from examples.demo.environment import DemoEnvironment, Question, gate_questions
from examples.demo.evaluations import (
    MANIFEST,
    PROMOTION,
    WORSE,
    Evaluation,
    bring_replacement,
    measured,
    measured_digest,
)
from examples.demo.operator import Operator
from examples.demo.orchestrator_choice import OrchestratorChoice
from examples.demo.people import Served, all_users, sample_users, served_now, user
from examples.demo.rollout_checks import answer_deviations, asked_deviations, audit_deviations, said_deviations
from examples.demo.screen import Screen
from subagents_client import SidecarClient

OLD: Final = "shop"
NEW: Final = REPLACEMENT
TRAVEL: Final = "travel"
QUARTER: Final = "gus mia"
"""Whose buckets in the slot `shop` are below 25 %; one more, fay, is below 50 %."""
HALF: Final = "ana ben gus mia"
"""Whose buckets in the slot `travel` are below 50 %."""
OFFERS: Final = "Any offers on coffee?"
TRIP: Final = "Which day trip could I travel on?"
MET: Final = "all thresholds met: routing_accuracy 1, switch_accuracy 1"
MISSED: Final = "routing_accuracy is 0.3231, at least 0.95; switch_accuracy is 0.5, at least 0.95"
"""What the offline router has measured of both descriptions, as the gate says it."""
DATED: Final = "until 20"
"""Only the new shop says it."""
DIGITS: Final = 8
"""Of a digest, in what commands say."""
SEEN_SECONDS: Final = 10.0
"""For a change of the configuration to be seen, which takes two at most."""
BUDGET_SECONDS: Final = 300.0
"""A roll-back is in effect after five minutes at most (PF1-AC-5a)."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the act and what did not go by the script; nothing, if all of it did."""

    title: str
    deviations: Sequence[str]


class Rollout:
    """Plays the act.

    Args:
        stage: where everything runs.
        screen: what is shown.
        client: binds turns for the users.
        casting: begins a conversation, and says whether evaluations can be run here.
    """

    def __init__(
        self, stage: DemoEnvironment, screen: Screen, client: SidecarClient, casting: OrchestratorChoice
    ) -> None:
        self._stage = stage
        self._screen = screen
        self._client = client
        self._casting = casting
        self._ada = Operator(stage, screen)
        self._quarter_at = datetime.now(UTC)

    async def play(self, played: list[Step]) -> None:
        """Play every step; each is added to `played` as soon as it is over.

        Raises:
            SubagentsError: the sidecar could not bind or end a turn.
            CommandFailed: there is no role token.
        """
        for number, (title, watch, step) in enumerate(STEPS, 1):
            self._screen.rule(f"rollout {number} of {len(STEPS)} · {title}")
            self._screen.aside(watch, "italic")
            await self._screen.pause(0.4)
            wrong = await step(self)
            for one in wrong:
                self._screen.aside(f"NOT AS SCRIPTED: {one}", "bold red")
            played.append(Step(title, wrong))
            await self._screen.pause(1.0)

    async def arrives(self) -> list[str]:
        """The configuration has a new definition: it is in `dev`, and changes nothing for anybody."""
        self._screen.aside(f"(behind the scenes: {NEW} is written into agent_config.yaml, as a merge would do)", "red")
        bring_replacement(self._stage.config)
        await self._ada.sign_in()
        await self._seen(PROMOTION)
        said = await self._ada.say("list", table=True)
        wrong = list(said_deviations(said, f"{NEW}  dev "))
        return wrong + await self._serves("shop", all_users(OLD))

    async def promoted(self) -> list[str]:
        """`dev` to `test` to `promote`: the gate `pre_merge` has passed, and still nobody has it."""
        wrong = await self._evaluated(PROMOTION)
        said = await self._ada.say("promote", NEW, "--reason", "offers without a date are missed")
        wrong += said_deviations(said, f"gate pre_merge: pass: {MET}", "done: promote, ramp 0 %")
        return wrong + await self._serves("shop", all_users(OLD))

    async def to_a_quarter(self) -> list[str]:
        """The first users; a preview has said how many."""
        preview = await self._ada.say("preview", NEW, "25")
        said = await self._ada.say("ramp", NEW, "25", "--reason", "a quarter first")
        wrong = [
            *said_deviations(preview, f"{len(QUARTER.split())} would come in, 0 would go out"),
            *said_deviations(said, f"gate pre_ramp: pass: {MET}", "done: promote, active, ramp 25 %"),
            *await self._serves("shop", sample_users(QUARTER, NEW, otherwise=OLD)),
        ]
        story = await self._turn("mia", OFFERS)
        self._quarter_at = datetime.now(UTC)
        return wrong + list(answer_deviations(story, ["coffee beans", DATED], []))

    async def held_by_a_gate(self) -> list[str]:
        """A change of the description hurts routing; a gate says so: nothing moves, and who has it keeps it."""
        self._screen.aside(f"(behind the scenes: the description of {NEW} is changed, as a merge would do)", "red")
        self._screen.aside(f"“{' '.join(SHORTER.split())}”")
        bring_replacement(self._stage.config, shorter=True)
        await self._seen(WORSE)
        wrong = await self._evaluated(WORSE)
        said = await self._ada.say("ramp", NEW, "50", "--reason", "no complaints so far")
        wrong += said_deviations(said, f"pre_ramp: fail: {MISSED} (GATE_FAILED)", code=1)
        return wrong + await self._serves("shop", sample_users(QUARTER, NEW, otherwise=OLD))

    async def to_everybody(self) -> list[str]:
        """With the description that was measured well the last step passes; it asks another gate."""
        self._screen.aside("(behind the scenes: the change of the description is taken back)", "red")
        bring_replacement(self._stage.config)
        await self._seen(PROMOTION)
        said = await self._ada.say("ramp", NEW, "100", "--reason", "the old words again, all well", "--yes")
        wrong = list(said_deviations(said, f"gate pre_full: pass: {MET}", "done: promote, active, ramp 100 %"))
        return wrong + await self._serves("shop", all_users(NEW))

    async def rolled_back(self) -> list[str]:
        """From 100 % back to what it had replaced, in effect with the next turn."""
        begun = asyncio.get_running_loop().time()
        said = await self._ada.say("rollback", NEW, "--reason", "dates are wrong on some offers", "--yes")
        wrong = [
            *said_deviations(said, "done: rollback"),
            *await self._serves("shop", all_users(OLD)),
        ]
        took = asyncio.get_running_loop().time() - begun
        self._screen.aside(f"from the command to eight turns that are served by {OLD} again: {took:.1f} s")
        if took > BUDGET_SECONDS:
            wrong.append(f"the roll-back took {took:.0f} s")
        story = await self._turn("mia", OFFERS)
        return wrong + list(answer_deviations(story, ["coffee beans"], [DATED]))

    async def killed(self) -> list[str]:
        """Another sub-agent is killed while it works for somebody: that turn is finished, and no other begins."""
        promoted = await self._ada.say("promote", TRAVEL, "--reason", "asked for by many", only="done:")
        ramped = await self._ada.say("ramp", TRAVEL, "50", "--reason", "half of the users", only="done:")
        wrong = [
            *said_deviations(promoted, f"gate pre_merge: pass: {MET}"),
            *said_deviations(ramped, f"gate pre_ramp: pass: {MET}"),
            *await self._serves(TRAVEL, sample_users(HALF, TRAVEL)),
        ]
        self._stage.held_file.touch()
        self._screen.progress.clear()
        try:
            async with asyncio.TaskGroup() as tasks:
                turn = tasks.create_task(self._turn("mia", TRIP))
                await self._at_work(turn)
                self._screen.aside("(while travel works for mia)", "red")
                said = await self._ada.say("kill", TRAVEL, "--reason", "it invents trips", "--yes")
                wrong += said_deviations(said, "done: rollback", "reached: replica, flag, record")
                self._screen.aside(f"answered after {said.seconds:.2f} s, with the start of the command in it")
                wrong += await self._serves(TRAVEL, all_users(""))
                if turn.done():
                    wrong.append("the turn was over before the kill")
                self._screen.aside("(now travel may go on; its turn began before the kill)", "red")
                self._stage.held_file.unlink(missing_ok=True)
        finally:
            self._stage.held_file.unlink(missing_ok=True)
        return wrong + list(answer_deviations(turn.result(), ["City Aquarium", "for 900 points"], []))

    async def on_record(self) -> list[str]:
        """What an auditor reads: every step, one kill, and why a user got what."""
        history = await self._ada.say("history", TRAVEL, only=" -> ")
        then = self._quarter_at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        explained = await self._ada.say("explain", "shop", "--user", "user-mia", "--at", then)
        questions = await gate_questions(self._stage)
        told = "; ".join(f"{name}: {', '.join(_asked(questions, name))}" for name in (NEW, TRAVEL))
        self._screen.aside(f"The gate service was asked about {told}.")
        return [
            *audit_deviations(history),
            *said_deviations(explained, f"is served by {NEW}"),
            *asked_deviations(questions),
        ]

    async def _seen(self, one: Evaluation) -> None:
        """Wait until the sidecar has the content that an evaluation has measured."""
        digest = measured_digest(MANIFEST, one).removeprefix("sha256:")[:DIGITS]
        with suppress(TimeoutError):
            async with asyncio.timeout(SEEN_SECONDS):
                while digest not in "\n".join((await self._ada.ask("show", NEW)).lines):
                    pass

    async def _evaluated(self, one: Evaluation) -> list[str]:
        """Measure, where LangChain is; elsewhere the result is there already. It decides the step that comes next."""
        if not self._casting.evaluates:
            self._screen.aside(
                f"(`sidecar {' '.join(one.command(Path('config')))}` was run before; its result decides)"
            )
            return []
        said = await self._ada.evaluate(one.command(self._stage.config))
        self._screen.output(measured(said.lines, one.slot))
        return list(said_deviations(said, code=int(one.shorter)))

    async def _serves(self, slot: str, wanted: Served) -> list[str]:
        """Bind a turn for each user and show what fills the slot; return what is not as wanted."""
        found = await served_now(self._client, slot)
        self._screen.people(slot, found)
        return [
            f"{slot}: {name} has {found[name]!r}, not {wanted[name]!r}" for name in found if found[name] != wanted[name]
        ]

    async def _turn(self, name: str, says: str) -> TurnStory:
        await self._screen.say(name, says, "blue", typed=True)
        return await self._casting.begin_offline(self._client, user(name), self._screen).turn(says)

    async def _at_work(self, turn: "asyncio.Task[TurnStory]") -> None:
        """Wait until the sub-agent has reported that it works, or the turn is over."""
        reported = asyncio.ensure_future(self._screen.progress.wait())
        await asyncio.wait((turn, reported), return_when=asyncio.FIRST_COMPLETED)
        reported.cancel()


def _asked(questions: Sequence[Question], definition_id: str) -> Iterator[str]:
    for each in questions:
        if each.definition_id == definition_id:
            moves = f" {each.before // 100} % -> {each.after // 100} %" if each.after else ""
            yield f"{each.gate}{moves}"


STEPS: Final[Sequence[tuple[str, str, Callable[[Rollout], Awaitable[list[str]]]]]] = (
    (
        "a new definition arrives",
        "shop-dates is to replace shop: it says until when an offer lasts, and runs on another model. That is a new "
        "definition for the same slot. It begins in dev, and nobody has it.",
        Rollout.arrives,
    ),
    (
        "promoted",
        "dev -> test -> promote. The gate pre_merge has to pass: the gate service compares what `sidecar eval` has "
        "measured of exactly this definition with the thresholds. At 0 %, still nobody has it.",
        Rollout.promoted,
    ),
    (
        "a quarter of the users",
        "The gate pre_ramp has to pass. A user's bucket is computed from the name, so that nobody hops to and fro.",
        Rollout.to_a_quarter,
    ),
    (
        "a worse description: the gate says no",
        "Shorter and friendlier, but a model no longer knows when to ask it: of 65 cases 21 are routed right. The next "
        "step is refused. Nothing moves: who has it keeps it, and nobody else gets it.",
        Rollout.held_by_a_gate,
    ),
    ("everybody", "The change is taken back. The last step asks pre_full.", Rollout.to_everybody),
    (
        "rolled back",
        "No gate is asked, nothing is deployed. The next turn of everybody has what shop-dates had replaced.",
        Rollout.rolled_back,
    ),
    (
        "killed in the middle of a turn",
        "travel is promoted and ramped as above. It is killed while it works for mia: her turn keeps what it began "
        "with.",
        Rollout.killed,
    ),
    (
        "what is on record",
        "Every step with who, when and why; the kill once. And why mia was served by shop-dates, back then.",
        Rollout.on_record,
    ),
)
"""Title, what to look at, and what plays it."""
