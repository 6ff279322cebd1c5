// A transfer: the steps of the quote, one after the other, in the wallet; then the request's page shows it move.
import { choices, memory, ownAccount, sendOnce, useChain } from './wallet.js';

// A currency that the chosen chain does not have cannot be chosen. Without a script the service says so.
for (const side of document.querySelectorAll('[data-side]')) {
  const [chain, currency] = side.querySelectorAll('select');
  const fit = () => {
    const chosen = currency.selectedOptions[0];
    for (const option of currency.options) {
      option.disabled = !option.dataset.chains.split(' ').includes(chain.value);
      option.hidden = option.disabled;
      // Its chain is the one beside it.
      option.label = option.dataset.symbol;
    }
    if (!chosen?.disabled) return;
    // The same asset has another address on another chain.
    const open = [...currency.options].filter((option) => !option.disabled);
    const next = open.find((option) => option.dataset.symbol === chosen.dataset.symbol) ?? open[0];
    if (next) next.selected = true;
  };
  chain.addEventListener('change', fit);
  fit();
}

// Where a wallet is no account, the recipient has to be named. Without a script the service says so.
const to = document.getElementById('toChain');
const recipient = document.getElementById('recipient');
if (to && recipient) {
  const ask = () => {
    recipient.required = to.selectedOptions[0]?.dataset.recipient === 'required';
    if (recipient.required) recipient.closest('details').open = true;
  };
  to.addEventListener('change', ask);
  ask();
}

const steps = document.getElementById('steps');
if (steps) {
  const said = document.getElementById('said');
  const chains = JSON.parse(steps.dataset.chains);
  const sent = memory(steps.dataset.request);
  choices(document.getElementById('wallets'), 'Sign with', async (provider) => {
    const from = await ownAccount(provider);
    const all = JSON.parse(steps.dataset.steps);
    for (const [index, step] of all.entries()) {
      said.textContent = `Step ${index + 1} of ${all.length}: ${step.description}`;
      steps.children[index]?.classList.add('now');
      for (const [at, item] of step.items.entries()) {
        if (step.kind !== 'transaction') throw new Error(`a step of the kind ${step.kind} is not known here`);
        await useChain(provider, chains.find((chain) => chain.id === item.data.chainId));
        await sendOnce(provider, sent, `${index}.${at}`, { from, ...item.data });
      }
      steps.children[index]?.classList.replace('now', 'done');
    }
    said.textContent = 'Deposited. The transfer is on its way.';
    if (steps.dataset.watched === 'yes') location.assign(`/dashboard/requests/${steps.dataset.request}`);
  });
}

// A payment at an address comes from elsewhere: the service is asked for it every two seconds.
const awaited = document.getElementById('awaited');
if (awaited) {
  const { request, watched } = awaited.dataset;
  const look = async () => {
    try {
      const { status } = await (await fetch(`/intents/status/v3?requestId=${request}`)).json();
      if (status && status !== 'waiting') {
        if (watched === 'yes') return location.assign(`/dashboard/requests/${request}`);
        document.getElementById('arrived').textContent = `The payment was seen. The transfer is: ${status}.`;
        if (['success', 'refund', 'failure'].includes(status)) return undefined;
      }
    } catch {
      // The service is away; the next look tries again.
    }
    return setTimeout(look, 2000);
  };
  look();
}
