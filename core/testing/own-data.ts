import { setTimeout as sleep } from 'node:timers/promises'
import type { Calls } from './calls.ts'

/** A line of a user's export: the kind of a thing, whose it is, and what is kept of it. */
export interface ExportLine {
  /** The plugin that keeps the thing, or `kernel`; the first line and the last one have none. */
  readonly plugin?: string
  /** What the thing is: `session`, `message`, or a kind of a plugin. */
  readonly kind: string
  readonly [field: string]: unknown
}

/** What an erasure did, as `GET /me/erasures/:id` tells it. */
export interface Erased {
  /** How many things of each kind are gone, by plugin. */
  readonly erased: Readonly<Record<string, Readonly<Record<string, number>>>>
  /** What had to stay, and why. */
  readonly kept: readonly { readonly plugin: string; readonly what: string; readonly why: string }[]
}

/** How long an erasure may take in a test. */
const patienceMs = 30_000

/** Reads a user's whole export. Rejects where it was cut off, as where a `userData` throws or tells of another user. */
export async function exportOf(calls: Calls): Promise<readonly ExportLine[]> {
  const { status, body } = await calls.get('/me/export')
  if (status !== 200) throw new Error(`/me/export answered ${status}: ${JSON.stringify(body)}`)
  const lines: ExportLine[] = String(body)
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  if (lines.at(-1)?.kind === 'end') return lines
  throw new Error('The export was cut off: the log of the app says which plugin failed.')
}

/** Erases everything of a user, and waits until that is done. */
export async function eraseAll(calls: Calls, did: string): Promise<Erased> {
  const { status, body } = await calls.delete(`/me?confirm=${encodeURIComponent(did)}`)
  if (status !== 202) throw new Error(`DELETE /me answered ${status}: ${JSON.stringify(body)}`)
  let waits = ''
  for (const since = performance.now(); performance.now() - since < patienceMs;) {
    const { body: view } = await calls.get(`/me/erasures/${body.erasureId}`)
    if (view.state === 'done') return view
    waits = view.waitsFor.join(', ')
    await sleep(10)
  }
  throw new Error(`Not erased within ${patienceMs} ms: ${waits}. The log of the app says why.`)
}
