import { Readable } from 'node:stream'
import type { Context } from 'koa'
import { RuntimeError } from '../../../errors.ts'
import { type Answer, isAnswered } from '../answer/answer.ts'

/** Whether Koa, a stream of events or the handler itself sends the answer. */
export function isStreamed(value: unknown, koa: Context): boolean {
  return isForKoa(value) || isAsyncIterable(value) || (value === undefined && isAnswered(koa))
}

/** What Koa sends as it is: bytes and streams of bytes. */
export function isForKoa(value: unknown): boolean {
  return (
    value instanceof Readable ||
    value instanceof ReadableStream ||
    value instanceof Blob ||
    Buffer.isBuffer(value)
  )
}

/** What is sent as a stream of events. */
export function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === 'object' && value !== null && Symbol.asyncIterator in value
}

/** A stored answer repeats the headers by which a client goes on. */
export function withTags({ res }: Context, answer: Answer): Answer {
  const headers: Record<string, string> = { ...answer.headers }
  for (const name of ['ETag', 'Location']) {
    const value = res.getHeader(name)
    if (typeof value === 'string') headers[name] = value
  }
  const type = res.getHeader('Content-Type')
  return { ...answer, headers, type: typeof type === 'string' ? type : answer.type }
}

/** A value after the route's `output` schema. */
export async function checkOutput(
  parse: (value: unknown) => unknown,
  value: unknown,
): Promise<unknown> {
  try {
    return await parse(value)
  } catch (cause) {
    // The caller did nothing wrong, and what we hold is not theirs to see: the log has the faults.
    const { details: faults } = cause instanceof RuntimeError ? cause : { details: undefined }
    const error = new Error('A route returned what its output schema does not allow.', { cause })
    throw Object.assign(error, { faults })
  }
}
