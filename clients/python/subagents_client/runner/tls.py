"""Mutual TLS of a host at a TCP address, and the sidecars that may call it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import grpc

from subagents_client.channels import UNIX_SCHEMES, watched_files
from subagents_errors import CallerNotAllowed
from subagents_tls.files import TlsFiles
from subagents_tls.identities import identities_of, problem_with_identity
from subagents_tls.servers import server_credentials


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTls:
    """Certificates of a host, which it uses as a server and when it calls tool gateways.

    Attributes:
        files: authority, certificate and key; read again when they change.
        callers: SPIFFE ids or DNS names of the sidecars that may request attempts. Every other caller is refused.
    """

    files: TlsFiles
    callers: Sequence[str]

    def __post_init__(self) -> None:
        """Check `callers`. Raises `ValueError` if the list is empty or an identity is malformed."""
        if isinstance(self.callers, str):
            raise ValueError(f"`callers` is a list of identities, not one text: write [{self.callers!r}]")
        if not self.callers:
            raise ValueError("`callers` is empty: name the SPIFFE ids or DNS names of the sidecars")
        for each in self.callers:
            problem = problem_with_identity(each)
            if problem is not None:
                raise ValueError(f"callers: {problem}")

    def credentials(self, target: str) -> grpc.ServerCredentials:
        """Return the credentials of a server at `target`.

        Raises:
            ValueError: `target` is a Unix socket, or the files cannot be used.
        """
        if target.startswith(UNIX_SCHEMES):
            raise ValueError(f"{target} is a Unix socket, which carries no TLS: leave `tls` out, or use a TCP address")
        return server_credentials(watched_files(self.files))

    def check(self, context: Any) -> None:
        """Raise `CallerNotAllowed` if the caller's certificate has no identity in `callers`."""
        identities = identities_of(context.auth_context())
        if not any(each in self.callers for each in identities):
            shown = ", ".join(identities[:3])[:200] or "a certificate without SPIFFE id and DNS name"
            raise CallerNotAllowed(f"{shown} may not have attempts run here; see `callers` of the host")
