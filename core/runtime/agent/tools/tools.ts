import { RuntimeError } from '../../../errors.ts'
import { didYouMean } from '../../../manifest/did-you-mean.ts'
import type { AnyTool, MessagePart, PendingCall, ToolCall, ToolSpec } from '../../../plugin.ts'
import { atOnce } from '../turn/at-once.ts'
import { Facts } from '../../audit/line.ts'
import { audited } from './audit-call.ts'
import { capabilityTools, isAtHand, isToolName, mayCall, mayGive } from '../turn/capabilities.ts'
import { onion, watchedLayer, type Layer } from '../../base/onion.ts'
import { gateOf, isActive, isOpen, type PluginRecord } from '../../base/plugin-record.ts'
import type { ToolEnd } from '../../telemetry/kernel-metrics.ts'
import { inSpan } from '../../telemetry/current-span.ts'
import type { WaitingCall } from '../../turns/run.ts'
import { redacted } from '../../turns/wire/trace-text.ts'
import { subAgentTool } from './sub-agents.ts'
import { asToolError, execute, validate, type Calling, type CallSite } from './tool-call.ts'
import { kernelEntry, pluginEntry, type ToolEntry, type ToolOptions } from './entry.ts'
import { explained } from './tool-content.ts'
import { contentOfCall, sourceOf } from './call-content.ts'
import { readResultEntry, readResultName } from './read-result.ts'
import { turnContext, type Turn, waitingTurn } from '../turn/turn.ts'
import { untilAborted } from '../../base/until-aborted.ts'

/** How a call ended, for the model and the listeners. */
export interface ToolOutcome {
  /** The text of the tool message: a string as it is, everything else as JSON. */
  readonly content: string
  /** The files of a result of `parts`. */
  readonly parts?: readonly MessagePart[]
  /** The value that the tool returned. */
  readonly value?: unknown
  /** Set when the call failed: the error that `content` explains, for the transcript and the log. */
  readonly error?: RuntimeError
  /** Set when nothing happened yet, because a person has to decide about the call first. */
  readonly waits?: WaitingCall
  /** Set when `content` holds other people's words. */
  readonly foreign?: { readonly plugin: string; readonly label?: string }
}

/** Every tool of an app, and the one way to call them. */
export class Tools {
  readonly #entries = new Map<string, ToolEntry>()
  readonly #records: readonly PluginRecord[]
  readonly #options: ToolOptions
  #run: (calling: Calling) => Promise<unknown>

  constructor(records: readonly PluginRecord[], options: ToolOptions) {
    this.#records = records
    this.#options = options
    for (const [name, tool] of Object.entries(capabilityTools(records)))
      this.#add(kernelEntry(name, tool))
    this.#add(readResultEntry)
    for (const record of records) this.#addAll(record)
    this.#run = this.#compose()
  }

  /** Takes in the tools and the middleware of a plugin whose setup finished after the server was up. */
  join(record: PluginRecord) {
    this.#addAll(record)
    this.#run = this.#compose()
  }

