"""The short sections of the settings, e.g. plugins, definitions, progress reports, flags, keys, telemetry and log."""

from datetime import timedelta
from pathlib import Path
from typing import Final, Literal

from sidecar.core.definitions.cards.card import SUB_AGENTS_AT_MOST
from sidecar.core.status_events.policy import TYPE_FORM, Handling
from sidecar.settings.section import Section, setting
from sidecar.settings.values import Duration


class SignatureSettings(Section):
    """Responses of data services that are withheld unless they are signed (HMAC-SHA256)."""

    files: dict[str, Path] = setting(
        {},
        description="Key files by key id, at least 32 bytes each, readable only by their owner.",
    )
    connectors: list[str] = setting([], description="Connectors whose responses must be signed.")
    verticals: list[str] = setting([], description="Verticals whose agents get signed responses only.")
    tools: list[str] = setting([], description="Tools whose responses must be signed.")

    def _check(self) -> None:
        # Keys alone would suggest a protection that does not exist. Names alone would withhold every response.
        if bool(self.files) != bool(self.connectors or self.verticals or self.tools):
            raise ValueError("give both: keys in `files`, and in `connectors`, `verticals` or `tools` whose answers")
        wrong = [key_id for key_id in self.files if not (key_id.isascii() and key_id.isalnum())]
        if wrong:
            raise ValueError(f"key ids are letters and digits only: {', '.join(map(repr, wrong))}")


class WorkspaceSettings(Section):
    """Markdown reports about sub-agents, one file per child; see docs/delegation.md."""

    directory: Path | None = setting(
        None,
        description="Existing directory for the reports; each turn gets a folder. Unset: no reports.",
    )


class AuditSettings(Section):
    """Destinations of the audit events of rollouts. Every event is recorded first, regardless of this section."""

    sinks: tuple[str, ...] | None = setting(
        None,
        min_length=1,
        description="Audit sinks, each of which gets every event. Unset: `log`, and `otlp` where "
        "`telemetry.otlp_endpoint` is set.",
    )


NOTHING: Final = timedelta(0)
SECOND: Final = timedelta(seconds=1)


class DefinitionsSettings(Section):
    """Location of the agent definitions."""

    path: Path = setting(
        description="Folder with agent_config.yaml and prompts/components; changes are loaded automatically."
    )
    git_commits: bool = setting(True, description="Label definitions with their commit, in a git checkout.")
    max_sub_agents: int = setting(
        SUB_AGENTS_AT_MOST,
        ge=1,
        le=100,
        description="Maximum number of sub-agents that one orchestrator's model is offered, in list order. Each costs "
        "about 330 tokens of every model call. Further ones are omitted with a warning.",
    )
    expected: tuple[str, ...] = setting(
        (),
        description="Slots, verticals and tools that settings may name before a definition has them.",
    )


class EventSettings(Section):
    """Handling of one type of progress report."""

    policy: Handling = setting(Handling.FORWARD, description="forward, transform, suppress or batch.")
    transform_to: str = setting("", description="The type that replaces the reported one; only with transform.")
    window: Duration = setting(
        timedelta(milliseconds=500), gt=NOTHING, description="Time in which reports are batched; only with batch."
    )

    def _check(self) -> None:
        # Without a replacement the transformed report would have no type. A replacement without the policy has no
        # effect, so it is a mistake.
        if (self.policy is Handling.TRANSFORM) != bool(self.transform_to):
            raise ValueError("`transform_to` requires the policy `transform`")


def _check_names(events: dict[str, EventSettings]) -> None:
    # A name of another form could never match: hosts may report identifiers only.
    wrong = [name for name in events if not TYPE_FORM.match(name)]
    if wrong:
        raise ValueError(f"no identifiers (3 to 64 lower-case letters, digits and _): {', '.join(map(repr, wrong))}")


class StatusSettings(Section):
    """Progress reports of sub-agents: the vocabulary and the handling of each type."""

    per_second: float = setting(
        20.0, gt=0, description="Reports per second that a sub-agent may send on average; more are dropped."
    )
    burst: int = setting(50, ge=1, description="Size of a burst of reports.")
    still_working_after: Duration = setting(
        2 * SECOND,
        ge=NOTHING,
        description="After this time without a report of a running sub-agent, the sidecar reports "
        "`still_working` for it, and "
        "again after twice, four times ... the time. Only if `events` has that type; 0: never.",
    )
    events: dict[str, EventSettings] = setting(
        {}, check=_check_names, description="Known types, by name. Unknown ones are dropped."
    )


class PolicyNamesSettings(Section):
    """Plugins of one vertical, by name."""

    flags: str | None = setting(None, description="Flag backend; unset: that of the default.")
    runner: str | None = setting(None, description="Runner of definitions that name none; unset: that of the default.")
    connector: str | None = setting(None, description="Connector of tools that name none; unset: that of the default.")
    gates: str | dict[str, str] | None = setting(
        None, description='Gate client, or one by gate, e.g. {pre_merge = "manifest"}; gates not named: the default\'s.'
    )
    lifecycle: tuple[str, ...] | None = setting(None, description="Lifecycle policies; unset: that of the default.")


