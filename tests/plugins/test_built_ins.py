"""The sidecar's own plugins would pass as installed ones: a start does not check them again."""

from types import SimpleNamespace

import pytest

from sidecar.composition.plugins.built_ins import BUILT_INS
from sidecar.policy.entry_points import PluginSelection
from sidecar.policy.hookspecs import hookimpl
from sidecar.policy.loading import load_plugins
from sidecar.policy.registration import HOOK_PREFIX, register


def installed(plugin: object) -> SimpleNamespace:
    """Return the plugin as an installed one is: with marked hooks."""
    hooks = {name: hook for name, hook in vars(plugin).items() if name.startswith(HOOK_PREFIX)}
    return SimpleNamespace(**{name: hookimpl(lambda hook=hook: hook()) for name, hook in hooks.items()})


@pytest.mark.parametrize("plugin", BUILT_INS, ids=lambda plugin: plugin.__name__)
def test_a_built_in_offers_what_would_be_registered_of_an_installed_plugin(plugin: object) -> None:
    """Misspelt hooks, answers of a wrong kind and schemas that are none are refused there."""
    offered = [one.spec for one in load_plugins([plugin], PluginSelection(), offers=()).registered.values()]

    assert offered
    assert list(register(installed(plugin), "built_in", "built in")) == offered
