"""What `etc_project.yml` says: variables for all files, and the target that this run is for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from etc_policy import __version__
from etc_policy.declare.codes import Code
from etc_policy.declare.file_reader import FileReader
from etc_policy.declare.project_schema import ProjectFile, TargetDeclaration
from etc_policy.declare.secrets import reference
from etc_policy.declare.sources import SourceFile, read_project_file
from etc_policy.declare.suggestions import did_you_mean
from etc_policy.declare.targets import Target, choose_target, declared_target, option_texts, target_of
from etc_policy.declare.templating import Renderer, Scalar
from etc_policy.declare.yaml_marks import YamlPath
from etc_policy.errors import Issue, PolicyError


@dataclass(frozen=True, slots=True)
class Settings:
    """The project file's content, with what is wrong in it; a project without the file has all defaults."""

    project: ProjectFile = field(default_factory=ProjectFile)
    variables: Mapping[str, Scalar] = field(default_factory=dict)
    target: Target = field(default_factory=Target)
    issues: tuple[Issue, ...] = ()


def read_target(project_dir: str, environment: Mapping[str, str], target: str | None = None) -> Target:
    """The target of a run in the project; `target` is its name, None for the default of the profile.

    Raises:
        PolicyError: the project file has errors.
        UsageError: there is no such target.

    """
    issues: list[Issue] = []
    settings = read_settings(read_project_file(project_dir, issues), environment, target)
    issues += settings.issues
    if issues:
        raise PolicyError(issues)
    return settings.target


def read_settings(
    source: SourceFile | None,
    environment: Mapping[str, str],
    target: str | None = None,
    given: Mapping[str, Scalar] | None = None,
) -> Settings:
    """The settings of a project file; only the target that is used is rendered.

    Raises:
        UsageError: there is no target `target`, or nothing says which profile is used.

    """
    if source is None:
        choose_target(ProjectFile(), target)
        return Settings()
    reader = FileReader(source, environment)
    variables = reader.variables()
    project = reader.validate(ProjectFile)
    if project is None:
        return Settings(variables=variables, issues=tuple(reader.issues))
    issues = [*_wrong_version(project, reader), *_missing_targets(project, reader)]
    if issues:
        return Settings(project, variables, issues=tuple(issues))
    chosen = choose_target(project, target)
    if chosen is None:
        return Settings(project, variables)
    found = _render_target(reader, chosen, {**variables, **(given or {})}, environment)
    return Settings(project, variables, found or Target(), tuple(reader.issues))


def _wrong_version(project: ProjectFile, reader: FileReader) -> Iterator[Issue]:
    """The version of etc that runs must be one that the project takes."""
    if project.require_etc is None:
        return
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    where = reader.file.where(("require_etc",))
    try:
        wanted = SpecifierSet(project.require_etc, prereleases=True)
    except InvalidSpecifier:
        message = f"`{project.require_etc[:60]}` is no range of versions"
        yield Issue(Code.WRONG_VERSION, message, where, 'write it as pip does, for example ">=0.1,<1"')
        return
    if __version__ not in wanted:
        message = f"the project wants etc {project.require_etc}, this is {__version__}"
        hint = f'run `pip install "etc-policy{wanted}"`, or change `require_etc`'
        yield Issue(Code.WRONG_VERSION, message, where, hint)


def _missing_targets(project: ProjectFile, reader: FileReader) -> Iterator[Issue]:
    """A profile's default target must exist, also where another one is asked for."""
    for name, profile in project.profiles.items():
        if profile.target not in profile.targets:
            where = reader.file.where(("profiles", name, "target"))
            hint = did_you_mean(profile.target, profile.targets) or f"the targets are {', '.join(profile.targets)}"
            yield Issue(Code.UNKNOWN_TARGET, f"there is no target `{profile.target}`", where, hint)
    if project.profile is not None and project.profile not in project.profiles:
        hint = did_you_mean(project.profile, project.profiles) or "declare it under `profiles:`"
        message = f"there is no profile `{project.profile}`"
        yield Issue(Code.UNKNOWN_TARGET, message, reader.file.where(("profile",)), hint)


def _render_target(
    reader: FileReader, chosen: tuple[str, str], variables: Mapping[str, Scalar], environment: Mapping[str, str]
) -> Target | None:
    path: YamlPath = ("profiles", chosen[0], "targets", chosen[1])
    raw = _at(reader.value, path)
    rendered = reader.render(raw, path, Renderer(variables, environment))
    if reader.unrendered:
        return None
    references = {name: reference(name) for name in environment}
    lock = reader.render(_at(raw, ("lock",)) or {}, (*path, "lock"), Renderer(variables, references))
    reader.put(path, rendered)
    project = reader.validate(ProjectFile)
    if project is None:
        return None
    declared: TargetDeclaration = declared_target(project, chosen)
    return target_of(chosen, declared, option_texts(lock))


def _at(value: Any, path: YamlPath) -> Any:  # noqa: ANN401 - any YAML value
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value
