// Drawing. Only what is on the screen is visited, and what shares a pixel is drawn once, as the
// worst of it: a frame costs what the window shows, not what the run holds.

let colours = null;
let patterns = null;

/** Colours come from the style sheet, so that a theme is written down once. */
function readColours() {
  const style = getComputedStyle(document.documentElement);
  const names = ["ground", "sunken", "raised", "line", "faint", "text", "muted", "accent", "on-accent", "bad",
    "clog", "recovery", "recovery-line", "down", "process", "role", "role-text", "event", "fault", "phase-a", "phase-b", "phase-text",
    "unknown", "arrow", "proof", "mark"];
  colours = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  colours.fill = outcomes.map((_, i) => style.getPropertyValue(`--o${i}`).trim());
  colours.letter = outcomes.map((_, i) => style.getPropertyValue(`--t${i}`).trim());
  colours.font = style.getPropertyValue("--font");
  colours.mono = style.getPropertyValue("--mono");
  patterns = {
    landed: hatching("rgba(255, 255, 255, .24)", 7, 2),
    lost: hatching(colours.unknown, 6, 1.2),
    down: hatching(colours.down, 5, 1.5),
  };
}

/** Diagonal stripes, so that a fill can be told apart without its colour. */
function hatching(colour, size, width) {
  const tile = document.createElement("canvas");
  const scale = 2;
  tile.width = size * scale;
  tile.height = size * scale;
  const c = tile.getContext("2d");
  c.scale(scale, scale);
  c.strokeStyle = colour;
  c.lineWidth = width;
  c.beginPath();
  for (const shift of [-size, 0, size]) {
    c.moveTo(shift - 1, size + 1);
    c.lineTo(shift + size + 1, -1);
  }
  c.stroke();
  const pattern = canvasContext.createPattern(tile, "repeat");
  pattern.setTransform(new DOMMatrix().scale(1 / scale));
  return pattern;
}

function drawFrame() {
  frame = 0;
  if (!colours) readColours();
  if (state.table || view.width === 0) return;
  const c = canvasContext;
  c.setTransform(view.dpr, 0, 0, view.dpr, 0, 0);
  c.fillStyle = colours.ground;
  c.fillRect(0, 0, view.width, view.height);
  c.save();
  c.beginPath();
  c.rect(GUTTER, AXIS, plotWidth(), view.height - AXIS);
  c.clip();
  const ticks = timeTicks();
  c.fillStyle = colours.faint;
  for (const tick of ticks.times) c.fillRect(Math.round(xOf(tick)), AXIS, 1, view.height);
  drawRecoveries(c);
  for (const lane of lanes) {
    if (yOf(lane) > view.height || yOf(lane) + lane.height < AXIS) continue;
    drawClogs(c, lane);
    if (lane.kind === "client") drawClient(c, lane);
    else if (lane.kind === "cluster") drawCluster(c, lane);
    else drawProcess(c, lane);
    drawMarks(c, lane);
  }
  drawArrows(c);
  drawChosen(c);
  drawVerdict(c);
  drawProof(c);
  if (attempts.count === 0) drawNothing(c);
  c.restore();
  drawGutter(c);
  drawAxis(c, ticks);
  drawOverview();
  // What is looked at, for what looks at the page from outside.
  canvas.dataset.from = view.t0.toFixed(0);
  canvas.dataset.to = view.t1.toFixed(0);
}

function drawNothing(c) {
  c.font = `14px ${colours.font}`;
  c.textAlign = "center";
  c.textBaseline = "middle";
  c.fillStyle = colours.muted;
  c.fillText("The record has no transactions.", GUTTER + plotWidth() / 2, view.height / 2);
}

// The time axis.

function timeTicks() {
  const wanted = (view.t1 - view.t0) / (plotWidth() / 110);
  const power = 10 ** Math.floor(Math.log10(wanted));
  const step = [1, 2, 5, 10].find((n) => n * power >= wanted) * power;
  const times = [];
  for (let t = Math.ceil(view.t0 / step) * step; t <= view.t1; t += step) if (t > -step / 2) times.push(t);
  return { times, step };
}

