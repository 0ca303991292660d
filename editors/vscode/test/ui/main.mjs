// What a user sees and does, from opening a file to closing it, in VS Code itself.
import { execFileSync } from 'node:child_process';
import { chmodSync, cpSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { contrast, darker } from '../unit/colour.mjs';
import { equal, ok, until } from './check.mjs';
import { Session } from './host.mjs';

const READ_RECORD = { first: 42, last: 70, name: 42, top: 47 };
const GET_U16 = [36, 38, 39];
// So long that the server answers no edit before the editor was looked at, on a busy machine, too.
const DEBOUNCE_MS = 10_000;

const hex = (rgb) => {
  const bytes = rgb.match(/\d+/g).slice(0, 3).map(Number);
  return `#${bytes.map((byte) => byte.toString(16).padStart(2, '0')).join('')}`;
};

const inside = (lines) => lines.filter((line) => line >= READ_RECORD.first && line <= READ_RECORD.last);

/** Processes of the server that the session started. */
function servers(session) {
  const found = [];
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
      const environment = readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0');
      if (words[0].endsWith('/server/linelens') && environment.includes(`HOME=${session.root}`)) {
        found.push(Number(pid));
      }
    } catch {
      // It has ended.
    }
  }
  return found;
}

function prepare(folder) {
  const git = (...words) =>
    execFileSync('git', ['-c', 'user.name=t', '-c', 'user.email=t@example.com', '-C', folder, ...words], {
      stdio: 'ignore',
    });
  git('init', '-q');
  git('add', '.');
  git('commit', '-q', '-m', 'first');
  // What the model cannot see: far more lines than it takes in, and the profile that cuts them off.
  const lines = Array.from({ length: 160 }, (_, number) => `    total += memchr(from, ${number}, length) != 0;`);
  const text = [
    'int long_one(const char *from, int length)',
    '{',
    '    int total = 0;',
    ...lines,
    '    return total;',
    '}',
    '',
  ];
  writeFileSync(join(folder, 'long.c'), text.join('\n'));
}

/** What "Show Log" shows. */
async function log(session, picture) {
  await session.command('Show Log');
  const panel = session.page.locator('.part.panel .view-lines');
  await panel.waitFor();
  if (!session.writesLogs) {
    console.log('        skipped: this VS Code was installed without its module that writes logs');
  } else {
    const wanted = {
      'the log says which server runs': /linelens \d+\.\d+\.\d+ is running/,
      'which model, on what': /model linelens-default on cpu, method attention:first/,
      'again after it was started again': /is being started again[^]*linelens \d+\.\d+\.\d+ is running/,
      'how a server ended': /\[warning\] the server was killed by SIGKILL; it is being started again/,
    };
    for (const [what, pattern] of Object.entries(wanted)) {
      const text = async () => session.logText();
      ok(what, await until(async () => pattern.test(await text()), 10_000), await text());
    }
    const shown = await until(async () =>
      /is running|method/.test((await panel.textContent()).replace(/\u00a0/g, ' ')),
    );
    ok('which “Show Log” shows', shown, await panel.textContent());
  }
  await picture('log');
  await session.quick('F1', '>View: Hide Panel', 'Hide Panel').catch(() => undefined);
  await session.goTo(READ_RECORD.name, 5);
}

export async function main({ vscode, extensions, workspace, pictures, manifest }) {
  const colours = Object.fromEntries(manifest.contributes.colors.map(({ id, defaults }) => [id, defaults]));
  const session = await Session.start({
    vscode,
    extensions,
    workspace,
    prepare,
    settings: { 'linelens.debounceMs': DEBOUNCE_MS, 'linelens.threshold': 0.3063 },
  });
  const { page } = session;
  const picture = (name, clip) => session.picture(join(pictures, `${name}.png`), clip);
  // For the README.
  picture.media = (name, clip) => session.picture(join(pictures, `media-${name}.png`), clip);
  try {
    await shading(session, picture, colours);
    await editing(session);
    await themes(session, picture, colours);
    await truth(session, picture);
    await sideBar(session, picture);
    await comparing(session, picture, colours);
    await display(session, picture);
    await unseen(session, picture);
    await filesAndReports(session);
    await models(session, picture, extensions);
    await dying(session, picture);
    await walkthrough(session, picture);
    equal(
      'nothing failed in the window',
      session.problems.filter((text) => /linelens/.test(text)),
      [],
    );
  } catch (error) {
    await picture('failed').catch(() => undefined);
    ok(`the session goes on: ${error.message.split('\n')[0]}`, false, {
      notifications: await session.notifications().catch(() => []),
      status: await session.status().catch(() => null),
    });
    console.log(error.stack);
  } finally {
    const left = servers(session);
    await page.close().catch(() => undefined);
    await session.stop();
    for (const pid of left) {
      await until(() => !existsSync(`/proc/${pid}`), 5000);
      ok('no server stays behind', !existsSync(`/proc/${pid}`), pid);
    }
  }
}

