"""Registers one installed plugin: checks its hooks, calls each of them once, and checks the returned descriptors.

`guarded` calls all plugin code: any exception, including `SystemExit`, becomes a `PluginProblem`. A plugin that fails
half-way leaves nothing registered.
"""

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pluggy
from pluggy import HookimplOpts, HookspecOpts

from sidecar.core.identifiers import DEFINITION_SIDE
from sidecar.policy import hookspecs
from sidecar.policy.config_schemas import compiled
from sidecar.policy.kinds import PLUGIN
from sidecar.policy.problems import Incompatible, PluginProblem, cause_of, guarded, nearest
from sidecar.policy.specs import SPEC_TYPES, SUPPORTED_MAJORS, PluginSpec

CONTRACT: Final = re.compile(r"([a-z-]+)/([1-9][0-9]{0,3})\Z")
HOOK_PREFIX: Final = "sidecar_"
REMEDY: Final = "correct the plugin, or take it out of plugins.enabled"


class _MarkedHooks(pluggy.PluginManager):
    """A plugin manager that inspects only names that may be hooks.

    pluggy inspects every name of a module, which took 5 % of the time of a start.
    """

    def parse_hookspec_opts(self, module_or_class: Any, name: str) -> HookspecOpts | None:
        """Return what `hookspec` marked the name with; None if the name is no specification of a hook."""
        return super().parse_hookspec_opts(module_or_class, name) if name.startswith(HOOK_PREFIX) else None

    def parse_hookimpl_opts(self, plugin: Any, name: str) -> HookimplOpts | None:
        """Return what `hookimpl` marked the name with; None if the name is no hook."""
        # In a module, only functions can be hooks. `vars`, because `getattr` could run the module's `__getattr__`.
        if inspect.ismodule(plugin) and not inspect.isroutine(vars(plugin).get(name)):
            return None
        return super().parse_hookimpl_opts(plugin, name)


