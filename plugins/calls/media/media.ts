import { Worker } from 'node:worker_threads'
import type { FromMedia, Place, ToMedia } from './messages.ts'

/** How long an answer to an offer may take. The first one waits for the packages. */
const answerMs = 20_000
/** How long a picture of the camera is waited for; the thread itself gives up earlier. */
const lookMs = 4_000
/** So many deaths of the thread in a minute, and it is not started again. */
const mostDeaths = { count: 3, ms: 60_000 }

/** What a call hears of its sound. */
export type MediaListener = (message: FromMedia) => void

/** The thread of sound, as the rest of the plugin sees it. It is started by the first call. */
export class Media {
  #worker: Worker | undefined
  readonly #listeners = new Map<string, MediaListener>()
  readonly #looks = new Map<number, (webp: Uint8Array | undefined) => void>()
  #looked = 0
  #deaths: number[] = []
  /** Why no call can be made any more. */
  fault: string | undefined

  /** Answers an offer, and has the listener hear what happens from then on. */
  async open(
    call: string,
    offer: { readonly sdp: string; readonly place: Place; readonly silenceMs: number },
    listener: MediaListener,
  ): Promise<string> {
    const { promise, resolve, reject } = Promise.withResolvers<string>()
    const late = setTimeout(() => reject(new Error('The call was not answered in time.')), answerMs)
    this.#listeners.set(call, (message) => {
      if (message.type === 'opened') resolve(message.sdp)
      else if (message.type === 'failed' || message.type === 'lost')
        reject(new Error(describe(message)))
      listener(message)
    })
    try {
      this.tell({ type: 'open', call, ...offer })
      return await promise
    } catch (error) {
      this.close(call)
      throw error
    } finally {
      clearTimeout(late)
    }
  }

  /** Starts the thread before a call needs it. */
  warm(): void {
    this.#started()
  }

  /** Whether the thread runs. */
  get isWarm(): boolean {
    return this.#worker !== undefined
  }

  tell(message: ToMedia): void {
    if (message.type === 'play')
      this.#started().postMessage(message, [message.pcm.buffer as ArrayBuffer])
    else this.#started().postMessage(message)
  }

  /** Asks for one picture of the camera. Undefined where none comes in time. */
  async look(call: string): Promise<Uint8Array | undefined> {
    const number = ++this.#looked
    const { promise, resolve } = Promise.withResolvers<Uint8Array | undefined>()
    const late = setTimeout(resolve, lookMs, undefined)
    this.#looks.set(number, resolve)
    try {
      this.tell({ type: 'look', call, number })
      return await promise
    } finally {
      clearTimeout(late)
      this.#looks.delete(number)
    }
  }

  close(call: string): void {
    if (this.#listeners.delete(call))
      this.#worker?.postMessage({ type: 'close', call } satisfies ToMedia)
  }

  async end(): Promise<void> {
    this.#listeners.clear()
    await this.#worker?.terminate()
  }

  #started(): Worker {
    if (this.fault !== undefined) throw new Error(this.fault)
    if (this.#worker) return this.#worker
    const worker = new Worker(workerPlace, { name: 'calls' })
    worker.unref()
    worker.on('message', (message: FromMedia) => {
      if (message.type === 'looked') this.#looks.get(message.number)?.(message.webp)
      else this.#listeners.get(message.call)?.(message)
    })
    worker.on('error', () => undefined) // its end follows
    worker.once('exit', () => this.#died())
    return (this.#worker = worker)
  }

  /** The calls of a thread that died are lost; they come back, to a new one. */
  #died(): void {
    this.#worker = undefined
    const at = performance.now()
    this.#deaths = [...this.#deaths.filter((one) => at - one < mostDeaths.ms), at]
    if (this.#deaths.length >= mostDeaths.count)
      this.fault = `The thread of sound died ${mostDeaths.count} times in a minute.`
    for (const [call, listener] of [...this.#listeners]) listener({ call, type: 'lost' })
    this.#listeners.clear()
  }
}

/** The file of the thread, beside this one: TypeScript in the repository, JavaScript in the package. */
const workerPlace = new URL(
  import.meta.url.endsWith('.ts') ? './worker.ts' : './worker.js',
  import.meta.url,
)
const describe = (message: FromMedia) =>
  message.type === 'failed' ? message.reason : 'The call is lost.'
