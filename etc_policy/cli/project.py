"""What the commands share on their way from a project folder to a manifest."""

from __future__ import annotations

import os
from pathlib import Path

from etc_policy.cli.ci_forms import report_checks
from etc_policy.cli.messages import tell_warning
from etc_policy.cli.options import target_name
from etc_policy.codes.registry import Code
from etc_policy.compile.manifest import Manifest
from etc_policy.compile.resolve import check_project, compile_project
from etc_policy.declare.project import ProjectFiles
from etc_policy.declare.reading import read_project
from etc_policy.declare.suites import own_suite_names, read_suite, suite_names
from etc_policy.errors import EngineError, Issue, PolicyError
from etc_policy.publish.checks import checks_of_issues
from etc_policy.verify.suites import suite_issues


def check_files(project_dir: Path) -> tuple[ProjectFiles, tuple[Issue, ...]]:
    """The project as read, and every issue of it, errors and warnings.

    Raises:
        PolicyError: there is no `policies` folder, or nothing in it.
        UsageError: there is no target of the name that `--target` gives.

    """
    files = read_project(str(project_dir), os.environ, target=target_name())
    return files, check_project(files, suite_names(project_dir))


def check_suites(files: ProjectFiles, project_dir: Path) -> tuple[Issue, ...]:
    """Every fault of the project's own suites, and of others that its policies name; each suite is looked at once.

    Commands that verify look at the suites they need by themselves.
    """
    named = {policy.declaration.verify.suite for policy in files.policies} & set(suite_names(project_dir))
    issues: list[Issue] = []
    for name in sorted({*named, *own_suite_names(project_dir)}):
        try:
            path, text = read_suite(name, project_dir)
        except PolicyError as error:
            issues += error.issues
        else:
            issues += suite_issues(text, path)
    return tuple(issues)


def load_manifest(project_dir: Path) -> Manifest:
    """The project's manifest; warnings go to stderr.

    Raises:
        PolicyError: the project has errors; carries all of them.
        UsageError: there is no target of the name that `--target` gives.

    """
    return load_project(project_dir)[1]


def load_project(project_dir: Path) -> tuple[ProjectFiles, Manifest]:
    """The project as read and its manifest; warnings go to stderr.

    Raises:
        PolicyError: the project has errors; carries all of them.
        UsageError: there is no target of the name that `--target` gives.

    """
    files, issues = check_files(project_dir)
    for issue in issues:
        if issue.level == "warning":
            tell_warning(issue)
            report_checks(checks_of_issues((issue,)))
    return files, compile_project(files, suite_names(project_dir), issues)


def write_text(path: Path, text: str, option: str = "--target-dir") -> None:
    """Writes the file in one step: a reader sees the old text or the new one; an equal file is left as it is.

    `option` is the one that names another place.

    Raises:
        EngineError: the file or its folder cannot be written.

    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    data = text.encode("utf-8")
    try:
        if path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(data)
        draft.replace(path)
    except OSError as error:
        hint = f"name another place by `{option}`"
        raise EngineError(Code.CANNOT_WRITE, f"cannot write `{path}`", hint=hint, cause=str(error)) from error


def counted(number: int, noun: str) -> str:
    """`1 policy`, `2 policies`."""
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun[:-1]}ies" if noun.endswith("y") else f"{number} {noun}s"
