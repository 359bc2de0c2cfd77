"""`etc compile --explain`: what a policy came to, and the line that each value came from."""

import json

import yaml

PROJECT = """vars: {lake: lake}
policies: {+freshness: {target: 2h}}
profiles:
  p:
    target: dev
    targets: {dev: {table_root: root, lock: {hoodie.write.lock.provider: "{{ env_var('ETC_TEST_LOCK') }}"}}}
"""
TEMPLATE = "version: 1\ntemplate: {data_latency: 30m, hudi_options: {hoodie.x: 'yes'}}\n"
POLICY = """version: 1
policies:
  - name: orders_ro
    table: "{{ var('lake') }}/orders"
    event_time_column: ts
    extends: hourly
    tags: ["a b", '#c']
"""


def test_each_value_is_shown_with_its_line(etc, project, monkeypatch):
    (project / "policies" / "a.yml").write_text(POLICY)
    (project / "templates").mkdir()
    (project / "templates" / "hourly.yml").write_text(TEMPLATE)
    (project / "etc_project.yml").write_text(PROJECT)
    monkeypatch.setenv("ETC_TEST_LOCK", "hunter2")
    code, out, err = etc("compile", "--explain")
    without = "the files for writers are without `hoodie.write.lock.provider`, which comes from the environment"
    assert (code, err) == (0, f"{without}: set it to `${{ETC_TEST_LOCK}}`\n")
    text = (project / "target" / "compiled" / "orders_ro.yml").read_text()
    assert out == text  # the path in full, so that what comes after it stands in its column
    found = {line.split("#")[0].strip(): line.rpartition("# ")[2] for line in text.splitlines() if "# " in line}
    assert found["column: ts"] == "policies/a.yml:5:24"
    assert found["data_latency: 30m"] == "templates/hourly.yml:2:26"
    assert found["target: 2h"] == "etc_project.yml:2:33"
    assert found["granularity: file_slice"] == "default"
    assert found["lock_wait: 60s"] == "default"
    assert found['hoodie.x: "yes"'] == "templates/hourly.yml:2:56"
    assert found["hoodie.write.lock.provider: \"{{ env_var('ETC_TEST_LOCK') }}\""] == "target dev"
    values = yaml.safe_load(text)
    assert values["table"] == str(project / "root/lake/orders")
    assert (values["tags"], values["hudi_options"]) == (["a b", "#c"], {"hoodie.x": "yes"})
    assert "hunter2" not in text + out
    (project / "policies" / "a.yml").write_text(POLICY.replace("orders_ro", "other_ro"))
    etc("compile")
    assert [file.name for file in (project / "target" / "compiled").iterdir()] == ["other_ro.yml"]


def test_what_the_environment_gave_is_never_shown(etc, project, monkeypatch):
    secret = "{{ env_var('ETC_TEST_SECRET') | %s }}"
    description, tags = secret % "upper", f"['{secret % 'lower'}'".replace("'ETC_TEST_SECRET'", '"ETC_TEST_SECRET"')
    policy = POLICY.replace("    extends: hourly\n", f'    data_latency: 30m\n    description: "{description}"\n')
    (project / "policies" / "a.yml").write_text(policy.replace("['a b'", tags).replace('["a b"', tags))
    monkeypatch.setenv("ETC_TEST_SECRET", "Hunter2")
    (project / "etc_project.yml").write_text("vars: {lake: lake}\n")
    code, out, err = etc("compile", "--explain")
    assert (code, err) == (0, "")
    assert "hunter2" not in out.lower()
    values = yaml.safe_load(out)
    assert values["description"] == "{{ env_var('ETC_TEST_SECRET') | upper }}"
    assert values["tags"] == ['{{ env_var("ETC_TEST_SECRET") | lower }}', "#c"]


def test_a_changed_secret_stops_the_compilation(etc, project, monkeypatch):
    (project / "etc_project.yml").write_text("vars: {lake: lake}\n")
    (project / "templates").mkdir()
    options = "{hoodie.x: \"{{ env_var('ETC_TEST_SECRET') | upper }}\"}"
    (project / "templates" / "hourly.yml").write_text(TEMPLATE.replace("{hoodie.x: 'yes'}", options))
    (project / "policies" / "a.yml").write_text(POLICY)
    monkeypatch.setenv("ETC_TEST_SECRET", "hunter2")
    code, out, err = etc("compile", "--explain")
    assert (code, out) == (1, "")
    assert "error[ETC144]" in err
    assert "templates/hourly.yml:2:" in err
    assert not (project / "target" / "compiled").exists()
    assert "hunter2" not in err.lower()


def test_keys_are_quoted_so_that_they_are_read_as_they_were_written(etc, project):
    keys = [
        "hoodie.a: b",
        "hoodie.a #c",
        "hoodie.\u202e\x1b\x85",
        "hoodie.a\nname: other",
        "hoodie.'a\"",
        "hoodie.plain_1",
    ]
    options = json.dumps({key: f"value of {key}" for key in keys})
    policy = POLICY.replace("    extends: hourly\n", f"    data_latency: 30m\n    hudi_options: {options}\n")
    (project / "policies" / "a.yml").write_text(policy.replace("{{ var('lake') }}", "lake"))
    assert etc("compile")[0] == 0
    text = (project / "target" / "compiled" / "orders_ro.yml").read_text()
    values = yaml.safe_load(text)
    assert values["hudi_options"] == {key: f"value of {key}" for key in keys}
    assert values["name"] == "orders_ro"
    assert "hoodie.plain_1: value" in text


def test_the_name_of_a_file_adds_no_line(etc, project):
    (project / "policies" / "a.yml").rename(project / "policies" / "a\nname: other #.yml")
    assert etc("compile")[0] == 0
    values = yaml.safe_load((project / "target" / "compiled" / "orders_ro.yml").read_text())
    assert values["name"] == "orders_ro"
