"""Certificates: those of the TCP listeners with mutual TLS, and those that the sidecar shows to others.

The listeners have the same services as those on the sockets, for callers with a listed certificate.
"""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from sidecar.composition.parts import Components
from sidecar.composition.plugins.from_settings import plugin_sections
from sidecar.observability import call_names
from sidecar.observability.metrics import Metrics
from sidecar.observability.readiness import Readiness
from sidecar.operations.ports import Clock
from sidecar.policy.factory import SECTION
from sidecar.policy.loading import BUILT_IN, PluginHost
from sidecar.rpc.authorisation import CallerKind
from sidecar.rpc.listeners import ListenerPlan, SecureAddress
from sidecar.rpc.peers import Peer, PeerTable
from sidecar.settings import Settings, SettingsProblem
from sidecar.settings.tls import TlsSettings
from subagents_tls.files import TlsFiles, TlsFilesProblem, WatchedFiles
from subagents_tls.servers import server_credentials
from subagents_tls.validity import Validity, validity_of

LOOK_SECONDS: Final = 30.0
LISTENER_OF: Final[Mapping[CallerKind, str]] = {
    CallerKind.CONSUMER_AGENT: "dispatch",
    CallerKind.RUNNER_HOST: "agents",
    CallerKind.OPERATOR: "operators",
}
SERVER: Final = "tls"
"""Names the certificate of the listeners, as sections of the settings name those of connections."""
Loop = tuple[str, Callable[[], Coroutine[Any, Any, None]]]


def outgoing_files(settings: Settings, host: PluginHost) -> Mapping[str, TlsFiles]:
    """Return the certificate files of connections that the sidecar opens, by the section that names them.

    Those of the sidecar's own plugins: an installed plugin follows its files, or does not, by rules of its own.
    """
    found: dict[str, TlsFiles] = {}
    for kind, sections in plugin_sections(settings).items():
        for name, section in sections.items():
            registered = host.registered.get((kind, name))
            if registered is not None and registered.distribution == BUILT_IN:
                ca, certificate, key = (
                    Path(section[each]) if section.get(each) else None
                    for each in ("ca_file", "client_certificate_file", "client_key_file")
                )
                with contextlib.suppress(TlsFilesProblem):  # half a pair: the plugin refuses it
                    files = TlsFiles(ca_file=ca, certificate_file=certificate, key_file=key)
                    found.update({f"{SECTION[kind]}.{name}": files} if files.all else {})
    return found


def secure_plans(
    parts: Components, plans: Sequence[ListenerPlan], outgoing: Mapping[str, TlsFiles]
) -> tuple[Sequence[ListenerPlan], Sequence[Loop]]:
    """Return the listeners with TLS for those on sockets, and what follows all certificates in the background.

    Args:
        parts: the settings, and what certificates are shown by.
        plans: the listeners on sockets.
        outgoing: files of connections that the sidecar opens, by what names them.

    Raises:
        SettingsProblem: certificates of the listeners cannot be used.
    """
    configured = parts.settings.tls
    addresses = dict(configured.listeners.configured)
    watch = CertificateWatch(parts.replaced.clock, _in_loop(parts.recorder.anomaly))
    secured: list[ListenerPlan] = []
    bound: dict[str, str] = {}
    if addresses:
        files = TlsFiles(
            ca_file=configured.ca_file, certificate_file=configured.certificate_file, key_file=configured.key_file
        )
        try:
            watched = watch.follow(SERVER, files)
        except TlsFilesProblem as problem:
            raise SettingsProblem([f"tls: {problem}"]) from None
        secured = [
            replace(
                plan,
                socket=SecureAddress(
                    address=addresses[name],
                    credentials=lambda: server_credentials(watched),
                    connection_age=configured.connection_age,
                    bound=partial(bound.__setitem__, name),
                ),
                entrance=replace(
                    plan.entrance, boot_secret="", peers=peers_of(configured, name, parts.replaced.clock.now)
                ),
            )
            for plan in plans
            if plan.group is None and (name := LISTENER_OF.get(plan.entrance.callers, "")) in addresses
        ]
    for name, files in outgoing.items():
        watch.follow_later(name, files)
    watch.show(parts.metrics, parts.readiness, bound)
    return secured, (("certificates", watch.run),)


def _in_loop(anomaly: Callable[[str, str], None]) -> Callable[[str, str], None]:
    """Return what may be called in any thread: gRPC looks at the files of the listeners in its own."""
    loop = asyncio.get_running_loop()

    def report(name: str, detail: str) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the sidecar has stopped
            loop.call_soon_threadsafe(anomaly, name, detail)

    return report


def peers_of(configured: TlsSettings, listener: str, now: Callable[[], datetime]) -> PeerTable:
    """Return the table that a listener asks."""
    table: dict[str, Peer] = {}
    for name, peer in configured.peers.items():
        known = Peer(name, frozenset(peer.may), frozenset(peer.slots), frozenset(peer.verticals))
        table.update(dict.fromkeys(peer.identities, known))
    return PeerTable(listener, table, now)


