"""`for_each`, templates and defaults of folders: what policies come to, and from where each value came."""

import time

import pytest

from etc_policy.policy.reading import read_project
from etc_policy.policy.resolve import check_project

EACH = """version: 1
vars:
  lake: s3a://lake
  tables:
    - {name: Orders, tags: [hourly, sales], latency: 30m}
    - {name: payments, tags: [], keep: true}
policies:
  # {{ nothing here is looked at }} {% nor here %}
  - for_each: "{{ var('tables') }}"
    name: "{{ each.name | lower }}_ro"
    table: "{{ var('lake') }}/{{ each.name | lower }}"   # {{ nor('here') }}
    event_time_column: ts
    data_latency: "{{ each.latency | default('1h') }}"
    tags: "{{ each.tags }}"
    enabled: "{{ each.keep | default(false) }}"
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


def test_for_each_makes_many_policies(read):
    files = read({"policies/a.yml": EACH})
    orders, payments = _only(files)
    assert (orders.name, orders.table, orders.tags) == ("orders_ro", "s3a://lake/orders", ("hourly", "sales"))
    assert (orders.data_latency_ms, orders.enabled) == (1_800_000, False)
    assert (payments.name, payments.tags, payments.data_latency_ms) == ("payments_ro", (), 3_600_000)
    assert payments.enabled is True
    assert [policy.source for policy in files.policies] == ["policies/a.yml:10:11"] * 2
    assert files.policies[1].places.source(("tags",)) == "policies/a.yml:14:11"


ROW = "version: 1\npolicies:\n  - {for_each: %s, name: %s, table: %s, event_time_column: ts, data_latency: 1m}\n"


@pytest.mark.parametrize(
    ("each", "name", "table", "expected"),
    [
        ("[a, b]", '"{{ each }}"', '"lake/{{ each }}"', [("a", "lake/a"), ("b", "lake/b")]),
        ("{a: x, b: y}", '"{{ each.key }}"', '"{{ each.value }}"', [("a", "x"), ("b", "y")]),
        ('"{{ range(2) }}"', '"t{{ each }}"', '"t{{ each }}"', [("t0", "t0"), ("t1", "t1")]),
        ("[]", '"{{ each }}"', "t", []),
        ("&items [a]", '"{{ each }}"', "t", [("a", "t")]),
    ],
)
def test_what_each_is(read, each, name, table, expected):
    found = _only(read({"policies/a.yml": ROW % (each, name, table)}))
    assert [(policy.name, policy.table) for policy in found] == expected


def test_for_each_over_the_tables_that_a_glob_means(read, tmp_path):
    for table in ("lake/sales/orders", "lake/sales/Refunds", "lake/other/x"):
        (tmp_path / table / ".hoodie").mkdir(parents=True)
    (tmp_path / "lake" / "sales" / "no_table").mkdir()
    text = ROW % ("sales/*", '"{{ each.name | lower }}_ro"', '"{{ each.path }}"')
    project = "profiles: {p: {target: dev, targets: {dev: {table_root: lake}, prod: {table_root: %s}}}}\n"
    files = {"policies/a.yml": text, "etc_project.yml": project % "s3://lake"}
    found = _only(read(files))
    assert [(p.name, p.table) for p in found] == [("refunds_ro", "sales/Refunds"), ("orders_ro", "sales/orders")]
    (issue,) = read(files, target="prod").issues
    assert (issue.code, issue.level) == ("ETC124", "error")
    absolute = text.replace("sales/*", f"{tmp_path}/lake/*/orders")
    (policy,) = _only(read({**files, "policies/a.yml": absolute}))
    assert policy.table == f"{tmp_path}/lake/sales/orders"
    (warning,) = read({**files, "policies/a.yml": text.replace("sales/*", "nowhere/*")}).issues
    assert (warning.code, warning.level) == ("ETC124", "warning")


def test_a_glob_that_goes_through_too_many_folders_is_an_error_soon(read, tmp_path):
    """Where it means none of them, too: two links to their own folder have paths without end."""
    for name in ("a", "b"):
        (tmp_path / name).symlink_to(".")
    glob = "/".join(["*"] * 18 + ["none*", "x"])
    text = f"version: 1\npolicies:\n  - {{for_each: '{glob}', name: '{{{{ each.name }}}}', table: '{{{{ each.path }}}}'}}\n"
    began = time.process_time()
    assert [str(one.issue.code) for one in read({"policies/a.yml": text}).refused] == ["ETC104"]
    assert time.process_time() - began < 10


def test_what_lies_in_folders_is_no_fault_of_the_files_and_what_they_say_is(read, tmp_path, monkeypatch):
    for name in ("a", "b", "c"):
        (tmp_path / "lake" / name / ".hoodie").mkdir(parents=True)
    text = ROW % ("lake/*", '"{{ each.name }}"', '"{{ each.path }}"')
    own = "  - {name: own, table: t, event_time_column: ts, data_latency: 1m}\n"
    files = read({"policies/a.yml": text.replace("1m", "soon") + own})
    assert ({str(issue.code) for issue in files.issues}, files.refused) == ({"ETC116"}, ())
    monkeypatch.setattr("etc_policy.policy.yaml_marks.MAX_VALUES", 20)  # of which the three take more
    assert [one.name for one in _only(read({"policies/a.yml": text + own}))] == ["a", "b", "c", "own"]
    monkeypatch.setattr("etc_policy.policy.reading.MAX_ITEMS", 2)
    files = read({"policies/a.yml": text + own})
    assert [one.name for one in _only(files)] == ["a", "b", "own"]
    assert [(str(one.issue.code), one.folder) for one in files.refused] == [("ETC104", "lake/*")]
    monkeypatch.setattr("etc_policy.policy.files._MAX_FOLDERS", 2)
    files = read({"policies/a.yml": text + own})
    assert [one.name for one in _only(files)] == ["a", "own"]
    assert [(str(one.issue.code), one.folder) for one in files.refused] == [("ETC104", "lake/*")]


def test_for_each_goes_with_templates_and_defaults(read):
    text = "version: 1\npolicies:\n  - {for_each: [a, b], name: '{{ each }}_ro', extends: '{{ each }}', table: t}\n"
    template = "version: 1\ntemplate: {event_time_column: ts, data_latency: %s}\n"
    files = {"policies/a.yml": text, "templates/a.yml": template % "1m", "templates/b.yml": template % "2m"}
    found = _only(read({**files, "etc_project.yml": "policies: {+tags: [all]}\n"}))
    assert [(p.name, p.data_latency_ms, p.tags) for p in found] == [
        ("a_ro", 60_000, ("all",)),
        ("b_ro", 120_000, ("all",)),
    ]


def test_too_many_policies_of_for_each_are_an_error(read):
    text = "version: 1\nvars: {n: '{{ range(10000) }}'}\npolicies:\n  - for_each: \"{{ var('n') + var('n') }}\"\n    name: a\n"
    (issue,) = read({"policies/a.yml": text}).issues
    assert (issue.code, issue.where.line) == ("ETC104", 4)
    many = "version: 1\npolicies:\n  - {for_each: '{{ range(9000) }}', name: a, tags: [" + "x, " * 30 + "]}\n"
    assert [str(issue.code) for issue in read({"policies/a.yml": many}).issues] == ["ETC104"]


def test_a_value_never_becomes_yaml(read):
    hostile = 'x", evil: true, y: "\n- name: more'
    text = (
        "version: 1\npolicies:\n  - {name: a, table: \"{{ env_var('T') }}\", event_time_column: ts, data_latency: 1m}\n"
    )
    (policy,) = _only(read({"policies/a.yml": text}, {"T": hostile}))
    assert policy.table == hostile


def test_lines_that_end_as_no_editor_ends_them_are_lines_of_yaml(read):
    text = """\r\rversion: 1\npolicies:\n  - !!x [1]{name: b, table: "{{ env_var('NOPE') }}/b"}\n"""
    (issue,) = read({"policies/a.yml": text}).issues
    assert issue.code == "ETC106"


def test_the_target_is_known_in_every_file(read):
    project = """
