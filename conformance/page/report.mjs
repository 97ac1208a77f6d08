// The page of history that `shaketable report` writes, tried in Chromium. `run` beside this file
// makes three of them: `team` (three sweeps), `hostile` (markup wherever text is) and `killed` (a
// sweep without its end).

import { chromium } from "playwright-core";
import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const scratch = dirname(fileURLToPath(import.meta.url));
const screenshots = join(scratch, "screenshots");
const axe = readFileSync(join(scratch, "node_modules/axe-core/axe.min.js"), "utf8");
mkdirSync(screenshots, { recursive: true });
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });

/** Opens a page. Anything it says or fetches is a failure. */
async function open(name, { theme = "light", width = 1100, bypassCSP = true } = {}) {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: theme, offline: true, bypassCSP });
  const page = await context.newPage();
  page.problems = [];
  page.on("console", (message) => page.problems.push(message.text()));
  page.on("pageerror", (error) => page.problems.push(error.stack));
  page.on("request", (request) => { if (!request.url().startsWith("file://")) page.problems.push(request.url()); });
  page.on("dialog", (dialog) => { page.problems.push(dialog.message()); dialog.dismiss(); });
  await page.goto(`file://${join(scratch, `${name}.html`)}`);
  return page;
}

async function accessible(page) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }));
  assert.deepEqual(violations.map((v) => `${v.id}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160)).join(" ")}`), []);
}

const tests = {
  async "it says what was run, what failed and what still does"() {
    const page = await open("team");
    assert.equal(await page.title(), "Queue: failing");
    const text = await page.locator("body").innerText();
    assert.match(text, /3 sweeps, 3000 runs, 24 failed in 2 ways/);
    const failures = await page.locator("article").allInnerTexts();
    assert.equal(failures.length, 2);
    assert.match(failures[0], /check failed still fails[\s\S]*in check: expected 10, found 11/);
    assert.match(failures[1], /retry-after-unknown-result gone[\s\S]*21 runs in 2 sweeps, first a1b2c3d4e5, last b2c3d4e5f6[\s\S]*\.shaketable\/bugs\/twice\.toml/);
    return page;
  },

  async "each chart has words, and each number is in a table"() {
    const page = await open("team");
    const charts = await page.locator("svg[role=img]").evaluateAll((all) => all.map((one) => one.getAttribute("aria-label")));
    assert.deepEqual(charts, [
      "Runs: 1000 runs, 1 failed, in the newest",
      "Failure handling that was met: 40 % in the oldest, 80 % in the newest",
      "Speed: 50.0 runs/s in the oldest, 66.7 runs/s in the newest",
    ]);
    const newest = await page.locator("section[aria-labelledby=sweeps] tbody tr").first().innerText();
    assert.match(newest, /c3d4e5f607\s+2026-01-03 04:00:00\s+tests\/queue\.toml\s+embedded\s+1000\s+1\s.*66\.7\s+80 %/);
    return page;
  },

  async "nothing in a message can run, with its policy and without"() {
    for (const bypassCSP of [true, false]) {
      const page = await open("hostile", { bypassCSP });
      assert.match(await page.title(), /: failing$/);
      assert.equal(await page.locator("img, script").count(), 0);
      assert.deepEqual(page.problems, []);
      await page.context().close();
    }
    return open("hostile");
  },

  async "a sweep that was killed is not hidden"() {
    const page = await open("killed");
    assert.equal(await page.title(), "Queue: cut off");
    assert.match(await page.locator("section[aria-labelledby=sweeps]").innerText(), /1, then cut off/);
    return page;
  },

  async "it is accessible in both themes, and fits a phone"() {
    for (const theme of ["light", "dark"]) {
      for (const width of [1100, 360]) {
        for (const name of ["team", "hostile", "killed"]) {
          const page = await open(name, { theme, width });
          await accessible(page);
          const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
          assert.equal(overflow, 0, `${name} at ${width} in ${theme} scrolls only inside its tables`);
          await page.screenshot({ path: join(screenshots, `report-${name}-${theme}-${width}.png`), fullPage: true });
          assert.deepEqual(page.problems, []);
          await page.context().close();
        }
      }
    }
    return open("team");
  },

  async "a wide table is scrolled with keys"() {
    const page = await open("team", { width: 360 });
    const region = page.getByRole("region", { name: "All sweeps, the newest first" });
    await region.focus();
    await page.keyboard.press("ArrowRight");
    await page.waitForFunction(() => document.activeElement.scrollLeft > 0);
    return page;
  },
};

let failed = 0;
for (const [name, test] of Object.entries(tests)) {
  try {
    const page = await test();
    assert.deepEqual(page.problems, [], "the page complains about nothing");
    await page.context().close();
    console.log(`ok      the report: ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED  the report: ${name}\n${error.stack}`);
  }
}
await browser.close();
process.exit(failed ? 1 : 0);
