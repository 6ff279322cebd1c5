import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'

import { APIError, isAPIError } from '@relayprotocol/relay-sdk'
import { erc20Abi, zeroAddress } from 'viem'
import { concat, decodeFunctionData, encodeFunctionData, isAddressEqual, size, slice } from 'viem'

import { recordCalls } from '../support/calls.mjs'
import { eventually, execute as executeBy, newcomer, onlyLocal, STORY, walletOf, world } from '../support/world.mjs'

const DEAD = '0x000000000000000000000000000000000000dead'

const calls = recordCalls()
let facts, stop, client, base, optimism, wallet

before(async () => {
  ;({ facts, stop, client, base, optimism } = await world())
  // The last account: people who try things by hand on the same network use the first.
  wallet = walletOf(client, base, facts.accounts.at(-1).privateKey)
})

after(() => stop?.())

const eth = { currency: zeroAddress, toCurrency: zeroAddress }
const usdc = () => ({ currency: base.token('USDC'), toCurrency: optimism.token('USDC') })

/** A quote from base to optimism for our wallet by default. */
function getQuote(ask) {
  const route = { chainId: base.id, toChainId: optimism.id, tradeType: 'EXACT_INPUT' }
  return client.actions.getQuote({ ...route, wallet, ...ask }, true)
}

const execute = (quote) => executeBy(client, wallet, quote)

/** A pool's price may move, so an amount bought there is only bounded; any other amount is exactly the quoted one. */
function delivered(received, { amount, minimumAmount }, bought) {
  if (bought) assert.ok(received >= BigInt(minimumAmount), `${received} is too little`)
  else assert.equal(received, BigInt(amount))
}

/** Executes a quote and checks its result against the quote. */
async function arrives(quote, stepIds) {
  const { currencyIn, currencyOut, recipient } = quote.details
  assert.deepEqual(quote.steps.map((step) => step.id), stepIds)
  const { data, error, statuses } = await execute(quote)
  assert.ifError(error)
  assert.ok(data.steps.every((step) => step.items.every((item) => item.status === 'complete')))
  assert.equal(statuses.at(-1), 'success')
  assert.ok(!statuses.includes('failure') && !statuses.includes('refund'), statuses.join())

  const received = await optimism.balanceOf(currencyOut.currency.address, recipient)
  delivered(received, currencyOut, quote.details.route.destination.router !== 'relay')

  const { internalTxHashes, txHashes, checkStatus } = data.steps.at(-1).items[0]
  assert.equal(checkStatus, 'success')
  const chainsOf = (hashes) => hashes.map(({ chainId }) => chainId)
  assert.deepEqual([chainsOf(internalTxHashes), chainsOf(txHashes)], [[base.id], [optimism.id]])
  const deposit = await base.reader.getTransaction({ hash: internalTxHashes[0].txHash })
  assert.equal(deposit.from, wallet.account.address.toLowerCase())
  assert.equal(deposit.value, currencyIn.currency.address === zeroAddress ? BigInt(currencyIn.amount) : 0n)
  // The SDK uses the gas fees of the quote, if it has any.
  const { maxFeePerGas } = quote.steps.at(-1).items[0].data
  if (maxFeePerGas) assert.equal(deposit.maxFeePerGas, BigInt(maxFeePerGas))
  const fill = await optimism.reader.getTransactionReceipt({ hash: txHashes[0].txHash })
  assert.equal(fill.status, 'success')
}

test('the chains load, each with an id, a node and a currency', () => {
  const venue = client.chains.find(({ id }) => id === facts.venue.id)
  assert.equal(venue?.vmType, 'lvm')
  const others = client.chains.filter((chain) => chain !== venue)
  assert.deepEqual(others.map(({ id }) => id).sort(), facts.chains.map(({ id }) => id).sort())
  for (const chain of others) {
    assert.equal(chain.httpRpcUrl, facts.chains.find(({ id }) => id === chain.id).rpcUrl)
    assert.equal(chain.vmType, 'evm')
    assert.equal(chain.currency.address, zeroAddress)
    assert.equal(chain.viemChain.id, chain.id)
  }
})

test('ETH arrives', STORY, async () => {
  const quote = await getQuote({ ...eth, amount: '100000000000000000', recipient: newcomer() })
  assert.equal(quote.details.operation, 'bridge')
  await arrives(quote, ['deposit'])
})

test('USDC arrives, approved and deposited', STORY, async () => {
  const quote = await getQuote({ ...usdc(), amount: '250000000', recipient: newcomer() })
  assert.equal(quote.details.operation, 'bridge')
  await arrives(quote, ['approve', 'deposit'])
})

test('USDC arrives as USDT', STORY, async () => {
  const toCurrency = optimism.token('USDT')
  const quote = await getQuote({ ...usdc(), toCurrency, amount: '75000001', recipient: newcomer() })
  assert.equal(quote.details.operation, 'swap')
  await arrives(quote, ['approve', 'deposit'])
})

