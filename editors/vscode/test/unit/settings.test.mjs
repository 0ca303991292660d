// The settings are the server's: keys, defaults, choices and limits as docs/configuration.md has them.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { load } from './load.mjs';

const { chosen, environment, environmentVariable, MACHINE_KEYS, RESTART_KEYS, WORKSPACE_KEYS } = await load('keys');
const read = (name) => readFileSync(new URL(`../../${name}`, import.meta.url), 'utf8');
const manifest = JSON.parse(read('package.json'));
const properties = Object.assign({}, ...manifest.contributes.configuration.map((page) => page.properties));

/** The rows of the table of keys. */
const rows = read('../../docs/configuration.md')
  .split('\n')
  .map((line) => /^\| `(\w+)` \| (yes|no) \| `(LINELENS_\w+)` \| [^|]*\| ([^|]*) \| (.*) \|$/.exec(line))
  .filter((match) => match !== null)
  .map(([, key, workspace, variable, fallback, meaning]) => ({ key, workspace, variable, fallback, meaning }));

/** A stand-in for VS Code's settings; `set` are the user's. */
function settings(set) {
  const fallback = (key) => properties[`linelens.${key}`]?.default;
  return {
    get: (key) => (key in set ? set[key] : fallback(key)),
    inspect: (key) => ({ defaultValue: fallback(key), globalValue: set[key] }),
  };
}

test('the page is understood', () => {
  assert.ok(rows.length >= 24, `only ${rows.length} rows`);
});

test('every key of the server is a setting, and no other', () => {
  const keys = (workspace) => rows.filter((row) => row.workspace === workspace).map(({ key }) => key);
  assert.deepEqual([...WORKSPACE_KEYS].sort(), keys('yes').sort());
  assert.deepEqual([...MACHINE_KEYS].sort(), keys('no').sort());
  const own = ['server.path', 'shading', 'scores', 'groundTruthMarks', 'dimUnseen', 'followCursor', 'followDelayMs'];
  const all = [...own, 'trace.server', ...WORKSPACE_KEYS, ...MACHINE_KEYS].map((key) => `linelens.${key}`);
  assert.deepEqual(Object.keys(properties).sort(), all.sort());
});

test('with the variable, the default, the choices and the limits that the page names', () => {
  for (const { key, variable, fallback, meaning } of rows) {
    const property = properties[`linelens.${key}`];
    assert.equal(environmentVariable(key), variable);
    const literal = /^`?([\w:]+)`?$/.exec(fallback)?.[1];
    if (literal !== undefined && literal !== 'none') {
      assert.equal(String(property.default), literal, key);
    } else {
      assert.ok(property.default === null || property.default.length === 0, `${key}: ${fallback}`);
    }
    const limits = /\b(\d+) to (\d+)\b/.exec(meaning);
    if (limits !== null) {
      assert.deepEqual([property.minimum, property.maximum].map(String), limits.slice(1), key);
    }
    for (const choice of property.enum?.filter((one) => one !== null) ?? []) {
      assert.ok(meaning.includes(`\`${choice}\``), `${key}: ${choice}`);
    }
  }
});

test('what is loaded and run is out of reach of a workspace', () => {
  const { untrustedWorkspaces } = manifest.capabilities;
  assert.equal(untrustedWorkspaces.supported, 'limited');
  const names = RESTART_KEYS.map((key) => `linelens.${key}`);
  assert.deepEqual([...untrustedWorkspaces.restrictedConfigurations].sort(), [...names].sort());
  for (const name of names) {
    assert.equal(properties[name].scope, 'machine', name);
  }
  for (const key of WORKSPACE_KEYS) {
    assert.equal(properties[`linelens.${key}`].scope, 'resource', key);
  }
  assert.deepEqual(manifest.extensionKind, ['workspace']);
});

test('only what somebody set is told to the server, so that its own files count', () => {
  assert.deepEqual(chosen(settings({})), {});
  const set = { method: 'ig', steps: 50, threshold: null, model: '/m', shading: 'bars', inlayHints: false };
  assert.deepEqual(chosen(settings(set)), { method: 'ig', steps: 50, inlayHints: false });
});

test('machine settings are the environment of the server', () => {
  assert.deepEqual(environment(settings({}), ':'), {});
  const set = { model: '/m', models: ['/a', '/b'], threads: 2, attnlrp: false, executionProvider: 'cpu', method: 'ig' };
  assert.deepEqual(environment(settings(set), ':'), {
    LINELENS_MODEL: '/m',
    LINELENS_MODELS: '/a:/b',
    LINELENS_THREADS: '2',
    LINELENS_ATTNLRP: 'false',
    LINELENS_EXECUTION_PROVIDER: 'cpu',
  });
  assert.deepEqual(environment(settings({ executionProvider: 'auto', model: '' }), ':'), {});
});
