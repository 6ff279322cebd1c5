// The dashboard as people use it, on a local network: one story after the other, in one browser.

import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { dirname, join } from 'node:path'
import { after, before, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'

import { network } from '../../clients/sdk/support/dev.mjs'
import { findings, launch, LOOKS, open, screenshot } from '../support/browser.mjs'
import { history } from '../support/history.mjs'
import { receiver } from '../support/receiver.mjs'
import { announcedWallet, chainsOfMoney, repeatedClicks } from '../support/wallets.mjs'

const LIMIT = 120_000
const LIFE_LIMIT = 900_000

let net
let browser
let hooks
let main
const at = (path) => `${net.facts.baseUrl}${path}`
const own = { local: '', key: '', request: '', refunded: '', awaited: '' }
const run = promisify(execFile)

before(async () => {
  net = await network([], { life: LIFE_LIMIT })
  browser = await launch()
  hooks = await receiver()
  main = await open(browser)
  main.page.setDefaultTimeout(LIMIT)
})

after(async () => {
  await browser?.close()
  hooks?.close()
  await net?.stop()
})

/** Waits for a condition of the page, which is loaded again in between. */
async function until(page, path, holds) {
  const began = Date.now()
  for (;;) {
    await page.goto(at(path))
    if (await holds()) return
    assert.ok(Date.now() - began < LIMIT, `${path} never came to it: ${await page.locator('main').innerText()}`)
    await sleep(500)
  }
}

test('the first address that dev writes is the dashboard', async () => {
  assert.equal(net.facts.dashboard, at('/dashboard'))
  await main.page.goto(net.facts.dashboard)
  assert.equal(new URL(main.page.url()).pathname, '/dashboard/sign-in')
  await main.page.goto(at('/'))
  assert.equal(new URL(main.page.url()).pathname, '/dashboard/sign-in')
})

/** Sends transactions from the test wallet, as the page's own scripts do. */
async function pay(page, transactions) {
  await page.evaluate(async (all) => {
    const { post } = await import('/dashboard/assets/wallet.js')
    for (const { chainId, to, data, value } of all) {
      await post('/dashboard/test-wallet', { method: 'eth_sendTransaction', chainId, to, data, value })
    }
  }, transactions)
}

/** The transactions of a quote from the first chain's currency to the second's, under the key of the local network. */
async function quoted(more) {
  const [base, optimism] = net.facts.chains
  const zero = `0x${'0'.repeat(40)}`
  const user = net.facts.accounts[1].address
  const ask = { user, recipient: user, originChainId: base.id, destinationChainId: optimism.id, originCurrency: zero,
    destinationCurrency: zero, amount: '20000000000000000', tradeType: 'EXACT_INPUT', ...more }
  const headers = { 'content-type': 'application/json', 'x-api-key': net.facts.apiKey }
  const quote = await (await fetch(at('/quote/v2'), { method: 'POST', headers, body: JSON.stringify(ask) })).json()
  assert.ok(quote.steps, JSON.stringify(quote))
  return { id: quote.steps[0].requestId, items: quote.steps.flatMap((step) => step.items.map((item) => item.data)) }
}

test('a wallet signs in', async () => {
  const { page } = main
  await page.getByText('No wallet was found in this browser.').waitFor()
  assert.equal(await page.locator('main button').count(), 1, 'the test wallet is offered twice')
  await page.getByRole('button', { name: 'Use the test wallet' }).click()
  await page.waitForURL(at('/dashboard')).catch(async (error) => {
    assert.fail(`${page.url()} says: ${await page.locator('main').innerText()}\n${main.complaints.join('\n')}\n${error.message}`)
  })
  await page.getByRole('button', { name: 'Sign out' }).click()
  await page.waitForURL(at('/dashboard/sign-in'))
  await page.getByRole('button', { name: 'Use the test wallet' }).click()
  await page.waitForURL(at('/dashboard'))
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
})

test('transfers of six days are on the overview', async () => {
  const { page } = main
  await page.goto(at('/dashboard/keys'))
  own.local = await page.getByRole('link', { name: 'local', exact: true }).getAttribute('href')
  // Calls are counted every ten seconds. Only a picture needs each day's own.
  const today = page.locator('tr', { hasText: 'Quotes' }).locator('td').nth(2)
  const counted = (calls) => process.env.SCREENSHOTS && until(page, own.local, async () => Number(await today.innerText()) >= calls)
  await history(net, counted)
  const chart = page.locator('section', { has: page.getByRole('heading', { name: 'Requests by day' }) })
  // Across midnight the first of the days is out of the week.
  await until(page, '/dashboard', async () => (await chart.locator('rect.c-good').count()) >= 5)
})

test('a wallet that announces itself signs in', async () => {
  const { context, page, complaints } = await open(browser)
  await context.addInitScript(announcedWallet)
  await page.goto(at('/dashboard/sign-in'))
  const buttons = page.getByRole('button', { name: 'Sign in with Announced' })
  await buttons.click()
  await page.waitForURL(at('/dashboard'))
  await page.getByRole('heading', { name: 'Overview' }).waitFor()
  assert.deepEqual(complaints, [])
  await context.close()
})

test('money goes to the chain that it is for, or nowhere', async () => {
  const { page } = main
  await page.goto(at('/dashboard/transfer'))
  const told = await page.evaluate(chainsOfMoney)
  assert.deepEqual(told.sent, [{ from: '0x1', to: '0x2', data: '0x', value: '0x5', chainId: '0xa' }])
  for (const refusal of [told.stays, told.moved, told.nowhere]) assert.match(refusal, /nothing was sent/)
  assert.deepEqual(told.after, [0, 0, 1])
})

test('a transaction that was sent is not sent again by another click', async () => {
  const { page } = main
  await page.goto(at('/dashboard/transfer'))
  const told = await page.evaluate(repeatedClicks)
  assert.deepEqual(told, { said: ['the node is away', '0x1', 'the transaction 0x2 failed', '0x3'], sent: 3 })
})

test('a key is created, shown once and renamed', async () => {
  const { page } = main
  await page.goto(at('/dashboard/keys'))
  await page.locator('#name').fill('Browser test')
  await page.keyboard.press('Enter')
  const secret = await page.locator('#secret').inputValue()
  assert.match(secret, /^cwk_[0-9a-f]{64}$/)
  await screenshot(page, 'key-once')
  await page.getByRole('link', { name: 'Done' }).click()
  own.key = page.url().split('/').at(-1)
  assert.ok(!(await page.content()).includes(secret), 'the key is shown again')
  await page.locator('#name').fill('Renamed')
  await page.getByRole('button', { name: 'Rename', exact: true }).click()
  await page.getByRole('heading', { level: 1, name: 'Renamed' }).waitFor()
  const answer = await fetch(at('/requests/v3'), { headers: { 'x-api-key': secret } })
  assert.equal(answer.status, 200)
})

test('a webhook is configured and tested', async () => {
  const { page } = main
  await page.goto(at(`/dashboard/keys/${own.key}/webhooks`))
  await page.locator('#url').fill(hooks.url)
  await page.locator('#headers').fill('X-Test: yes')
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByText('The endpoint is saved.').waitFor()
  await page.getByRole('button', { name: 'Send a test event' }).click()
  await until(page, `/dashboard/keys/${own.key}/webhooks`, () => page.getByText('delivered', { exact: true }).first().isVisible())
  assert.equal(hooks.events.length, 1)
  assert.equal(hooks.events[0].headers['x-test'], 'yes')
  await screenshot(page, 'webhooks-delivered')
  await page.getByRole('button', { name: /^Replay delivery/ }).first().click()
  await page.getByText('The delivery is due again.').waitFor()
  await until(page, `/dashboard/keys/${own.key}/webhooks`, () => hooks.events.length === 2)
  assert.deepEqual(hooks.events[1].body, hooks.events[0].body)
})

test('a wallet is linked and its balance funded', async () => {
  const { page } = main
  await page.goto(at(`/dashboard/keys/${own.key}`))
  await page.getByRole('button', { name: 'Link Test wallet' }).click()
  await page.getByText('none: fees cannot be sponsored').waitFor({ state: 'detached' })
  await page.goto(at('/dashboard/balance'))
  const before = await page.locator('[data-live="balance"]').innerText()
  await page.locator('#deposit-amount').fill('5')
  await page.getByRole('button', { name: 'Deposit with a wallet' }).click()
  await page.locator('#deposit-said', { hasText: 'Sent in' }).waitFor()
  await until(page, '/dashboard/balance', async () => (await page.locator('[data-live="balance"]').innerText()) !== before)
  assert.ok(await page.locator('td[title="balance-topup"]', { hasText: 'Deposit' }).first().isVisible())
})

/** Goes to a control with the Tab key, as somebody without a mouse does. */
async function tabTo(page, control) {
  for (let tries = 0; tries < 100; tries += 1) {
    if (await control.evaluate((it) => it === document.activeElement)) return
    await page.keyboard.press('Tab')
  }
  assert.fail(`the keyboard does not reach ${control}`)
}

test('a transfer is quoted, signed and watched until it arrives, by keyboard', async () => {
  const { page } = main
  await page.goto(at('/dashboard'))
  await tabTo(page, page.getByRole('link', { name: 'Transfer', exact: true }))
  await page.keyboard.press('Enter')
  await page.waitForURL(at('/dashboard/transfer'))
  await page.locator('#key').selectOption({ label: 'Renamed' })
  await tabTo(page, page.getByRole('button', { name: 'Quote' }))
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { name: 'The quote' }).waitFor()
  const signing = page.getByRole('button', { name: 'Sign with Test wallet' })
  await signing.waitFor()
  await tabTo(page, signing)
  await page.keyboard.press('Enter')
  await page.waitForURL(/\/dashboard\/requests\/0x/)
  own.request = page.url().split('/').at(-1)
  // The page moves by itself: it is not loaded again here.
  await page.locator('[data-live="request"] .status', { hasText: 'success' }).first().waitFor()
  await page.getByRole('heading', { name: 'Timeline' }).waitFor()
})

