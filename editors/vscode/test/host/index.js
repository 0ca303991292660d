// Runs inside the extension host: the extension by VS Code's own interface, then a large file.
const vscode = require('vscode');
const path = require('node:path');

const FUNCTIONS = 300;
const READY_MS = 120_000;

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function until(look, ms = 20_000) {
  const end = Date.now() + ms;
  for (;;) {
    const found = await look();
    if (found || Date.now() > end) {
      return found;
    }
    await sleep(50);
  }
}

const report = (kind, value) => console.log(`linelens-test ${JSON.stringify([kind, value])}`);
const ok = (what, holds, found) => report('check', [what, Boolean(holds), found]);

async function interfaces(extension, folder) {
  const document = await vscode.workspace.openTextDocument(path.join(folder, 'records.c'));
  await vscode.window.showTextDocument(document);
  ok('a C file activates the extension', await until(() => extension.isActive));
  const known = new Set(await vscode.commands.getCommands(true));
  const missing = extension.packageJSON.contributes.commands.filter(({ command }) => !known.has(command));
  ok('every contributed command exists', missing.length === 0, missing);
  const diagnostics = await until(() => {
    const found = vscode.languages.getDiagnostics(document.uri);
    return found.length >= 4 && found;
  });
  ok('flagged functions have diagnostics', diagnostics?.[0].source === 'linelens', diagnostics?.length);
  const hovers = await vscode.commands.executeCommand(
    'vscode.executeHoverProvider',
    document.uri,
    new vscode.Position(41, 6),
  );
  ok(
    'a hover on a name tells the verdict',
    hovers.some((hover) => hover.contents.some((part) => /read_record/.test(part.value))),
  );
  const lenses = await vscode.commands.executeCommand('vscode.executeCodeLensProvider', document.uri, 20);
  ok(
    'lenses run commands that exist',
    lenses.length > 0 && lenses.every(({ command }) => known.has(command.command)),
    lenses.length,
  );
  const actions = await vscode.commands.executeCommand(
    'vscode.executeCodeActionProvider',
    document.uri,
    new vscode.Range(53, 4, 53, 4),
  );
  const ours = actions.filter(({ title }) => title.startsWith('linelens: '));
  ok('so do code actions', ours.length > 5 && ours.every(({ command }) => known.has(command.command)), ours.length);
  await vscode.commands.executeCommand('workbench.action.closeAllEditors');
}

/** How long the extension host was away, at most, since it was last asked. */
function clock() {
  let [last, away] = [performance.now(), 0];
  const timer = setInterval(() => {
    const now = performance.now();
    away = Math.max(away, now - last);
    last = now;
  }, 2);
  return {
    ask: () => {
      const answer = away;
      away = 0;
      return answer;
    },
    stop: () => clearInterval(timer),
  };
}

async function large(exported, folder) {
  const ticking = clock();
  const phase = async (name, run) => {
    report('phase', name);
    ticking.ask();
    exported?.resetLongest();
    await run();
    await sleep(300);
    const { ms, what } = exported?.longest ?? { ms: 0, what: '' };
    report('times', { name, away: ticking.ask(), longest: ms, what });
  };
  let document;
  let editor;
  if (exported) {
    await vscode.commands.executeCommand('workbench.view.extension.linelens');
  }
  await phase('opening', async () => {
    document = await vscode.workspace.openTextDocument(path.join(folder, 'large.c'));
    editor = await vscode.window.showTextDocument(document);
    if (exported) {
      const all = await until(() => vscode.languages.getDiagnostics(document.uri).length >= FUNCTIONS, READY_MS);
      ok(`all ${FUNCTIONS} functions are analysed`, all, vscode.languages.getDiagnostics(document.uri).length);
    }
    await sleep(1500);
  });
  await phase('scrolling', async () => {
    for (let page = 0; page < 60; page++) {
      const line = (page * 167) % document.lineCount;
      editor.revealRange(new vscode.Range(line, 0, line, 0), vscode.TextEditorRevealType.AtTop);
      await sleep(40);
    }
  });
  await phase('typing', async () => {
    editor.selection = new vscode.Selection(5000, 0, 5000, 0);
    editor.revealRange(editor.selection);
    for (let stroke = 0; stroke < 60; stroke++) {
      await vscode.commands.executeCommand('type', { text: 'x' });
      await sleep(30);
    }
    await sleep(1500);
  });
  await phase('10,000 lines above', async () => {
    const edit = new vscode.WorkspaceEdit();
    edit.insert(document.uri, new vscode.Position(0, 0), '/* above */\n'.repeat(10_000));
    await vscode.workspace.applyEdit(edit);
    await sleep(300);
    await vscode.commands.executeCommand('undo');
    await sleep(1500);
  });
  if (exported) {
    await phase('toggling twice', async () => {
      await vscode.commands.executeCommand('linelens.toggleShading');
      await vscode.commands.executeCommand('linelens.toggleShading');
    });
  }
  await phase('closing', () => vscode.commands.executeCommand('workbench.action.revertAndCloseActiveEditor'));
  ticking.stop();
}

exports.run = async () => {
  const folder = vscode.workspace.workspaceFolders[0].uri.fsPath;
  const extension = vscode.extensions.getExtension('linelens.linelens');
  if (extension !== undefined) {
    await interfaces(extension, folder);
  }
  await large(extension?.exports, folder);
  report('phase', 'end');
};
