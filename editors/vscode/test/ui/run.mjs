// node test/ui/run.mjs VSCODE VSIX WORKSPACE PICTURES [SCENARIO…]: the extension in VS Code's own server and Chromium
// (CHROMIUM). With PICTURES=1 the pictures of the README are renewed.
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { finish } from './check.mjs';
import { install, stopAll } from './host.mjs';
import { large, largeAlone } from './large.mjs';
import { main } from './main.mjs';
import { trust } from './trust.mjs';

const [vscode, vsix, workspace, pictures, ...only] = process.argv.slice(2);
const manifest = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
const scratch = mkdtempSync(join(tmpdir(), 'linelens-extensions-'));
const extensions = join(scratch, 'extensions');
rmSync(pictures, { recursive: true, force: true });
mkdirSync(pictures, { recursive: true });

async function end(code) {
  await stopAll();
  rmSync(scratch, { recursive: true, force: true });
  process.exit(code);
}
for (const signal of ['SIGTERM', 'SIGINT']) {
  process.once(signal, () => void end(1));
}

async function run(name, scenario) {
  if (only.length === 0 || only.includes(name)) {
    const started = Date.now();
    const result = await scenario({ vscode, extensions, workspace, pictures, manifest });
    console.log(`-- ${name}: ${Math.round((Date.now() - started) / 1000)} s`);
    return result;
  }
}

try {
  await install(vscode, vsix, extensions);
  // These mostly wait; what is ours is measured alone.
  const isMeasured = only.length === 0 || only.includes('large');
  const [plain] = await Promise.all([
    isMeasured ? largeAlone({ vscode, extensions, workspace }) : undefined,
    run('main', main),
    run('trust', trust),
  ]);
  await run('large', (around) => large(around, plain));
  if (process.env.PICTURES === '1') {
    for (const name of readdirSync(pictures).filter((one) => one.startsWith('media-'))) {
      copyFileSync(join(pictures, name), new URL(`../../media/${name.slice('media-'.length)}`, import.meta.url));
    }
  }
  await end(finish('VS Code') ? 0 : 1);
} catch (error) {
  console.error(error);
  await end(1);
}
