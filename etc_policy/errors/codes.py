"""The codes of all errors: one row each, and what is said of it in `codes.toml`. A code is defined once and is never reused.

By the first digit: 0 the command line and its files, 1 the project's files, 2 the table (22: suites), 3 engines and IO,
4 not now, 6 what a command was given.
"""

from __future__ import annotations

from enum import StrEnum
from functools import cache
from typing import NamedTuple


class Ends(NamedTuple):
    """How a command ends that meets an error: by which exit code, None where that depends, what is said of it, who can mend it.

    The exit code itself is that of the class of `EtcError` that is raised, but for what a policy's author alone can mend.
    """

    exit_code: int | None
    text: str
    mended_by: str = "operator"


_AUTHOR = "policy's author"
_USAGE = Ends(64, "Exit code 64.", "author of the job")
_ENGINE_OR_FAILED = Ends(None, "Exit code 3, or 1 where a verdict failed too.")
_ENGINE = Ends(3, "Exit code 3.")
_PROJECT = Ends(1, "Exit code 1. `etc parse` shows all that is wrong with the project's files at once.", _AUTHOR)
_WRONG_POLICY = Ends(
    1, "Exit code 1: the same command fails again until the policy fits the table. Nothing was changed.", _AUTHOR
)
_UNCHANGED = Ends(3, "Exit code 3. Nothing was changed.")
_SUITE = Ends(1, "Exit code 1. `etc parse` finds all of it that does not need the table.", _AUTHOR)
_NOT_VERIFIABLE = Ends(
    1,
    "Exit code 1: the same command fails again until the policy fits the table, which counts as not verified.",
    _AUTHOR,
)
_GRAVEST = Ends(None, "The exit code is that of the gravest: 3, then 1, then 4.")
_NOTHING_LOST = Ends(3, "Exit code 3. Nothing is lost: the same command finishes or rolls back what was begun.")
_PASSES = "passes by itself"
_RETRY = Ends(4, "Exit code 4.", _PASSES)
_REPLAN = Ends(
    4,
    "Exit code 4: the job may succeed when it runs again and makes a new plan. "
    "A retry with the same plan does not help.",
    _PASSES,
)
_RETRY_IF_PASSING = Ends(None, "Exit code 4 where it passes by itself, else 3.", "as the reason says")
_FAILED_OR_ENGINE = Ends(None, "Exit code 1, or 3 where a check could not be carried out.", "table's owner")
_FAILED = Ends(1, "Exit code 1.", "table's owner")
_WARNING = Ends(None, "A warning: the exit code is that of what else was found.")
_WARNING_OF_FILES = _WARNING._replace(mended_by=_AUTHOR)


