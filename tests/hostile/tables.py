"""A table that hurts whoever reads it without care: a good one, and then one thing in it or a few."""

from __future__ import annotations

import json
import os
import struct
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

from tests.hostile.avro import MANY, array, damaged, doubling, hostile_avro, nested, record, recursive
from tests.unit.hudi import log_file
from tests.unit.hudi.table_folder import COLUMNS, TableFolder, archived, at, base, commit_metadata, log

SPARSE_BYTES = 6 << 30
#: What a JSON value may be where Hudi writes a number or a text; those that no serializer writes are texts here.
VALUES = (
    "1" + "0" * 400, "1.5", "Infinity", "-Infinity", "NaN", "1e999", '"many"', "null", "true", "[]", "{}", "-1", '"\\ud800"',
    "9" * 5_000, "[" * 970 + "]" * 970, "99999999999999999999", '"\\u001b[31m"', '"' + "x" * 100_000 + '"', '{"a": [1]}',
    '"../../../../outside/canary"', '"\\u0000"', "-9223372036854775808", '"2026-02-30"', '["a", 1]',
)  # fmt: skip
BAD_TIMES = (
    "20260230100000000", "20261301000000000", "00000000000000000", "99999999999999999", "00010101000000000", "1" * 5_000,
    "20260101246060000", "2026", "20260229", "99991231235959999", "٢٠٢٦٠١٠١١٠٠٠٠٠٠٠٠", "19000101000000000", "20260431000000",
)  # fmt: skip
PROPERTIES = (
    ("hoodie.table.version", "9" * 5_000), ("hoodie.table.version", "-1"), ("hoodie.table.version", "٩"),
    ("hoodie.table.version", "8" + "0" * 4_000), ("hoodie.timeline.layout.version", "9" * 5_000), ("hoodie.timeline.path", ".."),
    ("hoodie.timeline.path", "../../../outside"), ("hoodie.timeline.path", "/etc"), ("hoodie.timeline.path", "a\\u0000b"),
    ("hoodie.timeline.path", "file:/outside"), ("hoodie.metrics.on", "true"),
    ("hoodie.timeline.path", ""), ("hoodie.timeline.history.path", "../../../../outside"), ("hoodie.table.name", "\\ud800"),
    ("hoodie.table.timeline.timezone", "\\ud800"), ("hoodie.table.name", "\\u001b[2J"), ("hoodie.x", "x" * 9_999),
    ("hoodie.table.ordering.fields", ",".join("abc" * 9)), ("hoodie.table.metadata.partitions", "\\udfff,a"),
    ("hoodie.table.recordkey.fields", ":" * 9_999), ("hoodie.record.merge.mode", "\\ud800"),
)  # fmt: skip


class Case:
    """A table in the making; `parts` are the bytes of its log file, `said` is what was done to it."""

    def __init__(self, folder: Path, random: Random, version: int = 9) -> None:
        self.random, self.said = random, [f"version {version}"]
        self.table = TableFolder(folder, version=version)
        self.first, self.second = at("10:00:00"), at("11:00:00")
        self.commits = [
            self.table.commit(self.first, at("10:00:01"), base("f1"), log("f2", 5)),
            self.table.commit(self.second, at("11:00:01"), log("f1"), log("f2", 60, base_instant=None)),
        ]
        self.log_file = self.table.base / "p" / log("f1").name(self.second)
        self.write_log(log_file.avro([1_767_000_000_000_000, None]))

    def write_log(self, content: bytes) -> None:
        """The log file whose event times nobody has recorded."""
        self.log_file.write_bytes(content)

    def say(self, text: object) -> None:
        """Note what was done."""
        self.said.append(str(text)[:120].encode("unicode_escape").decode())


def good_table(folder: Path) -> None:
    """One with nothing wrong in it, and an archive."""
    table = Case(folder, Random(0)).table
    table.archive(archived(at("09:00:00"), at("09:00:01"), log("f3")))
    table.data(at("09:00:00"), log("f3"))


