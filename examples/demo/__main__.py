"""`python -m examples.demo`: starts all processes, plays rollout and conversation, stops all processes."""

import argparse
import asyncio
import os
import secrets
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from examples.consumer_agent.agent import Conversation
from examples.demo.chat import Chat
from examples.demo.environment import ALL_SLOTS, DemoEnvironment, started_environment
from examples.demo.host_users import choose_users
from examples.demo.orchestrator_choice import (
    LANGCHAIN,
    PLAIN,
    OrchestratorChoice,
    choose_orchestrator,
    langchain_is_there,
)
from examples.demo.processes import Processes, StartFailed
from examples.demo.rollout import SHORT_STEPS, STEPS, Rollout, Step
from examples.demo.screen import Screen, console
from examples.demo.script import SCENES, SHORT_SCENES
from examples.demo.script_runner import KIM, Played, ScriptRunner, epilogue, try_it
from examples.demo.typed_commands import CommandFailed
from examples.demo.typed_lines import TypedLines
from subagents_client import SidecarClient, SubagentsError

AS_SCRIPTED: Final = 0
NOT_AS_SCRIPTED: Final = 1
INTERRUPTED: Final = 130
FULL_PACE: Final = 1.0
SHORT_PACE: Final = 0.3
"""Factors on pauses. The short demo runs in about 20 seconds."""


def main() -> int:
    """Run the demo. Returns the exit code: 0 only if every step and every turn followed the script."""
    options = _options()
    screen = Screen(console(), options.pace, "en-US")
    with _folder(options.folder) as folder, asyncio.Runner() as runner:
        try:
            return runner.run(_demo(options, screen, folder))
        except (KeyboardInterrupt, asyncio.CancelledError):
            screen.line("stopped; no process is left running", "bold")
            return INTERRUPTED


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m examples.demo", description="A rollout and a conversation, on real processes."
    )
    pace, hold = os.environ.get("DEMO_PACE"), os.environ.get("HOLD") or "0"
    chat, full = os.environ.get("CHAT") or "0", os.environ.get("DEMO_FULL") or "0"
    parser.add_argument(
        "--full", action="store_true", default=full != "0", help="play every step and turn ($DEMO_FULL)"
    )
    parser.add_argument(
        "--pace", type=float, default=pace, help="factor on every pause; 0: none (default: $DEMO_PACE; 0.3, full: 1)"
    )
    parser.add_argument(
        "--hold", action="store_true", default=hold != "0", help="keep all processes running at the end ($HOLD)"
    )
    parser.add_argument(
        "--folder", type=Path, help="an empty folder for sockets and logs, which is kept (default: a temporary folder)"
    )
    there = LANGCHAIN if langchain_is_there() else PLAIN
    parser.add_argument(
        "--orchestrator",
        choices=(PLAIN, LANGCHAIN),
        default=os.environ.get("DEMO_ORCHESTRATOR") or there,
        help="the orchestrator (default: $DEMO_ORCHESTRATOR, or langchain if it is installed)",
    )
    parser.add_argument(
        "--model", default=os.environ.get("MODEL") or "", help="with langchain: e.g. openai:gpt-5.4-mini ($MODEL)"
    )
    parser.add_argument("--chat", action="store_true", default=chat != "0", help="type the messages yourself ($CHAT)")
    canary = os.environ.get("DEMO_CANARY") or f"canary-{secrets.token_hex(8)}"
    parser.add_argument("--canary", default=canary, help="text in the data of another user ($DEMO_CANARY)")
    options = parser.parse_args()
    if options.pace is None:
        options.pace = FULL_PACE if options.full else SHORT_PACE
    return options


@contextmanager
def _folder(given: Path | None) -> Iterator[Path]:
    """Yield the folder of this run; a temporary folder is removed afterwards."""
    if given is not None:
        given.mkdir(mode=0o700, parents=True, exist_ok=True)
        yield given.resolve()
        return
    made = Path(tempfile.mkdtemp(prefix="demo-"))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


async def _demo(options: argparse.Namespace, screen: Screen, folder: Path) -> int:
    _stop_on(signal.SIGTERM, signal.SIGHUP)
    try:
        async with Processes(folder, temporary=options.folder is None) as processes:
            try:
                return await _show(options, screen, folder, processes)
            finally:
                screen.stop()
                screen.line()
                screen.line("stopping all processes …", "dim")
    except StartFailed as failure:
        screen.line(f"{failure}. The end of {failure.running.log}:", "bold red")
        screen.line(failure.running.tail())
        return NOT_AS_SCRIPTED
    except CommandFailed as failed:
        screen.line(str(failed), "bold red")
        return NOT_AS_SCRIPTED


