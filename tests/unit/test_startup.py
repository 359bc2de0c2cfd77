"""`etc --help` stays quick: what it imports is tested, and the clock only loosely."""

import resource
import subprocess
import sys

import pytest

from etc_policy.cli.main import COMMANDS, load_command

#: A script file and a sentinel: PySpark can end a `python -c` with exit code 0 (SPARK-55667).
SCRIPT = """
import sys
from etc_policy.cli.main import main
code = main({arguments!r})
engines = ("pyspark", "py4j", "great_expectations", "pandas", "pyarrow", "hudi")
heavy = (*engines, "pydantic", "jinja2", "yaml", "fastavro", "etc_policy.report.results", "etc_policy.verify.suites")
print("LOADED", code, [name for name in heavy if name in sys.modules])
"""


#: The table is missing.
POLICY = """version: 1
policies:
  - name: NAME
    table: /nowhere
    event_time_column: {column: ts, unit: ms}
    data_latency: 5h
    writer: {index: simple, compaction: none}
"""


def _write_project(folder, name):
    (folder / "policies").mkdir()
    (folder / "etc_project.yml").write_text("name: shop\nvars: {name: orders}\n")
    (folder / "policies" / "orders.yml").write_text(POLICY.replace("NAME", name))


def _run(tmp_path, *arguments):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(arguments=arguments))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if line.startswith("LOADED")]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [("--help", 0), ("--version", 0), ("pase", 64), ("explain ETC405", 0), ("completion bash", 0)],
)
def test_nothing_heavy_is_imported(tmp_path, arguments, code):
    assert _run(tmp_path, *arguments.split()) == [f"LOADED {code} []"]


def test_help_loads_no_options_of_commands(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nbefore = set(sys.modules)\nfrom etc_policy.cli.main import main\nmain(['--help'])\n"
        "print('LOADED', sorted({'pathlib', 'fractions', 'difflib', 'etc_policy.cli.options'} & (set(sys.modules) - before)))\n"
    )
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "LOADED []"


def test_parse_imports_no_engine(tmp_path):
    (loaded,) = _run(tmp_path, "parse", "--project-dir", str(tmp_path))
    assert loaded == "LOADED 1 ['pydantic', 'yaml']"


@pytest.mark.parametrize(("name", "loaded"), [("orders", []), ("\"{{ var('name') }}\"", ["jinja2"])])
def test_jinja_is_imported_where_a_file_has_templates(tmp_path, name, loaded):
    _write_project(tmp_path, name)
    assert _run(tmp_path, "ls", "--project-dir", str(tmp_path)) == [f"LOADED 0 {['pydantic', *loaded, 'yaml']}"]


def test_a_plan_imports_nothing_of_verification_and_results(tmp_path):
    _write_project(tmp_path, "orders")
    (loaded,) = _run(tmp_path, "plan", "--project-dir", str(tmp_path))
    assert loaded == "LOADED 1 ['pydantic', 'yaml']"


@pytest.mark.parametrize("name", list(COMMANDS))
def test_the_registry_says_what_the_command_says(name):
    command = load_command(name)
    assert (command.name, command.get_short_help_str(100).rstrip(".")) == (name, COMMANDS[name][1])


def test_help_takes_less_than_a_second_of_a_processor(tmp_path):
    _run(tmp_path, "--help")
    began = resource.getrusage(resource.RUSAGE_CHILDREN)
    _run(tmp_path, "--help")
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime < 1
