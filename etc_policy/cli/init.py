"""`etc init`: a project to start from."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import click

from etc_policy import __version__
from etc_policy.api.artifacts import create_text, write_text
from etc_policy.api.loading import ProjectReading, read_whole_project
from etc_policy.api.workspace import are_untrusted, not_for_strangers
from etc_policy.cli.messages import message_options, show_note
from etc_policy.cli.options import examples, output_option
from etc_policy.cli.terminal import print_json, print_text
from etc_policy.cli.value_types import FOLDER
from etc_policy.errors import EtcError, UsageError, requirement_of
from etc_policy.errors.codes import Code
from etc_policy.policy.files import POLICY_SCHEMA, PROJECT_FILES, read_project_file, read_schemas, read_template
from etc_policy.policy.locations import places_of
from etc_policy.policy.project_schema import DEFAULT_TARGET, choose_target
from etc_policy.policy.reading import read_settings
from etc_policy.storage.open_storage import STORAGE_EXTRAS, extras_for, has_extra

#: File of the project -> file of the template.
_FILES = {
    "policies/orders.yml": "project/policies/orders.yml",
    "README.md": "project/README.md",
    ".gitignore": "project/gitignore",
}
_REQUIREMENTS = {"requirements.txt": "integrations/requirements.txt"}
#: What `--with` names -> file of the project -> file of the template.
_INTEGRATIONS = {
    "github": {".github/workflows/compaction.yml": "integrations/github.yml", **_REQUIREMENTS},
    "gitlab": {".gitlab/compaction.yml": "integrations/gitlab.yml", **_REQUIREMENTS},
    "pre-commit": {".pre-commit-config.yaml": "integrations/pre-commit.yml"},
    "cron": {"deploy/crontab": "integrations/crontab"},
    "systemd": {
        f"deploy/systemd/{name}": f"integrations/{name}"
        for name in ("etc-apply.service", "etc-apply.timer", "etc-run.service")
    },
    "docker": {"Dockerfile": "integrations/Dockerfile", ".dockerignore": "integrations/dockerignore", **_REQUIREMENTS},
    "kubernetes": {  # `kubectl apply -f deploy/kubernetes` takes no file of a folder below it
        f"deploy/kubernetes/{file}": f"integrations/kubernetes-{name}.yml"
        for name, file in (("cronjob", "cronjob.yml"), ("target", "target.yml"), ("run", "instead/run.yml"))
    },
}
#: The targets, and the one that compacts, as templates name them.
_TARGETS = re.compile(r"\[dev, prod\]|\bprod\b")
#: What pull requests may reach, as templates say it.
_NO_ALLOWANCE = 'ETC_ALLOW: ""'
#: A term that a CI system and the blanks between terms leave as it is.
_PLAIN = re.compile(r"[^\s\"'\\\\$#{}]+")
_VARIABLE = re.compile(r"env_var\(\s*['\"](\w+)['\"]")
_TARGET_IGNORED = re.compile(r"^/?target(/|/\*\*?)?\s*$", re.MULTILINE)
#: Those that a repository often has already: they stay as they are.
_MAY_BE_THERE = ("README.md", ".gitignore", ".dockerignore", *_REQUIREMENTS)


@click.command(
    "init",
    epilog=examples(
        "etc init warehouse",
        "etc init .",
        "etc init . --with github --with pre-commit   # beside your policies",
        "etc init warehouse --with docker --with kubernetes",
    ),
)
@click.argument("directory", metavar="DIR", type=FOLDER)
@click.option(
    "--with",
    "names",
    multiple=True,
    metavar="NAME",
    type=click.Choice(list(_INTEGRATIONS)),
    help=f"Write the files that run etc there too: {', '.join(_INTEGRATIONS)}; may be repeated.",
)
@output_option
@message_options
def command(directory: Path, names: tuple[str, ...], output: str) -> None:
    """Start a project with one commented policy.

    Makes DIR with policies/orders.yml, a README, a .gitignore, and the JSON Schema by which editors complete and check
    policy files. With `--with` a project that is in DIR already gets the named files alone; what each of them needs is in
    the comment that it begins with. An existing file is never overwritten: a README, .gitignore, .dockerignore and
    requirements.txt stay as they are.
    """
    has_project = any(os.path.lexists(directory / name) for name in ("policies", *PROJECT_FILES))
    if has_project and are_untrusted(None):  # what is written is made of its files, with the variables that they name
        raise not_for_strangers("init")
    is_new = not names or not has_project
    added = {file: template for name in names for file, template in _INTEGRATIONS[name].items()}
    files = {**_FILES, **added} if is_new else added
    present = [name for name in files if os.path.lexists(directory / name)]
    if refused := [name for name in present if name not in _MAY_BE_THERE]:
        raise _already_there(directory, refused)
    new = [name for name in files if name not in present]
    targets, readings = _targets(directory), tuple(_readings(directory))
    needed = _Needed.of(readings, directory)
    for name in new:
        create_text(directory, name, _fitted(read_template(files[name]), *targets, needed), "DIR")
    written = [directory / name for name in new]
    if is_new:
        schema = f".etc/{POLICY_SCHEMA}"  # the modeline in policy files names it; one of an older version is replaced
        write_text(directory, schema, read_schemas()[POLICY_SCHEMA], "DIR")
        written.append(directory / schema)
    if output == "json":
        print_json(json.dumps({"schema_version": 1, "files": [str(path) for path in written]}, indent=2))
        return
    for path in written:
        print_text(str(path))
    if present:
        show_note(f"left as they are: {', '.join(present)}{_missing_in_gitignore(directory)}")
    if needed.variables and any(_NO_ALLOWANCE in read_template(files[name]) for name in new):
        asked = " ".join(needed.variables)
        show_note(f"ETC_ALLOW has no variable: add those whose values a pull request may see, of {asked}")
    edited = written[0] if is_new else "what the comments at the head of these files name"
    show_note(f"\nnext: edit {edited}, then run\n  etc parse --project-dir {shlex.quote(str(directory))}")


def _targets(directory: Path) -> tuple[tuple[str, ...], str]:
    """The project's targets, and the one that compacts: `prod`, or the default one where there is no `prod`."""
    project = read_settings(read_project_file(str(directory), []), os.environ, None, None).project
    chosen = choose_target(project, None)
    if chosen is None:
        return (DEFAULT_TARGET,), DEFAULT_TARGET
    names = tuple(project.profiles[chosen[0]].targets)
    return names, "prod" if "prod" in names else chosen[1]


