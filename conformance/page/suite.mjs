// What a person can do with the page of a run, tried in Chromium. `run` beside this file prepares
// everything and starts it.
//
// No step waits for a time: each waits for what it expects. The page has no animation and draws the
// same record the same way, so a screenshot is the same every time, which is checked too.

import { chromium } from "playwright-core";
import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const scratch = dirname(fileURLToPath(import.meta.url));
const screenshots = join(scratch, "screenshots");
const axe = readFileSync(join(scratch, "node_modules/axe-core/axe.min.js"), "utf8");
const flags = process.argv.slice(2);
mkdirSync(screenshots, { recursive: true });

const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });

/** Opens the page in a folder, by default one of the synthetic records. Anything it says or fetches is a failure. */
async function open(kind, { theme = "light", width = 1280, height = 720, touch = false } = {}) {
  const context = await browser.newContext({
    viewport: { width, height }, colorScheme: theme, hasTouch: touch, reducedMotion: "reduce", offline: true,
    // Lets a checker be put into the page; that the policy holds is a test of its own.
    bypassCSP: true,
  });
  const page = await context.newPage();
  page.problems = [];
  page.on("console", (message) => page.problems.push(message.text()));
  page.on("pageerror", (error) => page.problems.push(error.stack));
  page.on("request", (request) => { if (!request.url().startsWith("file://")) page.problems.push(request.url()); });
  page.on("dialog", (dialog) => { page.problems.push(dialog.message()); dialog.dismiss(); });
  await page.goto(`file://${resolve(scratch, kind, "timeline.html")}`);
  await page.waitForFunction(() => document.getElementById("canvas").dataset.to !== undefined);
  return page;
}

/** What was put into the page as data. */
const dataOf = (page) => page.evaluate(() => JSON.parse(document.getElementById("data").textContent));
const viewOf = (page) => page.evaluate(() => {
  const { from, to } = document.getElementById("canvas").dataset;
  return { from: Number(from), to: Number(to), span: Number(to) - Number(from) };
});
/** After the next frame. */
const settled = (page) => page.evaluate(() => new Promise((done) => { requestAnimationFrame(() => requestAnimationFrame(done)); }));
async function press(page, ...keys) {
  for (const key of keys) await page.keyboard.press(key);
  await settled(page);
}
const title = (page) => page.locator("#panel h2").first().textContent();
const isShown = (page, selector) => page.locator(selector).isVisible();

async function accessible(page, what) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }));
  const told = violations.map((v) => `${v.id}: ${v.help}\n    ${v.nodes.slice(0, 4).map((n) => n.html.slice(0, 160)).join("\n    ")}`);
  assert.deepEqual(told, [], `${what} is accessible`);
}

