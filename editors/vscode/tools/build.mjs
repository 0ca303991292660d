// Bundles src/ into dist/extension.js.
import { build } from 'esbuild';

await build({
  absWorkingDir: new URL('..', import.meta.url).pathname,
  entryPoints: ['src/extension.ts'],
  outfile: 'dist/extension.js',
  bundle: true,
  minify: true,
  platform: 'node',
  target: 'node18',
  format: 'cjs',
  external: ['vscode'],
  legalComments: 'eof',
  logLevel: 'warning',
});
