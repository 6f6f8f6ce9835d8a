"""Keys of tokens, operators, checkpoints and data services are replaced under a running sidecar. No call notices."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

import grpc
import msgspec
import pytest

from sidecar.adapters.checkpoints import Ed25519Signer, public_key_file, read_or_make_signer, read_public_keys
from sidecar.composition.parts import Overrides
from sidecar.composition.plugins.token_keys import followed_rules
from sidecar.composition.running import Sidecar, running_sidecar
from sidecar.core.binding.surface_token import SigningKeys, SurfaceClaims, sign_token, verify_token
from sidecar.core.envelopes.signatures import signature_of
from sidecar.core.errors import SurfaceTokenInvalid
from sidecar.core.identifiers import TurnId
from sidecar.core.operators.role_tokens import RoleClaims, seal
from sidecar.core.signatures import Verification
from sidecar.core.verifying.checkpoint_lines import CheckpointLine, line_from
from sidecar.observability import names
from sidecar.observability.metrics import Counter
from sidecar.observability.redaction import REPLACEMENT, Redactor
from sidecar.rpc.authorisation import BOOT_SECRET_KEY
from sidecar.rpc.operators import ROLE_TOKEN_KEY
from sidecar.settings import read_settings
from subagents.dispatch.v1 import dispatch_pb2 as pb
from subagents.dispatch.v1 import dispatch_pb2_grpc
from subagents.lifecycle.v1 import lifecycle_pb2_grpc, reading_pb2
from tests.support.requests import a_bind, failure_from, some_calls
from tests.support.sidecar_process import next_look, place, settings_file

pytestmark = pytest.mark.system

OLD: Final = "0123456789abcdef-old-secret-of-tokens"
NEW: Final = "0123456789abcdef-new-secret-of-tokens"
SETTINGS: Final = """
[keys.files]
a = "{folder}/token.key"

[operators]
socket = "{folder}/operators/sidecar.sock"
deployment = "tests"

[operators.key.ada]
file = "{folder}/ada.pub"
roles = ["viewer"]
subjects = ["ada@example"]

