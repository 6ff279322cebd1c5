// The SDK, configured for a local network, and the tests' own view of its chains, which bypasses the SDK.

import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'

import { createClient } from '@relayprotocol/relay-sdk'
import { configureDynamicChains } from '@relayprotocol/relay-sdk/chain-utils'
import { createPublicClient, createWalletClient, erc20Abi, http, zeroAddress } from 'viem'
import { generatePrivateKey, privateKeyToAccount, privateKeyToAddress } from 'viem/accounts'

import { network } from './dev.mjs'

const SOURCE = 'causeway.test'
const POLLING_MS = 100
/** The longest wait for a condition on a busy machine, before the run is called stuck. */
const WAIT_LIMIT = 120_000
/** The time limit of a test, which may wait more than once. */
export const STORY = { timeout: 2 * WAIT_LIMIT }

/** A network, the SDK's client for it, and two of its chains. */
export async function world() {
  const { facts, stop } = await network()
  const options = {
    baseApiUrl: facts.baseUrl,
    source: SOURCE,
    pollingInterval: POLLING_MS,
    maxPollingAttemptsBeforeTimeout: WAIT_LIMIT / POLLING_MS,
    confirmationPollingInterval: POLLING_MS,
  }
  createClient(options)
  // The constructor ignores confirmationPollingInterval; a second call configures the same client with it.
  const client = createClient(options)
  await configureDynamicChains()
  const place = (name) => chainOf(facts, name)
  return { facts, stop, client, base: place('base'), optimism: place('optimism') }
}

function chainOf(facts, name) {
  const { id, rpcUrl, tokens, depository } = facts.chains.find((chain) => chain.name === name)
  const token = (symbol) => tokens.find((token) => token.symbol === symbol).address
  const reader = createPublicClient({ transport: http(rpcUrl) })
  const balanceOf = (currency, address) =>
    currency === zeroAddress
      ? reader.getBalance({ address })
      : reader.readContract({ address: currency, abi: erc20Abi, functionName: 'balanceOf', args: [address] })
  return { id, rpcUrl, depository, token, reader, balanceOf }
}

/** A wallet of this key on a chain. */
export function walletOf(client, chain, privateKey) {
  const { viemChain } = client.chains.find(({ id }) => id === chain.id)
  // viem knows these ids as public networks: without the URL it would go there.
  return createWalletClient({
    account: privateKeyToAccount(privateKey),
    chain: viemChain,
    transport: http(chain.rpcUrl),
  })
}

/** An unused address: its balance is the amount received. */
export const newcomer = () => privateKeyToAddress(generatePrivateKey())

/** Executes a quote to its end, successful or not, and returns the outcome, the last progress and the statuses. */
export async function execute(client, wallet, quote) {
  const progress = []
  const statuses = []
  const onProgress = (state) => {
    progress.push(state)
    const status = state.currentStepItem?.checkStatus
    if (status && status !== statuses.at(-1)) statuses.push(status)
  }
  const outcome = await client.actions
    .execute({ quote, wallet, onProgress })
    .then(({ data }) => ({ data }), (error) => ({ error }))
  return { ...outcome, last: progress.at(-1), statuses }
}

/** Repeats a question until its answer is true, and returns that. */
export async function eventually(what, ask, until = Date.now() + WAIT_LIMIT) {
  for (;;) {
    const answer = await ask()
    if (answer) return answer
    assert.ok(Date.now() < until, what)
    await sleep(POLLING_MS)
  }
}

/** Checks that recorded calls went to the local network, and were answered well but for those of `refused` paths. */
export function onlyLocal(calls, facts, chain, refused = []) {
  // Both kinds of calls are recorded at all.
  for (const origin of [facts.baseUrl, chain.rpcUrl]) assert.ok(calls.some(({ url }) => url.origin === origin), origin)
  const outside = calls.filter(({ url }) => url.hostname !== '127.0.0.1')
  assert.deepEqual(outside.map(({ url }) => url.href), [])
  // A hint only: deposits are found without it, and the SDK ignores its answer. Refusals of quotes are tested by name.
  const exempt = ['/transactions/index', '/quote/v2', ...refused]
  const ours = calls.filter(({ url }) => url.origin === facts.baseUrl && !exempt.includes(url.pathname))
  const unanswered = ours.filter(({ status }) => status !== 200)
  assert.deepEqual(unanswered.map(({ method, url, status }) => `${method} ${url.pathname} ${status}`), [])
}
