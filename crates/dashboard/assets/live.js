// Live parts of a page: an event of the service, or a short while, and they are loaded again. What a person is using
// (an open detail, a focused control) is left alone.
import { prepare } from './copy.js';

const PAUSE = 400;
let waiting = false;

function busy(part) {
  return part.contains(document.activeElement) && document.activeElement !== document.body;
}

function keepOpen(from, to) {
  const open = [...from.querySelectorAll('details')].map((it) => it.open);
  [...to.querySelectorAll('details')].forEach((it, index) => { if (open[index]) it.open = true; });
}

async function reload() {
  if (waiting || document.hidden) return;
  waiting = true;
  await new Promise((done) => setTimeout(done, PAUSE));
  try {
    const response = await fetch(location.href, { headers: { accept: 'text/html' } });
    if (!response.ok || response.redirected) return;
    const fresh = new DOMParser().parseFromString(await response.text(), 'text/html');
    for (const part of document.querySelectorAll('[data-live]')) {
      const next = fresh.querySelector(`[data-live="${part.dataset.live}"]`);
      if (!next || busy(part) || next.isEqualNode(part)) continue;
      keepOpen(part, next);
      part.replaceWith(next);
      prepare(next);
    }
  } catch {
    // The service is away; the next event tries again.
  } finally {
    waiting = false;
  }
}

const parts = [...document.querySelectorAll('[data-live]')];
const every = parts.map((part) => Number(part.dataset.every)).find((seconds) => seconds > 0);
if (every) {
  setInterval(reload, every * 1000);
} else if (parts.length > 0) {
  const events = new EventSource('/dashboard/live');
  events.addEventListener('request.status.updated', reload);
  // Facts of a listing are written shortly after the event, so that the page looks once more.
  events.addEventListener('request.status.updated', () => setTimeout(reload, 2500));
  addEventListener('pagehide', () => events.close());
}