def _avro(case: Case) -> None:
    random = case.random
    said, content = hostile_avro(random)
    if random.random() < 0.2:
        said, content = "damaged", damaged(random, random.choice(case.commits).read_bytes())
    where = random.choice(
        ["deltacommit", "deltacommit", "compaction", "plan", "replacecommit", "rollback", "clean", "archive"]
    )
    case.say(f"{said} as {where}, {len(content)} bytes")
    done = "_" + at("12:00:01") if case.table.layout == 2 else ""
    if where == "plan":
        case.table.file(at("12:00:00"), ".compaction.requested", content)
    elif where == "compaction":
        case.table.plan(at("12:00:00"), {})
        case.table.file(at("12:00:00"), f"{done}.commit", content)
    elif where == "archive" and case.table.layout == 2:
        case.table.archive(
            {**archived(at("09:00:00"), at("09:00:01"), log("f3")), random.choice(["metadata", "plan"]): content}
        )
        case.table.data(at("09:00:00"), log("f3"))
    else:
        case.table.file(at("12:00:00"), f"{done}.{'clean' if where == 'archive' else where}", content)


def _json_values(case: Case) -> None:
    """One value of a commit's JSON is another."""
    random = case.random
    metadata = commit_metadata(case.second, (log("f1"), log("f2", 60)), {"etc.event_time.threshold": "5"})
    text = json.dumps(metadata)
    leaves = list(_leaves(metadata))
    for _ in range(random.choice([1, 1, 1, 3])):
        value, path = random.choice(VALUES), random.choice(leaves)
        text = _with_value(text, path, value)
        case.say(f"{'.'.join(map(str, path))} = {value}")
    action = random.choice(["deltacommit", "deltacommit", "commit", "replacecommit", "rollback", "clean"])
    case.say(action)
    if action == "commit":
        case.table.plan(at("12:00:00"), {})
    done = "_" + at("12:00:01") if case.table.layout == 2 else ""
    case.table.file(at("12:00:00"), f"{done}.{action}", text.encode("utf-8", "surrogatepass"))


_MARK = "@@here@@"


def _leaves(value: Any, path: tuple[Any, ...] = ()) -> Any:
    yield path
    for key, item in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from _leaves(item, (*path, key))


def _with_value(text: str, path: tuple[Any, ...], value: str) -> str:
    """The JSON text with another value at a path; where earlier values have made it no JSON, it stays."""
    try:
        content = json.loads(text)
        if not path:
            return value
        inner = content
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = _MARK
    except (ValueError, LookupError, TypeError, RecursionError):
        return text
    return json.dumps(content).replace(f'"{_MARK}"', value)


def _times(case: Case) -> None:
    """Instants that are no times, or far from others."""
    random = case.random
    for _ in range(random.choice([1, 1, 3])):
        one, other = random.choice([*BAD_TIMES, at("12:00:00")]), random.choice([*BAD_TIMES, at("12:00:01")])
        action = random.choice(
            ["deltacommit", "commit", "clean", "rollback", "replacecommit", "savepoint", "compaction"]
        )
        end = random.choice([f"_{other}.{action}", f".{action}.requested", f".{action}.inflight", f".{action}"])
        content = random.choice([b"", b"{}", case.commits[0].read_bytes()])
        case.say(f"{one}{end}")
        folder = case.table.timeline
        if random.random() < 0.2:
            folder = case.table.meta / "metadata" / ".hoodie" / "timeline"
            if not folder.exists():
                case.table.metadata_table((at("10:00:00"), at("10:00:01")))
        _quietly(lambda path=folder / f"{one}{end}", data=content: path.write_bytes(data))
    if random.random() < 0.3 and case.table.layout == 2:
        one, other = random.choice(BAD_TIMES[:5]), random.choice([None, *BAD_TIMES[:5]])
        case.table.archive(archived(one, other, log("f3"), extra={"etc.event_time.threshold": "5"}))
        case.table.data(one, log("f3"))
        case.say(f"archived {one} {other}")


