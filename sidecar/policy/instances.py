"""Instances: plugins with their own settings, each referred to by a name.

`[gates.rewards]` with `plugin = "http"` is an instance of the gate client `http`. It is registered under its own name,
with a copy of its plugin's descriptor that has the instance's name. Objects that are created from the copy, and reports
about them, therefore use the instance's name.

A plugin that needs no settings can be selected by its own name, without a section.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final

from msgspec.structs import replace

from sidecar.core.identifiers import DEFINITION_SIDE
from sidecar.policy.factory import SECTION, checked_settings
from sidecar.policy.kinds import PLUGIN, PluginKind
from sidecar.policy.loading import PluginHost, Registered
from sidecar.policy.problems import PluginProblem, choices_for
from sidecar.policy.specs import PluginSpec

Sections = Mapping[PluginKind, Mapping[str, Mapping[str, Any]]]
"""The settings of each instance, including the key `plugin`, by the kind of its plugin and its own name."""

NAME_RULE: Final = "use 1 to 60 lower-case letters, digits, `-` or `_`, beginning with a letter or digit"


def with_instances(host: PluginHost, sections: Sections) -> PluginHost:
    """Return the host with an instance for each section, its settings checked.

    Raises:
        PluginProblem: a section names no plugin or one that is not loaded, has the name of another plugin, or has wrong
            settings.
    """
    instances: dict[tuple[PluginKind, str], Registered] = {}
    for kind, by_name in sections.items():
        for name, section in by_name.items():
            instance = _instance(host, kind, name, section)
            # Checked even if no setting selects the instance: otherwise the mistake would appear at a later start.
            checked_settings(instance.spec, section)
            instances[kind, name] = instance
    # The original host if there is no section: its mapping need not be copied.
    return replace(host, registered=MappingProxyType({**host.registered, **instances})) if instances else host


def instances_of(
    spec: PluginSpec, by_name: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[PluginSpec, Mapping[str, Any]]]:
    """Yield the descriptor and the settings of each instance of one plugin.

    Args:
        spec: the descriptor of the plugin.
        by_name: the settings sections of all instances of the same kind, by name.

    Raises:
        PluginProblem: a section that is named like the plugin lacks the key `plugin`.
    """
    for name, section in by_name.items():
        # Without this check the section would be skipped, and its settings silently without effect.
        if name == spec.name and PLUGIN not in section:
            raise _no_plugin_named(spec.kind, name, (spec.name,))
        if section.get(PLUGIN) == spec.name:
            yield replace(spec, name=name), section


def _instance(host: PluginHost, kind: PluginKind, name: str, section: Mapping[str, Any]) -> Registered:
    where, known = f"[{SECTION[kind]}.{name}]", host.names(kind)
    plugin = section.get(PLUGIN)
    if plugin is None:
        raise _no_plugin_named(kind, name, known)
    registered = host.registered.get((kind, plugin)) if isinstance(plugin, str) else None
    if registered is None:
        raise PluginProblem(
            f"no {kind} plugin named {plugin!r} is loaded" if isinstance(plugin, str) else "`plugin` must be a text",
            where=where,
            remedy=f"{choices_for(str(plugin), known)}; an installed plugin counts once `plugins.enabled` names it",
        )
    # `[gates.http]` with `plugin = "http"` configures the plugin under its own name. It needs no second descriptor.
    if name == plugin:
        return registered
    if name in known:
        raise PluginProblem(
            f"the instance `{name}` of the plugin `{plugin}` has the name of another {kind} plugin",
            where=where,
            remedy="give the instance a name that no plugin has, in the section and wherever the settings choose it",
        )
    if not DEFINITION_SIDE.match(name):  # names of instances have the form of definition ids, see `NAME_RULE`
        raise PluginProblem(f"{name!r} cannot be the name of an instance", where=where, remedy=NAME_RULE)
    return replace(registered, spec=replace(registered.spec, name=name), plugin=plugin)


def _no_plugin_named(kind: PluginKind, name: str, known: tuple[str, ...]) -> PluginProblem:
    """Return the error for a section without the key `plugin`.

    Settings files that were written before instances existed have such sections, so the remedy is the line to add.
    """
    section = f"[{SECTION[kind]}.{name}]"
    if name in known:
        remedy = f'write `plugin = "{name}"` as the first line of {section}'
    else:
        remedy = f'write `plugin = "<name>"` as the first line of {section}; {choices_for(name, known)}'
    return PluginProblem(
        f"the section does not name the {kind} plugin that it configures", where=section, remedy=remedy
    )
