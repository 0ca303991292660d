// Where the settings of the machine that the server runs on are.

import * as vscode from 'vscode';

/** In words. In a remote window a setting of the machine counts under Remote; under User it would do nothing. */
export function whereSettingsAre(): string {
  return vscode.env.remoteName === undefined ? 'your user settings' : 'the settings under “Remote”';
}

/** Opens the settings where such a one can be set, at `key`. */
export async function openSettings(key: string): Promise<void> {
  if (vscode.env.remoteName !== undefined) {
    try {
      await vscode.commands.executeCommand('workbench.action.openRemoteSettings', { query: key });
      return;
    } catch {
      // This window does not have them.
    }
  }
  await vscode.commands.executeCommand('workbench.action.openSettings', key);
}