  #addAll(record: PluginRecord) {
    for (const [name, tool] of Object.entries(record.tools))
      this.#add(pluginEntry(name, tool, record, this.#options))
    for (const [name, subAgent] of Object.entries(record.definition.subAgents ?? {}))
      this.#add(subAgentTool(name, subAgent, record))
  }

  #add(entry: ToolEntry) {
    this.#entries.set(entry.name, entry)
  }

  /** What holds for all tools. */
  get options(): ToolOptions {
    return this.#options
  }

  /** The tool of a name, whether a turn may call it or not. */
  entry(name: string): ToolEntry | undefined {
    return this.#entries.get(name)
  }

  /** The names of the tools that agents may have. */
  offered(): string[] {
    return [...this.#entries.keys()].filter((name) => this.isOffered(name))
  }

  /** Whether agents may have a tool of this name. */
  isOffered(name: string): boolean {
    const entry = this.#entries.get(name)
    return entry !== undefined && entry.record?.visibility !== 'silent'
  }

  /** Whether `toolsFor` of a plugin may give a turn a tool of this name: nobody knows before the turn asks. */
  mayBeGiven(name: string): boolean {
    if (!isToolName(name) || this.#entries.has(name)) return false
    return this.#records.some((record) => isActive(record) && mayGive(record))
  }

  /** Makes the JSON Schema of every tool now, so that no turn has to wait for it. */
  warm(): void {
    for (const { spec } of this.#entries.values()) void spec.parameters
  }

  /**
   * The tools that a model may call in this turn: the kernel's, and those of loaded plugins that are enabled now. A
   * sub-agent has `only` the tools that it lists, whether the turn has loaded their plugins or not.
   */
  specs(turn: Turn, only?: ReadonlySet<string>): ToolSpec[] {
    const specs: ToolSpec[] = []
    for (const { record, tool, spec } of this.#entries.values()) {
      if (spec === readResultEntry.spec && !turn.results.areKept) continue
      const isMeant = (!only || only.has(spec.name)) && mayCall(turn, spec.name)
      if (!isMeant && spec !== readResultEntry.spec) continue
      if (record && !(isOpen(record) && (only || isAtHand(record, spec.name, turn)))) continue
      if (record && !isEnabled(record, spec.name, tool, turn)) continue
      specs.push(spec)
    }
    return specs
  }

  /**
   * Runs one call through gate, validation, middleware and the tool. A fault of the call is an outcome that the model reads.
   * The promise rejects only when the run itself cannot go on.
   */
  async call(call: ToolCall, turn: Turn, site: CallSite = {}): Promise<ToolOutcome> {
    const { watch } = turn
    if (!watch) return await this.#outcome(call, turn, site)
    const entry = this.#entries.get(call.name) ?? site.turnTools?.get(call.name)
    const plugin = entry?.record?.name ?? (entry?.client ? 'client' : entry ? 'kernel' : 'none')
    const tool = entry?.client ? 'client' : this.nameOf(call.name)
    const agent = entry?.agent
    const given = () => redacted(call.args, entry?.tool?.redact)
    const of = { id: call.id, tool, plugin, given }
    const ended = watch.tool({ ...of, ...(agent !== undefined && { agent }) })
    try {
      const outcome = await inSpan(watch.spanOf(call.id), () => this.#outcome(call, turn, site))
      const result = outcome.waits ? undefined : outcome.content
      ended(outcome.waits ? 'waits' : toolEndOf(outcome.error), outcome.error?.code, result)
      return outcome
    } catch (error) {
      ended('unknown')
      throw error
    }
  }

  /** The name of a tool as the server may tell it to anybody: a name that a user's own tool has, or that a model made up, is `other`. */
  nameOf(name: string): string {
    return this.#entries.has(name) ? name : 'other'
  }

  async #outcome(call: ToolCall, turn: Turn, site: CallSite): Promise<ToolOutcome> {
    let calling: Calling | undefined
    try {
      const entry = this.#gate(call, turn, site)
      const args = await validate(call, entry.input)
      site.guard?.check(call.name, call.args)
      const pending: PendingCall = {
        id: call.id,
        name: call.name,
        plugin: entry.record?.name ?? (entry.client ? 'client' : 'kernel'),
        effect: entry.effect,
        args,
      }
      calling = { call: pending, entry, turn, site, facts: new Facts(), signal: turn.signal }
      const value = await untilAborted(turn.signal, this.#run(calling))
      if (!calling.waits && !calling.fault) {
        const { content, parts } = await contentOfCall(calling, value)
        return {
          content: (calling.edited ?? '') + content,
          ...(parts?.length && { parts }),
          value,
          ...foreignOf(calling),
        }
      }
    } catch (thrown) {
      if (!calling?.waits && !calling?.fault) {
        const error = asToolError(call.name, thrown, calling?.entry.record, turn)
        // A tool chose the words of an error only when it threw a RuntimeError; for all others the kernel made the words.
        const isOurs = calling?.entry.client && error.code !== 'CLIENT_TOOL_FAILED'
        const isItsOwn = calling?.begun && thrown === error && !isOurs
        return { content: explained(error), error, ...(isItsOwn && calling && foreignOf(calling)) }
      }
    }
    // A layer may have swallowed what the core threw; what the core set on `calling` still holds.
    if (calling.fault) throw calling.fault.error
    return { content: '', waits: calling.waits }
  }

  /** Refuses a tool that the turn may not call, and says what to do instead. A model may name any tool, even one not shown to it. */
  #gate({ name }: ToolCall, turn: Turn, site: CallSite): ToolEntry {
    const entry = this.#entries.get(name) ?? site.turnTools?.get(name)
    const isIn = (names?: ReadonlySet<string>) =>
      !names || names.has(name) || name === readResultName
    // What a sub-agent ends with is its own, whatever the turn allows.
    const isOwn = site.only && site.turnTools?.has(name)
    if (!entry || !isIn(site.only) || !(isOwn || isIn(turn.allow))) {
      const theirs = site.only ?? turn.allow
      const close = didYouMean(name, theirs ?? this.#names(site))
      throw new RuntimeError('NOT_FOUND', `There is no tool called "${name}".`, {
        hint: close
          ? `Did you mean "${close}"?`
          : theirs
            ? `Your tools are ${[...theirs].join(', ') || 'none'}.`
            : 'Call list_capabilities to see what there is.',
      })
    }
    const { record, tool } = entry
    if (!record) return entry
    if (record.visibility === 'silent')
      throw new RuntimeError('FORBIDDEN', `The tool "${name}" is not for agents.`)
    const gate = gateOf(record)
    if (gate)
      throw new RuntimeError(
        'UNAVAILABLE',
        `The tool "${name}" belongs to ${record.name}, which is ${gate.isFailed ? 'failed' : 'pending'}.`,
        { hint: gate.why },
      )
    // A sub-agent may call what its plugin borrowed, though the turn has not loaded the plugin that lends it.
    if (!site.only && !isAtHand(record, name, turn))
      throw new RuntimeError(
        'FORBIDDEN',
        `The tool "${name}" belongs to the capability "${record.name}", which is not loaded.`,
        { hint: `Call load_capability with names: ["${record.name}"] first.` },
      )
    if (!isEnabled(record, name, tool, turn))
      throw new RuntimeError('FORBIDDEN', `The tool "${name}" is switched off in this turn.`)
    return entry
  }

  *#names({ turnTools }: CallSite): Generator<string> {
    if (turnTools) yield* turnTools.keys()
    yield* this.#entries.keys()
  }

  #compose() {
    const layers = this.#records
      .filter((record) => record.base && record.definition.middleware?.tool)
      .map((record): Layer<Calling, unknown> => {
        const layer = record.definition.middleware!.tool!
        return watchedLayer(
          ({ call, turn, facts }, next) =>
            isOpen(record)
              ? layer(call, turnContext(record, turn, { id: call.id, facts }), next)
              : next(),
          ({ call, turn }) => waitingTurn(record, 'tool', turn, { tool: call.name }),
        )
      })
    return onion(layers, audited(execute))
  }
}

/** What became of a call that has ended with this error, or without any. */
function toolEndOf(error: RuntimeError | undefined): ToolEnd {
  if (!error) return 'done'
  if (error.code === 'OUTCOME_UNKNOWN') return 'unknown'
  return error.status < 500 ? 'refused' : 'failed'
}

function foreignOf(calling: Calling): Pick<ToolOutcome, 'foreign'> {
  const foreign = sourceOf(calling)
  return foreign ? { foreign } : {}
}

/** Whether a tool is enabled in this turn. When `enabled` throws or returns a promise, the tool is not. */
function isEnabled(
  record: PluginRecord,
  name: string,
  tool: AnyTool | undefined,
  turn: Turn,
): boolean {
  if (!tool?.enabled) return true
  const ask = (): unknown => tool.enabled?.(turnContext(record, turn)) ?? true
  return (atOnce(record, `enabled of "${name}"`, ask, turn.requestId) ?? false) !== false
}
