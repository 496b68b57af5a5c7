"""One page with charts of what the programs that measure have written by --json.

plot.py FILE.json OUT.html [--pictures FOLDER]

It draws by matplotlib, which scripts/bench plot installs. Charts are the same, byte for byte, each
time that they are drawn of the same figures.
"""

import argparse
import html
import json
import math
import re
import sys
from io import StringIO
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

INK, GRID, OTHER = "#1f2328", "#d8dee4", ("#94348c", (3, 3))
# Letters stay letters; ids in the file do not depend on the day.
matplotlib.rcParams.update({
    "svg.fonttype": "none", "svg.hashsalt": "wheelwork", "font.family": "sans-serif",
    "font.size": 9.75, "text.color": INK, "axes.edgecolor": GRID, "xtick.labelcolor": INK,
    "ytick.labelcolor": INK, "axes.spines.top": False, "axes.spines.right": False,
})

# How a subject is drawn in all charts: color, dashes of its curves. Greens are wheelwork's.
LOOKS = {
    "wheelwork": ("#116329", ()), "wheelwork-batch": ("#2f9e44", (6, 3)),
    "wheelwork-closure": ("#3c6e47", (4, 2)),
    "wheelwork-inline": ("#5a8a00", (2, 3)), "wheelwork-cores": ("#00796b", (9, 3)),
    "wheelwork-fine": ("#22998f", (4, 2)), "wheelwork-spin": ("#7a9400", (9, 3, 2, 3)),
    "wheelwork-future": ("#4f8a5b", (4, 4)), "wheelwork-executor": ("#3f7d20", (6, 3)),
    "wheelwork-ids": ("#1b7f79", (6, 3)), "wheelwork-delayqueue": ("#66801a", (6, 3)),
    "tokio": ("#1f5fbf", ()), "tokio-future": ("#5b8def", (6, 3)), "delayqueue": ("#d96c00", ()),
    "mutex-delayqueue": ("#9c4a00", (6, 3)), "hhwt": ("#c62828", ()), "pingora": ("#7b3fb3", ()),
    "async-io": ("#0b8fae", ()), "heap": ("#6b7280", ()), "btree": ("#8d6e63", ()),
    "netty": ("#d6246f", ()), "nexus-timer": ("#3949ab", ()), "bitwheel": ("#a67c00", ()),
    "unordered-list": ("#78909c", (6, 3)), "ordered-list": ("#455a64", (6, 3)),
    "one-wheel": ("#e0528d", (6, 3)), "hashed-wheel": ("#5d4037", (6, 3)),
    "linked-wheel": ("#000000", (6, 3)), "redb": ("#b34700", ()), "fjall": ("#1565c0", ()),
    "sqlite": ("#00838f", ()), "redis": ("#b71c1c", ()), "apalis": ("#6a1b9a", ()),
    "poller": ("#546e7a", ()), "graphile-worker": ("#ad1457", ()), "pg-boss": ("#283593", ()),
    "bullmq": ("#bf360c", ()), "tokio-cron": ("#2962ff", ()), "go": ("#0097a7", ()),
    "jdk25": ("#e65100", ()), "tokio-alt": ("#3f6fb5", (2, 3)), "asio": ("#4a148c", ()),
    "dpdk": ("#880e4f", ()), "tokio-alt-each": ("#5f8fd0", (9, 3)),
    "tokio-each": ("#2b4f9e", (4, 2)), "heap-each": ("#4b5563", (4, 2)),
    "wheelwork-wheel": ("#0b5d3b", (2, 2)),
}
assert len({color for color, _ in [*LOOKS.values(), OTHER]}) == len(LOOKS) + 1

