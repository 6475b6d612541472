import { RuntimeError } from '../../../errors.ts'
import { unknownFields } from '../../../manifest/tools/known-fields.ts'
import { optionFaults } from '../../../manifest/tools/tools.ts'
import type { AnyTool, Log, ToolSpec, TurnTool } from '../../../plugin.ts'
import { isRecord } from '../../base/fields.ts'
import { isOpen, type PluginRecord } from '../../base/plugin-record.ts'
import { argumentsFault } from '../../turns/wire/client-schemas.ts'
import { underWay } from '../../watchdog/under-way.ts'
import { isLoaded, isToolName, mayCall, mayGive, maySee } from '../turn/capabilities.ts'
import { turnContext, type Turn } from '../turn/turn.ts'
import { untilAborted } from '../../base/until-aborted.ts'
import { anyArguments } from './client-tools.ts'
import { pluginEntry, type ToolEntry, type ToolOptions } from './entry.ts'
import { returnResultName } from './sub-agents.ts'

/** How long `toolsFor` of a plugin may take that sets no time of its own. */
const usualMs = 2000
/** How many tools one plugin may give. */
const mostTools = 200
/** How large the schemas of one plugin may be together, in bytes of JSON. */
const allSchemaBytes = 512 * 1024
const mostDescription = 4000
/** How many tools a warning names. */
const mostNamed = 5

/** What the tools of one turn depend on. */
export interface ToolsOfTurnOptions {
  readonly records: readonly PluginRecord[]
  readonly turn: Turn
  /** The tool of a name that every turn has. */
  readonly known: (name: string) => ToolEntry | undefined
  readonly options: ToolOptions
  /** The tools that the client brought along. */
  readonly client: ReadonlyMap<string, ToolEntry>
  readonly log: Log
}

/** The tools that one turn alone has: those of its client, and those that `toolsFor` of each loaded plugin gives its user. */
export class ToolsOfTurn {
  /** The tools by name. */
  readonly entries: Map<string, ToolEntry>
  readonly #options: ToolsOfTurnOptions
  readonly #givers: readonly PluginRecord[]
  readonly #asked = new Set<PluginRecord>()
  /** The names that the turn is allowed and that are no tools of every turn: the plugins say what they are. */
  readonly #wanted: readonly string[]
  #saidWhatIsMissing = false

  constructor(options: ToolsOfTurnOptions) {
    this.#options = options
    const { turn, records, known, client } = options
    this.entries = new Map(client)
    this.#wanted = [...(turn.allow ?? [])].filter((name) => !known(name) && !client.has(name))
    // A turn that is allowed nothing that a plugin could give asks none.
    const isForNothing = turn.allow !== undefined && this.#wanted.length === 0
    this.#givers = isForNothing ? [] : records.filter(mayGive)
  }

  /** The tools as a model reads them. */
  specs(): ToolSpec[] {
    const { known, turn } = this.#options
    const specs: ToolSpec[] = []
    for (const { name, record, spec } of this.entries.values())
      // A plugin that joined in the middle of the turn may have brought a tool of the same name.
      if (mayCall(turn, name) && (!record || (isOpen(record) && !known(name)))) specs.push(spec)
    return specs
  }

