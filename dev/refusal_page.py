"""All reasons to refuse, made from the table of rules: for users in docs/how-to/refused.md, for maintainers in docs/rules.md."""

from __future__ import annotations

import inspect
import re

from dev.error_page import linked
from etc_policy.errors.codes import Code
from etc_policy.plan.rules import RULES, Rule, may_pass

_TABLE_HEAD = (
    "| reason | what it means, and what to do | who acts | exit code: run again? |",
    "|---|---|---|---|",
)


def render_refusals() -> str:
    """In the order in which a table is asked for them."""
    return "\n".join([*_TABLE_HEAD, *(row for rule in RULES if (row := _row(rule))), ""])


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


_FACTS = re.compile(r"(?:See )?\(?facts: (\w[\w-]+(?:, \w[\w-]+)*)\)?")


def render_rules() -> str:
    """What each rule looks for, with the facts that its docstring cites."""
    rows = (_rule_row(rule, inspect.getdoc(rule.check)) for rule in RULES if rule.check)
    return "\n".join(["| facts | looks for | row of `RULES` |", "|---|---|---|", *rows, ""])


def _rule_row(rule: Rule, about: str | None) -> str:
    facts = ", ".join(_FACTS.findall(about or ""))
    text = _FACTS.sub("", (about or "").partition("\n")[0]).replace(" .", ".").replace(" :", ":")
    return f"| {facts} | {text} | `{rule.code}` |"
