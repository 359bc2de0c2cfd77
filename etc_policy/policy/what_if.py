"""Policies as they would be with other values: for replays, nothing of it is written to a file."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from etc_policy.errors import UsageError
from etc_policy.errors.codes import Code
from etc_policy.policy.findings import schema_issues
from etc_policy.policy.project import DeclaredPolicy, FileMarks, Places, ProjectFiles
from etc_policy.policy.schema import PolicyDeclaration, PolicyEntry, Strategy
from etc_policy.policy.schema_values import LEARNED
from etc_policy.policy.suggestions import did_you_mean

#: What decides when something is compacted, and what; a target is all of `freshness` that does.
KEYS = ("data_latency", "freshness.target", *(f"strategy.{key}" for key in Strategy.names_by_key()))


def require_known(settings: Mapping[str, object]) -> None:
    """Return if all of the settings are known.

    Raises:
        UsageError: some are not; names them, and those that are.

    """
    unknown = [key for key in settings if key not in KEYS]
    if unknown:
        named = ", ".join(f"`{key[:60]}`" for key in unknown)
        hint = did_you_mean(unknown[0], KEYS) or f"these can: {', '.join(KEYS)}"
        raise UsageError(Code.USAGE, f"no setting that can be simulated: {named}", hint=hint)


def with_settings(files: ProjectFiles, settings: Mapping[str, Any], names: Container[str]) -> ProjectFiles:
    """The project, where the named policies have these values by their dotted keys; a key with None is removed.

    `issues` are also those of values that are wrong by themselves; their policies are left out.
    """
    issues, policies = list(files.issues), list[DeclaredPolicy]()
    for policy in files.policies:
        is_meant = policy.declaration.name in names
        values, places = _changed(policy, settings) if is_meant else (policy.values, policy.places)
        try:
            declaration = PolicyDeclaration.from_yaml(values) if is_meant else policy.declaration
        except ValidationError as error:
            found = schema_issues(error, PolicyEntry, places, name=policy.declaration.name)
            issues += (issue for _, issue in found)
        else:
            policies.append(DeclaredPolicy(declaration, places, values))
    return replace(files, policies=tuple(policies), issues=tuple(issues))


def _changed(policy: DeclaredPolicy, settings: Mapping[str, Any]) -> tuple[dict[str, Any], Places]:
    """The policy's values with the new ones, whose places are the settings as they were given."""
    values, origins = dict[str, Any](policy.values), dict(policy.places.origins)
    if "data_latency" in settings:
        values.pop(LEARNED, None)
    for key, value in settings.items():
        first, *below = path = tuple(key.split("."))
        inner = {**(values.get(first) or {}), below[0]: value} if below else value
        values[first] = {name: one for name, one in inner.items() if one is not None} if below else inner
        origins[path] = FileMarks(f"--set {key}={value}", "--set", {}), path
    return values, Places(policy.places.file, policy.places.path, origins)
