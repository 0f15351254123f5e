"""Pictures of the screens for README and docs: real pages in Chromium, the real terminal view.

``python -m tests.pictures`` writes them into ``docs/pictures``; the data are recorded incidents.
"""

import asyncio
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from agent.cli.top import explain_one
from agent.client.api_client import ask
from agent.terminal.app import TopApp
from tests.agent.web.pages.scene import STUCK, scene, served
from tests.devtools import browser

FOLDER = Path(__file__).parent.parent / "docs" / "pictures"
_WITHIN = 100


def main() -> None:
    """Write all pictures."""
    FOLDER.mkdir(exist_ok=True)
    with served(scene(time.time(), more=4)) as address:
        with (
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
        asyncio.run(_terminal(address))


async def _terminal(address: str) -> None:
    def request(what: str, answer_type: Any = Any, **query: object) -> Any:
        return ask(address, what, answer_type, **query)

    app = TopApp(request, partial(explain_one, request), 1.0)
    async with app.run_test(size=(110, 16)) as pilot:
        for _ in range(_WITHIN):
            await pilot.pause(0.1)
            if app.answers.at:
                break
        await pilot.pause(0.5)
        (FOLDER / "top.svg").write_text(app.export_screenshot(title="rebalance-agent top"))


if __name__ == "__main__":
    main()
