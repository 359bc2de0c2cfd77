"""The layers of the package hold: see [tool.importlinter] in pyproject.toml."""

import ast
from collections import Counter
from pathlib import Path

from importlinter import cli

import etc_policy

ADAPTERS = Path(etc_policy.__file__).parent / "adapters"


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


def test_files_of_tables_are_touched_by_their_storage_alone():
    touched = []
    with_storage = [path for path in ADAPTERS.glob("spark/*.py") if "adapters.storage" in path.read_text("utf-8")]
    assert len(with_storage) > 5
    for path in [*ADAPTERS.glob("hudi/*.py"), *ADAPTERS.glob("logs/*.py"), *ADAPTERS.glob("gx/*.py"), *with_storage]:
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


def test_no_name_of_a_class_is_there_twice():
    found = Counter(
        node.name
        for file in ADAPTERS.parent.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in found.items() if count > 1] == []


def test_no_class_but_the_facade_and_the_storage_has_more_than_ten_public_methods():
    package = Path(__file__).parents[2] / "etc_policy"
    large = {
        node.name
        for file in package.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.ClassDef)
        and sum(isinstance(one, ast.FunctionDef) and not one.name.startswith(("_", "visit")) for one in node.body) > 10
    }
    assert large == {"Project", "TableStorage", "LocalStorage", "ObjectStorage", "HdfsStorage", "Room"}
