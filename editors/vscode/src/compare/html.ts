// A comparison as a page: strict content security policy, the theme's colours, usable by keyboard and screen reader.

import { bar, signed, step, STEPS } from '../scale';
import type { Cell, Column, FactTable, Row, Table } from './table';

// What turns the order of characters, or is not seen, must not hide code.
const INVISIBLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]/g;

/** Text for an attribute in double quotes. */
export function attribute(text: string): string {
  const names: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };
  return text.replace(/[&<>"']/g, (character) => names[character] ?? '').replace(INVISIBLE, '\ufffd');
}

/** Text between tags. */
export function escape(text: string): string {
  const shown = (character: string) => `U+${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}`;
  return Array.from(text)
    .map((character) =>
      character.match(INVISIBLE) === null ? attribute(character) : `<span class="code">${shown(character)}</span>`,
    )
    .join('');
}

const shades = Array.from(
  { length: STEPS },
  (_, index) => `.heat${index + 1} { background: var(--vscode-linelens-heat${index + 1}); }`,
).join('\n');

const STYLE = `
body { color: var(--vscode-editor-foreground); background: var(--vscode-editor-background); font-family: var(--vscode-font-family); font-size: var(--vscode-font-size); padding: 0 16px 24px; }
h1 { font-size: 1.3em; margin: 16px 0 2px; }
h2 { font-size: 1.1em; margin: 24px 0 4px; }
p { margin: 2px 0 8px; color: var(--vscode-descriptionForeground); }
.hint { font-size: 0.92em; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; }
caption { text-align: left; position: absolute; clip-path: inset(50%); height: 1px; overflow: hidden; white-space: nowrap; }
th, td { padding: 1px 10px; text-align: left; vertical-align: top; font-weight: normal; white-space: nowrap; }
thead th { position: sticky; top: 0; background: var(--vscode-editor-background); border-bottom: 1px solid var(--vscode-widget-border, var(--vscode-contrastBorder, currentColor)); padding-bottom: 4px; vertical-align: top; }
.lines thead th.column { text-align: right; }
thead button.name { width: 100%; text-align: inherit; padding: 0; }
thead .name { font-weight: 600; display: block; }
thead .fact { display: block; font-size: 0.92em; color: var(--vscode-descriptionForeground); }
tbody td, tbody th { font-family: var(--vscode-editor-font-family); font-size: var(--vscode-editor-font-size); line-height: 1.5; }
.lines td + td { border-left: 1px solid transparent; }
/* Scores are read with the code: the source stays where they are scrolled along beneath it. */
.lines .truth, .lines .number, .lines .source { position: sticky; background: var(--vscode-editor-background); z-index: 1; }
.lines .truth { left: 0; box-sizing: border-box; min-width: 20px; max-width: 20px; }
.lines .number { left: 20px; box-sizing: border-box; min-width: calc(var(--digits) + 18px); text-align: right; padding-right: 4px; font-family: var(--vscode-editor-font-family); font-size: var(--vscode-editor-font-size); }
.lines .source { left: calc(38px + var(--digits)); max-width: 45vw; overflow: hidden; text-overflow: ellipsis; white-space: pre; tab-size: 4; padding-left: 12px; border-right: 1px solid var(--vscode-widget-border, transparent); }
.value { text-align: right; font-variant-numeric: tabular-nums; }
.sign { display: inline-block; width: 1ch; }
.facts td, .facts th { border-bottom: 1px solid var(--vscode-widget-border, transparent); }
.facts thead th + th, .facts td { text-align: right; font-variant-numeric: tabular-nums; }
.truth { color: var(--vscode-linelens-groundTruth); text-align: center; padding: 1px 4px; }
.unseen .source { color: var(--vscode-linelens-unseen); }
.code { border: 1px solid; font-size: 0.8em; }
.hidden { position: absolute; clip-path: inset(50%); width: 1px; height: 1px; overflow: hidden; white-space: nowrap; }
button { font: inherit; color: var(--vscode-textLink-foreground); background: none; border: none; padding: 0 2px; cursor: pointer; }
button:hover { text-decoration: underline; }
button:focus-visible { outline: 1px solid var(--vscode-focusBorder); outline-offset: 1px; }
button[aria-pressed="true"] { color: inherit; cursor: default; text-decoration: none; }
tr:focus-within { outline: 1px solid var(--vscode-focusBorder); outline-offset: -1px; }
.vscode-high-contrast .lines td.value { border-left: 1px solid var(--vscode-contrastBorder); }
${shades}
`;

// Up, Down, Home and End go from line to line; the table is one stop of the Tab key.
const SCRIPT = `
const api = acquireVsCodeApi();
const lines = [...document.querySelectorAll('button.line')];
const saved = api.getState() ?? {};
const wide = document.querySelector('table.lines').parentElement;
function keep(more) {
  api.setState({ ...api.getState(), ...more });
}
// After the choice of a method the page is another one, but the reader is where they were.
wide.scrollLeft = saved.left ?? 0;
wide.addEventListener('scroll', () => { keep({ left: wide.scrollLeft }); });
if (saved.method !== undefined) {
  document.querySelector('button.name[aria-pressed="true"]')?.focus({ preventScroll: true });
  keep({ method: undefined });
}
function stop(index) {
  lines.forEach((line, at) => { line.tabIndex = at === index ? 0 : -1; });
}
stop(Math.max(0, lines.findIndex((line) => line.dataset.line === saved.line)));
document.addEventListener('click', (event) => {
  const button = event.target.closest('button');
  if (!button) return;
  if (button.dataset.line !== undefined) {
    stop(lines.indexOf(button));
    keep({ line: button.dataset.line });
    api.postMessage({ line: Number(button.dataset.line) });
  } else if (button.dataset.method !== undefined && button.getAttribute('aria-pressed') !== 'true') {
    keep({ method: button.dataset.method });
    api.postMessage({ method: button.dataset.method });
  }
});
document.addEventListener('keydown', (event) => {
  const at = lines.indexOf(document.activeElement);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: lines.length - 1 }[event.key];
  if (at >= 0 && to !== undefined && lines[to]) {
    event.preventDefault();
    stop(to);
    lines[to].focus();
  }
});
`;

function head({ name, facts, method, isCurrent }: Column): string {
  const title =
    method === undefined
      ? `<span class="name">${escape(name)}</span>`
      : `<button class="name" data-method="${attribute(method)}" aria-pressed="${String(isCurrent === true)}" title="${isCurrent === true ? 'in use' : 'use this method'}">${escape(name)}${isCurrent === true ? ' ✓' : ''}</button>`;
  return `<th scope="col" class="column">${title}${facts.map((fact) => `<span class="fact">${escape(fact)}</span>`).join('')}</th>`;
}

function value(cell: Cell | undefined): string {
  if (cell === undefined) {
    return '<td class="value"><span class="hidden">no score</span></td>';
  }
  const against =
    cell.raw < 0
      ? '<span class="sign" aria-hidden="true">−</span><span class="hidden"> against the verdict</span>'
      : '<span class="sign"></span>';
  const title = `rank ${cell.rank}, raw relevance ${signed(cell.raw.toPrecision(3))}`;
  return `<td class="value heat${step(cell.score)}" title="${title}"><span aria-hidden="true">${bar(cell.score)}</span> ${cell.score.toFixed(2)}${against}</td>`;
}

function line(row: Row, hasMoves: boolean): string {
  const number =
    row.line === undefined
      ? escape(row.number)
      : `<button class="line" data-line="${row.line}" tabindex="-1" aria-label="go to line ${row.line + 1}">${escape(row.number)}</button>`;
  const truth = row.isTrue ? '<span aria-hidden="true">●</span><span class="hidden">ground truth</span>' : '';
  const unseen = row.isUnseen ? '<span class="hidden"> (not seen by the model)</span>' : '';
  const moved = hasMoves ? `<td class="value">${escape(row.moved ?? '')}</td>` : '';
  const source = `<td class="source" title="${attribute(row.text.trim())}">${escape(row.text)}${unseen}</td>`;
  return `<tr class="${row.isUnseen ? 'unseen' : ''}"><td class="truth">${truth}</td><th scope="row" class="number">${number}</th>${source}${row.cells.map(value).join('')}${moved}</tr>`;
}

function facts({ title, note, head: names, rows }: FactTable): string {
  const table =
    rows.length === 0
      ? ''
      : `<div class="wide"><table class="facts"><caption>${escape(title)}</caption><thead><tr>${names.map((name) => `<th scope="col">${escape(name)}</th>`).join('')}</tr></thead><tbody>${rows
          .map(
            ([first, ...rest]) =>
              `<tr><th scope="row">${escape(first ?? '')}</th>${rest.map((text) => `<td>${escape(text)}</td>`).join('')}</tr>`,
          )
          .join('')}</tbody></table></div>`;
  return `<h2>${escape(title)}</h2>${note === undefined ? '' : `<p>${escape(note)}</p>`}${table}`;
}

/** The whole page. `nonce` is what alone may run and style; the facts come first, or else the lines. */
export function page(table: Table, nonce: string, factsFirst = false): string {
  const hasMoves = table.rows.some(({ moved }) => moved !== undefined);
  const moved = hasMoves ? '<th scope="col"><span class="name">moved</span></th>' : '';
  const notes = table.notes.map((note) => `<p>${escape(note)}</p>`).join('');
  const aside = notes + table.facts.map(facts).join('') + (factsFirst ? '<h2>Lines</h2>' : '');
  const digits = Math.max(4, ...table.rows.map(({ number }) => number.length));
  return `<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'nonce-${nonce}'; script-src 'nonce-${nonce}'">
<title>${escape(table.title)}</title>
<style nonce="${nonce}">:root { --digits: ${digits}ch; }${STYLE}</style>
</head>
<body>
<main>
<h1>${escape(table.title)}</h1>
<p>${escape(table.subtitle)}</p>
<p class="hint">● ground truth · − behind a score: the line spoke against the verdict · the number of a line leads to it · ↑ and ↓ go from line to line</p>
${factsFirst ? aside : ''}
<div class="wide"><table class="lines">
<caption>${escape(table.title)}: the lines of the function, with their scores</caption>
<thead><tr><th scope="col" class="truth"><span class="hidden">ground truth</span></th><th scope="col" class="number"><span class="name">line</span></th><th scope="col" class="source"><span class="name">source</span></th>${table.columns.map(head).join('')}${moved}</tr></thead>
<tbody>
${table.rows.map((row) => line(row, hasMoves)).join('\n')}
</tbody>
</table></div>
${factsFirst ? '' : aside}
</main>
<script nonce="${nonce}">${SCRIPT}</script>
</body>
</html>`;
}
