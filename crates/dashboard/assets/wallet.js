// Wallets of this browser (EIP-6963, EIP-1193), the test wallet of a local network, and what pages ask of them.

const meta = (name) => document.querySelector(`meta[name="${name}"]`)?.content ?? '';

/** Posts a form as a script; refusals are thrown in the words of the page that was answered. */
export async function post(path, fields) {
  const response = await fetch(path, {
    method: 'POST',
    headers: { 'x-form-token': meta('form-token') },
    body: new URLSearchParams(fields),
    redirect: 'manual',
  });
  if (response.type === 'opaqueredirect') return response;
  if (!response.ok) {
    const page = new DOMParser().parseFromString(await response.text(), 'text/html');
    throw new Error(page.querySelector('[role="alert"]')?.textContent.trim() || `refused with ${response.status}`);
  }
  return response;
}

/** The test wallet, as a provider like any other. */
function testWallet() {
  let chain = 1;
  const ask = async (fields) => (await (await post('/dashboard/test-wallet', fields)).json()).result;
  return {
    request: async ({ method, params = [] }) => {
      switch (method) {
        case 'eth_accounts':
        case 'eth_requestAccounts':
          return ask({ method: 'eth_requestAccounts' });
        case 'personal_sign':
          return ask({ method, message: params[0] });
        case 'eth_chainId':
          return `0x${chain.toString(16)}`;
        case 'wallet_switchEthereumChain':
          chain = Number(params[0].chainId);
          return null;
        case 'eth_sendTransaction': {
          const { to, data = '0x', value = '0x0', chainId } = params[0];
          if (chainId && Number(chainId) !== chain) throw new Error(`the test wallet is on the chain ${chain}`);
          return ask({ method, chainId: chain, to, data, value });
        }
        case 'eth_getTransactionReceipt':
          return ask({ method, chainId: chain, hash: params[0] });
        default:
          throw new Error(`the test wallet does not know ${method}`);
      }
    },
  };
}

/** Calls back with every wallet that is found, each once: `{ name, provider }`. */
export function discover(found) {
  const seen = new Set();
  const add = (id, name, provider) => {
    if (seen.has(id)) return;
    seen.add(id);
    found({ name, provider });
  };
  if (meta('test-wallet') === 'yes') add('test', 'Test wallet', testWallet());
  addEventListener('eip6963:announceProvider', (event) => {
    const { info, provider } = event.detail;
    add(info.uuid, String(info.name).slice(0, 40), provider);
  });
  dispatchEvent(new Event('eip6963:requestProvider'));
  setTimeout(() => {
    if (window.ethereum && ![...seen].some((id) => id !== 'test')) add('injected', 'Browser wallet', window.ethereum);
  }, 300);
}

/**
 * Shows a button for each wallet. `use` gets the provider; what it throws is shown, and only then can it be tried again:
 * whatever was done is not done twice.
 */
export function choices(box, label, use) {
  const problem = document.getElementById('problem');
  discover(({ name, provider }) => {
    const button = document.createElement('button');
    button.type = 'button';
    // A wallet that is found late is no way around one that is at work.
    button.disabled = Boolean(box.querySelector('button:disabled'));
    button.className = 'primary';
    button.textContent = `${label} ${name}`;
    button.addEventListener('click', async () => {
      if (problem) problem.hidden = true;
      for (const it of box.querySelectorAll('button')) it.disabled = true;
      try {
        await use(provider);
      } catch (error) {
        if (problem) {
          problem.textContent = error?.message ?? String(error);
          problem.hidden = false;
        }
        for (const it of box.querySelectorAll('button')) it.disabled = false;
      }
    });
    box.append(button);
  });
}

async function accounts(provider) {
  const all = await provider.request({ method: 'eth_requestAccounts' });
  if (!all?.length) throw new Error('the wallet gave no account');
  return all;
}

export async function account(provider) {
  return (await accounts(provider))[0];
}

