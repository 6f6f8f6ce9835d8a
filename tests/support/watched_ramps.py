"""The watchdog of ramps beside the sidecar of a demo, for tests without an event loop."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Final
from uuid import uuid4

from examples.demo.environment import operator_key
from examples.demo.sidecar_settings import DEPLOYMENT, operator_socket
from sidecar.adapters.checkpoints import read_or_make_signer
from sidecar.cli.evaluation.ramp_watchdog import WatchOptions, watch_ramps
from sidecar.cli.subagent.client import SidecarAddress
from sidecar.cli.subagent.views import OperatorCommands
from sidecar.core.operators.role_tokens import RoleClaims, seal
from sidecar.core.roles import Role

EVERY: Final = 0.5
SECONDS: Final = 60.0


class _Ended(Exception):
    """Ends the watchdog between two rounds."""


@contextmanager
def watched_ramps(folder: Path, metrics_address: str) -> Iterator[None]:
    """Look at the ramps of a demo, and serve the metrics; change nothing.

    Args:
        folder: of the demo.
        metrics_address: IP address and port of `/metrics`.
    """
    ended = threading.Event()
    where = SidecarAddress((f"unix:{operator_socket(folder)}",), _breaker_token(folder))

    def pause(seconds: float) -> None:
        if ended.wait(seconds):
            raise _Ended

    def watch() -> None:
        commands = OperatorCommands(where, StringIO(), StringIO(), pause=pause)
        with suppress(_Ended):
            watch_ramps(lambda: commands, WatchOptions(every=EVERY, dry_run=True, metrics_address=metrics_address))

    watchdog = threading.Thread(target=watch, name="ramp-watchdog")
    watchdog.start()
    try:
        yield
    finally:
        ended.set()
        watchdog.join(SECONDS)


def _breaker_token(folder: Path) -> str:
    signer = read_or_make_signer(operator_key(folder))
    now = int(datetime.now(UTC).timestamp())
    claims = RoleClaims(
        kid=signer.key_id,
        aud=DEPLOYMENT,
        sub="watchdog@tests",
        role=Role.BREAKER,
        nbf=now,
        exp=now + 3600,
        jti=uuid4().hex,
    )
    return seal(claims, signer.sign)
