// npm run package [-- --target T --server F --library F --model D --out F]: a .vsix for one platform, with the server,
// ONNX Runtime and the built-in detector. Without arguments: for this machine, from this checkout's release build.
import { execFileSync } from 'node:child_process';
import { chmodSync, copyFileSync, cpSync, existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

/** What VS Code calls a platform: the Rust target to build for, the program, the library of ONNX Runtime's wheel. */
const TARGETS = {
  'linux-x64': { rust: 'x86_64-unknown-linux-gnu', program: 'linelens', library: /^libonnxruntime\.so\.[\d.]+$/ },
  'linux-arm64': { rust: 'aarch64-unknown-linux-gnu', program: 'linelens', library: /^libonnxruntime\.so\.[\d.]+$/ },
  'darwin-x64': { rust: 'x86_64-apple-darwin', program: 'linelens', library: /^libonnxruntime\.[\d.]+\.dylib$/ },
  'darwin-arm64': { rust: 'aarch64-apple-darwin', program: 'linelens', library: /^libonnxruntime\.[\d.]+\.dylib$/ },
  'win32-x64': { rust: 'x86_64-pc-windows-msvc', program: 'linelens.exe', library: /^onnxruntime\.dll$/ },
  'win32-arm64': { rust: 'aarch64-pc-windows-msvc', program: 'linelens.exe', library: /^onnxruntime\.dll$/ },
};

const here = fileURLToPath(new URL('..', import.meta.url));
const root = join(here, '../..');

function fail(text) {
  console.error(text);
  process.exit(1);
}

/** Of a checkout: the library in .linelens-env, which `make setup` fills for this machine. */
function installedLibrary({ library }) {
  const lib = join(root, '.linelens-env', process.platform === 'win32' ? 'Lib' : 'lib');
  const versions = process.platform === 'win32' ? ['.'] : existsSync(lib) ? readdirSync(lib) : [];
  for (const version of versions) {
    const folder = join(lib, version, 'site-packages/onnxruntime/capi');
    const file = existsSync(folder) ? readdirSync(folder).find((name) => library.test(name)) : undefined;
    if (file !== undefined) {
      return join(folder, file);
    }
  }
  return undefined;
}

const mine = `${process.platform}-${process.arch}`;
const { values } = parseArgs({
  options: {
    target: { type: 'string', default: mine },
    server: { type: 'string' },
    library: { type: 'string' },
    model: { type: 'string', default: join(root, 'models/default') },
    out: { type: 'string' },
  },
});
const target = TARGETS[values.target];
if (target === undefined) {
  fail(`${values.target} is no target; there are ${Object.keys(TARGETS).join(', ')}`);
}
const isMine = values.target === mine;
const server = values.server ?? join(root, 'target', isMine ? '' : target.rust, 'release', target.program);
const library = values.library ?? (isMine ? installedLibrary(target) : undefined);
if (!existsSync(server)) {
  fail(`There is no ${server}: cargo build --release${isMine ? '' : ` --target ${target.rust}`}, or --server FILE`);
}
if (library === undefined || !existsSync(library)) {
  fail(
    `ONNX Runtime for ${values.target} is not there: --library FILE (from the wheel \`onnxruntime\`)${isMine ? ', or make setup' : ''}`,
  );
}
if (!existsSync(join(values.model, 'model.onnx'))) {
  fail(`There is no model in ${values.model}: --model FOLDER`);
}

await import('./build.mjs');
const folder = join(here, 'server');
rmSync(folder, { recursive: true, force: true });
mkdirSync(join(folder, 'models'), { recursive: true });
copyFileSync(server, join(folder, target.program));
chmodSync(join(folder, target.program), 0o755);
copyFileSync(library, join(folder, library.split(/[\\/]/).at(-1)));
cpSync(values.model, join(folder, 'models/default'), { recursive: true, dereference: true });
for (const licence of ['LICENSE-MIT', 'LICENSE-APACHE']) {
  copyFileSync(join(root, licence), join(folder, licence));
}
// What ONNX Runtime's own licence asks for lies beside it in the wheel.
const wheel = dirname(dirname(library));
for (const notice of ['LICENSE', 'ThirdPartyNotices.txt']) {
  const file = join(wheel, notice);
  if (existsSync(file)) {
    copyFileSync(file, join(folder, `onnxruntime-${notice}`));
  }
}
writeFileSync(join(here, 'LICENSE'), 'MIT or Apache-2.0, at your choice; both texts are in the folder server.\n');

const out = values.out ?? join(root, 'target', `linelens-${values.target}.vsix`);
mkdirSync(dirname(out), { recursive: true });
const vsce = join(here, 'node_modules/@vscode/vsce/vsce');
const options = ['package', '--no-dependencies', '--target', values.target, '--out', out, '--skip-license'];
execFileSync(process.execPath, [vsce, ...options, '--no-rewrite-relative-links', '--allow-missing-repository'], {
  cwd: here,
  stdio: ['ignore', 'ignore', 'inherit'],
});
rmSync(folder, { recursive: true });
rmSync(join(here, 'LICENSE'));
console.log(out);