function tickText(time, step) {
  const digits = Math.max(0, Math.ceil(-Math.log10(step / 1e6) - 1e-9));
  return `${(time / 1e6).toFixed(digits)} s`;
}

function drawAxis(c, { times, step }) {
  c.fillStyle = colours.sunken;
  c.fillRect(0, 0, view.width, AXIS);
  c.fillStyle = colours.line;
  c.fillRect(0, AXIS - 1, view.width, 1);
  c.font = `11px ${colours.font}`;
  c.textBaseline = "middle";
  c.textAlign = "left";
  for (const time of times) {
    const x = Math.round(xOf(time));
    if (x < GUTTER) continue;
    c.fillStyle = colours.line;
    c.fillRect(x, AXIS - 7, 1, 6);
    c.fillStyle = colours.muted;
    if (x + 60 < view.width) c.fillText(tickText(time, step), x + 4, AXIS / 2);
  }
  c.fillStyle = colours.muted;
  c.fillText(`${duration(view.t1 - view.t0)} shown`, 10, AXIS / 2);
}

// The names of the lanes.

function drawGutter(c) {
  c.save();
  c.beginPath();
  c.rect(0, AXIS, GUTTER - 4, view.height - AXIS);
  c.fillStyle = colours.ground;
  c.fillRect(0, AXIS, GUTTER, view.height - AXIS);
  c.clip();
  c.textBaseline = "middle";
  c.textAlign = "left";
  const selectedLane = chosenLane();
  lanes.forEach((lane, i) => {
    const y = yOf(lane);
    if (y > view.height || y + lane.height < AXIS) return;
    if (lane === selectedLane) {
      c.fillStyle = colours.accent;
      c.fillRect(0, y, 3, lane.height);
    }
    if (lane.kind === "process") {
      c.font = `11px ${colours.mono}`;
      c.fillStyle = colours.muted;
      c.fillText(clipped(lane.label, 16), 10, y + lane.height / 2 + .5);
      return;
    }
    const middle = y + lane.top + (lane.height - lane.top) / 2;
    const second = lane.workloads?.join(", ");
    const room = lane.height - lane.top >= 26 && second;
    c.font = `600 12px ${colours.font}`;
    c.fillStyle = colours.text;
    c.fillText(clipped(lane.label, 16), 10, room ? middle - 7 : middle);
    if (room) {
      c.font = `11px ${colours.font}`;
      c.fillStyle = colours.muted;
      c.fillText(clipped(second, 17), 10, middle + 7);
    }
    if (i > 0 && lane.kind === "client") {
      c.fillStyle = colours.faint;
      c.fillRect(0, y - LANE_GAP / 2, GUTTER, 1);
    }
  });
  c.restore();
  c.fillStyle = colours.line;
  c.fillRect(GUTTER - 1, AXIS, 1, view.height);
}

const clipped = (text, characters) => (text.length > characters ? `${text.slice(0, characters - 1)}…` : text);

// What is behind everything.

function drawRecoveries(c) {
  for (const r of recoveries) {
    if (r.ended < view.t0 || r.begun > view.t1) continue;
    const x = xOf(r.begun);
    c.fillStyle = colours.recovery;
    c.fillRect(x, AXIS, Math.max(xOf(r.ended) - x, 1), view.height);
  }
}

