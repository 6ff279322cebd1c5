// Confirms after `npm ci` that every part the build needs is there, so that a failure names the part.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fail, forgeBinary, root } from "./toolchain.mjs";

const parts = {
  "forge binary": forgeBinary(),
  compiler: join(root, "node_modules/solc/soljson.js"),
  "contract library": join(root, "node_modules/@openzeppelin/contracts/package.json"),
  "test library": join(root, "node_modules/@uniswap/v4-periphery/lib/v4-core/lib/forge-std/src/Test.sol"),
  "Permit2 for tests": join(root, "node_modules/@uniswap/v4-periphery/lib/permit2/test/utils/DeployPermit2.sol"),
};
for (const [name, path] of Object.entries(parts)) {
  if (!existsSync(path)) fail(`contracts: the ${name} is missing; run "npm run setup" in the contracts folder`);
}
process.stdout.write("contracts: toolchain ready\n");
