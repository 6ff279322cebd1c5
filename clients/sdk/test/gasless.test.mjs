// Deposits by signature: the SDK signs and posts, and a relayer of the service sends the transaction.

import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'

import { isAPIError } from '@relayprotocol/relay-sdk'
import { erc20Abi, isAddressEqual, maxUint256, parseEther, parseEventLogs, zeroAddress } from 'viem'
import { generatePrivateKey } from 'viem/accounts'

import { recordCalls } from '../support/calls.mjs'
import { eventually, execute, newcomer, onlyLocal, STORY, walletOf, world } from '../support/world.mjs'

const PERMIT2 = '0x000000000022D473030F116dDEE9F6B43aC78BA3'
const DOLLAR = 1_000_000n

const calls = recordCalls()
let facts, stop, client, base, optimism, funder

before(async () => {
  ;({ facts, stop, client, base, optimism } = await world())
  // Not the account of the other tests, which may run at the same time on the same network.
  funder = walletOf(client, base, facts.accounts.at(-2).privateKey)
})

after(() => stop?.())

const mined = (hash) => base.reader.waitForTransactionReceipt({ hash, pollingInterval: 50 })
const allowance = (token, owner) =>
  base.reader.readContract({ address: token, abi: erc20Abi, functionName: 'allowance', args: [owner, PERMIT2] })
const sentBy = (address) => base.reader.getTransactionCount({ address })

/** The wallet of a new user with tokens on base and, unless said, without native currency. */
async function userWith(symbol, amount, native = 0n) {
  const user = walletOf(client, base, generatePrivateKey())
  const to = user.account.address
  const transfer = { address: base.token(symbol), abi: erc20Abi, functionName: 'transfer', args: [to, amount] }
  await mined(await funder.writeContract(transfer))
  if (native > 0n) await mined(await funder.sendTransaction({ to, value: native }))
  return user
}

/** A quote from base to USDC on optimism that asks for a signature. */
function getQuote(wallet, symbol, amount, change = {}, headers = {}) {
  const route = { chainId: base.id, toChainId: optimism.id, toCurrency: optimism.token('USDC') }
  const ask = { ...route, tradeType: 'EXACT_INPUT', wallet, currency: base.token(symbol), amount: String(amount) }
  const options = { usePermit: true }
  return client.actions.getQuote({ ...ask, recipient: newcomer(), options, ...change }, true, headers)
}

/** Executes a quote whose last step is a signature, and checks what became of it. Returns the deposit's receipt. */
async function arrives(wallet, quote, stepIds) {
  const { currencyIn, currencyOut, recipient } = quote.details
  const [user, token] = [wallet.account.address, currencyIn.currency.address]
  assert.deepEqual(quote.steps.map((step) => step.id), stepIds)
  const before = await base.balanceOf(token, user)
  const { data, error } = await execute(client, wallet, quote)
  assert.ifError(error)
  assert.ok(data.steps.every((step) => step.items.every((item) => item.status === 'complete')))
  const { internalTxHashes, txHashes, checkStatus } = data.steps.at(-1).items[0]
  assert.equal(checkStatus, 'success')
  assert.deepEqual(internalTxHashes.map(({ chainId }) => chainId), [base.id])
  assert.deepEqual(txHashes.map(({ chainId }) => chainId), [currencyOut.currency.chainId])
  const deposit = await base.reader.getTransactionReceipt({ hash: internalTxHashes[0].txHash })
  assert.equal(deposit.status, 'success')
  // Somebody else sent it, and nobody took more than was signed for.
  assert.ok(!isAddressEqual(deposit.from, user))
  assert.equal(before - (await base.balanceOf(token, user)), BigInt(currencyIn.amount))
  if (currencyOut.currency.chainId === optimism.id) {
    const received = await optimism.balanceOf(currencyOut.currency.address, recipient)
    assert.equal(received, BigInt(currencyOut.amount))
    const transfers = parseEventLogs({ abi: erc20Abi, eventName: 'Transfer', logs: deposit.logs })
    const paidIn = transfers.filter(({ args }) => isAddressEqual(args.to, base.depository))
    assert.deepEqual(paidIn.map(({ args }) => args.value), [BigInt(currencyIn.amount)])
  }
  return deposit
}

/** The posted signatures, with the statuses of their answers. */
const posts = () => calls.filter(({ url }) => url.pathname === '/execute/permits').map(({ status }) => status)

