// A workspace that nobody trusts cannot say which program, library or model is loaded.
import { chmodSync, existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ok, until } from './check.mjs';
import { Session } from './host.mjs';

function prepare(folder) {
  const trap = join(folder, 'linelens');
  writeFileSync(trap, `#!/bin/sh\ntouch "${folder}/ran"\n`);
  chmodSync(trap, 0o755);
  mkdirSync(join(folder, '.vscode'));
  const settings = {
    'linelens.server.path': trap,
    'linelens.library': join(folder, 'library.so'),
    'linelens.model': folder,
    'linelens.method': 'attention:last',
  };
  writeFileSync(join(folder, '.vscode/settings.json'), JSON.stringify(settings));
}

export async function trust({ vscode, extensions, workspace, pictures }) {
  const session = await Session.start({
    vscode,
    extensions,
    workspace,
    prepare,
    trust: true,
    settings: {
      'security.workspace.trust.enabled': true,
      'security.workspace.trust.startupPrompt': 'never',
      'security.workspace.trust.banner': 'always',
    },
    // Nor does it help to be in PATH.
    env: { PATH: `.:${process.env.PATH}` },
  });
  const ran = () => existsSync(join(session.workspace, 'ran'));
  try {
    await session.open('records.c');
    const restricted = await until(() =>
      session.page.locator('.statusbar-item', { hasText: 'Restricted Mode' }).isVisible(),
    );
    ok('the workspace is not trusted', restricted);
    await session.goTo(42, 5);
    const status = await session.waitForStatus(/linelens-default · cpu · attention:last · p 0\.31/);
    ok('the bundled server explains all the same', /linelens-default/.test(status?.text ?? ''), status);
    ok('by the method that the workspace chose', /attention:last/.test(status?.text ?? ''), status);
    ok('and shades', await session.waitForShades((lines) => lines.length > 5), await session.shaded());
    ok("the workspace's program did not run", !ran());
    await session.picture(join(pictures, 'restricted.png'));
    // Trusted, the workspace still cannot: these settings are the machine's.
    await session.quick('F1', '>Workspaces: Manage Workspace Trust', 'Manage Workspace Trust');
    await session.page.locator('.workspace-trust-buttons-row a', { hasText: 'Trust' }).first().click();
    await until(
      async () => !(await session.page.locator('.statusbar-item', { hasText: 'Restricted Mode' }).isVisible()),
    );
    await session.command('Restart Server');
    await session.open('records.c');
    await session.goTo(42, 5);
    const later = await session.waitForStatus(/linelens-default · cpu · attention:last · p 0\.31/);
    ok('trusted, it is the same server and model', /linelens-default/.test(later?.text ?? ''), later);
    ok("and the workspace's program did not run", !ran());
  } catch (error) {
    await session.picture(join(pictures, 'failed-trust.png')).catch(() => undefined);
    ok(`the session goes on: ${error.stack}`, false, await session.notifications().catch(() => []));
  } finally {
    await session.stop();
  }
}
