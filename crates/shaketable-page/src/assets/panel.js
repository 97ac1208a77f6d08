// The panel at the right: everything about one transaction, or one event.

const panel = byId("panel");

/** The letter of an outcome in its colours. */
function outcomeBadge(outcome) {
  const badge = element("span", { class: "badge-outcome", title: outcomes[outcome].meaning }, outcomes[outcome].letter);
  badge.style.background = `var(--o${outcome})`;
  badge.style.color = `var(--t${outcome})`;
  if (outcome === OUTCOME_OPEN || outcome >= OUTCOME_UNKNOWN) badge.style.boxShadow = `inset 0 0 0 1px var(${outcome === OUTCOME_OPEN ? "--muted" : "--unknown"})`;
  return badge;
}

/** Chooses something and opens it. */
function select(what, options = {}) {
  state.selected = what;
  if (what === null) {
    panel.hidden = true;
    panel.replaceChildren();
  } else if (what.transaction !== undefined) {
    openTransaction(what.transaction, options.operation ?? -1);
  } else if (what.kind === "event") {
    openEvent(what.event);
  }
  if (what !== null && options.focus) panel.focus();
  if (state.table) markRow();
  layOut();
}

function selectEvent(id) {
  const event = events[id];
  const lane = lanes[laneOfNumber.get(event.lanes[0])] ?? null;
  select({ kind: "event", lane, event: id });
  if (event.time < view.t0 || event.time > view.t1) {
    const half = (view.t1 - view.t0) / 2;
    show(event.time - half, event.time + half);
  }
  if (lane) showLane(lane);
}

function panelHead(title, ...buttons) {
  return element("header", {},
    element("h2", {}, title),
    element("div", { class: "buttons" }, ...buttons,
      element("button", { class: "icon", type: "button", ariaLabel: "Close", title: "Close (Esc)", onclick: () => { select(null); canvas.focus(); } }, "×")));
}

function grid(rows) {
  const list = element("dl", { class: "grid" });
  for (const [name, value] of rows) {
    if (value === null || value === undefined || value === "") continue;
    list.append(element("dt", {}, name), element("dd", {}, value));
  }
  return list;
}

function transactionLink(t, text) {
  return element("button", {
    class: "link", type: "button",
    onclick: () => { select({ kind: "transaction", transaction: t }, { focus: true }); showTransaction(t); },
  }, text);
}

function openTransaction(t, operation) {
  const list = Array.from(attemptsOf.of(t));
  const first = list[0];
  const phase = phaseOf(first);
  const zoomButton = element("button", { type: "button", title: "Zoom to it (z)", onclick: () => showTransaction(t, true) }, "Zoom");
  const content = [
    panelHead(`Transaction ${transactionNames[t]}`, zoomButton),
    grid([
      ["by", `${clientText(attempts.client[first])}${phase ? `, ${phase.phase} of ${phase.workload}` : ""}`],
      ["time", `${seconds(transactions.begun[t])} to ${seconds(transactions.ended[t])}, ${duration(transactions.ended[t] - transactions.begun[t])}`],
      ["attempts", list.length > 1 ? `${list.length}` : null],
    ]),
    ...list.map((a) => attemptCard(a, operation)),
  ];
  panel.hidden = false;
  panel.replaceChildren(...content);
  panel.scrollTop = 0;
  const proof = panel.querySelector("tr.proof, .attempt.proof");
  if (proof !== null) proof.scrollIntoView({ block: "center" });
  else (panel.querySelector("tr.match") ?? panel.querySelector(".attempt.match"))?.scrollIntoView({ block: "start" });
  say(`${transactionText(t)}, ${clientText(attempts.client[first])}, ${plural(list.length, "attempt")}, ${outcomes[attempts.outcome[list.at(-1)]].name}`);
}

