// Lanes: what lies in which row of which lane, under the filters.

const ROW = 15; // pixels of a row of bodies
const LEASE = 8;
const WAITS = 9;
const AXIS = 26;
const MOST_ROWS = 6;
const FOLDED = 3; // so many quiet hosts share a lane
const LINE = 5; // pixels of a row of messages
const ABOVE = 16; // pixels above them, for how many there are at most
const COUNTED = 22; // pixels below them, for how many there are
const IN_TROUBLE = ["lost", "stuck", "poisoned"];

/** Make all lanes that the filters let through, from top to bottom, with their places. */
function layOut(run, filter) {
  const lockIn = (lock) => lets(filter.lock, run.label(lock), lock);
  const hostIn = (name) => lets(filter.host, run.hostOf.get(name)?.name ?? name, name);
  const both = (thing) => lockIn(thing.lock) && hostIn(thing.host);
  const by = (things, key) => {
    const found = new Map();
    for (const thing of things) {
      const name = key(thing);
      if (found.has(name)) found.get(name).push(thing);
      else found.set(name, [thing]);
    }
    return found;
  };
  const bodies = run.bodies.filter(both);
  const bad = new Set(run.overlaps.filter((each) => !each.caught).flatMap(({ lock, hosts, owners }) => hosts.map((host, i) => `${lock}\n${host}\n${owners[i]}`)));
  const bars = bodies.map((body) => ({ kind: "body", s: body.start, e: body.end, of: body, bad: bad.has(`${body.lock}\n${body.host}\n${body.owner}`) }));
  const lanes = [faultLane(run, filter, hostIn, lockIn)];
  const ofHost = by(bars, (bar) => run.hostOf.get(bar.of.host)?.name ?? bar.of.host);
  const ran = new Set(run.bodies.map((body) => run.hostOf.get(body.host)?.name ?? body.host));
  const quiet = [];
  for (const host of run.hosts) if (hostIn(host.name) || host.lives.some((life) => hostIn(life.name))) {
    if (filter.lock && !ofHost.has(host.name)) continue;
    const lane = hostLane(run, host, ofHost.get(host.name) ?? []);
    (filter.host || ran.has(host.name) || lane.items.length ? lanes : quiet).push(lane);
  }
  lanes.push(...(quiet.length < FOLDED ? quiet : [foldedLane(quiet)]));
  const things = { bars: by(bars, (bar) => bar.of.lock), waits: by(run.waits.filter(both), (wait) => wait.lock) };
  for (const name of ["holdings", "leases"]) things[name] = by(run[name].filter(both), (each) => each.lock);
  for (const lock of run.locks) {
    const used = ["bars", "holdings", "leases", "waits"].some((name) => things[name].has(lock.lock));
    if (lockIn(lock.lock) && (used || !filter.host)) lanes.push(lockLane(run, lock, things));
  }
  if (!filter.lock && !filter.host) lanes.push(...queueLanes(run, by));
  let y = AXIS;
  for (const lane of lanes.filter(Boolean)) {
    lane.y = y;
    y += lane.h;
    lane.longest = lane.items.reduce((most, item) => Math.max(most, item.e - item.s), 0);
  }
  return { lanes: lanes.filter(Boolean), height: y + 4 };
}

function sorted(items) {
  return items.sort((a, b) => a.s - b.s || a.e - b.e);
}

/** Whether a mark is a fault that strikes at a moment. Between its records some milliseconds may pass. */
function isInstant(mark) {
  return mark.kind === "fault" && (mark.end === mark.at || ["kill", "break", "drain"].includes(mark.fault));
}

