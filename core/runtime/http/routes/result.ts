import type { Context } from 'koa'
import { RuntimeError } from '../../../errors.ts'
import type { Answer } from '../answer/answer.ts'

/** The answer with the headers that a stored answer must repeat too: a client goes on by ETag and Location. */
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
    // The caller did nothing wrong and must not see what the server holds, so the faults go to the log.
    const { details: faults } = cause instanceof RuntimeError ? cause : { details: undefined }
    const error = new Error('A route returned what its output schema does not allow.', { cause })
    throw Object.assign(error, { faults })
  }
}
