"""Creates the objects of plugins, e.g. flag backends and connectors, from their descriptors.

First the settings are checked against the descriptor's schema, then the factory is called. Any exception of the factory
becomes a `PluginProblem`.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from msgspec.structs import replace

from sidecar.policy.audit import AuditSink
from sidecar.policy.config_schemas import compiled, to_plain
from sidecar.policy.kinds import PLUGIN, PluginKind
from sidecar.policy.lifecycle import GateClient, LifecyclePolicy
from sidecar.policy.memory import EpisodeMemory
from sidecar.policy.problems import PluginProblem, guarded, nearest
from sidecar.policy.protocols import Connector, FlagBackend, Runner
from sidecar.policy.specs import (
    AuditSinkSpec,
    ConnectorSpec,
    EpisodeMemorySpec,
    FlagBackendSpec,
    GateClientSpec,
    LifecyclePolicySpec,
    PluginSpec,
    RunnerConfig,
    RunnerSpec,
)

if TYPE_CHECKING:
    import jsonschema_rs

Made = TypeVar("Made")

SECTION: Final[Mapping[PluginKind, str]] = {
    PluginKind.FLAG_BACKEND: "flags",
    PluginKind.RUNNER: "runners",
    PluginKind.CONNECTOR: "connectors",
    PluginKind.EPISODE_MEMORY: "memories",
    PluginKind.GATE_CLIENT: "gates",
    PluginKind.LIFECYCLE_POLICY: "lifecycle",
    PluginKind.AUDIT_SINK: "audit_sinks",
}
"""The table of the settings file for each kind, e.g. `[flags.rewards]` for a flag backend named `rewards`."""


OPTIONAL_KEYWORDS: Final = frozenset(
    {"$defs", "additionalProperties", "description", "properties", "required", "title", "type"}
)
"""Keywords of a JSON schema that accept an empty object; `required` only if its list is empty."""


def make_flag_backend(spec: FlagBackendSpec, settings: Mapping[str, Any]) -> FlagBackend:
    """Create a flag backend. Raises `PluginProblem` if the settings or the factory are wrong."""
    return _create_configured(spec, spec.factory, settings, "fetch", "changed", "close")


def make_runner(spec: RunnerSpec, config: RunnerConfig) -> Runner:
    """Create a runner for one target. Raises `PluginProblem` if the settings or the factory are wrong."""
    # The factory gets the checked copy, and so cannot change the settings of another target.
    checked = replace(config, settings=checked_settings(spec, config.settings))
    return _create(spec, lambda: spec.factory(checked), ("run", "close"))


def make_connector(spec: ConnectorSpec, settings: Mapping[str, Any]) -> Connector:
    """Create a connector. Raises `PluginProblem` if the settings or the factory are wrong."""
    return _create_configured(spec, spec.factory, settings, "enrich", "close")


def make_episode_memory(spec: EpisodeMemorySpec, settings: Mapping[str, Any]) -> EpisodeMemory:
    """Create an episode memory. Raises `PluginProblem` if the settings or the factory are wrong."""
    return _create_configured(
        spec, spec.factory, settings, "append", "read", "own_turns", "size", "write_summary", "close"
    )


def make_gate_client(spec: GateClientSpec, settings: Mapping[str, Any]) -> GateClient:
    """Create a gate client. Raises `PluginProblem` if the settings or the factory are wrong."""
    return _create_configured(spec, spec.factory, settings, "ask", "close")


def make_lifecycle_policy(spec: LifecyclePolicySpec, settings: Mapping[str, Any]) -> LifecyclePolicy:
    """Create a lifecycle policy. Raises `PluginProblem` if the settings or the factory are wrong."""
    return _create_configured(spec, spec.factory, settings, "check")


def make_audit_sink(spec: AuditSinkSpec, settings: Mapping[str, Any]) -> AuditSink:
    """Create an audit sink. Raises `PluginProblem` if the settings or the factory are wrong."""
    return _create_configured(spec, spec.factory, settings, "take", "close")


def make_plugin(spec: PluginSpec, settings: Mapping[str, Any]) -> object:
    """Create the object of a descriptor to check that this succeeds; a runner is created for its default target.

    Raises:
        PluginProblem: the settings or the factory are wrong.
    """
    if isinstance(spec, RunnerSpec):
        return make_runner(spec, RunnerConfig(settings, target=None, gateway_address=""))
    return _MAKERS[spec.kind](spec, settings)


def needs_settings(spec: PluginSpec) -> bool:
    """Return whether the plugin cannot be created without settings. Compiles the schema, which takes milliseconds."""
    return not compiled(spec.config_schema).is_valid({})


def checked_settings(spec: PluginSpec, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of the settings for the plugin, without the key `plugin`, which is not one of its settings.

    Raises:
        PluginProblem: the settings do not match `spec.config_schema`. The text names every problem but no value, which
            may be a secret.
    """
    section = section_of(spec)
    copied: dict[str, Any] = to_plain(settings)
    # The schema of the plugin does not have this key and would refuse it.
    copied.pop(PLUGIN, None)
    # Most plugins have no settings. `jsonschema_rs` then need not be imported, which takes longer than the check.
    if not copied and _accepts_empty(spec.config_schema):
        return copied
    # All problems at once, so that an operator corrects the section in one edit.
    problems = [_problem_line(section, error) for error in compiled(spec.config_schema).iter_errors(copied)]
    if problems:
        # The library names an unknown key only as unexpected; the operator also needs the names that exist.
        known = sorted(_properties(spec))
        unknown = [name for name in copied if name not in known]
        meant = [f"`{name}` may mean `{near}`" for name in unknown if (near := nearest(name, known))]
        raise PluginProblem(
            f"the settings of the {spec.kind} `{spec.name}` are wrong: {'; '.join(problems)}",
            where=f"[{section}]",
            remedy="; ".join([*meant, f"its settings are: {', '.join(known) or 'none'}"]),
        )
    return copied


