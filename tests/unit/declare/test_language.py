"""Loops, macros, templates and defaults of folders: what policies come to, and from where each value came."""

import pytest

from etc_policy.declare import settings
from etc_policy.declare.loading import load_file
from etc_policy.declare.reading import read_project

LOOP = """version: 1
vars:
  lake: s3a://lake
  tables:
    - {name: orders, tags: [hourly, sales], latency: 30m}
    - {name: payments, tags: [], keep: true}
policies:
  # {{ nothing here is looked at }} {% nor here %}
  {% for t in var('tables') %}
  - name: {{ ro(t.name) }}
    table: {{ var('lake') }}/{{ t.name }}   # {{ nor('here') }}
    event_time_column: ts
    data_latency: "{{ t.latency | default('1h') }}"
    tags: {{ t.tags }}
    enabled: {{ t.keep | default(false) }}
  {% endfor %}
"""


@pytest.fixture
def read(tmp_path):
    def _read(files, environment=None, target=None):
        for name, text in {"policies/a.yml": "version: 1\npolicies: []\n", **files}.items():
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return read_project(str(tmp_path), environment or {}, target=target)

    return _read


def _only(files):
    assert [str(issue) for issue in files.issues] == []
    return [policy.declaration for policy in files.policies]


def test_a_loop_makes_many_policies(read):
    macro = "{% macro ro(name) %}{{ name | lower }}_ro{% endmacro %}"
    files = read({"policies/a.yml": LOOP, "templates/names.jinja": macro})
    orders, payments = _only(files)
    assert (orders.name, orders.table, orders.tags) == ("orders_ro", "s3a://lake/orders", ("hourly", "sales"))
    assert (orders.data_latency, orders.enabled) == (1_800_000, False)
    assert (payments.name, payments.tags, payments.data_latency) == ("payments_ro", (), 3_600_000)
    assert payments.enabled is True
    assert [policy.source for policy in files.policies] == ["policies/a.yml:10:11"] * 2
    assert files.policies[1].places.source(("tags",)) == "policies/a.yml:14:11"


def test_a_value_never_becomes_yaml(read):
    hostile = 'x", evil: true, y: "\n- name: more'
    text = (
        "version: 1\npolicies:\n  - {name: a, table: \"{{ env_var('T') }}\", event_time_column: ts, data_latency: 1m}\n"
    )
    (policy,) = _only(read({"policies/a.yml": text}, {"T": hostile}))
    assert policy.table == hostile
    (policy,) = _only(read({"policies/a.yml": text.replace('"', "")}, {"T": "[1, {a: b}] # c"}))
    assert policy.table == "[1, {a: b}] # c"


def test_macros_may_give_yaml_of_their_own(read):
    macro = "{% macro limits(t) %}freshness: {target: {{ t }}, error_after: 9h}\n    tags: [{{ t }}]{% endmacro %}"
    text = """version: 1
policies:
  - name: a
    table: t
    {{ limits('2h') }}
    event_time_column: ts
    data_latency: 1m
"""
    (policy,) = _only(read({"policies/a.yml": text, "templates/m.j2": macro}))
    assert (policy.freshness.target, policy.freshness.error_after, policy.tags) == (7_200_000, 32_400_000, ("2h",))


def test_lines_that_end_as_no_editor_ends_them_are_lines_of_yaml(read):
    text = """\r\rversion: 1\npolicies:\n  - !!x [1]{name: b, table: "{{ env_var('NOPE') }}/b"}\n"""
    (issue,) = read({"policies/a.yml": text}).issues
    assert issue.code == "ETC106"


@pytest.mark.parametrize(
    ("line", "code"),
    [("{{ limts('2h') }}", "ETC121"), ("{{ var('nope') }}", "ETC122"), ("tags: [a  # {{ nope }}", "ETC106")],
)
def test_a_line_that_is_a_failed_value_is_reported_as_that(read, line, code):
    text = f"version: 1\npolicies:\n  - name: a\n    table: t\n    {line}\n    event_time_column: ts\n    data_latency: 1m\n"
    found = read({"policies/a.yml": text}).issues
    assert [(str(issue.code), issue.where.line) for issue in found] in ([(code, 5)], [(code, 6)])


@pytest.mark.parametrize(
    ("policies", "times"),
    [("{+data_latency: 1h}", 1), ("{+data_latency: \"{{ '1h' if target.name == 'dev' else '2h' }}\"}", 2)],
    ids=["without the target", "with the target"],
)
def test_the_project_file_is_loaded_again_where_it_names_the_target(read, monkeypatch, policies, times):
    loaded = []
    monkeypatch.setattr(settings, "load_file", lambda *given: loaded.append(load_file(*given)) or loaded[-1])
    text = "version: 1\npolicies:\n  - {name: a, table: t, event_time_column: ts}\n"
    project = f"name: n\npolicies: {policies}\nprofiles: {{p: {{target: dev, targets: {{dev: {{}}}}}}}}\n"
    (policy,) = _only(read({"etc_project.yml": project, "policies/a.yml": text}))
    assert (policy.data_latency, len(loaded)) == (3_600_000, times)


def test_the_target_is_known_in_every_file(read):
    project = """
vars: {small: 1m}
policies: {+data_latency: "{{ '1h' if target.name == 'prod' else var('small') }}"}
profiles: {p: {target: dev, targets: {dev: {}, prod: {table_root: "s3a://{{ env_var('B', 'b') }}"}}}}
"""
    text = 'version: 1\npolicies:\n  - {name: "a_{{ target.name }}", table: t, event_time_column: ts}\n'
    (dev,) = _only(read({"etc_project.yml": project, "policies/a.yml": text}))
    assert (dev.name, dev.data_latency) == ("a_dev", 60_000)
    (prod,) = _only(read({"policies/a.yml": text}, target="prod"))
    assert (prod.name, prod.data_latency) == ("a_prod", 3_600_000)


