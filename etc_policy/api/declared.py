"""The verbs that are about the project's files alone, and tell writers what the policies ask of them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from etc_policy.api.arguments import File, Terms
from etc_policy.api.checking import checks_arguments
from etc_policy.api.workspace import Workspace
from etc_policy.errors import Issue
from etc_policy.policy.manifest import Manifest
from etc_policy.policy.secrets import with_values

if TYPE_CHECKING:
    from etc_policy.policy.writers import FormName


@checks_arguments
class DeclaredProject(Workspace):
    """A project folder, its policies and what they come to."""

    def parse(self) -> tuple[Issue, ...]:
        """All that is wrong with the project's files and its suites; PolicyError where there is no policy file at all."""
        reading = self._read()
        for issue in reading.suite_issues:
            if issue.level == "warning":  # those of other files are said by each verb that goes by their policies
                self._warn(issue)
        return (*reading.issues, *reading.suite_issues)

    def compile(self, select: Terms = (), exclude: Terms = ()) -> Manifest:
        """Write the manifest, and of what is selected the rest; PolicyError with all errors, and nothing is written then."""
        from etc_policy.api.compiling import notes_on_files, write_compiled

        reading = self._read()
        policies = self._select(reading, select, exclude)
        manifest = reading.manifest.model_copy(update={"git": self.environment.git_state()})
        write_compiled(reading.files, manifest, policies, self._shape, self.target_dir)
        for note in notes_on_files(policies):
            self._note(note)
        return manifest

    def explain(self, select: Terms = (), exclude: Terms = ()) -> list[str]:
        """The resolved values of each policy as YAML, with the line that each came from; nothing is written."""
        from etc_policy.api.compiling import explanations

        reading = self._read()
        return explanations(reading.files, self._select(reading, select, exclude))

    def writer_options(self, name: str) -> dict[str, str]:
        """The options that the writers of a policy's table need, for `.options(**...)` of Spark's DataFrame writer.

        They are for the job alone, and never to be written: what comes from the environment is there by its value.

        Raises:
            EngineError: a variable of the environment is not set.

        """
        from etc_policy.policy.writers import writer_options

        policy = self._one(name, "writer_options")
        return with_values(writer_options(policy, self._shape(policy)), os.environ)

    def flink_options(self, name: str) -> dict[str, str]:
        """The same for a Flink sink, which has names of its own for compaction."""
        from etc_policy.policy.writers import flink_options

        policy = self._one(name, "flink_options")
        return with_values(flink_options(policy, self._shape(policy)), os.environ)

    def writer_form(self, form: FormName, select: Terms = (), exclude: Terms = ()) -> str:
        """The writers' options of what is selected, in one of the forms that `compile` writes; no value of the environment."""
        from etc_policy.policy.writers import FORMS

        return "\n".join(FORMS[form].render(one, self._shape(one)) for one in self.policies(select, exclude))


def writer_options(name: str, project_dir: File = ".", *, target: str | None = None) -> dict[str, str]:
    """The options that the writers of policy `name` need: `frame.write.format("hudi").options(**writer_options(name))`."""
    return DeclaredProject(project_dir, target=target).writer_options(name)
