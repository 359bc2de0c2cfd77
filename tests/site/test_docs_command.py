"""`etc docs`: what is written where, from which sources, and what serves it. No browser needed."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from html.parser import HTMLParser
from urllib.error import URLError

import pytest

from etc_policy.cli.main import main
from etc_policy.report.site import slug
from tests.site.made_up import MARKUP, NOW
from tests.unit.hudi.table_folder import TableFolder


class Tags(HTMLParser):
    """Every start tag of a page with its attributes."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def html(folder):
    return {str(path.relative_to(folder)): path.read_text("utf-8") for path in sorted(folder.rglob("*.html"))}


def test_a_page_for_each_policy(site):
    names = {"orders_ro", "payments_ro", "clicks_ro", "returns_ro"}
    assert set(html(site)) == {"index.html", *(f"tables/{name}.html" for name in names)}


@pytest.mark.parametrize("which", ["site", "marked_up_site"])
def test_markup_is_text_on_every_page(which, request):
    for name, text in html(request.getfixturevalue(which)).items():
        assert MARKUP not in text, name
        tags = Tags(text).found
        assert all("onclick" not in attributes for _, attributes in tags), name
        scripts = [attributes for tag, attributes in tags if tag == "script"]
        assert all(one.get("type") == "application/json" or "assets/" in one.get("src", "") for one in scripts), name


def test_nothing_points_outside(site):
    for name, text in html(site).items():
        for _, attributes in Tags(text).found:
            for key in ("href", "src", "action"):
                assert not (attributes.get(key) or "").startswith(("http:", "https:", "//", "/")), name


def test_a_policy_name_that_is_no_file_name():
    assert slug("orders_ro") == "orders_ro"
    odd = [slug(name) for name in ("../../etc/passwd", "a/b", "a-b", "<b>", "é", "x" * 300)]
    assert len(set(odd)) == len(odd)
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") for name in odd)
    assert all(0 < len(name) <= 70 for name in odd)


def test_the_same_site_from_the_same_sources(site, project, tmp_path):
    assert main(["docs", "generate", "--project-dir", str(project), "--at", NOW, "--out", str(tmp_path)]) == 0
    assert html(tmp_path) == html(site)


def test_a_fresh_machine_has_all_but_the_checks(site, views, project, tmp_path):
    """The tables tell runs, thresholds, bytes and late data; only run files know the checks and what came to nothing."""
    clone = tmp_path / project.name
    shutil.copytree(project, clone, ignore=shutil.ignore_patterns("target"))
    assert main(["docs", "generate", "--project-dir", str(clone), "--at", NOW]) == 0
    here, there = html(site), html(clone / "target" / "site")
    for name in ("orders_ro", "payments_ro"):
        compactions = sum(
            run.compaction is not None for table in views[1].tables for run in table.runs if run.policy == name
        )
        page = there[f"tables/{name}.html"]
        assert page.split('id="runs"')[1].split("</section>")[0].count("not kept here") == compactions > 2
        assert "None are kept where this site was written" in page

    def charts(pages):
        """The figures of a table's charts, whatever the folder."""
        return [part.split("</script>")[0] for part in pages["tables/orders_ro.html"].split('class="series">')[1:]]

    assert charts(here) == charts(there)
    assert len(charts(here)) == 2


def test_what_is_too_late_or_unknown_stands_first(site):
    listed = html(site)["index.html"].split('id="tables"')[1].split("</table>")[0]
    assert re.findall(r'href="tables/(\w+)\.html', listed) == ["clicks_ro", "returns_ro", "payments_ro", "orders_ro"]


def test_a_run_that_compacted_nothing_says_why(site):
    assert "the table changed &lt;script&gt;" in html(site)["tables/orders_ro.html"].split('id="runs"')[1]


def test_the_checks_that_decide_are_shown(views):
    """Those of the newest run that has any; of several of one run the failure, which a weaker check does not outweigh."""
    shown = {table.policy.name: table.checked.check.verification.status for table in views[1].tables if table.checked}
    assert shown == {"orders_ro": "pass", "payments_ro": "error", "clicks_ro": "fail"}


