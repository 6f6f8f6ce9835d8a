"""Serving with mutual TLS."""

from typing import Any

import grpc

from subagents_tls.files import TlsFilesProblem, TlsMaterial, WatchedFiles


def server_credentials(watched: WatchedFiles) -> grpc.ServerCredentials:
    """Return credentials that require a certificate of every client. Each handshake uses the files as they are then.

    Raises:
        TlsFilesProblem: authorities, certificate or key are not configured.
    """
    files = watched.files
    if files.ca_file is None or files.certificate_file is None or files.key_file is None:
        raise TlsFilesProblem("serving with mutual TLS needs the files of authorities, certificate and key")
    served = watched.current()

    def newest() -> grpc.ServerCertificateConfiguration | None:
        """Return what is to be served from now on; None: what is served already. Called in a thread of gRPC."""
        nonlocal served
        now = watched.current()
        if now.number == served.number:
            return None
        served = now
        return _configuration(now)

    first = _configuration(served)
    fetcher: Any = newest  # gRPC's stubs leave out that it may return None
    return grpc.dynamic_ssl_server_credentials(first, fetcher, require_client_authentication=True)


def _configuration(material: TlsMaterial) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration(
        [(material.key or b"", material.certificate or b"")], root_certificates=material.ca
    )