vars: {small: 1m}
policies: {+data_latency: "{{ '1h' if target.name == 'prod' else var('small') }}"}
profiles: {p: {target: dev, targets: {dev: {}, prod: {table_root: "s3a://{{ env_var('B', 'b') }}"}}}}
"""
    text = 'version: 1\npolicies:\n  - {name: "a_{{ target.name }}", table: t, event_time_column: ts}\n'
    (dev,) = _only(read({"etc_project.yml": project, "policies/a.yml": text}))
    assert (dev.name, dev.data_latency_ms) == ("a_dev", 60_000)
    (prod,) = _only(read({"policies/a.yml": text}, target="prod"))
    assert (prod.name, prod.data_latency_ms) == ("a_prod", 3_600_000)


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
    assert policy.data_latency_ms == 1_800_000
    assert policy.verify.level == "metadata"
    assert (policy.event_time.column, policy.event_time.unit) == ("ts", "ms")
    assert (policy.freshness.target_ms, policy.freshness.error_after_ms) == (7_200_000, 10_800_000)
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
    minutes = {n: (p.data_latency_ms // 60_000, p.freshness.target_ms // 60_000, p.tags) for n, p in found.items()}
    assert minutes == {"top": (1, 60, ()), "sales": (2, 60, ()), "eu": (2, 120, ("file",))}
    assert {p.freshness.error_after_ms for p in found.values()} == {32_400_000}


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
policies:
  - name: a
    table: t
    event_time_column: ts
    data_latency: 1m
    hudi_options: {hoodie.a: "x-{{ env_var('S') }}-{{ 1 + 1 }}", hoodie.b: "{{ env_var('UNSET', 'd') }}", hoodie.c: 1}
    writer: {lock: {hoodie.write.lock.p: '{{env_var("S")}}'}}
"""
    (policy,) = _only(read({"policies/a.yml": text}, {"S": "hunter2"}))
    reference = "{{ env_var('S') }}"
    assert policy.hudi_options == {
        "hoodie.a": f"x-{reference}-2",
        "hoodie.b": "{{ env_var('UNSET', 'd') }}",
        "hoodie.c": "1",
    }
    assert policy.writer.lock == {"hoodie.write.lock.p": reference}
    assert _only(read({"policies/a.yml": text}))[0] == policy, "a variable need not be set before the engine starts"


