// The compare panel as tables and as a page.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { load } from './load.mjs';

const { ofMethods, ofModels, ofPair } = await load('compare/table');
const { attribute, escape, page } = await load('compare/html');
const { alignment: shown, count } = await load('scale');

const place = { name: 'copy', kind: 'function', startLine: 1, endLine: 3 };
const line = (number, score, raw, rank, more = {}) => ({ line: number, score, raw, rank, text: 'x;', ...more });
const base = {
  function: place,
  model: { name: 'm', sha256: '' },
  executionProvider: 'cpu',
  profile: 'editor',
  probability: 0.93,
  threshold: 0.5,
  flagged: true,
  unseenLines: [],
};
const alignment = {
  da: 0.4,
  nullAllLines: 0.3,
  nullPermutation: 0.2,
  ifa: 1,
  topK: { 1: false, 3: true, 5: true },
  lines: [2],
  unmatched: 0,
  outsideWindow: 0,
  policy: 'majority',
  perAnnotator: {},
};
const SOURCE = ['', 'int copy() {', '  strcpy(a, b); // <script>', '}'];

const comparison = {
  ...base,
  textDocument: { uri: 'file:///a.c', version: 1 },
  methods: [
    {
      method: 'ig',
      completenessGap: 0.0008,
      spearman: { ig: 1, occlusion: null },
      lines: [line(1, 0, -1, 2), line(2, 1, 3, 1)],
    },
    { method: 'occlusion', spearman: { ig: null, occlusion: 1 }, lines: [line(2, 1, 1, 1)] },
  ],
  failed: [{ method: 'attnlrp', reason: 'no rule for Einsum' }],
};

test('methods side by side over the source', () => {
  const findings = [{ ...base, method: 'ig', alignment, lines: [], textDocument: comparison.textDocument }];
  const table = ofMethods(comparison, findings, SOURCE, 'occlusion');
  assert.deepEqual(
    table.columns.map(({ name, facts, isCurrent }) => [name, facts, isCurrent]),
    [
      ['ig', ['DA 0.40', 'null 0.20', 'gap 0.00080'], false],
      ['occlusion', [], true],
    ],
  );
  assert.deepEqual(
    table.rows.map(({ line: number, text, isTrue, cells }) => [number, text, isTrue, cells.map((cell) => cell?.score)]),
    [
      [1, SOURCE[1], false, [0, undefined]],
      [2, SOURCE[2], true, [1, 1]],
      [3, SOURCE[3], false, [undefined, undefined]],
    ],
  );
  assert.deepEqual(table.notes, ['attnlrp gave nothing: no rule for Einsum']);
  const [da, correlation] = table.facts;
  assert.deepEqual(da.rows, [['ig', '0.40', '0.20', '0.30', '1', 'no', 'yes', 'yes']]);
  assert.deepEqual(correlation.rows, [
    ['ig', '1.00', '–'],
    ['occlusion', '–', '1.00'],
  ]);
});

test('where the function is not flagged it says why DA is 0, and what it would be', () => {
  const unflagged = { ...alignment, da: 0, wouldBe: 0.21 };
  const finding = { ...base, flagged: false, method: 'ig', alignment: unflagged, lines: [] };
  const table = ofMethods(comparison, [{ ...finding, textDocument: comparison.textDocument }], SOURCE, 'ig');
  assert.deepEqual(table.columns[0].facts, ['DA 0.00 (would be 0.21)', 'null 0.20', 'gap 0.00080']);
  assert.equal(table.facts[0].rows[0][1], '0.00 (would be 0.21)');
  assert.match(table.facts[0].note, /since the function is not flagged/);
  assert.equal(shown(unflagged), 'DA 0.00 (would be 0.21)');
  assert.equal(shown(alignment), 'DA 0.40 (null 0.20)');
});

test('every minus is one character, and numbers agree with their nouns', () => {
  const spearman = { ig: 1, occlusion: -0.4 };
  const opposed = { ...comparison, methods: [{ ...comparison.methods[0], spearman }, comparison.methods[1]] };
  const table = ofMethods(opposed, [], SOURCE, 'ig');
  assert.equal(table.facts[1].rows[0][2], '−0.40');
  const html = page(table, 'abc');
  assert.match(html, /raw relevance −1\.00/);
  assert.match(html, /− behind a score: the line spoke against the verdict/);
  assert.equal(count(1, 'file'), '1 file');
  assert.equal(count(3, 'file'), '3 files');
});