let depth = new Int16Array(0);
/** The more clogs at once, the darker. */
function drawClogs(c, lane) {
  if (lane.clogged.length === 0) return;
  const width = Math.ceil(plotWidth());
  if (depth.length < width + 2) depth = new Int16Array(width + 2);
  depth.fill(0);
  for (const clog of lane.clogged) {
    if (clog.ended < view.t0 || clog.begun > view.t1) continue;
    const x0 = Math.max(Math.floor(xOf(clog.begun) - GUTTER), 0);
    const x1 = Math.min(Math.max(Math.ceil(xOf(clog.ended) - GUTTER), x0 + 1), width);
    depth[x0] += 1;
    depth[x1] -= 1;
  }
  c.fillStyle = colours.clog;
  const y = yOf(lane) + lane.top;
  const height = lane.height - lane.top;
  let now = 0;
  let begin = 0;
  for (let x = 0; x <= width; x += 1) {
    const next = x === width ? 0 : now + depth[x];
    if (next !== now) {
      for (let layer = Math.min(now, 4); layer > 0; layer -= 1) c.fillRect(GUTTER + begin, y, x - begin, height);
      begin = x;
      now = next;
    }
  }
}

// Clients.

/** Boxes to fill, by outcome, dim ones apart. */
const boxes = { dim: outcomes.map(() => []), lit: outcomes.map(() => []) };
function put(outcome, lit, x, y, width, height) {
  (lit ? boxes.lit : boxes.dim)[outcome].push(x, y, width, height);
}
function flush(c) {
  for (const [list, alpha] of [[boxes.dim, 0.22], [boxes.lit, 1]]) {
    c.globalAlpha = alpha;
    list.forEach((box, outcome) => {
      if (box.length === 0) return;
      c.fillStyle = colours.fill[outcome];
      for (let i = 0; i < box.length; i += 4) c.fillRect(box[i], box[i + 1], box[i + 2], box[i + 3]);
      if (outcome >= OUTCOME_UNKNOWN) {
        c.fillStyle = outcome === outcomes.length - 1 ? patterns.landed : patterns.lost;
        for (let i = 0; i < box.length; i += 4) if (box[i + 2] >= 5) c.fillRect(box[i], box[i + 1], box[i + 2], box[i + 3]);
        c.strokeStyle = colours.unknown;
      } else if (outcome === OUTCOME_OPEN) {
        c.strokeStyle = colours.muted;
        c.setLineDash([3, 2]);
      } else {
        box.length = 0;
        return;
      }
      c.lineWidth = 1;
      for (let i = 0; i < box.length; i += 4) {
        if (box[i + 2] >= 4) c.strokeRect(box[i] + .5, box[i + 1] + .5, box[i + 2] - 1, box[i + 3] - 1);
      }
      c.setLineDash([]);
      box.length = 0;
    });
  }
  c.globalAlpha = 1;
}

function drawClient(c, lane) {
  drawPhases(c, lane);
  const letters = [];
  lane.rows.forEach((row, r) => {
    const y = rowY(lane, r) + 2;
    const height = view.rowHeight - 4;
    drawOutlines(c, row.transactions, y, height);
    const list = row.attempts;
    let pixel = -1;
    let worst = -1;
    let last = -1;
    for (let i = list.first(view.t0); i < list.count && list.begun[i] <= view.t1; i += 1) {
      const a = list.ids[i];
      const x = xOf(attempts.begun[a]);
      const end = xOf(drawnEnd[a]);
      const lit = state.lit === null || state.lit[a] === 1;
      if (end - x < 1.5) {
        const here = Math.floor(x);
        const rank = attempts.outcome[a] + (lit ? 16 : 0);
        if (here === pixel) {
          if (rank > worst) worst = rank;
        } else {
          if (pixel >= 0) put(worst & 15, worst > 15, pixel, y, Math.max(Math.min(1.5, last - pixel), 1), height);
          pixel = here;
          worst = rank;
        }
        last = Math.max(end, here + 1);
        continue;
      }
      if (pixel >= 0) put(worst & 15, worst > 15, pixel, y, 1, height);
      pixel = -1;
      const left = Math.max(x, GUTTER - 4);
      const width = Math.min(end, view.width + 4) - left;
      // A gap between neighbours, once there is room for one.
      put(attempts.outcome[a], lit, left, y, width > 5 ? width - 1 : width, height);
      if (width >= 11) letters.push(a, left, y, width);
    }
    if (pixel >= 0) put(worst & 15, worst > 15, pixel, y, 1, height);
  });
  flush(c);
  for (let i = 0; i < letters.length; i += 4) drawInside(c, letters[i], letters[i + 1], letters[i + 2], letters[i + 3]);
  c.globalAlpha = 1;
}

