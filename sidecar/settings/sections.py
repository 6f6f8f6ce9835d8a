"""Every section but `[dispatch]`."""

from datetime import timedelta
from pathlib import Path
from typing import Final, Literal

from sidecar.core.definitions.cards.card import SUB_AGENTS_AT_MOST
from sidecar.core.status_events.policy import TYPE_FORM, Handling
from sidecar.settings.section import Section, setting
from sidecar.settings.values import Duration, LoopbackAddress, SocketPath


class SignatureSettings(Section):
    """Answers of data services that are withheld unless they are signed (HMAC-SHA256)."""

    files: dict[str, Path] = setting(
        {}, description="Key files by key id, 32 bytes or more each, readable by the owner only; any of them will do."
    )
    connectors: list[str] = setting([], description="Connectors all of whose answers must be signed.")
    verticals: list[str] = setting([], description="Verticals all of whose agents get signed answers only.")
    tools: list[str] = setting([], description="Tools whose answers must be signed.")

    def _check(self) -> None:
        if bool(self.files) != bool(self.connectors or self.verticals or self.tools):
            raise ValueError("give both: keys in `files`, and in `connectors`, `verticals` or `tools` whose answers")
        wrong = [key_id for key_id in self.files if not (key_id.isascii() and key_id.isalnum())]
        if wrong:
            raise ValueError(f"key ids are letters and digits only: {', '.join(map(repr, wrong))}")


class WorkspaceSettings(Section):
    """Reports on the work of sub-agents, one Markdown file each; see docs/delegation.md."""

    directory: Path | None = setting(
        None,
        description="Where reports go, in a folder for each turn; the directory must exist. Unset: none are written.",
    )


class AuditSettings(Section):
    """Where the audit events of rollouts go; every one is on record before, whatever stands here."""

    sinks: tuple[str, ...] | None = setting(
        None,
        min_length=1,
        description="Audit sinks, each of which gets every event. Unset: `log`, and `otlp` where "
        "`telemetry.otlp_endpoint` is set.",
    )


NOTHING: Final = timedelta(0)
SECOND: Final = timedelta(seconds=1)
MIB: Final = 1024 * 1024


class LimitsSettings(Section):
    """What a connection may ask of the server."""

    message_bytes: int = setting(4 * MIB, ge=64 * 1024, le=64 * MIB, description="Largest message, in bytes.")
    metadata_bytes: int = setting(16_384, ge=1024, description="Most metadata of a call, in bytes.")
    dispatch_streams: int = setting(256, ge=1, description="Most calls at a time on one connection of an orchestrator.")
    agent_streams: int = setting(100, ge=1, description="Most calls at a time on one connection of a sub-agent's host.")


class ServerSettings(Section):
    """Where the sidecar listens, and how it ends."""

    dispatch_socket: SocketPath = setting(
        Path("/run/sidecar/dispatch/sidecar.sock"),
        description="Unix socket for the orchestrator. Its directory is made with mode 0700; an open one is refused.",
    )
    agents_socket: SocketPath = setting(
        Path("/run/sidecar/agents/sidecar.sock"),
        description="Unix socket of the tool gateway, for sub-agents' hosts. The same holds for its directory.",
    )
    ops_address: LoopbackAddress = setting(
        "127.0.0.1:9464", description="Loopback address of /metrics, /healthz and /readyz; port 0: any free one."
    )
    boot_secret_file: Path = setting(
        Path("/run/sidecar/dispatch/boot-secret"),
        description="The secret that every caller of the dispatch socket sends; made with mode 0400 if it is absent.",
    )
    reflection: bool = setting(
        False, description="Describe the services to tools such as `buf curl`. Not in production."
    )
    lame_duck: Duration = setting(
        2 * SECOND, ge=NOTHING, description="After a stop signal, how long calls are still taken while health says no."
    )
    drain_grace: Duration = setting(
        110 * SECOND, gt=NOTHING, description="After a stop signal, how long running dispatches may take to end."
    )
    drain_margin: Duration = setting(
        5 * SECOND, ge=NOTHING, description="After the last of them, how long parents may take to end their turns."
    )
    limits: LimitsSettings = setting(LimitsSettings(), description="What a connection may ask.")

    def _check(self) -> None:
        if self.dispatch_socket == self.agents_socket:
            raise ValueError("dispatch_socket and agents_socket must differ: they admit different callers")


