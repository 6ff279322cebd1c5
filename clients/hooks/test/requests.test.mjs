// The hooks' own calls to `GET /requests/v2`, as widgets make them: unchanged until the sunset, and the day after.

import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'

import { queryRequests, useRequests } from '@relayprotocol/relay-kit-hooks'
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { createElement } from 'react'
import { act, create } from 'react-test-renderer'
import { createWalletClient, http, zeroAddress } from 'viem'
import { generatePrivateKey, privateKeyToAccount, privateKeyToAddress } from 'viem/accounts'

import { network } from '../../sdk/support/dev.mjs'

const LIMIT = { timeout: 180_000 }
globalThis.IS_REACT_ACT_ENVIRONMENT = true

/** The result of `useRequests`, once it has an answer or an error. */
async function rendered(baseUrl, options) {
  let result
  const Probe = () => {
    result = useRequests(options, baseUrl)
    return null
  }
  const client = new QueryClient()
  let tree
  await act(async () => {
    tree = create(createElement(QueryClientProvider, { client }, createElement(Probe)))
  })
  for (let round = 0; result.isPending && round < 6_000; round += 1) {
    await act(() => new Promise((resolve) => setTimeout(resolve, 20)))
  }
  await act(async () => tree.unmount())
  client.clear()
  return result
}

describe('until the sunset', () => {
  let facts, stop, sent

  before(async () => {
    // Whatever today is.
    ;({ facts, stop } = await network(['--requests-v2-sunset', '9999-12-31']))
    sent = await transfer(facts)
  }, { timeout: 240_000 })
  after(() => stop?.())

  test('the request is found by its id', LIMIT, async () => {
    const { requests, continuation } = await queryRequests(facts.baseUrl, { id: sent.requestId })
    assert.equal(continuation, undefined)
    const [request] = requests
    assert.equal(requests.length, 1)
    assert.deepEqual([request.id, request.status], [sent.requestId, 'success'])
    assert.equal(request.user.toLowerCase(), sent.user.toLowerCase())
    const { inTxs, outTxs, metadata } = request.data
    assert.equal(inTxs[0].hash, sent.txHash)
    assert.equal(inTxs[0].chainId, sent.chainId)
    assert.equal(outTxs[0].chainId, sent.toChainId)
    // The widget's fill time, in seconds.
    const fillTime = Math.max(...outTxs.map((tx) => tx.timestamp)) - Math.min(...inTxs.map((tx) => tx.timestamp))
    assert.ok(fillTime >= 0 && fillTime < 60, `${fillTime}`)
    assert.equal(metadata.currencyIn.amount, sent.amount)
    assert.equal(metadata.currencyOut.amount, sent.amountOut)
    assert.ok(Number(metadata.currencyOut.amountUsd) > 0 && metadata.currencyOut.currency.symbol === 'ETH')
  })

  test('and by its user and hash, on either side', LIMIT, async () => {
    for (const [user, hash] of [
      [sent.user, sent.txHash],
      [sent.recipient, sent.txHash],
    ]) {
      const { requests } = await queryRequests(facts.baseUrl, { user, hash })
      assert.deepEqual(requests.map(({ id }) => id), [sent.requestId])
    }
  })

  test('the hook shows it', LIMIT, async () => {
    const { data, error, hasNextPage } = await rendered(facts.baseUrl, { user: sent.user, limit: 1 })
    assert.equal(error, null)
    assert.equal(data[0].id, sent.requestId)
    assert.equal(hasNextPage, false)
  })

  test('every answer announces the end', LIMIT, async () => {
    const response = await fetch(`${facts.baseUrl}/requests/v2`)
    assert.equal(response.headers.get('sunset'), 'Fri, 31 Dec 9999 00:00:00 GMT')
    assert.match(response.headers.get('deprecation'), /^@\d+$/)
  })
})

describe('after the sunset', () => {
  let facts, stop

  before(async () => {
    ;({ facts, stop } = await network(['--requests-v2-sunset', '2026-07-22']))
  }, { timeout: 240_000 })
  after(() => stop?.())

  test('a query fails with our words', LIMIT, async () => {
    const error = await queryRequests(facts.baseUrl, { user: zeroAddress }).then(() => assert.fail(), (error) => error)
    assert.equal(error.message, `this listing has been retired, use ${facts.baseUrl}/requests/v3`)
  })

  test('the hook shows nothing, with an error, and does not try again', LIMIT, async () => {
    const { data, isError, error, failureCount } = await rendered(facts.baseUrl, { user: zeroAddress })
    assert.deepEqual([data, isError, failureCount], [[], true, 1])
    assert.match(error.message, /retired/)
  })
})

/** Sends ETH from one chain to the other. */
async function transfer(facts) {
  const [base, optimism] = ['base', 'optimism'].map((name) => facts.chains.find((chain) => chain.name === name))
  const account = privateKeyToAccount(facts.accounts.at(-1).privateKey)
  const wallet = createWalletClient({ account, transport: http(base.rpcUrl) })
  const recipient = privateKeyToAddress(generatePrivateKey())
  const ask = {
    user: account.address,
    recipient,
    originChainId: base.id,
    destinationChainId: optimism.id,
    originCurrency: zeroAddress,
    destinationCurrency: zeroAddress,
    amount: '50000000000000000',
    tradeType: 'EXACT_INPUT',
  }
  const headers = { 'content-type': 'application/json' }
  const quoted = await fetch(`${facts.baseUrl}/quote/v2`, { method: 'POST', headers, body: JSON.stringify(ask) })
  const quote = await quoted.json()
  assert.equal(quoted.status, 200, JSON.stringify(quote))
  const step = quote.steps.at(-1)
  const { to, data, value, gas } = step.items[0].data
  const chain = { id: base.id, name: base.name, nativeCurrency: {}, rpcUrls: { default: { http: [base.rpcUrl] } } }
  const txHash = await wallet.sendTransaction({ to, data, value: BigInt(value), gas: gas && BigInt(gas), chain })
  const until = Date.now() + 120_000
  for (;;) {
    const { requests } = await queryRequests(facts.baseUrl, { id: step.requestId })
    const [request] = requests
    if (request?.status === 'success' && request.data.inTxs.length && request.data.outTxs.length) break
    assert.ok(Date.now() < until, `not filled in time: ${JSON.stringify(request?.status)}`)
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  return {
    requestId: step.requestId,
    txHash,
    user: account.address,
    recipient,
    chainId: base.id,
    toChainId: optimism.id,
    amount: ask.amount,
    amountOut: quote.details.currencyOut.amount,
  }
}
