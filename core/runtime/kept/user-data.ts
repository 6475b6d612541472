import { setTimeout as sleep } from 'node:timers/promises'
import { RuntimeError } from '../../errors.ts'
import type { AnyUserDataContext, ErasedData, KeptData, Log, UserDataItem } from '../../plugin.ts'
import { isRecord } from '../base/fields.ts'
import { isActive, isOpen, type PluginRecord } from '../base/plugin-record.ts'
import { kernelExport } from './kernel-export.ts'
import { eraseRows, eraseSessions, type KernelHands } from './kernel-erase.ts'
import { LeftBehind } from './left-behind.ts'

/** How long one part of an erasure may take before its signal fires, and how long it then has. */
const partMs = { most: 60_000, grace: 1_000 }
/** How long a plugin may take to bring the next item of an export. */
const itemMs = 30_000
/** How many kinds and reasons an answer of a plugin may have, and how long a text of it may be. */
const most = { kinds: 100, kept: 100, text: 500, itemBytes: 1024 * 1024 }
/** One word for a kind of data, or several joined by hyphens. */
const kindForm = /^[a-z][a-z0-9]*(-[a-z0-9]+)*$/

/** What a user's data are made of. */
export interface UserDataOptions {
  readonly records: readonly PluginRecord[]
  readonly hands: KernelHands
  readonly log: Log
  /** How long one part of an erasure may take. */
  readonly partMs?: number
}

/** An item of an export, with whose it is. */
export interface ExportedItem {
  readonly plugin: string
  readonly item: UserDataItem
}

/** The parts of an erasure that are the kernel's own: one before the plugins erase, one after. */
export const kernelParts = { first: 'kernel:sessions', last: 'kernel' } as const

/** What kernel and plugins keep of a user: told, and erased part by part. */
export class UserData {
  readonly #options: UserDataOptions
  readonly #leftBehind: LeftBehind

  constructor(options: UserDataOptions) {
    this.#options = options
    this.#leftBehind = new LeftBehind(options.hands.store.db)
  }

  /** The plugins that keep something of users, also those that are switched off and may have kept something before. */
  get plugins(): string[] {
    return [...this.#keeping(), ...this.#off()].map(({ name }) => name)
  }

  /** The plugins that keep something of users, and are not at work just now. */
  get away(): string[] {
    return this.#keeping().flatMap((record) => (isOpen(record) ? [] : [record.name]))
  }

  /** Everything that is kept of a user. Rejects where a plugin fails, is late or tells of somebody else. */
  async *export(
    did: string,
    signal: AbortSignal,
    isCounting = false,
  ): AsyncGenerator<ExportedItem> {
    const { store, oracleDid } = this.#options.hands
    for await (const item of kernelExport({ db: store.db, did, oracleDid, isCounting }))
      yield { plugin: 'kernel', item }
    for (const record of this.#keeping()) yield* this.#exportOf(record, did, signal)
    for (const record of this.#off()) {
      const rows = await this.#leftBehind.count(record, did)
      const why =
        'The plugin is switched off on this server, so only the number of its rows is known.'
      if (rows > 0) yield { plugin: record.name, item: { kind: 'left-out', rows, why } }
    }
  }

  /** Carries out one part of an erasure. */
  async erase(part: string, did: string): Promise<ErasedData> {
    const { hands } = this.#options
    const over = new AbortController()
    const { partMs: mostMs = partMs.most } = this.#options
    const timer = setTimeout(() => over.abort(tooLong(part, mostMs)), mostMs).unref()
    try {
      if (part === kernelParts.first) return await eraseSessions(hands, did, over.signal)
      if (part === kernelParts.last) return await eraseRows(hands, did)
      const work = this.#eraseOf(part, did, over.signal)
      const late = new Promise<never>((_, reject) =>
        over.signal.addEventListener(
          'abort',
          () =>
            void sleep(partMs.grace, undefined, { ref: false }).then(() =>
              reject(tooLong(part, mostMs)),
            ),
        ),
      )
      return readErased(part, await Promise.race([work, late]))
    } finally {
      clearTimeout(timer)
    }
  }

  #keeping(): PluginRecord[] {
    return this.#options.records.filter(
      (record) => isActive(record) && record.definition.userData !== undefined,
    )
  }

