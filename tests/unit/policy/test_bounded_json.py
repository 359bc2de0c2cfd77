"""What JSON of other hands becomes is bounded by its length, and all of it goes through one place."""

import ast
import re
from pathlib import Path

import pytest

import etc_policy
from etc_policy.policy.bounded_json import MAX_JSON_BYTES, load_json
from etc_policy.table.apply_state import Proof
from tests.unit.hudi.table_folder import operation

ROOMS = Path(etc_policy.__file__).parent
#: Who reads JSON by itself, and whose that is.
READ_THEIR_OWN = {
    "cli/schema.py": "etc's own files",
    "errors/__init__.py": "the installation's own record",
    "hudi/plan_file.py": "etc's own file",
    "integrations/airflow.py": "what etc has printed just now",
    "plan/bundles.py": "etc's own file",
    "policy/bounded_json.py": "all others",
    "verify/catalog.py": "etc's own file",
}
#: These are given what `require_modest` has looked at, in the same module.
LOOK_BEFORE = {"policy/manifest.py"}
_READS = re.compile(r"json\.loads?|from_json|\w+\.model_validate_json")


@pytest.mark.parametrize("many", ["{},", "[],", "0,", '{"":[]},', '"",'])
@pytest.mark.parametrize("form", [str, str.encode])
def test_few_bytes_that_become_much_are_not_read(many, form):
    """A list of 8 million `{}` in the place of models was 7 GB of missing keys, and Rust ended the process over it."""
    with pytest.raises(ValueError, match="more values than etc or Hudi write"):
        load_json(form(f'{{"tables":[{many * 8_000_000}0]}}'))


def test_what_etc_and_hudi_write_is_read_as_far_as_files_are():
    file_id = "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9-0"
    one = operation(file_id, f"{file_id}_1-2-3_20260101000000000.parquet", f".{file_id}_20260101000000000.log.1_0-1-0")
    text = f'{{"kept":[{one.as_json()}]}}'
    assert load_json(f'{{"of":[{",".join([text] * 20_000)}]}}')["of"][-1]["kept"][0]["file_id"] == file_id
    stat = dict.fromkeys(map(str, range(30)), "x" * 30)
    assert load_json(str([stat] * 40_000).replace("'", '"'))[-1] == stat
    assert 100 * len(text) * 500 < MAX_JSON_BYTES


def test_all_json_goes_through_the_one_place():
    found = set()
    for path in ROOMS.rglob("*.py"):
        calls = (node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call))
        names = {ast.unparse(call.func) for call in calls}
        if any(map(_READS.fullmatch, names)):
            found.add(path.relative_to(ROOMS).as_posix())
    assert found == READ_THEIR_OWN.keys() | LOOK_BEFORE
    for name in LOOK_BEFORE:
        assert "require_modest(" in (ROOMS / name).read_text("utf-8")


@pytest.mark.parametrize("number", ["9" * 400, "-" + "9" * 400, "9" * 4_300, "1e400", "-1e400"])
@pytest.mark.parametrize("form", [str, str.encode])
def test_a_number_that_is_too_large_is_not_read(number, form):
    """One of 400 digits is no float, one of 4,301 no text: what is made of either ended commands for all tables."""
    with pytest.raises(ValueError, match="a number"):
        load_json(form(f'{{"x":[{number}]}}'))
    with pytest.raises(ValueError, match=r"a number|valid"):
        Proof.of_json(f'{{"level":"data","until_ms":1,"proved_at_ms":{number}}}'.encode())
    with pytest.raises(ValueError, match="valid"):
        Proof.of_json(f'{{"level":"data","until_ms":1,"proved_at_ms":"{number}"}}'.encode())


@pytest.mark.parametrize("number", ["9" * 20, "-" + "9" * 38])
def test_one_that_is_no_whole_number_of_64_bits_is_a_real_one(number):
    """So may a DECIMAL be in what a commit says of its columns; nobody counts with it."""
    assert load_json(f"[{number}]") == [float(number)]
    with pytest.raises(ValueError, match="valid"):
        Proof.of_json(f'{{"level":"data","until_ms":1,"proved_at_ms":{number}}}'.encode())


def test_numbers_of_64_bits_and_digits_in_texts_are_read():
    assert load_json(f'[{2**63 - 1}, {-(2**63)}, 1.5, 1e300, "{"9" * 400}"]') == [
        2**63 - 1,
        -(2**63),
        1.5,
        1e300,
        "9" * 400,
    ]
    kept = Proof(level="data", until_ms=1, proved_at_ms=2, seen_until="9" * 400)
    assert Proof.of_json(kept.as_json().encode()) == kept