test('USDC arrives from a user without gas', STORY, async () => {
  const wallet = await userWith('USDC', 25n * DOLLAR)
  const quote = await getQuote(wallet, 'USDC', 20n * DOLLAR)
  assert.equal(quote.fees.gas.amount, '0')
  assert.equal(quote.steps[0].kind, 'signature')
  const posted = posts().length
  await arrives(wallet, quote, ['authorize1'])
  assert.deepEqual(posts().slice(posted), [200])
  const user = wallet.account.address
  assert.equal(await base.balanceOf(base.token('USDC'), user), 5n * DOLLAR)
  assert.equal(await base.balanceOf(zeroAddress, user), 0n)
  assert.equal(await sentBy(user), 0)
})

test('USDT arrives after one approval of Permit2, and again without any', STORY, async () => {
  const wallet = await userWith('USDT', 50n * DOLLAR, parseEther('0.01'))
  const user = wallet.account.address
  // Balances and allowances are read in the background of a quote. USDT with an allowance that is not known gets two
  // approvals: it refuses to change one into another.
  const quoteOf = (amount, steps) =>
    eventually(`a quote with ${steps} steps`, async () => {
      const quote = await getQuote(wallet, 'USDT', amount)
      return quote.steps.length === steps && quote
    })
  await arrives(wallet, await quoteOf(30n * DOLLAR, 2), ['approve', 'authorize1'])
  assert.equal(await sentBy(user), 1)
  const left = await base.balanceOf(zeroAddress, user)
  assert.ok(left < parseEther('0.01'))
  assert.ok((await allowance(base.token('USDT'), user)) > maxUint256 / 2n)

  await arrives(wallet, await quoteOf(20n * DOLLAR, 1), ['authorize1'])
  assert.equal(await sentBy(user), 1)
  assert.equal(await base.balanceOf(zeroAddress, user), left)
  assert.equal(await base.balanceOf(base.token('USDT'), user), 0n)
})

test('USDC becomes WETH on one chain, and the sponsor pays the gas', STORY, async () => {
  const wallet = await userWith('USDC', 30n * DOLLAR)
  const options = { usePermit: true, subsidizeFees: true }
  const change = { toChainId: base.id, toCurrency: base.token('WETH'), options }
  const balance = async () => {
    const [{ amount }] = await client.actions.getAppFees({ wallet: facts.accounts[1].address })
    return BigInt(amount)
  }
  const before = await balance()
  // The SDK shows the key of its client to its vendor's hosts alone.
  const quote = await getQuote(wallet, 'USDC', 30n * DOLLAR, change, { 'x-api-key': facts.apiKey })
  await arrives(wallet, quote, ['authorize2'])
  const received = await base.balanceOf(base.token('WETH'), quote.details.recipient)
  assert.ok(received >= BigInt(quote.details.currencyOut.minimumAmount), `${received} is too little`)
  assert.equal(await base.balanceOf(zeroAddress, wallet.account.address), 0n)
  // Cents, once the block is final.
  const paid = await eventually('the gas is charged', async () => before - (await balance()))
  assert.ok(paid > 0n && paid < DOLLAR / 2n, `${paid} was charged`)
})

test('a refused signature is an APIError, and nothing moves', STORY, async () => {
  const wallet = await userWith('USDC', 5n * DOLLAR)
  const quote = await getQuote(wallet, 'USDC', 20n * DOLLAR)
  const { error } = await execute(client, wallet, quote)
  assert.ok(isAPIError(error), String(error))
  assert.equal(error.rawError.errorCode, 'GASLESS_PERMIT_BALANCE_TOO_LOW')
  assert.equal(error.statusCode, 400)
  assert.equal(await base.balanceOf(base.token('USDC'), wallet.account.address), 5n * DOLLAR)
  const { data } = await client.utils.request({ url: facts.baseUrl + quote.steps[0].items[0].check.endpoint })
  assert.equal(data.status, 'waiting')
})

test('native currency has no permit', STORY, async () => {
  const wallet = walletOf(client, base, generatePrivateKey())
  const change = { currency: zeroAddress, toCurrency: zeroAddress }
  const refused = getQuote(wallet, 'USDC', parseEther('0.1'), change)
  const error = await refused.then(() => assert.fail('quoted'), (error) => error)
  assert.ok(isAPIError(error), String(error))
  assert.equal(error.rawError.errorCode, 'UNSUPPORTED_EXECUTION_TYPE')
})

// The last test, because it checks the calls of all the others.
test('every call went to the local network and was answered', () => onlyLocal(calls, facts, base, ['/execute/permits']))
