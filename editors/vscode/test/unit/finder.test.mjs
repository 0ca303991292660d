// Which program is started, and what is said where there is none.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { load } from './load.mjs';

const { findServer } = await load('finder');

function find(programs, changes = {}) {
  return findServer({
    setting: '',
    extensionFolder: '/ext',
    searchPath: '/usr/bin:/usr/local/bin',
    workspaceFolders: ['/home/me/project'],
    isWindows: false,
    isProgram: (path) => programs.includes(path),
    ...changes,
  });
}

const BUNDLED = '/ext/server/linelens';
const INSTALLED = '/usr/local/bin/linelens';

test('the setting, then the bundled one, then PATH', () => {
  const all = ['/mine/linelens', BUNDLED, INSTALLED];
  assert.equal(find(all, { setting: '/mine/linelens' }).program, '/mine/linelens');
  assert.equal(find(all).program, BUNDLED);
  assert.equal(find([INSTALLED]).program, INSTALLED);
});

test('a setting that names no program is final', () => {
  assert.match(
    find([BUNDLED], { setting: '/mine/linelens' }).problem,
    /names \/mine\/linelens, which is not a program/,
  );
  assert.match(find([BUNDLED], { setting: 'bin/linelens' }).problem, /must be an absolute path/);
});

test('nothing of an open folder is taken from PATH', () => {
  const inside = '/home/me/project/bin/linelens';
  const here = 'bin/linelens';
  const searchPath = '/home/me/project/bin:bin:.::/usr/local/bin';
  assert.equal(find([inside, here, 'linelens', INSTALLED], { searchPath }).program, INSTALLED);
  assert.match(find([inside, here, 'linelens'], { searchPath }).problem, /found neither in the extension nor in PATH/);
  // Nor of a link's way round.
  assert.ok(find([inside], { searchPath: '/usr/../home/me/project/bin' }).problem);
  // A folder of a similar name is another folder.
  const other = '/home/me/project-tools/linelens';
  assert.equal(find([other], { searchPath: '/home/me/project-tools' }).program, other);
});

test('what to do is said', () => {
  assert.match(find([]).problem, /cargo build --release.*linelens\.server\.path/);
});
