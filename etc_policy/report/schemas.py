"""JSON Schemas (draft 2020-12) of the files that etc reads and writes, made from the models; pure.

The package ships them as files, `etc_policy/schemas/<name>.v<version>.json`, and a test holds those equal to these.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel

from etc_policy.plan.model import PLAN_SCHEMA_VERSION, Plan
from etc_policy.policy.manifest import MANIFEST_SCHEMA_VERSION, Manifest
from etc_policy.policy.project_schema import ProjectFile
from etc_policy.policy.schema import PolicyFile
from etc_policy.policy.schema_values import LEARNED
from etc_policy.report.cuts import CutsReport
from etc_policy.report.debug import DEBUG_SCHEMA_VERSION, DebugReport
from etc_policy.report.history import HISTORY_SCHEMA_VERSION, PolicyHistories, PolicyHistory
from etc_policy.report.imports import IMPORT_SCHEMA_VERSION, ImportReport
from etc_policy.report.results import RESULTS_SCHEMA_VERSION, FreshnessReport, RunResults, VerificationReport
from etc_policy.report.run_files import RUN_FILE_SCHEMA_VERSION, RunFile
from etc_policy.report.simulation import SIMULATION_SCHEMA_VERSION, SimulationReport

#: A value that Jinja makes: allowed wherever a number or one of some words is.
_TEMPLATE = {"type": "string", "pattern": r"\{[{%]", "description": "A Jinja template"}
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


class Document(NamedTuple):
    """A kind of file: its model, the version of its format, and whether people write it (with Jinja) or etc does."""

    model: type[BaseModel]
    version: int
    written_by: Literal["people", "etc"]
    title: str


DOCUMENTS: Mapping[str, Document] = {
    "policy": Document(PolicyFile, 1, "people", "a policy file, policies/*.yml"),
    "project": Document(ProjectFile, 1, "people", "etc_project.yml"),
    "manifest": Document(Manifest, MANIFEST_SCHEMA_VERSION, "etc", "target/manifest.json of `etc compile`"),
    "plan": Document(Plan, PLAN_SCHEMA_VERSION, "etc", "target/plan.json of `etc plan`"),
    "run_results": Document(RunResults, RESULTS_SCHEMA_VERSION, "etc", "target/run_results.json of `etc apply`"),
    "freshness": Document(FreshnessReport, RESULTS_SCHEMA_VERSION, "etc", "target/freshness.json of `etc freshness`"),
    "run": Document(RunFile, RUN_FILE_SCHEMA_VERSION, "etc", "target/runs/*.json, one for each run"),
    "history": Document(PolicyHistory, HISTORY_SCHEMA_VERSION, "etc", "`etc history NAME --output json`"),
    "histories": Document(PolicyHistories, HISTORY_SCHEMA_VERSION, "etc", "`etc history --select TERM --output json`"),
    "cuts": Document(CutsReport, RESULTS_SCHEMA_VERSION, "etc", "`etc cuts --output json`"),
    "debug": Document(DebugReport, DEBUG_SCHEMA_VERSION, "etc", "`etc debug --output json`"),
    "import": Document(ImportReport, IMPORT_SCHEMA_VERSION, "etc", "`etc import --output json`"),
    "simulation": Document(SimulationReport, SIMULATION_SCHEMA_VERSION, "etc", "`etc simulate --output json`"),
    "verification": Document(VerificationReport, RESULTS_SCHEMA_VERSION, "etc", "`etc verify --output json`"),
}


def file_name(name: str) -> str:
    """The name of a schema's file, such as `plan.v1.json`."""
    return f"{name}.v{DOCUMENTS[name].version}.json"


def json_schema(name: str) -> dict[str, Any]:
    """The schema of one kind of file."""
    document = DOCUMENTS[name]
    mode: Literal["validation", "serialization"] = "validation" if document.written_by == "people" else "serialization"
    schema = document.model.model_json_schema(mode=mode, by_alias=mode == "validation")
    if document.written_by == "people":
        schema = _with_templates(schema)
    elif "schema_version" in schema["properties"]:
        schema["properties"]["schema_version"] |= {"const": document.version}
    head = {"$schema": _DIALECT, "$id": f"urn:etc-policy:schema:{name}:{document.version}"}
    return {**head, **schema, "title": document.title}


def explain_key(name: str) -> str | None:
    """What a key of the files that people write means (`strategy.granularity`, or `granularity`); None where it names no key."""
    *above, key = name.strip().split(".")
    where = above[-1].replace("_", "").lower() if above else ""
    told = [
        f"{key}  ({title}{f': {section}' if section else ''})\n\n{_meaning(part, key)}"
        for title, section, part in _parts()
        if key in part.get("properties", {}) and where in ("", section.lower())
    ]
    return "\n\n".join(told) or None


def keys() -> list[str]:
    """The keys that `explain_key` knows."""
    return sorted({key for _, _, part in _parts() for key in part.get("properties", {})})


@cache
def _parts() -> tuple[tuple[str, str, Mapping[str, Any]], ...]:
    """Of the files that people write: the title, the name of a part (empty for the file itself) and its schema."""
    schemas = [(one.title, json_schema(kind)) for kind, one in DOCUMENTS.items() if one.written_by == "people"]
    return tuple(
        (title, name, part)
        for title, schema in schemas
        for name, part in {"": schema, **schema.get("$defs", {})}.items()
    )


def words_of(value: Mapping[str, Any]) -> list[str]:
    """The words that a value may be, as JSON; empty where it is not one of some."""
    return [json.dumps(word) for choice in value.get("anyOf", [value]) for word in choice.get("enum", ())]


def _meaning(part: Mapping[str, Any], key: str) -> str:
    value = part["properties"][key]
    words = words_of(value)
    default = value.get("default")
    pieces = (
        value.get("description", ""),
        f"One of {', '.join(words)}." if words else "",
        "".join(f"For example {json.dumps(example)}." for example in value.get("examples", ())[:1] if not words),
        "Required." if key in part.get("required", ()) else "",
        f"Default: {json.dumps(default)}." if default not in (None, "", [], {}) else "",
    )
    return " ".join(piece for piece in pieces if piece)


def _with_templates(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with a template allowed for every value that may not be any text already."""
    for part in (schema, *schema.get("$defs", {}).values()):
        part.get("properties", {}).pop(LEARNED, None)
        for key, value in part.get("properties", {}).items():
            part["properties"][key] = _or_template(value)
    return schema


def _or_template(value: dict[str, Any]) -> dict[str, Any]:
    choices = value.get("anyOf", [value])
    if all("$ref" in choice or choice.get("type") in ("object", "array", "null") for choice in choices):
        return value
    if any(choice.get("type") == "string" and not {"pattern", "enum", "const"} & set(choice) for choice in choices):
        return value
    described: dict[str, Any] = {
        name: value[name] for name in ("description", "default", "examples", "title") if name in value
    }
    rest = {name: item for name, item in value.items() if name not in described}
    return {**described, "anyOf": [*rest.get("anyOf", [rest]), _TEMPLATE]}
