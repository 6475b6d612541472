import { RuntimeError } from '../../errors.ts'
import type { Delta, Model, ModelRequest, ModelSettings, OfferSettings } from '../../plugin.ts'

interface OpenedLaterOptions {
  /** What MODEL calls the model. */
  readonly id: string
  readonly settings: OfferSettings
  /** What people read instead of the id while the model is not open. */
  readonly label?: string
  /** The window that MODEL_CONTEXT_WINDOW gives every model without one in its settings. */
  readonly usualWindow?: number
  /** Whether nobody pays for it. */
  readonly isFree?: boolean
  open(): Model | Promise<Model>
}

/** How long a failure waits for the call of its turn. */
const failureMs = 5_000

/** The price of a model for which nobody pays. */
export const noPrice = { input: 0, output: 0 } as const

/** The settings that go into a request; the others are for whoever opens the model. */
const asked = ['temperature', 'topP', 'maxOutputTokens', 'reasoning', 'body'] as const

/** A model that is opened at its first call, once for all calls: what a model needs is not loaded before. */
export class OpenedLater implements Model {
  readonly id: string
  readonly settings: OfferSettings
  readonly isFree: boolean
  readonly #label: string
  readonly #asked: ModelSettings | undefined
  readonly #usualWindow: number | undefined
  readonly #opener: () => Model | Promise<Model>
  #opening: Promise<Model> | undefined
  #model: Model | undefined
  /** Whether the next call opens the model anew. What the model says of itself holds until then. */
  #isStale = false
  /** Why the model could not be opened when somebody only wanted to know of it, for the call that follows. */
  #failed: { readonly error: unknown; readonly at: number } | undefined

  constructor(options: OpenedLaterOptions) {
    const { id, settings, label = id, usualWindow, isFree = false, open } = options
    this.id = id
    this.settings = settings
    this.isFree = isFree
    this.#label = label
    this.#usualWindow = usualWindow
    this.#opener = open
    const set = asked.filter((name) => settings[name] !== undefined)
    if (set.length > 0) this.#asked = Object.fromEntries(set.map((name) => [name, settings[name]]))
  }

  get label(): string {
    return this.settings.label ?? this.#model?.label ?? this.#label
  }
  get origin(): string {
    return this.#model?.origin ?? this.#model?.id ?? this.id
  }
  /** The window as it is known now: the model itself may say more once it is open. */
  get contextWindow(): number | undefined {
    return this.settings.contextWindow ?? this.#usualWindow ?? this.#model?.contextWindow
  }
  get maxOutputTokens(): number | undefined {
    return this.settings.maxOutputTokens ?? this.#model?.maxOutputTokens
  }
  get price(): Model['price'] {
    return this.settings.price ?? this.#model?.price ?? (this.isFree ? noPrice : undefined)
  }
  get reads(): Model['reads'] {
    return this.settings.reads ?? this.#model?.reads
  }
  get can(): Model['can'] {
    return this.#model?.can
  }

  /** Has the next call open the model anew: a key of it has changed. */
  reopen(): void {
    this.#isStale = true
    this.#opening = undefined
  }

  /** Opens the model. An opening that failed is tried again with the next call. */
  async opened(): Promise<Model> {
    const failed = this.#freshFailure
    this.#failed = undefined
    if (failed) throw failed.error
    return await this.#open()
  }

  /**
   * Opens the model for what it says of itself. It throws nothing: the call that follows within seconds throws the fault, without opening
   * the model a second time.
   */
  async known(): Promise<void> {
    if (this.#freshFailure) return
    try {
      await this.#open()
    } catch (error) {
      this.#failed = { error, at: performance.now() }
    }
  }

  get #freshFailure(): { readonly error: unknown } | undefined {
    return this.#failed && performance.now() - this.#failed.at < failureMs
      ? this.#failed
      : undefined
  }

  async #open(): Promise<Model> {
    const ready = this.#ready
    if (ready) return ready
    const opening = (this.#opening ??= this.#begin())
    const model = await opening
    if (this.#opening === opening) {
      this.#model = model
      this.#isStale = false
    }
    return model
  }

  get #ready(): Model | undefined {
    return this.#isStale ? undefined : this.#model
  }

  async #begin(): Promise<Model> {
    try {
      return await this.#opener()
    } catch (error) {
      this.#opening = undefined
      if (error instanceof RuntimeError) throw error
      throw new RuntimeError('MODEL_UNUSABLE', `The model "${this.id}" cannot be opened.`, {
        hint: 'Whoever runs this server finds the reason in its log.',
        cause: error,
      })
    }
  }

  async *stream(request: ModelRequest): AsyncGenerator<Delta> {
    const model = this.#ready ?? (await this.opened())
    yield* model.stream(this.#set(request))
  }

  async streamTo(request: ModelRequest, take: (delta: Delta) => void): Promise<void> {
    const model = this.#ready ?? (await this.opened())
    if (model.streamTo) return model.streamTo(this.#set(request), take)
    for await (const delta of model.stream(this.#set(request))) take(delta)
  }

  #set(request: ModelRequest): ModelRequest {
    if (!this.#asked) return request
    return { ...request, settings: { ...this.#asked, ...request.settings } }
  }
}

/** Resolves once a model is open, or cannot be opened: what it says of itself is known then, as far as it can be. */
export async function knownModel(model: Model): Promise<void> {
  if (model instanceof OpenedLater) await model.known()
}

/** Resolves once a model is open: what it says of its window, its price and what it reads is known then. */
export async function openedModel(model: Model): Promise<void> {
  if (model instanceof OpenedLater) await model.opened()
}
