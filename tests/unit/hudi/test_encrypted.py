"""Base files that are encrypted: a footer is not read, which would end the process, and a compaction may not make plain ones."""

import pytest

from etc_policy.errors import EngineError
from etc_policy.hudi.blocks import BadLogFile
from etc_policy.hudi.footers import is_encrypted, read_footer
from etc_policy.hudi.parquet import stored_values
from etc_policy.hudi.writer_options import options_of_base_file, require_encrypting
from etc_policy.storage.local import LocalStorage
from tests.encrypted_parquet import write_encrypted

FACTORY = "parquet.crypto.factory.class"
BY_KEYS = "org.apache.parquet.crypto.keytools.PropertiesDrivenCryptoFactory"


def write(path, **encryption):
    import pyarrow

    write_encrypted(path, pyarrow.table({"id": [1, 2], "ts": [5, 6]}), "ts", **encryption)


@pytest.fixture(params=[False, True], ids=["footer too", "plain footer"])
def storage(tmp_path, request):
    """An encrypted base file, and a plain one."""
    write(tmp_path / "f.parquet", plaintext_footer=request.param)
    write(tmp_path / "plain.parquet")
    return LocalStorage(tmp_path)


def test_it_is_seen_whatever_is_encrypted(storage):
    assert is_encrypted(storage, "f.parquet")
    assert not is_encrypted(storage, "plain.parquet")


def test_its_footer_is_not_read(storage):
    """Nothing is asked of a column that is encrypted: pyarrow ends the process."""
    assert read_footer(storage, "f.parquet") is None
    assert list(options_of_base_file(storage, "f.parquet")) == []
    assert read_footer(storage, "plain.parquet").num_rows == 2


def test_an_encrypted_block_is_not_read(storage, tmp_path):
    with pytest.raises(BadLogFile):
        list(stored_values(memoryview((tmp_path / "f.parquet").read_bytes()), ("ts",), "long"))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {FACTORY: BY_KEYS},
        {FACTORY: "", "parquet.encryption.footer.key": "f"},
        {"parquet.encryption.footer.key": "f"},
    ],
)
def test_a_session_that_would_write_plain_files_is_refused(storage, settings):
    with pytest.raises(EngineError, match=r"`f\.parquet` of .* is encrypted") as error:
        require_encrypting(storage, "f.parquet", settings.get)
    assert error.value.code == "ETC324"
    assert f"spark.hadoop.{FACTORY}" in error.value.hint
    require_encrypting(storage, "plain.parquet", settings.get)
    require_encrypting(storage, None, settings.get)


@pytest.mark.parametrize(
    "settings",
    [
        {FACTORY: "org.example.OwnFactory"},
        {FACTORY: BY_KEYS, "parquet.encryption.footer.key": "f"},
        {FACTORY: BY_KEYS, "parquet.encryption.column.keys": "c:ts"},
        {FACTORY: BY_KEYS, "parquet.encryption.uniform.key": "f"},
    ],
)
def test_a_session_with_keys_may_write(storage, settings):
    require_encrypting(storage, "f.parquet", settings.get)


def test_what_is_no_parquet_file_is_not_encrypted(tmp_path):
    (tmp_path / "short.parquet").write_bytes(b"PA")
    (tmp_path / "other.parquet").write_bytes(b"x" * 40)
    storage = LocalStorage(tmp_path)
    for name in ("short.parquet", "other.parquet"):
        require_encrypting(storage, name, {}.get)
        assert read_footer(storage, name) is None
