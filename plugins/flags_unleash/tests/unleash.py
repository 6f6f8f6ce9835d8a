"""A real Unleash for tests: one a session, on loopback, over the session's PostgreSQL, installed once from its lock."""

import fcntl
import hashlib
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from tests.support.named_skips import needs_tool
from tests.support.postgres import PostgresServer

LOCK: Final = Path(__file__).parent / "server"
INSTALLED: Final = Path(__file__).parents[3] / ".run" / "unleash"
"""Kept between runs: 190 MB that no test changes. `make clean` takes it away."""
ENVIRONMENT: Final = "production"
CLIENT: Final = f"default:{ENVIRONMENT}.client-s3cret"
OTHER_ENVIRONMENT: Final = "default:development.client-s3cret"
ADMIN: Final = "*:*.admin-s3cret"
SETTINGS: Final = {
    "CHECK_VERSION": "false",
    "DATABASE_PASSWORD": "unused",
    "DATABASE_POOL_MAX": "4",
    "DATABASE_SSL": "false",
    "DATABASE_USERNAME": "postgres",
    "DO_NOT_TRACK": "1",
    "HTTP_HOST": "127.0.0.1",
    "INIT_ADMIN_API_TOKENS": ADMIN,
    "INIT_BACKEND_API_TOKENS": f"{CLIENT},{OTHER_ENVIRONMENT}",
    "LOG_LEVEL": "fatal",
    "NODE_ENV": "production",
    "NODE_OPTIONS": "--max-old-space-size=256 --no-deprecation",
    "SEND_TELEMETRY": "false",
}
NODE: Final = 20
"""Oldest that this Unleash runs on."""
SPARING: Final = ("--omit=optional", "--omit=peer", "--no-bin-links")
"""A quarter less to install; the server needs none of it."""
TO_START: Final = 60.0
TO_INSTALL: Final = 240.0
SOON: Final = 10.0


@dataclass(frozen=True)
class Unleash:
    """The running server."""

    url: str
    client: httpx.Client
    process: subprocess.Popen[bytes]

    def admin(self, method: str, path: str, content: Any = None) -> httpx.Response:
        """Ask the admin API of the project `default`."""
        headers = {"authorization": ADMIN}
        url = f"{self.url}/api/admin/projects/default{path}"
        return self.client.request(method, url, headers=headers, json=content)

    def features(self) -> Mapping[str, Any]:
        """Return the flags as clients see them, by name."""
        answer = self.client.get(f"{self.url}/api/client/features", headers={"authorization": CLIENT})
        return {each["name"]: each for each in answer.json()["features"]}

    def have(self, name: str, *, on: bool, strategies: list[Mapping[str, Any]] | None = None) -> None:
        """Have a flag on or off, with these strategies (unless said: everybody), and wait until clients see it."""
        wanted = strategies if strategies is not None else [share(100)]
        there = self.features().get(name)
        if there is None:
            self.admin("POST", "/features", {"name": name, "type": "kill-switch"}).raise_for_status()
        if there is None or [_plain(each) for each in there["strategies"]] != [_plain(each) for each in wanted]:
            self._strategies(name, wanted)
        self.admin("POST", f"{self._place(name)}/{'on' if on else 'off'}").raise_for_status()
        until = time.monotonic() + SOON
        while not self._shows(name, on, wanted):
            assert time.monotonic() < until, f"clients do not see {name}: {self.features().get(name)}"
            self.runs_on()

    def runs_on(self) -> None:
        """Wait a moment, in which the server must not end."""
        try:
            code = self.process.wait(0.1)
        except subprocess.TimeoutExpired:
            return
        raise AssertionError(f"Unleash has ended with {code}")

    def _shows(self, name: str, on: bool, wanted: list[Mapping[str, Any]]) -> bool:
        seen = self.features().get(name, {"enabled": None, "strategies": []})
        return seen["enabled"] is on and list(map(_plain, seen["strategies"])) == list(map(_plain, wanted))

    def _strategies(self, name: str, wanted: list[Mapping[str, Any]]) -> None:
        place = f"{self._place(name)}/strategies"
        for each in self.admin("GET", place).json():
            self.admin("DELETE", f"{place}/{each['id']}").raise_for_status()
        for strategy in wanted:
            self.admin("POST", place, strategy).raise_for_status()

    @staticmethod
    def _place(name: str) -> str:
        return f"/features/{name}/environments/{ENVIRONMENT}"


