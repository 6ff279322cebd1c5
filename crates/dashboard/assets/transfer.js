// A transfer: the steps of the quote, one after the other, in the wallet; then the request's page shows it move.
import { choices, ownAccount, send, useChain } from './wallet.js';

const steps = document.getElementById('steps');
if (steps) {
  const said = document.getElementById('said');
  const chains = JSON.parse(steps.dataset.chains);
  choices(document.getElementById('wallets'), 'Sign with', async (provider) => {
    const from = await ownAccount(provider);
    const all = JSON.parse(steps.dataset.steps);
    for (const [index, step] of all.entries()) {
      said.textContent = `Step ${index + 1} of ${all.length}: ${step.description}`;
      steps.children[index]?.classList.add('now');
      for (const item of step.items) {
        if (step.kind !== 'transaction') throw new Error(`a step of the kind ${step.kind} is not known here`);
        await useChain(provider, chains.find((chain) => chain.id === item.data.chainId));
        await send(provider, { from, ...item.data });
      }
      steps.children[index]?.classList.replace('now', 'done');
    }
    said.textContent = 'Deposited. The transfer is on its way.';
    if (steps.dataset.watched === 'yes') location.assign(`/dashboard/requests/${steps.dataset.request}`);
  });
}
