"""The one place that picks engines and storages. Imports are inside functions: nothing heavy loads before it is needed."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from etc_policy.errors import EtcError, let_go
from etc_policy.errors.codes import Code
from etc_policy.hudi.stable_reading import no_garbage_collection as no_garbage_collection
from etc_policy.plan.bundles import OF_HUDI_1_0, fitting_release
from etc_policy.plan.commit_metadata import DIRTY_SUFFIX
from etc_policy.policy.locations import S3_SCHEMES, is_catalog_name
from etc_policy.policy.manifest import EventTime, GitState, Policy
from etc_policy.table.history import TableHistory, TableReading, promise_of
from etc_policy.table.impossible_times import needs_base_files
from etc_policy.table.log_witness import of_event_time, with_earlier_times
from etc_policy.table.state import RowGroup, TableState, WriterOption, newest_base_file
from etc_policy.wiring.sessions import SparkSessions as SparkSessions

if TYPE_CHECKING:
    from etc_policy.demo.demo import Demo as Demo
    from etc_policy.hudi.discovery import Columns, Range
    from etc_policy.policy.writers import TableShape
    from etc_policy.report.glue_catalog import GlueCatalog
    from etc_policy.report.metrics import TableObservation
    from etc_policy.report.sync import PropertyStore
    from etc_policy.run.forgetting import Forgetter
    from etc_policy.run.runner import Runner
    from etc_policy.storage.object_cache import Cache
    from etc_policy.table.apply_state import ApplyState, ApplyStateStore
    from etc_policy.table.cuts import BaseFiles
    from etc_policy.verify.diagnosis import Finding, HeldLock
    from etc_policy.verify.ports import DataVerifier


_Reading = TypeVar("_Reading")
#: Why a table that was found, not named, is left out.
NO_POLICY_FITS = (Code.NOT_MERGE_ON_READ, Code.BOOTSTRAP_TABLE, Code.NOT_HUDI, Code.NO_EVENT_TIME_COLUMN)


def clock_ms() -> int:
    """The wall clock in epoch milliseconds."""
    return time.time_ns() // 1_000_000


class Readings(SparkSessions):
    """What is read of tables and of the machine, with Spark only where nothing else knows."""

    def locate(self, policy: Policy) -> str:
        """The base path of a policy's table; a `db.table` is asked of the target's catalog, anything else is a path."""
        self._reach_storages()
        location = policy.table
        if (error := self.refused.get(location)) is not None:
            raise error
        if is_catalog_name(location):
            self._require_trust(f"a catalog is needed for `{location}`")
        else:
            self.require_allowed(location)
        if is_catalog_name(location) and (glue := self._glue()) is not None:
            location = glue.location(location)
        elif is_catalog_name(location):
            from etc_policy.spark.catalog import table_location

            location = table_location(self.catalog_spark, location)
        self.reaches_s3 = self.reaches_s3 or location.startswith(S3_SCHEMES)
        return location

    def _glue(self, base_path: str = "") -> GlueCatalog | None:
        """The Glue Data Catalog, where the target names it, with the properties of the tables at a base path."""
        if self.target.catalog is None or self.target.catalog.type != "glue":
            return None
        from etc_policy.report.glue_catalog import GlueCatalog

        return GlueCatalog(self.target.catalog, self.target.storage, base_path)

    def _tables_cache(self) -> Cache | None:
        """Where commands keep what they decoded of tables; None where the user wants nothing kept."""
        from etc_policy.storage.object_cache import cache_folder, tables_cache_in
        from etc_policy.storage.store_keys import server_of

        folder = cache_folder(os.environ)
        return tables_cache_in(folder, server_of(self.target.storage, os.environ)) if folder else None

    def _reach_storages(self) -> None:
        """As the target says, also where another project has been at work in between."""
        from etc_policy.storage.open_storage import use_storage_settings

        use_storage_settings(self.target.storage)

    def read_state(self, policy: Policy, *, read_stats: bool = False, read_logs: bool = True) -> TableState:
        """The state of a policy's table.

        A log file's event time is that of its commit, unless log files contradict commits (`_as_believed`); else, if
        `read_logs` and not `metadata_only`, that of its own blocks; then
        an earlier one counts that a verification has noted beside the table; what is unknown still comes from column statistics
        with `read_stats`. Where none knows it, the file is compacted,
        or the table refused where it would be left out.
        """
        from etc_policy.hudi.table import FileTableReader

        reader, location = FileTableReader(self._tables_cache(), self.note_state), self.locate(policy)

        def read(event_time: EventTime) -> TableState:
            return reader.read(location, event_time, policy.writer.heartbeat_expiry_ms)

        state = self._as_believed(policy, read, lambda found: found, asks=read_logs)
        state = self._with_times_and_notes(policy, state, read_logs=read_logs)
        return self.with_statistics(policy, state) if read_stats else state

    def read_table(
        self,
        policy: Policy,
        *,
        archived: int | None = 0,
        read_logs: bool = True,
        all_logs: bool = False,
        kept: bool = False,
        notes_before: bool = False,
    ) -> TableReading:
        """The state of a policy's table as `read_state` gives it without statistics, and its past, from one reading.

        The past has so many archived commits, None for all, and with `all_logs` every log file is read. What was
        kept of commits that were decoded before is used with `kept` alone, as verification goes by the table's own files. The
        notes of the state are with `notes_before` those of before the reading: what was noted meanwhile it may not have seen.
        """
        from etc_policy.hudi.table import FileTableReader

        reader, location = FileTableReader(self._tables_cache() if kept else None, self.note_state), self.locate(policy)

        def read(event_time: EventTime) -> TableReading:
            return reader.read_with_history(location, event_time, policy.writer.heartbeat_expiry_ms, archived=archived)

        noted = self.apply_states.read(location) if notes_before else None
        found = self._as_believed(policy, read, lambda found: found.state, asks=read_logs and not all_logs)
        state, history, properties, further = found
        state = self._with_times_and_notes(policy, state, read_logs=read_logs, all_logs=all_logs, noted=noted)

        def with_times(past: TableHistory) -> TableHistory:
            return self._with_read_times(policy, state, past)

        return TableReading(state, with_times(history), properties, lambda: with_times(further()))

    def read_whole(self, policy: Policy, *, read_logs: bool = True) -> TableReading:
        """What `read_table` gives with the newest archived commits, of which what was kept is used."""
        from etc_policy.hudi.completed_writes import MAX_ARCHIVED

        return self.read_table(policy, archived=MAX_ARCHIVED, read_logs=read_logs, kept=True)

    def release_of(self, policy: Policy) -> str | None:
        """The release that takes a policy's table, as it was last read, else by its properties.

        What else decides is read where Hudi 1.0 has made the table. None where there is no choice: a bundle is named, or this
        process cannot start a Java of its own.
        """
        if not self.may_choose_release:
            return None
        if policy.name not in self._releases:
            self._releases[policy.name] = self._find_release(policy)
        return self._releases[policy.name]

    def _find_release(self, policy: Policy) -> str | None:
        from etc_policy.hudi.properties import merging_of, metadata_partitions, read_properties
        from etc_policy.storage.open_storage import open_reader

        properties = read_properties(open_reader(self.locate(policy)))
        merging = merging_of(properties)
        if OF_HUDI_1_0 in merging and metadata_partitions(properties):
            return self.read_state(policy, read_logs=False).release
        return fitting_release(merging, policy.writer.merges_tested_with)

    def find_tables(self, location: str, levels: Sequence[str] = ()) -> Iterator[str | EtcError]:
        """The paths of the tables below a folder or in a bucket, and an error for each folder that cannot be read.

        With `levels` those alone whose folders match these globs, each for one level.
        """
        from etc_policy.hudi.discovery import find_tables

        self._reach_storages()
        self.require_allowed(location)
        return find_tables(location, levels, self.may_look)

    def why_not_a_policy(self, location: str) -> EtcError | None:
        """Why no policy can fit a table that was found, such as that it is copy-on-write; None where one may."""
        from etc_policy.hudi.properties import read_properties
        from etc_policy.storage.open_storage import open_reader

        self._reach_storages()
        try:
            self.require_allowed(location)
            read_properties(open_reader(location))
        except EtcError as error:  # what else is wrong each verb says of the table
            let_go(error)
            return error if error.code in NO_POLICY_FITS else None
        return None

    def catalog_tables(self, database: str, pattern: str) -> Iterator[tuple[str, str | EtcError]]:
        """The tables `db.table` of the catalog whose names match, each with its path or why that is not known."""
        self._require_trust(f"a catalog is needed for the tables of `{database}`")
        if (glue := self._glue()) is not None:
            return glue.tables(database, pattern)
        from etc_policy.spark.catalog import tables_in

        return tables_in(self.catalog_spark, database, pattern)

    def columns(self, location: str) -> Columns:
        """The columns of a table that has no policy yet, and its properties."""
        from etc_policy.hudi.discovery import read_columns

        self._reach_storages()
        return read_columns(location)

    def column_ranges(self, state: TableState, names: Sequence[str]) -> dict[str, Range]:
        """What the newest base file of a table holds of some columns, by its footer."""
        from etc_policy.hudi.discovery import column_ranges

        return column_ranges(state.base_path, newest_base_file(state.slices), names)

    def sampled_lags(
        self, state: TableState, event_times: Iterable[EventTime], types: Mapping[str, str]
    ) -> dict[str, tuple[int, ...]]:
        """How late the events of a table's newest commits came by some columns, the shortest first; without Spark."""
        from etc_policy.hudi.log_times import sampled_lags

        if self.metadata_only:
            return {}
        self._say_what_is_not_read()
        return sampled_lags(state, event_times, types, self._tables_cache())

    def _say_what_is_not_read(self) -> None:
        """Say once that no base file is looked at, where pyarrow is not installed."""
        from etc_policy.hudi.footers import can_read_parquet

        if can_read_parquet() or not self._unread_is_new.acquire(blocking=False):  # tables are read side by side
            return
        self.progress(
            "base files are not read, and `etc import` asks more: no pyarrow 26 or later; run "
            f"`{sys.executable} -m pip install 'pyarrow>=26'`"
        )

    def _as_believed(
        self,
        policy: Policy,
        read: Callable[[EventTime], _Reading],
        state_of: Callable[[_Reading], TableState],
        *,
        asks: bool,
    ) -> _Reading:
        """A reading with the event times that commits recorded, or without them where a few log files contradict them.

        That is asked while etc has not compacted the table by the policy's event-time column: no commit names its column.
        """
        found = read(policy.event_time)
        if not asks or self.metadata_only or promise_of(policy, state_of(found)) is not None:
            return found
        from etc_policy.hudi.log_times import why_not_believed

        why = why_not_believed(state_of(found), policy, self._tables_cache(), self.progress)
        if why is None:
            return found
        advice = (
            "once etc has compacted the table they are, unless `event_time_column` has `trust_commit_metadata: false`"
        )
        self.progress(f"{policy.name}: event times that commits recorded are not believed: {why}; {advice}")
        return read(policy.event_time.model_copy(update={"trust_commit_metadata": False}))

    def _with_times_and_notes(
        self,
        policy: Policy,
        state: TableState,
        *,
        read_logs: bool = True,
        all_logs: bool = False,
        noted: ApplyState | None = None,
    ) -> TableState:
        """The state with what is not in its timeline: event times from log files, and what is kept beside the table now, or was
        `noted` there.
        """
        if read_logs and not self.metadata_only and (all_logs or state.lacks_event_times):
            from etc_policy.hudi.log_times import fill_from_logs, read_all_logs

            read = read_all_logs if all_logs else fill_from_logs
            state = read(state, policy, self._tables_cache(), self.progress)
        if not self.metadata_only and needs_base_files(state, policy.data_latency_ms):
            from etc_policy.hudi.base_times import with_left_times, with_newest_times

            self._say_what_is_not_read()
            shows_none = state.unreadable_time is None and not state.knows_event_times
            is_new = read_logs and shows_none and promise_of(policy, state) is None
            state = with_newest_times(state, policy.event_time) if is_new else state
            state = with_left_times(state, policy.event_time, self._tables_cache())
        kept = self.apply_states.read(state.base_path) if noted is None else noted
        # of both times of a log file the earlier one counts
        state = with_earlier_times(state, of_event_time(kept.misrecorded, policy.event_time, state))
        return replace(state, apply_state=kept, release=self.release_for(policy, state))

    def _with_read_times(self, policy: Policy, state: TableState, history: TableHistory) -> TableHistory:
        """The history with what this user has read of log files, also of those that are compacted now."""
        if self.metadata_only:
            return history
        from etc_policy.hudi.log_times import with_read_times

        return with_read_times(history, state, policy, self._tables_cache())

    @property
    def apply_states(self) -> ApplyStateStore:
        """What `etc` keeps beside each table from run to run."""
        from etc_policy.hudi.apply_state import FileApplyStateStore

        self._reach_storages()
        return FileApplyStateStore()

    def signs_of_runs(self, policies: Iterable[Policy]) -> tuple[object, ...]:
        """What changes while runs of etc are at work on these tables; Spark is not asked. A table that fails shows none."""
        from etc_policy.run.run_signs import sign_of_run
        from etc_policy.storage.open_storage import open_reader

        def sign(table: str) -> object:
            try:
                return sign_of_run(open_reader(table))
            except Exception as error:  # whatever a writer has made of it hides the signs of no other table
                let_go(error)
                return None

        self._reach_storages()
        return tuple(sign(one.table) for one in policies if not is_catalog_name(one.table))

    def worked_on_since(self, location: str) -> int | None:
        """When etc began to work on a table, as its storage says (ns); None where nothing of etc says so.

        Raises:
            RetryableError: the store does not answer.
            TableError: the project's files may not reach it.

        """
        from etc_policy.hudi.apply_state import worked_on_since

        if is_catalog_name(location):
            return None
        self._reach_storages()
        self.require_allowed(location)
        return worked_on_since(location)

    def read_mark(self, policy: Policy) -> tuple[str, ApplyState]:
        """What a table's plan goes by, beside the clock, while its log files are known; cheap to read.

        Another one once anything began or ended on its timeline, its properties were changed, or what is kept beside it.
        """
        from etc_policy.hudi.table import read_mark

        location = self.locate(policy)
        return read_mark(location), self.apply_states.read(location)

    def read_compactions(self, policy: Policy) -> TableHistory:
        """The compactions of a policy's table as far back as its archive goes; without Spark."""
        from etc_policy.hudi.table import read_compactions

        return read_compactions(self.locate(policy))

    def table_shape(self, policy: Policy) -> TableShape | None:
        """What of a table decides its writers' options; None for one that does not exist yet or that only a catalog knows."""
        if is_catalog_name(policy.table):
            return None
        from etc_policy.hudi.table import read_shape

        return read_shape(self.locate(policy), policy.event_time)

    def writer_form(self, state: TableState, properties: Mapping[str, str]) -> tuple[WriterOption, ...]:
        """What the table shows of its writers' options, as a compaction takes it."""
        from etc_policy.hudi.writer_options import (
            index_definitions,
            option_of_metadata_commits,
            options_of_base_file,
            options_of_indexes,
        )
        from etc_policy.policy.hudi_options import OPERATION_OPTION
        from etc_policy.storage.open_storage import open_reader

        storage = open_reader(state.base_path)
        of_indexes = options_of_indexes(index_definitions(storage, properties))
        of_logs = (WriterOption(OPERATION_OPTION, "true", "log files"),) if state.in_changelog_mode else ()
        of_commits = option_of_metadata_commits(storage, properties)
        return (*of_logs, *of_indexes, *of_commits, *options_of_base_file(storage, newest_base_file(state.slices)))

    def has_consistent_buckets(self, state: TableState) -> bool:
        """Whether the table's writers keep buckets by consistent hashing."""
        from etc_policy.hudi.stable_reading import table_errors
        from etc_policy.hudi.writer_options import has_consistent_buckets
        from etc_policy.storage.open_storage import open_reader

        with table_errors(state.base_path):
            return has_consistent_buckets(open_reader(state.base_path))

    def base_files(self, state: TableState) -> BaseFiles:
        """The table's base files, those of the past too."""
        from etc_policy.hudi.table import read_base_files

        return read_base_files(state.base_path)

    def file_versions(self, state: TableState, partitions: Collection[str]) -> Mapping[str, Mapping[str, str]]:
        """A text for each file of these partitions that is another one once its content is, as they are listed now."""
        from etc_policy.hudi.stable_reading import table_errors
        from etc_policy.hudi.times_cache import file_versions
        from etc_policy.storage.open_storage import open_reader

        with table_errors(state.base_path):
            return file_versions(open_reader(state.base_path), dict.fromkeys(partitions))

    def row_groups(self, policy: Policy, state: TableState) -> Mapping[str, tuple[RowGroup, ...]]:
        """The row groups of the table's base files, as far as their footers say them; none where only metadata is read."""
        from etc_policy.hudi.base_times import read_row_groups

        return {} if self.metadata_only else read_row_groups(state, policy.event_time)

    def held_lock(self, policy: Policy) -> HeldLock | None:
        """The table's lock as far as it is a file that somebody holds now."""
        from etc_policy.run.lock_holder import held_lock

        return held_lock(policy, self.locate(policy))

    def machine_findings(self, variables: Mapping[str, str]) -> tuple[Finding, ...]:
        """What this machine has for running Spark with Hudi; `variables` are those of the process."""
        from etc_policy.spark.machine import machine_findings

        return machine_findings(self.target.bundle, {**self.target.spark_confs, **self.spark_options}, variables)

    def with_statistics(self, policy: Policy, state: TableState) -> TableState:
        """The state with unknown event times filled in from the metadata table's column statistics, where it has them."""
        self._reach_storages()
        may_know = state.unreadable_time is None and not (state.updates_in_part or state.column_since)
        if "column_stats" not in state.metadata_partitions or not may_know:
            return state
        from etc_policy.spark.column_stats import fill_event_times

        unknown = any(f.min_event_time_ms is None and not f.has_deletes for _, f in state.log_files)
        return fill_event_times(self.spark, policy, state) if unknown else state


