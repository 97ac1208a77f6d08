// What is looked at: the stretch of time, the rows on the screen, what is chosen and what is lit.
// Everything that changes it asks for one frame; however many changes, there is one draw a frame.

/** The width of the lanes' names. */
const GUTTER = 116;
const AXIS = 24;
const PHASE_STRIP = 13;
const LANE_GAP = 8;
/** The shortest stretch of time that is still worth looking at, in microseconds. */
const SPAN_MIN = 20;

const runSpan = Math.max(run.end, SPAN_MIN);
/** `scale` is pixels for each microsecond: what every frame multiplies by, kept up to date by `show` and `layOut`. */
const view = { t0: 0, t1: runSpan, scale: 1, width: 0, height: 0, dpr: 1, total: 0, rowHeight: 22 };
const state = {
  theme: null,
  /** What the pointer is on, and what is chosen: {kind, …} or null. */
  hover: null,
  selected: null,
  /** The finding whose proof is shown, and the step of it. */
  finding: -1,
  step: -1,
  /** For each attempt whether it is lit; null when everything is. */
  lit: null,
  table: false,
};

const canvas = byId("canvas");
const scroller = byId("scroller");
const overview = byId("overview");
const canvasContext = canvas.getContext("2d");
const overviewContext = overview.getContext("2d");

let frame = 0;
function redraw() {
  if (frame === 0) frame = requestAnimationFrame(drawFrame);
}

const plotWidth = () => Math.max(view.width - GUTTER, 1);
const xOf = (time) => GUTTER + (time - view.t0) * view.scale;
const timeOf = (x) => view.t0 + (x - GUTTER) / plotWidth() * (view.t1 - view.t0);
/** Where a lane's top is on the canvas. */
const yOf = (lane) => lane.y - scroller.scrollTop;

/** Shows a stretch of time, or as much of it as there is. */
function show(t0, t1) {
  const margin = runSpan * 0.02;
  const span = Math.min(Math.max(t1 - t0, SPAN_MIN), runSpan + 2 * margin);
  const middle = (t0 + t1) / 2;
  view.t0 = Math.min(Math.max(middle - span / 2, -margin), runSpan + margin - span);
  view.t1 = view.t0 + span;
  view.scale = plotWidth() / span;
  redraw();
}

/** Enlarges by a factor, and keeps the time under `x` where it is. */
function zoom(factor, x = GUTTER + plotWidth() / 2) {
  const at = timeOf(Math.max(x, GUTTER));
  const span = Math.min(Math.max((view.t1 - view.t0) / factor, SPAN_MIN), runSpan * 1.04);
  const part = (at - view.t0) / (view.t1 - view.t0);
  show(at - part * span, at + (1 - part) * span);
}

const pan = (pixels) => {
  const time = pixels / plotWidth() * (view.t1 - view.t0);
  show(view.t0 + time, view.t1 + time);
};

const fit = () => show(-runSpan * 0.01, runSpan * 1.02);

/** Scrolls to a lane, if it is not on the screen. */
function showLane(lane) {
  const room = view.height - AXIS;
  const top = lane.y - AXIS;
  if (top < scroller.scrollTop || top + lane.height > scroller.scrollTop + room) {
    scroller.scrollTop = top - Math.max((room - lane.height) / 2, 0);
  }
}

/** Shows a transaction with some room around it, at the present zoom unless it is too small. */
function showTransaction(t, close = false) {
  const span = transactions.ended[t] - transactions.begun[t];
  const middle = (transactions.ended[t] + transactions.begun[t]) / 2;
  const present = view.t1 - view.t0;
  const visible = transactions.begun[t] >= view.t0 && transactions.ended[t] <= view.t1;
  const width = span / present * plotWidth();
  if (close || span > present || width < 12) {
    const wanted = Math.max(span * (close ? 1.6 : 8), 200);
    show(middle - wanted / 2, middle + wanted / 2);
  } else if (!visible) {
    show(middle - present / 2, middle + present / 2);
  }
  showLane(lanes[transactions.lane[t]]);
  redraw();
}

const strips = (lane) => Math.min(lane.workloads?.length ?? 0, STRIPS_MAX);