def _properties(case: Case) -> None:
    random = case.random
    path = case.table.meta / "hoodie.properties"
    text = path.read_text()
    for key, value in random.sample(PROPERTIES, random.choice([1, 1, 2])):
        case.say(f"{key}={value}")
        text += f"{key}={value}\n"
    if random.random() < 0.2:
        text = damaged(random, text.encode()).decode("utf-8", "replace") + "\n"
        case.say("damaged")
    path.write_text(text)


def _names(case: Case) -> None:
    """Names of files and folders that are not text, or say what they should not."""
    random = case.random
    partition = random.choice([b"p", b"p\xff", b"a\nb", b"\x1b[2J", b"x" * 200, b"a=b c"])
    file_id = random.choice([b"f\xff", b"f\n", b"\x1b]0;x\x07", b"f" * 150, b"..", b"f 1", b"\xe2\x80\xae"])
    instant = random.choice([case.second, "9" * 90, "20260230100000000", "1", at("09:00:00")]).encode()
    kind = random.choice([b".%b_%b.log.1_0-1-0", b"%b_0-1-0_%b.parquet", b".%b_%b.log." + b"9" * 60])
    folder = os.fsencode(case.table.base) + b"/" + partition
    os.makedirs(folder, exist_ok=True)
    Path(os.fsdecode(folder + b"/.hoodie_partition_metadata")).write_text("partitionDepth=1\n")
    name = folder + b"/" + kind % (file_id, instant)
    case.say(name[-100:])
    _quietly(lambda: Path(os.fsdecode(name)).write_bytes(b"x" * 10))
    if random.random() < 0.4:
        odd = random.choice([b"\xff.deltacommit", b"20260101120000000_\xff.commit", b"2026\n.clean", b"\xff" * 200])
        case.say(odd)
        _quietly(lambda: Path(os.fsdecode(os.fsencode(case.table.timeline) + b"/" + odd)).write_bytes(b""))
    if random.random() < 0.4:
        stat = log(os.fsdecode(file_id) if random.random() < 0.5 else "../../../../outside/canary", partition="../p")
        text = json.dumps(commit_metadata(at("12:00:00"), (stat,)))
        done = "_" + at("12:00:01") if case.table.layout == 2 else ""
        case.table.file(at("12:00:00"), f"{done}.deltacommit", text.encode("utf-8", "surrogatepass"))
        case.say("stat that leaves the table")


def _not_files(case: Case) -> None:
    """Pipes, folders, links and files of no end where a file is read."""
    random, table = case.random, case.table
    path = random.choice(
        [
            table.meta / "hoodie.properties",
            *case.commits,
            case.log_file,
            table.timeline / "history" / "_version_",
            table.meta / ".etc" / "memory.json",
            table.meta / "lock",
            table.base / "p" / ".hoodie_partition_metadata",
            table.meta / "metadata" / ".hoodie" / "hoodie.properties",
            table.meta,
            table.timeline,
        ]
    )
    how = random.choice(["pipe", "folder", "loop", "sparse", "nowhere", "empty", "up", "zeros"])
    case.say(f"{how} as {path.name}")
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir() and not path.is_symlink():
        path.rename(table.base / "was")
    else:
        path.unlink(missing_ok=True)
    match how:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "loop":
            path.symlink_to(path)
        case "nowhere":
            path.symlink_to("nowhere")
        case "up":
            path.symlink_to("..")
        case "empty":
            path.write_bytes(b"")
        case "zeros":
            path.write_bytes(bytes(3_000_000))
        case _:
            path.touch()
            os.truncate(path, SPARSE_BYTES)


def _logs(case: Case) -> None:
    """Log files whose blocks ask for much."""
    random = case.random
    make = random.choice(
        [_log_schema, _log_counts, _log_lengths, _log_damaged, _log_parquet, _log_sparse, _log_deletes]
    )
    case.say(make.__name__)
    case.write_log(log_file.avro([5]) * random.randrange(2) + make(random))
    if make is _log_sparse:
        os.truncate(case.log_file, SPARSE_BYTES)