OPS, PAIRS = "million operations a second", "million pairs a second"
KOPS, CPU = "thousand a second", "CPU, per cent of a core"
# Bars: workload, title, figure, unit, whether more is better.
BARS = [
    ("w1", "W1: arm, warm memory", "mops", OPS, True),
    ("w1-cold", "W1: arm, cold memory", "mops", OPS, True),
    ("w2", "W2: arm, cancel at once", "mops", PAIRS, True),
    ("w2b", "W2b: arm, cancel 1,000 inserts later", "mops", PAIRS, True),
    ("w3", "W3: cancel a random one, arm another", "mops", "million steps a second", True),
    ("w4", "W4: cancel all in random order", "mops", OPS, True),
    ("w5", "W5: lateness, p99", "late_ms_p99", "ms", False),
    ("w5b", "W5b: all due at one instant", "mops", "million tasks a second", True),
    ("w6", "W6: memory of a timer", "bytes_per_timer", "bytes", False),
    ("w7", "W7: idle", "wakeups_per_s", "wake-ups a second", False),
    ("w8", "W8: re-arm", "mops", OPS, True),
    ("w8", "W8: re-arm, cost", "cpu_s_per_mop", "CPU seconds for a million", False),
    ("w9", "W9: firing at random instants, each second", "cpu_us_per_fire",
     "us of CPU for a timer", False),
    ("w9-periodic", "W9: a period of a second", "cpu_us_per_fire", "us of CPU for a run", False),
    ("w9-instant", "W9: a period of a second, all at one instant", "cpu_us_per_fire",
     "us of CPU for a run", False),
    ("w10", "W10: time-outs answered after 50 ms, each second", "cpu_percent", CPU, False),
    ("w10-fast", "W10: answered after 5 ms, each second", "cpu_percent", CPU, False),
    ("w10-slow", "W10: answered after 500 ms, each second", "cpu_percent", CPU, False),
    ("w11", "W11: in flight, cancelled N inserts later", "mops", PAIRS, True),
    ("w11-other", "W11: in flight, cancelled by another thread", "mops", PAIRS, True),
    ("w11-random", "W11: in flight, a random one cancelled", "mops", PAIRS, True),
    ("floor", "Durable: the engine's own commit of one row, p50", "call_us_p50", "us", False),
    ("arm", "Durable: arm", "kops", KOPS, True),
    ("arm", "Durable: arm, p50", "call_us_p50", "us", False),
    ("arm", "Durable: arm, p99", "call_us_p99", "us", False),
    ("arm", "Durable: arm, written", "written_bytes", "bytes written for each", False),
    ("arm-bulk", "Durable: arm many", "kops", KOPS, True),
    ("pipelined", "Durable: arm, pipelined", "kops", KOPS, True),
    ("arm-cancel", "Durable: arm, 90 % cancelled 20,000 arms later", "kops", KOPS, True),
    ("arm-cancel", "Durable: arm and cancel, written", "written_bytes", "bytes written for each",
     False),
    ("fire-ack", "Durable: fire and acknowledge", "kops", KOPS, True),
    ("lateness", "Durable: lateness, p50", "late_ms_p50", "ms", False),
    ("lateness", "Durable: lateness, p99", "late_ms_p99", "ms", False),
    ("sweep", "Durable: longest call while sweeping, loading, firing", "with_ms_max", "ms", False),
    ("stored", "Durable: reopened, until the first overdue timer fires", "reopen_ms", "ms", False),
    ("stored", "Durable: killed and reopened, until the first overdue timer fires", "killed_ms",
     "ms", False),
    ("stored", "Durable: memory after opening", "rss_mb", "MB", False),
    ("stored", "Durable: memory in use", "used_rss_mb", "MB", False),
    ("killed", "Durable: a worker is killed, until another has fired all", "recovered_s", "s",
     False),
    ("resets", "A deadline that moves", "ns_per_reset", "ns", False),
    ("resets-paced", "A deadline that moves, by a fixed rate", "cpu_us_per_reset", "CPU us", False),
]
# What the number of a workload counts; of the others it is timers, and producers.
COUNTED = {
    "floor": "caller", "arm": "callers", "pipelined": "timers under way", "arm-cancel": "callers",
    "fire-ack": "timers", "lateness": "timers a second", "sweep": "timers", "stored": "timers",
    "killed": "timers", "arm-bulk": "process", "resets": "deadlines", "resets-paced": "deadlines",
}
# Cost on one thread by the number of timers.
GROWTH = {
    "w1": "W1", "w3": "W3", "insert": "The wheel alone, insert, used before",
    "insert-cold": "The wheel alone, insert, new",
    "cancel": "The wheel alone, cancel in random order", "fire": "The wheel alone, fire",
    "rearm": "The wheel alone, re-arm in random order",
    "churn": "The wheel alone, cancel a random one and insert another",
}
# Cache lines by the number of threads.
COHERENCE = {
    "coherence-arm": "Arm", "coherence-cancel": "Cancel",
    "coherence-pair": "Arm and cancel at once", "coherence-window": "Arm, cancel 1,000 arms later",
    "coherence-churn": "Cancel a random one, arm another", "coherence-rearm": "Re-arm a random one",
    "coherence-fire": "Arm and fire",
}
QUANTILES = ["p50", "p99", "p999", "max"]


