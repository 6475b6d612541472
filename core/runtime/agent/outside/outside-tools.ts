import { randomUUID } from 'node:crypto'
import { z } from 'zod'
import { RuntimeError } from '../../../errors.ts'
import { didYouMean } from '../../../manifest/did-you-mean.ts'
import type {
  Emit,
  Log,
  Model,
  OutsideCall,
  OutsideResult,
  OutsideTool,
  OutsideTools,
  User,
} from '../../../plugin.ts'
import type { AuditTrail } from '../../audit/trail.ts'
import type { Rights } from '../../auth/grants/rights.ts'
import { isRecord } from '../../base/fields.ts'
import type { PluginRecord } from '../../base/plugin-record.ts'
import { piecesOf } from '../../files/pieces.ts'
import type { RoomState } from '../../store/room-state.ts'
import { loadRoom, saveRoom, type StateKey, stateKeys, TurnState } from '../state/state.ts'
import type { ToolEntry } from '../tools/entry.ts'
import type { CallSite } from '../tools/tool-call.ts'
import { fitsIn, resultText, usualResultBytes } from '../tools/tool-content.ts'
import type { Tools } from '../tools/tools.ts'
import { Consent } from '../turn/consent.ts'
import type { Turn } from '../turn/turn.ts'

/** What calls outside a turn need of the app. */
export interface OutsideOptions {
  readonly records: readonly PluginRecord[]
  readonly tools: Tools
  readonly rooms: RoomState
  readonly rights: Rights
  /** Throws for a user who may not talk to the agent, and so calls none of its tools either. */
  readonly demandTalk: ((user: User) => Promise<void>) | undefined
  readonly model: () => Model
  readonly audit: AuditTrail
  readonly log: Log
}

/** Whose tools are listed. */
interface Whose {
  readonly user: User
  readonly name?: string
}

/** What a list needs of its turn. */
interface Listing {
  readonly names?: ReadonlySet<string>
  readonly readsState?: boolean
}

/** No result is larger, whatever a caller asks for. */
const mostResultBytes = 256 * 1024

/**
 * Calls tools without a model and without a session. A call is a turn of its own in which every plugin is loaded: it passes the
 * same gate, rights, checks, middleware and limits, and leaves the same audit line.
 */
export class CallsOutside implements OutsideTools {
  readonly #options: OutsideOptions
  readonly #known = new WeakMap<ToolEntry, OutsideTool>()
  readonly #keys: readonly StateKey[]
  /** Every plugin counts as loaded. */
  readonly #all: Set<string>

  constructor(options: OutsideOptions) {
    this.#options = options
    this.#keys = stateKeys(options.records)
    this.#all = new Set(options.records.map(({ name }) => name))
  }

  async list({ user, name }: Whose): Promise<readonly OutsideTool[]> {
    await this.#demand(user)
    const { tools } = this.#options
    const names = name === undefined ? tools.offered() : [name]
    const entries = names.flatMap((each) => tools.entry(each) ?? [])
    // Only a tool that is switched on and off reads state before it is called.
    const readsState = entries.some(({ tool }) => tool?.enabled !== undefined)
    const { turn } = await this.#begin({ user, name: '' }, { names: new Set(names), readsState })
    return tools.specs(turn).flatMap((spec) => {
      const entry = tools.entry(spec.name)
      return entry?.record && entry.tool ? [this.#told(entry)] : []
    })
  }

  asksNobody({ user }: Whose): (tool: string) => Promise<boolean> {
    let looking: Promise<ReadonlySet<string>> | undefined
    const look = async () => {
      const quick = (await this.list({ user })).filter(
        ({ effect, approve }) => effect === 'read' && approve === false,
      )
      return new Set(quick.map(({ name }) => name))
    }
    return async (tool) => (await (looking ??= look())).has(tool)
  }

  async call(call: OutsideCall): Promise<OutsideResult> {
    const { rooms, tools } = this.#options
    const { name, args = {} } = call
    await this.#demand(call.user)
    const { turn, state, site } = await this.#begin(call)
    const entry = tools.entry(name)
    if (!entry?.record || !entry.tool) throw this.#unknown(name, turn)
    const outcome = await tools.call({ id: randomUUID(), name, args }, turn, site)
    await saveRoom(rooms, turn.room, state.changes())
    if (outcome.waits) throw approvalNeeded(name)
    if (outcome.error) throw outcome.error
    const { content: text, value } = outcome
    const pieces = piecesOf(value)
    if (pieces) return { text, value, pieces, isCut: false }
    const maxBytes = site.maxResultBytes ?? entry.maxResultBytes ?? usualResultBytes
    return { text, value, isCut: !fitsIn(resultText(value), maxBytes) }
  }

  async #demand(user: User): Promise<void> {
    await this.#options.rights.refresh(user.did)
    await this.#options.demandTalk?.(user)
  }