def _log_block(schema: Any, content: bytes, count: int = 1) -> bytes:
    body = struct.pack(">ii", 3, count) + struct.pack(">i", len(content)) + content
    return log_file.block(log_file.AVRO, body, {log_file.SCHEMA: json.dumps(schema)})


def _with_time(*types: Any) -> dict[str, Any]:
    schema = record("r", *types)
    schema["fields"].append({"name": COLUMNS[2], "type": ["null", "long"]})
    return schema


def _log_schema(random: Random) -> bytes:
    inner = random.choice(
        [
            recursive(random),
            "r",
            ["null", "r"],
            array("null"),
            array("r"),
            nested(300),
            doubling(25, "null"),
            "gone",
            array(record("w", "boolean", *["null"] * 2_000)),
            {"type": "bytes", "logicalType": "decimal", "precision": 9},
        ]
    )
    head = random.choice([log_file.zigzag(many) for many in MANY])
    return _log_block(_with_time(inner), head + b"\x02" * random.choice([1, 300_000]))


def _log_counts(random: Random) -> bytes:
    content = log_file.zigzag(random.choice(MANY)) + bytes(30)
    schema = _with_time(array(random.choice(["long", "null", "boolean", "string", "double"])))
    return _log_block(schema, content, random.choice([1, 2**31 - 1, -1, 2**30]))


def _log_lengths(random: Random) -> bytes:
    many = random.choice([2**31 - 1, -1, -(2**31), 2**30])
    header = struct.pack(">iii", 1, random.randrange(7), many) + struct.pack(">ii", 2, many) * random.choice(
        [1, 50_000]
    )
    body = header + struct.pack(">q", random.choice([2**62, -1, 5]))
    claimed = random.choice([len(body) + 8, 2**62, -5, 0])
    return b"#HUDI#" + struct.pack(">q", claimed) + body + struct.pack(">q", len(body) + 14)


def _log_damaged(random: Random) -> bytes:
    return damaged(random, log_file.avro([5, 6, None]) + log_file.deletes((log_file.LONG, 5)))


def _log_parquet(random: Random) -> bytes:
    """Many rows of one value take few bytes."""
    import pyarrow
    from pyarrow import parquet

    kind, rows = random.choice([pyarrow.int64(), pyarrow.string()]), random.choice([10, 20_000_000])
    buffer = BytesIO()
    column = pyarrow.DictionaryArray.from_arrays(
        pyarrow.repeat(pyarrow.scalar(0, pyarrow.int8()), rows),
        pyarrow.array([5 if kind == "int64" else "x" * 100], kind),
    )
    parquet.write_table(pyarrow.table({"ts": column}), buffer, compression="zstd")
    header = {log_file.SCHEMA: json.dumps(log_file.schema("long" if kind == "int64" else "string"))}
    return (
        damaged(random, log_file.block(log_file.PARQUET, buffer.getvalue(), header))
        if rows == 10
        else log_file.block(log_file.PARQUET, buffer.getvalue(), header)
    )


def _log_sparse(random: Random) -> bytes:
    """One block as long as the file."""
    size = random.choice([SPARSE_BYTES - 14, 1 << 31, 200 << 20])
    return b"#HUDI#" + struct.pack(">q", size) + struct.pack(">iii", 1, log_file.AVRO, 0) + struct.pack(">q", size - 40)


def _log_deletes(random: Random) -> bytes:
    content = log_file.zigzag(random.choice(MANY)) + bytes(random.choice([10, 900_000]))
    header = {log_file.SCHEMA: json.dumps(log_file.schema())}
    body = struct.pack(">ii", 3, len(content)) + content
    return log_file.block(log_file.DELETE, body, header)