TEMPLATES = {
    "templates/base.yml": "version: 1\ntemplate: {event_time_column: ts, tags: [base, all], freshness: {error_after: 9h}}\n",
    "templates/hourly.yml": """version: 1
template:
  extends: base
  data_latency: 30m
  freshness: {target: 1h, error_after: 3h}
  writer: {lock: {hoodie.write.lock.a: "1", hoodie.write.lock.b: "2"}}
""",
    "policies/sales/eu/a.yml": """version: 1
policies:
  - name: orders_ro
    table: t
    extends: hourly
    tags: [own]
    event_time_column: {unit: ms}
    freshness: {target: 2h}
    writer: {lock: {hoodie.write.lock.b: "3"}}
""",
}


def test_templates_merge_in_depth_and_lists_are_replaced(read):
    files = read({**TEMPLATES, "etc_project.yml": "policies: {+data_latency: 5m, +verify: {level: metadata}}\n"})
    (policy,) = _only(files)
    assert policy.data_latency == 1_800_000
    assert policy.verify.level == "metadata"
    assert (policy.event_time_column.column, policy.event_time_column.unit) == ("ts", "ms")
    assert (policy.freshness.target, policy.freshness.error_after) == (7_200_000, 10_800_000)
    assert policy.tags == ("own",)
    assert policy.writer.lock == {"hoodie.write.lock.a": "1", "hoodie.write.lock.b": "3"}


SOURCES = {
    ("table",): "policies/sales/eu/a.yml:4:12",
    ("data_latency",): "templates/hourly.yml:4:17",
    ("event_time_column", "column"): "templates/base.yml:2:31",
    ("event_time_column", "unit"): "policies/sales/eu/a.yml:7:31",
    ("freshness", "target"): "policies/sales/eu/a.yml:8:25",
    ("freshness", "error_after"): "templates/hourly.yml:5:40",
    ("writer", "lock", "hoodie.write.lock.a"): "templates/hourly.yml:6:40",
    ("writer", "lock", "hoodie.write.lock.b"): "policies/sales/eu/a.yml:9:42",
    ("verify", "level"): "etc_project.yml:1:48",
}


def test_each_value_knows_where_it_came_from(read):
    files = read({**TEMPLATES, "etc_project.yml": "policies: {+data_latency: 5m, +verify: {level: metadata}}\n"})
    places = files.policies[0].places
    assert {".".join(path): places.source(path) for path in SOURCES} == {".".join(p): s for p, s in SOURCES.items()}


def test_the_nearest_folder_wins(read):
    project = """policies:
  +data_latency: 1m
  +freshness: {target: 1h, error_after: 9h}
  sales:
    +data_latency: 2m
    eu:
      +freshness: {target: 2h}
      a:
        +tags: [file]
  other: {+data_latency: 9m}
"""
    row = "version: 1\npolicies:\n  - {name: %s, table: %s, event_time_column: ts}\n"
    files = read(
        {
            "etc_project.yml": project,
            "policies/a.yml": row % ("top", "t0"),
            "policies/sales/b.yml": row % ("sales", "t1"),
            "policies/sales/eu/a.yml": row % ("eu", "t2"),
        }
    )
    assert [(str(issue.code), issue.level, issue.where.line) for issue in files.issues] == [("ETC127", "warning", 10)]
    found = {p.declaration.name: p.declaration for p in files.policies}
    minutes = {n: (p.data_latency // 60_000, p.freshness.target // 60_000, p.tags) for n, p in found.items()}
    assert minutes == {"top": (1, 60, ()), "sales": (2, 60, ()), "eu": (2, 120, ("file",))}
    assert {p.freshness.error_after for p in found.values()} == {32_400_000}


def test_folders_can_have_other_names(read):
    row = "version: 1\npolicies:\n  - {name: a, table: t, event_time_column: ts, extends: quick}\n"
    files = read(
        {
            "etc_project.yml": "folders: {policies: compaction/rules, templates: compaction/shared}\n",
            "compaction/rules/eu/a.yml": row,
            "compaction/shared/quick.yml": "version: 1\ntemplate: {data_latency: 1m}\n",
        }
    )
    assert [policy.name for policy in _only(files)] == ["a"]


def test_options_keep_references_and_no_values(read):
    text = """version: 1
vars: {secret: "{{ env_var('S') }}"}
policies:
  - name: a
    table: t
    event_time_column: ts
    data_latency: 1m
    hudi_options: {hoodie.a: "x-{{ env_var('S') }}-{{ 1 + 1 }}", hoodie.b: "{{ var('secret') }}", hoodie.c: 1}
    writer: {lock: {hoodie.write.lock.p: "{{ env_var('S') }}"}}
"""
    (policy,) = _only(read({"policies/a.yml": text}, {"S": "hunter2"}))
    reference = "{{ env_var('S') }}"
    assert policy.hudi_options == {"hoodie.a": f"x-{reference}-2", "hoodie.b": reference, "hoodie.c": 1}
    assert policy.writer.lock == {"hoodie.write.lock.p": reference}


def test_a_fault_in_a_file_of_macros_with_carriage_returns_has_its_place(read):
    macros = "{% macro a() %}{% endmacro %}\r\n\r\n\r\n  {% macro b( %}{% endmacro %}\r\n"
    (issue,) = read({"templates/m.jinja": macros}).issues
    assert (issue.where.line, issue.where.column) == (4, 3)
