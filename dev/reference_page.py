"""The reference of policy files and etc_project.yml, made from their JSON Schemas, for docs/reference.md."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from etc_policy.report.schemas import DOCUMENTS, file_name, json_schema, words_of

_INTRO = {
    "policy": "## Policy files: `policies/**/*.yml`",
    "project": "## The project: `etc_project.yml`",
}


def render_reference() -> str:
    """Every key of each kind of file, and the files that etc writes."""
    parts = list[str]()
    for name, heading in _INTRO.items():
        parts += [heading + "\n", *_sections(json_schema(name))]
    parts += ["## Files that etc writes\n", *_artifacts()]
    return "\n".join(parts)


def _sections(schema: Mapping[str, Any]) -> Iterator[str]:
    yield from _table(schema)
    for name, part in schema.get("$defs", {}).items():
        if not part.get("properties"):
            continue
        yield f"### {_words(name)}\n\n{part.get('description', '')}\n"
        yield from _table(part)


def _table(part: Mapping[str, Any]) -> Iterator[str]:
    required = set(part.get("required", ()))
    yield "| key | what it says | value | default |"
    yield "|---|---|---|---|"
    for key, value in part["properties"].items():
        default = "**required**" if key in required else _default(value)
        yield f"| `{key}` | {_cell(value.get('description', ''))} | {_value(value)} | {default} |"
    yield ""


def _value(value: Mapping[str, Any]) -> str:
    """What may be written there: a choice, a part of its own, or an example."""
    if words := words_of(value):
        return " or ".join(f"`{word.strip(chr(34))}`" for word in words)
    parts = [choice["$ref"].rsplit("/", 1)[-1] for choice in value.get("anyOf", [value]) if "$ref" in choice]
    examples = [f"`{_short(example)}`" for example in value.get("examples", ())]
    links = [f"[{_words(name)}](#{_words(name).replace(' ', '-').lower()})" for name in parts]
    return _cell(", ".join([*links, *([] if links else examples)]))


def _default(value: Mapping[str, Any]) -> str:
    default = value.get("default")
    if default in (None, "", [], {}) or isinstance(default, dict):
        return ""
    return f"`{_short(default)}`"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else text[:77] + "..."


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _words(name: str) -> str:
    """`EventTimeColumn` as `Event time column`."""
    spaced = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip()
    return spaced[:1].upper() + spaced[1:]


def _artifacts() -> Iterator[str]:
    yield "Each is JSON with a `schema_version`; `etc schema NAME` prints its schema.\n"
    yield "| name | what it is | schema |"
    yield "|---|---|---|"
    for name, document in DOCUMENTS.items():
        if document.written_by == "etc":
            yield f"| `{name}` | {document.title} | `etc_policy/schemas/{file_name(name)}` |"
    yield ""