class Environment(Readings):
    """The outside world for one command: what works on tables, the catalog, the demo and git."""

    def runner(self, goes_on: Callable[[], bool] = lambda: True) -> Runner:
        """The runner of `etc apply` over stock Hudi; once `goes_on` says no, it waits for no other run."""
        from etc_policy.hudi.table import FileTableReader
        from etc_policy.run.file_lease import lease_of
        from etc_policy.run.runner import Runner
        from etc_policy.run.table_files import HudiFiles
        from etc_policy.spark.compactor import HudiCompactor
        from etc_policy.storage.object_cache import MemoryCache

        master = self._given_confs().get("spark.master", "local")
        local = master == "local" or master.startswith("local[")  # `local-cluster` has processes of its own
        return Runner(
            reader=FileTableReader(MemoryCache(), self.note_state),
            files=HudiFiles(),
            compactor=lambda: HudiCompactor(self.spark, self.progress, self._tables_cache()),
            lease=lambda base_path: lease_of(base_path, local=local, progress=self.progress, goes_on=goes_on),
            progress=self.progress,
        )

    def forgetter(self) -> Forgetter:
        """What removes etc's own files from a table."""
        from etc_policy.run.file_lease import lease_of
        from etc_policy.run.forgetting import Forgetter

        return Forgetter(lambda base_path: lease_of(base_path, local=False, progress=self.progress))

    def property_store(self, base_path: str) -> PropertyStore:
        """What the catalog says of the tables at a base path."""
        glue = self._glue(base_path)
        if glue is not None:
            return glue
        from etc_policy.spark.catalog import SparkPropertyStore

        return SparkPropertyStore(self.catalog_spark, base_path)

    def data_verifier(self) -> DataVerifier:
        """The verifier of rows on Great Expectations."""
        from etc_policy.gx.verifier import GxVerifier

        return GxVerifier(self.spark, self._tables_cache())

    def running_verifier(self) -> DataVerifier | None:
        """The same, where Spark runs already; None elsewhere."""
        return self.data_verifier() if self.has_spark else None

    def require_data_verifier(self, locations: Iterable[str] = ()) -> None:
        """Return if rows of tables can be verified here, which needs no Spark to be known; EngineError otherwise."""
        from etc_policy.gx.verifier import require_great_expectations
        from etc_policy.storage.open_storage import missing_extras

        require_great_expectations(missing_extras(locations))

    def require_demo(self) -> None:
        """Return if all is here that the demo needs, which needs no Spark to be known; EngineError otherwise."""
        from etc_policy.demo.demo import require_installed

        require_installed()

    def demo(self, policy: Policy, days: int) -> Demo:
        """The demo's table: so many days, up to now."""
        from etc_policy.demo.demo import Demo

        self._data_bytes[policy.table] = 0  # it will be small: Java is started for little work
        return Demo(self, policy, clock_ms(), days)

    def git_sha(self) -> str | None:
        """The commit of the project's folder, with `-dirty` where its files were changed since; None outside git."""
        state = self.git_state()
        return f"{state.sha}{DIRTY_SUFFIX if state.dirty else ''}" if state else None

    def git_state(self) -> GitState | None:
        """The commit of the project's folder and whether its files were changed since; None outside git.

        None for a stranger's files too: a repository that came with them names programs in its configuration.
        """
        if self.allowed is not None:
            return None
        from etc_policy.wiring.git import git_state

        return git_state(self.project_dir, (folder for _, folder in self.folders))


def resolve_table(environment: Environment, policy: Policy) -> Policy:
    """The policy with its table as a base path."""
    location = environment.locate(policy)
    return policy if location == policy.table else policy.model_copy(update={"table": location})


def serve_metrics(
    observe: Callable[[], Iterable[TableObservation]],
    address: str,
    port: int,
    max_age_seconds: float,
    health: Callable[[], str | None] | None = None,
) -> tuple[Any, Any]:
    """Begin to answer `/metrics` for Prometheus, and `/healthz` with `health`; returns the HTTP server and its thread."""
    from etc_policy.report.prometheus import serve

    return serve(observe, address, port, max_age_seconds, health)
