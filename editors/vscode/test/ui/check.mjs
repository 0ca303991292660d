// Checks that are counted, and the closing line.
import { isDeepStrictEqual } from 'node:util';

let passed = 0;
let failed = 0;

export function ok(what, holds, found) {
  if (holds) {
    passed++;
    console.log(`ok      ${what}`);
  } else {
    failed++;
    console.log(`FAILED  ${what}`);
    if (found !== undefined) {
      console.log(`        found: ${JSON.stringify(found)}`);
    }
  }
  return holds;
}

export function equal(what, found, expected) {
  return ok(what, isDeepStrictEqual(found, expected), { found, expected });
}

/** Waits until `look` returns something true, and returns it; the last answer where it never does. */
export async function until(look, ms = 40_000) {
  const end = Date.now() + ms;
  for (;;) {
    const found = await look();
    if (found || Date.now() > end) {
      return found;
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

export function finish(name) {
  console.log(`\n${name}: ${passed} passed, ${failed} failed`);
  return failed === 0 && passed > 0;
}
