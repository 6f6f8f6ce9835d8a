"""The network settings of connector `rest`."""

from sidecar.settings.section import Section, setting


class RestSettings(Section):
    """Settings of connector `rest`. The time for one call is the tool's, not set here."""

    max_connections: int = setting(64, ge=1, le=4096, description="Most connections to all data services together.")
    max_idle_connections: int = setting(16, ge=0, le=4096, description="Most connections kept open between calls.")
    idle_seconds: float = setting(
        4.0, gt=0, le=300, description="A connection idle for longer is closed. Keep it below the service's own limit."
    )
    connect_seconds: float = setting(2.0, gt=0, le=60, description="Longest time for making one connection.")
    max_body_bytes: int = setting(
        1024 * 1024, ge=1024, le=64 * 1024 * 1024, description="Largest answer, after decompression."
    )
    ca_file: str | None = setting(None, description="PEM file of authorities for https; none: the bundled public ones.")