def short(figure):
    """Three digits that count, and commas."""
    if figure == 0:
        return "0"
    digits = max(0, min(9, 2 - math.floor(math.log10(abs(figure)))))
    text = f"{figure:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def slug(text):
    return "-".join(re.findall("[a-z0-9]+", text.replace(",", "").lower()))


def is_ours(name):
    return name.startswith("wheelwork")


def drawing(height, title, unit):
    figure = Figure(figsize=(8.6, height / 100), dpi=100)
    figure.text(0.014, 1 - 22 / height, title, weight="bold")
    figure.text(0.014, 1 - 42 / height, unit)
    return figure


def svg(figure):
    text = StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    # Without the head of a file, so that it can stand in a page.
    return re.sub(r"(?s)^.*?(?=<svg)", "", text.getvalue()).replace(" \n", "\n")


def bars(title, unit, rows, name, is_log):
    """A bar for each subject, with a line from the least to the most, and the figures beside it."""
    height = 92 + 24 * len(rows)
    figure = drawing(height, title, unit + ("; logarithmic" if is_log else ""))
    left = (24 + 7.6 * max(len(row["subject"]) for row in rows)) / 860
    axes = figure.add_axes((left, 30 / height, 660 / 860 - left, 24 * len(rows) / height))
    if is_log:
        axes.set_xscale("log")
        least = min(value for row in rows for value in (row[name], row[name + "_min"]) if value > 0)
        axes.set_xlim(10 ** math.floor(math.log10(least * 0.8)),
                      1.1 * max(row[name + "_max"] for row in rows))
    for place, row in enumerate(rows):
        low, high = row[name + "_min"], row[name + "_max"]
        axes.barh(place, row[name], height=0.62, color=LOOKS.get(row["subject"], OTHER)[0])
        for color, width in (("white", 4), (INK, 1.5)):
            axes.plot([low, high], [place, place], color=color, linewidth=width * 0.72,
                      solid_capstyle="butt")
        axes.annotate(f"{short(row[name])}  ({short(low)} to {short(high)})", (1, place),
                      (14, 0), ("axes fraction", "data"), textcoords="offset points", va="center",
                      annotation_clip=False)
    axes.set_yticks(range(len(rows)), [row["subject"] for row in rows])
    for label in axes.get_yticklabels():
        label.set_weight("bold" if is_ours(label.get_text()) else "normal")
    axes.set_ylim(len(rows) - 0.5, -0.5)
    finish(axes, axes.xaxis)
    return svg(figure)


def finish(axes, axis):
    """Lines across the figures, and numbers as people write them."""
    axes.set_axisbelow(True)
    axis.grid(color=GRID)
    axis.set_major_formatter(FuncFormatter(lambda number, _: short(number)))
    axis.set_minor_formatter(NullFormatter())
    axes.tick_params(which="both", length=0)


