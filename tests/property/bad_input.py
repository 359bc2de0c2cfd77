"""Any files in, an error of ours or a manifest out: `python -m tests.property.bad_input --count 20000`.

Cases are made by hypothesis: good files that are cut, spliced and broken, hostile YAML and Jinja, links and paths that
leave the project, bytes. While a case runs, an audit hook of Python reports each file that is opened and each program,
socket or piece of code that is started.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import etc_policy.policy.render  # noqa: F401 - imported where a file has templates, and an import runs code
from etc_policy.errors import EtcError, PolicyError
from etc_policy.policy.files import MAX_FILE_BYTES
from etc_policy.policy.project import render_provenance
from etc_policy.policy.reading import read_project
from etc_policy.policy.resolve import check_project, compile_project

SECONDS_ALLOWED = 20
MEGABYTES_ALLOWED = 550
CANARY = "canary-outside-the-project"
ENVIRONMENT = {"HOME": "/home/me", "ETC_TEST_TOKEN": "hunter2"}
_STARTED = frozenset({"exec", "os.system", "os.exec", "os.fork", "os.posix_spawn", "subprocess.Popen"})
_CHANGED = frozenset({"os.remove", "os.rename", "os.mkdir", "os.rmdir", "shutil.rmtree", "socket.connect"})

POLICY = b"""version: 1
vars:
  lake: s3a://lake
  tables: [{name: orders, tags: [a, b]}, {name: payments}]
policies:
  - for_each: "{{ var('tables') }}"
    name: "{{ each.name | lower }}_ro"
    table: "{{ var('lake') }}/{{ each.name }}"   # {{ nothing }}
    event_time_column: &c {column: ts, unit: ms}
    data_latency: 30m
    tags: "{{ each.tags | default([]) }}"
    description: "{% if target.name == 'dev' %}dev{% else %}{% for t in var('tables') %}{{ t.name }} {% endfor %}{% endif %}"
    freshness: {target: 1h, warn_after: 2h, error_after: 3h}
  - {name: last, table: lake/last, extends: hourly, event_time_column: *c, hudi_options: {hoodie.x: 1}}
"""
FILES: Mapping[str, bytes] = {
    "policies/a.yml": POLICY,
    "policies/sales/b.yml": b'version: 1\npolicies:\n  - {name: b, table: "{{ target.name }}/b", extends: hourly}\n',
    "policies/globs.yml": b'version: 1\npolicies:\n  - {for_each: lake/*, name: "{{ each.name }}", table: "{{ each.path }}"}\n',
    "templates/hourly.yml": b"version: 1\ntemplate: {extends: base, data_latency: \"{{ env_var('L', '5m') }}\"}\n",
    "templates/base.yml": b"""version: 1
template: {event_time_column: ts, writer: {lock: {hoodie.write.lock.a: "b-{{ env_var('ETC_TEST_TOKEN') }}"}}}
""",
    "etc_project.yml": b"""name: fuzz