/** Gives every lane its place. Rows grow as the window allows, within limits. */
function layOut() {
  view.dpr = window.devicePixelRatio || 1;
  view.width = scroller.clientWidth;
  view.height = scroller.clientHeight;
  view.scale = plotWidth() / (view.t1 - view.t0);
  let rows = 0;
  let fixed = AXIS + LANE_GAP;
  for (const lane of lanes) {
    if (lane.kind === "client") {
      rows += Math.max(lane.rows.length, 1);
      fixed += strips(lane) * PHASE_STRIP + LANE_GAP + Math.max(lane.rows.length - 1, 0) * 2;
    } else {
      fixed += lane.kind === "cluster" ? 34 : 17;
    }
  }
  view.rowHeight = Math.min(Math.max(Math.floor((view.height - fixed) / Math.max(rows, 1)), 20), 46);
  const processes = lanes.filter((lane) => lane.kind === "process").length;
  const spare = view.height - fixed - rows * view.rowHeight;
  const processHeight = 15 + Math.min(Math.max(Math.floor(spare / Math.max(processes, 1)), 0), 9);
  let y = AXIS + 4;
  for (const lane of lanes) {
    lane.y = y;
    if (lane.kind === "client") {
      lane.top = strips(lane) * PHASE_STRIP;
      const count = Math.max(lane.rows.length, 1);
      lane.height = lane.top + count * view.rowHeight + (count - 1) * 2;
      y += lane.height + LANE_GAP;
    } else {
      lane.top = 0;
      lane.height = lane.kind === "cluster" ? 24 : processHeight;
      y += lane.height + (lane.kind === "cluster" ? 8 : 2);
    }
  }
  view.total = y + 4;
  byId("spacer").style.height = `${Math.max(view.total - view.height, 0)}px`;
  for (const [target, height] of [[canvas, view.height], [overview, overview.clientHeight]]) {
    const width = target === canvas ? view.width : overview.clientWidth;
    target.width = Math.max(Math.round(width * view.dpr), 1);
    target.height = Math.max(Math.round(height * view.dpr), 1);
  }
  canvas.style.height = `${view.height}px`;
  forgetOverview();
  redraw();
}

const rowY = (lane, row) => lane.y - scroller.scrollTop + lane.top + row * (view.rowHeight + 2);

/** What is on the canvas at a point: the smallest thing that is there. */
function at(x, y) {
  if (y < AXIS) return null;
  const lane = lanes.find((l) => y >= yOf(l) - 2 && y <= yOf(l) + l.height + 2);
  if (!lane) return null;
  if (x < GUTTER) return { kind: "lane", lane };
  const time = timeOf(x);
  const near = 4 / plotWidth() * (view.t1 - view.t0);
  const mark = nearest(lane.marks, time, near);
  if (lane.kind !== "client") {
    if (mark >= 0) return { kind: "event", lane, event: mark };
    const inside = (s) => s.begun <= time && time <= s.ended;
    const event = [...lane.down, ...(lane.kind === "cluster" ? recoveries : []), ...lane.clogged].find(inside);
    if (event) return { kind: "event", lane, event: event.event };
    const role = lane.roles.find(inside);
    return role ? { kind: "role", lane, role } : null;
  }
  const inLane = y - yOf(lane);
  if (inLane < lane.top) {
    const strip = Math.floor(inLane / PHASE_STRIP);
    const phase = lane.phases.find((p) => p.strip === strip && p.begun <= time && time <= p.ended);
    return phase ? { kind: "phase", lane, phase } : null;
  }
  if (mark >= 0 && inLane > lane.height - 9) return { kind: "event", lane, event: mark };
  const row = lane.rows[Math.floor((inLane - lane.top) / (view.rowHeight + 2))];
  if (row) {
    const list = row.attempts;
    let best = -1;
    let distance = near;
    for (let i = list.first(time - near); i < list.count && list.begun[i] <= time + near; i += 1) {
      const a = list.ids[i];
      const away = Math.max(attempts.begun[a] - time, time - drawnEnd[a], 0);
      if (away < distance || (away === 0 && distance === 0)) {
        best = a;
        distance = away;
      }
    }
    if (best >= 0) return { kind: "attempt", lane, attempt: best, transaction: transactionOf[best] };
    const wide = row.transactions;
    for (let i = wide.first(time); i < wide.count && wide.begun[i] <= time; i += 1) {
      const t = wide.ids[i];
      if (transactions.ended[t] >= time) return { kind: "transaction", lane, transaction: t };
    }
  }
  const clog = lane.clogged.find((s) => s.begun <= time && time <= s.ended);
  return clog ? { kind: "event", lane, event: clog.event } : null;
}

function nearest(list, time, near) {
  let best = -1;
  let distance = near;
  for (let i = list.first(time - near); i < list.count && list.begun[i] <= time + near; i += 1) {
    const away = Math.abs(list.begun[i] - time);
    if (away <= distance) {
      best = list.ids[i];
      distance = away;
    }
  }
  return best;
}