test('a transfer is paid at an address by its code and watched until it arrives', async () => {
  const { page } = main
  const [base] = net.facts.chains
  await page.goto(at('/dashboard/transfer'))
  await page.locator('#key').selectOption({ label: 'Renamed' })
  await page.locator('#pay').selectOption('address')
  await page.getByRole('button', { name: 'Quote' }).click()
  const code = page.locator('svg.qr')
  await code.waitFor()
  const address = await page.locator('#pay-address code').innerText()
  assert.match(address, /^0x[0-9a-fA-F]{40}$/)
  assert.equal(await code.getAttribute('data-text'), address)
  assert.ok((await code.locator('path').getAttribute('d')).length > 1000, 'the code is empty')
  assert.equal(await page.locator('#pay-amount').innerText(), '0.01 ETH')
  await pay(page, [{ chainId: base.id, to: address, data: '0x', value: '10000000000000000' }])
  // The page finds the payment by itself and goes on to the request's.
  await page.waitForURL(/\/dashboard\/requests\/0x/)
  await page.locator('[data-live="request"] .status', { hasText: 'success' }).first().waitFor()
  assert.equal(await code.count(), 0, 'a payment is asked for that was made')
  // One that nobody has paid yet asks for its payment on its own page.
  own.awaited = (await quoted({ useDepositAddress: true, refundTo: net.facts.accounts[1].address })).id
  await until(page, `/dashboard/requests/${own.awaited}`, () => code.isVisible())
})

