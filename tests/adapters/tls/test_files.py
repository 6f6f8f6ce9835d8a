"""PEM files are read as a set that fits together; what cannot be used changes nothing and is said once."""

import datetime as dt
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization

from subagents_client.runner.tls import HostTls
from subagents_tls.files import LOOK_SECONDS, TlsFiles, TlsFilesProblem, WatchedFiles
from subagents_tls.identities import problem_with_identity
from tests.support.authority import AGENT, DAY, LOCAL, Authority, Issued


class SteppedSeconds:
    """A monotonic clock that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now

    def pass_look(self) -> None:
        """Let the time between two looks pass."""
        self.now += LOOK_SECONDS


def test_files_are_read_again_when_they_have_changed(tmp_path: Path) -> None:
    """Not before the next look, which is a second later."""
    authority, clock = Authority(), SteppedSeconds()
    first, second = authority.issue(*LOCAL), authority.issue(*LOCAL)
    watched = WatchedFiles(first.written(tmp_path), monotonic=clock)
    assert (watched.current().certificate, watched.current().number) == (first.certificate, 1)
    second.written(tmp_path)
    assert watched.current().certificate == first.certificate
    clock.pass_look()
    assert (watched.current().certificate, watched.current().key) == (second.certificate, second.key)
    assert watched.current().number == 2


def test_a_pair_that_does_not_fit_yet_is_not_used_until_it_does(tmp_path: Path) -> None:
    """The certificate is replaced before the key: between the two, the former pair stays. It is said once."""
    authority, clock, told = Authority(), SteppedSeconds(), list[str]()
    first, second = authority.issue(*LOCAL), authority.issue(*LOCAL)
    watched = WatchedFiles(first.written(tmp_path), told.append, clock)
    Issued(second.authority, second.certificate, first.key).written(tmp_path)
    for _ in range(3):
        clock.pass_look()
        assert watched.current().certificate == first.certificate
    assert len(told) == 1
    assert "does not fit the key; the former certificates stay in use" in told[0]
    assert "does not fit" in watched.problem
    second.written(tmp_path)
    clock.pass_look()
    assert (watched.current().key, watched.problem) == (second.key, "")


def test_a_certificate_that_expires_is_told_once_and_its_successor_ends_that(tmp_path: Path) -> None:
    """The files do not change at that moment, and the other end of a connection only refuses it."""
    authority, clock, told = Authority(), SteppedSeconds(), list[str]()
    now = [dt.datetime.now(dt.UTC)]
    watched = WatchedFiles(authority.issue(*LOCAL).written(tmp_path), told.append, clock, lambda: now[0])
    assert told == []
    now[0] += DAY
    for _ in range(2):
        clock.pass_look()
        watched.current()
    assert [watched.problem] == told
    assert "tls.crt has expired (" in watched.problem
    authority.issue(*LOCAL, life=(-DAY, 3 * DAY)).written(tmp_path)
    clock.pass_look()
    assert (watched.current().number, watched.problem) == (2, "")


def test_a_certificate_that_has_expired_at_the_start_is_told_at_once(tmp_path: Path) -> None:
    """It is used all the same: whatever renews it may come later than the start."""
    told = list[str]()
    WatchedFiles(Authority().issue(*LOCAL, life=(-2 * DAY, -DAY)).written(tmp_path), told.append)
    assert len(told) == 1
    assert "has expired" in told[0]


def test_files_that_come_back_as_they_were_are_no_problem_any_more(tmp_path: Path) -> None:
    """A volume that was away for a moment, with the same content, times and inodes."""
    clock, told = SteppedSeconds(), list[str]()
    watched = WatchedFiles(Authority().issue(*LOCAL).written(tmp_path / "tls"), told.append, clock)
    (tmp_path / "tls").rename(tmp_path / "away")
    clock.pass_look()
    watched.current()
    assert "cannot be read" in watched.problem
    (tmp_path / "away").rename(tmp_path / "tls")
    clock.pass_look()
    watched.current()
    assert (watched.problem, len(told)) == ("", 1)


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda files: files.certificate_file.unlink(), "tls.crt cannot be read: No such file"),
        (lambda files: files.ca_file.write_text("none"), "ca.pem holds no certificate in PEM"),
        (lambda files: files.ca_file.write_bytes(b"\xff"), "ca.pem holds no certificate in PEM"),
        (lambda files: files.key_file.write_text("none"), "is no certificate and key in PEM"),
        (lambda files: files.key_file.chmod(0o644), r"tls.key may be read by every user \(mode 0644\): chmod 0400 it"),
        (lambda files: files.ca_file.write_bytes(b"x" * 1024 * 1025), "ca.pem is over"),
    ],
)
def test_files_that_cannot_be_used_are_refused_with_what_is_wrong(tmp_path: Path, spoil: object, told: str) -> None:
    """At the start. None of the messages shows what a file holds."""
    files = Authority().issue(*LOCAL).written(tmp_path)
    assert callable(spoil)
    spoil(files)
    with pytest.raises(TlsFilesProblem, match=told):
        WatchedFiles(files)


def test_an_encrypted_key_is_refused_and_does_not_ask_for_its_password(tmp_path: Path) -> None:
    """OpenSSL would read a password from the terminal."""
    files = Authority().issue(*LOCAL).written(tmp_path)
    assert files.key_file is not None
    key = serialization.load_pem_private_key(files.key_file.read_bytes(), None)
    form, locked = serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"a password")
    files.key_file.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, locked))
    with pytest.raises(TlsFilesProblem, match="or the key is encrypted"):
        WatchedFiles(files)


def test_a_certificate_needs_its_key(tmp_path: Path) -> None:
    """Half a pair is a mistake in the settings."""
    with pytest.raises(TlsFilesProblem, match="both"):
        TlsFiles(certificate_file=tmp_path / "tls.crt")


def test_no_key_shows_in_a_representation(tmp_path: Path) -> None:
    """Tracebacks show them."""
    issued = Authority().issue(*LOCAL)
    assert issued.key.decode()[30:60] not in repr(WatchedFiles(issued.written(tmp_path)).current())


@pytest.mark.parametrize(
    "identity", [AGENT, "spiffe://td/x", "shop.example", "_svc.shop-1.example"], ids=lambda each: each[:12]
)
def test_these_identities_can_be_listed(identity: str) -> None:
    """SPIFFE ids with a path, and DNS names in small letters."""
    assert problem_with_identity(identity) is None


@pytest.mark.parametrize(
    "identity",
    ["", "*", "*.example", "Shop.example", "CN=shop", "spiffe://td", "spiffe://td/", "spiffe://TD/x", "a/b", "x" * 64],
)
def test_these_identities_could_never_match(identity: str) -> None:
    """A table that holds one has a mistake in it."""
    assert problem_with_identity(identity) is not None


def test_a_key_is_read_again_when_its_mode_is_corrected(tmp_path: Path) -> None:
    """The message says `chmod 0400 it`, which changes neither content nor time of the content."""
    authority, clock = Authority(), SteppedSeconds()
    first, second = authority.issue(*LOCAL), authority.issue(*LOCAL)
    watched = WatchedFiles(first.written(tmp_path), monotonic=clock)
    files = second.written(tmp_path)
    assert files.key_file is not None
    files.key_file.chmod(0o644)
    clock.pass_look()
    assert (watched.current().key, "chmod 0400 it" in watched.problem) == (first.key, True)
    files.key_file.chmod(0o400)
    clock.pass_look()
    assert (watched.current().key, watched.problem) == (second.key, "")


def test_one_text_is_no_list_of_callers(tmp_path: Path) -> None:
    """Its letters would be taken for names, and parts of it would be admitted."""
    files = Authority().issue(*LOCAL).written(tmp_path)
    with pytest.raises(ValueError, match="list of identities"):
        HostTls(files=files, callers="sidecar")
