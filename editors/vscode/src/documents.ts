// Which documents are the server's, and places in them.

import * as vscode from 'vscode';
import type { Place } from './protocol';

export const LANGUAGES = ['c', 'cpp'];

export const SELECTOR = LANGUAGES.map((language) => ({ scheme: 'file', language }));

export function isOurs(document: vscode.TextDocument): boolean {
  return document.uri.scheme === 'file' && LANGUAGES.includes(document.languageId);
}

let last: vscode.TextEditor | undefined;

/** The editor that has the focus, or had it before a panel, if it shows one of our documents. */
export function activeEditor(): vscode.TextEditor | undefined {
  const editor = vscode.window.activeTextEditor;
  if (editor !== undefined && isOurs(editor.document)) {
    last = editor;
    return editor;
  }
  // To VS Code the panel with its output is an editor, and a page is none.
  const isPanel = editor === undefined || editor.document.uri.scheme === 'output';
  return isPanel && last !== undefined && vscode.window.visibleTextEditors.includes(last) ? last : undefined;
}

export function placeOf(document: vscode.TextDocument, position: vscode.Position): Place {
  return {
    textDocument: { uri: document.uri.toString() },
    position: { line: position.line, character: position.character },
  };
}

/** The open document of a server's address. */
export function openDocument(uri: string): vscode.TextDocument | undefined {
  const wanted = vscode.Uri.parse(uri).toString();
  return vscode.workspace.textDocuments.find((document) => document.uri.toString() === wanted);
}

/** Shows a line of a file, with the cursor on its first character that is not blank. */
export async function reveal(uri: vscode.Uri, line: number): Promise<void> {
  const document = await vscode.workspace.openTextDocument(uri);
  const visible = vscode.window.visibleTextEditors.find((editor) => editor.document === document);
  const editor = await vscode.window.showTextDocument(document, {
    ...(visible?.viewColumn === undefined ? {} : { viewColumn: visible.viewColumn }),
  });
  const shown = document.lineAt(Math.min(line, document.lineCount - 1));
  const position = new vscode.Position(shown.lineNumber, shown.firstNonWhitespaceCharacterIndex);
  editor.selection = new vscode.Selection(position, position);
  editor.revealRange(shown.range, vscode.TextEditorRevealType.InCenterIfOutsideViewport);
}
