// VS Code's own server with the extension installed, and a browser that shows it.
import { spawn } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { until } from './check.mjs';

// A machine may be busy with other things.
const START_MS = 120_000;

const SETTINGS = {
  'workbench.startupEditor': 'none',
  'workbench.colorTheme': 'Default Dark Modern',
  'workbench.tips.enabled': false,
  'workbench.welcomePage.walkthroughs.openOnInstall': false,
  'chat.commandCenter.enabled': false,
  'window.commandCenter': false,
  'editor.fontFamily': 'DejaVu Sans Mono',
  'editor.fontSize': 13,
  'editor.minimap.enabled': false,
  'editor.cursorBlinking': 'solid',
  'files.autoSave': 'off',
  'git.enabled': false,
  'telemetry.telemetryLevel': 'off',
  'extensions.ignoreRecommendations': true,
  'security.workspace.trust.enabled': false,
};

function freePort() {
  return new Promise((resolve, reject) => {
    const probe = createServer();
    probe.once('error', reject);
    probe.listen(0, '127.0.0.1', () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}

function node(vscode, options, spawnOptions) {
  // Nothing of the user's own linelens takes part.
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('LINELENS')));
  return spawn(process.execPath, [join(vscode, 'out/server-main.js'), ...options], {
    env: { ...env, EXTENSIONS_GALLERY: '{"serviceUrl":""}', ...spawnOptions.env },
    stdio: spawnOptions.stdio,
    detached: true,
  });
}

/** Unpacks the extension into a folder that the sessions share. */
export async function install(vscode, vsix, folder) {
  const child = node(
    vscode,
    ['--install-extension', vsix, '--extensions-dir', folder, '--server-data-dir', `${folder}-data`],
    {
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  );
  let said = '';
  child.stdout.on('data', (data) => (said += data));
  child.stderr.on('data', (data) => (said += data));
  const code = await new Promise((resolve) => child.once('exit', resolve));
  if (code !== 0 || !/successfully installed/.test(said)) {
    throw new Error(`the extension could not be installed: ${said}`);
  }
}

const running = new Set();

/** Ends whatever was started. */
export async function stopAll() {
  await Promise.all([...running].map((session) => session.stop()));
}

export class Session {
  /** Starts VS Code on a copy of a workspace; `prepare` may change the copy before. */
  static async start({ vscode, extensions, workspace, settings = {}, trust = false, env = {}, prepare, inHost, size }) {
    const session = new Session();
    running.add(session);
    session.root = mkdtempSync(join(tmpdir(), 'linelens-vscode-'));
    session.workspace = join(session.root, 'workspace');
    cpSync(workspace, session.workspace, { recursive: true });
    prepare?.(session.workspace);
    session.settings = { ...SETTINGS, ...settings };
    session.writeSettings();
    const data = join(session.root, 'data');
    const port = await freePort();
    const options = ['--accept-server-license-terms', '--server-data-dir', data, '--user-data-dir', join(data, 'user')];
    options.push('--extensions-dir', extensions, '--telemetry-level', 'off', '--host', '127.0.0.1', '--port', port);
    options.push('--without-connection-token', ...(trust ? [] : ['--disable-workspace-trust']));
    const home = { HOME: session.root, XDG_CONFIG_HOME: join(session.root, 'config') };
    session.server = node(vscode, options, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...home, ...env } });
    session.said = '';
    session.writesLogs = existsSync(join(vscode, 'node_modules/@vscode/spdlog/build/Release/spdlog.node'));
    session.server.stdout.on('data', (said) => (session.said += said));
    session.server.stderr.on('data', (said) => (session.said += said));
    const address = `http://127.0.0.1:${port}`;
    try {
      const isUp = await until(
        () =>
          fetch(`${address}/version`).then(
            ({ ok }) => ok,
            () => false,
          ),
        60_000,
      );
      if (!isUp) {
        throw new Error(`VS Code's server does not answer: ${session.said}`);
      }
      session.browser = await chromium.launch({
        executablePath: process.env.CHROMIUM,
        args: ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update'],
      });
      const viewport = size ?? { width: 1280, height: 800 };
      session.page = await session.browser.newPage({ viewport, colorScheme: 'dark' });
      session.page.setDefaultTimeout(60_000);
      session.problems = [];
      session.page.on('pageerror', (error) => session.problems.push(error.message));
      const folder = `${address}/?folder=${session.workspace}`;
      if (inHost !== undefined) {
        session.testAddress = await session.prepareTests(folder, port, inHost(session.root));
        return session;
      }
      await session.page.goto(folder, { timeout: START_MS });
      await session.page.waitForSelector('.monaco-workbench .part.statusbar', { timeout: START_MS });
    } catch (error) {
      await session.stop();
      throw error;
    }
    return session;
  }

  /** VS Code's way of running tests in the extension host; what they print with a mark goes to `onReport`. */
  async prepareTests(folder, port, { extension, tests }) {
    this.hostSaid = [];
    await this.page.exposeFunction('codeAutomationLog', (_, args) => {
      const text = args.join(' ');
      const marked = /^linelens-test (.*)$/.exec(text);
      this.hostSaid.push(text);
      if (marked) {
        this.onReport(...JSON.parse(marked[1]));
      }
    });
    await this.page.exposeFunction('codeAutomationExit', (code) => {
      this.exitCode = code;
    });
    const remote = (path) => `vscode-remote://127.0.0.1:${port}${path}`;
    const payload = [
      ['extensionDevelopmentPath', remote(extension)],
      ['extensionTestsPath', remote(tests)],
    ];
    return `${folder}&payload=${encodeURIComponent(JSON.stringify(payload))}`;
  }

  startTests() {
    return this.page.goto(this.testAddress, { timeout: START_MS });
  }

  writeSettings(changes = {}) {
    Object.assign(this.settings, changes);
    for (const folder of ['User', 'Machine']) {
      const path = join(this.root, 'data', folder === 'User' ? 'user/User' : 'user/Machine');
      mkdirSync(path, { recursive: true });
      writeFileSync(join(path, 'settings.json'), JSON.stringify(this.settings, null, 2));
    }
  }

  /** The extension's log. */
  logText() {
    const folder = join(this.root, 'data');
    const file = readdirSync(folder, { recursive: true }).find((name) => name.endsWith('linelens.log'));
    return file === undefined ? '' : readFileSync(join(folder, file), 'utf8');
  }

  file(name) {
    return readFileSync(join(this.workspace, name), 'utf8');
  }

  // Doing ------------------------------------------------------------------------------------------------------------

  async keys(...keys) {
    for (const key of keys) {
      await this.page.keyboard.press(key);
    }
  }

  /** Types into the box that Ctrl+P and its like open, and takes the first answer that fits. */
  async quick(key, text, wanted) {
    const input = this.page.locator('.quick-input-widget:visible input.input');
    const row = this.page.locator('.quick-input-list .monaco-list-row.focused', { hasText: wanted }).first();
    for (let attempt = 1; ; attempt++) {
      try {
        // A page that takes the focus closes the box.
        await this.page.keyboard.press(key);
        await input.fill(text, { timeout: 3000 });
        if (wanted !== undefined) {
          await row.waitFor({ timeout: 3000 });
        }
        await this.page.keyboard.press('Enter');
        return;
      } catch (error) {
        if (attempt === 5) {
          throw error;
        }
        await this.page.keyboard.press('Escape');
      }
    }
  }

  async open(name) {
    // Searching for files needs a program that this server comes without.
    await this.page.keyboard.press('Control+Shift+E');
    await this.page.locator('.explorer-folders-view .monaco-list-row', { hasText: name }).first().dblclick();
    await this.page.locator('.tab.active', { hasText: name }).waitFor();
    await this.page.locator('.editor-instance .view-lines').first().waitFor();
  }

  async command(title) {
    await this.quick('F1', `>linelens: ${title}`, title);
  }

  async goTo(line, column = 1) {
    await this.page.locator('.editor-instance .view-lines').first().click();
    await this.quick('Control+G', `:${line}:${column}`);
    await this.page.locator('.quick-input-widget').waitFor({ state: 'hidden' });
  }

  /** Chooses a row of the list that is open. */
  async choose(text) {
    const row = this.page.locator('.quick-input-list .monaco-list-row', { hasText: text }).first();
    await row.waitFor();
    await row.click();
  }

  // Looking ----------------------------------------------------------------------------------------------------------

  /** Of each line that is shown: what is drawn over it. */
  lines() {
    return this.page.evaluate(() => {
      const editor = document.querySelector('.editor-instance');
      const found = {};
      if (!editor) {
        return found;
      }
      const numbers = new Map();
      for (const row of editor.querySelectorAll('.margin-view-overlays > div')) {
        const number = row.querySelector('.line-numbers');
        if (number) {
          numbers.set(row.style.top, Number(number.textContent));
        }
      }
      const of = (top) => {
        const number = numbers.get(top);
        return number === undefined ? {} : (found[number] ??= { background: null, after: '', dimmed: false });
      };
      for (const row of editor.querySelectorAll('.view-overlays > div')) {
        for (const mark of row.querySelectorAll('[class*=TextEditorDecorationType]')) {
          const { backgroundColor } = getComputedStyle(mark);
          if (backgroundColor !== 'rgba(0, 0, 0, 0)') {
            of(row.style.top).background = backgroundColor;
          }
        }
      }
      for (const row of editor.querySelectorAll('.view-lines > div')) {
        const line = of(row.style.top);
        line.text = row.textContent.replace(/\u00a0/g, ' ');
        for (const span of row.querySelectorAll('[class*=TextEditorDecorationType]')) {
          const { content } = getComputedStyle(span, '::after');
          if (content !== 'none' && content !== 'normal') {
            line.after = content.replace(/^"|"$/g, '');
          }
        }
      }
      return found;
    });
  }

  /** The code lenses above a line that is shown. */
  lensesAbove(number) {
    return this.page.evaluate((wanted) => {
      const editor = document.querySelector('.editor-instance');
      const numbers = [...editor.querySelectorAll('.margin-view-overlays .line-numbers')];
      const line = numbers.find((one) => Number(one.textContent) === wanted)?.getBoundingClientRect();
      if (line === undefined) {
        return undefined;
      }
      const isAbove = ({ bottom }) => bottom > line.top - line.height && bottom <= line.top + line.height / 2;
      const lenses = [...editor.querySelectorAll('.codelens-decoration')];
      return lenses.filter((one) => isAbove(one.getBoundingClientRect())).map((one) => one.textContent);
    }, number);
  }

  /** Numbers of the shaded lines. */
  async shaded() {
    const lines = await this.lines();
    return Object.keys(lines)
      .filter((number) => lines[number].background !== null)
      .map(Number);
  }

  /** Waits until exactly these lines, or any, or none are shaded. */
  waitForShades(wanted) {
    return until(async () => wanted(await this.shaded()));
  }

  status() {
    return this.page.evaluate(() => {
      const item = [...document.querySelectorAll('.statusbar-item')].find(
        (one) => /^linelens/.test(one.id) || /linelens/.test(one.id),
      );
      return item
        ? {
            text: item.textContent.trim(),
            kind: item.className,
            label: item.querySelector('a')?.getAttribute('aria-label'),
          }
        : null;
    });
  }

  async waitForStatus(pattern, ms) {
    let last;
    const found = await until(async () => {
      last = await this.status();
      return last && pattern.test(last.text) ? last : null;
    }, ms);
    return found ?? last;
  }

  notifications() {
    return this.page.evaluate(() =>
      [
        ...document.querySelectorAll(
          '.notification-toast .notification-list-item-message, .notifications-center .notification-list-item-message',
        ),
      ].map((one) => one.textContent),
    );
  }

  waitForNotification(pattern, ms) {
    return until(async () => (await this.notifications()).find((text) => pattern.test(text)), ms);
  }

  async clearNotifications() {
    await this.quick('F1', '>Notifications: Clear All Notifications');
  }

  /** The innermost frame of the webview. */
  async webview(selector) {
    return until(async () => {
      for (const frame of this.page.frames()) {
        if (await frame.$(selector).catch(() => null)) {
          return frame;
        }
      }
      return null;
    });
  }

  async picture(file, clip) {
    // Away from what has a tooltip, and until one that was there is gone.
    await this.page.mouse.move(900, 14);
    await new Promise((resolve) => setTimeout(resolve, 700));
    await this.page.screenshot({ path: file, ...(clip ? { clip } : {}) });
  }

  async stop() {
    running.delete(this);
    await this.browser?.close().catch(() => undefined);
    try {
      // With the extension host and the server of the extension.
      process.kill(-this.server.pid, 'SIGKILL');
    } catch {
      // It is gone already.
    }
    rmSync(this.root, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  }
}
