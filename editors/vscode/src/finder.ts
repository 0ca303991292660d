// Finding the server's program: the setting, what the extension brings along, PATH.

import * as path from 'node:path';

export interface Surroundings {
  /** The setting `linelens.server.path`. */
  setting: string;
  extensionFolder: string;
  /** The variable PATH. */
  searchPath: string;
  workspaceFolders: readonly string[];
  isWindows: boolean;
  /** Whether a path is a file that can be run. */
  isProgram: (path: string) => boolean;
}

export type Found = { program: string; how: string } | { problem: string };

const ADVICE =
  'Build it with `cargo build --release` in the linelens source tree and put target/release into your PATH, or set ' +
  '"linelens.server.path" in your settings (User, or Remote in a remote window) to the path of the program.';

function isInside(folder: string, file: string): boolean {
  const relative = path.relative(folder, file);
  return relative === '' || (!relative.startsWith('..') && !path.isAbsolute(relative));
}

/** The server's program, or a sentence about what to do. Nothing inside an open folder is ever taken from PATH. */
export function findServer(around: Surroundings): Found {
  const name = around.isWindows ? 'linelens.exe' : 'linelens';
  const setting = around.setting.trim();
  if (setting !== '') {
    if (!path.isAbsolute(setting)) {
      return { problem: `The setting "linelens.server.path" is ${setting}, but must be an absolute path.` };
    }
    return around.isProgram(setting)
      ? { program: setting, how: 'the setting linelens.server.path' }
      : { problem: `The setting "linelens.server.path" names ${setting}, which is not a program that can be run.` };
  }
  const bundled = path.join(around.extensionFolder, 'server', name);
  if (around.isProgram(bundled)) {
    return { program: bundled, how: 'the extension' };
  }
  for (const folder of around.searchPath.split(around.isWindows ? ';' : ':')) {
    const candidate = path.join(folder, name);
    const isTrusted = path.isAbsolute(folder) && !around.workspaceFolders.some((open) => isInside(open, candidate));
    if (isTrusted && around.isProgram(candidate)) {
      return { program: candidate, how: 'PATH' };
    }
  }
  return { problem: `The program linelens was found neither in the extension nor in PATH. ${ADVICE}` };
}
