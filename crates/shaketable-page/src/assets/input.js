// Wheel, pointer and keys.

// One pointer drags, two pinch, one that does not move clicks.
const pointers = new Map();
let dragged = false;
let pinch = 0;

canvas.addEventListener("pointerdown", (e) => {
  if (e.button !== 0) return;
  canvas.setPointerCapture(e.pointerId);
  pointers.set(e.pointerId, { x: e.offsetX, y: e.offsetY });
  dragged = false;
  pinch = spread();
});
canvas.addEventListener("pointermove", (e) => {
  const before = pointers.get(e.pointerId);
  if (!before) {
    hover(e);
    return;
  }
  const dx = e.offsetX - before.x;
  const dy = e.offsetY - before.y;
  if (!dragged && Math.hypot(dx, dy) < 4 && pointers.size === 1) return;
  dragged = true;
  canvas.classList.add("dragging");
  showTip(null);
  state.hover = null;
  pointers.set(e.pointerId, { x: e.offsetX, y: e.offsetY });
  if (pointers.size === 2) {
    const now = spread();
    const [a, b] = [...pointers.values()];
    if (pinch > 0 && now > 0) zoom(now / pinch, (a.x + b.x) / 2);
    pinch = now;
  } else {
    pan(-dx);
    scroller.scrollTop -= dy;
  }
});
for (const name of ["pointerup", "pointercancel"]) {
  canvas.addEventListener(name, (e) => {
    if (!pointers.delete(e.pointerId)) return;
    canvas.classList.remove("dragging");
    if (!dragged && name === "pointerup") click(e);
  });
}
canvas.addEventListener("pointerleave", () => {
  state.hover = null;
  showTip(null);
  redraw();
});

function spread() {
  const [a, b] = [...pointers.values()];
  return b ? Math.hypot(a.x - b.x, a.y - b.y) : 0;
}

function hover(e) {
  const what = at(e.offsetX, e.offsetY);
  const same = ["kind", "lane", "transaction", "attempt", "event", "phase", "role"].every((key) => what?.[key] === state.hover?.[key]);
  state.hover = what;
  if (same) {
    placeTip(e.clientX, e.clientY);
    return;
  }
  canvas.classList.toggle("pointing", what !== null && what.kind !== "lane" && what.kind !== "phase" && what.kind !== "role");
  showTip(what, e.clientX, e.clientY);
  redraw();
}

function click(e) {
  const what = at(e.offsetX, e.offsetY);
  if (what?.transaction !== undefined) select({ kind: "transaction", transaction: what.transaction });
  else if (what?.kind === "event") select(what);
  else if (state.selected) select(null);
}

canvas.addEventListener("dblclick", (e) => {
  const what = at(e.offsetX, e.offsetY);
  if (what?.transaction !== undefined) showTransaction(what.transaction, true);
  else if (what?.kind === "phase") show(what.phase.begun, what.phase.ended);
});

scroller.addEventListener("wheel", (e) => {
  // Over the names the wheel scrolls, as everywhere else.
  if (e.offsetX < GUTTER && !e.ctrlKey && e.target === canvas) return;
  e.preventDefault();
  const unit = e.deltaMode === 1 ? 16 : 1;
  if (e.altKey) scroller.scrollTop += e.deltaY * unit;
  else if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) pan((e.deltaX || e.deltaY) * unit);
  // A pinch on a touchpad comes as a wheel with Ctrl, in small steps.
  else zoom(Math.exp(-e.deltaY * unit * (e.ctrlKey ? .01 : .0016)), e.offsetX);
  state.hover = null;
  showTip(null);
}, { passive: false });
scroller.addEventListener("scroll", redraw);

// The strip of the whole run: a click or a drag moves the view.
let strip = false;
const moveTo = (e) => {
  const time = (e.offsetX - GUTTER) / (overview.clientWidth - GUTTER - 6) * runSpan;
  const half = (view.t1 - view.t0) / 2;
  show(time - half, time + half);
};
overview.addEventListener("pointerdown", (e) => {
  strip = true;
  overview.setPointerCapture(e.pointerId);
  moveTo(e);
});
overview.addEventListener("pointermove", (e) => { if (strip) moveTo(e); });
overview.addEventListener("pointerup", () => { strip = false; });
overview.addEventListener("wheel", (e) => {
  e.preventDefault();
  zoom(Math.exp(-e.deltaY * .0016));
}, { passive: false });

