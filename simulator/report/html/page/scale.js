// Pure parts: windows of time, ticks, filters, the address's hash, packing and thinning. No page is needed for them.

const SHORTEST = 0.002; // seconds that the chart shows at least

/** Keep a window of time inside the run, at least SHORTEST long. */
function clamped(start, end, duration) {
  const whole = Math.max(duration, SHORTEST);
  const length = Math.min(Math.max(end - start, Math.min(SHORTEST, whole)), whole);
  const from = Math.min(Math.max(start, 0), whole - length);
  return Number.isFinite(from + length) ? [from, from + length] : [0, whole];
}

/** Zoom by a factor (below 1: closer) around a time that stays where it is. */
function zoomed([start, end], factor, at, duration) {
  return clamped(at - (at - start) * factor, at + (end - at) * factor, duration);
}

/** Move a window by a share of its length. */
function moved([start, end], share, duration) {
  const by = (end - start) * share;
  return clamped(start + by, end + by, duration);
}

/** Round times for the axis, about `apart` pixels from one another. */
function ticks(start, end, width, apart = 90) {
  const rough = ((end - start) * apart) / Math.max(width, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((each) => each >= rough) || power * 10;
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  const found = [];
  for (let n = Math.ceil(start / step - 1e-9); n * step <= end + step * 1e-9; n++) found.push([n * step, (n * step).toFixed(digits)]);
  return found;
}

/** A time for people: more digits the less time is shown. */
function shown(t, span) {
  return `${t.toFixed(span < 0.5 ? 4 : span < 5 ? 3 : span < 60 ? 2 : 1)} s`;
}

/** Whether a filter lets a name through: empty, or one of its words is part of the name, or `=` and the name itself. */
function lets(filter, ...names) {
  if (filter[0] === "=") return names.includes(filter.slice(1));
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  return words.length === 0 || words.some((word) => names.some((name) => name.toLowerCase().includes(word)));
}

/** Read `#t=1.5,9&lock=a&host=b`. What makes no sense is left out. */
function readHash(hash) {
  const found = {};
  for (const part of hash.replace(/^#/, "").split("&")) {
    const [name, ...rest] = part.split("=");
    let value;
    try {
      value = decodeURIComponent(rest.join("=").replaceAll("+", " "));
    } catch {
      continue;
    }
    if (name === "t") {
      const [start, end] = value.split(",").map(Number);
      if (Number.isFinite(start)) found.t = Number.isFinite(end) && end > start ? [start, end] : [start - 1, start + 1];
    } else if (name === "lock" || name === "host") found[name] = value;
  }
  return found;
}

/** Write the hash that `readHash` reads. */
function makeHash({ t, lock, host }) {
  const parts = t ? [`t=${+t[0].toFixed(4)},${+t[1].toFixed(4)}`] : [];
  if (lock) parts.push(`lock=${encodeURIComponent(lock)}`);
  if (host) parts.push(`host=${encodeURIComponent(host)}`);
  return parts.length ? `#${parts.join("&")}` : "";
}

/** Give each span (sorted by `s`) a row in which it overlaps nobody; at most `most` rows. Return how many there are. */
function packRows(spans, most) {
  const ends = [];
  for (const span of spans) {
    let row = ends.findIndex((end) => end <= span.s);
    if (row < 0) row = Math.min(ends.length, most - 1);
    span.row = row;
    ends[row] = Math.max(ends[row] ?? 0, span.e);
  }
  return Math.max(ends.length, 1);
}

/** Where the first span lies whose `s` is not before `t`, in spans sorted by it. */
function firstFrom(spans, t) {
  let low = 0;
  let high = spans.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (spans[middle].s < t) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * The spans that are worth drawing in a window: those that end inside it, one for each pixel and row.
 * A span with `bad` is never left out. `longest`: how long the longest is.
 */
function thinned(spans, longest, [start, end], pixels) {
  const each = (end - start) / Math.max(pixels, 1);
  const drawn = [];
  const until = [];
  for (let i = firstFrom(spans, start - longest); i < spans.length && spans[i].s <= end; i++) {
    const span = spans[i];
    if (span.e < start) continue;
    const row = span.row || 0;
    if (!span.bad && until[row] !== undefined && span.e < until[row] + each && span.s >= until[row] - each) continue;
    until[row] = Math.max(span.e, span.s);
    drawn.push(span);
  }
  return drawn;
}

/** How many values lie between each two edges; the last is for all above. */
function histogram(values, edges) {
  const counts = new Array(edges.length).fill(0);
  for (const value of values) {
    const place = edges.findIndex((edge) => value < edge);
    counts[place < 0 ? edges.length - 1 : place]++;
  }
  return counts;
}

/** The value below which this share of sorted values lies. */
function quantile(sorted, share) {
  return sorted.length ? sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] : 0;
}

/** Steps of a count that goes up at starts and down at ends: [[t, count], ...]. */
function steps(spans) {
  const changes = [];
  for (const [start, end] of spans) changes.push([start, 1], [end, -1]);
  changes.sort((a, b) => a[0] - b[0]);
  const found = [];
  let count = 0;
  for (const [t, by] of changes) {
    count += by;
    if (found.length && found[found.length - 1][0] === t) found[found.length - 1][1] = count;
    else found.push([t, count]);
  }
  return found;
}

/** When each body was inside with any other, as spans: [[start, end], ...]. With many bodies there are far more pairs. */
function sharedSpans(overlaps) {
  const found = [];
  const last = new Map();
  for (const { lock, hosts, owners, start, end, caught } of [...overlaps].sort((a, b) => a.start - b.start)) {
    if (!caught) hosts.forEach((host, i) => {
      const body = `${lock}\n${host}\n${owners[i]}`;
      const span = last.get(body);
      if (span && start <= span[1]) span[1] = Math.max(span[1], end);
      else {
        last.set(body, [start, end]);
        found.push(last.get(body));
      }
    });
  }
  return found;
}

/** A hue for a number, far from that of its neighbours, and never red: that is for what is broken. */
function hue(number) {
  return 30 + ((number * 0.618034) % 1) * 300;
}

/** Cut a text into lines that fit; a line ends after a sign between words, if one is in the line's second half. */
function wrapped(text, fits) {
  const lines = [];
  let rest = text;
  while (rest.length > 1 && !fits(rest)) {
    let many = rest.length - 1;
    while (many > 1 && !fits(rest.slice(0, many))) many -= 1;
    const nice = Math.max(...["_", ".", "-", "/", " "].map((sign) => rest.lastIndexOf(sign, many - 1))) + 1;
    const cut = nice > many / 2 ? nice : many;
    lines.push(rest.slice(0, cut).trim());
    rest = rest.slice(cut);
  }
  return [...lines, rest];
}
