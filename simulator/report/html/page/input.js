// Mouse, touch and keyboard.

const PAGE_SCROLLS = 350; // milliseconds for which the wheel belongs to the page after it has scrolled the page

function listen(chart, page, tell) {
  const { box, lanes, overview } = page;
  const spot = (event) => {
    const { left, top } = lanes.getBoundingClientRect();
    return [event.clientX - left, event.clientY - top];
  };
  const zoom = (factor, at) => {
    const [start, end] = chart.view.window;
    chart.show({ window: zoomed([start, end], factor, at ?? (start + end) / 2, chart.run.duration) });
  };
  const move = (share) => chart.show({ window: moved(chart.view.window, share, chart.run.duration) });
  const whole = () => chart.show({ window: [0, chart.run.duration] });

  let scrolled = 0;
  document.addEventListener("wheel", (event) => {
    if (!box.contains(event.target)) scrolled = event.timeStamp;
  }, { passive: true });
  box.addEventListener("wheel", (event) => {
    const [x] = spot(event);
    if (x < chart.place.gutter && !event.ctrlKey) return; // over the names the wheel goes through the lanes
    if (event.timeStamp - scrolled < PAGE_SCROLLS && !event.ctrlKey) {
      scrolled = event.timeStamp;
      return;
    }
    event.preventDefault();
    const sideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
    if (sideways) move((event.deltaX || event.deltaY) / 800);
    else zoom(Math.exp(Math.min(Math.max(event.deltaY, -200), 200) / 350), chart.place.t(Math.max(x, chart.place.gutter)));
  }, { passive: false });
  box.addEventListener("scroll", () => chart.draw(), { passive: true });

  let from = null;
  lanes.addEventListener("pointerdown", (event) => {
    const [x] = spot(event);
    if (event.button !== 0 || x < chart.place.gutter) return;
    from = x;
    if (event.pointerType === "mouse") lanes.setPointerCapture(event.pointerId);
  });
  lanes.addEventListener("pointermove", (event) => {
    const [x, y] = spot(event);
    if (from !== null && Math.abs(x - from) > 4) {
      chart.band = [from, Math.max(x, chart.place.gutter)];
      tell.tip(null);
      chart.draw();
    } else tell.tip(chart.at(x, y), event);
  });
  lanes.addEventListener("pointerup", (event) => {
    const [x, y] = spot(event);
    if (chart.band) chart.show({ window: chart.band.map(chart.place.t).sort((a, b) => a - b) });
    else if (from !== null) {
      const { lane, item } = chart.at(x, y);
      chart.choose(lane, item);
      tell.keep(item);
    }
    from = chart.band = null;
    chart.draw();
  });
  for (const name of ["pointerleave", "pointercancel"]) lanes.addEventListener(name, () => {
    tell.tip(null);
    if (name === "pointercancel") from = chart.band = null;
  });
  lanes.addEventListener("dblclick", whole);

  let seeking = null;
  const seek = (event) => {
    const { left, width } = overview.getBoundingClientRect();
    return Math.min(Math.max((event.clientX - left) / width, 0), 1) * chart.run.duration;
  };
  overview.addEventListener("pointerdown", (event) => {
    seeking = seek(event);
    overview.setPointerCapture(event.pointerId);
  });
  overview.addEventListener("pointermove", (event) => {
    if (seeking === null) return;
    const [a, b] = [seeking, seek(event)].sort((one, other) => one - other);
    if (b - a > chart.run.duration / 300) chart.show({ window: [a, b] });
  });
  overview.addEventListener("pointerup", (event) => {
    const at = seek(event);
    const half = (chart.view.window[1] - chart.view.window[0]) / 2;
    if (seeking !== null && Math.abs(at - seeking) <= chart.run.duration / 300) chart.show({ window: [at - half, at + half] });
    seeking = null;
  });

  /** Go to the next lane, or to the next thing of this lane. */
  const step = (lanesDown, itemsOn) => {
    const at = chart.chosen?.lane ? chart.lanes.indexOf(chart.chosen.lane) : -1;
    const lane = chart.lanes[Math.min(Math.max(at + lanesDown, 0), chart.lanes.length - 1)];
    if (!lane) return;
    let item = lanesDown ? undefined : chart.chosen?.item;
    if (itemsOn) {
      const now = item ? lane.items.indexOf(item) + itemsOn : firstFrom(lane.items, chart.view.window[0]);
      item = lane.items[Math.min(Math.max(now, 0), lane.items.length - 1)];
    }
    chart.choose(lane, item);
    tell.keep(item, lane);
  };
  const keys = {
    "+": () => zoom(0.6), "=": () => zoom(0.6), "-": () => zoom(1 / 0.6), _: () => zoom(1 / 0.6), 0: whole,
    ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2), ArrowUp: () => step(-1, 0), ArrowDown: () => step(1, 0),
    n: () => step(0, 1), p: () => step(0, -1), Enter: () => tell.keep(chart.chosen?.item, chart.chosen?.lane),
    Escape: () => { tell.tip(null); tell.keep(null); },
  };
  box.addEventListener("keydown", (event) => {
    const act = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  });
  for (const [id, act] of Object.entries({ closer: () => zoom(0.6), farther: () => zoom(1 / 0.6), earlier: () => move(-0.3), later: () => move(0.3), whole })) {
    document.getElementById(id).addEventListener("click", act);
  }
  for (const name of ["lock", "host"]) {
    document.getElementById(name).addEventListener("input", (event) => chart.show({ [name]: event.target.value.trim() }));
  }
  window.addEventListener("resize", () => chart.draw());
  window.addEventListener("beforeprint", () => chart.print(true));
  window.addEventListener("afterprint", () => chart.print(false));
  matchMedia("print").addEventListener("change", (media) => chart.print(media.matches));
}