const tests = {
  async "it opens from a disk, fetches nothing and complains about nothing"() {
    const page = await open("story");
    assert.match(await page.title(), /tests\/counters\.toml seed 7: failed/);
    assert.equal(await page.locator("#verdict").textContent(), "failed");
    assert.match(await page.locator("#sidebar").textContent(), /80 increments were made, the counter says 83/);
    return page;
  },

  async "its policy lets nothing run that it did not bring"() {
    const context = await browser.newContext();
    const page = await context.newPage();
    page.problems = [];
    await page.goto(`file://${join(scratch, "story", "timeline.html")}`);
    const blocked = await page.evaluate(async () => {
      const seen = [];
      document.addEventListener("securitypolicyviolation", (e) => seen.push(e.effectiveDirective));
      const script = document.createElement("script");
      script.textContent = "document.title = 'broken out'";
      document.body.append(script);
      const image = document.createElement("img");
      image.src = "data:image/gif;base64,R0lGODlhAQABAAAAACw=";
      document.body.append(image);
      await fetch("file:///etc/hostname").catch(() => {});
      await new Promise((done) => { setTimeout(done, 50); });
      return seen;
    });
    for (const directive of ["script-src-elem", "img-src", "connect-src"]) assert.ok(blocked.includes(directive), `${directive} in ${blocked}`);
    assert.doesNotMatch(await page.title(), /broken/);
    return page;
  },

  async "hostile keys and messages are shown as they are, and do nothing"() {
    const page = await open("hostile");
    assert.doesNotMatch(await page.title(), /^broken/);
    assert.equal(await page.evaluate(() => document.querySelectorAll("script").length), 2);
    assert.equal(await page.evaluate(() => document.querySelectorAll("img, iframe, object, base").length), 0);
    const sidebar = await page.locator("#sidebar").textContent();
    assert.ok(sidebar.includes("</script><script>document.title='broken out'</script>"));
    assert.ok(sidebar.includes("\\u{202e}desrever\\u{202c}"), "what turns text round is escaped");
    assert.ok(sidebar.includes("nul\\u{0}tab"), "control characters are escaped");
    await press(page, "1", ".");
    assert.match(await title(page), /^Transaction/);
    await press(page, "t");
    assert.ok((await page.locator("#table").textContent()).includes("<img src=x onerror="));
    await page.getByRole("button", { name: "Cluster and events" }).click();
    assert.ok((await page.locator("#table").textContent()).includes("</script>"));
    const wide = await page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth);
    assert.ok(!wide, "long names do not widen the page");
    await page.screenshot({ path: join(screenshots, "hostile-table.png") });
    await press(page, "t");
    await page.screenshot({ path: join(screenshots, "hostile.png") });
    assert.doesNotMatch(await page.title(), /^broken/);
    return page;
  },

  async "a run without anything has a page that says so"() {
    const page = await open("empty");
    assert.match(await page.locator("#sidebar").textContent(), /proves no known mistake/);
    await press(page, "n", "j", ".", "1", "+", "0", "Enter", "z");
    await press(page, "t");
    assert.match(await page.locator("#table").textContent(), /nothing to show/);
    await press(page, "t");
    await page.screenshot({ path: join(screenshots, "empty.png") });
    return page;
  },

  async "a finding jumps to its proof, and each step opens its operation"() {
    const page = await open("story");
    const data = await dataOf(page);
    const whole = await viewOf(page);
    await page.locator(".finding > button").first().click();
    await settled(page);
    const proof = data.findings[0].proof;
    const seen = await viewOf(page);
    for (const step of proof) assert.ok(seen.from < step.time && step.time < seen.to, "the proof is on the screen");
    assert.ok(seen.span < whole.span / 4, "and not as a speck");
    assert.equal(await page.locator(".finding > button").first().getAttribute("aria-expanded"), "true");
    await page.locator(".finding.open .steps button").nth(1).click();
    const attempt = proof[1].attempt;
    assert.equal(await title(page), `Transaction ${data.attempts.transaction[attempt]}`);
    const marked = page.locator("#panel tr.proof");
    assert.equal(await marked.count(), 3, "every step of the proof that is in the transaction is marked");
    assert.ok((await marked.nth(1).textContent()).includes("2. the retry reads"));
    assert.equal(await page.locator(".steps button[aria-current=true]").count(), 1);
    await page.locator(".finding > button").first().click();
    assert.equal(await page.locator(".finding.open").count(), 0, "the same click closes it");
    return page;
  },

  async "the story of a key jumps too"() {
    const page = await open("story");
    await page.locator(".story summary").click();
    await page.locator(".story .steps button").nth(2).click();
    assert.match(await title(page), /^Transaction/);
    return page;
  },

  async "search finds keys, lines, errors and transactions, and walks through them"() {
    const page = await open("story");
    const data = await dataOf(page);
    const having = (text) => {
      const ids = new Set();
      data.operations.attempt.forEach((a, o) => {
        const place = data.operations.place[o];
        const texts = [data.strings[data.operations.call[o]], data.strings[data.operations.answer[o]], ...(place < 0 ? [] : data.places[place].map((s) => data.strings[s]))];
        if (texts.some((t) => t.toLowerCase().includes(text))) ids.add(data.attempts.transaction[a]);
      });
      return ids.size;
    };
    const search = async (text, found) => {
      await press(page, "/");
      await page.locator("#query").fill(text);
      await page.waitForFunction((f) => document.getElementById("match-count").textContent === `${f} found`, found);
    };
    const key = '("counters", "7")';
    const count = having(key);
    assert.ok(count > 1);
    await search(key, count);
    await press(page, "Enter");
    assert.equal(await page.locator("#match-count").textContent(), `1 / ${count}`);
    const first = await title(page);
    await page.locator("#query").focus();
    await press(page, "Enter");
    assert.notEqual(await title(page), first);
    assert.ok(await page.locator("#panel tr.match").count() > 0, "what was found is marked");
    await page.locator("#query").focus();
    await press(page, "Shift+Enter");
    assert.equal(await title(page), first);
    await page.screenshot({ path: join(screenshots, "search.png") });
    await search("counters.rs:44", having("counters.rs:44"));
    await search("no such thing", 0);
    await search("RebootingProcess", 4);
    await press(page, "Enter");
    assert.equal(await title(page), "RebootingProcess");
    await page.locator("#query").focus();
    await press(page, "Escape");
    assert.equal(await page.locator("#match-count").textContent(), "");
    return page;
  },

  async "everything can be done by keys, with a focus that can be seen"() {
    const page = await open("story");
    const focused = () => page.evaluate(() => {
      const { activeElement: e } = document;
      const { outlineStyle, outlineWidth } = getComputedStyle(e);
      return { tag: e.tagName, id: e.id, text: e.textContent.slice(0, 20), visible: outlineStyle !== "none" && parseFloat(outlineWidth) >= 2 };
    });
    const met = [];
    for (let i = 0; i < 30; i += 1) {
      await page.keyboard.press("Tab");
      const now = await focused();
      if (now.tag === "BODY") break;
      assert.ok(now.visible, `the focus on ${now.id || now.text} can be seen`);
      met.push(now.id || now.text);
    }
    for (const id of ["skip", "toggle-sidebar", "query", "zoom-out", "zoom-in", "fit", "toggle-table", "toggle-theme", "toggle-help", "canvas"]) {
      assert.ok(met.includes(id), `${id} in ${met}`);
    }
    await page.locator("#canvas").focus();
    const whole = await viewOf(page);
    await press(page, "+", "+");
    const near = await viewOf(page);
    assert.ok(near.span < whole.span / 2);
    await press(page, "ArrowRight");
    assert.ok((await viewOf(page)).from > near.from);
    await press(page, "ArrowLeft", "-", "-");
    await press(page, "0");
    assert.ok(Math.abs((await viewOf(page)).span - whole.span) < 1000);
    await press(page, "n");
    const first = await title(page);
    await press(page, "n");
    assert.notEqual(await title(page), first);
    await press(page, "p");
    assert.equal(await title(page), first);
    const by = () => page.locator("#panel dd").first().textContent();
    assert.match(await by(), /client 0/);
    await press(page, "j");
    assert.match(await by(), /client 1/);
    await press(page, "k");
    assert.match(await by(), /client 0/);
    assert.match(await page.locator("#status").textContent(), /transaction \d+, client 0, \d+ attempts?, /, "and is announced");
    await press(page, "Enter");
    assert.equal((await focused()).id, "panel");
    await press(page, "Escape");
    assert.ok(!await isShown(page, "#panel"));
    assert.equal((await focused()).id, "canvas");
    await press(page, "1");
    assert.equal(await page.locator(".finding.open .number").textContent(), "1");
    await press(page, ".", ".", ",");
    assert.match(await page.locator(".steps [aria-current=true] .badge").textContent(), /1/);
    await press(page, "Escape", "Escape");
    assert.equal(await page.locator(".finding.open").count(), 0);
    await press(page, "?");
    assert.ok(await isShown(page, "#help"));
    await page.screenshot({ path: join(screenshots, "help.png") });
    await accessible(page, "help");
    await press(page, "Escape");
    assert.ok(!await isShown(page, "#help"));
    await press(page, "b");
    assert.ok(!await isShown(page, "#sidebar"));
    await press(page, "b");
    return page;
  },

  async "the mouse zooms, drags, hovers and clicks"() {
    const page = await open("story");
    await page.locator("#canvas").focus();
    await press(page, "n");
    const chosen = await title(page);
    await press(page, "z", "Escape");
    // The bar of the transaction is in the first lane, in the middle.
    const now = await viewOf(page);
    const wide = await page.locator("#canvas").boundingBox();
    const right = wide.x + 116 + (wide.width - 116) / 2;
    const y = wide.y + 24 + 4 + 13 + 12;
    await page.mouse.move(right - 20, y);
    await page.locator("#tip").waitFor();
    assert.match(await page.locator("#tip").textContent(), /Transaction \d+.*client 0.*get \("counters"/);
    await page.screenshot({ path: join(screenshots, "hover.png") });
    await page.mouse.click(right - 20, y);
    assert.equal(await title(page), chosen);
    await press(page, "Escape");
    await page.mouse.move(right, y);
    await page.mouse.wheel(0, 400);
    await settled(page);
    const out = await viewOf(page);
    assert.ok(out.span > now.span * 1.5, "the wheel zooms");
    const kept = (v) => v.from + (right - wide.x - 116) / (wide.width - 116) * v.span;
    assert.ok(Math.abs(kept(out) - kept(now)) < now.span * 0.02, "at the pointer");
    await page.mouse.down();
    await page.mouse.move(right - 100, y, { steps: 4 });
    await page.mouse.up();
    await settled(page);
    assert.ok((await viewOf(page)).from > out.from, "dragging moves");
    assert.ok(!await isShown(page, "#panel"), "and is no click");
    return page;
  },

  async "two fingers zoom"() {
    const page = await open("story", { touch: true });
    const before = await viewOf(page);
    const session = await page.context().newCDPSession(page);
    const touch = (type, points) => session.send("Input.dispatchTouchEvent", { type, touchPoints: points.map(([x, y], id) => ({ x, y, id })) });
    await touch("touchStart", [[700, 300], [800, 300]]);
    for (let i = 1; i <= 5; i += 1) await touch("touchMove", [[700 - i * 20, 300], [800 + i * 20, 300]]);
    await touch("touchEnd", []);
    await settled(page);
    assert.ok((await viewOf(page)).span < before.span * 0.6);
    return page;
  },

  async "the table has the same, for screen readers"() {
    const page = await open("story");
    const data = await dataOf(page);
    const transactions = new Set(data.attempts.transaction).size;
    await press(page, "t");
    const rows = page.locator("#table tbody tr");
    assert.equal(await rows.count(), 100);
    assert.match(await page.locator("#table .info").textContent(), new RegExp(`1 to 100 of ${transactions}`));
    await page.screenshot({ path: join(screenshots, "table.png") });
    await accessible(page, "the table");
    await page.getByRole("button", { name: "Next", exact: true }).click();
    assert.equal(await rows.count(), transactions - 100);
    await page.getByRole("button", { name: "Attempts", exact: true }).click();
    assert.equal(await page.locator("th[aria-sort=descending]").textContent(), "Attempts ↓");
    assert.equal(await rows.first().locator("td").nth(4).textContent(), "3");
    await rows.first().getByRole("button").click();
    assert.match(await title(page), /^Transaction/);
    assert.equal(await page.evaluate(() => document.activeElement.id), "panel");
    await accessible(page, "the table with a panel");
    await press(page, "Escape");
    await page.getByRole("button", { name: "Cluster and events" }).click();
    assert.ok((await page.locator("#table").textContent()).includes("MasterRecoveryState"));
    await page.locator("#query").fill("no such thing");
    await page.waitForFunction(() => document.querySelector("#table .info").textContent.startsWith("nothing to show"));
    return page;
  },

  async "both themes can be read, and are drawn the same every time"() {
    let last = null;
    for (const theme of ["light", "dark"]) {
      const take = async (page, name) => {
        await settled(page);
        return page.screenshot({ path: join(screenshots, `${name}-${theme}.png`) });
      };
      const page = await open("story", { theme });
      assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), theme);
      const first = await take(page, "timeline");
      await accessible(page, `the ${theme} timeline`);
      await press(page, "1", ".");
      await take(page, "finding");
      await accessible(page, `the ${theme} timeline with a panel`);
      const again = await open("story", { theme });
      assert.ok(first.equals(await take(again, "timeline")), "two screenshots of one record are the same");
      await press(page, "d");
      assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), theme === "light" ? "dark" : "light");
      assert.deepEqual(again.problems, []);
      await again.context().close();
      if (last) {
        assert.deepEqual(last.problems, []);
        await last.context().close();
      }
      last = page;
    }
    return last;
  },

  async "it fits windows from 800 to 1920 pixels"() {
    let last = null;
    for (const [width, height] of [[800, 600], [1280, 720], [1920, 1080]]) {
      if (last) await last.context().close();
      const page = await open("story", { width, height });
      const fits = () => page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth && document.documentElement.scrollHeight <= window.innerHeight);
      assert.ok(await fits(), `${width}`);
      await press(page, "n");
      assert.ok(await fits(), `${width} with a panel`);
      const canvas = await page.locator("#canvas").boundingBox();
      assert.ok(canvas.width > 400, `${width}: the timeline has room`);
      await page.screenshot({ path: join(screenshots, `window-${width}.png`) });
      assert.deepEqual(page.problems, []);
      last = page;
    }
    return last;
  },

  async "it prints in light colours, without its tools"() {
    const page = await open("story", { theme: "dark" });
    await press(page, "1", ".");
    const [before, shown] = await page.evaluate(() => {
      window.dispatchEvent(new Event("beforeprint"));
      return [document.documentElement.dataset.theme, document.getElementById("panel").hidden];
    });
    assert.deepEqual([before, shown], ["light", false]);
    await page.emulateMedia({ media: "print" });
    assert.ok(!await isShown(page, "#search"));
    assert.ok(await isShown(page, "#sidebar"));
    await page.pdf({ path: join(screenshots, "print.pdf"), format: "A4", landscape: true });
    return page;
  },

  async "fifty thousand transactions can be searched, listed and walked"() {
    const page = await open("large");
    await press(page, "n", "+", "+", "+", "0");
    await page.locator("#query").fill('("counters", "7")');
    await page.waitForFunction(() => /^[\d,]{4,} found$/.test(document.getElementById("match-count").textContent));
    await page.locator("#query").fill("");
    await press(page, "Escape", "Escape");
    await page.locator("#canvas").focus();
    await press(page, "t");
    assert.match(await page.locator("#table .info").textContent(), /of 50,000/);
    await press(page, "t");
    await page.screenshot({ path: join(screenshots, "large.png") });
    return page;
  },
};

