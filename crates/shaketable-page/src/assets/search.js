// Search by key, value, line, error or name: which texts match is found once for each text, then
// which operations, attempts and transactions have one of them.

const search = { query: "", texts: null, operations: null, transactions: [], events: [], place: -1 };
let lowered = null;

/** The texts that an operation can be found by. */
function operationMatches(o, texts) {
  if (texts[operations.call[o]] || texts[operations.answer[o]]) return true;
  const place = operations.place[o];
  return place >= 0 && (texts[places[place][0]] === 1 || texts[places[place][1]] === 1);
}

function find(query) {
  search.query = query;
  search.place = -1;
  const wanted = query.trim().toLowerCase();
  if (wanted === "") {
    Object.assign(search, { texts: null, operations: null, transactions: [], events: [] });
    return light();
  }
  lowered ??= strings.map((text) => text.toLowerCase());
  const texts = Uint8Array.from(lowered, (text) => (text.includes(wanted) ? 1 : 0));
  const hit = new Uint8Array(operations.count);
  const lit = new Uint8Array(attempts.count);
  for (let o = 0; o < operations.count; o += 1) {
    if (operationMatches(o, texts)) {
      hit[o] = 1;
      lit[operations.attempt[o]] = 1;
    }
  }
  const byOutcome = outcomes.map((outcome) => outcome.name.includes(wanted));
  const byName = /^(?:transaction |t)?(\d+)$/.exec(wanted);
  for (let a = 0; a < attempts.count; a += 1) {
    const commit = attempts.commit[a] < 0 ? null : commits[attempts.commit[a]];
    const inCommit = commit !== null && (texts[commit.fate] || (commit.conflict >= 0 && texts[commit.conflict])
      || [commit.reads, commit.writes, commit.mutations].some((list) => list.some((text) => texts[text])));
    if (texts[attempts.end[a]] || byOutcome[attempts.outcome[a]] || inCommit
      || clientText(attempts.client[a]) === wanted
      || (byName && attempts.transaction[a] === Number(byName[1]))) lit[a] = 1;
  }
  search.texts = texts;
  search.operations = hit;
  search.lit = lit;
  search.transactions = [];
  for (let t = 0; t < transactions.count; t += 1) if (attemptsOf.of(t).some((a) => lit[a])) search.transactions.push(t);
  search.transactions.sort((a, b) => transactions.begun[a] - transactions.begun[b]);
  search.events = events.filter((e) => e.name.toLowerCase().includes(wanted) || e.details.toLowerCase().includes(wanted)).map((e) => e.id);
  light();
}

/** What is lit: what a search found, else what proves the finding that is shown. */
function light() {
  const found = search.transactions.length + search.events.length;
  const output = byId("match-count");
  output.textContent = search.texts === null ? "" : search.place < 0 ? `${found.toLocaleString("en")} found` : `${search.place + 1} / ${found}`;
  output.classList.toggle("none", search.texts !== null && found === 0);
  if (search.texts !== null) {
    state.lit = search.lit;
  } else if (state.finding >= 0) {
    state.lit = new Uint8Array(attempts.count);
    for (const step of data.findings[state.finding].proof) {
      if (step.attempt >= 0) for (const a of attemptsOf.of(transactionOf[step.attempt])) state.lit[a] = 1;
    }
  } else {
    state.lit = null;
  }
  if (state.table) fillTable();
  redraw();
}

/** Goes to the next match, or the one before. */
function nextMatch(step) {
  const found = search.transactions.length + search.events.length;
  if (found === 0) return;
  search.place = search.place < 0 && step < 0 ? found - 1 : (search.place + step + found) % found;
  if (search.place < search.transactions.length) {
    const t = search.transactions[search.place];
    select({ kind: "transaction", transaction: t });
    showTransaction(t);
  } else {
    selectEvent(search.events[search.place - search.transactions.length]);
  }
  light();
}
