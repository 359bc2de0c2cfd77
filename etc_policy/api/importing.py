"""`etc import`: policies for tables that exist, from their metadata, a base file and some log files; a project's own stay."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from pydantic import ValidationError

from etc_policy import __version__
from etc_policy.api.diagnosing import read_facts
from etc_policy.api.each_table import each_table
from etc_policy.api.loading import ProjectReading
from etc_policy.api.simulating import changed
from etc_policy.errors import EtcError, Issue, PolicyError, TableError, UsageError
from etc_policy.errors.codes import Code
from etc_policy.errors.plain_text import one_line
from etc_policy.policy.files import policies_with_questions, read_template
from etc_policy.policy.findings import schema_issues
from etc_policy.policy.locations import glob_matches, location_fault, location_identity, resolve_location
from etc_policy.policy.manifest import Policy
from etc_policy.policy.project import DeclaredPolicy
from etc_policy.policy.reading import Settings
from etc_policy.policy.render import render
from etc_policy.policy.schema import PartitionTime, PolicyDeclaration, PolicyEntry
from etc_policy.policy.schema_values import GLOB
from etc_policy.policy.scope import Scope
from etc_policy.policy.suggestions import did_you_mean
from etc_policy.policy.times import usual_pattern
from etc_policy.policy.yaml_marks import FileMarks, Places
from etc_policy.report.imports import OF_A_TABLE, ImportedTable, ImportReport
from etc_policy.storage.open_storage import table_identity
from etc_policy.table.instants import instant_to_ms
from etc_policy.verify.diagnosis import TableFacts
from etc_policy.verify.proposal import (
    TARGET_REASON,
    Survey,
    answer_faults,
    find_drift,
    proposed_lines,
    readable_times,
    render_proposal,
    said_doubts,
    target_for,
    time_columns,
    why_not_guessed,
    why_skipped,
    yaml_text,
)
from etc_policy.wiring import NO_POLICY_FITS, Environment

_NOT_IN_NAMES = re.compile(r"[^a-z0-9_-]+")
_SURROGATE = re.compile("[\ud800-\udfff]")
_LONGEST_NAME = 100
#: What a policy says until the table has been looked at.
_PROVISIONAL_LATENCY_MS = 3_600_000
_DATABASE = re.compile(r"(?P<database>\w+)(?:\.(?P<pattern>[\w*|]+))?")


class Sources(NamedTuple):
    """Where tables are looked for: paths or patterns of them, folders to search, and `DB` or `DB.PATTERN` of the catalog."""

    paths: Sequence[str] = ()
    buckets: Sequence[str] = ()
    catalogs: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class KnownTables:
    """What the project has: its policies, names that are taken, and where paths begin.

    `open_tables` has the name and the file of each policy with open questions, by the identity of its table.
    """

    root: str
    policies: tuple[Policy, ...] = ()
    open_tables: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    names: frozenset[str] = frozenset()

    def identity(self, location: str) -> str:
        """The same for every way of writing one table."""
        return table_identity(location, self.root)


class Answer(NamedTuple):
    """A value by its key that the user gives for the policies of all tables, or of those whose name or path fits a glob."""

    key: str
    value: object
    tables: str | None = None

    def fits(self, name: str, table: str) -> bool:
        """Whether it is about a table that its policy names so."""
        return self.tables is None or any(glob_matches(one, self.tables) for one in (name, table))


class Answers(NamedTuple):
    """Answers that stand once in etc_project.yml, those for the files of policies, and what etc_project.yml has besides."""

    of_project: tuple[Answer, ...] = ()
    of_files: tuple[Answer, ...] = ()
    defaults: Mapping[str, object] = {}


NO_ANSWERS = Answers()


class _Found(NamedTuple):
    """A table's location; `is_named` says that somebody named it, `ro_table` is its read-optimized one in the catalog."""

    location: str
    is_named: bool = False
    ro_table: str | None = None


