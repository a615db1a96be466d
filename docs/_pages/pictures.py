r"""The README's picture of a leaderboard: `python docs/_pages/pictures.py` (needs Chromium and the extra `test`).

That of SLALOM is what a command writes:

    slalom-bench explain "The plot is thin and the ending is weak, yet I enjoyed every minute of it." \
        --explainer slalom-anchor --plot docs/pictures/slalom.svg
"""

from __future__ import annotations

import shutil
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parent.parent.parent
ROWS = 12
"""Of the first task's table."""
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-sync")


def main() -> None:
    """Photograph the head of the first task's table."""
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=shutil.which("chromium"), args=list(FLAGS))
        page = browser.new_page(viewport={"width": 1000, "height": 900}, device_scale_factor=1.25, color_scheme="light")
        page.goto((ROOT / "leaderboards" / "index.html").as_uri())
        board = page.locator(".board table.front").first
        rows = board.locator("tbody tr")
        last = rows.nth(min(ROWS, rows.count()) - 1).bounding_box()
        box = board.bounding_box()
        assert box is not None
        assert last is not None
        clip = {**box, "height": last["y"] + last["height"] - box["y"]}
        page.screenshot(path=ROOT / "docs" / "pictures" / "leaderboard.png", clip=clip, full_page=True)
        browser.close()


if __name__ == "__main__":
    main()