async function shading(session, picture, colours) {
  await session.open('records.c');
  await session.goTo(READ_RECORD.name, 5);
  const status = await session.waitForStatus(/p 0\.31 flagged/);
  equal(
    'the status bar says model, device, method and verdict',
    status?.text,
    'linelens-default · cpu · attention:first · p 0.31 flagged',
  );
  const shaded = await session.waitForShades((lines) => lines.includes(47));
  ok('lines of the function are shaded', shaded, await session.lines());
  const lines = await session.lines();
  equal('the most relevant one strongest', hex(lines[READ_RECORD.top].background), colours['linelens.heat8'].dark);
  equal('lines between functions are not', [lines[41]?.background, lines[35]?.background], [null, null]);
  const steps = new Set(
    Object.values(lines)
      .map(({ background }) => background)
      .filter(Boolean),
  );
  ok('in several steps', steps.size >= 4, [...steps]);
  const lens = session.page.locator('.codelens-decoration', { hasText: 'p 0.31 · attention:first' }).first();
  ok('a code lens says the verdict', await until(() => lens.isVisible()));
  await until(async () => (await session.page.locator('.squiggly-info').count()) > 0);
  ok('a diagnostic is on the name', (await session.page.locator('.squiggly-info').count()) > 0);
  await picture('shading-dark');
  await picture.media('shading', { x: 348, y: 300, width: 700, height: 420 });

  await session.command('Toggle Shading');
  ok(
    'the toggle takes the shades away',
    await session.waitForShades((all) => all.length === 0),
    await session.shaded(),
  );
  await session.command('Toggle Shading');
  const before = shaded;
  ok('and brings them back', await session.waitForShades((all) => all.includes(READ_RECORD.top)), before);

  await session.page.locator('.statusbar-item', { hasText: 'attention:first' }).click();
  const rows = session.page.locator('.quick-input-list .monaco-list-row');
  await rows.first().waitFor();
  const texts = await rows.allTextContents();
  ok(
    'the status bar leads to the methods',
    ['attention:last', 'ig', 'attnlrp', 'occlusion'].every((method) => texts.some((text) => text.includes(method))),
    texts,
  );
  ok('which say when they were computed', /computed .*p 0\.31/.test(texts[0]), texts[0]);
  ok(
    'layers and steps can be chosen',
    texts.some((text) => text.includes('Attention of one layer')) &&
      texts.some((text) => text.includes('number of steps')),
    texts,
  );
  await picture('methods');
  await picture.media('methods', { x: 340, y: 30, width: 602, height: 286 });
  await session.choose('attention:last');
  ok('the method is switched', await session.waitForStatus(/attention:last · p 0\.31/), await session.status());
  const moved = await until(async () => {
    const now = await session.lines();
    return hex(now[59]?.background ?? '0,0,0') === colours['linelens.heat8'].dark;
  });
  ok('and the shades follow', moved, await session.lines());
  await session.command('Next Method');
  ok(
    'next method takes the next one',
    (await session.waitForStatus(/· ig ·/))?.text.includes('· ig ·'),
    await session.status(),
  );
  await session.command('Choose Method');
  await session.choose('attention:first');
  await session.waitForStatus(/attention:first · p 0\.31/);

  await session.goTo(30);
  const there = await session.waitForStatus(/attention:first$/);
  ok('outside of functions the status bar has no verdict', /attention:first$/.test(there?.text ?? ''), there);
  await session.goTo(READ_RECORD.name, 5);
  // What is above is flagged, too, and there when the server has come to it.
  await session.waitForShades((all) => all.includes(READ_RECORD.top) && all.includes(GET_U16[0]));
  await session.keys('Control+Alt+h', 'n');
  ok(
    'a key leads to the next relevant line',
    await until(async () => (await session.page.locator('.statusbar-item', { hasText: 'Ln 44,' }).count()) > 0),
    await session.page.locator('.statusbar').textContent(),
  );
  await session.keys('Control+Alt+h', 'p');
  ok(
    'and to the previous one, which is above the function',
    await until(async () => (await session.page.locator('.statusbar-item', { hasText: /Ln (38|36|39),/ }).count()) > 0),
    await session.page.locator('.statusbar').textContent(),
  );
  await session.goTo(READ_RECORD.name, 5);
}