@dataclass(frozen=True)
class Importer:
    """Looks at tables and writes a policy for each new one by `write`, or says what would be written where it is None.

    With `guesses` what the table does not show is no question in it, but what is likely. `answers` are in the place of what
    a table shows or leaves open.
    """

    environment: Environment
    known: KnownTables
    folder: str
    clock_ms: int
    write: Callable[[str, str], None] | None = None
    guesses: bool = False
    answers: Answers = NO_ANSWERS
    errors: list[EtcError] = field(default_factory=list)

    def run(self, sources: Sources) -> ImportReport:
        """What became of each table, with what went wrong, table by table."""
        is_diff = self.write is None
        found = self._found(sources)
        if is_diff and not any(sources):
            found = {self.known.identity(one.table): _Found(one.table, is_named=True) for one in self.known.policies}
        owners = {self.known.identity(one.table): one for one in self.known.policies}
        new = {key: one for key, one in found.items() if key not in owners and key not in self.known.open_tables}
        tables = {key: self._known(key, one, owners.get(key)) for key, one in found.items() if key not in new}
        if is_diff:
            tables |= self._compared({key: owners[key] for key in found if key in owners and owners[key].enabled})
        tables |= self._new(new)
        report = ImportReport(etc_version=__version__, tables=tuple(tables[key] for key in found))
        return report.with_errors(self.errors)

    def _known(self, key: str, found: _Found, owner: Policy | None) -> ImportedTable:
        if owner is not None:
            reason = None if owner.enabled else "skipped by `enabled: false`"
            return ImportedTable(table=owner.table, policy=owner.name, status="known", file=owner.source, reason=reason)
        name, file = self.known.open_tables[key]
        why = "it has open questions"
        return ImportedTable(table=found.location, policy=name, status="known", file=file, reason=why)

    def _compared(self, owners: Mapping[str, Policy]) -> dict[str, ImportedTable]:
        def compare(policy: Policy, facts: TableFacts) -> ImportedTable:
            drift = tuple(find_drift(facts))
            status = "drifted" if drift else "known"
            reason = facts.state.zone_fault
            return ImportedTable(
                table=policy.table, policy=policy.name, status=status, file=policy.source, drift=drift, reason=reason
            )

        read = partial(read_facts, self.environment)
        tables, _ = each_table(self.environment, owners.values(), read, self._failed, compare)
        return dict(zip(owners, tables, strict=True))

    def _new(self, found: Mapping[str, _Found]) -> dict[str, ImportedTable]:
        """The tables that the project has not; `key` is the identity of each."""
        names, policies = set(self.known.names), {}
        for key, one in found.items():
            name = policy_name(one.location, names)
            names.add(name)
            policies[name] = (key, one)

        def read(policy: Policy) -> Survey:
            return self._survey(policy, policies[policy.name][1])

        def failed(policy: Policy, error: EtcError) -> ImportedTable:
            return self._failed(policy, error, is_named=policies[policy.name][1].is_named)

        chosen = [self._provisional(name, one.location) for name, (_, one) in policies.items()]
        self._require_used(chosen)
        refused, texts = dict[Refusal, dict[str, str]](), dict[str, str]()
        has_answers, write = bool(self.answers.of_files or self.answers.of_project), self.write or _dropped
        keep = texts.__setitem__ if has_answers else write

        def proposed(policy: Policy, survey: Survey) -> ImportedTable:
            for code, key, fault, hint in answer_faults(survey) if has_answers else ():
                refused.setdefault((code, key, fault), {})[policy.name] = hint
            table, text = self._proposed(policy, survey)
            if table.file is not None:
                keep(table.file, text)
            return table

        tables, _ = each_table(self.environment, chosen, read, failed, proposed)
        if refused:
            raise PolicyError(_refused(refused))
        for file, text in texts.items():
            write(file, text)
        return {policies[table.policy][0]: table for table in tables}

    def _failed(self, policy: Policy, error: EtcError, *, is_named: bool = True) -> ImportedTable:
        is_error = is_named or error.code not in NO_POLICY_FITS
        if is_error:
            self.errors.append(error)
        return ImportedTable(
            table=policy.table,
            policy=policy.name,
            status="failed" if is_error else "left_out",
            reason=error.message,
            reason_code=str(error.code),
        )

    def _provisional(self, name: str, location: str) -> Policy:
        undecided = {"event_time": {"column": "_"}, "data_latency_ms": _PROVISIONAL_LATENCY_MS}
        policy = Policy.model_validate({"name": name, "table": location, **undecided})
        writer = policy.writer.model_copy(update={"lock": dict(self.environment.target.lock)})
        return policy.model_copy(update={"writer": writer})

    def _survey(self, policy: Policy, found: _Found) -> Survey:
        table = self._as_written(found.location)
        if fault := location_fault(table):
            raise TableError(Code.BAD_TABLE, f"`{table}` cannot be the table of a policy: it {fault[0]}", hint=fault[1])
        try:
            columns = self.environment.columns(found.location)
        except TableError as error:
            if error.code == Code.NO_TABLE:
                error.hint = None  # it is about a policy
            elif error.code == Code.NOT_HUDI:
                search = "" if self.guesses else ", or search it by `--bucket`"
                error.hint = f"where tables are in it, name them by `{found.location}/*`{search}"
            raise
        given = {one.key: one.value for one in self.answers.of_files if one.fits(policy.name, table)}
        names = time_columns(columns.types, columns.properties, given)
        if not names:
            shown = ", ".join(columns.types) or "not known, as no commit carries a schema"
            message = (
                f"`{found.location}` has no column that can hold event times; its columns are {one_line(shown)[:300]}"
            )
            hint = (
                "leave it out: etc goes by times of events, and not by Hudi's commit time. Is one of its columns such a time "
                "all the same? `--set 'NAME:event_time_column={column: COLUMN, unit: s}'` says so"
            )
            raise TableError(Code.NO_EVENT_TIME_COLUMN, message, hint=hint)
        event_time = policy.event_time.model_copy(update={"column": names[0]})
        policy = policy.model_copy(update={"event_time": event_time})
        facts = read_facts(self.environment, policy, read_logs=False)
        facts = replace(facts, policy=_with_partition_time(facts))
        ranges = self.environment.column_ranges(facts.state, names)
        said = given, {one.key: one.value for one in self.answers.of_project}, self.answers.defaults
        if facts.state.zone_fault:
            return Survey(table, facts, columns.types, ranges, None, found.ro_table, {}, *said)
        written = max((one.base_instant for one in facts.state.slices if one.base_file), default=None)
        written_ms = None if written is None else instant_to_ms(written, ZoneInfo(facts.state.timezone))
        survey = Survey(table, facts, columns.types, ranges, written_ms, found.ro_table, {}, *said)
        lags = self.environment.sampled_lags(facts.state, readable_times(survey), columns.types)
        survey = replace(survey, lags=lags)
        if self.guesses and (why := why_not_guessed(survey)) is not None:
            message = (
                f"it is not known when the events of `{found.location}` happened: none of its columns says it ({why})"
            )
            hint = "`etc import` asks for another column, or skips the table; etc does not go by Hudi's commit time"
            raise TableError(Code.NO_EVENT_TIME_COLUMN, message, hint=hint)
        return survey

    def _require_used(self, policies: Sequence[Policy]) -> None:
        for one in self.answers.of_files if policies else ():
            if not any(one.fits(policy.name, self._as_written(policy.table)) for policy in policies):
                names = [policy.name for policy in policies]
                hint = did_you_mean(one.tables or "", names) or f"the tables are {', '.join(names[:10])}"
                raise UsageError(Code.USAGE, f"`--set`: no table that is new fits `{one.tables}`", hint=hint)

    def _proposed(self, policy: Policy, survey: Survey) -> tuple[ImportedTable, str]:
        """What becomes of a new table, and the text of its policy."""
        lines = proposed_lines(survey)
        asked = {line.key: line.value for line in lines if line.asks}
        reason = survey.facts.state.zone_fault or "; ".join(said_doubts(survey)) or why_skipped(survey)
        of_table: Any = {"table": policy.table, "policy": policy.name, "questions": tuple(asked), "proposed": asked}
        of_table |= {"reason": reason, "settled": tuple(line.key for line in lines if line.stays)}
        if self.write is None:
            return ImportedTable(status="new", **of_table), ""
        table = ImportedTable(status="written", file=f"{self.folder}/{policy.name}.yml", **of_table)
        return table, render_proposal(survey, guesses=self.guesses)

    def _as_written(self, location: str) -> str:
        """The location as the policy names it: from the target's `table_root`, where it lies below that."""
        root = f"{self.known.root.rstrip('/')}/"
        below = location.removeprefix(root)
        return location if below == location else f"./{below}" if "/" not in below and "." in below else below

    def _found(self, sources: Sources) -> dict[str, _Found]:
        """Each table once, by its identity; what cannot be searched is an error."""
        found: dict[str, _Found] = {}
        for one in _locations(self.environment, sources):
            if isinstance(one, EtcError):
                self.errors.append(one)
                continue
            if _SURROGATE.search(one.location):
                message = f"`{one.location}` cannot be the table of a policy: its name is not UTF-8"
                hint = "`tables` with a glob over its folder finds it without a policy of its own"
                self.errors.append(TableError(Code.BAD_TABLE, message, hint=hint))
                continue
            key, root = self.known.identity(one.location), self.known.root
            before = found.get(key, one)
            chosen = one if is_linked(before.location, root) and not is_linked(one.location, root) else before
            found[key] = chosen._replace(ro_table=before.ro_table or one.ro_table)
        return found


