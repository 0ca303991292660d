// The walkthrough, and its first step, which is done when a C or C++ file was opened.
//
// VS Code has no event for that, and of a context it counts the moment in which it becomes true, if the walkthrough is
// known by then; one that is true before is never counted.

import * as vscode from 'vscode';
import { isOurs } from './documents';

const CONTEXT = 'linelens.fileIsOpened';
// VS Code may read the walkthrough only when it is opened.
const AFTER_OPENING_MS = [500, 2000, 5000];

let wasOpened = false;

async function tick(): Promise<void> {
  await vscode.commands.executeCommand('setContext', CONTEXT, true);
  await vscode.commands.executeCommand('setContext', CONTEXT, false);
}

function look(): void {
  if (vscode.window.visibleTextEditors.some(({ document }) => isOurs(document))) {
    wasOpened = true;
    void tick();
  }
}

/** Notices files that are opened. */
export function noticeFiles(): vscode.Disposable {
  look();
  return vscode.window.onDidChangeVisibleTextEditors(look);
}

export async function openWalkthrough(): Promise<void> {
  await vscode.commands.executeCommand('workbench.action.openWalkthrough', 'linelens.linelens#start', false);
  for (const ms of wasOpened ? AFTER_OPENING_MS : []) {
    setTimeout(() => void tick(), ms);
  }
}