async def _show(options: argparse.Namespace, screen: Screen, folder: Path, processes: Processes) -> int:
    casting = choose_orchestrator(options.orchestrator, options.model)
    users = choose_users(folder, ALL_SLOTS)
    _opening(screen, casting, users.remark)
    async with started_environment(folder, processes, options.pace, screen, users) as stage:
        async with SidecarClient.connect(stage.sidecar, boot_secret_file=stage.boot_secret_file) as client:
            conversation = casting.begin(client, KIM, screen)
            if options.chat:
                await Chat(stage, screen, conversation, TypedLines(), options.canary).hold()
                return AS_SCRIPTED
            stepped = await _roll_out(stage, screen, Rollout(stage, screen, client, casting, full=options.full))
            played = await _play(stage, screen, conversation, options)
        code = _verdict(screen, played, stepped, full=options.full, scripted=casting.scripted)
        if options.hold:
            screen.line("All processes keep running until Ctrl-C. Try these commands in another terminal:")
            for command in try_it(stage):
                screen.line(command, "dim" if command.startswith("#") else "")
            await asyncio.Event().wait()
        more = "" if options.full else "All steps and turns: ARGS=--full. "
        screen.line(f"{more}Keep all processes running: HOLD=1. Type yourself: CHAT=1.", "dim")
        return code


async def _play(
    stage: DemoEnvironment, screen: Screen, conversation: Conversation, options: argparse.Namespace
) -> list[Played]:
    """Play the script and show its record. A turn that fails ends the conversation early."""
    played: list[Played] = []
    try:
        scenes = SCENES if options.full else SHORT_SCENES
        await ScriptRunner(stage, screen, options.canary).play(conversation, scenes, played)
    except SubagentsError as error:
        screen.line(f"a turn failed: {type(error).__name__}: {error.message}", "bold red")
    except Exception as error:  # noqa: BLE001  any error of a model's provider; its text may quote the prompt
        screen.line(f"the model failed: {type(error).__name__}", "bold red")
    _all_running(stage)
    epilogue(screen, played)
    return played


async def _roll_out(stage: DemoEnvironment, screen: Screen, rollout: Rollout) -> list[Step]:
    """Play the rollout. A step that cannot be completed ends it early."""
    stepped: list[Step] = []
    try:
        await rollout.play(stepped)
    except* SubagentsError as failed:
        for error in failed.exceptions:
            screen.line(f"a turn failed: {type(error).__name__}: {error}", "bold red")
    _all_running(stage)
    return stepped


def _all_running(stage: DemoEnvironment) -> None:
    """Raise `StartFailed` if a process has ended by itself."""
    if (ended := stage.processes.ended()) is not None:
        raise StartFailed(ended, f"ended by itself, with exit code {ended.process.returncode}")


def _verdict(screen: Screen, played: Sequence[Played], stepped: Sequence[Step], *, full: bool, scripted: bool) -> int:
    """Show how much followed the script. A real model need not follow it, but every turn must complete."""
    scenes, steps = (len(SCENES), len(STEPS)) if full else (len(SHORT_SCENES), len(SHORT_STEPS))
    good = sum(not one.deviations for one in played)
    passed = good == scenes if scripted else len(played) == scenes
    taken = sum(not one.deviations for one in stepped)
    screen.rule("done")
    screen.line(f"{taken} of {steps} steps followed the script.", "bold green" if taken == steps else "bold red")
    screen.line(f"{good} of {scenes} turns followed the script.", "bold green" if passed else "bold red")
    if not scripted:
        screen.line("The script is written for the offline model; a real model may differ.", "dim")
    return AS_SCRIPTED if passed and taken == steps else NOT_AS_SCRIPTED


def _opening(screen: Screen, casting: OrchestratorChoice, about_users: str) -> None:
    screen.rule("the dispatch sidecar, live")
    screen.paragraph(
        "A shopping assistant calls sub-agents with tools such as ask_shop. The sidecar decides which version of a "
        "sub-agent each user gets, and runs the calls: concurrently, on behalf of the user, with exactly one outcome "
        "per call. First an operator rolls out a new sub-agent; then Kim talks to the assistant while parts of it fail."
    )
    screen.line()
    screen.paragraph(f"Assistant: {casting.orchestrator}.")
    if casting.remark:
        screen.paragraph(casting.remark, "bold yellow")
    screen.paragraph(f"Model: {casting.model}.", "yellow")
    screen.paragraph("The sub-agents are scripts around a small data service. Everything runs on this machine.")
    screen.paragraph(about_users)
    screen.rule("starting the processes")


def _stop_on(*signals: signal.Signals) -> None:
    """Stop the demo on these signals in the same way as on Ctrl-C."""
    task = asyncio.current_task()
    assert task is not None
    for one in signals:
        with suppress(NotImplementedError):
            asyncio.get_running_loop().add_signal_handler(one, task.cancel)


if __name__ == "__main__":
    sys.exit(main())
