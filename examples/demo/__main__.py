"""`python -m examples.demo`: starts everything, holds the conversation, shows what was recorded, stops everything."""

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
from examples.demo.environment import DemoEnvironment, set_stage
from examples.demo.orchestrator_choice import LANGCHAIN, PLAIN, OrchestratorChoice, cast, langchain_is_there
from examples.demo.processes import Processes, StartFailed
from examples.demo.rollout import STEPS, Rollout, Step
from examples.demo.screen import Screen, console
from examples.demo.script import SCENES
from examples.demo.script_runner import KIM, Played, ScriptRunner, epilogue, try_it
from examples.demo.typed_commands import CommandFailed
from examples.demo.typed_lines import TypedLines
from subagents_client import SidecarClient, SubagentsError

AS_SCRIPTED: Final = 0
NOT_AS_SCRIPTED: Final = 1
INTERRUPTED: Final = 130


def main() -> int:
    """Run the demo and return its exit code: 0 only if every turn went by the script."""
    options = _options()
    screen = Screen(console(), options.pace, "en-US")
    with _folder(options.folder) as folder, asyncio.Runner() as runner:
        try:
            return runner.run(_demo(options, screen, folder))
        except (KeyboardInterrupt, asyncio.CancelledError):
            screen.line("stopped; nothing is left running", "bold")
            return INTERRUPTED


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description="A conversation to watch.")
    pace, hold = os.environ.get("DEMO_PACE") or "1", os.environ.get("HOLD") or "0"
    chat = os.environ.get("CHAT") or "0"
    parser.add_argument(
        "--pace", type=float, default=pace, help="factor on every pause; 0: none (default: $DEMO_PACE or 1)"
    )
    parser.add_argument("--hold", action="store_true", default=hold != "0", help="keep everything running ($HOLD)")
    parser.add_argument(
        "--folder", type=Path, help="an empty folder for sockets and logs; kept (default: a temporary one)"
    )
    there = LANGCHAIN if langchain_is_there() else PLAIN
    parser.add_argument(
        "--orchestrator",
        choices=(PLAIN, LANGCHAIN),
        default=os.environ.get("DEMO_ORCHESTRATOR") or there,
        help="who plays the assistant (default: $DEMO_ORCHESTRATOR, or langchain where it is installed)",
    )
    parser.add_argument(
        "--model", default=os.environ.get("MODEL") or "", help="with langchain: e.g. openai:gpt-5.4-mini ($MODEL)"
    )
    parser.add_argument("--chat", action="store_true", default=chat != "0", help="type yourself ($CHAT)")
    canary = os.environ.get("DEMO_CANARY") or f"canary-{secrets.token_hex(8)}"
    parser.add_argument("--canary", default=canary, help="text in the data of another user ($DEMO_CANARY)")
    return parser.parse_args()


@contextmanager
def _folder(given: Path | None) -> Iterator[Path]:
    """Give the folder of this run; a temporary one is removed again."""
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
                screen.line("stopping everything …", "dim")
    except StartFailed as failure:
        screen.line(f"{failure}. The end of {failure.running.log}:", "bold red")
        screen.line(failure.running.tail())
        return NOT_AS_SCRIPTED
    except CommandFailed as failed:
        screen.line(str(failed), "bold red")
        return NOT_AS_SCRIPTED


async def _show(options: argparse.Namespace, screen: Screen, folder: Path, processes: Processes) -> int:
    casting = cast(options.orchestrator, options.model)
    _opening(screen, casting)
    async with set_stage(folder, processes, options.pace, screen) as stage:
        async with SidecarClient.connect(stage.sidecar, boot_secret_file=stage.boot_secret_file) as client:
            conversation = casting.begin(client, KIM, screen)
            if options.chat:
                await Chat(stage, screen, conversation, TypedLines(), options.canary).hold()
                return AS_SCRIPTED
            played = await _play(stage, screen, conversation, options.canary)
            stepped = await _roll_out(stage, screen, Rollout(stage, screen, client, casting))
        code = _verdict(screen, played, stepped, scripted=casting.scripted)
        if options.hold:
            screen.line("Everything keeps running until Ctrl-C. Try, in another terminal:")
            for command in try_it(stage):
                screen.line(command, "dim" if command.startswith("#") else "")
            await asyncio.Event().wait()
        screen.line("To keep everything running and look around: HOLD=1. To type yourself: CHAT=1.", "dim")
        return code


