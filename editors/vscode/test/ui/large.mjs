// The extension by VS Code's own interface, and what a file of 10,000 lines and 300 functions costs the window and the
// extension host, beside the same file without linelens.
import { cpSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ok, until } from './check.mjs';
import { Session } from './host.mjs';

const [FUNCTIONS, LINES, LONGEST_MS] = [300, 10_000, 50];

function prepare(folder) {
  const lines = ['#include <string.h>', ''];
  for (let number = 1; number <= FUNCTIONS; number++) {
    lines.push(`static int step_${number}(char *to, const char *from, int length)`, '{', '    int total = 0;');
    for (let line = 1; line <= 13; line++) {
      lines.push(`    if (length > ${(line * number) % 97}) {`);
      lines.push(`        memcpy(to + ${line}, from, length - ${line}); total += to[${line}];`);
    }
    lines.push(`    ${'}'.repeat(13)}`, '    return total;', '}', '');
  }
  while (lines.length < LINES) {
    lines.push(`/* line ${lines.length + 1} */`);
  }
  writeFileSync(join(folder, 'large.c'), lines.join('\n'));
}

/** Of each phase: the longest task of the window's main thread, in milliseconds on the processor. */
function longestTasks(events) {
  const main = new Set(
    events
      .filter(({ name, args }) => name === 'thread_name' && args.name === 'CrRendererMain')
      .map(({ pid, tid }) => `${pid} ${tid}`),
  );
  const marks = events
    .filter(({ name, cat }) => cat.includes('user_timing') && name.startsWith('linelens:'))
    .sort((one, other) => one.ts - other.ts);
  const longest = {};
  for (const { name, ts, tdur, dur, pid, tid } of events) {
    if (/RunTask$/.test(name) && main.has(`${pid} ${tid}`)) {
      const phase = marks.findLast((mark) => mark.ts <= ts)?.name.slice('linelens:'.length);
      if (phase !== undefined) {
        longest[phase] = Math.max(longest[phase] ?? 0, (tdur ?? dur ?? 0) / 1000);
      }
    }
  }
  return longest;
}

async function scenario({ vscode, extensions, workspace, isPlain }) {
  const session = await Session.start({
    vscode,
    extensions: isPlain ? `${extensions}-none` : extensions,
    workspace,
    prepare,
    inHost: (root) => {
      cpSync(new URL('../host', import.meta.url).pathname, join(root, 'host'), { recursive: true });
      const tests = join(root, 'host/index.js');
      if (isPlain) {
        // Tests need some extension.
        mkdirSync(join(root, 'nothing'));
        const nothing = { name: 'nothing', publisher: 'nobody', version: '0.0.1', engines: { vscode: '*' } };
        writeFileSync(join(root, 'nothing/package.json'), JSON.stringify(nothing));
        return { extension: join(root, 'nothing'), tests };
      }
      const unpacked = readdirSync(extensions).find((name) => name.startsWith('linelens.linelens'));
      return { extension: join(extensions, unpacked), tests };
    },
    settings: {
      'linelens.threshold': 0,
      'linelens.analyze': 'file',
      // There more is drawn.
      'workbench.colorTheme': 'Default Light Modern',
    },
  });
  try {
    const devtools = await session.page.context().newCDPSession(session.page);
    const events = [];
    devtools.on('Tracing.dataCollected', ({ value }) => events.push(...value));
    await devtools.send('Tracing.start', {
      traceConfig: { includedCategories: ['toplevel', 'blink.user_timing', '__metadata'] },
      transferMode: 'ReportEvents',
    });
    const times = [];
    let isDone = false;
    session.onReport = (kind, value) => {
      if (kind === 'check') {
        ok(...value);
      } else if (kind === 'times') {
        times.push(value);
      } else {
        isDone = value === 'end';
        void session.page.evaluate((name) => performance.mark(name), `linelens:${value}`).catch(() => undefined);
      }
    };
    await session.startTests();
    const finished = await until(() => isDone || session.exitCode !== undefined, 300_000);
    ok(
      `the tests in the extension host come to an end${isPlain ? ', without linelens' : ''}`,
      finished && !session.exitCode,
      session.hostSaid.slice(-20),
    );
    const complete = new Promise((resolve) => devtools.once('Tracing.tracingComplete', resolve));
    await devtools.send('Tracing.end');
    await complete;
    return { times, tasks: longestTasks(events) };
  } finally {
    await session.stop();
  }
}

/** The file without linelens, to compare with. */
export function largeAlone(around) {
  return scenario({ ...around, isPlain: true });
}

export async function large(around, plain) {
  const ours = await scenario({ ...around, isPlain: false });
  const ms = (value) => (value === undefined ? '   –' : value.toFixed(0).padStart(4));
  let worst = { ms: 0 };
  for (const { name, away, longest, what } of ours.times) {
    const before = plain.times.find((one) => one.name === name);
    console.log(
      `        ${name.padEnd(20)} window ${ms(ours.tasks[name])} ms (without linelens ${ms(plain.tasks[name])}), ` +
        `extension host away ${ms(away)} ms (${ms(before?.away)}), of them one callback of ours ${longest.toFixed(1)} ms (${what})`,
    );
    if (longest > worst.ms) {
      worst = { ms: longest, what, name };
    }
  }
  ok(
    `no callback of ours keeps the extension host for more than ${LONGEST_MS} ms`,
    worst.ms <= LONGEST_MS && ours.times.length >= 5,
    worst,
  );
  const added = ['scrolling', 'typing', 'toggling twice', 'closing'].map((name) => ({
    name,
    ms: (ours.tasks[name] ?? 0) - (plain.tasks[name] ?? 0),
  }));
  ok(
    `no task of the window is longer by more than ${LONGEST_MS} ms`,
    added.every((one) => one.ms <= LONGEST_MS) && ours.tasks.scrolling > 0,
    added,
  );
}