function drawPhases(c, lane) {
  const y = yOf(lane);
  c.font = `10px ${colours.font}`;
  c.textBaseline = "middle";
  c.textAlign = "left";
  lane.phases.forEach((phase, i) => {
    if (phase.ended < view.t0 || phase.begun > view.t1) return;
    const x = Math.max(xOf(phase.begun), GUTTER);
    const width = Math.max(Math.min(xOf(phase.ended), view.width) - x, 3);
    c.fillStyle = phase.error === null ? (i % 2 === 0 ? colours["phase-a"] : colours["phase-b"]) : colours.bad;
    const top = y + phase.strip * PHASE_STRIP;
    c.fillRect(x, top, width, PHASE_STRIP - 3);
    if (width > 34) {
      c.fillStyle = phase.error === null ? colours["phase-text"] : colours.ground;
      const text = lane.workloads.length > 1 ? `${phase.phase} of ${phase.workload}` : phase.phase;
      c.fillText(clipped(text, Math.floor((width - 6) / 5.6)), x + 4, top + 5.5);
    }
  });
}

/** The outline of each transaction, around its attempts. */
function drawOutlines(c, list, y, height) {
  c.strokeStyle = colours.muted;
  c.fillStyle = colours.faint;
  c.lineWidth = 1;
  for (let i = list.first(view.t0); i < list.count && list.begun[i] <= view.t1; i += 1) {
    const t = list.ids[i];
    if (attemptsOf.start[t + 1] - attemptsOf.start[t] < 2) continue;
    const x = Math.max(xOf(transactions.begun[t]), GUTTER - 4);
    const width = Math.min(xOf(transactions.ended[t]), view.width + 4) - x;
    if (width < 3) continue;
    c.globalAlpha = state.lit === null || attemptsOf.of(t).some((a) => state.lit[a] === 1) ? 1 : 0.3;
    c.fillRect(x, y, width, height);
    c.strokeRect(Math.round(x) - 1.5, y - 1.5, Math.round(width) + 2, height + 3);
  }
  c.globalAlpha = 1;
}

/** What is inside of an attempt: its letter, its operations, and its first key if there is room. */
function drawInside(c, a, x, y, width) {
  const outcome = attempts.outcome[a];
  const height = view.rowHeight - 4;
  c.globalAlpha = state.lit === null || state.lit[a] === 1 ? 1 : 0.3;
  c.fillStyle = colours.letter[outcome];
  const operationsHeight = width > 36 && height >= 18 ? 6 : 0;
  if (operationsHeight > 0) {
    for (const o of operationsOf.of(a)) {
      const begin = Math.max(xOf(operations.asked[o]), x + 1);
      const answered = operations.answered[o] < 0 ? operations.asked[o] : operations.answered[o];
      const end = Math.min(xOf(answered), x + width - 2);
      if (begin > view.width || end < GUTTER) continue;
      c.globalAlpha *= operations.kind[o] === 2 ? .95 : .6;
      const tall = operations.kind[o] === 1 ? 5 : 3;
      c.fillRect(begin, y + height - 1 - tall, Math.max(end - begin, 1.5), tall);
      c.globalAlpha = state.lit === null || state.lit[a] === 1 ? 1 : 0.3;
    }
  }
  c.textBaseline = "middle";
  const middle = y + (height - operationsHeight) / 2 + .5;
  c.font = `700 10px ${colours.font}`;
  const letter = outcomes[outcome].letter;
  if (width < 8 * letter.length + 3) return;
  const room = Math.floor((x + width - Math.max(x, GUTTER) - 12 - 9 * letter.length) / 6.1);
  if (room < 8) {
    plate(c, outcome, x + width / 2 - 9, middle, 18);
    c.textAlign = "center";
    c.fillText(letter, x + width / 2, middle);
    c.textAlign = "left";
    return;
  }
  c.textAlign = "left";
  const left = Math.max(x, GUTTER) + 4;
  const label = clipped(labelOf(a), room);
  plate(c, outcome, left - 2, middle, 9 * letter.length + 8 + label.length * 6.1);
  c.fillText(letter, left, middle);
  c.font = `10px ${colours.mono}`;
  c.fillText(label, left + 9 * letter.length + 4, middle);
}

