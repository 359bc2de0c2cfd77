"""Reads a project once: its files, all that is wrong with them, its manifest and the target of this run.

And files that somebody names on the command line: a plan, an earlier manifest.
"""

from __future__ import annotations

import errno
import os
import re
import select
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from etc_policy.errors import Issue, PolicyError, UsageError, Where
from etc_policy.errors.codes import Code
from etc_policy.policy.files import (
    MayLook,
    own_suite_contents,
    own_suite_names,
    read_suite,
    shipped_suite_names,
    suite_names,
)
from etc_policy.policy.manifest import MANIFEST_SCHEMA_VERSION, Manifest
from etc_policy.policy.project import ProjectFiles
from etc_policy.policy.reading import read_project
from etc_policy.policy.resolve import check_project, compile_project, without_clashes

#: A plan of some 100,000 file slices.
MAX_BYTES = 128 << 20
#: How long a pipe that lies in a folder may be silent: perhaps nobody is ever going to write to it.
PIPE_WAIT_SECONDS = 10.0
#: What the process was started with has a writer.
_OWN = re.compile(r"/dev/stdin|(?:/dev|/proc/(?:self|thread-self|(?P<process>\d{1,10})))/fd/\d{1,10}")


@dataclass(frozen=True)
class ProjectReading:
    """A project as it was read once; `issues` are all of its files, errors and warnings.

    `earlier` is the manifest that `state:` compares with.
    """

    project_dir: Path
    files: ProjectFiles
    suites: tuple[str, ...]
    issues: tuple[Issue, ...]
    earlier: Manifest | None = None
    #: Why tables that namespaces found got no policy, by their locations.
    left_out: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def manifest(self) -> Manifest:
        """Every policy with its defaults filled in.

        Raises:
            PolicyError: the project has errors; carries all of them.

        """
        named = {policy.declaration.verify.suite for policy in self.files.declared}
        own = own_suite_contents(named, self.project_dir)
        return compile_project(self.files, self.suites, self.issues, own)

    @cached_property
    def suite_issues(self) -> tuple[Issue, ...]:
        """Every fault of the project's own suites, and of others that its policies name; each suite is looked at once.

        Verbs that verify look at the suites they need by themselves.
        """
        from etc_policy.verify.suites import suite_issues

        named = {policy.declaration.verify.suite for policy in self.files.declared} & set(self.suites)
        own = own_suite_names(self.project_dir)
        issues: list[Issue] = []
        for name in sorted({*named, *own}):
            try:
                path, text = read_suite(name, self.project_dir)
            except PolicyError as error:
                issues += error.issues
            else:
                issues += suite_issues(text, path, shipped_suite_names() if name in own else ())
        return tuple(issues)

    @property
    def questions(self) -> tuple[Issue, ...]:
        """The open questions of its files."""
        return tuple(issue for issue in self.issues if issue.code == Code.OPEN_QUESTION)

    @property
    def has_errors(self) -> bool:
        """Whether there is no manifest."""
        return any(issue.level == "error" for issue in self.issues)


def read_whole_project(
    project_dir: Path,
    target: str | None,
    state: str | os.PathLike[str] | None,
    variables: Mapping[str, Any] | None,
    environment: Mapping[str, str],
    may_look: MayLook,
    worked_on_since: Callable[[str], int | None],
) -> ProjectReading:
    """The project as it is now, and the earlier manifest at `state`; `variables` win over those of the files.

    `environment` has the variables that its expressions may use; tables are looked for in folders that `may_look` takes.
    `worked_on_since` says when etc came to a table.

    Raises:
        PolicyError: there is no `policies` folder, or nothing in it.
        UsageError: there is no such target, or no manifest at `state`.

    """
    earlier = read_earlier_manifest(Path(state)) if state is not None else None
    read = read_project(str(project_dir), environment, variables, target, may_look)
    files = without_clashes(read, partial(reached_path, may_look), worked_on_since)
    suites = suite_names(project_dir)
    issues = check_project(files, suites, partial(reached_path, may_look))
    return ProjectReading(project_dir, files, suites, issues, earlier)


def reached_path(may_look: MayLook, path: str) -> str:
    """A local path without links, if that may be looked at; else as it is, so that nothing says where the links lead."""
    real = os.path.realpath(path)
    return real if may_look(real) else path


def read_earlier_manifest(path: Path) -> Manifest:
    """The manifest that `state:` compares with: a file, or `manifest.json` of a folder.

    Raises:
        UsageError: it cannot be read, or is not of this version of etc.

    """
    file = path / "manifest.json" if path.is_dir() else path
    try:
        if file != path and file.exists() and not file.is_file():
            raise OSError(errno.EINVAL, "this is not a regular file")
        content = read_given(file)
        manifest = Manifest.of_json(content)
        if manifest.schema_version != MANIFEST_SCHEMA_VERSION:
            raise ValueError(manifest.schema_version)
    except OSError as error:
        hint = "make it with `etc compile --target-dir DIR`"
        message = f"cannot read the earlier manifest: {error.strerror}"
        raise UsageError(Code.BAD_STATE, message, where=Where(str(file)), hint=hint) from error
    except ValueError as error:
        hint = "make it again with `etc compile --target-dir DIR`"
        message = "this is not a manifest of this version of etc" if content.strip() else "the manifest is empty"
        raise UsageError(Code.BAD_STATE, message, where=Where(str(file)), hint=hint) from error
    return manifest


def read_given(path: Path) -> bytes:
    """The bytes of a file or a pipe.

    Raises:
        OSError: it cannot be read, has no end (a device) or no writer (a pipe), or is too big for what it should be.

    """
    kind = path.stat().st_mode
    if stat.S_ISCHR(kind) or stat.S_ISBLK(kind):
        raise OSError(errno.EINVAL, "this is a device")
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as stream:
        if stat.S_ISFIFO(kind) and not _is_own(path):
            _wait_for_writer(stream.fileno())
        os.set_blocking(stream.fileno(), True)
        data = stream.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    return data


def _is_own(path: Path) -> bool:
    """Whether a path names what the process has open, and not what lies in a folder."""
    own = _OWN.fullmatch(str(path))
    return own is not None and own["process"] in (None, str(os.getpid()))


def _wait_for_writer(pipe: int) -> None:
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    if not poll.poll(PIPE_WAIT_SECONDS * 1000):
        raise OSError(errno.ETIMEDOUT, f"nobody has written to this pipe for {PIPE_WAIT_SECONDS:.0f} s")
