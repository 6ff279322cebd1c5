// Days of history: transfers that are really made, a day's share after the other. Each share is moved into the past by
// `bench backdate`, so that charts have a week to show.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'

const LIMIT = 120_000
const ENDED = ['success', 'refund', 'failure']
/** Transfers of each day, the oldest first. */
const SHARES = [5, 8, 6, 9, 7, 10]
/** Origin, destination, and an amount in thousandths. */
const ROUTES = [
  [['base', 'ETH'], ['optimism', 'ETH'], 120],
  [['base', 'USDC'], ['optimism', 'USDC'], 250_000],
  [['optimism', 'USDC'], ['arbitrum', 'USDC'], 480_000],
  [['arbitrum', 'ETH'], ['base', 'ETH'], 350],
  [['base', 'USDC'], ['arbitrum', 'USDT'], 75_500],
  [['optimism', 'ETH'], ['base', 'USDC'], 90],
]

const run = promisify(execFile)

async function rpc(chain, method, params) {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
  const answer = await (await fetch(chain.rpcUrl, { method: 'POST', headers: { 'content-type': 'application/json' }, body })).json()
  assert.ok(!answer.error, `${method}: ${JSON.stringify(answer.error)}`)
  return answer.result
}

/** The body of the quote with this number: routes and amounts by turns, some refunded, sponsored, or with an app fee. */
function ask({ facts }, number) {
  const [origin, destination, amount] = ROUTES[number % ROUTES.length]
  const user = facts.accounts[1].address
  const place = ([name, symbol]) => {
    const chain = facts.chains.find((it) => it.name === name)
    const token = chain.tokens.find((it) => it.symbol === symbol)
    return { chain: chain.id, currency: token?.address ?? `0x${'0'.repeat(40)}`, decimals: token?.decimals ?? 18 }
  }
  const [from, to] = [place(origin), place(destination)]
  const units = BigInt(amount + (amount / 5) * ((number * 7) % 5)) * 10n ** BigInt(from.decimals - 3)
  const route = number % ROUTES.length
  const more = number % 13 === 4 ? { referrer: 'debug-force-refund' }
    : route < 2 ? { subsidizeFees: true }
    : route < 4 ? { appFees: [{ recipient: user, fee: '20' }] }
    : {}
  return { user, recipient: user, originChainId: from.chain, destinationChainId: to.chain, originCurrency: from.currency,
    destinationCurrency: to.currency, amount: String(units), tradeType: 'EXACT_INPUT', ...more }
}

async function quote({ facts }, body) {
  const headers = { 'content-type': 'application/json', 'x-api-key': facts.apiKey }
  const answer = await fetch(`${facts.baseUrl}/quote/v2`, { method: 'POST', headers, body: JSON.stringify(body) })
  const { steps, ...rest } = await answer.json()
  assert.ok(steps, JSON.stringify(rest))
  return { id: steps[0].requestId, items: steps.flatMap((step) => step.items.map((item) => item.data)) }
}

/**
 * Waits as a wallet does: an approval is in a block before its deposit is sent. Where anvil chooses the fees of both,
 * they cannot share a block: it takes the higher tip first, and drops a transaction that is ahead of its nonce then.
 */
async function mined(chain, hash) {
  const began = Date.now()
  for (;;) {
    const receipt = await rpc(chain, 'eth_getTransactionReceipt', [hash])
    if (receipt) return assert.equal(receipt.status, '0x1', `${hash} on ${chain.name} failed`)
    assert.ok(Date.now() - began < LIMIT, `${hash} on ${chain.name} is in no block`)
    await sleep(50)
  }
}

async function ended({ facts }, id) {
  const began = Date.now()
  for (;;) {
    const { status } = await (await fetch(`${facts.baseUrl}/intents/status/v3?requestId=${id}`)).json()
    if (ENDED.includes(status)) return
    assert.ok(Date.now() - began < LIMIT, `${id} is ${status}`)
    await sleep(100)
  }
}

/** Makes transfers from one number to another, and waits for the end of each. */
async function transfers(net, first, count) {
  const quotes = []
  // All quotes first: one that saw the allowance of another's deposit would leave its own out.
  for (let number = first; number < first + count; number += 1) quotes.push(await quote(net, ask(net, number)))
  const from = net.facts.accounts[1].address
  for (const { to, data, value, chainId } of quotes.flatMap(({ items }) => items)) {
    const chain = net.facts.chains.find((it) => it.id === Number(chainId))
    const transaction = { from, to, data, value: `0x${BigInt(value ?? 0).toString(16)}`, gas: '0xf4240' }
    await mined(chain, await rpc(chain, 'eth_sendTransaction', [transaction]))
  }
  await Promise.all(quotes.map(({ id }) => ended(net, id)))
}

/** Six days of transfers under the key of the local network. `counted` waits until a share's calls are counted. */
export async function history(net, counted) {
  const bench = process.env.BENCH_BIN ?? join(dirname(net.binary), 'bench')
  assert.ok(existsSync(bench), `${bench} is not there: run \`cargo build --release -p causeway -p bench\``)
  const config = join(dirname(net.facts.database.replace(/^sqlite:/, '')), 'dev.toml')
  const user = net.facts.accounts[1].address
  for (const chain of net.facts.chains) await rpc(chain, 'anvil_impersonateAccount', [user])
  let made = 0
  for (const share of SHARES) {
    await transfers(net, made, share)
    made += share
    await counted(share)
    await run(bench, ['backdate', '--config', config])
  }
  for (const chain of net.facts.chains) await rpc(chain, 'anvil_stopImpersonatingAccount', [user])
}
