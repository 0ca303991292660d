// Writes the colours of the 8 steps into package.json: straight lines in OKLab between the colours below.
import { readFileSync, writeFileSync } from 'node:fs';
import { fromOklab, oklab } from '../test/unit/colour.mjs';

export const STEPS = 8;

/** Of each kind of theme: where the scale starts and its strongest step. As far as the syntax colours of VS Code's own
 * themes stay readable; a black screen shows no steps between darker colours. */
export const ENDS = {
  dark: ['#1f1f1f', '#3a2000'],
  light: ['#ffffff', '#fff38c'],
  highContrast: ['#120e0a', '#4a2600'],
  highContrastLight: ['#ffffff', '#ffef78'],
};

/** The colours of a scale, step 1 first. */
export function ramp([start, end]) {
  const [from, to] = [oklab(start), oklab(end)];
  return Array.from({ length: STEPS }, (_, index) =>
    fromOklab(from.map((value, axis) => value + ((to[axis] - value) * (index + 1)) / STEPS)),
  );
}

if (process.argv[1] === import.meta.filename) {
  const file = new URL('../package.json', import.meta.url);
  const manifest = JSON.parse(readFileSync(file, 'utf8'));
  for (const [kind, ends] of Object.entries(ENDS)) {
    ramp(ends).forEach((colour, index) => {
      const id = `linelens.heat${index + 1}`;
      manifest.contributes.colors.find((contributed) => contributed.id === id).defaults[kind] = colour;
    });
  }
  writeFileSync(file, `${JSON.stringify(manifest, null, 2)}\n`);
}
