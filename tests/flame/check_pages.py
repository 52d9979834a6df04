# SPDX-License-Identifier: Apache-2.0
"""Uses the pages in headless Chromium: search, zoom, keys, choices. check_pages.py BROWSER PAGE...

A copy of each page gets a script that does what a person does, and reads what the page then says. With PICTURES set to a
folder, pictures of the pages go there.
"""
import html
import json
import os
import re
import subprocess
import sys
import tempfile

DRIVER = """
<script>
const result = {};
const $ = (id) => document.getElementById(id);
const canvas = document.querySelector("canvas");
const text = (id) => $(id).textContent;
const press = (key) => canvas.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
const change = (id, value) => { $(id).value = value; $(id).dispatchEvent(new Event($(id).tagName === "INPUT" ? "input" : "change")); };
const click = (x, y) => canvas.dispatchEvent(new MouseEvent("click", { bubbles: true, clientX: canvas.getBoundingClientRect().x + x, clientY: canvas.getBoundingClientRect().y + y }));
try {
	result.ready = document.body.dataset.ready;
	result.sum = text("sum0");
	result.painted = [...canvas.getContext("2d").getImageData(0, 0, canvas.width, Math.min(canvas.height, 400)).data].some((v) => v !== 0);
	change("search", "burn");
	result.burn = text("matches");
	press("n");
	result.chosen = text("detail");
	press("Enter");
	result.zoomed = !$("reset").disabled;
	press("ArrowUp");
	result.up = text("detail");
	press("Escape");
	result.out = $("reset").disabled;
	change("search", "no such thing (");
	result.none = text("matches");
	change("search", "");
	click(40, 27);
	result.clicked = text("detail");
	press("Escape");
	if ($("cpu").options.length > 1) { change("cpu", "1"); result.off = text("sum0"); change("cpu", ""); }
	const start = performance.now();
	change("search", "level_1");
	result.search_ms = Math.round(performance.now() - start);
	result.level = text("matches");
	change("search", "level_199_");
	press("n");
	press("Enter");
	result.height = canvas.clientHeight;
	press("Escape");
	change("search", "");
	const labels = [], fillText = CanvasRenderingContext2D.prototype.fillText;
	CanvasRenderingContext2D.prototype.fillText = function (label, ...rest) { labels.push(label); return fillText.call(this, label, ...rest); };
	dispatchEvent(new Event("resize"));
	change("cpu", "");
	result.labelled = labels.some((label) => label.startsWith("burn"));
	result.head = Math.max(0, ...[...document.querySelectorAll("th")].map((cell) => cell.clientHeight));
	dispatchEvent(new Event("beforeprint"));
	result.printed = canvas.width;
	dispatchEvent(new Event("afterprint"));
	result.functions = $("functions") ? $("functions").rows.length : -1;
	result.wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
} catch (error) { result.error = String(error); }
const pre = document.createElement("pre");
pre.id = "result";
pre.textContent = JSON.stringify(result);
document.body.append(pre);
</script>
"""


def run(browser, *arguments):
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                               f"--user-data-dir={folder}", *arguments], capture_output=True, text=True, timeout=120, check=False).stdout


def framed(page, width, number=0):
    """In a frame, for a window is at least 500 wide. Its result becomes that of the frame's page."""
    return (f'<iframe id="frame{number}" style="border:0;display:block" width="{width}" height="900" srcdoc="{html.escape(page)}"></iframe>'
            f'<pre id="result{number}"></pre><script>frame{number}.onload = () => {{ '
            f'const inner = frame{number}.contentDocument.getElementById("result"); '
            f'if (inner) document.getElementById("result{number}").textContent = inner.textContent; }};</script>')


def use(browser, uses):
    """What each (page, width) says, in the order of uses: all are frames of one page, as a browser's start takes seconds."""
    frames = []
    for number, (page, width) in enumerate(uses):
        with open(page, encoding="utf-8") as file:
            frames.append(framed(file.read().replace("</body>", DRIVER + "</body>"), width, number))
    with tempfile.NamedTemporaryFile("w", suffix=".html", encoding="utf-8") as copy:
        copy.write('<body style="margin:0">' + "".join(frames) + "</body>")
        copy.flush()
        dom = run(browser, "--window-size=1300,900", "--dump-dom", "file://" + copy.name)
    said = dict(re.findall(r'<pre id="result(\d+)">(\{.*?\})</pre>', dom, re.S))
    for number, (page, width) in enumerate(uses):
        assert str(number) in said, f"{page} at {width}: no result; {dom[-300:]}"
    return [json.loads(html.unescape(said[str(number)])) for number in range(len(uses))]


def check(page, result, narrow):
    assert "error" not in result, (page, result)
    assert result["ready"] == "yes" and result["painted"] and result["out"], (page, result)
    assert result["none"] == "nothing found" and result["printed"] == 2000, (page, result)
    assert result["clicked"] and result["wide"] <= 0 and result["head"] <= 80, (page, result)
    name = os.path.basename(page)
    if name == "many.html":
        assert result["height"] >= 200 * 18, (page, result)
        assert "places" in result["level"] and result["search_ms"] < 1000, (page, result)
    else:
        assert re.search(r"1 places, .*\(", result["burn"]), (page, result)
        assert result["chosen"].startswith('burn (<gpt>&"x".py:54)') and result["zoomed"], (page, result)
        assert result["up"].startswith("forward (gpt.py"), (page, result)
        assert result["labelled"] or narrow, (page, result)
    if name == "diff.html":
        assert "rank 1: " in result["chosen"] and "its peers: 0" in result["chosen"] and "a step" in result["chosen"], (page, result)
    else:
        assert result["functions"] > 5, (page, result)


browser_path, *pages = sys.argv[1:]
windows = [(path, width) for path in pages for width in (1280, 390)]
for (path, width), said in zip(windows, use(browser_path, windows)):
    check(path, said, width == 390)
pictures = os.environ.get("PICTURES")
if pictures:
    for path in pages:
        stem = os.path.join(pictures, os.path.splitext(os.path.basename(path))[0])
        run(browser_path, "--window-size=1400,1000", f"--screenshot={stem}.png", "file://" + os.path.abspath(path))
        with open(stem + "-narrow.html", "w", encoding="utf-8") as narrow_page, open(path, encoding="utf-8") as whole:
            narrow_page.write(f'<body style="margin:0">{framed(whole.read(), 390)}</body>')
        run(browser_path, "--window-size=500,900", f"--screenshot={stem}-narrow.png", "file://" + os.path.abspath(stem + "-narrow.html"))
        run(browser_path, f"--print-to-pdf={stem}.pdf", "--no-pdf-header-footer", "file://" + os.path.abspath(path))
print(f"{len(pages)} pages used in {os.path.basename(browser_path)}")
