"""Loads the plugins that the settings select, and checks names that would otherwise fail only at the first call."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sidecar.composition.plugins.built_ins import BUILT_INS
from sidecar.composition.plugins.from_settings import plugin_sections, policy_settings
from sidecar.core.identifiers import Vertical
from sidecar.policy.entry_points import PluginSelection
from sidecar.policy.kinds import PluginKind
from sidecar.policy.loading import PluginHost, load_plugins
from sidecar.policy.problems import choices_for
from sidecar.policy.selection import PolicyMap, resolve_policy
from sidecar.settings import Settings, SettingsProblem

if TYPE_CHECKING:
    from sidecar.operations.rollout.steps.policy_checks import NamedPolicies


def checked_policy(settings: Settings, more: Sequence[object] = ()) -> PolicyMap:
    """Load and check the plugins; return which plugin of each kind each vertical (product area) uses.

    Args:
        settings: of the sidecar.
        more: plugins in addition to the built-in ones.

    Raises:
        PluginProblem: a plugin cannot be loaded, or its settings are wrong.
        SettingsProblem: the settings name a connector that no plugin offers.
    """
    # Instances come afterwards, because they are copies of loaded descriptors.
    loaded = load_plugins((*BUILT_INS, *more), PluginSelection(tuple(settings.plugins.enabled)))
    # Before the names are checked: an instance has a name of its own, which the settings may use.
    host = with_configured(loaded, settings)
    # A misspelt name would silently accept unsigned answers of the connector that was meant.
    _check_signed_connectors(settings, host)
    return resolve_policy(policy_settings(settings), host)


def policies_of_vertical(policy: PolicyMap, settings: Settings, vertical: Vertical) -> "NamedPolicies":
    """Return the lifecycle policies of a vertical, i.e. the plugins that can deny a step of a rollout.

    A policy that cannot be created denies every step.
    """
    from sidecar.adapters.step_checks import ChosenPolicies  # noqa: PLC0415  `serve` creates its own

    return ChosenPolicies(policy, settings.lifecycle, lambda _kind, _detail: None).of_vertical(vertical)


def with_configured(loaded: PluginHost, settings: Settings) -> PluginHost:
    """Return the loaded plugins with their instances: each section of the settings can configure a plugin once more.

    Raises:
        PluginProblem: a section of plugin settings is wrong.
    """
    sections = plugin_sections(settings)
    if not any(sections.values()):
        return loaded
    from sidecar.policy.instances import with_instances  # noqa: PLC0415  a start without sections does not need it

    return with_instances(loaded, sections)


def _check_signed_connectors(settings: Settings, host: PluginHost) -> None:
    """Refuse names in `signatures.connectors` that no loaded plugin offers.

    Raises:
        SettingsProblem: lists all of them.
    """
    known = host.names(PluginKind.CONNECTOR)
    wrong = [
        f"signatures.connectors: no connector is named `{name}`: {choices_for(name, known)}"
        for name in settings.signatures.connectors
        if name not in known
    ]
    if wrong:
        raise SettingsProblem(wrong)
