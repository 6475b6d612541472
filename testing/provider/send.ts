import type { ServerResponse } from 'node:http'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { ProviderFailure, ProviderRequest, ProviderSpeech } from './answers.ts'
import { spokenOf } from './spoken.ts'
import type { Frame, Provider, Wire } from './wire.ts'

/** Sends a speech over its wire, as well or as badly as it says. */
export async function sendSpeech(
  speech: ProviderSpeech,
  wire: Wire,
  request: ProviderRequest,
  response: ServerResponse,
  provider: Provider,
): Promise<void> {
  const { gone } = request
  const { then, bytesPerWrite } = speech
  const type = wire.contentType ?? 'text/event-stream'
  response.writeHead(200, { 'content-type': speech.contentType ?? type })
  response.flushHeaders()
  const write = async (frame: Frame) => {
    const bytes = Buffer.from(encoded(frame, type))
    const step = bytesPerWrite ?? bytes.length
    for (let from = 0; from < bytes.length; from += step) {
      const isFlushed = response.write(bytes.subarray(from, from + step))
      // One write, one packet: the next one waits until this one has left.
      if (bytesPerWrite) await nextTurn(undefined, { signal: gone })
      else if (!isFlushed) await drained(response, gone)
    }
  }
  const spoken = spokenOf(speech, wire.name, request)
  for (const frame of wire.frames(spoken, request, provider)) await write(frame)
  if (then === 'silence') return
  if (then === 'break') {
    // What was written leaves first, or the break would lose it.
    await new Promise((resolve) => response.write('\n', resolve))
    response.destroy()
    return
  }
  if (then) {
    await write(wire.streamError(then.status ?? 500, then.error))
    response.end()
    return
  }
  response.end(wire.last === undefined ? '' : `data: ${wire.last}\n\n`)
}

function encoded({ event, data }: Frame, type: string): string {
  const json = JSON.stringify(data)
  if (type === 'application/x-ndjson') return `${json}\n`
  return `${event === undefined ? '' : `event: ${event}\n`}data: ${json}\n\n`
}

/** Sends a failure: an error in the words of the wire, or the text that was asked for. */
export function sendFailure(
  failure: ProviderFailure,
  wire: Wire,
  request: ProviderRequest,
  response: ServerResponse,
): void {
  const { message, code } = wire.failure(failure, request)
  const status = failure.status === 401 ? (wire.keyStatus ?? 401) : failure.status
  const body = failure.body ?? JSON.stringify(wire.error(status, message, code))
  const isPage = body.startsWith('<')
  response.writeHead(status, {
    'content-type': isPage ? 'text/html' : 'application/json',
    ...(failure.retryAfter !== undefined && { 'retry-after': String(failure.retryAfter) }),
    ...failure.headers,
  })
  response.end(body)
}

/** Sends JSON. */
export function sendJson(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}

function drained(response: ServerResponse, gone: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (gone.aborted) return reject(gone.reason)
    response.once('drain', resolve)
    gone.addEventListener('abort', () => reject(gone.reason), { once: true })
  })
}
