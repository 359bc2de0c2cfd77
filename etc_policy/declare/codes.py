"""The codes of everything that can be wrong with a project's files, each with a summary. A code is never reused."""

from __future__ import annotations

from enum import StrEnum


class Code(StrEnum):
    """A code that prints as itself (`ETC101`); `summary` says in general what it is about."""

    summary: str

    def __new__(cls, code: str, summary: str) -> Code:
        """The member with its summary."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.summary = summary
        return member

    NO_POLICIES = "ETC101", "The project has no policies"
    UNREADABLE = "ETC102", "A file cannot be read"
    LEAVES_PROJECT = "ETC103", "A link leads out of the project"
    TOO_BIG = "ETC104", "A file or value is too big"
    NOT_UTF8 = "ETC105", "A file is not UTF-8 text"
    SYNTAX = "ETC106", "A file is not valid YAML"
    DUPLICATE_KEY = "ETC107", "A key stands twice in one mapping"
    FORBIDDEN_YAML = "ETC108", "A part of YAML that policies do not use"

    UNKNOWN_KEY = "ETC110", "A key that does not exist"
    MISSING_KEY = "ETC111", "A required key is missing"
    WRONG_TYPE = "ETC112", "A value of the wrong kind"
    WRONG_CHOICE = "ETC113", "A value that is not one of the choices"
    BAD_NAME = "ETC114", "A name that cannot be used"
    EMPTY = "ETC115", "A value is empty"
    BAD_DURATION = "ETC116", "Not a duration"
    BAD_SIZE = "ETC117", "Not a size"

    TEMPLATE_SYNTAX = "ETC120", "A template that cannot be read"
    TEMPLATE_FORBIDDEN = "ETC121", "Something a template may not do"
    UNKNOWN_VARIABLE = "ETC122", "A name that has no value"
    DUPLICATE_MACRO = "ETC123", "Two macros have one name"

    UNKNOWN_TARGET = "ETC125", "A target or profile that does not exist"
    WRONG_VERSION = "ETC126", "The project is for another version of etc"
    UNUSED_DEFAULTS = "ETC127", "Defaults of a folder that does not exist"
    UNKNOWN_TEMPLATE = "ETC128", "A template that does not exist"
    TEMPLATE_CIRCLE = "ETC129", "Templates that extend each other in a circle"

    DUPLICATE_POLICY = "ETC130", "Two policies have one name"
    SHARED_TABLE = "ETC131", "Two policies govern one table"
    BAD_TABLE = "ETC132", "A table that cannot be found this way"
    TARGET_TOO_SHORT = "ETC133", "A freshness that data_latency never allows"
    FRESHNESS_ORDER = "ETC134", "Freshness limits in the wrong order"
    UNIT_AND_FORMAT = "ETC135", "Event time has both unit and format"
    BAD_FORMAT = "ETC136", "Not a pattern that Spark reads times with"
    RESERVED_OPTION = "ETC137", "A Hudi option that the policy decides"
    NOT_AN_OPTION = "ETC138", "Not an option of Hudi"
    UNKNOWN_SUITE = "ETC139", "A suite that does not exist"
    NO_TIME_TO_COMPACT = "ETC140", "A freshness target without room to compact"
    WRITER_COMPACTS = "ETC141", "The table's writers compact on their own"
    BAD_RO_TABLE = "ETC142", "An RO table that cannot be synced to"
    NOT_A_WHOLE_NUMBER = "ETC143", "A Hudi option that must be a whole number"
    CHANGED_SECRET = "ETC144", "A value of the environment may only stand as it is"