def _dropped(_: str, __: str) -> None:
    """Nothing is written."""


#: A policy that is right, to try values in; and what a value for many policies cannot be.
_ANY = {"name": "any", "table": "any", "event_time_column": {"column": "any"}, "data_latency": "1h"}
_NOT_FOR_MANY = ("name", "table", "tables", "exclude", "extends", "for_each")
#: What tables have against an answer: code, key and fault.
Refusal = tuple[Code, str, str]
#: So many tables are named, and so many hints are given.
_NAMED, _HINTS = 10, 3
#: Keys that a file has by the keys below them.
_GROUPS = ("strategy", "writer", "verify", "sync")


def answers_of(given: Mapping[str, object], own: Settings) -> Answers:
    """The answers by `KEY`, or `A,B:KEY` for some tables; each value is right by itself, and what the project has says `own`.

    Raises:
        UsageError: a key is no such one, or has no value.
        PolicyError: a key is not known or a value is wrong; carries all of them.

    """
    answers, issues = list[Answer](), list[Issue]()
    for text, given_value in given.items():
        tables, _, name = text.rpartition(":")
        if given_value is None or name in _NOT_FOR_MANY:
            fault = "has no value" if given_value is None else "is not the same for many tables"
            raise UsageError(Code.USAGE, f"`--set`: `{name[:60]}` {fault}", hint="such as `--set data_latency=30m`")
        key, value = _of_two_parts(name, given_value)
        issues += _faults(key, value)
        answers += (Answer(*one, glob or None) for glob in tables.split(",") for one in _in_parts(key, value))
    if issues:
        raise PolicyError(issues)
    for_all = ((key[1:], value) for key, value in own.defaults.items() if key.startswith("+"))
    defaults = dict(chain.from_iterable(_in_parts(*one) for one in for_all))
    of_project = tuple(
        one
        for one in answers
        if one.tables is None
        and one.key.partition(".")[0] not in OF_A_TABLE  # a default would answer for tables that come later
        and (own.file is None or defaults.get(one.key) == one.value)
    )
    of_files = tuple(one for one in answers if one not in of_project)
    return Answers(of_project, of_files, defaults)


