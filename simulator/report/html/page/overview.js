// The strip above the chart: the whole run, and the window of the chart in it.

const ABOVE_BARS = 14; // pixels for the signs of faults and of what is broken

/** How many bodies run in each part of the run, how many of them inside a lock with another, and how many at most. */
function densityOf(run, parts) {
  const count = (spans) => {
    const counts = new Float64Array(parts);
    const part = (t) => Math.min(Math.max(Math.floor((t / Math.max(run.duration, SHORTEST)) * parts), 0), parts - 1);
    for (const [start, end] of spans) for (let at = part(start); at <= part(end); at++) counts[at]++;
    return counts;
  };
  const busy = count(run.bodies.map((body) => [body.start, body.end]));
  return { busy, shared: count(sharedSpans(run.overlaps)), most: busy.reduce((high, each) => Math.max(high, each), 1) };
}

/** The whole run in a strip: how much goes on, what strikes, what is broken, and the window of the chart. */
function paintOverview(ctx, run, view, width, height, colors) {
  const duration = Math.max(run.duration, SHORTEST);
  const x = (t) => (t / duration) * width;
  ctx.fillStyle = colors.back;
  ctx.fillRect(0, 0, width, height);
  const { busy, shared, most } = (run.density ??= densityOf(run, Math.ceil(width)));
  const room = height - ABOVE_BARS;
  for (const [counts, color, least] of [[busy, colors.wait, 0], [shared, colors.bad, 2]]) {
    ctx.fillStyle = color;
    counts.forEach((many, at) => {
      const high = many ? Math.max((many / most) * room, least) : 0;
      ctx.fillRect((at / counts.length) * width, height - high, width / counts.length + 0.3, high);
    });
  }
  for (const mark of run.marks) {
    if (mark.kind === "deadline") continue;
    ctx.fillStyle = toned(mark, colors);
    ctx.globalAlpha = 0.7;
    ctx.fillRect(x(mark.at), 1, Math.max(x(mark.end) - x(mark.at), 2), 4);
  }
  ctx.globalAlpha = 1;
  ctx.fillStyle = colors.bad;
  shared.forEach((many, at) => { if (many) ctx.fillRect((at / shared.length) * width - 1, 7, width / shared.length + 2, 4); });
  ctx.fillStyle = colors.faint;
  ctx.globalAlpha = 0.25;
  ctx.fillRect(0, 0, x(view.window[0]), height);
  ctx.fillRect(x(view.window[1]), 0, width, height);
  ctx.globalAlpha = 1;
  ctx.strokeStyle = colors.accent;
  ctx.lineWidth = 2;
  ctx.strokeRect(x(view.window[0]) + 1, 1, Math.max(x(view.window[1]) - x(view.window[0]) - 2, 1), height - 2);
}
