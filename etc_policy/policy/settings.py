"""What `etc_project.yml` says: variables for all files, defaults of folders, and the target that this run is for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any

from etc_policy import __version__
from etc_policy.errors import Issue, PolicyError
from etc_policy.errors.codes import Code
from etc_policy.policy.files import SourceFile, read_project_file
from etc_policy.policy.loading import Loaded, load_file
from etc_policy.policy.project import FileMarks, Places, value_at
from etc_policy.policy.project_schema import ProjectFile
from etc_policy.policy.scope import Scope, Value
from etc_policy.policy.secrets import REFERENCE_HINT, changed_secrets, is_secret
from etc_policy.policy.suggestions import did_you_mean
from etc_policy.policy.targets import Target, choose_target, target_of
from etc_policy.policy.yaml_marks import YamlPath

_HINT = "begin with `name: ` and the project's name"


@dataclass(frozen=True, slots=True)
class Settings:
    """The project file's content, with what is wrong in it; a project without the file has all defaults.

    `scope` is what expressions of the project's files reach; `defaults` is `policies:` with its places in `file`.
    """

    scope: Scope
    project: ProjectFile = field(default_factory=ProjectFile)
    target: Target = field(default_factory=Target)
    defaults: Mapping[str, Any] = field(default_factory=dict)
    file: FileMarks | None = None
    issues: tuple[Issue, ...] = ()
    target_places: Places | None = None


def read_own_settings(
    project_dir: str,
    environment: Mapping[str, str],
    target: str | None,
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
    target: str | None,
    given: Mapping[str, Value] | None,
) -> Settings:
    """The settings of a project file; of the targets only the one that is used needs its environment variables.

    Raises:
        UsageError: there is no target `target`.

    """
    scope = Scope(environment, dict(given or {}))
    if source is None:
        choose_target(ProjectFile(), target)
        return Settings(replace(scope, target=_visible(Target())))
    loaded = load_file(source, scope, _HINT, late="policies")
    project = loaded.validate(ProjectFile)
    general = [path for path in loaded.problems if path[0] != "profiles"]
    issues = [*loaded.problem_issues(*general), *loaded.issues] if general or loaded.issues else []
    if project is None and not issues:
        issues = loaded.problem_issues()
    if project is None or issues:
        return Settings(loaded.scope, issues=tuple(issues), file=loaded.file)
    outside = tuple(_wrong_folders(project, loaded))
    issues = [*_wrong_version(project, loaded), *_missing_targets(project, loaded), *outside]
    if outside:
        return Settings(loaded.scope, issues=tuple(issues), file=loaded.file)
    if issues:  # what does not go by the target is looked at all the same
        return _with_defaults(Settings(loaded.scope, project, Target(), {}, loaded.file, tuple(issues)), loaded)
    return _with_defaults(_of_target(project, target, loaded), loaded)


def _of_target(project: ProjectFile, target: str | None, loaded: Loaded) -> Settings:
    """The settings for the target that is asked for, without `policies:`."""
    chosen = choose_target(project, target)
    path: YamlPath = ("profiles", *chosen[:1], "targets", *chosen[1:]) if chosen else ("profiles",)
    issues = loaded.problem_issues(path) if chosen else []
    confs = value_at(loaded.value, (*path, "spark", "confs"))
    for place, options in ((("lock",), value_at(loaded.value, (*path, "lock"))), (("spark", "confs"), confs)):
        for key, message in changed_secrets(options):
            where = loaded.file.where((*path, *place, key))
            issues.append(Issue(Code.CHANGED_SECRET, message, where, REFERENCE_HINT))
    uri = value_at(loaded.value, (*path, "catalog", "uri"))
    used = target_of(chosen, project, is_secret(uri)) if chosen and not issues else Target()
    scope = replace(loaded.scope, target=_visible(used))
    places = Places(loaded.file, path) if chosen else None
    return Settings(scope, project, used, {}, loaded.file, tuple(issues), places)


def _with_defaults(settings: Settings, loaded: Loaded) -> Settings:
    """The settings with `policies:`, which may name the target."""
    entry = loaded.document.entry("policies") if loaded.document else None
    if entry is None:
        return settings
    loaded.problems = {}
    loaded.issues.clear()
    value = loaded.build(entry[1], ("policies",), settings.scope, entry[0])
    loaded.value = None if loaded.value is None else {"policies": value}
    shape = loaded.validate(ProjectFile)
    issues = (*settings.issues, *loaded.problem_issues(), *loaded.issues)
    return replace(settings, defaults=value if shape else {}, issues=issues)


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
    if project.profile is None and len(project.profiles) > 1 and project.name not in project.profiles:
        message = "the project does not say which of its profiles it uses"
        hint = f"set `profile:` to one of {', '.join(project.profiles)}"
        yield Issue(Code.UNKNOWN_TARGET, message, loaded.file.where(("profiles",), at_key=True), hint)
