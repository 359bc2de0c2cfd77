"""Finds and reads files: the project's, its suites, and those that the package ships. Nothing else in the room opens one.

A policy file may have open questions: comment lines that begin with `# ?`, as `etc import` writes them.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from etc_policy.errors import Issue, PolicyError, Where
from etc_policy.errors.codes import Code
from etc_policy.policy.locations import glob_matches, split_file_uri
from etc_policy.policy.schema_values import GLOB
from etc_policy.policy.secrets import is_secret, without_secret
from etc_policy.policy.suggestions import did_you_mean
from etc_policy.policy.yaml_marks import load_marked

#: The file of the project's settings, in either ending.
PROJECT_FILES = ("etc_project.yml", "etc_project.yaml")
MAX_FILE_BYTES = 1024 * 1024
MAX_FOLDER_DEPTH = 32

YAML_SUFFIXES = (".yml", ".yaml")

_PACKAGE = Path(__file__).resolve().parents[1]
SCHEMA_FOLDER = _PACKAGE / "schemas"
#: What an editor needs for policy files; `etc init` puts it into the project.
POLICY_SCHEMA = "policy.v1.json"
#: So many folders are looked at for a glob, on the way to what it means too.
_MAX_FOLDERS = 20_000
_URI = re.compile(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]*:/")


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
        message += "" if root.exists() else f": there is no `{project_dir}`"
        hint = "run `etc init DIR` for a new project, or name the project by `--project-dir DIR`"
        raise PolicyError([Issue(Code.NO_POLICIES, message, hint=hint)])
    issues: list[Issue] = []
    found = sorted(_find(folder, root, issues, 0), key=lambda file: file.relative_to(root).as_posix())
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
    """Return if the folder lies in the project."""
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


def _find(folder: Path, root: Path, issues: list[Issue], depth: int) -> Iterator[Path]:
    for entry in _entries(folder, issues):
        path = Path(entry.path)
        leads_out = entry.is_symlink() and _leads_out(path, root)
        is_folder = not leads_out and path.is_dir()
        if leads_out and path.suffix.lower() not in YAML_SUFFIXES:
            hint = "put the folder or file itself there, or remove the link"
            issues.append(Issue(Code.LEAVES_PROJECT, "a link leads out of the project", Where(str(path)), hint))
        elif is_folder and (entry.is_symlink() or depth >= MAX_FOLDER_DEPTH):
            hint = "put the folder itself under `policies`"
            issues.append(Issue(Code.LEAVES_PROJECT, "a linked folder is not followed", Where(str(path)), hint))
        elif is_folder:
            yield from _find(path, root, issues, depth + 1)
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
        if _leads_out(file, root):
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


def _leads_out(path: Path, root: Path) -> bool:
    """Whether links lead to what is not the project's: nobody looks whether it is there. Git keeps keys of its server."""
    real, whole = Path(os.path.realpath(path)), Path(os.path.realpath(root))
    return not real.is_relative_to(whole) or ".git" in real.relative_to(whole).parts


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


def read_suite(name: str, project_dir: Path) -> tuple[str, str]:
    """The path (as named in errors) and text of suite `name`: `suites/<name>.yml` of the project, else the shipped one.

    Raises:
        PolicyError: there is no such suite, there are two, its file cannot be read, or the project's suites lie elsewhere.

    """
    if _leads_out(own := project_dir / "suites", project_dir):
        message, hint = "the folder is a link that leads out of the project", "copy the suites into the project"
        raise PolicyError([Issue(Code.LEAVES_PROJECT, message, Where(str(own)), hint)])
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
    return tuple(sorted({*own_suite_names(project_dir), *shipped_suite_names()}))


def own_suite_names(project_dir: Path) -> tuple[str, ...]:
    """The suites that the project itself holds, sorted; none where their folder is a link out of it, which shows no names."""
    folder = project_dir / "suites"
    return () if _leads_out(folder, project_dir) else tuple(sorted({file.stem for file in _files(folder)}))


def shipped_suite_names() -> tuple[str, ...]:
    """The suites that the package ships, sorted."""
    return tuple(file.stem for folder in shipped_suite_folders() for file in _files(folder))


def own_suite_contents(names: Collection[str], project_dir: Path) -> dict[str, object]:
    """What those of the named suites say that the project itself holds; of one that is no suite its text, if it has one."""
    from etc_policy.policy.yaml_marks import load_marked

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


def read_template(name: str) -> str:
    """The text of a shipped file, such as `demo/flights.yml`.

    Raises:
        FileNotFoundError: the package ships no such file.

    """
    for root, prefix in _roots():
        path = root / name.removeprefix(prefix)
        if name.startswith(prefix) and path.is_file():
            return path.read_text(encoding="utf-8")
    raise FileNotFoundError(name)


def shipped_suite_folders() -> list[Path]:
    """The one folder of suites that the package ships; none where it is missing."""
    return [folder for root, _ in _roots() if (folder := root / "suites").is_dir()][:1]


def read_schemas() -> dict[str, str]:
    """The text of every JSON Schema by its file's name, sorted."""
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(SCHEMA_FOLDER.glob("*.json"))}


def _roots() -> tuple[tuple[Path, str], ...]:
    """The folders of shipped files, and what their names begin with: the wheel carries `policies/` as `templates/demo`."""
    checkout = _PACKAGE.parent
    return (_PACKAGE / "templates", ""), (checkout / "templates", ""), (checkout / "policies", "demo/")


#: Whether the project's files may have a folder looked at, by its path without links.
MayLook = Callable[[str], bool]


