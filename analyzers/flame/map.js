/* SPDX-License-Identifier: Apache-2.0 */
/* Segments by time: a row each, as high as it is large; its colour is how much of it is in use. Data: the element "data". */
'use strict';
(() => {
	const pools = JSON.parse(document.getElementById('data').textContent).pools;
	const canvas = document.getElementById('map'), tip = document.getElementById('tip'), search = document.getElementById('search');
	const select = document.getElementById('pool'), table = document.getElementById('segments'), found = document.getElementById('found');
	const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
	const LEFT = 80, BOTTOM = 26;
	let pool, rows, view, hits;

	const size = bytes => {
		const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
		let i = 0;
		for (; bytes >= 1024 && i < 4; i++)
			bytes /= 1024;
		return (i && bytes < 100 ? bytes.toFixed(1) : Math.round(bytes)) + ' ' + units[i];
	};
	const clock = ns => new Date(ns / 1e6).toLocaleTimeString();

	/* Rows of all segments, in order of their addresses; y in bytes. */
	const lay = () => {
		const by = new Map();
		pool.snapshots.forEach((s, at) => s.segments.forEach(([address, bytes, used, gap, blocks]) => {
			if (!by.has(address))
				by.set(address, {address, number: BigInt(address), bytes: 0, cells: []});
			const row = by.get(address);
			row.bytes = Math.max(row.bytes, bytes);
			row.cells.push({at, bytes, used, gap, blocks});
		}));
		rows = [...by.values()].sort((a, b) => a.number < b.number ? -1 : 1);
		let y = 0;
		for (const row of rows) {
			row.y = y;
			y += row.bytes;
		}
		const times = pool.snapshots.map(s => s.ns), last = times[times.length - 1];
		const first = Math.min(times[0], ...pool.failures.map(f => f.ns)), end = Math.max(last, ...pool.failures.map(f => f.ns));
		pool.whole = {x0: first, x1: end + Math.max((end - first) / 20, 1e9), y0: 0, y1: y || 1};
		view = {...pool.whole};
	};
	const until = at => at + 1 < pool.snapshots.length ? pool.snapshots[at + 1].ns : pool.whole.x1;
	const place = ns => LEFT + (ns - view.x0) / (view.x1 - view.x0) * (canvas.clientWidth - LEFT);
	const level = y => (y - view.y0) / (view.y1 - view.y0) * (canvas.clientHeight - BOTTOM);

	const draw = () => {
		const ratio = devicePixelRatio || 1, w = canvas.clientWidth, h = canvas.clientHeight;
		canvas.width = w * ratio;
		canvas.height = h * ratio;
		const g = canvas.getContext('2d');
		g.scale(ratio, ratio);
		g.clearRect(0, 0, w, h);
		g.save();
		g.beginPath();
		g.rect(LEFT, 0, w - LEFT, h - BOTTOM);
		g.clip();
		for (const row of rows) {
			const y0 = level(row.y), y1 = level(row.y + row.bytes);
			if (y1 < 0 || y0 > h)
				continue;
			for (const c of row.cells) {
				const x0 = place(pool.snapshots[c.at].ns), x1 = place(until(c.at));
				g.globalAlpha = 1;
				g.fillStyle = css('--plain');
				g.fillRect(x0, y0, x1 - x0 + .5, Math.max(y1 - y0 - .4, .4));
				g.globalAlpha = c.bytes ? .08 + .92 * Math.min(c.used / c.bytes, 1) : 0;
				g.fillStyle = css('--cool');
				g.fillRect(x0, y0, x1 - x0 + .5, Math.max(y1 - y0 - .4, .4));
			}
			g.globalAlpha = 1;
			if (hits && hits.has(row)) {
				g.strokeStyle = css('--found');
				g.lineWidth = 2;
				g.strokeRect(LEFT + 1, y0, w - LEFT - 2, Math.max(y1 - y0, 2));
			}
		}
		g.fillStyle = g.strokeStyle = css('--badfill');
		for (const f of pool.failures) {
			const x = place(f.ns);
			g.fillRect(x - 1, 0, 2, h);
			g.fillRect(x - 5, 0, 10, 10);
		}
		g.restore();
		g.fillStyle = css('--mute');
		g.font = '12px system-ui, sans-serif';
		for (let i = 0; i <= 4; i++) {
			const ns = view.x0 + (view.x1 - view.x0) * i / 4;
			g.textAlign = i === 4 ? 'right' : i ? 'center' : 'left';
			g.fillText(clock(ns), LEFT + (w - LEFT) * i / 4, h - 8);
			g.textAlign = 'right';
			g.fillText(size(view.y0 + (view.y1 - view.y0) * i / 4), LEFT - 6, Math.min(12 + (h - BOTTOM) * i / 4, h - BOTTOM));
		}
	};

	const under = event => {
		const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
		const ns = view.x0 + (x - LEFT) / (canvas.clientWidth - LEFT) * (view.x1 - view.x0);
		const at = view.y0 + y / (canvas.clientHeight - BOTTOM) * (view.y1 - view.y0);
		const failure = pool.failures.find(f => Math.abs(place(f.ns) - x) < 6);
		const row = rows.find(r => at >= r.y && at < r.y + r.bytes);
		return {ns, at, failure, row, cell: row && row.cells.find(c => ns >= pool.snapshots[c.at].ns && ns < until(c.at))};
	};
	const show = event => {
		const {failure, row, cell} = under(event);
		tip.hidden = !failure && !cell;
		if (tip.hidden)
			return;
		tip.textContent = failure ? `${clock(failure.ns)}: a request of ${size(failure.bytes)} failed`
			: `${row.address}: ${size(cell.used)} of ${size(cell.bytes)} in ${cell.blocks} blocks, largest free piece ${size(cell.gap)}, ${
				clock(pool.snapshots[cell.at].ns)}`;
		tip.style.left = Math.min(event.clientX + 12, innerWidth - 320) + 'px';
		tip.style.top = event.clientY + 14 + 'px';
	};
	const zoom = (factor, ns, at) => {
		const whole = pool.whole, w = Math.min((view.x1 - view.x0) * factor, whole.x1 - whole.x0);
		const h = Math.min((view.y1 - view.y0) * factor, whole.y1);
		const x0 = ns - (ns - view.x0) / (view.x1 - view.x0) * w, y0 = at - (at - view.y0) / (view.y1 - view.y0) * h;
		view.x0 = Math.max(whole.x0, Math.min(x0, whole.x1 - w));
		view.x1 = view.x0 + w;
		view.y0 = Math.max(0, Math.min(y0, whole.y1 - h));
		view.y1 = view.y0 + h;
		draw();
	};
	const move = (dx, dy) => {
		const w = view.x1 - view.x0, h = view.y1 - view.y0;
		view.x0 = Math.max(pool.whole.x0, Math.min(view.x0 + dx * w, pool.whole.x1 - w));
		view.x1 = view.x0 + w;
		view.y0 = Math.max(0, Math.min(view.y0 + dy * h, pool.whole.y1 - h));
		view.y1 = view.y0 + h;
		draw();
	};

	/* An address, or a size as ">20M", "<2M": of the newest snapshot. */
	const find = () => {
		const text = search.value.trim().toLowerCase(), sized = /^([<>])\s*([\d.]+)\s*([kmgt]?)/.exec(text);
		const limit = sized && sized[2] * 1024 ** ('kmgt'.indexOf(sized[3] || ' ') + 1);
		const right = row => sized ? (sized[1] === '>' ? row.bytes >= limit : row.bytes < limit) : row.address.includes(text);
		hits = text ? new Set(rows.filter(right)) : null;
		found.textContent = hits ? `${hits.size} found, ${size([...hits].reduce((sum, row) => sum + row.bytes, 0))}` : '';
		list();
		draw();
	};
	const list = () => {
		const at = pool.snapshots.length - 1;
		const now = rows.map(row => ({row, cell: row.cells.find(c => c.at === at)})).filter(x => x.cell && (!hits || hits.has(x.row)));
		now.sort((a, b) => (b.cell.bytes - b.cell.used) - (a.cell.bytes - a.cell.used));
		table.replaceChildren(...now.slice(0, 100).map(({row, cell}) => {
			const tr = document.createElement('tr');
			for (const text of [row.address, size(cell.bytes), size(cell.used), size(cell.bytes - cell.used), size(cell.gap), cell.blocks]) {
				const td = tr.appendChild(document.createElement('td'));
				td.textContent = text;
				td.className = 'n';
			}
			return tr;
		}));
	};
	const choose = () => {
		pool = pools[select.value];
		lay();
		find();
	};

	pools.forEach((p, i) => select.add(new Option(p.name, i)));
	canvas.addEventListener('mousemove', show);
	canvas.addEventListener('mouseleave', () => { tip.hidden = true; });
	canvas.addEventListener('wheel', event => {
		const {ns, at} = under(event);
		event.preventDefault();
		zoom(event.deltaY > 0 ? 1.25 : .8, ns, at);
	}, {passive: false});
	canvas.addEventListener('click', event => {
		const {ns, at} = under(event);
		zoom(.5, ns, at);
	});
	const keys = {ArrowLeft: [-.2, 0], ArrowRight: [.2, 0], ArrowUp: [0, -.2], ArrowDown: [0, .2]};
	addEventListener('keydown', event => {
		if (event.target === search && event.key !== 'Escape')
			return;
		if (event.key === '/') {
			event.preventDefault();
			search.focus();
		} else if (event.key === 'Escape') {
			view = {...pool.whole};
			draw();
		} else if (event.key === '+' || event.key === '-') {
			zoom(event.key === '+' ? .8 : 1.25, (view.x0 + view.x1) / 2, (view.y0 + view.y1) / 2);
		} else if (keys[event.key] && event.target !== select) {
			event.preventDefault();
			move(...keys[event.key]);
		}
	});
	search.addEventListener('input', find);
	select.addEventListener('change', choose);
	addEventListener('resize', draw);
	matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
	choose();
})();