test('a forced refund and the transfer are found in Requests', async () => {
  const { page } = main
  const refunded = await quoted({ referrer: 'debug-force-refund' })
  const sponsored = await quoted({ subsidizeFees: true })
  own.refunded = refunded.id
  await page.goto(at('/dashboard/transfer'))
  await pay(page, [...refunded.items, ...sponsored.items])
  for (const [id, status] of [[own.refunded, 'refund'], [own.request, 'success']]) {
    await until(page, `/dashboard/requests?status=${status}&term=${id}`, () =>
      page.locator(`tbody a[href="/dashboard/requests/${id}"]`).isVisible())
  }
  await page.goto(at('/dashboard/requests?status=success'))
  await page.locator('#view-name').fill('Arrived')
  await page.getByRole('button', { name: 'Save the view' }).click()
  await page.getByRole('link', { name: 'Arrived' }).waitFor()
  assert.ok(page.url().endsWith('?status=success'), page.url())
  const [download] = await Promise.all([page.waitForEvent('download'), page.getByRole('link', { name: 'CSV' }).click()])
  assert.equal(download.suggestedFilename(), 'requests.csv')
})

test('reading, quoting and the test wallet work without JavaScript', async () => {
  const { context, page } = await open(browser, { javaScriptEnabled: false })
  await page.goto(at('/dashboard/sign-in'))
  await page.getByRole('button', { name: 'Use the test wallet' }).click()
  const key = `/dashboard/keys/${own.key}`
  const paths = ['', '/transfer', '/requests', `/requests/${own.request}`, '/keys', '/webhooks', '/balance', '/operator']
  for (const path of [...paths.map((it) => `/dashboard${it}`), key, `${key}/webhooks`]) {
    const answer = await page.goto(at(path))
    assert.equal(answer.status(), 200, path)
    assert.ok(await page.locator('h1').isVisible(), path)
  }
  await page.goto(at('/dashboard/transfer'))
  const sides = async () => Promise.all(['#fromChain', '#toChain'].map((side) => page.locator(side).inputValue()))
  const [from, to] = await sides()
  await page.getByRole('button', { name: 'Switch direction' }).click()
  assert.deepEqual(await sides(), [to, from])
  // The Enter key quotes; it does not switch.
  await page.locator('#amount').press('Enter')
  await page.getByRole('heading', { name: 'The quote' }).waitFor()
  assert.deepEqual(await sides(), [to, from])
  assert.match(await page.locator('#receives').innerText(), /^0\.\d+ ETH$/)
  // Text in a `noscript` is found by no text selector.
  await page.locator('noscript .notice').waitFor()
  await context.close()
})

