import { RuntimeError } from '../../../errors.ts'
import { didYouMean } from '../../../manifest/did-you-mean.ts'
import type { AnyTool, PendingCall, ToolCall, ToolSpec } from '../../../plugin.ts'
import { atOnce } from '../turn/at-once.ts'
import { Facts } from '../../audit/line.ts'
import { audited } from './audit-call.ts'
import { capabilityTools, isLoaded } from '../turn/capabilities.ts'
import { onion, type Layer } from '../turn/onion.ts'
import type { PluginRecord } from '../../base/plugin-record.ts'
import type { WaitingCall } from '../../turns/run.ts'
import { labelOf, pagePlugin } from '../turn/consent.ts'
import { subAgentTool } from './sub-agents.ts'
import { asToolError, execute, validate, type Calling, type CallSite } from './tool-call.ts'
import { kernelEntry, pluginEntry, type ToolEntry } from './entry.ts'
import { contentOf, explained } from './tool-content.ts'
import { turnContext, type Turn } from '../turn/turn.ts'
import { untilAborted } from '../turn/until-aborted.ts'

/** How a call ended, as the model and the listeners get it. */
export interface ToolOutcome {
  /** What the tool message says: text as it is, everything else as JSON. */
  readonly content: string
  readonly value?: unknown
  /** Set when the call failed: the same error, for the transcript and the log. */
  readonly error?: RuntimeError
  /** Set when nothing happened yet: a person is to be asked about this call first. */
  readonly waits?: WaitingCall
  /** Set when these are other people's words. */
  readonly foreign?: { readonly plugin: string; readonly label?: string }
}

/** Every tool of an app, and the one way to call them. */
export class Tools {
  readonly #entries = new Map<string, ToolEntry>()
  readonly #records: readonly PluginRecord[]
  #run: (calling: Calling) => Promise<unknown>

  constructor(records: readonly PluginRecord[]) {
    this.#records = records
    for (const [name, tool] of Object.entries(capabilityTools(records)))
      this.#add(kernelEntry(name, tool))
    for (const record of records) this.#addAll(record)
    this.#run = this.#compose()
  }

  /** A plugin whose setup finished after the server was up joins late. */
  join(record: PluginRecord) {
    this.#addAll(record)
    this.#run = this.#compose()
  }

  #addAll(record: PluginRecord) {
    for (const [name, tool] of Object.entries(record.tools))
      this.#add(pluginEntry(name, tool, record))
    for (const [name, subAgent] of Object.entries(record.definition.subAgents ?? {}))
      this.#add(subAgentTool(name, subAgent, record))
  }

  #add(entry: ToolEntry) {
    this.#entries.set(entry.name, entry)
  }

  entry(name: string): ToolEntry | undefined {
    return this.#entries.get(name)
  }

  /** Writes out every tool's schema, so that no turn has to. */
  warm(): void {
    for (const { spec } of this.#entries.values()) void spec.parameters
  }

  /** What the model is shown: the kernel's tools and those of loaded plugins that are enabled now. */
  specs(turn: Turn): ToolSpec[] {
    const specs: ToolSpec[] = []
    for (const { record, tool, spec } of this.#entries.values()) {
      if (record && !(record.base && isLoaded(record, turn.loaded))) continue
      if (record && !isEnabled(record, spec.name, tool, turn)) continue
      specs.push(spec)
    }
    return specs
  }

  /**
   * Runs one call through gate, validation, middleware and the tool. What goes wrong is an outcome that the
   * model reads; it rejects only when the run itself cannot go on.
   */
  async call(call: ToolCall, turn: Turn, site: CallSite = {}): Promise<ToolOutcome> {
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
      calling = { call: pending, entry, turn, site, facts: new Facts() }
      const value = await untilAborted(turn.signal, this.#run(calling))
      if (!calling.waits && !calling.fault)
        return {
          content: (calling.edited ?? '') + contentOf(value),
          value,
          ...foreignOf(calling),
        }
    } catch (thrown) {
      if (!calling?.waits && !calling?.fault) {
        const error = asToolError(call.name, thrown, calling?.entry.record, turn)
        // Only a tool that throws an error of ours chose its words; any other failure is told in the kernel's.
        const isOurs = calling?.entry.client && error.code !== 'CLIENT_TOOL_FAILED'
        const isItsOwn = calling?.begun && thrown === error && !isOurs
        return { content: explained(error), error, ...(isItsOwn && calling && foreignOf(calling)) }
      }
    }
    // A layer may have swallowed what the core threw; what it left on the call still holds.
    if (calling.fault) throw calling.fault.error
    return { content: '', waits: calling.waits }
  }

  /** Refuses what is not loaded, whatever the model believes, and says what to do instead. */
  #gate({ name }: ToolCall, turn: Turn, site: CallSite): ToolEntry {
    const entry = this.#entries.get(name) ?? site.clientTools?.get(name)
    if (!entry || (site.only && !site.only.has(name))) {
      const close = didYouMean(name, site.only ?? this.#entries.keys())
      throw new RuntimeError('NOT_FOUND', `There is no tool called "${name}".`, {
        hint: close
          ? `Did you mean "${close}"?`
          : site.only
            ? `Your tools are ${[...site.only].join(', ')}.`
            : 'Call list_capabilities to see what there is.',
      })
    }
    const { record, tool } = entry
    if (!record) return entry
    if (record.visibility === 'silent')
      throw new RuntimeError('FORBIDDEN', `The tool "${name}" is not for agents.`)
    if (!record.base)
      throw new RuntimeError(
        'UNAVAILABLE',
        `The tool "${name}" belongs to ${record.name}, which is ${record.state}.`,
        { hint: record.reason },
      )
    if (!isLoaded(record, turn.loaded))
      throw new RuntimeError(
        'FORBIDDEN',
        `The tool "${name}" belongs to the capability "${record.name}", which is not loaded.`,
        { hint: `Call load_capability with names: ["${record.name}"] first.` },
      )
    if (!isEnabled(record, name, tool, turn))
      throw new RuntimeError('FORBIDDEN', `The tool "${name}" is switched off in this turn.`)
    return entry
  }

  #compose() {
    const layers = this.#records
      .filter((record) => record.base && record.definition.middleware?.tool)
      .map((record): Layer<Calling, unknown> => {
        const layer = record.definition.middleware!.tool!
        return ({ call, turn, facts }, next) =>
          layer(call, turnContext(record, turn, call.id, facts), next)
      })
    return onion(layers, audited(execute))
  }
}

/** Where a call's result came from, when it holds other people's words. */
function foreignOf({ entry, call, foreign }: Calling): Pick<ToolOutcome, 'foreign'> {
  if (!entry.foreign && !foreign) return {}
  if (entry.client) return { foreign: { plugin: pagePlugin } }
  const label = labelOf(call.args)
  const plugin = entry.record?.name ?? 'kernel'
  return { foreign: { plugin, ...(label !== undefined && { label }) } }
}

/** A tool whose plugin cannot say whether it is enabled is not offered. */
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
