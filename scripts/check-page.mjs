// Walks through every page of a running server with a real browser, gives feedback, sees the order change, and takes
// screenshots. See check-page.sh.

import { mkdirSync } from "node:fs";
import { createRequire } from "node:module";

const { chromium } = createRequire(process.env.PLAYWRIGHT ?? import.meta.url)("playwright-core");
const [url, question, hint, out, locked, key] = process.argv.slice(2);
mkdirSync(out, { recursive: true });
const PAGES = { overview: "/", ask: "/ui/ask", recalls: "/ui/recalls", memories: "/ui/memories", learning: "/ui/learning", settings: "/ui/settings" };
const VIEWS = {
  desktop: { viewport: { width: 1280, height: 860 } },
  phone: { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true },
  dark: { viewport: { width: 1280, height: 860 }, colorScheme: "dark" },
};
const troubles = [];
const check = (holds, what) => {
  console.log(`${holds ? "ok   " : "WRONG"} ${what}`);
  if (!holds) troubles.push(what);
};

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });

async function open(name, options) {
  const page = await (await browser.newContext(options)).newPage();
  page.on("console", (message) => message.type() === "error" && check(false, `${name}: console: ${message.text()}`));
  page.on("pageerror", (error) => check(false, `${name}: script: ${error}`));
  page.on("request", (request) => request.url().startsWith(url) || request.url().startsWith(locked) || check(false, `${name}: asks ${request.url()}`));
  return page;
}

async function ask(page) {
  await page.goto(url + "/ui/ask");
  await page.getByRole("searchbox").fill(question);
  await page.keyboard.press("Enter");
  await page.waitForSelector("ol.slate");
}

const places = (page) => page.$$eval("ol.slate .said", (found) => found.map((place) => place.textContent));

// Feedback by keyboard alone: what holds the hint helps, or else the last of the slate.
const page = await open("feedback", VIEWS.desktop);
await ask(page);
const first = await places(page);
const wanted = first.find((text, i) => i > 0 && hint && text.includes(hint)) ?? first.at(-1);
let place = first.indexOf(wanted) + 1;
const before = place;
for (let round = 0; round < 8 && place > 1; round++) {
  const slate = await places(page);
  for (const [i, text] of slate.entries()) {
    const thumb = page.locator("ol.slate > li").nth(i).getByRole("radio").nth(text === wanted ? 0 : 1);
    await thumb.focus();
    await page.keyboard.press("Space");
  }
  if (round === 0) await page.screenshot({ path: `${out}/ask-thumbs.png` });
  await page.getByRole("button", { name: "Send feedback" }).focus();
  await page.keyboard.press("Enter");
  await page.getByText("Thank you.").waitFor();
  await page.waitForTimeout(400);
  await page.getByRole("button", { name: "Ask again" }).click();
  await page.waitForSelector("ol.slate");
  place = (await places(page)).indexOf(wanted) + 1 || 99;
}
check(place < before, `what helped went from place ${before} to ${place}`);
check((await page.locator(".up").count()) > 0, "its move is marked");
await page.screenshot({ path: `${out}/ask-learned.png` });
await page.getByRole("button", { name: "Not these" }).click();
await page.getByText(", round 2").or(page.getByText("Nothing found")).first().waitFor();
check(!(await places(page)).includes(wanted), "others are shown on demand");
await page.getByRole("link", { name: "Why this order?" }).click();
await page.getByText("How they rank now").waitFor();
const recalled = new URL(page.url()).pathname;
await page.screenshot({ path: `${out}/recall-desktop.png`, fullPage: true });

// Memories: search as one types, edit, forget.
await page.goto(url + "/ui/memories");
await page.getByLabel("Text").fill("The lantern stands on the third shelf.");
await page.getByRole("button", { name: "Remember" }).click();
await page.getByText("Remembered.").waitFor();
await page.getByRole("searchbox").fill("lantern");
await page.waitForFunction(() => document.querySelectorAll("#list tbody tr").length === 1);
check(true, "search answers while one types");
await page.getByRole("link", { name: "The lantern" }).click();
await page.getByLabel("Text").fill("The lantern stands on the second shelf.");
await page.getByRole("button", { name: "Save" }).click();
await page.getByText("Saved.").waitFor();
await page.screenshot({ path: `${out}/memory-desktop.png`, fullPage: true });
await page.getByText("Forget this memory").click();
await page.getByRole("button", { name: "Forget it everywhere" }).click();
await page.goto(url + "/ui/memories?q=lantern");
check((await page.getByText("No memory fits").count()) === 1, "an edited memory is forgotten");

// Learning: freeze and go on.
await page.goto(url + "/ui/learning");
await page.getByRole("button", { name: "Freeze learning" }).click();
await page.getByText("Learning is frozen").waitFor();
await page.getByRole("button", { name: "Learn again" }).click();
await page.getByRole("button", { name: "Freeze learning" }).waitFor();
check(true, "learning is frozen and goes on");

for (const [view, options] of Object.entries(VIEWS)) {
  const page = await open(view, options);
  for (const [name, path] of [...Object.entries(PAGES), ["recall", recalled]]) {
    await page.goto(url + path);
    if (name === "ask") await ask(page);
    await page.waitForTimeout(400);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    check(wide <= 0, `${name} fits on ${view}`);
    if (name === "overview") check((await page.locator(".chart canvas").count()) > 0, `the curve is drawn on ${view}`);
    await page.screenshot({ path: `${out}/${name}-${view}.png`, fullPage: true });
  }
}

// With a key, where one is asked for.
const guest = await open("sign-in", VIEWS.desktop);
await guest.goto(locked + "/");
await guest.screenshot({ path: `${out}/sign-in.png` });
for (const [typed, sign] of [["em_wrong", "This key is not known"], [key, "memories"]]) {
  await guest.getByLabel("Key").fill(typed);
  await guest.keyboard.press("Enter");
  await guest.getByText(sign).first().waitFor();
}
check((await guest.getByRole("heading", { name: "Overview" }).count()) === 1, "a key opens the page");
const made = { method: "POST", headers: { "content-type": "application/json" }, body: '{"name": "new"}' };
await fetch(url + "/v1/namespaces", made);
for (const [name, path] of Object.entries(PAGES)) {
  await guest.goto(`${locked}${path}?namespace=new`);
  await guest.screenshot({ path: `${out}/${name}-empty.png`, fullPage: true });
}
await guest.goto(locked + "/ui/settings");
await guest.screenshot({ path: `${out}/settings-keys.png`, fullPage: true });
await guest.getByRole("button", { name: "Sign out" }).click();
await guest.getByRole("heading", { name: "Sign in" }).waitFor();
check(true, "and signing out closes it");

// Without scripts.
const plain = await open("plain", { ...VIEWS.desktop, javaScriptEnabled: false });
await ask(plain);
check((await places(plain)).length > 0, "asking works without scripts");
await plain.locator(".thumb").first().click();
await plain.getByRole("button", { name: "Send feedback" }).click();
await plain.getByText("How they rank now").waitFor();
check(plain.url().includes("/ui/recalls/rc_"), "feedback works without scripts");

await browser.close();
console.log(troubles.length ? `${troubles.length} troubles` : "all well");
process.exit(troubles.length ? 1 : 0);
