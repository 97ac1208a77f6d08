// The run, as the rest of the script uses it: typed columns, transactions made of attempts, and
// lanes with rows in which nothing overlaps. It is built once and never changes.

const data = JSON.parse(document.getElementById("data").textContent);
const run = data.run;
const strings = data.strings;
const outcomes = data.outcomes;
const OUTCOME_OPEN = 3;
const OUTCOME_CONFLICT = 4;
const OUTCOME_UNKNOWN = 6; // and those after it
/** More strips of phases than this would leave no room for transactions. */
const STRIPS_MAX = 4;
/** More rows than this would make a lane that does not fit a window; the rest overlap. */
const ROWS_MAX = 8;

const attempts = {
  count: data.attempts.client.length,
  client: Int32Array.from(data.attempts.client),
  phase: Int32Array.from(data.attempts.phase),
  transaction: Uint32Array.from(data.attempts.transaction),
  number: Uint32Array.from(data.attempts.number),
  retries: Int32Array.from(data.attempts.retries),
  retryError: Int32Array.from(data.attempts.retry_error),
  begun: Float64Array.from(data.attempts.begun),
  ended: Float64Array.from(data.attempts.ended),
  readVersion: data.attempts.read_version,
  outcome: Uint8Array.from(data.attempts.outcome),
  end: Uint32Array.from(data.attempts.end),
  commit: Int32Array.from(data.attempts.commit),
};
const operations = {
  count: data.operations.attempt.length,
  attempt: Uint32Array.from(data.operations.attempt),
  asked: Float64Array.from(data.operations.asked),
  answered: Float64Array.from(data.operations.answered),
  place: Int32Array.from(data.operations.place),
  kind: Uint8Array.from(data.operations.kind),
  call: Uint32Array.from(data.operations.call),
  answer: Uint32Array.from(data.operations.answer),
  failed: Uint8Array.from(data.operations.failed),
};
const commits = data.commits.map(([operation, reads, writes, mutations, fate, conflict, winner, winnerVersion]) => ({
  operation, reads, writes, mutations, fate, conflict, winner, winnerVersion,
}));
const places = data.places;
const events = data.events.map(([time, name, lanes, fault, details], id) => ({
  id, time, name: strings[name], lanes, fault: fault === 1, details: strings[details],
}));

/** For each of `count` owners the list of what it owns, in order: owned[start[i]] … */
function grouped(count, owners) {
  const start = new Uint32Array(count + 1);
  for (const owner of owners) start[owner + 1] += 1;
  for (let i = 0; i < count; i += 1) start[i + 1] += start[i];
  const next = start.slice();
  const owned = new Uint32Array(owners.length);
  for (let i = 0; i < owners.length; i += 1) owned[next[owners[i]]++] = i;
  return { start, owned, of: (owner) => owned.subarray(start[owner], start[owner + 1]) };
}

const operationsOf = grouped(attempts.count, operations.attempt);

/** When an attempt ended as far as it can be drawn. */
const drawnEnd = new Float64Array(attempts.count);
for (let a = 0; a < attempts.count; a += 1) {
  let end = attempts.ended[a];
  if (end < 0) {
    end = attempts.begun[a];
    for (const o of operationsOf.of(a)) end = Math.max(end, operations.asked[o], operations.answered[o]);
    if (attempts.outcome[a] === OUTCOME_OPEN) end = Math.max(end, run.end);
  }
  drawnEnd[a] = Math.max(end, attempts.begun[a]);
}

// Transactions, numbered in the order in which they begin.
const transactionNames = [];
const transactionOf = new Uint32Array(attempts.count);
{
  const found = new Map();
  for (let a = 0; a < attempts.count; a += 1) {
    const name = attempts.transaction[a];
    let index = found.get(name);
    if (index === undefined) {
      index = transactionNames.length;
      found.set(name, index);
      transactionNames.push(name);
    }
    transactionOf[a] = index;
  }
}
const attemptsOf = grouped(transactionNames.length, transactionOf);
const transactions = {
  count: transactionNames.length,
  begun: new Float64Array(transactionNames.length).fill(Infinity),
  ended: new Float64Array(transactionNames.length),
  client: new Int32Array(transactionNames.length),
  lane: new Int32Array(transactionNames.length),
  row: new Uint8Array(transactionNames.length),
};
for (let a = 0; a < attempts.count; a += 1) {
  const t = transactionOf[a];
  transactions.begun[t] = Math.min(transactions.begun[t], attempts.begun[a]);
  transactions.ended[t] = Math.max(transactions.ended[t], drawnEnd[a]);
  transactions.client[t] = attempts.client[a];
}
const lastAttempt = (t) => attemptsOf.of(t).at(-1);

