#!/usr/bin/env node
// Answers like the native compiler for the two things forge asks of it, using the pinned npm compiler.
// Forge passes paths and flags we need not honour: every source arrives inside the standard JSON.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(import.meta.url);
const solc = require("solc");

if (process.argv.includes("--version")) {
  const version = solc.version().replace(".Emscripten.clang", "");
  process.stdout.write(`solc, the solidity compiler commandline interface\nVersion: ${version}.Linux.g++\n`);
} else if (process.argv.includes("--standard-json")) {
  process.stdout.write(solc.compile(readFileSync(0, "utf8")));
} else {
  process.stderr.write("solc wrapper: only --version and --standard-json are supported\n");
  process.exit(1);
}
