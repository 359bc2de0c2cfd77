"""What every verb begins with: the project's files, the policies that are selected, and the outside world."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Self

from etc_policy.api.arguments import (
    File,
    Jobs,
    Name,
    SparkConfs,
    Terms,
    Variables,
    checks_arguments,
    selected_terms,
    span_ms,
    terms_of,
)
from etc_policy.api.each_table import table_errors
from etc_policy.api.loading import ProjectReading, read_whole_project
from etc_policy.errors import EngineError, EtcError, Issue, PolicyError, UsageError
from etc_policy.errors.codes import Code
from etc_policy.policy.files import policies_with_questions
from etc_policy.policy.hudi_options import spark_conf_fault
from etc_policy.policy.locations import Allowed, is_local
from etc_policy.policy.manifest import Manifest, Policy
from etc_policy.policy.project_schema import Folders, Target
from etc_policy.policy.reading import Settings, read_own_settings
from etc_policy.policy.resolve import interval_errors
from etc_policy.policy.selection import Selection, disabled_policies, require_some, select_policies
from etc_policy.policy.writers import TableShape
from etc_policy.storage.object_cache import cache_folder
from etc_policy.storage.open_storage import real_path
from etc_policy.table.formats import count_of
from etc_policy.wiring import Environment


def _ignore(_: object) -> None:
    """Nobody listens."""


def are_untrusted(untrusted: bool | None) -> bool:
    """Whether the project's files are taken for a stranger's; None: as ETC_UNTRUSTED says."""
    return os.environ.get("ETC_UNTRUSTED", "") not in ("", "0") if untrusted is None else untrusted


def not_for_strangers(verb: str) -> UsageError:
    """The error of what a stranger's files may not have done."""
    hint = "leave out `--untrusted` and ETC_UNTRUSTED for files that you trust"
    return UsageError(Code.NOT_TRUSTED, f"`{verb}` is not for files that are not trusted", hint=hint)


def default_target_dir(project_dir: Path) -> Path:
    """`target/` in the project.

    Raises:
        EngineError: it is a link that leads out of the project, so whoever wrote the project chose where to write.

    """
    folder = project_dir / "target"
    if folder.is_symlink() and not Path(os.path.realpath(folder)).is_relative_to(os.path.realpath(project_dir)):
        hint = f"name the folder by `--target-dir`, such as `--target-dir {shlex.quote(str(folder))}`"
        raise EngineError(Code.TARGET_DIR_OUTSIDE, f"`{folder}` is a link that leads out of the project", hint=hint)
    return folder


def require_own_way(path: Path, project_dir: Path, *, is_project: bool = False) -> None:
    """Return if no link below this folder or the project's, where a stranger's files lie, is on the way to a path.

    Raises:
        UsageError: one is: whoever made it would choose what is written, or which project is read.

    """
    absolute = Path.cwd() / path
    roots = [root for root in (Path.cwd(), Path.cwd() / project_dir) if root.parent != root]
    for place in (*reversed(absolute.parents), absolute):
        is_theirs = any(place != root and place.is_relative_to(root) for root in roots)
        if place.is_symlink() and (is_theirs or (is_project and place == absolute)):
            hint = (
                "name the folder that it leads to, where you know it"
                if is_project
                else "remove it, or name another place"
            )
            message = f"`{place}` is a link, which files that are not trusted may have brought"
            raise UsageError(Code.NOT_TRUSTED, message, hint=hint)


def _require_own_cache(project_dir: Path) -> None:
    """Return if no stranger's file can be in the folder of the cache, whose entries are believed.

    Raises:
        UsageError: it lies in the project, or where it is named in this folder.

    """
    folder, here = cache_folder(os.environ), Path.cwd()
    is_named = any(os.environ.get(name) for name in ("ETC_CACHE", "XDG_CACHE_HOME"))
    theirs = [project_dir, *([here] if is_named and here.parent != here else [])]
    if folder is not None and any(
        Path(os.path.realpath(folder)).is_relative_to(os.path.realpath(one)) for one in theirs
    ):
        message = f"the cache `{folder}` lies among files that are not trusted"
        raise UsageError(Code.NOT_TRUSTED, message, hint="name a folder elsewhere by ETC_CACHE, or set ETC_CACHE=off")