async function editing(session) {
  await session.waitForShades((lines) => lines.includes(READ_RECORD.top) && lines.includes(GET_U16[0]));
  const before = await session.shaded();
  // The function under the cursor would be explained at once, and its shades be back before anybody saw them gone.
  session.writeSettings({ 'linelens.followCursor': false });
  // An edit above moves the shades along, long before the server answers.
  await session.goTo(1);
  await session.keys('Enter');
  await session.goTo(READ_RECORD.name + 1, 5);
  const along = await until(async () => (await session.shaded()).includes(READ_RECORD.top + 1), DEBOUNCE_MS);
  ok('an edit above moves the shades along', along, await session.shaded());
  // An edit inside takes them away at once, and leaves the other function's.
  const verdictAbove = async () =>
    (await session.lensesAbove(READ_RECORD.name + 1))?.filter((text) => /p 0\.31/.test(text));
  ok('and its verdict', await until(async () => (await verdictAbove())?.length === 1), await verdictAbove());
  await session.goTo(46);
  await session.keys('End');
  await session.page.keyboard.type(' int unused;');
  const gone = await until(
    async () => inside(await session.shaded()).filter((line) => line > 43).length === 0,
    DEBOUNCE_MS / 2,
  );
  const now = await session.shaded();
  ok('an edit inside a function takes its shades away before the server answers', gone, now);
  ok('and those of others stay', now.includes(GET_U16[0] + 1), now);
  const shownHints = () =>
    session.page.evaluate(() => {
      const rows = [...document.querySelectorAll('.editor-instance .view-lines > div')];
      return rows
        .map((row) => row.textContent.replace(/\u00a0/g, ' '))
        .filter((text) => /[▁▂▃▄▅▆▇█] \d\.\d\d/.test(text));
    });
  const hintsGone = await until(async () => !(await shownHints()).some((text) => /memset/.test(text)), DEBOUNCE_MS / 2);
  ok('its scores go, too', hintsGone, await shownHints());
  const lensGone = await until(async () => (await verdictAbove())?.length === 0, DEBOUNCE_MS / 2);
  ok('and its verdict above it', lensGone, await verdictAbove());
  session.writeSettings({ 'linelens.debounceMs': 200, 'linelens.followCursor': true });
  const back = await session.waitForShades((lines) => lines.includes(READ_RECORD.top + 1));
  ok('the new version is shaded when the server has answered', back, await session.shaded());
  await session.command('Toggle Shading');
  await session.command('Toggle Shading');
  for (let undo = 0; undo < 12 && (await session.page.locator('.tab.active.dirty').count()) > 0; undo++) {
    await session.keys('Control+z');
  }
  await session.goTo(READ_RECORD.name, 5);
  const restored = await session.waitForShades((lines) => before.slice(0, 12).every((line) => lines.includes(line)));
  ok('after undo it is as before', restored, { before, now: await session.shaded() });
}

/** Contrast of all text on shaded lines, as the browser draws it. */
function drawnText(session) {
  return session.page.evaluate(() => {
    const editor = document.querySelector('.editor-instance');
    const shades = new Map();
    for (const row of editor.querySelectorAll('.view-overlays > div')) {
      for (const mark of row.querySelectorAll('[class*=TextEditorDecorationType]')) {
        shades.set(row.style.top, getComputedStyle(mark).backgroundColor);
      }
    }
    const found = [];
    for (const row of editor.querySelectorAll('.view-lines > div')) {
      const background = shades.get(row.style.top);
      for (const span of background ? row.querySelectorAll('span[class*=mtk]') : []) {
        // Hints of servers have colours of their own.
        const isHint = /dyn-rule/.test(span.className) || getComputedStyle(span, '::after').content !== 'none';
        if (span.textContent.trim() && !isHint) {
          const { color, filter } = getComputedStyle(span);
          const brightness = Number(/^brightness\((.*)\)$/.exec(filter)?.[1] ?? 1);
          found.push({ background, colour: color, brightness, text: span.textContent });
        }
      }
    }
    return found;
  });
}

const THEMES = [
  ['Default Dark Modern', 'dark', 'vscode-dark'],
  ['Default Light Modern', 'light', 'vscode-light'],
  ['Default High Contrast', 'highContrast', 'hc-black'],
  ['Default High Contrast Light', 'highContrastLight', 'hc-light'],
];

async function themes(session, picture, colours) {
  for (const [theme, kind] of [...THEMES.slice(1), THEMES[0]]) {
    session.writeSettings({ 'workbench.colorTheme': theme });
    const wanted = colours['linelens.heat8'][kind];
    const changed = await until(async () => {
      const { background } = (await session.lines())[READ_RECORD.top] ?? {};
      return background && hex(background) === wanted;
    });
    ok(`${theme}: the shades are those of the theme`, changed, (await session.lines())[READ_RECORD.top]);
    let found = [];
    let worst = [];
    // The colours change with the theme, what is drawn over the text a moment later.
    const isReadable = await until(async () => {
      found = await drawnText(session);
      worst = found
        .map(({ background, colour, brightness, text }) => ({
          text,
          brightness,
          ratio: contrast(darker(hex(colour), brightness), hex(background)),
        }))
        .filter(({ ratio }) => ratio < 4.5);
      return found.length > 20 && worst.length === 0;
    });
    ok(`${theme}: all text on shaded lines is readable (${found.length} pieces)`, isReadable, worst);
    equal(
      `${theme}: drawn darker only where it is dark`,
      [...new Set(found.map(({ brightness }) => brightness))],
      [/ight$/i.test(kind) ? 0.8 : 1],
    );
    await picture(`theme-${kind}`);
  }
}

