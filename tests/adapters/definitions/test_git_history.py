import subprocess
from pathlib import Path

from sidecar.adapters.definitions_directory.git_history import GitHistory
from sidecar.adapters.definitions_directory.loading import load_directory
from sidecar.core.identifiers import Commit, DefinitionId
from tests.corpus.bad_configs.good import BLOCKS, CONFIG, block, edited, write
from tests.support.named_skips import needs_tool
from tests.support.requirement import requirement

SHOP_BLOCK = f"{BLOCKS}/shop/persona-shop.yaml"


class Checkout:
    """A git repository with a configuration in a folder of it."""

    def __init__(self, folder: Path) -> None:
        self.git = needs_tool("git")
        self.folder = folder
        self.root = folder / "config"
        self.run("init", "-q")

    def run(self, *arguments: str) -> str:
        """Run git in the checkout."""
        settings = ("-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
        done = subprocess.run(
            [self.git, *settings, *arguments], cwd=self.folder, check=True, capture_output=True, text=True, timeout=300
        )
        return done.stdout.strip()

    def commit(self) -> Commit:
        """Commit everything and return the commit."""
        self.run("add", "-A")
        self.run("commit", "-q", "--allow-empty", "-m", "change")
        return Commit(self.run("rev-parse", "HEAD"))

    def commits(self, seconds: float = 20.0) -> dict[str, str]:
        """Return the commit of each definition, as loaded now."""
        loaded = load_directory(self.root, commits_of=GitHistory(self.root, seconds).commits_of)
        assert loaded.catalogue is not None
        return {name: card.commit for name, card in loaded.catalogue.cards.items()}


@requirement("PC1-D-35")
def test_a_definition_has_the_commit_in_which_its_digest_first_appeared(tmp_path: Path) -> None:
    """The shop's block changes in the second commit, the orchestrator never; later commits touch neither."""
    checkout = Checkout(tmp_path)
    write(checkout.root)
    first = checkout.commit()
    write(checkout.root, {SHOP_BLOCK: block("persona-shop", "shop") + "  More.\n"})
    second = checkout.commit()
    (tmp_path / "README").write_text("Beside the configuration.")
    checkout.commit()
    write(
        checkout.root,
        {SHOP_BLOCK: block("persona-shop", "shop") + "  More.\n", f"{BLOCKS}/shop/x.yaml": block("x", "shop")},
    )
    checkout.commit()

    assert checkout.commits() == {"concierge": first, "shop": second}


def test_a_change_that_is_not_committed_is_its_own_commit(tmp_path: Path) -> None:
    """The orchestrator keeps its commit, the edited shop has its digest."""
    checkout = Checkout(tmp_path)
    write(checkout.root)
    first = checkout.commit()
    write(checkout.root, {SHOP_BLOCK: block("persona-shop", "shop") + "  More.\n"})

    loaded = load_directory(checkout.root, commits_of=GitHistory(checkout.root).commits_of)

    assert loaded.catalogue is not None
    shop = loaded.catalogue.cards[DefinitionId("shop")]
    assert str(shop.commit) == str(shop.digest)
    assert loaded.catalogue.cards[DefinitionId("concierge")].commit == first


def test_a_state_that_did_not_load_ends_the_run(tmp_path: Path) -> None:
    """Good, broken, good again: the definition came in force with the third commit."""
    checkout = Checkout(tmp_path)
    write(checkout.root)
    checkout.commit()
    (checkout.root / CONFIG).write_text(edited(("role: native", "role: natve")))
    checkout.commit()
    write(checkout.root)
    third = checkout.commit()

    assert set(checkout.commits().values()) == {third}


def test_outside_git_and_out_of_time_the_digest_is_the_commit(tmp_path: Path) -> None:
    """A plain directory; and a checkout with no time to walk it."""
    write(tmp_path / "plain")
    plain = load_directory(tmp_path / "plain", commits_of=GitHistory(tmp_path / "plain").commits_of)
    (tmp_path / "checkout").mkdir()
    checkout = Checkout(tmp_path / "checkout")
    write(checkout.root)
    checkout.commit()

    assert plain.catalogue is not None
    assert all(str(card.commit) == str(card.digest) for card in plain.catalogue.cards.values())
    assert all(commit.startswith("sha256:") for commit in checkout.commits(seconds=0.0).values())
