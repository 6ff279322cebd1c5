// Wallets of a browser's page, as scripts that run in the page itself: they use nothing of this file.

/** A wallet as extensions bring it (EIP-6963); the test wallet's key signs for it. */
export function announcedWallet() {
  const ask = async (fields) => {
    const body = new URLSearchParams(fields)
    const answer = await fetch('/dashboard/test-wallet', { method: 'POST', body })
    return (await answer.json()).result
  }
  const request = async ({ method, params = [] }) => {
    if (method === 'eth_requestAccounts') return ask({ method })
    if (method === 'personal_sign') return ask({ method, message: params[0] })
    throw new Error(`${method} is not known`)
  }
  const info = { uuid: 'a0b1c2d3', name: 'Announced', icon: 'data:,', rdns: 'example.announced' }
  const announce = () => dispatchEvent(new CustomEvent('eip6963:announceProvider', { detail: Object.freeze({ info, provider: { request } }) }))
  addEventListener('eip6963:requestProvider', announce)
  announce()
}

/** The transactions and errors of wallets that stay on another chain or move to one. */
export async function chainsOfMoney() {
  const { send, useChain } = await import('/dashboard/assets/wallet.js')
  const chain = { id: 10, name: 'Optimism', rpcUrl: 'http://127.0.0.1:1', native: {} }
  // A wallet that has to be told of a chain, and that stays where it is for the first so many wishes to move.
  const wallet = (stays) => {
    let [known, on, wishes, sent] = [false, 1, 0, []]
    const request = async ({ method, params }) => {
      if (method === 'eth_chainId') return `0x${on.toString(16)}`
      if (method === 'wallet_addEthereumChain') known = true
      if (method === 'wallet_switchEthereumChain') {
        if (!known) throw Object.assign(new Error('unknown'), { code: 4902 })
        wishes += 1
        if (wishes > stays) on = Number(params[0].chainId)
      }
      if (method === 'eth_sendTransaction') sent.push(params[0])
      if (method === 'eth_getTransactionReceipt') return { status: '0x1' }
      return method === 'eth_sendTransaction' ? '0xab' : null
    }
    return { provider: { request }, sent, move: (id) => { on = id } }
  }
  const failed = (act) => act.then(() => '', (error) => error.message)
  const transaction = { from: '0x1', to: '0x2', data: '0x', value: 5, chainId: 10 }
  const good = wallet(0)
  await useChain(good.provider, chain)
  await send(good.provider, transaction)
  const stubborn = wallet(9)
  const moved = wallet(0)
  await useChain(moved.provider, chain)
  moved.move(1)
  return {
    sent: good.sent,
    stays: await failed(useChain(stubborn.provider, chain)),
    moved: await failed(send(moved.provider, transaction)),
    nowhere: await failed(send(good.provider, { ...transaction, chainId: undefined })),
    after: [stubborn.sent.length, moved.sent.length, good.sent.length],
  }
}

/** The transactions sent if the node is away or the transaction fails, and somebody clicks again. */
export async function repeatedClicks() {
  const { memory, sendOnce } = await import('/dashboard/assets/wallet.js')
  let [sent, away, status] = [0, true, '0x1']
  const request = async ({ method }) => {
    if (method === 'eth_chainId') return '0xa'
    if (method === 'eth_sendTransaction') return `0x${(sent += 1)}`
    if (away) throw new Error('the node is away')
    return { status }
  }
  const attempt = (item) => sendOnce({ request }, memory('a test'), item, { from: '0x1', to: '0x2', data: '0x', value: 1, chainId: 10 })
    .catch((error) => error.message)
  const said = [await attempt('0.0')]
  away = false
  said.push(await attempt('0.0'))
  status = '0x0'
  said.push(await attempt('0.1'))
  status = '0x1'
  said.push(await attempt('0.1'))
  return { said, sent }
}
