"""Builds the TCP listeners with mutual TLS, and watches all certificates of the sidecar.

A TLS listener has the same services as the Unix socket of the same kind; its callers need a certificate that the
settings list. The sidecar also has certificates for the connections that it opens itself.
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
"""Seconds between two checks. Handshakes check the files as well, but an idle listener has none."""
LISTENER_OF: Final[Mapping[CallerKind, str]] = {
    CallerKind.CONSUMER_AGENT: "dispatch",
    CallerKind.RUNNER_HOST: "agents",
    CallerKind.OPERATOR: "operators",
}
SERVER: Final = "tls"
"""The name of the listeners' certificate in reports. Other certificates have the name of their settings section."""
Loop = tuple[str, Callable[[], Coroutine[Any, Any, None]]]


def outgoing_files(settings: Settings, host: PluginHost) -> Mapping[str, TlsFiles]:
    """Return the certificate files of connections that the sidecar opens, by the settings section that names them.

    Only files of built-in plugins are included: an installed plugin decides itself whether it reads its files again.
    """
    files_by_section: dict[str, TlsFiles] = {}
    for kind, sections in plugin_sections(settings).items():
        for name, section in sections.items():
            registered = host.registered.get((kind, name))
            # A section without a registered plugin is refused elsewhere, with a better message.
            if registered is not None and registered.distribution == BUILT_IN:
                # These three settings have the same names in every built-in plugin.
                ca, certificate, key = (
                    Path(section[each]) if section.get(each) else None
                    for each in ("ca_file", "client_certificate_file", "client_key_file")
                )
                with contextlib.suppress(TlsFilesProblem):  # a certificate without its key: the plugin refuses it
                    files = TlsFiles(ca_file=ca, certificate_file=certificate, key_file=key)
                    files_by_section.update({f"{SECTION[kind]}.{name}": files} if files.all else {})
    return files_by_section


def secure_plans(
    parts: Components, plans: Sequence[ListenerPlan], outgoing: Mapping[str, TlsFiles]
) -> tuple[Sequence[ListenerPlan], Sequence[Loop]]:
    """Return a TLS listener for each configured socket listener, and the loop that watches all certificates.

    Args:
        parts: settings, clock, metrics and readiness.
        plans: the listeners on sockets.
        outgoing: files of connections that the sidecar opens, by settings section.

    Raises:
        SettingsProblem: the certificates of the listeners cannot be used.
    """
    configured = parts.settings.tls
    addresses = dict(configured.listeners.configured)
    watch = CertificateWatch(parts.replaced.clock, _in_loop(parts.recorder.anomaly))
    secured: list[ListenerPlan] = []
    bound: dict[str, str] = {}  # by listener: its address with the real port, added once the listener is bound
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
                    credentials=lambda: server_credentials(watched),  # reads the watched files again at each handshake
                    connection_age=configured.connection_age,
                    bound=partial(bound.__setitem__, name),
                ),
                # Without the boot secret: it proves that a caller can read a file of this machine, which a remote
                # caller cannot.
                entrance=replace(
                    plan.entrance, boot_secret="", peers=peers_of(configured, name, parts.replaced.clock.now)
                ),
            )
            for plan in plans
            # Host groups are separated by file permissions, which do not exist on TCP.
            if plan.group is None and (name := LISTENER_OF.get(plan.entrance.callers, "")) in addresses
        ]
    for name, files in outgoing.items():
        # Not read now: a certificate of one data service that is missing must not prevent the start.
        watch.follow_later(name, files)
    watch.show(parts.metrics, parts.readiness, bound)
    return secured, (("certificates", watch.run),)


def _in_loop(anomaly: Callable[[str, str], None]) -> Callable[[str, str], None]:
    """Return a function that may be called in any thread: gRPC reads the files of the listeners in its own thread."""
    # Captured here, because the returned function runs in threads that have no loop.
    loop = asyncio.get_running_loop()

    def report(name: str, detail: str) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the sidecar has stopped
            loop.call_soon_threadsafe(anomaly, name, detail)

    return report


def peers_of(configured: TlsSettings, listener: str, now: Callable[[], datetime]) -> PeerTable:
    """Return the peers of one listener by the identity in their certificates."""
    table: dict[str, Peer] = {}
    for name, peer in configured.peers.items():
        rights = Peer(name, frozenset(peer.may), frozenset(peer.slots), frozenset(peer.verticals))
        table.update(dict.fromkeys(peer.identities, rights))
    return PeerTable(listener, table, now)


class FollowedFiles(Struct):
    """The watched files of one certificate.

    Attributes:
        watched: None: the files could not be read so far.
        problem: the reason why they could not be read.
        warned: the number of the version of the files whose expiry was already reported.
    """

    files: TlsFiles
    watched: WatchedFiles | None = None
    problem: str = ""
    warned: int = 0

    @property
    def validity(self) -> Validity | None:
        """The validity of the certificate in use; None: there is no certificate."""
        return None if self.watched is None else validity_of(self.watched.current().certificate or b"")