def _of_two_parts(key: str, value: object) -> tuple[str, object]:
    """The key with two parts at most, and what is below them in the value."""
    first, *below = key.split(".")
    for part in reversed(below[1:]):
        value = {part: value}
    return ".".join((first, *below[:1])), value


def _in_parts(key: str, value: object) -> Iterable[tuple[str, object]]:
    """The value by the keys that a policy file has, of a group by each of its keys."""
    if key not in _GROUPS:
        return ((key, value),)
    return ((f"{key}.{name}", one) for name, one in value.items()) if isinstance(value, dict) else ()


def _refused(refused: Mapping[Refusal, Mapping[str, str]]) -> Iterator[Issue]:
    """An error for each answer that tables contradict, with their names."""
    for (code, key, fault), hints in refused.items():
        by_hint = dict[str, list[str]]()
        for name, hint in hints.items():
            by_hint.setdefault(hint, []).append(name)
        of_tables = (f"{_named(names, 3)}: {hint}" for hint, names in [*by_hint.items()][:_HINTS])
        hint = "; ".join(of_tables) if len(by_hint) > 1 else next(iter(by_hint))
        yield Issue(code=code, message=f"`--set` of `{key}`: {_named([*hints], _NAMED)}: {fault}", hint=hint)


def _named(names: Sequence[str], most: int) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(f"`{name}`" for name in names[:most]) + more


def _faults(key: str, value: object) -> Iterator[Issue]:
    places = Places(FileMarks("--set", "--set"))
    policy = DeclaredPolicy(PolicyDeclaration.from_yaml(_ANY), places, _ANY)
    values, places = changed(policy, {key: value})
    try:
        PolicyDeclaration.from_yaml(values)
    except ValidationError as error:
        yield from (issue for _, issue in schema_issues(error, PolicyEntry, places))


def files_beside(project_dir: Path, answers: Sequence[Answer]) -> dict[str, str]:
    """What an import writes before policies, by its path: the answers for all tables, and what git is to leave out."""
    name = Path(os.path.realpath(project_dir)).name
    files = {"etc_project.yml": _project_text(name, answers)} if answers else {}
    if not os.path.lexists(project_dir / ".gitignore"):
        files[".gitignore"] = read_template("project/gitignore")
    return files


def _project_text(name: str, answers: Sequence[Answer]) -> str:
    values: dict[str, Any] = {}
    for one in answers:
        first, *below = one.key.split(".")
        values[first] = {**values.get(first, {}), below[0]: one.value} if below else one.value
    head = ("# What policies take that do not say otherwise.", "version: 1", f"name: {plain_name([name])}", "policies:")
    lines = [*head, *(f"  +{key}: {yaml_text(value)}" for key, value in values.items())]
    target = None if "freshness" in values else target_for(values.get("data_latency"))
    if target is not None:
        lines.append(f"  +freshness: {{target: {target}}}  # {TARGET_REASON}")
    return "\n".join(lines) + "\n"


