"""The settings of the process, read once at the start from a file and the environment.

Definitions and flags are no settings: they are data, which ports read while the process runs (PF1-D-74).
"""

from sidecar.settings.dispatching import DispatchSettings
from sidecar.settings.problems import SettingsProblem
from sidecar.settings.reading import read_settings
from sidecar.settings.sections import (
    KeysSettings,
    LogSettings,
    PolicyNamesSettings,
    StatusSettings,
    TargetsSettings,
    TelemetrySettings,
)
from sidecar.settings.server import LimitsSettings, ServerSettings
from sidecar.settings.settings import Settings

__all__ = [
    "DispatchSettings",
    "KeysSettings",
    "LimitsSettings",
    "LogSettings",
    "PolicyNamesSettings",
    "ServerSettings",
    "Settings",
    "SettingsProblem",
    "StatusSettings",
    "TargetsSettings",
    "TelemetrySettings",
    "read_settings",
]
