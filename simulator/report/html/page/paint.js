// Painting: the lanes that can be seen, as they are in the window of time.

const SHAPES = { finding: "✗", kill: "✕", crash: "✕", lost: "!", deadline: "⊣", operator: "⚡", drain: "↓", healed: "♥", pause: "‖", "worker ended": "✕" };
const FAULTS = { kill: "✕", pause: "‖", partition: "⇹", lose: "?", delay: "…", duplicate: "2", throttle: "◔", error: "5", break: "⚡", drain: "↓", forget: "∅" };

/** The colour of a mark. Red is for what is broken: a fault is none. */
function toned(mark, colors) {
  if (mark.kind === "healed") return colors.good;
  if (["finding", "crash", "worker ended"].includes(mark.kind)) return colors.bad;
  return ["lost", "deadline"].includes(mark.kind) ? colors.open : colors.fault;
}

/** The colours of the style sheet, read once for each theme. */
function palette() {
  const style = getComputedStyle(document.documentElement);
  const names = ["back", "panel", "line", "grid", "ink", "faint", "good", "bad", "open", "accent", "stripe", "alive", "lease", "wait", "band", "sheen", "text-on", "pause", "fault"];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

const LARGEST = 30000; // pixels: no browser makes a higher canvas

/** Make a canvas as sharp as the screen, and return what paints on it. On paper a very high one is coarser. */
function sharpen(canvas, width, height) {
  const ratio = Math.min(window.devicePixelRatio || 1, 2, LARGEST / height);
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = `${height}px`;
  }
  const ctx = canvas.getContext("2d");
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  return ctx;
}

const FONT = "11px system-ui, sans-serif";
const NAME = 13; // pixels of a line of a lane's name
const BESIDE = 16; // pixels of the gutter beside a name

/** What measures texts as the chart writes them. */
function measure() {
  const ctx = document.createElement("canvas").getContext("2d");
  ctx.font = FONT;
  return (text) => ctx.measureText(text).width;
}

/** How wide the widest of these names is. */
function widest(names) {
  const wide = measure();
  return names.reduce((most, name) => Math.max(most, wide(name)), 0);
}

/** Paint all lanes between two heights. `place` has x(t), the width, the gutter and the window. */
function paintLanes(ctx, run, lanes, place, colors, top, height) {
  ctx.fillStyle = colors.back;
  ctx.fillRect(0, 0, place.width, height);
  ctx.font = FONT;
  ctx.textBaseline = "middle";
  const seen = lanes.filter((lane) => lane.y + lane.h > top && lane.y < top + height);
  const axis = ticks(place.window[0], place.window[1], place.width - place.gutter);
  seen.forEach((lane) => {
    const y = lane.y - top;
    ctx.fillStyle = lanes.indexOf(lane) % 2 ? colors.stripe : colors.back;
    ctx.fillRect(0, y, place.width, lane.h);
  });
  ctx.fillStyle = colors.grid;
  for (const [t] of axis) ctx.fillRect(Math.round(place.x(t)), 0, 1, height);
  ctx.save();
  ctx.beginPath();
  ctx.rect(place.gutter, 0, place.width - place.gutter, height);
  ctx.clip();
  for (const lane of seen) paintLane(ctx, run, lane, place, colors, lane.y - top);
  ctx.restore();
  for (const lane of seen) paintName(ctx, lane, place, colors, lane.y - top);
  paintAxis(ctx, axis, place, colors);
}

function paintAxis(ctx, axis, place, colors) {
  ctx.fillStyle = colors.panel;
  ctx.fillRect(0, 0, place.width, AXIS - 2);
  ctx.fillStyle = colors.faint;
  ctx.textAlign = "center";
  for (const [t, words] of axis) {
    const x = place.x(t);
    if (x > place.gutter + 8) ctx.fillText(words, Math.min(x, place.width - 16), AXIS / 2 - 1);
  }
  ctx.textAlign = "left";
  ctx.fillText("seconds", 8, AXIS / 2 - 1);
}