@checks_arguments
class Workspace:
    """A project folder and, for the verbs that need one, a Spark session that is started once and stopped by `close`.

    Args:
        project_dir: the folder that holds `policies/`.
        target: the target of the profile; without it that of `ETC_TARGET`, else the profile's default.
        target_dir: the folder that verbs write to; `target/` in the project if not given.
        variables: values for `var('name')` in the project's files, which win over theirs; they are in the manifest.
        state: the earlier manifest, or its folder, that `state:` compares with; without it that of `ETC_STATE`.
        spark_confs: settings of Spark that win over the target's.
        spark_log: the file for what Spark and its Java print; without it they print where Python does.
        metadata_only: read no event times from log files; those that are not in the commits stay unknown.
        keeps_files: false writes nothing to the target folder that a verb has only read: no copies of its reports, no cache.
        read_once: read the project's files once for all verbs, not anew for each.
        looks_up: false looks up no table for policies with `tables`, as `parse` and `compile` never do.
        ends_java_on_interrupt: an interrupt ends Spark's Java process at once.
        untrusted: the project's files may be hostile: they reach what `allow` names, and nothing runs; without it as
            `ETC_UNTRUSTED` says.
        allow: names of variables, tables, folders and servers that such files may reach, besides those of `ETC_ALLOW`.
        jobs: so many tables are read at once, and compacted at once; without it as many as the target says, which compacts one
            after the other where it says nothing.
        progress: is called with a line for each step, perhaps from several threads; nothing is printed without it.
        warn: is called with each warning, about the project's files too.
        note: is called with what is worth saying, such as that no policy is selected.

    """

    def __init__(
        self,
        project_dir: File = ".",
        *,
        target: Name | None = None,
        target_dir: File | None = None,
        variables: Variables | None = None,
        state: File | None = None,
        spark_confs: SparkConfs | None = None,
        spark_log: Path | None = None,
        metadata_only: bool = False,
        keeps_files: bool = True,
        read_once: bool = False,
        looks_up: bool = True,
        ends_java_on_interrupt: bool = False,
        untrusted: bool | None = None,
        allow: Terms = (),
        jobs: Jobs | None = None,
        progress: Callable[[str], None] | None = None,
        warn: Callable[[Issue], None] | None = None,
        note: Callable[[str], None] | None = None,
    ) -> None:
        self.project_dir = Path(project_dir)
        self.target = target or os.environ.get("ETC_TARGET") or None
        self.target_dir = Path(target_dir) if target_dir is not None else default_target_dir(self.project_dir)
        self._variables = dict(variables or {})
        self._allowed = self._allowed_by(allow) if are_untrusted(untrusted) else None
        self._require_own_way(self.project_dir, is_project=True)
        self._require_own_way(self.target_dir)
        if self._allowed is not None:
            _require_own_cache(self.project_dir)
        self._state = state or os.environ.get("ETC_STATE") or None
        self._spark_confs, self._spark_log = _free_confs(spark_confs or {}), spark_log
        self._metadata_only, self._read_once = metadata_only, read_once
        self._keeps_files, self._looks_up = keeps_files, looks_up
        self._ends_java_on_interrupt = ends_java_on_interrupt
        self._jobs = jobs
        self._progress, self._warn, self._note = progress or _ignore, warn or _ignore, note or _ignore
        if self._allowed is not None:
            left_out = "no Spark, no catalog, no git, no messages, no variables and no places"
            self._note(f"the project's files are not trusted: they get {left_out} but {self._allowed}")
        self._last: ProjectReading | None = None
        self._looked_up: ProjectReading | None = None
        self._shapes: dict[str, TableShape | None] = {}

    @cached_property
    def environment(self) -> Environment:
        """The outside world as the project's target says; the Spark session, once there is one, is `.spark`."""
        return self._environment_of(*self._target_and_folders())

    def _open_anyway(self) -> bool:
        """Whether the project's settings can be read; where they cannot, the outside world is as without them."""
        try:
            self.environment  # noqa: B018 - opened here
        except PolicyError:
            self.environment = self._environment_of(Target(), Folders())
            return False
        return True

    def _environment_of(self, target: Target, folders: Folders) -> Environment:
        return Environment(
            self.project_dir,
            self._progress,
            self._spark_confs,
            self._spark_log,
            target=target,
            folders=folders,
            allowed=self._allowed,
            catalog_dir=self.target_dir / "catalog",
            metadata_only=self._metadata_only,
            ends_java_on_interrupt=self._ends_java_on_interrupt,
            jobs=self._jobs or target.jobs,
            compaction_jobs=self._jobs or target.compaction_jobs,
        )

    def _allowed_by(self, terms: Terms) -> Allowed:
        """What a stranger's files may reach; their own folder is always among it, without links out of it."""
        given = (*terms_of(terms), *os.environ.get("ETC_ALLOW", "").split())
        return Allowed.of((os.path.realpath(self.project_dir), *map(_real, given)))

    @property
    def _files_environment(self) -> Mapping[str, str]:
        """The variables that the project's files may have."""
        return os.environ if self._allowed is None else self._allowed.environment(os.environ)

    def _may_look(self, folder: str) -> bool:
        """Whether the project's files may have a folder of this machine looked at, by its path without links."""
        return self._allowed is None or self._allowed.reaches(folder)

    def _require_own_way(self, path: Path, *, is_project: bool = False) -> None:
        """As `require_own_way`, where the files are a stranger's."""
        if self._allowed is not None:
            require_own_way(path, self.project_dir, is_project=is_project)

    def _require_trust(self, verb: str) -> None:
        """Return if the project's files may have anything done.

        Raises:
            UsageError: they are a stranger's.

        """
        if self._allowed is not None:
            raise not_for_strangers(verb)

    def __enter__(self) -> Self:
        """The project; leaving the block closes it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the project."""
        self.close()

    def close(self) -> None:
        """Stop Spark if a verb started it."""
        if "environment" in self.__dict__:
            self.environment.close()

    def read_anew(self) -> None:
        """Have the next verb read the project's files again, and look its tables up, by another target where it was changed."""
        self._last = self._looked_up = None
        self._shapes.clear()
        opened = self.__dict__.get("environment")
        if opened is not None:
            opened.bound_log()
        with suppress(EtcError):  # the next verb says so
            if opened is not None and (opened.target, opened.folders) != self._target_and_folders():
                self.close()
                del self.environment

    def manifest(self) -> Manifest:
        """Every policy with its defaults filled in; nothing is written.

        Raises:
            PolicyError: the project has errors; carries all of them.

        """
        return self._manifest(self._read())

    def policies(self, select: Terms = (), exclude: Terms = ()) -> tuple[Policy, ...]:
        """The policies that a selection means; without one every enabled policy.

        Raises:
            PolicyError: the project has errors; carries all of them.
            UsageError: a term that can mean nothing, a policy that is named but disabled, or terms that select nothing.

        """
        return self._select(self._read(), select, exclude)

    def _shape(self, policy: Policy) -> TableShape | None:
        """The table as it is, or as it was when the first verb read it; None for one that does not exist yet."""
        if policy.name not in self._shapes or not self._read_once:
            self._shapes[policy.name] = self._read_shape(policy)
        return self._shapes[policy.name]

    def _read_shape(self, policy: Policy) -> TableShape | None:
        """One that cannot be read is a warning."""
        try:
            with table_errors(policy):
                return self.environment.table_shape(policy)
        except EtcError as error:
            for issue in error.issues:
                self._warn(replace(issue, level="warning"))
            return None

    def _one(self, name: str, verb: str) -> Policy:
        """The policy of that name, for a verb that works on a single one."""
        policies = self.policies(name)
        if len(policies) != 1:
            message = f"`{name[:60]}` selects {len(policies)} policies, and `{verb}` takes a single one"
            raise UsageError(Code.USAGE, message)
        return policies[0]

    def left_out(self) -> Mapping[str, str]:
        """Why tables that namespaces find get no policy, by their locations."""
        return self._read().left_out

    def _read(self) -> ProjectReading:
        """The project with a policy for each table that its namespaces find, as it is now, or as the first verb read it."""
        reading = self._declared()
        if not (self._looks_up and (reading.files.namespaces or reading.files.refused)):
            return reading
        if self._looked_up is None or not self._read_once:
            from etc_policy.api.namespaces import with_found_tables
            from etc_policy.api.run_records import last_tables

            last = cache(partial(last_tables, self.target_dir))
            self._looked_up = with_found_tables(reading, self.environment, last)
        return self._looked_up

    def _declared(self) -> ProjectReading:
        """The project's files, with which no table is looked up, as they are now, or were when the first verb read them."""
        if self._last is None or not self._read_once:
            self._last = read_whole_project(
                self.project_dir,
                self.target,
                self._state,
                self._variables,
                self._files_environment,
                self._may_look,
                self._worked_on_since,
            )
        return self._last

    def _worked_on_since(self, location: str) -> int | None:
        """When etc began to work on a table; no store is asked where nothing is to be looked up."""
        return self.environment.worked_on_since(location) if self._looks_up or is_local(location) else None

    def _read_if_any(self) -> ProjectReading | None:
        """The project; None where it has no policy file yet."""
        try:
            return self._read()
        except PolicyError as error:
            if {issue.code for issue in error.issues} != {Code.NO_POLICIES}:
                raise
            return None

    def _target_and_folders(self) -> tuple[Target, Folders]:
        if self._last is not None and not self._last.has_errors:
            return self._last.files.target, self._last.files.folders
        settings = self._own_settings()
        return settings.target, settings.project.folders

    def _own_settings(self) -> Settings:
        """What etc_project.yml says."""
        return read_own_settings(str(self.project_dir), self._files_environment, self.target, self._variables)

    def _manifest(self, reading: ProjectReading) -> Manifest:
        """The manifest of a reading; its warnings are said once."""
        first = "manifest" not in reading.__dict__
        manifest = reading.manifest
        for issue in reading.issues if first else ():
            if issue.code != Code.OPEN_QUESTION:
                self._warn(issue)
        if first and reading.questions:
            text = count_of(len(reading.questions), "question")
            self._note(f"open: {text}; the policies of these files take part in no run (`etc parse` lists them)")
        return manifest

    def _every_ms(self, reading: ProjectReading, policies: tuple[Policy, ...], every: timedelta | None) -> int | None:
        """The time from run to run; None where it is left to the policies.

        Raises:
            PolicyError: a target of freshness can never be met by it.

        """
        if every is None:
            return None
        every_ms = span_ms(every)
        errors = interval_errors(reading.files, {policy.name for policy in policies}, every_ms)
        if errors:
            raise PolicyError(errors)
        if policies and not any(policy.freshness.target_ms for policy in policies):
            self._note("no selected policy has a `freshness.target`: each run compacts all that has arrived")
        return every_ms

    def _select(
        self, reading: ProjectReading, select: Terms, exclude: Terms, *, needs_one: bool = False
    ) -> tuple[Policy, ...]:
        """What is selected; nothing where no policy is enabled, unless the verb `needs_one`, or where `state:` says so."""
        manifest, selection = self._manifest(reading), self._selection(reading, select, exclude)
        found = select_policies(manifest, selection)
        if not found:
            if needs_one or any(policy.enabled for policy in manifest.policies):
                require_some(manifest, selection)
            has_any = manifest.policies or (manifest.namespaces and not self._looks_up)
            none = "every policy has open questions" if reading.questions else "the project has no policies"
            self._note("no policy is selected" if has_any else none)
        return found

    def _learned(self, policies: tuple[Policy, ...], now_ms: int) -> tuple[Policy, ...]:
        """The policies, with what their tables' histories say of a `data_latency` that is learned."""
        if not any(policy.learned_latency for policy in policies):
            return policies
        from etc_policy.api.observing import with_learned_latencies

        return with_learned_latencies(self.environment, policies, now_ms)

    def _disabled(self, reading: ProjectReading, select: Terms, exclude: Terms) -> tuple[Policy, ...]:
        """The disabled policies that the selection does not leave out."""
        return disabled_policies(self._manifest(reading), self._selection(reading, select, exclude))

    def _selection(self, reading: ProjectReading, select: Terms, exclude: Terms) -> Selection:
        asked = {str(item.get("name")): path for path, item in policies_with_questions(reading.files.texts)}
        selection = Selection(selected_terms(select), terms_of(exclude), reading.earlier, asked)
        methods = {
            part.partition(":")[0] for term in (*selection.select, *selection.exclude) for part in term.split(",")
        }
        if methods.isdisjoint(("result", "freshness")):
            return selection
        from etc_policy.api.run_records import found_freshness, how_runs_ended

        policies = self._manifest(reading).policies
        if "result" in methods:
            selection = replace(selection, results=how_runs_ended(self.target_dir, policies))
        if "freshness" in methods:
            selection = replace(selection, freshness=found_freshness(self.target_dir, policies))
        return selection


def _real(term: str) -> str:
    """A term of `allow`, of a local folder the one that it leads to."""
    return real_path(term) if "/" in term and is_local(term) else term


def _free_confs(confs: Mapping[str, str]) -> dict[str, str]:
    """The settings of Spark, if none of them is an option of Hudi that a policy may not set.

    Raises:
        UsageError: one is.

    """
    for key in confs:
        fault = spark_conf_fault(key)
        if fault is not None:
            raise UsageError(fault[0], f"the option `{key[:80]}` {fault[1]}", hint=fault[2])
    return dict(confs)
