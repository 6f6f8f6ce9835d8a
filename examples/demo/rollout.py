"""The rollout: an operator releases a sub-agent step by step, rolls it back, and kills another one."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from examples.consumer_agent.agent import TurnStory
from examples.demo.definitions import REPLACEMENT, SHORTER
from examples.demo.environment import NEW_SLOT, DemoEnvironment, gate_questions
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
from examples.demo.people import Served, all_users, names_inside, sample_users, served_now, user
from examples.demo.rollout_checks import (
    MET,
    MISSED,
    answer_deviations,
    audit_deviations,
    output_deviations,
    question_deviations,
    questions_about,
)
from examples.demo.screen import Screen
from subagents_client import SidecarClient

OLD: Final = "shop"
NEW: Final = REPLACEMENT
QUARTER: Final = names_inside(f"{OLD}/{measured_digest(MANIFEST, PROMOTION).removeprefix('sha256:')[:16]}", 2500)
ASKING: Final = QUARTER.split()[0]
HALF: Final = names_inside(NEW_SLOT, 5000)
"""Users inside a ramp of 50 % and, above, of 25 %: the first rollout of a slot has the slot's id as salt."""
OFFERS: Final = "Any offers on coffee?"
DATED: Final = "until 20"  # only answers of the new shop contain it
SEEN_SECONDS: Final = 10.0
"""Time limit for the sidecar to load a changed configuration; it polls at least every two seconds."""
BUDGET_SECONDS: Final = 300.0
"""A rollback must be in effect within five minutes (PF1-AC-5a)."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the rollout and its deviations from the script."""

    title: str
    deviations: Sequence[str]


