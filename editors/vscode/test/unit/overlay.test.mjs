// What is known of a document while it is edited.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { load } from './load.mjs';

const { first, last, Overlay, topLines, trueLines } = await load('overlay');

const finding = (startLine, endLine, more = {}) => ({
  function: { name: `f${startLine}`, kind: 'function', startLine, endLine },
  lines: [],
  unseenLines: [],
  ...more,
});

function overlay() {
  const made = new Overlay();
  made.replace([finding(20, 25), finding(10, 15)], 7, 7);
  return made;
}

const edit = (startLine, startCharacter, endLine, endCharacter, text) => ({
  start: { line: startLine, character: startCharacter },
  end: { line: endLine, character: endCharacter },
  text,
});

const places = (made) => made.entries.map((entry) => [first(entry), last(entry)]);

test('only the version that is shown counts', () => {
  const made = overlay();
  assert.equal(made.replace([], 6, 7), false);
  assert.equal(made.replace([], 8, 7), false);
  assert.deepEqual(places(made), [
    [10, 15],
    [20, 25],
  ]);
  assert.equal(made.replace([], 7, 7), true);
  assert.deepEqual(places(made), []);
});

test('where an edited function stands is known until the server speaks of it again', () => {
  const made = overlay();
  const stale = () => Array.from({ length: 40 }, (_, line) => line).filter((line) => made.isStale(line));
  assert.deepEqual([made.hasStale, stale()], [false, []]);
  made.edit([edit(12, 3, 12, 3, '\n')]);
  assert.deepEqual([made.hasStale, stale()], [true, [10, 11, 12, 13, 14, 15, 16]]);
  made.edit([edit(13, 0, 15, 0, '')]);
  assert.deepEqual(stale(), [10, 11, 12, 13, 14]);
  made.edit([edit(5, 0, 5, 0, '\n')]);
  assert.deepEqual(stale(), [11, 12, 13, 14, 15]);
  made.edit([edit(30, 0, 30, 0, '\n')]);
  assert.deepEqual(stale(), [11, 12, 13, 14, 15]);
  assert.equal(made.replace([finding(11, 15)], 8, 9), false);
  assert.equal(made.hasStale, true);
  assert.equal(made.replace([finding(11, 15)], 9, 9), true);
  assert.deepEqual([made.hasStale, stale()], [false, []]);
});

test('an edit inside a function takes it away, others move along', () => {
  for (const [change, expected] of [
    [edit(12, 3, 12, 3, 'x'), [[20, 25]]],
    [edit(12, 3, 12, 3, '\n\n'), [[22, 27]]],
    [edit(12, 0, 14, 0, ''), [[18, 23]]],
    [
      edit(5, 0, 5, 4, 'abcd'),
      [
        [10, 15],
        [20, 25],
      ],
    ],
    [
      edit(5, 4, 5, 4, '\n'),
      [
        [11, 16],
        [21, 26],
      ],
    ],
    [
      edit(5, 0, 8, 0, ''),
      [
        [7, 12],
        [17, 22],
      ],
    ],
    [
      edit(17, 0, 17, 0, '\r\n\r\n'),
      [
        [10, 15],
        [22, 27],
      ],
    ],
    [
      edit(30, 0, 30, 0, 'x\n'),
      [
        [10, 15],
        [20, 25],
      ],
    ],
    [edit(14, 0, 22, 0, ''), []],
    // The first and the last line belong to the function.
    [edit(10, 0, 10, 0, ' '), [[20, 25]]],
    [edit(15, 1, 15, 1, ' '), [[20, 25]]],
    // Whole lines right above or below do not.
    [
      edit(10, 0, 10, 0, '// x\n'),
      [
        [11, 16],
        [21, 26],
      ],
    ],
    [
      edit(16, 0, 16, 0, '// x\n'),
      [
        [10, 15],
        [21, 26],
      ],
    ],
    [
      edit(8, 0, 10, 0, ''),
      [
        [8, 13],
        [18, 23],
      ],
    ],
    [
      edit(9, 2, 9, 2, '\n    '),
      [
        [11, 16],
        [21, 26],
      ],
    ],
    // What joins the line above to the first line is an edit of it.
    [edit(9, 2, 10, 0, ''), [[19, 24]]],
  ]) {
    const made = overlay();
    const isGone = made.edit([change]);
    assert.deepEqual(places(made), expected, JSON.stringify(change));
    assert.equal(isGone, expected.length < 2);
  }
});

test('several edits at once', () => {
  const made = overlay();
  made.edit([edit(30, 0, 30, 0, '\n'), edit(17, 0, 17, 0, '\n'), edit(2, 0, 2, 0, '\n')]);
  assert.deepEqual(places(made), [
    [11, 16],
    [22, 27],
  ]);
});

test('lookups', () => {
  const made = overlay();
  assert.equal(made.at(12).finding.function.name, 'f10');
  assert.equal(made.at(17), undefined);
  assert.deepEqual(
    made.between(15, 19).map((entry) => first(entry)),
    [10],
  );
  assert.deepEqual(made.between(16, 19), []);
});

test('true and top lines', () => {
  const line = (number, rank, groundTruth) => ({ line: number, rank, score: 1 / rank, raw: 1, groundTruth, text: '' });
  const made = finding(1, 9, {
    lines: [line(2, 3), line(3, 1, true), line(4, 2)],
    alignment: { lines: [3, 7] },
  });
  assert.deepEqual(trueLines(made), [3, 7]);
  assert.deepEqual(
    topLines(made, 2).map((one) => one.line),
    [3, 4],
  );
  made.lines.push({ ...line(5, 4), score: 0 });
  assert.deepEqual(
    topLines(made, 5).map((one) => one.line),
    [3, 4, 2],
    'the least relevant line is none',
  );
});

test('ground truth of functions that are not shaded follows the text', () => {
  const made = new Overlay();
  const after = (...edits) => {
    made.replace([finding(20, 25)], 7, 7, [3, 30]);
    made.edit(edits);
    return made.otherTruth;
  };
  assert.deepEqual(after(edit(1, 0, 1, 0, 'x\n')), [4, 31]);
  assert.deepEqual(after(edit(3, 0, 3, 0, '\n')), [4, 31], 'a line in front of it');
  assert.deepEqual(after(edit(3, 5, 3, 5, '\n')), [3, 31], 'a line break in it');
  assert.deepEqual(after(edit(3, 2, 3, 4, 'y')), [3, 30], 'a word in it');
  assert.deepEqual(after(edit(3, 0, 4, 0, '')), [29], 'it is deleted');
  assert.deepEqual(after(edit(28, 0, 32, 0, '')), [3]);
  assert.deepEqual(after(edit(30, 9, 33, 0, '')), [3, 30], 'lines behind it');
  made.clear();
  assert.deepEqual(made.otherTruth, []);
});
