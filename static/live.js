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
  let pressed = false; // a button that is replaced between press and release is not clicked

  live.addEventListener('pointerdown', () => { pressed = true; });
  for (const end of ['pointerup', 'pointercancel']) {
    addEventListener(end, () => {
      if (!pressed) return;
      // The click comes after the release.
      setTimeout(() => { pressed = false; if (due && !fetching) { due = false; swap(); } }, 0);
    });
  }

  async function swap() {
    if (fetching || pressed) { due = true; return; }
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
      const html = answer.ok ? await answer.text() : '';
      if (pressed) due = true; else if (html) show(html);
    } catch { // the next event, or the reconnect, tries again
    }
    fetching = false;
    if (due && !pressed) { due = false; swap(); }
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
    showCopying(live);
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
    source.addEventListener('point', swap);
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

// Shows the copy buttons of a page, or of a part that has just been swapped in.
function showCopying(part) {
  if (!navigator.clipboard) return;
  for (const button of part.querySelectorAll('button[data-copy]')) {
    button.hidden = !document.getElementById(button.dataset.copy);
  }
}

// Puts the text that a copy button names on the clipboard.
async function copy(button) {
  const from = document.getElementById(button.dataset.copy);
  if (!from) return;
  const word = button.dataset.word || button.textContent;
  button.dataset.word = word;
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
}

// Heard on the document, because a swap replaces the buttons.
document.addEventListener('click', (event) => {
  const button = event.target.closest?.('button[data-copy]');
  if (button) copy(button);
});

// A form whose answer takes seconds says so, and is sent once.
document.addEventListener('submit', (event) => {
  const button = event.target.dataset.busy && event.target.querySelector('button');
  if (!button) return;
  button.dataset.word = button.textContent;
  button.textContent = event.target.dataset.busy;
  button.disabled = true;
});
addEventListener('pageshow', () => {
  for (const button of document.querySelectorAll('form[data-busy] button:disabled')) {
    button.textContent = button.dataset.word;
    button.disabled = false;
  }
});

const live = document.getElementById('live');
if (live && live.dataset.run) {
  const run = `/runs/${live.dataset.run}`;
  follow(live, `/api${run}/events`, `${run}/live`, run);
} else if (live && live.dataset.events) {
  follow(live, live.dataset.events, live.dataset.part, live.dataset.end);
}
showCopying(document);
