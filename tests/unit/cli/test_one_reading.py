"""A command reads each of the project's files once, whatever it needs of them: policies, target, earlier manifest."""

import pytest

from etc_policy.policy import files

PROJECT = "version: 1\nprofiles: {all: {target: dev, targets: {dev: {spark: {master: 'local[1]'}}}}}\n"
COMMANDS = """parse
parse --output json
compile
compile --explain
ls
plan
apply --yes
verify
freshness
history orders_ro
history --select orders_ro
wait --select orders_ro --until 0001 --timeout 0s
debug
undo
finish
docs generate
metrics write a.prom
wait orders_ro --until 0001 --timeout 0s"""


@pytest.mark.parametrize("command", COMMANDS.splitlines())
def test_every_file_is_read_once(etc, project, monkeypatch, command):
    (project / "etc_project.yml").write_text(PROJECT)
    read, found = files.read_file, []
    monkeypatch.setattr(files, "read_file", lambda file, *rest: found.append(file.name) or read(file, *rest))
    etc(*command.replace("0001", "2020-01-01").split())
    assert sorted(name for name in found if name != "ro_complete.yml") == ["a.yml", "etc_project.yml"]


def test_a_session_reads_them_anew_for_each_verb(project):
    from etc_policy import Project

    file = project / "policies" / "a.yml"
    session = Project()
    assert {policy.data_latency_ms for policy in session.policies()} == {1_800_000}
    file.write_text(file.read_text().replace("30m", "31m"))
    assert {policy.data_latency_ms for policy in session.policies()} == {1_860_000}
    assert {policy.data_latency_ms for policy in Project(read_once=True).policies()} == {1_860_000}
