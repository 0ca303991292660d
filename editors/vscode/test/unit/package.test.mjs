// What a package for each kind of platform holds, made from stand-ins for the server and ONNX Runtime.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { promisify } from 'node:util';
import yauzl from 'yauzl';

const here = new URL('../..', import.meta.url).pathname;
const scratch = mkdtempSync(join(tmpdir(), 'linelens-package-'));
after(() => rmSync(scratch, { recursive: true, force: true }));

/** Of each entry of a package: its text and its permissions. */
async function entries(file) {
  const archive = await promisify(yauzl.open)(file, { lazyEntries: true });
  const found = new Map();
  return new Promise((resolve, reject) => {
    archive.on('error', reject);
    archive.on('end', () => resolve(found));
    archive.on('entry', (entry) => {
      archive.openReadStream(entry, (error, stream) => {
        if (error) {
          reject(error);
          return;
        }
        const parts = [];
        stream.on('data', (part) => parts.push(part));
        stream.on('end', () => {
          const mode = (entry.externalFileAttributes >>> 16) & 0o777;
          found.set(entry.fileName, { text: Buffer.concat(parts).toString(), mode });
          archive.readEntry();
        });
      });
    });
    archive.readEntry();
  });
}

function stand(name, text) {
  const path = join(scratch, name);
  mkdirSync(join(path, '..'), { recursive: true });
  writeFileSync(path, text);
  return path;
}

function pack(...options) {
  return execFileSync(process.execPath, [join(here, 'tools/package.mjs'), ...options], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  });
}

for (const [target, program, library] of [
  ['linux-arm64', 'linelens', 'libonnxruntime.so.1.24.4'],
  ['darwin-arm64', 'linelens', 'libonnxruntime.1.24.4.dylib'],
  ['win32-x64', 'linelens.exe', 'onnxruntime.dll'],
]) {
  test(`${target}: the server, its library and the detector, and nothing else of the checkout`, async () => {
    const out = join(scratch, `${target}.vsix`);
    const model = join(stand(`${target}/model/model.onnx`, 'weights'), '..');
    const wheel = `${target}/wheel/onnxruntime`;
    stand(`${wheel}/LICENSE`, 'its licence');
    pack(
      ...['--target', target, '--out', out, '--model', model],
      ...['--server', stand(`${target}/built/${program}`, 'a program')],
      ...['--library', stand(`${wheel}/capi/${library}`, 'a library')],
    );
    const found = await entries(out);
    const inside = [...found.keys()].filter((name) => name.startsWith('extension/'));
    assert.equal(found.get(`extension/server/${program}`)?.text, 'a program');
    assert.equal(found.get(`extension/server/${program}`)?.mode & 0o111, 0o111);
    assert.equal(found.get(`extension/server/${library}`)?.text, 'a library');
    assert.equal(found.get('extension/server/models/default/model.onnx')?.text, 'weights');
    assert.equal(found.get('extension/server/onnxruntime-LICENSE')?.text, 'its licence');
    assert.match(found.get('extension.vsixmanifest').text, new RegExp(`TargetPlatform="${target}"`));
    assert.ok(found.has('extension/dist/extension.js') && found.has('extension/media/shading.png'));
    assert.deepEqual(
      inside.filter((name) => !/^extension\/(dist|media|server|package\.json|readme\.md|LICENSE)/i.test(name)),
      [],
    );
    assert.equal(existsSync(join(here, 'server')), false, 'what was copied for it is gone');
  });
}

test('what is missing is said, with what to do', () => {
  const fails = (options, wanted) =>
    assert.throws(
      () => pack(...options),
      (error) => wanted.test(error.stderr),
    );
  fails(['--target', 'amiga'], /amiga is no target; there are linux-x64/);
  fails(
    ['--target', 'win32-x64', '--server', '/nowhere'],
    /There is no \/nowhere: cargo build --release --target x86_64/,
  );
  const server = stand('there', '');
  fails(['--target', 'win32-arm64', '--server', server], /ONNX Runtime for win32-arm64 is not there: --library FILE/);
  const library = ['--library', stand('onnxruntime.dll', '')];
  fails(['--target', 'win32-arm64', '--server', server, ...library, '--model', scratch], /There is no model in/);
});