class DefinitionsSettings(Section):
    """Where the agent definitions are."""

    path: Path = setting(description="Folder that holds agent_config.yaml and prompts/components; watched for changes.")
    git_commits: bool = setting(
        True, description="Label definitions with the commit they first appeared in, where the folder is a checkout."
    )
    sub_agents_at_most: int = setting(
        SUB_AGENTS_AT_MOST,
        ge=1,
        le=100,
        description="Sub-agents of one orchestrator that its model is offered: the first of its list. Each costs some "
        "330 tokens of every call (8: 2,600, 10: 3,300, 20: 6,500); those beyond are left out with a warning.",
    )
    expected: tuple[str, ...] = setting(
        (),
        description="Slots, verticals and tools that settings may name although no definition has them yet. Any other "
        "name that nothing has refuses the start.",
    )


class EventSettings(Section):
    """What becomes of one type of progress report."""

    policy: Handling = setting(Handling.FORWARD, description="forward, transform, suppress or batch.")
    becomes: str = setting("", description="The type it is passed on as; with transform only.")
    window: Duration = setting(
        timedelta(milliseconds=500), gt=NOTHING, description="How long reports are gathered; with batch only."
    )

    def _check(self) -> None:
        if (self.policy is Handling.TRANSFORM) != bool(self.becomes):
            raise ValueError("`becomes` belongs to policy `transform`, and to no other")


def _identifiers(events: dict[str, EventSettings]) -> None:
    wrong = [name for name in events if not TYPE_FORM.match(name)]
    if wrong:
        raise ValueError(f"no identifiers (3 to 64 lower-case letters, digits and _): {', '.join(map(repr, wrong))}")


class StatusSettings(Section):
    """Progress reports of sub-agents: the vocabulary, and what becomes of each type."""

    per_second: float = setting(20.0, gt=0, description="Reports a sub-agent may send on average; more are dropped.")
    burst: int = setting(50, ge=1, description="Reports a sub-agent may send at once.")
    still_working_after: Duration = setting(
        2 * SECOND,
        ge=NOTHING,
        description="After so long without a report of a sub-agent that runs, `still_working` is reported for it, and "
        "again after twice, four times ... the time. Only if `events` has that type; 0: never.",
    )
    events: dict[str, EventSettings] = setting(
        {}, check=_identifiers, description="Known types, by name. Unknown ones are dropped."
    )


class PolicyNamesSettings(Section):
    """Which plugins serve a vertical, by name."""

    flags: str | None = setting(None, description="Flag backend; unset: the default's.")
    runner: str | None = setting(None, description="Runner of definitions that name none; unset: the default's.")
    connector: str | None = setting(None, description="Connector of tools that name none; unset: the default's.")
    gates: str | dict[str, str] | None = setting(
        None, description='Gate client, or one by gate, e.g. {pre_merge = "manifest"}; gates not named: the default\'s.'
    )
    lifecycle: tuple[str, ...] | None = setting(None, description="Lifecycle policies; unset: the default's.")


class PlatformPolicySettings(Section):
    """Plugins of all verticals without an entry of their own, by name."""

    flags: str = setting("embedded", description="Flag backend; `embedded` keeps flags in the record's database.")
    runner: str = setting("grpc", description="Runner of definitions that name none.")
    connector: str = setting("rest", description="Connector of tools that name none.")
    memory: str | None = setting(
        None,
        description="Episode memory, which keeps the conversations of all verticals; unset: `store` if the record is "
        "in a database, else `in_process`.",
    )
    gates: str | dict[str, str] = setting(
        {}, description="Gate client of all gates, or one by gate (`*`: every other). A gate without a client holds."
    )
    lifecycle: tuple[str, ...] = setting(
        ("platform",), description="Lifecycle policies. The platform's own rules hold whether they are named or not."
    )