vars: {zone: eu}
policies: {+verify: {level: data}, sales: {+tags: [s]}}
profiles: {p: {target: dev, targets: {dev: {table_root: "r-{{ var('zone') }}"}, prod: {bundle: "{{ env_var('B') }}"}}}}
""",
}
#: In one of three cases.
_EXTRA = ("policies/sales/b.yml", "etc_project.yml")
HOSTILE = (
    b"!!python/object/apply:os.system ['touch /tmp/x']", b"!!binary aGk=", b"&a [*a, *a]", b"*c", b"<<: *c", b"? [a]\n: b",
    b"&x [1,2,3,4,5,6,7,8,9]\ny: &y [*x,*x,*x,*x,*x,*x,*x,*x]\nz: &z [*y,*y,*y,*y,*y,*y]\nw: [*z,*z,*z,*z,*z,*z,*z,*z,*z]",
    b"--- \n---\n", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"\t", b"\xc2\x85", "\U000f0000".encode(), b"\r", b"%YAML 9.9\n",
    b"{{ ''.__class__.__mro__[1].__subclasses__() }}", b"{{ self.__init__.__globals__ }}", b"{{ cycler.__init__ }}",
    b"{{ var.__globals__['os'].system('id') }}", b"{{ lipsum() }}", b"{% include '/etc/passwd' %}", b"{{ 9**9**9 }}",
    b"{% import 'os' as os %}", b"{% extends '/etc/passwd' %}", b"{{ range(99999999999) }}", b"{{ 'x' * 999999999 }}",
    b"{% for a in range(9999) %}{% for b in range(9999) %}{{ a }}{% endfor %}{% endfor %}", b"{% raw %}", b"{#", b"#}",
    b"{% macro f(x) %}{{ f(x ~ x) }}{{ f(x) }}{% endmacro %}{{ f('aaaaaaaa') }}", b"\"{{ env_var('ETC_TEST_TOKEN') }}\"",
    b"\"{{ each }}\"", b"for_each: /*", b"for_each: ../../*", b"for_each: {a: {b: 1}}", b"\"{{ 'x' * 99999999 }}\"",
    b"\"{{ 9**9**9 }}\"",
    b"\"{{ ''.__class__.__mro__[1].__subclasses__() }}\"", b"\"{{ var('tables') | map(attribute='__class__') | list }}\"",
    b"\"{{ env_var('ETC_TEST_TOKEN') | upper }}\"", b"{% set x = 'a' %}{% set x = x ~ x %}{% set x = x ~ x %}", b"{{ '%s' % 1 }}",
    b"{{ '{0.__class__}'.format(1) }}", b"{{ [1] | map('x') }}", b"{{ {'a': 1}.items() }}", b"{{ target }}", b"{{ \"\\x\" }}",
    b"../../outside/secret.yml", b"/etc/passwd", b"extends: ../outside/secret", b"folders: {policies: ..}", b"{%", b"{{", b"}}",
    b"folders: {templates: /etc}", b"suite: ../../outside/secret", b"!!str", b"'", b'"', b"|", b">", b"[", b"]", b"{", b"}", b"-",
    b"[" * 60, b"- " * 60, b"{a: " * 40, b"9" * 500, b"1e999", b".nan", b"0x1f", b"null", b"~", b"a" * 3000, b"\\",
)  # fmt: skip
LINKS = (
    "../outside/secret.yml",
    "../outside",
    "/etc",
    "/dev/zero",
    "a.yml",
    "../policies/a.yml",
    "nowhere",
    "/proc/self/mem",
)


_WORDS = sorted({word for content in FILES.values() for word in content.split()})
_PIECES = st.one_of(
    st.sampled_from(HOSTILE),
    st.sampled_from(_WORDS),
    st.sampled_from([b"", b" ", b"\n", b"  ", b"#", b":", b"'", b","]),
    st.text(max_size=3).map(lambda text: text.encode("utf-8", "surrogatepass")),
)


@st.composite
def _bytes(draw: st.DrawFn, good: bytes) -> bytes:
    """A good file that was cut, spliced or broken, or with a value that is another; or any bytes."""
    kind = draw(st.integers(0, 9))
    if kind == 0:
        return draw(st.binary(max_size=200))
    if kind == 1:
        return draw(st.text(alphabet="{}%#[]()-:,|>&*!?'\" \n\tabvr_01.~", max_size=120)).encode()
    data = good
    if kind <= 4:  # a value, which YAML can still read
        spans = [found.span() for found in re.finditer(rb"(?<=: )(?:[\w./]+|\"[^\"\n]*\")", good)]
        begin, end = draw(st.sampled_from(spans))
        return good[:begin] + b'"' + draw(_PIECES).replace(b"\\", b"/").replace(b'"', b"'") + b'"' + good[end:]
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(data)))
        end = min(len(data), place + draw(st.sampled_from([0, 0, 1, 3, 10, 40])))
        piece = draw(_PIECES)
        data = data[:place] + piece + data[end:]
    return data


@st.composite
def projects(draw: st.DrawFn) -> dict[str, bytes | str]:
    """Files of a project by path; a text is a link."""
    files: dict[str, bytes | str] = {name: content for name, content in FILES.items() if name not in _EXTRA}
    if draw(st.integers(0, 2)) == 0:
        files |= {name: FILES[name] for name in _EXTRA}
    for name in draw(st.lists(st.sampled_from(sorted(FILES)), min_size=1, max_size=2, unique=True)):
        files[name] = draw(_bytes(FILES[name]))
    if draw(st.integers(0, 5)) == 0:
        where = draw(st.sampled_from(["policies/l.yml", "templates/l.yml", "policies/l", "etc_project.yml"]))
        files[where] = draw(st.sampled_from(LINKS))
    if draw(st.integers(0, 9)) == 0:
        files.pop(draw(st.sampled_from(sorted(files))))
    return files


class Watch:
    """Reports what Python opens and starts while it is on."""

    def __init__(self) -> None:
        self.root: Path | None = None
        self.found: list[str] = []
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.root is None:
            return
        if event == "exec" and getattr(arguments[0], "co_filename", "").startswith(
            (*_LIBRARIES, "<template>", "<unknown>")
        ):
            return  # an import, or what Jinja compiles: an expression, the place of an error
        # What Python keeps of a module that it imports first is no change of etc's.
        if event in _STARTED or (event in _CHANGED and "/__pycache__/" not in str(arguments)):
            self.found.append(f"{event} {arguments!r:.200}")
        elif event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
            path = os.path.realpath(os.fsdecode(arguments[0]))
            if not path.startswith((f"{self.root}/", *_LIBRARIES)) or arguments[1] not in ("r", "rb", None):
                self.found.append(f"open {path}")


_LIBRARIES = tuple(
    {os.path.realpath(folder) + "/" for folder in (sys.prefix, sys.base_prefix, Path(__file__).parents[2])}
)
_WATCH = Watch()


def write(files: Mapping[str, bytes | str], root: Path) -> None:
    """Write the project below `root`, over what is there."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.unlink(missing_ok=True)
            path.symlink_to(content)