/** Plain ground for text on a hatched bar. */
function plate(c, outcome, x, middle, width) {
  // On a dim one it would stand out.
  if (outcome < OUTCOME_UNKNOWN || c.globalAlpha < 1) return;
  c.fillStyle = colours.fill[outcome];
  c.fillRect(x, middle - 7, width, 13);
  c.fillStyle = colours.letter[outcome];
}

/** The name of a transaction's attempt on its bar: the first thing that tells it from others. */
function labelOf(a) {
  const list = operationsOf.of(a);
  const telling = list.find((o) => operations.kind[o] < 2) ?? list[0];
  const text = telling === undefined ? "" : strings[operations.call[telling]];
  return `${transactionNames[transactionOf[a]]} ${text}`;
}

// The cluster.

/** The process that led the recovery that had ended at a time: the cluster controller. */
function controllerAt(time) {
  const event = events.findLast((e) => e.name === "MasterRecoveryState" && e.time <= time);
  return event === undefined ? "" : laneTexts(event.lanes.filter((lane) => lane !== CLUSTER));
}

function drawCluster(c, lane) {
  const y = yOf(lane) + 2;
  const height = lane.height - 4;
  c.font = `11px ${colours.font}`;
  c.textBaseline = "middle";
  c.textAlign = "left";
  const ends = [...recoveries, { begun: Infinity, ended: Infinity }];
  let from = 0;
  ends.forEach((recovery, i) => {
    const until = Math.min(recovery.begun, run.end);
    if (until > from && from <= view.t1 && until >= view.t0 && i > 0) {
      const x = Math.max(xOf(from), GUTTER);
      const width = Math.min(xOf(until), view.width) - x;
      c.fillStyle = colours.process;
      c.globalAlpha = .55;
      c.fillRect(x, y, width - 1, height);
      c.globalAlpha = 1;
      c.fillStyle = colours.text;
      const controller = controllerAt(from);
      const text = width > 230 && controller !== "" ? `generation ${i}, recovered by ${controller}` : width > 100 ? `generation ${i}` : `${i}`;
      if (width > 16) c.fillText(text, x + 5, y + height / 2 + .5);
    }
    if (recovery.begun < view.t1 && recovery.ended > view.t0) {
      const x = Math.max(xOf(recovery.begun), GUTTER);
      const width = Math.max(Math.min(xOf(recovery.ended), view.width) - x, 2);
      c.fillStyle = colours["recovery-line"];
      c.fillRect(x, y, width, height);
      c.fillStyle = colours.ground;
      if (width > 62) c.fillText("recovery", x + 5, y + height / 2 + .5);
    }
    from = recovery.ended;
  });
}

function drawProcess(c, lane) {
  const y = yOf(lane);
  const middle = y + Math.floor(lane.height / 2);
  const low = y + lane.height - 3;
  const x0 = Math.max(xOf(0), GUTTER);
  const x1 = Math.min(xOf(run.end), view.width);
  c.fillStyle = colours.process;
  if (x1 > x0) c.fillRect(x0, low - 1, x1 - x0, 2);
  drawRoles(c, lane);
  for (const down of lane.down) {
    if (down.ended < view.t0 || down.begun > view.t1) continue;
    const x = xOf(down.begun);
    const width = Math.max(xOf(down.ended) - x, 3);
    c.fillStyle = colours.ground;
    c.fillRect(x, middle - 6, width, 12);
    c.fillStyle = patterns.down;
    c.fillRect(x, middle - 6, width, 12);
    c.strokeStyle = colours.down;
    c.lineWidth = 1;
    c.strokeRect(x + .5, middle - 5.5, Math.max(width - 1, 2), 11);
  }
}