test('the source stands beside the number of its line', () => {
  const html = page(ofMethods(comparison, [], SOURCE, 'ig'), 'abc');
  assert.match(html, /class="number">.*?<\/th><td class="source"/);
  assert.match(html, /\.source \{ position: sticky/);
});

test('without ground truth it says how to get some', () => {
  const table = ofMethods(comparison, [], SOURCE, 'ig');
  assert.match(table.facts[0].note, /Toggle Ground-Truth Line/);
});

test('models', () => {
  const models = [
    { ...base, method: 'ig', lines: [line(2, 1, 1, 1)] },
    { ...base, method: 'occlusion', model: { name: 'other', sha256: '' }, flagged: false, probability: 0.2, lines: [] },
  ];
  const table = ofModels({ textDocument: { uri: 'file:///a.c', version: 1 }, models, spearman: 0.4 }, SOURCE);
  assert.deepEqual(
    table.columns.map(({ name, facts }) => [name, ...facts]),
    [
      ['m', 'ig', 'p 0.93', 'flagged'],
      ['other', 'occlusion', 'p 0.20', 'not flagged'],
    ],
  );
  assert.match(table.subtitle, /0\.40/);
});

test('versions', () => {
  const side = (source, lines) => ({ ...base, source, method: 'ig', lines, alignment });
  const made = (source, revision) =>
    ofPair({ before: side(source, []), after: side('document', []), revision, outcome: null, lines: [] }, 'file:///a.c')
      .columns[0].name;
  const head = { name: 'HEAD', commit: '1a2b3c4d5e6f', byDefault: false };
  assert.equal(made('1a2b3c4d5e6f', head), 'HEAD (1a2b3c4)');
  assert.equal(made('fixed/a.c', null), 'fixed/a.c');
  // A file may be called like a commit.
  assert.equal(made('deadbeef', null), 'deadbeef');
  const table = ofPair(
    {
      before: side('1a2b', [line(1, 0.5, 1, 1), line(2, 0.2, 1, 2, { text: 'old' })]),
      after: side('document', [line(1, 0.25, 1, 1), line(2, 1, 1, 1, { text: 'new' })]),
      revision: null,
      outcome: 'P-C',
      lines: [
        { before: 1, after: 1, moved: -0.25 },
        { before: 2, after: null, moved: null },
        { before: null, after: 2, moved: null },
      ],
    },
    'file:///a.c',
  );
  assert.deepEqual(
    table.rows.map(({ line: number, number: shown, text, moved }) => [number, shown, text, moved]),
    [
      [1, '  2/2', 'x;', '−0.25'],
      [undefined, '− 3/', 'old', ''],
      [2, '+ /3', 'new', ''],
    ],
  );
  assert.match(table.subtitle, /outcome P-C/);
});

test('text cannot become markup', () => {
  assert.equal(escape('<b a="1">&\''), '&lt;b a=&quot;1&quot;&gt;&amp;&#39;');
  assert.equal(escape('a\u202eb'), 'a<span class="code">U+202E</span>b');
  assert.equal(escape('\t😀é'), '\t😀é');
  assert.equal(attribute('a"\u202e'), 'a&quot;\ufffd');
  const table = ofMethods(comparison, [], ['', '</td><script>alert(1)</script>', '', ''], 'ig');
  const html = page({ ...table, title: '<img src=x>' }, 'abc');
  assert.equal(html.match(/<script/g).length, 1);
  assert.doesNotMatch(html, /<img/);
});

test('the page loads nothing and runs only its own script', () => {
  const html = page(ofMethods(comparison, [], SOURCE, 'ig'), 'abc');
  assert.match(html, /content="default-src 'none'; style-src 'nonce-abc'; script-src 'nonce-abc'"/);
  assert.doesNotMatch(html, /https?:|url\(|style="|onclick=/);
  assert.match(html, /<html lang="en">/);
  assert.match(html, /aria-label="go to line 3"/);
  assert.match(html, /data-method="occlusion" aria-pressed="false"/);
  assert.match(html, /data-method="ig" aria-pressed="true"/);
});