function attemptCard(a, operation) {
  const outcome = attempts.outcome[a];
  const commit = attempts.commit[a] < 0 ? null : commits[attempts.commit[a]];
  const proof = stepsOf(a);
  const body = element("div", { class: "body" },
    grid([
      ["begun", seconds(attempts.begun[a])],
      ["lasted", attempts.ended[a] < 0 ? "until the end of the run" : duration(drawnEnd[a] - attempts.begun[a])],
      ["retries", attempts.retries[a] < 0 ? null : `attempt ${attempts.number[attempts.retries[a]]}, after ${strings[attempts.retryError[a]]}`],
      ["read version", attempts.readVersion[a] < 0 ? null : `${attempts.readVersion[a]}`],
      ["ended", strings[attempts.end[a]]],
      ["truth", commit === null || outcome < 2 ? null : strings[commit.fate]],
      ["committed", outcome === 1 && commit !== null ? strings[commit.fate] : null],
    ]));
  if (commit !== null && commit.conflict >= 0) {
    body.append(element("p", {}, "Conflict on ", said(strings[commit.conflict], "code"), ", written by ",
      commit.winner >= 0
        ? transactionLink(transactionOf[commit.winner], `${transactionText(transactionOf[commit.winner])} of ${clientText(attempts.client[commit.winner])}`)
        : commit.winnerVersion >= 0 ? `a transaction outside of the code under test, at version ${commit.winnerVersion}` : "a transaction that is not known", "."));
  }
  const losers = arrows.length === 0 ? [] : (arrowsOf.get(transactionOf[a]) ?? []).map((i) => arrows[i]).filter((arrow) => arrow.from === a);
  if (losers.length > 0) {
    const links = losers.slice(0, 12).flatMap((arrow, i) => [i > 0 ? ", " : "",
      transactionLink(transactionOf[arrow.to], `${transactionText(transactionOf[arrow.to])} of ${clientText(attempts.client[arrow.to])}`)]);
    const more = losers.length > 12 ? ` and ${losers.length - 12} more` : "";
    body.append(element("p", {}, "Made fail: ", ...links, `${more}.`));
  }
  body.append(operationTable(a, operation, proof));
  if (commit !== null) {
    for (const [name, list] of [["Read, for conflicts", commit.reads], ["Written, for conflicts", commit.writes], ["Changes", commit.mutations]]) {
      if (list.length === 0) continue;
      const shown = list.slice(0, 50).map((text) => said(strings[text], "li"));
      if (list.length > 50) shown.push(element("li", {}, `and ${list.length - 50} more`));
      body.append(element("details", {}, element("summary", {}, `${name} (${list.length})`), element("ul", { class: "list" }, ...shown)));
    }
  }
  return element("section", { class: `card attempt${proof.some((step) => step.operation < 0) ? " proof" : ""}${search.texts !== null && search.lit[a] === 1 ? " match" : ""}` },
    element("h3", {}, outcomeBadge(outcome), `Attempt ${attempts.number[a]}: ${outcomes[outcome].name}`), body);
}

/** The steps of the shown finding's proof that are in an attempt, with their numbers. */
function stepsOf(a) {
  if (state.finding < 0) return [];
  return data.findings[state.finding].proof.map((step, i) => ({ ...step, number: i + 1 })).filter((step) => step.attempt === a);
}

const OPERATIONS_MAX = 400;

function operationTable(a, operation, proof) {
  const all = Array.from(operationsOf.of(a));
  if (all.length === 0) return element("p", { class: "empty" }, "Its operations are not in the record.");
  const table = element("table", { class: "operations" },
    element("thead", {}, element("tr", {}, element("th", { class: "when", scope: "col", title: "Since the attempt began, and how long it took" }, "when"), element("th", { scope: "col" }, "operation"))));
  const rows = element("tbody");
  // Of very many, those around the one that is wanted.
  const wanted = all.indexOf(operation);
  const from = all.length <= OPERATIONS_MAX || wanted < OPERATIONS_MAX / 2 ? 0 : Math.min(wanted - OPERATIONS_MAX / 2, all.length - OPERATIONS_MAX);
  const shown = all.slice(from, from + OPERATIONS_MAX);
  for (const o of shown) {
    const steps = proof.filter((step) => step.operation === o);
    const asked = operations.asked[o] - attempts.begun[a];
    const took = operations.answered[o] <= operations.asked[o] ? "" : duration(operations.answered[o] - operations.asked[o]);
    const place = operations.place[o] < 0 ? null : places[operations.place[o]];
    const answer = strings[operations.answer[o]];
    rows.append(element("tr", { class: [steps.length > 0 ? "proof" : "", search.operations?.[o] === 1 ? "match" : ""].join(" ").trim() },
      element("td", { class: "when" }, duration(asked), took === "" ? null : element("br"), took === "" ? null : `+ ${took}`),
      element("td", {},
        said(strings[operations.call[o]], "div", { class: "call" }),
        answer === "" ? null : said(answer, "div", { class: `answer${operations.failed[o] ? " failed" : ""}` }),
        place === null ? null : said(`${strings[place[0]]}${strings[place[1]] === "" ? "" : ` in ${strings[place[1]]}`}`, "div", { class: "place" }),
        ...steps.map((step) => element("div", {}, element("strong", {}, `${step.number}. `), said(step.note))))));
  }
  table.append(rows);
  if (shown.length === all.length) return table;
  return element("div", {}, element("p", { class: "empty" }, `Operations ${from + 1} to ${from + shown.length} of ${all.length}.`), table);
}

