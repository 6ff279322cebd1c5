// Live parts of a page: an event of the service, or a short while, and they are loaded again. What a person is using
// (an open detail, a focused control) is left alone until it is left.
import { prepare } from './copy.js';

/** The shortest time between two loads: an account has so many pages a minute, for all of its tabs. */
const MIN_LOAD_INTERVAL_MILLIS = 3000;
/** Several events come at once; one load shows them all. */
const LOAD_DELAY_MILLIS = 400;
/** Facts of a listing are written shortly after the event, so that the page looks once more. */
const SECOND_LOAD_DELAY_MILLIS = 2900;
const LOAD_TIMEOUT_MILLIS = 10000;
const RECONNECT_MILLIS = 30000;
const MAX_RECONNECTS = 20;

let timer;
let loading = false;
/** The beginning of the last load, of which the page itself is the first, and the time before which none is the last. */
let began = Date.now();
let wanted = 0;
/** A part was in use when it changed. */
let skipped = false;

function busy(part) {
  return part.contains(document.activeElement) && document.activeElement !== document.body;
}

function keepOpen(from, to) {
  const open = [...from.querySelectorAll('details')].map((it) => it.open);
  [...to.querySelectorAll('details')].forEach((it, index) => { if (open[index]) it.open = true; });
}

async function load() {
  const signal = AbortSignal.timeout(LOAD_TIMEOUT_MILLIS);
  const response = await fetch(location.href, { headers: { accept: 'text/html' }, signal });
  if (!response.ok || response.redirected) return;
  const fresh = new DOMParser().parseFromString(await response.text(), 'text/html');
  skipped = false;
  for (const part of document.querySelectorAll('[data-live]')) {
    const next = fresh.querySelector(`[data-live="${part.dataset.live}"]`);
    if (!next || next.isEqualNode(part)) continue;
    if (busy(part)) {
      skipped = true;
      continue;
    }
    keepOpen(part, next);
    part.replaceWith(next);
    prepare(next);
  }
}

function plan(at) {
  if (timer || loading || document.hidden) return;
  const due = Math.max(at, began + MIN_LOAD_INTERVAL_MILLIS);
  timer = setTimeout(async () => {
    [timer, loading, began] = [undefined, true, Date.now()];
    try {
      await load();
    } catch {
      // The service is away; the next event tries again.
    }
    loading = false;
    if (began < wanted) plan(wanted);
  }, due - Date.now());
}

/** Loads the parts again soon, and once more after `later` milliseconds. */
function changed(later) {
  const now = Date.now();
  wanted = Math.max(wanted, now + later);
  plan(now + LOAD_DELAY_MILLIS);
}

const parts = [...document.querySelectorAll('[data-live]')];
const every = parts.map((part) => Number(part.dataset.every)).find((seconds) => seconds > 0);
let events;
let reconnects = 0;
let waiting;

/** A tab that nobody sees has no stream: a browser opens few connections to one service. */
function listen() {
  if (every || document.hidden || (events && events.readyState !== EventSource.CLOSED)) return;
  clearTimeout(waiting);
  events = new EventSource('/dashboard/live');
  events.addEventListener('request.status.updated', () => changed(SECOND_LOAD_DELAY_MILLIS));
  // Also the first time: something may have happened between the page and its stream.
  events.addEventListener('open', () => {
    reconnects = 0;
    changed(0);
  });
  events.addEventListener('error', () => {
    // After a refusal a browser gives up.
    if (events.readyState !== EventSource.CLOSED || reconnects >= MAX_RECONNECTS) return;
    reconnects += 1;
    waiting = setTimeout(listen, RECONNECT_MILLIS);
  });
}

if (parts.length > 0) {
  if (every) setInterval(() => changed(0), every * 1000);
  listen();
  document.addEventListener('visibilitychange', () => {
    if (document.hidden) {
      clearTimeout(timer);
      timer = undefined;
      events?.close();
    } else {
      changed(0);
      listen();
    }
  });
  document.addEventListener('focusout', () => { if (skipped) changed(0); });
  addEventListener('pagehide', () => events?.close());
  // A page that comes back from the browser's memory is as old as it was then.
  addEventListener('pageshow', (event) => {
    if (!event.persisted) return;
    changed(0);
    listen();
  });
}
