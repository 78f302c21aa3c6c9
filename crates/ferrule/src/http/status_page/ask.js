// Asks the proxy. All paths are relative, so that a prefix in front of them does no harm.

const TRIES = 6;
const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// The proxy works out four answers at a time, for all who ask: a page takes two of these places.
const PLACES = 2;
let taken = 0;
const waiting = [];

// The answer to a question.
export async function ask(question, parameters = {}) {
  if (taken === PLACES) await new Promise((resolve) => waiting.push(resolve));
  else taken += 1;
  try {
    return await answered(question, parameters);
  } finally {
    // The place goes to the next in line.
    if (waiting.length) waiting.shift()();
    else taken -= 1;
  }
}

// A proxy that is busy is asked again.
async function answered(question, parameters) {
  const query = new URLSearchParams(parameters).toString();
  for (let attempt = 1; ; attempt += 1) {
    let response;
    try {
      response = await fetch(`v1/${question}${query ? `?${query}` : ''}`, { cache: 'no-store', credentials: 'same-origin' });
    } catch {
      throw new Refused(0, 'The proxy does not answer. Is it running, and is the connection to it still open?');
    }
    if (response.status === 503 && attempt < TRIES) {
      await pause(200 * attempt);
      continue;
    }
    const answer = await response.json().catch(() => null);
    if (!response.ok || answer === null) throw new Refused(response.status, answer?.error ?? `status ${response.status}`);
    return answer;
  }
}

// Calls back whenever something happened, as long as the page is seen: browsers open six connections to a server at a time, and
// the server has few streams. Where there is no room for one more, asks every few seconds instead.
export function listen(onChange, onState) {
  let source = null;
  let asking = 0;
  let again = 0;
  const close = () => {
    source?.close();
    source = null;
    clearInterval(asking);
    clearTimeout(again);
  };
  const open = () => {
    close();
    source = new EventSource('v1/events');
    source.onopen = () => onState('live');
    source.onmessage = onChange;
    source.onerror = () => {
      if (source.readyState !== EventSource.CLOSED) {
        onState('reconnecting');
        return;
      }
      onState('every 5 s');
      asking = setInterval(onChange, 5000);
      again = setTimeout(open, 60000);
    };
  };
  document.addEventListener('visibilitychange', () => (document.hidden ? close() : open()));
  // A page that is left may be kept, and its connections with it.
  window.addEventListener('pagehide', close);
  window.addEventListener('pageshow', (event) => event.persisted && open());
  if (!document.hidden) open();
}
