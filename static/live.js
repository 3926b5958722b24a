// What the pages do beyond plain HTML: keep a running run's page current, and copy a command line.
// Without this file every page still works: forms are plain forms, and a running page reloads itself.
'use strict';

// Swaps #live for the server's own drawing of it, at most once a second, whenever an event says that something changed.
// The events come from `from`, the drawing from `part`, and at the end the whole page is loaded from `end`.
function follow(live, from, part, end) {
  const heard = document.getElementById('heard'); // read out by screen readers, so changed rarely
  let source = null;
  let fetching = false;
  let due = false;
  let swapped = 0;
  let spoken = 0;
  let waiting = 0;

  async function swap() {
    if (fetching) { due = true; return; }
    const rest = 1000 - (Date.now() - swapped);
    if (rest > 0) {
      if (!waiting) waiting = setTimeout(() => { waiting = 0; swap(); }, rest);
      return;
    }
    fetching = true;
    swapped = Date.now();
    try {
      const answer = await fetch(part, { headers: { Accept: 'text/html' } });
      if (answer.status === 204) { finish(); return; }
      if (answer.ok) show(await answer.text());
    } catch { // the next event, or the reconnect, tries again
    }
    fetching = false;
    if (due) { due = false; swap(); }
  }

  function show(html) {
    const open = [...live.querySelectorAll('details[open]')].map((part) => part.id);
    const fresh = new DOMParser().parseFromString(html, 'text/html').getElementById('live');
    if (!fresh) return;
    const focused = document.activeElement && live.contains(document.activeElement) ? document.activeElement.id : '';
    live.replaceChildren(...fresh.childNodes);
    for (const id of open) {
      const part = id && document.getElementById(id);
      if (part) part.open = true;
    }
    if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
    if (fresh.dataset.title) document.title = fresh.dataset.title;
    if (heard && Date.now() - spoken > 10000) {
      spoken = Date.now();
      heard.textContent = fresh.dataset.said || '';
    }
  }

  function finish() {
    stop();
    location.replace(end);
  }

  function start() {
    if (source || document.hidden) return;
    source = new EventSource(from);
    source.addEventListener('interval', swap);
    source.addEventListener('progress', swap);
    source.addEventListener('state', (event) => {
      let state = '';
      try { state = JSON.parse(event.data).state; } catch { /* an unknown form: look again */ }
      if (state === 'queued' || state === 'running') swap(); else finish();
    });
    // An answer other than a stream ends the source for good: look for ourselves what became of the run.
    source.onerror = () => {
      if (source && source.readyState === EventSource.CLOSED) { stop(); setTimeout(() => { start(); swap(); }, 2000); }
    };
  }

  function stop() {
    if (source) source.close();
    source = null;
  }

  document.addEventListener('visibilitychange', () => {
    if (document.hidden) stop(); else { start(); swap(); }
  });
  addEventListener('pagehide', stop);
  addEventListener('pageshow', (event) => { if (event.persisted) { start(); swap(); } });
  start();
}

// Shows each copy button and lets it put its command line on the clipboard.
function copying(button) {
  const from = document.getElementById(button.dataset.copy);
  if (!from || !navigator.clipboard) return;
  button.hidden = false;
  const word = button.textContent;
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(from.dataset.text || from.textContent);
      button.textContent = 'Copied';
    } catch {
      const range = document.createRange();
      range.selectNodeContents(from);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      button.textContent = 'Selected';
    }
    setTimeout(() => { button.textContent = word; }, 2000);
  });
}

const live = document.getElementById('live');
if (live && live.dataset.run) {
  const run = `/runs/${live.dataset.run}`;
  follow(live, `/api${run}/events`, `${run}/live`, run);
} else if (live && live.dataset.events) {
  follow(live, live.dataset.events, live.dataset.part, live.dataset.end);
}
document.querySelectorAll('button[data-copy]').forEach(copying);
