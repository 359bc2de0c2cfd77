"""The site as a browser shows it from a folder: nothing from outside, no complaint, links that lead somewhere, charts."""

import json
from urllib.parse import unquote, urlsplit

import pytest

from tests.nightly import nightly

CONTRAST = """() => {
  const channel = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const parts = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const ground = (node) => {
    for (; node; node = node.parentElement) {
      const [r, g, b, alpha = 1] = parts(getComputedStyle(node).backgroundColor);
      if (alpha === 1) return [r, g, b];
    }
    return [255, 255, 255];
  };
  const poor = [];
  for (const node of document.body.querySelectorAll("*")) {
    const own = [...node.childNodes].some((child) => child.nodeType === 3 && child.textContent.trim());
    if (!own || ["SCRIPT", "NOSCRIPT"].includes(node.tagName)) continue;
    const pair = [light(parts(getComputedStyle(node).color)), light(ground(node))].sort((a, b) => b - a);
    const ratio = (pair[0] + 0.05) / (pair[1] + 0.05);
    if (ratio < 4.5) poor.push([node.className || node.tagName, node.textContent.trim().slice(0, 30), ratio.toFixed(2)]);
  }
  return poor;
}"""

#: Pixels of a canvas that have the colour of a CSS variable, give or take what smoothing does to it.
PIXELS = """([selector, name]) => {
  const canvas = document.querySelector(selector + " canvas");
  const probe = document.body.appendChild(document.createElement("i"));
  probe.style.color = `var(--${name})`;
  const wanted = getComputedStyle(probe).color.match(/\\d+/g).map(Number);
  probe.remove();
  const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  let found = 0;
  for (let at = 0; at < data.length; at += 4)
    if (data[at + 3] > 200 && wanted.every((value, part) => Math.abs(data[at + part] - value) < 6)) found += 1;
  return found;
}"""


def wait_for_pixels(page, chart, colour, more_than):
    """A chart is drawn again some time after what changes it: wait until enough of it has the colour."""
    looked_for = [f"[data-chart={chart}]", colour]
    page.wait_for_function(f"wanted => ({PIXELS})(wanted) > {more_than}", arg=looked_for, timeout=20_000)


TARGETS = "[...document.querySelectorAll('a[href], link[rel=stylesheet], script[src]')].map(e => e.href || e.src)"


def pages_of(folder):
    return sorted(folder.rglob("*.html"))


#: What must hold of every page, as expressions; a page is opened once for all of them.
HOLDS = """() => Object.entries({
  "one heading": document.querySelectorAll("h1").length === 1,
  "a language": document.documentElement.lang === "en",
  "table headings with a scope": [...document.querySelectorAll("th")].every((th) => th.scope),
  "charts and regions with a name": [...document.querySelectorAll("[role=img], [role=region]")].every((e) => e.ariaLabel),
  "markup as text": !document.querySelectorAll("[onclick]").length && !["", "taken"].includes(document.title),
  "scripts of the site alone": !document.querySelectorAll("script:not([src]):not([type])").length,
}).filter(([_, holds]) => !holds).map(([name]) => name)"""


FITS = "width => document.documentElement.scrollWidth <= width"


@pytest.mark.parametrize("which", ["marked_up_site", *nightly("site")])
def test_every_page_opens_alone_and_leads_on(which, request, page):
    folder = request.getfixturevalue(which)
    targets = set()
    for path in pages_of(folder):
        page.set_viewport_size({"width": 1280, "height": 900})
        page.goto(path.as_uri())
        assert page.evaluate(HOLDS) == [], path.name
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 900})
            page.wait_for_function(FITS, arg=width, timeout=20_000)  # charts are drawn again in a frame of their own
        targets |= set(page.evaluate(TARGETS))
    assert page.complaints == []
    assert {url for url in page.requests if not url.startswith((folder.as_uri(), "data:,"))} == set()
    missing = [url for url in targets if not (folder / unquote(urlsplit(url).path)).is_file()]
    assert missing == []
    assert len(pages_of(folder)) == 5


@pytest.mark.extended
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_stands_out_from_its_ground(site, page, scheme):
    page.emulate_media(color_scheme=scheme)
    for path in (site / "index.html", *sorted(site.glob("tables/*"))):
        page.goto(path.as_uri())
        assert page.evaluate(CONTRAST) == [], path.name


def series(page, chart):
    return json.loads(page.locator(f"[data-chart={chart}] .series").text_content())


