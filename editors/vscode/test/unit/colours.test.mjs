// The shades as numbers: contrast on every step, order, distance, colour blindness.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { ENDS, ramp, STEPS } from '../../tools/shades.mjs';
import { contrast, darker, distance, luminance, SEEN } from './colour.mjs';
import { load } from './load.mjs';

const { LIGHT_TEXT } = await load('scale');

const manifest = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
const colours = Object.fromEntries(manifest.contributes.colors.map(({ id, defaults }) => [id, defaults]));
const shades = (kind) => Array.from({ length: STEPS }, (_, index) => colours[`linelens.heat${index + 1}`][kind]);

/** VS Code's default themes: background, text, and what C and C++ are drawn with; brackets last. */
const THEMES = {
  dark: {
    background: '#1f1f1f',
    text: '#cccccc',
    syntax: [
      '#6a9955', // comments
      '#569cd6', // keywords, preprocessor
      '#c586c0', // control flow
      '#ce9178', // strings
      '#d7ba7d', // escapes
      '#b5cea8', // numbers
      '#dcdcaa', // functions
      '#4ec9b0', // types
      '#9cdcfe', // variables
      '#4fc1ff', // constants
      '#c8c8c8', // labels
      '#d4d4d4', // operators
      '#ffd700',
      '#da70d6',
      '#179fff',
    ],
  },
  light: {
    background: '#ffffff',
    text: '#3b3b3b',
    syntax: [
      '#008000',
      '#0000ff',
      '#af00db',
      '#a31515',
      '#ee0000',
      '#098658',
      '#795e26',
      '#267f99',
      '#001080',
      '#0070c1',
      '#000000',
      '#0431fa',
      '#319331',
      '#7b3814',
    ],
  },
  highContrast: {
    background: '#000000',
    text: '#ffffff',
    syntax: [
      '#7ca668',
      '#569cd6',
      '#c586c0',
      '#ce9178',
      '#b5cea8',
      '#dcdcaa',
      '#4ec9b0',
      '#9cdcfe',
      '#d4d4d4',
      '#d7ba7d',
      '#ffd700',
      '#da70d6',
      '#87cefa',
    ],
  },
  highContrastLight: {
    background: '#ffffff',
    text: '#292929',
    syntax: [
      '#515151',
      '#0f4a85',
      '#b5200d',
      '#ee0000',
      '#096d48',
      '#5e2cbc',
      '#185e73',
      '#001080',
      '#02715d',
      '#000000',
      '#0431fa',
      '#319331',
      '#7b3814',
    ],
  },
};

test('known values', () => {
  assert.equal(contrast('#000000', '#ffffff'), 21);
  assert.ok(Math.abs(contrast('#767676', '#ffffff') - 4.54) < 0.005);
  assert.ok(Math.abs(distance('#ffffff', '#000000') - 100) < 0.01);
  // Who has no green cones takes this red and this green for nearly the same.
  assert.ok(distance('#b05050', '#7a7a3c', SEEN.deuteranopia) < distance('#b05050', '#7a7a3c') / 2);
});

test('the colours are those that tools/shades.mjs makes', () => {
  for (const [kind, ends] of Object.entries(ENDS)) {
    assert.deepEqual(shades(kind), ramp(ends), kind);
  }
});

for (const [kind, { background, text, syntax }] of Object.entries(THEMES)) {
  test(`${kind}: text is readable on every step`, () => {
    for (const shade of shades(kind)) {
      for (const colour of [text, ...syntax]) {
        const drawn = luminance(background) > 0.5 ? darker(colour, LIGHT_TEXT) : colour;
        assert.ok(contrast(drawn, shade) >= 4.5, `${colour} on ${shade}: ${contrast(drawn, shade)}`);
      }
    }
  });

  test(`${kind}: the steps are ordered by lightness and differ, for colour-blind readers, too`, () => {
    const direction = Math.sign(luminance(text) - luminance(background));
    const all = [background, ...shades(kind)];
    for (let step = 1; step < all.length; step++) {
      assert.ok((luminance(all[step]) - luminance(all[step - 1])) * direction > 0, `step ${step}`);
      for (const [reader, matrix] of Object.entries(SEEN)) {
        const difference = distance(all[step], all[step - 1], matrix);
        assert.ok(difference >= 2, `step ${step}, ${reader}: ${difference}`);
      }
    }
  });

  test(`${kind}: scores and unseen lines are readable, and marks are seen`, () => {
    const strongest = shades(kind).at(-1);
    assert.ok(contrast(colours['linelens.score'][kind], strongest) >= 4.5);
    assert.ok(contrast(colours['linelens.score'][kind], background) >= 4.5);
    assert.ok(contrast(colours['linelens.unseen'][kind], background) >= 4.5);
    assert.ok(contrast(colours['linelens.unseen'][kind], background) < contrast(text, background));
    assert.ok(contrast(colours['linelens.groundTruth'][kind], background) >= 3);
  });
}

test('no shades of light themes are told apart and leave all text as it is', () => {
  // Escapes (#ee0000) have 4.53:1 on white, so a shade may take next to no light away.
  const least = 4.5 * (luminance('#ee0000') + 0.05) - 0.05;
  let farthest = 0;
  for (let code = 0; code < 64 ** 3; code++) {
    const bytes = [code >> 12, (code >> 6) & 63, code & 63].map((part) => (192 + part).toString(16));
    const colour = `#${bytes.join('')}`;
    farthest = luminance(colour) >= least ? Math.max(farthest, distance('#ffffff', colour)) : farthest;
  }
  assert.ok(farthest < 6 && farthest > 5, `${farthest}`);
});