function openEvent(id) {
  const event = events[id];
  panel.hidden = false;
  panel.replaceChildren(
    panelHead(said(event.name)),
    grid([
      ["time", seconds(event.time)],
      ["at", laneTexts(event.lanes)],
      ["kind", event.fault ? "a fault" : null],
    ]),
    event.details === "" ? "" : said(event.details, "p", { class: "details card" }));
  panel.scrollTop = 0;
  say(`${event.name} at ${seconds(event.time)}, ${laneTexts(event.lanes)}`);
}

const laneTexts = (numbers) => numbers.map((number) => lanes[laneOfNumber.get(number)]?.label ?? "").filter((text) => text !== "").join(", ");

// The tip beside the pointer.

const tip = byId("tip");

function showTip(what, x, y) {
  const content = what === null ? null : tipOf(what);
  if (content === null) {
    tip.hidden = true;
    return;
  }
  tip.replaceChildren(...content);
  tip.hidden = false;
  placeTip(x, y);
}

function placeTip(x, y) {
  if (tip.hidden) return;
  const box = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(x + 14, window.innerWidth - box.width - 8))}px`;
  tip.style.top = `${y + 18 + box.height > window.innerHeight - 8 ? Math.max(4, y - box.height - 12) : y + 18}px`;
}

function tipOf(what) {
  const line = (text, name = "") => said(text, "div", { class: name });
  if (what.kind === "attempt") {
    const a = what.attempt;
    const t = what.transaction;
    const count = attemptsOf.of(t).length;
    const commit = attempts.commit[a] < 0 ? null : commits[attempts.commit[a]];
    const list = operationsOf.of(a);
    const lines = [
      element("strong", {}, `Transaction ${transactionNames[t]}${count > 1 ? `, attempt ${attempts.number[a]} of ${count}` : ""}`),
      line(`${clientText(attempts.client[a])}, ${seconds(attempts.begun[a])}, ${duration(drawnEnd[a] - attempts.begun[a])}`, "muted"),
      element("div", {}, outcomeBadge(attempts.outcome[a]), ` ${strings[attempts.end[a]]}`),
    ];
    if (commit !== null && attempts.outcome[a] >= OUTCOME_UNKNOWN) lines.push(line(strings[commit.fate]));
    if (commit !== null && commit.conflict >= 0) lines.push(line(`conflict on ${strings[commit.conflict]}`, "code"));
    for (const o of list.subarray(0, 7)) {
      const answer = strings[operations.answer[o]].split("\n")[0];
      lines.push(line(brief(`${strings[operations.call[o]]}${answer === "" ? "" : ` → ${answer}`}`, 110), "code"));
    }
    if (list.length > 7) lines.push(line(`and ${list.length - 7} more operations`, "muted"));
    return lines;
  }
  if (what.kind === "transaction") {
    const t = what.transaction;
    return [
      element("strong", {}, `Transaction ${transactionNames[t]}`),
      line(`between two of its ${attemptsOf.of(t).length} attempts: ${clientText(transactions.client[t])} waits before it tries again`, "muted"),
    ];
  }
  if (what.kind === "phase") {
    const p = what.phase;
    return [
      element("strong", {}, `${p.phase} of ${p.workload}`),
      line(`${what.lane.label}, ${seconds(p.begun)}${p.open ? ", and did not end" : ` to ${seconds(p.ended)}`}`, "muted"),
      p.error === null ? null : line(p.error),
    ].filter((child) => child !== null);
  }
  if (what.kind === "role") {
    return [
      said(`${what.lane.label}: ${what.role.text}`, "strong"),
      line(`${seconds(what.role.begun)} to ${seconds(what.role.ended)}`, "muted"),
    ];
  }
  if (what.kind === "event") {
    const event = events[what.event];
    return [
      element("strong", {}, event.name),
      line(`${seconds(event.time)}, ${brief(laneTexts(event.lanes), 80)}`, "muted"),
      line(brief(event.details, 500), "code"),
    ];
  }
  if (what.kind === "lane" && what.lane.kind === "client") {
    const lane = what.lane;
    return [
      said(`${lane.label}${lane.workloads ? `: ${lane.workloads.join(", ")}` : ""}`, "strong"),
      line(plural(lane.transactions.count, "transaction"), "muted"),
    ];
  }
  return what.kind === "lane" ? [said(what.lane.label, "strong")] : null;
}