class Rollout:
    """Plays the rollout.

    Args:
        stage: the running processes.
        screen: shows the commands and their output.
        client: binds turns for the users.
        casting: begins conversations; its `evaluates` says whether `sidecar eval` is installed.
        full: whether to play every step and show the full output of commands.
    """

    def __init__(
        self, stage: DemoEnvironment, screen: Screen, client: SidecarClient, casting: OrchestratorChoice, *, full: bool
    ) -> None:
        self._stage = stage
        self._screen = screen
        self._client = client
        self._casting = casting
        self._full = full
        self._ada = Operator(stage, screen)
        self._quarter_at = datetime.now(UTC)

    async def play(self, played: list[Step]) -> None:
        """Play the steps. Each is added to `played` when it ends, so that a failure keeps the others.

        Raises:
            SubagentsError: the sidecar could not bind or end a turn.
            CommandFailed: there is no role token.
        """
        steps = STEPS if self._full else SHORT_STEPS
        for number, (title, watch, step) in enumerate(steps, 1):
            self._screen.rule(f"rollout {number} of {len(steps)} · {title}")
            self._screen.aside(watch, "italic")
            await self._screen.pause(0.4)
            wrong = await step(self)
            for one in wrong:
                self._screen.aside(f"NOT AS SCRIPTED: {one}", "bold red")
            played.append(Step(title, wrong))
            await self._screen.pause(1.0)

    async def arrives(self) -> list[str]:
        """The configuration gets a new definition, which is in `dev` and serves no user."""
        self._screen.aside(f"(the demo adds {NEW} to agent_config.yaml, as a merge would)", "red")
        bring_replacement(self._stage.config)
        await self._ada.sign_in()
        await self._seen(PROMOTION)
        output = await self._ada.say("list", table=True)
        wrong = list(output_deviations(output, f"{NEW}  in development"))
        return wrong + await self._serves("shop", all_users(OLD))

    async def promoted(self) -> list[str]:
        """`dev` to `test` to `promote`: the gate `pre_merge` passes; at 0 % the definition serves no user."""
        wrong = await self._evaluated(PROMOTION)
        output = await self._ada.say(
            "promote", NEW, "--reason", "offers need a date", only="" if self._full else "done: "
        )
        wrong += output_deviations(output, f"gate pre_merge: pass: {MET}", "done: promoted (")
        return wrong + await self._serves("shop", all_users(OLD))

    async def to_a_quarter(self) -> list[str]:
        """A preview counts the users; then the definition serves a quarter of them."""
        preview = await self._ada.say("preview", NEW, "25")
        output = await self._ada.say(
            "ramp", NEW, "25", "--reason", "a quarter first", only="" if self._full else "done: "
        )
        wrong = [
            *output_deviations(preview, f"{len(QUARTER.split())} would be added, 0 would be removed"),
            *output_deviations(output, f"gate pre_ramp: pass: {MET}", "done: live 25 %"),
            *await self._serves("shop", sample_users(QUARTER, NEW, otherwise=OLD)),
        ]
        story = await self._turn(ASKING, OFFERS)
        self._quarter_at = datetime.now(UTC)
        return wrong + list(answer_deviations(story, ["coffee beans", DATED], []))

    async def held_by_a_gate(self) -> list[str]:
        """A worse description hurts routing, so the gate fails the next step, and the ramp stays at 25 %."""
        self._screen.aside(f"(the demo changes the description of {NEW}, as a merge would)", "red")
        self._screen.aside(f"“{' '.join(SHORTER.split())}”")
        bring_replacement(self._stage.config, shorter=True)
        await self._seen(WORSE)
        wrong = await self._evaluated(WORSE)
        output = await self._ada.say("ramp", NEW, "50", "--reason", "no complaints so far")
        wrong += output_deviations(output, f"pre_ramp: fail: {MISSED} (GATE_FAILED)", code=1)
        return wrong + await self._serves("shop", sample_users(QUARTER, NEW, otherwise=OLD))

    async def to_everybody(self) -> list[str]:
        """With the first description restored, the step to 100 % passes its gate."""
        self._screen.aside("(the demo restores the first description)", "red")
        bring_replacement(self._stage.config)
        await self._seen(PROMOTION)
        output = await self._ada.say("ramp", NEW, "100", "--reason", "the first description again", "--yes")
        wrong = list(output_deviations(output, f"gate pre_full: pass: {MET}", "done: live 100 %"))
        return wrong + await self._serves("shop", all_users(NEW))

    async def rolled_back(self) -> list[str]:
        """The replaced definition serves again, from the next turn of every user."""
        began = asyncio.get_running_loop().time()
        output = await self._ada.say("rollback", NEW, "--reason", "dates are wrong on some offers", "--yes")
        wrong = [
            *output_deviations(output, "done: rolled back"),
            *await self._serves("shop", all_users(OLD)),
        ]
        took = asyncio.get_running_loop().time() - began
        self._screen.aside(f"from the command until {OLD} served eight new turns: {took:.1f} s")
        if took > BUDGET_SECONDS:
            wrong.append(f"the rollback took {took:.0f} s")
        story = await self._turn(ASKING, OFFERS)
        return wrong + list(answer_deviations(story, ["coffee beans"], [DATED]))

    async def killed(self) -> list[str]:
        """Another sub-agent is killed during a turn. That turn completes; new turns do not get the sub-agent."""
        promoted = await self._ada.say("promote", NEW_SLOT, "--reason", "users asked for it", only="done:")
        ramped = await self._ada.say("ramp", NEW_SLOT, "50", "--reason", "half of the users", only="done:")
        wrong = [
            *output_deviations(promoted, f"gate pre_merge: pass: {MET}"),
            *output_deviations(ramped, f"gate pre_ramp: pass: {MET}"),
            *await self._serves(NEW_SLOT, sample_users(HALF, NEW_SLOT)),
        ]
        self._stage.held_file.touch()
        self._screen.progress.clear()
        try:
            async with asyncio.TaskGroup() as tasks:
                turn = tasks.create_task(self._turn("mia", "Which day trip could I travel on?"))
                await self._at_work(turn)
                self._screen.aside("(while travel works for mia)", "red")
                killed = await self._ada.say("kill", NEW_SLOT, "--reason", "it invents trips", "--yes")
                wrong += output_deviations(killed, "done: killed", "reached: replica, flag, record")
                self._screen.aside(f"the command took {killed.seconds:.2f} s, including its start")
                wrong += await self._serves(NEW_SLOT, all_users(""))
                if turn.done():
                    wrong.append("the turn was over before the kill")
                self._screen.aside("(travel continues: its turn began before the kill)", "red")
                self._stage.held_file.unlink(missing_ok=True)
        finally:
            self._stage.held_file.unlink(missing_ok=True)
        return wrong + list(answer_deviations(turn.result(), ["City Aquarium", "for 900 points"], []))

    async def on_record(self) -> list[str]:
        """The audit has every step once, and explains why a user got a sub-agent."""
        history = await self._ada.say("history", NEW_SLOT, only=" -> ")
        then = self._quarter_at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        explained = await self._ada.say("explain", "shop", "--user", f"user-{ASKING}", "--at", then)
        questions = await gate_questions(self._stage)
        requests = "; ".join(f"{name}: {', '.join(questions_about(questions, name))}" for name in (NEW, NEW_SLOT))
        self._screen.aside(f"Requests to the gate service: {requests}.")
        return [
            *audit_deviations(history),
            *output_deviations(explained, f"is served by {NEW}"),
            *question_deviations(questions),
        ]

    async def _seen(self, one: Evaluation) -> None:
        """Wait until the sidecar has loaded the content that the evaluation measured."""
        digest = measured_digest(MANIFEST, one).removeprefix("sha256:")[:8]
        with suppress(TimeoutError):
            async with asyncio.timeout(SEEN_SECONDS):
                while digest not in "\n".join((await self._ada.ask("show", NEW)).lines):
                    pass

    async def _evaluated(self, one: Evaluation) -> list[str]:
        """Run the evaluation if LangChain is installed; otherwise its recorded result decides the next step."""
        if not self._casting.evaluates:
            self._screen.aside(f"(`sidecar {' '.join(one.command(Path('config')))}` ran earlier; its result decides)")
            return []
        output = await self._ada.evaluate(one.command(self._stage.config))
        self._screen.output(measured(output.lines, one.slot))
        return list(output_deviations(output, code=int(one.shorter)))

    async def _serves(self, slot: str, wanted: Served) -> list[str]:
        """Bind a turn for each user and show which definition fills the slot; return the deviations."""
        served = await served_now(self._client, slot)
        self._screen.people(slot, served)
        return [
            f"{slot}: {name} has {served[name]!r}, not {wanted[name]!r}"
            for name in served
            if served[name] != wanted[name]
        ]

    async def _turn(self, name: str, says: str) -> TurnStory:
        await self._screen.say(name, says, "blue", typed=True)
        return await self._casting.begin_offline(self._client, user(name), self._screen).turn(says)

    async def _at_work(self, turn: "asyncio.Task[TurnStory]") -> None:
        """Wait until the sub-agent has reported progress, or the turn has ended."""
        reported = asyncio.ensure_future(self._screen.progress.wait())
        await asyncio.wait((turn, reported), return_when=asyncio.FIRST_COMPLETED)
        reported.cancel()


