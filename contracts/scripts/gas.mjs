// Measures the gas of every entry point as a whole transaction and writes contracts/snapshots, or with --check
// fails when a figure differs from the committed one.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fail, forge, root } from "./toolchain.mjs";

const check = process.argv.includes("--check");
if (check && !existsSync(join(root, "snapshots"))) fail('contracts: no gas snapshots; run "npm run gas"');

// Isolation makes every call a transaction of its own: intrinsic gas and cold storage are counted.
const args = ["test", "--isolate", "--match-contract", "^GasTest$"];
args.push(`--gas-snapshot-check=${check}`, `--gas-snapshot-emit=${!check}`);
const run = forge(args, { stdio: ["ignore", "pipe", "pipe"], encoding: "utf8" });
if (run.status !== 0) {
  const advice = "gas differs or a test failed; run \"npm run gas\" and commit the result";
  fail(`${run.stdout}${run.stderr}\ncontracts: ${advice}`);
}
process.stdout.write(`contracts: gas snapshots ${check ? "match" : "written"}\n`);
