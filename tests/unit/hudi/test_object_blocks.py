"""Log files of which Hudi makes Java objects, held against its reader's own steps (`HoodieLogFileReader` of 1.2.0)."""

import io
import struct
import tracemalloc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from etc_policy.hudi import object_blocks
from etc_policy.hudi.object_blocks import may_do_harm
from tests.unit.hudi.log_file import AVRO, CDC, COMMAND, DELETE, TIMESTAMP, avro, block, deletes

MAGIC = b"#HUDI#"
GOOD = [avro([1, 2]), deletes((TIMESTAMP, 5)), block(COMMAND), block(CDC, b"x"), avro([])]


def objects(version=2, payload=b"\1\0any.Class", **changes):
    """A delete block in the form of Hudi before 0.14."""
    return block(DELETE, struct.pack(">ii", version, len(payload)) + payload, **changes)


class Ended(Exception):
    """The stream ends: Java's EOFException."""


class Failed(Exception):
    """Hudi gives the file up."""


class Stream:
    def __init__(self, content):
        self.content, self.at = content, 0

    def read(self, length):
        if length < 0:
            raise Failed
        found = self.content[self.at : self.at + length]
        self.at += len(found)
        if len(found) < length:
            raise Ended
        return found

    def number(self, form):
        return struct.unpack(form, self.read(struct.calcsize(form)))[0]

    def seek(self, at):
        if at < 0:
            raise Failed
        self.at = at


class HudiReader:
    """The steps of Hudi's reader: on a store that writes files whole it does not ask whether a block is broken."""

    def __init__(self, content, is_store):
        self.stream, self.is_store = Stream(content), is_store
        self.versions, self.blocks = [], 0

    def run(self):
        try:
            while self.has_magic():
                self.blocks += 1
                if self.blocks > 100:  # it would go round without an end
                    break
                self.read_block()
        except (Failed, Ended):
            pass
        return self.versions

    def has_magic(self):
        try:
            found = self.stream.read(6)
        except Ended:
            return False
        if found != MAGIC:
            raise Failed
        return True

    def read_block(self):
        start = self.stream.at
        try:
            size = to_int(self.stream.number(">q"))
        except Ended:
            self.corrupt(start)
            return
        if self.is_corrupted(size):
            self.corrupt(start)
            return
        version = self.stream.number(">i")
        kind = self.stream.number(">i") if version else None
        if kind is not None and not 0 <= kind < 7:
            raise Failed
        if version:
            self.read_map(9)
        length = to_int(self.stream.number(">q")) if version else size
        begin = self.stream.at
        self.stream.seek(begin + length)
        if version:
            self.read_map(1)
            self.stream.number(">q")
        end = self.stream.at
        if kind is None:
            raise Failed
        if kind == DELETE:
            self.read_deletes(begin, length)
            self.stream.seek(end)

    def read_deletes(self, begin, length):
        self.stream.seek(begin)
        content = Stream(self.stream.read(length))
        version, data = content.number(">i"), content.number(">i")
        content.read(data)
        self.versions.append(version)

    def read_map(self, keys):
        count = self.stream.number(">i")
        while count > 0:
            key, length = self.stream.number(">i"), self.stream.number(">i")
            self.stream.read(length)
            if not 0 <= key < keys:
                raise Failed
            count -= 1

    def is_corrupted(self, size):
        if self.is_store:
            return False
        start = self.stream.at
        try:
            self.stream.seek(start + size - 8)
            if self.stream.number(">q") - 6 != size:
                return True
            self.has_magic()
        except Ended:
            return True
        except Failed:
            return True
        else:
            return False
        finally:
            self.stream.at = start

    def corrupt(self, start):
        found = self.stream.content.find(MAGIC, start)
        self.stream.seek(found if found >= 0 else len(self.stream.content))


def to_int(number):
    return struct.unpack(">i", struct.pack(">q", number)[4:])[0]


def read_by_hudi(content):
    return [version for is_store in (False, True) for version in HudiReader(content, is_store).run()]


def looked_at(content):
    return may_do_harm(io.BytesIO(content))


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("place", [0, 2, 5])
def test_a_delete_block_of_an_older_release_makes_objects(version, place):
    content = b"".join([*GOOD[:place], objects(version), *GOOD[place:]])
    assert version in read_by_hudi(content)
    assert looked_at(content)


def test_what_writers_write_now_makes_none():
    content = b"".join(GOOD)
    assert read_by_hudi(content) == [3, 3]
    assert not looked_at(content)
    assert not looked_at(b"")


@pytest.mark.parametrize("behind", [b"", b"rubbish", MAGIC, GOOD[0], GOOD[1]])
def test_a_file_that_ends_within_a_block_makes_none(behind):
    """A writer that dies leaves such a file, and before table version 8 another one adds to it.

    Where it ends so that the last bytes of a header are those of the next block's magic, that block's start is a content.
    """
    content = b"".join(GOOD)
    refused = [end for end in range(len(content)) if looked_at(content[:end] + behind)]
    assert len(refused) <= (behind in GOOD), refused


def test_what_a_row_or_another_block_holds_is_no_block():
    content = avro([1]) + block(AVRO, objects()) + block(CDC, objects())
    assert 2 not in read_by_hudi(content)
    assert not looked_at(content)


def claims(content, at, form, value):
    """The content with another number at a place."""
    return content[:at] + struct.pack(form, value) + content[at + struct.calcsize(form) :]