def curves(title, unit, places, lines):
    """Curves over places, each with what stands below it; names stand where curves end."""
    lines = {name: [(x, y) for x, y in sorted(line) if y > 0] for name, line in lines.items()}
    lines = {name: line for name, line in lines.items() if line}
    if not lines:
        return None
    figure = drawing(480, title, unit + "; logarithmic")
    right = 1 - (48 + 7.6 * max(map(len, lines))) / 860
    axes = figure.add_axes((70 / 860, 34 / 480, right - 70 / 860, 384 / 480))
    axes.set_yscale("log")
    for name in sorted(lines, key=is_ours):
        color, dashes = LOOKS.get(name, OTHER)
        style = (0, dashes) if dashes else "-"
        axes.plot(*zip(*lines[name]), color=color, linestyle=style, marker="o", markersize=4,
                  linewidth=2.2 if is_ours(name) else 1.3)
    axes.set_xticks(*zip(*places))
    axes.xaxis.set_minor_locator(NullLocator())
    values = [y for line in lines.values() for _, y in line]
    axes.set_ylim(min(values) * 0.8, max(values) * 1.25)
    span = math.log10(max(values) / min(values))
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if span < 3 else (1,)))
    axes.grid(color=GRID)
    finish(axes, axes.yaxis)
    # From the top down, apart from each other, and within the picture.
    ends = sorted(lines, key=lambda name: -lines[name][-1][1])
    heights = [axes.transAxes.inverted().transform(axes.transData.transform(lines[name][-1]))[1]
               for name in ends]
    gap = 18 / 384
    for at in range(1, len(ends)):
        heights[at] = min(heights[at], heights[at - 1] - gap)
    heights[-1] = max(heights[-1], 0)
    for at in reversed(range(len(ends) - 1)):
        heights[at] = max(heights[at], heights[at + 1] + gap)
    for name, height in zip(ends, heights):
        color = LOOKS.get(name, OTHER)[0]
        axes.annotate(name, lines[name][-1], (1 + 30 / 700, height), textcoords="axes fraction",
                      va="center", color=color, weight="bold" if is_ours(name) else "normal",
                      annotation_clip=False, arrowprops={
                          "arrowstyle": "-", "color": color, "linewidth": 0.8, "shrinkA": 0,
                          "shrinkB": 4, "relpos": (0, 0.5)})
    return svg(figure)


def size(row):
    if row["workload"] in COUNTED:
        return f"{row['n']:,} {COUNTED[row['workload']]}"
    return f"{row['n']:,} timers, {row['threads']} producer{'s' if row['threads'] > 1 else ''}"


def groups(rows, workload):
    """The sizes and numbers of threads that a workload was measured with, each with its rows."""
    of = [row for row in rows if row["workload"] == workload]
    keys = sorted({(row["n"], row["threads"]) for row in of})
    return [[row for row in of if (row["n"], row["threads"]) == key] for key in keys]