class FollowedFiles(Struct):
    """Files of one end of connections.

    Attributes:
        watched: None: they could not be read so far.
        problem: why not.
        warned: the number of the material whose end has been announced.
    """

    files: TlsFiles
    watched: WatchedFiles | None = None
    problem: str = ""
    warned: int = 0

    @property
    def validity(self) -> Validity | None:
        """Until when the certificate is valid that is in use; None: there is none."""
        return None if self.watched is None else validity_of(self.watched.current().certificate or b"")


class CertificateWatch:
    """Follows certificates between the handshakes that use them, warns before they expire, and reports what is wrong.

    Args:
        clock: says what time it is.
        anomaly: logs and counts what the operator should know, from any thread.
    """

    def __init__(self, clock: Clock, anomaly: Callable[[str, str], None]) -> None:
        self._clock = clock
        self._anomaly = anomaly
        self._ends: dict[str, FollowedFiles] = {}

    def follow(self, name: str, files: TlsFiles) -> WatchedFiles:
        """Follow files from now on, and return what their user reads them with. Raises `TlsFilesProblem`."""
        watched = WatchedFiles(files, partial(self._unusable, name), now=self._clock.now)
        self._ends[name] = FollowedFiles(files, watched)
        return watched

    def follow_later(self, name: str, files: TlsFiles) -> None:
        """Follow files that others read for themselves; those that cannot be used yet are reported, and tried again."""
        self._ends[name] = FollowedFiles(files)

    def show(self, metrics: Metrics, readiness: Readiness, bound: Mapping[str, str]) -> None:
        """Show until when the certificates are valid, in a metric and on the page of readiness."""
        left = "Time until a certificate expires, by the section of the settings that names it."
        whole = "For how long a certificate is valid in all, from its beginning to its end."
        metrics.gauges(call_names.TLS_CERTIFICATE_LEFT, left, self._seconds_left, "section")
        metrics.gauges(call_names.TLS_CERTIFICATE_LIFE, whole, self._life, "section")
        readiness.section("tls", lambda: self._section(bound))
        readiness.watch(self._late)

    async def run(self) -> None:
        """Look for ever; owned by the supervisor."""
        while True:
            self.look()
            await asyncio.sleep(LOOK_SECONDS)

    def look(self) -> None:
        """Look once, and warn once for each certificate that should have been renewed."""
        now = self._clock.now()
        for name, end in self._current():
            validity, watched = end.validity, end.watched
            if validity is None or watched is None or not validity.renewal_is_late(now):
                continue
            number, left = watched.current().number, validity.left(now).total_seconds()
            if left > 0 and number != end.warned:  # one that has expired is reported as unusable
                end.warned = number
                when = f"expires in {left / 3600:.1f} hours ({validity.ends:%Y-%m-%d %H:%M} UTC)"
                self._anomaly("tls_certificate_expires", f"{name}: {end.files.certificate_file} {when}: renew it")

    def _current(self) -> Iterator[tuple[str, FollowedFiles]]:
        """Yield all ends, after another look at those that could not be read."""
        for name, end in self._ends.items():
            if end.watched is None:
                try:
                    end.watched = WatchedFiles(end.files, partial(self._unusable, name), now=self._clock.now)
                    end.problem = ""
                except TlsFilesProblem as problem:
                    if str(problem) != end.problem:
                        end.problem = str(problem)
                        self._unusable(name, end.problem)
            else:
                end.watched.current()
            yield name, end

    def _unusable(self, name: str, problem: str) -> None:
        self._anomaly("tls_files_unusable", f"{name}: {problem}")

    def _late(self) -> Iterator[str]:
        now = self._clock.now()
        for name, end in self._ends.items():
            if (validity := end.validity) is not None and validity.renewal_is_late(now):
                verb = "expires" if validity.ends > now else "expired"
                yield f"the certificate of {name} {verb} on {validity.ends:%Y-%m-%d %H:%M} UTC: renew it"

    def _seconds_left(self) -> Mapping[tuple[str, ...], float]:
        now = self._clock.now()
        return {(name,): each.left(now).total_seconds() for name, end in self._current() if (each := end.validity)}

    def _life(self) -> Mapping[tuple[str, ...], float]:
        return {(name,): each.life.total_seconds() for name, end in self._current() if (each := end.validity)}

    def _section(self, bound: Mapping[str, str]) -> Mapping[str, Any]:
        return {"addresses": dict(bound), "certificates": {name: _shown(end) for name, end in self._current()}}


def _shown(end: FollowedFiles) -> Mapping[str, Any]:
    validity = end.validity
    return {
        "ends": None if validity is None else validity.ends.isoformat(),
        "problem": end.problem if end.watched is None else end.watched.problem,
    }
