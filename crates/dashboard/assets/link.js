// Linking a wallet to a key: a message of the service, signed by the wallet.
import { account, choices, post, sign } from './wallet.js';

const section = document.getElementById('link');
if (section) {
  const path = `/dashboard/keys/${section.dataset.key}/wallet`;
  choices(document.getElementById('wallets'), 'Link', async (provider) => {
    const wallet = await account(provider);
    const { message } = await (await post(path, { wallet })).json();
    const signature = await sign(provider, wallet, message);
    await post(path, { wallet, signature });
    location.reload();
  });
}
