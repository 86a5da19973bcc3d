// SPDX-License-Identifier: MIT
"use strict";
// Polls /json every second and shows the differences between answers; what was before comes from
// /history. Everything shown is inserted as text, never as markup. Rates use the relay's clock, so a
// browser that slows down a page in the background shows fewer points, but correct ones.
const window_ms = 60000;    // for latencies, causes and failures
const mark_ms = 5000;       // between the answers that are kept for this window
const kept_ms = 3600000;    // how far the charts go back at most
const buckets = 150;        // columns of a chart
const gap_ms = 6000;        // after a longer pause, /history has what was missed
const rows_most = 50;       // of a table, unless all are shown
const totals = ["to_client", "to_backend", "accepted", "failed"];
// The causes of /history's "failed".
const failures = ["connect_failed", "no_backend", "server_reset", "backend_down", "queue_full",
	"queue_timeout", "refused_limit", "refused_rate", "no_memory"];
let samples = [];           // like those of /history, oldest first
let marks = [];             // answers within window_ms, oldest first
let before = null, newest = null;
let paused = false, misses = 0, answered = 0;
let minutes = 15, chosen = false, kind = "", wanted = "", all = false;
const opened = new Set();   // backends whose endpoints are shown

const at = (id) => document.getElementById(id);
const set = (id, text) => { const e = at(id); if (e.textContent !== text) e.textContent = text; };
const sum = (list, of) => list.reduce((all, each) => all + of(each), 0);

