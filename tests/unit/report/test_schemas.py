"""The shipped schemas are those of the models. `ETC_REWRITE_GOLDEN=1` rewrites the files."""

import json
import os

import pytest
import yaml
from jsonschema import Draft202012Validator

from etc_policy.policy.files import SCHEMA_FOLDER, read_schemas, read_template
from etc_policy.report.schemas import DOCUMENTS, file_name, json_schema

PEOPLE = [name for name, document in DOCUMENTS.items() if document.written_by == "people"]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_files_are_fresh(name):
    path = SCHEMA_FOLDER / file_name(name)
    text = json.dumps(json_schema(name), indent=1) + "\n"
    if os.environ.get("ETC_REWRITE_GOLDEN") == "1":
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text, "run this test with ETC_REWRITE_GOLDEN=1"
    Draft202012Validator.check_schema(json.loads(text))


def test_no_other_files_are_shipped():
    assert list(read_schemas()) == sorted(map(file_name, DOCUMENTS))


def keys(schema):
    """(model, key, its schema) of every key of a schema."""
    for model, part in (("", schema), *schema.get("$defs", {}).items()):
        for key, value in part.get("properties", {}).items():
            yield model, key, value


@pytest.mark.parametrize("name", PEOPLE)
def test_every_key_that_people_write_has_a_description_and_an_example(name):
    bare = [
        (m, k) for m, k, value in keys(json_schema(name)) if not value.get("description") or not value.get("examples")
    ]
    assert bare == []


@pytest.mark.parametrize("name", PEOPLE)
def test_examples_are_right(name):
    schema = json_schema(name)
    for model, key, value in keys(schema):
        validator = Draft202012Validator({**value, "$defs": schema.get("$defs", {})})
        for example in value["examples"]:
            assert not list(validator.iter_errors(example)), (model, key, example)


def validator(name):
    return Draft202012Validator(json_schema(name))


@pytest.mark.parametrize("file", ["demo/flights.yml", "project/policies/orders.yml"])
def test_our_own_policies_fit(file):
    assert not list(validator("policy").iter_errors(yaml.safe_load(read_template(file))))


@pytest.mark.parametrize(
    ("change", "right"),
    [
        ({}, True),
        ({"data_latency": "{{ var('latency') }}"}, True),
        ({"enabled": "{{ env_var('ON') }}"}, True),
        ({"strategy": {"granularity": "{% if true %}log_file{% endif %}"}}, True),
        ({"event_time_column": {"column": "ts", "unit": "ms"}}, True),
        ({"strategy": {"granularity": "logfile"}}, False),
        ({"enabled": "yes"}, False),
        ({"data_latency": "5 hours"}, False),
        ({"log_file_max_size": "120 megs"}, False),
        ({"freshnes": {}}, False),
        ({"name": "Orders"}, False),
        ({"event_time_column": {"colum": "ts"}}, False),
    ],
)
def test_what_an_editor_says(change, right):
    policy = {"name": "orders_ro", "table": "lake/orders", "event_time_column": "ts", "data_latency": "30m", **change}
    errors = list(validator("policy").iter_errors({"version": 1, "policies": [policy]}))
    assert (not errors) == right
