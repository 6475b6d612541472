/** A piece of what the page sent or received: a request, a frame of a stream, a frame of a socket. */
export interface Piece {
  readonly id: number
  readonly kind: 'http' | 'sse' | 'socket'
  readonly at: number
  readonly title: string
  /** The size in characters or bytes, as far as the page knows it. */
  size: number
  ms?: number
  status?: number | string
  direction?: 'in' | 'out'
  text: string
}

const kept = 1_000
const shown = 20_000
const listeners = new Set<() => void>()
let pieces: readonly Piece[] = []
let count = 0
let scheduled = false

/** A store of everything that the page sent and received, the newest last, to which views subscribe. */
export const traffic = {
  subscribe(listener: () => void) {
    listeners.add(listener)
    return () => void listeners.delete(listener)
  },
  pieces: () => pieces,
  clear() {
    pieces = []
    tell()
  },
}

function note(piece: Omit<Piece, 'id' | 'at'>): Piece {
  const whole = { ...piece, id: ++count, at: Date.now() }
  pieces = [...(pieces.length >= kept ? pieces.slice(-kept + 100) : pieces), whole]
  tell()
  return whole
}

function change(piece: Piece, part: Partial<Piece>) {
  pieces = pieces.map((one) => (one.id === piece.id ? { ...one, ...part } : one))
  tell()
}

/** Calls the listeners once for many pieces, because a stream may have hundreds of pieces a second. */
function tell() {
  if (scheduled) return
  scheduled = true
  setTimeout(() => {
    scheduled = false
    for (const listener of listeners) listener()
  }, 100)
}

/** Begins to record everything that the page sends and receives. */
export function recordTraffic() {
  const fetchPlain = window.fetch.bind(window)
  window.fetch = async (input, init) => {
    const request = new Request(input, init)
    const { pathname, search } = new URL(request.url)
    const begun = performance.now()
    const sent = typeof init?.body === 'string' ? init.body : ''
    const piece = note({
      kind: 'http',
      title: `${request.method} ${pathname}${search}`,
      size: 0,
      status: '…',
      text: `${headersOf(request.headers)}\n${sent}`,
    })
    try {
      const response = await fetchPlain(input, init)
      change(piece, { status: response.status, ms: performance.now() - begun })
      const isStream = response.headers.get('content-type')?.startsWith('text/event-stream')
      if (!response.body) return response
      const [mine, theirs] = response.body.tee()
      void (isStream ? follow(mine, piece) : read(mine, piece, response))
      return new Response(theirs, response)
    } catch (error) {
      change(piece, { status: 'failed', ms: performance.now() - begun, text: String(error) })
      throw error
    }
  }

  const Plain = window.WebSocket
  window.WebSocket = class extends Plain {
    constructor(url: string | URL, protocols?: string | string[]) {
      super(url, protocols)
      const name = new URL(url, location.href).pathname
      this.addEventListener('message', ({ data }) => frame(name, 'in', data))
      this.addEventListener('open', () => frame(name, 'in', '(open)'))
      this.addEventListener('close', ({ code, reason }) =>
        frame(name, 'in', `(closed ${code} ${reason})`),
      )
    }
    override send(data: Parameters<WebSocket['send']>[0]) {
      frame(new URL(this.url).pathname, 'out', data)
      super.send(data)
    }
  }
}

function frame(name: string, direction: 'in' | 'out', data: unknown) {
  const text = typeof data === 'string' ? data : '(binary)'
  note({ kind: 'socket', direction, title: name, size: text.length, text: masked(text) })
}

async function read(body: ReadableStream<Uint8Array>, piece: Piece, response: Response) {
  const bytes = await new Response(body).arrayBuffer().catch(() => new ArrayBuffer(0))
  const text = new TextDecoder().decode(bytes.slice(0, shown))
  change(piece, {
    size: bytes.byteLength,
    text: `${piece.text.trim()}\n\n${response.status}\n${headersOf(response.headers)}\n${text}`.trim(),
  })
}

async function follow(body: ReadableStream<Uint8Array>, piece: Piece) {
  const decoder = new TextDecoder()
  const reader = body.getReader()
  let rest = ''
  let size = 0
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) break
      size += value.byteLength
      rest += decoder.decode(value, { stream: true })
      const frames = rest.split('\n\n')
      rest = frames.pop() ?? ''
      for (const text of frames) {
        const title = /^event: (.*)$/m.exec(text)?.[1] ?? text.slice(0, 40)
        note({ kind: 'sse', direction: 'in', title, size: text.length + 2, text })
      }
    }
  } catch {
    // The page's own reader gets the error; this copy of the stream only ends.
  }
  change(piece, { size })
}

/** Shows only the beginning of a token, so that a screen which the user shares with others gives no token away. */
const masked = (text: string) =>
  text.replace(/[A-Za-z0-9+/_=-]{80,}/g, (token) => `${token.slice(0, 12)}…(${token.length})`)

const headersOf = (headers: Headers) =>
  masked([...headers].map(([name, value]) => `${name}: ${value}`).join('\n'))
