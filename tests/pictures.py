"""Pictures of the pages for README and docs, in Chromium.

``python -m tests.pictures`` writes them into ``docs/pictures``; the data are recorded incidents.
"""

import tempfile
import time
from pathlib import Path

from tests.agent.web.pages.scene import STUCK, scene, served
from tests.devtools import browser

FOLDER = Path(__file__).parent.parent / "docs" / "pictures"


def main() -> None:
    """Write all pictures."""
    FOLDER.mkdir(exist_ok=True)
    with (
        served(scene(time.time(), more=4)) as address,
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        browser(Path(folder)) as tab,
    ):
        for name, path, width in (
            ("first-page", "/", 1200),
            ("group-page", f"/group?group={STUCK}", 1200),
        ):
            tab.screen(width, height=800)
            tab.open(f"{address}{path}")
            tab.picture(FOLDER / f"{name}.png")


if __name__ == "__main__":
    main()