def test_of_a_table_that_has_no_commit_yet_it_does_not_say_that_it_cannot_be_read(tmp_path, capsys):
    TableFolder(tmp_path / "lake" / "a")
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies" / "a.yml").write_text(
        "version: 1\npolicies:\n  - {name: a, table: lake/a, event_time_column: ts, data_latency: 1h}\n"
    )
    assert main(["docs", "generate", "--project-dir", str(tmp_path)]) == 0
    page = (tmp_path / "target/site/tables/a.html").read_text("utf-8")
    assert "no commit yet" in page
    assert "could not be read" not in page


def test_only_what_is_selected(project, tmp_path):
    arguments = ["--select", "orders_ro", "--runs", "2", "--out", str(tmp_path / "a" / "b")]
    assert main(["docs", "generate", "--project-dir", str(project), "--at", NOW, *arguments]) == 0
    pages = html(tmp_path / "a" / "b")
    assert sorted(pages) == ["index.html", "tables/orders_ro.html"]
    assert pages["tables/orders_ro.html"].split('id="runs"')[1].split("</section>")[0].count("<tr>") == 1 + 2
    assert "older: <code>etc history orders_ro</code>" in pages["tables/orders_ro.html"]


def test_pages_that_are_no_more_go_and_nothing_else(project, tmp_path, capsys):
    out = ["--project-dir", str(project), "--at", NOW, "--out", str(tmp_path), "--output", "json"]
    assert main(["docs", "generate", *out]) == 0
    whole = set(json.loads(capsys.readouterr().out)["files"])
    listed = tmp_path / "site.json"
    names = json.loads(listed.read_text())["files"]
    assert set(names) == whole
    old = tmp_path / "runs" / "orders_ro" / "20240304.html"  # as earlier versions wrote them
    old.parent.mkdir(parents=True)
    old.write_text("a run")
    kept = [tmp_path / "mine.html", tmp_path / "tables" / "mine.html"]
    for path in kept:
        path.write_text("mine")
    listed.write_text(
        json.dumps({"files": [*names, "runs/orders_ro/20240304.html", "../outside.html", "mine.html", 7]})
    )
    (tmp_path.parent / "outside.html").write_text("mine")
    assert main(["docs", "generate", *out, "--select", "orders_ro"]) == 0
    part = set(json.loads(capsys.readouterr().out)["files"])
    assert part < whole
    assert all(path.read_text() == "mine" for path in (*kept, tmp_path.parent / "outside.html"))
    assert {path for path in whole if (tmp_path / path).exists()} == part
    assert not old.exists()
    listed.write_text("[" * 100_000)
    assert main(["docs", "generate", *out]) == 0


def test_serve_needs_a_site(project, tmp_path, capsys):
    assert main(["docs", "serve", "--project-dir", str(project), "--out", str(tmp_path)]) == 64
    assert "run `etc docs generate` first" in capsys.readouterr().err


def test_serve_a_port_that_is_taken(project, site, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert main(["docs", "serve", "--project-dir", str(project), "--port", port]) == 64
    assert f"cannot listen on port {port}" in capsys.readouterr().err


def test_serve_on_this_machine_alone(project, site, tmp_path):
    script = tmp_path / "serve.py"
    lines = ["import signal, sys", "from etc_policy.cli.main import main"]
    lines += ["signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job of a shell ignores it"]
    script.write_text("\n".join([*lines, "sys.exit(main())"]))
    command = [sys.executable, "-u", str(script), "docs", "serve", "--project-dir", str(project), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ) as server:
        try:
            address = server.stdout.readline().strip()
            assert address.startswith("http://127.0.0.1:")
            with urllib.request.urlopen(f"{address}tables/orders_ro.html", timeout=10) as answer:
                assert answer.read().decode() == (site / "tables" / "orders_ro.html").read_text("utf-8")
            with pytest.raises(URLError):
                urllib.request.urlopen(f"{address}../../policies/lake.yml", timeout=10)
            listening = subprocess.run(
                ["cat", f"/proc/{server.pid}/net/tcp"], capture_output=True, text=True, check=True
            )
            port = f"{int(address.rstrip('/').rsplit(':', 1)[1]):04X}"
            assert [line.split()[1] for line in listening.stdout.splitlines() if f":{port} 00000000" in line] == [
                f"0100007F:{port}"
            ]
        finally:
            server.send_signal(signal.SIGINT)
            try:
                code = server.wait(timeout=20)
            finally:
                server.kill()
    assert code == 130