  /** A turn of one call. */
  async #begin(call: OutsideCall, { names, readsState = true }: Listing = {}) {
    const { rooms, rights, audit, log, model } = this.#options
    const { user, requestId = randomUUID(), approvals } = call
    const keys = readsState ? this.#keys : []
    const room = rooms.of(user.did)
    const state = new TurnState(keys, {}, await loadRoom(rooms, room, keys), log)
    const session = { id: `outside-${randomUUID()}` }
    const turn: Turn = {
      user,
      rights,
      session,
      room,
      requestId,
      rootId: session.id,
      results: { areKept: false },
      signal: call.signal ?? new AbortController().signal,
      model: model(),
      asked: { count: 0 },
      consent: new Consent({
        request: { message: '', approvals: approvals === 'events' },
      }),
      ...(names && { allow: names }),
      loaded: this.#all,
      states: state.byPlugin,
      emit: () => emitting(call),
    }
    const { decided, maxResultBytes } = call
    const site: CallSite = {
      decisionOn: () => decided && { decision: decided },
      audit: (line) => audit.write({ ...line, requestId }),
      ...(maxResultBytes !== undefined && {
        maxResultBytes: Math.min(maxResultBytes, mostResultBytes),
      }),
    }
    return { turn, state, site }
  }

  #told(entry: ToolEntry): OutsideTool {
    const known = this.#known.get(entry)
    if (known) return known
    const { name, spec, tool, record, effect, foreign } = entry
    const output = tool?.output && outputOf(tool.output)
    const told: OutsideTool = {
      name,
      description: spec.description,
      parameters: spec.parameters,
      ...(output && { output }),
      effect,
      approve: typeof tool?.approve === 'function' ? 'depends' : tool?.approve === true,
      isRepeatable: tool?.repeatable === true,
      isForeign: foreign,
      plugin: record?.name ?? '',
    }
    this.#known.set(entry, told)
    return told
  }

  #unknown(name: string, turn: Turn): RuntimeError {
    const names = this.#options.tools.specs(turn).map((spec) => spec.name)
    const close = didYouMean(name, names)
    return new RuntimeError('NOT_FOUND', `There is no tool called "${name.slice(0, 64)}".`, {
      hint: close ? `Did you mean "${close}"?` : 'Ask for the list of tools.',
    })
  }
}

/** The JSON Schema of a result that is an object. */
function outputOf(schema: z.core.$ZodType): Readonly<Record<string, unknown>> | undefined {
  const { $schema: _, ...plain } = z.toJSONSchema(schema, { io: 'output', unrepresentable: 'any' })
  return plain.type === 'object' && isRecord(plain) ? plain : undefined
}

const nothing = () => undefined

/** Nobody hears what a tool shows; who calls may hear of its progress. */
const emitting = ({ onProgress }: OutsideCall): Emit => ({
  component: nothing,
  reasoning: nothing,
  router: nothing,
  invalidate: nothing,
  progress: (done, total, note) => onProgress?.(done, total, note),
})

const approvalNeeded = (name: string) =>
  new RuntimeError('APPROVAL_NEEDED', `"${name}" asks a person before it runs.`, {
    hint: 'Ask the user, and call again with their consent.',
  })
