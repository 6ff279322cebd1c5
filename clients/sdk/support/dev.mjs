// A local network to test against: one that is running already, or one started for the duration of the tests.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'

// The very first start downloads the chain's binary, which takes as long as the connection needs.
const START_LIMIT = 180_000
const STOP_LIMIT = 90_000
// The upper limit for everything: no process of ours outlives it, even if something hangs.
const LIFE_LIMIT = 900_000

const BINARY = process.env.CAUSEWAY_BIN ?? fileURLToPath(new URL('../../../target/release/causeway', import.meta.url))

/** The facts of a running network, and a function to stop it. One with `more` options is always started. */
export async function network(more = [], { life = LIFE_LIMIT } = {}) {
  const running = process.env.CAUSEWAY_DEV_JSON
  if (running && more.length === 0) {
    return { facts: JSON.parse(await readFile(running, 'utf8')), binary: BINARY, stop: async () => {} }
  }
  return start(more, life)
}

async function start(more, life) {
  const binary = BINARY
  if (!existsSync(binary)) {
    throw new Error(`${binary} is not there: run \`cargo build --release\`, or set CAUSEWAY_BIN or CAUSEWAY_DEV_JSON`)
  }
  const folder = await mkdtemp(join(tmpdir(), 'causeway-sdk-'))
  const data = join(folder, 'dev')
  const port = String(await freePort())
  // Faster blocks, four times the default rate: nearly all the time goes into waiting for them.
  const options = ['dev', '--data-dir', data, '--port', port, '--no-rate-limits', '--block-time', '0.25', ...more]
  // A separate process group: Ctrl-C reaches the child once, through us, and not a second time from the terminal.
  const child = spawn(binary, options, { stdio: ['ignore', 'pipe', 'pipe'], detached: true })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (text) => (output += text))
  const ended = once(child, 'exit')
  // The rejection of a failed start is handled by `stop`; until then it must not count as unhandled.
  ended.catch(() => {})
  const isOver = () => child.exitCode !== null || child.signalCode !== null || child.pid === undefined

  const interrupt = () => isOver() || child.kill('SIGINT')
  const giveUp = async (why) => {
    console.error(`${why}\n${output}`)
    await stop().catch((error) => console.error(error.message))
    process.exit(1)
  }
  const limit = setTimeout(() => giveUp(`not done within ${life / 1000} s`), life)
  limit.unref()
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'].map((signal) => [signal, () => giveUp(`ended by ${signal}`)])
  for (const [signal, handler] of signals) process.once(signal, handler)
  process.once('exit', interrupt)

  async function stop() {
    interrupt()
    const orderly = await Promise.race([ended.then(() => true, () => true), sleep(STOP_LIMIT, false, { ref: false })])
    if (!orderly) process.kill(-child.pid, 'SIGKILL')
    clearTimeout(limit)
    for (const [signal, handler] of signals) process.off(signal, handler)
    process.off('exit', interrupt)
    await rm(folder, { recursive: true, force: true })
    if (!orderly) throw new Error(`causeway dev did not stop within ${STOP_LIMIT / 1000} s\n${output}`)
  }

  // The file is written once everything answers, so it is also the signal to begin.
  const path = join(data, 'dev.json')
  const until = Date.now() + START_LIMIT
  while (!existsSync(path)) {
    const failed = isOver() ? 'causeway dev ended' : Date.now() > until && 'causeway dev did not start in time'
    if (failed) {
      await stop()
      throw new Error(`${failed}\n${output}`)
    }
    await sleep(50)
  }
  return { facts: JSON.parse(await readFile(path, 'utf8')), binary, stop }
}

async function freePort() {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address()
  server.close()
  await once(server, 'close')
  return port
}
