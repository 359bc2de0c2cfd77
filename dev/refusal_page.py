"""The page of refusals, made from the table of rules: docs/how-to/refused.md."""

from __future__ import annotations

from dev.error_page import linked
from etc_policy.errors.codes import Code
from etc_policy.plan.rules import RULES, Rule, may_pass

_HEAD = """# Why a plan refuses a table

`etc plan` refuses a table that must not be compacted now. It changes nothing, and still plans the other tables. Ask it why:

```sh
etc plan --explain --select orders_ro
```

The last lines, on stderr, name the reason and what to do:

```text
error[ETC405]: `orders_ro` cannot be compacted now (pending_service): a compaction at 20260101103000000 is pending (requested)
  --> policies/orders.yml:3:11 (policy `orders_ro`)

hint: if no job of yours is running it, `etc finish --select orders_ro` does
```

1. Do what the hint says.
2. If that is not enough, look up the word in brackets, or else the code, in [the table below](#all-reasons) or by `etc explain`.
   The plan itself, on stdout, does not have the word:

   ```sh
   etc explain pending_service
   ```

3. See what else is wrong with the table, and which jobs write and compact it:

   ```sh
   etc debug --select orders_ro
   ```

The [exit code](../reference/commands.md#exit-codes) says whether to try again. 4: run the same command again later. 3: somebody
must act first. 1: correct the policy. Over several tables it is the gravest: 3, then 1, then 4.
Where writers never pause the hint names what to declare; from the third refusal in a row also the process to end.

**Check**: `etc plan --select orders_ro` ends with exit code 0 and `0 refused`. Until then `etc freshness` shows how far RO lags.

## All reasons

A table that cannot be read is refused too, with the code of the error: see [all codes](../reference/errors.md#all-codes).

| reason | what it means, and what to do | who acts | exit code: run again? |
|---|---|---|---|"""


def render_refusals() -> str:
    """The whole page; the reasons are in the order in which a table is asked for them."""
    return "\n".join([_HEAD, *(row for rule in RULES if (row := _row(rule))), ""])


def _row(rule: Rule) -> str | None:
    """None for a rule that refuses no table."""
    code = next((known for known in Code if known == rule.code), None)
    if code is not None:
        name, means = (
            f"[{code}](../reference/errors.md#{code.lower()})",
            f"{code.summary}. {' '.join(code.text.split())}",
        )
        who, exit_code = code.ends.mended_by, code.ends.exit_code
    elif rule.means:
        name, means, who = f"`{rule.code}`", rule.means, rule.mended_by
        exit_code = 4 if may_pass(rule.code) else 3
    else:
        return None
    return f"| {name} | {linked(means)} | {who} | {exit_code}: {rule.passes.value} |"
