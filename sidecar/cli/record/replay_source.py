"""Gets the input of a replay from a running sidecar."""

from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import grpc

from sidecar.core.decoding import DecodeError, from_ascii
from sidecar.core.replaying.document import CannotReplay
from subagents.history.v1 import history_pb2 as pb
from subagents.history.v1 import history_pb2_grpc

BOOT_SECRET_KEY: Final = "x-subagents-boot-secret"  # noqa: S105  the name of the header, not a secret
PATIENCE: Final = timedelta(seconds=60)


def exported(target: str, boot_secret_file: Path, turn_id: str) -> bytes:
    """Return the exported turn.

    Args:
        target: the gRPC target of the sidecar's dispatch socket.
        boot_secret_file: the file with the sidecar's boot secret.
        turn_id: the turn.

    Raises:
        CannotReplay: the sidecar did not export the turn; the message has the cause.
    """
    try:
        secret = from_ascii(boot_secret_file.read_bytes()).strip()
    except (OSError, DecodeError) as problem:
        raise CannotReplay(f"the sidecar's boot secret cannot be read: {problem}; is the sidecar running?") from None
    with grpc.insecure_channel(target) as channel:
        # The committed stubs are typed for asyncio only, and work for both.
        stub: Any = history_pb2_grpc.HistoryServiceStub(channel)  # type: ignore[arg-type]  # the same stubs
        try:
            pieces = stub.ExportReplay(
                pb.ExportReplayRequest(turn_id=turn_id),
                timeout=PATIENCE.total_seconds(),
                metadata=((BOOT_SECRET_KEY, secret),),
            )
            # In pieces, because a message of gRPC is limited in size. Inside `try`: a stream fails while it is read.
            return "".join(piece.document_json for piece in pieces).encode()
        except grpc.RpcError as error:
            call: Any = error  # every such error is a `grpc.Call`, too
            raise CannotReplay(f"the sidecar at {target} answers: {call.details()} ({call.code().name})") from None
