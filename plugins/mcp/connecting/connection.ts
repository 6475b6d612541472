import type {
  Client,
  jsonSchemaValidator,
  JsonSchemaValidatorResult,
} from '@modelcontextprotocol/client'
import { RuntimeError, type Log } from '#core'
import type { ServerConfig } from '../config/config.ts'
import { type ListedTool, readTools, type Result } from '../tools/listed.ts'
import { Child } from './child.ts'
import { sentenceOf } from './sentence.ts'
import { Transports } from './transport.ts'

/** What a server says of itself and its tools. */
export interface Listing {
  readonly tools: readonly ListedTool[]
  /** The revision of the protocol that was agreed on. */
  readonly revision: string
  /** The server's own first sentence about itself. */
  readonly about?: string
  /** For how long the list is good, in milliseconds. */
  readonly ttlMs: number
}

/** One call, as the turn makes it. */
export interface CallOptions {
  readonly signal: AbortSignal
  progress(done: number, total?: number, note?: string): void
}

interface ConnectionOptions {
  readonly log: Log
  readonly now: () => number
  /** Called when the server says that its tools are others now. */
  onChanged?(): void
  readonly connectMs?: number
  readonly idleMs?: number
  readonly probeMs?: number
}

/** A connection that is open. */
interface Open {
  readonly client: Client
  readonly child?: Child
}

const connectWithinMs = 20_000
const closeWhenIdleMs = 600_000
const longestCallMs = 600_000
/** A server that never answers an unknown first message is one of the older kind. */
const probeWithinMs = 3_000
const hourMs = 3_600_000
const minuteMs = 60_000
/** How often a server may be started in a minute. */
const startsPerMinute = 3
const mostPages = 20

/** Schemas of others are data: they are sent to the model, and never carried out. */
const takesAnything: jsonSchemaValidator = {
  getValidator: <T>() => {
    // Nobody reads what it returns: the package wants it to be of the type that the schema describes.
    return (input: unknown): JsonSchemaValidatorResult<T> => ({
      valid: true,
      data: input as T,
      errorMessage: undefined,
    })
  },
}

/**
 * The connection to one server: opened by the first question, shared by all, closed when nobody has asked for a while. What goes
 * wrong is one sentence, which stays until the server answers again.
 */
export class Connection {
  /** Why the server could not be used when it was last asked. */
  fault: string | undefined
  readonly #config: ServerConfig
  readonly #options: ConnectionOptions
  readonly #transports: Transports
  #open: Promise<Open> | undefined
  #starts: number[] = []
  #calls = 0
  #idle: NodeJS.Timeout | undefined
  #isClosed = false
  /** The child of the connection that is open or being opened. */
  #child: Child | undefined

  constructor(config: ServerConfig, options: ConnectionOptions) {
    this.#config = config
    this.#options = options
    this.#transports = new Transports(config)
  }

  /** Whether a connection is open or being opened. */
  get isOpen(): boolean {
    return this.#open !== undefined
  }

