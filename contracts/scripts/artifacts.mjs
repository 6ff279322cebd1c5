// Writes contracts/artifacts from a fresh compile, or with --check fails when they differ from one.
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fail, forge, root } from "./toolchain.mjs";

const contracts = [
  "Depository",
  "Router",
  "ApprovalProxy",
  "SpendLimiter",
  "DepositAddressFactory",
  "Usdc",
  "Usdt",
  "Dai",
  "LongTail",
  "PriceFeed",
  "GasPriceOracle",
];
const folder = join(root, "artifacts");

// A folder of its own keeps the check honest when `out` is stale, and safe beside a running test.
const fresh = mkdtempSync(join(tmpdir(), "causeway-artifacts-"));
let rendered;
try {
  const args = ["build", "src", "--force", "--deny", "warnings"];
  args.push("--out", join(fresh, "out"), "--cache-path", join(fresh, "cache"));
  const build = forge(args, { stdio: ["ignore", "pipe", "pipe"], encoding: "utf8" });
  if (build.status !== 0) fail(`contracts: compilation failed\n${build.stdout}${build.stderr}`);
  rendered = contracts.map((contractName) => {
    const built = JSON.parse(readFileSync(join(fresh, "out", `${contractName}.sol`, `${contractName}.json`)));
    const { abi, bytecode, deployedBytecode } = built;
    const artifact = { contractName, abi, bytecode: bytecode.object, deployedBytecode: deployedBytecode.object };
    return [`${contractName}.json`, `${JSON.stringify(artifact, null, 2)}\n`];
  });
} finally {
  rmSync(fresh, { recursive: true, force: true });
}

if (process.argv.includes("--check")) {
  const expected = new Map(rendered);
  const present = existsSync(folder) ? readdirSync(folder) : [];
  const stale = [...expected].filter(
    ([name, text]) => !present.includes(name) || readFileSync(join(folder, name), "utf8") !== text,
  );
  const surplus = present.filter((name) => !expected.has(name));
  if (stale.length + surplus.length > 0) {
    const names = [...stale.map(([name]) => name), ...surplus].join(", ");
    fail(`contracts: artifacts differ from a fresh compile: ${names}; run "npm run artifacts" and commit the result`);
  }
  process.stdout.write(`contracts: ${rendered.length} artifacts match a fresh compile\n`);
} else {
  mkdirSync(folder, { recursive: true });
  for (const name of readdirSync(folder)) rmSync(join(folder, name));
  for (const [name, text] of rendered) writeFileSync(join(folder, name), text);
  process.stdout.write(`contracts: wrote ${rendered.length} artifacts\n`);
}
