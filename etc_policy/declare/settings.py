"""What `etc_project.yml` says: variables for all files, defaults of folders, and the target that this run is for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from etc_policy import __version__
from etc_policy.codes.registry import Code
from etc_policy.declare.loading import Loaded, load_file, own_variables, plain_variables
from etc_policy.declare.project import FileMarks, Places, value_at
from etc_policy.declare.project_schema import ProjectFile
from etc_policy.declare.secrets import REFERENCE_HINT, changed_secrets
from etc_policy.declare.sources import SourceFile, read_project_file
from etc_policy.declare.suggestions import did_you_mean
from etc_policy.declare.targets import METASTORE_URIS, Target, choose_target, target_of
from etc_policy.declare.templating.context import Context
from etc_policy.declare.yaml_marks import YamlPath
from etc_policy.errors import Issue, PolicyError

if TYPE_CHECKING:
    from etc_policy.declare.templating.values import Value

_HINT = "begin with `name: ` and the project's name"


@dataclass(frozen=True, slots=True)
class Settings:
    """The project file's content, with what is wrong in it; a project without the file has all defaults.

    `context` is what templates of the project's files see; `defaults` is `policies:` with its places in `file`.
    """

    context: Context
    project: ProjectFile = field(default_factory=ProjectFile)
    target: Target = field(default_factory=Target)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    file: FileMarks | None = None
    issues: tuple[Issue, ...] = ()
    target_places: Places | None = None


def read_own_settings(
    project_dir: str,
    environment: Mapping[str, str],
    target: str | None = None,
    given: Mapping[str, Value] | None = None,
) -> Settings:
    """The settings of a run in the project; `target` is its target's name, None for the default of the profile.

    `given` are variables that win over those of the files.

    Raises:
        PolicyError: the project file has errors.
        UsageError: there is no such target.

    """
    issues: list[Issue] = []
    settings = read_settings(read_project_file(project_dir, issues), environment, target, given)
    issues += settings.issues
    if issues:
        raise PolicyError(issues)
    return settings


def read_settings(
    source: SourceFile | None,
    environment: Mapping[str, str],
    target: str | None = None,
    given: Mapping[str, Value] | None = None,
) -> Settings:
    """The settings of a project file; of the targets only the one that is used needs its environment variables.

    Raises:
        UsageError: there is no target `target`, or nothing says which profile is used.

    """
    context = Context(dict(given or {}), environment)
    if source is None:
        choose_target(ProjectFile(), target)
        return Settings(replace(context, target=_visible(Target())))
    own, issues = own_variables(source, context, _HINT)
    context = replace(context, variables={**own, **(given or {})})
    loaded = load_file(source, context, _HINT)
    context = replace(context, variables={**plain_variables(loaded), **own, **(given or {})})
    project = loaded.validate(ProjectFile)
    found = list(loaded.template_issues())
    issues += [issue for path, issue in found if path[:1] not in (("vars",), ("profiles",), ("policies",))]
    issues += loaded.issues
    if project is None and not issues:
        issues += [issue for _, issue in found]
    if project is None or issues:
        return Settings(context, issues=tuple(issues), file=loaded.file)
    outside = tuple(_wrong_folders(project, loaded))
    issues = [*_wrong_version(project, loaded), *_missing_targets(project, loaded), *outside]
    if outside:
        return Settings(context, issues=tuple(issues), file=loaded.file)
    if issues:  # what does not go by the target is looked at all the same
        found_so_far = Settings(context, project, Target(), {}, loaded.file, tuple(issues))
        return found_so_far if loaded.asks_target else _with_defaults(found_so_far, source, loaded)
    return _with_defaults(_of_target(project, target, loaded, context), source, loaded)


def _of_target(project: ProjectFile, target: str | None, loaded: Loaded, context: Context) -> Settings:
    """The settings for the target that is asked for, without `policies:`."""
    chosen = choose_target(project, target)
    path: YamlPath = ("profiles", *chosen[:1], "targets", *chosen[1:]) if chosen else ("profiles",)
    found = loaded.template_issues()
    issues = [issue for place, issue in found if chosen and place[: len(path)] == path]
    lock = value_at(loaded.value, (*path, "lock")) or {}
    for key, message in changed_secrets(lock):
        where = loaded.file.where((*path, "lock", key))
        issues.append(Issue(Code.CHANGED_SECRET, message, where, REFERENCE_HINT))
    confs = {METASTORE_URIS: value_at(loaded.value, (*path, "catalog", "uri"))}
    confs |= value_at(loaded.value, (*path, "spark", "confs")) or {}
    used = target_of(chosen, project, lock, confs) if chosen and not issues else Target()
    context = replace(context, target=_visible(used))
    places = Places(loaded.file, path) if chosen else None
    return Settings(context, project, used, {}, loaded.file, tuple(issues), places)


def _with_defaults(settings: Settings, source: SourceFile, loaded: Loaded) -> Settings:
    """The settings with `policies:`, worked out again where templates name the target, now that it is known."""
    if loaded.asks_target:
        loaded = load_file(source, settings.context, _HINT)
    found = (issue for path, issue in loaded.template_issues() if path[:1] == ("policies",))
    defaults = value_at(loaded.value, ("policies",)) or {}
    return replace(settings, defaults=defaults, file=loaded.file, issues=(*settings.issues, *found))


def _visible(target: Target) -> dict[str, Value]:
    """What templates see of the target: nothing that could be a secret."""
    catalog = target.catalog
    return {
        "name": target.name,
        "profile": target.profile,
        "table_root": target.table_root,
        "database": catalog.database if catalog else None,
    }


def _wrong_version(project: ProjectFile, loaded: Loaded) -> Iterator[Issue]:
    """The version of etc that runs must be one that the project takes."""
    if project.require_etc is None:
        return
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    where = loaded.file.where(("require_etc",))
    try:
        wanted = SpecifierSet(project.require_etc, prereleases=True)
    except InvalidSpecifier:
        message = f"`{project.require_etc[:60]}` is not a range of versions"
        yield Issue(Code.WRONG_VERSION, message, where, 'write it as pip does, for example ">=0.1,<1"')
        return
    if __version__ not in wanted:
        message = f"the project wants etc {project.require_etc}, this is {__version__}"
        hint = f'run `pip install "etc-policy{wanted}"`, or change `require_etc`'
        yield Issue(Code.WRONG_VERSION, message, where, hint)


def _wrong_folders(project: ProjectFile, loaded: Loaded) -> Iterator[Issue]:
    """The project's folders must lie in it; links are looked at when they are read."""
    for key, folder in project.folders:
        parts = PurePosixPath(folder).parts
        if folder.startswith("/") or ".." in parts or "\0" in folder or not parts:
            message = f"the folder `{folder[:60]}` is not in the project"
            yield Issue(
                Code.LEAVES_PROJECT, message, loaded.file.where(("folders", key)), "name a folder of the project"
            )


def _missing_targets(project: ProjectFile, loaded: Loaded) -> Iterator[Issue]:
    """A profile's default target must exist, also where another one is asked for."""
    for name, profile in project.profiles.items():
        if profile.target not in profile.targets:
            where = loaded.file.where(("profiles", name, "target"))
            hint = did_you_mean(profile.target, profile.targets) or f"the targets are {', '.join(profile.targets)}"
            yield Issue(Code.UNKNOWN_TARGET, f"there is no target `{profile.target}`", where, hint)
    if project.profile is not None and project.profile not in project.profiles:
        hint = did_you_mean(project.profile, project.profiles) or "declare it under `profiles:`"
        message = f"there is no profile `{project.profile}`"
        yield Issue(Code.UNKNOWN_TARGET, message, loaded.file.where(("profile",)), hint)
