"""`KeyboardInterrupt` in a plugin: one that it raises is its own failure, the user's Ctrl-C ends the command."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from sidecar.command_line import main
from sidecar.policy.problems import PluginProblem, guarded
from tests.plugins.distributions import GOOD, SitePackages
from tests.support.sidecar_process import place, settings_file

PRESS: Final = "import signal; signal.raise_signal(signal.SIGINT)\n"
"""As a plugin's code: the user presses Ctrl-C while it runs."""
INTERRUPTED: Final = 130
COMMANDS: Final = (("plugins", "list"), ("doctor",))


@pytest.fixture(autouse=True)
def _usual_handler() -> Iterator[None]:
    """Have SIGINT raise, as in a process that a user starts in a terminal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def called(work: Callable[[], Any]) -> Any:
    """Call a plugin."""
    return guarded(work, doing="making it", where="plugin", remedy="none")


def interrupts_itself() -> None:
    """Raise what Ctrl-C raises."""
    raise KeyboardInterrupt("secret work")


def command(site: SitePackages, code: str, *arguments: str) -> int:
    """Run a command of the sidecar with one enabled plugin; return its exit code."""
    site.install("flags-odd", code + GOOD.format(name="odd"), entry="odd")
    with place() as folder, pytest.raises(SystemExit) as ended:
        main([*arguments, "--config", str(settings_file(folder, '[plugins]\nenabled = ["odd"]\n'))])
    return int(ended.value.code or 0)


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_ctrl_c_during_the_import_of_a_plugin_ends_the_command(site: SitePackages, arguments: tuple[str, ...]) -> None:
    """Both commands go on after a plugin that is broken, but not after that."""
    assert command(site, PRESS, *arguments) == INTERRUPTED


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_plugin_that_raises_keyboard_interrupt_is_a_finding_of_the_command(
    site: SitePackages, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    """No Ctrl-C was pressed: the command goes on to its end and names the plugin."""
    assert command(site, "raise KeyboardInterrupt\n", *arguments) == 1
    assert "importing the plugin `odd` of flags-odd 1.0 failed with KeyboardInterrupt" in capsys.readouterr().out


def test_a_keyboard_interrupt_of_its_own_is_a_problem_of_the_plugin() -> None:
    """With its text, as every other exception."""
    with pytest.raises(PluginProblem, match="making it failed with KeyboardInterrupt: secret work"):
        called(interrupts_itself)


async def test_ctrl_c_in_a_serving_process_reaches_its_loop_and_fails_no_plugin() -> None:
    """The handler of an event loop raises nothing: the plugin is made, and the loop is told to stop in order."""
    told = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, told.set)
    try:
        assert called(lambda: signal.raise_signal(signal.SIGINT)) is None
        async with asyncio.timeout(5):
            await told.wait()
    finally:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)


def test_a_process_that_ignores_ctrl_c_goes_on_ignoring_it(site: SitePackages) -> None:
    """As one that `nohup` or a shell in the background has started."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    command(site, PRESS, "plugins", "list")
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