def find_tables(
    pattern: str,
    folder: str,
    where: Where,
    issues: list[Issue],
    refused: list[tuple[str, Issue]],
    may_look: MayLook = lambda _: True,
) -> list[str]:
    """The folders of tables that a glob means, sorted; relative paths start from `folder`.

    What is wrong with the files goes to `issues`, and what is wrong with what lies there to `refused`, with its folder.
    """
    if _URI.match(pattern) or (_URI.match(folder) and not pattern.startswith("/")):
        message = "a glob of `for_each` goes over folders of this machine: tables of a store are not listed"
        issues.append(Issue(Code.BAD_FOR_EACH, message, where, "write `tables` in the place of `for_each` and `table`"))
        return []
    shown = str(without_secret(pattern))[:60]
    root, plain = (split[1] if (split := split_file_uri(text)) else text for text in (folder, pattern))
    before, slash, _ = GLOB.split(plain)[0].rpartition("/")
    fixed = _below(root, before or slash)
    if not may_look(os.path.realpath(fixed)):
        place = "FOLDER" if is_secret(pattern) or is_secret(folder) else shlex.quote(fixed)
        hint = f"allow the folder by `--allow {place}` or in ETC_ALLOW, where you know it"
        message = f"files that are not trusted may not look for tables at `{shown}`"
        issues.append(Issue(Code.NOT_TRUSTED, message, where, hint))
        return []
    folders, is_whole = _matches(root, plain, may_look)
    if not is_whole:
        message = f"`{shown}` goes through more than {_MAX_FOLDERS:,} folders; the rest was not searched"
        refused.append((shown, Issue(Code.TOO_BIG, message, where, "name a folder further down")))
    paths = sorted(path for path in folders if _is_table(_below(root, path), may_look))
    inside, message = Path(os.path.realpath(fixed)), "a link to it leads out of the folder"
    out = {one for one in paths if not Path(os.path.realpath(_below(root, one))).is_relative_to(inside)}
    named = sorted(one.rpartition("/")[2] if is_secret(pattern) else one for one in out)
    refused += ((one, Issue(Code.BAD_FOR_EACH, message, where, "name it by a policy of its own")) for one in named)
    if not paths and is_whole:
        message = f"no table lies at `{shown}`: there is no folder with `.hoodie` in it"
        hint = "relative paths start from the target's `table_root`, else from the project; a text without a glob names one table"
        issues.append(Issue(Code.BAD_FOR_EACH, message, where, hint, level="warning"))
    return [path for path in paths if path not in out]


def _matches(root: str, pattern: str, may_look: MayLook) -> tuple[list[str], bool]:
    """The paths that a glob means, as it writes them, and whether they are all: there may be too many on the way."""
    found, left, parts = ["/" if pattern.startswith("/") else ""], _MAX_FOLDERS, list(filter(None, pattern.split("/")))
    for number, part in enumerate(parts, 1):
        next_ones = (f"{folder}{name}/" for folder in found for name in _names(_below(root, folder), part, may_look))
        found = list(islice(next_ones, left + 1))
        if len(found) > left:
            return [path.rstrip("/") for path in found[:left] if number == len(parts)], False
        left -= len(found)
    return [path.rstrip("/") for path in found], True


def _names(folder: str, part: str, may_look: MayLook) -> list[str]:
    """The names in a folder that a part of a glob means; without a glob it is the name."""
    if not GLOB.search(part):
        return [part]
    if not may_look(os.path.realpath(folder)):
        return []
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208 - names are enough
    except (OSError, ValueError):
        return []
    seen = (name for name in names if part.startswith(".") or not name.startswith("."))
    return [name for name in seen if glob_matches(name, part)]


def _is_table(folder: str, may_look: MayLook) -> bool:
    try:
        return may_look(os.path.realpath(folder)) and stat.S_ISDIR(os.lstat(f"{folder}/.hoodie").st_mode)
    except (OSError, ValueError):
        return False


def _below(root: str, path: str) -> str:
    return path if path.startswith("/") else f"{root}/{path}"


MARK = "# ?"
_MOST = 120
_QUESTION = re.compile(r"^(?P<indent>[ ]*)# \? (?P<text>.*)$")
_GOES_ON = re.compile(r"^ *# (?P<text>.*)$")


def open_questions(source: SourceFile) -> Iterator[Issue]:
    """A warning for each question, with its place; the policies of such a file take part in no run."""
    lines = source.text.split("\n")
    for number, line in enumerate(lines, 1):
        found = _QUESTION.match(line)
        if found is not None:
            where = Where(source.path, number, len(found["indent"]) + 1, excerpt="")  # the message has the line
            hint = (
                "answer it in the file and take away the `?`; until then the policies of this file take part in no run"
            )
            question = _question_text(lines[number - 1 : number + _MOST])
            yield Issue(Code.OPEN_QUESTION, f"open: {question}", where, hint, level="warning")


def policies_with_questions(texts: Mapping[str, str]) -> Iterator[tuple[str, dict[str, object]]]:
    """The path and the keys, as they are written, of each policy in the files (text by path) with open questions."""
    for path, text in texts.items():
        if MARK not in text or next(open_questions(SourceFile(path, path, text)), None) is None:
            continue
        try:
            value = load_marked(text, path).value
        except PolicyError:
            continue
        listed = value.get("policies") if isinstance(value, dict) else None
        items = listed if isinstance(listed, list) else []
        yield from ((path, item) for item in items if isinstance(item, dict))


def _question_text(lines: list[str]) -> str:
    """The question up to its question mark, which may be some lines further down."""
    text = ""
    for line in lines:
        goes_on = _GOES_ON.match(line)
        if goes_on is None or (text and _QUESTION.match(line)):
            break
        text = f"{text} {goes_on['text'].removeprefix('? ')}".strip()
    return text[: text.find("?") + 1] or text[:_MOST]