test('an operator refunds what cannot be filled', async () => {
  const { page } = main
  const optimism = net.facts.chains[1]
  const rpc = async (method, params) => {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
    const answer = await fetch(optimism.rpcUrl, { method: 'POST', headers: { 'content-type': 'application/json' }, body })
    return (await answer.json()).result
  }
  await page.goto(at('/dashboard/operator'))
  const lanes = page.locator('section', { has: page.getByRole('heading', { name: 'Lanes' }) })
  const copies = lanes.locator('table', { hasText: 'Optimism' }).locator('button[data-copy]')
  const wallets = await copies.evaluateAll((buttons) => buttons.map((button) => button.dataset.copy))
  assert.ok(wallets.length > 0, 'no lanes')
  await page.goto(at('/dashboard/transfer'))
  await page.getByRole('button', { name: 'Quote' }).click()
  await page.getByRole('heading', { name: 'The quote' }).waitFor()
  // The fillers of the destination lose their funds between the quote and the deposit.
  const had = await Promise.all(wallets.map((wallet) => rpc('eth_getBalance', [wallet, 'latest'])))
  await Promise.all(wallets.map((wallet) => rpc('anvil_setBalance', [wallet, '0x0'])))
  const began = Date.now()
  for (;;) {
    const { liquidity } = await (await fetch(at(`/chains/liquidity?chainId=${optimism.id}`))).json()
    if (liquidity?.some(({ symbol, balance }) => symbol === 'ETH' && balance === '0')) break
    assert.ok(Date.now() - began < LIMIT, 'the service does not see that its funds are gone')
    await sleep(250)
  }
  await page.getByRole('button', { name: 'Sign with Test wallet' }).click()
  await page.waitForURL(/\/dashboard\/requests\/0x/)
  const path = new URL(page.url()).pathname
  await until(page, path, () => page.getByText('A fill on Optimism waits').isVisible())
  await screenshot(page, 'request-waits')
  await page.locator('#reason').fill('there are no funds')
  await page.getByRole('button', { name: 'Give up the fill and refund' }).click()
  await page.getByText('The request is being refunded.').waitFor()
  await until(page, path, () => page.locator('[data-live="request"][data-status="refund"]').isVisible())
  await Promise.all(wallets.map((wallet, index) => rpc('anvil_setBalance', [wallet, had[index]])))
  await page.goto(at('/dashboard/operator'))
  assert.ok(await page.getByText('there are no funds', { exact: true }).first().isVisible())
})

test('an operator pauses a chain and resumes it, with who and why', async () => {
  const { page } = main
  const form = page.locator('form[action="/dashboard/operator/pause"]')
  const set = async (button, reason) => {
    await page.goto(at('/dashboard/operator'))
    await form.locator('#chain').selectOption({ label: 'Arbitrum' })
    await form.locator('#pause-reason').fill(reason)
    await form.getByRole('button', { name: button, exact: true }).click()
  }
  await set('Pause', 'its sequencer is being upgraded')
  await page.getByText('The chain is paused.').waitFor()
  const alarm = page.locator('.notice.bad', { hasText: 'chain-paused' })
  assert.match(await alarm.innerText(), /its sequencer is being upgraded/)
  const arbitrum = net.facts.chains.find(({ name }) => name === 'arbitrum')
  const { chains } = await (await fetch(at('/chains'))).json()
  assert.equal(chains.find(({ id }) => id === arbitrum.id).disabled, true)
  await screenshot(page, 'operator-paused')
  await page.goto(at('/dashboard/operator'))
  await form.locator('#chain').selectOption({ label: 'Arbitrum (paused)' })
  await form.locator('#pause-reason').fill('the upgrade is done')
  await form.getByRole('button', { name: 'Resume', exact: true }).click()
  await page.getByText('The chain is not paused any more.').waitFor()
  assert.equal(await alarm.count(), 0)
  const actions = page.locator('section', { has: page.getByRole('heading', { name: 'Actions' }) })
  assert.ok(await actions.getByText('the upgrade is done').isVisible())
})

