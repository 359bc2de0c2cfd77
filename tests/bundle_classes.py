"""What is in the classes of Hudi's bundles, read from the jars without Java."""

from __future__ import annotations

import re
import struct
import subprocess
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from etc_policy.plan.bundles import bundle_of
from etc_policy.spark.ivy_jars import ivy_folder, kept_jar

_PUBLIC = 1
#: Bytes of an entry of the pool of constants behind its tag, but for texts; two of them take two places.
_SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
_TEXT, _WIDE = 1, (5, 6)
_STRING = 8
#: How classes are named that declare options, and the names of options.
_OF_OPTIONS, _OPTION = ("Config", "Configs", "Options", "Properties"), re.compile(r"_?\.?_?hoodie(?:\.[a-z0-9_]+)+")


class JavaClass(NamedTuple):
    """A class: the classes that it extends, its public methods and its fields by name, and the texts in its code."""

    parents: tuple[str, ...]
    methods: frozenset[str]
    fields: frozenset[str]
    texts: frozenset[str]


@dataclass
class Bundle:
    """The jar of a release."""

    jar: Path

    @cached_property
    def _archive(self) -> zipfile.ZipFile:
        return zipfile.ZipFile(self.jar)

    @cached_property
    def names(self) -> frozenset[str]:
        """The names of all classes."""
        files = (name for name in self._archive.namelist() if name.endswith(".class"))
        return frozenset(name.removesuffix(".class").replace("/", ".") for name in files)

    def options(self) -> Iterator[str]:
        """The options that its classes of options declare, some more than once."""
        for name in self.names:
            if name.startswith("org.apache.hudi.") and name.partition("$")[0].endswith(_OF_OPTIONS):
                yield from filter(_OPTION.fullmatch, self.read(name).texts)

    def read(self, name: str) -> JavaClass:
        """A class by its name; KeyError where the release has none."""
        return parse_class(self._archive.read(f"{name.replace('.', '/')}.class"))

    def methods(self, name: str) -> Iterator[str]:
        """The public methods of a class and of what it extends within the bundle."""
        if name in self.names:
            found = self.read(name)
            yield from found.methods
            for parent in found.parents:
                yield from self.methods(parent)


def parse_class(content: bytes) -> JavaClass:
    """A class file taken apart as far as it is needed."""
    (count,) = struct.unpack_from(">H", content, 8)
    pool: list[Any] = [None] * count
    at, place = 10, 1
    while place < count:
        tag = content[at]
        size = 2 + struct.unpack_from(">H", content, at + 1)[0] if tag == _TEXT else _SIZES[tag]
        raw = content[at + 1 : at + 1 + size]
        pool[place] = raw[2:].decode("utf-8", "replace") if tag == _TEXT else (tag, raw)
        at, place = at + 1 + size, place + (2 if tag in _WIDE else 1)
    _, _, above, interfaces = struct.unpack_from(">4H", content, at)
    parents = (above, *struct.unpack_from(f">{interfaces}H", content, at + 8))
    at += 8 + 2 * interfaces
    fields, at = _members(content, at, pool)
    methods, _ = _members(content, at, pool)
    return JavaClass(
        tuple(_named(pool, one).replace("/", ".") for one in parents if one),
        frozenset(name for name, access in methods if access & _PUBLIC),
        frozenset(name for name, _ in fields),
        frozenset(_named(pool, one) for one, entry in enumerate(pool) if type(entry) is tuple and entry[0] == _STRING),
    )


def _named(pool: list[Any], place: int) -> str:
    """The text that an entry points to."""
    return str(pool[struct.unpack(">H", pool[place][1])[0]])


def _members(content: bytes, at: int, pool: list[Any]) -> tuple[list[tuple[str, int]], int]:
    """Fields or methods by name, with their access, and where they end."""
    (count,) = struct.unpack_from(">H", content, at)
    at, found = at + 2, []
    for _ in range(count):
        access, name, _, attributes = struct.unpack_from(">4H", content, at)
        found.append((pool[name], access))
        at += 8
        for _ in range(attributes):
            at += 6 + struct.unpack_from(">I", content, at + 2)[0]
    return found, at


def bundle(release: str) -> Bundle:
    """The bundle of a release, from where Ivy or Maven keeps it, fetched by Maven if neither does."""
    coordinates = bundle_of(release)
    group, name, version = coordinates.split(":")
    of_maven = Path.home() / ".m2/repository" / group.replace(".", "/") / name / version / f"{name}-{version}.jar"
    places = (kept_jar(coordinates, ivy_folder({}, {})), of_maven)
    if not any(map(zipfile.is_zipfile, places)):  # one that Ivy is copying has no end yet
        get = ["mvn", "-q", "-B", "dependency:get", f"-Dartifact={coordinates}", "-Dtransitive=false"]
        subprocess.run(get, check=True, timeout=600, stdout=subprocess.DEVNULL)
    return Bundle(next(filter(zipfile.is_zipfile, places)))