function scaled(n, units, base) {
	let i = 0;
	while (n >= base * 0.9995 && i < units.length - 1) { n /= base; i++; }
	return [n >= 100 || i === 0 && Number.isInteger(n) ? n.toFixed(0) : n >= 10 ? n.toFixed(1) : n.toFixed(2), units[i]];
}
const bytes = (n) => scaled(n, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"], 1024).join(" ");
const speed = (n) => bytes(n < 10 ? Math.round(n) : n) + "/s";
const count = (n) => n < 1e6 ? Math.round(n).toLocaleString("en") : scaled(n, ["", "k", "M", "G", "T"], 1000).join(" ");
const rate = (n) => n >= 100 || n === 0 ? count(n) : n.toFixed(1);
const many = (n, one, more) => count(n) + " " + (n === 1 ? one : more);
function lasted(us) {
	if (us < 1000) return us + " µs";
	if (us < 1e6) return (us / 1000).toFixed(us < 1e4 ? 2 : us < 1e5 ? 1 : 0) + " ms";
	if (us < 6e7) return (us / 1e6).toFixed(us < 1e7 ? 2 : 1) + " s";
	return time(us / 1000);
}
function time(ms) {
	const s = Math.floor(ms / 1000), m = Math.floor(s / 60), h = Math.floor(m / 60), d = Math.floor(h / 24);
	if (d) return d + " d " + h % 24 + " h";
	if (h) return h + " h " + m % 60 + " min";
	return m ? m + " min " + s % 60 + " s" : s + " s";
}
// Shows a large figure with a small unit.
function figure(id, text) {
	const e = at(id), cut = text.indexOf(" ");
	if (e.textContent === text) return;
	e.replaceChildren(cut < 0 ? text : text.slice(0, cut));
	if (cut >= 0) { const unit = document.createElement("small"); unit.textContent = text.slice(cut); e.append(unit); }
}

// The histogram of all listeners, minus that of an earlier answer: end of bucket -> count.
function merged(now, then, which) {
	const all = new Map();
	for (const [listeners, sign] of [[now.listeners, 1], [then ? then.listeners : [], -1]])
		for (const listener of listeners)
			for (const [end, n] of listener[which].buckets)
				all.set(end, (all.get(end) || 0) + sign * n);
	return [...all].filter((each) => each[1] > 0).sort((a, b) => a[0] - b[0]);
}
function percentile(buckets, part) {
	const wanted = Math.max(1, Math.ceil(part * sum(buckets, (each) => each[1])));
	let seen = 0;
	for (const [end, n] of buckets) { seen += n; if (seen >= wanted) return end; }
	return 0;
}

// Tables. A row has a key, cells and perhaps a class. Only what has changed is changed in the page: a
// table can have hundreds of rows, and a selection or the focus in it should last.
// A cell is a text, or {text, more, kind (of more), left, badge, press}.
const drawn = new Map(); // table -> key -> {row, cells as JSON}
function fill(e, cell) {
	e.replaceChildren();
	if (cell.press) {
		const button = document.createElement("button");
		button.type = "button"; button.className = "plain"; button.textContent = cell.press.text;
		button.setAttribute("aria-expanded", cell.press.open);
		button.addEventListener("click", () => toggle(cell.press.key));
		e.append(cell.text, document.createElement("br"), button);
	} else if (cell.badge) {
		const badge = document.createElement("span");
		badge.className = "badge " + cell.badge; badge.textContent = cell.text;
		e.append(badge);
	} else e.append(cell.text);
	for (const [text, kind] of [[cell.narrow, "narrow"], [cell.more, cell.kind || ""]])
		if (text) {
			const more = document.createElement("div");
			more.className = "more " + kind; more.textContent = text;
			e.append(more);
		}
}
function table(id, list, empty) {
	const body = at(id), known = drawn.get(id) || new Map(), next = new Map();
	const heads = body.closest("table").tHead.rows[0].cells;
	const focus = document.activeElement;
	if (!list.length) list = [{ key: "", cells: [{ text: empty }] }];
	list.forEach((each, nth) => {
		const key = each.key;
		let old = known.get(key);
		if (!old || old.texts.length !== each.cells.length) {
			old = { row: document.createElement("tr"), texts: [] };
			each.cells.forEach((cell, i) => {
				const e = document.createElement(i === 0 && key !== "" ? "th" : "td");
				if (i === 0 && key !== "") e.scope = "row";
				e.className = heads[i].className;
				if (key === "") { e.colSpan = heads.length; e.className = "quiet"; }
				old.row.append(e);
			});
		}
		each.cells.forEach((cell, i) => {
			if (typeof cell !== "object") cell = { text: String(cell) };
			const text = JSON.stringify(cell);
			if (old.texts[i] !== text) { fill(old.row.cells[i], cell); old.texts[i] = text; }
		});
		const name = each.name || "";
		if (old.row.className !== name) old.row.className = name;
		if (body.rows[nth] !== old.row) body.insertBefore(old.row, body.rows[nth] || null);
		next.set(key, old);
	});
	while (body.rows.length > list.length) body.lastChild.remove();
	drawn.set(id, next);
	if (focus && focus !== document.activeElement && body.contains(focus)) focus.focus();
}

// Charts. Samples are put into buckets that begin at multiples of their width, so that a line moves on
// without changing its shape. A rate is the growth of the totals in the bucket by the time in it; of
// other values the greatest counts.
function resampled(now_ms) {
	const width = minutes * 60000 / buckets, end = Math.floor(now_ms / width);
	const made = Array.from({ length: buckets }, () => null);
	for (let i = 0; i < samples.length; i++) {
		const each = samples[i], n = Math.floor(each.uptime_ms / width) - end + buckets - 1;
		if (n < 0 || n >= buckets) continue;
		const into = made[n] || (made[n] = { ms: 0, to_client: 0, to_backend: 0, accepted: 0, failed: 0, active: 0, queued: 0, connect: null });
		into.active = Math.max(into.active, each.active);
		into.queued = Math.max(into.queued, each.queued);
		if (each.connect_p99_us) into.connect = Math.max(into.connect || 0, each.connect_p99_us);
		if (i === 0) continue;
		const last = samples[i - 1];
		into.ms += each.uptime_ms - last.uptime_ms;
		// A reload that removes a listener makes a total fall.
		for (const name of totals) into[name] += Math.max(0, each[name] - last[name]);
	}
	// The relay's samples are a little more than two seconds apart.
	for (let n = 1; n + 1 < buckets; n++)
		if (!made[n] && made[n - 1] && made[n + 1]) made[n] = made[n - 1];
	return made;
}
function lineOf(made, of) {
	return made.map((each) => each ? of(each) : null);
}
const perSecond = (name) => (each) => each.ms ? each[name] / each.ms * 1000 : null;
// Both lines share one scale, which starts at 0. A line has gaps where nothing is known.
function chart(id, one, two, shown, label) {
	const svg = at(id), make = (kind, attributes) => {
		const e = document.createElementNS("http://www.w3.org/2000/svg", kind);
		for (const name in attributes) e.setAttribute(name, attributes[name]);
		return e;
	};
	const peak = Math.max(0, ...one, ...two), top = Math.max(1e-9, peak) * 1.06;
	const path = (list, closed) => {
		let d = "", began = -1;
		list.forEach((v, i) => {
			if (v === null) return;
			const known = i > 0 && list[i - 1] !== null;
			if (!known) began = i;
			d += (known ? "L" : "M") + (i + 1) + " " + (100 - v / top * 100).toFixed(2);
			if (closed && (i + 1 === list.length || list[i + 1] === null)) d += "L" + (i + 1) + " 100L" + (began + 1) + " 100Z";
		});
		return d;
	};
	const parts = [0, 50, 100].map((y) => make("path", { class: "grid", d: "M0 " + y + "H150" }));
	if (one.some((v) => v !== null)) {
		parts.push(make("path", { class: "area", d: path(one, true) }), make("path", { class: "one", d: path(one, false) }));
		if (two.some((v) => v)) parts.push(make("path", { class: "two", d: path(two, false) }));
	}
	svg.replaceChildren(...parts);
	svg.setAttribute("aria-label", label + "; the most was " + shown(peak));
	const text = peak ? "peak " + shown(peak) : "", e = svg.parentNode.firstElementChild;
	if (e.textContent !== text) e.textContent = text;
}
const spans = { 5: "5 minutes", 15: "15 minutes", 60: "hour" };
function charts(now) {
	const made = resampled(now.uptime_ms), shown = (us) => lasted(Math.round(us));
	const over = " over the last " + spans[minutes] + ": now ";
	const none = made.map(() => null);
	chart("chart-throughput", lineOf(made, perSecond("to_client")), lineOf(made, perSecond("to_backend")), speed,
		"Throughput" + over + at("to-client").textContent + " to clients, " + at("to-backend").textContent + " to backends");
	chart("chart-connections", lineOf(made, (each) => each.active), lineOf(made, (each) => each.queued), count,
		"Connections" + over + count(now.active) + " open");
	chart("chart-new", lineOf(made, perSecond("accepted")), lineOf(made, perSecond("failed")), (n) => rate(n) + "/s",
		"New connections" + over + at("accepted").textContent);
	chart("chart-connect", lineOf(made, (each) => each.connect), none, shown,
		"Connecting to backends, 99th percentile," + over + at("connect").textContent);
	for (const each of document.querySelectorAll(".ago")) each.textContent = (minutes < 60 ? minutes + " min" : "1 h") + " ago";
}

const states = {
	up: ["good", "up"], unknown: ["warn", "not checked yet"], slow: ["warn", "coming back"],
	down: ["bad", "down"], ejected: ["bad", "ejected"], drained: ["warn", "drained"],
	"not checked": ["none", "not checked"],
};
const stateOf = (each) => states[each.state] || ["warn", each.state];

// The configured weight, and the agent's percentage of it, as text.
const weightOf = (each) => each.weight + (each.agent && each.agent.weight_percent !== 100 ? " × " + each.agent.weight_percent + " %" : "");

// The urgency of a backend's state (greater is more urgent), its look, and the reason.
function troubleOf(each, lately, queued) {
	const failed = lately ? many(lately, "connect failed", "connects failed") + " in the last minute" : "";
	const check = each.last_error || "", agent = each.agent && each.agent.words || "";
	if (each.state === "down" || each.state === "ejected")
		return { rank: 6, kind: "bad", why: each.resolve_failing && !each.resolved.length ? "does not resolve" : failed || check || agent };
	if (failed) return { rank: 5, kind: "bad", why: failed };
	if (check && each.state !== "drained") return { rank: 4, kind: "warn", why: check };
	if (queued && each.state !== "drained") return { rank: 4, kind: "warn", why: many(queued, "client waits", "clients wait") + " for this route" };
	if (each.limit && each.active >= each.limit) return { rank: 4, kind: "warn", why: "full" };
	if (each.resolve_failing) return { rank: 3, kind: "warn", why: "does not resolve now" };
	if (agent && each.agent.contact === "lost") return { rank: 3, kind: "warn", why: agent };
	const bad = (each.endpoints || []).filter((one) => stateOf(one)[0] === "bad").length;
	if (bad) return { rank: 3, kind: "warn", why: bad + " of " + many(each.endpoints.length, "address", "addresses") + " down" };
	if (each.state === "unknown" || each.state === "slow") return { rank: 2, kind: "", why: agent };
	return { rank: each.state === "drained" ? 1 : 0, kind: "", why: agent };
}

// Connections that wait for bandwidth: how many now, and for how long in total.
const held = (each) => each.throttled_now.to_backend + each.throttled_now.to_client;
function throttled(each) {
	if (!each.throttled) return "–";
	return { text: count(held(each)), more: "for " + lasted(each.throttled_ms * 1000) };
}

// The addresses of a backend's name, and whether it resolves.
function resolution(each) {
	const list = each.endpoints.slice(0, 4).map((one) => one.address).join(", ") + (each.endpoints.length > 4 ? " and more" : "");
	const failed = each.resolve_failures ? many(each.resolve_failures, "lookup", "lookups") + " failed" : "";
	const state = each.resolve_failing ? (list ? "does not resolve now" : "does not resolve") : list ? "" : "being looked up";
	return [each.endpoints.length > 1 ? "" : list, state, failed].filter((part) => part).join("; ");
}
const keyOf = (each, one) => each.route + "\n" + each.address + (one ? "\n" + one.address : "");

function cellsOf(each, trouble, seconds, old, route) {
	const growth = (of) => old && seconds ? Math.max(0, of(each) - of(old)) / seconds : 0;
	const [look, text] = stateOf(each);
	return [
		"", route, { text, badge: look, more: trouble.why, kind: trouble.kind }, weightOf(each),
		count(each.active) + (each.limit ? " / " + count(each.limit) : ""),
		rate(growth((b) => b.connected)), speed(growth((b) => b.to_backend.bytes)), speed(growth((b) => b.to_client.bytes)),
		throttled(each), count(each.connected), count(each.failures),
		{ text: !each.last_check_ms ? "–" : time(Math.max(0, newest.time_ms - each.last_check_ms)) + " ago: " + (each.last_error || "ok") },
	];
}

function backends(now) {
	const seconds = before ? (now.uptime_ms - before.uptime_ms) / 1000 : 0;
	const old = new Map();
	for (const each of before ? before.backends : []) {
		old.set(keyOf(each), each);
		for (const one of each.endpoints) old.set(keyOf(each, one), one);
	}
	const queued = new Map(now.groups.map((each) => [each.group, each.queued]));
	// A new backend has no earlier failures.
	const lately = (each, key) => {
		const mark = marks.find((mark) => mark.failures.has(key));
		return mark ? Math.max(0, each.failures - mark.failures.get(key)) : 0;
	};
	const judged = now.backends.map((each, n) => ({ each, n, key: keyOf(each), trouble: troubleOf(each, lately(each, keyOf(each)), queued.get(each.route)) }));

	const kinds = new Map([["", judged.length]]);
	const inTrouble = judged.filter((a) => a.trouble.rank >= 3).length;
	if (inTrouble) kinds.set("trouble", inTrouble);
	for (const a of judged) kinds.set(a.each.state, (kinds.get(a.each.state) || 0) + 1);
	if (!kinds.has(kind)) kind = "";
	chips(kinds);
	strip(judged);

	const shown = judged.filter((a) =>
		(kind === "" || kind === a.each.state || kind === "trouble" && a.trouble.rank >= 3) &&
		(wanted === "" || [a.each.address, a.each.route, stateOf(a.each)[1], a.trouble.why, ...a.each.resolved].some((text) => text.toLowerCase().includes(wanted))));
	shown.sort((a, b) => b.trouble.rank - a.trouble.rank || a.n - b.n);
	const cut = all ? shown.length : rows_most, list = [];
	for (const { each, key, trouble } of shown.slice(0, cut)) {
		const cells = cellsOf(each, trouble, seconds, old.get(key), each.route);
		cells[0] = { text: each.address, narrow: each.route };
		if (each.named) {
			cells[0].more = resolution(each);
			cells[0].kind = each.resolve_failing ? "bad" : "";
			if (each.endpoints.length > 1)
				cells[0].press = { key, text: (opened.has(key) ? "hide " : "show ") + many(each.endpoints.length, "address", "addresses"), open: opened.has(key) };
		}
		list.push({ key, cells, name: trouble.kind ? "is-" + trouble.kind : "" });
		if (!opened.has(key)) continue;
		const within = each.endpoints.map((one, n) => ({ one, n, trouble: troubleOf(one, lately(one, keyOf(each, one)), 0) }));
		within.sort((a, b) => b.trouble.rank - a.trouble.rank || a.n - b.n);
		for (const { one, trouble } of within) {
			const cells = cellsOf(one, trouble, seconds, old.get(keyOf(each, one)), "");
			cells[0] = one.address;
			list.push({ key: keyOf(each, one), cells, name: "sub" + (trouble.kind ? " is-" + trouble.kind : "") });
		}
	}
	table("backends", list, now.backends.length ? "No backend fits." : "There are no backends.");
	at("all").hidden = shown.length <= rows_most;
	set("all", all ? "Show only the first " + rows_most : "Show all " + shown.length);
	return judged;
}

// The buttons with the number of backends in each state.
function chips(kinds) {
	const group = at("kinds"), order = ["", "trouble", "down", "ejected", "slow", "unknown", "drained", "up", "not checked"];
	const known = new Map([...group.children].map((each) => [each.dataset.kind, each]));
	let nth = 0;
	for (const name of order) {
		let e = known.get(name);
		if (!kinds.has(name)) { if (e) e.remove(); continue; }
		if (!e) {
			e = document.createElement("button");
			e.type = "button"; e.dataset.kind = name;
			e.addEventListener("click", () => { kind = name; again(); });
		}
		const text = (name === "" ? "all" : name === "trouble" ? "in trouble" : states[name][1]) + " " + count(kinds.get(name));
		if (e.textContent !== text) e.textContent = text;
		const pressed = String(name === kind);
		if (e.getAttribute("aria-pressed") !== pressed) e.setAttribute("aria-pressed", pressed);
		if (group.children[nth] !== e) group.insertBefore(e, group.children[nth] || null);
		nth++;
	}
}
// Every backend as a square, in the order of the configuration, so that each keeps its place.
function strip(judged) {
	const e = at("strip");
	e.hidden = judged.length < 12;
	if (e.hidden) return;
	while (e.children.length > judged.length) e.lastChild.remove();
	while (e.children.length < judged.length) e.append(document.createElement("i"));
	judged.forEach((a, i) => {
		const [look, text] = stateOf(a.each), cell = e.children[i];
		const name = a.trouble.kind || (look === "none" || look === "good" ? "" : a.each.state === "drained" ? "none" : look);
		const title = a.each.route + " " + a.each.address + ": " + text + (a.trouble.why ? ", " + a.trouble.why : "");
		if (cell.className !== name) cell.className = name;
		if (cell.title !== title) cell.title = title;
	});
	const bad = judged.filter((a) => a.trouble.kind).length;
	const label = judged.length + " backends, " + bad + " of them in trouble";
	if (e.getAttribute("aria-label") !== label) e.setAttribute("aria-label", label);
}
function toggle(key) {
	if (!opened.delete(key)) opened.add(key);
	again();
}

function remember(now) {
	const failed = sum(now.listeners, (each) => sum(failures, (cause) => each.ended[cause] || 0));
	const connect = before ? merged(now, before, "connect") : [];
	samples.push({
		uptime_ms: now.uptime_ms, active: now.active, queued: sum(now.groups, (each) => each.queued),
		accepted: sum(now.listeners, (each) => each.accepted), failed,
		to_backend: sum(now.listeners, (each) => each.to_backend.bytes), to_client: sum(now.listeners, (each) => each.to_client.bytes),
		connect_p99_us: connect.length ? percentile(connect, 0.99) : 0,
	});
	const gone = samples.findIndex((each) => now.uptime_ms - each.uptime_ms <= kept_ms);
	if (gone > 0) samples.splice(0, gone);
	if (marks.length && now.uptime_ms - marks[marks.length - 1].uptime_ms < mark_ms) return;
	const mark = { uptime_ms: now.uptime_ms, listeners: now.listeners, failures: new Map() };
	for (const each of now.backends) {
		mark.failures.set(keyOf(each), each.failures);
		for (const one of each.endpoints) mark.failures.set(keyOf(each, one), one.failures);
	}
	marks.push(mark);
	while (marks.length > 1 && now.uptime_ms - marks[1].uptime_ms >= window_ms) marks.shift();
}

// After a restart another process answers, and earlier answers are not comparable. If only the clock
// was set, nothing is lost: the history has everything.
function isAnother(now) {
	const moved = newest ? now.time_ms - now.uptime_ms - (newest.time_ms - newest.uptime_ms) : 0;
	return newest && (now.uptime_ms < newest.uptime_ms || Math.abs(moved) > 2000);
}
function show(now) {
	if (newest && now.uptime_ms === newest.uptime_ms) return;
	before = newest;
	newest = now;
	remember(now);
	draw(now);
}

function draw(now) {
	const then = marks.length && marks[0].uptime_ms < now.uptime_ms ? marks[0] : null;
	const seconds = before ? (now.uptime_ms - before.uptime_ms) / 1000 : 0;
	const old = new Map((before ? before.listeners : []).map((each) => [each.name, each]));
	const growth = (each, of) => old.has(each.name) && seconds ? Math.max(0, of(each) - of(old.get(each.name))) / seconds : 0;
	const grown = (of) => sum(now.listeners, (each) => growth(each, of));

	const connect = merged(now, then, "connect");
	figure("active", count(now.active));
	set("active-note", now.limit ? "of " + count(now.limit) + " at most" : "");
	set("queued", count(sum(now.groups, (each) => each.queued)));
	figure("accepted", rate(grown((each) => each.accepted)) + " /s");
	set("accepted-note", count(sum(now.listeners, (each) => each.accepted)) + " in total");
	const causes = now.listeners.length ? Object.keys(now.listeners[0].ended) : [];
	const ended = (answer, cause) => answer ? sum(answer.listeners, (each) => each.ended[cause] || 0) : 0;
	const failed = then ? sum(failures, (cause) => Math.max(0, ended(now, cause) - ended(then, cause))) : 0;
	set("failed", count(failed));
	figure("to-client", speed(grown((each) => each.to_client.bytes)));
	set("to-client-note", bytes(sum(now.listeners, (each) => each.to_client.bytes)) + " in total");
	set("to-backend", speed(grown((each) => each.to_backend.bytes)));
	set("held-back", now.listeners.some((each) => each.throttled) ? count(sum(now.listeners, held)) + " held back" : "");
	figure("connect", connect.length ? lasted(percentile(connect, 0.99)) : "–");
	set("connect-note", connect.length ? "median " + lasted(percentile(connect, 0.5)) : "none in the last minute");
	// Shortly after the start there is less to show.
	if (!chosen && (now.uptime_ms < 300000) !== (minutes === 5)) range(now.uptime_ms < 300000 ? 5 : 15);
	charts(now);

	const judged = backends(now);
	const queues = now.groups.filter((each) => each.queued || each.queue_waits || each.queue_full);
	at("queues-section").hidden = !queues.length;
	table("queues", queues.map((each) => ({ key: each.group, name: each.queued ? "is-warn" : "", cells: [
		each.group, count(each.queued) + " / " + count(each.queue_limit), count(each.queue_waits),
		each.queue_waits ? lasted(Math.round(each.queue_ms * 1000 / each.queue_waits)) : "–",
		count(each.queue_full), count(each.queue_timeouts), count(each.queue_left),
	] })), "There are no queues.");
	table("listeners", now.listeners.map((each) => ({ key: each.name, cells: [
		{ text: each.name, narrow: each.address }, each.address, count(each.active) + (each.limit ? " / " + count(each.limit) : ""),
		rate(growth(each, (l) => l.accepted)), count(each.accepted),
		bytes(each.to_client.bytes), bytes(each.to_backend.bytes), throttled(each),
	] })), "There are no listeners.");
	table("ended", causes.map((cause) => [cause.replaceAll("_", " "), ended(now, cause) - ended(then, cause), ended(now, cause)])
		.filter((each) => each[2] > 0).sort((a, b) => b[2] - a[2])
		.map(([cause, recent, ever]) => ({ key: cause, cells: [cause, then ? count(Math.max(0, recent)) : "–", count(ever)] })), "No connection has ended yet.");
	set("latency-span", then ? "in the last " + (now.uptime_ms - then.uptime_ms > 59500 ? "minute" : time(now.uptime_ms - then.uptime_ms)) : "since the start");
	table("latency", [["connect", "connecting to a backend"], ["first_byte", "backend's first byte"], ["duration", "whole connection"]].map(([which, name]) => {
		const buckets = merged(now, then, which), n = sum(buckets, (each) => each[1]);
		return { key: which, cells: [name, ...[0.5, 0.9, 0.99, 0.999].map((part) => n ? lasted(percentile(buckets, part)) : "–"), count(n)] };
	}), "");

	const paths = ["splice", "userspace"].map((path) => sum(now.listeners, (each) => each.to_client[path] + each.to_backend[path]));
	const both = paths[0] + paths[1];
	["splice", "userspace"].forEach((path, i) => {
		set(path, bytes(paths[i]) + (both ? ", " + (paths[i] / both * 100).toFixed(1) + " %" : ""));
		at("path-bar").children[i].style.width = (both ? paths[i] / both * 100 : 0) + "%";
	});
	set("pipes", now.pipes + " of " + now.pipes_limit + " pipes exist" + (now.pipes_missed ? "; none was free " + count(now.pipes_missed) + " times." : "."));

	set("about", "version " + now.version + ", up " + time(now.uptime_ms));
	set("process", now.descriptors + " of " + count(now.descriptor_limit) + " descriptors · " + count(now.tasks) + " tasks · " +
		bytes(now.resident_bytes) + " resident · " +
		now.reloads + " reloads" + (now.reload_failures ? ", " + now.reload_failures + " rejected" : "") +
		(now.accept_pauses ? " · accepting paused " + count(now.accept_pauses) + " times" : "") +
		(now.thread_limit_hits ? " · at the limit of threads " + count(now.thread_limit_hits) + " times" : "") +
		(now.log_dropped ? " · " + count(now.log_dropped) + " log lines dropped" : ""));
	const down = judged.filter((a) => a.trouble.rank === 6).length;
	const others = judged.filter((a) => a.trouble.rank >= 3).length - down;
	const parts = ["ready"];
	if (down) parts.push(many(down, "backend", "backends") + " down");
	if (others) parts.push(down ? others + " more in trouble" : many(others, "backend", "backends") + " in trouble");
	if (!now.ready) state("bad", "not ready");
	else state(parts.length > 1 ? "warn" : "good", parts.join(", "));
}
function again() { if (newest) draw(newest); }

// Screen readers announce changes of state, but not the figures, which change every second.
function state(kind, text) {
	const e = at("ready");
	if (e.textContent === text && e.classList.contains(kind)) return;
	e.className = "badge " + kind;
	e.textContent = text;
	set("told", "The relay is " + text);
	document.title = (kind === "good" ? "" : text + " – ") + "sennit-relay";
}

async function ask(path) {
	const answer = await fetch(path, { cache: "no-store", signal: AbortSignal.timeout(5000) });
	if (!answer.ok) throw new Error("status " + answer.status);
	return answer.json();
}
// Fetches the history of the relay that has given this answer: since the last sample, or all.
async function catchUp(now) {
	const restarted = isAnother(now);
	const since = samples.length && !restarted ? samples[samples.length - 1].uptime_ms : 0;
	if (since && now.uptime_ms - since < gap_ms) return;
	const told = await ask("history?since=" + since), names = Object.keys(told);
	const missed = told.uptime_ms.map((_, i) => Object.fromEntries(names.map((name) => [name, told[name][i]])));
	samples = (since ? samples : []).concat(missed.filter((each) => each.uptime_ms < now.uptime_ms));
	if (restarted) { before = newest = null; marks = []; }
}

async function poll() {
	if (!paused) {
		try {
			const told = await ask("json");
			if (!paused) { await catchUp(told); show(told); }
			misses = 0;
			answered = Date.now();
			set("trouble", "");
			at("main").classList.remove("stale");
		} catch (error) {
			if (++misses > 1) {
				state("bad", "no answer");
				set("trouble", "The relay does not answer (" + error.message + "). " +
					(answered ? "The figures are from " + new Date(answered).toLocaleTimeString() + "." : ""));
				at("main").classList.add("stale");
			}
		}
	}
	setTimeout(poll, 1000);
}
at("pause").addEventListener("click", () => {
	paused = !paused;
	set("pause", paused ? "Resume" : "Pause");
	at("pause").setAttribute("aria-pressed", paused);
});
at("all").addEventListener("click", () => { all = !all; again(); });
at("find").addEventListener("input", () => { wanted = at("find").value.trim().toLowerCase(); again(); });
for (const each of at("ranges").children)
	each.addEventListener("click", () => {
		chosen = true;
		range(Number(each.dataset.minutes));
		again();
	});
function range(to) {
	minutes = to;
	for (const each of at("ranges").children) each.setAttribute("aria-pressed", Number(each.dataset.minutes) === to);
}
poll();
