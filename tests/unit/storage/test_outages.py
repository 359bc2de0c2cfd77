"""A store that does not answer is worth another try, whichever step of a run meets it."""

from pathlib import Path

import pytest

from etc_policy.errors import RetryableError
from etc_policy.errors.codes import Code
from etc_policy.hudi.discovery import find_tables
from etc_policy.run.carrying import carry_files
from etc_policy.run.run_signs import RunSigns
from etc_policy.storage.local import LocalStorage
from etc_policy.storage.port import StoreUnreachableError
from tests.unit.hudi import test_carrying, test_splitting
from tests.unit.hudi.table_folder import TableFolder, at, base, log


def splitting(folder: Path):
    test_splitting.split(test_splitting.table_in(folder))


def carrying(folder: Path):
    table = TableFolder(folder, version=6)
    table.commit(test_carrying.B, test_carrying.B, base("f1"))
    for version in (1, 2, 3):
        written = log("f1", base_instant=test_carrying.B, version=version, size=10 * version)
        table.commit(at(f"01:00:0{version}"), "", written)
    carry_files(test_carrying.published(table))


def signing(folder: Path):
    folder.mkdir()
    RunSigns(LocalStorage(str(folder)), lambda _: None).remove_beat(at("01:00:00"))


def searching(folder: Path):
    folder.mkdir()
    for found in find_tables(str(folder)):
        raise found


@pytest.mark.parametrize(
    ("step", "method"),
    [
        (splitting, "open"),
        (splitting, "create_from"),
        (carrying, "link_or_copy"),
        (signing, "remove"),
        (searching, "names"),
    ],
)
def test_it_is_an_error_that_another_try_may_not_meet(step, method, tmp_path, monkeypatch):
    whole = getattr(LocalStorage, method)

    def unanswered(storage, path, *more):
        if method == "open" and ".log." not in path:
            return whole(storage, path, *more)
        raise StoreUnreachableError(Code.STORE_UNREACHABLE, "the object store does not answer")

    monkeypatch.setattr(LocalStorage, method, unanswered)
    with pytest.raises(RetryableError, match="does not answer"):
        step(tmp_path / "t")