Play = Callable[[Rollout], Awaitable[list[str]]]
STEPS: Final[Sequence[tuple[str, str, Play]]] = (
    (
        "a new version of a sub-agent",
        "shop-dates is to replace shop. It names the last day of each offer, and uses another model. A new definition "
        "starts in development and serves no user.",
        Rollout.arrives,
    ),
    (
        "promoted, at 0 %",
        "The gate pre_merge must pass: the gate service compares the measurements of `sidecar eval` for exactly this "
        "definition with thresholds. At 0 % it still serves no user.",
        Rollout.promoted,
    ),
    (
        "live for a quarter of the users",
        "The gate pre_ramp must pass. A hash of slot and user decides who is in the quarter, so a user does not switch "
        "back and forth.",
        Rollout.to_a_quarter,
    ),
    (
        "a worse description: the gate refuses",
        "The new description is shorter and friendlier, but the model no longer knows when to call the sub-agent: 21 "
        "of 65 cases are routed correctly. The gate refuses the next step, and no user changes.",
        Rollout.held_by_a_gate,
    ),
    (
        "live for all users",
        "With the first description again, the step to 100 % passes pre_full.",
        Rollout.to_everybody,
    ),
    (
        "rolled back",
        "A rollback needs no gate and no deployment. The next turn of each user has shop again.",
        Rollout.rolled_back,
    ),
    (
        "killed during a turn",
        "travel goes live as above. The operator kills it while it works for mia: her turn completes, new turns do not "
        "have it.",
        Rollout.killed,
    ),
    (
        "the audit",
        "The audit has each step once, with operator, time and reason. It also explains whom shop-dates served.",
        Rollout.on_record,
    ),
)
"""Title, explanation and function of each step."""
SHORT: Final = (Rollout.arrives, Rollout.promoted, Rollout.to_a_quarter, Rollout.rolled_back, Rollout.killed)
SHORT_STEPS: Final = tuple(step for step in STEPS if step[2] in SHORT)
"""The steps of the short demo."""
