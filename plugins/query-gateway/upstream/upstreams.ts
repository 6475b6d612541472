import { CallError, grpc } from '../statuses.ts'
import type { Call, Metadata, StreamAnswer, Transport, UnaryAnswer } from './transport.ts'

/** One of the upstreams, with the name that the log has for it. */
export interface NamedUpstream {
  readonly name: string
  readonly transport: Transport
}

/** What `Upstreams` needs beside the upstreams. */
export interface UpstreamsOptions {
  readonly tell: (sentence: string) => void
  readonly now?: () => number
}

const firstPauseMs = 500
const longestPauseMs = 15_000

/**
 * Several upstreams that serve the same. Calls go to each in turn, and not to one that was away a moment ago while another
 * is there. A safe call that meets an upstream which is away goes on to the next, each at most once; any other call is
 * never repeated, because the upstream may have begun it.
 */
export class Upstreams implements Transport {
  readonly #all: readonly Upstream[]
  readonly #now: () => number
  #turn = 0

  constructor(upstreams: readonly NamedUpstream[], { tell, now }: UpstreamsOptions) {
    this.#now = now ?? (() => performance.now())
    this.#all = upstreams.map((one) => new Upstream(one, tell, this.#now))
  }

  async unary(call: Call): Promise<UnaryAnswer> {
    return this.#try(call, async (upstream, left) => {
      const answer = await upstream.transport.unary(left)
      upstream.isThere()
      return answer
    })
  }

  serverStream(call: Call): StreamAnswer {
    const begun = this.#try(call, async (upstream, left) => {
      const stream = upstream.transport.serverStream(left)
      const metadata = await stream.metadata
      upstream.isThere()
      return { metadata, messages: stream.messages }
    })
    begun.catch(() => undefined) // the reader of the messages gets the same failure
    return { metadata: begun.then(({ metadata }) => metadata), messages: messagesOf(begun) }
  }

  onReturn(listener: () => void): void {
    for (const { transport } of this.#all) transport.onReturn(listener)
  }

  close(): void {
    for (const { transport } of this.#all) transport.close()
  }

  async #try<T>(call: Call, ask: (upstream: Upstream, left: Call) => Promise<T>): Promise<T> {
    const { deadlineMs } = call
    const from = this.#now()
    let failure: unknown
    for (const upstream of this.#inOrder(call.isSafe ?? false)) {
      const left =
        deadlineMs === undefined ? deadlineMs : Math.max(deadlineMs - (this.#now() - from), 1)
      try {
        return await ask(upstream, left === undefined ? call : { ...call, deadlineMs: left })
      } catch (thrown) {
        failure = thrown
        if (!(thrown instanceof CallError) || thrown.code !== grpc.unavailable) {
          // Whatever it is, the upstream has answered, or nobody has asked it.
          throw thrown
        }
        upstream.isAway()
        if (!call.isSafe) break
      }
    }
    throw failure
  }

  /**
   * The upstreams in the order in which a call tries them. A safe call may find out whether one that was away is back; any
   * other call goes there only where no upstream is known to be there.
   */
  #inOrder(isSafe: boolean): readonly Upstream[] {
    const [only] = this.#all
    if (this.#all.length === 1 && only !== undefined) return [only]
    const from = this.#turn++ % this.#all.length
    const turned = [...this.#all.slice(from), ...this.#all.slice(0, from)]
    const now = this.#now()
    const rank = ({ awayUntil }: Upstream) =>
      awayUntil === 0 ? 0 : awayUntil <= now ? (isSafe ? 0 : 1) : 2
    return turned.sort((a, b) => rank(a) - rank(b))
  }
}

/** An upstream, and when it may be asked again. */
class Upstream {
  readonly name: string
  readonly transport: Transport
  /** 0 while the upstream is there. */
  awayUntil = 0
  readonly #tell: (sentence: string) => void
  readonly #now: () => number
  #pauseMs = firstPauseMs

  constructor({ name, transport }: NamedUpstream, tell: (text: string) => void, now: () => number) {
    this.name = name
    this.transport = transport
    this.#tell = tell
    this.#now = now
  }

  isThere(): void {
    if (this.awayUntil === 0) return
    this.awayUntil = 0
    this.#pauseMs = firstPauseMs
    this.#tell(`the upstream ${this.name} is back`)
  }

  isAway(): void {
    const now = this.#now()
    // The calls that were under way fail together, and are one failure.
    if (this.awayUntil > now) return
    if (this.awayUntil === 0) this.#tell(`the upstream ${this.name} is away`)
    else this.#pauseMs = Math.min(this.#pauseMs * 2, longestPauseMs)
    this.awayUntil = now + this.#pauseMs
  }
}

async function* messagesOf(
  begun: Promise<{ metadata: Metadata; messages: AsyncIterable<Uint8Array> }>,
): AsyncGenerator<Uint8Array, void> {
  yield* (await begun).messages
}