/** How many lines are marked as ground truth, of those that are in view. */
function marksOf(session) {
  return session.page.evaluate(() => {
    const shown = [...document.querySelectorAll('.glyph-margin-widgets [class*=TextEditorDecorationType]')];
    return shown.filter((one) => /truth|data:image|url/.test(getComputedStyle(one).backgroundImage)).length;
  });
}

async function truth(session, picture) {
  const file = '.linelens/annotations.jsonl';
  const marks = () => marksOf(session);
  await session.goTo(54, 5);
  await session.command('Toggle Ground-Truth Line');
  ok(
    'a ground-truth line is written',
    await until(() => existsSync(join(session.workspace, file)) && session.file(file).includes('memcpy')),
  );
  const record = JSON.parse(session.file(file).trim().split('\n').at(-1));
  equal(
    'with its place and text',
    [record.function, record.range[0] + record.lines[0].line - 1, record.lines[0].text.trim()],
    ['read_record', 54, 'memcpy(record->name, stream->data + stream->position, length);'],
  );
  ok('and marked beside its number', await until(async () => (await marks()) === 1), await marks());
  await session.goTo(59, 5);
  await session.keys('Control+Alt+h', 'g');
  ok('a key marks another one', await until(async () => (await marks()) === 2), await marks());
  ok(
    'the code lens says the alignment',
    await until(() =>
      session.page
        .locator('.codelens-decoration', { hasText: /DA 0\.\d+ \(null/ })
        .first()
        .isVisible(),
    ),
  );
  await picture('truth');
  await picture.media('truth', { x: 348, y: 90, width: 720, height: 380 });
  session.writeSettings({ 'linelens.groundTruthMarks': false });
  ok('a setting takes the marks away', await until(async () => (await marks()) === 0), await marks());
  session.writeSettings({ 'linelens.groundTruthMarks': true });
  ok('and brings them back', await until(async () => (await marks()) === 2), await marks());
}

async function sideBar(session, picture) {
  await session.page.locator('.activitybar .action-label[aria-label="linelens"]').click();
  const rows = session.page.locator('.pane-body .monaco-list-row');
  const texts = () => rows.allTextContents();
  const filled = await until(async () => (await texts()).filter((text) => /p 0\.\d+/.test(text)).length >= 4);
  const shown = await texts();
  ok('the side bar lists all functions of the file', filled, shown);
  const functions = shown.filter((text) => /p 0\.\d+/.test(text));
  const values = functions.map((text) => [/ignored/.test(text), Number(/p (0\.\d+)/.exec(text)[1])]);
  ok(
    'by probability',
    values.every(([, value], index) => index === 0 || values[index - 1][1] >= value - 0.005),
    functions,
  );
  const own = rows.filter({ hasText: 'read_record' }).filter({ hasText: 'DA' }).first();
  ok('with the alignment where there is ground truth', await until(() => own.isVisible()), await texts());
  ok(
    'opened at the function under the cursor',
    await until(async () => (await own.getAttribute('aria-expanded')) === 'true', 10_000),
    await texts(),
  );
  const line = rows.filter({ hasText: /^47\s/ }).first();
  ok('and its most relevant lines', await until(() => line.isVisible()), await texts());
  await picture('sidebar');
  await picture.media('sidebar', { x: 48, y: 30, width: 900, height: 420 });
  await line.click();
  const there = await until(
    async () => (await session.page.locator('.statusbar-item', { hasText: 'Ln 47,' }).count()) > 0,
  );
  ok('a click leads to the line', there, await session.page.locator('.statusbar').textContent());
  const label = await line.getAttribute('aria-label');
  ok('a screen reader hears line, score and rank', /line 47, score 1\.00, rank 1/.test(label ?? ''), label);
}

async function comparing(session, picture, colours) {
  await session.keys('Control+Shift+E');
  await session.goTo(READ_RECORD.name, 5);
  await session.command('Compare Methods');
  const frame = await session.webview('table.lines');
  ok('the compare panel opens', frame);
  const beside = await session.waitForStatus(/p 0\.31 flagged$/, 5000);
  ok('beside it the status bar keeps the verdict', /p 0\.31 flagged$/.test(beside?.text ?? ''), beside);
  const heads = await frame.$$eval('table.lines thead .name', (all) => all.map((one) => one.textContent));
  equal('with all methods', heads, [
    'line',
    'source',
    'attention:first ✓',
    'attention:last',
    'ig',
    'attnlrp',
    'gradient-x-input',
    'occlusion',
  ]);
  // Beside a file and a side bar there is room for some columns alone.
  const beside1280 = await frame.$eval('table.lines', (table) => {
    const wide = table.parentElement;
    wide.scrollLeft = wide.scrollWidth;
    const row = table.querySelector('tbody tr:nth-child(6)');
    const [source, last] = [row.querySelector('.source'), row.lastElementChild].map((one) =>
      one.getBoundingClientRect(),
    );
    const isScrolled = wide.scrollLeft > 100;
    wide.scrollLeft = 0;
    return { isScrolled, left: source.left, right: source.right, last: last.left, text: row.textContent };
  });
  ok(
    'scores are read with the code: it stays where they are scrolled along',
    beside1280.isScrolled && beside1280.left > 0 && beside1280.left < 140 && beside1280.last >= beside1280.right - 1,
    beside1280,
  );
  await picture('compare-beside');
  equal(
    'over all lines of the function',
    await frame.$$eval('table.lines tbody tr', (all) => all.length),
    READ_RECORD.last - READ_RECORD.first + 1,
  );
  equal(
    'with its ground truth',
    await frame.$$eval('table.lines tbody .truth .hidden', (all) => all.map((one) => one.textContent)),
    ['ground truth', 'ground truth'],
  );
  const shade = await frame.$eval('td.heat8', (cell) => getComputedStyle(cell).backgroundColor);
  equal('shaded by the theme', hex(shade), colours['linelens.heat8'].dark);
  const policy = await frame.$eval('meta[http-equiv]', (meta) => meta.content);
  ok(
    'under a strict policy',
    /^default-src 'none'; style-src 'nonce-[0-9a-f]{32}'; script-src 'nonce-[0-9a-f]{32}'$/.test(policy),
    policy,
  );
  const tables = await frame.$$eval('h2', (all) => all.map((one) => one.textContent));
  equal('with Detection Alignment and correlation', tables, ['Detection Alignment', 'Rank correlation']);
  const alignments = await frame.$$eval('table.facts:first-of-type tbody tr', (all) =>
    all.map((row) => row.children[1].textContent),
  );
  ok(
    'of each method',
    alignments.slice(0, 6).every((text) => /^\d\.\d\d$/.test(text)),
    alignments,
  );
  equal('tables are named', await frame.$$eval('table', (all) => all.every((one) => one.caption?.textContent)), true);
  equal('cells have heads', await frame.$$eval('th', (all) => all.every((one) => one.scope)), true);
  // Alone, so that the picture shows it whole.
  await session.page.locator('.tab.active', { hasText: 'methods' }).click();
  await session.quick('F1', '>View: Toggle Maximize Editor Group', 'Toggle Maximize Editor Group');
  await session.quick('F1', '>View: Toggle Primary Side Bar Visibility', 'Toggle Primary Side Bar');
  await until(async () => (await session.page.locator('.sidebar:visible').count()) === 0, 3000);
  await picture('compare');
  await picture.media('compare', { x: 48, y: 66, width: 1232, height: 520 });
  await session.quick('F1', '>View: Toggle Maximize Editor Group', 'Toggle Maximize Editor Group');
  await session.quick('F1', '>View: Toggle Primary Side Bar Visibility', 'Toggle Primary Side Bar');
  // By keyboard alone.
  const shown = await session.webview('table.lines');
  await shown.focus('button.line[tabindex="0"]');
  await session.keys('ArrowDown', 'ArrowDown');
  equal('arrows go from line to line', await shown.evaluate(() => document.activeElement.dataset.line), '43');
  equal('of which Tab stops at one', await shown.$$eval('button.line[tabindex="0"]', (all) => all.length), 1);
  await session.keys('Enter');
  ok(
    'Enter leads to the line',
    await until(async () => (await session.page.locator('.statusbar-item', { hasText: 'Ln 44,' }).count()) > 0),
    await session.page.locator('.statusbar').textContent(),
  );
  const again = await session.webview('table.lines');
  await again.click('button[data-method="attention:last"]');
  const chosen = await until(async () => {
    const now = await session.webview('button[data-method="attention:last"]');
    return (await now.getAttribute('button[data-method="attention:last"]', 'aria-pressed').catch(() => '')) === 'true';
  });
  ok('a click on a head chooses the method', chosen);
  const renewed = await session.webview('button[data-method="attention:last"]');
  const focused = () => renewed.evaluate(() => document.activeElement?.dataset.method);
  ok('and the focus stays on it', await until(async () => (await focused()) === 'attention:last'), await focused());
  ok('for the editor, too', /attention:last/.test((await session.status())?.text ?? ''), await session.status());
  await session.quick('F1', '>View: Close All Editors in Group', 'Close All Editors in Group').catch(() => undefined);

  await session.open('records.c');
  await session.goTo(45);
  await session.keys('End');
  await session.page.keyboard.type(' int unused;');
  await session.command('Compare Function with Git HEAD');
  const pair = await session.webview('table.lines');
  const marks = await until(() =>
    pair.$$eval('button.line, .number', (all) =>
      all.map((one) => one.textContent).filter((text) => /^[+−]/.test(text)),
    ),
  );
  ok('the function is compared with git HEAD', marks?.length >= 2, marks);
  const sides = await pair.$$eval('thead .column .name', (all) => all.map((one) => one.textContent));
  ok('which is called so', /^HEAD \([0-9a-f]{7}\)$/.test(sides[0]) && sides[1] === 'this text', sides);
  await picture('compare-head');
  await session.quick('F1', '>View: Close All Editors in Group', 'Close All Editors in Group').catch(() => undefined);
  await session.open('records.c');
  await session.goTo(45);
  await session.command('Compare Function with Other Half of Its Pair');
  ok(
    'a function in no pair is said to be compared with HEAD',
    await session.waitForNotification(/read_record is in no pair; comparing with HEAD/),
    await session.notifications(),
  );
  const fallback = await session.webview('table.lines');
  const named = await fallback.$$eval('thead .column .name', (all) => all.map((one) => one.textContent));
  ok('and the head says so', /^HEAD \([0-9a-f]{7}\)$/.test(named[0]), named);
  await session.clearNotifications();
  await session.quick('F1', '>View: Close All Editors in Group', 'Close All Editors in Group').catch(() => undefined);
  await session.open('records.c');
  await session.quick('F1', '>File: Revert File', 'Revert File');
  await session.command('Choose Method');
  await session.choose('attention:first');
  await session.goTo(READ_RECORD.name, 5);
  await session.waitForShades((lines) => lines.includes(READ_RECORD.top));
}

async function display(session, picture) {
  const after = async (line) => (await session.lines())[line]?.after ?? '';
  session.writeSettings({ 'linelens.scores': 'all' });
  ok(
    'scores stand at the ends of lines',
    await until(async () => /█ 1\.00/.test(await after(READ_RECORD.top))),
    await after(READ_RECORD.top),
  );
  ok('ground truth is marked there', await until(async () => /●/.test(await after(54))), await after(54));
  await picture('scores');
  session.writeSettings({ 'linelens.scores': 'off', 'linelens.shading': 'bars' });
  const isPlain = await until(
    async () => (await session.shaded()).length === 0 && /█ 1\.00/.test(await after(READ_RECORD.top)),
  );
  ok('without colours bars show the relevance', isPlain, await session.lines());
  await picture('bars');
  session.writeSettings({ 'linelens.shading': 'off' });
  ok(
    'without shading nothing does',
    await until(async () => (await session.shaded()).length === 0 && (await after(READ_RECORD.top)) === ''),
  );
  session.writeSettings({ 'linelens.shading': 'colour' });
  ok('and all comes back', await session.waitForShades((lines) => lines.includes(READ_RECORD.top)));

  session.writeSettings({ 'linelens.followCursor': false });
  await new Promise((resolve) => setTimeout(resolve, 500));
  await session.goTo(80, 5);
  await new Promise((resolve) => setTimeout(resolve, 800));
  ok(
    'without following nothing is explained unasked',
    !/p 0/.test((await session.status())?.text ?? ''),
    await session.status(),
  );
  await session.keys('Control+Alt+h', 'e');
  ok(
    'until it is asked for',
    await session.waitForStatus(/p 0\.\d+/).then((status) => /p 0/.test(status.text)),
    await session.status(),
  );
  session.writeSettings({ 'linelens.followCursor': true });
}

async function unseen(session, picture) {
  session.writeSettings({ 'linelens.profile': 'paper' });
  await session.open('long.c');
  await session.goTo(158, 5);
  const grey = await until(() =>
    session.page.evaluate(() => {
      const colours = [...document.querySelectorAll('.view-lines [class*=TextEditorDecorationType]')].map(
        (one) => getComputedStyle(one).color,
      );
      return colours.filter((colour) => colour === 'rgb(140, 140, 140)').length > 5;
    }),
  );
  ok('lines that the model did not see are dimmed', grey, await session.lines());
  await picture('unseen');
  session.writeSettings({ 'linelens.profile': 'editor' });
  await session.open('records.c');
}

async function filesAndReports(session) {
  await session.goTo(READ_RECORD.name, 5);
  await session.command('Analyze File');
  const text = await session.waitForNotification(/functions in 1 file: \d+ flagged/);
  ok('a file is analysed', text, await session.notifications());
  await session.clearNotifications();
  await session.command('Analyze Workspace');
  const whole = await session.waitForNotification(/functions in [2-9] files: \d+ flagged/);
  ok('the workspace is analysed', whole, await session.notifications());
  await session.clearNotifications();
  await session.command('Add Note');
  const input = session.page.locator('.quick-input-widget');
  await input.locator('input').fill('the length is not checked');
  ok(
    'a question names its function',
    /linelens: read_record/.test(await input.textContent()),
    await input.textContent(),
  );
  await session.keys('Enter');
  ok(
    'a note is written',
    await until(() => session.file('.linelens/annotations.jsonl').includes('"note":"the length is not checked"')),
  );
  await session.command('Reload Model');
  const again = await session.waitForNotification(/linelens-default is loaded again/);
  ok('all is read again', again, await session.notifications());
  await session.clearNotifications();
  await session.command('Export Report');
  await session.choose('Folder workspace');
  await session.choose('SARIF');
  const sarif = () => readdirSync(join(session.workspace, '.linelens')).find((name) => /\.sarif/.test(name));
  ok('a report is written as SARIF', await until(sarif), await session.notifications());
  equal('of that version', JSON.parse(session.file(`.linelens/${sarif()}`)).version, '2.1.0');
  await session.clearNotifications();
  await session.command('Export Report');
  await session.choose('This file');
  await session.choose('HTML');
  ok(
    'a report is written',
    await until(() => existsSync(join(session.workspace, '.linelens/report.html'))),
    await session.notifications(),
  );
  await session.clearNotifications();
  await session.command('Ignore Function');
  await session.page.locator('.quick-input-widget input').fill('tested by hand');
  await session.keys('Enter');
  ok(
    'a function is ignored with a reason',
    await until(
      () =>
        existsSync(join(session.workspace, '.linelens/ignore.jsonl')) &&
        session.file('.linelens/ignore.jsonl').includes('tested by hand'),
    ),
    await session.notifications(),
  );
  await session.command('Set Label');
  await session.choose('vulnerable');
  ok(
    'a label is written',
    await until(() => session.file('.linelens/annotations.jsonl').includes('"label":"vulnerable"')),
  );
  await session.command('Compare Two Models');
  ok(
    'where there is one model, it says how to get others',
    await session.waitForNotification(/no other model/),
    await session.notifications(),
  );
  await session.clearNotifications();
}

async function models(session, picture, extensions) {
  await session.command('Choose Method');
  await session.choose('number of steps');
  await session.choose('20');
  ok(
    'the steps of integrated gradients are set',
    await until(
      () =>
        existsSync(join(session.workspace, '.vscode/settings.json')) &&
        /"linelens.steps": 20/.test(session.file('.vscode/settings.json')),
    ),
  );
  ok('and used', /· ig ·/.test((await session.waitForStatus(/· ig · p/))?.text ?? ''), await session.status());
  await session.command('Show Detection Alignment');
  const frame = await session.webview('table.facts');
  const order = await frame.$$eval('table', (all) => all.map((one) => one.className));
  equal('Detection Alignment can come first', order, ['facts', 'facts', 'lines']);
  await session.quick('F1', '>View: Close All Editors', 'Close All Editors');

  const unpacked = readdirSync(extensions).find((name) => name.startsWith('linelens.linelens'));
  const other = join(session.root, 'other');
  cpSync(join(extensions, unpacked, 'server/models/default'), other, { recursive: true });
  const settings = readFileSync(join(other, 'detector.toml'), 'utf8');
  writeFileSync(join(other, 'detector.toml'), settings.replace(/^name = .*$/m, 'name = "the-other"'));
  await session.open('records.c');
  await session.goTo(READ_RECORD.name, 5);
  session.writeSettings({ 'linelens.models': [other] });
  // The server is started again; the method was the session's.
  await session.waitForStatus(/attention:first · p/);
  await session.command('Compare Two Models');
  await session.choose('the-other');
  const both = await session.webview('table.lines');
  const heads = await until(async () => {
    const names = await both.$$eval('thead .name', (all) => all.map((one) => one.textContent));
    return names.includes('the-other') && names;
  });
  equal('two models are compared', heads, ['line', 'source', 'linelens-default', 'the-other']);
  await session.quick('F1', '>View: Close All Editors', 'Close All Editors');
  await session.open('records.c');
  await session.goTo(READ_RECORD.name, 5);
  session.writeSettings({ 'linelens.threshold': 0.9 });
  await session.waitForStatus(/p 0\.31$/);
  await session.quick('F1', '>View: Close All Editors', 'Close All Editors');
  await session.open('records.c');
  ok(
    'the function under the cursor is shaded when the file is opened again, flagged or not',
    await session.waitForShades((lines) => lines.includes(READ_RECORD.top)),
    await session.shaded(),
  );
  const before = await marksOf(session);
  await session.goTo(GET_U16[0] + 1, 5);
  const left = await session.waitForShades((lines) => lines.length > 0 && inside(lines).length === 0);
  ok('and no more when the cursor has left it', left, await session.shaded());
  ok('but its ground truth stays marked', before > 0 && (await marksOf(session)) > 0, await marksOf(session));
  await session.goTo(READ_RECORD.name, 5);
  session.writeSettings({ 'linelens.threshold': 0.3063 });
  await session.waitForStatus(/flagged/);
  await session.command('Choose Model');
  await session.choose('the-other');
  ok(
    'the model is changed',
    /^the-other/.test((await session.waitForStatus(/^the-other .* p 0/))?.text ?? ''),
    await session.status(),
  );
  session.writeSettings({ 'linelens.models': [], 'linelens.model': '/nowhere' });
  const none = await session.waitForStatus(/no model/);
  ok('without a model the status bar says so', /no model/.test(none?.text ?? ''), none);
  await session.page.locator('.activitybar .action-label[aria-label="linelens"]').click();
  const welcome = session.page.locator('.welcome-view-content', { hasText: 'There is no model to ask' }).first();
  ok('and the side bar what to do', await until(() => welcome.isVisible()));
  await picture('no-model');
  await session.keys('Control+Shift+E');
  session.writeSettings({ 'linelens.model': '' });
  await session.waitForStatus(/^linelens-default .* p 0/);
  await session.clearNotifications();
}

async function walkthrough(session, picture) {
  await session.command('Open Settings');
  const tab = session.page.locator('.settings-tabs-widget .action-label.checked').first();
  ok(
    'in a remote window the settings under Remote are opened',
    await until(async () => /^Remote/.test((await tab.textContent()) ?? ''), 10_000),
    await session.page.locator('.settings-tabs-widget').first().textContent(),
  );
  await session.command('Open Walkthrough');
  const steps = session.page.locator('.getting-started-step');
  await until(async () => (await steps.count()) === 5);
  equal('the walkthrough has its steps', await steps.count(), 5);
  const image = session.page.locator('.getting-started-media img').first();
  ok('with pictures', await until(() => image.evaluate((one) => one.naturalWidth > 300).catch(() => false)));
  const ticks = steps.first().locator('.codicon-getting-started-step-checked');
  ok(
    'the first one is ticked once a C file was opened',
    await until(async () => (await ticks.count()) > 0, 10_000),
    await steps.first().innerHTML(),
  );
  await picture('walkthrough');
}

async function dying(session, picture) {
  await session.goTo(READ_RECORD.name, 5);
  await session.waitForShades((lines) => lines.includes(READ_RECORD.top));
  const [pid] = servers(session);
  ok('the server is the bundled one', pid !== undefined);
  process.kill(pid, 'SIGKILL');
  const said = await session.waitForNotification(/was killed by SIGKILL; it is being started again/);
  ok('a killed server is reported with its signal and what happens next', said, await session.notifications());
  await picture('restart');
  ok('it is started again', await until(() => servers(session).some((one) => one !== pid)));
  ok(
    'and the shades come back',
    await session.waitForShades((lines) => lines.includes(READ_RECORD.top)),
    await session.shaded(),
  );
  equal('with one message', (await session.notifications()).length, 1);
  await session.clearNotifications();
  await session.command('Restart Server');
  ok('restarting by hand works', await until(() => servers(session).length === 1 && servers(session)[0] !== pid));
  ok(
    'and shades again',
    await session.waitForShades((lines) => lines.includes(READ_RECORD.top)),
    await session.shaded(),
  );
  await log(session, picture);
  session.writeSettings({ 'linelens.server.path': '/nowhere/linelens' });
  const why = session.page.locator('.statusbar-item', { hasText: 'again: linelens.server.path changed' });
  ok('a restart says why', await until(async () => (await why.count()) > 0));
  const missing = await session.waitForNotification(/names \/nowhere\/linelens, which is not a program/);
  ok('a server that is not there is said, with what to do', missing, await session.notifications());
  ok('and nothing stays shaded', await session.waitForShades((lines) => lines.length === 0), await session.shaded());
  const status = await session.waitForStatus(/not running/);
  ok('the status bar says so', /not running/.test(status?.text ?? '') && /error/.test(status?.kind ?? ''), status);
  await session.clearNotifications();
  const broken = join(session.root, 'broken');
  writeFileSync(broken, '#!/bin/sh\nexit 3\n');
  chmodSync(broken, 0o755);
  session.writeSettings({ 'linelens.server.path': broken });
  const early = await session.waitForNotification(/ended with exit code 3 before it was ready/);
  ok('a server that ends at once is said, and not started again', early, await session.notifications());
  await new Promise((resolve) => setTimeout(resolve, 1500));
  equal('and nothing else', (await session.notifications()).slice(1), []);
  await session.clearNotifications();
  session.writeSettings({ 'linelens.server.path': '' });
  ok(
    'until the setting is right',
    await session.waitForShades((lines) => lines.includes(READ_RECORD.top)),
    await session.shaded(),
  );
  await session.quick('F1', '>View: Close All Editors', 'Close All Editors');
  await until(async () => (await session.page.locator('.tab').count()) === 0, 3000);
  const gone = await until(
    async () =>
      (await session.status())?.text === undefined ||
      !(await session.page.locator('.statusbar-item', { hasText: 'linelens-default' }).isVisible()),
    5000,
  );
  ok('with no file open the status bar is empty', gone, await session.status());
}