def outcome(files: Mapping[str, bytes | str]) -> str:
    """`manifest`, or the code of the first error; an assertion fails where a promise is broken."""
    with tempfile.TemporaryDirectory(dir=_scratch()) as folder:
        top = Path(os.path.realpath(folder))
        (top / "outside").mkdir()
        (top / "outside" / "secret.yml").write_text(f"version: 1\n{CANARY}: 1\n")
        write(files, top / "project")
        _forget_the_most_held()
        began, held = time.monotonic(), _most_megabytes_held()
        _WATCH.found, _WATCH.root = [], top / "project"
        try:
            result, said = _run(top / "project")
        finally:
            _WATCH.root = None
        assert not _WATCH.found, _WATCH.found
        assert time.monotonic() - began < SECONDS_ALLOWED
        assert _most_megabytes_held() - held < MEGABYTES_ALLOWED
        assert CANARY not in said
        assert result == "manifest" or "HUNTER2" not in said
        return result


def _forget_the_most_held() -> None:
    """Other tests in this process may have held more than the one that is looked at."""
    Path("/proc/self/clear_refs").write_text("5")


def _most_megabytes_held() -> float:
    """The most memory that this process has held since that was forgotten."""
    (most,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    return int(most.split()[1]) / 1024


def _run(root: Path) -> tuple[str, str]:
    try:
        files = read_project(str(root), ENVIRONMENT)
        issues = check_project(files, ("ro_as_of", "ro_complete"))
        said = "\n".join(str(issue) for issue in issues)
        assert all(issue.code.startswith("ETC1") for issue in issues)
        manifest = compile_project(files, ("ro_as_of", "ro_complete"), issues)
    except PolicyError as error:
        return str(error.code), "\n".join(str(issue) for issue in error.issues)
    except EtcError as error:
        return error.code, str(error)
    declared = {policy.declaration.name: policy for policy in files.policies}
    texts = [render_provenance(declared[policy.name], policy, files.target) for policy in manifest.policies]
    return "manifest", "\n".join([said, manifest.model_dump_json(), *texts])


def _scratch() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def run(count: int, seed: int | None = None) -> Counter[str]:
    """How often each outcome came; raises on the first broken promise, with hypothesis' smallest case."""
    found: Counter[str] = Counter()
    outcome(FILES)  # whatever is imported late is imported now

    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        derandomize=seed is None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(projects())
    def one(files: dict[str, bytes | str]) -> None:
        found[outcome(files)] += 1

    one()
    return found


_BIG = MAX_FILE_BYTES
BIG_FILES = {
    "keys": lambda: b"version: 1\n" + b"".join(b"k%d: 1\n" % n for n in range(_BIG // 12)),
    "wrong_policies": lambda: b"version: 1\npolicies:\n" + b"  - {nme: a}\n" * (_BIG // 13),
    "one_text": lambda: b"version: 1\npolicies: [{name: a, table: " + b"x" * (_BIG - 100) + b"}]\n",
    "one_line": lambda: b"version: 1\npolicies: [" + b"a, " * (_BIG // 3 - 20) + b"]\n",
    "comments": lambda: b"version: 1\npolicies: 5\n" + b"#{{\n" * (_BIG // 4 - 10),
    "open_tags": lambda: b"version: 1\npolicies: []\n" + b'{{ " \\' * (_BIG // 6 - 10),
    "tags": lambda: b"version: 1\npolicies: [" + b'"{{1}}",' * (_BIG // 8 - 10) + b"]\n",
    "different_tags": lambda: (
        b"version: 1\npolicies: [" + b"".join(b'"{{%06d}}",' % n for n in range(_BIG // 13 - 10)) + b"]\n"
    ),
    "loops": lambda: b'version: 1\npolicies: ["' + b"{% for a in [1] %}" * (_BIG // 18 - 10) + b'"]\n',
    "open_comments": lambda: b"version: 1\npolicies: []\n{{ 1 }}" + b"{#" * (_BIG // 2 - 30),
    "brackets": lambda: b"[" * _BIG,
    "not_text": lambda: b"\xff" * _BIG,
    "zeros": lambda: b"\0" * _BIG,
}
_SCRIPT = """
import sys
from etc_policy.cli.main import main
print("EXIT", main(["parse", "--project-dir", sys.argv[1]]))
"""


def big_file(kind: str) -> int:
    """How much is said of a file as big as one may be, in a process with a gigabyte of memory and 30 s of CPU; or it fails."""
    with tempfile.TemporaryDirectory(dir=_scratch()) as folder:
        (Path(folder) / "policies").mkdir()
        (Path(folder) / "policies" / "a.yml").write_bytes(BIG_FILES[kind]()[:_BIG])
        (Path(folder) / "script.py").write_text(_SCRIPT)
        limits = "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30)); "
        limits += (
            "resource.setrlimit(resource.RLIMIT_CPU, (30, 30)); sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0])"
        )
        command = [sys.executable, "-c", limits, f"{folder}/script.py", folder]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert "EXIT 1" in done.stdout, done.stderr[-2000:]
        assert "error[ETC1" in done.stderr
        return len(done.stderr)


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20_000)
    arguments = parser.parse_args()
    began = time.monotonic()
    found = run(arguments.count, seed=1)
    total = sum(found.values())
    for kind in BIG_FILES:
        print(f"a big file, {kind}: {big_file(kind):,} characters said")
    codes = ", ".join(f"{code} {number}" for code, number in found.most_common())
    print(f"{total} projects in {time.monotonic() - began:.0f} s, no promise broken: {codes}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