function paintName(ctx, lane, place, colors, y) {
  ctx.fillStyle = lane.chosen ? colors.accent : lane.broken ? colors.bad : colors.back;
  ctx.globalAlpha = lane.chosen || lane.broken ? 1 : 0.93;
  ctx.fillRect(0, y, lane.broken || lane.chosen ? 4 : place.gutter, lane.h);
  ctx.globalAlpha = 1;
  ctx.fillStyle = lane.broken ? colors.bad : colors.ink;
  const middle = y + Math.min(lane.h / 2, 14);
  lane.lines.forEach((words, i) => ctx.fillText(words, 9, middle + i * NAME));
  ctx.fillStyle = colors.line;
  ctx.fillRect(0, y + lane.h - 1, place.width, 1);
  ctx.fillRect(place.gutter - 1, y, 1, lane.h);
}

/** Cut a text in the middle so that it fits: names differ at their ends. */
function fitted(ctx, text, width) {
  if (ctx.measureText(text).width <= width) return text;
  const room = Math.max(3, Math.floor((text.length * width) / ctx.measureText(text).width) - 1);
  return `${text.slice(0, Math.ceil(room * 0.4))}…${text.slice(text.length - Math.floor(room * 0.6))}`;
}

function paintLane(ctx, run, lane, place, colors, y) {
  if (lane.type === "host") paintLives(ctx, lane, place, colors, y);
  if (lane.waiting) paintSteps(ctx, lane, place, colors, y);
  const drawn = thinned(lane.items, lane.longest, place.window, place.width - place.gutter);
  const order = { holding: 0, overlap: 1, lease: 2, body: 3, takeover: 4, mark: 5, message: 5 };
  drawn.sort((a, b) => order[a.kind] - order[b.kind]);
  for (const item of drawn) PAINTERS[item.kind](ctx, run, lane, item, place, colors, y);
}

/** From where to where something is painted, at least so many pixels wide. */
function extent(item, place, least) {
  const from = Math.max(place.x(item.s), place.gutter - 4);
  const to = Math.min(place.x(item.e), place.width + 4);
  return [from, Math.max(to - from, least)];
}

