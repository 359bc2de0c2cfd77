"""Finds and reads a project's files; nothing else in the package opens one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from etc_policy.codes.registry import Code
from etc_policy.errors import Issue, PolicyError, Where

#: The file of the project's settings, in either ending.
PROJECT_FILES = ("etc_project.yml", "etc_project.yaml")
MAX_FILE_BYTES = 1024 * 1024
MAX_FOLDER_DEPTH = 32

YAML_SUFFIXES = (".yml", ".yaml")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file's text; `path` as errors name it, `relative` to the project."""

    path: str
    relative: str
    text: str


@dataclass(frozen=True, slots=True)
class Sources:
    """The files of a project in a stable order, and an issue for each that cannot be read."""

    project_dir: str
    policy_files: tuple[SourceFile, ...]
    template_files: tuple[SourceFile, ...]
    issues: tuple[Issue, ...]


def read_sources(project_dir: str, policies: str = "policies", templates: str = "templates") -> Sources:
    """Every `*.yml` and `*.yaml` of the policies' folder in any depth, and the templates beside it.

    Raises:
        PolicyError: the project has no folder of policies, or no policy file in it; or a folder leaves the project.

    """
    root = Path(project_dir)
    folder = root / policies
    for name in (policies, templates):
        _require_inside(root, name)
    if not folder.is_dir():
        message = f"there is no folder `{policies}` in `{project_dir}`"
        hint = "run `etc init DIR` for a new project, or name the project by `--project-dir DIR`"
        raise PolicyError([Issue(Code.NO_POLICIES, message, hint=hint)])
    issues: list[Issue] = []
    found = sorted(_find(folder, issues, 0), key=lambda file: file.relative_to(root).as_posix())
    if not found and not issues:
        hint = "policy files end in `.yml` or `.yaml`"
        raise PolicyError([Issue(Code.NO_POLICIES, "there is no policy file in the folder", Where(str(folder)), hint)])
    texts = [source for file in found if (source := read_file(file, root, issues)) is not None]
    beside = [Path(entry.path) for entry in _entries(root / templates, issues)] if (root / templates).is_dir() else []
    beside = [file for file in beside if file.suffix.lower() in YAML_SUFFIXES]
    shared = [source for file in beside if (source := read_file(file, root, issues)) is not None]
    issues += two_of_one_name(beside)
    return Sources(str(root.resolve()), tuple(texts), tuple(shared), tuple(issues))


def _require_inside(root: Path, folder: str) -> None:
    """Return if the folder lies in the project.

    Raises:
        PolicyError: it does not.

    """
    try:
        inside = (root / folder).resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError, ValueError):
        inside = False
    if not inside or Path(folder).is_absolute():
        hint = "name a folder of the project under `folders:`"
        where = next((Where(str(file)) for file in _project_files(root)), None)
        raise PolicyError(
            [Issue(Code.LEAVES_PROJECT, f"the folder `{folder[:60]}` is not in the project", where, hint)]
        )


def read_project_file(project_dir: str, issues: list[Issue]) -> SourceFile | None:
    """The project's `etc_project.yml` or `.yaml`, None if it is missing; what is wrong with the file goes to `issues`."""
    root = Path(project_dir)
    found = _project_files(root)
    issues += two_of_one_name(found)
    return read_file(found[0], root, issues) if found else None


def _project_files(root: Path) -> list[Path]:
    return [root / name for name in PROJECT_FILES if os.path.lexists(root / name)]


def two_of_one_name(files: Iterable[Path]) -> Iterator[Issue]:
    """An issue for each file whose name before the ending is that of a file before it: only one of them could count."""
    first: dict[str, Path] = {}
    for file in files:
        if file.stem in first:
            message = f"`{file.name}` and `{first[file.stem].name}` are both there, and only one of them could count"
            yield Issue(Code.TWO_FILES, message, Where(str(file)), "join them in one file, and remove the other")
        first.setdefault(file.stem, file)


def _find(folder: Path, issues: list[Issue], depth: int) -> Iterator[Path]:
    for entry in _entries(folder, issues):
        path = Path(entry.path)
        is_folder = path.is_dir()
        if is_folder and (entry.is_symlink() or depth >= MAX_FOLDER_DEPTH):
            hint = "put the folder itself under `policies`"
            issues.append(Issue(Code.LEAVES_PROJECT, "a linked folder is not followed", Where(str(path)), hint))
        elif is_folder:
            yield from _find(path, issues, depth + 1)
        elif path.suffix.lower() in YAML_SUFFIXES:
            yield path


def _entries(folder: Path, issues: list[Issue]) -> list[os.DirEntry[str]]:
    try:
        return sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as error:
        issues.append(Issue(Code.UNREADABLE, f"cannot list the folder: {error.strerror}", Where(str(folder))))
        return []


def read_file(file: Path, root: Path, issues: list[Issue]) -> SourceFile | None:
    """A regular file below `root`, of a bounded size and in UTF-8; what is wrong with it goes to `issues`."""
    where = Where(str(file))
    try:
        if not file.resolve(strict=True).is_relative_to(root.resolve()):
            hint = "copy the file into the project"
            issues.append(Issue(Code.LEAVES_PROJECT, "the file is a link that leads out of the project", where, hint))
            return None
        if not file.is_file():
            issues.append(Issue(Code.UNREADABLE, "this is not a regular file", where))
            return None
        with file.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        issues.append(Issue(Code.UNREADABLE, f"the file cannot be read: {reason}", where))
        return None
    text = _decode(data, where, issues)
    return None if text is None else SourceFile(str(file), file.relative_to(root).as_posix(), text)


def _decode(data: bytes, where: Where, issues: list[Issue]) -> str | None:
    if len(data) > MAX_FILE_BYTES:
        issues.append(Issue(Code.TOO_BIG, "the file is bigger than 1 MiB", where, "split it into several files"))
        return None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"the file is not UTF-8: byte 0x{data[error.start]:02X} at offset {error.start}"
        issues.append(Issue(Code.NOT_UTF8, message, Where(where.path, line), "save the file as UTF-8"))
        return None
