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
  const name = button.textContent;
  button.textContent = 'Copied';
  setTimeout(() => { button.textContent = name; }, 1200);
});

prepare(document);
