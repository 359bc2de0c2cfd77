"""`etc cache`: what etc keeps in the user's home."""

import json

from etc_policy.storage.object_cache import cache_in, tables_cache_in


def test_what_is_kept_can_be_seen_and_cleared_and_nothing_else_goes(etc, monkeypatch, tmp_path):
    folder = tmp_path / "cache"
    monkeypatch.setenv("ETC_CACHE", str(folder))
    cache_in(folder).put("a", b"content")
    tables_cache_in(folder).put("b", b"content")
    tables_cache_in(folder).put("c", b"content")
    (folder / "trust-0123456789abcdef.p12").write_bytes(b"store")
    others = [folder / "objects" / "ab" / "a file of git", folder / "kept.jar"]
    for path in others:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    code, out, _ = etc("cache", "--output", "json")
    assert (code, [one["files"] for one in json.loads(out)["kept"]]) == (0, [1, 2, 1])
    code, out, err = etc("cache", "clear")
    assert (code, "removed 4 files" in err) == (0, True)
    assert sorted(path for path in folder.rglob("*") if path.is_file()) == sorted(others)
    assert etc("cache", "clear")[0] == 0


def test_where_nothing_is_kept_that_is_said(etc, monkeypatch):
    monkeypatch.setenv("ETC_CACHE", "off")
    code, out, err = etc("cache")
    assert (code, out, "nothing is kept" in err) == (0, "", True)
