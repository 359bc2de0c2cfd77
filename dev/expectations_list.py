"""What Great Expectations offers, as the list that `etc parse` checks suites against without importing it.

`python -m dev.expectations_list` rewrites the list from the version that is installed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from etc_policy.verify.catalog import CATALOG_FILE

#: Fields of every expectation that a suite does not set through `kwargs`.
_COMMON = frozenset({
    "id", "meta", "notes", "result_format", "description", "catch_exceptions", "rendered_content", "severity", "windows",
    "batch_id", "metadata",
})  # fmt: skip


def describe_expectations() -> dict[str, Any]:
    """Per registered expectation its required arguments, and the JSON types that each argument takes (empty: any)."""
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    import great_expectations.expectations.core  # noqa: F401 - registers them
    from great_expectations.expectations import registry

    found = {}
    for name in sorted(registry.list_registered_expectation_implementations()):
        implementation = registry.get_expectation_impl(name)
        if implementation.__module__.startswith("great_expectations."):
            found[name] = _describe(implementation.schema())
    return found


def render_catalog() -> str:
    """The list as the text of its file."""
    import great_expectations

    rows = [f"  {json.dumps(name)}: {json.dumps(described)}" for name, described in describe_expectations().items()]
    body = ",\n".join(rows)
    version = json.dumps(great_expectations.__version__)
    return f'{{\n "great_expectations": {version},\n "expectations": {{\n{body}\n }}\n}}\n'


def _describe(schema: Mapping[str, Any]) -> dict[str, Any]:
    arguments = {name: part for name, part in schema["properties"].items() if name not in _COMMON}
    types = {name: sorted(set(_types(part, schema.get("definitions", {})))) for name, part in arguments.items()}
    required = sorted(set(schema.get("required", ())) - _COMMON)
    return {"required": required, "arguments": types}


def _types(part: Mapping[str, Any], definitions: Mapping[str, Any]) -> Iterator[str]:
    """The JSON types of a schema; a bare object among alternatives is Great Expectations' own form of a parameter."""
    if "$ref" in part:
        yield from _types(definitions[part["$ref"].rsplit("/", 1)[-1]], definitions)
    elif "type" in part:
        yield part["type"]
    alternatives = [*part.get("anyOf", ()), *part.get("oneOf", ()), *part.get("allOf", ())]
    for alternative in alternatives:
        if len(alternatives) == 1 or alternative != {"type": "object"}:
            yield from _types(alternative, definitions)


if __name__ == "__main__":
    Path(CATALOG_FILE).write_text(render_catalog(), encoding="utf-8")
