// Puts the page together.

function setTheme(theme) {
  state.theme = theme;
  document.documentElement.dataset.theme = theme;
  readColours();
  forgetOverview();
  fillLegend();
  redraw();
}
const toggleTheme = () => setTheme(state.theme === "dark" ? "light" : "dark");

function toggleSidebar(on = sidebar.hidden) {
  sidebar.hidden = !on;
  byId("toggle-sidebar").setAttribute("aria-expanded", `${on}`);
  layOut();
}

function fillLegend() {
  const used = new Set(attempts.outcome);
  const items = outcomes.map((outcome, i) => (used.has(i)
    ? element("li", { title: outcome.meaning }, outcomeBadge(i), outcome.name) : null));
  const swatch = (draw) => {
    const made = element("canvas", { width: 44, height: 32, ariaHidden: "true" });
    made.style.width = "22px";
    made.style.height = "16px";
    const c = made.getContext("2d");
    c.scale(2, 2);
    draw(c);
    return made;
  };
  if (arrows.length > 0) {
    items.push(element("li", {}, swatch((c) => {
      c.strokeStyle = c.fillStyle = colours.arrow;
      c.lineWidth = 1.4;
      c.beginPath();
      c.moveTo(2, 3);
      c.bezierCurveTo(8, 3, 10, 12, 15, 12);
      c.stroke();
      c.beginPath();
      c.moveTo(21, 12);
      c.lineTo(14, 8.5);
      c.lineTo(14, 15.5);
      c.fill();
    }), "made fail"));
  }
  const shade = (colour, text) => items.push(element("li", {}, swatch((c) => {
    c.fillStyle = colour;
    c.fillRect(0, 1, 22, 14);
    c.fillRect(0, 1, 22, 14);
  }), text));
  if (data.clogged.length > 0) shade(colours.clog, "clogged");
  if (recoveries.length > 0) shade(colours.recovery, "recovery");
  if (data.down.length > 0) {
    items.push(element("li", {}, swatch((c) => {
      c.fillStyle = patterns.down;
      c.fillRect(0, 2, 22, 12);
      c.strokeStyle = colours.down;
      c.strokeRect(.5, 2.5, 21, 11);
    }), "down"));
  }
  const diamond = (colour, text) => items.push(element("li", {}, swatch((c) => {
    c.fillStyle = colour;
    c.translate(11, 8);
    c.rotate(Math.PI / 4);
    c.fillRect(-3, -3, 6, 6);
  }), text));
  if (events.some((e) => e.fault)) diamond(colours.fault, "fault");
  byId("legend").replaceChildren(...items.filter((item) => item !== null));
}

function begin() {
  byId("verdict").textContent = run.passed ? "passed" : "failed";
  byId("verdict").classList.toggle("passed", run.passed);
  byId("file").textContent = run.file;
  byId("file").title = run.file;
  byId("seed").textContent = `seed ${run.seed}`;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  let chosen = false;
  setTheme(dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => { if (!chosen) setTheme(dark.matches ? "dark" : "light"); });
  fillSidebar();

  const press = (id, action) => byId(id).addEventListener("click", action);
  press("zoom-in", () => zoom(1.6));
  press("zoom-out", () => zoom(1 / 1.6));
  press("fit", fit);
  press("toggle-table", () => toggleTable());
  press("toggle-theme", () => { chosen = true; toggleTheme(); });
  press("toggle-help", () => byId("help").showModal());
  press("toggle-sidebar", () => toggleSidebar());
  press("previous-match", () => nextMatch(-1));
  press("skip", (e) => { e.preventDefault(); toggleTable(true); byId("table").focus(); });

  let typing = 0;
  byId("query").addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => find(byId("query").value), 120);
  });
  byId("query").addEventListener("keydown", (e) => {
    if (e.key === "Enter" && e.shiftKey) {
      e.preventDefault();
      nextMatch(-1);
    }
  });
  byId("search").addEventListener("submit", (e) => {
    e.preventDefault();
    if (search.query !== byId("query").value) find(byId("query").value);
    nextMatch(1);
  });

  // Paper is white, and as wide as it is.
  let before = null;
  window.addEventListener("beforeprint", () => {
    before = state.theme;
    setTheme("light");
    drawFrame();
  });
  window.addEventListener("afterprint", () => setTheme(before));
  new ResizeObserver(layOut).observe(scroller);
  if (window.innerWidth <= 900) toggleSidebar(false);
  layOut();
  fit();
}

begin();
