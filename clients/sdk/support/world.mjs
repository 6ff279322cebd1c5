// The SDK, configured for a local network, and the tests' own view of its chains, which bypasses the SDK.

import { createClient } from '@relayprotocol/relay-sdk'
import { configureDynamicChains } from '@relayprotocol/relay-sdk/chain-utils'
import { createPublicClient, createWalletClient, erc20Abi, http, zeroAddress } from 'viem'
import { generatePrivateKey, privateKeyToAccount, privateKeyToAddress } from 'viem/accounts'

import { network } from './dev.mjs'

const SOURCE = 'causeway.test'
const POLLING_MS = 100

/** A network, the SDK's client for it, and two of its chains. */
export async function world() {
  const { facts, stop } = await network()
  const options = {
    baseApiUrl: facts.baseUrl,
    source: SOURCE,
    pollingInterval: POLLING_MS,
    maxPollingAttemptsBeforeTimeout: 20_000 / POLLING_MS,
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