class CertificateWatch:
    """Watches certificate files also while there are no handshakes: warns before expiry, and reports unusable files.

    Args:
        clock: for the remaining validity.
        anomaly: logs and counts a problem; may be called from any thread.
    """

    def __init__(self, clock: Clock, anomaly: Callable[[str, str], None]) -> None:
        self._clock = clock
        self._anomaly = anomaly
        # By the name in reports: `SERVER`, or the settings section of an outgoing connection.
        self._followed: dict[str, FollowedFiles] = {}

    def follow(self, name: str, files: TlsFiles) -> WatchedFiles:
        """Watch files from now on; return the reader for their user. Raises `TlsFilesProblem`."""
        watched = WatchedFiles(files, partial(self._unusable, name), now=self._clock.now)
        self._followed[name] = FollowedFiles(files, watched)
        return watched

    def follow_later(self, name: str, files: TlsFiles) -> None:
        """Watch files that a plugin reads itself. Files that cannot be used are reported and tried again."""
        # The first attempt to read them is made by `run`.
        self._followed[name] = FollowedFiles(files)

    def show(self, metrics: Metrics, readiness: Readiness, bound: Mapping[str, str]) -> None:
        """Show the validity of the certificates in metrics and on the readiness page, there with `bound`."""
        left = "Time until a certificate expires, by the section of the settings that names it."
        whole = "For how long a certificate is valid in all, from its beginning to its end."
        metrics.gauges(call_names.TLS_CERTIFICATE_LEFT, left, self._seconds_left, "section")
        metrics.gauges(call_names.TLS_CERTIFICATE_LIFE, whole, self._life, "section")
        readiness.section("tls", lambda: self._section(bound))
        readiness.watch(self._late_renewals)

    async def run(self) -> None:
        """Check the certificates for ever; the supervisor owns this loop."""
        while True:
            self.look()
            await asyncio.sleep(LOOK_SECONDS)

    def look(self) -> None:
        """Check once; warn once for each certificate that should have been renewed."""
        now = self._clock.now()
        for name, followed in self._current():
            # Late in relation to the whole validity of the certificate: with a fixed time, a certificate that is valid
            # for one day would always be late.
            validity, watched = followed.validity, followed.watched
            if validity is None or watched is None or not validity.renewal_is_late(now):
                continue
            number, left = watched.current().number, validity.left(now).total_seconds()
            if left > 0 and number != followed.warned:  # one that has expired is reported as unusable
                # Once for each version of the files: after a renewal that is late again, a new warning is due.
                followed.warned = number
                when = f"expires in {left / 3600:.1f} hours ({validity.ends:%Y-%m-%d %H:%M} UTC)"
                self._anomaly("tls_certificate_expires", f"{name}: {followed.files.certificate_file} {when}: renew it")

    def _current(self) -> Iterator[tuple[str, FollowedFiles]]:
        """Yield all certificates, after another attempt to read the missing ones."""
        for name, followed in self._followed.items():
            if followed.watched is None:
                try:
                    followed.watched = WatchedFiles(followed.files, partial(self._unusable, name), now=self._clock.now)
                    followed.problem = ""
                except TlsFilesProblem as problem:
                    # Reported once for each reason, and not every 30 seconds.
                    if str(problem) != followed.problem:
                        followed.problem = str(problem)
                        self._unusable(name, followed.problem)
            else:
                # Reads the files again if they have changed; problems go to `_unusable`.
                followed.watched.current()
            yield name, followed

    def _unusable(self, name: str, problem: str) -> None:
        self._anomaly("tls_files_unusable", f"{name}: {problem}")

    def _late_renewals(self) -> Iterator[str]:
        """Yield a sentence about each certificate that should have been renewed."""
        now = self._clock.now()
        for name, followed in self._followed.items():
            if (validity := followed.validity) is not None and validity.renewal_is_late(now):
                verb = "expires" if validity.ends > now else "expired"
                yield f"the certificate of {name} {verb} on {validity.ends:%Y-%m-%d %H:%M} UTC: renew it"

    def _seconds_left(self) -> Mapping[tuple[str, ...], float]:
        now = self._clock.now()
        return {
            (name,): each.left(now).total_seconds() for name, followed in self._current() if (each := followed.validity)
        }

    def _life(self) -> Mapping[tuple[str, ...], float]:
        return {(name,): each.life.total_seconds() for name, followed in self._current() if (each := followed.validity)}

    def _section(self, bound: Mapping[str, str]) -> Mapping[str, Any]:
        return {
            "addresses": dict(bound),
            "certificates": {name: _shown(followed) for name, followed in self._current()},
        }


def _shown(followed: FollowedFiles) -> Mapping[str, Any]:
    """Return what the readiness page shows about one certificate."""
    validity = followed.validity
    return {
        "ends": None if validity is None else validity.ends.isoformat(),
        "problem": followed.problem if followed.watched is None else followed.watched.problem,
    }
