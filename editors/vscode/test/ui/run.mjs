// node test/ui/run.mjs VSCODE VSIX WORKSPACE PICTURES: the extension in VS Code's own server and Chromium (CHROMIUM).
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { finish } from './check.mjs';
import { install } from './host.mjs';
import { main } from './main.mjs';

const [vscode, vsix, workspace, pictures, ...only] = process.argv.slice(2);
const manifest = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
const scratch = mkdtempSync(join(tmpdir(), 'linelens-extensions-'));
const extensions = join(scratch, 'extensions');
mkdirSync(pictures, { recursive: true });
const scenarios = { main };
let good = true;
try {
  await install(vscode, vsix, extensions);
  for (const [name, scenario] of Object.entries(scenarios)) {
    if (only.length === 0 || only.includes(name)) {
      const started = Date.now();
      await scenario({ vscode, extensions, workspace, pictures, manifest });
      console.log(`-- ${name}: ${Math.round((Date.now() - started) / 1000)} s`);
    }
  }
  good = finish('VS Code');
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
process.exit(good ? 0 : 1);
