"""From a project folder to validated policies; every fault is gathered, none raised."""

from __future__ import annotations

from collections.abc import Mapping

from etc_policy.declare.file_reader import FileReader
from etc_policy.declare.project import DeclaredPolicy, ProjectFiles
from etc_policy.declare.settings import read_settings
from etc_policy.declare.sources import read_sources
from etc_policy.declare.templating import Scalar


def read_project(
    project_dir: str,
    environment: Mapping[str, str],
    variables: Mapping[str, Scalar] | None = None,
    target: str | None = None,
) -> ProjectFiles:
    """The project's policies with their places, and every issue of its files.

    `environment` serves `env_var`; `variables` win over `vars:` in the files; `target` names one of the profile's
    targets, None for its default.

    Raises:
        PolicyError: there is no `policies` folder, or nothing in it.
        UsageError: there is no such target.

    """
    sources = read_sources(project_dir)
    settings = read_settings(sources.project_file, environment, target, variables)
    issues = [*sources.issues, *settings.issues]
    policies: list[DeclaredPolicy] = []
    for source in sources.policy_files:
        reader = FileReader(source, environment)
        policies += reader.policies(settings.variables, variables or {})
        issues += reader.issues
    return ProjectFiles(sources.project_dir, tuple(policies), tuple(issues), settings.project.name, settings.target)