  /** Asks the server for its tools. */
  list(signal?: AbortSignal): Promise<Listing> {
    return this.#use(async ({ client }) => {
      const within = this.#options.connectMs ?? connectWithinMs
      const answer = await client.listTools(undefined, {
        timeout: within,
        maxTotalTimeout: within,
        cacheMode: 'refresh',
        signal,
      })
      const ttl: unknown = Reflect.get(answer, 'ttlMs')
      const about = aboutOf(client.getInstructions())
      return {
        tools: readTools(answer.tools),
        revision: client.getNegotiatedProtocolVersion() ?? '',
        ...(about !== undefined && { about }),
        ttlMs: typeof ttl === 'number' && ttl > 0 ? Math.min(ttl, 24 * hourMs) : hourMs,
      }
    })
  }

  /**
   * Calls a tool. What a server that dies in a write has done nobody knows; a read is asked again by the runtime, as any reading tool
   * is that fails for a while.
   */
  async call(
    tool: ListedTool,
    args: Readonly<Record<string, unknown>>,
    options: CallOptions,
    isRead: boolean,
  ): Promise<Result> {
    let begun = false
    try {
      return await this.#use((open) => {
        begun = true
        return this.#callOnce(open, tool, args, options)
      })
    } catch (error) {
      if (options.signal.aborted) throw options.signal.reason
      if (!(error instanceof Lost)) throw error
      if (isRead || !begun) throw unusable(error.message)
      throw new RuntimeError(
        'OUTCOME_UNKNOWN',
        `${error.message} Whether "${tool.name}" has happened is not known.`,
        { hint: 'Do not repeat the call. Find out with a reading tool, or tell the user.' },
      )
    }
  }

  /** Notes that the server took too long, and says so in a sentence, or what it sent in place of an answer. */
  late(withinMs: number): string {
    const error = { code: 'REQUEST_TIMEOUT' }
    return (this.fault = sentenceOf(error, { ...this.#about, child: this.#child, withinMs }))
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await this.#drop()
  }

  async #callOnce(
    { client, child }: Open,
    { name, parameters }: ListedTool,
    args: Readonly<Record<string, unknown>>,
    { signal, progress }: CallOptions,
  ): Promise<Result> {
    try {
      return await client.callTool(
        { name, arguments: { ...args } },
        {
          signal,
          // Without the schema of its results, which the package would hold the answer to.
          toolDefinition: { name, inputSchema: { ...parameters, type: 'object' } },
          timeout: this.#config.oracle.timeoutMs,
          resetTimeoutOnProgress: true,
          maxTotalTimeout: longestCallMs,
          onprogress: ({ progress: done, total, message }) => progress(done, total, message),
        },
      )
    } catch (error) {
      if (signal.aborted) throw signal.reason
      throw this.#readable(error, child, this.#config.oracle.timeoutMs)
    }
  }

  /** Does something with the open connection, and counts it, so that the connection is not closed meanwhile. */
  async #use<T>(work: (open: Open) => Promise<T>): Promise<T> {
    this.#calls++
    clearTimeout(this.#idle)
    try {
      const open = await this.#connected()
      let value: T
      try {
        value = await work(open)
      } catch (error) {
        throw error instanceof RuntimeError || error instanceof Lost
          ? error
          : this.#readable(error, open.child, this.#options.connectMs ?? connectWithinMs)
      }
      this.fault = undefined
      return value
    } finally {
      this.#calls--
      if (this.#calls === 0 && this.#open !== undefined) {
        const ms = this.#options.idleMs ?? closeWhenIdleMs
        this.#idle = setTimeout(() => void this.#drop(), ms).unref()
      }
    }
  }

  /** The open connection. Those who ask while it is being opened wait for the same one. */
  #connected(): Promise<Open> {
    if (this.#isClosed) return Promise.reject(unusable('The server of the oracle is closing.'))
    if (this.#open) return this.#open
    const now = this.#options.now()
    this.#starts = this.#starts.filter((time) => time > now - minuteMs)
    if (this.#starts.length >= startsPerMinute)
      return Promise.reject(
        unusable(
          `${this.fault ?? `${this.#config.name}: it ends again and again.`} It is tried again within a minute.`,
        ),
      )
    this.#starts.push(now)
    const opening = this.#begin()
    this.#open = opening
    opening.catch(() => {
      if (this.#open === opening) this.#open = undefined
    })
    return opening
  }

  async #begin(): Promise<Open> {
    const { way } = this.#config
    try {
      return await this.#connect('auto')
    } catch (error) {
      // Some older servers end at a first message that they do not know: then they are asked in the older way.
      const isOlder = way.kind === 'stdio' && error instanceof EndedAtProbe
      if (!isOlder) throw error instanceof EndedAtProbe ? error.refusal : error
    }
    return this.#connect('legacy')
  }

  async #connect(mode: 'auto' | 'legacy'): Promise<Open> {
    const { way } = this.#config
    const within = this.#options.connectMs ?? connectWithinMs
    const { Client: SdkClient } = await import('@modelcontextprotocol/client')
    const transport = await this.#transports.next()
    const child = transport instanceof Child ? transport : undefined
    this.#child = child
    const client = new SdkClient(
      { name: 'oracle-runtime', version: '1' },
      {
        capabilities: {}, // a server that wants sampling, roots or elicitation gets an error that says so
        jsonSchemaValidator: takesAnything,
        inputRequired: { autoFulfill: false },
        listMaxPages: mostPages,
        versionNegotiation: {
          mode,
          probe: {
            timeoutMs:
              way.kind === 'stdio'
                ? Math.min(this.#options.probeMs ?? probeWithinMs, within / 2)
                : within,
          },
        },
        listChanged: {
          tools: { autoRefresh: false, onChanged: () => this.#options.onChanged?.() },
        },
      },
    )
    const signal = AbortSignal.timeout(within)
    try {
      await client.connect(transport, { timeout: within, signal })
    } catch (error) {
      const endedByItself = child?.endedByItself === true && !child.end?.fault
      const refusal = unusable(
        (this.fault = sentenceOf(error, { ...this.#about, child, withinMs: within })),
      )
      await client.close().catch(() => undefined)
      await transport.close().catch(() => undefined)
      this.#tellErrors(child)
      throw mode === 'auto' && endedByItself ? new EndedAtProbe(refusal) : refusal
    }
    const open = { client, ...(child && { child }) }
    const opened = this.#open
    client.onclose = () => {
      if (this.#open === opened) this.#open = undefined
      this.#tellErrors(child)
    }
    return open
  }

  /** An error in words that the model and the operator may read. A connection that is gone is told apart. */
  #readable(error: unknown, child: Child | undefined, withinMs: number): RuntimeError | Lost {
    const code: unknown =
      typeof error === 'object' && error !== null ? Reflect.get(error, 'code') : ''
    const isLost =
      code === 'CONNECTION_CLOSED' || code === 'SEND_FAILED' || child?.end !== undefined
    const sentence = sentenceOf(error, { ...this.#about, child, withinMs })
    if (isLost || typeof code !== 'number') this.fault = sentence
    if (isLost) {
      void this.#drop()
      return new Lost(sentence)
    }
    return unusable(sentence)
  }

  get #about() {
    const { name, way, oracle } = this.#config
    return { name, way, hasOauth: oracle.oauth !== undefined }
  }

  /** What a child wrote about itself goes to the log. */
  #tellErrors(child: Child | undefined): void {
    if (!child || child.errors === '') return
    const { name } = this.#config
    const text = child.errors
    this.#options.log.info({ server: name, text }, `what the MCP server ${name} wrote about itself`)
  }

  async #drop(): Promise<void> {
    clearTimeout(this.#idle)
    const opening = this.#open
    this.#open = undefined
    const open = await opening?.catch(() => undefined)
    await open?.client.close().catch(() => undefined)
    await open?.child?.close()
  }
}

/** The connection is gone. */
class Lost extends Error {}

/** A child ended before it had said which version it speaks. */
class EndedAtProbe extends Error {
  readonly refusal: RuntimeError

  constructor(refusal: RuntimeError) {
    super(refusal.message)
    this.refusal = refusal
  }
}

/** The refusal of a server that cannot be used now. */
export const unusable = (sentence: string): RuntimeError =>
  new RuntimeError('UPSTREAM_FAILED', sentence, {
    hint: 'Tell the user that this server cannot be used now, and why.',
  })

/** The first sentence of what a server says about itself. */
function aboutOf(instructions: string | undefined): string | undefined {
  const text = instructions?.replaceAll(/[\p{Cc}\p{Cf}\s]+/gu, ' ').trim()
  if (!text) return undefined
  const first = /^.*?[.!?](?= |$)/.exec(text.slice(0, 400))?.[0] ?? text
  return first.slice(0, 160).toWellFormed()
}
