import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from etc_policy.policy.reading import read_project
from etc_policy.policy.resolve import check_project
from etc_policy.policy.schema import PolicyFile

STEADY = settings(suppress_health_check=[HealthCheck.too_slow])

POLICY = '- {name: %s, table: "%s", event_time_column: ts, data_latency: "%s"}\n'


@pytest.fixture
def project(tmp_path):
    def write(files):
        for name, text in files.items():
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return str(tmp_path)

    return write


def _file(*policies, head=""):
    return f"version: 1\n{head}policies:\n" + "".join(f"  {policy}" for policy in policies)


def _latency(files):
    assert files.issues == ()
    return [policy.declaration.data_latency_ms // 60_000 for policy in files.policies]


def test_nearer_variables_win(project):
    text = _file(POLICY % ("a", "t", "{{ var('latency') }}"), head="vars: {latency: 2m}\n")
    plain = _file(POLICY % ("a", "t", "{{ var('latency') }}"))
    shared = {"etc_project.yml": "vars: {latency: 1m}\n", "policies/b.yml": plain.replace("name: a", "name: b")}
    root = project({"policies/a.yml": text, **shared})
    assert _latency(read_project(root, {})) == [2, 1]
    assert _latency(read_project(root, {}, {"latency": "3m"})) == [3, 3]


def test_variables_of_the_file_may_read_the_environment(project):
    head = "vars: {lake: \"{{ env_var('LAKE', '/data') }}/x\"}\n"
    root = project({"policies/a.yml": _file(POLICY % ("a", "{{ var('lake') }}/t", "1m"), head=head)})
    assert read_project(root, {}).policies[0].declaration.table == "/data/x/t"
    assert read_project(root, {"LAKE": "/lake"}).policies[0].declaration.table == "/lake/x/t"


def test_a_variable_cannot_be_made_from_itself(project):
    head = "vars: {a: \"{{ var('a') }}\"}\n"
    files = read_project(project({"policies/a.yml": _file(POLICY % ("a", "t", "1m"), head=head)}), {})
    assert [str(issue.code) for issue in files.issues] == ["ETC122"]
    assert files.issues[0].where.line == 2


def test_a_rendered_value_is_checked_like_a_written_one(project):
    root = project({"policies/a.yml": _file(POLICY % ("a", "t", "{{ var('n', 5) }} parsecs"))})
    assert [str(issue.code) for issue in read_project(root, {}).issues] == ["ETC116"]


def test_what_is_right_is_kept_beside_what_is_wrong(project):
    good, bad = POLICY % ("good", "t", "1m"), POLICY % ("bad", "t", "1 parsec")
    root = project({"policies/a.yml": _file(bad, good), "policies/b.yml": "a: [", "policies/c.yml": _file(good)})
    files = read_project(root, {})
    assert [policy.source for policy in files.policies] == ["policies/a.yml:4:12", "policies/c.yml:3:12"]
    assert {str(issue.code) for issue in files.issues} == {"ETC116", "ETC106"}


def test_a_key_that_is_there_twice_hides_nothing_of_the_next_policy(project):
    twice, next_one = (
        "{name: a, table: t, table: t, event_time_column: ts}",
        "{name: b, table: u, event_time_column: ts}",
    )
    files = read_project(project({"policies/a.yml": _file(f"- {twice}\n", f"- {next_one}\n")}), {})
    assert [(str(issue.code), issue.where.line) for issue in files.issues] == [("ETC107", 3), ("ETC111", 4)]


def test_issues_of_the_project_file(project):
    files = {"policies/a.yml": _file(POLICY % ("a", "t", "1m"))}
    wrong = read_project(project({**files, "etc_project.yml": "varz: {a: 1}\n"}), {}).issues
    assert [(str(issue.code), issue.hint) for issue in wrong] == [("ETC110", "did you mean `vars`?")]
    nested = read_project(project({**files, "etc_project.yml": "vars: [a]\n"}), {}).issues
    assert [str(issue.code) for issue in nested] == ["ETC112"]
    empty = read_project(project({**files, "etc_project.yml": ""}), {}).issues
    assert [str(issue.code) for issue in empty] == ["ETC112"]


@pytest.mark.parametrize("policies", ["policies: 5", "policies: [5]", "policies: {a: 1}", "policies:"])
def test_policies_of_the_wrong_kind(project, policies):
    files = read_project(project({"policies/a.yml": f"version: 1\n{policies}\n"}), {})
    assert [str(issue.code) for issue in files.issues] == ["ETC112"]
    assert files.policies == ()


def test_every_key_of_the_file_has_a_description():
    schema = PolicyFile.model_json_schema()
    models = [schema, *schema["$defs"].values()]
    bare = [name for model in models for name, key in model.get("properties", {}).items() if "description" not in key]
    assert bare == []
    assert schema["$defs"]["PolicyEntry"]["anyOf"] == [{"required": ["name", "table"]}, {"required": ["tables"]}]


FULL = {
    "version": 1,
    "vars": {"a": "x"},
    "policies": [
        {
            "name": "full",
            "description": "{{ var('a') }}",
            "table": "lake/full",
            "event_time_column": {"column": "ts", "unit": "ms"},
            "data_latency": "30m",
            "log_file_max_size": "1 MiB",
            "strategy": {"type": "event_time", "granularity": "log_file"},
            "freshness": {"target": "1h", "warn_after": "2h", "error_after": "3h"},
            "verify": {"suite": "ro_complete", "level": "data"},
            "writer": {"index": "bloom", "lock": {"hoodie.write.lock.x": "y"}, "compaction": "none"},
            "hudi_options": {"hoodie.x": True},
            "tags": ["a"],
            "enabled": True,
        }
    ],
}
_value = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["", "a.b.c", "30m", "{{ x", "{{ var('a') }}"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["name", "column", "x", "<<"]), inner),
    max_leaves=4,
)


def _places(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from _places(item, (*path, key))


def _replaced(value, path, new):
    if not path:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = _replaced(value[path[0]], path[1:], new)
    return copy


@STEADY
@given(st.sampled_from(list(_places(FULL))), _value)
def test_any_value_in_any_place_is_read_or_an_issue_with_its_line(tmp_path_factory, path, new):
    root = tmp_path_factory.mktemp("project")
    (root / "policies").mkdir()
    (root / "policies" / "a.yml").write_text(yaml.safe_dump(_replaced(FULL, path, new)))
    files = read_project(str(root), {})
    issues = check_project(files, ["ro_complete"])
    assert all(issue.where.line or "empty" in issue.message for issue in issues)
    assert len(files.policies) == 1 or issues or path == ("policies",)