  /** The plugins that know what they keep, and are switched off or left out. */
  #off(): PluginRecord[] {
    return this.#options.records.filter(
      (record) => !isActive(record) && record.definition.userData !== undefined,
    )
  }

  async #eraseOf(name: string, did: string, signal: AbortSignal): Promise<unknown> {
    const record = this.#keeping().find((each) => each.name === name)
    if (record) return record.definition.userData?.erase(did, contextOf(record, signal))
    const off = this.#off().find((each) => each.name === name)
    const rows = off ? await this.#leftBehind.count(off, did) : 0
    if (rows === 0) return { erased: {} }
    throw new Error(
      `${name} is switched off, and ${rows} rows of its tables name this user: switch it on, and the erasure goes on.`,
    )
  }

  async *#exportOf(
    record: PluginRecord,
    did: string,
    signal: AbortSignal,
  ): AsyncGenerator<ExportedItem> {
    const { name } = record
    const items = record.definition.userData?.export(did, contextOf(record, signal))
    const iterator = items?.[Symbol.asyncIterator]()
    if (!iterator) return
    try {
      for (;;) {
        const { done, value } = await soon(iterator.next(), name, signal)
        if (done) return
        checkItem(name, did, value)
        yield { plugin: name, item: value }
      }
    } finally {
      // A generator that hangs would keep its reader from leaving.
      void Promise.resolve(iterator.return?.()).catch((err: unknown) =>
        this.#options.log.warn({ err, plugin: name }, 'an export could not be left'),
      )
    }
  }
}

const tooLong = (part: string, ms: number) =>
  new Error(`${part} took longer than ${ms} ms to erase.`)

/** What the functions of a plugin reach. */
function contextOf(record: PluginRecord, signal: AbortSignal): AnyUserDataContext {
  if (!record.base || !isOpen(record))
    throw new RuntimeError('PLUGIN_PENDING', `${record.name} is not ready yet.`)
  return { ...record.base, signal, requestId: '', audit: () => undefined }
}

async function soon<T>(next: Promise<T>, plugin: string, signal: AbortSignal): Promise<T> {
  const timer = new AbortController()
  const late = sleep(itemMs, undefined, { signal: timer.signal, ref: false }).then(() => {
    throw new Error(`${plugin} took longer than ${itemMs} ms to export its next item.`)
  })
  late.catch(() => undefined) // whoever waits for the race has the error
  const left = new Promise<never>((_, reject) =>
    signal.addEventListener('abort', () => reject(signal.reason), {
      once: true,
      signal: timer.signal,
    }),
  )
  try {
    signal.throwIfAborted()
    return await Promise.race([next, late, left])
  } finally {
    timer.abort()
  }
}

/** Refuses what is no item, and what names another user. */
function checkItem(plugin: string, did: string, item: unknown): void {
  if (!isRecord(item) || typeof item.kind !== 'string' || !kindForm.test(item.kind))
    throw new Error(`${plugin} exported something without a kind.`)
  if (item.did !== undefined && item.did !== did)
    throw new Error(`${plugin} exported a ${item.kind} of another user.`)
  if (JSON.stringify(item).length > most.itemBytes)
    throw new Error(`${plugin} exported a ${item.kind} of more than ${most.itemBytes} bytes.`)
}

/** What a plugin says it has erased, checked: users read it. */
function readErased(plugin: string, told: unknown): ErasedData {
  const wrong = () =>
    new Error(`${plugin} does not say what it has erased: { erased: { kind: n } }.`)
  if (!isRecord(told) || !isRecord(told.erased)) throw wrong()
  const erased: Record<string, number> = {}
  for (const [kind, count] of Object.entries(told.erased).slice(0, most.kinds)) {
    if (!kindForm.test(kind) || typeof count !== 'number' || !Number.isSafeInteger(count))
      throw wrong()
    erased[kind] = count
  }
  const { kept = [] } = told
  if (!Array.isArray(kept)) throw wrong()
  const read: KeptData[] = kept.slice(0, most.kept).map((each: unknown) => {
    const { what, why, until } = isRecord(each) ? each : {}
    if (typeof what !== 'string' || typeof why !== 'string') throw wrong()
    const end = until instanceof Date ? until : undefined
    const said = { what: what.slice(0, most.text), why: why.slice(0, most.text) }
    return { ...said, ...(end && { until: end }) }
  })
  return { erased, ...(read.length > 0 && { kept: read }) }
}