  /**
   * Asks each plugin that this turn has not asked, all at once; undefined when there is none. The plugins are those that are
   * loaded, and all in a turn that names its tools: such a tool is there whether its plugin is loaded or not. Never rejects.
   */
  ask(): Promise<unknown> | undefined {
    const { loaded, allow } = this.#options.turn
    const now = this.#givers.filter(
      (record) =>
        !this.#asked.has(record) &&
        isOpen(record) &&
        maySee(record, this.#options.turn) &&
        (allow !== undefined || isLoaded(record, loaded)),
    )
    if (now.length === 0) return this.#sayWhatIsMissing()
    for (const record of now) this.#asked.add(record)
    const answers = now.map(async (record) => ({ record, answer: await this.#given(record) }))
    return Promise.all(answers).then((given) => {
      // In load order and not in the order of the answers, so that of two tools with one name every turn keeps the same one.
      for (const { record, answer } of given) this.#takeAll(record, answer)
      this.#sayWhatIsMissing()
    })
  }

  /** Says once which tools the turn is allowed and no plugin gave: a name with a typing error, or another user's tool. */
  #sayWhatIsMissing(): undefined {
    if (this.#wanted.length === 0 || this.#saidWhatIsMissing) return
    this.#saidWhatIsMissing = true
    const missing = this.#wanted.filter((name) => !this.entries.has(name))
    if (missing.length === 0) return
    const { log, turn } = this.#options
    log.warn(
      { plugin: turn.origin, requestId: turn.requestId },
      `the turn is allowed tools that no plugin has for its user: ${listed(missing.map((name) => `"${name}"`))}; ` +
        'the turn goes on without',
    )
  }

  /** What `toolsFor` of a plugin returned; undefined when it failed or took too long, which the log then says. */
  async #given(record: PluginRecord): Promise<unknown> {
    const { turn } = this.#options
    const { definition, name } = record
    const { toolsForMs = usualMs } = definition
    const over = new AbortController()
    // The error is made where it is needed: its stack costs more than the rest of a turn's question.
    const late = () => new RuntimeError('TOOL_TIMEOUT', `toolsFor of ${name} took too long.`)
    const timer = setTimeout(() => over.abort(late()), toolsForMs)
    const signal = AbortSignal.any([turn.signal, over.signal])
    underWay(`toolsFor of ${name}`)
    try {
      const answer = definition.toolsFor?.({ ...turnContext(record, turn), signal })
      return await untilAborted(signal, Promise.resolve(answer))
    } catch (err) {
      if (over.signal.aborted && !turn.signal.aborted)
        this.#warn(record, `toolsFor of ${name} took longer than ${toolsForMs} ms`)
      else if (!turn.signal.aborted) this.#warn(record, `toolsFor of ${name} failed`, { err })
      return undefined
    } finally {
      clearTimeout(timer)
    }
  }

  /** Takes the plugin's tools that are well formed and within the bounds, and logs once which are left out. */
  #takeAll(record: PluginRecord, answer: unknown): void {
    if (answer === undefined || answer === null) return
    const { name: plugin } = record
    const { turn } = this.#options
    if (!isRecord(answer))
      return this.#warn(record, `toolsFor of ${plugin} returned no map of tools`)
    const leftOut: string[] = []
    let count = 0
    let bytesLeft = allSchemaBytes
    try {
      for (const name in answer) {
        if (!Object.hasOwn(answer, name)) continue
        if (++count > mostTools) break
        if (!mayCall(turn, name)) continue
        const taken = this.#take(record, name, answer[name], bytesLeft)
        if ('fault' in taken) leftOut.push(`"${name.slice(0, 64)}" ${taken.fault}`)
        else bytesLeft -= taken.bytes
      }
    } catch (err) {
      this.#warn(record, `toolsFor of ${plugin} returned a tool that cannot be read`, { err })
    }
    if (count > mostTools)
      this.#warn(record, `toolsFor of ${plugin} returned more than ${mostTools} tools`)
    if (leftOut.length === 0) return
    this.#warn(record, `toolsFor of ${plugin} returned tools that are left out: ${listed(leftOut)}`)
  }

  #take(
    record: PluginRecord,
    name: string,
    given: unknown,
    bytesLeft: number,
  ): { readonly fault: string } | { readonly bytes: number } {
    const { known, options } = this.#options
    if (!isToolName(name)) return { fault: 'is no name of 1 to 64 letters, digits, _ and -' }
    const other = known(name) ?? this.entries.get(name)
    if (other || name === returnResultName) {
      const owner = other?.client ? 'the client' : (other?.record?.name ?? 'the kernel')
      return { fault: `is the name of a tool of ${owner} too` }
    }
    const read = readOnce(name, given)
    if ('fault' in read) return read
    const { tool, spec, bytes } = read
    if (bytes > bytesLeft)
      return { fault: `is over the ${allSchemaBytes} bytes that all schemas may have` }
    this.entries.set(name, { ...pluginEntry(name, tool, record, options), spec })
    return { bytes }
  }

  #warn(record: PluginRecord, sentence: string, fields: object = {}): void {
    const { log, turn } = this.#options
    const ids = { plugin: record.name, requestId: turn.requestId }
    log.warn({ ...ids, ...fields }, `${sentence}; the turn goes on without`)
  }
}