HIDDEN = {
    "behind rubbish": b"rubbish" + objects(),
    "behind a block cut short": GOOD[0][:-9] + objects(),
    "behind a size beyond the file": claims(GOOD[0], 6, ">q", 1 << 30) + objects(),
    "behind a negative size": claims(GOOD[0], 6, ">q", -1) + objects(),
    "behind a size of more than 32 bits": claims(GOOD[0], 6, ">q", (1 << 32) + len(GOOD[0]) - 14) + objects(),
    "behind another reverse pointer": GOOD[0][:-8] + struct.pack(">q", 7) + objects(),
    "in a row, behind a content length that leads there": claims(
        block(AVRO, objects()), 14 + 4 + 4 + 4 + 8 + 17, ">q", -(4 + 4 + 4 + 8 + 17 + 8)
    ),
    "in a block that is broken": GOOD[0] + block(AVRO, objects() + MAGIC)[:-1] + GOOD[1],
    "of another format": objects(version=2)[:14] + struct.pack(">i", 2) + objects(version=2)[18:],
    "with a negative number of headers": None,
}
_head = struct.pack(">iii", 1, DELETE, -1) + struct.pack(">q", 9) + struct.pack(">iib", 2, 1, 0) + struct.pack(">i", 0)
HIDDEN["with a negative number of headers"] = (
    MAGIC + struct.pack(">q", len(_head) + 8) + _head + struct.pack(">q", len(_head) + 14)
)


@pytest.mark.parametrize("how", HIDDEN)
def test_one_that_is_hidden_is_found(how):
    assert looked_at(HIDDEN[how])


@pytest.mark.parametrize("how", [one for one in HIDDEN if "row" not in one and "rubbish" not in one])
def test_hudi_comes_to_those_that_are_hidden(how):
    """Else the cases above would show nothing."""
    assert 2 in read_by_hudi(HIDDEN[how])


numbers = st.sampled_from([-(1 << 63), -40, -1, 0, 1, 2, 3, 8, 30, 60, (1 << 31) - 1, (1 << 32) + 40, (1 << 63) - 1])
places = st.integers(0, 400)
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just(">q"), places, numbers),
        st.tuples(st.just(">i"), places, st.integers(-60, 60)),
        st.tuples(st.just("cut"), places, st.integers(0, 40)),
        st.tuples(
            st.just("add"), places, st.sampled_from([MAGIC, objects(), objects(1), GOOD[1], b"\0\0\0\1", b"\0\0\0\2"])
        ),
    ),
    max_size=6,
)
FILES = st.lists(
    st.sampled_from(
        [*GOOD, objects(), block(AVRO, objects()), block(COMMAND, b"", footer=struct.pack(">iiii", 1, 0, 0, 0))]
    ),
    min_size=1,
    max_size=4,
)


def changed(content, changes):
    for kind, place, value in changes:
        place %= len(content) + 1
        if kind == "cut":
            content = content[:place] + content[place + value :]
        elif kind == "add":
            content = content[:place] + value + content[place:]
        else:
            content = claims(content, place, kind, value)
    return content


@given(FILES, CHANGES)
@example([objects()], [])
def test_whatever_hudi_makes_objects_of_is_found(files, changes):
    content = changed(b"".join(files), changes)
    if not {1, 2}.isdisjoint(read_by_hudi(content)):
        assert looked_at(content)


def test_one_over_the_edge_of_what_is_read_at_once_is_found(monkeypatch):
    monkeypatch.setattr(object_blocks, "_CHUNK_BYTES", 64)
    for before in range(70):
        assert looked_at(b"x" * before + objects()), before
        assert not looked_at(b"x" * before + GOOD[1]), before


def test_a_file_that_would_take_too_long_is_refused():
    many = b"#HUDI#" + bytes(12) + struct.pack(">i", DELETE)
    assert looked_at(many * 100_001)
    assert not looked_at(many * 1_000)


def leading_back(before, form=1, content=None):
    """A block of a command whose content ends where the block before it has no footer; Hudi reads both again and again."""
    head = struct.pack(">iii", form, 3, 0)
    length = -len(head) - len(before) if content is None else content
    body = head + struct.pack(">q", length) + struct.pack(">i", 0)
    return MAGIC + struct.pack(">q", len(body) + 8) + body + struct.pack(">q", len(body) + 14)


@pytest.mark.parametrize("content", [None, -40, -40 - (1 << 40), (1 << 32) - 40])
def test_a_block_that_leads_back_is_found(content):
    assert looked_at(GOOD[1] + leading_back(GOOD[1], content=content))
    assert looked_at(b"broken" * 20 + leading_back(b"broken" * 10, content=content))


@pytest.mark.parametrize("content", [-(1 << 20), 1 << 31, 3])
def test_one_that_leads_nowhere_is_an_error_of_its_reader(content):
    assert not looked_at(GOOD[1] + leading_back(GOOD[1], content=content))


def test_one_of_another_form_leads_back_by_its_own_length():
    assert looked_at(bytes(20) + MAGIC + struct.pack(">qi", -30, 0) + bytes(20))
    assert not looked_at(MAGIC + struct.pack(">qi", -30, 0) + bytes(20))
    assert not looked_at(MAGIC + struct.pack(">qi", 20, 0) + bytes(20))


def test_a_header_of_any_length_takes_no_memory(tmp_path):
    path = tmp_path / "log"
    with path.open("wb") as file:
        header = struct.pack(">iii", 1, DELETE, 1) + struct.pack(">ii", 2, (1 << 31) - 60)
        file.write(MAGIC + struct.pack(">q", (1 << 31) - 1) + header)
        file.truncate((2 << 30) + 1)
    tracemalloc.start()
    with path.open("rb") as file:
        assert may_do_harm(file)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 << 20