test('the operator sees the last audit and that the depositories are solvent', async () => {
  const { page } = main
  await page.goto(at('/dashboard/operator'))
  await page.getByText('None has been run.').waitFor()
  const config = join(dirname(net.facts.database.replace(/^sqlite:/, '')), 'dev.toml')
  await run(net.binary, ['audit', '--config', config])
  await page.goto(at('/dashboard/operator'))
  await page.getByText('Nothing differs.').waitFor()
  await until(page, '/dashboard/operator', () => page.getByText('solvent', { exact: true }).first().isVisible())
  assert.equal(await page.getByText('short', { exact: true }).count(), 0)
})

test('sponsored fees are on the overview', async () => {
  const { page } = main
  await until(page, '/dashboard', () => page.getByRole('heading', { name: 'Sponsored fees by day' }).isVisible())
})

test('an operator is refused the refund of what has arrived, and that is recorded', async () => {
  const { page } = main
  await page.goto(at('/dashboard/operator'))
  await page.locator('#request').fill(own.request)
  await page.locator('#refund-reason').fill('a test')
  const expected = main.complaints.length
  await page.getByRole('button', { name: 'Give up the fill and refund' }).click()
  await page.getByRole('alert').waitFor()
  // The browser reports the refusal's status; that is the one complaint which is meant.
  main.complaints.splice(expected)
  await page.goto(at('/dashboard/operator'))
  assert.ok(await page.getByText('a test', { exact: true }).first().isVisible())
})

/** The page shown is good to see and to hear, fits the screen, and is kept as a picture. */
async function isGood(shown, look, name) {
  assert.deepEqual(await findings(shown.page), [])
  const wider = await shown.page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
  assert.ok(wider <= 0, `${shown.page.url()} is ${wider} px wider than the screen in ${look}`)
  await screenshot(shown.page, `${name}-${look}`)
}

test('every page is good to see and to hear, in every look', async () => {
  const pages = {
    overview: '/dashboard', transfer: '/dashboard/transfer', requests: '/dashboard/requests',
    request: `/dashboard/requests/${own.request}`, refund: `/dashboard/requests/${own.refunded}`,
    awaited: `/dashboard/requests/${own.awaited}`, keys: '/dashboard/keys', key: own.local, webhooks: `/dashboard/keys/${own.key}/webhooks`,
    balance: '/dashboard/balance', operator: '/dashboard/operator', missing: '/dashboard/nowhere',
  }
  for (const look of LOOKS) {
    const { name, colorScheme, width, height } = look
    const state = await main.context.storageState()
    const shown = await open(browser, { colorScheme, viewport: { width, height }, storageState: state })
    for (const [page, path] of Object.entries(pages)) {
      const answer = await shown.page.goto(at(path))
      assert.equal(answer.status(), page === 'missing' ? 404 : 200, path)
      assert.ok((await answer.body()).length < 100 * 1024, `${path} is too large`)
      await isGood(shown, name, page)
      if (page !== 'requests') continue
      const cut = await shown.page.locator('.scroll:has(table.stack)').evaluate((it) => it.scrollWidth - it.clientWidth)
      assert.ok(cut <= 0, `the table of requests is cut by ${cut} px in ${name}`)
    }
    for (const [page, way] of [['quote', 'wallet'], ['address', 'address']]) {
      await shown.page.goto(at('/dashboard/transfer'))
      await shown.page.locator('#pay').selectOption(way)
      await shown.page.getByRole('button', { name: 'Quote' }).click()
      await shown.page.getByRole('heading', { name: 'The quote' }).waitFor()
      await isGood(shown, name, page)
    }
    assert.deepEqual(shown.complaints.filter((text) => !text.includes('404')), [])
    await shown.context.close()
  }
})

test('the sign-in page is good to see, and nothing complained', async () => {
  for (const { name, colorScheme, width, height } of LOOKS) {
    const shown = await open(browser, { colorScheme, viewport: { width, height } })
    await shown.page.goto(at('/dashboard/sign-in'))
    await isGood(shown, name, 'sign-in')
    assert.deepEqual(shown.complaints, [])
    await shown.context.close()
  }
  assert.deepEqual(main.complaints, [])
})
