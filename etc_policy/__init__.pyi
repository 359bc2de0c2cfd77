from etc_policy.api.project import Project as Project
from etc_policy.api.project import writer_options as writer_options

__all__ = ["Project", "__version__", "writer_options"]
__version__: str
