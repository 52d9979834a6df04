#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the panels of the dashboards with the data of a store, one SVG a dashboard, without Grafana.

    tests/fleet/panels.py http://127.0.0.1:9090 FOLDER [LENGTH_S] [VARIABLE=VALUE...]

Lines, numbers, tables and cells, as large as the panels are in the grid; not as Grafana draws them. Standard library only.
"""
import html
import json
import pathlib
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

UNIT, WIDTH, GAP = 36, 60, 8  # px of a row and a column of the grid
COLORS = ["#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#8c564b", "#e377c2"]
SOURCE = pathlib.Path(__file__).resolve().parent.parent.parent


def ask(api, path, **form):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"{api}/api/v1/{path}?" + urllib.parse.urlencode(form)) as answer:
            return json.load(answer)["data"]["result"]
    except urllib.error.HTTPError as error:
        return [{"metric": {"error": error.read().decode()[:200]}, "value": [0, "NaN"], "values": []}]


def legend(target, labels):
    text = target.get("legendFormat", "")
    for name, value in labels.items():
        text = text.replace("{{" + name + "}}", value)
    return text or ",".join(f"{k}={v}" for k, v in labels.items() if k != "__name__")


def text(x, y, words, size=11, color="#222"):
    return f'<text x="{x:.0f}" y="{y:.0f}" font-size="{size}" fill="{color}" font-family="DejaVu Sans, sans-serif">{html.escape(words)}</text>'


def number(value):
    return f"{value:.3g}" if abs(value) < 1e4 else f"{value:,.0f}"


def lines(series, begin, end, x, y, w, h):
    points = [(t, v) for _, values in series for t, v in values if v == v]
    if not points:
        return [text(x + 8, y + h / 2, "no data", color="#999")]
    low, high = min(0, min(v for _, v in points)), max(v for _, v in points)
    high = high if high > low else low + 1
    keys = min(len(series), 4)
    plot = h - 14 * keys - 8
    out = [text(x + 2, y + 10, number(high), 9, "#777"), text(x + 2, y + plot, number(low), 9, "#777")]
    for i, (name, values) in enumerate(series):
        color = COLORS[i % len(COLORS)]
        path = " ".join(f"{x + (t - begin) / (end - begin) * w:.1f},{y + plot - (v - low) / (high - low) * (plot - 12):.1f}" for t, v in values if v == v)
        out.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="1.5"/>')
        if i < keys:
            last = [v for _, v in values if v == v]
            out.append(text(x + 6, y + plot + 14 * (i + 1), f"{name[:int(w / 7)]}: {number(last[-1]) if last else '-'}", 10, color))
    if len(series) > keys:
        out.append(text(x + w - 70, y + h - 2, f"{len(series) - keys} more", 9, "#777"))
    return out


def cells(series, begin, end, x, y, w, h):
    most = max((v for _, values in series for _, v in values if v == v), default=0) or 1
    row = min(22, h / max(1, len(series)))
    out = [] if series else [text(x + 8, y + h / 2, "no data", color="#999")]
    for i, (name, values) in enumerate(series[:int(h / row)]):
        for t, v in values:
            if v == v:
                out.append(f'<rect x="{x + (t - begin) / (end - begin) * w:.1f}" y="{y + i * row:.1f}" width="{max(2, w / max(1, len(values))):.1f}" '
                           f'height="{row - 2:.1f}" fill="#d62728" opacity="{0.08 + 0.9 * max(0, v) / most:.2f}"/>')
        out.append(text(x + 4, y + i * row + row - 7, f"{name}", 10))
    return out


def table(rows, x, y, w, h):
    hidden = {"__name__", "instance", "job"} if len(rows) > 40 else {"__name__"}
    out = [] if rows else [text(x + 8, y + h / 2, "no data", color="#999")]
    for i, (labels, value) in enumerate(rows[:int(h / 15)]):
        words = f"{number(value)}   " + "  ".join(f"{k}={v}" for k, v in labels.items() if v and k not in hidden)
        out.append(text(x + 4, y + 13 + 15 * i, words[:int(w / 6)], 10))
    return out


def draw(api, panel, length, variables):
    grid = panel["gridPos"]
    x, y, w, h = grid["x"] * WIDTH + GAP, grid["y"] * UNIT + GAP, grid["w"] * WIDTH - 2 * GAP, grid["h"] * UNIT - 2 * GAP
    out = [f'<rect x="{x}" y="{y}" width="{w}" height="{h}" fill="#fff" stroke="#ccc"/>', text(x + 6, y + 15, panel["title"], 12)]
    end = time.time()
    begin, step, series, rows = end - length, max(1, length / 100), [], []
    for target in panel["targets"]:
        query = target["expr"]
        for name, value in variables.items():
            query = query.replace(f"${name}", value)
        if target.get("instant") or panel["type"] in ("stat", "table"):
            rows += [(one["metric"], float(one["value"][1])) for one in ask(api, "query", query=query)]
        else:
            series += [(legend(target, one["metric"]), [(t, float(v)) for t, v in one["values"]])
                       for one in ask(api, "query_range", query=query, start=begin, end=end, step=step)]
    x, y, w, h = x + 4, y + 20, w - 8, h - 24
    if panel["type"] == "stat":
        out.append(text(x + 10, y + h * 0.7, number(rows[0][1]) if rows else "no data", 26))
    elif panel["type"] == "table":
        out += table(sorted(rows, key=lambda row: -row[1]), x, y, w, h)
    elif panel["type"] in ("status-history", "heatmap"):
        out += cells(series, begin, end, x, y, w, h)
    else:
        out += lines(series, begin, end, x, y, w, h)
    return out, bool(rows or series)


def main():
    api, folder, length = sys.argv[1], pathlib.Path(sys.argv[2]), float(sys.argv[3]) if len(sys.argv) > 3 else 300
    variables = dict(word.split("=", 1) for word in sys.argv[4:])
    for path in sorted((SOURCE / "packaging/grafana").glob("*.json")):
        board = json.loads(path.read_text())
        out, empty, high = [], [], 0
        for panel in board["panels"]:
            drawn, some = draw(api, panel, length, variables)
            out += drawn
            empty += [] if some else [panel["title"]]
            high = max(high, (panel["gridPos"]["y"] + panel["gridPos"]["h"]) * UNIT)
        (folder / f"{path.stem}.svg").write_text(f'<svg xmlns="http://www.w3.org/2000/svg" width="{24 * WIDTH}" height="{high}">'
                                                 f'<rect width="100%" height="100%" fill="#eee"/>{"".join(out)}</svg>\n')
        print(f"{path.stem}: {len(board['panels'])} panels; without data: {', '.join(empty) or 'none'}")


if __name__ == "__main__":
    main()
