"""Loads the selected plugins, and makes the checks that would otherwise fail at the first call."""

from collections.abc import Sequence

from sidecar.composition.plugins.built_ins import BUILT_INS
from sidecar.composition.plugins.from_settings import plugin_sections, policy_settings
from sidecar.policy.entry_points import PluginSelection
from sidecar.policy.instances import with_instances
from sidecar.policy.kinds import PluginKind
from sidecar.policy.loading import PluginHost, load_plugins
from sidecar.policy.problems import choices_for
from sidecar.policy.selection import PolicyMap, resolve_policy
from sidecar.settings import Settings, SettingsProblem


def checked_policy(settings: Settings, more: Sequence[object] = ()) -> PolicyMap:
    """Return the selected plugins by vertical.

    Args:
        settings: of the sidecar.
        more: plugins beside the built-in ones.

    Raises:
        PluginProblem: a plugin cannot be loaded, or its settings are wrong.
        SettingsProblem: the settings name a connector that no plugin offers.
    """
    loaded = load_plugins((*BUILT_INS, *more), PluginSelection(tuple(settings.plugins.enabled)))
    host = with_instances(loaded, plugin_sections(settings))
    _check_signed_connectors(settings, host)
    return resolve_policy(policy_settings(settings), host)


def _check_signed_connectors(settings: Settings, host: PluginHost) -> None:
    """Refuse a connector whose answers must be signed and that no loaded plugin offers.

    Raises:
        SettingsProblem: lists them all.
    """
    known = host.names(PluginKind.CONNECTOR)
    wrong = [
        f"signatures.connectors: no connector is named `{name}`: {choices_for(name, known)}"
        for name in settings.signatures.connectors
        if name not in known
    ]
    if wrong:
        raise SettingsProblem(wrong)