// Keys.

/** The transaction after the chosen one in its lane, or before it. */
function nextTransaction(by) {
  const lane = chosenLane() ?? lanes.find((l) => l.kind === "client" && l.transactions.count > 0);
  if (!lane || lane.kind !== "client" || lane.transactions.count === 0) return;
  const list = lane.transactions;
  const now = state.selected?.transaction;
  const place = now === undefined ? -1 : list.ids.indexOf(now);
  const next = place < 0 ? Math.min(list.first(view.t0), list.count - 1) : Math.min(Math.max(place + by, 0), list.count - 1);
  choose(list.ids[next]);
}

/** The transaction of the next lane that is nearest in time. */
function nextLane(by) {
  const now = chosenLane();
  const withSome = lanes.filter((l) => l.kind === "client" && l.transactions.count > 0);
  if (withSome.length === 0) return;
  const place = now ? withSome.indexOf(now) : by > 0 ? -1 : withSome.length;
  const lane = withSome[Math.min(Math.max(place + by, 0), withSome.length - 1)];
  const time = state.selected?.transaction === undefined ? view.t0 : transactions.begun[state.selected.transaction];
  choose(lane.transactions.ids[Math.min(lane.transactions.first(time), lane.transactions.count - 1)]);
}

/** Chooses without moving the focus, so that the next key does the same. */
function choose(t) {
  select({ kind: "transaction", transaction: t });
  showTransaction(t);
}

function escape() {
  if (!panel.hidden) {
    const inside = panel.contains(document.activeElement);
    select(null);
    if (inside) (state.table ? byId("table") : canvas).focus();
  } else if (search.texts !== null) {
    byId("query").value = "";
    find("");
  } else if (state.finding >= 0) {
    showFinding(state.finding, null);
  }
}

const everywhere = {
  "/": () => byId("query").focus(),
  "?": () => byId("help").showModal(),
  t: () => { toggleTable(); (state.table ? byId("table") : canvas).focus(); },
  d: () => toggleTheme(),
  b: () => toggleSidebar(),
  "+": () => zoom(1.6), "=": () => zoom(1.6), "-": () => zoom(1 / 1.6), "−": () => zoom(1 / 1.6),
  0: () => fit(), f: () => fit(),
  n: () => nextTransaction(1), p: () => nextTransaction(-1), j: () => nextLane(1), k: () => nextLane(-1),
  z: () => { if (state.selected?.transaction !== undefined) showTransaction(state.selected.transaction, true); },
  ".": () => nextStep(1), ",": () => nextStep(-1),
  Escape: escape,
};
for (let i = 1; i <= 9; i += 1) everywhere[i] = () => { if (i <= data.findings.length) showFinding(i - 1, -1); };
const onCanvas = {
  ArrowLeft: () => pan(-80), ArrowRight: () => pan(80),
  ArrowUp: () => { scroller.scrollTop -= 60; }, ArrowDown: () => { scroller.scrollTop += 60; },
  PageUp: () => { scroller.scrollTop -= view.height - 60; }, PageDown: () => { scroller.scrollTop += view.height - 60; },
  Home: () => show(0, view.t1 - view.t0), End: () => show(runSpan - (view.t1 - view.t0), runSpan),
  Enter: () => { if (state.selected === null) nextTransaction(0); else panel.focus(); },
};

document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || byId("help").open) return;
  const typing = e.target instanceof HTMLInputElement;
  if (typing) {
    if (e.key === "Escape") {
      byId("query").value = "";
      find("");
      canvas.focus();
    }
    return;
  }
  const action = (e.target === canvas || e.target === document.body ? onCanvas[e.key] : undefined) ?? everywhere[e.key];
  if (action === undefined) return;
  e.preventDefault();
  action();
});