const PAINTERS = {
  body(ctx, run, lane, item, place, colors, y) {
    const { of } = item;
    const [x, width] = extent(item, place, 1.2);
    const number = lane.type === "host" ? run.lockOf.get(of.lock)?.number ?? 0 : run.hostOf.get(of.host)?.number ?? 0;
    ctx.fillStyle = item.bad ? colors.bad : `hsl(${hue(number)}, 52%, ${colors.sheen})`;
    const top = y + 4 + item.row * ROW;
    ctx.fillRect(x, top, width, ROW - 3);
    if (of.ending === "lost") stripes(ctx, x, top, width, ROW - 3, colors.back, 0.35);
    if (["killed", "crashed", "lost", "error"].includes(of.ending)) {
      ctx.fillStyle = { killed: colors.fault, crashed: colors.bad }[of.ending] ?? colors.open;
      ctx.fillRect(x + width - 2, top - 2, 2, ROW + 1);
    }
    if (item.chosen) frame(ctx, x, top, width, ROW - 3, colors.ink);
    if (width > 34) {
      const long = `${of.host} · token ${of.token}`;
      const fits = of.token !== null && ctx.measureText(long).width < width - 8;
      const words = lane.type === "host" ? run.label(of.lock) : fits ? long : of.host;
      ctx.fillStyle = colors["text-on"];
      if (width > 80 || ctx.measureText(words).width < width - 6) ctx.fillText(fitted(ctx, words, width - 8), x + 4, top + (ROW - 3) / 2 + 0.5);
    }
  },
  holding(ctx, run, lane, item, place, colors, y) {
    const [x, width] = extent(item, place, 1);
    ctx.fillStyle = `hsl(${hue(run.hostOf.get(item.of.host)?.number ?? 0)}, 52%, ${colors.sheen})`;
    ctx.globalAlpha = 0.28;
    ctx.fillRect(x, y + 2, width, lane.rows * ROW + 1);
    ctx.globalAlpha = 1;
    if (item.chosen) frame(ctx, x, y + 2, width, lane.rows * ROW + 1, colors.ink);
  },
  lease(ctx, run, lane, item, place, colors, y) {
    const [x, width] = extent(item, place, 1);
    const top = y + 5 + lane.rows * ROW;
    ctx.fillStyle = colors.lease;
    ctx.globalAlpha = item.of.seen ? 1 : 0.5;
    ctx.fillRect(x, top, width, 3);
    if (width > 3) {
      for (const t of item.of.renewed) ctx.fillRect(place.x(t) - 0.5, top - 2, 1.5, 6);
      ctx.fillStyle = colors.open;
      for (const t of item.of.refused) ctx.fillRect(place.x(t) - 1, top - 2, 2, 7);
    }
    ctx.globalAlpha = 1;
    if (item.of.ending !== "released" && item.of.ending !== "open") {
      ctx.fillStyle = { expired: colors.open, broken: colors.fault }[item.of.ending] ?? colors.bad;
      ctx.fillRect(x + width - 3, top - 2, 3, 7);
    }
    if (item.chosen) frame(ctx, x, top - 1, width, 5, colors.ink);
  },
  overlap(ctx, run, lane, item, place, colors, y) {
    const [x, width] = extent(item, place, 3);
    ctx.fillStyle = item.of.caught ? colors.open : colors.bad;
    ctx.globalAlpha = item.of.caught ? 0.25 : 0.22;
    ctx.fillRect(x, y, width, lane.h);
    ctx.globalAlpha = 1;
    ctx.fillRect(x, y, width, item.of.caught ? 2 : 4);
    if (!item.of.caught) ctx.fillRect(x, y + lane.h - 4, width, 3);
    if (item.chosen) frame(ctx, x, y, width, lane.h - 1, colors.ink);
  },
  takeover(ctx, run, lane, item, place, colors, y) {
    const { of } = item;
    const good = of.state === "in time";
    const top = y + 4 + lane.rows * ROW - ROW / 2;
    const [from, to] = [place.x(of.at), place.x(of.taken ?? of.bound ?? of.at)];
    ctx.strokeStyle = ctx.fillStyle = good ? colors.good : of.state === "late" || of.state === "never" ? colors.bad : colors.faint;
    ctx.lineWidth = 2;
    ctx.setLineDash([3, 3]);
    line(ctx, from, top, to, top);
    ctx.setLineDash([]);
    if (of.taken !== null) triangle(ctx, to, top, 5);
    if (of.bound !== null) ctx.fillRect(place.x(of.bound) - 1, y + 2, 2, lane.rows * ROW + 2);
    const words = of.taken === null ? of.state : `taken over by ${of.by} after ${(of.taken - of.at).toFixed(1)} s`;
    const more = of.bound === null ? "" : ` (bound ${(of.bound - of.at).toFixed(1)} s)`;
    const free = Math.min(to, place.width) - Math.max(from, place.gutter) - 14;
    if (free > 60) ctx.fillText(fitted(ctx, words + more, free), Math.max(from, place.gutter) + 8, top - 7 + (lane.rows > 1 ? 0 : 1));
    ctx.lineWidth = 1;
  },
  mark(ctx, run, lane, item, place, colors, y) {
    const { of } = item;
    const top = y + 4 + item.row * ROW;
    const [x, width] = extent(item, place, 1);
    ctx.fillStyle = toned(of, colors);
    if (lane.type === "fault") {
      ctx.globalAlpha = 0.8;
      ctx.fillRect(x, top, Math.max(width, 3), ROW - 3);
      ctx.globalAlpha = 1;
      const words = `${FAULTS[of.fault] ?? SHAPES[of.kind] ?? "!"} ${of.fault || of.kind}${of.hosts ? ` ${of.hosts.join(", ")}` : ""}`;
      const inside = width > 60;
      ctx.fillStyle = inside ? colors["text-on"] : colors.ink;
      const sign = FAULTS[of.fault] ?? SHAPES[of.kind] ?? "!";
      const after = x + Math.max(width, 3) + 2;
      const fits = after + ctx.measureText(sign).width < place.width;
      ctx.textAlign = inside || fits ? "left" : "right";
      ctx.fillText(inside ? fitted(ctx, words, width - 8) : sign, inside ? x + 4 : fits ? after : x - 2, top + ROW / 2 - 1);
      ctx.textAlign = "left";
    } else {
      ctx.font = "bold 13px system-ui, sans-serif";
      ctx.textAlign = "center";
      ctx.fillRect(x - 0.75, y + 1, 1.5, lane.h - 3);
      const sign = of.kind === "fault" ? FAULTS[of.fault] : SHAPES[of.kind];
      ctx.lineWidth = 3;
      ctx.strokeStyle = colors.back;
      ctx.strokeText(sign ?? "!", x, top + ROW / 2 - 1);
      ctx.fillText(sign ?? "!", x, top + ROW / 2 - 1);
      ctx.font = FONT;
      ctx.textAlign = "left";
      ctx.lineWidth = 1;
    }
    if (item.chosen) frame(ctx, x - 3, top - 1, Math.max(width, 6), ROW - 1, colors.ink);
  },
  message(ctx, run, lane, item, place, colors, y) {
    const [x, width] = extent(item, place, 2);
    const [top, high] = [y + ABOVE + item.row * LINE, LINE - 1];
    const { received } = item.of;
    ctx.fillStyle = item.bad ? colors.bad : colors.lease;
    ctx.fillRect(x, top, width, high);
    if (received.length && !item.bad) {
      const [at, host] = received[received.length - 1];
      const [from, long] = extent({ s: at, e: item.e }, place, 1.2);
      ctx.fillStyle = `hsl(${hue(run.hostOf.get(host)?.number ?? 0)}, 52%, ${colors.sheen})`;
      if (at <= place.window[1]) ctx.fillRect(from, top, long, high);
    }
    if (item.chosen) frame(ctx, x, top, width, high, colors.ink);
  },
};

