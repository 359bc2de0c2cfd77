"""The site of a made-up project, and Debian's Chromium to open it with. Where CI is set, a missing browser is a failure."""

import os
import shutil
from dataclasses import replace

import pytest

from etc_policy.api import site as site_module
from etc_policy.cli.main import main
from etc_policy.policy.files import read_template
from etc_policy.report.site import render_site, site_view
from tests.site.made_up import MARKUP, NOW, add_odd_runs, make_project

FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-sync"]
FLAGS += ["--disable-background-networking", "--disable-component-update"]


@pytest.fixture(scope="session")
def project(tmp_path_factory):
    """A project with a day of history, kept runs and odd ones."""
    folder = make_project(tmp_path_factory.mktemp("made_up") / "lake_of_shops", hours=24)
    add_odd_runs(folder)
    return folder


@pytest.fixture(scope="session")
def views(project):
    """The site's view as `etc docs generate` makes it; the site itself is written beside."""
    seen = []

    def keep(*arguments):
        seen.append((arguments, site_view(*arguments)))
        return seen[-1][1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(site_module, "site_view", keep)
        assert main(["docs", "generate", "--project-dir", str(project), "--at", NOW]) == 0
    return seen[0]


@pytest.fixture(scope="session")
def site(project, views):
    """The folder of the site."""
    return project / "target" / "site"


@pytest.fixture(scope="session")
def marked_up_site(views, tmp_path_factory):
    """The same site for policies whose names are markup, which no policy file may have."""
    (name, facts, *rest), _ = views
    renamed = tuple(
        replace(one, policy=one.policy.model_copy(update={"name": f"{MARKUP}{number}", "tags": (MARKUP,)}))
        for number, one in enumerate(facts)
    )
    folder = tmp_path_factory.mktemp("marked_up")
    for path, text in render_site(site_view(f"{name}{MARKUP}", renamed, *rest), read_template).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="session")
def chromium():
    """A browser, started once."""
    path = shutil.which("chromium")
    if path is None and not os.environ.get("CI"):
        pytest.skip("needs Debian's chromium (apt-get install chromium)")
    assert path, "CI is set, and there is no chromium"
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page(chromium):
    """A page of 1280 by 900, light, that notes each request, console message and error."""
    with chromium.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light") as context:
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.requests, page.complaints = [], []
        page.on("request", lambda request: page.requests.append(request.url))
        page.on("console", lambda message: page.complaints.append(message.text))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        yield page