/** An account of the wallet that is one of these; with no other does anything go on. */
export async function accountAmong(provider, wanted) {
  const all = await accounts(provider);
  const same = (one, other) => one.toLowerCase() === other.toLowerCase();
  const found = all.find((address) => wanted.some((it) => same(it, address)));
  if (!found) throw new Error(`the wallet is at ${all[0]}, and ${wanted.join(' or ')} is needed: switch the wallet's account`);
  return found;
}

/** The account that is signed in. */
export function signedIn() {
  return meta('account');
}

/** The account that is signed in; another one of the wallet is refused. */
export function ownAccount(provider) {
  const own = signedIn();
  return own ? accountAmong(provider, [own]) : account(provider);
}

const hex = (text) => `0x${[...new TextEncoder().encode(text)].map((byte) => byte.toString(16).padStart(2, '0')).join('')}`;

/** Signs a text, or bytes that are given as hexadecimal. */
export function sign(provider, address, message, { bytes = false } = {}) {
  return provider.request({ method: 'personal_sign', params: [bytes ? message : hex(message), address] });
}

const hexId = (id) => `0x${Number(id).toString(16)}`;

/** Refuses to go on unless the wallet says that it is on the chain. */
async function isOn(provider, id) {
  const at = Number(await provider.request({ method: 'eth_chainId' }));
  if (at !== Number(id)) throw new Error(`the wallet is on the chain ${at}, and this is for the chain ${id}: nothing was sent`);
}

/** Switches to a chain, which is added first where the wallet does not know it. */
export async function useChain(provider, chain) {
  const chainId = hexId(chain.id);
  const change = () => provider.request({ method: 'wallet_switchEthereumChain', params: [{ chainId }] });
  try {
    await change();
  } catch (error) {
    if (error?.code !== 4902 && error?.data?.originalError?.code !== 4902) throw error;
    await provider.request({
      method: 'wallet_addEthereumChain',
      params: [{ chainId, chainName: chain.name, rpcUrls: [chain.rpcUrl], nativeCurrency: chain.native, blockExplorerUrls: chain.explorerUrl ? [chain.explorerUrl] : [] }],
    });
    // A wallet may add a chain and stay where it is.
    await change();
  }
  await isOn(provider, chain.id);
}

/** Sends a transaction on the chain that it is for, and on no other. Gives its hash, before any block holds it. */
export async function send(provider, { from, to, data, value, chainId }) {
  if (!Number.isSafeInteger(Number(chainId)) || Number(chainId) <= 0) throw new Error('the transaction names no chain: nothing was sent');
  const amount = `0x${BigInt(value ?? 0).toString(16)}`;
  // The wallet may have been moved by hand since. It checks the chain once more, by the transaction's own member.
  await isOn(provider, chainId);
  const transaction = { from, to, data, value: amount, chainId: hexId(chainId) };
  return provider.request({ method: 'eth_sendTransaction', params: [transaction] });
}

/** Waits until a block holds a transaction. False for one that failed, and so moved nothing. */
export async function mined(provider, hash) {
  for (let tries = 0; tries < 300; tries += 1) {
    const receipt = await provider.request({ method: 'eth_getTransactionReceipt', params: [hash] });
    if (receipt) return Number(receipt.status) === 1;
    await new Promise((done) => setTimeout(done, 1000));
  }
  throw new Error(`the transaction ${hash} is in no block yet; watch it in your wallet. It is not sent again from here`);
}

/** Hashes of transactions that were sent, kept by the tab under a name: a page that is loaded again knows them. */
export function memory(name) {
  const key = `sent:${name}`;
  const read = () => JSON.parse(sessionStorage.getItem(key) ?? '{}');
  return {
    get: (item) => read()[item],
    set: (item, hash) => sessionStorage.setItem(key, JSON.stringify({ ...read(), [item]: hash })),
  };
}

/** Sends a transaction unless it was sent before, and waits for it. One that failed can be sent again. */
export async function sendOnce(provider, sent, item, transaction) {
  const before = sent.get(item);
  const hash = before ?? (await send(provider, transaction));
  sent.set(item, hash);
  if (await mined(provider, hash)) return hash;
  sent.set(item, undefined);
  throw new Error(`the transaction ${hash} failed`);
}