def section_of(spec: PluginSpec) -> str:
    """Return the name of the settings section of this descriptor, e.g. `flags.rewards`."""
    return f"{SECTION[spec.kind]}.{spec.name}"


def _create_configured(
    spec: PluginSpec, factory: Callable[[Mapping[str, Any]], Made], settings: Mapping[str, Any], *methods: str
) -> Made:
    checked = checked_settings(spec, settings)
    return _create(spec, lambda: factory(checked), methods)


def _create(spec: PluginSpec, make: Callable[[], Made], methods: Sequence[str]) -> Made:
    where = f"{spec.kind} `{spec.name}`, settings in [{section_of(spec)}]"
    made: Made = guarded(make, doing="making it", where=where, remedy="correct its settings, or choose another by name")
    # Closed: otherwise Python's warning of a coroutine that was never awaited appears amid the operator's message.
    if inspect.iscoroutine(made):
        made.close()
        raise PluginProblem("its factory is async", where=where, remedy="make the factory a plain `def`")
    # Guarded, because `getattr` also runs plugin code if the class has properties or `__getattr__`.
    missing = guarded(
        lambda: [name for name in methods if not callable(getattr(made, name, None))],
        doing="looking at what it made",
        where=where,
        remedy=f"implement the protocol of a {spec.kind} in sidecar.policy",
    )
    if missing:
        raise PluginProblem(
            f"its factory made a {type(made).__name__}, which lacks {', '.join(missing)}",
            where=where,
            remedy=f"implement the protocol of a {spec.kind} in sidecar.policy",
        )
    return made


def _problem_line(section: str, error: "jsonschema_rs.ValidationError") -> str:
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.instance_path)
    return f"{section}{path}: {error.message}"


def _accepts_empty(schema: Mapping[str, Any]) -> bool:
    """Return whether a schema surely accepts an empty object, without loading the library that compiles schemas."""
    # Only if every keyword is known to accept it: an unknown keyword leads to the complete check.
    return schema.get("type") == "object" and not schema.get("required") and schema.keys() <= OPTIONAL_KEYWORDS


def _properties(spec: PluginSpec) -> Mapping[str, Any]:
    properties = spec.config_schema.get("properties", {})
    # The schema of a plugin may contain anything here; this is only for a hint.
    return properties if isinstance(properties, Mapping) else {}


_MAKERS: Final[Mapping[PluginKind, Callable[[Any, Mapping[str, Any]], object]]] = {
    PluginKind.FLAG_BACKEND: make_flag_backend,
    PluginKind.CONNECTOR: make_connector,
    PluginKind.EPISODE_MEMORY: make_episode_memory,
    PluginKind.GATE_CLIENT: make_gate_client,
    PluginKind.LIFECYCLE_POLICY: make_lifecycle_policy,
    PluginKind.AUDIT_SINK: make_audit_sink,
}


class Making(Protocol):
    """How the sidecar creates the objects of plugins: in the caller's thread, or each in a thread of its own.

    An implementation may return a stand-in, an object that forwards each call to the plugin's object in its thread. In
    each method `make` is a function that creates the object: one of the `make_...` functions above.
    """

    def made(self, spec: PluginSpec, make: Callable[[], Made]) -> Made:
        """Create any other object than a connector or runner, and wait for it. For the start of the sidecar.

        Raises:
            PluginProblem: the factory does not return, or `make` raised this error.
        """

    def connector(self, spec: ConnectorSpec, make: Callable[[], Connector], *, needs_user_token: bool) -> Connector:
        """Create a connector.

        Raises what `make` raises. For an installed plugin an implementation may instead return a connector whose calls
        fail.
        """

    def runner(self, spec: RunnerSpec, make: Callable[[], Runner], target: str) -> Runner:
        """Create a runner.

        Raises what `make` raises. For an installed plugin an implementation may instead return a runner whose attempts
        fail.

        Args:
            spec: the descriptor of the runner.
            make: creates the runner.
            target: the value of `Runner.target` of the stand-in.
        """


class InPlace:
    """Creates objects in the caller's thread and returns them without a stand-in, e.g. for a command."""

    def made(self, spec: PluginSpec, make: Callable[[], Made]) -> Made:
        """Create an object. Raises any exception of `make`."""
        return make()

    def connector(self, spec: ConnectorSpec, make: Callable[[], Connector], *, needs_user_token: bool) -> Connector:
        """Create a connector. Raises any exception of `make`."""
        return make()

    def runner(self, spec: RunnerSpec, make: Callable[[], Runner], target: str) -> Runner:
        """Create a runner. Raises any exception of `make`."""
        return make()


IN_PLACE = InPlace()