def register(plugin: object, label: str, where: str) -> tuple[PluginSpec, ...]:
    """Register one plugin and return the descriptors that it offers.

    Each plugin gets its own plugin manager, so that a plugin that fails half-way leaves nothing registered, and no
    plugin can reach the hooks of another one.

    Args:
        plugin: a module or an object with marked hooks.
        label: the plugin's name for pluggy, `distribution:entry-point`.
        where: the place of the plugin, for messages.

    Raises:
        PluginProblem: the plugin implements no hook, a misspelt or unmarked hook or a wrapper, or a hook returns a
            wrong type.
    """
    # pluggy would register the class. Its hooks would fail later, because they are called without `self`, with a
    # message that does not name the cause.
    if isinstance(plugin, type):
        raise PluginProblem(
            f"the plugin is the class `{plugin.__name__}`; its hooks have no object to run on",
            where=where,
            remedy="let the entry point name a module or an instance",
        )
    manager = _MarkedHooks(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    guarded(lambda: manager.register(plugin, label), doing="registering the plugin", where=where, remedy=REMEDY)
    callers = {caller.name: caller for caller in manager.get_hookcallers(plugin) or []}
    for caller in callers.values():
        _check_hook(caller, where)
    _check_unmarked(plugin, frozenset(callers), where)
    # pluggy's own check, in case it knows of an unknown hook that the two checks above do not detect.
    guarded(manager.check_pending, doing="checking for unknown hooks", where=where, remedy=REMEDY)
    return tuple(spec for name, caller in callers.items() for spec in _descriptors_of(name, caller, where))


def _check_hook(caller: pluggy.HookCaller, where: str) -> None:
    """Refuse two things that pluggy permits: hooks without a specification, and wrappers."""
    # pluggy would only ignore a hook without a specification: the plugin would be loaded and have no effect.
    if caller.name not in SPEC_TYPES:
        raise _no_such_hook(caller.name, where)
    if any(impl.wrapper or impl.hookwrapper for impl in caller.get_hookimpls()):
        raise PluginProblem(
            f"hook `{caller.name}` is a wrapper, which could replace every other plugin's answer",
            where=where,
            remedy="mark it with `@hookimpl` without `wrapper`",
        )


def _check_unmarked(plugin: object, marked: frozenset[str], where: str) -> None:
    """Refuse an unmarked hook, which would never be called, and a plugin without any hook."""
    # The hooks of an object are methods, so the names of its class suffice.
    for name in sorted(vars(plugin)) if inspect.ismodule(plugin) else sorted(dir(type(plugin))):
        if name.startswith(HOOK_PREFIX) and name not in marked and inspect.isroutine(getattr(plugin, name, None)):
            if name not in SPEC_TYPES:
                raise _no_such_hook(name, where)
            raise PluginProblem(
                f"hook `{name}` is not marked, so it would never be called",
                where=where,
                remedy="mark it with `@hookimpl` from sidecar.policy.hookspecs",
            )
    if not marked:
        raise PluginProblem(
            "the plugin implements no hook",
            where=where,
            remedy=f"implement one of {', '.join(SPEC_TYPES)}, marked with `@hookimpl`",
        )


def _no_such_hook(name: str, where: str) -> PluginProblem:
    meant = nearest(name, SPEC_TYPES)
    hint = f"did you mean `{meant}`?" if meant else f"hooks are: {', '.join(SPEC_TYPES)}"
    return PluginProblem(f"there is no hook `{name}`", where=where, remedy=hint)


def _descriptors_of(hook: str, caller: pluggy.HookCaller, where: str) -> Sequence[PluginSpec]:
    """Call each implementation of a hook separately and return the descriptors, checked."""
    descriptors: list[PluginSpec] = []
    # Not called through pluggy, which would merge the answers: a message could not say which one is wrong.
    for impl in caller.get_hookimpls():
        answer = guarded(impl.function, doing=f"hook `{hook}`", where=where, remedy=REMEDY)
        descriptors.extend(_checked_descriptors(hook, answer, where))
    return descriptors


def _checked_descriptors(hook: str, answer: object, where: str) -> Sequence[PluginSpec]:
    spec_type = SPEC_TYPES[hook]
    # Closed, because Python warns of a coroutine that is never awaited.
    if inspect.iscoroutine(answer):
        answer.close()
        raise PluginProblem(f"hook `{hook}` is async", where=where, remedy="make it a plain `def`: it only describes")
    if not isinstance(answer, list | tuple):
        raise PluginProblem(
            f"hook `{hook}` returned {type(answer).__name__}",
            where=where,
            remedy=f"return a list of {spec_type.__name__}",
        )
    for spec in answer:
        if not isinstance(spec, spec_type):
            raise PluginProblem(
                f"hook `{hook}` returned a list that holds {type(spec).__name__}",
                where=where,
                remedy=f"return a list of {spec_type.__name__} only",
            )
        _check_spec(spec, where)
    return answer


def _check_spec(spec: PluginSpec, where: str) -> None:
    """Refuse an incomplete descriptor."""
    problem = _problem_with_fields(spec)
    if problem is not None:
        raise PluginProblem(f"{spec.kind} {spec.name!r}: {problem}", where=where, remedy="correct the descriptor")
    match = CONTRACT.match(spec.contract)
    if match is None or match[1] != spec.kind:
        raise PluginProblem(
            f"{spec.kind} `{spec.name}` states the contract {spec.contract!r}",
            where=where,
            remedy=f"state `{spec.kind}/<major>`, e.g. `{spec.kind}/{SUPPORTED_MAJORS[spec.kind][-1]}`",
        )
    # An error of its own: another version of the plugin helps, a correction of it does not.
    if int(match[2]) not in SUPPORTED_MAJORS[spec.kind]:
        spoken = ", ".join(f"{spec.kind}/{major}" for major in SUPPORTED_MAJORS[spec.kind])
        raise Incompatible(
            f"{spec.kind} `{spec.name}` is written for {spec.contract}; this sidecar speaks {spoken}",
            where=where,
            remedy="install a version of the plugin for one of those, or another version of the sidecar",
        )


def _problem_with_fields(spec: PluginSpec) -> str | None:
    """Return the first problem with the descriptor's fields, or None."""
    # The annotations prove nothing: a plugin may have set each field to any object.
    parts: Mapping[str, Any] = {name: getattr(spec, name) for name in spec.__struct_fields__}
    if not isinstance(parts["name"], str) or not DEFINITION_SIDE.match(parts["name"]):
        return "its name must be 1 to 60 lower-case letters, digits, `-` or `_`, beginning with a letter or digit"
    if not isinstance(parts["contract"], str) or not isinstance(parts["summary"], str):
        return "contract and summary must be strings"
    # Not called here: a factory is called only for the plugins that the settings choose, with their settings.
    if not callable(parts["factory"]):
        return "its factory cannot be called"
    return _problem_with_capabilities(parts["capabilities"]) or _problem_with_schema(parts["config_schema"])


def _problem_with_capabilities(capabilities: Any) -> str | None:
    if isinstance(capabilities, frozenset) and all(isinstance(name, str) for name in capabilities):
        return None
    return "capabilities must be a frozenset of strings"


def _problem_with_schema(schema: Any) -> str | None:
    if not isinstance(schema, Mapping):
        return "config_schema must be a JSON schema"
    try:
        compiled(schema)
    except ValueError as error:
        return f"config_schema is no JSON schema ({cause_of(error)})"
    # The key is removed before the factory gets the settings, so a plugin could never read a setting of that name.
    if PLUGIN in schema.get("properties", ()):
        return f"config_schema has a setting `{PLUGIN}`, which names the plugin of an instance"
    return None
