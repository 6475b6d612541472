import { RuntimeError } from '../../errors.ts'
import type { Delta, Model, ModelRequest } from '../../plugin.ts'
import { forModel } from './for-model.ts'
import { openedModel } from './opened-later.ts'
import { Rests } from './rests.ts'
import { mayPass } from './transport/retry.ts'

/** Several models that stand in for one: where the first cannot answer, the next takes over, and never after a word. */
export class Chain implements Model {
  readonly id: string
  readonly members: readonly Model[]
  readonly rests: Rests

  constructor(id: string, members: readonly [Model, ...Model[]], rests = new Rests()) {
    this.id = id
    this.members = members
    this.rests = rests
  }

  get #first(): Model {
    return this.members[0]!
  }
  get label(): string {
    return this.#first.label ?? this.id
  }
  get contextWindow(): number | undefined {
    return this.#first.contextWindow
  }
  get maxOutputTokens(): number | undefined {
    return this.#first.maxOutputTokens
  }
  get price(): Model['price'] {
    return this.#first.price
  }
  get reads(): Model['reads'] {
    return this.#first.reads
  }
  get can(): Model['can'] {
    return this.#first.can
  }

  async *stream(request: ModelRequest): AsyncGenerator<Delta> {
    const walk = new Walk(this)
    for (;;) {
      try {
        await openedModel(walk.model)
        for await (const delta of walk.model.stream(walk.request(request))) {
          walk.hear(delta)
          yield delta
        }
        return walk.answered()
      } catch (error) {
        request.signal.throwIfAborted()
        walk.next(error)
      }
    }
  }
}

/** Another model than the one that was asked for answers. */
export interface Instead {
  /** The model that answers. */
  readonly model: string
  /** The model that could not. */
  readonly instead: string
  /** Why it could not. */
  readonly code: string
}

/** The faults of which nobody but the operator can mend the cause: the next of a chain may have another account. */
const ofAccount: ReadonlySet<string> = new Set([
  'MODEL_UNAUTHORIZED',
  'MODEL_QUOTA_EXHAUSTED',
  'MODEL_NOT_FOUND',
])
/** How often a model is asked that has another one behind it. */
const attemptsBeforeNext = 2
/** The window of a model that does not say: 128,000 tokens. */
const usualWindow = 128_000

type WindowOf = (model: Model) => number
const saidWindow: WindowOf = ({ contextWindow = usualWindow }) => contextWindow

/** The models of a chain, or the one model that stands alone. */
const membersOf = (model: Model): readonly Model[] =>
  model instanceof Chain ? model.members : [model]

/** The first model behind `from` in its chain that reads more than `from` does, and at least so many tokens. */
export function largerMember(
  model: Model,
  from: Model,
  tokens: number,
  windowOf: WindowOf,
): Model | undefined {
  const members = membersOf(model)
  const at = members.indexOf(from)
  const least = Math.max(tokens, windowOf(from) + 1)
  return members.find((member, nth) => nth > at && windowOf(member) >= least)
}

/** One call on its way along the models of a chain. A model that stands alone is a chain of one. */
export class Walk {
  readonly #members: readonly Model[]
  readonly #rests: Rests | undefined
  readonly #tried: { readonly model: string; readonly code: string }[] = []
  #firstFault: RuntimeError | undefined
  #at: number
  #spoke = false
  /** Said once, before the model is asked: another one than the chain's first answers. */
  #instead: Instead | undefined

  readonly #windowOf: WindowOf

  /** `stayWith` is the id of the model that the turn went to before; `windowOf` says how many tokens a model reads. */
  constructor(model: Model, stayWith?: string, windowOf = saidWindow) {
    this.#members = membersOf(model)
    this.#windowOf = windowOf
    this.#rests = model instanceof Chain ? model.rests : undefined
    const known = this.#members.findIndex(({ id }) => id === stayWith)
    this.#at = known > 0 ? known : this.#awake(0)
    if (known > 0 || this.#at === 0) return
    const first = this.#members[0]!.id
    const code = this.#rests?.codeOf(first) ?? 'MODEL_FAILED'
    this.#instead = { model: this.model.id, instead: first, code }
  }

  /** The model whose turn it is. */
  get model(): Model {
    return this.#members[this.#at]!
  }

  /** Whether a word or a call was heard. */
  get hasSpoken(): boolean {
    return this.#spoke
  }

  /** Takes what is to be said of a change of model, once. */
  takeInstead(): Instead | undefined {
    const instead = this.#instead
    this.#instead = undefined
    return instead
  }

  /** The request as this model gets it: with its own data alone, and fewer attempts where another model is behind it. */
  request(request: ModelRequest): ModelRequest {
    const own = forModel(request, this.model)
    const hasNext = this.#at + 1 < this.#members.length
    return hasNext ? { ...own, attempts: attemptsBeforeNext } : own
  }

  /** Notes a delta: after the first word or call there is no other model. */
  hear({ type }: Delta): void {
    if (type === 'text' || type === 'tool-call') this.#spoke = true
  }

  /** Notes that the model has answered. */
  answered(): void {
    this.#rests?.answered(this.model.id)
  }

  /** Goes on to the next model that may answer after this fault, or throws the fault of the first. */
  next(error: unknown): void {
    if (!(error instanceof RuntimeError)) throw error
    const { model } = this
    const isDown = mayPass(error) || ofAccount.has(error.code)
    if (isDown) this.#rests?.failed(model.id, error.code)
    this.#firstFault ??= error
    this.#tried.push({ model: model.id, code: error.code })
    const to = this.#spoke ? -1 : this.#after(error, isDown)
    if (to < 0) throw this.#final(error)
    this.#at = to
    this.#instead = { model: this.model.id, instead: model.id, code: error.code }
  }

  #after(error: RuntimeError, isDown: boolean): number {
    const from = this.#at + 1
    if (isDown) return from < this.#members.length ? this.#awake(from) : -1
    if (error.code !== 'MODEL_CONTEXT_TOO_LONG') return -1
    const window = this.#windowOf(this.model)
    return this.#members.findIndex((model, at) => at >= from && this.#windowOf(model) > window)
  }

  /** The first model from here on that does not rest; where all rest, the one here. */
  #awake(from: number): number {
    const awake = this.#members.findIndex(({ id }, at) => at >= from && !this.#rests?.isResting(id))
    return awake < 0 ? from : awake
  }

  #final(error: RuntimeError): RuntimeError {
    // What was said stays with the fault of the model that said it.
    const fault = this.#spoke ? error : (this.#firstFault ?? error)
    if (this.#tried.length < 2) return fault
    return new RuntimeError(fault.code, fault.message, {
      hint: fault.hint,
      headers: fault.headers,
      cause: fault.cause,
      details: { ...(fault.details as object | undefined), tried: this.#tried },
    })
  }
}
