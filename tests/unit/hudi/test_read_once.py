"""Tables that are read side by side do not wait for each other."""

from threading import Barrier, Thread

from etc_policy.hudi.timeline import read_once

BOTH_READ = Barrier(2, timeout=20)


class Table:
    count = 0

    @read_once
    def rows(self):
        """What it holds."""
        self.count += 1
        BOTH_READ.wait()
        return [self.count]


def test_two_tables_are_read_at_once_and_each_but_once():
    tables = Table(), Table()
    readers = [Thread(target=lambda table=table: table.rows) for table in tables]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert [table.rows for table in tables] == [[1], [1]]
    assert [table.count for table in tables] == [1, 1]


def test_the_class_shows_what_it_is():
    assert Table.__dict__["rows"].__doc__ == "What it holds."
