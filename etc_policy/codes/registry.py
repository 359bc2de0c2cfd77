"""The codes of all errors, each with a summary. A code is defined once, here, and is never reused.

By the first digit: 0 the command line and its files, 1 the project's files, 2 the table (22: suites), 3 engines and IO,
4 not now, 6 what a command was given.
"""

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

    USAGE = "ETC001", "The command line cannot be carried out as given"
    UNKNOWN_POLICY = "ETC002", "No policy has that name"
    CANNOT_WRITE = "ETC003", "An output file cannot be written"
    ALREADY_THERE = "ETC004", "`etc init` would overwrite a file"
    NO_SUCH_TARGET = "ETC005", "There is no target of that name"
    BAD_SELECTION = "ETC006", "A selection that cannot be read"
    BAD_STATE = "ETC007", "The manifest of `--state` cannot be used"
    UNEXPECTED = "ETC009", "A fault of etc itself"

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

    NO_TABLE = "ETC201", "There is no table at that path"
    NOT_HUDI = "ETC202", "The folder is not a Hudi table"
    NOT_MERGE_ON_READ = "ETC203", "Not a merge-on-read table"
    BOOTSTRAP_TABLE = "ETC204", "A bootstrap table"
    TABLE_VERSION = "ETC205", "A table version that is not known"
    TIMELINE_LAYOUT = "ETC206", "A timeline layout that is not known"
    NOT_LOCAL = "ETC207", "A location that cannot be read"
    DAMAGED_TIMELINE = "ETC208", "A file of the timeline cannot be read"
    NO_EVENT_TIME_COLUMN = "ETC209", "The table has no such event-time column"
    NEEDS_PYARROW = "ETC210", "pyarrow is needed to read the archived timeline"
    UNKNOWN_CATALOG_TABLE = "ETC211", "The Spark catalog does not know the table"
    NOT_A_TIME_COLUMN = "ETC212", "The event-time column cannot be read as a time"
    CANNOT_READ_TABLE = "ETC213", "The system does not let a table's file be read"
    UNNAMED_ZONE = "ETC214", "The zone of the table's instants is not known"
    DAMAGED_PROPERTIES = "ETC215", "hoodie.properties is damaged or contradicts the table"
    UNKNOWN_METADATA = "ETC216", "Metadata in a form that is not known"
    NO_RO_TABLE = "ETC217", "The catalog has no such RO table"

    BAD_SUITE = "ETC222", "A suite of expectations is wrong"
    UNKNOWN_PARAMETER = "ETC223", "An expectation uses a parameter that does not exist"
    PARAMETER_WITHOUT_VALUE = "ETC224", "A parameter has no value here"
    UNKNOWN_EXPECTATION = "ETC225", "An expectation that does not exist"
    BAD_ARGUMENTS = "ETC226", "An expectation with wrong arguments"
    UNKNOWN_COLUMN = "ETC227", "An expectation names a column that the table lacks"
    BAD_CONDITION = "ETC228", "`verify.where` is not a condition on partitions"

    NO_TIMES = "ETC231", "The event-time column's type holds no times"
    UNREADABLE_TIMES = "ETC232", "Values of the event-time column cannot be read as times"
    MISSING_TIME_COLUMN = "ETC233", "The rows have no event-time column"
    NO_META_COLUMNS = "ETC234", "The table has no meta columns"

    NO_JAVA = "ETC301", "No Java runtime was found"
    NO_PYSPARK = "ETC302", "PySpark is not installed"
    SPARK_DID_NOT_START = "ETC303", "Spark did not start"
    HUDI_FAILED = "ETC304", "Hudi could not carry out a step"
    COMPLETED_ELSEWHERE = "ETC305", "Another run has completed the compaction"
    NOT_ON_THE_TIMELINE = "ETC306", "Hudi reported success, but the timeline shows no compaction"
    RUN_TAKEN_OVER = "ETC307", "The run may have been taken over, so it committed nothing"
    NO_COLUMN_STATISTICS = "ETC308", "Hudi could not read column statistics"
    CANNOT_LOCK = "ETC309", "The table's folder cannot be locked"
    ALREADY_COMPLETED = "ETC310", "The compaction has completed and cannot be withdrawn"
    MISSING_SECRET = "ETC311", "An environment variable for the engine is not set"
    LOG_FILES_ADDED = "ETC312", "A plan cannot be withdrawn any more"
    CANNOT_READ_VIEW = "ETC331", "A view of the table cannot be read"
    NOTHING_CHECKED = "ETC332", "No expectation could be checked"
    NO_GREAT_EXPECTATIONS = "ETC333", "Great Expectations is not installed"
    TABLE_MOVED_ON = "ETC334", "The table changed each time that its rows were compared"
    CANNOT_LISTEN = "ETC341", "The metrics' port cannot be used"
    CANNOT_WRITE_METRICS = "ETC342", "The metrics' file cannot be written"
    BAD_RUN_RESULTS = "ETC343", "The results of the last run cannot be read"
    CANNOT_WRITE_JUNIT = "ETC345", "The JUnit file cannot be written"
    NO_DEMO_DATA = "ETC390", "The demo's data is not installed"

    TIMELINE_KEEPS_CHANGING = "ETC401", "The timeline changed each time that it was read"
    STALE_PLAN = "ETC402", "The table has changed since the plan was made"
    TABLE_IN_USE = "ETC403", "Another `etc apply` is working on the table"
    RUN_IS_ALIVE = "ETC404", "A run of the pending compaction is alive"
    CANNOT_COMPACT_NOW = "ETC405", "The table cannot be compacted now"
    POLICY_IS_GONE = "ETC406", "A policy of the plan is gone"
    POLICY_CHANGED = "ETC407", "A policy was changed since the plan was made"
    OTHER_TABLE = "ETC408", "The policy's table is not that of the plan"
    CATALOG_FAILED = "ETC409", "The catalog did not answer"
    WAIT_TIMED_OUT = "ETC410", "The wait ran out"
    WAIT_TOO_SHORT = "ETC411", "No wait of this length can be enough"
    VERIFICATION_FAILED = "ETC412", "A table did not pass its verification"
    LOCK_IS_HELD = "ETC414", "Another process holds the table's lock or heartbeat"
    OVERTAKEN = "ETC415", "A writer added to a file slice of which deletes were being compacted"
    WRITTEN_BESIDE = "ETC416", "A writer began while deletes were being committed"

    CANNOT_READ_PLAN = "ETC601", "The plan file cannot be read"
    NOT_A_PLAN = "ETC602", "Not a plan file of this version of etc"
    EDITED_PLAN = "ETC603", "The plan was edited"
    CANNOT_ASK = "ETC604", "Nobody can be asked"
    DEMO_REFUSED = "ETC605", "The demo cannot run in this project"
    NOTHING_TO_SYNC = "ETC606", "No selected policy has an RO table"
    NO_SITE = "ETC607", "There is no site in that folder"
    PORT_IN_USE = "ETC608", "The site's port cannot be used"
    UNREADABLE_RUN = "ETC611", "A kept run cannot be read"
    NEWER_RUN = "ETC612", "A kept run is of a newer etc"