/**
 * The time of a frame with 50,000 transactions: a figure to read, not a test. Processor time of the
 * page's thread, which a busy machine does not change much, and the time that passed.
 */
async function measure() {
  const begun = performance.now();
  const page = await open("large");
  console.log(`  opening            ${(performance.now() - begun).toFixed(0)} ms`);
  const session = await page.context().newCDPSession(page);
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  const used = async () => (await session.send("Performance.getMetrics")).metrics.find((m) => m.name === "TaskDuration").value * 1000;
  const gestures = {
    "moving, whole run": { deltaX: 20 }, "zooming in": { deltaY: -60 }, "moving, zoomed in": { deltaX: 20 }, "zooming out": { deltaY: 60 }, hovering: null,
  };
  for (const [name, wheel] of Object.entries(gestures)) {
    const before = await used();
    const times = await page.evaluate(async (turn) => {
      const canvas = document.getElementById("canvas");
      const box = canvas.getBoundingClientRect();
      const found = [];
      for (let i = 0; i < 120; i += 1) {
        const at = { clientX: box.x + 300 + i * 3, clientY: box.y + 60 + i, bubbles: true, cancelable: true };
        const sign = turn?.deltaX && i % 2 === 1 ? -1 : 1;
        const begun = performance.now();
        canvas.dispatchEvent(turn ? new WheelEvent("wheel", { ...at, deltaX: sign * (turn.deltaX ?? 0), deltaY: turn.deltaY ?? 0 }) : new PointerEvent("pointermove", at));
        const handled = performance.now() - begun;
        // Callbacks of a frame run in their order: this one after the page's own.
        await new Promise((done) => {
          const start = performance.now();
          requestAnimationFrame((frame) => done(found.push(handled + Math.min(performance.now() - frame, performance.now() - start))));
        });
      }
      return found.sort((a, b) => a - b);
    }, wheel);
    const processor = (await used() - before) / times.length;
    console.log(`  ${name.padEnd(18)} ${processor.toFixed(1)} ms of processor time a frame; it took ${times[60].toFixed(1)} ms (median), ${times[114].toFixed(1)} ms (95 of 100)`);
  }
  await page.context().close();
}

/** The pictures of the guide: the first finding of a run. */
async function pictures(kind) {
  const folder = "docs/guide/pictures";
  mkdirSync(folder, { recursive: true });
  for (const theme of ["light", "dark"]) {
    const page = await open(kind, { theme });
    await press(page, "1");
    await page.screenshot({ path: join(folder, `timeline-${theme}.png`) });
    await page.context().close();
  }
}

let failed = 0;
if (flags.includes("--pictures")) {
  await pictures(flags[flags.indexOf("--pictures") + 1] ?? "story");
} else if (flags.includes("--measure")) {
  await measure();
} else {
  for (const [name, test] of Object.entries(tests)) {
    try {
      const page = await test();
      assert.deepEqual(page.problems, [], "the page complains about nothing");
      await page.context().close();
      console.log(`  ok    ${name}`);
    } catch (error) {
      failed += 1;
      console.log(`  FAIL  ${name}\n${error.stack}`);
    }
  }
  console.log(`page: ${Object.keys(tests).length - failed} passed, ${failed} failed`);
}
await browser.close();
process.exit(failed === 0 ? 0 : 1);