def _bytes(case: Case) -> None:
    """A file of a real form in which bytes are others: of data, timeline, archive, properties or etc's own records."""
    random = case.random
    _fill(case)
    files = sorted(path for path in case.table.base.rglob("*") if path.is_file() and path.stat().st_size)
    kinds = defaultdict[str, list[Path]](list)
    for path in files:
        kinds[path.suffix if path.name.startswith((".f", "2", "f")) else path.name].append(path)
    for path in {random.choice(kinds[random.choice(sorted(kinds))]) for _ in range(random.choice([1, 1, 2]))}:
        case.say(f"bytes of {path.relative_to(case.table.base)}")
        whole = path.read_bytes()
        end = random.choice([0, max(0, len(whole) - 400)])  # what a Parquet file says of itself is at its end
        path.write_bytes(whole[:end] + damaged(random, whole[end:]))


def _fill(case: Case) -> None:
    """More of what a table has: Parquet, deletes, a compaction by etc, a rollback, an archive, and etc's own records."""
    import pyarrow
    from pyarrow import parquet

    table, done = case.table, at("11:30:01")
    threshold = {"etc.event_time.threshold": "5", "etc.policy": "bad", "etc.policy_values": '{"data_latency_ms": "5"}'}
    table.compaction(at("11:30:00"), done, base("f3", merged=1), extra=threshold, plan_extra=threshold)
    table.rollback(at("11:40:00"), at("11:40:01"), log("f3").name(at("11:39:00")))
    table.replace(at("11:45:00"), at("11:45:01"), base("f5"), replaced={"p": ["f4"]})
    for name in ("f1", "f3"):
        path = next((table.base / "p").glob(f"{name}_*.parquet"))
        parquet.write_table(pyarrow.table({"id": [1, 2], "p": ["p", "p"], "ts": [5, 6]}), path)
    case.write_log(
        log_file.avro([1_767_000_000_000_000, None])
        + log_file.deletes((log_file.LONG, 5), (log_file.NULL, None))
        + log_file.parquet(pyarrow.array([1, 2], pyarrow.timestamp("us")))
    )
    if table.layout == 2:
        table.archive(*(archived(at(f"09:0{n}:00"), at(f"09:0{n}:01"), log("f3")) for n in range(3)))
    else:
        table.archive_to_log(1, at("09:00:00"), at("09:01:00"))
    table.metadata_table((at("10:00:00"), at("10:00:01")))
    (table.meta / ".etc").mkdir(exist_ok=True)
    (table.meta / ".etc" / "memory.json").write_text(json.dumps(_MEMORY))
    (table.meta / ".etc" / "done.json").write_text(json.dumps({"instant": done, "partitions": {}, "read_at_ms": 5}))
    versions = {"schemas": [{"version_id": 1, "fields": [{"id": 0, "name": "ts", "type": "long"}]}]}
    (table.meta / ".schema").mkdir(exist_ok=True)
    (table.meta / ".schema" / f"{case.second}.schemacommit").write_text(json.dumps(versions))


_MEMORY = {
    "run_ms": 5, "verified": "x", "unproven": [{"compaction": "1", "why": "x", "event_time": "ts", "passed": ["p"]}],
    "misrecorded": [{"path": "p/f", "size_bytes": 5, "recorded_ms": 5, "found_ms": 4}], "busy": [["p", "f1"]],
    "proofs": {"subject": "x", "of": [{"level": "metadata", "until_ms": 5, "proved_at_ms": 5}]}, "hold_bytes": 5,
    "refusals": {"count": 1, "since": "x", "pending": "y"}, "compared": {"p": "x"}, "runs": {},
}  # fmt: skip


def _quietly(step: Callable[[], object]) -> None:
    """Names that the file system refuses are made by nobody else either."""
    with suppress(OSError, ValueError):
        step()


KINDS: dict[str, Callable[[Case], None]] = {
    "avro": _avro,
    "json": _json_values,
    "times": _times,
    "properties": _properties,
    "names": _names,
    "not_files": _not_files,
    "logs": _logs,
    "bytes": _bytes,
}