class PolicySection(Section):
    """Which plugins serve whom."""

    default: PlatformPolicySettings = setting(
        PlatformPolicySettings(), description="For whatever a vertical does not say."
    )
    verticals: dict[str, PolicyNamesSettings] = setting({}, description="What differs, by vertical.")


class PluginsSettings(Section):
    """Which installed plugins may run."""

    enabled: list[str] = setting(
        [], description="Entry points or distributions; an installed plugin that is not named is never imported."
    )


class TargetsSettings(Section):
    """Where runners find the hosts of sub-agents. A slot's entry wins over its card, a vertical's gives way to it."""

    slots: dict[str, str] = setting({}, description='By slot, e.g. shop = "unix:/run/shop/runner.sock".')
    verticals: dict[str, str] = setting({}, description="By vertical.")


class FlagRefreshSettings(Section):
    """How flags are kept fresh."""

    fetch_deadline: Duration = setting(2 * SECOND, gt=NOTHING, description="Longest one fetch may take.")
    refresh_interval: Duration = setting(
        2 * SECOND, gt=NOTHING, description="A backend is asked so long after its last answer, if it gave no hint."
    )
    quiet_time: Duration = setting(
        timedelta(milliseconds=50), gt=NOTHING, description="Least time between two fetches from one backend."
    )
    max_staleness: Duration = setting(
        10 * SECOND, gt=NOTHING, description="Flags older than this are unreachable: gated sub-agents are left out."
    )

    def _check(self) -> None:
        if self.max_staleness <= self.fetch_deadline + self.refresh_interval:
            raise ValueError("max_staleness must be longer than fetch_deadline and refresh_interval together")


class KeysSettings(Section):
    """The keys that sign surface tokens, shared by all replicas."""

    files: dict[str, Path] = setting(
        {}, description="Key files by key id, 32 bytes or more each, readable by the owner only. None: a key is made."
    )
    signing: str = setting("", description="Id of the key that signs; may be left out where there is one.")

    def _check(self) -> None:
        if self.signing and self.signing not in self.files:
            raise ValueError("`signing` is not the id of a key in `files`")
        if len(self.files) > 1 and not self.signing:
            raise ValueError("there are several keys: say which one is `signing`")
        wrong = [key_id for key_id in self.files if not (key_id.isascii() and key_id.isalnum())]
        if wrong:
            raise ValueError(f"key ids are letters and digits only: {', '.join(map(repr, wrong))}")


class TelemetrySettings(Section):
    """Traces, and a collector. Metrics are always there, on the ops address."""

    grpc_spans: bool = setting(
        False, description="OpenTelemetry's gRPC instrumentation: a span for each call, at some 0.1 ms each."
    )
    trace_ratio: float = setting(
        0.01, ge=0, le=1, description="Share of traces that are sampled, unless a caller says."
    )
    error_emit: bool = setting(
        False,
        description="Write the event `agent.error_emit` for each failure of a sub-agent: sub_agent_id, axis, is_final.",
    )
    otlp_endpoint: str | None = setting(
        None,
        pattern="^https?://",
        description="Where spans, log records and metrics go, over OTLP/gRPC; needs the extra "
        "`dispatch-sidecar[otlp]`. Unset: no spans but gRPC's, and those to the log.",
    )
    otlp_interval: Duration = setting(SECOND, gt=NOTHING, description="How often spans and log records are sent.")
    otlp_metrics_interval: Duration = setting(30 * SECOND, gt=NOTHING, description="How often metrics are sent.")
    otlp_queue: int = setting(
        2048, ge=16, description="Spans, or log records, that may wait for a slow collector; more are dropped."
    )


class LogSettings(Section):
    """How the log is written, on standard error."""

    format: Literal["text", "json"] = setting("text", description="text for people, json for machines.")
    level: Literal["debug", "info", "warning", "error"] = setting("info", description="Least level that is written.")
