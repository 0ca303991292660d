// How numbers are said, the order of verdicts, and what is remembered.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { load } from './load.mjs';

const scale = await load('scale');
const { sorted } = await load('verdicts');
const { History } = await load('history');

test('steps, bars and labels are those of the command line', () => {
  assert.deepEqual([0, 1e-9, 0.125, 0.126, 0.5, 0.83, 1, NaN].map(scale.step), [0, 1, 1, 2, 4, 7, 8, 0]);
  assert.deepEqual([0, 0.1, 0.83, 1].map(scale.bar), [' ', '▁', '▇', '█']);
  assert.equal(scale.label({ score: 0.83, raw: 2 }), '▇ 0.83');
  assert.equal(scale.label({ score: 0.1, raw: -2, groundTruth: true }), '▁ 0.10− ●');
});

test('a probability shows on which side of the threshold it is', () => {
  assert.equal(scale.probability(0.31, 0.5), '0.31');
  assert.equal(scale.probability(0.50001, 0.5), '0.50001');
  assert.equal(scale.probability(0.3062, 0.3063), '0.306');
  assert.equal(scale.probability(0.30628, 0.3063), '0.306');
});

test('alignment', () => {
  assert.equal(scale.alignment(undefined), '');
  assert.equal(scale.alignment({ da: null }), 'DA undefined');
  assert.equal(scale.alignment({ da: 0.124, nullPermutation: 0.09 }), 'DA 0.12 (null 0.09)');
});

test('flagged functions come first, then the more probable ones', () => {
  const node = (name, probability, flagged, ignored) => ({ verdict: { name, probability, flagged, ignored } });
  const nodes = [node('a', 0.2, false), node('b', 0.6, true, 'why'), node('c', 0.5, true), node('d', 0.7, true)];
  assert.deepEqual(
    sorted(nodes).map(({ verdict }) => verdict.name),
    ['d', 'c', 'b', 'a'],
  );
});

test('a method is computed when its result is new', () => {
  const history = new History();
  const finding = (raw, startLine = 1) => ({
    function: { name: 'f', startLine },
    method: 'ig',
    probability: 0.6,
    threshold: 0.5,
    lines: [{ line: startLine + 1, raw }],
  });
  history.note('file:///a.c', finding(2), new Date(1000));
  history.note('file:///a.c', finding(2), new Date(2000));
  // An edit above moves the same result along.
  history.note('file:///a.c', finding(2, 7), new Date(2500));
  assert.equal(history.of('file:///a.c', 'f', 'ig').time.getTime(), 1000);
  history.note('file:///a.c', finding(3), new Date(3000));
  assert.equal(history.of('file:///a.c', 'f', 'ig').time.getTime(), 3000);
  assert.equal(history.of('file:///b.c', 'f', 'ig'), undefined);
  history.clear();
  assert.equal(history.of('file:///a.c', 'f', 'ig'), undefined);
});