def share(percent: int, **more: Any) -> Mapping[str, Any]:
    """Return a gradual rollout."""
    parameters = {"rollout": str(percent), "stickiness": "default", "groupId": "tests"}
    return {"name": "flexibleRollout", "parameters": parameters, "constraints": [], **more}


def _plain(strategy: Mapping[str, Any]) -> tuple[Any, ...]:
    said = strategy.get("parameters", {})
    return strategy["name"], said.get("rollout"), len(strategy.get("constraints", []))


def installed() -> Path:
    """Return the folder with the server, from the lock; skips the test without npm.

    Two runs of one work tree do not install at the same time, and what was broken off is done anew.
    """
    npm = needs_tool("npm")
    lock = (LOCK / "package-lock.json").read_bytes()
    folder = INSTALLED / hashlib.sha256(lock).hexdigest()[:16]
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "installing").open("w") as mine:
        fcntl.flock(mine, fcntl.LOCK_EX)
        if not (folder / "done").exists():
            for name in ("package.json", "package-lock.json"):
                shutil.copy(LOCK / name, folder / name)
            command = [
                npm,
                "ci",
                "--ignore-scripts",
                "--no-audit",
                "--no-fund",
                "--prefer-offline",
                "--silent",
                *SPARING,
            ]
            ended = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True, timeout=TO_INSTALL)
            assert ended.returncode == 0, f"npm ci: {ended.stderr[-2000:]}"
            (folder / "done").touch()
    return folder


@contextmanager
def running_unleash(postgres: PostgresServer) -> Iterator[Unleash]:
    """Start a server over a database of its own; stop it, and only it, at the end."""
    node, folder, port = _node(), installed(), _free_port()
    database = {
        "DATABASE_HOST": str(postgres.socket.parent),
        "DATABASE_PORT": "5432",
        "DATABASE_NAME": postgres.new_database(),
    }
    environment = {"PATH": os.environ["PATH"], **SETTINGS, **database, "HTTP_PORT": str(port)}
    with (folder / f"log-{port}").open("wb") as log:
        command = [node, "node_modules/unleash-server/dist/server.js"]
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        with httpx.Client(trust_env=False, verify=False, timeout=SOON) as client:
            unleash = Unleash(f"http://127.0.0.1:{port}", client, process)
            _until_healthy(unleash, folder / f"log-{port}")
            yield unleash
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(SOON)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        (folder / f"log-{port}").unlink()


@pytest.fixture(scope="session")
def unleash(postgres: PostgresServer) -> Iterator[Unleash]:
    """The session's server."""
    with running_unleash(postgres) as server:
        yield server


def _until_healthy(unleash: Unleash, log: Path) -> None:
    until = time.monotonic() + TO_START
    while time.monotonic() < until:
        try:
            if unleash.client.get(f"{unleash.url}/health").is_success:
                return
        except httpx.HTTPError:
            pass
        unleash.runs_on()
    raise AssertionError(f"Unleash did not start: {log.read_text()[-2000:]}")


def _node() -> str:
    """Return node's program, or skip the test, by name, unless it is there and new enough."""
    node = needs_tool("node", package="nodejs")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True, timeout=SOON).stdout
    found = re.match(r"v(\d+)\.", version)
    if found is None or int(found[1]) < NODE:
        pytest.skip(f"missing tool: node {NODE} or newer (Debian package nodejs); this one is {version.strip()}")
    return node


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port
