"""A table's history in a few words."""

from etc_policy.table.history import Commit, TableHistory


def history_of(writes=(), runs=(), timezone="UTC"):
    """The history of a table with these writes to log files, and then these compactions by etc."""
    commits = [Commit(one.requested, one.completed, "deltacommit", "UPSERT", (one,)) for one in writes]
    commits += [Commit(one.instant, one.completed, "commit", "COMPACT", (), record=one) for one in runs]
    return TableHistory("/t", 9, timezone, tuple(commits), complete=True)
