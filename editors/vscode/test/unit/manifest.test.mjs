// What package.json promises is there, and the extension keeps to itself.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { test } from 'node:test';

const path = (name) => new URL(`../../${name}`, import.meta.url);
const read = (name) => readFileSync(path(name), 'utf8');
const manifest = JSON.parse(read('package.json'));
const { contributes } = manifest;
const sources = readdirSync(path('src'), { recursive: true }).filter((name) => name.endsWith('.ts'));
const code = sources.map((name) => read(`src/${name}`)).join('\n');
const commands = contributes.commands.map(({ command }) => command);

test('the commands are registered, and no others', () => {
  const table = /const commands: .*? = \{\n(.*?)\n {4}\};/s.exec(read('src/commands.ts'))[1];
  const registered = [...table.matchAll(/^ {6}(\w+):/gm)].map(([, name]) => `linelens.${name}`);
  assert.deepEqual([...commands].sort(), registered.sort());
});

test('all commands of the server exist', () => {
  const page = read('../../docs/protocol.md');
  const named = [...page.matchAll(/^\| (`linelens\..*?) \|/gm)].flatMap(([, cell]) => cell.match(/linelens\.\w+/g));
  assert.ok(named.length >= 18);
  for (const command of named) {
    assert.ok(commands.includes(command), command);
  }
});

test('menus, keys, views and the walkthrough name what there is', () => {
  const used = [
    ...contributes.keybindings.map(({ command }) => command),
    ...Object.values(contributes.menus)
      .flat()
      .map(({ command }) => command)
      .filter(Boolean),
    ...JSON.stringify([contributes.viewsWelcome, contributes.walkthroughs]).match(/(?<=command:)linelens\.\w+/g),
    ...code.match(/(?<=executeCommand\(')linelens\.\w+/g),
  ];
  for (const command of used) {
    assert.ok(commands.includes(command), command);
  }
  const keys = contributes.keybindings.map(({ key }) => key);
  assert.equal(new Set(keys).size, keys.length);
  for (const { media } of contributes.walkthroughs.flatMap(({ steps }) => steps)) {
    assert.ok(existsSync(path(media.image ?? media.markdown)), media.image ?? media.markdown);
  }
  for (const [, image] of read('README.md').matchAll(/!\[[^\]]*\]\(([^)]*)\)/g)) {
    assert.ok(existsSync(path(image)), image);
  }
  assert.ok(existsSync(path(manifest.icon)));
});

test('colours that are used are contributed', () => {
  const known = contributes.colors.map(({ id }) => id);
  const used = [...code.matchAll(/(?:'|--vscode-)linelens[.-](heat\d|score|unseen|groundTruth)\b/g)].map(
    ([, name]) => `linelens.${name}`,
  );
  assert.ok(used.length >= 4);
  for (const colour of used) {
    assert.ok(known.includes(colour), colour);
  }
  for (const { id, defaults } of contributes.colors) {
    assert.deepEqual(Object.keys(defaults).sort(), ['dark', 'highContrast', 'highContrastLight', 'light'], id);
  }
});

test('nothing opens a connection or counts what users do', () => {
  assert.doesNotMatch(code, /\bfetch\(|https?:\/\/|node:(http|https|net|tls|dgram|dns)\b|WebSocket|telemetry/i);
  assert.deepEqual(Object.keys(manifest.dependencies), ['vscode-languageclient']);
});

test('versions are exact', () => {
  for (const [name, version] of Object.entries({ ...manifest.dependencies, ...manifest.devDependencies })) {
    assert.match(version, /^\d+\.\d+\.\d+$/, name);
  }
  assert.doesNotMatch(read('package-lock.json'), /"resolved": "http/);
});
