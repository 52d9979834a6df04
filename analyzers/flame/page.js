/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flame graphs of one page: outermost functions on top, as wide as their time. The data is in the element "data":
 * frames [function, file, line, kind], and rows [rank, stage, thread, steps' thread, off the CPU, samples, us, frames...].
 * Of a comparison, the left graph is the rank, the right one the mean of its peers, on one scale.
 */
"use strict";
(() => {
	const data = JSON.parse(document.getElementById("data").textContent);
	const compared = data.mode === "diff";
	const KINDS = ["own", "library", "native", "kernel"];
	const KIND_NAMES = ["Python", "Python, library", "native", "kernel"];
	const ROW_PX = 18, NARROW_PX = 0.7, ROWS_OF_TABLE = 40;
	const $ = (id) => document.getElementById(id);
	const element = (name, text, className) => {
		const made = document.createElement(name);
		if (text !== undefined) made.textContent = text;
		if (className) made.className = className;
		return made;
	};

	/* Frames of one function are one; a lambda is one by its line. */
	const functions = [], functionOf = [];
	{
		const known = new Map();
		for (const [name, file, line, kind] of data.frames) {
			const nameless = name.endsWith(">") && !name.endsWith("<module>") && !name.endsWith("<locals>");
			const key = kind + "\n" + name + "\n" + file + (nameless ? "\n" + line : "");
			if (!known.has(key)) {
				known.set(key, functions.length);
				functions.push({ name: name || "?", file, kind, base: file.replace(/.*\//, "") });
			}
			functionOf.push(known.get(key));
		}
	}

	/* Of memory, a value is in units of 1000 bytes. */
	const byteText = (value) => {
		let bytes = 1000 * value, unit = 0;
		for (; bytes >= 1024 && unit < 4; unit++) bytes /= 1024;
		return (unit ? bytes.toPrecision(3) : Math.round(bytes)) + [" B", " KiB", " MiB", " GiB", " TiB"][unit];
	};
	const ms = data.bytes ? byteText : (value) => {
		if (value >= 1000) return (value / 1000).toPrecision(3) + " s";
		if (value >= 1) return value.toPrecision(3) + " ms";
		return value > 0 ? Math.round(value * 1000) + " us" : "0";
	};
	const percent = (share) => (100 * share).toFixed(share < 0.0995 ? 1 : 0) + " %";

	/* A row of the profile counts so much, in ms: of a comparison, of each step or second. */
	const side = new Map(data.ranks.map((rank, i) => [rank.id, { rank, left: !compared || i === 0 }]));
	const peers = Math.max(1, data.ranks.length - 1);
	const scaleOf = (rank) => {
		if (!compared) return 1e-3;
		const of = side.get(rank);
		return (1e-3 * data.step_ms) / of.rank.sampled_ms / (of.left ? 1 : peers);
	};

	let root, zoomed, selected, found = new Set(), foundList = [], pattern = null, deepest = 0;

	const nodeOf = (parent, number) => ({
		number, parent, depth: parent ? parent.depth + 1 : 0, kids: null, sorted: null, value: [0, 0], self: [0, 0], lines: null,
	});
	const NOTHING = new Map();

	const wanted = (row) => {
		const [rank, stage, , steps, off] = row;
		if (!side.has(rank)) return false;
		if (!compared && $("rank").value !== "" && String(rank) !== $("rank").value) return false;
		if ($("cpu").value !== "" && String(off) !== $("cpu").value) return false;
		if ($("threads").value === "steps" && !steps) return false;
		return $("stage").value === "" || $("stage").value === "=" + stage;
	};

	const build = () => {
		root = nodeOf(null, -1);
		deepest = 0;
		for (const row of data.rows) {
			if (!wanted(row)) continue;
			const at = side.get(row[0]).left ? 0 : 1, value = row[6] * scaleOf(row[0]);
			let node = root;
			node.value[at] += value;
			for (let i = 7; i < row.length; i++) {
				const number = functionOf[row[i]], line = data.frames[row[i]][2];
				let next = (node.kids ||= new Map()).get(number);
				if (!next) node.kids.set(number, (next = nodeOf(node, number)));
				next.value[at] += value;
				if (line && !at) (next.lines ||= new Map()).set(line, (next.lines.get(line) || 0) + value);
				node = next;
			}
			node.self[at] += value;
			deepest = Math.max(deepest, node.depth);
		}
	};

	const size = (node) => Math.max(node.value[0], node.value[1]);
	const kids = (node) => (node.sorted ||= [...(node.kids || NOTHING).values()].sort((a, b) => size(b) - size(a)));
	const label = (node) => {
		if (node === root) return "all";
		const f = functions[node.number];
		return f.base ? f.name + " (" + f.base + ")" : f.name;
	};
	/* The line that takes most, behind the file. */
	const place = (node) => {
		if (node === root) return "all";
		const f = functions[node.number];
		const line = [...(node.lines || NOTHING)].sort((a, b) => b[1] - a[1])[0];
		return f.name + (f.base ? " (" + f.base + (line ? ":" + line[0] : "") + ")" : "");
	};

	/* Colours. */
	let style = getComputedStyle(document.documentElement);
	const colour = (name) => style.getPropertyValue("--" + name).trim();
	const mix = (from, to, share) => {
		const part = (text, i) => parseInt(text.slice(1 + 2 * i, 3 + 2 * i), 16);
		return "#" + [0, 1, 2].map((i) => Math.round(part(from, i) + (part(to, i) - part(from, i)) * share).toString(16).padStart(2, "0")).join("");
	};
	const hash = (text) => {
		let h = 2166136261;
		for (let i = 0; i < text.length; i++) h = Math.imul(h ^ text.charCodeAt(i), 16777619);
		return (h >>> 0) / 4294967296;
	};
	/* More than its peers: towards red; less: towards blue; as far as both the share and the amount say so. */
	const difference = (node) => {
		const [a, b] = node.value, most = size(node), all = size(root);
		return most > 0 && all > 0 ? ((a - b) / most) * Math.min(1, Math.abs(a - b) / (0.01 * all)) : 0;
	};
	const fill = (node) => {
		if (found.has(node)) return colour("found");
		if (node === root) return colour("plain");
		if (compared) {
			const d = difference(node);
			return mix("#e4e9ee", d > 0 ? "#d55e00" : "#0072b2", Math.abs(d));
		}
		const f = functions[node.number];
		return mix(colour(KINDS[f.kind]), "#ffffff", 0.3 * hash(f.name + f.file));
	};
	const ink = (node) => (found.has(node) || (compared && node !== root && Math.abs(difference(node)) > 0.55) ? "#ffffff" : colour("ink"));

	/* Layout: the way to the zoomed function over the whole width, below it what it calls. */
	const graphs = [];
	const layout = (graph, width) => {
		const rows = [], of = size(zoomed) || 1;
		const put = (depth, x, w, node) => (rows[depth] ||= []).push({ x, w, node });
		for (let up = zoomed.parent; up; up = up.parent) put(up.depth, 0, width, up);
		const stack = [[zoomed, 0]];
		while (stack.length) {
			const [node, x] = stack.pop(), w = (node.value[graph.at] / of) * width;
			put(node.depth, x, w, node);
			let at = x, rest = 0;
			for (const kid of kids(node)) {
				const wide = (kid.value[graph.at] / of) * width;
				if (wide >= NARROW_PX) stack.push([kid, at]);
				else rest += wide;
				at += wide;
			}
			if (rest >= NARROW_PX) put(node.depth + 1, at - rest, rest, null);
		}
		for (const row of rows) row.sort((a, b) => a.x - b.x);
		graph.rows = rows;
	};
	const paintText = (context, text, x, y, width) => {
		if (width < 26) return;
		let measured = context.measureText(text).width;
		if (measured > width - 6) {
			let length = Math.max(1, Math.floor((text.length * (width - 12)) / measured));
			const cut = () => (measured = context.measureText(text.slice(0, length) + "\u2026").width);
			while (cut() > width - 3 && length > 1) length--; // wide letters come first
			text = text.slice(0, length) + "\u2026";
		}
		if (measured <= width - 3) context.fillText(text, x + 3, y + 13);
	};
	const draw = (graph, printed) => {
		const width = printed ? 1000 : Math.max(200, graph.box.clientWidth), dots = printed ? 2 : window.devicePixelRatio || 1;
		layout(graph, width);
		const height = graph.rows.length * ROW_PX + 2, canvas = graph.canvas, context = canvas.getContext("2d");
		canvas.width = Math.round(width * dots);
		canvas.height = Math.min(32000, Math.round(height * dots));
		canvas.style.height = printed ? "auto" : height + "px";
		context.scale(dots, dots);
		context.font = "12px system-ui, 'DejaVu Sans', sans-serif";
		graph.rows.forEach((row, depth) => {
			for (const { x, w, node } of row) {
				const y = depth * ROW_PX;
				context.globalAlpha = depth < zoomed.depth ? 0.55 : 1;
				context.fillStyle = node ? fill(node) : colour("kernel");
				context.fillRect(x, y, Math.max(0.4, w - (w > 3 ? 0.6 : 0)), ROW_PX - 1);
				if (!node) continue;
				context.fillStyle = ink(node);
				paintText(context, label(node), x, y, w);
				if (node === selected && !printed) {
					context.strokeStyle = colour("mark");
					context.lineWidth = 2;
					context.strokeRect(x + 1, y + 1, Math.max(1, w - 2.6), ROW_PX - 3);
				}
			}
		});
	};
	const drawAll = (printed) => {
		style = getComputedStyle(document.documentElement);
		for (const graph of graphs) draw(graph, printed);
	};

	/* What is known of one function in its place. */
	const figures = (node, at) => {
		const all = root.value[at];
		return ms(node.value[at]) + (all > 0 ? " (" + percent(node.value[at] / all) + ")" : "") + ", itself " + ms(node.self[at]);
	};
	const describe = (node) => {
		const detail = $("detail");
		detail.replaceChildren();
		if (!node) {
			detail.append(element("p", "Point at a function, or choose one by its key: its figures are shown here.", "mute"));
			return;
		}
		const f = node === root ? null : functions[node.number];
		const head = element("p");
		head.append(element("b", place(node)), f ? " " + KIND_NAMES[f.kind] + (f.file ? ", " + f.file : "") : "");
		detail.append(head);
		const each = data.unit ? " " + data.unit : "";
		if (compared)
			detail.append(element("p", "rank " + data.ranks[0].rank + ": " + figures(node, 0) + "; " + data.peers_name + ": " + figures(node, 1)
				+ "; difference " + (node.value[0] >= node.value[1] ? "+" : "-") + ms(Math.abs(node.value[0] - node.value[1])) + each));
		else detail.append(element("p", figures(node, 0) + each));
		const lines = [...(node.lines || NOTHING)].filter((l) => l[1] > 0).sort((a, b) => b[1] - a[1]).slice(0, 4);
		if (lines.length) detail.append(element("p", "lines " + lines.map((l) => l[0] + ": " + ms(l[1])).join(", "), "mute"));
	};

	const reveal = (node) => {
		for (const graph of graphs) {
			const top = node.depth * ROW_PX, box = graph.box;
			if (top < box.scrollTop || top + ROW_PX > box.scrollTop + box.clientHeight) box.scrollTop = Math.max(0, top - box.clientHeight / 2);
		}
	};
	const select = (node, show) => {
		selected = node;
		describe(node);
		if (show && node) reveal(node);
		drawAll();
	};
	const zoom = (node) => {
		zoomed = node;
		$("reset").disabled = node === root;
		select(node, true);
	};
	const within = (node, top) => {
		for (; node; node = node.parent) if (node === top) return true;
		return false;
	};

	/* Search: a regular expression, or the text itself where it is none. */
	const search = () => {
		const text = $("search").value;
		found = new Set();
		foundList = [];
		pattern = null;
		if (text)
			try {
				pattern = new RegExp(text, "i");
			} catch {
				pattern = new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "i");
			}
		const hits = functions.map((f) => pattern !== null && pattern.test(f.name + " " + f.file));
		let sum = 0;
		const walk = [[root, false]];
		while (pattern && walk.length) {
			const [node, inside] = walk.pop(), hit = node !== root && hits[node.number];
			if (hit) {
				found.add(node);
				foundList.push(node);
				if (!inside) sum += node.value[0];
			}
			for (const kid of (node.kids || NOTHING).values()) walk.push([kid, inside || hit]);
		}
		foundList.sort((a, b) => size(b) - size(a));
		$("matches").textContent = !pattern ? "" : !foundList.length ? "nothing found"
			: foundList.length + " places, " + ms(sum) + (root.value[0] > 0 ? " (" + percent(sum / root.value[0]) + ")" : "");
		drawAll();
	};
	const nextFound = (back) => {
		if (!foundList.length) return;
		const at = foundList.indexOf(selected), count = foundList.length;
		const node = foundList[at < 0 ? 0 : (at + (back ? count - 1 : 1)) % count];
		if (!within(node, zoomed)) zoomed = root;
		select(node, true);
	};

	/* Functions by their own time. */
	const table = () => {
		if (compared) return;
		const sums = functions.map((f) => ({ f, self: 0, total: 0, open: 0, lines: new Map() }));
		const walk = [...kids(root)];
		while (walk.length) {
			const node = walk.pop();
			if (node.done) {
				/* Back from what it calls. */
				sums[node.done.number].open--;
				continue;
			}
			const sum = sums[node.number];
			sum.self += node.self[0];
			if (!sum.open++) sum.total += node.value[0];
			for (const [line, value] of node.lines || NOTHING) sum.lines.set(line, (sum.lines.get(line) || 0) + value);
			walk.push({ done: node }, ...kids(node));
		}
		const body = $("functions");
		body.replaceChildren();
		for (const sum of sums.filter((s) => s.total > 0).sort((a, b) => b.self - a.self || b.total - a.total).slice(0, ROWS_OF_TABLE)) {
			const row = element("tr", undefined, "go"), line = [...sum.lines].sort((a, b) => b[1] - a[1])[0], all = root.value[0];
			row.append(element("td", sum.f.name), element("td", sum.f.base + (line ? ":" + line[0] : "")), element("td", ms(sum.self), "n"),
				element("td", percent(sum.self / all), "n opt"), element("td", ms(sum.total), "n"), element("td", percent(sum.total / all), "n opt"),
				element("td", KIND_NAMES[sum.f.kind], "opt"));
			row.onclick = () => {
				$("search").value = sum.f.name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
				search();
				nextFound();
			};
			body.append(row);
		}
	};

	const renew = () => {
		build();
		zoomed = root;
		selected = null;
		$("reset").disabled = true;
		graphs.forEach((graph) => (graph.sum.textContent = ms(root.value[graph.at]) + (data.unit ? " " + data.unit : "") + (deepest ? ", " + deepest + " frames deep" : "")));
		describe(null);
		table();
		search();
	};

	/* The graph under the pointer. */
	const at = (graph, event) => {
		const y = Math.floor(event.offsetY / ROW_PX), row = graph.rows[y] || [];
		const hit = row.find(({ x, w }) => event.offsetX >= x && event.offsetX < x + Math.max(1, w));
		return hit ? hit.node : null;
	};
	const siblings = (node) => (node.parent ? kids(node.parent) : [node]);
	const move = {
		ArrowUp: (node) => node.parent,
		ArrowDown: (node) => kids(node)[0],
		ArrowLeft: (node) => siblings(node)[siblings(node).indexOf(node) - 1],
		ArrowRight: (node) => siblings(node)[siblings(node).indexOf(node) + 1],
		Home: () => root,
	};
	const key = (event) => {
		if (event.ctrlKey || event.metaKey || event.altKey) return;
		const node = selected || zoomed;
		if (move[event.key]) {
			const to = move[event.key](node);
			if (to && !within(to, zoomed)) zoomed = to;
			if (to) select(to, true);
		} else if (event.key === "Enter" || event.key === " ") zoom(node);
		else if (event.key === "Escape" || event.key === "Backspace") zoom(zoomed.parent && event.key === "Backspace" ? zoomed.parent : root);
		else if (event.key === "n" || event.key === "N") nextFound(event.key === "N");
		else return;
		event.preventDefault();
	};

	for (const canvas of document.querySelectorAll("canvas")) {
		const graph = { canvas, at: Number(canvas.dataset.side), box: canvas.parentElement, sum: $("sum" + canvas.dataset.side), rows: [] };
		canvas.onmousemove = (event) => describe(at(graph, event) || selected);
		canvas.onmouseleave = () => describe(selected);
		canvas.onclick = (event) => {
			const node = at(graph, event);
			if (node) zoom(node);
			canvas.focus({ preventScroll: true });
		};
		canvas.onkeydown = key;
		graphs.push(graph);
	}

	/* What there is to choose from. */
	const choose = (id, values) => {
		for (const [value, text] of values) $(id).append(new Option(text, value));
		$(id).onchange = renew;
		$(id).parentElement.hidden = values.length < 2;
	};
	const stages = [...new Set(data.rows.map((row) => row[1]))].sort();
	choose("rank", compared || data.ranks.length < 2 ? [["", "all"]] : [["", "all"], ...data.ranks.map((r) => [String(r.id), "rank " + r.rank])]);
	choose("cpu", [["", "on and off the CPU"], ...(data.bytes ? [] : [["0", "on the CPU"], ["1", "off the CPU"]])]);
	choose("threads", data.rows.some((row) => row[3]) && data.rows.some((row) => !row[3])
		? [["steps", "the thread that makes the steps"], ["", "all"]] : [["", "all"]]);
	choose("stage", [["", "all"], ...(stages.length > 1 ? stages.map((s) => ["=" + s, s || "outside of stages"]) : [])]);
	$("reset").onclick = () => zoom(root);
	$("search").oninput = search;
	$("search").onkeydown = (event) => {
		if (event.key === "Enter") nextFound(event.shiftKey);
		if (event.key === "Escape") {
			$("search").value = "";
			search();
		}
	};
	document.onkeydown = (event) => {
		if (event.key !== "/" || event.target === $("search")) return;
		$("search").focus();
		event.preventDefault();
	};
	window.onresize = () => drawAll();
	window.onbeforeprint = () => drawAll(true);
	window.onafterprint = () => drawAll();
	matchMedia("(prefers-color-scheme: dark)").onchange = () => drawAll();
	renew();
	document.body.dataset.ready = "yes";
})();