def bar_charts(rows):
    for workload, title, name, unit, more in BARS:
        shown = [[row for row in group if name in row] for group in groups(rows, workload)]
        shown = [sorted(group, key=lambda row: row[name], reverse=more) for group in shown if group]
        # Where a few bars would hide the rest, all charts of this figure are logarithmic.
        above = [sorted(row[name] for row in group if row[name] > 0) for group in shown]
        is_log = any(len(values) > 1 and values[(len(values) - 1) // 2] < values[-1] / 20
                     for values in above)
        unit = f"{unit}: {'more' if more else 'less'} is better"
        for group in shown:
            whole = f"{title}: {size(group[0])}"
            remarks = [(row["subject"], row["remark"]) for row in group if "remark" in row]
            yield title, whole, bars(whole, unit, group, name, is_log), remarks


def lines_of(rows, name, place):
    lines = {}
    for row in rows:
        if name in row:
            # Of several settings with one place the first is drawn.
            lines.setdefault(row["subject"], {}).setdefault(place(row), row[name])
    return {subject: list(line.items()) for subject, line in lines.items()}


def curve_charts(rows):
    by_size = "cost by the number of timers"
    for workload, title in GROWTH.items():
        of = [row for row in rows if row["workload"] == workload and row["threads"] == 1]
        sizes = sorted({row["n"] for row in of})
        if len(sizes) > 1:
            places = [(math.log10(n), f"{n:,}") for n in sizes]
            lines = lines_of(of, "ns_per_op", lambda row: math.log10(row["n"]))
            yield (f"{title}: {by_size}", f"{title}: {by_size}, one thread",
                   curves(f"{title}: {by_size}, one thread", "ns for an operation: less is better",
                          places, lines), [])
    for group in groups(rows, "w5"):
        names = [f"late_ms_{quantile}" for quantile in QUANTILES]
        lines = {row["subject"]: [(place, row[name]) for place, name in enumerate(names)
                                  if name in row] for row in group}
        title = f"W5: lateness, quantiles: {size(group[0])}"
        places = list(enumerate(["p50", "p99", "p99.9", "max"]))
        yield ("W5: lateness, quantiles", title,
               curves(title, "ms: less is better", places, lines), [])
    for workload, title in COHERENCE.items():
        of = [row for row in rows if row["workload"] == workload]
        threads = sorted({row["threads"] for row in of})
        if len(threads) > 1:
            title = f"{title}: cache lines from other cores, by threads"
            lines = lines_of(of, "transfers", lambda row: math.log2(row["threads"]))
            yield ("Cache lines fetched from other cores, by the number of threads", title,
                   curves(title, "lines an operation: less is better",
                          [(math.log2(number), str(number)) for number in threads], lines), [])


HEAD = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>wheelwork and others</title>
<style>
:root { color-scheme: light dark }
body { font: 15px/1.5 sans-serif; max-width: 880px; margin: 2em auto; padding: 0 1em }
svg { display: block; max-width: 100%; height: auto; margin: .8em 0 .2em }
td { padding: .1em .8em .1em 0; vertical-align: top }
</style>
<h1>wheelwork and others</h1>
"""


def page(lines, charts):
    """What was measured where, the charts by section, what some did otherwise, and the goals."""
    machine = next((line for line in lines if "machine" in line), {})
    about, _, versions = machine.get("machine", "").partition("\n")
    sections = list(dict.fromkeys(section for section, *_ in charts))
    text = [HEAD, "<table>"]
    for name, value in (("machine", about), ("versions", versions), ("date", machine.get("date"))):
        text.append(f"<tr><td>{name}<td>{html.escape(value or 'not recorded')}")
    text.append("</table>\n<ul>")
    text += [f'<li><a href="#{slug(title)}">{html.escape(title)}</a>' for title in sections]
    text.append("</ul>")
    for section in sections:
        text.append(f'<h2 id="{slug(section)}">{html.escape(section)}</h2>')
        for _, _, drawn, remarks in (chart for chart in charts if chart[0] == section):
            text.append(drawn)
            text += [f"<div>{html.escape(f'{name}: {said}')}</div>" for name, said in remarks]
    goals = [line for line in lines if "goal" in line]
    if goals:
        text.append("<h2>Distance to the goals</h2>\n<table>")
        text += [f"<tr><td>{html.escape(line['goal'])}<td>{html.escape(line['verdict'])}"
                 for line in goals]
        text.append("</table>")
    return "\n".join(text) + "\n"


def wrong(why):
    print(f"plot: {why} (scripts/bench plot --help says more)", file=sys.stderr)
    sys.exit(2)


def main():
    parser = argparse.ArgumentParser(prog="plot", allow_abbrev=False)
    parser.error = wrong
    parser.add_argument("json", type=Path, metavar="FILE.json")
    parser.add_argument("html", type=Path, metavar="OUT.html")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER")
    args = parser.parse_args()
    try:
        lines = [json.loads(line) for line in args.json.read_text().splitlines()]
        rows = [line for line in lines if "subject" in line and line["reps"] > 0]
        if not rows:
            raise ValueError("there are no figures in it")
        charts = [chart for chart in (*bar_charts(rows), *curve_charts(rows)) if chart[2]]
    except OSError as why:
        wrong(f"{args.json}: {why.strerror}")
    except (ValueError, KeyError, TypeError) as why:
        wrong(f"{args.json}: not what a program has written by --json: {why}")
    if args.pictures:
        args.pictures.mkdir(parents=True, exist_ok=True)
        for _, title, drawn, _ in charts:
            (args.pictures / f"{slug(title)}.svg").write_text(drawn)
    args.html.write_text(page(lines, charts))


if __name__ == "__main__":
    main()
