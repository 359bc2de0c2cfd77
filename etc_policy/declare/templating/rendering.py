"""Carries out the templates of a YAML text before it is parsed.

Statements (`for`, `if`, `set`, `macro`) make text. What an expression gives never becomes YAML by itself: a placeholder
stands for it until the YAML is parsed, so a value can neither break nor add to the file's structure, keeps its type, and an
expression that fails matters only where its value is used (not in a comment).
"""

from __future__ import annotations

import os

from etc_policy.declare.templating.context import Context, File, MacroSource
from etc_policy.declare.templating.expansion import DRAWN, Expansion
from etc_policy.declare.templating.parser import Problem
from etc_policy.declare.templating.problems import (
    forbidden,
    problem_of,
)
from etc_policy.declare.templating.program import Program, compiled
from etc_policy.declare.templating.room import Room
from etc_policy.declare.templating.sandbox import SANDBOX
from etc_policy.declare.templating.shape import shape_of, unified


def expand(source: str, context: Context) -> Expansion:
    """The text with its templates carried out; every fault is in the result, none is raised."""
    source = unified(source)
    expansion = Expansion(source, os.urandom(DRAWN))
    with context.budget:
        room: Room | None = None
        try:
            context.budget.require_time()
            file, problems = _read(source)
            for offset, problem in problems:
                expansion.record(offset, problem)
            context.budget.require_time()
            room = Room(context, file, expansion)
            for piece in room.run()[0]:
                expansion.add(piece)
        except Exception as error:
            offset = file.shape.offsets[room.tag] if room is not None and file.shape.offsets else 0
            expansion.record(offset, problem_of(error))
    return expansion


def read_macros(source: str) -> tuple[dict[str, MacroSource], list[Problem]]:
    """The macros of a file of macros, and what is wrong with it, by offset."""
    file, problems = _read(unified(source))
    shape, program = file.shape, file.program
    for kind, number in program.others:
        text = shape.texts[number].value if kind == "data" else "x"
        if not text.isspace():
            begin = shape.texts[number].offset if kind == "data" else shape.offsets[number]
            begin += len(text) - len(text.lstrip())
            hint = "write `{% macro name(argument) %}...{% endmacro %}`"
            problems.append((begin, forbidden("a file of macros holds macros alone", hint)))
            break
    return {name: MacroSource(shape.offsets[tag], file) for name, tag in program.macros.items()}, problems


def _read(source: str) -> tuple[File, list[Problem]]:
    """A file, and what is wrong with its tags, by offset."""
    shape = shape_of(source, SANDBOX.lexer)
    if shape.fatal is not None:
        return File(shape, Program()), [shape.fatal]
    program = compiled(shape.key)
    return File(shape, program), [
        (shape.offsets[tag] if shape.offsets else 0, found) for tag, found in program.problems
    ]
