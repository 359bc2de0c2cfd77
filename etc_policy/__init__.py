"""Event-time-based compaction for Apache Hudi, declared in YAML.

policy    files -> Manifest
plan      Manifest + TableState -> Plan    execute  Plan -> RunResults
verify    table, re-read -> Verdict        publish  results -> text and JSON
"""

from importlib import import_module as _import_module

__all__ = ["Project", "__version__", "writer_options"]
__version__ = "0.1.0"

#: Public names -> where they are; loaded when first asked for, so that `import etc_policy` stays quick.
_PUBLIC = {
    "Project": ("etc_policy.api.project", "Project"),
    "writer_options": ("etc_policy.api.project", "writer_options"),
}


def __getattr__(name: str) -> object:
    """A public name, loaded now."""
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _PUBLIC[name]
    return getattr(_import_module(module), attribute)


def __dir__() -> list[str]:
    """The public names."""
    return __all__
