// The left side: how the run ended, what explains it, and the story of the keys.

const sidebar = byId("sidebar");

function fillSidebar() {
  sidebar.replaceChildren(
    element("h2", {}, "Verdict"), verdictCard(),
    element("h2", {}, data.findings.length > 0 ? `Findings (${data.findings.length})` : "Findings"),
    ...(data.findings.length > 0 ? data.findings.map(findingCard) : [noFinding()]),
    ...(data.stories.length === 0 ? [] : [element("h2", {}, "Keys that the failed check read"), ...data.stories.map(storyCard)]),
    element("h2", {}, "Run"), runCard());
}

function verdictCard() {
  const where = [
    run.phase === null ? null : `${run.phase}${run.workload === null ? "" : ` of ${run.workload}`}`,
    run.client === null ? null : `client ${run.client}`,
    run.time === null ? null : `at ${seconds(run.time, 3)}`,
  ].filter((text) => text !== null).join(", ");
  const command = run.reproduce === null ? null : element("div", { class: "command" },
    said(run.reproduce, "code", { tabIndex: 0, ariaLabel: "The command that runs this again", role: "textbox", ariaReadOnly: "true" }),
    element("button", { type: "button", onclick: (e) => copy(e.currentTarget, run.reproduce) }, "Copy"));
  return element("div", { class: `card verdict${run.passed ? " passed" : ""}` },
    said(run.passed ? "Every check passed" : run.message ?? run.kind ?? "The run failed", "p", { class: "message" }),
    run.passed || run.message === null || run.kind === null ? null : said(run.kind, "p", { class: "facts" }),
    where === "" ? null : said(where, "p", { class: "facts" }),
    command);
}

/** Copies text; where the browser does not allow it, selects it. */
async function copy(button, text) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  } catch {
    getSelection().selectAllChildren(button.previousSibling);
  }
}

function noFinding() {
  const text = run.passed ? "The run passed, and nothing in it is known to be a mistake."
    : "The record proves no known mistake. Look at what the failed check read, then at who wrote it: press / and search for the key.";
  return element("p", { class: "card empty" }, text);
}

function findingCard(finding, i) {
  const button = element("button", { type: "button", ariaExpanded: "false", onclick: () => showFinding(i, i === state.finding ? null : -1) },
    element("span", { class: "number" }, `${i + 1}`),
    element("span", {}, said(`${finding.name.replaceAll("-", " ")}${finding.times > 1 ? ` · ${finding.times} times in this run` : ""}`, "span", { class: "name" }), said(finding.sentence, "span")));
  const more = element("div", { class: "more", hidden: true },
    element("ol", { class: "steps" }, ...finding.proof.map((step, s) => element("li", {}, stepButton(step, s, () => showFinding(i, s))))),
    finding.advice === "" ? null : said(finding.advice, "p", { class: "advice" }));
  return element("div", { class: "card finding" }, button, more);
}

function stepButton(step, s, action) {
  const known = step.attempt >= 0;
  const o = step.operation;
  const place = o >= 0 && operations.place[o] >= 0 ? strings[places[operations.place[o]][0]] : null;
  const where = [
    step.time < 0 ? null : seconds(step.time),
    known ? clientText(attempts.client[step.attempt]) : "outside of the code under test",
    known ? transactionText(transactionOf[step.attempt]) : null,
  ].filter((text) => text !== null).join(" · ");
  return element("button", { type: "button", disabled: !known, onclick: action },
    element("span", { class: "badge" }, `${s + 1}`), said(step.note, "span"),
    element("span", { class: "where" }, where, place === null ? null : said(shortPlace(place), "span", { class: "place", title: place })));
}

/** A line with the end of its path: the beginning is the same for all. */
const shortPlace = (text) => (text.length > 34 ? text.split("/").slice(-2).join("/") : text);

function storyCard(story) {
  const leftOut = (count, which) => (count === 0 ? null : element("p", { class: "facts" }, `${plural(count, `${which} change`)} left out`));
  return element("details", { class: "card story" },
    element("summary", {}, said(story.key), element("span", { class: "where" }, ` · ${plural(story.chapters.length, "step")}`)),
    leftOut(story.earlier, "earlier"),
    element("ol", { class: "steps" }, ...story.chapters.map((step, s) => element("li", {}, stepButton(step, s, () => jump(step))))),
    leftOut(story.later, "later"));
}

function runCard() {
  return element("div", { class: "card" }, grid([
    ["cluster", run.cluster],
    ["clients", `${run.clients}`],
    ["time", `${seconds(run.end, 3)} simulated`],
    ["transactions", `${transactions.count.toLocaleString("en")}, in ${plural(attempts.count, "attempt")}`],
    run.drawn ? ["drawn", run.drawn] : ["buggify", run.buggify ? "on" : "off"],
    ["host", run.host],
    ["written by", run.program],
    ["left out", run.left_out.length === 0 ? null : `${run.left_out.join(", ")}: the run did more than a record holds, and the oldest were dropped`],
  ]));
}

/** Shows a finding: its proof on the timeline, or one step of it. `null` closes it. */
function showFinding(i, step) {
  const closed = step === null;
  state.finding = closed ? -1 : i;
  state.step = closed ? -1 : step;
  sidebar.querySelectorAll(".finding").forEach((card, n) => {
    const open = n === state.finding;
    card.classList.toggle("open", open);
    card.querySelector("button").setAttribute("aria-expanded", `${open}`);
    card.querySelector(".more").hidden = !open;
    card.querySelectorAll(".steps button").forEach((button, s) => {
      if (open && s === state.step) button.setAttribute("aria-current", "true");
      else button.removeAttribute("aria-current");
    });
    if (open) card.scrollIntoView({ block: "nearest" });
  });
  if (search.texts !== null) {
    byId("query").value = "";
    find("");
  } else {
    light();
  }
  if (closed) return;
  if (state.table) toggleTable(false);
  const finding = data.findings[i];
  if (state.step >= 0) {
    jump(finding.proof[state.step]);
    return;
  }
  const seen = finding.proof.filter((p) => p.attempt >= 0);
  if (seen.length === 0) return;
  const t0 = Math.min(...seen.map((p) => attempts.begun[p.attempt]));
  const t1 = Math.max(...seen.map((p) => drawnEnd[p.attempt]));
  const room = Math.max((t1 - t0) * .12, 500);
  show(t0 - room, t1 + room);
  showLane(lanes[transactions.lane[transactionOf[seen[0].attempt]]]);
  say(`Finding ${i + 1}: ${finding.sentence}`);
}

/** Shows one piece of evidence, and opens its transaction. */
function jump(step) {
  if (step.attempt < 0) return;
  const t = transactionOf[step.attempt];
  if (state.table) toggleTable(false);
  select({ kind: "transaction", transaction: t }, { operation: step.operation });
  showTransaction(t);
}

/** The next step of the proof, or the one before. */
function nextStep(by) {
  if (data.findings.length === 0) return;
  const finding = Math.max(state.finding, 0);
  const count = data.findings[finding].proof.length;
  if (count > 0) showFinding(finding, (Math.max(state.step, by > 0 ? -1 : 0) + by + count) % count);
}
