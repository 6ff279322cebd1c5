// `node scripts/forge.mjs <arguments>` is forge with the pinned toolchain.
import { forge } from "./toolchain.mjs";

process.exit(forge(process.argv.slice(2)).status ?? 1);
