// A first transfer, as an integrator would write it: quote, send the steps, poll until it ends.
//
//   causeway dev                      in one terminal
//   node examples/first-transfer.mjs  in another
//
// It needs nothing but Node.js: the local chains sign for their own test accounts. Against a real deployment a wallet
// would sign instead; everything else stays the same.

import { readFile } from 'node:fs/promises'

const facts = JSON.parse(await readFile(process.argv[2] ?? '.causeway/dev.json', 'utf8'))
const chain = (name) => facts.chains.find((chain) => chain.name === name)
const [origin, destination] = [chain('base'), chain('optimism')]
const user = facts.accounts[0].address
const recipient = `0x${Date.now().toString(16).padStart(40, '1')}`

async function api(path, body) {
  const options = body && { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }
  const response = await fetch(facts.baseUrl + path, options)
  const answer = await response.json()
  if (!response.ok) throw new Error(`${answer.errorCode}: ${answer.message}`)
  return answer
}

async function rpc(chain, method, ...params) {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
  const response = await fetch(chain.rpcUrl, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
  const answer = await response.json()
  if (answer.error) throw new Error(answer.error.message)
  return answer.result
}

async function until(what, ask) {
  for (let n = 0; n < 120; n++) {
    const answer = await ask()
    if (answer) return answer
    await new Promise((resolve) => setTimeout(resolve, 500))
  }
  throw new Error(`not in time: ${what}`)
}

async function transfer(symbol, originCurrency, destinationCurrency, amount, balanceOf) {
  const quote = await api('/quote/v2', {
    user,
    recipient,
    originChainId: origin.id,
    destinationChainId: destination.id,
    originCurrency,
    destinationCurrency,
    amount,
    tradeType: 'EXACT_INPUT',
  })
  const { currencyIn, currencyOut } = quote.details
  console.log(`${symbol}: ${currencyIn.amountFormatted} on ${origin.name} for ${currencyOut.amountFormatted} on ${destination.name}`)
  const before = await balanceOf()
  const began = Date.now()
  for (const step of quote.steps) {
    for (const { data } of step.items) {
      const transaction = { from: data.from, to: data.to, data: data.data, value: `0x${BigInt(data.value).toString(16)}` }
      const hash = await rpc(origin, 'eth_sendTransaction', transaction)
      const receipt = await until(`${step.id} is mined`, () => rpc(origin, 'eth_getTransactionReceipt', hash))
      if (receipt.status !== '0x1') throw new Error(`${step.id} failed`)
      console.log(`  ${step.id} ${hash}`)
    }
  }
  const { endpoint } = quote.steps.at(-1).items[0].check
  const status = await until('the transfer ends', async () => {
    const status = await api(endpoint)
    return ['success', 'failure', 'refund'].includes(status.status) && status
  })
  const received = (await balanceOf()) - before
  console.log(`  ${status.status} after ${Date.now() - began} ms, fill ${status.txHashes[0]}`)
  if (status.status !== 'success' || received !== BigInt(currencyOut.amount)) {
    throw new Error(`promised ${currencyOut.amount}, received ${received}`)
  }
}

const native = '0x0000000000000000000000000000000000000000'
const usdc = (chain) => chain.tokens.find((token) => token.symbol === 'USDC').address
const word = (address) => address.slice(2).padStart(64, '0')

await transfer('ETH', native, native, '100000000000000000', async () =>
  BigInt(await rpc(destination, 'eth_getBalance', recipient, 'latest')),
)
await transfer('USDC', usdc(origin), usdc(destination), '250000000', async () =>
  BigInt(await rpc(destination, 'eth_call', { to: usdc(destination), data: `0x70a08231${word(recipient)}` }, 'latest')),
)
console.log('both arrived to the unit')
