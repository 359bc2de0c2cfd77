"""What the codes of commands, tables and engines mean at length."""

from __future__ import annotations

from collections.abc import Mapping

from etc_policy.errors.codes import Code

#: Code -> what happened and what to do; the summary is the code's own.
RUNNING: Mapping[Code, str] = {
    Code.USAGE: "The message says which word of the command line does not fit. `etc COMMAND --help` shows what "
    "the command takes.",
    Code.UNKNOWN_POLICY: "`etc ls` lists the policies. A disabled policy (`enabled: false`) cannot be selected.",
    Code.CANNOT_WRITE: "The folder does not exist, is not writable, or the disk is full. Name another place by "
    "the option in the hint. Where it is the record of a run, the report has all that was done and found.",
    Code.ALREADY_THERE: "Nothing was written. Name an empty folder, or remove the file that the message names.",
    Code.NO_SUCH_TARGET: "`--target` and ETC_TARGET name one of `targets:` of the project's profile in "
    "etc_project.yml.",
    Code.BAD_SELECTION: "`--select` takes names, globs, `tag:`, `path:`, `strategy:` and `state:`; spaces "
    "unite, commas intersect. An empty one, mostly a variable that is not set, does not mean every policy; an empty "
    "`--exclude` leaves none out. Terms that select no policy at all are a mistake: mostly a comma, which keeps only what all of "
    "its parts select, where a space was meant. It is no mistake if nothing has changed (`state:`): the command does nothing.",
    Code.BAD_STATE: "`--state DIR` names a folder with the manifest.json that `etc compile` wrote, by this "
    "version of etc or an older one, for the same target and with the same `--vars`.",
    Code.UNEXPECTED: "This is a bug in etc. Report it with what `--debug` prints; no data of a table are lost.",
    Code.NO_TABLE: "The folder does not exist. Check `table` in the policy, and `table_root` of the target.",
    Code.NOT_HUDI: "It has no .hoodie/hoodie.properties. A table begins to exist with its first write.",
    Code.NOT_MERGE_ON_READ: "Only merge-on-read tables have log files to compact; both views of a "
    "copy-on-write table are the same.",
    Code.BOOTSTRAP_TABLE: "Tables that point at files outside of them are not supported.",
    Code.TABLE_VERSION: "Table versions 6, 8 and 9 are known. A later one may lay out its files in another "
    "way: use a newer etc.",
    Code.TIMELINE_LAYOUT: "Timeline layouts 1 and 2 are known. Use a newer etc.",
    Code.NOT_LOCAL: "Tables on local disk, on a mounted folder, on HDFS and on object stores (`s3://`, `s3a://`, `gs://`, "
    "`abfs://`) can be read. `etc repair` works on local disk and mounted folders alone.",
    Code.DAMAGED_TIMELINE: "It is missing, empty or damaged. Restore it from a copy, or let Hudi's own tools "
    "repair the table. An empty file of a commit is what Hudi 0.x leaves when it is killed while it writes it, and it reads the "
    "file as a commit that wrote nothing. If the commit is a compaction that etc planned, run `etc apply`: it begins the "
    "compaction anew. For another write stop all writers and look that nothing was compacted or cleaned since, then "
    "remove the empty file: Hudi rolls the write back. Its writer never reported it as done.",
    Code.NO_EVENT_TIME_COLUMN: "`event_time_column` must be a column of the table's newest schema; the hint "
    "lists its columns.",
    Code.NEEDS_PYARROW: "Install the extra `spark`, or pyarrow itself.",
    Code.UNKNOWN_CATALOG_TABLE: "`table` is a `db.table` of the catalog that the target names. Check both, or "
    "give the base path instead.",
    Code.NOT_A_TIME_COLUMN: "Timestamps, dates, integers (with `unit`) and text (with `format`) can.",
    Code.CANNOT_READ_TABLE: "The system's own message is shown below the error: mostly permissions, or a mount that is gone.",
    Code.UNNAMED_ZONE: "The table's instants are in local time, and this machine does not name its zone. Set "
    "TZ to the zone of the table's writers.",
    Code.DAMAGED_PROPERTIES: "A writer died while it changed the file, or it was edited. Any write by Hudi "
    "restores it from its backup; else restore it from a copy.",
    Code.UNKNOWN_METADATA: "It may come from a later version of Hudi, or be damaged; the hint says what was found.",
    Code.NO_RO_TABLE: "`sync.ro_table` names a table that the catalog does not have. Hudi's own hive sync, or "
    "CREATE TABLE, makes it.",
    Code.SUITE_REPLACED: "A project may have a suite of a shipped one's name, which then counts instead: also for policies\n"
    "without `verify.suite`, if it is `ro_complete`. What the shipped one checks is checked no more, but for the checks that\n"
    "are always made. Give it another name and name that in the policies, or in `policies: {+verify: {suite: NAME}}` for all.",
    Code.BAD_SUITE: "`suites/<name>.yml` has a list of expectations, each with `type` and `kwargs`.",
    Code.UNKNOWN_PARAMETER: "The parameters are listed in the hint and in docs/how-to/verify.md.",
    Code.PARAMETER_WITHOUT_VALUE: "The run that is verified does not give it a value; the message names what "
    "to use instead.",
    Code.UNKNOWN_EXPECTATION: "It must be one of Great Expectations' or of etc's own; the hint names the nearest.",
    Code.BAD_ARGUMENTS: "The message names the argument and what it takes.",
    Code.UNKNOWN_COLUMN: "The hint lists the table's columns.",
    Code.BAD_CONDITION: "It may use partition columns alone, in Spark SQL.",
    Code.NO_TIMES: "Use a timestamp, a date, an integer (with `unit`) or a string (with `format`).",
    Code.UNREADABLE_TIMES: "The message shows one of them. Set `unit` or `format` in `event_time_column`, or "
    "mend the rows.",
    Code.MISSING_TIME_COLUMN: "The table's rows lack the column of the policy; the hint lists the columns.",
    Code.NO_META_COLUMNS: "`hoodie.populate.meta.fields` is false, so rows cannot be compared by key. Set "
    "`verify.level: logs` (or `metadata`), which needs no rows.",
    Code.TOO_LARGE: "Metadata is read whole, and no honest file of it is so large. The file is damaged, or it was put\n"
    "there to exhaust the machine. Other tables are not affected.",
    Code.TABLE_FAILED: "What the table holds could not be worked with, or the file that the message names could not be used.\n"
    "Other tables are not affected. If the table and that file are sound, this is an error in etc: run again with `--debug`\n"
    "for the stack, and report it.",
    Code.FOREIGN_PLAN: "Every writer of the table can write to its timeline. The plan, one of its markers or a rollback of it\n"
    "names a file that is not the table's, or in a form that etc never writes: Hudi would read, write or remove what it\n"
    "names. Nothing was touched. Look at who may write to the table. When no writer is at work, remove the pending\n"
    "`<instant>.compaction.*` from the timeline and `.hoodie/.temp/<instant>` by hand.",
    Code.NO_JAVA: "Spark needs Java. The extra `local` brings one; a Java of your own is found by JAVA_HOME or "
    "on PATH.",
    Code.NO_PYSPARK: "Install the extra `spark` (on a cluster), or `local` (with a Java).",
    Code.SPARK_DID_NOT_START: "Spark's first messages are shown below the error, all of them are in target/spark.log. "
    "`etc debug --spark` checks the parts one by one.",
    Code.NO_MASTER: "No master of the cluster takes a connection, or it did not answer in time. Nothing was changed. Check "
    "`spark.master` of the target, and the network. The target's `spark.timeout` is how long it may take (5m).",
    Code.NO_EXECUTOR: "The cluster has no worker with enough free cores and memory, its queue is full, or it took every "
    "executor away during the run. Nothing is lost: the next `etc apply` finishes or rolls back what was begun. The "
    "target's `spark.timeout` is how long `etc` waits (5m); `spark.executor.memory` and `spark.executor.cores` are what "
    "it asks for.",
    Code.NOT_SUBMITTED: "spark-submit is missing, or it ended before the job could report; its own messages are above. "
    "Nothing was changed, or the next `etc apply` finishes it.",
    Code.HUDI_FAILED: "Its causes are below the message, the root first: mend what that names. Where records could not be\n"
    "written, the reason of each is in the logs of Spark's executors (on one machine in target/spark.log): search them\n"
    "for `Error writing record`. Nothing is lost: the next `etc apply` finishes or rolls back what was begun.",
    Code.COMPLETED_ELSEWHERE: "This run commits nothing: the table is as the other run left it. Check it with "
    "`etc verify`.",
    Code.NOT_ON_THE_TIMELINE: "Run `etc apply` again: it re-reads the table. If this happens again, report it.",
    Code.RUN_TAKEN_OVER: "It lost its lease, its heartbeat or its files, mostly because the machine stalled. "
    "Run `etc apply` again.",
    Code.NO_COLUMN_STATISTICS: "Its causes are below the message. Plan without `--read-stats`: event times "
    "that are not known are compacted.",
    Code.CANNOT_LOCK: "etc keeps a lease in `.hoodie/.etc` of the table: the folder must be writable, and its "
    "file system must keep locks and have hard links. A mounted bucket has neither: name the table by its location in the store.",
    Code.ALREADY_COMPLETED: "Nothing needs to be done: check it with `etc verify`.",
    Code.MISSING_SECRET: "`hudi_options`, a lock or a Spark setting takes it from `env_var`. Export it where "
    "`etc` runs.",
    Code.LOG_FILES_ADDED: "Before table version 8: a writer has added log files to the slice that the plan begins. If the plan\n"
    "were removed, readers would lose the rows of the slice before it. `etc apply` finishes the plan. It cannot if a file that\n"
    "the plan compacts is gone. Then stop all writers and cleaning, and leave the plan and its files: readers see every row\n"
    "that is left. If you have a copy of the file, put it back. If a rollback removed it (a log file), its rows no longer\n"
    "belong to the table: make an empty file with its name, which Hudi reads as one without rows. Then run `etc apply`. In any\n"
    "other case write the rows of the snapshot view into a new table before you touch the plan.",
    Code.NOT_CARRIED: "The plan is published and nothing is lost: readers see every row. The system's own words are below the "
    "error: a full disk, or a file system without hard links where `strategy.carry` says `hard_link`. Make room, or set "
    "`carry: auto`; then `etc apply` goes on, or `etc undo` withdraws the plan.",
    Code.CARRIED_ALTERED: "Nothing was committed, and every row is still in the old slice. Look at who writes to the table's "
    "folder; `etc undo` removes the carried files with the plan.",
    Code.NOT_IN_COMMIT: "A stock compaction has carried out a plan of etc on a table of version 6, without recording the log "
    "files that stay. Readers that use the metadata table miss their rows. Stop all writers and cleaning, see "
    "docs/how-to/table-version-6.md, and switch the writers' own compaction off.",
    Code.CANNOT_CARRY: "Committing carried log files was measured with Hudi 1.2.0 and 0.15.0 alone. Name one of these "
    "bundles in the target, or set `granularity: file_slice`.",
    Code.UNFIT_BUNDLE: "Releases of Hudi merge the rows of a key in different ways, by payload, merge mode and table version. A "
    "compaction by another release than that of the readers changes rows for good, and no comparison of both views shows it. "
    "What was played is in docs/reference/bundles.md: name a release that is right there by ETC_HUDI_BUNDLE, or by `bundle` "
    "of the target. A pending plan waits until then. For a payload or a release that nobody has played, compact a copy of "
    "the table, and compare its snapshot view before and after, read as your readers read it; then declare the release in "
    "`writer.merges_tested_with`.",
    Code.CANNOT_RENAME: "The timeline has changed, or its folder cannot be written. Run `etc repair` again: it shows what is "
    "left. A file that is already renamed is right.",
    Code.METADATA_NOT_BUILT: "Hudi's own message is shown below the error. The table is readable without its metadata table; run "
    "`etc repair` again, it does that step once more.",
    Code.NOT_REPAIRED: "Its steps are done, and another one is needed now. Run `etc repair` again.",
    Code.OTHER_ENGINE_TIME: "Java's clock or zone is not the one in which etc reads the table's instants; what it "
    "would write could hide rows. Nothing was written. Run etc, and its Spark, with `TZ` set to the zone of the table's writers.",
    Code.COMPLETED_TOO_EARLY: "The clock was set back, or its zone changed, since the plan was made: readers would miss "
    "what the compaction merged. Nothing was committed; `etc apply` finishes it once the clock is right.",
    Code.CANNOT_READ_VIEW: "Spark's own message is shown below the error. `etc verify --level metadata` says "
    "whether a file is missing or damaged. Where a plain read fails too, every Spark that reads the table meets it: etc then "
    "reads the view as of right before its last compaction, and the message says whether that works. "
    "Level `logs` reads no views.",
    Code.NOTHING_CHECKED: "The engine's own message is shown below the error. The table counts as not verified.",
    Code.NO_GREAT_EXPECTATIONS: "Install the extra `spark`, or set `verify.level: metadata`.",
    Code.TABLE_MOVED_ON: "Verify again between two commits.",
    Code.CANNOT_LISTEN: "Another program listens on it, or the address is not one of this machine. Choose "
    "another `--port` or `--address`.",
    Code.CANNOT_WRITE_METRICS: "Name a folder that exists and is writable, such as node_exporter's textfile folder.",
    Code.BAD_RUN_RESULTS: "target/run_results.json is damaged or from a newer etc. Delete it, or run `etc apply`.",
    Code.CANNOT_WRITE_JUNIT: "Name another place by `--junit-xml`.",
    Code.TARGET_DIR_OUTSIDE: "`target` in the project, or the site's folder in it, is a link, so whoever wrote the "
    "project would choose what is overwritten. Name the folder by `--target-dir` or `--out` if it is yours.",
    Code.CANNOT_PRINT: "It is closed, or the disk that it is redirected to is full. What the command had already done is done.",
    Code.SEVERAL: "Programs that use `Project` meet it: `errors` of the exception has each table's error with its own code, and\n"
    "`report` what was done for the others. The command line prints each by itself.",
    Code.NO_DEMO_DATA: "Install the extra `local`.",
    Code.TIMELINE_KEEPS_CHANGING: "Busy writers archive it. Run the command again.",
    Code.STALE_PLAN: "Nothing was touched. Plan again; `etc apply` without a file does so by itself.",
    Code.TABLE_IN_USE: "Wait for it to end, then run this again.",
    Code.RUN_IS_ALIVE: "It goes on writing. Wait for it to end, then run this again.",
    Code.CANNOT_COMPACT_NOW: "The message says why and the hint what to do. A write in flight passes by itself, and so does "
    "the clock-skew bound after a write, which etc has waited for once. "
    "A write that has failed can stay in flight for as long as its process lives: Hudi keeps the "
    "heartbeat of a failed delete fresh, and its own cleaning waits for it too. If writes that began later complete and the one "
    "in the message does not, look at that writer's log, and end or restart its process: `etc apply` goes on within three "
    "minutes, and the next write rolls the failed one back. "
    "A pending compaction, log compaction or clustering passes when somebody carries it out: "
    "its own engine, or `etc finish --select NAME`. A table version, a damaged file or a wrong clock does not pass.",
    Code.POLICY_IS_GONE: "The plan was made for a policy that the project no longer has. Plan again.",
    Code.POLICY_CHANGED: "The message lists what changed, or says that the policy is disabled. Plan again.",
    Code.OTHER_TABLE: "The target or the catalog names another base path now. Plan again.",
    Code.CATALOG_FAILED: "Its own message is shown below the error. The table itself is unharmed: run `etc sync` when "
    "the catalog answers.",
    Code.NOT_TOLD: "A program of `done` failed, or nobody answered over HTTP; the message has the first reason. The compaction "
    "is done and stays. What was not told is kept beside the table, and the next `etc apply` tells it, with the same id.",
    Code.BAD_DONE_RECORD: "`.hoodie/.etc/done.json` of the table is not as etc wrote it, so nobody knows who was told of what. "
    "Without the file each partition that is done is told once more.",
    Code.WAIT_TIMED_OUT: "RO is not complete up to the wanted time yet; the message says how far it is.",
    Code.WAIT_TOO_SHORT: "RO is complete up to now minus `data_latency` at best. Wait longer, or for an earlier time.",
    Code.WAIT_IN_VAIN: "The message says what keeps anybody from knowing it: a table version that is not supported, a data file "
    "that is missing or damaged, a time that cannot be true. None of these passes by itself; see the hint.",
    Code.VERIFICATION_FAILED: "The compaction is done; what RO holds is not what was promised. The report "
    "names each check; see docs/how-to/verify.md.",
    Code.OVERTAKEN: "Nothing was committed: a key that was deleted and written again could exist twice, or an ALTER TABLE came\n"
    "between, and Hudi would have merged by the schema of before. Plan again when the writers are idle; `etc apply` without a\n"
    "file does so by itself, and leaves out what is written to again. A compaction that somebody else has scheduled before an\n"
    "ALTER TABLE loses the values of renamed columns when it is carried out, by etc or by Hudi. Read them first, from the\n"
    "snapshot view and with schema on read.",
    Code.WRITTEN_BESIDE: "What it wrote is compacted at once where the plan may be made again. This says that it may not, or\n"
    "that others wrote in the meantime: a key can exist twice after its next upsert. Run `etc apply` again before that.\n"
    "Let the writers use a lock, and name it in `writer.lock`.",
    Code.PLAN_FROM_THE_FUTURE: "The machine that planned, or this one, has a wrong clock. Nothing was touched. Set the "
    "clocks right and plan again.",
    Code.LOCK_IS_HELD: "Run this again; if nobody else is at work, compare `writer.lock` with what the writers use.",
    Code.STALE_REPAIR: "Exactly what was shown is done, or nothing. Run `etc repair` again.",
    Code.CANNOT_REPAIR: "A writer may be alive, the true time of a commit cannot be known, or it is archived: the message "
    "says which, and the hint what can be done. See docs/how-to/repair.md.",
    Code.LOCK_NOT_GIVEN_BACK: "Somebody held the lock file for longer than `writer.lock_wait`. What a run of etc\n"
    "left behind is removed by the next run. A writer's lock is not, as that writer\n"
    "may still be alive: see the hint.",
    Code.LOCK_LOST: "The lock file was removed, by its expiry or by hand, and another process has made it since. Nothing was\n"
    "committed. Run `etc apply` again, and give the lock an expiry longer than any commit.",
    Code.MALFORMED_PLAN: "A plan's id is right, but an instant, a time or a zone in it has not the form that etc "
    "writes, so somebody made it by hand. Nothing was touched. Save a new plan, and keep plans where only the job that "
    "makes them can write.",
    Code.PLAN_NOT_DERIVED: "A saved plan is made again from the table as it was seen, and only carried out if both are "
    "equal. Where the table did not change, the plan file was changed after it was made. Where it did (archiving, a "
    "rollback), plan again.",
    Code.BEHIND_A_LINK: "A partition of the table is a link, or one was put there. Nothing was removed, and the plan is still "
    "pending. Let the folder lie where the link is, then run the command again.",
    Code.PROOF_NOT_MADE: "`freshness.proof` makes a table without such a proof `unknown`. What `etc apply` verifies is "
    "declared in `verify`: with a lower level, or for `data` with `window` or `where`, no run makes that proof.",
    Code.WRONG_EVENT_TIMES: "The writer's tracking recorded a later smallest event time than the file holds: Hudi silently drops "
    "values without 10 or 13 digits, and anybody who can write to the timeline can change it. The table is `unknown` in "
    "`etc freshness` until the file is compacted. The next `etc apply` takes the true time. If this happens again, set "
    "`event_time_column: {column: ..., trust_commit_metadata: false}`: log files are then read instead.",
    Code.STORE_UNREACHABLE: "It refused the connection, took too long, or said that it is too busy, at every try within "
    "`storage.timeout`. Nothing was lost: run the command again.",
    Code.NO_BUCKET: "The store answers, and has no bucket of that name. Check `table` in the policy, and `table_root` and "
    "`storage.endpoint` of the target.",
    Code.STORE_REFUSES: "Mostly keys that are wrong, have expired, or may not do this; or the clock or the region is wrong. The "
    "store's own words are below the error.",
    Code.NO_STORE_KEYS: "Keys come from the environment and from profile files; from the role of the machine only where "
    "the target declares `storage: {instance_role: true}`. See docs/how-to/object-stores.md.",
    Code.NEEDS_OBSTORE: "Install the extra `object-stores`.",
    Code.NO_CONDITIONAL_PUT: "Publishing a plan and the lease of a run rest on conditional writes that exactly one writer "
    "wins. This store ignores the condition, or checks it before it writes. Nothing of the table was changed.",
    Code.HDFS_UNREACHABLE: "The NameNode refused the connection, took longer than `storage.timeout`, or said that it is "
    "starting, failing over or has too few DataNodes. Nothing was lost: run the command again.",
    Code.HDFS_REFUSES: "Mostly permissions of the user in whose name `etc` works; the cluster's own words are below the error.",
    Code.NO_NAMENODE: "A nameservice is declared in hdfs-site.xml: HADOOP_CONF_DIR, or HADOOP_HOME, must lead to it. "
    "See docs/how-to/hdfs.md.",
    Code.NEEDS_HDFS_NATIVE: "Install the extra `hdfs`.",
    Code.CANNOT_READ_PLAN: "Check the path; `etc plan --out FILE` writes one.",
    Code.NOT_A_PLAN: "Save a new one with `etc plan --out FILE`.",
    Code.EDITED_PLAN: "A plan is carried out exactly as it was made. Save a new one with `etc plan --out FILE`.",
    Code.CANNOT_ASK: "Standard input is not a terminal, or the output is JSON: add `--yes`, or apply a saved plan.",
    Code.DEMO_REFUSED: "The message says why. Run `etc demo` in a folder of its own.",
    Code.NOTHING_TO_SYNC: "Name it in the policy: `sync: {ro_table: lake.orders_ro}`.",
    Code.NO_SITE: "Run `etc docs generate` first.",
    Code.PORT_IN_USE: "Choose another `--port`.",
    Code.UNREADABLE_RUN: "A file in target/runs is damaged; it is left out. Delete it.",
    Code.NEWER_RUN: "It is left out. Upgrade etc to see it.",
}