class Code(StrEnum):
    """A code that prints as itself (`ETC101`), and how its command ends."""

    ends: Ends

    def __new__(cls, code: str, ends: Ends) -> Code:
        """The member with the rest of its row."""
        member = str.__new__(cls, code)
        member._value_, member.ends = code, ends
        return member

    @property
    def summary(self) -> str:
        """What it is about in general."""
        return _texts()[self]["summary"]

    @property
    def text(self) -> str:
        """What it means at length, and what to do about it."""
        return " ".join(_texts()[self]["text"].split())

    USAGE = ("ETC001", _USAGE)
    UNKNOWN_POLICY = ("ETC002", _USAGE)
    CANNOT_WRITE = ("ETC003", _ENGINE_OR_FAILED)
    ALREADY_THERE = ("ETC004", _USAGE)
    NO_SUCH_TARGET = ("ETC005", _USAGE)
    BAD_SELECTION = ("ETC006", _USAGE)
    BAD_STATE = ("ETC007", _USAGE)
    NOT_TRUSTED = ("ETC008", _PROJECT)
    UNEXPECTED = ("ETC009", _ENGINE)

    NO_POLICIES = ("ETC101", _PROJECT)
    UNREADABLE = ("ETC102", _PROJECT)
    LEAVES_PROJECT = ("ETC103", _PROJECT)
    TOO_BIG = ("ETC104", _PROJECT)
    NOT_UTF8 = ("ETC105", _PROJECT)
    SYNTAX = ("ETC106", _PROJECT)
    DUPLICATE_KEY = ("ETC107", _PROJECT)
    FORBIDDEN_YAML = ("ETC108", _PROJECT)
    TWO_FILES = ("ETC109", _PROJECT)

    UNKNOWN_KEY = ("ETC110", _PROJECT)
    MISSING_KEY = ("ETC111", _PROJECT)
    WRONG_TYPE = ("ETC112", _PROJECT)
    WRONG_CHOICE = ("ETC113", _PROJECT)
    BAD_NAME = ("ETC114", _PROJECT)
    EMPTY = ("ETC115", _PROJECT)
    BAD_DURATION = ("ETC116", _PROJECT)
    BAD_SIZE = ("ETC117", _PROJECT)

    TEMPLATE_SYNTAX = ("ETC120", _PROJECT)
    TEMPLATE_FORBIDDEN = ("ETC121", _PROJECT)
    UNKNOWN_VARIABLE = ("ETC122", _PROJECT)
    BAD_FOR_EACH = ("ETC124", _PROJECT)

    UNKNOWN_TARGET = ("ETC125", _PROJECT)
    WRONG_VERSION = ("ETC126", _PROJECT)
    UNUSED_DEFAULTS = ("ETC127", _WARNING_OF_FILES)
    UNKNOWN_TEMPLATE = ("ETC128", _PROJECT)
    TEMPLATE_CIRCLE = ("ETC129", _PROJECT)

    DUPLICATE_POLICY = ("ETC130", _PROJECT)
    SHARED_TABLE = ("ETC131", _PROJECT)
    BAD_TABLE = ("ETC132", _PROJECT)
    TARGET_TOO_SHORT = ("ETC133", _PROJECT)
    FRESHNESS_ORDER = ("ETC134", _PROJECT)
    UNIT_AND_FORMAT = ("ETC135", _PROJECT)
    BAD_FORMAT = ("ETC136", _PROJECT)
    RESERVED_OPTION = ("ETC137", _PROJECT)
    NOT_AN_OPTION = ("ETC138", _PROJECT)
    UNKNOWN_SUITE = ("ETC139", _PROJECT)
    NO_TIME_TO_COMPACT = ("ETC140", _WARNING_OF_FILES)
    WRITER_COMPACTS = ("ETC141", _WARNING_OF_FILES)
    BAD_RO_TABLE = ("ETC142", _PROJECT)
    NOT_A_WHOLE_NUMBER = ("ETC143", _PROJECT)
    LOCK_WITHOUT_EXPIRY = ("ETC145", _WARNING_OF_FILES)
    SYMLINKS_DANGLE = ("ETC146", _PROJECT)
    INTERVAL_WITHOUT_TARGET = ("ETC147", _WARNING_OF_FILES)
    NOT_OF_STRATEGY = ("ETC148", _PROJECT)
    LOCK_IN_PROCESS = ("ETC149", _WARNING_OF_FILES)
    LIMIT_WITHOUT_EFFECT = ("ETC150", _WARNING_OF_FILES)
    BAD_PARTITION_TIME = ("ETC151", _PROJECT)
    NEVER_CLOSES = ("ETC152", _PROJECT)
    OPEN_QUESTION = ("ETC153", _WARNING_OF_FILES)
    EMPTY_NAMESPACE = ("ETC154", _WARNING_OF_FILES)
    CHANGED_SECRET = ("ETC144", _PROJECT)

    NO_TABLE = ("ETC201", _WRONG_POLICY)
    NOT_HUDI = ("ETC202", _WRONG_POLICY)
    NOT_MERGE_ON_READ = ("ETC203", _WRONG_POLICY)
    BOOTSTRAP_TABLE = ("ETC204", _WRONG_POLICY)
    TABLE_VERSION = ("ETC205", _UNCHANGED)
    TIMELINE_LAYOUT = ("ETC206", _UNCHANGED)
    NOT_LOCAL = ("ETC207", _WRONG_POLICY)
    DAMAGED_TIMELINE = ("ETC208", _UNCHANGED)
    NO_EVENT_TIME_COLUMN = ("ETC209", _WRONG_POLICY)
    NEEDS_PYARROW = ("ETC210", _UNCHANGED)
    UNKNOWN_CATALOG_TABLE = ("ETC211", _WRONG_POLICY)
    NOT_A_TIME_COLUMN = ("ETC212", _WRONG_POLICY)
    CANNOT_READ_TABLE = ("ETC213", _UNCHANGED)
    UNNAMED_ZONE = ("ETC214", _UNCHANGED)
    DAMAGED_PROPERTIES = ("ETC215", _UNCHANGED)
    UNKNOWN_METADATA = ("ETC216", _UNCHANGED)
    NO_RO_TABLE = ("ETC217", _WRONG_POLICY)
    NO_CUT = ("ETC218", _WRONG_POLICY)

    CANNOT_FORGET = ("ETC219", _UNCHANGED)
    SUITE_REPLACED = ("ETC220", _WARNING_OF_FILES)
    BAD_SUITE = ("ETC222", _SUITE)
    UNKNOWN_PARAMETER = ("ETC223", _SUITE)
    PARAMETER_WITHOUT_VALUE = ("ETC224", _SUITE)
    UNKNOWN_EXPECTATION = ("ETC225", _SUITE)
    BAD_ARGUMENTS = ("ETC226", _SUITE)
    UNKNOWN_COLUMN = ("ETC227", _SUITE)
    BAD_CONDITION = ("ETC228", _SUITE)

    OBJECTS_IN_LOG = ("ETC230", _UNCHANGED)
    NO_TIMES = ("ETC231", _NOT_VERIFIABLE)
    UNREADABLE_TIMES = ("ETC232", _NOT_VERIFIABLE)
    MISSING_TIME_COLUMN = ("ETC233", _NOT_VERIFIABLE)
    NO_META_COLUMNS = ("ETC234", _NOT_VERIFIABLE)
    TOO_LARGE = ("ETC235", _UNCHANGED)
    TABLE_FAILED = ("ETC236", _UNCHANGED)
    WRONG_UNIT = ("ETC237", _NOT_VERIFIABLE)

    BAD_DONE_RECORD = ("ETC246", _UNCHANGED)
    FOREIGN_PLAN = ("ETC245", _UNCHANGED)

    NO_JAVA = ("ETC301", _NOTHING_LOST)
    NO_PYSPARK = ("ETC302", _NOTHING_LOST)
    SPARK_DID_NOT_START = ("ETC303", _NOTHING_LOST)
    HUDI_FAILED = ("ETC304", _NOTHING_LOST)
    COMPLETED_ELSEWHERE = ("ETC305", _NOTHING_LOST)
    NOT_ON_THE_TIMELINE = ("ETC306", _NOTHING_LOST)
    RUN_TAKEN_OVER = ("ETC307", _NOTHING_LOST)
    NO_COLUMN_STATISTICS = ("ETC308", _NOTHING_LOST)
    CANNOT_LOCK = ("ETC309", _NOTHING_LOST)
    ALREADY_COMPLETED = ("ETC310", _NOTHING_LOST)
    MISSING_SECRET = ("ETC311", _NOTHING_LOST)
    LOG_FILES_ADDED = ("ETC312", _NOTHING_LOST)
    NOT_CARRIED = ("ETC318", _NOTHING_LOST)
    CARRIED_ALTERED = ("ETC319", _NOTHING_LOST)
    NOT_IN_COMMIT = ("ETC320", _NOTHING_LOST)
    CANNOT_CARRY = ("ETC321", _NOTHING_LOST)
    NOT_SPLIT = ("ETC323", _NOTHING_LOST)
    UNFIT_BUNDLE = ("ETC322", _NOTHING_LOST)
    NOT_ENCRYPTED = ("ETC324", _NOTHING_LOST)
    BUNDLE_ENDS_WRITES = ("ETC325", _NOTHING_LOST)
    NOT_WORKABLE = ("ETC326", _NOTHING_LOST)
    OTHER_ENGINE_TIME = ("ETC313", _NOTHING_LOST)
    COMPLETED_TOO_EARLY = ("ETC314", _NOTHING_LOST)
    CANNOT_READ_VIEW = ("ETC331", _NOTHING_LOST)
    NOTHING_CHECKED = ("ETC332", _NOTHING_LOST)
    NO_GREAT_EXPECTATIONS = ("ETC333", _NOTHING_LOST)
    TABLE_MOVED_ON = ("ETC334", _NOTHING_LOST)
    CANNOT_LISTEN = ("ETC341", _NOTHING_LOST)
    CANNOT_WRITE_METRICS = ("ETC342", _NOTHING_LOST)
    BAD_RUN_RESULTS = ("ETC343", _NOTHING_LOST)
    CANNOT_WRITE_JUNIT = ("ETC345", _NOTHING_LOST)
    TARGET_DIR_OUTSIDE = ("ETC350", _NOTHING_LOST)
    CANNOT_PRINT = ("ETC351", _NOTHING_LOST)
    SEVERAL = ("ETC355", _GRAVEST)
    NOT_OBSERVED = ("ETC357", _WARNING)
    NO_MCP = ("ETC358", _USAGE)
    NO_DEMO_DATA = ("ETC390", _NOTHING_LOST)

    TIMELINE_KEEPS_CHANGING = ("ETC401", _RETRY)
    STALE_PLAN = ("ETC402", _REPLAN)
    TABLE_IN_USE = ("ETC403", _RETRY)
    RUN_IS_ALIVE = ("ETC404", _RETRY)
    CANNOT_COMPACT_NOW = ("ETC405", _RETRY_IF_PASSING)
    POLICY_IS_GONE = ("ETC406", _REPLAN)
    POLICY_CHANGED = ("ETC407", _REPLAN)
    OTHER_TABLE = ("ETC408", _REPLAN)
    CATALOG_FAILED = ("ETC409", _RETRY)
    WAIT_TIMED_OUT = ("ETC410", _RETRY)
    WAIT_TOO_SHORT = ("ETC411", _RETRY)
    VERIFICATION_FAILED = ("ETC412", _FAILED_OR_ENGINE)
    WAIT_IN_VAIN = ("ETC413", _ENGINE)
    PLAN_FROM_THE_FUTURE = ("ETC418", _ENGINE)
    LOCK_IS_HELD = ("ETC414", _RETRY)
    OVERTAKEN = ("ETC415", _REPLAN)
    WRITTEN_BESIDE = ("ETC416", _FAILED)
    LOCK_NOT_GIVEN_BACK = ("ETC422", _RETRY)
    NOT_SENT = ("ETC424", _RETRY)
    LOCK_LOST = ("ETC423", _RETRY)
    MALFORMED_PLAN = ("ETC440", _USAGE)
    PLAN_NOT_DERIVED = ("ETC441", _REPLAN)
    BEHIND_A_LINK = ("ETC442", _ENGINE)
    PROOF_NOT_MADE = ("ETC471", _WARNING_OF_FILES)
    WRONG_EVENT_TIMES = ("ETC470", _FAILED)
    STORE_UNREACHABLE = ("ETC450", _RETRY)
    NO_BUCKET = ("ETC451", _WRONG_POLICY)
    STORE_REFUSES = ("ETC452", _UNCHANGED)
    NO_STORE_KEYS = ("ETC453", _UNCHANGED)
    NEEDS_OBSTORE = ("ETC454", _UNCHANGED)
    NO_CONDITIONAL_PUT = ("ETC455", _UNCHANGED)
    HDFS_UNREACHABLE = ("ETC456", _RETRY)
    HDFS_REFUSES = ("ETC457", _NOTHING_LOST)
    NO_NAMENODE = ("ETC458", _UNCHANGED)
    NEEDS_HDFS_NATIVE = ("ETC459", _UNCHANGED)

    NO_MASTER = ("ETC460", _RETRY)
    NO_EXECUTOR = ("ETC461", _RETRY)

    CANNOT_READ_PLAN = ("ETC601", _USAGE)
    NOT_A_PLAN = ("ETC602", _USAGE)
    EDITED_PLAN = ("ETC603", _USAGE)
    CANNOT_ASK = ("ETC604", _USAGE)
    DEMO_REFUSED = ("ETC605", _USAGE)
    NOTHING_TO_SYNC = ("ETC606", _USAGE)
    NO_SITE = ("ETC607", _USAGE)
    PORT_IN_USE = ("ETC608", _USAGE)
    UNREADABLE_RUN = ("ETC611", _WARNING)
    NEWER_RUN = ("ETC612", _WARNING)


@cache
def _texts() -> dict[str, dict[str, str]]:
    """What is said of each code: read when somebody asks, as few commands do."""
    import tomllib
    from importlib.resources import files

    return tomllib.loads((files("etc_policy.errors") / "codes.toml").read_text("utf-8"))


#: What only a policy's author can mend: no retry helps.
WRONG_POLICY = frozenset(code for code in Code if code.ends.mended_by == _AUTHOR)
#: What is met in a table, or in its rows; all others keep anybody from looking there.
OF_DATA = frozenset(code for code in Code if code.startswith("ETC2")) - {Code.NEEDS_PYARROW} | {
    Code.CANNOT_READ_VIEW,
    Code.NOTHING_CHECKED,
}


def explain(code: str) -> str | None:
    """What a code means at length (`etc explain ETC102`), its summary first; None for what is not a code of etc."""
    found = next((known for known in Code if known == code.strip().upper()), None)
    return f"{found}  {found.summary}\n\n{found.text} {found.ends.text}" if found else None
