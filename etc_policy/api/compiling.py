"""What `etc compile` writes: the manifest, the options of each table's writers, and what each policy came to."""

from __future__ import annotations

from pathlib import Path

from etc_policy.api.artifacts import write_text
from etc_policy.compile.manifest import Manifest, Policy
from etc_policy.compile.provenance import render_provenance
from etc_policy.compile.writer_forms import FORMS
from etc_policy.declare.project import ProjectFiles


def write_compiled(files: ProjectFiles, manifest: Manifest, policies: tuple[Policy, ...], target_dir: Path) -> None:
    """Write the manifest, and for `policies` the rest; files of policies that the project no longer has are removed."""
    write_text(target_dir / "manifest.json", manifest_text(manifest))
    for policy in policies:
        for kind in FORMS.values():
            write_text(target_dir / "writers" / f"{policy.name}{kind.suffix}", kind.render(policy))
    names = {policy.name for policy in manifest.policies}
    _remove_stale(target_dir / "writers", names, tuple(kind.suffix for kind in FORMS.values()))
    _remove_stale(target_dir / "compiled", names, (".yml",))
    for policy, text in zip(policies, explanations(files, policies), strict=True):
        write_text(target_dir / "compiled" / f"{policy.name}.yml", text)


def manifest_text(manifest: Manifest) -> str:
    """The manifest as it is written and printed."""
    return manifest.model_dump_json(indent=2) + "\n"


def explanations(files: ProjectFiles, policies: tuple[Policy, ...]) -> list[str]:
    """What each policy came to, with the line that each value came from."""
    declared = {policy.declaration.name: policy for policy in files.policies}
    return [render_provenance(declared[policy.name], policy, files.target) for policy in policies]


def _remove_stale(folder: Path, names: set[str], suffixes: tuple[str, ...]) -> None:
    """Remove the files of policies that the project no longer has; others in the folder stay."""
    for path in folder.iterdir() if folder.is_dir() else ():
        name, dot, rest = path.name.partition(".")
        if dot + rest in suffixes and name not in names:
            path.unlink()
