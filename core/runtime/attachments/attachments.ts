import { RuntimeError } from '../../errors.ts'
import type { MessagePart, User } from '../../plugin.ts'
import type { PluginRecord } from '../base/plugin-record.ts'
import { asPart, type Files, type KeptFile, type NewFile } from '../files/files.ts'
import { fileNameOf, mostFiles, tooManyFiles } from '../files/limits.ts'
import { fileKindOf } from '../files/media-type.ts'
import { unknownFile } from '../files/routes.ts'
import type { Models } from '../model/choose.ts'
import { demandReadable } from '../model/reads.ts'
import { untilAborted } from '../base/until-aborted.ts'
import { Budget } from './budget.ts'
import {
  decodedBase64,
  type DescribedAttachment,
  readAttachment,
  withoutBytes,
} from './described.ts'
import { type Edge, fetchAttached, unreachable, type WebRules } from './fetch.ts'
import { type BringTerms, bringByPlugin, readerOf } from './readers.ts'
import { FetchPlaces } from './fetch-places.ts'

/** What attachments are read with. */
export interface AttachmentsOptions {
  readonly files: Files
  readonly records: readonly PluginRecord[]
  readonly models: Models
  readonly web: WebRules
  /** How long all attachments of a message may take to be brought. */
  readonly withinMs?: number
  readonly edge?: Edge
}

/** The part of a request that is about attachments. */
export interface Attaching {
  readonly attachments?: readonly unknown[]
  readonly model?: string
  readonly parts?: readonly MessagePart[]
}

/** How the contents of one attachment come. */
interface Way {
  readonly name: string
  /** Whether others are asked for the contents, who may be slow, absent, or not to be asked at all. */
  readonly isFar: boolean
  bring(asking: BringTerms, budget: Budget): Promise<Brought | undefined>
}

/** The contents of an attachment: a file that is kept already, or one that will be. */
type Brought = { readonly kept: KeptFile } | { readonly fresh: NewFile }

/** What has come, before anybody looked at the bytes. */
interface Raw {
  readonly bytes: Uint8Array
  readonly name?: string
  readonly mediaType?: string
}

/** Brings what is attached to messages: from files, from the message itself, from the web, and by plugins. */
export class Attachments {
  readonly #options: AttachmentsOptions
  readonly #places = new FetchPlaces()

  constructor(options: AttachmentsOptions) {
    this.#options = options
  }

  /**
   * The request with its files beside its words. Where one of the files cannot be had, is too large, or cannot be read by the model,
   * the message is refused as a whole and nothing of it is kept.
   */
  async attach<R extends Attaching>(user: User, requestId: string, request: R): Promise<R> {
    const read = (request.attachments ?? []).map(readAttachment)
    const ways = read.map((described, at) => this.#wayOf(described, at))
    const count = ways.filter(Boolean).length
    if (count === 0) return request
    if (count > mostFiles) throw tooManyFiles(count)
    const { models } = this.#options
    // The model of a session may have been taken out of MODEL since: then the default one answers.
    const isOffered = request.model !== undefined && models.has(request.model)
    const model = models.get(isOffered ? request.model : undefined)
    const isFar = ways.some((way) => way?.isFar)
    const leave = isFar ? this.#places.enter(user.did) : undefined
    let brought: readonly (Brought | undefined)[]
    try {
      brought = await this.#bringAll(ways, user, requestId)
    } finally {
      leave?.()
    }
    const meant = brought.map((one, i) => one && partOf(one, read[i]?.name))
    await demandReadable(model, meant.filter(isThere), models.all)
    return { ...request, ...(await this.#keep(user.did, request.attachments ?? [], read, brought)) }
  }

  /** How the contents of an attachment come; undefined where nothing says so, or no plugin brings them. */
  #wayOf(described: DescribedAttachment, at: number): Way | undefined {
    const { files, records, web, edge } = this.#options
    const { source, name = unnamed } = described
    switch (source?.kind) {
      case undefined:
        return undefined
      case 'file':
        return near(name, async ({ user }, budget) => {
          const kept = (await files.find(user.did, [source.id])).get(source.id)
          if (!kept) throw unknownFile(source.id)
          budget.take(kept.name, kept.bytes, kept.bytes)
          return { kept }
        })
      case 'bytes':
        return near(name, async (_, budget) => {
          const bytes = decodedBase64(source.base64)
          if (!bytes) throw noBase64(at)
          return this.#fresh(described, { bytes, mediaType: source.mediaType }, budget)
        })
      case 'web':
        return far(name, async ({ signal }, budget) => {
          const raw = await fetchAttached(source.url, web, { as: name, budget, signal, edge })
          return this.#fresh(described, raw)
        })
      case 'plugin': {
        const reader = readerOf(records, source.scheme)
        if (!reader) return undefined
        return far(name, async (asking, budget) => {
          const raw = await bringByPlugin(reader, source.uri, described, asking)
          return raw && this.#fresh(described, raw, budget)
        })
      }
    }
  }

  /** A file of what has come. With a budget its bytes are counted, which were not counted on the way. */
  async #fresh(described: DescribedAttachment, raw: Raw, budget?: Budget): Promise<Brought> {
    const { bytes } = raw
    const given = described.name ?? fileNameOf(raw.name ?? '')
    const as = given || unnamed
    budget?.take(as, bytes.length, bytes.length)
    // Many servers call everything text, so that much of what they say means nothing.
    const said = raw.mediaType?.startsWith('text/') ? undefined : raw.mediaType
    const kind = await fileKindOf(as, bytes, described.mediaType ?? said)
    return { fresh: { ...kind, name: given || `${kind.type}.${kind.ending}`, body: bytes } }
  }

  /** Brings everything at once, within the time that all of it has together. The first refusal ends the rest. */
  async #bringAll(
    ways: readonly (Way | undefined)[],
    user: User,
    requestId: string,
  ): Promise<(Brought | undefined)[]> {
    const { withinMs = 15_000 } = this.#options
    const budget = new Budget()
    const stop = new AbortController()
    const late = setTimeout(() => stop.abort(new Error('The time is up.')), withinMs)
    const asking = { user, requestId, signal: stop.signal }
    try {
      return await Promise.all(
        ways.map(async (way) => {
          if (!way) return undefined
          try {
            // A plugin may not hear the signal, and nobody waits for it longer.
            return await untilAborted(stop.signal, way.bring(asking, budget))
          } catch (error) {
            throw way.isFar && !isTold(error) ? unreachable(way.name, error) : error
          }
        }),
      )
    } finally {
      clearTimeout(late)
      stop.abort(new Error('Another attachment was refused.'))
    }
  }

