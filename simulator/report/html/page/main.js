// Put the page together.

/** What is told of a thing of the chart: a title, facts, and the records behind it. */
function described(run, item) {
  const { kind, of } = item;
  const span = (start, end) => `${start.toFixed(3)} s to ${end.toFixed(3)} s (${seconds(end - start)})`;
  const what = {
    body: () => [`${of.function || "a body"} on ${of.host}`, [`inside ${run.label(of.lock)}`, span(of.start, of.end), `ended: ${of.ending}`,
      of.held ? `token ${of.token ?? "none"}` : "WITHOUT holding the lock"], run.notes.ofOwner(of.host, of.owner)],
    holding: () => [`${of.host} holds ${run.label(of.lock)}`, [span(of.start, of.end), `token ${of.token ?? "none"}`, `ended: ${of.ending}`], run.notes.ofOwner(of.host, of.owner)],
    lease: () => [`lease of ${of.host} on ${run.label(of.lock)}`, [span(of.start, of.end), `${of.ending}${of.seen ? "" : " (concluded: no request was seen)"}`,
      `renewed ${of.renewed.length} times`, of.refused.length ? `${of.refused.length} renewals failed` : "", `would expire at ${of.expires.toFixed(2)} s`,
      `deadline of its holder ${of.deadline.toFixed(2)} s`], run.notes.ofLease(of.host, of.blob, of.start, of.end)],
    overlap: () => [`${of.hosts[0]} and ${of.hosts[1]} are both inside ${run.label(of.lock)}`, [span(of.start, of.end),
      of.caught ? "excused: one of them could not be stopped, and was told" : "VIOLATION"],
      of.owners.flatMap((owner, i) => run.notes.ofOwner(of.hosts[i], owner)).sort((a, b) => a.at - b.at)],
    takeover: () => [`${run.label(of.lock)} after the kill of ${of.victim}`, [of.taken === null ? of.state : `${of.by} took it over after ${seconds(of.taken - of.at)}: ${of.state}`,
      of.bound === null ? "" : `bound ${seconds(of.bound - of.at)}`, of.token === null ? "" : `token ${of.token}`], run.notes.around([of.victim, of.by], of.taken ?? of.at, 0.3)],
    mark: () => [of.what, [of.end > of.at ? span(of.at, of.end) : `at ${of.at.toFixed(3)} s`, of.lock ? run.label(of.lock) : "", of.hits ? `${of.hits} requests hit` : ""],
      run.notes.around(of.hosts ?? ["fleet", "world"], of.at, 0.25)],
    message: () => [`message ${of.id} of ${of.queue}`, [of.key ? `key ${of.key}` : "", `sent at ${of.sent.toFixed(2)} s`,
      ...of.received.map(([at, host]) => `received by ${host} at ${at.toFixed(2)} s`), of.done === null ? "" : `done after ${seconds(of.done - of.sent)}`,
      of.deferred ? `put back ${of.deferred} times` : "", of.state], run.notes.ofOwner("", of.id)],
  };
  const [title, facts, notes] = what[kind]();
  return { title, facts: facts.filter(Boolean), notes, at: item.s, end: item.e };
}

function cards(run, { title, facts, notes, at, end }, most, link) {
  const parts = [made("div", {}, made("b", { text: title })), made("div", { text: facts.join(" · ") })];
  if (notes.length) {
    const lines = notes.slice(0, most).map((note) => made("li", { text: `${note.at.toFixed(3)}  ${note.host}  ${note.text}` }));
    if (notes.length > most) lines.push(made("li", { className: "faint", text: `and ${notes.length - most} more` }));
    parts.push(made("ul", {}, ...lines));
  }
  if (link) parts.push(moment(run, { at, end, text: "Link to this moment" }));
  return parts;
}

const SAID = { finding: "a broken promise", kill: "killed", crash: "crashed", lost: "learns of a loss", drain: "drained", pause: "stands still", healed: "all faults are undone" };

