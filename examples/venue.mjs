// A deposit into the perpetuals venue, and a withdrawal out of it again.
//
//   causeway dev             in one terminal
//   node examples/venue.mjs  in another
//
// It needs nothing but Node.js and the `causeway` binary, which signs the venue's transfer for an account of the simulator
// (CAUSEWAY_BIN, or the one that `cargo build --release` made). On the venue itself a client of the venue's would sign it.

import { spawnSync } from 'node:child_process'
import { readFile } from 'node:fs/promises'

const path = process.argv[2] ?? '.causeway/dev.json'
const facts = JSON.parse(await readFile(path, 'utf8'))
const causeway = process.env.CAUSEWAY_BIN ?? 'target/release/causeway'
const base = facts.chains.find((chain) => chain.name === 'base')
const usdc = base.tokens.find((token) => token.symbol === 'USDC').address
const [wallet, account] = [facts.accounts[0].address, String(facts.venue.accounts[0].index)]

async function json(url, body) {
  const options = body && { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }
  const response = await fetch(url, options)
  const answer = await response.json()
  if (!response.ok) throw new Error(`${answer.errorCode}: ${answer.message}`)
  return answer
}

async function rpc(method, ...params) {
  const answer = await json(base.rpcUrl, { jsonrpc: '2.0', id: 1, method, params })
  if (answer.error) throw new Error(answer.error.message)
  return answer.result
}

async function until(what, ask) {
  for (let n = 0; n < 240; n++) {
    const answer = await ask()
    if (answer) return answer
    await new Promise((resolve) => setTimeout(resolve, 250))
  }
  throw new Error(`not in time: ${what}`)
}

const quote = (body) => json(`${facts.baseUrl}/quote/v2`, { tradeType: 'EXACT_INPUT', ...body })

async function ended(quote) {
  const { endpoint } = quote.steps.at(-1).items[0].check
  const status = await until('the transfer ends', async () => {
    const status = await json(facts.baseUrl + endpoint)
    return ['success', 'failure', 'refund'].includes(status.status) && status
  })
  if (status.status !== 'success') throw new Error(JSON.stringify(status))
  return status
}

const word = (address) => address.slice(2).padStart(64, '0')
const onBase = async () => BigInt(await rpc('eth_call', { to: usdc, data: `0x70a08231${word(wallet)}` }, 'latest'))
// Dollars as the venue writes them, in millionths.
async function onVenue() {
  const answer = await json(`${facts.venue.url}/api/v1/account?by=index&value=${account}`)
  const [whole, fraction = ''] = answer.accounts[0].collateral.split('.')
  return BigInt(whole + fraction.padEnd(6, '0').slice(0, 6))
}
function arrived(what, before, after, promised) {
  if (after - before !== BigInt(promised)) throw new Error(`${what}: promised ${promised}, received ${after - before}`)
}

// In: the steps are transactions, as for every other transfer.
const [before, inward] = [
  await onVenue(),
  await quote({
    user: wallet,
    recipient: account,
    originChainId: base.id,
    destinationChainId: facts.venue.id,
    originCurrency: usdc,
    destinationCurrency: '0',
    amount: '250000000',
  }),
]
for (const { data } of inward.steps.flatMap((step) => step.items)) {
  const transaction = { from: data.from, to: data.to, data: data.data, value: `0x${BigInt(data.value).toString(16)}` }
  const hash = await rpc('eth_sendTransaction', transaction)
  await until('it is mined', () => rpc('eth_getTransactionReceipt', hash))
}
const filled = await ended(inward)
await until('it is shown', async () => (await onVenue()) !== before)
arrived('on the venue', before, await onVenue(), inward.details.currencyOut.amount)
console.log(`in:  ${inward.details.currencyOut.amountFormatted} USDC for account ${account}, transfer ${filled.txHashes[0].slice(0, 16)}…`)

// Out: one step with an action, a transfer on the venue whose memo is the request.
const [held, outward] = [
  await onBase(),
  await quote({
    user: account,
    recipient: wallet,
    originChainId: facts.venue.id,
    destinationChainId: base.id,
    originCurrency: '0',
    destinationCurrency: usdc,
    amount: '75000000',
  }),
]
const { action } = outward.steps[0].items[0].data
const options = { input: JSON.stringify(action), encoding: 'utf8' }
const sent = spawnSync(causeway, ['venue-transfer', '--facts', path, '--account', account], options)
if (sent.status !== 0) throw new Error(sent.stderr || String(sent.error))
await ended(outward)
arrived('on base', held, await onBase(), outward.details.currencyOut.amount)
console.log(`out: ${outward.details.currencyOut.amountFormatted} USDC on base, transfer ${sent.stdout.trim().slice(0, 16)}…`)
console.log('both arrived to the unit')
