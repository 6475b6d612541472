/** How much one answer, or one event of a stream, may have: as much as a child may write on one line. */
const mostBytes = 10 * 1024 * 1024

/** `fetch` for servers that need not be trusted: an answer without an end is cut off before it fills the memory. */
export async function boundedFetch(url: string | URL, init?: RequestInit): Promise<Response> {
  const response = await fetch(url, init)
  if (!response.body) return response
  const isStream = response.headers.get('content-type')?.startsWith('text/event-stream') ?? false
  const body = response.body.pipeThrough(bounded(isStream ? endOfEvent : () => -1))
  const bound = new Response(body, response)
  // A response that is made by hand has no address, by which a redirect is recognised.
  for (const name of ['url', 'redirected'] as const)
    Object.defineProperty(bound, name, { value: response[name] })
  return bound
}

/** Passes bytes on, until too many have come since the last end that `endIn` finds. */
function bounded(endIn: (bytes: Buffer) => number): TransformStream<Uint8Array, Uint8Array> {
  let held = 0
  let tail = Buffer.alloc(0)
  return new TransformStream({
    transform(chunk, controller) {
      // An end may lie across two chunks.
      const seen = Buffer.concat([tail, chunk])
      const end = endIn(seen)
      held = end < 0 ? held + chunk.length : seen.length - end
      tail = seen.subarray(-3)
      if (held <= mostBytes) controller.enqueue(chunk)
      else controller.error(new Error('The answer has more than 10 MiB.'))
    },
  })
}

/** Where the last event of some bytes ends; -1 where none does. */
const endOfEvent = (bytes: Buffer): number =>
  Math.max(...['\n\n', '\n\r\n', '\r\r'].map((end) => bytes.lastIndexOf(end)))