async def _play(stage: DemoEnvironment, screen: Screen, conversation: Conversation, canary: str) -> list[Played]:
    """Play the script and show what was recorded; a turn that fails ends it early."""
    played: list[Played] = []
    try:
        await ScriptRunner(stage, screen, canary).play(conversation, played)
    except SubagentsError as error:
        screen.line(f"a turn failed: {type(error).__name__}: {error.message}", "bold red")
    except Exception as error:  # noqa: BLE001  whatever a model's provider raises; its text may quote the prompt
        screen.line(f"the model failed: {type(error).__name__}", "bold red")
    _all_running(stage)
    epilogue(screen, played)
    return played


async def _roll_out(stage: DemoEnvironment, screen: Screen, rollout: Rollout) -> list[Step]:
    """Play the rollout; a step that cannot be carried out ends it early."""
    stepped: list[Step] = []
    try:
        await rollout.play(stepped)
    except* SubagentsError as failed:
        for error in failed.exceptions:
            screen.line(f"a turn failed: {type(error).__name__}: {error}", "bold red")
    _all_running(stage)
    return stepped


def _all_running(stage: DemoEnvironment) -> None:
    """Raise `StartFailed` if a process has ended although nobody stopped it."""
    if (ended := stage.processes.ended()) is not None:
        raise StartFailed(ended, f"ended by itself, with exit code {ended.process.returncode}")


def _verdict(screen: Screen, played: Sequence[Played], stepped: Sequence[Step], *, scripted: bool) -> int:
    """Say what went by the script; a real model owes it nothing but to carry every turn out."""
    good = sum(not one.deviations for one in played)
    held = good == len(SCENES) if scripted else len(played) == len(SCENES)
    taken = sum(not one.deviations for one in stepped)
    screen.rule("done")
    screen.line(f"{good} of {len(SCENES)} turns went exactly as scripted.", "bold green" if held else "bold red")
    style = "bold green" if taken == len(STEPS) else "bold red"
    screen.line(f"{taken} of {len(STEPS)} steps of the rollout went exactly as scripted.", style)
    if not scripted:
        screen.line("The script is written for the offline model; a real one may do otherwise.", "dim")
    return AS_SCRIPTED if held and taken == len(STEPS) else NOT_AS_SCRIPTED


def _opening(screen: Screen, casting: OrchestratorChoice) -> None:
    screen.rule("the dispatch sidecar, live")
    screen.paragraph(
        "A shopping assistant talks to Kim. Its model decides which specialists to ask, by calling tools such as "
        "ask_shop. The sidecar beside it runs those calls: at the same time, each in its own host, under Kim's "
        "identity, with data that was checked, and with exactly one outcome for each call whatever goes wrong."
    )
    screen.line()
    screen.paragraph(f"The assistant here: {casting.orchestrator}.")
    if casting.remark:
        screen.paragraph(casting.remark, "bold yellow")
    screen.paragraph(f"The assistant's model here: {casting.model}.", "yellow")
    screen.paragraph("The specialists are scripts around a small data service. They run on this machine only.")
    screen.rule("starting, each a process of its own")


def _stop_on(*signals: signal.Signals) -> None:
    """End the demo in order on these signals, as Ctrl-C does."""
    task = asyncio.current_task()
    assert task is not None
    for one in signals:
        with suppress(NotImplementedError):
            asyncio.get_running_loop().add_signal_handler(one, task.cancel)


if __name__ == "__main__":
    sys.exit(main())
