import { setTimeout as pause } from 'node:timers/promises'
import type { Message, Model, ModelRequest, ModelSettings, ToolSpec } from '../../plugin.ts'
import { hear, type HeardReply } from './hear.ts'
import { holdsKey, told } from './judge.ts'
import type { ContractAnswer, ContractOptions, ContractScene, OpenModel } from './scene.ts'

/** One check of the contract. */
export interface ContractCheck {
  readonly name: string
  /** How many calls of the model it makes at most, attempts after a fault not counted. */
  readonly calls: number
  /** Only a provider of tests can be brought to it. */
  readonly staged?: true
  run(stage: Stage): Promise<void>
}

/** The tools that the contract offers. */
export const tools: readonly ToolSpec[] = [
  {
    name: 'contract_note',
    description: 'Notes one word. For two words it is called twice.',
    parameters: {
      type: 'object',
      properties: { word: { type: 'string', description: 'The word to note' } },
      required: ['word'],
    },
  },
  {
    name: 'contract_clock',
    description: 'Says what time it is. It takes no arguments.',
    parameters: { type: 'object', properties: {} },
  },
]

/** A line of the user. */
export const user = (content: string): Message => ({ role: 'user', id: 'u', content })

/** Thrown where a check cannot go on; what was found stands. */
export class CheckOver extends Error {}

/** Where a check is made: it opens the model for a scene, asks it, and takes what is found. */
export class Stage {
  readonly isReal: boolean
  readonly findings: string[] = []
  readonly skipped: string[] = []
  readonly #name: string
  readonly #open: OpenModel
  readonly #options: ContractOptions

  /** A stage for the check of this name. */
  constructor(name: string, open: OpenModel, options: ContractOptions) {
    this.#name = name
    this.#open = open
    this.#options = options
    this.isReal = options.real === true
  }

  /** Notes what the model does not do as it must. */
  find(...sentences: readonly string[]): void {
    this.findings.push(...sentences)
  }

  /** Leaves the check, and says why it was not made to its end. */
  leave(why: string): never {
    this.skipped.push(`${this.#name}: ${why}`)
    throw new CheckOver()
  }

  /** Opens the model for a scene; leaves the check where the provider cannot be brought to it. */
  async open(answers: readonly ContractAnswer[], part?: string): Promise<Model> {
    const name = part ? `${this.#name}: ${part}` : this.#name
    const scene: ContractScene = { name, answers }
    return (await this.#open(scene)) ?? this.leave('the provider cannot be brought to this.')
  }

  /** Opens the model for one of several scenes; undefined, and told as skipped, where the provider cannot be brought to it. */
  async openOr(answers: readonly ContractAnswer[], part: string): Promise<Model | undefined> {
    const model = await this.#open({ name: `${this.#name}: ${part}`, answers })
    if (!model) this.skipped.push(`${this.#name}: the provider cannot be brought to ${part}.`)
    return model
  }

  /** Asks the model once. */
  async ask(
    model: Model,
    messages: readonly Message[],
    rest: Partial<ModelRequest> = {},
    way?: 'stream' | 'streamTo',
  ): Promise<HeardReply> {
    const heard = await hear(model, this.request(messages, rest), way)
    if (heard.error !== undefined) this.#lookForKey(heard.error)
    return heard
  }

  /** A request of the contract. */
  request(messages: readonly Message[], rest: Partial<ModelRequest> = {}) {
    const settings: ModelSettings | undefined = rest.settings ?? this.#options.settings
    const system: Message = { role: 'system', content: 'You are being tested. Be brief.' }
    return {
      tools: rest.tools ?? [],
      messages: [system, ...messages],
      ...(rest.file && { file: rest.file }),
      ...(settings && { settings: { ...this.#options.settings, ...settings } }),
    }
  }

  /** What an error says, for a finding. */
  told(error: unknown): string {
    return told(error, this.#options.key)
  }

  /** Gives the process a turn, so that what was begun is under way. */
  async beat(): Promise<void> {
    await pause(20)
  }

  #lookForKey(error: unknown): void {
    const { key } = this.#options
    if (key && holdsKey(error, key))
      this.find(`The key stands in the error of "${this.#name}" (${this.told(error)}).`)
  }
}
