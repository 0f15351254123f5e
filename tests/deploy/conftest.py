"""The distributions, built from this checkout."""

import sys
from pathlib import Path

import pytest

from tests.deploy.installed import ROOT, run


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return a source distribution, and the wheel that is built from it."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    (source,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    return {"sdist": source, "wheel": wheel}


@pytest.fixture(scope="session")
def wheel(distributions: dict[str, Path]) -> Path:
    return distributions["wheel"]
