"""Instances: a section of settings names its plugin, and everything else uses the name of the section."""

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from sidecar.adapters.flags_file import FILE_FLAGS
from sidecar.policy.factory import make_connector, section_of
from sidecar.policy.instances import instances_of, with_instances
from sidecar.policy.kinds import PluginKind
from sidecar.policy.loading import PluginHost
from sidecar.policy.problems import PluginProblem
from sidecar.policy.selection import PolicyNames, PolicySettings, resolve_policy
from sidecar.policy.specs import ConnectorSpec
from tests.unit.policy.offered import PLATFORM, QuietConnector, connector, host_of

WITH_URL = replace(
    connector("http"),
    config_schema={
        "type": "object",
        "properties": {"url": {"type": "string"}},
        "required": ["url"],
        "additionalProperties": False,
    },
)
HOST = host_of(*PLATFORM, WITH_URL)


def instances(**sections: Mapping[str, Any]) -> PluginHost:
    """Return the host with these sections of `[connectors]`."""
    return with_instances(HOST, {PluginKind.CONNECTOR: sections})


def refusal(**sections: Mapping[str, Any]) -> str:
    """Return the message with which these sections of `[connectors]` are refused."""
    with pytest.raises(PluginProblem) as refused:
        instances(**sections)
    return str(refused.value)


def test_two_instances_of_one_plugin_have_their_own_settings() -> None:
    """Each is made from the descriptor of its plugin, with its own section."""
    sections = {name: {"plugin": "http", "url": f"https://{name}.example"} for name in ("shop", "rewards")}
    host = instances(**sections)
    specs = [host.spec(ConnectorSpec, name, "policy.default.connector") for name in sections]
    made = [make_connector(spec, sections[spec.name]) for spec in specs]

    assert [section_of(spec) for spec in specs] == ["connectors.shop", "connectors.rewards"]
    assert [host.plugin_of(spec) for spec in specs] == ["http", "http"]
    assert all(isinstance(each, QuietConnector) for each in made)
    assert [each.settings for each in made if isinstance(each, QuietConnector)] == [
        {"url": "https://shop.example"},
        {"url": "https://rewards.example"},
    ]


def test_a_section_with_the_name_of_its_plugin_is_that_plugin() -> None:
    """Nothing is registered twice."""
    host = instances(http={"plugin": "http", "url": "https://a.example"})

    assert host.registered == HOST.registered


def test_a_section_that_names_no_plugin_is_refused_with_the_line_that_is_missing() -> None:
    """That is how sections were written while each plugin had one set of settings."""
    message = refusal(http={"url": "https://a.example"})

    assert "the section does not name the connector plugin that it configures" in message
    assert "where: [connectors.http]" in message
    assert 'write `plugin = "http"` as the first line of [connectors.http]' in message


def test_a_section_without_plugin_and_with_another_name_lists_the_plugins() -> None:
    """The name may be the misspelt name of a plugin."""
    message = refusal(rets={})

    assert 'write `plugin = "<name>"` as the first line of [connectors.rets]' in message
    assert "choose one of: http, rest (did you mean `rest`?)" in message


def test_an_unknown_plugin_is_refused_with_the_choices() -> None:
    """A plugin that is installed and not enabled is unknown, too."""
    message = refusal(rewards={"plugin": "htpp", "url": "x"})

    assert "no connector plugin named 'htpp' is loaded" in message
    assert "where: [connectors.rewards]" in message
    assert "did you mean `http`?" in message
    assert "`plugins.enabled`" in message


@pytest.mark.parametrize(
    ("name", "section", "expected"),
    [
        ("rest", {"plugin": "http", "url": "x"}, "has the name of another connector plugin"),
        ("rewards", {"plugin": 3}, "`plugin` must be a text"),
        ("Rewards team", {"plugin": "http", "url": "x"}, "cannot be the name of an instance"),
        ("rewards", {"plugin": "http", "ulr": "x"}, "`ulr` may mean `url`"),
    ],
)
def test_what_cannot_be_an_instance_is_refused(name: str, section: Mapping[str, Any], expected: str) -> None:
    """The message names the section and says what to do."""
    message = refusal(**{name: section})

    assert expected in message
    assert f"[connectors.{name}]" in message
    assert "what to do: " in message


def test_a_vertical_chooses_an_instance_by_name() -> None:
    """The list shows the instance and its plugin as active, each with its name."""
    host = instances(rewards={"plugin": "http", "url": "x"})
    policy = resolve_policy(PolicySettings(PolicyNames(), {"rewards": PolicyNames(connector="rewards")}), host)  # type: ignore[dict-item]  # a vertical

    rows = {row.name: (str(row.state), row.summary) for row in host.inventory(policy.chosen)}
    assert rows["rewards"] == ("active", "instance of `http`: Connector http")
    assert rows["http"] == ("active", "Connector http")


def test_the_instances_of_one_plugin_are_found_for_the_doctor() -> None:
    """Sections of other plugins are left out; a section without `plugin` is refused there, too."""
    sections = {"a": {"plugin": "file", "path": "a.json"}, "b": {"plugin": "memory"}}

    assert [spec.name for spec, _ in instances_of(FILE_FLAGS, sections)] == ["a"]
    with pytest.raises(PluginProblem, match="does not name the flag-backend plugin"):
        list(instances_of(FILE_FLAGS, {"file": {"path": "a.json"}}))
