// The chart: its state, and what it shows of the run.

const EDGE = 10; // pixels at the right for the signs of what happens last

class Chart {
  constructor(run, page) {
    this.run = run;
    this.page = page;
    this.view = { window: clamped(0, run.duration, run.duration), lock: "", host: "" };
    this.colors = palette();
    this.printing = false;
    this.arrange();
  }

  /** Lay the lanes out anew, after a filter changed. */
  arrange() {
    const { lanes, height } = layOut(this.run, this.view);
    this.lanes = lanes;
    this.height = height;
    this.names = widest(lanes.map((lane) => lane.label));
    this.chosen = null;
    this.room = null;
    this.draw();
  }

  /** Give each lane the height for its whole name, which needs several lines if the gutter is narrow. */
  fitNames() {
    const room = this.place.gutter - BESIDE;
    if (this.room === room) return;
    this.room = room;
    const wide = measure();
    let y = AXIS;
    for (const lane of this.lanes) {
      lane.least ??= lane.h;
      lane.lines = wrapped(lane.label, (text) => wide(text) <= room);
      lane.h = Math.max(lane.least, lane.lines.length * NAME + 11);
      lane.y = y;
      y += lane.h;
    }
    this.height = y + 4;
  }

  /** Draw at the next frame, once. */
  draw() {
    if (this.due) return;
    this.due = true;
    requestAnimationFrame(() => {
      this.due = false;
      this.drawNow();
    });
  }

  drawNow() {
    const { box, lanes, spacer, overview, range, shown: told } = this.page;
    const width = box.clientWidth || 800;
    this.place = this.placed(width);
    this.fitNames();
    const most = this.printing ? this.height : Math.round(window.innerHeight * 0.76);
    const height = Math.min(this.height, Math.max(most, 160));
    lanes.style.width = `${width}px`;
    const ctx = sharpen(lanes, width, height);
    spacer.style.height = `${Math.max(this.height - height, 0)}px`;
    paintLanes(ctx, this.run, this.lanes, this.place, this.colors, this.printing ? 0 : box.scrollTop, height);
    if (this.band) this.paintBand(ctx, height);
    const strip = overview.clientWidth || width;
    paintOverview(sharpen(overview, strip, 44), this.run, this.view, strip, 44, this.colors);
    const [start, end] = this.view.window;
    const hosts = this.lanes.reduce((all, lane) => all + (lane.type === "host" ? lane.folded ?? 1 : 0), 0);
    const locks = this.lanes.filter((lane) => lane.type === "lock").length;
    range.textContent = `${shown(start, end - start)} to ${shown(end, end - start)}`;
    told.textContent = `${hosts} of ${this.run.hosts.length} hosts, ${locks} of ${this.run.locks.length} locks`;
    this.frames = (this.frames ?? 0) + 1;
  }

  placed(width) {
    const gutter = Math.min(Math.max(Math.round(width * 0.15), this.names + 18, 96), 210, Math.round(width * 0.3));
    const [start, end] = this.view.window;
    const scale = (width - gutter - EDGE) / (end - start);
    return {
      width, gutter, window: this.view.window,
      x: (t) => gutter + (t - start) * scale,
      t: (x) => start + (x - gutter) / scale,
    };
  }

  paintBand(ctx, height) {
    const [from, to] = this.band;
    ctx.fillStyle = this.colors.accent;
    ctx.globalAlpha = 0.2;
    ctx.fillRect(Math.min(from, to), 0, Math.abs(to - from), height);
    ctx.globalAlpha = 1;
  }

  /** Show this time and, perhaps, other filters; say so in the address. */
  show({ window: wanted, lock, host }, silently) {
    if (wanted) this.view.window = clamped(wanted[0], wanted[1], this.run.duration);
    const filtered = (lock !== undefined && lock !== this.view.lock) || (host !== undefined && host !== this.view.host);
    if (lock !== undefined) this.view.lock = lock;
    if (host !== undefined) this.view.host = host;
    if (filtered) this.arrange();
    this.draw();
    if (!silently) this.tell();
  }

  /** Write the view into the address, not too often: browsers refuse that. */
  tell() {
    clearTimeout(this.telling);
    this.telling = setTimeout(() => {
      const whole = this.view.window[0] <= 0 && this.view.window[1] >= this.run.duration;
      const hash = makeHash({ t: whole ? null : this.view.window, lock: this.view.lock, host: this.view.host });
      history.replaceState(null, "", hash || location.href.split("#")[0]);
    }, 150);
  }

  /** What lies under a point of the canvas: the lane and its smallest thing there. */
  at(x, y) {
    const down = y + this.page.box.scrollTop;
    const lane = this.lanes.find((each) => down >= each.y && down < each.y + each.h);
    if (y < AXIS || !lane || x < this.place.gutter) return { lane: y < AXIS ? undefined : lane };
    const t = this.place.t(x);
    const slack = (this.place.t(x + 5) - t);
    let best;
    for (let i = firstFrom(lane.items, t - lane.longest - slack); i < lane.items.length && lane.items[i].s <= t + slack; i++) {
      const item = lane.items[i];
      if (item.e < t - slack || !this.isAtHeight(lane, item, down - lane.y)) continue;
      const size = item.kind === "mark" ? -1 : item.kind === "overlap" ? 1e6 : item.kind === "holding" ? 1e5 : item.e - item.s;
      if (!best || size < best.size) best = { size, item };
    }
    return { lane, item: best?.item };
  }

  isAtHeight(lane, item, down) {
    if (item.kind === "message") return Math.floor((down - ABOVE) / LINE) === item.row;
    if (["overlap", "takeover", "holding"].includes(item.kind) || (item.kind === "mark" && lane.type !== "fault")) return true;
    const row = Math.floor((down - 4) / ROW);
    return item.kind === "lease" ? row >= lane.rows : row === item.row;
  }

  /** Choose a thing: it is framed, and its lane is brought into sight. */
  choose(lane, item) {
    for (const each of this.lanes) each.chosen = each === lane;
    if (this.chosen?.item) this.chosen.item.chosen = false;
    this.chosen = { lane, item };
    if (item) item.chosen = true;
    const { box } = this.page;
    if (lane && (lane.y - AXIS < box.scrollTop || lane.y + lane.h > box.scrollTop + box.clientHeight)) {
      box.scrollTop = Math.max(0, lane.y - AXIS - 10);
    }
    if (item && (item.e < this.view.window[0] || item.s > this.view.window[1])) {
      const half = (this.view.window[1] - this.view.window[0]) / 2;
      this.show({ window: [item.s - half, item.s + half] });
    }
    this.draw();
  }

  /** Fit the whole run and all lanes for paper, in light colours; undo it afterwards. */
  print(begins) {
    if (begins === this.printing) return;
    const root = document.documentElement;
    if (begins) {
      this.before = { window: this.view.window, theme: root.dataset.theme };
      this.view.window = clamped(0, this.run.duration, this.run.duration);
      root.dataset.theme = "light";
    } else {
      this.view.window = this.before.window;
      root.dataset.theme = this.before.theme;
    }
    this.printing = begins;
    this.colors = palette();
    legend(this.colors);
    this.drawNow();
  }
}