function faultLane(run, filter, hostIn, lockIn) {
  const items = sorted(run.marks
    .filter((mark) => ["fault", "kill", "pause", "drain", "crash", "operator", "worker ended", "healed", "finding"].includes(mark.kind))
    .filter((mark) => (!mark.hosts || mark.hosts.some(hostIn)) && (!mark.lock || !filter.lock || lockIn(mark.lock)))
    .map((mark) => ({ kind: "mark", s: mark.at, e: Math.max(mark.end, mark.at), of: mark, bad: true })));
  if (!items.length) return null;
  const wide = items.map((item) => ({ s: item.s, e: Math.max(item.e, item.s + run.duration / 45) }));
  const rows = packRows(wide, MOST_ROWS);
  items.forEach((item, i) => { item.row = wide[i].row; });
  return { type: "fault", name: "faults", label: "faults", items, rows, h: rows * ROW + 9 };
}

function hostLane(run, host, bars) {
  const items = sorted(bars.map((bar) => ({ ...bar })));
  const rows = packRows(items, MOST_ROWS);
  const names = new Set(host.lives.map((life) => life.name));
  const marks = run.marks.filter((mark) => mark.hosts?.some((name) => names.has(name) || name === host.name));
  const bands = marks.filter((mark) => mark.end > mark.at);
  items.push(...marks.filter((mark) => ["kill", "crash", "lost", "drain", "finding"].includes(mark.kind) || isInstant(mark))
    .map((mark) => ({ kind: "mark", s: mark.at, e: mark.at, of: mark, row: 0, bad: true })));
  return { type: "host", name: host.name, label: host.name, host, items: sorted(items), rows, bands, h: rows * ROW + 9 };
}

/** One lane for hosts that never ran a body, and to which nothing happened: a filter for a host shows its own lane. */
function foldedLane(lanes) {
  const host = { name: "", lives: lanes.flatMap((lane) => lane.host.lives) };
  const label = `${lanes.length} hosts ran no body`;
  return { ...lanes[0], name: "", label, host, folded: lanes.length, bands: lanes.flatMap((lane) => lane.bands) };
}

function lockLane(run, lock, things) {
  const bars = sorted((things.bars.get(lock.lock) ?? []).map((bar) => ({ ...bar })));
  const rows = packRows(bars, MOST_ROWS);
  const holds = (things.holdings.get(lock.lock) ?? []).map((of) => ({ kind: "holding", s: of.start, e: of.end, of, row: 0 }));
  const leases = sorted((things.leases.get(lock.lock) ?? []).map((of) => ({ kind: "lease", s: of.start, e: of.end, of, row: rows })));
  const marks = run.marks.filter((mark) => mark.lock === lock.lock && (["lost", "deadline", "operator", "kill", "finding"].includes(mark.kind) || isInstant(mark)))
    .map((of) => ({ kind: "mark", s: of.at, e: of.at, of, row: of.kind === "deadline" ? rows : 0, bad: true }));
  const overs = run.takeovers.filter((over) => over.lock === lock.lock)
    .map((of) => ({ kind: "takeover", s: of.at, e: Math.max(of.taken ?? of.bound ?? of.at, of.bound ?? 0), of, row: 0, bad: true }));
  const overlaps = run.overlaps.filter((each) => each.lock === lock.lock)
    .map((of) => ({ kind: "overlap", s: of.start, e: of.end, of, row: 0, bad: true }));
  const waiting = steps((things.waits.get(lock.lock) ?? []).map((wait) => [wait.start, wait.end]));
  const items = sorted([...holds, ...bars, ...leases, ...marks, ...overs, ...overlaps]);
  const broken = overlaps.some((each) => !each.of.caught) || marks.some((mark) => mark.of.kind === "finding");
  return { type: "lock", name: lock.lock, label: lock.label, lock, items, rows, waiting, broken, h: rows * ROW + LEASE + WAITS + 9 };
}

function queueLanes(run, by) {
  return [...by(run.messages, (message) => message.queue).entries()].map(([queue, messages]) => {
    const items = sorted(messages.map((of) => ({ kind: "message", s: of.sent, e: of.done ?? run.duration, of, bad: IN_TROUBLE.includes(of.state) })));
    const rows = packRows(items, MOST_ROWS);
    const waiting = steps(items.map((item) => [item.s, item.e]));
    return { type: "queue", name: queue, label: `${queue} (under way)`, rows, h: ABOVE + rows * LINE + COUNTED, items, waiting };
  });
}
