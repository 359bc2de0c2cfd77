"""What `etc compile` writes: the manifest, the options of each table's writers, and what each policy came to."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from etc_policy.api.artifacts import write_listed, write_text
from etc_policy.policy.manifest import Manifest, Policy
from etc_policy.policy.project import ProjectFiles, render_provenance
from etc_policy.policy.writers import FORMS, Form, TableShape, left_out, writer_options

#: The list of what the last `etc compile` wrote for policies, so that the next one removes no other file.
_LIST = "compiled.json"
_OWN = re.compile(r"(writers|compiled)/[a-z][a-z0-9_-]*\.[a-z.-]+")


def write_compiled(
    files: ProjectFiles,
    manifest: Manifest,
    policies: tuple[Policy, ...],
    shape_of: Callable[[Policy], TableShape | None],
    target_dir: Path,
) -> None:
    """Write the manifest, and for `policies` the rest; files of policies that the project no longer has are removed."""
    written: dict[str, str] = {}
    for policy, text in zip(policies, explanations(files, policies), strict=True):
        shape = shape_of(policy)
        written |= {name: kind.render(policy, shape) for name, kind in _writer_files(policy).items()}
        written[_explanation_file(policy)] = text
    kept = {name for policy in manifest.policies for name in (*_writer_files(policy), _explanation_file(policy))}
    write_text(target_dir, "manifest.json", manifest_text(manifest))
    write_listed(target_dir, _LIST, written, _OWN.fullmatch, kept=kept)


def notes_on_files(policies: tuple[Policy, ...]) -> Iterator[str]:
    """What the files for writers are without, as no file may hold it; once for all policies that have it alike."""
    lacking = (option for policy in policies for option in left_out(writer_options(policy)).items())
    for key, value in dict.fromkeys(lacking):
        yield f"the files for writers are without `{key}`, which comes from the environment: set it to `{value}`"


def manifest_text(manifest: Manifest) -> str:
    """The manifest as it is written and printed."""
    return manifest.as_json(indent=2) + "\n"


def explanations(files: ProjectFiles, policies: tuple[Policy, ...]) -> list[str]:
    """What each policy came to, with the line that each value came from."""
    declared = {policy.declaration.name: policy for policy in files.policies}
    return [render_provenance(declared[policy.name], policy, files.target) for policy in policies]


def _writer_files(policy: Policy) -> dict[str, Form]:
    return {f"writers/{policy.name}{form.suffix}": form for form in FORMS.values()}


def _explanation_file(policy: Policy) -> str:
    return f"compiled/{policy.name}.yml"