/** The times in which a host lived, and in which it stood still or was struck. */
function paintLives(ctx, lane, place, colors, y) {
  for (const life of lane.host.lives) {
    const [x, width] = extent({ s: life.start, e: life.end }, place, 1);
    ctx.fillStyle = colors.alive;
    ctx.fillRect(x, y + 2, width, lane.h - 5);
  }
  for (const band of lane.bands) {
    const [x, width] = extent({ s: band.at, e: band.end }, place, 2);
    if (band.kind === "pause" || band.fault === "pause") stripes(ctx, x, y + 1, width, lane.h - 3, colors.pause);
    else {
      ctx.fillStyle = colors.band;
      ctx.fillRect(x, y + 1, width, lane.h - 3);
    }
  }
}

/** How many wait, or are under way, as an area at the foot of a lane. */
function paintSteps(ctx, lane, place, colors, y) {
  const most = (lane.most ??= lane.waiting.reduce((high, [, count]) => Math.max(high, count), 1));
  const [foot, room] = [y + lane.h - 2, lane.type === "queue" ? COUNTED - 4 : WAITS];
  ctx.fillStyle = colors.wait;
  const { waiting } = lane;
  let low = Math.max(0, firstFrom(waiting.map ? lane.stepped ??= waiting.map(([s]) => ({ s })) : [], place.window[0]) - 1);
  for (; low < waiting.length && waiting[low][0] <= place.window[1]; low++) {
    const [t, count] = waiting[low];
    if (!count) continue;
    const from = Math.max(place.x(t), place.gutter);
    const to = Math.min(place.x(waiting[low + 1]?.[0] ?? t), place.width);
    const high = Math.max(1.5, (room * count) / most);
    ctx.fillRect(from, foot - high, Math.max(to - from, 0.6), high);
  }
  if (lane.type === "queue") {
    ctx.fillStyle = colors.faint;
    ctx.fillText(`at most ${most}`, place.gutter + 4, y + 9);
  }
}

function stripes(ctx, x, y, width, height, color, alpha = 1) {
  ctx.save();
  ctx.globalAlpha = alpha;
  ctx.beginPath();
  ctx.rect(x, y, width, height);
  ctx.clip();
  ctx.strokeStyle = color;
  ctx.lineWidth = 1.5;
  for (let at = x - height - (x % 6); at < x + width; at += 6) line(ctx, at, y + height, at + height, y);
  ctx.restore();
}

function frame(ctx, x, y, width, height, color) {
  ctx.strokeStyle = color;
  ctx.lineWidth = 2;
  ctx.strokeRect(x - 1, y - 1, width + 2, height + 2);
  ctx.lineWidth = 1;
}

function line(ctx, x1, y1, x2, y2) {
  ctx.beginPath();
  ctx.moveTo(x1, y1);
  ctx.lineTo(x2, y2);
  ctx.stroke();
}

function triangle(ctx, x, y, size) {
  ctx.beginPath();
  ctx.moveTo(x, y);
  ctx.lineTo(x - size, y - size);
  ctx.lineTo(x - size, y + size);
  ctx.fill();
}