  /** Keeps what is not kept yet, and says where everything lies. */
  async #keep(
    did: string,
    given: readonly unknown[],
    read: readonly DescribedAttachment[],
    brought: readonly (Brought | undefined)[],
  ): Promise<Required<Pick<Attaching, 'attachments' | 'parts'>>> {
    const fresh = brought.flatMap((one) => (one && 'fresh' in one ? [one.fresh] : []))
    const kept = fresh.length > 0 ? await this.#options.files.keep(did, fresh) : []
    const parts: MessagePart[] = []
    let next = 0
    const attachments = given.map((attachment, i) => {
      const one = brought[i]
      const described = read[i]
      if (!one || !described) return attachment
      const file = 'kept' in one ? one.kept : kept[next++]
      if (!file) throw new Error('A file was kept, and nothing came of it.')
      const part = asPart(file, 'fresh' in one ? one.fresh.name : described.name)
      parts.push(part)
      const { mediaType, name, bytes } = part
      return { ...withoutBytes(described), fileId: file.fileId, name, mediaType, bytes }
    })
    return { attachments, parts }
  }
}

const near = (name: string, bring: Way['bring']): Way => ({ name, isFar: false, bring })
const far = (name: string, bring: Way['bring']): Way => ({ name, isFar: true, bring })

const unnamed = 'The attachment'

const isThere = <T>(value: T | undefined): value is T => value !== undefined

/** A file as it will stand in the message, for the model to judge. */
const partOf = (one: Brought, name: string | undefined): MessagePart =>
  'kept' in one
    ? asPart(one.kept, name)
    : {
        type: one.fresh.type,
        mediaType: one.fresh.mediaType,
        name: one.fresh.name,
        bytes: one.fresh.body.length,
        file: '',
      }

/** Refusals that say what they are. Everything else that can happen on the way is told alike. */
function isTold(error: unknown): boolean {
  return error instanceof RuntimeError && tellable.has(error.code)
}

const tellable: ReadonlySet<string> = new Set([
  'ATTACHMENT_TOO_LARGE',
  'ATTACHMENT_TYPE',
  'FORBIDDEN',
  'NOT_GRANTED',
  'PLUGIN_PENDING',
  'PLUGIN_FAILED',
])

const noBase64 = (at: number): RuntimeError =>
  new RuntimeError('INVALID_INPUT', `"attachments.${at}" is not valid: expected base64.`, {
    details: [{ path: `attachments.${at}`, message: 'expected base64' }],
    hint: 'Send the bytes as base64, in a data: URL, or with POST /files.',
  })
