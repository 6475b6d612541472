import { wholeJson } from '#core/models'

/** The most bytes of one answer, unpacked: four times what the JSON of the longest answers takes. */
const mostBytes = 64 * 1024 * 1024

/**
 * The global fetch, which reads an answer no further than an answer may be long. Packages of the AI SDK hold an event until its end has
 * come, and the global fetch unpacks what is compressed, so a few bytes of a server could otherwise fill the memory. What it sends has no
 * half of a surrogate pair, for which servers refuse a request.
 */
export const boundedFetch: typeof fetch = async (input, init) => {
  const body = typeof init?.body === 'string' ? { body: wholeJson(init.body) } : {}
  const response = await fetch(input, { ...init, ...body })
  if (!response.body) return response
  let bytes = 0
  const counted = new TransformStream<Uint8Array, Uint8Array>({
    transform(piece, controller) {
      bytes += piece.byteLength
      if (bytes > mostBytes) controller.error(new Error(`The answer went past ${mostBytes} bytes.`))
      else controller.enqueue(piece)
    },
  })
  const { status, statusText, headers } = response
  return new Response(response.body.pipeThrough(counted), { status, statusText, headers })
}
