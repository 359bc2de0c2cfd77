"""One column of rows of any schema, decoded side by side: what the decoder reads row by row, or nothing, whatever the bytes."""

import io
import json
import struct
from contextlib import suppress
from dataclasses import astuple
from random import Random

import fastavro
import pytest

from etc_policy.hudi import avro_rows
from etc_policy.hudi.avro import BadAvro
from etc_policy.hudi.avro_rows import one_by_one, row_schema, side_by_side, values_at, values_of
from etc_policy.hudi.block_times import TimesWanted, read_small_files, read_times
from etc_policy.hudi.blocks import BadLogFile
from etc_policy.policy.manifest import EventTime
from tests.nightly import HISTORIES
from tests.unit.hudi import log_file

SEEDS = range(max(10, HISTORIES // 50))
SIMPLE = ("string", "long", "int", "double", "float", "boolean", "bytes", "null")
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
DATE = {"type": "int", "logicalType": "date"}
WANTED = ("long", "int", "string", "boolean", MICROS, DATE)


class Schemas:
    """Made up schemas, and values of them."""

    def __init__(self, random):
        self.random, self.defined = random, []

    def name(self, schema):
        self.defined.append(name := f"n{len(self.defined)}")
        return {**schema, "name": name}

    def kind(self, depth=0):
        """A type: simple, named before, or of others."""
        inner = self.random.randrange(10) if depth < 3 else 0
        match inner:
            case 4 if self.defined:
                return self.random.choice(self.defined)
            case 5:
                return {"type": "array", "items": self.kind(depth + 1)}
            case 6:
                return {"type": "map", "values": self.kind(depth + 1)}
            case 7:
                fields = [{"name": f"f{n}", "type": self.kind(depth + 1)} for n in range(self.random.randint(1, 3))]
                return self.name({"type": "record", "fields": fields})
            case 8:
                return self.name({"type": "fixed", "size": self.random.randint(1, 17)})
            case 9:
                return self.name({"type": "enum", "symbols": ["A", "B", "C"]})
        simple = self.random.choice(SIMPLE)
        return simple if inner % 2 else ["null", simple if simple != "null" else "long"]

    def row(self):
        """A schema whose column `ts` may be in a struct, and the path to that."""
        if self.random.random() < 0.5:
            return self.name({"type": "record", "fields": self.columns("ts", self.wanted)}), ("ts",)
        return self.name({"type": "record", "fields": self.columns("s", self.struct)}), ("s", "ts")

    def wanted(self):
        """A type of event times or marks."""
        kind = self.random.choice(WANTED)
        return [kind, ["null", kind], [kind, "null"]][self.random.randrange(3)]

    def struct(self):
        """A struct, which may be null, with such a column."""
        found = self.name({"type": "record", "fields": self.columns("ts", self.wanted)})
        return self.random.choice([found, ["null", found]])

    def columns(self, name, make):
        """Columns, one of this name among them."""
        before, after = self.random.randrange(4), self.random.randrange(4)
        kinds = [make() if n == before else self.kind() for n in range(before + 1 + after)]
        return [{"name": name if n == before else f"c{n}", "type": kind} for n, kind in enumerate(kinds)]


def value(kind, random, named):
    """A value of a parsed type."""
    kind = named.get(kind, kind) if isinstance(kind, str) else kind
    if isinstance(kind, list):
        return value(random.choice(kind), random, named)
    name, few = kind if isinstance(kind, str) else kind["type"], range(random.choice([0, 1, 4]))
    match name:
        case "array":
            return [value(kind["items"], random, named) for _ in few]
        case "map":
            return {f"k{n}": value(kind["values"], random, named) for n in few}
        case "record":
            return {field["name"]: value(field["type"], random, named) for field in kind["fields"]}
        case "fixed":
            return random.randbytes(kind["size"])
        case "enum":
            return random.choice(kind["symbols"])
    return plain_value(name, random)


def plain_value(name, random):
    return {
        "null": None,
        "string": "é" * random.choice([0, 3, 70]),
        "bytes": b"y" * random.choice([0, 3, 130]),
        "long": random.choice([random.randint(-(2**63), 2**63 - 1), random.randint(-70, 70), 1_700_000_000_000]),
        "int": random.randint(-(2**31), 2**31 - 1),
        "double": random.random(),
        "float": random.random(),
        "boolean": random.random() < 0.5,
    }[name]


def made(seed, count):
    """How to decode rows of a schema, the path to its column, and the bytes of so many rows."""
    random = Random(seed)
    while True:
        schema, path = Schemas(random).row()
        with suppress(BadAvro):  # lists of nothing
            rows = row_schema(schema)
            break
    named, content = {}, b""
    plain = json.loads(json.dumps(schema).replace('"logicalType"', '"ignored"'))
    parsed = fastavro.parse_schema(plain, named)
    for _ in range(count):
        row = io.BytesIO()
        fastavro.schemaless_writer(row, parsed, value(parsed, random, named))
        content += struct.pack(">i", row.tell()) + row.getvalue()
    return rows, path, content


def by_the_decoder(content, count, schema, path):
    try:
        return list(one_by_one(memoryview(content), count, schema, path))
    except Exception as error:
        return error


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_of_any_schema(seed, monkeypatch):
    monkeypatch.setattr(avro_rows, "_FEWEST_STEPS", 20_000)
    for number in range(seed * 30, seed * 30 + 30):
        rows, path, content = made(number, 25)
        found, end = side_by_side(memoryview(content), 0, 25, rows, path)
        assert (values_of(found), end) == (by_the_decoder(content, 25, rows, path), len(content)), number


@pytest.mark.parametrize("seed", SEEDS)
def test_a_changed_byte_gives_what_the_decoder_reads_or_nothing(seed):
    (rows, path, content), random = made(seed, 6), Random(seed)
    for place in range(min(len(content), 1_500)):
        damaged = bytearray(content)
        damaged[place] ^= random.choice((0x01, 0x02, 0x40, 0x80, 0xFF))
        for given, count in ((bytes(damaged), 6), (bytes(damaged), 5), (content[:place], 6)):
            found, end = side_by_side(memoryview(given), 0, count, rows, path)
            assert not len(found) or values_of(found) == by_the_decoder(given[:end], count, rows, path), (place, count)


LONGS = {"type": "record", "name": "r", "fields": [{"name": "ts", "type": "long"}]}
LISTS = {**LONGS, "fields": [{"name": "a", "type": {"type": "array", "items": "bytes"}}, *LONGS["fields"]]}


def rows_of(*rows):
    return memoryview(b"".join(struct.pack(">i", len(row)) + row for row in rows))


@pytest.mark.parametrize(
    ("number", "value"),
    [
        (b"\xff" * 9 + b"\x01", -(2**63)),
        (b"\xfe" + b"\xff" * 8 + b"\x01", 2**63 - 1),
        (b"\x80" * 9 + b"\x02", None),
        (b"\x80" * 10 + b"\x00", None),
    ],
)
def test_a_number_has_64_bits(number, value):
    found, _ = side_by_side(rows_of(number, b"\x02"), 0, 2, row_schema(LONGS), ("ts",))
    assert values_of(found) == ([] if value is None else [value, 1])


def test_long_lists_are_left_to_the_decoder():
    """It passes an item in a hundredth of the time."""
    few, many = (log_file.zigzag(n) + b"\x02x" * n + b"\0" + b"\x02" for n in (50, 50_000))
    endless = log_file.zigzag(-(2**63)) + few[1:]
    schema = row_schema(LISTS)
    assert side_by_side(rows_of(few, few), 0, 2, schema, ("ts",))[0].tolist() == [1, 1]
    assert side_by_side(rows_of(few, many), 0, 2, schema, ("ts",))[0] == []
    assert side_by_side(rows_of(few, endless), 0, 2, schema, ("ts",))[0] == []
    assert list(one_by_one(rows_of(few, many), 2, schema, ("ts",))) == [1, 1]


def test_rows_are_decoded_in_parts(monkeypatch):
    """So that a block of rows without a byte takes no more memory than any other; after one that is left all others are."""
    monkeypatch.setattr(avro_rows, "_MANY", 1)
    monkeypatch.setattr(avro_rows, "_WORTH_LOADING", 1)
    monkeypatch.setattr(avro_rows, "_TOGETHER", 7)
    schema, rows = row_schema(LONGS), [log_file.zigzag(number) for number in range(30)]
    assert list(values_at(rows_of(*rows), 30, schema, ("ts",))) == list(range(30))
    for count, content in ((29, rows_of(*rows)), (31, rows_of(*rows)), (30, rows_of(*rows[:20], b"\0\0", *rows[21:]))):
        found = []
        with pytest.raises((BadLogFile, struct.error)):
            found.extend(values_at(content, count, schema, ("ts",)))
        assert found == list(range(min(count, 30 if count != 30 else 20)))


BLOCKS = {
    "micros": (log_file.avro([10**15 + n for n in range(8)]), TimesWanted(EventTime(column="ts"), "timestamp-micros")),
    "unknown unit": (
        log_file.avro([1_700_000_000_000 + n for n in range(8)], "long"),
        TimesWanted(EventTime(column="ts")),
    ),
    "texts": (log_file.avro(["2024-03-31 01:00:00.123Z"] * 8, "string"), TimesWanted(EventTime(column="ts"), "string")),
}


@pytest.mark.parametrize("kind", BLOCKS)
def test_no_changed_byte_of_a_log_file_gives_another_time(kind, monkeypatch):
    content, wanted = BLOCKS[kind]
    random = Random(kind)

    def read(data):
        return astuple(read_times(io.BytesIO(data), len(data), wanted))

    damaged = [content]
    for place in range(len(content)):
        damaged.append(bytearray(content))
        damaged[-1][place] ^= random.choice((0x01, 0x02, 0x40, 0x80, 0xFF))
    monkeypatch.setattr(avro_rows, "_numpy", lambda: None)
    expected = [read(bytes(one)) for one in damaged]
    monkeypatch.undo()
    monkeypatch.setattr(avro_rows, "_MANY", 1)
    monkeypatch.setattr(avro_rows, "_WORTH_LOADING", 1)
    assert [read(bytes(one)) for one in damaged] == expected
    assert expected[0][0] is not None
    for one, times in zip(damaged, expected, strict=True):  # nor one decoded together with others
        together = map(astuple, read_small_files([content, bytes(one), content], wanted))
        assert list(together) == [expected[0], times, expected[0]]


NUMBERS = (range(10**9, 10**10), range(10**12, 10**13), range(10**15, 10**16), range(-3, 4), range(2**62, 2**63))
UNITS = [(None, "long"), ("s", "long"), ("ms", "long"), ("us", "long"), (None, "timestamp-micros"), (None, "date")]


@pytest.mark.parametrize(("unit", "kind"), UNITS)
def test_times_of_many_rows_are_those_of_each(unit, kind, monkeypatch):
    """Also where a larger number is an earlier time, or none."""
    wanted, random = TimesWanted(EventTime(column="ts", unit=unit), kind), Random(kind)
    made = [random.sample(NUMBERS, random.randint(1, 2)) for _ in range(200)]
    stored = kind if kind == "long" else {"type": "int" if kind == "date" else "long", "logicalType": kind}
    rows = [[random.choice(random.choice(ranges)) for _ in range(random.randint(1, 9))] for ranges in made]
    if kind == "date":
        rows = [[number % 2**31 for number in row] for row in rows]
    files = [log_file.avro(row, stored) for row in rows]
    monkeypatch.setattr(avro_rows, "_numpy", lambda: None)
    expected = [astuple(read_times(io.BytesIO(one), len(one), wanted)) for one in files]
    monkeypatch.undo()
    monkeypatch.setattr(avro_rows, "_MANY", 1)
    monkeypatch.setattr(avro_rows, "_WORTH_LOADING", 1)
    assert [astuple(read_times(io.BytesIO(one), len(one), wanted)) for one in files] == expected
    assert [astuple(one) for one in read_small_files(files, wanted)] == expected
    assert any(times[0] is not None for times in expected)


def test_many_small_files_are_decoded_as_one(monkeypatch):
    """Files of several blocks, of two schemas, one of them too short to be decoded so and one damaged behind its first block."""
    kinds = [("long", 10**12), ("string", "2024-03-31 01:00:00Z")]
    blocks = [log_file.avro([value] * count, kind) for kind, value in kinds for count in (1, 60, 200)]
    files = [*blocks, blocks[1] + blocks[2], blocks[0] + b"#HUDI#" + bytes(40), b"", blocks[4] + blocks[0]]
    wanted = TimesWanted(EventTime(column="ts", unit="ms"), "long")
    expected = [astuple(read_times(io.BytesIO(one), len(one), wanted)) for one in files]
    passes, read = [], avro_rows._Rows.read
    monkeypatch.setattr(avro_rows._Rows, "read", lambda *given: passes.append(given[1]) or read(*given))
    assert [astuple(one) for one in read_small_files(files, wanted)] == expected
    assert sum(kind == "record" or (isinstance(kind, dict) and kind["type"] == "record") for kind in passes) == 1