def test_the_completeness_chart_shows_every_compaction_and_all_late_data(site, page):
    page.goto((site / "tables" / "orders_ro.html").as_uri())
    data = series(page, "completeness")
    marks = [mark for mark in data["marks"] if mark]
    assert {"run", "late"} <= set(marks)
    assert page.locator("[data-chart=completeness] .plot").get_attribute("data-marks") == str(len(marks))
    for colour, fewest in (("plot", 500), ("good", 100), ("second", 50), ("bad", 20)):
        wait_for_pixels(page, "completeness", colour, fewest)


def test_the_chart_of_bytes_has_a_bar_for_each_compaction(site, page):
    page.goto((site / "tables" / "orders_ro.html").as_uri())
    runs = len(series(page, "bytes")["x"])
    assert runs > 5
    assert page.locator("[data-chart=bytes] .plot").get_attribute("data-marks") == str(runs)
    wait_for_pixels(page, "bytes", "plot", 1000)
    rows = page.locator("#runs ~ .scroll tbody tr").count()
    assert rows >= runs


@pytest.mark.extended
def test_charts_follow_the_colours_of_the_system(site, page):
    page.emulate_media(color_scheme="dark")
    page.goto((site / "tables" / "orders_ro.html").as_uri())
    wait_for_pixels(page, "bytes", "plot", 1000)
    page.emulate_media(color_scheme="light")
    wait_for_pixels(page, "bytes", "plot", 1000)


def test_charts_by_keyboard(site, page):
    page.goto((site / "tables" / "orders_ro.html").as_uri())
    plot, readout = page.locator("[data-chart=completeness] .plot"), page.locator("[data-chart=completeness] .readout")
    plot.focus()
    page.keyboard.press("End")
    last = readout.text_content()
    assert last.startswith("2024-03-04 12:00:00: RO complete until 2024-03-04 ")
    page.keyboard.press("ArrowLeft")
    assert readout.text_content() not in ("", last)
    page.keyboard.press("Home")
    assert readout.text_content().startswith("2024-03-03 12:00:40")


@pytest.mark.extended
def test_lag_and_event_time(site, page):
    page.goto((site / "tables" / "orders_ro.html").as_uri())
    chosen = page.locator(".switch [aria-pressed=true]")
    assert chosen.text_content() == "Lag behind now"
    page.get_by_role("button", name="Complete until").click()
    assert chosen.text_content() == "Complete until"
    wait_for_pixels(page, "completeness", "plot", 300)
    assert page.complaints == []


def test_the_keyboard_reaches_everything(site, page):
    page.goto((site / "index.html").as_uri())
    wanted = page.evaluate("document.querySelectorAll('a[href], button:not([hidden]), [tabindex=\"0\"]').length")
    seen = []
    for _ in range(wanted):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.outerHTML"))
    assert seen[0].startswith('<a class="skip"')
    assert len(seen) == wanted
    assert "<body" not in seen[-1]


def test_a_failed_check_is_found_from_the_first_page(site, page):
    page.goto((site / "index.html").as_uri())
    page.get_by_role("link", name="checks of payments_ro").click()
    failed = page.locator(".checks > li").first  # what failed stands first
    assert failed.locator(".name").text_content() == "RO to contain RT up to T"
    assert "3 missing, 1 different" in failed.locator(".message").text_content()
    assert failed.locator("details[open] tbody tr").count() == 3
    assert page.url.endswith("tables/payments_ro.html#checks")
    assert page.locator("h3 .chip").first.text_content() == "Failed"
    assert "2 of 4 file groups (seed 7)" in page.locator(".verification > p").first.text_content()
    assert "Not checked, as they need rows: rows to be fresh" in page.locator(".verification").text_content()


@pytest.mark.extended
def test_a_fresh_table_whose_checks_failed_says_so(site, page):
    page.goto((site / "tables" / "payments_ro.html").as_uri())
    page.get_by_role("link", name="the newest checks").click()
    assert page.locator("h3 .chip").first.text_content() == "Failed"


@pytest.mark.extended
def test_a_line_that_rests_on_a_promise_says_so(site, page):
    for name, said in (("clicks_ro", 1), ("orders_ro", 0)):
        page.goto((site / "tables" / f"{name}.html").as_uri())
        assert page.get_by_text("rests on the promise that events come within").count() == said, name


def test_what_could_not_be_read_is_said(site, page):
    page.goto((site / "index.html").as_uri())
    assert "written by a newer version of etc (schema 99" in page.locator(".notice").text_content()
    page.get_by_role("link", name="returns_ro", exact=True).click()
    assert page.locator("h1 .chip").text_content() == "Unknown"
    assert "there is no table at" in page.locator(".notice").text_content()
