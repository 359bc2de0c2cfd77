"""Draws README's picture: the completeness chart of the demo's site, as a browser shows it.

    make picture

runs `etc demo` before, which writes the site, so that the chart is of a table that was just written, compacted and
verified. Needs Debian's Chromium (`apt-get install chromium`).
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

PAGE = Path("target/site/tables/flights_ro.html")
PICTURE = Path("docs/pictures/completeness.png")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu"]

#: What only a reader with a pointer can use.
HIDE = ".switch, .readout { display: none !important; }"


def draw(page: Path, picture: Path, browser: str) -> None:
    """Write the first chart of `page` to `picture`."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=FLAGS)
        with chromium.new_context(
            viewport={"width": 760, "height": 900}, color_scheme="light", device_scale_factor=1.5, bypass_csp=True
        ) as context:
            shown = context.new_page()
            shown.goto(page.resolve().as_uri())
            shown.add_style_tag(content=HIDE)
            chart = shown.locator("[data-chart=completeness]")
            chart.locator("canvas").wait_for()
            chart.screenshot(path=picture)
        chromium.close()


def main() -> int:
    """Draw the demo's chart; 1 where there is no site or no browser."""
    browser = shutil.which("chromium")
    if browser is None or not PAGE.is_file():
        print("no chromium" if browser is None else f"no {PAGE}: run `make picture`", file=sys.stderr)
        return 1
    PICTURE.parent.mkdir(exist_ok=True)
    draw(PAGE, PICTURE, browser)
    print(f"{PICTURE} ({PICTURE.stat().st_size:,} bytes)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
