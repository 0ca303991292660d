// A module of src/ that knows nothing of VS Code, as JavaScript.
import { build } from 'esbuild';

export async function load(name) {
  const { outputFiles } = await build({
    entryPoints: [new URL(`../../src/${name}.ts`, import.meta.url).pathname],
    bundle: true,
    format: 'esm',
    platform: 'node',
    write: false,
  });
  return import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].contents).toString('base64')}`);
}
