"""All settings of one process, and the rules between sections."""

from typing import Any

from sidecar.settings.dispatching import DispatchSettings
from sidecar.settings.history import HistorySettings
from sidecar.settings.operators import OperatorSettings, PrincipalsSettings
from sidecar.settings.record import RecordSettings
from sidecar.settings.rollout import RolloutSettings
from sidecar.settings.section import Section, setting
from sidecar.settings.sections import (
    AuditSettings,
    DefinitionsSettings,
    FlagRefreshSettings,
    KeysSettings,
    LogSettings,
    PluginsSettings,
    PolicySection,
    SignatureSettings,
    StatusSettings,
    TargetsSettings,
    TelemetrySettings,
    WorkspaceSettings,
)
from sidecar.settings.server import ServerSettings
from sidecar.settings.session import SessionSettings
from sidecar.settings.tls import TlsSettings


class Settings(Section):
    """The settings of this process, which `read_settings` reads once for the composition root."""

    server: ServerSettings = setting(ServerSettings(), description="Listeners, and the behaviour on shutdown.")
    tls: TlsSettings = setting(TlsSettings(), description="TCP listeners with mutual TLS.")
    operators: OperatorSettings = setting(OperatorSettings(), description="Operators and their listener.")
    principals: PrincipalsSettings | None = setting(
        None, description="Issuer of user tokens. Unset: the consumer-agent asserts the principal."
    )
    definitions: DefinitionsSettings = setting(description="Location of the agent definitions.")
    dispatch: DispatchSettings = setting(description="Execution of the calls of one model response.")
    session: SessionSettings = setting(SessionSettings(), description="The session lane.")
    status: StatusSettings = setting(StatusSettings(), description="Progress reports of sub-agents.")
    policy: PolicySection = setting(PolicySection(), description="Selection of plugins.")
    record: RecordSettings = setting(RecordSettings(), description="The durable record of all turns.")
    rollout: RolloutSettings = setting(RolloutSettings(), description="Rollout of sub-agents.")
    audit: AuditSettings = setting(AuditSettings(), description="Destinations of the audit events of rollouts.")
    workspace: WorkspaceSettings = setting(WorkspaceSettings(), description="Markdown reports about sub-agents.")
    history: HistorySettings = setting(HistorySettings(), description="Storage and compaction of conversations.")
    plugins: PluginsSettings = setting(PluginsSettings(), description="Installed plugins that may run.")
    targets: TargetsSettings = setting(TargetsSettings(), description="Addresses of runner hosts.")
    flag_refresh: FlagRefreshSettings = setting(FlagRefreshSettings(), description="Refresh of flags.")
    flags: dict[str, dict[str, Any]] = setting(
        {}, description="Instances of flag backends, by name: `plugin` and its settings."
    )
    runners: dict[str, dict[str, Any]] = setting(
        {}, description="Instances of runners, by name: `plugin` and its settings."
    )
    connectors: dict[str, dict[str, Any]] = setting(
        {}, description="Instances of connectors, by name: `plugin` and its settings."
    )
    memories: dict[str, dict[str, Any]] = setting(
        {}, description="Instances of episode memories, by name: `plugin` and its settings."
    )
    gates: dict[str, dict[str, Any]] = setting(
        {}, description="Instances of gate clients, by name: `plugin` and its settings."
    )
    lifecycle: dict[str, dict[str, Any]] = setting(
        {}, description="Instances of lifecycle policies, by name: `plugin` and its settings."
    )
    audit_sinks: dict[str, dict[str, Any]] = setting(
        {}, description="Instances of audit sinks, by name: `plugin` and its settings."
    )
    keys: KeysSettings = setting(KeysSettings(), description="Keys that sign surface tokens.")
    signatures: SignatureSettings = setting(
        SignatureSettings(), description="Data services whose responses must be signed."
    )
    telemetry: TelemetrySettings = setting(TelemetrySettings(), description="Traces and the OTLP collector.")
    log: LogSettings = setting(LogSettings(), description="The log.")

    def _check(self) -> None:
        # A dispatch lasts at most the two times together. A shorter grace would stop it before its outcomes are sent.
        if self.server.drain_grace < self.dispatch.join_timeout + self.dispatch.delivery_margin:
            raise ValueError(
                "server.drain_grace must be at least dispatch.join_timeout and dispatch.delivery_margin together, "
                "so that no dispatch is cut off by a stop"
            )
        # A listener without any key could only refuse calls, and an operator would suspect the certificates.
        if self.tls.listeners.operators is not None and not self.operators.configured:
            raise ValueError("tls.listeners.operators needs `operators.keys`, `operators.key` or `operators.issuer`")
