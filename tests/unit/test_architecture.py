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


#: Rooms whose modules reach a table's files by its storage, and why the other rooms need not.
BY_STORAGE = ("gx", "hudi", "logs", "metadata_table")
OTHER_ROOMS = {
    "spark": "of it those modules that use a storage",
    "storage": "it is the door",
    "lease": "locks are files of this machine",
    "outputs": "its files are not those of a table",
    "demo": "Spark writes its table",
}


def test_each_room_of_adapters_is_said_to_reach_files_by_a_storage_or_not():
    rooms = [folder.parent.name for folder in ADAPTERS.glob("*/__init__.py")]
    assert sorted(rooms) == sorted([*BY_STORAGE, *OTHER_ROOMS])


def test_files_of_tables_are_touched_by_their_storage_alone():
    touched = []
    with_storage = [path for path in ADAPTERS.glob("spark/*.py") if "adapters.storage" in path.read_text("utf-8")]
    assert len(with_storage) > 5
    for path in [*(path for room in BY_STORAGE for path in ADAPTERS.glob(f"{room}/*.py")), *with_storage]:
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
    "hudi/carrying.py": "carried log files",
    "hudi/files.py": "carried log files without a plan, the empty file of a commit that was cut off",
    "lease/file_lease.py": "etc's own lease, and the lock of table version 6",
    "spark/completion_repair.py": "wrong completion times",
    "spark/metadata_renewal.py": "the note of what is to be built anew",
    "spark/plan_files.py": "etc's own plan, and what was written for it",
    "storage/shared_file.py": "etc's own state beside a table",
}


def test_few_modules_may_change_the_files_of_a_table():
    def takes_it(path):
        calls = (node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Name))
        return any(node.id in ("open_storage", "open_remote_storage") for node in calls)

    found = {f"{path.parent.name}/{path.name}" for path in ADAPTERS.parent.rglob("*.py") if takes_it(path)}
    assert found - {"storage/door.py"} == CHANGE_TABLES.keys()


def test_no_name_of_a_class_is_there_twice():
    found = Counter(
        node.name
        for file in ADAPTERS.parent.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in found.items() if count > 1] == []


#: Classes that may have more than ten public methods, those that they inherit counted, and why.
LARGE = {
    "Project": "one method for each verb",
    "Readings": "one place picks every adapter that reads",
    "Environment": "one place picks every adapter",
    "_JobEnvironment": "an Environment that knows its git commit",
    "TableStorage": "a TableReader, with one method for each change of a table's files",
    "RemoteStorage": "a TableStorage with versions of its files",
    "LocalStorage": "a TableStorage",
    "ObjectStorage": "a RemoteStorage",
    "HdfsStorage": "a RemoteStorage",
}


def test_few_classes_have_more_than_ten_public_methods_inherited_ones_counted():
    classes = {
        node.name: node
        for file in ADAPTERS.parent.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(node, ast.ClassDef)
    }

    def methods(name):
        own = {one.name for one in classes[name].body if isinstance(one, ast.FunctionDef)}
        bases = (getattr(base, "value", base) for base in classes[name].bases)  # of `Base[T]` the Base
        return own.union(*(methods(base.id) for base in bases if getattr(base, "id", None) in classes))

    public = {name: [one for one in methods(name) if not one.startswith(("_", "visit"))] for name in classes}
    assert {name for name, found in public.items() if len(found) > 10} == LARGE.keys()