/** What a process was, from one change of its roles to the next. */
function drawRoles(c, lane) {
  const y = yOf(lane) + 1;
  const height = lane.height - 5;
  c.font = `10px ${colours.font}`;
  c.textBaseline = "middle";
  c.textAlign = "left";
  for (const role of lane.roles) {
    if (role.ended < view.t0 || role.begun > view.t1) continue;
    const x = Math.max(xOf(role.begun), GUTTER);
    const width = Math.min(xOf(role.ended), view.width) - x;
    c.fillStyle = colours.role;
    c.fillRect(x, y, 1, height);
    if (width < 24) continue;
    c.fillStyle = colours["role-text"];
    c.fillText(clipped(role.text, Math.max(Math.floor((width - 6) / 5.6), 1)), x + 4, y + height / 2 + .5);
  }
}

/** Events: a diamond each, red ones for faults; one for each pixel. */
function drawMarks(c, lane) {
  const list = lane.marks;
  const y = yOf(lane) + (lane.kind === "cluster" ? Math.floor(lane.height / 2) : lane.height - (lane.kind === "client" ? 1 : 3));
  const size = 3.5;
  let pixel = -10;
  for (let i = list.first(view.t0); i < list.count && list.begun[i] <= view.t1; i += 1) {
    const event = events[list.ids[i]];
    const x = Math.round(xOf(event.time));
    if (x - pixel < 2) continue;
    pixel = x;
    c.fillStyle = event.fault ? colours.fault : colours.event;
    c.beginPath();
    if (lane.kind !== "client" && !event.fault) {
      c.rect(x - .5, y - 3, 1, 7);
    } else {
      c.moveTo(x, y - size);
      c.lineTo(x + size, y);
      c.lineTo(x, y + size);
      c.lineTo(x - size, y);
    }
    c.fill();
  }
}

// Arrows.

/** More than these at once would be a carpet. */
const ARROWS_MAX = 150;
let arrowsHidden = 0;

function drawArrows(c) {
  const begin = lowerBound(arrowTimes, view.t0);
  const end = lowerBound(arrowTimes, view.t1, true);
  const chosen = new Set();
  for (const what of [state.selected, state.hover]) {
    if (what?.transaction !== undefined) for (const i of arrowsOf.get(what.transaction) ?? []) chosen.add(i);
  }
  arrowsHidden = end - begin > ARROWS_MAX ? end - begin : 0;
  c.lineWidth = 1.2;
  if (arrowsHidden === 0) {
    for (let i = begin; i < end; i += 1) if (!chosen.has(i)) drawArrow(c, arrows[i], isArrowLit(arrows[i]) ? .75 : .12);
  }
  c.lineWidth = 2.2;
  for (const i of chosen) drawArrow(c, arrows[i], 1);
  c.globalAlpha = 1;
  if (arrowsHidden > 0) {
    const text = `${arrowsHidden.toLocaleString("en")} conflicts here: zoom in to see their arrows`;
    c.font = `11px ${colours.font}`;
    c.textAlign = "right";
    c.textBaseline = "middle";
    const width = c.measureText(text).width;
    c.fillStyle = colours.raised;
    c.globalAlpha = .92;
    c.fillRect(view.width - width - 22, view.height - 26, width + 14, 20);
    c.globalAlpha = 1;
    c.fillStyle = colours.muted;
    c.fillText(text, view.width - 15, view.height - 16);
  }
}

const isArrowLit = (arrow) => state.lit === null || (state.lit[arrow.from] === 1 && state.lit[arrow.to] === 1);
const attemptY = (a) => {
  const t = transactionOf[a];
  return rowY(lanes[transactions.lane[t]], transactions.row[t]) + view.rowHeight / 2;
};

