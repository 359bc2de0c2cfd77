"""Every kind of lie: one corruption of an honest table, chosen at random within its kind."""

from tests.lies import about_memory, about_table, about_writes

KINDS = (*about_writes.LIES, *about_table.LIES, *about_memory.LIES)
