"""What a writer's job asks of a project in one call."""

from __future__ import annotations

from etc_policy.api.arguments import File
from etc_policy.api.project import Project


def writer_options(name: str, project_dir: File = ".", *, target: str | None = None) -> dict[str, str]:
    """The options that the writers of policy `name` need: `frame.write.format("hudi").options(**writer_options(name))`."""
    return Project(project_dir, target=target).writer_options(name)