function drawArrow(c, arrow, alpha) {
  const x1 = xOf(arrow.fromTime);
  const x2 = xOf(arrow.toTime);
  if (Math.max(x1, x2) < GUTTER || Math.min(x1, x2) > view.width) return;
  const half = view.rowHeight / 2 - 2;
  let y1 = attemptY(arrow.from);
  let y2 = attemptY(arrow.to);
  const down = y2 >= y1;
  y1 += down ? half : -half;
  y2 += down ? -half : half;
  c.globalAlpha = alpha;
  c.strokeStyle = colours.arrow;
  c.fillStyle = colours.arrow;
  const bend = Math.max(Math.abs(y2 - y1) * .5, 14) * (down ? 1 : -1);
  c.beginPath();
  c.moveTo(x1, y1);
  c.bezierCurveTo(x1, y1 + bend, x2, y2 - bend, x2, y2 - (down ? 5 : -5));
  c.stroke();
  c.beginPath();
  c.moveTo(x2, y2);
  c.lineTo(x2 - 4, y2 - (down ? 7 : -7));
  c.lineTo(x2 + 4, y2 - (down ? 7 : -7));
  c.fill();
  c.beginPath();
  c.arc(x1, y1, 2.2, 0, 7);
  c.fill();
}

// What is chosen, and what proves a finding.

function chosenLane() {
  const chosen = state.selected;
  if (!chosen) return null;
  return chosen.transaction === undefined ? chosen.lane : lanes[transactions.lane[chosen.transaction]];
}

function drawChosen(c) {
  for (const [what, colour, width] of [[state.hover, colours.text, 1], [state.selected, colours.accent, 2.5]]) {
    if (!what) continue;
    c.strokeStyle = colour;
    c.lineWidth = width;
    if (what.transaction !== undefined) {
      const t = what.transaction;
      const x = xOf(transactions.begun[t]);
      const y = rowY(lanes[transactions.lane[t]], transactions.row[t]);
      const right = Math.min(xOf(transactions.ended[t]), view.width + 8);
      const left = Math.max(x, GUTTER - 8);
      if (right >= left) c.strokeRect(left - 2, y - 1, Math.max(right - left, 2) + 4, view.rowHeight + 2);
    } else if (what.kind === "event") {
      const event = events[what.event];
      c.globalAlpha = .8;
      c.beginPath();
      c.moveTo(xOf(event.time), AXIS);
      c.lineTo(xOf(event.time), view.height);
      c.stroke();
      c.globalAlpha = 1;
    }
  }
}

function drawVerdict(c) {
  if (run.passed || run.time === null) return;
  const x = Math.round(xOf(run.time));
  if (x < GUTTER || x > view.width) return;
  c.fillStyle = colours.bad;
  c.fillRect(x, AXIS, 1.5, view.height);
  const text = "failed";
  c.font = `600 11px ${colours.font}`;
  const width = c.measureText(text).width + 10;
  const left = Math.min(x, view.width - width);
  c.fillRect(left, view.height - 18, width, 18);
  c.fillStyle = colours.ground;
  c.textAlign = "left";
  c.textBaseline = "middle";
  c.fillText(text, left + 5, view.height - 8.5);
}

/** The time at which a step of a proof is shown, and where. */
function stepPoint(step) {
  if (step.attempt < 0) return null;
  const time = step.time < 0 ? attempts.begun[step.attempt] : step.time;
  // At the lower edge, where no text is.
  return { x: xOf(time), y: attemptY(step.attempt) + view.rowHeight / 2 - 2 };
}

