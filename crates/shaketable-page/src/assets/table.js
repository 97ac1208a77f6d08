// The same as a table: for screen readers, and for those who like tables. A page at a time, since a
// browser is slow with a hundred thousand rows.

const PAGE_ROWS = 100;
const table = { tab: "transactions", page: 0, sort: "begun", descending: false };

function toggleTable(on = !state.table) {
  state.table = on;
  byId("table").hidden = !on;
  byId("timeline").hidden = on;
  byId("toggle-table").setAttribute("aria-pressed", `${on}`);
  if (on) {
    fillTable();
  } else {
    byId("table").replaceChildren();
    layOut();
  }
}

const worst = (t) => attemptsOf.of(t).reduce((most, a) => Math.max(most, attempts.outcome[a]), 0);
const sorts = {
  begun: (t) => transactions.begun[t],
  duration: (t) => transactions.ended[t] - transactions.begun[t],
  attempts: (t) => attemptsOf.of(t).length,
  client: (t) => transactions.client[t],
  outcome: worst,
};

function tableRows() {
  if (table.tab === "events") return search.texts === null ? events.map((e) => e.id) : search.events;
  const all = search.texts === null ? Array.from({ length: transactions.count }, (_, t) => t) : search.transactions.slice();
  const value = sorts[table.sort];
  const sign = table.descending ? -1 : 1;
  return all.sort((a, b) => sign * (value(a) - value(b)) || transactions.begun[a] - transactions.begun[b]);
}

function fillTable() {
  const rows = tableRows();
  const pages = Math.max(Math.ceil(rows.length / PAGE_ROWS), 1);
  table.page = Math.min(Math.max(table.page, 0), pages - 1);
  const from = table.page * PAGE_ROWS;
  const shown = rows.slice(from, from + PAGE_ROWS);
  const tab = (name, text) => element("button", { type: "button", ariaPressed: `${table.tab === name}`, onclick: () => { table.tab = name; table.page = 0; fillTable(); focusIn(`[data-tab=${name}]`); }, "data-tab": name }, text);
  const turn = (name, text, by, disabled) => element("button", { type: "button", disabled, "data-turn": name, onclick: () => { table.page += by; fillTable(); focusIn(`[data-turn=${name}]`); say(`Page ${table.page + 1} of ${pages}`); } }, text);
  const info = rows.length === 0 ? "nothing to show" : `${(from + 1).toLocaleString("en")} to ${(from + shown.length).toLocaleString("en")} of ${rows.length.toLocaleString("en")}`;
  byId("table").replaceChildren(
    element("div", { class: "bar" }, tab("transactions", "Transactions"), tab("events", "Cluster and events"),
      element("span", { class: "info" }, `${info}${search.texts === null ? "" : `, found by “${search.query.trim()}”`}`),
      turn("back", "Previous", -1, table.page === 0), turn("on", "Next", 1, table.page >= pages - 1)),
    table.tab === "events" ? eventTable(shown) : transactionTable(shown));
  markRow();
}

const focusIn = (selector) => {
  const button = byId("table").querySelector(selector);
  (button?.disabled ? byId("table") : button)?.focus();
};

function transactionTable(rows) {
  const column = (name, text, number = false) => {
    const sorted = table.sort === name;
    const button = element("button", { class: "link", type: "button", "data-sort": name, onclick: () => {
      table.descending = sorted ? !table.descending : name !== "begun" && name !== "client";
      table.sort = name;
      table.page = 0;
      fillTable();
      focusIn(`[data-sort=${name}]`);
    } }, text);
    return element("th", { scope: "col", class: number ? "number" : "", ariaSort: sorted ? (table.descending ? "descending" : "ascending") : "none" }, button,
      element("span", { ariaHidden: "true" }, sorted ? (table.descending ? " ↓" : " ↑") : ""));
  };
  const plainColumn = (text) => element("th", { scope: "col" }, text);
  return element("table", {},
    element("caption", {}, "Transactions with their attempts. The name opens one."),
    element("thead", {}, element("tr", {}, plainColumn("Transaction"), column("client", "Client"), plainColumn("Phase"), column("begun", "Begun", true),
      column("duration", "Lasted", true), column("attempts", "Attempts", true), column("outcome", "Outcomes"), plainColumn("Operations"), plainColumn("Line"))),
    element("tbody", {}, ...rows.map(transactionRow)));
}

function transactionRow(t) {
  const list = Array.from(attemptsOf.of(t));
  const last = list.at(-1);
  const calls = Array.from(operationsOf.of(last)).filter((o) => operations.kind[o] < 2);
  const shown = calls.slice(0, 3).map((o) => brief(strings[operations.call[o]], 70)).join("; ");
  const line = Array.from(operationsOf.of(last)).map((o) => operations.place[o]).find((place) => place >= 0);
  const ending = list.length === 1 ? outcomes[attempts.outcome[last]].name
    : `${outcomes[attempts.outcome[last]].name}, after ${[...new Set(list.slice(0, -1).map((a) => outcomes[attempts.outcome[a]].name))].join(", ")}`;
  const row = element("tr", {},
    element("th", { scope: "row" }, element("button", { class: "link", type: "button", onclick: () => select({ kind: "transaction", transaction: t }, { focus: true }) }, `${transactionNames[t]}`)),
    element("td", {}, transactions.client[t] < 0 ? "none" : `${transactions.client[t]}`),
    element("td", {}, phaseOf(list[0])?.phase ?? ""),
    element("td", { class: "number" }, seconds(transactions.begun[t])),
    element("td", { class: "number" }, duration(transactions.ended[t] - transactions.begun[t])),
    element("td", { class: "number" }, `${list.length}`),
    element("td", {}, element("span", { class: "outcomes", ariaHidden: "true" }, ...list.slice(0, 6).map((a) => outcomeBadge(attempts.outcome[a]))), ending),
    said(`${shown}${calls.length > 3 ? `; and ${calls.length - 3} more` : ""}`, "td", { class: "keys" }),
    said(line === undefined ? "" : strings[places[line][0]], "td", { class: "keys" }));
  row.dataset.transaction = `${t}`;
  return row;
}

function markRow() {
  for (const row of byId("table").querySelectorAll("tr[data-transaction]")) {
    row.classList.toggle("selected", state.selected?.transaction === Number(row.dataset.transaction));
  }
}

function eventTable(rows) {
  return element("table", {},
    element("caption", {}, "What happened to the cluster, and what the workloads traced."),
    element("thead", {}, element("tr", {}, ...["Time", "Event", "Where", "Fault", "Details"].map((text) => element("th", { scope: "col" }, text)))),
    element("tbody", {}, ...rows.map((id) => {
      const event = events[id];
      return element("tr", {},
        element("td", { class: "number" }, seconds(event.time)),
        element("th", { scope: "row" }, said(event.name)),
        said(laneTexts(event.lanes), "td"),
        element("td", {}, event.fault ? "yes" : ""),
        said(brief(event.details.replaceAll("\n", ", "), 240), "td", { class: "keys" }));
    })));
}
