"""One picture of the live table: a board as lines that fit a terminal's width and height.

A pure function of board, activities, time and size; rich lays out and colours, nothing is written
here. Texts are rich `Text`s, never markup, so that `[red]` in a summary is six characters. What
does not fit is left out, the least telling first: columns, then rows, which are counted instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Group
from rich.table import Table
from rich.text import Text

from orchestrator.core.base import TaskId
from orchestrator.core.usage import Usage
from orchestrator.observers.activity import NOTHING, Activity
from orchestrator.observers.board import NEEDS_YOU, Board, Row
from orchestrator.observers.cost import cache_share
from orchestrator.observers.summary import BAD, GOOD
from orchestrator.observers.text import dollars, duration, plural

TALL = 16
"""Lines from which on the table makes room for the longest chain and the newest failure."""
TASK_CELLS_MIN = 12
GAP = 2
DIM = "bright_black"
ODD = frozenset({"running", "paused", NEEDS_YOU})
URGENT = frozenset({"running", NEEDS_YOU, "failed"})

Activities = Mapping[TaskId, Activity]


@dataclass(frozen=True, slots=True)
class _Column:
    """What a column shows, and from which width of the terminal on."""

    title: str
    from_width: int
    text: Callable[[Row, Activity, float], str]
    right: bool = False


_COLUMNS = (
    _Column("status", 0, lambda row, _doing, _now: row.status),
    _Column("task", 0, lambda row, _doing, _now: row.task),
    _Column("role", 106, lambda row, _doing, _now: row.role),
    _Column("try", 66, lambda row, _doing, _now: f"{row.attempt}" if row.attempt else "", True),
    _Column("time", 36, lambda row, _doing, now: _time(row, now), True),
    _Column("tokens", 116, lambda row, doing, _now: _tokens(row.usage + doing.usage), True),
    _Column("cost", 76, lambda row, doing, _now: _cost(row.usage + doing.usage), True),
    _Column("now, or result", 48, lambda row, doing, _now: _says(row, doing)),
)


def frame(board: Board, activities: Activities, now: float, width: int, height: int) -> Group:
    """The picture of `board` in at most `width` x `height` cells; one line at the very least.

    activities: what the agents of running tasks do. now: Unix seconds.
    """
    lines = [_heading(board, activities, now, width)]
    if board.status == "paused":
        lines += [_line(f"paused: {board.pause}", "yellow"), _line(f"go on:  {board.go_on}")]
    lines = lines[: max(1, height)]
    room = height - len(lines)
    below: list[Text] = []
    if height >= TALL:
        below = [*_longest_chain(board), *_failure(board)]
        room -= len(below)
    if board.rows and room > 0:
        shown, hidden = _fitting(board, room)
        left_out = [hidden] if hidden is not None else []
        table = [_table(shown, activities, now, width, head=room > 2)] if shown else []
        return Group(*lines, *table, *left_out, *below)
    return Group(*lines, *below)


def _heading(board: Board, activities: Activities, now: float, width: int) -> Text:
    """The run in one line: as many of its numbers as fit, the most telling first."""
    running = [row.task for row in board.rows if row.since is not None]  # others are in the board's
    spent = (activities[task].usage for task in running if task in activities)
    usage = sum(spent, board.usage)
    budget = board.budget
    idle = max(0.0, now - board.at) if board.status == "running" else 0.0
    minutes = f" of {duration(budget.minutes * 60)}" if budget.minutes is not None else ""
    limit = f" of {dollars(budget.usd)}" if budget.usd is not None else ""
    parts = [
        (f"{board.status} {duration(board.elapsed_s + idle)}{minutes}", _colour(board.status)),
        (f"{board.ended}/{board.total} done", ""),
        (f"{dollars(usage.usd)}{limit}", ""),
        (_cache_share(usage), ""),
        (f"{board.replans} of {plural(budget.replans, 'replan')}" if board.replans else "", ""),
        (_tokens(usage) and f"{_tokens(usage)} tokens", ""),
        (board.run, DIM),
    ]
    text = _line("")
    for part, style in parts:
        gap = "  " if text.plain else ""
        if part and (not text.plain or text.cell_len + len(gap) + cell_len(part) <= width):
            text.append(gap).append(part, style)
    return text


def _fitting(board: Board, room: int) -> tuple[list[Row], Text | None]:
    """The rows for `room` lines, the head of the table among them, and what stands for the rest.

    When all fit they stand in plan order, and no row ever changes its place.
    """
    head = 1 if room > 2 else 0
    if len(board.rows) == board.total and board.total + head <= room:
        return sorted(board.rows, key=lambda row: row.index), None
    shown = [*board.rows[: max(0, room - head - 1)]]
    counts = dict(board.counts)
    for row in shown:
        status = "succeeded" if row.status == NEEDS_YOU else row.status
        counts[status] = counts.get(status, 0) - 1
    rest = ", ".join(f"{count:,} {status}" for status, count in counts.items() if count > 0)
    return shown, _line(f"and {rest}" if shown else rest, DIM)


def _table(rows: list[Row], activities: Activities, now: float, width: int, head: bool) -> Table:
    columns = [column for column in _COLUMNS if width >= column.from_width]
    table = Table(
        box=None,
        padding=(0, GAP, 0, 0),
        pad_edge=False,
        show_header=head,
        header_style=DIM,
        expand=columns[-1] is _COLUMNS[-1],
    )
    for column in columns:
        table.add_column(
            Text(column.title),
            justify="right" if column.right else "left",
            no_wrap=True,
            overflow="ellipsis",
            max_width=max(TASK_CELLS_MIN, width // 4) if column.title == "task" else None,
            ratio=1 if column is _COLUMNS[-1] else None,
        )
    for row in rows:
        doing = activities.get(row.task, NOTHING)
        cells = [Text(column.text(row, doing, now)) for column in columns]
        cells[0].stylize(_colour(row.status))
        table.add_row(*cells, style=DIM if row.status not in URGENT else None)
    return table


def _longest_chain(board: Board) -> Iterator[Text]:
    if board.chain_tasks > 1:
        more = " > ..." if board.chain_tasks > len(board.chain) else ""
        names = " > ".join(board.chain)
        yield _line(f"longest chain left, {board.chain_tasks} tasks: {names}{more}", DIM)


def _failure(board: Board) -> Iterator[Text]:
    if board.trouble:
        yield _line(board.trouble, "red")
        yield from (_line(f"| {line}") for line in board.tail)


def _line(text: str, style: str = "") -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ellipsis")


def _colour(status: str) -> str:
    """The style of a status, as in the summary."""
    if status in GOOD:
        return "green"
    if status in BAD:
        return "red"
    return "yellow" if status in ODD else ""


def _time(row: Row, now: float) -> str:
    running = max(0.0, now - row.since) if row.since is not None else 0.0
    return duration(row.usage.seconds + running) if row.attempt else ""


def _tokens(usage: Usage) -> str:
    return f"{usage.tokens:,}" if usage.tokens else ""


def _cost(usage: Usage) -> str:
    return dollars(usage.usd) if usage.calls else ""


def _says(row: Row, doing: Activity) -> str:
    """What an agent does, else what the board says of the task."""
    if row.since is None or not row.role:
        return row.text
    if not doing.text:
        return "thinks" if doing.usage.calls else "starts"
    return f"thinks after {doing.text}" if doing.thinking else doing.text


def _cache_share(usage: Usage) -> str:
    """How much of all prompts came from the cache; empty before there was one."""
    share = cache_share(usage)
    return f"cache {share:.0%}" if share is not None else ""