function drawProof(c) {
  const steps = state.finding < 0 ? [] : data.findings[state.finding].proof;
  const points = steps.map(stepPoint);
  c.strokeStyle = colours.proof;
  c.lineWidth = 1.5;
  c.setLineDash([4, 3]);
  c.beginPath();
  let before = null;
  for (const point of points) {
    if (point && before) {
      c.moveTo(before.x, before.y);
      c.lineTo(point.x, point.y);
    }
    before = point ?? before;
  }
  c.stroke();
  c.setLineDash([]);
  c.textAlign = "center";
  c.textBaseline = "middle";
  c.font = `700 11px ${colours.font}`;
  // Steps at one place stand side by side.
  const taken = [];
  points.forEach((point, i) => {
    if (!point) return;
    let { x } = point;
    while (taken.some((other) => Math.abs(other.x - x) < 19 && Math.abs(other.y - point.y) < 19)) x += 20;
    taken.push({ x, y: point.y });
    const now = i === state.step;
    c.beginPath();
    c.arc(x, point.y, now ? 11 : 9.5, 0, 7);
    c.fillStyle = now ? colours.proof : colours.ground;
    c.fill();
    c.lineWidth = 2;
    c.stroke();
    c.fillStyle = now ? colours.ground : colours.proof;
    c.fillText(`${i + 1}`, x, point.y + .5);
  });
}

// The whole run, as a strip: how much was under way, and what was bad.

let overviewPicture = null;
const forgetOverview = () => { overviewPicture = null; };

function drawOverview() {
  const c = overviewContext;
  const width = overview.clientWidth;
  const height = overview.clientHeight;
  c.setTransform(1, 0, 0, 1, 0, 0);
  overviewPicture ??= overviewOf(width, height);
  c.drawImage(overviewPicture, 0, 0);
  c.setTransform(view.dpr, 0, 0, view.dpr, 0, 0);
  const x0 = overviewX(Math.max(view.t0, 0), width);
  const x1 = Math.max(overviewX(Math.min(view.t1, runSpan), width), x0 + 3);
  c.fillStyle = colours.sunken;
  c.globalAlpha = .65;
  c.fillRect(GUTTER, 0, x0 - GUTTER, height);
  c.fillRect(x1, 0, width - x1, height);
  c.globalAlpha = 1;
  c.strokeStyle = colours.accent;
  c.lineWidth = 1.5;
  c.strokeRect(x0 + .75, .75, x1 - x0 - 1.5, height - 2);
}

const overviewX = (time, width) => GUTTER + time / runSpan * (width - GUTTER - 6);

function overviewOf(width, height) {
  const picture = document.createElement("canvas");
  picture.width = overview.width;
  picture.height = overview.height;
  const c = picture.getContext("2d");
  c.scale(view.dpr, view.dpr);
  c.fillStyle = colours.sunken;
  c.fillRect(0, 0, width, height);
  const step = 3;
  const buckets = Math.max(Math.ceil((width - GUTTER) / step), 1);
  const counts = outcomes.map(() => new Uint32Array(buckets));
  const totals = new Uint32Array(buckets);
  for (let a = 0; a < attempts.count; a += 1) {
    const bucket = Math.min(Math.max(Math.floor((overviewX(attempts.begun[a], width) - GUTTER) / step), 0), buckets - 1);
    counts[attempts.outcome[a]][bucket] += 1;
    totals[bucket] += 1;
  }
  for (const r of recoveries) {
    c.fillStyle = colours.recovery;
    const x = overviewX(r.begun, width);
    c.fillRect(x, 0, Math.max(overviewX(r.ended, width) - x, 1), height);
  }
  const most = totals.reduce((a, b) => Math.max(a, b), 1);
  for (let b = 0; b < buckets; b += 1) {
    let y = height - 3;
    // The worst stand at the bottom, and are never too small to see.
    for (let outcome = outcomes.length - 1; outcome >= 0; outcome -= 1) {
      const count = counts[outcome][b];
      if (count === 0) continue;
      const tall = Math.max(count / most * (height - 8), 1.5);
      c.fillStyle = colours.fill[outcome];
      c.fillRect(GUTTER + b * step, y - tall, step - .5, tall);
      y -= tall;
    }
  }
  if (!run.passed && run.time !== null) {
    c.fillStyle = colours.bad;
    c.fillRect(overviewX(run.time, width), 0, 1.5, height);
  }
  c.font = `11px ${colours.font}`;
  c.textBaseline = "middle";
  c.fillStyle = colours.muted;
  c.fillText("whole run", 10, height / 2);
  return picture;
}
