"""The text of `table:` as a location: base path, URI or catalog name; two texts of one table have one identity."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache

from etc_policy.errors.plain_text import without_passwords

_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_WORD = r"(?:[A-Za-z_][A-Za-z0-9_]*|`[^`/]+`)"
_CATALOG_NAME = re.compile(rf"{_WORD}\.{_WORD}")
_LONG_CATALOG_NAME = re.compile(rf"{_WORD}(?:\.{_WORD}){{2,}}")
#: Schemes that mean one store, and what each is known by.
_SAME_SCHEME = ((re.compile(r"(?i)^s3[an]?://"), "s3://"), (re.compile(r"(?i)^abfss?://"), "abfs://"))
_FILE = re.compile(r"file:(?://(?P<host>[^/]*))?(?P<path>.*)", re.DOTALL)
#: What to do about a `file:` URI of another machine.
MOUNT_HINT = "mount its folder, and write `file:///FOLDER`"
#: This machine, which Spark would take for another one.
_LOCALHOST = re.compile(r"^file://localhost/")
#: The schemes of tables that can be read, and how such a table is written.
_FORMS = {
    "file": "file:///FOLDER",
    "hdfs": "hdfs://HOST:PORT/FOLDER",
    "s3": "s3://BUCKET/FOLDER",
    "s3a": "s3a://BUCKET/FOLDER",
    "gs": "gs://BUCKET/FOLDER",
    "abfs": "abfs://CONTAINER@ACCOUNT.dfs.core.windows.net/FOLDER",
    "abfss": "abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/FOLDER",
}
#: Hosts that are the same in any case: buckets are not.
_HOST = re.compile(r"(?i)^(?:hdfs|abfs):/[^/]+")
#: The port of a NameNode that is named without one.
_HDFS_PORT = re.compile(r"^(hdfs:/[^/]+):8020(?=/|$)")
_VARIABLE = re.compile(r"[A-Za-z_]\w*")
#: Where Hudi 0.x appends to the last log file of a slice (facts: append-schemes).
_APPENDED_TO = frozenset({"hdfs", "viewfs", "jfs", "ofs", "cfs", "dfs", "afs", "maprfs", "igfs"})
S3_SCHEMES = ("s3://", "s3a://", "s3n://")


def is_local(base_path: str) -> bool:
    """Whether a base path is a folder of this machine, or of a file system that it has mounted."""
    return "://" not in base_path.removeprefix("file://")


def is_appended_to(base_path: str) -> bool:
    """Whether writers of Hudi 0.x append to files on the store of a base path."""
    return base_path.partition("://")[0] in _APPENDED_TO


def is_catalog_name(table: str) -> bool:
    """Whether the text is `db.table` of the Spark catalog."""
    return _CATALOG_NAME.fullmatch(table) is not None


def glob_matches(name: str, glob: str) -> bool:
    """Whether a glob means a name, as Python's `fnmatch`, in a time that goes by the glob's length."""
    return fnmatchcase(name, _with_closed_brackets(glob))


@lru_cache(maxsize=256)
def _with_closed_brackets(glob: str) -> str:
    """The glob with `[[]` for each bracket that nothing closes, which Python looks for from each of them to the end."""
    before, closing, after = glob.rpartition("]")
    return f"{before}{closing}{after.replace('[', '[[]')}"


def location_fault(table: str, *, is_hidden: bool = False) -> tuple[str, str] | None:
    """What is wrong with the text, and a hint; None where it can be a location. Of one that `is_hidden` no part is shown."""
    if table != table.strip() or any(ord(character) < ord(" ") for character in table):
        return "has white space round it or a control character", "remove it"
    if without_passwords(table) != table:
        return "has a password in it", "remove it: keys of stores come from the environment or from profile files"
    if table.startswith("~"):
        return "begins with `~`, which is not expanded", "write the whole path, or \"{{ env_var('HOME') }}/...\""
    if _LONG_CATALOG_NAME.fullmatch(table):
        return "has more than two parts", "write `db.table` of the Spark catalog; a folder's name begins with `./`"
    return _uri_fault(table, is_hidden) if _URI.match(table) else None


def _uri_fault(uri: str, is_hidden: bool) -> tuple[str, str] | None:
    scheme, _, rest = uri.partition(":")
    host, _, path = rest.removeprefix("//").partition("/")
    if scheme not in _FORMS:
        near = scheme.lower() if scheme.lower() in _FORMS else None
        known = ", ".join(f"`{one}`" for one in _FORMS)
        hint = f"write `{near}:` in small letters" if near else f"the schemes are {known}; a mounted folder is a path"
        return (
            "has a scheme that etc cannot read"
            if is_hidden
            else f"has the scheme `{scheme[:20]}`, which etc cannot read",
            hint,
        )
    if file := split_file_uri(uri):
        which = "" if is_hidden else f", `{file[0][:60]}`"
        return (f"is on another machine{which}", MOUNT_HINT) if file[0] else None
    is_on_azure = "@" in _FORMS[scheme]
    needed = path.strip("/") if scheme == "hdfs" else host.strip("@")
    if not rest.startswith("//") or not needed or (scheme != "hdfs" and ("@" in needed) != is_on_azure):
        return f"names no {'folder' if scheme == 'hdfs' else 'bucket'}", f"write `{_FORMS[scheme]}`"
    if any(part in (".", "..") for part in path.split("/")):
        return "has `.` or `..` in its path, which a store takes for names", "write the path without them"
    return None


def split_file_uri(location: str) -> tuple[str, str] | None:
    """The host of a `file:` URI, empty for this machine, and its path; None for any other location."""
    found = _FILE.fullmatch(location)
    return None if found is None else ("" if found["host"] in (None, "localhost") else found["host"], found["path"])


def resolve_location(table: str, root: str) -> str:
    """The table with a relative path taken from `root`, an absolute path or a URI; other URIs and catalog names stay."""
    table, root = (_LOCALHOST.sub("file:///", text) for text in (table, root))
    if (file := split_file_uri(table)) and not {".", ".."}.isdisjoint(file[1].split("/")):
        return table.removesuffix(file[1]) + posixpath.normpath(
            file[1]
        )  # as Hadoop opens it, before links are followed
    if _URI.match(table) or is_catalog_name(table):
        return table
    if _URI.match(root) and not table.startswith("/"):
        scheme, _, path = root.partition(":")
        slashes = "//" if path.startswith("//") else ""
        return f"{scheme}:{slashes}{posixpath.normpath(posixpath.join(path.removeprefix(slashes), table))}"
    return posixpath.normpath(posixpath.join(root, table))


def location_identity(location: str) -> str:
    """The same text for every way of writing one resolved location: schemes of a store, HDFS's port, hosts, doubled slashes."""
    if is_catalog_name(location):
        return location.replace("`", "").lower()
    plain = location
    for spelling, known_by in _SAME_SCHEME:
        plain = spelling.sub(known_by, plain)
    scheme, _, path = plain.partition(":/") if _URI.match(plain) else ("file", "", plain)
    normal = posixpath.normpath("/" + path.lstrip("/"))
    if scheme.lower() in ("file", "local"):
        return normal
    if not path.startswith("/") or (scheme.lower() == "hdfs" and path.startswith("//")):
        return f"{scheme.lower()}:/{normal}"
    host, _, below = path.lstrip("/").partition("/")  # no `..` leads from one host to another
    whole = f"{scheme.lower()}:/{host}{posixpath.normpath('/' + below.lstrip('/'))}".rstrip("/")
    return _HDFS_PORT.sub(r"\1", _HOST.sub(lambda found: found[0].lower(), whole))


