"""All settings of one process."""

from typing import Any, Self

from pydantic import Field, model_validator

from sidecar.settings.dispatching import DispatchSettings
from sidecar.settings.history import HistorySettings
from sidecar.settings.operators import OperatorSettings
from sidecar.settings.record import RecordSettings
from sidecar.settings.rollout import RolloutSettings
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
from sidecar.settings.values import Section


class Settings(Section):
    """How this process runs. Made by `read_settings`, once, and handed to the composition root."""

    server: ServerSettings = Field(ServerSettings(), description="Where the sidecar listens, and how it ends.")
    operators: OperatorSettings = Field(OperatorSettings(), description="Who may operate the sidecar.")
    definitions: DefinitionsSettings = Field(description="Where the agent definitions are.")
    dispatch: DispatchSettings = Field(description="How the calls of one model response are carried out.")
    status: StatusSettings = Field(StatusSettings(), description="Progress reports of sub-agents.")
    policy: PolicySection = Field(PolicySection(), description="Which plugins serve whom.")
    record: RecordSettings = Field(RecordSettings(), description="Where every sub-agent's work is put on record.")
    rollout: RolloutSettings = Field(RolloutSettings(), description="How sub-agents reach users.")
    audit: AuditSettings = Field(AuditSettings(), description="Where audit events of rollouts go.")
    workspace: WorkspaceSettings = Field(WorkspaceSettings(), description="Reports for people.")
    history: HistorySettings = Field(HistorySettings(), description="How conversations are kept and compacted.")
    plugins: PluginsSettings = Field(PluginsSettings(), description="Which installed plugins may run.")
    targets: TargetsSettings = Field(TargetsSettings(), description="Where runners find the hosts of sub-agents.")
    flag_refresh: FlagRefreshSettings = Field(FlagRefreshSettings(), description="How flags are kept fresh.")
    flags: dict[str, dict[str, Any]] = Field({}, description="Settings of each flag backend, by its name.")
    runners: dict[str, dict[str, Any]] = Field({}, description="Settings of each runner, by its name.")
    connectors: dict[str, dict[str, Any]] = Field({}, description="Settings of each connector, by its name.")
    memories: dict[str, dict[str, Any]] = Field({}, description="Settings of each episode memory, by its name.")
    gates: dict[str, dict[str, Any]] = Field({}, description="Settings of each gate client, by its name.")
    lifecycle: dict[str, dict[str, Any]] = Field({}, description="Settings of each lifecycle policy, by its name.")
    audit_sinks: dict[str, dict[str, Any]] = Field({}, description="Settings of each audit sink, by its name.")
    keys: KeysSettings = Field(KeysSettings(), description="What signs surface tokens and grants.")
    signatures: SignatureSettings = Field(SignatureSettings(), description="Whose answers must be signed.")
    telemetry: TelemetrySettings = Field(TelemetrySettings(), description="What is measured beyond logs and metrics.")
    log: LogSettings = Field(LogSettings(), description="How the log is written.")

    @model_validator(mode="after")
    def _drain_outlasts_dispatches(self) -> Self:
        if self.server.drain_grace < self.dispatch.join_timeout + self.dispatch.delivery_margin:
            raise ValueError(
                "server.drain_grace must be at least dispatch.join_timeout and dispatch.delivery_margin together, "
                "so that no dispatch is cut off by a stop"
            )
        return self