def test_what_a_target_hands_to_spark_are_references(read):
    project = """
profiles: {p: {target: dev, targets: {dev: {
  spark: {confs: {spark.secret: "{{ env_var('S') }}", spark.plain: "{{ 1 }}"}, master: "{{ env_var('M') }}"},
  lock: {hoodie.write.lock.p: "{{ env_var('UNSET') }}"}, catalog: {uri: "thrift://{{ env_var('M') }}"}}}}}
policies: {+hudi_options: {hoodie.a: "{{ env_var('S') }}"}, +writer: {lock: {hoodie.write.lock.q: "{{ env_var('S') }}"}}}
"""
    text = "version: 1\npolicies:\n  - {name: a, table: t, event_time_column: ts, data_latency: 1m}\n"
    files = read({"etc_project.yml": project, "policies/a.yml": text}, {"S": "hunter2", "M": "yarn"})
    (policy,), target = _only(files), files.target
    reference = "{{ env_var('S') }}"
    assert target.spark_confs["spark.secret"] == reference
    assert (target.spark_confs["spark.plain"], target.spark_confs["spark.master"]) == ("1", "yarn")
    assert target.lock == {"hoodie.write.lock.p": "{{ env_var('UNSET') }}"}
    assert target.hidden_confs == {"spark.secret", "spark.hadoop.hive.metastore.uris"}
    assert (policy.hudi_options, policy.writer.lock) == ({"hoodie.a": reference}, {"hoodie.write.lock.q": reference})
    assert "hunter2" not in repr(files)


@pytest.mark.parametrize(
    "option",
    [
        "hudi_options: {hoodie.a: \"{{ var('secret') }}\"}",
        "hudi_options: {hoodie.a: \"{{ env_var('S') | upper }}\"}",
        "hudi_options: {hoodie.a: \"{% if true %}{{ env_var('S') }}{% endif %}\"}",
        "hudi_options: \"{{ {'hoodie.a': env_var('S')} }}\"",
        "writer: \"{{ {'lock': {'hoodie.write.lock.a': env_var('S')}} }}\"",
        "hudi_options: {hoodie.a: \"{{ var('list')[0] }}\"}",
    ],
)
def test_a_value_of_the_environment_gets_into_no_option(read, option):
    head = "version: 1\nvars: {secret: \"{{ env_var('S') }}\", list: [\"{{ env_var('S') }}\"]}\npolicies:\n"
    text = f"{head}  - {{name: a, table: t, event_time_column: ts, data_latency: 1m, {option}}}\n"
    found = check_project(read({"policies/a.yml": text}, {"S": "hunter2"}), ["ro_complete"])
    assert [str(issue.code) for issue in found] == ["ETC144"]
    assert "hunter2" not in str(found[0])
