// Signing in: the service writes the message, the wallet signs it.
import { account, choices, post, sign } from './wallet.js';

const box = document.getElementById('wallets');
const searching = document.getElementById('searching');
searching.hidden = false;
setTimeout(() => {
  searching.hidden = Boolean(box.querySelector('button'));
  searching.textContent = 'No wallet was found in this browser.';
}, 600);

new MutationObserver(() => { searching.hidden = true; }).observe(box, { childList: true });

choices(box, 'Sign in with', async (provider) => {
  const address = await account(provider);
  const message = await (await post('/dashboard/sign-in/message', { account: address })).text();
  const signature = await sign(provider, address, message);
  await post('/dashboard/sign-in', { message, signature });
  location.assign('/dashboard');
});
