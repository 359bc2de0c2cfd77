"""What the codes of a project's files mean at length."""

from __future__ import annotations

from collections.abc import Mapping

from etc_policy.errors.codes import Code

#: Code -> why it is an error and what to do; the summary is the code's own.
PROJECT_FILES: Mapping[Code, str] = {
    Code.NO_POLICIES: "A project is a folder with `policies/` in it, which holds at least one `.yml` or `.yaml` file.\n"
    "Begin one with `etc init DIR`, or name the folder by `--project-dir DIR`.",
    Code.UNREADABLE: "The file or folder is there, but the system does not let it be read, or it is not a regular file\n"
    "(a pipe, a device). Look at its permissions with `ls -l`.",
    Code.LEAVES_PROJECT: "Only files inside the project are read: a link or folder that leads out of it is refused, so\n"
    "that a policy file cannot show what it should not. Copy the file into the project.",
    Code.TOO_BIG: "Files have at most 1 MiB and 200,000 values, expressions take a bounded time, and texts and\n"
    "lists in them are bounded too, so that no file can hang a scheduler. Split the file, or shorten its lists.",
    Code.NOT_UTF8: "Policy files are UTF-8. Save the file as UTF-8; most editors offer it under `Save with encoding`.",
    Code.SYNTAX: "YAML cannot read the file. The place is where reading stopped; the cause is often the line before: an\n"
    "indent, a quote that is not closed, `: ` or `#` in text without quotes.",
    Code.DUPLICATE_KEY: "One of two equal keys would silently win. Remove one of them.",
    Code.FORBIDDEN_YAML: "Policies are plain mappings, lists, texts and numbers: no tags (`!!python/...`), no second\n"
    "document in a file, no keys that are lists.",
    Code.TWO_FILES: "The project's file, templates and suites are known by their names without the ending, which is `.yml` or\n"
    "`.yaml`. Of two that differ in the ending alone one would silently be ignored. Join them in one file.",
    Code.UNKNOWN_KEY: "The key is not one of those that are allowed here, so it would have no effect. `etc schema policy`\n"
    "prints all keys; an editor that reads the schema completes them.",
    Code.MISSING_KEY: "A policy needs `name`, `table`, `event_time_column` and `data_latency`. All but the first two may\n"
    "also come from a template (`extends:`) or from a folder's defaults in etc_project.yml.",
    Code.WRONG_TYPE: "The value is of another kind than the key takes: text where a list belongs, a number where text\n"
    "belongs. In YAML quotes make a number or `true` a text, and `[a, b]` is a list.",
    Code.WRONG_CHOICE: "The key takes one of a few words. They are listed in the message.",
    Code.BAD_NAME: "Names begin with a lower-case letter and go on with lower-case letters, digits, `_` and `-`, at most\n"
    "100 of them: they become names of files and of metrics.",
    Code.EMPTY: "The key is there, but its text is empty. Give it a value, or remove the key.",
    Code.BAD_DURATION: "Durations have units: `45s`, `30m`, `1h30m`, `2d`, `1w`, or ISO 8601 such as `PT30M`.",
    Code.BAD_SIZE: "Sizes have units: `128 MiB` (1024-based), `128 MB` (1000-based), or are whole bytes.",
    Code.TEMPLATE_SYNTAX: "Jinja cannot read or carry out this. An expression is written between `{{` and `}}`, inside of one\n"
    "value: one that begins with `{{` is in quotes. `{% if %}` and `{% for %}` are allowed inside of a value, with their ends.",
    Code.TEMPLATE_FORBIDDEN: "Expressions may not reach Python's objects, files or functions, and make no YAML. They may use\n"
    "`var`, `env_var`, `target`, `each`, and Jinja's own filters and tests; docs/reference/templates.md lists what is left out.",
    Code.UNKNOWN_VARIABLE: "The name has no value here. Variables are set under `vars:` in the file or in etc_project.yml;\n"
    "environment variables are exported; both take a default: var('name', 'default').",
    Code.BAD_FOR_EACH: "`for_each` makes one policy for each item of a list, each entry of a mapping, or each table whose\n"
    "folder a glob such as `lake/*` means (one with `.hoodie` in it, on this machine). `{{ each }}` is the item.",
    Code.UNKNOWN_TARGET: "`target:` names the target that a profile uses without `--target`; it must be one of `targets:`.",
    Code.WRONG_VERSION: "`require_etc` in etc_project.yml says which versions of etc the project works with, written as\n"
    'pip writes them: ">=0.1,<1".',
    Code.UNUSED_DEFAULTS: "`policies:` in etc_project.yml names a folder or file that does not exist below `policies/`, so\n"
    "its defaults apply to nothing.",
    Code.UNKNOWN_TEMPLATE: "`extends: hourly` takes what the policy does not set from `templates/hourly.yml`, which begins\n"
    "with `version: 1` and `template:`.",
    Code.TEMPLATE_CIRCLE: "Templates may extend others, but not each other in a circle.",
    Code.DUPLICATE_POLICY: "Selections, plans and reports know a policy by its name, so names are unique in the project.",
    Code.SHARED_TABLE: "Two policies would compact one table against each other. Keep one, or disable one.",
    Code.BAD_TABLE: "A table is a base path, a URI such as `file:///mnt/lake/orders`, or `db.table` of the Spark catalog.",
    Code.TARGET_TOO_SHORT: "RO is complete up to now minus `data_latency` at best: events that old may still arrive. So a\n"
    "freshness limit below `data_latency` can never be met. Where it is known how often runs come (`strategy.every`,\n"
    "`--every`) neither can a target that equals it.",
    Code.FRESHNESS_ORDER: "`warn_after` comes before `error_after`, which is not shorter than `target`.",
    Code.LIMIT_WITHOUT_EFFECT: "Beyond `target` a table is a warning, and without `error_after` an error. A `warn_after` that\n"
    "is not shorter changes nothing: give one below the target to be warned before it is missed, or an `error_after`.",
    Code.UNIT_AND_FORMAT: "`unit` is for integer columns (s, ms, us since 1970), `format` for text columns. A column is one\n"
    "of the two; a `timestamp` column needs neither.",
    Code.BAD_FORMAT: "`format` is a pattern of Spark, such as `yyyy-MM-dd HH:mm:ss`, with year, month and day.",
    Code.RESERVED_OPTION: "Compaction is correct only with etc's own values of these options, or the policy has a\n"
    "key of its own for them. See the hint.",
    Code.NOT_AN_OPTION: "Only options that begin with `hoodie.` are passed to Hudi; lock options go to `writer.lock`.",
    Code.UNKNOWN_SUITE: "`verify.suite` names a suite of expectations: one that is shipped, or `suites/<name>.yml`.",
    Code.NO_TIME_TO_COMPACT: "A target equal to `data_latency` leaves no time between an event's last moment to arrive and\n"
    "the moment at which RO must have it. Add the time between two runs, and that of a run: with `strategy.every: 5m`, a\n"
    "`data_latency` of 30m and runs of 2m the target is 37m at least.",
    Code.INTERVAL_WITHOUT_TARGET: "`strategy.every` says how often runs come, so that a slice can wait until its oldest event\n"
    "would break `freshness.target`. Without a target nothing waits, and the interval does nothing.",
    Code.WRITER_COMPACTS: "While the writers compact on their own, what RO holds is not what this policy says. Give them the\n"
    "options that `etc compile` writes, then set `writer.compaction: none`.",
    Code.BAD_RO_TABLE: "The read-optimized view is known to the catalog as `db.table`. The name here cannot be one: see the\n"
    "message for what it must be.",
    Code.NOT_A_WHOLE_NUMBER: "Planning reads this option of Hudi, so it must be a whole number, as Hudi itself wants it.",
    Code.LOCK_WITHOUT_EXPIRY: "Hudi's file-system lock is a file. A writer that dies while it holds the lock leaves the\n"
    "file, and without `hoodie.write.lock.filesystem.expire` (minutes) everybody waits until somebody removes it by hand.\n"
    "`etc` removes only what its own runs have left. Give the writers and the policy an expiry longer than any commit.",
    Code.LOCK_IN_PROCESS: "`InProcessLockProvider` is a lock inside one Java process. Neither `etc` nor a writer in\n"
    "another process sees it, so it keeps nobody away, and `etc` does not take it. Remove it where there is one writer; else\n"
    "declare the lock that all writers take: ZooKeeper, DynamoDB, the Hive metastore, or a file with an expiry.",
    Code.SYMLINKS_DANGLE: "On table version 6 the log files that stay get a second name in the new slice. A symbolic link leads\n"
    "to the old file, which Hudi's cleaner removes some commits later: from then on RT fails or lacks rows. A hard link and a\n"
    "copy outlive it.",
    Code.NOT_OF_STRATEGY: "Each `strategy.type` has keys of its own. `event_time` has `granularity`, `partitions`, `max_io`,\n"
    "`every` and `carry`. The types that are named after strategies of Hudi choose whole file slices as Hudi does, and have\n"
    "what Hudi has an option for: `target_io` (`bounded_io`, `log_file_size`, `log_file_num`, `day_based`), `min_log_size`\n"
    "(`log_file_size`), `min_log_files` (`log_file_num`), `latest_partitions` (`day_based`), `regex` (`partition_regex`, which\n"
    "needs it). `unbounded` has none. A key may come from a template or from the defaults of a folder: the place says which.",
    Code.OPEN_QUESTION: "`etc import` writes what it cannot know about a table as a question: a comment that begins with `# ?`,\n"
    "above a possible answer. Uncomment the answer, or write another one, and take away the `?`. Until then the\n"
    "policies of the file take part in no run; those of other files do.",
    Code.CHANGED_SECRET: "What `hudi_options` and locks take from `env_var` may be a secret, so files that etc writes keep the\n"
    "reference `{{ env_var('NAME') }}`, and the engine alone gets the value. There is no reference to a value that a filter\n"
    "(`upper`, `trim`, `replace`, `int`) or a sum has changed. Take the variable as it is, alone or with text round it.",
}  # fmt: skip
