// The app balance: deposits with the bytes that name the wallet, and claims that it signs.
import { accountAmong, discover, mined, post, send, sign, signedIn, useChain } from './wallet.js';

const fund = document.getElementById('fund');
const deposit = document.getElementById('deposit');
const claiming = document.getElementById('claiming');
const choice = document.getElementById('choice');
const chosen = document.getElementById('with');
const providers = [];

discover(({ name, provider }) => {
  providers.push(provider);
  chosen.append(new Option(name, String(providers.length - 1)));
  // One wallet needs no choice.
  choice.hidden = providers.length < 2;
  for (const form of [deposit, claiming]) {
    const button = form?.querySelector('button');
    if (button && providers.length === 1) button.disabled = false;
  }
});

const provided = () => providers[Number(chosen.value)];

/** A decimal number in smallest units. */
function units(text, decimals) {
  const match = /^(\d+)(?:\.(\d+))?$/.exec(text.trim());
  if (!match || (match[2] ?? '').length > decimals) throw new Error(`amount: a number with at most ${decimals} decimals`);
  return BigInt(match[1] + (match[2] ?? '').padEnd(decimals, '0'));
}

const word = (number) => number.toString(16).padStart(64, '0');

/** A form whose button works again after a failure, unless something was sent that a second one would repeat. */
function guarded(form, saying, act) {
  form?.addEventListener('submit', async (event) => {
    event.preventDefault();
    const said = document.getElementById(saying);
    const button = form.querySelector('button');
    button.disabled = true;
    const progress = { sent: '', say: (text) => { said.textContent = text; } };
    try {
      await act(new FormData(form), progress);
    } catch (error) {
      progress.say(error?.message ?? String(error));
      button.disabled = progress.sent !== '';
    }
  });
}

guarded(deposit, 'deposit-said', async (data, progress) => {
  const funding = JSON.parse(fund.dataset.funding);
  const chain = JSON.parse(fund.dataset.chains).find((it) => it.id === funding.chainId);
  const amount = units(data.get('amount'), Number(fund.dataset.decimals));
  const provider = provided();
  // Whoever pays, the wallet of this page is credited.
  const from = await accountAmong(provider, [...new Set([fund.dataset.wallet, signedIn()])]);
  await useChain(provider, chain);
  // transfer(address,uint256), then the bytes that name the account to credit.
  const call = `0xa9059cbb${word(BigInt(funding.address))}${word(amount)}${funding.calldataSuffix.slice(2)}`;
  const before = document.querySelector('[data-live="balance"]').textContent;
  progress.say('Sending…');
  progress.sent = await send(provider, { from, to: funding.currency, data: call, value: 0, chainId: funding.chainId });
  progress.say(`Sent in ${progress.sent}. It is credited when it is final.`);
  if (!(await mined(provider, progress.sent))) {
    const failed = progress.sent;
    progress.sent = '';
    throw new Error(`the transaction ${failed} failed`);
  }
  for (let tries = 0; tries < 120; tries += 1) {
    await new Promise((done) => setTimeout(done, 2000));
    // While the service is away, the next look tries again.
    const text = await fetch(location.href).then((answer) => (answer.ok ? answer.text() : ''), () => '');
    const now = new DOMParser().parseFromString(text, 'text/html').querySelector('[data-live="balance"]');
    if (now && now.textContent !== before) {
      location.reload();
      return;
    }
  }
});

guarded(claiming, 'claim-said', async (data, progress) => {
  const wallet = document.getElementById('claim').dataset.wallet;
  // A balance is its wallet's: the signature of another, signed in or not, pays nothing.
  const provider = provided();
  const address = await accountAmong(provider, [wallet]);
  const asked = await post('/dashboard/balance/claim', { wallet, amount: data.get('amount'), recipient: data.get('recipient') });
  const [step] = (await asked.json()).steps;
  const { sign: signing, post: posting } = step.items[0].data;
  progress.say('Sign the claim in your wallet.');
  const signature = await sign(provider, address, signing.message, { bytes: true });
  await post('/dashboard/balance/permit', { claim: posting.body.requestId, signature });
  progress.say('The claim is being paid.');
  setTimeout(() => location.reload(), 1500);
});