class PlatformPolicySettings(Section):
    """Plugins of all verticals without their own entry, by name."""

    flags: str = setting("embedded", description="Flag backend; `embedded` keeps flags in the record's database.")
    runner: str = setting("grpc", description="Runner of definitions that name none.")
    connector: str = setting("rest", description="Connector of tools that name none.")
    memory: str | None = setting(
        None,
        description="Episode memory of all verticals. Unset: `store` with a database, else `in_process`.",
    )
    gates: str | dict[str, str] = setting(
        {},
        description="Gate client of all gates, or one by gate (`*`: every other). A gate without one fails closed.",
    )
    lifecycle: tuple[str, ...] = setting(
        ("platform",), description="Lifecycle policies. The platform's own rules always apply."
    )


class PolicySection(Section):
    """Selection of plugins."""

    default: PlatformPolicySettings = setting(
        PlatformPolicySettings(), description="Plugins for everything that a vertical does not name."
    )
    verticals: dict[str, PolicyNamesSettings] = setting({}, description="Exceptions, by vertical.")


class PluginsSettings(Section):
    """Installed plugins that may run."""

    enabled: list[str] = setting(
        [], description="Entry points or distributions. An installed plugin that is not named here is never imported."
    )


class TargetsSettings(Section):
    """Addresses of runner hosts. A slot's entry overrides its card; a card overrides a vertical's entry."""

    slots: dict[str, str] = setting({}, description='By slot, e.g. shop = "unix:/run/shop/runner.sock".')
    verticals: dict[str, str] = setting({}, description="By vertical.")


class FlagRefreshSettings(Section):
    """Refresh of flags."""

    fetch_deadline: Duration = setting(2 * SECOND, gt=NOTHING, description="Maximum duration of one fetch.")
    refresh_interval: Duration = setting(
        2 * SECOND, gt=NOTHING, description="Interval between fetches, if a backend announces no change."
    )
    min_interval: Duration = setting(
        timedelta(milliseconds=50), gt=NOTHING, description="Minimum time between two fetches from one backend."
    )
    max_staleness: Duration = setting(
        10 * SECOND,
        gt=NOTHING,
        description="Flags older than this are unreachable; the definitions that they gate are not served.",
    )

    def _check(self) -> None:
        # Otherwise the flags of a healthy backend would become stale between two fetches, and the definitions that they
        # gate would not be served.
        if self.max_staleness <= self.fetch_deadline + self.refresh_interval:
            raise ValueError("max_staleness must be longer than fetch_deadline and refresh_interval together")


class KeysSettings(Section):
    """Keys that sign surface tokens, shared by all replicas."""

    files: dict[str, Path] = setting(
        {},
        description="Key files by key id. Each line is a key of at least 32 bytes; the first one signs, all verify. "
        "The files are followed when they change. Unset: the sidecar creates a key at its start.",
    )
    signing: str = setting("", description="Id of the signing key; optional if there is only one.")

    def _check(self) -> None:
        # Without the signing key no turn could be bound. A start that fails is noticed earlier.
        if self.signing and self.signing not in self.files:
            raise ValueError("`signing` is not the id of a key in `files`")
        if len(self.files) > 1 and not self.signing:
            raise ValueError("there are several keys: name one in `signing`")
        wrong = [key_id for key_id in self.files if not (key_id.isascii() and key_id.isalnum())]
        if wrong:
            raise ValueError(f"key ids are letters and digits only: {', '.join(map(repr, wrong))}")


class TelemetrySettings(Section):
    """Traces, and an OTLP collector. Metrics are always available at the ops address."""

    grpc_spans: bool = setting(
        False, description="Use OpenTelemetry's gRPC instrumentation: a span per call, which costs about 0.1 ms."
    )
    trace_ratio: float = setting(
        0.01, ge=0, le=1, description="Share of traces that are sampled, unless the caller decides."
    )
    error_emit: bool = setting(
        False,
        description="Write the event `agent.error_emit` for each failure of a sub-agent: sub_agent_id, axis, is_final.",
    )
    otlp_endpoint: str | None = setting(
        None,
        pattern="^https?://",
        description="Endpoint for spans, log records and metrics over OTLP/gRPC; needs the extra "
        "`dispatch-sidecar[otlp]`. Unset: only gRPC spans, which go to the log.",
    )
    otlp_interval: Duration = setting(
        SECOND, gt=NOTHING, description="Interval at which spans and log records are exported."
    )
    otlp_metrics_interval: Duration = setting(
        30 * SECOND, gt=NOTHING, description="Interval at which metrics are exported."
    )
    otlp_queue: int = setting(
        2048,
        ge=16,
        description="Maximum number of spans, and of log records, that wait for a slow collector; more are dropped.",
    )


class LogSettings(Section):
    """The log, on standard error."""

    format: Literal["text", "json"] = setting("text", description="text or json.")
    level: Literal["debug", "info", "warning", "error"] = setting("info", description="Minimum level that is written.")
