import { RuntimeError } from '../../../errors.ts'

/**
 * What a plugin says when it is asked about a request, before its handler runs. Rejects with a 503 of this sentence when the plugin
 * has not answered in time; what it says later is dropped.
 */
export async function toldInTime<T>(
  ask: () => T | Promise<T>,
  withinMs: number,
  sentence: string,
): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(unavailable(sentence)), withinMs)
  })
  try {
    return await Promise.race([ask(), late])
  } finally {
    clearTimeout(timer)
  }
}

/** The error of a plugin that is asked and cannot say anything just now. */
export const unavailable = (message: string) =>
  new RuntimeError('UNAVAILABLE', message, { headers: { 'Retry-After': '5' } })
