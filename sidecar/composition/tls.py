"""The TCP listeners with mutual TLS: the same services as on the sockets, for callers with a listed certificate."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

from msgspec.structs import replace

from sidecar.adapters.tls import Validity, validity_of
from sidecar.composition.parts import Components
from sidecar.observability import call_names
from sidecar.observability.metrics import Metrics
from sidecar.observability.readiness import Readiness
from sidecar.operations.ports import Clock
from sidecar.rpc.authorisation import CallerKind
from sidecar.rpc.listeners import ListenerPlan, SecureAddress
from sidecar.rpc.peers import Peer, PeerTable
from sidecar.settings import SettingsProblem
from sidecar.settings.tls import TlsSettings
from subagents_tls.files import TlsFiles, TlsFilesProblem, WatchedFiles
from subagents_tls.servers import server_credentials

LOOK_SECONDS: Final = 30.0
LISTENER_OF: Final[Mapping[CallerKind, str]] = {
    CallerKind.CONSUMER_AGENT: "dispatch",
    CallerKind.RUNNER_HOST: "agents",
    CallerKind.OPERATOR: "operators",
}
Loop = tuple[str, Callable[[], Coroutine[Any, Any, None]]]


def secure_plans(parts: Components, plans: Sequence[ListenerPlan]) -> tuple[Sequence[ListenerPlan], Sequence[Loop]]:
    """Return the listeners with TLS for those on sockets, and what runs in the background for them.

    Raises:
        SettingsProblem: certificates cannot be used.
    """
    configured = parts.settings.tls
    addresses = dict(configured.listeners.configured)
    files = TlsFiles(
        ca_file=configured.ca_file, certificate_file=configured.certificate_file, key_file=configured.key_file
    )
    try:
        watched = WatchedFiles(files, lambda problem: parts.recorder.anomaly("tls_files_unusable", problem))
    except TlsFilesProblem as problem:
        raise SettingsProblem([f"tls: {problem}"]) from None
    bound: dict[str, str] = {}
    secured = [
        replace(
            plan,
            socket=SecureAddress(
                address=addresses[name],
                credentials=lambda: server_credentials(watched),
                connection_age=configured.connection_age,
                bound=partial(bound.__setitem__, name),
            ),
            entrance=replace(plan.entrance, boot_secret="", peers=peers_of(configured, name, parts.replaced.clock.now)),
        )
        for plan in plans
        if (name := LISTENER_OF.get(plan.entrance.callers, "")) in addresses
    ]
    watch = CertificateWatch(watched, parts.replaced.clock, parts.recorder.anomaly)
    watch.show(parts.metrics, parts.readiness, bound)
    return secured, (("certificates", watch.run),)


def peers_of(configured: TlsSettings, listener: str, now: Callable[[], datetime]) -> PeerTable:
    """Return the table that a listener asks."""
    table: dict[str, Peer] = {}
    for name, peer in configured.peers.items():
        known = Peer(name, frozenset(peer.may), frozenset(peer.slots), frozenset(peer.verticals))
        table.update(dict.fromkeys(peer.identities, known))
    return PeerTable(listener, table, now)


class CertificateWatch:
    """Follows the server's certificate between handshakes, and warns before it expires.

    Args:
        watched: the files.
        clock: says what time it is.
        anomaly: logs and counts what the operator should know.
    """

    def __init__(self, watched: WatchedFiles, clock: Clock, anomaly: Callable[[str, str], None]) -> None:
        self._watched = watched
        self._clock = clock
        self._anomaly = anomaly
        self._warned = 0

    def show(self, metrics: Metrics, readiness: Readiness, bound: Mapping[str, str]) -> None:
        """Show until when the certificate is valid, in a metric and on the page of readiness."""
        metrics.gauge(call_names.TLS_CERTIFICATE_LEFT, "Time until the server certificate expires.", self._seconds_left)
        metrics.gauge(call_names.TLS_CERTIFICATE_LIFE, "For how long the server certificate is valid.", self._life)
        readiness.section("tls", lambda: self._section(bound))

    async def run(self) -> None:
        """Look for ever; owned by the supervisor."""
        while True:
            self.look()
            await asyncio.sleep(LOOK_SECONDS)

    def look(self) -> None:
        """Look once, and warn once for each certificate that should have been renewed."""
        validity, number = self._validity(), self._watched.current().number
        now = self._clock.now()
        if validity is not None and validity.renewal_is_late(now) and number != self._warned:
            self._warned = number
            left = validity.left(now).total_seconds()
            when = f"expires in {left / 3600:.1f} hours" if left > 0 else "has expired"
            text = f"{self._watched.files.certificate_file} {when} ({validity.ends:%Y-%m-%d %H:%M} UTC): renew it"
            self._anomaly("tls_certificate_expires", text)

    def _validity(self) -> Validity | None:
        return validity_of(self._watched.current().certificate or b"")

    def _seconds_left(self) -> float:
        validity = self._validity()
        return 0.0 if validity is None else validity.left(self._clock.now()).total_seconds()

    def _life(self) -> float:
        validity = self._validity()
        return 0.0 if validity is None else validity.life.total_seconds()

    def _section(self, bound: Mapping[str, str]) -> Mapping[str, Any]:
        validity = self._validity()
        return {
            "addresses": dict(bound),
            "certificate_ends": None if validity is None else validity.ends.isoformat(),
            "problem": self._watched.problem,
        }