def _with_partition_time(facts: TableFacts) -> Policy:
    """The policy with the partitions' hours, days or months, where their paths are such: for what is to be said of their ends."""
    pattern = usual_pattern(sorted({one.partition for one in facts.state.slices}))
    return facts.policy.model_copy(update={"partition_time": PartitionTime(pattern=pattern) if pattern else None})


def _locations(environment: Environment, sources: Sources) -> Iterator[_Found | EtcError]:
    """Each table that is meant, and what each source that cannot be searched says."""
    searches: list[Callable[[], Iterable[_Found | str | EtcError]]] = [
        *(partial(_of_path, path) for path in sources.paths),
        *(partial(environment.find_tables, _absolute(bucket)) for bucket in sources.buckets),
        *(partial(_of_catalog, environment, text) for text in sources.catalogs),
    ]
    for search in searches:
        try:
            found = list(search())
            yield from (one for one in found if not isinstance(one, str))
            yield from map(
                _Found, sorted((one for one in found if isinstance(one, str)), key=lambda one: one.split("/"))
            )
        except EtcError as error:
            yield error


def _of_path(path: str) -> Iterable[_Found]:
    is_one = ":/" in path or not GLOB.search(path) or Path(path).exists()
    matches = [path] if is_one else sorted(one for one in glob.glob(path) if Path(one).is_dir())  # noqa: PTH207 - a pattern from the root too
    if not matches:
        raise TableError(Code.NO_TABLE, f"no folder matches `{path}`", hint="`--bucket` searches a folder at any depth")
    return (_Found(_absolute(one), is_named=True) for one in matches)


def _of_catalog(environment: Environment, text: str) -> Iterator[_Found | EtcError]:
    named = _DATABASE.fullmatch(text)
    if named is None:
        message = f"`{text[:60]}` is not a database, or `DB.PATTERN`"
        raise UsageError(Code.USAGE, message, hint="such as `--catalog 'sales.*_mor'`")
    count = 0
    for name, location in environment.catalog_tables(named["database"], named["pattern"] or "*"):
        count += 1
        ro_table = name if name.endswith("_ro") else None
        yield location if isinstance(location, EtcError) else _Found(location.rstrip("/"), ro_table=ro_table)
    if not count:
        raise TableError(Code.UNKNOWN_CATALOG_TABLE, f"no table of the catalog matches `{text}`")


def _absolute(path: str) -> str:
    return path.rstrip("/") if ":/" in path else os.path.abspath(path)  # noqa: PTH100 - links are kept as they are named


def is_linked(location: str, root: str) -> bool:
    """Whether a link leads to the table."""
    return location_identity(resolve_location(location, root)) != table_identity(location, root)


def policy_name(location: str, taken: Iterable[str]) -> str:
    """A name for the policy of a table: its folder's, with those of as many folders above as it takes to be free."""
    parts = [part for part in PurePosixPath(location.partition(":/")[2] or location).parts if part != "/"]
    longer = (plain_name(parts[-count:]) for count in range(1, len(parts) + 1))
    numbered = (f"{plain_name(parts[-1:])[: _LONGEST_NAME - 8]}_{number}" for number in range(2, 1_000_000))
    return next(name for name in chain(longer, numbered) if name not in taken)


def plain_name(parts: Sequence[str]) -> str:
    """Names of folders as a name that a policy may have."""
    plain = _NOT_IN_NAMES.sub("_", "_".join(parts).lower()).strip("_-") or "table"
    return (plain if plain[0].isalpha() else f"table_{plain}")[:_LONGEST_NAME]


def known_tables(reading: ProjectReading | None, root: str) -> KnownTables:
    """What a project has already; without files nothing."""
    if reading is None:
        return KnownTables(root)
    policies = reading.manifest.policies
    known = KnownTables(reading.manifest.table_root or root, policies)
    asked = list(policies_with_questions(reading.files.texts))
    stems = (Path(path).stem for path in reading.files.texts)
    return replace(
        known,
        open_tables={known.identity(_table_of(one)): (str(one.get("name")), path) for path, one in asked},
        names=frozenset([*(one.name for one in policies), *(str(one.get("name")) for _, one in asked), *stems]),
    )


def _table_of(item: Mapping[str, object]) -> str:
    """The table of a policy with open questions, whose file is read as it is but for braces as `etc import` writes them."""
    text = str(item.get("table"))
    value, faults = render(text, Scope({}))
    return text if faults else str(value)
