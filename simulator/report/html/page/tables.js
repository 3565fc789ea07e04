// What stands above and below the timeline. All texts are set as text: a name may contain anything.

const MOMENTS = 8; // moments of a broken promise that are shown at first
const FEW = 20; // rows of a table that are shown at first
const EDGES = [0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, Infinity];

function made(tag, { text, ...more } = {}, ...inside) {
  const element = Object.assign(document.createElement(tag), more);
  if (text !== undefined) element.textContent = text;
  element.append(...inside.filter((each) => each !== null && each !== undefined));
  return element;
}

function number(value) {
  return Number(value).toLocaleString("en-US");
}

function seconds(value) {
  return value < 0.1 ? `${(value * 1000).toFixed(0)} ms` : `${value.toFixed(value < 10 ? 2 : 1)} s`;
}

/** A table in a box that scrolls; more rows than a few are shown when somebody asks. */
function table(heads, rows, draw) {
  const body = made("tbody");
  const named = (line) => {
    [...line.children].forEach((cell, i) => { cell.dataset.head = heads[i].replace(/^#/, ""); });
    return line;
  };
  const fill = (many) => body.replaceChildren(...rows.slice(0, many).map((each) => named(draw(each))));
  fill(FEW);
  const head = made("tr", {}, ...heads.map((each) => made("th", { text: each.replace(/^#/, ""), scope: "col", className: each[0] === "#" ? "number" : "" })));
  const box = made("div", { className: "wide" }, made("table", {}, made("thead", {}, head), body));
  if (rows.length > FEW) {
    const more = made("button", { type: "button", className: "more", text: `Show all ${number(rows.length)}` });
    more.addEventListener("click", () => { fill(rows.length); more.remove(); });
    box.append(more);
  }
  return box;
}

function row(...cells) {
  return made("tr", {}, ...cells.map((cell) => (cell instanceof Node ? made("td", {}, cell)
    : made("td", { text: String(cell ?? ""), className: typeof cell === "number" || /^[\d.,]+( m?s)?$/.test(String(cell)) ? "number" : "name" }))));
}

/** A link to a moment: a little of what is before and after it is shown, too. */
function moment(run, { at, end, lock, text }) {
  const last = end ?? at;
  const pad = last > at ? Math.max((last - at) * 0.6, 0.1) : 1.5;
  const t = clamped(at - pad, last + pad, run.duration);
  return made("a", { href: makeHash({ t, lock: lock ? `=${run.label(lock)}` : "" }), text });
}

function showTop(run) {
  const get = (id) => document.getElementById(id);
  get("title").textContent = run.title;
  get("headline").textContent = run.headline.text;
  get("headline").className = run.headline.mark;
  get("facts").append(...run.facts.map(([name, value]) => made("div", { className: name === "overlaps" && value !== "0" ? "bad" : "" },
    made("dt", { text: name }), made("dd", { text: value }))));
  get("lines").append(...run.lines.map(([mark, text]) => made("li", { className: mark, text })));
  if (run.story.length) Object.assign(get("story"), { hidden: false, textContent: run.story.join("\n") });
  if (run.again) {
    get("again").hidden = false;
    get("again").querySelector("code").textContent = run.again;
  }
  if (!run.troubles.length) return;
  get("violations").hidden = false;
  const list = get("violations").querySelector("ol");
  for (const check of new Set(run.troubles.map((trouble) => trouble.check))) list.append(...violation(run, check));
}

/** What one check found broken: its sentences, and under them the moments, as links. */
function violation(run, name) {
  const mine = run.troubles.filter((trouble) => trouble.check === name);
  const located = mine.filter((trouble) => trouble.at !== null);
  const sentences = (run.checks.find((check) => check.name === name)?.findings ?? []).filter(([kind]) => kind === "violation").map(([, text]) => text);
  const place = (text) => {
    const told = mine.find((trouble) => trouble.text === text && trouble.function);
    return told ? [" – ", made("a", { href: makeHash({ lock: told.function }), text: `show ${told.function}` })] : [];
  };
  const items = sentences.map((text) => made("li", { text }, ...place(text)));
  const links = located.map((trouble) => made("li", {}, moment(run, trouble), ` at ${trouble.at.toFixed(2)} s`));
  if (!items.length) return located.length ? links : mine.map((trouble) => made("li", { text: trouble.text }));
  if (links.length) items[items.length - 1].append(folded(links, MOMENTS));
  return items;
}

/** A list whose rest is shown when somebody asks. */
function folded(items, many) {
  const list = made("ul", {}, ...items.slice(0, many));
  if (items.length <= many) return list;
  const more = made("button", { type: "button", className: "more", text: `Show ${number(items.length - many)} more` });
  more.addEventListener("click", () => { list.append(...items.slice(many)); more.remove(); });
  return made("div", {}, list, more);
}

function showChecks(run) {
  const say = { violation: "broken", unproven: "not shown", note: "note" };
  const box = document.getElementById("checks");
  if (!run.checks.length) box.hidden = true;
  box.append(table(["check", "", "looked at", "found"], run.checks, (check) => {
    const kinds = check.findings.map(([kind]) => kind);
    const idle = check.looked.every(([, many]) => many === 0);
    const mark = kinds.includes("violation") ? "bad" : kinds.includes("unproven") || idle ? "open" : "good";
    const found = made("div", {}, ...check.findings.map(([kind, text]) => made("div", { text: `${say[kind]}: ${text}`, className: kind === "violation" ? "bad" : "" })));
    if (!check.findings.length) found.textContent = idle ? "nothing to look at" : "nothing wrong";
    const sign = made("span", { text: { bad: "✗ broken", open: "? open", good: "✓ holds" }[mark], className: `${mark} sign` });
    return row(made("span", {}, made("b", { text: check.name }), made("br"), made("span", { className: "faint", text: check.promise })), sign,
      made("span", { text: check.looked.map(([what, many]) => `${what}: ${number(many)}`).join(", ") }), found);
  }));
}

function showFaults(run) {
  const told = run.faults.length ? run.faults : run.marks.filter((mark) => mark.kind === "fault")
    .map((mark) => ({ ...mark, kind: mark.fault, seconds: mark.end - mark.at, excused: "" }));
  if (!told.length) return;
  const box = document.getElementById("faults");
  box.hidden = false;
  box.append(table(["#at", "fault", "hosts", "#lasted", "#requests hit", "what it excused"], told, (fault) => row(
    made("span", {}, moment(run, { at: fault.at, end: fault.at + (fault.seconds ?? 0), text: fault.at.toFixed(1) })), fault.what || fault.kind,
    (fault.hosts ?? []).join(", "), fault.seconds === null || fault.seconds === undefined ? "" : seconds(fault.seconds), fault.hits ?? 0, fault.excused || "")));
}

/** How long each function's invocations waited until they had the lock. */
function showWaiting(run) {
  const box = document.getElementById("waiting");
  const functions = new Map();
  for (const wait of run.waits) {
    if (!functions.has(wait.function)) functions.set(wait.function, []);
    functions.get(wait.function).push(wait);
  }
  if (!functions.size) {
    box.append(made("p", { className: "faint", text: "Nobody asked for a lock." }));
    return;
  }
  box.append(table(["function", "#asked", "#got it", "#half below", "#95 % below", "#longest", "how long until they had it"],
    [...functions.entries()].sort(([a], [b]) => (a < b ? -1 : 1)), ([name, waits]) => {
      const got = waits.filter((wait) => wait.ending === "acquired").map((wait) => wait.end - wait.start).sort((a, b) => a - b);
      return row(name || "(no function)", number(waits.length), number(got.length), ...[0.5, 0.95, 1].map((share) => seconds(quantile(got, share))), bars(histogram(got, EDGES)));
    }));
}

function bars(counts) {
  const make = (tag, more, text) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(more)) element.setAttribute(name, value);
    if (text) element.textContent = text;
    return element;
  };
  const words = EDGES.map((edge, i) => (edge === Infinity ? "more" : i && edge >= 1 ? `${edge} s` : `${edge * 1000} ms`));
  const told = counts.map((many, i) => `${i === counts.length - 1 ? "30 s or" : "below"} ${words[i]}: ${many}`).join(", ");
  const drawn = make("svg", { width: counts.length * 34, height: 52, role: "img", "aria-label": told });
  const most = Math.max(...counts, 1);
  counts.forEach((many, i) => {
    const high = many ? Math.max((many / most) * 26, 1.5) : 0;
    drawn.append(make("rect", { x: i * 34 + 2, y: 38 - high, width: 28, height: high }), make("text", { x: i * 34 + 16, y: 49, "text-anchor": "middle" }, words[i]));
    if (many) drawn.append(make("text", { x: i * 34 + 16, y: 35 - high, "text-anchor": "middle" }, number(many)));
  });
  return drawn;
}

function showMessages(run) {
  const box = document.getElementById("messages");
  const rank = (message) => ["lost", "stuck", "poisoned", "open"].indexOf(message.state) + 1 || 9;
  if (!run.messages.length) {
    box.append(made("p", { className: "faint", text: "No message was sent." }));
    return;
  }
  const worst = [...run.messages].sort((a, b) => rank(a) - rank(b) || a.sent - b.sent);
  const first = (message) => (message.received.length ? seconds(Math.max(message.received[0][0] - message.sent, 0)) : "");
  box.append(table(["message", "queue", "key", "#sent at", "#first received after", "received by", "#done after", "state"], worst, (message) => row(
    made("span", {}, moment(run, { at: message.sent, end: message.done ?? run.duration, text: message.id.slice(0, 8) })), message.queue, message.key,
    message.sent.toFixed(2), first(message), message.received.map(([, host]) => host).join(", "), message.done === null ? "" : seconds(message.done - message.sent),
    made("span", { text: message.state + (message.deferred ? `, put back ${message.deferred} times` : ""), className: ["lost", "stuck"].includes(message.state) ? "bad" : "" }))));
}

function showCalls(run) {
  const box = document.getElementById("calls");
  const kinds = [...new Set(Object.values(run.calls).flatMap((calls) => Object.keys(calls)))].sort();
  if (!kinds.length) {
    box.append(made("p", { className: "faint", text: "No request was seen." }));
    return;
  }
  const sum = (calls) => kinds.reduce((all, kind) => all + (calls[kind] ?? 0), 0);
  const total = Object.fromEntries(kinds.map((kind) => [kind, Object.values(run.calls).reduce((all, calls) => all + (calls[kind] ?? 0), 0)]));
  const hosts = [...run.hosts.flatMap((host) => host.lives.map((life) => life.name)), ...Object.keys(run.calls)].filter((name, i, all) => run.calls[name] && all.indexOf(name) === i);
  box.append(made("p", { className: "faint", text: "Requests that the app's processes sent to the storage, as the hosts saw them. A killed process may have sent some more in its last second." }));
  box.append(table(["host", ...kinds.map((kind) => `#${kind}`), "#in all"], [["all hosts", total], ...hosts.map((host) => [host, run.calls[host]])],
    ([name, calls]) => Object.assign(row(name, ...kinds.map((kind) => number(calls[kind] ?? 0)), number(sum(calls))), { className: calls === total ? "total" : "" })));
}
