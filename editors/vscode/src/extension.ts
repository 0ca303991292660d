// linelens in VS Code: puts the parts together.

import * as vscode from 'vscode';
import { Server } from './client';
import { Commands } from './commands';
import { ComparePanel } from './compare/panel';
import { Cursor } from './cursor';
import { History } from './history';
import { RESTART_KEYS } from './keys';
import { LineView } from './lineView';
import { Methods } from './methods';
import { Shading } from './shading';
import { StatusBar } from './statusBar';
import { longest, resetLongest } from './timing';
import { noticeFiles } from './walkthrough';

let server: Server | undefined;

export async function activate(context: vscode.ExtensionContext) {
  const log = vscode.window.createOutputChannel('linelens', { log: true });
  const started = new Server(context, log);
  server = started;
  const shading = new Shading(started, context.extensionUri);
  const cursor = new Cursor(started);
  const history = new History();
  const methods = new Methods(started, cursor, history);
  const panel = new ComparePanel();
  const statusBar = new StatusBar(started, cursor, () => shading.isShown);
  const view = new LineView(started, shading, cursor);
  const switched = () => {
    statusBar.update();
  };
  const commands = new Commands({ server: started, shading, cursor, methods, history, panel, switched });
  context.subscriptions.push(
    log,
    started,
    shading,
    cursor,
    panel,
    statusBar,
    view,
    noticeFiles(),
    commands,
    started.onRelevance(({ textDocument, functions }) => {
      functions.forEach((finding) => {
        history.note(textDocument.uri, finding);
      });
    }),
    vscode.workspace.onDidChangeConfiguration((event) => {
      const restarting = RESTART_KEYS.find((key) => event.affectsConfiguration(`linelens.${key}`));
      if (restarting !== undefined) {
        void started.restart(`linelens.${restarting} changed`);
      } else if (event.affectsConfiguration('linelens')) {
        started.settingsChanged();
      }
    }),
    vscode.workspace.onDidGrantWorkspaceTrust(() => {
      started.settingsChanged();
    }),
  );
  await started.start();
  // For tests.
  return { longest, resetLongest };
}

export async function deactivate(): Promise<void> {
  await server?.stop();
}