/** A list of things that last, from which those in a stretch of time can be found quickly. */
function timed(ids, begin, end) {
  const order = Array.from(ids).sort((a, b) => begin(a) - begin(b) || a - b);
  const begun = Float64Array.from(order, begin);
  // The latest end so far never decreases, even if what is in the list overlaps.
  const latest = Float64Array.from(order, end);
  for (let i = 1; i < latest.length; i += 1) latest[i] = Math.max(latest[i], latest[i - 1]);
  return {
    ids: order, begun, count: order.length,
    /** The first that may reach `time`. */
    first: (time) => lowerBound(latest, time),
    /** The first that begins after `time`. */
    after: (time) => lowerBound(begun, time, true),
  };
}

function lowerBound(sorted, value, beyond = false) {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (beyond ? sorted[middle] <= value : sorted[middle] < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

// Lanes: the clients, the cluster as a whole, its processes. A client is known by its number, the
// cluster by −1, a process by −2 and less; calls from outside of every client by a number of their
// own.
const OUTSIDE = 1 << 30;
const CLUSTER = -1;
const lanes = [];
const laneOfNumber = new Map();
function addLane(lane) {
  laneOfNumber.set(lane.number, lanes.length);
  lanes.push({ rows: [], phases: [], roles: [], clogged: [], down: [], marks: null, ...lane });
}
{
  const clients = new Set(Array.from({ length: Math.min(run.clients, 250) }, (_, i) => i));
  for (const client of attempts.client) if (client >= 0) clients.add(client);
  for (const [client] of data.phases) clients.add(client);
  for (const client of [...clients].sort((a, b) => a - b)) {
    addLane({ number: client, kind: "client", label: `client ${client}` });
  }
  if (attempts.client.includes(-1)) addLane({ number: OUTSIDE, kind: "client", label: "no client" });
  if (data.processes.length > 0 || data.recoveries.length > 0 || events.some((e) => e.lanes.includes(CLUSTER))) {
    addLane({ number: CLUSTER, kind: "cluster", label: "cluster" });
  }
  data.processes.forEach((address, i) => addLane({ number: -2 - i, kind: "process", label: address }));
}
const phases = data.phases.map(([client, test, workload, phase, begun, ended, error]) => ({
  client, begun, ended: ended < 0 ? run.end : ended, open: ended < 0, test: strings[test],
  workload: strings[workload], phase: strings[phase], error: error < 0 ? null : strings[error],
}));
// The workloads of a client have phases at the same time: a strip for each.
for (const phase of phases) {
  const lane = lanes[laneOfNumber.get(phase.client)];
  const workloads = (lane.workloads ??= []);
  if (!workloads.includes(phase.workload)) workloads.push(phase.workload);
  phase.strip = Math.min(workloads.indexOf(phase.workload), STRIPS_MAX - 1);
  lane.phases.push(phase);
}
const span = ([, begun, ended, event]) => ({ begun, ended, event });
for (const row of data.clogged) lanes[laneOfNumber.get(row[0])]?.clogged.push(span(row));
for (const row of data.down) lanes[laneOfNumber.get(row[0])]?.down.push(span(row));
for (const [number, begun, ended, text] of data.roles) lanes[laneOfNumber.get(number)]?.roles.push({ begun, ended, text: strings[text] });
const recoveries = data.recoveries.map(span);
{
  const marks = lanes.map(() => []);
  for (const event of events) {
    // What lasts is drawn as long as it lasts.
    if (event.name.includes("Clog") || event.name.startsWith("Partition") || event.name === "Role") continue;
    for (const number of event.lanes) {
      const lane = laneOfNumber.get(number);
      if (lane !== undefined) marks[lane].push(event.id);
    }
  }
  marks.forEach((ids, i) => { lanes[i].marks = timed(ids, (id) => events[id].time, (id) => events[id].time); });
}
// Each transaction goes to the first row of its lane that is free when it begins.
{
  const order = Array.from({ length: transactions.count }, (_, t) => t)
    .sort((a, b) => transactions.begun[a] - transactions.begun[b] || a - b);
  const free = lanes.map(() => []);
  const rows = lanes.map(() => []);
  for (const t of order) {
    const lane = laneOfNumber.get(transactions.client[t] < 0 ? OUTSIDE : transactions.client[t]);
    let row = free[lane].findIndex((time) => time <= transactions.begun[t]);
    if (row < 0) row = free[lane].length < ROWS_MAX ? free[lane].length : free[lane].indexOf(Math.min(...free[lane]));
    free[lane][row] = Math.max(free[lane][row] ?? 0, transactions.ended[t]);
    transactions.lane[t] = lane;
    transactions.row[t] = row;
    (rows[lane][row] ??= []).push(t);
  }
  rows.forEach((list, lane) => {
    lanes[lane].rows = list.map((ids) => ({
      transactions: timed(ids, (t) => transactions.begun[t], (t) => transactions.ended[t]),
      attempts: timed(ids.flatMap((t) => Array.from(attemptsOf.of(t))), (a) => attempts.begun[a], (a) => drawnEnd[a]),
    }));
    lanes[lane].transactions = timed(list.flat(), (t) => transactions.begun[t], (t) => transactions.ended[t]);
  });
}

/** When the result of an attempt's commit was there. */
function commitTime(a) {
  const commit = attempts.commit[a];
  if (commit < 0) return drawnEnd[a];
  const o = commits[commit].operation;
  return operations.answered[o] >= 0 ? operations.answered[o] : Math.max(operations.asked[o], drawnEnd[a]);
}

/** From a commit to an attempt that it made fail, by the time of the failure. */
const arrows = [];
/** The arrows of a transaction, by their places in the list. */
const arrowsOf = new Map();
for (let a = 0; a < attempts.count; a += 1) {
  const commit = attempts.commit[a];
  if (commit >= 0 && commits[commit].winner >= 0) {
    const from = commits[commit].winner;
    arrows.push({ from, to: a, fromTime: commitTime(from), toTime: commitTime(a) });
  }
}
arrows.sort((a, b) => a.toTime - b.toTime);
arrows.forEach((arrow, i) => {
  for (const t of new Set([transactionOf[arrow.from], transactionOf[arrow.to]])) {
    if (!arrowsOf.has(t)) arrowsOf.set(t, []);
    arrowsOf.get(t).push(i);
  }
});
const arrowTimes = Float64Array.from(arrows, (arrow) => arrow.toTime);

// Words.

/** A time of the run, in seconds. */
const seconds = (micros, digits = 6) => `${(micros / 1e6).toFixed(digits)} s`;

/** How long something took, in the unit that suits it. */
function duration(micros) {
  if (micros < 1000) return `${Math.round(micros)} µs`;
  if (micros < 1e6) return `${+(micros / 1e3).toPrecision(3)} ms`;
  return `${+(micros / 1e6).toPrecision(3)} s`;
}

const plural = (count, one, many = `${one}s`) => `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
const clientText = (client) => (client < 0 ? "no client" : `client ${client}`);
const transactionText = (t) => `transaction ${transactionNames[t]}`;
/** A long text, cut. */
const brief = (text, max) => (text.length > max ? `${text.slice(0, max - 1)}…` : text);

/** The phase that an attempt belongs to: as recorded, else by its time. */
function phaseOf(a) {
  if (attempts.phase[a] >= 0) return phases[attempts.phase[a]];
  const time = attempts.begun[a];
  const lane = lanes[laneOfNumber.get(attempts.client[a])];
  return lane?.phases.findLast((phase) => phase.begun <= time && time <= phase.ended) ?? null;
}

/** An element with text or children: never markup, since every text may be hostile. */
function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "class") made.className = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key in made) made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

/** Text from the run: isolated, so that its direction does not reach what is around it. */
const said = (text, name = "bdi", properties = {}) => element(name, { ...properties, class: `text ${properties.class ?? ""}`.trim() }, text);

const byId = (id) => document.getElementById(id);
const say = (text) => { byId("status").textContent = text; };