test('TAIL arrives as USDC, sold in a pool before it is deposited', STORY, async () => {
  const route = { currency: base.token('TAIL'), toCurrency: optimism.token('USDC') }
  const quote = await getQuote({ ...route, amount: '1000000000000000000000', recipient: newcomer() })
  const { operation, route: way } = quote.details
  assert.deepEqual([operation, way.origin.router, way.destination.router], ['swap', 'uniswap-v3', 'relay'])
  await arrives(quote, ['approve', 'deposit'])
})

test('USDC arrives as TAIL, bought in a pool by the fill', STORY, async () => {
  const toCurrency = optimism.token('TAIL')
  const quote = await getQuote({ ...usdc(), toCurrency, amount: '20000000', recipient: newcomer() })
  assert.equal(quote.details.route.destination.router, 'uniswap-v3')
  await arrives(quote, ['approve', 'deposit'])
})

for (const [from, to, amount, stepIds] of [
  ['ETH', 'USDC', '10000000000000000', ['swap']],
  ['USDC', 'ETH', '30000000', ['approve', 'swap']],
  ['ETH', 'WETH', '1', ['swap']],
]) {
  test(`${from} becomes ${to} on one chain`, STORY, async () => {
    const [currency, toCurrency] = [from, to].map((symbol) => (symbol === 'ETH' ? zeroAddress : base.token(symbol)))
    const recipient = newcomer()
    const quote = await getQuote({ currency, toCurrency, toChainId: base.id, amount, recipient })
    assert.deepEqual(quote.steps.map((step) => step.id), stepIds)
    assert.equal(quote.protocol, undefined)
    const { data, error } = await execute(quote)
    assert.ifError(error)
    assert.ok(data.steps.every((step) => step.items.every((item) => item.status === 'complete')))
    // The user's own transaction did everything, so the balance is final by the time the SDK is done.
    const received = await base.balanceOf(toCurrency, recipient)
    delivered(received, quote.details.currencyOut, to !== 'WETH')
  })
}

test('USDC arrives after a plain transfer', STORY, async () => {
  const options = { explicitDeposit: false }
  const quote = await getQuote({ ...usdc(), amount: '40000000', recipient: newcomer(), options })
  const { to, data } = quote.steps[0].items[0].data
  assert.ok(isAddressEqual(to, base.token('USDC')))
  assert.equal(slice(data, -32), quote.protocol.v2.orderId)
  await arrives(quote, ['deposit'])
})

test('ETH arrives with explicitDeposit: false', STORY, async () => {
  const options = { explicitDeposit: false }
  const quote = await getQuote({ ...eth, amount: '30000000000000000', recipient: newcomer(), options })
  await arrives(quote, ['deposit'])
})

test('USDC arrives by a strict deposit address, which the SDK pays at', STORY, async () => {
  const options = { useDepositAddress: true, strict: true, refundTo: wallet.account.address }
  const recipient = newcomer()
  const quote = await getQuote({ ...usdc(), amount: '45000000', recipient, options })
  assert.deepEqual(quote.steps.map((step) => step.id), ['deposit'])
  const [{ depositAddress, items: [item] }] = quote.steps
  // A plain transfer, which an exchange could make as well.
  const transfer = decodeFunctionData({ abi: erc20Abi, data: item.data.data })
  assert.deepEqual([transfer.functionName, transfer.args[1]], ['transfer', 45_000_000n])
  assert.ok(isAddressEqual(transfer.args[0], depositAddress) && isAddressEqual(item.data.to, base.token('USDC')))

  const { data, error } = await execute(quote)
  assert.ifError(error)
  assert.equal(data.steps[0].items[0].checkStatus, 'success')
  assert.equal(await optimism.balanceOf(optimism.token('USDC'), recipient), BigInt(quote.details.currencyOut.amount))
  assert.equal(await base.balanceOf(base.token('USDC'), depositAddress), 0n)
  const { data: status } = await client.utils.request({ url: facts.baseUrl + item.check.endpoint })
  assert.ok(isAddressEqual(status.depositAddress.depositor, wallet.account.address))
  // The sweep behind the transfer is the deposit, and is the service's.
  assert.notEqual(status.inTxHashes[0], status.depositAddress.depositTxHash)
  const sent = await base.reader.getTransaction({ hash: status.depositAddress.depositTxHash })
  assert.ok(isAddressEqual(sent.from, wallet.account.address))
})

test('ETH arrives by an open deposit address, paid without the SDK', STORY, async () => {
  const recipient = newcomer()
  const options = { useDepositAddress: true }
  const amount = 40_000_000_000_000_000n
  const quote = await getQuote({ ...eth, amount: String(amount), recipient, options })
  const [{ depositAddress, items: [item] }] = quote.steps
  await wallet.sendTransaction({ to: depositAddress, value: amount })
  await eventually('it arrives', async () => {
    const { data } = await client.utils.request({ url: facts.baseUrl + item.check.endpoint })
    return data.status === 'success'
  })
  assert.equal(await optimism.balanceOf(zeroAddress, recipient), BigInt(quote.details.currencyOut.amount))
  assert.equal(await base.balanceOf(zeroAddress, depositAddress), 0n)
})

