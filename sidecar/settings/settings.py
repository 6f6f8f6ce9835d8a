"""All settings of one process."""

from typing import Any

from sidecar.settings.dispatching import DispatchSettings
from sidecar.settings.history import HistorySettings
from sidecar.settings.operators import OperatorSettings
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
    ServerSettings,
    SignatureSettings,
    StatusSettings,
    TargetsSettings,
    TelemetrySettings,
    WorkspaceSettings,
)
from sidecar.settings.session import SessionSettings


class Settings(Section):
    """How this process runs. Made by `read_settings`, once, and handed to the composition root."""

    server: ServerSettings = setting(ServerSettings(), description="Where the sidecar listens, and how it ends.")
    operators: OperatorSettings = setting(OperatorSettings(), description="Who may operate the sidecar.")
    definitions: DefinitionsSettings = setting(description="Where the agent definitions are.")
    dispatch: DispatchSettings = setting(description="How the calls of one model response are carried out.")
    session: SessionSettings = setting(SessionSettings(), description="The session lane.")
    status: StatusSettings = setting(StatusSettings(), description="Progress reports of sub-agents.")
    policy: PolicySection = setting(PolicySection(), description="Which plugins serve whom.")
    record: RecordSettings = setting(RecordSettings(), description="Where every sub-agent's work is put on record.")
    rollout: RolloutSettings = setting(RolloutSettings(), description="How sub-agents reach users.")
    audit: AuditSettings = setting(AuditSettings(), description="Where audit events of rollouts go.")
    workspace: WorkspaceSettings = setting(WorkspaceSettings(), description="Reports for people.")
    history: HistorySettings = setting(HistorySettings(), description="How conversations are kept and compacted.")
    plugins: PluginsSettings = setting(PluginsSettings(), description="Which installed plugins may run.")
    targets: TargetsSettings = setting(TargetsSettings(), description="Where runners find the hosts of sub-agents.")
    flag_refresh: FlagRefreshSettings = setting(FlagRefreshSettings(), description="How flags are kept fresh.")
    flags: dict[str, dict[str, Any]] = setting({}, description="Settings of each flag backend, by its name.")
    runners: dict[str, dict[str, Any]] = setting({}, description="Settings of each runner, by its name.")
    connectors: dict[str, dict[str, Any]] = setting({}, description="Settings of each connector, by its name.")
    memories: dict[str, dict[str, Any]] = setting({}, description="Settings of each episode memory, by its name.")
    gates: dict[str, dict[str, Any]] = setting({}, description="Settings of each gate client, by its name.")
    lifecycle: dict[str, dict[str, Any]] = setting({}, description="Settings of each lifecycle policy, by its name.")
    audit_sinks: dict[str, dict[str, Any]] = setting({}, description="Settings of each audit sink, by its name.")
    keys: KeysSettings = setting(KeysSettings(), description="What signs surface tokens.")
    signatures: SignatureSettings = setting(SignatureSettings(), description="Whose answers must be signed.")
    telemetry: TelemetrySettings = setting(TelemetrySettings(), description="What is measured beyond logs and metrics.")
    log: LogSettings = setting(LogSettings(), description="How the log is written.")

    def _check(self) -> None:
        if self.server.drain_grace < self.dispatch.join_timeout + self.dispatch.delivery_margin:
            raise ValueError(
                "server.drain_grace must be at least dispatch.join_timeout and dispatch.delivery_margin together, "
                "so that no dispatch is cut off by a stop"
            )