def places_of(tables: Iterable[str], project_dir: str) -> tuple[str, ...]:
    """Where tables lie that are not below the project: the folder of those that have one in common, else the table."""
    outside = {one for one in tables if not is_catalog_name(one) and not Allowed.of([project_dir]).reaches(one)}
    folders = Counter(one.rpartition("/")[0] for one in outside)
    shared = {folder for folder, tables in folders.items() if tables > 1 and folder.rpartition("/")[2]}
    places = {folder if (folder := one.rpartition("/")[0]) in shared else one for one in outside}
    return tuple(sorted(one for one in places if not Allowed.of(places - {one}).reaches(one)))


@dataclass(frozen=True, slots=True)
class Allowed:
    """What the files of a stranger may reach: variables of the environment by their names, and places with all below them.

    A place is the location of a table or of a folder with tables, or the URL of a store's server.
    """

    variables: frozenset[str]
    places: tuple[str, ...]
    terms: tuple[str, ...] = ()

    @classmethod
    def of(cls, terms: Iterable[str]) -> Allowed:
        """By the terms of `--allow`: what is no name of a variable is a place."""
        given = tuple(terms)
        variables = frozenset(term for term in given if _VARIABLE.fullmatch(term))
        return cls(variables, tuple(location_identity(term) for term in given if term not in variables), given)

    def environment(self, variables: Mapping[str, str]) -> dict[str, str]:
        """Those of the variables that it names."""
        return {name: value for name, value in variables.items() if name in self.variables}

    @property
    def has_server(self) -> bool:
        """Whether it names a store's server."""
        return any(term.startswith(("http://", "https://")) for term in self.terms)

    def reaches(self, place: str) -> bool:
        """Whether a place is one of them, or below one."""
        identity = location_identity(place)
        return any(identity == one or identity.startswith(f"{one.rstrip('/')}/") for one in self.places)

    def __str__(self) -> str:
        """What it allows, for messages."""
        return ", ".join(f"`{term}`" for term in self.terms)
