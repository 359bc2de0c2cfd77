"""The layers of the package hold: see [tool.importlinter] in pyproject.toml."""

import ast
import re
from pathlib import Path

from importlinter import cli

import etc_policy

ROOMS = Path(etc_policy.__file__).parent


def test_import_contracts_are_kept(monkeypatch):
    monkeypatch.chdir(Path(__file__).parents[2])
    assert cli.lint_imports() == 0


#: What opens, lists or changes files by itself.
FILE_CALLS = {
    "open",
    "listdir",
    "scandir",
    "walk",
    "stat",
    "unlink",
    "remove",
    "rename",
    "replace",
    "link",
    "symlink",
    "mkdir",
}


#: Rooms whose modules reach a table's files by its storage, and why the other rooms need not.
BY_STORAGE = ("gx", "hudi")


def test_files_of_tables_are_touched_by_their_storage_alone():
    touched = []
    with_storage = [path for path in ROOMS.glob("spark/*.py") if "etc_policy.storage" in path.read_text("utf-8")]
    assert len(with_storage) > 5
    for path in [*(path for room in BY_STORAGE for path in ROOMS.glob(f"{room}/*.py")), *with_storage]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                is_builtin = isinstance(node.func, ast.Name) and node.func.id == "open"
                is_of_os = isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) in (
                    "os",
                    "os.path",
                    "io",
                )
                if is_builtin or (is_of_os and node.func.attr in FILE_CALLS):
                    touched.append(f"{path.name}: {ast.unparse(node)}")
    assert touched == []


#: The modules that may change a table's files; all others get a TableReader, which mypy holds them to.
CHANGE_TABLES = {
    "run/carrying.py": "carried log files",
    "run/done_store.py": "which events were sent, and the file in a partition that is done",
    "run/splitting.py": "rows that are split off before a plan is published",
    "run/forgetting.py": "etc's own files beside a table",
    "run/table_files.py": "carried log files without a plan, the empty file of a commit that was cut off",
    "run/file_lease.py": "etc's own lease, and the lock of table version 6",
    "spark/metadata_renewal.py": "the note of what is to be built anew",
    "spark/plan_files.py": "etc's own plan, and what was written for it",
    "storage/shared_file.py": "etc's own state beside a table",
}


def test_few_modules_may_change_the_files_of_a_table():
    def takes_it(path):
        calls = (node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Name))
        return any(node.id in ("open_storage", "open_remote_storage") for node in calls)

    found = {f"{path.parent.name}/{path.name}" for path in ROOMS.rglob("*.py") if takes_it(path)}
    assert found - {"storage/open_storage.py"} == CHANGE_TABLES.keys()


def test_regular_expressions_mean_the_same_to_each_python():
    """3.11.2 finds other pieces by possessive quantifiers and atomic groups with named groups in them than 3.11.7."""
    new = re.compile(r"[)\]][+*?]\+|\(\?>")
    texts = (
        (path, node)
        for path in sorted(ROOMS.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )
    assert [f"{path.name}:{node.lineno}" for path, node in texts if new.search(node.value)] == []