function legend(colors) {
  const swatch = (paint) => {
    const canvas = made("canvas", { width: 60, height: 28 });
    const ctx = canvas.getContext("2d");
    ctx.scale(2, 2);
    paint(ctx);
    return canvas;
  };
  const filled = (color, y, high) => (ctx) => { ctx.fillStyle = color; ctx.fillRect(0, y, 30, high); };
  const lines = [
    ["a body: in host lanes its colour is the lock's, in lock lanes the host's", filled(`hsl(${hue(2)}, 52%, ${colors.sheen})`, 1, 12)],
    ["two inside one lock", filled(colors.bad, 1, 12)],
    ["the same, excused", filled(colors.open, 1, 3)],
    ["a lease, with its renewals", (ctx) => { filled(colors.lease, 6, 3)(ctx); ctx.fillRect(10, 3, 1.5, 8); ctx.fillRect(20, 3, 1.5, 8); }],
    ["a lease that expired", (ctx) => { filled(colors.lease, 6, 3)(ctx); ctx.fillStyle = colors.open; ctx.fillRect(27, 3, 3, 8); }],
    ["a lease that an operator broke", (ctx) => { filled(colors.lease, 6, 3)(ctx); ctx.fillStyle = colors.fault; ctx.fillRect(27, 3, 3, 8); }],
    ["a fault", filled(colors.fault, 1, 12)],
    ["a message: it waits, then it has its host's colour", (ctx) => { filled(colors.lease, 5, 4)(ctx); ctx.fillStyle = `hsl(${hue(2)}, 52%, ${colors.sheen})`; ctx.fillRect(12, 5, 18, 4); }],
    ["a hold, from the lock's word: behind the bodies of a lock lane", (ctx) => { ctx.globalAlpha = 0.28; filled(`hsl(${hue(2)}, 52%, ${colors.sheen})`, 0, 14)(ctx); }],
    ["a body that lost its lock, and one that was killed or failed at its end", (ctx) => { filled(`hsl(${hue(2)}, 52%, ${colors.sheen})`, 1, 12)(ctx); stripes(ctx, 0, 1, 30, 12, colors.back, 0.35); ctx.fillStyle = colors.open; ctx.fillRect(28, 0, 2, 14); }],
    ["a renewal that was refused", (ctx) => { filled(colors.lease, 6, 3)(ctx); ctx.fillStyle = colors.open; ctx.fillRect(14, 3, 2, 8); }],
    ["a lease that another host took early", (ctx) => { filled(colors.lease, 6, 3)(ctx); ctx.fillStyle = colors.bad; ctx.fillRect(27, 3, 3, 8); }],
    ["a host that lives", filled(colors.alive, 1, 12)],
    ["a host under a fault", filled(colors.band, 1, 12)],
    ["how many wait", filled(colors.wait, 4, 9)],
    ["stands still", (ctx) => stripes(ctx, 0, 0, 30, 14, colors.pause)],
    ["taken over; the upright line is the bound", (ctx) => { ctx.strokeStyle = ctx.fillStyle = colors.good; ctx.lineWidth = 2; ctx.setLineDash([3, 3]); line(ctx, 0, 7, 20, 7); triangle(ctx, 21, 7, 4); ctx.fillRect(26, 0, 2, 14); }],
    ["taken over too late, or by nobody", (ctx) => { ctx.strokeStyle = ctx.fillStyle = colors.bad; ctx.lineWidth = 2; ctx.setLineDash([3, 3]); line(ctx, 0, 7, 20, 7); triangle(ctx, 21, 7, 4); }],
    [`Signs: ${Object.entries(SHAPES).map(([kind, sign]) => `${sign} ${SAID[kind] ?? kind}`).join(", ")}`, null],
    [`Faults: ${Object.entries(FAULTS).map(([kind, sign]) => `${sign} ${kind}`).join(", ")}`, null],
  ];
  document.getElementById("legend").replaceChildren(...lines.map(([words, paint]) => made("li", {}, paint && swatch(paint), words)));
}

function start() {
  const run = readRun(JSON.parse(document.getElementById("data").textContent));
  const get = (id) => document.getElementById(id);
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  root.dataset.theme = dark.matches ? "dark" : "light";
  const page = { box: get("chart"), lanes: get("lanes"), spacer: get("spacer"), overview: get("overview"), range: get("range"), shown: get("shown") };
  const chart = new Chart(run, page);
  const dress = (theme) => {
    root.dataset.theme = theme;
    get("theme").textContent = theme === "dark" ? "Light" : "Dark";
    chart.colors = palette();
    legend(chart.colors);
    chart.draw();
  };
  dress(root.dataset.theme);
  dark.addEventListener("change", (media) => dress(media.matches ? "dark" : "light"));
  get("theme").addEventListener("click", () => dress(root.dataset.theme === "dark" ? "light" : "dark"));

  const tell = {
    tip(found, event) {
      get("tip").hidden = !found?.item;
      if (!found?.item) return;
      get("tip").replaceChildren(...cards(run, described(run, found.item), 10, false));
      const { width, height } = get("tip").getBoundingClientRect();
      get("tip").style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - width - 6))}px`;
      get("tip").style.top = `${event.clientY + 16 + height > innerHeight ? Math.max(4, event.clientY - height - 12) : event.clientY + 16}px`;
    },
    keep(item, lane) {
      const shownItem = item ? cards(run, described(run, item), 200, true) : lane ? [made("div", { text: `Lane ${lane.label}: ${lane.items.length} things. N goes to the next.` })] : [];
      get("detail").replaceChildren(...shownItem);
    },
  };
  listen(chart, page, tell);
  const follow = () => {
    const { t, lock, host } = readHash(location.hash);
    if (!t && lock === undefined && host === undefined) return;
    get("lock").value = lock ?? "";
    get("host").value = host ?? "";
    chart.show({ window: t ?? [0, run.duration], lock: lock ?? "", host: host ?? "" }, true);
  };
  window.addEventListener("hashchange", () => {
    follow();
    if (location.hash) page.box.scrollIntoView({ block: "nearest" });
  });
  for (const show of [showTop, showChecks, showFaults, showWaiting, showMessages, showCalls]) show(run);
  if (!run.hosts.length) { // nothing ran that could be drawn
    for (const id of ["timeline", "waiting", "messages", "calls"]) get(id).hidden = true;
    document.querySelector(".skip").hidden = true;
  }
  follow();
  chart.drawNow();
  window.report = { run, chart }; // for those who look closer, and for tests
}

start();
