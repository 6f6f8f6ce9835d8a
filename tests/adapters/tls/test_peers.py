"""What a listener with TLS admits by certificate, without a handshake."""

import datetime as dt

import pytest

from sidecar.core.errors import CallerNotAllowed
from sidecar.rpc.peers import Peer, PeerTable
from tests.support.authority import AGENT, Authority


def test_a_certificate_that_has_expired_since_its_handshake_is_refused_at_each_call() -> None:
    """A TLS session that is resumed, or a connection that stays open, brings the certificate of an earlier time."""
    certificate = Authority().issue(AGENT, life=(dt.timedelta(days=-1), dt.timedelta(minutes=5))).certificate
    now = dt.datetime.now(dt.UTC)
    table = PeerTable("dispatch", {AGENT: Peer("agent", frozenset({"dispatch"}))}, lambda: now)
    auth = {"peer_uri": [AGENT.encode()], "peer_spiffe_id": [AGENT.encode()], "x509_pem_cert": [certificate]}

    assert table.admit(auth).name == "agent"
    now += dt.timedelta(minutes=5)
    with pytest.raises(CallerNotAllowed, match="has expired"):
        table.admit(auth)
