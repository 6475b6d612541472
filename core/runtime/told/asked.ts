import { RuntimeError } from '../../errors.ts'
import type { AnyRunContext } from '../../plugin.ts'
import { gateOf, type PluginRecord } from '../base/plugin-record.ts'

/** Calls a section of a plugin outside of turns, for so long. Throws where the plugin is pending; one that failed is passed by. */
export async function askedOutside<T>(
  record: PluginRecord,
  ms: number,
  ask: (ctx: AnyRunContext) => T,
): Promise<Awaited<T> | undefined> {
  const gate = gateOf(record)
  if (gate?.isFailed) return undefined
  const { base, name } = record
  if (gate || !base)
    throw new RuntimeError('PLUGIN_PENDING', `${name} is not ready yet.`, {
      hint: gate?.why ?? 'Try again in a moment.',
      headers: { 'Retry-After': '2' },
    })
  const stopping = new AbortController()
  const { signal } = stopping
  const asked = record.modelsWithin?.({ signal: () => signal })
  const over = Promise.withResolvers<never>()
  const timer = setTimeout(() => {
    const error = new Error(`${name} did not answer within ${ms / 1000} s.`)
    stopping.abort(error)
    over.reject(error)
  }, ms)
  try {
    const ctx = { ...base, ...asked, signal, requestId: '', audit: () => undefined }
    return await Promise.race([ask(ctx), over.promise])
  } finally {
    clearTimeout(timer)
  }
}
