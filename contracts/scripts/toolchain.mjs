// Finds the forge binary that npm installed for this platform and runs it in the contracts folder. The platform's
// package is named directly, and optional: the package that wraps them all runs an install script, and asks for
// platforms that are not published.
import { spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const require = createRequire(import.meta.url);

export const root = dirname(dirname(fileURLToPath(import.meta.url)));

export function fail(message) {
  process.stderr.write(`${message}\n`);
  process.exit(1);
}

export function forgeBinary() {
  const arch = { x64: "amd64", arm64: "arm64" }[process.arch];
  const name = `@foundry-rs/forge-${process.platform}-${arch}`;
  const file = process.platform === "win32" ? "forge.exe" : "forge";
  try {
    return join(dirname(require.resolve(`${name}/package.json`)), "bin", file);
  } catch {
    return fail(`contracts: ${name} is not installed; run "npm run setup" in the contracts folder first`);
  }
}

export function forge(args, options = {}) {
  const env = { ...process.env, FOUNDRY_DISABLE_NIGHTLY_WARNING: "1", ...options.env };
  const run = spawnSync(forgeBinary(), args, { cwd: root, stdio: "inherit", ...options, env });
  if (run.error) fail(`contracts: forge did not start: ${run.error.message}`);
  return run;
}