/** The first of them, and how many more there are. */
function listed(all: readonly string[]): string {
  const others = all.length > mostNamed ? `; and ${all.length - mostNamed} more` : ''
  return `${all.slice(0, mostNamed).join('; ')}${others}`
}

/** A tool of `toolsFor` that was found to be well formed, and how large its schema is. */
interface ReadTool {
  readonly tool: AnyTool
  readonly spec: ToolSpec
  readonly bytes: number
}

/** Tools that cannot change any more, as they were read. A plugin that gives every turn the same ones has them read once. */
const frozenTools = new WeakMap<object, ReadTool>()

function readOnce(name: string, given: unknown): ReadTool | { readonly fault: string } {
  const known = isRecord(given) ? frozenTools.get(given) : undefined
  if (known?.spec.name === name) return known
  const read = readTool(given)
  if (typeof read === 'string') return { fault: read }
  const { parameters, bytes } = readSchema(read.schema)
  if (typeof parameters === 'string')
    return { fault: `has "parameters" that are not taken: ${parameters}` }
  const { tool } = read
  const found = { tool, spec: { name, description: tool.description, parameters }, bytes }
  if (isRecord(given) && isFrozen(given)) frozenTools.set(given, found)
  return found
}

/** Whether nothing in a value can change: it is asked of what was found to be plain data, or functions. */
const isFrozen = (value: unknown): boolean =>
  typeof value !== 'object' ||
  value === null ||
  (Object.isFrozen(value) && Object.values(value).every(isFrozen))

const isObject = (given: unknown): given is Partial<TurnTool> => isRecord(given)

/** A tool of `toolsFor` as the kernel runs it, or what is wrong with it. Types cannot stop a plugin in plain JavaScript. */
function readTool(given: unknown): { readonly tool: AnyTool; readonly schema: unknown } | string {
  if (!isObject(given)) return 'is no tool'
  const { description, parameters, effect, foreign, approve, timeoutMs, run } = given
  if (typeof description !== 'string' || !description.trim()) return 'has no description'
  if (description.length > mostDescription)
    return `has a description of more than ${mostDescription} characters`
  if (typeof run !== 'function') return 'has no run function'
  if (parameters === undefined) return 'has no "parameters"'
  // The tool may be an object of a class, with fields of its own: only what looks misspelt is a fault.
  for (const [message, , isMisspelt] of unknownFields('tool of toolsFor', given))
    if (isMisspelt) return message
  const tool: AnyTool = {
    description,
    // The schema is data for the model alone: the kernel only checks that a call brings an object.
    input: anyArguments,
    effect,
    foreign: foreign ?? true,
    timeoutMs,
    approve:
      typeof approve === 'function' ? (args, ctx) => approve(asArguments(args), ctx) : approve,
    run: (args, ctx) => run.call(given, asArguments(args), ctx),
  }
  for (const [fault] of optionFaults(tool)) return fault.replace(/\.$/, '')
  return { tool, schema: parameters }
}

/** A copy of a schema that is plain data and within its bounds, with its size; else the fault instead of the copy. */
function readSchema(given: unknown): {
  readonly parameters: ToolSpec['parameters'] | string
  readonly bytes: number
} {
  const before = argumentsFault(given)
  if (before.fault !== undefined) return { parameters: before.fault, bytes: 0 }
  let copy: unknown
  try {
    copy = JSON.parse(JSON.stringify(given))
  } catch (error) {
    return { parameters: error instanceof Error ? error.message : 'it is not JSON', bytes: 0 }
  }
  // A method `toJSON` may have turned the schema into something that is no object.
  const { fault, bytes } = argumentsFault(copy)
  if (fault !== undefined || !isRecord(copy))
    return { parameters: fault ?? 'it is not an object', bytes: 0 }
  const { $schema: _, ...plain } = copy
  return { parameters: { type: 'object', properties: {}, ...plain }, bytes }
}

/** The arguments of a call: `anyArguments` has parsed them, so they are an object. */
const asArguments = (args: unknown): Record<string, unknown> => (isRecord(args) ? args : {})