test('a short deposit comes back, and the SDK says so', STORY, async () => {
  const { currency, toCurrency } = usdc()
  const recipient = newcomer()
  const amount = 60_000_000n
  const options = { explicitDeposit: false }
  const quote = await getQuote({ currency, toCurrency, amount: String(amount), recipient, options })
  // The quote's own transfer with half the amount, as a wallet or a user might get it wrong.
  const item = quote.steps[0].items[0]
  const transfer = slice(item.data.data, 0, size(item.data.data) - 32)
  const { args } = decodeFunctionData({ abi: erc20Abi, data: transfer })
  assert.equal(args[1], amount)
  assert.ok(isAddressEqual(args[0], base.depository))
  const half = encodeFunctionData({ abi: erc20Abi, functionName: 'transfer', args: [args[0], amount / 2n] })
  item.data.data = concat([half, quote.protocol.v2.orderId])

  const before = await base.balanceOf(currency, wallet.account.address)
  const { error, last, statuses } = await execute(quote)
  assert.equal(error?.message, 'Transaction failed: Refunded')
  assert.equal(last.refunded, true)
  // The status never passes through `failure`, at which the SDK would have stopped.
  assert.equal(statuses.at(-1), 'refund')
  assert.ok(!statuses.includes('failure'), statuses.join())

  const { data: status } = await client.utils.request({ url: facts.baseUrl + item.check.endpoint })
  assert.equal(status.status, 'refund')
  assert.notEqual(status.failReason, 'N/A')
  const refund = await base.reader.getTransactionReceipt({ hash: status.txHashes[0] })
  assert.equal(refund.status, 'success')
  // The refund is the deposit less the gas of sending it back, which is cents here.
  const kept = before - (await base.balanceOf(currency, wallet.account.address))
  assert.ok(kept >= 0n && kept < amount / 2n / 100n, `${kept} was kept`)
  assert.equal(await optimism.balanceOf(toCurrency, recipient), 0n)
})

test('without a wallet there is a price, and no way to send it', STORY, async (t) => {
  const amount = '100000000000000000'
  const quote = await getQuote({ ...eth, amount, wallet: undefined })
  assert.equal(quote.request.data.user, DEAD)
  assert.equal(quote.request.data.recipient, DEAD)
  assert.ok(BigInt(quote.details.currencyOut.amount) > 0n)
  assert.ok(BigInt(quote.details.currencyOut.amount) < BigInt(amount))
  assert.ok(Number(quote.details.currencyOut.amountUsd) > 0)
  assert.equal(quote.fees.subsidized.amount, '0')
  t.mock.method(console, 'error', () => {})
  assert.throws(() => client.actions.execute({ quote, wallet }), /burn address/)
})

test('a refusal is an APIError with our code and status', STORY, async (t) => {
  const ask = { ...eth, amount: '100000000000000000', recipient: newcomer() }
  const table = [
    ['AMOUNT_TOO_LOW', 400, { amount: '1' }],
    ['UNSUPPORTED_CHAIN', 400, { toChainId: 31338 }],
    ['INVALID_INPUT_CURRENCY', 400, { currency: newcomer() }],
    ['INVALID_OUTPUT_CURRENCY', 400, { toCurrency: newcomer() }],
    ['INVALID_ADDRESS', 400, { recipient: '0x1234' }],
    ['INVALID_SLIPPAGE_TOLERANCE', 400, { options: { slippageTolerance: '10001' } }],
    ['UNAUTHORIZED', 401, { options: { subsidizeFees: true } }],
  ]
  for (const [errorCode, statusCode, change] of table) {
    await t.test(errorCode, async () => {
      const error = await getQuote({ ...ask, ...change }).then(() => assert.fail('quoted'), (error) => error)
      assert.ok(error instanceof APIError && isAPIError(error), String(error))
      assert.equal(error.rawError.errorCode, errorCode)
      assert.equal(error.statusCode, statusCode)
      assert.equal(error.rawError.message, error.message)
      assert.equal(calls.findLast(({ url }) => url.pathname === '/quote/v2').status, statusCode)
    })
  }
})

test('declined and unknown quote options are ignored', STORY, async () => {
  const declined = { useExternalLiquidity: false, usePermit: false, useDepositAddress: false, topupGas: false }
  const options = { ...declined, somethingNew: { nested: [1] } }
  const quote = await getQuote({ ...eth, amount: '100000000000000000', options })
  assert.equal(quote.details.recipient, wallet.account.address)
})

// The last test, because it checks the calls of all the others.
test('every call went to the local network and was answered', () => onlyLocal(calls, facts, base))