[record.checkpoints]
key_file = "{folder}/checkpoint.key"
interval = "1s"
"""


def replaced(file: Path, content: str | bytes) -> None:
    """Replace a file at once, as whatever rotates keys does."""
    fresh = file.with_name(f".{file.name}")
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as opened:
        opened.write(content.encode() if isinstance(content, str) else content)
    fresh.replace(file)


async def until(is_so: Callable[[], Any]) -> None:
    """Return once something has become so: files are looked at once a second."""
    async with asyncio.timeout(20):
        while True:
            found = is_so()
            if await found if asyncio.iscoroutine(found) else found:
                return
            await next_look()


class Running:
    """A sidecar in this process with keys of every kind, and calls of it."""

    def __init__(self, sidecar: Sidecar, folder: Path, channel: grpc.aio.Channel, desk: grpc.aio.Channel) -> None:
        self.sidecar, self.folder = sidecar, folder
        self._dispatch: Any = dispatch_pb2_grpc.DispatchServiceStub(channel)
        self._desk: Any = lifecycle_pb2_grpc.LifecycleServiceStub(desk)
        self._secret = ((BOOT_SECRET_KEY, sidecar.boot_secret),)
        self._turns = 0

    async def bound(self) -> pb.BindTurnResponse:
        """Bind a new turn."""
        self._turns += 1
        request = a_bind(turn_id=f"turn-{self._turns}", episode_id=f"episode-{self._turns}")
        answer: pb.BindTurnResponse = await self._dispatch.BindTurn(request, metadata=self._secret, timeout=10)
        return answer

    async def dispatched(self, bound: pb.BindTurnResponse, token: str) -> str:
        """Dispatch with a token; return why that is refused, or nothing."""
        request = pb.DispatchRequest(
            surface_token=token,
            binding_digest=bound.surface.binding_digest,
            dispatch_id="d-1",
            calls=some_calls("ask_nobody"),
        )
        unary = pb.DispatchUnaryRequest(dispatch=request)
        try:
            await self._dispatch.DispatchUnary(unary, metadata=self._secret, timeout=10)
        except grpc.aio.AioRpcError as error:
            return failure_from(error).reason
        return ""

    async def ended(self, bound: pb.BindTurnResponse) -> None:
        """Dispatch in a turn and end it, which leaves facts to be signed."""
        assert await self.dispatched(bound, bound.surface_token) == ""
        request = pb.EndTurnRequest(surface_token=bound.surface_token)
        await self._dispatch.EndTurn(request, metadata=self._secret, timeout=10)

    async def listed(self, token: str) -> str:
        """List the rollouts as an operator; return why that is refused, or nothing."""
        try:
            metadata = ((ROLE_TOKEN_KEY, token),)
            await self._desk.ListRollouts(reading_pb2.ListRolloutsRequest(), metadata=metadata, timeout=10)
        except grpc.aio.AioRpcError as error:
            return failure_from(error).reason
        return ""

    def unusable(self) -> float:
        """Return how often key files could not be used."""
        counter = next(each for each in self.sidecar.metrics if each.name == names.ANOMALIES)
        assert isinstance(counter, Counter)
        return counter.series.get(("key_files_unusable",), 0)

    def lines(self) -> list[CheckpointLine]:
        """Return the checkpoints."""
        (file,) = self.folder.rglob("checkpoints.jsonl")
        return [line for row in file.read_bytes().splitlines() if (line := line_from(row)) is not None]


@asynccontextmanager
async def running(redactor: Redactor | None = None) -> AsyncIterator[Running]:
    """Start a sidecar."""
    with place() as folder:
        replaced(folder / "token.key", OLD)
        for name in ("ada", "eve"):
            await asyncio.to_thread(read_or_make_signer, folder / name)
        settings = read_settings(settings_file(folder, SETTINGS.format(folder=folder)), {})
        async with (
            running_sidecar(settings, redactor, Overrides()) as sidecar,
            grpc.aio.insecure_channel(f"unix:{folder}/dispatch/sidecar.sock") as channel,
            grpc.aio.insecure_channel(f"unix:{folder}/operators/sidecar.sock") as desk,
        ):
            yield Running(sidecar, folder, channel, desk)


def keys_of(*secrets: str) -> SigningKeys:
    """Return the keys of the file as another replica has them."""
    return SigningKeys({"a": [each.encode() for each in secrets]}, "a")


def signed_with(token: str, secret: str) -> bool:
    """Say whether a token is signed with a secret."""
    try:
        verify_token(token, keys_of(secret))
    except SurfaceTokenInvalid:
        return False
    return True


def elsewhere(bound: pb.BindTurnResponse, turn_id: str) -> str:
    """Return the token of such a turn that another replica has bound with the old secret."""
    claims: SurfaceClaims = verify_token(bound.surface_token, keys_of(OLD))
    return sign_token(msgspec.structs.replace(claims, turn_id=TurnId(turn_id)), keys_of(OLD))


async def test_the_key_of_tokens_is_replaced_and_tokens_of_the_old_one_hold_while_it_is_in_the_file() -> None:
    """First both, the new one in front; then the new one only. A turn that lives here needs no key at all."""
    redactor = Redactor()
    async with running(redactor) as here:
        first = await here.bound()
        of_other_replicas = (elsewhere(first, f"elsewhere-{number}") for number in count())
        assert signed_with(first.surface_token, OLD)

        replaced(here.folder / "token.key", f"{NEW}\n{OLD}\n")

        async def signs_anew() -> bool:
            return signed_with((await here.bound()).surface_token, NEW)

        await until(signs_anew)
        assert await here.dispatched(first, next(of_other_replicas)) == ""
        assert redactor.clean(f"the secret is {NEW}") == f"the secret is {REPLACEMENT}"

        replaced(here.folder / "token.key", "too short")
        await until(here.unusable)
        assert await signs_anew()

        replaced(here.folder / "token.key", f"{NEW}\n")

        async def refuses_the_old_one() -> bool:
            return await here.dispatched(first, next(of_other_replicas)) == "SURFACE_TOKEN_INVALID"

        await until(refuses_the_old_one)
        assert await here.dispatched(first, first.surface_token) == ""
        assert here.unusable() == 1


def role_token(signer: Ed25519Signer, role: str = "viewer") -> str:
    """Return a valid token of a key."""
    begins = int(time.time())
    said = {"aud": "tests", "sub": "ada@example", "role": role, "jti": "t-1", "kid": signer.key_id}
    return seal(msgspec.convert({**said, "nbf": begins, "exp": begins + 600}, RoleClaims), signer.sign)


async def test_the_key_of_an_operator_is_replaced_with_its_limits() -> None:
    """Both keys, while both are in the file; then the new one only, which may do no more than the old one."""
    async with running() as here:
        old, new = (read_or_make_signer(here.folder / name) for name in ("ada", "eve"))
        assert await here.listed(role_token(old)) == ""
        assert await here.listed(role_token(new)) == "ROLE_TOKEN_INVALID"

        async def admits_both() -> bool:
            return [await here.listed(role_token(each)) for each in (old, new)] == ["", ""]

        replaced(here.folder / "ada.pub", old.public_pem() + new.public_pem())
        await until(admits_both)

        replaced(here.folder / "ada.pub", b"no key")
        await until(here.unusable)
        assert await admits_both()

        async def refuses_the_old_one() -> bool:
            return await here.listed(role_token(old)) == "ROLE_TOKEN_INVALID"

        replaced(here.folder / "ada.pub", new.public_pem())
        await until(refuses_the_old_one)
        assert await here.listed(role_token(new)) == ""
        assert await here.listed(role_token(new, "operator")) == "ROLE_TOKEN_INVALID"


async def test_the_key_of_checkpoints_is_replaced_and_both_public_halves_are_beside_it() -> None:
    """Every line verifies with the file beside the key; the new key signs what comes after the change."""
    async with running() as here:
        key_file = here.folder / "checkpoint.key"
        old = read_or_make_signer(key_file)
        new = read_or_make_signer(here.folder / "next.key")
        await here.ended(await here.bound())
        await until(here.lines)
        assert {line.key_id for line in here.lines()} == {old.key_id}

        replaced(key_file, "no key")
        await until(here.unusable)
        replaced(key_file, (here.folder / "next.key").read_bytes())

        async def signs_with_the_new_one() -> bool:
            await here.ended(await here.bound())
            return here.lines()[-1].key_id == new.key_id

        await until(signs_with_the_new_one)
        judge = read_public_keys([public_key_file(key_file)])
        judged = [judge.judge(line.key_id, line.signed_bytes(), line.signature) for line in here.lines()]
        assert set(judged) == {Verification.FITS}
        assert here.unusable() == 1


async def test_the_key_of_a_data_service_is_replaced_and_an_unusable_file_changes_nothing(tmp_path: Path) -> None:
    """Answers signed with the new key count, those of the old one no longer do; the new secret is redacted first."""
    file, signed, redactor, told = tmp_path / "service.key", b"an answer", Redactor(), list[tuple[str, str]]()
    replaced(file, OLD)
    configured = f'[signatures]\nfiles = {{ k1 = "{file}" }}\ntools = ["offers"]\n'
    settings = read_settings(settings_file(tmp_path, configured), {})
    rules, ((_, follow),) = followed_rules(settings, redactor, lambda *anomaly: told.append(anomaly))
    old, new = (signature_of(signed, "k1", each.encode()) for each in (OLD, NEW))
    following = asyncio.create_task(follow())
    try:
        assert (rules.signatures.is_genuine(signed, old), rules.signatures.is_genuine(signed, new)) == (True, False)
        replaced(file, "too short")
        await until(lambda: told)
        assert rules.signatures.is_genuine(signed, old)
        replaced(file, NEW)
        await until(lambda: rules.signatures.is_genuine(signed, new))
        assert not rules.signatures.is_genuine(signed, old)
        assert redactor.clean(f"the secret is {NEW}") == f"the secret is {REPLACEMENT}"
    finally:
        following.cancel()
    assert [(kind, "signatures.files.k1" in text) for kind, text in told] == [("key_files_unusable", True)]
