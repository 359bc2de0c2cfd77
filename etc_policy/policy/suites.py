"""Finds the files of suites: the project's own first, then those that the package ships."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from etc_policy.codes.registry import Code
from etc_policy.errors import Issue, PolicyError
from etc_policy.policy.sources import YAML_SUFFIXES, read_file, two_of_one_name
from etc_policy.policy.suggestions import did_you_mean
from etc_policy.policy.templates import shipped_suite_folders
from etc_policy.policy.yaml_marks import load_marked


def read_suite(name: str, project_dir: Path) -> tuple[str, str]:
    """The path (as named in errors) and text of suite `name`: `suites/<name>.yml` of the project, else the shipped one.

    Raises:
        PolicyError: there is no such suite, there are two, or its file cannot be read.

    """
    for folder in _folders(project_dir):
        found = [file for file in _files(folder) if file.stem == name]
        if two := list(two_of_one_name(found)):
            raise PolicyError(two)
        if found:
            return str(found[0]), _text(found[0], folder.parent)
    known = suite_names(project_dir)
    hint = did_you_mean(name, known) or f"known suites: {', '.join(known) or 'none'}"
    raise PolicyError([Issue(Code.UNKNOWN_SUITE, f"no suite `{name}`; looked for `suites/{name}.yml`", None, hint)])


def suite_names(project_dir: Path) -> tuple[str, ...]:
    """The suites that a policy of this project may name, sorted."""
    return tuple(sorted({file.stem for folder in _folders(project_dir) for file in _files(folder)}))


def own_suite_names(project_dir: Path) -> tuple[str, ...]:
    """The suites that the project itself holds, sorted."""
    return tuple(sorted({file.stem for file in _files(project_dir / "suites")}))


def shipped_suite_names() -> tuple[str, ...]:
    """The suites that the package ships, sorted."""
    return tuple(file.stem for folder in shipped_suite_folders() for file in _files(folder))


def own_suite_contents(names: Collection[str], project_dir: Path) -> dict[str, object]:
    """What those of the named suites say that the project itself holds; of one that is no suite its text, if it has one."""
    contents: dict[str, object] = {}
    for name in sorted({*names} & {*own_suite_names(project_dir)}):
        with suppress(PolicyError):
            path, text = read_suite(name, project_dir)
            contents[name] = text
            value = load_marked(text, path).value
            contents[name] = value["expectations"] if isinstance(value, dict) and "expectations" in value else text
    return contents


def _files(folder: Path) -> list[Path]:
    """The suites in a folder, `.yml` or `.yaml`; none where it cannot be listed."""
    with suppress(OSError):
        return sorted(file for file in folder.iterdir() if file.suffix.lower() in YAML_SUFFIXES)
    return []


def _folders(project_dir: Path) -> list[Path]:
    return [project_dir / "suites", *shipped_suite_folders()]


def _text(file: Path, root: Path) -> str:
    issues: list[Issue] = []
    source = read_file(file, root, issues)
    if source is None:
        raise PolicyError(issues)
    return source.text
