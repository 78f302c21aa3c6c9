// Asks the proxy. All paths are relative, so that a prefix in front of them does no harm.

const TRIES = 6;
const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// The answer to a question. A proxy that is busy is asked again.
export async function ask(question, parameters = {}) {
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

// Calls back whenever something happened. Where there is no room for one more listener, asks every few seconds instead.
export function listen(onChange, onState) {
  const source = new EventSource('v1/events');
  source.onopen = () => onState('live');
  source.onmessage = () => onChange();
  source.onerror = () => {
    if (source.readyState !== EventSource.CLOSED) {
      onState('reconnecting');
      return;
    }
    onState('every 5 s');
    const asking = setInterval(onChange, 5000);
    setTimeout(() => {
      clearInterval(asking);
      listen(onChange, onState);
    }, 60000);
  };
}
