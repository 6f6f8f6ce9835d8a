"""A decommission in the life of real processes: killed between its steps, and gone on with by the next one."""

import asyncio
import shutil
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from sidecar.adapters.checkpoints import Ed25519Signer
from sidecar.core.operators.role_tokens import RoleClaims, seal
from sidecar.core.roles import Role
from tests.support.checkouts import a_repository, applied
from tests.support.config_repository import ConfigRepository
from tests.support.operator_desk import typed
from tests.support.requirement import requirement
from tests.support.sidecar_process import SidecarProcess, place, serving

pytestmark = pytest.mark.system

DEPLOYMENT: Final = "tests"
LONGEST_LOAD: Final = 30.0
"""Seconds; a changed configuration is loaded within two."""


@dataclass
class Operations:
    """Who operates, from the command line."""

    folder: Path
    repository: ConfigRepository
    key: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)

    @property
    def settings(self) -> str:
        """What the settings file ends with."""
        file = self.folder / "operator.pub"
        file.write_bytes(self.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
        return (
            f'[rollout]\ntombstone_file = "{self.folder}/kills.jsonl"\n'
            f'[operators]\nsocket = "{self.folder}/o/s.sock"\ndeployment = "{DEPLOYMENT}"\nkeys = ["{file}"]\n'
        )

    async def say(self, *arguments: str) -> tuple[int, str]:
        """Type `sidecar subagent`; return exit code and what was printed."""
        at = ("--target", f"unix:{self.folder}/o/s.sock")
        return await asyncio.to_thread(typed, *arguments, *at, token=self._token())

    async def decommission(self, verb: str, *arguments: str) -> tuple[int, str]:
        """Run a command that takes a reason."""
        return await self.say("decommission", verb, "shop", *arguments, "--reason", "nobody needs it", "--yes")

    async def step(self, *more: str) -> str:
        """Take the next step as soon as the sidecar has loaded what was merged; return what was printed."""
        async with asyncio.timeout(LONGEST_LOAD):
            while True:
                code, said = await self.decommission("step", "--checkout", str(self.repository.root), *more)
                if code == 0:
                    return said
                assert "(TRANSITION_REFUSED)" in said, said

    async def merged(self) -> str:
        """Have the next patch written, and merge it; return what it changed."""
        patch, checkout = self.folder / "shop.patch", str(self.repository.root)
        code, said = await self.say("decommission", "patch", "shop", "--checkout", checkout, "--out", str(patch))
        assert code == 0, said
        return applied(self.repository, patch.read_text())

    @asynccontextmanager
    async def process(self) -> AsyncIterator[SidecarProcess]:
        """Serve; in the end the process is killed as by `kill -9`."""
        async with serving(self.folder, more=self.settings) as sidecar:
            yield sidecar
            sidecar.signal(signal.SIGKILL)
            await sidecar.ended()

    def _token(self) -> str:
        signer, now = Ed25519Signer(self.key), int(datetime.now(UTC).timestamp())
        claims = RoleClaims(
            aud=DEPLOYMENT, sub="ada@example", role=Role.OPERATOR, nbf=now, exp=now + 600, jti="t-1", kid=signer.key_id
        )
        return seal(claims, signer.sign)


@pytest.fixture
def operations() -> Iterator[Operations]:
    """Operations over a configuration repository that the sidecar reads its definitions from."""
    with place() as folder:
        shutil.rmtree(folder / "config")
        yield Operations(folder, a_repository(folder / "config"))


@pytest.mark.seconds(240)
@requirement("PF1-T-22", "PF1-FR-6c")
async def test_a_decommission_goes_on_after_each_kill_and_a_half_done_eval_cleanup_completes(
    operations: Operations,
) -> None:
    """Five processes, each killed; a step that met a dead one is asked again; evaluations are half removed by hand."""
    done: list[Any] = []
    async with operations.process():
        await operations.say("rollback", "shop", "--reason", "it misleads people", "--yes")
        done.append((await operations.decommission("begin"))[0])
    async with operations.process():
        await operations.merged()
        await operations.step()
        revision = _revision((await operations.say("decommission", "status", "shop"))[1])
    again = ("--request-id", "one-step", "--revision", str(revision))
    dead = await operations.decommission("step", "2", *again)
    async with operations.process():
        done.append((await operations.decommission("step", "2", *again))[0])
        done.append((await operations.decommission("step", "2", *again))[0])
        await operations.merged()
        await operations.step()
        await operations.merged()
    async with operations.process():
        await operations.step()
        await operations.decommission("decide", "evals", "remove")
        await operations.decommission("decide", "tools", "retain")
        _half_removed(operations.repository)
    async with operations.process():
        refused = await operations.decommission("step", "--checkout", str(operations.repository.root))
        changed = await operations.merged()
        last = await operations.step()
        repeated = await operations.step("5")
        status = (await operations.say("decommission", "status", "shop"))[1]
        history = (await operations.say("history", "shop"))[1]

    assert (done, dead[0]) == ([0, 0, 0], 2)
    assert refused[0] == 1
    assert "evaluation_manifest.yaml: evaluations of it at datasets.shop_smoke" in refused[1]
    assert "categories.0\n" not in refused[1]
    assert (changed, "done:" in last, "no change" in repeated) == ("M\tevaluation_manifest.yaml", True, True)
    assert "  next: nothing; the decommission has ended\n" in status
    rows = [
        line for line in history.splitlines() if "  decommission " in line
    ]  # those that were refused begin otherwise
    told = [line.split("  decommission ")[1].split()[0] for line in rows]
    assert told == ["begin", "entry", "references", "modules", "blocks", "decide", "decide", "evals_and_tools"]


def _half_removed(repository: ConfigRepository) -> None:
    """Let somebody have begun by hand: the category is gone, the rest is not."""
    file = repository.root / "evaluation_manifest.yaml"
    text = file.read_text()
    after = text.replace("  - name: offers\n    sub_agent: shop\n", "")
    assert after != text
    file.write_text(after)
    repository.commit()


def _revision(status: str) -> int:
    return int(status.partition("revision ")[2].splitlines()[0])
