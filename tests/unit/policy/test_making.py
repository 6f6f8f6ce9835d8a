"""Settings are checked before a plugin is made, and a factory's mistakes stop the start with a clear message."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from sidecar.adapters.flags_file import FILE_FLAGS
from sidecar.adapters.flags_memory import MEMORY_FLAGS
from sidecar.policy.factory import make_connector, make_flag_backend, make_runner, section_of
from sidecar.policy.problems import PluginProblem
from sidecar.policy.specs import FlagBackendSpec, RunnerConfig
from tests.unit.policy.offered import QuietConnector, QuietRunner, connector, flags, runner

ANYTHING: Mapping[str, Any] = {"type": "object"}


def refusal(spec: FlagBackendSpec, settings: Mapping[str, Any]) -> str:
    """Return the message with which these settings are refused."""
    with pytest.raises(PluginProblem) as refused:
        make_flag_backend(spec, settings)
    return str(refused.value)


async def test_a_flag_backend_is_made_from_its_settings() -> None:
    """Its first report shows them."""
    backend = make_flag_backend(MEMORY_FLAGS, {"on": ["ask_shop"]})

    assert (await backend.fetch()).on == {"ask_shop"}


def test_a_runner_is_made_with_target_and_gateway() -> None:
    """They come beside its settings."""
    made = make_runner(runner("grpc"), RunnerConfig({}, "unix:/run/shop.sock", "unix:/run/agents.sock"))

    assert isinstance(made, QuietRunner)
    assert (made.target, made.config.gateway_address) == ("unix:/run/shop.sock", "unix:/run/agents.sock")


def test_a_plugin_gets_a_copy_of_its_settings() -> None:
    """Changing it changes nobody else's."""
    settings = {"hosts": ["a"]}
    made = make_connector(replace(connector("rest"), config_schema=ANYTHING), settings)

    assert isinstance(made, QuietConnector)
    made.settings["hosts"].append("b")
    assert settings == {"hosts": ["a"]}


def test_every_wrong_setting_is_named_at_once() -> None:
    """A misspelt one with what it probably means, and a missing one."""
    message = refusal(FILE_FLAGS, {"pth": "flags.json", "poll_seconds": 0})

    assert "the settings of the flag-backend `file` are wrong" in message
    assert "where: [flags.file]" in message
    assert "flags.file.poll_seconds: the value is less than the minimum" in message
    assert '"path" is a required property' in message
    assert "`pth` may mean `path`" in message
    assert "its settings are: path, poll_seconds" in message


def test_no_message_shows_a_setting_value() -> None:
    """It may be a token."""
    message = refusal(FILE_FLAGS, {"path": "hunter2-is-secret", "poll_seconds": "hunter2-too"})

    assert "hunter2" not in message
    assert "flags.file.path" in message


def test_a_plugin_without_settings_refuses_any() -> None:
    """Rather than ignoring a mistake."""
    assert "its settings are: none" in refusal(flags("plain"), {"x": 1})


def raising(error: BaseException) -> Callable[[Mapping[str, Any]], Any]:
    """Return a factory that raises."""

    def make(settings: Mapping[str, Any]) -> Any:
        raise error

    return make


class Shy:
    """An object that exits when it is looked at."""

    @property
    def fetch(self) -> Any:
        """Exit."""
        raise SystemExit("look away")


async def asynchronous(settings: Mapping[str, Any]) -> Any:
    """Be async by mistake."""


@pytest.mark.parametrize(
    ("factory", "expected"),
    [
        (raising(SystemExit("no licence")), "making it failed with SystemExit: no licence"),
        (raising(KeyboardInterrupt()), "making it failed with KeyboardInterrupt"),
        (raising(GeneratorExit()), "making it failed with GeneratorExit"),
        (raising(asyncio.CancelledError()), "making it failed with CancelledError"),
        (lambda settings: Shy(), "looking at what it made failed with SystemExit: look away"),
        (asynchronous, "its factory is async"),
        (lambda settings: None, "its factory made a NoneType, which lacks fetch, changed, close"),
        (QuietConnector, "its factory made a QuietConnector, which lacks fetch, changed"),
    ],
)
def test_a_factory_that_does_not_make_the_right_thing_stops_the_start(factory: Any, expected: str) -> None:
    """Named with its settings section."""
    message = refusal(replace(flags("odd"), factory=factory), {})

    assert expected in message
    assert "[flags.odd]" in message


def test_each_kind_has_its_settings_section() -> None:
    """`[flags.x]`, `[runners.x]`, `[connectors.x]`."""
    assert [section_of(spec) for spec in (flags("x"), runner("x"), connector("x"))] == [
        "flags.x",
        "runners.x",
        "connectors.x",
    ]