@dataclass(frozen=True)
class _Needed:
    """What the project's tables and targets need: extras of etc, places and servers to be reached, variables."""

    extras: tuple[str, ...]
    allowed: tuple[str, ...]
    variables: tuple[str, ...]

    @classmethod
    def of(cls, readings: Sequence[ProjectReading], directory: Path) -> _Needed:
        """Of the readings of a project in a folder, by each of its targets."""
        tables = {policy.table for one in readings for policy in one.manifest.policies}
        extras = {*extras_for(tables), *(one for one in STORAGE_EXTRAS if has_extra(one))}
        storages = [one.files.target.storage for one in readings]
        servers = {one.endpoint for one in storages if one.endpoint}
        roles = {"instance_role" for one in storages if one.instance_role}
        texts = (text for one in readings for text in one.files.texts.values())
        variables = {name for text in texts for name in _VARIABLE.findall(text)}
        allowed = [*places_of(tables, os.path.realpath(directory)), *sorted(servers), *sorted(roles)]
        shown = (one for one in allowed if _PLAIN.fullmatch(one) and not _has_value_of(variables, one))
        return cls(tuple(sorted(extras)), tuple(shown), tuple(sorted(variables)))


def _has_value_of(variables: Iterable[str], place: str) -> bool:
    """Whether a place has the value of one of the variables in it: the files are committed."""
    values = filter(None, map(os.environ.get, variables))
    return any(value.casefold() in place.casefold() for value in values)


def _readings(directory: Path) -> Iterator[ProjectReading]:
    """The project by each of its targets, as far as it can be read."""
    with suppress(EtcError):
        project = read_settings(read_project_file(str(directory), []), os.environ, None, None).project
        chosen = choose_target(project, None)
        for target in project.profiles[chosen[0]].targets if chosen else (None,):
            with suppress(EtcError):
                reading = read_whole_project(directory, target, None, None, os.environ, lambda _: True, lambda _: None)
                if not reading.has_errors:
                    yield reading


def _missing_in_gitignore(directory: Path) -> str:
    """What belongs there and is not."""
    with suppress(OSError):
        if _TARGET_IGNORED.search((directory / ".gitignore").read_text("utf-8", errors="replace")):
            return ""
    return "; `target/`, where commands write, belongs in .gitignore"


def _fitted(text: str, targets: tuple[str, ...], compacting: str, needed: _Needed) -> str:
    """A template with what fits the project and this version of etc in the place of its own."""
    text = text.replace(_NO_ALLOWANCE, f'ETC_ALLOW: "{" ".join(needed.allowed)}"')
    text = _TARGETS.sub(lambda found: f"[{', '.join(targets)}]" if found[0] != "prod" else compacting, text)
    extras = ",".join(("spark", *needed.extras))
    return text.replace("@VERSION@", __version__).replace("@REQUIREMENT@", requirement_of(extras, f"=={__version__}"))


def _already_there(directory: Path, files: list[str]) -> UsageError:
    hint = "name another folder, and copy from there what you need"
    shown = ", ".join(f"`{directory / name}`" for name in files)
    return UsageError(Code.ALREADY_THERE, f"already there: {shown}", hint=hint)
