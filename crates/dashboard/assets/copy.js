// Buttons that copy a text. Without scripts they stay hidden, and the text can be selected.
export function prepare(root) {
  for (const button of root.querySelectorAll('button[data-copy]')) {
    button.hidden = false;
  }
}

document.addEventListener('click', async (event) => {
  const button = event.target.closest('button[data-copy]');
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copy);
  // A button with a picture keeps it and turns green; one with a word says so.
  button.classList.add('done');
  const word = button.querySelector('svg') ? null : button.textContent;
  if (word) button.textContent = 'Copied';
  setTimeout(() => {
    button.classList.remove('done');
    if (word) button.textContent = word;
  }, 1200);
});

prepare(document);
