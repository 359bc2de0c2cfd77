from etc_policy.api.declared import writer_options as writer_options
from etc_policy.api.project import Project as Project

__all__ = ["Project", "__version__", "writer_options"]
__version__: str
