/** What reaches the network. */
export type Fetch = typeof globalThis.fetch

/** How long a service may say nothing, how often it is asked, and how long it is let alone between. */
const patience = { silentMs: 8_000, tries: 2, restMs: 500 }
/** How much of a refusal is read for the log. */
const complaintCharacters = 300

/** A speech server that speaks as OpenAI's does. */
export interface SpeechService {
  /** The address before `/audio/…`. */
  readonly url: string
  readonly key?: string | undefined
  readonly fetch: Fetch
}

/** The name by which people are told of a service: its host. */
export const nameOf = ({ url }: Pick<SpeechService, 'url'>): string => new URL(url).host

/** What a service refused, with its status. Asking again changes nothing where `isFinal`. */
export class ServiceRefusal extends Error {
  readonly isFinal: boolean

  constructor(service: SpeechService, status: number, complaint: string) {
    super(`${nameOf(service)} answered ${status}: ${complaint.slice(0, complaintCharacters)}`)
    this.isFinal = status >= 400 && status < 500 && status !== 408 && status !== 429
  }
}

/** Asks a service for bytes. It is given up when it says nothing for 8 seconds, at its head or in its body. */
export async function* askService(
  service: SpeechService,
  path: string,
  body: () => { readonly body: FormData | string; readonly headers?: Record<string, string> },
  signal: AbortSignal,
  isWanted: (type: string) => boolean,
): AsyncGenerator<Uint8Array, void> {
  const silent = new AbortController()
  const late = () => silent.abort(new Error(`${nameOf(service)} said nothing for 8 seconds.`))
  let timer = setTimeout(late, patience.silentMs)
  try {
    const asked = body()
    const response = await service.fetch(`${service.url.replace(/\/+$/, '')}${path}`, {
      method: 'POST',
      body: asked.body,
      headers: {
        ...asked.headers,
        ...(service.key !== undefined && { Authorization: `Bearer ${service.key}` }),
      },
      redirect: 'error',
      signal: AbortSignal.any([signal, silent.signal]),
    })
    const type = response.headers.get('content-type') ?? ''
    if (!response.ok || !isWanted(type)) {
      const complaint = await beginning(response.body)
      throw response.ok
        ? new Error(`${nameOf(service)} answered with ${type || 'no type'}.`)
        : new ServiceRefusal(service, response.status, complaint)
    }
    for await (const piece of response.body ?? []) {
      clearTimeout(timer)
      yield piece
      timer = setTimeout(late, patience.silentMs)
    }
  } finally {
    clearTimeout(timer)
  }
}

/** The first characters of a body; the rest is not waited for. */
async function beginning(body: ReadableStream<Uint8Array> | null): Promise<string> {
  if (!body) return ''
  let text = ''
  for await (const piece of body) {
    text += Buffer.from(piece).toString('utf8')
    if (text.length >= complaintCharacters) break
  }
  return text
}

/** Does something that asks a service, and once more where that may help. */
export async function twice<Result>(
  work: () => Promise<Result>,
  signal: AbortSignal,
): Promise<Result> {
  for (let tried = 1; ; tried++)
    try {
      return await work()
    } catch (error) {
      const isFinal = error instanceof ServiceRefusal && error.isFinal
      if (signal.aborted || isFinal || tried >= patience.tries) throw error
      await new Promise((resolve) => setTimeout(resolve, patience.restMs))
    }
}
